# Sets itself up: every target works on a bare Debian with Python 3.11+, make and nothing else.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
BASE := $(VENV)/.base
TESTS := $(BIN)/pytest --dist loadgroup --no-loadscope-reorder --durations 15

# where bytecode is not kept, every program that a test starts compiles what it loads once more
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test test-all test-slow test-oldest test-newest tools lint docs dist bench papers clean

# The demonstration needs the package alone, not what developers need
demo: $(BASE)
	$(BIN)/sfumato demo

# Style and types beside the tests: before them, one core would have nothing to do
define tested
@$(MAKE) -s lint >$(VENV)/lint.txt 2>&1 & lint=$$!; \
  $(TESTS) $(1); tests=$$?; wait $$lint || tests=1; cat $(VENV)/lint.txt; exit $$tests
endef

test: $(STAMP) tools
	$(call tested,-n 2 -m "not slow")

# Everything, the slow tests too, in one go. Many of these wait, for a browser or for a
# job: three processes keep two cores busy
test-all: $(STAMP) tools
	$(call tested,-n 3)

test-slow: $(STAMP) tools
	$(TESTS) -n 3 -m slow --durations 15

# What some tests need beyond Python; a test whose program is missing is skipped by name
tools:
	@sh tests/tools.sh

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check -q src papers tests benchmarks
	$(BIN)/mypy
	$(BIN)/lint-imports

# The documents as a site in site/: open site/index.html, no server and no network needed
docs: $(STAMP)
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict
	@echo "The documents are site/index.html"

# Wheel and source distribution, and the demo from the wheel in an empty environment
dist: $(STAMP)
	rm -rf dist
	$(BIN)/python -m build --outdir dist .
	sh tests/packaging/smoke.sh dist

# A short run with the oldest version of every dependency that pyproject.toml allows, or the newest
test-oldest test-newest: $(STAMP)
	sh tests/packaging/versions.sh $(@:test-%=%)

# Every paper's tables and figures, and pages/index.html with the verdict of each; with the public data sets where SFUMATO_DATA names them
papers: $(STAMP)
	$(BIN)/python -m papers all $(PAPERS) --out pages

bench: $(STAMP)
	$(BIN)/python -m benchmarks

# Debian keeps venv in a package of its own: where it is missing and we may, it is installed
$(BASE): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "sfumato needs Python 3.11 or newer; set PYTHON=…"; exit 1; }
	@test -x $(BIN)/pip || $(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); test "$$(id -u)" = 0 && \
	  apt-get update -qq && apt-get install -y -qq python3-venv && $(PYTHON) -m venv $(VENV); } || \
	  { rm -rf $(VENV); echo "Cannot make a virtual environment. On Debian: apt-get install python3-venv"; exit 1; }
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e .
	@touch $@

$(STAMP): $(BASE)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	@touch $@

clean:
	rm -rf $(VENV) demo site dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
