/* kernel/loop/source.h: descriptors that are registered with a poller. */
#ifndef WEIR_KERNEL_SOURCE_H
#define WEIR_KERNEL_SOURCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/epoll.h>

#define WEIR__SLOT_NONE   (UINT32_MAX >> 2) /* more than there are descriptors */
#define WEIR__SLOT_SIGNAL (UINT64_MAX - 3) /* epoll data of the descriptor that reports signals; from here on data is our own */

/* No event of epoll: the descriptor was closed behind the back of its source, and a source of another kind was added for its
 * number.  It happens to descriptors of the program only. */
#define WEIR__EVENT_DISPLACED (UINT32_C(1) << 26)

/* No event of epoll: among those that it is asked for, it says that they are level-triggered. */
#define WEIR__EVENT_LEVEL (UINT32_C(1) << 25)

/* Nor is this: weir__source_rearm is never called for the source.  Then the poller notes its number only if another source has
 * had it. */
#define WEIR__EVENT_STEADY (UINT32_C(1) << 24)

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
        uint32_t slot : 30;           /* in the poller's table */
        bool is_last : 1, is_pipe : 1; /* of a stream, as kernel/socket/stream.h says: here they cost nothing */
};

/* A slot of the table of sources.  Epoll's data is slot and generation, never a pointer: an event for a source that was removed
 * while it was on its way finds another generation.  It has no padding, as each connection has a slot. */
struct weir__source_slot {
        union {
                struct weir__source *source;
                uintptr_t next_free; /* twice the number of the next free slot, and 1 */
        };
        uint32_t generation; /* another one as long as it is free */
} __attribute__((packed, aligned(4)));

/* The source in a slot; NULL: it is free. */
static inline struct weir__source *weir__slot_source(const struct weir__source_slot *slot)
{
        return slot->next_free & 1 ? NULL : slot->source;
}

/* Registers a descriptor with epoll, edge-triggered or WEIR__EVENT_LEVEL, with that data.  Result: 0 or a negative errno.  The
 * owner, or any thread while the runtime is up. */
int weir__sources_register(struct weir__poller *poller, int fd, uint32_t events, uint64_t data);

/* Registers a descriptor for these events, perhaps WEIR__EVENT_STEADY: a first event reports what it is ready for.
 * Result:  0; or -ENOMEM, -ENOSPC, -EPERM (a file that epoll cannot watch), -EEXIST, -EBADF: nothing is registered.
 *          Owner only. */
int weir__source_add(struct weir__poller *poller, struct weir__source *source, uint32_t events);

/* The same, but tells no source that it is displaced.  *before: that source; NULL: none. */
int weir__source_add_over(struct weir__poller *poller, struct weir__source *source, uint32_t events,
                          struct weir__source **before);

/* Asks epoll for other events of a source, and whether they are there already: for one that was added with EPOLLONESHOT.  Result:
 * 0; -EBADF or -ENOENT: the descriptor was closed, and its number may be another file's; -ENOMEM.  Owner only. */
int weir__source_rearm(struct weir__poller *poller, const struct weir__source *source, uint32_t events);

/* Forgets a source; its descriptor stays open.  Events already on their way are dropped.  Owner only. */
void weir__source_remove(struct weir__poller *poller, struct weir__source *source);

/* The same for a descriptor that others have as well, in this process or another one: epoll would watch it on after close.  If
 * epoll refuses, nothing depends on it: what it still reports finds another generation, which costs a pass of the loop, and a
 * source that is added for the same file later takes the registration over. */
void weir__source_withdraw(struct weir__poller *poller, struct weir__source *source);

/* The next source from that slot on, which is set to the one behind it; NULL: that was all.  Owner only. */
struct weir__source *weir__source_next(const struct weir__poller *poller, uint32_t *slot);

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
