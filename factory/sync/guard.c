/* factory/sync/guard.c: guards, held by series.
 *
 *     of a guard:   free --a task acquires--> held --released, or its series ends; nobody waits--> free
 *                                             ^  |
 *                                             '--'  the same, and a task waits: the guard is that one's at once
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
 * Without its lock the series of a hold is compared only, never followed.  It is there, because a hold leaves it before it ends.
 * Nobody may lock a series under a guard's lock.  So the hold has a copy of the series' name, for dumps. */
#include "factory/sync/guard.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "factory/task/series_extra.h"
#include "factory/sync/waitable.h"
#include "kernel/base/clock.h"
#include "kernel/data/duration.h"
#include "kernel/memory/memory.h"
#include "kernel/data/visible.h"

#define HOLDER_NAME 44 /* bytes of a name in a copy */

struct weir_guard {
        struct weir__waitable object; /* first */

        /* Guarded by the object's lock. */
        struct weir__list waits;
        struct hold *holder; /* NULL: nobody, and nobody waits */
};

struct hold {
        struct weir__series_hold of_series; /* first */

        struct weir_guard *guard; /* constant; with a reference */

        /* Guarded by the lock of the guard. */
        struct weir_series *series; /* that has it; NULL: the callback has not begun, or the guard is being passed on */
        weir_nsec since;
        char name[HOLDER_NAME + sizeof "..."]; /* of that series then, or its beginning and dots; "": none */
};

/* -- from holder to holder -- */

/* The message of a wait is its hold.  NULL: nobody has the guard.  Under the guard's lock. */
static void
grant(weir_guard *guard, const struct weir__wait *to)
{
        guard->holder = to ? to->message : NULL;
        if (to)
                guard->holder->since = weir__clock_now();
}

/* Gives the guard to the task that has waited longest, or to nobody. */
static void
pass_on(weir_guard *guard)
{
        struct weir__work_list claimed = {0};

        weir__waitable_lock(&guard->object);
        grant(guard, weir__wait_pop(&guard->waits, &claimed));
        weir__unlock(&guard->object.lock);
        weir__wait_deliver_all(&claimed);
}

static void
hold_free(struct hold *hold)
{
        if (!hold)
                return;
        weir_guard_unref(hold->guard);
        weir__free(hold, sizeof *hold);
}

/* The series has ended, or has released the guard, and has left the hold. */
static void
give_up(struct weir__series_hold *of_series)
{
        struct hold *hold = (struct hold *)of_series;

        pass_on(hold->guard);
        hold_free(hold);
}

static struct hold *
hold_new(weir_guard *guard)
{
        struct hold *hold = weir__alloc(sizeof *hold);

        if (hold)
                *hold = (struct hold){.of_series.give_up = give_up, .guard = weir_guard_ref(guard)};
        return hold;
}

static void
copy_name(char name[HOLDER_NAME + sizeof "..."], const struct weir__name *of)
{
        size_t shown = weir__utf8_cut(of->text, of->size, HOLDER_NAME);

        memcpy(name, of->text, shown);
        strcpy(name + shown, shown < of->size ? "..." : "");
}

