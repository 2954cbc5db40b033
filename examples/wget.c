/* wget.c: fetches files, four at a time, with a bar for each on a terminal.
 *
 *     wget URL...          Ctrl-C ends all that run, and removes what is half done
 *
 * Each file is one series: the head of the response, then a read of a piece and a write to the file, by turns.  So a slow disk
 * slows the server, and a file of any size needs the memory of one piece.  A file whose body was cut is removed. */
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
        weir_file *file;
        char name[256];
        unsigned redirects;
        int status;
        bool is_created, is_complete;
        _Atomic uint64_t came, size; /* bytes; the size is UINT64_MAX if it is not known */
        _Atomic bool is_running;
};

static struct download *downloads;
static size_t count;
static bool has_terminal;

/* -- one file -- */

static void ask(struct download *download, weir_series *series);
static void read_on(struct download *download, weir_series *series);

static void fail(struct download *download, const char *reason)
{
        fprintf(stderr, "%swget: %s: %s\n", has_terminal ? "\r\033[K" : "", weir_url_redacted(download->url), reason);
        download->status = download->status ? download->status : -EIO;
}

static void written(weir_task *write, void *context)
{
        struct download *download = context;

        if (weir_task_status(write)) {
                download->status = weir_task_status(write);
                fail(download, weir_strerror(download->status));
        } else {
                read_on(download, weir_series_of(write));
        }
}

static void take_piece(weir_task *read, void *context)
{
        struct download *download = context;
        size_t size;
        const void *data = weir_http_call_data(read, &size);
        uint64_t at = download->came;

        if (weir_task_status(read)) {
                download->status = weir_task_status(read);
                fail(download, weir_http_call_problem(download->call) ? weir_http_call_problem(download->call)
                                                                      : weir_strerror(download->status));
        } else if (!size) {
                download->is_complete = true;
        } else {
                download->came = at + size;
                weir_series_push(weir_series_of(read),
                                 weir_file_write_new(download->file, (int64_t)at, data, size, written, download));
        }
}

static void read_on(struct download *download, weir_series *series)
{
        weir_series_push(series, weir_http_call_read_new(download->call, take_piece, download));
}

static void opened(weir_task *open, void *context)
{
        struct download *download = context;

        download->file = weir_file_open_take(open);
        download->is_created = download->file;
        download->status = weir_task_status(open);
        if (download->file)
                read_on(download, weir_series_of(open));
        else
                fail(download, weir_strerror(download->status));
}

/* The server has sent us elsewhere. */
static void go_elsewhere(struct download *download, weir_series *series)
{
        const char *location = weir_http_call_header(download->call, "Location");
        weir_url *next = location ? weir_url_resolve(download->url, location, NULL) : NULL;

        if (!next || ++download->redirects > REDIRECTS) {
                fail(download, next ? "too many redirects" : "a redirect to nowhere");
                weir_url_free(next);
                return;
        }
        weir_url_free(download->url);
        download->url = next;
        ask(download, series);
}

static void take_head(weir_task *head, void *context)
{
        struct download *download = context;
        weir_series *series = weir_series_of(head);
        int response = weir_http_call_status(download->call);
        char reason[64];

        if (weir_task_status(head)) {
                download->status = weir_task_status(head);
                fail(download, weir_http_call_problem(download->call) ? weir_http_call_problem(download->call)
                                                                      : weir_strerror(download->status));
        } else if (response == 301 || response == 302 || response == 303 || response == 307 || response == 308) {
                go_elsewhere(download, series);
        } else if (response != 200) {
                snprintf(reason, sizeof reason, "the server answers %d", response);
                fail(download, reason);
        } else {
                download->size = weir_http_call_length(download->call);
                weir_series_push(series, weir_file_open_new(download->name, O_WRONLY | O_CREAT | O_EXCL, 0644, opened, download));
        }
}

static void ask(struct download *download, weir_series *series)
{
        weir_http_call_unref(download->call);
        download->call = weir_http_call_new(NULL, "GET", weir_url_text(download->url));
        weir_series_push(series, weir_http_call_head_new(download->call, take_head, download));
}

static void begin(weir_task *task, void *context)
{
        struct download *download = context;

        if (weir_task_status(task))
                return;
        download->is_running = true;
        ask(download, weir_series_of(task));
}

static void ended(weir_task *module, void *context)
{
        struct download *download = context;

        download->is_running = false;
        weir_http_call_unref(download->call);
        weir_file_unref(download->file);
        download->call = NULL;
        download->file = NULL;
        if (!download->is_complete && !download->status)
                download->status = weir_task_status(module) ? weir_task_status(module) : -ECANCELED;
        if (!download->is_complete && download->is_created)
                unlink(download->name);
        if (download->is_complete)
                printf("%s%s: %llu bytes\n", has_terminal ? "\r\033[K" : "", download->name, (unsigned long long)download->came);
}

/* The last part of the path. */
static void name_it(struct download *download)
{
        const char *path = weir_url_path(download->url), *slash = strrchr(path, '/');
        const char *last = slash ? slash + 1 : path;

        snprintf(download->name, sizeof download->name, "%s", *last ? last : "index.html");
}

/* The task that fetches it; NULL: it could not be begun, and that was said. */
static weir_task *fetch(struct download *download, const char *text)
{
        struct weir_url_problem problem;
        weir_series *series = weir_series_new(NULL, NULL);

        download->url = weir_url_parse(text, &problem);
        download->size = UINT64_MAX;
        if (!download->url || !series) {
                fprintf(stderr, "wget: %s: at byte %zu: %s\n", text, download->url ? 0 : problem.at,
                        download->url ? "out of memory" : problem.text);
                download->status = -EINVAL;
                weir_series_dismiss(series);
                return NULL;
        }
        name_it(download);
        weir_series_push(series, weir_empty_new(begin, download));
        return weir_module_new(series, ended, download);
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
                weir_task *task = fetch(&downloads[i], argv[i + 1]);

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
