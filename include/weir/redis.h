/* weir/redis.h: Redis as tasks.  The library is libweir-redis.
 *
 *     weir_redis *redis = weir_redis_new("redis://127.0.0.1:6379", NULL);
 *     weir_task_start(weir_redis_words_new(redis, show, NULL, "GET", "greeting", NULL));
 *
 *     static void
 *     show(weir_task *task, void *context)
 *     {
 *             if (weir_task_status(task) != 0)
 *                     fprintf(stderr, "%s\n", weir_redis_problem(task));
 *             else
 *                     puts(weir_redis_text(weir_redis_reply(task)));
 *     }
 *
 * Commands of many tasks share one connection: each goes out when its task starts, and none waits for
 * the replies to others.  A cancel before the callback is decisive: the callback sees -ECANCELED, and the
 * reply is thrown away when it comes.  The connection stays usable. */
#ifndef WEIR_REDIS_H
#define WEIR_REDIS_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weir/channel.h>
#include <weir/series.h>
#include <weir/task.h>
#include <weir/time.h>
#include <weir/tls.h>

WEIR_BEGIN

/* -- replies -- */

/* What a reply, or a part of it, is. */
enum weir_redis_type {
        WEIR_REDIS_NULL = 0,   /* nothing */
        WEIR_REDIS_STRING,     /* text and size: any bytes; also a status such as "OK" */
        WEIR_REDIS_ERROR,      /* text and size */
        WEIR_REDIS_INTEGER,    /* integer */
        WEIR_REDIS_DOUBLE,     /* number */
        WEIR_REDIS_BOOLEAN,    /* integer: 1 or 0 */
        WEIR_REDIS_BIG_NUMBER, /* text and size: digits */
        WEIR_REDIS_VERBATIM,   /* text and size */
        WEIR_REDIS_ARRAY,      /* items and size */
        WEIR_REDIS_MAP,        /* items and size: keys and values by turns, so size is even */
        WEIR_REDIS_SET,        /* items and size */
        WEIR_REDIS_PUSH,       /* items and size */
};

/* A reply.  A server that speaks RESP2 sends arrays in place of maps and sets, strings in place of doubles,
 * and integers in place of booleans. */
struct weir_redis_reply {
        enum weir_redis_type type; /* which of the others there are */
        size_t size;               /* bytes of the text, or items */

        union {
                int64_t integer;                      /* also of a boolean */
                double number;                        /* of a double */
                const char *text;                     /* followed by a NUL that is not counted */
                const struct weir_redis_reply *items; /* of an array, a map, a set, a push */
        };                                            /* what the type says */
};

/* An item of an array, a map, a set or a push; and the value of a key, which is text, in a map, or in an array
 * of keys and values by turns.
 *
 * Owner:   the reply.
 * Result:  NULL if there is none, for another type, and for NULL.
 * Threads: any that may read the reply. */
WEIR_API const struct weir_redis_reply *weir_redis_item(const struct weir_redis_reply *reply, size_t index);
WEIR_API const struct weir_redis_reply *weir_redis_find(const struct weir_redis_reply *reply, const char *key);

/* The text of a reply.
 *
 * Owner:   the reply.
 * Result:  "" for a reply that has none, and for NULL.
 * Threads: any that may read the reply. */
WEIR_API const char *weir_redis_text(const struct weir_redis_reply *reply);

/* The number of an integer or a boolean, of a double without its fraction, or of a text of digits.
 *
 * Result:  `otherwise` if it is none, or too large, and for NULL.
 * Threads: any that may read the reply. */
WEIR_API int64_t weir_redis_integer(const struct weir_redis_reply *reply, int64_t otherwise);

/* Copies a reply, for use after the callback.
 *
 * Owner:   the caller; weir_redis_reply_free frees it, and accepts NULL.
 * Result:  NULL when out of memory, and for NULL.
 * Threads: any that may read the reply. */
WEIR_API struct weir_redis_reply *weir_redis_reply_copy(const struct weir_redis_reply *reply);
WEIR_API void weir_redis_reply_free(struct weir_redis_reply *reply);

/* -- a server -- */

/* A server, or the servers that stand for one, with the connections to it. */
typedef struct weir_redis weir_redis;

