/* test/compress_test.c: replies that the server compresses. */
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <zlib.h>

#include "kernel/worker/worker.h"
#include "test/http_client.h"
#include "test/timer_fixture.h"

#define SIZE                ((size_t)100000)
#define BRIEF               100
#define LARGE               ((size_t)(WEIR_TEST_SANITIZED ? 8 : 32) * 1024 * 1024)
#define ASK(method, target) method " " target " HTTP/1.1\r\nHost: a\r\nAccept-Encoding: gzip\r\n\r\n"

static struct fixture {
        weir_http_server *server;
        struct http_client client;
        struct http_reply reply;
        _Atomic bool handled;
} at;

static void
append_text(weir_task *exchange, size_t size)
{
        char *text = malloc(size);

        for (size_t i = 0; i < size; i++) {
                text[i] = (char)('a' + (i * i / 7 + i / 1000) % 26);
        }
        CU_ASSERT_EQUAL(weir_http_reply_append(exchange, text, size), 0);
        free(text);
}

/* "/": text.  "/brief": less.  "/later": after a moment.  "/large": much, and later.  "/pieces": written.  "/said": its length
 * is said.  A number: that is said as its length.  "/fault": nothing of it is sent. */
static void
handle(weir_task *exchange, void *context)
{
        const char *path = weir_http_path(exchange);

        (void)context;
        weir_http_reply_header(exchange, "Content-Type", "text/plain");
        weir_http_reply_header(exchange, "ETag", "\"1\"");
        append_text(exchange, strcmp(path, "/large") == 0 ? LARGE : strcmp(path, "/brief") == 0 ? BRIEF : SIZE);
        if (strcmp(path, "/later") == 0 || strcmp(path, "/large") == 0) {
                weir_series_push(weir_series_of(exchange), weir_timer_new(WEIR_MSEC(20), NULL, NULL));
        } else if (strcmp(path, "/pieces") == 0) {
                weir_http_reply_length(exchange, SIZE + 4);
                weir_series_push(weir_series_of(exchange), weir_http_write_new(exchange, "more", 4, NULL, NULL));
        } else if (strcmp(path, "/said") == 0) {
                weir_http_reply_length(exchange, SIZE);
        } else if (atoi(path + 1) > 0) {
                weir_http_reply_length(exchange, (uint64_t)atoi(path + 1));
        } else if (strcmp(path, "/fault") == 0) {
                weir_series_push(weir_series_of(exchange), NULL);
        }
        atomic_store(&at.handled, true);
}

static void
begin(int level, unsigned least)
{
        struct weir_http_server_config config = WEIR_HTTP_SERVER_CONFIG_DEFAULT;

        config.compress = level;
        config.compress_least = least;
        at.server = http_server(&config, handle, NULL);
        http_open(&at.client, weir_http_server_port(at.server));
        atomic_store(&at.handled, false);
}

static void
end(void)
{
        http_close(&at.client);
        http_reply_done(&at.reply);
        CU_ASSERT_EQUAL(weir_http_server_stop(at.server, WEIR_SEC(20)), 0);
        weir_http_server_free(at.server);
}

static bool
is_packed(size_t size)
{
        char *out = malloc(size + 1);
        z_stream stream = {.next_in = (Bytef *)at.reply.body,
                           .avail_in = (uInt)at.reply.size,
                           .next_out = (Bytef *)out,
                           .avail_out = (uInt)size + 1};

        CU_ASSERT_EQUAL_FATAL(inflateInit2(&stream, 15 + 16), Z_OK);
        bool is_whole = inflate(&stream, Z_FINISH) == Z_STREAM_END && stream.total_out == size && stream.avail_in == 0;
        for (size_t i = 0; i < size; i++) {
                is_whole &= out[i] == (char)('a' + (i * i / 7 + i / 1000) % 26);
        }
        inflateEnd(&stream);
        free(out);
        return is_whole;
}

