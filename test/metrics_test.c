/* test/metrics_test.c: the output of weir_metrics_write: its form, line by line, and its counts. */
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <weir/resolve.h>

#include "kernel/base/clock.h"
#include "net/upstream/upstream.h"
#include "server/base/serving.h"
#include "test/http_client.h"
#include "test/metrics_form.h"
#include "test/timer_fixture.h"
#include "test/tls_peer.h"

#define GET(target) "GET " target " HTTP/1.1\r\nHost: a\r\n\r\n"

void *__real_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size);

static _Thread_local void (*meanwhile)(void); /* called once, before the next memory */

void *
__wrap_calloc(size_t count, size_t size)
{
        void (*call)(void) = meanwhile;

        meanwhile = NULL;
        if (call) {
                call();
        }
        return __real_calloc(count, size);
}

/* -- the library -- */

static void
nothing_is_counted_of_what_does_not_run(void)
{
        look();
        check_form(60);
        CU_ASSERT_EQUAL(seen("weir_pollers"), 0);
        CU_ASSERT_EQUAL(seen("weir_workers"), 0);
        CU_ASSERT_EQUAL(seen("weir_pending_timers"), 0);
        CU_ASSERT_EQUAL(seen("weir_live_series"), 0);
        CU_ASSERT_EQUAL(seen("weir_timer_lateness_seconds_count"), 0);
        CU_ASSERT_EQUAL(seen("weir_ready_completions{poller=\"0\"}"), -1);
        CU_ASSERT_PTR_NULL(strstr(metrics_text, "server="));
}

static void
threads_are_counted(void)
{
        weir_test_begin_real(3);
        look();
        check_form(60);
        CU_ASSERT_EQUAL(seen("weir_pollers"), 3);
        CU_ASSERT_EQUAL(seen("weir_workers"), 3);
        CU_ASSERT_EQUAL(seen("weir_spare_workers"), 0);
        CU_ASSERT_EQUAL(seen("weir_ready_completions{poller=\"2\"}"), 0);
        CU_ASSERT_EQUAL(seen("weir_ready_completions{poller=\"3\"}"), -1);
        weir_test_end();
}

static void
timers_are_counted_apart_from_time_limits(void)
{
        weir_test_begin_virtual();
        for (int i = 0; i < 5; i++) {
                weir_task_start(weir_timer_new_named("t", WEIR_SEC(10), NULL, NULL));
        }
        weir_series *series = weir_series_new(NULL, NULL);
        weir_series_set_deadline(series, WEIR_SEC(7));
        weir_series_push(series, weir_timer_new(WEIR_SEC(8), NULL, NULL));
        weir_series_start(series);
        weir_test_pass(1);
        look();
        CU_ASSERT_EQUAL(seen("weir_pending_timers"), 6);
        CU_ASSERT_EQUAL(seen("weir_pending_limits"), 1);
        CU_ASSERT_EQUAL(seen("weir_live_series"), 1);
        weir_test_pass(WEIR_SEC(7));
        look();
        CU_ASSERT_EQUAL(seen("weir_pending_timers"), 5);
        CU_ASSERT_EQUAL(seen("weir_pending_limits"), 0);
        CU_ASSERT_EQUAL(seen("weir_live_series"), 0);
        CU_ASSERT_EQUAL(weir_timer_cancel("t", 2), 2);
        WEIR_TEST_EVENTUALLY(value("weir_pending_timers") == 3); /* the worker takes them out */
        weir_test_end();
        look();
        CU_ASSERT_EQUAL(seen("weir_pending_timers"), 0);
        CU_ASSERT_EQUAL(seen("weir_pending_limits"), 0);
}

/* As a callback would that takes so long. */
static void
take_long(void *duration)
{
        atomic_fetch_add(&weir__clock.virtual_instant, *(weir_nsec *)duration);
}

