/* test/sleep_test.c: what the timer of a poller is set to when it sleeps. */
#include <stdlib.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "kernel/base/clock.h"
#include "kernel/loop/poller.h"
#include "test/support.h"

static unsigned sets;

int __real_timerfd_settime(int fd, int flags, const struct itimerspec *value, struct itimerspec *before);
int __wrap_timerfd_settime(int fd, int flags, const struct itimerspec *value, struct itimerspec *before);

int
__wrap_timerfd_settime(int fd, int flags, const struct itimerspec *value, struct itimerspec *before)
{
        sets++;
        return __real_timerfd_settime(fd, flags, value, before);
}

static struct weir__poller *poller;
static weir_nsec now;

static void
begin(void)
{
        sets = 0;
        now = weir__clock_monotonic();
        poller = weir__poller_new(0);
        CU_ASSERT_PTR_NOT_NULL_FATAL(poller);
        CU_ASSERT_EQUAL_FATAL(weir__poller_open(poller), 0);
        weir__sleep_end(poller, WEIR__SLEEP_MARKED, 0, now);
}

static void
end(void)
{
        weir__poller_close(poller);
        close(poller->inbox.event_fd);
        free(poller);
}

/* Sleeps until `next` at most, and is woken after `slept`.  Returns what the timer is set to meanwhile. */
static weir_nsec
sleep_until(weir_nsec next, weir_nsec slept)
{
        enum weir__sleep_kind kind = weir__sleep_begin(poller, now, next);
        weir_nsec armed = poller->sleep.armed_for;

        CU_ASSERT_EQUAL(kind, WEIR__SLEEP_MARKED);
        now += slept;
        weir__sleep_end(poller, kind, 1, now);
        return armed;
}

static void
deadlines_that_move_on_set_the_timer_once_a_second_at_most(void)
{
        begin();
        weir_nsec first = now + WEIR_SEC(10);
        CU_ASSERT_EQUAL(sleep_until(first, WEIR_MSEC(1)), first);
        for (int i = 1; i <= 1000; i++)
                CU_ASSERT_EQUAL(sleep_until(first + i * WEIR_MSEC(1), WEIR_MSEC(1)), first);
        CU_ASSERT_EQUAL(sleep_until(WEIR_FOREVER, WEIR_MSEC(1)), first);
        CU_ASSERT_EQUAL(sets, 1);

        /* Within a second of its time it is set anew. */
        now = first - WEIR_MSEC(999);
        weir__sleep_end(poller, WEIR__SLEEP_MARKED, 1, now);
        CU_ASSERT_EQUAL(sleep_until(now + WEIR_SEC(5), WEIR_MSEC(1)), now + WEIR_SEC(5) - WEIR_MSEC(1));
        CU_ASSERT_EQUAL(sets, 2);
        end();
}

static void
an_earlier_deadline_sets_the_timer(void)
{
        begin();
        CU_ASSERT_EQUAL(sleep_until(WEIR_FOREVER, WEIR_MSEC(1)), WEIR_FOREVER);
        CU_ASSERT_EQUAL(sets, 0);
        weir_nsec far = now + WEIR_SEC(10), near = now + WEIR_SEC(9);
        CU_ASSERT_EQUAL(sleep_until(far, WEIR_MSEC(1)), far);
        CU_ASSERT_EQUAL(sleep_until(near, WEIR_MSEC(1)), near);
        CU_ASSERT_EQUAL(sleep_until(far, WEIR_MSEC(1)), near);
        CU_ASSERT_EQUAL(sleep_until(now + WEIR_MSEC(5), WEIR_MSEC(1)), now + WEIR_MSEC(4));
        CU_ASSERT_EQUAL(sets, 3);
        end();
}

static void
a_timer_that_has_fired_is_set_anew(void)
{
        begin();
        weir_nsec first = now + WEIR_SEC(2);
        CU_ASSERT_EQUAL(sleep_until(first, WEIR_SEC(2)), first);
        CU_ASSERT_EQUAL(poller->sleep.armed_for, WEIR_FOREVER);
        CU_ASSERT_EQUAL(sleep_until(first + WEIR_SEC(2), 1), first + WEIR_SEC(2));
        CU_ASSERT_EQUAL(weir__sleep_begin(poller, now, now), WEIR__SLEEP_NONE);
        CU_ASSERT_EQUAL(sets, 2);
        end();
}

/* A poller that does not sleep takes the event in a poll between its work. */
static void
a_timer_that_has_fired_between_two_sleeps_is_set_anew(void)
{
        begin();
        weir_nsec first = now + WEIR_SEC(2);
        CU_ASSERT_EQUAL(sleep_until(first, WEIR_MSEC(1)), first);
        now = first + WEIR_SEC(1);
        CU_ASSERT_EQUAL(sleep_until(now + WEIR_SEC(5), WEIR_MSEC(1)), now + WEIR_SEC(5) - WEIR_MSEC(1));
        CU_ASSERT_EQUAL(sets, 2);
        end();
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(deadlines_that_move_on_set_the_timer_once_a_second_at_most),
                WEIR_TEST(an_earlier_deadline_sets_the_timer),
                WEIR_TEST(a_timer_that_has_fired_is_set_anew),
                WEIR_TEST(a_timer_that_has_fired_between_two_sleeps_is_set_anew),
        };

        return weir_test_main("sleep", tests, sizeof tests / sizeof *tests);
}
