/* kernel/tls/tls.c: one TLS connection.
 *
 *     handshake -> open --finish, or close_notify of the peer--> half closed ...      any --error--> broken
 *
 * Threads: the owner of the poller only.
 * Locks:   none.
 *
 * OpenSSL reads and writes the socket through a BIO of our own, made from OpenSSL's BIO for sockets.  Our BIO reads as much as
 * there is at once, so a request costs one call.  It remembers whether that has emptied the socket, and it raises no SIGPIPE.
 * Records that the kernel encrypts (kTLS) go through OpenSSL's BIO, from memory that does not move until they are sent.  That BIO
 * raises SIGPIPE, which workers block.
 *
 * Within one call of ours, OpenSSL reads on while only messages without data come: new keys (TLS 1.3), warnings, refused
 * renegotiations (TLS 1.2).  A peer could send them for ever, and each costs more than its bytes.  So they are counted, and a
 * connection with more than a few in a second is broken off.  OpenSSL itself counts empty records.
 *
 * OpenSSL's buffers of 16 KB exist only while something is in them. */
#include "kernel/tls/tls.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <openssl/err.h>

#include <weir/runtime.h>

#include "kernel/base/clock.h"
#include "kernel/memory/memory.h"
#include "kernel/base/phase.h"
#include "kernel/tls/tls_internal.h"

#define RECORD      ((size_t)16 * 1024)
#define RECORDS_MAX 64 /* in one call, however small they are */
#define MODES       (SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER | SSL_MODE_RELEASE_BUFFERS)

#define MESSAGES_MAX    64
#define MESSAGES_WITHIN WEIR_SEC(1)

/* -- messages without data -- */

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

/* OpenSSL calls this for each message after the handshake and for each alert, but not for data. */
static void
see_progress(const SSL *ssl, int where, int result)
{
        struct weir__tls *tls = BIO_get_app_data(SSL_get_rbio(ssl));
        void (*others)(const SSL *, int, int) = SSL_CTX_get_info_callback(SSL_get_SSL_CTX(ssl)); /* of the program */

        if (tls->is_shaken && (where == SSL_CB_ACCEPT_EXIT || where == SSL_CB_CONNECT_EXIT || where & SSL_CB_ALERT))
                count_message(tls);
        tls->is_shaken |= where == SSL_CB_HANDSHAKE_DONE;
        if (others)
                others(ssl, where, result);
}

/* -- the socket, as OpenSSL sees it -- */

static BIO_METHOD *method;

/* The result of a call of the outer connection, as a BIO gives it.  -EAGAIN: it waits for the socket. */
static int
outer_result(BIO *bio, struct weir__tls *tls, ssize_t result)
{
        BIO_clear_retry_flags(bio);
        if (result == -EAGAIN)
                BIO_set_flags(bio, BIO_FLAGS_SHOULD_RETRY | (SSL_want_write(tls->outer->ssl) ? BIO_FLAGS_WRITE : BIO_FLAGS_READ));
        else if (result <= 0)
                tls->error = result < 0 ? (int)-result : ECONNABORTED;
        return result < 0 ? -1 : (int)result;
}

static int
read_outer(BIO *bio, struct weir__tls *tls, char *data, int size)
{
        ssize_t count = weir__tls_read(tls->outer, data, (size_t)size);

        tls->is_drained = !weir__tls_may_have_more(tls->outer);
        return outer_result(bio, tls, count);
}

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
        if (tls->outer)
                return read_outer(bio, tls, data, size);
        if (BIO_get_ktls_recv(bio))
                return BIO_meth_get_read(BIO_s_socket())(bio, data, size);
        BIO_clear_retry_flags(bio);
        count = TEMP_FAILURE_RETRY(recv(BIO_get_fd(bio, NULL), data, (size_t)size, 0));
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
        int flags = MSG_NOSIGNAL | (tls->is_last ? MSG_MORE : 0);

        tls->error = 0;
        if (tls->outer)
                return outer_result(bio, tls, weir__tls_write(tls->outer, &(struct iovec){(char *)data, (size_t)size}, 1));
        if (BIO_get_ktls_send(bio))
                return BIO_meth_get_write(BIO_s_socket())(bio, data, size);
        BIO_clear_retry_flags(bio);
        ssize_t count = TEMP_FAILURE_RETRY(send(BIO_get_fd(bio, NULL), data, (size_t)size, flags));
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

