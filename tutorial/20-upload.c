/* 20-upload.c: bodies that stream, a piece at a time: files of any size in a few kilobytes of memory.
 *
 *     20-upload [address [directory]]  default 127.0.0.1:8888 and the current one
 *
 *     PUT  /files/{name}               streams the body into a file, and prints its size and its sender
 *     GET  /files/{name}               the file (HEAD and Range are served, too)
 *     POST /upper                      sends the body back in capitals, while it comes
 *
 * The next piece is read when the last one has been handled.  Until then the client cannot send much: its TCP window is closed.
 *
 * Try it:  curl -T README.md http://127.0.0.1:8888/files/
 *          curl -T - http://127.0.0.1:8888/files/endless </dev/zero        (Ctrl-C: the file does not stay)
 *          curl -T - -X POST http://127.0.0.1:8888/upper
 *
 * A proxy on this machine is trusted to name its clients (X-Forwarded-For).  Ctrl-C stops. */
#include <ctype.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <weir/weir.h>

/* -- PUT -- */

struct upload {
        weir_task *exchange;
        int fd;
        int kept; /* the file is complete */
        long long size;
        char name[1024];      /* the final name */
        char temporary[1024]; /* the name until the file is complete */
};

/* After the end of the series: also when the client has gone in the middle, and the series was cancelled. */
static void free_upload(void *context)
{
        struct upload *upload = context;

        close(upload->fd);
        if (!upload->kept) {
                unlink(upload->temporary);
                fprintf(stderr, "%s: given up after %lld bytes\n", upload->name, upload->size);
        }
        free(upload);
}

static struct upload *new_upload(weir_task *exchange, const char *directory, const char *name)
{
        struct upload *upload = calloc(1, sizeof *upload);

        if (!upload)
                return NULL;
        upload->exchange = exchange;
        snprintf(upload->temporary, sizeof upload->temporary, "%s/.upload-XXXXXX", directory);
        upload->fd = -1;
        if (snprintf(upload->name, sizeof upload->name, "%s/%s", directory, name) < (int)sizeof upload->name)
                upload->fd = mkstemp(upload->temporary);
        if (upload->fd < 0) {
                free(upload);
                return NULL;
        }
        fchmod(upload->fd, 0644);
        return upload;
}

static void finish(struct upload *upload)
{
        char text[128];

        if (rename(upload->temporary, upload->name)) {
                weir_http_reply_text(upload->exchange, 500, "cannot keep it\n");
                return;
        }
        upload->kept = 1;
        snprintf(text, sizeof text, "%lld bytes from %s\n", upload->size, weir_http_client_address(upload->exchange));
        weir_http_reply_text(upload->exchange, 201, text);
}

/* A regular file is written into the system's memory.  A slower write belongs in a function (09-go-tasks.c). */
static int store(struct upload *upload, const char *data, size_t size)
{
        while (size > 0) {
                ssize_t count = write(upload->fd, data, size);

                if (count < 0)
                        return -errno;
                upload->size += count;
                data += count;
                size -= (size_t)count;
        }
        return 0;
}

static void on_piece(weir_task *read, void *context)
{
        struct upload *upload = context;
        size_t size;
        const char *data = weir_http_read_data(read, &size);

        if (weir_task_status(read))
                return; /* broken chunks, too slow, or gone: the reply, if anybody gets it, is 400 or 408 by itself */
        if (size == 0)
                finish(upload);
        else if (store(upload, data, size))
                weir_http_reply_text(upload->exchange, 507, "there is no room for it\n");
        else
                weir_series_push(weir_series_of(read), weir_http_read_new(upload->exchange, on_piece, upload));
}

static void on_put(weir_task *exchange, void *directory)
{
        const char *name = weir_http_router_parameter(exchange, "name");
        weir_series *series = weir_series_of(exchange);
        struct upload *upload;

        if (strchr(name, '/') || name[0] == '.') { /* a parameter is decoded: it may hold anything */
                weir_http_reply_text(exchange, 400, "not with that name\n");
                return;
        }
        upload = new_upload(exchange, directory, name);
        if (!upload) {
                weir_http_reply_text(exchange, 500, "cannot make the file\n");
                return;
        }
        weir_series_set_context(series, upload, free_upload);
        weir_series_push(series, weir_http_read_new(exchange, on_piece, upload));
}

/* -- GET -- */

static void on_get(weir_task *exchange, void *directory)
{
        weir_http_reply_file(exchange, directory, weir_http_router_parameter(exchange, "name"));
}

/* -- POST -- */

/* A read follows each write: no more comes in than has gone out. */
static void on_letters(weir_task *read, void *exchange)
{
        char capitals[4096];
        size_t size;
        const char *data = weir_http_read_data(read, &size);

        if (weir_task_status(read)) /* the client must not take half of the reply for all of it */
                weir_series_cancel(weir_series_of(read));
        if (weir_task_status(read) || size == 0)
                return; /* the end of the series is the end of the reply */
        while (size > 0) {
                size_t count = size < sizeof capitals ? size : sizeof capitals;

                for (size_t i = 0; i < count; i++)
                        capitals[i] = (char)toupper((unsigned char)data[i]);
                weir_series_push(weir_series_of(read), weir_http_write_new(exchange, capitals, count, NULL, NULL));
                data += count;
                size -= count;
        }
        weir_series_push(weir_series_of(read), weir_http_read_new(exchange, on_letters, exchange));
}

static void on_upper(weir_task *exchange, void *context)
{
        (void)context;
        weir_series_push(weir_series_of(exchange), weir_http_read_new(exchange, on_letters, exchange));
}

/* -- the server -- */

static int serve(const char *address, weir_http_router *router)
{
        struct weir_http_server_config config = WEIR_HTTP_SERVER_CONFIG_DEFAULT;
        sigset_t signals;
        int signal;

        config.stream_bodies = 1;
        config.trusted_proxies = "127.0.0.0/8, ::1, unix:";
        sigemptyset(&signals);
        sigaddset(&signals, SIGINT);
        sigaddset(&signals, SIGTERM);
        sigprocmask(SIG_BLOCK, &signals, NULL); /* they wait for sigwait, below */

        weir_http_server *server = weir_http_server_new(&config, weir_http_router_handle, router);
        int failed = weir_http_server_start(server, address);
        if (failed) {
                fprintf(stderr, "cannot serve at %s: %s\n", address, weir_strerror(failed));
        } else {
                sigwait(&signals, &signal);
                weir_http_server_stop(server, WEIR_SEC(10));
        }
        weir_http_server_free(server);
        return failed;
}

int main(int argc, char *argv[])
{
        const char *address = argc > 1 ? argv[1] : "127.0.0.1:8888";
        char *directory = argc > 2 ? argv[2] : ".";
        weir_http_router *router = weir_http_router_new();
        int failed = weir_http_router_add(router, "PUT", "/files/{name}", on_put, directory);

        if (!failed)
                failed = weir_http_router_add(router, "GET", "/files/{name}", on_get, directory);
        if (!failed)
                failed = weir_http_router_add(router, "POST", "/upper", on_upper, NULL);
        if (failed)
                fprintf(stderr, "cannot make the router: %s\n", weir_strerror(failed));
        else
                failed = serve(address, router);
        weir_http_router_free(router);
        return failed != 0;
}
