/* test/timerq_test.c: the deadline queue, by itself and beside a plain sorted model. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kernel/queue/timerq.h"
#include "test/queue_check.h"
#include "test/support.h"

#define BATCH WEIR__TIMERQ_BATCH
#define TICK  (INT64_C(1) << 20) /* nanoseconds */
#define START (WEIR_SEC(1000000) + 12345)
#define HOUR  WEIR_SEC(3600)
#define YEAR  (8766 * HOUR)

static struct weir__timerq queue; /* of the running test */

static struct weir__timerq_node *
make_nodes(size_t count)
{
        struct weir__timerq_node *nodes = calloc(count, sizeof *nodes);

        CU_ASSERT_PTR_NOT_NULL_FATAL(nodes);
        return nodes;
}

/* -- a poller that sleeps until its next wake-up, and the cost -- */

struct poller {
        weir_nsec now;
        size_t expired, early, disordered; /* nodes */
        unsigned wake_ups;                 /* instants at which it woke */
        unsigned most_calls;               /* of expire, at one instant */
        weir_nsec last;                    /* the deadline that expired last */
        uint64_t last_sequence;
};

static void
note(struct poller *poller, const struct weir__timerq_node *node)
{
        poller->early += node->deadline > poller->now;
        poller->disordered += node->deadline < poller->last ||
                              (node->deadline == poller->last && node->sequence <= poller->last_sequence && poller->expired > 0);
        poller->last = node->deadline;
        poller->last_sequence = node->sequence;
        poller->expired++;
}

static unsigned
wake_up(struct poller *poller, weir_nsec now)
{
        struct weir__timerq_node *expired[BATCH];
        unsigned calls = 0;
        bool more;

        poller->now = now;
        do {
                unsigned count = weir__timerq_expire(&queue, now, expired, BATCH, &more);

                for (unsigned i = 0; i < count; i++)
                        note(poller, expired[i]);
                calls++;
        } while (more);
        poller->wake_ups++;
        poller->most_calls = calls > poller->most_calls ? calls : poller->most_calls;
        return calls;
}

/* Wakes up whenever the queue wants it, until nothing but WEIR_FOREVER is left. */
static void
run_dry(struct poller *poller)
{
        weir_nsec next;

        while ((next = weir__timerq_next(&queue)) != WEIR_FOREVER) {
                if (next <= poller->now && poller->wake_ups > 0) {
                        CU_FAIL("a wake-up left something due");
                        return;
                }
                wake_up(poller, next > poller->now ? next : poller->now);
        }
        CU_ASSERT_EQUAL(poller->early, 0);
        CU_ASSERT_EQUAL(poller->disordered, 0);
        timerq_check(&queue);
}

static void
begin(struct poller *poller, weir_nsec now)
{
        *poller = (struct poller){.now = now, .last = INT64_MIN};
        weir__timerq_init(&queue, now);
}

/* -- sentences -- */

static void
an_empty_queue_wants_no_wake_up(void)
{
        struct poller poller;

        begin(&poller, START);
        timerq_check(&queue);
        CU_ASSERT_EQUAL(weir__timerq_next(&queue), WEIR_FOREVER);
        CU_ASSERT_EQUAL(wake_up(&poller, START + YEAR), 1);
        CU_ASSERT_EQUAL(weir__timerq_next(&queue), WEIR_FOREVER);
        timerq_check(&queue);
}

static void
a_deadline_is_kept_to_the_nanosecond(void)
{
        static const weir_nsec durations[] = {1, 999, TICK - 1, TICK, TICK + 1, WEIR_MSEC(67), WEIR_SEC(30), HOUR, YEAR};
        struct weir__timerq_node node = {0}, *expired[BATCH];
        bool more;

        for (size_t i = 0; i < sizeof durations / sizeof *durations; i++) {
                weir__timerq_init(&queue, START);
                CU_ASSERT_EQUAL(weir__timerq_add(&queue, &node, START + durations[i]), START + durations[i]);
                CU_ASSERT_EQUAL(weir__timerq_next(&queue), START + durations[i]);
                CU_ASSERT_EQUAL(weir__timerq_expire(&queue, START + durations[i] - 1, expired, BATCH, &more), 0);
                CU_ASSERT_FALSE(more);
                CU_ASSERT_EQUAL(weir__timerq_next(&queue), START + durations[i]);
                CU_ASSERT_EQUAL(weir__timerq_expire(&queue, START + durations[i], expired, BATCH, &more), 1);
                CU_ASSERT_PTR_EQUAL(expired[0], &node);
                CU_ASSERT_FALSE(more);
                CU_ASSERT_FALSE(weir__timerq_contains(&node));
        }
}

static void
ties_come_out_first_in_first_out(void)
{
        enum { COUNT = 1000 };
        struct weir__timerq_node *nodes = make_nodes(COUNT), *expired[BATCH];
        weir_nsec deadline = START + WEIR_SEC(90);
        size_t seen = 0;
        bool more;

        weir__timerq_init(&queue, START);
        for (size_t i = 0; i < COUNT; i++)
                weir__timerq_add(&queue, &nodes[i], deadline);
        do {
                unsigned count = weir__timerq_expire(&queue, deadline, expired, BATCH, &more);

                for (unsigned i = 0; i < count; i++)
                        CU_ASSERT_PTR_EQUAL(expired[i], &nodes[seen++]);
        } while (more);
        CU_ASSERT_EQUAL(seen, COUNT);
        free(nodes);
}

