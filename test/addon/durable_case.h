/* test/addon/durable_case.h: what the cases of durable timers share (durable_cases.h): a runtime on the virtual clock,
 * operations, and a handler that notes what it gets. */
#ifndef WEIR_TEST_DURABLE_CASE_H
#define WEIR_TEST_DURABLE_CASE_H

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <weir/clock.h>
#include <weir/durable.h>
#include <weir/runtime.h>
#include <weir/series.h>
#include <weir/timer.h>

#include "test/support.h"
#include "test/trace_fixture.h"

#define HOUR WEIR_SEC(3600)

static char url[240];

static void
begin(void)
{
        static int number;
        struct weir_config config = WEIR_CONFIG_DEFAULT;

        config.clock = WEIR_CLOCK_VIRTUAL;
        CU_ASSERT_FATAL(weir_init(&config) == 0);
        ENGINE_URL(number++);
}

static weir_durable *
open_store(void)
{
        weir_durable *store = weir_durable_open(url);

        CU_ASSERT_PTR_NOT_NULL_FATAL(store);
        return store;
}

static void
end(weir_durable *store)
{
        weir_durable_close(store);
        CU_ASSERT(weir_shutdown() == 0);
}

/* What the callback of an operation has seen. */
static struct seen {
        int status;
        int cancelled;
        uint64_t generation;
        uint64_t counted[3];
        char names[1000];
        char problem[100];
        struct weir_durable_info info;
} seen;

static void
look(weir_task *task, void *context)
{
        const struct weir_durable_info *info;

        (void)context;
        memset(&seen, 0, sizeof seen);
        seen.status = weir_task_status(task);
        seen.cancelled = weir_durable_cancelled(task);
        seen.generation = weir_durable_generation(task);
        for (int state = 0; state < 3; state++)
                seen.counted[state] = weir_durable_counted(task, (enum weir_durable_state)state);
        for (size_t i = 0; (info = weir_durable_info(task, i)) != NULL; i++) {
                strcat(strcat(seen.names, i ? " " : ""), info->name);
                if (i == 0) {
                        seen.info = *info;
                        snprintf(seen.problem, sizeof seen.problem, "%s", info->problem);
                }
        }
}

static int
set(weir_durable *store, const char *name, weir_nsec after, const char *payload)
{
        return weir_task_run(weir_durable_set_after_new(store, name, after, "topic", payload, strlen(payload), look, NULL));
}

static int
cancel(weir_durable *store, const char *name)
{
        weir_task_run(weir_durable_cancel_new(store, name, look, NULL));
        CU_ASSERT(seen.status == 0);
        return seen.cancelled;
}

static int
get(weir_durable *store, const char *name)
{
        return weir_task_run(weir_durable_get_new(store, name, look, NULL));
}

/* What a handler has got. */
static struct deliveries {
        int count;
        int failures;     /* so many attempts fail */
        weir_nsec takes;  /* how long each one takes */
        weir_nsec at[64]; /* on the wall */
        weir_nsec due[64];
        unsigned attempt[64], missed[64];
        uint64_t token[64], generation[64];
        char payload[64][16];
        int ended;
        int status[64];
} got;

static void
on_end(weir_task *timer, void *context)
{
        (void)context;
        got.status[got.ended++] = weir_task_status(timer);
}

static void
take(weir_task *delivery, void *context)
{
        int i = got.count++;
        size_t size;

        CU_ASSERT(context == &got && weir_task_status(delivery) == 0);
        CU_ASSERT_STRING_EQUAL(weir_durable_topic(delivery), "topic");
        got.at[i] = weir_wall_now();
        got.due[i] = weir_durable_due(delivery);
        got.attempt[i] = weir_durable_attempt(delivery);
        got.missed[i] = weir_durable_missed(delivery);
        got.token[i] = weir_durable_token(delivery);
        got.generation[i] = weir_durable_generation(delivery);
        snprintf(got.payload[i], sizeof got.payload[i], "%s", (const char *)weir_durable_payload(delivery, &size));
        CU_ASSERT(size == strlen(got.payload[i]));
        if (i < got.failures)
                weir_series_fail(weir_series_of(delivery), -EIO);
        else if (got.takes)
                weir_series_push(weir_series_of(delivery), weir_timer_new(got.takes, on_end, NULL));
}

static void
listen(weir_durable *store)
{
        memset(&got, 0, sizeof got);
        CU_ASSERT(weir_durable_on(store, "topic", take, &got) == 0);
        CU_ASSERT(weir_durable_on(store, "topic", take, &got) == -EEXIST);
}

#endif
