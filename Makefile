# SPDX-License-Identifier: Apache-2.0
#
# Front door of the tree; `make help` lists the targets. There is no configure step.
#
# Directories are globbed. A new .c file joins the library of its directory, a new foo_test.c
# becomes build/test/<dir>/foo_test, a new tools/<x>/main.c becomes build/bin/strait-<x>; none
# needs an edit here. pkg-config is asked the first time a recipe needs it and never while this
# file is read, so that `make deps` works on a machine which has nothing but make.
#
#   V=1      show full commands            BUILD=dir  build there instead of build/
#   SAN=1    address and undefined-behaviour sanitizers, in build-asan/
#   J=n      tests run at once (2)         T=substr   run only the tests whose path has it

MAKEFLAGS += --no-builtin-rules
.SUFFIXES:
.DELETE_ON_ERROR:
.SECONDARY:
.DEFAULT_GOAL := all

VERSION := 0.1.0
BUILD   ?= $(if $(SAN),build-asan,build)
J       ?= 2
prefix  ?= /usr/local
libdir  ?= $(prefix)/lib
Q       := $(if $(V),,@)
# For a make inside a make: all cores, unless the caller said how many.
submake  = +$(Q)$(MAKE) --no-print-directory $$(case "$$MAKEFLAGS" in *-j*) ;; *) echo -j$$(nproc) ;; esac)
say      = $(if $(V),,@printf '  %-5s %s\n' '$1' '$(patsubst $(CURDIR)/%,%,$2)';)

ifeq ($(origin CC),default)
CC := gcc
endif
ifeq ($(origin AR),default)
AR := ar
endif

# ---- flags --------------------------------------------------------------------------------------

# $(call once,VAR,command): the first use of VAR runs the command, later uses read its answer.
once = $(eval $1 := $(shell $2))$(if $($1),,$(error no answer from "$2": run `make deps`))$($1)

EXT_PKGS := libisal libssl libcrypto libevent libevent_openssl libevent_pthreads libcyaml yaml-0.1 \
	    jansson smartcols libprotobuf-c sqlite3 libseccomp libzmq libcurl
EXT_CFLAGS    = $(call once,EXT_CFLAGS,pkg-config --cflags $(EXT_PKGS))
# The distribution's libipsec-mb and msgpack have no .pc file of use.
EXT_LIBS      = $(call once,EXT_LIBS,pkg-config --libs $(EXT_PKGS) && echo -lIPSec_MB -lmsgpackc)
CMOCKA_LIBS   = $(call once,CMOCKA_LIBS,pkg-config --libs cmocka)
# The .pc file's -march reaches only the directories that include rte_* headers. Everything else is
# plain x86-64; ISA-L, ipsec-mb and OpenSSL pick their kernels at run time.
DPDK_CFLAGS   = $(call once,DPDK_CFLAGS,pkg-config --cflags libdpdk)
# PMDs (net_memif, net_af_packet, ..) are loaded by the EAL from the distribution's PMD directory.
DPDK_LIBS     = $(call once,DPDK_LIBS,pkg-config --libs libdpdk && echo -lrte_bus_vdev)

WARN := -Wall -Wextra -Werror -Wmissing-prototypes -Wstrict-prototypes -Wshadow -Wvla -Wpointer-arith
OPT_release := -O2 -g -D_FORTIFY_SOURCE=2 -fstack-protector-strong -fstack-clash-protection \
	       -fcf-protection
SANITIZE    := address,undefined
OPT_1       := -O1 -g -fno-omit-frame-pointer -fsanitize=$(SANITIZE) -fno-sanitize-recover=undefined
OPT_fuzz    := $(OPT_1) -fsanitize=fuzzer-no-link
# Instrumentation makes gcc see uninitialized paths that are not there; clang warns about other
# things than the compiler we build with.
WARN        += $(if $(filter 1,$(SAN)),-Wno-error=maybe-uninitialized) $(if $(filter fuzz,$(SAN)),-Wno-error)
OPT         := $(OPT_$(or $(SAN),release))

