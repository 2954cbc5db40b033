/* test/overload_test.c: which connection makes room when connections or descriptors run out, which requests are refused while
 * the server is late, and the refusals themselves. */
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "server/base/server.h"
#include "server/base/serving.h"
#include "test/fixture.h"
#include "test/http_client.h"
#include "kernel/worker/deliver.h"

#define GET(target) "GET " target " HTTP/1.1\r\nHost: a\r\n\r\n"

static struct fixture {
        weir_http_server *server;
        int port;
        struct http_reply reply;
        atomic_bool let_go;
        atomic_int handled;
} at;

/* "/": a word at once.  "/block": holds the worker, which no handler should do. */
static void
handle(weir_task *exchange, void *context)
{
        (void)context;
        atomic_fetch_add(&at.handled, 1);
        weir_http_reply_text(exchange, 200, "word\n");
        if (strcmp(weir_http_path(exchange), "/block") == 0) {
                WEIR_TEST_EVENTUALLY(atomic_load(&at.let_go));
        }
}

static void
begin(int pollers, const struct weir_http_server_config *config)
{
        atomic_store(&at.let_go, false);
        atomic_store(&at.handled, 0);
        weir_test_begin_real(pollers);
        at.server = http_server(config, handle, NULL);
        at.port = weir_http_server_port(at.server);
}

static void
begin_with_most(int pollers, size_t connections)
{
        struct weir_http_server_config config = WEIR_HTTP_SERVER_CONFIG_DEFAULT;

        config.max_connections = connections;
        begin(pollers, &config);
}

static void
end(void)
{
        http_reply_done(&at.reply);
        CU_ASSERT_EQUAL(weir_http_server_stop(at.server, WEIR_SEC(10)), 0);
        weir_http_server_free(at.server);
        weir_test_end();
}

/* The counter of the server. */
static int64_t
count_of(unsigned kind)
{
        size_t servers = 0;
        struct weir__serving_report *report = weir__serving_reports(&servers);
        int64_t count = servers ? report->counts[kind] : -1;

        free(report);
        return count;
}

static int
ask(struct http_client *client, const char *request)
{
        return http_ask(client, request, &at.reply) ? at.reply.status : 0;
}

/* -- the connection that is idle longest makes room -- */

struct pause {
        struct weir__work work;
        struct weir_test_latch *passed;
};

static void
count_pause(struct weir__work *work)
{
        weir_test_latch_count_down(((struct pause *)work)->passed);
}

/* Returns when each worker has finished its present work: a client may have read a reply before the worker is done with it. */
static void
wait_until_workers_are_idle(void)
{
        static const struct weir__work_ops ops = {.run = count_pause};
        struct weir_test_latch passed = WEIR_TEST_LATCH(at.server->base.branch_count);
        struct pause pauses[3];

        for (unsigned i = 0; i < at.server->base.branch_count; i++) {
                pauses[i] = (struct pause){.work.ops = &ops, .passed = &passed};
                weir__deliver(weir__http_branch_at(at.server, i)->base.poller, &pauses[i].work);
        }
        weir_test_latch_wait(&passed);
}

static void
open_idle(struct http_client *client)
{
        http_open(client, at.port);
        CU_ASSERT_EQUAL(ask(client, GET("/")), 200);
        wait_until_workers_are_idle();
}

static void
the_one_that_is_idle_longest_makes_room(void)
{
        struct http_client first, second, third, fourth;

        begin_with_most(1, 3);
        open_idle(&first);
        open_idle(&second);
        open_idle(&third);
        CU_ASSERT_EQUAL(ask(&first, GET("/")), 200);
        wait_until_workers_are_idle();
        open_idle(&fourth);
        CU_ASSERT_TRUE(http_is_over(&second));
        CU_ASSERT_EQUAL(ask(&third, GET("/")), 200);
        CU_ASSERT_EQUAL(ask(&first, GET("/")), 200);
        CU_ASSERT_EQUAL(ask(&fourth, GET("/")), 200);
        CU_ASSERT_EQUAL(atomic_load(&at.server->base.connections), 3);
        http_close(&first);
        http_close(&second);
        http_close(&third);
        http_close(&fourth);
        end();
}

