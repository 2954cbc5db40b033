/* test/cancel_wait_test.c: a cancel that returns when nothing of the name is on its way to an end any more.
 *
 * At the return of the wait, each callback and on_free that it waits for must have returned.  This needs no clock: the callback
 * is held at a gate that opens after the wait has begun.  A callback that must not be waited for is held until after the return:
 * if the wait waits for it, the suite runs out of time. */
#include "test/timer_fixture.h"

#define FAR WEIR_TEST_FAR

/* A thread that waits. */
struct waiter {
        struct weir_test_thread thread; /* first */
        const char *name;
        size_t max;
        const struct weir_test_record *records; /* which must have been freed at its return */
        unsigned count;
        struct weir_test_latch begins;
        _Atomic bool returned;
        int64_t result;
        unsigned early; /* of the records */
};

static void
wait_for_name(void *argument)
{
        struct waiter *waiter = argument;

        weir_test_latch_count_down(&waiter->begins);
        waiter->result = weir_timer_cancel_wait(waiter->name, waiter->max);
        for (unsigned i = 0; i < waiter->count; i++) {
                waiter->early += waiter->records[i].calls != 1 || waiter->records[i].frees != 1;
        }
        waiter->returned = true;
}

/* Returns when it is about to wait, or does. */
static void
waiter_start(struct waiter *waiter, const char *name, size_t max, const struct weir_test_record *records, unsigned count)
{
        *waiter = (struct waiter){.name = name, .max = max, .records = records, .count = count};
        weir_test_latch_init(&waiter->begins, 1);
        weir_test_thread_start(&waiter->thread, wait_for_name, waiter);
        weir_test_latch_wait(&waiter->begins);
}

static int64_t
waiter_join(struct waiter *waiter)
{
        weir_test_thread_join(&waiter->thread);
        CU_ASSERT_EQUAL(waiter->early, 0);
        return waiter->result;
}

/* Lets the waiter come to its wait, and finds it there. */
static void
check_it_waits(const struct waiter *waiter)
{
        weir_test_sleep(WEIR_MSEC(3));
        CU_ASSERT(!waiter->returned);
}

/* -- nothing to wait for -- */

static void
name_that_nobody_bears_is_not_waited_for(void)
{
        char *long_name = malloc(WEIR_NAME_MAX + 2);

        memset(long_name, 'w', WEIR_NAME_MAX + 1);
        long_name[WEIR_NAME_MAX + 1] = '\0';
        for (unsigned up = 0; up < 2; up++) {
                if (up) {
                        weir_test_begin_virtual();
                }
                CU_ASSERT_EQUAL(weir_timer_cancel_wait("nobody", WEIR_ALL), 0);
                CU_ASSERT_EQUAL(weir_timer_cancel_wait("nobody", 0), 0);
                CU_ASSERT_EQUAL(weir_timer_cancel_wait("", WEIR_ALL), 0);
                CU_ASSERT_EQUAL(weir_timer_cancel_wait(NULL, WEIR_ALL), 0);
                CU_ASSERT_EQUAL(weir_timer_cancel_wait(long_name, WEIR_ALL), 0);
        }
        weir_test_end();
        CU_ASSERT_EQUAL(weir_timer_cancel_wait("nobody", WEIR_ALL), 0);
        free(long_name);
}

/* It is counted, and its callback runs when it is started, long after. */
static void
unstarted_timer_is_counted_and_not_waited_for(void)
{
        struct weir_test_record records[3] = {0};
        weir_task *timers[3];

        weir_test_begin_virtual();
        for (unsigned i = 0; i < 3; i++) {
                timers[i] = weir_test_named("unstarted", FAR, &records[i]);
        }
        CU_ASSERT_EQUAL(weir_timer_cancel("unstarted", 1), 1);
        CU_ASSERT_EQUAL(weir_timer_cancel_wait("unstarted", 1), 1);
        CU_ASSERT_EQUAL(weir_timer_count("unstarted"), 1);
        CU_ASSERT_EQUAL(weir_timer_cancel_wait("unstarted", WEIR_ALL), 1);
        CU_ASSERT_EQUAL(weir_timer_cancel_wait("unstarted", WEIR_ALL), 0);
        for (unsigned i = 0; i < 3; i++) {
                CU_ASSERT_EQUAL(records[i].calls + records[i].frees, 0);
                CU_ASSERT_EQUAL(weir_task_run(timers[i]), -ECANCELED);
        }
        weir_test_end();
        for (unsigned i = 0; i < 3; i++) {
                WEIR_TEST_CALLED(&records[i], -ECANCELED);
        }
}

