/* test/client_upstream_test.c: requests and calls to the members of an upstream: who gets them, and what an end says. */
#include <weir/http_call.h>

#include "kernel/worker/worker.h"
#include "test/client_members.h"
#include "test/timer_fixture.h"

/* -- who gets a request -- */

static void
members_get_requests_in_turn(void)
{
        struct weir_upstream_config settings = WEIR_UPSTREAM_CONFIG_DEFAULT;
        unsigned got[3] = {0};

        settings.policy = WEIR_UPSTREAM_ROUND_ROBIN;
        begin_members(NULL, &settings, 3);
        for (int i = 0; i < 30; i++) {
                struct seen seen = {0};

                got[ask_and_reply(OK_CLOSES, &seen)]++;
                SEES(seen, 0, 200, "word");
                CU_ASSERT_STRING_EQUAL(seen.url, "http://backend/");
        }
        for (unsigned i = 0; i < 3; i++) {
                CU_ASSERT_EQUAL(got[i], 10);
                CU_ASSERT_EQUAL(info_of(i).requests, 10);
                CU_ASSERT_EQUAL(info_of(i).in_flight, 0);
        }
        end_members();
}

/* The server is told the name that was asked for. */
static void
the_host_is_the_name_of_the_upstream(void)
{
        struct seen seen = {0};

        begin_members(NULL, NULL, 1);
        ask(&seen);
        (void)http_peer_accept(&peers[0], doors[0], NULL);
        HAS(http_peer_request(&peers[0]), "\r\nHost: backend\r\n");
        reply(0, OK_WORD);
        SEES(seen, 0, 200, "word");
        end_members();
}

static void
the_same_key_goes_to_the_same_member(void)
{
        struct weir_upstream_config settings = WEIR_UPSTREAM_CONFIG_DEFAULT;
        bool differ = false;
        int first = -1;

        settings.policy = WEIR_UPSTREAM_HASH;
        begin_members(NULL, &settings, 4);
        for (int key = 0; key < 16; key++) {
                int before = -1;

                for (int i = 0; i < 4; i++) {
                        struct seen seen = {0};
                        weir_task *request = ask_new("GET", &seen);

                        CU_ASSERT_EQUAL(weir_http_request_set_key(request, &key, sizeof key), 0);
                        start(request);
                        settle();
                        int member = take_request();
                        reply(member, OK_CLOSES);
                        CU_ASSERT_EQUAL(seen.calls, 1);
                        CU_ASSERT_TRUE(before < 0 || member == before);
                        before = member;
                }
                differ = differ || (first >= 0 && before != first);
                first = before;
        }
        CU_ASSERT_TRUE(differ);
        end_members();
}

static void
a_full_upstream_is_busy(void)
{
        struct weir_member_config one = WEIR_MEMBER_CONFIG_DEFAULT;
        struct seen first = {0}, second = {0}, third = {0};

        one.max_in_flight = 1;
        begin_members(NULL, NULL, 0);
        doors[0] = http_peer_listen(&ports[0]);
        CU_ASSERT_EQUAL(weir_upstream_add(backend, address_of(0), &one), 0);
        ask(&first);
        ask(&second);
        SEES(second, -EBUSY, 0, "");
        HAS(second.problem, "GET http://backend/: all members of the upstream have as many requests in flight as they may have");
        reply(take_request(), OK_CLOSES);
        SEES(first, 0, 200, "word");
        (void)ask_and_reply(OK_WORD, &third);
        SEES(third, 0, 200, "word");
        end_members();
}

static void
an_upstream_without_members_is_unreachable(void)
{
        struct seen none = {0}, disabled = {0};

        begin_members(NULL, NULL, 0);
        ask(&none);
        SEES(none, -ENETUNREACH, 0, "");
        HAS(none.problem, "the upstream has no members");
        CU_ASSERT_EQUAL(weir_upstream_add(backend, "127.0.0.1:9", NULL), 0);
        CU_ASSERT_EQUAL(weir_upstream_disable(backend, "127.0.0.1:9"), 0);
        ask(&disabled);
        SEES(disabled, -ENETUNREACH, 0, "");
        HAS(disabled.problem, "all members of the upstream are disabled");
        end_members();
}

static void
a_member_leaves_while_its_request_runs(void)
{
        begin_members(NULL, NULL, 2);
        for (int i = 0; i < 2; i++) {
                struct seen seen = {0}, next = {0};

                ask(&seen);
                int member = take_request();
                CU_ASSERT_EQUAL((i ? weir_upstream_remove : weir_upstream_disable)(backend, address_of((unsigned)member)), 0);
                reply(member, OK_CLOSES);
                SEES(seen, 0, 200, "word");
                CU_ASSERT_EQUAL(ask_and_reply(OK_CLOSES, &next), !member);
                CU_ASSERT_EQUAL(weir_upstream_enable(backend, address_of((unsigned)member)), i ? -ENOENT : 0);
        }
        end_members();
}

