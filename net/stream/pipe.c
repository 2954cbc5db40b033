/* net/stream/pipe.c: a pipe to a program, our end of which is a stream.
 *
 * Threads: the owner of the process's task.
 * Locks:   none.
 *
 * The other end belongs to the settings of the process, which close it when the program has its own, or when there is none. */
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include <weir/process.h>

#include "io/process/process.h"
#include "net/stream/stream.h"

#define INPUT 0 /* descriptor of the program that it reads */

/* Returns our end, or a negative errno. */
static int
open_ends(bool is_input, int *other)
{
        int ends[2];

        if (pipe2(ends, O_CLOEXEC) < 0)
                return -errno;
        *other = weir__spawn_lift(ends[!is_input]);
        if (*other >= 0)
                return ends[is_input];
        close(ends[is_input]);
        return *other;
}

/* NULL, with a negative errno in *failed. */
static struct weir_stream *
open_pipe(bool is_input, int *other, int *failed)
{
        int own = open_ends(is_input, other);
        struct weir_stream *stream = own < 0 ? NULL : weir_stream_of(own);

        if (stream)
                return stream;
        *failed = own < 0 ? own : -errno;
        if (own < 0)
                return NULL;
        close(own);
        close(*other);
        return NULL;
}

weir_stream *
weir_process_open_pipe(weir_task *process, int which)
{
        struct weir__process *self = weir__process_to_set(process, which, "weir_process_open_pipe");
        struct weir__standard standard = {.kind = WEIR__STANDARD_FD};
        int failed;

        if (!self)
                return NULL;
        weir_stream *stream = open_pipe(which == INPUT, &standard.fd, &failed);
        if (stream)
                weir__settings_set_standard(&self->settings, which, standard);
        else
                weir__task_poison(process, failed);
        return stream;
}
