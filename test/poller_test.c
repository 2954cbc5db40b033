/* test/poller_test.c: a poller from its inside: bulk deliveries, floods of pushed work, and timed waits.
 *
 * There is one worker, on the real clock.  What only the owner of the poller may touch is touched by work items that are
 * delivered to it. */
#include "test/timer_fixture.h"
#include "kernel/worker/deliver.h"

#define MSEC INT64_C(1000000)

/* -- errands: functions that run as work items, waited for -- */

struct errand {
        struct weir__work work; /* first */
        void (*act)(void *argument);
        void *argument;
        struct weir_test_latch done;
};

static void
run_errand(struct weir__work *work)
{
        struct errand *errand = (struct errand *)work;

        errand->act(errand->argument);
        weir_test_latch_count_down(&errand->done);
}

static void
on_worker(void (*act)(void *argument), void *argument)
{
        static const struct weir__work_ops ops = {.run = run_errand};
        struct errand errand = {.work = {.ops = &ops}, .act = act, .argument = argument, .done = WEIR_TEST_LATCH(1)};

        weir__deliver(weir__poller_at(0), &errand.work);
        weir_test_latch_wait(&errand.done);
}

/* -- bulk deliveries -- */

static _Atomic unsigned ran; /* members of bulk deliveries */

static void
run_member(struct weir__work *work)
{
        (void)work;
        atomic_fetch_add(&ran, 1);
}

static const struct weir__work_ops member_ops = {.run = run_member};

static void
give_bulk(struct weir__work *members, unsigned count)
{
        struct weir__work_list bulk = {0};

        for (unsigned i = 0; i < count; i++) {
                weir__work_append(&bulk, &members[i]);
        }
        weir__deliver_bulk(weir__poller_at(0), &bulk);
        CU_ASSERT_PTR_NULL(bulk.first);
}

/* Spins at first: who gives the CPU away comes too late for what lasts some hundred nanoseconds. */
static bool
all_ran(unsigned count)
{
        for (unsigned i = 0; i < 5000 && ran < count; i++) {
                if (i > 4000) {
                        sched_yield();
                }
        }
        return ran >= count;
}

#define TURNS_WITHIN WEIR_SEC(10) /* fewer rounds on a slow machine */

/* First when it sleeps for certain, then about when it is falling asleep: when the last one has just run. */
static void
a_bulk_delivery_wakes_a_sleeping_poller(void)
{
        enum { SLEEPS = 20, SIZE = 3 };
        const unsigned rounds = WEIR_TEST_SANITIZED ? 20000 : 100000;
        struct weir_test_random random = {weir_test_seed()};
        struct weir__work members[SIZE] = {{.ops = &member_ops}, {.ops = &member_ops}, {.ops = &member_ops}};

        weir_test_begin_real(1);
        ran = 0;
        int64_t until = weir_test_now() + TURNS_WITHIN;
        unsigned given = 0;
        for (unsigned round = 1; round <= SLEEPS || (round <= rounds && weir_test_now() < until); round++) {
                if (round <= SLEEPS) {
                        WEIR_TEST_EVENTUALLY(atomic_load(&weir__poller_at(0)->inbox.head)); /* SLEEPING: nothing was pushed */
                        weir_test_sleep(MSEC);
                } else {
                        weir_test_spin((int64_t)weir_test_random_below(&random, 500));
                }
                give_bulk(members, SIZE);
                WEIR_TEST_EVENTUALLY(all_ran(round * SIZE));
                given = round * SIZE;
        }
        CU_ASSERT_EQUAL(ran, given);
        weir_test_end();
}

#define BULK   10000
#define BEHIND 100 /* members that run before the others come */
#define TURNS  200 /* more than two turns of 61 */

static struct {
        struct weir__work members[BULK], pushed, repeated;
        struct weir_test_latch begun, pushing;
        unsigned pushed_after, empty_after, timer_after; /* how many members had run then */
        unsigned repeats;
        _Atomic unsigned ended; /* of these three */
} turns;

