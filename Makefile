# Millrace: `make run` starts the broker, `make test` runs every test.
# `make help` lists the rest.

GO         ?= go
VERSION    ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
LDFLAGS    := -s -w -X main.version=$(VERSION)
STATIC     := CGO_ENABLED=0
STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2

# Random worlds are the same in every run of these targets; soak takes new ones.
SEEDED     := RAPID_SEED=20261 RAPID_NOFAILFILE=true

# Tests of memory and allocations: the race detector has some of its own. measured_test.go holds them against the tests.
MEASURED   := Allocations|IdleMemory|MeasuresMemory|LeaveNoGarbage|WhatIsPaid|MemoryBack|MakesNoRoom|PartitionsAreFew|ToldOfOnce

.DEFAULT_GOAL := help

.PHONY: help
help: ## list the targets
	@awk -F':.*## ' '/^[a-z][a-z-]*:.*## /{printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: build
build: ## build bin/millrace, one static binary
	@test -x bin/millrace || echo "building bin/millrace; the first time takes a minute or two"
	@$(STATIC) $(GO) build -trimpath -ldflags '$(LDFLAGS)' -o bin/millrace ./cmd/millrace

.PHONY: run
run: build ## start a broker on localhost:9092, data in ./millrace-data
	@exec bin/millrace serve

.PHONY: dev
dev: build ## start a broker whose data is thrown away at its end
	@exec bin/millrace dev

.PHONY: check
check: ## format, vet, staticcheck, floor plan, unit tests, cross-compile; under two minutes
	@files=$$(gofmt -l $$(git ls-files '*.go')); test -z "$$files" || { echo "gofmt would change:"; echo "$$files"; exit 1; }
	$(GO) vet ./...
	$(GO) vet -tags compat ./compat-tests/...
	$(GO) run $(STATICCHECK) -tags compat ./...
	$(SEEDED) $(GO) test -short ./...
	GOOS=darwin GOARCH=arm64 $(STATIC) $(GO) build -o /dev/null ./cmd/millrace
	GOOS=linux GOARCH=arm64 $(STATIC) $(GO) build -o /dev/null ./cmd/millrace

.PHONY: unit
unit: ## machines, simulations, crash disks, brokers in virtual time; with the race detector, and without it what it would falsify
	$(SEEDED) CGO_ENABLED=1 $(GO) test -race ./...
	$(SEEDED) $(GO) test -run '$(MEASURED)' ./broker ./wire

.PHONY: needs
needs: ## say what the tests miss on this machine
	@sh compat-tests/install.sh --check

.PHONY: clients
clients: needs build ## real clients against the real binary (installs them first), none worse than its row of the table
	sh compat-tests/install.sh
	cd compat-tests && python3 -m unittest -q pyagent.test_pyagent
	node --test compat-tests/nodeagent/nodeagent.test.js
	cd compat-tests/tutorials && python3 -m unittest -q
	$(GO) test -tags compat -count=1 -p 1 -parallel 4 -timeout 20m ./compat-tests/run ./compat-tests/proxy ./compat-tests/tutorials

.PHONY: suites
suites: needs build conformance ## all of that, the clients with full counts, Kafka's own applications, every tool; writes the tables of compat-tests/README.md and the ledger
	sh compat-tests/install.sh
	MILLRACE_LEDGER=$(CURDIR) $(GO) test -tags compat -count=1 -timeout 15m -parallel 16 ./compat-tests/frames
	MILLRACE_LEDGER=$(CURDIR) MILLRACE_COMPAT_RECORDS=20000 MILLRACE_COMPAT_BIG_RECORDS=all MILLRACE_COMPAT_TABLE=$(CURDIR)/compat-tests/README.md \
	  $(GO) test -tags compat -count=1 -parallel 3 -timeout 120m ./compat-tests/run
	$(GO) test -tags compat -count=1 -parallel 2 -timeout 40m ./compat-tests/applications
	$(GO) test -tags compat -count=1 -timeout 25m ./compat-tests/adopt
	$(MAKE) oracle-old oracle-falls oracle-keys
	sh compat-tests/image/install.sh build
	MILLRACE_IMAGE_BUILD=1 $(GO) test -tags compat -count=1 -timeout 20m -run Build ./compat-tests/image
	MILLRACE_LEDGER=$(CURDIR) MILLRACE_TOOLS=all $(GO) test -tags compat -count=1 -parallel 4 -timeout 30m ./compat-tests/tools

.PHONY: conformance
conformance: needs build ## other projects' own tests beside Apache Kafka, all of them, up to an hour; writes docs/compatibility.json and .md
	MILLRACE_LEDGER=$(CURDIR) MILLRACE_SUITES=all $(GO) test -tags compat -count=1 -timeout 90m ./compat-tests/suites

