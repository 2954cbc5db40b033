/* server/base/serving.h: reports on the counts of the HTTP servers that serve. */
#ifndef WEIR_SERVER_SERVING_H
#define WEIR_SERVER_SERVING_H

#include <stddef.h>
#include <stdint.h>

#include "net/listen/serving.h"
#include "server/base/branch.h"

/* The counts of a server. */
struct weir__serving_report {
        char name[WEIR__SERVING_NAME]; /* weir__serving_write_name */
        int64_t counts[WEIR__COUNTS];
};

/* Reports on the servers that serve, in the order of their starts.  One that starts during the call may be missing.
 *
 * Owner:  the caller: free.
 * Result: an array of *ret_count reports; NULL when out of memory. */
struct weir__serving_report *weir__serving_reports(size_t *ret_count);

#endif
