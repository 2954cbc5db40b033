/* test/routes_test.c: which pattern a path is meant by, and with which parameters; against a matcher that knows no tree, too.
 *
 * The linker puts the functions below in front of the allocator's (test/CMakeLists.txt), so that each allocation can be counted
 * and refused. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "protocol/route/routes.h"
#include "test/simple_routes.h"
#include "test/support.h"

#define NO_LIMIT (-1)

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *block, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *block, size_t size);

/* Of this thread: another is the one that gives a suite up when its time is over. */
static _Thread_local long allowed = NO_LIMIT; /* allocations until one is refused */
static _Thread_local long allocations;

static bool
refuse(void)
{
        allocations++;
        return allowed != NO_LIMIT && allowed-- == 0;
}

void *
__wrap_malloc(size_t size)
{
        return refuse() ? NULL : __real_malloc(size);
}

void *
__wrap_calloc(size_t count, size_t size)
{
        return refuse() ? NULL : __real_calloc(count, size);
}

void *
__wrap_realloc(void *block, size_t size)
{
        return refuse() ? NULL : __real_realloc(block, size);
}

/* -- fixture -- */

static struct weir__routes *routes;
static size_t added;

static void
begin(void)
{
        routes = weir__routes_new();
        CU_ASSERT_PTR_NOT_NULL_FATAL(routes);
        added = 0;
}

static void
end(void)
{
        weir__routes_free(routes);
}

/* Adds patterns for GET, numbered from 0 in their order. */
#define ADD(...) add_all((const char *[]){__VA_ARGS__, NULL})

static void
add_all(const char *const *patterns)
{
        for (; *patterns; patterns++) {
                CU_ASSERT_EQUAL(weir__routes_add(routes, "GET", *patterns, added++), 0);
        }
}

/* Matches a copy of the path with nothing behind it.  Result: the number; a negative errno. */
static int
find(const char *method, const char *path, struct weir__route_found *found)
{
        size_t size = strlen(path);
        char *copy = __real_malloc(size);
        int r;

        memcpy(copy, path, size);
        r = weir__routes_match(routes, method, copy, size, found);
        free(copy);
        return r ? r : (int)found->number;
}

static int
number_of(const char *method, const char *path)
{
        struct weir__route_found found = {.parameters = NULL};
        int r = find(method, path, &found);

        free(found.parameters);
        return r;
}

static int
get(const char *path)
{
        return number_of("GET", path);
}

/* Returns the parameters found, as "name=value name=value"; "" without any. */
static const char *
parameters_of(const char *path)
{
        static char text[256];
        struct weir__route_found found = {.parameters = NULL};
        size_t at = 0;

        text[0] = '\0';
        find("GET", path, &found);
        for (size_t i = 0; found.parameters && i < found.parameters->count; i++) {
                const struct weir__pair *parameter = &found.parameters->pairs[i];

                at += (size_t)snprintf(text + at, sizeof text - at, "%s%s=%s", i ? " " : "", parameter->name, parameter->value);
                CU_ASSERT_PTR_EQUAL(weir__pairs_value(found.parameters, parameter->name), parameter->value);
        }
        CU_ASSERT_PTR_NULL(weir__pairs_value(found.parameters, "nobody"));
        free(found.parameters);
        return text;
}

#define ASSERT_ADD(methods, pattern, expected) CU_ASSERT_EQUAL(weir__routes_add(routes, methods, pattern, added), expected)

/* -- patterns -- */

static void
literals_match_themselves_only(void)
{
        begin();
        ADD("/", "/a", "/a/b", "/b");
        CU_ASSERT_EQUAL(get("/"), 0);
        CU_ASSERT_EQUAL(get("/a"), 1);
        CU_ASSERT_EQUAL(get("/a/b"), 2);
        CU_ASSERT_EQUAL(get("/b"), 3);
        CU_ASSERT_EQUAL(get("/b/a"), -ENOENT);
        CU_ASSERT_EQUAL(get("/aa"), -ENOENT);
        CU_ASSERT_EQUAL(get("/a/b/c"), -ENOENT);
        CU_ASSERT_EQUAL(get("*"), -ENOENT);
        end();
}

