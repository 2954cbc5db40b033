/* 26-reverse-proxy.c: gives each request to one of several servers.
 *
 *     26-reverse-proxy LISTEN SERVER...      26-reverse-proxy :8080 127.0.0.1:9001 127.0.0.1:9002
 *
 * The servers are the members of an upstream: a busy one gets fewer requests, and one that fails gets none for a while.  Bodies
 * pass piece by piece, in both directions.  If a client goes, its request is broken off. */
#include <stdio.h>

#include <weir/weir.h>

static void on_request(weir_task *exchange, void *client)
{
        weir_http_proxy_to(exchange, client, "http://backend");
}

int main(int argc, char *argv[])
{
        struct weir_client_config config = WEIR_CLIENT_CONFIG_DEFAULT;
        struct weir_http_server_config server = WEIR_HTTP_SERVER_CONFIG_DEFAULT;
        weir_upstream *backend = weir_upstream_new("backend", NULL);

        if (argc < 3) {
                fprintf(stderr, "wanted: 26-reverse-proxy LISTEN SERVER...\n");
                return 2;
        }
        for (int i = 2; i < argc; i++)
                if (weir_upstream_add(backend, argv[i], NULL))
                        return 2; /* the log says why */
        config.user_agent = "";
        server.stream_bodies = 1;
        return weir_http_serve_with(&server, argv[1], on_request, weir_client_new(&config)) < 0;
}