static void
lateness_is_counted_in_buckets_and_never_anew(void)
{
        static weir_nsec slow = WEIR_MSEC(30);

        weir_test_begin_virtual();
        look();
        double count = seen("weir_timer_lateness_seconds_count"), sum = seen("weir_timer_lateness_seconds_sum"),
               within = seen("weir_timer_lateness_seconds_bucket{le=\"0.025\"}"),
               beyond = seen("weir_timer_lateness_seconds_bucket{le=\"0.05\"}"),
               none = seen("weir_timer_lateness_seconds_bucket{le=\"1e-06\"}");
        weir_test_act(WEIR_SEC(1), take_long, &slow); /* on time */
        for (int i = 0; i < 3; i++) {
                weir_task_start(weir_timer_new(WEIR_SEC(1), NULL, NULL)); /* 30 ms late */
        }
        weir_task_start(weir_timer_new_named("t", WEIR_SEC(1), NULL, NULL));
        weir_timer_cancel("t", WEIR_ALL); /* is not counted */
        weir_test_pass(WEIR_SEC(2));
        CU_ASSERT_EQUAL(weir_lateness_reset(WEIR_ALL_POLLERS, NULL), 0);
        look();
        check_form(60);
        CU_ASSERT_EQUAL(seen("weir_timer_lateness_seconds_bucket{le=\"1e-06\"}") - none, 1);
        CU_ASSERT_EQUAL(seen("weir_timer_lateness_seconds_bucket{le=\"0.025\"}") - within, 1);
        CU_ASSERT_EQUAL(seen("weir_timer_lateness_seconds_bucket{le=\"0.05\"}") - beyond, 4);
        CU_ASSERT_EQUAL(seen("weir_timer_lateness_seconds_count") - count, 4);
        CU_ASSERT_DOUBLE_EQUAL(seen("weir_timer_lateness_seconds_sum") - sum, 0.09, 1e-9);
        weir_test_end();
        CU_ASSERT_EQUAL(value("weir_timer_lateness_seconds_count") - count, 4);
}

static void
begin_and_end(weir_task *task, void *context)
{
        (void)task, (void)context;
        weir_blocking_begin();
        weir_blocking_end();
}

static void
a_poller_that_was_given_away_is_counted(void)
{
        weir_test_begin_real(1);
        double before = value("weir_handovers_total{cause=\"begin\"}");
        CU_ASSERT_EQUAL(weir_task_run(weir_empty_new(begin_and_end, NULL)), 0);
        CU_ASSERT_EQUAL(value("weir_handovers_total{cause=\"begin\"}"), before + 1);
        CU_ASSERT(seen("weir_workers") > 1);
        weir_test_end();
}

static struct weir_test_latch function_may_end;

static void
wait_for_latch(void *context)
{
        (void)context;
        weir_test_latch_wait(&function_may_end);
}

static void
functions_are_counted(void)
{
        struct weir_config config = WEIR_CONFIG_DEFAULT;

        config.compute_threads = 1;
        CU_ASSERT_EQUAL_FATAL(weir_init(&config), 0);
        weir_test_latch_init(&function_may_end, 1);
        for (int i = 0; i < 4; i++) {
                weir_task_start(weir_go_new("q", wait_for_latch, NULL, NULL));
        }
        WEIR_TEST_EVENTUALLY(value("weir_executor_running_functions") == 1);
        CU_ASSERT_EQUAL(seen("weir_executor_queued_functions"), 3);
        CU_ASSERT_EQUAL(seen("weir_executor_threads"), 1);
        WEIR_TEST_EVENTUALLY(value("weir_executor_oldest_wait_seconds") > 0);
        weir_test_latch_count_down(&function_may_end);
        WEIR_TEST_EVENTUALLY(value("weir_executor_queued_functions") == 0); /* between two of them none runs */
        WEIR_TEST_EVENTUALLY(value("weir_executor_running_functions") == 0);
        weir_test_end();
}

/* -- servers -- */

static struct {
        weir_http_server *server;
        int port;
        struct http_client client;
        struct http_reply reply;
        char name[128];
        atomic_int inside;
} at;

/* "/204" and the like: that status.  "/drop": none.  "/wait": on order.  "/pieces": a body piece by piece. */
static void
handle(weir_task *exchange, void *context)
{
        const char *path = weir_http_path(exchange);

        (void)context;
        if (strcmp(path, "/drop") == 0) {
                weir_series_cancel(weir_series_of(exchange));
        } else if (strcmp(path, "/wait") == 0) {
                atomic_fetch_add(&at.inside, 1);
                weir_series_push(weir_series_of(exchange), weir_timer_new_named("wait", WEIR_FOREVER, NULL, NULL));
        } else if (strcmp(path, "/pieces") == 0) {
                weir_series_push(weir_series_of(exchange), weir_http_write_new(exchange, "abc", 3, NULL, NULL));
        } else {
                weir_http_reply_text(exchange, atoi(path + 1), "");
        }
}

static const char *
sample(const char *name, const char *more)
{
        static char out[256];

        snprintf(out, sizeof out, "%s{server=\"%s\"%s}", name, at.name, more);
        return out;
}

static double
status_count(int status)
{
        char more[32];

        snprintf(more, sizeof more, ",code=\"%d\"", status);
        return value(sample("weir_http_requests_total", more));
}

