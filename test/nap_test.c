/* test/nap_test.c: a server whose replies are all late naps between its deadlines (docs/decisions/037): nobody is answered early or
 * forgotten, and who is in a hurry, or comes from another thread, is not kept waiting for longer than a nap. */
#include <stdatomic.h>
#include <string.h>

#include "factory/task/series.h"
#include "factory/timer/timer.h"
#include "kernel/loop/pollers.h"
#include "kernel/sched/worker.h"
#include "server/base/server.h"
#include "test/fixture.h"
#include "test/http_client.h"

#define CLIENTS 400
#define DELAY   WEIR_MSEC(110) /* above WEIR__UNHURRIED */

static struct fixture {
        weir_http_server *server;
        struct http_client clients[CLIENTS];
        weir_nsec asked[CLIENTS];
        struct http_reply reply;
        atomic_uint naps; /* requests that were read after a nap */
        atomic_bool naps_now;
        atomic_uint gathered;     /* requests that were read when their visit had just begun */
        atomic_int empties;       /* enum empties */
        unsigned empty_naps;      /* the poller's: in a row, that it took for such */
        weir_nsec gathered_until; /* after the last of them */
        atomic_bool helped;       /* on a machine that is busy with other things sleeps are too long to be noticed as disturbed */
} at;

#define HELPED_AFTER WEIR_SEC(1)
#define EMPTY_NAPS   5

/* A nap is taken for one that has found nothing. */
enum empties { EMPTIES_NONE, EMPTIES_BEGIN, EMPTIES_COUNTED, EMPTIES_DONE };

static weir_nsec
gathers_until(struct weir__poller *poller)
{
        return atomic_load_explicit(&poller->gathers_until, memory_order_relaxed);
}

static void
count_empty_naps(struct weir__poller *poller, bool naps)
{
        bool begins = !naps || atomic_load(&at.empties) == EMPTIES_BEGIN;

        if (begins) {
                poller->disturbed = 4; /* as when it begins to nap */
                at.empty_naps = 0;
                atomic_store(&at.empties, EMPTIES_COUNTED);
        } else if (gathers_until(poller) != at.gathered_until && ++at.empty_naps > EMPTY_NAPS) {
                atomic_store(&at.empties, EMPTIES_DONE);
        }
        at.gathered_until = gathers_until(poller);
        poller->came = begins ? CLIENTS : 0; /* the first one finds many */
}

/* What was read when its visit had just begun. */
static void
check_deadline(weir_task *timer, void *gathered)
{
        const struct weir__timer *its = (const struct weir__timer *)timer;

        CU_ASSERT(its->node.deadline >= (weir_nsec)(intptr_t)gathered + DELAY);
}

/* "/": a word after DELAY.  "/now": at once. */
static void
handle(weir_task *exchange, void *context)
{
        struct weir__poller *poller = weir__worker_self()->poller;
        bool naps = poller->is_napping;

        (void)context;
        if (atomic_load(&at.helped) && strcmp(weir_http_path(exchange), "/now") != 0)
                poller->disturbed = CLIENTS;
        atomic_fetch_add(&at.naps, naps);
        atomic_store(&at.naps_now, naps);
        if (atomic_load(&at.empties) == EMPTIES_BEGIN || atomic_load(&at.empties) == EMPTIES_COUNTED)
                count_empty_naps(poller, naps);
        weir_nsec gathered = naps && weir_now() < gathers_until(poller) ? gathers_until(poller) : 0;
        atomic_fetch_add(&at.gathered, gathered != 0);
        weir_http_reply_text(exchange, 200, "word\n");
        if (strcmp(weir_http_path(exchange), "/now") != 0)
                weir_series_push(weir_series_of(exchange), weir_timer_new(DELAY, check_deadline, (void *)(intptr_t)gathered));
}

static void
ask(unsigned i)
{
        at.asked[i] = weir_now();
        http_send_text(&at.clients[i], "GET / HTTP/1.1\r\nHost: a\r\n\r\n");
}

static void
begin(void)
{
        atomic_store(&at.naps, 0);
        atomic_store(&at.helped, false);
        atomic_store(&at.empties, EMPTIES_NONE);
        weir_test_begin_real(1);
        at.server = http_server(NULL, handle, NULL);
        for (unsigned i = 0; i < CLIENTS; i++) {
                http_open(&at.clients[i], weir_http_server_port(at.server));
                ask(i);
        }
}

/* Each client is answered, not before its time, and asks again. */
static void
go_round(void)
{
        for (unsigned i = 0; i < CLIENTS; i++) {
                CU_ASSERT_FATAL(http_receive(&at.clients[i], &at.reply, false));
                CU_ASSERT(weir_now() - at.asked[i] >= DELAY);
                CU_ASSERT_EQUAL(at.reply.status, 200);
                ask(i);
        }
}

