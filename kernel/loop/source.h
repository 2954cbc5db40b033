/* kernel/loop/source.h: descriptors that are registered with a poller. */
#ifndef WEIR_KERNEL_SOURCE_H
#define WEIR_KERNEL_SOURCE_H

#include <stdint.h>
#include <sys/epoll.h>

#define WEIR__SLOT_NONE UINT32_MAX

struct weir__poller;
struct weir__source;

/* What a descriptor's owner wants to be told.  All are called by the owner of the poller, from its loop, with no lock held. */
struct weir__source_ops {
        void (*ready)(struct weir__source *source, uint32_t events); /* epoll's, edge-triggered */
        void (*shutdown)(struct weir__source *source);               /* the runtime is ending: finish, then remove yourself */
        void (*destroy)(struct weir__source *source);                /* it has ended: remove yourself now */
};

/* A descriptor registered with a poller, edge-triggered, once.  Owner only. */
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

/* Has epoll tell of a descriptor, edge-triggered, with that data.  Result: 0 or a negative errno.  Owner only. */
int weir__poller_watch(struct weir__poller *poller, int fd, uint32_t events, uint64_t data);

/* Registers a non-blocking descriptor for input, output and hang-up, edge-triggered: a first event tells what it is ready for.
 * Result:  0, or -ENOMEM, -ENOSPC: nothing is registered.  Owner only. */
int weir__poller_add_source(struct weir__poller *poller, struct weir__source *source, uint32_t events);

/* Forgets a source; its descriptor stays open.  Events already on their way are dropped.  Owner only. */
void weir__poller_remove_source(struct weir__poller *poller, struct weir__source *source);

/* The same for a descriptor that others have too, of this process or another: close alone would leave epoll watching. */
void weir__poller_withdraw_source(struct weir__poller *poller, struct weir__source *source);

/* Calls shutdown (or destroy) of every source.  Owner only. */
void weir__poller_shutdown_sources(struct weir__poller *poller);
void weir__poller_destroy_sources(struct weir__poller *poller);

/* Has what the events are of fetched from memory, all at once: of many connections each is out of the caches.  Owner only. */
void weir__poller_prefetch(const struct weir__poller *poller, const struct epoll_event *events, int count);

/* Tells the source of an event, if it is there still; other descriptors of the poller just wake it.  Owner only. */
void weir__poller_dispatch(struct weir__poller *poller, const struct epoll_event *event);

#endif
