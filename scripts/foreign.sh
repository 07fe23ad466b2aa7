#!/usr/bin/env bash
# Builds the libraries that enter programs of other processors, beside those for this one, in
# target/release/lib/ARCHITECTURE.
#     foreign.sh [aarch64] [riscv64]
set -euo pipefail
cd "$(dirname "$0")/.."
target="${CARGO_TARGET_DIR:-target}"

for architecture in "$@"; do
    triple="${architecture/riscv64/riscv64gc}-unknown-linux-gnu"
    linker="CARGO_TARGET_$(tr 'a-z-' 'A-Z_' <<<"$triple")_LINKER"
    env "$linker=$architecture-linux-gnu-gcc" "${CARGO:-cargo}" build --release --target "$triple" \
        -p narrows-portals4 -p narrows-ofi-provider -p narrows-preload -p narrows-recorder
    folder="$target/release/lib/$architecture"
    mkdir -p "$folder"
    for library in portals narrows_fi narrows_preload narrows_recorder; do
        ln -sf "../../../$triple/release/lib$library.so" "$folder/lib${library//_/-}.so"
    done
done
