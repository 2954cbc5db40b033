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
 * the cancel function before the callback, on the same worker.
 *
 * A hold claims as an end does, and delivers nothing: the end that follows delivers.  A hold before the start is noted, and the
 * start claims. */
#include <weir/promise.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "factory/sync/waitable.h"
#include "factory/task/series.h"
#include "kernel/base/panic.h"
#include "kernel/base/phase.h"
#include "kernel/data/visible.h"
#include "kernel/observe/log.h"

struct promise {
        struct weir__waitable object; /* first */
        struct weir__list waits;      /* none, or the task's; guarded by the object's lock */

        struct weir__wait_task wait_task;

        /* Guarded by the object's lock until the task is READY, then its worker's.  An end that comes later does not write. */
        bool is_decided; /* an end has come, or the task will never start */
        bool is_held;    /* a cancel comes too late */
        int outcome;
        void *value;
        weir_free_fn *drop; /* may be NULL */

        /* Constant; the label once the task is consumed.  It is rare, so it is last. */
        weir_promise_cancel_fn *cancel;
        const struct weir_promise_kind *kind; /* NULL: none; then `own` is unused */
        void *own;
        int label_size; /* 0: none */
        char label[WEIR_PROMISE_LABEL_MAX + 1];
};

static const struct weir__task_ops promise_task_ops;

static struct promise *
promise_of(const struct weir_task *task)
{
        return weir__container_of((struct weir_task *)task, struct promise, wait_task.task);
}

/* -- the end -- */

/* Whether no cancel can come, for that comes by a series: then the lock guards the word, too. */
static inline bool
is_alone(const struct promise *self)
{
        return !self->wait_task.task.series;
}

/* Whether this end is the first to come: then the task is READY, unless it was not started.  Under the lock. */
static inline bool
decide(struct promise *self)
{
        struct weir__work_list claimed = {0}; /* the task: nothing else waits here */
        struct weir_task *task = &self->wait_task.task;

        if (self->is_decided)
                return false;
        uint32_t word = atomic_load_explicit(&task->word, memory_order_relaxed);
        if (word == WEIR__NEW)
                return true;
        if (word != WEIR__PENDING || !is_alone(self))
                return weir__wait_pop(&self->waits, &claimed);
        atomic_store_explicit(&task->word, WEIR__READY, memory_order_release);
        weir__wait_unlink(&self->wait_task.wait);
        return true;
}

/* Whether the task was claimed, now or by a hold.  Under the lock. */
static bool
is_claimed(const struct promise *self)
{
        return atomic_load_explicit(&self->wait_task.task.word, memory_order_relaxed) == WEIR__READY;
}

static int
end(struct promise *self, int status, void *value, weir_free_fn *drop)
{
        struct weir_task *task = &self->wait_task.task;
        bool is_ready = false;

        weir__lock(&self->object.lock);
        bool is_first = self->is_held ? !self->is_decided : decide(self);
        if (is_first) {
                is_ready = is_claimed(self);
                self->is_decided = true;
                self->outcome = status;
                self->value = value;
                self->drop = drop;
                if (is_ready)
                        task->status = status;
        }
        weir__unlock(&self->object.lock);
        if (is_ready)
                weir__task_deliver(task);
        return is_first ? 0 : -EALREADY;
}

