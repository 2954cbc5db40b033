/* 27-fiber-pipeline.c: the pipeline of 19-channel-pipeline, with a fiber for each stage.
 *
 *     27-fiber-pipeline
 *
 *     read ---[ orders, 2 ]---> check ---[ good, 1 ]---> ship
 *                                 ^
 *     stop -----------------------'
 *
 * Each stage is a function with a loop, which is read from top to bottom.  Where it waits, its thread does other work.  What it
 * prints is what the program with callbacks prints, but for the order within an instant. */
#include <stdio.h>
#include <stdlib.h>

#include <weir/weir.h>

#define ORDERS 9

static weir_channel *orders, *good, *stop;
static weir_nsec began;

static void say(const char *who, const char *what)
{
        printf("%3lld ms  %-5s  %s\n", (long long)((weir_now() - began) / WEIR_MSEC(1)), who, what);
}

static void say_order(const char *who, const char *what, const int *order)
{
        char text[64];

        snprintf(text, sizeof text, "%s %d", what, *order);
        say(who, text);
}

static int *order_new(int number)
{
        int *order = malloc(sizeof *order);

        if (order)
                *order = number;
        return order;
}

/* The channel drops the messages that nobody takes. */
static void order_drop(void *order)
{
        say_order("", "dropped:", order);
        free(order);
}

/* -- the stages -- */

static int read_orders(void *context)
{
        (void)context;
        for (int number = 1; number <= ORDERS; number++) {
                int *order = order_new(number);

                if (weir_fiber_send(orders, order)) {
                        say_order("read", "nobody wants", &number);
                        order_drop(order); /* it is still ours */
                        return 0;
                }
                say_order("read", "has passed on", &number);
        }
        return weir_channel_close(orders);
}

/* Even numbers are bad.  The stop comes first: when both are there, it wins. */
static int check(void *context)
{
        struct weir_case cases[] = {{.receive = stop}, {.receive = orders}};
        int winner;

        (void)context;
        while ((winner = weir_fiber_select(cases, 2)) >= 0 && cases[winner].status == 0) {
                int *order = cases[winner].message;

                say_order("check", *order % 2 ? "finds good" : "finds bad", order);
                if (*order % 2 == 0 || weir_fiber_send(good, order))
                        order_drop(order);
        }
        say("check", winner == 0 ? "is told to stop" : "has seen all");
        weir_channel_close(orders); /* for the reader, which may wait for room */
        return weir_channel_close(good);
}

static int ship(void *context)
{
        void *order;

        (void)context;
        while (weir_fiber_receive(good, &order) == 0) {
                say_order("ship", "ships", order);
                free(order);
                weir_fiber_sleep(WEIR_MSEC(30));
        }
        say("ship", "has shipped all");
        return 0;
}

/* -- the three of them -- */

static int run_stages(void *context)
{
        weir_nsec *until = context;
        weir_group *stages = weir_group_open();

        began = weir_now();
        weir_group_start(stages, weir_fiber_new(read_orders, NULL, NULL));
        weir_group_start(stages, weir_fiber_new(check, NULL, NULL));
        weir_group_start(stages, weir_fiber_new(ship, NULL, NULL));
        if (weir_fiber_sleep(*until) == 0)
                weir_channel_close(stop);
        return weir_group_close(stages); /* waits for all three */
}

static int run(weir_nsec until)
{
        orders = weir_channel_new(2, order_drop);
        good = weir_channel_new(1, order_drop);
        stop = weir_channel_new(0, NULL);
        int status = weir_task_run(weir_fiber_new(run_stages, NULL, &until));
        weir_channel_unref(orders);
        weir_channel_unref(good);
        weir_channel_unref(stop);
        return status;
}

int main(void)
{
        struct weir_config config = WEIR_CONFIG_DEFAULT;

        config.clock = WEIR_CLOCK_VIRTUAL;
        if (weir_init(&config))
                return 1;
        puts("all of it");
        int status = run(WEIR_SEC(1));
        puts("stopped after 50 ms");
        if (!status)
                status = run(WEIR_MSEC(50));
        return weir_shutdown() != 0 || status;
}
