/* test/client_hedge_test.c: second attempts at requests that are slow, on the virtual clock.
 *
 * The linker puts functions that can refuse memory in front of the allocator (test/CMakeLists.txt). */
#include <weir/http_call.h>

#include "kernel/worker/worker.h"
#include "test/client_members.h"
#include "test/timer_fixture.h"

#define SLOW WEIR_MSEC(100) /* so long 95 of 100 requests take; a histogram has it a little longer */

static _Atomic int left = -1; /* allocations of workers until one is refused; below 0: none is */

void *__real_weir__alloc(size_t size);
void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__wrap_weir__alloc(size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);

static bool
refuse(void)
{
        return atomic_load(&left) >= 0 && weir__worker_self() && atomic_fetch_sub(&left, 1) == 0;
}

void *
__wrap_weir__alloc(size_t size)
{
        return refuse() ? NULL : __real_weir__alloc(size);
}

void *
__wrap_malloc(size_t size)
{
        return refuse() ? NULL : __real_malloc(size);
}

void *
__wrap_calloc(size_t count, size_t size)
{
        return refuse() ? NULL : __real_calloc(count, size);
}

/* -- parts of tests -- */

static weir_nsec after; /* a request is slow */

/* Has the upstream know how long requests take. */
static void
learn(void)
{
        for (int i = 0; i < 200; i++) {
                struct weir__picked picked;

                CU_ASSERT_EQUAL_FATAL(weir__upstream_pick(backend, NULL, &picked, NULL), 0);
                weir__upstream_report(backend, &picked, WEIR__OUTCOME_SUCCESS, SLOW);
        }
        after = weir__upstream_hedge_after(backend);
        CU_ASSERT_TRUE_FATAL(after >= SLOW && after < 2 * SLOW);
}

static void
begin_hedged_by(weir_upstream_choose_fn *choose, unsigned count, unsigned connections)
{
        struct weir_client_config config = WEIR_CLIENT_CONFIG_DEFAULT;
        struct weir_upstream_config settings = WEIR_UPSTREAM_CONFIG_DEFAULT;

        config.connections = connections;
        settings.hedge_percent = 10;
        settings.policy = choose ? WEIR_UPSTREAM_FUNCTION : WEIR_UPSTREAM_TWO_CHOICES;
        settings.choose = choose;
        begin_members(&config, &settings, count);
        weir_test_pass(WEIR_SEC(2));
        learn();
}

static void
begin_hedged(unsigned count)
{
        begin_hedged_by(NULL, count, 0);
}

static uint64_t
requests(void)
{
        uint64_t all = 0;

        for (unsigned i = 0; i < MEMBERS; i++)
                all += doors[i] >= 0 ? info_of(i).requests : 0;
        return all;
}

static size_t
in_flight(void)
{
        size_t all = 0;

        for (unsigned i = 0; i < MEMBERS; i++)
                all += doors[i] >= 0 ? info_of(i).in_flight : 0;
        return all;
}

/* A request that is slow, and its second attempt. */
static void
be_slow(int *first, int *second)
{
        settle();
        *first = take_request();
        weir_test_pass(after);
        *second = take_request();
        CU_ASSERT_TRUE_FATAL(*first >= 0 && *second >= 0 && *first != *second);
}

static void
ends(int member)
{
        settle();
        CU_ASSERT_NOT_EQUAL(*http_peer_ends(&peers[member]), '\0');
}

static void
all_is_over(void)
{
        settle();
        CU_ASSERT_EQUAL(in_flight(), 0);
        CU_ASSERT_EQUAL(info_of(0).failures, 0);
        CU_ASSERT_EQUAL(info_of(1).failures, 0);
        end_members();
}

/* -- when -- */

static void
a_second_one_goes_out_at_the_instant(void)
{
        struct seen seen = {0};

        begin_hedged(2);
        ask(&seen);
        int first = take_request();
        weir_test_pass(after - 1);
        CU_ASSERT_EQUAL(take_request(), -1);
        CU_ASSERT_EQUAL(in_flight(), 1);
        weir_test_pass(1);
        int second = take_request();
        CU_ASSERT_EQUAL(second, !first);
        CU_ASSERT_EQUAL(in_flight(), 2);
        weir_test_pass(10 * after);
        CU_ASSERT_EQUAL(in_flight(), 2); /* there is no third */
        reply(second, OK_WORD);
        SEES(seen, 0, 200, "word");
        ends(first);
        all_is_over();
}

