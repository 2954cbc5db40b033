/* io/file/queue.h: file tasks on threads of the executor. */
#ifndef WEIR_IO_FILE_QUEUE_H
#define WEIR_IO_FILE_QUEUE_H

#include "io/file/file.h"

/* Hands a task whose word is `from` to the executor.  Returns 0, or the status that it ends with at once: the caller ends it. */
int weir__file_queue_start(struct weir__file_task *task, uint32_t from);

/* Takes a task back, unless a thread has it.  It may hold the lock of a series. */
bool weir__file_queue_take_back(struct weir__file_task *task);

/* Does it all, with its status set; on a thread of the executor. */
void weir__file_perform(struct weir__file_task *task);

/* The names lie behind each other, each with its type before it and a NUL behind it. */
struct weir__file_list {
        char *text;
        size_t size, room;
        size_t *starts; /* of each entry in `text` */
        size_t count, most;
};

/* Reads a directory into the list of the task.  Result: 0 or a negative errno.  May block. */
int weir__file_read_directory(struct weir__file_task *task);
void weir__file_free_list(struct weir__file_list *list);

#endif
