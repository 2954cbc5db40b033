/* factory/task/series_names.c: series by name: set, cancel, count.
 *
 * Threads: any.
 * Locks:   the shard's (rank NAMES), alone or under that of the series whose name is set or left.
 *
 * A series is in the map from weir_series_set_name until its last task has ended.  It leaves under its own lock, in the
 * step that makes it ENDED.  So a series that is found there has not ended and has its own reference, and a thread that
 * holds the lock of the shard may take another one.  A cancel takes the lock of the series, which comes before that of
 * the shard.  So it is done outside, some series at a time. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "factory/task/series_extra.h"
#include "factory/names/names.h"
#include "kernel/memory/memory.h"
#include "kernel/base/phase.h"

#define TAKEN_AT_ONCE   64  /* series, between two holds of the lock */
#define COUNTED_AT_ONCE 256 /* zombies, in one hold */

static struct weir__series_name *
bearer_of(struct weir__name *name)
{
        return weir__container_of(name, struct weir__series_name, name);
}

static size_t
size_of_name(size_t text_size)
{
        return WEIR__NAME_SIZE(offsetof(struct weir__series_name, name), text_size);
}

/* -- bearing a name -- */

static void
free_name(struct weir__series_extra *extra)
{
        struct weir__series_name *name = extra->own_name;

        extra->own_name = NULL;
        weir__free(name, size_of_name(name->name.size));
}

/* The series leaves its name, if it has one.  Under its lock. */
static void
leave_name(struct weir__series_extra *extra)
{
        if (extra->is_name_past || !extra->own_name)
                return;
        weir__names_remove(&weir__series_names, &extra->own_name->name);
        free_name(extra);
}

void
weir__series_name_end(struct weir__series_extra *extra, bool is_needed)
{
        if (!is_needed) {
                leave_name(extra);
                return;
        }
        weir__names_remove(&weir__series_names, &extra->own_name->name);
        extra->is_name_past = true;
}

void
weir__series_name_forget(struct weir__series_extra *extra)
{
        if (extra->is_name_past && extra->own_name)
                free_name(extra);
}

void
weir__series_extra_free(struct weir__series_extra *extra)
{
        weir__series_name_forget(extra);
        weir__free(extra, sizeof *extra);
}

const char *
weir__series_past_name(const struct weir__work *work, int *size)
{
        const struct weir__series_extra *extra = weir__series_extra_of((const struct weir_series *)work);
        const struct weir__series_name *name = extra && extra->is_name_past ? extra->own_name : NULL;

        *size = name ? (int)name->name.size : 0;
        return name ? name->name.text : NULL;
}

static int
take_name(struct weir_series *series, const char *text, size_t size)
{
        struct weir__name_key key = weir__name_key(text, size);
        struct weir__series_extra *extra = weir__series_extra_get(series);
        struct weir__series_name *made = extra ? weir__alloc(size_of_name(size)) : NULL;

        if (!made)
                return -ENOMEM;
        made->series = series;
        weir__lock(&series->lock);
        int failed = series->state == WEIR__SERIES_ENDED ? -ESTALE : 0;
        if (!failed && !weir__names_add(&weir__series_names, &made->name, &key))
                failed = -ENOMEM;
        if (!failed) {
                leave_name(extra);
                extra->own_name = made;
        }
        weir__unlock(&series->lock);
        if (failed)
                weir__free(made, size_of_name(size));
        return failed;
}

static int
drop_name(struct weir_series *series)
{
        weir__lock(&series->lock);
        struct weir__series_extra *extra = weir__series_extra_of(series);
        bool is_stale = series->state == WEIR__SERIES_ENDED;
        if (extra)
                leave_name(extra);
        weir__unlock(&series->lock);
        return is_stale ? -ESTALE : 0;
}

int
weir_series_set_name(weir_series *series, const char *name)
{
        size_t size = name ? strlen(name) : 0;

        weir__memory_expect(series);
        if (!series)
                return -EINVAL;
        if (name && (size == 0 || size > WEIR_NAME_MAX))
                weir__name_refuse("a series", size == 0 ? -EINVAL : -ENAMETOOLONG);
        if (name && size == 0)
                return -EINVAL;
        if (weir__phase_is_forked())
                return -ECHILD;
        if (size > WEIR_NAME_MAX)
                return -ENAMETOOLONG;
        return name ? take_name(series, name, size) : drop_name(series);
}

/* -- whose name it is -- */

