/* kernel/socket/tls_context.c: certificates and keys of TLS connections, and their settings.
 *
 * Threads: a context is made by any thread, is constant afterwards, and is used by all.  References are counted.  An SSL_CTX of
 *          OpenSSL may be used so.
 * Locks:   none.
 *
 * Each certificate has an SSL_CTX of its own.  A connection begins with the first, and changes to the SSL_CTX of the name that
 * the client asks for.  The keys of session tickets are always those of the first.  A reload makes everything new but these
 * keys. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <openssl/err.h>
#include <openssl/ocsp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include "kernel/observe/log.h"
#include "kernel/socket/tls_internal.h"

#define NAME_MAX_SIZE 256 /* of a host, with its NUL */
#define TICKET_KEYS   80  /* bytes, as OpenSSL has them: a name and two keys */

/* TLS 1.2: only ciphers that keep their secrets when the key is stolen, and that authenticate what they encrypt.  TLS 1.3 has no
 * others; the cheapest comes first.  A client that prefers ChaCha20, because it lacks AES in hardware, gets it. */
#define CIPHERS_1_2 "ECDHE+AES128+AESGCM:ECDHE+AES256+AESGCM:ECDHE+CHACHA20"
#define CIPHERS_1_3 "TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256"

/* OpenSSL's own list ends with finite fields of up to 8,192 bits.  A client that offers only the largest costs 100 ms of CPU by a
 * ClientHello that it may repeat, and that costs the client nothing. */
#define GROUPS "X25519:P-256:P-384"

#define OPTIONS (SSL_OP_NO_COMPRESSION | SSL_OP_NO_RENEGOTIATION | SSL_OP_CIPHER_SERVER_PREFERENCE | SSL_OP_PRIORITIZE_CHACHA)

/* -- errors -- */

/* Logs OpenSSL's reason, and clears it.  Returns the code; the errno when the system was the reason, as for a missing file. */
static int
complain(int code, const char *what, const char *file)
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

/* -- choosing by name -- */

/* Names of hosts are ASCII in every locale. */
static void
make_lower(char *name)
{
        for (; *name; name++)
                if (*name >= 'A' && *name <= 'Z')
                        *name += 'a' - 'A';
}

static const struct weir__tls_certificate *
certificate_of(const struct weir__tls_context *context, const char *name)
{
        for (size_t i = 0; i < context->count; i++)
                for (size_t j = 0; j < context->certificates[i].name_count; j++)
                        if (strcmp(context->certificates[i].names[j], name) == 0)
                                return &context->certificates[i];
        return NULL;
}

/* The certificate for the name that a client asks for.  A certificate with that name beats one with a wildcard for its first
 * label.  NULL: there is none. */
static const struct weir__tls_certificate *
find(const struct weir__tls_context *context, const char *asked)
{
        char name[NAME_MAX_SIZE];

        if ((size_t)snprintf(name, sizeof name, "%s", asked) >= sizeof name)
                return NULL;
        make_lower(name);
        const struct weir__tls_certificate *found = certificate_of(context, name);
        char *dot = strchr(name, '.');
        if (found || !dot || dot == name)
                return found;
        dot[-1] = '*';
        return certificate_of(context, dot - 1);
}

/* A callback of OpenSSL: the client may have named a host. */
static int
choose_certificate(SSL *ssl, int *alert, void *argument)
{
        const struct weir__tls_context *context = argument;
        const char *name = SSL_get_servername(ssl, TLSEXT_NAMETYPE_host_name);
        const struct weir__tls_certificate *found = name ? find(context, name) : NULL;

        (void)alert;
        if (!found)
                return SSL_TLSEXT_ERR_NOACK;
        if (found != context->certificates && !SSL_set_SSL_CTX(ssl, found->ssl_ctx))
                return SSL_TLSEXT_ERR_ALERT_FATAL;
        return SSL_TLSEXT_ERR_OK;
}

static int
add_name(struct weir__tls_certificate *certificate, const ASN1_STRING *string)
{
        size_t size = (size_t)ASN1_STRING_length(string);
        char *name = strndup((const char *)ASN1_STRING_get0_data(string), size);
        char **names = name ? realloc(certificate->names, (certificate->name_count + 1) * sizeof *names) : NULL;

        if (names)
                certificate->names = names;
        if (!names || strlen(name) != size || !size) { /* a NUL inside: the name pretends to be another one */
                free(name);
                return names ? 0 : -ENOMEM;
        }
        make_lower(name);
        names[certificate->name_count++] = name;
        return 0;
}

/* The subject's common name counts when there are no alternative names of hosts.  Source: RFC 6125 section 6.4.4. */
static int
add_common_name(struct weir__tls_certificate *certificate, X509 *x509)
{
        X509_NAME *subject = X509_get_subject_name(x509);
        int index = X509_NAME_get_index_by_NID(subject, NID_commonName, -1);

        return index < 0 ? 0 : add_name(certificate, X509_NAME_ENTRY_get_data(X509_NAME_get_entry(subject, index)));
}

