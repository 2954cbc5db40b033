/* factory/name_table.h: a hash table of named objects, of which it holds the first of each name.
 *
 * A pure data structure: its owner's lock guards it.  names.c makes it a map that grows and shrinks without a long stop. */
#ifndef WEIR_FACTORY_NAME_TABLE_H
#define WEIR_FACTORY_NAME_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WEIR__NAME_TABLE_WIDTH 7 /* names in a line */

/* Embedded, as the last member, in what bears a name. */
struct weir__name {
        /* Guarded by the lock of the shard: names.h. */
        struct weir__name *older, *newer; /* the chain; the first one's `older` is the newest, whose `newer` is NULL */
        uint32_t count;                   /* of the first of a name: how many there are; else a mark (names.c) */

        /* Constant. */
        uint32_t hash;
        uint16_t size; /* of the text, without the NUL behind it */
        char text[];
};

/* A name to look up.  Valid as long as the text is. */
struct weir__name_key {
        const char *text;
        size_t size;
        uint32_t hash;
};

static inline struct weir__name_key weir__name_key_of(const struct weir__name *name)
{
        return (struct weir__name_key){name->text, name->size, name->hash};
}

static inline bool weir__name_has(const struct weir__name *name, const struct weir__name_key *key)
{
        return name->hash == key->hash && name->size == key->size && !__builtin_memcmp(name->text, key->text, key->size);
}

/* As much as the memory brings at once: the tags tell most of what is not looked for, without a look at it. */
struct weir__name_line {
        uint8_t tags[WEIR__NAME_TABLE_WIDTH]; /* of a hash; 0: free */
        uint8_t passed; /* names that belong here, or before, and lie behind; 255: that many or more */
        struct weir__name *names[WEIR__NAME_TABLE_WIDTH]; /* NULL: free */
};

/* All zero is no table. */
struct weir__name_table {
        struct weir__name_line *lines; /* in the order of the hashes; NULL: no table */
        void *memory;                  /* that they lie in */
        size_t mask;                   /* the number of lines - 1 */
        unsigned shift;                /* of a hash, behind the bits that are all the same, to the line where it belongs */
};

/* Makes a table of so many lines, a power of two, at least 2.  Returns false when out of memory. */
bool weir__name_table_make(struct weir__name_table *table, size_t lines);
void weir__name_table_drop(struct weir__name_table *table);

/* The line where a hash belongs.  The upper `skipped` bits, equal in all hashes of a table, do not count. */
static inline size_t weir__name_table_line(const struct weir__name_table *table, uint32_t hash, unsigned skipped)
{
        return (uint32_t)(hash << skipped) >> table->shift;
}

/* The place of the name in the table that belongs into that line, or NULL. */
struct weir__name **weir__name_table_find(const struct weir__name_table *table, size_t line, const struct weir__name_key *key);

/* The same for a name that is known to be there. */
struct weir__name **weir__name_table_place(const struct weir__name_table *table, size_t line, const struct weir__name *name);

/* Adds one that is not there; false when the table is full. */
bool weir__name_table_add(struct weir__name_table *table, size_t line, struct weir__name *name);

/* Frees the place of a name that belongs into that line. */
void weir__name_table_remove(struct weir__name_table *table, size_t line, struct weir__name **place);

/* The same for a table that will be gone soon: the counts of the lines that were passed stay. */
void weir__name_table_clear(struct weir__name_table *table, struct weir__name **place);

/* Goes through all names that belong into a line, and others that lie there: begin with at = line * WIDTH; returns NULL behind
 * the last.  *at then is where the next one may be. */
struct weir__name **weir__name_table_next(const struct weir__name_table *table, size_t line, size_t *at);

#endif