static void
past_and_negative_deadlines_expire_at_once_in_order(void)
{
        static const weir_nsec deadlines[] = {START, -1, START - 1, INT64_MIN, 0, START - WEIR_SEC(5), -HOUR};
        enum { COUNT = sizeof deadlines / sizeof *deadlines };
        struct weir__timerq_node *nodes = make_nodes(COUNT);
        struct poller poller;

        begin(&poller, START);
        for (size_t i = 0; i < COUNT; i++)
                CU_ASSERT_EQUAL(weir__timerq_add(&queue, &nodes[i], deadlines[i]), deadlines[i]);
        timerq_check(&queue);
        CU_ASSERT_EQUAL(weir__timerq_next(&queue), INT64_MIN);
        CU_ASSERT_EQUAL(wake_up(&poller, START), 1);
        CU_ASSERT_EQUAL(poller.expired, COUNT);
        CU_ASSERT_EQUAL(poller.disordered, 0);
        free(nodes);
}

static void
forever_never_expires_and_wants_no_wake_up(void)
{
        enum { COUNT = 2 * BATCH };
        struct weir__timerq_node *nodes = make_nodes(COUNT);
        struct poller poller;

        begin(&poller, START);
        for (size_t i = 0; i < COUNT; i++)
                CU_ASSERT_EQUAL(weir__timerq_add(&queue, &nodes[i], WEIR_FOREVER), WEIR_FOREVER);
        CU_ASSERT_EQUAL(weir__timerq_next(&queue), WEIR_FOREVER);
        CU_ASSERT_EQUAL(wake_up(&poller, START + YEAR), 1);
        CU_ASSERT_EQUAL(wake_up(&poller, WEIR_FOREVER), 1);
        CU_ASSERT_EQUAL(poller.expired, 0);
        CU_ASSERT_EQUAL(weir__timerq_next(&queue), WEIR_FOREVER);
        timerq_check(&queue);
        for (size_t i = 0; i < COUNT; i++)
                weir__timerq_remove(&queue, &nodes[i]);
        CU_ASSERT_EQUAL(queue.count, 0);
        weir__timerq_add(&queue, &nodes[0], WEIR_FOREVER); /* after the end of time */
        wake_up(&poller, WEIR_FOREVER);
        CU_ASSERT_EQUAL(poller.expired, 0);
        free(nodes);
}

static void
the_last_instant_before_forever_expires(void)
{
        struct weir__timerq_node last = {0}, after = {0};
        struct poller poller;

        begin(&poller, 0);
        weir__timerq_add(&queue, &last, WEIR_FOREVER - 1);
        timerq_check(&queue);
        run_dry(&poller);
        CU_ASSERT_EQUAL(poller.expired, 1);
        CU_ASSERT_EQUAL(poller.wake_ups, 1);
        weir__timerq_add(&queue, &after, WEIR_FOREVER - 1);
        timerq_check(&queue);
        wake_up(&poller, WEIR_FOREVER - 1);
        CU_ASSERT_EQUAL(poller.expired, 2);
}

static void
the_owners_kind_is_left_alone(void)
{
        struct weir__timerq_node nodes[2] = {{.kind = 0}, {.kind = 1}};
        struct poller poller;

        begin(&poller, START);
        for (unsigned kind = 0; kind < 2; kind++) {
                weir__timerq_add(&queue, &nodes[kind], START + WEIR_SEC(10));
                weir__timerq_remove(&queue, &nodes[kind]);
                weir__timerq_add(&queue, &nodes[kind], START - 1);
                weir__timerq_remove(&queue, &nodes[kind]);
                weir__timerq_add(&queue, &nodes[kind], START + WEIR_SEC(100));
        }
        run_dry(&poller);
        CU_ASSERT_EQUAL(poller.expired, 2);
        CU_ASSERT_EQUAL(nodes[0].kind, 0);
        CU_ASSERT_EQUAL(nodes[1].kind, 1);
}

static void
a_lone_far_timer_costs_one_wake_up(void)
{
        struct weir__timerq_node node = {0};

        for (weir_nsec after = 1; after < 200 * YEAR; after += after / 3 + 1) {
                for (weir_nsec start = START; start < START + 5 * WEIR_SEC(5); start += WEIR_SEC(5) - 7) {
                        struct poller poller;

                        begin(&poller, start);
                        weir__timerq_add(&queue, &node, start + after);
                        run_dry(&poller);
                        CU_ASSERT_EQUAL(poller.expired, 1);
                        CU_ASSERT_EQUAL(poller.wake_ups, 1);
                        CU_ASSERT_EQUAL(poller.most_calls, 1);
                }
        }
}

static void
a_slot_of_one_batch_wants_no_wake_up_before_its_deadlines(void)
{
        struct weir__timerq_node *nodes = make_nodes(BATCH);
        weir_nsec deadline = START + HOUR;
        struct poller poller;

        begin(&poller, START);
        for (size_t i = 0; i < BATCH; i++)
                CU_ASSERT_EQUAL(weir__timerq_add(&queue, &nodes[i], deadline), deadline);
        run_dry(&poller);
        CU_ASSERT_EQUAL(poller.expired, BATCH);
        CU_ASSERT_EQUAL(poller.wake_ups, 1);
        free(nodes);
}

