/* bench/pump.c: what a gigabyte that goes through a proxy costs it, and a small message, beside haproxy, nginx and raw loops.
 *
 *     source --loopback--> proxy --loopback--> sink
 *
 *     pump [quick] [part of a case's name]
 *
 * The proxy is a process on the first CPU, with one thread that works.  Source and sink are processes on the last one.  The sink
 * throws bytes away without a copy, and sends messages back.  The proxies take turns within each round, in an order that changes.
 *
 * Threads: one. */
#include <errno.h>
#include <fcntl.h>
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
#include "pump.h"

#define GB       UINT64_C(1000000000)
#define MESSAGE  32
#define PIECE    ((size_t)256 * 1024) /* bytes that the source writes at once */
#define MOST     1000                 /* connections */
#define PATIENCE (5 * BENCH_NSEC_PER_SEC)

#define CPU_PER_GB      "proxy CPU seconds per GB"
#define WALL_PER_GB     "wall seconds per GB"
#define CPU_PER_MESSAGE "proxy CPU us per round trip"

struct pump_case {
        const char *name;
        unsigned connections;
        bool has_messages; /* of 32 bytes, there and back; else bytes in one direction */
};

static const struct pump_case cases[] = {
        {"bytes c=1", 1, false},
        {"bytes c=64", 64, false},
        {"messages c=1", 1, true},
        {"messages c=64", 64, true},
};

static struct {
        bool quick;
        const char *only;
        int proxy_cpu, load_cpu;
} options;

static int fds[MOST];

static void
place(int cpu)
{
        cpu_set_t set;

        CPU_ZERO(&set);
        CPU_SET(cpu, &set);
        sched_setaffinity(0, sizeof set, &set);
}

/* -- the sink -- */

/* Reads until there is nothing more.  Returns false at the end. */
static bool
swallow(int fd, uint64_t *seen)
{
        ssize_t count;

        while ((count = recv(fd, NULL, 4 * PIECE, MSG_TRUNC | MSG_DONTWAIT)) > 0)
                *seen += (uint64_t)count;
        return count < 0 && errno == EAGAIN;
}

static bool
send_back(int fd)
{
        char room[MESSAGE];
        ssize_t count = recv(fd, room, sizeof room, MSG_DONTWAIT);

        if (count > 0)
                (void)!send(fd, room, (size_t)count, MSG_NOSIGNAL);
        return count > 0 || (count < 0 && errno == EAGAIN);
}

/* Serves until it is killed.  Writes to `report` how many bytes came in all, whenever a connection has ended. */
static void
serve_sink(int listener, int report, bool has_messages)
{
        int epoll = epoll_create1(EPOLL_CLOEXEC);
        struct epoll_event event = {.events = EPOLLIN, .data.fd = listener}, events[256];
        uint64_t seen = 0;

        epoll_ctl(epoll, EPOLL_CTL_ADD, listener, &event);
        for (;;) {
                int count = epoll_wait(epoll, events, 256, -1);

                for (int i = 0; i < count; i++) {
                        int fd = events[i].data.fd;

                        if (fd == listener) {
                                event.data.fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
                                epoll_ctl(epoll, EPOLL_CTL_ADD, event.data.fd, &event);
                        } else if (has_messages ? !send_back(fd) : !swallow(fd, &seen)) {
                                close(fd);
                                (void)!write(report, &seen, sizeof seen);
                        }
                }
        }
}

/* -- what is measured -- */

struct setup {
        char directory[64];
        pid_t proxy, sink;
        int port;   /* of the proxy */
        int report; /* of the sink */
};

static bool
make_pipe(int ends[2])
{
        return pipe2(ends, O_CLOEXEC) == 0;
}

static bool
start_sink(struct setup *setup, const struct pump_case *what, int *port)
{
        int ends[2], listener = pump_listen(port, 0), parent = getpid();

        if (!make_pipe(ends))
                return false;
        setup->sink = fork();
        if (setup->sink == 0) {
                bench_follow_parent(parent);
                place(options.load_cpu);
                serve_sink(listener, ends[1], what->has_messages);
        }
        close(listener);
        close(ends[1]);
        setup->report = ends[0];
        return setup->sink > 0;
}

static bool
start_proxy(struct setup *setup, const struct pump_proxy *proxy, int sink)
{
        int ends[2], parent = getpid();

        if (!make_pipe(ends))
                return false;
        setup->proxy = fork();
        if (setup->proxy == 0) {
                bench_follow_parent(parent);
                place(options.proxy_cpu);
                setpgid(0, 0); /* Ctrl-C is for the harness, which ends this */
                close(ends[0]);
                proxy->serve(proxy, ends[1], sink, setup->directory);
                _exit(1);
        }
        close(ends[1]);
        bool has_port = read(ends[0], &setup->port, sizeof setup->port) == sizeof setup->port && setup->port > 0;
        close(ends[0]);
        return has_port;
}

