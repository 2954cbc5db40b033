/* factory/sync/wait.c: how a task waits at an object: its start, its fulfilment, its end.
 *
 * Threads: any; `run` on a worker.
 * Locks:   the object's (rank WAITABLE).  No user code runs under it.  waitable.h has the states of a task that waits.
 *
 * A cancel of a wait takes no lock.  The thread that has claimed the wait delivers its task; the wait is unlinked later.  So a cancel of
 * a thousand series that wait at one guard does not contend for its lock, and an object may fulfil a wait without that of any
 * series. */
#include "factory/sync/waitable.h"

#include <errno.h>
#include <stdio.h>

#include "factory/sync/cursor.h"
#include "factory/task/series.h"
#include "kernel/base/phase.h"
#include "kernel/loop/poller.h"
#include "kernel/sched/worker.h"

void
weir__wait_task_init_owner(struct weir__wait_task *self, const struct weir__task_ops *ops, size_t size,
                           struct weir__waitable *object, weir_task_fn *done, void *context)
{
        weir__task_init(&self->task, ops, size, done, context);
        self->wait = (struct weir__wait){.object = object, .task = self};
        self->won = NULL;
        if (!object)
                weir__wait_task_spoil(self, -ENOMEM);
}

void
weir__wait_task_init(struct weir__wait_task *self, const struct weir__task_ops *ops, size_t size, struct weir__waitable *object,
                     weir_task_fn *done, void *context)
{
        weir__wait_task_init_owner(self, ops, size, weir__waitable_ref(object), done, context);
}

void
weir__wait_task_spoil(struct weir__wait_task *self, int fault)
{
        self->task.status = fault;
        self->task.flags |= WEIR__TASK_WRONG;
}

/* Under the lock. */
static void
change_length(struct weir__wait_list *list, int change)
{
        size_t length = atomic_load_explicit(&list->length, memory_order_relaxed);

        atomic_store_explicit(&list->length, length + (size_t)change, memory_order_relaxed);
}

void
weir__wait_link(struct weir__wait_list *list, struct weir__wait *wait)
{
        wait->previous = list->last;
        wait->next = NULL;
        *(list->last ? &list->last->next : &list->first) = wait;
        list->last = wait;
        change_length(list, 1);
        atomic_store_explicit(&wait->list, list, memory_order_relaxed);
}

void
weir__wait_unlink(struct weir__wait *wait)
{
        struct weir__wait_list *list = atomic_load_explicit(&wait->list, memory_order_relaxed);

        if (!list)
                return;
        *(wait->previous ? &wait->previous->next : &list->first) = wait->next;
        *(wait->next ? &wait->next->previous : &list->last) = wait->previous;
        change_length(list, -1);
        weir__cursors_pass(wait, wait->next);
        atomic_store_explicit(&wait->list, NULL, memory_order_release); /* its worker looks without the lock */
}

/* NEW becomes that; false: a cancel came first, and the task is READY with why. */
static bool
enter(struct weir_task *task, uint32_t state)
{
        uint32_t expected = WEIR__NEW;

        if (atomic_compare_exchange_strong_explicit(&task->word, &expected, state, memory_order_acq_rel, memory_order_acquire))
                return true;
        int cause = task->series ? weir__series_cause(task->series) : 0;
        task->status = cause ? cause : -ECANCELED;
        atomic_store_explicit(&task->word, WEIR__READY, memory_order_release);
        return false;
}

enum weir__wait_begun
weir__wait_decide(struct weir__wait_task *self, bool granted, int refused)
{
        struct weir_task *task = &self->task;

        if (granted) { /* a cancel that comes just now comes after that */
                atomic_store_explicit(&task->word, WEIR__READY, memory_order_release); /* for weir__series_behind */
                return WEIR__WAIT_GRANTED;
        }
        if (!refused && weir__phase_is_stopping())
                refused = -ESHUTDOWN;
        if (!refused)
                return WEIR__WAIT_LINKED;
        if (enter(task, WEIR__READY))
                task->status = refused;
        return WEIR__WAIT_REFUSED;
}

bool
weir__wait_pend(struct weir__wait_task *self)
{
        return enter(&self->task, WEIR__PENDING);
}

enum weir__wait_begun
weir__wait_begin(struct weir__wait_task *self, struct weir__wait_list *list, bool granted, int refused)
{
        enum weir__wait_begun begun = weir__wait_decide(self, granted, refused);

        if (begun != WEIR__WAIT_LINKED)
                return begun;
        weir__wait_link(list, &self->wait); /* before it can be claimed */
        if (weir__wait_pend(self))
                return WEIR__WAIT_LINKED;
        weir__wait_unlink(&self->wait);
        return WEIR__WAIT_REFUSED;
}

