/* database/pq/statement.c: the prepared statements of a link, by their text.
 *
 * Threads: those that hold the link's lock. */
#include "database/pq/pq.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BUCKETS 64 /* of a table; a power of two */

struct weir__pq_statement {
        struct weir__pq_statement *next; /* in its bucket */
        char name[16];
        char sql[];
};

static unsigned
bucket_of(const char *sql)
{
        uint32_t hash = 2166136261u; /* FNV-1a */

        for (; *sql; sql++)
                hash = (hash ^ (unsigned char)*sql) * 16777619u;
        return (hash ^ hash >> 16) & (BUCKETS - 1);
}

/* The place of the pointer to it. */
static struct weir__pq_statement **
find(struct weir__pq_link *link, const char *sql)
{
        struct weir__pq_statement **at = &link->statements[bucket_of(sql)];

        while (*at && strcmp((*at)->sql, sql) != 0)
                at = &(*at)->next;
        return at;
}

const char *
weir__pq_statement_name(struct weir__pq_link *link, const char *sql)
{
        struct weir__pq_statement *statement = link->statements ? *find(link, sql) : NULL;

        return statement ? statement->name : NULL;
}

const char *
weir__pq_statement_add(struct weir__pq_link *link, const char *sql)
{
        size_t size = strlen(sql) + 1;
        struct weir__pq_statement *statement;

        if (!link->statements && !(link->statements = calloc(BUCKETS, sizeof(*link->statements))))
                return NULL;
        statement = malloc(sizeof *statement + size);
        if (!statement)
                return NULL;
        memcpy(statement->sql, sql, size);
        snprintf(statement->name, sizeof statement->name, "weir_%u", ++link->statement_number);
        statement->next = NULL;
        *find(link, sql) = statement;
        link->statement_count++;
        return statement->name;
}

void
weir__pq_statement_remove(struct weir__pq_link *link, const char *sql)
{
        struct weir__pq_statement **at = link->statements ? find(link, sql) : NULL;

        if (!at || !*at)
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
