/* test/timer_with_test.c: a function with the context of a timer that is pending: the timer cannot end meanwhile.
 *
 * Most tests run on the virtual clock.  Those where a callback must not begin use threads and latches, and no clock. */
#include "test/timer_fixture.h"

#define FAR WEIR_TEST_FAR

/* What a call has seen. */
struct look {
        const struct weir_test_record *record;
        unsigned calls;
        void *context;
        void (*act)(void);
        int ended; /* of the record, when `act` has returned */
};

static void
look(void *context, void *argument)
{
        struct look *look = argument;

        look->calls++;
        look->context = context;
        if (look->act) {
                look->act();
        }
        if (look->record) {
                look->ended = look->record->calls;
        }
}

static int
with(const char *name, struct look *seen)
{
        return weir_timer_with(name, look, seen);
}

static void
start(const char *name, weir_nsec after, struct weir_test_record *record)
{
        CU_ASSERT_EQUAL(weir_task_start(weir_test_named(name, after, record)), 0);
}

/* -- which timer -- */

static void
it_is_the_oldest_that_is_pending(void)
{
        struct weir_test_record records[4] = {0};
        struct look seen = {0};

        weir_test_begin_virtual();
        weir_task *unstarted = weir_test_named("name", FAR, &records[0]);
        start("name", FAR, &records[1]);
        start("name", FAR, &records[2]);
        start("other", FAR, &records[3]);
        CU_ASSERT_EQUAL(with("name", &seen), 1);
        CU_ASSERT_PTR_EQUAL(seen.context, &records[1]);
        CU_ASSERT_EQUAL(weir_task_start(unstarted), 0);
        CU_ASSERT_EQUAL(with("name", &seen), 1);
        CU_ASSERT_PTR_EQUAL(seen.context, &records[0]);
        CU_ASSERT_EQUAL(weir_timer_cancel("name", 2), 2);
        CU_ASSERT_EQUAL(with("name", &seen), 1);
        CU_ASSERT_PTR_EQUAL(seen.context, &records[2]);
        CU_ASSERT_EQUAL(seen.calls, 3);
        weir_test_end();
        WEIR_TEST_CALLED(&records[2], -ESHUTDOWN);
        WEIR_TEST_CALLED(&records[3], -ESHUTDOWN);
}

static void
without_a_pending_timer_nothing_is_called(void)
{
        struct weir_test_record cancelled = {0}, over = {0};
        struct look seen = {0};

        CU_ASSERT_EQUAL(with("name", &seen), 0);
        weir_test_begin_virtual();
        CU_ASSERT_EQUAL(with("name", &seen), 0);
        CU_ASSERT_EQUAL(with("", &seen), 0);
        CU_ASSERT_EQUAL(with(NULL, &seen), 0);
        CU_ASSERT_EQUAL(weir_timer_with("name", NULL, NULL), -EINVAL);
        start("name", 1, &over);
        weir_test_pass(1);
        weir_task *timer = weir_test_named("name", FAR, &cancelled);
        CU_ASSERT_EQUAL(with("name", &seen), 0);
        weir_timer_cancel("name", WEIR_ALL);
        CU_ASSERT_EQUAL(with("name", &seen), 0);
        weir_task_dismiss(timer);
        weir_test_end();
        CU_ASSERT_EQUAL(with("name", &seen), 0);
        CU_ASSERT_EQUAL(seen.calls, 0);
}

static struct look seen_by_callback;

static void
look_at_own_name(weir_task *task, void *context)
{
        CU_ASSERT_EQUAL(with("own", &seen_by_callback), 0);
        weir_test_done(task, context);
}

static void
a_callback_does_not_find_itself(void)
{
        struct weir_test_record record = {0};

        weir_test_begin_virtual();
        CU_ASSERT_EQUAL(weir_task_start(weir_test_recorded(weir_timer_new_named("own", 1, look_at_own_name, &record))), 0);
        weir_test_pass(1);
        weir_test_end();
        WEIR_TEST_CALLED(&record, 0);
}

/* -- the timer afterwards -- */

