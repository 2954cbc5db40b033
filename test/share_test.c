/* test/share_test.c: ready work is given to workers that sleep, overdue timers of a busy poller are expired by another one, and
 * the poller looks at everything else during a flood of ready work.
 *
 * No thread can be created once the runtime has begun, so no spare takes a poller over: work that runs elsewhere was given or
 * taken.  The thread shows where a work item runs, and a count of completions shows how soon. */
#include "test/blocking_fixture.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>

#include "kernel/loop/poller.h"
#include "kernel/worker/deliver.h"
#include "kernel/sched/share.h"

#define BETWEEN     4 /* completions that may lie between two looks by accident of the order, besides those of a batch */
#define OVERDUE     10
#define FEW_LONG    8
#define MANY_CHAINS 6000
#define STRANDS     200

int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*function)(void *), void *argument);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*function)(void *), void *argument);

static _Atomic bool has_no_threads;

int
__wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*function)(void *), void *argument)
{
        return has_no_threads ? EAGAIN : __real_pthread_create(thread, attributes, function, argument);
}

int __real_eventfd_write(int fd, eventfd_t value);
int __wrap_eventfd_write(int fd, eventfd_t value);

static _Atomic unsigned wakeups; /* of pollers, by others */

int
__wrap_eventfd_write(int fd, eventfd_t value)
{
        atomic_fetch_add(&wakeups, 1);
        return __real_eventfd_write(fd, value);
}

static void
begin(int pollers, weir_nsec limit)
{
        struct weir_config config = weir_test_blocking_config(pollers, 0);

        config.blocking_limit = limit;
        weir_log_set(NULL, NULL); /* that there is nobody to take over need not be said */
        CU_ASSERT_EQUAL_FATAL(weir_init(&config), 0);
        has_no_threads = true;
}

static void
end(void)
{
        has_no_threads = false;
        weir_test_end();
}

/* -- both pollers at once -- */

struct side {
        void (*act)(void);
        pthread_t thread;
};

static struct side sides[2]; /* by the index of their poller */
static struct weir_test_latch both_begun;

static void
act_on_side(weir_task *task, void *context)
{
        struct side *side = &sides[weir__worker_self()->poller->index];

        (void)task;
        (void)context;
        side->thread = pthread_self();
        weir_test_latch_count_down(&both_begun);
        weir_test_latch_wait(&both_begun); /* so no worker has both */
        side->act();
}

static void
nothing(weir_task *task, void *context)
{
        (void)task;
        (void)context;
}

/* Has a function run on the worker of each of the two pollers. */
static void
act_on_both(void (*first)(void), void (*second)(void))
{
        sides[0].act = first;
        sides[1].act = second;
        weir_test_latch_init(&both_begun, 2);
        for (unsigned i = 0; i < 65; i++) { /* a thread's tasks come to the pollers 64 at a time */
                CU_ASSERT_EQUAL(weir_task_start(weir_empty_new(i % 64 ? nothing : act_on_side, NULL)), 0);
        }
}

static void
do_nothing(void)
{
}

/* -- ready work -- */

static struct {
        _Atomic bool has_moved; /* both workers have run some */
        _Atomic int64_t left;   /* nanoseconds that it may last */
        _Atomic unsigned runs, alive;
        int64_t duration; /* of each */
} chains;

static void
run_and_start_another(weir_task *task, void *context)
{
        (void)task;
        atomic_fetch_add(&chains.runs, 1);
        if (!pthread_equal(pthread_self(), sides[0].thread)) {
                chains.has_moved = true;
        }
        if (chains.duration) {
                weir_test_sleep(chains.duration);
        }
        if (chains.has_moved || weir_test_now() > chains.left) {
                atomic_fetch_sub(&chains.alive, 1);
        } else {
                weir_task_start(weir_empty_new(run_and_start_another, context));
        }
}

static void
start_chains(void)
{
        for (unsigned i = chains.alive; i > 0; i--) {
                weir_task_start(weir_empty_new(run_and_start_another, NULL));
        }
}

