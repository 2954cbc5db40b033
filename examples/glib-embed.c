/* glib-embed.c: a GLib program that leaves its waiting and computing to weir.
 *
 *     glib-embed
 *
 * The two do not disturb each other.  GLib's main loop has the main thread, weir has threads of its own.  There are two rules:
 *
 * - From the loop into weir: start, cancel, post, end a promise.  Never wait for a flow there: the loop would stand still.
 * - From weir into the loop: only g_idle_add_full.  What belongs to the loop is touched by functions that it runs.  Do not take
 *   g_main_context_invoke: while the loop does not run, it calls the function at once, on the thread of weir. */
#include <glib.h>
#include <stdint.h>
#include <stdio.h>

#include <weir/weir.h>

#define PARTS 4

static GMainLoop *loop;
static uint64_t sums[PARTS];
static unsigned shown; /* of the loop alone */

/* -- in the loop: these may touch widgets -- */

static gboolean show_progress(gpointer context)
{
        (void)context;
        printf("%u of %d parts\n", ++shown, PARTS);
        return G_SOURCE_REMOVE;
}

static gboolean answered(gpointer answer)
{
        puts("the user says yes");
        weir_promise_end(answer, 0); /* the flow goes on, in a thread of weir */
        weir_promise_unref(answer);
        return G_SOURCE_REMOVE;
}

static gboolean ask_user(gpointer answer)
{
        puts("print the sum?");
        g_timeout_add(50, answered, answer); /* stands for a dialogue */
        return G_SOURCE_REMOVE;
}

static gboolean finish(gpointer context)
{
        uint64_t sum = 0;

        (void)context;
        for (int i = 0; i < PARTS; i++)
                sum += sums[i];
        printf("%llu\n", (unsigned long long)sum);
        g_main_loop_quit(loop);
        return G_SOURCE_REMOVE;
}

/* -- in weir's threads -- */

/* Lets the loop call the function, as soon as it runs.  Functions come in the order of these calls. */
static void in_loop(GSourceFunc function, gpointer context)
{
        g_idle_add_full(G_PRIORITY_DEFAULT, function, context, NULL);
}

static void add_up(void *context)
{
        uint64_t *sum = context, part = (uint64_t)(sum - sums);

        for (uint64_t i = part * 1000; i < (part + 1) * 1000; i++)
                *sum += i;
}

static void added_up(weir_task *task, void *context)
{
        (void)task;
        (void)context;
        in_loop(show_progress, NULL);
}

/* The next task of the flow is a promise, which the loop ends. */
static void all_added_up(weir_task *task, void *context)
{
        weir_task *answer = weir_promise_new(NULL, NULL, NULL);

        (void)context;
        in_loop(ask_user, weir_promise_ref(answer));
        weir_series_push(weir_series_of(task), answer);
}

static void ended(weir_series *series, void *context)
{
        (void)series;
        (void)context;
        in_loop(finish, NULL);
}

/* A callback of the loop starts the flow: compute on all CPUs, then wait for the user's answer. */
static gboolean on_click(gpointer context)
{
        weir_series *series = weir_series_new(ended, NULL);
        weir_task *parts = weir_parallel_new(all_added_up, NULL);

        (void)context;
        for (int i = 0; i < PARTS; i++)
                weir_parallel_add(parts, weir_go_new(NULL, add_up, added_up, &sums[i]));
        weir_series_push(series, parts);
        if (weir_series_start(series) != 0)
                g_main_loop_quit(loop);
        return G_SOURCE_REMOVE;
}

int main(void)
{
        loop = g_main_loop_new(NULL, FALSE);
        g_idle_add(on_click, NULL);
        g_main_loop_run(loop);
        weir_shutdown(); /* before the loop goes: no callback of weir uses it any more */
        g_main_loop_unref(loop);
        return 0;
}
