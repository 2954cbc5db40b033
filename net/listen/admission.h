/* net/listen/admission.h: the limit on connections. */
#ifndef WEIR_NET_ADMISSION_H
#define WEIR_NET_ADMISSION_H

#include <stdbool.h>

#include <weir/time.h>

struct weir__branch;
struct weir__peer;

/* Owner of the poller. */
bool weir__admission_enter(struct weir__branch *branch, const struct weir__peer *peer); /* takes a place; false: turn it away */
void weir__admission_leave(struct weir__branch *branch, const struct weir__peer *peer, bool has_place);
void weir__admission_evict(struct weir__branch *branch); /* a connection has become idle while the server has a deficit */

/* weir__server_ops.longest_idle, if there is one. */
void *weir__admission_longest_idle(struct weir__branch *branch, weir_nsec *since);

#endif