/* How a client works.  Start from WEIR_REDIS_CONFIG_DEFAULT; 0 in a field means its default; WEIR_FOREVER means
 * no limit.  Texts are copied. */
struct weir_redis_config {
        size_t size;             /* of this struct; set by WEIR_REDIS_CONFIG_DEFAULT */
        const char *user;        /* of an ACL, with a password; default: that of the address, or the default user */
        const char *password;    /* default: that of the address, or none */
        const char *name;        /* of the connections, for the server (CLIENT SETNAME); default: none */
        weir_tls *tls;           /* of rediss: addresses only; a reference is taken; default: the system's roots */
        unsigned version;        /* of the protocol: 2 or 3; default: 3, or 2 with a server that knows no other */
        unsigned connections;    /* that commands share; default: 1 */
        unsigned depth;          /* commands that are under way on one of them, at most 65535; default: 1024 */
        unsigned own;            /* connections of their own at once: blocking commands, sessions; default: 64 */
        unsigned retries;        /* how often a command is sent again, if it may be; UINT_MAX: never; default: 4 */
        size_t max_reply;        /* bytes of a reply, 1 GiB at most; default: 64 MiB */
        weir_nsec connect_limit; /* until a connection can be used: names, TCP, TLS and its greeting; default: 10 s */
        weir_nsec command_limit; /* from when a command is out until its reply is there, so it is not the `limit` of a task; not
                                    of blocking commands; default: 30 s */
};

/* The initializer of a config. */
#ifdef __cplusplus
#define WEIR_REDIS_CONFIG_DEFAULT {sizeof(struct weir_redis_config), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}
#else
#define WEIR_REDIS_CONFIG_DEFAULT {.size = sizeof(struct weir_redis_config)}
#endif

/* Makes a client.  It connects when there is something to send.  The address is one of
 *
 *   redis://[[user]:password@]host[:port][/database]
 *   unix://[[user]:password@]path[?db=database]
 *   redis+cluster://[[user]:password@]host[:port],...                    some servers of a cluster
 *   redis+sentinel://[[user]:password@]host[:port],.../name[/database]   sentinels, and the master of that name
 *
 * With rediss in place of redis all connections have TLS.  The port is 6379 unless it is given, and 26379 of a
 * sentinel.  A cluster has the database 0 only.  A user and a password, which sentinels are not told, may have
 * %XX.  A user needs a password.  A config with `tls` needs an address with TLS.
 *
 * Owner:   the caller has a reference.  NULL as config is the default.
 * Result:  NULL with errno EINVAL: a wrong address or config, which the log names; ENOMEM.  Tasks of a
 *          NULL client fail at their start with -ENOMEM.
 * Threads: any.  It works before the runtime has started. */
WEIR_API weir_redis *weir_redis_new(const char *address, const struct weir_redis_config *config);

/* Takes and drops a reference.  Tasks have their own.  Without a reference the connections are closed.  Both
 * accept NULL.
 *
 * Threads: any. */
WEIR_API weir_redis *weir_redis_ref(weir_redis *redis);
WEIR_API void weir_redis_unref(weir_redis *redis);

/* What a client has and has done.  Sessions, transactions and subscriptions have connections of their own, which are
 * not counted, and neither are their commands.  Start from WEIR_REDIS_STATS_DEFAULT. */
struct weir_redis_stats {
        size_t size;          /* of this struct; set by WEIR_REDIS_STATS_DEFAULT */
        unsigned servers;     /* that it knows */
        unsigned connections; /* that are open, or being made */
        unsigned connecting;  /* of them */
        unsigned under_way;   /* commands that wait for a connection or for their reply */
        uint64_t commands;    /* that were sent or wait for that, each time that they are */
        uint64_t repeated;    /* how often one was sent again, or waits for that */
        uint64_t failed;      /* commands: by the server, by a limit or with the connection */
        uint64_t cancelled;   /* commands whose flow was over first */
        uint64_t connects;    /* connections that were made */
        uint64_t refused;     /* attempts that made none */
        uint64_t lost;        /* connections that broke, or that the server has closed */
};

/* The initial value of a struct weir_redis_stats: its size, and 0 for all else. */
#ifdef __cplusplus
#define WEIR_REDIS_STATS_DEFAULT {sizeof(struct weir_redis_stats), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}
#else
#define WEIR_REDIS_STATS_DEFAULT {.size = sizeof(struct weir_redis_stats)}
#endif

