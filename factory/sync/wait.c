/* factory/sync/wait.c: how a task waits at an object: its start, its fulfilment, its end.
 *
 * Threads: any; `run` on a worker.
 * Locks:   the object's (rank WAITABLE).  No user code runs under it.  waitable.h has the states of a task that waits.
 *
 * A cancel of a wait takes no lock.  So a cancel of a thousand series that wait at one guard does not contend for its lock, and
 * an object may fulfil a wait without the lock of any series. */
#include "factory/sync/waitable.h"

#include <errno.h>
#include <stdio.h>

#include "factory/task/series.h"
#include "kernel/base/phase.h"
#include "kernel/memory/memory.h"

_Atomic unsigned weir__wait_looks;

void
weir__wait_task_init(struct weir__wait_task *self, size_t size, const struct weir__task_ops *ops, struct weir__waitable *object,
                     unsigned queue, weir_task_fn *done, void *context)
{
        weir__task_init(&self->task, ops, size, done, context);
        self->wait = (struct weir__wait){.object = object, .task = self, .queue = (uint8_t)queue};
}

struct weir__wait_task *
weir__wait_task_new(const struct weir__task_ops *ops, struct weir__waitable *object, unsigned queue, weir_task_fn *done,
                    void *context)
{
        struct weir__wait_task *self = weir__alloc(sizeof *self);

        if (!self)
                return NULL;
        weir__wait_task_init(self, sizeof *self, ops, weir__waitable_ref(object), queue, done, context);
        if (!object)
                weir__task_poison(&self->task, -ENOMEM);
        return self;
}

struct weir__wait_task *
weir__wait_task_new_with(const struct weir__task_ops *ops, struct weir__waitable *object, int fault, weir_task_fn *done,
                         void *context)
{
        struct weir__wait_task *self = weir__alloc(sizeof *self);

        if (!self) {
                weir__waitable_unref(object);
                return NULL;
        }
        weir__wait_task_init(self, sizeof *self, ops, object, 0, done, context);
        if (!object)
                weir__task_poison(&self->task, fault);
        return self;
}

/* -- queues; under the lock -- */

void
weir__wait_link(struct weir__wait *wait)
{
        weir__list_append(&weir__waitable_queues(wait->object)[wait->queue], &wait->link);
        wait->object->linked++;
        atomic_store_explicit(&wait->is_linked, true, memory_order_relaxed);
}

/* Takes it out of the list. */
static inline void
take_out(struct weir__wait *wait)
{
        for (struct weir__wait_cursor *cursor = wait->object->cursors; cursor; cursor = cursor->next)
                if (cursor->at == &wait->link)
                        cursor->at = weir__list_next(&weir__waitable_queues(wait->object)[wait->queue], &wait->link);
        weir__link_remove(&wait->link);
}

void
weir__wait_requeue(struct weir__wait *wait)
{
        take_out(wait);
        weir__list_append(&weir__waitable_queues(wait->object)[wait->queue], &wait->link);
}

void
weir__wait_unlink(struct weir__wait *wait)
{
        if (!atomic_load_explicit(&wait->is_linked, memory_order_relaxed))
                return;
        take_out(wait);
        wait->object->linked--;
        atomic_store_explicit(&wait->is_linked, false, memory_order_release); /* its worker looks without the lock */
}

/* seq_cst: see weir__wait_describe. */
static inline bool
claim(struct weir_task *task)
{
        uint32_t expected = WEIR__PENDING;

        return atomic_compare_exchange_strong_explicit(&task->word, &expected, WEIR__READY, memory_order_seq_cst,
                                                       memory_order_relaxed);
}

bool
weir__wait_claim(struct weir_task *task)
{
        return claim(task);
}

/* The same for one that may be armed: NEW -> READY.  Whoever parks it finds that, and delivers it. */
static __attribute__((noinline)) bool
claim_armed(struct weir__wait_task *self, struct weir__work_list *claimed)
{
        uint32_t expected = WEIR__NEW;

        if (atomic_compare_exchange_strong_explicit(&self->task.word, &expected, WEIR__READY, memory_order_acq_rel,
                                                    memory_order_relaxed))
                return true;
        if (!claim(&self->task)) /* else it was parked just now */
                return false;
        weir__work_append(claimed, &self->task.work);
        return true;
}

