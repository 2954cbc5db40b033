/* database/redis/reply.c: the bytes of replies, RESP2 and RESP3.
 *
 *     element:  a type byte, a line, CR LF; for bytes of a length these, and CR LF; for an aggregate its elements
 *
 * The end of a reply needs no stack: it is where as many elements have ended as are announced.  The tree needs one, of a bounded
 * depth.  Elements of an aggregate lie side by side.  Texts lie in a copy of the reply, each followed by a NUL where its CR
 * was. */
#include "database/redis/reply.h"

#include <errno.h>
#include <locale.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define LEAST_ELEMENT 3  /* bytes: "_" CR LF */
#define NUMBER_MOST   22 /* bytes of a line that is a length */
#define STRING_LEAST  8  /* bytes of a string that is read the short way: so many of its length are there */

/* -- lines -- */

/* Reads a number as a server writes it: digits without leading zeros.  Returns false for anything else. */
static bool
read_number(const char *text, size_t size, int64_t *out)
{
        bool is_negative = size && *text == '-';
        uint64_t value = 0;
        size_t at = is_negative;

        if (at == size || size - at > 19 || (text[at] == '0' && size > 1))
                return false;
        for (; at < size; at++) {
                unsigned digit = (unsigned char)text[at] - '0';

                if (digit > 9)
                        return false;
                value = value * 10 + digit;
        }
        if (value > (uint64_t)INT64_MAX + is_negative)
                return false;
        *out = is_negative ? (int64_t)(0 - value) : (int64_t)value;
        return true;
}

/* The CR of the first CR LF in [from, size), or NULL. */
static const char *
find_line_end(const char *data, size_t from, size_t size)
{
        while (from + 1 < size) {
                const char *found = memchr(data + from, '\r', size - from - 1);

                if (!found || found[1] == '\n')
                        return found;
                from = (size_t)(found - data) + 1;
        }
        return NULL;
}

static inline bool
is_line_end(const char *at)
{
        return memcmp(at, "\r\n", 2) == 0;
}

enum shape { NO_SHAPE, LINE, BYTES, ITEMS, PAIRS, ATTRIBUTES };

static enum shape
shape_of(char type)
{
        switch (type) {
        case '+':
        case '-':
        case ':':
        case '_':
        case ',':
        case '#':
        case '(': return LINE;
        case '$':
        case '=':
        case '!': return BYTES;
        case '*':
        case '~':
        case '>': return ITEMS;
        case '%': return PAIRS;
        case '|': return ATTRIBUTES;
        default: return NO_SHAPE;
        }
}

/* -- the most common replies -- */

/* A status such as "OK". */
static size_t
read_status(const char *data, size_t size)
{
        const char *end = memchr(data, '\r', size);

        return !end || end + 1 == data + size || end[1] != '\n' ? 0 : (size_t)(end - data) + 2;
}

/* If the bytes begin with a string of a length that is whole: its size.  0: they do not, or it must be looked at closely. */
static inline size_t
read_string(const char *data, size_t size)
{
        const char *at = data + 1;
        size_t count = 0;

        if (*data != '$' || size < STRING_LEAST)
                return 0;
        for (unsigned digit; (digit = (unsigned char)*at - '0') <= 9 && at < data + STRING_LEAST - 2; at++)
                count = count * 10 + digit;
        size_t whole = (size_t)(at - data) + 4 + count;
        if (at == data + 1 || (data[1] == '0' && at > data + 2) || whole > size)
                return 0;
        return is_line_end(at) && is_line_end(data + whole - 2) ? whole : 0;
}

/* -- where a reply ends -- */

/* What one element adds.  `*behind`: where the next one begins, which may be behind `size`.  `*more`: how many elements it
 * announces.  Result: 0; 1: its line is not whole; -EBADMSG, -EMSGSIZE. */
static int
read_element(const char *data, size_t at, size_t scanned, size_t size, size_t most, size_t *behind, uint64_t *more)
{
        enum shape shape = shape_of(data[at]);
        const char *end;
        int64_t count;

        *more = 0;
        if (shape == NO_SHAPE)
                return -EBADMSG;
        end = find_line_end(data, scanned, size);
        if (!end)
                return shape != LINE && size - at > NUMBER_MOST + 2 ? -EBADMSG : 1;
        *behind = (size_t)(end - data) + 2;
        if (shape == LINE)
                return 0;
        const char *digits = data + at + 1;
        if (!read_number(digits, (size_t)(end - digits), &count))
                return -EBADMSG;
        if (count < 0) /* null, of RESP2 */
                return count == -1 && (data[at] == '$' || data[at] == '*') ? 0 : -EBADMSG;
        if ((uint64_t)count > most)
                return -EMSGSIZE;
        if (shape == BYTES) {
                *behind += (size_t)count + 2;
                return *behind <= size && !is_line_end(data + *behind - 2) ? -EBADMSG : 0;
        }
        *more = shape == ITEMS ? (uint64_t)count : 2 * (uint64_t)count + (shape == ATTRIBUTES);
        return 0;
}

