/* database/redis/script.c: scripts.  A script is called by its SHA-1; to a server that does not know it, it is sent as a whole.
 * */
#include <endian.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "database/redis/redis.h"

/* -- SHA-1 (RFC 3174), which names scripts; it protects nothing -- */

static uint32_t
rotate(uint32_t value, unsigned bits)
{
        return value << bits | value >> (32 - bits);
}

static void
take_block(uint32_t hash[5], const unsigned char block[64])
{
        uint32_t words[80], a = hash[0], b = hash[1], c = hash[2], d = hash[3], e = hash[4];

        memcpy(words, block, 64);
        for (unsigned i = 0; i < 16; i++)
                words[i] = be32toh(words[i]);
        for (unsigned i = 16; i < 80; i++)
                words[i] = rotate(words[i - 3] ^ words[i - 8] ^ words[i - 14] ^ words[i - 16], 1);
        for (unsigned i = 0; i < 80; i++) {
                uint32_t mixed = i < 20   ? ((b & c) | (~b & d)) + 0x5a827999u
                                 : i < 40 ? (b ^ c ^ d) + 0x6ed9eba1u
                                 : i < 60 ? ((b & c) | (b & d) | (c & d)) + 0x8f1bbcdcu
                                          : (b ^ c ^ d) + 0xca62c1d6u;
                uint32_t next = rotate(a, 5) + mixed + e + words[i];

                e = d;
                d = c;
                c = rotate(b, 30);
                b = a;
                a = next;
        }
        hash[0] += a;
        hash[1] += b;
        hash[2] += c;
        hash[3] += d;
        hash[4] += e;
}

static void
sha1(const void *data, size_t size, char out[41])
{
        uint32_t hash[5] = {0x67452301u, 0xefcdab89u, 0x98badcfeu, 0x10325476u, 0xc3d2e1f0u};
        unsigned char rest[128] = {0};
        size_t whole = size / 64 * 64, left = size - whole, end = left < 56 ? 64 : 128;
        uint64_t bits = htobe64((uint64_t)size * 8);

        for (size_t at = 0; at < whole; at += 64)
                take_block(hash, (const unsigned char *)data + at);
        if (left)
                memcpy(rest, (const unsigned char *)data + whole, left);
        rest[left] = 0x80;
        memcpy(rest + end - sizeof bits, &bits, sizeof bits);
        for (size_t at = 0; at < end; at += 64)
                take_block(hash, rest + at);
        for (unsigned i = 0; i < 5; i++)
                snprintf(out + 8 * i, 9, "%08x", hash[i]);
}

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
        sha1(script->source, size, script->sha);
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
