/* protocol/field/conditional.c: the preconditions of a request, evaluated.
 *
 * Threads: any; pure functions.  No locks. */
#include <string.h>

#include "protocol/field/conditional.h"
#include "protocol/text/date.h"
#include "protocol/field/etag.h"

/* How many fields of that name there are, and the value of the last one. */
static unsigned
find(const struct weir__request *request, const char *name, const char **value)
{
        unsigned count = 0;
        const char *next;

        for (uint32_t at = 0; (next = weir__request_next(request, name, &at)); count++)
                *value = next;
        return count;
}

/* Whether a field of that name lists the tag, or is "*".  Several of them are one list.  Source: RFC 9110 section 5.3. */
static bool
matches(const struct weir__request *request, const char *name, const char *tag, bool is_weak)
{
        const char *value;

        for (uint32_t at = 0; (value = weir__request_next(request, name, &at));)
                if (strcmp(value, "*") == 0 || weir__etag_is_in(value, tag, is_weak))
                        return true;
        return false;
}

/* Whether there is one such field, with a date that can be compared. */
static bool
date_of(const struct weir__request *request, const char *name, const struct weir__validators *validators, int64_t *date)
{
        const char *value;

        return find(request, name, &value) == 1 && validators->modified != WEIR__NOT_DATED &&
               weir__http_date_read(value, validators->now, date);
}

/* Whether the client's representation differs from the present one. */
static bool
is_another(const struct weir__request *request, const struct weir__validators *validators)
{
        int64_t date;

        if (weir__request_header(request, "If-Match"))
                return !matches(request, "If-Match", validators->tag, false);
        return date_of(request, "If-Unmodified-Since", validators, &date) && validators->modified > date;
}

/* Whether the client has the present representation. */
static bool
is_known(const struct weir__request *request, const struct weir__validators *validators, bool is_get)
{
        int64_t date;

        if (weir__request_header(request, "If-None-Match"))
                return matches(request, "If-None-Match", validators->tag, true);
        return is_get && date_of(request, "If-Modified-Since", validators, &date) && validators->modified <= date;
}

int
weir__conditional_status(const struct weir__request *request, const struct weir__validators *validators)
{
        bool is_get = request->is_head || strcmp(request->method, "GET") == 0;

        if (is_another(request, validators))
                return 412;
        if (is_known(request, validators, is_get))
                return is_get ? 304 : 412;
        return 200;
}

/* Whether there is no If-Range, or it holds.  A date holds only if it equals our Last-Modified: parts of different versions must
 * not be joined. */
static bool
range_holds(const struct weir__request *request, const struct weir__validators *validators)
{
        const char *value;
        unsigned count = find(request, "If-Range", &value);
        int64_t date;

        if (count != 1)
                return count == 0;
        if (date_of(request, "If-Range", validators, &date))
                return date == validators->modified;
        return strcmp(value, validators->tag) == 0;
}

const char *
weir__conditional_range(const struct weir__request *request, const struct weir__validators *validators)
{
        const char *range;

        if (strcmp(request->method, "GET") != 0 || find(request, "Range", &range) != 1 || !range_holds(request, validators))
                return NULL;
        return range;
}
