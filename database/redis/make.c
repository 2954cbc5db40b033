/* database/redis/make.c: commands are made, and asked about: their bytes, and words that are put together by a format.
 *
 * Threads: any. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weir/runtime.h>

#include "database/redis/redis.h"

#define HEAD_MOST 23 /* bytes of a line that is a length */
#define HEAD_ROOM 8  /* with those behind an argument, of a length below 1000 */

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

/* All but its room and its bytes.  One by one: for so few bytes the instruction that a memset becomes takes longer. */
static inline void
clear(struct weir__redis_command *command)
{
        command->promise = NULL;
        atomic_init(&command->series, NULL);
        atomic_init(&command->is_cancelled, false);
        atomic_init(&command->node, NULL);
        command->traits = 0;
        command->is_repeatable = command->is_over = command->is_asking = command->is_whole = false;
        command->redirects = 0;
        command->slot = 0;
        command->tries = 0;
        command->script = NULL;
        command->session = NULL;
        command->next = NULL;
        command->link = NULL;
        command->replies = 0;
        command->other = NULL;
        command->other_size = 0;
        command->tree = (struct weir__redis_tree){0};
        *command->problem = '\0';
}

static weir_task *
make(const struct weir__redis_order *order, size_t size, int fault, struct weir__redis_command **made, weir_task_fn *done,
     void *context)
{
        struct weir__redis_command *command = malloc(sizeof *command + size + 1);

        *made = command;
        if (!command)
                return NULL;
        clear(command);
        command->fault = fault;
        command->redis = weir_redis_ref(order->redis);
        if (order->script)
                command->script = weir_redis_script_ref(order->script);
        if (order->session)
                command->session = weir_redis_session_ref(order->session);
        command->size = size;
        command->bytes[size] = '\0';
        return weir_promise_new_of(&weir__redis_kind, command, done, context);
}

/* An upper bound of a command's bytes, a little above them.  An exact count would take as long as writing them. */
static size_t
room_for(size_t count, const char *const *arguments, const size_t *sizes)
{
        size_t room = HEAD_MOST + HEAD_ROOM * count;

        for (size_t i = 0; i < count; i++) {
                size_t size = sizes ? sizes[i] : strlen(arguments[i]);

                room += size < 1000 ? size : size + HEAD_MOST;
        }
        return room;
}

#define MEASURED_MOST 16 /* arguments whose sizes lie on the stack */

/* The same order with the sizes of its texts, which are counted once. */
static weir_task *
measure_and_make(const struct weir__redis_order *order, weir_task_fn *done, void *context)
{
        struct weir__redis_order measured = *order;
        size_t sizes[MEASURED_MOST];

        for (size_t i = 0; i < order->count; i++)
                sizes[i] = strlen(order->arguments[i]);
        measured.sizes = sizes;
        return weir__redis_command_new(&measured, done, context);
}

weir_task *
weir__redis_command_new(const struct weir__redis_order *order, weir_task_fn *done, void *context)
{
        if (!order->sizes && order->count && order->count <= MEASURED_MOST && !order->fault)
                return measure_and_make(order, done, context);
        unsigned traits = order->count && !order->fault ? weir__redis_traits(order->count, order->arguments, order->sizes) : 0;
        size_t room = order->fault ? 0 : room_for(order->count, order->arguments, order->sizes);
        struct weir__redis_command *command;
        weir_task *task = make(order, room, order->fault ? order->fault : fault_of(order, traits), &command, done, context);

        if (!task)
                return NULL;
        command->traits = (uint8_t)traits;
        if (!room)
                return task;
        command->size = weir__redis_encode(command->bytes, order->count, order->arguments, order->sizes);
        command->bytes[command->size] = '\0';
        if (order->redis && order->redis->settings->mode == WEIR__REDIS_CLUSTER)
                command->slot = (int16_t)weir__redis_slot(order->count, order->arguments, order->sizes);
        return task;
}

weir_task *
weir__redis_exec_new(weir_redis *redis, weir_redis_session *session, char *bytes, size_t size, unsigned replies, int slot,
                     int fault, weir_task_fn *done, void *context)
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
        command->slot = (int16_t)slot;
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
        int status = weir_task_status(task);

        if (!weir_promise_own(task, &weir__redis_kind) || !status)
                return NULL;
        if (command && *command->problem)
                return command->problem;
        bool is_error = command && command->tree.root && command->tree.root->type == WEIR_REDIS_ERROR;
        return is_error ? command->tree.root->text : weir_strerror(status);
}

/* -- bytes -- */

static inline size_t
digits_of(size_t value)
{
        size_t digits = 1;

        for (; value >= 10; value /= 10)
                digits++;
        return digits;
}

static __attribute__((noinline)) char *
write_large(char *out, size_t value)
{
        size_t digits = digits_of(value);

        for (size_t at = digits; at--; value /= 10)
                out[at] = (char)('0' + value % 10);
        memcpy(out + digits, "\r\n", 2);
        return out + digits + 2;
}

static inline char *
write_head(char *out, char type, size_t value)
{
        *out++ = type;
        if (value >= 10) {
                if (value >= 100) {
                        if (value >= 1000)
                                return write_large(out, value);
                        *out++ = (char)('0' + value / 100);
                        value %= 100;
                }
                *out++ = (char)('0' + value / 10);
                value %= 10;
        }
        *out++ = (char)('0' + value);
        memcpy(out, "\r\n", 2);
        return out + 2;
}

