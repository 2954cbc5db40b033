/* kernel/tls/tls_server.c: the context of a server: certificates and keys by the names of hosts, tickets, checks of clients.
 *
 * Threads: a context is made by any thread, is constant afterwards, and is used by all.
 * Locks:   none.
 *
 * Each certificate has an SSL_CTX of its own.  A connection begins with the first, and changes to the SSL_CTX of the name that
 * the client asks for.  The keys of session tickets are always those of the first.  A reload makes everything new but these
 * keys. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/err.h>
#include <openssl/ocsp.h>
#include <openssl/x509v3.h>

#include "kernel/tls/tls_internal.h"

#define HOST_ROOM   256 /* bytes of a host, with its NUL */
#define TICKET_KEYS 80  /* bytes, as OpenSSL has them: a name and two keys */

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
        char name[HOST_ROOM];

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
        const struct weir__tls_context *context = argument;

        (void)ssl;
        if (SSL_select_next_proto((unsigned char **)out, out_size, context->protocols, context->protocols_size, in, in_size) !=
            OPENSSL_NPN_NEGOTIATED)
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

/* -- reading -- */

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
                return weir__tls_complain(WEIR_ETLS_OCSP, "OCSP file", file);
        certificate->staple_size = (size_t)size;
        SSL_CTX_set_tlsext_status_cb(certificate->ssl_ctx, staple);
        SSL_CTX_set_tlsext_status_arg(certificate->ssl_ctx, certificate);
        return 0;
}

/* Reads the authorities of clients' certificates. */
static int
read_client_ca(SSL_CTX *ssl_ctx, const struct weir__tls_server_config *config)
{
        const char *file = config->client_ca_file;
        int mode = SSL_VERIFY_PEER | (config->check == WEIR__TLS_CHECK_REQUIRE ? SSL_VERIFY_FAIL_IF_NO_PEER_CERT : 0);
        STACK_OF(X509_NAME) * names;

        if (config->check == WEIR__TLS_CHECK_NONE)
                return 0;
        if (SSL_CTX_load_verify_file(ssl_ctx, file) != 1 || !(names = SSL_load_client_CA_file(file)))
                return weir__tls_complain(WEIR_ETLS_CERTIFICATE, "client CA file", file);
        SSL_CTX_set_client_CA_list(ssl_ctx, names);
        SSL_CTX_set_verify(ssl_ctx, mode, NULL);
        return 0;
}

/* A session is resumed only where clients are checked in the same way, against the same file.  It stands for a certificate that
 * was checked so. */
static int
set_session_context(SSL_CTX *ssl_ctx, const struct weir__tls_server_config *config)
{
        unsigned char digest[EVP_MAX_MD_SIZE] = {0};
        char buffer[4096];
        unsigned size = 0;
        EVP_MD_CTX *hash = EVP_MD_CTX_new();
        FILE *stream = config->check == WEIR__TLS_CHECK_NONE ? NULL : fopen(config->client_ca_file, "rbe");
        bool is_good = hash && EVP_DigestInit_ex(hash, EVP_sha256(), NULL) &&
                       EVP_DigestUpdate(hash, &config->check, sizeof config->check);

        for (size_t count; is_good && stream && (count = fread(buffer, 1, sizeof buffer, stream)) > 0;)
                is_good = EVP_DigestUpdate(hash, buffer, count);
        if (stream)
                fclose(stream);
        is_good = is_good && EVP_DigestFinal_ex(hash, digest, &size) &&
                  SSL_CTX_set_session_id_context(ssl_ctx, digest, size <= SSL_MAX_SID_CTX_LENGTH ? size : SSL_MAX_SID_CTX_LENGTH);
        EVP_MD_CTX_free(hash);
        return is_good ? 0 : weir__tls_complain(WEIR_ETLS, "sessions", NULL);
}

static int
configure(struct weir__tls_context *context, SSL_CTX *ssl_ctx, const struct weir__tls_server_config *config)
{
        int failed = weir__tls_configure(ssl_ctx, config->groups, config->is_1_3);

        if (failed)
                return failed;
        SSL_CTX_set_options(ssl_ctx, SSL_OP_CIPHER_SERVER_PREFERENCE | SSL_OP_PRIORITIZE_CHACHA);
        SSL_CTX_set_num_tickets(ssl_ctx, 1); /* one for each connection that the client will make again */
        if (context->protocols)
                SSL_CTX_set_alpn_select_cb(ssl_ctx, choose_protocol, context);
        if (config->pair_count > 1) {
                SSL_CTX_set_tlsext_servername_callback(ssl_ctx, choose_certificate);
                SSL_CTX_set_tlsext_servername_arg(ssl_ctx, context);
        }
        failed = set_session_context(ssl_ctx, config);
        return failed ? failed : read_client_ca(ssl_ctx, config);
}

static int
make_certificate(struct weir__tls_context *context, const struct weir__tls_server_config *config, size_t index)
{
        struct weir__tls_certificate *certificate = &context->certificates[index];

        ERR_clear_error();
        certificate->ssl_ctx = SSL_CTX_new(TLS_server_method());
        if (!certificate->ssl_ctx)
                return weir__tls_complain(-ENOMEM, "context", NULL);
        context->count = index + 1;
        int failed = configure(context, certificate->ssl_ctx, config);
        if (!failed)
                failed = weir__tls_read_pair(certificate->ssl_ctx, &config->pairs[index]);
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
weir__tls_context_new_server(struct weir__tls_context **made, const struct weir__tls_server_config *config,
                             const struct weir__tls_context *former)
{
        size_t count = config->ssl_ctx ? 1 : config->pair_count;
        struct weir__tls_context *context = weir__tls_context_alloc(count, config->ssl_ctx);
        int failed = 0;

        if (!context)
                return -ENOMEM;
        if (!config->ssl_ctx && config->protocols)
                failed = weir__tls_set_protocols(context, config->protocols);
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
