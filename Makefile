# `make demo` and `make test` work from a fresh clone: each makes .venv, installs what it needs, does its job.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check install --quiet

# an unreachable model hub costs 46 s of retries; offline its answer is immediate
export HF_HUB_OFFLINE := 1
export TOKENIZERS_PARALLELISM := false

.DEFAULT_GOAL := help
.PHONY: help demo test lint bench format clean

help:
	@echo "make demo    index an invented conversation and answer twenty questions from it"
	@echo "make test    run the test suite (ARGS='-k name' to choose)"
	@echo "make lint    ruff, mypy, import-linter"
	@echo "make bench   latency against this machine's baseline (ARGS='--short' in CI, '--store' to renew it)"
	@echo "make format  ruff, writing its changes"
	@echo "make clean   remove .venv, caches and build output"

demo: $(VENV)/.for-demo
	$(BIN)/zeromem-gpu demo

test: $(VENV)/.for-test
	$(BIN)/python -m pytest -n 2 --dist loadfile $(ARGS)

lint: $(VENV)/.for-test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# in CI the short form, whose limit is wider
bench: $(VENV)/.for-test
	$(BIN)/python -m benchmarks.gate $(if $(CI),--short) $(ARGS)

format: $(VENV)/.for-test
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis

# venv is safe to repeat, so an interrupted install mends itself on the next run
$(VENV)/.for-demo: pyproject.toml
	@echo "installing into $(VENV): some minutes the first time"
	$(PYTHON) -m venv $(VENV)
	$(PIP) --editable '.[all-cpu]'
	@touch $@

# what the tests need includes what the demo needs
$(VENV)/.for-test: pyproject.toml
	@echo "installing into $(VENV): some minutes the first time"
	$(PYTHON) -m venv $(VENV)
	$(PIP) --editable '.[all-cpu,test]'
	$(PIP) --no-deps --upgrade --target $(VENV)/triton-3.6 'triton==3.6.0' # what torch 2.11 declares; compiled with, never run
	@touch $(VENV)/.for-demo $@