STRAIT_CFLAGS = -std=gnu11 -D_GNU_SOURCE $(OPT) $(CFLAGS)
INCLUDES      = -I. -Iinclude -isystem $(BUILD)/gen
STRAIT_LDFLAGS := -Wl,--as-needed -Wl,-z,relro,-z,now \
		  $(if $(SAN),-fsanitize=$(SANITIZE)) $(LDFLAGS)

# ---- what is in the tree --------------------------------------------------------------------------

# Directories that may include rte_*.
DPDK_TOOLS := wan rtehash
DPDK_DIRS  := dataplane/edge tests/wan $(DPDK_TOOLS:%=tools/%)
# These also go into libstrait.so.
PIC_DIRS   := control/base control/client control/index dataplane/fec dataplane/pool

sources = $(filter-out %/main.c %_test.c,$(wildcard $1/*.c))
objects = $(patsubst %.c,$(BUILD)/obj/%.o,$1)
PROTOS  := $(wildcard control/rpc/*.proto)
GEN_C   := $(PROTOS:%.proto=$(BUILD)/gen/%.pb-c.c)
GEN_OBJ := $(GEN_C:.c=.o)
GEN_H   := $(GEN_C:.c=.h)

# $(call library,name,dir[,more objects]) declares build/lib/lib<name>.a if the dir has sources.
define library
ifneq ($(call sources,$2)$3,)
$(if $(filter $2,$(DPDK_DIRS)),DPDK_ARCHIVES,ARCHIVES) += $(BUILD)/lib/lib$1.a
$(BUILD)/lib/lib$1.a: $(call objects,$(call sources,$2)) $3
endif
endef
TOOL_DIRS := $(patsubst %/,%,$(dir $(wildcard tools/*/*.c)))
$(eval $(call library,base,control/base))
$(eval $(call library,fec,dataplane/fec))
$(eval $(call library,crypto,dataplane/crypto))
$(eval $(call library,transport,dataplane/transport))
$(eval $(call library,strait,dataplane/pool))
$(eval $(call library,rpc,control/rpc,$(GEN_OBJ)))
$(eval $(call library,orders,control/orders))
$(eval $(call library,log,control/log))
$(eval $(call library,index,control/index))
$(eval $(call library,planner,control/planner))
$(eval $(call library,sources,control/sources))
$(eval $(call library,client,control/client))
$(eval $(call library,keys,control/keys))
$(eval $(call library,site,control/site))
$(eval $(call library,master,control/master))
$(eval $(call library,ctl,control/ctl))
$(eval $(call library,edge,dataplane/edge))
$(foreach d,$(sort $(TOOL_DIRS)),$(eval $(call library,$(notdir $d),$d)))

# $(call program,name,dir) declares build/bin/<name> if the dir has a main.c.
define program
ifneq ($(wildcard $2/main.c),)
PROGRAMS += $(BUILD)/bin/$1
$(BUILD)/bin/$1: $(BUILD)/obj/$2/main.o
endif
endef
$(eval $(call program,strait-edge,dataplane/edge))
$(eval $(call program,strait-master,control/master))
$(eval $(call program,straitctl,control/ctl))
$(foreach d,$(sort $(TOOL_DIRS)),$(eval $(call program,strait-$(notdir $d),$d)))

