/* server/operate/waits.c: says what a stop waits for.
 *
 * Threads: the thread that stops the server, with no lock held: the log function is user code. */
#include <inttypes.h>

#include "kernel/observe/log.h"
#include "server/base/server.h"
#include "server/exchange/held.h"
#include "server/operate/operate.h"

#define NAMED 3 /* in a second; the others are counted */

static bool
name_one(const struct weir__held_report *report, void *context)
{
        size_t *count = context;

        if (++*count <= NAMED)
                weir__log(WEIR_LOG_WARNING, "stop waits for %s %s, %lld ms old, by %s: %u reference%s held (weir_http_ref)",
                          report->method, report->target, (long long)(report->age / WEIR_MSEC(1)), report->peer,
                          report->references, report->references == 1 ? " is" : "s are");
        return false;
}

void
weir__stop_name_holders(const struct weir__server *server)
{
        size_t count = 0;

        weir__held_walk(weir__http_server_of(server), name_one, &count);
        if (count > NAMED)
                weir__log(WEIR_LOG_WARNING, "stop waits for %zu more exchanges that are held", count - NAMED);
}

void
weir__stop_count_callbacks(const struct weir__server *server)
{
        int64_t count = 0;

        for (unsigned i = 0; i < server->branch_count; i++)
                count += weir__counted(&weir__http_branch_of(weir__server_branch(server, i))->counts, WEIR__COUNT_EXCHANGES);
        if (count > 0)
                weir__log(WEIR_LOG_WARNING, "stop waits for %" PRId64 " exchange%s with a callback that has not returned", count,
                          count == 1 ? "" : "s");
}
