# `make test` is all that CI runs; `make help` lists the rest.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

LINT := go tool -modfile=tools/go.mod golangci-lint
PGBIN := /usr/lib/postgresql/15/bin
FUZZTIME ?= 30s
FUZZFLAG ?= -fuzz=.

# Two test binaries at a time: several start a PostgreSQL of their own. The
# timeout is a package's. Without GORACE each would wait for a second at its end.
TESTFLAGS ?= -p 2 -timeout 15m

# The SQLite library is C that was translated to Go. The race detector does not know its memory, and
# the checks of its pointers find nothing of ours. Both took three quarters of the time of the
# tests of that store.
#
# PLAIN are the packages that are tested without the race detector. The scripts of cmd/postrider start
# the program six hundred times, and each start costs the detector half a second. archive, janitor and
# schedule simulate months and nodes in virtual time, where one goroutine runs at a time. internal/web renders pages; what
# its requests share is tested again with the detector. bench and release start programs. internal/app runs the same
# server with the detector.
PLAIN := /(cmd/postrider|internal/(archive|janitor|schedule|web)|bench/[a-z/]+|release)$$
RACE := -race -gcflags=modernc.org/...=-d=checkptr=0 -gcflags='modernc.org/sqlite/lib=-d=checkptr=0 -race=false'

.PHONY: help
help: ## List the targets.
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: test
test: setup ## All that CI runs: format, lint, module files, vet, tests with the race detector, fuzzing, receivers' libraries, the contract of the API, the pages, the alerts, the chart, publishing in transactions.
	$(LINT) fmt --diff
	$(LINT) run
	go mod tidy -diff
	go vet ./...
	GORACE=atexit_sleep_ms=0 go test $(RACE) -shuffle=on $(TESTFLAGS) $$(go list ./... | grep -vE '$(PLAIN)')
	GORACE=atexit_sleep_ms=0 go test $(RACE) -shuffle=on $(TESTFLAGS) -run 'Tail|Stream|Brand|Brief' ./internal/web
	go test -shuffle=on $(TESTFLAGS) $$(go list ./... | grep -E '$(PLAIN)')
	$(MAKE) fuzz FUZZTIME=2s FUZZFLAG=
	$(MAKE) --jobs=2 --output-sync=target browser contract compat outboxtest oidc deploy newest-postgres

.PHONY: setup
setup: ## Install what the tests need and is missing: PostgreSQL 15, PgBouncer, a C compiler for the race detector, curl, Python, Node.js, Java, Maven, PHP, Ruby with Active Record, Mono, Rust, systemd, lintian, Prometheus, Chromium.
	@missing=; \
	[[ -x $(PGBIN)/postgres ]] || missing+=' postgresql-15'; \
	[[ -x /usr/sbin/pgbouncer ]] || missing+=' pgbouncer'; \
	command -v gcc >/dev/null || missing+=' gcc libc6-dev'; \
	command -v curl >/dev/null || missing+=' curl'; \
	command -v python3 >/dev/null || missing+=' python3-minimal'; \
	python3 -c 'import ensurepip' 2>/dev/null || missing+=' python3-venv'; \
	command -v javac >/dev/null || missing+=' default-jdk-headless'; \
	command -v mvn >/dev/null || missing+=' maven'; \
	command -v node >/dev/null || missing+=' nodejs'; \
	command -v npm >/dev/null || missing+=' npm'; \
	python3 -c 'import cryptography' 2>/dev/null || missing+=' python3-cryptography'; \
	command -v php >/dev/null || missing+=' php-cli'; \
	command -v ruby >/dev/null || missing+=' ruby'; \
	ruby -e 'require "active_record"; require "pg"' 2>/dev/null || missing+=' ruby-activerecord ruby-pg'; \
	command -v mcs >/dev/null || missing+=' mono-mcs mono-runtime libmono-system-core4.0-cil'; \
	command -v cargo >/dev/null || missing+=' cargo-web rustc-web'; \
	command -v systemd-analyze >/dev/null || missing+=' systemd'; \
	command -v lintian >/dev/null || missing+=' lintian'; \
	command -v promtool >/dev/null || missing+=' prometheus'; \
	[[ -x /usr/bin/chromium ]] || missing+=' chromium'; \
	[[ -d /usr/share/fonts/truetype/dejavu ]] || missing+=' fonts-dejavu-core'; \
	[[ -n $$missing ]] || exit 0; \
	root=; if [[ $$(id -u) != 0 ]]; then root='sudo -n'; fi; \
	$$root mkdir -p /etc/postgresql-common/createcluster.d; \
	$$root tee /etc/postgresql-common/createcluster.d/tests.conf >/dev/null <<< 'create_main_cluster = false'; \
	$$root apt-get update -qq; \
	$$root env DEBIAN_FRONTEND=noninteractive apt-get install -qq --no-install-recommends $$missing; \
	[[ -x $(PGBIN)/postgres ]] || { echo 'make setup: there is no $(PGBIN)/postgres' >&2; exit 1; }

