/* test/server_memory_test.c: allocations that are refused, one after another, to a server with all that it can do.
 *
 * A scenario is run again and again, each time with the next allocation refused, until it needs no more of them.  Each time the
 * client gets the right reply, an error, or sees the connection end; the next client is served; and nothing is left. */
#include <stdio.h>

#include <sys/stat.h>
#include <zlib.h>

#include "protocol/message/response.h"
#include "test/body_fixture.h"
#include "test/memory_faults.h"
#include "test/tls_peer.h"

/* -- scenarios -- */

#define REST      "56789 and as many more as the reply lacks room for" /* 50 bytes */
#define BODY      "01234" REST
#define LARGE     ((size_t)3000000) /* bytes of a reply: more than goes out at once */
#define TEXT_SIZE ((size_t)20000)   /* of what is compressed */
#define PAGE      "nothing here"

struct scenario {
        const char *request, *rest; /* the two parts, which come one after the other; NULL: there is only one */
        int stream_bodies;
        weir_task_fn *handler; /* NULL: the router */
        int status;            /* of the right reply; 0: 200 */
        const char *body;      /* of it; NULL: BODY */
        bool is_chunked;       /* it has no length */
};

static weir_http_router *router;
static char large[LARGE + 1], text[TEXT_SIZE + 1]; /* terminated */

/* Takes all the room for fields that the reply has inside, so that the next one needs memory of its own. */
static void
fill_the_room(weir_task *exchange)
{
        char value[WEIR__RESPONSE_FIELDS - 4] = "";

        memset(value, 'y', sizeof value - 1);
        weir_http_reply_header(exchange, "X", value);
}

static void
reply_body(weir_task *exchange, void *context)
{
        size_t size;
        const void *body = weir_http_request_body(exchange, &size);

        (void)context;
        fill_the_room(exchange);
        weir_http_reply_append(exchange, body, size);
        weir_http_reply_header(exchange, "X", "y");
}

/* There may be no memory for a series. */
static void
push_first(weir_task *exchange, weir_task *task)
{
        if (weir_series_push(weir_series_of(exchange), task)) {
                weir_http_reply_status(exchange, 500);
        }
}

static void
reply_collected(weir_task *collect, void *context)
{
        if (weir_task_status(collect) == 0) {
                reply_body(context, NULL);
        }
}

static void
collect_and_reply(weir_task *exchange, void *context)
{
        (void)context;
        push_first(exchange, weir_http_collect_new(exchange, 0, reply_collected, exchange));
}

static void read_next(weir_task *write, void *context);

static void
write_piece(weir_task *read, void *context)
{
        size_t size = 0;
        const void *data = weir_http_read_data(read, &size);

        if (weir_task_status(read) == 0 && size > 0) {
                weir_series_push(weir_series_of(read), weir_http_write_new(context, data, size, read_next, context));
        } else if (weir_task_status(read) == -ENOMEM) { /* what was written is not all of it */
                weir_series_cancel(weir_series_of(read));
        }
}

static void
read_next(weir_task *write, void *context)
{
        if (weir_task_status(write) == 0) {
                weir_series_push(weir_series_of(write), weir_http_read_new(context, write_piece, context));
        } else {
                weir_series_cancel(weir_series_of(write));
        }
}

static void
echo_pieces(weir_task *exchange, void *context)
{
        (void)context;
        if (weir_http_request_header(exchange, "Upgrade") && weir_http_reply_upgrade(exchange, "echo")) {
                return;
        }
        fill_the_room(exchange);
        weir_http_reply_header(exchange, "X", "y");
        push_first(exchange, weir_http_write_new(exchange, NULL, 0, read_next, exchange));
}

/* Two pieces behind what was appended, whatever becomes of the first. */
static void
write_behind(weir_task *exchange, void *context)
{
        (void)context;
        fill_the_room(exchange);
        weir_http_reply_append(exchange, BODY, 30);
        push_first(exchange, weir_http_write_new(exchange, &BODY[30], 2, NULL, NULL));
        push_first(exchange, weir_http_write_new(exchange, &BODY[32], sizeof BODY - 33, NULL, NULL));
}

