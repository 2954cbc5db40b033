/* test/own_tasks/with_glib.c: an asynchronous function of GLib as a task: docs/own-tasks.md shows it.
 *
 *     with_glib FILE [MILLISECONDS]
 *
 * One thread runs the loop of GLib.  The functions of GLib are called there, except g_cancellable_cancel and g_idle_add_full,
 * which any thread may call.  The loop ends when it was told to stop and no reading is left. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include <gio/gio.h>
#include <weir/weir.h>

static GMainLoop *loop;
static unsigned readings; /* which GLib has; as the next one of the loop alone */
static gboolean stops;

/* The side of GLib. */
struct reading {
        GFile *file;
        GCancellable *cancellable;
        weir_task *promise; /* all three with a reference */
};

static void reading_ended(void)
{
        if (--readings == 0 && stops)
                g_main_loop_quit(loop);
}

/* On the thread of GLib, once for each reading, also after a cancel. */
static void on_contents(GObject *file, GAsyncResult *result, void *context)
{
        struct reading *reading = context;
        char *text = NULL;
        gboolean ok = g_file_load_contents_finish(G_FILE(file), result, &text, NULL, NULL, NULL);

        if (weir_promise_end_with(reading->promise, ok ? 0 : -EIO, text, g_free) < 0)
                g_free(text); /* nobody waits for it any more */
        weir_promise_unref(reading->promise);
        g_object_unref(reading->cancellable);
        g_object_unref(reading->file);
        g_free(reading);
        reading_ended();
}

/* On the thread of GLib. */
static gboolean begin_reading(void *context)
{
        struct reading *reading = context;

        readings++;
        g_file_load_contents_async(reading->file, reading->cancellable, on_contents, reading);
        return G_SOURCE_REMOVE;
}

/* On the thread of GLib. */
static gboolean stop_loop(void *unused)
{
        (void)unused;
        stops = TRUE;
        if (readings == 0)
                g_main_loop_quit(loop);
        return G_SOURCE_REMOVE;
}

/* On any thread: lets the loop call the function, also if it does not run yet.  g_main_context_invoke would call it here then.  A
 * g_main_loop_quit that comes before g_main_loop_run is lost. */
static void in_loop(GSourceFunc function, void *context)
{
        g_idle_add_full(G_PRIORITY_DEFAULT, function, context, NULL);
}

/* On a worker.  The cancellable is the context of the promise. */
static void stop_reading(weir_task *promise, void *cancellable)
{
        (void)promise;
        g_cancellable_cancel(cancellable);
}

static weir_task *read_new(const char *path, weir_task_fn *done)
{
        GCancellable *cancellable = g_cancellable_new();
        weir_task *promise = weir_promise_new(stop_reading, done, cancellable);
        struct reading *reading = g_new(struct reading, 1);

        if (!promise)
                abort();
        weir_task_on_free(promise, g_object_unref);
        weir_promise_set_label(promise, path);
        reading->file = g_file_new_for_path(path);
        reading->cancellable = g_object_ref(cancellable);
        reading->promise = weir_promise_ref(promise);
        in_loop(begin_reading, reading);
        return promise;
}

/* -- a flow -- */

static void on_read(weir_task *reading, void *cancellable)
{
        (void)cancellable;
        if (weir_task_status(reading) == 0)
                printf("%s", (const char *)weir_promise_value(reading));
        else
                printf("%s\n", weir_strerror(weir_task_status(reading)));
}

static void *run_glib(void *unused)
{
        (void)unused;
        g_main_loop_run(loop);
        return NULL;
}

int main(int argc, char *argv[])
{
        weir_series *series = weir_series_new(NULL, NULL);

        setvbuf(stdout, NULL, _IOLBF, 0);
        loop = g_main_loop_new(NULL, FALSE);
        GThread *thread = g_thread_new("glib", run_glib, NULL);
        weir_series_push(series, read_new(argc > 1 ? argv[1] : "/etc/hostname", on_read));
        weir_series_set_deadline(series, WEIR_MSEC(argc > 2 ? atol(argv[2]) : 10000));
        weir_series_run(series);

        weir_shutdown(); /* first: all promises have ended */
        in_loop(stop_loop, NULL);
        g_thread_join(thread);
        g_main_loop_unref(loop);
        return 0;
}
