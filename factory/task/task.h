/* factory/task/task.h: what tasks of all kinds have, and what a kind adds.
 *
 * The states of a task:
 *
 *     NEW --start--> PENDING --> READY --> RUNNING --> freed
 *      \--dismiss, refused---------------------------> freed
 *
 * A task that waits is PENDING.  Other kinds go from NEW to READY, and only their owner touches their word.  The word
 * of a timer has flags as well, which start, expiry, reset and cancel exchange (factory/timer/timer.c). */
#ifndef WEIR_FACTORY_TASK_H
#define WEIR_FACTORY_TASK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <weir/parallel.h>
#include <weir/series.h>
#include <weir/task.h>

#include "kernel/base/lock.h"
#include "kernel/loop/poller.h"
#include "kernel/data/work.h"
#include "kernel/memory/watched.h"
#include "kernel/worker/user.h"
#include "kernel/worker/worker.h"

enum weir__state {
        WEIR__NEW = 0,
        WEIR__PENDING = 1,
        WEIR__READY = 2,
        WEIR__RUNNING = 3,
        WEIR__STATE = 7, /* mask */

        WEIR__CANCELLED = 8, /* by name or id: the callback sees -ECANCELED; one with a name is a zombie (factory/names) */
        WEIR__EXPIRED = 16,  /* READY because its deadline has come: a reset may still move it */
        WEIR__REARMED = 32,  /* a reset has moved it: the worker puts it back instead of calling it */
        WEIR__QUEUED = 64,   /* READY, but its node is in the queue still: the worker takes it out */
        WEIR__PINNED = 128,  /* READY, REARMED: the worker leaves it to the thread that has pinned it (timer_with.c) */
};

struct weir__series_ops;
struct weir__wait;

/* How far a dump has gone through what a task runs.  All zero at first. */
struct weir__child_cursor {
        uint32_t next;     /* the number of the next child.  Of a fiber: 0 is its series; from 1 on comes what is within that */
        bool is_awaited;   /* constant.  From 1 on: only those for whose end the fiber waits now */
        const char *label; /* of the child that was returned; NULL: it has none.  Under the lock that keeps the task */
};

/* The operations of a kind of task.  They run no user code but the free functions, where that is said. */
struct weir__task_ops {
        struct weir__work_ops work; /* first: run, on a worker, when the task is READY */

        /* The fault of a task that is consumed: 0 or a negative errno, such as -ELOOP.  Called by the consumer, with no
         * lock held.  Not called if the task was made wrongly or is dismissed.  NULL: none. */
        int (*seal)(struct weir_task *task);

        /* Prepares a lone task for its start, which was counted.  Returns 0, or the negative errno with which the start
         * is refused.  NULL: nothing to prepare. */
        int (*prepare)(struct weir_task *task);

        /* Starts it.  Its end is delivered through a poller, never from here.  Any thread, no lock held. */
        void (*start)(struct weir_task *task);

        /* The series ends early, and so must the task: what the task waits for ends.  Returns the task if the caller
         * must deliver it, or NULL.  Called under the lock of its series, which keeps the task alive.  The task may not
         * have been started yet.  NULL: the task has nothing that could end early. */
        struct weir_task *(*end_early)(struct weir_task *task);

        /* Gives up what the kind holds besides the memory of the task.  On the stack of the caller or a worker, no lock
         * held.  `discarded`: it never started, so its parts go as well, and their free functions run.  NULL: nothing. */
        void (*release)(struct weir_task *task, bool discarded);

        /* Frees the memory of a task whose size class is 0, or leaves that to others who have references.  NULL: malloc's
         * free. */
        void (*free_memory)(struct weir_task *task);

        /* No free function runs in `release` after the callback.  So a plain series may become ENDED before
         * `release`: nothing can be pushed any more. */
        bool has_quiet_release;

        /* Its name for messages, and the size of that.  NULL: it has no name. */
        const char *(*name)(const struct weir_task *task, int *size);
        size_t name_at; /* where in its memory its struct weir__name is; 0: it has none there */
        size_t label_at; /* where in its memory the size of its label is, in one byte, with the text behind it; 0: it has none */

        /* How late its callback begins; negative: unknown.  On its worker.  NULL: it has no deadline. */
        weir_nsec (*lateness)(const struct weir_task *task);

