/* client/wire/dial.h: a connection that is being made. */
#ifndef WEIR_CLIENT_DIAL_H
#define WEIR_CLIENT_DIAL_H

#include "client/origin/origin.h"

/* As weir__origin_ops says. */
int weir__client_dial(struct weir__client_branch *branch, uint64_t ticket);
void weir__client_cancel_dials(struct weir__client_branch *branch);

/* How far the first of them has come; WEIR_HTTP_QUEUED: there is none.  Owner. */
uint8_t weir__client_dial_stage(const struct weir__client_branch *branch);

#endif
