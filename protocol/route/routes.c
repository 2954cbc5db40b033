/* protocol/route/routes.c: the pattern, of many, that a path matches.
 *
 * Patterns are a tree of segments.  A node points to its child for a parameter.  Its children for literals are in one hash table
 * for all nodes, by parent and text.  So a node with ten thousand of them is as fast as one with two, and a node with none costs
 * nothing.  A node holds the routes whose patterns end there, and those whose last segment, from there on, is a prefix's "{...}".
 *
 * A search goes down by the literal, then by the parameter, then takes the prefix, and comes back from where nothing is found.
 * In a tree no node is seen twice.  So a search costs one pass over the path, and one step for each node that matches the part
 * read so far.  These are usually one or two for a segment, and never more than the tree has.  The ends and hashes of segments
 * that were read are kept for later steps of the search.  The path is not read deeper than the tree is.
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
        uint64_t parameters; /* a bit for each segment that is one; a prefix is the last of them */
        size_t number;
        bool is_prefix;
        char names[]; /* of the parameters in order, each NUL-terminated */
};

struct node {
        struct route *whole, *prefix;
        struct node *parameter; /* the child for that; or NULL */
        bool has_literals;      /* children in the table */

        /* Of a literal. */
        struct node *next; /* in the same bucket */
        const struct node *parent;
        uint64_t hash; /* of the text and the parent */
        size_t size;
        char text[]; /* decoded */
};

struct weir__routes {
        struct node *root, *asterisk;       /* the latter of the pattern "*" */
        struct node **buckets;              /* of literals */
        size_t literal_count, bucket_count; /* bucket_count: a power of two, at least literal_count */
        uint64_t methods;                   /* of all routes */
        unsigned method_count;
        char *method_names[WEIR__ROUTE_METHODS];
};

/* -- the tree -- */

/* The parent's hash is mixed in, so equal texts below different parents are in different buckets. */
static uint64_t
hash_of(const struct node *parent, const struct weir__segment *segment)
{
        return (segment->hash ^ (parent->hash + 1) * UINT64_C(0x9e3779b97f4a7c15)) * UINT64_C(0xff51afd7ed558ccd);
}

static struct node **
bucket_of(const struct weir__routes *routes, uint64_t hash)
{
        return &routes->buckets[hash >> 32 & (routes->bucket_count - 1)];
}

static struct node *
find_literal(const struct weir__routes *routes, const struct node *parent, const struct weir__segment *segment)
{
        uint64_t hash = hash_of(parent, segment);
        struct node *node = parent->has_literals ? *bucket_of(routes, hash) : NULL;

        while (node && (node->hash != hash || node->parent != parent || !weir__segment_is(segment, node->text, node->size)))
                node = node->next;
        return node;
}

static void
insert(struct weir__routes *routes, struct node *node)
{
        struct node **bucket = bucket_of(routes, node->hash);

        node->next = *bucket;
        *bucket = node;
}

static bool
make_room(struct weir__routes *routes)
{
        size_t count = routes->bucket_count;
        struct node **old = routes->buckets, **buckets;

        if (routes->literal_count < count)
                return true;
        buckets = calloc(count ? 2 * count : 8, sizeof *buckets);
        if (!buckets)
                return false;
        routes->buckets = buckets;
        routes->bucket_count = count ? 2 * count : 8;
        for (size_t i = 0; i < count; i++)
                for (struct node *node = old[i], *next; node; node = next) {
                        next = node->next;
                        insert(routes, node);
                }
        free(old);
        return true;
}

/* Result: NULL when out of memory. */
static struct node *
make_literal(struct weir__routes *routes, struct node *parent, const struct weir__segment *segment)
{
        struct node *node = find_literal(routes, parent, segment);

        if (node || !make_room(routes))
                return node;
        node = calloc(1, sizeof *node + segment->decoded);
        if (!node)
                return NULL;
        weir__path_decode(node->text, segment->text, segment->size);
        node->size = segment->decoded;
        node->parent = parent;
        node->hash = hash_of(parent, segment);
        insert(routes, node);
        routes->literal_count++;
        parent->has_literals = true;
        return node;
}

