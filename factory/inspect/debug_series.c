/* factory/inspect/debug_series.c: roots, and what is in them.
 *
 *     a shard of the registry -> a root -> its current task -> the series that this runs -> their current tasks ...
 *
 * Threads: any.
 * Locks:   one series' at a time.  Below it come the locks that a task takes to say what it waits for, and to name its next
 *          child.  None is held from one series to the next.
 *
 * References keep what the walk stands on.  Each frame has a reference to the series whose task's children it shows.  It comes
 * back to that task under the lock of the series, if it is still the current one.  If another task has come to lie at the same
 * address meanwhile, the walk goes on in that. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "factory/fiber/fiber.h"
#include "factory/inspect/debug_walk.h"
#include "factory/sync/guard.h"
#include "factory/task/live.h"
#include "factory/task/series_extra.h"

#define DEPTH_MOST 256 /* frames */
#define COUNTED    256 /* tasks behind the current one */

/* A task whose children are being shown. */
struct frame {
        struct weir_series *series; /* whose current task it is, with a reference */
        struct weir_task *task;
        unsigned depth; /* of its children */
        bool has_more;
        struct weir__child_cursor cursor;

        /* Found, and not shown. */
        struct weir_series *child; /* with a reference; or NULL */
        char label[WEIR__DEBUG_NAME];
};

struct descent {
        struct weir__debug_walk *walk;
        struct weir__debug_line head, body;
        unsigned count; /* of frames */
        struct frame frames[DEPTH_MOST];
};

/* -- frames -- */

/* Under the lock of its series. */
static void
find_child(struct frame *frame)
{
        frame->has_more = weir__task_ops(frame->task)->child(frame->task, &frame->cursor, &frame->child);
        frame->label[0] = '\0';
        if (frame->child && frame->cursor.label)
                strncat(frame->label, frame->cursor.label, sizeof frame->label - 1);
}

/* Whether that is what the series runs, or the fiber whose series it is, and runs other series itself.  Under its lock. */
static bool
runs_others(const struct weir_series *series, const struct weir_task *task)
{
        bool is_there = series->current == task || (weir__series_is_fed(series) && series->owner == task);

        return is_there && weir__task_ops(task)->child && atomic_load_explicit(&task->word, memory_order_acquire) != WEIR__NEW;
}

/* Begins a frame for the series that the task runs, from that number on, if it does run any.  Under the lock of its series. */
static void
enter_task(struct descent *descent, struct weir__debug_line *line, struct weir_series *series, struct weir_task *task,
           unsigned depth, unsigned from)
{
        struct frame *frame = &descent->frames[descent->count];

        if (!runs_others(series, task))
                return;
        if (descent->count == DEPTH_MOST) {
                weir__debug_line_add(line, "%swhat it runs is not shown", line->text[0] ? "; " : "");
                return;
        }
        *frame = (struct frame){.series = weir_series_ref(series), .task = task, .depth = depth, .cursor.next = from};
        find_child(frame);
        descent->count++;
}

static void
leave_task(struct descent *descent)
{
        struct frame *frame = &descent->frames[--descent->count];

        weir_series_unref(frame->child);
        weir_series_unref(frame->series);
}

/* The next child of the frame, with its reference; its label is the frame's.  NULL: none now, or no more. */
static struct weir_series *
next_child(struct frame *frame)
{
        if (!frame->child && frame->has_more) {
                weir__lock(&frame->series->lock);
                if (runs_others(frame->series, frame->task))
                        find_child(frame);
                else
                        frame->has_more = false;
                weir__unlock(&frame->series->lock);
        }
        struct weir_series *child = frame->child;
        frame->child = NULL;
        return child;
}

/* -- a series; under its lock -- */

static const char *
state_of(const struct weir_series *series)
{
        if (series->state == WEIR__SERIES_NEW)
                return "not started";
        if (series->state == WEIR__SERIES_ENDED)
                return "ends";
        switch (weir__series_effective_cause(series)) {
        case 0: return series->poison ? "poisoned" : NULL;
        case -ETIMEDOUT: return "timed out";
        case -ESHUTDOWN: return "shut down";
        default: return "cancelled";
        }
}

