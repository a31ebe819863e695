# Genepool's commands. Each makes the virtual environment .venv first if it is missing.
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

help:  ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

setup: $(STAMP)  ## makes .venv and installs all that the project needs; builds the dashboard's page where Node.js is
	@$(MAKE) -s page || echo "Everything but the dashboard's page is ready; for that, install Node.js and run make page."

# torch comes first and pinned: a range, resolved by a dependency, may draw in gigabytes of another build.
$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
	  [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && apt-get update -q && apt-get install -qy python3-venv; } || { \
	  echo "Python's venv module is missing: install it (Debian: apt-get install python3-venv) and try again."; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install -q -c constraints.txt torch
	$(BIN)/pip install -q -c constraints.txt -e '.[dev]'
	@touch $@

page: $(PAGE)  ## builds the dashboard's page; its libraries come from npm, at the versions of page/package-lock.json

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

page-lint page-format:  # without npm the page is left out
	@command -v npm >/dev/null || { echo "There is no npm, so the page is left out."; exit 0; }; \
	  $(MAKE) -s $(PAGE_STAMP) && cd page && npm run --silent $(@:page-%=%)

browser:  # for the tests of the page; without one they are skipped and say so, or fail with GENEPOOL_NEEDS_BROWSER=1
	@command -v chromium >/dev/null || { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && apt-get update -q && \
	  apt-get install -qy --no-install-recommends chromium fonts-dejavu-core; } || \
	  echo "There is no chromium, so the page is not tested (Debian: apt-get install chromium)."

demo: $(STAMP)  ## evolves a classifier from nothing in two minutes, on the images that come with Genepool
	$(BIN)/genepool run demo
	@echo; $(BIN)/genepool lineage demo

docs: $(STAMP)  ## builds the documentation into site/, without a warning or not at all
	$(BIN)/mkdocs build --quiet
	@echo "site/index.html"

test: $(STAMP) browser  ## the tests, the page in a browser too; with GENEPOOL_DATA=folder also on whole official data sets
	@$(MAKE) -s page || echo "The dashboard's page is not built, so it is not tested."
	$(BIN)/python -m pytest -n 2 -rs -m 'not thorough'

test-thorough: $(STAMP) browser  ## tests that take long for what they add
	@$(MAKE) -s page || echo "The dashboard's page is not built, so it is not tested."
	$(BIN)/python -m pytest -n 2 -rs -m thorough

test-cluster: $(CLUSTER_STAMP)  ## a Ray cluster of three nodes and a Slurm of one, on this machine: some four minutes
	@$(MAKE) -s page || echo "The dashboard's page is not built, so it is not watched."
	GENEPOOL_CLUSTER=$${GENEPOOL_CLUSTER:-1} $(BIN)/python -m pytest -rs --timeout 1200 tests/cluster

# Ray is an extra, and too large to be in everybody's environment.
$(CLUSTER_STAMP): $(STAMP)
	$(BIN)/pip install -q -c constraints.txt -e '.[ray]' kubernetes-validate
	@touch $@

fuzz: $(STAMP)  ## looks longer, and elsewhere each time, for input that is not answered properly
	GENEPOOL_FUZZ_EXAMPLES=$${EXAMPLES:-100000} $(BIN)/python -m pytest -n 2 --timeout 0 -m 'not thorough' -k "fuzz or decoder_answers"

storm: $(STAMP)  ## kills and freezes thousands of workers, real ones and simulated ones: about half an hour
	@$(MAKE) -s page || echo "The dashboard's page is not built, so only its reader looks on."
	$(BIN)/python -m tests.races.storm
	$(BIN)/python -m tests.races.seeds $${SEEDS:-20000}

check-export: $(STAMP)  ## exports models and uses them in new environments that have no Genepool: a few minutes
	$(BIN)/python -m tests.acceptance.exported_models

bench: $(STAMP) $(BENCH_STAMP)  ## how fast networks train and populations evolve, compared with the machine's limits
	$(BIN)/python -m benchmarks.training
	$(BIN)/python -m benchmarks.store $(if $(QUICK),--quick)

# Optuna, which the benchmark compares with, gets its own environment: it is not a dependency.
$(BENCH_STAMP): benchmarks/constraints.txt
	$(PYTHON) -m venv $(BENCH_VENV)
	@$(BENCH_VENV)/bin/pip install -q -c benchmarks/constraints.txt optuna && touch $@ || \
	  echo "Optuna cannot be installed now, so the benchmark leaves its column out."

check: $(STAMP)  ## lint, format and types, of the page as well where npm is
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	@$(MAKE) -s page-lint

bench-training: $(STAMP)  ## compare training with a baseline, a hand-tuned loop and the CPU's limit, on CIFAR-10
	@mkdir -p benchmarks/results
	$(BIN)/genepool bench training --out benchmarks/results/training-comparison.json $(if $(QUICK),--quick)

bench-dashboard: $(STAMP)  ## the page with 100,000 individuals, and the cost of observing: a quarter of an hour on a quiet machine
	@$(MAKE) -s page browser
	$(BIN)/python -m benchmarks.dashboard
	$(BIN)/python -m benchmarks.observers server
	$(BIN)/python -m benchmarks.observers workers

bench-workers: $(CLUSTER_STAMP)  ## compare Ray with local processes: a quarter of an hour on a quiet machine
	$(BIN)/python -m benchmarks.worker_pools

format: $(STAMP)  ## puts the code into the agreed form
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	@$(MAKE) -s page-format

clean:  ## removes what the other commands made
	rm -rf $(VENV) $(BENCH_VENV) build dist demo site page/node_modules genepool/dashboard/static \
	  .pytest_cache .mypy_cache .ruff_cache .hypothesis
