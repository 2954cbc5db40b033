/* client/request/late.c: the limit of a whole request, while it waits for a connection.
 *
 * Threads: set by the owner of the request's poller, whose alarm it is.  Whoever claims the request gives it up.
 * Locks:   the origin's guards `seeker`.
 *
 * A claim comes from any thread, while the alarm may be on its way.  So the limit lies in memory of its own, which the alarm and
 * the request have a reference to. */
#include <errno.h>
#include <stdlib.h>

#include "client/request/request.h"
#include "client/wire/dial.h"
#include "kernel/base/clock.h"
#include "kernel/loop/deadlines.h"
#include "kernel/loop/pollers.h"

struct weir__late {
        struct weir__alarm alarm;
        _Atomic unsigned references;
        uint8_t poller;
        struct weir__origin *origin; /* a reference */
        struct weir__seeker *seeker; /* NULL: it was claimed, or has left.  Guarded by the origin's lock */
};

static void
drop(struct weir__late *late)
{
        if (atomic_fetch_sub_explicit(&late->references, 1, memory_order_acq_rel) != 1)
                return;
        weir__origin_drop(late->origin);
        free(late);
}

static void
run(struct weir__work *work)
{
        struct weir__late *late = weir__container_of(work, struct weir__late, alarm.work);
        struct weir__client_branch *branch = weir__origin_branch(late->origin, late->poller);
        struct weir__seeker *seeker = weir__pool_leave_late(branch, &late->seeker);

        if (seeker) {
                struct weir__client_request *request = weir__container_of(seeker, struct weir__client_request, seeker);
                uint8_t stage = weir__client_dial_stage(branch);

                if (stage)
                        weir__http_call_set_stage(&request->call, stage);
                request->late = NULL;
                drop(late);
                weir__client_request_end(request, weir__clock_now() < request->call.late_at ? -ESHUTDOWN : -ETIMEDOUT);
        }
        drop(late);
}

static const struct weir__work_ops late_ops = {.run = run};

int
weir__late_set(struct weir__client_request *request)
{
        if (request->call.late_at == WEIR_FOREVER)
                return 0;
        if (request->call.late_at <= weir__clock_now())
                return -ETIMEDOUT;
        struct weir__late *late = calloc(1, sizeof *late);
        if (!late)
                return -ENOMEM;
        late->alarm.work.ops = &late_ops;
        atomic_init(&late->references, 2);
        late->poller = request->io.task.poller;
        late->origin = request->origin;
        late->seeker = &request->seeker;
        weir__origin_keep(late->origin);
        if (!weir__alarm_set(weir__poller_at(late->poller), &late->alarm, request->call.late_at)) {
                drop(late);
                drop(late);
                return -ESHUTDOWN;
        }
        request->late = late;
        return 0;
}

void
weir__late_disown(struct weir__client_request *request)
{
        if (request->late)
                request->late->seeker = NULL;
}

void
weir__late_forget(struct weir__client_request *request)
{
        struct weir__late *late = request->late;

        request->late = NULL;
        if (!late)
                return;
        weir__lock(&late->origin->lock);
        late->seeker = NULL;
        weir__unlock(&late->origin->lock);
        if (weir__alarm_clear(weir__poller_at(late->poller), &late->alarm))
                drop(late);
        drop(late);
}
