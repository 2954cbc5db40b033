/* kernel/tls/tls_pins.c: keys that a client expects, beside what it checks else.
 *
 *     pins = "sha256/" BASE64 *("," "sha256/" BASE64)        each of a SubjectPublicKeyInfo, as in RFC 7469 section 2.4
 *
 * One of the certificates that were verified, from the server's own to the authority, has a pinned key.  Without a check of
 * certificates it is the server's own.
 *
 * Threads: pins are read by any thread, and constant afterwards.  The check is on the owner of the connection's poller.
 * Locks:   none. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/x509.h>

#include "kernel/observe/log.h"
#include "kernel/tls/tls_internal.h"

#define PIN_PREFIX "sha256/"
#define PIN_DIGITS 44 /* of BASE64, the last one "=" */

/* Reads the digits of a pin.  Returns false when they are no hash. */
static bool
read_digits(const char *text, unsigned char pin[WEIR__TLS_PIN])
{
        unsigned char bytes[PIN_DIGITS / 4 * 3];

        if (strnlen(text, PIN_DIGITS) < PIN_DIGITS || text[PIN_DIGITS - 1] != '=' || text[PIN_DIGITS - 2] == '=' ||
            EVP_DecodeBlock(bytes, (const unsigned char *)text, PIN_DIGITS) != sizeof bytes)
                return false;
        memcpy(pin, bytes, WEIR__TLS_PIN);
        return true;
}

/* Returns the text behind the pin; NULL: there is none. */
static const char *
read_pin(const char *text, unsigned char pin[WEIR__TLS_PIN])
{
        size_t prefix = strlen(PIN_PREFIX);

        if (strncmp(text, PIN_PREFIX, prefix) != 0 || !read_digits(text + prefix, pin))
                return NULL;
        text += prefix + PIN_DIGITS;
        return *text == ',' || !*text ? text : NULL;
}

int
weir__tls_set_pins(struct weir__tls_context *context, const char *text)
{
        size_t most = strlen(text) / PIN_DIGITS + 1, count = 0;
        const char *at = text;

        context->pins = malloc(most * sizeof *context->pins);
        if (!context->pins)
                return weir__tls_complain(-ENOMEM, "pins", text);
        for (;;) {
                const char *end = read_pin(at, context->pins[count]);

                if (!end) {
                        weir__log(WEIR_LOG_ERROR,
                                  "TLS: pins \"%s\": byte %zu: expected sha256/ and 44 digits of BASE64, then a comma or the end",
                                  text, (size_t)(at - text));
                        return -EINVAL;
                }
                context->pin_count = ++count;
                if (!*end)
                        return 0;
                at = end + 1;
        }
}

bool
weir__tls_pin_of(X509 *x509, unsigned char pin[WEIR__TLS_PIN])
{
        unsigned char *key = NULL;
        int size = i2d_X509_PUBKEY(X509_get_X509_PUBKEY(x509), &key);
        bool is_made = size > 0 && EVP_Digest(key, (size_t)size, pin, NULL, EVP_sha256(), NULL) == 1;

        OPENSSL_free(key);
        return is_made;
}

/* Returns false also when memory is out. */
static bool
is_pinned(const struct weir__tls_context *context, X509 *x509)
{
        unsigned char pin[WEIR__TLS_PIN];

        if (!x509 || !weir__tls_pin_of(x509, pin))
                return false;
        for (size_t i = 0; i < context->pin_count; i++)
                if (memcmp(context->pins[i], pin, sizeof pin) == 0)
                        return true;
        return false;
}

/* A callback of OpenSSL, in place of its own check.  Returns 1 when the certificate is accepted. */
static int
verify(X509_STORE_CTX *store, void *argument)
{
        const struct weir__tls_context *context = argument;
        bool is_good = false;

        if (context->is_insecure) {
                is_good = is_pinned(context, X509_STORE_CTX_get0_cert(store));
                X509_STORE_CTX_set_error(store, X509_V_OK);
        } else {
                int result = X509_verify_cert(store);
                const STACK_OF(X509) *chain = X509_STORE_CTX_get0_chain(store);

                if (result <= 0)
                        return result;
                for (int i = 0; i < sk_X509_num(chain) && !is_good; i++)
                        is_good = is_pinned(context, sk_X509_value(chain, i));
        }
        if (!is_good)
                weir__tls_notice_pin(store);
        return is_good;
}

void
weir__tls_check_pins(struct weir__tls_context *context, SSL_CTX *ssl_ctx)
{
        SSL_CTX_set_verify(ssl_ctx, SSL_VERIFY_PEER, NULL);
        SSL_CTX_set_cert_verify_callback(ssl_ctx, verify, context);
}