/* The name of that series, if it is of the same text as this one; or NULL.  Under the lock of the shard. */
static const struct weir__name *
find_bearer(struct weir__name *oldest, const struct weir_series *series)
{
        for (struct weir__name *name = oldest; name; name = weir__name_alive(name->newer))
                if (bearer_of(name)->series == series)
                        return name;
        return NULL;
}

static bool
find_in_shard(unsigned index, const struct weir_series *series, char *out, size_t room)
{
        struct weir__names_shard *shard = &weir__series_names.shards[index];
        struct weir__names_scan scan = weir__names_scan_begin(index);
        const struct weir__name *found = NULL;
        bool done = false;

        weir__lock(&shard->lock);
        while (!done && !found) {
                unsigned budget = COUNTED_AT_ONCE;
                struct weir__name *oldest = weir__names_scan(shard, &scan, &budget, &done);

                if (oldest)
                        found = find_bearer(oldest, series);
        }
        if (found)
                snprintf(out, room, "%s", found->text);
        weir__unlock(&shard->lock);
        return found;
}

void
weir__series_find_name(const struct weir_series *series, char *out, size_t room)
{
        *out = '\0';
        for (unsigned i = 0; i < WEIR__NAMES_SHARDS; i++)
                if (find_in_shard(i, series, out, room))
                        return;
}

/* -- cancel, count -- */

/* Takes series from the cursor on, each with a reference. */
static unsigned
take_some(struct weir__names_walk *walk, struct weir_series *taken[TAKEN_AT_ONCE], size_t most)
{
        unsigned count = 0;

        for (struct weir__name *name; count < most && count < TAKEN_AT_ONCE && (name = weir__names_walk_at(walk));) {
                taken[count++] = weir_series_ref(bearer_of(name)->series);
                weir__names_walk_on(walk);
        }
        return count;
}

/* A series with a cause becomes a zombie of its name, so the next cancel does not meet it. */
static void
make_name_zombie(const struct weir_series *series)
{
        const struct weir__series_extra *extra = weir__series_extra_of(series);
        struct weir__series_name *name = extra->is_name_past ? NULL : extra->own_name;

        if (!name)
                return;
        struct weir__names_shard *shard = weir__names_lock(&weir__series_names, name->name.hash);
        if (weir__name_alive(&name->name))
                weir__names_make_zombie(shard, &name->name);
        weir__names_unlock(shard);
}

/* Returns whether this call has cancelled it. */
static bool
cancel(struct weir_series *series)
{
        bool given;

        weir__lock(&series->lock);
        struct weir_task *ended = weir__series_end_early_locked(series, -ECANCELED, &given);
        make_name_zombie(series);
        weir__unlock(&series->lock);
        weir__task_deliver_home(ended);
        weir_series_unref(series);
        return given;
}

size_t
weir_series_cancel_named(const char *name, size_t max)
{
        struct weir_series *taken[TAKEN_AT_ONCE];
        struct weir__names_walk walk;
        struct weir__name_key key;
        size_t cancelled = 0;

        if (weir__phase_is_forked() || weir__name_read(name, &key))
                return 0;
        struct weir__names_shard *shard = weir__names_lock(&weir__series_names, key.hash);
        weir__names_walk_begin(shard, &walk, &key, false);
        while (cancelled < max && weir__names_walk_at(&walk)) {
                unsigned count = take_some(&walk, taken, max - cancelled);

                weir__names_unlock(shard);
                for (unsigned i = 0; i < count; i++)
                        cancelled += cancel(taken[i]);
                weir__names_lock(&weir__series_names, key.hash);
        }
        weir__names_walk_end(shard, &walk);
        weir__names_unlock(shard);
        return cancelled;
}

static size_t
count_zombies(struct weir__names_shard *shard, const struct weir__name_key *key)
{
        struct weir__names_walk walk;
        size_t count = 0;

        weir__names_walk_begin(shard, &walk, key, true);
        while (weir__names_walk_at(&walk)) {
                weir__names_walk_on(&walk); /* before the pause, in which others may move the cursor */
                if (++count % COUNTED_AT_ONCE > 0)
                        continue;
                weir__names_unlock(shard);
                weir__names_lock(&weir__series_names, key->hash);
        }
        weir__names_walk_end(shard, &walk);
        return count;
}

size_t
weir_series_count(const char *name)
{
        struct weir__name_key key;

        if (weir__phase_is_forked() || weir__name_read(name, &key))
                return 0;
        struct weir__names_shard *shard = weir__names_lock(&weir__series_names, key.hash);
        const struct weir__name *oldest = weir__names_find(shard, &key);
        size_t count = (oldest ? oldest->count : 0) + count_zombies(shard, &key);
        weir__names_unlock(shard);
        return count;
}
