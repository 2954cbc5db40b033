/* factory/timer.c: timers, and the protocol by which start, expiry, cancel and shutdown agree on who ends one.
 *
 *     NEW --start--> PENDING --expiry, cancel, shutdown--> READY --worker--> RUNNING --> freed
 *      \--cancelled before: start-------------------------^
 *
 * Threads: any.
 * Locks:   a shard of the map of names (rank NAMES), then the poller's (rank POLLER).
 *
 * start       under the poller's lock, exchanges CLAIMED.  First: inserts, PENDING.  Second (a cancel came before),
 *             or when the series is cancelled or the poller closing: READY with that status; delivered after unlocking.
 * cancel      under the shard's lock, exchanges CLAIMED.  First: nothing more; start or dismiss completes it.  Second: under the
 *             poller's lock: PENDING -> takes it out of the queue, READY, and delivers it after unlocking both; READY ->
 *             compare-and-swaps CANCELLED into it; RUNNING -> too late.  What is cancelled loses its name, under the same lock.
 * series      under the series' lock, which keeps the timer alive, then the poller's: PENDING -> as above.  One
 *             that is about to be started looks at its series under the same lock, one that is READY when its callback begins.
 * expiry, shutdown   the poller, under its lock: PENDING -> READY.
 *
 * Who takes a timer out of the queue owns its delivery, so there is exactly one.  A canceller by name looks at a timer under the
 * shard's lock only, and the worker passes through that lock before it frees one, unless it was a cancel by name that delivered
 * it (UNNAMED): then nobody can find it any more.  test/model/timer.pml is the model of this,
 * with the orders that do not work as its mutants. */
#include <errno.h>
#include <string.h>

#include <weir/timer.h>

#include "factory/names.h"
#include "factory/series.h"
#include "kernel/clock.h"
#include "kernel/memory.h"
#include "kernel/runtime.h"

#define CANCELLED_AT_ONCE WEIR__TIMERQ_BATCH /* under one hold of the locks */

struct timer {
        struct weir_task task;         /* first */
        struct weir__timerq_node node; /* guarded by the poller's lock; its deadline is the duration until the start */
};

struct named_timer {
        struct timer timer;     /* first */
        struct weir__name name; /* the text follows */
};

static struct weir__names names = WEIR__NAMES_INITIALIZER;

static struct weir__poller *
poller_of(const struct timer *timer)
{
        return weir__runtime_poller(timer->task.poller);
}

static uint32_t
word_of(const struct timer *timer)
{
        return atomic_load_explicit(&timer->task.word, memory_order_acquire);
}

/* Returns whether somebody was there before. */
static bool
claim(struct timer *timer)
{
        return atomic_fetch_or_explicit(&timer->task.word, WEIR__CLAIMED, memory_order_acq_rel) & WEIR__CLAIMED;
}

/* Under the poller's lock, or before anybody else can look: the caller owns the delivery now. */
static void
make_ready(struct timer *timer, int status, uint32_t flags)
{
        timer->task.status = status;
        atomic_store_explicit(&timer->task.word, WEIR__CLAIMED | WEIR__READY | flags, memory_order_release);
}

/* -- start -- */

/* Why it must not become pending: 0 or the status it ends with.  Under the poller's lock. */
static int
refusal(struct timer *timer, const struct weir__poller *poller)
{
        const struct weir_series *series = timer->task.series;

        if (claim(timer) || (series && weir__series_cause(series) == -ECANCELED))
                return -ECANCELED;
        return poller->closing ? -ESHUTDOWN : 0;
}

/* The timers of an exchange end on a grid, so that replies leave together. */
static weir_nsec
deadline_of(const struct timer *timer)
{
        weir_nsec after = timer->node.deadline, grain = timer->task.series ? timer->task.series->grain : 0;
        weir_nsec deadline = after == WEIR_FOREVER ? WEIR_FOREVER : weir__clock_after(weir__clock_now(), after);

        if (after <= 0 || !grain || deadline > WEIR_FOREVER - grain)
                return deadline;
        return (deadline + grain - 1) / grain * grain;
}

