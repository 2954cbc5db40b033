/* factory/task/series_extra.h: what few series have: a name, a deadline, guards that they hold.
 *
 * A series has room for a pointer to that only; it is made when first needed, and freed with the series. */
#ifndef WEIR_FACTORY_SERIES_EXTRA_H
#define WEIR_FACTORY_SERIES_EXTRA_H

#include "factory/names/names.h"
#include "factory/task/series.h"

/* In the map of names: factory/task/series_names.c. */
struct weir__series_name {
        struct weir_series *series; /* constant */
        struct weir__name name;     /* last */
};

/* Embedded in what a series holds until it gives that up, or ends. */
struct weir__series_hold {
        struct weir__series_hold *next; /* of the same series: guarded by its lock */

        /* The series has ended, and has left it: on a worker, no lock held.  The series is there until this returns. */
        void (*give_up)(struct weir__series_hold *hold);
};

struct weir__series_extra {
        struct weir_series *series; /* constant */

        /* The instant of its own deadline; WEIR_FOREVER: it has none.  Written under the series' lock; read by those within it
         * without (relaxed). */
        _Atomic weir_nsec deadline;

        /* Guarded by the series' lock. */
        struct weir__series_name *own_name;      /* NULL: none.  Once it is past it belongs to the thread of the last step */
        struct weir__series_hold *holds;         /* the last one first */
        bool is_name_past; /* the series has ended, and nobody finds the name: it is kept for messages about the series */
        bool is_armed;                           /* the alarm is in its poller's queue, or its work on its way */
        void (*end)(struct weir_series *series); /* the series has ended while that was on its way, which calls this; or NULL */
        struct weir__alarm alarm;

        struct weir__trace_flow trace; /* its callbacks' */
};

static inline struct weir__series_extra *
weir__series_extra_of(const struct weir_series *series)
{
        return atomic_load_explicit(&series->extra, memory_order_acquire);
}

/* The name that the series bears; NULL: none, or it has ended.  Under its lock, or in its callbacks. */
static inline const struct weir__name *
weir__series_extra_name(const struct weir__series_extra *extra)
{
        return extra && !extra->is_name_past && extra->own_name ? &extra->own_name->name : NULL;
}

/* The same, made if there is none; NULL when out of memory.  No lock held. */
struct weir__series_extra *weir__series_extra_get(struct weir_series *series);

/* With the series.  Frees a name that was kept, too. */
void weir__series_extra_free(struct weir__series_extra *extra);

/* The series has ended, and gives up all that it holds.  On a worker, no lock held. */
void weir__series_give_up_holds(struct weir_series *series);

/* A series that has a name ends, and leaves it.  Under its lock.  Messages about its end callback may still need the name, or
 * about a series that was refused after a shutdown: then it is kept until it is forgotten, when the callback has returned, or
 * freed. */
void weir__series_name_end(struct weir__series_extra *extra, bool is_needed);
void weir__series_name_forget(struct weir__series_extra *extra);

/* Writes the name of a series that may be gone: it is looked for among all names, and the series is not touched.  Nothing: it has
 * none.  Slow. */
void weir__series_find_name(const struct weir_series *series, char *out, size_t room);

/* The series begins to run.  If its deadline is over it has a cause from now on.  Returns whether its poller must be
 * woken after unlocking.  Under the lock of the series. */
bool weir__series_deadline_begin(struct weir_series *series);

/* The series has ended, or is dismissed: its deadline does not come any more.  Returns false when the work of the
 * deadline is on its way.  Then that work calls `end`, and no other thread may.  Under the lock of the series. */
bool weir__series_deadline_leave(struct weir__series_extra *extra, void (*end)(struct weir_series *series));

#endif
