/* protocol/route/routes.c: the pattern, of many, that a path matches.
 *
 * Patterns are a tree of segments.  A node's child for a parameter stands in it; its children for literals stand in one hash
 * table for all nodes, by parent and text, so that a node with ten thousand of them is as fast as one with two, and one with
 * none costs nothing.  A node holds the routes whose patterns end there, and those whose last segment, from there on, is a
 * prefix's "{...}".
 *
 * A search goes down by the literal, then by the parameter, then takes the prefix, and comes back from where nothing is found.
 * As it is a tree, no node is seen twice: a search costs one pass over the path, and steps for the nodes that match the part read
 * so far.  These are usually one or two for a segment, and never more than the tree has.  The ends and hashes of segments that
 * were read are kept for later steps of the search.  The path is not read deeper than the tree is.
 *
 * The keys of the hash table are the program's, so the hash needs no secret: clients look up, they cannot add.
 *
 * Threads: one writes, while nobody reads; or any number read.  No locks. */
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "protocol/text/bytes.h"
#include "protocol/route/pattern.h"
#include "protocol/route/routes.h"
#include "protocol/route/target.h"

#define ROOT     ((uint32_t)0) /* also "none": the root is nobody's child */
#define ASTERISK ((uint32_t)1) /* of the pattern "*" */

enum {
        GET = 0, /* bits of the methods that mean something here */
        HEAD,
        OPTIONS,
};

#define BIT(index) (UINT64_C(1) << (index))

/* What one call added. */
struct route {
        struct route *next;  /* of those with the same pattern but for the names, and other methods */
        uint64_t methods;    /* 0: any */
        uint64_t parameters; /* which segments are; a prefix is the last of them */
        size_t number;
        bool is_prefix;
        char names[]; /* of the parameters in order, each NUL-terminated */
};

struct node {
        struct route *whole, *prefix;
        uint32_t parameter; /* its child for that */
        uint32_t literals;  /* how many children it has in the table */
};

struct edge {
        uint64_t hash;
        char *text; /* decoded */
        size_t size;
        uint32_t parent, child; /* child ROOT: an empty place */
};

struct weir__routes {
        struct node *nodes;
        struct edge *edges;                                  /* open addressing, at most half full */
        size_t node_count, node_room, edge_count, edge_room; /* edge_room: a power of two */
        uint64_t methods;                                    /* of all routes */
        unsigned method_count;
        char *method_names[WEIR__ROUTE_METHODS];
};

/* -- the tree -- */

/* The place of the child, or the empty one where it would stand. */
static struct edge *
edge_place(const struct weir__routes *routes, uint32_t parent, const struct weir__segment *segment)
{
        uint64_t mixed = (segment->hash ^ parent * UINT64_C(0x9e3779b97f4a7c15)) * UINT64_C(0xff51afd7ed558ccd);
        size_t at = (size_t)(mixed >> 32) & (routes->edge_room - 1);

        for (;; at = (at + 1) & (routes->edge_room - 1)) {
                struct edge *edge = &routes->edges[at];

                if (edge->child == ROOT ||
                    (edge->hash == segment->hash && edge->parent == parent && weir__segment_is(segment, edge->text, edge->size)))
                        return edge;
        }
}

static uint32_t
literal_child(const struct weir__routes *routes, uint32_t parent, const struct weir__segment *segment)
{
        return routes->nodes[parent].literals ? edge_place(routes, parent, segment)->child : ROOT;
}

static int
grow_edges(struct weir__routes *routes)
{
        struct weir__routes grown = {.edge_room = 2 * routes->edge_room};

        if (2 * (routes->edge_count + 1) <= routes->edge_room)
                return 0;
        grown.edges = calloc(grown.edge_room, sizeof *grown.edges);
        if (!grown.edges)
                return -ENOMEM;
        for (size_t i = 0; i < routes->edge_room; i++) {
                const struct edge *edge = &routes->edges[i];
                /* No two are equal, so the texts, which are decoded and no segments any more, need not be compared: no text has
                 * this size. */
                struct weir__segment key = {.hash = edge->hash, .decoded = SIZE_MAX};

                if (edge->child != ROOT)
                        *edge_place(&grown, edge->parent, &key) = *edge;
        }
        free(routes->edges);
        routes->edges = grown.edges;
        routes->edge_room = grown.edge_room;
        return 0;
}

