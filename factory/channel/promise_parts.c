/* factory/channel/promise_parts.c: the promises that wait: how a shutdown ends them, how dumps find them.
 *
 * Threads: any.
 * Locks:   a part's (a leaf), for some hundred promises at most.  A dump has the `describe` of a kind called under it.
 *
 * A walk has no reference to the promise where it stands.  If that promise is unlinked, the walk is moved on. */
#include "factory/channel/promise.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "factory/sync/waitable.h"
#include "kernel/base/phase.h"
#include "kernel/data/visible.h"

#define PARTS WEIR__PROMISE_PARTS

#define LABEL_LEAST 12 /* bytes of a label that is cut */

struct weir__promise_part weir__promise_parts[PARTS] = {[0 ... PARTS - 1] = {.lock = WEIR__LOCK_INITIALIZER(WEIR__RANK_LEAF)}};

/* -- the shutdown: those that nobody ends -- */

/* Returns whether there are more.  One that a cancel has claimed may be gone once it is unlinked. */
static bool
end_some(struct weir__promise_part *part)
{
        struct weir__work_list claimed = {0};
        struct weir__link *link;

        weir__lock(&part->lock);
        for (unsigned i = 0; i < WEIR__WAITS_AT_ONCE && (link = weir__list_first(&part->pending)); i++) {
                struct weir__promise *self = weir__container_of(link, struct weir__promise, link);

                if (weir__wait_claim(&self->task)) {
                        self->task.status = -ESHUTDOWN;
                        weir__work_append(&claimed, &self->task.work);
                }
                weir__promise_unlink(part, self);
        }
        bool more = part->count > 0;
        weir__unlock(&part->lock);
        weir__wait_deliver_all(&claimed);
        return more;
}

static void
end_all(void)
{
        for (unsigned i = 0; i < PARTS; i++)
                while (end_some(&weir__promise_parts[i]))
                        continue;
}

/* -- forks -- */

static void
before_fork(void)
{
        for (unsigned i = 0; i < PARTS; i++)
                weir__lock_hold(&weir__promise_parts[i].lock);
}

static void
after_fork(void)
{
        for (unsigned i = 0; i < PARTS; i++)
                weir__unlock(&weir__promise_parts[i].lock);
}

/* The threads that dumped are not there. */
static void
become_child(void)
{
        for (unsigned i = 0; i < PARTS; i++)
                weir__promise_parts[i].walks = NULL;
        after_fork();
}

WEIR__STEPS_OF(WEIR__MODULE_PROMISES, [WEIR__STEP_SHUTDOWN] = end_all, [WEIR__STEP_BEFORE_FORK] = before_fork,
               [WEIR__STEP_AFTER_FORK] = after_fork, [WEIR__STEP_IN_CHILD] = become_child);

/* -- dumps -- */

/* A label that is cut ends with three dots. */
void
weir__promise_write(const struct weir__promise *self, size_t most, char *text, size_t room)
{
        char its[160];
        size_t size = self->label_size;

        weir__task_ops(&self->task)->describe(&self->task, its, sizeof its);
        size_t others = strlen(its) + strlen("\"\" ");
        bool is_cut = size > 0 && size + others > most;
        if (is_cut)
                size = weir__utf8_cut(self->label, size, most > others + LABEL_LEAST + 3 ? most - others - 3 : LABEL_LEAST);
        if (size > 0)
                snprintf(text, room, "\"%.*s%s\"%s%s", (int)size, self->label, is_cut ? "..." : "", *its ? " " : "", its);
        else
                snprintf(text, room, "%s", its);
}

static void
write_view(const struct weir__promise *self, struct weir__promise_view *view)
{
        uint32_t word = atomic_load_explicit(&self->task.word, memory_order_relaxed);

        view->promise = self;
        view->is_lone = word == WEIR__PENDING && !self->task.series;
        weir__promise_write(self, SIZE_MAX, view->text, sizeof view->text);
}

static void
enter_part(struct weir__promise_part *part, struct weir__promise_walk *walk)
{
        walk->is_within = true;
        walk->left = part->count;
        walk->at = weir__list_first(&part->pending);
        walk->next = part->walks;
        part->walks = walk;
}

static void
quit_part(struct weir__promise_part *part, struct weir__promise_walk *walk)
{
        struct weir__promise_walk **at = &part->walks;

        while (*at != walk)
                at = &(*at)->next;
        *at = walk->next;
        walk->is_within = false;
}

bool
weir__promise_walk_on(struct weir__promise_walk *walk, struct weir__promise_view *view)
{
        bool is_there = false;

        while (walk->part < PARTS && !is_there) {
                struct weir__promise_part *part = &weir__promise_parts[walk->part];

                weir__lock(&part->lock);
                if (!walk->is_within)
                        enter_part(part, walk);
                is_there = walk->at && walk->left > 0;
                if (is_there) {
                        write_view(weir__container_of(walk->at, struct weir__promise, link), view);
                        walk->at = weir__list_next(&part->pending, walk->at);
                        walk->left--;
                } else {
                        quit_part(part, walk);
                        walk->part++;
                }
                weir__unlock(&part->lock);
        }
        return is_there;
}

void
weir__promise_walk_end(struct weir__promise_walk *walk)
{
        if (!walk->is_within)
                return;
        weir__lock(&weir__promise_parts[walk->part].lock);
        quit_part(&weir__promise_parts[walk->part], walk);
        weir__unlock(&weir__promise_parts[walk->part].lock);
}
