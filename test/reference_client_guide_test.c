/* test/reference_client_guide_test.c: the examples of docs/client.md, which quotes them, and of the reference for
 * weir/http_client.h and weir/http_call.h. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "test/http_client.h"
#include "test/timer_fixture.h"

/* -- a server to ask -- */

static int visits; /* of /busy; the handler's */

static void on_piece(weir_task *read, void *exchange);

static void
read_next(weir_task *exchange)
{
        weir_series_push(weir_series_of(exchange), weir_http_read_new(exchange, on_piece, exchange));
}

static void
on_written(weir_task *write, void *exchange)
{
        if (weir_task_status(write) == 0)
                read_next(exchange);
}

static void
on_piece(weir_task *read, void *exchange)
{
        size_t size;
        const void *data = weir_http_read_data(read, &size);

        if (weir_task_status(read) == 0 && size > 0)
                weir_series_push(weir_series_of(exchange), weir_http_write_new(exchange, data, size, on_written, exchange));
}

static void
handle(weir_task *exchange, void *context)
{
        const char *path = weir_http_path(exchange);

        (void)context;
        if (strcmp(path, "/echo") == 0) {
                read_next(exchange);
        } else if (strcmp(path, "/old") == 0) {
                weir_http_reply_status(exchange, 302);
                weir_http_reply_header(exchange, "Location", "/new");
        } else if (strcmp(path, "/busy") == 0 && visits++ == 0) {
                weir_http_reply_header(exchange, "Retry-After", "0");
                weir_http_reply_text(exchange, 503, "later\n");
        } else if (strcmp(path, "/shout") == 0 && weir_http_reply_upgrade(exchange, "shout") == 0) {
                weir_series_push(weir_series_of(exchange), weir_http_write_new(exchange, NULL, 0, NULL, NULL));
                read_next(exchange);
        } else {
                weir_http_reply_header(exchange, "X-Method", weir_http_method(exchange));
                weir_http_reply_text(exchange, 200, "hello\n");
        }
}

static weir_http_server *server;
static char base[64];

static const char *
url_of(const char *path)
{
        static char url[128];

        snprintf(url, sizeof url, "%s%s", base, path);
        return url;
}

static void
begin(void)
{
        struct weir_http_server_config config = WEIR_HTTP_SERVER_CONFIG_DEFAULT;

        config.stream_bodies = 1;
        visits = 0;
        weir_test_begin_real(1);
        server = http_server(&config, handle, NULL);
        snprintf(base, sizeof base, "http://127.0.0.1:%d", weir_http_server_port(server));
}

static void
end(void)
{
        weir_client_close_idle(weir_client_default());
        CU_ASSERT_EQUAL(weir_http_server_stop(server, WEIR_SEC(10)), 0);
        weir_http_server_free(server);
        weir_test_end();
}

/* -- weir/http_client.h: whole messages -- */

static void
show(weir_task *get, void *context)
{
        int *shown = context;

        if (weir_task_status(get)) {
                fprintf(stderr, "%s\n", weir_http_problem(get));
        } else {
                size_t size;
                const char *body = weir_http_response_body(get, &size);

                *shown = weir_http_response_status(get);
                printf("%d from %s: %zu bytes\n", *shown, weir_http_response_url(get), size);
                printf("%s", body);
        }
}

static void
a_page_is_fetched(void)
{
        int shown = 0;

        begin();
        CU_ASSERT_EQUAL(weir_task_run(weir_http_get_new(url_of("/"), show, &shown)), 0);
        CU_ASSERT_EQUAL(shown, 200);
        end();
}

static void
on_posted(weir_task *post, void *context)
{
        const char *name, *value, **kept = context;

        for (size_t i = 0; weir_http_response_field(post, i, &name, &value) == 0; i++)
                printf("%s: %s\n", name, value);
        CU_ASSERT_STRING_EQUAL(weir_http_response_header(post, "X-Method"), "POST");
        CU_ASSERT_EQUAL(weir_http_stage(post), WEIR_HTTP_COMPLETE);
        *kept = weir_http_response_take_body(post, NULL);
}

static void
a_form_is_posted(void)
{
        static const char form[] = "name=Ann&age=42";
        char *kept = NULL;

        begin();
        weir_task *post = weir_http_request_new("POST", url_of("/form"), on_posted, &kept);

        weir_http_request_set_header(post, "Authorization", "Bearer abc");
        weir_http_request_add_header(post, "Accept", "text/html");
        weir_http_request_add_header(post, "Accept", "text/plain");
        weir_http_request_set_body(post, form, strlen(form), "application/x-www-form-urlencoded");
        weir_http_request_set_limit(post, WEIR_HTTP_LIMIT_WHOLE, WEIR_SEC(5));
        weir_http_request_set_max_body(post, 100000);
        weir_http_request_set_idempotent(post, true); /* the form may be sent twice */
        CU_ASSERT_EQUAL(weir_task_run(post), 0);
        CU_ASSERT_STRING_EQUAL(kept, "hello\n");
        free(kept);
        end();
}