static void
assert_packed(size_t size)
{
        CU_ASSERT_EQUAL(at.reply.status, 200);
        HTTP_ASSERT_TEXT(http_field(&at.reply, "Content-Encoding"), "gzip");
        HTTP_ASSERT_TEXT(http_field(&at.reply, "Vary"), "Accept-Encoding");
        HTTP_ASSERT_TEXT(http_field(&at.reply, "ETag"), "W/\"1\"");
        CU_ASSERT(at.reply.size < size);
        CU_ASSERT_TRUE(is_packed(size));
}

static void
assert_plain(size_t size)
{
        CU_ASSERT_PTR_NULL(http_field(&at.reply, "Content-Encoding"));
        CU_ASSERT_EQUAL(at.reply.size, size);
}

static void
replies_go_out_compressed_one_after_the_other(void)
{
        begin(6, 0);
        for (int i = 0; i < 3; i++) {
                CU_ASSERT_TRUE(http_ask(&at.client, ASK("GET", "/"), &at.reply));
                assert_packed(SIZE);
                CU_ASSERT_TRUE(http_ask(&at.client, ASK("GET", "/later"), &at.reply));
                assert_packed(SIZE);
        }
        end();
}

static void
nothing_is_compressed_unless_the_server_is_told_to(void)
{
        begin(0, 0);
        CU_ASSERT_TRUE(http_ask(&at.client, ASK("GET", "/"), &at.reply));
        assert_plain(SIZE);
        CU_ASSERT_PTR_NULL(http_field(&at.reply, "Vary"));
        end();
}

static void
a_client_that_does_not_ask_for_it_gets_it_plain_with_vary(void)
{
        begin(6, 0);
        CU_ASSERT_TRUE(http_ask(&at.client, "GET / HTTP/1.1\r\nHost: a\r\n\r\n", &at.reply));
        assert_plain(SIZE);
        HTTP_ASSERT_TEXT(http_field(&at.reply, "Vary"), "Accept-Encoding");
        HTTP_ASSERT_TEXT(http_field(&at.reply, "ETag"), "\"1\"");
        end();
}

static void
head_is_answered_as_get_is(void)
{
        char length[32];

        begin(6, 0);
        CU_ASSERT_TRUE(http_ask(&at.client, ASK("GET", "/"), &at.reply));
        snprintf(length, sizeof length, "%zu", at.reply.size);
        CU_ASSERT_TRUE(http_ask(&at.client, ASK("HEAD", "/"), &at.reply));
        HTTP_ASSERT_TEXT(http_field(&at.reply, "Content-Length"), length);
        HTTP_ASSERT_TEXT(http_field(&at.reply, "Content-Encoding"), "gzip");
        HTTP_ASSERT_TEXT(http_field(&at.reply, "ETag"), "W/\"1\"");
        CU_ASSERT_TRUE(http_ask(&at.client, ASK("GET", "/"), &at.reply));
        assert_packed(SIZE);
        end();
}

static void
a_length_that_was_said_is_that_before_compression(void)
{
        char length[32], request[128];

        begin(6, 0);
        CU_ASSERT_TRUE(http_ask(&at.client, ASK("GET", "/said"), &at.reply));
        assert_packed(SIZE);
        snprintf(length, sizeof length, "%zu", at.reply.size);
        CU_ASSERT_TRUE(http_ask(&at.client, ASK("HEAD", "/said"), &at.reply));
        HTTP_ASSERT_TEXT(http_field(&at.reply, "Content-Length"), length);
        HTTP_ASSERT_TEXT(http_field(&at.reply, "Content-Encoding"), "gzip");
        CU_ASSERT_TRUE(http_ask(&at.client, "GET /said HTTP/1.1\r\nHost: a\r\n\r\n", &at.reply));
        assert_plain(SIZE);
        snprintf(request, sizeof request, ASK("%s", "/%s"), "GET", length); /* what it would become is not what it is */
        CU_ASSERT_TRUE(http_ask(&at.client, request, &at.reply));
        CU_ASSERT_EQUAL(at.reply.status, 500);
        snprintf(request, sizeof request, ASK("%s", "/%s"), "HEAD", length);
        CU_ASSERT_TRUE(http_ask(&at.client, request, &at.reply));
        CU_ASSERT_EQUAL(at.reply.status, 500);
        end();
}

