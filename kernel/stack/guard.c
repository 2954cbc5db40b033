/* kernel/stack/guard.c: how memory is made to fault.
 *
 * A program that is watched has no guards of the kernel: tools find memory that is not accessible among the mappings, and leave
 * it alone, but would fault at the guards.
 *
 * Threads: any.
 * Locks:   none.  What the kernel can do is found by the first guard; a second thread may find the same meanwhile. */
#include "kernel/stack/guard.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "kernel/observe/log.h"
#include "kernel/stack/tools.h"

#ifndef MADV_GUARD_INSTALL
#define MADV_GUARD_INSTALL 102
#endif

#define MAPPINGS_DEFAULT 65530 /* vm.max_map_count of Linux */
#define PERCENT_OF_MAPS  45    /* of them may be guards: each costs two, and the program needs some too */

enum way { UNKNOWN, BY_KERNEL, BY_PROTECTION };

static _Atomic int present_way;       /* enum way; relaxed: it stands for itself */
static _Atomic size_t installed;      /* by protection; relaxed */
static _Atomic size_t most_installed; /* that may be; written before the way, read after it */
static _Atomic size_t most_pretended; /* 0: none; relaxed */

static size_t
read_most(void)
{
        unsigned long maps = MAPPINGS_DEFAULT;
        FILE *file = fopen("/proc/sys/vm/max_map_count", "re");

        if (file) {
                if (fscanf(file, "%lu", &maps) != 1)
                        maps = MAPPINGS_DEFAULT;
                fclose(file);
        }
        return maps / 100 * PERCENT_OF_MAPS;
}

static void
use_protection(void)
{
        size_t pretended = atomic_load_explicit(&most_pretended, memory_order_relaxed);

        atomic_store_explicit(&most_installed, pretended ? pretended : read_most(), memory_order_relaxed);
        atomic_store_explicit(&present_way, BY_PROTECTION, memory_order_release);
}

static void
say_refusal(const char *reason)
{
        static struct weir__log_limit limit;

        weir__log_limited(&limit, WEIR_LOG_ERROR,
                          "no stack for another fiber: %s.  Raise vm.max_map_count, at two for each fiber (sysctl -w "
                          "vm.max_map_count=1048576), or use Linux 6.13 or later, which needs none",
                          reason);
}

static int
protect(void *memory, size_t size)
{
        size_t most = atomic_load_explicit(&most_installed, memory_order_relaxed);
        char reason[96];

        if (atomic_fetch_add_explicit(&installed, 1, memory_order_relaxed) >= most) {
                snprintf(reason, sizeof reason, "%zu are there, which is %d %% of vm.max_map_count", most, PERCENT_OF_MAPS);
        } else {
                if (mprotect(memory, size, PROT_NONE) == 0)
                        return 0;
                snprintf(reason, sizeof reason, "the kernel refuses a guard (mprotect: errno %d)", errno);
        }
        atomic_fetch_sub_explicit(&installed, 1, memory_order_relaxed);
        say_refusal(reason);
        return -EAGAIN;
}

/* An emulator may say yes to what it does not know.  Here the kernel is asked to write there. */
static bool
does_fault(void *memory)
{
        return pthread_sigmask(SIG_BLOCK, NULL, memory) == EFAULT;
}

static bool
must_protect(void)
{
        return atomic_load_explicit(&most_pretended, memory_order_relaxed) || weir__tools_are_there();
}

int
weir__guard_install(void *memory, size_t size)
{
        int way = atomic_load_explicit(&present_way, memory_order_acquire);

        if (way == BY_KERNEL || (way == UNKNOWN && !must_protect())) {
                if (madvise(memory, size, MADV_GUARD_INSTALL) == 0 && (way == BY_KERNEL || does_fault(memory))) {
                        atomic_store_explicit(&present_way, BY_KERNEL, memory_order_relaxed);
                        return 0;
                }
                if (way == BY_KERNEL) {
                        say_refusal("the kernel refuses a guard (madvise)");
                        return -EAGAIN;
                }
        }
        if (way == UNKNOWN)
                use_protection();
        return protect(memory, size);
}

void
weir__guard_forget(size_t count)
{
        if (atomic_load_explicit(&present_way, memory_order_relaxed) == BY_PROTECTION)
                atomic_fetch_sub_explicit(&installed, count, memory_order_relaxed);
}

size_t
weir__guard_most(void)
{
        return atomic_load_explicit(&present_way, memory_order_acquire) == BY_PROTECTION
                       ? atomic_load_explicit(&most_installed, memory_order_relaxed)
                       : SIZE_MAX;
}

void
weir__guard_pretend(size_t most)
{
        atomic_store_explicit(&most_pretended, most, memory_order_relaxed);
        atomic_store_explicit(&present_way, UNKNOWN, memory_order_relaxed);
}
