/* test/interleave.c: the scheduler of a world in which one thread runs at a time.
 *
 *     RUNNING <--baton--> ready <--wake, sleep--> asleep;  RUNNING --> finished
 *
 * Threads: only the thread that holds the baton touches the state of this file, so there is no lock.  This file is compiled
 *          without ThreadSanitizer, which would take the baton for an order that the library makes.
 *
 * A seed chooses between two kinds of scheduler.  One changes threads at a step with a certain chance, to any.  The other gives
 * each thread a priority, always runs the highest that can run, and lowers that of the one that runs at a few steps chosen
 * before: it finds with a good chance what needs one thread to stop for long at one certain step (Burckhardt et al., "A
 * randomized scheduler with probabilistic guarantees of finding bugs", 2010).  The passing of time is one more thread. */
#define INTERLEAVE_SCHEDULER
#include "test/interleave.h"

#include <errno.h>
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "factory/task/task.h"
#include "test/support.h"

#define THREADS    32
#define CHANGES    5      /* of priority, at most */
#define STARVED    20000  /* steps after which everybody has a turn whatever the seed says: somebody may wait for who has none */
#define ENDLESS    400000 /* steps after which nothing will come any more */
#define REMEMBERED 48     /* steps that a failure prints */

/* A real thread that serves one run after the other: making one costs more than the rest of a run.  Not under a sanitizer, which
 * knows from creation and join that what is before and behind them does not race. */
struct runner {
        pthread_t id;
        bool made;
        struct thread *thread; /* NULL: none */
        _Atomic unsigned signal;
};

struct thread {
        pthread_t thread;
        struct runner *runner; /* or NULL: it is a real one of its own */
        void *(*main)(void *);
        void *argument;
        _Atomic unsigned baton;
        bool used, finished;
        const volatile void *asleep; /* on this address */
        const char *function;        /* where it stands */
        int line;
        unsigned priority;
};

struct actor {
        pthread_t thread;
        void (*operation)(void *argument);
        void *argument;
};

struct remembered {
        unsigned thread;
        const volatile void *object;
        const char *what, *function;
        int line;
};

static struct {
        const char *name;
        uint64_t seed, random, trace;
        struct thread threads[THREADS];
        unsigned count;
        struct actor actors[THREADS];
        unsigned acting;
        unsigned steps, all_steps; /* while exploring; also before and after */
        bool running, exploring, by_priority;
        unsigned chance; /* of a change at a step: 1 to that */
        unsigned changes[CHANGES], lowest, clock_priority;
        struct remembered last[REMEMBERED];
} world;

static pthread_attr_t small_stack; /* of threads: the system keeps those for the next ones */

static struct runner runners[THREADS + 1];

static _Thread_local struct thread *self; /* NULL: a thread of no world, for which nothing is a step */

/* -- chance -- */