static void
an_overfull_slot_wants_a_wakeup_before_its_deadlines(void)
{
        struct weir__timerq_node *nodes = make_nodes(BATCH + 1), far = {0}, near = {0};
        weir_nsec deadline = START + HOUR, wanted;

        weir__timerq_init(&queue, START);
        for (size_t i = 0; i < BATCH; i++)
                weir__timerq_add(&queue, &nodes[i], deadline);
        CU_ASSERT_EQUAL(weir__timerq_next(&queue), deadline);
        wanted = weir__timerq_add(&queue, &nodes[BATCH], deadline);
        CU_ASSERT(wanted < deadline && wanted > START);
        CU_ASSERT_EQUAL(weir__timerq_next(&queue), wanted);

        /* Also behind a slot with a single node, which is there only until the overfull one begins. */
        weir__timerq_add(&queue, &far, deadline - WEIR_SEC(275));
        CU_ASSERT(weir__timerq_next(&queue) <= wanted);
        weir__timerq_remove(&queue, &far);

        weir__timerq_add(&queue, &near, START + WEIR_SEC(1));
        CU_ASSERT_EQUAL(weir__timerq_next(&queue), START + WEIR_SEC(1));
        weir__timerq_remove(&queue, &near);
        weir__timerq_remove(&queue, &nodes[0]);
        CU_ASSERT_EQUAL(weir__timerq_next(&queue), deadline);
        free(nodes);
}

static void
a_cancelled_earliest_costs_at_most_one_wake_up(void)
{
        for (weir_nsec after = WEIR_USEC(10); after < YEAR; after *= 3) {
                struct weir__timerq_node cancelled = {0}, kept = {0};
                struct poller poller;

                begin(&poller, START);
                weir__timerq_add(&queue, &cancelled, START + after);
                weir__timerq_add(&queue, &kept, START + after + after / 64);
                weir__timerq_remove(&queue, &cancelled);
                run_dry(&poller);
                CU_ASSERT_EQUAL(poller.expired, 1);
                CU_ASSERT(poller.wake_ups <= 2);
        }
}

static void
a_call_touches_at_most_a_batch(void)
{
        enum { COUNT = 100000 };
        struct weir__timerq_node *nodes = make_nodes(COUNT);
        weir_nsec tick = (START / TICK + 3) * TICK;
        struct poller poller;
        unsigned calls;

        begin(&poller, START);
        for (size_t i = 0; i < COUNT; i++)
                CU_ASSERT_EQUAL(weir__timerq_add(&queue, &nodes[i], tick + (weir_nsec)(i * 7919 % TICK)),
                                tick + (weir_nsec)(i * 7919 % TICK));
        calls = wake_up(&poller, tick + TICK);
        CU_ASSERT_EQUAL(poller.expired, COUNT);
        CU_ASSERT_EQUAL(poller.disordered, 0);
        CU_ASSERT(calls >= 2 * COUNT / BATCH); /* each is cascaded and expired */
        CU_ASSERT(calls <= 2 * COUNT / BATCH + 3);
        free(nodes);
}

static void
a_node_added_to_a_half_cascaded_slot_keeps_its_order(void)
{
        enum { COUNT = 4 * BATCH };
        struct weir__timerq_node *nodes = make_nodes(COUNT), first = {0}, last = {0}, *expired[BATCH];
        weir_nsec tick = (START / TICK + 3) * TICK;
        struct poller poller;
        bool more;

        begin(&poller, START);
        for (size_t i = 0; i < COUNT; i++)
                weir__timerq_add(&queue, &nodes[i], tick + 1000 - (weir_nsec)(i % 500));
        CU_ASSERT_EQUAL(weir__timerq_expire(&queue, tick + 2000, expired, BATCH, &more), 0);
        CU_ASSERT_TRUE(more);
        timerq_check(&queue);
        weir__timerq_add(&queue, &last, tick + 2000);
        weir__timerq_add(&queue, &first, tick);
        timerq_check(&queue);
        CU_ASSERT(weir__timerq_next(&queue) <= tick);
        wake_up(&poller, tick + 2000);
        CU_ASSERT_EQUAL(poller.expired, COUNT + 2);
        CU_ASSERT_EQUAL(poller.disordered, 0);
        CU_ASSERT_EQUAL(poller.last, tick + 2000);
        free(nodes);
}

/* The work of a poller at one instant is bounded, although whole slots of 67 ms and 4.3 s hold far more than that. */
static void
no_instant_needs_more_than_a_few_batches(void)
{
        static const struct {
                size_t count;
                weir_nsec after, within;
        } cases[] = {{1000000, 0, WEIR_SEC(1)}, {300000, WEIR_SEC(60), WEIR_SEC(1)}, {200000, HOUR, WEIR_SEC(10)}};

        for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
                size_t count = WEIR_TEST_SANITIZED ? cases[c].count / 4 : cases[c].count;
                weir_nsec within = WEIR_TEST_SANITIZED ? cases[c].within / 4 : cases[c].within;
                struct weir__timerq_node *nodes = make_nodes(count);
                struct weir_test_random random = {weir_test_seed()};
                struct poller poller;

                begin(&poller, START);
                for (size_t i = 0; i < count; i++)
                        weir__timerq_add(&queue, &nodes[i],
                                         START + cases[c].after + (weir_nsec)weir_test_random_below(&random, (uint64_t)within));
                run_dry(&poller);
                CU_ASSERT_EQUAL(poller.expired, count);
                CU_ASSERT(poller.most_calls <= 12);
                free(nodes);
        }
}

/* 10,000 timers that are due at one instant an hour away come down in portions, not level by level at once. */
static void
many_far_nodes_are_cascaded_before_their_time(void)
{
        enum { COUNT = 10000 };
        struct weir__timerq_node *nodes = make_nodes(COUNT);
        weir_nsec deadline = START + HOUR;
        struct poller poller;
        weir_nsec next;

        begin(&poller, START);
        for (size_t i = 0; i < COUNT; i++)
                weir__timerq_add(&queue, &nodes[i], deadline);
        while ((next = weir__timerq_next(&queue)) < deadline)
                wake_up(&poller, next);
        CU_ASSERT(poller.most_calls <= 3);
        CU_ASSERT(poller.wake_ups < 4 * COUNT / 100);
        CU_ASSERT(wake_up(&poller, deadline) <= 2 * COUNT / BATCH + 6);
        CU_ASSERT_EQUAL(poller.expired, COUNT);
        CU_ASSERT_EQUAL(poller.disordered, 0);
        free(nodes);
}

