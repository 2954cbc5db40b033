/* server/base/coalescing.c: the coalescing window, in which requests and replies wait so that many share one wake-up.
 *
 * Replies leave together because timers of an exchange end on a grid.  Requests are read together because each reply that comes
 * late allows the poller a coalescing window (kernel/loop/sleep.c).  A reply that comes soon forbids it for a while.
 *
 * Threads: weir_http_server_set_coalescing: any, before the start; the rest: the owner of the branch's poller.
 * Locks:   the server's, until the start. */
#include <errno.h>

#include "kernel/base/phase.h"
#include "kernel/memory/watched.h"
#include "kernel/observe/log.h"
#include "server/base/server.h"

/* If a reply comes later than this, its request could wait for a hundredth of that time to be read. */
#define SLOW       WEIR_MSEC(100)
#define WINDOW_MAX WEIR_MSEC(100)

int
weir_http_server_set_coalescing(weir_http_server *server, weir_nsec window)
{
        weir__memory_expect(server);
        if (weir__phase_is_forked())
                return -ECHILD;
        if (!server)
                return -ENOMEM;
        if (window < 0 || window > WINDOW_MAX)
                return weir__log_refusal("weir_http_server_set_coalescing: expected a window of 0 to %lld ns, and was given %lld",
                                         (long long)WINDOW_MAX, (long long)window);
        weir__lock(&server->base.lock);
        bool is_new = server->base.state == WEIR__SERVER_NEW;
        if (is_new)
                server->coalescing = (uint32_t)window;
        weir__unlock(&server->base.lock);
        return is_new ? 0 : -EBUSY;
}

void
weir__coalescing_note_reply(struct weir__http_branch *branch, weir_nsec after)
{
        if (after < SLOW)
                weir__sleep_forbid_coalescing(branch->base.poller, SLOW);
        else
                weir__sleep_coalesce(branch->base.poller, branch->server->coalescing);
}
