/* glib-embed.c: a GLib program that leaves its waiting and computing to weir.
 *
 *     glib-embed
 *
 * The two do not disturb each other.  GLib's main loop has the main thread, weir has threads of its own.  There are two rules:
 *
 * - From the loop into weir: start, cancel, post, end a promise.  Never wait for a flow there: the loop would stand still.
 * - From weir into the loop: a call, weir_loop_call_new.  It is a task, so a flow goes on when its function has returned.  What
 *   belongs to the loop is touched by such functions only. */
#include <glib-unix.h>
#include <glib.h>
#include <stdint.h>
#include <stdio.h>

#include <weir/weir.h>

#define PARTS 4

static GMainLoop *loop;
static weir_loop *calls; /* of weir, for the thread of the loop */
static guint watch;
static uint64_t sums[PARTS];
static unsigned shown; /* of the loop alone */

/* -- in the loop: these may touch widgets -- */

static gboolean on_calls(gint fd, GIOCondition condition, gpointer context)
{
        (void)fd;
        (void)condition;
        (void)context;
        weir_loop_run(calls, WEIR_ALL);
        return G_SOURCE_CONTINUE;
}

static void show_progress(void *context)
{
        (void)context;
        printf("%u of %d parts\n", ++shown, PARTS);
}

static gboolean answered(gpointer answer)
{
        puts("the user says yes");
        weir_promise_end(answer, 0); /* the flow goes on, in a thread of weir */
        weir_promise_unref(answer);
        return G_SOURCE_REMOVE;
}

static void ask_user(void *answer)
{
        puts("print the sum?");
        g_timeout_add(50, answered, answer); /* stands for a dialogue */
}

static void finish(void *context)
{
        uint64_t sum = 0;

        (void)context;
        for (int i = 0; i < PARTS; i++)
                sum += sums[i];
        printf("%llu\n", (unsigned long long)sum);
        g_main_loop_quit(loop);
}

/* -- in weir's threads -- */

static void add_up(void *context)
{
        uint64_t *sum = context, part = (uint64_t)(sum - sums);

        for (uint64_t i = part * 1000; i < (part + 1) * 1000; i++)
                *sum += i;
}

/* -- the flow -- */

static weir_series *part_new(uint64_t *sum)
{
        weir_series *part = weir_series_new(NULL, NULL);

        weir_series_push(part, weir_go_new(NULL, add_up, NULL, sum));
        weir_series_push(part, weir_loop_call_new(calls, show_progress, NULL, NULL));
        return part;
}

/* A callback of the loop starts the flow: compute on all CPUs, then ask the user, and wait for the answer. */
static gboolean on_click(gpointer context)
{
        weir_series *series = weir_series_new(NULL, NULL);
        weir_task *parts = weir_parallel_new(NULL, NULL), *answer = weir_promise_new(NULL, NULL, NULL);

        (void)context;
        for (int i = 0; i < PARTS; i++)
                weir_parallel_add_series(parts, part_new(&sums[i]));
        weir_series_push(series, parts);
        weir_series_push(series, weir_loop_call_new(calls, ask_user, NULL, weir_promise_ref(answer)));
        weir_series_push(series, answer);
        weir_series_push(series, weir_loop_call_new(calls, finish, NULL, NULL));
        if (weir_series_start(series) != 0)
                g_main_loop_quit(loop);
        return G_SOURCE_REMOVE;
}

static void attach(void)
{
        calls = weir_loop_new();
        watch = g_unix_fd_add(weir_loop_fd(calls), G_IO_IN, on_calls, NULL);
}

static void detach(void)
{
        weir_shutdown(); /* first: no call comes any more, and those that wait have ended */
        g_source_remove(watch);
        weir_loop_unref(calls);
}

int main(void)
{
        loop = g_main_loop_new(NULL, FALSE);
        attach();
        g_idle_add(on_click, NULL);
        g_main_loop_run(loop);
        detach();
        g_main_loop_unref(loop);
        return 0;
}
