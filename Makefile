# Set-up, tests and checks. Every target makes what it needs: `make test` works in a new clone.
# Needs cargo (Rust 1.91 or newer) and Python 3.11 or newer; PYTHON=... chooses the Python.
# CARGO_TARGET_DIR is honoured.

VENV := .venv
PY := $(VENV)/bin/python
READY := $(VENV)/.ready
PYTHONS := $(PYTHON) python3 python3.13 python3.12 python3.11 python3.14

# The tools below find the environment by this, whatever else is active.
export VIRTUAL_ENV := $(abspath $(VENV))
unexport CONDA_PREFIX PYTHONHOME PYTHONPATH
export PIP_NO_INPUT := 1
export PIP_DISABLE_PIP_VERSION_CHECK := 1
export PIP_ROOT_USER_ACTION := ignore

# All builds here have the feature zfp, so that nothing is compiled twice. It needs CMake and libclang, which come from
# PyPI, the latter without the headers that a compiler brings along.
FEATURES := --features zfp
ZFP_ENV := PATH="$$PATH:$(abspath $(VENV))/bin" \
  LIBCLANG_PATH="$$(echo $(abspath $(VENV))/lib/python3*/site-packages/clang/native)" \
  BINDGEN_EXTRA_CLANG_ARGS="-I$$(cc -print-file-name=include)"

.DELETE_ON_ERROR:
.NOTPARALLEL:
.PHONY: help demo test test-rust test-python lint lint-source lint-build fmt clean develop release cargo
.PHONY: bench bench-quick bench-remote bench-rust bench-instructions miri valgrind

help:
	@echo 'make demo                build in release mode and run examples/quickstart.py'
	@echo 'make test                all tests, of Rust and of Python'
	@echo 'make lint                rustfmt, clippy, ruff, mypy and stubtest'
	@echo 'make fmt                 format all code'
	@echo 'make bench               compare with other readers, in a folder outside the checkout; bench-quick: on less data'
	@echo 'make bench-remote        compare with other readers of an object store, one that this machine plays'
	@echo 'make bench-rust          time planning, copying and decoding'
	@echo 'make bench-instructions  count instructions, and fail if there are more than before; needs valgrind'
	@echo 'make miri                run the tests of plans and copies in Miri, which sees undefined behaviour; needs nightly Rust'
	@echo 'make valgrind            run the tests of decoding, on fewer cases, in valgrind, which sees stray accesses of C too'
	@echo 'make clean               remove .venv, the local build and all caches'

demo: release $(VENV)/.demo
	$(PY) examples/quickstart.py

test: test-rust test-python

test-rust: $(VENV)/.build | cargo
	$(ZFP_ENV) cargo test $(FEATURES)

test-python: develop $(VENV)/.test $(VENV)/.demo $(VENV)/.azurite
	$(PY) -m pytest

lint: lint-source lint-build

lint-source: $(VENV)/.lint | cargo
	cargo fmt --all --check
	$(PY) -m ruff check
	$(PY) -m ruff format --check
	$(PY) -m mypy python/zarrow examples benches

# Clippy gets the variables that maturin gives to cargo: with others, pyo3 and all that stands on it
# would be compiled again, here and in the next build.
lint-build: develop $(VENV)/.lint
	@version=$$($(PY) -c 'import sys; print("%d.%d" % sys.version_info[:2])'); \
	config=$$(ls "$${CARGO_TARGET_DIR:-target}"/maturin/pyo3-config-*-"$$version"-abi3.txt 2>/dev/null); \
	if [ -f "$$config" ]; then export PYO3_CONFIG_FILE="$$(realpath "$$config")"; fi; \
	export PYO3_PYTHON="$(abspath $(PY))" PYO3_BUILD_EXTENSION_MODULE=1; \
	export PYO3_ENVIRONMENT_SIGNATURE="cpython-$$version-64bit"; \
	set -x; $(ZFP_ENV) cargo clippy --workspace --all-targets $(FEATURES) -- -D warnings
	cargo clippy --lib --no-default-features -- -D warnings
	$(PY) -m mypy.stubtest zarrow --mypy-config-file pyproject.toml

fmt: $(VENV)/.lint | cargo
	cargo fmt --all
	$(PY) -m ruff check --fix
	$(PY) -m ruff format

