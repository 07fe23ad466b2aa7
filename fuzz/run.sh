#!/usr/bin/env bash
# Builds the fuzz targets and runs each from its corpus: run.sh [TIMES [TARGET...]]; TIMES (1) multiplies the short run
# of CI
#
# Needs the stable compiler and g++ (libFuzzer is C++). The same runs every time: the seed is fixed. A target that finds
# something prints the file with the input that crashes it, target/fuzz/TARGET/crash-*. For longer hunts: run.sh 1000
# TARGET; what it learns stays in target/fuzz/TARGET/new.
set -euo pipefail
cd "$(dirname "$0")"
times="${1:-1}"
shift || true
targets=("$@")
((${#targets[@]})) || targets=(records commands machine program phy chakra spin topology)
# Some ten seconds each.
declare -A runs=([records]=1000000 [commands]=50000 [machine]=10000 [program]=1000000 [phy]=7000 [chakra]=100000 [spin]=20000 [topology]=50000)

# Coverage as libFuzzer reads it: counters and a table per edge, and the operands of comparisons.
llvm=(level=4 inline-8bit-counters pc-table trace-compares)
RUSTFLAGS="--cfg fuzzing -Cpasses=sancov-module ${llvm[*]/#/-Cllvm-args=-sanitizer-coverage-} -Ccodegen-units=1"
host="$(rustc -vV | sed -n 's/^host: //p')"
# With --target the instrumentation stays away from build scripts and procedural macros.
RUSTFLAGS="$RUSTFLAGS" cargo build --quiet --release --target "$host" --target-dir ../target/fuzz

for target in "${targets[@]}"; do
    [[ -n "${runs[$target]:-}" ]] || { echo "fuzz: no target $target; there are ${!runs[*]}" >&2; exit 2; }
    count=$((times * runs[$target]))
    found="../target/fuzz/$target"
    mkdir -p "$found/new"
    seeds=("corpus/$target")
    [[ "$target" != machine ]] || seeds=(../machines)
    echo "fuzz: $target, $count runs"
    log="$found/log"
    # New inputs go to the first folder; the seeds in the tree are only read.
    if ! "../target/fuzz/$host/release/$target" -seed=1 -runs="$count" -max_len=4096 -timeout=20 -rss_limit_mb=2048 \
        -artifact_prefix="$found/" "$found/new" "${seeds[@]}" >"$log" 2>&1; then
        tail -n 40 "$log" >&2
        exit 1
    fi
    grep -a '^Done' "$log"
done
