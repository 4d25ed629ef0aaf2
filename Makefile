# azud: one target per check. `make` alone lists them.
#
# Everything is built in $(BUILD): CARGO_TARGET_DIR when it is set, else target/.

BUILD    := $(or $(CARGO_TARGET_DIR),target)
RELEASE  := $(BUILD)/release
LINK     := -L$(RELEASE) -lazud -Wl,-rpath,$(abspath $(RELEASE))
LOG      := benches/data/access.log
LIMIT    := token-bucket 30/1m burst=30
NIGHTLY  := cargo +nightly

# How long the deep checks may take: seconds for each fuzz target, and for each loom model.
SECONDS  ?= 600
FUZZ     := limit decide table
IN_FUZZ  := --manifest-path fuzz/Cargo.toml

# What `make test` runs, in this order: the quick ones first.
TEST     := fmt-check lint doc test-rust test-default test-doc test-c vectors loom

.DEFAULT_GOAL := help
.PHONY: help demo demo-run capi cli test $(TEST) tidy loom-deep fuzz fuzz-deep fuzz-tools asan bench fmt header deps need-cc clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

# ---- seeing it work

demo: need-cc ## build everything, then run a C program and a replay over a real access log
	@echo "Building the program azud and the C library (the first time takes a minute or two) ..."
	@$(MAKE) -s cli capi
	@$(CC) -std=c11 -O2 -Wall -Wextra -Iinclude bindings/c/demo.c -o $(BUILD)/demo $(LINK) -lpthread
	@$(MAKE) -s demo-run

demo-run:
	@printf '\n== 1. A C program with threads embeds the engine and limits each client of %s\n\n' "$(LOG)"
	@$(BUILD)/demo $(LOG)
	@printf '\n== 2. The same question without a line of code: who would be refused at "%s"?\n\n' "$(LIMIT)"
	@printf '   $$ azud replay %s --limit "%s" --key ip\n\n' "$(LOG)" "$(LIMIT)"
	@$(RELEASE)/azud replay $(LOG) --limit "$(LIMIT)" --key ip

cli: ## build the program: target/release/azud
	cargo build --release --features cli

capi: ## build the C library: target/release/libazud.so and libazud.a
	cargo rustc --release --lib --features capi --crate-type cdylib,staticlib

# ---- checks

test: deps ## all that must pass before a commit is shared: the checks below, up to loom
	@total=$$(date +%s); passed=0; \
	for check in $(TEST); do \
	  printf '\n== make %s\n' $$check; start=$$(date +%s); \
	  $(MAKE) --no-print-directory $$check || { printf '\n== make %s FAILED\nchecks: %d passed, 1 failed\n' $$check $$passed; exit 1; }; \
	  passed=$$((passed + 1)); printf '== make %s: %d s\n' $$check $$(($$(date +%s) - start)); \
	done; \
	printf '\n== make test: %d s\nchecks: %d passed, 0 failed\n' $$(($$(date +%s) - total)) $$passed

fmt-check: ## the source is formatted
	cargo fmt --check
	cargo fmt --check $(IN_FUZZ)

lint: ## clippy without a warning, for the smallest build, the largest, and the fuzz targets
	cargo clippy --all-targets -- -D warnings
	cargo clippy --all-targets --all-features -- -D warnings
	cargo clippy $(IN_FUZZ) -- -D warnings

doc: ## the documentation builds without a warning
	RUSTDOCFLAGS="-D warnings" cargo doc --no-deps --all-features

tidy: ## the rules about the source itself (src/tests/tidy.rs), which test-rust runs too
	cargo test --lib --all-features tidy

test-rust: ## all Rust tests, with every feature; the freshness of include/azud.h is one of them
	cargo test --lib --bins --test cli --all-features

test-default: ## the tests of the smallest build: the same code, so a few cases of each property do
	PROPTEST_CASES=16 cargo test --lib

test-doc: ## every example in the documentation and in README.md
	cargo test --doc --all-features

test-c: deps capi ## the C and C++ programs: gcc, clang, valgrind, AddressSanitizer
	bindings/c/run_tests.sh $(RELEASE)
	sed -n '/^```c$$/,/^```$$/{//!p}' README.md | $(CC) -std=c11 -Wall -Wextra -Wpedantic -Werror -Iinclude -x c - -o $(BUILD)/readme $(LINK)
	$(BUILD)/readme

