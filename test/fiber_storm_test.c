/* test/fiber_storm_test.c: many fibers that wait for everything at random, while other threads cancel them by name. */
#include "test/fiber_fixture.h"

#include <sys/syscall.h>

#include "test/blocks_fixture.h"

enum { ROOTS = WEIR_TEST_SANITIZED ? 300 : 2000, NAMES = 16, STEPS = 12, CHANNELS = 4, GUARDS = 4 };

static struct {
        weir_channel *channels[CHANNELS];
        weir_guard *guards[GUARDS];
        weir_semaphore *semaphore;
        _Atomic unsigned begun, ended, unexpected;
        _Atomic unsigned called, freed; /* of all tasks that have a callback here */
        _Atomic unsigned made;
        _Atomic bool is_over;
} at;

struct dice {
        struct weir_test_random random;
        unsigned depth;
};

static unsigned throw(struct dice * dice, unsigned sides)
{
        return (unsigned)weir_test_random_below(&dice->random, sides);
}

static bool
is_expected(int status)
{
        return status == 0 || status == -ECANCELED || status == -ETIMEDOUT || status == -ESHUTDOWN || status == -EIO;
}

static void
expect(int status)
{
        if (!is_expected(status)) {
                at.unexpected++;
                fprintf(stderr, "unexpected: %d\n", status);
        }
}

/* -- tasks -- */

static void
note_call(weir_task *task, void *context)
{
        (void)context;
        expect(weir_task_status(task));
        at.called++;
}

static void
note_free(void *context)
{
        free(context);
        at.freed++;
}

/* With callback and free function, which are counted.  The context is a block that somebody has to free. */
static weir_task *
counted(weir_task *task)
{
        at.made++;
        weir_task_set_context(task, malloc(8), note_free);
        return task;
}

static int roll(void *context);

static struct dice *
dice_below(struct dice *dice)
{
        struct dice *below = malloc(sizeof *below);

        *below = (struct dice){.random = {weir_test_random(&dice->random)}, .depth = dice->depth + 1};
        return below;
}

static weir_task *
fiber(struct dice *dice)
{
        weir_task *task = weir_fiber_new(roll, note_call, dice_below(dice));

        at.made++;
        weir_task_on_free(task, note_free);
        return task;
}

static weir_nsec
soon(struct dice *dice)
{
        return (weir_nsec) throw(dice, 300) * 1000;
}

static weir_task *
timer(struct dice *dice)
{
        return counted(weir_timer_new(throw(dice, 8) ? soon(dice) : WEIR_MSEC(20), note_call, NULL));
}

static void
compute(void *context)
{
        (void)context;
        sched_yield();
}

static weir_task *task_of(struct dice *dice);

static weir_task *
several(struct dice *dice, weir_task *task, void (*add)(weir_task *task, weir_task *child))
{
        for (unsigned i = 1 + throw(dice, 3); i > 0; i--)
                add(task, task_of(dice));
        return task;
}

/* A race without a competitor fails with -ENOENT. */
static void
add_two(weir_task *race, weir_task *child)
{
        weir_race_add(race, child);
        weir_race_add(race, weir_timer_new(WEIR_MSEC(1), NULL, NULL));
}

static weir_task *
module(struct dice *dice)
{
        weir_series *series = weir_series_new(NULL, NULL);

        for (unsigned i = throw(dice, 3); i > 0; i--)
                weir_series_push(series, task_of(dice));
        return counted(weir_module_new(series, note_call, NULL));
}

static weir_task *
task_of(struct dice *dice)
{
        if (dice->depth++ > 3)
                return timer(dice);
        switch (throw(dice, 9)) {
        case 0: return several(dice, counted(weir_parallel_new(note_call, NULL)), weir_parallel_add);
        case 1: return several(dice, counted(weir_race_new(note_call, NULL)), add_two);
        case 2: return module(dice);
        case 3:
        case 4: return fiber(dice);
        case 5: return weir_timeout_new(timer(dice), soon(dice));
        case 6: return counted(weir_go_new(NULL, compute, note_call, NULL));
        case 7: return counted(weir_empty_new(note_call, NULL));
        default: return timer(dice);
        }
}

