# Sapwood from a fresh checkout: needs Python 3.11 or newer with pip, and make.
#
#   make run              make the environment (.venv) and show the whole thing on shipped samples
#   make test             the same, with what the tests need, and run the default suite
#   make lint             the linters
#   make frozen           a build that needs no Python: dist/sapwood, one folder
#   make installer-check  compile the Windows installer and try it under Wine (Debian, as root; minutes at first)
#   make clean            remove what these made

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

# The environment has no pip of its own: this machine's fills it, so that a Python without `ensurepip` will do.
PIP := $(PYTHON) -m pip --python $(BIN)/python --disable-pip-version-check
# Every version and hash comes from the lock file; an address of a registry comes from your own pip settings alone.
LOCKED := install --quiet --require-hashes --requirement

# Where the 32-bit Debian with Wine lies, 2 GB; it is made once.
WINE_ROOT ?= build/i386

.PHONY: run test lint frozen installer-check clean

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

frozen: $(VENV)/run.stamp
	@$(BIN)/python -c 'import PyInstaller' 2> /dev/null || \
	  $(PIP) install --quiet --no-build-isolation --editable '.[frozen]'
	@$(BIN)/python -m PyInstaller --noconfirm --log-level ERROR --distpath dist --workpath build/frozen \
	  packaging/sapwood.spec
	@dist/sapwood/sapwood self-test
	@du -sh dist/sapwood

installer-check:
	packaging/wine_root.sh $(WINE_ROOT)
	$(PYTHON) packaging/installer_check.py $(WINE_ROOT)

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
