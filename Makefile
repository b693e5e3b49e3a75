# setup · run · test · check · heavy · soak · golden · docs · clean. Needs Python 3.11 or later and a C compiler.
NEW := -c 'import sys; sys.exit(sys.version_info < (3, 11))'
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11; do $$p $(NEW) 2>/dev/null && echo $$p && break; done)
BIN := .venv/bin

.PHONY: setup run test check heavy soak golden docs clean

.venv/done: setup.py constraints.txt
	@$(or $(PYTHON),python3) $(NEW) 2>/dev/null || { echo "Python 3.11 or later is missing: apt-get install python3 python3-venv, or make PYTHON=/path/to/python3.12"; exit 2; }
	@$(or $(PYTHON),python3) -c 'import venv, ensurepip' 2>/dev/null || { echo "$(PYTHON) has no venv: apt-get install python3-venv"; exit 2; }
	@command -v $${CC:-cc} >/dev/null || command -v gcc >/dev/null || command -v clang >/dev/null || { echo "a C compiler is missing: apt-get install gcc"; exit 2; }
	$(PYTHON) -m venv .venv
	$(BIN)/pip install -q -c constraints.txt -e '.[dev]'
	touch $@

setup: .venv/done ## the environment in .venv

run: .venv/done ## the first question, on this machine: the answer, a run file, pictures
	@mkdir -p runs
	@name=runs/transpose-$$(date +%Y%m%d-%H%M%S) && $(BIN)/python -m micro.gemm --transpose -o $$name.jsonl --figures $$name

test: .venv/done ## every test; no timings are asserted
	$(BIN)/python -m pytest -n auto

check: .venv/done ## style, types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

heavy: .venv/done ## MKL, torch (its CPU build), Numba, cffi: the rivals that are no dependency
	$(BIN)/pip install -q -c constraints.txt mkl torch numba cffi

soak: .venv/done ## the figures that issues promise, measured: minutes, on a quiet machine
	$(BIN)/python -m micro.selftest --full
	$(BIN)/python tests/native/rate.py
	$(BIN)/python tests/native/sweeps.py

golden: .venv/done ## rewrite the expected output of runs on the fake device; read the diff
	GOLDEN=write $(BIN)/python -m pytest tests/golden

docs: .venv/done ## rewrite the pages that come from the code
	$(BIN)/python docs/generate.py
	$(BIN)/python docs/cuda.py

clean:
	rm -rf .venv build *.egg-info
