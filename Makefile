# `make` lists the targets. Python 3.11 or newer and make are all that is needed beforehand.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.NOTPARALLEL:

TRAIN_ARGS ?=
BENCH_ARGS ?= env
PYTEST_ARGS ?=

BIN := .venv/bin
UV := $(shell command -v uv)
# Python compiles what is imported, which is a part of what is installed.
PIP_INSTALL := $(if $(UV),"$(UV)" pip install --quiet --python $(BIN)/python,\
	$(BIN)/python -m pip install --quiet --no-compile --disable-pip-version-check)

# A Google device in the PCI list is not enough (the network card of a cloud VM is one), nor is a
# vfio device (a laptop may pass its GPU to a virtual machine): newer TPUs are both.
ACCELERATOR := $(shell \
	if command -v nvidia-smi >/dev/null && nvidia-smi -L >/dev/null 2>&1; then echo cuda; \
	elif ls /dev/accel[0-9]* >/dev/null 2>&1; then echo tpu; \
	elif ls /dev/vfio/[0-9]* >/dev/null 2>&1 && grep -qs 0x1ae0 /sys/bus/pci/devices/*/vendor; then echo tpu; \
	else echo cpu; fi)

.PHONY: help
help: ## list the targets
	@sed -nE 's/^([a-z]+):.*## (.*)/  make \1\t\2/p' Makefile | expand -t 20

# The recipe: on a bare CPU a few minutes' worth. TRAIN_ARGS may name another --config.
CONFIG_cpu := minutes
CONFIG_cuda := gpu
CONFIG_tpu := v4_8
CONFIG = $(if $(filter --config --config=%,$(TRAIN_ARGS)),,--config=configs/$(CONFIG_$(ACCELERATOR)).py)
.PHONY: train
train: .venv/.with-$(ACCELERATOR) ## train on the accelerator found here; TRAIN_ARGS="--config.lr=1e-4 ..."
	@$(BIN)/python -m launch.train $(CONFIG) $(TRAIN_ARGS)

.PHONY: setup
setup: .venv/.with-$(ACCELERATOR) ## set up .venv, and nothing else

.PHONY: bench
bench: .venv/.with-$(ACCELERATOR) ## measure speed; BENCH_ARGS="env", "train", "scaling" ...
	@$(BIN)/python -m launch.bench $(BENCH_ARGS)

.PHONY: test
test: lint ## lint, then run the tests; PYTEST_ARGS="-k name ..."
	@$(BIN)/python -m pytest $(PYTEST_ARGS)

.PHONY: lint
lint: .venv/.with-dev ## check style, format and types
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/python -m mypy
	@if command -v shellcheck >/dev/null; then shellcheck .ci/run $(wildcard scripts/*.sh); fi

.PHONY: format
format: .venv/.with-dev ## put the source in the house format
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

# Run it with Python 3.11: what installs there installs on newer versions, not the other way round.
.PHONY: constraints
constraints: | $(BIN)/python ## choose anew the exact versions in constraints.txt (minutes)
	@mkdir -p .cache
	@$(BIN)/python -m pip install --dry-run --ignore-installed '.[tpu,cuda,wandb,gcp,sb3,dev]' > .cache/resolved
	@{ sed '/^#/!d' constraints.txt; \
	   sed -n 's/^Would install //p' .cache/resolved | tr ' ' '\n' | sed -E 's/-([^-]+)$$/==\1/' \
	   | grep -vE '^(hackmatrix|setuptools|tfp-nightly)==' | sed 's/+cpu$$//' | sort; } > .cache/constraints.txt
	@mv .cache/constraints.txt constraints.txt

.PHONY: clean
clean: ## remove .venv, the caches of the checkout and build products; runs stay
	@rm -rf .venv .cache build *.egg-info
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(BIN)/python:
	@rm -rf .venv
	@if [ -n "$(if $(PYTHON),,$(UV))" ]; then exec "$(UV)" venv --quiet --seed --python '>=3.11,<3.14' .venv; fi; \
	for python in $(if $(PYTHON),"$(PYTHON)",python3.13 python3.12 python3.11 python3); do \
		if "$$python" -c 'import ensurepip, sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then \
			exec "$$python" -m venv .venv; \
		fi; \
	done; \
	echo "No Python 3.11 or newer with the venv module" \
		"$(if $(PYTHON),is at PYTHON=$(PYTHON),was found); name one: make PYTHON=/path/to/python" >&2; \
	exit 1

# Compiles for GPUs without any (launch.preflight, launch.bench env), and stays apart: in .venv, JAX
# would look for a GPU at each start.
.cache/compiler-for-gpus: constraints.txt | $(BIN)/python
	@echo "Installing the compiler for GPUs into $@"
	@rm -rf $@
	@$(PIP_INSTALL) --no-deps --constraint constraints.txt --target $@.new jax-cuda12-pjrt jax-cuda12-plugin
	@mv $@.new $@ && touch $@

# An environment is made anew, with its packages, where its Python is gone, where the checkout was
# moved or copied (its programs name the Python of the old place), or where it was left half made.
IS_SOUND := $(shell \
	[ -x $(BIN)/python ] || exit 0; \
	if [ -e $(BIN)/activate ]; then . $(BIN)/activate; [ "$$VIRTUAL_ENV" -ef .venv ] || exit 0; fi; \
	[ -n "$(UV)" ] || ls .venv/.with-* >/dev/null 2>&1 || $(BIN)/python -m pip --version >/dev/null 2>&1 || exit 0; \
	echo yes)
.PHONY: $(if $(IS_SOUND),,$(BIN)/python)

# One stamp for each set of packages; all sets live together in one environment.
.venv/.with-%: pyproject.toml constraints.txt $(if $(IS_SOUND),|) $(BIN)/python
	@echo "Installing packages into .venv ($*)"
	@$(PIP_INSTALL) --constraint constraints.txt --editable '.$(if $(filter cpu,$*),,[$*])'
	@touch $@
