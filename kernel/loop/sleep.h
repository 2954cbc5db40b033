/* kernel/loop/sleep.h: when a poller sleeps, for how long, and how it is woken.  sleep.c explains the policy.
 *
 * The loop of the worker calls it at three points:
 *
 *      weir__sleep_begin   nothing is ready: chooses the kind of sleep and arms the timer for its end
 *      weir__sleep_wait    the system call
 *      weir__sleep_end     notes what this sleep says about the next one; weir__sleep_note_pushes adds what the inbox says
 *
 * On the virtual clock kernel/runtime/virtual.c takes the place of the first point: it decides whether the poller sleeps, and
 * calls weir__sleep_arm when it has to look again soon. */
#ifndef WEIR_KERNEL_SLEEP_H
#define WEIR_KERNEL_SLEEP_H

#include <stdbool.h>
#include <sys/epoll.h>

#include <weir/time.h>

struct weir__poller;

#define WEIR__EVENTS 256 /* taken from epoll at once */

enum weir__sleep_kind {
        WEIR__SLEEP_NONE = 0,   /* a look at the descriptors */
        WEIR__SLEEP_MARKED,     /* until a descriptor, a deadline, or another thread wakes the owner */
        WEIR__SLEEP_TIMED,      /* short, without the mark in the inbox: other threads need not wake the owner */
        WEIR__SLEEP_COALESCING, /* marked, and descriptors do not end it */
};

/* Owner only. */
struct weir__sleep_state {
        int timer_fd;        /* constant while the runtime runs */
        int quiet_fd;        /* an epoll of the eventfd and the timerfd only, for coalescing sleeps */
        bool is_quiet_ready; /* both are registered there */
        weir_nsec armed_for; /* what the timerfd is set to; WEIR_FOREVER: disarmed */
        weir_nsec began_at;  /* the last sleep */
        weir_nsec woke_at;
        weir_nsec since_wake; /* from the wake-up before to the last one */
        weir_nsec timed;      /* length of the next timed sleep; 0: the next one is marked */
        weir_nsec window;     /* weir__sleep_coalesce */
        weir_nsec no_coalescing_until; /* weir__sleep_forbid_coalescing */
        bool has_burst;       /* descriptors have ended the last marked sleep soon after the wake-up before */
        bool may_coalesce;    /* the next sleep may be a coalescing one */
};

/* Result: 0 or a negative errno; weir__sleep_close undoes what was done. */
int weir__sleep_open(struct weir__poller *poller);
void weir__sleep_close(struct weir__poller *poller);

/* From now on events of descriptors may be noticed up to `window` late, so that many are noticed at once; 0: none may. */
void weir__sleep_coalesce(struct weir__poller *poller, weir_nsec window);

/* No event may be noticed late for that long, whatever weir__sleep_coalesce says meanwhile. */
void weir__sleep_forbid_coalescing(struct weir__poller *poller, weir_nsec duration);

/* Whether the next sleep is a timed one.  The caller neither marks the inbox nor computes the next deadline then. */
static inline bool weir__sleep_is_timed(const struct weir__sleep_state *sleep)
{
        return sleep->timed > 0;
}

/* Decides how to sleep until `next`, the first deadline, at most, and arms the timer.  The inbox is marked, unless the sleep is a
 * timed one.  Returns WEIR__SLEEP_NONE if the deadline has come. */
enum weir__sleep_kind weir__sleep_begin(struct weir__poller *poller, weir_nsec now, weir_nsec next);

/* Arms the timer of the poller for an instant of CLOCK_MONOTONIC: for sleep.c itself, and for kernel/runtime/virtual.c. */
void weir__sleep_arm(struct weir__poller *poller, weir_nsec deadline);

/* Sleeps, or looks at the descriptors.  Returns how many events there are. */
int weir__sleep_wait(struct weir__poller *poller, enum weir__sleep_kind kind, struct epoll_event events[WEIR__EVENTS]);

/* The sleep is over, with so many events. */
void weir__sleep_end(struct weir__poller *poller, enum weir__sleep_kind kind, int events, weir_nsec now);

/* After that: other threads had pushed so many work items during the sleep. */
void weir__sleep_note_pushes(struct weir__poller *poller, enum weir__sleep_kind kind, unsigned count);

#endif