/* The task is there until its wait is unlinked: its worker needs the lock for that. */
struct weir__wait *
weir__wait_claim_oldest(struct weir__list *queue, struct weir__work_list *claimed)
{
        struct weir__wait *wait = weir__wait_oldest(queue);
        bool is_claimed = claim(&wait->task->task);

        if (is_claimed)
                weir__work_append(claimed, &wait->task->task.work);
        else
                is_claimed = claim_armed(wait->task, claimed);
        if (is_claimed)
                wait->has_won = true;
        weir__wait_unlink(wait);
        return is_claimed ? wait : NULL;
}

struct weir__wait *
weir__wait_oldest_pending(struct weir__list *queue)
{
        struct weir__wait *wait;

        while ((wait = weir__wait_oldest(queue)) && weir__wait_is_over(wait->task))
                weir__wait_unlink(wait);
        return wait;
}

struct weir__wait *
weir__wait_pop(struct weir__list *queue, struct weir__work_list *claimed)
{
        struct weir__wait *wait = NULL;

        while (!wait && weir__wait_oldest(queue))
                wait = weir__wait_claim_oldest(queue, claimed);
        return wait;
}

void
weir__wait_end_all(struct weir__waitable *object, struct weir__list *queue, int status)
{
        while (weir__wait_oldest(queue)) {
                struct weir__work_list claimed = {0};

                for (unsigned i = 0; i < WEIR__WAITS_AT_ONCE && weir__wait_oldest(queue); i++) {
                        struct weir__wait *wait = weir__wait_claim_oldest(queue, &claimed);

                        if (wait)
                                wait->task->task.status = status;
                }
                weir__unlock(&object->lock);
                weir__wait_deliver_all(&claimed);
                weir__lock(&object->lock);
        }
}

int
weir__wait_at_once(struct weir__wait *wait)
{
        struct weir__waitable *object = wait->object;
        struct weir__work_list claimed = {0};
        int outcome = weir__waitable_fault(object);

        if (outcome)
                return outcome;
        weir__waitable_lock(object);
        outcome = object->ops->try(wait, &claimed);
        weir__unlock(&object->lock);
        weir__wait_deliver_all(&claimed);
        return outcome;
}

/* -- the start -- */

/* A cancel came before the start was over. */
static void
become_cancelled(struct weir_task *task)
{
        int cause = task->series ? weir__series_effective_cause(task->series) : 0;

        task->status = cause ? cause : -ECANCELED;
        atomic_store_explicit(&task->word, WEIR__READY, memory_order_release);
}

bool
weir__wait_leave_new(struct weir_task *task, uint32_t state)
{
        uint32_t expected = WEIR__NEW;

        if (atomic_compare_exchange_strong_explicit(&task->word, &expected, state, memory_order_acq_rel, memory_order_acquire))
                return true;
        become_cancelled(task);
        return false;
}

bool
weir__wait_decide(struct weir__wait_task *self, int outcome)
{
        if (outcome == 0) { /* a cancel that comes just now comes after that */
                atomic_store_explicit(&self->task.word, WEIR__READY, memory_order_release); /* for weir__series_behind */
                return false;
        }
        if (outcome == -EAGAIN && !weir__phase_is_stopping())
                return true;
        if (weir__wait_leave_new(&self->task, WEIR__READY))
                self->task.status = outcome == -EAGAIN ? -ESHUTDOWN : outcome;
        return false;
}

bool
weir__wait_pend(struct weir__wait_task *self)
{
        return weir__wait_leave_new(&self->task, WEIR__PENDING);
}

bool
weir__wait_finish_start(struct weir__wait_task *self, int outcome)
{
        if (!weir__wait_decide(self, outcome))
                return false;
        weir__wait_link(&self->wait); /* before it can be claimed */
        if (weir__wait_pend(self))
                return true;
        weir__wait_unlink(&self->wait);
        return false;
}

