/* The page of a store: what it shows, of names that want to be more than shown, to whom, and what it does if the engine fails. */
#include <errno.h>
#include <string.h>

#include "durable/store.h"
#include "test/addon/durable_url.h"
#include "test/http_client.h"

#define HOSTILE "<script>alert(1)</script>&\"'\n\033[31m\xff\xc0\x80\xe2\x80\xae\xc2\x9b\\\xc3\xbc"

static weir_durable *store;
static weir_http_server *server;
static struct http_client client;
static struct http_reply reply;

static void
fail(weir_task *delivery, void *context)
{
        (void)context;
        weir_series_fail(weir_series_of(delivery), -EIO);
}

static void
begin(const char *url, weir_task_fn *handler)
{
        struct weir_durable_config config = WEIR_DURABLE_CONFIG_DEFAULT;

        struct weir_config runtime = WEIR_CONFIG_DEFAULT;

        runtime.clock = WEIR_CLOCK_VIRTUAL; /* so a slow machine meets no limit */
        CU_ASSERT_FATAL(weir_init(&runtime) == 0);
        config.attempts = 1;
        config.node = "node <1>";
        store = weir_durable_open_with(&config, url);
        CU_ASSERT_PTR_NOT_NULL_FATAL(store);
        server = http_server(NULL, handler, store);
        http_open(&client, weir_http_server_port(server));
}

static void
end(void)
{
        http_close(&client);
        http_reply_done(&reply);
        CU_ASSERT(weir_http_server_stop(server, WEIR_SEC(1)) == 0);
        weir_http_server_free(server);
        weir_durable_close(store);
        CU_ASSERT(weir_shutdown() == 0);
}

/* Asks for the page, with fields that end in CRLF.  Result: the status. */
static int
look(const char *method, const char *query, const char *fields)
{
        char request[400];

        snprintf(request, sizeof request, "%s /debug/timers%s HTTP/1.1\r\n%s\r\n", method, query, fields);
        http_close(&client);
        http_open(&client, weir_http_server_port(server));
        bool is_complete = http_ask(&client, request, &reply);
        if (!is_complete)
                printf("no reply to %s\n", request);
        return is_complete ? reply.status : 0;
}

static bool
has(const char *text)
{
        return reply.body && strstr(reply.body, text) != NULL;
}

static void
set(const char *name, weir_nsec after, const char *topic)
{
        CU_ASSERT(weir_task_run(weir_durable_set_after_new(store, name, after, topic, "secret", 6, NULL, NULL)) == 0);
}

/* Whether the texts come in that order. */
static bool
are_in_order(const char *const *texts, size_t count)
{
        const char *at = reply.body;

        for (size_t i = 0; i < count && at; i++)
                at = strstr(at, texts[i]);
        return at != NULL;
}

