/* database/redis/script.c: scripts.  A script is called by its SHA-1; to a server that does not know it, it is sent as a whole. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "database/redis/redis.h"

/* -- a script -- */

weir_redis_script *
weir_redis_script_new(const char *source)
{
        size_t size = source ? strlen(source) : 0;
        weir_redis_script *script = malloc(sizeof *script + size + 1);

        if (!script)
                return NULL;
        atomic_init(&script->references, 1);
        script->size = size;
        memcpy(script->source, source ? source : "", size + 1);
        weir__redis_sha1(script->source, size, script->sha);
        return script;
}

weir_redis_script *
weir_redis_script_ref(weir_redis_script *script)
{
        if (script)
                atomic_fetch_add_explicit(&script->references, 1, memory_order_relaxed);
        return script;
}

void
weir_redis_script_unref(weir_redis_script *script)
{
        if (script && atomic_fetch_sub_explicit(&script->references, 1, memory_order_acq_rel) == 1)
                free(script);
}

const char *
weir_redis_script_sha(const weir_redis_script *script)
{
        return script ? script->sha : NULL;
}

/* "*N", "$7 EVALSHA", "$40 ...": the last two are replaced. */
char *
weir__redis_script_whole(const weir_redis_script *script, const char *bytes, size_t size, size_t *whole)
{
        size_t head = (size_t)(strchr(bytes, '\n') + 1 - bytes), behind = head + 13 + 47;
        char *out = malloc(size + script->size + 32);

        if (!out)
                return NULL;
        memcpy(out, bytes, head);
        size_t used = head + (size_t)sprintf(out + head, "$4\r\nEVAL\r\n$%zu\r\n", script->size);
        memcpy(out + used, script->source, script->size);
        used += script->size;
        memcpy(out + used, "\r\n", 2);
        used += 2;
        memcpy(out + used, bytes + behind, size - behind);
        *whole = used + size - behind;
        return out;
}

/* -- calls -- */

weir_task *
weir_redis_call_new(weir_redis *redis, weir_redis_script *script, size_t keys, size_t count, const char *const *arguments,
                    const size_t *sizes, weir_task_fn *done, void *context)
{
        const char **all = malloc((count + 3) * sizeof *all);
        size_t *all_sizes = malloc((count + 3) * sizeof *all_sizes);
        char number[24];
        weir_task *task = NULL;
        struct weir__redis_order order = {
                .redis = redis, .count = count + 3, .arguments = all, .sizes = all_sizes, .script = script};

        order.fault = !script ? -ENOMEM : keys > count || (count && !arguments) ? -EINVAL : 0;
        if (all && all_sizes) {
                all[0] = "EVALSHA";
                all[1] = script ? script->sha : "";
                snprintf(number, sizeof number, "%zu", keys);
                all[2] = number;
                for (size_t i = 0; i < 3; i++)
                        all_sizes[i] = strlen(all[i]);
                for (size_t i = 0; i < count && !order.fault; i++) {
                        all[3 + i] = arguments[i];
                        all_sizes[3 + i] = sizes ? sizes[i] : strlen(arguments[i]);
                }
                task = weir__redis_command_new(&order, done, context);
        }
        free(all);
        free(all_sizes);
        return task;
}

weir_task *
weir_redis_call_format_new(weir_redis *redis, weir_redis_script *script, size_t keys, weir_task_fn *done, void *context,
                           const char *format, ...)
{
        struct weir__redis_words words = {0};
        struct weir__redis_order order = {.redis = redis, .script = script};
        char number[24];
        va_list arguments;

        snprintf(number, sizeof number, "%zu", keys);
        const char *head[] = {"EVALSHA", script ? script->sha : "", number};
        for (unsigned i = 0; i < 3; i++) {
                weir__redis_words_add(&words, head[i], strlen(head[i]));
                weir__redis_words_end(&words);
        }
        va_start(arguments, format);
        if (format)
                weir__redis_words_format(&words, format, arguments);
        va_end(arguments);
        if (!words.fault && (!script || keys > words.count - 3))
                words.fault = script ? -EINVAL : -ENOMEM;
        if (!script) /* a task that says so */
                order.fault = -ENOMEM;
        return weir__redis_words_task(&words, &order, done, context);
}
