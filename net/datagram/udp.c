/* net/datagram/udp.c: sockets of the program: what is read goes to asks, then to receivers.
 *
 * Threads: reading is the owner's of the socket's poller; the public functions are any thread's.
 * Locks:   the socket's, while a thread uses the descriptor, which the owner of the poller may be closing. */
#include <errno.h>
#include <net/if.h>
#include <netinet/in.h>
#include <arpa/inet.h>
#include <string.h>

#include "factory/sync/waitable.h"
#include "kernel/base/phase.h"
#include "kernel/observe/log.h"
#include "net/datagram/tasks.h"

#define READS_AT_ONCE 2  /* until other work has its turn */
#define KEPT_MOST     64 /* datagrams, and the rest of the read that has brought the last of them */

/* -- the owner of the poller -- */

static bool
is_wanted(const struct weir_udp *udp)
{
        return !weir__list_is_empty(&udp->receivers) || weir__asks_are_live(udp);
}

/* The error is a receiver's, if the socket has one peer.  Otherwise it says nothing of what is received. */
static void
failed(struct weir_udp *udp, int error)
{
        if (udp->reports)
                error = weir__ask_note_errors(udp);
        if (error && udp->peer.size && !weir__receive_fail(udp, error))
                udp->error = (int16_t)error;
}

/* A read is kept whole, so that no datagram is dropped because the system has joined it with others. */
static void
give_all(struct weir_udp *udp, struct weir__datagrams *list)
{
        bool may_keep = udp->kept.count < KEPT_MOST;
        struct weir__datagram *datagram;

        while ((datagram = weir__datagrams_pop(list)))
                if (!weir__ask_take(udp, datagram))
                        weir__receive_give(udp, datagram, may_keep);
}

static void
read_once(struct weir_udp *udp)
{
        const struct weir__datagrams_wanted wanted = {.max = udp->max, .most = WEIR__DATAGRAMS_ONCE, .joins = udp->joins};
        struct weir__datagrams list = {0};
        unsigned lost = 0;
        int count = weir__datagrams_receive(weir__udp_poller(udp)->index, udp->source.fd, &wanted, &list, &lost);

        if (count < WEIR__DATAGRAMS_ONCE && (count >= 0 || count == -EAGAIN)) /* one that comes from now on is an event */
                udp->may_read = false;
        if (count < 0 && count != -EAGAIN) {
                failed(udp, count);
                return;
        }
        give_all(udp, &list);
        if (lost && !weir__receive_fail(udp, -ENOMEM))
                udp->error = -ENOMEM;
}

static void
read_some(struct weir_udp *udp)
{
        for (unsigned i = 0; udp->may_read && is_wanted(udp); i++) {
                if (i == READS_AT_ONCE) {
                        weir__udp_take_turn(udp);
                        break;
                }
                read_once(udp);
        }
        weir__receive_settle(udp);
}

static void
ended(struct weir_udp *udp, int status)
{
        struct weir__link *link;

        weir__ask_end_all(udp, status); /* also those that wait for room */
        weir__receive_end_all(udp, status);
        while ((link = weir__list_pop(&udp->senders)))
                weir__io_complete(&weir__udp_task_of(link)->io, status);
}

static const struct weir__udp_ops udp_ops = {.read = read_some, .failed = failed, .ended = ended};

/* -- the public face -- */

static weir_udp *
open_at(const char *text, bool should_connect, const char *call)
{
        struct weir_udp_address address;
        int fault = weir__phase_is_forked() ? -ECHILD : weir__udp_address_parse(&address, text, call);

        if (fault) {
                errno = -fault;
                return NULL;
        }
        struct weir_udp *udp = weir__udp_new(&udp_ops, NULL, &address, should_connect, false);
        if (udp && weir__udp_family(udp) != AF_UNIX)
                udp->joins = weir__datagrams_join(udp->source.fd);
        return udp;
}

weir_udp *
weir_udp_open(const char *address)
{
        return open_at(address, false, "weir_udp_open");
}

weir_udp *
weir_udp_connect(const char *peer)
{
        return open_at(peer, true, "weir_udp_connect");
}

weir_udp *
weir_udp_ref(weir_udp *udp)
{
        return udp ? weir__udp_hold(udp) : NULL;
}

void
weir_udp_unref(weir_udp *udp)
{
        if (!udp)
                return;
        weir__references_expect(udp, &udp->handles, "weir_udp_unref");
        weir__udp_release(udp);
}

void
weir_udp_close(weir_udp *udp)
{
        if (!udp)
                return;
        weir__references_expect(udp, &udp->handles, "weir_udp_close");
        weir__udp_close(udp);
}

struct weir_udp_address
weir_udp_local(const weir_udp *udp)
{
        struct weir_udp_address address = {.size = 0};

        if (udp)
                weir__udp_address_set(&address, &udp->local);
        return address;
}

int
weir_udp_port(const weir_udp *udp)
{
        struct weir__socket_address name;

        if (!udp)
                return -EINVAL;
        name = udp->local;
        const in_port_t *port = weir__socket_port(&name);
        return port ? ntohs(*port) : -EDOM;
}

int
weir_udp_descriptor(const weir_udp *udp)
{
        struct weir_udp *self = (struct weir_udp *)udp; /* const guards the caller only */

        if (!udp)
                return -EINVAL;
        weir__lock(&self->lock);
        int fd = weir__udp_is_closed(self) ? -EBADF : self->source.fd;
        weir__unlock(&self->lock);
        return fd;
}

/* Under the lock. */
static int
join(int fd, int family, const char *group, unsigned interface)
{
        struct ip_mreqn four = {.imr_ifindex = (int)interface};
        struct ipv6_mreq six = {.ipv6mr_interface = interface};
        bool is_four = inet_pton(AF_INET, group, &four.imr_multiaddr) == 1;

        if (!is_four && inet_pton(AF_INET6, group, &six.ipv6mr_multiaddr) != 1)
                return -EINVAL;
        if (family != (is_four ? AF_INET : AF_INET6))
                return -EAFNOSUPPORT;
        int failed_call = is_four ? setsockopt(fd, IPPROTO_IP, IP_ADD_MEMBERSHIP, &four, sizeof four)
                                  : setsockopt(fd, IPPROTO_IPV6, IPV6_ADD_MEMBERSHIP, &six, sizeof six);
        return failed_call < 0 ? -errno : 0;
}

int
weir_udp_join(weir_udp *udp, const char *group, const char *interface)
{
        unsigned number = interface ? if_nametoindex(interface) : 0;

        if (!udp || !group || (interface && !number))
                return -EINVAL;
        weir__lock(&udp->lock);
        int result = weir__udp_is_closed(udp) ? -EBADF : join(udp->source.fd, weir__udp_family(udp), group, number);
        weir__unlock(&udp->lock);
        return result;
}

int
weir_udp_set_max(weir_udp *udp, size_t max)
{
        if (!udp || max < 1 || max > WEIR__DATAGRAM_MAX)
                return -EINVAL;
        udp->max = max;
        return 0;
}

unsigned long long
weir_udp_dropped(const weir_udp *udp)
{
        return udp ? atomic_load_explicit(&udp->dropped, memory_order_relaxed) : 0;
}
