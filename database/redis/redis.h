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

#include "database/figures.h"
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
        _Atomic bool is_flowing;          /* the last command had a reply */

        pthread_mutex_t lock;
        struct weir__redis_link *links; /* idle ones; guarded by lock */
        unsigned link_count;            /* of them */
        char problem[WEIR__REDIS_TEXT]; /* of the last greeting that has failed; guarded by lock */
};

struct weir__redis_node *weir__redis_node_new(struct weir__redis_settings *settings, const char *address);
void weir__redis_node_close(struct weir__redis_node *node); /* gives up its endpoints, and a reference */
void weir__redis_node_set_problem(struct weir__redis_node *node, const char *text);
void weir__redis_node_problem(struct weir__redis_node *node, char out[WEIR__REDIS_TEXT]);

/* -- hello.c -- */

/* Pushes what a fresh connection begins with; a weir_protocol_hello_fn.  The context is the node. */
void weir__redis_hello(weir_stream *stream, weir_series *series, void *node);

/* -- make.c: the bytes of commands -- */

size_t weir__redis_encoded_size(size_t count, const char *const *arguments, const size_t *sizes);
size_t weir__redis_encode(char *out, size_t count, const char *const *arguments, const size_t *sizes);

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
void weir__redis_words_split(struct weir__redis_words *words, const char **texts); /* the ends are sizes then */
void weir__redis_words_free(struct weir__redis_words *words);

/* -- names.c: what is known of commands -- */

enum weir__redis_trait {
        WEIR__REDIS_READS = 1,        /* may be executed twice */
        WEIR__REDIS_WAITS = 2,        /* at the server */
        WEIR__REDIS_CHANGES = 4,      /* the state of its connection */
        WEIR__REDIS_MAY_WAIT = 8,     /* if BLOCK is among its arguments */
        WEIR__REDIS_IN_SESSIONS = 16, /* changes a connection in a way that may be in a session */
        WEIR__REDIS_BY_WORD = 32,     /* the next argument tells */
};

struct weir__redis_name {
        const char *name;
        uint8_t traits;
        int8_t key; /* which argument is the first key; 0: none; negative: WEIR__REDIS_KEY_... */
};

#define WEIR__REDIS_KEY_COUNTED (-2) /* behind a number of keys, which is the argument 2; 0 keys: none */
#define WEIR__REDIS_KEY_STREAMS (-3) /* behind the word STREAMS */
#define WEIR__REDIS_KEY_FIRST   (-4) /* behind a number of keys, which is the argument 1 */

/* What a command has, by its arguments. */
unsigned weir__redis_traits(size_t count, const char *const *arguments, const size_t *sizes);

/* Errors of servers. */

int weir__redis_status_of(const char *text); /* of "WRONGPASS invalid ...": -EACCES */

/* -- script.c -- */

struct weir_redis_script {
        _Atomic unsigned references;
        size_t size;
        char sha[41];
        char source[];
};

/* The bytes of EVAL for those of EVALSHA, malloc; NULL when out of memory. */
char *weir__redis_script_whole(const weir_redis_script *script, const char *bytes, size_t size, size_t *whole);

/* -- links: a connection that one owner has, and that is never made a second time -- */

struct weir__redis_link {
        _Atomic unsigned references;
        struct weir__redis_node *node;
        struct weir_protocol protocol;
        weir_endpoint *endpoint;
        _Atomic unsigned greetings;    /* of connections; the second is refused */
        _Atomic unsigned replies;      /* that make one message: set while nothing is under way */
        struct weir__redis_link *next; /* in the pool of the node */
};

struct weir__redis_link *weir__redis_link_new(struct weir__redis_node *node);
struct weir__redis_link *weir__redis_link_take(struct weir__redis_node *node); /* of the pool, or a new one */
void weir__redis_link_give(struct weir__redis_link *link); /* back to the pool: its state is that of a fresh one */
void weir__redis_link_drop(struct weir__redis_link *link); /* closes it; accepts NULL */

/* -- topology.c: which servers there are, and which of them a command goes to.  Nodes are never taken away, so a node is there
 * as long as its weir_redis. -- */

#define WEIR__REDIS_SLOTS 16384
#define WEIR__REDIS_NODES 1024 /* at most */

struct weir__redis_topology {
        struct weir__redis_settings *settings; /* a reference; of the nodes */
        pthread_mutex_t lock;
        struct weir__redis_node *nodes[WEIR__REDIS_NODES]; /* guarded by lock */
        unsigned count;                                    /* of them */
        struct weir__redis_node
                *_Atomic main; /* the server; the master that sentinels have named, NULL: not known; a node of a cluster */
        struct weir__redis_node *_Atomic *slots; /* of a cluster: to whom they belong; NULL: not known */

