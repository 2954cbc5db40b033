/* database/redis/command.c: a command as a task.
 *
 *     its begin: an ask alone --answered--> the promise ends
 *           \                  \--it may be sent again--> a series: pause --> ask ...
 *            \--its node is not known to answer--> a series: ask ...
 *
 * A cancel of the promise cancels the series.  An ask alone has none, which would cost a third of all: it goes out at once, and
 * its reply is thrown away if the promise has ended.
 *
 * Threads: made on any thread; the rest one after the other, but for the cancel. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weir/timer.h>

#include "database/redis/redis.h"

#define PAUSE      WEIR_MSEC(20)
#define PAUSE_MOST WEIR_SEC(2)
#define WORD_MOST  40 /* bytes of an argument in a dump */

static void series_over(weir_series *series, void *context);
static void send_again(weir_task *pause, void *context);

/* -- the end -- */

static void
end(struct weir__redis_command *command, int status)
{
        command->is_over = true;
        weir_promise_end_with(command->promise, status, command, NULL); /* or a cancel was first */
}

/* Nothing more is under way for it. */
static void
release(struct weir__redis_command *command)
{
        struct weir__redis_node *node = atomic_load_explicit(&command->node, memory_order_relaxed);

        if (node)
                atomic_fetch_sub_explicit(&node->under_way, 1, memory_order_relaxed);
        weir_promise_unref(command->promise); /* it may be gone */
}

static void
series_over(weir_series *series, void *context)
{
        struct weir__redis_command *command = context;

        if (!command->is_over)
                end(command, weir_series_status(series));
        release(command);
}

/* -- failures and errors -- */

static const char *const stages[] = {"wait for a connection to", "connect to", "greet", "send to",
                                     "wait for the reply of",    "hear"};

static void
note_failure(struct weir__redis_command *command, enum weir_ask_stage stage, int status)
{
        struct weir__redis_node *node = atomic_load_explicit(&command->node, memory_order_relaxed);
        char why[WEIR__REDIS_TEXT] = "", text[128];

        if (stage == WEIR_ASK_HELLO)
                weir__redis_node_problem(node, why);
        snprintf(command->problem, sizeof command->problem, "%s redis %s: %s", stages[stage], node->address,
                 *why             ? why
                 : status > -4096 ? strerror_r(-status, text, sizeof text)
                                  : "TLS has failed");
}

/* Whether the server cannot have executed it, or may do so twice. */
static bool
may_repeat(const struct weir__redis_command *command, enum weir_ask_stage stage)
{
        return stage <= WEIR_ASK_SENDING || command->is_repeatable ||
               (command->traits & WEIR__REDIS_READS && !(command->traits & WEIR__REDIS_WAITS));
}

/* Failures that pass by themselves. */
static bool
may_pass(int status)
{
        switch (status) {
        case -ECONNREFUSED:
        case -ECONNRESET:
        case -ECONNABORTED:
        case -EPIPE:
        case -ENOENT: /* a Unix socket of a server that starts */
        case -EHOSTUNREACH:
        case -ENETUNREACH:
        case -EAGAIN: return true;
        default: return false;
        }
}

/* Goes on with that task in the series of the command, which begins with it if there is none.  Result: 0 or a negative errno. */
static int
go_on(struct weir__redis_command *command, weir_task *task)
{
        weir_series *series = atomic_load_explicit(&command->series, memory_order_relaxed);

        if (series)
                return weir_series_push(series, task);
        series = weir_series_ref(weir_series_new(series_over, command));
        int failed = weir_series_push(series, task);
        if (!failed) {
                atomic_store(&command->series, series);
                if (atomic_load(&command->is_cancelled))
                        weir_series_cancel(series);
                failed = weir_series_start(series);
                if (!failed)
                        return 0;
                weir_series_unref(atomic_exchange(&command->series, NULL));
                return failed;
        }
        weir_series_dismiss(series);
        weir_series_unref(series);
        return failed;
}

/* Sends it once more after a while.  Returns whether that will be. */
static bool
try_again(struct weir__redis_command *command)
{
        weir_nsec pause = PAUSE << (command->tries < 8 ? command->tries : 8);

        if (command->tries >= command->redis->settings->config.retries)
                return false;
        command->tries++;
        return go_on(command, weir_timer_new(pause < PAUSE_MOST ? pause : PAUSE_MOST, send_again, command)) == 0;
}