/* -- steps of a fiber -- */

static int
use_channel(struct dice *dice)
{
        weir_channel *channel = at.channels[throw(dice, CHANNELS)];
        void *message = NULL;

        if (throw(dice, 2))
                return weir_fiber_send(channel, &at);
        int status = weir_fiber_receive(channel, &message);
        if (!status && message != &at)
                at.unexpected++;
        return status;
}

static int
use_guard(struct dice *dice)
{
        weir_guard *guard = at.guards[throw(dice, GUARDS)];
        int status = weir_await_within(weir_guard_acquire_new(guard, NULL, NULL), WEIR_MSEC(1));

        if (status)
                return status == -EDEADLK ? 0 : status;
        status = weir_fiber_sleep(soon(dice));
        if (throw(dice, 4))
                expect(weir_fiber_release(guard));
        return status;
}

static int
use_semaphore(void)
{
        int status = weir_await_within(weir_semaphore_acquire_new(at.semaphore, 1, NULL, NULL), WEIR_MSEC(1));

        if (!status) {
                status = weir_fiber_yield();
                weir_semaphore_release(at.semaphore, 1);
        }
        return status;
}

static int
use_group(struct dice *dice)
{
        weir_group *group = weir_group_open();

        if (throw(dice, 3) == 0)
                weir_group_stop_on_failure(group);
        for (unsigned i = throw(dice, 6); i > 0; i--)
                expect(weir_group_start(group, dice->depth < 3 ? fiber(dice) : timer(dice)));
        if (throw(dice, 2))
                expect(weir_fiber_sleep(soon(dice)));
        if (throw(dice, 4) == 0)
                weir_group_cancel(group);
        return throw(dice, 6) ? weir_group_close(group) : 0; /* or it stays open */
}

static int
use_shield(struct dice *dice)
{
        expect(weir_fiber_shield(true));
        int status = weir_fiber_sleep(soon(dice));
        if (status != 0 && status != -ESHUTDOWN)
                at.unexpected++;
        expect(weir_await(timer(dice)));
        if (throw(dice, 2))
                expect(use_group(dice));
        if (throw(dice, 8))
                expect(weir_fiber_shield(false));
        return 0;
}

static int
step(struct dice *dice)
{
        switch (throw(dice, 14)) {
        case 0: return weir_fiber_yield();
        case 1: return weir_fiber_sleep(soon(dice));
        case 2: return weir_await(timer(dice));
        case 3: return weir_await_within(timer(dice), soon(dice));
        case 4: {
                struct dice below = *dice;
                int status = weir_await(task_of(&below));
                dice->random.state = below.random.state;
                return status;
        }
        case 5: {
                struct dice below = *dice;
                int status = weir_await_within(task_of(&below), soon(dice));
                dice->random.state = below.random.state;
                return status;
        }
        case 6:
        case 7: return use_channel(dice);
        case 8: return use_guard(dice);
        case 9: return use_semaphore();
        case 10: return use_group(dice);
        case 11: return use_shield(dice);
        case 12: return weir_fiber_go(compute, NULL);
        default:
                if (throw(dice, 8) == 0)
                        weir_series_set_deadline(weir_fiber_series(), soon(dice));
                return weir_await(weir_empty_new(NULL, NULL));
        }
}

static int
roll(void *context)
{
        struct dice *dice = context;
        char name[16];
        int status = 0;

        at.begun++;
        snprintf(name, sizeof name, "f%u", throw(dice, NAMES));
        expect(weir_series_set_name(weir_fiber_series(), name));
        for (unsigned i = throw(dice, dice->depth ? STEPS / 3 : STEPS); i > 0; i--) {
                status = step(dice);
                expect(status);
                if (!weir_fiber_is_running())
                        at.unexpected++;
        }
        at.ended++;
        return throw(dice, 10) == 0 ? -EIO : status;
}

/* -- beside them -- */

