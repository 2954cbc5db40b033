/* factory/channel/promise.c: tasks whose end the program decides.
 *
 *     NEW --start--> PENDING --ended; cancel, deadline, shutdown--> READY --> RUNNING --> the task is over
 *      |\--ended before its start: DECIDED, and its start makes it READY --/
 *      '--dismissed, refused, dropped-------------------------------------------------/
 *
 * A promise is an object with one wait, the task, which lies in the object (factory/sync/waitable.h).  The task has the reference
 * that the object was made with.  So the memory outlives the task as long as the program has references, and an end that comes
 * too late finds the state of a task that is over.
 *
 * Threads: any; `run` on a worker.
 * Locks:   the object's, for `is_decided` and for all that an end changes.  No user code runs under it.
 *
 * An end decides under the lock: before the start by `is_decided`, later by the claim.  A cancel claims without the lock, as with
 * all waits.  The claimer owns the status.  So `run` knows by `is_decided` whether an end was the claimer, and if not it calls
 * the cancel function before the callback, on the same worker. */
#include <weir/promise.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "factory/sync/waitable.h"
#include "kernel/base/panic.h"
#include "kernel/data/visible.h"
#include "kernel/observe/log.h"

struct promise {
        struct weir__waitable object; /* first */
        struct weir__list waits;      /* none, or the task's; guarded by the object's lock */

        struct weir__wait_task wait_task;

        /* Constant; the label once the task is consumed. */
        weir_promise_cancel_fn *cancel;
        int label_size; /* 0: none */
        char label[WEIR_PROMISE_LABEL_MAX + 1];

        /* Guarded by the object's lock until the task is READY, then its worker's.  An end that comes later does not write. */
        bool is_decided; /* an end has come, or the task will never start */
        int outcome;
        void *value;
        weir_free_fn *drop; /* may be NULL */
};

static const struct weir__task_ops promise_task_ops;

static struct promise *
promise_of(const struct weir_task *task)
{
        return weir__container_of((struct weir_task *)task, struct promise, wait_task.task);
}

/* -- the end -- */

/* Whether this end is the first to come.  Under the lock. */
static bool
decide(struct promise *self, struct weir__work_list *claimed)
{
        if (self->is_decided)
                return false;
        return atomic_load_explicit(&self->wait_task.task.word, memory_order_relaxed) == WEIR__NEW ||
               weir__wait_pop(&self->waits, claimed);
}

static int
end(struct promise *self, int status, void *value, weir_free_fn *drop)
{
        struct weir__work_list claimed = {0};

        weir__lock(&self->object.lock);
        bool is_first = decide(self, &claimed);
        if (is_first) {
                self->is_decided = true;
                self->outcome = status;
                self->value = value;
                self->drop = drop;
                if (claimed.first)
                        self->wait_task.task.status = status;
        }
        weir__unlock(&self->object.lock);
        weir__wait_deliver_all(&claimed);
        return is_first ? 0 : -EALREADY;
}

/* The end came before the start. */
static int
try(struct weir__wait *wait, struct weir__work_list *claimed)
{
        struct promise *self = (struct promise *)wait->object;

        (void)claimed;
        if (!self->is_decided)
                return -EAGAIN;
        wait->task->task.status = self->outcome;
        return 0;
}

static const struct weir__callee cancel_callee = {"the cancel function of", NULL, "a cancel function"};

static void
run(struct weir__work *work)
{
        struct promise *self = promise_of((struct weir_task *)work);
        struct weir_task *task = &self->wait_task.task;

        weir__wait_set_running(&self->wait_task);
        if (!self->is_decided && self->cancel) {
                struct weir__user_call call = weir__user_begin_as(&cancel_callee, work, (weir__function *)self->cancel);

                self->cancel(task, task->context);
                weir__user_end_as(call);
        }
        weir__task_call_back(task);
        weir__task_finish(task);
}

static void *
take_value(struct promise *self)
{
        void *value = self->value;

        self->value = NULL;
        return value;
}

/* An end that comes after a discard is too late. */
static void
release(struct weir_task *task, bool discarded)
{
        struct promise *self = promise_of(task);
        bool may_meet_an_end = discarded && !weir__phase_is_forked(); /* a lock that was held at the fork is never released */

        if (may_meet_an_end)
                weir__lock(&self->object.lock);
        if (discarded)
                self->is_decided = true;
        void *value = take_value(self);
        if (may_meet_an_end)
                weir__unlock(&self->object.lock);
        if (value && self->drop)
                weir__user_call(self->drop, value);
}

/* -- objects -- */

/* The object has its reference from the task, which is over. */
static void
free_memory(struct weir_task *task)
{
        weir__waitable_unref(&promise_of(task)->object);
}

static const char *
name(const struct weir_task *task, int *size)
{
        const struct promise *self = promise_of(task);

        *size = self->label_size;
        return self->label_size > 0 ? self->label : NULL;
}

