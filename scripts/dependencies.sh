#!/bin/bash
# Installs what is missing of the Debian packages that a job needs, and says so.  Does nothing, in a few milliseconds and without
# the network, when everything is there.
#
#   scripts/dependencies.sh build|check|clang|model|fuzz|format|peers|cost ...
#
# WEIR_INSTALL=no only tells the command.
set -u

missing=()

package() {
        local name=$1 probe=$2 operand=${3:-}

        "$probe" "$operand" || missing+=("$name")
}

has_command() {
        command -v "$1" >/dev/null
}

has_header() {
        [ -e "/usr/include/$1" ] || [ -e "/usr/local/include/$1" ] ||
                echo "#include <$1>" | "${CC:-cc}" -E -x c - >/dev/null 2>&1
}

has_file() {
        [ -e "$1" ]
}

# The compiler that `c++` names, able to find its own library.
has_cxx() {
        has_command g++ && compgen -G "/usr/include/c++/*" >/dev/null
}

# clang says the bare name of what it does not have.
has_fuzzer() {
        has_command clang && [ -e "$(clang -print-file-name="libclang_rt.fuzzer-$(uname -m).a")" ]
}

probe_all() {
        local group

        missing=()
        for group in "$@"; do
                case $group in
                build)
                        package gcc has_command gcc
                        package libc6-dev has_header stdio.h
                        package cmake has_command cmake
                        package make has_command make
                        package pkg-config has_command pkg-config
                        package libssl-dev has_header openssl/ssl.h
                        package libhttp-parser-dev has_header http_parser.h
                        package zlib1g-dev has_header zlib.h
                        package libcunit1-dev has_header CUnit/Basic.h
                        ;;
                check)
                        package g++ has_cxx
                        package curl has_command curl
                        package python3 has_command python3
                        package wrk has_command wrk
                        package apache2-utils has_command ab
                        package nodejs has_command node
                        package nginx has_file /usr/sbin/nginx
                        package chromium has_command chromium
                        package tzdata has_file /usr/share/zoneinfo/Europe/Berlin
                        ;;
                clang) package clang has_command clang ;;
                model) package spin has_command spin ;;
                fuzz)
                        package clang has_command clang
                        package libclang-rt-dev has_fuzzer
                        ;;
                format) package clang-format has_command clang-format ;;
                cost)
                        package valgrind has_command valgrind
                        package valgrind has_header valgrind/callgrind.h
                        ;;
                peers)
                        package libuv1-dev has_header uv.h
                        package libevent-dev has_header event2/event.h
                        package libev-dev has_header ev.h
                        package golang-go has_command go
                        ;;
                *)
                        echo "$0: unknown job: $group" >&2
                        exit 2
                        ;;
                esac
        done
}

refuse() {
        echo "weir needs packages that are not installed, and $1.  Please run:" >&2
        echo "    apt-get update && apt-get install --yes --no-install-recommends ${missing[*]}" >&2
        exit 1
}

install_missing() {
        local root=()

        has_command apt-get || refuse "there is no apt-get to install them with (the names are Debian's)"
        [ "${WEIR_INSTALL:-yes}" != no ] || refuse "WEIR_INSTALL=no says not to install them"
        if [ "$(id -u)" -ne 0 ]; then
                has_command sudo || refuse "this is neither root nor is there a sudo"
                root=(sudo)
        fi
        echo "Installing with ${root[*]:+${root[*]} }apt-get: ${missing[*]}"
        # Lists that cannot be refreshed may still do.
        "${root[@]}" apt-get -qq update || echo "apt-get update failed; trying with the lists as they are" >&2
        "${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq -o Dpkg::Use-Pty=0 install --yes --no-install-recommends \
                "${missing[@]}" >/dev/null || echo "apt-get failed; looking whether what is needed is there all the same" >&2
}

probe_all "$@"
[ ${#missing[@]} -eq 0 ] && exit 0
install_missing
probe_all "$@"
# A service that does not start where it is installed, such as nginx without IPv6, is no obstacle: its program is there.
[ ${#missing[@]} -eq 0 ] || refuse "they are not found after their installation"