static void
begin(const struct weir_http_server_config *config)
{
        weir_test_begin_real(1);
        at.server = http_server(config, handle, NULL);
        at.port = weir_http_server_port(at.server);
        atomic_store(&at.inside, 0);
        snprintf(at.name, sizeof at.name, "127.0.0.1:%d", at.port);
        http_open(&at.client, at.port);
}

static void
end(void)
{
        http_close(&at.client);
        http_reply_done(&at.reply);
        CU_ASSERT_EQUAL(weir_http_server_stop(at.server, WEIR_SEC(30)), 0);
        look();
        check_form(60);
        CU_ASSERT_PTR_NULL(strstr(metrics_text, "server="));
        weir_http_server_free(at.server);
        weir_test_end();
}

static void
each_status_has_a_count(void)
{
        static const int codes[] = {200, 204, 404, 500, 599};

        begin(NULL);
        CU_ASSERT_EQUAL(status_count(200), -1);
        for (int i = 0; i < 5; i++) {
                for (int j = 0; j <= i; j++) {
                        char request[64];

                        snprintf(request, sizeof request, GET("/%d"), codes[i]);
                        CU_ASSERT(http_ask(&at.client, request, &at.reply));
                        CU_ASSERT_EQUAL(at.reply.status, codes[i]);
                }
        }
        for (int i = 0; i < 5; i++) {
                CU_ASSERT_EQUAL(status_count(codes[i]), i + 1);
        }
        check_form(60);
        end();
}

static void
refusals_and_what_was_not_answered_are_counted(void)
{
        begin(NULL);
        CU_ASSERT(http_ask(&at.client, "GET / HTTP/1.1\r\n\r\n", &at.reply)); /* no Host */
        CU_ASSERT_EQUAL(at.reply.status, 400);
        CU_ASSERT_EQUAL(status_count(400), 1);
        http_close(&at.client);
        http_open(&at.client, at.port);
        CU_ASSERT_FALSE(http_ask(&at.client, GET("/drop"), &at.reply));
        WEIR_TEST_EVENTUALLY(status_count(WEIR_HTTP_NO_REPLY) == 1);
        http_close(&at.client);
        http_open(&at.client, at.port);
        CU_ASSERT(http_send_text(&at.client, GET("/wait"))); /* whose client goes */
        WEIR_TEST_EVENTUALLY(at.inside == 1);
        http_abandon(&at.client);
        WEIR_TEST_EVENTUALLY(status_count(WEIR_HTTP_NO_REPLY) == 2);
        http_open(&at.client, at.port);
        CU_ASSERT(http_ask(&at.client, GET("/pieces"), &at.reply));
        CU_ASSERT_EQUAL(status_count(200), 1);
        CU_ASSERT_EQUAL(status_count(400), 1);
        end();
}

static void
connections_and_exchanges_are_counted_as_they_come_and_go(void)
{
        struct http_client other;

        begin(NULL);
        WEIR_TEST_EVENTUALLY(value(sample("weir_http_idle_connections", "")) == 1);
        CU_ASSERT_EQUAL(seen(sample("weir_http_connections", "")), 1);
        CU_ASSERT_EQUAL(seen(sample("weir_http_exchanges", "")), 0);
        http_open(&other, at.port);
        CU_ASSERT(http_send_text(&other, GET("/wait")));
        WEIR_TEST_EVENTUALLY(at.inside == 1);
        look();
        CU_ASSERT_EQUAL(seen(sample("weir_http_connections", "")), 2);
        CU_ASSERT_EQUAL(seen(sample("weir_http_idle_connections", "")), 1);
        CU_ASSERT_EQUAL(seen(sample("weir_http_exchanges", "")), 1);
        CU_ASSERT_EQUAL(seen(sample("weir_http_accepted_connections_total", "")), 2);
        CU_ASSERT_EQUAL(weir_timer_cancel("wait", WEIR_ALL), 1);
        CU_ASSERT(http_receive(&other, &at.reply, false));
        WEIR_TEST_EVENTUALLY(value(sample("weir_http_idle_connections", "")) == 2);
        WEIR_TEST_EVENTUALLY(value(sample("weir_http_exchanges", "")) == 0);
        http_close(&other);
        WEIR_TEST_EVENTUALLY(value(sample("weir_http_connections", "")) == 1);
        CU_ASSERT_EQUAL(seen(sample("weir_http_idle_connections", "")), 1);
        CU_ASSERT_EQUAL(seen(sample("weir_http_accepted_connections_total", "")), 2);
        end();
}

