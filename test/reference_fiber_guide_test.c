/* test/reference_fiber_guide_test.c: the examples of the reference for weir/fiber.h, and of docs/fibers.md. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weir/weir.h>

#include "test/fiber_fixture.h"

/* -- the example of weir/fiber.h -- */

static void
answer(weir_task *exchange, void *context)
{
        (void)context;
        weir_http_reply_text(exchange, 200, "hello\n");
}

static char url[64];

static int
fetch(void *context)
{
        weir_task *get = weir_http_get_new(url, NULL, NULL);
        int err = weir_await(get);

        (void)context;
        if (!err)
                err = weir_fiber_sleep(WEIR_MSEC(1));
        return err;
}

static void
a_fiber_fetches_and_sleeps(void)
{
        weir_http_server *server = weir_http_server_new(NULL, answer, NULL);

        weir_test_begin_real(2);
        CU_ASSERT_EQUAL_FATAL(weir_http_server_start(server, "127.0.0.1:0"), 0);
        snprintf(url, sizeof url, "http://127.0.0.1:%d/", weir_http_server_port(server));

        int err = weir_task_run(weir_fiber_new(fetch, NULL, NULL));

        CU_ASSERT_EQUAL(err, 0);
        weir_http_server_stop(server, WEIR_SEC(10));
        weir_http_server_free(server);
        weir_test_end();
}

/* -- a page in one call -- */

static int
show(void *context)
{
        void *body;
        size_t size;
        int status = weir_fiber_http_get(url, &body, &size);

        if (status < 0)
                return status; /* no connection, cancelled, out of memory */
        printf("%d, %zu bytes: %s", status, size, body ? (char *)body : "");
        *(int *)context = status;
        free(body);
        return 0;
}

static void
a_fiber_gets_a_page(void)
{
        weir_http_server *server = weir_http_server_new(NULL, answer, NULL);
        int status = 0;

        weir_test_begin_real(2);
        CU_ASSERT_EQUAL_FATAL(weir_http_server_start(server, "127.0.0.1:0"), 0);
        snprintf(url, sizeof url, "http://127.0.0.1:%d/", weir_http_server_port(server));
        CU_ASSERT_EQUAL(weir_task_run(weir_fiber_new(show, NULL, &status)), 0);
        CU_ASSERT_EQUAL(status, 200);
        weir_http_server_stop(server, WEIR_SEC(10));
        weir_http_server_free(server);
        weir_test_end();
}

/* -- awaits -- */

static const char *page;

static int
count_bytes(void *context)
{
        size_t *bytes = context;
        weir_task *stat = weir_file_stat_new(page, true, NULL, NULL);
        int err = weir_await(stat);

        if (err)
                return err;                             /* not there, cancelled, out of memory */
        *bytes = (size_t)weir_file_stat(stat)->st_size; /* until the next await */
        return 0;
}

static void
a_task_is_borrowed_until_the_next_await(void)
{
        size_t bytes = 0;

        weir_test_begin_real(2);
        page = "/proc/self/exe";
        CU_ASSERT_EQUAL(weir_task_run(weir_fiber_new(count_bytes, NULL, &bytes)), 0);
        CU_ASSERT(bytes > 0);
        page = "/nowhere";
        CU_ASSERT_EQUAL(weir_task_run(weir_fiber_new(count_bytes, NULL, &bytes)), -ENOENT);
        weir_test_end();
}

static weir_counter *event;

static int
wait_a_minute(void *context)
{
        (void)context;
        if (weir_await_within(weir_counter_wait_new(event, NULL, NULL), WEIR_SEC(60)) == -ETIMEDOUT)
                return weir_fiber_yield(); /* the fiber goes on: what was too slow has ended */
        return -EBUSY;
}

static void
an_await_has_a_limit(void)
{
        event = weir_counter_new(1);
        CU_ASSERT_EQUAL(weir_test_run_fiber(wait_a_minute, NULL), 0);
        weir_counter_unref(event);
}

/* -- waits without a task -- */

static weir_channel *numbers;

static int
count_up(void *context)
{
        int err = 0;

        (void)context;
        for (intptr_t i = 1; i <= 3 && !err; i++)
                err = weir_fiber_send(numbers, (void *)i);
        weir_channel_close(numbers);
        return err;
}

static int
add_up(void *context)
{
        intptr_t *sum = context;
        void *number;
        int err;

        while (!(err = weir_fiber_receive(numbers, &number)))
                *sum += (intptr_t)number;
        return err == -EPIPE ? 0 : err; /* closed, and all is received */
}