        /* Writes what it waits for, as the rest of a sentence ("guard \"db\", held by ...") of less than `room` bytes
         * with its NUL.  Under the lock of its series, or another that keeps it alive.  NULL: its kind and its name say
         * all. */
        void (*describe)(const struct weir_task *task, char *out, size_t room);

        /* For dumps: sets *child to the next series that it runs, with a reference, or to NULL.  Returns whether there
         * may be more.  Under the lock that keeps the task, as describe.  NULL: it runs none. */
        bool (*child)(struct weir_task *task, struct weir__child_cursor *cursor, struct weir_series **child);

        /* Its deadline has come, or shutdown has drained it, and its node was taken out of the queue.  The node is
         * right behind the task.  As a weir__deadline_fn.  NULL: it is a timer, or has no deadline. */
        struct weir__work *(*due)(struct weir_task *task, int status);

        /* Called with the series that weir_series_of makes, on a worker, before any other thread knows it.  NULL: not
         * called. */
        void (*series_made)(struct weir_series *series);

        /* weir_series_of was out of memory: what the callback pushes will be lost.  NULL: the push reports it. */
        void (*series_failed)(struct weir_task *task);

        /* Of the series that weir_series_of makes.  NULL: as of one that is started alone. */
        const struct weir__series_ops *series_ops;

        /* Whether it is started also in a series that ends early, which drops other tasks.  NULL: no. */
        bool (*must_start)(const struct weir_task *task);

        /* In a dump, while it runs others: the first of them is shown in its place, which is shown as this task. */
        bool is_shown_as_child;

        bool is_guard_wait; /* it waits for a guard: factory/sync/guard.c */

        /* The wait of a select's winner, if that has a message; or NULL (factory/channel/select.c).  NULL: it is no
         * select. */
        struct weir__wait *(*winner)(const struct weir_task *task);
};

struct weir_task {
        struct weir__work work; /* first; work.ops is the first member of the kind's struct weir__task_ops */

        /* Its owner's: the caller, then the worker that runs it. */
        weir_task_fn *done;
        void *context;
        weir_free_fn *on_free;
        struct weir_series *series; /* NULL for a lone task until weir_series_of */
        int status;                 /* written by the owner of its delivery, then by the worker that runs it */

        _Atomic uint32_t word; /* state and flags; release when a step is done, acquire where it is relied upon */

        /* Constant; but a timer's start may change the poller (factory/timer/timer.c). */
        _Atomic uint8_t poller; /* index of the poller that it belongs to */
        uint8_t slack;          /* a timer's: its deadline is rounded up to a multiple of 2^slack ns */
        uint8_t size_class;     /* of the memory it lies in: 8 * this bytes; 0: malloc's own, or ops->free_memory frees it */

        uint8_t flags; /* its owner's */

        union {
                /* A timer's, guarded by the poller's lock; taken by its owner before the start, given back at its end. */
                uint32_t handle; /* of its id; 0: nobody has asked for that */

                /* A struct weir__io_task's: its maker's, then the owner's of the poller, then its callback's. */
                struct {
                        bool is_tried;    /* `try` was called, or a cancel came before */
                        bool is_linked;   /* it waits */
                        uint8_t own_size; /* the kind's own, as the next one */
                        bool own_flag;
                };
        };
};

enum weir__task_flags {
        WEIR__TASK_CONSUMED = 1, /* started, pushed, added or dismissed */
        WEIR__TASK_POISONED = 2, /* `status` says what was wrong with its making, or with what was added; it is never started */
};

/* What consumes a task or a series, as the flags of the task have it from then on, above the others.  So a second call can name
 * the first one.  misuse.c has the names. */
#define WEIR__ACT(number) ((number) << 2 | WEIR__TASK_CONSUMED)
#define WEIR__ACTS        32 /* 64 at most */

