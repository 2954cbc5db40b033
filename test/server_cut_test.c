/* test/server_cut_test.c: the message of a stop about the exchanges that it cuts. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sys/resource.h>

#include "server/base/server.h"
#include "test/http_client.h"
#include "test/timer_fixture.h"

#define POST_HEAD "POST /upload HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\nExpect: 100-continue\r\n\r\n"

static struct {
        weir_http_server *server;
        int port;
        atomic_int handled, messages, missing;
        pthread_mutex_t mutex;
        char said[4096]; /* guarded by mutex: all messages, a line each */
} at = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static void
hear(enum weir_log_level level, const char *message, void *context)
{
        unsigned more;
        size_t size;

        (void)level;
        (void)context;
        pthread_mutex_lock(&at.mutex);
        size = strlen(at.said);
        snprintf(at.said + size, sizeof at.said - size, "%s\n", message);
        pthread_mutex_unlock(&at.mutex);
        if (sscanf(message, "stop has cut %u more", &more) == 1) {
                atomic_store(&at.missing, (int)more);
        } else {
                atomic_fetch_add(&at.messages, 1);
        }
}

static weir_task *
endless(const char *name)
{
        return weir_timer_new_named(name, WEIR_SEC(3600), NULL, NULL);
}

static weir_task *
parallel_in_parallel(void)
{
        weir_task *inner = weir_parallel_new(NULL, NULL), *outer = weir_parallel_new(NULL, NULL);

        weir_parallel_add(inner, endless("left"));
        weir_parallel_add(inner, endless("right"));
        weir_parallel_add(outer, inner);
        return outer;
}

static void
reply_a_lot(weir_task *exchange)
{
        static const char zeros[65536];

        for (int i = 0; i < 128; i++) {
                weir_http_reply_append(exchange, zeros, sizeof zeros);
        }
}

static void
handle(weir_task *exchange, void *context)
{
        const char *path = weir_http_path(exchange);

        (void)context;
        if (strcmp(path, "/large") == 0) {
                reply_a_lot(exchange);
        } else if (strcmp(path, "/timer") == 0) {
                weir_series_push(weir_series_of(exchange), endless("retry"));
        } else if (strcmp(path, "/parallel") == 0) {
                weir_series_push(weir_series_of(exchange), parallel_in_parallel());
        }
        atomic_fetch_add(&at.handled, 1);
}

static void
begin(void)
{
        weir_test_begin_virtual();
        CU_ASSERT_EQUAL(weir_log_set(hear, NULL), 0);
        strcpy(at.said, "");
        at.handled = at.messages = at.missing = 0;
        at.server = http_server(NULL, handle, NULL);
        at.port = weir_http_server_port(at.server);
}

static void
end(void)
{
        weir_http_server_free(at.server);
        weir_test_end();
        CU_ASSERT_EQUAL(weir_log_set(NULL, NULL), 0);
}

/* Returns the message after the request was sent, five seconds have passed, and a stop cuts at once; static memory. */
static const char *
said_of(const char *request, int handled)
{
        struct http_client client;

        begin();
        http_open_window(&client, at.port, 4096);
        CU_ASSERT_TRUE(http_send_text(&client, request));
        if (handled) {
                WEIR_TEST_EVENTUALLY(atomic_load(&at.handled) == handled);
        } else {
                CU_ASSERT_TRUE(http_has_news(&client, WEIR_TEST_PATIENCE)); /* that it may send its body */
        }
        weir_test_pass(WEIR_SEC(5));
        weir_clock_hold(); /* the stop would wait, and time jump */
        CU_ASSERT_EQUAL(weir_http_server_stop(at.server, 0), 1);
        weir_clock_release();
        http_close(&client);
        end();
        return at.said;
}

#define GET(path) "GET " path " HTTP/1.1\r\nHost: a\r\n\r\n"

static void
one_that_waits_for_a_timer(void)
{
        CU_ASSERT_STRING_EQUAL(said_of(GET("/timer?a=1"), 1),
                               "stop has cut GET /timer?a=1, 5000 ms old, waiting for a timer \"retry\" (due in 59 min 55 s)\n");
}

static void
of_what_runs_others_the_first_of_these_is_told(void)
{
        CU_ASSERT_STRING_EQUAL(
                said_of(GET("/parallel"), 1),
                "stop has cut GET /parallel, 5000 ms old, waiting for a parallel (1 of 1 left), in it a parallel (2 of 2 left), "
                "in it a timer \"left\" (due in 59 min 55 s)\n");
}

static void
one_whose_body_has_not_come_is_cut_as_well(void)
{
        CU_ASSERT_STRING_EQUAL(said_of(POST_HEAD, 0),
                               "stop has cut POST /upload, 5000 ms old, waiting for the rest of its body\n");
}

static void
one_whose_client_does_not_read_the_reply(void)
{
        static const char before[] = "stop has cut GET /large, 5000 ms old, waiting for its client to read ";
        const char *said = said_of(GET("/large"), 1);

        CU_ASSERT_EQUAL_FATAL(strncmp(said, before, sizeof before - 1), 0);
        int left = atoi(said + sizeof before - 1);
        CU_ASSERT(left > 1000000 && left <= 128 * 65536);
        CU_ASSERT_PTR_NOT_NULL(strstr(said, " bytes more\n"));
}

/* No log is flooded, and no count is lost. */
static void
of_many_a_thousand_are_logged_and_the_others_counted(void)
{
        enum { EACH = 15, CLIENTS = 80, ALL = EACH * CLIENTS };
        static struct http_client clients[ALL];
        struct rlimit files;

        CU_ASSERT_EQUAL(getrlimit(RLIMIT_NOFILE, &files), 0);
        files.rlim_cur = files.rlim_max;
        CU_ASSERT_EQUAL(setrlimit(RLIMIT_NOFILE, &files), 0);

        begin();
        for (int i = 0; i < ALL; i++) {
                http_open(&clients[i], at.port);
                CU_ASSERT_TRUE(http_send_text(&clients[i], GET("/timer")));
        }
        WEIR_TEST_EVENTUALLY(atomic_load(&at.handled) == ALL);
        weir_clock_hold();
        CU_ASSERT_EQUAL(weir_http_server_stop(at.server, 0), ALL);
        weir_clock_release();
        CU_ASSERT_EQUAL(atomic_load(&at.messages), 1000); /* the virtual clock has one poller */
        CU_ASSERT_EQUAL(atomic_load(&at.missing), ALL - 1000);
        for (int i = 0; i < ALL; i++) {
                http_close(&clients[i]);
        }
        end();
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(one_that_waits_for_a_timer),
                WEIR_TEST(of_what_runs_others_the_first_of_these_is_told),
                WEIR_TEST(one_whose_body_has_not_come_is_cut_as_well),
                WEIR_TEST(one_whose_client_does_not_read_the_reply),
                WEIR_TEST(of_many_a_thousand_are_logged_and_the_others_counted),
        };

        return weir_test_main("server_cut", tests, sizeof tests / sizeof *tests);
}
