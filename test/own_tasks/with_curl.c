/* test/own_tasks/with_curl.c: transfers of libcurl's multi interface as tasks: docs/own-tasks.md shows it.
 *
 *     with_curl URL [MILLISECONDS]
 *
 * One thread owns the multi handle and all transfers.  Other threads send it fetches, and promises that nobody wants any more,
 * through channels, and wake it up. */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include <curl/curl.h>
#include <weir/weir.h>

static CURLM *multi;
static weir_channel *asked, *unwanted; /* of fetches, and of promises with a reference */
static atomic_bool stops;

/* The thread of curl owns it. */
struct fetch {
        struct fetch *next;
        weir_task *promise; /* with a reference */
        CURL *easy;
        FILE *stream;
        char *body; /* what was written to the stream */
        size_t size;
};

static struct fetch *fetches;

/* -- the task -- */

/* On a worker. */
static void
stop_fetching(weir_task *promise, void *context)
{
        (void)context;
        weir_channel_post(unwanted, weir_promise_ref(promise));
        curl_multi_wakeup(multi);
}

static weir_task *
fetch_new(const char *url, weir_task_fn *done, void *context)
{
        weir_task *promise = weir_promise_new(stop_fetching, done, context);
        struct fetch *fetch = calloc(1, sizeof *fetch);

        if (!promise || !fetch)
                abort();
        weir_promise_set_label(promise, url);
        fetch->promise = weir_promise_ref(promise);
        fetch->stream = open_memstream(&fetch->body, &fetch->size);
        fetch->easy = curl_easy_init();
        curl_easy_setopt(fetch->easy, CURLOPT_URL, url);
        curl_easy_setopt(fetch->easy, CURLOPT_WRITEDATA, fetch->stream);
        curl_easy_setopt(fetch->easy, CURLOPT_PRIVATE, fetch);
        weir_channel_post(asked, fetch);
        curl_multi_wakeup(multi);
        return promise;
}

/* -- the thread of curl -- */

static void
end_fetch(struct fetch *fetch, int status)
{
        struct fetch **at = &fetches;

        while (*at != fetch)
                at = &(*at)->next;
        *at = fetch->next;
        curl_multi_remove_handle(multi, fetch->easy);
        curl_easy_cleanup(fetch->easy);
        fclose(fetch->stream);
        if (weir_promise_end_with(fetch->promise, status, fetch->body, free) < 0)
                free(fetch->body); /* nobody waits for it any more */
        weir_promise_unref(fetch->promise);
        free(fetch);
}

/* -ECANCELED is not seen: the end of the promise was decided. */
static void
drop_fetch_of(weir_task *promise)
{
        struct fetch *fetch = fetches;

        while (fetch && fetch->promise != promise)
                fetch = fetch->next;
        if (fetch)
                end_fetch(fetch, -ECANCELED);
        weir_promise_unref(promise);
}

static void
take_orders(void)
{
        void *order;

        while (weir_channel_poll(asked, &order) == 0) {
                struct fetch *fetch = order;

                fetch->next = fetches;
                fetches = fetch;
                curl_multi_add_handle(multi, fetch->easy);
        }
        while (weir_channel_poll(unwanted, &order) == 0)
                drop_fetch_of(order);
}

static void *
run_curl(void *unused)
{
        (void)unused;
        for (;;) {
                bool is_last = stops; /* no order comes after that: those that came before are taken now */
                CURLMsg *message;
                int left;

                take_orders();
                if (is_last && !fetches)
                        return NULL;
                curl_multi_perform(multi, &left);
                while ((message = curl_multi_info_read(multi, &left))) {
                        struct fetch *fetch;
                        CURLcode result = message->data.result;

                        curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &fetch);
                        end_fetch(fetch, result == CURLE_OK ? 0 : -EIO);
                }
                curl_multi_poll(multi, NULL, 0, 1000, NULL); /* until there is input, a time limit of curl's, or a wake-up */
        }
}

/* -- a flow -- */

static void
on_fetched(weir_task *fetch, void *context)
{
        (void)context;
        if (weir_task_status(fetch) == 0)
                printf("%s", (const char *)weir_promise_value(fetch));
        else
                printf("%s\n", weir_strerror(weir_task_status(fetch)));
}

int
main(int argc, char *argv[])
{
        weir_series *series = weir_series_new(NULL, NULL);
        pthread_t thread;

        curl_global_init(CURL_GLOBAL_DEFAULT);
        multi = curl_multi_init();
        asked = weir_channel_new(WEIR_UNBOUNDED, NULL);
        unwanted = weir_channel_new(WEIR_UNBOUNDED, NULL);
        pthread_create(&thread, NULL, run_curl, NULL);
        weir_series_push(series, fetch_new(argc > 1 ? argv[1] : "https://example.org/", on_fetched, NULL));
        weir_series_set_deadline(series, WEIR_MSEC(argc > 2 ? atol(argv[2]) : 10000));
        weir_series_run(series);

        weir_shutdown(); /* first: all promises have ended, and the fetches that nobody wants are on their way */
        stops = true;
        curl_multi_wakeup(multi);
        pthread_join(thread, NULL);
        weir_channel_unref(asked);
        weir_channel_unref(unwanted);
        curl_multi_cleanup(multi);
        curl_global_cleanup();
        return 0;
}
