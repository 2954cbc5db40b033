/* bench/load.c: the load generator: one thread, one epoll.
 *
 *     connect all, each asks at once -> all connected ------------+-> warm-up -> window -> end
 *     connect all -> all connected -> each asks, evenly spread ---^
 *
 * With an interval, the turns to ask go round the connections at even distances, whatever the server does: a connection that has
 * no reply yet when its turn comes owes a request, which follows the reply at once.  Latency counts from the turn, so that a
 * server that stands still for a second is charged with all that should have been asked meanwhile.
 *
 * A server that closes is asked once on each connection, and a new one is opened when it has closed the last: its end is read
 * first.  TLS has its handshake before a connection counts as open.
 *
 * All replies of a peer have the same length, which a first one tells; each is checked for its status line, its length and its
 * last bytes.  Otherwise latency is from before the request is written until its reply was read.
 *
 * Threads: the caller's only. */
#include "load.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "secure.h"

#define EVENTS           512
#define OPENING          256   /* connections that are being opened at a time */
#define FROM_ONE_ADDRESS 10000 /* connections: fewer than there are ephemeral ports */
#define REPLY_MAX        4096
#define PATIENCE         (30 * BENCH_NSEC_PER_SEC) /* to open the connections */
#define STATUS_LINE      "HTTP/1.1 200 "
#define STATUS_SIZE      (sizeof STATUS_LINE - 1)
#define TAIL             6 /* bytes of the end of a reply that are compared */

struct connection {
        int fd;                      /* -1: failed */
        struct bench_secure *secure; /* NULL: plain, or not yet connected */
        bool connected;              /* and shaken hands */
        bool was_connected;          /* once; with `anew` there are many times */
        bool waiting;                /* for a reply */
        unsigned owed;               /* turns that have passed meanwhile */
        size_t have;                 /* bytes of the reply */
        int64_t asked;               /* when the request was written, or was to be */
};

/* What a peer's replies look like, learnt from the first one. */
static struct lesson {
        size_t size; /* 0: not learnt yet */
        char tail[TAIL];
} lessons[BENCH_PEERS][BENCH_SERVICES];

struct generator {
        const struct bench_load *load;
        const struct bench_server *server;
        char request[96];
        size_t request_size;
        const struct lesson *lesson;
        int epoll_fd, turns_fd; /* a timer, of the turns; -1: not yet, or none */
        int64_t paced_since;
        size_t turn;       /* the next one */
        int64_t turn_late; /* the most in this window */
        struct connection *connections;
        unsigned opened, connected, failures;
        size_t answered;
        int64_t *late; /* of the replies within the window, when there is a delay or an interval */
        size_t late_count, late_room;
        int64_t measuring; /* since when; 0: not yet */
        long resident;     /* kilobytes of the server before there were connections */
};

/* -- bytes in and out -- */

static ssize_t
take(const struct connection *connection, char *text, size_t size)
{
        return connection->secure ? bench_secure_read(connection->secure, text, size) : read(connection->fd, text, size);
}

static ssize_t
give(const struct connection *connection, const char *text, size_t size)
{
        return connection->secure ? bench_secure_write(connection->secure, text, size) : write(connection->fd, text, size);
}

static void
drop(struct connection *connection)
{
        bench_secure_free(connection->secure);
        connection->secure = NULL;
        close(connection->fd);
        connection->fd = -1;
}

/* -- the first request -- */

static int
connect_to(int port, unsigned index, int flags)
{
        struct sockaddr_in from = {.sin_family = AF_INET,
                                   .sin_addr.s_addr = htonl(INADDR_LOOPBACK + 1 + index / FROM_ONE_ADDRESS)};
        struct sockaddr_in to = {
                .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = htons((uint16_t)port)};
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | flags, 0), on = 1;

        if (fd < 0)
                return -1;
        setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof on);
        if (bind(fd, (struct sockaddr *)&from, sizeof from) == 0 &&
            (connect(fd, (struct sockaddr *)&to, sizeof to) == 0 || errno == EINPROGRESS))
                return fd;
        close(fd);
        return -1;
}