static void
write_one_behind(weir_task *exchange, void *context)
{
        (void)context;
        weir_http_reply_append(exchange, "01234", 5);
        push_first(exchange, weir_http_write_new(exchange, REST, sizeof REST - 1, NULL, NULL));
}

static void
echo_as_many(weir_task *exchange, void *context)
{
        weir_http_reply_length(exchange, sizeof BODY - 1);
        echo_pieces(exchange, context);
}

static void
reply_with_file(weir_task *exchange, void *context)
{
        (void)context;
        weir_http_reply_file(exchange, tls_path("."), weir_http_router_parameter(exchange, "path"));
}

static void
reply_much(weir_task *exchange, void *context)
{
        (void)context;
        weir_http_reply_append(exchange, large, LARGE);
}

static void
reply_compressible(weir_task *exchange, void *context)
{
        (void)context;
        weir_http_reply_header(exchange, "Content-Type", "text/plain");
        weir_http_reply_header(exchange, "ETag", "\"1\"");
        weir_http_reply_append(exchange, text, TEXT_SIZE);
}

/* A NULL for what was there makes the reply a 500, whatever is said here. */
static void
reply_what_was_said(weir_task *exchange, void *context)
{
        const char *said[] = {
                weir_http_router_parameter(exchange, "id"), weir_http_query_value(exchange, "q"),
                weir_http_form_value(exchange, "a"),        weir_http_cookie(exchange, "k"),
                weir_http_client_address(exchange),
        };
        struct weir_http_cookie cookie = WEIR_HTTP_COOKIE_DEFAULT;

        (void)context;
        cookie.name = "name";
        cookie.value = "value";
        weir_http_reply_cookie(exchange, &cookie);
        for (size_t i = 0; i < sizeof said / sizeof *said; i++) {
                weir_http_reply_append(exchange, said[i] ? said[i] : "-", said[i] ? strlen(said[i]) : 1);
                weir_http_reply_append(exchange, ";", 1);
        }
}

static void
end_stream(weir_task *event, void *exchange)
{
        if (weir_task_status(event) == 0) {
                weir_http_sse_end(exchange);
        } else { /* an event is missing */
                weir_series_cancel(weir_series_of(exchange));
        }
}

static void
reply_with_events(weir_task *exchange, void *context)
{
        struct weir_http_event event = WEIR_HTTP_EVENT_DEFAULT;
        weir_task *stream = weir_http_sse_new(exchange, WEIR_FOREVER, NULL, NULL);

        (void)context;
        event.data = "event";
        event.id = "5";
        if (!stream) {
                weir_http_reply_status(exchange, 503);
                return;
        }
        push_first(exchange, stream);
        weir_task *first = weir_http_sse_event_new(exchange, &event, end_stream, exchange);
        if (!first || weir_task_start(first)) {
                weir_series_cancel(weir_series_of(exchange));
        }
}

static const struct {
        const char *method, *pattern;
        weir_task_fn *handler;
} routes[] = {
        {"GET", "/file/{path...}", reply_with_file}, {"GET", "/large", reply_much},         {"GET", "/text", reply_compressible},
        {"POST", "/form/{id}", reply_what_was_said}, {"GET", "/events", reply_with_events},
};

#define FORM                                                                                                          \
        "POST /form/77?q=1%202 HTTP/1.1\r\n" HOST "Cookie: j=\"x\"; k=v\r\nX-Forwarded-For: 192.0.2.1, 192.0.2.7\r\n" \
        "Content-Type: application/x-www-form-urlencoded\r\nContent-Length: 7\r\n\r\na=b"

