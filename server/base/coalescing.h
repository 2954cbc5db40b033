/* server/base/coalescing.h: how long requests and replies wait for each other, so that many share one wake-up. */
#ifndef WEIR_SERVER_COALESCING_H
#define WEIR_SERVER_COALESCING_H

#include "server/base/shard.h"

#define WEIR__COALESCING ((uint32_t)WEIR_MSEC(1)) /* unless the program sets another one */

/* A reply was ready that much later than its request had come; 0: soon, or nobody knows.  Owner only. */
void weir__coalescing_note_reply(struct weir__shard *shard, weir_nsec after);

#endif
