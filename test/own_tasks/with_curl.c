/* with_curl.c: transfers of libcurl as tasks, without a thread for them (docs/own-tasks.md).
 *
 *     with_curl URL [MILLISECONDS] */
#include <curl/curl.h>
#include <stdio.h>

#include "watch.h"

static CURLM *multi;

static void go_on(int socket, bool is_readable, bool is_writable)
{
        weir_task *promise;
        CURLMsg *message;
        int left;

        (void)is_readable, (void)is_writable; /* curl looks itself; -1 is CURL_SOCKET_TIMEOUT */
        curl_multi_socket_action(multi, socket, 0, &left);
        while ((message = curl_multi_info_read(multi, &left))) {
                int status = message->data.result == CURLE_OK ? 0 : -EIO;

                curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &promise);
                curl_multi_remove_handle(multi, message->easy_handle);
                weir_promise_end(promise, status);
        }
}

static int on_socket(CURL *easy, curl_socket_t socket, int what, void *unused, void *also_unused)
{
        (void)easy, (void)unused, (void)also_unused;
        watch_set(socket, what & CURL_POLL_IN, what & CURL_POLL_OUT);
        return 0;
}

static int on_timeout(CURLM *its_multi, long milliseconds, void *unused)
{
        (void)its_multi, (void)unused;
        watch_limit(milliseconds < 0 ? -1 : WEIR_MSEC(milliseconds));
        return 0;
}

/* On a worker: a cancel, a deadline or a shutdown was faster.  Curl closes the connection. */
static void stop_fetching(weir_task *promise, void *easy)
{
        (void)promise;
        pthread_mutex_lock(&mutex);
        curl_multi_remove_handle(multi, easy); /* unless that has just happened */
        pthread_mutex_unlock(&mutex);
}

static void free_easy(void *easy)
{
        stop_fetching(NULL, easy); /* if it was never started */
        curl_easy_cleanup(easy);
}

/* Writes what is at the URL to that file. */
static weir_task *fetch_new(const char *url, FILE *file, weir_task_fn *done)
{
        CURL *easy = curl_easy_init();
        weir_task *promise = weir_promise_new(stop_fetching, done, easy);

        weir_promise_set_label(promise, url);
        weir_task_on_free(promise, free_easy);
        curl_easy_setopt(easy, CURLOPT_URL, url);
        curl_easy_setopt(easy, CURLOPT_WRITEDATA, file);
        curl_easy_setopt(easy, CURLOPT_PRIVATE, promise);
        pthread_mutex_lock(&mutex);
        curl_multi_add_handle(multi, easy);
        pthread_mutex_unlock(&mutex);
        return promise;
}

int main(int argc, char *argv[])
{
        weir_nsec limit = WEIR_MSEC(argc > 2 ? atol(argv[2]) : 10000);

        curl_global_init(CURL_GLOBAL_DEFAULT);
        multi = curl_multi_init();
        curl_multi_setopt(multi, CURLMOPT_SOCKETFUNCTION, on_socket);
        curl_multi_setopt(multi, CURLMOPT_TIMERFUNCTION, on_timeout);
        weir_task *fetch = fetch_new(argc > 1 ? argv[1] : "https://example.org/", stdout, NULL);
        int status = weir_task_run(weir_timeout_new(fetch, limit));
        if (status != 0)
                puts(weir_strerror(status));
        weir_shutdown(); /* first: curl is not called any more */
        curl_multi_cleanup(multi);
        curl_global_cleanup();
        return 0;
}
