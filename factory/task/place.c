/* factory/task/place.c: where those who look on stand.
 *
 * Threads: any.
 * Locks:   places.lock, a leaf; under that of the owner, where something is taken out. */
#include "factory/task/place.h"

#include "kernel/base/lock.h"
#include "kernel/base/phase.h"

_Atomic unsigned weir__places;

static struct {
        struct weir__lock lock;
        struct weir__place *first; /* guarded by lock */
} places = {.lock = WEIR__LOCK_INITIALIZER(WEIR__RANK_LEAF)};

/* Who looked on, in another thread, is not there. */
static void
become_child(void)
{
        weir__lock_init(&places.lock, WEIR__RANK_LEAF);
        places.first = NULL;
        atomic_store(&weir__places, 0);
}

WEIR__STEPS_OF(WEIR__MODULE_CURSORS, [WEIR__STEP_IN_CHILD] = become_child);

void
weir__place_begin(struct weir__place *place, const void *owner, void *at)
{
        *place = (struct weir__place){.owner = owner, .is_begun = true};
        weir__place_go_to(place, at);
        atomic_fetch_add_explicit(&weir__places, 1, memory_order_relaxed);
        weir__lock(&places.lock);
        place->next = places.first;
        if (place->next)
                place->next->previous = place;
        places.first = place;
        weir__unlock(&places.lock);
}

bool
weir__place_is_good(struct weir__place *place)
{
        weir__lock(&places.lock);
        bool good = place->owner;
        weir__unlock(&places.lock);
        return good;
}

void
weir__place_end(struct weir__place *place)
{
        if (!place->is_begun)
                return;
        weir__lock(&places.lock);
        if (place->next)
                place->next->previous = place->previous;
        *(place->previous ? &place->previous->next : &places.first) = place->next;
        weir__unlock(&places.lock);
        atomic_fetch_sub_explicit(&weir__places, 1, memory_order_relaxed);
        place->is_begun = false;
}

void
weir__places_pass_slowly(const void *at, void *next)
{
        weir__lock(&places.lock);
        for (struct weir__place *place = places.first; place; place = place->next)
                if (weir__place_at(place) == at)
                        weir__place_go_to(place, next);
        weir__unlock(&places.lock);
}

void
weir__places_forget_slowly(const void *owner)
{
        weir__lock(&places.lock);
        for (struct weir__place *place = places.first; place; place = place->next)
                if (place->owner == owner)
                        place->owner = NULL;
        weir__unlock(&places.lock);
}
