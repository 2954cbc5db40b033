/* test/fuzz/router_fuzz.c: patterns are added and paths asked for, and simple_routes.h is asked, too.
 *
 * Each line of an input is "+METHODS PATTERN", which adds, or "METHOD PATH", which asks.  What must hold:
 *
 * - The pattern is taken or refused as a second reader of patterns says.
 * - The one that is found, its parameters, and else the methods that the path would have, are those that the matcher finds which
 *   tries all patterns. */
#include "protocol/route/routes.h"
#include "protocol/route/target.h"
#include "test/fuzz/fuzz.h"
#include "test/simple_routes.h"

#define ROUTES  48 /* more cost time and find no more */
#define METHODS 60 /* that a text may hold: a router has place for 64 */

struct table {
        struct weir__routes *routes;
        struct simple_route all[ROUTES]; /* one for each method of a pattern */
        size_t number[ROUTES];           /* of the call that added it */
        char *methods[ROUTES];
        size_t count, methods_seen;
};

/* -- a second reader -- */

/* Decodes a piece.  Returns false when there is not room for it, which is nobody's fault. */
static bool
decode(struct fuzz_input text, char out[SIMPLE_ROOM])
{
        size_t size = 0;

        while (text.size > 0 && size < SIMPLE_ROOM - 1) {
                int escape = fuzz_escape(text);
                size_t taken = escape >= 0 ? 3 : 1;

                out[size++] = (char)(escape >= 0 ? escape : *text.at);
                text.at += taken;
                text.size -= taken;
        }
        out[size] = '\0';
        return text.size == 0;
}

/* Whether all bytes may be in a pattern, and each percent sign begins an escape that may be in a path. */
static bool
is_text(struct fuzz_input text)
{
        for (; text.size > 0; text.at++, text.size--) {
                unsigned char byte = (unsigned char)*text.at;

                if (byte < 32 || byte == 127 || byte == '?' || byte == '#' || (byte == '%' && fuzz_escape(text) <= 0)) {
                        return false;
                }
        }
        return true;
}

static bool
is_name(struct fuzz_input name)
{
        for (size_t i = 0; i < name.size; i++) {
                char byte = name.at[i];

                if (!fuzz_is_token_byte(byte) || strchr("!#$%&'*+-.^`|~", byte) || (i == 0 && byte <= '9')) {
                        return false;
                }
        }
        return name.size > 0;
}

enum reading { TAKEN, REFUSED, TOO_LARGE };

static enum reading
read_parameter(struct fuzz_input text, bool is_last, struct simple_route *route)
{
        struct simple_piece *piece = &route->piece[route->pieces];

        if (text.size < 2 || text.at[text.size - 1] != '}') {
                return REFUSED;
        }
        text.at++;
        text.size -= 2;
        piece->kind = SIMPLE_PARAMETER;
        if (text.size > 3 && memcmp(text.at + text.size - 3, "...", 3) == 0) {
                text.size -= 3;
                piece->kind = SIMPLE_REST;
        }
        if (!is_name(text) || (piece->kind == SIMPLE_REST && !is_last)) {
                return REFUSED;
        }
        if (!decode(text, piece->text)) {
                return TOO_LARGE;
        }
        for (unsigned i = 0; i < route->pieces; i++) {
                if (route->piece[i].kind != SIMPLE_LITERAL && strcmp(route->piece[i].text, piece->text) == 0) {
                        return REFUSED;
                }
        }
        return TAKEN;
}

static enum reading
read_literal(struct fuzz_input text, bool is_last, struct simple_piece *piece)
{
        if (text.size == 0) {
                return is_last ? TAKEN : REFUSED;
        }
        if (memchr(text.at, '{', text.size) || memchr(text.at, '}', text.size)) {
                return REFUSED;
        }
        return decode(text, piece->text) ? TAKEN : TOO_LARGE;
}

