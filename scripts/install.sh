#!/usr/bin/env bash
# Installs what `make build` has made: install.sh DESTDIR PREFIX. Everything lies below DESTDIR/PREFIX, and finds itself
# there when the tree is moved as a whole.
set -euo pipefail
cd "$(dirname "$0")/.."
prefix="$2"
root="$1$2"
built="${CARGO_TARGET_DIR:-target}/release"

# Without what only a debugger wants: names that a dynamic linker or a backtrace wants stay.
binary() {
    install -D -m "$3" "$1" "$2"
    strip --strip-debug "$2"
}

binary "$built/narrows" "$root/bin/narrows" 755
for library in portals narrows_fi narrows_preload narrows_recorder narrows_launcher narrows_cycles_plugin; do
    # libfabric looks for *-fi.so, and the others follow it.
    binary "$built/lib$library.so" "$root/lib/narrows/lib${library//_/-}.so" 644
done
# What enters programs of other processors, where `make foreign` has made it.
for folder in "$built"/lib/aarch64 "$built"/lib/riscv64; do
    [[ -d "$folder" ]] || continue
    for library in "$folder"/*.so; do
        install -D -m 644 "$library" "$root/lib/narrows/${folder##*/}/${library##*/}"
    done
done
install -D -m 644 capi/portals4/include/portals4.h "$root/include/portals4.h"
install -D -m 644 capi/portals4/include/narrows/gsas.h "$root/include/narrows/gsas.h"
install -D -m 644 capi/portals4/include/narrows/handlers.h "$root/include/narrows/handlers.h"
install -d "$root/lib/pkgconfig" "$root/share/narrows" "$root/share/man/man1"
sed -e "s|@PREFIX@|$prefix|" -e 's|^libdir=.*|libdir=${prefix}/lib/narrows|' capi/portals4/portals4.pc.in >"$root/lib/pkgconfig/portals4.pc"
cp -r figures "$root/share/narrows/"
"$built/narrows" man "$root/share/man/man1" >/dev/null
shell() {
    install -d "$(dirname "$root/share/$2")"
    "$built/narrows" completions "$1" >"$root/share/$2"
}
shell bash bash-completion/completions/narrows
shell zsh zsh/site-functions/_narrows
shell fish fish/vendor_completions.d/narrows.fish
