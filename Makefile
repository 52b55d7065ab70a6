# The one door of Densite. Every target does its own set-up inside this folder and says what the machine lacks.
#
#   make demo          the main job on generated TPC-H data, with a table of before and after
#   make test          every test: the workspace's own, the Python package's, the example programs, the pairwise example's, then SQLite's
#   make bench         what the README claims, side by side with plain SQLite; writes bench/RESULTS.md
#                        QUICK=1     small data (scale factor 0.1), a few minutes
#                        LONG=1      3.6 million batches of constant load, 10 GiB of log to prune
#                        ONLY=q1,q8  these measures only        ROUNDS=9   how often each is taken
#                        ONLY=bulk   rows in and out from Python only
#                        DB=path     the stored size of any SQLite database instead
#   make wheel         the Python package with the extension and the command: target/wheels/densite-*-py3-none-manylinux_*.whl
#   make chroma        two releases of Chroma, for the tests of its directories: target/chroma-venvs
#   make python-test   the Python package with the sqlite3 modules of the Pythons that are there, pysqlite3 and apsw; the wheel
#   make pairwise      examples/pairwise: all pairs of 300 samples by a coordinator and 4 workers, with a status page to look at, and whether the result is right
#                        SAMPLES=300 WORKERS=4    how many        PORT=8765  of the status page (any that is free)
#   make pairwise-test its tests, with killed workers and a killed coordinator
#   make examples      the example programs in C, Rust, Go, Java and Node, of the languages that are there: target/examples
#   make sqlite-suite  SQLite's own tests with Densite as the default VFS
#   make crash         crash, kill and model tests for MINUTES=60 in all, shared equally by its parts; ends with a line for each
#                        SEED=1      the first seed; every run has new ones otherwise        ONLY=store  the parts whose names contain this
#   make fuzz          the fuzzers of the decoders and of the log's files, each for MINUTES=60, from SEED if given; 10,000 mutants of each format that `load` reads; 2,000 of each kind of database
#   make lint          format, clippy and documentation, all strict
#   make deny          licenses, sources and unwanted dependencies (deny.toml)        CHECK=advisories  known vulnerabilities instead; needs the network
#   make docs          the documentation as a book: target/book; fails if a link or an anchor of a document leads nowhere
#   make ext           the loadable extension and the command: target/release/libdensite.so, target/release/densite

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

# A user's rustup is found even where no login shell has run, and the outputs are where the README says.
export PATH := $(PATH):$(HOME)/.cargo/bin
export CARGO_TARGET_DIR := $(CURDIR)/target

MINUTES ?= 60
RELEASE := cargo build --release --locked
BENCH := target/release/densite-bench
# Of the book of the documentation; installed below target/mdbook.
MDBOOK := 0.5.4
# Of the check of the dependencies; installed below target/cargo-deny.
DENY := 0.20.2

.PHONY: help demo test none-skipped cargo-test crash-test chroma python-test bench crash docs examples fuzz lint deny ext pairwise pairwise-test sqlite-suite wheel need-build need-test

help:
	@sed -n '2,/^$$/s/^# \{0,1\}//p' Makefile

need-build:
	@scripts/need.sh build

need-test:
	@scripts/need.sh test

ext: need-build
	$(RELEASE) -p densite-extension -p densite-cli

demo: need-build
	$(RELEASE) -p densite-extension -p densite-cli -p densite-bench
	$(BENCH) demo

# Each test that this machine cannot run adds its reason to this file.
test: export DENSITE_SKIPPED := $(CURDIR)/target/skipped
test: none-skipped need-test ext cargo-test crash-test python-test examples pairwise-test sqlite-suite
	@[ ! -s '$(DENSITE_SKIPPED)' ] || { sort '$(DENSITE_SKIPPED)' | uniq -c | sed 's/^ *\([0-9]*\) /skipped \1 times: /'; }
	@echo "all tests passed, $$(cat '$(DENSITE_SKIPPED)' 2>/dev/null | wc -l) skipped"

none-skipped:
	@mkdir -p target && rm -f '$(DENSITE_SKIPPED)'

cargo-test: need-test ext chroma
	cargo test --workspace --locked

# Of what `make crash` runs, how it runs it: a part that fails is told of and stops no other.
crash-test: need-test
	PYTHONPATH=tests PYTHONDONTWRITEBYTECODE=1 PYTHONWARNINGS=error python3 -m unittest discover -s tests/long -t tests

chroma: need-test
	crates/cli/tests/chroma/setup.sh target/chroma-venvs

python-test: need-test wheel
	python/tests/run.sh target/release/libdensite.so target/python-test
	python/tests/wheel.sh target/wheels target/python-test