# ARGS chooses: make bench ARGS='W3 W4 --methods zarrow,tensorstore', or ARGS=--help. See benches/compare/README.md.
bench: $(VENV)/.build | cargo
	$(PY) -m benches.compare $(ARGS)

bench-quick: $(VENV)/.build | cargo
	$(PY) -m benches.compare --scale quick $(ARGS)

# ARGS chooses: make bench-remote ARGS='R3 --scale quick', or ARGS=--help. See benches/remote/README.md.
bench-remote: $(VENV)/.build | cargo
	$(PY) -m benches.remote $(ARGS)

# ARGS chooses: make bench-rust ARGS='--bench copying crops'. See benches/README.md.
bench-rust: | cargo
	cargo bench $(ARGS)

# make bench-instructions ARGS=--update takes the counts as the new baseline.
bench-instructions: $(READY) | cargo
	$(PY) benches/instructions/check.py $(ARGS)

# Files, mapped memory and C are beyond Miri: the tests named here do without. But proptest looks up the folder it is in.
miri: export MIRIFLAGS ?= -Zmiri-disable-isolation
miri: | cargo
	@cargo +nightly miri --version >/dev/null 2>&1 || { \
	  echo 'make miri needs nightly Rust with Miri. Install it with:' >&2; \
	  echo '  rustup toolchain install nightly --profile minimal --component miri,rust-src' >&2; exit 1; }
	cargo +nightly miri test --lib -- plan:: selection:: read::scatter read::crew read::run read::rows_tests read::padding read::validity

# PROPTEST_CASES also bounds the damages of each array in tests/hostile_chunks.rs.
valgrind: export PROPTEST_CASES ?= 20
valgrind: export RUST_TEST_THREADS ?= 2
valgrind: $(VENV)/.build | cargo
	@command -v valgrind >/dev/null || { \
	  echo 'make valgrind needs valgrind. Install it, for example with: apt install valgrind' >&2; exit 1; }
	@host=$$(rustc -vV | sed -n 's/^host: //p' | tr a-z- A-Z_); set -x; \
	$(ZFP_ENV) env "CARGO_TARGET_$${host}_RUNNER=valgrind -q --error-exitcode=99 --leak-check=no --fair-sched=try" \
	  cargo test $(FEATURES) --lib --test errors --test gdeflate --test hostile_chunks --test optional --test oracle --test variable --test zfp

# The extension module, in the profile of `cargo test`.
develop: $(VENV)/.build | cargo
	$(ZFP_ENV) $(PY) -m maturin develop $(FEATURES)

# The extension module, optimised.
release: $(VENV)/.build | cargo
	$(ZFP_ENV) $(PY) -m maturin develop --release $(FEATURES)

# A dependency group of pyproject.toml, installed into the environment.
$(VENV)/.build $(VENV)/.demo $(VENV)/.test $(VENV)/.lint: $(VENV)/.%: pyproject.toml $(READY)
	$(PY) -m pip install --quiet --group $*
	@touch $@

# A server of Azure's blobs, for the tests of that; they are left out where there is no npm.
$(VENV)/.azurite: $(READY)
	@if ! command -v npm >/dev/null; then \
	  echo 'Without npm, the tests of Azure are left out.'; \
	elif ! npm install --prefix $(VENV)/azurite --no-audit --no-fund --silent azurite@3; then \
	  echo 'Azurite could not be installed: the tests of Azure are left out.'; \
	fi
	@touch $@

$(READY):
	@for python in $(PYTHONS); do \
	  if "$$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then \
	    echo "Making $(VENV) with $$("$$python" --version)"; \
	    "$$python" -m venv --clear $(VENV) && $(PY) -m pip install --quiet --upgrade 'pip>=25.1' && touch $@; \
	    exit; \
	  fi; \
	done; \
	echo 'zarrow needs Python 3.11 or newer, and none of these is: $(strip $(PYTHONS)).' >&2; \
	echo 'Install one, or name one that is elsewhere: make PYTHON=/path/to/python' >&2; \
	exit 1

cargo:
	@command -v cargo >/dev/null || { \
	  echo 'zarrow needs cargo, Rust 1.91 or newer. Install Rust and put cargo on the PATH.' >&2; exit 1; }

clean:
	rm -rf $(VENV) target dist python/zarrow/*.so .pytest_cache .mypy_cache .ruff_cache
	find python tests examples benches \( -name __pycache__ -o -name .hypothesis \) -prune -exec rm -rf {} +
	rm -f quickstart.png
