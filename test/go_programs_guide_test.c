/* test/go_programs_guide_test.c: the programs of docs/coming-from-go.md, on weir's side. */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "test/fiber_fixture.h"

static _Atomic int greetings, jobs_done, set_up, flushed;

/* -- goroutine -- */

static int
greet(void *context)
{
        const char *name = context;

        printf("hello, %s\n", name);
        atomic_fetch_add(&greetings, 1);
        return 0;
}

static int
go_greet(void *context)
{
        weir_group *group = weir_group_open();

        weir_group_start(group, weir_fiber_new(greet, NULL, context));
        return weir_group_close(group);
}

/* -- channel -- */

static int
produce(void *context)
{
        weir_channel *numbers = context;

        for (intptr_t i = 0; i < 5; i++)
                if (weir_fiber_send(numbers, (void *)i))
                        break;
        return weir_channel_close(numbers);
}

static int
sum_up(void *context)
{
        weir_channel *numbers = context;
        weir_group *group = weir_group_open();
        intptr_t sum = 0;
        void *number;

        weir_group_start(group, weir_fiber_new(produce, NULL, numbers));
        while (weir_fiber_receive(numbers, &number) == 0)
                sum += (intptr_t)number;
        CU_ASSERT_EQUAL(sum, 10);
        return weir_group_close(group);
}

/* -- select -- */

struct inputs {
        weir_channel *work, *quit;
};

static int
serve(void *context)
{
        const struct inputs *from = context;
        struct weir_case cases[] = {{.receive = from->work}, {.receive = from->quit}};

        for (;;) {
                int winner = weir_fiber_select_within(cases, 2, WEIR_SEC(1));

                if (winner == -ETIMEDOUT)
                        puts("idle for a second");
                else if (winner != 0 || cases[0].status)
                        return 0; /* -EPIPE: it was closed */
                else
                        printf("work %s\n", (char *)cases[0].message);
        }
}

static int
run_serve(void *context)
{
        struct inputs *from = context;
        weir_group *group = weir_group_open();

        weir_group_start(group, weir_fiber_new(serve, NULL, from));
        weir_fiber_send(from->work, "one");
        weir_fiber_sleep(WEIR_MSEC(1500));
        weir_channel_close(from->quit);
        return weir_group_close(group);
}

/* -- WaitGroup -- */

static int
wait_for_all(void *context)
{
        static char *names[] = {"Anna", "Bert", "Cleo"};
        weir_group *group = weir_group_open();

        (void)context;
        for (int i = 0; i < 3; i++)
                weir_group_start(group, weir_fiber_new(greet, NULL, names[i]));
        return weir_group_close(group);
}

/* -- errgroup -- */

static int
fetch(void *context)
{
        const char *url = context;

        if (strstr(url, "bad"))
                return -ECONNREFUSED; /* a request would stand here */
        return weir_fiber_sleep(WEIR_SEC(5));
}

static int
fetch_all(void *context)
{
        static char *urls[] = {"http://a/", "http://bad/", "http://c/"};
        weir_group *group = weir_group_open();

        (void)context;
        weir_group_stop_on_failure(group); /* the others are cancelled */
        for (int i = 0; i < 3; i++)
                weir_group_start(group, weir_fiber_new(fetch, NULL, urls[i]));
        return weir_group_close(group); /* the first error */
}

/* -- context with a timeout -- */

static int
query(void *context)
{
        (void)context;
        return weir_fiber_sleep(WEIR_SEC(10)); /* knows nothing of the limit */
}

static int
query_with_timeout(void *context)
{
        return weir_await_within(weir_fiber_new(query, NULL, context), WEIR_SEC(2));
}

/* -- mutex -- */

struct counter {
        weir_guard *guard;
        int value;
};

static int
increment(void *context)
{
        struct counter *counter = context;
        int err = weir_fiber_acquire(counter->guard);

        if (err)
                return err;
        int value = counter->value;
        weir_fiber_yield(); /* it may await while it holds the guard */
        counter->value = value + 1;
        return weir_fiber_release(counter->guard);
}

