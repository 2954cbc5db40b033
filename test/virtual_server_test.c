/* test/virtual_server_test.c: the HTTP server on the virtual clock: its limits are half a minute, the tests take milliseconds.
 *
 * A client that is a thread of its own holds the clock between a reply and its next request.  It takes the hold when the reply is
 * there but not read, so time stands still anyhow, and lets go when the next request is sent.  A client on the thread that
 * advances the clock needs no hold.
 *
 * The clock gives up a client that does not read within a second.  A thread that a busy machine stops for so long is late through
 * no fault of its own, and time went on without it: then the test says nothing, and is made again. */
#include <poll.h>
#include <stdatomic.h>
#include <sys/socket.h>

#include "server/base/server.h"
#include "test/http_client.h"
#include "test/timer_fixture.h"

#define LIMIT       WEIR_SEC(30)
#define GET(target) "GET " target " HTTP/1.1\r\nHost: a\r\n\r\n"
#define FAST        WEIR_TEST_TOLERANCE
#define LARGE       ((size_t)4 * 1024 * 1024)
#define CROWD       1000

static struct fixture {
        weir_http_server *server;
        int port;
        struct http_client client;
        struct http_reply reply;
        weir_nsec began;
        int64_t really_began;
        unsigned due, due_before; /* callbacks of the many timers that have run; when a request of the first one had its turn */
        unsigned rounds;          /* of a work item that is ready for as long as timers are due */
} at;

static void
go_round(weir_task *task, void *context)
{
        (void)task;
        (void)context;
        at.rounds++;
        if (at.due < CROWD)
                CU_ASSERT_EQUAL(weir_task_start(weir_empty_new(go_round, NULL)), 0);
}

/* The first of many that are due has the client ask.  The system may take a moment to pass that on. */
static void
due(weir_task *timer, void *context)
{
        (void)timer;
        (void)context;
        if (++at.due > 1)
                return;
        CU_ASSERT_TRUE(http_send_text(&at.client, GET("/between")));
        CU_ASSERT_EQUAL(weir_task_start(weir_empty_new(go_round, NULL)), 0);
        poll(NULL, 0, 2);
}

static void
start_many(void)
{
        for (int i = 0; i < CROWD; i++)
                CU_ASSERT_EQUAL(weir_task_start(weir_timer_new(WEIR_SEC(1), due, NULL)), 0);
}

/* "/": a word at once.  "/later": after 20 s.  "/large": more than the sockets hold.  "/many": has many timers start. */
static void
handle(weir_task *exchange, void *context)
{
        const char *path = weir_http_path(exchange);
        static char bytes[LARGE];

        (void)context;
        if (strcmp(path, "/large") == 0) {
                weir_http_reply_append(exchange, bytes, sizeof bytes);
                return;
        }
        weir_http_reply_text(exchange, 200, "word\n");
        if (strcmp(path, "/later") == 0)
                weir_series_push(weir_series_of(exchange), weir_timer_new(WEIR_SEC(20), NULL, NULL));
        else if (strcmp(path, "/many") == 0)
                start_many();
        else if (strcmp(path, "/between") == 0)
                at.due_before = at.due;
}

static void
begin_with(weir_nsec limit)
{
        struct weir_http_server_config config = WEIR_HTTP_SERVER_CONFIG_DEFAULT;

        config.head_timeout = config.body_timeout = config.idle_timeout = config.write_timeout = limit;
        weir_test_begin_virtual();
        at.server = http_server(&config, handle, NULL);
        at.port = weir_http_server_port(at.server);
        at.began = weir_now();
        at.really_began = weir_test_now();
}

static void
begin(void)
{
        begin_with(LIMIT);
}

static void
end(void)
{
        http_reply_done(&at.reply);
        CU_ASSERT_EQUAL(weir_http_server_stop(at.server, WEIR_SEC(10)), 0);
        weir_http_server_free(at.server);
        weir_test_end();
}

/* Waits for so long: the clock goes by itself. */
static void
run_for(weir_nsec duration)
{
        CU_ASSERT_EQUAL(weir_task_run(weir_timer_new(duration, NULL, NULL)), 0);
}

/* -- one thread, which lets time pass -- */

static void
open_and_run_ready(void)
{
        http_open(&at.client, at.port);
        CU_ASSERT_EQUAL(weir_clock_advance(0), 0);
}

static void
half_a_head_is_408_at_its_limit_to_the_nanosecond(void)
{
        begin();
        open_and_run_ready();
        CU_ASSERT_TRUE(http_send_text(&at.client, "GET / HTTP/1.1\r\nHo"));
        CU_ASSERT_EQUAL(weir_clock_advance(LIMIT - 1), 0);
        CU_ASSERT_FALSE(http_has_news(&at.client, 0));
        CU_ASSERT_EQUAL(weir_clock_advance(1), 0);
        CU_ASSERT_TRUE(http_receive(&at.client, &at.reply, false));
        CU_ASSERT_EQUAL(at.reply.status, 408);
        CU_ASSERT_TRUE(http_is_over(&at.client));
        http_close(&at.client);
        CU_ASSERT(weir_test_now() - at.really_began < FAST);
        end();
}

