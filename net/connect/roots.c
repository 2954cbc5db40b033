/* net/connect/roots.c: the default settings of TLS, which are files, for those who must not block.
 *
 * Threads: the owner of the poller waits; a thread of the executor reads.
 * Locks:   none.
 *
 * The reading cannot be taken back.  It belongs to no task: one that is cancelled meanwhile leaves it, and it ends by itself. */
#include <errno.h>
#include <stdlib.h>

#include "kernel/executor/executor.h"
#include "kernel/loop/pollers.h"
#include "kernel/runtime/runtime.h"
#include "kernel/worker/deliver.h"
#include "net/stream/secure.h"

struct weir__roots_job {
        struct weir__job job;
        struct weir__work work;        /* the result, on its way to the poller */
        struct weir__roots_wait *wait; /* NULL: it was left.  Owner of the poller */
        uint8_t poller;

        /* The executor's, then the owner's. */
        struct weir_tls *tls; /* a reference; or NULL */
        int failed;
};

static void
job_run(struct weir__job *job)
{
        struct weir__roots_job *self = weir__container_of(job, struct weir__roots_job, job);

        weir__executor_begin(job->queue);
        bool has_other = weir__executor_blocking_begin() == 0;
        self->tls = weir__tls_default();
        self->failed = self->tls ? 0 : -ENOMEM;
        if (has_other)
                weir__executor_blocking_end();
        weir__executor_end();
        weir__deliver(weir__poller_at(self->poller), &self->work);
}

static void
job_refuse(struct weir__job *job)
{
        struct weir__roots_job *self = weir__container_of(job, struct weir__roots_job, job);

        self->failed = -ESHUTDOWN;
        weir__deliver(weir__poller_at(self->poller), &self->work);
}

static const struct weir__job_ops job_ops = {job_run, job_refuse};

static void
come_back(struct weir__work *work)
{
        struct weir__roots_job *self = weir__container_of(work, struct weir__roots_job, work);
        struct weir__roots_wait *wait = self->wait;

        if (wait) {
                wait->job = NULL;
                wait->read(wait, weir_tls_ref(self->tls), self->failed);
        }
        weir_tls_unref(self->tls);
        free(self);
        weir__runtime_leave();
}

static const struct weir__work_ops come_back_ops = {.run = come_back};

int
weir__roots_begin(struct weir__roots_wait *wait, unsigned poller)
{
        int failed = weir__executor_use();
        struct weir__roots_job *self = failed ? NULL : calloc(1, sizeof *self);

        if (!self)
                return failed ? failed : -ENOMEM;
        failed = weir__runtime_enter();
        if (failed) {
                free(self);
                return failed;
        }
        self->job.ops = &job_ops;
        self->work.ops = &come_back_ops;
        self->wait = wait;
        self->poller = (uint8_t)poller;
        wait->job = self;
        weir__executor_submit(&self->job);
        return 0;
}

void
weir__roots_leave(struct weir__roots_wait *wait)
{
        if (wait->job)
                wait->job->wait = NULL;
        wait->job = NULL;
}
