/* 19-channel-pipeline.c: three stages that pass orders on through channels, and stop in an orderly way.
 *
 *     19-channel-pipeline
 *
 *     read ---[ orders, 2 ]---> check ---[ good, 1 ]---> ship
 *                                 ^
 *     stop -----------------------'
 *
 * A channel holds a limited number of messages.  Shipping takes 30 ms, so the channels in front of it fill up, and then the
 * reader waits: that is back-pressure.  No code counts or sleeps for it, and the memory does not depend on the number of orders.
 *
 * The checker waits at two channels at once: for an order, and for the stop.  After the stop, or after the last order, it closes
 * the channel behind it.  The orders in that channel are still shipped, and then the shipper ends too.
 *
 * On the virtual clock the program is over at once, and prints the same each time. */
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

/* -- read: makes the next order as soon as the last one is in the channel -- */

static void was_read(weir_task *send, void *number);

static void read_next(weir_series *series, int *number)
{
        ++*number;
        weir_series_push(series, weir_channel_send_new(orders, order_new(*number), was_read, number));
}

static void was_read(weir_task *send, void *context)
{
        int *number = context;

        if (weir_task_status(send)) {
                say_order("read", "nobody wants", number);
                return;
        }
        say_order("read", "has passed on", number);
        if (*number < ORDERS)
                read_next(weir_series_of(send), number);
        else
                weir_channel_close(orders);
}

/* -- check: even numbers are bad -- */

static void to_check(weir_task *select, void *context);

/* The stop comes first: when both are there, it wins. */
static void check_next(weir_series *series)
{
        weir_task *select = weir_select_new(to_check, NULL);

        weir_select_receive(select, stop);
        weir_select_receive(select, orders);
        weir_series_push(series, select);
}

static void was_checked(weir_task *send, void *context)
{
        (void)context;
        check_next(weir_series_of(send));
}

static void to_check(weir_task *select, void *context)
{
        weir_series *series = weir_series_of(select);
        int *order = weir_channel_message(select);

        (void)context;
        if (!order) { /* -EPIPE: one of the two is closed */
                say("check", weir_select_winner(select) == 0 ? "is told to stop" : "has seen all");
                weir_channel_close(orders); /* for the reader, which may wait for room */
                weir_channel_close(good);
                return;
        }
        say_order("check", *order % 2 ? "finds good" : "finds bad", order);
        if (*order % 2) {
                order = weir_channel_take_message(select);
                weir_series_push(series, weir_channel_send_new(good, order, was_checked, NULL));
        } else {
                check_next(series);
        }
}

/* -- ship: is slow -- */

static void to_ship(weir_task *receive, void *context);

static void ship_next(weir_task *timer, void *context)
{
        (void)context;
        weir_series_push(weir_series_of(timer), weir_channel_receive_new(good, to_ship, NULL));
}

static void to_ship(weir_task *receive, void *context)
{
        int *order = weir_channel_take_message(receive);

        (void)context;
        if (!order) {
                say("ship", "has shipped all");
                return;
        }
        say_order("ship", "ships", order);
        free(order);
        weir_series_push(weir_series_of(receive), weir_timer_new(WEIR_MSEC(30), ship_next, NULL));
}

/* -- the three of them -- */

static void tell_to_stop(weir_task *timer, void *context)
{
        (void)context;
        if (weir_task_status(timer) == 0)
                weir_channel_close(stop); /* all tasks that wait there see it, now and later */
}

/* Begins on a worker, so that nothing is printed while it goes on. */
static void begin(weir_task *timer, void *context)
{
        weir_task *stages = weir_parallel_new(NULL, NULL);
        weir_series *read = weir_series_new(NULL, NULL), *check = weir_series_new(NULL, NULL);

        read_next(read, context);
        check_next(check);
        weir_parallel_add_series(stages, read);
        weir_parallel_add_series(stages, check);
        weir_parallel_add(stages, weir_channel_receive_new(good, to_ship, NULL));
        began = weir_now();
        weir_series_push(weir_series_of(timer), stages);
}

static int run(weir_nsec until)
{
        int number = 0;

        orders = weir_channel_new(2, order_drop);
        good = weir_channel_new(1, order_drop);
        stop = weir_channel_new(0, NULL);
        weir_task_start(weir_timer_new_named("stop", until, tell_to_stop, NULL));
        int status = weir_task_run(weir_timer_new(0, begin, &number));
        weir_timer_cancel("stop", WEIR_ALL);
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
