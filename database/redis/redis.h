/* database/redis/redis.h: what the parts of libweir-redis share.
 *
 *     weir_redis --> nodes, one for each server --> endpoints of weir/protocol.h: one that commands share, one whose connections
 *                \                                  have one command each
 *                 \--> commands, promises of a kind, each with a series of its own: asks, pauses
 *
 * A node outlives its endpoints, whose description it has.  All nodes have the settings. */
#ifndef WEIR_REDIS_INTERNAL_H
#define WEIR_REDIS_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include <weir/promise.h>
#include <weir/protocol.h>
#include <weir/redis.h>

#include "database/redis/reply.h"

#define WEIR__REDIS_TEXT 256 /* of a problem, with its NUL */

/* -- settings.c: what does not change -- */

enum weir__redis_mode { WEIR__REDIS_SINGLE, WEIR__REDIS_CLUSTER, WEIR__REDIS_SENTINEL };

struct weir__redis_settings {
        _Atomic unsigned references;
        enum weir__redis_mode mode;
        char *user, *password, *name; /* or NULL */
        char *master;                 /* of sentinels: its name; or NULL */
        unsigned database;
        weir_tls *tls;  /* or NULL: plain */
        char **targets; /* addresses for weir_connect_new: the server, or some of the cluster, or the sentinels */
        size_t count;   /* of them, not 0 */
        struct weir_redis_config config; /* without its texts; nothing is 0 that has a default */
};

/* Reads an address and a config.  NULL with errno EINVAL or ENOMEM. */
struct weir__redis_settings *weir__redis_settings_new(const char *address, const struct weir_redis_config *config);
struct weir__redis_settings *weir__redis_settings_ref(struct weir__redis_settings *settings);
void weir__redis_settings_unref(struct weir__redis_settings *settings);

/* -- node.c: a server -- */

struct weir__redis_node {
        _Atomic unsigned references;
        struct weir__redis_settings *settings;
        char *address;

        struct weir_protocol shared, own; /* constant */
        weir_endpoint *commands;          /* with the first description */
        weir_endpoint *waits;             /* with the second */
        _Atomic unsigned under_way;       /* commands */
        _Atomic bool is_flowing;          /* the last command had a reply */

        pthread_mutex_t lock;
        char problem[WEIR__REDIS_TEXT]; /* of the last greeting that has failed; guarded by lock */
};

struct weir__redis_node *weir__redis_node_new(struct weir__redis_settings *settings, const char *address);
void weir__redis_node_close(struct weir__redis_node *node); /* gives up its endpoints, and a reference */
struct weir__redis_node *weir__redis_node_ref(struct weir__redis_node *node);
void weir__redis_node_unref(void *node);
void weir__redis_node_set_problem(struct weir__redis_node *node, const char *text);
void weir__redis_node_problem(struct weir__redis_node *node, char out[WEIR__REDIS_TEXT]);

/* -- hello.c -- */

/* Pushes what a fresh connection begins with; a weir_protocol_hello_fn.  The context is the node. */
void weir__redis_hello(weir_stream *stream, weir_series *series, void *node);

/* -- encode.c: the bytes of commands -- */

size_t weir__redis_encoded_size(size_t count, const char *const *arguments, const size_t *sizes);
void weir__redis_encode(char *out, size_t count, const char *const *arguments, const size_t *sizes);

/* Words that are put together. */
struct weir__redis_words {
        char *text; /* of all */
        size_t *ends;
        size_t used, room, count, ends_room;
        int fault; /* 0, -ENOMEM, -EINVAL */
};

void weir__redis_words_add(struct weir__redis_words *words, const void *bytes, size_t size); /* to the last one */
void weir__redis_words_end(struct weir__redis_words *words);                                 /* it is whole */
void weir__redis_words_format(struct weir__redis_words *words, const char *format, va_list arguments);
void weir__redis_words_free(struct weir__redis_words *words);

/* -- names.c: what is known of commands -- */

enum weir__redis_trait {
        WEIR__REDIS_READS = 1,    /* may be executed twice */
        WEIR__REDIS_WAITS = 2,    /* at the server */
        WEIR__REDIS_CHANGES = 4,  /* the state of its connection */
        WEIR__REDIS_MAY_WAIT = 8, /* if BLOCK is among its arguments */
};

struct weir__redis_name {
        const char *name;
        uint8_t traits;
        int8_t key; /* which argument is the first key; 0: none; negative: WEIR__REDIS_KEY_... */
};

#define WEIR__REDIS_KEY_COUNTED (-2) /* behind a number of keys, which is the argument 2; 0 keys: none */
#define WEIR__REDIS_KEY_STREAMS (-3) /* behind the word STREAMS */
#define WEIR__REDIS_KEY_FIRST   (-4) /* behind a number of keys, which is the argument 1 */

/* Never NULL: a command that is not known has no traits, and its key is the first argument. */
const struct weir__redis_name *weir__redis_name_of(const char *text, size_t size);

/* What a command has, by its arguments. */
unsigned weir__redis_traits(size_t count, const char *const *arguments, const size_t *sizes);

/* -- status.c: errors of servers -- */

int weir__redis_status_of(const char *text); /* of "WRONGPASS invalid ...": -EACCES */

/* -- redis.c, command.c -- */

struct weir_redis {
        _Atomic unsigned references;
        struct weir__redis_settings *settings;
        struct weir__redis_node *node;
};

/* A command: `own` of its promise. */
struct weir__redis_command {
        struct weir_redis *redis;              /* a reference */
        weir_task *promise;                    /* a reference from its begin to the end of its series */
        weir_series *_Atomic series;           /* a reference; NULL: there is none yet */
        _Atomic bool is_cancelled;             /* is set before the series is looked for */
        struct weir__redis_node *_Atomic node; /* to which it goes; the redis keeps it */
        uint8_t traits;
        bool is_repeatable, is_over;
        int fault; /* why it cannot begin */
        unsigned tries;

        /* Its series' until its promise ends, then the callback's. */
        struct weir__redis_tree tree;
        char problem[WEIR__REDIS_TEXT]; /* "" : that of the tree */

        size_t size; /* of the bytes */
        char room[160];
        char bytes[];
};

#endif
