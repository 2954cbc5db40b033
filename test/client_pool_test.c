/* test/client_pool_test.c: who gets a connection: the limit, the queue, pollers, idle connections that end, replays, the end. */
#include <weir/resolve.h>

#include "test/client_fixture.h"
#include "test/timer_fixture.h"

static struct weir_client_config config;

static void
begin_limited(unsigned connections)
{
        config = (struct weir_client_config)WEIR_CLIENT_CONFIG_DEFAULT;
        config.connections = connections;
        begin(&config);
}

static void
answer(struct http_peer *to)
{
        CU_ASSERT_TRUE(http_peer_send(to, OK_WORD));
}

static void
leave_one_idle(void)
{
        struct seen seen = {0};

        get("/", &seen);
        (void)accept_request();
        answer(&peer);
        settle();
        SEES(seen, 0, 200, "word");
        CU_ASSERT_EQUAL(stats().idle, 1);
}

/* -- the queue -- */

static void
the_limit_holds_and_the_queue_is_in_order(void)
{
        struct seen seen[20] = {{0}};
        _Atomic unsigned counter = 0;
        struct http_peer peers[2];
        char path[16];

        begin_limited(2);
        for (int i = 0; i < 20; i++) {
                seen[i].counter = &counter;
                snprintf(path, sizeof path, "/%d", i);
                get(path, &seen[i]);
        }
        for (int i = 0; i < 2; i++)
                (void)http_peer_accept(&peers[i], listener, NULL);
        settle();
        CU_ASSERT_FALSE(http_peer_has_caller(listener));
        CU_ASSERT_EQUAL(stats().connections, 2);
        CU_ASSERT_EQUAL(stats().waiting, 18);
        for (int i = 0; i < 20; i++) {
                char expected[32];

                snprintf(expected, sizeof expected, "GET /%d HTTP/1.1\r\n", i);
                CU_ASSERT_NSTRING_EQUAL(http_peer_request(&peers[i % 2]), expected, strlen(expected));
                answer(&peers[i % 2]);
                settle();
                SEES(seen[i], 0, 200, "word");
                CU_ASSERT_EQUAL(seen[i].order, (unsigned)i);
        }
        CU_ASSERT_EQUAL(stats().reused, 18);
        CU_ASSERT_EQUAL(stats().idle, 2);
        end();
        http_peer_close(&peers[0]);
        http_peer_close(&peers[1]);
}

/* The place of a connection that ends is for the next one. */
static void
a_place_that_becomes_free_is_taken(void)
{
        struct seen seen[5] = {{0}};

        begin_limited(1);
        for (int i = 0; i < 5; i++)
                get("/", &seen[i]);
        for (int i = 0; i < 5; i++) {
                (void)accept_request();
                if (i == 2)
                        http_peer_reset(&peer);
                else
                        http_peer_send(&peer, OK_CLOSES);
                settle();
                CU_ASSERT_EQUAL(seen[i].calls, 1);
                CU_ASSERT_EQUAL(seen[i].status, i == 2 ? -ECONNRESET : 0);
                if (peer.fd >= 0)
                        http_peer_close(&peer);
        }
        settle();
        CU_ASSERT_EQUAL(stats().connections, 0);
        end();
}

static void
a_cancel_leaves_the_queue(void)
{
        struct seen seen[4] = {{0}};
        weir_series *series[4];

        begin_limited(1);
        for (int i = 0; i < 4; i++)
                series[i] = start_in_series(request_new("GET", "/", &seen[i]));
        (void)accept_request();
        settle();
        weir_series_cancel(series[1]);
        weir_series_cancel(series[3]);
        settle();
        CU_ASSERT_EQUAL(seen[1].status, -ECANCELED);
        CU_ASSERT_EQUAL(seen[3].status, -ECANCELED);
        CU_ASSERT_EQUAL(stats().waiting, 1);
        answer(&peer);
        (void)http_peer_request(&peer);
        answer(&peer);
        settle();
        SEES(seen[0], 0, 200, "word");
        SEES(seen[2], 0, 200, "word");
        CU_ASSERT_EQUAL(stats().requests, 2);
        for (int i = 0; i < 4; i++)
                weir_series_unref(series[i]);
        end();
}

