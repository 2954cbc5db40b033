/* webhook-sender.c: posts events to a receiver, and again, later each time, until it has taken them.
 *
 *     webhook-sender URL               each line on standard input is an event
 *
 * Each event is a retry of one request.  The client has at most four connections to a host, so there are four posts at a time,
 * and the others wait in their order.  While a hundred events are on their way no more are read: a receiver that is slow or gone
 * costs time, but no memory. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weir/weir.h>

#define CONNECTIONS 4
#define EVENTS      100

struct sender {
        const char *url;
        weir_client *client;
        weir_semaphore *events; /* bounds those that are neither delivered nor given up */
        weir_waitgroup *all;
        _Atomic unsigned delivered, given_up;
};

struct event {
        struct sender *sender;
        char *body;
        int response;   /* the status code of the last attempt; 0: there was none */
        weir_nsec wait; /* that the receiver has asked for; below 0: it has not */
};

static void tried(weir_task *post, void *context)
{
        struct event *event = context;

        event->response = weir_http_response_status(post);
        event->wait = weir_http_response_retry_after(post);
}

static weir_task *attempt(void *context)
{
        struct event *event = context;
        weir_task *post = weir_client_request_new(event->sender->client, "POST", event->sender->url, tried, event);

        weir_http_request_lend_body(post, event->body, strlen(event->body), "text/plain");
        weir_http_request_set_limit(post, WEIR_HTTP_LIMIT_WHOLE, WEIR_SEC(10));
        weir_http_request_fail_on_error(post);
        return post;
}

/* What the receiver refuses is not sent again. */
static int is_worth_it(int status, void *context)
{
        const struct event *event = context;

        return weir_http_retry_if(status, NULL) || event->response == 500;
}

static weir_nsec wait_before(int status, weir_nsec planned, void *context)
{
        const struct event *event = context;

        (void)status;
        return event->wait >= 0 ? event->wait : planned;
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
        *event = (struct event){.sender = sender, .body = copy, .wait = -1};
        weir_waitgroup_add(sender->all, 1);
        config.attempts = 5;
        config.delay = WEIR_SEC(1);
        config.retry_if = is_worth_it;
        config.delay_of = wait_before;
        weir_task *retry = weir_retry_new(&config, attempt, delivered, NULL);
        weir_task_set_context(retry, event, event_free); /* it is freed whatever happens, also if retry is NULL */
        return weir_task_start(retry);
}

static int sender_init(struct sender *sender, const char *url)
{
        struct weir_client_config config = WEIR_CLIENT_CONFIG_DEFAULT;

        config.connections = CONNECTIONS;
        sender->url = url;
        sender->client = weir_client_new(&config);
        sender->events = weir_semaphore_new(EVENTS);
        sender->all = weir_waitgroup_new();
        return sender->client && sender->events && sender->all ? 0 : -ENOMEM;
}

static void sender_done(struct sender *sender)
{
        weir_client_unref(sender->client);
        weir_semaphore_unref(sender->events);
        weir_waitgroup_free(sender->all);
}

int main(int argc, char *argv[])
{
        struct sender sender = {.delivered = 0};
        char *line = NULL;
        size_t size = 0;

        if (argc != 2 || sender_init(&sender, argv[1])) {
                fprintf(stderr, "wanted: webhook-sender URL\n");
                return 1;
        }
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
        sender_done(&sender);
        weir_shutdown();
        return sender.given_up > 0;
}
