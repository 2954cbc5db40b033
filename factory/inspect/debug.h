/* factory/inspect/debug.h: all that is live, one record after another: what weir_debug_dump prints and a page shows. */
#ifndef WEIR_FACTORY_DEBUG_H
#define WEIR_FACTORY_DEBUG_H

#include <stdbool.h>
#include <stddef.h>

#include <weir/time.h>

#include "kernel/observe/sink.h"

/* In the order in which they are shown. */
enum weir__debug_section {
        WEIR__DEBUG_CALLBACKS = 0, /* code of the program that runs now, on a worker or a thread of the executor */
        WEIR__DEBUG_SERIES,        /* roots, with all that is in them by depth */
        WEIR__DEBUG_TIMERS,        /* pending timers that are in no series, by their deadlines */
        WEIR__DEBUG_WAITS,         /* objects that tasks wait at; below, those of the tasks that are in no series */
        WEIR__DEBUG_FUNCTIONS,     /* queues of the executor in which something waits or runs */
        WEIR__DEBUG_HELD,          /* exchanges of servers that the program holds; left out without any */
        WEIR__DEBUG_SECTIONS,
};

/* Texts are of any bytes, as names are, where plain ASCII is not said.  All are valid until the function for records returns. */
struct weir__debug_record {
        enum weir__debug_section section;
        unsigned depth;     /* 0: a root; n + 1: it is in the last record of depth n */
        const char *kind;   /* "series", "timer", "parallel": plain ASCII */
        const char *name;   /* NULL: none.  With three dots where it was cut */
        size_t name_size;
        const char *state;  /* "running", "pending": plain ASCII; NULL: nothing to say */
        weir_nsec age;      /* since the start, or since the callback began; negative: not known */
        weir_nsec deadline; /* of a flow, or a lone timer: from now, negative when it has passed; WEIR_FOREVER: none */
        const char *text;   /* the reason of its waiting, or what it runs; "": nothing to say */
        const char *also;   /* what a series holds, how an object stands, what of a queue runs; NULL or "": nothing to say */
        const char *behind; /* how much is behind the current task, "2 tasks"; NULL or "": nothing */
};

/* Is called for each record.  Returns whether to stop. */
typedef bool weir__debug_record_fn(const struct weir__debug_record *record, void *context);

/* Shows all that is live, while everything goes on.  Something that starts or ends meanwhile may be shown or not.  A series that
 * goes on from one task to the next may be shown with either.  Something that is there all the time is shown once.  `show` is
 * called with no lock held, and may take its time.  Waits for no callback.
 *
 * Result:  0; -ENOMEM when something was left out; -ECHILD.  While the runtime does not run there is nothing to show.
 * Threads: any, also inside a callback. */
int weir__debug_walk(weir__debug_record_fn *show, void *context);

/* The title of a section, such as "series". */
const char *weir__debug_title(enum weir__debug_section section);

/* Prints all of it as text, for people.
 *
 * Result:  as weir__debug_walk, or the error of the sink. */
int weir__debug_print(struct weir__sink *sink);

/* Prints the first line: the version, and how much there is of everything. */
void weir__debug_print_head(struct weir__sink *sink);

#endif
