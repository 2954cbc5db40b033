/* wget.c: fetches files, four at a time, with a bar for each on a terminal.
 *
 *     wget URL...          Ctrl-C ends all that run, and removes what is half done
 *
 * Each file is one fiber: the head of the response, then a read of a piece and a write to the file, by turns.  So a slow disk
 * slows the server, and a file of any size needs the memory of one piece and of a stack.  A file whose body was cut is removed. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <weir/weir.h>

#define AT_ONCE   4
#define REDIRECTS 10
#define BAR       30

struct download {
        weir_url *url;
        weir_http_call *call;
        char name[256];
        bool is_complete;
        _Atomic uint64_t came, size; /* bytes; the size is UINT64_MAX if it is not known */
        _Atomic bool is_running;
};

static struct download *downloads;
static size_t count;
static bool has_terminal;

/* -- one file -- */

static int fail(const struct download *download, int status, const char *reason)
{
        fprintf(stderr, "%swget: %s: %s\n", has_terminal ? "\r\033[K" : "", weir_url_redacted(download->url), reason);
        return status;
}

static int fail_call(const struct download *download, int status)
{
        const char *problem = weir_http_call_problem(download->call);

        return fail(download, status, problem ? problem : weir_strerror(status));
}

/* The server has sent us elsewhere. */
static int go_elsewhere(struct download *download, unsigned redirects)
{
        const char *location = weir_http_call_header(download->call, "Location");
        weir_url *next = location ? weir_url_resolve(download->url, location, NULL) : NULL;

        if (!next || redirects == REDIRECTS) {
                const char *reason = next ? "too many redirects" : "a redirect to nowhere";

                weir_url_free(next);
                return fail(download, -EIO, reason);
        }
        weir_url_free(download->url);
        download->url = next;
        return 0;
}

/* Asks until the head of the file is there. */
static int find(struct download *download)
{
        for (unsigned redirects = 0;; redirects++) {
                char reason[64];

                weir_http_call_unref(download->call);
                download->call = weir_http_call_new(NULL, "GET", weir_url_text(download->url));
                int err = weir_await(weir_http_call_head_new(download->call, NULL, NULL));
                if (err)
                        return fail_call(download, err);
                int response = weir_http_call_status(download->call);
                if (response == 200)
                        return 0;
                if (response != 301 && response != 302 && response != 303 && response != 307 && response != 308) {
                        snprintf(reason, sizeof reason, "the server answers %d", response);
                        return fail(download, -EIO, reason);
                }
                err = go_elsewhere(download, redirects);
                if (err)
                        return err;
        }
}

static int copy(struct download *download, weir_file *file)
{
        for (;;) {
                weir_task *read = weir_http_call_read_new(download->call, NULL, NULL);
                int err = weir_await(read);
                size_t size;

                if (err)
                        return fail_call(download, err);
                const void *data = weir_http_call_data(read, &size);
                if (!size)
                        return 0;
                err = weir_await(weir_file_write_new(file, (int64_t)download->came, data, size, NULL, NULL));
                if (err)
                        return fail(download, err, weir_strerror(err));
                download->came += size;
        }
}

/* A cancel ends each await, so it comes through here, too. */
static int save(struct download *download)
{
        weir_task *open = weir_file_open_new(download->name, O_WRONLY | O_CREAT | O_EXCL, 0644, NULL, NULL);
        int err = weir_await(open);

        if (err)
                return fail(download, err, weir_strerror(err));
        weir_file *file = weir_file_open_take(open);
        err = copy(download, file);
        weir_file_unref(file);
        if (err)
                unlink(download->name);
        return err;
}

static int fetch(void *context)
{
        struct download *download = context;

        download->is_running = true;
        int err = find(download);
        if (!err) {
                download->size = weir_http_call_length(download->call);
                err = save(download);
        }
        weir_http_call_unref(download->call);
        download->is_running = false;
        download->is_complete = !err;
        if (!err)
                printf("%s%s: %llu bytes\n", has_terminal ? "\r\033[K" : "", download->name, (unsigned long long)download->came);
        return err;
}

/* The last part of the path. */
static void name_it(struct download *download)
{
        const char *path = weir_url_path(download->url), *slash = strrchr(path, '/');
        const char *last = slash ? slash + 1 : path;

        snprintf(download->name, sizeof download->name, "%s", *last ? last : "index.html");
}

/* The task that fetches it; NULL: it could not be begun, and that was said. */
static weir_task *fetch_new(struct download *download, const char *text)
{
        struct weir_url_problem problem;

        download->url = weir_url_parse(text, &problem);
        download->size = UINT64_MAX;
        if (!download->url) {
                fprintf(stderr, "wget: %s: at byte %zu: %s\n", text, problem.at, problem.text);
                return NULL;
        }
        name_it(download);
        return weir_fiber_new(fetch, NULL, download);
}

/* -- bars -- */

static void draw(weir_task *ticker, void *context)
{
        (void)ticker;
        (void)context;
        for (size_t i = 0; i < count; i++) {
                struct download *download = &downloads[i];
                uint64_t came = download->came, size = download->size;
                int full = size && size != UINT64_MAX ? (int)(came * BAR / size) : 0;

                if (!download->is_running)
                        continue;
                fprintf(stderr, "\r\033[K%-20.20s [%.*s%*s] %llu KiB", download->name, full, "##############################",
                        BAR - full, "", (unsigned long long)came / 1024);
                return; /* one line: the first that runs */
        }
}

static void stop(weir_task *signal, void *all)
{
        if (weir_task_status(signal) == 0)
                weir_series_cancel(all);
}

int main(int argc, char *argv[])
{
        weir_semaphore *places = weir_semaphore_new(AT_ONCE);
        weir_task *files = weir_parallel_new(NULL, NULL);
        weir_series *all = weir_series_ref(weir_series_new(NULL, NULL));
        int failed = argc < 2;

        if (argc < 2)
                fprintf(stderr, "wanted: wget URL...\n");
        has_terminal = isatty(STDERR_FILENO);
        count = (size_t)argc - 1;
        downloads = calloc(count + 1, sizeof *downloads);
        for (size_t i = 0; i < count; i++) {
                weir_task *task = fetch_new(&downloads[i], argv[i + 1]);

                if (task)
                        weir_parallel_add(files, weir_limited_new(places, 1, task, NULL, NULL));
        }
        weir_series_push(all, files);
        weir_task_start(weir_signal_new(SIGINT, stop, all));
        if (has_terminal)
                weir_task_start(weir_ticker_new(WEIR_MSEC(100), WEIR_TICK_SKIP, draw, NULL));
        weir_series_run(all);
        weir_shutdown();
        weir_series_unref(all);
        weir_semaphore_unref(places);
        for (size_t i = 0; i < count; i++) {
                failed |= !downloads[i].is_complete;
                weir_url_free(downloads[i].url);
        }
        free(downloads);
        return failed;
}
