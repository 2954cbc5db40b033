/* bench/cost/bytes.c: objects whose bytes are counted. */
#include <stdio.h>
#include <stdlib.h>

#include <weir/weir.h>

#include "cost.h"

#define CONNECTIONS 3000

static int fds[2 * CONNECTIONS];
static size_t opened, sent;

static const char *
name_of(char text[16], size_t index)
{
        snprintf(text, 16, "user-%07zx", index);
        return text;
}

static void
make_timer(size_t index)
{
        (void)index;
        weir_task_start(weir_timer_new(WEIR_SEC(60), NULL, NULL));
}

static void
make_timer_with_id(size_t index)
{
        weir_task *timer = weir_timer_new(WEIR_SEC(60), NULL, NULL);

        (void)index;
        weir_timer_id_of(timer);
        weir_task_start(timer);
}

static void
make_named_timer(size_t index)
{
        char name[16];

        weir_task_start(weir_timer_new_named(name_of(name, index), WEIR_SEC(60), NULL, NULL));
}

static void
make_timer_of_one_name(size_t index)
{
        (void)index;
        weir_task_start(weir_timer_new_named("many", WEIR_SEC(60), NULL, NULL));
}

static void
make_series(size_t index)
{
        weir_series *series = weir_series_new(NULL, NULL);

        (void)index;
        weir_series_push(series, weir_timer_new(WEIR_SEC(60), NULL, NULL));
        weir_series_start(series);
}

static void
make_empty(size_t index)
{
        static weir_series *series;

        if (index == 0)
                series = weir_series_new(NULL, NULL);
        weir_series_push(series, weir_empty_new(NULL, NULL));
}

static void
make_channel(size_t index)
{
        (void)index;
        cost_must(weir_channel_new(0, NULL), "channel");
}

/* -- connections -- */

static void
serve(void)
{
        cost_http_serve(false);
}

static void
serve_late(void)
{
        cost_http_serve(true);
}

/* One connection after the other: each has had a reply, or waits for it. */
static bool
open_and_receive(void)
{
        if (sent < opened) {
                cost_must(cost_http_receive(fds[sent]), "reply");
                sent++;
        }
        fds[opened] = cost_http_connect();
        cost_http_send(fds[opened++]);
        return true;
}

static bool
open_and_wait(void)
{
        fds[opened] = cost_http_connect();
        cost_http_send(fds[opened++]);
        return true;
}

const struct cost_object cost_objects[] = {
        {.name = "timer", .count = 50000, .make = make_timer},
        {.name = "timer with an id", .count = 50000, .make = make_timer_with_id},
        {.name = "named timer, a name of 12 characters each", .count = 50000, .make = make_named_timer},
        {.name = "named timer, one name for all", .count = 50000, .make = make_timer_of_one_name},
        {.name = "series that waits for a timer", .count = 50000, .make = make_series},
        {.name = "empty task in a series", .count = 50000, .make = make_empty},
        {.name = "channel", .count = 50000, .make = make_channel},
        {.name = "idle connection", .count = CONNECTIONS, .prepare = serve, .client = open_and_receive},
        {.name = "connection whose reply is due in a second",
         .count = CONNECTIONS,
         .prepare = serve_late,
         .client = open_and_wait},
        {.name = "idle connection of a client",
         .count = COST_CLIENT_CONNECTIONS,
         .prepare = cost_client_prepare_idle,
         .client = cost_client_step_idle},
        {.name = "what TLS adds to an idle connection of a client",
         .count = COST_CLIENT_SECURE,
         .prepare = cost_client_prepare_secure,
         .client = cost_client_step_secure,
         .is_of_heap = true},
        {0},
};