static void
a_body_below_the_least_size_stays_as_it_is(void)
{
        begin(6, 0);
        CU_ASSERT_TRUE(http_ask(&at.client, ASK("GET", "/brief"), &at.reply));
        assert_plain(BRIEF);
        end();
        begin(6, BRIEF);
        CU_ASSERT_TRUE(http_ask(&at.client, ASK("GET", "/brief"), &at.reply));
        assert_packed(BRIEF);
        end();
        begin(6, UINT32_MAX);
        CU_ASSERT_TRUE(http_ask(&at.client, ASK("GET", "/"), &at.reply));
        assert_plain(SIZE);
        end();
}

static void
pieces_and_errors_are_not_compressed(void)
{
        begin(6, 0);
        CU_ASSERT_TRUE(http_ask(&at.client, ASK("GET", "/pieces"), &at.reply));
        assert_plain(SIZE + 4);
        CU_ASSERT_TRUE(http_ask(&at.client, ASK("GET", "/fault"), &at.reply));
        CU_ASSERT_EQUAL(at.reply.status, 500);
        CU_ASSERT_PTR_NULL(http_field(&at.reply, "Content-Encoding"));
        CU_ASSERT_PTR_NULL(http_field(&at.reply, "Vary"));
        end();
}

static void
a_level_that_is_none_is_reported_by_the_start(void)
{
        static const int levels[] = {-1, 10, INT32_MAX};
        struct weir_http_server_config config = WEIR_HTTP_SERVER_CONFIG_DEFAULT;

        for (size_t i = 0; i < sizeof levels / sizeof *levels; i++) {
                config.compress = levels[i];
                weir_http_server *server = weir_http_server_new(&config, handle, NULL);
                CU_ASSERT_EQUAL(weir_http_server_start(server, "127.0.0.1:0"), -EINVAL);
                weir_http_server_free(server);
        }
}

/* The one poller of the runtime is taken over while it compresses: what else it has to serve does not wait.  Returns false when
 * the large body came before that was seen. */
static bool
others_are_served_meanwhile(void)
{
        struct http_client other;
        bool seen = false;

        begin(9, 0);
        CU_ASSERT_TRUE(http_send_text(&at.client, ASK("GET", "/large")));
        WEIR_TEST_EVENTUALLY(atomic_load(&at.handled));
        uint64_t retakes = weir__worker_counts.retaken;
        http_open(&other, weir_http_server_port(at.server));
        while (!seen && !http_has_news(&at.client, 0)) {
                CU_ASSERT_TRUE(http_ask(&other, ASK("GET", "/brief"), &at.reply));
                seen = weir__worker_counts.retaken > retakes && !http_has_news(&at.client, 0);
        }
        CU_ASSERT_TRUE(http_receive(&at.client, &at.reply, false));
        assert_packed(LARGE);
        http_close(&other);
        end();
        return seen;
}

static void
a_large_body_holds_up_nobody_else(void)
{
        struct weir_config config = WEIR_CONFIG_DEFAULT;

        weir_test_end();
        config.pollers = 1;
        CU_ASSERT_EQUAL_FATAL(weir_init(&config), 0);
        WEIR_TEST_EVENTUALLY(others_are_served_meanwhile());
        weir_test_end();
        weir_test_begin_real(2);
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(replies_go_out_compressed_one_after_the_other),
                WEIR_TEST(nothing_is_compressed_unless_the_server_is_told_to),
                WEIR_TEST(a_client_that_does_not_ask_for_it_gets_it_plain_with_vary),
                WEIR_TEST(head_is_answered_as_get_is),
                WEIR_TEST(a_length_that_was_said_is_that_before_compression),
                WEIR_TEST(a_body_below_the_least_size_stays_as_it_is),
                WEIR_TEST(pieces_and_errors_are_not_compressed),
                WEIR_TEST(a_level_that_is_none_is_reported_by_the_start),
                WEIR_TEST(a_large_body_holds_up_nobody_else),
        };

        struct weir_config config = WEIR_CONFIG_DEFAULT;

        config.pollers = 2;
        if (weir_init(&config)) {
                return EXIT_FAILURE;
        }
        return weir_test_main("compress", tests, sizeof tests / sizeof *tests);
}
