/* factory/sync/deadlock.c: circles of series that wait for each other's guards.
 *
 *     a guard -> a series that holds it -> the task that this runs -> the guard that the task waits for -> ...
 *
 * Threads: any.
 * Locks:   one series' at a time, and under it a guard's.  None is held from one step to the next.
 *
 * The steps of a search see the circle at different times, so a second round looks at each step again.  A wait and a grant have
 * sequence numbers that no other one of that guard has.  So a step that is seen twice with the same numbers was there all the
 * time between, and the whole circle was there when the second round began.
 *
 * A holder waits for a guard if its current task does, or if that task waits for the series that it runs, and one of these does.
 * A race is no such task, nor is one that stops at a failure: another of its series may end it.  A fiber waits for what it
 * awaits, also within a shield, and for the children of the group that it closes now. */
#include "factory/sync/guard.h"

#include <stdio.h>
#include <string.h>

#include "kernel/data/visible.h"

#define CIRCLE_MOST       16   /* guards */
#define SHARERS           8    /* of a guard that are followed */
#define CHILDREN          64   /* of a task that are followed, batches of them */
#define LOOKED_AT         2000 /* series, from one guard */
#define NESTED_MOST       64   /* calls in each other: series within series, and guards */
#define FOUND_MOST        8    /* circles from one holder */
#define SERIES_NAME_SHOWN 64   /* bytes */
#define TITLE_ROOM        WEIR__TASK_TITLE

struct holder {
        struct weir_series *series; /* with a reference */
        uint32_t sequence;          /* of the grant */
};

/* A series that waits for a guard, and who has that. */
struct step {
        struct weir_series *waiting; /* with a reference */
        weir_guard *guard;           /* with a reference */
        uint32_t sequence;           /* of the wait */
        struct holder holder;
};

struct search {
        struct weir_series *start; /* the first holder */
        bool is_for_new;           /* only circles that were not found so before */
        void (*found)(const char *sentence, void *context);
        void *context;
        unsigned left;        /* series that may be looked at */
        unsigned found_count; /* circles from this start */
        unsigned depth;
        unsigned count; /* of the steps that are known */
        struct step steps[CIRCLE_MOST];
};

/* -- what is seen -- */

/* The guard that the current task of a series waits for, with a reference.  NULL: it waits for none.  Under the series' lock. */
static weir_guard *
guard_waited_for(const struct weir_series *series, uint32_t *sequence)
{
        const struct weir_task *task = series->current;

        if (!task || !weir__task_ops(task)->is_guard_wait ||
            atomic_load_explicit(&task->word, memory_order_acquire) != WEIR__PENDING)
                return NULL;
        const struct weir__wait *wait = &((const struct weir__wait_task *)task)->wait;
        weir_guard *guard = (weir_guard *)wait->object;
        weir__lock(&guard->object.lock);
        bool waits = atomic_load_explicit(&task->word, memory_order_relaxed) == WEIR__PENDING; /* so its hold is there */
        if (waits)
                *sequence = ((const struct weir__hold *)wait->message)->sequence;
        weir__unlock(&guard->object.lock);
        return waits ? weir_guard_ref(guard) : NULL;
}

/* The first hold of a guard for NULL, else the one behind that; NULL: there is none.  Under the guard's lock. */
static struct weir__hold *
next_hold(const weir_guard *guard, struct weir__hold *hold)
{
        if (hold && !hold->is_shared)
                return NULL;
        const struct weir__link *link = hold ? weir__list_next(&guard->sharers, &hold->link) : weir__list_first(&guard->sharers);
        return link ? weir__container_of(link, struct weir__hold, link) : hold ? NULL : guard->holder;
}

/* Those that are followed, each with a reference. */
static unsigned
holders_of(weir_guard *guard, struct holder holders[SHARERS])
{
        unsigned count = 0;

        weir__lock(&guard->object.lock);
        for (struct weir__hold *hold = next_hold(guard, NULL); hold && count < SHARERS; hold = next_hold(guard, hold))
                if (hold->series)
                        holders[count++] = (struct holder){weir__series_ref(hold->series), hold->sequence};
        weir__unlock(&guard->object.lock);
        return count;
}

/* NULL: it is no longer there.  Under the guard's lock. */
static struct weir__hold *
hold_of(const weir_guard *guard, const struct holder *holder)
{
        unsigned seen = 0;

        for (struct weir__hold *hold = next_hold(guard, NULL); hold && seen < SHARERS; hold = next_hold(guard, hold)) {
                if (hold->series == holder->series && hold->sequence == holder->sequence)
                        return hold;
                seen += hold->series != NULL;
        }
        return NULL;
}

