/* factory/sync/guard.c: guards, held by series.
 *
 *     of a guard:   free --a task acquires--> held --released, series ends, nobody waits--> free
 *                                             ^  |
 *                                             '--'  the same, and somebody waits: it is his at once
 *
 * Threads: any.
 * Locks:   the series' for what it holds; under it the guard's, for who holds it.
 *
 * A hold is the record of that.  It is made together with the task that acquires, so that granting needs no memory; that
 * happens under the lock of the guard alone, by whoever gives it up, who knows nothing of the next one's series.  So the
 * worker of the task enters the hold with the series, before the callback; from then on the hold is the series'.  A series
 * leaves its guards in the last step of its end, which is one for all ways to end; a series that was never started has
 * acquired none.
 *
 * The series of a hold is compared, never followed, without the lock of that series; it cannot be gone, because a hold leaves it
 * before it ends.  Nobody may lock it under the guard's lock: so the hold has a copy of the name, for those who ask who holds a
 * guard. */
#include "factory/sync/guard.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "factory/task/series_extra.h"
#include "factory/sync/waitable.h"
#include "kernel/base/clock.h"
#include "kernel/data/duration.h"
#include "kernel/memory/memory.h"
#include "kernel/base/phase.h"
#include "kernel/data/visible.h"

#define HOLDER_NAME 44 /* bytes of a name, for those who look */

struct weir_guard {
        struct weir__waitable object; /* first */

        /* Guarded by the object's lock. */
        struct weir__wait_list waits;
        struct hold *holder; /* NULL: nobody, and nobody waits */
};

struct hold {
        struct weir__series_hold of_series; /* first */

        struct weir_guard *guard; /* constant; with a reference */

        /* Guarded by the lock of the guard. */
        struct weir_series *series; /* that has it; NULL: the callback has not begun, or it is being passed on */
        weir_nsec since;
        char name[HOLDER_NAME + sizeof "..."]; /* of that series then, or its beginning and dots; "": none */
};

/* The task that acquires. */
struct acquire {
        struct weir__wait_task wait; /* first */
        struct hold *hold;           /* NULL: it is its series' */
};

/* -- guards -- */

/* Under the lock of the guard. */
static void
describe_holder(const struct weir__waitable *object, char *out, size_t room)
{
        const struct hold *holder = ((const struct weir_guard *)object)->holder;
        char since[WEIR__DURATION_SIZE];

        *out = '\0';
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
        .kind = WEIR__GUARD, .noun = "guard", .size = sizeof(struct weir_guard), .lists = 1, .describe = describe_holder};

weir_guard *
weir_guard_new(void)
{
        return (weir_guard *)weir__waitable_new(&guard_ops);
}

weir_guard *
weir_guard_open(const char *name)
{
        return (weir_guard *)weir__waitable_unique(weir__waitable_new_named(&guard_ops, name));
}

weir_guard *
weir_guard_ref(weir_guard *guard)
{
        return (weir_guard *)weir__waitable_ref((struct weir__waitable *)guard);
}

void
weir_guard_unref(weir_guard *guard)
{
        weir__waitable_unref((struct weir__waitable *)guard);
}

bool
weir_guard_is_held(weir_guard *guard, const weir_series *series)
{
        if (!guard || weir__phase_is_forked())
                return false;
        weir__lock(&guard->object.lock);
        bool held = guard->holder && (!series || guard->holder->series == series);
        weir__unlock(&guard->object.lock);
        return held;
}

/* -- from hand to hand -- */

static void give_up(struct weir__series_hold *of_series);

static struct hold *
hold_new(weir_guard *guard)
{
        struct hold *hold = weir__alloc(sizeof *hold);

        if (hold)
                *hold = (struct hold){.of_series.give_up = give_up, .guard = weir_guard_ref(guard)};
        return hold;
}

static void
hold_free(struct hold *hold)
{
        if (!hold)
                return;
        weir_guard_unref(hold->guard);
        weir__free(hold, sizeof *hold);
}

/* Under the guard's lock. */
static void
grant(weir_guard *guard, struct acquire *to)
{
        guard->holder = to ? to->hold : NULL;
        if (to)
                to->hold->since = weir__clock_now();
}

static void
copy_name(char name[HOLDER_NAME + sizeof "..."], const struct weir__name *of)
{
        size_t shown = weir__utf8_cut(of->text, of->size, HOLDER_NAME);

        memcpy(name, of->text, shown);
        strcpy(name + shown, shown < of->size ? "..." : "");
}

/* It is that of who has waited longest; or of nobody. */
static void
pass_on(weir_guard *guard)
{
        weir__waitable_lock(&guard->object);
        struct weir__wait *wait = weir__wait_pop(&guard->waits);
        grant(guard, wait ? (struct acquire *)wait->task : NULL);
        weir__unlock(&guard->object.lock);
        if (wait)
                weir__wait_deliver(wait->task);
}

/* The acquired guard is the series' now.  False: there is no memory for that. */
static bool
enter(struct hold *hold, struct weir_series *series)
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

/* What of a series is to be released: with neither, what it has acquired last. */
struct wanted {
        const weir_guard *guard;
        const char *name;
};

static bool
is_wanted(const struct hold *hold, const struct wanted *wanted)
{
        const struct weir__name *name = hold->guard->object.name;

        if (wanted->guard)
                return hold->guard == wanted->guard;
        return !wanted->name || (name && strcmp(name->text, wanted->name) == 0);
}

/* The series has ended, and has left the hold. */
static void
give_up(struct weir__series_hold *of_series)
{
        struct hold *hold = (struct hold *)of_series;

        pass_on(hold->guard);
        hold_free(hold);
}

