/* net/resolve/dns.c: channels of c-ares: their sockets, their timers and their queries.
 *
 * Threads: the owner of the poller; a channel that no poller has adopted is its maker's.
 * Locks:   none.
 *
 * This is the only file that knows c-ares.  c-ares calls back out of its own functions, where nothing of the channel may be
 * freed.  So its callbacks only hand replies over, and weir__dns_settle does the rest behind each call.
 *
 * The sockets are made here (ares_set_socket_functions), for three reasons.  A socket that the poller cannot watch is a socket
 * that could not be made, so c-ares goes on with the next server.  The sender of the last bytes is known, so a problem can name
 * the server.  An empty datagram, which c-ares 1.18 takes for the end of the connection, is dropped.
 *
 * The timer is one of the system, because the virtual clock stands while a name is looked up. */
#include "net/resolve/dns.h"

#include <ares.h>
#include <arpa/nameser.h>
#include <errno.h>
#include <netdb.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "kernel/base/clock.h"
#include "kernel/loop/source.h"

#define SLACK       WEIR_MSEC(1) /* c-ares counts in microseconds, and rounds down */
#define LENGTH_SIZE 2            /* bytes in front of a reply over TCP, which c-ares reads by themselves */
#define CODE_AT     3            /* the byte of a reply whose lower half is its code */

/* A socket of c-ares. */
struct weir__dns_socket {
        struct weir__source source; /* first */
        struct weir__link link;
        struct weir__dns *dns;
        bool is_stream, is_watched;
        char peer[WEIR__ADDRESS_TEXT];
};

static struct weir__dns *currents[WEIR__POLLERS_MAX]; /* each its owner's */

/* -- sockets, as c-ares wants them: errno says what has failed -- */

static struct weir__dns_socket *
socket_of(struct weir__dns *dns, int fd)
{
        for (struct weir__link *link = weir__list_first(&dns->sockets); link; link = weir__list_next(&dns->sockets, link)) {
                struct weir__dns_socket *own = weir__container_of(link, struct weir__dns_socket, link);

                if (own->source.fd == fd)
                        return own;
        }
        return NULL;
}

static void ready(struct weir__source *source, uint32_t events);

/* They go with their channel. */
static void
stay(struct weir__source *source)
{
        (void)source;
}

static const struct weir__source_ops socket_ops = {ready, stay, stay};

static ares_socket_t
open_socket(int family, int type, int protocol, void *context)
{
        struct weir__dns *dns = context;
        struct weir__dns_socket *own = calloc(1, sizeof *own);

        if (!own)
                return ARES_SOCKET_BAD;
        own->source.fd = socket(family, type | SOCK_NONBLOCK | SOCK_CLOEXEC, protocol);
        if (own->source.fd < 0) {
                free(own);
                return ARES_SOCKET_BAD;
        }
        own->source.ops = &socket_ops;
        own->dns = dns;
        own->is_stream = type == SOCK_STREAM;
        weir__list_append(&dns->sockets, &own->link);
        return own->source.fd;
}

static int
close_socket(ares_socket_t fd, void *context)
{
        struct weir__dns *dns = context;
        struct weir__dns_socket *own = socket_of(dns, fd);

        if (own->is_watched)
                weir__source_withdraw(dns->poller, &own->source);
        if (dns->active == own)
                dns->active = NULL;
        weir__link_remove(&own->link);
        free(own);
        return close(fd);
}

static uint32_t
events_of(const struct weir__dns_socket *own)
{
        return own->is_stream ? EPOLLIN | EPOLLOUT : EPOLLIN; /* each datagram that leaves would be an event */
}

static int
connect_socket(ares_socket_t fd, const struct sockaddr *to, ares_socklen_t size, void *context)
{
        struct weir__dns *dns = context;
        struct weir__dns_socket *own = socket_of(dns, fd);
        struct weir__socket_address peer = {.size = size};
        int failed;

        memcpy(&peer.storage, to, size < sizeof peer.storage ? size : sizeof peer.storage);
        weir__address_print(&peer, own->peer, sizeof own->peer);
        do
                failed = connect(fd, to, size) < 0 ? errno : 0;
        while (failed == EINTR);
        if (failed && failed != EINPROGRESS) {
                errno = failed;
                return -1;
        }
        int unwatched = weir__source_add(dns->poller, &own->source, events_of(own));
        own->is_watched = !unwatched;
        errno = unwatched ? -unwatched : failed;
        return unwatched || failed ? -1 : 0;
}

