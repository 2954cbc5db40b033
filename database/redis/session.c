/* database/redis/session.c: a connection that the program has for itself.  Its commands go out one after another. */
#include <errno.h>
#include <stdlib.h>

#include "database/redis/redis.h"

/* -- who is next -- */

static bool
wait_or_go(struct weir__redis_command *command)
{
        weir_redis_session *session = command->session;

        pthread_mutex_lock(&session->lock);
        bool may_go = !session->is_busy;
        session->is_busy = true;
        if (!may_go) {
                command->next = NULL;
                *session->last = command;
                session->last = &command->next;
        }
        pthread_mutex_unlock(&session->lock);
        return may_go;
}

static struct weir__redis_command *
take_next(weir_redis_session *session)
{
        pthread_mutex_lock(&session->lock);
        struct weir__redis_command *command = session->first;
        if (command) {
                session->first = command->next;
                if (!session->first)
                        session->last = &session->first;
        } else {
                session->is_busy = false;
        }
        pthread_mutex_unlock(&session->lock);
        return command;
}

static int
send(struct weir__redis_command *command)
{
        struct weir__redis_link *link = command->session->link;

        if (atomic_load(&command->is_cancelled))
                return -ECANCELED;
        atomic_store_explicit(&link->replies, command->replies ? command->replies : 1, memory_order_relaxed);
        return weir__redis_command_send(command);
}

int
weir__redis_session_begin(struct weir__redis_command *command)
{
        if (!wait_or_go(command))
                return 0;
        int failed = send(command);
        if (failed)
                weir__redis_session_next(command->session);
        return failed;
}

void
weir__redis_session_next(weir_redis_session *session)
{
        struct weir__redis_command *command;
        int failed;

        while ((command = take_next(session)) && (failed = send(command)))
                weir__redis_command_fail(command, failed);
}

/* -- the public face -- */

weir_redis_session *
weir_redis_session_new(weir_redis *redis, const char *key)
{
        weir_redis_session *session = redis ? calloc(1, sizeof *session) : NULL;

        (void)key;
        if (!session)
                return NULL;
        session->link = weir__redis_link_new(redis->node);
        if (!session->link) {
                free(session);
                return NULL;
        }
        atomic_init(&session->references, 1);
        session->redis = weir_redis_ref(redis);
        session->last = &session->first;
        pthread_mutex_init(&session->lock, NULL);
        return session;
}

weir_redis_session *
weir_redis_session_ref(weir_redis_session *session)
{
        if (session)
                atomic_fetch_add_explicit(&session->references, 1, memory_order_relaxed);
        return session;
}

void
weir_redis_session_unref(weir_redis_session *session)
{
        if (!session || atomic_fetch_sub_explicit(&session->references, 1, memory_order_acq_rel) != 1)
                return;
        weir__redis_link_drop(session->link);
        weir_redis_unref(session->redis);
        pthread_mutex_destroy(&session->lock);
        free(session);
}

static struct weir__redis_order
order_of(weir_redis_session *session)
{
        return (struct weir__redis_order){.redis = session ? session->redis : NULL, .session = session};
}

weir_task *
weir_redis_session_command_new(weir_redis_session *session, size_t count, const char *const *arguments, const size_t *sizes,
                               weir_task_fn *done, void *context)
{
        struct weir__redis_order order = order_of(session);

        order.count = count;
        order.arguments = arguments;
        order.sizes = sizes;
        order.fault = count && !arguments ? -EINVAL : 0;
        return weir__redis_command_new(&order, done, context);
}

weir_task *
weir_redis_session_format_new(weir_redis_session *session, weir_task_fn *done, void *context, const char *format, ...)
{
        struct weir__redis_words words = {0};
        struct weir__redis_order order = order_of(session);
        va_list arguments;

        va_start(arguments, format);
        if (format)
                weir__redis_words_format(&words, format, arguments);
        va_end(arguments);
        return weir__redis_words_task(&words, &order, done, context);
}
