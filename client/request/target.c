/* client/request/target.c: where a request goes.
 *
 * Threads: its owner. */
#include "client/request/target.h"

#include <errno.h>
#include <string.h>

#include "client/wire/wire.h"
#include "kernel/base/clock.h"

int
weir__target_choose(struct weir__target *target, const struct weir__draft *draft)
{
        struct weir_upstream *upstream = weir_upstream_find(weir_url_host(draft->url));

        if (!upstream)
                return 0;
        const struct weir__wish wish = {.key = target->key, .key_size = target->key_size};
        int failed = weir__upstream_pick(upstream, &wish, &target->picked, &target->reason);
        if (failed) {
                weir_upstream_unref(upstream);
                return failed;
        }
        target->upstream = upstream;
        target->picked_at = weir__clock_now();
        return 0;
}

struct weir__origin *
weir__target_origin(const struct weir__target *target, const struct weir__draft *draft)
{
        const weir_url *url = draft->url;
        bool is_secure = strcmp(weir_url_scheme(url), "https") == 0;

        if (!target->upstream)
                return weir__client_origin(draft->client, is_secure, weir_url_address(url), NULL);
        return weir__client_origin(draft->client, is_secure, weir__picked_address(&target->picked), weir_url_host(url));
}

/* What it says about the member.  Source of the list: RFC 9110 section 15.6. */
static enum weir__outcome
outcome_of(int status, int response)
{
        if (status == -ECANCELED || status == -ESHUTDOWN || status == -ENOMEM || status == -EINVAL)
                return WEIR__OUTCOME_CANCELLED;
        if (response == 502 || response == 503 || response == 504)
                return WEIR__OUTCOME_FAILURE;
        return response || !status ? WEIR__OUTCOME_SUCCESS : WEIR__OUTCOME_FAILURE;
}

void
weir__target_report(struct weir__target *target, int status, int response)
{
        struct weir_upstream *upstream = target->upstream;

        target->upstream = NULL;
        if (!upstream)
                return;
        weir__upstream_report(upstream, &target->picked, outcome_of(status, response), weir__clock_now() - target->picked_at);
        weir_upstream_unref(upstream);
}
