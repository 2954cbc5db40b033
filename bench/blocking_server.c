/* bench/blocking_server.c: the process under test of bench/blocking: tickers, an HTTP server, and callbacks that sleep.
 *
 *     parent  -- BLOCK, TELL -->  main thread of the child, which is no worker
 *             <-- port, ticks --
 *
 * Threads: a beat is written by the callback of its ticker, which never runs twice at a time, and read by the main thread
 *          (relaxed: it is a measurement); `phase` is the main thread's to write. */
#include "blocking.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <weir/runtime.h>
#include <weir/weir.h>

#include "bench.h"

#define PATIENCE 60 /* seconds, after which the child ends itself */
#define PHASES   8

enum command { BLOCK = 'b', TELL = 't' };

static struct beat {
        _Alignas(64) _Atomic weir_nsec due; /* the next tick */
        _Atomic weir_nsec late[PHASES];     /* the most of each phase */
} beats[BENCH_TICKERS];

static _Atomic unsigned phase, returned;

/* -- the child: what runs on the workers -- */

static void
on_tick(weir_task *ticker, void *context)
{
        struct beat *beat = context;
        unsigned now_in = atomic_load_explicit(&phase, memory_order_relaxed);
        weir_nsec due = weir_ticker_scheduled(ticker), late = weir_now() - due;

        if (late > atomic_load_explicit(&beat->late[now_in], memory_order_relaxed))
                atomic_store_explicit(&beat->late[now_in], late, memory_order_relaxed);
        atomic_store_explicit(&beat->due, due + BENCH_TICK_PERIOD * (1 + late / BENCH_TICK_PERIOD), memory_order_relaxed);
}

static void
on_request(weir_task *exchange, void *context)
{
        (void)context;
        weir_http_reply_text(exchange, 200, "hello\n");
}

static void
on_block(weir_task *task, void *context)
{
        const struct bench_blocking *blocking = context;
        bool told = blocking->announced && weir_blocking_begin() == 0;

        (void)task;
        bench_sleep(blocking->sleep);
        if (told)
                weir_blocking_end();
        atomic_fetch_add(&returned, 1);
}

/* -- the child: what its main thread does -- */

static int
start_tickers(void)
{
        weir_nsec origin = weir_now() + WEIR_MSEC(50);
        int failed = 0;

        for (int i = 0; i < BENCH_TICKERS && !failed; i++) {
                weir_nsec due = origin + BENCH_TICK_PERIOD * i / BENCH_TICKERS;
                weir_task *ticker = weir_ticker_new(BENCH_TICK_PERIOD, WEIR_TICK_SKIP, on_tick, &beats[i]);

                atomic_store(&beats[i].due, due);
                weir_ticker_set_first(ticker, due - weir_now());
                failed = weir_task_start(ticker);
        }
        return failed;
}

static void
start_blocking(const struct bench_blocking *blocking)
{
        weir_nsec due = weir_now() + WEIR_MSEC(1);

        for (unsigned i = 0; i < blocking->callbacks; i++)
                weir_task_start(weir_timer_new(due - weir_now(), on_block, (void *)blocking));
}

static struct bench_ticks
end_phase(void)
{
        unsigned over = atomic_load(&phase);
        weir_nsec worst = 0, now = weir_now();

        atomic_store(&phase, over + 1 < PHASES ? over + 1 : over);
        for (int i = 0; i < BENCH_TICKERS; i++) {
                weir_nsec late = atomic_load(&beats[i].late[over]), missing = now - atomic_load(&beats[i].due);

                if (late > worst)
                        worst = late;
                if (missing > worst)
                        worst = missing;
        }
        return (struct bench_ticks){(double)worst / 1e6, atomic_load(&returned)};
}

static int
serve(const struct bench_blocking *blocking, int in, int out)
{
        weir_http_server *server = weir_http_server_new(NULL, on_request, NULL);
        int failed = weir_http_server_start(server, "127.0.0.1:0");
        char command;

        if (!failed)
                failed = start_tickers();
        if (failed) {
                fprintf(stderr, "bench: blocking: %s\n", weir_strerror(failed));
                return 1;
        }
        int port = weir_http_server_port(server);
        bool good = write(out, &port, sizeof port) == (ssize_t)sizeof port;
        while (good && read(in, &command, 1) == 1) {
                if (command == BLOCK) {
                        start_blocking(blocking);
                } else {
                        struct bench_ticks ticks = end_phase();

                        good = write(out, &ticks, sizeof ticks) == (ssize_t)sizeof ticks;
                }
        }
        return 1;
}

/* -- the parent -- */

static pid_t
start_child(const struct bench_blocking *blocking, int in, int out)
{
        int parent = getpid();

        fflush(NULL);
        pid_t pid = fork();
        if (pid != 0)
                return pid;
        bench_follow_parent(parent);
        signal(SIGINT, SIG_DFL);
        signal(SIGTERM, SIG_DFL);
        alarm(PATIENCE);
        _exit(serve(blocking, in, out));
}

bool
bench_blocked_start(struct bench_blocked *blocked, const struct bench_blocking *blocking)
{
        int down[2], up[2];

        *blocked = (struct bench_blocked){.server.peer = BENCH_WEIR, .to = -1, .from = -1};
        if (pipe2(down, O_CLOEXEC) < 0)
                return false;
        if (pipe2(up, O_CLOEXEC) < 0) {
                close(down[0]);
                close(down[1]);
                return false;
        }
        blocked->to = down[1];
        blocked->from = up[0];
        blocked->server.pid = start_child(blocking, down[0], up[1]);
        close(down[0]);
        close(up[1]);
        if (blocked->server.pid > 0 &&
            read(blocked->from, &blocked->server.port, sizeof blocked->server.port) == (ssize_t)sizeof blocked->server.port)
                return true;
        if (!bench_interrupted())
                fprintf(stderr, "bench: weir did not start to serve\n");
        bench_blocked_stop(blocked);
        return false;
}

bool
bench_blocked_block(const struct bench_blocked *blocked)
{
        char command = BLOCK;

        return write(blocked->to, &command, 1) == 1;
}

bool
bench_blocked_tell(const struct bench_blocked *blocked, struct bench_ticks *ticks)
{
        char command = TELL;

        return write(blocked->to, &command, 1) == 1 && read(blocked->from, ticks, sizeof *ticks) == (ssize_t)sizeof *ticks;
}

void
bench_blocked_stop(struct bench_blocked *blocked)
{
        int status;

        if (blocked->server.pid > 0) {
                kill(blocked->server.pid, SIGKILL);
                while (waitpid(blocked->server.pid, &status, 0) < 0 && errno == EINTR)
                        ;
        }
        if (blocked->to >= 0)
                close(blocked->to);
        if (blocked->from >= 0)
                close(blocked->from);
        *blocked = (struct bench_blocked){.to = -1, .from = -1};
}