static const struct scenario scenarios[] = {
        {CHUNKED "5\r\n01234", "\r\n32\r\n" REST "\r\n" LAST_CHUNK, .handler = reply_body},
        {POST "Content-Length: 55\r\n\r\n01234", REST, .handler = reply_body},
        {CHUNKED "5\r\n01234", "\r\n32\r\n" REST "\r\n" LAST_CHUNK, .stream_bodies = 1, .handler = collect_and_reply},
        {POST "Content-Length: 55\r\n\r\n01234", REST, .stream_bodies = 1, .handler = collect_and_reply},
        {CHUNKED "5\r\n01234", "\r\n32\r\n" REST "\r\n" LAST_CHUNK, .stream_bodies = 1, .handler = echo_pieces,
         .is_chunked = true},
        {POST "Content-Length: 55\r\n\r\n01234", REST, .stream_bodies = 1, .handler = echo_pieces, .is_chunked = true},
        {POST "Content-Length: 55\r\n\r\n01234", REST, .stream_bodies = 1, .handler = echo_as_many},
        {"GET / HTTP/1.1\r\n" HOST "Connection: upgrade\r\nUpgrade: echo\r\n\r\n01234", REST, .stream_bodies = 1,
         .handler = echo_pieces, .is_chunked = true},
        {.request = GET("/"), .handler = write_behind, .is_chunked = true},
        {.request = GET("/"), .handler = write_one_behind, .is_chunked = true},
        {.request = GET("/file/small.txt")},
        {.request = "GET /file/sm", .rest = "all.txt HTTP/1.1\r\n" HOST "\r\n"},
        {GET("/file/large.bin"), .body = large},
        {GET("/large"), .body = large},
        {"GET /file/small.txt HTTP/1.1\r\n" HOST "Range: bytes=2-4\r\n\r\n", .status = 206, .body = "234"},
        {GET("/file/directory"), .status = 301, .body = "301 Moved Permanently\n"},
        {GET("/events"), .body = "id: 5\ndata: event\n\n", .is_chunked = true},
        {"GET /text HTTP/1.1\r\n" HOST "Accept-Encoding: gzip\r\n\r\n", .body = text},
        {FORM, "%20c", .body = "77;1 2;b c;v;192.0.2.7;"},
        {GET("/nowhere"), .status = 404, .body = PAGE},
        {"DELETE /text HTTP/1.1\r\n" HOST "\r\n", .status = 405, .body = "405 Method Not Allowed\n"},
        {"GET / HTTP/1.1\r\nA", " : b\r\n\r\n", .status = 400, .body = "400 Bad Request\n"},
};

/* -- replies -- */

static char *
unpacked(const char *data, size_t size)
{
        char *out = __real_calloc(1, TEXT_SIZE + 1);
        z_stream stream = {
                .next_in = (Bytef *)(uintptr_t)data, .avail_in = (uInt)size, .next_out = (Bytef *)out, .avail_out = TEXT_SIZE};

        CU_ASSERT_EQUAL(inflateInit2(&stream, 15 + 16), Z_OK);
        CU_ASSERT_EQUAL(inflate(&stream, Z_FINISH), Z_STREAM_END);
        inflateEnd(&stream);
        return out;
}

/* Whether the reply is the right one; else it must be an error. */
static bool
is_expected(const struct scenario *scenario)
{
        int status = scenario->status ? scenario->status : 200;
        const char *expected = scenario->body ? scenario->body : BODY;

        if (at.reply.status != status) {
                CU_ASSERT(at.reply.status == 500 || at.reply.status == 503);
                return false;
        }
        bool is_packed = http_field(&at.reply, "Content-Encoding") != NULL; /* if there was memory for it */
        char *body = is_packed ? unpacked(at.reply.body, at.reply.size) : at.reply.body;
        CU_ASSERT_STRING_EQUAL(body, expected);
        if (is_packed) {
                __real_free(body);
        }
        return true;
}

/* Whether the reply is whole, and right; else it must be an error, or none. */
static bool
is_right(const struct scenario *scenario)
{
        if (!http_receive(&at.client, &at.reply, false)) {
                return false;
        }
        if (at.reply.status == 101) {
                CU_ASSERT_PTR_NOT_NULL(strstr(scenario->request, "Upgrade"));
                while (at.client.size < sizeof BODY - 1 && !at.client.ended) {
                        http_read_some(&at.client);
                }
                return at.client.size == sizeof BODY - 1 && memcmp(at.client.input, BODY, sizeof BODY - 1) == 0;
        }
        return is_expected(scenario);
}

