/* bench/echo.c: what a message of 32 bytes costs a TCP echo server, beside a raw epoll loop, libuv and Go.
 *
 *     echo [quick] [part of a case's name]
 *
 * The server under test is a child process on the first CPU, the clients are this process, on the last one.  In one case both may
 * use all of them.  The peers take turns within each round, in an order that changes.
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
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench.h"
#include "echo.h"

#define MESSAGE  32
#define CPU_TIME "server CPU ns per message"
#define WALL     "wall ns per message"

struct echo_case {
        const char *name;
        unsigned connections;
        bool everywhere;
        bool idle;
};

static const struct echo_case cases[] = {
        {"echo c=64", 64, false, false},
        {"echo c=1000", 1000, false, false},
        {"echo c=1000, all CPUs", 1000, true, false},
        {"idle c=19000", 19000, false, true},
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
start_server(struct server *server, const struct echo_peer *peer, bool everywhere)
{
        int ends[2], parent = getpid();

        if (pipe(ends) < 0)
                return false;
        server->pid = fork();
        if (server->pid == 0) {
                bench_follow_parent(parent);
                place(everywhere ? -1 : options.server_cpu);
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

static int fds[20000];

static bool
connect_all(const struct server *server, unsigned count)
{
        struct sockaddr_in address = {.sin_family = AF_INET,
                                      .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                                      .sin_port = htons((uint16_t)server->port)};

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

/* Sends a message on each connection, and the next one when it has come back, until that time.  Returns how many came back. */
static uint64_t
exchange(int epoll, unsigned count, int64_t until)
{
        static const char message[MESSAGE] = "0123456789abcdef0123456789abcde";
        struct epoll_event events[256];
        char room[MESSAGE];
        uint64_t messages = 0;

        (void)count;
        while (bench_now() < until && !bench_interrupted()) {
                int ready = epoll_wait(epoll, events, 256, 100);

                for (int i = 0; i < ready; i++)
                        if (recv(events[i].data.fd, room, sizeof room, 0) == MESSAGE) {
                                messages++;
                                (void)!send(events[i].data.fd, message, sizeof message, MSG_NOSIGNAL);
                        }
        }
        return messages;
}

static void
measure_messages(const struct echo_case *what, const struct echo_peer *peer, const struct server *server)
{
        static const char message[MESSAGE];
        int epoll = epoll_create1(EPOLL_CLOEXEC);
        int64_t window = (options.quick ? 400 : 1000) * INT64_C(1000000);

        for (unsigned i = 0; i < what->connections; i++) {
                struct epoll_event event = {.events = EPOLLIN, .data.fd = fds[i]};

                epoll_ctl(epoll, EPOLL_CTL_ADD, fds[i], &event);
                (void)!send(fds[i], message, sizeof message, MSG_NOSIGNAL);
        }
        exchange(epoll, what->connections, bench_now() + window / 4);
        int64_t cpu = server_cpu(server), wall = bench_now();
        uint64_t messages = exchange(epoll, what->connections, wall + window);
        cpu = server_cpu(server) - cpu;
        wall = bench_now() - wall;
        close(epoll);
        if (!messages)
                return;
        bench_sample(peer->name, what->name, CPU_TIME, (double)cpu / (double)messages);
        bench_sample(peer->name, what->name, WALL, (double)wall / (double)messages);
}

/* Each connection has had a message, and waits for the next. */
static void
measure_memory(const struct echo_case *what, const struct echo_peer *peer, const struct server *server, long before)
{
        char room[MESSAGE] = "";

        for (unsigned i = 0; i < what->connections; i++) {
                (void)!send(fds[i], room, sizeof room, MSG_NOSIGNAL);
                (void)!recv(fds[i], room, sizeof room, MSG_WAITALL);
        }
        long after = bench_memory(server->pid, "VmRSS:");
        bench_sample(peer->name, what->name, "bytes per idle connection", (double)(after - before) * 1024 / what->connections);
}

static void
measure(const struct echo_case *what, const struct echo_peer *peer)
{
        struct server server;

        place(what->everywhere ? -1 : options.load_cpu);
        if (!start_server(&server, peer, what->everywhere))
                return;
        long before = bench_memory(server.pid, "VmRSS:");
        if (connect_all(&server, what->connections)) {
                if (what->idle)
                        measure_memory(what, peer, &server, before);
                else
                        measure_messages(what, peer, &server);
        }
        close_all(what->connections);
        stop_server(&server);
}

static void
run(const struct echo_case *what)
{
        unsigned rounds = bench_is_alone() || what->idle ? 1 : options.quick ? 3 : 7, count = 0;

        while (echo_peers[count].name)
                count++;
        for (unsigned round = 0; round < rounds; round++)
                for (unsigned i = 0; i < count && !bench_interrupted(); i++) {
                        unsigned step = round / count % 2 ? count - i : i;

                        if (!bench_is_alone() || (round + step) % count == 0)
                                measure(what, &echo_peers[(round + step) % count]);
                }
        for (unsigned i = 1; i < count && !what->idle; i++)
                bench_ratio("weir", echo_peers[i].name, what->name, CPU_TIME);
        bench_goal("weir", what->name, "ratio to floor, " CPU_TIME, 1.15);
        bench_goal("weir", what->name, "ratio to uv, " CPU_TIME, 0.7);
        bench_goal("weir", what->name, "ratio to go, " CPU_TIME, 0.5);
        bench_goal("weir", what->name, "bytes per idle connection", 400);
        bench_print("echo");
}

int
main(int argc, char *argv[])
{
        struct rlimit limit;

        for (int i = 1; i < argc; i++)
                if (strcmp(argv[i], "quick") == 0)
                        options.quick = true;
                else
                        options.only = argv[i];
        getrlimit(RLIMIT_NOFILE, &limit);
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
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