static void
long_jumps_are_cheap(void)
{
        enum { COUNT = 50, JUMPS = 2000 };
        struct weir__timerq_node *nodes = make_nodes(COUNT);

        for (unsigned jump = 0; jump < JUMPS; jump++) {
                struct poller poller;

                begin(&poller, START + jump * TICK);
                for (unsigned i = 0; i < COUNT; i++)
                        weir__timerq_add(&queue, &nodes[i], START + (INT64_C(1) << (10 + i)) + jump);
                CU_ASSERT(wake_up(&poller, START + 100 * YEAR) <= COUNT * WEIR__TIMERQ_LEVELS / BATCH + 1);
                CU_ASSERT_EQUAL(poller.expired, COUNT);
                CU_ASSERT_EQUAL(poller.disordered, 0);
                CU_ASSERT_EQUAL(wake_up(&poller, START + 200 * YEAR), 1);
        }
        free(nodes);
}

static void
a_clock_that_goes_back_harms_nothing(void)
{
        struct weir__timerq_node node = {0}, late = {0};
        struct poller poller;

        begin(&poller, START);
        weir__timerq_add(&queue, &node, START + WEIR_SEC(5));
        wake_up(&poller, START + WEIR_SEC(4));
        weir__timerq_add(&queue, &late, START + WEIR_SEC(1));
        wake_up(&poller, START);
        wake_up(&poller, -1);
        CU_ASSERT_EQUAL(poller.expired, 0);
        CU_ASSERT_EQUAL(weir__timerq_next(&queue), START + WEIR_SEC(1));
        run_dry(&poller);
        CU_ASSERT_EQUAL(poller.expired, 2);
}

static void
drain_takes_all_and_no_more_than_asked(void)
{
        enum { COUNT = 1000 };
        struct weir__timerq_node *nodes = make_nodes(COUNT), *taken[BATCH];
        size_t total = 0;
        unsigned count;

        weir__timerq_init(&queue, START);
        for (size_t i = 0; i < COUNT; i++)
                weir__timerq_add(&queue, &nodes[i], i % 10 == 9 ? WEIR_FOREVER : START - TICK + (INT64_C(1) << i % 60));
        CU_ASSERT_EQUAL(weir__timerq_drain(&queue, taken, 0), 0);
        while ((count = weir__timerq_drain(&queue, taken, 100)) > 0) {
                CU_ASSERT(count <= 100);
                for (unsigned i = 0; i < count; i++) {
                        CU_ASSERT_FALSE(weir__timerq_contains(taken[i]));
                        taken[i]->deadline = -1;
                }
                total += count;
                timerq_check(&queue);
        }
        CU_ASSERT_EQUAL(total, COUNT);
        for (size_t i = 0; i < COUNT; i++)
                CU_ASSERT_EQUAL(nodes[i].deadline, -1);
        CU_ASSERT_EQUAL(weir__timerq_next(&queue), WEIR_FOREVER);
        free(nodes);
}

/* -- resets -- */

static void
add_for(struct weir__timerq_node *nodes, size_t count, weir_nsec deadline)
{
        for (size_t i = 0; i < count; i++)
                weir__timerq_add(&queue, &nodes[i], deadline);
}

/* Its neighbours in the list are not touched, however often. */
static void
a_reset_that_its_slot_is_in_time_for_moves_nothing(void)
{
        struct weir__timerq_node nodes[3] = {0};
        weir_nsec deadline = (START / TICK / 4096 + 3) * 4096 * TICK;
        struct poller poller;

        begin(&poller, START);
        add_for(nodes, 3, deadline + WEIR_SEC(4));
        CU_ASSERT_EQUAL(weir__timerq_reset(&queue, &nodes[1], deadline + HOUR), WEIR_FOREVER);
        CU_ASSERT(weir__timerq_reset(&queue, &nodes[1], deadline + HOUR / 2) >= deadline + WEIR_SEC(4));
        CU_ASSERT_EQUAL(weir__timerq_reset(&queue, &nodes[1], deadline), deadline);
        CU_ASSERT_EQUAL(queue.moving_count, 0);
        timerq_check(&queue);
        CU_ASSERT_EQUAL(weir__timerq_next(&queue), deadline);
        CU_ASSERT_EQUAL(weir__timerq_reset(&queue, &nodes[1], deadline - 1), deadline - 1);
        CU_ASSERT_EQUAL(queue.moving_count, 1);
        timerq_check(&queue);
        run_dry(&poller);
        CU_ASSERT_EQUAL(poller.expired, 3);
}

static void
resets_to_earlier_are_moved_when_the_array_is_full_or_somebody_looks(void)
{
        enum { COUNT = WEIR__TIMERQ_MOVING + 1 };
        struct weir__timerq_node nodes[COUNT] = {0};
        struct poller poller;

        begin(&poller, START);
        add_for(nodes, COUNT, START + HOUR);
        for (unsigned i = 0; i < COUNT; i++) {
                weir_nsec deadline = START + WEIR_SEC(COUNT - i);

                CU_ASSERT_EQUAL(weir__timerq_reset(&queue, &nodes[i], deadline), deadline);
                CU_ASSERT_EQUAL(queue.moving_count, i < WEIR__TIMERQ_MOVING ? i + 1 : 1);
                timerq_check(&queue);
        }
        CU_ASSERT_EQUAL(weir__timerq_next(&queue), START + WEIR_SEC(1));
        CU_ASSERT_EQUAL(queue.moving_count, 0);
        weir__timerq_reset(&queue, &nodes[0], START + WEIR_MSEC(1));
        CU_ASSERT_EQUAL(wake_up(&poller, START + WEIR_MSEC(1)), 1);
        CU_ASSERT_EQUAL(poller.expired, 1);
        run_dry(&poller);
        CU_ASSERT_EQUAL(poller.expired, COUNT);
}

