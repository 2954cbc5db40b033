/* kernel/loop/poller.h: a poller, the P of the scheduler: descriptors, deadlines and completions, owned by one worker at a time.
 *
 * docs/design.md ("Threads") describes it.  "Owner only" means the worker that the ownership word names. */
#ifndef WEIR_KERNEL_POLLER_H
#define WEIR_KERNEL_POLLER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "kernel/base/lock.h"
#include "kernel/data/handles.h"
#include "kernel/data/histogram.h"
#include "kernel/loop/deadlines.h"
#include "kernel/loop/clock_timer.h"
#include "kernel/loop/inbox.h"
#include "kernel/loop/ready.h"
#include "kernel/loop/sleep.h"
#include "kernel/loop/source.h"

#define WEIR__POLLERS_MAX  64
#define WEIR__SCRATCH_SIZE (64 * 1024)
#define WEIR__BATCH        61 /* work items that are run until descriptors and deadlines are looked at again */

/* For so long after a callback that blocked the poller is degraded. */
#define WEIR__DEGRADED_PERIOD WEIR_MSEC(100)

/* The timer by which a poller is watched (kernel/sched/watchdog.c). */
struct weir__watch {
        int timer_fd; /* wakes the watchdog; -1: there is none.  Constant while workers run */

        /* What the timer was set to last; 0: it is not set, or by a former owner.  Written by the owner, read by the watchdog;
         * relaxed: nothing comes with it. */
        _Atomic weir_nsec until;

        /* A callback has blocked here not long ago, and until when at least that counts.  Written by the owner and by the
         * watchdog; relaxed. */
        _Atomic bool is_degraded;
        _Atomic weir_nsec degraded_until;

        /* Owner only. */
        weir_nsec since;       /* when the timer was set; 0: by a former owner */
        unsigned callback_seq; /* of the owner at that time */
        weir_nsec slept;       /* how long the poller has slept since then */
        bool is_idle;          /* the last sleep was long: the timer is disarmed before the next one */
};

/* Requests to the system that are collected while work runs (io/file/ring.c).  They are handed over together, before the owner
 * looks at the descriptors or sleeps.  Owner only. */
struct weir__batch {
        bool (*flush)(struct weir__batch *batch); /* hands them over, and makes ready what has completed, if any has */
        unsigned outstanding;                     /* requests that the system works on: the virtual clock stands meanwhile */
        unsigned unseen;                          /* work items that have become ready since the last look at the descriptors */
};

struct weir__poller {
        unsigned index; /* constant for ever */
        int epoll_fd;   /* constant while the runtime runs */

        struct weir__inbox inbox; /* any thread */

        /* Which worker runs this poller, and whether the watchdog retakes it (kernel/worker/worker.h). */
        _Atomic uintptr_t owner;

        struct weir__watch watch;

        /* Guarded by lock. */
        _Alignas(64) struct weir__lock lock;
        struct weir__work_list bulk_given; /* by other threads, to be moved to ready.bulk */
        struct weir__deadlines deadlines;
        struct weir__clock_timers clock_timers;
        struct weir__handles handles; /* ids of what belongs to this poller; kept for ever, also when the runtime ends */

        /* Whether bulk_given has something.  Written under the lock; the owner reads it without, relaxed, and again after it has
         * had the lock before it sleeps. */
        _Atomic bool has_bulk_given;

        /* Owner only. */
        _Alignas(64) struct weir__ready ready;
        struct weir__sleep_state sleep;
        struct weir__source_slot *slots;
        uint32_t slot_count, slot_room, free_slot; /* slots that were ever used, and the length of the table */
        uint32_t *numbers; /* of descriptors: 1 + the slot of the source that was registered last for it; 0: none was */
        uint32_t number_count;
        int clock_change_fd;             /* reports clock changes; -1: there was no clock timer yet */
        struct weir__alarm clock_update; /* of clock_timers; its work is also delivered without the alarm */
        struct weir__batch *batch;       /* NULL: there is none yet */
        char *scratch;                   /* WEIR__SCRATCH_SIZE bytes, for the function that the owner runs */
        bool is_exiting;                 /* the loop ends */

        /* How late the callbacks of timers began.  Added to by the owner, read by any thread at any time. */
        struct weir__histogram lateness;
};

/* Makes a poller.  It is never freed: the thread that pushed the last work may write the eventfd after the shutdown.  NULL: it
 * cannot be made, and errno says why. */
struct weir__poller *weir__poller_new(unsigned index);

/* Makes it ready for a worker, and undoes that when the worker has gone.
 * Result:  0 or a negative errno; nothing is held then. */
int weir__poller_open(struct weir__poller *poller);
void weir__poller_close(struct weir__poller *poller);

/* Wakes the owner if it sleeps; several wakes of one sleep cost one write.  Any thread. */
static inline void weir__poller_wake(struct weir__poller *poller)
{
        weir__inbox_wake(&poller->inbox);
}

/* Whether its owner sleeps, or is about to.  Any thread. */
static inline bool weir__poller_is_asleep(const struct weir__poller *poller)
{
        return weir__inbox_is_asleep(&poller->inbox);
}

/* Gives work items to be run in bulk (struct weir__ready), and wakes the owner.  Empties the list.  Any thread, with no lock
 * held. */
void weir__poller_give_bulk(struct weir__poller *poller, struct weir__work_list *bulk);

/* Moves the work items of the inbox to `ready.pushed`, and the bulk that others gave to `ready.bulk`.  Returns how many work
 * items the inbox held.  Owner only. */
unsigned weir__poller_take_inbox(struct weir__poller *poller);

/* Makes due deadlines ready, a batch of them, and begins the next round (struct weir__ready) if this one is over.  Called at
 * the end of a round, and after each batch of work items of a long one.  A request that comes meanwhile waits for about two
 * batches.  A poller that has had no descriptor takes up to WEIR__TIMERQ_BATCH deadlines at the beginning of a round.  Owner
 * only. */
void weir__poller_admit(struct weir__poller *poller, weir_nsec now);

/* Makes due deadlines ready, at most `most`.  Owner only. */
void weir__poller_expire(struct weir__poller *poller, weir_nsec now, unsigned most);

/* Makes ready the work items of what is pending, at most one batch; returns whether there may be more.  From the first call on
 * the poller is closing.  Owner only. */
bool weir__poller_drain(struct weir__poller *poller);

#endif
