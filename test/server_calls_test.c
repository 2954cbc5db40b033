/* test/server_calls_test.c: the result of each function of a server for each caller while the server starts, serves and stops: a
 * handler, the function of an access log, that of the log, another thread, a forked child.  None of them may hang. */
#include <errno.h>
#include <unistd.h>

#include <sys/eventfd.h>

#include "server/base/server.h"
#include "server/base/serving.h"
#include "test/fixture.h"
#include "test/http_client.h"

#define GET(target) "GET " target " HTTP/1.1\r\nHost: a\r\n\r\n"

/* The results of the calls that do not wait for the server. */
struct answers {
        int set_error, add_certificate, reload, reopen_log, fds, inherit, start;
};

static struct fixture {
        weir_http_server *server;
        struct http_client client;
        struct http_reply reply;
        struct weir_test_latch entered, released, answered;
        struct answers answers;
        int stopped, served; /* what a stop, and weir_http_serve, have said that were called besides */
        atomic_int logged;   /* messages */
        bool frees;          /* the log function does */
} at;

static void
ask_all(struct answers *answers)
{
        char *const program[] = {"/bin/false", NULL};
        int fds[4];

        answers->set_error = weir_http_server_set_error(at.server, 404, "text/plain", "none", 4);
        answers->add_certificate = weir_http_server_add_certificate(at.server, "none.pem", "none.key");
        answers->reload = weir_http_server_reload(at.server);
        answers->reopen_log = weir_http_server_reopen_log(at.server);
        answers->fds = weir_http_server_fds(at.server, fds, 4);
        answers->inherit = weir_http_server_inherit(at.server, program[0], program, WEIR_SEC(20));
        answers->start = weir_http_server_start(at.server, "127.0.0.1:0");
}

static void
expect_answers(const struct answers *answers, int of_sockets, int of_start)
{
        CU_ASSERT_EQUAL(answers->set_error, -EBUSY);
        CU_ASSERT_EQUAL(answers->add_certificate, -EALREADY);
        CU_ASSERT_EQUAL(answers->reload, -EDOM);
        CU_ASSERT_EQUAL(answers->reopen_log, -EDOM);
        CU_ASSERT_EQUAL(answers->fds, of_sockets);
        CU_ASSERT_EQUAL(answers->inherit, of_sockets);
        CU_ASSERT_EQUAL(answers->start, of_start);
}

/* -- handlers, and the function of an access log -- */

static void
reply(weir_task *exchange, void *context)
{
        (void)context;
        weir_http_reply_text(exchange, 200, "hello");
}

/* Where a stop would wait for itself. */
static void
ask_here(void)
{
        ask_all(&at.answers);
        at.stopped = weir_http_server_stop(at.server, 0);
        at.served = weir_http_serve("127.0.0.1:0", reply, NULL);
        weir_test_latch_count_down(&at.answered);
}

/* Holds its worker. */
static void
hold_and_ask(weir_task *exchange, void *context)
{
        reply(exchange, context);
        weir_test_latch_count_down(&at.entered);
        weir_test_latch_wait(&at.released);
        ask_here();
}

static void
tell_and_ask(const struct weir_http_access *access, void *context)
{
        (void)access, (void)context;
        weir_test_latch_count_down(&at.entered);
        weir_test_latch_wait(&at.released);
        ask_here();
}

/* -- the server -- */

static void
begin_with(int pollers, weir_task_fn *handler, weir_http_access_fn *on_access)
{
        struct weir_http_server_config config = WEIR_HTTP_SERVER_CONFIG_DEFAULT;

        weir_test_begin_real(pollers);
        weir_test_latch_init(&at.entered, 1);
        weir_test_latch_init(&at.released, 1);
        weir_test_latch_init(&at.answered, 1);
        config.on_access = on_access;
        at.server = http_server(&config, handler, NULL);
        http_open(&at.client, weir_http_server_port(at.server));
}

static void
end(void)
{
        http_close(&at.client);
        http_reply_done(&at.reply);
        weir_http_server_free(at.server);
        weir_test_end();
}

struct standing {
        bool is_stopping, has_waiter;
};

