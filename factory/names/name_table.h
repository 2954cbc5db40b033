/* factory/names/name_table.h: a hash table that has the head of the chain of each name.
 *
 * A data structure without threads: its owner's lock guards it.  names.c makes it grow and shrink in small steps. */
#ifndef WEIR_FACTORY_NAME_TABLE_H
#define WEIR_FACTORY_NAME_TABLE_H

#include <endian.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define WEIR__NAME_TABLE_WIDTH 7   /* names in a line */
#define WEIR__NAME_BEFORE      104 /* bytes that lie before the name in its object, about */

#define WEIR__NAME_ZOMBIE UINT32_MAX

/* The last member of an object that has a name.  The objects of a name are one chain: those that are alive, oldest first, then
 * the zombies, newest first. */
struct weir__name {
        /* Guarded by the lock of the shard: names.h.  By the role of the object:
         *
         *               oldest alive             other alive       zombie
         *      older    the newest alive         the one before    the one before; NULL at the head
         *      count    of those that are alive  0                 WEIR__NAME_ZOMBIE
         *
         * `newer` is the one behind; NULL at the end of the chain. */
        struct weir__name *older;
        struct weir__name *newer;
        uint32_t count;

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

/* One cache line.  The tags exclude most names that are not looked for, without a look at their objects. */
struct weir__name_line {
        uint8_t tags[WEIR__NAME_TABLE_WIDTH]; /* of a hash; 0: free */
        uint8_t passed; /* names behind this line that belong here or before; 255: that many or more */
        struct weir__name *names[WEIR__NAME_TABLE_WIDTH]; /* NULL: free */
};

/* All zero is no table. */
struct weir__name_table {
        struct weir__name_line *lines; /* in the order of the hashes; NULL: no table */
        void *memory;                  /* to be freed; NULL: it belongs to the owner */
        size_t mask;                   /* the number of lines - 1 */
        unsigned shift;                /* of a hash without its skipped bits: gives the line */
};

/* Makes a table of `lines`, a power of two and at least 2.  Returns false when out of memory. */
bool weir__name_table_make(struct weir__name_table *table, size_t lines);

/* The same in the owner's memory, which must lie at a multiple of 64 and outlive the table. */
void weir__name_table_make_in(struct weir__name_table *table, struct weir__name_line *memory, size_t lines);
void weir__name_table_drop(struct weir__name_table *table);

/* The line where a hash belongs.  Its upper `skipped` bits are equal in all hashes of the table. */
static inline size_t weir__name_table_line(const struct weir__name_table *table, uint32_t hash, unsigned skipped)
{
        return (uint32_t)(hash << skipped) >> table->shift;
}

/* -- looking up: inline, because each call does it -- */

/* All tags of a line are compared at once, as bytes of a word without the byte of `passed`. */
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

/* Sets the highest bit of each byte that is 0.  Bytes behind such a one may get it too. */
static inline uint64_t weir__name_zero_bytes(uint64_t word)
{
        return (word - WEIR__NAME_LOWEST_BITS) & ~word & WEIR__NAME_HIGHEST_BITS;
}

/* Prefetches the object of the name while the names are compared. */
static inline void weir__name_prefetch_object(const struct weir__name *name)
{
        __builtin_prefetch((const char *)name - WEIR__NAME_BEFORE);
        __builtin_prefetch((const char *)name - WEIR__NAME_BEFORE + 64);
}

/* The slot of a name that belongs into this line, or NULL. */
static inline struct weir__name **weir__name_table_find(const struct weir__name_table *table, size_t line,
                                                        const struct weir__name_key *key)
{
        uint64_t tags = weir__name_tag(key->hash) * WEIR__NAME_LOWEST_BITS;

        for (size_t left = table->mask + 1; left > 0; left--, line = (line + 1) & table->mask) {
                struct weir__name_line *at = &table->lines[line];

                for (uint64_t found = weir__name_zero_bytes(weir__name_line_tags(at) ^ tags); found; found &= found - 1) {
                        struct weir__name **slot = &at->names[__builtin_ctzll(found) / 8];

                        if (!*slot)
                                continue;
                        weir__name_prefetch_object(*slot);
                        if (weir__name_has(*slot, key))
                                return slot;
                }
                if (!at->passed)
                        break;
        }
        return NULL;
}

/* The same for an object that is known to be there. */
struct weir__name **weir__name_table_slot(const struct weir__name_table *table, size_t line, const struct weir__name *name);

/* Adds a name that is not there.  Returns false when the table is full. */
bool weir__name_table_add(struct weir__name_table *table, size_t line, struct weir__name *name);

/* Frees the slot of a name that belongs into that line. */
void weir__name_table_remove(struct weir__name_table *table, size_t line, struct weir__name **slot);

/* Goes through all names that belong into a line, and others that lie there, from *at = 0 on.  Returns NULL behind the last
 * one. */
struct weir__name **weir__name_table_next(const struct weir__name_table *table, size_t line, size_t *at);

#endif
