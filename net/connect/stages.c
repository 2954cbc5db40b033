/* net/connect/stages.c: the stages of a connect, and their time limits.
 *
 * Threads: the owner of the poller.
 *
 * The alarm may be on its way when the connect ends.  So it lies in memory of its own, which then frees itself. */
#include "net/connect/stages.h"

#include <errno.h>
#include <stdlib.h>

#include "kernel/base/clock.h"
#include "kernel/loop/deadlines.h"
#include "kernel/loop/pollers.h"

struct weir__stage_limit {
        struct weir__alarm alarm;
        struct weir__stages *stages; /* NULL: it has ended */
        weir_nsec expires_at;        /* WEIR_FOREVER: the stage has none */
        uint8_t poller;
        bool is_set; /* or its work is on its way */
};

static int
arm(struct weir__stage_limit *limit)
{
        struct weir__poller *poller = weir__poller_at(limit->poller);

        if (limit->is_set && weir__alarm_clear(poller, &limit->alarm))
                limit->is_set = false;
        if (limit->is_set || limit->expires_at == WEIR_FOREVER)
                return 0;
        limit->is_set = weir__alarm_set(poller, &limit->alarm, limit->expires_at);
        return limit->is_set ? 0 : -ESHUTDOWN;
}

static void
run(struct weir__work *work)
{
        struct weir__stage_limit *limit = weir__container_of(work, struct weir__stage_limit, alarm.work);

        limit->is_set = false;
        if (!limit->stages)
                free(limit);
        else if (weir__clock_now() < limit->expires_at && arm(limit) == 0)
                return;
        else
                limit->stages->late(limit->stages);
}

static const struct weir__work_ops limit_ops = {.run = run};

static __attribute__((cold)) void
trace(struct weir__stages *stages)
{
        static const char *const names[WEIR__CONNECT_STAGES] = {"resolving", "connecting", "handshake"};

        weir__trace_next_stage(&stages->traced, names[stages->now], stages->name, NULL);
}

int
weir__stages_enter(struct weir__stages *stages, enum weir__connect_stage stage, unsigned poller)
{
        if (stages->stage)
                atomic_store_explicit(stages->stage, (uint8_t)stage, memory_order_relaxed);
        if (weir__trace_is_on())
                trace(stages);
        stages->now = (uint8_t)stage;
        if (!stages->has_limits)
                return 0;
        if (!stages->limit) {
                stages->limit = calloc(1, sizeof *stages->limit);
                if (!stages->limit)
                        return -ENOMEM;
                stages->limit->alarm.work.ops = &limit_ops;
                stages->limit->stages = stages;
                stages->limit->poller = (uint8_t)poller;
        }
        weir_nsec limit = stages->limits[stage];
        stages->limit->expires_at = limit == WEIR_FOREVER ? WEIR_FOREVER : weir__clock_after(weir__clock_now(), limit);
        return arm(stages->limit);
}

void
weir__stages_end(struct weir__stages *stages)
{
        struct weir__stage_limit *limit = stages->limit;

        if (weir__trace_is_on())
                trace(stages);
        stages->traced.session = 0;
        stages->limit = NULL;
        if (!limit)
                return;
        limit->stages = NULL;
        if (!limit->is_set || weir__alarm_clear(weir__poller_at(limit->poller), &limit->alarm))
                free(limit);
}
