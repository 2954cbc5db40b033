/* test/query_test.c: application/x-www-form-urlencoded: a form is read as it was sent, and any bytes are read safely. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "protocol/route/query.h"
#include "test/support.h"

#define MAX 1000

/* Parses a copy with nothing behind it, so that a sanitizer sees a read beyond the end. */
static struct weir__pairs *
parse(const char *text, size_t size, size_t max)
{
        struct weir__pairs *pairs = NULL;
        char *copy = malloc(size ? size : 1);

        memcpy(copy, text, size);
        CU_ASSERT_EQUAL_FATAL(weir__query_parse(copy, size, max, &pairs), 0);
        free(copy);
        return pairs;
}

static void
append(char *out, const char *text, const char *end)
{
        strcat(strcat(out, text), end);
}

/* The pairs of a text, each as <name|value>. */
#define READS(text, expected) CU_ASSERT_TRUE(reads((text), sizeof(text) - 1, (expected)))
static bool
reads(const char *text, size_t size, const char *expected)
{
        struct weir__pairs *pairs = parse(text, size, MAX);
        char shown[1000] = "";
        const char *name, *value;

        for (size_t i = 0; weir__pairs_at(pairs, i, &name, &value) == 0; i++) {
                append(shown, "<", name);
                append(shown, "|", value);
                append(shown, ">", "");
        }
        free(pairs);
        return strcmp(shown, expected) == 0;
}

static void
pairs_stand_between_ampersands(void)
{
        READS("", "");
        READS("a=1", "<a|1>");
        READS("a=1&b=2&c=3", "<a|1><b|2><c|3>");
        READS("a=1&a=2", "<a|1><a|2>");
        READS("&&a=1&&&b=2&", "<a|1><b|2>");
        READS("&", "");
}

static void
a_semicolon_does_not_divide(void)
{
        READS("a=1;b=2", "<a|1;b=2>");
        READS("a;b", "<a;b|>");
}

static void
the_first_equals_sign_ends_the_name(void)
{
        READS("a", "<a|>");
        READS("a=", "<a|>");
        READS("=a", "<|a>");
        READS("=", "<|>");
        READS("a=b=c", "<a|b=c>");
        READS("a==", "<a|=>");
        READS("a%3Db=c%26d", "<a=b|c&d>");
}

static void
a_plus_is_a_space_and_an_escaped_one_a_plus(void)
{
        READS("a+b=c+d", "<a b|c d>");
        READS("a%20b=c%2Bd", "<a b|c+d>");
        READS("+=+", "< | >");
}

static void
escapes_are_decoded_in_both_cases_and_once(void)
{
        READS("a=%c3%A4%C3%a4", "<a|\xc3\xa4\xc3\xa4>");
        READS("a=%2541", "<a|%41>");
        READS("%61=%7e", "<a|~>");
        READS("a=%ff\xfe", "<a|\xff\xfe>");
}

static void
escapes_that_are_none_stay_as_they_are(void)
{
        READS("a=%", "<a|%>");
        READS("a=%4", "<a|%4>");
        READS("a=%4&b=1", "<a|%4><b|1>");
        READS("a=%g1%1g", "<a|%g1%1g>");
        READS("a=%%41", "<a|%A>");
        READS("%=%", "<%|%>");
        READS("a%=1", "<a%|1>");
        READS("a=%u0041", "<a|%u0041>");
}

static void
a_pair_with_a_nul_is_left_out(void)
{
        READS("a=1%00&b=2", "<b|2>");
        READS("a=%00", "");
        READS("admin%00x=1&admin=2", "<admin|2>");
        READS("%00", "");
        READS("a=1\0002&b=2", "<b|2>");
        READS("a\0=1&b=2", "<b|2>");
        READS("b=2&a=some+longer+text%00", "<b|2>");
}