static void
fibers_pass_messages(void)
{
        weir_task *both = weir_parallel_new(NULL, NULL);
        intptr_t sum = 0;

        weir_test_begin_real(2);
        numbers = weir_channel_new(0, NULL);
        weir_parallel_add(both, weir_fiber_new(count_up, NULL, NULL));
        weir_parallel_add(both, weir_fiber_new(add_up, NULL, &sum));
        CU_ASSERT_EQUAL(weir_task_run(both), 0);
        CU_ASSERT_EQUAL(sum, 6);
        weir_channel_unref(numbers);
        weir_test_end();
}

static weir_channel *stop;

static int
add_up_until_told(void *context)
{
        struct weir_case cases[] = {{.receive = stop}, {.receive = numbers}};
        intptr_t *sum = context;
        int winner;

        while ((winner = weir_fiber_select(cases, 2)) >= 0) {
                if (cases[winner].status == -EPIPE)
                        return 0; /* one of the two is closed */
                *sum += (intptr_t)cases[winner].message;
        }
        return winner; /* cancelled, out of memory */
}

static int
add_up_what_is_there(void *context)
{
        struct weir_case one = {.receive = numbers};
        intptr_t *sum = context;

        while (weir_fiber_select_within(&one, 1, WEIR_MSEC(1)) == 0 && one.status == 0)
                *sum += (intptr_t)one.message;
        return 0;
}

static void
a_fiber_waits_at_two_channels(void)
{
        intptr_t sum = 0;

        stop = weir_channel_new(0, NULL);
        numbers = weir_channel_new(2, NULL);
        weir_channel_post(numbers, (void *)1);
        CU_ASSERT_EQUAL(weir_test_run_fiber(add_up_what_is_there, &sum), 0);
        CU_ASSERT_EQUAL(sum, 1);
        weir_channel_post(numbers, (void *)2);
        weir_channel_close(numbers);
        CU_ASSERT_EQUAL(weir_test_run_fiber(add_up_until_told, &sum), 0);
        CU_ASSERT_EQUAL(sum, 3);
        weir_channel_unref(numbers);
        weir_channel_unref(stop);
}

static weir_guard *account;
static int balance;

static int
pay_in(void *context)
{
        int err = weir_fiber_acquire(account);

        (void)context;
        if (err)
                return err;
        int before = balance;
        err = weir_fiber_sleep(WEIR_MSEC(10)); /* the fiber holds the guard, and no thread waits */
        balance = before + 10;
        weir_fiber_release(account);
        return err;
}

static int
pay_in_twice(void *context)
{
        weir_group *group = weir_group_open();

        (void)context;
        weir_group_start(group, weir_fiber_new(pay_in, NULL, NULL));
        weir_group_start(group, weir_fiber_new(pay_in, NULL, NULL));
        return weir_group_close(group);
}

static void
a_guard_is_a_mutex_for_fibers(void)
{
        account = weir_guard_new();
        CU_ASSERT_EQUAL(weir_test_run_fiber(pay_in_twice, NULL), 0);
        CU_ASSERT_EQUAL(balance, 20);
        weir_guard_unref(account);
}

static weir_pool *connections;
static weir_semaphore *at_once;
static weir_counter *asked;

static int
ask_database(void *context)
{
        void *connection;
        int err = weir_fiber_take(connections, &connection); /* waits for one that is free */

        (void)context;
        if (err)
                return err;
        err = weir_fiber_sleep(WEIR_MSEC(10)); /* or a request */
        weir_pool_put(connections, connection);
        weir_counter_count(asked, 1);
        return err;
}

static int
ask_politely(void *context)
{
        int err = weir_fiber_acquire_tokens(at_once, 1);

        if (!err) {
                err = ask_database(context);
                weir_semaphore_release(at_once, 1);
        }
        return err;
}

static int
ask_three_times(void *context)
{
        weir_group *group = weir_group_open();

        (void)context;
        for (int i = 0; i < 3; i++)
                weir_group_start(group, weir_fiber_new(ask_politely, NULL, NULL));
        int err = weir_fiber_wait(asked); /* until all three have been counted */

        return err ? err : weir_group_close(group);
}

static void
fibers_take_objects_and_tokens(void)
{
        static int one;

        connections = weir_pool_new(NULL);
        at_once = weir_semaphore_new(2);
        asked = weir_counter_new(3);
        weir_pool_put(connections, &one);
        CU_ASSERT_EQUAL(weir_test_run_fiber(ask_three_times, NULL), 0);
        weir_counter_unref(asked);
        weir_semaphore_unref(at_once);
        weir_pool_unref(connections);
}