/* Runs before the library registers its own exit, so OpenSSL cleans up after it. */
static void
init(void)
{
        OPENSSL_init_crypto(OPENSSL_INIT_ASYNC, NULL); /* the cheapest call that registers its clean-up */
}

WEIR__STEPS_OF(WEIR__MODULE_TLS, [WEIR__STEP_START] = init);

/* -- creation and destruction -- */

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

/* Either side, which is not chosen yet. */
static struct weir__tls *
make(struct weir__tls_context *context, int fd)
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
        SSL_set_info_callback(tls->ssl, see_progress);
        return tls;
}

struct weir__tls *
weir__tls_new(struct weir__tls_context *context, int fd)
{
        struct weir__tls *tls = make(context, fd);

        if (tls)
                SSL_set_accept_state(tls->ssl);
        return tls;
}

int
weir__tls_new_client(struct weir__tls **made, struct weir__tls_context *context, int fd, const char *host)
{
        bool is_checked = !context->is_insecure && SSL_CTX_get_verify_mode(context->certificates->ssl_ctx) != SSL_VERIFY_NONE;

        if (!context->is_client || (!host && is_checked))
                return -EINVAL;
        struct weir__tls *tls = make(context, fd);
        int failed = !tls ? -ENOMEM : host ? weir__tls_set_host(tls->ssl, host) : 0;
        if (failed) {
                weir__tls_free(tls);
                return failed;
        }
        SSL_set_connect_state(tls->ssl);
        *made = tls;
        return 0;
}

/* The kernel encrypts for the socket only. */
void
weir__tls_run_within(struct weir__tls *tls, struct weir__tls *outer)
{
        tls->outer = outer;
        SSL_clear_options(tls->ssl, SSL_OP_ENABLE_KTLS);
        BIO_set_fd(SSL_get_rbio(tls->ssl), -1, BIO_NOCLOSE);
}

void
weir__tls_free(struct weir__tls *tls)
{
        if (!tls)
                return;
        weir__tls_leave_session(tls);
        SSL_free(tls->ssl);
        weir__tls_free(tls->outer);
        X509_free(tls->peer);
        free(tls->record);
        free(tls->problem);
        weir__tls_context_unref(tls->context);
        weir__free(tls, sizeof *tls);
}

/* -- results -- */

/* Begins a call of OpenSSL: callbacks of the program run on the same threads, and may have left errors.  Returns the failure of a
 * broken connection. */
static int
begin_call(const struct weir__tls *tls)
{
        if (!tls->failure && ERR_peek_error())
                ERR_clear_error();
        return tls->failure;
}

static int
failure_of(int reason)
{
        switch (reason) {
        case SSL_R_HTTP_REQUEST: return -EPROTOTYPE;
        case SSL_R_UNEXPECTED_EOF_WHILE_READING: return -ECONNABORTED;
        default: return -EPROTO;
        }
}

/* Whether an alert is about the client's certificate.  Servers without TLS 1.3 have no alert for a missing one: the handshake
 * fails behind their request for it. */
static bool
is_about_own_certificate(const struct weir__tls *tls, int reason)
{
        switch (reason) {
        case SSL_R_TLSV13_ALERT_CERTIFICATE_REQUIRED:
        case SSL_R_SSLV3_ALERT_HANDSHAKE_FAILURE:
        case SSL_R_SSLV3_ALERT_BAD_CERTIFICATE:
        case SSL_R_SSLV3_ALERT_UNSUPPORTED_CERTIFICATE:
        case SSL_R_SSLV3_ALERT_CERTIFICATE_REVOKED:
        case SSL_R_SSLV3_ALERT_CERTIFICATE_EXPIRED:
        case SSL_R_SSLV3_ALERT_CERTIFICATE_UNKNOWN:
        case SSL_R_TLSV1_ALERT_UNKNOWN_CA:
        case SSL_R_TLSV1_ALERT_ACCESS_DENIED: return tls->is_asked;
        default: return false;
        }
}

static void
describe_refusal(struct weir__tls *tls, const char *words)
{
        char text[256];

        if (SSL_get_certificate(tls->ssl))
                snprintf(text, sizeof text, "the server refuses the client's certificate: %s", words ? words : "");
        else
                snprintf(text, sizeof text, "the server wants a certificate of the client, which has none");
        tls->problem = strdup(text);
}

/* The same for a client, which keeps OpenSSL's words.  If the server's first bytes are no TLS record, the server does not speak
 * TLS. */
