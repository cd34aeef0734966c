#!/bin/sh
# smoke.sh DIST: install the wheel into an empty environment, away from the sources, and use it there.
set -eu
dist=$(cd "$1" && pwd)
room=$(mktemp -d)
trap 'rm -rf "$room"' EXIT
cd "$room"
"${PYTHON:-python3}" -m venv empty
empty/bin/python -m pip install --quiet --disable-pip-version-check "$dist"/*.whl
tar -tzf "$dist"/*.tar.gz | grep -q '/tests/conftest.py$' || { echo "the source has no tests"; exit 1; }
empty/bin/sfumato demo --rows "${ROWS:-20000}" --out demo | tail -1
test -s demo/report/report.html
empty/bin/sfumato generate hospital --rows 2000 --out people.parquet >/dev/null
empty/bin/sfumato publish people.parquet --quasi age,sex,region,admission --sensitive diagnosis \
    --guarantee 'l-diversity(3)' --out release >/dev/null
empty/bin/python - <<'P'
import sfumato as sf
assert "site-packages" in sf.__file__, sf.__file__
for name in sf.__all__:
    getattr(sf, name)
answer = sf.open("release").sql("SELECT COUNT(*) FROM release")
assert answer.to_arrow().num_rows == 1
print(f"sfumato {sf.__version__}: the wheel works")
P
