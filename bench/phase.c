/* bench/phase.c: whether a ticker keeps its phase while its process serves HTTP as fast as it can.
 *
 *     phase [SECONDS]       default 10
 *
 * A server that answers at once has a ticker with a period of a millisecond beside it, and is loaded by 64 connections from
 * another process.  Each tick must be due a whole number of milliseconds after the first; how late they were, and how many were
 * dropped because their worker had other work for longer than a period, is told at the end. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <weir/weir.h>

#include "load.h"

#define PERIOD WEIR_MSEC(1)

/* Written by the ticker's callbacks; told to the parent at the end. */
static struct told {
        weir_nsec first, last;
        uint64_t ticks, missed, out_of_phase;
        weir_nsec p50, p99, max;
} told;

static void
on_request(weir_task *exchange, void *context)
{
        (void)context;
        weir_http_reply_text(exchange, 200, "hello\n");
}

static void
on_tick(weir_task *ticker, void *context)
{
        weir_nsec due = weir_ticker_scheduled(ticker);

        (void)context;
        if (weir_task_status(ticker) != -EINPROGRESS)
                return;
        if (!told.ticks++)
                told.first = due;
        told.last = due;
        told.missed += weir_ticker_missed(ticker);
        told.out_of_phase += (due - told.first) % PERIOD != 0;
}

static void
tell(int fd)
{
        struct weir_lateness lateness = WEIR_LATENESS_DEFAULT;

        weir_shutdown();
        weir_lateness(WEIR_ALL_POLLERS, &lateness);
        told.p50 = lateness.p50;
        told.p99 = lateness.p99;
        told.max = lateness.max;
        if (write(fd, &told, sizeof told) != (ssize_t)sizeof told)
                perror("phase");
}

/* The server's process: tells its port, then serves until SIGTERM, then tells the rest. */
static int
serve(int fd)
{
        weir_http_server *server = weir_http_server_new(NULL, on_request, NULL);
        sigset_t stop;
        int number, port, failed;

        sigemptyset(&stop);
        sigaddset(&stop, SIGTERM);
        sigprocmask(SIG_BLOCK, &stop, NULL);
        failed = weir_http_server_start(server, "127.0.0.1:0");
        if (!failed)
                failed = weir_task_start(weir_ticker_new(PERIOD, WEIR_TICK_SKIP, on_tick, NULL));
        if (failed) {
                fprintf(stderr, "phase: %s\n", weir_strerror(failed));
                return 1;
        }
        port = weir_http_server_port(server);
        if (write(fd, &port, sizeof port) != (ssize_t)sizeof port)
                return 1;
        sigwait(&stop, &number);
        weir_http_server_free(server);
        tell(fd);
        return 0;
}

static void
sample(const struct bench_figures *figures)
{
        static const char name[] = "ticker of 1 ms beside 64 busy connections";

        bench_sample("weir", name, "seconds", figures->seconds);
        bench_sample("weir", name, "requests a second", figures->requests / figures->seconds);
        bench_sample("weir", name, "ticks", (double)told.ticks);
        bench_sample("weir", name, "ticks out of phase", (double)told.out_of_phase);
        bench_sample("weir", name, "ticks dropped", (double)told.missed);
        bench_sample("weir", name, "periods from the first tick to the last", (double)((told.last - told.first) / PERIOD));
        bench_sample("weir", name, "late us, p50", (double)told.p50 / 1000);
        bench_sample("weir", name, "late us, p99", (double)told.p99 / 1000);
        bench_sample("weir", name, "late us, max", (double)told.max / 1000);
}

int
main(int argc, char *argv[])
{
        int64_t seconds = argc > 1 ? atoi(argv[1]) : 10;
        struct bench_load load = {.connections = 64, .warm_up = BENCH_NSEC_PER_SEC, .window = seconds * BENCH_NSEC_PER_SEC};
        struct bench_server server = {.peer = BENCH_WEIR};
        struct bench_figures figures;
        int fds[2], parent = getpid();

        if (seconds <= 0 || pipe(fds))
                return 1;
        bench_begin();
        server.pid = fork();
        if (server.pid == 0) {
                bench_follow_parent(parent);
                exit(serve(fds[1]));
        }
        close(fds[1]);
        if (read(fds[0], &server.port, sizeof server.port) != (ssize_t)sizeof server.port)
                return 1;
        bool good = bench_load(&load, &server, &figures);
        kill(server.pid, SIGTERM);
        good &= read(fds[0], &told, sizeof told) == (ssize_t)sizeof told;
        waitpid(server.pid, NULL, 0);
        if (!good)
                return 1;
        sample(&figures);
        bench_sample("machine", "phase", "CPU used by others, percent of one", bench_others());
        bench_print("phase");
        return told.out_of_phase > 0;
}
