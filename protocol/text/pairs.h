/* protocol/text/pairs.h: names and their values, in one piece of memory.  No I/O. */
#ifndef WEIR_PROTOCOL_PAIRS_H
#define WEIR_PROTOCOL_PAIRS_H

#include <stdbool.h>
#include <stddef.h>

struct weir__pair {
        const char *name, *value; /* NUL-terminated */
};

struct weir__pairs {
        size_t count;
        bool has_more; /* there were more than the limit */
        struct weir__pair pairs[];
};

/* Memory for `room` pairs and `text_size` bytes behind them.
 *
 * Owner:  the caller; free.
 * Result: NULL when out of memory. */
struct weir__pairs *weir__pairs_new(size_t room, size_t text_size, char **ret_text);

/* The value of the first pair of that name; NULL when there is none.  Accepts NULL for no pairs. */
const char *weir__pairs_value(const struct weir__pairs *pairs, const char *name);

/* The pair at `index`.  Accepts NULL for no pairs, and for outputs.
 *
 * Result: 0; past the last -ENOENT, or -E2BIG when there were more than the limit.  The outputs are untouched then. */
int weir__pairs_at(const struct weir__pairs *pairs, size_t index, const char **ret_name, const char **ret_value);

#endif