/* Fills `stats`.
 *
 * Result:  0; -EINVAL for NULL, or a wrong size; -ENOMEM for a NULL client; -ECHILD in a forked child.
 * Threads: any, also inside a callback.  Each number is of an instant of its own. */
WEIR_API int weir_redis_stats(const weir_redis *redis, struct weir_redis_stats *stats);

/* Writes the figures of all clients to a descriptor, in the text format of weir_metrics_write.  Names begin with
 * weir_redis_, and the label `client` has the `name` of the config; without one that of the master which
 * sentinels watch, or the first address.  It has "#2" and so on behind it when several clients have the same one.
 *
 *     weir_metrics_add(weir_redis_metrics_write);
 *
 * puts them into the text of weir_metrics_write, and on the page of weir_http_debug.
 *
 * Result:  0; what write(2) reports, when some of the text may have been written; -ENOMEM; -ECHILD in a forked
 *          child that has made no client: those of its parent are not its own.
 * Threads: any, also inside a callback, where a blocking descriptor delays its neighbours. */
WEIR_API int weir_redis_metrics_write(int fd);

/* -- commands -- */

/* Makes a task that sends a command and gets its reply.  The arguments are `count` texts of those sizes; NULL
 * as `sizes`: they end with a NUL.
 *
 * Commands that wait at the server (BLPOP, XREAD with BLOCK and others) get connections of their own.
 * A cancel closes such a connection, so the server gives nothing to one that waits no more.
 *
 * If the connection breaks, or cannot be made, a command is sent again after a pause, unless the server may
 * have executed it.  So it is sent again if not all of it was out; if it only reads, such as GET; or after
 * weir_redis_set_repeatable.  Otherwise it fails, and the program decides.  A server that is loading its data
 * is asked again as well.
 *
 * Owner:   the caller, until the task is consumed.  The arguments are copied.
 * Result:  NULL when out of memory; every consumer accepts NULL.  The task's status: 0: weir_redis_reply has
 *          the reply; of an error of the server, whose text weir_redis_problem has: -EACCES (NOAUTH,
 *          WRONGPASS, NOPERM), -EAGAIN (LOADING, BUSY, TRYAGAIN, CLUSTERDOWN, MASTERDOWN, ASK; a
 *          master that sentinels have named was demoted), -EROFS (READONLY), -ENOENT (NOSCRIPT), -EREMOTEIO (any other);
 *          -ENOMEM, also for a NULL client; -EINVAL: no arguments; -EOPNOTSUPP: the command would change the
 *            state of a connection that others use, such as SELECT or MULTI;
 *          -ECONNRESET: the connection broke, and the command was not sent again; -ECONNREFUSED, -ENOENT and
 *            others of weir_connect_new and weir_connect_tls_new;
 *          -ETIMEDOUT: a limit has passed; -EMSGSIZE: the reply is too large; -E2BIG: it is too deep;
 *          -EBADMSG: it is none; -EPROTO: a reply came that nobody waits for; -ECANCELED, -ETIMEDOUT or
 *            -ESHUTDOWN if its series ended before.
 * Threads: any. */
WEIR_API weir_task *weir_redis_command_new(weir_redis *redis, size_t count, const char *const *arguments, const size_t *sizes,
                                           weir_task_fn *done, void *context);

/* The same with texts, up to NULL. */
WEIR_API weir_task *weir_redis_words_new(weir_redis *redis, weir_task_fn *done, void *context, const char *first, ...)
        __attribute__((sentinel));

/* The same with a format: words are separated by spaces, and parts of them may be
 *
 *   %s (const char *), %b (const void *, size_t), %d (int), %u (unsigned), %lld (long long), %llu (unsigned
 *   long long), %zu (size_t), %g (double, as many digits as it needs), %%
 *
 * A value stays within its word, whatever bytes it has.
 *
 *     weir_redis_format_new(redis, NULL, NULL, "SET session:%d %b EX %u", id, data, size, 60)
 *
 * Result:  as weir_redis_command_new; -EINVAL also for another conversion. */
