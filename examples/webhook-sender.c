/* webhook-sender.c: posts events to a receiver, and again, later each time, until it has taken them.
 *
 *     webhook-sender URL               each line on standard input is an event
 *
 * weir has no HTTP client yet.  libcurl's easy interface blocks, so each post is a function on the executor, which announces that
 * it waits.  The rest is composed: four posts at a time, and five attempts for each event, with growing pauses between them.
 * While a hundred events are on their way no more are read: a receiver that is slow or gone costs time, but no memory. */
#include <curl/curl.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weir/weir.h>

#define POSTS  4
#define EVENTS 100

struct sender {
        const char *url;
        weir_semaphore *posts;  /* bounds those that are under way */
        weir_semaphore *events; /* bounds those that are neither delivered nor given up */
        weir_waitgroup *all;
        _Atomic unsigned delivered, given_up;
};

struct event {
        struct sender *sender;
        char *body;
};

/* libcurl asks now and then; 1 breaks the transfer. */
static int is_unwanted(void *context, curl_off_t a, curl_off_t b, curl_off_t c, curl_off_t d)
{
        (void)context, (void)a, (void)b, (void)c, (void)d;
        return weir_go_cancelled() != 0;
}

static size_t drop(char *reply, size_t size, size_t count, void *context)
{
        (void)reply, (void)context;
        return size * count;
}

/* On the executor: one attempt.  -EINVAL is not tried again, -EAGAIN is. */
static void post(void *context)
{
        struct event *event = context;
        CURL *curl = curl_easy_init();
        long status = 0;

        curl_easy_setopt(curl, CURLOPT_URL, event->sender->url);
        curl_easy_setopt(curl, CURLOPT_POSTFIELDS, event->body);
        curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, drop);
        curl_easy_setopt(curl, CURLOPT_TIMEOUT, 10L);
        curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
        curl_easy_setopt(curl, CURLOPT_NOPROGRESS, 0L);
        curl_easy_setopt(curl, CURLOPT_XFERINFOFUNCTION, is_unwanted);
        weir_blocking_begin(); /* another thread computes meanwhile */
        CURLcode failed = curl_easy_perform(curl);
        weir_blocking_end();
        curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
        curl_easy_cleanup(curl);
        if (failed)
                weir_go_fail(-EAGAIN);
        else if (status >= 300) /* libcurl follows no redirect unless it is told to */
                weir_go_fail(status >= 500 || status == 429 ? -EAGAIN : -EINVAL);
}

static weir_task *attempt(void *context)
{
        struct event *event = context;

        return weir_limited_new(event->sender->posts, 1, weir_go_new("webhooks", post, NULL, event), NULL, NULL);
}

static void delivered(weir_task *retry, void *context)
{
        struct event *event = context;
        int status = weir_task_status(retry);

        if (status == 0)
                event->sender->delivered++;
        else
                event->sender->given_up++;
        printf("%s: %s, attempt %d\n", event->body, status == 0 ? "delivered" : weir_strerror(status),
               weir_retry_attempts(retry));
}

static void event_free(void *context)
{
        struct event *event = context;

        weir_semaphore_release(event->sender->events, 1);
        weir_waitgroup_done(event->sender->all);
        free(event->body);
        free(event);
}

/* Waits while there are too many events. */
static int send_event(struct sender *sender, const char *body)
{
        struct weir_retry_config config = WEIR_RETRY_CONFIG_DEFAULT;
        struct event *event = malloc(sizeof *event);
        char *copy = strdup(body);
        int failed = event && copy ? weir_task_run(weir_semaphore_acquire_new(sender->events, 1, NULL, NULL)) : -ENOMEM;

        if (failed) {
                free(copy);
                free(event);
                return failed;
        }
        *event = (struct event){sender, copy};
        weir_waitgroup_add(sender->all, 1);
        config.attempts = 5;
        config.delay = WEIR_SEC(1);
        weir_task *retry = weir_retry_new(&config, attempt, delivered, NULL);
        weir_task_set_context(retry, event, event_free); /* it is freed whatever happens, also if retry is NULL */
        return weir_task_start(retry);
}

int main(int argc, char *argv[])
{
        struct sender sender = {.url = argv[1]};
        char *line = NULL;
        size_t size = 0;

        if (argc != 2 || curl_global_init(CURL_GLOBAL_DEFAULT)) {
                fprintf(stderr, "wanted: webhook-sender URL\n");
                return 1;
        }
        sender.posts = weir_semaphore_new(POSTS);
        sender.events = weir_semaphore_new(EVENTS);
        sender.all = weir_waitgroup_new();
        while (getline(&line, &size, stdin) >= 0) {
                line[strcspn(line, "\n")] = '\0';
                int failed = send_event(&sender, line);
                if (failed) {
                        fprintf(stderr, "webhook-sender: %s: %s\n", line, weir_strerror(failed));
                        sender.given_up++;
                }
        }
        free(line);
        weir_waitgroup_wait(sender.all, WEIR_FOREVER);
        weir_shutdown();
        weir_semaphore_unref(sender.posts);
        weir_semaphore_unref(sender.events);
        weir_waitgroup_free(sender.all);
        curl_global_cleanup();
        return sender.given_up > 0;
}
