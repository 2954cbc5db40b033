/* io/file/directory.c: reads a directory into a list of names.
 *
 * Threads: a thread of the executor.
 * Locks:   none. */
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "io/file/queue.h"

#define FIRST_ROOM 1024 /* bytes */
#define OFTEN      1024 /* entries after which a cancel is looked for */

static bool
grow(void **memory, size_t *room, size_t needed, size_t unit)
{
        size_t wanted = *room ? *room : FIRST_ROOM / unit;

        while (wanted < needed)
                wanted *= 2;
        if (wanted == *room)
                return true;
        void *grown = realloc(*memory, wanted * unit);
        if (!grown)
                return false;
        *memory = grown;
        *room = wanted;
        return true;
}

static int
add(struct weir__file_list *list, const struct dirent *entry)
{
        size_t size = strlen(entry->d_name) + 2;
        void *text = list->text, *starts = list->starts;
        bool fits = grow(&text, &list->room, list->size + size, 1) &&
                    grow(&starts, &list->most, list->count + 1, sizeof *list->starts);

        list->text = text;
        list->starts = starts;
        if (!fits)
                return -ENOMEM;
        list->starts[list->count++] = list->size;
        list->text[list->size] = (char)entry->d_type;
        memcpy(list->text + list->size + 1, entry->d_name, size - 1);
        list->size += size;
        return 0;
}

static bool
is_dots(const char *name)
{
        return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

static int
read_all(struct weir__file_task *task, DIR *directory)
{
        const struct dirent *entry;
        int failed = 0;

        task->list->size = task->list->count = 0; /* the call before may have been interrupted */
        for (errno = 0; !failed && (entry = readdir(directory)); errno = 0) {
                if (!is_dots(entry->d_name))
                        failed = add(task->list, entry);
                if (!failed && task->list->count % OFTEN == OFTEN - 1)
                        failed = weir__file_obstacle(task);
        }
        return failed ? failed : -errno;
}

int
weir__file_read_directory(struct weir__file_task *task)
{
        DIR *directory = opendir(task->path);

        if (!directory)
                return -errno;
        int failed = task->list || (task->list = calloc(1, sizeof *task->list)) ? read_all(task, directory) : -ENOMEM;
        closedir(directory);
        if (!failed)
                task->count = task->list->count;
        return failed;
}

void
weir__file_free_list(struct weir__file_list *list)
{
        if (!list)
                return;
        free(list->text);
        free(list->starts);
        free(list);
}
