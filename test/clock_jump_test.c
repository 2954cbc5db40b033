/* test/clock_jump_test.c: timers that follow another clock, on the real one.
 *
 * This file replaces clock_gettime, in this program and in the library linked into it: its results for CLOCK_REALTIME and
 * CLOCK_BOOTTIME is shifted.  The event that tells the library of a jump is made by having its descriptor expire.  Where the
 * machine lets it, there are real ones as well: a time namespace, and, if WEIR_TEST_SET_CLOCK is set, CLOCK_REALTIME put forward
 * by ten seconds for less than 20 milliseconds. */
#include <sched.h>
#include <sys/timerfd.h>
#include <time.h>

#include "test/timer_fixture.h"

#include "kernel/loop/clock_timer.h"

#define HOUR WEIR_SEC(3600)
#define SOON WEIR_MSEC(30)

/* -- clocks that jump -- */

int __real_clock_gettime(clockid_t clock, struct timespec *time);
int __wrap_clock_gettime(clockid_t clock, struct timespec *time);

static _Atomic weir_nsec wall_shift, boot_shift;

int
__wrap_clock_gettime(clockid_t clock, struct timespec *time)
{
        int failed = __real_clock_gettime(clock, time);
        weir_nsec shift = clock == CLOCK_REALTIME ? wall_shift : clock == CLOCK_BOOTTIME ? boot_shift : 0;
        weir_nsec shown = time->tv_sec * WEIR_SEC(1) + time->tv_nsec + shift;

        time->tv_sec = shown / WEIR_SEC(1);
        time->tv_nsec = shown % WEIR_SEC(1);
        return failed;
}

/* By which a poller is told of jumps; -1: by nothing yet. */
static int
news_of(unsigned poller)
{
        struct weir__poller *told = weir__pollers.at[poller];

        weir__lock(&told->lock);
        int fd = told->clock_timers.are_watched ? told->clock_change_fd : -1;
        weir__unlock(&told->lock);
        return fd;
}

/* Tells it, if it can be told. */
static void
tell(unsigned poller)
{
        const struct itimerspec at_once = {.it_value.tv_nsec = 1};
        int fd = news_of(poller);

        if (fd >= 0) {
                CU_ASSERT_EQUAL(timerfd_settime(fd, 0, &at_once, NULL), 0);
        }
}

static void
begin(void)
{
        wall_shift = boot_shift = 0;
        weir_test_begin_real(1);
}

/* Waits until its worker has the descriptor, and nothing to do. */
static void
let_it_watch(void)
{
        WEIR_TEST_EVENTUALLY(news_of(0) >= 0);
        CU_ASSERT_EQUAL(weir_task_run(weir_empty_new(NULL, NULL)), 0);
}

static void
start(weir_task *task)
{
        CU_ASSERT_EQUAL(weir_task_start(weir_test_recorded(task)), 0);
}

struct wall_record {
        struct weir_test_record record; /* first */
        weir_nsec wall;
};

static void
done(weir_task *task, void *context)
{
        ((struct wall_record *)context)->wall = weir_wall_now();
        weir_test_done(task, context);
}

static void
wait_for(struct wall_record *record)
{
        WEIR_TEST_EVENTUALLY(record->record.frees > 0);
        WEIR_TEST_CALLED(&record->record, 0);
}

/* -- without jumps -- */

static void
they_end_at_their_instants_and_never_early(void)
{
        enum { COUNT = 200 };
        static struct wall_record walls[COUNT], boots[COUNT];
        weir_nsec wall = weir_wall_now(), now = weir_now();

        memset(walls, 0, sizeof walls);
        memset(boots, 0, sizeof boots);
        begin();
        for (unsigned i = 0; i < COUNT; i++) {
                start(weir_timer_new_at(wall + i * WEIR_USEC(200), done, &walls[i]));
                start(weir_timer_new_boottime(i * WEIR_USEC(200), done, &boots[i]));
        }
        for (unsigned i = 0; i < COUNT; i++) {
                wait_for(&walls[i]);
                wait_for(&boots[i]);
                CU_ASSERT(walls[i].wall >= wall + i * WEIR_USEC(200));
                CU_ASSERT(walls[i].wall < wall + i * WEIR_USEC(200) + WEIR_TEST_TOLERANCE);
                CU_ASSERT(boots[i].record.at >= now + i * WEIR_USEC(200));
                CU_ASSERT(boots[i].record.at < now + i * WEIR_USEC(200) + WEIR_TEST_TOLERANCE);
        }
        weir_test_end();
}

