# Millrace: `make run` starts the broker, `make test` runs every test.
# `make help` lists the rest.

GO         ?= go
VERSION    ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
LDFLAGS    := -s -w -X main.version=$(VERSION)
STATIC     := CGO_ENABLED=0
STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2

.DEFAULT_GOAL := help

.PHONY: help
help: ## list the targets
	@awk -F':.*## ' '/^[a-z][a-z-]*:.*## /{printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: build
build: ## build bin/millrace, one static binary
	@$(STATIC) $(GO) build -trimpath -ldflags '$(LDFLAGS)' -o bin/millrace ./cmd/millrace

.PHONY: run
run: build ## start a broker on localhost:9092, data in ./millrace-data
	@exec bin/millrace serve

.PHONY: check
check: ## format, vet, staticcheck, floor plan, unit tests, cross-compile
	@test -z "$$(gofmt -l $$(git ls-files '*.go'))" || { echo "gofmt would change:"; gofmt -l $$(git ls-files '*.go'); exit 1; }
	$(GO) vet ./...
	$(GO) run $(STATICCHECK) ./...
	$(GO) test -short ./...
	GOOS=darwin GOARCH=arm64 $(GO) build -o /dev/null ./cmd/millrace
	GOOS=linux GOARCH=arm64 $(GO) build -o /dev/null ./cmd/millrace

.PHONY: test
test: build ## every test: unit tests with the race detector, then real clients against the real binary
	CGO_ENABLED=1 $(GO) test -race ./...