static void
it_ends_when_it_would_have_ended_and_in_its_place(void)
{
        struct weir_test_record records[5] = {0};
        _Atomic unsigned order = 0;
        struct look seen = {0};

        weir_test_begin_virtual();
        weir_nsec began = weir_now();
        for (unsigned i = 0; i < 5; i++) {
                records[i].counter = &order;
        }
        start("a", WEIR_SEC(1), &records[0]);
        start("b", WEIR_SEC(1), &records[1]);
        CU_ASSERT_EQUAL(weir_task_start(weir_test_recorded(weir_timer_new_at_named("wall", weir_wall_now() + WEIR_SEC(1),
                                                                                   weir_test_done, &records[2]))), 0);
        start("c", WEIR_SEC(1), &records[3]);
        start("d", WEIR_SEC(1), &records[4]);
        CU_ASSERT_EQUAL(with("c", &seen) + with("wall", &seen) + with("a", &seen) + with("b", &seen) + with("a", &seen), 5);
        weir_test_pass(WEIR_SEC(2));
        for (unsigned i = 0; i < 5; i++) {
                WEIR_TEST_CALLED(&records[i], 0);
                CU_ASSERT_EQUAL(records[i].at, began + WEIR_SEC(1));
                CU_ASSERT_EQUAL(records[i].order, i);
        }
        weir_test_end();
}

static void
note_tick(weir_task *ticker, void *context)
{
        if (weir_ticker_is_tick(ticker)) {
                *(weir_nsec *)context = weir_ticker_scheduled(ticker);
        }
}

static void
a_ticker_keeps_its_phase_also_with_slack(void)
{
        weir_nsec last = 0;
        struct look seen = {0};

        weir_test_begin_virtual();
        weir_nsec began = weir_now();
        weir_task *ticker = weir_ticker_new_named("tick", WEIR_MSEC(7), WEIR_TICK_SKIP, note_tick, &last);
        weir_timer_set_slack(ticker, WEIR_MSEC(4));
        CU_ASSERT_EQUAL(weir_task_start(ticker), 0);
        for (unsigned i = 0; i < 100; i++) {
                weir_test_pass(WEIR_MSEC(5));
                with("tick", &seen);
                with("tick", &seen);
        }
        CU_ASSERT(seen.calls > 100);
        CU_ASSERT_EQUAL((last - began) % WEIR_MSEC(7), 0);
        CU_ASSERT(last - began > WEIR_MSEC(480));
        weir_test_end();
}

/* -- what comes meanwhile -- */

static void
cancel_name(void)
{
        CU_ASSERT_EQUAL(weir_timer_cancel("name", WEIR_ALL), 1);
        CU_ASSERT_EQUAL(weir_timer_cancel("name", WEIR_ALL), 0);
}

static void
a_cancel_meanwhile_counts_and_calls_back_afterwards(void)
{
        struct weir_test_record record = {0};
        struct look seen = {.act = cancel_name, .record = &record};

        weir_test_begin_virtual();
        start("name", FAR, &record);
        CU_ASSERT_EQUAL(with("name", &seen), 1);
        CU_ASSERT_EQUAL(seen.ended, 0);
        weir_test_pass(0);
        WEIR_TEST_CALLED(&record, -ECANCELED);
        CU_ASSERT_EQUAL(with("name", &seen), 0);
        weir_test_end();
}

static void
reset_name(void)
{
        struct weir_timer_info info = weir_test_info("name");

        CU_ASSERT_EQUAL(info.state, WEIR_TIMER_PENDING);
        CU_ASSERT_EQUAL(info.due_in, WEIR_SEC(5));
        CU_ASSERT_EQUAL(weir_timer_extend("name", WEIR_SEC(1)), 1);
        CU_ASSERT_EQUAL(weir_timer_reset("name", WEIR_SEC(3)), 1);
        CU_ASSERT_EQUAL(weir_timer_extend("name", WEIR_SEC(1)), 1);
}