static void
only_who_has_such_a_timer_pays_a_descriptor(void)
{
        struct wall_record ordinary = {0}, wall = {0}, past = {0};

        begin();
        weir_test_end(); /* what is kept for ever is there */
        unsigned before = weir_test_entries_of("/proc/self/fd");
        begin();
        start(weir_timer_new(SOON, done, &ordinary));
        wait_for(&ordinary);
        unsigned without = weir_test_entries_of("/proc/self/fd");
        start(weir_timer_new_at(weir_wall_now() + HOUR, done, &wall));
        let_it_watch();
        CU_ASSERT_EQUAL(weir_test_entries_of("/proc/self/fd"), without + 1);
        start(weir_timer_new_at(0, done, &past));
        wait_for(&past);
        CU_ASSERT_EQUAL(weir_test_entries_of("/proc/self/fd"), without + 1);
        weir_test_end();
        CU_ASSERT_EQUAL(weir_test_entries_of("/proc/self/fd"), before);
}

/* -- jumps -- */

static void
a_jump_forward_ends_it_at_once(void)
{
        struct wall_record wall = {0}, ordinary = {0}, boot = {0};

        begin();
        weir_nsec target = weir_wall_now() + HOUR;
        start(weir_timer_new_at(target, done, &wall));
        start(weir_timer_new(HOUR, done, &ordinary));
        start(weir_timer_new_boottime(HOUR, done, &boot));
        let_it_watch();
        wall_shift = 2 * HOUR;
        weir_nsec jumped = weir_now();
        tell(0);
        wait_for(&wall);
        CU_ASSERT(wall.wall >= target);
        CU_ASSERT(wall.record.at - jumped < WEIR_TEST_TOLERANCE);
        CU_ASSERT_EQUAL(ordinary.record.calls + boot.record.calls, 0);
        weir_test_end();
}

static void
each_of_many_jumps_is_noticed(void)
{
        begin();
        for (unsigned i = 0; i < 50; i++) {
                struct wall_record wall = {0};

                start(weir_timer_new_at(weir_wall_now() + HOUR, done, &wall));
                let_it_watch();
                wall_shift += 2 * HOUR;
                tell(0);
                wait_for(&wall);
        }
        weir_test_end();
}

/* Returns whether the jump came before the timer had ended. */
static bool
jump_back(bool told)
{
        struct wall_record wall = {0}, never = {0};

        begin();
        start(weir_timer_new_at(WEIR_FOREVER, done, &never));
        let_it_watch();
        weir_nsec began = weir_now(), target = weir_wall_now() + 10 * SOON;
        start(weir_timer_new_at(target, done, &wall));
        wall_shift = -SOON;
        bool in_time = weir_now() < began + 10 * SOON;
        if (told) {
                tell(0);
        }
        wait_for(&wall);
        if (in_time) {
                CU_ASSERT(wall.wall >= target);
                CU_ASSERT(wall.record.at >= began + 11 * SOON);
                CU_ASSERT(wall.record.at < began + 11 * SOON + WEIR_TEST_TOLERANCE);
        }
        weir_test_end();
        return in_time;
}

static void
a_jump_back_puts_it_off(void)
{
        WEIR_TEST_EVENTUALLY(jump_back(false));
        WEIR_TEST_EVENTUALLY(jump_back(true));
}

/* The clock change is that of a suspension for two hours. */
static void
time_in_suspension_counts_for_those_that_ask_for_it(void)
{
        struct wall_record wall = {0}, boot = {0}, later = {0}, reset = {0}, ordinary = {0};

        begin();
        start(weir_timer_new(HOUR, done, &ordinary));
        start(weir_timer_new_at(weir_wall_now() + HOUR, done, &wall));
        start(weir_timer_new_boottime(HOUR, done, &boot));
        start(weir_timer_new_boottime(2 * HOUR + SOON, done, &later));
        start(weir_timer_new_boottime_named("reset", HOUR, done, &reset));
        CU_ASSERT_EQUAL(weir_timer_extend("reset", HOUR), 1);
        let_it_watch();
        weir_nsec woken = weir_now();
        wall_shift = boot_shift = 2 * HOUR;
        tell(0);
        wait_for(&wall);
        wait_for(&boot);
        wait_for(&reset);
        wait_for(&later);
        CU_ASSERT(later.record.at - woken < SOON + WEIR_TEST_TOLERANCE);
        CU_ASSERT_EQUAL(ordinary.record.calls, 0);
        weir_test_end();
}

/* -- no descriptor to be had -- */

