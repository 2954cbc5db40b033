/* 29-fiber-chat.c: a chat over TCP, with a fiber for each connection.
 *
 *     29-fiber-chat [address]          default 127.0.0.1:7777
 *
 * The first line of a client is its name.  Each line that follows goes to all clients.
 *
 *     series of a connection -- fiber: reads lines, and publishes them
 *                                 '- group -- fiber: writes what is published
 *
 * A fiber waits for one thing at a time.  A connection waits for two: for its own lines, and for those of others.  So it has a
 * second fiber, which is a child in a group of the first one.  When the client goes, the first one cancels the group and returns.
 *
 * Try it:  nc 127.0.0.1 7777       twice */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weir/weir.h>

#define LINE_MOST 1000 /* bytes */
#define BACKLOG   100  /* lines that a client may be behind; then it misses the oldest ones */

/* Awaits a line.  Returns a copy without its end; NULL: the client has gone, or the line is too long. */
static char *read_line(weir_stream *stream)
{
        weir_task *read = weir_stream_read_until_new(stream, "\n", 1, LINE_MOST, NULL, NULL);
        char *line = weir_await(read) ? NULL : strdup(weir_stream_data(read, NULL));

        if (line)
                line[strcspn(line, "\r\n")] = 0;
        return line;
}

struct client {
        weir_stream *stream;
        weir_subscriber *chat;
};

static int write_what_is_said(void *context)
{
        const struct client *client = context;
        int err = 0;

        while (!err) {
                weir_task *receive = weir_topic_receive_new(client->chat, NULL, NULL);

                err = weir_await(receive);
                if (!err) {
                        size_t size;
                        const void *said = weir_topic_message(receive, &size);
                        err = weir_await(weir_stream_write_new(client->stream, said, size, NULL, NULL));
                }
        }
        return err;
}

static void say(const char *name, const char *what)
{
        char line[2 * LINE_MOST + 8];
        int size = snprintf(line, sizeof line, "%s: %s\n", name, what);

        weir_topic_publish("chat", line, (size_t)size);
}

static int talk(void *context)
{
        struct client client = {.stream = context};
        char *name = read_line(client.stream), *line;

        if (!name)
                return 0;
        client.chat = weir_topic_subscribe("chat", BACKLOG);
        weir_group *group = weir_group_open();
        weir_group_start(group, weir_fiber_new(write_what_is_said, NULL, &client));
        say(name, "has come");
        while ((line = read_line(client.stream))) {
                say(name, line);
                free(line);
        }
        weir_group_cancel(group);
        weir_group_close(group); /* nothing uses `client` any more */
        say(name, "has gone");
        weir_subscriber_unref(client.chat);
        free(name);
        return 0;
}

static void on_connection(weir_stream *stream, weir_series *series, void *context)
{
        (void)context;
        weir_series_push(series, weir_fiber_new(talk, NULL, stream));
}

int main(int argc, char *argv[])
{
        return weir_stream_serve(argc > 1 ? argv[1] : "127.0.0.1:7777", on_connection, NULL) < 0;
}
