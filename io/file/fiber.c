/* io/file/fiber.c: files as they are opened, read and written in a fiber.
 *
 * Threads: a fiber, on its stack, or a thread of the program; the callbacks on any worker, while that waits.
 * Locks:   none. */
#include <weir/file.h>

#include "factory/fiber/fiber.h"

static void
take_file(weir_task *open, void *context)
{
        weir_file **file = context;

        *file = weir_file_open_take(open);
}

int
weir_fiber_open(const char *path, int flags, unsigned mode, weir_file **file)
{
        *file = NULL;
        return weir__await(weir_file_open_new(path, flags, mode, take_file, file), WEIR__FIBER_AT);
}

static void
take_count(weir_task *read, void *context)
{
        size_t *count = context;

        *count = weir_file_count(read);
}

/* The memory stays: an await returns when its task has ended. */
ssize_t
weir_fiber_pread(weir_file *file, int64_t offset, void *memory, size_t size)
{
        size_t count = 0;
        int status = weir__await(weir_file_read_into_new(file, offset, memory, size, take_count, &count), WEIR__FIBER_AT);

        return status ? status : (ssize_t)count;
}

int
weir_fiber_pwrite(weir_file *file, int64_t offset, const void *data, size_t size)
{
        return weir__await(weir_file_write_from_new(file, offset, data, size, NULL, NULL), WEIR__FIBER_AT);
}