static int
fetch_beside(void *context)
{
        weir_waitgroup *fetches = context;

        for (int i = 1; i <= 3; i++) /* a request would do */
                weir_task_start_waited(weir_timer_new(WEIR_MSEC(i), NULL, NULL), fetches);
        return weir_fiber_wait_done(fetches, WEIR_SEC(30));
}

static void
a_fiber_waits_for_a_waitgroup(void)
{
        weir_waitgroup *fetches = weir_waitgroup_new();

        CU_ASSERT_EQUAL(weir_test_run_fiber(fetch_beside, fetches), 0);
        weir_waitgroup_free(fetches);
}

static void
square(void *context)
{
        long *number = context;

        *number *= *number;
}

static int
compute(void *context)
{
        long *number = context;
        int err = weir_fiber_go(square, number); /* on the executor */

        return err ? err : weir_fiber_yield(); /* others first */
}

static void
a_fiber_computes_on_the_executor(void)
{
        long number = 12;

        weir_test_begin_real(2);
        CU_ASSERT_EQUAL(weir_task_run(weir_fiber_new(compute, NULL, &number)), 0);
        CU_ASSERT_EQUAL(number, 144);
        weir_test_end();
}

/* -- streams -- */

static int
echo(void *context)
{
        weir_stream *stream = context;
        char data[4096];
        ssize_t size;
        int err = 0;

        while (!err && (size = weir_fiber_read(stream, data, sizeof data)) > 0)
                err = weir_fiber_write(stream, data, (size_t)size);
        return err ? err : (int)size; /* 0 at the end of the stream */
}

static void
on_connection(weir_stream *stream, weir_series *series, void *context)
{
        (void)context;
        weir_series_push(series, weir_fiber_new(echo, NULL, stream));
}

static int
talk(void *context)
{
        weir_stream *stream;
        char answer[6] = "";
        int err = weir_fiber_connect(context, &stream);

        if (err)
                return err;
        err = weir_fiber_write(stream, "hello", 5);
        if (!err && weir_fiber_read_full(stream, answer, 5) == 5)
                printf("%s\n", answer);
        weir_stream_unref(stream);
        return err;
}

static void
a_connection_is_a_fiber(void)
{
        weir_stream_server *server = weir_stream_server_new(NULL, on_connection, NULL);
        char address[64];

        weir_test_begin_real(2);
        CU_ASSERT_EQUAL_FATAL(weir_stream_server_start(server, "127.0.0.1:0"), 0);
        snprintf(address, sizeof address, "127.0.0.1:%d", weir_stream_server_port(server));
        CU_ASSERT_EQUAL(weir_task_run(weir_fiber_new(talk, NULL, address)), 0);
        weir_stream_server_stop(server, WEIR_SEC(10));
        weir_stream_server_free(server);
        weir_test_end();
}

/* -- files -- */

static int
copy(void *context)
{
        const char *const *paths = context;
        weir_file *from = NULL, *to = NULL;
        char data[4096];
        ssize_t size = 0;
        int64_t at = 0;
        int err = weir_fiber_open(paths[0], O_RDONLY, 0, &from);

        if (!err)
                err = weir_fiber_open(paths[1], O_WRONLY | O_CREAT | O_TRUNC, 0600, &to);
        while (!err && (size = weir_fiber_pread(from, at, data, sizeof data)) > 0) {
                err = weir_fiber_pwrite(to, at, data, (size_t)size);
                at += size;
        }
        weir_file_unref(from);
        weir_file_unref(to);
        return err ? err : (int)size;
}

static void
a_fiber_copies_a_file(void)
{
        char name[64];
        const char *paths[] = {"/proc/self/exe", name};
        struct stat one, two = {0};

        snprintf(name, sizeof name, "/tmp/weir-fiber-guide-%d", (int)getpid());
        weir_test_begin_real(2);
        CU_ASSERT_EQUAL(weir_task_run(weir_fiber_new(copy, NULL, paths)), 0);
        CU_ASSERT(stat(paths[0], &one) == 0 && stat(name, &two) == 0 && one.st_size == two.st_size);
        unlink(name);
        paths[0] = "/nowhere";
        CU_ASSERT_EQUAL(weir_task_run(weir_fiber_new(copy, NULL, paths)), -ENOENT);
        weir_test_end();
}

/* -- early ends -- */

static int cleaned_up;

