/* test/client_edges_test.c: the client of HTTP exactly at its bounds, and callbacks that start, cancel, block and give up. */
#include <zlib.h>

#include "test/client_fixture.h"

#define HEAD_OK "HTTP/1.1 200 OK\r\n"

/* -- sizes -- */

/* A head of that many bytes: with interim responses before it, which count, too. */
static char *
head_of(size_t size, bool has_interim)
{
        static const char interim[] = "HTTP/1.1 103 Early\r\nLink: x\r\n\r\n", end[] = "\r\nContent-Length: 4\r\n\r\nword";
        char *text = calloc(1, size + sizeof end);
        size_t at = (size_t)sprintf(text, "%s" HEAD_OK "X: ", has_interim ? interim : ""), rest = sizeof end - 5;

        memset(text + at, 'x', size - at - rest);
        strcpy(text + size - rest, end);
        return text;
}

static void
a_head_has_as_many_bytes_as_it_may(void)
{
        for (int i = 0; i < 16; i++) {
                struct weir_client_config config = WEIR_CLIENT_CONFIG_DEFAULT;
                bool is_larger = i & 1, is_slow = i & 2, has_interim = i & 4;
                size_t most = i & 8 ? 1000 : 65536;
                struct seen seen = {0};
                char *head = head_of(most + is_larger, has_interim);

                config.max_head = i & 8 ? most : 0;
                begin(&config);
                get("/", &seen);
                (void)accept_request();
                if (is_slow && i & 8)
                        send_slowly(head);
                else
                        http_peer_send(&peer, head);
                settle();
                SEES(seen, is_larger ? -EMSGSIZE : 0, is_larger ? 0 : 200, is_larger ? "" : "word");
                free(head);
                end();
        }
}

static char packed[4096];

