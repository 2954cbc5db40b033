/* factory/channel/oneshot.h: what comes once, for all who wait for it and all who come later: a counter's target, a condition's signal,
 * the message of a mailbox with a name.
 *
 *     something is `left` --counted--> nothing is: it has come
 *
 * One with a name belongs to a single task, which is made with it; it may come before that is started.  Any number may share a
 * name: what comes by name is spread over them, and the oldest gets its own first. */
#ifndef WEIR_FACTORY_ONESHOT_H
#define WEIR_FACTORY_ONESHOT_H

#include "factory/sync/waitable.h"

struct weir__oneshot {
        struct weir__waitable object; /* first */

        /* Guarded by the object's lock. */
        struct weir__wait_list waits;
        uint64_t left;                /* to be counted until it comes */
        void *message;                /* that it has brought */
        struct weir__wait_task *sole; /* of one with a name; NULL: it is gone */
};

/* Of a kind that adds nothing to the struct. */
#define WEIR__ONESHOT_OPS(its_kind, its_noun)                                                         \
        {                                                                                             \
                .kind = its_kind, .noun = its_noun, .size = sizeof(struct weir__oneshot), .lists = 1, \
        }

/* NULL with errno ENOMEM. */
struct weir__oneshot *weir__oneshot_new(const struct weir__waitable_ops *ops, uint64_t left);

/* Returns how much was counted, at most what was left.  Any thread, no lock held. */
uint64_t weir__oneshot_count(struct weir__oneshot *oneshot, uint64_t n);

/* Spreads n over those of that name.  Each that comes brings the message, and leaves its name.  Returns how much was counted. */
uint64_t weir__oneshot_count_named(const struct weir__waitable_ops *ops, const char *name, uint64_t n, void *message);

/* A task that waits for one, or one with a name and the task that waits for it; NULL when out of memory.  What else is wrong its
 * start reports. */
struct weir__wait_task *weir__oneshot_wait_new(const struct weir__task_ops *task_ops, struct weir__oneshot *oneshot,
                                               weir_task_fn *done, void *context);
struct weir__wait_task *weir__oneshot_new_named(const struct weir__task_ops *task_ops, const struct weir__waitable_ops *ops,
                                                const char *name, uint64_t left, weir_task_fn *done, void *context);

/* For the ops of tasks: both have this `start`, one with a name this `release`, the other weir__wait_release. */
void weir__oneshot_start(struct weir_task *task);
void weir__oneshot_release(struct weir_task *task, bool discarded);

#endif
