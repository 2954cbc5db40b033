/* kernel/tls/tls_sessions.h: the sessions that clients can resume, by the name and the address of the server.
 *
 * A session was made with the settings that the cache belongs to, so what they check was checked.  A session of TLS 1.3 is used
 * once.  One of TLS 1.2 is used until it expires. */
#ifndef WEIR_KERNEL_TLS_SESSIONS_H
#define WEIR_KERNEL_TLS_SESSIONS_H

#include <stdbool.h>

#include <weir/time.h>

#define WEIR__TLS_SESSIONS_NAMES    1000 /* that have sessions; for a further one, the least recently used is forgotten */
#define WEIR__TLS_SESSIONS_FOR_NAME 64   /* the newest: so many connections at once have one each */
#define WEIR__TLS_SESSIONS_MAX      4000 /* of all names; for a further one, the least recently used name is forgotten */

struct weir__tls_sessions;

struct weir__tls_session {
        struct ssl_session_st *session; /* SSL_SESSION of OpenSSL; a reference */
        weir_nsec until;                /* on the wall clock: it is not used later */
        weir_nsec trusted_until;        /* the same of the certificates behind it; WEIR_FOREVER: they were not checked */
};

struct weir__tls_sessions *weir__tls_sessions_new(void);           /* NULL when out of memory */
void weir__tls_sessions_free(struct weir__tls_sessions *sessions); /* accepts NULL */

/* Keeps a session, and its reference.  Returns false when it does not, because it has expired or memory is out.  Any thread. */
bool weir__tls_sessions_keep(struct weir__tls_sessions *sessions, const char *key, const struct weir__tls_session *session);

/* Finds the newest session of that key.  Returns false if there is none.  Owner: the caller has the reference.  Any thread. */
bool weir__tls_sessions_take(struct weir__tls_sessions *sessions, const char *key, struct weir__tls_session *session);

/* Drops those of that key.  Any thread. */
void weir__tls_sessions_forget(struct weir__tls_sessions *sessions, const char *key);

#endif
