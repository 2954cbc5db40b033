/* test/protocol_cancel_test.c: requests of own protocols that are cancelled, late, or reach nobody. */
#include "test/protocol_client_fixture.h"

/* -- cancel, in each stage -- */

static void
a_cancel_while_it_waits_leaves_the_queue(void)
{
        struct weir_protocol single = lines;
        struct asked first, second, third;

        single.connections = 1;
        begin(&single);
        ask(&first, "1");
        ask(&second, "2");
        ask(&third, "3");
        int peer = must_take();
        cancel(&second);
        SAW(&second, -ECANCELED, "", WEIR_ASK_QUEUED);
        GOT(peer, "1\n");
        answer(peer, "x\n");
        ANSWERED(&first, "x");
        GOT(peer, "3\n");
        answer(peer, "y\n");
        ANSWERED(&third, "y");
        close(peer);
        end();
}

static void
a_cancel_in_the_hello_closes_it(void)
{
        struct weir_protocol polite = lines;
        struct asked asked;

        polite.hello = log_in;
        begin(&polite);
        ask(&asked, "x");
        int peer = must_take();
        GOT(peer, "USER\n");
        cancel(&asked);
        SAW(&asked, -ECANCELED, "", WEIR_ASK_HELLO);
        CU_ASSERT_EQUAL(weir_endpoint_connections(endpoint), 0);
        hang_up(peer);
        end();
}

static void
a_cancel_of_what_was_sent_closes_its_connection(void)
{
        struct asked asked, other;

        begin(&lines);
        ask(&asked, "x");
        int peer = must_take();
        GOT(peer, "x\n");
        cancel(&asked);
        SAW(&asked, -ECANCELED, "", WEIR_ASK_WAITING);
        CU_ASSERT_EQUAL(weir_endpoint_connections(endpoint), 0);
        hang_up(peer);
        ask(&other, "y");
        peer = must_take();
        GOT(peer, "y\n");
        answer(peer, "z\n");
        ANSWERED(&other, "z");
        close(peer);
        end();
}

static void
a_cancel_in_a_pipeline_lets_the_others_live(void)
{
        struct asked first, second, third, later;

        begin(&piped);
        ask(&first, "1");
        ask(&second, "2");
        ask(&third, "3");
        int peer = must_take();
        cancel(&second);
        SAW(&second, -ECANCELED, "", WEIR_ASK_WAITING);
        ask(&later, "4"); /* waits for another connection, and there may be no other */
        GOT(peer, "1\n2\n3\n");
        answer(peer, "a\nb\nc\n");
        ANSWERED(&first, "a");
        ANSWERED(&third, "c");
        GOT(peer, "<end>");
        close(peer);
        peer = must_take();
        GOT(peer, "4\n");
        answer(peer, "d\n");
        ANSWERED(&later, "d");
        close(peer);
        end();
}

/* The first is cancelled when it is out, the second while nothing of it is. */
static void
nothing_is_left_of_a_pipeline_that_is_cancelled(void)
{
        struct asked first, second;

        begin(&piped);
        ask(&first, "x");
        int peer = must_take();
        fill(other_end());
        ask(&second, "x");
        cancel(&first);
        SAW(&first, -ECANCELED, "", WEIR_ASK_WAITING);
        WAITS(&second);
        cancel(&second);
        SAW(&second, -ECANCELED, "", WEIR_ASK_SENDING);
        weir_test_pass(WEIR_SEC(100));
        CU_ASSERT_EQUAL(weir_endpoint_connections(endpoint), 0);
        hang_up(peer);
        end();
}

static void
with_numbers_a_late_reply_is_thrown_away(void)
{
        struct asked first, second;

        begin(&numbered);
        ask(&first, "?1");
        int peer = must_take();
        cancel(&first);
        SAW(&first, -ECANCELED, "", WEIR_ASK_WAITING);
        ask(&second, "?2");
        GOT(peer, "\0011\n\0022\n");
        answer(peer, "\1a\n\2b\n");
        ANSWERED(&second, "\2b");
        CU_ASSERT_EQUAL(weir_endpoint_connections(endpoint), 1);
        close(peer);
        end();
}

static void
late_replies_that_never_come_give_their_places_back(void)
{
        struct asked asked[4], other;

        begin(&numbered);
        for (unsigned i = 0; i < 4; i++)
                ask(&asked[i], "?x");
        int peer = must_take();
        for (unsigned i = 0; i < 4; i++) {
                cancel(&asked[i]);
                SAW(&asked[i], -ECANCELED, "", WEIR_ASK_WAITING);
        }
        ask(&other, "?y"); /* all places are taken */
        weir_test_pass(WEIR_SEC(59));
        WAITS(&other);
        CU_ASSERT_EQUAL(take(), -1);
        weir_test_pass(WEIR_SEC(2));
        close(peer);
        peer = must_take();
        GOT(peer, "\1y\n");
        answer(peer, "\1z\n");
        ANSWERED(&other, "\1z");
        close(peer);
        end();
}

