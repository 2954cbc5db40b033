/* net/datagram/datagram.c: datagrams in memory, and the calls of the system that move them.
 *
 * Threads: a datagram belongs to one thread at a time.  The room of a poller is its owner's.
 * Locks:   none. */
#include "net/datagram/datagram.h"

#include <errno.h>
#include <linux/errqueue.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "kernel/loop/poller.h"
#include "kernel/memory/memory.h"

#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103
#endif
#ifndef UDP_GRO
#define UDP_GRO 104
#endif
#ifndef IPV6_RECVERR
#define IPV6_RECVERR 25
#endif

#define SEGMENT_MOST 1472 /* bytes: a longer one does not fit into a packet of Ethernet, and the system refuses to make it */

/* -- memory -- */

static size_t
memory_of(size_t size)
{
        return sizeof(struct weir__datagram) + size + 1;
}

struct weir__datagram *
weir__datagram_new(const struct weir_udp_address *name, const void *data, size_t size)
{
        struct weir__datagram *datagram = size < SIZE_MAX / 2 ? weir__alloc(memory_of(size)) : NULL;

        if (!datagram)
                return NULL;
        datagram->next = NULL;
        datagram->name.size = 0;
        datagram->size = size;
        datagram->number = 0;
        datagram->is_truncated = false;
        if (name)
                datagram->name = *name;
        if (data)
                memcpy(datagram->data, data, size);
        datagram->data[size] = '\0';
        return datagram;
}

void
weir__datagram_free(struct weir__datagram *datagram)
{
        if (datagram)
                weir__free(datagram, memory_of(datagram->size));
}

void
weir__datagrams_append(struct weir__datagrams *list, struct weir__datagram *datagram)
{
        datagram->next = NULL;
        if (list->last)
                list->last->next = datagram;
        else
                list->first = datagram;
        list->last = datagram;
        list->count++;
}

struct weir__datagram *
weir__datagrams_pop(struct weir__datagrams *list)
{
        struct weir__datagram *datagram = list->first;

        if (!datagram)
                return NULL;
        list->first = datagram->next;
        if (!list->first)
                list->last = NULL;
        list->count--;
        return datagram;
}

/* Numbers start again at 0 when they are used up. */
static bool
is_older(const struct weir__datagram *one, const struct weir__datagram *other)
{
        return (int32_t)(one->number - other->number) < 0;
}

void
weir__datagrams_merge(struct weir__datagrams *list, struct weir__datagrams *from)
{
        struct weir__datagrams head = {0};
        struct weir__datagram *datagram;

        while ((datagram = weir__datagrams_pop(from))) {
                while (list->first && is_older(list->first, datagram))
                        weir__datagrams_append(&head, weir__datagrams_pop(list));
                weir__datagrams_append(&head, datagram);
        }
        if (!head.last)
                return;
        head.last->next = list->first;
        *list = (struct weir__datagrams){head.first, list->last ? list->last : head.last, head.count + list->count};
}

void
weir__datagrams_free(struct weir__datagrams *list)
{
        struct weir__datagram *datagram;

        while ((datagram = weir__datagrams_pop(list)))
                weir__datagram_free(datagram);
}

/* -- names, as the system has them -- */

/* An address of IPv4 in an address of IPv6.  Source: RFC 4291, section 2.5.5.2. */
static socklen_t
name_for(int family, const struct weir_udp_address *from, struct sockaddr_storage *to)
{
        const struct sockaddr_in *four = (const struct sockaddr_in *)from->name;
        struct sockaddr_in6 *six = (struct sockaddr_in6 *)to;

        if (family != AF_INET6 || from->size < sizeof *four || four->sin_family != AF_INET) {
                memcpy(to, from->name, from->size);
                return from->size;
        }
        memset(six, 0, sizeof *six);
        six->sin6_family = AF_INET6;
        six->sin6_port = four->sin_port;
        six->sin6_addr.s6_addr[10] = six->sin6_addr.s6_addr[11] = 0xff;
        memcpy(&six->sin6_addr.s6_addr[12], &four->sin_addr, sizeof four->sin_addr);
        return sizeof *six;
}

