/* 23-get.c: asks a server for a page, and waits for no longer than a limit.
 *
 *     23-get URL [milliseconds]        default 5000
 *
 * A request is a task.  Its status is 0 when the whole response is there, whatever that says: a 404 is a response.  The limit is
 * for all of it: the name, the connection, the handshake, the request and the response.  When it is over, the problem says how
 * far the request has come.
 *
 * Try it:  01-delay-server &
 *          23-get http://127.0.0.1:8888/
 *          23-get http://127.0.0.1:8888/ 100
 *          23-get https://example.com/ */
#include <stdio.h>
#include <stdlib.h>

#include <weir/weir.h>

/* What belongs to the response is borrowed until this returns. */
static void show(weir_task *get, void *context)
{
        size_t size;
        const char *body = weir_http_response_body(get, &size), *type = weir_http_response_header(get, "Content-Type");

        (void)context;
        if (weir_task_status(get)) {
                fprintf(stderr, "%s\n", weir_http_problem(get));
                return;
        }
        printf("%d, %zu bytes, %s\n", weir_http_response_status(get), size, type ? type : "of no type");
        fwrite(body, 1, size, stdout);
}

int main(int argc, char *argv[])
{
        long milliseconds = argc > 2 ? strtol(argv[2], NULL, 10) : 5000;

        if (argc < 2) {
                fputs("usage: 23-get URL [milliseconds]\n", stderr);
                return 2;
        }
        weir_task *get = weir_http_get_new(argv[1], show, NULL);
        weir_http_request_set_limit(get, WEIR_HTTP_LIMIT_WHOLE, WEIR_MSEC(milliseconds));
        weir_http_request_set_redirects(get, 5);
        int failed = weir_task_run(get); /* also reports what was wrong with one of the lines before */
        weir_shutdown();
        return failed != 0;
}