static void
with_a_max_of_0_what_is_pending_stays(void)
{
        struct weir_test_record record = {0};

        weir_test_begin_virtual();
        CU_ASSERT_EQUAL(weir_task_start(weir_test_named("pending", FAR, &record)), 0);
        CU_ASSERT_EQUAL(weir_timer_cancel_wait("pending", 0), 0);
        CU_ASSERT_EQUAL(weir_timer_count("pending"), 1);
        weir_test_end();
        WEIR_TEST_CALLED(&record, -ESHUTDOWN);
}

/* -- on a worker -- */

static void
wait_on_a_worker(void *unused)
{
        (void)unused;
        CU_ASSERT_EQUAL(weir_timer_cancel_wait("refused", WEIR_ALL), -EDEADLK);
        CU_ASSERT_EQUAL(weir_timer_cancel_wait("refused", 0), -EDEADLK);
        CU_ASSERT_EQUAL(weir_timer_cancel_wait("nobody", WEIR_ALL), -EDEADLK);
        CU_ASSERT_EQUAL(weir_timer_count("refused"), 1);
}

static void
on_a_worker_it_is_refused_and_cancels_nothing(void)
{
        struct weir_test_record record = {0};

        weir_test_begin_virtual();
        CU_ASSERT_EQUAL(weir_task_start(weir_test_named("refused", WEIR_SEC(2), &record)), 0);
        weir_test_act(WEIR_SEC(1), wait_on_a_worker, NULL);
        weir_test_pass(WEIR_SEC(3));
        WEIR_TEST_CALLED(&record, 0);
        weir_test_end();
}

/* -- callbacks that it waits for -- */

static void
cancelled_timers_have_been_called_back_and_freed_at_its_return(void)
{
        enum { COUNT = 1000 };
        static struct weir_test_record records[COUNT];
        unsigned early = 0;

        weir_test_begin_real(2);
        for (unsigned round = 0; round < (WEIR_TEST_SANITIZED ? 5 : 50); round++) {
                memset(records, 0, sizeof records);
                for (unsigned i = 0; i < COUNT; i++) {
                        CU_ASSERT_EQUAL(weir_task_start(weir_test_named("many", FAR, &records[i])), 0);
                }
                CU_ASSERT_EQUAL(weir_timer_cancel_wait("many", WEIR_ALL), COUNT);
                for (unsigned i = 0; i < COUNT; i++) {
                        early += records[i].calls != 1 || records[i].frees != 1 || records[i].status != -ECANCELED;
                }
        }
        CU_ASSERT_EQUAL(early, 0);
        weir_test_end();
}

static void
with_a_max_it_cancels_the_oldest_and_leaves_the_rest(void)
{
        struct weir_test_record records[5] = {0};

        weir_test_begin_virtual();
        for (unsigned i = 0; i < 5; i++) {
                CU_ASSERT_EQUAL(weir_task_start(weir_test_named("some", FAR, &records[i])), 0);
        }
        CU_ASSERT_EQUAL(weir_timer_cancel_wait("some", 2), 2);
        for (unsigned i = 0; i < 5; i++) {
                CU_ASSERT_EQUAL(records[i].frees, i < 2);
        }
        CU_ASSERT_EQUAL(weir_timer_count("some"), 3);
        CU_ASSERT_EQUAL(weir_timer_cancel_wait("some", 4), 3);
        weir_test_end();
        for (unsigned i = 0; i < 5; i++) {
                WEIR_TEST_CALLED(&records[i], -ECANCELED);
        }
}

static void
callback_that_has_begun_is_waited_for(void)
{
        struct weir_test_gate gate;
        struct waiter waiter;

        weir_test_begin_virtual();
        for (unsigned i = 0; i < 2; i++) {
                weir_test_gate_hold(&gate, "running");
                waiter_start(&waiter, "running", i ? WEIR_ALL : 0, &gate.record, 1);
                check_it_waits(&waiter);
                weir_test_gate_open(&gate);
                CU_ASSERT_EQUAL(waiter_join(&waiter), 0);
                WEIR_TEST_CALLED(&gate.record, 0);
        }
        weir_test_end();
}

