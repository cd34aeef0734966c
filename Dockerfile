# A small image of the program: `docker build -t sfumato .`, `docker run --rm -v "$PWD:/data" sfumato --help`
FROM python:3.13-slim-bookworm AS build
WORKDIR /source
COPY pyproject.toml README.md LICENSE ./
COPY src ./src
RUN python -m venv /opt/sfumato \
    && /opt/sfumato/bin/pip install --no-cache-dir --disable-pip-version-check '.[web,postgres,files]'

FROM python:3.13-slim-bookworm
COPY --from=build /opt/sfumato /opt/sfumato
# nobody's account: what it writes belongs to whom `docker run --user` names
RUN useradd --create-home --uid 1000 steward
USER 1000
ENV PATH=/opt/sfumato/bin:$PATH \
    PYTHONUNBUFFERED=1
WORKDIR /data
ENTRYPOINT ["sfumato"]
CMD ["--help"]
