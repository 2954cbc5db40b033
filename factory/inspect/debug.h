/* factory/inspect/debug.h: all that is alive, one record after another: what weir_debug_dump prints and a page shows. */
#ifndef WEIR_FACTORY_DEBUG_H
#define WEIR_FACTORY_DEBUG_H

#include <stdbool.h>
#include <stddef.h>

#include <weir/time.h>

#include "kernel/observe/sink.h"

/* In the order in which they come. */
enum weir__debug_section {
        WEIR__DEBUG_CALLBACKS = 0, /* code of the program that runs now, on a worker or a thread of the executor */
        WEIR__DEBUG_SERIES,        /* roots, also lone tasks that run other series; and what is in them, by depth */
        WEIR__DEBUG_TIMERS,        /* pending ones that are in no series, by their deadlines */
        WEIR__DEBUG_WAITS,         /* objects that tasks wait at; below, the tasks in no series among the first */
        WEIR__DEBUG_FUNCTIONS,     /* queues of the executor that have something to run, or running */
        WEIR__DEBUG_SECTIONS,
};

/* Texts are of any bytes, as names are, but what is said to be plain ASCII; all are good until the visitor returns. */
struct weir__debug_record {
        enum weir__debug_section section;
        unsigned depth;     /* 0: a root; one more for what is in the last record of one less */
        const char *kind;   /* "series", "timer", "parallel": plain ASCII */
        const char *name;   /* NULL: none.  With three dots where it was cut */
        size_t name_size;
        const char *state;  /* "running", "pending": plain ASCII; NULL: nothing to say */
        weir_nsec age;      /* since it started, or the callback began; negative: not known */
        weir_nsec deadline; /* of a flow, or a lone timer: from now, negative when that is over; WEIR_FOREVER: none */
        const char *text;   /* what it waits for, and how much is behind it; "": nothing to say */
};

/* Returns whether to stop. */
typedef bool weir__debug_visit_fn(const struct weir__debug_record *record, void *context);

/* Shows all of it, while it goes on: what starts or ends meanwhile may be shown or not, and what goes on from one task to the
 * next may be shown on either; what is there all the time is shown once.  The visitor runs with no lock held, and may take its
 * time.  Waits for no callback.
 *
 * Result:  0; -ENOMEM when something was left out; -ECHILD.  While the runtime does not run there is nothing to show.
 * Threads: any, also inside a callback. */
int weir__debug_walk(weir__debug_visit_fn *visit, void *context);

/* "series", for above its records. */
const char *weir__debug_title(enum weir__debug_section section);

/* All of it as text, for people.  Result: as weir__debug_walk, or the error of the sink. */
int weir__debug_print(struct weir__sink *sink);

/* The line above it all: what runs, and how much of it there is. */
void weir__debug_print_head(struct weir__sink *sink);

#endif
