# Sapwood from a fresh checkout: needs Python 3.11 or newer with pip, and make.
#
#   make run    make the environment (.venv) and show the whole thing on shipped samples
#   make test   the same, with what the tests need, and run the default suite
#   make lint   the linters
#   make clean  remove what these made

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

# The environment has no pip of its own: this machine's fills it, so that a Python without `ensurepip` will do.
PIP := $(PYTHON) -m pip --python $(BIN)/python --disable-pip-version-check
# Every version and hash comes from the lock file; an address of a registry comes from your own pip settings alone.
LOCKED := install --quiet --require-hashes --requirement

.PHONY: run test lint clean

run: $(VENV)/run.stamp
	@$(BIN)/sapwood demo

test: $(VENV)/test.stamp
	$(BIN)/python -m pytest -n 2

lint: $(VENV)/test.stamp
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy --platform linux
	$(BIN)/mypy --platform win32
	$(BIN)/mypy --platform darwin
	$(BIN)/lint-imports

clean:
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/run.stamp: requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Sapwood needs Python 3.11 or newer; name one: make PYTHON=python3.12")'
	@$(PYTHON) -m pip --version > /dev/null 2>&1 || \
	  { echo "$(PYTHON) has no pip (in a virtual environment: deactivate it); name another: make PYTHON=/usr/bin/python3"; exit 1; }
	@echo "Making $(VENV) (once; the next start is quick)"
	@$(PYTHON) -m venv --without-pip --clear $(VENV)
	@sed '/^# --- only for the tests ---/,$$d' requirements.lock > $(VENV)/run.lock
	@$(PIP) $(LOCKED) $(VENV)/run.lock
	@$(PIP) install --quiet --no-deps --no-build-isolation --editable .
	@touch $@

$(VENV)/test.stamp: $(VENV)/run.stamp
	@echo "Adding what the tests need"
	@$(PIP) $(LOCKED) requirements.lock
	@touch $@