static void
the_first_of_a_name_is_its_value(void)
{
        struct weir__pairs *pairs = parse("a=1&b&a=2&A=3", 13, MAX);

        CU_ASSERT_STRING_EQUAL(weir__pairs_value(pairs, "a"), "1");
        CU_ASSERT_STRING_EQUAL(weir__pairs_value(pairs, "b"), "");
        CU_ASSERT_STRING_EQUAL(weir__pairs_value(pairs, "A"), "3");
        CU_ASSERT_PTR_NULL(weir__pairs_value(pairs, "c"));
        CU_ASSERT_PTR_NULL(weir__pairs_value(pairs, ""));
        free(pairs);
}

static void
no_pairs_have_no_value(void)
{
        const char *name = "untouched", *value = name;

        CU_ASSERT_PTR_NULL(weir__pairs_value(NULL, "a"));
        CU_ASSERT_EQUAL(weir__pairs_at(NULL, 0, &name, &value), -ENOENT);
        CU_ASSERT_STRING_EQUAL(name, "untouched");
        CU_ASSERT_STRING_EQUAL(value, "untouched");
}

static void
more_than_the_limit_is_said_and_not_read(void)
{
        struct weir__pairs *pairs = parse("a&b&c", 5, 3);

        CU_ASSERT_EQUAL(weir__pairs_at(pairs, 2, NULL, NULL), 0);
        CU_ASSERT_EQUAL(weir__pairs_at(pairs, 3, NULL, NULL), -ENOENT);
        free(pairs);
        pairs = parse("a&b&c&d", 7, 3);
        CU_ASSERT_EQUAL(weir__pairs_at(pairs, 2, NULL, NULL), 0);
        CU_ASSERT_EQUAL(weir__pairs_at(pairs, 3, NULL, NULL), -E2BIG);
        CU_ASSERT_EQUAL(weir__pairs_at(pairs, 99, NULL, NULL), -E2BIG);
        CU_ASSERT_PTR_NULL(weir__pairs_value(pairs, "d"));
        free(pairs);
        pairs = parse("a&b&c&&&", 8, 3); /* what is empty is none */
        CU_ASSERT_EQUAL(weir__pairs_at(pairs, 3, NULL, NULL), -ENOENT);
        free(pairs);
        pairs = parse("%00&%00&%00&d", 13, 3); /* what is left out counts: it costs work too */
        CU_ASSERT_EQUAL(weir__pairs_at(pairs, 0, NULL, NULL), -E2BIG);
        free(pairs);
}

static void
memory_that_cannot_be_is_refused(void)
{
        char *text = NULL;

        CU_ASSERT_PTR_NULL(weir__pairs_new(SIZE_MAX / 8, 0, &text));
        CU_ASSERT_PTR_NULL(weir__pairs_new(SIZE_MAX / 16, 0, &text));
        CU_ASSERT_PTR_NULL(weir__pairs_new(SIZE_MAX / 16 + 2, 0, &text));
        CU_ASSERT_PTR_NULL(weir__pairs_new(1, SIZE_MAX - 8, &text));
        CU_ASSERT_PTR_NULL(text);
}

static void
the_type_of_a_form_may_have_parameters(void)
{
        CU_ASSERT_TRUE(weir__query_is_type("application/x-www-form-urlencoded"));
        CU_ASSERT_TRUE(weir__query_is_type("Application/X-WWW-Form-Urlencoded; charset=UTF-8"));
        CU_ASSERT_TRUE(weir__query_is_type("application/x-www-form-urlencoded ;x"));
        CU_ASSERT_FALSE(weir__query_is_type(""));
        CU_ASSERT_FALSE(weir__query_is_type("multipart/form-data; boundary=a"));
        CU_ASSERT_FALSE(weir__query_is_type("application/x-www-form-urlencoded2"));
        CU_ASSERT_FALSE(weir__query_is_type("text/plain; application/x-www-form-urlencoded"));
}

/* -- random -- */

/* A byte, written in one of the ways that there are. */
static size_t
write_byte(struct weir_test_random *random, char *out, unsigned char byte, bool is_name)
{
        static const char digits[2][17] = {"0123456789abcdef", "0123456789ABCDEF"};
        bool must = strchr("&+%", byte) || (is_name && byte == '=');

        if (byte == ' ' && weir_test_random_below(random, 2)) {
                *out = '+';
                return 1;
        }
        if (!must && weir_test_random_below(random, 2)) {
                *out = (char)byte;
                return 1;
        }
        out[0] = '%';
        out[1] = digits[weir_test_random_below(random, 2)][byte >> 4];
        out[2] = digits[weir_test_random_below(random, 2)][byte & 15];
        return 3;
}