static void
a_file_is_put(void)
{
        char path[] = "/tmp/weir-client-guide-XXXXXX";
        int file = mkstemp(path);

        begin();
        CU_ASSERT_EQUAL(write(file, "content", 7), 7);
        weir_task *put = weir_http_request_new("PUT", url_of("/file"), NULL, NULL);
        weir_http_request_set_body_file(put, file, 0, UINT64_MAX, "text/plain");
        CU_ASSERT_EQUAL(weir_task_run(put), 0);

        put = weir_http_request_new("PUT", url_of("/file"), NULL, NULL);
        weir_http_request_lend_body(put, path, sizeof path, NULL); /* it stays until the callback */
        CU_ASSERT_EQUAL(weir_task_run(put), 0);
        close(file);
        unlink(path);
        end();
}

static void
a_redirect_is_followed(void)
{
        int shown = 0;

        begin();
        weir_task *get = weir_http_get_new(url_of("/old"), show, &shown);
        weir_http_request_set_redirects(get, 5);
        CU_ASSERT_EQUAL(weir_task_run(get), 0);
        CU_ASSERT_EQUAL(shown, 200);
        end();
}

/* -- again, when it helps -- */

struct order {
        weir_nsec wait; /* that the server asks for; below 0: it does not */
        int tries;
};

static void
on_tried(weir_task *get, void *context)
{
        struct order *order = context;

        order->wait = weir_http_response_retry_after(get);
        order->tries++;
}

static weir_task *
try_it(void *context)
{
        weir_task *get = weir_http_get_new(url_of("/busy"), on_tried, context);

        weir_http_request_fail_on_error(get);
        return get;
}

static weir_nsec
wait_of(int status, weir_nsec planned, void *context)
{
        const struct order *order = context;

        (void)status;
        return order->wait >= 0 ? order->wait : planned;
}

static void
a_busy_server_is_asked_again(void)
{
        struct weir_retry_config config = WEIR_RETRY_CONFIG_DEFAULT;
        struct order order = {.tries = 0};

        begin();
        config.retry_if = weir_http_retry_if;
        config.delay_of = wait_of;
        CU_ASSERT_EQUAL(weir_task_run(weir_retry_new(&config, try_it, NULL, &order)), 0);
        CU_ASSERT_EQUAL(order.tries, 2);
        end();
}

/* -- a client of one's own -- */

/* Nobody is asked: the proxy has a name that does not exist. */
static void
requests_go_through_a_proxy(void)
{
        struct weir_client_config config = WEIR_CLIENT_CONFIG_DEFAULT;

        config.proxy = "http://user:password@proxy.example:3128";
        config.no_proxy = "localhost, .intern.example, 10.0.0.0/8";
        weir_client *client = weir_client_new(&config);
        CU_ASSERT_PTR_NOT_NULL(client);
        weir_client_unref(client);
}

static void
a_client_has_settings(void)
{
        struct weir_client_config config = WEIR_CLIENT_CONFIG_DEFAULT;
        struct weir_client_stats stats = WEIR_CLIENT_STATS_DEFAULT;
        weir_cookie_jar *jar = weir_cookie_jar_new();

        begin();
        config.connections = 8;
        config.redirects = 3;
        config.first_byte_limit = WEIR_SEC(5);
        config.cookies = jar;
        weir_client *client = weir_client_new(&config);
        weir_cookie_jar_unref(jar);
        weir_task *get = weir_client_request_new(client, "GET", url_of("/"), NULL, NULL);
        weir_http_request_set_key(get, "ann", 3); /* for upstreams that choose by it */
        CU_ASSERT_EQUAL(weir_task_run(get), 0);
        CU_ASSERT_EQUAL(weir_client_stats(client, &stats), 0);
        CU_ASSERT_EQUAL(stats.requests, 1);
        weir_client *other = weir_client_ref(client);
        weir_client_unref(other);
        weir_client_unref(client);
        end();
}

/* -- weir/http_call.h: bodies that stream -- */

struct copy {
        weir_http_call *call;
        size_t size;
        int pieces;
};

static void read_more(weir_series *series, struct copy *copy);

