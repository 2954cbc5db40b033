/* server/exchange/answer.h: replies of the server in the place of the handler's. */
#ifndef WEIR_SERVER_ANSWER_H
#define WEIR_SERVER_ANSWER_H

#include "server/exchange/exchange.h"

int weir__answer_error(struct weir__exchange *exchange, int status); /* nothing stays of the handler's.  Result: 0 or -ENOMEM */

#endif
