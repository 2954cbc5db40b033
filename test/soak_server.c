/* test/soak_server.c: the servers of the soak: everything that a handler can do.
 *
 * Threads: handlers run on workers; servers are started and stopped by the thread that runs the rounds.  No locks. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "test/soak.h"
#include "test/tls_peer.h"

struct soak_server soak_servers[SOAK_SERVERS] = {
        [SOAK_PLAIN] = {.name = "plain"},
        [SOAK_COLLECTING] = {.name = "collecting"},
        [SOAK_SECURE] = {.name = "secure", .is_secure = true},
        [SOAK_NARROW] = {.name = "narrow", .is_unreliable = true},
        [SOAK_RESTARTED] = {.name = "restarted", .is_unreliable = true},
};

atomic_size_t soak_handled, soak_freed, soak_logged;

static weir_http_router *router;

/* -- the handler -- */

char
soak_byte(size_t at)
{
        return (char)('a' + (at * 7 + (at >> 8)) % 26);
}

uint64_t
soak_sum(uint64_t sum, const char *data, size_t size)
{
        for (size_t i = 0; i < size; i++)
                sum = (sum ^ (unsigned char)data[i]) * UINT64_C(1099511628211);
        return sum;
}

static void
fill(char *data, size_t at, size_t size)
{
        for (size_t i = 0; i < size; i++)
                data[i] = soak_byte(at + i);
}

static size_t
number(weir_task *exchange)
{
        return strtoul(weir_http_router_parameter(exchange, "number"), NULL, 10);
}

static void
on_bytes(weir_task *exchange, void *context)
{
        size_t size = number(exchange);
        char *data = malloc(size + 1);

        (void)context;
        fill(data, 0, size);
        weir_http_reply_header(exchange, "Content-Type", "text/plain"); /* worth compressing */
        weir_http_reply_append(exchange, data, size);
        free(data);
}

static void
say_done(weir_task *task, void *exchange)
{
        if (weir_task_status(task) == 0)
                weir_http_reply_text(exchange, 200, "done\n");
}

static void
on_delay(weir_task *exchange, void *context)
{
        (void)context;
        weir_series_push(weir_series_of(exchange), weir_timer_new(WEIR_MSEC((weir_nsec)number(exchange)), say_done, exchange));
}

static void
on_parallel(weir_task *exchange, void *context)
{
        weir_task *parallel = weir_parallel_new(say_done, exchange);

        (void)context;
        for (size_t i = number(exchange); i > 0; i--)
                weir_parallel_add(parallel, weir_timer_new_named("soak", WEIR_MSEC((weir_nsec)i), NULL, NULL));
        weir_series_push(weir_series_of(exchange), parallel);
}

static void
work(void *context)
{
        (void)context;
        usleep(200);
}

static void
on_go(weir_task *exchange, void *context)
{
        (void)context;
        weir_series_push(weir_series_of(exchange), weir_go_new(number(exchange) % 2 ? "soak" : NULL, work, say_done, exchange));
}

static void
on_file(weir_task *exchange, void *context)
{
        (void)context;
        weir_http_reply_file(exchange, tls_path("."), "file.bin");
}

static void
on_never(weir_task *exchange, void *context)
{
        (void)context;
        weir_series_push(weir_series_of(exchange), weir_timer_new(WEIR_FOREVER, NULL, NULL));
}

static void
on_drop(weir_task *exchange, void *context)
{
        (void)context;
        weir_series_cancel(weir_series_of(exchange));
}

/* -- bodies that come in -- */

static void
echo(weir_task *collect, void *exchange)
{
        size_t size;
        const void *body = weir_http_request_body(exchange, &size);

        if (!collect || weir_task_status(collect) == 0) {
                weir_http_reply_header(exchange, "Content-Type", "text/plain");
                weir_http_reply_append(exchange, body, size);
        }
}

static void
on_echo(weir_task *exchange, void *context)
{
        size_t size;

        (void)context;
        weir_http_request_body(exchange, &size);
        if (size)
                echo(NULL, exchange);
        else
                weir_series_push(weir_series_of(exchange), weir_http_collect_new(exchange, 0, echo, exchange));
}

struct sum {
        weir_task *exchange;
        uint64_t sum;
        size_t size;
};

static void
say_sum(const struct sum *sum)
{
        char text[64];

        snprintf(text, sizeof text, "%zu %016llx\n", sum->size, (unsigned long long)sum->sum);
        weir_http_reply_text(sum->exchange, 200, text);
}

static void
add(struct sum *sum, const char *data, size_t size)
{
        sum->sum = soak_sum(sum->sum, data, size);
        sum->size += size;
}

static void
add_piece(weir_task *read, void *context)
{
        struct sum *sum = context;
        size_t size = 0;
        const char *data = weir_http_read_data(read, &size);

        if (weir_task_status(read))
                return;
        add(sum, data, size);
        if (size)
                weir_series_push(weir_series_of(read), weir_http_read_new(sum->exchange, add_piece, sum));
        else
                say_sum(sum);
}