static void
say_more(struct weir__debug_line *line, const struct weir_series *series)
{
        weir__guard_describe_held(series, line->also, sizeof line->also);
        unsigned count = series->state == WEIR__SERIES_RUNNING ? weir__series_behind(series, COUNTED) : 0;

        if (count > 0)
                snprintf(line->behind, sizeof line->behind, "%u%s task%s", count, count == COUNTED ? " or more" : "",
                         count == 1 ? "" : "s");
}

static void
say_name_and_deadline(struct weir__debug_line *line, const struct weir_series *series)
{
        const struct weir__series_extra *extra = weir__series_extra_of(series);

        if (!extra)
                return;
        weir_nsec deadline = atomic_load_explicit(&extra->deadline, memory_order_relaxed);
        if (deadline != WEIR_FOREVER)
                line->record.deadline = deadline - weir__clock_now();
        const struct weir__name *name = weir__series_extra_name(extra);
        if (name && !line->record.name)
                weir__debug_line_name(line, name->text, name->size);
}

/* One that is around its current task and nothing else is shown as that. */
static bool
is_task(const struct weir_series *series)
{
        const struct weir__series_extra *extra = weir__series_extra_of(series);

        if (!series->current || weir__series_extra_name(extra))
                return false;
        return series->result_of == WEIR__RESULT_FIRST || series->owner == series->current;
}

/* The task as which the series is shown while it runs; NULL: none. */
static struct weir_task *
shown_as(const struct weir_series *series)
{
        const struct weir__series_ops *ops = (const struct weir__series_ops *)series->work.ops;

        return ops->is_shown_as_owner && (series->state == WEIR__SERIES_RUNNING || weir__series_is_fed(series)) ? series->owner
                                                                                                                : NULL;
}

/* Whether the current task of a fiber's series has not ended: a fiber runs inside the callback of the last one. */
static bool
is_awaited(const struct weir_series *series)
{
        return (atomic_load_explicit(&series->current->word, memory_order_acquire) & WEIR__STATE) != WEIR__RUNNING;
}

static void
describe_head(struct descent *descent, const struct weir_series *series, const struct weir_task *as)
{
        struct weir__debug_line *line = &descent->head;
        const struct weir__series_ops *ops = (const struct weir__series_ops *)series->work.ops;
        const char *state = state_of(series);

        if (as)
                weir__debug_line_task(line, as);
        if (weir__series_is_fed(series) && weir__series_extra_name(weir__series_extra_of(series)))
                line->record.name = NULL; /* the series has one of its own */
        if (ops->describe && series->state == WEIR__SERIES_RUNNING)
                ops->describe(series, line->text, sizeof line->text);
        if (state)
                line->record.state = state;
        else if (!as || as != series->current)
                line->record.state = "running";
        bool has_age = series->state != WEIR__SERIES_NEW && (series->started || !weir__series_is_fed(series));
        line->record.age = has_age ? weir__live_age(series->started) : -1; /* a fiber has one from its first wait on */
        say_name_and_deadline(line, series);
}

/* Whether the task is shown by what it runs.  Under the lock of its series. */
static bool
is_shown_as_child(const struct weir_series *series, const struct weir_task *task)
{
        return weir__task_ops(task)->is_shown_as_child && runs_others(series, task);
}

/* What a fiber does, what it awaits within a shield, and the children of its groups. */
static void
describe_fiber(struct descent *descent, struct weir_series *series, unsigned depth)
{
        const struct weir__fiber *fiber = series->owner;
        void *at = atomic_load_explicit(&fiber->at, memory_order_relaxed);

        if (weir__series_extra_name(weir__series_extra_of(series)))
                weir__debug_line_add(&descent->head, "%s, ", fiber->name);
        weir__debug_line_add(&descent->head, at ? "waits at " : "runs");
        if (at)
                weir__debug_line_add_function(&descent->head, (weir__function *)at);
        enter_task(descent, &descent->head, series, series->owner, depth + 1, 1);
}