/* So many callbacks on one poller, each of which starts another, until one of them has run elsewhere. */
static void
expect_sharing(unsigned count, int64_t duration)
{
        uint64_t shared = weir__worker_counts.shared;

        chains.has_moved = false;
        chains.runs = 0;
        chains.alive = count;
        chains.duration = duration;
        chains.left = weir_test_now() + WEIR_TEST_PATIENCE;
        act_on_both(start_chains, do_nothing);
        WEIR_TEST_EVENTUALLY(chains.runs > 0 && chains.alive == 0);
        CU_ASSERT_TRUE(chains.has_moved);
        CU_ASSERT(weir__worker_counts.shared > shared);
        CU_ASSERT(chains.runs >= count);
}

static void
few_long_callbacks_of_one_poller_are_run_by_both_workers(void)
{
        begin(2, WEIR_MSEC(1)); /* it is the watchdog that sees that they are long */
        expect_sharing(FEW_LONG, WEIR_MSEC(1));
        end();
}

static void
many_short_callbacks_of_one_poller_are_run_by_both_workers(void)
{
        begin(2, WEIR_FOREVER); /* and their number is seen without it */
        expect_sharing(MANY_CHAINS, 0);
        end();
}

/* -- work that is not worth a wake-up -- */

#define SLICES 300
#define PAIRS  200

static struct {
        unsigned slices; /* left; of the callback that runs */
        _Atomic unsigned ended;
        unsigned wakeups; /* at the first slice */
        struct weir_test_latch done;
} pairs;

static void
count_end(weir_task *task, void *context)
{
        (void)task;
        (void)context;
        if (atomic_fetch_add(&pairs.ended, 1) == SLICES * PAIRS - 1)
                weir_test_latch_count_down(&pairs.done);
}

static void
make_pairs(weir_task *task, void *context)
{
        (void)task;
        for (unsigned i = 0; i < PAIRS; i++) {
                CU_ASSERT_EQUAL(weir_task_start(weir_timer_new_named("short", WEIR_SEC(60), count_end, NULL)), 0);
                weir_timer_cancel("short", WEIR_ALL);
        }
        if (--pairs.slices > 0)
                weir_task_start(weir_timer_new(0, make_pairs, context));
}

static void
start_pairs(void)
{
        pairs.slices = SLICES;
        pairs.wakeups = wakeups;
        make_pairs(NULL, NULL);
}

static void
work_of_microseconds_wakes_nobody(void)
{
        pairs.ended = 0;
        weir_test_latch_init(&pairs.done, 1);
        begin(2, WEIR_MSEC(100));
        act_on_both(start_pairs, do_nothing);
        weir_test_latch_wait(&pairs.done);
        /* Some: a worker that loses its CPU seems to have long callbacks.  Under a sanitizer they are long. */
        CU_ASSERT(WEIR_TEST_SANITIZED || wakeups - pairs.wakeups < SLICES / 8);
        end();
}

/* -- work that may not migrate -- */

struct fixed {
        struct weir__work work; /* first */
        _Atomic unsigned runs, elsewhere;
};

static void
run_fixed(struct weir__work *work)
{
        struct fixed *fixed = (struct fixed *)work;

        atomic_fetch_add(&fixed->runs, 1);
        if (!pthread_equal(pthread_self(), sides[0].thread)) {
                atomic_fetch_add(&fixed->elsewhere, 1);
        }
        if (!chains.has_moved) {
                weir__deliver(weir__poller_at(0), work);
        }
}

static const struct weir__work_ops fixed_ops = {.run = run_fixed};
static struct fixed fixed[MANY_CHAINS];

static void
start_chains_among_fixed(void)
{
        for (unsigned i = 0; i < MANY_CHAINS; i++) {
                fixed[i].work.ops = &fixed_ops;
                weir__deliver(weir__poller_at(0), &fixed[i].work);
                if (i < chains.alive) {
                        weir_task_start(weir_empty_new(run_and_start_another, NULL));
                }
        }
}

