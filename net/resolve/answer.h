/* net/resolve/answer.h: what a look-up has come to: addresses, or a problem. */
#ifndef WEIR_NET_ANSWER_H
#define WEIR_NET_ANSWER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "kernel/socket/address.h"

/* Constant once others have it. */
struct weir__answer {
        _Atomic uint32_t references;
        int status;          /* 0, and there are addresses; or a negative errno, and there is a problem */
        const char *problem; /* in words, in the same block; NULL if the status is 0 */
        unsigned count;
        struct weir__socket_address at[]; /* of IPv4 and IPv6; the ports are 0 */
};

/* All of these: any thread, one reference for the caller. */

/* With room for so many addresses, at least one, which the caller fills in.  NULL when out of memory. */
struct weir__answer *weir__answer_new(unsigned count);

/* A failure.  Never NULL: when out of memory it is the answer that says so. */
struct weir__answer *weir__answer_problem(int status, const char *format, ...) __attribute__((format(printf, 2, 3)));

static inline struct weir__answer *
weir__answer_ref(struct weir__answer *answer)
{
        atomic_fetch_add_explicit(&answer->references, 1, memory_order_relaxed);
        return answer;
}

void weir__answer_unref(struct weir__answer *answer); /* accepts NULL */

#endif
