/* io/base/fd_closed.c: descriptors that the program has closed while a task waited for them.
 *
 * Threads: the owner of each poller.
 * Locks:   none.
 *
 * The system tells nobody that a descriptor was closed: epoll forgets it without a word, and a task would wait for ever.  So the
 * owner looks at the descriptors that are waited for: 1 second after one was waited for first, 10 seconds later, and then each
 * 100 seconds.  A poller without such descriptors makes no wake-ups for that.  On the virtual clock these alarms would make time
 * pass, so nobody looks there. */
#include "io/base/fd.h"

#include "kernel/base/clock.h"
#include "kernel/base/phase.h"
#include "kernel/loop/pollers.h"
#include "kernel/worker/deliver.h"

#define FIRST_LOOK   WEIR_SEC(1)
#define LAST_LOOK    WEIR_SEC(100)
#define LOOK_AT_ONCE 64 /* descriptors; a look is a system call */

/* Owner of the poller only. */
struct looks {
        struct weir__list waited; /* descriptors, by `waited` */
        size_t count;
        bool (*check)(struct weir_fd *fd);
        size_t left;        /* of them, in the look that goes on now */
        bool is_set;        /* the alarm, or its work is on its way */
        weir_nsec interval; /* from one look to the next */
        weir_nsec next;     /* when the alarm comes */
        struct weir__alarm alarm;
};

static struct looks all[WEIR__POLLERS_MAX];

static void look(struct weir__work *work);

static const struct weir__work_ops look_ops = {.run = look};

static void
look_after(struct looks *looks, weir_nsec interval)
{
        struct weir__poller *poller = weir__poller_at((unsigned)(looks - all));
        weir_nsec next = weir__clock_after(weir__clock_now(), interval);

        if (looks->is_set && looks->next <= next)
                return;
        looks->alarm.work.ops = &look_ops;
        looks->interval = interval;
        looks->next = next;
        looks->is_set = weir__alarm_set(poller, &looks->alarm, next);
}

static struct weir_fd *
next_to_look_at(struct looks *looks)
{
        struct weir__link *link = looks->left ? weir__list_pop(&looks->waited) : NULL;

        if (!link)
                return NULL;
        looks->left--;
        weir__list_append(&looks->waited, link);
        return weir__container_of(link, struct weir_fd, waited);
}

static void
look(struct weir__work *work)
{
        struct looks *looks = weir__container_of(work, struct looks, alarm.work);
        struct weir_fd *fd;

        looks->next = 0;
        if (!looks->left)
                looks->left = looks->count;
        for (unsigned i = 0; i < LOOK_AT_ONCE && (fd = next_to_look_at(looks)); i++)
                (void)looks->check(fd);
        if (looks->left && !weir__phase_is_stopping()) {
                weir__deliver_requeued(weir__poller_at((unsigned)(looks - all)), work);
                return;
        }
        looks->left = 0;
        looks->is_set = false;
        if (looks->count && !weir__phase_is_stopping())
                look_after(looks, looks->interval < LAST_LOOK ? 10 * looks->interval : LAST_LOOK);
}

void
weir__fd_begin_looks(struct weir_fd *fd, struct weir__poller *poller, bool is_first, bool check(struct weir_fd *fd))
{
        struct looks *looks = &all[poller->index];

        if (weir__link_is_used(&fd->waited))
                return;
        weir__list_append(&looks->waited, &fd->waited);
        looks->count++;
        looks->check = check;
        bool is_soon = looks->is_set && looks->interval == FIRST_LOOK;
        if ((is_first || !looks->is_set) && !is_soon && !weir__clock_is_virtual())
                look_after(looks, FIRST_LOOK);
}

void
weir__fd_end_looks(struct weir_fd *fd)
{
        struct looks *looks = &all[weir__poller_at(atomic_load_explicit(&fd->poller, memory_order_relaxed))->index];

        if (!weir__link_is_used(&fd->waited))
                return;
        weir__link_remove(&fd->waited);
        looks->count--;
        if (looks->left > looks->count)
                looks->left = looks->count;
}
