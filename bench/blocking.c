/* bench/blocking.c: what callbacks that block do to their neighbours: timers and HTTP connections, beside the peers' timers.
 *
 *     blocking [quick] [beginning of a word of a case's name]
 *
 *     connections open -> warm-up -> window without blocking -> the callbacks block -> window as long
 *
 * The server is a child process (blocking_server.c), the load generator is this one; both run on any CPU.  The peers' programs
 * have the tickers alone.
 *
 * Threads: one. */
#include "blocking.h"

#include <stdio.h>
#include <string.h>

#include "cases.h"
#include "load.h"
#include "peers.h"

#define ROUNDS      5
#define PATIENCE    30 /* seconds for a peer */
#define CONNECTIONS 500
#define INTERVAL    INT64_C(50000000) /* of a connection's requests: 10,000 a second in all */

#define LATE    "timer late ms, worst"
#define REPLY   "reply ms, p99"
#define OWN     "ms late with a request, worst"
#define CALM    ", unblocked"
#define BLOCKED ", blocked"
#define MORE    ", more"

static const struct blocking_case {
        const char *name;
        unsigned callbacks;
        bool announced;
        bool loops; /* the loops take part: for one callback alone, for each stops them for as long as it sleeps */
        bool go;
        double goal; /* ms more when blocked, at most */
} cases[] = {
        {"1 callback sleeps", 1, false, true, true, 25},
        {"64 callbacks sleep", 64, false, false, true, 25},
        {"64 callbacks sleep, announced", 64, true, false, false, 5},
};
#define CASES (sizeof cases / sizeof *cases)

static const struct {
        const char *peer, *program;
} loops[] = {{"libuv", "uv"}, {"libevent", "event"}, {"libev", "ev"}};
#define LOOPS (sizeof loops / sizeof *loops)

static int64_t sleeping; /* each callback */
static int64_t behind;   /* how much longer than that a window is */

/* -- weir -- */

static void
tell(const char *peer, const char *name, const char *metric, double calm, double blocked)
{
        char text[96];

        snprintf(text, sizeof text, "%s" CALM, metric);
        bench_sample(peer, name, text, calm);
        snprintf(text, sizeof text, "%s" BLOCKED, metric);
        bench_sample(peer, name, text, blocked);
        snprintf(text, sizeof text, "%s" MORE, metric);
        bench_sample(peer, name, text, blocked - calm);
}

/* Both windows; figures[] and ticks[] are those of the one and the other. */
static bool
measure_windows(const struct bench_blocked *blocked, struct generator *generator, struct bench_figures figures[2],
                struct bench_ticks ticks[2])
{
        return bench_blocked_tell(blocked, &ticks[0]) && /* of the warm-up: forgotten */
               bench_load_window(generator, &figures[0]) && bench_blocked_tell(blocked, &ticks[0]) &&
               bench_blocked_block(blocked) && bench_load_window(generator, &figures[1]) &&
               bench_blocked_tell(blocked, &ticks[1]);
}

static void
measure_weir(const struct blocking_case *what)
{
        struct bench_blocking blocking = {what->callbacks, sleeping, what->announced};
        struct bench_load load = {
                .connections = CONNECTIONS, .interval = INTERVAL, .warm_up = BENCH_NSEC_PER_SEC / 2, .window = sleeping + behind};
        struct bench_blocked blocked;
        struct bench_figures figures[2];
        struct bench_ticks ticks[2];

        if (bench_interrupted() || !bench_blocked_start(&blocked, &blocking))
                return;
        struct generator *generator = bench_load_begin(&load, &blocked.server);
        bool good = generator && measure_windows(&blocked, generator, figures, ticks);
        bench_load_end(generator);
        bench_blocked_stop(&blocked);
        if (!good)
                return;
        tell("weir", what->name, LATE, ticks[0].late_ms, ticks[1].late_ms);
        tell("weir", what->name, REPLY, figures[0].late_p99_ms, figures[1].late_p99_ms);
        tell("load generator", what->name, OWN, figures[0].turn_late_ms, figures[1].turn_late_ms);
        bench_sample("weir", what->name, "callbacks that returned in the window", ticks[1].returned);
        bench_sample("weir", what->name, "part of the requests answered" BLOCKED, figures[1].ideal);
        bench_sample("weir", what->name, "failures", figures[1].failures);
        bench_sample("weir", what->name, "CPU used by others, percent of one" CALM, figures[0].others);
}

/* -- the peers -- */

static void
measure_peer(const struct blocking_case *what, const char *peer, const char *program)
{
        struct bench_reading reading;

        if (bench_peer(program, &reading, PATIENCE, "blocking count=%d period=%lld blockers=%u sleep=%lld arming=%lld over=%lld",
                       BENCH_TICKERS, (long long)BENCH_TICK_PERIOD, what->callbacks, (long long)sleeping,
                       (long long)BENCH_NSEC_PER_SEC / 2, (long long)behind))
                tell(peer, what->name, LATE, reading.calm / 1000, reading.blocked / 1000);
}

/* -- all -- */

static void
compete(const struct bench_size *size, const struct blocking_case *what)
{
        if (!bench_wanted(size, what->name))
                return;
        for (size_t i = 0; i < LOOPS && what->loops; i++)
                measure_peer(what, loops[i].peer, loops[i].program);
        if (what->go)
                measure_peer(what, "go", "go");
        measure_weir(what);
}

int
main(int argc, char *argv[])
{
        struct bench_size size = bench_size_of(argc, argv);

        sleeping = size.quick ? BENCH_NSEC_PER_SEC / 4 : BENCH_NSEC_PER_SEC;
        behind = sleeping / 2;
        bench_begin();
        for (int round = size.quick ? ROUNDS - 1 : 0; round < ROUNDS; round++)
                for (size_t i = 0; i < CASES; i++)
                        compete(&size, &cases[i]);
        for (size_t i = 0; i < CASES; i++) {
                bench_goal("weir", cases[i].name, LATE MORE, cases[i].goal);
                bench_goal("weir", cases[i].name, REPLY MORE, cases[i].goal);
        }
        bench_peers_missing();
        bench_print("blocking");
        return bench_interrupted();
}