# Unit tests stand beside what they test; tests/{e2e,wan}/*.c are helpers of the
# scripts there, built as build/test/e2e/<name> and build/test/wan/<name>.
TEST_C  := $(wildcard dataplane/*/*_test.c control/*/*_test.c tools/*/*_test.c tests/unit/*_test.c)
TESTS   := $(TEST_C:%.c=$(BUILD)/test/%)
HELPERS := $(patsubst tests/%.c,$(BUILD)/test/%,$(wildcard tests/e2e/*.c tests/wan/*.c))
LIBSTRAIT := $(if $(call sources,dataplane/pool),$(BUILD)/lib/libstrait.so.0)

# ---- targets --------------------------------------------------------------------------------------

all: $(ARCHIVES) $(DPDK_ARCHIVES) $(PROGRAMS) $(LIBSTRAIT) ## libraries and programs

# deps comes first, and what needs the packages runs in a make of its own.
demo: ## install what is missing, build, run two sites over an emulated WAN
	$(Q)tools/dev/deps.sh build
	$(submake) all
	$(Q)BUILD=$(BUILD) tools/demo/demo.sh

check: ## install what is missing, build, lint and run every test
	$(Q)tools/dev/deps.sh build test
	+$(Q)MAKE='$(MAKE)' tools/dev/check.sh

# Tests and scripts run in the root of the tree and find programs in $BUILD/bin.
unit: $(TESTS) ## cmocka tests (also: make unit SAN=1, T=pacer)
	$(Q)BUILD=$(BUILD) tools/dev/run_tests.py -j $(J) -t 60 $(T:%=--only %) -- $(TESTS) \
		$(wildcard tests/vectors/check.py)

sim-check: all ## simulator seeds over random impairments
	$(Q)BUILD=$(BUILD) tools/dev/run_tests.py -t 600 -- $(wildcard tests/sim/run.sh)

# Programs that need no DPDK, so that they build where there is none.
SIM := $(BUILD)/bin/strait-sim
SOAK_SEEDS ?= 100000
soak: $(SIM) $(BUILD)/test/tests/unit/transport_hostile_random_test ## many more random seeds, SOAK_SEEDS=100000 (about an hour on two cores)
	$(Q)BUILD=$(BUILD) SIM_ONLY=random SIM_SEEDS=$(SOAK_SEEDS) tests/sim/run.sh

soak-memory: all $(HELPERS) ## real edges' memory at 5 % loss, MEMORY_SECONDS=3600 (an hour)
	$(Q)BUILD=$(BUILD) MEMORY_SECONDS=$(or $(MEMORY_SECONDS),3600) tests/e2e/memory_test.sh

sim-report: $(SIM) ## measure the transport, write doc/transport-report.md (REPORT_QUICK=1: few seeds)
	$(Q)BUILD=$(BUILD) tests/sim/report.py $(if $(REPORT_QUICK),--quick)

bench: $(BUILD)/bin/strait-bench ## one core's sender and receiver beside their ceilings (four minutes)
	$(Q)BUILD=$(BUILD) tools/bench/table.py

# The gateway to Mooncake is Python around Mooncake's own client, which comes from PyPI.
MOONCAKE := $(BUILD)/bin/strait-mooncake
$(MOONCAKE): tools/mooncake/strait-mooncake.in $(BUILD)/mooncake-venv/installed
	@mkdir -p $(@D)
	$(call say,GEN,$@)sed -e 's|@libs@|$(abspath $(BUILD))/lib|' -e 's|@modules@|$(CURDIR)/tools/mooncake|' \
		-e 's|@python@|$(abspath $(BUILD))/mooncake-venv/bin/python|' $< > $@ && chmod 755 $@
$(BUILD)/mooncake-venv/installed: tools/mooncake/requirements.txt tools/mooncake/venv.sh
	$(call say,VENV,$@)tools/mooncake/venv.sh $(@D) && touch $@
mooncake: all $(MOONCAKE) ## strait-mooncake, the gateway to Mooncake stores (its wheel comes from PyPI)

demo-mooncake: ## two Mooncake stores, one emulated WAN: what is put at one is read at the other (root)
	$(Q)tools/dev/deps.sh build mooncake
	$(submake) mooncake
	$(Q)$(BUILD)/mooncake-venv/bin/python tools/mooncake/demo.py --build $(BUILD) $(MOONCAKE_ARGS)

check-mooncake: ## what may fail between two real Mooncake stores, up to five minutes
	$(Q)tools/dev/deps.sh build mooncake
	$(submake) mooncake mooncake-lint
	$(Q)BUILD=$(BUILD) tools/dev/run_tests.py -t 280 $(T:%=--only %) -- \
		$(sort $(wildcard tests/mooncake/*_test.py))

bench-mooncake: ## beside Mooncake's own reads across the same emulated WAN (root)
	$(Q)tools/dev/deps.sh build mooncake
	$(submake) mooncake
	$(Q)$(BUILD)/mooncake-venv/bin/python tools/mooncake/side_by_side.py --build $(BUILD) $(MOONCAKE_ARGS)

mooncake-lint: ## ruff and mypy of the gateway; the two come from PyPI
	$(Q)BUILD=$(BUILD) tools/mooncake/lint.sh

bench-control: $(BUILD)/bin/strait-bench $(BUILD)/bin/strait-master ## a master of 16 sites, 10,000 clients: restart with 50 M keys, 100,000 events/s (two minutes)
	$(Q)$< control --seconds 10 --runs 3

# Programs around other transports' libraries; nothing of Strait is linked with them.
PEERS := $(BUILD)/peers/norm_copy $(BUILD)/peers/udt_copy
$(BUILD)/peers/norm_copy: PEER_LIBS := -lnorm
$(BUILD)/peers/udt_copy: PEER_LIBS := -ludt -lpthread
$(BUILD)/peers/%: tools/peers/%.cc
	@mkdir -p $(@D)
	$(call say,CXX,$<)g++ -O2 -Wall -Wextra -Werror -o $@ $< $(PEER_LIBS)
peers: $(PEERS)

bench-peers: ## beside TCP, UDT, SRT, UFTP, NORM, rsync over the emulated WAN, as root (an hour and a half)
	$(Q)tools/dev/deps.sh build peers
	$(submake) all peers
	$(Q)BUILD=$(BUILD) tools/peers/bench_peers.py $(PEERS_ARGS)

mutants: ## disable each guard in a copy of the tree: a test must notice
	$(Q)tests/mutants/run.sh $(T)

e2e: all $(HELPERS) ## real processes over memif, af_packet and strait-wan
	$(Q)BUILD=$(BUILD) tools/dev/run_tests.py -t 300 $(T:%=--only %) -- \
		$(sort $(wildcard tests/e2e/*_test.sh)) $(sort $(wildcard tests/wan/*_test.sh))

# Distribution's Python: scapy comes from there.
dts: ## packet by packet against real edges, as root (DTS_ARGS="--test-suite smoke_tests")
	$(Q)tools/dev/deps.sh build dts
	$(submake) all
	$(submake) dts-lint
	$(Q)cd dts && BUILD=$(abspath $(BUILD)) /usr/bin/python3 -B -m unittest -q tests_unit.test_harness \
		$(if $(findstring --test-suite,$(DTS_ARGS)),,tests_unit.test_cleanup)
	$(Q)/usr/bin/python3 dts/main.py --build-dir $(BUILD) --output-dir $(BUILD)/dts $(DTS_ARGS)

dts-lint: ## ruff, mypy and docstrings of the packet harness; the two come from PyPI
	$(Q)tools/dev/deps.sh dts
	$(Q)BUILD=$(BUILD) dts/tools/lint.sh

dts-mutants: ## break the wire format in a copy of the tree: a case of make dts must notice (root)
	$(Q)tools/dev/deps.sh build dts
	$(submake) all
	$(Q)BUILD=$(BUILD) dts/tools/mutants.sh $(T)

# clang's libFuzzer, in a build of its own.
FUZZ_SECONDS ?= 10
FUZZERS := $(patsubst %.c,$(BUILD)/test/%,$(wildcard tests/fuzz/*_fuzz.c))
fuzz: ## fuzz what reads packets and files, FUZZ_SECONDS=10 each
	$(submake) fuzzers CC=clang-14 SAN=fuzz BUILD=build-fuzz
	$(Q)FUZZ_SECONDS=$(FUZZ_SECONDS) tools/dev/run_fuzz.sh build-fuzz
fuzzers: $(FUZZERS)

# Objects that run per packet, for the symbol check of lint.
PACKET_PATH := $(shell sed -n 's/[[:space:]]*\#.*//; s/\.c$$/.o/p' tools/dev/packet-path.txt 2>/dev/null)
lint: $(PACKET_PATH:%=$(BUILD)/obj/%) ## format, spelling, layering and other rules; proves each can fail
	$(Q)tools/dev/lint_selftest.sh
	$(Q)tools/dev/lint.py $(PACKET_PATH:%=--packet-path $(BUILD)/obj/%)

check-commits: ## titles and bodies of the commits after BASE (origin/main)
	$(Q)tools/dev/check-commits.sh $(or $(BASE),$(RANGE),origin/main)

format: ## clang-format every C file in place
	$(Q)git ls-files '*.c' '*.h' | xargs -r clang-format-14 -i

asan: ## all and the unit tests, with sanitizers
	$(submake) all unit SAN=1

deps: ## install the Debian packages that are missing
	$(Q)tools/dev/deps.sh build test

install: all ## DESTDIR and prefix as usual
	install -d $(DESTDIR)$(prefix)/bin $(DESTDIR)$(libdir)/pkgconfig $(DESTDIR)$(prefix)/include/strait
	install -m 755 $(PROGRAMS) $(DESTDIR)$(prefix)/bin
	install -m 644 $(wildcard include/strait/*.h) $(DESTDIR)$(prefix)/include/strait
	install -m 644 $(LIBSTRAIT) $(DESTDIR)$(libdir)
	ln -sf $(notdir $(LIBSTRAIT)) $(DESTDIR)$(libdir)/libstrait.so
	sed -e 's|@prefix@|$(prefix)|; s|@libdir@|$(libdir)|; s|@version@|$(VERSION)|' \
		tools/dev/strait.pc.in > $(DESTDIR)$(libdir)/pkgconfig/strait.pc
	install -d $(DESTDIR)$(libdir)/strait/strait_mooncake
	install -m 644 $(wildcard tools/mooncake/strait_mooncake/*.py) $(DESTDIR)$(libdir)/strait/strait_mooncake
	sed -e 's|@libs@|$(libdir)|; s|@modules@|$(libdir)/strait|; s|@python@|python3|' \
		tools/mooncake/strait-mooncake.in > $(DESTDIR)$(prefix)/bin/strait-mooncake
	chmod 755 $(DESTDIR)$(prefix)/bin/strait-mooncake
	install -m 644 -D tools/wireshark/strait.lua $(DESTDIR)$(libdir)/wireshark/plugins/strait.lua
	for page in $(wildcard doc/man/*.[1-8]); do install -m 644 -D $$page \
		$(DESTDIR)$(prefix)/share/man/man$${page##*.}/$${page##*/} || exit 1; done

deb: ## Debian packages of what is committed, into build/deb/
	$(Q)tools/dev/deps.sh build package
	$(Q)BUILD=$(BUILD) tools/dev/deb.sh

clean: ## remove what was built
	rm -rf build build-asan build-fuzz $(BUILD)

help: ## this list
	@sed -n 's/^\([a-z0-9-]*\):[^#]*## \(.*\)/  \1\t\2/p' Makefile | expand -t 16

.PHONY: mooncake demo-mooncake check-mooncake bench-mooncake mooncake-lint all demo check unit sim-check soak soak-memory sim-report bench bench-control peers bench-peers mutants e2e dts dts-lint dts-mutants fuzz fuzzers lint check-commits \
	format asan deps install deb clean help FORCE

# ---- rules ----------------------------------------------------------------------------------------

# Rewritten only when compiler or flags differ from last time; then everything is rebuilt.
FLAGS_NOW = $(CC) $(WARN) $(STRAIT_CFLAGS) $(STRAIT_LDFLAGS)
$(BUILD)/flags: FORCE
	@mkdir -p $(@D); echo '$(FLAGS_NOW)' | cmp -s - $@ || echo '$(FLAGS_NOW)' > $@

# Per directory: position-independent for libstrait.so, DPDK where it is allowed.
$(BUILD)/%.o: PIC := -fPIE
$(foreach d,$(PIC_DIRS),$(eval $(BUILD)/obj/$d/%.o: PIC := -fPIC -fno-semantic-interposition))
$(foreach d,$(DPDK_DIRS),$(eval $(BUILD)/obj/$d/%.o: DIR_CFLAGS = $$(DPDK_CFLAGS)))

COMPILE = $(CC) $(STRAIT_CFLAGS) $(PIC) $(INCLUDES) $(EXT_CFLAGS) $(DIR_CFLAGS) -MD -MP -c -o $@ $<

$(BUILD)/obj/%.o: %.c $(BUILD)/flags | $(GEN_H)
	@mkdir -p $(@D)
	$(call say,CC,$<)$(COMPILE) $(WARN)

$(BUILD)/gen/%.pb-c.o: $(BUILD)/gen/%.pb-c.c $(BUILD)/flags
	$(call say,CC,$<)$(COMPILE) -I$(BUILD)/gen -w

$(BUILD)/gen/%.pb-c.c $(BUILD)/gen/%.pb-c.h: %.proto
	@mkdir -p $(@D)
	$(call say,PROTO,$<)protoc-c --c_out=$(BUILD)/gen $<

# Moved into place whole, so that two makes in one tree never see half an archive.
$(BUILD)/lib/%.a:
	@mkdir -p $(@D)
	$(call say,AR,$@)rm -f $@.$$$$ && $(AR) rcs $@.$$$$ $(filter %.o,$^) && mv $@.$$$$ $@

$(LIBSTRAIT): $(filter %/libstrait.a %/libclient.a %/libfec.a %/libbase.a %/libindex.a,$(ARCHIVES)) tools/dev/libstrait.map
	$(call say,LD,$@)$(CC) -shared -o $@ $(STRAIT_LDFLAGS) -Wl,-soname,$(@F) $(if $(SAN),,-Wl,-z,defs) \
		-Wl,--version-script=tools/dev/libstrait.map -Wl,--whole-archive $(filter %/libstrait.a %/libclient.a,$^) \
		-Wl,--no-whole-archive $(filter %.a,$(filter-out %/libstrait.a %/libclient.a,$^)) \
		$(call once,ISAL_LIBS,pkg-config --libs libisal) -lpthread
	@ln -sf $(@F) $(@D)/libstrait.so

# Archives refer to each other, so they are linked as one group; --as-needed keeps every program
# free of the shared libraries it does not use.
LINK = $(CC) $(STRAIT_CFLAGS) -pie -o $@ $(STRAIT_LDFLAGS) $(filter %.o,$^) \
	-Wl,--start-group $(filter %.a,$^) -Wl,--end-group $(DIR_LIBS) $(EXT_LIBS) -lpthread -lm

NEEDS_DPDK := $(if $(wildcard dataplane/edge/main.c),$(BUILD)/bin/strait-edge) \
	$(DPDK_TOOLS:%=$(BUILD)/bin/strait-%) $(filter $(BUILD)/test/wan/%,$(HELPERS)) \
	$(foreach d,$(DPDK_DIRS),$(filter $(BUILD)/test/$d/%,$(TESTS)))
$(NEEDS_DPDK): DIR_LIBS = $(DPDK_LIBS)
$(filter $(NEEDS_DPDK),$(PROGRAMS) $(TESTS) $(HELPERS)): $(DPDK_ARCHIVES)

# Of DPDK only what it compares with: rte_hash, and memif's driver alone.
$(BUILD)/obj/tools/bench/edge_floor.o: DIR_CFLAGS = $(DPDK_CFLAGS)
$(BUILD)/bin/strait-bench: DIR_LIBS = $(DPDK_LIBS)
$(BUILD)/bin/strait-bench: $(BUILD)/lib/librtehash.a $(DPDK_ARCHIVES)

$(PROGRAMS): $(ARCHIVES)
	@mkdir -p $(@D)
	$(call say,LD,$@)$(LINK)

$(TESTS): $(BUILD)/test/%: $(BUILD)/obj/%.o $(ARCHIVES)
	@mkdir -p $(@D)
	$(call say,LD,$@)$(LINK) $(CMOCKA_LIBS)

$(HELPERS): $(BUILD)/test/%: $(BUILD)/obj/tests/%.o $(ARCHIVES)
	@mkdir -p $(@D)
	$(call say,LD,$@)$(LINK)

$(FUZZERS): $(BUILD)/test/%: $(BUILD)/obj/%.o $(ARCHIVES)
	@mkdir -p $(@D)
	$(call say,LD,$@)$(LINK) -fsanitize=fuzzer

-include $(shell find $(BUILD)/obj $(BUILD)/gen -name '*.d' 2>/dev/null)
