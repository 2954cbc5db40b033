/* factory/sync/guard.c: guards, held by one series, or shared by several.
 *
 *     of a guard:   free --a task acquires--> held --released, or its series ends; nobody waits--> free
 *                    |                        ^  |
 *                    |                        '--'  the same, and a task waits: the guard is that one's at once
 *                    '--a task shares--> shared --the last one releases--> free, or held by the task that waits longest
 *                                        ^    |
 *                                        '----'  another task shares, and nobody waits
 *
 * All tasks that wait are in one queue, and none overtakes another.  So those that share do not starve those that do not, nor the
 * other way round.  When the first of the queue shares the guard, those right behind it that share get it, too.
 *
 * Threads: any.
 * Locks:   the series' for what it holds; under it the guard's, for its holder.
 *
 * A hold records which series holds a guard.  It is made together with the task that acquires, so granting needs no memory.  The
 * thread that gives up a guard grants it under the lock of the guard alone, and knows nothing of the next series.  So the worker
 * of the task enters the hold with the series, before the callback.  From then on the hold belongs to the series.  A series
 * leaves its guards in the last step of its end, which is one for all ways to end.  A series that was never started has acquired
 * none.
 *
 * A series holds a guard once, shared or not: a second time would wait for the first one, at once or when another task waits
 * between them.  For a guard that is held, the holder is compared with the series that wants it.  For a shared guard, with
 * perhaps very many holders, that series looks at its own holds instead.
 *
 * The amount of the object is how many series share it.
 *
 * The series of a hold is there under the guard's lock, because it leaves its holds under that lock before it is freed.  So a
 * search for deadlocks may take a reference of it there (deadlock.c).  Nobody may lock a series under a guard's lock.  So the
 * hold has a copy of the series' name, for dumps. */
#include "factory/sync/guard.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "factory/task/series_extra.h"
#include "factory/sync/waitable.h"
#include "kernel/base/clock.h"
#include "kernel/data/duration.h"
#include "kernel/memory/memory.h"
#include "kernel/data/visible.h"

/* -- from holder to holder; under the guard's lock -- */

/* Whether nobody has to end first who has the guard. */
static bool
is_possible(const weir_guard *guard, const struct weir__hold *hold)
{
        return !guard->holder && (hold->is_shared || !weir__list_first(&guard->sharers));
}

static void
grant(weir_guard *guard, struct weir__hold *hold)
{
        if (hold->is_shared) {
                weir__list_append(&guard->sharers, &hold->link);
                guard->object.amount++;
                atomic_store_explicit(&guard->was_shared, true, memory_order_relaxed);
        } else {
                guard->holder = hold;
        }
        hold->since = weir__clock_now();
        hold->sequence = ++guard->sequence;
}

static void
take_back(weir_guard *guard, struct weir__hold *hold)
{
        if (hold->is_shared) {
                weir__link_remove(&hold->link);
                guard->object.amount--;
        } else {
                guard->holder = NULL;
        }
}

/* Gives the guard to the tasks that have waited longest, as far as they can have it.  The message of a wait is its hold.  Returns
 * whether there may be more. */
static bool
serve_some(struct weir__waitable *object, struct weir__work_list *claimed)
{
        weir_guard *guard = (weir_guard *)object;

        for (unsigned i = 0; i < WEIR__WAITS_AT_ONCE; i++) {
                struct weir__wait *wait = weir__wait_oldest(&guard->waits);

                if (!wait || (!is_possible(guard, wait->message) && !weir__wait_is_over(wait->task)))
                        return false;
                wait = weir__wait_claim_oldest(&guard->waits, claimed);
                if (wait)
                        grant(guard, wait->message);
        }
        return true;
}

/* Lets the lock go. */
static void
serve_and_unlock(weir_guard *guard)
{
        weir__wait_serve_and_unlock(&guard->object, serve_some);
}

/* -- holds -- */

