/* kernel/runtime/inflight.c: what is on its way between the connections of a poller and their other ends on this machine.
 *
 * Threads: the owner of the only poller of the virtual clock, before time jumps.
 * Locks:   none.
 *
 * On loopback a send() puts its bytes into the other end's queue before it returns.  A system that is very busy leaves that to a
 * thread of its own.  So bytes are in one of three places:
 *
 *   - in our queue: epoll reports them;
 *   - between the ends: one end has counted them as sent, and the other one has not counted them as received;
 *   - in the other end's queue.
 *
 * Datagrams have no such counts: a sendmsg() has put them into the other socket's queue when it returns.
 *
 * The system answers questions about the other end of a connection (NETLINK_SOCK_DIAG).  Where it does not, nothing seems to be
 * on its way.
 *
 * A peer that never reads would stop time for ever.  So one number is a fingerprint of all that is on its way.  When it has not
 * changed for STALL_LIMIT, time goes on.  Time waits again only when the number has changed. */
#include "kernel/runtime/inflight.h"

#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "kernel/base/clock.h"

#define STALL_LIMIT WEIR_SEC(1)

static struct {
        int fd;               /* for questions to the system; -1: not opened */
        uint64_t fingerprint; /* at the last look; 0: nothing is on its way */
        weir_nsec since;      /* when that was seen first, in real time */
        uint64_t given_up;    /* the fingerprint for which time does not wait any more */
} inflight = {.fd = -1};

_Atomic(weir__inflight_far_fn *) weir__inflight_far;

/* The ends of a connection. */
struct ends {
        struct sockaddr_storage near, far;
};

struct counts {
        uint64_t sent, received;
        uint32_t unread;
};

static bool
is_loopback(const struct sockaddr_storage *address)
{
        if (address->ss_family == AF_INET)
                return (ntohl(((const struct sockaddr_in *)address)->sin_addr.s_addr) >> 24) == IN_LOOPBACKNET;
        const struct in6_addr *six = &((const struct sockaddr_in6 *)address)->sin6_addr;
        return IN6_IS_ADDR_LOOPBACK(six) || (IN6_IS_ADDR_V4MAPPED(six) && six->s6_addr[12] == IN_LOOPBACKNET);
}

static size_t
host_size(const struct sockaddr_storage *address)
{
        return address->ss_family == AF_INET ? sizeof(struct in_addr) : sizeof(struct in6_addr);
}

static const void *
host_of(const struct sockaddr_storage *address)
{
        return address->ss_family == AF_INET ? (const void *)&((const struct sockaddr_in *)address)->sin_addr
                                             : (const void *)&((const struct sockaddr_in6 *)address)->sin6_addr;
}

static in_port_t
port_of(const struct sockaddr_storage *address)
{
        return address->ss_family == AF_INET ? ((const struct sockaddr_in *)address)->sin_port
                                             : ((const struct sockaddr_in6 *)address)->sin6_port;
}

/* Whether it is a connection whose other end is on this machine: a loopback address, or the same one. */
static bool
find_ends(int fd, struct ends *ends)
{
        socklen_t near_size = sizeof ends->near, far_size = sizeof ends->far;

        if (getpeername(fd, (struct sockaddr *)&ends->far, &far_size) < 0 ||
            getsockname(fd, (struct sockaddr *)&ends->near, &near_size) < 0)
                return false;
        if (ends->near.ss_family != ends->far.ss_family || (ends->far.ss_family != AF_INET && ends->far.ss_family != AF_INET6))
                return false;
        return is_loopback(&ends->far) || memcmp(host_of(&ends->far), host_of(&ends->near), host_size(&ends->far)) == 0;
}

static bool
count_near(int fd, struct counts *counts)
{
        struct tcp_info info = {0};
        socklen_t size = sizeof info;

        if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) < 0)
                return false;
        *counts = (struct counts){.sent = info.tcpi_bytes_sent - info.tcpi_bytes_retrans, .received = info.tcpi_bytes_received};
        return true;
}

/* Reads the answer of the system about one socket: its queue, and how much it has sent and received. */
static bool
read_answer(const char *answer, size_t size, struct counts *counts)
{
        const struct nlmsghdr *header = (const struct nlmsghdr *)answer;
        const struct inet_diag_msg *socket = NLMSG_DATA(header);
        struct tcp_info info;

        if (size < NLMSG_SPACE(sizeof *socket) || header->nlmsg_type != SOCK_DIAG_BY_FAMILY)
                return false;
        for (size_t at = NLMSG_SPACE(sizeof *socket), used; at + NLA_HDRLEN <= size; at += NLA_ALIGN(used)) {
                const struct nlattr *part = (const struct nlattr *)(answer + at);

                used = part->nla_len;
                if (used < NLA_HDRLEN || at + used > size)
                        break;
                if (part->nla_type != INET_DIAG_INFO)
                        continue;
                memset(&info, 0, sizeof info);
                memcpy(&info, answer + at + NLA_HDRLEN, used - NLA_HDRLEN < sizeof info ? used - NLA_HDRLEN : sizeof info);
                *counts = (struct counts){.sent = info.tcpi_bytes_sent - info.tcpi_bytes_retrans,
                                          .received = info.tcpi_bytes_received,
                                          .unread = socket->idiag_rqueue};
                return true;
        }
        return false; /* it has been closed: bytes that come there are thrown away */
}

struct question {
        struct nlmsghdr header;
        struct inet_diag_req_v2 body;
};

