/* factory/sync/semaphore.c: semaphores.
 *
 * Threads: any.
 * Locks:   the object's.
 *
 * The first of those who wait may hold up those behind it, who have enough: so when it ends without having got what it wanted,
 * they are looked at again. */
#include <weir/semaphore.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "factory/sync/waitable.h"
#include "kernel/memory/memory.h"
#include "kernel/base/phase.h"

struct weir_semaphore {
        struct weir__waitable object; /* first */

        /* Guarded by the object's lock. */
        struct weir__wait_list waits; /* the first of them wants more than there are */
        uint64_t available;

        uint64_t most; /* that a task may want; constant */
};

static const struct weir__waitable_ops semaphore_ops = {
        .kind = WEIR__SEMAPHORE, .noun = "semaphore", .size = sizeof(struct weir_semaphore), .lists = 1};

static weir_semaphore *
init(struct weir__waitable *object, uint64_t tokens)
{
        weir_semaphore *semaphore = (weir_semaphore *)object;

        if (semaphore) {
                semaphore->available = tokens;
                semaphore->most = tokens ? tokens : UINT64_MAX;
        }
        return semaphore;
}

weir_semaphore *
weir_semaphore_new(uint64_t tokens)
{
        return init(weir__waitable_new(&semaphore_ops), tokens);
}

weir_semaphore *
weir_semaphore_open(const char *name, uint64_t tokens)
{
        weir_semaphore *semaphore = init(weir__waitable_new_named(&semaphore_ops, name), tokens);

        semaphore = (weir_semaphore *)weir__waitable_unique((struct weir__waitable *)semaphore);
        if (!semaphore || semaphore->most == (tokens ? tokens : UINT64_MAX))
                return semaphore;
        weir_semaphore_unref(semaphore);
        errno = EEXIST;
        return NULL;
}

weir_semaphore *
weir_semaphore_ref(weir_semaphore *semaphore)
{
        return (weir_semaphore *)weir__waitable_ref((struct weir__waitable *)semaphore);
}

void
weir_semaphore_unref(weir_semaphore *semaphore)
{
        weir__waitable_unref((struct weir__waitable *)semaphore);
}

/* -- tokens -- */

/* As much of what those at the head want as there is; at most so many of them at once.  Returns whether there may be more. 
 * Under the lock. */
static bool
serve_some(weir_semaphore *semaphore, struct weir__work_list *claimed)
{
        for (unsigned i = 0; i < WEIR__WAITS_AT_ONCE; i++) {
                struct weir__wait *wait = semaphore->waits.first;
                bool over = wait && weir__wait_is_over(wait->task);

                if (!wait || (!over && wait->amount > semaphore->available))
                        return false;
                over = over || !weir__wait_claim(wait->task);
                weir__wait_unlink(wait);
                if (over)
                        continue;
                semaphore->available -= wait->amount;
                wait->task->won = wait;
                weir__work_append(claimed, &wait->task->task.work);
        }
        return true;
}

/* The lock is held, and let go. */
static void
serve_and_unlock(weir_semaphore *semaphore)
{
        for (bool more = true; more;) {
                struct weir__work_list claimed = {0};

                more = serve_some(semaphore, &claimed);
                weir__unlock(&semaphore->object.lock);
                weir__wait_deliver_all(&claimed);
                if (more)
                        weir__waitable_lock(&semaphore->object);
        }
}

/* What nobody who came before waits for.  Under the lock. */
static bool
take(weir_semaphore *semaphore, uint64_t tokens)
{
        bool there = tokens == 0 || (tokens <= semaphore->available && !weir__wait_first(&semaphore->waits));

        if (there)
                semaphore->available -= tokens;
        return there;
}

static int
unusable(const weir_semaphore *semaphore)
{
        return !semaphore ? -ENOMEM : weir__phase_is_forked() ? -ECHILD : 0;
}

int
weir_semaphore_try_acquire(weir_semaphore *semaphore, uint64_t tokens)
{
        int failed = unusable(semaphore);

        if (failed || tokens > semaphore->most)
                return failed ? failed : -EINVAL;
        weir__waitable_lock(&semaphore->object);
        bool taken = take(semaphore, tokens);
        weir__unlock(&semaphore->object.lock);
        return taken ? 0 : -EAGAIN;
}

int
weir_semaphore_release(weir_semaphore *semaphore, uint64_t tokens)
{
        int failed = unusable(semaphore);

        if (failed)
                return failed;
        weir__waitable_lock(&semaphore->object);
        if (tokens > UINT64_MAX - semaphore->available) {
                weir__unlock(&semaphore->object.lock);
                return -EOVERFLOW;
        }
        semaphore->available += tokens;
        serve_and_unlock(semaphore);
        return 0;
}

uint64_t
weir_semaphore_available(weir_semaphore *semaphore)
{
        if (unusable(semaphore))
                return 0;
        weir__lock(&semaphore->object.lock);
        uint64_t available = semaphore->available;
        weir__unlock(&semaphore->object.lock);
        return available;
}

/* -- the task -- */

static void
start(struct weir_task *task)
{
        struct weir__wait_task *self = (struct weir__wait_task *)task;
        weir_semaphore *semaphore = (weir_semaphore *)self->wait.object;

        weir__waitable_lock(&semaphore->object);
        bool granted = !weir__wait_is_over(self) && take(semaphore, self->wait.amount);
        enum weir__wait_begun begun = weir__wait_begin(self, &semaphore->waits, granted, 0);
        weir__unlock(&semaphore->object.lock);
        if (begun != WEIR__WAIT_LINKED)
                weir__wait_deliver(self);
}

static void
run(struct weir__work *work)
{
        struct weir__wait_task *self = (struct weir__wait_task *)work;
        weir_semaphore *semaphore = (weir_semaphore *)self->wait.object;

        weir__wait_arrive(self);
        if (self->task.status) { /* it has held up those behind it */
                weir__waitable_lock(&semaphore->object);
                serve_and_unlock(semaphore);
        }
        weir__task_call_back(&self->task);
        weir__task_finish(&self->task);
}

static void
describe(const struct weir_task *task, char *out, size_t room)
{
        const struct weir__wait *wait = &((const struct weir__wait_task *)task)->wait;

        weir__wait_describe(task, out, room);
        size_t size = strlen(out);
        if (size == 0)
                return; /* it does not wait any more */
        snprintf(out + size, room - size, ", for %llu of which %llu are there", (unsigned long long)wait->amount,
                 (unsigned long long)weir_semaphore_available((weir_semaphore *)wait->object));
}

static const struct weir__task_ops acquire_ops = {
        .work = {.run = run, .kind = "tokens", .is_migratable = true, .calls = weir__task_calls},
        .start = start,
        .cancel = weir__wait_cancel,
        .release = weir__wait_release,
        .describe = describe,
};

weir_task *
weir_semaphore_acquire_new(weir_semaphore *semaphore, uint64_t tokens, weir_task_fn *done, void *context)
{
        struct weir__wait_task *self = weir__alloc(sizeof *self);

        if (!self)
                return NULL;
        weir__wait_task_init(self, &acquire_ops, sizeof *self, (struct weir__waitable *)semaphore, done, context);
        self->wait.amount = tokens;
        if (semaphore && tokens > semaphore->most)
                weir__wait_task_spoil(self, -EINVAL);
        return &self->task;
}
