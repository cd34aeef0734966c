#!/bin/sh
# versions.sh oldest|newest [TESTS]: a short run of the tests with these versions of every dependency.
set -eu
which=$1
shift
[ $# -gt 0 ] || set -- tests/test_draws.py tests/test_textform.py tests/release \
    tests/guarantees/test_fine_rho.py tests/mechanisms/test_bucket_plan.py \
    tests/queries/test_answer.py tests/queries/test_parse.py tests/operators/test_estimators.py \
    tests/e2e/test_command_line.py tests/table/test_recodes.py
room=$(mktemp -d)
trap 'rm -rf "$room"' EXIT
python=${PYTHON:-python3}
: >"$room/constraints"
[ "$which" = newest ] || "$python" tests/packaging/lowest.py web files >"$room/constraints"
"$python" -m venv "$room/env"
"$room/env/bin/python" -m pip install --quiet --disable-pip-version-check --upgrade --no-compile \
    -c "$room/constraints" '.[web,files]' pytest pytest-xdist hypothesis pandas polars
"$room/env/bin/python" -m pip list --disable-pip-version-check --format=freeze |
    grep -iE '^(numpy|pyarrow|duckdb|cryptography|sqlglot|scipy|typer|rich|jsonschema|altair|starlette|uvicorn)='
# the installed package, not the sources: doctests of src would load both
OPENBLAS_NUM_THREADS=1 "$room/env/bin/python" -m pytest -q -p no:cacheprovider -m "not slow" \
    -o addopts="--import-mode=importlib" "$@"