static void
shows_what_there_is(const char *url)
{
        struct weir_durable_stats stats = WEIR_DURABLE_STATS_DEFAULT;

        begin(url, weir_durable_page);
        set("a/last", WEIR_SEC(7200), "t");
        set("b/first", WEIR_SEC(3600), "u");
        set("c/middle", WEIR_SEC(5400), "t");
        set("d/never", WEIR_FOREVER, "v");
        set("e/dead", 0, "mail");
        CU_ASSERT(weir_task_run(weir_durable_schedule_new(store, "f/job", "@yearly", "UTC", WEIR_DURABLE_SKIP, "w", NULL, 0, NULL,
                                                          NULL)) == 0);
        CU_ASSERT_FATAL(weir_durable_on(store, "mail", fail, NULL) == 0);
        weir_clock_advance(0);
        WEIR_TEST_EVENTUALLY(weir_durable_stats(store, &stats) == 0 && stats.dead == 1 && stats.running == 0);

        CU_ASSERT_EQUAL(look("GET", "", "Host: localhost\r\n"), 200);
        HTTP_ASSERT_TEXT(http_field(&reply, "Content-Type"), "text/html; charset=utf-8");
        HTTP_ASSERT_TEXT(http_field(&reply, "Cache-Control"), "no-store");
        CU_ASSERT_PTR_NOT_NULL(strstr(http_field(&reply, "Content-Security-Policy"), "default-src 'none'; style-src 'nonce-"));
        CU_ASSERT(has("Node <bdi class=name>node &lt;1&gt;</bdi>") && has("claimed 1") && has("died 1") && has("operations 6"));
        CU_ASSERT(has("<p>Pending 5 · leased 0 · dead 1</p>"));
        CU_ASSERT(are_in_order((const char *const[]){"<h2>Next</h2>", "b/first", "c/middle", "a/last", "<h2>Dead</h2>", "e/dead",
                                                     "Input/output error", "</html>"},
                               8));
        CU_ASSERT(has("@yearly") && !has("d/never") && !has("secret") && !has("may be more"));

        CU_ASSERT_EQUAL(look("GET", "?limit=2", "Host: localhost\r\n"), 200);
        CU_ASSERT(are_in_order((const char *const[]){"b/first", "c/middle", "may be more"}, 3) && !has("a/last"));
        CU_ASSERT_EQUAL(look("GET", "?limit=1&format=json", "Host: localhost\r\n"), 200);
        HTTP_ASSERT_TEXT(http_field(&reply, "Content-Type"), "application/json");
        CU_ASSERT(has("{\"node\":\"node ") && has("\"died\":1") && has(",\"counts\":{\"pending\":5,\"leased\":0,\"dead\":1}"));
        CU_ASSERT(has(",\"next\":[\n{\"name\":\"b/first\",\"topic\":\"u\",\"state\":\"pending\",\"attempt\":0,\"due\":\""));
        CU_ASSERT(has("\"dead\":[\n{\"name\":\"e/dead\"") && has("\"problem\":\"Input/output error\"") && !has("c/middle"));
        CU_ASSERT(reply.size > 2 && strcmp(reply.body + reply.size - 3, "]}\n") == 0);
        end();
}

static void
the_page_shows_counts_what_is_next_and_the_dead(void)
{
        shows_what_there_is("memory:page");
        shows_what_there_is(sqlite_url());
}

static void
hostile_names_are_only_shown(void)
{
        begin("memory:page", weir_durable_page);
        set(HOSTILE, WEIR_SEC(3600), "<b>");
        CU_ASSERT_EQUAL(look("GET", "", "Host: localhost\r\n"), 200);
        CU_ASSERT(has("<bdi class=name>&lt;script&gt;alert(1)&lt;/script&gt;&amp;&quot;&#39;\\x0a\\x1b[31m\\xff\\xc0\\x80"
                      "\\xe2\\x80\\xae\\xc2\\x9b\\\xc3\xbc</bdi>"));
        CU_ASSERT(has("<bdi class=topic>&lt;b&gt;</bdi>") && !has("<script") && !has("\033") && !has("\xe2\x80\xae"));
        CU_ASSERT_EQUAL(look("GET", "?format=json", "Host: localhost\r\n"), 200);
        CU_ASSERT(!has("<script") && !has("\033") && !has("\xff") && has("&") == has("\\u0026&"));
        CU_ASSERT(has("\\\"") && has("\\\\"));
        end();
}

/* As many rows as there may be, with names as long as they may be. */
static void
many_long_names_are_cut_at_the_limit(void)
{
        char name[WEIR_DURABLE_NAME_MAX + 1];

        begin(sqlite_url(), weir_durable_page);
        memset(name, '<', sizeof name);
        name[sizeof name - 1] = '\0';
        for (int i = 0; i < 1200; i++) {
                snprintf(name, sizeof name, "%04d", i);
                name[4] = '<';
                weir_task_start(
                        weir_durable_set_after_new(store, name, WEIR_SEC(3600 + i), i % 2 ? "t" : "u", "", 0, NULL, NULL));
        }
        CU_ASSERT_EQUAL(look("GET", "?limit=99999999999999999999", "Host: localhost\r\n"), 200);
        set("last", WEIR_SEC(86400), "t");
        CU_ASSERT_EQUAL(look("GET", "?limit=-1", "Host: localhost\r\n"), 200);
        CU_ASSERT(has("Pending 1201") && has(">0000&lt;") && has(">0099&lt;") && !has(">0100&lt;"));
        CU_ASSERT_EQUAL(look("GET", "?limit=5000", "Host: localhost\r\n"), 200);
        CU_ASSERT(has(">0999&lt;") && !has(">1000&lt;") && !has("may be more"));
        end();
}