static void
work_that_may_not_migrate_is_not_given_away(void)
{
        unsigned elsewhere = 0, unrun = 0;

        memset(fixed, 0, sizeof fixed);
        begin(2, WEIR_FOREVER);
        chains.has_moved = false;
        chains.runs = 0;
        chains.alive = MANY_CHAINS / 2;
        chains.duration = WEIR_USEC(1);
        chains.left = weir_test_now() + WEIR_TEST_PATIENCE;
        act_on_both(start_chains_among_fixed, do_nothing);
        WEIR_TEST_EVENTUALLY(chains.runs > 0 && chains.alive == 0);
        CU_ASSERT_TRUE(chains.has_moved);
        chains.has_moved = true;
        end();
        for (unsigned i = 0; i < MANY_CHAINS; i++) {
                elsewhere += fixed[i].elsewhere;
                unrun += fixed[i].runs == 0;
        }
        CU_ASSERT_EQUAL(elsewhere, 0);
        CU_ASSERT_EQUAL(unrun, 0);
}

/* -- deadlines -- */

static struct weir_test_record overdue[OVERDUE];
static _Atomic unsigned overdue_order;
static struct weir__alarm due_alarm;
static _Atomic unsigned limit_runs;
static pthread_t limit_thread;
static struct weir_test_latch held, opened;

static void
run_limit(struct weir__work *work)
{
        (void)work;
        limit_thread = pthread_self();
        atomic_fetch_add(&limit_runs, 1);
}

static const struct weir__work_ops limit_ops = {.run = run_limit};

static void
leave_deadlines_and_block(void)
{
        due_alarm.work.ops = &limit_ops;
        CU_ASSERT_TRUE(weir__alarm_set(weir__poller_at(0), &due_alarm, weir_now() + WEIR_USEC(500)));
        for (unsigned i = 0; i < OVERDUE; i++) {
                overdue[i].counter = &overdue_order;
                CU_ASSERT_EQUAL(weir_task_start(weir_test_timer(WEIR_MSEC(1) + i, &overdue[i])), 0);
        }
        weir_test_latch_count_down(&held);
        weir_test_latch_wait(&opened);
}

static void
tick(weir_task *ticker, void *context)
{
        if (*(_Atomic bool *)context && weir_task_status(ticker) == -EINPROGRESS) {
                weir_ticker_stop(ticker);
        }
}

static _Atomic bool is_over;

/* A worker that falls asleep time and again. */
static void
start_ticker(void)
{
        CU_ASSERT_EQUAL(weir_task_start(weir_ticker_new(WEIR_MSEC(1), WEIR_TICK_SKIP, tick, &is_over)), 0);
}

static void
overdue_timers_of_a_busy_poller_are_expired_by_another(void)
{
        memset(overdue, 0, sizeof overdue);
        overdue_order = limit_runs = 0;
        is_over = false;
        weir_test_latch_init(&held, 1);
        weir_test_latch_init(&opened, 1);
        begin(2, WEIR_FOREVER);
        act_on_both(leave_deadlines_and_block, start_ticker);
        weir_test_latch_wait(&held);
        for (unsigned i = 0; i < OVERDUE; i++) {
                weir_test_wait_freed(&overdue[i]);
                WEIR_TEST_CALLED(&overdue[i], 0);
                CU_ASSERT_EQUAL(overdue[i].order, i);
                CU_ASSERT(pthread_equal(overdue[i].on, sides[1].thread));
        }
        CU_ASSERT_EQUAL(limit_runs, 0); /* it was due before them, and may run on its own poller only */
        weir_test_latch_count_down(&opened);
        WEIR_TEST_EVENTUALLY(limit_runs > 0);
        is_over = true;
        end();
        CU_ASSERT_EQUAL(limit_runs, 1);
        CU_ASSERT(pthread_equal(limit_thread, sides[0].thread));
}

/* -- events of descriptors, a few at a time -- */

#define PEERS   8
#define ANSWERS 2000
#define ANSWER  WEIR_USEC(300)

static struct peer {
        struct weir__source source;
        struct weir__work work;
} peers[PEERS];

static struct {
        _Atomic unsigned runs, elsewhere, alive;
} answers;

static void
ask_again(struct peer *peer)
{
        eventfd_write(peer->source.fd, 1);
}

/* Computes, and so lets its peer ask again. */
static void
answer(struct weir__work *work)
{
        struct peer *peer = (struct peer *)((char *)work - offsetof(struct peer, work));

        for (int64_t until = weir_test_now() + ANSWER; weir_test_now() < until;)
                ;
        atomic_fetch_add(&answers.elsewhere, !pthread_equal(pthread_self(), sides[0].thread));
        if (atomic_fetch_add(&answers.runs, 1) < ANSWERS)
                ask_again(peer);
        else
                atomic_fetch_sub(&answers.alive, 1);
}

