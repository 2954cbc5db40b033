/* factory/inspect/debug_walk.h: declarations that the parts of weir__debug_walk share. */
#ifndef WEIR_FACTORY_DEBUG_WALK_H
#define WEIR_FACTORY_DEBUG_WALK_H

#include <stdint.h>

#include "factory/inspect/debug.h"
#include "factory/task/task.h"

#define WEIR__DEBUG_NAME 128 /* bytes of a name that are shown */
#define WEIR__DEBUG_TEXT 320
#define WEIR__DEBUG_ALSO 160

/* A record that is made under some lock, and shown without it. */
struct weir__debug_line {
        struct weir__debug_record record;
        char name[WEIR__DEBUG_NAME + 3];
        char text[WEIR__DEBUG_TEXT];
        char also[WEIR__DEBUG_ALSO];
        char behind[32];
};

struct weir__debug_walk {
        weir__debug_record_fn *show;
        void *context;
        int failed;
        bool is_stopped;
};

/* Empties it: no name, no state, nothing known. */
void weir__debug_line_begin(struct weir__debug_line *line, enum weir__debug_section section, unsigned depth, const char *kind);
void weir__debug_line_name(struct weir__debug_line *line, const char *name, size_t size);
__attribute__((format(printf, 2, 3))) void weir__debug_line_add(struct weir__debug_line *line, const char *format, ...);

/* Where a function is, for addr2line: "program+0x1234". */
void weir__debug_line_add_function(struct weir__debug_line *line, void (*function)(void));

/* Adds the kind of a task without its article, its name, its state and the reason of its waiting.  A lock keeps the task.
 * Returns false for a task that was not started yet, as far as can be seen: its owner may still write to it. */
bool weir__debug_line_task(struct weir__debug_line *line, const struct weir_task *task);

void weir__debug_show(struct weir__debug_walk *walk, struct weir__debug_line *line);

/* Sets the section of exchanges, which lie above this room.  Once, before the first walk. */
void weir__debug_on_held(void (*walk_held)(struct weir__debug_walk *walk));

/* The sections. */
void weir__debug_walk_series(struct weir__debug_walk *walk);
void weir__debug_walk_timers(struct weir__debug_walk *walk);

#endif