static int
read_names(struct weir__tls_certificate *certificate)
{
        X509 *x509 = SSL_CTX_get0_certificate(certificate->ssl_ctx);
        GENERAL_NAMES *names = x509 ? X509_get_ext_d2i(x509, NID_subject_alt_name, NULL, NULL) : NULL;
        int failed = 0;

        for (int i = 0; i < sk_GENERAL_NAME_num(names) && !failed; i++) {
                const GENERAL_NAME *name = sk_GENERAL_NAME_value(names, i);

                if (name->type == GEN_DNS)
                        failed = add_name(certificate, name->d.dNSName);
        }
        GENERAL_NAMES_free(names);
        if (!failed && x509 && !certificate->name_count)
                failed = add_common_name(certificate, x509);
        return failed;
}

/* -- other callbacks of OpenSSL -- */

/* A client that offers only protocols that we do not speak gets an alert.  Source: RFC 7301 section 3.2. */
static int
choose_protocol(SSL *ssl, const unsigned char **out, unsigned char *out_size, const unsigned char *in, unsigned in_size,
                void *argument)
{
        static const unsigned char ours[] = "\x08http/1.1\x08http/1.0";

        (void)ssl, (void)argument;
        if (SSL_select_next_proto((unsigned char **)out, out_size, ours, sizeof ours - 1, in, in_size) != OPENSSL_NPN_NEGOTIATED)
                return SSL_TLSEXT_ERR_ALERT_FATAL;
        return SSL_TLSEXT_ERR_OK;
}

static int
staple(SSL *ssl, void *argument)
{
        const struct weir__tls_certificate *certificate = argument;
        unsigned char *copy = OPENSSL_memdup(certificate->staple, certificate->staple_size);

        if (!copy || !SSL_set_tlsext_status_ocsp_resp(ssl, copy, (long)certificate->staple_size)) {
                OPENSSL_free(copy);
                return SSL_TLSEXT_ERR_NOACK;
        }
        return SSL_TLSEXT_ERR_OK;
}

/* A key with a passphrase is refused: OpenSSL would ask for it at the terminal. */
static int
no_passphrase(char *buffer, int size, int is_for_writing, void *argument)
{
        (void)buffer, (void)size, (void)is_for_writing, (void)argument;
        return -1;
}

/* -- reading -- */

static int
read_pair(SSL_CTX *ssl_ctx, const struct weir__tls_pair *pair)
{
        SSL_CTX_set_default_passwd_cb(ssl_ctx, no_passphrase);
        if (SSL_CTX_use_certificate_chain_file(ssl_ctx, pair->certificate_file) != 1)
                return complain(WEIR_ETLS_CERTIFICATE, "certificate file", pair->certificate_file);
        if (SSL_CTX_use_PrivateKey_file(ssl_ctx, pair->private_key_file, SSL_FILETYPE_PEM) != 1) {
                bool is_another = ERR_GET_REASON(ERR_peek_last_error()) == X509_R_KEY_VALUES_MISMATCH;
                return complain(is_another ? WEIR_ETLS_MISMATCH : WEIR_ETLS_KEY, "private key file", pair->private_key_file);
        }
        if (SSL_CTX_check_private_key(ssl_ctx) != 1) /* it is of another kind */
                return complain(WEIR_ETLS_MISMATCH, "private key file", pair->private_key_file);
        return 0;
}

/* Only the status of the response is checked.  Its content is for the client. */
static int
read_staple(struct weir__tls_certificate *certificate, const char *file)
{
        BIO *stream = BIO_new_file(file, "rb");
        OCSP_RESPONSE *response = stream ? d2i_OCSP_RESPONSE_bio(stream, NULL) : NULL;
        bool is_good = response && OCSP_response_status(response) == OCSP_RESPONSE_STATUS_SUCCESSFUL;
        int size = is_good ? i2d_OCSP_RESPONSE(response, &certificate->staple) : 0;

        OCSP_RESPONSE_free(response);
        BIO_free(stream);
        if (size <= 0)
                return complain(WEIR_ETLS_OCSP, "OCSP file", file);
        certificate->staple_size = (size_t)size;
        SSL_CTX_set_tlsext_status_cb(certificate->ssl_ctx, staple);
        SSL_CTX_set_tlsext_status_arg(certificate->ssl_ctx, certificate);
        return 0;
}

/* Reads the authorities of clients' certificates. */
static int
read_client_ca(SSL_CTX *ssl_ctx, const struct weir__tls_config *config)
{
        const char *file = config->client_ca_file;
        int mode = SSL_VERIFY_PEER | (config->client == WEIR__TLS_CLIENT_REQUIRE ? SSL_VERIFY_FAIL_IF_NO_PEER_CERT : 0);
        STACK_OF(X509_NAME) * names;

        if (config->client == WEIR__TLS_CLIENT_NONE)
                return 0;
        if (SSL_CTX_load_verify_file(ssl_ctx, file) != 1 || !(names = SSL_load_client_CA_file(file)))
                return complain(WEIR_ETLS_CERTIFICATE, "client CA file", file);
        SSL_CTX_set_client_CA_list(ssl_ctx, names);
        SSL_CTX_set_verify(ssl_ctx, mode, NULL);
        return 0;
}