void
weir__datagram_unmap(struct weir_udp_address *address)
{
        const struct sockaddr_in6 *six = (const struct sockaddr_in6 *)address->name;
        struct sockaddr_in four = {.sin_family = AF_INET};

        if (address->size < sizeof *six || six->sin6_family != AF_INET6 || !IN6_IS_ADDR_V4MAPPED(&six->sin6_addr))
                return;
        four.sin_port = six->sin6_port;
        memcpy(&four.sin_addr, &six->sin6_addr.s6_addr[12], sizeof four.sin_addr);
        memset(address->name, 0, sizeof address->name);
        memcpy(address->name, &four, sizeof four);
        address->size = sizeof four;
}

/* -- receiving -- */

/* Room also for what other options of the socket report, such as SO_TIMESTAMPING, which comes first. */
struct received_control {
        _Alignas(struct cmsghdr) char bytes[256];
};

/* Owner of the poller only. */
struct room {
        unsigned sockets; /* that have joined */
        char *memory;
        struct mmsghdr messages[WEIR__DATAGRAMS_ONCE];
        struct iovec parts[WEIR__DATAGRAMS_ONCE];
        struct sockaddr_storage names[WEIR__DATAGRAMS_ONCE];
        struct received_control controls[WEIR__DATAGRAMS_ONCE]; /* of messages that may be joined */
};

static struct room *rooms[WEIR__POLLERS_MAX];

