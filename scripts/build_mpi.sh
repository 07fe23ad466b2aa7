#!/usr/bin/env bash
# Builds narrows with an MPI, over whose processes `narrows traffic` and `replay` spread: build_mpi.sh NAME MPICC
#
# The program is target/mpi-NAME/narrows. What does not depend on the MPI is built once, in target/mpi.
set -euo pipefail
cd "$(dirname "$0")/.."

name="$1"
mpicc="$(command -v "$2")" || { echo "build-mpi: no $2: make setup-mpi installs what is missing" >&2; exit 2; }
# As it is called, for wrappers know themselves by their name; from the root, for the bindings are built elsewhere.
MPICC="$(cd "$(dirname "$mpicc")" && pwd)/$(basename "$mpicc")"
export MPICC
# libclang without clang does not know where the compiler has its own headers.
BINDGEN_EXTRA_CLANG_ARGS="-I$(gcc -print-file-name=include) ${BINDGEN_EXTRA_CLANG_ARGS:-}"
export BINDGEN_EXTRA_CLANG_ARGS

cargo=("${CARGO:-cargo}") target=(--release --target-dir target/mpi)
# The bindings do not notice that MPICC is another one.
"${cargo[@]}" clean --quiet "${target[@]}" --package mpi-sys
folders=()
for word in $("$MPICC" -show); do
    case "$word" in -L*) folders+=(-C "link-arg=-Wl,-rpath,${word#-L}") ;; esac
done
"${cargo[@]}" rustc "${target[@]}" --package narrows --bin narrows --features mpi -- "${folders[@]}"
mkdir -p "target/mpi-$name"
cp target/mpi/release/narrows "target/mpi-$name/narrows"