/* Cancels by name.  What waits at a channel for nobody ends so, too. */
static void *
cancel_at_random(void *context)
{
        struct weir_test_random random = {weir_test_seed() + (uintptr_t)context};
        char name[16];

        while (!at.is_over) {
                snprintf(name, sizeof name, "f%u", (unsigned)weir_test_random_below(&random, NAMES));
                weir_series_cancel_named(name, 1 + weir_test_random_below(&random, 8));
                void *message;
                weir_channel *channel = at.channels[weir_test_random_below(&random, CHANNELS)];
                if (weir_test_random_below(&random, 2))
                        weir_channel_poll(channel, &message);
                else
                        weir_channel_post(channel, &at);
                weir_test_sleep(50000);
        }
        return NULL;
}

/* Looks at all of them, as a program does that is asked what it does. */
static void *
dump_again_and_again(void *context)
{
        int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);

        (void)context;
        while (!at.is_over) {
                weir_debug_dump(nowhere);
                weir_test_sleep(1000000);
        }
        close(nowhere);
        return NULL;
}

static void
begin(int pollers)
{
        memset(&at, 0, sizeof at);
        weir_test_begin_real(pollers);
        for (unsigned i = 0; i < CHANNELS; i++)
                at.channels[i] = weir_channel_new(i % 3, NULL);
        for (unsigned i = 0; i < GUARDS; i++)
                at.guards[i] = weir_guard_new();
        at.semaphore = weir_semaphore_new(3);
}

static void
end(void)
{
        for (unsigned i = 0; i < CHANNELS; i++)
                weir_channel_unref(at.channels[i]);
        for (unsigned i = 0; i < GUARDS; i++) {
                CU_ASSERT(!weir_guard_is_held(at.guards[i], NULL));
                weir_guard_unref(at.guards[i]);
        }
        CU_ASSERT_EQUAL(weir_semaphore_available(at.semaphore), 3);
        weir_semaphore_unref(at.semaphore);
        weir_test_end();
        weir_test_free_kept();
        CU_ASSERT_EQUAL(at.unexpected, 0);
        CU_ASSERT_EQUAL(at.begun, at.ended);
        CU_ASSERT_EQUAL(at.made, at.freed);
        CU_ASSERT(at.called <= at.made);
}

static void
storm(unsigned round, bool is_shut_down, bool is_watched)
{
        struct dice dice = {.random = {weir_test_seed() + round}};
        weir_waitgroup *group = weir_waitgroup_new();
        pthread_t threads[3];
        unsigned count = 2 + is_watched;

        begin(2);
        char path[] = "/tmp/weir-fiber-storm-XXXXXX";
        if (is_watched) {
                close(mkstemp(path));
                CU_ASSERT_EQUAL(weir_trace_start(path), 0);
        }
        for (uintptr_t i = 0; i < count; i++)
                CU_ASSERT_EQUAL_FATAL(
                        pthread_create(&threads[i], NULL, i < 2 ? cancel_at_random : dump_again_and_again, (void *)i), 0);
        for (unsigned i = 0; i < ROOTS; i++)
                CU_ASSERT_EQUAL(weir_task_start_waited(fiber(&dice), group), 0);
        if (is_shut_down)
                weir_test_end();
        CU_ASSERT_EQUAL(weir_waitgroup_wait(group, WEIR_FOREVER), 0);
        at.is_over = true;
        for (unsigned i = 0; i < count; i++)
                pthread_join(threads[i], NULL);
        if (is_watched) {
                CU_ASSERT_EQUAL(weir_trace_stop(), 0);
                unlink(path);
        }
        weir_waitgroup_free(group);
        if (is_shut_down)
                weir_test_begin_real(1);
        end();
}

static void
all_fibers_end_and_nothing_is_left(void)
{
        storm(0, false, false);
        int64_t before = bytes_out;
        unsigned descriptors = weir_test_entries_of("/proc/self/fd");

        for (unsigned round = 1; round < 4; round++)
                storm(round, false, false);
        CU_ASSERT_EQUAL(bytes_out, before);
        CU_ASSERT_EQUAL(weir_test_entries_of("/proc/self/fd"), descriptors);
}

