/* kernel/loop/poller.c: the life of a poller, and what becomes ready on it.
 *
 *     new -> closed --open--> open --close--> closed          it is never freed
 *
 * Threads: functions marked "owner only" in poller.h run on the worker that owns the poller; the others on any thread.
 * Locks:   poller->lock (rank POLLER) guards the deadlines, the ids, and the bulk that others give; nothing is locked
 *          under it. */
#include "kernel/loop/poller.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kernel/base/clock.h"

#define PUSHED_SHARE 4 /* pushed work items are at least a quarter of what is ready, or all */

/* -- life -- */

struct weir__poller *
weir__poller_new(unsigned index)
{
        struct weir__poller *poller = aligned_alloc(_Alignof(struct weir__poller), sizeof *poller);

        if (!poller)
                return NULL;
        memset(poller, 0, sizeof *poller);
        poller->index = index;
        int failed = weir__inbox_init(&poller->inbox);
        if (failed) {
                free(poller);
                errno = -failed;
                return NULL;
        }
        weir__lock_init(&poller->lock, WEIR__RANK_POLLER);
        return poller;
}

int
weir__poller_open(struct weir__poller *poller)
{
        poller->watch = (struct weir__watch){.timer_fd = -1};
        poller->free_slot = WEIR__SLOT_NONE;
        poller->is_exiting = false;
        poller->batch = NULL;
        memset(&poller->ready, 0, sizeof poller->ready);
        weir__clock_timers_open(poller);
        weir__deadlines_open(poller);
        int failed = poller->inbox.event_fd < 0 ? weir__inbox_init(&poller->inbox) : 0;
        poller->epoll_fd = failed ? -1 : epoll_create1(EPOLL_CLOEXEC);
        if (!failed && poller->epoll_fd < 0)
                failed = -errno;
        poller->sleep.timer_fd = poller->sleep.quiet_fd = -1;
        if (!failed)
                failed = weir__sleep_open(poller);
        if (!failed && !(poller->scratch = malloc(WEIR__SCRATCH_SIZE)))
                failed = -ENOMEM;
        if (failed)
                weir__poller_close(poller);
        return failed;
}

void
weir__poller_close(struct weir__poller *poller)
{
        if (poller->epoll_fd >= 0)
                close(poller->epoll_fd);
        if (poller->watch.timer_fd >= 0)
                close(poller->watch.timer_fd);
        poller->epoll_fd = poller->watch.timer_fd = -1;
        weir__sleep_close(poller);
        weir__clock_timers_close(poller);
        weir__sources_close(poller);
        free(poller->scratch);
        poller->scratch = NULL;
}

/* -- what others deliver -- */

void
weir__poller_give_bulk(struct weir__poller *poller, struct weir__work_list *bulk)
{
        weir__lock(&poller->lock);
        weir__work_concat(&poller->bulk_given, bulk);
        atomic_store_explicit(&poller->has_bulk_given, true, memory_order_relaxed);
        weir__unlock(&poller->lock);
        weir__poller_wake(poller); /* as for a deadline: an owner that falls asleep looks after it has had the lock */
}

static void
take_bulk(struct weir__poller *poller)
{
        if (!atomic_load_explicit(&poller->has_bulk_given, memory_order_relaxed))
                return;
        weir__lock(&poller->lock);
        weir__work_concat(&poller->ready.bulk, &poller->bulk_given);
        atomic_store_explicit(&poller->has_bulk_given, false, memory_order_relaxed);
        weir__unlock(&poller->lock);
}

unsigned
weir__poller_take_inbox(struct weir__poller *poller)
{
        take_bulk(poller);
        unsigned count = weir__inbox_take(&poller->inbox, &poller->ready.pushed);
        if (count) {
                poller->ready.pushed_count += count;
                weir__ready_note(&poller->ready, count);
        }
        return count;
}

/* -- rounds -- */

void
weir__poller_expire(struct weir__poller *poller, weir_nsec now, unsigned most)
{
        weir__ready_note(&poller->ready, weir__deadlines_expire(poller, now, most, &poller->ready.items));
}

/* How many work items are to run before those that come now.  Demoted ones run after them: a round must not wait for those. */
static unsigned
count_items(const struct weir__ready *ready)
{
        unsigned count = (unsigned)atomic_load_explicit(&ready->count, memory_order_relaxed);

        return ready->demoted.first ? WEIR__BATCH : count - ready->pushed_count;
}

static void
admit_pushed(struct weir__ready *ready)
{
        unsigned most = count_items(ready) / PUSHED_SHARE;

        if (most < WEIR__BATCH)
                most = WEIR__BATCH;
        if (ready->pushed_count <= most) {
                weir__work_concat(&ready->items, &ready->pushed);
                ready->pushed_count = 0;
                return;
        }
        for (unsigned i = 0; i < most; i++)
                weir__work_append(&ready->items, weir__work_pop(&ready->pushed));
        ready->pushed_count -= most;
}

void
weir__poller_admit(struct weir__poller *poller, weir_nsec now)
{
        struct weir__ready *ready = &poller->ready;
        bool begins = weir__ready_round_is_over(ready);

        if (begins && ready->pushed.first)
                admit_pushed(ready);
        if (weir__deadlines_are_due(&poller->deadlines, now))
                weir__poller_expire(poller, now, begins && poller->slot_count == 0 ? WEIR__TIMERQ_BATCH : WEIR__BATCH);
        if (!begins)
                return;
        unsigned items = ready->items.first ? count_items(ready) : 0;
        ready->round_left = items > WEIR__BATCH || ready->pushed.first ? items : 0;
}

bool
weir__poller_drain(struct weir__poller *poller)
{
        unsigned items, nodes = weir__deadlines_drain(poller, &poller->ready.items, &items);

        weir__ready_note(&poller->ready, items);
        return nodes > 0;
}
