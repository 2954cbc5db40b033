/* database/sql/after.c: what is done when no lock is held.
 *
 * Threads: any. */
#include "database/sql/sql.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weir/log.h>

void
weir__sql_after_say(struct weir__sql_after *after, const char *format, ...)
{
        char text[512];
        va_list arguments;

        va_start(arguments, format);
        vsnprintf(text, sizeof text, format, arguments);
        va_end(arguments);
        size_t size = strcspn(text, "\n"); /* the first line says it */
        struct weir__sql_note *note = malloc(sizeof *note + size + 1);
        if (!note)
                return;
        memcpy(note->text, text, size);
        note->text[size] = '\0';
        note->next = after->notes;
        after->notes = note;
}

/* The newest is the first of the list. */
static void
say(struct weir__sql_note *note)
{
        if (!note)
                return;
        say(note->next);
        weir_log_write(strncmp(note->text, "WARNING", 7) == 0 ? WEIR_LOG_WARNING : WEIR_LOG_INFO, "%s", note->text);
        free(note);
}

void
weir__sql_after(struct weir__sql_after *after)
{
        while (after->ended) {
                struct weir__sql_query *query = after->ended;

                after->ended = query->next;
                weir__sql_query_end(query);
        }
        after->ended_at = NULL;
        say(after->notes);
        after->notes = NULL;
}