static void
case_matters(void)
{
        begin();
        ADD("/a");
        CU_ASSERT_EQUAL(get("/A"), -ENOENT);
        CU_ASSERT_EQUAL(number_of("get", "/a"), -EOPNOTSUPP);
        end();
}

static void
a_slash_at_the_end_is_another_path(void)
{
        begin();
        ADD("/a", "/b/", "/c", "/c/", "/{x}/d/");
        CU_ASSERT_EQUAL(get("/a/"), -ENOENT);
        CU_ASSERT_EQUAL(get("/b"), -ENOENT);
        CU_ASSERT_EQUAL(get("/b/"), 1);
        CU_ASSERT_EQUAL(get("/c"), 2);
        CU_ASSERT_EQUAL(get("/c/"), 3);
        CU_ASSERT_EQUAL(get("/q/d"), -ENOENT);
        CU_ASSERT_EQUAL(get("/q/d/"), 4);
        end();
}

static void
an_empty_segment_is_neither_skipped_nor_a_parameter(void)
{
        begin();
        ADD("/a/b", "/a/{x}/b", "/{x}");
        CU_ASSERT_EQUAL(get("/a//b"), -ENOENT);
        CU_ASSERT_EQUAL(get("//a/b"), -ENOENT);
        CU_ASSERT_EQUAL(get("/"), -ENOENT);
        ADD("/a/{rest...}");
        CU_ASSERT_EQUAL(get("/a//b"), 3);
        CU_ASSERT_STRING_EQUAL(parameters_of("/a//b"), "rest=/b");
        end();
}

static void
dots_are_segments_like_others(void)
{
        begin();
        ADD("/b", "/a/{x}/b", "/a/b");
        CU_ASSERT_EQUAL(get("/a/../b"), 1);
        CU_ASSERT_STRING_EQUAL(parameters_of("/a/../b"), "x=..");
        CU_ASSERT_EQUAL(get("/./b"), -ENOENT);
        end();
}

static void
a_parameter_is_one_segment_that_is_not_empty(void)
{
        begin();
        ADD("/users/{id}", "/users/{id}/posts/{post}");
        CU_ASSERT_STRING_EQUAL(parameters_of("/users/7"), "id=7");
        CU_ASSERT_STRING_EQUAL(parameters_of("/users/anna/posts/9"), "id=anna post=9");
        CU_ASSERT_EQUAL(get("/users"), -ENOENT);
        CU_ASSERT_EQUAL(get("/users/"), -ENOENT);
        CU_ASSERT_EQUAL(get("/users/7/"), -ENOENT);
        CU_ASSERT_EQUAL(get("/users//posts/9"), -ENOENT);
        end();
}

static void
a_prefix_takes_the_rest_which_may_be_empty(void)
{
        begin();
        ADD("/static/{path...}");
        CU_ASSERT_STRING_EQUAL(parameters_of("/static/a/b.css"), "path=a/b.css");
        CU_ASSERT_STRING_EQUAL(parameters_of("/static/"), "path=");
        CU_ASSERT_STRING_EQUAL(parameters_of("/static//"), "path=/");
        CU_ASSERT_EQUAL(get("/static/"), 0);
        CU_ASSERT_EQUAL(get("/static"), -ENOENT);
        CU_ASSERT_EQUAL(get("/statica"), -ENOENT);
        ADD("/{all...}");
        CU_ASSERT_EQUAL(get("/static"), 1);
        CU_ASSERT_EQUAL(get("/"), 1);
        CU_ASSERT_EQUAL(get("*"), -ENOENT);
        end();
}

static void
a_path_is_divided_before_it_is_decoded(void)
{
        begin();
        ADD("/f/{x}", "/f/{x}/{y}", "/g/{rest...}", "/h/%2F", "/h/{x}/");
        CU_ASSERT_STRING_EQUAL(parameters_of("/f/a%2Fb"), "x=a/b");
        CU_ASSERT_STRING_EQUAL(parameters_of("/f/a%2fb/%63"), "x=a/b y=c");
        CU_ASSERT_STRING_EQUAL(parameters_of("/g/a%2Fb/c%20d%25"), "rest=a/b/c d%");
        CU_ASSERT_EQUAL(get("/h/%2f"), 3);
        CU_ASSERT_EQUAL(get("/h//"), -ENOENT);
        end();
}

