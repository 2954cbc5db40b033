/* net/listen/admission.h: the limit on connections. */
#ifndef WEIR_NET_ADMISSION_H
#define WEIR_NET_ADMISSION_H

#include <stdbool.h>

#include <weir/time.h>

struct weir__branch;
struct weir__peer;
struct weir__server;

/* Owner of the poller. */
bool weir__admission_enter(struct weir__branch *branch, const struct weir__peer *peer); /* takes a permit; false: turn it away */

/* The same in two steps, for a server that waits at its limit: a permit is taken before a connection has come (false: all are
 * taken), and given back if none comes, or its address has too many (false). */
bool weir__admission_take_permit(struct weir__server *server);
void weir__admission_give_permit_back(struct weir__server *server);
bool weir__admission_enter_with_permit(struct weir__branch *branch, const struct weir__peer *peer);

void weir__admission_leave(struct weir__branch *branch, const struct weir__peer *peer, bool has_permit);
void weir__admission_evict(struct weir__branch *branch); /* a connection has become idle while the server has a deficit */

/* weir__server_ops.longest_idle, if there is one. */
void *weir__admission_longest_idle(struct weir__branch *branch, weir_nsec *since);

#endif
