#!/usr/bin/env bash
# Unpacks Debian's packages of another processor, and all that they need, into a folder:
#     sysroot.sh ARCHITECTURE FOLDER PACKAGE...      (arm64, for example)
#
# SUITE=trixie takes them from another release than this computer's, on the same mirror: riscv64 begins with that one.
#
# apt works with a state of its own in that folder: the packages of this computer are neither looked at nor changed, and
# nothing of what is unpacked is run. No root needed.
set -euo pipefail
architecture="$1" folder="$(mkdir -p "$2" && cd "$2" && pwd)"
shift 2

state="$folder/.apt"
if [[ "$(cat "$state/done" 2>/dev/null)" == "$*" ]]; then
    exit 0
fi
mkdir -p "$state"/{lists/partial,archives/partial,dpkg}
: >"$state/dpkg/status"
sources=()
if [[ -n "${SUITE:-}" ]]; then
    mirror="$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Origin: Debian' | head -n 1)"
    printf 'deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] %s %s main\n' "$mirror" "$SUITE" >"$state/sources.list"
    sources=(-o "Dir::Etc::SourceList=$state/sources.list" -o Dir::Etc::SourceParts=/dev/null)
fi
apt=(apt-get -q -q -y -o "APT::Architecture=$architecture" -o "APT::Architectures::=$architecture"
    -o "Dir::State=$state" -o "Dir::State::Lists=$state/lists" -o "Dir::State::status=$state/dpkg/status"
    -o "Dir::Cache=$state" -o "Dir::Cache::archives=$state/archives" -o APT::Install-Recommends=false
    -o "APT::Sandbox::User=$(id -un)" -o Debug::NoLocking=true "${sources[@]}")
"${apt[@]}" update
"${apt[@]}" --download-only install "$@"
for package in "$state"/archives/*.deb; do
    dpkg-deb --extract "$package" "$folder"
done
rm -f "$state"/archives/*.deb
# Where /lib is /usr/lib, a package says so that only an installer would unpack.
for name in bin lib sbin; do
    [[ -e "$folder/$name" || ! -d "$folder/usr/$name" ]] || ln -s "usr/$name" "$folder/$name"
done
# Absolute links lead into the folder, not to this computer.
find "$folder" -path "$state" -prune -o -type l -lname '/*' -print0 | while IFS= read -r -d '' link; do
    ln -sfn --relative "$folder$(readlink "$link")" "$link"
done
printf '%s\n' "$*" >"$state/done"