/* Result: a new node; ROOT when out of memory. */
static uint32_t
new_node(struct weir__routes *routes)
{
        if (routes->node_count == routes->node_room) {
                size_t room = 2 * routes->node_room;
                struct node *grown = room < UINT32_MAX ? realloc(routes->nodes, room * sizeof *grown) : NULL;

                if (!grown)
                        return ROOT;
                routes->nodes = grown;
                routes->node_room = room;
        }
        routes->nodes[routes->node_count] = (struct node){.parameter = ROOT};
        return (uint32_t)routes->node_count++;
}

static uint32_t
make_literal(struct weir__routes *routes, uint32_t parent, const struct weir__segment *segment)
{
        uint32_t child = literal_child(routes, parent, segment);
        char *text;

        if (child != ROOT || grow_edges(routes))
                return child;
        text = malloc(segment->decoded + 1);
        child = text ? new_node(routes) : ROOT;
        if (child == ROOT) {
                free(text);
                return ROOT;
        }
        weir__path_decode(text, segment->text, segment->size);
        *edge_place(routes, parent, segment) = (struct edge){
                .hash = segment->hash, .text = text, .size = segment->decoded, .parent = parent, .child = child};
        routes->edge_count++;
        routes->nodes[parent].literals++;
        return child;
}

static uint32_t
make_parameter(struct weir__routes *routes, uint32_t parent)
{
        uint32_t child = routes->nodes[parent].parameter;

        if (child == ROOT) {
                child = new_node(routes);
                routes->nodes[parent].parameter = child;
        }
        return child;
}

/* -- methods -- */

/* Its bit, 0 when no pattern has named it. */
static uint64_t
method_bit(const struct weir__routes *routes, const char *name, size_t size)
{
        for (unsigned i = 0; i < routes->method_count; i++) {
                const char *known = routes->method_names[i];

                if (strncmp(known, name, size) == 0 && known[size] == '\0')
                        return BIT(i);
        }
        return 0;
}

static int
add_method(struct weir__routes *routes, const char *name, size_t size, uint64_t *bits)
{
        uint64_t bit = method_bit(routes, name, size);

        if (!bit) {
                if (routes->method_count == WEIR__ROUTE_METHODS)
                        return -EINVAL;
                char *copy = malloc(size + 1);
                if (!copy)
                        return -ENOMEM;
                *(char *)mempcpy(copy, name, size) = '\0';
                bit = BIT(routes->method_count);
                routes->method_names[routes->method_count++] = copy;
        }
        *bits |= bit;
        return 0;
}

static bool
is_method(const char *name, size_t size)
{
        if (size == 0 || weir__bytes_span(name, size, WEIR__BYTE_TOKEN) < size || memchr(name, '*', size))
                return false;
        for (size_t i = 0; i < size; i++)
                if (name[i] >= 'a' && name[i] <= 'z')
                        return false;
        return true;
}

/* Reads a list of methods; 0 bits for any. */
static int
read_methods(struct weir__routes *routes, const char *list, uint64_t *bits)
{
        const char *member, *end;
        size_t size;
        int r = 0;

        *bits = 0;
        if (strcmp(list, "*") == 0)
                return 0;
        for (; list && !r; list = *end ? end + 1 : NULL) {
                end = strchrnul(list, ',');
                member = list;
                size = (size_t)(end - list);
                weir__bytes_trim(&member, &size);
                r = is_method(member, size) ? add_method(routes, member, size, bits) : -EINVAL;
        }
        return r;
}

/* -- adding -- */

static struct route *
new_route(const struct weir__pattern *pattern, uint64_t methods, size_t number)
{
        struct route *route = malloc(sizeof *route + pattern->names_size);
        char *out;

        if (!route)
                return NULL;
        *route = (struct route){
                .methods = methods, .parameters = pattern->parameters, .number = number, .is_prefix = pattern->is_prefix};
        out = route->names;
        for (unsigned i = 0; i < pattern->count; i++) {
                if (pattern->parameters & BIT(i)) {
                        out = mempcpy(out, pattern->segments[i].text, pattern->segments[i].size);
                        *out++ = '\0';
                }
        }
        return route;
}

