/* factory/task/place.h: where somebody who looks on stands, in a list that others change and end meanwhile.
 *
 * A combinator, a graph or an object has no room for that, and mostly nobody looks: all places of the process are in one list, and
 * who takes something out looks at their number first. */
#ifndef WEIR_FACTORY_PLACE_H
#define WEIR_FACTORY_PLACE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

struct weir__place {
        struct weir__place *previous, *next; /* guarded by the lock of all places */
        const void *owner; /* of the list; NULL: not begun, or that has ended, or its list was taken whole.  The same */

        _Atomic(void *) at; /* what comes next; written under the owner's lock, relaxed */

        /* Of who looks on. */
        bool is_begun;
        size_t number;     /* the same as a number; or how far it goes */
        const char *label; /* of what was met last, as long as the owner is there; NULL: none */
};

extern _Atomic unsigned weir__places; /* how many there are; relaxed: who has to see one has had the owner's lock since */

/* Under the owner's lock. */
void weir__place_begin(struct weir__place *place, const void *owner, void *at);

static inline void *
weir__place_at(const struct weir__place *place)
{
        return atomic_load_explicit(&place->at, memory_order_relaxed);
}

static inline void
weir__place_go_to(struct weir__place *place, void *at)
{
        atomic_store_explicit(&place->at, at, memory_order_relaxed);
}

/* Whether its owner is there still: where that must not end. */
bool weir__place_is_good(struct weir__place *place);
void weir__place_end(struct weir__place *place); /* also one that was not begun; no lock of its owner is needed */

void weir__places_pass_slowly(const void *at, void *next);
void weir__places_forget_slowly(const void *owner);

/* By who takes `at` out of a list, in which `next` follows.  Under the owner's lock. */
static inline void
weir__places_pass(const void *at, void *next)
{
        if (__builtin_expect(atomic_load_explicit(&weir__places, memory_order_relaxed), 0))
                weir__places_pass_slowly(at, next);
}

/* By who ends the owner, or takes its whole list. */
static inline void
weir__places_forget(const void *owner)
{
        if (__builtin_expect(atomic_load_explicit(&weir__places, memory_order_relaxed), 0))
                weir__places_forget_slowly(owner);
}

#endif
