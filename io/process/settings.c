/* io/process/settings.c: what a program gets when it is started.
 *
 * Threads: the owner of the task, one at a time.
 * Locks:   none. */
#include "io/process/settings.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kernel/data/visible.h"

#define LINE_MOST 80 /* bytes of the command line that are shown */

void
weir__settings_init(struct weir__settings *settings)
{
        *settings = (struct weir__settings){
                .standard = {{.kind = WEIR__STANDARD_NOTHING},
                             {.kind = WEIR__STANDARD_COLLECT, .limit = WEIR_PROCESS_OUTPUT},
                             {.kind = WEIR__STANDARD_INHERITED}},
                .grace = WEIR_PROCESS_GRACE,
        };
        settings->last_variable = &settings->variables;
}

/* -- arguments -- */

/* The pointers, and behind them the texts. */
static int
make_argv(struct weir__settings *settings, size_t count, size_t bytes)
{
        settings->argv = malloc((count + 1) * sizeof *settings->argv + bytes);
        return settings->argv ? 0 : -ENOMEM;
}

/* Returns where the next text begins. */
static char *
add_argument(struct weir__settings *settings, size_t index, char *at, const char *text)
{
        settings->argv[index] = at;
        return stpcpy(at, text) + 1;
}

int
weir__settings_copy_arguments(struct weir__settings *settings, const char *const argv[])
{
        size_t count = 0, bytes = 0;

        if (!argv || !argv[0] || !*argv[0])
                return -EINVAL;
        for (; argv[count]; count++)
                bytes += strlen(argv[count]) + 1;
        int failed = make_argv(settings, count, bytes);
        if (failed)
                return failed;
        char *at = (char *)(settings->argv + count + 1);
        for (size_t i = 0; i < count; i++)
                at = add_argument(settings, i, at, argv[i]);
        settings->argv[count] = NULL;
        return 0;
}

int
weir__settings_copy_list(struct weir__settings *settings, const char *program, va_list arguments)
{
        size_t count = 0, bytes = 0;
        va_list again;

        if (!program || !*program)
                return -EINVAL;
        va_copy(again, arguments);
        for (const char *text = program; text; text = va_arg(again, const char *)) {
                bytes += strlen(text) + 1;
                count++;
        }
        va_end(again);
        int failed = make_argv(settings, count, bytes);
        if (failed)
                return failed;
        char *at = (char *)(settings->argv + count + 1);
        count = 0;
        for (const char *text = program; text; text = va_arg(arguments, const char *))
                at = add_argument(settings, count++, at, text);
        settings->argv[count] = NULL;
        return 0;
}

size_t
weir__settings_write_line(const struct weir__settings *settings, char *out, size_t room)
{
        size_t length = 0, most = (room < LINE_MOST ? room : LINE_MOST) - sizeof "...";

        for (char *const *argument = settings->argv; *argument; argument++) {
                size_t size = strlen(*argument), kept;

                if (argument > settings->argv && length < most)
                        out[length++] = ' ';
                kept = weir__utf8_cut(*argument, size, most - length);
                memcpy(out + length, *argument, kept);
                length += kept;
                if (kept < size) {
                        memcpy(out + length, "...", 3);
                        length += 3;
                        break;
                }
        }
        out[length] = '\0';
        return length;
}

/* -- environment, directory, limits -- */

int
weir__settings_set_directory(struct weir__settings *settings, const char *path)
{
        char *copy = strdup(path);

        if (!copy)
                return -ENOMEM;
        free(settings->directory);
        settings->directory = copy;
        return 0;
}

int
weir__settings_set_variable(struct weir__settings *settings, const char *name, const char *value)
{
        size_t name_size = strlen(name), size = name_size + (value ? 1 + strlen(value) : 0) + 1;
        struct weir__variable *variable = malloc(sizeof *variable + size);

        if (!variable)
                return -ENOMEM;
        variable->next = NULL;
        variable->name_size = name_size;
        char *at = stpcpy(variable->text, name);
        if (value) {
                *at++ = '=';
                strcpy(at, value);
        }
        *settings->last_variable = variable;
        settings->last_variable = &variable->next;
        return 0;
}

static void
free_variables(struct weir__settings *settings)
{
        while (settings->variables) {
                struct weir__variable *variable = settings->variables;

                settings->variables = variable->next;
                free(variable);
        }
        settings->last_variable = &settings->variables;
}

void
weir__settings_clear_variables(struct weir__settings *settings)
{
        free_variables(settings);
        settings->is_environment_cleared = true;
}

int
weir__settings_set_rlimit(struct weir__settings *settings, int resource, uint64_t soft, uint64_t hard)
{
        struct weir__rlimit *rlimit = settings->rlimits;

        while (rlimit && rlimit->resource != resource)
                rlimit = rlimit->next;
        if (!rlimit) {
                rlimit = malloc(sizeof *rlimit);
                if (!rlimit)
                        return -ENOMEM;
                rlimit->next = settings->rlimits;
                settings->rlimits = rlimit;
        }
        rlimit->resource = resource;
        rlimit->soft = soft;
        rlimit->hard = hard;
        return 0;
}

/* -- descriptors -- */

static void
close_standard(struct weir__standard *standard)
{
        if (standard->kind == WEIR__STANDARD_FD && standard->fd >= 0) {
                close(standard->fd);
                standard->fd = -1;
        }
        free(standard->text);
        standard->text = NULL;
}

void
weir__settings_set_standard(struct weir__settings *settings, int which, struct weir__standard standard)
{
        close_standard(&settings->standard[which]);
        settings->standard[which] = standard;
}

int
weir__settings_set_text(struct weir__settings *settings, const void *data, size_t size)
{
        struct weir__standard text = {.kind = WEIR__STANDARD_TEXT, .text = malloc(size + !size), .size = size};

        if (!text.text)
                return -ENOMEM;
        if (size)
                memcpy(text.text, data, size);
        weir__settings_set_standard(settings, 0, text);
        return 0;
}

void
weir__settings_close(struct weir__settings *settings)
{
        for (int which = 0; which < WEIR__STANDARD_FDS; which++)
                close_standard(&settings->standard[which]);
}

void
weir__settings_free(struct weir__settings *settings)
{
        weir__settings_close(settings);
        free_variables(settings);
        while (settings->rlimits) {
                struct weir__rlimit *rlimit = settings->rlimits;

                settings->rlimits = rlimit->next;
                free(rlimit);
        }
        free(settings->directory);
        free(settings->argv);
}