/* Puts a route where its pattern ends. */
static int
place(struct weir__routes *routes, const struct weir__pattern *pattern, struct route *route)
{
        uint32_t node = pattern->count ? ROOT : ASTERISK;
        struct route **list;

        for (unsigned i = 0; i + pattern->is_prefix < pattern->count; i++) {
                node = pattern->parameters & BIT(i) ? make_parameter(routes, node)
                                                    : make_literal(routes, node, &pattern->segments[i]);
                if (node == ROOT)
                        return -ENOMEM;
        }
        list = pattern->is_prefix ? &routes->nodes[node].prefix : &routes->nodes[node].whole;
        for (const struct route *other = *list; other; other = other->next)
                if (other->methods == route->methods || other->methods & route->methods)
                        return -EEXIST;
        route->next = *list;
        *list = route;
        return 0;
}

int
weir__routes_add(struct weir__routes *routes, const char *methods, const char *text, size_t number)
{
        struct weir__pattern pattern;
        struct route *route;
        uint64_t bits;
        int r = weir__pattern_read(&pattern, text);

        if (!r)
                r = read_methods(routes, methods, &bits);
        if (r)
                return r;
        route = new_route(&pattern, bits, number);
        r = route ? place(routes, &pattern, route) : -ENOMEM;
        if (r) {
                free(route);
                return r;
        }
        routes->methods |= bits;
        return 0;
}

/* -- life -- */

struct weir__routes *
weir__routes_new(void)
{
        struct weir__routes *routes = calloc(1, sizeof *routes);
        uint64_t ignored;

        if (!routes)
                return NULL;
        routes->node_room = 8;
        routes->edge_room = 8;
        routes->nodes = calloc(routes->node_room, sizeof *routes->nodes);
        routes->edges = calloc(routes->edge_room, sizeof *routes->edges);
        routes->node_count = ASTERISK + 1;
        if (!routes->nodes || !routes->edges ||
            read_methods(routes, "GET,HEAD,OPTIONS", &ignored)) { /* in the order of the bits */
                weir__routes_free(routes);
                return NULL;
        }
        return routes;
}

static void
free_list(struct route *route)
{
        while (route) {
                struct route *next = route->next;

                free(route);
                route = next;
        }
}

void
weir__routes_free(struct weir__routes *routes)
{
        if (!routes)
                return;
        for (size_t i = 0; routes->nodes && i < routes->node_count; i++) {
                free_list(routes->nodes[i].whole);
                free_list(routes->nodes[i].prefix);
        }
        for (size_t i = 0; routes->edges && i < routes->edge_room; i++)
                free(routes->edges[i].text);
        for (unsigned i = 0; i < routes->method_count; i++)
                free(routes->method_names[i]);
        free(routes->nodes);
        free(routes->edges);
        free(routes);
}

/* -- matching -- */

struct search {
        const struct weir__routes *routes;
        const char *end;  /* of the path */
        uint64_t method;  /* its bit; 0: no pattern names it */
        uint64_t instead; /* that of GET for a HEAD; else 0 */
        uint64_t seen;    /* methods of patterns that match, but not this method */
        unsigned read;    /* segments of the path that are in `segments` */
        struct weir__segment segments[WEIR__PATTERN_SEGMENTS];
};

static const struct route *
pick(struct search *search, const struct route *route)
{
        const struct route *get = NULL, *any = NULL;

        for (; route; route = route->next) {
                if (route->methods & search->method)
                        return route;
                if (route->methods & search->instead)
                        get = route;
                else if (route->methods == 0)
                        any = route;
                search->seen |= route->methods;
        }
        return get ? get : any;
}

/* The segment at `depth`, of which all before it have been read and are not the last. */
static const struct weir__segment *
segment_at(struct search *search, unsigned depth)
{
        struct weir__segment *segment = &search->segments[depth];

        if (depth == search->read) {
                weir__segment_read(segment, segment[-1].text + segment[-1].size + 1, search->end);
                search->read++;
        }
        return segment;
}

