/* test/protocol_push_test.c: messages that a client of an own protocol gets and has not asked for. */
#include "test/protocol_client_fixture.h"

static void
a_function_matches_and_tells_pushes(void)
{
        struct weir_protocol own = {.size = sizeof own,
                                    .delimiter = "\n",
                                    .delimiter_size = 1,
                                    .bare = true,
                                    .connections = 1,
                                    .depth = 4,
                                    .match = match_letter,
                                    .unsolicited = echo_later};
        struct asked asked[3];

        begin(&own);
        ask(&asked[0], "a");
        ask(&asked[1], "b");
        int peer = must_take();
        GOT(peer, "a\nb\n");
        answer(peer, "b1\n+p-\n+q\n.2\n");
        ANSWERED(&asked[1], "b1");
        ANSWERED(&asked[0], ".2");
        HEARD("+p-|+q|");
        GOT(peer, "+q\n"); /* a push may be answered */
        ask(&asked[0], "a");
        ask(&asked[1], "a");
        SAW(&asked[1], -EEXIST, "", WEIR_ASK_QUEUED);
        answer(peer, "+r-\n");
        HEARD("+r-|");
        answer(peer, "a\n");
        ANSWERED(&asked[0], "a");
        close(peer);
        weir_test_pass(0);
        end();
}

static weir_session *pushing;

static void
echo_and_keep(weir_task *message, void *context)
{
        if (!pushing)
                pushing = weir_session_ref(weir_message_session(message));
        echo_later(message, context);
}

static const struct weir_protocol pushed = {.size = sizeof pushed,
                                            .delimiter = "\n",
                                            .delimiter_size = 1,
                                            .bare = true,
                                            .connections = 1,
                                            .depth = 4,
                                            .idle_limit = WEIR_SEC(5),
                                            .unsolicited = echo_and_keep};

/* A connection that has answered a request, and is idle. */
static int
begin_pushed(void)
{
        struct asked asked;

        pushing = NULL;
        begin(&pushed);
        ask(&asked, "x");
        int peer = must_take();
        GOT(peer, "x\n");
        answer(peer, "y\n");
        ANSWERED(&asked, "y");
        return peer;
}

static void
end_pushed(int peer)
{
        weir_test_pass(WEIR_SEC(9)); /* handlers end */
        weir_session_unref(pushing);
        pushing = NULL;
        close(peer);
        end();
}

static void
a_connection_on_which_a_push_is_handled_is_not_idle(void)
{
        int peer = begin_pushed();

        weir_test_pass(WEIR_SEC(4));
        answer(peer, "p9\n");
        weir_test_pass(WEIR_SEC(8));
        GOT(peer, "");
        weir_test_pass(WEIR_SEC(1));
        GOT(peer, "p9\n");
        weir_test_pass(WEIR_SEC(4));
        answer(peer, "p-\n"); /* to which there is no reply */
        weir_test_pass(WEIR_SEC(4));
        CU_ASSERT_EQUAL(weir_task_start(weir_session_send_new(pushing, "q", 1, NULL, NULL)), 0);
        weir_test_pass(WEIR_SEC(4));
        GOT(peer, "q\n");
        GOT(peer, "");
        weir_test_pass(WEIR_SEC(2));
        GOT(peer, "<end>");
        end_pushed(peer);
}

static void
the_last_reference_waits_for_the_reply_to_a_push(void)
{
        int peer = begin_pushed();

        answer(peer, "p2\n");
        weir_endpoint_unref(endpoint);
        endpoint = NULL;
        weir_test_pass(WEIR_SEC(1));
        answer(peer, "q-\n"); /* too late */
        weir_test_pass(WEIR_SEC(1));
        HEARD("p2|");
        GOT(peer, "p2\n");
        CU_ASSERT(strcmp(got(peer, NULL), "<end>") == 0 || errno == ECONNRESET);
        end_pushed(peer);
}

static void
a_cancel_waits_for_the_reply_to_a_push(void)
{
        struct asked asked;
        int peer = begin_pushed();

        answer(peer, "p2\n");
        ask(&asked, "x");
        GOT(peer, "x\n");
        cancel(&asked);
        SAW(&asked, -ECANCELED, "", WEIR_ASK_WAITING);
        weir_test_pass(WEIR_SEC(2));
        GOT(peer, "p2\n");
        GOT(peer, "<end>");
        end_pushed(peer);
}