static void
note_turn(weir_task *task, void *after)
{
        (void)task;
        *(unsigned *)after = ran;
        atomic_fetch_add(&turns.ended, 1);
}

static void
run_pushed(struct weir__work *work)
{
        (void)work;
        note_turn(NULL, &turns.pushed_after);
}

/* Is ready again as long as there is anything left of the bulk, at most a hundred times as often as it has members. */
static void
run_repeated(struct weir__work *work)
{
        if (ran < BULK && ++turns.repeats < 100 * BULK) {
                weir__deliver(weir__poller_at(0), work);
        }
}

static void
run_inviting_member(struct weir__work *work)
{
        run_member(work);
        weir_test_latch_count_down(&turns.begun);
        weir_test_latch_wait(&turns.pushing);
        CU_ASSERT_EQUAL(weir_task_start(weir_empty_new(note_turn, &turns.empty_after)), 0);
        CU_ASSERT_EQUAL(weir_task_start(weir_timer_new(0, note_turn, &turns.timer_after)), 0);
        weir__deliver(weir__poller_at(0), &turns.repeated);
}

static void
bulks_and_ready_work_take_turns(void)
{
        static const struct weir__work_ops inviting_ops = {.run = run_inviting_member}, pushed_ops = {.run = run_pushed},
                                           repeated_ops = {.run = run_repeated};

        weir_test_begin_real(1);
        ran = turns.ended = turns.repeats = 0;
        weir_test_latch_init(&turns.begun, 1);
        weir_test_latch_init(&turns.pushing, 1);
        for (unsigned i = 0; i < BULK; i++) {
                turns.members[i].ops = i == BEHIND - 1 ? &inviting_ops : &member_ops;
        }
        turns.pushed.ops = &pushed_ops;
        turns.repeated.ops = &repeated_ops;
        give_bulk(turns.members, BULK);
        weir_test_latch_wait(&turns.begun);
        weir__deliver(weir__poller_at(0), &turns.pushed);
        weir_test_latch_count_down(&turns.pushing);
        WEIR_TEST_EVENTUALLY(ran == BULK && turns.ended == 3);
        weir_test_end();
        CU_ASSERT(turns.pushed_after >= BEHIND && turns.pushed_after < BEHIND + TURNS);
        CU_ASSERT(turns.empty_after >= BEHIND && turns.empty_after < BEHIND + TURNS);
        CU_ASSERT(turns.timer_after >= BEHIND && turns.timer_after < BEHIND + TURNS);
        CU_ASSERT(turns.repeats > BULK / TURNS && turns.repeats < 4 * BULK);
}

/* -- floods -- */

#define FLOOD 10000

static struct {
        struct weir__work holding, pushed[FLOOD], caused[FLOOD];
} flood;

static void
hold_worker(struct weir__work *work)
{
        (void)work;
        weir_test_latch_count_down(&turns.begun);
        weir_test_latch_wait(&turns.pushing);
}

/* So the ready list grows while it is run. */
static void
cause_another(struct weir__work *work)
{
        run_member(work);
        weir__deliver(weir__poller_at(0), &flood.caused[work - flood.pushed]);
}

static void
a_due_timer_runs_soon_however_much_is_pushed(void)
{
        static const struct weir__work_ops holding_ops = {.run = hold_worker}, pushed_ops = {.run = cause_another};

        weir_test_begin_real(1);
        ran = turns.ended = 0;
        weir_test_latch_init(&turns.begun, 1);
        weir_test_latch_init(&turns.pushing, 1);
        flood.holding.ops = &holding_ops;
        weir__deliver(weir__poller_at(0), &flood.holding);
        weir_test_latch_wait(&turns.begun);
        for (unsigned i = 0; i < FLOOD; i++) {
                flood.pushed[i].ops = &pushed_ops;
                flood.caused[i].ops = &member_ops;
                weir__deliver(weir__poller_at(0), &flood.pushed[i]);
        }
        CU_ASSERT_EQUAL(weir_task_start(weir_timer_new(0, note_turn, &turns.timer_after)), 0);
        weir_test_latch_count_down(&turns.pushing);
        WEIR_TEST_EVENTUALLY(ran == 2 * FLOOD && turns.ended == 1);
        weir_test_end();
        CU_ASSERT(turns.timer_after < TURNS);
}

