/* net/resolve/look_up.h: a look-up: the way of a name to its answer. */
#ifndef WEIR_NET_LOOK_UP_H
#define WEIR_NET_LOOK_UP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weir/resolve.h>

#include "kernel/executor/jobs.h"
#include "net/resolve/answer.h"
#include "net/resolve/cache.h"
#include "net/resolve/dns.h"
#include "net/resolve/files.h"

/* -- settings -- */

#define WEIR__RESOLVER_NAMES    1000            /* the defaults: how many answers are kept, and how long */
#define WEIR__RESOLVER_KEEP     WEIR_SEC(86400)
#define WEIR__RESOLVER_NEGATIVE WEIR_SEC(60)

/* How names are looked up.  Constant but for the count. */
struct weir__resolver_settings {
        _Atomic uint32_t references;
        uint64_t generation;
        int mode, tries;
        char *servers; /* or NULL */
        weir_nsec timeout, max_keep, max_negative;
        weir_resolver_fn *answer;
        void *context;
        weir_free_fn *on_free;
        struct weir__work work; /* frees it, on a poller */
};

/* settings.c.  Drops a reference.  Returns whether it was the last, so that the caller has to free it. */
bool weir__resolver_settings_drop(struct weir__resolver_settings *settings);
void weir__resolver_settings_free(struct weir__resolver_settings *settings); /* calls a function of the program */

/* -- who answers: route.c -- */

enum weir__route {
        WEIR__ROUTE_ANSWERED = 0, /* the answer is there: from the files, or by a rule */
        WEIR__ROUTE_DNS,
        WEIR__ROUTE_SYSTEM,
};

/* Who is to be asked for a name.  Never blocks. */
enum weir__route weir__route_of(const struct weir__resolver_settings *settings, const struct weir__name_files *files,
                                const struct weir__host_key *key, struct weir__answer **answer);

/* What the file of hosts says, if it comes after the servers of names; NULL: nothing. */
struct weir__answer *weir__route_last(const struct weir__resolver_settings *settings, const struct weir__name_files *files,
                                      const struct weir__host_key *key);

/* Asks the system.  It blocks. */
struct weir__answer *weir__route_system(const struct weir__host_key *key);

/* Asks the function of the program; NULL: it has passed.  `ttl`: how long the answer holds.  It may block. */
struct weir__answer *weir__route_program(const struct weir__resolver_settings *settings, const struct weir__host_key *key,
                                         weir_nsec *ttl);

/* The answer for a literal address, or for a text that is no name; NULL: it is a name, and its key is written, with the name in
 * `room`, which has WEIR__HOST_BYTES + 1 bytes. */
struct weir__answer *weir__route_read(const char *host, int family, struct weir__host_key *key, char *room);

/* -- look-ups: look_up.c -- */

/* What the executor does for a look-up. */
enum weir__look_up_part {
        WEIR__LOOK_UP_PREPARE, /* looks at the files, and makes a channel */
        WEIR__LOOK_UP_PROGRAM, /* asks the function of the program */
        WEIR__LOOK_UP_SYSTEM,  /* asks the system */
};

struct weir__look_up {
        struct weir__job job;               /* its part on the executor */
        struct weir__work work;             /* from there to the poller */
        struct weir__dns_question question; /* owner of the poller */

        /* Constant once it has begun. */
        struct weir__resolver_settings *settings; /* its maker's */
        struct weir__host_key key;
        char name[WEIR__HOST_BYTES + 1];
        uint8_t poller;

        /* Takes a reference.  `ttl`: how long the answer holds; 0: it must not be kept.  On the owner or on the executor; no code
         * of the program may run in it. */
        void (*done)(struct weir__look_up *look_up, struct weir__answer *answer, weir_nsec ttl);
        void (*early)(struct weir__look_up *look_up, struct weir__answer *answer); /* as of a question */

        /* Of whoever has it now, the owner or the executor. */
        uint8_t part;                   /* enum weir__look_up_part */
        bool has_passed;                /* the function of the program has nothing to say */
        int failed;                     /* the part; 0: it has not */
        uint64_t channel;               /* the generation of the poller's channel, for the part */
        struct weir__name_files *files; /* a reference; or NULL */
        struct weir__dns *dns;          /* a channel for the poller, which the part has made; or NULL */
        struct weir__link waiting;      /* for the preparation of its poller.  Owner */
};

/* Fills a look-up of all zero in, but for its settings and functions. */
void weir__look_up_prepare(struct weir__look_up *look_up, const struct weir__host_key *key, const struct weir__poller *poller);

/* `done` is called later, or within this call.  Owner of the poller; the caller has counted a root. */
void weir__look_up_begin(struct weir__look_up *look_up);

/* Drops what it has, at its end, but for the settings. */
void weir__look_up_finish(struct weir__look_up *look_up);

/* -- the resolver as a whole: resolver.c -- */

/* Takes the caller's references, and forgets all answers.  NULL: the default settings; no cache.  Any thread. */
void weir__resolver_take(struct weir__resolver_settings *settings, struct weir__name_cache *cache);
void weir__resolver_forget(void);
void weir__resolver_count(struct weir_resolver_stats *stats);

#endif