static void
a_reset_meanwhile_counts(void)
{
        struct weir_test_record record = {0};
        struct look seen = {.act = reset_name};

        weir_test_begin_virtual();
        weir_nsec began = weir_now();
        start("name", WEIR_SEC(5), &record);
        CU_ASSERT_EQUAL(with("name", &seen), 1);
        weir_test_pass(WEIR_SEC(10));
        WEIR_TEST_CALLED(&record, 0);
        CU_ASSERT_EQUAL(record.at, began + WEIR_SEC(4));
        weir_test_end();
}

static weir_series *flow;

static void
cancel_flow(void)
{
        weir_series_cancel(flow);
}

static void
its_series_may_end_it_meanwhile(void)
{
        struct weir_test_record record = {0};
        struct look seen = {.act = cancel_flow, .record = &record};

        weir_test_begin_virtual();
        flow = weir_series_new(NULL, NULL);
        weir_series_push(flow, weir_test_named("name", FAR, &record));
        weir_series_ref(flow);
        CU_ASSERT_EQUAL(weir_series_start(flow), 0);
        CU_ASSERT_EQUAL(with("name", &seen), 1);
        CU_ASSERT_EQUAL(seen.ended, 0);
        weir_test_pass(0);
        WEIR_TEST_CALLED(&record, -ECANCELED);
        weir_series_unref(flow);
        weir_test_end();
}

static void
look_again(void)
{
        struct look inner = {0};

        CU_ASSERT_EQUAL(with("name", &inner), 1);
        CU_ASSERT_EQUAL(inner.calls, 1);
}

static void
the_function_may_look_at_the_same_timer(void)
{
        struct weir_test_record record = {0};
        struct look seen = {.act = look_again};

        weir_test_begin_virtual();
        start("name", WEIR_SEC(1), &record);
        CU_ASSERT_EQUAL(with("name", &seen), 1);
        weir_test_pass(WEIR_SEC(1));
        WEIR_TEST_CALLED(&record, 0);
        weir_test_end();
}

/* -- a timer that was ready when it was reset: it is pending, and on its way to its worker -- */

static struct look seen_ready;
static int found_before, found_after;

static void
reset_and_look(void *unused)
{
        struct look before = {0};

        (void)unused;
        found_before = with("ready", &before);
        CU_ASSERT_EQUAL(weir_timer_reset("ready", WEIR_SEC(3)), 1);
        found_after = with("ready", &seen_ready) + with("ready", &seen_ready);
}

static void
one_that_has_expired_is_found_when_it_was_reset(void)
{
        struct weir_test_record record = {0};

        weir_test_begin_virtual();
        seen_ready = (struct look){0};
        weir_nsec due = weir_test_make_ready(reset_and_look, NULL, &record, 1);
        weir_test_pass(WEIR_SEC(1));
        CU_ASSERT_EQUAL(found_before, 0);
        CU_ASSERT_EQUAL(found_after, 2);
        CU_ASSERT_PTR_EQUAL(seen_ready.context, &record);
        weir_test_pass(WEIR_SEC(5));
        WEIR_TEST_CALLED(&record, 0);
        CU_ASSERT_EQUAL(record.at, due + WEIR_SEC(3));
        weir_test_end();
}

/* -- other threads -- */

static struct weir_test_latch inside, leave;

static void
stay_inside(void)
{
        weir_test_latch_count_down(&inside);
        weir_test_latch_wait(&leave);
}

static void
hold_it(void *look_of)
{
        CU_ASSERT_EQUAL(with("name", look_of), 1);
}

static void
begin_inside(struct weir_test_thread *thread, struct look *seen)
{
        seen->act = stay_inside;
        weir_test_latch_init(&inside, 1);
        weir_test_latch_init(&leave, 1);
        weir_test_thread_start(thread, hold_it, seen);
        weir_test_latch_wait(&inside);
}