static void
a_moving_node_is_noted_once_until_it_is_removed(void)
{
        struct weir__timerq_node nodes[3] = {0};

        weir__timerq_init(&queue, START);
        add_for(nodes, 3, START + HOUR);
        for (unsigned i = 0; i < 3; i++)
                weir__timerq_reset(&queue, &nodes[i], START + WEIR_SEC(1));
        CU_ASSERT_EQUAL(weir__timerq_reset(&queue, &nodes[1], START + WEIR_MSEC(3)), START + WEIR_MSEC(3));
        weir__timerq_reset(&queue, &nodes[2], START + 2 * HOUR);
        CU_ASSERT_EQUAL(queue.moving_count, 3);
        timerq_check(&queue);
        weir__timerq_remove(&queue, &nodes[1]);
        CU_ASSERT_FALSE(weir__timerq_contains(&nodes[1]));
        CU_ASSERT_EQUAL(queue.moving_count, 2);
        timerq_check(&queue);
        CU_ASSERT_EQUAL(weir__timerq_next(&queue), START + WEIR_SEC(1));
        weir__timerq_remove(&queue, &nodes[0]);
        CU_ASSERT_EQUAL(weir__timerq_next(&queue), START + 2 * HOUR);
        timerq_check(&queue);
}

static void
resets_to_forever_and_back_and_into_the_past_are_exact(void)
{
        struct weir__timerq_node nodes[3] = {0};
        struct poller poller;

        begin(&poller, START);
        add_for(nodes, 3, START + HOUR);
        CU_ASSERT_EQUAL(weir__timerq_reset(&queue, &nodes[0], WEIR_FOREVER), WEIR_FOREVER);
        timerq_check(&queue);
        CU_ASSERT_EQUAL(weir__timerq_reset(&queue, &nodes[1], -5), -5);
        CU_ASSERT_EQUAL(weir__timerq_next(&queue), -5);
        timerq_check(&queue);
        CU_ASSERT_EQUAL(weir__timerq_reset(&queue, &nodes[0], WEIR_FOREVER), WEIR_FOREVER);
        CU_ASSERT_EQUAL(weir__timerq_reset(&queue, &nodes[2], WEIR_FOREVER), WEIR_FOREVER);
        wake_up(&poller, START);
        CU_ASSERT_EQUAL(poller.expired, 1);
        CU_ASSERT_EQUAL(weir__timerq_next(&queue), WEIR_FOREVER);
        CU_ASSERT_EQUAL(weir__timerq_reset(&queue, &nodes[0], START + WEIR_SEC(1)), START + WEIR_SEC(1));
        CU_ASSERT_EQUAL(weir__timerq_reset(&queue, &nodes[2], INT64_MIN), INT64_MIN);
        timerq_check(&queue);
        CU_ASSERT_EQUAL(weir__timerq_next(&queue), INT64_MIN);
        wake_up(&poller, START);
        CU_ASSERT_EQUAL(poller.expired, 2);
        wake_up(&poller, START + WEIR_SEC(1));
        CU_ASSERT_EQUAL(poller.expired, 3);
        CU_ASSERT_EQUAL(poller.early, 0);
}

/* The reset that fills the slot returns the wake-up that the slot wants.  It comes some time after that of the last node. */
static void
a_slot_filled_by_resets_wants_a_wakeup_before_its_deadlines(void)
{
        enum { COUNT = BATCH + 2 * WEIR__TIMERQ_MOVING + 1 };
        struct weir__timerq_node *nodes = make_nodes(COUNT);
        weir_nsec deadline = START + HOUR, planned = WEIR_FOREVER;

        weir__timerq_init(&queue, START);
        add_for(nodes, COUNT, START + 24 * HOUR);
        for (size_t i = 0; i < COUNT; i++) {
                weir_nsec wanted = weir__timerq_reset(&queue, &nodes[i], deadline);

                CU_ASSERT(wanted <= deadline);
                planned = wanted < planned ? wanted : planned;
                CU_ASSERT((planned < deadline) == (i + 1 > BATCH + WEIR__TIMERQ_MOVING));
        }
        CU_ASSERT_EQUAL(weir__timerq_next(&queue), planned);
        free(nodes);
}

static void
moving_nodes_are_a_part_of_the_batch(void)
{
        enum { COUNT = BATCH + WEIR__TIMERQ_MOVING };
        struct weir__timerq_node *nodes = make_nodes(COUNT), *expired[BATCH];
        bool more;

        weir__timerq_init(&queue, START);
        add_for(nodes, BATCH, START - TICK);
        add_for(nodes + BATCH, WEIR__TIMERQ_MOVING, START + HOUR);
        for (size_t i = BATCH; i < COUNT; i++)
                weir__timerq_reset(&queue, &nodes[i], START + WEIR_SEC(1));
        CU_ASSERT_EQUAL(weir__timerq_expire(&queue, START, expired, BATCH, &more), BATCH - WEIR__TIMERQ_MOVING);
        CU_ASSERT_TRUE(more);
        CU_ASSERT_EQUAL(weir__timerq_expire(&queue, START, expired, BATCH, &more), WEIR__TIMERQ_MOVING);
        free(nodes);
}