static void
hold_free(struct weir__hold *hold)
{
        if (!hold)
                return;
        weir_guard_unref(hold->guard);
        weir__free(hold, sizeof *hold);
}

static void
pass_on(struct weir__hold *hold)
{
        weir__waitable_lock(&hold->guard->object);
        take_back(hold->guard, hold);
        serve_and_unlock(hold->guard);
}

/* The series has ended, or has released the guard, and has left the hold. */
static void
give_up(struct weir__series_hold *of_series)
{
        struct weir__hold *hold = (struct weir__hold *)of_series;

        pass_on(hold);
        hold_free(hold);
}

static struct weir__hold *
hold_new(weir_guard *guard, bool is_shared)
{
        struct weir__hold *hold = weir__alloc(sizeof *hold);

        if (hold)
                *hold = (struct weir__hold){.of_series.give_up = give_up, .guard = weir_guard_ref(guard), .is_shared = is_shared};
        return hold;
}

static void
copy_name(char name[WEIR__HOLDER_NAME + sizeof "..."], const struct weir__name *of)
{
        size_t shown = weir__utf8_cut(of->text, of->size, WEIR__HOLDER_NAME);

        memcpy(name, of->text, shown);
        strcpy(name + shown, shown < of->size ? "..." : "");
}

/* The series has the guard from now on.  Under the locks of both. */
static void
enter(struct weir__hold *hold, struct weir_series *series, struct weir__series_extra *extra)
{
        hold->of_series.next = extra->holds;
        extra->holds = &hold->of_series;
        hold->series = series;
        const struct weir__name *name = weir__series_extra_name(extra);
        if (name)
                copy_name(hold->name, name);
}

/* The acquired guard belongs to the series from now on.  Returns false when there is no memory for that. */
static bool
enter_hold(struct weir__hold *hold, struct weir_series *series)
{
        struct weir__series_extra *extra = series ? weir__series_extra_get(series) : NULL;

        if (!extra)
                return false;
        weir__lock(&series->lock);
        weir__lock(&hold->guard->object.lock);
        enter(hold, series, extra);
        weir__unlock(&hold->guard->object.lock);
        weir__unlock(&series->lock);
        return true;
}

void
weir__guard_hand_over(struct weir_series *from, struct weir_series *to)
{
        struct weir__series_extra *old = weir__series_extra_of(from), *extra = old ? weir__series_extra_get(to) : NULL;

        if (!extra)
                return;
        weir__lock(&from->lock);
        struct weir__series_hold *next, *left = old->holds;
        old->holds = NULL;
        weir__unlock(&from->lock);
        for (; left; left = next) {
                struct weir__hold *hold = (struct weir__hold *)left;

                next = left->next;
                weir__lock(&to->lock);
                weir__lock(&hold->guard->object.lock);
                enter(hold, to, extra);
                weir__unlock(&hold->guard->object.lock);
                weir__unlock(&to->lock);
        }
}

/* Whether the hold is one of that guard; NULL: of one with that name, if there is a name. */
static bool
is_wanted(const struct weir__hold *hold, const weir_guard *guard, const char *name)
{
        const struct weir__name *its_name = hold->guard->object.name;

        return guard ? hold->guard == guard : its_name && name && strcmp(its_name->text, name) == 0;
}

/* The newest hold of that guard; NULL: of one with that name.  Under the lock of the series. */
static struct weir__series_hold **
find_hold(const struct weir_series *series, const weir_guard *guard, const char *name)
{
        struct weir__series_extra *extra = weir__series_extra_of(series);
        struct weir__series_hold **at = extra ? &extra->holds : NULL;

        while (at && *at && !is_wanted((struct weir__hold *)*at, guard, name))
                at = &(*at)->next;
        return at && *at ? at : NULL;
}

static bool
holds(const struct weir_series *series, const weir_guard *guard)
{
        struct weir__lock *lock = &((struct weir_series *)series)->lock;

        weir__lock(lock);
        bool is_found = find_hold(series, guard, NULL);
        weir__unlock(lock);
        return is_found;
}