/* A timer of another name holds the only worker, so timers that were cancelled before are undelivered. */
static void
those_that_others_have_cancelled_before_are_waited_for(void)
{
        struct weir_test_record records[5] = {0};
        struct weir_test_gate gate;
        struct waiter waiter;
        weir_timer_id id = 0;

        weir_test_begin_virtual();
        for (unsigned i = 0; i < 5; i++) {
                weir_task *timer = weir_test_named("cancelled", FAR, &records[i]);

                id = weir_timer_id_of(timer);
                CU_ASSERT_EQUAL(weir_task_start(timer), 0);
        }
        weir_test_gate_hold(&gate, NULL);
        CU_ASSERT_EQUAL(weir_timer_cancel("cancelled", 2), 2);
        CU_ASSERT_EQUAL(weir_timer_cancel_prefix("cancel", 1), 1);
        CU_ASSERT_EQUAL(weir_timer_cancel_id(id), 1);
        waiter_start(&waiter, "cancelled", WEIR_ALL, records, 5);
        check_it_waits(&waiter);
        weir_test_gate_open(&gate);
        CU_ASSERT_EQUAL(waiter_join(&waiter), 1);
        for (unsigned i = 0; i < 5; i++) {
                WEIR_TEST_CALLED(&records[i], -ECANCELED);
        }
        weir_test_end();
}

/* One was cancelled before its start, by its name, and started since. */
static void
one_cancelled_before_its_start_is_waited_for_once_it_is_started(void)
{
        struct weir_test_record record = {0};
        struct weir_test_gate gate;
        struct waiter waiter;

        weir_test_begin_virtual();
        weir_task *timer = weir_test_named("started late", FAR, &record);
        CU_ASSERT_EQUAL(weir_timer_cancel("started late", WEIR_ALL), 1);
        weir_test_gate_hold(&gate, NULL);
        CU_ASSERT_EQUAL(weir_task_start(timer), 0);
        waiter_start(&waiter, "started late", 0, &record, 1);
        check_it_waits(&waiter);
        weir_test_gate_open(&gate);
        CU_ASSERT_EQUAL(waiter_join(&waiter), 0);
        weir_test_end();
        WEIR_TEST_CALLED(&record, -ECANCELED);
}

static struct {
        struct weir_test_latch begun, opened;
} slow;

static void
free_slowly(void *context)
{
        weir_test_latch_count_down(&slow.begun);
        weir_test_latch_wait(&slow.opened);
        weir_test_freed(context);
}

static void
on_free_that_has_begun_is_waited_for(void)
{
        struct weir_test_record record = {0};
        struct waiter waiter;

        weir_test_begin_virtual();
        for (unsigned i = 0; i < 2; i++) {
                weir_task *timer = weir_timer_new_named("freeing", i ? FAR : 0, weir_test_done, &record);

                record = (struct weir_test_record){0};
                weir_test_latch_init(&slow.begun, 1);
                weir_test_latch_init(&slow.opened, 1);
                weir_task_on_free(timer, free_slowly);
                CU_ASSERT_EQUAL(weir_task_start(timer), 0);
                CU_ASSERT_EQUAL(i ? weir_timer_cancel("freeing", WEIR_ALL) : 0, i);
                weir_test_latch_wait(&slow.begun);
                waiter_start(&waiter, "freeing", WEIR_ALL, &record, 1);
                check_it_waits(&waiter);
                weir_test_latch_count_down(&slow.opened);
                CU_ASSERT_EQUAL(waiter_join(&waiter), 0);
                WEIR_TEST_CALLED(&record, (i ? -ECANCELED : 0));
        }
        weir_test_end();
}

/* One is running, three are cancelled and undelivered, five are cancelled by one of the waiters. */
static void
several_wait_for_the_same_ones(void)
{
        enum { WAITERS = 8 };
        struct weir_test_record records[8] = {0};
        struct waiter waiters[WAITERS], for_gate;
        struct weir_test_gate gate;
        int64_t cancelled = 0;

        weir_test_begin_virtual();
        for (unsigned i = 0; i < 8; i++) {
                CU_ASSERT_EQUAL(weir_task_start(weir_test_named("same", FAR, &records[i])), 0);
        }
        weir_test_gate_hold(&gate, "same");
        CU_ASSERT_EQUAL(weir_timer_cancel("same", 3), 3);
        waiter_start(&for_gate, "same", 0, &gate.record, 1);
        for (unsigned i = 0; i < WAITERS; i++) {
                waiter_start(&waiters[i], "same", WEIR_ALL, records, 8);
        }
        for (unsigned i = 0; i < WAITERS; i++) {
                check_it_waits(&waiters[i]);
        }
        weir_test_gate_open(&gate);
        for (unsigned i = 0; i < WAITERS; i++) {
                cancelled += waiter_join(&waiters[i]);
        }
        CU_ASSERT_EQUAL(waiter_join(&for_gate), 0);
        CU_ASSERT_EQUAL(cancelled, 5);
        for (unsigned i = 0; i < 8; i++) {
                WEIR_TEST_CALLED(&records[i], -ECANCELED);
        }
        weir_test_end();
}

