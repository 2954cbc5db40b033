/* test/examples/guest_book_test.c: guests sign once, and are read. */
#include "test/examples/program.h"

#include "examples/guest-book.c"
#undef main

static struct {
        weir_http_router *router;
        weir_http_server *server;
        struct http_client client;
        struct http_reply reply;
} at;

static void
begin(const char *path)
{
        struct weir_sqlite_config config = WEIR_SQLITE_CONFIG_DEFAULT;

        weir_test_begin_real(2);
        config.on_writer = make_table;
        book = weir_sqlite_new(path, &config);
        at.router = weir_http_router_new();
        CU_ASSERT_EQUAL(add_handlers(at.router), 0);
        at.server = http_server(NULL, weir_http_router_handle, at.router);
        http_open(&at.client, weir_http_server_port(at.server));
}

static void
end(void)
{
        http_close(&at.client);
        CU_ASSERT_EQUAL(weir_http_server_stop(at.server, WEIR_SEC(10)), 0);
        weir_http_server_free(at.server);
        weir_sqlite_unref(book);
        weir_test_end();
        weir_http_router_free(at.router);
        http_reply_done(&at.reply);
}

static int
sign(const char *form)
{
        char request[500];

        snprintf(request, sizeof request,
                 "POST /entries HTTP/1.1\r\nHost: a\r\nContent-Length: %zu\r\n"
                 "Content-Type: application/x-www-form-urlencoded\r\n\r\n%s",
                 strlen(form), form);
        CU_ASSERT(http_ask(&at.client, request, &at.reply));
        return at.reply.status;
}

static void
guests_sign_once_and_are_read(void)
{
        begin(":memory:");
        CU_ASSERT_EQUAL(sign("name=Ada&text=hello+there"), 201);
        CU_ASSERT_EQUAL(sign("name=Bob&text=%3Btoo"), 201);
        CU_ASSERT_EQUAL(sign("name=Ada&text=again"), 409);
        CU_ASSERT_EQUAL(sign("name=Ada"), 400);
        CU_ASSERT(http_ask(&at.client, "GET /entries HTTP/1.1\r\nHost: a\r\n\r\n", &at.reply));
        CU_ASSERT_EQUAL(at.reply.status, 200);
        HTTP_ASSERT_TEXT(at.reply.body, "Bob: ;too\nAda: hello there\n");
        end();
}

static void
a_book_that_cannot_be_opened_is_no_service(void)
{
        begin("/nowhere/guest-book.db");
        CU_ASSERT_EQUAL(sign("name=Ada&text=hello"), 503);
        CU_ASSERT_PTR_NOT_NULL(strstr(at.reply.body, "unable to open database file"));
        CU_ASSERT(http_ask(&at.client, "GET /entries HTTP/1.1\r\nHost: a\r\n\r\n", &at.reply));
        CU_ASSERT_EQUAL(at.reply.status, 503);
        end();
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(guests_sign_once_and_are_read),
                WEIR_TEST(a_book_that_cannot_be_opened_is_no_service),
        };

        return weir_test_main("guest book", tests, sizeof tests / sizeof *tests);
}