static void
without_a_descriptor_it_looks_each_second(void)
{
        struct wall_record first = {0}, second = {0};
        struct rlimit limit, none;

        begin();
        CU_ASSERT_EQUAL(weir_task_run(weir_empty_new(NULL, NULL)), 0);
        CU_ASSERT_EQUAL_FATAL(getrlimit(RLIMIT_NOFILE, &limit), 0);
        none = limit;
        none.rlim_cur = 0;
        CU_ASSERT_EQUAL_FATAL(setrlimit(RLIMIT_NOFILE, &none), 0);
        start(weir_timer_new_at(weir_wall_now() + HOUR, done, &first));
        start(weir_timer_new_at(weir_wall_now() + 3 * HOUR, done, &second));
        weir_test_sleep(WEIR_MSEC(10));
        CU_ASSERT(news_of(0) < 0);
        wall_shift = 2 * HOUR;
        weir_nsec jumped = weir_now();
        wait_for(&first);
        CU_ASSERT(first.record.at - jumped < WEIR_SEC(1) + WEIR_TEST_TOLERANCE);
        CU_ASSERT(news_of(0) < 0);
        CU_ASSERT_EQUAL_FATAL(setrlimit(RLIMIT_NOFILE, &limit), 0);
        wall_shift = 4 * HOUR;
        wait_for(&second);
        WEIR_TEST_EVENTUALLY(news_of(0) >= 0); /* from then on it is told */
        weir_test_end();
}

/* Returns how long it took. */
static weir_nsec
shut_down_without_a_descriptor(void)
{
        struct wall_record wall = {0};
        struct rlimit limit, none;

        begin();
        CU_ASSERT_EQUAL(weir_task_run(weir_empty_new(NULL, NULL)), 0);
        CU_ASSERT_EQUAL_FATAL(getrlimit(RLIMIT_NOFILE, &limit), 0);
        none = limit;
        none.rlim_cur = 0;
        CU_ASSERT_EQUAL_FATAL(setrlimit(RLIMIT_NOFILE, &none), 0);
        start(weir_timer_new_at(weir_wall_now() + HOUR, done, &wall));
        weir_test_sleep(WEIR_MSEC(10));
        weir_nsec before = weir_now();
        weir_test_end();
        weir_nsec took = weir_now() - before;
        CU_ASSERT_EQUAL_FATAL(setrlimit(RLIMIT_NOFILE, &limit), 0);
        WEIR_TEST_CALLED(&wall.record, -ESHUTDOWN);
        return took;
}

/* Nearly a second, if it did; a busy machine may need as long now and then. */
static void
shutdown_does_not_wait_for_a_descriptor(void)
{
        WEIR_TEST_EVENTUALLY(shut_down_without_a_descriptor() < WEIR_MSEC(500));
}

/* -- several threads, several pollers, jumps all the time -- */

static _Atomic bool stop;

static void
keep_jumping(void *unused)
{
        (void)unused;
        for (unsigned i = 0; !stop; i++) {
                wall_shift = (weir_nsec)(i % 7) * HOUR;
                tell(0);
                tell(1);
                weir_test_sleep(WEIR_USEC(200));
        }
}

static void
count(weir_task *task, void *counter)
{
        (void)task;
        atomic_fetch_add((_Atomic unsigned *)counter, 1);
}

static _Atomic unsigned started, ended;

static void
start_and_end_them(void *name)
{
        for (unsigned i = 0; i < 2000 && !stop; i++) {
                weir_nsec when = weir_wall_now() + (weir_nsec)(i % 100) * WEIR_MSEC(300000);

                CU_ASSERT_EQUAL(weir_task_start(weir_timer_new_at_named(name, when, count, &ended)), 0);
                CU_ASSERT_EQUAL(weir_task_start(weir_timer_new_boottime_named(name, WEIR_USEC(i % 50), count, &ended)), 0);
                atomic_fetch_add(&started, 2);
                if (i % 5 == 0) {
                        weir_timer_cancel(name, 3);
                        weir_timer_reset(name, HOUR / 2);
                        weir_timer_extend(name, -1);
                }
        }
}

static void
jumps_race_with_all_that_is_done_to_timers(void)
{
        struct weir_test_thread jumper, users[2];

        wall_shift = boot_shift = 0;
        weir_test_begin_real(2);
        stop = false;
        weir_test_thread_start(&jumper, keep_jumping, NULL);
        weir_test_thread_start(&users[0], start_and_end_them, "one");
        weir_test_thread_start(&users[1], start_and_end_them, "other");
        weir_test_thread_join(&users[0]);
        weir_test_thread_join(&users[1]);
        stop = true;
        weir_test_thread_join(&jumper);
        weir_test_end();
        CU_ASSERT_EQUAL(ended, started);
        CU_ASSERT_EQUAL(weir_timer_count("one") + weir_timer_count("other"), 0);
}

/* -- a time namespace: the clocks of a child differ from each other by more than anybody expects -- */