static void
while_one_thread_has_it_another_finds_it_and_nobody_ends_it(void)
{
        struct weir_test_record record = {0};
        struct look seen = {.record = &record}, other = {.record = &record};
        struct weir_test_thread thread;

        weir_test_begin_real(1);
        start("name", FAR, &record);
        begin_inside(&thread, &seen);
        CU_ASSERT_EQUAL(with("name", &other), 1); /* it is not the last that lets it go */
        CU_ASSERT_EQUAL(weir_timer_reset("name", 0), 1);
        CU_ASSERT_EQUAL(weir_task_run(weir_empty_new(NULL, NULL)), 0);
        CU_ASSERT_EQUAL(weir_timer_cancel("name", WEIR_ALL), 1);
        CU_ASSERT_EQUAL(weir_task_run(weir_empty_new(NULL, NULL)), 0);
        CU_ASSERT_EQUAL(record.calls, 0);
        weir_test_latch_count_down(&leave);
        weir_test_thread_join(&thread);
        CU_ASSERT_EQUAL(seen.ended + other.ended, 0);
        weir_test_end();
        WEIR_TEST_CALLED(&record, -ECANCELED);
}

static void
pass_three_seconds(void *unused)
{
        (void)unused;
        weir_test_pass(WEIR_SEC(3));
}

/* The worker comes to the timer while a thread has it: it leaves the timer to that thread. */
static void
a_worker_leaves_a_timer_that_was_reset_to_who_has_it(void)
{
        for (unsigned is_cancelled = 0; is_cancelled < 2; is_cancelled++) {
                struct weir_test_record record = {0};
                struct look seen = {.record = &record};
                struct weir_test_gate first, second;
                struct weir_test_thread thread;

                weir_test_begin_real(1);
                weir_test_gate_hold(&first, NULL); /* at the only worker */
                weir_test_gate_init(&second);
                CU_ASSERT_EQUAL(weir_task_start(weir_timer_new(0, weir_test_stop_at_gate, &second)), 0);
                start("name", 0, &record);
                weir_test_gate_open(&first);
                weir_test_latch_wait(&second.begun); /* the timer is ready behind it */
                CU_ASSERT_EQUAL(weir_timer_reset("name", 0), 1);
                begin_inside(&thread, &seen);
                weir_test_gate_open(&second);
                CU_ASSERT_EQUAL(weir_task_run(weir_empty_new(NULL, NULL)), 0); /* the worker has been there */
                CU_ASSERT_EQUAL(record.calls, 0);
                CU_ASSERT_EQUAL(weir_timer_cancel("name", is_cancelled), is_cancelled);
                weir_test_latch_count_down(&leave);
                weir_test_thread_join(&thread);
                CU_ASSERT_EQUAL(seen.ended, 0);
                WEIR_TEST_EVENTUALLY(record.frees == 1);
                WEIR_TEST_CALLED(&record, is_cancelled ? -ECANCELED : 0);
                weir_test_end();
        }
}

static void
virtual_time_stands_meanwhile(void)
{
        struct weir_test_record record = {0}, later = {0};
        struct look seen = {.record = &later};
        struct weir_test_thread thread, stepper;

        weir_test_begin_virtual();
        weir_nsec began = weir_now();
        start("name", WEIR_SEC(1), &record);
        start("later", WEIR_SEC(2), &later);
        begin_inside(&thread, &seen);
        weir_test_thread_start(&stepper, pass_three_seconds, NULL);
        weir_test_sleep(WEIR_MSEC(5)); /* it would have been over */
        CU_ASSERT_EQUAL(weir_now(), began);
        weir_test_latch_count_down(&leave);
        weir_test_thread_join(&thread);
        weir_test_thread_join(&stepper);
        CU_ASSERT_EQUAL(seen.ended, 0);
        CU_ASSERT_EQUAL(record.at, began + WEIR_SEC(1));
        CU_ASSERT_EQUAL(later.at, began + WEIR_SEC(2));
        weir_test_end();
}

static void
shutdown_waits_for_the_function(void)
{
        struct weir_test_record record = {0};
        struct look seen = {.record = &record}, other = {0};
        struct weir_test_thread thread, stopper;

        weir_test_begin_real(1);
        start("name", FAR, &record);
        begin_inside(&thread, &seen);
        weir_test_shutdown_begin(&stopper);
        CU_ASSERT_EQUAL(with("name", &other), 0);
        CU_ASSERT_EQUAL(record.calls, 0);
        weir_test_latch_count_down(&leave);
        weir_test_thread_join(&thread);
        weir_test_thread_join(&stopper);
        CU_ASSERT_EQUAL(seen.ended, 0);
        WEIR_TEST_CALLED(&record, -ESHUTDOWN);
}

