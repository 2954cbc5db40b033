/* test/timerq_walk_test.c: a walk through a queue of deadlines with pauses, while it changes. */
#include <stdlib.h>
#include <string.h>

#include "kernel/queue/timerq.h"
#include "test/queue_check.h"
#include "test/support.h"

#define START WEIR_SEC(1000000)

static struct weir__timerq queue;

struct node {
        struct weir__timerq_node node; /* first */
        bool was_there;                /* from the beginning of the walk, and neither taken out nor reset since */
        unsigned shown;
};

static unsigned
show_some(struct weir__timerq_walk *walk, unsigned most, bool *more)
{
        struct weir__timerq_node *shown[WEIR__TIMERQ_BATCH];
        unsigned count = weir__timerq_walk_on(&queue, walk, shown, most, more);

        CU_ASSERT(count <= most);
        for (unsigned i = 0; i < count; i++) {
                CU_ASSERT(weir__timerq_contains(shown[i]));
                ((struct node *)shown[i])->shown++;
        }
        return count;
}

static void
begin_walk(struct weir__timerq_walk *walk, struct node nodes[], size_t count)
{
        for (size_t i = 0; i < count; i++) {
                nodes[i].was_there = weir__timerq_contains(&nodes[i].node);
                nodes[i].shown = 0;
        }
        weir__timerq_walk_begin(&queue, walk);
}

/* All that were there all the time must have been shown. */
static void
check_shown(struct node nodes[], size_t count)
{
        unsigned missed = 0;

        for (size_t i = 0; i < count; i++)
                missed += nodes[i].was_there && !nodes[i].shown;
        CU_ASSERT_EQUAL(missed, 0);
        timerq_check(&queue);
}

static void
an_empty_queue_shows_nothing(void)
{
        struct weir__timerq_walk walk;
        bool more = true;
        unsigned calls = 0;

        weir__timerq_init(&queue, START);
        weir__timerq_walk_begin(&queue, &walk);
        while (more && calls++ < 100)
                CU_ASSERT_EQUAL(show_some(&walk, 7, &more), 0);
        CU_ASSERT_FALSE(more);
}

static weir_nsec
random_deadline(struct weir_test_random *random, weir_nsec now)
{
        unsigned bits = (unsigned)weir_test_random_below(random, 58);

        if (weir_test_random_below(random, 20) == 0)
                return WEIR_FOREVER;
        return now - 1000 + (weir_nsec)weir_test_random_below(random, UINT64_C(1) << bits);
}

static void
a_queue_at_rest_is_shown_whole(void)
{
        static struct node nodes[5000];
        struct weir_test_random random = {weir_test_seed()};
        struct weir__timerq_walk walk;
        bool more = true;

        memset(nodes, 0, sizeof nodes);
        weir__timerq_init(&queue, START);
        for (size_t i = 0; i < 5000; i++)
                weir__timerq_add(&queue, &nodes[i].node, random_deadline(&random, START));
        begin_walk(&walk, nodes, 5000);
        while (more)
                show_some(&walk, 64, &more);
        check_shown(nodes, 5000);
}

static void
later_deadlines_are_not_shown(void)
{
        static struct node nodes[2];
        struct weir__timerq_walk walk;
        bool more = true;

        memset(nodes, 0, sizeof nodes);
        weir__timerq_init(&queue, START);
        weir__timerq_add(&queue, &nodes[0].node, START + WEIR_SEC(5));
        begin_walk(&walk, nodes, 2);
        weir__timerq_add(&queue, &nodes[1].node, START + WEIR_SEC(5));
        while (more)
                show_some(&walk, 1, &more);
        CU_ASSERT(nodes[0].shown > 0);
        CU_ASSERT_EQUAL(nodes[1].shown, 0);
}

static void
one_that_was_put_off_before_and_is_moved_meanwhile_is_shown(void)
{
        static struct node nodes[400];
        struct weir__timerq_walk walk;
        struct weir__timerq_node *expired[WEIR__TIMERQ_BATCH];
        bool more = true;

        memset(nodes, 0, sizeof nodes);
        weir__timerq_init(&queue, START);
        for (size_t i = 0; i < 400; i++)
                weir__timerq_add(&queue, &nodes[i].node, START + WEIR_MSEC(3));
        for (size_t i = 0; i < 400; i += 2)
                weir__timerq_reset(&queue, &nodes[i].node, START + WEIR_SEC(100000));
        begin_walk(&walk, nodes, 400);
        show_some(&walk, 1, &more); /* it stands in their list, behind the one where they belong */
        for (bool due = true; due;) {
                unsigned count = weir__timerq_expire(&queue, START + WEIR_MSEC(6), expired, WEIR__TIMERQ_BATCH, &due);

                for (unsigned i = 0; i < count; i++)
                        ((struct node *)expired[i])->was_there = false;
        }
        while (more)
                show_some(&walk, 16, &more);
        check_shown(nodes, 400);
}

/* One random change. */
static void
change(struct weir_test_random *random, struct node *node, weir_nsec *now)
{
        struct weir__timerq_node *expired[WEIR__TIMERQ_BATCH];
        bool more;

        if (weir_test_random_below(random, 4) == 0) {
                *now += (weir_nsec)weir_test_random_below(random, UINT64_C(1) << weir_test_random_below(random, 34));
                unsigned count = weir__timerq_expire(&queue, *now, expired, WEIR__TIMERQ_BATCH, &more);
                for (unsigned i = 0; i < count; i++)
                        ((struct node *)expired[i])->was_there = false;
                return;
        }
        if (!weir__timerq_contains(&node->node)) {
                weir__timerq_add(&queue, &node->node, random_deadline(random, *now));
                return;
        }
        node->was_there = false;
        if (weir_test_random_below(random, 2))
                weir__timerq_remove(&queue, &node->node);
        else
                weir__timerq_reset(&queue, &node->node, random_deadline(random, *now));
}

static void
whatever_changes_meanwhile_what_stays_is_shown(void)
{
        static struct node nodes[3000];
        struct weir_test_random random = {weir_test_seed()};
        struct weir__timerq_walk walk;
        weir_nsec now = START;

        for (int round = 0; round < (WEIR_TEST_SANITIZED ? 100 : 1000); round++) {
                size_t count = 1 + weir_test_random_below(&random, 3000);
                unsigned changes = (unsigned)weir_test_random_below(&random, 30);
                unsigned most = 1 + (unsigned)weir_test_random_below(&random, 64);
                bool more = true;

                memset(nodes, 0, sizeof nodes);
                now = START;
                weir__timerq_init(&queue, START);
                for (size_t i = 0; i < count; i++)
                        weir__timerq_add(&queue, &nodes[i].node, random_deadline(&random, START));
                for (size_t i = 0; i < count; i++)
                        change(&random, &nodes[weir_test_random_below(&random, count)], &now);
                begin_walk(&walk, nodes, count);
                while (more) {
                        show_some(&walk, most, &more);
                        for (unsigned i = 0; i < changes; i++)
                                change(&random, &nodes[weir_test_random_below(&random, count)], &now);
                }
                check_shown(nodes, count);
        }
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(an_empty_queue_shows_nothing),
                WEIR_TEST(a_queue_at_rest_is_shown_whole),
                WEIR_TEST(later_deadlines_are_not_shown),
                WEIR_TEST(one_that_was_put_off_before_and_is_moved_meanwhile_is_shown),
                WEIR_TEST(whatever_changes_meanwhile_what_stays_is_shown),
        };

        return weir_test_main("timerq_look", tests, sizeof tests / sizeof tests[0]);
}