/* Some of them begin to listen later than they tell their port. */
static bool
connect_all(const struct setup *setup, unsigned count)
{
        int64_t until = bench_now() + PATIENCE;

        for (unsigned i = 0; i < count && bench_now() < until && !bench_interrupted();) {
                fds[i] = pump_connect(setup->port);
                if (fds[i] < 0)
                        bench_sleep(2000000);
                else if (++i == count)
                        return true;
        }
        return false;
}

static void
stop(struct setup *setup)
{
        static const char *const files[] = {"configuration", "pid", "error.log", ""};
        char path[96];

        for (int i = 0; i < 2; i++) {
                pid_t pid = i ? setup->sink : setup->proxy;

                if (pid > 0) {
                        kill(pid, SIGKILL);
                        waitpid(pid, NULL, 0);
                }
        }
        close(setup->report);
        for (size_t i = 0; setup->directory[0] && i < sizeof files / sizeof *files; i++) {
                snprintf(path, sizeof path, "%s/%s", setup->directory, files[i]);
                remove(path);
        }
}

static int64_t
proxy_cpu(const struct setup *setup)
{
        clockid_t clock;

        return clock_getcpuclockid(setup->proxy, &clock) == 0 ? bench_clock(clock) : 0;
}

/* Reports the ends of all connections.  Returns the bytes that have come. */
static uint64_t
wait_for_ends(const struct setup *setup, unsigned count)
{
        uint64_t seen = 0;

        while (count && read(setup->report, &seen, sizeof seen) == sizeof seen)
                count--;
        return seen;
}

/* Writes as much as goes out.  Returns false when all of it is out, or the proxy has broken the connection. */
static bool
send_on(int fd, uint64_t *left)
{
        static char bytes[PIECE];

        while (*left) {
                ssize_t count = send(fd, bytes, *left < PIECE ? (size_t)*left : PIECE, MSG_NOSIGNAL | MSG_DONTWAIT);

                if (count < 0)
                        return errno == EAGAIN;
                *left -= (uint64_t)count;
        }
        return false;
}

static void
send_all(unsigned count, uint64_t each)
{
        static uint64_t left[MOST];
        int epoll = epoll_create1(EPOLL_CLOEXEC);
        struct epoll_event events[256];

        for (unsigned i = 0; i < count; i++) {
                struct epoll_event event = {.events = EPOLLOUT, .data.u32 = i};

                left[i] = each;
                epoll_ctl(epoll, EPOLL_CTL_ADD, fds[i], &event);
        }
        for (unsigned open = count; open && !bench_interrupted();) {
                int ready = epoll_wait(epoll, events, 256, 1000);

                for (int i = 0; i < ready; i++) {
                        unsigned index = events[i].data.u32;

                        if (send_on(fds[index], &left[index]))
                                continue;
                        epoll_ctl(epoll, EPOLL_CTL_DEL, fds[index], NULL);
                        shutdown(fds[index], SHUT_WR);
                        open--;
                }
        }
        close(epoll);
}

static void
measure_bytes(const struct pump_case *what, const struct pump_proxy *proxy, const struct setup *setup)
{
        uint64_t each = (options.quick ? 1 : 10) * GB / what->connections, all = each * what->connections;
        int64_t cpu = proxy_cpu(setup), wall = bench_now();

        send_all(what->connections, each);
        uint64_t seen = bench_interrupted() ? 0 : wait_for_ends(setup, what->connections);
        cpu = proxy_cpu(setup) - cpu;
        wall = bench_now() - wall;
        if (bench_interrupted())
                return;
        if (seen != all) {
                fprintf(stderr, "pump: %s: %llu of %llu bytes came\n", proxy->name, (unsigned long long)seen,
                        (unsigned long long)all);
                return;
        }
        bench_sample(proxy->name, what->name, CPU_PER_GB, (double)cpu / (double)all);
        bench_sample(proxy->name, what->name, WALL_PER_GB, (double)wall / (double)all);
}

/* Sends a message on each connection, and the next one when it has come back, until that time.  Returns how many came back. */
static uint64_t
exchange(int epoll, int64_t until)
{
        struct epoll_event events[256];
        char room[MESSAGE];
        uint64_t messages = 0;

        while (bench_now() < until && !bench_interrupted()) {
                int ready = epoll_wait(epoll, events, 256, 100);

                for (int i = 0; i < ready; i++)
                        if (recv(events[i].data.fd, room, sizeof room, MSG_DONTWAIT) == MESSAGE) {
                                messages++;
                                (void)!send(events[i].data.fd, room, sizeof room, MSG_NOSIGNAL);
                        }
        }
        return messages;
}

