/* net/resolve/dns.h: questions to name servers, through c-ares.
 *
 * A channel belongs to a poller.  It has the sockets of c-ares, and a timer of real time.
 *
 *     new, anywhere --adopt--> the poller's current one --another is adopted--> retired --its last question--> freed
 *                                         \------the runtime ends------------------------------------------^ */
#ifndef WEIR_NET_DNS_H
#define WEIR_NET_DNS_H

#include <stdbool.h>
#include <stdint.h>

#include <weir/time.h>

#include "kernel/base/list.h"
#include "kernel/loop/pollers.h"
#include "net/resolve/answer.h"

#define WEIR__DNS_ADDRESSES        64            /* of a name and a family; others are not read */
#define WEIR__DNS_AT_ONCE          128           /* questions of a channel; the others wait in line */
#define WEIR__DNS_RESOLUTION_DELAY WEIR_MSEC(50) /* for IPv6 addresses, when the IPv4 addresses are there.  RFC 8305, section 3 */
#define WEIR__DNS_UNKNOWN          WEIR_SEC(5)   /* how long an answer without a TTL holds */

struct weir__dns;

/* -- channels: dns.c -- */

/* What a channel is made from. */
struct weir__dns_settings {
        const char *servers; /* "127.0.0.1:53,[::1]:53"; NULL: those of resolv.conf */
        const char *resolv;  /* the path of that */
        weir_nsec timeout;   /* of the first try of each server; 0: as resolv.conf says */
        int tries;           /* of each server; 0: the same */
        uint64_t generation; /* a channel of an older one is stale; above 0 */
};

/* What happens at a channel, for its questions.  Owner of the poller, within no call of c-ares. */
struct weir__dns_ops {
        bool (*settle)(struct weir__dns *dns); /* something has come or ended; returns whether the channel has no question left */
        void (*look)(struct weir__dns *dns, weir_nsec now); /* the timer has come, in real time */
        void (*end)(struct weir__dns *dns); /* c-ares has ended all its queries, and the channel goes */
};

struct weir__dns {
        struct weir__source timer; /* first; also what hears of the end of the runtime */
        const struct weir__dns_ops *ops;
        struct weir__poller *poller;
        struct ares_channeldata *channel;
        char **domains; /* the search list */
        int domain_count, ndots;
        weir_nsec timeout; /* of the first try */
        uint64_t generation;
        char servers[WEIR__ADDRESS_TEXT]; /* as many as have room, for people */

        struct weir__list sockets;
        weir_nsec armed; /* when the timer comes, in real time; WEIR_FOREVER: it is not set */
        bool is_retired, is_ending;
        struct weir__dns_socket *active;   /* whose event c-ares handles; NULL: none, or it was closed meanwhile */
        char answered[WEIR__ADDRESS_TEXT]; /* who has sent the last bytes */
        unsigned code;                     /* of the reply that c-ares has in hand; 0: none, or it was good */

        /* question.c's. */
        struct weir__list line; /* questions that wait */
        struct weir__list late; /* questions whose IPv6 addresses are late, in the order of their times */
        unsigned running;       /* questions */
};

/* What a query has come to. */
struct weir__dns_reply {
        int status;        /* 0: there are addresses; -ENOENT, -EIO, -EAGAIN, -EINVAL, -ENOMEM, -ESHUTDOWN */
        bool is_nxdomain;  /* -ENOENT because there is no such name; else it has no such addresses */
        const char *words; /* for the status: "SERVFAIL" */
        const char *server; /* who has answered; "": nobody */
        weir_nsec ttl;     /* of the addresses, the least */
        unsigned count;
        struct weir__socket_address *found; /* malloc; whoever gets the reply owns it */
        const unsigned char *data; /* as it came; NULL: nothing came */
        size_t size;
};

/* A query, in the struct of whoever makes it. */
struct weir__dns_query {
        /* Its maker's, constant meanwhile. */
        struct weir__dns *dns;
        int family;
        void (*replied)(struct weir__dns_query *query, const struct weir__dns_reply *reply); /* within a call of c-ares */
};

/* Makes a channel.  It reads resolv.conf.  Result: NULL when out of memory, or if the servers are invalid; then *failed is a
 * negative errno.  Any thread that may read files. */
struct weir__dns *weir__dns_new(const struct weir__dns_settings *settings, int *failed);
void weir__dns_free_unused(struct weir__dns *dns); /* one that no poller has adopted; accepts NULL */

/* The rest: owner of the poller. */

/* The poller has it from now on.  Result: 0 or a negative errno; then it is freed. */
int weir__dns_adopt(struct weir__poller *poller, struct weir__dns *dns, const struct weir__dns_ops *ops);

struct weir__dns *weir__dns_current(const struct weir__poller *poller); /* or NULL */

/* The generation of the poller's channel; 0: it has none. */
static inline uint64_t
weir__dns_generation(const struct weir__poller *poller)
{
        const struct weir__dns *dns = weir__dns_current(poller);

        return dns ? dns->generation : 0;
}

/* Asks for the addresses of a name in a family.  `replied` is called later, or within this call if it fails at once. */
void weir__dns_begin(struct weir__dns_query *query, const char *name);

/* The timer comes at that time, in real time, or before. */
void weir__dns_set_timer(struct weir__dns *dns, weir_nsec instant);

/* To be called when questions were added. */
void weir__dns_settle(struct weir__dns *dns);

/* -- questions: question.c -- */

/* The half of a question that is about one family. */
struct weir__dns_part {
        struct weir__dns_query query; /* first */
        struct weir__dns_question *question;
        bool is_open;           /* c-ares has the query */
        weir_nsec ttl;          /* of the addresses; or how long it holds that there are none */
        struct weir__dns_reply reply; /* its `server` is the one below; no data */
        char server[WEIR__ADDRESS_TEXT];
};

/* A question: the addresses of a name. */
struct weir__dns_question {
        /* The asker's, constant. */
        const char *name; /* valid, in lower case */
        int family;       /* 0: both */

        /* Has the answer, a reference, and how long it holds; 0: it must not be kept.  Owner of the poller; within a call of
         * c-ares, so it must not ask, and no code of the program may run. */
        void (*done)(struct weir__dns_question *question, struct weir__answer *answer, weir_nsec ttl);

        /* The IPv6 addresses are late, and the IPv4 addresses are there; once at most.  `done` follows. */
        void (*early)(struct weir__dns_question *question, struct weir__answer *answer);

        /* question.c's. */
        struct weir__link link; /* in the line */
        struct weir__link late; /* in the list of those whose IPv6 addresses are late */
        struct weir__dns *dns;
        weir_nsec early_at; /* in real time */
        unsigned candidate; /* of the names that the search list makes of it */
        unsigned open;      /* parts */
        const char *worst;  /* what a server that has failed at a candidate before has said; NULL: none has failed */
        struct weir__dns_part parts[2];   /* IPv6, IPv4 */
        char tried[WEIR__HOST_BYTES + 1]; /* the candidate */
};

/* Gives the poller a channel, which answers all questions from now on.  Result: 0 or a negative errno.  Owner. */
int weir__dns_use(struct weir__poller *poller, struct weir__dns *dns);

/* Asks, through the poller's channel.  `done` is called later or within this call.  Owner. */
void weir__dns_ask(struct weir__poller *poller, struct weir__dns_question *question);

#endif
