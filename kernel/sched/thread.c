/* kernel/sched/thread.c: how threads of the library are made.
 *
 * Threads: any.  The configuration is constant while the runtime is up. */
#include "kernel/sched/thread.h"

#include <sched.h>
#include <signal.h>

static struct {
        size_t stack_size; /* 0: the system's */
        bool has_affinity;
        cpu_set_t cpus; /* that the process may use */
} config;

void
weir__thread_configure(size_t stack_size, bool has_affinity)
{
        config.stack_size = stack_size;
        config.has_affinity = has_affinity && sched_getaffinity(0, sizeof config.cpus, &config.cpus) == 0 &&
                              CPU_COUNT(&config.cpus) > 0;
}

int
weir__thread_make(pthread_t *thread, void *(*main)(void *), void *argument)
{
        sigset_t all, before;
        pthread_attr_t attributes;
        int failed = pthread_attr_init(&attributes);

        if (failed)
                return -failed;
        if (config.stack_size)
                pthread_attr_setstacksize(&attributes, config.stack_size);
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &before);
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

        if (!config.has_affinity)
                return;
        for (unsigned left = index % (unsigned)CPU_COUNT(&config.cpus) + 1; left > 0; left -= CPU_ISSET(++cpu, &config.cpus) != 0)
                continue;
        CPU_ZERO(&set);
        CPU_SET(cpu, &set);
        pthread_setaffinity_np(pthread_self(), sizeof set, &set); /* when this fails the thread runs on any CPU */
}

void
weir__thread_release_cpu(void)
{
        if (config.has_affinity)
                pthread_setaffinity_np(pthread_self(), sizeof config.cpus, &config.cpus);
}