/* -- what an end says about the member -- */

static void
set_nothing(weir_task *request)
{
        (void)request;
}

static void
set_failing(weir_task *request)
{
        CU_ASSERT_EQUAL(weir_http_request_fail_on_error(request), 0);
}

static void
set_small(weir_task *request)
{
        CU_ASSERT_EQUAL(weir_http_request_set_max_body(request, 3), 0);
}

static void
set_whole(weir_task *request)
{
        CU_ASSERT_EQUAL(weir_http_request_set_limit(request, WEIR_HTTP_LIMIT_WHOLE, WEIR_SEC(1)), 0);
}

static void
set_first_byte(weir_task *request)
{
        CU_ASSERT_EQUAL(weir_http_request_set_limit(request, WEIR_HTTP_LIMIT_FIRST_BYTE, WEIR_SEC(1)), 0);
}

#define SAYS(code) "HTTP/1.1 " #code " Some reason\r\n" CLOSES

static void
an_end_says_whether_the_member_works(void)
{
        static const struct {
                const char *reply;
                void (*set)(weir_task *request);
                int status;
                unsigned failures;
        } ends[] = {
                {SAYS(200), set_nothing, 0, 0},
                {SAYS(404), set_nothing, 0, 0},
                {SAYS(500), set_nothing, 0, 0},
                {SAYS(502), set_nothing, 0, 1},
                {SAYS(503), set_nothing, 0, 1},
                {SAYS(504), set_nothing, 0, 1},
                {SAYS(404), set_failing, -EREMOTEIO, 0},
                {SAYS(429), set_failing, -EBUSY, 0},
                {SAYS(503), set_failing, -EBUSY, 1},
                {SAYS(200), set_small, -EMSGSIZE, 0},
                {"", set_nothing, -ECONNRESET, 1},
                {"SSH-2.0-server\r\n\r\n", set_nothing, -EBADMSG, 1},
                {"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nword", set_nothing, -ECONNABORTED, 1},
                {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n", set_nothing, -EBADMSG, 1},
                {NULL, set_whole, -ETIMEDOUT, 1},
                {NULL, set_first_byte, -ETIMEDOUT, 1},
        };

        for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
                struct seen seen = {0};

                begin_members(NULL, NULL, 1);
                weir_task *request = ask_new("GET", &seen);
                ends[i].set(request);
                start(request);
                settle();
                CU_ASSERT_EQUAL_FATAL(take_request(), 0);
                if (ends[i].reply) {
                        reply(0, ends[i].reply);
                        http_peer_close(&peers[0]);
                }
                weir_test_pass(ends[i].reply ? 0 : WEIR_SEC(1));
                CU_ASSERT_EQUAL(seen.calls, 1);
                CU_ASSERT_EQUAL(seen.status, ends[i].status);
                CU_ASSERT_EQUAL(info_of(0).failures, ends[i].failures);
                CU_ASSERT_EQUAL(info_of(0).in_flight, 0);
                end_members();
        }
}

/* Whatever it has come to. */
static void
a_cancel_says_nothing(void)
{
        static const char *const part[] = {NULL, "", "HTTP/1.1 503 S\r\n", "HTTP/1.1 503 S\r\nContent-Length: 9\r\n\r\nw"};

        begin_members(NULL, NULL, 1);
        for (size_t i = 0; i < sizeof part / sizeof *part; i++) {
                struct seen seen = {0};
                weir_series *series = start_in_series(ask_new("GET", &seen));

                if (part[i]) {
                        settle();
                        CU_ASSERT_EQUAL(take_request(), 0);
                        reply(0, part[i]);
                }
                weir_series_cancel(series);
                settle();
                CU_ASSERT_EQUAL(seen.status, -ECANCELED);
                CU_ASSERT_EQUAL(info_of(0).failures, 0);
                CU_ASSERT_EQUAL(info_of(0).in_flight, 0);
                weir_series_unref(series);
                (void)take_request();
        }
        weir_task_dismiss(ask_new("GET", NULL));
        CU_ASSERT_EQUAL(info_of(0).in_flight, 0);
        end_members();
}

/* A flow that has failed for another reason ends its requests: those say nothing about their member. */
static void
the_failure_of_a_flow_says_nothing(void)
{
        struct seen seen = {0};

        begin_members(NULL, NULL, 1);
        weir_series *series = start_in_series(ask_new("GET", &seen));
        settle();
        CU_ASSERT_EQUAL(take_request(), 0);
        CU_ASSERT_EQUAL(weir_series_fail(series, -EIO), 0);
        settle();
        CU_ASSERT_EQUAL(seen.status, -ECANCELED);
        CU_ASSERT_EQUAL(info_of(0).failures, 0);
        weir_series_unref(series);
        end_members();
}

