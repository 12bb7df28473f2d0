# Two commands on a fresh machine with python3 (>= 3.11), make and git:
#   make demo    installs into .venv and measures the built-in providers on the embedded benchmark
#   make test    installs what the tests need and runs them
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Tests run beside each other, three more at a time than there are cores, since some wait; what PYTEST_ADDOPTS and
# PYTEST_ARGS say counts more: PYTEST_ADDOPTS="-n 0" make test
WORKERS := -n $(shell expr $$(getconf _NPROCESSORS_ONLN) + 3) --maxprocesses 6 --dist worksteal
PYTEST := PYTEST_ADDOPTS="$(WORKERS) $$PYTEST_ADDOPTS" $(BIN)/python -m pytest
PYTEST_ARGS ?=
# Hundreds of tests start the program: what is compiled once is kept.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: demo test test-long mutations lint coverage docs lock servers fleet site clean

demo: $(VENV)/.installed
	$(BIN)/bench run

test: $(VENV)/.installed-test servers
	$(PYTEST) $(PYTEST_ARGS)

# What takes too long for every change: laws on thousands of random examples, storms of kills and signals, large files.
test-long: $(VENV)/.installed-test servers
	$(PYTEST) -m "long or hypothesis" --hypothesis-profile long --timeout 3600 $(PYTEST_ARGS)

# Which test fails for each of the mistakes of tests/mutations.toml; MUTATIONS="--only 1..12" tries some of them.
mutations: $(VENV)/.installed-test
	$(BIN)/python -m tests.mutations $(MUTATIONS)

lint: $(VENV)/.installed-test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# Branch coverage of bench/ by all tests and the processes they start; below 90 % it fails.
coverage: $(VENV)/.installed-test servers
	$(BIN)/coverage erase
	-PYTEST_ADDOPTS="$(WORKERS) $$PYTEST_ADDOPTS" $(BIN)/coverage run -m pytest -m "" $(PYTEST_ARGS)
	$(BIN)/coverage combine -q
	$(BIN)/coverage report --skip-covered --sort=cover --fail-under=90

# The site, into build/docs; a dead link or a page outside the navigation is an error.
docs: $(VENV)/.installed-test
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict -f docs/site/mkdocs.yml

# Real servers that contract tests talk to, each in an environment of its own.
servers: $(VENV)/.installed-test
	$(BIN)/python -m tests.contract.servers install

# Real memory systems on the demo, each installed, started, measured and stopped; ends with a table.
SYSTEMS ?= chroma pgvector mem0-library
BENCHMARKS ?= demo
fleet: $(VENV)/.installed-test
	$(BIN)/python -m perf.fleet $(SYSTEMS) --benchmarks $(BENCHMARKS) $(if $(WORKSPACE),--workspace $(WORKSPACE))

# The published results as pages, with the receipts beside them and a page that verifies one in the browser.
site: $(VENV)/.installed
	$(BIN)/bench export --site build/site
	cp -R results/published build/site/

# For maintainers: pins every dependency with its hashes (needs uv on the PATH).
lock:
	uv pip compile --universal --python-version 3.11 --generate-hashes --no-header --no-annotate --group build \
		pyproject.toml -o requirements.lock
	uv pip compile --universal --python-version 3.11 --generate-hashes --no-header --no-annotate --group build --group test \
		--group lint --group docs --extra embed --extra mcp --extra otel --extra pandas --extra pgvector --extra parquet --extra cluster pyproject.toml -o requirements-test.lock

$(VENV)/.created:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "error: Python 3.11 or newer is needed; name one with: make PYTHON=python3.12 $(MAKECMDGOALS)" >&2; exit 2; }
	@$(PYTHON) -m venv $(VENV) || { \
		echo "error: python3 has no venv module; install it (Debian: apt-get install python3-venv)" >&2; exit 2; }
	@touch $@

$(VENV)/.installed: $(VENV)/.created requirements.lock pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

$(VENV)/.installed-test: $(VENV)/.created requirements-test.lock pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-test.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@ $(VENV)/.installed

clean:
	rm -rf $(VENV) .servers dist build .mypy_cache .ruff_cache .pytest_cache