static bool
both_have_idle_ones(void)
{
        return atomic_load(&weir__http_branch_at(at.server, 0)->base.idle_since) != WEIR_FOREVER &&
               atomic_load(&weir__http_branch_at(at.server, 1)->base.idle_since) != WEIR_FOREVER;
}

/* The system spreads connections over two listeners as it likes: with 16 of them it would be a wonder if one had none. */
static void
it_may_be_on_another_poller(void)
{
        enum { MOST = 16, TURNS = 48 };
        struct http_client clients[MOST];

        begin_with_most(2, MOST);
        for (int i = 0; i < MOST; i++) {
                open_idle(&clients[i]);
        }
        CU_ASSERT_TRUE(both_have_idle_ones());
        for (int i = 0; i < TURNS; i++) {
                struct http_client *oldest = &clients[i % MOST];
                struct http_client next;

                open_idle(&next);
                CU_ASSERT_TRUE(http_is_over(oldest));
                http_close(oldest);
                *oldest = next;
                for (int k = 0; k < MOST; k++) {
                        CU_ASSERT_FALSE(http_has_news(&clients[k], 0));
                }
                wait_until_workers_are_idle();
                CU_ASSERT_EQUAL(atomic_load(&at.server->base.connections), MOST);
        }
        for (int i = 0; i < MOST; i++) {
                http_close(&clients[i]);
        }
        end();
}

/* -- beyond the limit -- */

/* A poller that does nothing until it is let go.  At a Unix socket, which both share, the other one then gets all that come. */
struct hold {
        struct weir__work work;
        struct weir_test_latch held, released;
};

static void
run_hold(struct weir__work *work)
{
        struct hold *hold = (struct hold *)work;

        weir_test_latch_count_down(&hold->held);
        weir_test_latch_wait(&hold->released);
}

static void
hold_poller(struct hold *hold, unsigned which)
{
        static const struct weir__work_ops ops = {.run = run_hold};

        hold->work.ops = &ops;
        weir_test_latch_init(&hold->held, 1);
        weir_test_latch_init(&hold->released, 1);
        weir__deliver(weir__http_branch_at(at.server, which)->base.poller, &hold->work);
        weir_test_latch_wait(&hold->held);
}

static void
release_poller(struct hold *hold)
{
        weir_test_latch_count_down(&hold->released);
}

static void
open_shared(struct http_client *client)
{
        struct sockaddr_un its = {.sun_family = AF_UNIX};
        socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1);

        size += (socklen_t)snprintf(its.sun_path + 1, sizeof its.sun_path - 1, "weir-overload-%d", (int)getpid());
        *client = (struct http_client){.fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)};
        CU_ASSERT_EQUAL_FATAL(connect(client->fd, (struct sockaddr *)&its, size), 0);
}

enum { FEW = 8 };

/* Both pollers share a socket, FEW may come, and that many are idle on the second one, which is held. */
static void
begin_with_idle_elsewhere(struct http_client idle[FEW], struct hold *hold)
{
        struct weir_http_server_config config = WEIR_HTTP_SERVER_CONFIG_DEFAULT;
        struct hold first;
        char address[64];

        config.max_connections = FEW;
        weir_test_begin_real(2);
        at.server = weir_http_server_new(&config, handle, NULL);
        snprintf(address, sizeof address, "unix:@weir-overload-%d", (int)getpid());
        CU_ASSERT_EQUAL_FATAL(weir_http_server_start(at.server, address), 0);
        hold_poller(&first, 0);
        for (int i = 0; i < FEW; i++) {
                open_shared(&idle[i]);
                CU_ASSERT_EQUAL(ask(&idle[i], GET("/")), 200);
        }
        release_poller(&first);
        wait_until_workers_are_idle();
        hold_poller(hold, 1);
        CU_ASSERT_EQUAL(atomic_load(&weir__http_branch_at(at.server, 1)->counts.of[WEIR__COUNT_IDLE]), FEW);
}

