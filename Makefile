# The commands of this project. `make help` lists them; README.md shows where to begin.
#
# Everything costly that can be kept (root images, tools) lives outside the checkout, below $(CACHE).

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

CACHE ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/gluster-block-csi
TOOLS := $(CACHE)/tools/bin
export PATH := $(TOOLS):$(PATH)

CARGO := cargo
LAB := target/debug/lab
# Name of the lab that lab-up, lab-shell and lab-down speak of. Several can exist side by side.
LAB_ID ?= dev
GUEST ?= n1

.PHONY: help
help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
	@echo
	@echo "  lab-up, lab-shell and lab-down take LAB_ID=name (default dev); lab-shell takes GUEST=n1|n2|s1|s2|s3."
	@echo "  All of them need root: the lab makes a network namespace and tap devices."

.PHONY: packages
packages: # Debian packages the lab and the build need; does nothing when they are there
	@.ci/prepare

.PHONY: tools
tools: # nextest, cargo-deny and csi-sanity at pinned versions, kept in $(TOOLS)
	@.ci/tools $(CACHE)/tools

.PHONY: build
build: packages # Everything the lab runs
	@$(CARGO) build --locked --workspace --bins

.PHONY: demo
demo: build ## Play the life of a volume on real iSCSI, multipath and gluster (some minutes)
	@target/debug/demo

.PHONY: bench
bench: packages ## Measure the driver beside the bare commands (ten minutes; BENCH='--repeat 30 --fs ext4')
	@$(CARGO) build --release --locked --workspace --bins
	@target/release/bench $(BENCH)

.PHONY: test
test: packages tools ## Run every test, the lab included; ends with totals
	@$(CARGO) build --locked --workspace --bins
	@$(CARGO) test --locked --workspace --doc --quiet
	@.ci/test

.PHONY: lint
lint: packages tools ## Formatting, lints, documentation, licences
	@$(CARGO) fmt --all --check
	@$(CARGO) clippy --workspace --all-targets --locked -- -D warnings
	@RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps --document-private-items --locked --quiet
	@$(CARGO) deny --locked check --hide-inclusion-graph bans licenses sources

.PHONY: fmt
fmt: ## Format the code
	@$(CARGO) fmt --all

.PHONY: lab-up
lab-up: build ## Boot a lab: three storage hosts, two nodes
	@$(LAB) up --id $(LAB_ID)

.PHONY: lab-shell
lab-shell: build ## A shell in one guest of the lab
	@$(LAB) shell --id $(LAB_ID) $(GUEST)

.PHONY: lab-down
lab-down: build ## Stop the lab and remove all it made
	@$(LAB) down --id $(LAB_ID)