/* Reads until nothing more has come for a while. */
static size_t
read_reply(const struct connection *connection, char text[REPLY_MAX], int64_t delay)
{
        struct timeval limit = {.tv_sec = delay / BENCH_NSEC_PER_SEC + 2};
        size_t have = 0;

        for (ssize_t size = 1; size > 0 && have < REPLY_MAX; have += (size_t)(size > 0 ? size : 0)) {
                setsockopt(connection->fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
                size = take(connection, text + have, REPLY_MAX - have);
                limit = (struct timeval){.tv_usec = 100000};
        }
        return have;
}

static bool
learn(struct generator *generator)
{
        struct lesson *lesson = &lessons[generator->server->peer][generator->server->service];

        generator->lesson = lesson;
        if (lesson->size)
                return true;
        struct connection connection = {.fd = connect_to(generator->server->port, 0, 0)};
        bool good = connection.fd >= 0;
        char text[REPLY_MAX];
        size_t size = 0;

        if (good && bench_is_secure(generator->server->service))
                good = (connection.secure = bench_secure_new(connection.fd)) && bench_secure_handshake(connection.secure) == 1;
        if (good && give(&connection, generator->request, generator->request_size) == (ssize_t)generator->request_size)
                size = read_reply(&connection, text, generator->load->delay);
        if (connection.fd >= 0)
                drop(&connection);
        if (size < STATUS_SIZE || size == REPLY_MAX || memcmp(text, STATUS_LINE, STATUS_SIZE) != 0 ||
            !memmem(text, size, "hello\n", 6)) {
                if (!bench_interrupted())
                        fprintf(stderr, "bench: %s gives no proper reply\n", bench_peer_name(generator->server->peer));
                return false;
        }
        lesson->size = size;
        memcpy(lesson->tail, text + size - TAIL, TAIL);
        return true;
}

/* -- the connections -- */

static void
fail(struct generator *generator, struct connection *connection)
{
        generator->failures++;
        if (!connection->was_connected)
                generator->connected++; /* nothing more to wait for */
        connection->connected = connection->was_connected = true;
        if (connection->fd >= 0)
                drop(connection);
}

static void
ask(struct generator *generator, struct connection *connection, int64_t at)
{
        connection->asked = at;
        connection->have = 0;
        connection->waiting = true;
        if (give(connection, generator->request, generator->request_size) != (ssize_t)generator->request_size)
                fail(generator, connection);
}

static void
open_one(struct generator *generator, struct connection *connection)
{
        struct epoll_event event = {.events = EPOLLIN | EPOLLOUT | EPOLLET, .data.ptr = connection};

        connection->connected = false;
        connection->fd = connect_to(generator->server->port, (unsigned)(connection - generator->connections), SOCK_NONBLOCK);
        if (connection->fd < 0 || epoll_ctl(generator->epoll_fd, EPOLL_CTL_ADD, connection->fd, &event) < 0)
                fail(generator, connection);
}

static void
open_some(struct generator *generator)
{
        while (generator->opened < generator->load->connections && generator->opened - generator->connected < OPENING)
                open_one(generator, &generator->connections[generator->opened++]);
}

/* The server has closed it: nothing is left in TIME_WAIT when this side resets it then. */
static void
open_anew(struct generator *generator, struct connection *connection)
{
        struct linger reset = {.l_onoff = 1};

        setsockopt(connection->fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
        drop(connection);
        open_one(generator, connection);
}

static void
note_latency(struct generator *generator, int64_t late)
{
        if (generator->late_count == generator->late_room) {
                size_t room = generator->late_room ? generator->late_room * 2 : 65536;
                int64_t *larger = realloc(generator->late, room * sizeof *larger);

                if (!larger)
                        return;
                generator->late = larger;
                generator->late_room = room;
        }
        generator->late[generator->late_count++] = late;
}

static void
answered(struct generator *generator, struct connection *connection)
{
        int64_t now = bench_now();

        generator->answered++;
        connection->waiting = false;
        if (generator->measuring &&
            (generator->load->delay || (generator->load->interval && connection->asked >= generator->measuring)))
                note_latency(generator, now - connection->asked - generator->load->delay);
        if (generator->load->once)
                return;
        if (bench_closes(generator->server->service)) {
                open_anew(generator, connection);
        } else if (!generator->load->interval) {
                ask(generator, connection, now);
        } else if (connection->owed > 0) {
                connection->owed--;
                ask(generator, connection, connection->asked + generator->load->interval);
        }
}

/* `size` bytes more of a reply, whose end they may be. */
static bool
check(const struct generator *generator, struct connection *connection, const char *text, size_t size)
{
        const struct lesson *lesson = generator->lesson;

        if (connection->have + size > lesson->size)
                return false;
        if (connection->have == 0 && (size < STATUS_SIZE || memcmp(text, STATUS_LINE, STATUS_SIZE) != 0))
                return false;
        connection->have += size;
        return connection->have < lesson->size || size < TAIL || memcmp(text + size - TAIL, lesson->tail, TAIL) == 0;
}

/* Returns whether there may be more at once. */
static bool
receive(struct generator *generator, struct connection *connection)
{
        bool closes = bench_closes(generator->server->service);
        char text[REPLY_MAX];
        ssize_t size = take(connection, text, sizeof text);

        if (size < 0 && errno == EAGAIN)
                return false;
        if (size == 0 && closes && connection->have == generator->lesson->size) {
                answered(generator, connection);
                return false;
        }
        if (size <= 0 || !connection->waiting || !check(generator, connection, text, (size_t)size)) {
                fail(generator, connection);
                return false;
        }
        if (connection->have < generator->lesson->size || closes)
                return closes || connection->secure;
        answered(generator, connection);
        return connection->secure && bench_secure_has_more(connection->secure);
}

/* It is connected; TLS may have more to do. */
static void
shake_hands(struct generator *generator, struct connection *connection)
{
        bool is_secure = bench_is_secure(generator->server->service);

        if (is_secure && !connection->secure)
                connection->secure = bench_secure_new(connection->fd);
        int result = !is_secure ? 1 : connection->secure ? bench_secure_handshake(connection->secure) : -1;
        if (result < 0)
                fail(generator, connection);
        if (result <= 0)
                return;
        connection->connected = true;
        generator->connected += !connection->was_connected;
        connection->was_connected = true;
        if (!generator->load->spread && !generator->load->interval)
                ask(generator, connection, bench_now());
}

static void
handle(struct generator *generator, const struct epoll_event *event)
{
        struct connection *connection = event->data.ptr;
        uint64_t turns;

        if (!connection)
                (void)!read(generator->turns_fd, &turns, sizeof turns); /* the clock tells which */
        else if (connection->fd < 0)
                return;
        else if (!connection->connected) {
                if (event->events & (EPOLLERR | EPOLLHUP))
                        fail(generator, connection);
                else if (event->events & EPOLLOUT)
                        shake_hands(generator, connection);
        } else if (event->events & (EPOLLIN | EPOLLERR | EPOLLHUP)) {
                while (connection->fd >= 0 && receive(generator, connection))
                        ;
        }
}

/* -- turns -- */

static int64_t
turn_time(const struct generator *generator, size_t turn)
{
        return generator->paced_since +
               (int64_t)((double)turn * (double)generator->load->interval / generator->load->connections);
}

static void
take_turns(struct generator *generator)
{
        for (int64_t now = bench_now(), at; (at = turn_time(generator, generator->turn)) <= now; generator->turn++) {
                struct connection *connection = &generator->connections[generator->turn % generator->load->connections];

                if (now - at > generator->turn_late)
                        generator->turn_late = now - at;
                if (connection->fd < 0)
                        continue;
                if (connection->waiting)
                        connection->owed++;
                else
                        ask(generator, connection, at);
        }
}

/* From now on; they go on for ever. */
static bool
begin_turns(struct generator *generator)
{
        struct epoll_event event = {.events = EPOLLIN};
        struct itimerspec turns = {.it_value.tv_nsec = 1,
                                   .it_interval.tv_nsec = generator->load->interval / (int64_t)generator->load->connections};

        generator->turns_fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
        generator->paced_since = bench_now();
        return generator->turns_fd >= 0 && timerfd_settime(generator->turns_fd, 0, &turns, NULL) == 0 &&
               epoll_ctl(generator->epoll_fd, EPOLL_CTL_ADD, generator->turns_fd, &event) == 0;
}

/* What is not answered at the end of the window is at least so late. */
static void
note_unanswered(struct generator *generator, int64_t now)
{
        for (unsigned i = 0; i < generator->opened; i++) {
                const struct connection *connection = &generator->connections[i];
                int64_t asked = connection->asked;

                if (connection->fd < 0 || !connection->waiting)
                        continue;
                for (unsigned owed = 0; owed <= connection->owed; owed++, asked += generator->load->interval)
                        if (asked >= generator->measuring)
                                note_latency(generator, now - asked);
        }
}

/* -- the loop -- */

/* Runs the loop until the instant, or until all are connected; false when interrupted. */
static bool
run_until(struct generator *generator, int64_t until, bool connecting)
{
        struct epoll_event events[EVENTS];

        while (bench_now() < until) {
                if (bench_interrupted())
                        return false;
                if (connecting) {
                        open_some(generator);
                        if (generator->connected == generator->load->connections)
                                break;
                }
                if (generator->turns_fd >= 0)
                        take_turns(generator);
                int64_t left = (until - bench_now()) / 1000000;
                int count = epoll_wait(generator->epoll_fd, events, EVENTS, left > 100 ? 100 : left < 0 ? 0 : (int)left);
                for (int i = 0; i < count; i++)
                        handle(generator, &events[i]);
        }
        return true;
}

/* Busily, to be punctual. */
static bool
ask_evenly(struct generator *generator)
{
        unsigned count = generator->opened;
        int64_t began = bench_now();

        for (unsigned asked = 0; asked < count;) {
                unsigned due = (unsigned)((double)(bench_now() - began) / (double)generator->load->spread * count);

                for (; asked < due && asked < count; asked++)
                        if (generator->connections[asked].fd >= 0)
                                ask(generator, &generator->connections[asked], bench_now());
                if (!run_until(generator, bench_now() + 1000, false))
                        return false;
        }
        return true;
}

/* Without leaving anything in TIME_WAIT: a run makes more connections than there are ports. */
static void
close_all(struct generator *generator)
{
        struct linger reset = {.l_onoff = 1};

        for (unsigned i = 0; i < generator->opened; i++) {
                if (generator->connections[i].fd < 0)
                        continue;
                setsockopt(generator->connections[i].fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
                drop(&generator->connections[i]);
        }
        if (generator->turns_fd >= 0)
                close(generator->turns_fd);
        close(generator->epoll_fd);
}

/* -- the window -- */

static void
tell_latency(struct generator *generator, struct bench_figures *figures)
{
        for (size_t i = 0; i < generator->late_count; i++)
                figures->early += generator->late[i] < 0;
        figures->turn_late_ms = (double)generator->turn_late / 1e6;
        figures->late_p50_ms = (double)bench_quantile(generator->late, generator->late_count, 0.5) / 1e6;
        figures->late_p99_ms = (double)bench_quantile(generator->late, generator->late_count, 0.99) / 1e6;
        figures->ideal = figures->requests / figures->seconds /
                         ((double)generator->load->connections * (double)BENCH_NSEC_PER_SEC /
                          (double)(generator->load->delay + generator->load->interval));
}

bool
bench_load_window(struct generator *generator, struct bench_figures *figures)
{
        int64_t cpu = bench_server_cpu(generator->server), own = bench_cpu(), busy = bench_machine_busy(), began = bench_now();
        size_t before = generator->answered;

        *figures = (struct bench_figures){0};
        generator->measuring = began;
        generator->late_count = 0;
        generator->turn_late = 0;
        if (!run_until(generator, began + generator->load->window, false))
                return false;
        if (generator->load->interval)
                note_unanswered(generator, bench_now());
        figures->requests = (double)(generator->answered - before);
        figures->seconds = (double)(bench_now() - began) / 1e9;
        cpu = bench_server_cpu(generator->server) - cpu;
        figures->cpu_us = (double)cpu / 1e3 / figures->requests;
        int64_t others = bench_machine_busy() - busy - cpu - (bench_cpu() - own);
        figures->others = others > 0 ? (double)others / figures->seconds / 1e7 : 0;
        figures->idle_percent = 100 - (double)cpu / figures->seconds / 1e7;
        long resident = bench_memory(generator->server->pid, "VmRSS:");
        figures->connection_bytes = (double)(resident - generator->resident) * 1024 / generator->load->connections;
        figures->resident_mb = (double)resident / 1024;
        figures->peak_mb = (double)bench_memory(generator->server->pid, "VmHWM:") / 1024;
        figures->failures = generator->failures;
        figures->reply_bytes = (double)generator->lesson->size;
        if (generator->load->delay || generator->load->interval)
                tell_latency(generator, figures);
        return true;
}

static bool
get_going(struct generator *generator)
{
        if (!learn(generator))
                return false;
        generator->resident = bench_memory(generator->server->pid, "VmRSS:");
        if (!run_until(generator, bench_now() + PATIENCE, true))
                return false;
        if (generator->connected < generator->load->connections) {
                fprintf(stderr, "bench: %s: only %u connections of %u could be opened\n",
                        bench_peer_name(generator->server->peer), generator->connected, generator->load->connections);
                return false;
        }
        if (generator->load->interval ? !begin_turns(generator) : generator->load->spread && !ask_evenly(generator))
                return false;
        return run_until(generator, bench_now() + generator->load->warm_up, false);
}

void
bench_load_end(struct generator *generator)
{
        if (!generator)
                return;
        close_all(generator);
        free(generator->connections);
        free(generator->late);
        free(generator);
}

struct generator *
bench_load_begin(const struct bench_load *load, const struct bench_server *server)
{
        struct generator *generator = calloc(1, sizeof *generator);

        if (!generator)
                return NULL;
        generator->load = load;
        generator->server = server;
        generator->turns_fd = -1;
        generator->request_size = (size_t)snprintf(generator->request, sizeof generator->request,
                                                   "GET / HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nConnection: %s\r\n\r\n", server->port,
                                                   bench_closes(server->service) ? "close" : "keep-alive");
        generator->connections = calloc(load->connections, sizeof *generator->connections);
        generator->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
        if (generator->connections && generator->epoll_fd >= 0 && get_going(generator))
                return generator;
        bench_load_end(generator);
        return NULL;
}

bool
bench_load(const struct bench_load *load, const struct bench_server *server, struct bench_figures *figures)
{
        struct generator *generator = bench_load_begin(load, server);
        bool good = generator && bench_load_window(generator, figures);

        bench_load_end(generator);
        return good;
}
