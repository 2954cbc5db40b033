/* factory/task/series_describe.c: what a series waits for, for people.
 *
 * Threads: any that owns, borrows or has a reference.
 * Locks:   series->lock: while it is held a series that has a parent has not ended, so neither has that. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "factory/task/series.h"
#include "kernel/base/phase.h"

#define DEPTH   4 /* series in series that are named */
#define BATCHES 8 /* of children that are looked at, under one hold of the locks */
#define IN_IT   ", in it "

/* The first child from that number on that has not ended, with a reference; NULL: none of the first some hundred. */
static struct weir_series *
first_child(struct weir_task *task, unsigned from)
{
        struct weir__child_cursor cursor = {.next = from, .is_awaited = true};
        struct weir_series *child = NULL;
        bool more = true;

        for (unsigned i = 0; i < BATCHES && more && !child; i++)
                more = weir__task_ops(task)->child(task, &cursor, &child);
        return child;
}

/* Whether a fiber awaits the current task of its series.  Else it may wait for others, in a shield or a group. */
static bool
is_awaited(const struct weir_series *series)
{
        const struct weir_task *current = series->current;

        return current && (atomic_load_explicit(&current->word, memory_order_acquire) & WEIR__STATE) != WEIR__RUNNING;
}

/* Writes to `out` the current task of one series.  Returns the first series that this runs and that has not ended, with
 * a reference. */
static struct weir_series *
describe_one(struct weir_series *series, char *out, size_t room)
{
        struct weir_series *child = NULL;

        *out = '\0';
        weir__lock(&series->lock);
        struct weir_task *current = series->current;
        if (weir__series_is_fed(series) && !is_awaited(series)) {
                child = weir__series_is_shield(series) ? NULL : first_child(series->owner, 1);
        } else if (current) {
                const struct weir__task_ops *ops = weir__task_ops(current);
                bool is_new = (atomic_load_explicit(&current->word, memory_order_acquire) & WEIR__STATE) == WEIR__NEW;
                char more[128] = "";
                int size = 0;
                const char *name = ops->name ? ops->name(current, &size) : NULL;

                if (ops->describe && !is_new) /* its starter may still write to it */
                        ops->describe(current, more, sizeof more);
                if (ops->child && !is_new)
                        child = first_child(current, 0);
                snprintf(out, room, "%s%s%.*s%s%s%s%s", ops->work.kind ? ops->work.kind : "a task", name ? " \"" : "", size,
                         name ? name : "", name ? "\"" : "", *more ? " (" : "", more, *more ? ")" : "");
        }
        weir__unlock(&series->lock);
        return child;
}

void
weir__series_describe(struct weir_series *series, char *out, size_t room)
{
        struct weir_series *at = weir__series_ref(series);

        *out = '\0';
        for (unsigned depth = 0; at && depth < DEPTH && room > sizeof IN_IT; depth++) {
                size_t joint = depth ? sizeof IN_IT - 1 : 0;
                struct weir_series *child = describe_one(at, out + joint, room - joint);

                if (out[joint])
                        memcpy(out, IN_IT, joint);
                weir_series_unref(at);
                at = child;
                room -= strlen(out);
                out += strlen(out);
        }
        weir_series_unref(at);
}

/* Adds up to `most`.  What is appended meanwhile may be counted or not. */
static unsigned
count_ring(const struct weir__work *newest, unsigned count, unsigned most)
{
        const struct weir__work *work = newest;

        while (work && count < most) {
                count++;
                work = __atomic_load_n(&work->next, __ATOMIC_ACQUIRE);
                if (work == newest)
                        break;
        }
        return count;
}

/* The thread that makes the steps takes tasks off `taken` without the lock.  It does not as long as the current task is
 * started and was not left: leaving it needs the lock.  Its callback may append to `taken`. */
unsigned
weir__series_behind(const struct weir_series *series, unsigned most)
{
        const struct weir_task *current = series->current;
        unsigned count = count_ring(weir__series_queued(series), 0, most);

        if (current && (atomic_load_explicit(&current->word, memory_order_acquire) & WEIR__STATE) != WEIR__NEW)
                count = count_ring(__atomic_load_n(&series->taken, __ATOMIC_ACQUIRE), count, most);
        return count;
}
