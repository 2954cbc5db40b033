/* database/redis/session.c: a connection that the program has for itself, whose commands go out one after another; and
 * transactions.
 *
 * A transaction is MULTI, commands and EXEC as one message, whose replies are one message, too.  So the connection cannot break
 * in between, and a transaction is one request of weir/protocol.h. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

/* Whether nobody knows yet where the session belongs.  A command of its slot finds the way by itself: it is sent on. */
static bool
is_lost(const struct weir__redis_command *command)
{
        const struct weir__redis_topology *topology = command->redis->topology;
        int slot = command->session->slot;

        if (topology->slots)
                return slot >= 0 && slot != command->slot && !atomic_load(&topology->slots[slot]);
        return !atomic_load(&topology->main);
}

int
weir__redis_session_send(struct weir__redis_command *command)
{
        weir_redis_session *session = command->session;
        struct weir__redis_link *link = session->link;

        if (atomic_load(&command->is_cancelled))
                return -ECANCELED;
        if (!link) {
                if (is_lost(command)) {
                        weir__redis_look(session->redis);
                        if (weir__redis_command_pause(command))
                                return 0;
                }
                struct weir__redis_node *node = weir__redis_route(session->redis->topology, session->slot);
                if (!node)
                        return -EHOSTUNREACH;
                link = session->link = weir__redis_link_new(node);
                if (!link)
                        return -ENOMEM;
        }
        atomic_store_explicit(&link->replies, command->replies ? command->replies : 1, memory_order_relaxed);
        return weir__redis_command_send(command);
}

int
weir__redis_session_move(struct weir__redis_command *command, struct weir__redis_node *node)
{
        weir_redis_session *session = command->session;

        if (session->is_used || (session->slot >= 0 && session->slot != command->slot))
                return -EREMOTEIO;
        weir__redis_link_drop(session->link);
        session->link = weir__redis_link_new(node);
        return session->link ? weir__redis_session_send(command) : -ENOMEM;
}

int
weir__redis_session_begin(struct weir__redis_command *command)
{
        if (!wait_or_go(command))
                return 0;
        int failed = weir__redis_session_send(command);
        if (failed)
                weir__redis_session_next(command->session);
        return failed;
}

void
weir__redis_session_next(weir_redis_session *session)
{
        struct weir__redis_command *command;
        int failed;

        while ((command = take_next(session)) && (failed = weir__redis_session_send(command)))
                weir__redis_command_fail(command, failed);
}

/* -- the public face -- */