/* The pattern "*" has no piece, as has the path: all others have one at least. */
static enum reading
read_pattern(struct fuzz_input text, struct simple_route *route)
{
        enum reading result = TAKEN;

        *route = (struct simple_route){.pieces = 0};
        if (fuzz_is(text, "*")) {
                return TAKEN;
        }
        if (fuzz_take_byte(&text) != '/' || !is_text(text)) {
                return REFUSED;
        }
        for (bool is_last = false; !is_last && result == TAKEN; route->pieces++) {
                is_last = text.size == 0 || !memchr(text.at, '/', text.size);
                struct fuzz_input part = fuzz_take_until(&text, '/');

                if (route->pieces == 64) {
                        return REFUSED;
                }
                route->piece[route->pieces].kind = SIMPLE_LITERAL;
                if (part.size > 0 && *part.at == '{') {
                        result = read_parameter(part, is_last, route);
                } else {
                        result = read_literal(part, is_last, &route->piece[route->pieces]);
                }
        }
        return result;
}

static bool
is_method(struct fuzz_input text)
{
        for (size_t i = 0; i < text.size; i++) {
                if (text.at[i] == '*' || (text.at[i] >= 'a' && text.at[i] <= 'z')) {
                        return false;
                }
        }
        return fuzz_is_token(text);
}

static bool
are_methods(struct fuzz_input list)
{
        bool more = true;

        if (fuzz_is(list, "*")) {
                return true;
        }
        while (more) {
                more = list.size > 0 && memchr(list.at, ',', list.size);
                if (!is_method(fuzz_trim(fuzz_take_until(&list, ',')))) {
                        return false;
                }
        }
        return true;
}

/* -- adding -- */

/* Adds a route for one method, unless this very call did before.  Returns false when an earlier one did. */
static bool
add_simple(struct table *table, struct simple_route *route, size_t number, struct fuzz_input method)
{
        char *text = fuzz_string(method);

        route->method = text;
        for (size_t i = 0; i < table->count; i++) {
                if (simple_is_same(&table->all[i], route)) {
                        free(text);
                        return table->number[i] == number;
                }
        }
        table->methods[table->count] = text;
        table->number[table->count] = number;
        table->all[table->count++] = *route;
        return true;
}

static bool
add_all_simple(struct table *table, struct simple_route *route, size_t number, struct fuzz_input methods)
{
        size_t before = table->count;
        bool added = true;

        while (added && methods.size > 0) {
                added = add_simple(table, route, number, fuzz_trim(fuzz_take_until(&methods, ',')));
        }
        while (!added && table->count > before) {
                free(table->methods[--table->count]);
        }
        return added;
}

static size_t
count_members(struct fuzz_input list)
{
        size_t count = 1;

        for (size_t i = 0; i < list.size; i++) {
                count += list.at[i] == ',';
        }
        return count;
}

static void
add(struct table *table, struct fuzz_input methods, struct fuzz_input pattern, size_t number)
{
        static struct simple_route route;
        char *methods_text, *pattern_text;
        enum reading reading;
        int expected;

        /* Not more than a string can hold, nor than there is room for here. */
        methods.size = strnlen(methods.at, methods.size);
        pattern.size = strnlen(pattern.at, pattern.size);
        if ((reading = read_pattern(pattern, &route)) == TOO_LARGE || table->count + count_members(methods) > ROUTES ||
            (table->methods_seen += count_members(methods)) > METHODS) {
                return;
        }
        expected = reading == REFUSED || !are_methods(methods)      ? -EINVAL
                   : add_all_simple(table, &route, number, methods) ? 0
                                                                    : -EEXIST;
        methods_text = fuzz_string(methods);
        pattern_text = fuzz_string(pattern);
        FUZZ_CHECK(weir__routes_add(table->routes, methods_text, pattern_text, number) == expected);
        free(methods_text);
        free(pattern_text);
}

/* -- asking -- */

/* Divides a path, which the library has found to be one.  Returns false when there is not room for it. */
static bool
read_path(struct fuzz_input text, struct simple_path *path)
{
        path->pieces = 0;
        if (fuzz_is(text, "*")) {
                return true;
        }
        fuzz_take_byte(&text);
        for (bool more = true; more; path->pieces++) {
                more = text.size > 0 && memchr(text.at, '/', text.size);
                if (path->pieces == SIMPLE_PIECES || !decode(fuzz_take_until(&text, '/'), path->piece[path->pieces])) {
                        return false;
                }
        }
        return true;
}

