# The Makefile of Capstan. "make help" lists the targets.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
export CGO_ENABLED := 0
export GOFLAGS := -buildvcs=false

VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
KUBERNETES_VERSION := $(shell cat kube/DEFAULT_VERSION)
LDFLAGS := -s -w -X main.version=$(VERSION)
BINARIES := capstan capstan-agent capstan-dock capstan-extension capstan-images capstan-manager capstan-net
GO_DIRS := api agent clusterctl cmd config contract dock examples extension hack image internal kube local plane provider release runtime templates test
# The race detector needs a C compiler. Without a compiler, the tests run without the race detector.
RACE := $(if $(shell command -v gcc),-race,)
RACE_CGO := $(if $(RACE),1,0)
# Packages that contain all of Cluster API's reconcilers, or that run the built binaries. With them, the race detector
# would cost minutes and would watch other people's code.
HEAVY := /cmd/capstan$$|/plane$$|/plane/controllers$$|/test/e2e$$|/test/lifecycle$$|/test/verify$$|/test/interop$$|/test/contract$$|/test/contract/whole$$|/test/clusterctl$$|/test/examples$$|/test/attack$$|/test/enrol/line$$

# The slowest package starts first. Two or more packages are tested at a time, so the others run beside it.
LONGEST := ./test/e2e

TESTS := bin/tools/gotestsum --format standard-quiet

.PHONY: help
help: ## list the targets
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-14s %s\n", $$1, $$2}'

# The bundle is a module of its own and takes longest, so its build starts first. It uses the processor while the other
# builds wait for the network or link.
.PHONY: build
build: ## build everything into bin/ (the bundle beside the other programs; the first build takes some minutes)
	@umask 022; mkdir -p bin; chmod o-w bin; \
	setsid kube/build $(KUBERNETES_VERSION) bin/bundles & bundle=$$!; trap 'kill -- -$$bundle 2>/dev/null || true' EXIT; \
	make --no-print-directory manifests; \
	for b in $(BINARIES); do echo "→ building bin/$$b"; go build -ldflags '$(LDFLAGS)' -o bin/$$b ./cmd/$$b; done; \
	if kill -0 $$bundle 2>/dev/null; then echo "→ waiting for the bundle"; fi; wait $$bundle

.PHONY: agents
agents: ## build the agent for all architectures of hosts, for planes with which other computers enroll
	@umask 022; mkdir -p bin; for a in amd64 arm64; do echo "→ building bin/capstan-agent-linux-$$a"; CGO_ENABLED=0 GOOS=linux GOARCH=$$a go build -ldflags '$(LDFLAGS)' -o bin/capstan-agent-linux-$$a ./cmd/capstan-agent; done

.PHONY: kube
kube: ## build the bundle of the default Kubernetes version (the first build takes some minutes)
	@kube/build $(KUBERNETES_VERSION) bin/bundles

.PHONY: kube-previous
kube-previous: ## build a bundle of the previous Kubernetes minor, for upgrades (the first build takes some minutes)
	@kube/build "$$(cat kube/PREVIOUS_VERSION)" bin/bundles

.PHONY: kube-oldest
kube-oldest: ## build a bundle of the Kubernetes minor before the previous one, for upgrades over two minors (the first build takes some minutes)
	@kube/build "$$(cat kube/OLDEST_VERSION)" bin/bundles

.PHONY: manifests
manifests: ## copy upstream's definitions from the Go module (they are not committed)
	@go run ./hack/manifests

bin/tools/controller-gen: hack/tools/go.mod hack/tools/go.sum
	@echo "→ building controller-gen"
	@cd hack/tools && GOWORK=off go build -o ../../$@ sigs.k8s.io/controller-tools/cmd/controller-gen

# Not every module proxy has the linter's module. The first build with a proxy that has it adds the checksum to go.sum.
bin/tools/apilint: hack/apilint/main.go hack/apilint/config.yaml hack/apilint/go.mod
	@echo "→ building the API linter"
	@cd hack/apilint && GOWORK=off go build -mod=mod -o ../../$@ .

