/* kernel/tls/tls_context.c: what the contexts of servers and of clients have in common.
 *
 * Threads: a context is made by any thread, is constant afterwards, and is used by all.  References are counted.  An SSL_CTX of
 *          OpenSSL may be used so.
 * Locks:   none. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/err.h>

#include "kernel/observe/log.h"
#include "kernel/tls/tls_internal.h"
#include "kernel/tls/tls_sessions.h"

#define PROTOCOL_MAX 255 /* bytes of a name in ALPN */

/* TLS 1.2: only ciphers that keep their secrets when the key is stolen, and that authenticate what they encrypt.  TLS 1.3 has no
 * others; the cheapest comes first.  A client that prefers ChaCha20, because it lacks AES in hardware, gets it. */
#define CIPHERS_1_2 "ECDHE+AES128+AESGCM:ECDHE+AES256+AESGCM:ECDHE+CHACHA20"
#define CIPHERS_1_3 "TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256"

/* OpenSSL's own list ends with finite fields of up to 8,192 bits.  A client that offers only the largest costs 100 ms of CPU by a
 * ClientHello that it may repeat, and that costs the client nothing. */
#define GROUPS "X25519:P-256:P-384"

int
weir__tls_complain(int code, const char *what, const char *file)
{
        unsigned long error = ERR_peek_error();
        const char *reason = error ? ERR_reason_error_string(error) : NULL;

        if (ERR_SYSTEM_ERROR(error))
                code = -ERR_GET_REASON(error);
        else if (ERR_GET_REASON(error) == ERR_R_MALLOC_FAILURE)
                code = -ENOMEM;
        weir__log(WEIR_LOG_ERROR, "TLS: %s \"%s\": %s", what, file ? file : "", reason ? reason : weir_strerror(code));
        ERR_clear_error();
        return code;
}

/* -- settings -- */

/* Whether the kernel can encrypt: its module `tls` is loaded.  A test for each connection would cost more. */
static bool
kernel_has_tls(void)
{
        FILE *stream = fopen("/proc/sys/net/ipv4/tcp_available_ulp", "re");
        char word[32];
        bool has_tls = false;

        while (stream && !has_tls && fscanf(stream, "%31s", word) == 1)
                has_tls = strcmp(word, "tls") == 0;
        if (stream)
                fclose(stream);
        return has_tls;
}

int
weir__tls_configure(SSL_CTX *ssl_ctx, const char *groups, bool is_1_3)
{
        SSL_CTX_set_options(ssl_ctx,
                            SSL_OP_NO_COMPRESSION | SSL_OP_NO_RENEGOTIATION | (kernel_has_tls() ? SSL_OP_ENABLE_KTLS : 0));
        SSL_CTX_set_session_cache_mode(ssl_ctx, SSL_SESS_CACHE_OFF); /* clients keep them, in tickets */
        if (!SSL_CTX_set_min_proto_version(ssl_ctx, is_1_3 ? TLS1_3_VERSION : TLS1_2_VERSION) ||
            !SSL_CTX_set_cipher_list(ssl_ctx, CIPHERS_1_2) || !SSL_CTX_set_ciphersuites(ssl_ctx, CIPHERS_1_3))
                return weir__tls_complain(WEIR_ETLS, "cipher suites", NULL);
        if (!SSL_CTX_set1_groups_list(ssl_ctx, groups ? groups : GROUPS))
                return weir__tls_complain(-EINVAL, "groups", groups);
        return 0;
}

int
weir__tls_set_protocols(struct weir__tls_context *context, const char *names)
{
        size_t size = strlen(names), length;
        unsigned char *list = malloc(size + 1), *to = list;

        if (!list)
                return weir__tls_complain(-ENOMEM, "protocols", names);
        for (const char *at = names;; at += length + 1) {
                length = strcspn(at, ",");
                if (!length || length > PROTOCOL_MAX) {
                        free(list);
                        return weir__tls_complain(-EINVAL, "protocols", names);
                }
                *to = (unsigned char)length;
                memcpy(to + 1, at, length);
                to += length + 1;
                if (!at[length])
                        break;
        }
        context->protocols = list;
        context->protocols_size = (unsigned)(size + 1);
        return 0;
}

/* A key with a passphrase is refused: OpenSSL would ask for it at the terminal. */
static int
no_passphrase(char *buffer, int size, int is_for_writing, void *argument)
{
        (void)buffer, (void)size, (void)is_for_writing, (void)argument;
        return -1;
}

int
weir__tls_read_pair(SSL_CTX *ssl_ctx, const struct weir__tls_pair *pair)
{
        SSL_CTX_set_default_passwd_cb(ssl_ctx, no_passphrase);
        if (SSL_CTX_use_certificate_chain_file(ssl_ctx, pair->certificate_file) != 1)
                return weir__tls_complain(WEIR_ETLS_CERTIFICATE, "certificate file", pair->certificate_file);
        if (SSL_CTX_use_PrivateKey_file(ssl_ctx, pair->private_key_file, SSL_FILETYPE_PEM) != 1) {
                bool is_another = ERR_GET_REASON(ERR_peek_last_error()) == X509_R_KEY_VALUES_MISMATCH;
                return weir__tls_complain(is_another ? WEIR_ETLS_MISMATCH : WEIR_ETLS_KEY, "private key file",
                                          pair->private_key_file);
        }
        if (SSL_CTX_check_private_key(ssl_ctx) != 1) /* it is of another kind */
                return weir__tls_complain(WEIR_ETLS_MISMATCH, "private key file", pair->private_key_file);
        return 0;
}

/* -- contexts -- */

struct weir__tls_context *
weir__tls_context_alloc(size_t count, SSL_CTX *ssl_ctx)
{
        struct weir__tls_context *context = calloc(1, sizeof *context + count * sizeof *context->certificates);

        if (!context)
                return NULL;
        atomic_init(&context->references, 1);
        if (ssl_ctx) {
                SSL_CTX_up_ref(ssl_ctx);
                context->certificates->ssl_ctx = ssl_ctx;
                context->count = 1;
        }
        return context;
}

struct weir__tls_context *
weir__tls_context_ref(struct weir__tls_context *context)
{
        atomic_fetch_add_explicit(&context->references, 1, memory_order_relaxed);
        return context;
}

void
weir__tls_context_unref(struct weir__tls_context *context)
{
        if (!context || atomic_fetch_sub_explicit(&context->references, 1, memory_order_acq_rel) != 1)
                return;
        for (size_t i = 0; i < context->count; i++) {
                struct weir__tls_certificate *certificate = &context->certificates[i];

                SSL_CTX_free(certificate->ssl_ctx);
                for (size_t j = 0; j < certificate->name_count; j++)
                        free(certificate->names[j]);
                free(certificate->names);
                OPENSSL_free(certificate->staple);
        }
        weir__tls_sessions_free(context->sessions);
        free(context->protocols);
        free(context->pins);
        free(context);
}