/* -- callbacks that it does not wait for -- */

#define OTHERS 1000 /* names: some 15 in each shard */
#define MINE   200  /* names, so that nearly all shards have one */

static struct {
        struct weir_test_record others[OTHERS], mine[MINE];
        struct weir_test_gate gate;
        pthread_t held; /* the worker that is held */
        atomic_flag mine_are_made;
        struct weir_test_latch made;
} apart;

/* Holds its worker, with many timers of that worker which only it can call back. */
static void
hold_with_others(weir_task *task, void *context)
{
        char name[32];

        apart.held = pthread_self();
        for (unsigned i = 0; i < OTHERS; i++) {
                sprintf(name, "other %u", i);
                CU_ASSERT_EQUAL(weir_task_start(weir_test_named(name, FAR, &apart.others[i])), 0);
        }
        weir_test_stop_at_gate(task, context);
}

/* Runs once, on the worker that is not held: the objects that are made here belong to that worker. */
static void
make_mine(weir_task *task, void *context)
{
        char name[32];

        (void)task;
        (void)context;
        if (pthread_equal(apart.held, pthread_self()) || atomic_flag_test_and_set(&apart.mine_are_made)) {
                return;
        }
        for (unsigned i = 0; i < MINE; i++) {
                sprintf(name, "mine %u", i);
                CU_ASSERT_EQUAL(weir_task_start(weir_test_named(name, FAR, &apart.mine[i])), 0);
        }
        weir_test_latch_count_down(&apart.made);
}

/* A worker is held.  Timers of a thousand other names are on their way to their ends on it, in all shards, and one of another
 * name is running: a wait for names on the other worker does not care. */
static void
timers_of_other_names_are_not_waited_for(void)
{
        char name[32];

        weir_test_begin_real(2);
        memset(apart.others, 0, sizeof apart.others);
        memset(apart.mine, 0, sizeof apart.mine);
        atomic_flag_clear(&apart.mine_are_made);
        weir_test_latch_init(&apart.made, 1);
        weir_test_gate_init(&apart.gate);
        weir_task *holder = weir_timer_new_named("other", 0, hold_with_others, &apart.gate);
        CU_ASSERT_EQUAL(weir_task_start(weir_test_recorded(holder)), 0);
        weir_test_latch_wait(&apart.gate.begun);
        /* Threads that are no workers give 64 to one worker, then to the next. */
        for (unsigned i = 0; i < 65; i++) {
                CU_ASSERT_EQUAL(weir_task_start(weir_timer_new(0, make_mine, NULL)), 0);
        }
        weir_test_latch_wait(&apart.made);
        CU_ASSERT_EQUAL(weir_timer_cancel_prefix("other ", WEIR_ALL), OTHERS);
        for (unsigned i = 0; i < MINE; i++) {
                sprintf(name, "mine %u", i);
                CU_ASSERT_EQUAL(weir_timer_cancel_wait(name, WEIR_ALL), 1);
                WEIR_TEST_CALLED(&apart.mine[i], -ECANCELED);
        }
        CU_ASSERT_EQUAL(weir_timer_cancel_wait("nobody", WEIR_ALL), 0);
        for (unsigned i = 0; i < OTHERS; i++) {
                CU_ASSERT_EQUAL(apart.others[i].calls, 0); /* they were on their way all the time */
        }
        weir_test_gate_open(&apart.gate);
        for (unsigned i = 0; i < OTHERS; i++) {
                sprintf(name, "other %u", i);
                CU_ASSERT_EQUAL(weir_timer_cancel_wait(name, WEIR_ALL), 0);
                WEIR_TEST_CALLED(&apart.others[i], -ECANCELED);
        }
        weir_test_end();
}

