/* 09-go-tasks.c: sorts a large array on all CPUs, and again on one, and prints how long both took.
 *
 *     09-go-tasks [numbers]       default 4000000
 *
 *     sorted(part) = series( parallel( sorted(left half), sorted(right half) ), merge )      and of a small part: sort
 *
 * A long computation does not belong in a callback, where timers and connections would wait for it.  A function that is given
 * to weir_go_new runs on a thread of the executor, which has one for each CPU. */
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weir/weir.h>

#define LEAVES 16               /* parts that are sorted; each other part is merged from two */
#define PARTS  (2 * LEAVES - 1) /* part i is made of 2i + 1 and 2i + 2 */

struct part {
        uint32_t *numbers, *scratch; /* the same piece of two arrays; parts that run at once share nothing of it */
        size_t count, left;          /* how many, and how many of them are in the left half */
};

static int compare(const void *a, const void *b)
{
        uint32_t one = *(const uint32_t *)a, other = *(const uint32_t *)b;

        return (one > other) - (one < other);
}

static void sort(void *context)
{
        struct part *part = context;

        qsort(part->numbers, part->count, sizeof *part->numbers, compare);
}

/* Both halves are sorted. */
static void merge(void *context)
{
        struct part *part = context;
        size_t left = 0, right = part->left;

        for (size_t i = 0; i < part->count; i++) {
                bool from_left = right == part->count || (left < part->left && part->numbers[left] <= part->numbers[right]);

                part->scratch[i] = part->numbers[from_left ? left++ : right++];
        }
        memcpy(part->numbers, part->scratch, part->count * sizeof *part->numbers);
}

static void cut(struct part parts[PARTS], uint32_t *numbers, uint32_t *scratch, size_t count)
{
        parts[0] = (struct part){numbers, scratch, count, count / 2};
        for (int i = 0; i < LEAVES - 1; i++) {
                const struct part *whole = &parts[i];
                size_t left = whole->left, right = whole->count - left;

                parts[2 * i + 1] = (struct part){whole->numbers, whole->scratch, left, left / 2};
                parts[2 * i + 2] = (struct part){whole->numbers + left, whole->scratch + left, right, right / 2};
        }
}

static void sort_alone(struct part parts[PARTS])
{
        for (int i = PARTS; i-- > 0;) /* halves have higher numbers than the part that is made of them */
                (i < LEAVES - 1 ? merge : sort)(&parts[i]);
}

/* A flow that sorts a part.  It has no check: a task that cannot be made poisons its container, and the run reports it. */
static weir_series *sorted(struct part parts[PARTS], int i)
{
        weir_series *series = weir_series_new(NULL, NULL);

        if (i >= LEAVES - 1) {
                weir_series_push(series, weir_go_new(NULL, sort, NULL, &parts[i]));
                return series;
        }
        weir_task *halves = weir_parallel_new(NULL, NULL);
        weir_parallel_add_series(halves, sorted(parts, 2 * i + 1));
        weir_parallel_add_series(halves, sorted(parts, 2 * i + 2));
        weir_series_push(series, halves);
        weir_series_push(series, weir_go_new(NULL, merge, NULL, &parts[i])); /* after both */
        return series;
}

static void fill(uint32_t *numbers, size_t count)
{
        uint64_t random = 1;

        for (size_t i = 0; i < count; i++) {
                random = random * 6364136223846793005 + 1442695040888963407;
                numbers[i] = (uint32_t)(random >> 32);
        }
}

static int compete(uint32_t *alone, uint32_t *together, uint32_t *scratch, size_t count)
{
        struct weir_stats stats = WEIR_STATS_DEFAULT;
        struct part parts[PARTS];

        fill(alone, count);
        fill(together, count);

        cut(parts, alone, scratch, count);
        weir_nsec began = weir_now();
        sort_alone(parts);
        double once = (double)(weir_now() - began) / 1e6;

        cut(parts, together, scratch, count);
        began = weir_now();
        int status = weir_series_run(sorted(parts, 0));
        double often = (double)(weir_now() - began) / 1e6;

        weir_stats(&stats);
        if (status) {
                fprintf(stderr, "09-go-tasks: %s\n", weir_strerror(status));
                return 1;
        }
        bool same = memcmp(alone, together, count * sizeof *alone) == 0;
        printf("%zu numbers\none thread: %.0f ms\n%u threads: %.0f ms\nthe result is %s\n", count, once, stats.functions, often,
               same ? "the same" : "another");
        return !same;
}

int main(int argc, char *argv[])
{
        char *end = NULL;
        long long count = argc > 1 ? strtoll(argv[1], &end, 10) : 4000000;

        if (argc > 1 && (end == argv[1] || *end || count < 1 || count > 1000000000)) {
                fprintf(stderr, "wanted: 09-go-tasks [numbers, 1 to 1000000000]\n");
                return 1;
        }
        uint32_t *arrays = malloc(3 * (size_t)count * sizeof *arrays);
        if (!arrays) {
                fprintf(stderr, "09-go-tasks: %s\n", weir_strerror(-ENOMEM));
                return 1;
        }
        int failed = compete(arrays, arrays + count, arrays + 2 * count, (size_t)count);
        free(arrays);
        return weir_shutdown() != 0 || failed;
}
