/* test/addon/redis_reply_test.c: the bytes of replies: where one ends, whatever pieces it comes in, and the tree that it makes.
 * */
#include "database/redis/reply.h"
#include "test/support.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST ((size_t)1 << 20)

static struct weir__redis_tree tree;

static void
write_tree(const struct weir_redis_reply *reply, char *out, size_t room)
{
        static const char *const brackets[] = {"[]", "{}", "()", "<>"};
        size_t used;

        switch (reply->type) {
        case WEIR_REDIS_NULL: snprintf(out, room, "nil"); return;
        case WEIR_REDIS_STRING: snprintf(out, room, "'%.*s'", (int)reply->size, reply->text); break;
        case WEIR_REDIS_ERROR: snprintf(out, room, "!%s", reply->text); break;
        case WEIR_REDIS_INTEGER: snprintf(out, room, "%lld", (long long)reply->integer); return;
        case WEIR_REDIS_DOUBLE: snprintf(out, room, "%g", reply->number); return;
        case WEIR_REDIS_BOOLEAN: snprintf(out, room, "%s", reply->integer ? "true" : "false"); return;
        case WEIR_REDIS_BIG_NUMBER: snprintf(out, room, "#%s", reply->text); break;
        case WEIR_REDIS_VERBATIM: snprintf(out, room, "=%s", reply->text); break;
        default:
                snprintf(out, room, "%c", brackets[reply->type - WEIR_REDIS_ARRAY][0]);
                for (size_t i = 0; i < reply->size; i++) {
                        used = strlen(out);
                        write_tree(weir_redis_item(reply, i), out + used, room - used);
                        strncat(out, i + 1 < reply->size ? " " : "", room - strlen(out) - 1);
                }
                used = strlen(out);
                snprintf(out + used, room - used, "%c", brackets[reply->type - WEIR_REDIS_ARRAY][1]);
                return;
        }
        CU_ASSERT_EQUAL(reply->text[reply->size], '\0');
}

/* Reads it in pieces of that size. */
static ssize_t
frame(const char *wire, size_t size, size_t piece)
{
        uint64_t words[4] = {0};
        ssize_t end = 0;

        for (size_t have = piece; !end || end > (ssize_t)size; have += piece) {
                size_t now = have < size ? have : size;
                char *exact = malloc(now); /* so that a sanitizer sees a look behind it */

                memcpy(exact, wire, now);
                end = weir__redis_frame(exact, now, words, MOST);
                free(exact);
                if (end < 0)
                        return end;
                if (end > (ssize_t)now)
                        end = 0; /* so much at least */
                if (now == size)
                        return end;
        }
        return end;
}

static void
reads_as(const char *wire, size_t size, const char *expected)
{
        char text[1024], room[256];

        for (size_t piece = 1; piece <= size; piece++) {
                if (frame(wire, size, piece) != (ssize_t)size)
                        printf("%s: %zd, and not %zu\n", wire, frame(wire, size, piece), size);
                CU_ASSERT_EQUAL_FATAL(frame(wire, size, piece), (ssize_t)size);
        }
        for (unsigned is_in_room = 0; is_in_room < 2; is_in_room++) {
                CU_ASSERT_EQUAL_FATAL(weir__redis_build(wire, size, room, is_in_room ? sizeof room : 0, &tree), 0);
                write_tree(tree.root, text, sizeof text);
                CU_ASSERT_STRING_EQUAL(text, expected);
                free(tree.memory);
        }
}

#define READS(wire, expected) reads_as((wire), sizeof(wire) - 1, (expected))

static void
each_type_is_read(void)
{
        READS("+OK\r\n", "'OK'");
        READS("+\r\n", "''");
        READS("+a\rb\nc\r\n", "'a\rb\nc'");
        READS("-ERR no\r\n", "!ERR no");
        READS(":0\r\n", "0");
        READS(":-9223372036854775808\r\n", "-9223372036854775808");
        READS(":9223372036854775807\r\n", "9223372036854775807");
        READS("$5\r\nhello\r\n", "'hello'");
        READS("$0\r\n\r\n", "''");
        READS("$4\r\n\r\n\r\n\r\n", "'\r\n\r\n'");
        READS("$-1\r\n", "nil");
        READS("*-1\r\n", "nil");
        READS("_\r\n", "nil");
        READS("#t\r\n", "true");
        READS("#f\r\n", "false");
        READS(",1.5\r\n", "1.5");
        READS(",10\r\n", "10");
        READS(",-inf\r\n", "-inf");
        READS(",1e-3\r\n", "0.001");
        READS("(123456789012345678901234567890\r\n", "#123456789012345678901234567890");
        READS("(-1\r\n", "#-1");
        READS("!8\r\nERR a\r\nb\r\n", "!ERR a\r\nb");
        READS("=8\r\ntxt:some\r\n", "=some");
        READS("*0\r\n", "[]");
        READS("*2\r\n:1\r\n$1\r\nx\r\n", "[1 'x']");
        READS("~2\r\n:1\r\n:2\r\n", "(1 2)");
        READS("%2\r\n+a\r\n:1\r\n+b\r\n*1\r\n_\r\n", "{'a' 1 'b' [nil]}");
        READS(">2\r\n+message\r\n+x\r\n", "<'message' 'x'>");
        READS("*3\r\n*1\r\n*1\r\n:1\r\n*0\r\n*2\r\n:2\r\n:3\r\n", "[[[1]] [] [2 3]]");
}

