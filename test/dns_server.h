/* test/dns_server.h: a server of names on 127.0.0.1, over UDP and TCP, which answers by the first label of a name.
 *
 *   v4 v6 both      addresses, for a minute; what is missing is an empty answer with an SOA of 7 s
 *   short zero      an IPv4 address for 2 s, for no time
 *   cname           an alias, for 30 s, of an IPv4 address, for 300 s
 *   many big        20 addresses; 60, for which it says over UDP that they do not fit
 *   nx nxbare       no such name: with an SOA of 20 s, without one
 *   fail refused    SERVFAIL, REFUSED
 *   failing6        an IPv4 address, and SERVFAIL for IPv6
 *   silent          nothing
 *   held late6      nothing until dns_release, then as `both`; late6 holds only IPv6 back
 *   garbage tiny    a reply whose counts lie; a reply of three bytes, and then a good one
 *   nothing         an empty datagram, and then a good reply
 *   local           127.0.0.1 and ::1
 *   hole            192.0.2.1, and then 127.0.0.1
 *
 * Other names are as v4. */
#ifndef WEIR_TEST_DNS_SERVER_H
#define WEIR_TEST_DNS_SERVER_H

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "test/support.h"

#define DNS_A    1
#define DNS_AAAA 28
#define DNS_HELD 64

struct dns_query {
        unsigned char data[512];
        size_t size;
        struct sockaddr_in from;
};

static struct {
        int udp, tcp, stop; /* stop: an eventfd; 1 releases what is held, more ends the thread */
        char servers[64];
        pthread_t thread;
        _Atomic unsigned queries, over_tcp;
        struct dns_query held[DNS_HELD]; /* the thread's */
        unsigned held_count;
        _Atomic unsigned holds; /* that is read by tests */
        bool is_released;       /* the thread's */
} dns;

struct dns_writer {
        unsigned char data[4096];
        size_t size;
};

static inline void dns_put(struct dns_writer *reply, uint32_t number, unsigned bytes)
{
        while (bytes-- > 0)
                reply->data[reply->size++] = (unsigned char)(number >> 8 * bytes);
}

static inline void dns_put_record(struct dns_writer *reply, uint32_t type, uint32_t ttl, const void *data, unsigned size)
{
        dns_put(reply, 0xc00c, 2); /* the name of the question */
        dns_put(reply, type, 2);
        dns_put(reply, 1, 2);
        dns_put(reply, ttl, 4);
        dns_put(reply, size, 2);
        memcpy(reply->data + reply->size, data, size);
        reply->size += size;
}

static inline void dns_put_address(struct dns_writer *reply, uint32_t type, uint32_t ttl, const char *text)
{
        unsigned char address[16];

        CU_ASSERT_EQUAL(inet_pton(type == DNS_A ? AF_INET : AF_INET6, text, address), 1);
        dns_put_record(reply, type, ttl, address, type == DNS_A ? 4 : 16);
}

/* The SOA of a zone: two names of the root, five numbers. */
static inline void dns_put_soa(struct dns_writer *reply, uint32_t ttl, uint32_t least)
{
        unsigned char data[22] = {0};

        for (unsigned i = 0; i < 4; i++)
                data[18 + i] = (unsigned char)(least >> 8 * (3 - i));
        dns_put_record(reply, 6, ttl, data, sizeof data);
}

static inline bool dns_is(const struct dns_query *query, const char *label)
{
        return query->data[12] == strlen(label) && strncasecmp((const char *)query->data + 13, label, strlen(label)) == 0;
}

/* Where the question ends; 0: it is none. */
static inline size_t dns_question_end(const struct dns_query *query)
{
        size_t at = 12;

        while (at < query->size && query->data[at])
                at += query->data[at] + 1U;
        return at + 5 <= query->size ? at + 5 : 0;
}

struct dns_kind {
        const char *label;
        uint32_t ttl;
        const char *four[3], *six[2];
};

