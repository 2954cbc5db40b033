/* server/base/shed.c: requests that are refused while the server is late.
 *
 * Threads: the owner of the poller only.
 *
 * While requests come, a limit is set a millisecond ahead.  When it comes late, everything on this poller is as late.  While it
 * is overdue, its lateness is known before it has run.  An idle server sets none, so it has no wake-ups. */
#include "kernel/base/clock.h"
#include "server/base/server.h"

#define PROBE_AHEAD WEIR_MSEC(1)
#define VALID_FOR   WEIR_MSEC(100) /* a measured lateness */

static void
probe_run(struct weir__work *work)
{
        struct weir__branch *branch = weir__container_of(work, struct weir__branch, shed.probe.work);
        struct weir__shed *shed = &branch->shed;

        shed->measured_at = weir__clock_now();
        shed->lateness = shed->measured_at - shed->due;
        shed->is_probing = false;
        weir__users_remove(&branch->server->users);
}

static const struct weir__work_ops probe_ops = {.run = probe_run};

static void
begin_probe(struct weir__branch *branch, weir_nsec now)
{
        struct weir__shed *shed = &branch->shed;

        shed->due = now + PROBE_AHEAD;
        shed->probe.work.ops = &probe_ops;
        if (!weir__alarm_set(branch->poller, &shed->probe, shed->due))
                return;
        shed->is_probing = true;
        weir__users_add(&branch->server->users);
}

bool
weir__shed_admits(struct weir__branch *branch)
{
        weir_nsec bound = branch->server->config.shed_lateness;
        const struct weir__shed *shed = &branch->shed;

        if (bound == WEIR_FOREVER)
                return true;
        weir_nsec now = weir__clock_now();
        weir_nsec late = shed->is_probing ? now - shed->due : 0;
        if (now - shed->measured_at < VALID_FOR && shed->lateness > late)
                late = shed->lateness;
        if (!shed->is_probing)
                begin_probe(branch, now);
        return late <= bound;
}

void
weir__shed_close(struct weir__branch *branch)
{
        if (branch->shed.is_probing && weir__alarm_clear(branch->poller, &branch->shed.probe)) {
                branch->shed.is_probing = false;
                weir__users_remove(&branch->server->users);
        }
}
