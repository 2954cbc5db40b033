/* with_curl.c: transfers of libcurl as tasks, without a thread for them: docs/own-tasks.md shows it.
 *
 *     with_curl URL [MILLISECONDS] */
#include <curl/curl.h>
#include <stdio.h>

#include "watch.h"

static CURLM *multi;
static weir_timer_id timer;

struct fetch { /* the context of its promise */
        weir_task *promise;
        CURL *easy; /* NULL: curl has let it go */
        FILE *stream;
        char *body; /* what was written to the stream */
        size_t size;
};

static void end_fetch(struct fetch *fetch)
{
        if (!fetch->easy)
                return;
        curl_multi_remove_handle(multi, fetch->easy);
        curl_easy_cleanup(fetch->easy);
        fclose(fetch->stream);
        fetch->easy = NULL;
}

/* -- what curl waits for -- */

static void go_on(curl_socket_t socket)
{
        CURLMsg *message;
        int left;

        curl_multi_socket_action(multi, socket, 0,
                                 &left); /* 0: curl looks itself what the socket is ready for */
        while ((message = curl_multi_info_read(multi, &left))) {
                int status = message->data.result == CURLE_OK ? 0 : -EIO;
                struct fetch *fetch;

                curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &fetch);
                end_fetch(fetch);
                weir_promise_end(fetch->promise, status);
        }
}

static void on_ready(struct watch *watch, bool reads, bool writes)
{
        (void)reads, (void)writes;
        go_on(watch->socket);
}

static int on_socket(CURL *easy, curl_socket_t socket, int what, void *unused, void *context)
{
        struct watch *watch = context ? context : watch_new(socket, on_ready, NULL);

        (void)easy, (void)unused;
        curl_multi_assign(multi, socket, watch);
        if (what == CURL_POLL_REMOVE)
                watch_end(watch);
        else
                watch_set(watch, what & CURL_POLL_IN, what & CURL_POLL_OUT);
        return 0;
}

static void on_timer(weir_task *task, void *context)
{
        (void)context;
        pthread_mutex_lock(&mutex);
        if (weir_task_status(task) == 0)
                go_on(CURL_SOCKET_TIMEOUT);
        pthread_mutex_unlock(&mutex);
}

static int on_timeout(CURLM *its_multi, long milliseconds, void *context)
{
        weir_task *task = milliseconds < 0
                                  ? NULL
                                  : weir_timer_new(WEIR_MSEC(milliseconds), on_timer, NULL);

        (void)its_multi, (void)context;
        weir_timer_cancel_id(timer);
        timer = weir_timer_id_of(task);
        weir_task_start(task);
        return 0;
}

/* -- the task -- */

/* On a worker: a cancel, a deadline or a shutdown was faster. */
static void stop_fetching(weir_task *promise, void *context)
{
        (void)promise;
        pthread_mutex_lock(&mutex);
        end_fetch(context);
        pthread_mutex_unlock(&mutex);
}

static void free_fetch(void *context)
{
        struct fetch *fetch = context;

        stop_fetching(NULL, fetch); /* if it was never started */
        free(fetch->body);
        free(fetch);
}

static weir_task *fetch_new(const char *url, weir_task_fn *done)
{
        struct fetch *fetch = calloc(1, sizeof *fetch);

        fetch->promise = weir_promise_new(stop_fetching, done, fetch);
        weir_promise_set_label(fetch->promise, url);
        weir_task_on_free(fetch->promise, free_fetch);
        fetch->stream = open_memstream(&fetch->body, &fetch->size);
        fetch->easy = curl_easy_init();
        curl_easy_setopt(fetch->easy, CURLOPT_URL, url);
        curl_easy_setopt(fetch->easy, CURLOPT_WRITEDATA, fetch->stream);
        curl_easy_setopt(fetch->easy, CURLOPT_PRIVATE, fetch);
        pthread_mutex_lock(&mutex);
        curl_multi_add_handle(multi, fetch->easy);
        pthread_mutex_unlock(&mutex);
        return fetch->promise;
}

/* -- a flow -- */

static void on_fetched(weir_task *promise, void *context)
{
        struct fetch *fetch = context;

        printf("%s", weir_task_status(promise) == 0 ? fetch->body
                                                    : weir_strerror(weir_task_status(promise)));
        if (weir_task_status(promise) != 0)
                putchar('\n');
}

int main(int argc, char *argv[])
{
        weir_series *series = weir_series_new(NULL, NULL);

        curl_global_init(CURL_GLOBAL_DEFAULT);
        multi = curl_multi_init();
        curl_multi_setopt(multi, CURLMOPT_SOCKETFUNCTION, on_socket);
        curl_multi_setopt(multi, CURLMOPT_TIMERFUNCTION, on_timeout);
        weir_series_push(series,
                         fetch_new(argc > 1 ? argv[1] : "https://example.org/", on_fetched));
        weir_series_set_deadline(series, WEIR_MSEC(argc > 2 ? atol(argv[2]) : 10000));
        weir_series_run(series);
        weir_shutdown(); /* first: curl has let all transfers go */
        curl_multi_cleanup(multi);
        curl_global_cleanup();
        return 0;
}
