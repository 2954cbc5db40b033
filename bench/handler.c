/* bench/handler.c: what an HTTP handler that does not wait takes as a fiber, beside one that is a callback.
 *
 * One process has a server for each, so that both find the same memory.  They are loaded by turns, for a short while each; what
 * counts is the ratio within a round.
 *
 * Threads: the servers' process has a poller, on the first CPU; the load comes from the last one. */
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include <weir/fiber.h>
#include <weir/weir.h>

#include "bench.h"
#include "fiber.h"
#include "load.h"

#define NAME     "HTTP handler that does not wait"
#define CPU_TIME "server CPU us per request"
#define ROUNDS   15 /* as many as results may have */
#define TURNS    5  /* of each in a round */

enum { CALLBACK, FIBER, WAYS };

static const char *const peers[WAYS] = {"callback", "weir"};

/* -- the servers -- */

static void
on_request(weir_task *exchange, void *context)
{
        (void)context;
        weir_http_reply_header(exchange, "Server", "bench");
        weir_http_reply_text(exchange, 200, "hello\n");
}

static int
reply(void *exchange)
{
        on_request(exchange, NULL);
        return 0;
}

static void
on_request_for_fiber(weir_task *exchange, void *context)
{
        (void)context;
        weir_fiber_begin(exchange, reply, exchange);
}

static void
serve(int parent, int out)
{
        weir_http_server *servers[WAYS] = {weir_http_server_new(NULL, on_request, NULL),
                                           weir_http_server_new(NULL, on_request_for_fiber, NULL)};
        int ports[WAYS], number;
        sigset_t stop;

        bench_follow_parent(parent);
        sigemptyset(&stop);
        sigaddset(&stop, SIGTERM);
        sigprocmask(SIG_BLOCK, &stop, NULL);
        for (int i = 0; i < WAYS; i++) {
                if (weir_http_server_start(servers[i], "127.0.0.1:0"))
                        _exit(1);
                ports[i] = weir_http_server_port(servers[i]);
        }
        if (write(out, ports, sizeof ports) != (ssize_t)sizeof ports)
                _exit(1);
        sigwait(&stop, &number);
        for (int i = 0; i < WAYS; i++)
                weir_http_server_free(servers[i]);
        _exit(0);
}

static bool
start_servers(struct bench_server servers[WAYS])
{
        int ends[2], ports[WAYS], parent = getpid();

        if (pipe(ends) < 0)
                return false;
        fflush(NULL);
        pid_t pid = fork();
        if (pid == 0)
                serve(parent, ends[1]);
        close(ends[1]);
        bool good = pid > 0 && read(ends[0], ports, sizeof ports) == (ssize_t)sizeof ports;
        close(ends[0]);
        for (int i = 0; i < WAYS; i++)
                servers[i] = (struct bench_server){
                        .peer = BENCH_WEIR, .service = BENCH_HELLO, .pid = pid, .port = good ? ports[i] : 0};
        return good;
}

/* -- the load -- */

static void
measure(struct generator *const generators[WAYS])
{
        double cpu_us[WAYS] = {0}, requests[WAYS] = {0};
        struct bench_figures figures;

        for (unsigned i = 0; i < WAYS * TURNS; i++) {
                unsigned way = (i + i / WAYS) % WAYS; /* who comes behind whom matters */

                if (!bench_load_window(generators[way], &figures))
                        return;
                if (!(figures.requests > 0)) /* the load had no CPU */
                        continue;
                cpu_us[way] += figures.cpu_us * figures.requests;
                requests[way] += figures.requests;
        }
        for (unsigned way = 0; way < WAYS; way++)
                if (requests[CALLBACK] > 0 && requests[FIBER] > 0)
                        bench_sample(peers[way], NAME, CPU_TIME, cpu_us[way] / requests[way]);
}

/* Ties this process to the first CPU, or to the last one. */
static void
use_cpu(const cpu_set_t *all, bool last)
{
        cpu_set_t one;
        int chosen = -1;

        for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
                if (CPU_ISSET(cpu, all) && (last || chosen < 0))
                        chosen = cpu;
        CPU_ZERO(&one);
        CPU_SET(chosen, &one);
        sched_setaffinity(0, sizeof one, &one);
}

void
bench_handler(const struct bench_size *size)
{
        const struct bench_load load = {.connections = 64, .warm_up = BENCH_NSEC_PER_SEC / 5, .window = BENCH_NSEC_PER_SEC / 16};
        struct generator *generators[WAYS] = {NULL, NULL};
        struct bench_server servers[WAYS];
        cpu_set_t all;

        if (!bench_wanted(size, NAME) || sched_getaffinity(0, sizeof all, &all))
                return;
        use_cpu(&all, false);
        bool good = start_servers(servers);
        use_cpu(&all, true);
        for (int i = 0; i < WAYS && good; i++)
                good = (generators[i] = bench_load_begin(&load, &servers[i]));
        for (unsigned round = 0; round < ROUNDS && good && !bench_interrupted(); round++)
                measure(generators);
        for (int i = 0; i < WAYS; i++)
                bench_load_end(generators[i]);
        bench_server_stop(&servers[0]);
        sched_setaffinity(0, sizeof all, &all);
        bench_ratio("weir", "callback", NAME, CPU_TIME);
        bench_goal("weir", NAME, "ratio to callback, " CPU_TIME, 1.01);
}
