/* bench/server_hello.c: answers at once.  Prints its port, serves until SIGTERM.
 *
 *     server_hello [hello [CERTIFICATE KEY]] */
#include <signal.h>
#include <stdio.h>

#include <weir/weir.h>

static void
on_request(weir_task *exchange, void *context)
{
        (void)context;
        weir_http_reply_header(exchange, "Server", "bench"); /* as long as nginx's name */
        weir_http_reply_text(exchange, 200, "hello\n");
}

int
main(int argc, char *argv[])
{
        struct weir_http_server_config config = WEIR_HTTP_SERVER_CONFIG_DEFAULT;

        config.certificate_file = argc > 3 ? argv[2] : NULL;
        config.private_key_file = argc > 3 ? argv[3] : NULL;
        weir_http_server *server = weir_http_server_new(&config, on_request, NULL);
        sigset_t stop;
        int number, failed;

        sigemptyset(&stop);
        sigaddset(&stop, SIGTERM);
        sigprocmask(SIG_BLOCK, &stop, NULL);
        failed = weir_http_server_start(server, "127.0.0.1:0");
        if (failed) {
                fprintf(stderr, "server_hello: %s\n", weir_strerror(failed));
                return 1;
        }
        printf("%d\n", weir_http_server_port(server));
        fflush(stdout);
        sigwait(&stop, &number);
        weir_http_server_free(server);
        return 0;
}