# What depends on the server's version: the contract of the stores, the plans, the partitions, the
# migrations and the doctor. The race detector has looked at them on the oldest version.
ON_MAJOR = TEST_PGBIN=$$(tools/postgres.sh $(1)) go test -count=1 $(TESTFLAGS) ./internal/store/postgres \
	-run 'Contract|Nodes|Calls|Plans|NoCold|ADay|Partitions|Migrate|Tables|Examine'

.PHONY: newest-postgres
newest-postgres: ## Test the store on the newest PostgreSQL; the other tests take the oldest.
	$(call ON_MAJOR,18)

.PHONY: test-postgres
test-postgres: setup ## Test the store on every major version of PostgreSQL that is supported.
	$(call ON_MAJOR,15)
	$(call ON_MAJOR,16)
	$(call ON_MAJOR,17)
	$(call ON_MAJOR,18)

# These make clients with npm, Maven and cargo while others ask servers. On a slow disk a commit
# of a server then waits for seconds behind their files, and the server answers 503. So their
# files are in memory where /dev/shm has 8 GB free, but for what Go builds.
SHM := $(shell if [[ $$(df --output=avail -k /dev/shm 2>/dev/null | tail -n 1) -gt 8000000 ]]; then echo /dev/shm; fi)
DISK := $(or $(TMPDIR),/tmp)
browser contract compat outboxtest oidc deploy: export GOTMPDIR := $(DISK)
browser contract compat outboxtest oidc deploy: export TMPDIR := $(or $(SHM),$(DISK))

.PHONY: compat
compat: ## Let receivers' own libraries verify what the server sends; see compat/README.md.
	cd compat && go mod tidy -diff
	cd compat && go test -count=1 -vet=all -v .

.PHONY: outboxtest
outboxtest: ## Run the programs of docs/outbox, which publish in their transactions, and hold the promises about that.
	cd outboxtest && go mod tidy -diff
	cd outboxtest && go vet ./...
	cd outboxtest && go test -count=1 -vet=all -v .

.PHONY: fips
fips: ## Build with the module that is certified for FIPS 140-3, and have the program start, sign and verify. A cold build takes minutes.
	GOFIPS140=v1.0.0 go test -count=1 -run 'TestScript/fips' ./cmd/postrider

.PHONY: oidc
oidc: ## Log in to the server by another's identity provider; see docs/adr/0045-operators-log-in-by-openid-connect.md.
	cd oidctest && go mod tidy -diff
	cd oidctest && go test -count=1 -vet=all -v .

.PHONY: contract
contract: ## Hold the answers of the server to its OpenAPI document, and generate clients from it; see contract/README.md.
	cd contract && go mod tidy -diff
	cd contract && go test -count=1 -vet=all -v -parallel 8 .

.PHONY: deploy
deploy: ## Check the alerts by promtool, the dashboard by a Prometheus, and the chart by helm's library; see deploy/README.md.
	cd deploy && go mod tidy -diff
	cd deploy && go test -count=1 -vet=all .

.PHONY: faults
faults: ## Record anew what servers serve while something is wrong, in virtual time, and which alerts that fires. Takes half an hour.
	go test -count=1 -v -timeout 2h -run TestRecordFaults ./internal/app -args -record ../../deploy/faults
	cd deploy && go test -count=1 -run TestFaultsFireAlerts . -args -update

