/* io/file/list.c: makes the tasks that list a directory, and tells what they have found.
 *
 * Threads: any; the callback looks.
 * Locks:   none. */
#include "io/file/queue.h"

weir_task *
weir_file_list_new(const char *path, weir_task_fn *done, void *context)
{
        return weir__file_task_by_path(WEIR__FILE_LIST, "weir_file_list_new", path, done, context);
}

const char *
weir_file_entry(const weir_task *list, size_t index, unsigned char *type)
{
        const struct weir__file_task *task = weir__file_task_of(list);

        if (!task || task->kind != WEIR__FILE_LIST || index >= task->count || task->task.status)
                return NULL;
        const char *entry = task->list->text + task->list->starts[index];
        if (type)
                *type = (unsigned char)*entry;
        return entry + 1;
}
