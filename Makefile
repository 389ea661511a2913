# Two commands are enough: `make serve` and `make test`. `make` alone lists the others.
# The first run builds .venv from the package index with the versions of constraints.txt; later runs start at once.

VENV := .venv
BIN := $(VENV)/bin
# 3.11 comes first because constraints.txt was resolved with it. `make serve PYTHON=/path/to/python` overrides.
PYTHON ?= python3.11 python3.12 python3.13 python3.14 python3 python

# A file inside .venv says that one set of requirements is installed; editing either list makes it stale.
SERVE_READY := $(VENV)/.ready-serve
DEVELOP_READY := $(VENV)/.ready-develop
LOAD_READY := $(VENV)/.ready-load
BENCH_READY := $(VENV)/.ready-bench
$(SERVE_READY): EXTRAS := [torch]
$(DEVELOP_READY): EXTRAS := [train,test,dev,bench,load]
$(LOAD_READY): EXTRAS := [load]
$(BENCH_READY): EXTRAS := [bench]

# One numeric thread a test process: more of them on the same cores only get in each other's way.
# Bytecode is kept: without it every process compiles 600 test modules anew, which takes nine seconds.
# A test that takes ten minutes hangs: it fails, with where it stood, and the others go on.
PYTEST := OMP_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest \
	--override-ini faulthandler_timeout=600 --override-ini faulthandler_exit_on_timeout=true
# Each process takes a part of the tests in order, which shares their fixtures, and steals from others at the end.
# One process more than cores: some tests wait.
TEST_PROCESSES ?= $(shell echo $$(( $$(getconf _NPROCESSORS_ONLN) + 1 )))
SIDE_BY_SIDE := --numprocesses $(TEST_PROCESSES) --dist worksteal
# Of `make sanitize`. At -O3 the sanitized library compiles for over ten minutes. Tests that ask for more memory than there
# is are left out: AddressSanitizer ends the process then. ThreadSanitizer sees false races where
# PyTorch lends its threads to training operators, so it only looks at decoding sessions.
SANITIZED := build/sanitize
COMMA := ,
NATIVE_TESTS := tests/model/native tests/model/network/test_native_ops.py tests/model/decoding/test_native_network.py \
	tests/model/decoding/test_native_runner.py
# What a process passes to the library when it loads a network, and with a request: seconds under AddressSanitizer.
LOAD_TESTS := tests/model/native/test_load_properties.py tests/model/native/test_validate.py

# Draws new examples for the properties; the seed is printed, and `make explore SEED=…` draws them again.
SEED ?= $(shell date +%s)

DEMO := runs/d2l
DEMO_SENTENCES := examples/d2l-sentences.en-fr.tsv
BENCH_OUTPUT ?= runs/bench
# Read by `make load`; `python -m benchmarks.load --help` says what they mean.
export LOAD_SCENARIO LOAD_URL LOAD_USERS LOAD_SECONDS LOAD_SCALE LOAD_FACTOR LOAD_API_KEYS LOAD_OUTPUT
# Of `make soak`.
SOAK_SECONDS ?= 600

# Compiles the network for this kind of processor, once; without a compiler it says so, and decoding uses PyTorch.
BUILD_NATIVE := $(BIN)/python -m model.native.build || true

.PHONY: help serve test explore objectives check sanitize sanitize-load image train-demo bench load soak clean

help: ## List these commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-13s %s\n", $$1, $$2}' Makefile

serve: $(SERVE_READY) ## Serve the embedded checkpoint on DRAGOMAN_HOST:DRAGOMAN_PORT (127.0.0.1:8000)
	@$(BUILD_NATIVE)
	@exec $(BIN)/dragoman serve

test: $(DEVELOP_READY) ## Run the test suite
	@$(BUILD_NATIVE)
	@$(PYTEST) $(SIDE_BY_SIDE) $(PYTEST_ARGS)

explore: $(DEVELOP_READY) ## Check the properties on new random examples; prints the seed that draws them again
	@$(BUILD_NATIVE)
	@echo "make explore SEED=$(SEED)"
	@$(PYTEST) $(SIDE_BY_SIDE) -m hypothesis --hypothesis-profile explore --hypothesis-seed $(SEED) $(PYTEST_ARGS)

objectives: $(DEVELOP_READY) ## Measure the service's objectives in seconds, three times; needs a machine with nothing else to do
	@$(BUILD_NATIVE)
	@$(BIN)/python -m benchmarks.timed_objectives --output docs/results

check: $(DEVELOP_READY) ## Lint, formatting, types and import rules
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/clang-format --dry-run --Werror model/native/src/*.* model/native/src/*/*.*
	$(BIN)/python -m model.native.build --warnings
	$(BIN)/mypy
	$(BIN)/lint-imports

