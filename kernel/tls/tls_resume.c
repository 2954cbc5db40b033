/* kernel/tls/tls_resume.c: a client's connection resumes a session, and keeps those that the server gives it.
 *
 * Threads: the owner of the connection's poller only.
 * Locks:   none; that of the cache inside its calls.
 *
 * OpenSSL verifies no certificate when a session is resumed.  So a session is kept only after a handshake that has verified one,
 * or has resumed such a session; and it is used only until the first certificate of that chain expires.  The key has the name
 * that was verified.  Other settings have another cache. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/err.h>

#include <weir/runtime.h>

#include "kernel/base/clock.h"
#include "kernel/tls/tls_internal.h"
#include "kernel/tls/tls_sessions.h"

#define LIFETIME_MAX ((weir_nsec)7 * 24 * 3600) /* seconds.  Source: RFC 8446 section 4.6.1 */

struct weir__tls_resumption {
        weir_nsec trusted_until; /* of the session that was offered */
        bool has_offered;
        char key[];
};

static weir_nsec
after_seconds(weir_nsec seconds)
{
        return weir__clock_wall_coarse() + seconds * WEIR_SEC(1);
}

/* When the first certificate that was verified expires; the present if that is not known. */
static weir_nsec
end_of_chain(const SSL *ssl)
{
        const STACK_OF(X509) *chain = SSL_get0_verified_chain(ssl);
        weir_nsec least = chain && sk_X509_num(chain) > 0 ? INT64_MAX : 0;

        for (int i = 0; i < sk_X509_num(chain); i++) {
                int days, seconds;

                if (ASN1_TIME_diff(&days, &seconds, NULL, X509_get0_notAfter(sk_X509_value(chain, i))) != 1)
                        return after_seconds(0);
                weir_nsec left = (weir_nsec)days * 24 * 3600 + seconds;
                least = left < least ? left : least;
        }
        return after_seconds(least < LIFETIME_MAX ? least : LIFETIME_MAX);
}

static weir_nsec
trusted_until(const struct weir__tls *tls)
{
        if (SSL_session_reused(tls->ssl))
                return tls->resumption->trusted_until;
        return tls->context->is_insecure ? WEIR_FOREVER : end_of_chain(tls->ssl);
}

/* The server's word on how long it knows the session; OpenSSL's of TLS 1.2 when it has none. */
static weir_nsec
lifetime_of(const SSL_SESSION *session)
{
        weir_nsec own = (weir_nsec)SSL_SESSION_get_timeout(session);
        weir_nsec hint = (weir_nsec)SSL_SESSION_get_ticket_lifetime_hint(session);
        weir_nsec least = hint > 0 && hint < own ? hint : own;

        return least < LIFETIME_MAX ? least : LIFETIME_MAX;
}

/* A callback of OpenSSL.  Returns 1 when it takes the reference. */
static int
keep(SSL *ssl, SSL_SESSION *session)
{
        struct weir__tls *tls = BIO_get_app_data(SSL_get_rbio(ssl));
        struct weir__tls_resumption *self = tls->resumption;
        bool is_good = tls->context->is_insecure || SSL_get_verify_result(ssl) == X509_V_OK;

        if (!self || !is_good || !SSL_SESSION_is_resumable(session))
                return 0;
        weir_nsec trusted = trusted_until(tls), until = after_seconds(lifetime_of(session));
        const struct weir__tls_session kept = {session, until < trusted ? until : trusted, trusted};
        return weir__tls_sessions_keep(tls->context->sessions, self->key, &kept);
}

void
weir__tls_keep_sessions(SSL_CTX *ssl_ctx)
{
        SSL_CTX_set_session_cache_mode(ssl_ctx,
                                       SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL | SSL_SESS_CACHE_NO_AUTO_CLEAR);
        SSL_CTX_sess_set_new_cb(ssl_ctx, keep);
}

static void
offer(struct weir__tls *tls)
{
        struct weir__tls_resumption *self = tls->resumption;
        struct weir__tls_session session;

        if (!weir__tls_sessions_take(tls->context->sessions, self->key, &session))
                return;
        self->trusted_until = session.trusted_until;
        self->has_offered = SSL_set_session(tls->ssl, session.session) == 1;
        SSL_SESSION_free(session.session);
        if (!self->has_offered)
                ERR_clear_error();
}

void
weir__tls_resume(struct weir__tls *tls, const char *host, const char *address)
{
        size_t host_size = host ? strlen(host) : 0, size = host_size + strlen(address) + 2;

        if (!tls->context->sessions)
                return;
        tls->resumption = malloc(sizeof *tls->resumption + size);
        if (!tls->resumption)
                return;
        tls->resumption->has_offered = false;
        snprintf(tls->resumption->key, size, "%s %s", host ? host : "", address);
        offer(tls);
}

/* OpenSSL spoils the session of a connection that ends without a close_notify.  That was a rule of TLS 1.0; now only a fault of
 * the protocol is a reason. */
void
weir__tls_leave_session(struct weir__tls *tls)
{
        struct weir__tls_resumption *self = tls->resumption;

        if (!self)
                return;
        if (self->has_offered && !tls->is_shaken)
                weir__tls_sessions_forget(tls->context->sessions, self->key);
        if (tls->is_shaken && tls->failure != -EPROTO && tls->failure != WEIR_ETLS_REFUSED)
                SSL_set_shutdown(tls->ssl, SSL_get_shutdown(tls->ssl) | SSL_SENT_SHUTDOWN);
        free(self);
}

bool
weir__tls_is_resumed(const struct weir__tls *tls)
{
        return SSL_session_reused(tls->ssl) == 1;
}
