/* factory/task/series_describe.c: what a series waits for, for people.
 *
 * Threads: any that owns, borrows or has a reference.
 * Locks:   series->lock: while it is held a series that has a parent has not ended, so neither has that. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "factory/task/place.h"
#include "factory/task/series.h"
#include "kernel/base/phase.h"

#define DEPTH 4 /* series in series that are told of */
#define IN_IT ", in it "

/* Appends to `out` what one series is at, and returns what that runs: the first of its series that has not ended, with a reference. */
static struct weir_series *
describe_one(struct weir_series *series, char *out, size_t room)
{
        struct weir__place place = {0};
        struct weir_series *child = NULL;

        *out = '\0';
        weir__lock(&series->lock);
        struct weir_task *current = series->current;
        if (current) {
                const struct weir__task_ops *ops = weir__task_ops(current);
                bool is_new = (atomic_load_explicit(&current->word, memory_order_acquire) & WEIR__STATE) == WEIR__NEW;
                char more[128] = "";
                int size = 0;
                const char *name = ops->name ? ops->name(current, &size) : NULL;

                if (ops->describe && !is_new) /* its starter may still write to it */
                        ops->describe(current, more, sizeof more);
                if (ops->child && !is_new)
                        (void)ops->child(current, &place, &child);
                snprintf(out, room, "%s%s%.*s%s%s%s%s", ops->work.kind ? ops->work.kind : "a task", name ? " \"" : "", size,
                         name ? name : "", name ? "\"" : "", *more ? " (" : "", more, *more ? ")" : "");
        }
        weir__unlock(&series->lock);
        weir__place_end(&place);
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

/* Who makes the steps takes tasks off the list of those that were taken without the lock, but not as long as the current one, which can
 * be cancelled, is started and has not been left; that needs the lock.  Its callback may append to it. */
unsigned
weir__series_behind(const struct weir_series *series, unsigned most)
{
        const struct weir_task *current = series->current;
        const struct weir__work *work = series->queue.first;
        unsigned count = 0;

        for (; work && count < most; count++)
                work = work->next;
        if (!current || (atomic_load_explicit(&current->word, memory_order_acquire) & WEIR__STATE) == WEIR__NEW)
                return count;
        work = __atomic_load_n(&series->taken.first, __ATOMIC_ACQUIRE);
        for (; work && count < most; count++)
                work = __atomic_load_n(&work->next, __ATOMIC_ACQUIRE);
        return count;
}