/* -- a storm: the context is freed with the timer, so a sanitizer sees who comes too late -- */

struct session {
        pthread_mutex_t lock;
        unsigned looks;
};

static _Atomic unsigned sessions_freed, sessions_made, looks_done;
static _Atomic bool stop;

static void
drop_session(void *context)
{
        struct session *session = context;

        pthread_mutex_destroy(&session->lock);
        free(session);
        atomic_fetch_add(&sessions_freed, 1);
}

static void
touch_session(void *context, void *unused)
{
        struct session *session = context;

        (void)unused;
        pthread_mutex_lock(&session->lock);
        session->looks++;
        pthread_mutex_unlock(&session->lock);
        atomic_fetch_add(&looks_done, 1);
}

static void
keep_looking(void *name)
{
        while (!stop) {
                weir_timer_with(name, touch_session, NULL);
        }
}

static void
make_sessions(void *name)
{
        for (unsigned i = 0; i < (WEIR_TEST_SANITIZED ? 2000 : 20000); i++) {
                struct session *session = calloc(1, sizeof *session);

                pthread_mutex_init(&session->lock, NULL);
                weir_task *timer = weir_timer_new_named(name, WEIR_USEC(i % 200), NULL, session);
                weir_task_on_free(timer, drop_session);
                atomic_fetch_add(&sessions_made, 1);
                CU_ASSERT_EQUAL(weir_task_start(timer), 0);
                if (i % 3 == 0) {
                        weir_timer_cancel(name, 1);
                } else if (i % 3 == 1) {
                        weir_timer_reset(name, WEIR_USEC(i % 300));
                }
                if (i % 100 == 0) {
                        weir_timer_cancel_wait(name, WEIR_ALL);
                }
        }
}

static void
contexts_outlive_all_who_look_at_them(void)
{
        static char name[] = "session";
        struct weir_test_thread lookers[2], makers[2];

        stop = false;
        weir_test_begin_real(2);
        for (unsigned i = 0; i < 2; i++) {
                weir_test_thread_start(&lookers[i], keep_looking, name);
                weir_test_thread_start(&makers[i], make_sessions, name);
        }
        for (unsigned i = 0; i < 2; i++) {
                weir_test_thread_join(&makers[i]);
        }
        stop = true;
        for (unsigned i = 0; i < 2; i++) {
                weir_test_thread_join(&lookers[i]);
        }
        weir_test_end();
        CU_ASSERT_EQUAL(sessions_freed, sessions_made);
        CU_ASSERT(looks_done > 0);
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(without_a_pending_timer_nothing_is_called),
                WEIR_TEST(it_is_the_oldest_that_is_pending),
                WEIR_TEST(a_callback_does_not_find_itself),
                WEIR_TEST(it_ends_when_it_would_have_ended_and_in_its_place),
                WEIR_TEST(a_ticker_keeps_its_phase_also_with_slack),
                WEIR_TEST(a_cancel_meanwhile_counts_and_calls_back_afterwards),
                WEIR_TEST(a_reset_meanwhile_counts),
                WEIR_TEST(its_series_may_end_it_meanwhile),
                WEIR_TEST(the_function_may_look_at_the_same_timer),
                WEIR_TEST(while_one_thread_has_it_another_finds_it_and_nobody_ends_it),
                WEIR_TEST(one_that_has_expired_is_found_when_it_was_reset),
                WEIR_TEST(a_worker_leaves_a_timer_that_was_reset_to_who_has_it),
                WEIR_TEST(virtual_time_stands_meanwhile),
                WEIR_TEST(shutdown_waits_for_the_function),
                WEIR_TEST(contexts_outlive_all_who_look_at_them),
        };

        return weir_test_main("timer_with", tests, sizeof tests / sizeof *tests);
}