static bool
is_loading(const char *text)
{
        return strncmp(text, "LOADING ", 8) == 0 || strncmp(text, "TRYAGAIN ", 9) == 0 ||
               strncmp(text, "CLUSTERDOWN ", 12) == 0 || strncmp(text, "MASTERDOWN ", 11) == 0;
}

static void
drop_tree(struct weir__redis_command *command)
{
        free(command->tree.memory);
        command->tree = (struct weir__redis_tree){0};
}

/* -- an answer -- */

/* Returns whether the command is over. */
static bool
take_reply(struct weir__redis_command *command, weir_task *ask)
{
        size_t size;
        const char *data = weir_ask_reply(ask, &size);
        int status = weir__redis_build(data, size, command->room, sizeof command->room, &command->tree);

        if (status) {
                snprintf(command->problem, sizeof command->problem, "the reply is %s",
                         status == -E2BIG    ? "too deep"
                         : status == -ENOMEM ? "too large for the memory"
                                             : "no valid one");
        } else if (command->tree.root->type == WEIR_REDIS_ERROR) {
                status = weir__redis_status_of(command->tree.root->text);
                if (is_loading(command->tree.root->text) && try_again(command)) {
                        drop_tree(command);
                        return false;
                }
        }
        end(command, status);
        return true;
}

static bool
take_failure(struct weir__redis_command *command, weir_task *ask, int status)
{
        enum weir_ask_stage stage = weir_ask_stage(ask);
        struct weir__redis_node *node = atomic_load_explicit(&command->node, memory_order_relaxed);

        atomic_store_explicit(&node->is_flowing, false, memory_order_relaxed);
        if (may_pass(status) && may_repeat(command, stage) && try_again(command))
                return false;
        note_failure(command, stage, status);
        end(command, status);
        return true;
}

/* Returns whether the command is over. */
static bool
take_answer(struct weir__redis_command *command, weir_task *ask)
{
        int status = weir_task_status(ask);

        return status == 0 ? take_reply(command, ask) : take_failure(command, ask, status);
}

static void
answered(weir_task *ask, void *context)
{
        struct weir__redis_command *command = context;
        struct weir__redis_node *node = atomic_load_explicit(&command->node, memory_order_relaxed);

        if (weir_task_status(ask) == 0 && !(command->traits & WEIR__REDIS_WAITS))
                atomic_store_explicit(&node->is_flowing, true, memory_order_relaxed);
        take_answer(command, ask); /* the end of the series does the rest */
}

static void
answered_alone(weir_task *ask, void *context)
{
        struct weir__redis_command *command = context;

        if (take_answer(command, ask))
                release(command);
}

/* -- sending -- */

static weir_task *
ask_new(struct weir__redis_command *command, weir_task_fn *done)
{
        const struct weir__redis_node *node = atomic_load_explicit(&command->node, memory_order_relaxed);

        return weir_ask_new(command->traits & WEIR__REDIS_WAITS ? node->waits : node->commands, command->bytes, command->size,
                            done, command);
}

static void
send_again(weir_task *pause, void *context)
{
        struct weir__redis_command *command = context;

        if (weir_task_status(pause) == 0)
                go_on(command, ask_new(command, answered)); /* if that fails, the series has it as its status */
}

static int
send_first(struct weir__redis_command *command)
{
        struct weir__redis_node *node = command->redis->node;

        atomic_store_explicit(&command->node, node, memory_order_relaxed);
        atomic_fetch_add_explicit(&node->under_way, 1, memory_order_relaxed);
        if (atomic_load_explicit(&node->is_flowing, memory_order_relaxed) && !(command->traits & WEIR__REDIS_WAITS))
                return weir_task_start(ask_new(command, answered_alone));
        return go_on(command, ask_new(command, answered));
}

static void
begin(weir_task *promise, void *own)
{
        struct weir__redis_command *command = own;

        command->promise = weir_promise_ref(promise);
        int failed = command->fault ? command->fault : send_first(command);
        if (!failed)
                return;
        end(command, failed);
        release(command);
}

static void
cancel(weir_task *promise, void *own)
{
        struct weir__redis_command *command = own;

        (void)promise;
        atomic_store(&command->is_cancelled, true);
        weir_series_cancel(atomic_load(&command->series));
}