static ares_ssize_t
receive(ares_socket_t fd, void *data, size_t size, int flags, struct sockaddr *from, ares_socklen_t *from_size, void *context)
{
        struct weir__dns *dns = context;
        const struct weir__dns_socket *own = socket_of(dns, fd);
        ssize_t got;

        do
                got = recvfrom(fd, data, size, flags, from, from_size);
        while ((got < 0 && errno == EINTR) || (got == 0 && !own->is_stream));
        dns->code = got > CODE_AT && size > LENGTH_SIZE ? ((const unsigned char *)data)[CODE_AT] & 15 : 0;
        if (got > 0)
                memcpy(dns->answered, own->peer, sizeof dns->answered);
        return got;
}

static ares_ssize_t
send_pieces(ares_socket_t fd, const struct iovec *pieces, int count, void *context)
{
        struct msghdr message = {.msg_iov = (struct iovec *)pieces, .msg_iovlen = (size_t)count};
        ssize_t sent;

        (void)context;
        do
                sent = sendmsg(fd, &message, MSG_NOSIGNAL);
        while (sent < 0 && errno == EINTR);
        return sent;
}

static const struct ares_socket_functions socket_functions = {open_socket, close_socket, connect_socket, receive, send_pieces};

/* -- the timer -- */

void
weir__dns_set_timer(struct weir__dns *dns, weir_nsec instant)
{
        if (instant >= dns->armed)
                return;
        dns->armed = instant;
        weir__clock_set_timer(dns->timer.fd, instant);
}

static void
set_timer_of_cares(struct weir__dns *dns)
{
        struct timeval left;

        if (ares_timeout(dns->channel, NULL, &left))
                weir__dns_set_timer(dns,
                                    weir__clock_monotonic() + left.tv_sec * WEIR_SEC(1) + left.tv_usec * WEIR_USEC(1) + SLACK);
}

/* -- queries -- */

static int
status_of(int cause)
{
        switch (cause) {
        case ARES_SUCCESS: return 0;
        case ARES_ENOTFOUND:
        case ARES_ENODATA: return -ENOENT;
        case ARES_ETIMEOUT:
        case ARES_ECONNREFUSED: return -EAGAIN;
        case ARES_EBADNAME: return -EINVAL;
        case ARES_ENOMEM: return -ENOMEM;
        case ARES_EDESTRUCTION:
        case ARES_ECANCELLED: return -ESHUTDOWN;
        default: return -EIO;
        }
}

static const char *
words_of(int cause)
{
        switch (cause) {
        case ARES_ENOTFOUND: return "NXDOMAIN";
        case ARES_ENODATA: return "an empty answer";
        case ARES_ESERVFAIL: return "SERVFAIL";
        case ARES_EFORMERR: return "FORMERR";
        case ARES_ENOTIMP: return "NOTIMP";
        case ARES_EREFUSED: return "REFUSED";
        case ARES_EBADRESP: return "a malformed answer";
        default: return ares_strerror(cause);
        }
}

static weir_nsec
lesser(weir_nsec one, weir_nsec other)
{
        return one < other ? one : other;
}

static void
take_v4(struct weir__dns_reply *reply, const struct ares_addrttl *found)
{
        for (unsigned i = 0; i < reply->count; i++) {
                struct sockaddr_in *to = (struct sockaddr_in *)&reply->found[i].storage;

                reply->found[i].size = sizeof *to;
                to->sin_family = AF_INET;
                to->sin_addr = found[i].ipaddr;
                reply->ttl = lesser(reply->ttl, found[i].ttl * WEIR_SEC(1));
        }
}

static void
take_v6(struct weir__dns_reply *reply, const struct ares_addr6ttl *found)
{
        for (unsigned i = 0; i < reply->count; i++) {
                struct sockaddr_in6 *to = (struct sockaddr_in6 *)&reply->found[i].storage;

                reply->found[i].size = sizeof *to;
                to->sin6_family = AF_INET6;
                memcpy(&to->sin6_addr, &found[i].ip6addr, sizeof to->sin6_addr);
                reply->ttl = lesser(reply->ttl, found[i].ttl * WEIR_SEC(1));
        }
}

