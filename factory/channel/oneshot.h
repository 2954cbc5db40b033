/* factory/channel/oneshot.h: events that come once, for all tasks that wait and for all that come later: a counter reaches its
 * target, a condition is signalled, a mailbox with a name gets its message.
 *
 *     the amount of the object is left to be counted --counted--> 0: the event has come
 *
 * An object with a name belongs to a single task, which is made with it.  The event may come before the task is started.  Any
 * number of objects may share a name.  A count by name is spread over them, and the oldest gets its own first. */
#ifndef WEIR_FACTORY_ONESHOT_H
#define WEIR_FACTORY_ONESHOT_H

#include "factory/sync/waitable.h"

struct weir__oneshot {
        struct weir__waitable object; /* first */

        /* Guarded by the object's lock. */
        struct weir__list waits;
        void *message;                /* that it has brought */
        struct weir__wait_task *sole; /* the task of one with a name; NULL: it is gone */
};

/* Grants an event that came before the start, also to a task that was cancelled before its start. */
int weir__oneshot_try(struct weir__wait *wait, struct weir__work_list *claimed);

/* The operations of a kind that adds nothing to the struct. */
#define WEIR__ONESHOT_OPS(its_kind, its_noun, its_describe)                                            \
        {                                                                                              \
                .kind = its_kind, .noun = its_noun, .size = sizeof(struct weir__oneshot), .queues = 1, \
                .should_keep_grant = true, .try = weir__oneshot_try, .describe = its_describe,         \
        }

/* Returns how much was counted, at most the amount that was left.  Any thread; no lock is held. */
uint64_t weir__oneshot_count(struct weir__oneshot *oneshot, uint64_t n);

/* Spreads n over those of that name.  Each that comes brings the message, and leaves its name.  Returns how much was counted. */
uint64_t weir__oneshot_count_named(const struct weir__waitable_ops *ops, const char *name, uint64_t n, void *message);

/* Makes an object with a name and the task that waits for it; NULL when out of memory.  The start of the task reports what else
 * is wrong. */
struct weir__wait_task *weir__oneshot_new_named(const struct weir__task_ops *task_ops, const struct weir__waitable_ops *ops,
                                                const char *name, uint64_t target, weir_task_fn *done, void *context);

/* For the ops of tasks that were made with a name. */
void weir__oneshot_release(struct weir_task *task, bool discarded);

#endif