static void
bytes_are_those_on_the_wire(void)
{
        size_t sent = 0, received = 0;

        begin(NULL);
        for (int i = 0; i < 3; i++) {
                const char *request = i ? GET("/200") : GET("/pieces");

                CU_ASSERT(http_send_text(&at.client, request));
                sent += strlen(request);
                while (!http_has_news(&at.client, WEIR_MSEC(1))) {
                }
                CU_ASSERT(http_receive(&at.client, &at.reply, false));
                received += strlen(at.reply.head) + 2 + (i ? at.reply.size : strlen("3\r\nabc\r\n0\r\n\r\n"));
                if (i == 0)
                        CU_ASSERT_EQUAL(at.reply.size, 3);
        }
        WEIR_TEST_EVENTUALLY(value(sample("weir_http_exchanges", "")) == 0);
        CU_ASSERT_EQUAL(seen(sample("weir_http_received_bytes_total", "")), (double)sent);
        CU_ASSERT_EQUAL(seen(sample("weir_http_sent_bytes_total", "")), (double)received);
        end();
}

static void
evicted_and_refused_connections_are_counted(void)
{
        struct weir_http_server_config config = WEIR_HTTP_SERVER_CONFIG_DEFAULT;
        struct http_client second, third;

        config.max_connections = 1;
        begin(&config);
        CU_ASSERT(http_ask(&at.client, GET("/200"), &at.reply)); /* idle from now on */
        http_open(&second, at.port);
        CU_ASSERT(http_send_text(&second, GET("/wait")));
        WEIR_TEST_EVENTUALLY(at.inside == 1);
        CU_ASSERT(http_is_over(&at.client));
        CU_ASSERT_EQUAL(value(sample("weir_http_evicted_connections_total", "")), 1);
        CU_ASSERT_EQUAL(seen(sample("weir_http_refused_connections_total", "")), 0);
        http_open(&third, at.port);
        CU_ASSERT(http_receive(&third, &at.reply, false));
        CU_ASSERT_EQUAL(at.reply.status, 503);
        look();
        CU_ASSERT_EQUAL(seen(sample("weir_http_evicted_connections_total", "")), 1);
        CU_ASSERT_EQUAL(seen(sample("weir_http_refused_connections_total", "")), 1);
        CU_ASSERT_EQUAL(seen(sample("weir_http_accepted_connections_total", "")), 3);
        CU_ASSERT_EQUAL(seen(sample("weir_http_requests_total", ",code=\"503\"")), -1); /* it was no request */
        weir_timer_cancel("wait", WEIR_ALL);
        http_close(&second);
        http_close(&third);
        end();
}

static void
do_nothing(weir_stream *stream, weir_series *series, void *context)
{
        (void)stream, (void)series, (void)context;
}

static void
servers_of_streams_are_listed_beside(void)
{
        char name[128];

        begin(NULL);
        weir_stream_server *streams = weir_stream_server_new(NULL, do_nothing, NULL);
        CU_ASSERT_EQUAL(weir_stream_server_start(streams, "127.0.0.1:0"), 0);
        snprintf(name, sizeof name, "weir_stream_connections{server=\"127.0.0.1:%d\"}", weir_stream_server_port(streams));
        CU_ASSERT_EQUAL(value(name), 0);
        CU_ASSERT(seen(sample("weir_http_connections", "")) >= 0);
        check_form(60);
        weir_stream_server_free(streams);
        CU_ASSERT_EQUAL(value(name), -1);
        end();
}

#define MEMBER(name, member) "weir_upstream_" name "{upstream=\"backend\",member=\"" member "\"}"

