/* with_cares.c: look-ups of c-ares as tasks, without a thread for them (docs/own-tasks.md).
 *
 *     with_cares NAME [MILLISECONDS [SERVER:PORT]] */
#include <ares.h>
#include <arpa/inet.h>
#include <netdb.h>
#include <stdio.h>
#include <sys/time.h>

#include "watch.h"

static ares_channel channel;

/* c-ares may have to ask once more, so it has a time limit. */
static void go_on(int socket, bool is_readable, bool is_writable)
{
        struct timeval left;

        ares_process_fd(channel, is_readable ? socket : ARES_SOCKET_BAD,
                        is_writable ? socket : ARES_SOCKET_BAD);
        if (ares_timeout(channel, NULL, &left))
                watch_limit(WEIR_SEC(left.tv_sec) + WEIR_USEC(left.tv_usec) + WEIR_MSEC(1));
        else
                watch_limit(-1);
}

static void on_socket(void *unused, ares_socket_t socket, int reads, int writes)
{
        (void)unused;
        watch_set(socket, reads, writes);
}

/* Inside a call of c-ares, once for each look-up. */
static void on_found(void *promise, int result, int timeouts, struct ares_addrinfo *found)
{
        int status = result == ARES_SUCCESS ? 0 : -EHOSTUNREACH;
        char *text = calloc(1, INET6_ADDRSTRLEN);

        (void)timeouts;
        if (found && found->nodes)
                getnameinfo(found->nodes->ai_addr, found->nodes->ai_addrlen, text, INET6_ADDRSTRLEN,
                            NULL, 0, NI_NUMERICHOST);
        if (found)
                ares_freeaddrinfo(found);
        if (weir_promise_finish(promise, status, text, free) < 0)
                free(text); /* nobody waits for it any more */
}

static weir_task *lookup_new(const char *name, weir_task_fn *done)
{
        struct ares_addrinfo_hints hints = {.ai_family = AF_INET};
        weir_task *promise = weir_promise_new(NULL, done, NULL);

        weir_promise_set_label(promise, name);
        weir_promise_ref(promise); /* for on_found */
        pthread_mutex_lock(&mutex);
        ares_getaddrinfo(channel, name, NULL, &hints, on_found, promise);
        go_on(-1, false, false); /* sets the time limit */
        pthread_mutex_unlock(&mutex);
        return promise;
}

static void on_looked_up(weir_task *promise, void *context)
{
        int status = weir_task_status(promise);

        (void)context;
        puts(status == 0 ? weir_promise_value(promise) : weir_strerror(status));
}

int main(int argc, char *argv[])
{
        struct ares_options options = {.sock_state_cb = on_socket, .timeout = 1000};
        weir_nsec limit = WEIR_MSEC(argc > 2 ? atol(argv[2]) : 10000);

        ares_library_init(ARES_LIB_INIT_ALL);
        ares_init_options(&channel, &options, ARES_OPT_SOCK_STATE_CB | ARES_OPT_TIMEOUTMS);
        if (argc > 3)
                ares_set_servers_ports_csv(channel, argv[3]);
        weir_task *lookup = lookup_new(argc > 1 ? argv[1] : "localhost", on_looked_up);
        weir_task_run(weir_timeout_new(lookup, limit));
        weir_shutdown(); /* first: c-ares is not called any more */
        ares_destroy(channel);
        ares_library_cleanup();
        return 0;
}
