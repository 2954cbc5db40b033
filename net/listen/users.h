/* net/listen/users.h: counts the users of a server's memory: its listeners and connections, their work that is on its way, and
 * the server itself.  The server counts from start to stop, so the count reaches 0 once. */
#ifndef WEIR_NET_USERS_H
#define WEIR_NET_USERS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include <weir/time.h>

struct weir__server;

struct weir__users {
        _Atomic size_t count; /* acq_rel: the thread that brings it to 0 has seen the end of all */
        int quiet_fd;         /* eventfd, constant: written when the count reaches 0 */
};

static inline void weir__users_add(struct weir__users *users)
{
        atomic_fetch_add_explicit(&users->count, 1, memory_order_relaxed);
}

/* For a thread that is not a user itself.  Returns false if the last user is gone. */
static inline bool weir__users_try_add(struct weir__users *users)
{
        size_t count = atomic_load_explicit(&users->count, memory_order_relaxed);

        while (count && !atomic_compare_exchange_weak_explicit(&users->count, &count, count + 1, memory_order_acq_rel,
                                                               memory_order_relaxed))
                ;
        return count;
}

/* For the last user this is the last touch of the server. */
void weir__users_remove(struct weir__users *users);

/* Waits until the count is 0, and calls `say` once a second.  Returns false at the given time, or when impatient_fd (-1: none) is
 * readable.  Time is real here: it is a limit for people. */
bool weir__users_wait(struct weir__server *server, weir_nsec until, int impatient_fd,
                      void (*say)(const struct weir__server *server));

/* -- the memory of the server itself: of its struct and its branches -- */

/* Any thread that may use the server.  The last unref frees it. */
void weir__server_ref(struct weir__server *server);
void weir__server_unref(struct weir__server *server);

/* Its branches are of the past.  If something detached knows them, they are freed with the server.  The thread that starts or
 * stops it. */
void weir__server_drop_branches(struct weir__server *server);

#endif
