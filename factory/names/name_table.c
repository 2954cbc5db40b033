/* factory/names/name_table.c: lines of seven names with their tags, one fetch from memory each.
 *
 * Threads and locks: none of its own.
 *
 * A name lies in the line where its hash belongs or, when that is full, in one of those behind it, round to the first.  Each line
 * counts the names that went past it: where none did, a search ends. */
#include "factory/names/name_table.h"

#include <stdlib.h>
#include <string.h>

#include "kernel/base/panic.h"

#define WIDTH      WEIR__NAME_TABLE_WIDTH
#define PASSED_MAX UINT8_MAX /* stays, so that too few are never counted */

_Static_assert(sizeof(struct weir__name_line) == 8 + WIDTH * sizeof(void *), "a line has no padding");
_Static_assert(WIDTH == 7, "a line has slots for seven names");

bool
weir__name_table_make(struct weir__name_table *table, size_t lines)
{
        void *memory = calloc(lines + 1, sizeof *table->lines); /* a large one comes zeroed from the system: no stop */

        if (!memory)
                return false;
        *table = (struct weir__name_table){
                .lines = (void *)(((uintptr_t)memory + sizeof *table->lines - 1) & ~(uintptr_t)(sizeof *table->lines - 1)),
                .memory = memory,
                .mask = lines - 1,
                .shift = 32 - (unsigned)__builtin_ctzl(lines),
        };
        return true;
}

void
weir__name_table_make_in(struct weir__name_table *table, struct weir__name_line *memory, size_t lines)
{
        memset(memory, 0, lines * sizeof *memory);
        *table = (struct weir__name_table){.lines = memory, .mask = lines - 1, .shift = 32 - (unsigned)__builtin_ctzl(lines)};
}

void
weir__name_table_drop(struct weir__name_table *table)
{
        free(table->memory);
        *table = (struct weir__name_table){0};
}

struct weir__name **
weir__name_table_slot(const struct weir__name_table *table, size_t line, const struct weir__name *name)
{
        for (size_t left = table->mask + 1; left > 0; left--, line = (line + 1) & table->mask)
                for (unsigned i = 0; i < WIDTH; i++)
                        if (table->lines[line].names[i] == name)
                                return &table->lines[line].names[i];
        weir__panic("table of names: expected to find \"%s\"", name->text);
}

static bool
add_to_line(struct weir__name_line *line, struct weir__name *name)
{
        uint64_t free = ~weir__name_line_tags(line) & WEIR__NAME_HIGHEST_BITS;

        if (!free)
                return false;
        line->names[__builtin_ctzll(free) / 8] = name;
        line->tags[__builtin_ctzll(free) / 8] = weir__name_tag(name->hash);
        return true;
}

bool
weir__name_table_add(struct weir__name_table *table, size_t line, struct weir__name *name)
{
        size_t passed = 0;

        while (!add_to_line(&table->lines[(line + passed) & table->mask], name))
                if (passed++ == table->mask)
                        return false;
        for (; passed > 0; passed--, line = (line + 1) & table->mask)
                table->lines[line].passed += table->lines[line].passed < PASSED_MAX;
        return true;
}

void
weir__name_table_remove(struct weir__name_table *table, size_t line, struct weir__name **slot)
{
        size_t last = (size_t)((char *)slot - (char *)table->lines) / sizeof *table->lines;

        *slot = NULL;
        table->lines[last].tags[slot - table->lines[last].names] = 0;
        for (; line != last; line = (line + 1) & table->mask)
                table->lines[line].passed -= table->lines[line].passed < PASSED_MAX;
}

/* A line takes eight numbers of *at: its slots, and one for the look at `passed`. */
struct weir__name **
weir__name_table_next(const struct weir__name_table *table, size_t line, size_t *at)
{
        for (; *at / 8 <= table->mask; ++*at) {
                struct weir__name_line *now = &table->lines[(line + *at / 8) & table->mask];

                if (*at % 8 == WIDTH && !now->passed)
                        return NULL;
                if (*at % 8 < WIDTH && now->names[*at % 8])
                        return &now->names[(*at)++ % 8];
        }
        return NULL;
}
