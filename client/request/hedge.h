/* client/request/hedge.h: a second attempt at a request that is slow, at another member of its upstream.
 *
 *     the first is sent --slow--> the second --complete--> the first has its response
 *            \--complete--> the second is cut off    \--fails--> the first goes on, or fails
 *
 * Both stay on the poller of the first one's connection; all functions are for its owner. */
#ifndef WEIR_CLIENT_HEDGE_H
#define WEIR_CLIENT_HEDGE_H

#include <stdbool.h>

struct weir__request;

void weir__hedge_set(struct weir__request *first);    /* it is sent now.  It has none */
void weir__hedge_forget(struct weir__request *first); /* its head has come, or it seeks anew: no second one begins */

/* The first has ended with that.  Returns whether it waits for the second one, which may do better; weir__request_ended follows
 * if it does not. */
bool weir__hedge_holds(struct weir__request *first, int status, bool may_replay);

/* The first is over, with that.  The second one is cut off. */
void weir__hedge_end(struct weir__request *first, int status);

/* The second is over, and reports to its upstream.  `verdict`: as in `settle`. */
void weir__hedge_settle(struct weir__request *second, int verdict);
bool weir__hedge_is_cut(const struct weir__request *second);

#endif