static void
end_with(struct http_client *clients, int count)
{
        for (int i = 0; i < count; i++) {
                http_close(&clients[i]);
        }
        end();
}

static size_t
connections(void)
{
        return atomic_load(&at.server->base.connections);
}

/* Those that come meanwhile make room for each other, and not all of them for the one that is to go. */
static void
a_burst_is_admitted_for_no_more_than_are_idle_elsewhere(void)
{
        enum { BURST = 5 * FEW };
        struct http_client idle[FEW], burst[BURST];
        struct hold hold;

        begin_with_idle_elsewhere(idle, &hold);
        for (int i = 0; i < BURST; i++) {
                open_shared(&burst[i]);
        }
        CU_ASSERT_EQUAL(ask(&burst[BURST - 1], GET("/")), 200);
        CU_ASSERT_EQUAL(connections(), 2 * FEW);
        release_poller(&hold);
        for (int i = 0; i < FEW; i++) {
                CU_ASSERT_TRUE(http_is_over(&idle[i]));
                http_close(&idle[i]);
        }
        wait_until_workers_are_idle();
        CU_ASSERT_EQUAL(connections(), FEW);
        for (int i = BURST - FEW; i < BURST; i++) {
                CU_ASSERT_EQUAL(ask(&burst[i], GET("/")), 200);
        }
        CU_ASSERT_EQUAL(count_of(WEIR__COUNT_TURNED_AWAY), 0);
        CU_ASSERT_EQUAL(count_of(WEIR__COUNT_EVICTED), BURST);
        end_with(burst, BURST);
}

/* Those that were to go have a request: then those that came for them go. */
static void
a_connection_that_one_poller_cannot_evict_another_does(void)
{
        struct http_client old[FEW], new[FEW];
        struct hold hold;

        begin_with_idle_elsewhere(old, &hold);
        for (int i = 0; i < FEW; i++) {
                open_shared(&new[i]);
                CU_ASSERT_TRUE(http_send_text(&old[i], "GET / HTTP/1.1\r\n"));
        }
        CU_ASSERT_EQUAL(ask(&new[FEW - 1], GET("/")), 200);
        CU_ASSERT_EQUAL(connections(), 2 * FEW);
        release_poller(&hold);
        for (int i = 0; i < FEW; i++) {
                CU_ASSERT_TRUE(http_is_over(&new[i]));
                http_close(&new[i]);
        }
        wait_until_workers_are_idle();
        CU_ASSERT_EQUAL(connections(), FEW);
        for (int i = 0; i < FEW; i++) {
                CU_ASSERT_EQUAL(ask(&old[i], "Host: a\r\n\r\n"), 200);
        }
        end_with(old, FEW);
}

static bool
nobody_is_idle(void)
{
        return atomic_load(&weir__http_branch_at(at.server, 0)->base.idle_since) == WEIR_FOREVER &&
               atomic_load(&weir__http_branch_at(at.server, 1)->base.idle_since) == WEIR_FOREVER;
}

static void
when_all_are_busy_the_next_to_become_idle_goes_on_any_poller(void)
{
        struct http_client old[FEW], new[FEW], further;
        struct hold hold;

        begin_with_idle_elsewhere(old, &hold);
        for (int i = 0; i < FEW; i++) {
                open_shared(&new[i]);
                CU_ASSERT_TRUE(http_send_text(&new[i], "GET / HTTP/1.1\r\n"));
                CU_ASSERT_TRUE(http_send_text(&old[i], "GET / HTTP/1.1\r\n"));
        }
        WEIR_TEST_EVENTUALLY(connections() == 2 * FEW &&
                             atomic_load(&weir__http_branch_at(at.server, 0)->base.idle_since) == WEIR_FOREVER);
        release_poller(&hold);
        WEIR_TEST_EVENTUALLY(nobody_is_idle());
        wait_until_workers_are_idle();
        CU_ASSERT_EQUAL(connections(), 2 * FEW);
        open_shared(&further);
        CU_ASSERT_TRUE(http_receive(&further, &at.reply, false));
        CU_ASSERT_EQUAL(at.reply.status, 503);
        http_close(&further);
        for (int i = 0; i < FEW; i++) {
                CU_ASSERT_EQUAL(ask(&new[i], "Host: a\r\n\r\n"), 200);
                CU_ASSERT_TRUE(http_is_over(&new[i]));
                http_close(&new[i]);
        }
        for (int i = 0; i < FEW; i++) {
                CU_ASSERT_EQUAL(ask(&old[i], "Host: a\r\n\r\n"), 200);
        }
        wait_until_workers_are_idle();
        CU_ASSERT_EQUAL(connections(), FEW);
        end_with(old, FEW);
}

