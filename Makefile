# Thin: each target is a command you could type. `make help` lists them.
# Arguments go through ARGS, as in `make demo ARGS=--once`.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

CARGO ?= cargo
ARGS ?=
TOOLS := target/tools
DENY := $(TOOLS)/bin/cargo-deny
MACHETE := $(TOOLS)/bin/cargo-machete

.PHONY: help build testcluster demo rig test test-fast lint audit bench docs

help: ## list the targets
	@sed -nE 's/^([a-z-]+):.*## (.*)/  \1\t\2/p' $(firstword $(MAKEFILE_LIST)) | expand -t 16

build: ## the release binaries, in target/release
	$(CARGO) build --release

testcluster: ## the real control plane for tests (needs Go), in target/testcluster
	@testcluster/build.sh target/testcluster >&2

demo: testcluster ## a narrated kubectl session through the gateway; ARGS=--once ends after it
	@$(CARGO) build --quiet --release >&2
	@$(CARGO) run -q -p integration --bin demo --release -- $(ARGS)

# Its standard output is the rig's alone; from another folder use `make -s -C`, as make itself
# would print the folder's name.
rig: testcluster ## control planes and gateway for outside tests: one line of JSON, then waits
	@$(CARGO) build --quiet --release >&2
	@$(CARGO) run -q -p integration --bin rig --release -- $(ARGS)

test: testcluster ## every test, also on the real control plane
	$(CARGO) build
	$(CARGO) test --workspace $(ARGS)

test-fast: ## the tests that need only Rust
	$(CARGO) test --workspace --exclude integration $(ARGS)

lint: $(DENY) $(MACHETE) ## format, clippy, dependencies, layering, files; needs no advisory database
	$(CARGO) fmt --all --check
	$(CARGO) xtask layering
	$(CARGO) xtask guard
	$(MACHETE)
	$(DENY) check --allow duplicate bans licenses sources
	$(CARGO) clippy --workspace --all-targets -- -D warnings

# Apart from lint: it fetches the advisory database, which a closed network does not reach.
audit: $(DENY) ## known vulnerabilities of dependencies; needs the network
	$(DENY) check advisories

bench: testcluster ## direct against through the gateway; writes docs/reference/performance.md
	$(CARGO) build --release
	$(CARGO) run --release -p integration --bin bench -- $(ARGS)

docs: ## the API documentation, in target/doc
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps

$(DENY):
	$(CARGO) install --locked --version '~0.20' --root $(TOOLS) cargo-deny

$(MACHETE):
	$(CARGO) install --locked --version '~0.9' --root $(TOOLS) cargo-machete
