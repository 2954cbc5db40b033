/* 12-file-server.c: serves the files of a directory, and nothing outside of it.
 *
 *     12-file-server [address [directory]]     default 127.0.0.1:8888 and the current one
 *
 * Try it:  curl -i http://127.0.0.1:8888/README.md
 *          curl -i --range 0-99 http://127.0.0.1:8888/README.md
 *          curl -i --path-as-is http://127.0.0.1:8888/../../etc/passwd */
#include <errno.h>
#include <stdio.h>

#include <weir/weir.h>

/* The reply is complete whatever the result is.  Here a page of our own replaces the usual text. */
static void on_request(weir_task *exchange, void *context)
{
        const char *directory = context;

        if (weir_http_reply_file(exchange, directory, weir_http_path(exchange)) == -ENOENT) {
                static const char page[] = "<!DOCTYPE html><title>Not here</title><p>Not here.\n";

                weir_http_reply_set_header(exchange, "Content-Type", "text/html; charset=utf-8");
                weir_http_reply_text(exchange, 404, page);
        }
}

int main(int argc, char *argv[])
{
        const char *address = argc > 1 ? argv[1] : "127.0.0.1:8888";
        char *directory = argc > 2 ? argv[2] : ".";
        int result = weir_http_serve(address, on_request, directory);

        if (result < 0)
                fprintf(stderr, "cannot serve at %s: %s\n", address, weir_strerror(result));
        else if (result > 0)
                fprintf(stderr, "stopped; %d replies were cut\n", result);
        return result != 0;
}
