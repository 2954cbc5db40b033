/* test/e2e/restart_load.c: clients that notice when a server, started anew under them, loses anything.
 *
 *     restart_load PORT PATH BODY [CERTIFICATE]
 *
 * runs until its standard input ends.  The Unix socket is at PATH; BODY is that of each reply, without its newline.  With a file
 * of the server's certificate all speak TLS, and offer the session that they had last.
 *
 * Half of the threads open a connection for each request: it must not be refused, nor end before its reply is complete.  The
 * other half keep their connections: the server may end one between two requests, but not the first one, and not in the middle
 * of a reply; and with TLS not without saying so.  Prints what was done; exits with 1 when something was lost. */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <openssl/err.h>
#include <openssl/ssl.h>

#define THREADS 8
#define REQUEST "GET /wait?name=a&ms=0 HTTP/1.1\r\nHost: a\r\n\r\n"

static struct sockaddr_in tcp = {.sin_family = AF_INET};
static struct sockaddr_un local = {.sun_family = AF_UNIX};
static char reply_end[128];
static SSL_CTX *context; /* NULL: no TLS */
static atomic_bool over;
static atomic_ulong opened, resumed, answered, ended, lost;

struct connection {
        int fd;
        SSL *ssl; /* NULL: none */
};

static void
lose(const char *what, int error)
{
        if (atomic_fetch_add(&lost, 1) < 20)
                fprintf(stderr, "restart_load: %s: %s\n", what, error ? strerror(error) : "ended");
}

static int
connect_to(bool is_local)
{
        int fd = socket(is_local ? AF_UNIX : AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        const void *address = is_local ? (const void *)&local : &tcp;
        int failed = connect(fd, address, is_local ? sizeof local : sizeof tcp);

        if (fd >= 0 && failed == 0) {
                atomic_fetch_add(&opened, 1);
                return fd;
        }
        lose(is_local ? "connect to the Unix socket" : "connect", errno);
        if (fd >= 0)
                close(fd);
        return -1;
}

/* No TIME_WAIT: the ports would be used up. */
static void
drop(struct connection *connection)
{
        const struct linger at_once = {.l_onoff = 1};

        if (connection->ssl)
                SSL_set_shutdown(connection->ssl, SSL_SENT_SHUTDOWN); /* else its session could not be resumed */
        SSL_free(connection->ssl);
        setsockopt(connection->fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
        close(connection->fd);
}

static bool
shake_hands(struct connection *connection, SSL_SESSION *session)
{
        connection->ssl = SSL_new(context);
        if (!connection->ssl || !SSL_set_fd(connection->ssl, connection->fd))
                abort();
        if (session)
                SSL_set_session(connection->ssl, session);
        ERR_clear_error();
        errno = 0;
        if (SSL_connect(connection->ssl) != 1) {
                lose("handshake", errno);
                return false;
        }
        atomic_fetch_add(&resumed, SSL_session_reused(connection->ssl));
        return true;
}

static bool
open_one(struct connection *connection, bool is_local, SSL_SESSION *session)
{
        *connection = (struct connection){.fd = connect_to(is_local)};
        if (connection->fd < 0)
                return false;
        if (!context || shake_hands(connection, session))
                return true;
        drop(connection);
        return false;
}

static ssize_t
put(struct connection *connection, const char *data, size_t size)
{
        ERR_clear_error();
        return connection->ssl ? SSL_write(connection->ssl, data, (int)size) : send(connection->fd, data, size, 0);
}

/* As recv. */
static ssize_t
take(struct connection *connection, char *data, size_t room)
{
        if (!connection->ssl)
                return recv(connection->fd, data, room, 0);
        ERR_clear_error();
        int count = SSL_read(connection->ssl, data, (int)room);
        if (count > 0)
                return count;
        int error = SSL_get_error(connection->ssl, count);
        if (error == SSL_ERROR_SSL)
                lose(ERR_reason_error_string(ERR_peek_error()), 0);
        return error == SSL_ERROR_ZERO_RETURN ? 0 : -1;
}

/* Returns whether the connection goes on.  `fresh`: it has not carried a request yet. */
static bool
ask(struct connection *connection, bool fresh)
{
        char reply[1024];
        size_t size = 0;

        errno = 0;
        if (put(connection, REQUEST, sizeof REQUEST - 1) <= 0) {
                if (fresh)
                        lose("send on a new connection", errno);
                atomic_fetch_add(&ended, 1);
                return false;
        }
        for (;;) {
                ssize_t count = take(connection, reply + size, sizeof reply - 1 - size);

                if (count <= 0) {
                        if (fresh || size > 0)
                                lose(size > 0 ? "half a reply" : "reply on a new connection", count < 0 ? errno : 0);
                        atomic_fetch_add(&ended, 1);
                        return false;
                }
                size += (size_t)count;
                reply[size] = '\0';
                if (strstr(reply, reply_end)) {
                        atomic_fetch_add(&answered, 1);
                        return !strstr(reply, "Connection: close\r\n");
                }
        }
}

static void *
run(void *argument)
{
        int index = *(int *)argument;
        bool is_local = index & 1, keeps = index & 2;
        SSL_SESSION *session = NULL;
        struct connection connection;

        while (!atomic_load(&over) && open_one(&connection, is_local, session)) {
                bool fresh = true;

                usleep(index & 4 ? 1000 : 0); /* a stop may find it without a request */
                while (ask(&connection, fresh) && keeps && !atomic_load(&over))
                        fresh = false;
                SSL_SESSION_free(session);
                session = connection.ssl ? SSL_get1_session(connection.ssl) : NULL;
                drop(&connection);
        }
        SSL_SESSION_free(session);
        return NULL;
}

static bool
use_tls(const char *certificate)
{
        context = SSL_CTX_new(TLS_client_method());
        if (!context || SSL_CTX_load_verify_file(context, certificate) != 1)
                return false;
        SSL_CTX_set_verify(context, SSL_VERIFY_PEER, NULL);
        return true;
}

int
main(int argc, char *argv[])
{
        pthread_t threads[THREADS];
        int indices[THREADS];
        char byte;

        if (argc < 4 || strlen(argv[2]) >= sizeof local.sun_path || (argc > 4 && !use_tls(argv[4])))
                return 2;
        signal(SIGPIPE, SIG_IGN);
        tcp.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        tcp.sin_port = htons((uint16_t)atoi(argv[1]));
        strcpy(local.sun_path, argv[2]);
        snprintf(reply_end, sizeof reply_end, "\r\n\r\n%s\n", argv[3]);
        for (int i = 0; i < THREADS; i++) {
                indices[i] = i;
                if (pthread_create(&threads[i], NULL, run, &indices[i]) != 0)
                        return 2;
        }
        while (read(0, &byte, 1) > 0 || errno == EINTR)
                errno = 0;
        atomic_store(&over, true);
        for (int i = 0; i < THREADS; i++)
                pthread_join(threads[i], NULL);
        SSL_CTX_free(context);
        printf("%lu connections, %lu replies, %lu ended between requests, %lu lost\n", opened, answered, ended, lost);
        if (argc > 4)
                printf("%lu sessions resumed\n", resumed);
        return lost > 0;
}
