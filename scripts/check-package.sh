#!/bin/bash
# The Debian packages, and the first hour of a new user, in fresh Debian systems below a directory of their own:
#
#   build   the source package's build dependencies suffice; lintian finds no error
#   use     libweir-dev brings what programs need, and nothing stays behind when the packages are removed
#   clone   a clone on a bare Debian with git and make: make run answers within a minute, packages included, make install, and
#           the line that README.md says
#
# Needs root, mmdebstrap, lintian, and the mirror of this machine's apt.  Nothing is kept.  WEIR_PACKAGE_TESTS=yes also runs the unit
# tests inside of the package's build, as whoever builds the package does.
set -euo pipefail

FIRST_REPLY=${WEIR_FIRST_REPLY:-60} # seconds from the clone to the first reply; a machine that is busy with other things needs more
[ "$(id -u)" -eq 0 ] || { echo "$0: this needs root, for chroots" >&2; exit 1; }
# What it mounts, nobody else sees.
[ "${WEIR_MOUNTS:-}" = private ] || WEIR_MOUNTS=private exec unshare --mount "$0"

fail() {
        echo "check-package: $*" >&2
        exit 1
}

work=
end() {
        local mounted

        cd /
        [ -n "$work" ] || return 0
        while read -r mounted; do
                umount -l "$mounted"
        done < <(awk -v work="$work" '$2 == work || index($2, work "/") == 1 { print $2 }' /proc/self/mounts | sort -r)
        rm -rf --one-file-system "$work"
}
trap end EXIT
trap 'exit 130' INT TERM HUP

cd "$(dirname "$0")/.."
work=$(mktemp -d /var/tmp/weir-package.XXXXXX)
began=$SECONDS
jobs=$(nproc)
# In memory, where there is plenty.
available=$(sed -n 's/^MemAvailable: *\([0-9]*\) kB/\1/p' /proc/meminfo)
[ "${available:-0}" -lt 8000000 ] || mount -t tmpfs -o size=6g,mode=755 weir "$work"

say() {
        printf '%3d s  %s\n' $((SECONDS - began)) "$*"
}

