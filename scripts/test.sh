#!/usr/bin/env bash
# Runs parts of the tests, all of them even when one fails, and then says in one line how many tests have passed and
# failed, after the names of those that failed, and how long each part has taken: scripts/test.sh PART...
#
# A part is a target of the Makefile. What it prints stays in target/test/PART.log; there cargo says "test result: ok. 3
# passed; 0 failed" for each program, and every other part "3 passed, 0 failed".
#
#   scripts/test.sh test-portals test-otf2
set -uo pipefail
cd "$(dirname "$0")/.."
logs=target/test
mkdir -p "$logs"
passed=0 failed=0 names=() times=()

for part in "$@"; do
    log=$logs/$part.log begun=$SECONDS
    make --no-print-directory --keep-going "$part" 2>&1 | tee "$log"
    code=${PIPESTATUS[0]}
    read -r good bad < <(awk '
        /^test result: / { for (i = 2; i <= NF; i++) { if ($i ~ /^passed/) good += $(i - 1); if ($i ~ /^failed/) bad += $(i - 1) } }
        /^[0-9]+ passed, [0-9]+ failed$/ { good += $1; bad += $3 }
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
    passed=$((passed + good)) failed=$((failed + bad))
    times+=("$part $((SECONDS - begun)) s")
done

printf '\ntimes:\n'
printf '  %s\n' "${times[@]}"
if [ "$failed" -ne 0 ]; then
    printf '\nfailed:\n'
    printf '  %s\n' "${names[@]}"
fi
printf '\nall parts: %d passed, %d failed\n' "$passed" "$failed"
[ "$failed" -eq 0 ]