/* The worker goes from the callback that is waited for straight to another one, which blocks: that one is not waited for. */
static void
wait_returns_as_soon_as_the_last_on_free_has_returned(void)
{
        struct weir_test_gate before, awaited, after;
        struct waiter waiter;

        weir_test_begin_virtual();
        weir_test_gate_hold(&before, NULL);
        weir_test_gate_init(&awaited);
        weir_test_gate_init(&after);
        weir_task *timer = weir_test_recorded(weir_timer_new_named("awaited", FAR, weir_test_stop_at_gate, &awaited));
        CU_ASSERT_EQUAL(weir_task_start(timer), 0);
        CU_ASSERT_EQUAL(weir_timer_cancel("awaited", WEIR_ALL), 1);
        CU_ASSERT_EQUAL(weir_task_start(weir_empty_new(weir_test_stop_at_gate, &after)), 0);
        weir_test_gate_open(&before);
        weir_test_latch_wait(&awaited.begun);
        waiter_start(&waiter, "awaited", 0, &awaited.record, 1);
        check_it_waits(&waiter);
        weir_test_gate_open(&awaited);
        CU_ASSERT_EQUAL(waiter_join(&waiter), 0);
        weir_test_latch_wait(&after.begun);
        CU_ASSERT_EQUAL(after.record.calls, 0);
        weir_test_gate_open(&after);
        weir_test_end();
        WEIR_TEST_CALLED(&awaited.record, -ECANCELED);
}

/* As long as a flag is set, each makes the next one under the same name. */
static struct {
        _Atomic bool on;
        _Atomic unsigned made, freed;
} chain;

static void chain_link(weir_task *task, void *context);

static void
chain_freed(void *context)
{
        (void)context;
        chain.freed++;
}

static void
chain_extend(void)
{
        weir_task *timer = weir_timer_new_named("chain", WEIR_USEC(20), chain_link, NULL);

        weir_task_on_free(timer, chain_freed);
        chain.made++;
        CU_ASSERT_EQUAL(weir_task_start(timer), 0);
}

static void
chain_link(weir_task *task, void *context)
{
        (void)task;
        (void)context;
        if (chain.on) {
                chain_extend();
        }
}

/* The callbacks of the cancelled timers make new ones: the wait ends all the same. */
static void
timers_that_come_during_the_wait_do_not_prolong_it_for_ever(void)
{
        weir_test_begin_real(2);
        chain.on = true;
        chain.made = chain.freed = 0;
        for (unsigned i = 0; i < 200; i++) {
                chain_extend();
        }
        for (unsigned i = 0; i < (WEIR_TEST_SANITIZED ? 50 : 500); i++) {
                int64_t cancelled = weir_timer_cancel_wait("chain", i % 2 ? WEIR_ALL : 0);

                CU_ASSERT(cancelled >= 0 && (i % 2 || cancelled == 0));
        }
        chain.on = false;
        while (weir_timer_cancel_wait("chain", WEIR_ALL) > 0) {
                continue;
        }
        weir_test_end();
        CU_ASSERT_EQUAL(chain.made, chain.freed);
}

static struct {
        _Atomic bool over;
        size_t made, refound;
} stir;

/* Makes, starts and cancels timers of the name all the time. */
static void
stir_name(void *unused)
{
        (void)unused;
        while (!stir.over) {
                for (unsigned i = 0; i < 50; i++) {
                        weir_task_start(weir_timer_new_named("stirred", i % 5 ? FAR : 0, NULL, NULL));
                        stir.made++;
                }
                stir.refound += weir_timer_cancel("stirred", 40);
        }
        stir.refound += weir_timer_cancel("stirred", WEIR_ALL);
}

static void
wait_returns_while_another_thread_makes_and_cancels_all_the_time(void)
{
        struct weir_test_thread thread;
        int64_t cancelled = 0;

        weir_test_begin_real(2);
        stir.over = false;
        stir.made = stir.refound = 0;
        weir_test_thread_start(&thread, stir_name, NULL);
        for (unsigned i = 0; i < (WEIR_TEST_SANITIZED ? 100 : 1000); i++) {
                int64_t count = weir_timer_cancel_wait("stirred", i % 3 ? WEIR_ALL : 0);

                CU_ASSERT(count >= 0);
                cancelled += count;
        }
        stir.over = true;
        weir_test_thread_join(&thread);
        CU_ASSERT((size_t)cancelled + stir.refound <= stir.made);
        weir_test_end();
        CU_ASSERT_EQUAL(weir_timer_count("stirred"), 0);
}

/* -- its use -- */