static void
be_asked(struct weir__source *source, uint32_t events)
{
        static const struct weir__work_ops ops = {.run = answer, .is_migratable = true};
        struct peer *peer = (struct peer *)source;

        (void)events;
        (void)atomic_load(&answers.runs); /* the last answer happens before: ThreadSanitizer does not see an eventfd */
        peer->work.ops = &ops;
        weir__deliver(weir__poller_at(0), &peer->work);
}

static void
ignore(struct weir__source *source)
{
        (void)source;
}

static void
add_peers(void)
{
        static const struct weir__source_ops ops = {be_asked, ignore, ignore};

        for (unsigned i = 0; i < PEERS; i++) {
                peers[i].source.ops = &ops;
                peers[i].source.fd = eventfd(1, EFD_NONBLOCK | EFD_CLOEXEC);
                CU_ASSERT_EQUAL(weir__source_add(weir__poller_at(0), &peers[i].source, EPOLLIN | EPOLLET), 0);
        }
}

/* Each round takes less than the watchdog waits for one, so it sees none of them. */
static void
long_work_in_short_rounds_is_given_away(void)
{
        answers.runs = answers.elsewhere = 0;
        answers.alive = PEERS;
        begin(2, WEIR_MSEC(10));
        act_on_both(add_peers, do_nothing);
        WEIR_TEST_EVENTUALLY(answers.alive == 0);
        CU_ASSERT(answers.elsewhere > 0);
        end();
        for (unsigned i = 0; i < PEERS; i++)
                close(peers[i].source.fd);
}

/* -- deadlines of a poller with descriptors, whose queue keeps them until shortly before they run -- */

#define DUE   4000
#define LASTS WEIR_USEC(20)

static struct {
        struct weir__source source;
        _Atomic unsigned runs, elsewhere;
} due;

static void
ignore_event(struct weir__source *source, uint32_t events)
{
        (void)source;
        (void)events;
}

static const struct weir__source_ops idle_ops = {ignore_event, ignore, ignore};

static void
come_due(weir_task *task, void *context)
{
        int64_t until = weir_test_now() + LASTS;

        (void)task;
        (void)context;
        while (weir_test_now() < until)
                ;
        atomic_fetch_add(&due.elsewhere, !pthread_equal(pthread_self(), sides[0].thread));
        atomic_fetch_add(&due.runs, 1);
}

static void
add_source_and_start_timers(void)
{
        weir_nsec at = weir_now() + WEIR_MSEC(20);

        due.source.ops = &idle_ops;
        due.source.fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
        CU_ASSERT_EQUAL(weir__source_add(weir__poller_at(0), &due.source, EPOLLIN | EPOLLET), 0);
        for (unsigned i = 0; i < DUE; i++)
                CU_ASSERT_EQUAL(weir_task_start(weir_timer_new(at - weir_now(), come_due, NULL)), 0);
}

static void
work_that_is_due_and_not_yet_ready_is_given_too(void)
{
        due.runs = due.elsewhere = 0;
        begin(2, WEIR_FOREVER);
        act_on_both(add_source_and_start_timers, do_nothing);
        WEIR_TEST_EVENTUALLY(due.runs == DUE);
        CU_ASSERT(due.elsewhere > DUE / 16); /* more than those few that the other took when it looked at this one, once */
        end();
        close(due.source.fd);
}

/* -- floods -- */

static struct {
        unsigned count; /* completions; of the only worker */
        unsigned until;
        unsigned ready; /* at a time */
        unsigned timer_began, timer_took;
        unsigned push_began, push_took;
        unsigned event_began, event_took;
        struct weir__source source;
        struct weir_test_latch asked, pushed, done;
} flood;

static void
timer_came(weir_task *task, void *unused)
{
        (void)task;
        (void)unused;
        flood.timer_took = flood.count - flood.timer_began;
        weir_test_latch_count_down(&flood.done);
}

