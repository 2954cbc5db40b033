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
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "bench.h"
#include "pump.h"
#include "relay.h"

#define GB      UINT64_C(1000000000)
#define MESSAGE 32
#define PIECE   ((size_t)256 * 1024) /* bytes that the source writes at once */
#define MOST    1000                 /* connections */

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
        struct relay relay;
        const struct pump_case *what;
        const struct pump_proxy *proxy;
        int sink;      /* its port */
        int report[2]; /* a pipe from the sink */
};

static void
run_sink(int listener, void *context)
{
        const struct setup *setup = context;

        serve_sink(listener, setup->report[1], setup->what->has_messages);
}

static void
run_proxy(int report, const char *directory, void *context)
{
        const struct setup *setup = context;

        setup->proxy->serve(setup->proxy, report, setup->sink, directory);
}

static bool
start(struct setup *setup)
{
        if (!relay_begin(&setup->relay) || pipe2(setup->report, O_CLOEXEC))
                return false;
        int listener = relay_listen(&setup->sink, 0);
        relay_start_backend(&setup->relay, options.load_cpu, listener, run_sink, setup);
        close(setup->report[1]);
        return relay_start(&setup->relay, options.proxy_cpu, run_proxy, setup) &&
               relay_connect_all(&setup->relay, fds, setup->what->connections);
}

/* Reports the ends of all connections.  Returns the bytes that have come. */
static uint64_t
wait_for_ends(const struct setup *setup, unsigned count)
{
        uint64_t seen = 0;

        while (count && read(setup->report[0], &seen, sizeof seen) == sizeof seen)
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
        int64_t cpu = relay_cpu_time(&setup->relay), wall = bench_now();

        send_all(what->connections, each);
        uint64_t seen = bench_interrupted() ? 0 : wait_for_ends(setup, what->connections);
        cpu = relay_cpu_time(&setup->relay) - cpu;
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
        int64_t cpu = relay_cpu_time(&setup->relay), wall = bench_now();
        uint64_t messages = exchange(epoll, wall + window);
        cpu = relay_cpu_time(&setup->relay) - cpu;
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
        struct setup setup = {.what = what, .proxy = proxy, .report = {-1, -1}};

        relay_place(options.load_cpu);
        if (start(&setup)) {
                if (what->has_messages)
                        measure_messages(what, proxy, &setup);
                else
                        measure_bytes(what, proxy, &setup);
                for (unsigned i = 0; i < what->connections; i++)
                        close(fds[i]);
        } else if (!bench_interrupted()) {
                fprintf(stderr, "pump: %s did not start to serve\n", proxy->name);
        }
        relay_end(&setup.relay);
        close(setup.report[0]);
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
        for (int i = 1; i < argc; i++)
                if (strcmp(argv[i], "quick") == 0)
                        options.quick = true;
                else
                        options.only = argv[i];
        bench_begin();
        relay_cpus(&options.proxy_cpu, &options.load_cpu);
        name_missing();
        for (unsigned i = 0; i < sizeof cases / sizeof *cases && !bench_interrupted(); i++)
                if (!options.only || strstr(cases[i].name, options.only))
                        run(&cases[i]);
        bench_sample("machine", "pump", "CPU used by others, percent of one", bench_others());
        bench_print("pump");
        return 0;
}
