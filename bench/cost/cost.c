/* bench/cost/cost.c: runs one kind of operation, for callgrind to count its instructions, or counts the bytes of one kind of
 * object.
 *
 *     cost list            the names of all operations and objects, a line each: kind, parts, name
 *     cost run NAME        runs the operation count, then 2 * count times; callgrind writes a profile after each
 *     cost bytes NAME      prints the bytes of one object
 *     cost serve           serves TLS for one of those, and prints its port
 *
 * The difference of both profiles is the cost of `count` operations; what a start costs is in neither.
 *
 * Nothing depends on time or chance.  The clock moves CLOCK_STEP at each reading, and to the next deadline when the poller is
 * about to sleep.  Random numbers are constant.  There is one poller and one thread of the executor, and no watchdog.  The HTTP
 * client runs on the poller's thread when that is about to sleep; callgrind does not count it.
 *
 * Threads: `run` belongs to the poller's thread, `pending` and the clock to all. */
#include "cost.h"

#include <malloc.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include <valgrind/callgrind.h>
#include <weir/weir.h>

#define CLOCK_STEP   100 /* ns for each reading */
#define CLOCK_START  WEIR_SEC(1000)
#define LONGEST_JUMP WEIR_SEC(2) /* a later deadline is not waited for: a limit of an idle connection is none */

static _Atomic int64_t fake_clock = CLOCK_START;
static struct {
        int fd;
        int64_t instant; /* 0: none */
} armed;
static bool (*on_idle)(void);

/* -- what stands in front of the C library -- */

int
clock_gettime(clockid_t clock, struct timespec *time)
{
        int64_t now = atomic_fetch_add_explicit(&fake_clock, CLOCK_STEP, memory_order_relaxed);

        (void)clock;
        *time = (struct timespec){.tv_sec = now / WEIR_SEC(1), .tv_nsec = now % WEIR_SEC(1)};
        return 0;
}

ssize_t
getrandom(void *data, size_t size, unsigned flags)
{
        (void)flags;
        memset(data, 0x5a, size);
        return (ssize_t)size;
}

int
timerfd_settime(int fd, int flags, const struct itimerspec *value, struct itimerspec *old)
{
        int64_t instant = value->it_value.tv_sec * WEIR_SEC(1) + value->it_value.tv_nsec;

        if (flags & TFD_TIMER_CANCEL_ON_SET)
                return (int)syscall(SYS_timerfd_settime, fd, flags, value, old);
        armed.fd = fd;
        armed.instant = instant;
        return 0;
}

/* Moves the clock to the deadline that is armed, and has its descriptor ready.  Returns whether there was one soon. */
static bool
jump(void)
{
        const struct itimerspec past = {.it_value.tv_nsec = 1};

        if (!armed.instant || armed.instant > atomic_load(&fake_clock) + LONGEST_JUMP)
                return false;
        if (armed.instant > atomic_load(&fake_clock))
                atomic_store(&fake_clock, armed.instant);
        armed.instant = 0;
        return syscall(SYS_timerfd_settime, armed.fd, TFD_TIMER_ABSTIME, &past, NULL) == 0;
}

static int
wait_for_events(int fd, struct epoll_event *events, int most, int timeout)
{
        for (;;) {
                int count = epoll_pwait(fd, events, most, 0, NULL);

                if (count != 0 || timeout == 0)
                        return count;
                if (!(on_idle && on_idle()) && !jump())
                        return epoll_pwait(fd, events, most, -1, NULL);
        }
}

int
epoll_wait(int fd, struct epoll_event *events, int most, int timeout)
{
        CALLGRIND_TOGGLE_COLLECT;
        int count = wait_for_events(fd, events, most, timeout);
        CALLGRIND_TOGGLE_COLLECT;
        return count;
}

/* -- running -- */

static struct {
        const struct cost_case *is;
        unsigned phase; /* 0: twice the count, for caches to fill; 1: the count; 2: twice the count */
        size_t wanted, started;
        sem_t finished;
} run;

static _Atomic size_t pending; /* of the slice: operations that have not ended, and one while they are started */

void
cost_must(bool good, const char *what)
{
        if (good)
                return;
        fprintf(stderr, "cost: %s failed\n", what);
        _exit(1);
}

/* Returns whether there is another phase. */
static bool
next_phase(void)
{
        CALLGRIND_DUMP_STATS;
        if (run.phase == 2) {
                sem_post(&run.finished);
                return false;
        }
        run.phase++;
        run.started = 0;
        run.wanted = run.phase * run.is->count;
        return true;
}

static void
on_slice(weir_task *task, void *context)
{
        (void)task;
        (void)context;
        if (run.started == run.wanted && !next_phase())
                return;
        atomic_store(&pending, run.is->slice + 1);
        for (size_t i = 0; i < run.is->slice; i++)
                run.is->operation(i);
        run.started += run.is->slice;
        cost_ended();
}