static void
members_of_upstreams_are_listed(void)
{
        struct weir__picked picked[6];

        CU_ASSERT_PTR_NULL(strstr(look(), "weir_upstream"));
        weir_upstream *upstream = weir_upstream_new("backend", NULL), *other = weir_upstream_new("other", NULL);
        weir_upstream_add(upstream, "10.0.0.1:80", NULL);
        for (unsigned i = 0; i < 6; i++) {
                CU_ASSERT_EQUAL_FATAL(weir__upstream_pick(upstream, NULL, &picked[i], NULL), 0);
        }
        weir_upstream_add(upstream, "unix:/\"\n", NULL);
        weir_upstream_disable(upstream, "unix:/\"\n");
        weir_upstream_add(upstream, "10.0.0.2:80", NULL);
        for (unsigned i = 0; i < 5; i++) {
                weir__upstream_report(upstream, &picked[i], WEIR__OUTCOME_FAILURE, 1);
        }
        CU_ASSERT_EQUAL(value(MEMBER("in_flight", "10.0.0.1:80")), 1);
        CU_ASSERT_EQUAL(seen(MEMBER("requests_total", "10.0.0.1:80")), 6);
        CU_ASSERT_EQUAL(seen(MEMBER("failures_total", "10.0.0.1:80")), 5);
        CU_ASSERT_EQUAL(seen(MEMBER("ejections_total", "10.0.0.1:80")), 1);
        CU_ASSERT_EQUAL(seen(MEMBER("state", "10.0.0.1:80")), 1);
        CU_ASSERT_EQUAL(seen(MEMBER("state", "10.0.0.2:80")), 0);
        CU_ASSERT_EQUAL(seen(MEMBER("state", "unix:/\\\"\\n")), 3);
        check_form(60);
        weir__upstream_report(upstream, &picked[5], WEIR__OUTCOME_SUCCESS, 1);
        weir_upstream_unref(upstream);
        weir_upstream_unref(other);
}

static int
know(const char *host, int family, weir_resolver_reply *reply, void *context)
{
        (void)family, (void)context;
        if (strcmp(host, "nobody.test") == 0) {
                return -ENOENT;
        }
        weir_resolver_reply_keep(reply, WEIR_SEC(10));
        return weir_resolver_reply_add(reply, "192.0.2.1");
}

static void
names_are_counted(void)
{
        struct weir_resolver_config config = WEIR_RESOLVER_CONFIG_DEFAULT;
        double hits, misses, failures;

        weir_test_begin_virtual();
        config.answer = know;
        CU_ASSERT_EQUAL(weir_resolver_configure(&config), 0);
        hits = value("weir_resolver_hits_total");
        misses = seen("weir_resolver_lookups_total");
        failures = seen("weir_resolver_failures_total");
        CU_ASSERT_EQUAL(seen("weir_resolver_entries"), 0);
        for (int i = 0; i < 3; i++) {
                CU_ASSERT_EQUAL(weir_task_run(weir_resolve_new("somebody.test", 0, NULL, NULL)), 0);
        }
        CU_ASSERT_EQUAL(weir_task_run(weir_resolve_new("nobody.test", 0, NULL, NULL)), -ENOENT);
        CU_ASSERT_EQUAL(value("weir_resolver_hits_total"), hits + 2);
        CU_ASSERT_EQUAL(seen("weir_resolver_lookups_total"), misses + 2);
        CU_ASSERT_EQUAL(seen("weir_resolver_failures_total"), failures + 1);
        CU_ASSERT_EQUAL(seen("weir_resolver_entries"), 1);
        CU_ASSERT_EQUAL(seen("weir_resolver_running"), 0);
        CU_ASSERT_EQUAL(weir_resolver_configure(NULL), 0);
        weir_test_end();
}

static void
handshakes_are_counted(void)
{
        struct weir_http_server_config config = WEIR_HTTP_SERVER_CONFIG_DEFAULT;

        tls_files_begin();
        tls_make_certificate("a", &(struct tls_wish){.alternative_names = "DNS:a.example"});
        config.certificate_file = tls_path("a.pem");
        config.private_key_file = tls_path("a.key");
        begin(&config);
        CU_ASSERT_EQUAL(value(sample("weir_http_tls_handshakes_total", ",result=\"done\"")), 0);
        CU_ASSERT(http_ask(&at.client, GET("/200"), &at.reply)); /* without TLS */
        CU_ASSERT_EQUAL(at.reply.status, 400);
        for (int i = 0; i < 2; i++) {
                SSL *client = tls_connect(at.port, &(struct tls_client_wish){0});

                CU_ASSERT_PTR_NOT_NULL_FATAL(client);
                tls_hang_up(client);
        }
        WEIR_TEST_EVENTUALLY(value(sample("weir_http_tls_handshakes_total", ",result=\"done\"")) == 2);
        CU_ASSERT_EQUAL(seen(sample("weir_http_tls_handshakes_total", ",result=\"failed\"")), 1);
        end();
        tls_files_end();
}

static weir_http_server *
serve_at(const char *address)
{
        weir_http_server *server = weir_http_server_new(NULL, handle, NULL);

        CU_ASSERT_EQUAL(weir_http_server_start(server, address), 0);
        return server;
}

