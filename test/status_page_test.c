/* test/status_page_test.c: what the page of flows shows besides flows: the cache of names, the origins of clients, tables of
 * other rooms.  A client asks the page of its own process. */
#include <errno.h>

#include <weir/http_debug.h>
#include <weir/resolve.h>

#include "kernel/observe/status.h"
#include "test/client_fixture.h"
#include "test/http_client.h"

static weir_http_server *server;
static char *page; /* of the last look */

static void
take(weir_task *get, void *context)
{
        (void)context;
        CU_ASSERT_EQUAL(weir_http_response_status(get), 200);
        page = weir_http_response_take_body(get, NULL);
}

static const char *
look_at(const char *query)
{
        char path[128];

        free(page);
        page = NULL;
        snprintf(path, sizeof path, "/debug/flows%s", query);
        CU_ASSERT_EQUAL(weir_task_run(weir_client_request_new(client, "GET", url_of(path), take, NULL)), 0);
        CU_ASSERT_PTR_NOT_NULL_FATAL(page);
        return page;
}

static void
begin_page(void)
{
        weir_test_begin_virtual();
        server = http_server(NULL, weir_http_debug, NULL);
        port = weir_http_server_port(server);
        client = weir_client_new(NULL);
}

static void
end_page(void)
{
        weir_client_unref(client);
        client = NULL;
        CU_ASSERT_EQUAL(weir_http_server_stop(server, WEIR_SEC(1)), 0);
        weir_http_server_free(server);
        weir_test_end();
        free(page);
        page = NULL;
}

static void
the_cache_of_names_is_on_the_page_once_a_name_was_looked_up(void)
{
        struct weir_resolver_config config = WEIR_RESOLVER_CONFIG_DEFAULT;

        begin_page();
        HAS_NOT(look_at(""), "<h2>names</h2>");
        config.mode = WEIR_RESOLVER_DNS;
        CU_ASSERT_EQUAL(weir_resolver_configure(&config), 0);
        CU_ASSERT_EQUAL(weir_task_run(weir_resolve_new("localhost", AF_INET, NULL, NULL)), 0);
        look_at("");
        HAS(page, "<h2>names</h2>");
        struct weir_resolver_stats numbers;
        char text[128];
        weir_resolver_stats(&numbers);
        snprintf(text, sizeof text, "%llu kept · %llu look-ups, of which 0 under way and 0 failed",
                 (unsigned long long)numbers.entries, (unsigned long long)numbers.misses);
        HAS(page, text);
        end_page();
}

static void
the_origins_of_clients_are_on_the_page(void)
{
        char origin[64];

        begin_page();
        look_at("");
        snprintf(origin, sizeof origin, "<bdi class=name>http://127.0.0.1:%d</bdi>", port);
        HAS(page, "<h2>origins of clients</h2>");
        HAS(page, origin);
        HAS(page, "data-is=\"Connections\"><bdi>1</bdi>"); /* the one that asks */
        HAS(page, "data-is=\"Idle\"><bdi>0</bdi>");
        HAS(page, "data-is=\"Requests\"><bdi>1</bdi>");
        HAS(look_at(""), "data-is=\"Requests\"><bdi>2</bdi>");
        HAS(look_at("?find=http://127"), origin);
        HAS_NOT(look_at("?find=elsewhere"), "<h2>origins of clients</h2>");
        end_page();
}

/* The client has no connection: somebody else asks. */
static void
without_origins_there_is_no_table(void)
{
        struct http_client other;
        struct http_reply reply = {0};

        begin_page();
        http_open(&other, port);
        CU_ASSERT_TRUE(http_ask(&other, "GET /debug/flows HTTP/1.1\r\nHost: localhost\r\n\r\n", &reply));
        CU_ASSERT_EQUAL(reply.status, 200);
        HAS_NOT(reply.body, "<h2>origins of clients</h2>");
        http_reply_done(&reply);
        http_close(&other);
        end_page();
}

/* -- a table of the test -- */

static int wanted_rows, shown_rows;

static int
walk(weir__status_row_fn *row, void *context)
{
        for (shown_rows = 0; shown_rows < wanted_rows; shown_rows++)
                if (row((const char *const[WEIR__STATUS_COLUMNS]){"<a&\"b\x01", "7"}, context))
                        break;
        return wanted_rows == 2 ? -ENOMEM : 0;
}

static void
any_table_is_shown_with_bounds(void)
{
        static const struct weir__status_table table = {.title = "things", .columns = {"Thing", "Count"}, .walk = walk};

        weir__status_add(&table);
        weir__status_add(&table); /* it is there already */
        begin_page();
        HAS_NOT(look_at(""), "<h2>things</h2>");
        wanted_rows = 1;
        look_at("");
        HAS(page, "<h2>things</h2>");
        HAS(page, "<bdi class=name>&lt;a&amp;&quot;b\\x01</bdi>");
        HAS(page, "data-is=\"Count\"><bdi>7</bdi>");
        HAS_NOT(page, "Out of memory");
        CU_ASSERT_PTR_NULL(strstr(strstr(page, "<h2>things</h2>") + 1, "<h2>things</h2>"));
        wanted_rows = 2;
        HAS(look_at(""), "Out of memory: something is left out.");
        wanted_rows = 1000;
        HAS(look_at("?limit=3"), "and more");
        CU_ASSERT_EQUAL(shown_rows, 3);
        end_page();
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(the_cache_of_names_is_on_the_page_once_a_name_was_looked_up),
                WEIR_TEST(the_origins_of_clients_are_on_the_page),
                WEIR_TEST(without_origins_there_is_no_table),
                WEIR_TEST(any_table_is_shown_with_bounds),
        };

        return weir_test_main("status_page", tests, sizeof tests / sizeof *tests);
}
