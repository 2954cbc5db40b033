/* 14-https.c: the same server over TLS, and certificates that change while it serves.
 *
 *     14-https address certificate.pem key.pem [certificate.pem key.pem ...]
 *
 * A pair to try it with, which nobody trusts:
 *
 *     openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 30 -keyout key.pem -out certificate.pem \
 *             -subj /CN=localhost -addext subjectAltName=DNS:localhost
 *     14-https 127.0.0.1:8443 certificate.pem key.pem
 *     curl --cacert certificate.pem https://localhost:8443/
 *
 * The first pair is for clients that ask for a name which no other certificate is for.  SIGHUP has the files read again: who is
 * connected notices nothing.  Ctrl-C stops. */
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

int main(int argc, char *argv[])
{
        sigset_t signals;
        int signal;

        if (argc < 4 || argc % 2) {
                fprintf(stderr, "usage: %s address certificate.pem key.pem [certificate.pem key.pem ...]\n", argv[0]);
                return 2;
        }
        sigemptyset(&signals);
        sigaddset(&signals, SIGHUP);
        sigaddset(&signals, SIGINT);
        sigaddset(&signals, SIGTERM);
        sigprocmask(SIG_BLOCK, &signals, NULL); /* they wait for sigwait, below */

        weir_http_server *server = make_server(argc, argv);
        int failed = weir_http_server_start(server, argv[1]);
        if (failed) {
                fprintf(stderr, "cannot serve at %s: %s\n", argv[1], weir_strerror(failed));
        } else {
                while (sigwait(&signals, &signal) == 0 && signal == SIGHUP)
                        weir_http_server_reload(server); /* if that fails, the log says why, and all stays as it was */
                weir_http_server_stop(server, WEIR_SEC(10));
        }
        weir_http_server_free(server);
        return failed != 0;
}