static void
attributes_are_left_out(void)
{
        READS("|1\r\n+ttl\r\n:3600\r\n:7\r\n", "7");
        READS("*2\r\n|1\r\n+a\r\n|1\r\n+b\r\n:0\r\n*1\r\n:9\r\n:1\r\n:2\r\n", "[1 2]");
        READS("|1\r\n+a\r\n*2\r\n:1\r\n:2\r\n|0\r\n*1\r\n+x\r\n", "['x']");
}

static void
is_refused(const char *wire, int expected)
{
        size_t size = strlen(wire);

        for (size_t piece = 1; piece <= size; piece++) {
                ssize_t end = frame(wire, size, piece);

                if (end > 0) {
                        CU_ASSERT_EQUAL(end, (ssize_t)size);
                        CU_ASSERT_EQUAL(weir__redis_build(wire, size, NULL, 0, &tree), expected);
                        CU_ASSERT_PTR_NULL(tree.root);
                } else if (end != expected) {
                        printf("%s: %zd\n", wire, end);
                        CU_FAIL("another answer");
                }
        }
}

static void
what_is_no_reply_is_refused(void)
{
        is_refused("x\r\n", -EBADMSG);
        is_refused("\r\n", -EBADMSG);
        is_refused("HTTP/1.1 400 Bad Request\r\n\r\n", -EBADMSG);
        is_refused("$x\r\n", -EBADMSG);
        is_refused("$\r\n", -EBADMSG);
        is_refused("$-2\r\n", -EBADMSG);
        is_refused("$+1\r\na\r\n", -EBADMSG);
        is_refused("$01\r\na\r\n", -EBADMSG);
        is_refused("$?\r\n", -EBADMSG);
        is_refused("*?\r\n", -EBADMSG);
        is_refused("%-1\r\n", -EBADMSG);
        is_refused("!-1\r\n", -EBADMSG);
        is_refused("$1\r\nabc", -EBADMSG);
        is_refused("$3\r\nabcde", -EBADMSG);
        is_refused("*2\r\n:1\r\nx", -EBADMSG);
        is_refused("*11111111111111111111111111111111111", -EBADMSG); /* there is no such line */
        is_refused("$99999999999999999999\r\n", -EBADMSG);
        is_refused("$1048577\r\n", -EMSGSIZE);
        is_refused("*9223372036854775807\r\n", -EMSGSIZE);
        is_refused("*349526\r\n", -EMSGSIZE); /* of three bytes at least */
        is_refused("*1000\r\n*1048570\r\n", -EMSGSIZE);
        is_refused("%600000\r\n", -EMSGSIZE);
        is_refused(":1x\r\n", -EBADMSG);
        is_refused(":\r\n", -EBADMSG);
        is_refused(":9223372036854775808\r\n", -EBADMSG);
        is_refused(":-0\r\n", -EBADMSG);
        is_refused(",\r\n", -EBADMSG);
        is_refused(",1.5x\r\n", -EBADMSG);
        is_refused(",0x10\r\n", -EBADMSG);
        is_refused("#x\r\n", -EBADMSG);
        is_refused("_x\r\n", -EBADMSG);
        is_refused("(12a\r\n", -EBADMSG);
        is_refused("(-\r\n", -EBADMSG);
        is_refused("=3\r\ntxt\r\n", -EBADMSG);
        is_refused("=4\r\ntxt;\r\n", -EBADMSG);
}

static void
a_tree_has_a_depth(void)
{
        char wire[1024] = "";

        for (unsigned depth = 1; depth <= WEIR__REDIS_DEPTH; depth++)
                strcat(wire, "*1\r\n");
        size_t size = strlen(wire);
        strcat(wire, ":1\r\n");
        CU_ASSERT_EQUAL(weir__redis_build(wire, strlen(wire), NULL, 0, &tree), 0);
        free(tree.memory);
        memcpy(wire + size, "*1\r\n:1\r\n", 9);
        is_refused(wire, -E2BIG);
        memcpy(wire + size, "*0\r\n", 5);
        CU_ASSERT_EQUAL(weir__redis_build(wire, strlen(wire), NULL, 0, &tree), 0);
        free(tree.memory);
}

