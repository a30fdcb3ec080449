# Everything a newcomer needs: `make test` works from a fresh clone with python3, pip and make.
PYTHON ?= python3
BIN    := .venv/bin
READY  := .venv/.ready
DATA    ?= digits
CASES   ?= 10000
SECONDS ?= 20
WORKERS ?= 2
# one thread a worker: more would fight over the cores; what is compiled once is kept, whatever the shell says
PYTEST := PYTHONDONTWRITEBYTECODE= OMP_NUM_THREADS=1 $(BIN)/pytest -n $(WORKERS) --dist worksteal

.PHONY: install locked audit demo test static quick thorough slow browser docs fuzz freeze bench networks clean

install: $(READY)

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[test]"
	@touch $@

locked:                 ## install from .ci/requirements.txt instead: every package by the hash of its file
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r .ci/requirements.txt
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $(READY)

audit: $(READY)         ## known weaknesses of the packages in .ci/requirements.txt, from a database on the net
	$(BIN)/pip install --quiet --disable-pip-version-check pip-audit
	$(BIN)/pip-audit --strict --require-hashes --disable-pip -r .ci/requirements.txt

demo: $(READY)          ## train, compress, certify, verify, report; make demo DATA=mnist for MNIST
	$(BIN)/codebound demo --data $(DATA)

test: $(READY)          ## format, lint, types, import contracts, quick tests; make test WORKERS=8
	@$(MAKE) --no-print-directory -j 2 static quick

static: $(READY)        ## format, lint, types, import contracts
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

quick: $(READY)         ## a test of everything, and the examples in docstrings
	$(PYTEST) -m "not thorough and not slow and not browser" --doctest-modules

thorough: $(READY)      ## tests that take seconds each, and every property again on five times as many examples
	$(PYTEST) -m "(thorough or hypothesis) and not slow and not browser" --hypothesis-profile thorough

slow: $(READY)          ## validity simulations at full size (minutes)
	$(PYTEST) -m slow

browser: $(READY)       ## pages in a headless Chromium, which has to be there, with chromedriver and npm
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[browser]"
	npm install --silent --no-audit --no-fund --prefix .venv/axe axe-core@4.14.0
	OMP_NUM_THREADS=1 $(BIN)/pytest -m browser tests/browser

docs: $(READY)          ## the site, without warnings, in build/site
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

fuzz: $(READY)          ## mutated files against every parser; make fuzz CASES=500 SECONDS=5
	$(BIN)/python tests/attack/product_files.py --cases $(CASES) --out failing
	$(BIN)/python -W ignore tests/attack/fuzz_parsers.py --seconds $(SECONDS) --out failing

freeze: $(READY)        ## freezes the pages of the formats, once: their hashes and the day into both programs
	$(BIN)/python docs/freeze.py
	PYTHONPATH=tests/reference $(BIN)/python tests/reference/example_files.py

bench: $(READY)         ## timings beside the peers, which it installs, into benchmarks/README.md; never asserted
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[bench]"
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps confidenceinterval==1.0.5  # pins setuptools
	$(BIN)/python benchmarks/run.py

networks: $(READY)      ## networks of timm, transformers and Lightning, which it installs, through every verb
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[networks]"
	$(BIN)/python results/networks.py --out results/networks.md

clean:
	rm -rf .venv .pytest_cache .mypy_cache .ruff_cache .hypothesis
