/* bench/protocol.c: what a message of 32 bytes with its length before it costs a server, beside a raw epoll loop and Go, which do
 * the same framing.  Requests come one at a time, or 16 at once.
 *
 *     protocol [quick] [part of a case's name]
 *
 * The server under test is a child process on the first CPU, the clients are this process, on the last one.  The peers take turns
 * within each round, in an order that changes.
 *
 * Threads: one. */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench.h"
#include "protocol.h"

#define MESSAGE  36 /* with its length */
#define DEPTH    16
#define CPU_TIME "server CPU ns per message"
#define WALL     "wall ns per message"

struct protocol_case {
        const char *name;
        unsigned connections, depth;
};

static const struct protocol_case cases[] = {
        {"c=64, depth 1", 64, 1},
        {"c=64, depth 16", 64, DEPTH},
};

static struct {
        bool quick;
        const char *only;
        int server_cpu, load_cpu;
        cpu_set_t all;
} options;

/* -- servers -- */

struct server {
        pid_t pid;
        int port;
};

static void
place(int cpu)
{
        cpu_set_t set = options.all;

        if (cpu >= 0) {
                CPU_ZERO(&set);
                CPU_SET(cpu, &set);
        }
        sched_setaffinity(0, sizeof set, &set);
}

static bool
start_server(struct server *server, const struct protocol_peer *peer)
{
        int ends[2], parent = getpid();

        if (pipe(ends) < 0)
                return false;
        server->pid = fork();
        if (server->pid == 0) {
                bench_follow_parent(parent);
                place(options.server_cpu);
                close(ends[0]);
                peer->serve(ends[1]);
                _exit(1);
        }
        close(ends[1]);
        bool has_begun = read(ends[0], &server->port, sizeof server->port) == sizeof server->port;
        close(ends[0]);
        return has_begun;
}

static void
stop_server(struct server *server)
{
        kill(server->pid, SIGKILL);
        waitpid(server->pid, NULL, 0);
}

static int64_t
server_cpu(const struct server *server)
{
        clockid_t clock;

        return clock_getcpuclockid(server->pid, &clock) == 0 ? bench_clock(clock) : 0;
}

/* -- clients -- */

static int fds[1024];

static bool
connect_all(const struct server *server, unsigned count)
{
        struct sockaddr_in address = {
                .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = htons((uint16_t)server->port)};

        for (unsigned i = 0; i < count; i++) {
                int one = 1;

                fds[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
                if (fds[i] < 0 || connect(fds[i], (struct sockaddr *)&address, sizeof address) < 0)
                        return false;
                setsockopt(fds[i], IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        }
        return true;
}

static void
close_all(unsigned count)
{
        for (unsigned i = 0; i < count; i++)
                close(fds[i]);
}

static char batch[DEPTH * MESSAGE];

/* Sends that many messages at once on each connection, and the next ones when all have come back, until that time.  Returns how
 * many came back. */
static uint64_t
exchange(int epoll, const struct protocol_case *what, int64_t until)
{
        static size_t left[4096]; /* bytes that have not come back, by descriptor */
        struct epoll_event events[256];
        char room[sizeof batch];
        size_t size = (size_t)what->depth * MESSAGE;
        uint64_t messages = 0;

        while (bench_now() < until && !bench_interrupted()) {
                int ready = epoll_wait(epoll, events, 256, 100);

                for (int i = 0; i < ready; i++) {
                        int fd = events[i].data.fd;
                        ssize_t count = recv(fd, room, sizeof room, 0);

                        if (count <= 0)
                                continue;
                        left[fd] += (size_t)count;
                        if (left[fd] < size)
                                continue;
                        left[fd] = 0;
                        messages += what->depth;
                        (void)!send(fd, batch, size, MSG_NOSIGNAL);
                }
        }
        return messages;
}

static void
measure_messages(const struct protocol_case *what, const struct protocol_peer *peer, const struct server *server)
{
        int epoll = epoll_create1(EPOLL_CLOEXEC);
        int64_t window = (options.quick ? 400 : 1000) * INT64_C(1000000);

        for (unsigned i = 0; i < DEPTH; i++)
                memcpy(batch + i * MESSAGE,
                       "\0\0\0\040"
                       "0123456789abcdef0123456789abcdef",
                       MESSAGE);
        for (unsigned i = 0; i < what->connections; i++) {
                struct epoll_event event = {.events = EPOLLIN, .data.fd = fds[i]};

                epoll_ctl(epoll, EPOLL_CTL_ADD, fds[i], &event);
                (void)!send(fds[i], batch, (size_t)what->depth * MESSAGE, MSG_NOSIGNAL);
        }
        exchange(epoll, what, bench_now() + window / 4);
        int64_t cpu = server_cpu(server), wall = bench_now();
        uint64_t messages = exchange(epoll, what, wall + window);
        cpu = server_cpu(server) - cpu;
        wall = bench_now() - wall;
        close(epoll);
        if (!messages)
                return;
        bench_sample(peer->name, what->name, CPU_TIME, (double)cpu / (double)messages);
        bench_sample(peer->name, what->name, WALL, (double)wall / (double)messages);
}

static void
measure(const struct protocol_case *what, const struct protocol_peer *peer)
{
        struct server server;

        place(options.load_cpu);
        if (!start_server(&server, peer))
                return;
        if (connect_all(&server, what->connections))
                measure_messages(what, peer, &server);
        close_all(what->connections);
        stop_server(&server);
}

static void
run(const struct protocol_case *what)
{
        unsigned rounds = bench_is_alone() ? 1 : options.quick ? 3 : 7, count = 0;

        while (protocol_peers[count].name)
                count++;
        for (unsigned round = 0; round < rounds; round++)
                for (unsigned i = 0; i < count && !bench_interrupted(); i++) {
                        unsigned step = round / count % 2 ? count - i : i;

                        if (!bench_is_alone() || (round + step) % count == 0)
                                measure(what, &protocol_peers[(round + step) % count]);
                }
        for (unsigned i = 1; i < count; i++)
                bench_ratio("weir", protocol_peers[i].name, what->name, CPU_TIME);
        bench_goal("weir", what->name, "ratio to floor, " CPU_TIME, 1.3);
        bench_goal("weir", what->name, "ratio to go, " CPU_TIME, 0.6);
        bench_print("protocol");
}

int
main(int argc, char *argv[])
{
        for (int i = 1; i < argc; i++)
                if (strcmp(argv[i], "quick") == 0)
                        options.quick = true;
                else
                        options.only = argv[i];
        bench_begin();
        sched_getaffinity(0, sizeof options.all, &options.all);
        options.server_cpu = -1;
        for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
                if (CPU_ISSET(cpu, &options.all)) {
                        options.server_cpu = options.server_cpu < 0 ? cpu : options.server_cpu;
                        options.load_cpu = cpu;
                }
        for (unsigned i = 0; i < sizeof cases / sizeof *cases && !bench_interrupted(); i++)
                if (!options.only || strstr(cases[i].name, options.only))
                        run(&cases[i]);
        return 0;
}
