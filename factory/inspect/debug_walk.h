/* factory/inspect/debug_walk.h: what the parts of weir__debug_walk share. */
#ifndef WEIR_FACTORY_DEBUG_WALK_H
#define WEIR_FACTORY_DEBUG_WALK_H

#include <stdint.h>

#include "factory/inspect/debug.h"
#include "factory/task/task.h"

#define WEIR__DEBUG_NAME 128 /* bytes of a name that are shown */
#define WEIR__DEBUG_TEXT 320

/* A record that is being made, under some lock, to be shown without. */
struct weir__debug_line {
        struct weir__debug_record record;
        char name[WEIR__DEBUG_NAME + 3];
        char text[WEIR__DEBUG_TEXT];
};

struct weir__debug_walk {
        weir__debug_visit_fn *visit;
        void *context;
        int failed;
        bool stopped;
};

/* Empties it: no name, no state, nothing known. */
void weir__debug_line_begin(struct weir__debug_line *line, enum weir__debug_section section, unsigned depth, const char *kind);
void weir__debug_line_name(struct weir__debug_line *line, const char *name, size_t size);
__attribute__((format(printf, 2, 3))) void weir__debug_line_add(struct weir__debug_line *line, const char *format, ...);

const char *weir__debug_without_article(const char *kind);

/* Where a function is, for addr2line: "program+0x1234". */
void weir__debug_line_add_function(struct weir__debug_line *line, void (*function)(void));

/* The kind without its article, its name, its state, what it waits for.  Where the task does not end.  Returns whether it has
 * been started, as far as can be seen: else its owner may be at it. */
bool weir__debug_line_task(struct weir__debug_line *line, const struct weir_task *task);

void weir__debug_show(struct weir__debug_walk *walk, struct weir__debug_line *line);

/* The sections. */
void weir__debug_walk_series(struct weir__debug_walk *walk);
void weir__debug_walk_timers(struct weir__debug_walk *walk);

#endif