weir_redis_session *
weir_redis_session_new(weir_redis *redis, const char *key)
{
        weir_redis_session *session = redis ? calloc(1, sizeof *session) : NULL;

        if (!session)
                return NULL;
        session->slot = key ? weir__redis_slot_of(key, strlen(key)) : -1;
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

/* -- transactions -- */

static const char multi[] = "*1\r\n$5\r\nMULTI\r\n", exec[] = "*1\r\n$4\r\nEXEC\r\n";

struct weir_redis_batch {
        char *bytes; /* with MULTI, if there is any */
        size_t size, room;
        unsigned count;
        int slot; /* of the first command that has one, and 1; 0: none */
        int fault;
};

/* -- a batch -- */

weir_redis_batch *
weir_redis_batch_new(void)
{
        return calloc(1, sizeof(weir_redis_batch));
}

void
weir_redis_batch_free(weir_redis_batch *batch)
{
        if (batch)
                free(batch->bytes);
        free(batch);
}

static bool
make_room(weir_redis_batch *batch, size_t more)
{
        if (more <= batch->room - batch->size)
                return true;
        size_t room = batch->size + more + 128 + batch->room / 2;
        char *bytes = realloc(batch->bytes, room);
        if (!bytes)
                return false;
        batch->bytes = bytes;
        batch->room = room;
        return true;
}

static int
refuse(weir_redis_batch *batch, int fault)
{
        if (batch && !batch->fault)
                batch->fault = fault;
        return fault;
}

int
weir_redis_batch_add(weir_redis_batch *batch, size_t count, const char *const *arguments, const size_t *sizes)
{
        if (!batch)
                return -ENOMEM;
        if (!count || !arguments)
                return refuse(batch, -EINVAL);
        if (weir__redis_traits(count, arguments, sizes) & WEIR__REDIS_CHANGES)
                return refuse(batch, -EOPNOTSUPP);
        size_t size = weir__redis_encoded_size(count, arguments, sizes);
        if (!make_room(batch, sizeof multi + size))
                return refuse(batch, -ENOMEM);
        if (!batch->size) {
                memcpy(batch->bytes, multi, sizeof multi - 1);
                batch->size = sizeof multi - 1;
        }
        weir__redis_encode(batch->bytes + batch->size, count, arguments, sizes);
        batch->size += size;
        batch->count++;
        if (!batch->slot)
                batch->slot = weir__redis_slot(count, arguments, sizes) + 1;
        return 0;
}

int
weir_redis_batch_format(weir_redis_batch *batch, const char *format, ...)
{
        struct weir__redis_words words = {0};
        va_list arguments;
        int failed;

        va_start(arguments, format);
        if (format)
                weir__redis_words_format(&words, format, arguments);
        va_end(arguments);
        const char **texts = malloc((words.count + 1) * sizeof *texts);
        if (words.fault || !texts) {
                failed = refuse(batch, words.fault ? words.fault : -ENOMEM);
        } else {
                weir__redis_words_split(&words, texts);
                failed = weir_redis_batch_add(batch, words.count, texts, words.ends);
        }
        free(texts);
        weir__redis_words_free(&words);
        return failed;
}

/* -- its run -- */

weir_task *
weir_redis_exec_new(weir_redis *redis, weir_redis_session *session, weir_redis_batch *batch, weir_task_fn *done, void *context)
{
        int fault = !batch ? -ENOMEM : batch->fault;
        char *bytes = NULL;
        size_t size = 0;

        redis = session ? session->redis : redis;
        if (!fault && !batch->count)
                fault = -EINVAL;
        if (!fault && !make_room(batch, sizeof exec))
                fault = -ENOMEM;
        if (!fault) {
                memcpy(batch->bytes + batch->size, exec, sizeof exec);
                bytes = batch->bytes;
                size = batch->size + sizeof exec - 1;
                batch->bytes = NULL;
        }
        unsigned replies = fault ? 0 : batch->count + 2;
        int slot = batch ? batch->slot - 1 : -1;
        weir_redis_batch_free(batch);
        return weir__redis_exec_new(redis, session, bytes, size, replies, slot, fault, done, context);
}

int
weir__redis_exec_read(const char *data, size_t size, unsigned replies, struct weir__redis_command *command)
{
        const char *first_error = NULL;
        size_t at = 0, error_size = 0;

        for (unsigned i = 0; i + 1 < replies; i++) {
                uint64_t words[4] = {0};
                ssize_t end = weir__redis_frame(data + at, size - at, words, size);

                if (end <= 0 || (size_t)end > size - at)
                        return -EBADMSG;
                if (data[at] == '-' && !first_error) {
                        first_error = data + at + 1;
                        error_size = (size_t)end - 3;
                }
                at += (size_t)end;
        }
        int failed = weir__redis_build(data + at, size - at, command->room, sizeof command->room, &command->tree);
        if (failed)
                return failed;
        const struct weir_redis_reply *root = command->tree.root;
        if (root->type == WEIR_REDIS_NULL && replies > 2) { /* ASKING and a command have two */
                snprintf(command->problem, sizeof command->problem, "a key that is watched has changed");
                return -EAGAIN;
        }
        if (root->type != WEIR_REDIS_ERROR)
                return 0;
        if (first_error)
                snprintf(command->problem, sizeof command->problem, "%.*s", (int)(error_size < 255 ? error_size : 255),
                         first_error);
        return weir__redis_status_of(first_error ? command->problem : root->text);
}
