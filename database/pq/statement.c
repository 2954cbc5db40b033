/* database/pq/statement.c: the prepared statements of a link, by their text and the types of their parameters.
 *
 * Threads: those that hold the link's lock. */
#include "database/pq/pq.h"

#include <stdlib.h>
#include <string.h>

#define BUCKETS 64 /* of a table; a power of two */

struct weir__pq_statement {
        struct weir__pq_statement *next; /* in its bucket */
        unsigned number;
        int count; /* of the types */
        char *sql; /* behind the types */
        Oid types[];
};

/* Eight bytes at a time: with one at a time this was a tenth of what a query costs here. */
static unsigned
bucket_of(const char *sql, size_t size)
{
        uint64_t hash = size, word;

        for (; size >= sizeof word; size -= sizeof word, sql += sizeof word) {
                memcpy(&word, sql, sizeof word);
                hash = (hash ^ word) * 0x9e3779b97f4a7c15u;
                hash ^= hash >> 32;
        }
        word = 0;
        memcpy(&word, sql, size);
        hash = (hash ^ word) * 0x9e3779b97f4a7c15u;
        return (unsigned)(hash >> 58) & (BUCKETS - 1);
}

/* The server has taken the types that were given when it was prepared. */
static bool
is_for(const struct weir__pq_statement *statement, const struct weir__pq_query *query)
{
        return statement->count == query->count && strcmp(statement->sql, query->base.sql) == 0 &&
               (query->count == 0 || memcmp(statement->types, query->types, (size_t)query->count * sizeof *query->types) == 0);
}

/* The pointer to it in its chain. */
static struct weir__pq_statement **
find(struct weir__pq_link *link, const struct weir__pq_query *query)
{
        struct weir__pq_statement **at = &link->statements[bucket_of(query->base.sql, query->base.sql_size)];

        while (*at && !is_for(*at, query))
                at = &(*at)->next;
        return at;
}

unsigned
weir__pq_statement_find(struct weir__pq_link *link, const struct weir__pq_query *query)
{
        struct weir__pq_statement *statement = link->statements ? *find(link, query) : NULL;

        return statement ? statement->number : 0;
}

unsigned
weir__pq_statement_add(struct weir__pq_link *link, const struct weir__pq_query *query)
{
        size_t size = query->base.sql_size, types_size = (size_t)query->count * sizeof *query->types;
        struct weir__pq_statement *statement;

        if (!link->statements && !(link->statements = calloc(BUCKETS, sizeof(*link->statements))))
                return 0;
        statement = malloc(sizeof *statement + types_size + size);
        if (!statement)
                return 0;
        statement->next = NULL;
        statement->number = ++link->statement_number;
        statement->count = query->count;
        statement->sql = memcpy((char *)(statement->types + query->count), query->base.sql, size);
        if (types_size > 0)
                memcpy(statement->types, query->types, types_size);
        *find(link, query) = statement;
        link->statement_count++;
        return statement->number;
}

void
weir__pq_statement_remove(struct weir__pq_link *link, const struct weir__pq_query *query)
{
        struct weir__pq_statement **at = link->statements ? find(link, query) : NULL;

        if (!at || !*at || (*at)->number != query->statement)
                return;
        struct weir__pq_statement *statement = *at;
        *at = statement->next;
        free(statement);
        link->statement_count--;
}

void
weir__pq_statement_remove_all(struct weir__pq_link *link)
{
        for (unsigned i = 0; link->statements && i < BUCKETS; i++) {
                while (link->statements[i]) {
                        struct weir__pq_statement *statement = link->statements[i];

                        link->statements[i] = statement->next;
                        free(statement);
                }
        }
        free(link->statements);
        link->statements = NULL;
        link->statement_count = 0;
}