enum weir__act {
        WEIR__ACT_UNKNOWN = WEIR__ACT(0),
        WEIR__ACT_START = WEIR__ACT(1),
        WEIR__ACT_RUN = WEIR__ACT(2),
        WEIR__ACT_DISMISS = WEIR__ACT(3),
        WEIR__ACT_PUSH = WEIR__ACT(4),
        WEIR__ACT_PUSH_FRONT = WEIR__ACT(5),
        WEIR__ACT_SERIES_START = WEIR__ACT(6),
        WEIR__ACT_SERIES_RUN = WEIR__ACT(7),
        WEIR__ACT_SERIES_DISMISS = WEIR__ACT(8),
        WEIR__ACT_PARALLEL_ADD = WEIR__ACT(9),
        WEIR__ACT_PARALLEL_ADD_SERIES = WEIR__ACT(10),
        WEIR__ACT_RACE_ADD = WEIR__ACT(11),
        WEIR__ACT_RACE_ADD_SERIES = WEIR__ACT(12),
        WEIR__ACT_GRAPH_ADD = WEIR__ACT(13),
        WEIR__ACT_GRAPH_ADD_SERIES = WEIR__ACT(14),
        WEIR__ACT_MODULE = WEIR__ACT(15),
        WEIR__ACT_TIMEOUT = WEIR__ACT(16),
        WEIR__ACT_LIMITED = WEIR__ACT(17),
        WEIR__ACT_CONDITIONAL = WEIR__ACT(18),
        WEIR__ACT_CONDITIONAL_NAMED = WEIR__ACT(19),
        WEIR__ACT_SELECT_RECEIVE = WEIR__ACT(20),
        WEIR__ACT_SELECT_SEND = WEIR__ACT(21),
        WEIR__ACT_MAKE = WEIR__ACT(22),
        WEIR__ACT_RETRY = WEIR__ACT(23),
        WEIR__ACT_SELECT_NEVER = WEIR__ACT(24),
        WEIR__ACT_SELECT_DEFAULT = WEIR__ACT(25),
        WEIR__ACT_PARALLEL_STOP_ON_FAILURE = WEIR__ACT(26),
        WEIR__ACT_GRAPH_STOP_ON_FAILURE = WEIR__ACT(27),
        WEIR__ACT_START_WAITED = WEIR__ACT(28),
        WEIR__ACT_SERIES_START_WAITED = WEIR__ACT(29),
        WEIR__ACT_AWAIT = WEIR__ACT(30),
        WEIR__ACT_GROUP_START = WEIR__ACT(31),
};

/* Initialises the common part of a task of `size` bytes from weir__alloc. */
void weir__task_init(struct weir_task *task, const struct weir__task_ops *ops, size_t size, weir_task_fn *done, void *context);

static inline const struct weir__task_ops *
weir__task_ops(const struct weir_task *task)
{
        return (const struct weir__task_ops *)task->work.ops;
}

/* Marks the task as consumed, and seals it; aborts when it was before. */
void weir__task_consume(struct weir_task *task, enum weir__act act);

/* Aborts unless the task is of that kind and was not consumed: more may be added to it. */
void weir__task_expect_open(const struct weir_task *task, const struct weir__task_ops *ops, enum weir__act act);

/* Abort, with one line that names the call, the task and the call that has consumed it: misuse.c. */
void weir__task_panic_consumed(const struct weir_task *task, enum weir__act act) __attribute__((cold, noinline, noreturn));
void weir__task_panic_closed(const struct weir_task *task, const struct weir__task_ops *ops, enum weir__act act)
        __attribute__((cold, noinline, noreturn));

/* The same for a series. */
void weir__series_panic_consumed(struct weir_series *series, enum weir__act act) __attribute__((cold, noinline, noreturn));

/* The start of the task reports that; the first fault counts. */
void weir__task_poison(struct weir_task *task, int fault);

/* How many tasks that were refused after a shutdown keep their memory, and as many series: usually half a megabyte of each, and 8
 * megabytes at most.  Those that are larger than any class of the caches are counted apart. */
#define WEIR__KEPT       4096
#define WEIR__KEPT_LARGE 16

/* Gives up a reference to a series that was dismissed after a shutdown, but not at once: see weir__task_discard. */
void weir__series_unref_later(struct weir_series *series);

/* Give up all that is kept so, for tests that count memory. */
void weir__task_free_kept(void);
void weir__series_unref_kept(void);

#define WEIR__TASK_TITLE 160 /* of a title, with its NUL */

/* Where the library's tables of operations lie, and its texts. */
struct weir__constants {
        struct {
                uintptr_t begin, end; /* mapped memory, which has other things as well */
        } tables, texts;
};

struct weir__constants weir__task_constants(void);

/* Writes 'timer "session/7"', 'parallel' or the like, for a task that may be gone: misuse.c.  Returns whether it has a name. */
bool weir__task_write_title(const struct weir__constants *constants, const struct weir_task *task, char out[WEIR__TASK_TITLE]);

