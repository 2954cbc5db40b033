/* 14-https.c: the same server over TLS, and certificates that change while it serves.
 *
 *     14-https address certificate.pem key.pem [certificate.pem key.pem ...]
 *
 * A pair for a test, which nobody trusts:
 *
 *     openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 30 -keyout key.pem -out certificate.pem \
 *             -subj /CN=localhost -addext subjectAltName=DNS:localhost
 *     14-https 127.0.0.1:8443 certificate.pem key.pem
 *     curl --cacert certificate.pem https://localhost:8443/
 *
 * The first pair is for clients that ask for a name of no other certificate.  SIGHUP reads the files again: connected clients
 * notice nothing.  SIGUSR2 restarts the program, or the file that has replaced it: no client is turned away.  Ctrl-C stops. */
#include <signal.h>
#include <stdio.h>

#include <weir/weir.h>

static void on_request(weir_task *exchange, void *context)
{
        (void)context;
        weir_http_reply_text(exchange, 200, weir_http_is_secure(exchange) ? "hello, secretly\n" : "hello\n");
}

static weir_http_server *make_server(int argc, char *argv[])
{
        struct weir_http_server_config config = WEIR_HTTP_SERVER_CONFIG_DEFAULT;

        config.certificate_file = argv[2];
        config.private_key_file = argv[3];
        weir_http_server *server = weir_http_server_new(&config, on_request, NULL);
        for (int i = 4; i + 1 < argc; i += 2)
                weir_http_server_add_certificate(server, argv[i], argv[i + 1]);
        return server;
}

/* Hands the sockets to a new process.  When this returns 1 the new process serves, and this one must stop. */
static int restart(weir_http_server *server, char *argv[])
{
        int result = weir_http_server_inherit(server, argv[0], argv, WEIR_SEC(60));

        if (result < 0) {
                const char *reason = weir_strerror(result);

                fprintf(stderr, "a new %s does not serve: %s; this one goes on\n", argv[0], reason);
        }
        return result > 0;
}

/* Returns when the server must stop. */
static void wait_for_end(weir_http_server *server, const sigset_t *signals, char *argv[])
{
        int signal;

        while (sigwait(signals, &signal) == 0) {
                if (signal == SIGHUP)
                        weir_http_server_reload(server); /* if that fails, the log says why, and nothing has changed */
                else if (signal != SIGUSR2 || restart(server, argv))
                        return;
        }
}

int main(int argc, char *argv[])
{
        sigset_t signals;

        if (argc < 4 || argc % 2) {
                fprintf(stderr, "usage: %s address certificate.pem key.pem [certificate.pem key.pem ...]\n", argv[0]);
                return 2;
        }
        sigemptyset(&signals);
        sigaddset(&signals, SIGHUP);
        sigaddset(&signals, SIGINT);
        sigaddset(&signals, SIGTERM);
        sigaddset(&signals, SIGUSR2);
        sigprocmask(SIG_BLOCK, &signals, NULL); /* they wait for sigwait, above */

        weir_http_server *server = make_server(argc, argv);
        int failed = weir_http_server_start(server, argv[1]);
        if (failed) {
                fprintf(stderr, "cannot serve at %s: %s\n", argv[1], weir_strerror(failed));
        } else {
                wait_for_end(server, &signals, argv);
                weir_http_server_stop(server, WEIR_SEC(10));
        }
        weir_http_server_free(server);
        return failed != 0;
}
