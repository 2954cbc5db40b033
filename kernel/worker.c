/* kernel/worker.c: the loop of a worker.
 *
 * Threads: weir__worker_start runs on the thread that starts the runtime, the rest on the worker itself.
 *
 *     own the poller -> [ run ready work, a batch, then of the crowd, and what they left for later -> take the inbox -> expire
 *                    deadlines -> poll ] ... -> exiting -> let go
 *
 * Callbacks run here and nowhere else, one after another, to completion: whatever they finish, cancel or start is appended to the
 * ready list and runs when they have returned, so neither a series of ten million tasks nor a cancel of a million timers deepens
 * the stack.  Inbox, deadlines and sockets are looked at within every BATCH completions, so that a flood of ready work starves
 * none of them.  What was left for later and finds its lock taken stays there; when that is much, the crowd has to wait. */
#include "kernel/worker.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>

#include "kernel/panic.h"
#include "kernel/runtime.h"

#define BATCH 61

_Thread_local struct weir__worker *weir__worker_current;

bool
weir__worker_still_owns(struct weir__poller *poller)
{
        struct weir__worker *self = weir__worker_self();

        if (!self)
                weir__panic("a child of fork() returned from a callback: it has no worker to return to");
        if (atomic_load_explicit(&poller->owner, memory_order_relaxed) == self)
                return true;
        self->poller = NULL;
        return false;
}

/* Runs the works of one of its lists while there are any, at most *credit of them, and takes them off it.  Returns false when the
 * poller was lost. */
static bool
run_some(struct weir__worker *worker, struct weir__poller *poller, struct weir__work_list *list, unsigned *credit)
{
        for (; *credit > 0; --*credit) {
                struct weir__work *work = weir__work_pop(list);

                if (!work)
                        break;
                work->ops->run(work);
                if (worker->poller != poller)
                        return false;
        }
        return true;
}

static void
loop(struct weir__worker *worker, struct weir__poller *poller)
{
        unsigned credit = BATCH, crowd_credit = BATCH;

        while (run_some(worker, poller, &poller->ready, &credit) && run_some(worker, poller, &poller->crowd, &crowd_credit)) {
                weir__poller_run_later(poller);
                weir__poller_take_inbox(poller);
                weir__poller_expire(poller);
                if (poller->ready.first && credit > 0)
                        continue;
                if (!weir__poller_is_busy(poller)) {
                        if (poller->exiting)
                                return;
                        if (weir__runtime_stopping())
                                weir__runtime_notify();
                }
                weir__poller_poll(poller);
                credit = BATCH;
                crowd_credit = weir__poller_is_choked(poller) ? 0 : BATCH;
        }
}

/* Gives the poller up at the end of the runtime: what its sources hold goes first. */
static void
let_go(struct weir__worker *worker, struct weir__poller *poller)
{
        weir__poller_destroy_sources(poller);
        while (weir__poller_is_busy(poller)) {
                unsigned credit = BATCH;

                if (run_some(worker, poller, &poller->ready, &credit))
                        run_some(worker, poller, &poller->crowd, &credit);
        }
        weir__poller_run_later(poller);
        atomic_store_explicit(&poller->owner, NULL, memory_order_release);
}

static void *
worker_main(void *argument)
{
        struct weir__worker *worker = argument;
        struct weir__poller *poller = worker->poller;
        struct weir__worker *nobody = NULL;
        char name[16];

        weir__worker_current = worker;
        snprintf(name, sizeof name, "weir/%u", poller->index);
        pthread_setname_np(pthread_self(), name);
        if (!atomic_compare_exchange_strong_explicit(&poller->owner, &nobody, worker, memory_order_acq_rel, memory_order_relaxed))
                weir__panic("poller %u has an owner already", poller->index);
        loop(worker, poller);
        if (worker->poller)
                let_go(worker, poller);
        worker->poller = NULL;
        weir__worker_current = NULL;
        return NULL;
}

int
weir__worker_start(struct weir__worker *worker, struct weir__poller *poller)
{
        sigset_t all, before;

        worker->poller = poller;
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &before);
        int failed = pthread_create(&worker->thread, NULL, worker_main, worker);
        pthread_sigmask(SIG_SETMASK, &before, NULL);
        return -failed;
}