examples: need-build ext
	examples/run.sh target/release/libdensite.so target/examples

wheel: ext
	@scripts/need.sh wheel
	python3 python/wheel.py target/release target/wheels

# The example needs no environment of its own: only Python's standard library, and the package as it lies here.
pairwise pairwise-test: export PYTHONPATH := $(CURDIR)/python:$(CURDIR)/examples
pairwise pairwise-test: export DENSITE_LIBRARY := $(CURDIR)/target/release/libdensite.so
pairwise pairwise-test: export PYTHONDONTWRITEBYTECODE := 1

pairwise: ext
	@scripts/need.sh python
	rm -rf target/pairwise
	mkdir -p target/pairwise
	python3 -m pairwise run target/pairwise/pairs.db --samples '$(or $(SAMPLES),300)' --workers '$(or $(WORKERS),4)' --port '$(or $(PORT),0)'

pairwise-test: need-test ext
	PYTHONWARNINGS=error python3 -m unittest discover -s examples/pairwise/tests -t examples

sqlite-suite: need-test ext
	tests/sqlite-suite/setup.sh target/sqlite-suite
	tests/sqlite-suite/run.sh target/release/libdensite.so target/sqlite-suite

bench: need-build
	$(RELEASE) -p densite-extension -p densite-cli -p densite-bench
	$(if $(filter bulk,$(ONLY)),,$(BENCH) bench $(if $(QUICK),--quick) $(if $(LONG),--long) $(if $(ONLY),--only '$(ONLY)') $(if $(ROUNDS),--rounds '$(ROUNDS)') $(if $(DB),--db '$(DB)'))
	$(if $(filter-out bulk,$(ONLY))$(DB),,bench/python/run.sh target/release/libdensite.so target/bench-python --dir target --save bench $(if $(QUICK),--rows 100000 --keys 10000 --rounds 3) $(if $(ROUNDS),--rounds '$(ROUNDS)') && $(BENCH) report)

# The long runs are ignored tests named long_..., which read DENSITE_MINUTES and DENSITE_SEED; tests/long shares the time among them.
crash: FROM_HERE := PYTHONPATH=python:tests PYTHONDONTWRITEBYTECODE=1 DENSITE_LIBRARY='$(CURDIR)/target/release/libdensite.so'
crash: need-build ext
	@scripts/need.sh crash
	$(FROM_HERE) python3 -m long --minutes '$(MINUTES)' --seed '$(SEED)' --only '$(ONLY)' --command target/release/densite --dir target/crash -- cargo test --release --workspace --locked

fuzz: need-build
	DENSITE_MINUTES='$(MINUTES)' DENSITE_SEED='$(SEED)' cargo test --release --config profile.release.overflow-checks=true -p densite-fuzz -p densite-cli --locked --no-fail-fast -- --ignored --nocapture long_fuzz

lint: need-build
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --locked -- -D warnings
	cargo clippy -p densite-tools --lib --locked -- -D warnings  # without the feature chroma
	cargo fmt --manifest-path examples/rust/Cargo.toml --check
	cargo clippy --manifest-path examples/rust/Cargo.toml --target-dir target/examples/rust/build --locked -- -D warnings
	RUSTDOCFLAGS='-D warnings -A rustdoc::private_intra_doc_links' cargo doc --workspace --no-deps --document-private-items --locked

deny: need-build
	@[ "$$(target/cargo-deny/bin/cargo-deny --version 2>/dev/null)" = 'cargo-deny $(DENY)' ] || { \
	  echo 'installing cargo-deny $(DENY) into target/cargo-deny, which make deny lacks' >&2; \
	  cargo install cargo-deny --locked --version '$(DENY)' --root target/cargo-deny --target-dir target/cargo-deny/build --no-default-features; \
	  rm -rf target/cargo-deny/build; }
	target/cargo-deny/bin/cargo-deny --locked $(if $(CHECK),,--offline) check $(or $(CHECK),bans licenses sources)

docs: need-build
	@scripts/need.sh python
	cargo test -p densite-tests --test house --locked -- links
	@[ "$$(target/mdbook/bin/mdbook --version 2>/dev/null)" = 'mdbook v$(MDBOOK)' ] || { \
	  echo 'installing mdBook $(MDBOOK) into target/mdbook, which make docs lacks' >&2; \
	  cargo install mdbook --locked --version '$(MDBOOK)' --root target/mdbook --target-dir target/mdbook/build --no-default-features --features search; }
	scripts/book.py collect target/book-src
	target/mdbook/bin/mdbook build
	scripts/book.py check target/book