static struct question
question_about(const struct sockaddr_storage *far, uint8_t protocol, uint8_t extension)
{
        return (struct question){
                .header = {.nlmsg_len = sizeof(struct question), .nlmsg_type = SOCK_DIAG_BY_FAMILY, .nlmsg_flags = NLM_F_REQUEST},
                .body = {.sdiag_family = (uint8_t)far->ss_family,
                         .sdiag_protocol = protocol,
                         .idiag_ext = extension,
                         .idiag_states = UINT32_MAX,
                         .id = {.idiag_cookie = {INET_DIAG_NOCOOKIE, INET_DIAG_NOCOOKIE}}},
        };
}

/* Returns the size of the answer; 0: there is none. */
static size_t
ask(const struct question *question, char *answer, size_t room)
{
        if (inflight.fd < 0)
                inflight.fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
        if (inflight.fd < 0 || send(inflight.fd, question, sizeof *question, 0) < 0)
                return 0;
        ssize_t got = recv(inflight.fd, answer, room, 0);
        return got > 0 ? (size_t)got : 0;
}

/* The same for the other end, whose socket may belong to any process. */
static bool
count_far(const struct ends *ends, struct counts *counts)
{
        struct question question = question_about(&ends->far, IPPROTO_TCP, 1 << (INET_DIAG_INFO - 1));
        _Alignas(struct nlmsghdr) char answer[2048];

        question.body.id.idiag_sport = port_of(&ends->far);
        question.body.id.idiag_dport = port_of(&ends->near);
        memcpy(question.body.id.idiag_src, host_of(&ends->far), host_size(&ends->far));
        memcpy(question.body.id.idiag_dst, host_of(&ends->near), host_size(&ends->near));
        size_t got = ask(&question, answer, sizeof answer);
        return got > 0 && read_answer(answer, got, counts);
}

static uint64_t
mix(uint64_t value)
{
        value = (value ^ value >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
        value = (value ^ value >> 27) * UINT64_C(0x94d049bb133111eb);
        return value ^ value >> 31;
}

/* The fingerprint of what is on its way in one connection; 0: nothing.  Our own queue does not count: epoll has reported it. */
static uint64_t
fingerprint_of(int fd, uint64_t salt, bool unread)
{
        struct counts near, far;
        struct ends ends;

        if (!find_ends(fd, &ends) || !count_near(fd, &near) || !count_far(&ends, &far))
                return 0;
        uint64_t out = near.sent > far.received ? near.sent - far.received : 0;
        uint64_t in = far.sent > near.received ? far.sent - near.received : 0;
        uint64_t waiting = unread ? far.unread : 0;
        return out | in | waiting ? mix(mix(mix(salt + 1) + out) + in) + waiting : 0;
}

/* Whether the socket at `far` has datagrams that it has not read.  Source: net/ipv4/udp_diag.c in Linux, which takes the two ends
 * the other way round than for TCP. */
static bool
has_unread_datagrams(int fd, const struct sockaddr_storage *far)
{
        struct question question = question_about(far, IPPROTO_UDP, 0);
        _Alignas(struct nlmsghdr) char answer[2048];
        struct sockaddr_storage near;
        socklen_t size = sizeof near;

        if (getsockname(fd, (struct sockaddr *)&near, &size) < 0)
                return false;
        question.body.id.idiag_sport = port_of(&near);
        question.body.id.idiag_dport = port_of(far);
        memcpy(question.body.id.idiag_src, host_of(far), host_size(far));
        memcpy(question.body.id.idiag_dst, host_of(far), host_size(far));
        size_t got = ask(&question, answer, sizeof answer);
        const struct nlmsghdr *header = (const struct nlmsghdr *)answer;
        const struct inet_diag_msg *socket = NLMSG_DATA(header);
        return got >= NLMSG_SPACE(sizeof *socket) && header->nlmsg_type == SOCK_DIAG_BY_FAMILY && socket->idiag_rqueue > 0;
}

/* The same for a socket of datagrams.  It does not count how many there are: otherwise each attempt to ask a deaf socket would be
 * another fingerprint. */
static uint64_t
fingerprint_of_datagrams(const struct weir__source *source, weir__inflight_far_fn *far_of, uint64_t salt)
{
        struct sockaddr_storage far;
        uint64_t sum = 0;

        for (unsigned i = 0; far_of(source, i, &far); i++)
                if (is_loopback(&far) && has_unread_datagrams(source->fd, &far))
                        sum += mix(mix(salt + 1) + port_of(&far));
        return sum;
}

static uint64_t
fingerprint(const struct weir__poller *poller, bool unread)
{
        weir__inflight_far_fn *far_of = atomic_load_explicit(&weir__inflight_far, memory_order_relaxed);
        uint64_t sum = 0;

        for (uint32_t i = 0; i < poller->slot_count; i++) {
                const struct weir__source *source = weir__slot_source(&poller->slots[i]);
                uint64_t salt = (uint64_t)poller->slots[i].generation << 32 | i;

                if (source)
                        sum += fingerprint_of(source->fd, salt, unread);
                if (source && unread && far_of)
                        sum += fingerprint_of_datagrams(source, far_of, salt);
        }
        return sum;
}

bool
weir__inflight_has_bytes(const struct weir__poller *poller, bool unread)
{
        uint64_t now = fingerprint(poller, unread);

        if (now == 0 || now == inflight.given_up) {
                inflight.given_up = now; /* all was read: time waits for the same again */
                inflight.fingerprint = 0;
                return false;
        }
        if (now != inflight.fingerprint) {
                inflight.fingerprint = now;
                inflight.since = weir__clock_monotonic();
        } else if (weir__clock_monotonic() - inflight.since >= STALL_LIMIT) {
                inflight.given_up = now;
                return false;
        }
        return true;
}

void
weir__inflight_close(void)
{
        if (inflight.fd >= 0)
                close(inflight.fd);
        inflight.fd = -1;
        inflight.fingerprint = inflight.given_up = 0;
}
