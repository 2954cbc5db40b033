/* factory/sync/semaphore.c: semaphores.
 *
 * Threads: any.
 * Locks:   the object's.
 *
 * The first waiting task may hold up tasks behind it for which there are enough tokens.  When it ends without tokens, its worker
 * looks at the queue again.
 *
 * The limit of the object is the greatest number of tokens that a task may want, the amount is how many are there. */
#include <weir/semaphore.h>

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "factory/sync/waitable.h"
#include "kernel/observe/log.h"

struct weir_semaphore {
        struct weir__waitable object; /* first */
        struct weir__list waits;      /* guarded by the object's lock; the first of them wants more than there are */
        bool is_closed;               /* guarded by the object's lock */
};

/* -- tokens; under the lock -- */

/* Nobody overtakes a task that waits. */
static int
try(struct weir__wait *wait, struct weir__work_list *claimed)
{
        weir_semaphore *semaphore = (weir_semaphore *)wait->object;

        (void)claimed;
        if (wait->amount > semaphore->object.limit)
                return -EINVAL;
        if (semaphore->is_closed)
                return -EPIPE;
        if (wait->amount > 0 && (wait->amount > semaphore->object.amount || weir__wait_oldest_pending(&semaphore->waits)))
                return -EAGAIN;
        semaphore->object.amount -= wait->amount;
        return 0;
}

/* Gives tokens to the first tasks of the queue.  Returns whether there may be more tasks for which there are enough. */
static bool
serve_some(struct weir__waitable *object, struct weir__work_list *claimed)
{
        weir_semaphore *semaphore = (weir_semaphore *)object;

        for (unsigned i = 0; i < WEIR__WAITS_AT_ONCE; i++) {
                struct weir__wait *wait = weir__wait_oldest(&semaphore->waits);

                if (!wait || (wait->amount > semaphore->object.amount && !weir__wait_is_over(wait->task)))
                        return false;
                wait = weir__wait_claim_oldest(&semaphore->waits, claimed);
                if (wait)
                        semaphore->object.amount -= wait->amount;
        }
        return true;
}

/* Lets the lock go. */
static void
serve_and_unlock(weir_semaphore *semaphore)
{
        weir__wait_serve_and_unlock(&semaphore->object, serve_some);
}

static void
describe(const struct weir__waitable *object, const struct weir__wait *wait, char *out, size_t room)
{
        if (wait)
                snprintf(out, room, "for %" PRIu64 " of which %" PRIu64 " are there", wait->amount, object->amount);
}

/* -- semaphores -- */

static const struct weir__waitable_ops semaphore_ops = {.kind = WEIR__SEMAPHORE,
                                                        .noun = "semaphore",
                                                        .size = sizeof(struct weir_semaphore),
                                                        .queues = 1,
                                                        .try = try,
                                                        .describe = describe};

static uint64_t
limit_of(uint64_t tokens)
{
        return tokens ? tokens : UINT64_MAX;
}

/* More than it was made with. */
static int
refuse(const weir_semaphore *semaphore, uint64_t tokens)
{
        return weir__log_refusal("%" PRIu64 " tokens of a semaphore: expected %" PRIu64 " at most", tokens,
                                 semaphore->object.limit);
}

weir_semaphore *
weir_semaphore_new(uint64_t tokens)
{
        return (weir_semaphore *)weir__waitable_new(&semaphore_ops, tokens, limit_of(tokens), NULL);
}

weir_semaphore *
weir_semaphore_open(const char *name, uint64_t tokens)
{
        struct weir__waitable *made = weir__waitable_new_named(&semaphore_ops, name, tokens, limit_of(tokens), NULL);

        return (weir_semaphore *)weir__waitable_unique(made);
}

WEIR__WAITABLE_REFERENCES(weir_semaphore, weir_semaphore_ref, weir_semaphore_unref)

int
weir_semaphore_try_acquire(weir_semaphore *semaphore, uint64_t tokens)
{
        struct weir__wait wait = {.object = (struct weir__waitable *)semaphore, .amount = tokens};

        int outcome = weir__wait_at_once(&wait);

        return outcome == -EINVAL ? refuse(semaphore, tokens) : outcome;
}

int
weir_semaphore_release(weir_semaphore *semaphore, uint64_t tokens)
{
        int fault = weir__waitable_fault((struct weir__waitable *)semaphore);

        if (fault)
                return fault;
        weir__waitable_lock(&semaphore->object);
        if (tokens > UINT64_MAX - semaphore->object.amount) {
                weir__unlock(&semaphore->object.lock);
                return -EOVERFLOW;
        }
        semaphore->object.amount += tokens;
        serve_and_unlock(semaphore);
        return 0;
}

int
weir_semaphore_close(weir_semaphore *semaphore)
{
        int failed = weir__waitable_fault((struct weir__waitable *)semaphore);

        if (failed)
                return failed;
        weir__waitable_lock(&semaphore->object);
        if (semaphore->is_closed)
                failed = -EALREADY;
        semaphore->is_closed = true;
        weir__wait_end_all(&semaphore->object, &semaphore->waits, -EPIPE);
        weir__unlock(&semaphore->object.lock);
        return failed;
}

uint64_t
weir_semaphore_available(weir_semaphore *semaphore)
{
        return weir__waitable_amount((struct weir__waitable *)semaphore);
}

/* -- the task -- */

static void
run(struct weir__work *work)
{
        struct weir__wait_task *self = (struct weir__wait_task *)work;
        weir_semaphore *semaphore = (weir_semaphore *)self->wait.object;

        weir__wait_set_running(self);
        if (self->task.status) { /* it has held up those behind it */
                weir__waitable_lock(&semaphore->object);
                serve_and_unlock(semaphore);
        }
        weir__task_call_back(&self->task);
        weir__task_finish(&self->task);
}

static const struct weir__task_ops acquire_ops = WEIR__WAIT_TASK_OPS("tokens", run, weir__wait_release);

weir_task *
weir_semaphore_acquire_new(weir_semaphore *semaphore, uint64_t tokens, weir_task_fn *done, void *context)
{
        struct weir__wait_task *self = weir__wait_task_new(&acquire_ops, (struct weir__waitable *)semaphore, 0, done, context);

        if (!self)
                return NULL;
        self->wait.amount = tokens;
        if (semaphore && tokens > semaphore->object.limit)
                weir__task_poison(&self->task, refuse(semaphore, tokens));
        return &self->task;
}