/* The acquired guard belongs to the series from now on.  Returns false when there is no memory for that. */
static bool
enter_hold(struct hold *hold, struct weir_series *series)
{
        struct weir__series_extra *extra = series ? weir__series_extra_get(series) : NULL;

        if (!extra)
                return false;
        weir__lock(&series->lock);
        hold->of_series.next = extra->holds;
        extra->holds = &hold->of_series;
        weir__lock(&hold->guard->object.lock);
        hold->series = series;
        if (extra->name)
                copy_name(hold->name, &extra->name->name);
        weir__unlock(&hold->guard->object.lock);
        weir__unlock(&series->lock);
        return true;
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

static int
try(struct weir__wait *wait, struct weir__work_list *claimed)
{
        weir_guard *guard = (weir_guard *)wait->object;

        (void)claimed;
        if (would_wait_for_itself(guard, wait->task->task.series))
                return -EDEADLK;
        if (guard->holder)
                return -EAGAIN;
        grant(guard, wait);
        return 0;
}

static void
describe(const struct weir__waitable *object, const struct weir__wait *wait, char *out, size_t room)
{
        const struct hold *holder = ((const struct weir_guard *)object)->holder;
        char since[WEIR__DURATION_SIZE];

        (void)wait;
        if (!holder)
                return;
        weir__duration(since, weir__clock_now() - holder->since);
        if (*holder->name)
                snprintf(out, room, "held by series \"%s\" for %s", holder->name, since);
        else if (holder->series)
                snprintf(out, room, "held by series %p for %s", (void *)holder->series, since);
        else
                snprintf(out, room, "given %s ago to a task whose callback has not begun", since);
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
        if (!guard || weir__phase_is_forked())
                return false;
        weir__lock(&guard->object.lock);
        bool is_held = guard->holder && (!series || guard->holder->series == series);
        weir__unlock(&guard->object.lock);
        return is_held;
}

/* -- releasing -- */

/* Whether the hold is one of that guard; NULL: of one with that name. */
static bool
is_wanted(const struct hold *hold, const weir_guard *guard, const char *name)
{
        const struct weir__name *its_name = hold->guard->object.name;

        return guard ? hold->guard == guard : its_name && strcmp(its_name->text, name) == 0;
}

/* Takes the newest such hold from the series.  The hold forgets the series, which may be freed from then on.  Under the lock of
 * the series. */
static struct weir__series_hold *
take_hold(struct weir_series *series, const weir_guard *guard, const char *name)
{
        struct weir__series_extra *extra = weir__series_extra_of(series);
        struct weir__series_hold **at = extra ? &extra->holds : NULL;

        while (at && *at && !is_wanted((struct hold *)*at, guard, name))
                at = &(*at)->next;
        struct hold *hold = at ? (struct hold *)*at : NULL;
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
        return guard ? release(series, guard, NULL) : -ENOMEM;
}

int
weir_guard_release_named(const char *name, weir_series *series)
{
        return name && *name ? release(series, NULL, name) : -EINVAL;
}

/* "%p" is what a guard's describe calls a series without a name. */
void
weir__guard_describe_held(const struct weir_series *series, char *out, size_t room)
{
        const struct weir__series_extra *extra = weir__series_extra_of(series);
        const struct hold *hold = extra ? (const struct hold *)extra->holds : NULL;
        char since[WEIR__DURATION_SIZE], title[WEIR__TITLE_SIZE], address[24] = "";

        *out = '\0';
        if (!hold)
                return;
        weir__lock(&hold->guard->object.lock);
        weir__duration(since, weir__clock_now() - hold->since);
        weir__unlock(&hold->guard->object.lock);
        weir__waitable_title(&hold->guard->object, title, sizeof title);
        if (!extra->name)
                snprintf(address, sizeof address, "%p, ", (const void *)series);
        snprintf(out, room, "%sholds %s for %s%s", address, title, since, hold->of_series.next ? ", and others" : "");
}

/* -- the task; the message of its wait is its hold, until that belongs to the series -- */

static void
run(struct weir__work *work)
{
        struct weir__wait_task *self = (struct weir__wait_task *)work;
        struct weir_task *task = &self->task;
        struct hold *hold = self->wait.message;

        weir__wait_set_running(self);
        if (!task->status) {
                if (enter_hold(hold, task->series ? task->series : weir__task_make_series(task))) {
                        self->wait.message = NULL;
                } else {
                        task->status = -ENOMEM;
                        pass_on(hold->guard);
                }
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

static const struct weir__task_ops acquire_ops = WEIR__WAIT_TASK_OPS("an acquire", run, release_task);

weir_task *
weir_guard_acquire_new(weir_guard *guard, weir_task_fn *done, void *context)
{
        struct weir__wait_task *self = weir__wait_task_new(&acquire_ops, (struct weir__waitable *)guard, 0, done, context);

        if (!self || !guard)
                return (weir_task *)self;
        self->wait.message = hold_new(guard);
        if (self->wait.message)
                return &self->task;
        weir_task_dismiss(&self->task);
        return NULL;
}

weir_task *
weir_guard_acquire_new_named(const char *name, weir_task_fn *done, void *context)
{
        weir_guard *guard = weir_guard_open(name);
        int failed = guard ? 0 : -errno;
        weir_task *task = weir_guard_acquire_new(guard, done, context);

        weir_guard_unref(guard);
        if (task && failed)
                task->status = failed; /* instead of -ENOMEM */
        return task;
}
