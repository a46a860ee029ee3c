# Each target works on a fresh clone: `setup` makes .venv from requirements.lock the first time and is
# instantaneous afterwards. What starts Spark looks for a Java first, before the long install.

SHELL := /bin/bash
BIN := .venv/bin
SUITE ?= control
ARGS ?=

# Options for the command behind a target, as in: make test ARGS="-k deadline"
WITH_JAVA := JAVA_HOME="$$(scripts/java.sh)" && export JAVA_HOME &&
# Files of tests are dealt to two processes, each with a Spark of its own: one alone does not keep two cores busy.
# tests/conftest.py puts them in order, the long ones first.
BESIDE := --numprocesses=2 --dist=loadfile --no-loadscope-reorder
# A test that starts a JVM where it must not fails, whatever is installed.
WITHOUT_JAVA := JAVA_HOME=/no/java/needed/here

.DEFAULT_GOAL := help
.PHONY: help demo test test-core test-long check bench format hooks lock setup java clean

help: ## show this list
	@printf 'make TARGET [ARGS="options for the command behind it"]\n\n'
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  \1|\2/p' $(MAKEFILE_LIST) | awk -F'|' '{ printf "%-12s %s\n", $$1, $$2 }'

demo: java setup ## play a burst through a Spark query, without and with Spillway, and write a report
	@$(WITH_JAVA) $(BIN)/spillway demo $(ARGS)

test: java setup ## run the tests, those on Spark too, but for the exhaustive ones
	@$(WITH_JAVA) $(BIN)/pytest -m "not long" $(BESIDE) $(ARGS)

test-core: setup ## run the tests that need no Java: seconds
	@$(WITHOUT_JAVA) $(BIN)/pytest -m "not spark and not long" --ignore=tests/spark $(BESIDE) $(ARGS)

test-long: java setup ## run all tests in full: each case, and many more random examples
	@$(WITH_JAVA) HYPOTHESIS_PROFILE=long $(BIN)/pytest $(BESIDE) $(ARGS)

check: setup ## lint, format, types, import rules, docs; needs no Java
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo
	$(WITHOUT_JAVA) $(BIN)/pytest -q -m "not spark" tests/test_import_rules.py tests/test_project.py tests/docs

bench: setup ## reproduce a paper's figures: make bench SUITE=control ARGS="--quick --json out.json"
	@if [ "$(SUITE)" != control ]; then $(WITH_JAVA) true; fi && $(BIN)/spillway bench $(SUITE) $(ARGS)

format: setup ## rewrite the code in the project's format and mend what ruff can
	$(BIN)/ruff format
	$(BIN)/ruff check --fix

hooks: setup ## run the fast checks before each commit (git hook)
	$(BIN)/pre-commit install

lock: setup ## renew requirements.lock from pyproject.toml; ARGS=--upgrade takes the newest versions
	@scripts/lock.sh $(ARGS)

setup: ## make .venv with the pinned packages (the other targets call this)
	@scripts/setup.sh

java:
	@scripts/java.sh >/dev/null

clean: ## remove .venv and everything that is generated
	rm -rf .venv dist build artifacts results spillway-demo spark-warehouse metastore_db derby.log
	rm -rf .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find src benchmarks tests -name __pycache__ -type d -prune -exec rm -rf {} +