static int
increment_often(void *context)
{
        weir_group *group = weir_group_open();

        for (int i = 0; i < 10; i++)
                weir_group_start(group, weir_fiber_new(increment, NULL, context));
        return weir_group_close(group);
}

/* -- worker pool -- */

static int
work(void *context)
{
        weir_channel *jobs = context;
        void *job;

        while (weir_fiber_receive(jobs, &job) == 0) {
                weir_fiber_sleep(WEIR_MSEC(10));
                atomic_fetch_add(&jobs_done, 1);
        }
        return 0;
}

static int
run_pool(void *context)
{
        weir_channel *jobs = context;
        weir_group *workers = weir_group_open();

        for (int i = 0; i < 4; i++)
                weir_group_start(workers, weir_fiber_new(work, NULL, jobs));
        for (intptr_t job = 1; job <= 100; job++)
                weir_fiber_send(jobs, (void *)job);
        weir_channel_close(jobs);
        return weir_group_close(workers);
}

/* -- pipeline -- */

struct stage {
        weir_channel *in, *out;
};

static int
generate(void *context)
{
        const struct stage *stage = context;

        for (intptr_t i = 1; i <= 3; i++)
                weir_fiber_send(stage->out, (void *)i);
        return weir_channel_close(stage->out);
}

static int
square(void *context)
{
        const struct stage *stage = context;
        void *number;

        while (weir_fiber_receive(stage->in, &number) == 0)
                weir_fiber_send(stage->out, (void *)((intptr_t)number * (intptr_t)number));
        return weir_channel_close(stage->out);
}

static int
run_pipeline(void *context)
{
        struct stage *stages = context;
        weir_group *group = weir_group_open();
        intptr_t sum = 0;
        void *number;

        weir_group_start(group, weir_fiber_new(generate, NULL, &stages[0]));
        weir_group_start(group, weir_fiber_new(square, NULL, &stages[1]));
        while (weir_fiber_receive(stages[1].out, &number) == 0)
                sum += (intptr_t)number;
        CU_ASSERT_EQUAL(sum, 14);
        return weir_group_close(group);
}

/* -- ticker -- */

static int
tick(void *context)
{
        int *ticks = context, err = 0;

        for (weir_nsec next = weir_now(); !err && *ticks < 3; ++*ticks)
                err = weir_await(weir_timer_new_until(next += WEIR_SEC(1), NULL, NULL));
        return err;
}

/* -- Once -- */

struct once {
        weir_guard *guard;
        bool is_done;
};

static int
set_up_once(void *context)
{
        struct once *once = context;
        int err = weir_fiber_acquire(once->guard);

        if (!err && !once->is_done) {
                err = weir_fiber_sleep(WEIR_MSEC(10)); /* such as to open a connection */
                atomic_fetch_add(&set_up, 1);
                once->is_done = !err;
        }
        weir_fiber_release(once->guard);
        return err;
}

static int
need_it_often(void *context)
{
        weir_group *group = weir_group_open();

        for (int i = 0; i < 5; i++)
                weir_group_start(group, weir_fiber_new(set_up_once, NULL, context));
        return weir_group_close(group);
}

/* -- graceful shutdown -- */

static int
collect(void *context)
{
        int err;

        (void)context;
        while (!(err = weir_fiber_sleep(WEIR_SEC(60))))
                puts("collected");
        weir_fiber_shield(true);
        if (weir_await_within(weir_timer_new(WEIR_MSEC(5), NULL, NULL), WEIR_SEC(10)) == 0)
                atomic_fetch_add(&flushed, 1); /* what it has is written */
        weir_fiber_shield(false);
        return err;
}

static int
run_until_a_signal(void *context)
{
        weir_group *group = weir_group_open();

        (void)context;
        weir_group_start(group, weir_fiber_new(collect, NULL, NULL));
        int err = weir_await(weir_signal_new(SIGTERM, NULL, NULL));
        weir_group_cancel(group);
        weir_group_close(group); /* all have cleaned up */
        return err;
}