/* From several threads, at all pollers at once, some with requests. */
static void *
open_many(void *clients)
{
        enum { CROWD = 100 };
        struct http_client *burst = clients;

        for (int i = 0; i < CROWD; i++) {
                http_open(&burst[i], at.port);
                if (i % 3 == 0) {
                        (void)http_send_text(&burst[i], GET("/"));
                }
        }
        return NULL;
}

static void
after_bursts_at_all_pollers_there_are_no_more_than_may_be(void)
{
        enum { THREADS = 3, CROWD = 100 };
        static struct http_client bursts[THREADS][CROWD];
        pthread_t threads[THREADS];

        for (int turn = 0; turn < 5; turn++) {
                begin_with_most(3, FEW);
                for (int i = 0; i < THREADS; i++) {
                        CU_ASSERT_EQUAL_FATAL(pthread_create(&threads[i], NULL, open_many, bursts[i]), 0);
                }
                for (int i = 0; i < THREADS; i++) {
                        pthread_join(threads[i], NULL);
                }
                WEIR_TEST_EVENTUALLY(count_of(WEIR__COUNT_ACCEPTED) == THREADS * CROWD && connections() <= FEW);
                for (int i = 0; i < THREADS; i++) {
                        for (int k = 0; k < CROWD; k++) {
                                http_close(&bursts[i][k]);
                        }
                }
                WEIR_TEST_EVENTUALLY(connections() == 0);
                end();
        }
}

/* The worker is held, so that a request and a new client wait when it comes back, the client first. */
static void
one_whose_request_has_just_come_stays(void)
{
        struct http_client blocker, oldest, idle, next;

        begin_with_most(1, 3);
        open_idle(&oldest);
        open_idle(&idle);
        http_open(&blocker, at.port);
        CU_ASSERT_TRUE(http_send_text(&blocker, GET("/block")));
        WEIR_TEST_EVENTUALLY(atomic_load(&at.handled) == 3);
        http_open(&next, at.port);
        CU_ASSERT_TRUE(http_send_text(&oldest, GET("/")));
        atomic_store(&at.let_go, true);
        CU_ASSERT_TRUE(http_receive(&oldest, &at.reply, false));
        CU_ASSERT_EQUAL(at.reply.status, 200);
        CU_ASSERT_EQUAL(ask(&next, GET("/")), 200);
        CU_ASSERT_TRUE(http_is_over(&idle));
        CU_ASSERT_TRUE(http_receive(&blocker, &at.reply, false));
        http_close(&blocker);
        http_close(&oldest);
        http_close(&idle);
        http_close(&next);
        end();
}

/* Leaves the process `room` descriptors more than it has. */
static void
leave_descriptors(const struct rlimit *limit, int room)
{
        struct rlimit low = {.rlim_max = limit->rlim_max};

        for (int fd = 0; room > 0; fd++) {
                room -= fcntl(fd, F_GETFD) < 0;
                low.rlim_cur = (rlim_t)fd + 1;
        }
        CU_ASSERT_EQUAL(setrlimit(RLIMIT_NOFILE, &low), 0);
}