static int
client_failure_of(struct weir__tls *tls, unsigned long error, unsigned long last)
{
        int reason = ERR_GET_REASON(error);
        bool is_refused = ERR_GET_LIB(last) == ERR_LIB_SSL && ERR_GET_REASON(last) == SSL_R_CERTIFICATE_VERIFY_FAILED;

        if (is_refused)
                tls->verify_error = (int)SSL_get_verify_result(tls->ssl);
        else if (tls->error)
                return -tls->error;
        bool is_plain = !is_refused && reason == SSL_R_WRONG_VERSION_NUMBER && SSL_get_state(tls->ssl) == TLS_ST_CW_CLNT_HELLO;
        const char *words = is_refused ? X509_verify_cert_error_string(tls->verify_error)
                            : is_plain ? "the server does not speak TLS"
                                       : ERR_reason_error_string(error);
        bool is_own = !is_refused && is_about_own_certificate(tls, reason);
        if (is_own && !tls->problem)
                describe_refusal(tls, words);
        else if (!tls->problem && words)
                tls->problem = strdup(words);
        if (is_own)
                return WEIR_ETLS_REFUSED;
        if (is_refused)
                return weir__tls_status_of(tls->verify_error);
        return is_plain ? WEIR_ETLS_PLAIN : failure_of(reason);
}

/* Forgets OpenSSL's errors.  Returns whether one of them was for want of memory: the errors that follow look like a fault of the
 * peer, such as a certificate that no authority has signed. */
static bool
forget_errors(void)
{
        bool is_short = false;

        for (unsigned long error; (error = ERR_get_error());)
                is_short |= ERR_GET_REASON(error) == ERR_R_MALLOC_FAILURE;
        return is_short;
}

/* The result of a call of OpenSSL that has not succeeded. */
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
        unsigned long error = ERR_peek_error(), last = ERR_peek_last_error();
        if (forget_errors())
                tls->failure = -ENOMEM;
        else if (!SSL_is_server(tls->ssl))
                tls->failure = client_failure_of(tls, error, last);
        else
                tls->failure = tls->error ? -tls->error : failure_of(ERR_GET_REASON(error));
        return tls->failure;
}

int
weir__tls_handshake(struct weir__tls *tls)
{
        if (begin_call(tls))
                return tls->failure;
        tls->is_drained = false; /* it may only write, and something may have come since the last read */
        int result = SSL_do_handshake(tls->ssl);
        return result == 1 ? 0 : explain(tls, result);
}

ssize_t
weir__tls_read(struct weir__tls *tls, void *data, size_t size)
{
        size_t have = 0, count;
        unsigned records = 0;

        if (begin_call(tls))
                return tls->failure;
        tls->is_drained = false; /* it may read only bytes that OpenSSL has already */
        do {
                int result = SSL_read_ex(tls->ssl, (char *)data + have, size - have, &count);

                if (result != 1) {
                        int failed = explain(tls, result); /* an error comes again in the next call */
                        return have ? (ssize_t)have : failed;
                }
                have += count;
        } while (have < size && ++records < RECORDS_MAX && SSL_has_pending(tls->ssl));
        return (ssize_t)have;
}