/* -- guards -- */

/* Whether the series, or one that it is within, holds the guard.  These end after the task, so it would wait for ever.  Under the
 * guard's lock. */
static bool
would_wait_for_itself(const weir_guard *guard, const struct weir_series *series)
{
        for (; series && guard->holder; series = series->parent)
                if (guard->holder->series == series)
                        return true;
        return false;
}

/* The same for a guard that is shared.  On the thread that makes the steps of the series, so those around it cannot end.  No
 * lock is held. */
static bool
shares_already(const weir_guard *guard, const struct weir_series *series)
{
        if (!atomic_load_explicit(&guard->was_shared, memory_order_relaxed)) /* its own hold, if any, was entered before */
                return false;
        for (; series; series = series->parent)
                if (holds(series, guard))
                        return true;
        return false;
}

static int
try(struct weir__wait *wait, struct weir__work_list *claimed)
{
        weir_guard *guard = (weir_guard *)wait->object;

        (void)claimed;
        if (would_wait_for_itself(guard, wait->task->task.series))
                return -EDEADLK;
        if (!is_possible(guard, wait->message) || weir__wait_oldest_pending(&guard->waits)) {
                ((struct weir__hold *)wait->message)->sequence = ++guard->sequence;
                weir__deadlock_note(guard);
                return -EAGAIN;
        }
        grant(guard, wait->message);
        return 0;
}

static const char *
verb_of(const struct weir__hold *hold)
{
        return hold->is_shared ? "shared" : "held";
}

/* Any of those that have it; NULL: nobody has. */
static const struct weir__hold *
any_holder(const struct weir_guard *guard)
{
        const struct weir__link *first = weir__list_first(&guard->sharers);

        return first ? weir__container_of(first, struct weir__hold, link) : guard->holder;
}

static void
describe(const struct weir__waitable *object, const struct weir__wait *wait, char *out, size_t room)
{
        const struct weir_guard *guard = (const struct weir_guard *)object;
        const struct weir__hold *holder = any_holder(guard);
        char since[WEIR__DURATION_SIZE], others[40] = "";

        (void)wait;
        if (!holder)
                return;
        weir__duration(since, weir__clock_now() - holder->since);
        if (guard->object.amount > 1)
                snprintf(others, sizeof others, ", and by %" PRIu64 " others", guard->object.amount - 1);
        if (*holder->name)
                snprintf(out, room, "%s by series \"%s\" for %s%s", verb_of(holder), holder->name, since, others);
        else if (holder->series)
                snprintf(out, room, "%s by series %p for %s%s", verb_of(holder), (void *)holder->series, since, others);
        else
                snprintf(out, room, "given %s ago to a task whose callback has not begun%s", since, others);
}

static const struct weir__waitable_ops guard_ops = {
        .kind = WEIR__GUARD, .noun = "guard", .size = sizeof(struct weir_guard), .queues = 1, .try = try, .describe = describe};

weir_guard *
weir_guard_new(void)
{
        return (weir_guard *)weir__waitable_new(&guard_ops, 0, 0, NULL);
}

weir_guard *
weir_guard_open(const char *name)
{
        return (weir_guard *)weir__waitable_unique(weir__waitable_new_named(&guard_ops, name, 0, 0, NULL));
}

WEIR__WAITABLE_REFERENCES(weir_guard, weir_guard_ref, weir_guard_unref)

bool
weir_guard_is_held(weir_guard *guard, const weir_series *series)
{
        weir__memory_expect(guard);
        if (!guard || weir__phase_is_forked())
                return false;
        weir__lock(&guard->object.lock);
        bool is_held = series ? guard->holder && guard->holder->series == series : any_holder(guard) != NULL;
        weir__unlock(&guard->object.lock);
        return is_held || (series && atomic_load_explicit(&guard->was_shared, memory_order_relaxed) && holds(series, guard));
}