static void
without_descriptors_it_makes_room_too(void)
{
        struct http_client first, second, third;
        struct rlimit limit;

        begin_with_most(1, 0);
        open_idle(&first);
        open_idle(&second);
        CU_ASSERT_EQUAL_FATAL(getrlimit(RLIMIT_NOFILE, &limit), 0);
        leave_descriptors(&limit, 1); /* which the client takes */
        open_idle(&third);
        CU_ASSERT_TRUE(http_is_over(&first));
        CU_ASSERT_EQUAL(ask(&second, GET("/")), 200);
        CU_ASSERT_EQUAL(setrlimit(RLIMIT_NOFILE, &limit), 0);
        http_close(&first);
        http_close(&second);
        http_close(&third);
        end();
}

static _Atomic bool is_shortage_said;

static void
hear_shortage(enum weir_log_level level, const char *message, void *context)
{
        (void)context;
        if (level == WEIR_LOG_WARNING && strstr(message, "no connection can be accepted (Too many open files)"))
                atomic_store(&is_shortage_said, true);
}

static void
without_descriptors_and_idle_connections_clients_wait_and_the_log_says_so(void)
{
        struct http_client client;
        struct rlimit limit;

        begin_with_most(1, 0);
        weir_log_set(hear_shortage, NULL);
        CU_ASSERT_EQUAL_FATAL(getrlimit(RLIMIT_NOFILE, &limit), 0);
        leave_descriptors(&limit, 1); /* which the client takes */
        http_open(&client, at.port);
        WEIR_TEST_EVENTUALLY(atomic_load(&is_shortage_said));
        CU_ASSERT_EQUAL(setrlimit(RLIMIT_NOFILE, &limit), 0);
        CU_ASSERT_EQUAL(ask(&client, GET("/")), 200);
        http_close(&client);
        end();
        weir_log_set(NULL, NULL);
}

/* -- lateness -- */

/* Has a request wait behind a callback that holds the worker for a tenth of a second, and returns its status. */
static int
ask_behind_a_callback(struct http_client *client)
{
        struct http_client blocker;

        http_open(&blocker, at.port);
        http_open(client, at.port);
        wait_until_workers_are_idle();
        CU_ASSERT_TRUE(http_send_text(&blocker, GET("/block")));
        WEIR_TEST_EVENTUALLY(atomic_load(&at.handled) == 1);
        CU_ASSERT_TRUE(http_send_text(client, GET("/")));
        weir_test_sleep(WEIR_MSEC(100)); /* really: lateness is measured by the real clock */
        atomic_store(&at.let_go, true);
        CU_ASSERT_TRUE(http_receive(&blocker, &at.reply, false));
        CU_ASSERT_EQUAL(at.reply.status, 200);
        CU_ASSERT_TRUE(http_receive(client, &at.reply, false));
        http_close(&blocker);
        return at.reply.status;
}

static void
while_it_is_late_requests_are_answered_503(void)
{
        struct weir_http_server_config config = WEIR_HTTP_SERVER_CONFIG_DEFAULT;
        struct http_client client;
        int status = 503;

        config.shed_lateness = WEIR_MSEC(20);
        begin(1, &config);
        CU_ASSERT_EQUAL(ask_behind_a_callback(&client), 503);
        HTTP_ASSERT_TEXT(http_field(&at.reply, "Retry-After"), "1");
        HTTP_ASSERT_TEXT(http_field(&at.reply, "Connection"), "close");
        CU_ASSERT_TRUE(http_is_over(&client));
        CU_ASSERT_EQUAL(atomic_load(&at.handled), 1);
        CU_ASSERT_EQUAL(count_of(WEIR__COUNT_SHED), 1);
        CU_ASSERT_EQUAL(count_of(WEIR__COUNT_STATUS + 503 - WEIR__STATUS_LEAST), 1);
        http_close(&client);
        for (int64_t until = weir_test_now() + WEIR_TEST_PATIENCE; status == 503 && weir_test_now() < until;) {
                http_open(&client, at.port);
                status = ask(&client, GET("/"));
                http_close(&client);
        }
        CU_ASSERT_EQUAL(status, 200); /* served again */
        end();
}