static void
a_cancel_of_half_a_request_breaks_its_connection(void)
{
        struct asked large, small;

        begin(&piped);
        ask_large(&large);
        int peer = must_take();
        ask(&small, "s");
        cancel(&small); /* of which nothing is out */
        SAW(&small, -ECANCELED, "", WEIR_ASK_SENDING);
        WAITS(&large);
        ask(&small, "s");
        cancel(&large);
        SAW(&large, -ECANCELED, "", WEIR_ASK_SENDING);
        SAW(&small, -ECONNABORTED, "", WEIR_ASK_SENDING);
        hang_up(peer);
        end();
}

/* -- limits -- */

static void
limits_tell_their_stage(void)
{
        struct asked asked, queued;

        begin(&lines);
        ask(&asked, "x");
        weir_series_set_deadline(asked.series, WEIR_SEC(3));
        weir_test_pass(WEIR_SEC(4));
        SAW(&asked, -ETIMEDOUT, "", WEIR_ASK_WAITING);
        hang_up(must_take());
        ask(&asked, "x");
        int peer = must_take();
        weir_test_pass(WEIR_SEC(59));
        WAITS(&asked);
        weir_test_pass(WEIR_SEC(2));
        SAW(&asked, -ETIMEDOUT, "", WEIR_ASK_WAITING);
        hang_up(peer);
        ask_large(&asked);
        weir_test_pass(WEIR_SEC(31));
        SAW(&asked, -ETIMEDOUT, "", WEIR_ASK_SENDING);
        hang_up(must_take());
        struct asked busy[2];
        ask(&busy[0], "x");
        ask(&busy[1], "x");
        ask(&queued, "x");
        weir_series_set_deadline(queued.series, WEIR_SEC(1));
        weir_test_pass(WEIR_SEC(1));
        SAW(&queued, -ETIMEDOUT, "", WEIR_ASK_QUEUED);
        cancel(&busy[0]);
        cancel(&busy[1]);
        SAW(&busy[0], -ECANCELED, "", WEIR_ASK_WAITING);
        SAW(&busy[1], -ECANCELED, "", WEIR_ASK_WAITING);
        hang_up(must_take());
        hang_up(must_take());
        end();
}

static void
with_numbers_a_late_request_ends_alone(void)
{
        struct asked first, second;

        begin(&numbered);
        ask(&first, "?1");
        int peer = must_take();
        weir_test_pass(WEIR_SEC(30));
        ask(&second, "?2");
        weir_test_pass(WEIR_SEC(30));
        SAW(&first, -ETIMEDOUT, "", WEIR_ASK_WAITING);
        WAITS(&second);
        answer(peer, "\1a\n\2b\n");
        ANSWERED(&second, "\2b");
        close(peer);
        end();
}

static void
nobody_listens(void)
{
        struct asked asked;
        weir_endpoint *other = weir_endpoint_new("unix:/nowhere/at/all", &lines), *wrong = weir_endpoint_new("!", &lines);

        begin(&lines);
        weir_endpoint *own = endpoint;
        endpoint = other;
        ask(&asked, "x");
        SAW(&asked, -ENOENT, "", WEIR_ASK_CONNECTING);
        CU_ASSERT_EQUAL(weir_endpoint_connections(other), 0);
        endpoint = wrong;
        ask(&asked, "x");
        SAW(&asked, -EINVAL, "", WEIR_ASK_CONNECTING);
        weir_endpoint_unref(other);
        weir_endpoint_unref(wrong);
        endpoint = own;
        end();
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(a_cancel_while_it_waits_leaves_the_queue),
                WEIR_TEST(a_cancel_in_the_hello_closes_it),
                WEIR_TEST(a_cancel_of_what_was_sent_closes_its_connection),
                WEIR_TEST(a_cancel_in_a_pipeline_lets_the_others_live),
                WEIR_TEST(nothing_is_left_of_a_pipeline_that_is_cancelled),
                WEIR_TEST(with_numbers_a_late_reply_is_thrown_away),
                WEIR_TEST(late_replies_that_never_come_give_their_places_back),
                WEIR_TEST(a_cancel_of_half_a_request_breaks_its_connection),
                WEIR_TEST(limits_tell_their_stage),
                WEIR_TEST(with_numbers_a_late_request_ends_alone),
                WEIR_TEST(nobody_listens),
        };

        return weir_test_main("protocol_cancel", tests, sizeof tests / sizeof *tests);
}