/* -- its data -- */

static void
free_command(void *own)
{
        struct weir__redis_command *command = own;

        weir_series_unref(command->series);
        drop_tree(command);
        weir_redis_unref(command->redis);
        free(command);
}

/* Reads the next argument of the bytes. */
static const char *
next_word(const char *at, const char *end, int *size)
{
        const char *line = at < end ? memchr(at, '\n', (size_t)(end - at)) : NULL;

        *size = line ? atoi(at + 1) : 0;
        return line ? line + 1 : end;
}

static void
describe(const void *own, char *out, size_t room)
{
        const struct weir__redis_command *command = own;
        const struct weir__redis_node *node = atomic_load_explicit(&command->node, memory_order_relaxed);
        const char *bytes = command->bytes, *end = bytes + command->size;
        int count = atoi(bytes + 1), size, second = 0;
        const char *name = next_word(strchr(bytes, '\n') + 1, end, &size), *key = name;

        if (count > 1)
                key = next_word(name + size + 2, end, &second);
        snprintf(out, room, "%.*s%s%.*s (redis %s, %u under way)", size < WORD_MOST ? size : WORD_MOST, name, second ? " " : "",
                 second < WORD_MOST ? second : WORD_MOST, key, node ? node->address : "?",
                 node ? atomic_load_explicit(&node->under_way, memory_order_relaxed) : 0);
}

static const struct weir_promise_kind kind = {
        .size = sizeof kind, .begin = begin, .cancel = cancel, .describe = describe, .free = free_command};

/* -- the public face -- */

static int
fault_of(const weir_redis *redis, size_t count, unsigned traits)
{
        if (!redis)
                return -ENOMEM;
        if (!count)
                return -EINVAL;
        return traits & WEIR__REDIS_CHANGES ? -EOPNOTSUPP : 0;
}

static weir_task *
make(weir_redis *redis, size_t count, const char *const *arguments, const size_t *sizes, int fault, weir_task_fn *done,
     void *context)
{
        unsigned traits = count && !fault ? weir__redis_traits(count, arguments, sizes) : 0;
        size_t size = fault ? 0 : weir__redis_encoded_size(count, arguments, sizes);
        struct weir__redis_command *command = malloc(sizeof *command + size + 1);

        if (!command)
                return NULL;
        memset(command, 0, offsetof(struct weir__redis_command, room));
        command->fault = fault ? fault : fault_of(redis, count, traits);
        command->redis = weir_redis_ref(redis);
        command->traits = (uint8_t)traits;
        command->size = size;
        if (size)
                weir__redis_encode(command->bytes, count, arguments, sizes);
        command->bytes[size] = '\0';
        return weir_promise_new_of(&kind, command, done, context);
}

weir_task *
weir_redis_command_new(weir_redis *redis, size_t count, const char *const *arguments, const size_t *sizes, weir_task_fn *done,
                       void *context)
{
        return make(redis, count, arguments, sizes, count && !arguments ? -EINVAL : 0, done, context);
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
        weir_task *task = make(redis, count, words, NULL, 0, done, context);
        if (words != few)
                free(words);
        return task;
}

weir_task *
weir_redis_vformat_new(weir_redis *redis, weir_task_fn *done, void *context, const char *format, va_list arguments)
{
        struct weir__redis_words words = {0};
        weir_task *task = NULL;

        if (format)
                weir__redis_words_format(&words, format, arguments);
        else
                words.fault = -EINVAL;
        const char **texts = malloc((words.count + 1) * sizeof *texts);
        if (texts && words.fault != -ENOMEM) {
                for (size_t i = 0, at = 0; i < words.count; i++) {
                        size_t end_of_word = words.ends[i];

                        texts[i] = words.text + at;
                        words.ends[i] = end_of_word - at; /* its size now */
                        at = end_of_word + 1;
                }
                task = make(redis, words.count, texts, words.ends, words.fault, done, context);
        }
        free(texts);
        weir__redis_words_free(&words);
        return task;
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
        struct weir__redis_command *command = weir_promise_own(task, &kind);

        if (!command)
                return -EINVAL;
        command->is_repeatable = true;
        return 0;
}

/* The data, if the library has decided the end. */
static const struct weir__redis_command *
answer_of(const weir_task *task)
{
        const struct weir__redis_command *command = weir_promise_own(task, &kind);

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
