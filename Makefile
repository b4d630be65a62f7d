# The commands of this repository. `make help` lists them.
.DEFAULT_GOAL := help
SHELL := bash
.SHELLFLAGS := -euo pipefail -c

FUZZTIME ?= 10s
ROUTER ?= stdlib chi echo gin
SESSIONS := 2025-11-25
REVISIONS := $(SESSIONS),2026-07-28

# One linter binary per Go release: a linter cannot read the standard library of a Go newer than its own.
LINTER := .bin/golangci-lint-$(shell go env GOVERSION)
SCANNER := .bin/govulncheck-$(shell go env GOVERSION)

.PHONY: help
help: ## list the commands
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/\1|\2/p' Makefile | while IFS='|' read -r name text; do printf '  %-13s %s\n' "$$name" "$$text"; done

.PHONY: demo
demo: ## run the quick start, in both eras
	go run ./examples/quickstart
	go run ./examples/quickstart -era modern

.PHONY: demo-cluster
demo-cluster: ## run the example of three processes, of which one is killed (needs redis-server)
	go run ./examples/cluster

.PHONY: test
test: ## test every module (needs no C compiler)
	go test work

.PHONY: forwarded
forwarded: ## test streams, calls and tasks once more, with every request at another process than the owner of its session
	go test ./tests/streams ./tests/calls ./tests/tasks -forwarded

.PHONY: engine
engine: ## test with a real Redis, and with a Valkey if it is installed
	go test -tags redis -count=1 ./internal/redistest ./redisstore/... ./examples/cluster ./bench/internal/subject
	go test -tags redis -count=1 -run 'Redis|Engine' ./bench/internal/scenario

.PHONY: lint
lint: $(LINTER) ## gofmt, go vet, go mod tidy and golangci-lint on every module
	tools/lint $(LINTER)

.PHONY: fuzz
fuzz: ## run each fuzz target for FUZZTIME (10s)
	tools/fuzz $(FUZZTIME)

# The scenarios of tasks wait long. So here the servers of the SDKs meet them behind one router, and in nightly behind each.
OTHER_ROUTERS = $(wordlist 2,$(words $(ROUTER)),$(ROUTER))
# Two processes of a cluster, without stickiness. That an SDK's lists have changed is known to one of the two SDK servers only, so they meet
# the suite in the version with sessions.
TWO_ROUTERS = $(sort $(firstword $(ROUTER)) $(lastword $(ROUTER)))
.PHONY: conformance
conformance: clients-quick ## run the MCP conformance suite against package client, and each fixture behind each ROUTER (stdlib chi echo gin)
	cd conformance && go test -tags node -run '^TestCheck' -count=1 .
	conformance/run-client
	conformance/run fixture $(REVISIONS),tasks $(ROUTER)
	conformance/run gosdkfixture $(REVISIONS),tasks $(firstword $(ROUTER))
	conformance/run mcpgofixture $(REVISIONS),tasks $(firstword $(ROUTER))
	$(if $(OTHER_ROUTERS),conformance/run gosdkfixture $(REVISIONS) $(OTHER_ROUTERS))
	$(if $(OTHER_ROUTERS),conformance/run mcpgofixture $(REVISIONS) $(OTHER_ROUTERS))
	PROCESSES=2 conformance/run fixture $(REVISIONS) $(TWO_ROUTERS)
	PROCESSES=2 conformance/run gosdkfixture $(SESSIONS) $(TWO_ROUTERS)
	PROCESSES=2 conformance/run mcpgofixture $(SESSIONS) $(TWO_ROUTERS)
	PROCESSES=2 conformance/run fixture tasks $(firstword $(TWO_ROUTERS))

# The clients of docs/clients.md wait more than they work, so more of them run than there are cores.
.PHONY: clients clients-quick clients-table
clients: ## test with the official TypeScript clients and servers, and with every client of docs/clients.md
	cd conformance && go test -tags node -run '^(TestTypeScript|TestClients|TestSettings)' -count=1 -timeout 60m -parallel 8 .