.PHONY: kgo
kgo: build ## franz-go's own tests beside Apache Kafka, with few records; none worse than the ledger
	$(GO) test -tags compat -count=1 -timeout 15m -run 'TestSuites$$' ./compat-tests/suites

.PHONY: frames
frames: build ## raw frames, version by version, compared with Apache Kafka
	$(GO) test -tags compat -count=1 -timeout 15m -parallel 16 ./compat-tests/frames

.PHONY: oracle
oracle: build ## SEEDS (1000) seeded sequences, from FROM (1) on, beside Apache Kafka, answers compared field by field; FAMILY narrows, KAFKA=3.9.2 for dropped versions
	MILLRACE_ORACLE_SEEDS=$(or $(SEEDS),1000) MILLRACE_ORACLE_FROM=$(or $(FROM),1) MILLRACE_ORACLE_FAMILY=$(FAMILY) MILLRACE_ORACLE_VERSION=$(KAFKA) \
	  $(GO) test -tags compat -count=1 -timeout 80m -v -run 'TestDifferences$$' ./compat-tests/oracle

.PHONY: oracle-short
oracle-short: build ## a few hundred of them, some through restarts, some in versions that Kafka 4 has dropped; and that the oracle finds planted faults
	MILLRACE_ORACLE_FROM=108 MILLRACE_ORACLE_SEEDS=220 $(GO) test -tags compat -count=1 -timeout 20m -parallel 6 -run 'TestDifferences$$|TestFindsLies$$' ./compat-tests/oracle
	MILLRACE_ORACLE_VERSION=3.9.2 MILLRACE_ORACLE_SEEDS=100 $(GO) test -tags compat -count=1 -timeout 10m -run 'TestDifferences$$' ./compat-tests/oracle

.PHONY: oracle-long
oracle-long: build ## as many of them as an hour takes (MINUTES, 50, and what is played again); writes their lines of the ledger, with ADD=1 adds to them (from other seeds)
	rm -f .cache/oracle.json
	MILLRACE_ORACLE_SEEDS=$(or $(SEEDS),1000000) MILLRACE_ORACLE_FROM=$(or $(FROM),1) MILLRACE_ORACLE_MINUTES=$(or $(MINUTES),50) MILLRACE_ORACLE_SUMMARY=$(CURDIR)/.cache/oracle.json \
	  $(GO) test -tags compat -count=1 -timeout 80m -v -run 'TestDifferences$$' ./compat-tests/oracle; seen=$$?; \
	  $(GO) run ./compat-tests/ledger/cmd $(if $(ADD),-add) .cache/oracle.json && exit $$seen

.PHONY: oracle-old
oracle-old: build ## a hundred of them in versions that Kafka 4 has dropped, beside 3.9.2; writes their lines of the ledger
	rm -f .cache/oracle-old.json
	MILLRACE_ORACLE_VERSION=3.9.2 MILLRACE_ORACLE_SEEDS=$(or $(SEEDS),100) MILLRACE_ORACLE_FROM=$(or $(FROM),1) MILLRACE_ORACLE_SUMMARY=$(CURDIR)/.cache/oracle-old.json \
	  $(GO) test -tags compat -count=1 -timeout 20m -v -run 'TestDifferences$$' ./compat-tests/oracle; seen=$$?; \
	  $(GO) run ./compat-tests/ledger/cmd .cache/oracle-old.json && exit $$seen

.PHONY: oracle-falls
oracle-falls: build ## that the oracle goes on when Apache Kafka has ended by itself, and does not when Millrace has
	$(GO) test -tags compat -count=1 -timeout 10m -run 'TestKafkaFalls$$|TestMillraceFalls$$' ./compat-tests/oracle

.PHONY: oracle-keys
oracle-keys: build ## every config of topics, groups, client metrics and brokers with values of every type, answers compared with Apache Kafka's
	$(GO) test -tags compat -count=1 -timeout 10m -run 'TestEveryKey$$' ./compat-tests/oracle

.PHONY: oracle-depth
oracle-depth: build ## which of Apache Kafka's branches the committed seeds reach, counted by JaCoCo's agent, and which error codes they see; none fewer than the ledger has
	MILLRACE_ORACLE_DEPTH=1 $(GO) test -tags compat -count=1 -timeout 60m -v -run 'TestDepth$$' ./compat-tests/oracle

.PHONY: tools
tools: build ## Kafka's own command-line tools, their output compared with that against Apache Kafka
	$(GO) test -tags compat -count=1 -timeout 15m -parallel 4 ./compat-tests/tools