/* -- beside a model: all that is pending, sorted -- */

#define MODEL_MAX 1500

struct model {
        struct weir_test_random random;
        weir_nsec now, planned; /* the next wake-up of a poller that obeys next() and the results of add() */
        struct weir__timerq_node nodes[MODEL_MAX];
        uint16_t locations[MODEL_MAX]; /* before a call */
        struct {
                weir_nsec deadline;
                struct weir__timerq_node *node;
                size_t age; /* of its last add or reset */
        } pending[MODEL_MAX];
        size_t count, ages;
        size_t full, removed_moving; /* how often the array of what moves was full; nodes removed while they moved */
        bool drawn_to_now;           /* all deadlines are past, or in this tick: an exercise for the tree */
};

static struct model model;

static uint64_t
below(uint64_t limit)
{
        return weir_test_random_below(&model.random, limit);
}

static weir_nsec
after_now(uint64_t duration)
{
        return duration > (uint64_t)(WEIR_FOREVER - model.now) ? WEIR_FOREVER : model.now + (weir_nsec)duration;
}

static weir_nsec
any_deadline(void)
{
        static const weir_nsec mixed[] = {WEIR_MSEC(1), WEIR_MSEC(50), WEIR_SEC(1), WEIR_SEC(5), WEIR_SEC(30), HOUR};

        if (model.drawn_to_now)
                return model.now - (weir_nsec)below(TICK) + (weir_nsec)below(1000);
        switch (below(10)) {
        case 0: return after_now(WEIR_SEC(30));
        case 1:
        case 2: return after_now((uint64_t)mixed[below(sizeof mixed / sizeof *mixed)]);
        case 3: return after_now(below(WEIR_SEC(60)));
        case 4:
        case 5: return after_now(below(UINT64_C(2) << below(63)));
        case 6: return model.now - (weir_nsec)below(UINT64_C(1) << below(40));
        case 7: return below(10) == 0 ? WEIR_FOREVER - (weir_nsec)below(2) : after_now(below(TICK));
        case 8: return below(20) == 0 ? -(weir_nsec)below(WEIR_SEC(1)) : after_now(below(WEIR_MSEC(200)));
        default: return model.count ? model.pending[below(model.count)].deadline : model.now;
        }
}

static void
model_put(struct weir__timerq_node *node, weir_nsec deadline, size_t age, weir_nsec wanted)
{
        size_t at = model.count;

        model.planned = wanted < model.planned ? wanted : model.planned;
        while (at > 0 && (model.pending[at - 1].deadline > deadline ||
                          (model.pending[at - 1].deadline == deadline && model.pending[at - 1].age > age)))
                at--;
        memmove(&model.pending[at + 1], &model.pending[at], (model.count - at) * sizeof *model.pending);
        model.pending[at].deadline = deadline;
        model.pending[at].node = node;
        model.pending[at].age = age;
        model.count++;
}

static void
model_add(struct weir__timerq_node *node)
{
        weir_nsec deadline = any_deadline(), wanted = weir__timerq_add(&queue, node, deadline);

        CU_ASSERT_FATAL(wanted <= deadline);
        model_put(node, deadline, model.ages++, wanted);
}

static void
model_take(size_t at)
{
        model.count--;
        memmove(&model.pending[at], &model.pending[at + 1], (model.count - at) * sizeof *model.pending);
}

static void
add_some(uint64_t count)
{
        for (size_t tries = 0; count > 0 && tries < MODEL_MAX; tries++) {
                struct weir__timerq_node *node = &model.nodes[below(MODEL_MAX)];

                if (!weir__timerq_contains(node)) {
                        model_add(node);
                        count--;
                }
        }
}

/* One of all, or as likely one of those that are moving. */
static size_t
any_pending(void)
{
        const struct weir__timerq_node *moving;
        size_t at = below(model.count);

        if (queue.moving_count == 0 || below(2))
                return at;
        moving = queue.moving[below(queue.moving_count)];
        for (at = 0; model.pending[at].node != moving;)
                at++;
        return at;
}

static void
remove_some(uint64_t count)
{
        for (; count > 0 && model.count > 0; count--) {
                size_t at = any_pending();

                model.removed_moving += model.pending[at].node->location >= 1024;
                weir__timerq_remove(&queue, model.pending[at].node);
                model_take(at);
        }
}

/* To any deadline; or as most users do, to a while later than it was; to a while earlier; to an end. */
static weir_nsec
other_deadline(weir_nsec present)
{
        weir_nsec by = (weir_nsec)below(UINT64_C(2) << below(40));

        switch (below(8)) {
        case 0:
        case 1:
        case 2: return present < WEIR_FOREVER / 2 ? present + by : any_deadline();
        case 3:
        case 4: return present > INT64_MIN / 2 ? present - by : any_deadline();
        case 5: return below(4) ? any_deadline() : below(2) ? WEIR_FOREVER : -by;
        default: return any_deadline();
        }
}

static void
reset_some(uint64_t count)
{
        for (; count > 0 && model.count > 0; count--) {
                size_t at = below(8) ? below(model.count) : any_pending();
                struct weir__timerq_node *node = model.pending[at].node;
                weir_nsec deadline = other_deadline(node->deadline), wanted;
                bool should_move = (count + at) % 4 == 0;
                size_t age = should_move ? model.pending[at].age : model.ages++;

                wanted = (should_move ? weir__timerq_move : weir__timerq_reset)(&queue, node, deadline);
                CU_ASSERT_EQUAL_FATAL(node->deadline, deadline);
                model_take(at);
                model_put(node, deadline, age, wanted);
                model.full += queue.moving_count == WEIR__TIMERQ_MOVING;
        }
}

