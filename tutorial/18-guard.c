/* 18-guard.c: three flows write several lines each to one file, with pauses in between.  A guard keeps the lines of each flow
 * together.
 *
 *     18-guard
 *
 * The second one is cancelled while it holds the guard.  Its pending task ends then.  Its series still holds the guard when that
 * task calls back, so it can leave the file complete.  It need not release anything: the guard goes to the third flow when its
 * series has ended.
 *
 *     first:   acquires, writes, 20 ms, writes, releases, 20 ms without the guard
 *     second:           waits . . . . . . . . . acquires, writes, 10 s -- cancelled after 20 ms: writes, ends
 *     third:            waits . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . acquires, writes, 20 ms, ... */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>

#include <weir/weir.h>

struct flow {
        const char *name;
        weir_nsec pause;
        bool is_cancelled; /* while it holds the guard */
        FILE *file;
};

static void append(const struct flow *flow, const char *line)
{
        fprintf(flow->file, "%s %s\n", flow->name, line);
}

static void goes_on(weir_task *timer, void *context)
{
        const struct flow *flow = context;
        weir_series *series = weir_series_of(timer);

        if (weir_task_status(timer) != 0) {
                append(flow, "is cancelled, and says so");
                return;
        }
        append(flow, "ends");
        weir_guard_release_named("file", series);
        weir_series_push(series, weir_timer_new(flow->pause, NULL, NULL)); /* without the guard */
}

static void cancels_the_second(weir_task *timer, void *context)
{
        (void)timer;
        (void)context;
        weir_series_cancel_named("second", WEIR_ALL);
}

static void has_the_file(weir_task *acquire, void *context)
{
        const struct flow *flow = context;

        if (weir_task_status(acquire) != 0)
                return;
        append(flow, "begins");
        weir_series_push(weir_series_of(acquire), weir_timer_new(flow->pause, goes_on, context));
        if (flow->is_cancelled)
                weir_task_start(weir_timer_new(WEIR_MSEC(20), cancels_the_second, NULL));
}

/* The flows acquire the guard in the order of their start: here that of adding. */
static weir_series *new_flow(struct flow *flow)
{
        weir_series *series = weir_series_new(NULL, NULL);

        weir_series_push(series, weir_guard_acquire_new_named("file", has_the_file, flow));
        if (weir_series_set_name(series, flow->name) != 0)
                fprintf(stderr, "%s has no name, and will not be cancelled\n", flow->name);
        return series;
}

int main(void)
{
        struct flow flows[] = {
                {.name = "first", .pause = WEIR_MSEC(20)},
                {.name = "second", .pause = WEIR_SEC(10), .is_cancelled = true},
                {.name = "third", .pause = WEIR_MSEC(20)},
        };
        FILE *file = tmpfile();
        weir_task *all = weir_parallel_new(NULL, NULL);

        if (!file) {
                perror("tmpfile");
                return 1;
        }
        for (size_t i = 0; i < 3; i++) {
                flows[i].file = file;
                weir_parallel_add_series(all, new_flow(&flows[i]));
        }
        int status = weir_task_run(all);
        printf("all have ended: %s\n", weir_strerror(status));
        rewind(file);
        for (char line[100]; fgets(line, sizeof line, file);)
                fputs(line, stdout);
        fclose(file);
        return status != -ECANCELED;
}
