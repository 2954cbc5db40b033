/* test/reference_proxy_guide_test.c: the examples of the reference for weir/http_proxy.h and for the reads of weir/http_call.h,
 * and of docs/reverse-proxy.md. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <weir/weir.h>

#include "test/http_client.h"

/* -- weir/http_proxy.h -- */

static void
to_backend(weir_task *exchange, void *client)
{
        weir_http_proxy_to(exchange, client, "http://backend/api");
}

static int
add_token(weir_task *exchange, weir_http_call *call, void *token)
{
        (void)exchange;
        return weir_http_call_set_header(call, "Authorization", token);
}

static void
to_backend_with_token(weir_task *exchange, void *client)
{
        struct weir_http_proxy_config config = WEIR_HTTP_PROXY_CONFIG_DEFAULT;

        config.on_request = add_token;
        config.context = "Bearer 0123";
        config.limit = WEIR_SEC(10);
        weir_http_proxy_with(&config, exchange, client, "http://backend");
}

/* Links that the browser may load while the backend works. */
static void
with_early_links(weir_task *exchange, void *client)
{
        const char *const links[] = {"Link", "</style.css>; rel=preload; as=style", NULL};
        weir_task *early = weir_http_interim_new(exchange, 103, links, NULL, NULL);

        weir_series_push(weir_series_of(exchange), early);
        weir_http_proxy_to(exchange, client, "http://backend");
}

/* -- weir/http_call.h -- */

static char page[4096];

/* A short response is one task, and a long one is read on. */
static void
take(weir_task *read, void *call)
{
        size_t size;
        const char *data = weir_http_call_data(read, &size);

        if (weir_task_status(read))
                return;
        if (weir_http_call_status(call) < 200) { /* an interim response: the next first read waits for what follows */
                const char *link = weir_http_call_header(call, "Link");

                snprintf(page, sizeof page, "early %s ", link ? link : "");
                weir_series_push(weir_series_of(read), weir_http_call_first_new(call, take, call));
                return;
        }
        snprintf(page + strlen(page), sizeof page - strlen(page), "%.*s", (int)size, data);
        if (weir_http_call_is_last(read) == 0)
                weir_series_push(weir_series_of(read), weir_http_call_read_new(call, take, call));
}

static void
fetch(const char *url)
{
        weir_http_call *call = weir_http_call_new(NULL, "GET", url);

        weir_http_call_set_interim(call);
        weir_task_run(weir_http_call_first_new(call, take, call));
        CU_ASSERT_EQUAL(weir_http_call_minor(call), 1);
        weir_http_call_unref(call);
}

/* What comes from one server goes to another one, piece by piece and without copies. */
struct copy {
        weir_http_call *from, *to;
};

static void copy_on(weir_task *written, void *context);

static void
send_on(weir_task *read, void *context)
{
        struct copy *copy = context;
        bool is_over = weir_task_status(read) || weir_http_call_is_last(read);
        weir_task *write = weir_http_call_write_from_new(copy->to, read, is_over ? NULL : copy_on, copy);

        weir_series_push(weir_series_of(read), write);
        if (is_over)
                weir_series_push(weir_series_of(read), weir_http_call_finish_new(copy->to, NULL, NULL));
}

static void
copy_on(weir_task *written, void *context)
{
        struct copy *copy = context;

        if (weir_task_status(written) == 0)
                weir_series_push(weir_series_of(written), weir_http_call_read_new(copy->from, send_on, copy));
}

static void
copy_over(const char *from, const char *to)
{
        struct copy copy = {.from = weir_http_call_new(NULL, "GET", from), .to = weir_http_call_new(NULL, "PUT", to)};

        weir_http_call_set_length(copy.to, UINT64_MAX);
        weir_task_run(weir_http_call_first_new(copy.from, send_on, &copy));
        weir_task_run(weir_http_call_first_new(copy.to, take, copy.to));
        weir_http_call_unref(copy.from);
        weir_http_call_unref(copy.to);
}

/* The echo of a body that streams. */
static void
echo_piece(weir_task *read, void *exchange)
{
        size_t size;

        (void)weir_http_read_data(read, &size);
        if (size) {
                weir_series_push(weir_series_of(read), weir_http_write_from_new(exchange, read, NULL, NULL));
                weir_series_push(weir_series_of(read), weir_http_read_new(exchange, echo_piece, exchange));
        }
}

static void
echo(weir_task *exchange, void *context)
{
        (void)context;
        weir_series_push(weir_series_of(exchange), weir_http_read_new(exchange, echo_piece, exchange));
}

/* -- weir/http_body.h: after an upgrade -- */

/* Says it, ends its side, and reads what the client still has to say. */
static void
say_and_listen(weir_task *exchange, void *context)
{
        weir_series *series = weir_series_of(exchange);

        (void)context;
        if (weir_http_reply_upgrade(exchange, "shout") == 0) {
                weir_http_reply_header(exchange, "X-Shout", "loud");
                weir_series_push(series, weir_http_write_new(exchange, "hello", 5, NULL, NULL));
                weir_series_push(series, weir_http_finish_new(exchange, NULL, NULL));
                weir_series_push(series, weir_http_read_new(exchange, NULL, NULL));
        }
}