WEIR_API weir_task *weir_redis_format_new(weir_redis *redis, weir_task_fn *done, void *context, const char *format, ...);
WEIR_API weir_task *weir_redis_vformat_new(weir_redis *redis, weir_task_fn *done, void *context, const char *format,
                                           va_list arguments);

/* Says that a command may be executed twice.
 *
 * Result:  0; -EINVAL for another task, or NULL.
 * Threads: where the task is yours. */
WEIR_API int weir_redis_set_repeatable(weir_task *command);

/* -- scripts -- */

/* A script of Lua, with its SHA-1. */
typedef struct weir_redis_script weir_redis_script;

/* Makes a script.  Nothing is sent.
 *
 * Owner:   the caller has a reference.  The source is copied.
 * Result:  NULL when out of memory.  Tasks of a NULL script fail at their start with -ENOMEM.
 * Threads: any. */
WEIR_API weir_redis_script *weir_redis_script_new(const char *source);

/* Takes and drops a reference.  Tasks have their own.  Both accept NULL.
 *
 * Threads: any. */
WEIR_API weir_redis_script *weir_redis_script_ref(weir_redis_script *script);
WEIR_API void weir_redis_script_unref(weir_redis_script *script);

/* Its SHA-1, 40 hexadecimal digits.
 *
 * Owner:   the script.
 * Result:  NULL for NULL. */
WEIR_API const char *weir_redis_script_sha(const weir_redis_script *script);

/* Makes a task that calls a script.  The first `keys` of the arguments are its KEYS, the others its ARGV.  It is
 * called by its SHA-1 (EVALSHA).  A server that does not know it yet gets the source (EVAL) and keeps it.
 *
 * Owner, Result, Threads: as for weir_redis_command_new; -EINVAL also for more keys than arguments. */
WEIR_API weir_task *weir_redis_call_new(weir_redis *redis, weir_redis_script *script, size_t keys, size_t count,
                                        const char *const *arguments, const size_t *sizes, weir_task_fn *done, void *context);

/* The same with a format, as for weir_redis_format_new:
 *
 *     weir_redis_call_format_new(redis, take, 2, on_taken, NULL, "due:%s owner:%s %d", topic, topic, most)
 *
 * Owner, Result, Threads: as for weir_redis_call_new. */
WEIR_API weir_task *weir_redis_call_format_new(weir_redis *redis, weir_redis_script *script, size_t keys, weir_task_fn *done,
                                               void *context, const char *format, ...);

/* -- sessions and transactions -- */

/* A connection that the program has for itself, for commands that change its state, such as WATCH. */
typedef struct weir_redis_session weir_redis_session;

/* Makes a session.  It connects when the first command is to be sent.  It never connects a second time: if its
 * connection is lost, commands fail with -ENOTCONN from then on, because WATCH and the like are lost with it.
 * With a cluster it is at the server that has the slot of `key`; NULL: any.  Its first command waits until that
 * server, or the master that sentinels name, is known, at most as long as the retries of a command take.
 *
 * Owner:   the caller has a reference.
 * Result:  NULL for NULL, and when out of memory.  Tasks of a NULL session fail at their start with -ENOMEM.
 * Threads: any. */
WEIR_API weir_redis_session *weir_redis_session_new(weir_redis *redis, const char *key);

/* Takes and drops a reference.  Tasks have their own.  Without a reference the connection is closed.  Both
 * accept NULL.
 *
 * Threads: any. */
WEIR_API weir_redis_session *weir_redis_session_ref(weir_redis_session *session);
WEIR_API void weir_redis_session_unref(weir_redis_session *session);

/* Makes a task that sends a command on the session.  Commands go out in the order of their starts, each when
 * the one before has its reply.  None is sent again, but for the first one, if a cluster says MOVED: the session is
 * at that server then.  Later MOVED is an error (-EREMOTEIO).  ASK is not followed (-EAGAIN): a slot is on its way, and
 * its keys are at two servers.  A cancel of one that was sent closes the connection.
 *
 * Owner, Result, Threads: as for weir_redis_command_new; WATCH, UNWATCH, MULTI, EXEC, DISCARD, SELECT, AUTH,
 *          READONLY, READWRITE and ASKING are permitted; -ENOTCONN: the connection was lost before. */
