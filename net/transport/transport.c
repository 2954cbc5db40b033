/* net/transport/transport.c: the entry points of a transport: events, time, its turns, the runtime.
 *
 * Threads: the owner of the poller only.
 *
 * What happens to a transport begins here and goes to its owner by the table of operations.  A transport is never freed while a
 * function of it is on the stack: closing it only delivers a work item, the requeued one.  That item or the one of its alarm,
 * whichever comes last, calls `unused`. */
#include "net/transport/transport.h"

#include <stdlib.h>
#include <sys/epoll.h>

#include "kernel/base/clock.h"

static struct weir__transport *
transport_of(struct weir__source *source)
{
        return (struct weir__transport *)source;
}

static void
note_unused(struct weir__transport *transport)
{
        if (weir__transport_is_unused(transport))
                weir__transport_ops_of(transport)->unused(transport);
}

/* -- time -- */

void
weir__transport_alarm_came(struct weir__transport *transport, weir_nsec expires_at)
{
        weir_nsec now = weir__clock_now();

        transport->is_alarm_set = false;
        if (weir__transport_is_closed(transport))
                note_unused(transport);
        else if (expires_at > now)
                (void)weir__transport_set_limit(transport, now, expires_at == WEIR_FOREVER ? WEIR_FOREVER : expires_at - now);
        else if (transport->phase == WEIR__TRANSPORT_LINGERING)
                weir__transport_close(transport);
        else
                weir__transport_ops_of(transport)->time_is_up(transport);
}

static void
alarm_run(struct weir__work *work)
{
        struct weir__limit *limit = weir__container_of(work, struct weir__limit, alarm.work);

        weir__transport_alarm_came((struct weir__transport *)(void *)limit - 1, limit->expires_at);
}

static const struct weir__work_ops alarm_ops = {.run = alarm_run};

/* -- turns -- */

void
weir__transport_take_turn(struct weir__transport *transport)
{
        transport->is_requeued = false;
        transport->budget_used = 0;
        if (weir__transport_is_closed(transport))
                note_unused(transport);
        else if (transport->phase == WEIR__TRANSPORT_LINGERING)
                weir__transport_linger_on(transport);
        else
                weir__transport_ops_of(transport)->requeued(transport);
}

static void
requeued_run(struct weir__work *work)
{
        weir__transport_take_turn(weir__container_of(work, struct weir__transport, requeued));
}

static const struct weir__work_ops requeued_ops = {.run = requeued_run};

/* -- events -- */

void
weir__transport_ready(struct weir__source *source, uint32_t events)
{
        struct weir__transport *transport = transport_of(source);
        const struct weir__transport_ops *ops = weir__transport_ops_of(transport);

        if (!transport->is_requeued)
                transport->budget_used = 0;
        if (transport->phase ==
            WEIR__TRANSPORT_LINGERING) { /* also when both sides are finished: a close with unread input resets */
                transport->is_ready = true;
                weir__transport_linger_on(transport);
                return;
        }
        if (events & (EPOLLHUP | EPOLLERR)) {
                transport->is_ready = transport->has_ended = true; /* for an owner that reads what is left */
                ops->hung_up(transport);
                return;
        }
        /* TLS may have to write before it can read. */
        if (events & (EPOLLIN | EPOLLRDHUP) || (transport->stream.tls && weir__tls_wants_write(transport->stream.tls)))
                transport->is_ready = true;
        if (events & EPOLLOUT && !weir__list_is_empty(&transport->writers))
                ops->writable(transport);
        if (events & EPOLLRDHUP && !transport->has_ended) {
                transport->has_ended = true;
                if (transport->phase == WEIR__TRANSPORT_OPEN)
                        ops->ended(transport);
        }
        if (transport->phase == WEIR__TRANSPORT_OPEN)
                ops->readable(transport);
}

void
weir__transport_shutdown(struct weir__source *source)
{
        weir__transport_ops_of(transport_of(source))->shutdown(transport_of(source));
}

void
weir__transport_destroy(struct weir__source *source)
{
        weir__transport_close(transport_of(source));
}

/* -- birth and death -- */

void
weir__transport_init(struct weir__transport *transport, const struct weir__transport_ops *ops, unsigned poller, int fd)
{
        transport->stream.source.ops = &ops->source;
        transport->stream.source.fd = fd;
        transport->requeued.ops = &requeued_ops;
        atomic_init(&transport->poller, (uint8_t)poller);
        if (!ops->limit)
                *(struct weir__limit *)(transport + 1) = (struct weir__limit){.alarm.work.ops = &alarm_ops,
                                                                              .expires_at = WEIR_FOREVER};
}

int
weir__transport_open(struct weir__transport *transport)
{
        return weir__source_add(weir__transport_poller(transport), &transport->stream.source,
                                EPOLLIN | EPOLLOUT | EPOLLRDHUP | WEIR__EVENT_STEADY);
}

void
weir__transport_done(struct weir__transport *transport)
{
        free(transport->input.data);
        transport->input.data = NULL;
}
