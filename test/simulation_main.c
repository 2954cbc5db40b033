/* test/simulation_main.c: the simulation as a program, for long runs and for replays: CONTRIBUTING.md.
 *
 * Threads: it runs each seed in a child process, for a difference ends the process. */
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "test/simulation.h"
#include "test/support.h"

struct report {
        struct simulation_result result;
        uint64_t differs_at;
};

static struct report *report; /* shared with the child */

/* Returns whether all was as it should be. */
static bool
run(struct simulation_setup *setup, bool quietly)
{
        int status;

        memset(report, 0, sizeof *report);
        setup->differs_at = &report->differs_at;
        fflush(stdout);
        pid_t child = fork();
        if (child == 0) {
                if (quietly && !freopen("/dev/null", "w", stderr))
                        _exit(2);
                simulation_run(setup, &report->result);
                exit(0);
        }
        if (child < 0 || waitpid(child, &status, 0) != child) {
                perror("simulation");
                exit(2);
        }
        return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/* Leaves out what the difference does without, and looks for one that comes earlier with fewer objects. */
static void
shrink(struct simulation_setup *setup)
{
        struct simulation_setup best = *setup;

        best.steps = report->differs_at;
        for (unsigned kind = 1; simulation_kind(kind); kind++) {
                struct simulation_setup tried = best;

                tried.without |= UINT32_C(1) << kind;
                if (!run(&tried, true) && report->differs_at)
                        best = tried, best.steps = report->differs_at;
        }
        for (unsigned objects = 64; objects >= 4; objects /= 2) {
                struct simulation_setup tried = best;

                tried.objects = objects;
                tried.steps = setup->steps;
                if (!run(&tried, true) && report->differs_at && report->differs_at < best.steps)
                        best = tried, best.steps = report->differs_at;
        }
        printf("the same, smaller: --seed %" PRIu64 " --steps %" PRIu64 " --objects %u --without %#x\n", best.seed, best.steps,
               best.objects, best.without);
        run(&best, false);
}

static const struct option options[] = {
        {"seed", required_argument, NULL, 's'},  {"steps", required_argument, NULL, 'n'},
        {"seeds", required_argument, NULL, 'c'}, {"objects", required_argument, NULL, 'o'},
        {"trace", required_argument, NULL, 't'}, {"without", required_argument, NULL, 'w'},
        {"shrink", no_argument, NULL, 'm'},      {NULL, 0, NULL, 0},
};

static void
usage(void)
{
        fprintf(stderr,
                "usage: simulation [--seed N] [--steps N] [--seeds N] [--objects N] [--trace N] [--without BITS] [--shrink]\n");
        exit(2);
}

static int
go(struct simulation_setup *setup, uint64_t seeds, bool shrinks)
{
        for (uint64_t i = 0; i < seeds; i++, setup->seed++) {
                int64_t began = weir_test_now();

                if (!run(setup, false)) {
                        if (shrinks && report->differs_at)
                                shrink(setup);
                        return 1;
                }
                printf("seed %" PRIu64 ": %" PRIu64 " steps, %" PRIu64 " callbacks, %" PRIu64 " ticks, %" PRIu64
                       " lives, %.1f s, %016" PRIx64 "\n",
                       setup->seed, report->result.steps, report->result.callbacks, report->result.ticks, report->result.lives,
                       (double)(weir_test_now() - began) / 1e9, report->result.hash);
        }
        return 0;
}

int
main(int count, char **arguments)
{
        struct simulation_setup setup = {.seed = 1, .steps = 1000000};
        uint64_t seeds = 1;
        bool shrinks = false;

        report = mmap(NULL, sizeof *report, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        if (report == MAP_FAILED)
                return 2;
        for (int option; (option = getopt_long(count, arguments, "", options, NULL)) != -1;) {
                uint64_t number = optarg ? strtoull(optarg, NULL, 0) : 0;

                switch (option) {
                case 's': setup.seed = number; break;
                case 'n': setup.steps = number; break;
                case 'c': seeds = number; break;
                case 'o': setup.objects = (unsigned)number; break;
                case 't': setup.trace = (unsigned)number; break;
                case 'w': setup.without = (uint32_t)number; break;
                case 'm': shrinks = true; break;
                default: usage();
                }
        }
        return go(&setup, seeds, shrinks);
}