static struct standing
standing_of(weir_http_server *server)
{
        weir__lock(&server->base.lock);
        struct standing now = {.is_stopping = server->base.state == WEIR__SERVER_STOPPING, .has_waiter = server->base.waiters};
        weir__unlock(&server->base.lock);
        return now;
}

/* -- threads -- */

struct caller {
        pthread_t thread;
        int (*call)(weir_http_server *server);
        weir_http_server *server;
        int result;
};

static int
start(weir_http_server *server)
{
        return weir_http_server_start(server, "127.0.0.1:0");
}

static int
stop(weir_http_server *server)
{
        return weir_http_server_stop(server, WEIR_TEST_PATIENCE);
}

static void *
caller_main(void *argument)
{
        struct caller *caller = argument;

        caller->result = caller->call(caller->server);
        return NULL;
}

static void
begin_call(struct caller *caller, int (*call)(weir_http_server *server), weir_http_server *server)
{
        *caller = (struct caller){.call = call, .server = server};
        CU_ASSERT_EQUAL_FATAL(pthread_create(&caller->thread, NULL, caller_main, caller), 0);
}

static int
end_call(struct caller *caller)
{
        CU_ASSERT_EQUAL(pthread_join(caller->thread, NULL), 0);
        return caller->result;
}

/* Stops the server while what is held is held. */
static void
stop_around_the_answers(void)
{
        struct caller stopper;

        weir_test_latch_wait(&at.entered);
        begin_call(&stopper, stop, at.server);
        WEIR_TEST_EVENTUALLY(standing_of(at.server).is_stopping);
        weir_test_latch_count_down(&at.released);
        weir_test_latch_wait(&at.answered);
        CU_ASSERT_EQUAL(end_call(&stopper), 0);
}

/* -- while it stops -- */

static void
a_handler_is_answered_while_its_server_stops(void)
{
        begin_with(2, hold_and_ask, NULL);
        CU_ASSERT_TRUE(http_send_text(&at.client, GET("/")));
        stop_around_the_answers();
        expect_answers(&at.answers, -EDEADLK, -EDEADLK);
        CU_ASSERT_EQUAL(at.stopped, -EDEADLK);
        CU_ASSERT_EQUAL(at.served, -EDEADLK);
        CU_ASSERT_TRUE(http_receive(&at.client, &at.reply, false));
        end();
}

static void
an_access_log_is_answered_while_its_server_stops(void)
{
        begin_with(2, reply, tell_and_ask);
        CU_ASSERT_TRUE(http_ask(&at.client, GET("/"), &at.reply));
        stop_around_the_answers();
        expect_answers(&at.answers, -EDOM, -ESTALE);
        CU_ASSERT_EQUAL(at.stopped, -EDEADLK);
        CU_ASSERT_EQUAL(at.served, -EDEADLK);
        end();
}

static void
an_access_log_is_answered_while_its_server_serves(void)
{
        begin_with(2, reply, tell_and_ask);
        int sockets = weir_http_server_fds(at.server, NULL, 0);

        CU_ASSERT(sockets > 0);
        CU_ASSERT_TRUE(http_ask(&at.client, GET("/"), &at.reply));
        weir_test_latch_count_down(&at.released);
        weir_test_latch_wait(&at.answered);
        CU_ASSERT_EQUAL(at.answers.inherit, -EPIPE); /* the program has ended */
        at.answers.inherit = sockets;
        expect_answers(&at.answers, sockets, -EALREADY);
        CU_ASSERT_EQUAL(at.stopped, -EDEADLK);
        CU_ASSERT_EQUAL(at.served, -EDEADLK);
        end();
}

/* Two threads wait in a stop while a third one frees the server. */
static void
a_server_may_be_freed_while_two_threads_wait_for_its_stop(void)
{
        struct caller stopper, other;

        for (int i = 0; i < 50; i++) {
                begin_with(2, hold_and_ask, NULL);
                CU_ASSERT_TRUE(http_send_text(&at.client, GET("/")));
                weir_test_latch_wait(&at.entered);
                begin_call(&stopper, stop, at.server);
                WEIR_TEST_EVENTUALLY(standing_of(at.server).is_stopping);
                begin_call(&other, stop, at.server);
                WEIR_TEST_EVENTUALLY(standing_of(at.server).has_waiter);
                weir_test_latch_count_down(&at.released);
                weir_http_server_free(at.server);
                CU_ASSERT_EQUAL(end_call(&stopper), 0);
                CU_ASSERT_EQUAL(end_call(&other), 0);
                at.server = NULL;
                end();
        }
}

