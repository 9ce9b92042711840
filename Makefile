# Every target makes its own environment in $(VENV) first, from nothing where there is none.
# `make check` is what continuous integration runs, no more and no less.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.NOTPARALLEL:
.DELETE_ON_ERROR:

VENV ?= .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
FRESH := $(VENV)/.compiled
PACKAGES := predictor pipelines serving
LONGEST_FILE := 400
MAX_WORKERS ?= 2
# extra arguments, such as: make test TESTS="tests/unit -k sacct"
TESTS ?=

# OpenMP threads that spin while they wait make LightGBM slow wherever processes share cores.
export OMP_WAIT_POLICY := passive

.PHONY: help setup demo services test check format-check lint types imports sizes bench fmt package clean

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))

setup: $(STAMP)  ## make the environment (.venv); done anew only when pyproject.toml changes

$(STAMP): pyproject.toml
	@python='$(PYTHON)'; \
	usable() { "$$1" -c 'import sys, venv; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; }; \
	if [[ -z "$$python" ]]; then \
	  for name in python3 python3.13 python3.12 python3.11 python3.14; do \
	    if usable "$$name"; then python="$$name"; break; fi; \
	  done; \
	fi; \
	if [[ -z "$$python" ]] || ! usable "$$python"; then \
	  echo "make: no usable Python$${python:+ in '$$python'}; needed is 3.11 or later with the module venv" >&2; \
	  echo "      found: $$(python3 --version 2>&1 || true); choose one with: make setup PYTHON=/path/to/python3" >&2; \
	  exit 1; \
	fi; \
	if ! [[ -x $(BIN)/python ]] || ! $(BIN)/python -c 'import pip' >/dev/null 2>&1; then \
	  echo "making $(VENV) with $$("$$python" --version)"; \
	  "$$python" -m venv --clear $(VENV); \
	fi; \
	echo "installing the project and its tools into $(VENV) (some minutes the first time)"; \
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-input -e '.[dev]'; \
	touch $@

# machine code of sources that have changed is never used again, and only takes up room
$(FRESH): $(STAMP) $(shell find predictor -name '*.py')
	@find $(PACKAGES) -name '*.nb[ic]' -delete
	@touch $@

demo: $(FRESH)  ## the whole loop on the embedded sample, offline; Ctrl-C ends it
	@$(BIN)/predictor demo

services:  ## install what some tests use (PostgreSQL, Chromium, promtool); only as root, by apt
	@tests/services/install.sh

test: $(FRESH) services  ## run the tests
	@$(BIN)/python -m pytest -q -n auto --maxprocesses=$(MAX_WORKERS) $(TESTS)

check: format-check lint types imports sizes test  ## all that continuous integration checks

format-check: $(STAMP)
	@$(BIN)/ruff format --check .

lint: $(STAMP)
	@$(BIN)/ruff check .

types: $(STAMP)
	@$(BIN)/mypy --strict

imports: $(STAMP)
	@$(BIN)/lint-imports

sizes:
	@find $(PACKAGES) -name '*.py' -exec wc -l {} + \
	  | awk '$$2 != "total" && $$1 > $(LONGEST_FILE) {print $$2 ": " $$1 " lines, at most $(LONGEST_FILE)"; long = 1} END {exit long}'

bench: $(FRESH)  ## run the benchmarks one after the other; results in benchmarks/results/
	@mkdir -p benchmarks/results; \
	for script in benchmarks/*.py; do \
	  [[ -e "$$script" ]] || { echo "benchmarks/ has no scripts"; exit 0; }; \
	  echo "== $$script"; \
	  $(BIN)/python "$$script" 2>&1 | tee "benchmarks/results/$$(basename "$$script" .py).txt"; \
	done

fmt: $(STAMP)  ## format the code and repair what can be repaired
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

package: $(STAMP)  ## build the wheel into dist/ and test what is in it
	@rm -rf dist
	@$(BIN)/python -m hatchling build -t wheel
	@$(BIN)/python -m pytest -q tests/packaging/test_wheel.py

clean:  ## remove everything that can be made again, the environment included
	@rm -rf $(VENV) .ci-venv dist build demo benchmarks/results .coverage*
	@rm -rf .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	@find $(PACKAGES) tests -name __pycache__ -type d -prune -exec rm -rf {} +
