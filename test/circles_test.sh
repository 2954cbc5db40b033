#!/bin/bash
# The call circles of the library: sets of files in which each file needs symbols of the others, directly or through other files.
# The symbols of the object files tell: a file needs what it does not define, weak references included; static symbols tie nothing.
set -euo pipefail

source=${WEIR_SOURCE:?}
build=${WEIR_BUILD:?}
compiler=${WEIR_CC:?}

# check OBJECTS SOURCE BOUND...: prints each circle that has more files than the bound of its room, with a symbol for each step, and
# fails if there is one.  A bound is ROOM=FILES.  Objects without a source are left over from an older build.
check() {
        local objects=$1 source=$2 file
        shift 2

        cd "$objects"
        find . -name '*.o' -print 2>/dev/null | sed 's|^\./||' | sort | while read -r file; do
                [ ! -f "$source/${file%.o}" ] || echo "$file"
        done | xargs nm -A -P | awk -v bounds="$*" '
                { file = $1; sub(/\.o:$/, "", file) }
                !(file in number) { number[file] = ++files; name[files] = file }
                $3 ~ /^[Uwv]$/ { needs[number[file] " " $2] }
                $3 ~ /^[A-TVWu]$/ { definer[$2] = number[file] }

                # Marks what can be reached from a file.
                function visit(from,    queue, head, tail, at, next_file, i) {
                        head = 1; tail = 1; queue[1] = from
                        while (head <= tail) {
                                at = queue[head++]
                                for (i = 1; i <= degree[at]; i++) {
                                        next_file = step[at, i]
                                        if ((from, next_file) in reach)
                                                continue
                                        reach[from, next_file]
                                        queue[++tail] = next_file
                                }
                        }
                }

                END {
                        for (need in needs) {
                                split(need, part, " ")
                                to = part[2] in definer ? definer[part[2]] : part[1]
                                if (to == part[1] || (part[1], to) in tie)
                                        continue
                                tie[part[1], to] = part[2]
                                step[part[1], ++degree[part[1]]] = to
                        }
                        for (i = 1; i <= files; i++)
                                visit(i)
                        count = split(bounds, list, " ")
                        for (i = 1; i <= count; i++) {
                                split(list[i], part, "=")
                                bound[part[1]] = part[2]
                        }
                        for (i = 1; i <= files; i++) {
                                if (i in seen || !((i, i) in reach))
                                        continue
                                size = 0
                                for (j = i; j <= files; j++)
                                        if ((i, j) in reach && (j, i) in reach) {
                                                seen[j]
                                                member[++size] = j
                                        }
                                room = substr(name[i], 1, index(name[i], "/") - 1)
                                if (size <= bound[room])
                                        continue
                                failed = 1
                                printf "%d files of %s/ call each other in a circle; %d may:\n", size, room, bound[room]
                                for (a = 1; a <= size; a++)
                                        for (b = 1; b <= size; b++)
                                                if ((member[a], member[b]) in tie)
                                                        printf "        %s needs %s of %s\n", name[member[a]],
                                                               tie[member[a], member[b]], name[member[b]]
                        }
                        exit failed
                }'
}

# The check itself must be able to fail.  In a made-up tree seven files of kernel/ call each other in a circle, the last step by a weak
# reference; six of factory/ do, which may; and the files of server/ only share the names of static functions.
proof=$(mktemp -d)
trap 'rm -rf "$proof"' EXIT
mkdir -p "$proof"/{kernel/room,factory/room,server}
for i in 1 2 3 4 5 6; do
        echo "void k$((i + 1))(void); void k$i(void); void k$i(void) { k$((i + 1))(); }" >"$proof/kernel/room/$i.c"
        echo "void f$((i % 6 + 1))(void); void f$i(void); void f$i(void) { f$((i % 6 + 1))(); }" >"$proof/factory/room/$i.c"
done
echo 'void k1(void) __attribute__((weak)); void k7(void); void k7(void) { k1(); }' >"$proof/kernel/room/7.c"
for i in 1 2 3 4 5 6 7 8 9; do
        echo "static void next(void) {} void s$i(void); void s$i(void) { next(); }" >"$proof/server/$i.c"
done
for file in "$proof"/*/*.c "$proof"/*/room/*.c; do
        "$compiler" -O0 -c "$file" -o "$file.o"
done
: >"$proof/kernel/left.c.o" # its source is gone
found=$(check "$proof" "$proof" kernel=6 factory=6 server=1 || true)
[ "$(head -n 1 <<<"$found")" = '7 files of kernel/ call each other in a circle; 6 may:' ] && [ "$(wc -l <<<"$found")" -eq 8 ] || {
        printf 'the check of a made-up tree says:\n%s\n' "$found" >&2
        exit 1
}

check "$build/CMakeFiles/weir_objects.dir" "$source" kernel=2 factory=3 io=1 net=3 client=5 server=1 proxy=1 protocol=1
