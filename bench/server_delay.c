/* bench/server_delay.c: answers each request one second later.  Prints its port, serves until SIGTERM. */
#include <signal.h>
#include <stdio.h>

#include <weir/weir.h>

static void
on_request(weir_task *exchange, void *context)
{
        (void)context;
        weir_http_reply_header(exchange, "Server", "bench"); /* as long as nginx's name */
        weir_http_reply_text(exchange, 200, "hello\n");
        weir_series_push(weir_series_of(exchange), weir_timer_new(WEIR_SEC(1), NULL, NULL));
}

int
main(void)
{
        weir_http_server *server = weir_http_server_new(NULL, on_request, NULL);
        sigset_t stop;
        int number, failed;

        sigemptyset(&stop);
        sigaddset(&stop, SIGTERM);
        sigprocmask(SIG_BLOCK, &stop, NULL);
        failed = weir_http_server_start(server, "127.0.0.1:0");
        if (failed) {
                fprintf(stderr, "server_delay: %s\n", weir_strerror(failed));
                return 1;
        }
        printf("%d\n", weir_http_server_port(server));
        fflush(stdout);
        sigwait(&stop, &number);
        weir_http_server_free(server);
        return 0;
}
