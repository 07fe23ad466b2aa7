#!/usr/bin/env bash
# A Debian package of what `make build` has made: target/narrows_VERSION_ARCHITECTURE.deb.
set -euo pipefail
cd "$(dirname "$0")/.."
root=target/deb
version="$(target/release/narrows --version | cut -d' ' -f2)"
architecture="$(dpkg --print-architecture)"
package="target/narrows_${version}_$architecture.deb"

rm -rf "$root"
scripts/install.sh "$root" /usr
# A package is for one processor.
rm -rf "$root"/usr/lib/narrows/{aarch64,riscv64}
find "$root/usr/share/man" -name '*.1' -exec gzip -9 -n {} +
document="$root/usr/share/doc/narrows"
install -D -m 644 README.md "$document/README.md"
gzip -9 -n -c CHANGELOG.md >"$document/changelog.gz"
printf 'Files: *\nLicense: Apache-2.0\n The text is in /usr/share/common-licenses/Apache-2.0.\n' >"$document/copyright"

# The newest symbol of the C library that is needed says which one that must be.
glibc="$(find "$root/usr" -type f \( -name '*.so' -o -name narrows -perm -u+x \) -exec objdump -T {} + |
    grep -o 'GLIBC_[0-9.]*' | sed 's/GLIBC_//' | sort -uV | tail -n 1)"
mkdir "$root/DEBIAN"
cat >"$root/DEBIAN/control" <<END
Package: narrows
Version: $version
Architecture: $architecture
Maintainer: The Narrows authors <narrows@localhost>
Section: science
Priority: optional
Depends: libc6 (>= $glibc), libgcc-s1
Recommends: libfabric1
Suggests: openmpi-bin, python3
Installed-Size: $(du -sk "$root/usr" | cut -f1)
Description: MPI programs on a simulated machine
 Runs stock MPI binaries, traces and synthetic traffic on simulated hosts, PCIe,
 NICs with Portals 4 semantics, switches and links.
END
(cd "$root" && find usr -type f -print0 | LC_ALL=C sort -z | xargs -0 md5sum >DEBIAN/md5sums)
dpkg-deb --root-owner-group --build "$root" "$package" >/dev/null
rm -rf "$root"
(cd target && sha256sum "${package##*/}" >"${package##*/}.sha256")
echo "$package"