/* -- the breaker -- */

static void
a_member_that_fails_is_ejected_and_probed(void)
{
        struct weir_upstream_config settings = WEIR_UPSTREAM_CONFIG_DEFAULT;
        unsigned failed = 0;

        settings.policy = WEIR_UPSTREAM_ROUND_ROBIN;
        begin_members(NULL, &settings, 2);
        for (int i = 0; i < 10; i++) {
                struct seen seen = {0};

                ask(&seen);
                int member = take_request();
                failed += member == 0;
                reply(member, member == 0 ? UNAVAILABLE : OK_CLOSES);
                CU_ASSERT_EQUAL(seen.code, member == 0 ? 503 : 200);
        }
        CU_ASSERT_EQUAL(failed, 5);
        CU_ASSERT_EQUAL(info_of(0).state, WEIR_MEMBER_OPEN);
        for (int i = 0; i < 10; i++) {
                struct seen seen = {0};

                CU_ASSERT_EQUAL(ask_and_reply(OK_CLOSES, &seen), 1);
        }
        weir_test_pass(WEIR_SEC(30));
        for (int i = 0; i < 2; i++) {
                struct seen seen = {0};

                (void)ask_and_reply(OK_CLOSES, &seen);
        }
        CU_ASSERT_EQUAL(info_of(0).requests, 6);
        CU_ASSERT_EQUAL(info_of(0).state, WEIR_MEMBER_CLOSED);
        end_members();
}

/* -- another member, when nothing was sent -- */

/* No request fails; five in a row eject the member that is down. */
static void
a_refused_request_goes_to_another_member(void)
{
        static const char *const methods[] = {"GET", "POST"};
        struct weir_upstream_config settings = WEIR_UPSTREAM_CONFIG_DEFAULT;

        settings.policy = WEIR_UPSTREAM_ROUND_ROBIN;
        begin_members(NULL, &settings, 2);
        shut_door(0);
        for (int i = 0; i < 20; i++) {
                struct seen seen = {0};
                weir_task *request = ask_new(methods[i % 2], &seen);

                if (i % 2)
                        CU_ASSERT_EQUAL(weir_http_request_set_body(request, "text", 4, NULL), 0);
                start(request);
                settle();
                CU_ASSERT_EQUAL(take_request(), 1);
                reply(1, OK_CLOSES);
                SEES(seen, 0, 200, "word");
        }
        CU_ASSERT_EQUAL(info_of(0).state, WEIR_MEMBER_OPEN);
        CU_ASSERT_EQUAL(info_of(0).requests, 5);
        CU_ASSERT_EQUAL(info_of(0).failures, 5);
        CU_ASSERT_EQUAL(info_of(1).requests, 20);
        CU_ASSERT_EQUAL(info_of(1).failures, 0);
        CU_ASSERT_EQUAL(stats().failed, 0);
        end_members();
}

static void
three_members_are_tried_once_each(void)
{
        for (unsigned count = 1; count <= MEMBERS; count++) {
                unsigned requests = 0;
                struct seen seen = {0};

                begin_members(NULL, NULL, count);
                for (unsigned i = 0; i < count; i++)
                        shut_door(i);
                ask(&seen);
                SEES(seen, -ECONNREFUSED, 0, "");
                CU_ASSERT_EQUAL(seen.stage, WEIR_HTTP_CONNECTING);
                HAS(seen.problem, "Connection refused");
                for (unsigned i = 0; i < count; i++) {
                        CU_ASSERT_TRUE(info_of(i).requests <= 1);
                        CU_ASSERT_EQUAL(info_of(i).failures, info_of(i).requests);
                        CU_ASSERT_EQUAL(info_of(i).in_flight, 0);
                        requests += (unsigned)info_of(i).requests;
                }
                CU_ASSERT_EQUAL(requests, count < 3 ? count : 3);
                CU_ASSERT_EQUAL(stats().failed, 1);
                end_members();
        }
}

/* A connection that was closed meanwhile says nothing; the connect that follows says that the member is gone. */
static void
a_replay_goes_to_another_member_when_its_own_is_gone(void)
{
        struct weir_upstream_config settings = WEIR_UPSTREAM_CONFIG_DEFAULT;

        settings.policy = WEIR_UPSTREAM_ROUND_ROBIN;
        begin_members(NULL, &settings, 2);
        for (int i = 0; i < 2; i++) {
                struct seen seen = {0};

                ask(&seen);
                reply(take_request(), OK_WORD);
                SEES(seen, 0, 200, "word");
        }
        struct seen seen = {0};
        ask(&seen);
        const char *request = http_peer_has(&peers[0]);
        int first = *request ? 0 : 1;
        shut_door((unsigned)first); /* before the client hears of the end */
        http_peer_finish(&peers[first]);
        settle();
        HAS(http_peer_request(&peers[!first]), "GET / ");
        reply(!first, OK_WORD);
        SEES(seen, 0, 200, "word");
        CU_ASSERT_EQUAL(info_of((unsigned)first).failures, 1);
        CU_ASSERT_EQUAL(info_of((unsigned)!first).failures, 0);
        CU_ASSERT_EQUAL(stats().replayed, 1);
        end_members();
}

