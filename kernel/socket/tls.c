/* kernel/socket/tls.c: one connection of TLS.
 *
 *     handshake -> open --finish, or the peer's close_notify--> half closed ...      any --error--> broken
 *
 * Threads: the owner of the poller only.
 *
 * OpenSSL reads and writes the socket through a BIO of ours, made from its own for sockets: it reads as much as there is at once,
 * so that a request costs one call, remembers whether that has emptied the socket, and raises no SIGPIPE.  Records that
 * the kernel encrypts (kTLS) go through OpenSSL's, from memory that lies still until they are out.
 *
 * Within one call of ours OpenSSL reads on for as long as what comes is not data, which a peer could go on with for ever: new
 * keys (TLS 1.3), warnings, handshakes anew that are refused (TLS 1.2).  Each costs more than its bytes.  So these are counted,
 * and a peer that sends more than a few in a second is broken off.  Empty records OpenSSL itself counts.
 *
 * OpenSSL's buffers, 16 KB each, are there only as long as something is in them. */
#include "kernel/socket/tls.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include <openssl/err.h>

#include "kernel/base/clock.h"
#include "kernel/memory/memory.h"
#include "kernel/socket/system.h"
#include "kernel/base/phase.h"
#include "kernel/socket/tls_internal.h"

#define RECORD  ((size_t)16 * 1024)
#define RECORDS 64 /* are read at once, however small */
#define MODES   (SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER | SSL_MODE_RELEASE_BUFFERS)

#define MESSAGES_MAX    64
#define MESSAGES_WITHIN WEIR_SEC(1)

struct weir__tls {
        SSL *ssl;
        struct weir__tls_context *context;
        weir_nsec messages_since; /* when the first of these came ... */
        unsigned messages;        /* ... which were no data, after the handshake, within MESSAGES_WITHIN */
        int error;                /* errno of the socket's last failure; ECONNABORTED: its end */
        int failure;              /* negative: it is broken, why, and nothing can be said any more */
        size_t held;              /* bytes that are to be written next: OpenSSL has had them, and may have encrypted them */
        char *record;             /* those bytes, if OpenSSL did not copy them, as where the kernel encrypts; else NULL */
        bool is_drained;          /* the last that was read has emptied the socket */
        bool is_ended;            /* the peer has said that it will write no more */
        bool is_shaken;           /* the handshake is over */
        bool is_finished;
        bool is_last; /* what is written is followed by the end of the connection */
};

/* -- what is no data -- */

static void
count_message(struct weir__tls *tls)
{
        weir_nsec now = weir__clock_now();

        if (!tls->messages || now - tls->messages_since >= MESSAGES_WITHIN) {
                tls->messages_since = now;
                tls->messages = 0;
        }
        tls->messages++;
}

/* OpenSSL tells what it is at, but not of data: of each message after the handshake that it has dealt with it, of each alert. */
static void
see_progress(const SSL *ssl, int where, int result)
{
        struct weir__tls *tls = BIO_get_app_data(SSL_get_rbio(ssl));
        void (*others)(const SSL *, int, int) = SSL_CTX_get_info_callback(SSL_get_SSL_CTX(ssl)); /* of whose SSL_CTX it is */

        if (tls->is_shaken && (where == SSL_CB_ACCEPT_EXIT || where & SSL_CB_ALERT))
                count_message(tls);
        tls->is_shaken |= where == SSL_CB_HANDSHAKE_DONE;
        if (others)
                others(ssl, where, result);
}

/* -- the socket, as OpenSSL sees it -- */

static BIO_METHOD *method;

static int
bio_read(BIO *bio, char *data, int size)
{
        struct weir__tls *tls = BIO_get_app_data(bio);
        ssize_t count;

        tls->error = 0;
        tls->is_drained = false;
        if (tls->messages > MESSAGES_MAX) {
                BIO_clear_retry_flags(bio);
                tls->error = EPROTO;
                return -1;
        }
        if (BIO_get_ktls_recv(bio))
                return BIO_meth_get_read(BIO_s_socket())(bio, data, size);
        BIO_clear_retry_flags(bio);
        do {
                count = weir__recv(BIO_get_fd(bio, NULL), data, (size_t)size, 0);
        } while (count < 0 && errno == EINTR);
        tls->is_drained = count < size;
        if (count < 0 && errno == EAGAIN)
                BIO_set_retry_read(bio);
        else if (count <= 0)
                tls->error = count < 0 ? errno : ECONNABORTED;
        return (int)count;
}

static int
bio_write(BIO *bio, const char *data, int size)
{
        struct weir__tls *tls = BIO_get_app_data(bio);
        ssize_t count;

        tls->error = 0;
        if (BIO_get_ktls_send(bio))
                return BIO_meth_get_write(BIO_s_socket())(bio, data, size);
        BIO_clear_retry_flags(bio);
        do {
                count = weir__send(BIO_get_fd(bio, NULL), data, (size_t)size, MSG_NOSIGNAL | (tls->is_last ? MSG_MORE : 0));
        } while (count < 0 && errno == EINTR);
        if (count < 0 && errno == EAGAIN)
                BIO_set_retry_write(bio);
        else if (count < 0)
                tls->error = errno;
        return (int)count;
}

