# Capstan. "make help" lists what there is.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
export CGO_ENABLED := 0
export GOFLAGS := -buildvcs=false

VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
KUBERNETES_VERSION := $(shell cat kube/DEFAULT_VERSION)
BUNDLE := bin/bundles/$(KUBERNETES_VERSION)/capstan-kube
LDFLAGS := -s -w
# The race detector needs a C compiler; without one the tests run all the same, only without it.
RACE := $(shell command -v gcc >/dev/null 2>&1 && echo -race)
RACE_CGO := $(if $(RACE),1,0)

.PHONY: help
help: ## list the targets
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-14s %s\n", $$1, $$2}'

bin/tools/controller-gen: hack/tools/go.mod hack/tools/go.sum
	@echo "→ building controller-gen"
	@cd hack/tools && GOWORK=off go build -o ../../$@ sigs.k8s.io/controller-tools/cmd/controller-gen

.PHONY: generate
generate: bin/tools/controller-gen ## make generated files again (deep copies, CRDs, upstream's manifests)
	@echo "→ generating"
	@cd api && ../bin/tools/controller-gen object paths=./...
	@cd api && ../bin/tools/controller-gen crd paths=./... output:crd:dir=../config/crd/bases

.PHONY: lint
lint: ## vet and formatting
	@out=$$(gofmt -l api agent cmd config dock extension hack internal plane provider runtime templates test); if [ -n "$$out" ]; then echo "not gofmt-ed (run gofmt -w): $$out"; exit 1; fi
	go vet ./... ./api/... ./runtime/...

.PHONY: test
test: generate lint ## all tests
	@echo "→ testing (the first run compiles for some minutes)"
	CGO_ENABLED=$(RACE_CGO) go test $(RACE) ./... ./api/... ./runtime/...