static void
a_shutdown_comes_meanwhile(void)
{
        int64_t before = bytes_out;

        for (unsigned round = 10; round < 14; round++)
                storm(round, true, false);
        CU_ASSERT_EQUAL(bytes_out, before);
}

static void
a_dump_and_a_trace_see_them(void)
{
        for (unsigned round = 20; round < 23; round++)
                storm(round, false, true);
}

/* -- channels that go -- */

enum { HAND_OVERS = WEIR_TEST_SANITIZED ? 3000 : 30000 };

static int
send_one(void *channel)
{
        int status = weir_fiber_send(channel, &at);

        weir_channel_unref(channel);
        return status;
}

/* Two waits at one channel, which is gone once both sides have come to the end of the second one. */
static int
hand_over_and_free(void *context)
{
        void *message;

        (void)context;
        for (unsigned i = 0; i < HAND_OVERS; i++) {
                weir_channel *channel = weir_channel_new(0, NULL);
                weir_group *group = weir_group_open();

                for (unsigned j = 0; j < 2; j++) {
                        weir_group_start(group, weir_fiber_new(send_one, NULL, weir_channel_ref(channel)));
                        CU_ASSERT_EQUAL(weir_fiber_receive(channel, &message), 0);
                }
                weir_channel_unref(channel);
                CU_ASSERT_EQUAL(weir_group_close(group), 0);
        }
        return 0;
}

static void *
dump_without_a_pause(void *context)
{
        int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);

        (void)context;
        while (!at.is_over)
                weir_debug_dump(nowhere);
        close(nowhere);
        return NULL;
}

/* A dump may look at the channel of a wait while that ends. */
static void
a_dump_looks_at_channels_that_go(void)
{
        pthread_t dumper;

        at.is_over = false;
        weir_test_begin_real(2);
        CU_ASSERT_EQUAL_FATAL(pthread_create(&dumper, NULL, dump_without_a_pause, NULL), 0);
        CU_ASSERT_EQUAL(weir_task_run(weir_fiber_new(hand_over_and_free, NULL, NULL)), 0);
        at.is_over = true;
        pthread_join(dumper, NULL);
        weir_test_end();
}

/* -- errno -- */

static _Atomic unsigned moved, wrong;

/* A compiler must not keep what these two return: the C library declares its functions as if the thread stayed the same. */
static WEIR_TEST_OUTLINE int
errno_here(void)
{
        return *__errno_location();
}

static WEIR_TEST_OUTLINE long
thread_here(void)
{
        return syscall(SYS_gettid);
}

/* The errno of the thread on which it was set before the await must not be seen on another one. */
static int
look_at_errno(void *context)
{
        (void)context;
        for (unsigned i = 0; i < 200; i++) {
                long before = thread_here();

                errno = 1;
                weir_fiber_go(compute, NULL);
                errno = 2;
                wrong += errno_here() != 2;
                moved += before != thread_here();
                if (i % 3 == 0) {
                        errno = 3;
                        weir_fiber_sleep(1000);
                        errno = 4;
                        wrong += errno_here() != 4 || errno != 4;
                }
        }
        return 0;
}

static int
look_at_errno_in_many(void *context)
{
        weir_group *group = weir_group_open();

        (void)context;
        for (unsigned i = 0; i < 20; i++)
                CU_ASSERT_EQUAL(weir_group_start(group, weir_fiber_new(look_at_errno, NULL, NULL)), 0);
        return weir_group_close(group);
}

static void
errno_is_that_of_the_thread_that_runs(void)
{
        moved = wrong = 0;
        CU_ASSERT_EQUAL(weir_test_run_fiber_real(2, look_at_errno_in_many, NULL), 0);
        CU_ASSERT_EQUAL(wrong, 0);
        CU_ASSERT(moved > 0);
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(all_fibers_end_and_nothing_is_left),
                WEIR_TEST(a_shutdown_comes_meanwhile),
                WEIR_TEST(a_dump_and_a_trace_see_them),
                WEIR_TEST(a_dump_looks_at_channels_that_go),
                WEIR_TEST(errno_is_that_of_the_thread_that_runs),
        };

        return weir_test_main("fiber_storm", tests, sizeof tests / sizeof *tests);
}