static void
make_method(void)
{
        const BIO_METHOD *socket_method = BIO_s_socket();

        method = BIO_meth_new(BIO_TYPE_SOCKET, "weir");
        if (!method)
                return;
        BIO_meth_set_create(method, BIO_meth_get_create(socket_method));
        BIO_meth_set_destroy(method, BIO_meth_get_destroy(socket_method));
        BIO_meth_set_ctrl(method, BIO_meth_get_ctrl(socket_method));
        BIO_meth_set_puts(method, BIO_meth_get_puts(socket_method));
        BIO_meth_set_read(method, bio_read);
        BIO_meth_set_write(method, bio_write);
}

/* Before the library's own exit is registered: OpenSSL cleans up after it then. */
static void
init(void)
{
        OPENSSL_init_crypto(OPENSSL_INIT_ASYNC, NULL); /* registers its end; of what else it can do first, this costs least */
}

WEIR__STEPS_OF(WEIR__MODULE_TLS, [WEIR__STEP_START] = init);

/* -- birth and death -- */

static bool
open_socket(struct weir__tls *tls, int fd)
{
        static pthread_once_t once = PTHREAD_ONCE_INIT;

        pthread_once(&once, make_method);
        BIO *bio = method ? BIO_new(method) : NULL;
        if (!bio)
                return false;
        if (!BIO_set_app_data(bio, tls)) {
                BIO_free(bio);
                return false;
        }
        BIO_set_fd(bio, fd, BIO_NOCLOSE);
        SSL_set_bio(tls->ssl, bio, bio);
        return true;
}

struct weir__tls *
weir__tls_new(struct weir__tls_context *context, int fd)
{
        struct weir__tls *tls = weir__alloc(sizeof *tls);

        if (!tls)
                return NULL;
        *tls = (struct weir__tls){.ssl = SSL_new(context->certificates->ssl_ctx), .context = weir__tls_context_ref(context)};
        if (!tls->ssl || !open_socket(tls, fd)) {
                ERR_clear_error();
                weir__tls_free(tls);
                return NULL;
        }
        SSL_set_mode(tls->ssl, MODES);
        SSL_set_read_ahead(tls->ssl, 1);
        SSL_set_accept_state(tls->ssl);
        SSL_set_info_callback(tls->ssl, see_progress);
        return tls;
}

void
weir__tls_free(struct weir__tls *tls)
{
        if (!tls)
                return;
        SSL_free(tls->ssl);
        free(tls->record);
        weir__tls_context_unref(tls->context);
        weir__free(tls, sizeof *tls);
}

/* -- what can happen -- */

/* Callbacks of the user run on the same threads, and may have left errors of theirs. */
static void
forget_errors(void)
{
        if (ERR_peek_error())
                ERR_clear_error();
}

static int
failure_of(int reason)
{
        switch (reason) {
        case SSL_R_HTTP_REQUEST: return -EPROTOTYPE;
        case SSL_R_UNEXPECTED_EOF_WHILE_READING: return -ECONNABORTED;
        case ERR_R_MALLOC_FAILURE: return -ENOMEM;
        default: return -EPROTO;
        }
}

/* What a call that has not succeeded means. */
static int
explain(struct weir__tls *tls, int result)
{
        int why = SSL_get_error(tls->ssl, result);

        if (why == SSL_ERROR_WANT_READ || why == SSL_ERROR_WANT_WRITE)
                return -EAGAIN;
        if (why == SSL_ERROR_ZERO_RETURN) {
                tls->is_ended = true;
                return 0;
        }
        int reason = ERR_GET_REASON(ERR_peek_error());
        ERR_clear_error();
        tls->failure = tls->error ? -tls->error : failure_of(reason);
        return tls->failure;
}

int
weir__tls_handshake(struct weir__tls *tls)
{
        if (tls->failure)
                return tls->failure;
        forget_errors();
        tls->is_drained = false; /* as far as is known, when it only writes: something may have come since the last read */
        int result = SSL_do_handshake(tls->ssl);
        return result == 1 ? 0 : explain(tls, result);
}

ssize_t
weir__tls_read(struct weir__tls *tls, void *data, size_t size)
{
        size_t have = 0, count;
        unsigned records = 0;

        if (tls->failure)
                return tls->failure;
        forget_errors();
        tls->is_drained = false; /* likewise, when all is here already */
        do {
                int result = SSL_read_ex(tls->ssl, (char *)data + have, size - have, &count);

                if (result != 1) {
                        int failed = explain(tls, result); /* which comes again, if it is more than a pause */
                        return have ? (ssize_t)have : failed;
                }
                have += count;
        } while (have < size && ++records < RECORDS && SSL_has_pending(tls->ssl));
        return (ssize_t)have;
}

ssize_t
weir__tls_peek(struct weir__tls *tls)
{
        size_t count;
        char byte;

        if (tls->failure)
                return tls->failure;
        forget_errors();
        int result = SSL_peek_ex(tls->ssl, &byte, 1, &count);
        return result == 1 ? 1 : explain(tls, result);
}

