/* factory/channel/promise.c: tasks whose end the program decides.
 *
 *     NEW --start--> PENDING --ended; cancel, deadline, shutdown--> READY --> RUNNING --> the task is over
 *      |\--ended before its start: DECIDED, and its start makes it READY --/
 *      '--dismissed, refused, dropped-------------------------------------------------/
 *
 * A promise begins with its task.  The memory outlives the task as long as the program has references, and an end that comes too
 * late finds the state of a task that is over.
 *
 * While it is PENDING it is linked into its part, where a shutdown and dumps find it.  They look at it under the part's lock, and
 * take no reference.  A holder of all references that are left frees it without a locked operation, because nobody else can get
 * one.
 *
 * Threads: any; `run` on a worker.
 * Locks:   its part's (a leaf), for `is_decided` and for all that an end changes.  No user code runs under it, but the `describe`
 *          of a kind, which locks nothing.
 *
 * An end decides under the lock: before the start by `is_decided`, later by the claim, which unlinks.  A cancel claims without
 * the lock, as with all waits, and `run` unlinks.  The claimer owns the status.  So `run` knows by `is_decided` whether an end
 * was the claimer, and if not it calls the cancel function before the callback, on the same worker.  One that is in no series has
 * no cancel, so the lock guards the word, too.
 *
 * A hold claims as an end does, and delivers nothing: the end that follows delivers.  A hold before the start is noted, and the
 * start claims.
 *
 * References: one is the task's.  That of the work is made with a promise whose kind has a begin function, for a locked operation
 * less, and is the task's as well until that function is called.  weir_promise_finish gives one back to the task. */
#include "factory/channel/promise.h"

#include <errno.h>
#include <string.h>

#include "factory/sync/waitable.h"
#include "factory/task/series.h"
#include "kernel/base/clock.h"
#include "kernel/base/panic.h"
#include "kernel/base/phase.h"
#include "kernel/data/visible.h"
#include "kernel/memory/memory.h"
#include "kernel/observe/log.h"
#include "kernel/observe/trace.h"

static const struct weir__task_ops promise_task_ops;

static inline struct weir__promise *
promise_of(const struct weir_task *task)
{
        return (struct weir__promise *)task;
}

/* -- references -- */

/* The last reference is gone. */
static void
destroy(struct weir__promise *self)
{
        atomic_store_explicit(&self->references, 0, memory_order_relaxed); /* for a reference that is dropped once too often */
        if (self->kind && self->kind->free)
                weir__user_call(self->kind->free, self->own);
        weir__free(self, sizeof *self);
}

/* Drops that many references.  If these are all, nobody else can take one: it is not linked any more. */
static inline void
give_up(struct weir__promise *self, size_t count)
{
        if (atomic_load_explicit(&self->references, memory_order_acquire) == count ||
            atomic_fetch_sub_explicit(&self->references, count, memory_order_acq_rel) == count)
                destroy(self);
}

/* -- the end -- */

/* Whether no cancel can come, for that comes by a series: then the lock guards the word, too. */
static inline bool
is_alone(const struct weir__promise *self)
{
        return !self->task.series;
}

/* PENDING -> READY.  False: a cancel has done that.  Under the lock. */
static inline bool
claim(struct weir__promise *self)
{
        if (!is_alone(self))
                return weir__wait_claim(&self->task);
        atomic_store_explicit(&self->task.word, WEIR__READY, memory_order_release);
        return true;
}

/* Whether this end is the first to come: then the task is READY, unless it was not started.  Under the lock. */
static inline bool
decide(struct weir__promise_part *part, struct weir__promise *self)
{
        if (self->is_decided)
                return false;
        uint32_t word = atomic_load_explicit(&self->task.word, memory_order_relaxed);
        if (word != WEIR__PENDING)
                return word == WEIR__NEW;
        if (!claim(self))
                return false;
        weir__promise_unlink(part, self);
        return true;
}

/* Whether the task was claimed, now or by a hold.  Under the lock. */
static inline bool
is_claimed(const struct weir__promise *self)
{
        return atomic_load_explicit(&self->task.word, memory_order_relaxed) == WEIR__READY;
}

/* Ends the promise.  Returns whether this is the first end.  Then, if `is_given`, the task takes over the caller's reference. */
static inline bool
end(struct weir__promise *self, int status, void *value, weir_free_fn *drop, bool is_given)
{
        bool is_ready = false;

        struct weir__promise_part *part = weir__promise_lock(self);
        bool is_first = self->is_held ? !self->is_decided : decide(part, self);
        if (is_first) {
                is_ready = is_claimed(self);
                self->is_decided = true;
                self->is_given = is_given;
                self->outcome = status;
                self->value = value;
                self->drop = drop;
                if (is_ready)
                        self->task.status = status;
        }
        weir__unlock(&part->lock);
        if (is_ready)
                weir__task_deliver(&self->task);
        return is_first;
}

