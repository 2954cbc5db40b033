/* io/file/task.c: the states of file tasks.
 *
 * Threads: started and cancelled on any thread.  The work runs on the owner of the task's poller: to hand a fresh task over, as
 *          the message of a cancel, and to call back.
 * Locks:   none; the states are in the task's word. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/file/queue.h"
#include "io/file/ring.h"
#include "kernel/base/phase.h"
#include "kernel/loop/pollers.h"
#include "kernel/memory/memory.h"
#include "kernel/worker/deliver.h"

/* -- the owner of the poller -- */

/* Result: 0, or the status that it ends with at once. */
static int
hand_over(struct weir__file_task *task, struct weir__poller *poller)
{
        uint32_t ready = WEIR__READY;
        int obstacle = weir__file_obstacle(task);
        struct weir__batch *ring = obstacle ? NULL : weir__ring_of(poller);

        if (obstacle)
                return obstacle;
        if (!ring)
                return weir__file_queue_start(task, WEIR__READY);
        task->uses_ring = true;
        task->stage = WEIR__FILE_IN_RING;
        if (!atomic_compare_exchange_strong_explicit(&task->task.word, &ready, WEIR__PENDING, memory_order_acq_rel,
                                                     memory_order_acquire))
                return weir__file_obstacle(task);
        weir__ring_add(ring, task);
        return 0;
}

static void
run(struct weir__work *work)
{
        struct weir__file_task *task = (struct weir__file_task *)work;
        struct weir__poller *poller = weir__poller_at(task->task.poller);

        if (task->stage == WEIR__FILE_FRESH) {
                int status = hand_over(task, poller);

                if (status)
                        weir__file_end(task, status);
        } else if (task->stage == WEIR__FILE_IN_RING) {
                task->is_notified = true;
                if (poller->batch) /* not after exit() inside a callback */
                        weir__ring_cancel(poller->batch, task);
        } else {
                if (task->has_entered)
                        weir__file_leave(task->file);
                weir__task_complete(work);
        }
}

static weir__function *
function(const struct weir__work *work)
{
        bool calls_back = ((const struct weir__file_task *)work)->stage == WEIR__FILE_ENDED;

        return calls_back ? weir__task_function(work) : (weir__function *)hand_over;
}

/* -- any thread -- */

/* On the worker that owns the poller, without a detour.  Returns false when it does not, or has no ring yet. */
static bool
start_in_ring(struct weir__file_task *task)
{
        struct weir__worker *worker = weir__worker_self();
        uint32_t new = WEIR__NEW;

        if (!worker || !worker->poller)
                return false;
        weir__task_set_poller(&task->task, worker->poller->index);
        bool owns = weir__pin() || weir__pin_in_doubt(), is_added = false;
        if (owns && worker->poller->batch) {
                task->uses_ring = true;
                task->stage = WEIR__FILE_IN_RING;
                is_added = atomic_compare_exchange_strong_explicit(&task->task.word, &new, WEIR__PENDING, memory_order_acq_rel,
                                                                   memory_order_acquire);
                if (is_added)
                        weir__ring_add(worker->poller->batch, task);
                else
                        task->stage = WEIR__FILE_FRESH;
        }
        if (owns)
                weir__unpin();
        return is_added;
}

static int
enter(struct weir__file_task *task)
{
        if (!task->file || task->kind == WEIR__FILE_OPEN || task->kind == WEIR__FILE_CLOSE)
                return 0;
        int failed = weir__file_enter(task->file);
        task->has_entered = !failed;
        return failed;
}

static void
start(struct weir_task *task)
{
        struct weir__file_task *file_task = (struct weir__file_task *)task;
        bool may_ring = file_task->kind <= WEIR__FILE_OPEN && weir__ring_is_permitted();
        int status = enter(file_task);

        if (status) {
                weir__file_end(file_task, status);
        } else if (!may_ring) {
                status = weir__file_queue_start(file_task, WEIR__NEW);
                if (status)
                        weir__file_end(file_task, status);
        } else if (!start_in_ring(file_task)) {
                uint8_t poller = task->poller; /* the task may be gone as soon as it is READY */

                atomic_fetch_add_explicit(&task->word, WEIR__READY, memory_order_release); /* a cancel may have left its flag */
                weir__deliver(weir__poller_at(poller), &task->work);
        }
}

static struct weir_task *
end_early(struct weir_task *task)
{
        struct weir__file_task *file_task = (struct weir__file_task *)task;
        uint32_t before = atomic_fetch_or_explicit(&task->word, WEIR__CANCELLED, memory_order_acq_rel);

        if (before != WEIR__PENDING)
                return NULL;
        if (file_task->uses_ring)
                return task; /* a message to the owner of its poller */
        if (!weir__file_queue_take_back(file_task))
                return NULL;
        file_task->stage = WEIR__FILE_ENDED;
        task->status = weir__series_effective_cause(task->series);
        atomic_store_explicit(&task->word, WEIR__READY, memory_order_release);
        return task;
}