static unsigned
successors_of(weir_http_server *server)
{
        weir__lock(&server->base.lock);
        unsigned count = server->base.successors;
        weir__unlock(&server->base.lock);
        return count;
}

/* A program that is never ready. */
static int
start_successor(weir_http_server *server)
{
        char *const program[] = {"sleep", "20", NULL};

        return weir_http_server_inherit(server, "/bin/sleep", program, WEIR_SEC(1));
}

/* The new process may be ready at any moment, and must find it. */
static void
a_stop_while_a_successor_starts_leaves_the_file_of_its_socket(void)
{
        static const char path[] = "/tmp/weir-server-calls.sock";
        struct caller giver;

        weir_test_begin_real(1);
        unlink(path);
        at.server = weir_http_server_new(NULL, reply, NULL);
        CU_ASSERT_EQUAL_FATAL(weir_http_server_start(at.server, "unix:/tmp/weir-server-calls.sock"), 0);
        begin_call(&giver, start_successor, at.server);
        WEIR_TEST_EVENTUALLY(successors_of(at.server) == 1);
        CU_ASSERT_EQUAL(stop(at.server), 0);
        CU_ASSERT_EQUAL(access(path, F_OK), 0);
        CU_ASSERT(end_call(&giver) < 0);
        CU_ASSERT_EQUAL(successors_of(at.server), 0);
        unlink(path);
        weir_http_server_free(at.server);
        at.server = NULL;
        weir_test_end();
}

/* -- while it starts -- */

/* Its only worker is held by another server's handler: so the start waits for it. */
static void
others_are_answered_while_a_server_starts(void)
{
        weir_http_server *holder;
        struct caller starter, stopper;
        struct answers answers;

        begin_with(1, hold_and_ask, NULL);
        CU_ASSERT_TRUE(http_send_text(&at.client, GET("/")));
        weir_test_latch_wait(&at.entered);
        holder = at.server;
        at.server = weir_http_server_new(NULL, reply, NULL);
        begin_call(&starter, start, at.server);
        WEIR_TEST_EVENTUALLY(atomic_load(&at.server->base.orders_left) == 1);
        ask_all(&answers);
        expect_answers(&answers, -EDOM, -EALREADY);
        CU_ASSERT_EQUAL(weir_http_server_port(at.server), -EDOM);
        begin_call(&stopper, stop, at.server);
        WEIR_TEST_EVENTUALLY(standing_of(at.server).has_waiter);
        weir_test_latch_count_down(&at.released);
        CU_ASSERT_EQUAL(end_call(&starter), 0);
        CU_ASSERT_EQUAL(end_call(&stopper), 0);
        CU_ASSERT_EQUAL(start(at.server), -ESTALE);
        weir_http_server_free(holder);
        end();
}

static int
free_it(weir_http_server *server)
{
        weir_http_server_free(server);
        return 0;
}

/* One of them stops what the start has begun, the other waits for that, and nobody touches the server once it is free. */
static void
a_start_may_be_waited_for_by_who_stops_and_who_frees_the_server(void)
{
        weir_http_server *holder;
        struct caller starter, stopper, freer;

        for (int i = 0; i < 50; i++) {
                begin_with(1, hold_and_ask, NULL);
                CU_ASSERT_TRUE(http_send_text(&at.client, GET("/")));
                weir_test_latch_wait(&at.entered);
                holder = at.server;
                at.server = weir_http_server_new(NULL, reply, NULL);
                begin_call(&starter, start, at.server);
                WEIR_TEST_EVENTUALLY(atomic_load(&at.server->base.orders_left) == 1);
                begin_call(&stopper, stop, at.server);
                WEIR_TEST_EVENTUALLY(standing_of(at.server).has_waiter);
                begin_call(&freer, free_it, at.server);
                if (i % 2) {
                        weir_test_sleep(WEIR_MSEC(1)); /* it waits as well, mostly; right either way */
                }
                weir_test_latch_count_down(&at.released);
                CU_ASSERT_EQUAL(end_call(&starter), 0);
                CU_ASSERT_EQUAL(end_call(&stopper), 0);
                CU_ASSERT_EQUAL(end_call(&freer), 0);
                weir_http_server_free(holder);
                at.server = NULL;
                end();
        }
}

