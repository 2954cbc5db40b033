/* client/draft/words.h: what has gone wrong, in words. */
#ifndef WEIR_CLIENT_WORDS_H
#define WEIR_CLIENT_WORDS_H

#include "client/draft/draft.h"
#include "client/wire/call.h"

/* "GET https://host/path: ...".  `problem`: that of a connect; or NULL.
 *
 * Owner:  the caller; free.
 * Result: NULL when out of memory, or without a URL. */
char *weir__client_words(const struct weir__draft *draft, const struct weir__http_call *call, int status, const char *problem);

#endif
