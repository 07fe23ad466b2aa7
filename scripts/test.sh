#!/usr/bin/env bash
# Runs parts of the tests, all of them even when one fails, and then says in one line how many tests have passed and
# failed, after the names of those that failed, and how long each part has taken: scripts/test.sh STEP...
#
# A step is a part, or lanes of parts that run side by side, for parts that measure nothing: 'PART... | PART...'. A part
# is a target of the Makefile. What it prints stays in target/test/PART.log; there cargo says "test result: ok. 3
# passed; 0 failed" for each program, the figures say how many agree, and every other part "3 passed, 0 failed".
#
# A part that lacks something says "left out: ..." and goes on; with NARROWS_NOTHING_LEFT_OUT=1, as in CI, it has
# failed.
#
#   scripts/test.sh test-portals test-otf2
#   scripts/test.sh 'lint test-rust | miri fuzz' test-programs
set -uo pipefail
cd "$(dirname "$0")/.."
logs=target/test
mkdir -p "$logs"

# Each part has a folder of its own for temporary files, so that nothing of one is found by another one. Short, for
# launchers put sockets there, and below /tmp by another name than those that tests look for.
scratch=$(mktemp -d "${TMPDIR:-/tmp}/nt.XXXXXX")
trap 'rm -rf "$scratch"' EXIT

# Runs a part, and leaves PART.log and PART.result, the code and the seconds. In a lane beside others its output comes
# when it is over, in one piece; and shells ignore SIGINT in what they start in the background, which tests send.
run() {
    local part=$1 beside=$2 begun=$SECONDS code
    mkdir -p "$scratch/$part"
    local command=(env --default-signal=INT --default-signal=QUIT TMPDIR="$scratch/$part" make --no-print-directory --keep-going "$part")
    if ((beside)); then
        "${command[@]}" >"$logs/$part.log" 2>&1
        code=$?
        flock "$logs" cat "$logs/$part.log"
    else
        "${command[@]}" 2>&1 | tee "$logs/$part.log"
        code=${PIPESTATUS[0]}
    fi
    echo "$code $((SECONDS - begun))" >"$logs/$part.result"
}

trap 'trap - INT; kill -INT 0' INT
parts=()
for step in "$@"; do
    IFS='|' read -ra lanes <<<"$step"
    for lane in "${lanes[@]}"; do
        # shellcheck disable=SC2206
        words=($lane)
        parts+=("${words[@]}")
        (cd "$logs" && rm -f "${words[@]/%/.result}")
        if ((${#lanes[@]} == 1)); then
            for part in "${words[@]}"; do run "$part" 0; done
        else
            for part in "${words[@]}"; do run "$part" 1; done &
        fi
    done
    wait
done

passed=0 failed=0 names=() times=()
for part in "${parts[@]}"; do
    log=$logs/$part.log
    read -r code seconds <"$logs/$part.result" || code=1 seconds=0
    read -r good bad < <(awk '
        /^test result: / { for (i = 2; i <= NF; i++) { if ($i ~ /^passed/) good += $(i - 1); if ($i ~ /^failed/) bad += $(i - 1) } }
        /^[0-9]+ passed, [0-9]+ failed$/ { good += $1; bad += $3 }
        /^[0-9]+ agree .* [0-9]+ unexpected$/ { good += $1 + $11 + $15; bad += $19 }
        END { print good + 0, bad + 0 }' "$log")
    # A test of cargo: "test NAME ... FAILED"; of the others: "FAIL  NAME".
    named=${#names[@]}
    while IFS= read -r name; do
        names+=("$part: $name")
    done < <(sed -nE 's/^test (.*) \.\.\. FAILED$/\1/p; s/^FAIL +//p' "$log")
    # It did not come to an end, was not built, or names nothing.
    if [ "$code" -ne 0 ] && [ "${#names[@]}" -eq "$named" ]; then
        names+=("$part: ended with code $code, $bad failed: $log")
        bad=$((bad > 0 ? bad : 1))
    fi
    if [ -n "${NARROWS_NOTHING_LEFT_OUT:-}" ]; then
        while IFS= read -r line; do
            names+=("$part: $line")
            bad=$((bad + 1))
        done < <(grep -E '^left out: |[0-9]+ skipped' "$log")
    fi
    passed=$((passed + good)) failed=$((failed + bad))
    times+=("$part $seconds s")
done

printf '\ntimes:\n'
printf '  %s\n' "${times[@]}"
if [ "$failed" -ne 0 ]; then
    printf '\nfailed:\n'
    printf '  %s\n' "${names[@]}"
fi
printf '\nall parts: %d passed, %d failed\n' "$passed" "$failed"
[ "$failed" -eq 0 ]