static inline unsigned dns_put_answer(struct dns_writer *reply, const struct dns_query *query, uint32_t type)
{
        static const struct dns_kind kinds[] = {
                {"v4", 60, {"192.0.2.1"}, {NULL}},
                {"v6", 60, {NULL}, {"2001:db8::1"}},
                {"both", 60, {"192.0.2.1"}, {"2001:db8::1"}},
                {"held", 60, {"192.0.2.1"}, {"2001:db8::1"}},
                {"late6", 60, {"192.0.2.1"}, {"2001:db8::1"}},
                {"short", 2, {"192.0.2.2"}, {NULL}},
                {"zero", 0, {"192.0.2.3"}, {NULL}},
                {"failing6", 60, {"192.0.2.4"}, {NULL}},
                {"local", 60, {"127.0.0.1"}, {"::1"}},
                {"late6local", 60, {"127.0.0.1"}, {"::1"}},
                {"hole", 60, {"192.0.2.1", "127.0.0.1"}, {NULL}},
                {"", 60, {"192.0.2.1"}, {NULL}},
        };
        const struct dns_kind *kind = kinds;
        unsigned count = 0;

        if (dns_is(query, "many") || dns_is(query, "big")) {
                for (unsigned i = 0; type == DNS_A && i < (dns_is(query, "many") ? 20 : 60); i++, count++) {
                        char text[32];

                        snprintf(text, sizeof text, "192.0.2.%u", i + 1);
                        dns_put_address(reply, type, 60, text);
                }
                return count;
        }
        if (dns_is(query, "cname")) {
                unsigned char alias[] = {5, 'a', 'l', 'i', 'a', 's', 0xc0, 0x0c}; /* alias.cname... */

                if (type != DNS_A)
                        return 0;
                size_t at = reply->size + 12;
                dns_put_record(reply, 5, 30, alias, sizeof alias);
                size_t record = reply->size;
                dns_put_address(reply, DNS_A, 300, "192.0.2.5");
                reply->data[record] = (unsigned char)(0xc0 | at >> 8);
                reply->data[record + 1] = (unsigned char)at;
                return 2;
        }
        while (*kind->label && !dns_is(query, kind->label))
                kind++;
        for (const char *const *each = type == DNS_A ? kind->four : kind->six; *each; each++, count++)
                dns_put_address(reply, type, kind->ttl, *each);
        return count;
}

static inline void dns_answer(const struct dns_query *query, bool is_tcp, struct dns_writer *reply)
{
        size_t end = dns_question_end(query);
        uint32_t type = end ? (uint32_t)query->data[end - 3] : 0, code = 0;
        bool is_nx = dns_is(query, "nx") || dns_is(query, "nxbare"), is_cut = dns_is(query, "big") && !is_tcp;

        reply->size = 0;
        if (!end || dns_is(query, "silent"))
                return;
        memcpy(reply->data, query->data, end);
        reply->size = end;
        if (is_nx)
                code = 3;
        else if (dns_is(query, "fail") || (dns_is(query, "failing6") && type == DNS_AAAA))
                code = 2;
        else if (dns_is(query, "refused"))
                code = 5;
        unsigned count = code || is_cut ? 0 : dns_put_answer(reply, query, type), authorities = 0;
        if (code == 3 ? dns_is(query, "nx") : !code && !count && !is_cut) {
                dns_put_soa(reply, 3600, code ? 20 : 7);
                authorities = 1;
        }
        reply->data[2] = (unsigned char)(0x81 | (is_cut ? 2 : 0));
        reply->data[3] = (unsigned char)(0x80 | code);
        memset(reply->data + 6, 0, 6);
        reply->data[7] = (unsigned char)(dns_is(query, "garbage") ? 200 : count);
        reply->data[9] = (unsigned char)authorities;
}

static inline void dns_reply(const struct dns_query *query)
{
        struct dns_writer reply;

        dns_answer(query, false, &reply);
        if (dns_is(query, "tiny"))
                sendto(dns.udp, "abc", 3, 0, (const struct sockaddr *)&query->from, sizeof query->from);
        if (dns_is(query, "nothing"))
                sendto(dns.udp, "", 0, 0, (const struct sockaddr *)&query->from, sizeof query->from);
        if (reply.size)
                sendto(dns.udp, reply.data, reply.size, 0, (const struct sockaddr *)&query->from, sizeof query->from);
}

static inline bool dns_must_hold(const struct dns_query *query)
{
        size_t end = dns_question_end(query);

        return !dns.is_released && dns.held_count < DNS_HELD &&
               (dns_is(query, "held") ||
                ((dns_is(query, "late6") || dns_is(query, "late6local")) && query->data[end - 3] == DNS_AAAA));
}

