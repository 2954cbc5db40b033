/* 17-hedged.c: asks a second time when the first answer is late, takes the first answer, and cancels the other request.
 *
 *     17-hedged [address]              default 127.0.0.1:8888
 *
 *     GET /?first=M&second=N           two backends, which take M and N milliseconds; default 1000 and 20
 *
 * Most answers are fast, few are slow, and a page that needs a hundred answers is as slow as the slowest.  So a client that has
 * waited for longer than almost any answer takes, here 50 ms, asks another backend.  That costs few additional requests, and
 * hides the slow answers.
 *
 *     race -+- first ------------------------ cancelled when the second answers
 *           '- 50 ms, then second ----------- never asked when the first answers before that
 *
 * For servers that are alike the HTTP client does this by itself (hedge_percent, weir/upstream.h): it knows what slow is, and
 * bounds the additional requests.  A flow of one's own, as here, asks something else second, or chooses the time.
 *
 * Try it:  curl 'http://127.0.0.1:8888/'
 *          curl 'http://127.0.0.1:8888/?first=20' */
#include <stdio.h>
#include <stdlib.h>

#include <weir/weir.h>

/* The data of one request. */
struct hedge {
        weir_task *exchange;
        const char *first, *second; /* the result of each */
};

/* Either backend; the context is the place to write to. */
static void answered(weir_task *backend, void *context)
{
        const char **place = context;

        *place = weir_task_status(backend) == 0 ? "answered" : weir_strerror(weir_task_status(backend));
}

/* Both have ended: the slower one was cancelled, so nothing of it is left. */
static void decided(weir_task *race, void *context)
{
        static const char *const names[] = {"first", "second"};
        struct hedge *hedge = context;
        int winner = weir_race_winner(race);
        char text[200];

        snprintf(text, sizeof text, "%s\nfirst: %s\nsecond: %s\n", winner < 0 ? "none" : names[winner], hedge->first,
                 hedge->second);
        weir_http_reply_text(hedge->exchange, winner < 0 ? 502 : 200, text);
}

/* A backend that takes as long as the query says.  Here it is a timer, in a real program a task that asks another server. */
static weir_task *ask_backend(struct hedge *hedge, const char *name, long milliseconds, const char **place)
{
        const char *value = weir_http_query_value(hedge->exchange, name);

        return weir_timer_new(WEIR_MSEC(value ? strtol(value, NULL, 10) : milliseconds), answered, place);
}

static void on_request(weir_task *exchange, void *context)
{
        struct hedge *hedge = calloc(1, sizeof *hedge);

        (void)context;
        if (!hedge) {
                weir_http_reply_text(exchange, 503, "out of memory\n");
                return;
        }
        *hedge = (struct hedge){exchange, "never asked", "never asked"};

        weir_series *second = weir_series_new(NULL, NULL);
        weir_series_push(second, weir_timer_new(WEIR_MSEC(50), NULL, NULL));
        weir_series_push(second, ask_backend(hedge, "second", 20, &hedge->second));

        weir_task *race = weir_race_new(decided, NULL);
        weir_race_add(race, ask_backend(hedge, "first", 1000, &hedge->first));
        weir_race_add_series(race, second);
        weir_task_set_context(race, hedge, free);
        if (weir_series_push(weir_series_of(exchange), race))
                weir_http_reply_text(exchange, 503, "out of memory\n");
}

int main(int argc, char *argv[])
{
        const char *address = argc > 1 ? argv[1] : "127.0.0.1:8888";
        int result = weir_http_serve(address, on_request, NULL);

        if (result < 0)
                fprintf(stderr, "cannot serve at %s: %s\n", address, weir_strerror(result));
        else if (result > 0)
                fprintf(stderr, "stopped; %d replies were cut\n", result);
        return result != 0;
}
