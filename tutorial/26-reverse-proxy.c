/* 26-reverse-proxy.c: a reverse proxy for several servers.
 *
 *     26-reverse-proxy address server...      such as 127.0.0.1:8888 127.0.0.1:9001 127.0.0.1:9002
 *
 * Each request goes to one of the servers, which are chosen by how busy they are; one that fails is left alone for a while.
 *
 * Try it:  01-delay-server & 26-reverse-proxy 127.0.0.1:9000 127.0.0.1:8888 & curl -i http://127.0.0.1:9000/
 *
 * Ctrl-C stops. */
#include <stdio.h>

#include <weir/weir.h>

/* Bodies pass piece by piece, both ways, and events and WebSockets at once. */
static void forward(weir_task *exchange, void *client)
{
        weir_http_proxy_to(exchange, client, "http://backend");
}

int main(int argc, char **argv)
{
        struct weir_http_server_config config = WEIR_HTTP_SERVER_CONFIG_DEFAULT;
        struct weir_client_config of_client = WEIR_CLIENT_CONFIG_DEFAULT;
        weir_upstream *backend = weir_upstream_new("backend", NULL);

        for (int i = 2; i < argc; i++) {
                if (weir_upstream_add(backend, argv[i], NULL))
                        argc = 0;
        }
        if (argc < 3) {
                fprintf(stderr, "usage: 26-reverse-proxy address server...\n");
                return 2;
        }
        of_client.user_agent = ""; /* the client's own goes on */
        config.stream_bodies = 1;  /* large uploads go on while they come */
        weir_client *client = weir_client_new(&of_client);
        int failed = weir_http_serve_with(&config, argv[1], forward, client);
        weir_client_unref(client);
        weir_upstream_unref(backend);
        return failed ? 1 : 0;
}
