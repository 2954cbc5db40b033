/* server/base/users.h: counts the users of a server's memory: its listeners and connections, their work that is on its way, and
 * the server itself.  The server counts from start to stop, so the count reaches 0 once. */
#ifndef WEIR_SERVER_USERS_H
#define WEIR_SERVER_USERS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include <weir/time.h>

struct weir__users {
        _Atomic size_t count; /* acq_rel: the thread that brings it to 0 has seen the end of all */
        int quiet_fd;         /* eventfd, constant: written when the count reaches 0 */
};

static inline void weir__users_add(struct weir__users *users)
{
        atomic_fetch_add_explicit(&users->count, 1, memory_order_relaxed);
}

/* For the last user this is the last touch of the server. */
void weir__users_remove(struct weir__users *users);

/* Waits until the count is 0.  Returns false at the given time, or when impatient_fd (-1: none) is readable.  Time is real
 * here: it is a limit for people. */
bool weir__users_wait(struct weir__users *users, weir_nsec until, int impatient_fd);

#endif
