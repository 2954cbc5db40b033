/* factory/task/series_extra.c: the memory of a series: references, context, and what only few series have.
 *
 * Threads: any that owns, borrows or has a reference.
 * Locks:   series->lock (rank SERIES) guards the extra. */
#include "factory/task/series_extra.h"

#include "kernel/memory/memory.h"
#include "kernel/worker/user.h"

weir_series *
weir_series_ref(weir_series *series)
{
        weir__memory_expect(series);
        return weir__series_ref(series);
}

void
weir_series_unref(weir_series *series)
{
        if (!series)
                return;
        /* Only a thread with a reference can make another one, so dropping the last one costs no atomic operation. */
        if (atomic_load_explicit(&series->references, memory_order_acquire) > 1 &&
            atomic_fetch_sub_explicit(&series->references, 1, memory_order_acq_rel) > 1)
                return;
        struct weir__series_extra *extra = weir__series_extra_of(series);
        if (extra)
                weir__series_extra_free(extra);
        if (__builtin_expect(series->is_part, 0))
                ((const struct weir__series_ops *)series->work.ops)->free_memory(series);
        else
                weir__free(series, weir__series_size(series));
}

/* -- around others -- */

void
weir__series_around_init(struct weir_series *within)
{
        *within = (struct weir_series){.state = WEIR__SERIES_RUNNING};
        weir__lock_init(&within->lock, WEIR__RANK_SERIES);
}

struct weir_series *
weir__series_around(void)
{
        struct weir_series *within = weir__alloc(sizeof *within);

        if (within)
                weir__series_around_init(within);
        return within;
}

void
weir__series_around_free(struct weir_series *within)
{
        if (within)
                weir__free(within, sizeof *within);
}

/* One that runs nothing has no work, and nobody else knows it. */
weir_series *
weir_series_parent(const weir_series *series)
{
        weir__memory_expect(series);
        struct weir_series *parent = series ? series->parent : NULL;

        while (parent && !parent->work.ops)
                parent = parent->parent;
        return parent;
}

/* -- the context -- */

static _Atomic(struct weir_series *) kept[WEIR__KEPT];

void
weir__series_unref_kept(void)
{
        for (unsigned i = 0; i < WEIR__KEPT; i++)
                weir_series_unref(atomic_exchange(&kept[i], NULL));
}

void
weir__series_unref_later(struct weir_series *series)
{
        static _Atomic unsigned next;

        if (!weir__memory_is_watched)
                series = atomic_exchange(&kept[atomic_fetch_add_explicit(&next, 1, memory_order_relaxed) % WEIR__KEPT], series);
        weir_series_unref(series);
}

void *
weir_series_context(const weir_series *series)
{
        weir__memory_expect(series);
        return series ? series->context : NULL;
}

void
weir_series_set_context(weir_series *series, void *context, weir_free_fn *fn)
{
        weir__memory_expect(series);
        if (!series) {
                if (fn)
                        weir__user_call(fn, context);
                return;
        }
        if (series->free_context && series->context != context)
                weir__user_call(series->free_context, series->context);
        series->context = context;
        series->free_context = fn;
}

/* -- what few series have -- */

struct weir__series_extra *
weir__series_extra_get(struct weir_series *series)
{
        struct weir__series_extra *extra = weir__series_extra_of(series), *made = extra ? NULL : weir__alloc(sizeof *made);

        if (!made)
                return extra;
        *made = (struct weir__series_extra){.series = series};
        atomic_init(&made->deadline, WEIR_FOREVER);
        weir__lock(&series->lock);
        extra = weir__series_extra_of(series);
        if (!extra)
                atomic_store_explicit(&series->extra, made, memory_order_release);
        weir__unlock(&series->lock);
        if (!extra)
                return made;
        weir__free(made, sizeof *made);
        return extra;
}

void
weir__series_give_up_holds(struct weir_series *series)
{
        struct weir__series_extra *extra = weir__series_extra_of(series);

        for (;;) {
                weir__lock(&series->lock);
                struct weir__series_hold *hold = extra->holds;
                if (hold)
                        extra->holds = hold->next;
                weir__unlock(&series->lock);
                if (!hold)
                        return;
                hold->give_up(hold);
        }
}

/* -- traces -- */

struct weir__trace_flow *
weir__series_trace_flow(struct weir_series *series)
{
        struct weir__series_extra *extra = series ? weir__series_extra_get(series) : NULL;

        return extra ? &extra->trace : NULL;
}

void
weir__series_trace(struct weir_series *series, struct weir__trace_slice *slice)
{
        const struct weir__series_extra *parent = series && series->parent ? weir__series_extra_of(series->parent) : NULL;

        weir__trace_begin(slice, weir__series_trace_flow(series), parent ? &parent->trace : NULL);
}