# $(call sanitize,FLAGS,RUNTIMES,TESTS,NAMES): compiles a copy with the flags, and runs the tests with these names.
define sanitize
	@rm -rf $(SANITIZED) && mkdir -p $(SANITIZED)
	@cp -r app model tests pyproject.toml $(SANITIZED) && rm -rf $(SANITIZED)/model/native/lib
	@sed -i 's/"-O3"/"-O1"/' $(SANITIZED)/model/native/build.py
	@grep -qs amx_int8 /proc/cpuinfo || sed -i '/^    "amx": /d' $(SANITIZED)/model/native/build.py
	cd $(SANITIZED) && CXX="g++ -g1 $(1)" $(CURDIR)/$(BIN)/python -m model.native.build
	cd $(SANITIZED) && \
	  LD_PRELOAD="$(foreach runtime,$(2),$$(g++ -print-file-name=lib$(runtime).so))" OMP_NUM_THREADS=1 \
	  ASAN_OPTIONS=detect_leaks=0 $(CURDIR)/$(BIN)/python -m pytest --capture=sys -p no:cacheprovider \
	  -k "$(4)" $(3) $(PYTEST_ARGS)
endef
MEMORY := -fsanitize=address$(COMMA)undefined -fno-sanitize-recover=undefined

sanitize: $(DEVELOP_READY) ## Run the native library's tests under AddressSanitizer, UBSan and ThreadSanitizer; needs g++
	$(call sanitize,$(MEMORY),asan ubsan,$(NATIVE_TESTS),not memory and not build)
	$(call sanitize,-fsanitize=thread,tsan,$(NATIVE_TESTS),runners_on_several_threads)

sanitize-load: $(DEVELOP_READY) ## Load random networks under AddressSanitizer and UBSan, in a minute; needs g++
	$(call sanitize,$(MEMORY),asan ubsan,$(LOAD_TESTS),test)

image: ## Build the image for a CPU and check that it serves; needs docker or podman
	@deploy/check_image.sh

train-demo: $(DEVELOP_READY) ## Train the Transformer of Dive into Deep Learning, in a minute or two; translate, score, draw
	@$(BUILD_NATIVE)
	@rm -rf $(DEMO)
	$(BIN)/dragoman train --config examples/d2l.toml
	$(BIN)/dragoman evaluate --checkpoint $(DEMO)/checkpoints/best --source-file $(DEMO_SENTENCES) --sentence-bleu 2
	@cut -f 1 $(DEMO_SENTENCES) | tr '\n' '\0' | xargs -0 \
	  $(BIN)/dragoman attention --checkpoint $(DEMO)/checkpoints/best --output $(DEMO)/attention

bench: $(BENCH_READY) ## Race decoding, serving and training against other engines, in minutes; writes BENCH_OUTPUT
	@$(BUILD_NATIVE)
	$(BIN)/python -m benchmarks.decode --batch-size 1 --batch-size 32 --rounds 3 --output $(BENCH_OUTPUT)
	$(BIN)/python -m benchmarks.decode --name decode-text --checkpoint checkpoints --batch-size 8 --sentences 100 \
	  --rounds 3 --output $(BENCH_OUTPUT)
	$(BIN)/python -m benchmarks.serve --concurrency 1 --concurrency 32 --workers 2 --seconds 2 --rounds 3 \
	  --output $(BENCH_OUTPUT)
	$(BIN)/python -m benchmarks.training --rounds 3 --output $(BENCH_OUTPUT)

load: $(LOAD_READY) ## Put the service at LOAD_URL under the load LOAD_SCENARIO; fails when it misses an objective
	@$(BIN)/python -m benchmarks.load

soak: $(DEVELOP_READY) ## Load a service of its own for SOAK_SECONDS (600), and see that nothing grows
	@$(BUILD_NATIVE)
	@SOAK_SECONDS=$(SOAK_SECONDS) OMP_NUM_THREADS=1 $(BIN)/python -m pytest -m soak -s tests/soak

clean: ## Remove caches and build leftovers (not .venv, not runs/)
	rm -rf build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -path ./$(VENV) -prune -o -name __pycache__ -type d -prune -exec rm -rf {} +

# A virtual environment that is there already, however it was made, is used as it is.
$(VENV)/.created:
	@if $(BIN)/python -m pip --version >/dev/null 2>&1; then touch $@; exit 0; fi; \
	for python in $(PYTHON); do \
	  if $$python -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then \
	    echo "Creating $(VENV) with $$($$python --version)"; \
	    $$python -m venv $(VENV) && touch $@ && exit 0; exit 1; \
	  fi; \
	done; \
	echo "No Python 3.11 or newer with its venv module was found (looked for: $(PYTHON))." >&2; \
	echo "Install one (on Debian: python3 and python3-venv), or name it: make PYTHON=/path/to/python3.11" >&2; \
	exit 1

$(SERVE_READY) $(DEVELOP_READY) $(LOAD_READY) $(BENCH_READY): pyproject.toml constraints.txt | $(VENV)/.created
	@echo "Installing .$(EXTRAS) into $(VENV) (the first time takes a few minutes)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable ".$(EXTRAS)"
	@touch $@