static void
requests_within_the_bound_are_served(void)
{
        struct weir_http_server_config config = WEIR_HTTP_SERVER_CONFIG_DEFAULT;
        struct http_client client;

        config.shed_lateness = WEIR_TEST_TOLERANCE;
        begin(1, &config);
        CU_ASSERT_EQUAL(ask_behind_a_callback(&client), 200);
        http_close(&client);
        end();
}

static void
by_default_nothing_is_too_late(void)
{
        struct weir_http_server_config config = WEIR_HTTP_SERVER_CONFIG_DEFAULT;
        struct http_client client;

        begin(1, &config);
        CU_ASSERT_EQUAL(ask_behind_a_callback(&client), 200);
        http_close(&client);
        end();
}

static void
a_negative_bound_is_einval(void)
{
        struct weir_http_server_config config = WEIR_HTTP_SERVER_CONFIG_DEFAULT;

        config.shed_lateness = -1;
        weir_http_server *server = weir_http_server_new(&config, handle, NULL);
        CU_ASSERT_EQUAL(weir_http_server_start(server, "127.0.0.1:0"), -EINVAL);
        weir_http_server_free(server);
        CU_ASSERT_EQUAL(weir_shutdown(), 0);
}

/* A request that was refused for lateness has its line in the access log, with its target. */
static atomic_int shed;

static void
count_shed(const struct weir_http_access *access, void *context)
{
        (void)context;
        atomic_fetch_add(&shed, access->status == 503 && access->target && strcmp(access->target, "/") == 0);
}

static void
a_refused_request_is_logged_with_its_target(void)
{
        struct weir_http_server_config config = WEIR_HTTP_SERVER_CONFIG_DEFAULT;
        struct http_client client;

        atomic_store(&shed, 0);
        config.shed_lateness = WEIR_MSEC(20);
        config.on_access = count_shed;
        begin(1, &config);
        CU_ASSERT_EQUAL(ask_behind_a_callback(&client), 503);
        http_close(&client);
        end();
        CU_ASSERT_EQUAL(atomic_load(&shed), 1);
}

/* -- pages -- */

static void
a_refusal_has_the_page_that_was_set(void)
{
        struct weir_http_server_config config = WEIR_HTTP_SERVER_CONFIG_DEFAULT;
        struct http_client client;

        config.max_body = 4;
        weir_test_begin_real(1);
        at.server = weir_http_server_new(&config, handle, NULL);
        CU_ASSERT_EQUAL(weir_http_server_set_error(at.server, 400, "text/html", "<p>wrong", 8), 0);
        CU_ASSERT_EQUAL(weir_http_server_set_error(at.server, 413, "text/html", "first", 5), 0);
        CU_ASSERT_EQUAL(weir_http_server_set_error(at.server, 413, "application/json", "{\0}", 3), 0);
        CU_ASSERT_EQUAL(weir_http_server_set_error(at.server, 501, "text/html", NULL, 0), 0);
        CU_ASSERT_EQUAL_FATAL(weir_http_server_start(at.server, "127.0.0.1:0"), 0);
        at.port = weir_http_server_port(at.server);
        CU_ASSERT_EQUAL(weir_http_server_set_error(at.server, 400, "text/html", "later", 5), -EBUSY);
        http_open(&client, at.port);
        CU_ASSERT_EQUAL(ask(&client, "nonsense\r\n\r\n"), 400);
        HTTP_ASSERT_TEXT(at.reply.body, "<p>wrong");
        HTTP_ASSERT_TEXT(http_field(&at.reply, "Content-Type"), "text/html");
        http_close(&client);
        http_open(&client, at.port);
        CU_ASSERT_EQUAL(ask(&client, "PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n12345"), 413);
        CU_ASSERT_EQUAL(at.reply.size, 3);
        CU_ASSERT_EQUAL(memcmp(at.reply.body, "{\0}", 3), 0);
        HTTP_ASSERT_TEXT(http_field(&at.reply, "Content-Type"), "application/json");
        http_close(&client);
        http_open(&client, at.port);
        CU_ASSERT_EQUAL(ask(&client, "UNKNOWN / HTTP/1.1\r\nHost: a\r\n\r\n"), 501);
        CU_ASSERT_EQUAL(at.reply.size, 0);
        http_close(&client);
        http_open(&client, at.port); /* one without a page */
        CU_ASSERT_EQUAL(ask(&client, "GET / HTTP/9.9\r\nHost: a\r\n\r\n"), 505);
        HTTP_ASSERT_TEXT(at.reply.body, "505 HTTP Version Not Supported\n");
        http_close(&client);
        end();
}

