/* client/cookies/suffix.c: domains under which strangers have names.
 *
 * libpsl, if it was there at the build, has the list of the Mozilla project in itself.  Only this file uses it.  The list on disk
 * may be newer, but to read it blocks.
 *
 * Threads: any; constant data.  No locks.
 * Source:  https://publicsuffix.org/list/ */
#include "client/cookies/suffix.h"

#include <string.h>

#if WEIR_HAS_PSL
#include <libpsl.h>
#endif

bool
weir__suffix_is_public(const char *domain)
{
        const char *dot = strrchr(domain, '.');

        if (!dot || dot[1] == '\0') /* "com." is "com" */
                return true;
#if WEIR_HAS_PSL
        const psl_ctx_t *list = psl_builtin();
        return list && psl_is_public_suffix(list, domain);
#else
        return false;
#endif
}
