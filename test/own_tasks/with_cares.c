/* with_cares.c: look-ups of c-ares as tasks, without a thread for them: docs/own-tasks.md shows it.
 *
 *     with_cares NAME [MILLISECONDS [SERVER:PORT]] */
#include <ares.h>
#include <arpa/inet.h>
#include <netdb.h>
#include <stdio.h>
#include <sys/time.h>

#include "watch.h"

struct lookup { /* the context of its promise, and of its timer */
        unsigned references;
        weir_task *promise;
        ares_channel
                channel; /* of its own, so that it is cancelled alone; NULL: c-ares has let it go */
        struct watch *watches;
        char address[INET6_ADDRSTRLEN];
};

static void unref(struct lookup *lookup)
{
        if (--lookup->references == 0)
                free(lookup);
}

/* -- what c-ares waits for; with the mutex held -- */

static void on_ready(struct watch *watch, bool reads, bool writes)
{
        struct lookup *lookup = watch->context;

        ares_process_fd(lookup->channel, reads ? watch->socket : ARES_SOCKET_BAD,
                        writes ? watch->socket : ARES_SOCKET_BAD);
}

static void on_socket(void *context, ares_socket_t socket, int reads, int writes)
{
        struct lookup *lookup = context;
        struct watch **at = &lookup->watches, *watch;

        while ((watch = *at) && watch->socket != socket)
                at = &watch->next;
        if (!watch)
                watch = *at = watch_new(socket, on_ready, lookup);
        watch_set(watch, reads, writes);
        if (!reads && !writes) {
                *at = watch->next;
                watch_end(watch);
        }
}

/* c-ares may have to ask once more. */
static void on_timer(weir_task *task, void *context)
{
        struct lookup *lookup = context;
        struct timeval left;

        pthread_mutex_lock(&mutex);
        if (task && weir_task_status(task) == 0 && lookup->channel)
                ares_process_fd(lookup->channel, ARES_SOCKET_BAD, ARES_SOCKET_BAD);
        if (lookup->channel && ares_timeout(lookup->channel, NULL, &left)) {
                weir_nsec after = WEIR_SEC(left.tv_sec) + WEIR_USEC(left.tv_usec) + WEIR_MSEC(1);

                lookup->references += weir_task_start(weir_timer_new(after, on_timer, lookup)) == 0;
        }
        unref(lookup);
        pthread_mutex_unlock(&mutex);
}

/* -- the task -- */

/* Inside a call of c-ares, once. */
static void on_found(void *context, int status, int timeouts, struct ares_addrinfo *found)
{
        struct lookup *lookup = context;

        (void)timeouts;
        if (found && found->nodes)
                getnameinfo(found->nodes->ai_addr, found->nodes->ai_addrlen, lookup->address,
                            sizeof lookup->address, NULL, 0, NI_NUMERICHOST);
        if (found)
                ares_freeaddrinfo(found);
        weir_promise_end(lookup->promise, status == ARES_SUCCESS ? 0 : -EHOSTUNREACH);
}

/* On a worker: a cancel, a deadline or a shutdown was faster. */
static void stop_looking(weir_task *promise, void *context)
{
        struct lookup *lookup = context;

        (void)promise;
        pthread_mutex_lock(&mutex);
        if (lookup->channel)
                ares_destroy(lookup->channel); /* ends what is under way, and closes the sockets */
        lookup->channel = NULL;
        pthread_mutex_unlock(&mutex);
}

static void free_lookup(void *context)
{
        stop_looking(NULL, context);
        pthread_mutex_lock(&mutex);
        unref(context);
        pthread_mutex_unlock(&mutex);
}

static weir_task *lookup_new(const char *name, const char *servers, weir_task_fn *done)
{
        struct lookup *lookup = calloc(1, sizeof *lookup);
        struct ares_options options = {
                .sock_state_cb = on_socket, .sock_state_cb_data = lookup, .timeout = 1000};
        struct ares_addrinfo_hints hints = {.ai_family = AF_INET};

        lookup->references = 2; /* of the task, and of this first call of on_timer */
        lookup->promise = weir_promise_new(stop_looking, done, lookup);
        weir_promise_set_label(lookup->promise, name);
        weir_task_on_free(lookup->promise, free_lookup);
        pthread_mutex_lock(&mutex);
        ares_init_options(&lookup->channel, &options, ARES_OPT_SOCK_STATE_CB | ARES_OPT_TIMEOUTMS);
        if (servers)
                ares_set_servers_ports_csv(lookup->channel, servers);
        ares_getaddrinfo(lookup->channel, name, NULL, &hints, on_found, lookup);
        pthread_mutex_unlock(&mutex);
        on_timer(NULL, lookup);
        return lookup->promise;
}

/* -- a flow -- */

static void on_looked_up(weir_task *promise, void *context)
{
        struct lookup *lookup = context;

        puts(weir_task_status(promise) == 0 ? lookup->address
                                            : weir_strerror(weir_task_status(promise)));
}

int main(int argc, char *argv[])
{
        weir_series *series = weir_series_new(NULL, NULL);

        ares_library_init(ARES_LIB_INIT_ALL);
        weir_series_push(series, lookup_new(argc > 1 ? argv[1] : "localhost",
                                            argc > 3 ? argv[3] : NULL, on_looked_up));
        weir_series_set_deadline(series, WEIR_MSEC(argc > 2 ? atol(argv[2]) : 10000));
        weir_series_run(series);
        weir_shutdown(); /* first: c-ares has let all look-ups go */
        ares_library_cleanup();
        return 0;
}