/* -- redirects -- */

static void
a_redirect_stays_with_its_member(void)
{
        struct weir_client_config config = WEIR_CLIENT_CONFIG_DEFAULT;
        struct seen seen = {0};

        config.redirects = 3;
        begin_members(&config, NULL, 4);
        ask(&seen);
        int member = take_request();
        reply(member, "HTTP/1.1 302 Found\r\nLocation: /next\r\nContent-Length: 0\r\n\r\n");
        HAS(http_peer_request(&peers[member]), "GET /next HTTP/1.1\r\n");
        reply(member, OK_WORD);
        SEES(seen, 0, 200, "word");
        CU_ASSERT_STRING_EQUAL(seen.url, "http://backend/next");
        CU_ASSERT_EQUAL(info_of((unsigned)member).requests, 1);
        CU_ASSERT_EQUAL(info_of((unsigned)member).in_flight, 0);
        end_members();
}

static int
no_such_name(const char *host, int family, weir_resolver_reply *answer, void *context)
{
        (void)family;
        (void)answer;
        strcpy(context, host);
        return -ENOENT;
}

/* A server does not choose among the upstreams of the program. */
static void
a_redirect_to_an_upstream_is_one_to_a_host(void)
{
        struct weir_resolver_config names = WEIR_RESOLVER_CONFIG_DEFAULT;
        struct weir_client_config config = WEIR_CLIENT_CONFIG_DEFAULT;
        struct seen seen = {0};
        char asked[64] = "";

        names.answer = no_such_name;
        names.context = asked;
        config.redirects = 3;
        begin_members(&config, NULL, 1);
        CU_ASSERT_EQUAL(weir_resolver_configure(&names), 0);
        weir_upstream *secret = weir_upstream_new("secret", NULL);
        CU_ASSERT_EQUAL(weir_upstream_add(secret, address_of(0), NULL), 0);
        ask(&seen);
        reply(take_request(), "HTTP/1.1 302 Found\r\nLocation: http://secret/\r\nContent-Length: 0\r\n\r\n");
        CU_ASSERT_EQUAL(seen.calls, 1);
        CU_ASSERT_EQUAL(seen.status, -ENOENT);
        CU_ASSERT_STRING_EQUAL(asked, "secret");
        CU_ASSERT_EQUAL(info_of(0).failures, 0);
        weir_upstream_unref(secret);
        end_members();
        CU_ASSERT_EQUAL(weir_resolver_configure(NULL), 0);
}

/* -- https -- */

static void
certificates_have_the_name_of_the_upstream(void)
{
        static const struct {
                const char *names;
                int status;
        } cases[] = {{"DNS:backend", 0}, {"DNS:other,IP:127.0.0.1", WEIR_ETLS_NAME}};

        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
                struct weir_client_config config = WEIR_CLIENT_CONFIG_DEFAULT;
                struct weir_tls_config trust = WEIR_TLS_CONFIG_DEFAULT;
                struct seen seen = {0};

                tls_files_begin();
                tls_make_certificate("server", &(struct tls_wish){.alternative_names = cases[i].names});
                trust.ca_file = tls_path("server.pem");
                config.tls = weir_tls_client_new(&trust);
                SSL_CTX *context = http_peer_tls("server");
                weir_test_begin_real(1);
                begin_with(&config);
                open_members(NULL, 1);
                weir_tls_unref(config.tls);
                start(weir_client_request_new(client, "GET", "https://backend/", see, &seen));
                if (http_peer_accept(&peers[0], doors[0], context) && cases[i].status == 0) {
                        HAS(http_peer_request(&peers[0]), "\r\nHost: backend\r\n");
                        http_peer_send(&peers[0], OK_WORD);
                }
                wait_for(&seen);
                CU_ASSERT_EQUAL(seen.status, cases[i].status);
                CU_ASSERT_EQUAL(seen.code, cases[i].status ? 0 : 200);
                CU_ASSERT_EQUAL(info_of(0).failures, cases[i].status != 0);
                end_members();
                SSL_CTX_free(context);
                tls_files_end();
        }
}

/* -- calls -- */

static void
note_status(weir_task *task, void *context)
{
        *(_Atomic int *)context = weir_task_status(task);
}