void
cost_ended(void)
{
        if (atomic_fetch_sub(&pending, 1) == 1)
                weir_task_start(weir_empty_new(on_slice, NULL));
}

void
cost_on_end(weir_task *task, void *context)
{
        (void)task;
        (void)context;
        cost_ended();
}

/* The steps of a client come from the poller, when it is about to sleep. */
static bool
step_client(void)
{
        if (run.phase > 2 || !run.is->client())
                return false;
        if (++run.started == run.wanted && !next_phase())
                run.phase = 3;
        return true;
}

static void
start_library(void)
{
        struct weir_config config = WEIR_CONFIG_DEFAULT;

        config.pollers = config.compute_threads = 1;
        config.blocking_limit = WEIR_FOREVER;
        cost_must(weir_init(&config) == 0, "weir_init");
}

static void
run_case(const struct cost_case *is)
{
        run.is = is;
        run.wanted = 2 * is->count;
        sem_init(&run.finished, 0, 0);
        start_library();
        if (is->prepare)
                is->prepare(is);
        on_idle = is->client ? step_client : is->peer;
        weir_task_start(is->client ? weir_empty_new(NULL, NULL) : weir_empty_new(on_slice, NULL));
        while (sem_wait(&run.finished))
                ;
}

/* -- bytes -- */

static struct {
        const struct cost_object *is;
        size_t made, wanted;
        long before;
} objects;

/* OpenSSL's objects come and go during a handshake, and leave gaps: their bytes are asked of the allocator. */
static long
resident_bytes(void)
{
        if (objects.is->is_of_heap)
                return (long)mallinfo2().uordblks;
        FILE *file = fopen("/proc/self/statm", "r");
        long all = 0, resident = 0, shared = 0;
        cost_must(file && fscanf(file, "%ld %ld %ld", &all, &resident, &shared) == 3, "statm");
        fclose(file);
        return (resident - shared) * sysconf(_SC_PAGESIZE);
}

/* The first half brings what is there but once; the second half is measured. */
static void
note_object(void)
{
        size_t count = objects.is->count;

        objects.made++;
        if (objects.made == count)
                objects.before = resident_bytes();
        if (objects.made != 2 * count)
                return;
        printf("%.1f\n", (double)(resident_bytes() - objects.before) / (double)count);
        fflush(stdout);
        _exit(0);
}

static void
on_objects(weir_task *task, void *context)
{
        (void)task;
        (void)context;
        for (;;) {
                objects.is->make(objects.made);
                note_object();
        }
}

static bool
step_objects(void)
{
        if (!objects.is->client())
                return false;
        note_object();
        return true;
}

static void
count_bytes(const struct cost_object *is)
{
        objects.is = is;
        prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);
        start_library();
        if (is->prepare)
                is->prepare();
        if (is->client)
                on_idle = step_objects;
        weir_task_start(is->client ? weir_empty_new(NULL, NULL) : weir_empty_new(on_objects, NULL));
        for (;;)
                pause();
}

/* -- the command line -- */

static const struct cost_case *const groups[] = {cost_timer_cases, cost_flow_cases, cost_sync_cases, cost_http_cases,
                                                 cost_client_cases};
#define GROUPS (sizeof groups / sizeof *groups)

static const struct cost_case *
find_case(const char *name)
{
        for (size_t i = 0; i < GROUPS; i++)
                for (const struct cost_case *each = groups[i]; each->name; each++)
                        if (strcmp(each->name, name) == 0)
                                return each;
        return NULL;
}

static const struct cost_object *
find_object(const char *name)
{
        for (const struct cost_object *each = cost_objects; each->name; each++)
                if (strcmp(each->name, name) == 0)
                        return each;
        return NULL;
}

static void
list(void)
{
        for (size_t i = 0; i < GROUPS; i++)
                for (const struct cost_case *each = groups[i]; each->name; each++)
                        printf("instructions %zu %s\n", each->count * (each->parts ? each->parts : 1), each->name);
        for (const struct cost_object *each = cost_objects; each->name; each++)
                printf("bytes 1 %s\n", each->name);
}

int
main(int argc, char *argv[])
{
        const char *what = argc > 1 ? argv[1] : "", *name = argc > 2 ? argv[2] : "";
        const struct cost_case *operation = find_case(name);
        const struct cost_object *object = find_object(name);
        struct rlimit files;

        getrlimit(RLIMIT_NOFILE, &files);
        files.rlim_cur = files.rlim_max;
        setrlimit(RLIMIT_NOFILE, &files);
        if (strcmp(what, "list") == 0)
                list();
        else if (strcmp(what, "run") == 0 && operation)
                run_case(operation);
        else if (strcmp(what, "bytes") == 0 && object)
                count_bytes(object);
        else if (strcmp(what, "serve") == 0) {
                start_library();
                cost_client_serve();
        } else {
                cost_must(false, "usage: cost list | run NAME | bytes NAME | serve: it");
        }
        fflush(stdout);
        _exit(0);
}
