/* net/datagram/tasks.h: what reading a socket has to know of tasks that receive, and of tasks that ask.  Owner of the poller. */
#ifndef WEIR_NET_DATAGRAM_TASKS_H
#define WEIR_NET_DATAGRAM_TASKS_H

#include "net/datagram/socket.h"

/* -- receive.c: tasks that receive datagrams, and the datagrams that nobody has received yet -- */

/* Takes the datagram: the first receiver gets it, or it is kept, or dropped if it must not be. */
void weir__receive_give(struct weir_udp *udp, struct weir__datagram *datagram, bool may_keep);

/* A read is over: the first receiver ends, if it has got something. */
void weir__receive_settle(struct weir_udp *udp);

/* The first receiver that has got nothing ends with that error.  Returns false when there is none. */
bool weir__receive_fail(struct weir_udp *udp, int error);

void weir__receive_end_all(struct weir_udp *udp, int status);

/* -- ask.c -- */

static inline bool
weir__asks_are_live(const struct weir_udp *udp)
{
        return udp->asks && udp->asks->live_count;
}

/* Takes the datagram, if it is a reply, and returns true: the ask ends, or the reply came late and is dropped. */
bool weir__ask_take(struct weir_udp *udp, struct weir__datagram *datagram);

/* Reads what hosts have reported about datagrams that were sent: the asks of these destinations end.  Returns an error that was
 * for none of them, or 0. */
int weir__ask_note_errors(struct weir_udp *udp);

void weir__ask_end_all(struct weir_udp *udp, int status);

#endif