/* -- at once -- */

/* A series that was dismissed without a start would never give the guard back. */
static int
try_for(weir_guard *guard, struct weir_series *series, struct weir__hold *hold, struct weir__series_extra *extra)
{
        int outcome = -EAGAIN;

        weir__waitable_lock(&guard->object); /* forgets the waits that are over, a slice at a time, before the series is locked */
        weir__unlock(&guard->object.lock);
        weir__lock(&series->lock);
        weir__lock(&guard->object.lock);
        if (series->state != WEIR__SERIES_RUNNING && !weir__series_is_fed(series))
                outcome = -ESTALE;
        else if (find_hold(series, guard, NULL))
                outcome = -EDEADLK;
        else if (is_possible(guard, hold) && !weir__wait_oldest_pending(&guard->waits))
                outcome = 0;
        if (outcome == 0) {
                grant(guard, hold);
                enter(hold, series, extra);
        }
        weir__unlock(&guard->object.lock);
        weir__unlock(&series->lock);
        return outcome;
}

static int
try_acquire(weir_guard *guard, struct weir_series *series, bool is_shared)
{
        int fault = series ? weir__waitable_fault((struct weir__waitable *)guard) : -EINVAL;
        struct weir__series_extra *extra = fault ? NULL : weir__series_extra_get(series);
        struct weir__hold *hold = extra ? hold_new(guard, is_shared) : NULL;

        if (fault || !hold)
                return fault ? fault : -ENOMEM;
        int outcome = try_for(guard, series, hold, extra);
        if (outcome)
                hold_free(hold);
        return outcome;
}

int
weir_guard_try_acquire(weir_guard *guard, weir_series *series)
{
        return try_acquire(guard, series, false);
}

int
weir_guard_try_acquire_shared(weir_guard *guard, weir_series *series)
{
        return try_acquire(guard, series, true);
}

/* -- releasing -- */

/* Takes the newest such hold from the series.  The hold forgets the series, which may be freed from then on.  Under the lock of
 * the series. */
static struct weir__series_hold *
take_hold(struct weir_series *series, const weir_guard *guard, const char *name)
{
        struct weir__series_hold **at = find_hold(series, guard, name);
        struct weir__hold *hold = at ? (struct weir__hold *)*at : NULL;

        if (!hold)
                return NULL;
        *at = hold->of_series.next;
        weir__lock(&hold->guard->object.lock);
        hold->series = NULL;
        weir__unlock(&hold->guard->object.lock);
        return &hold->of_series;
}

static int
release(struct weir_series *series, const weir_guard *guard, const char *name)
{
        if (!series)
                return -EINVAL;
        if (weir__phase_is_forked())
                return -ECHILD;
        weir__lock(&series->lock);
        struct weir__series_hold *hold = take_hold(series, guard, name);
        weir__unlock(&series->lock);
        if (!hold)
                return -EPERM;
        give_up(hold);
        return 0;
}

int
weir_guard_release(weir_guard *guard, weir_series *series)
{
        weir__memory_expect(guard);
        return guard ? release(series, guard, NULL) : -ENOMEM;
}

int
weir_guard_release_named(const char *name, weir_series *series)
{
        return name && *name ? release(series, NULL, name) : weir__name_refuse("guard", -EINVAL);
}

/* "%p" is what a guard's describe calls a series without a name. */
void
weir__guard_describe_held(const struct weir_series *series, char *out, size_t room)
{
        const struct weir__series_extra *extra = weir__series_extra_of(series);
        const struct weir__hold *hold = extra ? (const struct weir__hold *)extra->holds : NULL;
        char since[WEIR__DURATION_SIZE], title[WEIR__TITLE_SIZE], address[24] = "";

        *out = '\0';
        if (!hold)
                return;
        weir__lock(&hold->guard->object.lock);
        weir__duration(since, weir__clock_now() - hold->since);
        weir__unlock(&hold->guard->object.lock);
        weir__waitable_title(&hold->guard->object, title, sizeof title);
        if (!weir__series_extra_name(extra))
                snprintf(address, sizeof address, "%p, ", (const void *)series);
        snprintf(out, room, "%s%s %s for %s%s", address, hold->is_shared ? "shares" : "holds", title, since,
                 hold->of_series.next ? ", and others" : "");
}

