/* test/e2e/parked_fibers.c: fibers that wait in five ways, one that waits deep in its calls, and one that runs: for a debugger.
 *
 *     parked_fibers        prints "parked" once all are there, and waits for its end
 *     parked_fibers crash  aborts then */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <weir/weir.h>

static weir_channel *channel;
static volatile int recursions = 3; /* no compiler knows it */
static volatile bool has_begun;

/* Something behind the call: it is no tail call. */
static __attribute__((noinline)) int
over(int err)
{
        __asm__ volatile("" : "+r"(err));
        return err;
}

static int
sleeper_function(void *context)
{
        (void)context;
        weir_series_set_name(weir_fiber_series(), "nap of a day");
        return over(weir_fiber_sleep(WEIR_SEC(86400)));
}

static int
receiver_function(void *context)
{
        void *message;

        (void)context;
        return over(weir_fiber_receive(channel, &message));
}

static int
timer_function(void *context)
{
        (void)context;
        return over(weir_await(weir_timer_new_named("alarm clock", WEIR_SEC(86400), NULL, NULL)));
}

static __attribute__((noinline)) int
dig_function(int deep)
{
        return over(deep ? dig_function(deep - 1) : weir_await(weir_timer_new(WEIR_SEC(86400), NULL, NULL)));
}

static int
deep_function(void *context)
{
        (void)context;
        return over(dig_function(recursions));
}

static int
group_function(void *context)
{
        weir_group *group = weir_group_open();

        (void)context;
        weir_group_start(group, weir_timer_new(WEIR_SEC(86400), NULL, NULL));
        weir_group_start(group, weir_timer_new(WEIR_SEC(86400), NULL, NULL));
        return over(weir_group_close(group));
}

static int
short_function(void *context)
{
        (void)context;
        return over(weir_fiber_yield());
}

static int
running_function(void *context)
{
        (void)context;
        weir_blocking_begin();
        has_begun = true;
        while (has_begun)
                sleep(1);
        weir_blocking_end();
        return 0;
}

int
main(int argc, char *argv[])
{
        static weir_fiber_fn *const functions[] = {sleeper_function, receiver_function, timer_function, deep_function,
                                                   group_function};
        struct weir_config config = WEIR_CONFIG_DEFAULT;

        config.pollers = 1; /* so the short one, which is the last to begin, ends when the others wait */
        int err = weir_init(&config);
        channel = weir_channel_new(1, NULL);
        for (size_t i = 0; i < sizeof functions / sizeof *functions && !err; i++)
                err = weir_task_start(weir_fiber_new_as("parked one", functions[i], NULL, NULL));
        if (!err)
                err = weir_task_run(weir_fiber_new(short_function, NULL, NULL));
        if (!err)
                err = weir_task_start(weir_fiber_new(running_function, NULL, NULL));
        if (err) {
                fprintf(stderr, "parked_fibers: %s\n", strerror(-err));
                return 1;
        }
        while (!has_begun)
                usleep(10000);
        if (argc > 1 && strcmp(argv[1], "crash") == 0)
                abort();
        puts("parked");
        fflush(stdout);
        pause();
        return 0;
}