static int
hold(struct weir__promise *self)
{
        struct weir__promise_part *part = weir__promise_lock(self);
        bool is_first = !self->is_held && decide(part, self);
        if (is_first)
                self->is_held = true;
        weir__unlock(&part->lock);
        return is_first ? 0 : -EALREADY;
}

/* Why it should end: its series ends early, or it was discarded before its start, and its series may be gone. */
static int
cause_of(const struct weir__promise *self)
{
        bool has_begun = self->kind && self->kind->begin; /* its holder is the work, which begins with the start */
        int cause = 0;

        struct weir__promise_part *part = weir__promise_lock(self);
        if (!has_begun)
                has_begun = atomic_load_explicit(&self->task.word, memory_order_relaxed) != WEIR__NEW;
        if (self->is_decided)
                cause = -ECANCELED;
        else if (has_begun && self->task.series)
                cause = weir__series_effective_cause(self->task.series);
        weir__unlock(&part->lock);
        return cause;
}

/* -- the task -- */

static const struct weir__callee begin_callee = {"the begin function of", NULL, "a begin function"};
static const struct weir__callee cancel_callee = {"the cancel function of", NULL, "a cancel function"};

/* The function has the reference of the work from now on. */
static void
call_begin(struct weir__promise *self, struct weir__work *work)
{
        struct weir__user_call call = weir__user_begin_as(&begin_callee, work, (weir__function *)self->kind->begin);
        void *fiber = weir__user_hide_fiber();

        self->is_unbegun = false;
        self->kind->begin(&self->task, self->own);
        weir__user_show_fiber(fiber);
        weir__user_end_as(call);
}

/* Lets it wait, unless it is over by now: then it is READY.  A cancel may come between, and what has ended stays so.  Under the
 * lock. */
static bool
wait_in(struct weir__promise_part *part, struct weir__promise *self)
{
        struct weir_task *task = &self->task;

        if (weir__phase_is_stopping()) {
                if (weir__wait_leave_new(task, WEIR__READY))
                        task->status = -ESHUTDOWN;
                return false;
        }
        weir__promise_link(part, self); /* before it can be claimed */
        if (is_alone(self))
                atomic_store_explicit(&task->word, WEIR__PENDING, memory_order_release);
        else if (!weir__wait_leave_new(task, WEIR__PENDING)) {
                weir__promise_unlink(part, self);
                return false;
        }
        return true;
}

/* One that was held before is claimed, and its end delivers it.  The task is not delivered while it is NEW, so it outlives its
 * begin function. */
static void
start(struct weir_task *task)
{
        struct weir__promise *self = promise_of(task);
        bool is_over = false;

        task->size_class = 0; /* from now on free_memory frees it */
        if (weir__trace_is_on())
                weir__promise_trace_start(self);
        if (self->is_unbegun)
                call_begin(self, &task->work);
        struct weir__promise_part *part = weir__promise_lock(self);
        if (__builtin_expect(self->traced != NULL, 0))
                weir__promise_trace_name(self);
        if (self->is_decided || self->is_held) {
                is_over = self->is_decided;
                task->status = self->outcome;
                atomic_store_explicit(&task->word, WEIR__READY, memory_order_release);
        } else
                is_over = !wait_in(part, self);
        weir__unlock(&part->lock);
        if (is_over)
                weir__task_deliver(task);
}

static void
call_cancel(struct weir__promise *self, struct weir__work *work)
{
        weir_promise_cancel_fn *cancel = self->kind ? self->kind->cancel : self->cancel;

        if (!cancel)
                return;
        struct weir__user_call call = weir__user_begin_as(&cancel_callee, work, (weir__function *)cancel);
        cancel(&self->task, self->kind ? self->own : self->task.context);
        weir__user_end_as(call);
}

static void
run(struct weir__work *work)
{
        struct weir__promise *self = promise_of((struct weir_task *)work);

        weir__promise_leave(self);
        if (__builtin_expect(self->traced != NULL, 0))
                weir__promise_trace_end(self);
        atomic_store_explicit(&self->task.word, WEIR__RUNNING, memory_order_release); /* for weir__series_behind */
        if (!self->is_decided)
                call_cancel(self, work);
        weir__task_call_back(&self->task);
        weir__task_finish(&self->task);
}

static void *
take_value(struct weir__promise *self)
{
        void *value = self->value;

        self->value = NULL;
        return value;
}

/* An end that comes after a discard is too late. */
static void
discard(struct weir__promise *self)
{
        struct weir__promise_part *part = weir__promise_lock(self);

        self->is_decided = true;
        weir__unlock(&part->lock);
        self->task.size_class = 0;
}

static void
release(struct weir_task *task, bool discarded)
{
        struct weir__promise *self = promise_of(task);

        if (discarded)
                discard(self);
        void *value = take_value(self);
        if (value && self->drop)
                weir__user_call(self->drop, value);
}

