/* net/transport/limit.c: the time limit of a transport.
 *
 * Threads: the owner of the poller only.
 *
 * Time limits are lazy.  A new one writes `expires_at`.  The alarm in the poller's queue is moved only if it would come later
 * than that.  If it comes too early, it is set again.  So a busy connection costs one queue operation in many requests. */
#include "net/transport/transport.h"

#include "kernel/base/clock.h"

void
weir__transport_set_limit(struct weir__transport *transport, weir_nsec now, weir_nsec duration)
{
        transport->expires_at = duration == WEIR_FOREVER ? WEIR_FOREVER : weir__clock_after(now, duration);
        if (transport->expires_at == WEIR_FOREVER ||
            (transport->is_alarm_set && transport->expires_at >= transport->alarm.node.deadline))
                return;
        transport->is_alarm_set |= weir__alarm_set(weir__transport_poller(transport), &transport->alarm, transport->expires_at);
}
