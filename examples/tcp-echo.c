/* tcp-echo.c: returns what it gets, over TCP.  A connection that is silent for a minute is closed.
 *
 *     tcp-echo [port]                  default 8888, at 127.0.0.1
 *
 * weir has no streams yet: they will come as tasks, as HTTP bodies are.  Until then each connection has a thread of the program,
 * which is fine for hundreds of them and not for tens of thousands.  weir has the time limits and the orderly end: a named timer
 * for each connection, reset at each piece, and cancelled by its prefix when the program stops. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include <weir/weir.h>

#define SILENCE WEIR_SEC(60)
#define PAUSE   10 /* milliseconds until a connection may have ended, and given its descriptor back */

struct connection {
        int fd;
        char name[32]; /* of its timer */
};

static weir_waitgroup *connections;
static atomic_bool stops;

/* The minute is over, or the program stops: its thread sees the end of the stream. */
static void hang_up(weir_task *timer, void *context)
{
        (void)timer;
        shutdown(((struct connection *)context)->fd, SHUT_RDWR);
}

static void end_connection(struct connection *connection)
{
        weir_timer_cancel_wait(connection->name, WEIR_ALL); /* no callback has the connection any more */
        close(connection->fd);
        free(connection);
        weir_waitgroup_done(connections);
}

static void *serve(void *context)
{
        struct connection *connection = context;
        int failed = 0;
        char bytes[4096];

        for (ssize_t size; !failed && (size = recv(connection->fd, bytes, sizeof bytes, 0)) > 0;) {
                for (ssize_t sent = 0, took; sent < size && !failed; sent += took) {
                        took = send(connection->fd, bytes + sent, (size_t)(size - sent), MSG_NOSIGNAL);
                        failed = took < 0;
                }
                weir_timer_reset(connection->name, SILENCE);
        }
        end_connection(connection);
        return NULL;
}

/* The timer starts here, and not in the thread of the connection.  So each connection has one when the acceptor has ended, and
 * `stop` reaches all of them. */
static void begin_connection(int fd)
{
        struct connection *connection = malloc(sizeof *connection);
        pthread_t thread;

        if (!connection) {
                close(fd);
                return;
        }
        connection->fd = fd;
        snprintf(connection->name, sizeof connection->name, "silence/%d", fd);
        weir_waitgroup_add(connections, 1);
        if (weir_task_start(weir_timer_new_named(connection->name, SILENCE, hang_up, connection)) != 0 ||
            pthread_create(&thread, NULL, serve, connection) != 0)
                end_connection(connection);
        else
                pthread_detach(thread);
}

/* One connection that has failed, or a lack of descriptors, does not end the loop: only `stop` does. */
static void *accept_all(void *listener)
{
        while (!stops) {
                int fd = accept(*(int *)listener, NULL, NULL);

                if (fd >= 0)
                        begin_connection(fd);
                else if (errno != EINTR && errno != ECONNABORTED)
                        poll(NULL, 0, PAUSE); /* EMFILE, for example: without a pause the loop would take a CPU */
        }
        return NULL;
}

/* Returns the listening socket, or the error as -errno. */
static int listen_at(int port)
{
        struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), yes = 1;

        if (fd < 0)
                return -errno;
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
        if (bind(fd, (struct sockaddr *)&address, sizeof address) || listen(fd, 128)) {
                int failed = errno; /* close may change it */
                close(fd);
                return -failed;
        }
        return fd;
}

/* Closes the listening socket, and hangs up all connections. */
static void stop(int listener, pthread_t acceptor)
{
        stops = true;
        shutdown(listener, SHUT_RDWR); /* ends a wait in accept */
        pthread_join(acceptor, NULL);
        close(listener);
        weir_timer_cancel_prefix("silence/", WEIR_ALL);
        weir_waitgroup_wait(connections, WEIR_FOREVER);
        weir_waitgroup_free(connections);
}

int main(int argc, char *argv[])
{
        int listener = listen_at(argc > 1 ? atoi(argv[1]) : 8888), failed = listener < 0 ? listener : 0, signal;
        pthread_t acceptor;
        sigset_t signals;

        sigemptyset(&signals);
        sigaddset(&signals, SIGINT);
        sigaddset(&signals, SIGTERM);
        pthread_sigmask(SIG_BLOCK, &signals, NULL); /* in all threads: they wait for sigwait */
        connections = weir_waitgroup_new();
        if (!failed)
                failed = connections ? -pthread_create(&acceptor, NULL, accept_all, &listener) : -ENOMEM;
        if (failed) {
                fprintf(stderr, "tcp-echo: %s\n", weir_strerror(failed));
                return 1;
        }
        sigwait(&signals, &signal);
        stop(listener, acceptor);
        return weir_shutdown() != 0;
}
