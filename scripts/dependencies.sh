#!/bin/bash
# Installs what is missing of the Debian packages that a job needs, and says so.  Does nothing, in a few milliseconds and without
# the network, when everything is there.
#
#   scripts/dependencies.sh library|build|check|aarch64|clang|model|fuzz|format|peers|cost|package ...
#
# Where it may not install, it tells the command.  It fails only if the job cannot go on without the packages.
# WEIR_INSTALL=no only tells the command.
set -u

missing=()
wanted=()

package() {
        local name=$1 probe=$2 operand=${3:-}

        "$probe" "$operand" || missing+=("$name")
}

# The job leaves out what the package is for, if it is not there.
optional_package() {
        local name=$1 probe=$2 operand=${3:-}

        "$probe" "$operand" || wanted+=("$name")
}

has_command() {
        command -v "$1" >/dev/null
}

has_header() {
        [ -e "/usr/include/$1" ] || [ -e "/usr/local/include/$1" ] ||
                echo "#include <$1>" | "${CC:-cc}" -E -x c - >/dev/null 2>&1
}

# One whose headers are in a directory of its own.
has_package() {
        pkg-config --exists "$1" 2>/dev/null
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

        missing=() wanted=()
        for group in "$@"; do
                case $group in
                library)
                        package gcc has_command gcc
                        package libc6-dev has_header stdio.h
                        package cmake has_command cmake
                        package make has_command make
                        package pkg-config has_command pkg-config
                        package libssl-dev has_header openssl/ssl.h
                        package libhttp-parser-dev has_header http_parser.h
                        package zlib1g-dev has_header zlib.h
                        package libc-ares-dev has_header ares.h
                        optional_package liburing-dev has_header liburing.h
                        optional_package libbrotli-dev has_header brotli/decode.h
                        optional_package libzstd-dev has_header zstd.h
                        optional_package libpsl-dev has_header libpsl.h
                        optional_package libidn2-dev has_header idn2.h
                        optional_package libunistring-dev has_header unistr.h
                        # Of the libraries beside libweir, as CMakeLists.txt says.
                        optional_package libsqlite3-dev has_header sqlite3.h
                        optional_package libpq-dev has_header postgresql/libpq-fe.h
                        optional_package libmariadb-dev has_header mariadb/mysql.h
                        ;;
                build) optional_package libcunit1-dev has_header CUnit/Basic.h ;;
                check)
                        package libcunit1-dev has_header CUnit/Basic.h
                        package g++ has_cxx
                        package libglib2.0-dev has_package glib-2.0
                        package curl has_command curl
                        package python3 has_command python3
                        package wrk has_command wrk
                        package apache2-utils has_command ab
                        package nodejs has_command node
                        package nginx has_file /usr/sbin/nginx
                        package openssl has_command openssl
                        package chromium has_command chromium
                        package libcurl4-openssl-dev has_header curl/curl.h
                        package libhiredis-dev has_header hiredis/async.h
                        package redis-server has_command redis-server
                        package libuv1-dev has_header uv.h
                        package libsqlite3-dev has_header sqlite3.h
                        package libpq-dev has_header postgresql/libpq-fe.h
                        package libmariadb-dev has_header mariadb/mysql.h
                        package mariadb-server-core has_file /usr/sbin/mariadbd
                        package mariadb-client-core has_file /usr/bin/my_print_defaults
                        package postgresql has_command /usr/lib/postgresql/*/bin/postgres
                        package abigail-tools has_command abidiff
                        package man-db has_command man
                        package musl-tools has_command musl-gcc
                        package mandoc has_command mandoc
                        package dnsmasq-base has_file /usr/sbin/dnsmasq
                        package tinyproxy-bin has_command tinyproxy
                        package microsocks has_command microsocks
                        package squid has_file /usr/sbin/squid
                        package dante-server has_file /usr/sbin/danted
                        package haproxy has_file /usr/sbin/haproxy
                        package golang-go has_command go
                        package iproute2 has_command ip
                        package tzdata has_file /usr/share/zoneinfo/Europe/Berlin
                        package valgrind has_command valgrind
                        ;;
                aarch64)
                        package gcc-aarch64-linux-gnu has_command aarch64-linux-gnu-gcc
                        package libc6-dev-arm64-cross has_file /usr/aarch64-linux-gnu/include/stdio.h
                        package qemu-user has_command qemu-aarch64
                        ;;
                clang)
                        package libcunit1-dev has_header CUnit/Basic.h
                        package clang has_command clang
                        ;;
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
                package)
                        package git has_command git
                        package mmdebstrap has_command mmdebstrap
                        package lintian has_command lintian
                        ;;
                peers)
                        package fio has_command fio
                        package haproxy has_command haproxy
                        package nginx has_file /usr/sbin/nginx
                        package libnginx-mod-stream has_file /usr/lib/nginx/modules/ngx_stream_module.so
                        package libnginx-mod-http-echo has_file /usr/lib/nginx/modules/ngx_http_echo_module.so
                        package wrk has_command wrk
                        package nghttp2-client has_command h2load
                        package libcurl4-openssl-dev has_header curl/curl.h
                        package libhiredis-dev has_header hiredis/async.h
                        package redis-server has_command redis-server
                        package postgresql has_command /usr/lib/postgresql/*/bin/postgres
                        package mariadb-server-core has_file /usr/sbin/mariadbd
                        package libuv1-dev has_header uv.h
                        package libevent-dev has_header event2/event.h
                        package libev-dev has_header ev.h
                        package golang-go has_command go
                        package ruby-sidekiq has_command sidekiq
                        ;;
                *)
                        echo "$0: unknown job: $group" >&2
                        exit 2
                        ;;
                esac
        done
}