clients-quick: ## the same with few of those clients
	cd conformance && go test -tags node -run '^(TestTypeScript|TestClients|TestSettings)' -count=1 -parallel 8 . -few

clients-table: ## run the clients of docs/clients.md and write it anew
	cd conformance && go test -tags node -run '^TestClients$$' -count=1 -timeout 60m -parallel 8 . -update

.PHONY: bench
bench: ## measure it beside the SDKs' own handlers, for 8 minutes, and write docs/performance.md and the README's section (wants 2 quiet cores)
	go build -o bin/bench ./bench
	bin/bench run -out bin/results.json
	bin/bench report bin/results.json docs/performance/engine.json docs
	cp bin/results.json docs/performance/results.json

.PHONY: bench-engine
bench-engine: ## measure it over Redis for 2 minutes, and write that part of docs/performance.md (wants 2 quiet cores, and needs redis-server)
	go build -o bin/bench ./bench
	bin/bench run -engine -out bin/engine.json
	bin/bench report docs/performance/results.json bin/engine.json docs
	cp bin/engine.json docs/performance/engine.json

.PHONY: proxy
proxy: ## test behind a real nginx and a real HAProxy (needs both)
	go test -tags nginx -count=1 ./field/proxy

.PHONY: soak
SOAK ?= -for 30m -clients 2000
soak: ## thousands of clients of random behaviour, for half an hour; every event and task is accounted for
	go run ./field/soak $(SOAK)

.PHONY: chaos
CHAOS ?= -for 1h -write docs/many-machines.md
chaos: ## real processes on a real Redis, and real failures, for an hour; every event is accounted for (needs redis-server, and npm)
	conformance/install clients/node
	go run ./field/chaos $(CHAOS)

.PHONY: vuln
vuln: $(SCANNER) ## look for known vulnerabilities in what every module calls (needs the module proxy; 5 minutes)
	tools/vuln/check $(SCANNER)

.PHONY: mutants
MUTANTS ?=
mutants: ## break each promise of a cluster in a copy, and see that a test fails (MUTANTS=-quick: only those that take a moment; -chaos: those of make chaos)
	cd tools && GOWORK=off go run -buildvcs=false ./mutants $(MUTANTS) ..

.PHONY: nightly
nightly: ## race tests and the conformance suite five times over, ends that cross by the thousand, all mutants, fuzz each target for two minutes, soak for one, chaos for ten
	tools/race 5
	tools/crossings 2000
	$(MAKE) mutants
	TIMES=5 SCORE=yes conformance/run fixture $(REVISIONS)
	TIMES=5 SCORE=yes conformance/run gosdkfixture $(REVISIONS)
	TIMES=5 SCORE=yes conformance/run mcpgofixture $(REVISIONS)
	TIMES=5 PROCESSES=2 conformance/run fixture $(REVISIONS),tasks $(ROUTER)
	TIMES=5 conformance/run fixture tasks $(ROUTER)
	TIMES=5 conformance/run gosdkfixture tasks $(ROUTER)
	TIMES=5 conformance/run mcpgofixture tasks $(ROUTER)
	tools/fuzz 2m
	go run ./field/soak -for 1m -clients 2000
	$(MAKE) chaos CHAOS="-for 10m"
	$(MAKE) chaos CHAOS="-faults deploy -every 10s -for 10m"
	$(MAKE) mutants MUTANTS=-chaos
	$(MAKE) vuln

# The linter's requirements are its own (tools/go.mod), so that they move no version in the workspace.
$(LINTER): tools/go.mod tools/go.sum
	@echo "building golangci-lint, which takes some minutes the first time"
	cd tools && GOWORK=off go build -buildvcs=false -o ../$@ github.com/golangci/golangci-lint/v2/cmd/golangci-lint
	@touch $@

# So are the scanner's.
$(SCANNER): tools/vuln/go.mod tools/vuln/go.sum
	cd tools/vuln && GOWORK=off go build -buildvcs=false -o ../../$@ golang.org/x/vuln/cmd/govulncheck
	@touch $@