/* A series that is one task.  Returns whether there is a line for it. */
static bool
describe_task(struct descent *descent, struct weir_series *series, unsigned depth)
{
        bool is_hidden = is_shown_as_child(series, series->current);

        if (!is_hidden) {
                describe_head(descent, series, series->current);
                say_more(&descent->head, series);
        }
        enter_task(descent, &descent->head, series, series->current, depth + !is_hidden, 0);
        return !is_hidden;
}

/* The current task, if it has not ended.  Returns whether there is a line for it. */
static bool
describe_current(struct descent *descent, struct weir_series *series, unsigned depth)
{
        struct weir_task *current = series->current;

        if (!current || (weir__series_is_fed(series) && !is_awaited(series)))
                return false;
        bool is_hidden = is_shown_as_child(series, current);
        weir__debug_line_begin(&descent->body, WEIR__DEBUG_SERIES, depth, NULL);
        if (!is_hidden)
                weir__debug_line_task(&descent->body, current);
        enter_task(descent, &descent->body, series, current, depth + !is_hidden, 0);
        return !is_hidden;
}

/* Which lines there are: for the series, and for its current task.  For that of a shield the fiber has one. */
static void
describe(struct descent *descent, struct weir_series *series, unsigned depth, bool *has_head, bool *has_body)
{
        struct weir_task *owner = shown_as(series), *current = series->current;

        *has_body = false;
        if (current && (current == owner || (!owner && is_task(series)))) {
                *has_head = describe_task(descent, series, depth);
                return;
        }
        *has_head = !weir__series_is_shield(series);
        if (!*has_head) {
                *has_body = describe_current(descent, series, depth);
                return;
        }
        describe_head(descent, series, owner);
        if (weir__series_is_fed(series))
                describe_fiber(descent, series, depth);
        say_more(&descent->head, series);
        *has_body = describe_current(descent, series, depth + 1);
}

/* Consumes the reference. */
static void
show_series(struct descent *descent, struct weir_series *series, unsigned depth, const char *label)
{
        weir__debug_line_begin(&descent->head, WEIR__DEBUG_SERIES, depth, "series");
        if (label[0])
                weir__debug_line_name(&descent->head, label, strlen(label));
        weir__lock(&series->lock);
        bool has_head, has_body;
        describe(descent, series, depth, &has_head, &has_body);
        weir__unlock(&series->lock);
        weir_series_unref(series);
        if (has_head)
                weir__debug_show(descent->walk, &descent->head);
        if (has_body)
                weir__debug_show(descent->walk, &descent->body);
}

/* Shows all that is in the tasks of the frames. */
static void
show_children(struct descent *descent)
{
        while (descent->count > 0) {
                struct frame *frame = &descent->frames[descent->count - 1];
                struct weir_series *child = descent->walk->is_stopped ? NULL : next_child(frame);

                if (child)
                        show_series(descent, child, frame->depth, frame->label);
                else if (descent->walk->is_stopped || !frame->has_more)
                        leave_task(descent);
        }
}

/* -- roots -- */

void
weir__debug_walk_series(struct weir__debug_walk *walk)
{
        struct descent *descent = malloc(sizeof *descent);
        struct weir_series *root;

        if (!descent) {
                walk->failed = -ENOMEM;
                return;
        }
        descent->walk = walk;
        descent->count = 0;
        for (unsigned shard = 0; shard < WEIR__LIVE_SHARDS && !walk->is_stopped; shard++) {
                struct weir__live_walk roots = weir__live_walk_begin(shard);

                if (roots.is_incomplete)
                        walk->failed = -ENOMEM;
                while (!walk->is_stopped && (root = weir__live_walk_next(&roots))) {
                        show_series(descent, root, 0, "");
                        show_children(descent);
                }
        }
        free(descent);
}