.PHONY: vulnerabilities
vulnerabilities: ## compare the dependencies of all binaries with the Go vulnerability database (needs the Internet)
	@for d in . kube hack/clusterctl; do echo "→ $$d"; (cd $$d && GOWORK=$$([ $$d = . ] && echo "" || echo off) go run golang.org/x/vuln/cmd/govulncheck@v1.9.0 ./...) || exit 1; done

.PHONY: generate
generate: manifests bin/tools/controller-gen ## regenerate files (deep copies, CRDs, webhooks, roles, reference pages, upstream's definitions)
	@echo "→ generating"
	@cd api && ../bin/tools/controller-gen object paths=./...
	@cd api && ../bin/tools/controller-gen crd paths=./... output:crd:dir=../config/crd/bases
	@bin/tools/controller-gen webhook paths=./provider/webhook/... output:webhook:dir=config/webhook
	@bin/tools/controller-gen rbac:roleName=capstan-manager paths=./provider/... paths=./cmd/capstan-manager/... output:rbac:dir=config/rbac
	@go run ./hack/apidocs config/crd/bases docs/reference/api.md
	@go run ./hack/metricdocs docs/reference/metrics.md
	@go run ./hack/statusdocs . docs/reference
	@UPDATE=1 go test -vet=off -count=1 -run '^TestTheReferenceIsThatOfTheCommands$$' ./cmd/capstan > /dev/null
	@go run ./hack/release -docs docs/flavors.md
	@go run ./hack/field -page > docs/field.md
	@go run ./hack/checkdocs docs/checks

bin/tools/staticcheck: hack/lint/go.mod hack/lint/go.sum
	@echo "→ building staticcheck"
	@cd hack/lint && GOWORK=off go build -o ../../$@ honnef.co/go/tools/cmd/staticcheck

# gotestsum prints what "go test" prints, and keeps the events of each test. The report about rules is made from them.
bin/tools/gotestsum: hack/lint/go.mod hack/lint/go.sum
	@echo "→ building the test runner"
	@cd hack/lint && GOWORK=off go build -o ../../$@ gotest.tools/gotestsum

bin/tools/gci: hack/lint/go.mod hack/lint/go.sum
	@echo "→ building the linter of imports"
	@cd hack/lint && GOWORK=off go build -o ../../$@ github.com/daixiang0/gci

# Imports are in three groups: the standard library, other modules, ours.
IMPORT_GROUPS := -s standard -s default -s 'prefix(github.com/capstan-dev/capstan)' --skip-generated

FUZZTIME ?= 30s
# Fuzzed code waits for the disk all the time, so its files are in memory if possible.
FUZZTMP ?= $(firstword $(wildcard /dev/shm) /tmp)

.PHONY: fuzz
fuzz: manifests ## run each fuzz test for FUZZTIME (default 30s); inputs that fail are kept in testdata/fuzz
	@for test in $$(grep -rnoE '^func Fuzz[A-Za-z]+' --include='*_test.go' $(GO_DIRS) | sed -E 's|/[^/]+:[0-9]+:func |:|' | sort); do \
		echo "→ $$test for $(FUZZTIME)"; \
		TMPDIR=$(FUZZTMP) go test -C "$${test%%:*}" -run '^$$' -fuzz "^$${test##*:}\$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 20x .; \
	done

.PHONY: fmt
fmt: bin/tools/gci ## format Go files and sort their imports into three groups
	@gofmt -w $(GO_DIRS)
	@bin/tools/gci write $(IMPORT_GROUPS) $(GO_DIRS) 2>/dev/null