static void
a_close_waits_for_the_reply_to_a_push(void)
{
        int peer = begin_pushed();

        answer(peer, "p2\n");
        weir_session_close(pushing);
        weir_test_pass(WEIR_SEC(2));
        GOT(peer, "p2\n");
        GOT(peer, "<end>");
        end_pushed(peer);
}

/* -- many of them -- */

static void
answer_often(int peer, const char *text, unsigned times)
{
        while (times--)
                put(peer, text);
        weir_test_pass(0);
}

/* Handlers of pushes that have not ended are many: `asked` waits behind them. */
static int
begin_full(struct weir_protocol *matched, struct asked *asked, unsigned depth)
{
        matched->match = match_letter;
        matched->depth = depth;
        matched->idle_limit = WEIR_SEC(100);
        pushing = NULL;
        begin(matched);
        ask(asked, ".");
        int peer = must_take();
        GOT(peer, ".\n");
        answer_often(peer, "+9\n", 64);
        WAITS(asked);
        return peer;
}

static void
a_reply_passes_pushes_that_are_not_handled(void)
{
        for (unsigned depth = 1; depth <= 4; depth += 3) {
                struct weir_protocol matched = pushed;
                struct asked asked;
                int peer = begin_full(&matched, &asked, depth);

                answer(peer, "+9\n.y\n");
                ANSWERED(&asked, ".y");
                CU_ASSERT_EQUAL(heard_count, 65);
                answer_often(peer, "+9\n", 10); /* nobody waits: they stay where they are */
                CU_ASSERT_EQUAL(heard_count, 65);
                ask(&asked, ".");
                CU_ASSERT_EQUAL(heard_count, 75);
                answer(peer, ".z\n");
                ANSWERED(&asked, ".z");
                end_pushed(peer);
        }
}

static void
wait_long(weir_task *message, void *context)
{
        (void)context;
        hear(message);
        weir_series_push(weir_series_of(message), weir_timer_new(WEIR_SEC(100), NULL, NULL));
}

static void
a_flood_of_pushes_is_not_taken_in(void)
{
        struct weir_protocol matched = pushed;
        struct asked asked;
        int peer = begin_full(&matched, &asked, 1);

        answer_often(peer, "+9\n", 1020 - 64);
        answer_often(peer, "+1\n", 10);
        answer(peer, ".y\n");
        CU_ASSERT_EQUAL(heard_count, 1024);
        WAITS(&asked);
        weir_test_pass(WEIR_SEC(1));
        CU_ASSERT_EQUAL(heard_count, 1028);
        weir_test_pass(WEIR_SEC(1));
        ANSWERED(&asked, ".y");
        CU_ASSERT_EQUAL(heard_count, 1030);
        end_pushed(peer);
        matched.max_message = 2; /* in bytes, these are all that it takes */
        matched.delimiter = "9";
        matched.bare = false;
        matched.match = match_letter;
        matched.unsolicited = wait_long;
        begin(&matched);
        ask(&asked, ".9");
        peer = must_take();
        answer_often(peer, "+9", 64);
        answer(peer, "+9.9");
        CU_ASSERT_EQUAL(heard_count, 64);
        weir_test_pass(WEIR_SEC(60));
        SAW(&asked, -ETIMEDOUT, "", WEIR_ASK_WAITING);
        weir_test_pass(WEIR_SEC(40));
        end_pushed(peer);
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(a_function_matches_and_tells_pushes),
                WEIR_TEST(a_connection_on_which_a_push_is_handled_is_not_idle),
                WEIR_TEST(the_last_reference_waits_for_the_reply_to_a_push),
                WEIR_TEST(a_cancel_waits_for_the_reply_to_a_push),
                WEIR_TEST(a_close_waits_for_the_reply_to_a_push),
                WEIR_TEST(a_reply_passes_pushes_that_are_not_handled),
                WEIR_TEST(a_flood_of_pushes_is_not_taken_in),
        };

        return weir_test_main("protocol_push", tests, sizeof tests / sizeof *tests);
}