static void
escapes_are_decoded_in_literals_of_both_sides(void)
{
        begin();
        ADD("/a b", "/%61%62", "/100%25", "/%7Bx%7D",
            "/stra\xc3\x9f"
            "e",
            "/%2a");
        CU_ASSERT_EQUAL(get("/a%20b"), 0);
        CU_ASSERT_EQUAL(get("/ab"), 1);
        CU_ASSERT_EQUAL(get("/%61b"), 1);
        CU_ASSERT_EQUAL(get("/100%25"), 2);
        CU_ASSERT_EQUAL(get("/{x}"), 3);
        CU_ASSERT_EQUAL(get("/%7bx%7d"), 3);
        CU_ASSERT_EQUAL(get("/stra%C3%9fe"), 4);
        CU_ASSERT_EQUAL(get("/*"), 5);
        CU_ASSERT_EQUAL(get("/x"), -ENOENT);
        ASSERT_ADD("GET", "/ab", -EEXIST);
        end();
}

static void
bad_patterns_are_refused(void)
{
        static const char *const bad[] = {
                "",         "a",           "a/b",  "**",     "/a//b",  "//",      "//a",      "/a?b",     "/a#b",
                "/a\nb",    "/a\x7f",      "/%",   "/%4",    "/%4g",   "/%00",    "/{",       "/}",       "/{}",
                "/{...}",   "/{x",         "/x}",  "/a{x}",  "/{x}a",  "/{x}{y}", "/{{x}}",   "/{x...}/", "/{x...}/a",
                "/{x}/{x}", "/{x}/{x...}", "/{1}", "/{x-y}", "/{x y}", "/{x..}",  "/{x....}", "/{%78}",   "/{x?}",
        };

        begin();
        for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
                int r = weir__routes_add(routes, "GET", bad[i], 0);

                if (r != -EINVAL) {
                        fprintf(stderr, "%s: %d\n", bad[i], r);
                }
                CU_ASSERT_EQUAL(r, -EINVAL);
        }
        ADD("/{_x1}/{X}/{x...}", "*");
        end();
}

static void
a_pattern_has_up_to_64_segments(void)
{
        char pattern[5 * 66 + 16] = "", path[2 * 66 + 1] = "";
        struct weir__route_found found;

        begin();
        for (int i = 0; i < 64; i++) {
                sprintf(pattern + strlen(pattern), "/{%c%c}", 'a' + i / 8, 'a' + i % 8);
                strcat(path, "/v");
        }
        ADD(pattern);
        CU_ASSERT_EQUAL(find("GET", path, &found), 0);
        CU_ASSERT_EQUAL(found.parameters->count, 64);
        CU_ASSERT_STRING_EQUAL(found.parameters->pairs[63].name, "hh");
        CU_ASSERT_STRING_EQUAL(found.parameters->pairs[63].value, "v");
        free(found.parameters);
        strcat(path, "/v");
        CU_ASSERT_EQUAL(get(path), -ENOENT);
        strcpy(pattern + strlen(pattern) - 1, "...}");
        ADD(pattern);
        CU_ASSERT_EQUAL(find("GET", path, &found), 1);
        CU_ASSERT_STRING_EQUAL(found.parameters->pairs[63].value, "v/v");
        free(found.parameters);
        pattern[strlen(pattern) - 8] = '\0';
        strcat(pattern, "/hh/{x}");
        ASSERT_ADD("GET", pattern, -EINVAL);
        end();
}

/* -- methods -- */

static void
bad_methods_are_refused(void)
{
        static const char *const bad[] = {"",      ",",  "GET,", ",GET", "GET,,POST", "*,GET",
                                          "GET,*", "**", "get",  "G@T",  "GET POST",  "*X"};

        begin();
        for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
                ASSERT_ADD(bad[i], "/a", -EINVAL);
        }
        CU_ASSERT_EQUAL(get("/a"), -ENOENT);
        ASSERT_ADD(" GET ,\tM-SEARCH", "/a", 0);
        CU_ASSERT_EQUAL(number_of("M-SEARCH", "/a"), 0);
        end();
}