static void
go_on_until_it_naps(void)
{
        int64_t began = weir_test_now();

        do {
                go_round();
                if (weir_test_now() - began > HELPED_AFTER)
                        atomic_store(&at.helped, true);
                if (atomic_load(&at.naps) < CLIENTS)
                        weir_test_pause(began, "it naps", __FILE__, __LINE__);
        } while (atomic_load(&at.naps) < CLIENTS);
}

static void
end(void)
{
        for (unsigned i = 0; i < CLIENTS; i++)
                http_close(&at.clients[i]);
        http_reply_done(&at.reply);
        CU_ASSERT_EQUAL(weir_http_server_stop(at.server, WEIR_SEC(10)), 0);
        weir_http_server_free(at.server);
        weir_test_end();
}

static void
nobody_is_answered_early(void)
{
        begin();
        go_on_until_it_naps();
        go_round();
        end();
}

static void
a_reply_at_once_ends_it(void)
{
        struct http_client hurried;

        begin();
        http_open(&hurried, weir_http_server_port(at.server));
        go_on_until_it_naps();
        for (int64_t began = weir_test_now();; weir_test_pause(began, "it is awake", __FILE__, __LINE__)) {
                CU_ASSERT_FATAL(http_ask(&hurried, "GET /now HTTP/1.1\r\nHost: a\r\n\r\n", &at.reply));
                if (!atomic_load(&at.naps_now)) /* it was read after no nap */
                        break;
        }
        go_round();
        http_close(&hurried);
        end();
}

/* What is read in one visit is due in one. */
static void
a_visit_has_one_deadline(void)
{
        begin();
        atomic_store(&at.gathered, 0);
        go_on_until_it_naps();
        for (int64_t began = weir_test_now(); atomic_load(&at.gathered) < CLIENTS;) {
                go_round();
                weir_test_pause(began, "a visit reads soon", __FILE__, __LINE__);
        }
        end();
}

/* Clients in step with it may all have been read when it naps. */
static void
a_nap_that_finds_nothing_is_not_the_last(void)
{
        begin();
        go_on_until_it_naps();
        atomic_store(&at.helped, false);
        atomic_store(&at.empties, EMPTIES_BEGIN);
        for (int64_t began = weir_test_now(); atomic_load(&at.empties) != EMPTIES_DONE;) {
                go_round();
                weir_test_pause(began, "it naps on", __FILE__, __LINE__);
        }
        end();
}

static void
note_time(weir_task *timer, void *when)
{
        (void)timer;
        *(weir_nsec *)when = weir_now();
}

/* As the series of an exchange that was read after a nap. */
static void
be_fine(weir_task *task, void *context)
{
        (void)context;
        weir_series_of(task)->grain = WEIR__FINE_GRAIN;
}

/* Only the start of a timer counts from the end of the beginning of a visit. */
static void
an_extended_timer_gathers_once(void)
{
        weir_nsec ended_at = 0;

        weir_test_begin_virtual();
        struct weir__poller *poller = weir__poller_at(0);
        weir_series *series = weir_series_new(NULL, NULL);
        CU_ASSERT_PTR_NOT_NULL_FATAL(series);
        weir_series_push(series, weir_empty_new(be_fine, NULL));
        weir_series_push(series, weir_timer_new_named("gathered", DELAY, note_time, &ended_at));
        weir_nsec until = weir_now() + WEIR_USEC(100);
        atomic_store_explicit(&poller->gathers_until, until, memory_order_relaxed);
        CU_ASSERT_EQUAL(weir_series_start(series), 0);
        WEIR_TEST_EVENTUALLY(weir_timer_extend("gathered", WEIR_MSEC(1)) == 1);
        for (unsigned i = 1; i < 10; i++) {
                CU_ASSERT_EQUAL(weir_timer_extend("gathered", WEIR_MSEC(1)), 1);
        }
        CU_ASSERT_EQUAL(weir_clock_advance(WEIR_SEC(1)), 0);
        CU_ASSERT(ended_at >= until + DELAY + WEIR_MSEC(10));
        CU_ASSERT(ended_at < until + DELAY + WEIR_MSEC(10) + WEIR__FINE_GRAIN);
        weir_test_end();
}

static void
count(weir_task *task, void *latch)
{
        (void)task;
        weir_test_latch_count_down(latch);
}

static void
other_threads_wake_it(void)
{
        begin();
        go_on_until_it_naps();
        for (unsigned i = 0; i < 1000; i++) {
                struct weir_test_latch passed = WEIR_TEST_LATCH(1);

                CU_ASSERT_EQUAL_FATAL(weir_task_start(weir_empty_new(count, &passed)), 0);
                weir_test_latch_wait(&passed);
        }
        go_round();
        end();
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(nobody_is_answered_early),
                WEIR_TEST(a_visit_has_one_deadline),
                WEIR_TEST(a_nap_that_finds_nothing_is_not_the_last),
                WEIR_TEST(an_extended_timer_gathers_once),
                WEIR_TEST(a_reply_at_once_ends_it),
                WEIR_TEST(other_threads_wake_it),
        };

        return weir_test_main("nap", tests, sizeof tests / sizeof *tests);
}