static bool
is_held_still(weir_guard *guard, const struct holder *holder)
{
        weir__lock(&guard->object.lock);
        bool is_found = hold_of(guard, holder);
        weir__unlock(&guard->object.lock);
        return is_found;
}

/* Whether the series is that one, or within it, and still waits so.  Its parents cannot end under its lock. */
static bool
waits_still(const struct step *step, const struct weir_series *holder)
{
        const struct weir_series *around = step->waiting;
        uint32_t sequence = 0;

        weir__lock(&step->waiting->lock);
        weir_guard *guard = guard_waited_for(step->waiting, &sequence);
        while (around && around != holder)
                around = around->parent;
        weir__unlock(&step->waiting->lock);
        weir_guard_unref(guard);
        return guard == step->guard && sequence == step->sequence && around;
}

static bool
is_there_still(const struct search *search)
{
        const struct weir_series *holder = search->start;

        for (unsigned i = 0; i < search->count; holder = search->steps[i++].holder.series)
                if (!waits_still(&search->steps[i], holder) || !is_held_still(search->steps[i].guard, &search->steps[i].holder))
                        return false;
        return true;
}

/* -- the search -- */

static void
forget(struct step *step)
{
        weir_series_unref(step->waiting);
        weir_guard_unref(step->guard);
        weir_series_unref(step->holder.series);
}

static bool
is_known(const struct search *search, const struct weir_series *holder)
{
        for (unsigned i = 0; i < search->count; i++)
                if (search->steps[i].holder.series == holder)
                        return true;
        return false;
}

static void follow(struct search *search, struct weir_series *series);
static void close_circle(struct search *search);

/* Each circle has several holders.  It is found from the one at the lowest address; a new one from each. */
static bool
is_followed(const struct search *search, const struct weir_series *holder)
{
        return !is_known(search, holder) && (search->is_for_new || holder > search->start);
}

/* The series waits for that guard.  Consumes the reference of the guard. */
static void
follow_guard(struct search *search, struct weir_series *series, weir_guard *guard, uint32_t sequence)
{
        struct holder holders[SHARERS];
        unsigned count = search->count < CIRCLE_MOST ? holders_of(guard, holders) : 0;

        for (unsigned i = 0; i < count; i++) {
                bool is_closed = holders[i].series == search->start;

                if (!is_closed && !is_followed(search, holders[i].series)) {
                        weir_series_unref(holders[i].series);
                        continue;
                }
                search->steps[search->count++] = (struct step){weir_series_ref(series), weir_guard_ref(guard), sequence,
                                                               holders[i]};
                if (is_closed)
                        close_circle(search);
                else
                        follow(search, holders[i].series);
                forget(&search->steps[--search->count]);
        }
        weir_guard_unref(guard);
}

/* The fiber whose series this is; NULL: it is no fiber's.  Under the lock. */
static const struct weir_task *
fiber_of(const struct weir_series *series)
{
        return weir__series_is_fed(series) && !weir__series_is_shield(series) ? series->owner : NULL;
}

/* The next child of the task, with a reference, if the series still runs it; NULL: none was found this time.  A race, and what
 * stops at a failure, has a series of its own around its children: another child may end it, so they close no circle.  A group
 * of a fiber has one, too; there the fiber says which children it waits for. */
static struct weir_series *
next_child(struct weir_series *series, const struct weir_task *task, struct weir__child_cursor *cursor, bool *has_more)
{
        struct weir_series *child = NULL;

        weir__lock(&series->lock);
        bool is_of_fiber = fiber_of(series) == task;
        *has_more = (is_of_fiber || series->current == task) && weir__task_ops(task)->child &&
                    (atomic_load_explicit(&task->word, memory_order_acquire) & WEIR__STATE) != WEIR__NEW &&
                    weir__task_ops(task)->child((struct weir_task *)task, cursor, &child);
        weir__unlock(&series->lock);
        if (!child)
                return NULL;
        weir__lock(&child->lock);
        bool is_followed = is_of_fiber || child->parent == series;
        weir__unlock(&child->lock);
        if (is_followed)
                return child;
        weir_series_unref(child);
        return NULL;
}

/* Follows the children of a task of the series, from that number on.  NULL: there is no task. */
static void
follow_children(struct search *search, struct weir_series *series, const struct weir_task *task, unsigned from)
{
        struct weir__child_cursor cursor = {.next = from, .is_awaited = true};
        bool more = task != NULL;

        for (unsigned i = 0; i < CHILDREN && more; i++) {
                struct weir_series *child = next_child(series, task, &cursor, &more);

                if (child)
                        follow(search, child);
                weir_series_unref(child);
        }
}