vectors: cli ## the language-neutral vectors, through `azud decide`
	python3 bindings/vectors/check_vectors.py bindings/vectors/vectors.tsv $(RELEASE)/azud
	python3 bindings/vectors/check_vectors.py bindings/vectors/arith_vectors.tsv $(RELEASE)/azud

LOOM = RUSTFLAGS="--cfg loom" CARGO_TARGET_DIR=$(BUILD)/loom CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16 \
       cargo test --release --lib loom_

loom: ## the races, each explored with at most 2 preemptions, for at most a minute
	LOOM_MAX_PREEMPTIONS=2 LOOM_MAX_DURATION=60 $(LOOM)

# ---- checks that take their time (SECONDS=600), or another toolchain

loom-deep: ## the races with at most 4 preemptions, SECONDS for each
	LOOM_MAX_PREEMPTIONS=4 LOOM_MAX_DURATION=$(SECONDS) $(LOOM)

fuzz: SECONDS = 30
fuzz: fuzz-deep ## each fuzz target for 30 s (needs the nightly toolchain)

fuzz-deep: fuzz-tools ## each fuzz target for SECONDS
	set -e; for target in $(FUZZ); do found=$(abspath $(BUILD))/corpus/$$target; mkdir -p $$found; \
	  $(NIGHTLY) fuzz run $$target $$found fuzz/corpus/$$target -- -max_total_time=$(SECONDS); done

fuzz-tools:
	@$(NIGHTLY) --version >/dev/null 2>&1 || { echo "missing: the nightly toolchain (rustup toolchain install nightly)"; exit 1; }
	@cargo fuzz --version >/dev/null 2>&1 || cargo install cargo-fuzz --locked

# Not for leaks: a debug build keeps the shell of a freed handle on purpose. test-c looks for them.
asan: ## the Rust tests under AddressSanitizer (needs the nightly toolchain)
	ASAN_OPTIONS=detect_leaks=0 RUSTFLAGS="-Zsanitizer=address" CARGO_TARGET_DIR=$(BUILD)/asan \
	  $(NIGHTLY) test --lib --all-features --target $$(rustc -vV | sed -n 's/^host: //p')

bench: ## criterion benchmarks
	cargo bench

# ---- writing

fmt: ## format the source
	cargo fmt
	cargo fmt $(IN_FUZZ)

header: ## write include/azud.h anew
	AZUD_BLESS=1 cargo test --lib --all-features header

clean: ## remove what was built
	cargo clean

# ---- what the checks need besides Rust and make

PACKAGES := gcc g++ clang valgrind python3
# Links a C program under both compilers' AddressSanitizer, which is in a package of its own.
SANITIZE := echo 'int main(void) { return 0; }' | $$cc -fsanitize=address -x c - -o /dev/null 2>/dev/null

deps: ## install gcc, g++, clang with its sanitizers, valgrind and python3, if they are missing (Debian)
	@missing() { \
	  for tool in $(PACKAGES); do command -v $$tool >/dev/null || echo $$tool; done; \
	  for cc in gcc clang; do $(SANITIZE) || echo "AddressSanitizer for $$cc"; done; \
	}; \
	[ -z "$$(missing)" ] && exit 0; \
	if [ "$$(id -u)" = 0 ]; then as_root=""; elif sudo -n true 2>/dev/null; then as_root="sudo -n"; else as_root=false; fi; \
	if command -v apt-get >/dev/null; then \
	  install="env DEBIAN_FRONTEND=noninteractive apt-get install -qy --no-install-recommends"; \
	  $$as_root apt-get update -q && $$as_root $$install $(PACKAGES) libc6-dev && \
	  { [ -z "$$(missing)" ] || $$as_root $$install libclang-rt-$$(clang -dumpversion | cut -d. -f1)-dev; }; \
	fi; \
	[ -z "$$(missing)" ] || { echo "missing, please install (Debian: $(PACKAGES) libc6-dev libclang-rt-14-dev):"; missing; exit 1; }

need-cc:
	@command -v $(CC) >/dev/null || $(MAKE) --no-print-directory deps
