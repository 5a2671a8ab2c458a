# `make demo` and `make test` are the two commands a newcomer needs.
PYTHON ?= python3
VENV := .venv
PEERS := .venv-peers
BAYESOPT := .venv-bayesopt
HEBO := .venv-hebo
BIN := $(VENV)/bin
unexport PYTHONDONTWRITEBYTECODE  # compiled once, and not by every process: an import of jax takes a third of the time

.PHONY: demo test ordeal chromium lint format docs wheel bench bench-grid bench-quick bench-batches peers lock clean

demo: $(VENV)/.run
	$(BIN)/augury demo

# The tests spend much of their time compiling; without optimizations that takes a quarter less. Some wait,
# so there is one process more than cores; tests/conftest.py has the order of the files.
test: $(VENV)/.dev chromium
	JAX_DISABLE_MOST_OPTIMIZATIONS=1 $(BIN)/python -m pytest -n 3 --dist loadfile --no-loadscope-reorder

# Processes that share a study are killed at random, 20 times each; some minutes.
ordeal: $(VENV)/.dev
	$(BIN)/python tests/ordeal.py

# The tests open the report in a headless Chromium of the system's packages; nothing is done where one is.
chromium:
	@for name in $(CHROMIUM); do if command -v $$name >/dev/null; then exit 0; fi; done; \
	if [ "$$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then \
	  echo "The tests need Chromium, and only root can install it here, with apt-get."; \
	  echo "Install chromium with the system's package manager, and run make test again."; exit 1; \
	fi; \
	export DEBIAN_FRONTEND=noninteractive; \
	install="apt-get install -y -qq --no-install-recommends"; \
	{ $$install chromium-headless-shell || { apt-get update -qq && $$install chromium-headless-shell; } \
	  || $$install chromium; } >/dev/null

CHROMIUM := chromium-headless-shell chromium chromium-browser google-chrome

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(VENV)/.dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# The site, into site/; a link that leads nowhere is an error. `mkdocs serve` shows it while it is written.
docs: $(VENV)/.dev
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict

# The wheel, installed without the sources, must run. (--no-compile: what is imported is compiled then, and
# installing takes half as long.)
wheel: $(VENV)/.dev build/wheel-check/.installed
	rm -rf dist
	$(BIN)/python -m build --wheel
	build/wheel-check/bin/pip install --quiet --no-deps --force-reinstall dist/*.whl
	cd build && wheel-check/bin/augury algorithms

# Beside the environment of the tests, which takes longer.
build/wheel-check/.installed: requirements.lock
	rm -rf build/wheel-check
	$(PYTHON) -m venv build/wheel-check
	build/wheel-check/bin/pip install --quiet --no-compile --no-deps -r requirements.lock
	touch $@

bench: $(VENV)/.dev $(PEERS)/.installed
	$(BIN)/python -m benchmarks

bench-grid: $(VENV)/.dev
	$(BIN)/python benchmarks/random_grid_paper.py --seeds 5
	$(BIN)/augury bench run random-grid-synthetic --repeats 5
	$(BIN)/python benchmarks/random_grid.py

# The quick variants of all figures of three papers, and their reports; many hours, and it continues where it
# was stopped.
bench-quick: $(VENV)/.dev
	for paper in sto-bnts be-greedy neural-bo; do \
	  names=$$(ls experiments | sed -n "s/^\($$paper-.*\)\.toml$$/\1/p" | grep -v -e '-code$$' -e '-ours'); \
	  $(BIN)/augury bench run $$names --quick; \
	  $(BIN)/augury bench report $$names --quick --out docs/reports/$$paper; \
	done

# Tables 1 to 4 of TS-RSR, as its code has them and as the paper states them, and with learnt hyper-parameters;
# many hours, and it continues where it was stopped.
bench-batches: $(VENV)/.dev
	for setting in code paper; do \
	  names=$$(ls experiments | sed -n "s/^\(ts-rsr-table.*-$$setting\)\.toml$$/\1/p"); \
	  $(BIN)/augury bench run $$names && $(BIN)/augury bench report $$names --out docs/reports/ts-rsr-$$setting; \
	done
	$(BIN)/augury bench run ts-rsr-learnt && $(BIN)/augury bench report ts-rsr-learnt --out docs/reports/ts-rsr-learnt

# The peers need three environments, because their packages want different versions of each other.
# Torch must come first and alone: any other way pulls gigabytes of packages for accelerators. The
# files list everything else, so nothing is resolved.
peers: $(PEERS)/.installed $(BAYESOPT)/.installed $(HEBO)/.installed

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.run: $(VENV)/bin/python requirements.lock pyproject.toml
	$(BIN)/pip install --quiet --no-compile --no-deps -r requirements.lock
	$(BIN)/pip install --quiet --no-deps --editable .
	touch $@

# uv takes a third of the time that pip does, which does it where uv cannot be had.
$(VENV)/.dev: $(VENV)/bin/python requirements-dev.lock pyproject.toml
	{ $(BIN)/pip install --quiet --no-compile uv && \
	  $(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps -r requirements-dev.lock; } || \
	  $(BIN)/pip install --quiet --no-compile --no-deps -r requirements-dev.lock
	$(BIN)/pip install --quiet --no-deps --editable .
	touch $@ $(VENV)/.run

$(PEERS)/.installed: requirements-peers.txt
	$(PYTHON) -m venv $(PEERS)
	$(PEERS)/bin/pip install --quiet torch==2.13.0
	$(PEERS)/bin/pip install --quiet --no-compile --no-deps -r requirements-peers.txt
	touch $@

$(BAYESOPT)/.installed: requirements-bayesopt.txt
	$(PYTHON) -m venv $(BAYESOPT)
	$(BAYESOPT)/bin/pip install --quiet --no-compile --no-deps -r requirements-bayesopt.txt
	touch $@

$(HEBO)/.installed: requirements-hebo.txt
	$(PYTHON) -m venv $(HEBO)
	$(HEBO)/bin/pip install --quiet torch==2.13.0
	$(HEBO)/bin/pip install --quiet --no-compile --no-deps -r requirements-hebo.txt
	touch $@

# The locks pin every version and hash of what pyproject.toml asks for.
lock: $(VENV)/bin/python
	$(BIN)/pip install --quiet pip-tools
	$(BIN)/pip-compile --quiet --generate-hashes --strip-extras --allow-unsafe --extra plots --output-file requirements.lock $(LOCK_FLAGS) pyproject.toml
	$(BIN)/pip-compile --quiet --generate-hashes --strip-extras --allow-unsafe --extra dev --all-build-deps --output-file requirements-dev.lock $(LOCK_FLAGS) pyproject.toml

LOCK_FLAGS := --no-emit-index-url --no-emit-find-links --no-emit-trusted-host --no-header --annotation-style line

clean:
	rm -rf $(VENV) $(PEERS) $(BAYESOPT) $(HEBO) build dist site