.PHONY: waits
waits: ## Hold each resource of docs/waits.md for 25 s by force, and watch everybody else.
	go test -count=1 -v -run TestPromise5Waits ./internal/app -args -hold 25s

.PHONY: snippets
snippets: ## Run the snippets that verify webhooks in eight languages, on signatures of ours; part of the tests.
	go test -count=1 ./internal/snippets

.PHONY: browser
browser: ## Open every page in Chromium and go the ways of people through them; see browser/README.md.
	cd browser && go mod tidy -diff
	cd browser && go test -count=1 -vet=all -timeout 20m .

.PHONY: screenshots
screenshots: ## Take the pictures in docs/screenshots anew.
	mkdir -p docs/screenshots
	cd browser && go test -count=1 -run 'TestPages|TestScreenshots' -timeout 10m . -update

.PHONY: lint
lint: ## Format the code, then lint it.
	$(LINT) fmt
	$(LINT) run

# Four packages at a time, each with one worker: their time is by the clock.
.PHONY: fuzz
fuzz: ## Run each fuzz target for FUZZTIME (30s).
	@grep -rlE --include='*_test.go' '^func Fuzz' . | xargs -n 1 dirname | sort | uniq -c | sort -rn | awk '{print $$2}' | \
		xargs -P 4 -I {} tools/fuzz.sh {} $(FUZZTIME) $(FUZZFLAG)

.PHONY: sim
sim: ## Kill 100,000 simulated nodes, with large fan-outs and payloads that kill under way. Takes an hour.
	go test ./internal/schedule -count=1 -run CrashLoops -timeout 4h -args -kills 100000

.PHONY: crash
crash: ## Kill real servers 300 times on each store, with large fan-outs under way; see bench/README.md. Takes two hours.
	go run ./bench/crash -store sqlite -kills 300 -max 12s -fanout 5000 -deletes 20 -events 1000000 -limit 90m
	go run ./bench/crash -store postgres -kills 300 -max 12s -fanout 5000 -deletes 20 -events 1000000 -limit 90m
	go run ./bench/crash -store postgres -nodes 3 -kills 300 -max 12s -fanout 5000 -deletes 20 -events 1000000 -limit 90m

.PHONY: outbox
outbox: ## Kill servers and a producer's database 300 times while it writes to its outbox; see bench/README.md. Takes an hour.
	go run ./bench/outbox -store sqlite -kills 300
	go run ./bench/outbox -store postgres -nodes 3 -kills 300

.PHONY: isolation
isolation: ## Measure retries of healthy endpoints beside 200 that hang or answer 500; see bench/README.md. Takes ten minutes.
	for store in sqlite postgres; do for bad in hang 500; do for circuit in never default; do \
		go run ./bench/isolation -store $$store -bad $$bad -circuit $$circuit || exit 1; done; done; done

.PHONY: bench
bench: ## Measure publish, delivery and latency on this machine; see bench/README.md.
	go run ./bench/run

.PHONY: release
release: ## Build what a release publishes into ./dist: VERSION=v1.2.3, the tag of the commit. See docs/adr/0053-releases-are-built-by-go-alone.md.
	@[[ '$(VERSION)' == v* ]] || { echo 'make release: say the tag of the commit: make release VERSION=v1.2.3' >&2; exit 2; }
	rm -rf dist
	nice go run ./release -version '$(VERSION)'

.PHONY: reproduce
reproduce: ## Build the release of ./dist again, in another folder and with an empty cache, and compare the sums.
	@folder=$$(mktemp -d); trap 'chmod -R u+w "$$folder"; rm -rf "$$folder"' EXIT; \
	git clone -q . "$$folder/tree"; cd "$$folder/tree"; \
	GOCACHE="$$folder/cache" nice go run ./release -version '$(VERSION)'; \
	diff dist/SHA256SUMS '$(CURDIR)/dist/SHA256SUMS'; \
	echo 'the release is reproduced'

.PHONY: run
run: ## Run the server for development on http://127.0.0.1:8080.
	go run ./cmd/postrider serve --dev

.PHONY: generate
generate: ## Write the generated and the golden files anew.
	@grep -rlE --include='*_test.go' 'flag\.Bool\("update"' . | xargs -r -n 1 dirname | sort -u | while read -r package; do \
		go test "$$package" -update; \
	done
