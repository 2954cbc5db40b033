/* test/examples/webhook_sender_test.c: a receiver that fails at first, on the virtual clock: a pause takes no time. */
#include "test/examples/program.h"

static bool has_no_memory; /* for copies of texts */

static char *
copy_text(const char *text)
{
        return has_no_memory ? NULL : strdup(text);
}

#undef strdup
#define strdup copy_text
#include "examples/webhook-sender.c"
#undef strdup
#undef main

static struct {
        weir_http_server *server;
        struct sender sender;
        char url[64];
        unsigned requests, failures; /* the server fails that often */
        int status;                  /* how */
        weir_nsec when[16];
        char body[64];
} at;

static void
receive(weir_task *exchange, void *context)
{
        (void)context;
        at.when[at.requests % 16] = weir_now();
        snprintf(at.body, sizeof at.body, "%s", (const char *)weir_http_request_body(exchange, NULL));
        weir_http_reply_text(exchange, at.requests++ < at.failures ? at.status : 200, "\n");
}

static void
begin(unsigned failures, int status)
{
        memset(&at, 0, sizeof at);
        at.failures = failures;
        at.status = status;
        weir_test_begin_virtual();
        at.server = http_server(NULL, receive, NULL);
        snprintf(at.url, sizeof at.url, "http://127.0.0.1:%d/", weir_http_server_port(at.server));
        CU_ASSERT_EQUAL(sender_init(&at.sender, at.url), 0);
        program_catch();
}

static void
send_and_wait(const char *body)
{
        CU_ASSERT_EQUAL(send_event(&at.sender, body), 0);
        CU_ASSERT_EQUAL(weir_waitgroup_wait(at.sender.all, WEIR_FOREVER), 0);
}

static void
end(void)
{
        program_release();
        CU_ASSERT_EQUAL(weir_semaphore_available(at.sender.events), EVENTS);
        sender_done(&at.sender);
        CU_ASSERT_EQUAL(weir_http_server_stop(at.server, WEIR_SEC(10)), 0);
        weir_http_server_free(at.server);
        weir_test_end();
}

static void
an_event_is_sent_again_until_it_was_taken(void)
{
        begin(2, 503);
        send_and_wait("paid");
        end();
        CU_ASSERT_EQUAL(at.requests, 3);
        CU_ASSERT_STRING_EQUAL(at.body, "paid");
        CU_ASSERT(at.when[1] - at.when[0] <= WEIR_SEC(1)); /* with full jitter: anything up to that */
        CU_ASSERT(at.when[2] - at.when[1] <= WEIR_SEC(2));
        CU_ASSERT_EQUAL(at.sender.delivered, 1);
        CU_ASSERT_STRING_EQUAL(program_output.text, "paid: delivered, attempt 3\n");
}

static void
an_event_that_was_refused_is_not_sent_again(void)
{
        begin(1, 404);
        send_and_wait("paid");
        end();
        CU_ASSERT_EQUAL(at.requests, 1);
        CU_ASSERT_EQUAL(at.sender.given_up, 1);
}

static void
after_five_attempts_it_is_given_up(void)
{
        begin(100, 500);
        send_and_wait("paid");
        end();
        CU_ASSERT_EQUAL(at.requests, 5);
        CU_ASSERT_EQUAL(at.sender.given_up, 1);
}

static void
many_events_are_sent(void)
{
        begin(0, 0);
        for (int i = 0; i < 50; i++)
                CU_ASSERT_EQUAL(send_event(&at.sender, "paid"), 0);
        CU_ASSERT_EQUAL(weir_waitgroup_wait(at.sender.all, WEIR_FOREVER), 0);
        end();
        CU_ASSERT_EQUAL(at.sender.delivered, 50);
}

/* A receiver that takes nothing: no attempt is successful for seconds.  No more events wait than there is room for. */
static void
a_slow_receiver_bounds_what_waits(void)
{
        begin(1000, 503);
        for (int i = 0; i < 2 * EVENTS; i++)
                CU_ASSERT_EQUAL(send_event(&at.sender, "paid"), 0);
        CU_ASSERT(at.sender.given_up >= EVENTS); /* the first hundred, or more */
        CU_ASSERT_EQUAL(weir_waitgroup_wait(at.sender.all, WEIR_FOREVER), 0);
        end();
        CU_ASSERT_EQUAL(at.sender.given_up, 2 * EVENTS);
}

static void
an_event_for_which_there_is_no_memory_is_reported(void)
{
        begin(0, 0);
        has_no_memory = true;
        CU_ASSERT_EQUAL(send_event(&at.sender, "paid"), -ENOMEM);
        has_no_memory = false;
        end();
        CU_ASSERT_EQUAL(at.requests, 0);
}

/* The program itself, whose input and arguments are these. */
static void
run_without_memory(void)
{
        char *arguments[] = {"webhook-sender", at.url, NULL};
        int ends[2];

        if (pipe(ends) || write(ends[1], "paid\n", 5) != 5)
                _exit(2);
        close(ends[1]);
        dup2(ends[0], STDIN_FILENO);
        has_no_memory = true;
        _exit(program_main(2, arguments));
}

static void
an_event_that_was_not_sent_is_a_failure_of_the_program(void)
{
        char said[256];

        snprintf(at.url, sizeof at.url, "http://127.0.0.1:1/");
        int status = weir_test_child(run_without_memory, said, sizeof said);
        CU_ASSERT(WIFEXITED(status) && WEXITSTATUS(status) == 1);
        CU_ASSERT_STRING_EQUAL(said, "webhook-sender: paid: out of memory\n");
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(an_event_is_sent_again_until_it_was_taken),
                WEIR_TEST(an_event_that_was_refused_is_not_sent_again),
                WEIR_TEST(after_five_attempts_it_is_given_up),
                WEIR_TEST(many_events_are_sent),
                WEIR_TEST(a_slow_receiver_bounds_what_waits),
                WEIR_TEST(an_event_for_which_there_is_no_memory_is_reported),
                WEIR_TEST(an_event_that_was_not_sent_is_a_failure_of_the_program),
        };

        return weir_test_main("example_webhook_sender", tests, sizeof tests / sizeof *tests);
}