bool
weir__wait_claim(struct weir__wait_task *self)
{
        uint32_t expected = WEIR__PENDING;

        return atomic_compare_exchange_strong_explicit(&self->task.word, &expected, WEIR__READY, memory_order_acq_rel,
                                                       memory_order_relaxed);
}

/* Takes the first off.  Returns it if it is the caller's now, else NULL. */
static struct weir__wait *
take_first(struct weir__wait_list *list)
{
        struct weir__wait *wait = list->first;

        /* It is there until it is unlinked: its worker needs the lock for that. */
        bool claimed = weir__wait_claim(wait->task);
        if (claimed)
                wait->task->won = wait;
        weir__wait_unlink(wait);
        return claimed ? wait : NULL;
}

struct weir__wait *
weir__wait_pop(struct weir__wait_list *list)
{
        struct weir__wait *wait = NULL;

        while (list->first && !wait)
                wait = take_first(list);
        return wait;
}

struct weir__wait *
weir__wait_first(struct weir__wait_list *list)
{
        while (list->first && weir__wait_is_over(list->first->task))
                weir__wait_unlink(list->first);
        return list->first;
}

void
weir__wait_deliver(struct weir__wait_task *self)
{
        weir__task_deliver(&self->task);
}

void
weir__wait_deliver_all(struct weir__work_list *claimed)
{
        for (struct weir__work *work; (work = weir__work_pop(claimed));)
                weir__task_deliver((struct weir_task *)work);
}

void
weir__wait_end_all(struct weir__waitable *object, struct weir__wait_list *list, int status)
{
        while (list->first) {
                struct weir__work_list claimed = {0};

                for (unsigned i = 0; i < WEIR__WAITS_AT_ONCE && list->first; i++) {
                        struct weir__wait *wait = take_first(list);

                        if (!wait)
                                continue;
                        wait->task->task.status = status;
                        weir__work_append(&claimed, &wait->task->task.work);
                }
                weir__unlock(&object->lock);
                weir__wait_deliver_all(&claimed);
                weir__lock(&object->lock);
        }
}

/* -- for the ops of kinds -- */

struct weir_task *
weir__wait_cancel(struct weir_task *task)
{
        struct weir__wait_task *self = (struct weir__wait_task *)task;
        uint32_t expected = WEIR__NEW;

        if (atomic_compare_exchange_strong_explicit(&task->word, &expected, WEIR__NEW | WEIR__CANCELLED, memory_order_acq_rel,
                                                    memory_order_relaxed) ||
            !weir__wait_claim(self))
                return NULL;
        task->status = weir__series_cause(task->series);
        return task;
}

void
weir__wait_leave(struct weir__wait *wait)
{
        if (!atomic_load_explicit(&wait->list, memory_order_acquire))
                return;
        weir__lock(&wait->object->lock);
        weir__wait_unlink(wait);
        weir__unlock(&wait->object->lock);
}

void
weir__wait_arrive(struct weir__wait_task *self)
{
        weir__wait_leave(&self->wait);
        atomic_store_explicit(&self->task.word, WEIR__RUNNING, memory_order_release); /* for weir__series_behind */
}

void
weir__wait_run(struct weir__work *work)
{
        struct weir__wait_task *self = (struct weir__wait_task *)work;

        weir__wait_arrive(self);
        weir__task_call_back(&self->task);
        weir__task_finish(&self->task);
}

void
weir__wait_release(struct weir_task *task, bool discarded)
{
        (void)discarded;
        weir__waitable_unref(((struct weir__wait_task *)task)->wait.object);
}

void
weir__wait_describe(const struct weir_task *task, char *out, size_t room)
{
        struct weir__waitable *object = ((const struct weir__wait_task *)task)->wait.object;
        size_t waiting = 0;

        out[0] = '\0';
        if (atomic_load_explicit(&task->word, memory_order_acquire) != WEIR__PENDING)
                return;
        for (unsigned i = 0; i < object->ops->lists; i++)
                waiting += atomic_load_explicit(&weir__waitable_lists(object)[i].length, memory_order_relaxed);
        int size = weir__waitable_title(object, out, room);
        if (size >= 0 && (size_t)size < room)
                snprintf(out + size, room - (size_t)size, ", at which %zu wait%s", waiting, waiting == 1 ? "s" : "");
}