/* Returns c-ares' status. */
static int
take_addresses(struct weir__dns_reply *reply, int family)
{
        union {
                struct ares_addrttl four[WEIR__DNS_ADDRESSES];
                struct ares_addr6ttl six[WEIR__DNS_ADDRESSES];
        } found;
        int count = WEIR__DNS_ADDRESSES, size = (int)reply->size;
        int cause = family == AF_INET ? ares_parse_a_reply(reply->data, size, NULL, found.four, &count)
                                      : ares_parse_aaaa_reply(reply->data, size, NULL, found.six, &count);

        if (cause)
                return cause;
        if (count <= 0)
                return ARES_ENODATA;
        reply->found = calloc((size_t)count, sizeof *reply->found);
        if (!reply->found)
                return ARES_ENOMEM;
        reply->count = (unsigned)count;
        if (family == AF_INET)
                take_v4(reply, found.four);
        else
                take_v6(reply, found.six);
        return ARES_SUCCESS;
}

/* When no server is left to ask because each has refused, c-ares 1.18 says that none could be reached.  It says so while it has
 * the last reply in hand. */
static int
refusal_of(const struct weir__dns *dns)
{
        switch (dns->code) {
        case ns_r_servfail: return ARES_ESERVFAIL;
        case ns_r_notimpl: return ARES_ENOTIMP;
        case ns_r_refused: return ARES_EREFUSED;
        default: return ARES_ECONNREFUSED;
        }
}

static void
on_reply(void *context, int cause, int timeouts, unsigned char *data, int size)
{
        struct weir__dns_query *query = context;
        struct weir__dns_reply reply = {.data = data, .size = data ? (size_t)size : 0, .ttl = WEIR_FOREVER};

        (void)timeouts;
        if (cause == ARES_SUCCESS)
                cause = take_addresses(&reply, query->family);
        else if (cause == ARES_ECONNREFUSED)
                cause = refusal_of(query->dns);
        reply.status = status_of(cause);
        reply.is_nxdomain = cause == ARES_ENOTFOUND;
        reply.words = words_of(cause);
        reply.server = data || reply.status == -EIO ? query->dns->answered : "";
        query->replied(query, &reply);
}

void
weir__dns_begin(struct weir__dns_query *query, const char *name)
{
        struct weir__dns *dns = query->dns;

        ares_query(dns->channel, name, C_IN, query->family == AF_INET ? T_A : T_AAAA, on_reply, query);
        weir__dns_set_timer(dns, weir__clock_monotonic() + dns->timeout + SLACK);
}

/* -- the channel -- */

static void
free_channel(struct weir__dns *dns)
{
        struct ares_options options = {.domains = dns->domains, .ndomains = dns->domain_count};

        ares_destroy(dns->channel);
        ares_destroy_options(&options);
        free(dns);
}

void
weir__dns_free_unused(struct weir__dns *dns)
{
        if (dns)
                free_channel(dns);
}

/* It leaves its poller.  What it was asked ends with -ESHUTDOWN. */
static void
end(struct weir__dns *dns)
{
        dns->is_ending = true;
        if (currents[dns->poller->index] == dns)
                currents[dns->poller->index] = NULL;
        weir__source_remove(dns->poller, &dns->timer);
        close(dns->timer.fd);
        ares_cancel(dns->channel);
        dns->ops->end(dns);
        free_channel(dns);
}

void
weir__dns_settle(struct weir__dns *dns)
{
        if (dns->ops->settle(dns) && dns->is_retired)
                end(dns);
}

/* c-ares reads a stream once for each event, and epoll tells only what is new: it is asked again. */
static void
ready(struct weir__source *source, uint32_t events)
{
        struct weir__dns_socket *own = (struct weir__dns_socket *)source;
        struct weir__dns *dns = own->dns;
        bool is_readable = events & (EPOLLIN | EPOLLERR | EPOLLHUP), is_writable = events & (EPOLLOUT | EPOLLERR | EPOLLHUP);

        if (events & WEIR__EVENT_DISPLACED)
                return;
        dns->active = own;
        dns->code = 0;
        ares_process_fd(dns->channel, is_readable ? source->fd : ARES_SOCKET_BAD, is_writable ? source->fd : ARES_SOCKET_BAD);
        if (dns->active && own->is_stream)
                weir__source_rearm(dns->poller, source, is_readable ? events_of(own) : EPOLLIN);
        dns->active = NULL;
        weir__dns_settle(dns);
}

static void
time_has_come(struct weir__source *source, uint32_t events)
{
        struct weir__dns *dns = (struct weir__dns *)source;

        (void)events;
        dns->armed = WEIR_FOREVER;
        dns->code = 0;
        ares_process_fd(dns->channel, ARES_SOCKET_BAD, ARES_SOCKET_BAD);
        dns->ops->look(dns, weir__clock_monotonic());
        set_timer_of_cares(dns);
        weir__dns_settle(dns);
}