static void
on_sum(weir_task *exchange, void *context)
{
        struct sum *sum = malloc(sizeof *sum);
        weir_series *series = weir_series_of(exchange);
        size_t size;
        const char *body = weir_http_request_body(exchange, &size);

        (void)context;
        *sum = (struct sum){.exchange = exchange, .sum = SOAK_SUM_START};
        weir_series_set_context(series, sum, free);
        if (size) {
                add(sum, body, size);
                say_sum(sum);
        } else {
                weir_series_push(series, weir_http_read_new(exchange, add_piece, sum));
        }
}

/* -- bodies that go out -- */

struct stream {
        weir_task *exchange;
        size_t at, end;
};

static void
write_on(weir_task *write, void *context)
{
        struct stream *stream = context;
        char data[20000];
        size_t size = stream->end - stream->at, most = 1 + (stream->at * 31 + stream->end) % sizeof data;

        if ((write && weir_task_status(write)) || !size)
                return;
        size = size < most ? size : most;
        fill(data, stream->at, size);
        stream->at += size;
        weir_series_push(weir_series_of(write ? write : stream->exchange),
                         weir_http_write_new(stream->exchange, data, size, write_on, stream));
}

static void
on_stream(weir_task *exchange, void *context)
{
        struct stream *stream = malloc(sizeof *stream);
        weir_series *series = weir_series_of(exchange);

        (void)context;
        *stream = (struct stream){.exchange = exchange, .end = number(exchange)};
        if (stream->end % 3 == 0)
                weir_http_reply_length(exchange, stream->end);
        weir_series_set_context(series, stream, free);
        write_on(NULL, stream);
}

static void
pass_on(weir_task *read, void *exchange)
{
        size_t size = 0;
        const char *data = weir_http_read_data(read, &size);

        if (weir_task_status(read))
                weir_series_cancel(weir_series_of(read)); /* else the reply would look whole */
        if (weir_task_status(read) || !size)
                return;
        weir_series_push(weir_series_of(read), weir_http_write_new(exchange, data, size, NULL, NULL));
        weir_series_push(weir_series_of(read), weir_http_read_new(exchange, pass_on, exchange));
}

static void
on_pipe(weir_task *exchange, void *context)
{
        size_t size;
        const char *body = weir_http_request_body(exchange, &size);

        (void)context;
        if (size)
                weir_http_reply_append(exchange, body, size);
        else
                weir_series_push(weir_series_of(exchange), weir_http_read_new(exchange, pass_on, exchange));
}

static void
on_raw(weir_task *exchange, void *context)
{
        (void)context;
        if (weir_http_reply_upgrade(exchange, "echo")) {
                weir_http_reply_text(exchange, 426, "wanted: Upgrade: echo\n");
                return;
        }
        weir_series_push(weir_series_of(exchange), weir_http_write_new(exchange, NULL, 0, NULL, NULL));
        weir_series_push(weir_series_of(exchange), weir_http_read_new(exchange, pass_on, exchange));
}

static void
on_events(weir_task *exchange, void *context)
{
        struct weir_http_event event = WEIR_HTTP_EVENT_DEFAULT;

        (void)context;
        event.data = "event";
        weir_series_push(weir_series_of(exchange),
                         weir_http_sse_new(exchange, number(exchange) % 2 ? 0 : WEIR_MSEC(50), NULL, NULL));
        for (size_t i = number(exchange); i > 0; i--)
                weir_task_start(weir_http_sse_event_new(exchange, &event, NULL, NULL));
        if (number(exchange) % 2)
                weir_http_sse_end(exchange); /* else it lasts until the client goes */
}

/* The reply goes on when its series has ended long since. */
static void
drop_reference(void *exchange)
{
        weir_http_unref(exchange);
}

static void
write_from_elsewhere(weir_task *timer, void *exchange)
{
        weir_task *last = weir_http_write_new(exchange, "elsewhere\n", 10, NULL, exchange);

        (void)timer;
        weir_task_on_free(last, drop_reference);
        weir_task_start(weir_http_write_new(exchange, "from ", 5, NULL, NULL));
        weir_task_start(last);
}

static void
on_elsewhere(weir_task *exchange, void *context)
{
        (void)context;
        weir_series_push(weir_series_of(exchange), weir_http_write_new(exchange, NULL, 0, NULL, NULL));
        weir_task_start(weir_timer_new(WEIR_MSEC((weir_nsec)number(exchange)), write_from_elsewhere, weir_http_ref(exchange)));
}

/* -- servers -- */

static void
count_free(void *context)
{
        (void)context;
        atomic_fetch_add(&soak_freed, 1);
}

static void
handle(weir_task *exchange, void *context)
{
        atomic_fetch_add(&soak_handled, 1);
        weir_http_router_handle(exchange, context);
        weir_task_on_free(exchange, count_free);
}

static const struct {
        const char *methods, *pattern;
        weir_task_fn *handler;
} routes[] = {
        {"GET", "/bytes/{number}", on_bytes},
        {"GET", "/delay/{number}", on_delay},
        {"GET", "/file", on_file},
        {"GET", "/parallel/{number}", on_parallel},
        {"GET", "/go/{number}", on_go},
        {"GET", "/never", on_never},
        {"GET", "/drop", on_drop},
        {"POST", "/echo", on_echo},
        {"POST", "/sum", on_sum},
        {"GET", "/stream/{number}", on_stream},
        {"POST", "/pipe", on_pipe},
        {"GET", "/raw", on_raw},
        {"GET", "/elsewhere/{number}", on_elsewhere},
        {"GET", "/events/{number}", on_events},
};