/* The same in TLS. */
static bool
is_right_in_tls(const struct scenario *scenario, SSL *client)
{
        char *whole;
        size_t size;
        bool right = false;

        http_reply_done(&at.reply);
        if (tls_receive(client, &whole, &size)) {
                size_t head_size = (size_t)(strstr(whole, "\r\n\r\n") + 4 - whole);

                at.reply = (struct http_reply){.status = atoi(whole + 9), .size = size - head_size};
                at.reply.head = memcpy(calloc(1, head_size + 1), whole, head_size);
                at.reply.body = memcpy(calloc(1, at.reply.size + 1), whole + head_size, at.reply.size);
                right = is_expected(scenario);
        }
        free(whole);
        return right;
}

/* -- servers -- */

static atomic_uint logged; /* requests, whatever became of them */

static void
count_logged(const struct weir_http_access *access, void *context)
{
        (void)access, (void)context;
        atomic_fetch_add(&logged, 1);
}

static struct weir_http_server_config
config_for(const struct scenario *scenario, bool is_secure)
{
        struct weir_http_server_config config = WEIR_HTTP_SERVER_CONFIG_DEFAULT;

        config.stream_bodies = scenario->stream_bodies;
        config.compress = 6;
        config.max_connections_per_address = 1000; /* proxies have none */
        config.trusted_proxies = scenario->handler ? NULL : "127.0.0.1";
        config.access_log = tls_path("access.log");
        config.on_access = count_logged;
        if (is_secure) {
                config.certificate_file = tls_path("server.pem");
                config.private_key_file = tls_path("server.key");
        }
        return config;
}

static void
begin_for(const struct scenario *scenario, bool is_secure)
{
        struct weir_http_server_config config = config_for(scenario, is_secure);

        weir_test_begin_real(1);
        at.server = scenario->handler ? weir_http_server_new(&config, scenario->handler, NULL)
                                      : weir_http_server_new(&config, weir_http_router_handle, router);
        CU_ASSERT_EQUAL(weir_http_server_set_error(at.server, 404, "text/plain", PAGE, sizeof PAGE - 1), 0);
        CU_ASSERT_EQUAL_FATAL(weir_http_server_start(at.server, "127.0.0.1:0"), 0);
        at.port = weir_http_server_port(at.server);
        atomic_store(&logged, 0);
}

/* -- playing -- */

static bool
play_plainly(const struct scenario *scenario)
{
        http_open(&at.client, at.port);
        (void)http_send_text(&at.client, scenario->request);
        if (scenario->rest) {
                weir_test_sleep(100000); /* the rest is to come later; right either way */
                (void)http_send_text(&at.client, scenario->rest);
        }
        bool right = is_right(scenario);
        http_close(&at.client);
        return right;
}

static bool
play_in_tls(const struct scenario *scenario)
{
        SSL *client = tls_connect(at.port, &(struct tls_client_wish){0});

        if (!client) {
                return false;
        }
        (void)tls_send(client, scenario->request, strlen(scenario->request));
        if (scenario->rest) {
                (void)tls_send(client, scenario->rest, strlen(scenario->rest));
        }
        bool right = is_right_in_tls(scenario, client);
        tls_hang_up(client);
        return right;
}

static bool
play(const struct scenario *scenario, bool is_secure)
{
        return is_secure ? play_in_tls(scenario) : play_plainly(scenario);
}

static bool
play_short_of_memory(const struct scenario *scenario, bool is_secure, int64_t nth, bool all_after_it)
{
        refuse_from(nth, all_after_it);
        bool right = play(scenario, is_secure);
        atomic_store(&armed, false);
        return right;
}

