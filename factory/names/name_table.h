/* factory/names/name_table.h: a hash table of named objects, of which it holds the first of each name.
 *
 * A pure data structure: its owner's lock guards it.  names.c makes it a map that grows and shrinks without a long stop. */
#ifndef WEIR_FACTORY_NAME_TABLE_H
#define WEIR_FACTORY_NAME_TABLE_H

#include <endian.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define WEIR__NAME_TABLE_WIDTH 7   /* names in a line */
#define WEIR__NAME_BEFORE      104 /* bytes, about, that lie before the name in what bears it */

#define WEIR__NAME_ZOMBIE UINT32_MAX

/* The last member of an object that has a name.  The objects of a name are one chain: those that are alive, oldest first, then the
 * zombies, newest first. */
struct weir__name {
        /* Guarded by the lock of the shard: names.h. */
        struct weir__name *older, *newer; /* the oldest object: `older` is the newest one that is alive.  A zombie at the head of its
                                             chain: `older` is NULL.  The last of the chain: `newer` is NULL */
        uint32_t count;                   /* the oldest object: how many are alive; a zombie: WEIR__NAME_ZOMBIE; another one: 0 */

        /* Constant. */
        uint32_t hash;
        uint16_t size; /* of the text without its NUL */
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

static inline bool weir__name_same_word(const char *text, const char *other)
{
        uint64_t word, other_word;

        memcpy(&word, text, sizeof word);
        memcpy(&other_word, other, sizeof other_word);
        return word == other_word;
}

/* As memcmp, without a call for most names. */
static inline bool weir__name_same_text(const char *text, const char *other, size_t size)
{
        if (size < 8 || size > 32)
                return memcmp(text, other, size) == 0;
        for (size_t at = 0; at < size - 8; at += 8)
                if (!weir__name_same_word(text + at, other + at))
                        return false;
        return weir__name_same_word(text + size - 8, other + size - 8);
}

static inline bool weir__name_has(const struct weir__name *name, const struct weir__name_key *key)
{
        return name->hash == key->hash && name->size == key->size && weir__name_same_text(name->text, key->text, key->size);
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
        void *memory;                  /* that they lie in; NULL: the owner's */
        size_t mask;                   /* the number of lines - 1 */
        unsigned shift;                /* of a hash, behind the bits that are all the same, to the line where it belongs */
};

/* Makes a table of so many lines, a power of two, at least 2.  Returns false when out of memory. */
bool weir__name_table_make(struct weir__name_table *table, size_t lines);

/* The same in the owner's memory, which must lie at a multiple of 64 and outlive the table. */
void weir__name_table_make_in(struct weir__name_table *table, struct weir__name_line *memory, size_t lines);
void weir__name_table_drop(struct weir__name_table *table);

/* The line where a hash belongs.  The upper `skipped` bits, equal in all hashes of a table, do not count. */
static inline size_t weir__name_table_line(const struct weir__name_table *table, uint32_t hash, unsigned skipped)
{
        return (uint32_t)(hash << skipped) >> table->shift;
}

/* -- looking up: inline, for it is done with each call -- */

/* All tags of a line are compared in one go, as bytes of a word; the byte of `passed` is left out. */
#define WEIR__NAME_LOWEST_BITS  UINT64_C(0x0001010101010101)
#define WEIR__NAME_HIGHEST_BITS UINT64_C(0x0080808080808080)

static inline uint8_t weir__name_tag(uint32_t hash)
{
        return (uint8_t)(hash | 0x80);
}

static inline uint64_t weir__name_line_tags(const struct weir__name_line *line)
{
        uint64_t word;

        memcpy(&word, line->tags, sizeof word);
        return le64toh(word);
}

/* The highest bit of each byte that is 0; of some others behind such a one as well. */
static inline uint64_t weir__name_zero_bytes(uint64_t word)
{
        return (word - WEIR__NAME_LOWEST_BITS) & ~word & WEIR__NAME_HIGHEST_BITS;
}

/* Who looks a name up wants what bears it: that is on its way while the names are compared. */
static inline void weir__name_fetch_bearer(const struct weir__name *name)
{
        __builtin_prefetch((const char *)name - WEIR__NAME_BEFORE);
        __builtin_prefetch((const char *)name - WEIR__NAME_BEFORE + 64);
}

/* The place of the name in the table that belongs into that line, or NULL. */
static inline struct weir__name **weir__name_table_find(const struct weir__name_table *table, size_t line,
                                                        const struct weir__name_key *key)
{
        uint64_t tags = weir__name_tag(key->hash) * WEIR__NAME_LOWEST_BITS;

        for (size_t left = table->mask + 1; left > 0; left--, line = (line + 1) & table->mask) {
                struct weir__name_line *at = &table->lines[line];

                for (uint64_t found = weir__name_zero_bytes(weir__name_line_tags(at) ^ tags); found; found &= found - 1) {
                        struct weir__name **place = &at->names[__builtin_ctzll(found) / 8];

                        if (!*place)
                                continue;
                        weir__name_fetch_bearer(*place);
                        if (weir__name_has(*place, key))
                                return place;
                }
                if (!at->passed)
                        break;
        }
        return NULL;
}

/* The same for a name that is known to be there. */
struct weir__name **weir__name_table_place(const struct weir__name_table *table, size_t line, const struct weir__name *name);

/* Adds one that is not there; false when the table is full. */
bool weir__name_table_add(struct weir__name_table *table, size_t line, struct weir__name *name);

/* Frees the place of a name that belongs into that line. */
void weir__name_table_remove(struct weir__name_table *table, size_t line, struct weir__name **place);

/* The same for a table that will be gone soon: the counts of the lines that were passed stay. */
void weir__name_table_clear(struct weir__name_table *table, struct weir__name **place);

/* Goes through all names that belong into a line, and others that lie there, from *at = 0 on.  Returns NULL behind the last one. */
struct weir__name **weir__name_table_next(const struct weir__name_table *table, size_t line, size_t *at);

#endif