void
soak_files_begin(void)
{
        char *data = malloc(SOAK_FILE_SIZE);

        tls_files_begin();
        tls_make_certificate("soak", &(struct tls_wish){.common_name = "soak"});
        fill(data, 0, SOAK_FILE_SIZE);
        tls_write_file("file.bin", data, SOAK_FILE_SIZE);
        free(data);
        snprintf(soak_servers[SOAK_RESTARTED].path, sizeof soak_servers->path, "%.60s", tls_path("socket"));
        router = weir_http_router_new();
        for (size_t i = 0; i < sizeof routes / sizeof *routes; i++)
                if (weir_http_router_add(router, routes[i].methods, routes[i].pattern, routes[i].handler, NULL))
                        soak_fail("no route %s", routes[i].pattern);
}

void
soak_files_end(void)
{
        weir_http_router_free(router);
        tls_files_end();
}

static const char *
log_of(const struct soak_server *server)
{
        char name[64];

        snprintf(name, sizeof name, "%s.log", server->name);
        return tls_path(name);
}

static void
count_logged(const struct weir_http_access *access, void *context)
{
        (void)access, (void)context;
        atomic_fetch_add(&soak_logged, 1);
}

void
soak_logs_rotate(struct weir_test_random *random)
{
        for (int i = 0; i < SOAK_SERVERS; i++) {
                const char *path = log_of(&soak_servers[i]);
                bool anew = weir_test_random_below(random, 2);

                if (anew ? unlink(path) : truncate(path, 0))
                        soak_fail("the access log %s is not there", path);
                if (anew && weir_http_server_reopen_log(soak_servers[i].server))
                        soak_fail("the access log %s cannot be opened anew", path);
        }
}

static void
set_limits(struct weir_http_server_config *config, enum soak_server_kind kind)
{
        config->head_timeout = config->body_timeout = config->idle_timeout = config->write_timeout = SOAK_LIMIT;
        config->handshake_timeout = 2 * SOAK_LIMIT;
        config->max_connections = kind == SOAK_NARROW ? 6 : 0;
        config->max_connections_per_address = 100000;                                        /* counted, and never too many */
        config->shed_lateness = kind == SOAK_NARROW ? WEIR_MSEC(2) : WEIR_SEC(SOAK_PATIENT); /* the latter: nobody */
}

static void
configure(struct weir_http_server_config *config, enum soak_server_kind kind)
{
        set_limits(config, kind);
        config->stream_bodies = kind != SOAK_COLLECTING && kind != SOAK_RESTARTED;
        config->compress = 1;
        config->access_log = log_of(&soak_servers[kind]);
        config->on_access = count_logged;
        if (kind == SOAK_SECURE) {
                config->certificate_file = tls_path("soak.pem");
                config->private_key_file = tls_path("soak.key");
        }
}

static void
set_pages(weir_http_server *server)
{
        static const int statuses[] = {400, 404, 405, 408, 413, 503};

        for (size_t i = 0; i < sizeof statuses / sizeof *statuses; i++)
                if (weir_http_server_set_error(server, statuses[i], "text/html", SOAK_PAGE, sizeof SOAK_PAGE - 1))
                        soak_fail("no page for %d", statuses[i]);
}

void
soak_server_start(enum soak_server_kind kind)
{
        struct weir_http_server_config config = WEIR_HTTP_SERVER_CONFIG_DEFAULT;
        struct soak_server *server = &soak_servers[kind];
        char address[80] = "127.0.0.1:0";

        configure(&config, kind);
        if (kind == SOAK_RESTARTED) {
                snprintf(address, sizeof address, "unix:%s", server->path);
        }
        server->server = weir_http_server_new(&config, handle, router);
        set_pages(server->server);
        int failed = weir_http_server_start(server->server, address);
        if (failed)
                soak_fail("the server \"%s\" cannot be started: %s", server->name, weir_strerror(failed));
        if (kind != SOAK_RESTARTED) /* clients look at it meanwhile */
                server->port = weir_http_server_port(server->server);
}

void
soak_server_stop(enum soak_server_kind kind, weir_nsec within)
{
        struct soak_server *server = &soak_servers[kind];
        int64_t began = weir_test_now();
        int result = weir_http_server_stop(server->server, within);

        if (result < 0)
                soak_fail("the server \"%s\" cannot be stopped: %s", server->name, weir_strerror(result));
        if (weir_test_now() - began > within + WEIR_SEC(SOAK_PATIENT))
                soak_fail("the server \"%s\" has stopped within %lld ms only", server->name,
                          (long long)((weir_test_now() - began) / 1000000));
        atomic_fetch_add(&soak_logged, weir_http_server_access_lost(server->server));
        weir_http_server_free(server->server);
        server->server = NULL;
}