static inline void dns_take(void)
{
        struct dns_query query;
        socklen_t size = sizeof query.from;
        ssize_t got = recvfrom(dns.udp, query.data, sizeof query.data, MSG_DONTWAIT, (struct sockaddr *)&query.from, &size);

        if (got < 17)
                return;
        query.size = (size_t)got;
        atomic_fetch_add(&dns.queries, 1);
        if (!dns_must_hold(&query)) {
                dns_reply(&query);
                return;
        }
        dns.held[dns.held_count++] = query;
        atomic_store(&dns.holds, dns.held_count);
}

static inline bool dns_read(int fd, void *data, size_t size)
{
        for (size_t done = 0; done < size;) {
                ssize_t got = read(fd, (char *)data + done, size - done);

                if (got <= 0)
                        return false;
                done += (size_t)got;
        }
        return true;
}

/* One connection at a time; its reply comes in two pieces. */
static inline void dns_take_tcp(void)
{
        int fd = accept(dns.tcp, NULL, NULL);
        unsigned char head[2];
        struct dns_query query;
        struct dns_writer reply;

        while (fd >= 0 && dns_read(fd, head, 2) && (query.size = head[0] * 256U + head[1]) <= sizeof query.data &&
               dns_read(fd, query.data, query.size)) {
                atomic_fetch_add(&dns.over_tcp, 1);
                dns_answer(&query, true, &reply);
                head[0] = (unsigned char)(reply.size >> 8);
                head[1] = (unsigned char)reply.size;
                if (send(fd, head, 2, MSG_NOSIGNAL) != 2 ||
                    send(fd, reply.data, reply.size, MSG_NOSIGNAL) != (ssize_t)reply.size)
                        break;
        }
        close(fd);
}

static inline void *dns_run(void *unused)
{
        (void)unused;
        for (;;) {
                struct pollfd events[] = {{dns.udp, POLLIN, 0}, {dns.tcp, POLLIN, 0}, {dns.stop, POLLIN, 0}};
                eventfd_t orders = 0;

                poll(events, 3, -1);
                if (events[0].revents)
                        dns_take();
                if (events[1].revents)
                        dns_take_tcp();
                if (events[2].revents && eventfd_read(dns.stop, &orders) == 0 && orders > 1)
                        return NULL;
                if (orders == 1) {
                        dns.is_released = true;
                        for (unsigned i = 0; i < dns.held_count; i++)
                                dns_reply(&dns.held[i]);
                        dns.held_count = 0;
                }
        }
}

/* Answers what is held, and holds nothing from now on. */
static inline void dns_release(void)
{
        eventfd_write(dns.stop, 1);
}

static inline void dns_start(void)
{
        struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        socklen_t size = sizeof at;
        int room = 4 << 20;

        for (int tries = 0;; tries++) { /* the port must be free for both */
                dns.udp = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
                dns.tcp = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
                at.sin_port = 0;
                CU_ASSERT_EQUAL_FATAL(bind(dns.udp, (struct sockaddr *)&at, sizeof at), 0);
                CU_ASSERT_EQUAL_FATAL(getsockname(dns.udp, (struct sockaddr *)&at, &size), 0);
                if (bind(dns.tcp, (struct sockaddr *)&at, sizeof at) == 0)
                        break;
                CU_ASSERT_FATAL(tries < 100);
                close(dns.udp);
                close(dns.tcp);
        }
        (void)setsockopt(dns.udp, SOL_SOCKET, SO_RCVBUF, &room, sizeof room);
        CU_ASSERT_EQUAL_FATAL(listen(dns.tcp, 16), 0);
        snprintf(dns.servers, sizeof dns.servers, "127.0.0.1:%u", (unsigned)ntohs(at.sin_port));
        dns.stop = eventfd(0, EFD_CLOEXEC);
        dns.held_count = 0;
        dns.is_released = false;
        atomic_store(&dns.queries, 0);
        atomic_store(&dns.over_tcp, 0);
        atomic_store(&dns.holds, 0);
        CU_ASSERT_EQUAL_FATAL(pthread_create(&dns.thread, NULL, dns_run, NULL), 0);
}

static inline void dns_stop(void)
{
        eventfd_write(dns.stop, 2);
        pthread_join(dns.thread, NULL);
        close(dns.udp);
        close(dns.tcp);
        close(dns.stop);
}

#endif