static struct node *
make_parameter(struct node *parent)
{
        if (!parent->parameter) {
                parent->parameter = calloc(1, sizeof *parent);
                if (parent->parameter)
                        parent->parameter->hash = parent->hash + 1;
        }
        return parent->parameter;
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
add_route(struct weir__routes *routes, const struct weir__pattern *pattern, struct route *route)
{
        struct node *node = pattern->count ? routes->root : routes->asterisk;
        struct route **list;

        for (unsigned i = 0; i + pattern->is_prefix < pattern->count; i++) {
                node = pattern->parameters & BIT(i) ? make_parameter(node) : make_literal(routes, node, &pattern->segments[i]);
                if (!node)
                        return -ENOMEM;
        }
        list = pattern->is_prefix ? &node->prefix : &node->whole;
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
        r = route ? add_route(routes, &pattern, route) : -ENOMEM;
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
        routes->root = calloc(1, sizeof *routes->root);
        routes->asterisk = calloc(1, sizeof *routes->asterisk);
        if (!routes->root || !routes->asterisk ||
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

/* A node with those that hang on it, but not the literals. */
static void
free_node(struct node *node)
{
        while (node) {
                struct node *parameter = node->parameter;

                free_list(node->whole);
                free_list(node->prefix);
                free(node);
                node = parameter;
        }
}

void
weir__routes_free(struct weir__routes *routes)
{
        if (!routes)
                return;
        for (size_t i = 0; i < routes->bucket_count; i++)
                for (struct node *node = routes->buckets[i], *next; node; node = next) {
                        next = node->next;
                        free_node(node);
                }
        free_node(routes->root);
        free_node(routes->asterisk);
        for (unsigned i = 0; i < routes->method_count; i++)
                free(routes->method_names[i]);
        free(routes->buckets);
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
descend(struct search *search, const struct node *node, unsigned depth)
{
        const struct route *route = NULL;
        const struct node *literal;

        if (depth > 0 && search->segments[depth - 1].is_last)
                return pick(search, node->whole);
        if (!node->has_literals && !node->parameter && !node->prefix)
                return NULL;
        const struct weir__segment *segment = segment_at(search, depth);
        literal = find_literal(search->routes, node, segment);
        if (literal)
                route = descend(search, literal, depth + 1);
        if (!route && node->parameter && segment->size > 0)
                route = descend(search, node->parameter, depth + 1);
        return route ? route : pick(search, node->prefix);
}

/* The parameters of the path that a search has found the route for. */
static struct weir__pairs *
read_values(const struct search *search, const struct route *route)
{
        size_t count = (size_t)__builtin_popcountll(route->parameters), room = 0;
        const char *name = route->names;
        char *out;

        for (uint64_t left = route->parameters; left; left &= left - 1)
                room += search->segments[__builtin_ctzll(left)].size + 1;
        if (route->is_prefix)
                room += (size_t)(search->end - search->segments[63 - __builtin_clzll(route->parameters)].text);
        struct weir__pairs *values = weir__pairs_new(count, room, &out);
        if (!values)
                return NULL;
        for (uint64_t left = route->parameters; left; left &= left - 1) {
                const struct weir__segment *segment = &search->segments[__builtin_ctzll(left)];
                bool is_rest = route->is_prefix && !(left & (left - 1));

                values->pairs[values->count++] = (struct weir__pair){.name = name, .value = out};
                name += strlen(name) + 1;
                out = weir__path_decode(out, segment->text, is_rest ? (size_t)(search->end - segment->text) : segment->size);
                *out++ = '\0';
        }
        return values;
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
                route = descend(&search, routes->root, 0);
        } else {
                route = pick(&search, routes->asterisk->whole);
        }
        if (!route) {
                found->allowed = search.seen;
                return search.seen ? -EOPNOTSUPP : -ENOENT;
        }
        found->number = route->number;
        found->parameters = route->parameters ? read_values(&search, route) : NULL;
        return route->parameters && !found->parameters ? -ENOMEM : 0;
}

/* -- Allow -- */

char *
weir__routes_allow(const struct weir__routes *routes, uint64_t methods)
{
        size_t size = 0;
        char *text, *out;

        methods &= routes->methods;
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
