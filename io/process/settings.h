/* io/process/settings.h: what a program gets when it is started. */
#ifndef WEIR_IO_SETTINGS_H
#define WEIR_IO_SETTINGS_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weir/process.h>

#define WEIR__STANDARD_FDS 3 /* input, output, errors */

enum weir__standard_kind {
        WEIR__STANDARD_NOTHING = 0,
        WEIR__STANDARD_INHERITED,
        WEIR__STANDARD_FD,      /* `fd`, a duplicate that belongs to the settings */
        WEIR__STANDARD_TEXT,    /* of the input: `text` */
        WEIR__STANDARD_COLLECT, /* up to `limit` */
        WEIR__STANDARD_MERGED,  /* of the errors: as the output */
};

/* What one of the three descriptors of the program is. */
struct weir__standard {
        enum weir__standard_kind kind;
        int fd;
        char *text;
        size_t size; /* of the text */
        size_t limit;
};

/* A variable that is set, "NAME=VALUE", or removed, "NAME".  In the order of the calls. */
struct weir__variable {
        struct weir__variable *next;
        size_t name_size;
        char text[];
};

struct weir__rlimit {
        struct weir__rlimit *next;
        int resource;
        uint64_t soft, hard;
};

struct weir__settings {
        char **argv; /* one block, with the strings; NULL: the making has failed */
        char *directory;
        struct weir__variable *variables, **last_variable;
        bool is_environment_cleared;
        enum weir_process_group group;
        struct weir__rlimit *rlimits;
        struct weir__standard standard[WEIR__STANDARD_FDS];
        weir_nsec grace;
};

/* The defaults, without arguments. */
void weir__settings_init(struct weir__settings *settings);

/* Result: 0; -EINVAL: there is no program; -ENOMEM. */
int weir__settings_copy_arguments(struct weir__settings *settings, const char *const argv[]);
int weir__settings_copy_list(struct weir__settings *settings, const char *program, va_list arguments);

/* Writes the arguments with spaces between them, cut to `room` bytes with the NUL and to 80.  Returns how many bytes it wrote,
 * without the NUL. */
size_t weir__settings_write_line(const struct weir__settings *settings, char *out, size_t room);

/* Result: 0 or -ENOMEM. */
int weir__settings_set_directory(struct weir__settings *settings, const char *path);
int weir__settings_set_variable(struct weir__settings *settings, const char *name, const char *value);
void weir__settings_clear_variables(struct weir__settings *settings);
int weir__settings_set_rlimit(struct weir__settings *settings, int resource, uint64_t soft, uint64_t hard);
int weir__settings_set_text(struct weir__settings *settings, const void *data, size_t size);

/* Replaces what the descriptor was. */
void weir__settings_set_standard(struct weir__settings *settings, int which, struct weir__standard standard);

/* Gives up the text and the duplicates of descriptors, once the program has its own. */
void weir__settings_close(struct weir__settings *settings);

/* Gives up all. */
void weir__settings_free(struct weir__settings *settings);

#endif