static void
free_memory(struct weir_task *task)
{
        struct weir__promise *self = promise_of(task);

        give_up(self, 1 + (size_t)self->is_unbegun + (size_t)self->is_given);
}

static const char *
name(const struct weir_task *task, int *size)
{
        const struct weir__promise *self = promise_of(task);

        *size = self->label_size;
        return self->label_size > 0 ? self->label : NULL;
}

static void
describe(const struct weir_task *task, char *out, size_t room)
{
        const struct weir__promise *self = promise_of(task);

        *out = '\0';
        if (self->kind && self->kind->describe)
                self->kind->describe(self->own, out, room);
}

/* The size class says where the task lies until somebody consumes it: so a look at blocks finds those that nobody does. */
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
        .label_at = offsetof(struct weir__promise, label_size),
        .describe = describe,
};

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

static uint8_t
choose_part(void)
{
        static _Thread_local unsigned next;

        /* On the virtual clock one list serves, so that a shutdown ends all in the same order each time. */
        return weir__clock_is_virtual() ? 0 : next++ % WEIR__PROMISE_PARTS;
}

static struct weir__promise *
make(const struct weir_promise_kind *kind, weir_task_fn *done, void *context)
{
        struct weir__promise *self = weir__alloc(sizeof *self);

        if (!self) {
                errno = ENOMEM;
                return NULL;
        }
        weir__task_init(&self->task, &promise_task_ops, sizeof *self, done, context);
        self->link = (struct weir__link){0};
        self->is_unbegun = kind && kind->begin;
        atomic_init(&self->references, 1 + (size_t)self->is_unbegun);
        self->part = choose_part();
        atomic_init(&self->is_linked, false);
        self->is_decided = self->is_held = self->is_given = false;
        self->outcome = 0;
        self->value = NULL;
        self->drop = NULL;
        self->traced = NULL;
        self->kind = kind;
        self->label_size = 0;
        return self;
}

weir_task *
weir_promise_new(weir_promise_cancel_fn *cancel, weir_task_fn *done, void *context)
{
        struct weir__promise *self = make(NULL, done, context);

        if (!self)
                return NULL;
        self->cancel = cancel;
        return &self->task;
}

weir_task *
weir_promise_new_of(const struct weir_promise_kind *kind, void *own, weir_task_fn *done, void *context)
{
        struct weir__promise *self = make(kind, done, context);

        if (!self) {
                if (kind && kind->free)
                        weir__user_call(kind->free, own);
                return NULL;
        }
        self->own = own;
        if (!kind || kind->size != sizeof *kind)
                weir__task_poison(&self->task, weir__log_refusal("weir_promise_new_of: the kind is NULL, or its size is wrong"));
        return &self->task;
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
        int cause = cause_of(promise_of(promise));
        return cause ? cause : weir__phase_is_stopping() ? -ESHUTDOWN : 0;
}

static int
fault_of_end(const struct weir_task *task, int status, const char *call)
{
        int fault = fault_of(task);

        return !fault && status > 0 ? weir__log_refusal("%s: the status %d: expected 0 or a negative errno", call, status)
                                    : fault;
}

int
weir_promise_end_with(weir_task *promise, int status, void *value, weir_free_fn *drop)
{
        int fault = fault_of_end(promise, status, "weir_promise_end");

        if (fault)
                return fault;
        return end(promise_of(promise), status, value, drop, false) ? 0 : -EALREADY;
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

static inline void
expect_promise(const struct weir_task *task, const char *verb)
{
        if (__builtin_expect(weir__task_ops(task) != &promise_task_ops, 0))
                weir__panic("%s: the task is no promise", verb);
}

weir_task *
weir_promise_ref(weir_task *promise)
{
        weir__memory_expect(promise);
        if (!promise)
                return NULL;
        expect_promise(promise, "weir_promise_ref");
        atomic_fetch_add_explicit(&promise_of(promise)->references, 1, memory_order_relaxed);
        return promise;
}

void
weir_promise_unref(weir_task *promise)
{
        if (!promise)
                return;
        expect_promise(promise, "weir_promise_unref");
        weir__references_expect(promise, &promise_of(promise)->references, "weir_promise_unref");
        give_up(promise_of(promise), 1);
}

int
weir_promise_finish(weir_task *promise, int status, void *value, weir_free_fn *drop)
{
        int fault = fault_of_end(promise, status, "weir_promise_finish");

        if (fault != -ECHILD && fault)
                return fault;
        weir__references_expect(promise, &promise_of(promise)->references, "weir_promise_finish");
        if (!fault && end(promise_of(promise), status, value, drop, true))
                return 0;
        give_up(promise_of(promise), 1);
        return fault ? fault : -EALREADY;
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
        struct weir__promise *self = promise_of(promise);
        self->label_size = (uint8_t)weir__utf8_cut(label, strlen(label), WEIR_PROMISE_LABEL_MAX);
        memcpy(self->label, label, self->label_size);
        self->label[self->label_size] = '\0';
        return 0;
}
