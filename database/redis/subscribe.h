/* database/redis/subscribe.h: what the parts of subscriptions share. */
#ifndef WEIR_REDIS_SUBSCRIBE_H
#define WEIR_REDIS_SUBSCRIBE_H

#include "database/redis/redis.h"

/* -- message.c -- */

/* Makes a message of a whole reply.  Result: 1; 0: it is none, such as a PONG; -EPROTO, -EBADMSG, -E2BIG; -ENOMEM. */
int weir__redis_message_read(const char *data, size_t size, struct weir_redis_message **out);
struct weir_redis_message *weir__redis_message_lost(int status); /* NULL when out of memory */
void weir__redis_message_drop(void *message);

/* -- subscribe.c, listen.c -- */

/* A name that is subscribed to. */
struct weir__redis_topic {
        struct weir__redis_topic *next;
        bool is_pattern;
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

        /* The series'. */
        weir_stream *fresh; /* that is being greeted */
        unsigned failures;  /* since the last greeting */
        int status;         /* why it failed; 0: it did not */
        bool is_probed;     /* it was asked whether it is there */
        char *input;        /* bytes that are not read yet */
        size_t used, room;
        uint64_t words[4];
};

/* Begins to connect, after a pause if it has failed before.  Under the lock.  Result: 0; what the start of a series reports. */
int weir__redis_listen(weir_redis_subscription *subscription);

/* Has the connection, if there is one, say that of one topic, or of all.  Under the lock. */
void weir__redis_tell(weir_redis_subscription *subscription, const char *verb, const struct weir__redis_topic *topic);
void weir__redis_subscription_unref(void *subscription);

#endif
