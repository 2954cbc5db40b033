/* bench/secure.c: TLS for the load generator, by OpenSSL.
 *
 * Threads: the load generator's only. */
#include "secure.h"

#include <errno.h>
#include <stdio.h>

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>

/* -- a certificate -- */

static X509 *
sign(EVP_PKEY *key)
{
        X509 *certificate = X509_new();
        X509_NAME *name = certificate ? X509_get_subject_name(certificate) : NULL;

        if (name && X509_set_version(certificate, X509_VERSION_3) && ASN1_INTEGER_set(X509_get_serialNumber(certificate), 1) &&
            X509_gmtime_adj(X509_getm_notBefore(certificate), -3600) &&
            X509_gmtime_adj(X509_getm_notAfter(certificate), 24 * 3600L) &&
            X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, (const unsigned char *)"localhost", -1, -1, 0) &&
            X509_set_issuer_name(certificate, name) && X509_set_pubkey(certificate, key) &&
            X509_sign(certificate, key, EVP_sha256()))
                return certificate;
        X509_free(certificate);
        return NULL;
}

static FILE *
open_file(const char *directory, const char *name)
{
        char path[128];

        snprintf(path, sizeof path, "%s/%s", directory, name);
        return fopen(path, "we");
}

bool
bench_make_certificate(const char *directory)
{
        EVP_PKEY *key = EVP_EC_gen("P-256");
        X509 *certificate = key ? sign(key) : NULL;
        FILE *key_file = open_file(directory, BENCH_KEY_FILE), *file = open_file(directory, BENCH_CERTIFICATE_FILE);
        bool good = certificate && key_file && file && PEM_write_PrivateKey(key_file, key, NULL, NULL, 0, NULL, NULL) == 1 &&
                    PEM_write_X509(file, certificate) == 1;

        if (key_file && fclose(key_file))
                good = false;
        if (file && fclose(file))
                good = false;
        X509_free(certificate);
        EVP_PKEY_free(key);
        return good;
}

/* -- a connection -- */

static SSL_CTX *
client_context(void)
{
        static SSL_CTX *context;

        if (context)
                return context;
        context = SSL_CTX_new(TLS_client_method());
        if (!context)
                return NULL;
        SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION);
        SSL_CTX_set_ciphersuites(context, "TLS_AES_128_GCM_SHA256");
        SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
        SSL_CTX_set_mode(context, SSL_MODE_RELEASE_BUFFERS);
        SSL_CTX_set_read_ahead(context, 1);
        return context;
}

/* It is an SSL. */
static SSL *
ssl_of(const struct bench_secure *secure)
{
        return (SSL *)secure;
}

struct bench_secure *
bench_secure_new(int fd)
{
        SSL_CTX *context = client_context();
        SSL *ssl = context ? SSL_new(context) : NULL;

        if (ssl && SSL_set_fd(ssl, fd) == 1) {
                SSL_set_connect_state(ssl);
                return (struct bench_secure *)ssl;
        }
        SSL_free(ssl);
        return NULL;
}

void
bench_secure_free(struct bench_secure *secure)
{
        SSL_free(ssl_of(secure));
}

/* What a call that was not successful has to say. */
static int
explain(struct bench_secure *secure, int result)
{
        switch (SSL_get_error(ssl_of(secure), result)) {
        case SSL_ERROR_WANT_READ:
        case SSL_ERROR_WANT_WRITE: errno = EAGAIN; return -1;
        case SSL_ERROR_ZERO_RETURN: return 0;
        default: errno = EPROTO; return -1;
        }
}

int
bench_secure_handshake(struct bench_secure *secure)
{
        ERR_clear_error();
        int result = SSL_do_handshake(ssl_of(secure));
        if (result == 1)
                return 1;
        return explain(secure, result) < 0 && errno == EAGAIN ? 0 : -1;
}

ssize_t
bench_secure_read(struct bench_secure *secure, void *data, size_t size)
{
        size_t count;

        ERR_clear_error();
        int result = SSL_read_ex(ssl_of(secure), data, size, &count);
        return result == 1 ? (ssize_t)count : explain(secure, result);
}

ssize_t
bench_secure_write(struct bench_secure *secure, const void *data, size_t size)
{
        size_t count;

        ERR_clear_error();
        int result = SSL_write_ex(ssl_of(secure), data, size, &count);
        return result == 1 ? (ssize_t)count : explain(secure, result);
}

bool
bench_secure_has_more(const struct bench_secure *secure)
{
        return SSL_has_pending(ssl_of(secure));
}
