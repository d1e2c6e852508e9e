# One environment for everything. The first `make` builds llama.cpp, which takes about 12 minutes on two cores;
# later ones reuse it, and pip keeps the built wheel for other checkouts.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed

.PHONY: venv demo test check format clean bench-identity boot-test soak packaging docs constraints recordings pictures

venv: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "homespec needs Python 3.11 or newer; found $$($(PYTHON) --version). Set PYTHON=python3.x" >&2; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV) \
		|| { echo "creating $(VENV) failed: on Debian and Ubuntu run 'sudo apt install python3-venv python3-dev'" >&2; exit 1; }
	@command -v c++ >/dev/null || command -v g++ >/dev/null || command -v clang++ >/dev/null \
		|| { echo "no C++ compiler found: on Debian and Ubuntu run 'sudo apt install build-essential'" >&2; exit 1; }
	$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[demo,dev,web]'
	@touch $@

demo: $(STAMP)
	$(BIN)/homespec serve --demo

test: $(STAMP)
	$(BIN)/pytest --numprocesses 2 --dist loadfile

# Hours. ARGS="--prompts 40 --tokens 128" makes it shorter.
bench-identity: $(STAMP)
	$(BIN)/python -m tests.bench_identity $(ARGS)

# An hour. ARGS="--minutes 9" makes it shorter.
soak: $(STAMP)
	$(BIN)/python -m tests.soak $(ARGS)

check: $(STAMP)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(MAKE) test

format: $(STAMP)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

# The event streams that the dashboard is tested with, from real daemons on the demo model. Minutes.
recordings: $(STAMP)
	$(BIN)/python -m tests.tui.record $(ARGS)

# docs/pictures, drawn by the dashboard itself from the recordings.
pictures: $(STAMP)
	$(BIN)/python -m tests.tui.pictures $(ARGS)

# The releases the checks passed with, from a fresh environment that takes the newest ones pyproject.toml allows.
constraints:
	rm -rf $(VENV).fresh && $(PYTHON) -m venv $(VENV).fresh
	$(VENV).fresh/bin/pip install --quiet --disable-pip-version-check --editable '.[demo,dev,web]'
	$(VENV).fresh/bin/pip freeze --exclude-editable > constraints.txt
	rm -rf $(VENV).fresh

# A Debian under systemd-nspawn with the daemon as its unit. Needs root, systemd-container and debootstrap, else it says
# that it is skipped; the first run fetches 150 MB, later ones take about a minute.
boot-test: $(STAMP)
	$(BIN)/python -m tests.boot

# What the documentation has from the program: --help of every command, and the example of a configuration.
docs: $(STAMP)
	$(BIN)/python -m homespec.reference docs

# The files for distributions, from the templates that 'homespec service install' fills in.
packaging: $(STAMP)
	$(BIN)/python -m homespec.service.package packaging

clean:
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache dist build
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
