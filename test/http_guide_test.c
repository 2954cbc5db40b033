/* test/http_guide_test.c: the examples of docs/http-server.md, which quotes them. */
#include <string.h>
#include <sys/socket.h>

#include "test/http_client.h"
#include "test/timer_fixture.h"

#define CHUNKED(target) \
        "POST " target " HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n6\r\n world\r\n0\r\n\r\n"

/* -- an echo, a piece at a time -- */

static void read_next(weir_task *exchange);

static void
on_written(weir_task *write, void *exchange)
{
        if (weir_task_status(write) == 0) {
                read_next(exchange);
        }
}

static void
on_piece(weir_task *read, void *exchange)
{
        size_t size;
        const void *data = weir_http_read_data(read, &size);

        if (weir_task_status(read)) {
                weir_series_cancel(weir_series_of(exchange)); /* no echo of half a body */
        } else if (size > 0) {
                weir_task *write = weir_http_write_new(exchange, data, size, on_written, exchange);

                weir_series_push(weir_series_of(exchange), write);
        }
}

static void
read_next(weir_task *exchange)
{
        weir_task *read = weir_http_read_new(exchange, on_piece, exchange);

        weir_series_push(weir_series_of(exchange), read);
}

static void
echo(weir_task *exchange, void *context)
{
        (void)context;
        read_next(exchange);
}

/* -- a body as a whole, of a server that streams -- */

static void
on_note(weir_task *collect, void *exchange)
{
        size_t size;
        const void *body = weir_http_request_body(exchange, &size);

        if (weir_task_status(collect) == 0) {
                weir_http_reply_append(exchange, body, size);
        }
}

static void
note(weir_task *exchange, void *context)
{
        (void)context;
        weir_task *collect = weir_http_collect_new(exchange, 10, on_note, exchange);
        weir_series_push(weir_series_of(exchange), collect);
}

/* -- a page that is printed -- */

static void
greet(weir_task *exchange, void *context)
{
        (void)context;
        const char *name = weir_http_query_value(exchange, "name");
        const char *safe = weir_http_escape_html(exchange, name);

        weir_http_reply_header(exchange, "Content-Type", "text/html; charset=utf-8");
        weir_http_reply_printf(exchange, "<p>Hello, %s</p>\n", safe);
}

/* -- a reply that another flow writes -- */

static void
on_reading(weir_task *timer, void *exchange)
{
        (void)timer;
        weir_task_start(weir_http_write_new(exchange, "21 degrees\n", 11, NULL, NULL));
        weir_http_unref(exchange);
}

static void
subscribe(weir_task *exchange, void *context)
{
        weir_series *series = weir_series_of(exchange);

        (void)context;
        weir_series_push(series, weir_http_write_new(exchange, NULL, 0, NULL, NULL));
        weir_task_start(weir_timer_new(WEIR_MSEC(20), on_reading, weir_http_ref(exchange)));
}

/* -- another protocol -- */

static void
shout(weir_task *exchange, void *context)
{
        weir_series *series = weir_series_of(exchange);

        if (weir_http_reply_upgrade(exchange, "shout")) {
                weir_http_reply_text(exchange, 426, "this speaks only shout\n");
                return;
        }
        weir_series_push(series, weir_http_write_new(exchange, NULL, 0, NULL, NULL));
        echo(exchange, context);
}

static void
handle(weir_task *exchange, void *context)
{
        const char *path = weir_http_path(exchange);

        if (strcmp(path, "/echo") == 0) {
                echo(exchange, context);
        } else if (strcmp(path, "/note") == 0) {
                note(exchange, context);
        } else if (strcmp(path, "/greet") == 0) {
                greet(exchange, context);
        } else if (strcmp(path, "/reading") == 0) {
                subscribe(exchange, context);
        } else {
                shout(exchange, context);
        }
}

static struct {
        weir_http_server *server;
        struct http_client client;
        struct http_reply reply;
} at;

static void
begin(void)
{
        struct weir_http_server_config config = WEIR_HTTP_SERVER_CONFIG_DEFAULT;

        config.stream_bodies = 1;
        weir_test_begin_real(1);
        at.server = http_server(&config, handle, NULL);
        http_open(&at.client, weir_http_server_port(at.server));
}