/* The route below the node for the path from `depth` on. */
static const struct route *
descend(struct search *search, uint32_t at, unsigned depth)
{
        const struct node *node = &search->routes->nodes[at];
        const struct route *route = NULL;
        uint32_t child;

        if (depth > 0 && search->segments[depth - 1].is_last)
                return pick(search, node->whole);
        if (!node->literals && node->parameter == ROOT && !node->prefix)
                return NULL;
        const struct weir__segment *segment = segment_at(search, depth);
        child = literal_child(search->routes, at, segment);
        if (child != ROOT)
                route = descend(search, child, depth + 1);
        if (!route && node->parameter != ROOT && segment->size > 0)
                route = descend(search, node->parameter, depth + 1);
        return route ? route : pick(search, node->prefix);
}

/* The parameters of the path that a search has found the route for. */
static struct weir__route_match *
read_values(const struct search *search, const struct route *route)
{
        size_t count = (size_t)__builtin_popcountll(route->parameters), room = 0;
        const char *name = route->names;
        struct weir__route_match *match;
        char *out;

        for (uint64_t left = route->parameters; left; left &= left - 1)
                room += search->segments[__builtin_ctzll(left)].size + 1;
        if (route->is_prefix)
                room += (size_t)(search->end - search->segments[63 - __builtin_clzll(route->parameters)].text);
        match = malloc(sizeof *match + count * sizeof *match->parameters + room);
        if (!match)
                return NULL;
        match->count = 0;
        out = (char *)&match->parameters[count];
        for (uint64_t left = route->parameters; left; left &= left - 1) {
                const struct weir__segment *segment = &search->segments[__builtin_ctzll(left)];
                bool is_rest = route->is_prefix && !(left & (left - 1));

                match->parameters[match->count++] = (struct weir__route_parameter){.name = name, .value = out};
                name += strlen(name) + 1;
                out = weir__path_decode(out, segment->text, is_rest ? (size_t)(search->end - segment->text) : segment->size);
                *out++ = '\0';
        }
        return match;
}

int
weir__routes_match(const struct weir__routes *routes, const char *method, const char *path, size_t size,
                   struct weir__route_found *found)
{
        struct search search;
        const struct route *route;

        search.routes = routes;
        search.end = path + size;
        search.method = method_bit(routes, method, strlen(method));
        search.instead = search.method == BIT(HEAD) ? BIT(GET) : 0;
        search.seen = 0;
        search.read = 1;
        if (path[0] == '/') {
                weir__segment_read(&search.segments[0], path + 1, search.end);
                route = descend(&search, ROOT, 0);
        } else {
                route = pick(&search, routes->nodes[ASTERISK].whole);
        }
        if (!route) {
                found->allowed = search.seen;
                return search.seen ? -EOPNOTSUPP : -ENOENT;
        }
        found->number = route->number;
        found->match = route->parameters ? read_values(&search, route) : NULL;
        return route->parameters && !found->match ? -ENOMEM : 0;
}

void
weir__route_match_free(struct weir__route_match *match)
{
        free(match);
}

const char *
weir__route_match_value(const struct weir__route_match *match, const char *name)
{
        for (size_t i = 0; match && i < match->count; i++)
                if (strcmp(match->parameters[i].name, name) == 0)
                        return match->parameters[i].value;
        return NULL;
}

/* -- Allow -- */

uint64_t
weir__routes_methods(const struct weir__routes *routes)
{
        return routes->methods;
}

char *
weir__routes_allow(const struct weir__routes *routes, uint64_t methods)
{
        size_t size = 0;
        char *text, *out;

        methods |= BIT(OPTIONS) | (methods & BIT(GET) ? BIT(HEAD) : 0);
        for (uint64_t left = methods; left; left &= left - 1)
                size += strlen(routes->method_names[__builtin_ctzll(left)]) + 2;
        text = malloc(size);
        if (!text)
                return NULL;
        out = text;
        for (uint64_t left = methods; left; left &= left - 1) {
                out = stpcpy(out, out == text ? "" : ", ");
                out = stpcpy(out, routes->method_names[__builtin_ctzll(left)]);
        }
        return text;
}