static void
take_piece(weir_task *read, void *context)
{
        struct copy *copy = context;
        size_t size;

        weir_http_call_data(read, &size);
        copy->size += size;
        if (weir_task_status(read))
                fprintf(stderr, "%s\n", weir_http_call_problem(copy->call));
        else if (size > 0)
                read_more(weir_series_of(read), copy);
}

static void
read_more(weir_series *series, struct copy *copy)
{
        weir_series_push(series, weir_http_call_read_new(copy->call, take_piece, copy));
}

static void
take_head(weir_task *head, void *context)
{
        struct copy *copy = context;

        if (weir_task_status(head) == 0 && weir_http_call_status(copy->call) == 200)
                read_more(weir_series_of(head), copy);
}

static void
give_piece(weir_task *write, void *context)
{
        struct copy *copy = context;
        weir_series *series = weir_series_of(write);

        if (weir_task_status(write) == 0 && copy->pieces-- > 0)
                weir_series_push(series, weir_http_call_write_new(copy->call, "some bytes\n", 11, give_piece, copy));
        else
                weir_series_push(series, weir_http_call_finish_new(copy->call, NULL, NULL));
}

static void
both_bodies_stream(void)
{
        struct copy copy = {.pieces = 10};

        begin();
        copy.call = weir_http_call_new(NULL, "POST", url_of("/echo"));
        weir_http_call_set_header(copy.call, "Content-Type", "text/plain");
        weir_http_call_add_header(copy.call, "X-Try", "1");
        weir_http_call_set_limit(copy.call, WEIR_HTTP_LIMIT_BETWEEN, WEIR_SEC(10));
        weir_http_call_set_length(copy.call, UINT64_MAX); /* it has a body, of any length */

        weir_task *both = weir_parallel_new(NULL, NULL);
        weir_parallel_add(both, weir_http_call_head_new(copy.call, take_head, &copy));
        weir_parallel_add(both, weir_empty_new(give_piece, &copy));
        CU_ASSERT_EQUAL(weir_task_run(both), 0);
        CU_ASSERT_EQUAL(copy.size, 110);
        CU_ASSERT_EQUAL(weir_http_call_length(copy.call), UINT64_MAX); /* it came in chunks */
        CU_ASSERT_EQUAL(weir_http_call_stage(copy.call), WEIR_HTTP_COMPLETE);
        CU_ASSERT_PTR_NOT_NULL(weir_http_call_header(copy.call, "Date"));
        CU_ASSERT_EQUAL(weir_http_call_field(copy.call, 100, NULL, NULL), -ENOENT);
        weir_http_call *other = weir_http_call_ref(copy.call);
        weir_http_call_break(other);
        weir_http_call_unref(other);
        weir_http_call_unref(copy.call);
        end();
}

/* -- a form with a file that is not in memory -- */

struct upload {
        weir_multipart *form;
        weir_http_call *call;
        char piece[65536];
        ssize_t size; /* of the piece */
        int64_t echoed;
};

static void on_filled(weir_task *go, void *context);

static void
fill(void *context)
{
        struct upload *upload = context;

        upload->size = weir_multipart_read(upload->form, upload->piece, sizeof upload->piece);
        if (upload->size < 0)
                weir_go_fail((int)upload->size);
}

static void
fill_next(weir_task *write, void *upload)
{
        if (weir_task_status(write) == 0)
                weir_series_push(weir_series_of(write), weir_go_new(NULL, fill, on_filled, upload));
}

static void
on_filled(weir_task *go, void *context)
{
        struct upload *upload = context;
        weir_series *series = weir_series_of(go);

        if (weir_task_status(go))
                weir_http_call_break(upload->call); /* the file cannot be read */
        else if (upload->size > 0)
                weir_series_push(series,
                                 weir_http_call_write_new(upload->call, upload->piece, (size_t)upload->size, fill_next, upload));
        else
                weir_series_push(series, weir_http_call_finish_new(upload->call, NULL, NULL));
}

static void
on_echo(weir_task *read, void *context)
{
        struct upload *upload = context;
        size_t size;

        (void)weir_http_call_data(read, &size);
        upload->echoed += (int64_t)size;
        if (weir_task_status(read) == 0 && size)
                weir_series_push(weir_series_of(read), weir_http_call_read_new(upload->call, on_echo, upload));
}

