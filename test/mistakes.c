/* test/mistakes.c: a program with the mistakes that docs/debugging-your-program.md finds.  Its argument chooses one.
 *
 * test/watched_test.sh builds it with sanitizers against the shipped library, and runs it under valgrind. */
#include <stdio.h>
#include <string.h>

#include <weir/weir.h>

/* A task is gone when its callback has returned. */
static void
use_a_task_that_is_gone(void)
{
        weir_series *series = weir_series_new(NULL, NULL);
        weir_task *timer = weir_timer_new_named("session/7", WEIR_MSEC(1), NULL, NULL);

        weir_series_push(series, timer);
        weir_series_run(series);
        printf("it ended with %d\n", weir_task_status(timer)); /* wrong: it is gone */
}

static void
start_a_task_that_is_gone(void)
{
        weir_series *series = weir_series_new(NULL, NULL);
        weir_task *timer = weir_timer_new_named("session/7", WEIR_MSEC(1), NULL, NULL);

        weir_series_push(series, timer);
        weir_series_run(series);
        weir_task_start(timer);
}

static void
push_onto_a_series_that_is_gone(void)
{
        weir_series *series = weir_series_new(NULL, NULL);

        weir_series_start(series);
        weir_shutdown();
        weir_series_push(series, weir_empty_new(NULL, NULL));
}

/* A task that is neither started nor dismissed is lost. */
static void
make_and_forget(void)
{
        for (int i = 0; i < 10; i++) {
                weir_timer_new(WEIR_SEC(1), NULL, NULL);
                weir_series_new(NULL, NULL);
        }
}

static void
make_and_forget_with_names(void)
{
        char name[32];

        for (int i = 0; i < 10; i++) {
                snprintf(name, sizeof name, "session/%d", 7 + i);
                weir_timer_new_named(name, WEIR_SEC(1), NULL, NULL);
        }
        weir_series_set_name(weir_series_new(NULL, NULL), "checkout");
}

/* A channel is used after the last reference was given back. */
static void
use_a_channel_that_is_gone(void)
{
        weir_channel *channel = weir_channel_new(1, NULL);

        weir_channel_unref(channel);
        weir_channel_post(channel, NULL);
}

/* Another library answers a promise whose task is gone, and has no reference. */
static void
end_a_promise_that_is_gone(void)
{
        weir_task *promise = weir_promise_new(NULL, NULL, NULL);

        weir_promise_end(promise, 0);
        weir_task_run(promise);
        weir_promise_end(promise, 0);
}

static void
look_at_a_guard_that_is_gone(void)
{
        weir_guard *guard = weir_guard_new();

        weir_guard_unref(guard);
        printf("it is held: %d\n", weir_guard_is_held(guard, NULL));
}

static void
put_into_a_pool_that_is_gone(void)
{
        static int object;
        weir_pool *pool = weir_pool_new(NULL);

        weir_pool_unref(pool);
        weir_pool_put(pool, &object);
}

static void
count_down_a_wait_group_that_is_gone(void)
{
        weir_waitgroup *group = weir_waitgroup_new();

        weir_waitgroup_add(group, 1);
        weir_waitgroup_free(group);
        weir_waitgroup_done(group);
}

static void
look_at_the_message_of_a_task_that_is_gone(void)
{
        weir_channel *channel = weir_channel_new(1, NULL);
        weir_task *receive = weir_channel_receive_new(channel, NULL, NULL);

        weir_channel_post(channel, channel);
        weir_task_run(receive);
        weir_channel_unref(channel);
        printf("it was %p\n", weir_channel_message(receive));
}

static void
add_to_a_router_that_is_gone(void)
{
        weir_http_router *router = weir_http_router_new();

        weir_http_router_free(router);
        weir_http_router_add(router, "GET", "/", weir_http_debug, NULL);
}

static void
look_at_a_server_that_is_gone(void)
{
        weir_http_server *server = weir_http_server_new(NULL, weir_http_debug, NULL);

        weir_http_server_free(server);
        printf("its port is %d\n", weir_http_server_port(server));
}

/* Nobody gives back the last reference of an object without a name, and no task waits there. */
static void
make_objects_and_forget(void)
{
        for (int i = 0; i < 10; i++) {
                weir_channel_new(1, NULL);
                weir_guard_new();
        }
}

int
main(int count, char **arguments)
{
        static const struct {
                const char *name;
                void (*make)(void);
        } mistakes[] = {
                {"use", use_a_task_that_is_gone},
                {"start", start_a_task_that_is_gone},
                {"push", push_onto_a_series_that_is_gone},
                {"forget", make_and_forget},
                {"forget-named", make_and_forget_with_names},
                {"channel", use_a_channel_that_is_gone},
                {"promise", end_a_promise_that_is_gone},
                {"guard", look_at_a_guard_that_is_gone},
                {"pool", put_into_a_pool_that_is_gone},
                {"waitgroup", count_down_a_wait_group_that_is_gone},
                {"message", look_at_the_message_of_a_task_that_is_gone},
                {"router", add_to_a_router_that_is_gone},
                {"server", look_at_a_server_that_is_gone},
                {"forget-objects", make_objects_and_forget},
        };

        weir_init(NULL);
        for (size_t i = 0; count > 1 && i < sizeof mistakes / sizeof *mistakes; i++)
                if (strcmp(arguments[1], mistakes[i].name) == 0)
                        mistakes[i].make();
        return weir_shutdown();
}