# Ends the script: with success if the job can go on.
refuse() {
        local needed=("${missing[@]}")

        [ ${#missing[@]} -gt 0 ] || needed=("${wanted[@]}")
        if [ ${#missing[@]} -gt 0 ]; then
                echo "weir needs packages that are not installed, and $1.  Please run:" >&2
        else
                echo "Going on without ${wanted[*]}, and so without what needs that (tests: libcunit1-dev; io_uring: liburing-dev; codings br and zstd: libbrotli-dev, libzstd-dev; public suffixes: libpsl-dev, and for static programs libidn2-dev, libunistring-dev; SQLite as tasks: libsqlite3-dev): $1.  To have it, run:" >&2
        fi
        echo "    apt-get update && apt-get install --yes --no-install-recommends ${needed[*]}" >&2
        [ ${#missing[@]} -eq 0 ]
        exit
}

# Without a terminal sudo must not ask for a password.
may_sudo() {
        has_command sudo && { [ -t 0 ] || sudo -n true 2>/dev/null; }
}

install_missing() {
        local root=()

        has_command apt-get || refuse "there is no apt-get to install them with (the names are Debian's)"
        [ "${WEIR_INSTALL:-yes}" != no ] || refuse "WEIR_INSTALL=no says not to install"
        if [ "$(id -u)" -ne 0 ]; then
                may_sudo || refuse "this is not root and may not use sudo"
                root=(sudo)
        fi
        echo "Installing with ${root[*]:+${root[*]} }apt-get: ${missing[*]} ${wanted[*]}"
        # Lists that cannot be refreshed may still do.
        "${root[@]}" apt-get -qq update || echo "apt-get update failed; trying with the lists as they are" >&2
        "${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq -o Dpkg::Use-Pty=0 install --yes --no-install-recommends \
                "${missing[@]}" "${wanted[@]}" >/dev/null || echo "apt-get failed; looking whether what is needed is there all the same" >&2
}

probe_all "$@"
[ $((${#missing[@]} + ${#wanted[@]})) -eq 0 ] && exit 0
install_missing
probe_all "$@"
# A service that does not start where it is installed, such as nginx without IPv6, is no obstacle: its program is there.
[ $((${#missing[@]} + ${#wanted[@]})) -eq 0 ] || refuse "they are not found after their installation"