static void
a_form_with_a_large_file_is_sent(void)
{
        char path[] = "/tmp/weir-client-form-XXXXXX";
        struct upload upload = {.form = weir_multipart_new()};
        int file = mkstemp(path);

        begin();
        CU_ASSERT_EQUAL(ftruncate(file, 3000000), 0);
        CU_ASSERT_EQUAL(weir_multipart_add_file(upload.form, "film", path, NULL, NULL), 0);
        upload.call = weir_http_call_new(NULL, "POST", url_of("/echo"));
        weir_http_call_set_header(upload.call, "Content-Type", weir_multipart_type(upload.form));
        weir_http_call_set_length(upload.call, (uint64_t)weir_multipart_size(upload.form));
        weir_task *both = weir_parallel_new(NULL, NULL); /* the server of this test answers while it reads */
        weir_parallel_add(both, weir_empty_new(fill_next, &upload));
        weir_parallel_add(both, weir_http_call_read_new(upload.call, on_echo, &upload));
        CU_ASSERT_EQUAL(weir_task_run(both), 0);
        CU_ASSERT_EQUAL(upload.echoed, weir_multipart_size(upload.form));
        weir_http_call_unref(upload.call);
        weir_multipart_free(upload.form);
        end();
        close(file);
        unlink(path);
}

/* -- a short body in one task, and a reverse proxy -- */

static void
take_first(weir_task *first, void *context)
{
        struct copy *copy = context;
        size_t size;

        weir_http_call_data(first, &size);
        copy->size += size;
        if (weir_task_status(first) == 0 && weir_http_call_is_last(first) == 0)
                read_more(weir_series_of(first), copy);
}

static void
a_short_body_comes_with_its_head(void)
{
        struct copy copy = {.size = 0};

        begin();
        copy.call = weir_http_call_new(NULL, "GET", url_of("/"));
        CU_ASSERT_EQUAL(weir_task_run(weir_http_call_first_new(copy.call, take_first, &copy)), 0);
        CU_ASSERT_EQUAL(copy.size, 6);
        weir_http_call_unref(copy.call);
        end();
}

static int
add_name(weir_task *exchange, weir_http_call *call, void *context)
{
        (void)context;
        return weir_http_call_set_header(call, "X-Path", weir_http_path(exchange));
}

static void
pass_on(weir_task *exchange, void *context)
{
        struct weir_http_proxy_config config = WEIR_HTTP_PROXY_CONFIG_DEFAULT;

        (void)context;
        config.on_request = add_name;
        if (weir_http_proxy_with(&config, exchange, NULL, base))
                weir_http_proxy_to(exchange, NULL, base);
}

static void
a_request_goes_on(void)
{
        char url[64];
        int shown = 0;

        begin();
        weir_http_server *proxy = http_server(NULL, pass_on, NULL);
        snprintf(url, sizeof url, "http://127.0.0.1:%d/", weir_http_server_port(proxy));
        CU_ASSERT_EQUAL(weir_task_run(weir_http_get_new(url, show, &shown)), 0);
        CU_ASSERT_EQUAL(shown, 200);
        weir_client_close_idle(weir_client_default());
        CU_ASSERT_EQUAL(weir_http_server_stop(proxy, WEIR_SEC(10)), 0);
        weir_http_server_free(proxy);
        end();
}

static void
a_connection_speaks_another_protocol(void)
{
        begin();
        weir_http_call *call = weir_http_call_new(NULL, "GET", url_of("/shout"));
        weir_http_call_set_upgrade(call, "shout");
        CU_ASSERT_EQUAL(weir_task_run(weir_http_call_head_new(call, NULL, NULL)), 0);
        CU_ASSERT_EQUAL(weir_http_call_status(call), 101);
        weir_stream *stream = weir_http_call_take_stream(call);
        weir_http_call_unref(call);

        CU_ASSERT_EQUAL(weir_task_run(weir_stream_write_new(stream, "HO!", 3, NULL, NULL)), 0);
        CU_ASSERT_EQUAL(weir_task_run(weir_stream_read_new(stream, 3, 3, NULL, NULL)), 0);
        weir_stream_unref(stream);
        end();
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(a_page_is_fetched),
                WEIR_TEST(a_form_is_posted),
                WEIR_TEST(a_file_is_put),
                WEIR_TEST(a_redirect_is_followed),
                WEIR_TEST(a_busy_server_is_asked_again),
                WEIR_TEST(a_client_has_settings),
                WEIR_TEST(requests_go_through_a_proxy),
                WEIR_TEST(both_bodies_stream),
                WEIR_TEST(a_form_with_a_large_file_is_sent),
                WEIR_TEST(a_short_body_comes_with_its_head),
                WEIR_TEST(a_request_goes_on),
                WEIR_TEST(a_connection_speaks_another_protocol),
        };

        return weir_test_main("reference_client_guide", tests, sizeof tests / sizeof *tests);
}
