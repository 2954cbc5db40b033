/* net/transport/limit.c: the time limit of a transport.
 *
 * Threads: the owner of the poller only.
 *
 * Time limits are lazy.  A new one writes `expires_at`.  The alarm in the poller's queue is moved only if it would come later
 * than that.  If it comes too early, it is set again.  So a busy connection costs one queue operation in many requests.
 *
 * A limit lies behind its transport, where most transports have one, or apart, so that an idle one costs nothing. */
#include "kernel/base/clock.h"
#include "kernel/memory/memory.h"
#include "net/transport/transport.h"

struct apart {
        struct weir__limit limit; /* first */
        struct weir__transport *transport;
};

static void
alarm_run(struct weir__work *work)
{
        struct apart *apart = weir__container_of(work, struct apart, limit.alarm.work);

        weir__transport_alarm_came(apart->transport, apart->limit.expires_at);
}

static const struct weir__work_ops alarm_ops = {.run = alarm_run};

struct weir__limit *
weir__limit_new(struct weir__transport *transport, size_t size)
{
        struct apart *apart = weir__alloc(size);

        if (!apart)
                return NULL;
        *apart = (struct apart){.limit = {.alarm.work.ops = &alarm_ops, .expires_at = WEIR_FOREVER}, .transport = transport};
        return &apart->limit;
}

bool
weir__transport_set_limit(struct weir__transport *transport, weir_nsec now, weir_nsec duration)
{
        struct weir__limit *limit = weir__transport_limit(transport, duration != WEIR_FOREVER);

        if (!limit)
                return duration == WEIR_FOREVER;
        limit->expires_at = duration == WEIR_FOREVER ? WEIR_FOREVER : weir__clock_after(now, duration);
        if (limit->expires_at == WEIR_FOREVER || (transport->is_alarm_set && limit->expires_at >= limit->alarm.node.deadline))
                return true;
        /* One that is due comes by itself.  Its work may be on its way: set then, it would stay in the queue behind that. */
        if (transport->is_alarm_set && limit->alarm.node.deadline <= weir__clock_now())
                return true;
        transport->is_alarm_set |= weir__alarm_set(weir__transport_poller(transport), &limit->alarm, limit->expires_at);
        return true;
}