.PHONY: lint
lint: manifests bin/tools/staticcheck bin/tools/gci ## check formatting and imports, run vet and staticcheck (see staticcheck.conf)
	@echo "→ gofmt, imports, go vet"
	@out=$$(gofmt -l $(GO_DIRS)); if [ -n "$$out" ]; then echo "not gofmt-ed (run make fmt): $$out"; exit 1; fi
	@out=$$(bin/tools/gci list $(IMPORT_GROUPS) $(GO_DIRS) 2>/dev/null); \
		if [ -n "$$out" ]; then echo "imports not in three groups (run make fmt): $$out"; exit 1; fi
	@go vet ./... ./api/... ./contract/... ./runtime/...
	@if [ -x bin/tools/apilint ]; then echo "→ API conventions"; cd api && ../bin/tools/apilint ./...; \
		else echo "→ API conventions are not checked: make bin/tools/apilint builds the linter"; fi
	@echo "→ staticcheck"
	@bin/tools/staticcheck ./... ./api/... ./contract/... ./runtime/...

.PHONY: demo
demo: build ## build, start the management plane, make a cluster, run a web server in it
	@hack/demo

.PHONY: recording
recording: build ## record the demo as docs/demo.cast, which asciinema plays
	@go run ./hack/recording -o docs/demo.cast \
		-title "Capstan: from Linux to a Kubernetes cluster ($$(git rev-parse --short HEAD), $$(date -u +%F))" -- hack/demo

# A test that fails runs three times, and the majority of its results counts (docs/conformance.md).
CONFORMANCE_LIST = go run ./hack/conformance -again -images list -list test/conformance/ci.txt

# Packages that the race detector watches.
UNIT = $$(go list ./... ./api/... ./contract/... ./runtime/... | grep -vE '$(HEAVY)')

# The conformance tests mostly wait for a cluster, so make test runs this target beside them, at low priority (Linux
# weighs whole sessions against each other, by /proc/self/autogroup). It compiles the unit tests and their dependencies
# for the race detector.
.PHONY: beside
beside: kube-previous lint
	@echo "→ compiling for the race detector"
	@CGO_ENABLED=$(RACE_CGO) go list -export -deps -test $(RACE) $(UNIT) >/dev/null

# With full caches, make test writes up to 4 GB at a time.
.PHONY: space
space:
	@hack/space 6

# make lint runs all of go vet, so go test need not run a part of it. The tests of package agent mostly wait, so three
# packages run at a time.
.PHONY: test
test: space generate build bin/tools/gotestsum ## run unit tests, API tests, and end-to-end tests with real clusters
	@echo "→ generated files are up to date"
	@if [ -n "$${CI:-}" ]; then git diff --exit-code -- api config docs/reference || { echo "run make generate and commit the result"; exit 1; }; fi
	@mkdir -p bin/reports
	@echo "→ in the background: the previous bundle, linters, compiling unit tests (bin/reports/beside.log)"
	@setsid nice -n 19 bash -c '{ echo 19 >/proc/self/autogroup; } 2>/dev/null || true; exec make --no-print-directory beside' >bin/reports/beside.log 2>&1 </dev/null & beside=$$!; \
	trap 'kill -- -$$beside 2>/dev/null || true' EXIT; \
	if command -v apt-get >/dev/null; then echo "→ 60 conformance tests of Kubernetes"; $(CONFORMANCE_LIST); \
		else echo "→ no conformance tests: their images are made from Debian's packages, by apt-get"; fi; \
	if kill -0 $$beside 2>/dev/null; then echo "→ waiting for what runs in the background"; fi; \
	wait $$beside || { cat bin/reports/beside.log; exit 1; }
	@echo "→ unit tests$(if $(RACE), with the race detector,)"
	@cd kube && GOWORK=off CAPSTAN_BUNDLES='$(CURDIR)/bin/bundles' go test -timeout 20m ./...
	@cd test/monitoring && GOWORK=off go test ./...
	@CGO_ENABLED=$(RACE_CGO) $(TESTS) --jsonfile bin/reports/unit.json -- -vet=off -p 3 -timeout 20m $(RACE) $(UNIT)
	@echo "→ the agent's memory, without the race detector"
	@CGO_ENABLED=0 go test -run '^TestTheAgentNeeds30MiB$$' ./agent
	@echo "→ faults and random schedules of the provider, without the race detector"
	@CGO_ENABLED=0 go test -run '^Test(EveryCallFailsOnce|NoTwoOwners|IndexAnswersLikeAScan)$$' ./provider ./provider/placement
	@echo "→ the client that Cluster API uses itself calls our server"
	@go run ./hack/peer ./runtime/server -run Published
	@echo "→ the clients that make bench compares compile"
	@go run ./hack/peer ./runtime/internal/speed -run '^$$'
	@echo "→ heavy tests, end to end"
	@$(TESTS) --jsonfile bin/reports/heavy.json -- -vet=off -timeout 60m $(LONGEST) $$(go list ./... | grep -E '$(HEAVY)' | grep -v '$(LONGEST)$$')
	@echo "→ each rule of the contracts: bin/reports/rules.tsv"
	@go run ./hack/coverage -out bin/reports/rules.tsv bin/reports/unit.json bin/reports/heavy.json
	@echo "All tests passed. Next: make demo"