/* A head is an answer, however slow the body is; an interim one is none. */
static void
a_head_is_no_cause_for_another_one(void)
{
        struct seen seen = {0};

        begin_hedged(2);
        ask(&seen);
        int first = take_request();
        reply(first, "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nwo");
        weir_test_pass(10 * after);
        CU_ASSERT_EQUAL(in_flight(), 1);
        reply(first, "rd");
        SEES(seen, 0, 200, "word");
        all_is_over();
}

static void
some_requests_have_no_second_one(void)
{
        struct weir_upstream_config settings = WEIR_UPSTREAM_CONFIG_DEFAULT;

        for (int i = 0; i < 6; i++) {
                struct seen seen = {0};
                static const char *const methods[] = {"POST", "PATCH", "PUT", "GET", "GET", "DELETE"};

                settings.hedge_percent = i == 3 ? 0 : 10;
                begin_members(NULL, &settings, i == 4 ? 1 : 2);
                weir_test_pass(WEIR_SEC(2));
                if (i != 3)
                        learn();
                uint64_t before = requests();
                weir_task *request = ask_new(methods[i], &seen);
                if (i < 3)
                        CU_ASSERT_EQUAL(weir_http_request_set_body(request, "x", 1, NULL), 0);
                start(request);
                settle();
                int first = take_request();
                weir_test_pass(10 * SLOW);
                CU_ASSERT_EQUAL(requests() - before, i == 5 ? 2 : 1);
                reply(first, OK_WORD);
                SEES(seen, 0, 200, "word");
                all_is_over();
        }
}

/* 200 requests of 10 in a hundred have saved up the most that can be: 10. */
static void
the_budget_bounds_them(void)
{
        enum { COUNT = 30 };
        struct seen seen[COUNT] = {{0}};
        weir_series *series[COUNT];

        begin_hedged(2);
        uint64_t before = requests();
        for (int i = 0; i < COUNT; i++)
                series[i] = start_in_series(ask_new("GET", &seen[i]));
        weir_test_pass(2 * after);
        CU_ASSERT_EQUAL(requests() - before, COUNT + 10); /* what they deposit comes on top of the most */
        for (int i = 0; i < COUNT; i++) {
                weir_series_cancel(series[i]);
                weir_series_unref(series[i]);
        }
        all_is_over();
}

/* -- who wins -- */

