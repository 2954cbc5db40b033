/* factory/sync/guard.h: guards, and what a series holds. */
#ifndef WEIR_FACTORY_GUARD_H
#define WEIR_FACTORY_GUARD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weir/guard.h>

#include "factory/sync/waitable.h"
#include "factory/task/series_extra.h"

#define WEIR__HOLDER_NAME 44 /* bytes of a name in a copy */

struct weir_guard {
        struct weir__waitable object; /* first */

        /* Guarded by the object's lock. */
        struct weir__list waits;
        struct weir__hold *holder;       /* alone; NULL: nobody */
        struct weir__list sharers; /* their holds, the oldest first; none while there is a holder */
        uint32_t sequence;         /* of the last wait or grant: it counts them, modulo 2^32 */
        bool is_noted;             /* a search for deadlocks will begin here */
        struct weir__link noted;   /* while it is; guarded by a lock of deadlock_log.c */

        _Atomic bool was_shared; /* set under the lock once and for all */
};

struct weir__hold {
        struct weir__series_hold of_series; /* first */

        struct weir_guard *guard; /* constant; with a reference */
        bool is_shared;           /* constant */
        bool is_reported;         /* in a circle that was found before; guarded by the lock of the guard */

        /* Guarded by the lock of the guard. */
        uint32_t sequence; /* of the wait, then of the grant */
        struct weir_series *series; /* that has it; NULL: the callback has not begun, or the guard is being passed on */
        weir_nsec since;
        struct weir__link link;                /* of a shared one that was granted */
        char name[WEIR__HOLDER_NAME + sizeof "..."]; /* of that series then, or its beginning and dots; "": none */
};

/* What the one series holds belongs to the other one from now on; out of memory, it stays.  By the thread that makes the steps of
 * both, no lock held. */
void weir__guard_hand_over(struct weir_series *from, struct weir_series *to);

/* "holds guard "db" for 4.2 s" or the like, for the first of those that it holds; nothing for none.  Under the series' lock. */
void weir__guard_describe_held(const struct weir_series *series, char *out, size_t room);

/* Calls `found` for each circle of series that wait for each other's guards, with a sentence that says it.  No lock is held.  Any
 * thread. */
void weir__deadlock_find(void (*found)(const char *sentence, void *context), void *context);

/* The same for circles with that guard which were not found by this function before.  The caller has a reference.  Returns how
 * many series it has looked at: 2000 at most. */
unsigned weir__deadlock_find_new(weir_guard *guard, void (*found)(const char *sentence, void *context), void *context);

/* A task begins to wait for the guard.  If that closes a circle, it will be logged.  Under the guard's lock. */
void weir__deadlock_note(weir_guard *guard);

#endif