static void
timer_start(struct weir_task *task)
{
        struct timer *timer = (struct timer *)task;
        struct weir__poller *poller = poller_of(timer);
        weir_nsec deadline = deadline_of(timer);
        bool wake = false;

        weir__lock(&poller->lock);
        int status = refusal(timer, poller);
        if (status) {
                make_ready(timer, status, 0);
        } else {
                wake = weir__poller_add_deadline(poller, &timer->node, deadline);
                atomic_store_explicit(&task->word, WEIR__CLAIMED | WEIR__PENDING, memory_order_release);
        }
        weir__unlock(&poller->lock);
        /* From here on the timer may be gone, unless it is ours to deliver. */
        if (status)
                weir__poller_deliver(poller, &task->work);
        else if (wake)
                weir__poller_wake(poller);
}

/* -- expiry and shutdown: the poller has taken the node out, under its lock -- */

static struct weir__work *
timer_due(struct weir__timerq_node *node, int status)
{
        struct timer *timer = (struct timer *)((char *)node - offsetof(struct timer, node));

        make_ready(timer, status, 0);
        return &timer->task.work;
}

/* Before the constructors of a program that has the static library in it, which may make timers. */
__attribute__((constructor(101))) static void
prepare(void)
{
        weir__poller_on_deadline(WEIR__DEADLINE_TIMER, timer_due);
}

/* -- cancel -- */

/* PENDING -> READY with `flags`; the caller owns the delivery if it returns true.  Under the poller's lock. */
static bool
take_pending(struct timer *timer, struct weir__poller *poller, uint32_t flags)
{
        if ((word_of(timer) & WEIR__STATE) != WEIR__PENDING)
                return false;
        weir__timerq_remove(&poller->queue, &timer->node);
        make_ready(timer, -ECANCELED, flags);
        return true;
}

static struct weir_task *
timer_cancel(struct weir_task *task)
{
        struct timer *timer = (struct timer *)task;
        struct weir__poller *poller = poller_of(timer);

        weir__lock(&poller->lock);
        bool taken = take_pending(timer, poller, 0);
        weir__unlock(&poller->lock);
        return taken ? task : NULL;
}

/* READY and not begun: the callback will see -ECANCELED.  Under the poller's lock, so that it cannot become READY meanwhile. */
static bool
mark_cancelled(struct timer *timer)
{
        uint32_t word = word_of(timer);

        while ((word & WEIR__STATE) == WEIR__READY)
                if (atomic_compare_exchange_weak_explicit(&timer->task.word, &word, word | WEIR__CANCELLED, memory_order_acq_rel,
                                                          memory_order_acquire))
                        return true;
        return false;
}

/* A cancel by name under way: what it took, and the poller whose lock it holds, if any. */
struct cancel {
        size_t left, count;
        bool begun;
        struct weir__poller *locked;
        struct weir__work_list taken;
};

static void
lock_poller(struct cancel *cancel, struct weir__poller *poller)
{
        if (cancel->locked == poller)
                return;
        if (cancel->locked)
                weir__unlock(&cancel->locked->lock);
        if (poller)
                weir__lock(&poller->lock);
        cancel->locked = poller;
}

/* Whether the timer is cancelled by this; if it has to be delivered, it is put onto the list. */
static bool
cancel_one(struct cancel *cancel, struct timer *timer)
{
        if (!claim(timer))
                return true;
        lock_poller(cancel, poller_of(timer));
        if (!take_pending(timer, cancel->locked, WEIR__UNNAMED))
                return mark_cancelled(timer);
        weir__work_append(&cancel->taken, &timer->task.work);
        return true;
}

static struct timer *
timer_named(struct weir__name *name)
{
        return &((struct named_timer *)((char *)name - offsetof(struct named_timer, name)))->timer;
}

/* One hold of the shard's lock.  Callbacks that run (of which there are at most as many as workers) are passed over and keep
 * their name.  Returns whether more may be left. */
