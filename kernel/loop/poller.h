/* kernel/loop/poller.h: a poller, the P of the scheduler: descriptors, deadlines and completions, owned by one worker at a time.
 *
 * docs/design.md ("Threads") describes it.  "Owner only" means the worker that the ownership word names. */
#ifndef WEIR_KERNEL_POLLER_H
#define WEIR_KERNEL_POLLER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/epoll.h>

#include "kernel/loop/follow.h"
#include "kernel/data/handles.h"
#include "kernel/data/histogram.h"
#include "kernel/base/lock.h"
#include "kernel/loop/source.h"
#include "kernel/data/timerq.h"
#include "kernel/loop/watch.h"
#include "kernel/data/work.h"

#define WEIR__POLLERS_MAX   64
#define WEIR__SCRATCH_SIZE  (64 * 1024)
#define WEIR__UNHURRIED     WEIR_MSEC(100) /* what is answered later than this can wait an eightieth of it to be read */
#define WEIR__GRAIN         ((uint32_t)WEIR_MSEC(1))   /* weir__poller_grain */
#define WEIR__FINE_GRAIN    ((uint32_t)WEIR_USEC(25))
#define WEIR__BATCH 61 /* works that are run until descriptors and deadlines are looked at again */
#define WEIR__DEADLINE_KINDS 2 /* weir__timerq_node.kind */
#define WEIR__EVENTS 256 /* taken from epoll at once */
#define WEIR__SUSPECT WEIR_MSEC(100) /* after a callback that blocked: how long none must have, before the poller is trusted again */

enum weir__deadline_kind {
        WEIR__DEADLINE_TIMER = 0,  /* a task of the factory */
        WEIR__DEADLINE_SOURCE = 1, /* the time limit of a source: struct weir__limit */
};

struct weir__worker;

/* The time limit of a source, or of a thread that waits, in its poller's queue; when it comes, or at shutdown, `work` runs there.
 * It belongs to who sets it; once the work is on its way, to that. */
struct weir__limit {
        struct weir__timerq_node node;
        struct weir__work work;
};

struct weir__poller {
        /* Constant for ever. */
        unsigned index;
        int event_fd;

        /* Constant while the runtime runs. */
        int epoll_fd, timer_fd;
        int quiet_fd; /* an epoll of the eventfd and the timerfd only, for naps; -1: there was none yet */

        /* Completions pushed by others.  A stack with three kinds of head: NULL, SLEEPING (the owner is about to sleep or does:
         * who replaces it writes the eventfd), or the newest work.  Push: compare-and-swap, release.  Take: exchange, acquire. */
        _Alignas(64) _Atomic(struct weir__work *) inbox;

        /* Who runs this poller: the address of its worker, and whether the watchdog claims it (kernel/sched/worker.h). */
        _Atomic uintptr_t owner;

        /* The wish, of the watchdog or its own, that the owner gives some of its ready work to others.  Relaxed. */
        _Atomic bool share_wanted;

        /* A callback has blocked here not long ago, and until when at least that counts: the owner's, and the watchdog's.
         * Relaxed. */
        _Atomic bool is_suspect;
        _Atomic weir_nsec suspect_until;

        struct weir__watch watch;

        /* When this poller next wants to expire deadlines.  Written under the lock; read by its owner without (relaxed): a value
         * that another thread is just lowering comes with a wake-up. */
        _Atomic weir_nsec next_deadline;

        /* Whether others have given a crowd.  Written under the lock; read by the owner without (relaxed), who looks again
         * before it sleeps. */
        _Atomic bool crowd_is_given;

        /* Guarded by lock. */
        _Alignas(64) struct weir__lock lock;
        bool closing; /* shutdown has drained the queue: nothing is added any more */
        struct weir__work_list crowd_given; /* by other threads */
        struct weir__timerq queue;
        size_t limits; /* nodes in it that are no timers */
        struct weir__followers followers;
        struct weir__handles handles; /* ids of what belongs to this poller; kept for ever, also when the runtime ends */