static void
there_may_be_64_methods(void)
{
        char name[16];

        begin();
        for (int i = 0; i < 61; i++) { /* GET, HEAD and OPTIONS are known */
                sprintf(name, "M%d", i);
                CU_ASSERT_EQUAL(weir__routes_add(routes, name, "/a", (size_t)i), 0);
        }
        ASSERT_ADD("M61", "/b", -EINVAL);
        ASSERT_ADD("OPTIONS,GET,HEAD,M60", "/b", 0);
        for (int i = 0; i < 61; i++) {
                sprintf(name, "M%d", i);
                CU_ASSERT_EQUAL(number_of(name, "/a"), i);
        }
        CU_ASSERT_EQUAL(number_of("M61", "/a"), -EOPNOTSUPP);
        CU_ASSERT_EQUAL(number_of("M", "/a"), -EOPNOTSUPP);
        end();
}

static void
of_one_pattern_the_method_comes_first_then_any(void)
{
        begin();
        ASSERT_ADD("*", "/{x}", 0);
        added = 1;
        ASSERT_ADD("GET", "/{y}", 0);
        CU_ASSERT_EQUAL(get("/a"), 1);
        CU_ASSERT_EQUAL(number_of("HEAD", "/a"), 1);
        CU_ASSERT_EQUAL(number_of("POST", "/a"), 0);
        added = 2;
        ASSERT_ADD("POST,HEAD", "/{z}", 0);
        CU_ASSERT_EQUAL(number_of("HEAD", "/a"), 2);
        CU_ASSERT_EQUAL(number_of("POST", "/a"), 2);
        CU_ASSERT_STRING_EQUAL(parameters_of("/a"), "y=a"); /* each has names of its own */
        end();
}

static void
the_method_is_part_of_the_choice(void)
{
        begin();
        ASSERT_ADD("POST", "/users/me", 0);
        added = 1;
        ASSERT_ADD("GET", "/users/{id}", 0);
        CU_ASSERT_EQUAL(get("/users/me"), 1);
        CU_ASSERT_EQUAL(number_of("POST", "/users/me"), 0);
        CU_ASSERT_EQUAL(number_of("POST", "/users/7"), -EOPNOTSUPP);
        end();
}

static void
ambiguous_routes_are_refused(void)
{
        begin();
        ADD("/a/{x}", "/a/{x...}", "/a/b");
        ASSERT_ADD("GET", "/a/{y}", -EEXIST);
        ASSERT_ADD("POST,GET", "/a/{y}", -EEXIST);
        ASSERT_ADD("GET", "/a/{y...}", -EEXIST);
        ASSERT_ADD("GET", "/a/b", -EEXIST);
        CU_ASSERT_EQUAL(number_of("POST", "/a/q"), -EOPNOTSUPP);
        ASSERT_ADD("*", "/a/b", 0);
        ASSERT_ADD("*", "/a/b", -EEXIST);
        ASSERT_ADD("POST", "/a/{y}", 0);
        end();
}

static const char *
allow_of(const char *method, const char *path)
{
        static char text[128];
        struct weir__route_found found = {.parameters = NULL};
        char *allow;

        CU_ASSERT_EQUAL(find(method, path, &found), -EOPNOTSUPP);
        allow = weir__routes_allow(routes, found.allowed);
        snprintf(text, sizeof text, "%s", allow);
        free(allow);
        return text;
}

static void
allow_has_the_methods_of_all_patterns_that_match(void)
{
        begin();
        ASSERT_ADD("POST", "/a/b", 0);
        ASSERT_ADD("GET", "/a/{x}", 0);
        ASSERT_ADD("PUT", "/{path...}", 0);
        ASSERT_ADD("PATCH", "/a/c", 0);
        CU_ASSERT_STRING_EQUAL(allow_of("DELETE", "/a/b"), "GET, HEAD, OPTIONS, POST, PUT");
        CU_ASSERT_STRING_EQUAL(allow_of("GET", "/b"), "OPTIONS, PUT");
        CU_ASSERT_STRING_EQUAL(allow_of("POST", "/a/c"), "GET, HEAD, OPTIONS, PUT, PATCH");
        end();
}