WEIR_API weir_task *weir_redis_session_command_new(weir_redis_session *session, size_t count, const char *const *arguments,
                                                   const size_t *sizes, weir_task_fn *done, void *context);
WEIR_API weir_task *weir_redis_session_format_new(weir_redis_session *session, weir_task_fn *done, void *context,
                                                  const char *format, ...);

/* Commands that are executed together. */
typedef struct weir_redis_batch weir_redis_batch;

/* Makes an empty batch, and frees one that was not executed.  The second accepts NULL.
 *
 * Owner:   the caller.
 * Result:  NULL when out of memory.
 * Threads: one at a time. */
WEIR_API weir_redis_batch *weir_redis_batch_new(void);
WEIR_API void weir_redis_batch_free(weir_redis_batch *batch);

/* Adds a command, as weir_redis_command_new and weir_redis_format_new take it.
 *
 * Result:  0; -EINVAL and -EOPNOTSUPP as the task of these; -ENOMEM, also for NULL.  After a failure the task of
 *          weir_redis_exec_new fails with it.
 * Threads: one at a time. */
WEIR_API int weir_redis_batch_add(weir_redis_batch *batch, size_t count, const char *const *arguments, const size_t *sizes);
WEIR_API int weir_redis_batch_format(weir_redis_batch *batch, const char *format, ...);

/* Makes a task that executes a batch as a transaction (MULTI, EXEC): all of it or nothing, and nothing of others in
 * between.  It is one message on a connection that is used for nothing else meanwhile: that of the session, on
 * which keys may be watched, or with NULL another one.  Without a session it is sent again if not all of it was out,
 * and, as any command, if the server has executed nothing because it is loading, or because the slot is elsewhere.
 *
 * The reply is an array of the replies.  An error in it is that of one command; the others were executed.
 *
 * Owner:   the caller, until the task is consumed.  It takes the batch, also when the result is NULL.
 * Result:  as weir_redis_command_new; -EAGAIN: nothing was executed, because a key that is watched has changed;
 *          -EINVAL: the batch is empty; -ENOTCONN as for weir_redis_session_command_new.
 * Threads: any. */
WEIR_API weir_task *weir_redis_exec_new(weir_redis *redis, weir_redis_session *session, weir_redis_batch *batch,
                                        weir_task_fn *done, void *context);

/* -- subscriptions -- */

/* A connection that listens, and the channel into which its messages go. */
typedef struct weir_redis_subscription weir_redis_subscription;

/* What a message of a subscription is. */
enum weir_redis_message_kind {
        WEIR_REDIS_MESSAGE = 0,  /* somebody has published it */
        WEIR_REDIS_SUBSCRIBED,   /* the server now sends what is published on `channel`; again after a reconnect */
        WEIR_REDIS_UNSUBSCRIBED, /* it sends nothing more of `channel` */
        WEIR_REDIS_LOST,         /* the connection is lost, or could not be made: what is published meanwhile is missed */
        WEIR_REDIS_REFUSED,      /* the server refuses a subscription: `data` is its text */
};

/* A message.  The receiver frees it by weir_redis_message_free. */
struct weir_redis_message {
        enum weir_redis_message_kind kind; /* what it is */
        const char *channel;               /* on which it was published, or that was subscribed; NULL: of LOST and REFUSED */
        const char *pattern;               /* which it matches; NULL: none */
        const char *data;                  /* its bytes, followed by a NUL that is not counted; NULL: none */
        size_t size;                       /* of them */
        int status;                        /* of LOST and REFUSED: a negative errno */
};

/* What is done with a message when the channel is full. */
enum weir_redis_overflow {
        WEIR_REDIS_OVERFLOW_WAIT = 0, /* nothing more is read; a server gives a connection up that takes nothing for long */
        WEIR_REDIS_OVERFLOW_OLDEST,   /* the oldest message in the channel is dropped */
        WEIR_REDIS_OVERFLOW_NEWEST,   /* it is dropped */
};

/* How a subscription works.  Start from WEIR_REDIS_SUBSCRIPTION_CONFIG_DEFAULT; 0 in a field means its default. */
struct weir_redis_subscription_config {
        size_t size;                       /* of this struct; set by WEIR_REDIS_SUBSCRIPTION_CONFIG_DEFAULT */
        size_t capacity;                   /* of the channel, in messages; default: 1024 */
        enum weir_redis_overflow overflow; /* when it is full; default: WEIR_REDIS_OVERFLOW_WAIT */
};