/* A cancel of one that was sent closes its connection, and the next one gets another. */
static void
a_cancel_closes_what_was_sent(void)
{
        for (int i = 0; i < 2; i++) {
                struct seen seen[2] = {{0}};

                begin_limited(1);
                weir_series *series = start_in_series(request_new("GET", "/", &seen[0]));
                (void)accept_request();
                get("/", &seen[1]);
                if (i)
                        http_peer_send(&peer, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\npart");
                settle();
                weir_series_cancel(series);
                CU_ASSERT_STRING_EQUAL(http_peer_ends(&peer), "<reset>");
                http_peer_cut(&peer);
                (void)accept_request();
                answer(&peer);
                settle();
                SEES(seen[0], -ECANCELED, i ? 200 : 0, i ? "part" : "");
                SEES(seen[1], 0, 200, "word");
                weir_series_unref(series);
                end();
        }
}

/* The response is complete, but a cancel comes before the callback: its connection is kept. */
struct ended_twice {
        struct seen seen;
        weir_series *series;
};

static void
answer_and_cancel(void *context)
{
        struct ended_twice *at = context;

        answer(&peer);
        weir_series_cancel(at->series);
}

static void
a_cancel_beside_the_response_is_told_once(void)
{
        for (int i = 0; i < 20; i++) {
                struct ended_twice at = {.series = NULL};

                begin_limited(1);
                at.series = start_in_series(request_new("GET", "/", &at.seen));
                (void)accept_request();
                settle();
                weir_test_act(0, answer_and_cancel, &at);
                settle();
                CU_ASSERT_EQUAL(at.seen.calls, 1);
                CU_ASSERT_EQUAL(at.seen.status, -ECANCELED);
                CU_ASSERT_EQUAL(stats().waiting, 0);
                weir_series_unref(at.series);
                end();
        }
}

static void
a_dial_of_nobody_is_given_up(void)
{
        struct seen seen = {0};

        begin_limited(1);
        weir_series *series = start_in_series(request_new("GET", "/", &seen));
        weir_series_cancel(series);
        WEIR_TEST_EVENTUALLY((settle(), seen.calls));
        CU_ASSERT_EQUAL(seen.status, -ECANCELED);
        settle();
        CU_ASSERT_EQUAL(stats().connections, stats().idle); /* it may have been faster */
        CU_ASSERT_EQUAL(stats().waiting, 0);
        weir_series_unref(series);
        end();
}

/* A failure of a connection is that of one request each. */
static void
each_failed_connection_fails_one_request(void)
{
        struct seen seen[6] = {{0}};

        begin_limited(2);
        close(listener);
        for (int i = 0; i < 6; i++)
                get("/", &seen[i]);
        for (int i = 0; i < 6; i++) {
                WEIR_TEST_EVENTUALLY((settle(), seen[i].calls));
                SEES(seen[i], -ECONNREFUSED, 0, "");
        }
        CU_ASSERT_EQUAL(stats().connections, 0);
        CU_ASSERT_EQUAL(stats().failed, 6);
        listener = http_peer_listen(&port);
        end();
}

/* -- connections that are kept -- */

static void
a_server_closes_an_idle_connection(void)
{
        begin_limited(5);
        for (int i = 0; i < 2; i++) {
                leave_one_idle();
                if (i)
                        http_peer_reset(&peer);
                else
                        http_peer_close(&peer);
                settle();
                CU_ASSERT_EQUAL(stats().connections, 0);
        }
        end();
}

static void
connections_without_keep_alive_are_closed(void)
{
        static const char *const replies[] = {
                OK_CLOSES, "HTTP/1.1 200 OK\r\nConnection: x, Close\r\nContent-Length: 4\r\n\r\nword",
                "HTTP/1.0 200 OK\r\nContent-Length: 4\r\n\r\nword", "HTTP/1.1 204 No Content\r\nContent-Length: 4\r\n\r\n"};

        begin_limited(5);
        for (size_t i = 0; i < sizeof replies / sizeof *replies; i++) {
                struct seen seen = {0};

                get("/", &seen);
                (void)accept_request();
                http_peer_send(&peer, replies[i]);
                settle();
                CU_ASSERT_EQUAL(seen.status, 0);
                CU_ASSERT_EQUAL(stats().connections, 0);
                (void)http_peer_ends(&peer);
                http_peer_cut(&peer);
        }
        end();
}

/* The server closes the connection when the request is there: it goes out once more, if it may, and not twice. */
static void
a_request_on_a_kept_connection_is_replayed_once(void)
{
        static const struct {
                const char *method;
                int is_idempotent; /* set to: 0, 1; -1: not set */
                bool is_replayed;
        } rows[] = {{"GET", -1, true},     {"HEAD", -1, true},  {"PUT", -1, true},   {"DELETE", -1, true},
                    {"OPTIONS", -1, true}, {"TRACE", -1, true}, {"POST", -1, false}, {"PATCH", -1, false},
                    {"get", -1, false},    {"POST", 1, true},   {"GET", 0, false}};

        for (size_t i = 0; i < 2 * (sizeof rows / sizeof *rows); i++) {
                struct seen seen = {0};
                char sent[4096];

                begin_limited(5);
                leave_one_idle();
                weir_task *request = request_new(rows[i / 2].method, "/", &seen);
                if (strcmp(rows[i / 2].method, "PUT") == 0)
                        CU_ASSERT_EQUAL(weir_http_request_set_body(request, "body", 4, NULL), 0);
                if (rows[i / 2].is_idempotent >= 0)
                        CU_ASSERT_EQUAL(weir_http_request_set_idempotent(request, rows[i / 2].is_idempotent), 0);
                start(request);
                snprintf(sent, sizeof sent, "%s", http_peer_request(&peer));
                if (i % 2)
                        http_peer_reset(&peer);
                else
                        http_peer_close(&peer);
                if (rows[i / 2].is_replayed) {
                        CU_ASSERT_STRING_EQUAL(accept_request(), sent);
                        if (i % 2)
                                http_peer_reset(&peer);
                        else
                                http_peer_close(&peer);
                }
                settle();
                CU_ASSERT_FALSE(http_peer_has_caller(listener));
                SEES(seen, -ECONNRESET, 0, "");
                CU_ASSERT_EQUAL(stats().replayed, rows[i / 2].is_replayed);
                end();
        }
}

/* As when a server gets a new configuration: all that were kept are being closed.  The other one may not have heard it yet. */
static void
a_replay_takes_no_kept_connection(void)
{
        struct seen seen[3] = {{0}};
        struct http_peer peers[3] = {{.fd = -1}, {.fd = -1}, {.fd = -1}};

        for (unsigned limit = 2; limit < 4; limit++) {
                begin_limited(limit);
                memset(seen, 0, sizeof seen);
                for (int i = 0; i < 2; i++)
                        get("/", &seen[i]);
                for (int i = 0; i < 2; i++) {
                        CU_ASSERT_TRUE_FATAL(http_peer_accept(&peers[i], listener, NULL));
                        (void)http_peer_request(&peers[i]);
                }
                for (int i = 0; i < 2; i++) { /* the last one is the first that is used again */
                        answer(&peers[i]);
                        settle();
                }
                CU_ASSERT_EQUAL(stats().idle, 2);
                get("/", &seen[2]);
                (void)http_peer_request(&peers[1]);
                http_peer_close(&peers[1]);
                CU_ASSERT_TRUE_FATAL(http_peer_accept(&peers[2], listener, NULL));
                CU_ASSERT_STRING_EQUAL(http_peer_has(&peers[0]), "");
                (void)http_peer_request(&peers[2]);
                answer(&peers[2]);
                settle();
                SEES(seen[2], 0, 200, "word");
                CU_ASSERT_EQUAL(stats().replayed, 1);
                CU_ASSERT_EQUAL(stats().idle, 2);
                http_peer_close(&peers[0]);
                http_peer_close(&peers[2]);
                end();
        }
}

/* One that waits for a place gets that of the next connection which is free, as it must not have that itself. */
static void
a_replay_gets_the_place_of_a_kept_connection(void)
{
        struct seen first = {0}, replayed = {0}, waiting = {0};
        struct http_peer other = {.fd = -1};

        begin_limited(1);
        leave_one_idle();
        get("/replayed", &replayed);
        (void)http_peer_request(&peer);
        get("/first", &first); /* gets the next connection */
        settle();
        http_peer_close(&peer);
        CU_ASSERT_TRUE_FATAL(http_peer_accept(&other, listener, NULL));
        HAS(http_peer_request(&other), "GET /first ");
        get("/waiting", &waiting);
        settle();
        CU_ASSERT_EQUAL(stats().waiting, 2);
        answer(&other);
        HAS(http_peer_ends(&other), "<end>"); /* it was kept, but is not new */
        CU_ASSERT_TRUE_FATAL(http_peer_accept(&peer, listener, NULL));
        HAS(http_peer_request(&peer), "GET /replayed ");
        answer(&peer);
        HAS(http_peer_request(&peer), "GET /waiting ");
        answer(&peer);
        settle();
        SEES(first, 0, 200, "word");
        SEES(replayed, 0, 200, "word");
        SEES(waiting, 0, 200, "word");
        http_peer_close(&other);
        end();
}

static struct weir_test_latch asked, may_answer; /* the second look-up of a name; its answer */
static _Atomic int look_ups;

static int
answer_when_told(const char *host, int family, weir_resolver_reply *reply, void *context)
{
        (void)host, (void)family, (void)context;
        if (atomic_fetch_add(&look_ups, 1) == 1) {
                weir_test_latch_count_down(&asked);
                weir_test_latch_wait(&may_answer);
        }
        return weir_resolver_reply_add(reply, "127.0.0.1");
}

static void
get_by_name(struct seen *seen)
{
        char url[64];

        snprintf(url, sizeof url, "http://slow.test:%d/", port);
        start(weir_client_request_new(client, "GET", url, see, seen));
}

/* It was made for a request that has got another one meanwhile, so no response has come on it yet.  But the server may have had
 * enough of it just the same. */
static void
a_request_on_a_connection_that_was_only_idle_is_replayed(void)
{
        struct weir_resolver_config resolver = WEIR_RESOLVER_CONFIG_DEFAULT;
        struct seen seen[3] = {{0}};
        struct http_peer spare = {.fd = -1};

        resolver.answer = answer_when_told;
        CU_ASSERT_EQUAL_FATAL(weir_resolver_configure(&resolver), 0);
        weir_test_latch_init(&asked, 1);
        weir_test_latch_init(&may_answer, 1);
        atomic_store(&look_ups, 0);
        begin_limited(5);
        get_by_name(&seen[0]);
        (void)accept_request();
        get_by_name(&seen[1]);
        weir_test_latch_wait(&asked);
        answer(&peer);
        wait_for(&seen[0]);
        (void)http_peer_request(&peer);
        weir_test_latch_count_down(&may_answer);
        CU_ASSERT_TRUE_FATAL(http_peer_accept(&spare, listener, NULL));
        settle();
        CU_ASSERT_EQUAL(stats().idle, 1);
        get_by_name(&seen[2]);
        (void)http_peer_request(&spare);
        http_peer_close(&spare);
        CU_ASSERT_TRUE_FATAL(http_peer_accept(&spare, listener, NULL));
        (void)http_peer_request(&spare);
        answer(&spare);
        answer(&peer);
        for (int i = 0; i < 3; i++) {
                wait_for(&seen[i]);
                SEES(seen[i], 0, 200, "word");
        }
        CU_ASSERT_EQUAL(stats().replayed, 1);
        http_peer_close(&spare);
        end();
        CU_ASSERT_EQUAL(weir_resolver_configure(NULL), 0);
}

/* A byte of a response was there, or the connection was new. */
static void
others_are_not_replayed(void)
{
        for (int i = 0; i < 2; i++) {
                struct seen seen = {0};

                begin_limited(5);
                if (i == 0)
                        leave_one_idle();
                get("/", &seen);
                if (i == 1)
                        (void)http_peer_accept(&peer, listener, NULL);
                (void)http_peer_request(&peer);
                if (i == 0)
                        http_peer_send(&peer, "H");
                settle();
                http_peer_close(&peer);
                settle();
                SEES(seen, i ? -ECONNRESET : -ECONNABORTED, 0, "");
                CU_ASSERT_FALSE(http_peer_has_caller(listener));
                end();
        }
}

static void
idle_connections_are_closed_when_asked(void)
{
        struct seen seen = {0}, other = {0};

        begin_limited(5);
        leave_one_idle();
        weir_client_close_idle(client);
        settle();
        CU_ASSERT_EQUAL(stats().connections, 0);
        CU_ASSERT_STRING_EQUAL(http_peer_ends(&peer), "<end>");
        http_peer_cut(&peer);
        get("/", &seen); /* one in use is closed afterwards */
        (void)accept_request();
        weir_client_close_idle(client);
        settle();
        CU_ASSERT_EQUAL(stats().connections, 1);
        answer(&peer);
        settle();
        SEES(seen, 0, 200, "word");
        CU_ASSERT_EQUAL(stats().connections, 0);
        http_peer_close(&peer);
        get("/", &other);
        (void)accept_request();
        answer(&peer);
        settle();
        CU_ASSERT_EQUAL(stats().idle, 1);
        end();
}

/* The one who waits is given the connection, and cancelled before it has its turn; meanwhile idle ones are closed. */
struct granted {
        struct seen seen;
        weir_series *series;
};

static void
cancel_all(void *context)
{
        struct granted *at = context;

        weir_client_close_idle(client);
        weir_series_cancel(at->series);
}

static void
cancel_what_waits(weir_task *request, void *context)
{
        (void)request;
        cancel_all(context);
}

static void
a_connection_that_was_granted_in_vain_is_closed_too(void)
{
        struct granted at = {.series = NULL};

        begin_limited(1);
        start(weir_client_request_new(client, "GET", url_of("/"), cancel_what_waits, &at));
        (void)accept_request();
        at.series = start_in_series(request_new("GET", "/", &at.seen));
        settle();
        answer(&peer);
        settle();
        CU_ASSERT_EQUAL(at.seen.calls, 1);
        CU_ASSERT_EQUAL(at.seen.status, -ECANCELED);
        CU_ASSERT_EQUAL(stats().connections, 0);
        weir_series_unref(at.series);
        end();
}

/* -- the end -- */

static void
a_client_ends_behind_its_requests(void)
{
        struct seen seen[3] = {{0}};

        begin_limited(1);
        for (int i = 0; i < 3; i++)
                get("/", &seen[i]);
        (void)accept_request();
        weir_client_unref(client);
        client = NULL;
        for (int i = 0; i < 3; i++) {
                answer(&peer);
                if (i < 2)
                        (void)http_peer_request(&peer);
        }
        settle();
        for (int i = 0; i < 3; i++)
                SEES(seen[i], 0, 200, "word");
        CU_ASSERT_STRING_EQUAL(http_peer_ends(&peer), "<end>"); /* it is not kept */
        end();
}

static void
a_client_without_users_closes_its_connections(void)
{
        begin_limited(1);
        leave_one_idle();
        weir_client_unref(client);
        client = NULL;
        CU_ASSERT_STRING_EQUAL(http_peer_ends(&peer), "<end>");
        end();
}

/* -- descriptors -- */

/* From now on there is none, but for those that are closed.  Returns what was allowed. */
static struct rlimit
take_descriptors(void)
{
        struct rlimit before, now;
        int next = dup(0);

        close(next);
        CU_ASSERT_EQUAL(getrlimit(RLIMIT_NOFILE, &before), 0);
        now = before;
        now.rlim_cur = (rlim_t)next;
        CU_ASSERT_EQUAL(setrlimit(RLIMIT_NOFILE, &now), 0);
        return before;
}

/* A program that asks many servers has an idle connection to each of them. */
static void
idle_connections_make_room_for_others(void)
{
        struct seen first = {0}, none = {0}, seen = {0};
        struct http_peer idle;
        int other_port, other = http_peer_listen(&other_port), own_port;

        begin(NULL);
        own_port = port;
        for (int i = 0; i < 2; i++) {
                struct rlimit before = take_descriptors();

                port = other_port;
                get("/", i ? &seen : &none);
                settle();
                CU_ASSERT_EQUAL(setrlimit(RLIMIT_NOFILE, &before), 0);
                port = own_port;
                if (i == 0) { /* nothing can be closed */
                        SEES(none, -EMFILE, 0, "");
                        HAS(none.problem, "Too many open files");
                        get("/", &first);
                        (void)http_peer_accept(&idle, listener, NULL);
                        (void)http_peer_request(&idle);
                        http_peer_send(&idle, OK_WORD);
                        settle();
                        SEES(first, 0, 200, "word");
                        CU_ASSERT_EQUAL(stats().idle, 1);
                }
        }
        CU_ASSERT_STRING_EQUAL(http_peer_ends(&idle), "<end>");
        http_peer_close(&idle);
        (void)http_peer_accept(&peer, other, NULL);
        (void)http_peer_request(&peer);
        http_peer_send(&peer, OK_WORD);
        settle();
        SEES(seen, 0, 200, "word");
        CU_ASSERT_EQUAL(stats().connections, 1);
        end();
        close(other);
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(the_limit_holds_and_the_queue_is_in_order),
                WEIR_TEST(a_place_that_becomes_free_is_taken),
                WEIR_TEST(a_cancel_leaves_the_queue),
                WEIR_TEST(a_cancel_closes_what_was_sent),
                WEIR_TEST(a_cancel_beside_the_response_is_told_once),
                WEIR_TEST(a_dial_of_nobody_is_given_up),
                WEIR_TEST(each_failed_connection_fails_one_request),
                WEIR_TEST(a_server_closes_an_idle_connection),
                WEIR_TEST(connections_without_keep_alive_are_closed),
                WEIR_TEST(a_request_on_a_kept_connection_is_replayed_once),
                WEIR_TEST(a_replay_takes_no_kept_connection),
                WEIR_TEST(a_replay_gets_the_place_of_a_kept_connection),
                WEIR_TEST(a_request_on_a_connection_that_was_only_idle_is_replayed),
                WEIR_TEST(others_are_not_replayed),
                WEIR_TEST(idle_connections_are_closed_when_asked),
                WEIR_TEST(a_connection_that_was_granted_in_vain_is_closed_too),
                WEIR_TEST(idle_connections_make_room_for_others),
                WEIR_TEST(a_client_ends_behind_its_requests),
                WEIR_TEST(a_client_without_users_closes_its_connections),
        };

        return weir_test_main("client_pool", tests, sizeof tests / sizeof *tests);
}