/* gzip of so many letters. */
static size_t
pack(size_t size)
{
        z_stream out = {0};
        char *letters = malloc(size + 1);

        memset(letters, 'w', size);
        CU_ASSERT_EQUAL(deflateInit2(&out, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
        out.next_in = (unsigned char *)letters;
        out.avail_in = (unsigned)size;
        out.next_out = (unsigned char *)packed;
        out.avail_out = sizeof packed;
        CU_ASSERT_EQUAL(deflate(&out, Z_FINISH), Z_STREAM_END);
        size_t made = sizeof packed - out.avail_out;
        deflateEnd(&out);
        free(letters);
        return made;
}

static void
send_packed(size_t size, bool is_slow)
{
        char text[128];

        snprintf(text, sizeof text, HEAD_OK "Content-Encoding: gzip\r\nContent-Length: %zu\r\n\r\n", size);
        http_peer_send(&peer, text);
        for (size_t at = 0; at < size; at += is_slow ? 1 : size) {
                http_peer_send_bytes(&peer, packed + at, is_slow ? 1 : size);
                if (is_slow)
                        settle();
        }
        settle();
}

/* The bound is one of the body without its coding. */
static void
a_packed_body_has_as_many_bytes_as_it_may(void)
{
        static const size_t sizes[] = {0, 1, 900, 16384, 16385, 32768};

        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
                for (int j = 0; j < 4; j++) {
                        struct weir_client_config config = WEIR_CLIENT_CONFIG_DEFAULT;
                        bool is_larger = j & 1, is_slow = j & 2;
                        struct seen seen = {0};

                        config.max_body = sizes[i] ? sizes[i] : 1; /* 0 is the default */
                        begin(&config);
                        get("/", &seen);
                        (void)accept_request();
                        send_packed(pack(is_larger ? config.max_body + 1 : sizes[i]), is_slow);
                        CU_ASSERT_EQUAL(seen.calls, 1);
                        CU_ASSERT_EQUAL(seen.status, is_larger ? -EMSGSIZE : 0);
                        if (!is_larger)
                                CU_ASSERT_EQUAL(seen.size, sizes[i]);
                        CU_ASSERT_EQUAL(stats().idle, !is_larger);
                        end();
                }
}

/* -- callbacks -- */

struct next {
        struct seen seen;
        unsigned left;
        weir_series *other; /* is cancelled */
};

static void
start_next(weir_task *request, void *context)
{
        struct next *next = context;

        CU_ASSERT_EQUAL(weir_task_status(request), 0);
        if (next->other)
                weir_series_cancel(next->other);
        next->other = NULL;
        if (next->left-- > 0)
                start(weir_client_request_new(client, "GET", url_of("/"), start_next, next));
        else
                see(request, &next->seen);
}

/* Each uses the connection of the one before: it is idle when the callback runs. */
static void
a_callback_starts_the_next_request(void)
{
        struct next next = {.left = 50};

        begin(NULL);
        start(weir_client_request_new(client, "GET", url_of("/"), start_next, &next));
        (void)http_peer_accept(&peer, listener, NULL);
        for (int i = 0; i <= 50; i++) {
                (void)http_peer_request(&peer);
                http_peer_send(&peer, OK_WORD);
                settle();
        }
        SEES(next.seen, 0, 200, "word");
        CU_ASSERT_EQUAL(stats().reused, 50);
        CU_ASSERT_EQUAL(stats().connections, 1);
        end();
}

static void
a_callback_cancels_another_request(void)
{
        for (int i = 0; i < 2; i++) { /* one that waits; one that was sent */
                struct weir_client_config config = WEIR_CLIENT_CONFIG_DEFAULT;
                struct next next = {.left = 0};
                struct seen seen = {0};
                struct http_peer first;

                config.connections = i ? 2 : 1;
                begin(&config);
                start(weir_client_request_new(client, "GET", url_of("/"), start_next, &next));
                (void)http_peer_accept(&first, listener, NULL);
                (void)http_peer_request(&first);
                weir_series *series = start_in_series(request_new("GET", "/other", &seen));
                settle();
                if (i)
                        (void)accept_request();
                next.other = series;
                http_peer_send(&first, OK_WORD);
                settle();
                SEES(next.seen, 0, 200, "word");
                CU_ASSERT_EQUAL(seen.calls, 1);
                CU_ASSERT_EQUAL(seen.status, -ECANCELED);
                CU_ASSERT_EQUAL(stats().waiting, 0);
                weir_series_unref(series);
                http_peer_close(&first);
                end();
        }
}

static void
give_up_client(weir_task *request, void *context)
{
        weir_client_unref(client);
        client = NULL;
        see(request, context);
}

/* Requests have a reference: one that waits goes on, and the connections are closed behind it. */
static void
a_callback_gives_up_the_client(void)
{
        struct weir_client_config config = WEIR_CLIENT_CONFIG_DEFAULT;
        struct seen first = {0}, second = {0};

        config.connections = 1;
        begin(&config);
        start(weir_client_request_new(client, "GET", url_of("/"), give_up_client, &first));
        (void)accept_request();
        get("/second", &second);
        settle();
        http_peer_send(&peer, OK_WORD);
        settle();
        SEES(first, 0, 200, "word");
        HAS(http_peer_request(&peer), "/second");
        http_peer_send(&peer, OK_WORD);
        settle();
        SEES(second, 0, 200, "word");
        CU_ASSERT_STRING_EQUAL(http_peer_ends(&peer), "<end>");
        end();
}

static struct weir_test_latch blocked;
static _Atomic bool may_go_on;

static void
block(weir_task *request, void *context)
{
        weir_test_latch_count_down(&blocked);
        while (!may_go_on)
                weir_test_sleep(100000);
        see(request, context);
}

/* Another worker takes the poller over. */
static void
a_callback_that_blocks_holds_no_other_request_up(void)
{
        struct weir_config runtime = WEIR_CONFIG_DEFAULT;
        struct seen first = {0}, second = {0};

        runtime.pollers = 1;
        runtime.blocking_limit = WEIR_MSEC(2);
        may_go_on = false;
        weir_test_latch_init(&blocked, 1);
        CU_ASSERT_EQUAL_FATAL(weir_init(&runtime), 0);
        begin_with(NULL);
        start(weir_client_request_new(client, "GET", url_of("/"), block, &first));
        (void)accept_request();
        http_peer_send(&peer, OK_WORD);
        weir_test_latch_wait(&blocked);
        get("/second", &second);
        HAS(http_peer_request(&peer), "/second"); /* on the same connection */
        http_peer_send(&peer, OK_WORD);
        wait_for(&second);
        SEES(second, 0, 200, "word");
        CU_ASSERT_EQUAL(first.calls, 0);
        may_go_on = true;
        wait_for(&first);
        SEES(first, 0, 200, "word");
        end();
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(a_head_has_as_many_bytes_as_it_may), WEIR_TEST(a_packed_body_has_as_many_bytes_as_it_may),
                WEIR_TEST(a_callback_starts_the_next_request), WEIR_TEST(a_callback_cancels_another_request),
                WEIR_TEST(a_callback_gives_up_the_client),     WEIR_TEST(a_callback_that_blocks_holds_no_other_request_up),
        };

        return weir_test_main("client_edges", tests, sizeof tests / sizeof *tests);
}