/* -- in a forked child -- */

/* Ends the process, which has nothing to clean up, by SIGALRM if anything hangs. */
static void
ask_in_a_child(void)
{
        struct answers answers;

        alarm(20);
        ask_all(&answers);
        int stopped = stop(at.server);
        weir_http_server_free(at.server);
        _exit((answers.set_error == -ECHILD) + 2 * (answers.add_certificate == -ECHILD) + 4 * (answers.reload == -ECHILD) +
              8 * (answers.reopen_log == -ECHILD) + 16 * (answers.fds == -ECHILD) + 32 * (answers.inherit == -ECHILD) +
              64 * (answers.start == -ECHILD) + 128 * (stopped == -ECHILD));
}

/* The lock is anybody's at the fork: it may be held. */
static void
expect_refusal_in_a_child(void)
{
        int status = 0;

        weir__lock_hold(&at.server->base.lock); /* without its rank: a fork takes others */
        pid_t child = fork();
        if (child == 0) {
                ask_in_a_child();
        }
        weir__unlock(&at.server->base.lock);
        CU_ASSERT_EQUAL(waitpid(child, &status, 0), child);
        CU_ASSERT_TRUE(WIFEXITED(status));
        CU_ASSERT_EQUAL(WEXITSTATUS(status), 255);
}

static void
a_child_is_refused_in_the_middle_of_a_stop(void)
{
        struct caller stopper;

        begin_with(2, hold_and_ask, NULL);
        CU_ASSERT_TRUE(http_send_text(&at.client, GET("/")));
        expect_refusal_in_a_child();
        weir_test_latch_wait(&at.entered);
        begin_call(&stopper, stop, at.server);
        WEIR_TEST_EVENTUALLY(standing_of(at.server).is_stopping);
        expect_refusal_in_a_child();
        weir_test_latch_count_down(&at.released);
        CU_ASSERT_EQUAL(end_call(&stopper), 0);
        expect_refusal_in_a_child();
        end();
}

static void
a_child_is_refused_in_the_middle_of_a_start(void)
{
        weir_http_server *holder;
        struct caller starter;

        begin_with(1, hold_and_ask, NULL);
        CU_ASSERT_TRUE(http_send_text(&at.client, GET("/")));
        weir_test_latch_wait(&at.entered);
        holder = at.server;
        at.server = weir_http_server_new(NULL, reply, NULL);
        expect_refusal_in_a_child();
        begin_call(&starter, start, at.server);
        WEIR_TEST_EVENTUALLY(atomic_load(&at.server->base.orders_left) == 1);
        expect_refusal_in_a_child();
        weir_test_latch_count_down(&at.released);
        CU_ASSERT_EQUAL(end_call(&starter), 0);
        weir_http_server_free(holder);
        end();
}

/* The child may begin anew, but nobody ends that stop in it. */
static void
a_child_does_not_wait_for_a_stop_of_its_parent(void)
{
        struct caller stopper;
        int status = 0;

        begin_with(2, reply, tell_and_ask);
        CU_ASSERT_TRUE(http_ask(&at.client, GET("/"), &at.reply));
        weir_test_latch_wait(&at.entered);
        weir_test_end();
        begin_call(&stopper, stop, at.server);
        WEIR_TEST_EVENTUALLY(standing_of(at.server).is_stopping);
        pid_t child = fork();
        if (child == 0) {
                alarm(20);
                int stopped = stop(at.server), started = start(at.server);
                if (!weir__link_is_used(&at.server->base.serving.link)) {
                        weir__serving_begin(&at.server->base); /* as at a fork a little earlier */
                }
                weir_http_server_free(at.server);
                size_t serving = 1;
                (void)weir__serving_reports(&serving);
                _exit((stopped == -ECHILD) + 2 * (started == -ESTALE) + 4 * !serving);
        }
        CU_ASSERT_EQUAL(waitpid(child, &status, 0), child);
        CU_ASSERT_TRUE(WIFEXITED(status));
        CU_ASSERT_EQUAL(WEXITSTATUS(status), 7);
        weir_test_latch_count_down(&at.released);
        CU_ASSERT_EQUAL(end_call(&stopper), 0);
        end();
}

