/* tcp-proxy.c: carries each connection to another address and back, and prints how many bytes went which way.
 *
 *     tcp-proxy [address [target]]     default 127.0.0.1:7778 127.0.0.1:7777
 *
 * An end of one side is passed on, and the other direction goes on.  A failure of one side breaks the other one, whose peer would
 * take what it has for the whole otherwise. */
#include <inttypes.h>
#include <stdio.h>

#include <weir/weir.h>

static const char *backend = "127.0.0.1:7777";

struct way {
        weir_stream *from, *to;
};

static int carry(void *context)
{
        const struct way *way = context;
        weir_task *pump = weir_pump_new(way->from, way->to, NULL, NULL);
        int err = weir_await(pump);

        printf("%" PRIu64 " bytes: %s\n", weir_pump_moved(pump), weir_strerror(err));
        if (err)
                weir_stream_break(way->to);
        else
                err = weir_await(weir_stream_finish_new(way->to, NULL, NULL));
        return err;
}

/* A connection of a client, which is closed when this returns. */
static int serve(void *client)
{
        weir_task *connect = weir_connect_new(backend, NULL, NULL);
        int err = weir_await_within(connect, WEIR_SEC(5));
        weir_stream *server = weir_connect_take_stream(connect);

        if (!server) {
                printf("no connection: %s\n", weir_strerror(err));
                return err;
        }
        struct way there = {client, server}, back = {server, client};
        weir_group *group = weir_group_open();
        weir_group_start(group, weir_fiber_new(carry, NULL, &there));
        err = carry(&back);
        weir_group_close(group);
        weir_stream_unref(server);
        return err;
}

static void accepted(weir_stream *client, weir_series *series, void *context)
{
        (void)context;
        weir_series_push(series, weir_fiber_new(serve, NULL, client));
}

int main(int argc, char *argv[])
{
        if (argc > 2)
                backend = argv[2];
        return weir_stream_serve(argc > 1 ? argv[1] : "127.0.0.1:7778", accepted, NULL) < 0;
}