/* The initializer of such a config. */
#ifdef __cplusplus
#define WEIR_REDIS_SUBSCRIPTION_CONFIG_DEFAULT {sizeof(struct weir_redis_subscription_config), 0, WEIR_REDIS_OVERFLOW_WAIT}
#else
#define WEIR_REDIS_SUBSCRIPTION_CONFIG_DEFAULT {.size = sizeof(struct weir_redis_subscription_config)}
#endif

/* Makes a subscription to nothing.  It connects at the first weir_redis_subscribe, and from then on again whenever
 * the connection is lost, until it is closed.  A connection on which nothing comes is probed each 20 seconds.
 *
 * Owner:   the caller; weir_redis_subscription_close.  NULL as config is the default.
 * Result:  NULL with errno EINVAL: a wrong size, or an invalid overflow; ENOMEM, also if `redis` is NULL.
 * Threads: any. */
WEIR_API weir_redis_subscription *weir_redis_subscription_new(weir_redis *redis,
                                                              const struct weir_redis_subscription_config *config);

/* Closes the connection and the channel.  Messages in the channel can still be received.  Accepts NULL.
 *
 * Owner:   takes the subscription.  Receivers with a reference keep the channel.
 * Threads: any. */
WEIR_API void weir_redis_subscription_close(weir_redis_subscription *subscription);

/* The channel: weir_channel_receive_new gets a struct weir_redis_message.
 *
 * Owner:   the subscription; weir_channel_ref keeps it longer.
 * Result:  NULL for NULL. */
WEIR_API weir_channel *weir_redis_subscription_channel(const weir_redis_subscription *subscription);

/* Subscribes to a channel, or to all channels that match a pattern; the second pair ends that.  Nothing waits for
 * the server: its answer comes as a message.
 *
 * Result:  0; -EALREADY: it is so already; -EINVAL: a NULL or empty name; -ENOMEM, also for NULL; what the start of
 *          a task reports.
 * Threads: any. */
WEIR_API int weir_redis_subscribe(weir_redis_subscription *subscription, const char *channel);
WEIR_API int weir_redis_subscribe_pattern(weir_redis_subscription *subscription, const char *pattern);
WEIR_API int weir_redis_unsubscribe(weir_redis_subscription *subscription, const char *channel);
WEIR_API int weir_redis_unsubscribe_pattern(weir_redis_subscription *subscription, const char *pattern);

/* The same for a sharded channel (Redis 7): what SPUBLISH publishes there.  In a cluster it is at the server of
 * its slot, as a key is, so the connection of the subscription is made there, and follows the slot.
 *
 * Result:  as weir_redis_subscribe; -EXDEV: the subscription has a sharded channel of another slot of the cluster.
 * Threads: any. */
WEIR_API int weir_redis_subscribe_sharded(weir_redis_subscription *subscription, const char *channel);
WEIR_API int weir_redis_unsubscribe_sharded(weir_redis_subscription *subscription, const char *channel);

/* How many messages were dropped because the channel was full, or there was no memory.
 *
 * Result:  0 for NULL.
 * Threads: any. */
WEIR_API uint64_t weir_redis_subscription_dropped(const weir_redis_subscription *subscription);

/* Frees a message.  Accepts NULL.
 *
 * Threads: any. */
WEIR_API void weir_redis_message_free(struct weir_redis_message *message);

/* -- results, of all tasks of this header -- */

/* The reply.
 *
 * Owner:   the task; weir_redis_reply_copy keeps it longer.
 * Result:  NULL if there is none, and for another task.  If the server has sent an error, it is that.
 * Threads: inside the task's callback. */
WEIR_API const struct weir_redis_reply *weir_redis_reply(const weir_task *command);

/* Why the command has failed, for people: the server's text, such as "WRONGTYPE Operation against ...", or
 * what has happened to the connection.
 *
 * Owner:   the task.
 * Result:  NULL if it has not failed, and for another task.
 * Threads: inside the task's callback. */
WEIR_API const char *weir_redis_problem(const weir_task *command);

WEIR_END

#endif