/* Each process that serves has its own wake-ups: none takes one of another. */
static void
a_server_made_before_a_fork_may_be_started_by_each_process(void)
{
        weir_http_server *server = weir_http_server_new(NULL, reply, NULL);
        eventfd_t written = 0;
        int status = 0;

        CU_ASSERT_EQUAL(eventfd_write(server->base.users.quiet_fd, 1), 0);
        pid_t child = fork();
        if (child == 0) {
                alarm(20);
                weir_test_begin_real(1);
                int started = start(server), stopped = stop(server);
                weir_http_server_free(server);
                _exit(started || stopped);
        }
        CU_ASSERT_EQUAL(waitpid(child, &status, 0), child);
        CU_ASSERT_EQUAL(status, 0);
        CU_ASSERT_EQUAL(eventfd_read(server->base.users.quiet_fd, &written), 0);
        CU_ASSERT_EQUAL(written, 1);
        weir_http_server_free(server);
}

/* -- where something is logged -- */

static void
stop_where_it_is_logged(enum weir_log_level level, const char *message, void *context)
{
        (void)level, (void)message, (void)context;
        if (atomic_fetch_add(&at.logged, 1) == 0) {
                ask_all(&at.answers);
                at.stopped = weir_http_server_stop(at.server, 0);
                if (at.frees) {
                        weir_http_server_free(at.server);
                }
        }
}

static weir_http_server *
without_a_file(void)
{
        struct weir_http_server_config config = WEIR_HTTP_SERVER_CONFIG_DEFAULT;

        config.certificate_file = config.private_key_file = "/none";
        atomic_store(&at.logged, 0);
        CU_ASSERT_EQUAL(weir_log_set(stop_where_it_is_logged, NULL), 0);
        return weir_http_server_new(&config, reply, NULL);
}

static void
a_log_function_cannot_stop_the_start_that_calls_it(void)
{
        at.server = without_a_file();
        CU_ASSERT_EQUAL(start(at.server), -ENOENT);
        CU_ASSERT_EQUAL(atomic_load(&at.logged), 1);
        CU_ASSERT_EQUAL(at.stopped, -EDEADLK);
        CU_ASSERT_EQUAL(at.answers.reload, -ENOENT);
        at.answers.reload = -EDOM;
        expect_answers(&at.answers, -EDOM, -EALREADY);
        CU_ASSERT_EQUAL(start(at.server), -ENOENT); /* it may be tried again */
        weir_http_server_free(at.server);
        CU_ASSERT_EQUAL(weir_log_set(NULL, NULL), 0);
}

static void
free_where_it_is_logged(void)
{
        at.frees = true;
        at.server = without_a_file();
        start(at.server);
}

/* Comes first: the child needs a runtime of its own. */
static void
a_log_function_that_frees_the_server_that_starts_aborts(void)
{
        weir_test_aborts(free_where_it_is_logged, "weir_http_server_free");
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(a_log_function_that_frees_the_server_that_starts_aborts),
                WEIR_TEST(a_handler_is_answered_while_its_server_stops),
                WEIR_TEST(an_access_log_is_answered_while_its_server_stops),
                WEIR_TEST(an_access_log_is_answered_while_its_server_serves),
                WEIR_TEST(a_server_may_be_freed_while_two_threads_wait_for_its_stop),
                WEIR_TEST(a_stop_while_a_successor_starts_leaves_the_file_of_its_socket),
                WEIR_TEST(others_are_answered_while_a_server_starts),
                WEIR_TEST(a_start_may_be_waited_for_by_who_stops_and_who_frees_the_server),
                WEIR_TEST(a_child_is_refused_in_the_middle_of_a_stop),
                WEIR_TEST(a_child_is_refused_in_the_middle_of_a_start),
                WEIR_TEST(a_child_does_not_wait_for_a_stop_of_its_parent),
                WEIR_TEST(a_server_made_before_a_fork_may_be_started_by_each_process),
                WEIR_TEST(a_log_function_cannot_stop_the_start_that_calls_it),
        };

        return weir_test_main("server_calls", tests, sizeof tests / sizeof *tests);
}