static void
check_match(const struct simple_route *route, const struct weir__pairs *match, const struct simple_path *path)
{
        static char rest[SIMPLE_PIECES * (SIMPLE_ROOM + 1)];
        size_t count = 0;

        for (unsigned i = 0; i < route->pieces; i++) {
                if (route->piece[i].kind != SIMPLE_LITERAL) {
                        const char *value = weir__pairs_value(match, route->piece[i].text);

                        FUZZ_CHECK(match && count < match->count);
                        FUZZ_CHECK(strcmp(match->pairs[count++].name, route->piece[i].text) == 0);
                        FUZZ_CHECK(value && strcmp(value, simple_value(route, path, i, rest)) == 0);
                }
        }
        FUZZ_CHECK(match ? match->count == count && count > 0 : count == 0);
}

/* Whether a list between commas and spaces has the word; once and no more. */
static bool
has_once(const char *list, const char *word)
{
        unsigned count = 0;

        for (; *list; list += strspn(list, ", ")) {
                size_t size = strcspn(list, ",");

                count += size == strlen(word) && memcmp(list, word, size) == 0;
                list += size;
        }
        FUZZ_CHECK(count <= 1);
        return count == 1;
}

/* The Allow of a path that is known with other methods names those and no others. */
static void
check_allow(const struct table *table, const struct simple_path *path, uint64_t allowed)
{
        char *allow = weir__routes_allow(table->routes, allowed), rank[SIMPLE_PIECES + 3];
        bool has_get = false, has_head = false, has_options = false;
        size_t expected = 0, count = 1;

        FUZZ_CHECK(allow);
        for (size_t i = 0; i < table->count; i++) {
                const char *method = table->all[i].method;
                bool is_new = simple_match(&table->all[i], path, rank);

                FUZZ_CHECK(!is_new || has_once(allow, method));
                for (size_t k = 0; k < i; k++) {
                        is_new &= strcmp(table->all[k].method, method) != 0 || !simple_match(&table->all[k], path, rank);
                }
                expected += is_new;
                has_get |= is_new && strcmp(method, "GET") == 0;
                has_head |= is_new && strcmp(method, "HEAD") == 0;
                has_options |= is_new && strcmp(method, "OPTIONS") == 0;
        }
        for (const char *comma = allow; (comma = strchr(comma, ',')); comma++) {
                count++;
        }
        FUZZ_CHECK(has_once(allow, "OPTIONS") && has_once(allow, "HEAD") == (has_get || has_head));
        FUZZ_CHECK(count == expected + !has_options + (has_get && !has_head));
        free(allow);
}

static void
ask(const struct table *table, struct fuzz_input method, struct fuzz_input text)
{
        static struct simple_path path;
        struct weir__route_found found = {.parameters = NULL};
        struct weir__target target;
        char *copy, *method_text;
        int expected, actual;

        text.size = strnlen(text.at, text.size);
        if (text.size == 0 || weir__target_read(&target, "OPTIONS", 7, text.at, text.size) != 0 || target.authority ||
            !read_path((struct fuzz_input){target.path, target.path_size}, &path)) {
                return;
        }
        copy = fuzz_copy(target.path, target.path_size);
        method_text = fuzz_string(method);
        expected = simple_find(table->all, table->count, method_text, &path);
        actual = weir__routes_match(table->routes, method_text, copy, target.path_size, &found);
        if (expected >= 0) {
                FUZZ_CHECK(actual == 0 && found.number == table->number[expected]);
                check_match(&table->all[expected], found.parameters, &path);
        } else {
                FUZZ_CHECK(actual == expected);
        }
        if (actual == -EOPNOTSUPP) {
                check_allow(table, &path, found.allowed);
        }
        free(copy);
        free(method_text);
        free(actual == 0 ? found.parameters : NULL);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        static struct table table;
        struct fuzz_input input = fuzz_input(data, size);

        table.routes = weir__routes_new();
        table.count = table.methods_seen = 0;
        FUZZ_CHECK(table.routes);
        for (size_t number = 0; input.size > 0; number++) {
                struct fuzz_input line = fuzz_take_line(&input);
                bool adds = line.size > 0 && *line.at == '+';

                if (adds) {
                        fuzz_take_byte(&line);
                }
                struct fuzz_input methods = fuzz_take_until(&line, ' ');
                if (adds) {
                        add(&table, methods, line, number);
                } else {
                        ask(&table, methods, line);
                }
        }
        while (table.count > 0) {
                free(table.methods[--table.count]);
        }
        weir__routes_free(table.routes);
        return 0;
}