/* -- choice -- */

static void
the_most_specific_pattern_wins_in_any_order_of_adding(void)
{
        static const char *const patterns[] = {"/a/b", "/a/{x}", "/a/{x...}", "/{x}/b", "/{x}/{y}", "/{x...}"};
        static const struct {
                const char *path;
                int expected;
        } rows[] = {{"/a/b", 0}, {"/a/c", 1}, {"/a/c/d", 2}, {"/a/", 2}, {"/q/b", 3}, {"/q/c", 4}, {"/q", 5}, {"/", 5}};
        size_t order[6];

        for (int permutation = 0; permutation < 720; permutation++) {
                int left = permutation;

                begin();
                for (size_t i = 0; i < 6; i++) { /* the i-th goes to one of i + 1 places */
                        size_t place = (size_t)left % (i + 1);

                        left /= (int)(i + 1);
                        memmove(order + place + 1, order + place, (i - place) * sizeof *order);
                        order[place] = i;
                }
                for (size_t i = 0; i < 6; i++) {
                        CU_ASSERT_EQUAL(weir__routes_add(routes, "GET", patterns[order[i]], order[i]), 0);
                }
                for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
                        CU_ASSERT_EQUAL(get(rows[i].path), rows[i].expected);
                }
                end();
        }
}

static void
a_search_comes_back_from_where_nothing_is_found(void)
{
        begin();
        ADD("/a/{x}/c", "/a/b/{y}", "/{p}/b/c/d", "/a/{q...}", "/{r...}");
        CU_ASSERT_EQUAL(get("/a/b/c"), 1);
        CU_ASSERT_EQUAL(get("/a/q/c"), 0);
        CU_ASSERT_STRING_EQUAL(parameters_of("/a/q/c"), "x=q");
        CU_ASSERT_EQUAL(get("/a/b/c/d"), 3); /* a literal first segment comes before a parameter */
        CU_ASSERT_EQUAL(get("/b/b/c/d"), 2);
        CU_ASSERT_EQUAL(get("/b/b/c/e"), 4);
        CU_ASSERT_STRING_EQUAL(parameters_of("/b/b/c/e"), "r=b/b/c/e");
        end();
}

/* -- a matcher without a tree -- */

#define PIECES 6

static const char *const methods[] = {"GET", "POST", "HEAD", "*"};

static void
random_route(struct weir_test_random *random, struct simple_route *route)
{
        static const char *const pieces[] = {"a", "b", ":", ":", "a/"};

        *route = (struct simple_route){.pieces = 1 + (unsigned)weir_test_random_below(random, PIECES)};
        route->method = methods[weir_test_random_below(random, 4)];
        for (unsigned i = 0; i < route->pieces; i++) {
                const char *piece = pieces[weir_test_random_below(random, 5)];

                route->piece[i].kind = *piece == ':' ? SIMPLE_PARAMETER : SIMPLE_LITERAL;
                strcpy(route->piece[i].text, piece);
        }
        struct simple_piece *last = &route->piece[route->pieces - 1];
        switch (weir_test_random_below(random, 5)) {
        case 0: last->kind = SIMPLE_REST; break;
        case 1: *last = (struct simple_piece){.kind = SIMPLE_LITERAL}; break;
        default: break;
        }
}

/* Writes out a piece, which the pattern or the path then says in one of several ways. */
static void
append_piece(struct weir_test_random *random, char *text, const char *piece)
{
        strcat(text, "/");
        for (; *piece; piece++) {
                sprintf(text + strlen(text), *piece == '/' || weir_test_random_below(random, 4) == 0 ? "%%%02x" : "%c", *piece);
        }
}

static void
write_pattern(struct weir_test_random *random, char *text, const struct simple_route *route)
{
        *text = '\0';
        for (unsigned i = 0; i < route->pieces; i++) {
                if (route->piece[i].kind == SIMPLE_LITERAL) {
                        append_piece(random, text, route->piece[i].text);
                } else {
                        sprintf(text + strlen(text), "/{p%u%s}", i, route->piece[i].kind == SIMPLE_REST ? "..." : "");
                }
        }
}

