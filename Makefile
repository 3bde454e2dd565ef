# The verbs of the project. `make help` lists them; each works on a fresh clone.
SHELL := /bin/bash
PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.installed

.PHONY: help setup test lint types layers unit demo bench docs clean java

help: ## list the verbs
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 10

setup: $(STAMP) ## create .venv and install Headgate from the pinned files

$(STAMP): requirements/runtime.txt requirements/dev.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "Headgate needs Python 3.11 or newer; $(PYTHON) is $$($(PYTHON) --version 2>&1). Set PYTHON=python3.11 (or newer)."; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements/runtime.txt -r requirements/dev.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@

java:
	@command -v java >/dev/null || { echo "Java is missing. Spark needs Java 17 or 21: install openjdk-17-jre-headless (Debian, Ubuntu), java-17-openjdk-headless (Fedora) or openjdk@17 (Homebrew)."; exit 1; }
	@java -version 2>&1 | grep -Eq 'version "(17|21)' || { echo "Spark needs Java 17 or 21; found: $$(java -version 2>&1 | head -1). Install openjdk-17-jre-headless or set JAVA_HOME."; exit 1; }

test: setup java ## everything CI runs: lint, types, layers, tests
	@$(MAKE) --no-print-directory --output-sync --jobs=2 types lint layers
	@$(MAKE) --no-print-directory unit

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: setup
	$(BIN)/mypy

layers: setup
	$(BIN)/lint-imports

unit: setup java
	@$(BIN)/python -m tests.spark.kafka_broker >/dev/null 2>&1 & # needed later, and slow to fetch
	$(BIN)/pytest -n 2 --ignore=tests/spark
	$(BIN)/pytest tests/spark --durations=25

demo: setup ## a flash crowd on Spark, with Headgate and without it
	$(BIN)/headgate demo

bench: setup ## measure, and write benchmarks/results/*.json
	$(BIN)/python -m benchmarks

docs: setup ## build the documentation into site/
	$(BIN)/mkdocs build --strict

clean: ## remove what the verbs made
	rm -rf .venv site build src/*.egg-info .pytest_cache .mypy_cache .ruff_cache