struct writer {
        struct weir_test_random random;
        char plain[40][12]; /* names and values */
        char text[2000];
        size_t size;
};

static void
write_text(struct writer *writer, char *plain, bool is_name)
{
        size_t size = weir_test_random_below(&writer->random, 11);

        for (size_t i = 0; i < size; i++) {
                static const char awkward[] = "&=+%; ab\xff\n";
                uint64_t choice = weir_test_random(&writer->random);

                plain[i] = choice & 1 ? awkward[(choice >> 8) % (sizeof awkward - 1)] : (char)(1 + (choice >> 8) % 255);
                writer->size += write_byte(&writer->random, writer->text + writer->size, (unsigned char)plain[i], is_name);
        }
        plain[size] = '\0';
}

static void
whatever_is_encoded_is_decoded_to_what_it_was(void)
{
        struct writer writer = {.random.state = weir_test_seed()};

        for (unsigned turn = 0; turn < 5000; turn++) {
                size_t count = weir_test_random_below(&writer.random, 20);

                writer.size = 0;
                for (size_t i = 0; i < count; i++) {
                        write_text(&writer, writer.plain[2 * i], true);
                        writer.text[writer.size++] = '=';
                        write_text(&writer, writer.plain[2 * i + 1], false);
                        writer.text[writer.size++] = '&';
                }
                struct weir__pairs *pairs = parse(writer.text, writer.size, SIZE_MAX);
                CU_ASSERT_EQUAL_FATAL(pairs->count, count);
                for (size_t i = 0; i < count; i++) {
                        CU_ASSERT_STRING_EQUAL_FATAL(pairs->pairs[i].name, writer.plain[2 * i]);
                        CU_ASSERT_STRING_EQUAL_FATAL(pairs->pairs[i].value, writer.plain[2 * i + 1]);
                }
                free(pairs);
        }
}

static void
any_bytes_are_read_without_harm(void)
{
        struct weir_test_random random = {weir_test_seed()};

        for (unsigned turn = 0; turn < 20000; turn++) {
                char text[40];
                size_t size = weir_test_random_below(&random, sizeof text), max = weir_test_random_below(&random, 10);

                for (size_t i = 0; i < size; i++) {
                        text[i] = "&&&==%%%+014aF\0\xff;"[weir_test_random_below(&random, 18)];
                }
                struct weir__pairs *pairs = parse(text, size, max);
                CU_ASSERT_TRUE(pairs->count <= max);
                for (size_t i = 0; i < pairs->count; i++) {
                        CU_ASSERT_TRUE(strlen(pairs->pairs[i].name) + strlen(pairs->pairs[i].value) <= size);
                }
                free(pairs);
        }
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(pairs_stand_between_ampersands),
                WEIR_TEST(a_semicolon_does_not_divide),
                WEIR_TEST(the_first_equals_sign_ends_the_name),
                WEIR_TEST(a_plus_is_a_space_and_an_escaped_one_a_plus),
                WEIR_TEST(escapes_are_decoded_in_both_cases_and_once),
                WEIR_TEST(escapes_that_are_none_stay_as_they_are),
                WEIR_TEST(a_pair_with_a_nul_is_left_out),
                WEIR_TEST(the_first_of_a_name_is_its_value),
                WEIR_TEST(no_pairs_have_no_value),
                WEIR_TEST(more_than_the_limit_is_said_and_not_read),
                WEIR_TEST(memory_that_cannot_be_is_refused),
                WEIR_TEST(the_type_of_a_form_may_have_parameters),
                WEIR_TEST(whatever_is_encoded_is_decoded_to_what_it_was),
                WEIR_TEST(any_bytes_are_read_without_harm),
        };

        return weir_test_main("query", tests, sizeof tests / sizeof *tests);
}