/* -- the task; the message of its wait is its hold, until that belongs to the series -- */

static void
start(struct weir_task *task)
{
        struct weir__wait_task *self = (struct weir__wait_task *)task;

        if (shares_already((const weir_guard *)self->wait.object, task->series)) {
                weir__wait_decide(self, -EDEADLK);
                weir__task_deliver(task);
        } else {
                weir__wait_start(task);
        }
}

/* A task that ends without the guard may have held up others behind it that share. */
static void
run(struct weir__work *work)
{
        struct weir__wait_task *self = (struct weir__wait_task *)work;
        struct weir_task *task = &self->task;
        struct weir__hold *hold = self->wait.message;

        weir__wait_set_running(self);
        if (!task->status) {
                if (enter_hold(hold, task->series ? task->series : weir__task_make_series(task))) {
                        self->wait.message = NULL;
                } else {
                        task->status = -ENOMEM;
                        pass_on(hold);
                }
        } else if (atomic_load_explicit(&hold->guard->was_shared, memory_order_relaxed)) {
                weir__waitable_lock(&hold->guard->object);
                serve_and_unlock(hold->guard);
        }
        weir__task_call_back(task);
        weir__task_finish(task);
}

static void
release_task(struct weir_task *task, bool discarded)
{
        hold_free(weir__wait_take_message(&((struct weir__wait_task *)task)->wait));
        weir__wait_release(task, discarded);
}

static const struct weir__task_ops acquire_ops = {
        .work = {.run = run,
                 .kind = "an acquire",
                 .is_migratable = true,
                 .function = weir__task_function,
                 .name = weir__task_name},
        .start = start,
        .end_early = weir__wait_end_early,
        .release = release_task,
        .describe = weir__wait_describe,
        .is_guard_wait = true,
};

/* `self` waits for the guard, if there is one. */
static weir_task *
with_hold(struct weir__wait_task *self, bool is_shared)
{
        weir_guard *guard = self ? (weir_guard *)self->wait.object : NULL;

        if (!guard)
                return (weir_task *)self;
        self->wait.message = hold_new(guard, is_shared);
        if (self->wait.message)
                return &self->task;
        weir_task_dismiss(&self->task);
        return NULL;
}

static weir_task *
acquire_new(weir_guard *guard, bool is_shared, weir_task_fn *done, void *context)
{
        return with_hold(weir__wait_task_new(&acquire_ops, (struct weir__waitable *)guard, 0, done, context), is_shared);
}

static weir_task *
acquire_new_named(const char *name, bool is_shared, weir_task_fn *done, void *context)
{
        struct weir__waitable *guard = (struct weir__waitable *)weir_guard_open(name);
        int fault = guard ? 0 : -errno;

        return with_hold(weir__wait_task_new_with(&acquire_ops, guard, fault, done, context), is_shared);
}

weir_task *
weir_guard_acquire_new(weir_guard *guard, weir_task_fn *done, void *context)
{
        return acquire_new(guard, false, done, context);
}

weir_task *
weir_guard_acquire_new_named(const char *name, weir_task_fn *done, void *context)
{
        return acquire_new_named(name, false, done, context);
}

weir_task *
weir_guard_acquire_shared_new(weir_guard *guard, weir_task_fn *done, void *context)
{
        return acquire_new(guard, true, done, context);
}

weir_task *
weir_guard_acquire_shared_new_named(const char *name, weir_task_fn *done, void *context)
{
        return acquire_new_named(name, true, done, context);
}
