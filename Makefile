# Each target makes .venv first when it is missing, or when what it holds was changed.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
DIST ?= dist
JOBS ?= 2

# pip reads these too when it builds something in an environment of its own.
export PIP_CONSTRAINT := $(CURDIR)/constraints.txt
export PIP_BUILD_CONSTRAINT := $(CURDIR)/constraints.txt

.PHONY: help demo test lint test-slow bench docs wheel chromium screenshots
.DEFAULT_GOAL := help

help:
	@echo "make demo         train, forget and verify on real data"
	@echo "make test         lint, type check, fast tests"
	@echo "make lint         ruff and mypy only"
	@echo "make test-slow    the tests that take minutes"
	@echo "make docs         the documentation as a website, in site/"
	@echo "make bench        the benchmarks, on the CPU"
	@echo "make screenshots  the images of the web pages, in docs/pages"
	@echo "make wheel        the package, in $(DIST)/"

demo: $(STAMP)
	rm -rf demo-workspace
	$(BIN)/shardgraph demo --keep demo-workspace
	@echo "here the command is $(BIN)/shardgraph"

test: lint  # the processes share the cores: more threads than cores would wait for each other
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -m "not slow" -n $(JOBS)

lint: $(STAMP)
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

test-slow: $(STAMP) chromium
	$(BIN)/python -m pytest -m slow

bench: $(STAMP)
	@set -e; for file in $(filter-out benchmarks/gpu.py,$(wildcard benchmarks/*.py)); do \
	  echo "$$file"; $(BIN)/python "$$file"; \
	done

# The browser of the pages' tests; Debian's, for Playwright's own would be downloaded from elsewhere.
chromium:
	@command -v chromium >/dev/null || command -v chromium-browser >/dev/null || test -n "$$CHROMIUM" || \
	  { echo "installing chromium"; \
	    $$(test $$(id -u) = 0 || echo sudo) apt-get install -y -q --no-install-recommends chromium >/dev/null || \
	    { $$(test $$(id -u) = 0 || echo sudo) apt-get update -q && \
	      $$(test $$(id -u) = 0 || echo sudo) apt-get install -y -q --no-install-recommends chromium; }; }

screenshots: $(STAMP) chromium
	$(BIN)/python docs/screenshots.py

docs: $(STAMP)
	$(BIN)/mkdocs build --strict

wheel: $(STAMP)
	$(BIN)/python -m build --wheel --no-isolation --outdir $(DIST)

$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit("shardgraph needs Python 3.11 or newer: make PYTHON=...") if sys.version_info < (3, 11) else None'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[all,dev]'
	touch $@