static void
measure_messages(const struct pump_case *what, const struct pump_proxy *proxy, const struct setup *setup)
{
        static const char message[MESSAGE] = "0123456789abcdef0123456789abcde";
        int epoll = epoll_create1(EPOLL_CLOEXEC);
        int64_t window = (options.quick ? 400 : 1000) * INT64_C(1000000);

        for (unsigned i = 0; i < what->connections; i++) {
                struct epoll_event event = {.events = EPOLLIN, .data.fd = fds[i]};

                epoll_ctl(epoll, EPOLL_CTL_ADD, fds[i], &event);
                (void)!send(fds[i], message, sizeof message, MSG_NOSIGNAL);
        }
        exchange(epoll, bench_now() + window / 4);
        int64_t cpu = proxy_cpu(setup), wall = bench_now();
        uint64_t messages = exchange(epoll, wall + window);
        cpu = proxy_cpu(setup) - cpu;
        wall = bench_now() - wall;
        close(epoll);
        if (!messages)
                return;
        bench_sample(proxy->name, what->name, CPU_PER_MESSAGE, (double)cpu / 1000 / (double)messages);
        bench_sample(proxy->name, what->name, "wall us per round trip", (double)wall / 1000 / (double)messages);
}

/* -- turns -- */

static void
measure(const struct pump_case *what, const struct pump_proxy *proxy)
{
        const char *parent = getenv("TMPDIR");
        struct setup setup = {.port = -1, .report = -1};
        int sink;

        snprintf(setup.directory, sizeof setup.directory, "%s/weir-bench-XXXXXX",
                 parent && strlen(parent) < 40 ? parent : "/tmp");
        if (!mkdtemp(setup.directory))
                setup.directory[0] = '\0';
        place(options.load_cpu);
        if (setup.directory[0] && start_sink(&setup, what, &sink) && start_proxy(&setup, proxy, sink) &&
            connect_all(&setup, what->connections)) {
                if (what->has_messages)
                        measure_messages(what, proxy, &setup);
                else
                        measure_bytes(what, proxy, &setup);
                for (unsigned i = 0; i < what->connections; i++)
                        close(fds[i]);
        } else if (!bench_interrupted()) {
                fprintf(stderr, "pump: %s did not start to serve\n", proxy->name);
        }
        stop(&setup);
}

static bool
is_there(const struct pump_proxy *proxy)
{
        return (!proxy->program || access(proxy->program, X_OK) == 0) && (!proxy->module || access(proxy->module, R_OK) == 0);
}

static bool
takes_part(const struct pump_case *what, const struct pump_proxy *proxy)
{
        if (bench_is_alone())
                return proxy == pump_proxies;
        return is_there(proxy) && !(what->has_messages && proxy->is_raw && !proxy->splices);
}

static void
compare(const struct pump_case *what)
{
        const char *metric = what->has_messages ? CPU_PER_MESSAGE : CPU_PER_GB;
        char ratio[128];

        for (const struct pump_proxy *proxy = pump_proxies + 1; proxy->name; proxy++)
                bench_ratio("weir", proxy->name, what->name, metric);
        for (const struct pump_proxy *proxy = pump_proxies + 1; proxy->name; proxy++) {
                snprintf(ratio, sizeof ratio, "ratio to %s, %s", proxy->name, metric);
                if (proxy->program && !what->has_messages)
                        bench_goal("weir", what->name, ratio, 1);
        }
}

static void
run(const struct pump_case *what)
{
        unsigned rounds = bench_is_alone() ? 1 : what->has_messages && !options.quick ? 7 : 3, count = 0;

        while (pump_proxies[count].name)
                count++;
        for (unsigned round = 0; round < rounds; round++)
                for (unsigned i = 0; i < count && !bench_interrupted(); i++) {
                        const struct pump_proxy *proxy = &pump_proxies[(round + (round % 2 ? count - i : i)) % count];

                        if (takes_part(what, proxy))
                                measure(what, proxy);
                }
        compare(what);
        bench_print("pump");
}

static void
name_missing(void)
{
        const char *last = "";

        for (const struct pump_proxy *proxy = pump_proxies; proxy->name; proxy++)
                if (!is_there(proxy) && strcmp(proxy->package, last) != 0) {
                        fprintf(stderr, "pump: without %s: it is not installed (make bench-peers)\n", proxy->package);
                        last = proxy->package;
                }
}

int
main(int argc, char *argv[])
{
        cpu_set_t all;

        for (int i = 1; i < argc; i++)
                if (strcmp(argv[i], "quick") == 0)
                        options.quick = true;
                else
                        options.only = argv[i];
        bench_begin();
        sched_getaffinity(0, sizeof all, &all);
        options.proxy_cpu = -1;
        for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
                if (CPU_ISSET(cpu, &all)) {
                        options.proxy_cpu = options.proxy_cpu < 0 ? cpu : options.proxy_cpu;
                        options.load_cpu = cpu;
                }
        name_missing();
        for (unsigned i = 0; i < sizeof cases / sizeof *cases && !bench_interrupted(); i++)
                if (!options.only || strstr(cases[i].name, options.only))
                        run(&cases[i]);
        bench_sample("machine", "pump", "CPU used by others, percent of one", bench_others());
        bench_print("pump");
        return 0;
}