static char heard[16];

static void
hear(weir_task *read, void *context)
{
        const char *data = weir_stream_data(read, NULL);

        (void)context;
        snprintf(heard, sizeof heard, "%s", data);
}

static void
shout_at(const char *url)
{
        weir_http_call *call = weir_http_call_new(NULL, "GET", url);

        weir_http_call_set_upgrade(call, "shout");
        weir_task_run(weir_http_call_head_new(call, NULL, NULL));
        weir_stream *stream = weir_http_call_take_stream(call);
        weir_task_run(weir_stream_read_new(stream, 5, 5, hear, NULL));
        CU_ASSERT_EQUAL(weir_task_run(weir_stream_read_new(stream, 1, 1, NULL, NULL)), -EPIPE);
        CU_ASSERT_EQUAL(weir_task_run(weir_stream_write_new(stream, "bye", 3, NULL, NULL)), 0);
        weir_stream_unref(stream);
        weir_http_call_unref(call);
}

/* The body goes out when the server has said that it wants it. */
static void
send_body(weir_task *head, void *call)
{
        weir_series *series = weir_series_of(head);

        if (weir_task_status(head) || weir_http_call_status(call) != 100)
                return;
        weir_series_push(series, weir_http_call_write_new(call, "large", 5, NULL, NULL));
        weir_series_push(series, weir_http_call_head_new(call, NULL, NULL));
}

static void
ask_before_sending(const char *url)
{
        weir_http_call *call = weir_http_call_new(NULL, "PUT", url);

        weir_http_call_set_length(call, 5);
        weir_http_call_set_expect(call);
        weir_task_run(weir_http_call_head_new(call, send_body, call));
        CU_ASSERT_EQUAL(weir_http_call_status(call), 200);
        weir_http_call_unref(call);
}

/* -- they run -- */

static void
answer(weir_task *exchange, void *context)
{
        const char *token = weir_http_request_header(exchange, "Authorization");

        (void)context;
        weir_http_reply_printf(exchange, "%s HTTP/1.%d %s", weir_http_path(exchange), weir_http_minor(exchange),
                               token ? token : "none");
}

static void
asks(weir_task_fn *handler, const char *expected)
{
        weir_http_server *front = http_server(NULL, handler, NULL);
        char url[64];

        page[0] = '\0';
        snprintf(url, sizeof url, "http://127.0.0.1:%d/a", weir_http_server_port(front));
        fetch(url);
        CU_ASSERT_STRING_EQUAL(page, expected);
        weir_http_server_stop(front, WEIR_SEC(30));
        weir_http_server_free(front);
}

static void
requests_go_to_the_backend(void)
{
        weir_http_server *back = http_server(NULL, answer, NULL);
        weir_upstream *upstream = weir_upstream_new("backend", NULL);
        char address[64], url[80], other[80];

        snprintf(address, sizeof address, "127.0.0.1:%d", weir_http_server_port(back));
        CU_ASSERT_EQUAL(weir_upstream_add(upstream, address, NULL), 0);
        asks(to_backend, "/api/a HTTP/1.1 none");
        asks(to_backend_with_token, "/a HTTP/1.1 Bearer 0123");
        asks(with_early_links, "early </style.css>; rel=preload; as=style /a HTTP/1.1 none");
        snprintf(url, sizeof url, "http://%s/", address);
        ask_before_sending(url);
        struct weir_http_server_config streams = WEIR_HTTP_SERVER_CONFIG_DEFAULT;
        streams.stream_bodies = 1;
        weir_http_server *third = http_server(&streams, echo, NULL);
        snprintf(other, sizeof other, "http://127.0.0.1:%d/", weir_http_server_port(third));
        page[0] = '\0';
        copy_over(url, other);
        CU_ASSERT_STRING_EQUAL(page, "/ HTTP/1.1 none");
        weir_http_server *fourth = http_server(NULL, say_and_listen, NULL);
        snprintf(other, sizeof other, "http://127.0.0.1:%d/", weir_http_server_port(fourth));
        shout_at(other);
        CU_ASSERT_STRING_EQUAL(heard, "hello");
        weir_http_server_stop(fourth, WEIR_SEC(30));
        weir_http_server_free(fourth);
        weir_http_server_stop(third, WEIR_SEC(30));
        weir_http_server_free(third);
        weir_upstream_unref(upstream);
        weir_http_server_stop(back, WEIR_SEC(30));
        weir_http_server_free(back);
        CU_ASSERT_EQUAL(weir_shutdown(), 0);
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(requests_go_to_the_backend),
        };

        return weir_test_main("reference_proxy_guide", tests, sizeof tests / sizeof *tests);
}