static void
the_time_of_a_head_begins_with_its_first_byte(void)
{
        begin();
        open_and_run_ready();
        for (int i = 0; i < 2; i++) {
                CU_ASSERT_EQUAL(weir_clock_advance(LIMIT - 1), 0);
                CU_ASSERT_TRUE(http_ask(&at.client, GET("/"), &at.reply));
                CU_ASSERT_EQUAL(at.reply.status, 200);
        }
        CU_ASSERT_EQUAL(weir_clock_advance(LIMIT - 1), 0);
        CU_ASSERT_TRUE(http_send_text(&at.client, "G"));
        CU_ASSERT_EQUAL(weir_clock_advance(LIMIT - 1), 0);
        CU_ASSERT_FALSE(http_has_news(&at.client, 0));
        CU_ASSERT_EQUAL(weir_clock_advance(1), 0);
        CU_ASSERT_TRUE(http_receive(&at.client, &at.reply, false));
        CU_ASSERT_EQUAL(at.reply.status, 408);
        http_close(&at.client);
        end();
}

static void
a_handler_may_take_longer_than_any_limit(void)
{
        begin_with(WEIR_SEC(5));
        open_and_run_ready();
        CU_ASSERT_TRUE(http_send_text(&at.client, GET("/later")));
        CU_ASSERT_EQUAL(weir_clock_advance(WEIR_SEC(20)), 0);
        CU_ASSERT_TRUE(http_receive(&at.client, &at.reply, false));
        HTTP_ASSERT_TEXT(at.reply.body, "word\n");
        CU_ASSERT_EQUAL(weir_clock_advance(WEIR_SEC(5) - 1), 0);
        CU_ASSERT_FALSE(http_has_news(&at.client, 0));
        CU_ASSERT_EQUAL(weir_clock_advance(1), 0); /* and the limits hold again after it */
        CU_ASSERT_TRUE(http_is_over(&at.client));
        http_close(&at.client);
        end();
}

static void
for_ever_is_no_limit(void)
{
        begin_with(WEIR_FOREVER);
        open_and_run_ready();
        CU_ASSERT_EQUAL(weir_clock_advance(WEIR_TEST_CENTURY), 0);
        CU_ASSERT_TRUE(http_send_text(&at.client, "PUT / HTTP/1.1\r\nHost: a\r\nContent-"));
        CU_ASSERT_EQUAL(weir_clock_advance(WEIR_TEST_CENTURY), 0);
        CU_ASSERT_TRUE(http_send_text(&at.client, "Length: 4\r\n\r\nbo"));
        CU_ASSERT_EQUAL(weir_clock_advance(WEIR_TEST_CENTURY / 2), 0);
        CU_ASSERT_TRUE(http_send_text(&at.client, "dy"));
        CU_ASSERT_TRUE(http_receive(&at.client, &at.reply, false));
        CU_ASSERT_EQUAL(at.reply.status, 200);
        http_close(&at.client);
        end();
}

static void
half_a_body_is_408_at_its_limit_to_the_nanosecond(void)
{
        begin();
        open_and_run_ready();
        CU_ASSERT_TRUE(http_send_text(&at.client, "PUT / HTTP/1.1\r\nHost: a\r\nContent-Le"));
        CU_ASSERT_EQUAL(weir_clock_advance(LIMIT - 1), 0);
        CU_ASSERT_TRUE(http_send_text(&at.client, "ngth: 4\r\n\r\nbo")); /* head and body have a limit each */
        CU_ASSERT_EQUAL(weir_clock_advance(LIMIT - 1), 0);
        CU_ASSERT_FALSE(http_has_news(&at.client, 0));
        CU_ASSERT_EQUAL(weir_clock_advance(1), 0);
        CU_ASSERT_TRUE(http_receive(&at.client, &at.reply, false));
        CU_ASSERT_EQUAL(at.reply.status, 408);
        http_close(&at.client);
        CU_ASSERT(weir_test_now() - at.really_began < FAST);
        end();
}

static void
an_idle_connection_is_closed_at_its_limit_to_the_nanosecond(void)
{
        begin();
        open_and_run_ready();
        for (int i = 0; i < 10; i++) {
                CU_ASSERT_TRUE(http_ask(&at.client, GET("/"), &at.reply));
                CU_ASSERT_EQUAL(weir_clock_advance(LIMIT - 1), 0); /* each request begins it anew */
                CU_ASSERT_FALSE(http_has_news(&at.client, 0));
        }
        CU_ASSERT_EQUAL(weir_clock_advance(1), 0);
        CU_ASSERT_TRUE(http_is_over(&at.client));
        CU_ASSERT_FALSE(at.client.reset);
        http_close(&at.client);
        CU_ASSERT(weir_test_now() - at.really_began < FAST);
        end();
}

