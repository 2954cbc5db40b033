/* factory/inspect/debug_walk.c: all that is live, section by section.
 *
 * Threads: any.
 * Locks:   those of the objects that are shown, for some hundred nodes at most; none while a record is shown. */
#include "factory/inspect/debug_walk.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "factory/channel/promise.h"
#include "factory/flow/go.h"
#include "factory/sync/waitable.h"
#include "kernel/worker/worker_pool.h"
#include "kernel/data/duration.h"
#include "kernel/executor/executor.h"
#include "kernel/base/phase.h"

#define WAITS_AT_ONCE 64

/* -- callbacks that run -- */

static void
begin_callback(struct weir__debug_line *line, const char *kind, const char *prefix, unsigned number, weir_nsec age)
{
        char name[16];

        weir__debug_line_begin(line, WEIR__DEBUG_CALLBACKS, 0, kind);
        snprintf(name, sizeof name, "%s%u", prefix, number);
        weir__debug_line_name(line, name, strlen(name));
        line->record.state = "running";
        line->record.age = age;
}

static void
show_worker(struct weir__debug_walk *walk, const struct weir__worker_snapshot *worker)
{
        const struct weir__callee *callee = worker->callee;
        struct weir__debug_line line;

        begin_callback(&line, "worker", "", worker->number, worker->since);
        weir__debug_line_add(&line, "%s %s, ", callee ? callee->what : "a callback of",
                             callee && callee->kind ? callee->kind
                             : worker->kind         ? worker->kind
                                                    : "a task");
        weir__debug_line_add_function(&line, worker->function);
        if (worker->poller >= 0) {
                weir__debug_line_add(&line, ", on poller %d", worker->poller);
        } else {
                line.record.state = "blocked";
                weir__debug_line_add(&line, ", whose poller another worker has");
        }
        weir__debug_show(walk, &line);
}

static void
show_thread(struct weir__debug_walk *walk, const struct weir__worker_snapshot *thread)
{
        struct weir__debug_line line;

        begin_callback(&line, "thread", "go", thread->number, thread->since);
        if (thread->callee && thread->callee->kind) {
                weir__debug_line_add(&line, "%s %s", thread->callee->what, thread->callee->kind);
        } else {
                weir__debug_line_add(&line, "a function, ");
                weir__debug_line_add_function(&line, thread->function);
        }
        weir__debug_show(walk, &line);
}

static void
walk_callbacks(struct weir__debug_walk *walk)
{
        struct weir__worker_snapshot *snapshots = malloc(WEIR__THREAD_SLOTS * sizeof *snapshots);

        if (!snapshots) {
                walk->failed = -ENOMEM;
                return;
        }
        unsigned count = weir__worker_pool_snapshots(snapshots, WEIR__THREAD_SLOTS);
        for (unsigned i = 0; i < count; i++)
                if (snapshots[i].is_in_user)
                        show_worker(walk, &snapshots[i]);
        count = weir__executor_snapshots(snapshots, WEIR__THREAD_SLOTS);
        for (unsigned i = 0; i < count; i++)
                show_thread(walk, &snapshots[i]);
        free(snapshots);
}

/* -- objects, with tasks that are in no series -- */

/* Writes the kinds of the next lone tasks of the queue, at most WAITS_AT_ONCE.  *left counts the waits that are still to be
 * looked at.  Under the object's lock. */
static unsigned
find_lone_waits(const struct weir__list *queue, struct weir__wait_cursor *cursor, size_t *left,
                const struct weir__task_ops *kinds[WAITS_AT_ONCE])
{
        unsigned found = 0;

        for (unsigned i = 0; i < WAITS_AT_ONCE && cursor->at && *left > 0; i++, --*left) {
                const struct weir_task *task = &weir__container_of(cursor->at, struct weir__wait, link)->task->task;

                if (atomic_load_explicit(&task->word, memory_order_relaxed) == WEIR__PENDING && !task->series)
                        kinds[found++] = weir__task_ops(task);
                cursor->at = weir__list_next(queue, cursor->at);
        }
        if (!cursor->at)
                *left = 0;
        return found;
}

/* Waits that are linked meanwhile are left out, so that this comes to an end. */
static void
show_lone_waits(struct weir__debug_walk *walk, struct weir__waitable *object, const struct weir__list *queue)
{
        const struct weir__task_ops *kinds[WAITS_AT_ONCE];
        struct weir__wait_cursor cursor;
        struct weir__debug_line line;

        weir__lock(&object->lock);
        size_t left = object->linked;
        weir__waitable_add_cursor(object, queue, &cursor);
        while (left > 0 && !walk->is_stopped) {
                unsigned found = find_lone_waits(queue, &cursor, &left, kinds);

                weir__unlock(&object->lock);
                for (unsigned i = 0; i < found; i++) {
                        weir__debug_line_begin(&line, WEIR__DEBUG_WAITS, 1, weir__kind_without_article(kinds[i]->work.kind));
                        line.record.state = "pending";
                        weir__debug_show(walk, &line);
                }
                weir__lock(&object->lock);
        }
        weir__waitable_remove_cursor(object, &cursor);
        weir__unlock(&object->lock);
}