        /* Owner only. */
        _Alignas(64) struct weir__work_list ready;
        struct weir__work_list crowd; /* what was delivered in great numbers: has its turn after each batch of ready work */
        struct weir__work_list doubtful; /* what was ready when the poller was taken over: has its turn after all else */
        weir_nsec behind_since; /* when the last batch ended, if it left ready work behind; else 0 */
        weir_nsec share_after;  /* when it is worth looking again for work to give away */
        unsigned neighbour;     /* whose overdue deadlines are looked for next */
        struct weir__work_list deferred; /* run after the batch that adds to it */
        struct weir__source_slot *slots;
        uint32_t slot_count, free_slot;
        weir_nsec armed_for;  /* what the timerfd is set to; WEIR_FOREVER: disarmed */
        weir_nsec slept_from; /* when the last sleep began */
        weir_nsec woke_at;    /* when it ended */
        weir_nsec rest;       /* after which the next one may end at the earliest, by a deadline */
        weir_nsec doze;       /* how long the next one is, because others push all the time; 0: it is a real one */
        unsigned unhurried;   /* replies in a row that were not due soon: weir__poller_note_reply */
        unsigned disturbed;   /* sleeps in a row that descriptors ended soon; enough, it naps, and naps that find few use it up */
        unsigned came;        /* events, since the last sleep */
        bool is_napping;      /* the last sleep was a nap, or would have been, had a look found nothing */
        weir_nsec visited_at; /* when the queue was last shown the time */
        int jump_fd;               /* tells of jumps of clocks; -1: nobody has asked yet */
        struct weir__limit visit;  /* of followers; its work is delivered without a time limit, too */
        char *scratch;        /* WEIR__SCRATCH_SIZE bytes, for whoever is on the owner's stack */
        bool exiting;         /* the loop ends */
        bool looks_round;     /* the batch ends with the work that runs: weir__poller_deliver_behind */

        /* While it naps durations on the fine grain count from then, if it is still to come: weir__poller_gather.  Written by the
         * owner, read by any thread at any time; relaxed. */
        _Atomic weir_nsec gathers_until;

        /* How many works are ready or doubtful.  Written by the owner, read by any thread at any time; relaxed. */
        _Atomic int64_t ready_count;

        /* How late the callbacks of timers began.  Added to by the owner, read by any thread at any time. */
        struct weir__histogram lateness;
};

/* Makes a poller, which is never freed: a thread that pushed the last work of all may still be about to write the eventfd when
 * shutdown is over.  NULL with errno set when it cannot be made. */
struct weir__poller *weir__poller_new(unsigned index);

/* Makes it ready for a worker, and undoes that when the worker has gone.
 * Result:  0 or a negative errno; nothing is held then. */
int weir__poller_open(struct weir__poller *poller);
void weir__poller_close(struct weir__poller *poller);

/* How a node whose deadline came, or that shutdown drained, becomes work.  Called under the poller's lock; what it returns is
 * delivered exactly once, by the caller.  NULL: it was delivered already. */
typedef struct weir__work *weir__deadline_fn(struct weir__timerq_node *node, int status);

/* Set once for each kind, before the first runtime starts. */
void weir__poller_on_deadline(enum weir__deadline_kind kind, weir__deadline_fn *fn);

/* Adds a node, `now` being the time; the caller holds the lock and has seen that the poller is not closing.
 * Result:  whether the owner may be asleep for longer than that: call weir__poller_wake after unlocking. */
bool weir__poller_add_deadline(struct weir__poller *poller, struct weir__timerq_node *node, weir_nsec deadline, weir_nsec now);

/* The same in two halves: its place among equal deadlines, and later the node with it. */
void weir__poller_take_turn(struct weir__poller *poller, struct weir__timerq_node *node, weir_nsec now);
bool weir__poller_add_in_turn(struct weir__poller *poller, struct weir__timerq_node *node, weir_nsec deadline);

/* The same for a node that is in the queue and gets another deadline. */
bool weir__poller_reset_deadline(struct weir__poller *poller, struct weir__timerq_node *node, weir_nsec deadline, weir_nsec now);

/* Wakes the owner if it sleeps; several wakes of one sleep cost one write.  Any thread. */
void weir__poller_wake(struct weir__poller *poller);

/* Delivers work to a poller: to its owner without atomics when called by it, else through the inbox.  Never blocks, never
 * allocates, runs nothing.  The work may run, and be gone, before this returns.  Any thread. */
void weir__poller_deliver(struct weir__poller *poller, struct weir__work *work);