/* A byte that is not seen, a quotation mark and a backslash in the name of a socket. */
static void
names_of_servers_are_escaped(void)
{
        char address[128], expected[160];

        weir_test_begin_real(1);
        snprintf(address, sizeof address, "unix:@weir\\%d\"\x01", (int)getpid());
        snprintf(expected, sizeof expected, "weir_http_connections{server=\"unix:@weir\\\\%d\\\"?\"}", (int)getpid());
        weir_http_server *server = serve_at(address);
        CU_ASSERT_EQUAL(value(expected), 0);
        check_form(60);
        weir_http_server_free(server);
        weir_test_end();
}

/* Each sample has a name of its own all the same. */
static void
servers_at_one_address_are_told_apart(void)
{
        struct sockaddr_un name = {.sun_family = AF_UNIX};
        weir_http_server *servers[4];
        char address[32];

        weir_test_begin_real(1);
        int length = snprintf(name.sun_path + 1, sizeof name.sun_path - 1, "weir-metrics-%d", (int)getpid());
        int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        CU_ASSERT_EQUAL_FATAL(
                bind(fd, (struct sockaddr *)&name, (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length)), 0);
        CU_ASSERT_EQUAL_FATAL(listen(fd, 1), 0);
        for (int i = 0; i < 3; i++) {
                snprintf(address, sizeof address, "fd:%d", dup(fd));
                servers[i] = serve_at(address);
        }
        snprintf(at.name, sizeof at.name, "unix:@%s", name.sun_path + 1);
        CU_ASSERT_EQUAL(value(sample("weir_http_connections", "")), 0);
        check_form(60);
        strcat(at.name, "#2");
        CU_ASSERT_EQUAL(seen(sample("weir_http_connections", "")), 0);
        weir_http_server_free(servers[1]);
        CU_ASSERT_EQUAL(value(sample("weir_http_connections", "")), -1);
        at.name[strlen(at.name) - 1] = '3'; /* a server that has a name keeps it */
        CU_ASSERT_EQUAL(seen(sample("weir_http_connections", "")), 0);
        snprintf(address, sizeof address, "fd:%d", dup(fd));
        servers[1] = serve_at(address);
        at.name[strlen(at.name) - 1] = '2';
        CU_ASSERT_EQUAL(value(sample("weir_http_connections", "")), 0);
        check_form(60);
        weir_http_server_free(servers[0]);
        for (int i = 0; i < 4; i += 3) { /* the first one anew, and a fourth */
                snprintf(address, sizeof address, "fd:%d", dup(fd));
                servers[i] = serve_at(address);
        }
        look();
        check_form(60);
        at.name[strlen(at.name) - 1] = '4';
        CU_ASSERT_EQUAL(seen(sample("weir_http_connections", "")), 0);
        for (int i = 0; i < 4; i++) {
                weir_http_server_free(servers[i]);
        }
        close(fd);
        weir_test_end();
}

static atomic_bool storm_is_over;

static void *
write_on(void *failed)
{
        int fd = open("/dev/null", O_WRONLY | O_CLOEXEC);

        while (!atomic_load(&storm_is_over))
                *(int *)failed |= weir_metrics_write(fd);
        close(fd);
        return NULL;
}

static void
it_may_be_written_while_servers_come_and_go(void)
{
        weir_http_server *servers[2];
        int failed[2] = {0, 0};
        pthread_t threads[2];

        weir_test_begin_real(2);
        atomic_store(&storm_is_over, false);
        for (int i = 0; i < 2; i++) {
                pthread_create(&threads[i], NULL, write_on, &failed[i]);
        }
        for (int i = 0; i < 30; i++) {
                for (int j = 0; j < 2; j++) {
                        servers[j] = http_server(NULL, handle, NULL);
                        http_open(&at.client, weir_http_server_port(servers[j]));
                        CU_ASSERT(http_ask(&at.client, GET("/200"), &at.reply));
                        http_close(&at.client);
                }
                for (int j = 0; j < 2; j++) {
                        weir_http_server_free(servers[j]);
                }
        }
        atomic_store(&storm_is_over, true);
        for (int i = 0; i < 2; i++) {
                pthread_join(threads[i], NULL);
                CU_ASSERT_EQUAL(failed[i], 0);
        }
        http_reply_done(&at.reply);
        weir_test_end();
}

static weir_http_server *pair[2];

static void
start_second(void)
{
        pair[1] = http_server(NULL, handle, NULL);
}

static void
stop_first(void)
{
        CU_ASSERT_EQUAL(weir_http_server_stop(pair[0], 0), 0);
}