static void
push_came(weir_task *task, void *unused)
{
        (void)task;
        (void)unused;
        flood.push_took = flood.count - flood.push_began;
        weir_test_latch_count_down(&flood.done);
}

static void
event_came(struct weir__source *source, uint32_t events)
{
        if (events & EPOLLIN && !flood.event_took) {
                flood.event_took = flood.count - flood.event_began;
                weir__source_remove(weir__poller_at(0), source);
                close(source->fd);
                weir_test_latch_count_down(&flood.done);
        }
}

static void
leave_source(struct weir__source *source)
{
        (void)source;
}

static const struct weir__source_ops source_ops = {event_came, leave_source, leave_source};

/* Another thread, while the callback that asks for it waits. */
static void
push_from_elsewhere(void *unused)
{
        (void)unused;
        weir_test_latch_wait(&flood.asked);
        CU_ASSERT_EQUAL(weir_task_start(weir_empty_new(push_came, NULL)), 0);
        weir_test_latch_count_down(&flood.pushed);
}

/* In the midst of the flood: a deadline that has come, a completion of another thread, and a descriptor that is ready. */
static void
cause_something(void)
{
        if (flood.count == 1000) {
                flood.timer_began = flood.count;
                CU_ASSERT_EQUAL(weir_task_start(weir_timer_new(1, timer_came, NULL)), 0);
        } else if (flood.count == 2000) {
                flood.push_began = flood.count;
                weir_test_latch_count_down(&flood.asked);
                weir_test_latch_wait(&flood.pushed);
        } else if (flood.count == 3000) {
                flood.event_began = flood.count;
                flood.source.ops = &source_ops;
                flood.source.fd = eventfd(1, EFD_NONBLOCK | EFD_CLOEXEC);
                CU_ASSERT_EQUAL(weir__source_add(weir__poller_at(0), &flood.source, EPOLLIN | EPOLLET), 0);
        }
}

static void
flow(weir_task *task, void *context)
{
        flood.count++;
        cause_something();
        if (flood.count < flood.until) {
                weir_series_push(weir_series_of(task), weir_empty_new(flow, context));
        }
}

static void
start_flood(void *unused)
{
        (void)unused;
        for (unsigned i = 0; i < flood.ready; i++) {
                CU_ASSERT_EQUAL(weir_task_start(weir_empty_new(flow, NULL)), 0);
        }
}

static void
begin_flood(unsigned ready)
{
        memset(&flood, 0, sizeof flood);
        flood.ready = ready;
        flood.until = 10000;
        weir_test_latch_init(&flood.asked, 1);
        weir_test_latch_init(&flood.pushed, 1);
        weir_test_latch_init(&flood.done, 3);
        begin(1, WEIR_FOREVER);
}

static void
expect_fairness(unsigned ready)
{
        struct weir_test_thread pusher;

        begin_flood(ready);
        has_no_threads = false;
        weir_test_thread_start(&pusher, push_from_elsewhere, NULL);
        weir_test_act(0, start_flood, NULL);
        weir_test_latch_wait(&flood.done);
        weir_test_thread_join(&pusher);
        end();
        /* The timer and the push run behind the work items that were ready before. */
        CU_ASSERT(flood.timer_took <= WEIR__BATCH + ready + BETWEEN);
        CU_ASSERT(flood.push_took <= WEIR__BATCH + ready + BETWEEN);
        CU_ASSERT(flood.event_took <= WEIR__BATCH + BETWEEN);
}

static void
flood_in_one_series_keeps_nothing_waiting_for_more_than_a_batch(void)
{
        expect_fairness(1);
}

static void
flood_in_many_series_keeps_nothing_waiting_for_more_than_a_batch(void)
{
        expect_fairness(STRANDS);
}

static void
flow_of_many(weir_task *task, void *unused)
{
        (void)task;
        (void)unused;
        flood.count++;
        cause_something();
}

static void
cancel_many(void *unused)
{
        (void)unused;
        CU_ASSERT_EQUAL(weir_timer_cancel("many", WEIR_ALL), flood.until);
}