/* The same for work that goes on with what had its turn: what has come by then, by a descriptor, a deadline or the inbox, comes
 * first.  Owner only. */
void weir__poller_deliver_behind(struct weir__poller *poller, struct weir__work *work);

/* Delivers many at once, which take turns with what else becomes ready: one operation, whatever their number.  Empties the list.
 * Any thread, with no lock held. */
void weir__poller_deliver_crowd(struct weir__poller *poller, struct weir__work_list *crowd);

/* Whether there is something to be run.  Owner only. */
static inline bool weir__poller_is_busy(const struct weir__poller *poller)
{
        return poller->ready.first || poller->crowd.first || poller->doubtful.first;
}

/* Runs all deferred work.  Owner only. */
void weir__poller_run_deferred(struct weir__poller *poller);

/* Takes what the inbox holds, oldest first, behind the ready list, and the crowds that others gave; returns how many works the
 * inbox held.  Owner only. */
unsigned weir__poller_take_inbox(struct weir__poller *poller);

/* Expires what is due; the work goes behind the ready list.  On a poller that has had descriptors it is WEIR__BATCH at most: so a
 * request that comes meanwhile has its turn behind about a hundred works, not behind all that is due.  Not fewer: of each batch what is
 * always ready would take what they leave.  Owner only. */
void weir__poller_expire(struct weir__poller *poller);

/* The same for as much as one hold of the lock allows: to be given to others. */
void weir__poller_expire_many(struct weir__poller *poller);

/* The same for `other`, whose owner is busy: what may be run on any poller goes behind our ready list, the rest into its inbox.
 * Returns how many are on our list.  Owner of the second only. */
unsigned weir__poller_expire_for(struct weir__poller *other, struct weir__poller *poller, weir_nsec now);

/* Whether its owner sleeps, or is about to.  Any thread. */
bool weir__poller_is_asleep(struct weir__poller *poller);

/* Ends what is pending, at most one batch; returns whether more is left.  From the first call on the poller is closing.  Owner
 * only. */
bool weir__poller_drain(struct weir__poller *poller);

/* So many more, or less, are ready.  Owner only. */
static inline void weir__poller_note_ready(struct weir__poller *poller, int64_t change)
{
        int64_t count = atomic_load_explicit(&poller->ready_count, memory_order_relaxed);

        atomic_store_explicit(&poller->ready_count, count + change, memory_order_relaxed);
}

/* Something that came in by a descriptor was answered that much later; 0: at once, or nobody knows.  While nothing is in a hurry
 * the poller may nap.  Owner only. */
static inline void weir__poller_note_reply(struct weir__poller *poller, weir_nsec after)
{
        poller->unhurried = after < WEIR__UNHURRIED ? 0 : poller->unhurried + 1;
}

/* The grid for deadlines of what has come in by a descriptor; WEIR__FINE_GRAIN while the poller naps.  Owner only. */
static inline uint32_t weir__poller_grain(const struct weir__poller *poller)
{
        return poller->is_napping ? WEIR__FINE_GRAIN : WEIR__GRAIN;
}

/* From when a duration on the fine grain counts that begins now. */
static inline weir_nsec weir__poller_gather(const struct weir__poller *poller, weir_nsec now)
{
        weir_nsec until = atomic_load_explicit(&poller->gathers_until, memory_order_relaxed);

        return until > now ? until : now;
}

/* Waits for events, unless there is ready work or a deadline has come, and hands them to their sources.  Owner only. */
void weir__poller_poll(struct weir__poller *poller);

/* Has epoll tell of a descriptor, edge-triggered, with that data.  Result: 0 or a negative errno.  Owner only. */
int weir__poller_watch(struct weir__poller *poller, int fd, uint32_t events, uint64_t data);

/* Sets a limit whose work is not on its way; also one that is set already.  Returns false, and does nothing, on a closing poller.
 * Owner only; or another thread, for a limit of its own, which then wakes the poller. */
bool weir__limit_set(struct weir__poller *poller, struct weir__limit *limit, weir_nsec deadline);

/* Clears it.  Returns false when it was not set, or has come and its work is on its way.  Who has set it. */
bool weir__limit_clear(struct weir__poller *poller, struct weir__limit *limit);

#endif