KILLS ?= 200

.PHONY: test-pod-kills
test-pod-kills: kube ## kill the processes that run real pods on a local host, 200 times at random points (takes an hour): make test-pod-kills KILLS=20
	@cd kube && GOWORK=off CAPSTAN_BUNDLES='$(CURDIR)/bin/bundles' CAPSTAN_TEST_KILLS='$(KILLS)' go test -count=1 -timeout 4h -v -run TestPodsSurviveKills .

.PHONY: test-pods-before
test-pods-before: kube kube-previous kube-oldest ## test real pods, Services and the metrics API with the bundles of the two earlier Kubernetes minors
	@cd kube; for f in PREVIOUS OLDEST; do version=$$(cat $${f}_VERSION); echo "→ Kubernetes $$version"; \
		GOWORK=off CAPSTAN_BUNDLES='$(CURDIR)/bin/bundles' CAPSTAN_TEST_VERSION="$$version" \
			go test -count=1 -timeout 20m -run '^Test(RealNode|ServicesByName)$$' .; done

.PHONY: test-dock-kills
test-dock-kills: build ## kill the dock's and the plane's processes while real pods run, 200 times (takes hours): make test-dock-kills KILLS=20
	@CAPSTAN_TEST_DOCK_KILLS='$(KILLS)' go test -count=1 -timeout 6h -v -run TestRealPodsSurviveKillsOfTheDock ./test/e2e

.PHONY: test-image-garbage
test-image-garbage: build ## fill the image store, and check that kubelets remove only unused images (needs root; takes up to 15 minutes)
	@CAPSTAN_TEST_LONG=1 go test -count=1 -timeout 30m -v -run TestAFullImageStoreGivesUpImages ./test/e2e

.PHONY: test-million-files
test-million-files: ## load an image of a million files, and run an agent on as many: time, memory and leftovers are bounded (needs root)
	@CAPSTAN_TEST_FILES=1 go test -count=1 -timeout 20m -v -run TestAMillionFiles ./image/store
	@CAPSTAN_TEST_FILES=1000000 go test -count=1 -timeout 20m -v -run '^TestTheAgentNeeds30MiB$$' ./agent

.PHONY: test-upgrade
test-upgrade: build kube-previous ## upgrade clusters while hooks block in every way, and while extensions and the plane fail (takes long)
	@CAPSTAN_TEST_LONG=1 go test -count=1 -timeout 60m -v -run 'TestUpgrade|TestHooksOfAnUpgrade|TestExtensionsFailInALife' ./test/e2e

.PHONY: test-chained
test-chained: build kube-previous kube-oldest ## upgrade a real cluster over two Kubernetes minors at once (builds a third bundle first)
	@CAPSTAN_TEST_CHAINED=1 go test -count=1 -timeout 30m -v -run TestChainedUpgrade ./test/e2e

.PHONY: before
before: ## build the previous release from the repository's history, in .cache/before
	@hack/before .cache/before

.PHONY: test-before
test-before: before build ## upgrade a plane, and a provider in a management cluster, from the previous release, and downgrade them again (needs the repository's history)
	@CAPSTAN_TEST_BEFORE='$(CURDIR)/.cache/before' go test -count=1 -timeout 20m -v ./test/before
	@CAPSTAN_TEST_BEFORE='$(CURDIR)/.cache/before' go test -count=1 -timeout 20m -v -run TestUpgradeFromTheReleaseBefore ./test/clusterctl

