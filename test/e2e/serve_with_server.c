/* test/e2e/serve_with_server.c: weir_http_serve_with with all that it has in one call: TLS, a router, compression, an access log.
 *
 *     serve_with_server ADDRESS CERTIFICATE KEY LOG */
#include <stdio.h>
#include <string.h>

#include <weir/weir.h>

static void
on_page(weir_task *exchange, void *context)
{
        (void)context;
        weir_http_reply_header(exchange, "Content-Type", "text/plain");
        for (int i = 0; i < 1000; i++)
                weir_http_reply_append(exchange, "a line\n", 7);
}

int
main(int argc, char *argv[])
{
        struct weir_http_server_config config = WEIR_HTTP_SERVER_CONFIG_DEFAULT;
        weir_http_router *router = weir_http_router_new();

        if (argc != 5)
                return 2;
        config.certificate_file = argv[2];
        config.private_key_file = argv[3];
        config.access_log = argv[4];
        config.compress = 6;
        int failed = weir_http_router_add(router, "GET", "/pages/{name}", on_page, NULL);
        if (!failed)
                failed = weir_http_serve_with(&config, argv[1], weir_http_router_handle, router);
        weir_http_router_free(router);
        return failed != 0;
}
