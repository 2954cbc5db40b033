/* bench/redis.c: what a command of Redis costs the client, with 64 of them under way.
 *
 * Each of 64 loops sends its next command when it has the reply to the last one, and counts its own.  The peers: hiredis with
 * libevent, on one thread; and redis-benchmark with 64 connections, without pipelining.  All talk to the same server, over TCP.
 *
 * The server and its clients run on one CPU.  On two, each write of a client has to wake the CPU of the server.  In a virtual
 * machine that costs any client more than all else that it does, and the system puts the server now here, now there. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <weir/redis.h>
#include <weir/weir.h>

#include "bench.h"
#include "cases.h"

#ifdef WITH_HIREDIS
#include <event2/event.h>
#include <hiredis/adapters/libevent.h>
#include <hiredis/async.h>
#include <hiredis/hiredis.h>
#endif

#define ROUNDS    5
#define COUNT     400000
#define IN_FLIGHT 64
#define PATIENCE  120
#define CPU_TIME  "CPU ns per command"
#define RATE      "commands per CPU second"
#define TIME      "ns per command"

static int port;
static unsigned count = COUNT;

struct shape {
        const char *name, *first, *second; /* GET and a key; for SET a value, too */
        bool is_set;
};

static const struct shape shapes[] = {
        {"GET of 100 bytes", "GET", "key:000000000001", false},
        {"SET of 100 bytes", "SET", "key:000000000001", true},
};

static char value[101];

struct loop {
        unsigned left; /* commands without a reply */
};

static struct loop loops[IN_FLIGHT];
static _Atomic unsigned loops_left;
static const struct shape *shape_now;

static void
begin(const struct shape *shape)
{
        shape_now = shape;
        loops_left = IN_FLIGHT;
        for (unsigned i = 0; i < IN_FLIGHT; i++)
                loops[i].left = count / IN_FLIGHT;
}

/* A reply has come.  Returns whether that was the last one of its loop; `*is_last` says whether it was that of all. */
static bool
count_reply(struct loop *loop, bool *is_last)
{
        bool is_over = --loop->left == 0;

        *is_last = is_over && atomic_fetch_sub(&loops_left, 1) == 1;
        return is_over;
}

/* -- weir -- */

static weir_redis *redis;
static sem_t all_ended;

static void on_reply(weir_task *task, void *context);

static void
send_next(struct loop *loop)
{
        const char *arguments[3] = {shape_now->first, shape_now->second, value};
        const size_t sizes[3] = {3, 16, 100};

        weir_task_start(weir_redis_command_new(redis, shape_now->is_set ? 3 : 2, arguments, sizes, on_reply, loop));
}

static void
on_reply(weir_task *task, void *context)
{
        bool is_last;

        if (weir_task_status(task) != 0) {
                fprintf(stderr, "weir: %s\n", weir_redis_problem(task));
                exit(1);
        }
        if (!count_reply(context, &is_last))
                send_next(context);
        else if (is_last)
                sem_post(&all_ended);
}

static bool
measure_weir(const void *argument, double values[BENCH_VALUES])
{
        char address[64];

        begin(argument);
        sem_init(&all_ended, 0, 0);
        snprintf(address, sizeof address, "redis://127.0.0.1:%d", port);
        redis = weir_redis_new(address, NULL);
        weir_task_run(weir_redis_words_new(redis, NULL, NULL, "SET", shape_now->second, value, NULL));
        int64_t began = bench_now(), cpu = bench_cpu();
        for (unsigned i = 0; i < IN_FLIGHT; i++)
                send_next(&loops[i]);
        while (sem_wait(&all_ended) != 0)
                ;
        values[0] = (double)(bench_cpu() - cpu) / count;
        values[1] = (double)(bench_now() - began) / count;
        weir_redis_unref(redis);
        weir_shutdown();
        return true;
}

/* -- hiredis -- */

#ifdef WITH_HIREDIS
static redisAsyncContext *hiredis;
static struct event_base *base;

static void on_hiredis(redisAsyncContext *context, void *answer, void *loop);

static void
send_hiredis(struct loop *loop)
{
        const char *arguments[3] = {shape_now->first, shape_now->second, value};
        size_t sizes[3] = {3, 16, 100};

        redisAsyncCommandArgv(hiredis, on_hiredis, loop, shape_now->is_set ? 3 : 2, arguments, sizes);
}

static void
on_hiredis(redisAsyncContext *context, void *answer, void *loop)
{
        bool is_last;

        (void)context;
        if (!answer)
                return;
        if (!count_reply(loop, &is_last))
                send_hiredis(loop);
        else if (is_last)
                event_base_loopbreak(base);
}

static bool
measure_hiredis(const void *argument, double values[BENCH_VALUES])
{
        begin(argument);
        base = event_base_new();
        hiredis = redisAsyncConnect("127.0.0.1", port);
        redisLibeventAttach(hiredis, base);
        int64_t began = bench_now(), cpu = bench_cpu();
        for (unsigned i = 0; i < IN_FLIGHT; i++)
                send_hiredis(&loops[i]);
        event_base_dispatch(base);
        values[0] = (double)(bench_cpu() - cpu) / count;
        values[1] = (double)(bench_now() - began) / count;
        return loops_left == 0;
}
#endif

