# Genepool's commands. Each makes the virtual environment .venv first if it is missing.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
export PYTHONHASHSEED ?= 0

.PHONY: help setup demo test check bench fuzz format clean

help:  ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

setup: $(STAMP)  ## makes .venv and installs all that the project needs

# torch comes first and pinned: a range, resolved by a dependency, may draw in gigabytes of another build.
$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
	  [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && apt-get update -q && apt-get install -qy python3-venv; } || { \
	  echo "Python's venv module is missing: install it (Debian: apt-get install python3-venv) and try again."; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install -q -c constraints.txt torch
	$(BIN)/pip install -q -c constraints.txt -e '.[dev]'
	@touch $@

demo: $(STAMP)  ## trains two networks on the shipped images and prints what they reach and cost
	$(BIN)/python -m genepool.cli demo

test: $(STAMP)  ## every test
	$(BIN)/python -m pytest -n 2

check: $(STAMP)  ## lint, format and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(STAMP)  ## puts the code into the agreed form
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:  ## removes what the other commands made
	rm -rf $(VENV) build dist demo .pytest_cache .mypy_cache .ruff_cache .hypothesis
