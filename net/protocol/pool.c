/* net/protocol/pool.c: the connections of an endpoint, and who gets one.
 *
 * Threads: endpoints are made on any thread.  The rest belongs to the owner of the endpoint's poller.
 * Locks:   none.
 *
 * A request takes the connection that was used last among those that are idle; else one that has room in its pipeline, by turns;
 * else it waits, and another connection is made for it, if there may be more.  A connection that is ready, whoever it was made
 * for, goes to the request that has waited longest. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "kernel/base/phase.h"
#include "net/protocol/endpoint.h"

#define ENDPOINT_CONNECTIONS 16 /* unless its description says another number */

/* -- who gets a connection -- */

static struct weir__asking *
first_waiting(struct weir_endpoint *endpoint)
{
        struct weir__link *link = weir__list_first(&endpoint->waiting);

        return link ? weir__container_of(link, struct weir__asking, waiting) : NULL;
}

/* One on which a function of the program blocks is not read: its requests would wait for that. */
static struct weir__lane *
usable(struct weir__list *lanes)
{
        for (struct weir__link *link = weir__list_first(lanes), *next; link; link = next) {
                struct weir__lane *lane = weir__container_of(link, struct weir__lane, link);

                next = weir__list_next(lanes, link);
                if (lane->session.is_over)
                        weir__link_remove(link); /* its end is on its way */
                else if (!lane->session.is_called)
                        return lane;
        }
        return NULL;
}

static struct weir__lane *
find_lane(struct weir_endpoint *endpoint)
{
        struct weir__lane *lane = usable(&endpoint->idle);

        return lane ? lane : usable(&endpoint->busy);
}

static bool
may_dial(const struct weir_endpoint *endpoint)
{
        unsigned most = endpoint->protocol->connections ? endpoint->protocol->connections : ENDPOINT_CONNECTIONS;

        return atomic_load_explicit(&endpoint->connections, memory_order_relaxed) < most;
}

/* The first of those for whom no connection is being made. */
static struct weir__asking *
first_without_dial(struct weir_endpoint *endpoint)
{
        for (struct weir__link *link = weir__list_first(&endpoint->waiting); link;
             link = weir__list_next(&endpoint->waiting, link)) {
                struct weir__asking *request = weir__container_of(link, struct weir__asking, waiting);

                if (!request->dial)
                        return request;
        }
        return NULL;
}

static void
end_waiting(struct weir_endpoint *endpoint, int status)
{
        for (struct weir__asking *request; (request = first_waiting(endpoint));) {
                weir__asking_unqueue(request);
                weir__dial_leave(request);
                weir__asking_end(request, status);
        }
}

static void
dial_more(struct weir_endpoint *endpoint)
{
        struct weir__asking *request;

        while (may_dial(endpoint) && (request = first_without_dial(endpoint))) {
                int failed = weir__dial_begin(endpoint, request);

                if (failed) {
                        weir__asking_unqueue(request);
                        weir__asking_end(request, failed);
                }
        }
}

static void
close_unused(struct weir_endpoint *endpoint)
{
        for (struct weir__link *link; (link = weir__list_first(&endpoint->idle));)
                weir__lane_retire(weir__container_of(link, struct weir__lane, link));
        for (struct weir__link *link; (link = weir__list_first(&endpoint->busy));)
                weir__lane_retire(weir__container_of(link, struct weir__lane, link));
        weir__dials_cancel(endpoint);
}

static void
look(struct weir_endpoint *endpoint)
{
        struct weir__asking *request;
        struct weir__lane *lane;

        if (weir__phase_is_stopping())
                end_waiting(endpoint, -ESHUTDOWN);
        while ((request = first_waiting(endpoint)) && (lane = find_lane(endpoint))) {
                weir__asking_unqueue(request);
                weir__dial_leave(request);
                weir__lane_send(lane, request);
        }
        dial_more(endpoint);
        if (!weir__endpoint_is_used(endpoint))
                close_unused(endpoint);
}

static void
go_on(struct weir_endpoint *endpoint)
{
        endpoint->must_go_on = true;
        if (endpoint->is_going_on)
                return;
        endpoint->is_going_on = true;
        while (endpoint->must_go_on) {
                endpoint->must_go_on = false;
                look(endpoint);
        }
        endpoint->is_going_on = false;
}

/* Sends the request at once if none waits and a connection has room, which is the most common case.  Else it is queued. */
static void
put(struct weir_endpoint *endpoint, struct weir__asking *request)
{
        struct weir__lane *lane = weir__list_is_empty(&endpoint->waiting) && !endpoint->is_going_on ? find_lane(endpoint) : NULL;

        weir__endpoint_count_requests(endpoint, 1);
        weir__endpoint_add(&endpoint->asked);
        if (lane) {
                weir__lane_send(lane, request);
                return;
        }
        weir__asking_queue(request, false);
        go_on(endpoint);
}

/* -- the public face -- */

static weir_endpoint *
new_endpoint(const char *address, weir_tls *tls, const char *name, const struct weir_protocol *protocol, const char *call)
{
        struct weir_endpoint *endpoint = weir__protocol_check(protocol, call) ? NULL : weir__endpoint_new();

        if (!endpoint) {
                errno = weir__protocol_check(protocol, call) ? EINVAL : ENOMEM;
                return NULL;
        }
        endpoint->address = strdup(address ? address : "");
        endpoint->name = name ? strdup(name) : NULL;
        endpoint->tls = weir_tls_ref(tls);
        endpoint->protocol = protocol;
        endpoint->go_on = go_on;
        endpoint->put = put;
        if (endpoint->address && (!name || endpoint->name))
                return endpoint;
        weir__endpoint_drop(endpoint);
        errno = ENOMEM;
        return NULL;
}

weir_endpoint *
weir_endpoint_new(const char *address, const struct weir_protocol *protocol)
{
        return new_endpoint(address, NULL, NULL, protocol, "weir_endpoint_new");
}

weir_endpoint *
weir_endpoint_tls_new(const char *address, weir_tls *tls, const char *name, const struct weir_protocol *protocol)
{
        if (!tls) {
                errno = ENOMEM;
                return NULL;
        }
        return new_endpoint(address, tls, name, protocol, "weir_endpoint_tls_new");
}
