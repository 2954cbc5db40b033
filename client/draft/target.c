/* client/draft/target.c: where a request goes.
 *
 * Threads: its owner. */
#include "client/draft/target.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "client/wire/wire.h"
#include "kernel/base/clock.h"

/* The reference goes to the target.  Result: that of weir__upstream_pick. */
static int
pick(struct weir__client_target *target, struct weir_upstream *upstream)
{
        const struct weir__wish wish = {.key = target->key,
                                        .key_size = target->key_size,
                                        .tried = target->tried,
                                        .tried_count = target->tried_count,
                                        .must_differ = target->tried_count > 0};
        int failed = weir__upstream_pick(upstream, &wish, &target->picked, target->tried_count ? NULL : &target->reason);

        if (failed) {
                weir_upstream_unref(upstream);
                return failed;
        }
        target->upstream = upstream;
        target->picked_at = weir__clock_now();
        target->tried[target->tried_count++] = weir__picked_id(&target->picked);
        return 0;
}

int
weir__client_target_choose(struct weir__client_target *target, const struct weir__draft *draft)
{
        struct weir_upstream *upstream = weir_upstream_find(weir_url_host(draft->url));

        return upstream ? pick(target, upstream) : 0;
}

bool
weir__client_target_calls_program(const struct weir__client_target *target)
{
        return target->upstream && weir__upstream_calls_program(target->upstream);
}

bool
weir__client_target_may_again(const struct weir__client_target *target, int status)
{
        return target->upstream && target->tried_count < WEIR__TARGET_TRIES &&
               weir__client_target_outcome(status, 0) == WEIR__OUTCOME_FAILURE;
}

bool
weir__client_target_again(struct weir__client_target *target)
{
        struct weir_upstream *upstream = weir_upstream_ref(target->upstream);

        weir__client_target_report(target, WEIR__OUTCOME_FAILURE);
        return pick(target, upstream) == 0;
}

static void
drop_key(struct weir__client_target *target)
{
        free(target->key);
        target->key = NULL;
        target->key_size = 0;
}

bool
weir__client_target_copy(struct weir__client_target *second, const struct weir__client_target *first)
{
        *second = *first;
        second->upstream = NULL;
        if (!first->upstream)
                return false;
        second->key = first->key ? malloc(first->key_size) : NULL;
        if (first->key && !second->key)
                return false;
        if (first->key)
                memcpy(second->key, first->key, first->key_size);
        second->upstream = weir_upstream_ref(first->upstream);
        return true;
}

bool
weir__client_target_hedge(struct weir__client_target *second)
{
        struct weir_upstream *upstream = second->upstream;
        bool may = weir__upstream_may_hedge(upstream);

        second->upstream = NULL;
        if (may && pick(second, weir_upstream_ref(upstream)) != 0) {
                weir__upstream_return_hedge(upstream);
                may = false;
        }
        weir_upstream_unref(upstream);
        drop_key(second);
        return may;
}

void
weir__client_target_drop(struct weir__client_target *second)
{
        weir_upstream_unref(second->upstream);
        second->upstream = NULL;
        drop_key(second);
}

void
weir__client_target_give_back(struct weir__client_target *second)
{
        if (second->upstream)
                weir__upstream_return_hedge(second->upstream);
        weir__client_target_report(second, WEIR__OUTCOME_CANCELLED);
}

/* A proxy of HTTP is sent requests for http themselves, as is usual.  Others, and what is not to be read by it, go through. */
static struct weir__destination
destination_of(const struct weir_client *client, const weir_url *url, bool must_tunnel)
{
        bool is_secure = strcmp(weir_url_scheme(url), "https") == 0;
        const struct weir__proxy *proxy = weir__client_proxies_for(&client->proxies, is_secure, weir_url_host(url));
        struct weir__destination destination = {.is_secure = is_secure, .address = weir_url_address(url), .proxy = proxy};

        if (proxy && proxy->kind == WEIR__PROXY_HTTP && !is_secure && !must_tunnel) {
                destination.is_relay = true;
                destination.is_secure = proxy->is_secure;
                destination.address = proxy->address;
        }
        return destination;
}

struct weir__origin *
weir__client_target_of_url(struct weir__draft *draft, const weir_url *url, bool must_tunnel)
{
        const struct weir__destination destination = destination_of(draft->client, url, must_tunnel);

        draft->relay = destination.is_relay ? destination.proxy : NULL;
        if (!destination.is_relay && weir__client_proxies_are(&draft->client->proxies)) /* no server must see it */
                weir__lines_remove(&draft->fields, "Proxy-Authorization");
        return weir__client_origin(draft->client, &destination);
}

/* The members of an upstream are the program's: they are reached without a proxy. */
struct weir__origin *
weir__client_target_origin(const struct weir__client_target *target, struct weir__draft *draft, bool must_tunnel)
{
        const weir_url *url = draft->url;
        bool is_secure = strcmp(weir_url_scheme(url), "https") == 0;

        if (!target->upstream)
                return weir__client_target_of_url(draft, url, must_tunnel);
        const struct weir__destination destination = {.is_secure = is_secure,
                                                      .address = weir__picked_address(&target->picked),
                                                      .tls_name = is_secure ? weir_url_host(url) : NULL};
        return weir__client_origin(draft->client, &destination);
}

/* Source of the list of responses: RFC 9110 section 15.6.  A response that broke off is a failure; one that the client did not
 * want is none. */
enum weir__outcome
weir__client_target_outcome(int status, int response)
{
        switch (status) {
        case -ECANCELED:
        case -ESHUTDOWN:
        case -ENOMEM:
        case -EINVAL: return WEIR__OUTCOME_CANCELLED;
        case -ETIMEDOUT:
        case -ECONNRESET:
        case -ECONNABORTED:
        case -EBADMSG:
        case -EPROTO: return WEIR__OUTCOME_FAILURE;
        default: break;
        }
        if (response == 502 || response == 503 || response == 504)
                return WEIR__OUTCOME_FAILURE;
        return response || !status ? WEIR__OUTCOME_SUCCESS : WEIR__OUTCOME_FAILURE;
}

void
weir__client_target_report(struct weir__client_target *target, enum weir__outcome outcome)
{
        struct weir_upstream *upstream = target->upstream;

        target->upstream = NULL;
        if (!upstream)
                return;
        weir__upstream_report(upstream, &target->picked, outcome, weir__clock_now() - target->picked_at);
        weir_upstream_unref(upstream);
}
