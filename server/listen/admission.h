/* server/listen/admission.h: the limit on connections. */
#ifndef WEIR_SERVER_ADMISSION_H
#define WEIR_SERVER_ADMISSION_H

#include <stdbool.h>

struct weir__peer;
struct weir__branch;

bool weir__admission_enter(struct weir__branch *branch, const struct weir__peer *peer); /* takes a place; false: turn it away */
void weir__admission_leave(struct weir__branch *branch, const struct weir__peer *peer, bool has_place);
void weir__admission_evict(struct weir__branch *branch); /* weir__branch_ops.became_idle */

#endif