static int
hold_a_lease(void *context)
{
        (void)context;
        weir_series_set_name(weir_fiber_series(), "lease/17");
        int err = weir_fiber_sleep(WEIR_SEC(3600)); /* -ECANCELED */

        if (!weir_fiber_shield(true)) {
                cleaned_up = weir_fiber_sleep(WEIR_MSEC(5)) == 0; /* or a request */
                weir_fiber_shield(false);
        }
        return err;
}

static void
a_shield_is_for_cleaning_up(void)
{
        weir_task *fiber = weir_fiber_new(hold_a_lease, NULL, NULL);
        struct weir_test_record lease = {0};

        weir_test_begin_virtual();
        weir_series *series = weir_series_new(weir_test_series_done, &lease);
        weir_series_push(series, fiber);
        weir_series_start(series);
        weir_test_pass(WEIR_SEC(1));

        CU_ASSERT_EQUAL(weir_series_cancel_named("lease/17", WEIR_ALL), 1);

        weir_test_pass(WEIR_SEC(1));
        CU_ASSERT_EQUAL(lease.calls, 1);
        CU_ASSERT_TRUE(cleaned_up);
        weir_test_end();
}

/* -- groups -- */

static int
ask(void *context)
{
        weir_nsec *delay = context;

        return *delay < WEIR_SEC(1) ? weir_fiber_sleep(*delay) : -ECONNREFUSED;
}

static int
ask_all(void *context)
{
        weir_nsec *delays = context;
        weir_group *group = weir_group_open();

        weir_group_stop_on_failure(group); /* the first failure cancels the rest */
        for (int i = 0; i < 3; i++)
                weir_group_start(group, weir_fiber_new(ask, NULL, &delays[i]));
        return weir_group_close(group); /* waits for all three */
}

static int
ask_for_a_while(void *context)
{
        weir_nsec *delays = context;
        weir_group *group = weir_group_open();

        for (int i = 0; i < 3; i++)
                weir_group_start(group, weir_fiber_new(ask, NULL, &delays[i]));
        weir_fiber_sleep(WEIR_MSEC(25));
        weir_group_cancel(group);
        return weir_group_close(group); /* -ECANCELED, as one was too slow */
}

static void
a_group_has_children(void)
{
        weir_nsec quick[] = {WEIR_MSEC(10), WEIR_MSEC(20), WEIR_MSEC(30)}, bad[] = {WEIR_MSEC(10), WEIR_SEC(1), WEIR_MSEC(30)};

        CU_ASSERT_EQUAL(weir_test_run_fiber(ask_all, quick), 0);
        CU_ASSERT_EQUAL(weir_test_run_fiber(ask_all, bad), -ECONNREFUSED);
        CU_ASSERT_EQUAL(weir_test_run_fiber(ask_for_a_while, quick), -ECANCELED);
}

/* -- the rest of a callback is a fiber -- */

static int
reply_late(void *context)
{
        weir_task *exchange = context;
        int err = weir_fiber_sleep(WEIR_MSEC(5));

        return err ? err : weir_http_reply_text(exchange, 200, "hello, a little late\n");
}

static void
on_request(weir_task *exchange, void *context)
{
        (void)context;
        if (weir_fiber_begin(exchange, reply_late, exchange))
                weir_http_reply_text(exchange, 503, "too busy\n");
}

/* The same, with a name of its own in dumps. */
static void
on_named_request(weir_task *exchange, void *context)
{
        (void)context;
        weir_fiber_begin_as("greeting", exchange, reply_late, exchange);
}

static int
get(void *context)
{
        weir_task *request = weir_http_get_new(url, NULL, NULL);
        size_t size = 0;

        (void)context;
        CU_ASSERT_EQUAL(weir_await(request), 0);
        CU_ASSERT_EQUAL(weir_http_response_status(request), 200);
        const char *body = weir_http_response_body(request, &size);
        CU_ASSERT(size == 21 && memcmp(body, "hello, a little late\n", 21) == 0);
        return 0;
}

static void
check_late_reply(weir_task_fn *handler)
{
        weir_http_server *server = weir_http_server_new(NULL, handler, NULL);

        weir_test_begin_real(2);
        CU_ASSERT_EQUAL_FATAL(weir_http_server_start(server, "127.0.0.1:0"), 0);
        snprintf(url, sizeof url, "http://127.0.0.1:%d/", weir_http_server_port(server));
        CU_ASSERT_EQUAL(weir_task_run(weir_fiber_new(get, NULL, NULL)), 0);
        weir_http_server_stop(server, WEIR_SEC(10));
        weir_http_server_free(server);
        weir_test_end();
}

