/* net/resolve/resolve.h: the resolver, for tasks that need the addresses of a name.
 *
 *     struct weir__resolving wait = {.answered = go_on};
 *     struct weir__answer *answer = weir__resolve_start(&wait, poller, "example.org", 0, true);
 *
 *     if (answer)
 *             go_on(&wait, answer);       at once: from the cache, or a failure
 *     ...
 *     weir__resolve_leave(&wait);         it is not wanted any more */
#ifndef WEIR_NET_RESOLVE_H
#define WEIR_NET_RESOLVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weir/resolve.h>

#include "kernel/loop/pollers.h"
#include "net/resolve/answer.h"

/* Owner of the poller. */

struct weir__ticket;

/* A wait for an answer, in the struct of whoever waits. */
struct weir__resolving {
        /* Has the answer and its reference; the wait is over.  On the owner, from its loop. */
        void (*answered)(struct weir__resolving *resolving, struct weir__answer *answer);

        struct weir__ticket *ticket; /* NULL: it does not wait */
};

/* Looks a host up.  `is_hurried`: when IPv6 addresses are late, the IPv4 addresses alone are enough.
 *
 * Result: the answer with a reference, also a failure; NULL: `answered` is called later, unless the wait is left. */
struct weir__answer *weir__resolve_start(struct weir__resolving *resolving, struct weir__poller *poller, const char *host,
                                         int family, bool is_hurried);

/* Leaves a wait.  The look-up goes on, and its answer is kept.  Nothing happens if it does not wait. */
void weir__resolve_leave(struct weir__resolving *resolving);

#endif
