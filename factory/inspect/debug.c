/* factory/inspect/debug.c: all that is live, as text.
 *
 * Threads: any.  Text is written with no lock held. */
#include "factory/inspect/debug.h"

#include <weir/debug.h>
#include <weir/runtime.h>

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "factory/sync/guard.h"
#include "factory/task/live.h"
#include "kernel/worker/worker_pool.h"
#include "kernel/data/duration.h"
#include "kernel/executor/executor.h"
#include "kernel/base/phase.h"
#include "kernel/loop/pollers.h"
#include "kernel/observe/status.h"

struct print {
        struct weir__sink *sink;
        enum weir__debug_section next; /* the first section whose title was not printed */
        bool is_empty;                 /* nothing was printed below the last title */
};

const char *
weir__debug_title(enum weir__debug_section section)
{
        static const char *const titles[WEIR__DEBUG_SECTIONS] = {
                [WEIR__DEBUG_CALLBACKS] = "callbacks that run", [WEIR__DEBUG_SERIES] = "series",
                [WEIR__DEBUG_TIMERS] = "timers in no series",   [WEIR__DEBUG_WAITS] = "waited at",
                [WEIR__DEBUG_FUNCTIONS] = "functions",          [WEIR__DEBUG_HELD] = "exchanges that are held",
        };

        return titles[section];
}

/* Prints the titles up to that of the section.  A section without records says so, but that of exchanges is left
 * out. */
static void
print_titles(struct print *print, unsigned section)
{
        for (; print->next <= section && print->next < WEIR__DEBUG_SECTIONS; print->next++) {
                if (print->next == WEIR__DEBUG_HELD && section != WEIR__DEBUG_HELD)
                        continue;
                weir__sink_text(print->sink, print->next == 0 ? "" : print->is_empty ? " none\n" : "");
                weir__sink_printf(print->sink, "%s:", weir__debug_title(print->next));
                print->is_empty = true;
        }
}

static void
print_deadline(struct weir__sink *sink, const struct weir__debug_record *record)
{
        const char *what = record->section == WEIR__DEBUG_TIMERS ? "due" : "deadline";
        char text[WEIR__DURATION_SIZE];

        if (record->deadline == WEIR_FOREVER)
                return;
        weir__duration(text, record->deadline);
        weir__sink_printf(sink, record->deadline < 0 ? ", %s %s ago" : ", %s in %s", what, text);
}

static void
print_texts(struct weir__sink *sink, const struct weir__debug_record *record)
{
        const char *texts[] = {record->text, record->also, record->behind}, *between = ": ";

        for (unsigned i = 0; i < sizeof texts / sizeof *texts; i++) {
                if (!texts[i] || !*texts[i])
                        continue;
                weir__sink_text(sink, between);
                weir__sink_visibly(sink, texts[i], strlen(texts[i]));
                weir__sink_text(sink, texts[i] == record->behind ? " behind" : "");
                between = "; ";
        }
}

/* Returns whether the sink is broken, so that the walk ends. */
static bool
print_record(const struct weir__debug_record *record, void *context)
{
        struct print *print = context;
        struct weir__sink *sink = print->sink;
        char age[WEIR__DURATION_SIZE];

        print_titles(print, record->section);
        weir__sink_printf(sink, "%s%*s%s", print->is_empty ? "\n" : "", 2 * (int)record->depth + 2, "", record->kind);
        print->is_empty = false;
        if (record->name) {
                weir__sink_text(sink, " \"");
                weir__sink_visibly(sink, record->name, record->name_size);
                weir__sink_text(sink, "\"");
        }
        if (record->state)
                weir__sink_printf(sink, " %s", record->state);
        if (record->age >= 0)
                weir__sink_printf(sink, record->section == WEIR__DEBUG_CALLBACKS ? " for %s" : ", %s old",
                                  weir__duration(age, record->age));
        print_deadline(sink, record);
        print_texts(sink, record);
        weir__sink_text(sink, "\n");
        return sink->error;
}

static const char *
phase_name(void)
{
        switch (atomic_load(&weir__phase)) {
        case WEIR__PHASE_DOWN: return "not started";
        case WEIR__PHASE_UP: return "up";
        case WEIR__PHASE_STOPPING: return "shutting down";
        case WEIR__PHASE_ENDED: return "shut down";
        default: return "forked";
        }
}

void
weir__debug_print_head(struct weir__sink *sink)
{
        size_t unstarted = weir__census_total();
        unsigned workers, idle;
        char counted[64] = "";

        weir__worker_pool_count(&workers, &idle);
        if (unstarted > 0)
                snprintf(counted, sizeof counted, ", %zu made and not started", unstarted);
        weir__sink_printf(
                sink, "weir %s, process %d: %s, %u pollers, %u workers (%u idle), %u threads for functions, %zu series%s%s",
                WEIR_VERSION, (int)getpid(), phase_name(), weir__pollers_count(), workers, idle, weir__executor_threads(),
                weir__live_count(), counted, weir__clock_is_virtual() ? ", virtual clock" : "");
}

static void
print_deadlock(const char *sentence, void *sink)
{
        weir__sink_visibly(sink, sentence, strlen(sentence));
        weir__sink_text(sink, "\n");
}

/* -- tables of other rooms: without rows they are left out -- */

struct table {
        const struct weir__status_table *what;
        struct weir__sink *sink;
        bool has_rows;
};

static bool
print_row(const char *const cells[WEIR__STATUS_COLUMNS], void *context)
{
        struct table *table = context;
        struct weir__sink *sink = table->sink;

        if (!table->has_rows)
                weir__sink_printf(sink, "%s:\n", table->what->title);
        table->has_rows = true;
        weir__sink_text(sink, "  ");
        weir__sink_visibly(sink, cells[0], strlen(cells[0]));
        for (unsigned i = 1; i < WEIR__STATUS_COLUMNS && table->what->columns[i]; i++) {
                const char *title = table->what->columns[i];

                weir__sink_text(sink, i == 1 ? ": " : ", ");
                weir__sink_visibly(sink, cells[i], strlen(cells[i]));
                weir__sink_printf(sink, " %c%s", tolower((unsigned char)*title), title + 1);
        }
        weir__sink_text(sink, "\n");
        return sink->error;
}

static int
print_tables(struct weir__sink *sink)
{
        struct table table = {.sink = sink};
        int failed = 0;

        for (unsigned i = 0; (table.what = weir__status_at(i)); i++) {
                int result = table.what->walk(print_row, &table);

                failed = failed ? failed : result;
                table.has_rows = false;
        }
        return failed;
}

int
weir__debug_print(struct weir__sink *sink)
{
        struct print print = {.sink = sink};

        weir__debug_print_head(sink);
        weir__sink_text(sink, "\n");
        weir__deadlock_find(print_deadlock, sink);
        int failed = weir__debug_walk(print_record, &print);
        print_titles(&print, WEIR__DEBUG_SECTIONS);
        weir__sink_text(sink, print.is_empty ? " none\n" : "");
        int short_of = print_tables(sink);
        failed = failed ? failed : short_of;
        if (failed)
                weir__sink_printf(sink, "not all is shown: %s\n", weir_strerror(failed));
        int broken = weir__sink_flush(sink);
        return broken ? broken : failed;
}

int
weir_debug_dump(int fd)
{
        struct weir__fd_sink sink;

        if (weir__phase_is_forked())
                return -ECHILD;
        weir__fd_sink_init(&sink, fd);
        return weir__debug_print(&sink.sink);
}
