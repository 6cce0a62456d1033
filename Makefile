# SPDX-License-Identifier: Apache-2.0
#
# `make` builds, `make demo` shows it, `make test` runs everything (CI does the same).

GO       ?= go
VERSION  := $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
LDFLAGS  := -s -w -X github.com/softroce/softroce-xdp/cmd/internal/cli.Version=$(VERSION)
PROGRAMS := softroce-xdp softroce-pool softroce-card softroce-sim
PREFIX   ?= /usr/local
DESTDIR  ?=
SUDO     := $(if $(filter 0,$(shell id -u)),,sudo)

# Two lanes run at the same time: packages, mostly under the race detector; and testenv, which waits for machines.
# Packages of one goroutine, or of other programs, are nothing for the race detector. So are test files of rocev2/nic
# whose figures the race detector would distort: their build constraint is !race, and the stage nic-norace runs their
# tests.
GOTEST    := GO=$(GO) ./.ci/gotest
SIMULATED := bpf cc/fourcase cc/sim cc/sim/schemes cc/report docs rocev2/engine rocev2/ooo hwoffload/rtl hwoffload/rtl/rtltool hwoffload/vectors \
	testenv/mutants testenv/wiretest
NORACE     = $(shell grep -l '^//go:build !race' rocev2/nic/*_test.go | xargs grep -oh '^func Test[A-Za-z0-9_]*' | cut -c6- | paste -sd'|')
# A process under the race detector sleeps a second before it ends, unless told otherwise.
export GORACE := atexit_sleep_ms=10
# A stage's timeout ends a test that hangs; a slow machine must stay below it.
AS_ROOT  := $(if $(SUDO),-exec "sudo -E env -u TMPDIR")

# What CI skips, it fails.
ifeq ($(CI),true)
export SOFTROCE_REQUIRE_ALL := 1
endif

.PHONY: all
all: build man ## what `make install` installs

.PHONY: build
build: ## bin/softroce-xdp, -pool, -card and -sim
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags '$(LDFLAGS)' -o bin/ $(addprefix ./cmd/,$(PROGRAMS))

# Programs of verbs load the libraries from here (LD_LIBRARY_PATH). SANITIZE: sanitizers of gcc, as address,undefined.
VERBS       ?= bin/verbs
VERBS_FLAGS := -std=gnu11 -O2 -g -fPIC -fvisibility=hidden -Wall -Wextra -Werror -pthread$(if $(SANITIZE), -fsanitize=$(SANITIZE) -fno-sanitize-recover=all -fno-omit-frame-pointer) -shared -Wl,-z,defs,-z,nodelete
.PHONY: verbs
verbs: ## bin/verbs/libibverbs.so.1 and librdmacm.so.1, for programs of C (gcc, libibverbs-dev, librdmacm-dev)
	mkdir -p $(VERBS)
	$(CC) $(VERBS_FLAGS) -Wl,-soname,libibverbs.so.1 -Wl,--version-script=rocev2/clib/src/versions.map -o $(VERBS)/libibverbs.so.1 rocev2/clib/src/*.c
	$(CC) $(VERBS_FLAGS) -Wl,-soname,librdmacm.so.1 -Wl,--version-script=rocev2/clib/rdmacm/versions.map -Irocev2/clib/src \
		-o $(VERBS)/librdmacm.so.1 rocev2/clib/rdmacm/*.c $(VERBS)/libibverbs.so.1
	ln -sf libibverbs.so.1 $(VERBS)/libibverbs.so
	ln -sf librdmacm.so.1 $(VERBS)/librdmacm.so

.PHONY: generate
generate: ## the data plane's objects, their Go types (clang-19, libbpf-dev), the card's registers, the device's messages in C, and the lists in docs/
	$(GO) generate ./bpf/... ./testenv/bench/xdpbench
	$(GO) generate ./hwoffload/...
	UPDATE=1 $(GO) test -count=1 ./rocev2/clib -run '^TestHeader$$'
	UPDATE=1 $(GO) test -count=1 ./cmd/softroce-xdp ./cmd/softroce-pool -run Docs

.PHONY: check-generate
check-generate: ## fails if the committed object is not what the sources give
	./.ci/check-generate

.PHONY: lint
lint: ## gofmt, vet, staticcheck, shellcheck, NOTICE
	@out=$$(gofmt -l $$(git ls-files '*.go')); if [ -n "$$out" ]; then echo "gofmt -w these:"; echo "$$out"; exit 1; fi
	$(GO) vet ./...
	$(GO) vet -tags timing $(TIMED)
	$(GO) vet -tags long ./testenv/e2e ./rocev2/clib
	$(GO) tool staticcheck ./...
	shellcheck .ci/run .ci/gotest .ci/check-generate .ci/check-install .ci/install .ci/notice
	GO=$(GO) ./.ci/notice --check

.PHONY: mutants
mutants: ## wrong versions of the sources, each of which a test must find, and a table of what found them (root, two processors, more than an hour)
	$(GO) test -count=1 -v -timeout 6h $(AS_ROOT) ./testenv/mutants -run 'TestMutants|TestTable' -args -mutants.all

.PHONY: card-bulk
card-bulk: ## two models of the card exchange 1 GB in each direction, and the model's goodput is compared with the engine's
	$(GO) test -count=1 -v -timeout 30m ./hwoffload/driver -run TestBulk -bench Goodput -args -card.mb=1024

.PHONY: check-unit
check-unit: build ## what systemd says of the unit (systemd-analyze)
	@dir=$$(mktemp -d); trap 'rm -rf "$$dir"' EXIT; mkdir -p "$$dir/sbin"; \
	cp bin/softroce-xdp "$$dir/sbin/"; chmod 755 "$$dir" ; \
	sed "s|@PREFIX@|$$dir|" packaging/softroce-xdp@.service.in > "$$dir/softroce-xdp@.service"; \
	out=$$(systemd-analyze verify --man=no "$$dir/softroce-xdp@eth0.service" 2>&1) || { echo "$$out"; exit 1; }; \
	if echo "$$out" | grep softroce; then exit 1; fi; echo "the unit is fine"

.PHONY: check-install
check-install: all ## what is built installs without Go, and the unit is started by its device
	./.ci/check-install

.PHONY: test
test: lint check-generate build check-unit check-install test-go ## everything; the parts below with a summary at the end

.PHONY: test-go
test-go:
	rm -rf out/gotest
	$(MAKE) --no-print-directory -j2 test-packages test-network
	$(GOTEST) summary

.PHONY: test-packages
test-packages:
	all=$$($(GO) list ./...) && \
	$(GOTEST) run race -vet=off -race -timeout 30m $(AS_ROOT) $$(echo "$$all" | grep -v -e /testenv/ $(foreach p,$(PROGRAMS),-e '/cmd/$(p)$$') -e '/rocev2/nic$$' $(foreach p,$(SIMULATED),-e '/$(p)$$'))
	$(GOTEST) run race-words -vet=off -race -timeout 30m $(AS_ROOT) ./bpf -run '^TestMACAtOnce$$'
	$(GOTEST) run race-nic -vet=off -race -timeout 30m $(AS_ROOT) ./rocev2/nic
	$(GOTEST) run race-programs -vet=off -race -p 1 -timeout 30m $(AS_ROOT) $(addprefix ./cmd/,$(PROGRAMS))
	$(GOTEST) run simulated -vet=off -timeout 30m $(AS_ROOT) $(foreach p,$(SIMULATED),./$(p))

.PHONY: test-network
test-network:
	all=$$($(GO) list ./testenv/...) && \
	$(GOTEST) run network -vet=off -p 1 -count=1 -timeout 90m $(AS_ROOT) $$(echo "$$all" | grep -v $(foreach p,$(SIMULATED),-e '/$(p)$$'))
	$(GOTEST) run nic-norace -vet=off -timeout 30m $(AS_ROOT) ./rocev2/nic -run '^($(NORACE))$$'

# What is judged here depends on how fast the machine is (package testenv/lab/require).
TIMED    := ./rocev2/nic ./testenv/experiments/rates ./testenv/lab/load ./testenv/lab/topo ./testenv/e2e
.PHONY: test-timing
test-timing: ## rates that are reached, shares, queues, delays: on a machine that does nothing else (root); no part of CI
	rm -rf out/gotest
	$(GOTEST) run timing -tags timing -p 1 -count=1 -timeout 60m $(AS_ROOT) $(TIMED)
	$(GOTEST) summary

.PHONY: test-unit
test-unit: ## what needs neither root nor other programs; skips the rest with reasons
	rm -rf out/gotest
	$(GOTEST) run unit -short ./...
	$(GOTEST) summary

.PHONY: demo
demo: ## two hosts and a bottleneck on this machine, with the table live
	$(SUDO) ./.ci/install demo
	$(MAKE) --no-print-directory build-bench
	$(SUDO) ./bin/bench demo

.PHONY: pool-demo
pool-demo: ## a memory pool of a server and two nodes: a map larger than its local memory, and space that follows demand
	$(SUDO) ./.ci/install demo
	$(MAKE) --no-print-directory build-bench
	$(SUDO) ./bin/bench pooldemo

.PHONY: card-demo
card-demo: ## the card in a simulator: the policy on its RTL, then memory, distribution and compute of its model
	$(SUDO) ./.ci/install card-demo
	$(MAKE) --no-print-directory build-bench
	./bin/bench carddemo

.PHONY: build-bench
build-bench: build ## bin/bench: its subcommands are what the targets below run
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags '-s -w' -o bin/bench ./testenv/bench

.PHONY: bench
bench: build-bench ## what it costs: ns per packet over an empty program, TCP through it, the NIC compared with raw AF_XDP, the codec (root)
	@missed=0; \
	$(SUDO) ./bin/bench xdp || missed=1; \
	$(SUDO) ./bin/bench tcp || missed=1; \
	$(SUDO) ./bin/bench nic || missed=1; \
	$(GO) test -run '^$$' -bench . -benchmem ./rocev2/... ./cc/... || missed=1; \
	exit $$missed

.PHONY: bench-transport
bench-transport: build-bench ## only the NIC: compared with raw AF_XDP; sections device and processes: through the agent, by 1, 4 and 16 processes (root)
	$(SUDO) ./bin/bench nic

.PHONY: bench-verbs
bench-verbs: build-bench verbs ## programs of perftest compared with perf, on one agent a host (root, five minutes)
	$(SUDO) ./bin/bench nic --only verbs --time 2s

.PHONY: test-device
test-device: build ## the device server at length: 1 GB by each operation between processes of two hosts, 10^6 random messages (root, ten minutes)
	$(GO) test -count=1 -v -timeout 60m -run 'TestTwoHosts|TestAgentAgain|TestRandomMessages|TestSlowMemory' $(AS_ROOT) ./loader/device -args -device.bytes=1073741824 -device.messages=1000000

.PHONY: test-long
test-long: ## 100 000 connections in a loop, 400 at once, 1000 of ten processes at once; a million events of the card, two more tests with rxe (root, 75 minutes)
	$(GO) test -count=1 -v -timeout 6h -run TestConnections $(AS_ROOT) ./testenv/experiments/agents -args \
		-connections.loop=100000 -connections.once=400 -connections.processes=10 -connections.dials=100 -connections.deadline=1m
	$(GO) test -tags long -count=1 -v -timeout 60m -run '^(TestCaptures|TestRxeJumbo)$$' $(AS_ROOT) ./testenv/e2e
	$(GO) test -count=1 -v -timeout 30m -run '^TestCardVectors$$' $(AS_ROOT) ./bpf -args -card.streams=5000
	$(GO) test -count=1 -v -timeout 30m -run '^TestRTL' ./hwoffload/vectors -args -rtl.streams=5000 -rtl.mutations=100
	$(GO) test -count=1 -v -timeout 30m -run '^TestTasksFindMutations$$' ./hwoffload/rtl -args -rtl.mutations=100

.PHONY: verbs-test
verbs-test: ## programs of libibverbs at length, with loss and with rxe, and the tests of rdma-core (root, two hours)
	$(GO) test -tags long -count=1 -v -timeout 150m $(AS_ROOT) ./rocev2/clib

# Not by `go test`: Ctrl-C ends the soak itself, which writes its verdict and takes its hosts down.
SOAK     ?= 4h
SOAK_FLAGS ?= -soak.hosts=4 -soak.period=1m
.PHONY: soak
soak: ## four hours of agents with programs that come and go, and faults: memory, descriptors, maps stay; SOAK=90m for less: out/soak.txt (root)
	mkdir -p bin out
	$(GO) test -c -o bin/soak.test ./testenv/experiments/agents
	$(if $(SUDO),sudo -E env -u TMPDIR) ./bin/soak.test -test.run '^TestSoak$$' -test.v -test.timeout 0 -soak.duration=$(SOAK) -soak.out=$(CURDIR)/out/soak.txt $(SOAK_FLAGS)

.PHONY: sweep
sweep: build-bench ## perf over operations, sizes, MTUs, queue pairs and depths: every run ends, none sends more than 1.05 packets for one (root, ten minutes)
	$(SUDO) ./bin/bench sweep

.PHONY: bench-pacers
bench-pacers: build-bench ## every pacer from 1 Mbit/s to what the machine carries: what leaves, and how soon a new rate is in force (root)
	$(SUDO) ./bin/bench pacer

.PHONY: bench-receiver
bench-receiver: ## a server with a slow link divides it among three nodes by priority: docs/img/receiver.svg and receiver.txt (root, eight minutes)
	$(GO) test -tags timing -count=1 -v -timeout 30m -run TestReceiverFigures $(AS_ROOT) ./testenv/experiments/rates -args -receiver.runs=5 -receiver.out=$(CURDIR)/docs/img

.PHONY: bench-precredit
bench-precredit: build ## messages to one host from four, with pre-credit and without: out/precredit.txt and turns.txt (root, five minutes)
	mkdir -p out
	SOFTROCE_REPORT=$(CURDIR)/out $(GO) test -count=1 -v -timeout 20m -run 'TestIncast|TestTurns' $(AS_ROOT) ./testenv/experiments/rates

.PHONY: bench-pool
bench-pool: build-bench ## a program with 4 GiB of memory, of which a half or a quarter is local: the pool against swap to a file (root, 10 GB of memory, half an hour)
	$(SUDO) ./bin/bench pool

.PHONY: bench-rxe
bench-rxe: build-bench ## Linux rxe against our engine between the same two virtual machines (root)
	$(SUDO) ./bin/bench rxe

.PHONY: bench-rxe-verbs
bench-rxe-verbs: build-bench verbs ## programs of perftest on Linux rxe and with the library, between the same two virtual machines of two CPUs (root, ten minutes)
	$(SUDO) ./bin/bench rxe --library $(VERBS) --cpus 2

.PHONY: bench-disorder
bench-disorder: build-bench ## out-of-order mode compared with RC over a box that loses and reorders, between attached interfaces (root, three minutes)
	$(SUDO) ./bin/bench disorder

.PHONY: bench-rails
bench-rails: build-bench ## out-of-order mode over two interfaces of each host, and what the death of one costs (root, half a minute)
	$(SUDO) ./bin/bench rails

.PHONY: bench-forwarder
bench-forwarder: build-bench ## traffic between two attached hosts through an attached router and one that is not (root, a minute)
	$(SUDO) ./bin/bench forwarder

.PHONY: report
report: ## S1.9 on this machine: docs/img/perdest.svg and .txt (root)
	mkdir -p docs/img
	SOFTROCE_REPORT=$(CURDIR)/docs/img $(GO) test -tags timing -count=1 -v -run TestPerDestination $(AS_ROOT) ./testenv/e2e

.PHONY: cc-report
cc-report: ## docs/study/congestion-control.md: every scenario with every scheme in the simulator (15 minutes on two cores)
	$(GO) run ./testenv/bench ccreport

.PHONY: rtl-report
rtl-report: ## docs/card/card-rtl.txt: what the modules of hwoffload/rtl take of an FPGA (yosys; some minutes if all have changed)
	$(GO) run ./hwoffload/rtl/rtltool report

.PHONY: sim-real
sim-real: build ## out/simreal.txt: scenarios on this machine with softroce-xdp attached, compared with the simulator (root)
	mkdir -p out
	SOFTROCE_REPORT=$(CURDIR)/out $(GO) test -tags timing -count=1 -v -timeout 30m -run TestSimulationAndReality $(AS_ROOT) ./testenv/experiments/rates

.PHONY: judge
judge: ## our engine and Linux rxe in virtual machines, each against rxe: the whole table of cases (root, ten minutes)
	mkdir -p out
	SOFTROCE_REQUIRE_ALL=1 SOFTROCE_JUDGE_FULL=1 $(GO) test -count=1 -v -timeout 90m $(AS_ROOT) ./testenv/oracle > out/judge.log || { grep -B2 -A8 -e '^ *--- FAIL' out/judge.log; exit 1; }
	@grep -e 'cases in' -e 'sent again' -e 'sent per packet' -e '^ok' out/judge.log

.PHONY: man
man: build ## out/man, from the text of the commands
	rm -rf out/man
	for p in $(PROGRAMS); do \
		SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct 2>/dev/null || date +%s) bin/$$p man out/man || exit 1; \
	done

COMPLETIONS := $(DESTDIR)$(PREFIX)/share/bash-completion/completions
LIBDIR      := $(DESTDIR)$(PREFIX)/lib/softroce-xdp
UNITS       := $(DESTDIR)$(PREFIX)/lib/systemd/system

# Removes the man pages, also those of commands that older versions had.
RM_MAN      := for p in $(PROGRAMS); do rm -f $(DESTDIR)$(PREFIX)/share/man/man8/$$p.8 $(DESTDIR)$(PREFIX)/share/man/man8/$$p-*.8; done

# Root's PATH may have no Go, and what root builds belongs to root: this builds nothing.
.PHONY: install
install: ## binaries, man pages, systemd unit, shell completion; `make` builds them
	@for p in $(PROGRAMS); do \
		test -x bin/$$p -a -s out/man/$$p.8 || \
		{ echo "install: bin/$$p or its man pages are missing: run \`make\` first, as yourself" >&2; exit 1; }; \
	done
	install -d $(DESTDIR)$(PREFIX)/sbin $(DESTDIR)$(PREFIX)/share/man/man8 $(DESTDIR)/etc/softroce-xdp $(UNITS) $(COMPLETIONS)
	$(RM_MAN)
	install -m 755 $(addprefix bin/,$(PROGRAMS)) $(DESTDIR)$(PREFIX)/sbin
	install -m 644 out/man/*.8 $(DESTDIR)$(PREFIX)/share/man/man8
	sed 's|@PREFIX@|$(PREFIX)|' packaging/softroce-xdp@.service.in > $(UNITS)/softroce-xdp@.service
	if [ -f $(VERBS)/librdmacm.so.1 ]; then \
		install -d $(LIBDIR) && install -m 755 $(VERBS)/libibverbs.so.1 $(VERBS)/librdmacm.so.1 $(LIBDIR) && \
		ln -sf libibverbs.so.1 $(LIBDIR)/libibverbs.so && ln -sf librdmacm.so.1 $(LIBDIR)/librdmacm.so; \
	fi
	for p in $(PROGRAMS); do bin/$$p completion bash > $(COMPLETIONS)/$$p || exit 1; done

# The configuration stays. What is attached would have no program to detach it: it is refused, unless files of another
# root are removed (DESTDIR). An interface whose status cannot be read is attached.
.PHONY: uninstall
uninstall: ## removes what install has installed, and no configuration
	@program=$(PREFIX)/sbin/softroce-xdp; \
	if [ -z "$(DESTDIR)" ] && [ -x "$$program" ]; then \
		attached=$$("$$program" status) || attached="$$attached$${attached:+ }softroce-xdp status has failed"; \
		if [ -n "$$attached" ] && [ "$$attached" != "no interface is attached" ]; then \
			printf '%s\n' "$$attached" >&2; \
			echo "uninstall: an interface is attached. Run \`systemctl disable --now softroce-xdp@IF\` if systemd has started its agent," \
				"and \`softroce-xdp detach IF\`, for each IF; then uninstall again." \
				"\`make uninstall DESTDIR=/\` removes the programs nevertheless" >&2; \
			exit 1; \
		fi; \
	fi
	rm -f $(addprefix $(DESTDIR)$(PREFIX)/sbin/,$(PROGRAMS)) $(addprefix $(COMPLETIONS)/,$(PROGRAMS)) $(UNITS)/softroce-xdp@.service
	rm -f $(LIBDIR)/libibverbs.so.1 $(LIBDIR)/libibverbs.so $(LIBDIR)/librdmacm.so.1 $(LIBDIR)/librdmacm.so
	[ ! -d $(LIBDIR) ] || rmdir --ignore-fail-on-non-empty $(LIBDIR)
	$(RM_MAN)
	[ ! -d $(DESTDIR)/etc/softroce-xdp ] || rmdir --ignore-fail-on-non-empty $(DESTDIR)/etc/softroce-xdp

.PHONY: clean
clean: ## bin and out; the caches of the test machines stay
	rm -rf bin out

.PHONY: help
help:
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 18