/* The values that the tree gives are the pieces of the path. */
static void
check_values(const struct simple_route *route, const struct weir__pairs *match, const struct simple_path *path)
{
        char name[16], rest[SIMPLE_PIECES * (SIMPLE_ROOM + 1)];

        for (unsigned i = 0; i < route->pieces; i++) {
                bool is_literal = route->piece[i].kind == SIMPLE_LITERAL;

                sprintf(name, "p%u", i);
                const char *value = weir__pairs_value(match, name);
                CU_ASSERT_EQUAL(value == NULL, is_literal);
                CU_ASSERT(!value || is_literal || strcmp(value, simple_value(route, path, i, rest)) == 0);
        }
}

static void
ask_at_random(struct weir_test_random *random, const struct simple_route *all, size_t count)
{
        static const char *const pieces[] = {"a", "b", "", "a/", "zz"};
        char text[(PIECES + 1) * 12] = "";
        struct simple_path path = {.pieces = 1 + (unsigned)weir_test_random_below(random, PIECES + 1)};
        const char *method = methods[weir_test_random_below(random, 3)];
        struct weir__route_found found = {.parameters = NULL};
        int expected, actual;

        for (unsigned i = 0; i < path.pieces; i++) {
                strcpy(path.piece[i],
                       pieces[weir_test_random_below(random, 12) % 10 / 3 + (weir_test_random_below(random, 8) == 0)]);
                append_piece(random, text, path.piece[i]);
        }
        expected = simple_find(all, count, method, &path);
        actual = find(method, text, &found);
        CU_ASSERT_EQUAL(actual, expected);
        if (actual != expected) {
                fprintf(stderr, "%s %s: %d instead of %d\n", method, text, actual, expected);
        } else if (actual >= 0) {
                check_values(&all[actual], found.parameters, &path);
        }
        free(found.parameters);
}

static void
the_tree_agrees_with_a_matcher_that_tries_all_patterns(void)
{
        struct weir_test_random random = {.state = weir_test_seed()};
        static struct simple_route all[200];
        unsigned rounds = WEIR_TEST_SANITIZED ? 100 : 500;

        for (unsigned round = 0; round < rounds; round++) {
                size_t count = 0, wanted = 1 + weir_test_random_below(&random, 200);

                begin();
                for (size_t i = 0; i < wanted; i++) {
                        struct simple_route *route = &all[count];
                        char pattern[PIECES * 12];
                        bool known = false;

                        random_route(&random, route);
                        for (size_t k = 0; k < count; k++) {
                                known |= simple_is_same(&all[k], route);
                        }
                        write_pattern(&random, pattern, route);
                        bool empty = false;
                        for (unsigned k = 0; k + 1 < route->pieces; k++) {
                                empty |= route->piece[k].text[0] == '\0';
                        }
                        CU_ASSERT_EQUAL(weir__routes_add(routes, route->method, pattern, count), empty   ? -EINVAL
                                                                                                 : known ? -EEXIST
                                                                                                         : 0);
                        count += !empty && !known;
                }
                for (unsigned i = 0; i < 400; i++) {
                        ask_at_random(&random, all, count);
                }
                end();
        }
}

/* -- cost -- */

#define MANY ((size_t)30000)

static void
tens_of_thousands_of_patterns_are_told_apart_at_no_cost(void)
{
        char text[64];

        begin();
        for (size_t i = 0; i < MANY; i++) {
                snprintf(text, sizeof text, i % 2 ? "/%zu/{x}" : "/all/{x}/%zu/c", i);
                CU_ASSERT_EQUAL(weir__routes_add(routes, "GET", text, i), 0);
        }
        for (size_t i = 0; i < MANY; i++) {
                snprintf(text, sizeof text, i % 2 ? "/%zu/value" : "/all/value/%zu/c", i);
                CU_ASSERT_EQUAL(get(text), (int)i);
        }
        int64_t began = weir_test_cpu_time();
        for (unsigned i = 0; i < 10000; i++) {
                CU_ASSERT_EQUAL(get("/all/value/29999/c"), -ENOENT);
        }
        CU_ASSERT(weir_test_cpu_time() - began < INT64_C(2000000000)); /* 200 us each: a look at each pattern takes longer */
        end();
}