static void
an_invalid_page_is_refused(void)
{
        static char page[] = "page";
        weir_http_server *server = weir_http_server_new(NULL, handle, NULL);

        CU_ASSERT_EQUAL(weir_http_server_set_error(NULL, 400, "text/html", "", 0), -ENOMEM);
        CU_ASSERT_EQUAL(weir_http_server_set_error(server, 399, "text/html", "", 0), -EINVAL);
        CU_ASSERT_EQUAL(weir_http_server_set_error(server, 600, "text/html", "", 0), -EINVAL);
        CU_ASSERT_EQUAL(weir_http_server_set_error(server, 200, "text/html", "", 0), -EINVAL);
        CU_ASSERT_EQUAL(weir_http_server_set_error(server, 400, NULL, "", 0), -EINVAL);
        CU_ASSERT_EQUAL(weir_http_server_set_error(server, 400, "text/html", NULL, 1), -EINVAL);
        CU_ASSERT_EQUAL(weir_http_server_set_error(server, 400, "text\r\nX: y", "", 0), -EINVAL);
        CU_ASSERT_EQUAL(weir_http_server_set_error(server, 400, "text/html", "", (size_t)INT32_MAX + 1), -EINVAL);
        CU_ASSERT_EQUAL(weir_http_server_set_error(server, 400, "text/html", page, 4), 0);
        weir_test_begin_real(1);
        CU_ASSERT_EQUAL_FATAL(weir_http_server_start(server, "127.0.0.1:0"), 0);
        strcpy(page, "gone"); /* it was copied */
        struct http_client client;
        http_open(&client, weir_http_server_port(server));
        CU_ASSERT_EQUAL(ask(&client, "nonsense\r\n\r\n"), 400);
        HTTP_ASSERT_TEXT(at.reply.body, "page");
        http_close(&client);
        CU_ASSERT_EQUAL(weir_http_server_stop(server, WEIR_SEC(10)), 0);
        CU_ASSERT_EQUAL(weir_http_server_set_error(server, 400, "text/html", "later", 5), -EBUSY);
        weir_http_server_free(server);
        http_reply_done(&at.reply);
        weir_test_end();
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(the_one_that_is_idle_longest_makes_room),
                WEIR_TEST(it_may_be_on_another_poller),
                WEIR_TEST(a_burst_is_admitted_for_no_more_than_are_idle_elsewhere),
                WEIR_TEST(a_connection_that_one_poller_cannot_evict_another_does),
                WEIR_TEST(when_all_are_busy_the_next_to_become_idle_goes_on_any_poller),
                WEIR_TEST(after_bursts_at_all_pollers_there_are_no_more_than_may_be),
                WEIR_TEST(one_whose_request_has_just_come_stays),
                WEIR_TEST(without_descriptors_it_makes_room_too),
                WEIR_TEST(without_descriptors_and_idle_connections_clients_wait_and_the_log_says_so),
                WEIR_TEST(while_it_is_late_requests_are_answered_503),
                WEIR_TEST(requests_within_the_bound_are_served),
                WEIR_TEST(by_default_nothing_is_too_late),
                WEIR_TEST(a_negative_bound_is_einval),
                WEIR_TEST(a_refused_request_is_logged_with_its_target),
                WEIR_TEST(a_refusal_has_the_page_that_was_set),
                WEIR_TEST(an_invalid_page_is_refused),
        };

        return weir_test_main("overload", tests, sizeof tests / sizeof *tests);
}