/* words: where the next element begins; how many are to come; up to where there is no end of its line; whether it has begun. */
static __attribute__((noinline)) ssize_t
find_end(const char *data, size_t size, uint64_t words[4], size_t most, unsigned replies)
{
        size_t at = (size_t)words[0], behind = 0, scanned = (size_t)words[2];
        uint64_t left = words[3] ? words[1] : replies, more = 0;
        int outcome = 0;

        while (left && at < size) {
                outcome = read_element(data, at, scanned > at ? scanned : at, size, most, &behind, &more);
                if (outcome < 0)
                        return outcome;
                if (outcome || behind > size)
                        break;
                left += more - 1;
                at = behind;
                if (left > most || at + left * LEAST_ELEMENT > most)
                        return -EMSGSIZE;
        }
        if (!left)
                return (ssize_t)at;
        words[0] = at;
        words[1] = left;
        words[2] = outcome && size > at + 1 ? size - 1 : at; /* the last byte may be a CR */
        words[3] = 1;
        size_t least = at < size && !outcome ? behind + (left + more - 1) * LEAST_ELEMENT : at + left * LEAST_ELEMENT;
        if (least > most)
                return -EMSGSIZE;
        return least > size ? (ssize_t)least : 0;
}

ssize_t
weir__redis_frames(const char *data, size_t size, uint64_t words[4], size_t most, unsigned replies)
{
        return find_end(data, size, words, most, replies);
}

/* Apart, so that the short way saves no registers. */
static __attribute__((noinline)) ssize_t
frame_any(const char *data, size_t size, uint64_t words[4], size_t most)
{
        size_t whole = !words[3] && *data == '+' ? read_status(data, size) : 0;

        return whole && whole <= most ? (ssize_t)whole : find_end(data, size, words, most, 1);
}

ssize_t
weir__redis_frame(const char *data, size_t size, uint64_t words[4], size_t most)
{
        size_t whole = words[3] ? 0 : read_string(data, size);

        return whole && whole <= most ? (ssize_t)whole : frame_any(data, size, words, most);
}

/* -- the tree -- */

/* What is behind an element that is whole, and how many elements it announces. */
static uint64_t
pass(const char *data, size_t *at, size_t size)
{
        uint64_t more;

        (void)read_element(data, *at, *at, size, SIZE_MAX / 4, at, &more);
        return more;
}

/* How many nodes the tree has: attributes are no part of it. */
static size_t
count_nodes(const char *data, size_t size)
{
        size_t at = 0, count = 0;
        uint64_t skipped = 0;

        while (at < size) {
                bool is_attribute = data[at] == '|';
                uint64_t more = pass(data, &at, size);

                if (is_attribute || skipped)
                        skipped += more - 1;
                else
                        count++;
        }
        return count;
}

struct level {
        struct weir_redis_reply *next; /* to be filled */
        size_t left;
};

struct builder {
        char *text; /* the copy */
        size_t at, size;
        struct weir_redis_reply *free; /* nodes */
        unsigned depth;
        struct level levels[WEIR__REDIS_DEPTH + 1];
};

static void
skip_attributes(struct builder *build)
{
        while (build->text[build->at] == '|') {
                uint64_t left = pass(build->text, &build->at, build->size) - 1;

                while (left)
                        left += pass(build->text, &build->at, build->size) - 1;
        }
}

static locale_t plain_locale;

static void
make_locale(void)
{
        plain_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
}

static bool
read_double(const char *text, size_t size, double *out)
{
        static pthread_once_t once = PTHREAD_ONCE_INIT;
        char *end;

        pthread_once(&once, make_locale);
        if (!size || strspn(text, "0123456789+-.eEinfaINFA") != size)
                return false;
        *out = plain_locale ? strtod_l(text, &end, plain_locale) : strtod(text, &end);
        return end == text + size;
}

static bool
is_big_number(const char *text, size_t size)
{
        size_t at = size && (*text == '-' || *text == '+');

        if (at == size)
                return false;
        while (at < size && text[at] >= '0' && text[at] <= '9')
                at++;
        return at == size;
}

static void
set_text(struct weir_redis_reply *node, enum weir_redis_type type, const char *text, size_t size)
{
        node->type = type;
        node->text = text;
        node->size = size;
}