static void
only_parameters_need_memory_and_that_once(void)
{
        struct weir__route_found found;

        begin();
        ADD("/a/b/c", "/a/{x}/{y}/{z...}");
        allocations = 0;
        CU_ASSERT_EQUAL(weir__routes_match(routes, "GET", "/a/b/c", 6, &found), 0);
        CU_ASSERT_EQUAL(weir__routes_match(routes, "GET", "/a/b", 4, &found), -ENOENT);
        CU_ASSERT_EQUAL(weir__routes_match(routes, "PUT", "/a/b/c", 6, &found), -EOPNOTSUPP);
        CU_ASSERT_EQUAL(allocations, 0);
        CU_ASSERT_EQUAL(weir__routes_match(routes, "GET", "/a/%62/c/d/e", 12, &found), 0);
        CU_ASSERT_EQUAL(allocations, 1);
        free(found.parameters);
        end();
}

/* All patterns of "a" and parameters that are so long, with an end that the path does not have. */
static void
add_all_ways(unsigned depth)
{
        for (unsigned way = 0; way < 1U << depth; way++) {
                char pattern[256] = "";

                for (unsigned i = 0; i < depth; i++) {
                        sprintf(pattern + strlen(pattern), way >> i & 1 ? "/{p%u}" : "/a", i);
                }
                strcat(pattern, "/end");
                CU_ASSERT_EQUAL(weir__routes_add(routes, "GET", pattern, way), 0);
        }
}

/* Units: nanoseconds of CPU time for so many. */
static int64_t
cost_of(const char *path, int expected, unsigned times)
{
        int64_t began = weir_test_cpu_time();

        for (unsigned i = 0; i < times; i++) {
                CU_ASSERT_EQUAL(get(path), expected);
        }
        return weir_test_cpu_time() - began;
}

static void
a_path_with_very_many_segments_costs_what_it_is_long(void)
{
        size_t size = 100000;
        char *path = malloc(size + 1);

        begin();
        add_all_ways(10);
        ADD("/{a}/{b}/{c}/{d}/{rest...}");
        for (size_t i = 0; i < size; i++) {
                path[i] = i % 2 ? 'a' : '/';
        }
        path[size] = '\0';
        CU_ASSERT_EQUAL(get(path), 0);
        CU_ASSERT(cost_of(path, 0, 100) < INT64_C(5000000000)); /* 1.3 ms each would be a segment in 1000 ns */
        memcpy(path + 20, "/end", 5);
        CU_ASSERT(get(path) >= 0);
        end();
        free(path);
}

/* The long segment is read once, however often the search comes back to it. */
static void
a_long_segment_is_not_read_once_more_for_each_way_to_it(void)
{
        size_t size = 100000;
        char *path = malloc(size + 1);

        begin();
        add_all_ways(10);
        memset(path, 'x', size);
        memcpy(path, "/a/a/a/a/a/a/a/a/a/a/", 21);
        path[size] = '\0';
        CU_ASSERT(cost_of(path, -ENOENT, 20) < 20 * INT64_C(25000000)); /* 1024 times through it are 50 ms at the least */
        end();
        free(path);
}

static void
no_part_of_a_pattern_is_visited_twice(void)
{
        char path[64] = "", deeper[128] = "";

        begin();
        add_all_ways(14);
        for (unsigned i = 0; i < 14; i++) {
                strcat(path, "/a");
        }
        strcat(path, "/endless");
        strcpy(deeper, path);
        for (unsigned i = 0; i < 20; i++) {
                strcat(deeper, "/a"); /* each would double the time if the ways to it were tried all */
        }
        CU_ASSERT(cost_of(path, -ENOENT, 20) < 20 * INT64_C(50000000));
        CU_ASSERT(cost_of(deeper, -ENOENT, 20) < 20 * INT64_C(50000000));
        end();
}

/* -- refused memory -- */

static void
making_fails_without_memory(void)
{
        long nth = 0;

        for (routes = NULL; !routes; nth++) {
                allowed = nth;
                routes = weir__routes_new();
        }
        CU_ASSERT_EQUAL(nth - 1, 6); /* itself, nodes, edges, three methods */
        allowed = NO_LIMIT;
        end();
        weir__routes_free(NULL);
}

