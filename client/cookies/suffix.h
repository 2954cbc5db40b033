/* client/cookies/suffix.h: domains under which strangers have names, such as "com" and "co.uk".  Pure functions. */
#ifndef WEIR_CLIENT_SUFFIX_H
#define WEIR_CLIENT_SUFFIX_H

#include <stdbool.h>

/* Whether a cookie may not be set for that domain, in lower case.  Without libpsl: a domain without a dot.
 * One that ends with a dot is one, too. */
bool weir__suffix_is_public(const char *domain);

#endif
