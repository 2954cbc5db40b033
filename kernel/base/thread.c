/* kernel/base/thread.c: making, pinning and joining the library's threads.
 *
 * Threads: any.
 * Locks:   none; the settings are constant while threads are made. */
#include "kernel/base/thread.h"

#include <sched.h>
#include <signal.h>

static struct {
        size_t stack_size;
        bool has_affinity;
        cpu_set_t cpus; /* the CPUs that the process may use */
} settings;

void
weir__thread_configure(size_t stack_size, bool has_affinity)
{
        settings.stack_size = stack_size;
        settings.has_affinity = has_affinity && sched_getaffinity(0, sizeof settings.cpus, &settings.cpus) == 0 &&
                                CPU_COUNT(&settings.cpus) > 0;
}

unsigned
weir__thread_cpu_count(unsigned most)
{
        cpu_set_t set;
        int count = sched_getaffinity(0, sizeof set, &set) < 0 ? 1 : CPU_COUNT(&set);

        return count < 1 ? 1 : (unsigned)count < most ? (unsigned)count : most;
}

/* All signals, but those of a fault in the thread itself.  While one of these is blocked a fault ends the process without a
 * handler, so neither a sanitizer nor the program could report it. */
static void
fill_blocked(sigset_t *blocked)
{
        static const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS};

        sigfillset(blocked);
        for (size_t i = 0; i < sizeof faults / sizeof *faults; i++)
                sigdelset(blocked, faults[i]);
}

int
weir__thread_make(pthread_t *thread, void *(*main)(void *), void *argument)
{
        sigset_t blocked, before;
        pthread_attr_t attributes;
        int failed = pthread_attr_init(&attributes);

        if (failed)
                return -failed;
        if (settings.stack_size)
                pthread_attr_setstacksize(&attributes, settings.stack_size);
        fill_blocked(&blocked);
        pthread_sigmask(SIG_SETMASK, &blocked, &before);
        failed = pthread_create(thread, &attributes, main, argument);
        pthread_sigmask(SIG_SETMASK, &before, NULL);
        pthread_attr_destroy(&attributes);
        return -failed;
}

void
weir__thread_keep_on_cpu(unsigned index)
{
        int cpu = -1;
        cpu_set_t set;

        if (!settings.has_affinity)
                return;
        for (int left = (int)index % CPU_COUNT(&settings.cpus) + 1; left > 0;) {
                cpu++; /* the macro of musl evaluates it several times */
                left -= CPU_ISSET(cpu, &settings.cpus) != 0;
        }
        CPU_ZERO(&set);
        CPU_SET(cpu, &set);
        pthread_setaffinity_np(pthread_self(), sizeof set, &set); /* on failure the thread runs on any CPU */
}

void
weir__thread_release_cpu(void)
{
        if (settings.has_affinity)
                pthread_setaffinity_np(pthread_self(), sizeof settings.cpus, &settings.cpus);
}

bool
weir__thread_join(pthread_t thread, struct weir__latch *gone, weir_nsec until)
{
        /* Not by pthread_clockjoin_np, which ThreadSanitizer does not know. */
        if (until == WEIR_FOREVER)
                weir__latch_wait(gone);
        else if (!weir__latch_wait_until(gone, until))
                return false;
        return pthread_join(thread, NULL) == 0;
}