static void
flood_of_cancelled_timers_keeps_nothing_waiting_for_more_than_a_batch(void)
{
        struct weir_test_thread pusher;

        begin_flood(0);
        has_no_threads = false;
        weir_test_thread_start(&pusher, push_from_elsewhere, NULL);
        for (unsigned i = 0; i < flood.until; i++) {
                CU_ASSERT_EQUAL(weir_task_start(weir_timer_new_named("many", WEIR_TEST_FAR, flow_of_many, NULL)), 0);
        }
        weir_test_act(0, cancel_many, NULL);
        weir_test_latch_wait(&flood.done);
        weir_test_thread_join(&pusher);
        end();
        CU_ASSERT(flood.timer_took <= WEIR__BATCH + BETWEEN);
        CU_ASSERT(flood.push_took <= WEIR__BATCH + BETWEEN);
        CU_ASSERT(flood.event_took <= WEIR__BATCH + BETWEEN);
        CU_ASSERT_EQUAL(flood.count, flood.until);
}

/* -- order -- */

static struct weir_test_record ordered[MANY_CHAINS];

static void
start_in_order(void *counter)
{
        for (unsigned i = 0; i < MANY_CHAINS; i++) {
                ordered[i].counter = counter;
                CU_ASSERT_EQUAL(weir_task_start(weir_test_empty(&ordered[i])), 0);
        }
}

static void
one_worker_runs_what_is_ready_in_order(void)
{
        _Atomic unsigned counter = 0;

        memset(ordered, 0, sizeof ordered);
        begin(1, WEIR_TEST_LIMIT_OF_CALLBACKS);
        weir_test_act(0, start_in_order, &counter);
        WEIR_TEST_EVENTUALLY(counter == MANY_CHAINS);
        end();
        for (unsigned i = 0; i < MANY_CHAINS; i++) {
                WEIR_TEST_CALLED(&ordered[i], 0);
                CU_ASSERT_EQUAL(ordered[i].order, i);
        }
}

/* -- work that was given -- */

#define RENEWED 48

static _Atomic unsigned renewals[RENEWED];
static _Atomic bool stops_renewing;

/* Its successor is ready at once, so that each poller has work for as long as the test likes. */
static void
renew(weir_task *task, void *context)
{
        (void)task;
        usleep(1000);
        (*(_Atomic unsigned *)context)++;
        if (!stops_renewing)
                weir_task_start(weir_timer_new(0, renew, context));
}

static bool
have_all_begun(void)
{
        for (unsigned i = 0; i < RENEWED; i++)
                if (renewals[i] == 0)
                        return false;
        return true;
}

/* All of it lies on one poller at first, so the other one sleeps and is given some; from then on neither ever sleeps. */
static void
work_that_was_given_is_run_though_no_worker_sleeps_any_more(void)
{
        begin(2, 0);
        stops_renewing = false;
        for (unsigned i = 0; i < RENEWED; i++) {
                renewals[i] = 0;
                CU_ASSERT_EQUAL(weir_task_start(weir_timer_new(0, renew, &renewals[i])), 0);
        }
        WEIR_TEST_EVENTUALLY(have_all_begun());
        stops_renewing = true;
        end();
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(few_long_callbacks_of_one_poller_are_run_by_both_workers),
                WEIR_TEST(many_short_callbacks_of_one_poller_are_run_by_both_workers),
                WEIR_TEST(work_that_was_given_is_run_though_no_worker_sleeps_any_more),
                WEIR_TEST(work_of_microseconds_wakes_nobody),
                WEIR_TEST(work_that_may_not_migrate_is_not_given_away),
                WEIR_TEST(overdue_timers_of_a_busy_poller_are_expired_by_another),
                WEIR_TEST(long_work_in_short_rounds_is_given_away),
                WEIR_TEST(work_that_is_due_and_not_yet_ready_is_given_too),
                WEIR_TEST(flood_in_one_series_keeps_nothing_waiting_for_more_than_a_batch),
                WEIR_TEST(flood_in_many_series_keeps_nothing_waiting_for_more_than_a_batch),
                WEIR_TEST(flood_of_cancelled_timers_keeps_nothing_waiting_for_more_than_a_batch),
                WEIR_TEST(one_worker_runs_what_is_ready_in_order),
        };

        return weir_test_main("share", tests, sizeof tests / sizeof *tests);
}
