/* net/datagram/datagram.h: datagrams in memory, and the calls of the system that move them. */
#ifndef WEIR_NET_DATAGRAM_H
#define WEIR_NET_DATAGRAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include <weir/udp.h>

#define WEIR__DATAGRAM_MAX   65536 /* bytes that are read of a datagram */
#define WEIR__DATAGRAMS_ONCE 32    /* that a call of the system moves */

struct weir__datagram {
        struct weir__datagram *next;
        struct weir_udp_address name; /* of the sender, or the destination; size 0: none */
        size_t size;
        uint32_t number; /* counts what a socket has received for receivers */
        bool is_truncated;
        char data[]; /* a NUL follows */
};

/* First in, first out.  All zero is empty. */
struct weir__datagrams {
        struct weir__datagram *first, *last;
        size_t count;
};

/* NULL when out of memory.  `name` may be NULL; without `data` the bytes are the caller's to fill. */
struct weir__datagram *weir__datagram_new(const struct weir_udp_address *name, const void *data, size_t size);
void weir__datagram_free(struct weir__datagram *datagram);

void weir__datagrams_append(struct weir__datagrams *list, struct weir__datagram *datagram);

/* Moves datagrams into a list, both in the order of their numbers.  `from` is empty then. */
void weir__datagrams_merge(struct weir__datagrams *list, struct weir__datagrams *from);

struct weir__datagram *weir__datagrams_pop(struct weir__datagrams *list); /* NULL: it is empty */
void weir__datagrams_free(struct weir__datagrams *list);

/* -- the room in which a poller receives: address space for the largest datagrams.  Pages that none has filled cost nothing.
 * Owner of the poller only -- */

/* Each socket of the poller joins.  Result: 0 or -ENOMEM. */
int weir__datagram_room_join(unsigned poller);
void weir__datagram_room_leave(unsigned poller);

/* From now on the system may join datagrams of one sender and one size into one message (UDP_GRO, Linux 5.0).  Returns whether
 * it may. */
bool weir__datagrams_join(int fd);

/* What is wanted of a read. */
struct weir__datagrams_wanted {
        size_t max;    /* bytes of a datagram, the rest is cut */
        unsigned most; /* messages */
        bool joins;    /* weir__datagrams_join was true: a message has 1 to 128 datagrams, of 64 KiB together */
};

/* Receives at most WEIR__DATAGRAMS_ONCE messages, and appends their datagrams to the list.  *lost counts the datagrams for which
 * there was no memory.
 *
 * Result:  how many messages came; if none: -EAGAIN, or an error that the socket has. */
int weir__datagrams_receive(unsigned poller, int fd, const struct weir__datagrams_wanted *wanted, struct weir__datagrams *list,
                            unsigned *lost);

/* -- sending -- */

/* Sends datagrams from the head of the list, at most WEIR__DATAGRAMS_ONCE, and frees them.  Neighbours of one size and
 * destination become one message if the system can.
 *
 * Result:  how many went, above 0; or the error of the first one, which stays in the list. */
int weir__datagrams_send(int fd, int family, struct weir__datagrams *list);

/* Sends one.  Result: 0, or a negative errno. */
int weir__datagram_send(int fd, int family, const struct weir__datagram *datagram);

/* Reads an error that a host has reported for a datagram that was sent (IP_RECVERR).  Sets *error to a negative errno, and *to to
 * the destination.  Returns false when there is none. */
bool weir__datagram_error(int fd, struct weir_udp_address *to, int *error);

/* An IPv4 address that is written as one of IPv6 becomes itself. */
void weir__datagram_unmap(struct weir_udp_address *address);

#endif
