/* proxy/forward/names.h: which fields a proxy passes on. */
#ifndef WEIR_PROXY_NAMES_H
#define WEIR_PROXY_NAMES_H

#include <stdbool.h>
#include <stddef.h>

enum weir__field_kind {
        WEIR__FIELD_PASSED = 0,
        WEIR__FIELD_CONNECTION, /* its value names fields of the connection */
        WEIR__FIELD_DROPPED,    /* of one connection, or of the framing */
        WEIR__FIELD_DATE,
        WEIR__FIELD_HOST,
        WEIR__FIELD_FORWARDED, /* from here on: what proxies tell of the client */
        WEIR__FIELD_X_FORWARDED_FOR,
        WEIR__FIELD_X_FORWARDED_PROTO,
        WEIR__FIELD_X_FORWARDED_HOST,
};

/* Underscores count as hyphens, because programs behind CGI and its like cannot tell them apart. */
enum weir__field_kind weir__field_kind(const char *name);

/* Whether a list of tokens has this one, in any case. */
bool weir__names_has(const char *list, const char *token);

/* The next token of a list, behind which *list is set.  Result: its size; 0 at the end. */
size_t weir__names_next(const char **list, const char **token);

/* Whether a value of Connection names a field that others do not drop anyway. */
bool weir__connection_names(const char *value);

#endif
