#!/usr/bin/env bash
# Makes the texts beside this file: each instruction that compilers make of snippet.c, in bytes and in words, at most
# twice with the same name.
set -euo pipefail
cd "$(dirname "$0")"
object="$(mktemp)"
for architecture in aarch64 riscv64 x86_64; do
    options=(-O3 -ffast-math)
    [[ $architecture != x86_64 ]] || options+=(-mfma)
    [[ $architecture != aarch64 ]] || options+=(-mno-outline-atomics)
    "$architecture-linux-gnu-gcc" "${options[@]}" -c snippet.c -o "$object"
    "$architecture-linux-gnu-objdump" -d -w --no-show-raw-insn "$object" >/dev/null
    "$architecture-linux-gnu-objdump" -d -w "$object" | awk -F'\t' -v x86="$architecture" '
        NF >= 3 {
            bytes = $2; gsub(/ +$/, "", bytes)
            text = $3; for (at = 4; at <= NF; at++) text = text " " $at
            sub(/ *(#|\/\/|<).*/, "", text); sub(/ +$/, "", text)
            split(text, words, " "); name = words[1]
            kind = name (text ~ /[\[(]/ ? "memory" : "")
            if (seen[kind]++ < 2) print bytes "\t" text
        }' >"$architecture.txt"
done
rm "$object"
