/* io/file/transfer.c: makes the tasks that read and write.
 *
 * Threads: any.
 * Locks:   none. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "io/file/file.h"
#include "kernel/observe/log.h"

#define PARTS_MOST 1024 /* the kernel's limit */

/* -- what is wrong with it -- */

static void
check(struct weir__file_task *task, const char *call, bool has_memory)
{
        int fault = 0;

        if (task->offset < 0)
                fault = weir__log_refusal("%s: the offset %lld: expected 0 or more", call, (long long)task->offset);
        else if (!has_memory)
                fault = weir__log_refusal("%s: the memory is NULL: expected %zu bytes", call, task->size);
        if (fault)
                weir__task_poison(&task->task, fault);
}

/* -- one piece of memory -- */

static weir_task *
make(enum weir__file_kind kind, const char *call, weir_file *file, int64_t offset, void *data, size_t size, weir_task_fn *done,
     void *context)
{
        struct weir__file_task *task = weir__file_task_of_file(kind, file, done, context);

        if (!task)
                return NULL;
        task->offset = offset;
        task->size = size;
        task->data = data;
        check(task, call, data || !size);
        return &task->task;
}

/* With a copy of the data. */
static weir_task *
make_copy(enum weir__file_kind kind, const char *call, weir_file *file, int64_t offset, const void *data, size_t size,
          weir_task_fn *done, void *context)
{
        char *copy = data && size ? malloc(size) : NULL;

        if (data && size && !copy)
                return NULL;
        weir_task *made = make(kind, call, file, offset, copy, size, done, context);
        if (!made) {
                free(copy);
                return NULL;
        }
        ((struct weir__file_task *)made)->copies = true;
        if (copy)
                memcpy(copy, data, size);
        return made;
}

weir_task *
weir_file_read_new(weir_file *file, int64_t offset, size_t size, weir_task_fn *done, void *context)
{
        struct weir__file_task *task = weir__file_task_of_file(WEIR__FILE_READ, file, done, context);

        if (!task)
                return NULL;
        task->offset = offset;
        task->size = size;
        task->lends = true;
        check(task, "weir_file_read_new", true);
        return &task->task;
}

weir_task *
weir_file_read_into_new(weir_file *file, int64_t offset, void *memory, size_t size, weir_task_fn *done, void *context)
{
        return make(WEIR__FILE_READ, "weir_file_read_into_new", file, offset, memory, size, done, context);
}

weir_task *
weir_file_write_new(weir_file *file, int64_t offset, const void *data, size_t size, weir_task_fn *done, void *context)
{
        return make_copy(WEIR__FILE_WRITE, "weir_file_write_new", file, offset, data, size, done, context);
}

weir_task *
weir_file_write_from_new(weir_file *file, int64_t offset, const void *data, size_t size, weir_task_fn *done, void *context)
{
        return make(WEIR__FILE_WRITE, "weir_file_write_from_new", file, offset, (void *)(uintptr_t)data, size, done, context);
}

weir_task *
weir_file_append_new(weir_file *file, const void *data, size_t size, weir_task_fn *done, void *context)
{
        return make_copy(WEIR__FILE_APPEND, "weir_file_append_new", file, 0, data, size, done, context);
}

/* -- several pieces -- */

/* Result: 0; -EINVAL for NULL with a size, and for more than can be counted. */
static int
add_sizes(const struct iovec *parts, size_t count, size_t *sum)
{
        *sum = 0;
        for (size_t i = 0; i < count; i++) {
                if ((parts[i].iov_len && !parts[i].iov_base) || parts[i].iov_len > SSIZE_MAX - *sum)
                        return -EINVAL;
                *sum += parts[i].iov_len;
        }
        return 0;
}

static weir_task *
make_of_parts(enum weir__file_kind kind, const char *call, weir_file *file, int64_t offset, const struct iovec *parts,
              size_t count, weir_task_fn *done, void *context)
{
        struct weir__file_task *task = weir__file_task_of_file(kind, file, done, context);

        if (!task)
                return NULL;
        task->offset = offset;
        bool is_wrong = count > PARTS_MOST || (count && !parts) || add_sizes(parts, count, &task->size);
        if (is_wrong)
                weir__task_poison(&task->task, weir__log_refusal("%s: %zu parts: expected 0 to %d, each with memory", call, count,
                                                                 PARTS_MOST));
        else
                check(task, call, true);
        if (is_wrong || !count)
                return &task->task;
        task->parts = malloc(count * sizeof *parts);
        if (!task->parts)
                return weir__file_task_drop(task);
        memcpy(task->parts, parts, count * sizeof *parts);
        task->part_count = count;
        return &task->task;
}

weir_task *
weir_file_readv_new(weir_file *file, int64_t offset, const struct iovec *parts, size_t count, weir_task_fn *done, void *context)
{
        return make_of_parts(WEIR__FILE_READ, "weir_file_readv_new", file, offset, parts, count, done, context);
}

weir_task *
weir_file_writev_new(weir_file *file, int64_t offset, const struct iovec *parts, size_t count, weir_task_fn *done, void *context)
{
        return make_of_parts(WEIR__FILE_WRITE, "weir_file_writev_new", file, offset, parts, count, done, context);
}

weir_task *
weir_file_appendv_new(weir_file *file, const struct iovec *parts, size_t count, weir_task_fn *done, void *context)
{
        return make_of_parts(WEIR__FILE_APPEND, "weir_file_appendv_new", file, 0, parts, count, done, context);
}

/* -- what was done -- */

void *
weir_file_data(const weir_task *read, size_t *size)
{
        static char nothing;
        const struct weir__file_task *task = weir__file_task_of(read);

        if (!task || !task->lends)
                return NULL;
        if (size)
                *size = task->count;
        return task->data ? task->data : &nothing;
}

size_t
weir_file_count(const weir_task *task)
{
        const struct weir__file_task *known = weir__file_task_of(task);

        return known ? known->count : 0;
}