/* -- redis-benchmark -- */

static bool
measure_benchmark(const void *argument, double values[BENCH_VALUES])
{
        const struct shape *shape = argument;
        char port_text[16], count_text[16];
        struct rusage usage;
        int status;

        snprintf(port_text, sizeof port_text, "%d", port);
        snprintf(count_text, sizeof count_text, "%u", count);
        int64_t began = bench_now();
        pid_t child = fork();
        if (child == 0) {
                if (!freopen("/dev/null", "w", stdout))
                        _exit(127);
                execlp("redis-benchmark", "redis-benchmark", "-p", port_text, "-n", count_text, "-c", "64", "-q", shape->first,
                       shape->second, shape->is_set ? value : NULL, (char *)NULL);
                _exit(127);
        }
        if (wait4(child, &status, 0, &usage) != child || status)
                return false;
        values[0] = ((double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1e9 +
                     (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1e3) /
                    count;
        values[1] = (double)(bench_now() - began) / count;
        return true;
}

/* -- the server -- */

/* A socket that is bound to a free port, which it sets, or connected to that; -1. */
static int
open_socket(bool is_client)
{
        struct sockaddr_in name = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        socklen_t size = sizeof name;
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

        name.sin_port = htons(is_client ? (uint16_t)port : 0);
        if (is_client ? connect(fd, (struct sockaddr *)&name, size) : bind(fd, (struct sockaddr *)&name, size)) {
                close(fd);
                return -1;
        }
        if (!is_client && getsockname(fd, (struct sockaddr *)&name, &size) == 0)
                port = ntohs(name.sin_port);
        return fd;
}

static pid_t
start_server(void)
{
        char port_text[16];
        int parent = getpid();

        close(open_socket(false));
        snprintf(port_text, sizeof port_text, "%d", port);
        pid_t server = fork();
        if (server == 0) {
                bench_follow_parent(parent);
                if (!freopen("/dev/null", "w", stdout))
                        _exit(127);
                execlp("redis-server", "redis-server", "--port", port_text, "--bind", "127.0.0.1", "--save", "", "--dir", "/tmp",
                       (char *)NULL);
                _exit(127);
        }
        for (int fd; waitpid(server, NULL, WNOHANG) == 0; bench_sleep(BENCH_NSEC_PER_SEC / 100)) {
                fd = open_socket(true);
                if (fd < 0)
                        continue;
                close(fd);
                return server;
        }
        return -1;
}

/* This process, and all that it starts from now on. */
static void
stay_on_this_cpu(void)
{
        int cpu = sched_getcpu();
        cpu_set_t one;

        CPU_ZERO(&one);
        CPU_SET(cpu < 0 ? 0 : cpu, &one);
        sched_setaffinity(0, sizeof one, &one);
}

static void
measure(const struct bench_size *size, const char *peer, bench_fn *fn, const struct shape *shape)
{
        double values[BENCH_VALUES];

        if (!bench_wanted(size, shape->name) || !bench_isolated(shape->name, fn, shape, values, PATIENCE))
                return;
        bench_sample(peer, shape->name, CPU_TIME, values[0]);
        bench_sample(peer, shape->name, RATE, 1e9 / values[0]);
        bench_sample(peer, shape->name, TIME, values[1]);
}

int
main(int argc, char *argv[])
{
        struct bench_size size = bench_size_of(argc, argv);

        bench_begin();
        count = size.quick ? COUNT / 10 : COUNT;
        memset(value, 'x', sizeof value - 1);
        stay_on_this_cpu();
        pid_t server = start_server();
        if (server < 0) {
                fprintf(stderr, "redis: there is no redis-server: on Debian, apt-get install redis-server\n");
                return 0;
        }
        for (int round = size.quick ? ROUNDS - 1 : 0; round < ROUNDS; round++)
                for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
                        measure(&size, "weir", measure_weir, &shapes[i]);
                        if (bench_is_alone())
                                continue;
#ifdef WITH_HIREDIS
                        measure(&size, "hiredis", measure_hiredis, &shapes[i]);
#endif
                        measure(&size, "redis-benchmark", measure_benchmark, &shapes[i]);
                }
        for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
                bench_ratio("weir", "hiredis", shapes[i].name, CPU_TIME);
                bench_ratio("weir", "redis-benchmark", shapes[i].name, CPU_TIME);
                bench_goal("weir", shapes[i].name, "ratio to hiredis, " CPU_TIME, 1 / 1.3);
                bench_goal("weir", shapes[i].name, "ratio to redis-benchmark, " CPU_TIME, 1 / 1.5);
        }
        bench_sample("machine", "redis", "CPU used by others, percent of one", bench_others());
        bench_print("redis");
        kill(server, SIGKILL);
        waitpid(server, NULL, 0);
        return bench_interrupted();
}