static void
release(struct weir_task *task, bool is_discarded)
{
        struct weir__file_task *file_task = (struct weir__file_task *)task;

        (void)is_discarded;
        if (file_task->lends || file_task->copies)
                free(file_task->data);
        free(file_task->parts);
        free(file_task->path);
        free(file_task->other);
        if (file_task->kind == WEIR__FILE_STAT)
                free(file_task->stat);
        else if (file_task->kind == WEIR__FILE_LIST)
                weir__file_free_list(file_task->list);
        weir_file_unref(file_task->file);
}

/* -- for people -- */

#define PATH_SHOWN 64 /* bytes of a path that are shown, the last ones */

/* "/var/x", or "descriptor 7". */
static void
write_path(const struct weir__file_task *task, char *out, size_t room)
{
        const char *path = task->path ? task->path : task->file && *task->file->path ? task->file->path : NULL;
        size_t size = path ? strlen(path) : 0;
        bool is_cut = size > PATH_SHOWN;

        if (path)
                snprintf(out, room, "%s%s", is_cut ? "..." : "", path + (is_cut ? size - PATH_SHOWN : 0));
        else
                snprintf(out, room, "descriptor %d", task->file ? task->file->descriptor : -1);
}

/* Only what is constant: the thread that has the task may be changing the rest. */
static void
describe(const struct weir_task *task, char *out, size_t room)
{
        const struct weir__file_task *file_task = (const struct weir__file_task *)task;
        char path[PATH_SHOWN + 16];

        write_path(file_task, path, sizeof path);
        if (file_task->kind == WEIR__FILE_READ || file_task->kind == WEIR__FILE_WRITE)
                snprintf(out, room, "%zu bytes at %" PRId64 " of %s", file_task->size, file_task->offset, path);
        else if (file_task->kind == WEIR__FILE_APPEND)
                snprintf(out, room, "%zu bytes to %s", file_task->size, path);
        else
                snprintf(out, room, "%s", path);
}

#define OPS(name)                                                                                                 \
        {                                                                                                         \
                .work = {.run = run, .kind = name, .function = function}, .start = start, .end_early = end_early, \
                .release = release, .describe = describe, .has_quiet_release = true                               \
        }

static const struct weir__task_ops file_ops[] = {
        [WEIR__FILE_READ] = OPS("a read of a file"),           [WEIR__FILE_WRITE] = OPS("a write to a file"),
        [WEIR__FILE_APPEND] = OPS("an append to a file"),      [WEIR__FILE_SYNC] = OPS("a sync of a file"),
        [WEIR__FILE_OPEN] = OPS("an open of a file"),          [WEIR__FILE_CLOSE] = OPS("a close of a file"),
        [WEIR__FILE_TRUNCATE] = OPS("a truncation of a file"), [WEIR__FILE_STAT] = OPS("a look at a file"),
        [WEIR__FILE_LIST] = OPS("a list of a directory"),      [WEIR__FILE_RENAME] = OPS("a rename of a file"),
        [WEIR__FILE_UNLINK] = OPS("a removal of a file"),      [WEIR__FILE_MKDIR] = OPS("a making of a directory"),
        [WEIR__FILE_RMDIR] = OPS("a removal of a directory"),
};

struct weir__file_task *
weir__file_task_of(const weir_task *task)
{
        uintptr_t at = task ? (uintptr_t)task->work.ops : 0, first = (uintptr_t)file_ops;

        return at >= first && at < first + sizeof file_ops ? (struct weir__file_task *)(uintptr_t)task : NULL;
}

/* -- making -- */

struct weir__file_task *
weir__file_task_new(enum weir__file_kind kind, struct weir_file *file, weir_task_fn *done, void *context)
{
        struct weir__file_task *task = weir__alloc(sizeof *task);

        if (!task)
                return NULL;
        *task = (struct weir__file_task){.kind = (uint8_t)kind, .file = weir_file_ref(file)};
        weir__task_init(&task->task, &file_ops[kind], sizeof *task, done, context);
        return task;
}

struct weir__file_task *
weir__file_task_of_file(enum weir__file_kind kind, struct weir_file *file, weir_task_fn *done, void *context)
{
        struct weir__file_task *task = weir__file_task_new(kind, file, done, context);

        if (task && !file)
                weir__task_poison(&task->task, -EBADF);
        return task;
}
