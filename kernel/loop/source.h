/* kernel/loop/source.h: descriptors that are registered with a poller. */
#ifndef WEIR_KERNEL_SOURCE_H
#define WEIR_KERNEL_SOURCE_H

#include <stdint.h>
#include <sys/epoll.h>

#define WEIR__SLOT_NONE   UINT32_MAX
#define WEIR__SLOT_SIGNAL (UINT64_MAX - 3) /* epoll data of the descriptor that reports signals; from here on data is our own */

/* No event of epoll: the descriptor was closed behind the back of its source, and a source of another kind was added for its
 * number.  It happens to descriptors of the program only. */
#define WEIR__EVENT_DISPLACED (UINT32_C(1) << 26)

/* No event of epoll: among those that it is asked for, it says that they are level-triggered. */
#define WEIR__EVENT_LEVEL (UINT32_C(1) << 25)

struct weir__poller;
struct weir__source;

/* The callbacks of a source.  The owner of the poller calls them from its loop, with no lock held. */
struct weir__source_ops {
        void (*ready)(struct weir__source *source, uint32_t events); /* epoll's, or DISPLACED */
        void (*shutdown)(struct weir__source *source);               /* the runtime is ending: finish, then remove the source */
        void (*destroy)(struct weir__source *source);                /* it has ended: remove the source now */
};

/* A descriptor registered with a poller, once.  Owner only. */
struct weir__source {
        const struct weir__source_ops *ops;
        int fd;
        uint32_t slot; /* in the poller's table */
};

/* A slot of the table of sources.  Epoll's data is slot and generation, never a pointer: an event for a source that was removed
 * while it was on its way finds another generation. */
struct weir__source_slot {
        struct weir__source *source; /* NULL: free */
        uint32_t generation;
        uint32_t next_free;
};

/* Registers a descriptor with epoll, edge-triggered or WEIR__EVENT_LEVEL, with that data.  Result: 0 or a negative errno.  The
 * owner, or any thread while the runtime is up. */
int weir__sources_register(struct weir__poller *poller, int fd, uint32_t events, uint64_t data);

/* Registers a descriptor for these events: a first event reports what it is ready for.
 * Result:  0; or -ENOMEM, -ENOSPC, -EPERM (a file that epoll cannot watch), -EEXIST, -EBADF: nothing is registered.
 *          Owner only. */
int weir__source_add(struct weir__poller *poller, struct weir__source *source, uint32_t events);

/* Asks epoll for other events of a source, and whether they are there already: for one that was added with EPOLLONESHOT.  Result:
 * 0; -EBADF or -ENOENT: the descriptor was closed, and its number may be another file's; -ENOMEM.  Owner only. */
int weir__source_rearm(struct weir__poller *poller, const struct weir__source *source, uint32_t events);

/* Forgets a source; its descriptor stays open.  Events already on their way are dropped.  Owner only. */
void weir__source_remove(struct weir__poller *poller, struct weir__source *source);

/* The same for a descriptor that others have as well, in this process or another one: epoll would watch it on after close.  If
 * epoll refuses, nothing depends on it: what it still reports finds another generation, which costs a turn of the loop, and a
 * source that is added for the same file later takes the registration over. */
void weir__source_withdraw(struct weir__poller *poller, struct weir__source *source);

/* The source that was registered last for that number, if it is still there; else NULL.  Owner only. */
struct weir__source *weir__source_of_number(const struct weir__poller *poller, int fd);

/* Calls shutdown (or destroy) of every source.  Owner only. */
void weir__sources_shutdown(struct weir__poller *poller);
void weir__sources_destroy(struct weir__poller *poller);

/* Frees the tables. */
void weir__sources_close(struct weir__poller *poller);

/* Prefetches the sources of events, all at once: with many connections none of them is in the caches.  Owner only. */
void weir__sources_prefetch(const struct weir__poller *poller, const struct epoll_event *events, int count);

/* Sets what WEIR__SLOT_SIGNAL calls, on the owner.  Before there are pollers. */
void weir__sources_on_signal(void (*fn)(void));

/* Calls the source of an event, if it is still there.  Other descriptors of the poller only wake it.  Owner only. */
void weir__sources_dispatch(struct weir__poller *poller, const struct epoll_event *event);

#endif
