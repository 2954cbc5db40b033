/* test/recipes_guide_test.c: the code of docs/recipes.md, which quotes it word for word. */
#include "test/fixture.h"
#include "test/http_client.h"

#include <errno.h>

/* -- a daemon -- */

struct daemon {
        weir_task *end; /* comes with SIGINT or SIGTERM */
        weir_http_server *server;
        weir_waitgroup *jobs; /* work that goes on behind its reply */
        _Atomic int done;
};

static void
job_ended(weir_task *job, void *context)
{
        struct daemon *daemon = context;

        if (weir_task_status(job) == 0)
                atomic_fetch_add(&daemon->done, 1);
}

static void
on_order(weir_task *exchange, void *context)
{
        struct daemon *daemon = context;

        if (weir_task_start_waited(weir_timer_new(WEIR_MSEC(20), job_ended, daemon), daemon->jobs))
                weir_http_reply_text(exchange, 503, "not now\n");
        else
                weir_http_reply_text(exchange, 202, "it is being done\n");
}

static int
daemon_start(struct daemon *daemon, const char *address)
{
        /* First the signals: a task counts them from its making, so none is missed. */
        daemon->end = weir_race_new(NULL, NULL);
        weir_race_add(daemon->end, weir_signal_new(SIGINT, NULL, NULL));
        weir_race_add(daemon->end, weir_signal_new(SIGTERM, NULL, NULL));

        daemon->jobs = weir_waitgroup_new();
        daemon->server = weir_http_server_new(NULL, on_order, daemon);
        int failed = weir_http_server_start(daemon->server, address);
        if (failed) {
                weir_task_dismiss(daemon->end);
                weir_http_server_free(daemon->server);
                weir_waitgroup_free(daemon->jobs);
        }
        return failed;
}

/* On the main thread, which gets the signals: those of the library block them. */
static int
daemon_run(struct daemon *daemon)
{
        int failed = weir_task_run(daemon->end);

        /* No new requests; replies that are due go out. */
        weir_http_server_stop(daemon->server, WEIR_SEC(30));
        weir_http_server_free(daemon->server);
        /* What requests have begun comes to its end. */
        weir_waitgroup_wait(daemon->jobs, WEIR_SEC(30));
        /* All else ends with -ESHUTDOWN.  Callbacks may use the group until then. */
        weir_shutdown();
        weir_waitgroup_free(daemon->jobs);
        return failed;
}

static void
a_daemon_stops_in_order(void)
{
        struct daemon daemon = {0};
        struct http_client client;
        struct http_reply reply = {0};

        CU_ASSERT_FATAL(daemon_start(&daemon, "127.0.0.1:0") == 0);
        http_open(&client, weir_http_server_port(daemon.server));
        http_ask(&client, "GET / HTTP/1.1\r\nHost: h\r\n\r\n", &reply);
        CU_ASSERT(reply.status == 202);
        http_reply_done(&reply);
        http_close(&client);
        raise(SIGTERM);
        CU_ASSERT(daemon_run(&daemon) == 0);
        CU_ASSERT(daemon.done == 1); /* the stop has waited for the job */
}

static void
a_daemon_that_cannot_listen_leaves_nothing(void)
{
        struct daemon daemon = {0};

        CU_ASSERT(daemon_start(&daemon, "127.0.0.1:80000") < 0);
        CU_ASSERT(weir_shutdown() == 0);
}

/* -- another context for a named timer -- */

static char sent[64];

static void
send_draft(weir_task *timer, void *draft)
{
        if (weir_task_status(timer) == 0) /* otherwise it was replaced, or the program ends */
                snprintf(sent, sizeof sent, "%s", (const char *)draft);
}

/* Sends the draft in a minute, instead of an earlier one of that name. */
static int
save_draft(const char *name, const char *text)
{
        char *draft = strdup(text);

        if (!draft)
                return -ENOMEM;
        weir_timer_cancel(name, WEIR_ALL); /* before the new one is made, which has the name */
        weir_task *timer = weir_timer_new_named(name, WEIR_SEC(60), send_draft, NULL);
        weir_task_set_context(timer, draft, free);
        return weir_task_start(timer); /* with NULL: -ENOMEM */
}