.PHONY: test-long
test-long: build kube-previous test-bucket ## run what takes too long for make test: all tests of planes, clusters and moves, with all their cases, and a real S3-compatible store (takes hours)
	@cd kube && GOWORK=off CAPSTAN_TEST_LONG=1 go test -count=1 -timeout 20m -v -run Storm ./cri/realtest
	@CAPSTAN_TEST_LONG=1 go test -count=1 -p 1 -timeout 4h -v ./plane ./test/clusterctl ./test/e2e

.PHONY: test-next
test-next: ## build and test against a checkout of Cluster API: make test-next CLUSTER_API=DIR [PACKAGES='./plane/...'] (not in CI)
	@HEAVY='$(HEAVY)' hack/next '$(CLUSTER_API)' $(PACKAGES)

.PHONY: test-field
test-field: ## run capstan verify over checkouts of other providers, and compare the findings with people's judgements: make test-field CHECKOUTS=DIR (not in CI)
	@go run ./hack/field -checkouts '$(CHECKOUTS)'

.PHONY: test-machines
test-machines: build ## test agents and clusters on real Debian machines with systemd (needs root, mmdebstrap and a mirror; not in CI)
	@CAPSTAN_TEST_MACHINES=1 go test -p 1 -parallel 9 -timeout 60m -v ./test/machine/...

.PHONY: test-planted
test-planted: build ## plant a fault for each rule of the contracts, and check that the rule's test notices it (takes hours): make test-planted RULES='RX CL-05'
	@go run ./hack/faults $(RULES)

.PHONY: test-faults
test-faults: kube ## test the provider while each call to its API server fails in turn, and 20 times while many calls fail, with the race detector (takes long)
	@CGO_ENABLED=$(RACE_CGO) CAPSTAN_TEST_EVERY=1 go test $(RACE) -count=1 -timeout 60m -run TestEveryCallFailsOnce ./provider
	@CGO_ENABLED=$(RACE_CGO) CAPSTAN_TEST_FAULTS=1 go test $(RACE) -count=20 -timeout 60m -run TestFaultsOfTheAPIServer ./test/contract

.PHONY: test-provider-binary
test-provider-binary: build ## run other providers as processes of the plane: a tiny one, and another project's real one, which creates a cluster (builds it first, which takes minutes)
	@CAPSTAN_TEST_LONG=1 CAPSTAN_TEST_PROVIDER_BINARY=1 go test -count=1 -timeout 20m -v -run '^Test(ProviderBinary|DevelopmentProvider)$$' ./test/clusterctl

.PHONY: test-bucket
test-bucket: ## test backups in a bucket of a real S3-compatible store, on loopback (builds the store first, which takes minutes)
	@CAPSTAN_TEST_BUCKET=1 go test -count=1 -timeout 20m -v -run TestRealBucket ./extension/backup

.PHONY: test-upstream-e2e
test-upstream-e2e: build kube-previous ## run Cluster API's own end-to-end specs on a plane (takes hours); SPECS='...' chooses some
	@kube/build "$$(cat kube/OLDEST_VERSION)" bin/bundles
	@go run ./hack/upstream $(if $(CLUSTER_API),-cluster-api '$(CLUSTER_API)') $(SPECS)

.PHONY: critest
critest: build ## run the validation suite of the CRI on a local host; ARGS='-user 65534' runs it as another user
	@go run ./hack/critest $(ARGS)

.PHONY: test-software
test-software: build ## run nginx, PostgreSQL, Redis, Python and Node.js in pods, in clusters of root, of a user with subordinate ids, and of a user with one id
	@CAPSTAN_TEST_SOFTWARE=1 go test -count=1 -timeout 70m -v -run TestSoftware ./test/software

.PHONY: test-docs
test-docs: build kube-previous ## run the commands of README.md and docs/tutorial.md in order, and compare their output with the pages (takes minutes)
	@CAPSTAN_TEST_DOCS=1 go test -count=1 -timeout 90m -v $(if $(TEST),-run '^$(TEST)$$') ./test/reader

