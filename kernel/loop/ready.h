/* kernel/loop/ready.h: what the owner of a poller runs next. */
#ifndef WEIR_KERNEL_READY_H
#define WEIR_KERNEL_READY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <weir/time.h>

#include "kernel/data/work.h"

/* What other threads push joins `items` in rounds.  A round ends when all has run that was in `items` at its beginning.  Then a
 * batch of pushed work items joins, or a quarter of what is ready, whichever is more.  Deadlines join as they come due.  So a due
 * deadline waits for a bounded number of callbacks, however fast other threads push; and pushed work items have their share,
 * however many work items keep the poller busy. */
struct weir__ready {
        /* Owner only. */
        struct weir__work_list items;
        struct weir__work_list pushed; /* was taken from the inbox, and waits for its round */
        unsigned pushed_count;         /* of `pushed` */
        unsigned round_left;           /* work items that have to run before the next round */
        struct weir__work_list bulk;    /* was delivered in great numbers: a batch of it runs after each batch of work items */
        struct weir__work_list demoted; /* may block, as a callback did that lost the poller: runs after all else */
        bool has_requeued; /* the batch ends with the work that runs: weir__deliver_requeued */

        /* Sharing.  Owner only. */
        weir_nsec behind_since; /* when the last batch ended, if it left work behind; else 0 */
        weir_nsec share_after;  /* when it is worth looking again for work to give away */
        unsigned neighbour;     /* how far behind this one is the last whose overdue deadlines were looked for */

        /* The wish, of the watchdog or of the owner, that it gives some of its work items to others.  Relaxed. */
        _Atomic bool is_share_wanted;

        /* How many are in `items`, `pushed` and `demoted`.  Written by the owner, read by any thread at any time; relaxed. */
        _Atomic int64_t count;
};

static inline bool weir__ready_is_busy(const struct weir__ready *ready)
{
        return ready->items.first || ready->pushed.first || ready->bulk.first || ready->demoted.first;
}

/* So many more, or less, are in `items`, `pushed` and `demoted`.  Owner only. */
static inline void weir__ready_note(struct weir__ready *ready, int64_t change)
{
        int64_t count = atomic_load_explicit(&ready->count, memory_order_relaxed);

        atomic_store_explicit(&ready->count, count + change, memory_order_relaxed);
}

/* Whether the next round may begin. */
static inline bool weir__ready_round_is_over(const struct weir__ready *ready)
{
        return !ready->round_left || !ready->items.first;
}

#endif