/* A session is resumed only where clients are checked in the same way, against the same file.  It stands for a certificate that
 * was checked so. */
static int
set_session_context(SSL_CTX *ssl_ctx, const struct weir__tls_config *config)
{
        unsigned char digest[EVP_MAX_MD_SIZE] = {0};
        char buffer[4096];
        unsigned size = 0;
        EVP_MD_CTX *hash = EVP_MD_CTX_new();
        FILE *stream = config->client == WEIR__TLS_CLIENT_NONE ? NULL : fopen(config->client_ca_file, "rbe");
        bool is_good = hash && EVP_DigestInit_ex(hash, EVP_sha256(), NULL) &&
                       EVP_DigestUpdate(hash, &config->client, sizeof config->client);

        for (size_t count; is_good && stream && (count = fread(buffer, 1, sizeof buffer, stream)) > 0;)
                is_good = EVP_DigestUpdate(hash, buffer, count);
        if (stream)
                fclose(stream);
        is_good = is_good && EVP_DigestFinal_ex(hash, digest, &size) &&
                  SSL_CTX_set_session_id_context(ssl_ctx, digest, size <= SSL_MAX_SID_CTX_LENGTH ? size : SSL_MAX_SID_CTX_LENGTH);
        EVP_MD_CTX_free(hash);
        return is_good ? 0 : complain(WEIR_ETLS, "sessions", NULL);
}

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

static int
configure(struct weir__tls_context *context, SSL_CTX *ssl_ctx, const struct weir__tls_config *config)
{
        SSL_CTX_set_options(ssl_ctx, OPTIONS | (kernel_has_tls() ? SSL_OP_ENABLE_KTLS : 0));
        SSL_CTX_set_session_cache_mode(ssl_ctx, SSL_SESS_CACHE_OFF); /* clients keep their sessions, in tickets */
        SSL_CTX_set_num_tickets(ssl_ctx, 1);                         /* one for each connection that the client will make again */
        SSL_CTX_set_alpn_select_cb(ssl_ctx, choose_protocol, NULL);
        if (config->pair_count > 1) {
                SSL_CTX_set_tlsext_servername_callback(ssl_ctx, choose_certificate);
                SSL_CTX_set_tlsext_servername_arg(ssl_ctx, context);
        }
        if (!SSL_CTX_set_min_proto_version(ssl_ctx, TLS1_2_VERSION) || !SSL_CTX_set_cipher_list(ssl_ctx, CIPHERS_1_2) ||
            !SSL_CTX_set_ciphersuites(ssl_ctx, CIPHERS_1_3))
                return complain(WEIR_ETLS, "cipher suites", NULL);
        if (!SSL_CTX_set1_groups_list(ssl_ctx, config->groups ? config->groups : GROUPS))
                return complain(-EINVAL, "groups", config->groups);
        int failed = set_session_context(ssl_ctx, config);
        return failed ? failed : read_client_ca(ssl_ctx, config);
}

static int
make_certificate(struct weir__tls_context *context, const struct weir__tls_config *config, size_t index)
{
        struct weir__tls_certificate *certificate = &context->certificates[index];

        ERR_clear_error();
        certificate->ssl_ctx = SSL_CTX_new(TLS_server_method());
        if (!certificate->ssl_ctx)
                return complain(-ENOMEM, "context", NULL);
        context->count = index + 1;
        int failed = configure(context, certificate->ssl_ctx, config);
        if (!failed)
                failed = read_pair(certificate->ssl_ctx, &config->pairs[index]);
        if (!failed)
                failed = read_names(certificate);
        if (!failed && index == 0 && config->ocsp_file)
                failed = read_staple(certificate, config->ocsp_file);
        return failed;
}

static void
keep_ticket_keys(struct weir__tls_context *context, const struct weir__tls_context *former)
{
        unsigned char keys[TICKET_KEYS];

        if (former && SSL_CTX_get_tlsext_ticket_keys(former->certificates->ssl_ctx, keys, sizeof keys) == 1)
                SSL_CTX_set_tlsext_ticket_keys(context->certificates->ssl_ctx, keys, sizeof keys);
        OPENSSL_cleanse(keys, sizeof keys);
}

int
weir__tls_context_new(struct weir__tls_context **made, const struct weir__tls_config *config,
                      const struct weir__tls_context *former)
{
        size_t count = config->ssl_ctx ? 1 : config->pair_count;
        struct weir__tls_context *context = calloc(1, sizeof *context + count * sizeof *context->certificates);
        int failed = 0;

        if (!context)
                return -ENOMEM;
        atomic_init(&context->references, 1);
        if (config->ssl_ctx) {
                SSL_CTX_up_ref(config->ssl_ctx);
                context->certificates->ssl_ctx = config->ssl_ctx;
                context->count = 1;
        }
        for (size_t i = context->count; i < count && !failed; i++)
                failed = make_certificate(context, config, i);
        if (failed) {
                weir__tls_context_unref(context);
                return failed;
        }
        if (!config->ssl_ctx)
                keep_ticket_keys(context, former);
        *made = context;
        return 0;
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
        free(context);
}