static void
a_reply_comes_when_its_timer_has_and_carries_the_date_of_the_wall_clock(void)
{
        begin();
        open_and_run_ready();
        CU_ASSERT_TRUE(http_send_text(&at.client, GET("/later")));
        CU_ASSERT_EQUAL(weir_clock_advance(WEIR_SEC(20) - 1), 0);
        CU_ASSERT_FALSE(http_has_news(&at.client, 0));
        CU_ASSERT_EQUAL(weir_clock_advance(1), 0);
        CU_ASSERT_TRUE(http_receive(&at.client, &at.reply, false));
        HTTP_ASSERT_TEXT(http_field(&at.reply, "Date"), "Sat, 01 Jan 2000 00:00:20 GMT");
        CU_ASSERT_EQUAL(weir_clock_set_wall(WEIR_SEC(951782399)), 0);
        CU_ASSERT_EQUAL(weir_clock_advance(WEIR_SEC(1)), 0);
        CU_ASSERT_TRUE(http_ask(&at.client, GET("/"), &at.reply));
        HTTP_ASSERT_TEXT(http_field(&at.reply, "Date"), "Tue, 29 Feb 2000 00:00:00 GMT");
        http_close(&at.client);
        end();
}

/* -- a client of its own -- */

struct asker {
        struct weir_test_thread thread;
        struct weir_test_latch begun; /* it holds the clock */
        struct http_client client;
        struct http_reply reply;
        unsigned answers;
        weir_nsec at; /* when it had its last one, since the beginning */
        int64_t waits_since;
        bool late;
};

/* Runs the function beside the caller, which returns from here when the function holds the clock. */
static void
asker_start(struct asker *asker, void (*run)(void *argument))
{
        *asker = (struct asker){0};
        weir_test_latch_init(&asker->begun, 1);
        weir_test_thread_start(&asker->thread, run, asker);
        weir_test_latch_wait(&asker->begun);
}

static void
asker_begin(struct asker *asker)
{
        CU_ASSERT_EQUAL(weir_clock_hold(), 0);
        weir_test_latch_count_down(&asker->begun);
        http_open(&asker->client, at.port);
}

static void
asker_end(struct asker *asker)
{
        http_close(&asker->client);
        http_reply_done(&asker->reply);
        weir_clock_release();
}

/* Lets go of the clock until there is something to read. */
static void
wait_for_bytes(struct asker *asker)
{
        struct pollfd fd = {.fd = asker->client.fd, .events = POLLIN};

        asker->waits_since = weir_test_now();
        weir_clock_release();
        CU_ASSERT_EQUAL(poll(&fd, 1, (int)(WEIR_TEST_PATIENCE / 1000000)), 1);
}

static void
take_answer(struct asker *asker)
{
        CU_ASSERT_EQUAL(weir_clock_hold(), 0);
        asker->late = weir_test_now() - asker->waits_since > WEIR_MSEC(500);
        asker->answers += http_receive(&asker->client, &asker->reply, false) && asker->reply.status == 200;
        asker->at = weir_now() - at.began;
}

static void
ask_50_times(void *argument)
{
        struct asker *asker = argument;

        asker_begin(asker);
        for (unsigned i = 0; i < 50 && !asker->late; i++) {
                CU_ASSERT_TRUE(http_send_text(&asker->client, GET("/later")));
                wait_for_bytes(asker);
                take_answer(asker);
                if (i % 16 == 0) {
                        weir_test_sleep(WEIR_MSEC(1)); /* it thinks */
                }
        }
        asker_end(asker);
}

static bool
ask_three_at_once(void)
{
        struct asker askers[3];
        bool in_time = true;

        begin();
        for (unsigned i = 0; i < 3; i++) {
                asker_start(&askers[i], ask_50_times);
        }
        run_for(WEIR_SEC(3600));
        CU_ASSERT(weir_test_now() - at.really_began < FAST);
        for (unsigned i = 0; i < 3; i++) {
                weir_test_thread_join(&askers[i].thread);
                in_time &= !askers[i].late;
        }
        for (unsigned i = 0; in_time && i < 3; i++) {
                CU_ASSERT_EQUAL(askers[i].answers, 50);
                CU_ASSERT_EQUAL(askers[i].at, 50 * WEIR_SEC(20));
        }
        end();
        return in_time;
}

static void
asks_of_20_seconds_take_milliseconds_and_meet_no_limit(void)
{
        WEIR_TEST_EVENTUALLY(ask_three_at_once());
}

