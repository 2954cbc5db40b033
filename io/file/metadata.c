/* io/file/metadata.c: makes the tasks that open, close, sync and look, and those that work on names.
 *
 * Threads: any.
 * Locks:   none. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "io/file/file.h"
#include "kernel/observe/log.h"

/* -- by a path -- */

weir_task *
weir__file_task_drop(struct weir__file_task *task)
{
        weir_task_dismiss(&task->task);
        return NULL;
}

static struct weir__file_task *
make_by_path(enum weir__file_kind kind, const char *call, const char *path, weir_task_fn *done, void *context)
{
        struct weir__file_task *task = weir__file_task_new(kind, NULL, done, context);

        if (!task)
                return NULL;
        if (!path)
                weir__task_poison(&task->task, weir__log_refusal("%s: the path is NULL: expected one", call));
        else if (!(task->path = strdup(path)))
                return (struct weir__file_task *)weir__file_task_drop(task);
        return task;
}

weir_task *
weir__file_task_by_path(enum weir__file_kind kind, const char *call, const char *path, weir_task_fn *done, void *context)
{
        struct weir__file_task *task = make_by_path(kind, call, path, done, context);

        return task ? &task->task : NULL;
}

weir_task *
weir_file_open_new(const char *path, int flags, unsigned mode, weir_task_fn *done, void *context)
{
        struct weir__file_task *task = make_by_path(WEIR__FILE_OPEN, "weir_file_open_new", path, done, context);

        if (!task)
                return NULL;
        task->flags = flags;
        task->mode = mode;
        task->file = path ? weir__file_new(path) : NULL;
        return path && !task->file ? weir__file_task_drop(task) : &task->task;
}

weir_file *
weir_file_open_take(weir_task *open)
{
        struct weir__file_task *task = weir__file_task_of(open);

        if (!task || task->kind != WEIR__FILE_OPEN || task->task.status)
                return NULL;
        struct weir_file *file = task->file;
        task->file = NULL;
        return file;
}

weir_task *
weir_file_rename_new(const char *from, const char *to, weir_task_fn *done, void *context)
{
        struct weir__file_task *task = make_by_path(WEIR__FILE_RENAME, "weir_file_rename_new", to ? from : to, done, context);

        if (!task || !to)
                return task ? &task->task : NULL;
        task->other = strdup(to);
        return task->other ? &task->task : weir__file_task_drop(task);
}

weir_task *
weir_file_unlink_new(const char *path, weir_task_fn *done, void *context)
{
        return weir__file_task_by_path(WEIR__FILE_UNLINK, "weir_file_unlink_new", path, done, context);
}

weir_task *
weir_file_mkdir_new(const char *path, unsigned mode, weir_task_fn *done, void *context)
{
        struct weir__file_task *task = make_by_path(WEIR__FILE_MKDIR, "weir_file_mkdir_new", path, done, context);

        if (!task)
                return NULL;
        task->mode = mode;
        return &task->task;
}

weir_task *
weir_file_rmdir_new(const char *path, weir_task_fn *done, void *context)
{
        return weir__file_task_by_path(WEIR__FILE_RMDIR, "weir_file_rmdir_new", path, done, context);
}

/* -- of an open file -- */

static weir_task *
make_of_file(enum weir__file_kind kind, weir_file *file, bool is_data_only, weir_task_fn *done, void *context)
{
        struct weir__file_task *task = weir__file_task_of_file(kind, file, done, context);

        if (!task)
                return NULL;
        task->is_data_only = is_data_only;
        return &task->task;
}

weir_task *
weir_file_close_new(weir_file *file, weir_task_fn *done, void *context)
{
        return make_of_file(WEIR__FILE_CLOSE, file, false, done, context);
}

weir_task *
weir_file_sync_new(weir_file *file, weir_task_fn *done, void *context)
{
        return make_of_file(WEIR__FILE_SYNC, file, false, done, context);
}

weir_task *
weir_file_sync_data_new(weir_file *file, weir_task_fn *done, void *context)
{
        return make_of_file(WEIR__FILE_SYNC, file, true, done, context);
}

weir_task *
weir_file_truncate_new(weir_file *file, int64_t size, weir_task_fn *done, void *context)
{
        struct weir__file_task *task = weir__file_task_of_file(WEIR__FILE_TRUNCATE, file, done, context);

        if (!task)
                return NULL;
        task->offset = size;
        if (size < 0)
                weir__task_poison(&task->task, weir__log_refusal("weir_file_truncate_new: the size %lld: expected 0 or more",
                                                                 (long long)size));
        return &task->task;
}

/* -- stat -- */

static weir_task *
with_stat(struct weir__file_task *task)
{
        if (!task)
                return NULL;
        task->stat = malloc(sizeof *task->stat);
        return task->stat ? &task->task : weir__file_task_drop(task);
}

weir_task *
weir_file_stat_new(const char *path, bool follow, weir_task_fn *done, void *context)
{
        struct weir__file_task *task = make_by_path(WEIR__FILE_STAT, "weir_file_stat_new", path, done, context);

        if (task)
                task->follows_links = follow;
        return with_stat(task);
}

weir_task *
weir_file_stat_open_new(weir_file *file, weir_task_fn *done, void *context)
{
        return with_stat(weir__file_task_of_file(WEIR__FILE_STAT, file, done, context));
}

const struct stat *
weir_file_stat(const weir_task *task)
{
        const struct weir__file_task *known = weir__file_task_of(task);

        return known && known->kind == WEIR__FILE_STAT && !known->task.status ? known->stat : NULL;
}
