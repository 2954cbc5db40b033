/* sse-chat.c: a chat in the browser, over Server-Sent Events.
 *
 *     sse-chat [address]               default 127.0.0.1:8888
 *
 *     GET  /                           the page
 *     GET  /events                     what is said from now on: text/event-stream
 *     POST /say     text=hello         says it to everybody: 204; 413 when it is too long
 *
 * What is said is published under the topic "chat".  Each reader subscribes to that, and sends what comes.  One that reads too
 * slowly loses the oldest words, and holds up nobody. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weir/weir.h>

#define ROOM    100  /* words that may wait for a reader */
#define LONGEST 1000 /* bytes that somebody may say at once: both bound the memory for a reader */

static const char page[] = "<!DOCTYPE html>\n<title>chat</title>\n"
                           "<form><input name=text autofocus autocomplete=off placeholder='say something'></form>\n<ul></ul>\n"
                           "<script>\n"
                           "const list = document.querySelector('ul'), form = document.querySelector('form');\n"
                           "new EventSource('/events').onmessage = event =>\n"
                           "        list.prepend(Object.assign(document.createElement('li'), {textContent: event.data}));\n"
                           "form.onsubmit = event => {\n"
                           "        event.preventDefault();\n"
                           "        fetch('/say', {method: 'POST', body: new URLSearchParams(new FormData(form))});\n"
                           "        form.reset();\n"
                           "};\n"
                           "</script>\n";

struct reader {
        weir_task *exchange;
        weir_subscriber *subscriber;
};

static void reader_free(void *context)
{
        struct reader *reader = context;

        weir_subscriber_unref(reader->subscriber);
        free(reader);
}

/* The next word is received when the system has taken this one: that is the back-pressure. */
static int send_words(void *context)
{
        const struct reader *reader = context;
        int err = 0;

        while (!err) {
                struct weir_http_event event = WEIR_HTTP_EVENT_DEFAULT;
                weir_task *receive = weir_topic_receive_new(reader->subscriber, NULL, NULL);

                err = weir_await(receive);
                event.data = weir_topic_message(receive, NULL);
                if (!err) /* the event copies it */
                        err = weir_await(weir_http_sse_event_new(reader->exchange, &event, NULL, NULL));
        }
        return err;
}

/* A race of the stream, which ends when the reader goes or the server stops, and of a fiber that sends words for ever: the end of
 * the one is the end of both. */
static void on_events(weir_task *exchange, void *context)
{
        struct reader *reader = malloc(sizeof *reader);
        weir_task *race = reader ? weir_race_new(NULL, reader) : NULL;

        (void)context;
        if (!race) {
                free(reader);
                weir_http_reply_text(exchange, 503, "out of memory\n");
                return;
        }
        weir_task_on_free(race, reader_free);
        *reader = (struct reader){exchange, weir_topic_subscribe("chat", ROOM)};
        weir_race_add(race, weir_http_sse_new(exchange, 0, NULL, NULL));
        weir_race_add(race, weir_fiber_new(send_words, NULL, reader));
        weir_series_push(weir_series_of(exchange), race);
}

static void on_say(weir_task *exchange, void *context)
{
        const char *text = weir_http_form_value(exchange, "text");

        (void)context;
        if (!text)
                weir_http_reply_text(exchange, 400, "wanted: text=WORDS\n");
        else if (strlen(text) > LONGEST)
                weir_http_reply_text(exchange, 413, "too long\n");
        else if (weir_topic_publish("chat", text, strlen(text)) < 0)
                weir_http_reply_text(exchange, 503, "out of memory\n");
        else
                weir_http_reply_status(exchange, 204);
}

static void on_page(weir_task *exchange, void *context)
{
        (void)context;
        weir_http_reply_header(exchange, "Content-Type", "text/html; charset=utf-8");
        weir_http_reply_text(exchange, 200, page);
}

int main(int argc, char *argv[])
{
        weir_http_router *router = weir_http_router_new();
        int result = weir_http_router_add(router, "GET", "/", on_page, NULL);

        if (!result)
                result = weir_http_router_add(router, "GET", "/events", on_events, NULL);
        if (!result)
                result = weir_http_router_add(router, "POST", "/say", on_say, NULL);
        if (!result)
                result = weir_http_serve(argc > 1 ? argv[1] : "127.0.0.1:8888", weir_http_router_handle, router);
        if (result < 0)
                fprintf(stderr, "sse-chat: %s\n", weir_strerror(result));
        weir_shutdown();
        weir_http_router_free(router);
        return result != 0;
}
