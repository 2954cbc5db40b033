/* 13-sse-clock.c: a page that shows the server's time, with an event each second.
 *
 *     13-sse-clock [address]       default 127.0.0.1:8888
 *
 *     GET /         the page
 *     GET /time     the events: text/event-stream
 *
 * One ticker serves all subscribers.  A list has all of them.  A client enters it when it comes, and leaves it when its stream
 * has ended, whatever ended it.
 *
 * Try it:  curl -N http://127.0.0.1:8888/time */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <weir/weir.h>

#define UNSENT_MOST ((size_t)64 * 1024)

static const char page[] =
        "<!DOCTYPE html>\n"
        "<title>time</title>\n"
        "<h1 id=\"time\">...</h1>\n"
        "<script>\n"
        "new EventSource('/time').onmessage = event => document.getElementById('time').textContent = event.data;\n"
        "</script>\n";

struct subscriber {
        weir_task *exchange; /* exists as long as the subscriber is in the list */
        struct subscriber *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct subscriber *subscribers; /* guarded by lock */

/* The stream has ended: the client has gone, or was dropped, or the server stops.  The exchange is freed next. */
static void leave(void *context)
{
        struct subscriber *subscriber = context, **link = &subscribers;

        pthread_mutex_lock(&lock);
        while (*link && *link != subscriber)
                link = &(*link)->next;
        if (*link)
                *link = subscriber->next;
        pthread_mutex_unlock(&lock);
        free(subscriber);
}

static void subscribe(weir_task *exchange)
{
        struct subscriber *subscriber = malloc(sizeof *subscriber);
        weir_task *stream = subscriber ? weir_http_sse_new(exchange, 0, NULL, subscriber) : NULL;

        if (!stream) {
                free(subscriber);
                weir_http_reply_text(exchange, 503, "out of memory\n");
                return;
        }
        weir_task_on_free(stream, leave);
        subscriber->exchange = exchange;
        pthread_mutex_lock(&lock);
        subscriber->next = subscribers;
        subscribers = subscriber;
        pthread_mutex_unlock(&lock);
        weir_series_push(weir_series_of(exchange), stream); /* there until the stream ends */
}

static void tell(const struct subscriber *subscriber, const struct weir_http_event *event)
{
        if (weir_http_unsent(subscriber->exchange) > UNSENT_MOST)
                weir_http_sse_end(subscriber->exchange); /* reads too slowly; it may reconnect */
        else
                weir_task_start(weir_http_sse_event_new(subscriber->exchange, event, NULL, NULL));
}

static void tick(weir_task *ticker, void *context)
{
        struct weir_http_event event = WEIR_HTTP_EVENT_DEFAULT;
        time_t now = time(NULL);
        char text[16], id[24];
        struct tm parts;

        (void)context;
        if (weir_task_status(ticker) != -EINPROGRESS)
                return; /* it has ended */
        strftime(text, sizeof text, "%H:%M:%S", localtime_r(&now, &parts));
        snprintf(id, sizeof id, "%lld", (long long)now);
        event.data = text;
        event.id = id;
        pthread_mutex_lock(&lock);
        for (const struct subscriber *each = subscribers; each; each = each->next)
                tell(each, &event);
        pthread_mutex_unlock(&lock);
}

static void on_request(weir_task *exchange, void *context)
{
        const char *path = weir_http_path(exchange);

        (void)context;
        if (!strcmp(path, "/time")) {
                subscribe(exchange);
        } else if (!strcmp(path, "/")) {
                weir_http_reply_header(exchange, "Content-Type", "text/html; charset=utf-8");
                weir_http_reply_append(exchange, page, sizeof page - 1);
        } else {
                weir_http_reply_text(exchange, 404, "wanted: / or /time\n");
        }
}

int main(int argc, char *argv[])
{
        const char *address = argc > 1 ? argv[1] : "127.0.0.1:8888";
        int result = weir_task_start(weir_ticker_new(WEIR_SEC(1), WEIR_TICK_SKIP, tick, NULL));

        if (!result)
                result = weir_http_serve(address, on_request, NULL);
        if (result < 0)
                fprintf(stderr, "cannot serve at %s: %s\n", address, weir_strerror(result));
        else if (result > 0)
                fprintf(stderr, "stopped; %d replies were cut\n", result);
        return result != 0;
}