# system NAME PACKAGE...: a fresh Debian with packages.  They are fetched once.
system() {
        local root=${work:?}/$1

        shift
        cp -a "$work/base" "$root"
        mount --bind "$work/archives" "$root/var/cache/apt/archives"
        mount -t proc proc "$root/proc"
        [ $# -eq 0 ] || in_system "$root" apt-get -qq install --yes --no-install-recommends "$@"
}

# What it says is shown if it fails.
in_system() {
        local root=$1

        shift
        env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive \
                ${http_proxy:+http_proxy="$http_proxy"} ${https_proxy:+https_proxy="$https_proxy"} \
                chroot "$root" "$@" >"$work/said" 2>&1 </dev/null || { tail -50 "$work/said" >&2; fail "in $(basename "$root"): $*"; }
}

sources=(/etc/apt/sources.list.d/debian.sources /etc/apt/sources.list)
[ -e "${sources[0]}" ] || sources=("${sources[1]}")
# shellcheck disable=SC1091
suite=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")
[ -n "$suite" ] || fail "/etc/os-release does not say which Debian this is"
[ -e "${sources[0]}" ] || fail "apt's sources are neither in debian.sources nor in sources.list"
mmdebstrap --quiet --variant=apt --skip=cleanup --dpkgopt=force-unsafe-io "$suite" "$work/base" "${sources[0]}" 2>"$work/said" || { cat "$work/said" >&2; fail "mmdebstrap"; }
cp /etc/resolv.conf /etc/hosts "$work/base/etc/"
printf '#!/bin/sh\nexit 101\n' >"$work/base/usr/sbin/policy-rc.d"
chmod +x "$work/base/usr/sbin/policy-rc.d"
mkdir -p "$work/archives/partial"
mkdir "$work/tree"
git ls-files --cached --others --exclude-standard | tar -c -T - | tar -x -C "$work/tree"
say "a base system"

# The same tests run in `make check`, which precedes this in .ci/run.
nocheck=nocheck
[ "${WEIR_PACKAGE_TESTS:-no}" != yes ] || nocheck=
system build build-essential
cp -r "$work/tree" "$work/build/srv/weir"
in_system "$work/build" apt-get -qq build-dep --yes --no-install-recommends /srv/weir
say "the build dependencies"
in_system "$work/build" chown -R nobody /srv
in_system "$work/build" setpriv --reuid=nobody --regid=nogroup --clear-groups \
        env HOME=/nonexistent DEB_BUILD_OPTIONS="$nocheck parallel=$jobs" sh -c 'cd /srv/weir && dpkg-buildpackage -us -uc'
mkdir "$work/packages"
cp "$work"/build/srv/*.* "$work/packages"
say "the packages: $(cd "$work/packages" && echo *.deb)"
lintian --fail-on error --allow-root "$work"/packages/*.changes || fail "lintian finds errors"
say "lintian"

cat >"$work/program.c" <<'END'
#include <stdio.h>
#include <weir/weir.h>

int
main(void)
{
        puts(weir_version());
        return weir_task_run(weir_timer_new(WEIR_MSEC(1), NULL, NULL));
}
END
line=$(grep -E '^ *cc .*pkg-config' README.md | head -1 || true)
[ -n "$line" ] || fail "README.md does not say how to compile a program"
name=$(grep -oE '[a-z0-9_-]+\.c\b' <<<"$line" | head -1 || true)
[ -n "$name" ] || fail "this line of README.md compiles no program: $line"

system use gcc libc6-dev pkg-config cmake make
mkdir "$work/use/srv/debs"
cp "$work"/packages/*.deb "$work/use/srv/debs"
rm "$work"/use/srv/debs/*-dbgsym_*
in_system "$work/use" sh -c 'apt-get -qq install --yes --no-install-recommends /srv/debs/*.deb'
cp "$work/program.c" "$work/use/srv/$name"
in_system "$work/use" sh -euc "cd /srv; $line; ./a.out"
cat >"$work/use/srv/CMakeLists.txt" <<END
cmake_minimum_required(VERSION 3.22)
project(outside C)
find_package(weir 0.1 REQUIRED)
foreach(library weir static)
        add_executable(with_\${library} $name)
        target_link_libraries(with_\${library} PRIVATE weir::\${library})
endforeach()
END
in_system "$work/use" sh -euc 'cd /srv; cmake -B out .; cmake --build out; out/with_weir; out/with_static'
in_system "$work/use" sh -euc "cd /srv; cc -static $name -o all_static \$(pkg-config --cflags --libs --static weir); ./all_static"
# Each library beside libweir has a package, and a program is linked with all of them.
printf '#include <weir/weir.h>\n' >"$work/use/srv/all.c"
addons=
while read -r addon _; do
        printf '#include <weir/%s.h>\n' "$addon" >>"$work/use/srv/all.c"
        addons+=" weir-$addon"
done < <(scripts/addons.sh)
printf 'int\nmain(void)\n{\n        return weir_shutdown();\n}\n' >>"$work/use/srv/all.c"
in_system "$work/use" sh -euc "cd /srv; cc all.c -o all -Wl,--no-as-needed \$(pkg-config --cflags --libs weir$addons); ./all"
in_system "$work/use" sh -euc 'apt-get -qq purge --yes "libweir*"
        ! find /usr /etc /var -path /var/cache -prune -o -name "*weir*" -print | grep .'
say "programs with the packages, and their removal"

system clone git make ca-certificates
git -c init.defaultBranch=main init --quiet "$work/tree"
git -C "$work/tree" add --all
git -C "$work/tree" -c user.name=weir -c user.email=weir@weir.invalid commit --quiet --message "A clone"
cp -r "$work/tree" "$work/clone/srv/origin"
cat >"$work/clone/srv/first.sh" <<'END'
limit=$1 server=
trap '[ -z "$server" ] || kill "$server" 2>/dev/null || true' EXIT
began=$SECONDS
git -c safe.directory='*' clone --quiet /srv/origin /srv/weir
cd /srv/weir
make run ADDRESS=unix:/srv/first >/srv/run.txt 2>&1 &
server=$!
until [ -S /srv/first ]; do
        kill -0 "$server" || { cat /srv/run.txt; exit 1; }
        [ $((SECONDS - began)) -lt $((10 * limit)) ] || { cat /srv/run.txt; echo "no server"; exit 1; }
        sleep 0.1
done
perl -MIO::Socket::UNIX -e '
        my $client = IO::Socket::UNIX->new("/srv/first") or die $!;
        print $client "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
        my $reply = join "", <$client>;
        $reply =~ /^HTTP\/1\.1 200 .*hello/s or die $reply'
took=$((SECONDS - began))
echo "$took" >/srv/took.txt
kill "$server"
wait "$server" || true
server=
[ "$took" -le "$limit" ] || { echo "the first reply came $took s after the clone, not within $limit s"; exit 1; }
END
in_system "$work/clone" bash -eu /srv/first.sh "$FIRST_REPLY"
say "the first reply, $(<"$work/clone/srv/took.txt") s after the clone"
cp "$work/program.c" "$work/clone/srv/$name"
in_system "$work/clone" sh -euc "cd /srv/weir; make install; cd /srv; $line; ./a.out"
say "make install, and a program by the line of README.md"