static void
shut_down(struct weir__source *source)
{
        end((struct weir__dns *)source);
}

static const struct weir__source_ops timer_ops = {time_has_come, shut_down, shut_down};

static void
prepare_library(void)
{
        ares_library_init(ARES_LIB_INIT_ALL);
}

/* The search list, the time of a try and the servers, which c-ares has read. */
static int
read_back(struct weir__dns *dns)
{
        struct ares_options options;
        struct ares_addr_port_node *servers = NULL;
        int mask, cause = ares_save_options(dns->channel, &options, &mask);

        if (cause)
                return cause;
        dns->domains = options.domains;
        dns->domain_count = options.ndomains;
        dns->ndots = options.ndots;
        dns->timeout = options.timeout * WEIR_MSEC(1);
        options.domains = NULL;
        options.ndomains = 0;
        ares_destroy_options(&options);
        cause = ares_get_servers_ports(dns->channel, &servers);
        size_t used = 0;
        for (const struct ares_addr_port_node *each = servers; each; each = each->next) {
                char host[INET6_ADDRSTRLEN];
                bool is_six = each->family == AF_INET6;

                ares_inet_ntop(each->family, &each->addr, host, sizeof host);
                int size = snprintf(dns->servers + used, sizeof dns->servers - used, "%s%s%s%s:%d", used ? ", " : "",
                                    is_six ? "[" : "", host, is_six ? "]" : "", each->udp_port ? each->udp_port : 53);
                if (size < 0 || used + (size_t)size >= sizeof dns->servers) {
                        dns->servers[used] = '\0';
                        break;
                }
                used += (size_t)size;
        }
        ares_free_data(servers);
        return cause;
}

static int
open_channel(struct weir__dns *dns, const struct weir__dns_settings *settings)
{
        static pthread_once_t once = PTHREAD_ONCE_INIT;
        struct ares_options options = {.lookups = (char *)"b", .resolvconf_path = (char *)settings->resolv};
        int mask = ARES_OPT_LOOKUPS | ARES_OPT_RESOLVCONF;

        pthread_once(&once, prepare_library);
        if (settings->timeout) {
                weir_nsec ms = settings->timeout / WEIR_MSEC(1);

                options.timeout = ms < 1 ? 1 : ms > INT32_MAX / 1000 ? INT32_MAX / 1000 : (int)ms;
                mask |= ARES_OPT_TIMEOUTMS;
        }
        if (settings->tries) {
                options.tries = settings->tries;
                mask |= ARES_OPT_TRIES;
        }
        int cause = ares_init_options(&dns->channel, &options, mask);
        if (cause)
                return cause;
        ares_set_socket_functions(dns->channel, &socket_functions, dns);
        cause = settings->servers ? ares_set_servers_ports_csv(dns->channel, settings->servers) : ARES_SUCCESS;
        cause = cause ? cause : read_back(dns);
        if (cause)
                ares_destroy(dns->channel);
        return cause;
}

struct weir__dns *
weir__dns_new(const struct weir__dns_settings *settings, int *failed)
{
        struct weir__dns *dns = calloc(1, sizeof *dns);

        *failed = -ENOMEM;
        if (!dns)
                return NULL;
        dns->armed = WEIR_FOREVER;
        dns->generation = settings->generation;
        int cause = open_channel(dns, settings);
        if (!cause)
                return dns;
        *failed = cause == ARES_ENOMEM ? -ENOMEM : -EIO;
        free(dns);
        return NULL;
}

/* -- the owner -- */

int
weir__dns_adopt(struct weir__poller *poller, struct weir__dns *dns, const struct weir__dns_ops *ops)
{
        struct weir__dns *before = currents[poller->index];

        dns->poller = poller;
        dns->ops = ops;
        dns->timer.ops = &timer_ops;
        dns->timer.fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
        int failed = dns->timer.fd < 0 ? -errno : weir__source_add(poller, &dns->timer, EPOLLIN);
        if (failed) {
                if (dns->timer.fd >= 0)
                        close(dns->timer.fd);
                free_channel(dns);
                return failed;
        }
        currents[poller->index] = dns;
        if (before) {
                before->is_retired = true;
                weir__dns_settle(before);
        }
        return 0;
}

struct weir__dns *
weir__dns_current(const struct weir__poller *poller)
{
        return currents[poller->index];
}