static int
hold(struct promise *self)
{
        weir__lock(&self->object.lock);
        bool is_first = !self->is_held && decide(self);
        if (is_first)
                self->is_held = true;
        weir__unlock(&self->object.lock);
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

static const struct weir__callee begin_callee = {"the begin function of", NULL, "a begin function"};
static const struct weir__callee cancel_callee = {"the cancel function of", NULL, "a cancel function"};

static void
call_begin(struct promise *self, struct weir__work *work)
{
        struct weir__user_call call = weir__user_begin_as(&begin_callee, work, (weir__function *)self->kind->begin);
        void *fiber = weir__user_hide_fiber();

        self->kind->begin(&self->wait_task.task, self->own);
        weir__user_show_fiber(fiber);
        weir__user_end_as(call);
}

/* Lets it wait if no cancel can come between.  Under the lock. */
static bool
wait_alone(struct promise *self)
{
        if (self->is_decided || !is_alone(self) || weir__phase_is_stopping())
                return false;
        weir__wait_link(&self->wait_task.wait);
        atomic_store_explicit(&self->wait_task.task.word, WEIR__PENDING, memory_order_release);
        return true;
}

/* As weir__wait_start; but a promise that was held before is claimed, and its end delivers it.  The task is not delivered while
 * it is NEW, so it outlives its begin function. */
static void
start(struct weir_task *task)
{
        struct promise *self = promise_of(task);
        bool is_over = false;

        if (self->kind && self->kind->begin)
                call_begin(self, &task->work);
        weir__lock(&self->object.lock);
        if (self->is_held && !self->is_decided)
                atomic_store_explicit(&task->word, WEIR__READY, memory_order_release);
        else
                is_over = !wait_alone(self) && !weir__wait_finish_start(&self->wait_task, try(&self->wait_task.wait, NULL));
        weir__unlock(&self->object.lock);
        if (is_over)
                weir__task_deliver(task);
}

static void
call_cancel(struct promise *self, struct weir__work *work)
{
        weir_promise_cancel_fn *cancel = self->kind ? self->kind->cancel : self->cancel;

        if (!cancel)
                return;
        struct weir__user_call call = weir__user_begin_as(&cancel_callee, work, (weir__function *)cancel);
        cancel(&self->wait_task.task, self->kind ? self->own : self->wait_task.task.context);
        weir__user_end_as(call);
}

static void
run(struct weir__work *work)
{
        struct promise *self = promise_of((struct weir_task *)work);
        struct weir_task *task = &self->wait_task.task;

        weir__wait_set_running(&self->wait_task);
        if (!self->is_decided)
                call_cancel(self, work);
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
        weir__waitable_unref_unnamed(&promise_of(task)->object);
}

static const char *
name(const struct weir_task *task, int *size)
{
        const struct promise *self = promise_of(task);

        *size = self->label_size;
        return self->label_size > 0 ? self->label : NULL;
}

static void
describe_own(const struct promise *self, char *out, size_t room)
{
        *out = '\0';
        if (self->kind && self->kind->describe)
                self->kind->describe(self->own, out, room);
}

static void
describe_task(const struct weir_task *task, char *out, size_t room)
{
        describe_own(promise_of(task), out, room);
}

static void
describe(const struct weir__waitable *object, const struct weir__wait *wait, char *out, size_t room)
{
        const struct promise *self = (const struct promise *)object;

        if (wait)
                return;
        if (self->label_size > 0)
                snprintf(out, room, "\"%s\" ", self->label);
        size_t used = strlen(out);
        describe_own(self, out + used, room - used);
        if (!out[used] && used)
                out[used - 1] = '\0';
}

/* The last reference is gone. */
static void
clear(struct weir__waitable *object)
{
        struct promise *self = (struct promise *)object;

        if (self->kind && self->kind->free)
                weir__user_call(self->kind->free, self->own);
}

static const struct weir__waitable_ops promise_ops = {.kind = WEIR__UNNAMED,
                                                      .noun = "promise",
                                                      .size = sizeof(struct promise),
                                                      .queues = 1,
                                                      .should_keep_grant = true,
                                                      .try = try,
                                                      .clear = clear,
                                                      .describe = describe};

static const struct weir__task_ops promise_task_ops = {
        .work = {.run = run,
                 .kind = "a promise",
                 .is_migratable = true,
                 .function = weir__task_function,
                 .name = weir__task_name},
        .start = start,
        .end_early = weir__wait_end_early,
        .release = release,
        .free_memory = free_memory,
        .name = name,
        .describe = describe_task,
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

static struct promise *
make(weir_task_fn *done, void *context)
{
        struct promise *self = (struct promise *)weir__waitable_new(&promise_ops, 0, 0, NULL);

        if (!self)
                return NULL;
        weir__wait_task_init(&self->wait_task, sizeof self->wait_task, &promise_task_ops, &self->object, 0, done, context);
        self->wait_task.task.size_class = 0;
        return self;
}

weir_task *
weir_promise_new(weir_promise_cancel_fn *cancel, weir_task_fn *done, void *context)
{
        struct promise *self = make(done, context);

        if (!self)
                return NULL;
        self->cancel = cancel;
        return &self->wait_task.task;
}

weir_task *
weir_promise_new_of(const struct weir_promise_kind *kind, void *own, weir_task_fn *done, void *context)
{
        struct promise *self = make(done, context);

        if (!self) {
                if (kind && kind->free)
                        weir__user_call(kind->free, own);
                return NULL;
        }
        self->kind = kind;
        self->own = own;
        if (!kind || kind->size != sizeof *kind)
                weir__task_poison(&self->wait_task.task,
                                  weir__log_refusal("weir_promise_new_of: the kind is NULL, or its size is wrong"));
        return &self->wait_task.task;
}

void *
weir_promise_own(const weir_task *task, const struct weir_promise_kind *kind)
{
        weir__memory_expect(task);
        if (!task || !kind || weir__task_ops(task) != &promise_task_ops || promise_of(task)->kind != kind)
                return NULL;
        return promise_of(task)->own;
}

int
weir_promise_hold(weir_task *promise)
{
        int fault = fault_of(promise);

        return fault ? fault : hold(promise_of(promise));
}

int
weir_promise_cancelled(const weir_task *promise)
{
        int fault = fault_of(promise);

        if (fault)
                return fault;
        int cause = promise->series ? weir__series_effective_cause(promise->series) : 0;
        return cause ? cause : weir__phase_is_stopping() ? -ESHUTDOWN : 0;
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
        weir__waitable_unref_unnamed(object);
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