static void
the_newest_draft_is_sent(void)
{
        weir_test_begin_virtual();
        CU_ASSERT(save_draft("draft/7", "first") == 0);
        weir_clock_advance(WEIR_SEC(59));
        CU_ASSERT(save_draft("draft/7", "second") == 0);
        CU_ASSERT(weir_timer_count("draft/7") == 1);
        weir_clock_advance(WEIR_SEC(59));
        CU_ASSERT_STRING_EQUAL(sent, "");
        weir_clock_advance(WEIR_SEC(1));
        CU_ASSERT_STRING_EQUAL(sent, "second");
        weir_test_end();
}

/* -- the same timer, whose context changes -- */

struct letter {
        pthread_mutex_t lock; /* several threads may change the text at once */
        char text[64];
};

static void
set_text(void *context, void *text)
{
        struct letter *letter = context;

        pthread_mutex_lock(&letter->lock);
        snprintf(letter->text, sizeof letter->text, "%s", (const char *)text);
        pthread_mutex_unlock(&letter->lock);
}

/* Returns whether the letter is still there to be changed. */
static bool
change_letter(const char *name, char *text)
{
        return weir_timer_with(name, set_text, text) == 1;
}

static void
a_letter_is_changed_until_it_is_sent(void)
{
        struct letter letter = {.lock = PTHREAD_MUTEX_INITIALIZER, .text = "first"};
        char text[] = "second";

        weir_test_begin_virtual();
        weir_task_start(weir_timer_new_named("letter/7", WEIR_SEC(60), NULL, &letter));
        CU_ASSERT(change_letter("letter/7", text));
        CU_ASSERT_STRING_EQUAL(letter.text, "second");
        weir_clock_advance(WEIR_SEC(60));
        CU_ASSERT(!change_letter("letter/7", text));
        weir_test_end();
}

/* -- Retry-After -- */

/* Whole seconds, rounded up: after a second too few the client would be refused again. */
static void
retry_after(weir_task *exchange, weir_nsec delay)
{
        weir_nsec seconds = (delay + WEIR_SEC(1) - 1) / WEIR_SEC(1);
        char text[24];

        snprintf(text, sizeof text, "%lld", (long long)seconds);
        weir_http_reply_header(exchange, "Retry-After", text);
        weir_http_reply_text(exchange, 429, "slowly, please\n");
}

static void
refuse(weir_task *exchange, void *delay)
{
        retry_after(exchange, *(const weir_nsec *)delay);
}

static void
seconds_are_rounded_up(void)
{
        static const struct {
                weir_nsec delay;
                const char *seconds;
        } cases[] = {{0, "0"}, {1, "1"}, {WEIR_SEC(1), "1"}, {WEIR_SEC(1) + 1, "2"}, {WEIR_SEC(59.5), "60"}};
        weir_nsec delay = 0;

        weir_test_begin_virtual();
        weir_http_server *server = http_server(NULL, refuse, &delay);
        struct http_client client;
        http_open(&client, weir_http_server_port(server));
        for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
                struct http_reply reply = {0};

                delay = cases[i].delay;
                http_ask(&client, "GET / HTTP/1.1\r\nHost: h\r\n\r\n", &reply);
                CU_ASSERT(reply.status == 429);
                CU_ASSERT_STRING_EQUAL(http_field(&reply, "Retry-After"), cases[i].seconds);
                http_reply_done(&reply);
        }
        http_close(&client);
        weir_http_server_stop(server, 0);
        weir_http_server_free(server);
        weir_test_end();
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(a_daemon_stops_in_order),  WEIR_TEST(a_daemon_that_cannot_listen_leaves_nothing),
                WEIR_TEST(the_newest_draft_is_sent), WEIR_TEST(a_letter_is_changed_until_it_is_sent),
                WEIR_TEST(seconds_are_rounded_up),
        };

        return weir_test_main("recipes_guide", tests, sizeof tests / sizeof *tests);
}