static void
ask_and_let_it_lie(void *argument)
{
        struct asker *asker = argument;

        asker_begin(asker);
        for (unsigned i = 0; i < 5 && !asker->late; i++) {
                CU_ASSERT_TRUE(http_send_text(&asker->client, GET("/later")));
                wait_for_bytes(asker);
                weir_test_sleep(WEIR_MSEC(20)); /* the clock is not held now */
                weir_nsec now = weir_now();
                take_answer(asker);
                CU_ASSERT(asker->late || now - at.began == (i + 1) * WEIR_SEC(20));
        }
        asker_end(asker);
}

static bool
let_answers_lie(void)
{
        struct asker asker;

        begin();
        asker_start(&asker, ask_and_let_it_lie);
        run_for(WEIR_SEC(3600));
        weir_test_thread_join(&asker.thread);
        CU_ASSERT(asker.late || asker.answers == 5);
        end();
        return !asker.late;
}

static void
while_bytes_lie_unread_time_stands_still(void)
{
        WEIR_TEST_EVENTUALLY(let_answers_lie());
}

/* The clock waits for the client, gives it up, and comes to the limit for a client that does not read. */
static void
a_client_that_never_reads_does_not_stop_time_for_ever(void)
{
        begin();
        http_open_window(&at.client, at.port, 4096);
        CU_ASSERT_TRUE(http_send_text(&at.client, GET("/large")));
        CU_ASSERT_EQUAL(weir_clock_advance(0), 0);
        CU_ASSERT_NOT_EQUAL(atomic_load(&at.server->base.connections), 0);
        int64_t stepped = weir_test_now();
        run_for(4 * LIMIT);
        CU_ASSERT(weir_test_now() - stepped >=
                  WEIR_SEC(1)); /* and the step has not waited for the unread bytes: it gives up once */
        CU_ASSERT_EQUAL(atomic_load(&at.server->base.connections), 0);
        http_close(&at.client);
        end();
}

/* A thread that waits for the server's end drives the clock, but only once all have heard of it. */
static void
a_stop_lets_time_pass_for_the_replies_that_are_due(void)
{
        begin();
        open_and_run_ready();
        CU_ASSERT_TRUE(http_send_text(&at.client, GET("/later")));
        CU_ASSERT_EQUAL(weir_clock_advance(WEIR_SEC(5)), 0);
        CU_ASSERT_EQUAL(weir_http_server_stop(at.server, WEIR_SEC(10)), 0);
        CU_ASSERT_EQUAL(weir_clock_advance(0), 0); /* it waits no longer */
        CU_ASSERT_TRUE(http_receive(&at.client, &at.reply, false));
        CU_ASSERT_EQUAL(at.reply.status, 200);
        http_close(&at.client);
        end();
}

/* A request that comes while a thousand timers are due waits for an eighth of them at most.  The timers do not wait for work
 * that is always ready. */
static void
a_request_does_not_wait_for_all_that_is_due(void)
{
        begin();
        at.due = at.due_before = at.rounds = 0;
        open_and_run_ready();
        CU_ASSERT_TRUE(http_ask(&at.client, GET("/many"), &at.reply));
        CU_ASSERT_EQUAL(weir_clock_advance(WEIR_SEC(1)), 0);
        CU_ASSERT_TRUE(http_receive(&at.client, &at.reply, false));
        CU_ASSERT_EQUAL(at.due, CROWD);
        CU_ASSERT(at.due_before > 0 && at.due_before <= CROWD / 8);
        CU_ASSERT(at.rounds > 0 && at.rounds <= CROWD / 8);
        http_close(&at.client);
        end();
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(half_a_head_is_408_at_its_limit_to_the_nanosecond),
                WEIR_TEST(the_time_of_a_head_begins_with_its_first_byte),
                WEIR_TEST(a_handler_may_take_longer_than_any_limit),
                WEIR_TEST(for_ever_is_no_limit),
                WEIR_TEST(half_a_body_is_408_at_its_limit_to_the_nanosecond),
                WEIR_TEST(an_idle_connection_is_closed_at_its_limit_to_the_nanosecond),
                WEIR_TEST(a_reply_comes_when_its_timer_has_and_carries_the_date_of_the_wall_clock),
                WEIR_TEST(asks_of_20_seconds_take_milliseconds_and_meet_no_limit),
                WEIR_TEST(while_bytes_lie_unread_time_stands_still),
                WEIR_TEST(a_client_that_never_reads_does_not_stop_time_for_ever),
                WEIR_TEST(a_stop_lets_time_pass_for_the_replies_that_are_due),
                WEIR_TEST(a_request_does_not_wait_for_all_that_is_due),
        };

        return weir_test_main("virtual_server", tests, sizeof tests / sizeof *tests);
}
