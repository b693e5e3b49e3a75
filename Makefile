# setup · run · test · check · soak · golden · clean. Needs Python 3.11 or later and a C compiler.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: setup run test check heavy soak golden clean

.venv/done: setup.py constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/pip install -q -c constraints.txt -e '.[dev]'
	touch $@

setup: .venv/done ## the environment in .venv

run: .venv/done ## the first question, on this machine
	$(BIN)/python -m micro.gemm --transpose

test: .venv/done ## every test; no timings are asserted
	$(BIN)/python -m pytest -n auto

check: .venv/done ## style, types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

heavy: .venv/done ## MKL and torch (its CPU build), the rivals that are no dependency
	$(BIN)/pip install -q -c constraints.txt mkl torch

soak: .venv/done ## the figures that issues promise, measured: minutes, on a quiet machine
	$(BIN)/python -m micro.selftest --full
	$(BIN)/python tests/native/rate.py
	$(BIN)/python tests/native/sweeps.py

golden: .venv/done ## rewrite the expected output of runs on the fake device; read the diff
	GOLDEN=write $(BIN)/python -m pytest tests/golden

clean:
	rm -rf .venv build *.egg-info
