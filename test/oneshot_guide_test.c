/* test/oneshot_guide_test.c: the examples of docs/waiting.md: counters, mailboxes, conditionals and barriers. */
#include "test/fixture.h"

#include <errno.h>

/* -- counter -- */

static void
on_warm(weir_task *task, void *context)
{
        *(int *)context = weir_task_status(task);
}

static int
open_when_warm(int *opened)
{
        return weir_task_start(weir_counter_new_named("warm", 3, on_warm, opened));
}

static void
on_cache_loaded(weir_task *task, void *context)
{
        (void)task;
        (void)context;
        weir_counter_count_named("warm", 1);
}

static void
server_opens_when_three_caches_are_loaded(void)
{
        int opened = 1;

        weir_test_begin_virtual();
        CU_ASSERT_EQUAL(open_when_warm(&opened), 0);
        for (unsigned i = 1; i <= 3; i++)
                weir_task_start(weir_timer_new(WEIR_SEC(i), on_cache_loaded, NULL));
        weir_test_pass(WEIR_SEC(3) - 1);
        CU_ASSERT_EQUAL(opened, 1);
        weir_test_pass(1);
        CU_ASSERT_EQUAL(opened, 0);
        weir_test_end();
}

/* -- mailbox -- */

struct subscriber {
        char text[16];
        int status;
};

static void
on_news(weir_task *task, void *context)
{
        struct subscriber *subscriber = context;
        const char *text = weir_mailbox_message(task);

        subscriber->status = weir_task_status(task);
        if (text)
                snprintf(subscriber->text, sizeof subscriber->text, "%s", text);
}

static void
subscribe(struct subscriber *subscriber)
{
        weir_series *series = weir_series_new(NULL, NULL);

        weir_series_push(series, weir_mailbox_new_named("news", on_news, subscriber));
        weir_series_set_deadline(series, WEIR_SEC(30)); /* a long poll */
        weir_series_start(series);
}

static char breaking[] = "breaking";

static size_t
publish(void)
{
        return weir_mailbox_send_named("news", breaking, WEIR_ALL);
}

static void
news_reach_all_who_wait_and_nobody_else(void)
{
        struct subscriber first = {.status = 1}, second = {.status = 1}, late = {.status = 1};

        weir_test_begin_virtual();
        subscribe(&first);
        subscribe(&second);
        CU_ASSERT_EQUAL(publish(), 2);
        subscribe(&late);
        weir_test_pass(WEIR_SEC(30));
        CU_ASSERT_STRING_EQUAL(first.text, "breaking");
        CU_ASSERT_STRING_EQUAL(second.text, "breaking");
        CU_ASSERT_EQUAL(late.status, -ETIMEDOUT);
        CU_ASSERT_EQUAL(publish(), 0);
        weir_test_end();
}

/* -- conditional -- */

static void
on_sent(weir_task *task, void *context)
{
        (void)task;
        ++*(unsigned *)context;
}

static weir_task *
send_mail(unsigned *sent)
{
        return weir_timer_new(WEIR_MSEC(10), on_sent, sent);
}

static int
prepare_mail(unsigned *sent)
{
        return weir_task_start(weir_conditional_new_named("approved", send_mail(sent), NULL, NULL));
}

static size_t
approve(void)
{
        return weir_condition_signal_named("approved", 1); /* the one that waits longest */
}

static void
mail_is_sent_when_somebody_approves_it(void)
{
        unsigned sent = 0;

        weir_test_begin_virtual();
        CU_ASSERT_EQUAL(approve(), 0);
        prepare_mail(&sent);
        prepare_mail(&sent);
        weir_test_pass(WEIR_SEC(1));
        CU_ASSERT_EQUAL(sent, 0);
        CU_ASSERT_EQUAL(approve(), 1);
        weir_test_pass(WEIR_SEC(1));
        CU_ASSERT_EQUAL(sent, 1);
        weir_test_end();
}

/* -- barrier -- */

struct game {
        weir_barrier *barrier;
        unsigned players, rounds, moves;
};

static void play(weir_series *series, struct game *game);

static void
on_all_moved(weir_task *task, void *context)
{
        struct game *game = context;

        if (weir_barrier_is_last(task))
                game->rounds++; /* once for each round */
        if (game->moves < 3 * game->players)
                play(weir_series_of(task), game);
}

static void
on_moved(weir_task *task, void *context)
{
        (void)task;
        ((struct game *)context)->moves++;
}

static void
play(weir_series *series, struct game *game)
{
        weir_series_push(series, weir_timer_new(WEIR_SEC(1), on_moved, game));
        weir_series_push(series, weir_barrier_arrive_new(game->barrier, on_all_moved, game));
}

static void
players_move_in_rounds(void)
{
        struct game game = {.barrier = weir_barrier_new(4), .players = 4};
        weir_task *parallel = weir_parallel_new(NULL, NULL);

        weir_test_begin_virtual();
        for (unsigned i = 0; i < game.players; i++) {
                weir_series *series = weir_series_new(NULL, NULL);

                play(series, &game);
                weir_parallel_add_series(parallel, series);
        }
        CU_ASSERT_EQUAL(weir_task_run(parallel), 0);
        CU_ASSERT_EQUAL(game.moves, 12);
        CU_ASSERT_EQUAL(game.rounds, 3);
        weir_barrier_unref(game.barrier);
        weir_test_end();
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(server_opens_when_three_caches_are_loaded),
                WEIR_TEST(news_reach_all_who_wait_and_nobody_else),
                WEIR_TEST(mail_is_sent_when_somebody_approves_it),
                WEIR_TEST(players_move_in_rounds),
        };

        return weir_test_main("oneshot_guide", tests, sizeof tests / sizeof *tests);
}