size_t
weir__redis_encoded_size(size_t count, const char *const *arguments, const size_t *sizes)
{
        size_t whole = 3 + digits_of(count);

        for (size_t i = 0; i < count; i++) {
                size_t size = sizes ? sizes[i] : strlen(arguments[i]);

                whole += 5 + digits_of(size) + size;
        }
        return whole;
}

size_t
weir__redis_encode(char *out, size_t count, const char *const *arguments, const size_t *sizes)
{
        const char *begin = out;

        out = write_head(out, '*', count);
        for (size_t i = 0; i < count; i++) {
                size_t size = sizes ? sizes[i] : strlen(arguments[i]);

                out = write_head(out, '$', size);
                if (size)
                        memcpy(out, arguments[i], size);
                out += size;
                memcpy(out, "\r\n", 2);
                out += 2;
        }
        return (size_t)(out - begin);
}

/* -- words -- */

void
weir__redis_words_add(struct weir__redis_words *words, const void *bytes, size_t size)
{
        if (words->fault)
                return;
        if (size > words->room - words->used) {
                size_t room = words->used + size + 256 + words->room / 2;
                char *text = room > size ? realloc(words->text, room) : NULL;

                if (!text) {
                        words->fault = -ENOMEM;
                        return;
                }
                words->text = text;
                words->room = room;
        }
        if (size)
                memcpy(words->text + words->used, bytes, size);
        words->used += size;
}

void
weir__redis_words_end(struct weir__redis_words *words)
{
        weir__redis_words_add(words, "", 1); /* its text ends with a NUL that is not counted */
        if (words->fault)
                return;
        if (words->count == words->ends_room) {
                size_t room = 8 + 2 * words->ends_room;
                size_t *ends = realloc(words->ends, room * sizeof *ends);

                if (!ends) {
                        words->fault = -ENOMEM;
                        return;
                }
                words->ends = ends;
                words->ends_room = room;
        }
        words->ends[words->count++] = words->used - 1;
}

/* Writes the shortest decimal number that is read back as the same value, with a point in any locale.  Returns its bytes. */
static int
write_double(char *out, size_t room, double value)
{
        int written = 0, used = 0;

        for (int digits = 15; digits <= 17; digits++) {
                written = snprintf(out, room, "%.*g", digits, value);
                if (strtod(out, NULL) == value) /* in the same locale */
                        break;
        }
        for (int at = 0; at < written; at++) {
                if (strchr("+-0123456789aefin", out[at]))
                        out[used++] = out[at];
                else if (!used || out[used - 1] != '.') /* the point may have several bytes */
                        out[used++] = '.';
        }
        return used;
}

/* Adds the value of a conversion.  Returns the text behind the conversion; NULL: the conversion is not known. */
static const char *
convert(struct weir__redis_words *words, const char *at, va_list *arguments)
{
        char number[64];
        const void *bytes = number;
        size_t size;
        int written = 0;

        if (*at == '%') {
                weir__redis_words_add(words, "%", 1);
                return at + 1;
        }
        if (*at == 's') {
                const char *text = va_arg(*arguments, const char *);

                weir__redis_words_add(words, text ? text : "", text ? strlen(text) : 0);
                return at + 1;
        }
        if (*at == 'b') {
                bytes = va_arg(*arguments, const void *);
                size = va_arg(*arguments, size_t);
                weir__redis_words_add(words, bytes, size);
                return at + 1;
        }
        if (*at == 'd')
                written = snprintf(number, sizeof number, "%d", va_arg(*arguments, int));
        else if (*at == 'u')
                written = snprintf(number, sizeof number, "%u", va_arg(*arguments, unsigned));
        else if (*at == 'g')
                written = write_double(number, sizeof number, va_arg(*arguments, double));
        else if (strncmp(at, "zu", 2) == 0)
                written = snprintf(number, sizeof number, "%zu", va_arg(*arguments, size_t)), at += 1;
        else if (strncmp(at, "lld", 3) == 0)
                written = snprintf(number, sizeof number, "%lld", va_arg(*arguments, long long)), at += 2;
        else if (strncmp(at, "llu", 3) == 0)
                written = snprintf(number, sizeof number, "%llu", va_arg(*arguments, unsigned long long)), at += 2;
        else
                return NULL;
        weir__redis_words_add(words, number, (size_t)written);
        return at + 1;
}

void
weir__redis_words_format(struct weir__redis_words *words, const char *format, va_list arguments)
{
        bool is_in_word = false;
        va_list rest;

        va_copy(rest, arguments);
        for (const char *at = format; *at && !words->fault;) {
                if (*at == ' ') {
                        if (is_in_word)
                                weir__redis_words_end(words);
                        is_in_word = false;
                        at++;
                        continue;
                }
                is_in_word = true;
                size_t plain = strcspn(at, " %");
                weir__redis_words_add(words, at, plain);
                at += plain;
                if (*at != '%')
                        continue;
                at = convert(words, at + 1, &rest);
                if (!at) {
                        words->fault = -EINVAL;
                        break;
                }
        }
        va_end(rest);
        if (is_in_word)
                weir__redis_words_end(words);
}

void
weir__redis_words_split(struct weir__redis_words *words, const char **texts)
{
        for (size_t i = 0, at = 0; i < words->count; i++) {
                size_t end = words->ends[i];

                texts[i] = words->text + at;
                words->ends[i] = end - at;
                at = end + 1;
        }
}

void
weir__redis_words_free(struct weir__redis_words *words)
{
        free(words->text);
        free(words->ends);
}