        struct weir__redis_settings *sentinel_settings; /* without an account */
        struct weir__redis_node **sentinels;            /* settings->count of them; or NULL */

        bool is_looking;     /* guarded by lock: a look-up is under way */
        weir_nsec looked_at; /* guarded by lock: when the last one began */
};

/* -- redis.c, command.c, make.c, session.c -- */

struct weir_redis {
        _Atomic unsigned references;
        pid_t pid;                                    /* constant: that has made it */
        _Atomic uint64_t repeated, failed, cancelled; /* as struct weir_redis_stats; relaxed */
        struct weir__redis_settings *settings;        /* the topology's */
        struct weir__redis_topology *topology;
        struct weir__figured figured; /* among those of all clients */
};

/* A command: `own` of its promise. */
struct weir__redis_command {
        struct weir_redis *redis;              /* a reference */
        weir_task *promise;                    /* a reference from its begin to its end */
        weir_series *_Atomic series;           /* a reference; NULL: there is none yet */
        _Atomic bool is_cancelled;             /* is set before the series is looked for */
        struct weir__redis_node *_Atomic node; /* to which it goes; the redis keeps it */
        uint8_t traits;
        bool is_repeatable, is_over;
        bool is_asking;    /* it was sent to where a cluster told to ask */
        bool is_whole;     /* a script: with its source */
        uint8_t redirects; /* so far */
        int16_t slot;      /* of a cluster; -1: any */
        int fault;         /* why it cannot begin */
        unsigned tries;

        weir_redis_script *script;        /* a reference; or NULL */
        weir_redis_session *session;      /* a reference; or NULL */
        struct weir__redis_command *next; /* in the session's; guarded by its lock */
        struct weir__redis_link *link;    /* of an exec without a session */
        unsigned replies;                 /* of an exec: how many; else 0 */
        char *other;                      /* bytes in place of its own; or NULL */
        size_t other_size;

        /* Its series' until its promise ends, then the callback's. */
        struct weir__redis_tree tree;
        char problem[WEIR__REDIS_TEXT]; /* "" : that of the tree */

        struct weir_direct_ask direct; /* under way; its room is the protocol's */

        size_t size; /* of the bytes */
        char room[160];
        char bytes[];
};

/* What is given to a command when it is made. */
struct weir__redis_order {
        weir_redis *redis;
        size_t count;
        const char *const *arguments;
        const size_t *sizes;
        int fault;
        weir_redis_script *script;
        weir_redis_session *session;
};

extern const struct weir_promise_kind weir__redis_kind;

weir_task *weir__redis_command_new(const struct weir__redis_order *order, weir_task_fn *done, void *context);
weir_task *weir__redis_words_task(struct weir__redis_words *words, struct weir__redis_order *order, weir_task_fn *done,
                                  void *context); /* frees the words */

/* An exec: all of these bytes, with so many replies.  It takes the bytes. */
weir_task *weir__redis_exec_new(weir_redis *redis, weir_redis_session *session, char *bytes, size_t size, unsigned replies,
                                int slot, int fault, weir_task_fn *done, void *context);

int weir__redis_command_send(struct weir__redis_command *command); /* 0 or a negative errno */

/* Sends it after a while, when it is known to whom.  Returns whether that will be. */
bool weir__redis_command_pause(struct weir__redis_command *command);
void weir__redis_command_fail(struct weir__redis_command *command, int status);

/* The tree of the last of several replies; if that is an error, `problem` gets the first of all.  Result: 0 or a negative
 * errno. */
int weir__redis_exec_read(const char *data, size_t size, unsigned replies, struct weir__redis_command *command);

struct weir_redis_session {
        _Atomic unsigned references;
        weir_redis *redis;             /* a reference */
        int slot;                      /* of a cluster; -1: any */
        struct weir__redis_link *link; /* NULL: nothing was sent yet; only the command under way uses it */
        bool is_used;                  /* a command had a reply on the link, whose server is for good then; as link */
        pthread_mutex_t lock;
        bool is_busy;                              /* guarded by lock: a command is under way */
        struct weir__redis_command *first, **last; /* guarded by lock: those that wait */
};

int weir__redis_session_begin(struct weir__redis_command *command); /* sends it, or lets it wait.  0 or a negative errno */
int weir__redis_session_send(struct weir__redis_command *command);  /* now: no other one is under way.  0 or a negative errno */

/* Sends it to that server of a cluster, where the session is from then on.  Result: 0; -EREMOTEIO: it is used, or another's;
 * -ENOMEM and others. */