/* Under the lock of the servers that serve, both would wait for ever. */
static void
servers_start_and_stop_while_memory_for_their_counts_is_allocated(void)
{
        size_t count = 0;

        weir_test_begin_real(1);
        pair[0] = http_server(NULL, handle, NULL);
        meanwhile = start_second;
        free(weir__serving_reports(&count));
        CU_ASSERT_EQUAL(count, 1);
        meanwhile = stop_first;
        free(weir__serving_reports(&count));
        CU_ASSERT_EQUAL(count, 1);
        weir_http_server_free(pair[0]);
        weir_http_server_free(pair[1]);
        weir_test_end();
}

/* -- errors -- */

static void
an_error_of_the_descriptor_is_reported(void)
{
        int ends[2];

        CU_ASSERT_EQUAL(weir_metrics_write(-1), -EBADF);
        CU_ASSERT_EQUAL_FATAL(pipe2(ends, O_CLOEXEC), 0);
        close(ends[0]);
        CU_ASSERT_EQUAL(weir_metrics_write(ends[1]), -EPIPE); /* without SIGPIPE */
        close(ends[1]);
}

static void
write_in_child(void)
{
        _exit(weir_metrics_write(STDERR_FILENO) == -ECHILD ? 7 : 8);
}

/* -- forks while others write -- */

static atomic_bool is_over;

static void
write_again_and_again(void *unused)
{
        int fd = open("/dev/null", O_WRONLY | O_CLOEXEC);

        (void)unused;
        while (!atomic_load(&is_over)) {
                CU_ASSERT_EQUAL(weir_metrics_write(fd), 0);
        }
        close(fd);
}

static int
status_of_a_child_that_writes(int fd)
{
        int status = -1;
        pid_t child = fork();

        if (child == 0) {
                alarm(WEIR_TEST_SANITIZED ? 60 : 10);
                _exit(weir_metrics_write(fd) ? 1 : 0);
        }
        CU_ASSERT_EQUAL(waitpid(child, &status, 0), child);
        return status;
}

/* After the end of the runtime a child may use the library.  The list of servers has one that was not stopped. */
static void
a_child_of_a_process_that_writes_metrics_may_write_them_too(void)
{
        struct weir_test_thread writers[2];
        int fd = open("/dev/null", O_WRONLY | O_CLOEXEC);

#ifdef __SANITIZE_ADDRESS__
        close(fd);
        return; /* a lock of its allocator may be held in the child */
#endif
        weir_test_begin_real(4);
        weir_http_server *server = http_server(NULL, weir_http_debug, NULL);
        CU_ASSERT_EQUAL(weir_shutdown(), 0);
        atomic_store(&is_over, false);
        for (int i = 0; i < 2; i++) {
                weir_test_thread_start(&writers[i], write_again_and_again, NULL);
        }
        for (int i = 0; i < (WEIR_TEST_SANITIZED ? 20 : 200); i++) {
                CU_ASSERT_EQUAL_FATAL(status_of_a_child_that_writes(fd), 0);
        }
        atomic_store(&is_over, true);
        for (int i = 0; i < 2; i++) {
                weir_test_thread_join(&writers[i]);
        }
        weir_http_server_free(server);
        close(fd);
}

static void
a_forked_child_is_refused(void)
{
        char said[64];

        weir_test_begin_real(1);
        int status = weir_test_child(write_in_child, said, sizeof said);
        CU_ASSERT(WIFEXITED(status) && WEXITSTATUS(status) == 7);
        weir_test_end();
}

/* -- parts of others -- */

static int
write_tea(int fd)
{
        static const char text[] = "# HELP tea_total Cups.\n# TYPE tea_total counter\ntea_total 3\n";

        return write(fd, text, sizeof text - 1) == sizeof text - 1 ? 0 : -errno;
}

static int
write_much(int fd)
{
        int size = dprintf(fd, "# HELP much Numbers.\n# TYPE much gauge\n");

        for (int i = 0; i < 500 && size > 0; i++)
                size = dprintf(fd, "much{number=\"%d\"} %d\n", i, i);
        return size > 0 ? 0 : -errno;
}

static int
write_half(int fd)
{
        return write(fd, "half of a li", 12) == 12 ? -EIO : -errno;
}

static int
write_nothing(int fd)
{
        (void)fd;
        return -ECHILD;
}

static void
note_message(enum weir_log_level level, const char *message, void *count)
{
        (void)level;
        *(int *)count += strstr(message, "a part that was added is left out") != NULL;
}