ssize_t
weir__tls_peek(struct weir__tls *tls)
{
        size_t count;
        char byte;

        if (begin_call(tls))
                return tls->failure;
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

/* At most `most` bytes of the pieces from `at` on.  They stay where they are if one piece has them, or there is only one; else
 * they are copied to `record`, so that several pieces make one record. */
static struct iovec
collect(const struct iovec *pieces, int count, size_t at, size_t most, char record[RECORD])
{
        size_t size = 0;

        for (; count > 0 && at >= pieces->iov_len; pieces++, count--)
                at -= pieces->iov_len;
        if (count > 0 && (count == 1 || pieces->iov_len - at >= most))
                return (struct iovec){(char *)pieces->iov_base + at, pieces->iov_len - at < most ? pieces->iov_len - at : most};
        for (; count > 0 && size < most; pieces++, count--, at = 0) {
                size_t part = pieces->iov_len - at < most - size ? pieces->iov_len - at : most - size;

                if (part)
                        memcpy(record + size, (char *)pieces->iov_base + at, part);
                size += part;
        }
        return (struct iovec){record, size};
}

/* The memory that OpenSSL reads a record from; NULL when out of memory.
 *
 * Where the kernel encrypts, OpenSSL goes on from the address that it was given first, although its mode says that bytes may
 * move.  So the bytes are kept here until it has taken all of them.  The same holds before the handshake is over: it may end
 * within the write, and the kernel may encrypt then. */
static const char *
keep_record(struct weir__tls *tls, const struct iovec *part)
{
        if (tls->record)
                return tls->record;
        if (SSL_is_init_finished(tls->ssl) && !BIO_get_ktls_send(SSL_get_wbio(tls->ssl)))
                return part->iov_base;
        tls->record = malloc(part->iov_len);
        return tls->record ? memcpy(tls->record, part->iov_base, part->iov_len) : NULL;
}

/* The peer takes no more.  What it has said before can still be read, as from a socket: that may be why. */
static int
end_writing(struct weir__tls *tls, int failed)
{
        if ((failed == -EPIPE || failed == -ECONNRESET) && tls->is_shaken) {
                tls->failure = tls->error = 0;
                tls->is_finished = true;
        }
        return failed;
}

/* Writes a record, with one system call, for each 16 KB.  A failure is reported even when a record went out before it: otherwise
 * the caller would wait for room in the socket, and no event reports room that was always there.
 *
 * After -EAGAIN OpenSSL is given the same bytes again and no more: so the bytes behind them can still be replaced. */
ssize_t
weir__tls_write(struct weir__tls *tls, const struct iovec *pieces, int count)
{
        char record[RECORD];
        size_t sent = 0, written;
        struct iovec part;

        if (tls->is_finished || begin_call(tls))
                return tls->failure ? tls->failure : -EPIPE;
        while ((part = collect(pieces, count, sent, tls->held ? tls->held : RECORD, record)).iov_len > 0) {
                const char *data = keep_record(tls, &part);

                if (!data)
                        return -ENOMEM;
                int result = SSL_write_ex(tls->ssl, data, part.iov_len, &written);
                tls->held = 0;
                if (result != 1) {
                        int failed = explain(tls, result);

                        if (failed != -EAGAIN)
                                return end_writing(tls, failed ? failed : -EPIPE);
                        tls->held = part.iov_len;
                        return sent ? (ssize_t)sent : -EAGAIN;
                }
                free(tls->record);
                tls->record = NULL;
                sent += written;
        }
        return (ssize_t)sent;
}

int
weir__tls_finish(struct weir__tls *tls)
{
        if ((tls->is_finished && !tls->owes_end) || begin_call(tls) || !SSL_is_init_finished(tls->ssl))
                return tls->failure;
        tls->is_finished = true;
        int result = SSL_shutdown(tls->ssl), failed = result < 0 ? explain(tls, result) : 0;
        if (result < 0 && !failed) /* in its place OpenSSL reports that the peer has finished its side */
                failed = tls->failure = -tls->error;
        tls->owes_end = failed == -EAGAIN;
        return failed;
}

const char *
weir__tls_problem(const struct weir__tls *tls)
{
        return tls->problem;
}

const char *
weir__tls_protocol(const struct weir__tls *tls, size_t *size)
{
        const unsigned char *protocol;
        unsigned length;

        SSL_get0_alpn_selected(tls->ssl, &protocol, &length);
        *size = length;
        return (const char *)protocol;
}

char *
weir__tls_subject(X509 *certificate)
{
        BIO *memory = certificate ? BIO_new(BIO_s_mem()) : NULL;
        char *subject = NULL, *data;

        if (memory && X509_NAME_print_ex(memory, X509_get_subject_name(certificate), 0, XN_FLAG_RFC2253) >= 0 &&
            BIO_write(memory, "", 1) == 1 && BIO_get_mem_data(memory, &data) > 0)
                subject = strdup(data);
        BIO_free(memory);
        X509_free(certificate);
        ERR_clear_error();
        return subject;
}

/* NULL for a certificate that was not checked. */
static X509 *
peer_of(const struct weir__tls *tls)
{
        bool is_checked = !tls->context->is_insecure && SSL_get_verify_mode(tls->ssl) != SSL_VERIFY_NONE;

        return is_checked ? SSL_get1_peer_certificate(tls->ssl) : NULL;
}

char *
weir__tls_peer(const struct weir__tls *tls)
{
        return weir__tls_subject(peer_of(tls));
}

void
weir__tls_keep_peer(struct weir__tls *tls)
{
        if (!tls->peer)
                tls->peer = peer_of(tls);
}

X509 *
weir__tls_kept_peer(const struct weir__tls *tls)
{
        if (tls->peer)
                X509_up_ref(tls->peer);
        return tls->peer;
}