static uint64_t
next_random(void)
{
        uint64_t mixed = world.random += UINT64_C(0x9e3779b97f4a7c15);

        mixed = (mixed ^ (mixed >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
        mixed = (mixed ^ (mixed >> 27)) * UINT64_C(0x94d049bb133111eb);
        return mixed ^ (mixed >> 31);
}

unsigned
interleave_random(unsigned limit)
{
        return (unsigned)(next_random() % limit);
}

bool
interleave_fails(void)
{
        return self && world.exploring && interleave_random(8) == 0;
}

uint64_t
interleave_trace(void)
{
        return world.trace;
}

/* -- failure -- */

static void
print_failure(void)
{
        static bool is_printed;

        if (is_printed || !world.running)
                return;
        is_printed = true;
        for (unsigned i = world.all_steps > REMEMBERED ? world.all_steps - REMEMBERED : 0; i < world.all_steps; i++) {
                const struct remembered *step = &world.last[i % REMEMBERED];

                fprintf(stderr, "    thread %u: %s %p in %s, line %d\n", step->thread, step->what, (const void *)step->object,
                        step->function, step->line);
        }
        for (unsigned i = 0; i < world.count; i++) {
                const struct thread *thread = &world.threads[i];

                fprintf(stderr, "  thread %u%s %s %p, last in %s, line %d\n", i, thread == self ? " (this)" : "",
                        thread->finished ? "has finished"
                        : thread->asleep ? "sleeps on"
                                         : "can run",
                        (const void *)thread->asleep, thread->function, thread->line);
        }
        fprintf(stderr, "replay with WEIR_TEST_FILTER=%s WEIR_TEST_SEED=%llu\n", world.name, (unsigned long long)world.seed);
}

void
interleave_fail(const char *format, ...)
{
        va_list arguments;

        va_start(arguments, format);
        vfprintf(stderr, format, arguments);
        va_end(arguments);
        fputc('\n', stderr);
        abort();
}

static void
on_signal(int number)
{
        print_failure();
        signal(number, SIG_DFL);
        raise(number);
}

/* The sanitizers call the callback before they end the process. */
__attribute__((weak)) void __sanitizer_set_death_callback(void (*callback)(void));

/* Once: also that all threads share a CPU, for which handing the baton on is cheap. */
static void
prepare(void)
{
        static bool prepared;
        cpu_set_t set;

        if (prepared)
                return;
        prepared = true;
        pthread_attr_init(&small_stack);
        pthread_attr_setstacksize(&small_stack, 512 * 1024);
        signal(SIGABRT, on_signal);
        if (__sanitizer_set_death_callback)
                __sanitizer_set_death_callback(print_failure);
        else
                signal(SIGSEGV, on_signal);
        CPU_ZERO(&set);
        CPU_SET(sched_getcpu(), &set);
        sched_setaffinity(0, sizeof set, &set);
}

/* -- the next thread -- */

static bool
can_run(const struct thread *thread)
{
        return thread->used && !thread->finished && !thread->asleep;
}

/* One of those that can run, and of the clock, which is NULL and stands last. */
static struct thread *
choose_by_chance(unsigned candidates, bool with_clock)
{
        unsigned place = interleave_random(candidates + with_clock);

        for (unsigned i = 0; i < world.count; i++)
                if (can_run(&world.threads[i]) && place-- == 0)
                        return &world.threads[i];
        return NULL;
}

static struct thread *
choose_by_priority(bool with_clock)
{
        struct thread *best = NULL;

        for (unsigned i = 0; i < world.count; i++)
                if (can_run(&world.threads[i]) && (!best || world.threads[i].priority > best->priority))
                        best = &world.threads[i];
        return best && with_clock && world.clock_priority > best->priority ? NULL : best;
}

/* NULL: nobody can run, and no time that passes changes that. */
static struct thread *
choose(void)
{
        for (;;) {
                bool with_clock = interleave_time_is_armed();
                unsigned candidates = 0;

                for (unsigned i = 0; i < world.count; i++)
                        candidates += can_run(&world.threads[i]);
                if (!candidates && !with_clock)
                        return NULL;
                struct thread *chosen = world.by_priority ? choose_by_priority(with_clock)
                                                          : choose_by_chance(candidates, with_clock);
                if (chosen)
                        return chosen;
                interleave_time_passes();
        }
}

static void
futex(_Atomic unsigned *word, int operation, unsigned value)
{
        syscall(SYS_futex, word, operation, value, NULL, NULL, 0);
}

static void
notify(_Atomic unsigned *word)
{
        INTERLEAVE_STORE(word, 1, memory_order_release);
        futex(word, FUTEX_WAKE_PRIVATE, 1);
}

static void
await(_Atomic unsigned *word)
{
        while (!INTERLEAVE_LOAD(word, memory_order_acquire))
                futex(word, FUTEX_WAIT_PRIVATE, 0);
        INTERLEAVE_STORE(word, 0, memory_order_relaxed);
}

static void
give_baton(struct thread *next)
{
        notify(&next->baton);
}

static void
await_baton(void)
{
        await(&self->baton);
}

static void
hand_over(struct thread *next)
{
        if (!next)
                interleave_fail("deadlock: no thread can go on");
        if (next == self)
                return;
        give_baton(next);
        await_baton();
}

void
interleave_sleep(const volatile void *address)
{
        self->asleep = address;
        hand_over(choose());
}

void
interleave_wake(const volatile void *address, int count)
{
        for (unsigned i = 0; i < world.count && count > 0; i++)
                if (world.threads[i].asleep == address) {
                        world.threads[i].asleep = NULL;
                        count--;
                }
}

/* -- a step -- */

static void
remember(const volatile void *object, const char *what, const char *function, int line)
{
        unsigned thread = (unsigned)(self - world.threads);

        world.last[world.all_steps++ % REMEMBERED] = (struct remembered){thread, object, what, function, line};
        world.trace = (world.trace ^ (thread << 16 | (unsigned)line)) * UINT64_C(0x100000001b3);
        self->function = function;
        self->line = line;
        if (world.all_steps > ENDLESS)
                interleave_fail("endless: nothing comes to an end any more");
}

static bool
may_change(void)
{
        if (world.all_steps > STARVED) {
                world.by_priority = false;
                return interleave_random(4) == 0;
        }
        if (!world.exploring)
                return false;
        world.steps++;
        if (!world.by_priority)
                return interleave_random(world.chance) == 0;
        for (unsigned i = 0; i < CHANGES; i++)
                if (world.changes[i] == world.steps) {
                        self->priority = --world.lowest;
                        world.clock_priority = (unsigned)next_random();
                }
        return true;
}

/* Freed memory is filled with INTERLEAVE_POISON, and nothing that is shared begins with four such bytes.  (No memcmp, which
 * ThreadSanitizer would see.) */
static void
look_for_poison(const volatile void *object, size_t size)
{
        const volatile unsigned char *bytes = object;

        if (size < 4 || bytes[0] != INTERLEAVE_POISON || bytes[1] != INTERLEAVE_POISON || bytes[2] != INTERLEAVE_POISON ||
            bytes[3] != INTERLEAVE_POISON)
                return;
        interleave_fail("freed memory at %p", (const void *)object);
}

void
interleave_step(const volatile void *object, size_t size, const char *what, const char *function, int line)
{
        if (!self)
                return;
        remember(object, what, function, line);
        if (may_change())
                hand_over(choose());
        look_for_poison(object, size);
}

/* -- threads -- */

static void
run_thread(struct thread *thread)
{
        sigset_t fatal;

        self = thread;
        sigemptyset(&fatal);
        sigaddset(&fatal, SIGSEGV);
        pthread_sigmask(SIG_UNBLOCK, &fatal, NULL); /* workers block all */
        await_baton();
        self->main(self->argument);
        self->finished = true;
        if (self->runner)
                self->runner->thread = NULL;
        interleave_wake(&self->finished, THREADS);
        struct thread *next = self == world.threads ? NULL : choose();
        if (!next && self != world.threads)
                interleave_fail("deadlock: no thread can go on");
        self = NULL;
        if (next)
                give_baton(next);
}

static void *
thread_main(void *argument)
{
        run_thread(argument);
        return NULL;
}

static void *
runner_main(void *argument)
{
        struct runner *runner = argument;

        for (;;) {
                await(&runner->signal);
                run_thread(runner->thread);
        }
        return NULL;
}

/* A real thread from the run before, or a new one.  NULL: it cannot be made. */
static struct runner *
find_runner(void)
{
        struct runner *runner = runners;

        while (runner->thread)
                runner++;
        return runner->made || !pthread_create(&runner->id, &small_stack, runner_main, runner) ? runner : NULL;
}

static int
begin_on_runner(struct thread *thread)
{
        struct runner *runner = find_runner();

        if (!runner)
                return EAGAIN;
        runner->made = true;
        runner->thread = thread;
        thread->runner = runner;
        thread->thread = runner->id;
        notify(&runner->signal);
        return 0;
}

/* The first thread of a world is always a new one: the library's data of each thread must be as new as the rest. */
int
interleave_thread_create(pthread_t *id, const pthread_attr_t *attributes, void *(*main)(void *), void *argument)
{
        struct thread *thread = &world.threads[world.count];

        if (world.count == THREADS)
                interleave_fail("more threads than %d", THREADS);
        *thread = (struct thread){.main = main, .argument = argument, .function = "its beginning"};
        thread->priority = (unsigned)(next_random() >> 33) + (1u << 16);
        bool fresh = INTERLEAVE_SANITIZED || world.count == 0 || attributes;
        int failed = fresh ? pthread_create(&thread->thread, &small_stack, thread_main, thread) : begin_on_runner(thread);
        if (failed)
                return failed;
        *id = thread->thread;
        thread->used = true;
        world.count++;
        return 0;
}

int
interleave_thread_join(pthread_t id, void **result)
{
        struct thread *thread = world.threads;

        while (!thread->used || !pthread_equal(thread->thread, id))
                thread++;
        while (!thread->finished)
                interleave_sleep(&thread->finished);
        thread->used = false; /* its number may come again */
        return thread->runner ? 0 : pthread_join(id, result);
}

/* -- waits of threads -- */

int
interleave_mutex_lock(pthread_mutex_t *mutex, const char *function, int line)
{
        if (!self)
                return pthread_mutex_lock(mutex);
        interleave_step(mutex, sizeof *mutex, "lock", function, line);
        while (pthread_mutex_trylock(mutex))
                interleave_sleep(mutex);
        return 0;
}

int
interleave_mutex_trylock(pthread_mutex_t *mutex, const char *function, int line)
{
        interleave_step(mutex, sizeof *mutex, "trylock", function, line);
        return pthread_mutex_trylock(mutex);
}

int
interleave_mutex_unlock(pthread_mutex_t *mutex, const char *function, int line)
{
        int failed = pthread_mutex_unlock(mutex);

        if (self)
                interleave_wake(mutex, THREADS);
        interleave_step(NULL, 0, "unlocked", function, line);
        return failed;
}

int
interleave_cond_wait(pthread_cond_t *condition, pthread_mutex_t *mutex)
{
        pthread_mutex_unlock(mutex);
        interleave_wake(mutex, THREADS);
        interleave_sleep(condition);
        return interleave_mutex_lock(mutex, __func__, __LINE__);
}

int
interleave_cond_broadcast(pthread_cond_t *condition)
{
        if (self)
                interleave_wake(condition, THREADS);
        return 0;
}

/* A wait until an instant may find that it has come, whenever the seed says so. */
static long
futex_call(unsigned *word, int operation, unsigned value)
{
        bool waits = operation == FUTEX_WAIT || operation == FUTEX_WAIT_BITSET;

        interleave_step(word, waits ? sizeof *word : 0, "futex", __func__, __LINE__);
        if (operation == FUTEX_WAIT_BITSET && interleave_random(2)) {
                errno = ETIMEDOUT;
                return -1;
        }
        if (waits) {
                if (INTERLEAVE_LOAD((_Atomic unsigned *)word, memory_order_relaxed) == value)
                        interleave_sleep(word);
        } else if (operation == FUTEX_WAKE) {
                interleave_wake(word, (int)value);
        } else {
                interleave_fail("futex operation %d is not known here", operation);
        }
        return 0;
}

long
interleave_syscall(long number, ...)
{
        va_list arguments;

        if (number == SYS_membarrier)
                return 0; /* all that happens here is in one order */
#ifdef SYS_arch_prctl
        if (number == SYS_arch_prctl) { /* shadow stacks: the kernel does not know them */
                errno = EINVAL;
                return -1;
        }
#endif
        if (number != SYS_futex || !self)
                interleave_fail("system call %ld is not known here", number);
        va_start(arguments, number);
        unsigned *word = va_arg(arguments, unsigned *);
        int operation = va_arg(arguments, int) & FUTEX_CMD_MASK;
        unsigned value = va_arg(arguments, unsigned);
        va_end(arguments);
        return futex_call(word, operation, value);
}

/* -- actors -- */

static void *
actor_main(void *argument)
{
        const struct actor *actor = argument;

        actor->operation(actor->argument);
        return NULL;
}

void
interleave_act(void (*operation)(void *argument), void *argument)
{
        struct actor *actor = &world.actors[world.acting++];

        if (world.acting == THREADS)
                interleave_fail("more threads than %d", THREADS);
        *actor = (struct actor){.operation = operation, .argument = argument};
        if (interleave_thread_create(&actor->thread, NULL, actor_main, actor))
                interleave_fail("a thread cannot be made");
}

void
interleave_join_actors(void)
{
        interleave_explore(true);
        for (unsigned i = 0; i < world.acting; i++)
                interleave_thread_join(world.actors[i].thread, NULL);
        world.acting = 0;
}

/* -- a world -- */

void
interleave_explore(bool on)
{
        world.exploring = on;
}

static void
draw_scheduler(void)
{
        unsigned length = 64u << interleave_random(6), changes = interleave_random(CHANGES + 1);

        world.by_priority = interleave_random(3) > 0;
        world.chance = 4u << 2 * interleave_random(3);
        world.lowest = 1u << 16;
        world.clock_priority = (unsigned)next_random();
        for (unsigned i = 0; i < changes; i++)
                world.changes[i] = 1 + interleave_random(length);
}

static void *
body_main(void *argument)
{
        (*(void (**)(void))argument)();
        return NULL;
}

void
interleave_run(const char *name, uint64_t seed, void (*body)(void))
{
        pthread_t first;

        prepare();
        memset(&world, 0, sizeof world);
        world.name = name;
        world.random = world.seed = seed;
        world.running = true;
        interleave_system_begin(INT64_C(1000000000) + (int64_t)(next_random() >> 40));
        draw_scheduler();
        interleave_thread_create(&first, NULL, body_main, &body);
        give_baton(&world.threads[0]);
        pthread_join(first, NULL);
        for (unsigned i = 1; i < world.count; i++)
                if (!world.threads[i].finished)
                        interleave_fail("thread %u is left over", i);
        interleave_system_end();
        world.running = false;
}

void
interleave_try(const char *name, void (*body)(void), unsigned seeds)
{
        for (unsigned i = 0; i < seeds; i++) {
                size_t blocks = interleave_blocks();

                interleave_run(name, weir_test_seed() + i, body);
                weir__task_free_kept();
                weir__series_unref_kept();
                world.running = true;
                if (interleave_blocks() != blocks)
                        interleave_fail("%zu blocks are left over", interleave_blocks() - blocks);
                world.running = false;
        }
}