static void
the_first_wins(void)
{
        struct seen seen = {0};
        int first, second;

        begin_hedged(2);
        start(ask_new("GET", &seen));
        be_slow(&first, &second);
        reply(second, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\noth");
        reply(first, OK_WORD);
        SEES(seen, 0, 200, "word");
        ends(second);
        all_is_over();
}

/* The first one has a part of its body. */
static void
the_second_wins(void)
{
        struct seen seen = {.wants = "Server"};
        int first, second;

        begin_hedged(2);
        start(ask_new("GET", &seen));
        be_slow(&first, &second);
        reply(first, "HTTP/1.1 200 OK\r\nContent-Length: 9\r\nServer: one\r\n\r\nfirst");
        reply(second, "HTTP/1.1 404 No\r\nContent-Length: 6\r\nServer: other\r\n\r\nsecond");
        SEES(seen, 0, 404, "second");
        CU_ASSERT_STRING_EQUAL(seen.field, "other");
        CU_ASSERT_EQUAL(seen.stage, WEIR_HTTP_COMPLETE);
        CU_ASSERT_STRING_EQUAL(seen.url, "http://backend/");
        ends(first);
        all_is_over();
}

/* A failure is no answer: the other one may have a better one. */
static void
a_failure_waits_for_the_other_one(void)
{
        static const char *const bad[] = {"", UNAVAILABLE, "nonsense\r\n\r\n"};

        for (int i = 0; i < 6; i++) {
                struct seen seen = {0};
                int first, second;

                begin_hedged(2);
                start(ask_new("GET", &seen));
                be_slow(&first, &second);
                int fails = i % 2 ? first : second, works = i % 2 ? second : first;
                reply(fails, bad[i / 2]);
                http_peer_close(&peers[fails]);
                settle();
                CU_ASSERT_EQUAL(seen.calls, 0);
                CU_ASSERT_EQUAL(in_flight(), 1);
                reply(works, OK_WORD);
                SEES(seen, 0, 200, "word");
                CU_ASSERT_EQUAL(info_of((unsigned)fails).failures, 1);
                CU_ASSERT_EQUAL(info_of((unsigned)works).failures, 0);
                CU_ASSERT_EQUAL(in_flight(), 0);
                end_members();
        }
}

static void
when_both_fail_there_is_one_end(void)
{
        for (int i = 0; i < 4; i++) {
                struct seen seen = {0};
                int member[2];

                begin_hedged(2);
                start(ask_new("GET", &seen));
                be_slow(&member[0], &member[1]);
                http_peer_close(&peers[member[i % 2]]);
                settle();
                CU_ASSERT_EQUAL(seen.calls, 0);
                reply(member[!(i % 2)], i < 2 ? "nonsense\r\n\r\n" : UNAVAILABLE);
                CU_ASSERT_EQUAL(seen.calls, 1);
                CU_ASSERT_EQUAL(seen.status, i == 0 ? -ECONNRESET : i == 1 ? -EBADMSG : 0);
                CU_ASSERT_EQUAL(seen.code, i < 2 ? 0 : 503);
                CU_ASSERT_EQUAL(info_of(0).failures, 1);
                CU_ASSERT_EQUAL(info_of(1).failures, 1);
                CU_ASSERT_EQUAL(in_flight(), 0);
                end_members();
        }
}

static void
the_second_is_refused(void)
{
        struct seen seen = {0};

        begin_hedged(2);
        ask(&seen);
        int first = take_request();
        close(doors[!first]);
        weir_test_pass(2 * after);
        CU_ASSERT_EQUAL(seen.calls, 0);
        CU_ASSERT_EQUAL(info_of((unsigned)!first).failures, 1);
        reply(first, OK_WORD);
        SEES(seen, 0, 200, "word");
        doors[!first] = -1;
        end_members();
}

/* The connection was an old one that its server has closed: the request goes out again when the second one fails as well. */
static void
a_replay_waits_for_the_other_one(void)
{
        struct seen before = {0}, seen = {0};

        begin_hedged(2);
        ask(&before);
        int first = take_request();
        CU_ASSERT_EQUAL(weir_upstream_disable(backend, address_of((unsigned)!first)), 0);
        reply(first, OK_WORD);
        ask(&seen);
        HAS(http_peer_request(&peers[first]), "GET / ");
        CU_ASSERT_EQUAL(weir_upstream_enable(backend, address_of((unsigned)!first)), 0);
        weir_test_pass(after);
        CU_ASSERT_EQUAL(take_request(), !first);
        http_peer_close(&peers[first]);
        settle();
        CU_ASSERT_EQUAL(in_flight(), 2);
        http_peer_close(&peers[!first]);
        settle();
        CU_ASSERT_EQUAL(seen.calls, 0);
        CU_ASSERT_EQUAL(take_request(), first);
        weir_test_pass(2 * after);
        CU_ASSERT_EQUAL(take_request(), -1);
        reply(first, OK_WORD);
        SEES(seen, 0, 200, "word");
        CU_ASSERT_EQUAL(info_of((unsigned)first).failures, 0);
        CU_ASSERT_EQUAL(info_of((unsigned)!first).failures, 1);
        CU_ASSERT_EQUAL(in_flight(), 0);
        end_members();
}

/* -- redirects -- */

static void
redirects_are_followed_by_either(void)
{
        for (int i = 0; i < 2; i++) {
                struct seen seen = {0};
                int member[2];

                begin_hedged(2);
                weir_task *request = ask_new("GET", &seen);
                CU_ASSERT_EQUAL(weir_http_request_set_redirects(request, 2), 0);
                start(request);
                be_slow(&member[0], &member[1]);
                reply(member[i], "HTTP/1.1 302 Found\r\nLocation: /next\r\nContent-Length: 0\r\n\r\n");
                HAS(http_peer_request(&peers[member[i]]), "GET /next ");
                reply(member[i], OK_WORD);
                SEES(seen, 0, 200, "word");
                CU_ASSERT_STRING_EQUAL(seen.url, "http://backend/next");
                ends(member[!i]);
                all_is_over();
        }
}

/* -- a first one that waits for a connection -- */

static void
enable(unsigned member, bool is_enabled)
{
        CU_ASSERT_EQUAL((is_enabled ? weir_upstream_enable : weir_upstream_disable)(backend, address_of(member)), 0);
}

/* Keeps the one connection to a member busy; other requests wait behind this one, which has no second attempt. */
static void
be_busy(unsigned member, struct seen *seen)
{
        enable(!member, false);
        start(ask_new("POST", seen));
        settle();
        CU_ASSERT_EQUAL_FATAL(take_request(), (int)member);
        enable(!member, true);
}

/* A request that waits behind it, in a series. */
static weir_series *
wait_behind(unsigned member, struct seen *seen, weir_nsec limit)
{
        weir_task *request = ask_new("GET", seen);

        CU_ASSERT_EQUAL(weir_http_request_set_limit(request, WEIR_HTTP_LIMIT_WHOLE, limit), 0);
        enable(!member, false);
        weir_series *series = start_in_series(request);
        settle();
        enable(!member, true);
        CU_ASSERT_EQUAL(stats().waiting, 1);
        return series;
}

/* How many hedges there may be now. */
static unsigned
hedges_left(void)
{
        unsigned count = 0;

        while (weir__upstream_may_hedge(backend))
                count++;
        return count;
}

static size_t
choose_last(const weir_member *const *members, size_t count, const void *key, size_t key_size, void *context)
{
        (void)members;
        (void)key;
        (void)key_size;
        (void)context;
        return count - 1;
}

/* What happens to the two attempts. */
enum waits {
        SECOND_WINS,
        FIRST_IS_SENT,  /* and wins */
        FIRST_IS_LATER, /* it is sent; the second wins */
        SECOND_FAILS,   /* the first goes on */
        CANCEL,
        LATE,
        FIRST_IS_REFUSED, /* the second wins */
        BOTH_FAIL,        /* first the first one, by a refused connect */
        WAITS_HAPPENINGS,
};

/* The first waits at member 0, the second was sent to member 1. */
static void
go_on(enum waits happens, weir_series *series, struct seen *busy, struct seen *seen)
{
        switch (happens) {
        case FIRST_IS_SENT:
        case FIRST_IS_LATER:
                reply(0, OK_WORD);
                SEES(*busy, 0, 200, "word");
                HAS(http_peer_request(&peers[0]), "GET / ");
                CU_ASSERT_EQUAL(in_flight(), 2);
                reply(happens == FIRST_IS_SENT ? 0 : 1, OK_WORD);
                ends(happens == FIRST_IS_SENT ? 1 : 0);
                break;
        case SECOND_FAILS:
                http_peer_close(&peers[1]);
                settle();
                CU_ASSERT_EQUAL(seen->calls, 0);
                CU_ASSERT_EQUAL(stats().waiting, 1);
                reply(0, OK_WORD);
                HAS(http_peer_request(&peers[0]), "GET / ");
                reply(0, OK_WORD);
                break;
        case CANCEL: weir_series_cancel(series); break;
        case LATE: weir_test_pass(after); break;
        case FIRST_IS_REFUSED:
        case BOTH_FAIL:
                shut_door(0);
                reply(0, OK_CLOSES);
                SEES(*busy, 0, 200, "word");
                CU_ASSERT_EQUAL(seen->calls, 0);
                CU_ASSERT_EQUAL(stats().waiting, 0);
                if (happens == BOTH_FAIL)
                        http_peer_close(&peers[1]);
                else
                        reply(1, OK_WORD);
                break;
        default: reply(1, OK_WORD); break;
        }
        settle();
}

static void
a_request_that_waits_has_a_second_one(void)
{
        for (int i = 0; i < 2 * WAITS_HAPPENINGS; i++) {
                enum waits happens = (enum waits)(i / 2);
                struct seen busy = {0}, seen = {0};

                begin_hedged_by(i % 2 ? choose_last : NULL, 2, 1);
                be_busy(0, &busy);
                weir_series *series = wait_behind(0, &seen, happens == LATE ? 2 * after : WEIR_SEC(100));
                weir_test_pass(after - 1);
                CU_ASSERT_EQUAL(take_request(), -1);
                weir_test_pass(1);
                CU_ASSERT_EQUAL(take_request(), 1);
                CU_ASSERT_EQUAL(in_flight(), 3);
                go_on(happens, series, &busy, &seen);
                switch (happens) {
                case CANCEL: SEES(seen, -ECANCELED, 0, ""); break;
                case LATE: SEES(seen, -ETIMEDOUT, 0, ""); break;
                case BOTH_FAIL:
                        SEES(seen, -ECONNREFUSED, 0, "");
                        HAS(seen.problem, "Connection refused");
                        break;
                default: SEES(seen, 0, 200, "word");
                }
                CU_ASSERT_EQUAL(stats().waiting, 0);
                if (!busy.calls)
                        reply(0, OK_WORD);
                SEES(busy, 0, 200, "word");
                settle();
                CU_ASSERT_EQUAL(in_flight(), 0);
                CU_ASSERT_EQUAL(info_of(1).failures, happens == SECOND_FAILS || happens == BOTH_FAIL);
                CU_ASSERT_EQUAL(hedges_left(), 9);
                weir_series_unref(series);
                end_members();
        }
}

/* The second one waits as well, so nothing is sent twice, and the budget has its share back. */
static void
a_second_one_that_is_not_sent_costs_nothing(void)
{
        for (int i = 0; i < 5; i++) {
                struct weir_upstream_config settings = WEIR_UPSTREAM_CONFIG_DEFAULT;
                struct weir_client_config config = WEIR_CLIENT_CONFIG_DEFAULT;
                struct seen busy[2] = {{0}}, seen = {0};

                config.connections = 1;
                settings.hedge_percent = 10;
                settings.budget = weir_retry_budget_new(10, 5);
                begin_members(&config, &settings, i == 1 ? 1 : 2);
                weir_test_pass(WEIR_SEC(2));
                learn();
                if (i == 0 || i == 4) {
                        be_busy(0, &busy[0]);
                        be_busy(1, &busy[1]);
                        weir_series *series = wait_behind(0, &seen, WEIR_SEC(100));
                        weir_test_pass(after);
                        CU_ASSERT_EQUAL(stats().waiting, 2);
                        if (i == 0)
                                reply(0, OK_WORD);
                        else
                                weir_series_cancel(series);
                        settle();
                        if (i == 0)
                                HAS(http_peer_request(&peers[0]), "GET / ");
                        if (i == 0)
                                reply(0, OK_WORD);
                        CU_ASSERT_EQUAL(stats().waiting, 0);
                        if (i == 4)
                                reply(0, OK_WORD);
                        reply(1, OK_WORD);
                        SEES(busy[1], 0, 200, "word");
                        weir_series_unref(series);
                } else {
                        ask(&seen);
                        int first = take_request();
                        if (i == 2)
                                shut_door((unsigned)!first);
                        if (i == 3)
                                atomic_store(&left, 0);
                        weir_test_pass(after);
                        atomic_store(&left, -1);
                        CU_ASSERT_EQUAL(take_request(), -1);
                        reply(first, OK_WORD);
                }
                CU_ASSERT_EQUAL(seen.status, i == 4 ? -ECANCELED : 0);
                CU_ASSERT_EQUAL(in_flight(), 0);
                CU_ASSERT_EQUAL(hedges_left(), 5); /* the program's budget has no more */
                weir_retry_budget_free(settings.budget);
                end_members();
        }
}

/* The function runs while the first one ends, in each way. */
static _Atomic int fate;
static weir_series *fated;

static size_t
choose_and_interfere(const weir_member *const *members, size_t count, const void *key, size_t key_size, void *context)
{
        if (fate == 1)
                weir_series_cancel(fated);
        return fate == 2 ? count : choose_last(members, count, key, key_size, context);
}

static void
the_program_may_choose_no_second_one(void)
{
        for (int i = 0; i < 6; i++) {
                struct seen busy = {0}, seen = {0};

                fate = 0;
                begin_hedged_by(choose_and_interfere, 2, 1);
                if (i < 3)
                        be_busy(0, &busy);
                else
                        enable(1, false);
                fated = i < 3 ? wait_behind(0, &seen, WEIR_SEC(100)) : start_in_series(ask_new("GET", &seen));
                if (i >= 3) {
                        settle();
                        CU_ASSERT_EQUAL(take_request(), 0);
                        enable(1, true);
                }
                fate = i % 3;
                weir_test_pass(after);
                CU_ASSERT_EQUAL(take_request(), fate == 0 ? 1 : -1);
                if (fate == 0)
                        reply(1, OK_WORD);
                if (fate == 2 && i < 3) {
                        CU_ASSERT_EQUAL(stats().waiting, 1);
                        reply(0, OK_WORD);
                        HAS(http_peer_request(&peers[0]), "GET / ");
                }
                if (fate == 2)
                        reply(0, OK_WORD);
                CU_ASSERT_EQUAL(seen.calls, 1);
                CU_ASSERT_EQUAL(seen.status, fate == 1 ? -ECANCELED : 0);
                if (i < 3 && !busy.calls)
                        reply(0, OK_WORD);
                settle();
                CU_ASSERT_EQUAL(in_flight(), 0);
                CU_ASSERT_EQUAL(hedges_left(), fate == 0 ? 9 : 10);
                weir_series_unref(fated);
                end_members();
        }
}

/* -- cancels, limits, the end of the runtime -- */

static void
a_cancel_ends_both(void)
{
        for (int i = 0; i < 6; i++) {
                struct seen seen = {0};
                int first, second;

                begin_hedged(2);
                weir_series *series = start_in_series(ask_new("GET", &seen));
                settle();
                first = take_request();
                weir_test_pass(i == 0 ? after - 1 : after);
                second = i > 1 ? take_request() : -1; /* 1: it is connected, at most */
                if (i == 3)
                        reply(second, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\noth");
                if (i == 4)
                        http_peer_close(&peers[first]);
                if (i == 5)
                        http_peer_close(&peers[second]);
                settle();
                CU_ASSERT_EQUAL(seen.calls, 0);
                weir_series_cancel(series);
                weir_series_unref(series);
                settle();
                CU_ASSERT_EQUAL(seen.calls, 1);
                CU_ASSERT_EQUAL(seen.status, -ECANCELED);
                CU_ASSERT_EQUAL(in_flight(), 0);
                CU_ASSERT_EQUAL(info_of(0).failures + info_of(1).failures, i == 4 || i == 5);
                end_members();
        }
}

static void
the_limit_of_the_whole_ends_both(void)
{
        for (int i = 0; i < 2; i++) {
                struct seen seen = {0};
                int first, second;

                begin_hedged(2);
                weir_task *request = ask_new("GET", &seen);
                CU_ASSERT_EQUAL(weir_http_request_set_limit(request, WEIR_HTTP_LIMIT_WHOLE, after + 10), 0);
                weir_nsec from = weir_now();
                start(request);
                be_slow(&first, &second);
                if (i)
                        http_peer_close(&peers[first]);
                weir_test_pass(9);
                CU_ASSERT_EQUAL(seen.calls, 0);
                weir_test_pass(1);
                CU_ASSERT_EQUAL(seen.calls, 1);
                CU_ASSERT_EQUAL(seen.status, i ? -ECONNRESET : -ETIMEDOUT);
                CU_ASSERT_EQUAL(seen.at - from, after + 10);
                CU_ASSERT_EQUAL(in_flight(), 0);
                end_members();
        }
}

static void
the_end_of_the_runtime_ends_both(void)
{
        for (int i = 0; i < 3; i++) {
                struct seen seen = {0};
                int first, second;

                begin_hedged(2);
                start(ask_new("GET", &seen));
                if (i) {
                        be_slow(&first, &second);
                        if (i == 2)
                                http_peer_close(&peers[first]);
                }
                settle();
                weir_test_end();
                CU_ASSERT_EQUAL(seen.calls, 1);
                CU_ASSERT_EQUAL(seen.status, i == 2 ? -ECONNRESET : -ESHUTDOWN);
                CU_ASSERT_EQUAL(in_flight(), 0);
                weir_test_begin_virtual();
                end_members();
        }
}

/* -- without memory -- */

/* The first one goes on alone. */
static void
without_memory_there_is_no_second_one(void)
{
        unsigned refused = 0;

        for (int at = 0; at < 60; at++) {
                struct seen seen = {0};

                begin_hedged(2);
                ask(&seen);
                int first = take_request();
                atomic_store(&left, at);
                weir_test_pass(after);
                refused += atomic_exchange(&left, -1) < 0;
                int second = take_request();
                CU_ASSERT_EQUAL(seen.calls, 0);
                if (second >= 0)
                        http_peer_close(&peers[second]);
                settle();
                reply(first, OK_WORD);
                SEES(seen, 0, 200, "word");
                CU_ASSERT_EQUAL(in_flight(), 0);
                end_members();
        }
        CU_ASSERT_TRUE(refused > 5);
        CU_ASSERT_TRUE(refused < 60);
}

/* -- a storm -- */

#define STORM    (WEIR_TEST_SANITIZED ? 2000 : 5000)
#define TOGETHER 16

static _Atomic unsigned storm_ended, storm_good;

static void
count(weir_task *request, void *context)
{
        (void)context;
        if (weir_task_status(request) == 0) {
                size_t size;

                CU_ASSERT_EQUAL(weir_http_response_status(request), 200);
                CU_ASSERT_STRING_EQUAL((const char *)weir_http_response_body(request, &size), "word");
                CU_ASSERT_EQUAL(size, 4);
                atomic_fetch_add(&storm_good, 1);
        }
        atomic_fetch_add(&storm_ended, 1);
}

/* The library's own server, some of whose replies are late. */
static void
serve(weir_task *exchange, void *context)
{
        static _Atomic uint64_t next;
        struct weir_test_random random = {weir_test_seed() ^ (atomic_fetch_add(&next, 1) << 20)};

        (void)context;
        if (weir_test_random_below(&random, 8) == 0)
                weir_series_push(weir_series_of(exchange),
                                 weir_timer_new((weir_nsec)weir_test_random_below(&random, WEIR_MSEC(3)), NULL, NULL));
        weir_http_reply_text(exchange, 200, "word");
}

/* Any one, and now and then so late that the worker has lost its poller. */
static size_t
choose_any(const weir_member *const *members, size_t count, const void *key, size_t key_size, void *context)
{
        static _Atomic uint64_t next;
        struct weir_test_random random = {weir_test_seed() ^ (atomic_fetch_add(&next, 1) << 20)};

        (void)members;
        (void)key;
        (void)key_size;
        (void)context;
        if (weir_test_random_below(&random, 64) == 0)
                weir_test_sleep(WEIR_MSEC(2));
        return (size_t)weir_test_random_below(&random, count);
}

static void
count_call(weir_task *head, void *context)
{
        (void)context;
        (void)head;
        atomic_fetch_add(&storm_ended, 1);
}

/* A request, or a call, which is given up behind its head. */
static weir_series *
start_one(struct weir_test_random *random)
{
        if (weir_test_random_below(random, 4))
                return start_in_series(weir_client_request_new(client, "GET", "http://backend/", count, NULL));
        weir_http_call *call = weir_http_call_new(client, "GET", "http://backend/");
        weir_series *series = start_in_series(weir_http_call_head_new(call, count_call, NULL));
        weir_http_call_unref(call);
        return series;
}

/* Two members work, and a third one refuses connects.  If there are few connections, many requests wait. */
static void
storm(weir_upstream_choose_fn *choose, unsigned connections)
{
        struct weir_config runtime = WEIR_CONFIG_DEFAULT;
        struct weir_client_config config = WEIR_CLIENT_CONFIG_DEFAULT;
        struct weir_upstream_config settings = WEIR_UPSTREAM_CONFIG_DEFAULT;
        struct weir_test_random random = {weir_test_seed()};
        weir_http_server *servers[2];
        weir_series *series[TOGETHER] = {NULL};
        unsigned began = 0;

        atomic_store(&storm_ended, 0);
        atomic_store(&storm_good, 0);
        settings.policy = choose ? WEIR_UPSTREAM_FUNCTION : WEIR_UPSTREAM_TWO_CHOICES;
        settings.choose = choose;
        settings.hedge_percent = 50;
        settings.hedge_percentile = 50;
        settings.failures_in_row = UINT_MAX;
        settings.window_percent = 101;
        config.connections = connections;
        runtime.pollers = 2;
        runtime.blocking_limit = WEIR_MSEC(1);
        CU_ASSERT_EQUAL_FATAL(weir_init(&runtime), 0);
        begin_with(&config);
        open_members(&settings, 0);
        for (int i = 0; i < 2; i++) {
                char address[64];

                servers[i] = weir_http_server_new(NULL, serve, NULL);
                CU_ASSERT_PTR_NOT_NULL_FATAL(servers[i]);
                CU_ASSERT_EQUAL_FATAL(weir_http_server_start(servers[i], "127.0.0.1:0"), 0);
                snprintf(address, sizeof address, "127.0.0.1:%d", weir_http_server_port(servers[i]));
                CU_ASSERT_EQUAL(weir_upstream_add(backend, address, NULL), 0);
        }
        doors[2] = http_peer_listen(&ports[2]);
        CU_ASSERT_EQUAL(weir_upstream_add(backend, address_of(2), NULL), 0);
        shut_door(2);
        while (began < (unsigned)STORM) {
                unsigned place = (unsigned)weir_test_random_below(&random, TOGETHER);

                if (series[place]) {
                        if (weir_test_random_below(&random, 4) == 0)
                                weir_series_cancel(series[place]);
                        weir_series_unref(series[place]);
                }
                series[place] = start_one(&random);
                began++;
                while (began - atomic_load(&storm_ended) > TOGETHER)
                        sched_yield();
        }
        for (unsigned i = 0; i < TOGETHER; i++)
                weir_series_unref(series[i]);
        WEIR_TEST_EVENTUALLY(storm_ended == (unsigned)STORM);
        CU_ASSERT_TRUE(storm_good > 0);
        struct weir_member_info info = {.size = sizeof info};
        uint64_t all = 0;
        for (size_t i = 0; i < 3; i++) {
                CU_ASSERT_EQUAL(weir_upstream_member(backend, i, &info), 0);
                all += info.requests;
                WEIR_TEST_EVENTUALLY(weir_upstream_member(backend, i, &info) == 0 && info.in_flight == 0);
        }
        fprintf(stderr, "%u requests, %u complete, %llu sent\n", began, storm_good, (unsigned long long)all);
        for (int i = 0; i < 2; i++) {
                CU_ASSERT_EQUAL(weir_http_server_stop(servers[i], WEIR_FOREVER), 0);
                weir_http_server_free(servers[i]);
        }
        end_members();
}

static void
a_storm_of_slow_requests_and_cancels(void)
{
        storm(NULL, 0);
}

static void
a_storm_of_requests_that_wait(void)
{
        storm(NULL, 3);
}

static void
a_storm_in_which_the_program_chooses(void)
{
        storm(choose_any, 3);
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(a_second_one_goes_out_at_the_instant),
                WEIR_TEST(a_head_is_no_cause_for_another_one),
                WEIR_TEST(some_requests_have_no_second_one),
                WEIR_TEST(the_budget_bounds_them),
                WEIR_TEST(the_first_wins),
                WEIR_TEST(the_second_wins),
                WEIR_TEST(a_failure_waits_for_the_other_one),
                WEIR_TEST(when_both_fail_there_is_one_end),
                WEIR_TEST(the_second_is_refused),
                WEIR_TEST(a_replay_waits_for_the_other_one),
                WEIR_TEST(redirects_are_followed_by_either),
                WEIR_TEST(a_request_that_waits_has_a_second_one),
                WEIR_TEST(a_second_one_that_is_not_sent_costs_nothing),
                WEIR_TEST(the_program_may_choose_no_second_one),
                WEIR_TEST(a_cancel_ends_both),
                WEIR_TEST(the_limit_of_the_whole_ends_both),
                WEIR_TEST(the_end_of_the_runtime_ends_both),
                WEIR_TEST(without_memory_there_is_no_second_one),
                WEIR_TEST(a_storm_of_slow_requests_and_cancels),
                WEIR_TEST(a_storm_of_requests_that_wait),
                WEIR_TEST(a_storm_in_which_the_program_chooses),
        };

        return weir_test_main("client_hedge", tests, sizeof tests / sizeof *tests);
}
