/* net/protocol/message.h: a message that has come: the task that a handler gets.
 *
 *     ready --> its handler, and the series that it asks for --> answered, on the owner --> its reply waits for those before
 *           --> the reply is out --> freed */
#ifndef WEIR_NET_MESSAGE_H
#define WEIR_NET_MESSAGE_H

#include "factory/task/series.h"
#include "net/protocol/session.h"

struct weir__message {
        struct weir_task task; /* first */

        /* Constant.  No message is larger than a GiB. */
        struct weir_session *session;
        uint64_t id;
        uint32_t whole; /* bytes of this block */
        uint32_t size;  /* of the body */
        uint16_t at;    /* where that begins in the data */
        uint16_t spare; /* bytes behind the data, for a small reply */

        bool is_answered; /* owner */
        bool is_refused;  /* a reply was refused; the series', then the owner's */
        int result;       /* of the series; the owner's then */

        /* The reply; the series', then the owner's; or NULL. */
        uint32_t packed_size;
        char *packed;

        /* Its series, once that is made, or WEIR__MESSAGE_CUT: written by an atomic exchange on both sides.  The second of them
         * sees both values, and cancels the series, which is kept until the message is freed. */
        _Atomic uintptr_t series_or_cut;

        /* Owner. */
        union {
                struct weir__link link; /* in the session's replies, until its own may go out */
                struct weir__outgoing reply; /* from then on */
        };

        char data[];
};

#define WEIR__MESSAGE_CUT ((uintptr_t)1)

#endif
