/* kernel/tls/tls_sessions.c: the sessions that clients can resume.
 *
 *     keep: a handshake of TLS 1.2 is over, or a ticket of TLS 1.3 has come --> newest of its name
 *     take: a handshake begins --> offered; a ticket leaves the cache
 *
 * Threads: any.
 * Locks:   that of the cache, a leaf.  Memory is taken and sessions are freed without it. */
#include "kernel/tls/tls_sessions.h"

#include <stdlib.h>
#include <string.h>

#include <openssl/rand.h>
#include <openssl/ssl.h>

#include "kernel/base/clock.h"
#include "kernel/base/list.h"
#include "kernel/base/lock.h"
#include "kernel/data/siphash.h"

#define LINES 256

struct name {
        struct weir__link recent; /* in the cache's `recent` */
        struct name *next;        /* in its line */
        unsigned line, count;
        struct weir__tls_session sessions[WEIR__TLS_SESSIONS_FOR_NAME]; /* the newest last */
        char key[];
};

struct weir__tls_sessions {
        uint64_t hash_key[2]; /* constant: strangers choose names */
        struct weir__lock lock;

        /* Guarded by lock. */
        unsigned count;           /* of names */
        struct weir__list recent; /* names, the most recently used first */
        struct name *lines[LINES];
};

/* -- under the lock -- */

static struct name **
find(struct weir__tls_sessions *sessions, const char *key, unsigned line)
{
        struct name **at = &sessions->lines[line];

        while (*at && strcmp((*at)->key, key) != 0)
                at = &(*at)->next;
        return at;
}

static void
touch(struct weir__tls_sessions *sessions, struct name *name)
{
        weir__link_remove(&name->recent);
        weir__list_prepend(&sessions->recent, &name->recent);
}

/* Returns the one that has to go for it; NULL: there was room. */
static struct name *
add_name(struct weir__tls_sessions *sessions, struct name *name)
{
        struct name *oldest = NULL;

        if (sessions->count == WEIR__TLS_SESSIONS_NAMES) {
                oldest = weir__container_of(sessions->recent.head.previous, struct name, recent);
                weir__link_remove(&oldest->recent);
                *find(sessions, oldest->key, oldest->line) = oldest->next;
        } else {
                sessions->count++;
        }
        name->next = sessions->lines[name->line];
        sessions->lines[name->line] = name;
        weir__list_prepend(&sessions->recent, &name->recent);
        return oldest;
}

/* Returns the session that has to go for it; NULL: there was room. */
static SSL_SESSION *
add_session(struct name *name, const struct weir__tls_session *session)
{
        SSL_SESSION *oldest = NULL;

        if (name->count == WEIR__TLS_SESSIONS_FOR_NAME) {
                oldest = name->sessions[0].session;
                memmove(name->sessions, name->sessions + 1, --name->count * sizeof *name->sessions);
        }
        name->sessions[name->count++] = *session;
        return oldest;
}

/* -- any thread -- */

static unsigned
line_of(const struct weir__tls_sessions *sessions, const char *key)
{
        return (unsigned)(weir__siphash(sessions->hash_key, key, strlen(key)) >> 32) % LINES;
}

static void
free_all(const struct weir__tls_session *sessions, unsigned count)
{
        for (unsigned i = 0; i < count; i++)
                SSL_SESSION_free(sessions[i].session);
}

static void
free_name(struct name *name)
{
        if (name)
                free_all(name->sessions, name->count);
        free(name);
}

static struct name *
make_name(const char *key, unsigned line)
{
        size_t size = strlen(key) + 1;
        struct name *name = malloc(sizeof *name + size);

        if (!name)
                return NULL;
        *name = (struct name){.line = line};
        memcpy(name->key, key, size);
        return name;
}

struct weir__tls_sessions *
weir__tls_sessions_new(void)
{
        struct weir__tls_sessions *sessions = calloc(1, sizeof *sessions);

        if (!sessions)
                return NULL;
        weir__lock_init(&sessions->lock, WEIR__RANK_LEAF);
        if (RAND_bytes((unsigned char *)sessions->hash_key, sizeof sessions->hash_key) == 1)
                return sessions;
        free(sessions);
        return NULL;
}

void
weir__tls_sessions_free(struct weir__tls_sessions *sessions)
{
        if (!sessions)
                return;
        for (struct weir__link *link; (link = weir__list_pop(&sessions->recent));)
                free_name(weir__container_of(link, struct name, recent));
        free(sessions);
}

bool
weir__tls_sessions_keep(struct weir__tls_sessions *sessions, const char *key, const struct weir__tls_session *session)
{
        unsigned line = line_of(sessions, key);
        struct name *made = NULL, *name, *dropped = NULL;
        SSL_SESSION *oldest = NULL;

        if (session->until <= weir__clock_wall_coarse())
                return false;
        for (;;) {
                weir__lock(&sessions->lock);
                name = *find(sessions, key, line);
                if (name)
                        touch(sessions, name);
                else if ((name = made))
                        dropped = add_name(sessions, made);
                if (name)
                        oldest = add_session(name, session);
                weir__unlock(&sessions->lock);
                if (name)
                        break;
                made = make_name(key, line);
                if (!made)
                        return false;
        }
        if (made != name)
                free(made); /* another thread has made it meanwhile */
        free_name(dropped);
        SSL_SESSION_free(oldest);
        return true;
}

bool
weir__tls_sessions_take(struct weir__tls_sessions *sessions, const char *key, struct weir__tls_session *session)
{
        unsigned line = line_of(sessions, key), old_count = 0;
        weir_nsec now = weir__clock_wall_coarse();
        struct weir__tls_session old[WEIR__TLS_SESSIONS_FOR_NAME];
        bool is_found = false;

        weir__lock(&sessions->lock);
        struct name *name = *find(sessions, key, line);
        if (name)
                touch(sessions, name);
        while (name && name->count && !is_found) {
                struct weir__tls_session *newest = &name->sessions[name->count - 1];

                is_found = newest->until > now && SSL_SESSION_is_resumable(newest->session);
                if (is_found)
                        *session = *newest;
                if (is_found && SSL_SESSION_get_protocol_version(newest->session) < TLS1_3_VERSION)
                        SSL_SESSION_up_ref(newest->session); /* it stays */
                else
                        name->count--;
                if (!is_found)
                        old[old_count++] = *newest;
        }
        weir__unlock(&sessions->lock);
        free_all(old, old_count);
        return is_found;
}

void
weir__tls_sessions_forget(struct weir__tls_sessions *sessions, const char *key)
{
        unsigned line = line_of(sessions, key), count = 0;
        struct weir__tls_session dropped[WEIR__TLS_SESSIONS_FOR_NAME];

        weir__lock(&sessions->lock);
        struct name *name = *find(sessions, key, line);
        if (name) {
                count = name->count;
                memcpy(dropped, name->sessions, count * sizeof *dropped);
                name->count = 0;
        }
        weir__unlock(&sessions->lock);
        free_all(dropped, count);
}