static struct room *
make_room(void)
{
        struct room *room = calloc(1, sizeof *room);

        if (!room)
                return NULL;
        room->memory = mmap(NULL, (size_t)WEIR__DATAGRAMS_ONCE * WEIR__DATAGRAM_MAX, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (room->memory == MAP_FAILED) {
                free(room);
                return NULL;
        }
        return room;
}

int
weir__datagram_room_join(unsigned poller)
{
        if (!rooms[poller])
                rooms[poller] = make_room();
        if (!rooms[poller])
                return -ENOMEM;
        rooms[poller]->sockets++;
        return 0;
}

void
weir__datagram_room_leave(unsigned poller)
{
        struct room *room = rooms[poller];

        if (--room->sockets)
                return;
        munmap(room->memory, (size_t)WEIR__DATAGRAMS_ONCE * WEIR__DATAGRAM_MAX);
        free(room);
        rooms[poller] = NULL;
}

bool
weir__datagrams_join(int fd)
{
        const int on = 1;

        return setsockopt(fd, SOL_UDP, UDP_GRO, &on, sizeof on) == 0;
}

static void
prepare_room(struct room *room, const struct weir__datagrams_wanted *wanted, unsigned most)
{
        for (unsigned i = 0; i < most; i++) {
                struct msghdr *header = &room->messages[i].msg_hdr;

                room->parts[i] = (struct iovec){.iov_base = room->memory + (size_t)i * WEIR__DATAGRAM_MAX,
                                                .iov_len = wanted->joins ? WEIR__DATAGRAM_MAX : wanted->max};
                *header = (struct msghdr){.msg_name = &room->names[i],
                                          .msg_namelen = sizeof room->names[i],
                                          .msg_iov = &room->parts[i],
                                          .msg_iovlen = 1};
                if (wanted->joins) {
                        header->msg_control = room->controls[i].bytes;
                        header->msg_controllen = sizeof room->controls[i].bytes;
                }
        }
}

/* The bytes of each datagram of a message, but for the last one, which may be shorter; 0: the message is one datagram. */
static size_t
segment_of(const struct msghdr *header)
{
        int segment;

        for (struct cmsghdr *each = CMSG_FIRSTHDR(header); each; each = CMSG_NXTHDR((struct msghdr *)header, each)) {
                if (each->cmsg_level != SOL_UDP || each->cmsg_type != UDP_GRO)
                        continue;
                memcpy(&segment, CMSG_DATA(each), sizeof segment);
                return segment > 0 ? (size_t)segment : 0;
        }
        return 0;
}

static struct weir__datagram *
copy_of(const struct msghdr *header, const char *data, size_t size, size_t max)
{
        struct weir__datagram *datagram = weir__datagram_new(NULL, data, size < max ? size : max);

        if (!datagram)
                return NULL;
        datagram->is_truncated = size > max || header->msg_flags & MSG_TRUNC;
        if (header->msg_namelen > sizeof(sa_family_t) && header->msg_namelen <= sizeof datagram->name.name) {
                datagram->name.size = header->msg_namelen;
                memset(datagram->name.name, 0, sizeof datagram->name.name);
                memcpy(datagram->name.name, header->msg_name, header->msg_namelen);
                weir__datagram_unmap(&datagram->name);
        }
        return datagram;
}

/* Returns how many datagrams were lost. */
static unsigned
split(const struct mmsghdr *message, size_t max, struct weir__datagrams *list)
{
        const struct msghdr *header = &message->msg_hdr;
        const char *data = header->msg_iov->iov_base;
        size_t rest = message->msg_len, segment = segment_of(header), size;
        unsigned lost = 0;

        do {
                size = segment && segment < rest ? segment : rest;
                struct weir__datagram *datagram = copy_of(header, data, size, max);
                if (datagram)
                        weir__datagrams_append(list, datagram);
                else
                        lost++;
                data += size;
                rest -= size;
        } while (rest > 0);
        return lost;
}

int
weir__datagrams_receive(unsigned poller, int fd, const struct weir__datagrams_wanted *wanted, struct weir__datagrams *list,
                        unsigned *lost)
{
        struct room *room = rooms[poller];
        unsigned most = wanted->most < WEIR__DATAGRAMS_ONCE ? wanted->most : WEIR__DATAGRAMS_ONCE;
        int count;

        prepare_room(room, wanted, most);
        do {
                count = recvmmsg(fd, room->messages, most, MSG_DONTWAIT, NULL);
        } while (count < 0 && errno == EINTR);
        if (count < 0)
                return -errno;
        *lost = 0;
        for (int i = 0; i < count; i++)
                *lost += split(&room->messages[i], wanted->max, list);
        return count;
}

/* -- sending -- */

struct control {
        _Alignas(struct cmsghdr) char bytes[CMSG_SPACE(sizeof(uint16_t))];
};

/* What a call of the system sends. */
struct outgoing {
        struct mmsghdr messages[WEIR__DATAGRAMS_ONCE];
        struct iovec parts[WEIR__DATAGRAMS_ONCE];
        struct sockaddr_storage names[WEIR__DATAGRAMS_ONCE];
        struct control controls[WEIR__DATAGRAMS_ONCE];
        unsigned count; /* messages */
};

static bool
has_same_name(const struct weir__datagram *one, const struct weir__datagram *other)
{
        return one->name.size == other->name.size && memcmp(one->name.name, other->name.name, one->name.size) == 0;
}

/* How many datagrams from that one on, at most `most`, one message may have: all of one size, except that the last one may be
 * shorter. */
static unsigned
run_from(const struct weir__datagram *first, unsigned most)
{
        const struct weir__datagram *datagram = first;
        unsigned count = 1;
        size_t bytes = first->size;

        if (first->size == 0 || first->size > SEGMENT_MOST)
                return 1;
        while (count < most && datagram->size == first->size && (datagram = datagram->next) && datagram->size > 0 &&
               datagram->size <= first->size && has_same_name(datagram, first)) {
                bytes += datagram->size;
                if (bytes > UINT16_MAX - 100) /* with the headers */
                        break;
                count++;
        }
        return count;
}

static void
mark_segments(struct msghdr *header, struct control *control, size_t size)
{
        uint16_t segment = (uint16_t)size;

        header->msg_control = control->bytes;
        header->msg_controllen = sizeof control->bytes;
        struct cmsghdr *part = CMSG_FIRSTHDR(header);
        part->cmsg_level = SOL_UDP;
        part->cmsg_type = UDP_SEGMENT;
        part->cmsg_len = CMSG_LEN(sizeof segment);
        memcpy(CMSG_DATA(part), &segment, sizeof segment);
}

static void
prepare(struct outgoing *out, int family, const struct weir__datagram *datagram, bool should_join)
{
        out->count = 0;
        for (unsigned i = 0, run; i < WEIR__DATAGRAMS_ONCE && datagram; i += run) {
                struct msghdr *header = &out->messages[out->count].msg_hdr;

                run = should_join ? run_from(datagram, WEIR__DATAGRAMS_ONCE - i) : 1;
                *header = (struct msghdr){.msg_iov = &out->parts[i], .msg_iovlen = run};
                if (datagram->name.size) {
                        header->msg_name = &out->names[out->count];
                        header->msg_namelen = name_for(family, &datagram->name, &out->names[out->count]);
                }
                if (run > 1)
                        mark_segments(header, &out->controls[out->count], datagram->size);
                for (unsigned part = i; part < i + run; part++, datagram = datagram->next)
                        out->parts[part] = (struct iovec){.iov_base = (void *)datagram->data, .iov_len = datagram->size};
                out->count++;
        }
}

static int
send_prepared(int fd, struct outgoing *out)
{
        int sent;

        do {
                sent = sendmmsg(fd, out->messages, out->count, MSG_DONTWAIT | MSG_NOSIGNAL);
        } while (sent < 0 && errno == EINTR);
        return sent < 0 ? -errno : sent;
}

int
weir__datagram_send(int fd, int family, const struct weir__datagram *datagram)
{
        struct sockaddr_storage name;
        ssize_t sent;
        socklen_t size = datagram->name.size ? name_for(family, &datagram->name, &name) : 0;

        do {
                sent = sendto(fd, datagram->data, datagram->size, MSG_DONTWAIT | MSG_NOSIGNAL,
                              size ? (struct sockaddr *)&name : NULL, size);
        } while (sent < 0 && errno == EINTR);
        return sent < 0 ? -errno : 0;
}

int
weir__datagrams_send(int fd, int family, struct weir__datagrams *list)
{
        bool may_join = family != AF_UNIX && list->count > 1;
        struct outgoing out;
        int count = 0;

        if (list->count == 1) {
                count = weir__datagram_send(fd, family, list->first);
                if (count == 0)
                        weir__datagram_free(weir__datagrams_pop(list));
                return count < 0 ? count : 1;
        }
        prepare(&out, family, list->first, may_join);
        int sent = send_prepared(fd, &out);
        if (sent < 0 && sent != -EAGAIN &&
            out.messages[0].msg_hdr.msg_iovlen > 1) { /* such as no room in a packet, or no offload */
                prepare(&out, family, list->first, false);
                sent = send_prepared(fd, &out);
        }
        for (int i = 0; i < sent; i++)
                for (size_t part = 0; part < (size_t)out.messages[i].msg_hdr.msg_iovlen; part++, count++)
                        weir__datagram_free(weir__datagrams_pop(list));
        return sent < 0 ? sent : count;
}

/* -- errors that hosts report -- */

bool
weir__datagram_error(int fd, struct weir_udp_address *to, int *error)
{
        struct sockaddr_storage name;
        _Alignas(struct cmsghdr) char control[512];
        char byte;
        struct iovec part = {.iov_base = &byte, .iov_len = 1};
        struct msghdr header = {.msg_name = &name,
                                .msg_namelen = sizeof name,
                                .msg_iov = &part,
                                .msg_iovlen = 1,
                                .msg_control = control,
                                .msg_controllen = sizeof control};
        ssize_t got;

        do {
                got = recvmsg(fd, &header, MSG_ERRQUEUE | MSG_DONTWAIT);
        } while (got < 0 && errno == EINTR);
        if (got < 0)
                return false;
        *error = 0;
        memset(to, 0, sizeof *to);
        if (header.msg_namelen <= sizeof to->name) {
                to->size = header.msg_namelen;
                memcpy(to->name, &name, header.msg_namelen);
                weir__datagram_unmap(to);
        }
        for (struct cmsghdr *each = CMSG_FIRSTHDR(&header); each; each = CMSG_NXTHDR(&header, each)) {
                struct sock_extended_err what;

                if ((each->cmsg_level != SOL_IP || each->cmsg_type != IP_RECVERR) &&
                    (each->cmsg_level != SOL_IPV6 || each->cmsg_type != IPV6_RECVERR))
                        continue;
                memcpy(&what, CMSG_DATA(each), sizeof what);
                *error = -(int)what.ee_errno;
        }
        return true;
}