static void
a_handler_goes_on_as_a_fiber(void)
{
        check_late_reply(on_request);
        check_late_reply(on_named_request);
}

/* -- a function that is called from both sides -- */

/* In a fiber the thread does other work meanwhile; on a thread of the program it waits. */
static int
pause_a_little(void)
{
        if (weir_fiber_is_running())
                return weir_fiber_sleep(WEIR_MSEC(1));
        return weir_await(weir_timer_new(WEIR_MSEC(1), NULL, NULL));
}

static int
pause_in_a_fiber(void *context)
{
        (void)context;
        return pause_a_little();
}

static void
an_await_is_a_run_elsewhere(void)
{
        weir_test_begin_real(2);
        CU_ASSERT_EQUAL(pause_a_little(), 0);
        CU_ASSERT_EQUAL(weir_task_run(weir_fiber_new_as("pause", pause_in_a_fiber, NULL, NULL)), 0);
        weir_test_end();
}

/* -- errno -- */

static int
keep_errno(void *context)
{
        (void)context;
        int failed = access("/nowhere", F_OK) ? errno : 0; /* taken before the await */
        int err = weir_fiber_sleep(WEIR_MSEC(1));          /* another thread may go on */

        CU_ASSERT_PTR_EQUAL(weir_errno_location(), &errno); /* weir/fiber.h defines errno so */
        return err ? err : -failed;
}

static void
errno_is_read_before_an_await(void)
{
        CU_ASSERT_EQUAL(weir_test_run_fiber(keep_errno, NULL), -ENOENT);
}

/* -- a thread of its own -- */

static __thread int session;

static __attribute__((noinline)) void
library_open(void)
{
        session = 1;
}

static __attribute__((noinline)) int
library_has_session(void)
{
        return session;
}

static __attribute__((noinline)) void
library_close(void)
{
        session = 0;
}

static int
use_library(void *context)
{
        int err = weir_fiber_pin(true);

        if (err)
                return err;
        library_open(); /* it keeps its session in a thread-local variable */
        err = weir_fiber_sleep(WEIR_MSEC(1));
        *(int *)context = library_has_session();
        library_close();
        weir_fiber_pin(false);
        return err;
}

static void
a_fiber_has_a_thread_of_its_own(void)
{
        int has_session = 0;

        CU_ASSERT_EQUAL(weir_test_run_fiber(use_library, &has_session), 0);
        CU_ASSERT_TRUE(has_session);
}

/* -- statistics -- */

static int
look(void *context)
{
        return weir_fiber_stats(context);
}

static void
stacks_are_counted(void)
{
        struct weir_fiber_stats stats;

        CU_ASSERT_EQUAL(weir_test_run_fiber(look, &stats), 0);
        printf("%zu fibers, %zu stacks of %zu bytes\n", stats.running, stats.stacks, stats.stack_size);
        CU_ASSERT_EQUAL(stats.running, 1);
        CU_ASSERT(stats.stacks >= 1 && stats.stack_size >= 100000);
}

static const struct weir_test tests[] = {
        WEIR_TEST(a_fiber_fetches_and_sleeps),
        WEIR_TEST(a_task_is_borrowed_until_the_next_await),
        WEIR_TEST(an_await_has_a_limit),
        WEIR_TEST(fibers_pass_messages),
        WEIR_TEST(a_guard_is_a_mutex_for_fibers),
        WEIR_TEST(a_fiber_computes_on_the_executor),
        WEIR_TEST(a_fiber_waits_at_two_channels),
        WEIR_TEST(fibers_take_objects_and_tokens),
        WEIR_TEST(a_fiber_waits_for_a_waitgroup),
        WEIR_TEST(a_connection_is_a_fiber),
        WEIR_TEST(a_fiber_copies_a_file),
        WEIR_TEST(a_fiber_gets_a_page),
        WEIR_TEST(a_shield_is_for_cleaning_up),
        WEIR_TEST(a_group_has_children),
        WEIR_TEST(a_handler_goes_on_as_a_fiber),
        WEIR_TEST(an_await_is_a_run_elsewhere),
        WEIR_TEST(errno_is_read_before_an_await),
        WEIR_TEST(a_fiber_has_a_thread_of_its_own),
        WEIR_TEST(stacks_are_counted),
};

int
main(void)
{
        return weir_test_main("reference_fiber_guide", tests, sizeof tests / sizeof *tests);
}
