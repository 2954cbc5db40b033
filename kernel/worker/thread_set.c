/* kernel/worker/thread_set.c: the life cycle of worker threads.
 *
 * The states of a slot: kernel/worker/thread_set.h.
 *
 * Threads: add on any; leave and exit on the thread itself; open, join and free on the thread that starts or ends the runtime.
 * Locks:   set->lock, the owner's.  Threads are made and joined without it.
 *
 * A thread that leaves joins the one that has left before it: at most one is not joined at any time. */
#include "kernel/worker/thread_set.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "kernel/base/thread.h"

void
weir__thread_set_open(struct weir__thread_set *set, unsigned most)
{
        weir__lock(set->lock);
        set->most = most < WEIR__THREAD_SLOTS ? most : WEIR__THREAD_SLOTS;
        set->is_closing = false;
        weir__unlock(set->lock);
}

/* -- adding -- */

static struct weir__worker *
new_struct(const struct weir__thread_set *set)
{
        struct weir__worker *worker = aligned_alloc(_Alignof(struct weir__worker), set->size);

        if (!worker)
                return NULL;
        memset(worker, 0, set->size);
        weir__lock_init(&worker->reading, WEIR__RANK_LEAF);
        if (set->prepare)
                set->prepare(worker);
        return worker;
}

/* The first struct without a thread; NULL: all have one.  Under the lock. */
static struct weir__worker *
find_unused(const struct weir__thread_set *set)
{
        for (unsigned i = 0; i < set->structs; i++) {
                struct weir__worker *worker = weir__thread_set_at(set, i);

                if (worker->presence == WEIR__THREAD_UNUSED)
                        return worker;
        }
        return NULL;
}

/* Under the lock; false: there are no more slots. */
static bool
put_into_slot(struct weir__thread_set *set, struct weir__worker *worker)
{
        if (set->structs == WEIR__THREAD_SLOTS)
                return false;
        worker->number = set->structs++;
        atomic_store_explicit(&set->slots[worker->number], worker, memory_order_release);
        return true;
}

/* Takes an unused struct and counts it as a thread, before that thread is made.  If all structs are used, takes `fresh`; if that
 * is NULL, too, *worker becomes NULL. */
static int
take_struct(struct weir__thread_set *set, struct weir__worker *fresh, struct weir__worker **worker)
{
        int failed = 0;

        weir__lock(set->lock);
        *worker = find_unused(set);
        if (set->here >= set->most || set->is_closing)
                failed = -EAGAIN;
        else if (!*worker && fresh)
                failed = put_into_slot(set, *worker = fresh) ? 0 : -EAGAIN;
        if (!failed && *worker) {
                (*worker)->presence = WEIR__THREAD_HERE;
                set->here++;
                if ((*worker)->number >= weir__thread_set_count(set))
                        atomic_store_explicit(&set->count, (*worker)->number + 1, memory_order_release);
        }
        weir__unlock(set->lock);
        return failed;
}

/* Under the lock. */
static void
give_up_struct(struct weir__thread_set *set, struct weir__worker *worker, enum weir__presence presence)
{
        unsigned count = weir__thread_set_count(set);

        worker->presence = (uint8_t)presence;
        set->here--;
        while (count > 0 && weir__thread_set_at(set, count - 1)->presence != WEIR__THREAD_HERE)
                count--;
        atomic_store_explicit(&set->count, count, memory_order_release);
}

int
weir__thread_set_add(struct weir__thread_set *set, struct weir__worker **added)
{
        struct weir__worker *fresh = NULL;
        int failed = take_struct(set, NULL, added);

        if (!failed && !*added) {
                fresh = new_struct(set);
                failed = fresh ? take_struct(set, fresh, added) : -ENOMEM;
        }
        if (fresh && (failed || *added != fresh))
                free(fresh);
        if (failed)
                return failed;
        (*added)->gone = (struct weir__latch){0};
        failed = weir__thread_make(&(*added)->thread, set->main, *added);
        if (failed) {
                weir__lock(set->lock);
                give_up_struct(set, *added, WEIR__THREAD_UNUSED);
                weir__unlock(set->lock);
        }
        return failed;
}

/* -- ending -- */

struct weir__worker *
weir__thread_set_leave(struct weir__thread_set *set, struct weir__worker *worker)
{
        struct weir__worker *before = set->ended;

        give_up_struct(set, worker, WEIR__THREAD_ENDED);
        set->ended = worker;
        return before;
}

void
weir__thread_set_join_one(struct weir__thread_set *set, struct weir__worker *ended)
{
        if (!ended)
                return;
        weir__thread_join(ended->thread, &ended->gone, WEIR_FOREVER);
        weir__lock(set->lock);
        ended->presence = WEIR__THREAD_UNUSED;
        weir__unlock(set->lock);
}

void
weir__thread_set_exit(struct weir__worker *worker)
{
        weir__trace_leave();
        weir__worker_current = NULL;
        weir__latch_open(&worker->gone);
}

static bool
is_here(const struct weir__thread_set *set, const struct weir__worker *worker)
{
        weir__lock(set->lock);
        bool is_still_here = worker->presence == WEIR__THREAD_HERE;
        weir__unlock(set->lock);
        return is_still_here;
}

bool
weir__thread_set_join(struct weir__thread_set *set, weir_nsec until)
{
        const struct weir__worker *self = weir__worker_self();
        bool ended = true;

        weir__lock(set->lock);
        set->is_closing = true;
        struct weir__worker *last = set->ended;
        weir__unlock(set->lock);
        if (last && !weir__thread_join(last->thread, &last->gone, until))
                return false;
        set->ended = NULL;
        for (unsigned i = 0; i < weir__thread_set_count(set); i++) {
                struct weir__worker *worker = weir__thread_set_at(set, i);

                if (is_here(set, worker))
                        ended &= worker != self && weir__thread_join(worker->thread, &worker->gone, until);
        }
        return ended;
}

/* Under the lock. */
static int64_t
sum_roots(const struct weir__thread_set *set)
{
        int64_t roots = set->freed_roots;

        for (unsigned i = 0; i < set->structs; i++)
                roots += atomic_load_explicit(&weir__thread_set_at(set, i)->roots, memory_order_relaxed);
        return roots;
}

int64_t
weir__thread_set_roots(const struct weir__thread_set *set)
{
        weir__lock(set->lock);
        int64_t roots = sum_roots(set);
        weir__unlock(set->lock);
        return roots;
}

void
weir__thread_set_free(struct weir__thread_set *set)
{
        unsigned structs = set->structs;

        weir__lock(set->lock); /* other threads may look at the structs under it */
        set->freed_roots = sum_roots(set);
        set->structs = set->here = 0;
        atomic_store_explicit(&set->count, 0, memory_order_release);
        weir__unlock(set->lock);
        for (unsigned i = 0; i < structs; i++)
                free(atomic_exchange_explicit(&set->slots[i], NULL, memory_order_relaxed));
}

/* Another thread of the parent may have been about to make a thread: its struct is lost. */
void
weir__thread_set_forked(struct weir__thread_set *set)
{
        set->structs = set->here = 0;
        set->freed_roots = 0;
        set->ended = NULL;
        atomic_store(&set->count, 0);
}
