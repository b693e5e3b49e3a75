# Needs Python 3.11 or later and a C compiler. `make help` lists what there is.
NEW := -c 'import sys; sys.exit(sys.version_info < (3, 11))'
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11; do $$p $(NEW) 2>/dev/null && echo $$p && break; done)
BIN := .venv/bin

.PHONY: help setup run test test-all bare check gpu wheels heavy soak cases reference golden docs clean

help: ## this list
	@sed -n 's/^\([a-z-]*\):[^#]*## \(.*\)/\1\t\2/p' $(MAKEFILE_LIST) | expand -t 12

.venv/done: setup.py constraints.txt
	@$(or $(PYTHON),python3) $(NEW) 2>/dev/null || { echo "Python 3.11 or later is missing: apt-get install python3 python3-venv, or make PYTHON=/path/to/python3.12"; exit 2; }
	@$(or $(PYTHON),python3) -c 'import venv, ensurepip' 2>/dev/null || { echo "$(PYTHON) has no venv: apt-get install python3-venv"; exit 2; }
	@command -v $${CC:-cc} >/dev/null || command -v gcc >/dev/null || command -v clang >/dev/null || { echo "a C compiler is missing: apt-get install gcc"; exit 2; }
	$(PYTHON) -m venv .venv
	$(BIN)/pip install -q -c constraints.txt -e '.[dev]'
	$(BIN)/python -m compileall -q kernels micro macro reports # as pip does with what it copies: half of a start
	touch $@

setup: .venv/done ## the environment in .venv

run: .venv/done ## the first question, on this machine: the answer, a run file, pictures
	@mkdir -p runs
	@name=runs/transpose-$$(date +%Y%m%d-%H%M%S) && $(BIN)/python -m micro.gemm --transpose -o $$name.jsonl --figures $$name

test: .venv/done ## the tests but for the slow ones, about five minutes on two cores; no timings are asserted
	PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest -n auto --dist worksteal -m "not slow"

test-all: .venv/done ## every test: half an hour to an hour on two cores; the ten slowest are named
	PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest -n auto --dist worksteal --durations=10

bare: ## make run and make test in a minimal Debian 12, which root makes by debootstrap: ten to twenty minutes on two cores
	@.ci/bare

check: .venv/done ## style, types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# On a machine with a GPU and without a network its own packages serve, and no environment is made: one made inside
# another sees nothing of it. `make wheels` brings what it lacks. Without make: docs/gpu.md.
GPU = $(if $(filter file,$(origin PYTHON)),$(firstword $(wildcard $(BIN)/python) python3),$(PYTHON))
SITE := $(CURDIR)/.site
INTO_SITE = $(GPU) -m pip install -q --no-index --no-deps --no-compile --upgrade --target "$(SITE)"

gpu: ## all that a GPU is asked, into $OUT or gpu-out: PART=1 to 5, SECONDS=300, else what fits into nine minutes; without a GPU a test of itself
	@if ls wheels/*.whl >/dev/null 2>&1; then rm -rf "$(SITE)"; \
	  $(INTO_SITE) wheels/*.whl 2>/dev/null || for w in wheels/*.whl; do $(INTO_SITE) $$w 2>/dev/null || echo "gpu: $$w is not for this Python, or pip is missing"; done; fi
	@PYTHONPATH="$(SITE)$${PYTHONPATH:+:$$PYTHONPATH}" $(GPU) -m tests.gpu.session $(if $(PART),--part $(PART)) $(if $(SECONDS),--seconds $(SECONDS)) $(if $(FAKE),--fake)

FOR ?= 3.12
WHEEL := --no-deps --only-binary=:all: --python-version $(FOR) --implementation cp -d wheels $(foreach v,2_28 2_27 2_24 2_17,--platform manylinux_$(v)_x86_64) --platform manylinux2014_x86_64
CARRIED := msgspec==0.22.0 nvidia-cudnn-frontend==1.26.0 scikit-cuda==0.5.3 pytools==2026.1.1 platformdirs==4.14.5 siphash24==1.9 Mako==1.4.3

wheels: .venv/done ## what `make gpu` wants beside CUDA, CuPy and PyTorch, for Python 3.12 (FOR=3.13: another) on x86-64, into wheels/
	for w in $(CARRIED); do $(BIN)/pip download -q $(WHEEL) $$w || exit; done

heavy: .venv/done ## MKL, torch, Numba, cffi, pyFFTW, oneDNN with Winograd, ncnn, ONNX Runtime: the rivals that are no dependency
	$(BIN)/pip install -q -c constraints.txt mkl torch numba cffi pyfftw ncnn onnxruntime 'onednn-cpu-gomp; sys_platform == "linux" and platform_machine == "x86_64"'

soak: .venv/done ## the figures that issues promise, measured: three or four hours, on a quiet machine
	$(BIN)/python -m micro.selftest --full
	$(BIN)/python -m tests.soak

cases: .venv/done ## public complaints about slow programs, explained with clocks: which reports are right (an hour; docs/cases.md)
	$(BIN)/python -m tests.cases

reference: .venv/done ## PyTorch's step against JAX's in both networks, five processes each: run files, tables, pictures in docs/ (11 minutes)
	for net in fcn-s fcn-r; do \
	  rm -f reports/reference/macro/explain-$$net.jsonl; mkdir -p docs/pictures/explain-$$net; \
	  $(BIN)/python -m macro explain $$net pytorch jax --runs 5 -o reports/reference/macro/explain-$$net.jsonl --figures docs/pictures/explain-$$net >docs/explain-$$net.txt || exit; \
	  sed -i '/^picture: /d; /^run file: /d' docs/explain-$$net.txt; \
	  sed -i '/"topic":"watched"/d' reports/reference/macro/explain-$$net.jsonl; rm -f reports/reference/macro/explain-$$net-?.kg; done

golden: .venv/done ## rewrite the expected output of runs on the fake device and of stand-in frameworks; read the diff
	GOLDEN=write $(BIN)/python -m pytest tests/golden tests/macro/test_golden.py tests/macro/explaining/test_document.py

docs: .venv/done ## rewrite the pages that come from the code
	$(BIN)/python docs/generate.py
	$(BIN)/python docs/cuda.py

clean: ## remove the environment and what was built
	rm -rf .venv build *.egg-info