static void
a_call_has_a_member(void)
{
        begin_members(NULL, NULL, 2);
        for (int i = 0; i < 4; i++) {
                _Atomic int status = 1;
                weir_http_call *call = weir_http_call_new(client, "GET", "http://backend/");

                CU_ASSERT_PTR_NOT_NULL_FATAL(call);
                CU_ASSERT_EQUAL(info_of(0).in_flight + info_of(1).in_flight, 1);
                if (i < 3) {
                        start(weir_http_call_head_new(call, note_status, (void *)&status));
                        settle();
                        int member = take_request();
                        if (i == 2)
                                http_peer_close(&peers[member]);
                        else
                                reply(member, i ? UNAVAILABLE : OK_CLOSES);
                        settle();
                        CU_ASSERT_EQUAL(status, i == 2 ? -ECONNRESET : 0);
                }
                weir_http_call_unref(call);
                settle();
                CU_ASSERT_EQUAL(info_of(0).in_flight + info_of(1).in_flight, 0);
        }
        CU_ASSERT_EQUAL(info_of(0).failures + info_of(1).failures, 2);
        end_members();
}

/* What the program does not wait for is no failure of the member; a head of 503 is one. */
static void
a_call_that_is_given_up_says_nothing(void)
{
        for (int i = 0; i < 8; i++) {
                begin_members(NULL, NULL, 1);
                weir_http_call *call = weir_http_call_new(client, "GET", "http://backend/");

                start(weir_http_call_head_new(call, NULL, NULL));
                settle();
                CU_ASSERT_EQUAL(take_request(), 0);
                if (i % 4 == 1)
                        reply(0, "HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\nword");
                if (i % 4 == 2)
                        reply(0, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nword");
                if (i % 4 == 3)
                        reply(0, "HTTP/1.1 503 No\r\nContent-Length: 1000000\r\n\r\nword");
                if (i <= 4) /* a head that is waited for keeps the call */
                        weir_http_call_break(call);
                weir_http_call_unref(call);
                weir_test_pass(WEIR_SEC(2));
                CU_ASSERT_EQUAL(stats().connections, 0);
                CU_ASSERT_EQUAL(info_of(0).in_flight, 0);
                CU_ASSERT_EQUAL(info_of(0).failures, i % 4 == 3);
                end_members();
        }
}

static void
a_call_without_a_member_says_why(void)
{
        _Atomic int status = 1;

        begin_members(NULL, NULL, 0);
        weir_http_call *call = weir_http_call_new(client, "GET", "http://backend/");
        CU_ASSERT_PTR_NOT_NULL_FATAL(call);
        start(weir_http_call_head_new(call, note_status, (void *)&status));
        settle();
        CU_ASSERT_EQUAL(status, -ENETUNREACH);
        HAS(weir_http_call_problem(call), "no members");
        weir_http_call_unref(call);
        end_members();
}

/* -- a function of the program -- */

static _Atomic unsigned chosen;

/* Blocks for longer than a callback may, so the worker has lost its poller when it returns. */
static size_t
choose_slowly(const weir_member *const *members, size_t count, const void *key, size_t key_size, void *context)
{
        const struct weir__worker *worker = weir__worker_self();

        (void)members;
        (void)key;
        (void)key_size;
        (void)context;
        for (unsigned i = 0; worker && i < 100 && weir__worker_owns(worker); i++)
                weir_test_sleep(1000000);
        return atomic_fetch_add(&chosen, 1) % count;
}

static void
start_more(weir_task *request, void *context)
{
        struct seen *next = (struct seen *)context + 1;

        if (next->wants)
                CU_ASSERT_EQUAL(weir_task_start(weir_client_request_new(client, "GET", "http://backend/", start_more, next)), 0);
        see(request, context);
}

/* The requests of a series, and those that callbacks start, are started by workers. */
static void
a_worker_may_lose_its_poller_while_the_program_chooses(void)
{
        struct weir_config runtime = WEIR_CONFIG_DEFAULT;
        struct weir_upstream_config settings = WEIR_UPSTREAM_CONFIG_DEFAULT;
        struct seen seen[8] = {{0}}, more[9] = {{0}};

        runtime.pollers = 2;
        runtime.blocking_limit = WEIR_MSEC(2);
        CU_ASSERT_EQUAL_FATAL(weir_init(&runtime), 0);
        settings.policy = WEIR_UPSTREAM_FUNCTION;
        settings.choose = choose_slowly;
        begin_with(NULL);
        open_members(&settings, 1);
        weir_series *series = weir_series_new(NULL, NULL);
        for (int i = 0; i < 8; i++) {
                CU_ASSERT_EQUAL(weir_series_push(series, ask_new("GET", &seen[i])), 0);
                more[i].wants = i ? "Server" : NULL;
        }
        more[0].wants = NULL;
        CU_ASSERT_EQUAL(weir_series_start(series), 0);
        for (int i = 0; i < 8; i++) {
                (void)http_peer_accept(&peers[0], doors[0], NULL);
                (void)http_peer_request(&peers[0]);
                http_peer_send(&peers[0], OK_CLOSES);
                wait_for(&seen[i]);
                SEES(seen[i], 0, 200, "word");
                http_peer_close(&peers[0]);
        }
        start(weir_client_request_new(client, "GET", "http://backend/", start_more, &more[0]));
        for (int i = 0; i < 8; i++) {
                (void)http_peer_accept(&peers[0], doors[0], NULL);
                (void)http_peer_request(&peers[0]);
                http_peer_send(&peers[0], OK_CLOSES);
                wait_for(&more[i]);
                SEES(more[i], 0, 200, "word");
                http_peer_close(&peers[0]);
        }
        CU_ASSERT_EQUAL(chosen, 16);
        WEIR_TEST_EVENTUALLY(info_of(0).in_flight == 0);
        end_members();
}

/* -- a function of the program, after a connect that has failed -- */

static _Atomic unsigned asked, offered;
static _Atomic(weir_series *) cancelled;
static _Atomic(weir_http_call *) broken;

/* The first one that it is offered; has something cancelled meanwhile. */
static size_t
choose_first(const weir_member *const *members, size_t count, const void *key, size_t key_size, void *context)
{
        weir_series *series = atomic_load(&cancelled);

        (void)members;
        CU_ASSERT_TRUE(!context || (key_size == 3 && memcmp(key, "key", 3) == 0));
        offered += (unsigned)count;
        if (++asked > 1 && series)
                weir_series_cancel(series);
        if (asked > 1 && atomic_load(&broken))
                weir_http_call_break(broken);
        return 0;
}

static void
begin_chosen(weir_upstream_choose_fn *choose, unsigned count, bool has_key)
{
        struct weir_upstream_config settings = WEIR_UPSTREAM_CONFIG_DEFAULT;

        asked = offered = 0;
        cancelled = NULL;
        broken = NULL;
        settings.policy = WEIR_UPSTREAM_FUNCTION;
        settings.choose = choose;
        settings.context = has_key ? &asked : NULL;
        begin_members(NULL, &settings, count);
}

/* It is offered those that the request has not had. */
static void
the_program_chooses_another_member(void)
{
        struct seen seen = {0};

        begin_chosen(choose_first, 4, true);
        shut_door(0);
        shut_door(1);
        weir_task *request = ask_new("POST", &seen);
        CU_ASSERT_EQUAL(weir_http_request_set_key(request, "key", 3), 0);
        start(request);
        settle();
        CU_ASSERT_EQUAL(take_request(), 2);
        reply(2, OK_CLOSES);
        SEES(seen, 0, 200, "word");
        CU_ASSERT_EQUAL(asked, 3);
        CU_ASSERT_EQUAL(offered, 4 + 3 + 2);
        CU_ASSERT_EQUAL(info_of(0).failures, 1);
        CU_ASSERT_EQUAL(info_of(1).failures, 1);
        CU_ASSERT_EQUAL(info_of(2).failures, 0);
        CU_ASSERT_EQUAL(stats().failed, 0);
        end_members();
}

/* There is no other one, or no fourth one. */
static void
the_program_is_asked_three_times_at_most(void)
{
        for (unsigned count = 1; count <= 4; count++) {
                struct seen seen = {0};

                begin_chosen(choose_first, count, false);
                for (unsigned i = 0; i < count; i++)
                        shut_door(i);
                ask(&seen);
                SEES(seen, -ECONNREFUSED, 0, "");
                HAS(seen.problem, "Connection refused");
                CU_ASSERT_EQUAL(asked, count < 3 ? count : 3);
                for (unsigned i = 0; i < count; i++) {
                        CU_ASSERT_EQUAL(info_of(i).failures, i < 3);
                        CU_ASSERT_EQUAL(info_of(i).in_flight, 0);
                }
                end_members();
        }
}

static void
a_request_may_be_cancelled_while_the_program_chooses(void)
{
        struct seen seen = {0};

        begin_chosen(choose_first, 2, false);
        shut_door(0);
        weir_series *series = weir_series_ref(weir_series_new(NULL, NULL));
        cancelled = series;
        CU_ASSERT_EQUAL(weir_series_push(series, ask_new("GET", &seen)), 0);
        CU_ASSERT_EQUAL(weir_series_start(series), 0);
        settle();
        SEES(seen, -ECANCELED, 0, "");
        CU_ASSERT_EQUAL(asked, 2);
        CU_ASSERT_EQUAL(info_of(0).failures, 1);
        CU_ASSERT_EQUAL(info_of(1).failures, 0);
        CU_ASSERT_EQUAL(info_of(1).in_flight, 0);
        weir_series_unref(series);
        end_members();
}

/* The worker loses its poller in the function: each time, also for calls. */
static void
a_worker_may_lose_its_poller_for_another_member(void)
{
        struct weir_config runtime = WEIR_CONFIG_DEFAULT;
        struct weir_upstream_config settings = WEIR_UPSTREAM_CONFIG_DEFAULT;

        runtime.pollers = 2;
        runtime.blocking_limit = WEIR_MSEC(2);
        CU_ASSERT_EQUAL_FATAL(weir_init(&runtime), 0);
        settings.policy = WEIR_UPSTREAM_FUNCTION;
        settings.choose = choose_slowly;
        settings.failures_in_row = UINT_MAX;
        begin_with(NULL);
        open_members(&settings, 2);
        shut_door(0);
        for (int i = 0; i < 8; i++) {
                _Atomic int status = 1;
                struct seen seen = {0};
                weir_http_call *call = NULL;

                chosen = 0;
                if (i % 2) {
                        call = weir_http_call_new(client, "GET", "http://backend/");
                        start(weir_http_call_head_new(call, note_status, (void *)&status));
                } else {
                        start(ask_new("GET", &seen));
                }
                (void)http_peer_accept(&peers[1], doors[1], NULL);
                (void)http_peer_request(&peers[1]);
                http_peer_send(&peers[1], OK_CLOSES);
                WEIR_TEST_EVENTUALLY(i % 2 ? status < 1 : seen.calls > 0);
                CU_ASSERT_EQUAL(i % 2 ? status : seen.status, 0);
                CU_ASSERT_EQUAL(chosen, 2);
                weir_http_call_unref(call);
                WEIR_TEST_EVENTUALLY(info_of(1).in_flight == 0);
                http_peer_close(&peers[1]);
        }
        end_members();
}

/* -- calls and other members -- */

/* Nothing of the body was sent either. */
static void
a_refused_call_goes_to_another_member(void)
{
        for (int i = 0; i < 6; i++) {
                _Atomic int written = 1, status = 1;
                struct weir_upstream_config settings = WEIR_UPSTREAM_CONFIG_DEFAULT;
                char text[64];

                if (i < 3)
                        settings.policy = WEIR_UPSTREAM_ROUND_ROBIN;
                if (i < 3)
                        begin_members(NULL, &settings, 3);
                else
                        begin_chosen(choose_first, 3, false);
                shut_door(0);
                shut_door(1);
                for (int j = 0; j < 3; j++) {
                        asked = 0;
                        written = status = 1;
                        weir_http_call *call = weir_http_call_new(client, i % 3 ? "POST" : "GET", "http://backend/");
                        if (i % 3 == 2)
                                CU_ASSERT_EQUAL(weir_http_call_set_length(call, 4), 0);
                        if (i % 3)
                                start(weir_http_call_write_new(call, "text", 4, note_status, (void *)&written));
                        start(weir_http_call_head_new(call, note_status, (void *)&status));
                        settle();
                        CU_ASSERT_EQUAL_FATAL(http_peer_has_caller(doors[2]), 1);
                        (void)http_peer_accept(&peers[2], doors[2], NULL);
                        snprintf(text, sizeof text, "%s", http_peer_request(&peers[2]));
                        HAS(text, i % 3 ? "POST / " : "GET / ");
                        if (i % 3)
                                CU_ASSERT_EQUAL(written, 0);
                        CU_ASSERT_TRUE(http_peer_send(&peers[2], OK_CLOSES));
                        settle();
                        CU_ASSERT_EQUAL(status, 0);
                        CU_ASSERT_EQUAL(weir_http_call_status(call), 200);
                        weir_http_call_break(call);
                        weir_http_call_unref(call);
                        settle();
                        http_peer_close(&peers[2]);
                }
                CU_ASSERT_EQUAL(info_of(2).requests, 3);
                CU_ASSERT_EQUAL(info_of(0).failures, info_of(0).requests);
                CU_ASSERT_EQUAL(info_of(1).failures, info_of(1).requests);
                CU_ASSERT_EQUAL(info_of(0).in_flight + info_of(1).in_flight + info_of(2).in_flight, 0);
                CU_ASSERT_EQUAL(stats().failed, 0);
                end_members();
        }
}

static void
a_call_tries_three_members_at_most(void)
{
        for (unsigned i = 0; i < 8; i++) {
                _Atomic int status = 1;
                unsigned count = i % 4 + 1, requests = 0;

                if (i < 4)
                        begin_members(NULL, NULL, count);
                else
                        begin_chosen(choose_first, count, false);
                for (unsigned j = 0; j < count; j++)
                        shut_door(j);
                weir_http_call *call = weir_http_call_new(client, "GET", "http://backend/");
                start(weir_http_call_head_new(call, note_status, (void *)&status));
                settle();
                CU_ASSERT_EQUAL(status, -ECONNREFUSED);
                CU_ASSERT_EQUAL(weir_http_call_stage(call), WEIR_HTTP_CONNECTING);
                HAS(weir_http_call_problem(call), "Connection refused");
                weir_http_call_unref(call);
                settle();
                for (unsigned j = 0; j < count; j++) {
                        CU_ASSERT_EQUAL(info_of(j).failures, info_of(j).requests);
                        CU_ASSERT_EQUAL(info_of(j).in_flight, 0);
                        requests += (unsigned)info_of(j).requests;
                }
                CU_ASSERT_EQUAL(requests, count < 3 ? count : 3);
                CU_ASSERT_EQUAL(stats().failed, 1);
                end_members();
        }
}

static void
a_call_may_be_broken_while_the_program_chooses(void)
{
        _Atomic int status = 1;

        begin_chosen(choose_first, 2, false);
        shut_door(0);
        weir_http_call *call = weir_http_call_new(client, "GET", "http://backend/");
        broken = call;
        start(weir_http_call_head_new(call, note_status, (void *)&status));
        settle();
        CU_ASSERT_EQUAL(status, -ECONNABORTED);
        CU_ASSERT_EQUAL(asked, 2);
        CU_ASSERT_EQUAL(info_of(0).failures, 1);
        CU_ASSERT_EQUAL(info_of(1).failures, 0);
        weir_http_call_unref(call);
        settle();
        CU_ASSERT_EQUAL(info_of(0).in_flight + info_of(1).in_flight, 0);
        end_members();
}

/* -- members from DNS -- */

static int
localhost(const char *host, int family, weir_resolver_reply *answer, void *context)
{
        (void)family;
        (void)context;
        CU_ASSERT_STRING_EQUAL(host, "backend.internal");
        return weir_resolver_reply_add(answer, "127.0.0.1");
}

static void
members_come_from_names(void)
{
        struct weir_resolver_config names = WEIR_RESOLVER_CONFIG_DEFAULT;
        struct seen seen = {0};
        char name[64];

        names.answer = localhost;
        begin_members(NULL, NULL, 0);
        CU_ASSERT_EQUAL(weir_resolver_configure(&names), 0);
        doors[0] = http_peer_listen(&ports[0]);
        snprintf(name, sizeof name, "backend.internal:%d", ports[0]);
        weir_series *series = weir_series_new(NULL, NULL);
        CU_ASSERT_EQUAL(weir_series_push(series, weir_upstream_follow_new(backend, name, NULL, NULL, NULL)), 0);
        CU_ASSERT_EQUAL(weir_series_push(series, ask_new("GET", &seen)), 0);
        CU_ASSERT_EQUAL(weir_series_start(series), 0);
        settle();
        CU_ASSERT_EQUAL(take_request(), 0);
        reply(0, OK_WORD);
        SEES(seen, 0, 200, "word");
        CU_ASSERT_EQUAL(info_of(0).requests, 1);
        end_members();
        CU_ASSERT_EQUAL(weir_resolver_configure(NULL), 0);
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(members_get_requests_in_turn),
                WEIR_TEST(the_host_is_the_name_of_the_upstream),
                WEIR_TEST(the_same_key_goes_to_the_same_member),
                WEIR_TEST(a_full_upstream_is_busy),
                WEIR_TEST(an_upstream_without_members_is_unreachable),
                WEIR_TEST(a_member_leaves_while_its_request_runs),
                WEIR_TEST(an_end_says_whether_the_member_works),
                WEIR_TEST(a_cancel_says_nothing),
                WEIR_TEST(the_failure_of_a_flow_says_nothing),
                WEIR_TEST(a_member_that_fails_is_ejected_and_probed),
                WEIR_TEST(a_refused_request_goes_to_another_member),
                WEIR_TEST(three_members_are_tried_once_each),
                WEIR_TEST(a_replay_goes_to_another_member_when_its_own_is_gone),
                WEIR_TEST(a_redirect_stays_with_its_member),
                WEIR_TEST(a_redirect_to_an_upstream_is_one_to_a_host),
                WEIR_TEST(certificates_have_the_name_of_the_upstream),
                WEIR_TEST(a_call_has_a_member),
                WEIR_TEST(a_call_that_is_given_up_says_nothing),
                WEIR_TEST(a_call_without_a_member_says_why),
                WEIR_TEST(a_worker_may_lose_its_poller_while_the_program_chooses),
                WEIR_TEST(the_program_chooses_another_member),
                WEIR_TEST(the_program_is_asked_three_times_at_most),
                WEIR_TEST(a_request_may_be_cancelled_while_the_program_chooses),
                WEIR_TEST(a_worker_may_lose_its_poller_for_another_member),
                WEIR_TEST(a_refused_call_goes_to_another_member),
                WEIR_TEST(a_call_tries_three_members_at_most),
                WEIR_TEST(a_call_may_be_broken_while_the_program_chooses),
                WEIR_TEST(members_come_from_names),
        };

        return weir_test_main("client_upstream", tests, sizeof tests / sizeof *tests);
}
