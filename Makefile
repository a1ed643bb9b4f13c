# Every target sets up .venv/ by itself; nothing has to be installed beforehand but Python 3.11 or later and make.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
BASE := $(VENV)/.base
READY := $(VENV)/.ready
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --editable
PYTEST_FLAGS ?=
CONTRACTS := $(wildcard proto/millstream/proto/*.proto)
KERNELS := core/millstream/core/kernels/kernels.c
DASHBOARD := $(shell find dashboard/src -type f) $(wildcard dashboard/*.json dashboard/*.mjs)
NPM := $(shell command -v npm)
BUNDLED := $(if $(NPM),dashboard/node_modules/.all)# what the dashboard is checked and tested with
PYRIGHT := $(if $(NPM),tests/typing/node_modules/.all)

# Compiled modules are kept whatever the shell sets: else every worker of pytest, and every process that a test starts,
# compiles all that it imports.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo check test test-slow test-long tests-without-processes tests-with-processes tests-alone \
	lint lint-dashboard simulate mutants bench bench-peers bench-long docs docs-site docs-serve clean

$(BASE): pyproject.toml hatch_build.py $(CONTRACTS) $(KERNELS) $(DASHBOARD)  # what users install, and nothing else
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(INSTALL) .
	touch $@

$(READY): pyproject.toml hatch_build.py $(CONTRACTS) $(KERNELS) $(DASHBOARD)
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(INSTALL) '.[all,bench,dev,docs]'
	touch $(BASE) $@

demo: $(BASE)  ## a local cluster of separate processes, a wheel submitted over REST, its result checked
	$(BIN)/python examples/demo.py

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(MAKE) lint-dashboard

lint-dashboard: $(BUNDLED)  # types, and tests of what needs no browser
	$(if $(NPM),cd dashboard && npm run --silent lint && npm run --silent test,@echo 'no npm: the dashboard is not checked')

dashboard/node_modules/.all: dashboard/package-lock.json
	cd dashboard && npm ci --silent --ignore-scripts
	touch $@

tests/typing/node_modules/.all: tests/typing/package-lock.json
	cd tests/typing && npm ci --silent --ignore-scripts
	touch $@

check: $(READY)  ## for every change: lint, types, and the tests that start no process, with a quarter of the examples
	$(MAKE) --jobs=2 --keep-going --output-sync=target lint tests-without-processes

test: lint  ## all that the README promises, each component and each real server once
	$(MAKE) --keep-going docs-site $(TESTS)

test-slow: lint  ## what takes long by nature, and all examples of the tests that start no process
	$(MAKE) --keep-going $(TESTS) EXAMPLES=full WITHOUT_PROCESSES='and not long' WITH_PROCESSES='and slow and not long'

test-long: lint  ## everything, with the long versions of the chaos and load tests: hours
	$(MAKE) --keep-going docs-site $(TESTS) EXAMPLES=full WITHOUT_PROCESSES= WITH_PROCESSES=

TESTS := tests-without-processes tests-with-processes tests-alone
EXAMPLES := daily# see tests/thoroughness.py
WITHOUT_PROCESSES := and not slow and not long# which of the tests that start no process
WITH_PROCESSES := and not slow and not long
OR_NONE := || test $$? -eq 5# what pytest exits with when PYTEST_FLAGS leave no test

tests-without-processes: $(READY)  # a test that starts a process carries the marker `process`, or fails
	$(BIN)/pytest -m 'not process $(WITHOUT_PROCESSES)' --numprocesses=auto --dist=worksteal --hypothesis-profile=$(EXAMPLES) $(PYTEST_FLAGS) $(OR_NONE)

tests-with-processes: $(READY) $(BUNDLED) $(PYRIGHT)  # three files at a time: they wait more than they work; the tests of a file may share a cluster
	$(BIN)/pytest -m 'process and not alone $(WITH_PROCESSES)' --numprocesses=3 --dist=loadfile --no-loadscope-reorder $(PYTEST_FLAGS) $(OR_NONE)

tests-alone: $(READY)
	$(BIN)/pytest -m 'process and alone $(WITH_PROCESSES)' $(PYTEST_FLAGS) $(OR_NONE)

SEEDS ?= 10000..20000
SHAPE ?= short

simulate: $(READY)  ## fault schedules of a simulated cluster: SEEDS=1000..2000, or one; SHAPE=long for long ones
	$(BIN)/python tests/simulation/simulate.py $(SEEDS) --shape=$(SHAPE)

SEED ?= 1
COUNT ?= 300

mutants: $(READY)  ## small mutations of the pure machines, run against their tests: SEED=2, COUNT=50, FILES="one.py other.py"
	$(BIN)/python tests/mutants/mutate.py --seed=$(SEED) --count=$(COUNT) $(FILES)

bench: $(READY)  ## measured comparisons; writes benchmarks/RESULTS.md
	$(BIN)/python benchmarks/run.py

PYFLINK := benchmarks/.peers/pyflink

bench-peers: $(PYFLINK)/.ready  ## PyFlink, for bench to compare with; it needs Java 17

$(PYFLINK)/.ready:  # of its own, because PyFlink needs other versions of some packages
	test -x $(PYFLINK)/bin/python || $(PYTHON) -m venv $(PYFLINK)
	$(PYFLINK)/bin/python -m pip install --quiet --disable-pip-version-check apache-flink==2.3.0
	touch $@

bench-long: $(READY)  ## the same with bigger sizes; writes benchmarks/RESULTS-long.md
	$(BIN)/python benchmarks/run.py --long

docs: $(READY)  ## regenerates docs/configuration.md from the table of options
	$(BIN)/python docs/generate.py

# MkDocs imports what the reference is made of, and is strict: any warning is an error.
docs-site: $(READY)  ## the documentation as a web site, in build/site; a broken link is an error
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict

docs-serve: $(READY)  ## shows it at http://127.0.0.1:8000, and again after every change
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs serve

clean:
	rm -rf $(VENV) benchmarks/.peers build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	rm -f proto/millstream/proto/*_pb2.py proto/millstream/proto/*_pb2.pyi
	rm -rf dashboard/node_modules tests/typing/node_modules tests/dashboard/screenshots
	rm -rf dispatcher/millstream/dispatcher/dashboard/built core/millstream/core/kernels/built