/* Returns whether an allocation was refused. */
static bool
play_refused(const struct scenario *scenario, bool is_secure, int64_t nth, bool all_after_it)
{
        begin_for(scenario, is_secure);
        bool right = play_short_of_memory(scenario, is_secure, nth, all_after_it);
        CU_ASSERT(right || atomic_load(&refused));
        CU_ASSERT_TRUE(play(scenario, is_secure)); /* when there is memory again */
        if (!is_secure) {
                http_open(&at.client, at.port);
        }
        end();
        CU_ASSERT(atomic_load(&logged) >= 1u + right);
        return atomic_load(&refused);
}

/* The counts that must be the same after each play. */
struct left_over {
        int64_t live;
        unsigned descriptors;
};

static struct left_over
left_over_now(void)
{
        return (struct left_over){atomic_load(&live), http_open_descriptors()};
}

static void
refuse_each_of(const struct scenario *scenario, bool is_secure, bool all_after_it)
{
        unsigned failures = CU_get_number_of_failures();
        int64_t nth = 0;
        bool goes_on;

        (void)play_refused(scenario, is_secure, INT64_MAX, false); /* what is kept for good has been made */
        struct left_over before = left_over_now();
        do {
                goes_on = play_refused(scenario, is_secure, nth, all_after_it);
                struct left_over after = left_over_now();
                CU_ASSERT_EQUAL(after.live, before.live);
                CU_ASSERT_EQUAL(after.descriptors, before.descriptors);
                nth += goes_on;
        } while (goes_on && nth < 100);
        CU_ASSERT(nth > (scenario->status < 400 ? 3 : 0) && nth < 100);
        if (CU_get_number_of_failures() != failures) {
                printf("\n  %s, %lld allocations: %s\n", is_secure ? "TLS" : "plain", (long long)nth, scenario->request);
        }
}

static void
refuse_each(bool is_secure, bool all_after_it)
{
        for (size_t i = 0; i < sizeof scenarios / sizeof *scenarios; i++) {
                if (!is_secure || !scenarios[i].is_chunked) { /* which the client of TLS does not know */
                        refuse_each_of(&scenarios[i], is_secure, all_after_it);
                }
        }
}

static void
any_allocation_of_an_exchange_may_be_refused(void)
{
        refuse_each(false, false);
}

static void
all_allocations_of_an_exchange_may_be_refused_from_one_on(void)
{
        refuse_each(false, true);
}

static void
any_allocation_of_an_exchange_in_tls_may_be_refused(void)
{
        refuse_each(true, false);
}

static void
all_allocations_of_an_exchange_in_tls_may_be_refused_from_one_on(void)
{
        refuse_each(true, true);
}

static void
make_files(void)
{
        tls_files_begin();
        tls_make_certificate("server", &(struct tls_wish){0});
        for (size_t i = 0; i < LARGE; i++) {
                large[i] = (char)('a' + (i * 7 + i / 251) % 26);
        }
        memcpy(text, large, TEXT_SIZE);
        tls_write_file("small.txt", BODY, sizeof BODY - 1);
        tls_write_file("large.bin", large, LARGE);
        mkdir(tls_path("directory"), 0755);
}

static void
make_routes(void)
{
        router = weir_http_router_new();
        for (size_t i = 0; i < sizeof routes / sizeof *routes; i++) {
                if (weir_http_router_add(router, routes[i].method, routes[i].pattern, routes[i].handler, NULL)) {
                        abort();
                }
        }
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(any_allocation_of_an_exchange_may_be_refused),
                WEIR_TEST(all_allocations_of_an_exchange_may_be_refused_from_one_on),
                WEIR_TEST(any_allocation_of_an_exchange_in_tls_may_be_refused),
                WEIR_TEST(all_allocations_of_an_exchange_in_tls_may_be_refused_from_one_on),
        };
        make_files();
        make_routes();
        int failed = weir_test_main("server_memory", tests, sizeof tests / sizeof *tests);
        weir_http_router_free(router);
        rmdir(tls_path("directory"));
        tls_files_end();
        return failed;
}