int weir__redis_session_move(struct weir__redis_command *command, struct weir__redis_node *node);
void weir__redis_session_next(weir_redis_session *session); /* the one under way is over */

/* -- topology.c -- */

struct weir__redis_topology *weir__redis_topology_new(
        struct weir__redis_settings *settings);                        /* takes the settings.  NULL: -ENOMEM */
void weir__redis_topology_free(struct weir__redis_topology *topology); /* accepts NULL */

/* To whom a command of that slot goes; a slot below 0: any.  NULL: not known yet. */
struct weir__redis_node *weir__redis_route(struct weir__redis_topology *topology, int slot);

/* The node of that address, which is made if there is none.  NULL when out of memory, or if there are too many. */
struct weir__redis_node *weir__redis_node_at(struct weir__redis_topology *topology, const char *address);

/* The nodes one after another, for any number. */
struct weir__redis_node *weir__redis_any(struct weir__redis_topology *topology, unsigned number);

/* The node does not answer as it should: another one may have become the main one. */
void weir__redis_doubt(weir_redis *redis, struct weir__redis_node *node);

/* "MOVED 7 127.0.0.1:7001" or "ASK ..." of that node.  Result: whom it names, `*is_moved`: for good; NULL: it is no such error,
 * or there is no memory. */
struct weir__redis_node *weir__redis_redirect(weir_redis *redis, const struct weir__redis_node *from, const char *text,
                                              bool *is_moved);

/* Asks the cluster or the sentinels anew, unless that is under way. */
void weir__redis_look(weir_redis *redis);

/* -- slots: names.c -- */

int weir__redis_slot_of(const char *key, size_t size);
int weir__redis_slot(size_t count, const char *const *arguments, const size_t *sizes); /* of a command; -1: none */

/* -- messages: subscribe.c -- */

/* Makes a message of a whole reply.  Result: 1; 0: it is none, such as a PONG; -EPROTO, -EBADMSG, -E2BIG; -ENOMEM. */
int weir__redis_message_read(const char *data, size_t size, struct weir_redis_message **out);
struct weir_redis_message *weir__redis_message_lost(int status); /* NULL when out of memory */
bool weir__redis_is_end_of_shard(const char *data, size_t size); /* a whole reply that says SUNSUBSCRIBE */

/* -- subscribe.c, listen.c -- */

enum weir__redis_topic_kind { WEIR__REDIS_CHANNEL, WEIR__REDIS_PATTERN, WEIR__REDIS_SHARDED };

/* A name that is subscribed to. */
struct weir__redis_topic {
        struct weir__redis_topic *next;
        enum weir__redis_topic_kind kind;
        char name[];
};

struct weir_redis_subscription {
        _Atomic unsigned references; /* the program's, and that of the series */
        weir_redis *redis;           /* a reference */
        weir_channel *channel;       /* a reference */
        enum weir_redis_overflow overflow;
        _Atomic uint64_t dropped;

        pthread_mutex_t lock;
        struct weir__redis_topic *topics; /* guarded by lock, as the rest */
        weir_stream *stream;              /* a reference; NULL: it has not been greeted */
        weir_series *series;              /* a reference: of the connection; NULL: there is none */
        bool is_closed;
        bool is_left;   /* the stream was broken on this side: the next connection says what is wanted */
        int slot;       /* of a cluster: of its sharded channels; -1: it has none */
        unsigned ended; /* sharded channels that the connection was told to end, and has not confirmed */

        /* The series'. */
        struct weir__redis_node *node; /* to which it goes; the redis keeps it */
        unsigned attempt;              /* its number, which says to which node it goes */
        unsigned moves;                /* how often a server has named another one, one after another */
        bool has_listened;             /* the connection has confirmed something */
        weir_stream *fresh;            /* that is being greeted */
        unsigned failures;             /* since the last greeting */
        int status;                    /* why it failed; 0: it did not */
        bool is_probed;                /* it was asked whether it is there */
        char *input;                   /* bytes that are not read yet */
        size_t used, room;
        uint64_t words[4];
};

/* Begins to connect, after a pause if it has failed before.  Under the lock.  Result: 0; what the start of a series reports. */
int weir__redis_listen(weir_redis_subscription *subscription);

void weir__redis_subscribe_all(weir_redis_subscription *subscription); /* on a fresh connection.  Under the lock */

/* Whether the server has ended a sharded channel that is wanted: its slot has moved. */
bool weir__redis_lost_topic(weir_redis_subscription *subscription, const char *name);
void weir__redis_subscription_unref(void *subscription);

#endif
