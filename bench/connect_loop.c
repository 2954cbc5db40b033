/* bench/connect_loop.c: new connections by a loop of epoll, with TLS by OpenSSL as it is: what a library is measured by.
 *
 * Threads: the caller's. */
#include "connect.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <openssl/err.h>
#include <openssl/ssl.h>

#define EVENTS   64
#define SESSIONS 64 /* tickets that are kept, each used once */

struct chain {
        int fd;
        SSL *ssl; /* NULL: plain */
        bool is_connected, is_shaken;
};

static struct {
        int epoll;
        struct sockaddr_in to;
        SSL_CTX *ssl_ctx; /* NULL: plain */
        SSL_SESSION *sessions[SESSIONS];
        unsigned session_count;
        size_t left, running, resumed; /* connections; chains */
        bool has_failed;
} at;

/* A callback of OpenSSL. */
static int
keep_session(SSL *ssl, SSL_SESSION *session)
{
        (void)ssl;
        if (at.session_count == SESSIONS)
                return 0;
        at.sessions[at.session_count++] = session;
        return 1;
}

static SSL *
begin_tls(int fd)
{
        SSL *ssl = SSL_new(at.ssl_ctx);

        if (!ssl || SSL_set_fd(ssl, fd) != 1 || SSL_set1_host(ssl, CONNECT_NAME) != 1 ||
            SSL_set_tlsext_host_name(ssl, CONNECT_NAME) != 1)
                return NULL;
        SSL_set_connect_state(ssl);
        if (at.session_count > 0) {
                SSL_SESSION *session = at.sessions[--at.session_count];

                SSL_set_session(ssl, session);
                SSL_SESSION_free(session);
        }
        return ssl;
}

static void
begin(struct chain *chain)
{
        static const int on = 1;
        struct epoll_event event = {.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, .data.ptr = chain};

        *chain = (struct chain){.fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)};
        setsockopt(chain->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        if (connect(chain->fd, (struct sockaddr *)&at.to, sizeof at.to) < 0 && errno != EINPROGRESS)
                at.has_failed = true;
        if (at.ssl_ctx && !(chain->ssl = begin_tls(chain->fd)))
                at.has_failed = true;
        if (epoll_ctl(at.epoll, EPOLL_CTL_ADD, chain->fd, &event) < 0)
                at.has_failed = true;
}

/* Returns whether it has got its byte. */
static bool
is_served(struct chain *chain)
{
        char byte;
        size_t count;

        if (!chain->ssl)
                return recv(chain->fd, &byte, 1, 0) == 1;
        ERR_clear_error();
        if (!chain->is_shaken && SSL_do_handshake(chain->ssl) != 1)
                return false;
        chain->is_shaken = true;
        return SSL_read_ex(chain->ssl, &byte, 1, &count) == 1;
}

/* Result: 0, or the error of the socket. */
static int
finish_connect(struct chain *chain)
{
        int error = 0;
        socklen_t size = sizeof error;

        chain->is_connected = true;
        return getsockopt(chain->fd, SOL_SOCKET, SO_ERROR, &error, &size) < 0 ? errno : error;
}

static void
end(struct chain *chain)
{
        static const struct linger at_once = {.l_onoff = 1};

        if (chain->ssl) {
                at.resumed += SSL_session_reused(chain->ssl) == 1;
                SSL_set_shutdown(chain->ssl, SSL_SENT_SHUTDOWN); /* or the session could not be resumed */
                SSL_free(chain->ssl);
        }
        setsockopt(chain->fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
        close(chain->fd);
        if (at.left > 0) {
                at.left--;
                begin(chain);
        } else {
                at.running--;
        }
}

static void
go_on(struct chain *chain, unsigned events)
{
        if (!chain->is_connected && (events & EPOLLOUT) && finish_connect(chain))
                at.has_failed = true;
        if (chain->is_connected && is_served(chain))
                end(chain);
        else if (events & (EPOLLHUP | EPOLLERR))
                at.has_failed = true;
}

static SSL_CTX *
make_context(const char *ca_file)
{
        SSL_CTX *ssl_ctx = SSL_CTX_new(TLS_client_method());

        if (!ssl_ctx || SSL_CTX_load_verify_file(ssl_ctx, ca_file) != 1)
                return NULL;
        SSL_CTX_set_verify(ssl_ctx, SSL_VERIFY_PEER, NULL);
        SSL_CTX_set_session_cache_mode(ssl_ctx, SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL);
        SSL_CTX_sess_set_new_cb(ssl_ctx, keep_session);
        SSL_CTX_set1_groups_list(ssl_ctx, "X25519");
        SSL_CTX_set_ciphersuites(ssl_ctx, "TLS_AES_128_GCM_SHA256");
        SSL_CTX_set_read_ahead(ssl_ctx, 1);
        return ssl_ctx;
}

bool
connect_by_loop(const struct connect_job *job, size_t *resumed)
{
        struct chain *chains = calloc(job->chains, sizeof *chains);
        struct epoll_event events[EVENTS];

        if (!at.epoll) {
                at.epoll = epoll_create1(EPOLL_CLOEXEC);
                at.ssl_ctx = job->ca_file ? make_context(job->ca_file) : NULL;
                at.to = (struct sockaddr_in){
                        .sin_family = AF_INET, .sin_port = htons((uint16_t)job->port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        }
        if (!chains || (job->ca_file && !at.ssl_ctx))
                return false;
        at.left = job->count - job->chains;
        at.running = job->chains;
        at.resumed = 0;
        for (unsigned i = 0; i < job->chains; i++)
                begin(&chains[i]);
        while (at.running > 0 && !at.has_failed) {
                int count = epoll_wait(at.epoll, events, EVENTS, -1);

                for (int i = 0; i < count; i++)
                        go_on(events[i].data.ptr, events[i].events);
        }
        free(chains);
        *resumed = at.resumed;
        return !at.has_failed;
}