/* -- the tests -- */

static void
a_goroutine(void)
{
        greetings = 0;
        CU_ASSERT_EQUAL(weir_test_run_fiber(go_greet, "Dora"), 0);
        CU_ASSERT_EQUAL(weir_test_run_fiber(wait_for_all, NULL), 0);
        CU_ASSERT_EQUAL(greetings, 4);
}

static void
channels(void)
{
        weir_channel *numbers = weir_channel_new(2, NULL), *jobs = weir_channel_new(0, NULL);
        struct stage stages[2] = {{.out = weir_channel_new(0, NULL)}, {.out = weir_channel_new(0, NULL)}};

        stages[1].in = stages[0].out;
        CU_ASSERT_EQUAL(weir_test_run_fiber(sum_up, numbers), 0);
        CU_ASSERT_EQUAL(weir_test_run_fiber(run_pool, jobs), 0);
        CU_ASSERT_EQUAL(jobs_done, 100);
        CU_ASSERT_EQUAL(weir_test_run_fiber(run_pipeline, stages), 0);
        weir_channel_unref(numbers);
        weir_channel_unref(jobs);
        weir_channel_unref(stages[0].out);
        weir_channel_unref(stages[1].out);
}

static void
a_select(void)
{
        struct inputs from = {weir_channel_new(0, NULL), weir_channel_new(0, NULL)};

        CU_ASSERT_EQUAL(weir_test_run_fiber(run_serve, &from), 0);
        weir_channel_unref(from.work);
        weir_channel_unref(from.quit);
}

static void
errors_and_limits(void)
{
        CU_ASSERT_EQUAL(weir_test_run_fiber(fetch_all, NULL), -ECONNREFUSED);
        CU_ASSERT_EQUAL(weir_test_run_fiber(query_with_timeout, NULL), -ETIMEDOUT);
}

static void
a_mutex_and_once(void)
{
        struct counter counter = {.guard = weir_guard_new()};
        struct once once = {.guard = weir_guard_new()};

        CU_ASSERT_EQUAL(weir_test_run_fiber(increment_often, &counter), 0);
        CU_ASSERT_EQUAL(counter.value, 10);
        CU_ASSERT_EQUAL(weir_test_run_fiber(need_it_often, &once), 0);
        CU_ASSERT_EQUAL(set_up, 1);
        weir_guard_unref(counter.guard);
        weir_guard_unref(once.guard);
}

static void
a_ticker(void)
{
        int ticks = 0;

        CU_ASSERT_EQUAL(weir_test_run_fiber(tick, &ticks), 0);
        CU_ASSERT_EQUAL(ticks, 3);
}

static bool
is_awaited(void)
{
        struct sigaction now;

        return sigaction(SIGTERM, NULL, &now) == 0 && now.sa_handler != SIG_DFL;
}

static void *
ask_to_stop(void *unused)
{
        WEIR_TEST_EVENTUALLY(is_awaited());
        raise(SIGTERM); /* here, where it is handled at once: ThreadSanitizer puts off that of a thread which waits */
        return unused;
}

static void
a_graceful_shutdown(void)
{
        pthread_t thread;

        weir_test_begin_real(2);
        CU_ASSERT_EQUAL_FATAL(pthread_create(&thread, NULL, ask_to_stop, NULL), 0);
        CU_ASSERT_EQUAL(weir_task_run(weir_fiber_new(run_until_a_signal, NULL, NULL)), 0);
        pthread_join(thread, NULL);
        CU_ASSERT_EQUAL(flushed, 1);
        weir_test_end();
}

static const struct weir_test tests[] = {
        WEIR_TEST(a_goroutine),         WEIR_TEST(channels),         WEIR_TEST(a_select),
        WEIR_TEST(errors_and_limits),   WEIR_TEST(a_mutex_and_once), WEIR_TEST(a_ticker),
        WEIR_TEST(a_graceful_shutdown),
};

int
main(void)
{
        return weir_test_main("go_programs_guide", tests, sizeof tests / sizeof *tests);
}
