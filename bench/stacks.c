/* bench/stacks.c: what stacks and switches of contexts cost, in nanoseconds of CPU time.
 *
 *     build/bench/stacks [COUNT [many]]     COUNT stacks are taken at once; default: 1000000.  `many`: nothing else is done */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <weir/runtime.h>

#include "kernel/stack/stack.h"
#include "kernel/stack/switch.h"

#define ROUNDS 5

static double
now(void)
{
        struct timespec time;

        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
        return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

static size_t
resident_kib(void)
{
        unsigned long pages = 0;
        FILE *file = fopen("/proc/self/statm", "r");

        if (!file || fscanf(file, "%*u %lu", &pages) != 1)
                return 0;
        fclose(file);
        return pages * 4;
}

static double best;

static void
say(const char *what, double nanoseconds, size_t count)
{
        double each = nanoseconds / (double)count;

        best = best == 0 || each < best ? each : best;
        if (what)
                printf("%-44s %10.1f ns\n", what, best), best = 0;
}

/* -- hot -- */

static void
take_and_give(void)
{
        const size_t count = 10000000;

        for (int round = 1; round <= ROUNDS; round++) {
                double began = now();
                for (size_t i = 0; i < count; i++) {
                        struct weir__stack *stack;

                        if (weir__stack_take(&stack))
                                abort();
                        weir__stack_give(stack);
                }
                say(round == ROUNDS ? "take and give, hot" : NULL, now() - began, count);
        }
}

static void
leave_for_ever(void *context)
{
        for (;;)
                weir__context_leave(context);
}

/* Enters `width` contexts by turns. */
static void
enter_and_leave(size_t width)
{
        struct weir__context *contexts = calloc(width, sizeof *contexts);
        struct weir__stack **stacks = calloc(width, sizeof *stacks);
        const size_t count = 20000000 / width * width;
        char what[64];

        for (size_t i = 0; i < width; i++) {
                if (weir__stack_take(&stacks[i]))
                        abort();
                weir__context_make(&contexts[i], stacks[i], leave_for_ever, &contexts[i]);
        }
        snprintf(what, sizeof what, "switch, of %zu contexts", width);
        for (int round = 1; round <= ROUNDS; round++) {
                double began = now();
                for (size_t i = 0; i < count; i += width)
                        for (size_t j = 0; j < width; j++)
                                weir__context_enter(&contexts[j]);
                say(round == ROUNDS ? what : NULL, now() - began, 2 * count);
        }
        for (size_t i = 0; i < width; i++)
                weir__stack_give(stacks[i]);
        free(contexts);
        free(stacks);
}

static void
end_at_once(void *context)
{
        weir__context_end(context);
}

static void
make_and_end(void)
{
        const size_t count = 5000000;

        for (int round = 1; round <= ROUNDS; round++) {
                double began = now();
                for (size_t i = 0; i < count; i++) {
                        struct weir__context context;
                        struct weir__stack *stack;

                        if (weir__stack_take(&stack))
                                abort();
                        weir__context_make(&context, stack, end_at_once, &context);
                        weir__context_enter(&context);
                        weir__stack_give(stack);
                }
                say(round == ROUNDS ? "take, make, enter, end, give" : NULL, now() - began, count);
        }
}

/* -- many -- */

static void
take_many(size_t count, bool is_random)
{
        struct weir__stack **stacks = malloc(count * sizeof *stacks);
        struct weir__stack_stats stats;
        uint64_t seed = 1;

        memset(stacks, 1, count * sizeof *stacks);
        size_t start = resident_kib();
        double began = now();
        for (size_t i = 0; i < count; i++) {
                if (weir__stack_take(&stacks[i]))
                        abort();
        }
        say("take a new one", now() - began, count);
        began = now();
        for (size_t i = 0; i < count; i++)
                stacks[i]->top[-200] = 1;
        say("touch it for the first time", now() - began, count);
        size_t most = resident_kib();
        for (size_t i = count - 1; is_random && i > 0; i--) {
                size_t other = (size_t)((seed = seed * 6364136223846793005u + 1442695040888963407u) >> 20) % (i + 1);
                struct weir__stack *stack = stacks[i];

                stacks[i] = stacks[other];
                stacks[other] = stack;
        }
        began = now();
        for (size_t i = 0; i < count; i++)
                weir__stack_give(stacks[i]);
        say(is_random ? "give it back, in random order" : "give it back", now() - began, count);
        weir__stack_stats(&stats);
        printf("resident: %zu KiB at the start, %zu at most (%.0f bytes each), %zu in the end; %zu stacks left\n", start, most,
               (double)(most - start) * 1024 / (double)count, resident_kib(), stats.made);
        free(stacks);
}

int
main(int count, char **arguments)
{
        size_t many = count > 1 ? strtoul(arguments[1], NULL, 10) : 1000000;

        if (weir_init(NULL))
                return 1;
        if (count < 3) {
                take_and_give();
                enter_and_leave(1);
                enter_and_leave(100);
                enter_and_leave(1000);
                enter_and_leave(10000);
                make_and_end();
        }
        take_many(many, false);
        take_many(many, true);
        return weir_shutdown();
}