static void
pass_time(void)
{
        weir_nsec next = weir__timerq_next(&queue), now = model.now;

        switch (below(8)) {
        case 0:
        case 1: now = next == WEIR_FOREVER ? now : next; break;
        case 2: now = after_now(below(below(2) ? UINT64_C(1) << below(model.drawn_to_now ? 20 : 56) : WEIR_SEC(10))); break;
        case 3:
        case 4: now = after_now(below(3 * TICK)); break;
        case 5:
                now = (model.now / TICK + 1) * TICK - (weir_nsec)below(2); /* at an edge */
                break;
        default: now = after_now(below(TICK / 4));
        }
        model.now = now > model.now && now < WEIR_FOREVER ? now : model.now;
}

/* One call of expire beside the model.  Returns whether more is due. */
static bool
expire_once(void)
{
        struct weir__timerq_node *expired[BATCH];
        unsigned count, touched = 0, most = below(2) ? BATCH : 1 + (unsigned)below(BATCH);
        bool more = false;

        for (size_t i = 0; i < MODEL_MAX; i++)
                model.locations[i] = (uint16_t)model.nodes[i].location;
        count = weir__timerq_expire(&queue, model.now, expired, most, &more);
        for (size_t i = 0; i < MODEL_MAX; i++)
                touched += model.locations[i] != model.nodes[i].location;
        CU_ASSERT_FATAL(count <= most && touched <= BATCH);
        for (unsigned i = 0; i < count; i++) {
                CU_ASSERT_FATAL(model.count > 0);
                CU_ASSERT_PTR_EQUAL_FATAL(expired[i], model.pending[0].node);
                CU_ASSERT_FATAL(model.pending[0].deadline <= model.now);
                CU_ASSERT_FALSE_FATAL(weir__timerq_contains(expired[i]));
                model_take(0);
        }
        model.planned = more ? INT64_MIN : weir__timerq_next(&queue); /* at once, or when it says */
        CU_ASSERT_FATAL(more || model.planned > model.now);
        CU_ASSERT_FATAL(more || model.count == 0 || model.pending[0].deadline > model.now);
        return more;
}

static void
compare(void)
{
        weir_nsec next;

        timerq_check(&queue);
        CU_ASSERT_EQUAL_FATAL(queue.count, model.count);
        CU_ASSERT_FATAL(model.count == 0 || model.planned <= model.pending[0].deadline);
        if (below(4))
                return; /* next() ends all moving */
        next = weir__timerq_next(&queue);
        timerq_check(&queue);
        CU_ASSERT_EQUAL_FATAL(queue.moving_count, 0);
        CU_ASSERT_FATAL(model.planned <= next);
        CU_ASSERT_FATAL(model.count == 0 || next <= model.pending[0].deadline);
}

static void
step(void)
{
        uint64_t choice = below(24);

        if (choice < 8)
                add_some(1);
        else if (choice < 12)
                remove_some(1);
        else if (choice == 12)
                add_some(below(400));
        else if (choice == 13)
                remove_some(below(300));
        else if (choice < 16)
                expire_once();
        else if (choice < 19)
                reset_some(1);
        else if (choice == 19)
                reset_some(below(300));
        else {
                pass_time();
                while (expire_once() && below(4) > 0)
                        compare();
        }
        compare();
}

static void
walk_beside_the_model(weir_nsec now, bool drawn_to_now, unsigned round, unsigned steps)
{
        memset(&model, 0, sizeof model);
        model.random.state = weir_test_seed() + round;
        model.now = now;
        model.planned = WEIR_FOREVER;
        model.drawn_to_now = drawn_to_now;
        weir__timerq_init(&queue, now);
        for (unsigned i = 0; i < steps; i++)
                step();
        while (expire_once())
                compare();
        reset_some(100);
        remove_some(MODEL_MAX);
        compare();
        CU_ASSERT(drawn_to_now || (model.full > 10 && model.removed_moving > 10));
}

static void
random_walks_agree_with_a_sorted_model(void)
{
        for (unsigned round = 0; round < (WEIR_TEST_SANITIZED ? 10 : 40); round++)
                walk_beside_the_model(round % 4 == 0 ? 0 : START + round * WEIR_SEC(3), false, round, 1000);
}

static void
random_walks_within_the_tree_agree_with_a_sorted_model(void)
{
        for (unsigned round = 0; round < (WEIR_TEST_SANITIZED ? 4 : 10); round++)
                walk_beside_the_model(START, true, round, 1000);
}

/* -- the check itself -- */

/* 0 to 3 in the tree, 4 and 5 in one far slot, 6 in another, 7 at the cursor, 8 moving */
static struct weir__timerq_node spoilt[9];

enum spoiling {
        UNMARKED,
        UNNOTED,
        TWICE,
        LEFT,
        NOTHING,
        COUNT,
        SLOT_COUNT,
        EARLIEST,
        LOCATION,
        BIT,
        LINK,
        CURSOR,
        ORDER,
        SEQUENCE,
        COLOUR,
        END
};