void
weir__wait_start(struct weir_task *task)
{
        struct weir__wait_task *self = (struct weir__wait_task *)task;
        struct weir__waitable *object = self->wait.object;
        struct weir__work_list claimed = {0};
        int outcome = -EAGAIN;

        weir__waitable_lock(object);
        if (object->ops->should_keep_grant || !weir__wait_is_over(self))
                outcome = object->ops->try(&self->wait, &claimed);
        bool waits = weir__wait_finish_start(self, outcome);
        weir__unlock(&object->lock);
        weir__wait_deliver_all(&claimed);
        if (!waits)
                weir__task_deliver(task);
}

/* -- the start in two halves -- */

void
weir__wait_arm(struct weir__wait_task *self, struct weir__waitable *object, void *message)
{
        if (weir__phase_is_stopping())
                return;
        self->task.status = 0;
        self->wait.object = object;
        self->wait.message = message;
        atomic_store_explicit(&self->task.word, WEIR__NEW, memory_order_relaxed);
        weir__wait_link(&self->wait);
}

/* Under the lock the claimer has written what it gives. */
static __attribute__((noinline)) void
end_armed(struct weir__wait_task *self, uint32_t state)
{
        weir__lock(&self->wait.object->lock);
        weir__wait_unlink(&self->wait);
        weir__unlock(&self->wait.object->lock);
        if (state != WEIR__READY)
                become_cancelled(&self->task);
        weir__task_deliver(&self->task);
}

void
weir__wait_park(struct weir__wait_task *self)
{
        uint32_t state = WEIR__NEW;

        if (!atomic_compare_exchange_strong_explicit(&self->task.word, &state, WEIR__PENDING, memory_order_acq_rel,
                                                     memory_order_acquire))
                end_armed(self, state);
}

/* -- the end -- */

struct weir_task *
weir__wait_end_early(struct weir_task *task)
{
        uint32_t expected = WEIR__NEW;

        if (atomic_compare_exchange_strong_explicit(&task->word, &expected, WEIR__NEW | WEIR__CANCELLED, memory_order_acq_rel,
                                                    memory_order_relaxed) ||
            !claim(task))
                return NULL;
        task->status = weir__series_effective_cause(task->series);
        return task;
}

void
weir__wait_leave(struct weir__wait *wait)
{
        if (!atomic_load_explicit(&wait->is_linked, memory_order_acquire))
                return;
        weir__lock(&wait->object->lock);
        weir__wait_unlink(wait);
        weir__unlock(&wait->object->lock);
}

void
weir__wait_set_running(struct weir__wait_task *self)
{
        weir__wait_leave(&self->wait);
        atomic_store_explicit(&self->task.word, WEIR__RUNNING, memory_order_release); /* for weir__series_behind */
}

void
weir__wait_run(struct weir__work *work)
{
        struct weir__wait_task *self = (struct weir__wait_task *)work;

        weir__wait_set_running(self);
        weir__task_call_back(&self->task);
        weir__task_finish(&self->task);
}

void
weir__wait_release(struct weir_task *task, bool discarded)
{
        struct weir__wait *wait = &((struct weir__wait_task *)task)->wait;

        (void)discarded;
        weir__waitable_drop(wait->object, wait->message);
        weir__waitable_unref(wait->object);
}

/* A task keeps its object until its series has left it, under the lock that is held now.  A fiber's own wait does not leave, and
 * the program may free the object once it is over.  So whoever ends such a wait looks whether somebody looks at one.  The look is
 * counted before the word is read, and the word is changed before the count is read: one of the two sees the other. */
void
weir__wait_describe(const struct weir_task *task, char *out, size_t room)
{
        const struct weir__wait *wait = &((const struct weir__wait_task *)task)->wait;
        char title[WEIR__TITLE_SIZE], more[160];

        out[0] = '\0';
        atomic_fetch_add(&weir__wait_looks, 1);
        if (atomic_load(&task->word) == WEIR__PENDING) {
                size_t waiting = weir__waitable_describe(wait->object, wait, more, sizeof more);

                weir__waitable_title(wait->object, title, sizeof title);
                snprintf(out, room, "%s, at which %zu wait%s%s%s", title, waiting, waiting == 1 ? "s" : "", *more ? ", " : "",
                         more);
        }
        atomic_fetch_sub(&weir__wait_looks, 1);
}
