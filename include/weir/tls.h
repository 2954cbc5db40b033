/* weir/tls.h: settings of TLS for streams: the trusted authorities, and a certificate of one's own.
 *
 *     struct weir_tls_config config = WEIR_TLS_CONFIG_DEFAULT;
 *     config.ca_file = "ca.pem";
 *     weir_tls *tls = weir_tls_client_new(&config);
 *     weir_task_start(weir_connect_tls_new("db.example:5433", tls, NULL, use, NULL));
 *
 * weir_connect_new("tls:host:port") needs none of this: it trusts the system's roots.  HTTP servers
 * have settings of their own (weir/http_server.h). */
#ifndef WEIR_TLS_H
#define WEIR_TLS_H

#include <stdbool.h>
#include <stddef.h>

#include <weir/stream.h>
#include <weir/task.h>

WEIR_BEGIN

/* Settings that many connections share.  They do not change.  Those of a client keep sessions of the
 * servers that it has been connected to, for up to 1,000 names: so a later connection to the same
 * address and name costs less.  A program makes them once, and not for each connection. */
typedef struct weir_tls weir_tls;

/* Begins with WEIR_TLS_CONFIG_DEFAULT.  Texts are copied. */
struct weir_tls_config {
        size_t size;                  /* sizeof(struct weir_tls_config) */
        const char *ca_file;          /* PEM: the authorities that may have signed the peer's certificate; NULL: a client
                                         trusts the system's roots, a server asks its clients for no certificate */
        const char *certificate_file; /* PEM: a chain, the own certificate first; a server needs it */
        const char *private_key_file; /* PEM, without a passphrase */
        const char *protocols;        /* for ALPN, the best first, separated by commas; NULL: none */
        bool insecure;                /* a client accepts any certificate of any server; the first use is a warning in the log */
        const char *pins;             /* a client expects one of these keys: "sha256/BASE64" of each SubjectPublicKeyInfo, as
                                         in RFC 7469, separated by commas; NULL: any key */
        const char *min_version;      /* "1.2" or "1.3" of TLS; NULL: 1.2 */
        const char *groups;           /* for the exchange of keys, the best first, such as "X25519:P-256"; NULL: the default */
};

/* The initializer of a config. */
#define WEIR_TLS_CONFIG_DEFAULT {.size = sizeof(struct weir_tls_config)}

/* Makes settings of clients, or of servers.  Reads the files, and for a client all trusted roots: so
 * a handshake reads no file.
 *
 * A pinned key may be that of the server's certificate, or of one that stands behind it, up to the
 * authority.  All other checks are made, too.  With `insecure` it is the key of the server's own
 * certificate, and there is no other check.
 *
 * Owner:   the caller has a reference.
 * Result:  NULL when out of memory.  A task that uses settings with a fault ends with it: -EINVAL (a
 *          wrong size, a certificate without a key, a server without a certificate, bad pins or
 *          groups, an unknown version), -ENOENT, -EACCES and other errors of open(2),
 *          WEIR_ETLS_CERTIFICATE, WEIR_ETLS_KEY, WEIR_ETLS_MISMATCH, WEIR_ETLS.  The log has the reason,
 *          and for pins the byte.  NULL as config is the default.
 * Threads: any.  Reads files: on a worker, between weir_blocking_begin and weir_blocking_end. */
WEIR_API weir_tls *weir_tls_client_new(const struct weir_tls_config *config);
WEIR_API weir_tls *weir_tls_server_new(const struct weir_tls_config *config);

/* Takes and drops a reference.  Connections have their own.  Both accept NULL.
 *
 * Threads: any. */
WEIR_API weir_tls *weir_tls_ref(weir_tls *tls);
WEIR_API void weir_tls_unref(weir_tls *tls);

/* The same as weir_connect_new, with TLS.  The peer's certificate must have `name`; NULL: the host
 * of the address.
 *
 * Owner:   the caller, until the task is consumed.  The texts are copied.
 * Result:  as weir_connect_new; the start also reports -ENOMEM for NULL settings, -EINVAL for those of
 *          a server, and for a Unix socket without a name.  The task's status also: the fault of the
 *          settings; WEIR_ETLS_NAME, WEIR_ETLS_EXPIRED, WEIR_ETLS_SELF_SIGNED or WEIR_ETLS_UNTRUSTED:
 *          the peer's certificate is refused; WEIR_ETLS_PIN: its key is not pinned; WEIR_ETLS_PLAIN: the
 *          peer does not speak TLS; -EPROTO: it breaks its rules, or accepts none of the settings;
 *          WEIR_ETLS_REFUSED: it has asked for a certificate, and refuses ours, or that there is none;
 *          -ECONNABORTED: it went away.
 *          With TLS 1.3 the handshake of a client is over before the server has looked at the client's
 *          certificate: so the connect ends with 0, and the first read with WEIR_ETLS_REFUSED.
 * Threads: any. */
WEIR_API weir_task *weir_connect_tls_new(const char *address, weir_tls *tls, const char *name, weir_task_fn *done, void *context);

/* Makes a task that starts TLS on a stream that was plain until then, such as after STARTTLS: as the
 * client or the server, as the settings are.  No other task of the stream may wait meanwhile.
 *
 * Owner:   the caller, until the task is consumed.  The name is copied.
 * Result:  NULL when out of memory; every consumer accepts NULL.  The task's start, run or push
 *          reports -ENOMEM for a NULL stream or settings, -EINVAL for a client without a name.  The
 *          task's status: 0; -EBUSY: a task of the stream waits; -EALREADY: it has TLS; -EBADMSG:
 *          bytes of the peer came before the handshake, and they must not be taken for protected ones;
 *          -ENOTSUP: it is a pipe or a terminal; those of weir_connect_tls_new, which break the stream;
 *          -EPROTOTYPE: the client of a server speaks HTTP; those of weir_stream_read_new.
 * Threads: any. */
WEIR_API weir_task *weir_stream_start_tls_new(weir_stream *stream, weir_tls *tls, const char *name, weir_task_fn *done,
                                              void *context);

/* Writes the subject of the peer's certificate, in the form of RFC 2253, such as "CN=alice,O=Example".
 * The certificate has been checked: that of a client against client_ca_file (weir/stream_server.h), or
 * ca_file.
 *
 * Result:  its size without the NUL, which may be more than the room, as snprintf(3); -ENODATA: the
 *          peer has shown none, none was asked for, it was not checked (`insecure`), or the stream has
 *          no TLS yet; -ENOTCONN: the stream is closed; -ENOMEM, also for NULL.
 * Threads: any. */
WEIR_API int weir_stream_peer_certificate(weir_stream *stream, char *out, size_t room);

/* Writes the protocol that both sides have agreed on (ALPN): one of `protocols`.
 *
 * Result:  its size without the NUL, which may be more than the room, as snprintf(3); -ENODATA: none,
 *          or the stream has no TLS yet; -ENOTCONN: the stream is closed; -ENOMEM for NULL.
 * Threads: any. */
WEIR_API int weir_stream_protocol(weir_stream *stream, char *out, size_t room);

/* Whether the handshake has resumed an earlier session.  A client does so by itself, if it uses the
 * same settings, address and name.  With TLS 1.3 a session comes behind the handshake, with the first
 * read.  A certificate is not checked again: a session is not used longer than it is valid.
 *
 * Result:  false for NULL, without TLS, and when the stream is closed.
 * Threads: any. */
WEIR_API bool weir_stream_is_resumed(weir_stream *stream);

WEIR_END

#endif