static void
spoil(enum spoiling what)
{
        switch (what) {
        case UNMARKED: spoilt[4].location += 1024; break;
        case UNNOTED: queue.moving_count = 0; break;
        case TWICE: queue.moving[queue.moving_count++] = &spoilt[8]; break;
        case LEFT: queue.moving[queue.moving_count++] = &spoilt[6]; break;
        case NOTHING: break;
        case COUNT: queue.count++; break;
        case SLOT_COUNT: queue.slots[spoilt[4].location - 2].count--; break;
        case EARLIEST: queue.slots[spoilt[4].location - 2].earliest = spoilt[4].deadline + 1; break;
        case LOCATION: spoilt[4].location = spoilt[6].location; break;
        case BIT: queue.occupied[(spoilt[6].location - 2) / 64] = 0; break;
        case LINK: spoilt[5].link.previous = &spoilt[6].link; break;
        case CURSOR: queue.tick++; break;
        case ORDER: spoilt[0].deadline = spoilt[3].deadline; break;
        case SEQUENCE: spoilt[4].sequence = queue.sequence; break;
        case COLOUR: spoilt[0].tree.parent_and_colour ^= 1; break;
        case END: queue.tree.ends[0] = &spoilt[1].tree; break;
        }
}

static void
make_spoilt(void)
{
        memset(spoilt, 0, sizeof spoilt);
        weir__timerq_init(&queue, START);
        for (unsigned i = 0; i < 4; i++)
                weir__timerq_add(&queue, &spoilt[i], START - HOUR + i);
        weir__timerq_add(&queue, &spoilt[4], START + HOUR);
        weir__timerq_add(&queue, &spoilt[5], START + HOUR);
        weir__timerq_add(&queue, &spoilt[6], START + WEIR_SEC(5));
        weir__timerq_add(&queue, &spoilt[7], START);
        weir__timerq_add(&queue, &spoilt[8], START + 2 * HOUR);
        weir__timerq_reset(&queue, &spoilt[8], START + WEIR_SEC(5));
}

/* Runs the check in a child that spoilt its copy.  Returns whether it aborted, and what it said. */
static bool
check_aborts(enum spoiling what, char *said, size_t size)
{
        int ends[2], status;
        ssize_t length;
        pid_t child;

        CU_ASSERT_EQUAL_FATAL(pipe(ends), 0);
        child = fork();
        if (child == 0) {
                dup2(ends[1], STDERR_FILENO);
                signal(SIGABRT, SIG_DFL);
                spoil(what);
                timerq_check(&queue);
                _exit(0);
        }
        close(ends[1]);
        length = read(ends[0], said, size - 1);
        said[length > 0 ? length : 0] = '\0';
        close(ends[0]);
        CU_ASSERT_EQUAL_FATAL(waitpid(child, &status, 0), child);
        return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
}

static void
the_check_aborts_with_what_was_expected(void)
{
        static const struct {
                enum spoiling what;
                const char *expected;
        } cases[] = {
                {COUNT, "count to be the number"},
                {SLOT_COUNT, "count to be the number"},
                {EARLIEST, "than the earliest"},
                {LOCATION, "know its location"},
                {BIT, "bit to say"},
                {LINK, "mirror"},
                {CURSOR, "before the cursor"},
                {ORDER, "in order"},
                {SEQUENCE, "given out"},
                {COLOUR, "black"},
                {END, "remembered ends"},
                {UNMARKED, "and no other"},
                {UNNOTED, "and no other"},
                {TWICE, "noted once"},
                {LEFT, "to know that it is"},
        };
        char said[600];

        make_spoilt();
        CU_ASSERT_FALSE(check_aborts(NOTHING, said, sizeof said));
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
                CU_ASSERT_TRUE(check_aborts(cases[i].what, said, sizeof said));
                CU_ASSERT_PTR_NOT_NULL(strstr(said, cases[i].expected));
        }
}

static const struct weir_test tests[] = {
        WEIR_TEST(an_empty_queue_wants_no_wake_up),
        WEIR_TEST(a_deadline_is_kept_to_the_nanosecond),
        WEIR_TEST(ties_come_out_first_in_first_out),
        WEIR_TEST(past_and_negative_deadlines_expire_at_once_in_order),
        WEIR_TEST(forever_never_expires_and_wants_no_wake_up),
        WEIR_TEST(the_last_instant_before_forever_expires),
        WEIR_TEST(the_owners_kind_is_left_alone),
        WEIR_TEST(a_lone_far_timer_costs_one_wake_up),
        WEIR_TEST(a_slot_of_one_batch_wants_no_wake_up_before_its_deadlines),
        WEIR_TEST(an_overfull_slot_wants_a_wakeup_before_its_deadlines),
        WEIR_TEST(a_cancelled_earliest_costs_at_most_one_wake_up),
        WEIR_TEST(a_call_touches_at_most_a_batch),
        WEIR_TEST(a_node_added_to_a_half_cascaded_slot_keeps_its_order),
        WEIR_TEST(no_instant_needs_more_than_a_few_batches),
        WEIR_TEST(many_far_nodes_are_cascaded_before_their_time),
        WEIR_TEST(long_jumps_are_cheap),
        WEIR_TEST(a_clock_that_goes_back_harms_nothing),
        WEIR_TEST(drain_takes_all_and_no_more_than_asked),
        WEIR_TEST(a_reset_that_its_slot_is_in_time_for_moves_nothing),
        WEIR_TEST(resets_to_earlier_are_moved_when_the_array_is_full_or_somebody_looks),
        WEIR_TEST(a_moving_node_is_noted_once_until_it_is_removed),
        WEIR_TEST(resets_to_forever_and_back_and_into_the_past_are_exact),
        WEIR_TEST(a_slot_filled_by_resets_wants_a_wakeup_before_its_deadlines),
        WEIR_TEST(moving_nodes_are_a_part_of_the_batch),
        WEIR_TEST(random_walks_agree_with_a_sorted_model),
        WEIR_TEST(random_walks_within_the_tree_agree_with_a_sorted_model),
        WEIR_TEST(the_check_aborts_with_what_was_expected),
};

int
main(void)
{
        return weir_test_main("timerq", tests, sizeof tests / sizeof *tests);
}