static struct {
        struct weir__work works[FLOOD], given;
        _Atomic bool ends;
        unsigned pushed_after; /* members of `works` that had run when the last of flood.pushed ran */
} busy;

static void
run_busy(struct weir__work *work)
{
        run_member(work);
        if (!busy.ends) {
                weir__deliver(weir__poller_at(0), work);
        }
}

static void
become_busy(struct weir__work *work)
{
        static const struct weir__work_ops busy_ops = {.run = run_busy};

        (void)work;
        for (unsigned i = 0; i < FLOOD; i++) {
                busy.works[i].ops = &busy_ops;
                weir__deliver(weir__poller_at(0), &busy.works[i]);
        }
        hold_worker(work);
}

static void
note_pushed(struct weir__work *work)
{
        if (work == &flood.pushed[FLOOD - 1]) {
                note_turn(NULL, &busy.pushed_after);
        }
}

/* The worker has FLOOD work items that are ready again at once, and as many come from outside. */
static void
pushed_work_items_and_a_due_timer_have_their_share_of_a_busy_poller(void)
{
        static const struct weir__work_ops given_ops = {.run = become_busy}, pushed_ops = {.run = note_pushed};

        weir_test_begin_real(1);
        ran = turns.ended = 0;
        busy.ends = false;
        weir_test_latch_init(&turns.begun, 1);
        weir_test_latch_init(&turns.pushing, 1);
        busy.given.ops = &given_ops;
        weir__deliver(weir__poller_at(0), &busy.given);
        weir_test_latch_wait(&turns.begun);
        for (unsigned i = 0; i < FLOOD; i++) {
                flood.pushed[i].ops = &pushed_ops;
                weir__deliver(weir__poller_at(0), &flood.pushed[i]);
        }
        CU_ASSERT_EQUAL(weir_task_start(weir_timer_new(0, note_turn, &turns.timer_after)), 0);
        weir_test_latch_count_down(&turns.pushing);
        WEIR_TEST_EVENTUALLY(turns.ended == 2);
        busy.ends = true;
        weir_test_end();
        CU_ASSERT(busy.pushed_after < 8 * FLOOD);
        CU_ASSERT(turns.timer_after < 2 * FLOOD);
}

/* -- timed waits -- */

static struct {
        _Atomic unsigned run;
        _Atomic unsigned timed; /* of these, while the next sleep was to be a timed wait */
} pushes;

static void
run_push(struct weir__work *work)
{
        (void)work;
        if (weir__poller_at(0)->sleep.timed > 0) {
                atomic_fetch_add(&pushes.timed, 1);
        }
        atomic_fetch_add(&pushes.run, 1);
}

static const struct weir__work_ops push_ops = {.run = run_push};

static unsigned long
switches_of(pid_t thread)
{
        char path[64], line[200];
        unsigned long count = 0;

        snprintf(path, sizeof path, "/proc/self/task/%d/status", (int)thread);
        FILE *status = fopen(path, "r");
        CU_ASSERT_PTR_NOT_NULL_FATAL(status);
        while (fgets(line, sizeof line, status) && sscanf(line, "voluntary_ctxt_switches: %lu", &count) != 1) {
                continue;
        }
        fclose(status);
        return count;
}

static void
tell_thread(void *thread)
{
        *(pid_t *)thread = gettid();
}

static bool
it_does_not_wake_up_for_a_while(pid_t thread)
{
        unsigned long before = switches_of(thread);

        CU_ASSERT(before > 0);
        weir_test_sleep(200 * MSEC);
        return switches_of(thread) == before;
}

