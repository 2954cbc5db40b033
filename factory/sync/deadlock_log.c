/* factory/sync/deadlock_log.c: circles of guards are logged, once each, about a second after they have closed.
 *
 *     of a guard:  not noted --a task begins to wait--> noted --the alarm comes--> not noted, and searched
 *
 * A circle closes when a task begins to wait.  Its guard is noted then, so a search that begins at that guard finds the circle.
 * A guard is searched once in SEARCH_INTERVAL at most, however often tasks wait for it.
 *
 * On the virtual clock nothing is noted: an alarm would make time go on.
 *
 * Threads: any; the alarm on a worker of the first poller.
 * Locks:   `noted.lock`, a leaf, guards the list; that of a guard is taken before it, and guards `is_noted` of the guard.
 *
 * The thread that sets `is_armed` owns the alarm; from there on its work does, until that clears `is_armed`. */
#include "factory/sync/guard.h"

#include "kernel/base/clock.h"
#include "kernel/base/phase.h"
#include "kernel/loop/pollers.h"
#include "kernel/observe/log.h"
#include "kernel/worker/deliver.h"

#define SEARCH_INTERVAL WEIR_SEC(1)
#define GUARDS_AT_ONCE  16   /* searched before other work runs */
#define SERIES_AT_ONCE  4000 /* looked at before other work runs; those of the last guard may come on top */

static struct {
        struct weir__lock lock;

        /* Guarded by lock. */
        struct weir__list guards; /* with a reference each, until the next alarm */
        struct weir__list due;    /* the same, to be searched now */
        bool is_armed;            /* the alarm is set, or its work is on its way */

        struct weir__alarm alarm;
} noted = {.lock = WEIR__LOCK_INITIALIZER(WEIR__RANK_LEAF)};

/* Takes a guard out of a list: it may be noted again.  NULL: the list is empty; or an alarm will search it, and `if_unarmed`. */
static weir_guard *
take(struct weir__list *list, bool if_unarmed)
{
        weir__lock(&noted.lock);
        struct weir__link *link = if_unarmed && noted.is_armed ? NULL : weir__list_pop(list);
        weir__unlock(&noted.lock);
        weir_guard *guard = link ? weir__container_of(link, weir_guard, noted) : NULL;
        if (guard) {
                weir__lock(&guard->object.lock);
                guard->is_noted = false;
                weir__unlock(&guard->object.lock);
        }
        return guard;
}

static void
log_deadlock(const char *sentence, void *context)
{
        (void)context;
        weir__log(WEIR_LOG_WARNING, "%s", sentence);
}

static void search_due(struct weir__work *work);

static const struct weir__work_ops search_ops = {.run = search_due, .kind = "a search for deadlocks", .is_migratable = true};

/* `is_armed` is set, and by this thread.  A closing poller takes no alarm: shutdown ends what waits. */
static void
arm(void)
{
        struct weir__poller *poller = weir__poller_at(0);

        noted.alarm.work.ops = &search_ops;
        if (weir__alarm_set(poller, &noted.alarm, weir__clock_after(weir__clock_now(), SEARCH_INTERVAL))) {
                weir__poller_wake(poller);
                return;
        }
        weir__lock(&noted.lock);
        noted.is_armed = false;
        weir__unlock(&noted.lock);
}

static void
search_due(struct weir__work *work)
{
        unsigned count = 0, looks = 0;

        weir__lock(&noted.lock);
        if (weir__list_is_empty(&noted.due))
                weir__list_concat(&noted.due, &noted.guards);
        weir__unlock(&noted.lock);
        for (weir_guard *guard; count < GUARDS_AT_ONCE && looks < SERIES_AT_ONCE && (guard = take(&noted.due, false)); count++) {
                if (!weir__phase_is_stopping())
                        looks += weir__deadlock_find_new(guard, log_deadlock, NULL);
                weir_guard_unref(guard);
        }
        if (count == GUARDS_AT_ONCE || looks >= SERIES_AT_ONCE) {
                weir__deliver(weir__poller_at(0), work);
                return;
        }
        weir__lock(&noted.lock);
        noted.is_armed = !weir__list_is_empty(&noted.guards);
        bool should_arm = noted.is_armed;
        weir__unlock(&noted.lock);
        if (should_arm)
                arm();
}

void
weir__deadlock_note(weir_guard *guard)
{
        if (guard->is_noted || weir__clock_is_virtual())
                return;
        guard->is_noted = true;
        weir_guard_ref(guard);
        weir__lock(&noted.lock);
        weir__list_append(&noted.guards, &guard->noted);
        bool should_arm = !noted.is_armed;
        noted.is_armed = true;
        weir__unlock(&noted.lock);
        if (should_arm)
                arm();
}

/* -- steps of the process -- */

/* No worker is left, and the work of the alarm has run: `is_armed` is not set.  But another thread may have started the runtime
 * again, and a task waits for a guard there: then the new alarm searches all that is noted. */
static void
forget_all(void)
{
        for (weir_guard *guard; (guard = take(&noted.due, true)) || (guard = take(&noted.guards, true));)
                weir_guard_unref(guard);
}

/* The guards are those of other threads.  They are lost to the child, as are their references. */
static void
become_child(void)
{
        weir__lock_init(&noted.lock, WEIR__RANK_LEAF);
        noted.guards = noted.due = (struct weir__list){0};
        noted.is_armed = false;
}

WEIR__STEPS_OF(WEIR__MODULE_DEADLOCKS, [WEIR__STEP_ENDED] = forget_all, [WEIR__STEP_IN_CHILD] = become_child);
