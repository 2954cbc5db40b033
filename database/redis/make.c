/* database/redis/make.c: commands are made, and asked about.
 *
 * Threads: any. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "database/redis/redis.h"

/* -- making -- */

static int
fault_of(const struct weir__redis_order *order, unsigned traits)
{
        if (!order->redis)
                return -ENOMEM;
        if (!order->count)
                return -EINVAL;
        if (!(traits & WEIR__REDIS_CHANGES))
                return 0;
        return order->session && traits & WEIR__REDIS_IN_SESSIONS ? 0 : -EOPNOTSUPP;
}

static weir_task *
make(const struct weir__redis_order *order, size_t size, int fault, struct weir__redis_command **made, weir_task_fn *done,
     void *context)
{
        struct weir__redis_command *command = malloc(sizeof *command + size + 1);

        *made = command;
        if (!command)
                return NULL;
        memset(command, 0, offsetof(struct weir__redis_command, room));
        command->fault = fault;
        command->redis = weir_redis_ref(order->redis);
        command->script = weir_redis_script_ref(order->script);
        command->session = weir_redis_session_ref(order->session);
        command->size = size;
        command->bytes[size] = '\0';
        return weir_promise_new_of(&weir__redis_kind, command, done, context);
}

weir_task *
weir__redis_command_new(const struct weir__redis_order *order, weir_task_fn *done, void *context)
{
        unsigned traits = order->count && !order->fault ? weir__redis_traits(order->count, order->arguments, order->sizes) : 0;
        size_t size = order->fault ? 0 : weir__redis_encoded_size(order->count, order->arguments, order->sizes);
        struct weir__redis_command *command;
        weir_task *task = make(order, size, order->fault ? order->fault : fault_of(order, traits), &command, done, context);

        if (!task)
                return NULL;
        command->traits = (uint8_t)traits;
        if (size)
                weir__redis_encode(command->bytes, order->count, order->arguments, order->sizes);
        return task;
}

weir_task *
weir__redis_exec_new(weir_redis *redis, weir_redis_session *session, char *bytes, size_t size, unsigned replies, int fault,
                     weir_task_fn *done, void *context)
{
        struct weir__redis_order order = {.redis = redis, .session = session};
        struct weir__redis_command *command;
        weir_task *task = make(&order, 0, redis ? fault : -ENOMEM, &command, done, context);

        if (!task) {
                free(bytes);
                return NULL;
        }
        command->other = bytes;
        command->other_size = size;
        command->replies = replies;
        return task;
}

weir_task *
weir__redis_words_task(struct weir__redis_words *words, struct weir__redis_order *order, weir_task_fn *done, void *context)
{
        const char **texts = malloc((words->count + 1) * sizeof *texts);
        weir_task *task = NULL;

        if (texts && words->fault != -ENOMEM) {
                weir__redis_words_split(words, texts);
                order->count = words->count;
                order->arguments = texts;
                order->sizes = words->ends;
                order->fault = order->fault ? order->fault : words->fault;
                task = weir__redis_command_new(order, done, context);
        }
        free(texts);
        weir__redis_words_free(words);
        return task;
}

/* -- the public face -- */

weir_task *
weir_redis_command_new(weir_redis *redis, size_t count, const char *const *arguments, const size_t *sizes, weir_task_fn *done,
                       void *context)
{
        struct weir__redis_order order = {.redis = redis, .count = count, .arguments = arguments, .sizes = sizes};

        order.fault = count && !arguments ? -EINVAL : 0;
        return weir__redis_command_new(&order, done, context);
}

weir_task *
weir_redis_words_new(weir_redis *redis, weir_task_fn *done, void *context, const char *first, ...)
{
        const char *few[16], **words = few;
        size_t count = 0;
        va_list arguments;

        va_start(arguments, first);
        for (const char *word = first; word; word = va_arg(arguments, const char *))
                count++;
        va_end(arguments);
        if (count > sizeof few / sizeof *few)
                words = malloc(count * sizeof *words);
        if (!words)
                return NULL;
        count = 0;
        va_start(arguments, first);
        for (const char *word = first; word; word = va_arg(arguments, const char *))
                words[count++] = word;
        va_end(arguments);
        weir_task *task = weir_redis_command_new(redis, count, words, NULL, done, context);
        if (words != few)
                free(words);
        return task;
}

weir_task *
weir_redis_vformat_new(weir_redis *redis, weir_task_fn *done, void *context, const char *format, va_list arguments)
{
        struct weir__redis_words words = {0};
        struct weir__redis_order order = {.redis = redis};

        if (format)
                weir__redis_words_format(&words, format, arguments);
        return weir__redis_words_task(&words, &order, done, context);
}

weir_task *
weir_redis_format_new(weir_redis *redis, weir_task_fn *done, void *context, const char *format, ...)
{
        va_list arguments;

        va_start(arguments, format);
        weir_task *task = weir_redis_vformat_new(redis, done, context, format, arguments);
        va_end(arguments);
        return task;
}

int
weir_redis_set_repeatable(weir_task *task)
{
        struct weir__redis_command *command = weir_promise_own(task, &weir__redis_kind);

        if (!command)
                return -EINVAL;
        command->is_repeatable = true;
        return 0;
}

/* The data, if the library has decided the end. */
static const struct weir__redis_command *
answer_of(const weir_task *task)
{
        const struct weir__redis_command *command = weir_promise_own(task, &weir__redis_kind);

        return command && weir_promise_value(task) ? command : NULL;
}

const struct weir_redis_reply *
weir_redis_reply(const weir_task *task)
{
        const struct weir__redis_command *command = answer_of(task);

        return command ? command->tree.root : NULL;
}

const char *
weir_redis_problem(const weir_task *task)
{
        const struct weir__redis_command *command = answer_of(task);

        if (!command || weir_task_status(task) == 0)
                return NULL;
        return *command->problem || !command->tree.root ? command->problem : command->tree.root->text;
}
