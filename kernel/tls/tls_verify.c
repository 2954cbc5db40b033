/* kernel/tls/tls_verify.c: why a server's certificate is refused, as a status and in words.
 *
 * Threads: the owner of the connection's poller only.
 * Locks:   none.
 *
 * OpenSSL copies what is expected of a certificate for each verification.  When it is out of memory it goes on without: then it
 * would accept any name (seen with 3.0).  So each verification is asked whether it has a name to check.
 *
 * The words have names from the certificate, which anybody may have made.  So what cannot be printed is replaced. */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <openssl/x509v3.h>

#include <weir/runtime.h>

#include "kernel/tls/tls_internal.h"

#define TEXT_MAX  512
#define NAMES_MAX 8 /* that are told */

int
weir__tls_status_of(int error)
{
        switch (error) {
        case X509_V_ERR_HOSTNAME_MISMATCH:
        case X509_V_ERR_IP_ADDRESS_MISMATCH: return WEIR_ETLS_NAME;
        case X509_V_ERR_CERT_HAS_EXPIRED:
        case X509_V_ERR_CERT_NOT_YET_VALID: return WEIR_ETLS_EXPIRED;
        case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT: return WEIR_ETLS_SELF_SIGNED;
        case X509_V_ERR_APPLICATION_VERIFICATION: return WEIR_ETLS_PIN;
        case X509_V_ERR_OUT_OF_MEM: return -ENOMEM;
        default: return WEIR_ETLS_UNTRUSTED;
        }
}

/* Text in a fixed room.  What does not fit is left out. */
struct text {
        size_t size;
        char bytes[TEXT_MAX];
};

static void
add(struct text *text, const char *bytes, size_t size)
{
        for (size_t i = 0; i < size && text->size < sizeof text->bytes - 1; i++) {
                char c = bytes[i];

                text->bytes[text->size++] = c >= ' ' && c < 0x7f ? c : '?';
        }
        text->bytes[text->size] = '\0';
}

static void
add_text(struct text *text, const char *words)
{
        add(text, words, strlen(words));
}

/* A subject or an issuer, in the notation of RFC 2253. */
static void
add_name(struct text *text, const X509_NAME *name)
{
        BIO *memory = BIO_new(BIO_s_mem());
        char *data;

        if (memory && X509_NAME_print_ex(memory, name, 0, XN_FLAG_RFC2253) >= 0) {
                long size = BIO_get_mem_data(memory, &data);

                add(text, data, size > 0 ? (size_t)size : 0);
        }
        BIO_free(memory);
}

static void
add_time(struct text *text, const ASN1_TIME *time)
{
        char words[64];
        struct tm parts;

        if (ASN1_TIME_to_tm(time, &parts) == 1 && strftime(words, sizeof words, "%Y-%m-%d %H:%M:%S UTC", &parts) > 0)
                add_text(text, words);
}

/* Result: whether the certificate has that name for a host, and it was added. */
static bool
add_alternative(struct text *text, const GENERAL_NAME *name, bool is_first)
{
        const ASN1_STRING *string = name->type == GEN_DNS ? name->d.dNSName : name->type == GEN_IPADD ? name->d.iPAddress : NULL;
        const unsigned char *bytes = string ? ASN1_STRING_get0_data(string) : NULL;
        int size = string ? ASN1_STRING_length(string) : 0;
        char address[INET6_ADDRSTRLEN];

        if (!bytes || (name->type == GEN_IPADD && size != 4 && size != 16))
                return false;
        add_text(text, is_first ? "\"" : ", \"");
        if (name->type == GEN_DNS)
                add(text, (const char *)bytes, (size_t)size);
        else if (inet_ntop(size == 4 ? AF_INET : AF_INET6, bytes, address, sizeof address))
                add_text(text, address);
        add_text(text, "\"");
        return true;
}

