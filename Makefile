# Every target sets up what it needs: a virtual environment with the pinned versions of constraints.txt.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: demo test test-fast test-slow fuzz faults check docs gallery bench gpu clean

demo: $(STAMP)
	@run=runs/demo-$$(date +%Y%m%d-%H%M%S) && \
	$(BIN)/recurra train --out $$run && \
	echo && echo "Held-out files, in nats per character: the network beside the best Markov model." && \
	$(BIN)/recurra evaluate $$run && \
	echo && echo "What it writes:" && \
	$(BIN)/recurra sample $$run --prime "def " --length 500 --temperature 0.8 --seed 1 && \
	echo && echo "What it is and what it does, on one page:" && \
	$(BIN)/recurra explain $$run && \
	echo && echo "Next: $(BIN)/recurra sample $$run --prime 'class '          more text" && \
	echo "      $(BIN)/recurra train text data.path=FILE              a text of your own" && \
	echo "      $(BIN)/recurra check examples/fading.py:fading        a cell of your own, on every engine" && \
	echo && echo "A live page in the browser about this run: $(BIN)/recurra lab $$run"

test: $(STAMP)
	$(BIN)/python -m pytest -n 2

# Cells, data, layers, metrics, run folders, settings and the choice of engines: what a person runs on every save.
FAST := tests/cells tests/data tests/layers tests/metrics tests/runs/test_folder.py tests/runs/test_checkpoint.py \
	tests/test_imports.py tests/engines/test_choose.py tests/tasks/test_settings.py tests/tasks/test_capabilities.py

test-fast: $(STAMP)
	$(BIN)/python -m pytest -n 2 $(FAST)

test-slow: $(STAMP)
	$(BIN)/python -m pytest -m slow

# Broken files and odd values for every reader and setting. What is found is kept under fuzz/, with the line that repeats it.
# With GUIDED=1, readers and settings by what reaches new lines of code, where atheris is installed.
MINUTES ?= 10
GUIDED ?=

fuzz: $(STAMP)
	$(BIN)/python -m tests.fuzz.$(if $(GUIDED),guided,campaign) --minutes $(MINUTES)

check: $(STAMP)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/python -m pytest tests/test_imports.py

docs: $(STAMP)
	$(BIN)/python -m recurra.cells.page docs/cells
	$(BIN)/python docs/make_reference.py

# Every picture of docs/gallery.md, light and dark. The networks are trained once and kept in runs/gallery.
gallery: $(STAMP)
	$(BIN)/python docs/make_gallery.py

# A thousand kills and a thousand damaged run folders; prints the counts.
faults: $(STAMP)
	$(BIN)/python -m tests.faults.kills --kills 1000
	$(BIN)/python -m tests.faults.corruption --count 1000

bench: $(STAMP)
	$(BIN)/recurra bench cells

# On a machine with a GPU, whose $(PYTHON) has torch for it: agreement first, then every figure of docs/benchmarks-gpu.md and
# docs/engines.md, in some minutes. TEXT is a text of a million characters or so.
GPU_SIZES := 64x32x128,32x128x256,32x128x650,256x64x512,16x1024x256,16x1024x512,16x1024x768,64x256x512,1x1024x256,128x512x1024
GPU_BENCH := PYTHONPATH=src $(PYTHON) -m recurra bench
GPU_CELLS := $(GPU_BENCH) cells --device cuda --no-loop --no-jax --no-streaming --engines fused --repeats 5
TEXT ?= README.md

gpu:
	PYTHONPATH=src $(PYTHON) -m tests.gpu
	$(GPU_CELLS) --dtype bfloat16 --cells lstm,gru_after,gru --sizes 64x1x128,$(GPU_SIZES)
	$(GPU_CELLS) --dtype float32 --cells lstm,gru_after --sizes 16x1024x256,16x1024x512,64x256x512
	$(GPU_BENCH) parallel
	$(GPU_BENCH) language $(TEXT) --device cuda

$(STAMP): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[dev,analysis,text,log,automata,onnx,lab,serve,redis]"
	touch $(STAMP)

clean:
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
