/* database/pq/cancel.c: queries for which nobody waits any more.
 *
 * PQcancel makes a connection of its own and waits for its end, which a server that stands still never brings.  So it has a
 * thread of its own, for which no shutdown waits, and which ends a promise.  Until then the link gets no other query, which the
 * request could hit.  A server that has not read the query yet ignores the request, so it is repeated as long as the query goes
 * on.
 *
 * Threads: any; the request on its own.
 * Locks:   the link's. */
#include "database/pq/pq.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>

#include <weir/promise.h>

#define CANCEL_PAUSE_FIRST WEIR_MSEC(20)
#define CANCEL_STACK_SIZE  ((size_t)256 << 10) /* bytes */

/* What the thread that sends a request to cancel owns. */
struct request {
        PGcancel *cancel;
        weir_task *promise; /* a reference */
};

static void *
send_request(void *context)
{
        struct request request = *(struct request *)context;
        char problem[256];

        free(context);
        PQcancel(request.cancel, problem, sizeof problem);
        PQfreeCancel(request.cancel);
        weir_promise_end(request.promise, 0);
        weir_promise_unref(request.promise);
        return NULL;
}

static void
unref_link(void *link)
{
        weir__pq_link_unref(link);
}

/* Whether it has queries, and nobody waits for any of them. */
static bool
is_needless(const struct weir__pq_link *link)
{
        struct weir__pq_query *at = link->first;

        while (at && !weir__pq_is_wanted(at))
                at = at->behind;
        return link->first && !at;
}

/* `has_limit`: they were abandoned. */
static void
on_pause_over(weir_task *timer, void *context)
{
        struct weir__pq_link *link = context;
        struct weir__pq_after after = {0};

        weir__pq_link_lock(link, &after);
        if (weir_task_status(timer) == 0 && link->state == WEIR__PQ_READY && link->has_limit && is_needless(link))
                weir__pq_link_ask_to_cancel(link, &after);
        weir__pq_link_unlock(link);
        weir__pq_after(&after);
}

/* Each pause is twice as long as the one before.  If there is no memory for it, the limit of the link ends it. */
static void
ask_again_later(struct weir__pq_link *link)
{
        weir_nsec pause = CANCEL_PAUSE_FIRST << (link->requests < 6 ? link->requests : 6);
        weir_task *timer = weir_timer_new(pause, on_pause_over, NULL);

        link->requests++;
        weir_task_set_context(timer, weir__pq_link_ref(link), unref_link);
        weir_task_start(timer);
}

static void
on_requested(weir_task *task, void *context)
{
        struct weir__pq_link *link = context;
        struct weir__pq_after after = {0};

        weir__pq_link_lock(link, &after);
        link->is_cancelling = false;
        if (weir_task_status(task) != 0)
                weir__pq_link_fail(link, weir_task_status(task), NULL, &after);
        if (link->state == WEIR__PQ_READY && link->first)
                ask_again_later(link);
        else
                link->requests = 0;
        if (link->state == WEIR__PQ_READY && !link->first)
                weir__pq_link_rest(link, &after);
        weir__pq_link_wait(link, &after);
        weir__pq_link_unlock(link);
        weir__pq_after(&after);
}

/* Starts the thread, without the signals of the program.  It takes over the request.  0, or a negative errno. */
static int
start_thread(struct request *request)
{
        sigset_t all, before;
        pthread_attr_t attributes;
        pthread_t thread;

        pthread_attr_init(&attributes);
        pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
        pthread_attr_setstacksize(&attributes, CANCEL_STACK_SIZE);
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &before);
        int failed = pthread_create(&thread, &attributes, send_request, request);
        pthread_sigmask(SIG_SETMASK, &before, NULL);
        pthread_attr_destroy(&attributes);
        return -failed;
}

/* The task ends with the request.  NULL: there is no memory, or no thread. */
static weir_task *
request_new(struct weir__pq_link *link)
{
        struct request *request = calloc(1, sizeof *request);
        weir_task *promise = request ? weir_promise_new(NULL, on_requested, NULL) : NULL;

        if (promise) {
                weir_task_set_context(promise, weir__pq_link_ref(link), unref_link);
                request->promise = weir_promise_ref(promise);
                request->cancel = PQgetCancel(link->connection);
                if (request->cancel && start_thread(request) == 0)
                        return promise;
                PQfreeCancel(request->cancel);
                weir_promise_unref(request->promise);
                weir_task_dismiss(promise);
        }
        free(request);
        return NULL;
}

void
weir__pq_link_ask_to_cancel(struct weir__pq_link *link, struct weir__pq_after *after)
{
        if (link->is_cancelling)
                return;
        link->is_cancelling = true;
        int failed = weir_task_start(request_new(link));
        if (failed) {
                link->is_cancelling = false;
                weir__pq_link_fail(link, failed, NULL, after);
        }
}

static bool
has_query(const struct weir__pq_link *link, const struct weir__pq_query *query)
{
        const struct weir__pq_query *at = link->first;

        while (at && at != query)
                at = at->behind;
        return at;
}

/* Asks the server to cancel the queries that nobody waits for, once none is left in front of them that somebody waits for. */
void
weir__pq_link_cancel_needless(struct weir__pq_link *link, struct weir__pq_after *after)
{
        if (link->state != WEIR__PQ_READY || link->has_limit || !is_needless(link))
                return;
        link->requests = 0;
        weir__pq_link_set_limit(link, link->pool->config.clean_limit);
        weir__pq_link_ask_to_cancel(link, after);
}

/* A request to cancel hits what the server executes just then.  So it is sent only if nobody waits for any of that. */
void
weir__pq_link_abandon(struct weir__pq_link *link, struct weir__pq_query *query)
{
        struct weir__pq_after after = {0};

        weir__pq_link_lock(link, &after);
        if (link->state == WEIR__PQ_READY && has_query(link, query) && is_needless(link)) {
                link->requests = 0;
                weir__pq_link_set_limit(link, link->pool->config.clean_limit);
                if (!weir__pq_stream_abandon(link, &after))
                        weir__pq_link_ask_to_cancel(link, &after);
                if (link->state == WEIR__PQ_READY) /* all of the results may be in libpq's memory already */
                        weir__pq_link_go_on(link, &after);
        }
        weir__pq_link_unlock(link);
        weir__pq_after(&after);
}