/* Its series may be freed from now on, and another one may lie there.  Under the lock of the series. */
static void
forget_series(struct hold *hold)
{
        weir__lock(&hold->guard->object.lock);
        hold->series = NULL;
        weir__unlock(&hold->guard->object.lock);
}

static bool
release(struct weir_series *series, const struct wanted *wanted)
{
        struct weir__series_hold *hold = NULL, **at = &hold;

        weir__lock(&series->lock);
        struct weir__series_extra *extra = weir__series_extra_of(series);
        if (extra)
                at = &extra->holds;
        while (*at && !is_wanted((struct hold *)*at, wanted))
                at = &(*at)->next;
        hold = *at;
        if (hold) {
                *at = hold->next;
                forget_series((struct hold *)hold);
        }
        weir__unlock(&series->lock);
        if (hold)
                give_up(hold);
        return hold;
}

int
weir_guard_release(weir_guard *guard, weir_series *series)
{
        if (!guard || !series)
                return guard ? -EINVAL : -ENOMEM;
        if (weir__phase_is_forked())
                return -ECHILD;
        return release(series, &(struct wanted){.guard = guard}) ? 0 : -EPERM;
}

int
weir_guard_release_named(const char *name, weir_series *series)
{
        if (!name || !*name || !series)
                return -EINVAL;
        if (weir__phase_is_forked())
                return -ECHILD;
        return release(series, &(struct wanted){.name = name}) ? 0 : -EPERM;
}

/* -- the task -- */

/* What it waits for is held until its own end.  Its series and those that it is within do not end before it does.  Under the
 * guard's lock. */
static bool
would_wait_for_itself(const weir_guard *guard, const struct weir_series *series)
{
        for (; series && guard->holder; series = series->parent)
                if (guard->holder->series == series)
                        return true;
        return false;
}

static void
start(struct weir_task *task)
{
        struct acquire *self = (struct acquire *)task;
        weir_guard *guard = (weir_guard *)self->wait.wait.object;

        weir__lock(&guard->object.lock);
        int refused = would_wait_for_itself(guard, task->series) ? -EDEADLK : 0;
        bool granted = !guard->holder && !weir__wait_is_over(&self->wait);
        if (granted)
                grant(guard, self);
        enum weir__wait_begun begun = weir__wait_begin(&self->wait, &guard->waits, granted, refused);
        weir__unlock(&guard->object.lock);
        if (begun != WEIR__WAIT_LINKED)
                weir__wait_deliver(&self->wait);
}

static void
run(struct weir__work *work)
{
        struct acquire *self = (struct acquire *)work;
        struct weir_task *task = &self->wait.task;

        weir__wait_arrive(&self->wait);
        if (!task->status) {
                if (enter(self->hold, task->series ? task->series : weir__series_make_for(task))) {
                        self->hold = NULL;
                } else {
                        task->status = -ENOMEM;
                        pass_on(self->hold->guard);
                }
        }
        weir__task_call_back(task);
        weir__task_finish(task);
}

static void
release_task(struct weir_task *task, bool discarded)
{
        hold_free(((struct acquire *)task)->hold);
        weir__wait_release(task, discarded);
}

static void
describe(const struct weir_task *task, char *out, size_t room)
{
        struct weir__waitable *object = ((const struct acquire *)task)->wait.wait.object;
        char holder[128];

        weir__wait_describe(task, out, room);
        size_t size = strlen(out);
        if (size == 0)
                return; /* it does not wait any more */
        weir__lock(&object->lock);
        describe_holder(object, holder, sizeof holder);
        weir__unlock(&object->lock);
        snprintf(out + size, room - size, "%s%s", *holder ? ", " : "", holder);
}

/* The address is what a guard's describe calls a series without a name. */
void
weir__guard_describe_held(const struct weir_series *series, char *out, size_t room)
{
        const struct weir__series_extra *extra = weir__series_extra_of(series);
        const struct hold *hold = extra ? (const struct hold *)extra->holds : NULL;
        char since[WEIR__DURATION_SIZE], title[WEIR__TITLE_SIZE];

        *out = '\0';
        if (!hold)
                return;
        weir__lock(&hold->guard->object.lock);
        weir__duration(since, weir__clock_now() - hold->since);
        weir__unlock(&hold->guard->object.lock);
        weir__waitable_title(&hold->guard->object, title, sizeof title);
        if (extra->name)
                snprintf(out, room, "holds %s for %s%s", title, since, hold->of_series.next ? ", and others" : "");
        else
                snprintf(out, room, "%p, holds %s for %s%s", (const void *)series, title, since,
                         hold->of_series.next ? ", and others" : "");
}

static const struct weir__task_ops acquire_ops = {
        .work = {.run = run, .kind = "an acquire", .is_migratable = true, .calls = weir__task_calls},
        .start = start,
        .cancel = weir__wait_cancel,
        .release = release_task,
        .describe = describe,
};

weir_task *
weir_guard_acquire_new(weir_guard *guard, weir_task_fn *done, void *context)
{
        struct hold *hold = guard ? hold_new(guard) : NULL;
        struct acquire *self = hold || !guard ? weir__alloc(sizeof *self) : NULL;

        if (!self) {
                hold_free(hold);
                return NULL;
        }
        weir__wait_task_init(&self->wait, &acquire_ops, sizeof *self, (struct weir__waitable *)guard, done, context);
        self->hold = hold;
        return &self->wait.task;
}

weir_task *
weir_guard_acquire_new_named(const char *name, weir_task_fn *done, void *context)
{
        weir_guard *guard = weir_guard_open(name);
        int failed = guard ? 0 : -errno;
        weir_task *task = weir_guard_acquire_new(guard, done, context);

        weir_guard_unref(guard);
        if (task && failed)
                weir__wait_task_spoil((struct weir__wait_task *)task, failed);
        return task;
}
