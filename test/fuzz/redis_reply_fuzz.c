/* test/fuzz/redis_reply_fuzz.c: replies of Redis, in any pieces, beside the reader of hiredis.
 *
 * What must hold:
 *
 * - The end of a reply, or its fault, is the same whole, byte by byte and in two pieces; what is said to come at least does.
 * - A tree lies within its reply: all texts end with a NUL, and are as large as is said.
 * - A copy of a tree is the same.
 * - Where hiredis knows all types that are in it, its reader makes the same tree.
 * - What is refused or not whole is no whole reply of RESP2 for hiredis either.  It is laxer in these, and in nothing else:
 *     - It skips the two bytes behind a text with a length, whatever they are.  We refuse all but CR LF, as the next reply would
 *       begin at a wrong place.
 *     - It has no limit for the size of a reply, and a later version allows more than our 64 levels. */
#include <errno.h>

#include "database/redis/reply.h"
#include "test/fuzz/fuzz.h"

#ifdef WITH_HIREDIS
#include <hiredis/hiredis.h>
#endif

#define MOST          ((size_t)1 << 16)
#define HIREDIS_DEPTH 7 /* of arrays in arrays, that all versions read */

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
/* What is seen where the items of a reply begin. */
struct items {
        bool are_old;       /* of RESP2 */
        bool has_wrong_end; /* a text is not followed by CR LF */
};

/* The digits of a length; -1 of a null. */
static long long
read_length(const char *text)
{
        long long length = 0;

        if (*text == '-')
                return -1;
        while (*text >= '0' && *text <= '9')
                length = 10 * length + (*text++ - '0');
        return length;
}

/* Walks over a reply that one of the readers has found whole, so each line has an end, and each length is a number. */
static struct items
look_at_items(const char *data, size_t size)
{
        struct items items = {true, false};
        size_t at = 0;

        for (long long left = 1; left; left--) {
                const char *end = at < size ? memmem(data + at, size - at, "\r\n", 2) : NULL;

                FUZZ_CHECK(end);
                char type = data[at];
                long long count = strchr("$!=*~>%|", type) ? read_length(data + at + 1) : -1;
                at = (size_t)(end - data) + 2;
                items.are_old = items.are_old && strchr("+-:$*", type);
                if (count < 0)
                        continue;
                if (strchr("$!=", type)) {
                        at += (size_t)count + 2;
                        FUZZ_CHECK(at <= size);
                        items.has_wrong_end = items.has_wrong_end || memcmp(data + at - 2, "\r\n", 2) != 0;
                } else {
                        left += strchr("*~>", type) ? count : 2 * count + (type == '|');
                }
        }
        return items;
}

/* How deep arrays lie in each other. */
static unsigned
depth_of(const struct weir_redis_reply *reply)
{
        unsigned most = 0;

        if (reply->type != WEIR_REDIS_ARRAY)
                return 0;
        for (size_t i = 0; i < reply->size; i++) {
                unsigned depth = depth_of(&reply->items[i]);

                most = depth > most ? depth : most;
        }
        return most + 1;
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

/* What its reader makes, with these functions; NULL: nothing. */
static void *
ask_hiredis(redisReplyObjectFunctions *functions, const char *data, size_t size)
{
        redisReader *reader = redisReaderCreate();
        void *reply = NULL;

        reader->fn = functions ? functions : reader->fn;
        FUZZ_CHECK(redisReaderFeed(reader, data, size) == REDIS_OK);
        if (redisReaderGetReply(reader, &reply) != REDIS_OK)
                reply = NULL;
        redisReaderFree(reader);
        return reply;
}

/* The tree of a whole reply. */
static void
read_beside(const struct weir_redis_reply *reply, const char *data, size_t size)
{
        if (!look_at_items(data, size).are_old || depth_of(reply) > HIREDIS_DEPTH)
                return;
        redisReply *other = ask_hiredis(NULL, data, size);
        FUZZ_CHECK(other);
        check_beside(reply, other);
        freeReplyObject(other);
}

static void *
take_integer(const redisReadTask *task, long long value)
{
        static char any;

        (void)task;
        (void)value;
        return &any;
}

/* What was refused with that error, or is not whole: 0. */
static void
refuse_beside(int refused, const char *data, size_t size)
{
        /* Its own would allocate what a reply announces.  It looks at an integer only if somebody takes that. */
        static redisReplyObjectFunctions functions = {.createInteger = take_integer};

        if (!ask_hiredis(&functions, data, size))
                return;
        struct items items = look_at_items(data, size);
        FUZZ_CHECK(!items.are_old || (refused == -EBADMSG && items.has_wrong_end) || (refused == -EMSGSIZE && size > MOST) ||
                   refused == -E2BIG);
}
#else
static void
read_beside(const struct weir_redis_reply *reply, const char *data, size_t size)
{
        (void)reply;
        (void)data;
        (void)size;
}

static void
refuse_beside(int refused, const char *data, size_t size)
{
        (void)refused;
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
        if (end <= 0) {
                refuse_beside((int)end, data, size);
                return 0;
        }
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
        } else {
                refuse_beside(failed, exact, (size_t)end);
        }
        free(exact);
        return 0;
}