.PHONY: adopt
adopt: build ## directories of Apache Kafka's taken over by millrace import, and of Millrace's by Apache Kafka, after a stop and after kill -9
	$(GO) test -tags compat -count=1 -timeout 25m ./compat-tests/adopt

.PHONY: adopt-short
adopt-short: build ## a part of it: each goes on with what the other has left at a kill -9, and both leave the same files
	$(GO) test -tags compat -count=1 -timeout 15m -run 'TestSameRequestsSameFiles$$|TestKafkasDirectoryIsTakenOver/kill|TestKafkaStartsOnOurDirectory$$/kill' ./compat-tests/adopt

.PHONY: image
image: ## build the container image with docker
	docker build -f docker/Dockerfile --build-arg VERSION=$(VERSION) -t millrace .

.PHONY: image-test
image-test: build ## the container image without an engine, in namespaces (takes root)
	sh compat-tests/image/install.sh
	$(GO) test -tags compat -count=1 -timeout 10m ./compat-tests/image

.PHONY: torture
torture: build ## kill -9 under load, again and again; what a start after it reads, and how long it takes beside Apache Kafka
	$(GO) test -tags compat -count=1 -timeout 20m -skip 'TestRecovery' ./compat-tests/torture
	$(GO) test -tags compat -count=1 -timeout 20m -v -run 'TestRecovery' ./compat-tests/torture

.PHONY: bad-input
bad-input: build ## hostile frames, corrupt batches, readers that never read
	$(GO) test -tags compat -count=1 -timeout 20m ./compat-tests/badinput

.PHONY: pains
pains: build ## what hurts people who run Kafka, and does not hurt here
	$(GO) test -tags compat -count=1 -timeout 10m ./compat-tests/pains

.PHONY: metrics
metrics: build ## names, types and labels of /metrics beside Apache Kafka's; a Java client that pushes its own
	$(GO) test -tags compat -count=1 ./compat-tests/metrics

.PHONY: test
test: needs unit bad-input pains clients frames oracle-short kgo tools adopt-short metrics image-test torture ## every test

.PHONY: soak
soak: build ## fuzz every decoder for FUZZ (20s) each, then CHECKS (2000) new random worlds of each kind and longer simulations; 2,000 partitions recovered beside Kafka
	@for f in $$(git grep -lE '^func Fuzz' -- '*_test.go'); do \
	  for name in $$(sed -n 's/^func \(Fuzz[A-Za-z]*\)(.*/\1/p' $$f); do \
	    echo "fuzz $$(dirname $$f) $$name"; \
	    $(GO) test -run xxx -fuzz "^$$name\$$" -fuzztime $(or $(FUZZ),20s) ./$$(dirname $$f) || exit 1; \
	  done; done
	RAPID_CHECKS=$(or $(CHECKS),2000) $(GO) test -count=1 -timeout 60m $$(git grep -l pgregory.net/rapid -- '*_test.go' | xargs -n1 dirname | sort -u | sed 's,^,./,')
	MILLRACE_SIM_SEEDS=100 MILLRACE_SIM_WIPES=1 $(GO) test -count=1 -run Simulation -timeout 30m ./controller
	$(GO) test -count=1 -timeout 60m ./storage/log ./storage ./broker/partition -soak 10
	$(GO) test -count=1 -v -run TestRecoveryCost ./storage -partitions 2000
	MILLRACE_RECOVERY_PARTITIONS=2000 MILLRACE_RECOVERY_TAIL=1048576 $(GO) test -tags compat -count=1 -v -timeout 60m -run TestRecoveryBesideKafka ./compat-tests/torture

.PHONY: kafka
kafka: ## Apache Kafka 4.4.0 on loopback, from Maven, to try things against (PORT=29092; KAFKA=3.9.2 for the old one)
	@$(GO) run ./compat-tests/kafka/cmd -port $(or $(PORT),29092) $(if $(KAFKA),-version $(KAFKA))

.PHONY: figures
figures: build ## start, memory, system calls, syncs and allocations beside a floor; with PEER=1 beside Apache Kafka too
	@$(GO) run ./bench/figures $(if $(PEER),-kafka)

.PHONY: bench
bench: build ## throughput, CPU, latency, start, memory beside Kafka, kfake and a floor (FIGURE=telling, ROUNDS=7, PEERS=kafka,kfake)
	@mkdir -p .cache/bench && $(GO) build -trimpath -o .cache/bench/bench ./bench
	@.cache/bench/bench $(if $(FIGURE),-figure '$(FIGURE)') $(if $(ROUNDS),-rounds $(ROUNDS)) $(if $(PEERS),-peers $(PEERS)) $(if $(LIMIT),-limit $(LIMIT)) $(BENCHFLAGS)