static void
what_was_added_is_written_once_and_whole(void)
{
        int messages = 0;

        weir_test_begin_real(1);
        CU_ASSERT_EQUAL(weir_metrics_add(NULL), -EINVAL);
        CU_ASSERT_EQUAL(value("tea_total"), -1);
        CU_ASSERT_EQUAL(weir_metrics_add(write_tea), 0);
        CU_ASSERT_EQUAL(weir_metrics_add(write_half), 0);
        CU_ASSERT_EQUAL(weir_metrics_add(write_nothing), 0);
        CU_ASSERT_EQUAL(weir_metrics_add(write_much), 0);
        CU_ASSERT_EQUAL(weir_metrics_add(write_tea), 0);
        weir_log_set(note_message, &messages);
        look();
        weir_log_set(NULL, NULL);
        CU_ASSERT_EQUAL(messages, 1);
        check_form(560);
        CU_ASSERT_EQUAL(seen("tea_total"), 3);
        CU_ASSERT_EQUAL(seen("much{number=\"499\"}"), 499);
        CU_ASSERT_EQUAL(seen("weir_pollers"), 1);
        CU_ASSERT_PTR_NULL(strstr(metrics_text, "half"));
        weir_test_end();
}

static void
what_was_added_is_on_the_page(void)
{
        weir_test_begin_real(1);
        weir_http_server *server = http_server(NULL, weir_http_debug, NULL);
        http_open(&at.client, weir_http_server_port(server));
        CU_ASSERT(http_ask(&at.client, "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n", &at.reply));
        CU_ASSERT_EQUAL(at.reply.status, 200);
        CU_ASSERT_PTR_NOT_NULL(strstr(at.reply.body, "\ntea_total 3\n"));
        http_close(&at.client);
        http_reply_done(&at.reply);
        weir_http_server_free(server);
        weir_test_end();
}

#define PART(number)                           \
        static int write_part_##number(int fd) \
        {                                      \
                (void)fd;                      \
                return 0;                      \
        }

PART(0)
PART(1)
PART(2)
PART(3)
PART(4)
PART(5)
PART(6)
PART(7)
PART(8)
PART(9)
PART(10)
PART(11)
PART(12)

/* The last one of this file: what was added stays. */
static void
there_is_room_for_so_many(void)
{
        static weir_metrics_fn *const more[] = {write_part_0, write_part_1, write_part_2,  write_part_3,
                                                write_part_4, write_part_5, write_part_6,  write_part_7,
                                                write_part_8, write_part_9, write_part_10, write_part_11};

        for (unsigned i = 0; i < WEIR_METRICS_MOST - 4; i++)
                CU_ASSERT_EQUAL(weir_metrics_add(more[i]), 0);
        CU_ASSERT_EQUAL(weir_metrics_add(write_part_12), -ENOBUFS);
        CU_ASSERT_EQUAL(weir_metrics_add(write_tea), 0);
        look();
        check_form(560);
}

static const struct weir_test tests[] = {
        WEIR_TEST(nothing_is_counted_of_what_does_not_run),
        WEIR_TEST(threads_are_counted),
        WEIR_TEST(timers_are_counted_apart_from_time_limits),
        WEIR_TEST(lateness_is_counted_in_buckets_and_never_anew),
        WEIR_TEST(a_poller_that_was_given_away_is_counted),
        WEIR_TEST(functions_are_counted),
        WEIR_TEST(each_status_has_a_count),
        WEIR_TEST(refusals_and_what_was_not_answered_are_counted),
        WEIR_TEST(connections_and_exchanges_are_counted_as_they_come_and_go),
        WEIR_TEST(bytes_are_those_on_the_wire),
        WEIR_TEST(evicted_and_refused_connections_are_counted),
        WEIR_TEST(servers_of_streams_are_listed_beside),
        WEIR_TEST(members_of_upstreams_are_listed),
        WEIR_TEST(names_are_counted),
        WEIR_TEST(handshakes_are_counted),
        WEIR_TEST(names_of_servers_are_escaped),
        WEIR_TEST(servers_at_one_address_are_told_apart),
        WEIR_TEST(it_may_be_written_while_servers_come_and_go),
        WEIR_TEST(servers_start_and_stop_while_memory_for_their_counts_is_allocated),
        WEIR_TEST(an_error_of_the_descriptor_is_reported),
        WEIR_TEST(a_child_of_a_process_that_writes_metrics_may_write_them_too),
        WEIR_TEST(a_forked_child_is_refused),
        WEIR_TEST(what_was_added_is_written_once_and_whole),
        WEIR_TEST(what_was_added_is_on_the_page),
        WEIR_TEST(there_is_room_for_so_many),
};

int
main(void)
{
        int result = weir_test_main("metrics", tests, sizeof tests / sizeof *tests);

        free(metrics_text);
        return result;
}
