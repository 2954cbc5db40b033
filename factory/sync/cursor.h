/* factory/sync/cursor.h: where a dump stands in a list of waits, which others change meanwhile.
 *
 * An object has no room for cursors, and mostly there is none.  So all cursors of the process are in one list.  A thread that takes
 * a wait out of its list looks at their number first. */
#ifndef WEIR_FACTORY_CURSOR_H
#define WEIR_FACTORY_CURSOR_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "kernel/base/list.h"

struct weir__cursor {
        struct weir__link link; /* guarded by the lock of all cursors */
        const void *owner;      /* of the list; NULL: it has ended, or its list was taken whole.  The same lock */

        _Atomic(void *) at; /* the next wait; written under the owner's lock, relaxed */

        /* The dump's own. */
        bool is_begun;
        size_t left; /* waits that it may still look at */
};

/* How many cursors there are.  Relaxed: a thread that must see one has had the owner's lock since. */
extern _Atomic unsigned weir__cursors;

/* Under the owner's lock. */
void weir__cursor_begin(struct weir__cursor *cursor, const void *owner, void *at);

/* Also for a cursor of zeros; no lock of its owner is needed. */
void weir__cursor_end(struct weir__cursor *cursor);

/* Whether its owner is there still: where that must not end. */
bool weir__cursor_is_good(const struct weir__cursor *cursor);

static inline void *
weir__cursor_at(const struct weir__cursor *cursor)
{
        return atomic_load_explicit(&cursor->at, memory_order_relaxed);
}

static inline void
weir__cursor_move(struct weir__cursor *cursor, void *at)
{
        atomic_store_explicit(&cursor->at, at, memory_order_relaxed);
}

void weir__cursors_pass_slowly(const void *at, void *next);
void weir__cursors_forget_slowly(const void *owner);

/* `at` is taken out of a list, in which `next` follows.  Under the owner's lock. */
static inline void
weir__cursors_pass(const void *at, void *next)
{
        if (__builtin_expect(atomic_load_explicit(&weir__cursors, memory_order_relaxed), 0))
                weir__cursors_pass_slowly(at, next);
}

/* The owner ends, or its whole list is taken. */
static inline void
weir__cursors_forget(const void *owner)
{
        if (__builtin_expect(atomic_load_explicit(&weir__cursors, memory_order_relaxed), 0))
                weir__cursors_forget_slowly(owner);
}

#endif