/* The memory that the callbacks use is freed as soon as the wait returns: a sanitizer sees a later use. */
static void
context_can_be_freed_after_the_wait_whatever_the_timers_were_doing(void)
{
        enum { COUNT = 60 };
        struct weir_test_random random = {weir_test_seed()};

        weir_test_begin_real(2);
        for (unsigned round = 0; round < (WEIR_TEST_SANITIZED ? 300 : 3000); round++) {
                struct weir_test_record *records = calloc(COUNT, sizeof *records);
                unsigned cancelled = 0, wrong = 0;
                size_t before = 0;

                for (unsigned i = 0; i < COUNT; i++) {
                        weir_nsec after = (weir_nsec)weir_test_random_below(&random, 40000);

                        CU_ASSERT_EQUAL(weir_task_start(weir_test_named("context", after, &records[i])), 0);
                }
                weir_test_spin((int64_t)weir_test_random_below(&random, 40000));
                if (round % 3 == 0) {
                        before = weir_timer_cancel("context", weir_test_random_below(&random, COUNT));
                }
                int64_t count = weir_timer_cancel_wait("context", WEIR_ALL);
                for (unsigned i = 0; i < COUNT; i++) {
                        wrong += records[i].calls != 1 || records[i].frees != 1;
                        cancelled += records[i].status == -ECANCELED;
                }
                CU_ASSERT_EQUAL(wrong, 0);
                CU_ASSERT_EQUAL(cancelled, (size_t)count + before);
                memset(records, 0xa5, COUNT * sizeof *records);
                free(records);
        }
        weir_test_end();
}

/* -- shutdown -- */

static void
wait_goes_on_across_a_shutdown_and_returns(void)
{
        struct weir_test_record records[3] = {0};
        struct weir_test_thread ends;
        struct weir_test_gate gate;
        struct waiter waiters[2];

        weir_test_begin_virtual();
        for (unsigned i = 0; i < 3; i++) {
                CU_ASSERT_EQUAL(weir_task_start(weir_test_named("across", FAR, &records[i])), 0);
        }
        weir_test_gate_hold(&gate, "across");
        CU_ASSERT_EQUAL(weir_timer_cancel("across", 1), 1);
        waiter_start(&waiters[0], "across", 0, &gate.record, 1);
        check_it_waits(&waiters[0]);
        weir_test_shutdown_begin_behind_gate(&ends);
        waiter_start(&waiters[1], "across", WEIR_ALL, records, 3);
        WEIR_TEST_EVENTUALLY(weir_timer_count("across") == 1); /* it has cancelled two, before the shutdown comes to them */
        check_it_waits(&waiters[1]);
        weir_test_gate_open(&gate);
        CU_ASSERT_EQUAL(waiter_join(&waiters[0]), 0);
        CU_ASSERT_EQUAL(waiter_join(&waiters[1]), 2);
        weir_test_thread_join(&ends);
        for (unsigned i = 0; i < 3; i++) {
                WEIR_TEST_CALLED(&records[i], -ECANCELED);
        }
        CU_ASSERT_EQUAL(weir_timer_cancel_wait("across", WEIR_ALL), 0);
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(name_that_nobody_bears_is_not_waited_for),
                WEIR_TEST(unstarted_timer_is_counted_and_not_waited_for),
                WEIR_TEST(with_a_max_of_0_what_is_pending_stays),
                WEIR_TEST(on_a_worker_it_is_refused_and_cancels_nothing),
                WEIR_TEST(cancelled_timers_have_been_called_back_and_freed_at_its_return),
                WEIR_TEST(with_a_max_it_cancels_the_oldest_and_leaves_the_rest),
                WEIR_TEST(callback_that_has_begun_is_waited_for),
                WEIR_TEST(those_that_others_have_cancelled_before_are_waited_for),
                WEIR_TEST(one_cancelled_before_its_start_is_waited_for_once_it_is_started),
                WEIR_TEST(on_free_that_has_begun_is_waited_for),
                WEIR_TEST(several_wait_for_the_same_ones),
                WEIR_TEST(timers_of_other_names_are_not_waited_for),
                WEIR_TEST(wait_returns_as_soon_as_the_last_on_free_has_returned),
                WEIR_TEST(timers_that_come_during_the_wait_do_not_prolong_it_for_ever),
                WEIR_TEST(wait_returns_while_another_thread_makes_and_cancels_all_the_time),
                WEIR_TEST(context_can_be_freed_after_the_wait_whatever_the_timers_were_doing),
                WEIR_TEST(wait_goes_on_across_a_shutdown_and_returns),
        };

        return weir_test_main("cancel wait", tests, sizeof tests / sizeof *tests);
}
