# The two commands of the README are `make run` and `make test`; each sets up what it needs.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
RUNTIME := $(VENV)/.runtime
DEV := $(VENV)/.dev
BROWSER := $(VENV)/.browser
CHECKED := $(VENV)/lint.log

# Byte code is part of a fast start; some machines switch it off.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: setup run test lint format bench chaos lock clean

setup: $(DEV)

run: $(RUNTIME)
	@$(BIN)/ollim-bot

# Much of a test is waiting, so there are more workers than processors. The checks of `lint` run
# beside them; what they say comes last.
test: $(BROWSER)
	@$(MAKE) --no-print-directory lint >$(CHECKED) 2>&1 & checks=$$!; \
	$(BIN)/python -m pytest -n 4 --dist worksteal $(TESTS); tests=$$?; \
	wait $$checks; checks=$$?; cat $(CHECKED); \
	test $$tests = 0 || echo "make test: the tests have FAILED, see above"; \
	test $$checks = 0 || echo "make test: lint has FAILED, see above"; \
	test $$tests = 0 && test $$checks = 0

lint: $(DEV)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(DEV)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(DEV)
	$(BIN)/python -m bench

chaos: $(DEV)
	$(BIN)/python -m chaos
	$(BIN)/python -m chaos.years
	$(BIN)/python -m pytest -n 2 -m chaos --chaos-seconds 60 tests/chaos

lock: $(DEV)
	$(BIN)/python -m pip install --quiet uv
	$(BIN)/uv pip compile $(LOCK_FLAGS) --group build -o requirements.lock pyproject.toml
	$(BIN)/uv pip compile $(LOCK_FLAGS) --group dev -o requirements-dev.lock pyproject.toml

LOCK_FLAGS := --quiet --upgrade --universal --python-version 3.11 --generate-hashes \
	--no-emit-index-url --no-header

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check

$(BIN)/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "ollim-bot needs Python 3.11 or newer: make PYTHON=python3.12")'
	$(PYTHON) -m venv $(VENV)

$(RUNTIME): $(BIN)/python requirements.lock pyproject.toml
	$(INSTALL) --require-hashes -r requirements.lock
	$(INSTALL) --no-deps --no-build-isolation --editable .
	@touch $@

$(DEV): $(RUNTIME) requirements-dev.lock
	$(INSTALL) --require-hashes -r requirements-dev.lock
	@touch $@

$(BROWSER): $(DEV)
	tests/browser/setup --install
	@touch $@
