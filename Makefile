# make paper-suite   the default suite end to end: SUITE=configs/suites/quickstart.yaml
# make regex-evo-vs-sft  the same for the six regex families: SUITE=configs/suites/regex.yaml
# make test          all tests but those marked slow
# make test-slow     those: whole suites and long simulations
# make test-hostile  10,000 hostile inputs of each kind (EXAMPLES=10000); `make test` tries 60
# make test-distributed  the same suite on local Dask and Ray clusters, with the extras that they need
# make test-browser  pages in Chromium (BROWSER=/usr/bin/chromium), with the extras that they need
# make check         formatting, lint and types
# Each sets up .venv in this checkout when it is missing or older than the requirements. Needs Python 3.11+ and a package index.

SUITE ?= configs/suites/quickstart.yaml
WORKERS ?= 2
BROWSER ?= /usr/bin/chromium
EXAMPLES ?= 10000
PYTHON ?= $(shell for p in python3.11 python3.12 python3.13 python3 python; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
BIN := .venv/bin
STAMP := .venv/.installed
TESTED := .venv/.tested

define create
test -n "$(PYTHON)" || { echo "error: no Python 3.11 or newer found; install one or run make PYTHON=/path/to/python3" >&2; exit 1; }; \
$(BIN)/python -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv .venv
endef
# pip compiles on one core; what it leaves is compiled on all, but for what hardly anything imports. Some packages hold
# files that are no Python 3.
define install
$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile -c constraints.txt -e '.[$(EXTRAS)]'
@$(BIN)/python -m compileall -qq -j 0 -x '/(tests?|testing)/|/transformers/models/' .venv/lib || true
endef

.PHONY: paper-suite regex-evo-vs-sft test test-slow test-hostile test-distributed test-browser check install clean
.DEFAULT_GOAL := paper-suite

regex-evo-vs-sft: SUITE := configs/suites/regex.yaml
paper-suite regex-evo-vs-sft: $(STAMP)
	@$(BIN)/evolora run $(SUITE)

test: $(TESTED)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder --durations=30 --durations-min=5

test-slow: $(TESTED)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder -m slow

test-hostile: $(STAMP)
	EVOLORA_HOSTILE_EXAMPLES=$(EXAMPLES) OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(WORKERS) --dist load tests/hostile

test-distributed: EXTRAS := dev,gguf,dask,ray
test-distributed: $(STAMP)
	$(install)
	$(BIN)/python -m pytest -m distributed

test-browser: EXTRAS := dev,gguf,scope,browser
test-browser: $(STAMP)
	@test -x $(BROWSER) || { echo "error: $(BROWSER) is missing; run apt-get install chromium or make test-browser BROWSER=/path/to/chromium" >&2; exit 1; }
	$(install)
	EVOLORA_BROWSER=$(BROWSER) $(BIN)/python -m pytest -m browser

check: $(STAMP)
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/mypy

install: $(STAMP)

# A stamp is written last, so an interrupted installation is done again.
$(STAMP): EXTRAS := dev,gguf
$(STAMP): pyproject.toml constraints.txt
	@$(create)
	$(install)
	@touch $@

# Extras that have tests. They are not part of an installation: TRL imports wandb in every process wherever it is.
$(TESTED): EXTRAS := dev,gguf,tracking,openevolve,scope
$(TESTED): pyproject.toml constraints.txt
	@$(create)
	$(install)
	@touch $(STAMP) $@

clean:
	rm -rf .venv build *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -not -path './.git/*' -prune -exec rm -rf {} +
