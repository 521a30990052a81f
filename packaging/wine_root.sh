#!/bin/sh
# Make a folder with a 32-bit Debian, Wine and Inno Setup's compiler in it, in which installer_check.py compiles and
# runs the Windows installer. Apart from this machine, because 32-bit Wine and 64-bit packages exclude each other easily.
#
#   packaging/wine_root.sh DIR      as root; takes some minutes and 2 GB, and does what is missing only
#
# Packages come by this machine's own apt settings, the compiler by its own npm settings.
set -eu
[ $# = 1 ] || { echo "packaging/wine_root.sh DIR" >&2; exit 2; }
for tool in debootstrap npm unshare; do
    command -v $tool > /dev/null || { echo "$tool is missing: apt-get install debootstrap npm util-linux" >&2; exit 1; }
done
[ "$(id -u)" = 0 ] || { echo "this needs root: it makes a system of its own in $1" >&2; exit 1; }
# In mounts of its own, which are gone when it ends, however that is: nobody who removes DIR meets a mounted /proc.
[ "${IN_OWN_MOUNTS:-}" ] || IN_OWN_MOUNTS=1 exec unshare --mount "$0" "$@"
dir=$(realpath -m "$1")
suite=${SUITE:-bookworm}

if [ ! -e "$dir/root.done" ]; then
    # Emptied is only what an earlier try of this left, never what a slip of the keyboard named.
    if [ -e "$dir" ] && [ ! -e "$dir/unfinished" ] && ! rmdir "$dir" 2> /dev/null; then
        echo "$dir holds something else: name a folder that does not exist yet" >&2
        exit 1
    fi
    rm -rf --one-file-system "$dir"
    mkdir -p "$dir"
    : > "$dir/unfinished"
    debootstrap --arch=i386 --variant=minbase "$suite" "$dir"
    : > "$dir/root.done"
    rm "$dir/unfinished"
fi
if [ ! -e "$dir/wine.done" ]; then
    cp /etc/resolv.conf "$dir/etc/"
    cp -r /etc/apt/apt.conf.d "$dir/etc/apt/"
    # What is needed to reach a mirror that only this machine's certificates vouch for.
    mkdir -p "$dir/etc/ssl/certs"
    cp /etc/ssl/certs/ca-certificates.crt "$dir/etc/ssl/certs/" 2> /dev/null || :
    mkdir -p "$dir/proc" "$dir/tmp"
    mount -t proc proc "$dir/proc"
    mount -t tmpfs tmpfs "$dir/tmp"
    chroot "$dir" sh -c 'apt-get update -q && DEBIAN_FRONTEND=noninteractive \
        apt-get install -y -q --no-install-recommends wine wine32 xvfb xauth'
    : > "$dir/wine.done"
fi
if [ ! -e "$dir/inno.done" ]; then
    mkdir -p "$dir/w/npm" "$dir/home/w"
    npm install --silent --no-audit --no-fund --ignore-scripts --prefix "$dir/w/npm" innosetup@6.4.1 > /dev/null
    rm -rf "$dir/w/inno"
    cp -r "$dir/w/npm/node_modules/innosetup/bin" "$dir/w/inno"
    : > "$dir/inno.done"
fi
echo "$dir is ready"
