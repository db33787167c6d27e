# Every target sets up what it needs: a virtual environment with the pinned versions of constraints.txt.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: demo test test-slow check docs bench clean

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
	echo "      $(BIN)/recurra check examples/fading.py:fading        a cell of your own, on every engine"

test: $(STAMP)
	$(BIN)/python -m pytest -n 2

test-slow: $(STAMP)
	$(BIN)/python -m pytest -m slow

check: $(STAMP)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/python -m pytest tests/test_imports.py

docs: $(STAMP)
	$(BIN)/python -m recurra.cells.page docs/cells

bench: $(STAMP)
	$(BIN)/recurra bench cells

$(STAMP): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[dev,analysis,text,log,automata]"
	touch $(STAMP)

clean:
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