/* Result: 0 or -EBADMSG. */
static int
fill_line(struct weir_redis_reply *node, char type, char *text, size_t size)
{
        text[size] = '\0';
        switch (type) {
        case '+': set_text(node, WEIR_REDIS_STRING, text, size); return 0;
        case '-': set_text(node, WEIR_REDIS_ERROR, text, size); return 0;
        case ':': node->type = WEIR_REDIS_INTEGER; return read_number(text, size, &node->integer) ? 0 : -EBADMSG;
        case ',': node->type = WEIR_REDIS_DOUBLE; return read_double(text, size, &node->number) ? 0 : -EBADMSG;
        case '#':
                node->type = WEIR_REDIS_BOOLEAN;
                node->integer = *text == 't';
                return size == 1 && (*text == 't' || *text == 'f') ? 0 : -EBADMSG;
        case '(': set_text(node, WEIR_REDIS_BIG_NUMBER, text, size); return is_big_number(text, size) ? 0 : -EBADMSG;
        default: node->type = WEIR_REDIS_NULL; return size ? -EBADMSG : 0;
        }
}

static int
fill_bytes(struct weir_redis_reply *node, char type, char *text, size_t size)
{
        text[size] = '\0';
        if (type != '=') {
                set_text(node, type == '!' ? WEIR_REDIS_ERROR : WEIR_REDIS_STRING, text, size);
                return 0;
        }
        if (size < 4 || text[3] != ':')
                return -EBADMSG;
        set_text(node, WEIR_REDIS_VERBATIM, text + 4, size - 4);
        return 0;
}

static int
fill_items(struct builder *build, struct weir_redis_reply *node, char type, size_t count)
{
        node->type = type == '*'   ? WEIR_REDIS_ARRAY
                     : type == '~' ? WEIR_REDIS_SET
                     : type == '>' ? WEIR_REDIS_PUSH
                                   : WEIR_REDIS_MAP;
        node->size = count;
        node->items = build->free;
        build->free += count;
        if (!count)
                return 0;
        if (build->depth == WEIR__REDIS_DEPTH)
                return -E2BIG;
        build->levels[++build->depth] = (struct level){(struct weir_redis_reply *)node->items, count};
        return 0;
}

static int
fill(struct builder *build, struct weir_redis_reply *node)
{
        skip_attributes(build);
        char *element = build->text + build->at, type = *element;
        enum shape shape = shape_of(type);
        char *end = (char *)find_line_end(build->text, build->at, build->size);
        int64_t count = 0;

        node->size = 0;
        build->at = (size_t)(end - build->text) + 2;
        if (shape == LINE)
                return fill_line(node, type, element + 1, (size_t)(end - element) - 1);
        (void)read_number(element + 1, (size_t)(end - element) - 1, &count);
        if (count < 0) {
                node->type = WEIR_REDIS_NULL;
                return 0;
        }
        if (shape != BYTES)
                return fill_items(build, node, type, (size_t)count * (shape == PAIRS ? 2 : 1));
        build->at += (size_t)count + 2;
        return fill_bytes(node, type, end + 2, (size_t)count);
}

static int
fill_all(struct builder *build, struct weir_redis_reply *root)
{
        int failed = 0;

        build->levels[0] = (struct level){root, 1};
        for (;;) {
                struct level *level = &build->levels[build->depth];

                if (!level->left) {
                        if (!build->depth--)
                                return 0;
                        continue;
                }
                level->left--;
                failed = fill(build, level->next++);
                if (failed)
                        return failed;
        }
}

static __attribute__((noinline)) int
build_tree(const char *data, size_t size, void *room, size_t room_size, struct weir__redis_tree *tree)
{
        size_t nodes = shape_of(*data) < ITEMS ? 1 : count_nodes(data, size),
               need = nodes * sizeof(struct weir_redis_reply) + size;
        bool fits = need <= room_size;
        struct builder build; /* its levels are not filled in: they are large */

        build.size = size;
        build.at = 0;
        build.depth = 0;
        tree->memory = fits ? NULL : malloc(need);
        tree->root = fits ? room : tree->memory;
        if (!tree->root)
                return -ENOMEM;
        build.free = tree->root + 1;
        build.text = (char *)(tree->root + nodes);
        memcpy(build.text, data, size);
        int failed = fill_all(&build, tree->root);
        if (failed) {
                free(tree->memory);
                *tree = (struct weir__redis_tree){0};
        }
        return failed;
}

int
weir__redis_build(const char *data, size_t size, void *room, size_t room_size, struct weir__redis_tree *tree)
{
        size_t at = 1;

        if ((*data != '$' && *data != '+') || data[1] == '-')
                return build_tree(data, size, room, room_size, tree);
        if (*data == '$') /* behind the line with its size, which was looked at where its end was found */
                while (data[at++] != '\n')
                        ;
        size_t text_size = size - at - 2;
        if (sizeof(struct weir_redis_reply) + text_size >= room_size)
                return build_tree(data, size, room, room_size, tree);
        struct weir_redis_reply *root = room;
        char *text = (char *)(root + 1);
        memcpy(text, data + at, text_size);
        text[text_size] = '\0';
        set_text(root, WEIR_REDIS_STRING, text, text_size);
        tree->root = root;
        tree->memory = NULL;
        return 0;
}