static void
show_object(struct weir__debug_walk *walk, struct weir__waitable *object)
{
        struct weir__debug_line line;
        char more[WEIR__DEBUG_ALSO];
        size_t waiting = weir__waitable_describe(object, NULL, more, sizeof more);

        if (waiting == 0)
                return;
        weir__debug_line_begin(&line, WEIR__DEBUG_WAITS, 0, object->ops->noun);
        if (object->name)
                weir__debug_line_name(&line, object->name->text, object->name->size);
        else
                weir__debug_line_add(&line, "%p, ", (void *)object); /* so do the tasks that wait there, and deadlocks */
        weir__debug_line_add(&line, "%zu wait%s", waiting, waiting == 1 ? "s" : "");
        memcpy(line.also, more, sizeof more);
        weir__debug_show(walk, &line);
        for (unsigned i = 0; i < object->ops->queues; i++)
                show_lone_waits(walk, object, &weir__waitable_queues(object)[i]);
}

static void
show_promise(struct weir__debug_walk *walk, const struct weir__promise_view *view)
{
        struct weir__debug_line line;

        weir__debug_line_begin(&line, WEIR__DEBUG_WAITS, 0, "promise");
        weir__debug_line_add(&line, "%p, 1 waits", view->promise);
        memcpy(line.also, view->text, sizeof view->text);
        weir__debug_show(walk, &line);
        if (!view->is_lone)
                return;
        weir__debug_line_begin(&line, WEIR__DEBUG_WAITS, 1, "promise");
        line.record.state = "pending";
        weir__debug_show(walk, &line);
}

static void
walk_waits(struct weir__debug_walk *walk)
{
        struct weir__waitable *object = NULL;
        struct weir__promise_walk promises = {0};
        struct weir__promise_view view;

        while (!walk->is_stopped && (object = weir__waitable_next(object)))
                show_object(walk, object);
        weir__waitable_unref(object);
        while (!walk->is_stopped && weir__promise_walk_on(&promises, &view))
                show_promise(walk, &view);
        weir__promise_walk_end(&promises);
}

/* -- functions -- */

static void
show_queue(struct weir__debug_walk *walk, const char *name, size_t size, const struct weir__executor_stats *stats)
{
        struct weir__debug_line line;
        char waiting[WEIR__DURATION_SIZE];

        if (stats->queued == 0 && stats->running == 0)
                return;
        weir__debug_line_begin(&line, WEIR__DEBUG_FUNCTIONS, 0, name ? "queue" : "executor");
        if (name)
                weir__debug_line_name(&line, name, size);
        weir__debug_line_add(&line, "%" PRIu64 " queued", stats->queued);
        if (stats->queued)
                weir__debug_line_add(&line, ", the oldest for %s", weir__duration(waiting, stats->waiting));
        snprintf(line.also, sizeof line.also, "%" PRIu64 " running", stats->running);
        weir__debug_show(walk, &line);
}

static void
walk_functions(struct weir__debug_walk *walk)
{
        struct weir__go_queue_walk *queues = malloc(sizeof *queues);
        struct weir__executor_stats stats;

        weir__executor_stats(NULL, &stats);
        show_queue(walk, NULL, 0, &stats);
        if (!queues) {
                walk->failed = -ENOMEM;
                return;
        }
        queues->shard = 0;
        queues->scan = weir__names_scan_begin(0);
        while (!walk->is_stopped && weir__go_queue_walk_on(queues))
                show_queue(walk, queues->name, queues->size, &queues->stats);
        free(queues);
}

/* -- what lies above -- */

static void (*on_held)(struct weir__debug_walk *walk); /* NULL: there is no server */

void
weir__debug_on_held(void (*walk_held)(struct weir__debug_walk *walk))
{
        on_held = walk_held;
}

static void
walk_held(struct weir__debug_walk *walk)
{
        if (on_held)
                on_held(walk);
}

/* -- all of it -- */

int
weir__debug_walk(weir__debug_record_fn *show, void *context)
{
        static void (*const sections[WEIR__DEBUG_SECTIONS])(struct weir__debug_walk *) = {
                [WEIR__DEBUG_CALLBACKS] = walk_callbacks,       [WEIR__DEBUG_SERIES] = weir__debug_walk_series,
                [WEIR__DEBUG_TIMERS] = weir__debug_walk_timers, [WEIR__DEBUG_WAITS] = walk_waits,
                [WEIR__DEBUG_FUNCTIONS] = walk_functions,       [WEIR__DEBUG_HELD] = walk_held,
        };
        struct weir__debug_walk walk = {.show = show, .context = context};

        if (weir__phase_is_forked())
                return -ECHILD;
        for (unsigned i = 0; i < WEIR__DEBUG_SECTIONS && !walk.is_stopped; i++)
                sections[i](&walk);
        return walk.failed;
}
