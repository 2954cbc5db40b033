/* server/base/shed.c: requests that are refused while the server is late.
 *
 * Threads: the owner of the poller only.
 *
 * While requests come, an alarm is set a millisecond ahead.  When it comes late, everything on this poller is as late.  While it
 * is overdue, its lateness is known before it has come.  An idle server sets none, so it has no wake-ups. */
#include "kernel/base/clock.h"
#include "server/base/server.h"

#define ALARM_AHEAD WEIR_MSEC(1)
#define VALID_FOR   WEIR_MSEC(100) /* a measured lateness */

static void
alarm_run(struct weir__work *work)
{
        struct weir__http_branch *branch = weir__container_of(work, struct weir__http_branch, shed.alarm.work);
        struct weir__shed *shed = &branch->shed;

        shed->measured_at = weir__clock_now();
        shed->lateness = shed->measured_at - shed->due;
        shed->is_alarm_set = false;
        weir__users_remove(&branch->server->base.users);
}

static const struct weir__work_ops alarm_ops = {.run = alarm_run};

static void
set_alarm(struct weir__http_branch *branch, weir_nsec now)
{
        struct weir__shed *shed = &branch->shed;

        shed->due = now + ALARM_AHEAD;
        shed->alarm.work.ops = &alarm_ops;
        if (!weir__alarm_set(branch->base.poller, &shed->alarm, shed->due))
                return;
        shed->is_alarm_set = true;
        weir__users_add(&branch->server->base.users);
}

bool
weir__shed_admits(struct weir__http_branch *branch)
{
        weir_nsec bound = branch->server->config.shed_lateness;
        const struct weir__shed *shed = &branch->shed;

        if (bound == WEIR_FOREVER)
                return true;
        weir_nsec now = weir__clock_now();
        weir_nsec late = shed->is_alarm_set ? now - shed->due : 0;
        if (now - shed->measured_at < VALID_FOR && shed->lateness > late)
                late = shed->lateness;
        if (!shed->is_alarm_set)
                set_alarm(branch, now);
        return late <= bound;
}

void
weir__shed_close(struct weir__http_branch *branch)
{
        if (branch->shed.is_alarm_set && weir__alarm_clear(branch->base.poller, &branch->shed.alarm)) {
                branch->shed.is_alarm_set = false;
                weir__users_remove(&branch->server->base.users);
        }
}
