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
        uint32_t turns;            /* waits and grants that there were, modulo 2^32 */

        _Atomic bool was_shared; /* set under the lock once and for all */
};

struct weir__hold {
        struct weir__series_hold of_series; /* first */

        struct weir_guard *guard; /* constant; with a reference */
        bool is_shared;           /* constant */

        /* Guarded by the lock of the guard. */
        uint32_t turn; /* of the wait, then of the grant */
        struct weir_series *series; /* that has it; NULL: the callback has not begun, or the guard is being passed on */
        weir_nsec since;
        struct weir__link link;                /* of a shared one that was granted */
        char name[WEIR__HOLDER_NAME + sizeof "..."]; /* of that series then, or its beginning and dots; "": none */
};

/* "holds guard "db" for 4.2 s" or the like, for the first of those that it holds; nothing for none.  Under the series' lock. */
void weir__guard_describe_held(const struct weir_series *series, char *out, size_t room);

/* Calls `found` for each circle of series that wait for each other's guards, with a sentence that says it.  No lock is held.  Any
 * thread. */
void weir__deadlock_find(void (*found)(const char *sentence, void *context), void *context);

#endif
