# `make` lists the targets. Every one sets up what it needs, on a machine with nothing but Python >= 3.11.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
ONE_THREAD := env -u OPENBLAS_CORETYPE -u OPENBLAS_L2_SIZE OMP_NUM_THREADS=1 \
    OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1 NUMBA_NUM_THREADS=1
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check

.DEFAULT_GOAL := help
.PHONY: help setup notebook test lint format bench bench-compile bench-simulator bench-gpu bench-peers assembler size tutorials clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(VENV)/.notebook ## create .venv with the notebook and its tools

notebook: setup ## open JupyterLab at the first tutorial
	$(BIN)/jupyter lab $(if $(filter 0,$(shell id -u)),--allow-root) tutorials/01_one_cell.ipynb

test: $(VENV)/.test browser lint ## set up the tests, browser included, and run them all
	$(BIN)/python -m pytest -n auto --dist loadfile --durations=40

lint: $(VENV)/.test ## ruff, pyright, the arrows between rooms, the size budget
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright
	$(BIN)/lint-imports
	@$(BIN)/python tools/size.py

format: $(VENV)/.test ## let ruff format the code
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(VENV)/.test ## our kernels beside the peers that are installed (BENCH="--only softmax")
	$(BIN)/python bench/bench_kernels.py $(BENCH)

bench-compile: $(VENV)/.test ## compile, cache and call latencies beside their goals
	$(ONE_THREAD) $(BIN)/python bench/bench_compile.py

bench-simulator: $(VENV)/.test ## thread instructions per second of PTX without a GPU
	$(BIN)/python bench/bench_simulator.py

# One environment a peer, since they want different versions of the same packages.
bench-gpu: $(VENV)/.test ## our GPU kernels beside Triton's, both on the simulator (BENCH="--target sm_90a")
	[ -n "$$BENCH_PY_TRITON" ] || [ -x .bench/triton/bin/python ] || { $(PYTHON) -m venv .bench/triton && \
	    $(BIN)/python bench/bench_gpu.py --requires \
	    | .bench/triton/bin/python -m pip install --quiet --disable-pip-version-check -r /dev/stdin; }
	$(BIN)/python bench/bench_gpu.py $(BENCH)

bench-peers: $(VENV)/.test ## install the peers that bench compares with, each in .bench/NAME
	for name in $(or $(PEERS),numba numexpr torch jax iree onnxruntime tinygrad); do \
	    $(PYTHON) -m venv .bench/$$name && \
	    $(BIN)/python bench/bench_kernels.py --requires $$name \
	    | .bench/$$name/bin/python -m pip install --quiet --disable-pip-version-check -r /dev/stdin \
	    || exit 1; done

assembler: $(VENV)/.test ## ptxas on every kernel for every GPU: registers, spills, warnings (ASSEMBLER="--faults")
	$(BIN)/python tools/assembler_report.py $(ASSEMBLER)

size: $(VENV)/.test ## lines in each room and the budget
	$(BIN)/python tools/size.py

clean: ## remove the environment and every generated file
	rm -rf $(VENV) .bench build dist .pytest_cache .ruff_cache .hypothesis tests/.artifacts
	find . -name __pycache__ -prune -exec rm -rf {} +

$(VENV)/.base:
	$(PYTHON) -c "import sys; assert sys.version_info >= (3, 11), f'Python 3.11 or newer is needed, this is {sys.version}'"
	$(PYTHON) -m venv $(VENV)
	$(PIP) --upgrade pip
	touch $@

$(VENV)/.notebook: $(VENV)/.base pyproject.toml
	$(PIP) --editable ".[graph,gpu-tools,notebook]"
	touch $@

$(VENV)/.test: $(VENV)/.notebook pyproject.toml
	$(PIP) --editable ".[graph,gpu-tools,notebook,test]"
	touch $@

# Debian's browser for the end-to-end tests; where we cannot install it those tests say so.
.PHONY: browser
browser:
	@if [ -z "$$(command -v chromium || command -v chromium-browser || command -v google-chrome)" ] \
	    && [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	    apt-get update -qq && apt-get install -y -qq --no-install-recommends \
	        chromium fonts-dejavu-core fonts-liberation >/dev/null; fi
