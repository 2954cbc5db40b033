/* net/transport/close.c: the end of a transport: it lingers, and closes.
 *
 * Threads: the owner of the poller only. */
#include <errno.h>

#include "kernel/base/clock.h"
#include "kernel/worker/deliver.h"
#include "net/transport/input.h"
#include "net/transport/transport.h"

#define LINGER_NEXT  WEIR_SEC(5)         /* until the next bytes */
#define LINGER_BYTES ((uint32_t)1 << 30) /* that are thrown away; then it is closed */

void
weir__transport_close(struct weir__transport *transport)
{
        struct weir__poller *poller = weir__transport_poller(transport);

        if (weir__transport_is_closed(transport))
                return;
        weir__source_remove(poller, &transport->stream.source);
        if (transport->must_break)
                weir__stream_break(&transport->stream);
        else
                weir__stream_close(&transport->stream);
        transport->phase = WEIR__TRANSPORT_CLOSED;
        if (transport->is_alarm_set && weir__alarm_clear(poller, &weir__transport_limit(transport, false)->alarm))
                transport->is_alarm_set = false;
        bool is_on_its_way = transport->is_requeued;
        transport->is_requeued = true; /* from here on it frees the transport */
        weir__transport_ops_of(transport)->closed(transport);
        if (!is_on_its_way && weir__transport_order_turn(transport))
                weir__deliver(poller, &transport->requeued);
}

/* Nothing is there, or nothing but the end of the input, behind which nothing comes. */
static bool
has_no_input(struct weir__transport *transport)
{
        ssize_t count = transport->is_ready ? weir__stream_peek(&transport->stream) : -EAGAIN;

        return count == 0 || count == -EAGAIN;
}

/* Input that comes after a close makes the system send a reset.  A peer of TLS sends its own end, and others may send more. */
bool
weir__transport_may_close(struct weir__transport *transport, bool has_unread)
{
        bool is_clean = !has_unread && !transport->input.size;

        /* Sends the bytes that were held back. */
        if (transport->stream.tls && weir__stream_finish(&transport->stream) == -EAGAIN)
                return false;
        if (transport->stream.tls || transport->sent > WEIR__LEAVES_FIRST)
                is_clean = is_clean && !weir__stream_unsent(&transport->stream);
        return is_clean && has_no_input(transport);
}

/* -- lingering -- */

/* Without a close_notify that still waits for room in the socket, the peer would take what it has for a part. */
static void
set_linger_limit(struct weir__transport *transport)
{
        weir_nsec now = weir__clock_now(), left = weir__transport_limit(transport, false)->lingers_until - now;

        (void)weir__transport_set_limit(transport, now,
                                        left < LINGER_NEXT || weir__stream_owes_end(&transport->stream) ? left : LINGER_NEXT);
}

void
weir__transport_linger(struct weir__transport *transport, weir_nsec longest)
{
        struct weir__limit *limit = weir__transport_limit(transport, true);

        weir__input_drop(transport);
        (void)weir__stream_finish(&transport->stream);
        if (!limit) {
                weir__transport_close(transport);
                return;
        }
        transport->phase = WEIR__TRANSPORT_LINGERING;
        limit->lingers_until = weir__clock_after(weir__clock_now(), longest);
        set_linger_limit(transport);
        weir__transport_linger_on(transport);
}

void
weir__transport_linger_at_most(struct weir__transport *transport, weir_nsec longest)
{
        struct weir__limit *limit = weir__transport_limit(transport, false);
        weir_nsec until = weir__clock_after(weir__clock_now(), longest);

        if (limit->lingers_until <= until)
                return;
        limit->lingers_until = until;
        set_linger_limit(transport);
}

/* Reads input and throws it away.  The peer may still be sending; a close would then send a reset, and the peer would lose the
 * part of our answer that it has not read.
 * Source: RFC 9112 section 9.6. */
void
weir__transport_linger_on(struct weir__transport *transport)
{
        uint32_t before = transport->input.size;

        /* This event may be one of room in the socket. */
        if (weir__stream_owes_end(&transport->stream) && weir__stream_finish(&transport->stream) == 0)
                set_linger_limit(transport);
        while (weir__transport_may_read(transport)) {
                ssize_t count = weir__stream_read(&transport->stream, weir__transport_poller(transport)->scratch,
                                                  WEIR__SCRATCH_SIZE);

                if (count == -EAGAIN || (count == 0 && weir__stream_owes_end(&transport->stream))) {
                        transport->is_ready = false;
                        break;
                }
                weir__transport_count_read(transport, count > 0 ? (size_t)count : 0);
                transport->input.size += count > 0 ? (uint32_t)count : 0;
                if (count <= 0 || transport->input.size > LINGER_BYTES) {
                        weir__transport_close(transport);
                        return;
                }
        }
        if (transport->input.size > before)
                set_linger_limit(transport);
}