/* Each byte is looked at once: otherwise this takes hours. */
static void
a_reply_that_comes_byte_by_byte_is_read_once(void)
{
        const unsigned items = 40000;
        char *wire = malloc(MOST), *at = wire + sprintf(wire, "*%u\r\n", 2 * items + 2);
        uint64_t words[4] = {0};
        ssize_t end = 0;

        for (unsigned i = 0; i < items; i++)
                at += sprintf(at, "$3\r\nabc\r\n:%u\r\n", i);
        at += sprintf(at, "+");
        memset(at, 'x', 40000);
        at += sprintf(at + 40000, "\r\n:1\r\n") + 40000;
        size_t size = (size_t)(at - wire);
        int64_t began = weir_test_cpu_time();
        for (size_t have = 1; have <= size; have++) {
                end = weir__redis_frame(wire, have, words, MOST);
                CU_ASSERT_FATAL(end >= 0 && end <= (ssize_t)size);
        }
        printf("%zu bytes: %.1f ns for each\n", size, (double)(weir_test_cpu_time() - began) / (double)size);
        CU_ASSERT_EQUAL(end, (ssize_t)size);
        CU_ASSERT_EQUAL(weir__redis_build(wire, size, NULL, 0, &tree), 0);
        CU_ASSERT_EQUAL(tree.root->size, 2 * items + 2);
        CU_ASSERT_EQUAL(tree.root->items[2 * items - 1].integer, items - 1);
        free(tree.memory);
        free(wire);
}

static void
the_least_size_is_known_early(void)
{
        uint64_t words[4] = {0};

        CU_ASSERT_EQUAL(weir__redis_frame("$1000\r\n", 7, words, MOST), 1009);
        memset(words, 0, sizeof words);
        CU_ASSERT_EQUAL(weir__redis_frame("*3\r\n", 4, words, MOST), 13);
        CU_ASSERT_EQUAL(weir__redis_frame("*3\r\n$10\r\n", 9, words, MOST), 27);
}

/* -- what is read from a tree -- */

static void
build(const char *wire)
{
        CU_ASSERT_EQUAL_FATAL(weir__redis_build(wire, strlen(wire), NULL, 0, &tree), 0);
}

static void
a_tree_is_asked(void)
{
        build("%4\r\n+one\r\n:1\r\n$3\r\ntwo\r\n$2\r\n-2\r\n+three\r\n,3.9\r\n+four\r\n#t\r\n");
        CU_ASSERT_EQUAL(weir_redis_integer(weir_redis_find(tree.root, "one"), 0), 1);
        CU_ASSERT_EQUAL(weir_redis_integer(weir_redis_find(tree.root, "two"), 0), -2);
        CU_ASSERT_EQUAL(weir_redis_integer(weir_redis_find(tree.root, "three"), 0), 3);
        CU_ASSERT_EQUAL(weir_redis_integer(weir_redis_find(tree.root, "four"), 0), 1);
        CU_ASSERT_STRING_EQUAL(weir_redis_text(weir_redis_find(tree.root, "two")), "-2");
        CU_ASSERT_STRING_EQUAL(weir_redis_text(weir_redis_find(tree.root, "one")), "");
        CU_ASSERT_PTR_NULL(weir_redis_find(tree.root, "five"));
        CU_ASSERT_PTR_NULL(weir_redis_find(tree.root, NULL));
        CU_ASSERT_PTR_NULL(weir_redis_item(tree.root, 8));
        CU_ASSERT_STRING_EQUAL(weir_redis_text(weir_redis_item(tree.root, 0)), "one");
        free(tree.memory);
        CU_ASSERT_PTR_NULL(weir_redis_item(NULL, 0));
        CU_ASSERT_PTR_NULL(weir_redis_find(NULL, "x"));
        CU_ASSERT_STRING_EQUAL(weir_redis_text(NULL), "");
        CU_ASSERT_EQUAL(weir_redis_integer(NULL, 7), 7);
        static const char *const others[] = {"+1x\r\n", "+\r\n", "+ 1\r\n",  "$20\r\n99999999999999999999\r\n",
                                             "*0\r\n",  "_\r\n", ",nan\r\n", ",1e300\r\n"};
        for (unsigned i = 0; i < sizeof others / sizeof *others; i++) {
                build(others[i]);
                CU_ASSERT_EQUAL(weir_redis_integer(tree.root, 7), 7);
                free(tree.memory);
        }
}

static void
a_tree_is_copied(void)
{
        char before[1024], behind[1024];

        build("*4\r\n%1\r\n+a\r\n*2\r\n:1\r\n$3\r\nabc\r\n_\r\n=5\r\ntxt:x\r\n(12\r\n");
        write_tree(tree.root, before, sizeof before);
        struct weir_redis_reply *copy = weir_redis_reply_copy(tree.root);
        free(tree.memory);
        write_tree(copy, behind, sizeof behind);
        CU_ASSERT_STRING_EQUAL(before, behind);
        weir_redis_reply_free(copy);
        weir_redis_reply_free(NULL);
        CU_ASSERT_PTR_NULL(weir_redis_reply_copy(NULL));
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(each_type_is_read),
                WEIR_TEST(attributes_are_left_out),
                WEIR_TEST(what_is_no_reply_is_refused),
                WEIR_TEST(a_tree_has_a_depth),
                WEIR_TEST(a_reply_that_comes_byte_by_byte_is_read_once),
                WEIR_TEST(the_least_size_is_known_early),
                WEIR_TEST(a_tree_is_asked),
                WEIR_TEST(a_tree_is_copied),
        };

        return weir_test_main("redis_reply", tests, sizeof tests / sizeof *tests);
}
