/* factory/sync/cursor.c: where dumps stand in lists of waits.
 *
 * Threads: any.
 * Locks:   cursors.lock, a leaf; under the owner's lock where a wait is taken out. */
#include "factory/sync/cursor.h"

#include "kernel/base/lock.h"
#include "kernel/base/phase.h"

_Atomic unsigned weir__cursors;

static struct {
        struct weir__lock lock;
        struct weir__list list; /* guarded by lock */
} cursors = {.lock = WEIR__LOCK_INITIALIZER(WEIR__RANK_LEAF)};

/* The threads whose dumps these were are not in the child. */
static void
become_child(void)
{
        weir__lock_init(&cursors.lock, WEIR__RANK_LEAF);
        cursors.list = (struct weir__list){0};
        atomic_store(&weir__cursors, 0);
}

WEIR__STEPS_OF(WEIR__MODULE_CURSORS, [WEIR__STEP_IN_CHILD] = become_child);

void
weir__cursor_begin(struct weir__cursor *cursor, const void *owner, void *at)
{
        cursor->owner = owner;
        cursor->is_begun = true;
        weir__cursor_move(cursor, at);
        atomic_fetch_add_explicit(&weir__cursors, 1, memory_order_relaxed);
        weir__lock(&cursors.lock);
        weir__list_append(&cursors.list, &cursor->link);
        weir__unlock(&cursors.lock);
}

void
weir__cursor_end(struct weir__cursor *cursor)
{
        if (!cursor->is_begun)
                return;
        weir__lock(&cursors.lock);
        weir__link_remove(&cursor->link);
        weir__unlock(&cursors.lock);
        atomic_fetch_sub_explicit(&weir__cursors, 1, memory_order_relaxed);
        cursor->is_begun = false;
}

bool
weir__cursor_is_good(const struct weir__cursor *cursor)
{
        weir__lock(&cursors.lock);
        bool is_good = cursor->owner;
        weir__unlock(&cursors.lock);
        return is_good;
}

static struct weir__cursor *
next_of(const struct weir__cursor *cursor)
{
        struct weir__link *link = cursor ? weir__list_next(&cursors.list, &cursor->link) : weir__list_first(&cursors.list);

        return link ? weir__container_of(link, struct weir__cursor, link) : NULL;
}

void
weir__cursors_pass_slowly(const void *at, void *next)
{
        weir__lock(&cursors.lock);
        for (struct weir__cursor *cursor = NULL; (cursor = next_of(cursor));)
                if (weir__cursor_at(cursor) == at)
                        weir__cursor_move(cursor, next);
        weir__unlock(&cursors.lock);
}

void
weir__cursors_forget_slowly(const void *owner)
{
        weir__lock(&cursors.lock);
        for (struct weir__cursor *cursor = NULL; (cursor = next_of(cursor));)
                if (cursor->owner == owner)
                        cursor->owner = NULL;
        weir__unlock(&cursors.lock);
}
