/* tcp-echo.c: returns what it gets, over TCP.
 *
 *     tcp-echo [address]               default 127.0.0.1:7777 */
#include <weir/weir.h>

static void write_back(weir_task *read, void *stream)
{
        weir_series *series = weir_series_of(read);
        size_t size;
        const void *data = weir_stream_data(read, &size);

        if (weir_task_status(read) != 0)
                return; /* the peer has gone: the series ends, and the stream is closed */
        weir_series_push(series, weir_stream_write_new(stream, data, size, NULL, NULL));
        weir_series_push(series, weir_stream_read_new(stream, 1, 4096, write_back, stream));
}

static void echo(weir_stream *stream, weir_series *series, void *context)
{
        (void)context;
        weir_series_push(series, weir_stream_read_new(stream, 1, 4096, write_back, stream));
}

int main(int argc, char *argv[])
{
        return weir_stream_serve(argc > 1 ? argv[1] : "127.0.0.1:7777", echo, NULL) < 0;
}