/* Adds with each of the allocations that it takes refused in turn.  Returns how many that were. */
static long
add_in_spite(const char *its_methods, const char *pattern, size_t number)
{
        int r = -ENOMEM;
        long nth;

        for (nth = 0; r == -ENOMEM; nth++) {
                allowed = nth;
                r = weir__routes_add(routes, its_methods, pattern, number);
                allowed = NO_LIMIT;
        }
        CU_ASSERT_EQUAL(r, 0);
        return nth - 1;
}

static void
adding_without_memory_changes_nothing(void)
{
        char text[64];
        long refused = 0;

        begin();
        for (size_t i = 0; i < 200; i++) {
                snprintf(text, sizeof text, "/%zu/{x}/y/{rest...}", i);
                refused += add_in_spite(i % 2 ? "GET" : "PUT,DELETE", text, i);
                for (size_t k = 0; k <= i + 1; k++) {
                        snprintf(text, sizeof text, "/%zu/a/y/", k);
                        CU_ASSERT_EQUAL(number_of(k % 2 ? "GET" : "PUT", text), k <= i ? (int)k : -ENOENT);
                }
        }
        CU_ASSERT(refused > 200 * 3);
        end();
}

static void
matching_without_memory_says_so(void)
{
        struct weir__route_found found;

        begin();
        ADD("/{x}", "/a/b");
        allowed = 0;
        CU_ASSERT_EQUAL(weir__routes_match(routes, "GET", "/a/b", 4, &found), 0);
        CU_ASSERT_EQUAL(weir__routes_match(routes, "GET", "/b", 2, &found), -ENOMEM);
        allowed = 0;
        CU_ASSERT_PTR_NULL(weir__routes_allow(routes, UINT64_MAX));
        allowed = NO_LIMIT;
        CU_ASSERT_EQUAL(get("/b"), 0);
        end();
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(literals_match_themselves_only),
                WEIR_TEST(case_matters),
                WEIR_TEST(a_slash_at_the_end_is_another_path),
                WEIR_TEST(an_empty_segment_is_neither_skipped_nor_a_parameter),
                WEIR_TEST(dots_are_segments_like_others),
                WEIR_TEST(a_parameter_is_one_segment_that_is_not_empty),
                WEIR_TEST(a_prefix_takes_the_rest_which_may_be_empty),
                WEIR_TEST(a_path_is_divided_before_it_is_decoded),
                WEIR_TEST(escapes_are_decoded_in_literals_of_both_sides),
                WEIR_TEST(bad_patterns_are_refused),
                WEIR_TEST(a_pattern_has_up_to_64_segments),
                WEIR_TEST(bad_methods_are_refused),
                WEIR_TEST(there_may_be_64_methods),
                WEIR_TEST(of_one_pattern_the_method_comes_first_then_any),
                WEIR_TEST(the_method_is_part_of_the_choice),
                WEIR_TEST(ambiguous_routes_are_refused),
                WEIR_TEST(allow_has_the_methods_of_all_patterns_that_match),
                WEIR_TEST(the_most_specific_pattern_wins_in_any_order_of_adding),
                WEIR_TEST(a_search_comes_back_from_where_nothing_is_found),
                WEIR_TEST(the_tree_agrees_with_a_matcher_that_tries_all_patterns),
                WEIR_TEST(tens_of_thousands_of_patterns_are_told_apart_at_no_cost),
                WEIR_TEST(only_parameters_need_memory_and_that_once),
                WEIR_TEST(a_path_with_very_many_segments_costs_what_it_is_long),
                WEIR_TEST(a_long_segment_is_not_read_once_more_for_each_way_to_it),
                WEIR_TEST(no_part_of_a_pattern_is_visited_twice),
                WEIR_TEST(making_fails_without_memory),
                WEIR_TEST(adding_without_memory_changes_nothing),
                WEIR_TEST(matching_without_memory_says_so),
        };

        return weir_test_main("routes", tests, sizeof tests / sizeof *tests);
}