/* The last push of the storm finds that a timed wait comes next, and nothing comes during that. */
static void
after_a_timed_wait_that_brought_nothing_an_idle_process_makes_no_wake_ups(void)
{
        struct weir__work push = {.ops = &push_ops};
        unsigned count = 0, timed;
        pid_t thread;

        weir_test_begin_real(1);
        on_worker(tell_thread, &thread);
        pushes.run = pushes.timed = 0;
        do {
                timed = pushes.timed;
                weir__deliver(weir__poller_at(0), &push);
                for (count++; pushes.run < count;) {
                        sched_yield();
                }
        } while (count < 1000 || pushes.timed == timed);
        WEIR_TEST_EVENTUALLY(it_does_not_wake_up_for_a_while(thread));
        weir_test_end();
}

#define PUSHERS  4
#define BURSTS   (WEIR_TEST_SANITIZED ? 300 : 1500)
#define IN_BURST 100

struct pusher {
        struct weir_test_thread thread;
        struct weir_test_random random;
        struct weir__work *works; /* enough */
        unsigned count;
};

/* In bursts, one of four with many, and pauses of nothing up to more than the longest timed wait. */
static void
push_bursts(void *argument)
{
        struct pusher *pusher = argument;

        for (unsigned burst = 0; burst < BURSTS; burst++) {
                unsigned size = 1 + (unsigned)weir_test_random_below(&pusher->random, burst % 4 ? 3 : IN_BURST);

                for (unsigned i = 0; i < size; i++) {
                        struct weir__work *work = &pusher->works[pusher->count++];

                        work->ops = &push_ops;
                        weir__deliver(weir__poller_at(0), work);
                }
                if (weir_test_random_below(&pusher->random, 2)) {
                        weir_test_sleep((int64_t)weir_test_random_below(&pusher->random, MSEC / 2));
                }
        }
}

static void
push_storm(void)
{
        struct pusher pushers[PUSHERS];
        unsigned count = 0;

        pushes.run = 0;
        for (unsigned i = 0; i < PUSHERS; i++) {
                pushers[i] = (struct pusher){.random = {weir_test_seed() + i}};
                pushers[i].works = calloc((size_t)BURSTS * IN_BURST, sizeof *pushers[i].works);
                CU_ASSERT_PTR_NOT_NULL_FATAL(pushers[i].works);
                weir_test_thread_start(&pushers[i].thread, push_bursts, &pushers[i]);
        }
        for (unsigned i = 0; i < PUSHERS; i++) {
                weir_test_thread_join(&pushers[i].thread);
                count += pushers[i].count;
        }
        WEIR_TEST_EVENTUALLY(pushes.run >= count);
        on_worker(tell_thread, &(pid_t){0}); /* it has done with the work items */
        CU_ASSERT_EQUAL(pushes.run, count);
        for (unsigned i = 0; i < PUSHERS; i++) {
                free(pushers[i].works);
        }
}

/* A busy machine may let the worker come too late for timed waits: then there is another storm. */
static void
pushes_during_a_timed_wait_all_run(void)
{
        weir_test_begin_real(1);
        pushes.timed = 0;
        do {
                push_storm();
        } while (pushes.timed == 0);
        weir_test_end();
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(a_bulk_delivery_wakes_a_sleeping_poller),
                WEIR_TEST(bulks_and_ready_work_take_turns),
                WEIR_TEST(a_due_timer_runs_soon_however_much_is_pushed),
                WEIR_TEST(pushed_work_items_and_a_due_timer_have_their_share_of_a_busy_poller),
                WEIR_TEST(after_a_timed_wait_that_brought_nothing_an_idle_process_makes_no_wake_ups),
                WEIR_TEST(pushes_during_a_timed_wait_all_run),
        };

        return weir_test_main("poller", tests, sizeof tests / sizeof *tests);
}
