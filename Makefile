# Everything that CI does is a target here, and runs the same on your machine.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

STEP := .ci/step
COUNT ?= 20
FUZZTIME ?= 30s
SEEDS ?= 10000
ROUNDS ?= 7

.PHONY: help
help: ## list the targets
	@sed -n 's/^\([a-z.-]*\):.*## \(.*\)/\1\t\2/p' Makefile | expand -t 14

.PHONY: test
test: ## install what the tests need, then run all tests of all modules
	@$(STEP) install .ci/install
	@$(STEP) test .ci/test
	@$(STEP) valkey .ci/valkey

.PHONY: valkey
valkey: ## the conformance of the Redis backend on Valkey, if that is there
	@$(STEP) valkey .ci/valkey -count=1

.PHONY: seeds
seeds: ## simulate SEEDS worlds of the quorum, without the race detector
	@$(STEP) seeds go test -count=1 -timeout=10m -run '^TestEveryPropertyHoldsInEveryWorld$$' ./sim -seeds=$(SEEDS)

.PHONY: quorum
quorum: ## the conformance of a quorum of Redis servers, which needs the machine to itself
	@$(STEP) quorum .ci/quorum -count=1

.PHONY: check
check: gofmt lua vet staticcheck floors modules cross ## all that is checked without running the tests

.PHONY: vet
vet: ## go vet on all modules
	@$(STEP) vet go vet work

.PHONY: staticcheck
staticcheck: .bin/staticcheck ## staticcheck on all modules, as pinned in tools/
	@$(STEP) staticcheck .bin/staticcheck work

.bin/staticcheck: tools/go.mod tools/go.sum
	@GOBIN='$(CURDIR)/.bin' GOWORK=off $(STEP) 'build tools' go -C tools install tool
	@touch $@

.PHONY: gofmt
gofmt: ## find files that gofmt would change
	@$(STEP) gofmt .ci/gofmt

.PHONY: lua
lua: ## the syntax of the Redis scripts
	@$(STEP) lua .ci/lua

.PHONY: floors
floors: ## who may import whom, and the other rules of ARCHITECTURE.md
	@$(STEP) floors go test -count=1 -timeout 60s ./internal/floors

.PHONY: modules
modules: ## each module tidy, built and vetted without the workspace
	@$(STEP) modules .ci/modules

.PHONY: cross
cross: ## vet for the systems that this machine is not
	@$(STEP) cross .ci/cross

.PHONY: race
race: ## run all tests afresh with what is installed already
	@$(STEP) race .ci/test -count=1

.PHONY: soak
soak: ## run all tests COUNT times over, to find those that fail now and then
	@PAWL_SOAK=1 $(STEP) soak .ci/test -count=$(COUNT) -timeout=120m

.PHONY: fuzz
fuzz: ## fuzz each fuzz target for FUZZTIME
	@$(STEP) fuzz .ci/fuzz $(FUZZTIME)

.PHONY: bench-peers
bench-peers: ## measure other lock libraries beside pawl; prints the tables of docs/performance.md
	@mkdir -p .bin && rm -f .bin/peers.md
	@GOWORK=off go test -C bench -count=1 -timeout=30m -run '^Test' . -rounds=$(ROUNDS) -period=1s -batch=500 -report='$(CURDIR)/.bin/peers.md' >&2
	@cat .bin/peers.md

.PHONY: bench-run
bench-run: ## measure what pawl run costs beside the command that it runs
	@go test ./cmd/pawl -count=1 -timeout=10m -run '^TestRunCostsLittle$$' -v -overhead=200

.PHONY: dist
dist: ## build the program for release, for all systems, into dist/
	@$(STEP) dist .ci/dist

.PHONY: fmt
fmt: ## gofmt all files
	gofmt -w .

.PHONY: tidy
tidy: ## go mod tidy in each module
	@for mod in $$(.ci/modules list); do GOWORK=off go -C $$mod mod tidy; done
