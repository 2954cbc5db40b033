/* test/fuzz/redis_reply_fuzz.c: replies of Redis, in any pieces, beside the reader of hiredis.
 *
 * What must hold:
 *
 * - The end of a reply, or its fault, is the same whole, byte by byte and in two pieces; what is said to come at least does.
 * - A tree lies within its reply: all texts end with a NUL, and are as large as is said.
 * - A copy of a tree is the same.
 * - Where hiredis knows all types that are in it, its reader makes the same tree. */
#include <errno.h>

#include "database/redis/reply.h"
#include "test/fuzz/fuzz.h"

#ifdef WITH_HIREDIS
#include <hiredis/hiredis.h>
#endif

#define MOST ((size_t)1 << 16)

/* Reads pieces of that size; the first one has `first` bytes.  0: it is not whole. */
static ssize_t
read_pieces(const char *data, size_t size, size_t first, size_t piece)
{
        uint64_t words[4] = {0};
        size_t least = 0;

        for (size_t have = first < size ? first : size;; have = have + piece < size ? have + piece : size) {
                char *exact = malloc(have + !have);

                memcpy(exact, data, have);
                ssize_t end = weir__redis_frame(exact, have, words, MOST);
                free(exact);
                if (end < 0 || (end > 0 && (size_t)end <= have)) {
                        FUZZ_CHECK(end < 0 || (size_t)end >= least);
                        return end;
                }
                FUZZ_CHECK(!end || (size_t)end > have);
                FUZZ_CHECK(!end || (size_t)end <= MOST);
                if (end && (size_t)end > least)
                        least = (size_t)end;
                if (have == size)
                        return 0;
        }
}

static void
check_tree(const struct weir_redis_reply *reply, const struct weir_redis_reply *copy)
{
        FUZZ_CHECK(reply->type == copy->type && reply->size == copy->size);
        switch (reply->type) {
        case WEIR_REDIS_NULL: return;
        case WEIR_REDIS_INTEGER:
        case WEIR_REDIS_BOOLEAN: FUZZ_CHECK(reply->integer == copy->integer); return;
        case WEIR_REDIS_DOUBLE: FUZZ_CHECK(memcmp(&reply->number, &copy->number, sizeof reply->number) == 0); return;
        case WEIR_REDIS_STRING:
        case WEIR_REDIS_ERROR:
        case WEIR_REDIS_BIG_NUMBER:
        case WEIR_REDIS_VERBATIM:
                FUZZ_CHECK(!reply->text[reply->size] && !copy->text[copy->size]);
                FUZZ_CHECK(memcmp(reply->text, copy->text, reply->size) == 0);
                return;
        default: FUZZ_CHECK(reply->type != WEIR_REDIS_MAP || reply->size % 2 == 0);
        }
        for (size_t i = 0; i < reply->size; i++)
                check_tree(&reply->items[i], &copy->items[i]);
        FUZZ_CHECK(!weir_redis_item(reply, reply->size));
}

/* -- hiredis -- */

#ifdef WITH_HIREDIS
/* Whether hiredis 0.14 knows it: its types, and its depth. */
static bool
is_old(const struct weir_redis_reply *reply, unsigned depth)
{
        switch (reply->type) {
        case WEIR_REDIS_NULL:
        case WEIR_REDIS_STRING:
        case WEIR_REDIS_ERROR:
        case WEIR_REDIS_INTEGER: return true;
        case WEIR_REDIS_ARRAY: break;
        default: return false;
        }
        for (size_t i = 0; i < reply->size; i++)
                if (!is_old(&reply->items[i], depth + 1))
                        return false;
        return depth < 6;
}

static void
check_beside(const struct weir_redis_reply *reply, const redisReply *other)
{
        switch (reply->type) {
        case WEIR_REDIS_NULL: FUZZ_CHECK(other->type == REDIS_REPLY_NIL); return;
        case WEIR_REDIS_INTEGER: FUZZ_CHECK(other->type == REDIS_REPLY_INTEGER && other->integer == reply->integer); return;
        case WEIR_REDIS_ARRAY:
                FUZZ_CHECK(other->type == REDIS_REPLY_ARRAY && other->elements == reply->size);
                for (size_t i = 0; i < reply->size; i++)
                        check_beside(&reply->items[i], other->element[i]);
                return;
        default: break;
        }
        FUZZ_CHECK(reply->type == WEIR_REDIS_ERROR ? other->type == REDIS_REPLY_ERROR
                                                   : other->type == REDIS_REPLY_STRING || other->type == REDIS_REPLY_STATUS);
        FUZZ_CHECK((size_t)other->len == reply->size && memcmp(other->str, reply->text, reply->size) == 0);
}

static void
read_beside(const struct weir_redis_reply *reply, const char *data, size_t size)
{
        redisReader *reader = redisReaderCreate();
        void *other = NULL;
        bool is_new = memchr(data, '_', size) || memchr(data, '|', size) || memchr(data, '!', size); /* perhaps of RESP3 */

        if (!is_new && is_old(reply, 0)) {
                FUZZ_CHECK(redisReaderFeed(reader, data, size) == REDIS_OK);
                FUZZ_CHECK(redisReaderGetReply(reader, &other) == REDIS_OK && other);
                check_beside(reply, other);
                freeReplyObject(other);
        }
        redisReaderFree(reader);
}
#else
static void
read_beside(const struct weir_redis_reply *reply, const char *data, size_t size)
{
        (void)reply;
        (void)data;
        (void)size;
}
#endif

int
LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
        char room[128];
        struct weir__redis_tree tree;
        const char *data = (const char *)bytes;

        if (!size)
                return 0;
        ssize_t end = read_pieces(data, size, size, 1);
        FUZZ_CHECK(read_pieces(data, size, 1, 1) == end);
        FUZZ_CHECK(read_pieces(data, size, size / 2 + 1, size) == end);
        if (end <= 0)
                return 0;
        char *exact = malloc((size_t)end);
        memcpy(exact, data, (size_t)end);
        int failed = weir__redis_build(exact, (size_t)end, room, sizeof room, &tree);
        FUZZ_CHECK(failed == 0 || failed == -EBADMSG || failed == -E2BIG);
        FUZZ_CHECK(!failed == (tree.root != NULL));
        if (!failed) {
                struct weir_redis_reply *copy = weir_redis_reply_copy(tree.root);

                check_tree(tree.root, copy);
                weir_redis_reply_free(copy);
                read_beside(tree.root, exact, (size_t)end);
                free(tree.memory);
        }
        free(exact);
        return 0;
}
