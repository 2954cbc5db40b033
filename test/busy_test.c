/* test/busy_test.c: timers of a poller that has had no time to sleep for more than a second.
 *
 * The clock is real: what is tested is the timer of the system. */
#include <stdatomic.h>

#include <weir/series.h>
#include <weir/task.h>
#include <weir/timer.h>

#include "test/fixture.h"

static weir_nsec busy_until;

/* Starts itself again, so that the poller always has work. */
static void
go_on(weir_task *task, void *unused)
{
        (void)task;
        if (weir_test_now() < busy_until)
                weir_task_start(weir_empty_new(go_on, unused));
}

static void
a_timer_that_comes_behind_a_long_rush_expires(void)
{
        struct weir_test_record early = {0}, late = {0};

        weir_test_begin_real(1);
        weir_nsec began = weir_test_now();
        weir_task_start(
                weir_test_timer(WEIR_MSEC(1100), &early)); /* the poller sets the timer of the system for it, and sleeps */
        weir_test_sleep(WEIR_MSEC(20));
        busy_until = began + WEIR_MSEC(1300);
        weir_task_start(weir_empty_new(go_on, NULL));
        weir_task_start(weir_test_timer(WEIR_MSEC(1600), &late));
        weir_test_wait_freed(&late);
        WEIR_TEST_CALLED(&early, 0);
        WEIR_TEST_CALLED(&late, 0);
        weir_test_end();
}

int
main(void)
{
        static const struct weir_test tests[] = {WEIR_TEST(a_timer_that_comes_behind_a_long_rush_expires)};

        return weir_test_main("busy", tests, sizeof tests / sizeof *tests);
}
