# make demo            a real 2-node x 2-rank PyTorch DDP run in the terminal UI    (HEADLESS=1: without a terminal)
# make test            everything the tests need, then the tests                    (ARGS="-k name": pytest's arguments)
# make test-frameworks real runs of every framework and MPI (installs them: some minutes, 4 GB)
#                      HOROVOD=1: Horovod, too, which is built here (ten minutes more)
# make check           lint, types, floors
# make bench           the benchmarks
#
# PYTHON=...           the Python to build on; the demo's ranks use its torch if it has one, else one is installed
# VENV=.venv           where everything is installed; FRAMEWORKS=.venv-frameworks where the frameworks are
# JOBS=2               how many tests run at once (0: in this process, for a debugger)
# TORCH=torch==...     what to install as torch (may carry pip options)

PYTHON ?= python3
VENV ?= .venv
FRAMEWORKS ?= .venv-frameworks
TORCH ?= torch==2.13.0
HEADLESS ?=
HOROVOD ?=
JOBS ?= 2
ARGS ?=

BIN := $(VENV)/bin
SAY := @printf '%s\n'
WITH_HOROVOD := $(filter-out 0,$(HOROVOD))

.PHONY: demo test test-frameworks check bench setup clean help
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

help:
	@sed -n 's/^# \{0,1\}//p' Makefile

demo: $(VENV)/.installed
	@python="$$(tools/torch-python "$(PYTHON)" "$(VENV)" "$(TORCH)")" && \
	$(BIN)/rankdeck demo $(if $(filter-out 0,$(HEADLESS)),--headless) --python "$$python"

test: $(VENV)/.installed-dev
	@tools/system-packages
	@tools/torch-python "" "$(VENV)" "$(TORCH)" >/dev/null
	$(SAY) "running the tests (some minutes)"
	@$(BIN)/python -m pytest -n $(JOBS) --dist loadfile $(ARGS)

test-frameworks: $(VENV)/.installed-dev
	@tools/system-packages
	@tools/frameworks/install "$(FRAMEWORKS)" "$(PYTHON)" "$(TORCH)" $(if $(WITH_HOROVOD),horovod)
	$(SAY) "running the frameworks (some minutes)"
	@RANKDECK_FRAMEWORKS_PYTHON="$$(realpath -s "$(FRAMEWORKS)/bin/python")" \
	$(BIN)/python -m pytest -m 'frameworks$(if $(WITH_HOROVOD),, and not horovod)' $(ARGS)

check: $(VENV)/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(VENV)/.installed-dev
	@failed=; for file in $$(grep -l '^if __name__ == "__main__"' benchmarks/*.py); do \
		printf '\n== %s\n' "$$file"; $(BIN)/python "$$file" $(ARGS) || failed="$$failed $$file"; \
	done; \
	test -z "$$failed" || { echo "goals missed or failed:$$failed" >&2; exit 1; }

setup: $(VENV)/.installed-dev

clean:
	rm -rf "$(VENV)" dist build .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache

$(VENV)/.made: tools/make-venv
	@tools/make-venv "$(VENV)" "$(PYTHON)"
	@touch $@

$(VENV)/.installed: pyproject.toml | $(VENV)/.made
	$(SAY) "installing rankdeck into $(VENV) (under a minute)"
	@$(BIN)/python -m pip install --quiet --editable .
	@touch $@

$(VENV)/.installed-dev: pyproject.toml | $(VENV)/.made
	$(SAY) "installing rankdeck and its development tools into $(VENV) (about a minute)"
	@$(BIN)/python -m pip install --quiet --editable '.[dev]'
	@touch $@ $(VENV)/.installed
