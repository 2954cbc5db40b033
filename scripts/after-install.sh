#!/bin/bash
# scripts/after-install.sh BUILD PREFIX [DESTDIR]: lets the loader find the library that was installed, where that may be done.
# Otherwise says what the user has to do.
#
# The loader searches its own directories and those of /etc/ld.so.conf, but knows a new library only from ldconfig on.
set -u

build=$1 prefix=$2 destdir=${3:-}
PATH=$PATH:/usr/sbin:/sbin
directory=$(sed -n 's/^CMAKE_INSTALL_LIBDIR:[A-Z]*=//p' "$build/CMakeCache.txt")
case ${directory:?} in
/*) ;;
*) directory=$prefix/$directory ;;
esac
soname=$(readelf -d "$destdir$directory/libweir.so" 2>/dev/null | sed -n 's/.*SONAME.*\[\(.*\)\]/\1/p')
[ -n "$soname" ] || exit 0 # only the static library

has() {
        command -v "$1" >/dev/null
}

# The file that the loader takes for the name.
found() {
        ldconfig -p 2>/dev/null | awk -v name="$soname" '$1 == name { print $NF; exit }'
}

is_searched() {
        local searched

        while read -r searched; do
                [ "$searched" -ef "$directory" ] && return 0
        done < <(ldconfig -v -N -X 2>/dev/null | sed -n 's/^\(\/[^:]*\):.*/\1/p')
        return 1
}

# Whether pkg-config finds this weir, and not none or another.
is_known_to_pkg_config() {
        has pkg-config && [ "$(pkg-config --variable=pcfiledir weir 2>/dev/null)" -ef "$directory/pkgconfig" ]
}

if [ -n "$destdir" ]; then
        echo "weir is staged below $destdir.  Where it will be used, ldconfig has to run once."
        exit 0
fi
rpath=" -Wl,-rpath,$directory"
if has ldconfig && is_searched; then
        [ "$(id -u)" -ne 0 ] || ldconfig
        if [ "$(found)" -ef "$directory/$soname" ]; then
                rpath=
        elif [ "$(id -u)" -ne 0 ]; then
                echo "The loader does not know $directory/$soname yet.  As root, run: ldconfig"
                rpath=
        else
                echo "The loader takes $(found) instead of $directory/$soname."
        fi
fi
known=
is_known_to_pkg_config || known="PKG_CONFIG_PATH=$directory/pkgconfig "
echo "weir is installed.  To compile a program:"
echo "    cc program.c \$(${known}pkg-config --cflags --libs weir)$rpath"
[ -z "$rpath" ] || echo "Without -rpath the program needs LD_LIBRARY_PATH=$directory when it is started."
