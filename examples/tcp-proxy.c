/* tcp-proxy.c: carries each connection to another address and back, and prints how many bytes went which way.
 *
 *     tcp-proxy [address [target]]     default 127.0.0.1:7778 127.0.0.1:7777
 *
 * An end of one side is passed on, and the other direction goes on.  A failure of one side breaks the other one, whose peer would
 * take what it has for the whole otherwise. */
#include <inttypes.h>
#include <stdio.h>

#include <weir/weir.h>

static void pumped(weir_task *pump, void *to)
{
        printf("%" PRIu64 " bytes: %s\n", weir_pump_moved(pump), weir_strerror(weir_task_status(pump)));
        if (weir_task_status(pump) != 0)
                weir_stream_break(to);
}

static weir_series *carry(weir_stream *from, weir_stream *to)
{
        weir_series *series = weir_series_new(NULL, NULL);

        weir_series_push(series, weir_pump_new(from, to, pumped, to));
        weir_series_push(series, weir_stream_finish_new(to, NULL, NULL));
        return series;
}

static void connected(weir_task *connect, void *client)
{
        weir_series *series = weir_series_of(connect);
        weir_stream *server = weir_connect_take_stream(connect);

        if (!server) {
                printf("no connection: %s\n", weir_strerror(weir_task_status(connect)));
                return; /* the series ends, and the client's connection is closed */
        }
        weir_series_set_deadline(series, WEIR_FOREVER); /* it was for the connect */
        weir_task *both = weir_parallel_new(NULL, NULL);
        weir_parallel_add_series(both, carry(client, server));
        weir_parallel_add_series(both, carry(server, client));
        weir_series_push(series, both);
        weir_stream_unref(server); /* the pumps have it */
}

static void accepted(weir_stream *client, weir_series *series, void *target)
{
        weir_series_set_deadline(series, WEIR_SEC(5));
        weir_series_push(series, weir_connect_new(target, connected, client));
}

int main(int argc, char *argv[])
{
        return weir_stream_serve(argc > 1 ? argv[1] : "127.0.0.1:7778", accepted, argc > 2 ? argv[2] : "127.0.0.1:7777") < 0;
}