.PHONY: conformance
conformance: build ## run the conformance tests of Kubernetes, for 40 minutes at a time (docs/conformance.md)
	@go run ./hack/conformance $(ARGS)

.PHONY: test-conformance
test-conformance: build ## run 60 of the conformance tests, those in test/conformance/ci.txt, from the beginning (make test runs them, too)
	@$(CONFORMANCE_LIST)

.PHONY: test-v1beta1
test-v1beta1: build ## test a real cluster with contract v1beta1: the definitions have only the label of that contract
	@CAPSTAN_TEST_WHOLE=1 go test -count=1 -v ./test/contract/whole

.PHONY: bench-writes
bench-writes: kube ## count the provider's writes in the audit log: for a machine, and in five idle minutes with 100 machines
	@CAPSTAN_TEST_IDLE=5m go test -count=1 -timeout 20m -v -run 'TestWrites|TestIdle' ./test/contract

# The Debian release of the test machines.
SUITE ?= bookworm
export CAPSTAN_TEST_SUITE := $(SUITE)

# The bundle that owned hosts get. Its first build compiles all of Kubernetes. The bundle is kept until the
# Kubernetes version changes.
CAPSTAN_TEST_BUNDLE ?= bin/owned/$(KUBERNETES_VERSION).tar.gz
CAPSTAN_TEST_BUNDLE_BEFORE ?= bin/owned/$(shell cat kube/PREVIOUS_VERSION).tar.gz

.PHONY: owned-bundle
owned-bundle: bin/owned/$(KUBERNETES_VERSION).tar.gz ## build the bundle with which owned hosts become nodes, from source (needs root, gcc, libseccomp-dev, pkg-config, mmdebstrap)

.PHONY: owned-bundle-arm64
owned-bundle-arm64: bin/owned/$(KUBERNETES_VERSION)-linux-arm64.tar.gz ## build the same bundle for arm64 hosts, on an amd64 computer (also needs gcc-aarch64-linux-gnu)

bin/owned/%-linux-arm64.tar.gz:
	@kube/stock $* bin/owned/$*-linux-arm64 arm64
	@echo "→ building bin/capstan-net-linux-arm64"; GOOS=linux GOARCH=arm64 go build -ldflags '$(LDFLAGS)' -o bin/capstan-net-linux-arm64 ./cmd/capstan-net
	@bin/capstan bundle build bin/owned/$*-linux-arm64 -o $@

bin/owned/%.tar.gz:
	@kube/stock $* bin/owned/$*
	@bin/capstan bundle build bin/owned/$* -o $@

.PHONY: test-owned
test-owned: build ## test a cluster of three Debian machines (needs root; the bundle's first build takes minutes; CAPSTAN_TEST_BUNDLE names another bundle): make test-owned TEST=TestDayTwo SUITE=trixie
	@$(MAKE) --no-print-directory '$(CAPSTAN_TEST_BUNDLE)'
	@CAPSTAN_TEST_BUNDLE='$(abspath $(CAPSTAN_TEST_BUNDLE))' CAPSTAN_TEST_MACHINES=1 go test -count=1 -timeout 30m -v -run '^$(or $(TEST),TestRun)$$' ./test/machine/run

.PHONY: test-owned-conformance
test-owned-conformance: build ## run 60 conformance tests of Kubernetes on a cluster of three Debian machines (needs root; see test-owned)
	@$(MAKE) --no-print-directory '$(CAPSTAN_TEST_BUNDLE)'
	@go run ./hack/conformance -prepare -images list
	@CAPSTAN_TEST_BUNDLE='$(abspath $(CAPSTAN_TEST_BUNDLE))' CAPSTAN_TEST_MACHINES=1 CAPSTAN_TEST_CONFORMANCE=1 go test -count=1 -timeout 75m -v -run '^TestConformance$$' ./test/machine/run