static void
end(void)
{
        http_reply_done(&at.reply);
        http_close(&at.client);
        CU_ASSERT_EQUAL(weir_http_server_stop(at.server, WEIR_SEC(10)), 0);
        weir_http_server_free(at.server);
        weir_test_end();
}

static void
an_echo_comes_back_in_pieces(void)
{
        begin();
        CU_ASSERT_TRUE(http_ask(&at.client, CHUNKED("/echo"), &at.reply));
        CU_ASSERT_EQUAL(at.reply.status, 200);
        HTTP_ASSERT_TEXT(http_field(&at.reply, "Transfer-Encoding"), "chunked");
        HTTP_ASSERT_TEXT(at.reply.body, "hello world");
        end();
}

static void
an_echo_of_a_broken_body_is_cut(void)
{
        static const char head[] = "POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";

        begin();
        CU_ASSERT_TRUE(http_send_text(&at.client, head));
        CU_ASSERT_TRUE(http_send_text(&at.client, "5\r\nhello\r\n"));
        do {
                http_read_some(&at.client);
        } while (!memmem(at.client.input, at.client.size, "hello", 5));
        CU_ASSERT_TRUE(http_send_text(&at.client, "nonsense\r\n"));
        CU_ASSERT_FALSE(http_receive(&at.client, &at.reply, false));
        end();
        begin();
        CU_ASSERT_TRUE(http_send_text(&at.client, head));
        CU_ASSERT_TRUE(http_ask(&at.client, "nonsense\r\n", &at.reply));
        CU_ASSERT_EQUAL(at.reply.status, 400);
        end();
}

static void
a_note_is_collected_if_it_is_short(void)
{
        begin();
        CU_ASSERT_TRUE(http_ask(&at.client, "POST /note HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nshort", &at.reply));
        HTTP_ASSERT_TEXT(at.reply.body, "short");
        CU_ASSERT_TRUE(http_ask(&at.client, CHUNKED("/note"), &at.reply));
        CU_ASSERT_EQUAL(at.reply.status, 413);
        end();
}

static void
a_name_is_escaped(void)
{
        begin();
        CU_ASSERT_TRUE(http_ask(&at.client, "GET /greet?name=%3Cb%3E HTTP/1.1\r\nHost: a\r\n\r\n", &at.reply));
        HTTP_ASSERT_TEXT(at.reply.body, "<p>Hello, &lt;b&gt;</p>\n");
        end();
}

static void
a_reading_comes_from_elsewhere(void)
{
        begin();
        CU_ASSERT_TRUE(http_ask(&at.client, "GET /reading HTTP/1.1\r\nHost: a\r\n\r\n", &at.reply));
        HTTP_ASSERT_TEXT(at.reply.body, "21 degrees\n");
        end();
}

static void
an_upgraded_connection_carries_bytes(void)
{
        char answer[256] = "";
        size_t size = 0;

        begin();
        CU_ASSERT_TRUE(http_ask(&at.client, "GET /shout HTTP/1.1\r\nHost: a\r\n\r\n", &at.reply));
        CU_ASSERT_EQUAL(at.reply.status, 426);
        CU_ASSERT_TRUE(
                http_send_text(&at.client, "GET /shout HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: shout\r\n\r\n"));
        CU_ASSERT_TRUE(http_send_text(&at.client, "HO!"));
        while (!strstr(answer, "HO!") && size < sizeof answer - 1) {
                ssize_t count = recv(at.client.fd, answer + size, sizeof answer - 1 - size, 0);

                CU_ASSERT_FATAL(count > 0);
                size += (size_t)count;
        }
        CU_ASSERT_EQUAL(strncmp(answer, "HTTP/1.1 101 ", 13), 0);
        CU_ASSERT_PTR_NOT_NULL(strstr(answer, "Upgrade: shout\r\n"));
        end();
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(an_echo_comes_back_in_pieces),
                WEIR_TEST(an_echo_of_a_broken_body_is_cut),
                WEIR_TEST(a_note_is_collected_if_it_is_short),
                WEIR_TEST(a_name_is_escaped),
                WEIR_TEST(a_reading_comes_from_elsewhere),
                WEIR_TEST(an_upgraded_connection_carries_bytes),
        };

        return weir_test_main("http_guide", tests, sizeof tests / sizeof *tests);
}
