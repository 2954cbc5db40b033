/* test/simple_routes.h: a router without a tree, which tries all patterns: the reference for the real one. */
#ifndef WEIR_TEST_SIMPLE_ROUTES_H
#define WEIR_TEST_SIMPLE_ROUTES_H

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define SIMPLE_PIECES 66 /* more than a pattern may have */
#define SIMPLE_ROOM   32

/* The kinds of pieces of a pattern, the most specific first. */
enum simple_kind { SIMPLE_LITERAL = '1', SIMPLE_PARAMETER, SIMPLE_REST };

struct simple_piece {
        enum simple_kind kind;
        char text[SIMPLE_ROOM]; /* decoded; or the name of a parameter */
};

struct simple_route {
        unsigned pieces;
        struct simple_piece piece[SIMPLE_PIECES];
        const char *method; /* one, or "*" */
};

/* A path, divided at its slashes and decoded. */
struct simple_path {
        unsigned pieces;
        char piece[SIMPLE_PIECES][SIMPLE_ROOM];
};

/* Whether it matches, and the kinds of its segments in `rank`, where less is more specific. */
static inline bool simple_match(const struct simple_route *route, const struct simple_path *path, char *rank)
{
        for (unsigned i = 0; i < route->pieces; i++, rank++) {
                const struct simple_piece *piece = &route->piece[i];

                rank[0] = (char)piece->kind;
                rank[1] = '\0';
                if (i == path->pieces) {
                        return false;
                }
                if (piece->kind == SIMPLE_REST) {
                        return true;
                }
                if (piece->kind == SIMPLE_PARAMETER ? path->piece[i][0] == '\0' : strcmp(piece->text, path->piece[i]) != 0) {
                        return false;
                }
        }
        return route->pieces == path->pieces;
}

/* How well the methods agree: 0 is best, 9 not at all. */
static inline int simple_method(const char *of_route, const char *asked)
{
        if (strcmp(of_route, asked) == 0) {
                return 0;
        }
        if (strcmp(asked, "HEAD") == 0 && strcmp(of_route, "GET") == 0) {
                return 1;
        }
        return strcmp(of_route, "*") == 0 ? 2 : 9;
}

/* Result: the index of the one that is meant; -ENOENT; -EOPNOTSUPP. */
static inline int simple_find(const struct simple_route *all, size_t count, const char *method, const struct simple_path *path)
{
        char best[SIMPLE_PIECES + 3] = "9", rank[SIMPLE_PIECES + 3];
        int found = -ENOENT;

        for (size_t i = 0; i < count; i++) {
                int agreed = simple_method(all[i].method, method);

                *rank = '\0';
                if (!simple_match(&all[i], path, rank)) {
                        continue;
                }
                if (agreed == 9) {
                        found = found == -ENOENT ? -EOPNOTSUPP : found;
                        continue;
                }
                sprintf(rank + strlen(rank), "%d", agreed); /* ranks that differ do so before their ends */
                if (strcmp(rank, best) < 0) {
                        strcpy(best, rank);
                        found = (int)i;
                }
        }
        return found;
}

/* Whether they are the same but for the names of parameters. */
static inline bool simple_is_same(const struct simple_route *one, const struct simple_route *other)
{
        bool same = one->pieces == other->pieces && strcmp(one->method, other->method) == 0;

        for (unsigned i = 0; same && i < one->pieces; i++) {
                same = one->piece[i].kind == other->piece[i].kind &&
                       (one->piece[i].kind != SIMPLE_LITERAL || strcmp(one->piece[i].text, other->piece[i].text) == 0);
        }
        return same;
}

/* Returns the value in the path of the parameter that is the route's piece `index`. */
static inline const char *simple_value(const struct simple_route *route, const struct simple_path *path, unsigned index,
                                       char rest[SIMPLE_PIECES * (SIMPLE_ROOM + 1)])
{
        if (route->piece[index].kind != SIMPLE_REST) {
                return path->piece[index];
        }
        char *out = rest;
        for (unsigned i = index; i < path->pieces; i++) {
                out = stpcpy(stpcpy(out, i == index ? "" : "/"), path->piece[i]);
        }
        return rest;
}

#endif
