/* 25-download.c: a body of any size goes into a file, piece by piece, and how much has come is printed.
 *
 *     25-download URL FILE
 *
 *     head --> open --> read a piece --> write it --.
 *                            ^----------------------'  until a piece has no bytes
 *
 * A call is a request whose bodies stream.  The next piece is asked for when the one before it is on its way to the disk.  So a
 * slow disk makes the server wait, and the memory of one piece is enough.
 *
 * Try it:  12-file-server 127.0.0.1:8888 /usr/bin & 25-download http://127.0.0.1:8888/bash /tmp/bash */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>

#include <weir/weir.h>

static weir_http_call *call;
static weir_file *file;
static uint64_t came; /* bytes */

static void read_on(weir_task *task, void *context);

static void take_piece(weir_task *read, void *context)
{
        size_t size;
        const void *data = weir_http_call_data(read, &size);

        (void)context;
        if (weir_task_status(read) || !size)
                return; /* a failure ends the series, and without a next task it is over */
        weir_series_push(weir_series_of(read), weir_file_write_new(file, (int64_t)came, data, size, read_on, NULL));
        came += size;
        if (weir_http_call_length(call) != UINT64_MAX) /* else the server does not say how much there is */
                fprintf(stderr, "\r%3d %%", (int)(came * 100 / weir_http_call_length(call)));
}

static void read_on(weir_task *task, void *context)
{
        weir_series_push(weir_series_of(task), weir_http_call_read_new(call, take_piece, context));
}

static void opened(weir_task *open, void *context)
{
        file = weir_file_open_take(open);
        read_on(open, context);
}

static void take_head(weir_task *head, void *context)
{
        int response = weir_http_call_status(call);

        if (weir_task_status(head))
                return;
        if (response == 200) {
                weir_series_push(weir_series_of(head),
                                 weir_file_open_new(context, O_WRONLY | O_CREAT | O_TRUNC, 0644, opened, NULL));
                return;
        }
        fprintf(stderr, "the server answers %d\n", response); /* a redirect, or the page of an error */
        weir_series_fail(weir_series_of(head), -ENOENT);
}

int main(int argc, char *argv[])
{
        weir_series *series = weir_series_new(NULL, NULL);

        call = argc == 3 ? weir_http_call_new(NULL, "GET", argv[1]) : NULL;
        weir_series_stop_on_failure(series);
        weir_series_push(series, weir_http_call_head_new(call, take_head, argc == 3 ? argv[2] : NULL));
        int failed = weir_series_run(series);
        if (failed)
                fprintf(stderr, "%s\n", weir_http_call_problem(call) ? weir_http_call_problem(call) : weir_strerror(failed));
        else
                fprintf(stderr, "\r%llu bytes\n", (unsigned long long)came);
        weir_http_call_unref(call);
        weir_file_unref(file);
        weir_shutdown();
        return failed != 0;
}