static void
describe(const struct weir__waitable *object, const struct weir__wait *wait, char *out, size_t room)
{
        const struct promise *self = (const struct promise *)object;

        if (!wait && self->label_size > 0)
                snprintf(out, room, "\"%s\"", self->label);
}

static const struct weir__waitable_ops promise_ops = {.kind = WEIR__UNNAMED,
                                                      .noun = "promise",
                                                      .size = sizeof(struct promise),
                                                      .queues = 1,
                                                      .should_keep_grant = true,
                                                      .try = try,
                                                      .describe = describe};

static const struct weir__task_ops promise_task_ops = {
        .work = {.run = run,
                 .kind = "a promise",
                 .is_migratable = true,
                 .function = weir__task_function,
                 .name = weir__task_name},
        .start = weir__wait_start,
        .end_early = weir__wait_end_early,
        .release = release,
        .free_memory = free_memory,
        .name = name,
};

/* -- what was never started -- */

/* The object is listed before its maker has made the task.  The operations of that come first, and its flags are zero before. */
static bool
is_unstarted(const struct weir__waitable *object)
{
        const struct weir_task *task = &((const struct promise *)object)->wait_task.task;

        return object->ops == &promise_ops && __atomic_load_n(&task->work.ops, __ATOMIC_RELAXED) == &promise_task_ops.work &&
               weir__task_is_new(task);
}

/* The object begins with what it has as one, so a look at blocks does not find the task. */
static void
find_unstarted(struct weir__census *census)
{
        for (struct weir__waitable *object = NULL; (object = weir__waitable_next(object));)
                if (is_unstarted(object))
                        weir__census_count(census, &((struct promise *)object)->wait_task.task);
}

static void
prepare(void)
{
        weir__census_add_finder(find_unstarted);
}

WEIR__STEPS_OF(WEIR__MODULE_PROMISES, [WEIR__STEP_LOAD] = prepare);

/* -- the public face -- */

/* 0, or why that cannot be done with the task. */
static int
fault_of(const struct weir_task *task)
{
        weir__memory_expect(task);
        if (!task)
                return -EINVAL;
        if (weir__task_ops(task) != &promise_task_ops)
                return -EDOM;
        return weir__phase_is_forked() ? -ECHILD : 0;
}

weir_task *
weir_promise_new(weir_promise_cancel_fn *cancel, weir_task_fn *done, void *context)
{
        struct promise *self = (struct promise *)weir__waitable_new(&promise_ops, 0, 0, NULL);

        if (!self)
                return NULL;
        weir__wait_task_init(&self->wait_task, sizeof self->wait_task, &promise_task_ops, &self->object, 0, done, context);
        self->wait_task.task.size_class = 0;
        self->cancel = cancel;
        return &self->wait_task.task;
}

int
weir_promise_end_with(weir_task *promise, int status, void *value, weir_free_fn *drop)
{
        weir__memory_expect(promise);
        int fault = fault_of(promise);

        if (!fault && status > 0)
                fault = weir__log_refusal("weir_promise_end: the status %d: expected 0 or a negative errno", status);
        return fault ? fault : end(promise_of(promise), status, value, drop);
}

int
weir_promise_end(weir_task *promise, int status)
{
        return weir_promise_end_with(promise, status, NULL, NULL);
}

void *
weir_promise_value(const weir_task *promise)
{
        return fault_of(promise) ? NULL : promise_of(promise)->value;
}

void *
weir_promise_take_value(weir_task *promise)
{
        return fault_of(promise) ? NULL : take_value(promise_of(promise));
}

static struct weir__waitable *
object_of(const struct weir_task *task, const char *verb)
{
        if (task && weir__task_ops(task) != &promise_task_ops)
                weir__panic("%s: the task is no promise", verb);
        return task ? &promise_of(task)->object : NULL;
}

weir_task *
weir_promise_ref(weir_task *promise)
{
        weir__waitable_ref(object_of(promise, "weir_promise_ref"));
        return promise;
}

void
weir_promise_unref(weir_task *promise)
{
        struct weir__waitable *object = object_of(promise, "weir_promise_unref");

        if (object)
                weir__references_expect(object, &object->references, "weir_promise_unref");
        weir__waitable_unref(object);
}

int
weir_promise_set_label(weir_task *promise, const char *label)
{
        int fault = fault_of(promise);

        if (fault)
                return fault;
        if (!label)
                return weir__log_refusal("weir_promise_set_label: the label is NULL: expected a text");
        if (promise->flags & WEIR__TASK_CONSUMED)
                return -EBUSY;
        struct promise *self = promise_of(promise);
        self->label_size = (int)weir__utf8_cut(label, strlen(label), WEIR_PROMISE_LABEL_MAX);
        memcpy(self->label, label, (size_t)self->label_size);
        self->label[self->label_size] = '\0';
        return 0;
}