static void
only_clients_on_this_machine_may_read(void)
{
        static const char *const good[] = {"Host: localhost:8080\r\n", "Host: a.localhost\r\n", "Host: 127.0.0.1:1\r\n",
                                           "Host: [::1]:80\r\n"};
        static const char *const bad[] = {"Host: example.org\r\n",
                                          "Host: notlocalhost\r\n",
                                          "Host: [::2]\r\n",
                                          "Host: localhost\r\nX-Forwarded-For: 127.0.0.1\r\n",
                                          "Host: localhost\r\nVia: 1.1 a\r\n",
                                          "Host: localhost\r\nForwarded: for=x\r\n"};

        begin("memory:page", weir_durable_page);
        for (size_t i = 0; i < sizeof good / sizeof *good; i++)
                CU_ASSERT_EQUAL(look("GET", "", good[i]), 200);
        for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
                CU_ASSERT_EQUAL(look("GET", "", bad[i]), 403);
                CU_ASSERT(!has("Node"));
        }
        CU_ASSERT_EQUAL(look("POST", "", "Host: localhost\r\nContent-Length: 0\r\n"), 405);
        HTTP_ASSERT_TEXT(http_field(&reply, "Allow"), "GET, HEAD");
        end();
        begin("memory:page", weir_durable_page_trusted);
        for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
                CU_ASSERT_EQUAL(look("GET", "", bad[i]), 200);
        end();
        weir_durable_page(NULL, NULL); /* no exchange: nothing */
}

static void
an_engine_that_fails_is_told(void)
{
        begin("sqlite:/nowhere/timers.db", weir_durable_page);
        CU_ASSERT_EQUAL(look("GET", "", "Host: localhost\r\n"), 503);
        CU_ASSERT(has("No answer (counts)") && !has("No answer (next)") && has("</html>"));
        CU_ASSERT_EQUAL(look("GET", "?format=json", "Host: localhost\r\n"), 503);
        CU_ASSERT(has(",\"counts_problem\":\"") && has("\"}\n"));
        end();
}

/* -- an engine that does not answer -- */

static struct weir__durable_op *held[3];
static _Atomic int held_count;

static void
hold(struct weir__durable_engine *engine, struct weir__durable_op *op)
{
        (void)engine;
        held[held_count] = op;
        held_count++;
}

static void
an_engine_that_hangs_leaves_its_pieces_out(void)
{
        struct weir__durable_engine_kind hung = weir__durable_memory;

        begin("memory:page", weir_durable_page);
        hung.submit = hold;
        store->engine->kind = &hung;
        CU_ASSERT(http_send_text(&client, "GET /debug/timers HTTP/1.1\r\nHost: localhost\r\n\r\n"));
        for (int i = 1; i <= 3; i++) {
                WEIR_TEST_EVENTUALLY(held_count == i);
                weir_clock_advance(WEIR_SEC(3));
        }
        CU_ASSERT(http_receive(&client, &reply, false) && reply.status == 503);
        CU_ASSERT(has("No answer (counts)") && has("No answer (next)") && has("No answer (dead)") && has("</html>"));
        for (int i = 0; i < 3; i++)
                weir__durable_op_end(held[i], 0); /* nobody waits for them any more */
        end();
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(the_page_shows_counts_what_is_next_and_the_dead),
                WEIR_TEST(hostile_names_are_only_shown),
                WEIR_TEST(many_long_names_are_cut_at_the_limit),
                WEIR_TEST(only_clients_on_this_machine_may_read),
                WEIR_TEST(an_engine_that_fails_is_told),
                WEIR_TEST(an_engine_that_hangs_leaves_its_pieces_out),
        };

        return weir_test_main("the page of durable timers", tests, sizeof tests / sizeof *tests);
}
