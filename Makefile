# Genepool's commands. Each creates the virtual environment .venv first if it is missing.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
PAGE := genepool/dashboard/static/page.js
PAGE_STAMP := page/node_modules/.installed
CLUSTER_STAMP := $(VENV)/.installed-cluster
BENCH_VENV := .venv-bench
BENCH_STAMP := $(BENCH_VENV)/.installed
export PYTHONHASHSEED ?= 0

.PHONY: help setup page browser demo docs test test-thorough test-cluster bench-dashboard bench-workers storm check bench bench-training fuzz format clean \
  check-export page-lint page-format

help:  ## print this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 18

setup: $(STAMP)  ## create .venv with everything; build the dashboard's page if Node.js is installed
	@$(MAKE) -s page || echo "Everything is ready except the dashboard's page; install Node.js and run make page."

# torch is installed first and pinned: a range in a dependency could pull in gigabytes of another build.
$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
	  [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && apt-get update -q && apt-get install -qy python3-venv; } || { \
	  echo "Python's venv module is missing: install it (Debian: apt-get install python3-venv) and try again."; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install -q -c constraints.txt torch
	$(BIN)/pip install -q -c constraints.txt -e '.[dev]'
	@touch $@

page: $(PAGE)  ## build the dashboard's page, with libraries from npm pinned in page/package-lock.json

$(PAGE): page/package.json page/package-lock.json page/build.mjs $(wildcard page/src/*)
	@$(MAKE) -s $(PAGE_STAMP)
	cd page && npm run --silent build
	@touch $@

$(PAGE_STAMP): page/package.json page/package-lock.json
	@command -v npm >/dev/null || { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && apt-get update -q && \
	  apt-get install -qy nodejs npm; } || { \
	  echo "The page needs Node.js and npm: install them (Debian: apt-get install nodejs npm) and try again."; exit 1; }
	cd page && npm ci --no-audit --no-fund --loglevel=error
	@touch $@

page-lint page-format:  # skipped without npm
	@command -v npm >/dev/null || { echo "npm is not installed, so the page is skipped."; exit 0; }; \
	  $(MAKE) -s $(PAGE_STAMP) && cd page && npm run --silent $(@:page-%=%)

browser:  # for the page's tests; without one they are skipped, or fail with GENEPOOL_NEEDS_BROWSER=1
	@command -v chromium >/dev/null || { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && apt-get update -q && \
	  apt-get install -qy --no-install-recommends chromium fonts-dejavu-core; } || \
	  echo "chromium is not installed, so the page is not tested (Debian: apt-get install chromium)."

demo: $(STAMP)  ## evolve a classifier for two minutes on the bundled images
	$(BIN)/genepool run demo
	@echo; $(BIN)/genepool lineage demo

docs: $(STAMP)  ## build the documentation into site/; warnings are errors
	$(BIN)/mkdocs build --quiet
	@echo "site/index.html"

test: $(STAMP) browser  ## run the tests, including the page in a browser; GENEPOOL_DATA=folder adds the official data sets
	@$(MAKE) -s page || echo "The dashboard's page is not built, so it is not tested."
	$(BIN)/python -m pytest -n 2 -rs -m 'not thorough'

test-thorough: $(STAMP) browser  ## run slow or redundant tests
	@$(MAKE) -s page || echo "The dashboard's page is not built, so it is not tested."
	$(BIN)/python -m pytest -n 2 -rs -m thorough

test-cluster: $(CLUSTER_STAMP)  ## test Ray with three nodes and Slurm with one, on this machine: about ten minutes
	@$(MAKE) -s page || echo "The dashboard's page is not built, so its dashboard is not tested."
	GENEPOOL_CLUSTER=$${GENEPOOL_CLUSTER:-1} $(BIN)/python -m pytest -rs --timeout 1200 tests/cluster

# Ray is an optional dependency, and large.
$(CLUSTER_STAMP): $(STAMP)
	$(BIN)/pip install -q -c constraints.txt -e '.[ray]' kubernetes-validate
	@touch $@

fuzz: $(STAMP)  ## run the property tests longer, with other examples each time
	GENEPOOL_FUZZ_EXAMPLES=$${EXAMPLES:-100000} $(BIN)/python -m pytest -n 2 --timeout 0 -m 'not thorough' -k "fuzz or decoder_answers"

storm: $(STAMP)  ## kill and freeze thousands of workers, real and simulated: about half an hour
	@$(MAKE) -s page || echo "The dashboard's page is not built, so only its reader takes part."
	$(BIN)/python -m tests.races.storm
	$(BIN)/python -m tests.races.seeds $${SEEDS:-20000}

check-export: $(STAMP)  ## use exported models in fresh environments without Genepool: a few minutes
	$(BIN)/python -m tests.acceptance.exported_models

bench: $(STAMP) $(BENCH_STAMP)  ## measure training and the store, relative to the machine's limits
	$(BIN)/python -m benchmarks.training
	$(BIN)/python -m benchmarks.store $(if $(QUICK),--quick)

# Optuna, which the benchmark compares with, gets its own environment: it is not a dependency.
$(BENCH_STAMP): benchmarks/constraints.txt
	$(PYTHON) -m venv $(BENCH_VENV)
	@$(BENCH_VENV)/bin/pip install -q -c benchmarks/constraints.txt optuna && touch $@ || \
	  echo "Optuna could not be installed, so its column is left out."

check: $(STAMP)  ## check lint, format and types; the page too if npm is installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	@$(MAKE) -s page-lint

bench-training: $(STAMP)  ## compare training with a baseline, a hand-tuned loop and the CPU's limit, on CIFAR-10
	@mkdir -p benchmarks/results
	$(BIN)/genepool bench training --out benchmarks/results/training-comparison.json $(if $(QUICK),--quick)

bench-dashboard: $(STAMP)  ## measure the page with 100,000 individuals and the cost of observing: about 15 minutes
	@$(MAKE) -s page browser
	$(BIN)/python -m benchmarks.dashboard
	$(BIN)/python -m benchmarks.observers server
	$(BIN)/python -m benchmarks.observers workers

bench-workers: $(CLUSTER_STAMP)  ## compare Ray with local processes: about 15 minutes
	$(BIN)/python -m benchmarks.worker_pools

format: $(STAMP)  ## format the code
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	@$(MAKE) -s page-format

clean:  ## remove generated files
	rm -rf $(VENV) $(BENCH_VENV) build dist demo site page/node_modules genepool/dashboard/static \
	  .pytest_cache .mypy_cache .ruff_cache .hypothesis