static void
run_in_namespace(void)
{
        struct wall_record wall = {0}, boot = {0};
        struct timespec time, other;

        __real_clock_gettime(CLOCK_BOOTTIME, &time);
        __real_clock_gettime(CLOCK_MONOTONIC, &other);
        if (time.tv_sec - other.tv_sec < 40000000) {
                fprintf(stderr, "no offset");
                _exit(1);
        }
        begin();
        weir_nsec now = weir_now(), target = weir_wall_now() + SOON;
        start(weir_timer_new_at(target, done, &wall));
        start(weir_timer_new_boottime(SOON, done, &boot));
        while (!wall.record.frees || !boot.record.frees) {
                weir_test_sleep(WEIR_MSEC(1));
        }
        if (wall.wall < target || boot.record.at < now + SOON || boot.record.at > now + SOON + WEIR_TEST_TOLERANCE) {
                fprintf(stderr, "wrong end");
                _exit(1);
        }
        weir_shutdown();
        _exit(0);
}

static void
nothing_is_made_of_how_the_clocks_are_to_each_other(void)
{
        static const char offsets[] = "boottime 50000000 0\nmonotonic 7000000 500000000\n";
        char said[256];

        if (unshare(CLONE_NEWTIME)) { /* of children only */
                printf("no time namespace here (%s) ...", strerrorname_np(errno));
                return;
        }
        int fd = open("/proc/self/timens_offsets", O_WRONLY | O_CLOEXEC);
        CU_ASSERT_FATAL(fd >= 0);
        CU_ASSERT_EQUAL_FATAL(write(fd, offsets, sizeof offsets - 1), sizeof offsets - 1);
        close(fd);
        CU_ASSERT_EQUAL(weir_test_child(run_in_namespace, said, sizeof said), 0);
        CU_ASSERT_STRING_EQUAL(said, "");
}

/* -- the clock of the machine -- */

static int
set_wall_ahead_of_monotonic(weir_nsec by)
{
        struct timespec now;

        __real_clock_gettime(CLOCK_MONOTONIC, &now);
        weir_nsec wall = now.tv_sec * WEIR_SEC(1) + now.tv_nsec + by;
        return clock_settime(CLOCK_REALTIME, &(struct timespec){wall / WEIR_SEC(1), wall % WEIR_SEC(1)});
}

#define AHEAD WEIR_SEC(10)

/* It is put right again after 20 ms at the latest, whatever happens. */
static void
the_clock_of_the_machine_is_set(void)
{
        struct wall_record wall = {0}, after = {0};

        if (!getenv("WEIR_TEST_SET_CLOCK")) {
                printf("only with WEIR_TEST_SET_CLOCK ...");
                return;
        }
        begin();
        weir_nsec ahead = weir_wall_now() - weir_now();
        start(weir_timer_new_at(weir_wall_now() + AHEAD / 2, done, &wall));
        start(weir_timer_new_at(weir_wall_now() + 10 * AHEAD, done, &after));
        let_it_watch();
        weir_nsec began = weir_now();
        int failed = set_wall_ahead_of_monotonic(ahead + AHEAD) ? errno : 0;
        while (!failed && !wall.record.frees && weir_now() - began < WEIR_MSEC(20)) {
                sched_yield();
        }
        weir_nsec lasted = weir_now() - began;
        if (!failed) {
                CU_ASSERT_EQUAL(set_wall_ahead_of_monotonic(ahead), 0);
                CU_ASSERT_EQUAL(wall.record.frees, 1);
                printf("(for %lld us) ...", (long long)lasted / 1000);
        } else {
                printf("not permitted (%s) ...", strerrorname_np(failed));
        }
        CU_ASSERT_EQUAL(after.record.calls, 0);
        weir_test_end();
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(nothing_is_made_of_how_the_clocks_are_to_each_other), /* a child of what has no threads yet */
                WEIR_TEST(they_end_at_their_instants_and_never_early),
                WEIR_TEST(only_who_has_such_a_timer_pays_a_descriptor),
                WEIR_TEST(a_jump_forward_ends_it_at_once),
                WEIR_TEST(each_of_many_jumps_is_noticed),
                WEIR_TEST(a_jump_back_puts_it_off),
                WEIR_TEST(time_in_suspension_counts_for_those_that_ask_for_it),
                WEIR_TEST(without_a_descriptor_it_looks_each_second),
                WEIR_TEST(shutdown_does_not_wait_for_a_descriptor),
                WEIR_TEST(jumps_race_with_all_that_is_done_to_timers),
                WEIR_TEST(the_clock_of_the_machine_is_set),
        };

        return weir_test_main("clock_jump", tests, sizeof tests / sizeof *tests);
}