/* The same for one that is there, with any name that messages have for it. */
bool weir__task_write_title_of_live(const struct weir_task *task, char out[WEIR__TASK_TITLE]);

/* Its owner's, before other threads may see it.  A plain store to what is _Atomic would be an exchange. */
static inline void
weir__task_set_poller(struct weir_task *task, unsigned poller)
{
        atomic_store_explicit(&task->poller, (uint8_t)poller, memory_order_relaxed);
}

/* Whether nobody has consumed the task.  A task that is no longer its maker's was consumed: the flag stays, also in memory that
 * was freed. */
static inline bool
weir__task_is_new(const struct weir_task *task)
{
        return !(__atomic_load_n(&task->flags, __ATOMIC_RELAXED) & ~WEIR__TASK_POISONED) &&
               (atomic_load_explicit(&task->word, memory_order_relaxed) & WEIR__STATE) == WEIR__NEW;
}

/* If a block of that size, which may be anything, begins with a task that nobody has consumed: its operations.  Else NULL. */
const struct weir__work_ops *weir__task_unstarted(const struct weir__constants *constants, const void *block, size_t size);

/* What a shutdown counts: task_run.c. */
struct weir__census;

/* Counts a task that nobody has consumed, and that somebody keeps alive. */
void weir__census_count(struct weir__census *census, const struct weir_task *task);

/* How many tasks and series were made and not consumed, for dumps.  Also those that their maker is about to start.  It looks at
 * each block of memory: a million take 10 ms.  Any thread, no lock held. */
size_t weir__census_total(void);

/* Has `find` count the tasks that do not lie at the beginning of a block of the caches.  Once for each module, at load. */
void weir__census_add_finder(void (*find)(struct weir__census *census));

/* Marks it as consumed, without sealing it. */
void weir__task_mark_consumed(struct weir_task *task, enum weir__act act);

static inline void
weir__task_call_on_free(struct weir_task *task)
{
        if (task->on_free)
                weir__user_call_as(&weir__callee_on_free, &task->work, task->on_free, task->context);
}

static inline void
weir__task_release(struct weir_task *task, bool discarded)
{
        if (weir__task_ops(task)->release)
                weir__task_ops(task)->release(task, discarded);
}

/* Frees a consumed task that never started: no callback. */
void weir__task_discard(struct weir_task *task);

/* Frees the memory of a task. */
void weir__task_free(struct weir_task *task);

/* On a worker: READY -> RUNNING, and the status that the callback sees; then the callback. */
void weir__task_call(struct weir_task *task);

/* The callback alone, of a task that is RUNNING. */
void weir__task_call_back(struct weir_task *task);

/* The task whose callback runs on this thread; NULL: none. */
static inline struct weir_task *
weir__task_of_callback(void)
{
        struct weir__worker *worker = weir__worker_self();

        return worker ? (struct weir_task *)worker->task : NULL;
}

/* The last step of a task that ran, when its memory is freed or no thread will touch it any more: its series goes on.
 * NULL: the root has ended. */
void weir__task_go_on(struct weir_series *series);

/* The `function` of all kinds: the callback. */
weir__function *weir__task_function(const struct weir__work *work);

/* The `name` of all kinds. */
const char *weir__task_name(const struct weir__work *work, int *size);

/* The `run` of most kinds: weir__task_call, then weir__task_finish. */
void weir__task_complete(struct weir__work *work);

/* What comes behind the callback: the series leaves the task, the task is released and freed, its series goes on. */
void weir__task_finish(struct weir_task *task);

/* Delivers a task that is READY to the poller of the worker that this is, if it is one; else to the task's. */
void weir__task_deliver(struct weir_task *task);

/* Delivers to the task's poller.  Accepts NULL. */
void weir__task_deliver_home(struct weir_task *task);

/* Sets READY and delivers, as weir__task_deliver.  For kinds whose tasks no other thread can end. */
void weir__task_make_ready(struct weir_task *task);

/* The series made for a lone task that runs: NULL when out of memory. */
struct weir_series *weir__task_make_series(struct weir_task *task);

/* The same as the `prepare` of kinds that run other series.  So such a task is always in a series. */
int weir__task_prepare_series(struct weir_task *task);

#endif
