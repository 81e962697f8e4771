# make demo   run the first example on real data
# make test   everything that must hold: style, types, imports, tests
VENV ?= .venv
PYTHON ?= python3
BIN = $(VENV)/bin
READY = $(VENV)/.ready

.PHONY: demo test lint fuzz fuzz-schedules bench bits clean

demo: $(READY)
	$(BIN)/python examples/demo.py

test: lint
	$(BIN)/python -m pytest -q -n auto

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/pyright --pythonpath $(BIN)/python
	$(BIN)/lint-imports

fuzz: $(READY)
	TILEWRIGHT_FUZZ=20000 $(BIN)/python -m pytest -q -n auto tests/fuzz/test_fuzz.py

fuzz-schedules: $(READY)
	TILEWRIGHT_FUZZ_SCHEDULES=20000 $(BIN)/python -m pytest -q -n auto --refusals=none tests/fuzz/test_schedules.py

bench: $(READY)
	$(BIN)/python benchmarks/frontend.py
	$(BIN)/python benchmarks/passes.py
	$(BIN)/python benchmarks/cpu.py

# Records the bits of the examples anew; the difference is to be read like code.
bits: $(READY)
	$(BIN)/python tests/bits/catalogue.py

$(READY): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[test]'
	touch $(READY)

clean:
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .ruff_cache .hypothesis