/* The names that the certificate has for hosts; its subject, if it has none. */
static void
add_hosts(struct text *text, X509 *x509)
{
        GENERAL_NAMES *names = X509_get_ext_d2i(x509, NID_subject_alt_name, NULL, NULL);
        unsigned count = 0;

        for (int i = 0; i < sk_GENERAL_NAME_num(names) && count < NAMES_MAX; i++)
                count += add_alternative(text, sk_GENERAL_NAME_value(names, i), count == 0);
        if (count == 0)
                add_name(text, X509_get_subject_name(x509));
        else if (count < (unsigned)sk_GENERAL_NAME_num(names))
                add_text(text, " and others");
        GENERAL_NAMES_free(names);
}

static void
describe(struct text *text, int error, X509 *x509)
{
        if (error == X509_V_ERR_HOSTNAME_MISMATCH || error == X509_V_ERR_IP_ADDRESS_MISMATCH) {
                add_text(text, "the certificate is for ");
                add_hosts(text, x509);
                return;
        }
        add_text(text, "the certificate of ");
        add_name(text, X509_get_subject_name(x509));
        switch (error) {
        case X509_V_ERR_CERT_HAS_EXPIRED:
                add_text(text, " expired at ");
                add_time(text, X509_get0_notAfter(x509));
                break;
        case X509_V_ERR_CERT_NOT_YET_VALID:
                add_text(text, " is not valid before ");
                add_time(text, X509_get0_notBefore(x509));
                break;
        case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
        case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN: add_text(text, " is signed by itself and not trusted"); break;
        case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
        case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
        case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
                add_text(text, " is signed by ");
                add_name(text, X509_get_issuer_name(x509));
                add_text(text, ", which is not trusted");
                break;
        default: add_text(text, ": "); add_text(text, X509_verify_cert_error_string(error));
        }
}

static bool
has_host(X509_STORE_CTX *store)
{
        X509_VERIFY_PARAM *expected = X509_STORE_CTX_get0_param(store);

        if (X509_VERIFY_PARAM_get0_host(expected, 0))
                return true;
        char *address = X509_VERIFY_PARAM_get1_ip_asc(expected);
        bool has_address = address != NULL;
        OPENSSL_free(address);
        return has_address;
}

int
weir__tls_notice(int is_good, X509_STORE_CTX *store)
{
        const SSL *ssl = X509_STORE_CTX_get_ex_data(store, SSL_get_ex_data_X509_STORE_CTX_idx());
        struct weir__tls *tls = BIO_get_app_data(SSL_get_rbio(ssl));
        X509 *x509 = X509_STORE_CTX_get_current_cert(store);
        struct text text = {.size = 0};

        if (is_good && has_host(store))
                return 1;
        if (is_good)
                X509_STORE_CTX_set_error(store, X509_V_ERR_OUT_OF_MEM);
        if (is_good || tls->problem || !x509)
                return 0;
        describe(&text, X509_STORE_CTX_get_error(store), x509);
        tls->problem = strdup(text.bytes);
        return 0;
}

void
weir__tls_notice_pin(X509_STORE_CTX *store)
{
        const SSL *ssl = X509_STORE_CTX_get_ex_data(store, SSL_get_ex_data_X509_STORE_CTX_idx());
        struct weir__tls *tls = BIO_get_app_data(SSL_get_rbio(ssl));
        X509 *x509 = X509_STORE_CTX_get0_cert(store);
        unsigned char pin[WEIR__TLS_PIN], digits[WEIR__TLS_PIN * 2];
        struct text text = {.size = 0};

        X509_STORE_CTX_set_error(store, X509_V_ERR_APPLICATION_VERIFICATION);
        if (tls->problem || !x509 || !weir__tls_pin_of(x509, pin))
                return;
        EVP_EncodeBlock(digits, pin, sizeof pin);
        add_text(&text, "the certificate of ");
        add_name(&text, X509_get_subject_name(x509));
        add_text(&text, " has the key sha256/");
        add_text(&text, (const char *)digits);
        add_text(&text, ", which is not pinned");
        tls->problem = strdup(text.bytes);
}
