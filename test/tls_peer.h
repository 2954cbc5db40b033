/* test/tls_peer.h: certificates that are made on the spot, and the client's side of TLS.
 *
 * Certificates and keys are files in a directory that is made by tls_files_begin and removed by tls_files_end: NAME.pem and
 * NAME.key.  What must work and does not aborts with the reason. */
#ifndef WEIR_TEST_TLS_PEER_H
#define WEIR_TEST_TLS_PEER_H

#include <stdbool.h>
#include <stddef.h>

#include <openssl/ssl.h>

enum tls_key { TLS_EC, TLS_RSA };

struct tls_wish {
        const char *common_name;       /* NULL: the name of the file */
        const char *alternative_names; /* such as "DNS:a.example,DNS:*.b.example"; NULL: none */
        const char *issuer;            /* the name of the file of one made before; NULL: it signs itself, and may sign others */
        enum tls_key key;
        long begins_in, ends_in; /* seconds from now; 0: it began an hour ago, and ends in a day */
        const char *usage;       /* of the key, such as "clientAuth"; NULL: any */
        bool is_authority;       /* it may sign others, although it does not sign itself */
};

void tls_files_begin(void);
void tls_files_end(void);
void tls_files_use(const char *path); /* in place of these two: a directory that is there */
void tls_make_certificate(const char *name, const struct tls_wish *wish);

/* The name that OpenSSL looks for in a directory of trusted certificates, such as "0123abcd.0"; valid until the next call. */
const char *tls_hash_of(const char *name);

/* Writes the certificates of several files into one. */
void tls_join(const char *name, const char *const *certificates, size_t count);

/* The file of an OCSP response about the certificate of that name, which it signs itself; `is_good`: or it is revoked. */
void tls_make_staple(const char *name, const char *certificate, bool is_good);
void tls_write_file(const char *name, const void *data, size_t size);

/* The path of a file in the directory, such as "a.pem"; valid for the next fifteen calls. */
const char *tls_path(const char *name);

/* The properties of a client.  The descriptor decides whether it blocks. */
struct tls_client_wish {
        const char *server_name; /* to ask for; NULL: none */
        const char *protocols;   /* ALPN, in its form: "\x02h2"; NULL: none */
        const char *certificate; /* the name of the file of its own; NULL: none */
        int version;             /* the only one; 0: any */
        SSL_SESSION *session;    /* to resume; NULL: none */
        bool wants_staple;
        const char *groups;      /* for the exchange of keys, such as "P-256"; NULL: OpenSSL's */
        int window;              /* of what it receives, in bytes; 0: the system's.  For tls_connect */
};

/* A client that trusts anybody and talks over the descriptor; -1: over memory (SSL_get_wbio, SSL_get_rbio). */
SSL *tls_client(int fd, const struct tls_client_wish *wish);

/* The subject's common name of the server's certificate. */
const char *tls_server_shown(SSL *client);

/* Connects to 127.0.0.1, and has the handshake.  NULL when it fails.  tls_hang_up closes the descriptor, too. */
SSL *tls_connect(int port, const struct tls_client_wish *wish);
void tls_hang_up(SSL *client);

/* Sends all, or returns false. */
bool tls_send(SSL *client, const void *data, size_t size);

/* Receives up to the end of a reply with Content-Length, NUL-terminated, or until the end of the stream; returns whether that was
 * the end of a reply.  The caller frees. */
bool tls_receive(SSL *client, char **reply, size_t *size);

/* Whether the server has ended the stream by saying so, and nothing comes before. */
bool tls_is_over(SSL *client);

#endif
