/* net/transport/turns.c: the turns of a transport.
 *
 * Threads: the owner of the poller only.
 *
 * Fairness: a transport counts its reads.  When its budget is used up, it goes on by a work item, behind others. */
#include "kernel/worker/deliver.h"
#include "net/transport/transport.h"

#define READ_BUDGET 16                  /* reads before other work has its turn */
#define READ_SIZE   ((size_t)64 * 1024) /* bytes of one read; a larger one counts as several */

_Static_assert(2 * READ_BUDGET <= UINT8_MAX, "counted in a byte");

void
weir__transport_requeue(struct weir__transport *transport)
{
        if (transport->is_requeued)
                return;
        transport->is_requeued = true;
        if (weir__transport_order_turn(transport))
                weir__deliver_requeued(weir__transport_poller(transport), &transport->requeued);
}

/* May be called with a used-up budget: it stays used up. */
void
weir__transport_count_read(struct weir__transport *transport, size_t size)
{
        size_t more = size < READ_SIZE ? 1 : size < READ_BUDGET * READ_SIZE ? size / READ_SIZE : READ_BUDGET;

        if (transport->budget_used < READ_BUDGET)
                transport->budget_used = (uint8_t)(transport->budget_used + more);
}

bool
weir__transport_may_read(struct weir__transport *transport)
{
        if (transport->is_ready && transport->budget_used >= READ_BUDGET)
                weir__transport_requeue(transport);
        return transport->is_ready && transport->budget_used < READ_BUDGET;
}