.PHONY: test-vm
test-vm: build ## test a cluster, and local hosts, on an emulated virtual machine with its own kernel (needs root and qemu; takes long; not in CI): make test-vm SUITE=trixie
	@$(MAKE) --no-print-directory '$(CAPSTAN_TEST_BUNDLE)'
	@CAPSTAN_TEST_BUNDLE='$(abspath $(CAPSTAN_TEST_BUNDLE))' CAPSTAN_TEST_VM=1 go test -count=1 -p 1 -timeout 90m -v -run Virtual ./test/machine ./test/machine/local ./test/machine/run

.PHONY: test-owned-upgrade
test-owned-upgrade: build ## upgrade a cluster on Debian machines from the previous minor (needs root; builds two bundles, which takes minutes)
	@$(MAKE) --no-print-directory '$(CAPSTAN_TEST_BUNDLE)' '$(CAPSTAN_TEST_BUNDLE_BEFORE)'
	@CAPSTAN_TEST_BUNDLE='$(abspath $(CAPSTAN_TEST_BUNDLE))' CAPSTAN_TEST_BUNDLE_BEFORE='$(abspath $(CAPSTAN_TEST_BUNDLE_BEFORE))' CAPSTAN_TEST_MACHINES=1 go test -count=1 -timeout 30m -v -run '^TestUpgrade$$' ./test/machine/run

.PHONY: bench-move
bench-move: kube ## measure clusterctl move of 1, 10 and 50 clusters with three machines each, between two API servers
	@CAPSTAN_TEST_MOVE="1 10 50" go test -count=1 -timeout 40m -v -run TestMoveSpeed ./test/clusterctl | grep -E 'RESULT|^(---|ok|FAIL)'

.PHONY: bench
bench: build ## measure each figure, compare it with its bound (docs/figures.md), and show where time and memory go: make bench ARGS='-record' (ARGS=-h lists flags)
	@echo "→ packets of pods, against those without pods (root)"
	@cd kube && GOWORK=off go test -count=1 -run '^$$' -bench 'Stream|Request' -benchtime 20x ./network/routes
	@echo "→ calls of hooks, against bare POSTs and the client that Cluster API uses itself"
	@go run ./hack/peer ./runtime/internal/speed -count=1 -v
	@echo "→ figures"
	@go run ./hack/bench $(ARGS)

.PHONY: bench-build
bench-build: ## measure a build of the bundle from an empty cache, now and at the last commit before real pods (needs the repository's history; takes long)
	@go run ./hack/bench -build $(ARGS)

.PHONY: bench-extensions
bench-extensions: build kube-previous ## measure what the plane's own extensions cost: create and upgrade clusters with and without them, in turn (takes long)
	@go run ./hack/bench -extensions 5

# What a release depends on besides the sources: where its images will be, the date of all files, and the flags of
# go build. RELEASE_ARCH=amd64 builds for that architecture only, to try a release out.
IMAGE_PREFIX ?=
RELEASE_ARCH ?=
RELEASE_DATE ?= $(shell git log -1 --format=%ct 2>/dev/null || echo 0)
RELEASE_FLAGS ?= -trimpath

.PHONY: release
release: manifests ## make a release in dist/: make release VERSION=v0.1.0 IMAGE_PREFIX=REGISTRY/PATH (takes minutes)
	@go run ./hack/release -version '$(VERSION)' -image-prefix '$(IMAGE_PREFIX)' -date '$(RELEASE_DATE)' -arch '$(RELEASE_ARCH)' -out dist $(if $(RELEASE_FLAGS),-- $(RELEASE_FLAGS))

.PHONY: release-yaml
release-yaml: ## make the provider repository of a release in dist/, without binaries: make release-yaml VERSION=v0.1.0
	@go run ./hack/release -yaml -version '$(VERSION)' -image-prefix '$(IMAGE_PREFIX)' -out dist

.PHONY: test-release
test-release: ## check the release in dist/ (checksums, images, bill of materials), and run a cluster with it
	@CAPSTAN_TEST_DIST='$(CURDIR)/dist' go test -count=1 -timeout 30m -v -run TestDist ./release

.PHONY: clean
clean: ## remove what was built
	rm -rf bin dist .cache plane/manifests/upstream/[a-z]*
