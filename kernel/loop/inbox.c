/* kernel/loop/inbox.c: work that other threads push to a poller, and the mark by which they know that its owner sleeps.
 *
 *     NULL --push--> work items --take--> NULL --mark--> SLEEPING --push or wake, which writes the eventfd--> work items or NULL
 *                                                      '-----take, when the owner wakes for another reason--> NULL
 *
 * Threads: any thread pushes and wakes; the owner marks and takes.
 * Locks:   none.
 *
 * The thread that replaces SLEEPING writes the eventfd, and no other: one write per sleep.
 * kernel/loop/sleep.c says in which order the owner marks its inbox and looks at its deadlines. */
#include "kernel/loop/inbox.h"

#include <errno.h>
#include <sys/eventfd.h>

struct weir__work weir__inbox_sleeping;

int
weir__inbox_init(struct weir__inbox *inbox)
{
        inbox->event_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
        return inbox->event_fd < 0 ? -errno : 0;
}

void
weir__inbox_push(struct weir__inbox *inbox, struct weir__work *work)
{
        struct weir__work *head = atomic_load_explicit(&inbox->head, memory_order_relaxed);

        do {
                work->next = head == WEIR__SLEEPING ? NULL : head;
        } while (!atomic_compare_exchange_weak_explicit(&inbox->head, &head, work, memory_order_release, memory_order_relaxed));
        if (head == WEIR__SLEEPING)
                eventfd_write(inbox->event_fd, 1);
}

void
weir__inbox_wake(struct weir__inbox *inbox)
{
        struct weir__work *expected = WEIR__SLEEPING;

        if (atomic_load_explicit(&inbox->head, memory_order_seq_cst) == WEIR__SLEEPING &&
            atomic_compare_exchange_strong_explicit(&inbox->head, &expected, NULL, memory_order_seq_cst, memory_order_relaxed))
                eventfd_write(inbox->event_fd, 1);
}

bool
weir__inbox_mark_sleeping(struct weir__inbox *inbox)
{
        struct weir__work *expected = NULL;

        return atomic_compare_exchange_strong_explicit(&inbox->head, &expected, WEIR__SLEEPING, memory_order_seq_cst,
                                                       memory_order_relaxed);
}

unsigned
weir__inbox_take(struct weir__inbox *inbox, struct weir__work_list *list)
{
        struct weir__work_list taken = {0};
        unsigned count = 0;

        if (!atomic_load_explicit(&inbox->head, memory_order_relaxed))
                return 0;
        struct weir__work *work = atomic_exchange_explicit(&inbox->head, NULL, memory_order_acquire);
        for (; work && work != WEIR__SLEEPING; count++) {
                struct weir__work *older = work->next;

                weir__work_prepend(&taken, work);
                work = older;
        }
        weir__work_concat(list, &taken);
        return count;
}