bool
weir__tls_may_have_more(const struct weir__tls *tls)
{
        return !tls->is_drained || tls->is_ended || tls->failure || SSL_has_pending(tls->ssl);
}

bool
weir__tls_wants_write(const struct weir__tls *tls)
{
        return SSL_want_write(tls->ssl);
}

/* Where OpenSSL is to take these bytes from; NULL when out of memory.
 *
 * Where the kernel encrypts, OpenSSL goes on from the place that it was given first, though its mode says that bytes may move: so
 * they lie here until it has taken all of them.  That also before the handshake is over: it may end, and the kernel begin, within
 * the write. */
static const char *
lay_down(struct weir__tls *tls, const char *data, size_t size)
{
        if (tls->record)
                return tls->record;
        if (SSL_is_init_finished(tls->ssl) && !BIO_get_ktls_send(SSL_get_wbio(tls->ssl)))
                return data;
        tls->record = malloc(size);
        return tls->record ? memcpy(tls->record, data, size) : NULL;
}

/* Writes one piece, a record and a call of the system for each 16 KB.  A failure is told also when something went out before it:
 * who is told of that alone would wait for room, and nothing says that there is room which there has been all the time.
 *
 * What OpenSSL has had once, and did not write, it is given again, and no more with it: so what is behind can still be taken back. */
static ssize_t
write_piece(struct weir__tls *tls, const char *data, size_t size)
{
        size_t sent = 0, count;

        while (sent < size) {
                size_t most = tls->held ? tls->held : RECORD, part = size - sent < most ? size - sent : most;
                const char *place = lay_down(tls, data + sent, part);

                if (!place)
                        return -ENOMEM;
                int result = SSL_write_ex(tls->ssl, place, part, &count);

                tls->held = 0;
                if (result != 1) {
                        int failed = explain(tls, result);

                        if (failed != -EAGAIN)
                                return failed ? failed : -EPIPE;
                        tls->held = part;
                        return sent ? (ssize_t)sent : -EAGAIN;
                }
                free(tls->record);
                tls->record = NULL;
                sent += count;
        }
        return (ssize_t)sent;
}

/* Several pieces make one record, as far as they go into it. */
static ssize_t
write_first_record(struct weir__tls *tls, const struct iovec *pieces, int count)
{
        char *record = malloc(RECORD);
        size_t size = 0;

        if (!record)
                return -ENOMEM;
        for (int i = 0; i < count && size < RECORD; i++) {
                size_t part = pieces[i].iov_len < RECORD - size ? pieces[i].iov_len : RECORD - size;

                if (part)
                        memcpy(record + size, pieces[i].iov_base, part);
                size += part;
        }
        ssize_t sent = write_piece(tls, record, size);
        free(record);
        return sent;
}

ssize_t
weir__tls_write(struct weir__tls *tls, const struct iovec *pieces, int count)
{
        if (tls->failure || tls->is_finished)
                return tls->failure ? tls->failure : -EPIPE;
        forget_errors();
        if (count == 1)
                return write_piece(tls, pieces->iov_base, pieces->iov_len);
        ssize_t sent = write_first_record(tls, pieces, count);
        size_t skip = sent > 0 ? (size_t)sent : 0;
        if (sent != (ssize_t)RECORD)
                return sent;
        for (int i = 0; i < count; i++) {
                if (skip >= pieces[i].iov_len) {
                        skip -= pieces[i].iov_len;
                        continue;
                }
                ssize_t more = write_piece(tls, (char *)pieces[i].iov_base + skip, pieces[i].iov_len - skip);
                if (more < 0 && more != -EAGAIN)
                        return more;
                sent += more > 0 ? more : 0;
                if (more != (ssize_t)(pieces[i].iov_len - skip))
                        break;
                skip = 0;
        }
        return sent;
}

size_t
weir__tls_held(const struct weir__tls *tls)
{
        return tls->held;
}

void
weir__tls_hold_back(struct weir__tls *tls)
{
        tls->is_last = true;
}

void
weir__tls_finish(struct weir__tls *tls)
{
        if (tls->is_finished || tls->failure || !SSL_is_init_finished(tls->ssl))
                return;
        tls->is_finished = true;
        forget_errors();
        int result = SSL_shutdown(tls->ssl);
        if (result < 0)
                ERR_clear_error();
}

char *
weir__tls_peer(const struct weir__tls *tls)
{
        X509 *certificate = SSL_get_verify_mode(tls->ssl) == SSL_VERIFY_NONE ? NULL : SSL_get1_peer_certificate(tls->ssl);
        BIO *memory = certificate ? BIO_new(BIO_s_mem()) : NULL;
        char *subject = NULL, *data;

        if (memory && X509_NAME_print_ex(memory, X509_get_subject_name(certificate), 0, XN_FLAG_RFC2253) >= 0) {
                long size = BIO_get_mem_data(memory, &data);
                subject = size >= 0 ? weir__tls_string(data, (size_t)size) : NULL;
        }
        BIO_free(memory);
        X509_free(certificate);
        ERR_clear_error();
        return subject;
}