/* Follows what a series with a reference waits for. */
static void
follow(struct search *search, struct weir_series *series)
{
        uint32_t sequence = 0;

        if (search->left == 0 || search->depth == NESTED_MOST || search->found_count == FOUND_MOST)
                return;
        search->left--;
        search->depth++;
        weir__lock(&series->lock);
        weir_guard *guard = guard_waited_for(series, &sequence);
        const struct weir_task *task = series->current, *fiber = fiber_of(series);
        weir__unlock(&series->lock);
        if (guard) {
                follow_guard(search, series, guard, sequence);
        } else {
                follow_children(search, series, task, 0);
                follow_children(search, series, fiber, 1);
        }
        search->depth--;
}

/* -- the sentence -- */

static void
write_title(struct weir_series *series, char out[TITLE_ROOM])
{
        weir__lock(&series->lock);
        const struct weir__series_extra *extra = weir__series_extra_of(series);
        const struct weir__name *name = weir__series_extra_name(extra);
        if (name)
                snprintf(out, TITLE_ROOM, "series \"%.*s\"", (int)weir__utf8_cut(name->text, name->size, SERIES_NAME_SHOWN),
                         name->text);
        else if (weir__series_is_fed(series))
                weir__task_write_title_of_live(series->owner, out);
        else
                snprintf(out, TITLE_ROOM, "series %p", (void *)series);
        weir__unlock(&series->lock);
}

/* Whether the holder itself waits there; a fiber does so within its shield, too. */
static bool
waits_itself(const struct step *step, const struct weir_series *holder)
{
        return step->waiting == holder || (weir__series_is_shield(step->waiting) && step->waiting->owner == holder->owner);
}

static void
write_sentence(const struct search *search, char *out, size_t room)
{
        char holder[TITLE_ROOM], guard[WEIR__TITLE_SIZE];
        const struct weir_series *before = search->start;
        size_t used = 0;

        write_title(search->start, holder);
        used += (size_t)snprintf(out, room, "deadlock: %s", holder);
        for (unsigned i = 0; i < search->count && used < room; i++) {
                const struct step *step = &search->steps[i];

                weir__waitable_title(&step->guard->object, guard, sizeof guard);
                used += (size_t)snprintf(out + used, room - used, "%s %s %s", i ? ", which" : "",
                                         waits_itself(step, before) ? "waits for" : "has a task that waits for", guard);
                before = step->holder.series;
                if (i + 1 == search->count || used >= room)
                        break;
                write_title(step->holder.series, holder);
                used += (size_t)snprintf(out + used, room - used, ", held by %s", holder);
        }
}

/* -- all circles -- */

/* Marks its holds.  A circle whose holds are all marked was found before. */
static bool
is_new(const struct search *search)
{
        bool has_unmarked = false;

        for (unsigned i = 0; i < search->count; i++) {
                weir_guard *guard = search->steps[i].guard;

                weir__lock(&guard->object.lock);
                struct weir__hold *hold = hold_of(guard, &search->steps[i].holder);
                has_unmarked |= hold && !hold->is_reported;
                if (hold)
                        hold->is_reported = true;
                weir__unlock(&guard->object.lock);
        }
        return has_unmarked;
}

/* The steps lead back to the start. */
static void
close_circle(struct search *search)
{
        char sentence[1024];

        if (search->found_count == FOUND_MOST || !is_there_still(search) || (search->is_for_new && !is_new(search)))
                return;
        search->found_count++;
        write_sentence(search, sentence, sizeof sentence);
        search->found(sentence, search->context);
}

/* Searches from each holder of the guard.  LOOKED_AT limits all of these searches together. */
static void
search_at(struct search *search, struct weir__waitable *object)
{
        struct holder holders[SHARERS];

        weir__lock(&object->lock);
        bool is_waited_for = object->ops->kind == WEIR__GUARD && object->linked > 0;
        weir__unlock(&object->lock);
        unsigned count = is_waited_for ? holders_of((weir_guard *)object, holders) : 0;
        search->left = LOOKED_AT;
        for (unsigned i = 0; i < count; i++) {
                search->start = holders[i].series;
                search->depth = search->count = search->found_count = 0;
                follow(search, holders[i].series);
                weir_series_unref(holders[i].series);
        }
}

void
weir__deadlock_find(void (*found)(const char *sentence, void *context), void *context)
{
        struct search search = {.is_for_new = false, .found = found, .context = context};
        struct weir__waitable *object = NULL;

        while (!weir__phase_is_forked() && (object = weir__waitable_next(object)))
                search_at(&search, object);
}

unsigned
weir__deadlock_find_new(weir_guard *guard, void (*found)(const char *sentence, void *context), void *context)
{
        struct search search = {.is_for_new = true, .found = found, .context = context};

        search_at(&search, &guard->object);
        return LOOKED_AT - search.left;
}