static bool
cancel_some(struct cancel *cancel, struct weir__names_shard *shard, const struct weir__name_key *key)
{
        struct weir__name *name = weir__names_find(shard, key);
        size_t left = name ? name->count : 0; /* those from `name` on, round to the newest */

        /* At first: no more than there are now, lest a cancel chase the timers that the callbacks of what it cancelled start. */
        if (!cancel->begun && cancel->left > left)
                cancel->left = left;
        cancel->begun = true;

        for (unsigned taken = 0; left > 0 && cancel->left > 0; left--) {
                struct weir__name *newer = name->newer;

                if (taken == CANCELLED_AT_ONCE)
                        return true;
                if (cancel_one(cancel, timer_named(name))) {
                        weir__names_unlink(shard, name);
                        taken++;
                        cancel->count++;
                        cancel->left--;
                }
                name = newer;
        }
        return false;
}

static void
deliver(struct weir__work_list *taken)
{
        for (struct weir__work *work; (work = weir__work_pop(taken));)
                weir__poller_deliver(poller_of((struct timer *)work), work);
}

static bool
key_of(const char *text, struct weir__name_key *key)
{
        size_t size = text ? strlen(text) : 0;

        if (size == 0 || size > WEIR_NAME_MAX)
                return false;
        *key = weir__name_key(text, size);
        return true;
}

size_t
weir_timer_cancel(const char *name, size_t max)
{
        struct weir__name_key key;

        if (weir__runtime_forked() || !key_of(name, &key))
                return 0;
        struct cancel cancel = {.left = max};
        for (bool more = max > 0; more;) {
                struct weir__names_shard *shard = weir__names_lock(&names, key.hash);

                more = cancel_some(&cancel, shard, &key);
                lock_poller(&cancel, NULL);
                weir__names_unlock(shard);
                deliver(&cancel.taken);
        }
        return cancel.count;
}

size_t
weir_timer_count(const char *name)
{
        struct weir__name_key key;

        if (weir__runtime_forked() || !key_of(name, &key))
                return 0;
        return weir__names_count(&names, &key);
}

/* -- making and ending -- */

static void
named_release(struct weir_task *task, bool discarded)
{
        uint32_t word = atomic_load_explicit(&task->word, memory_order_relaxed);

        /* What a cancel by name has delivered, it took out of the map before, and looks at no more. */
        (void)discarded;
        if (!(word & WEIR__UNNAMED) && !weir__runtime_forked())
                weir__names_remove(&names, &((struct named_timer *)task)->name);
}

static const struct weir__task_ops timer_ops = {
        .work = {weir__task_run},
        .start = timer_start,
        .cancel = timer_cancel,
};

static const struct weir__task_ops named_timer_ops = {
        .work = {weir__task_run},
        .start = timer_start,
        .cancel = timer_cancel,
        .release = named_release,
};

static void
init(struct timer *timer, const struct weir__task_ops *ops, size_t size, weir_nsec after, weir_task_fn *done, void *context)
{
        weir__task_init(&timer->task, ops, size, done, context);
        timer->node = (struct weir__timerq_node){.deadline = after, .kind = WEIR__DEADLINE_TIMER};
}

weir_task *
weir_timer_new(weir_nsec after, weir_task_fn *done, void *context)
{
        struct timer *timer = weir__alloc(sizeof *timer);

        if (!timer)
                return NULL;
        init(timer, &timer_ops, sizeof *timer, after, done, context);
        return &timer->task;
}

/* A task that reports what was wrong with the name when it is started or pushed. */
static weir_task *
misnamed(const char *name, weir_nsec after, weir_task_fn *done, void *context)
{
        weir_task *task = weir_timer_new(after, done, context);

        if (task) {
                task->status = name && *name ? -ENAMETOOLONG : -EINVAL;
                task->flags |= WEIR__TASK_WRONG;
        }
        return task;
}

weir_task *
weir_timer_new_named(const char *name, weir_nsec after, weir_task_fn *done, void *context)
{
        struct weir__name_key key;

        if (!key_of(name, &key))
                return misnamed(name, after, done, context);
        size_t size = sizeof(struct named_timer) + key.size + 1;
        struct named_timer *named = weir__alloc(size);
        if (!named)
                return NULL;
        init(&named->timer, &named_timer_ops, size, after, done, context);
        if (weir__runtime_forked() || weir__names_add(&names, &named->name, &key))
                return &named->timer.task;
        weir__free(named, size);
        return NULL;
}
