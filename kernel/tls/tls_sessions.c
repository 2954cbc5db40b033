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

struct kept {
        struct weir__link link; /* in the name's sessions */
        struct weir__tls_session session;
};

struct name {
        struct weir__link recent; /* in the cache's `recent` */
        struct name *next;        /* in its line */
        unsigned line, count;
        struct weir__list sessions; /* the newest first */
        char key[];
};

struct weir__tls_sessions {
        uint64_t hash_key[2]; /* constant: strangers choose names */
        struct weir__lock lock;

        /* Guarded by lock. */
        unsigned name_count, count; /* names; sessions of all of them */
        struct weir__list recent;   /* names, the most recently used first */
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

static struct name *
oldest_name(struct weir__tls_sessions *sessions)
{
        return weir__container_of(sessions->recent.head.previous, struct name, recent);
}

static void
add_name(struct weir__tls_sessions *sessions, struct name *name)
{
        name->next = sessions->lines[name->line];
        sessions->lines[name->line] = name;
        weir__list_prepend(&sessions->recent, &name->recent);
        sessions->name_count++;
}

static void
remove_name(struct weir__tls_sessions *sessions, struct name *name)
{
        weir__link_remove(&name->recent);
        *find(sessions, name->key, name->line) = name->next;
        sessions->name_count--;
        sessions->count -= name->count;
}

static void
add_session(struct weir__tls_sessions *sessions, struct name *name, struct kept *kept)
{
        weir__list_prepend(&name->sessions, &kept->link);
        name->count++;
        sessions->count++;
}

static void
move_session(struct weir__tls_sessions *sessions, struct name *name, struct weir__link *link, struct weir__list *to)
{
        weir__link_remove(link);
        weir__list_append(to, link);
        name->count--;
        sessions->count--;
}

/* Makes room behind a new session of that name.  Returns names that have to go, linked by `next`.  Sessions that have to go come
 * to `dropped`. */
static struct name *
keep_bounds(struct weir__tls_sessions *sessions, struct name *name, struct weir__list *dropped)
{
        struct name *gone = NULL;

        if (name->count > WEIR__TLS_SESSIONS_FOR_NAME)
                move_session(sessions, name, name->sessions.head.previous, dropped);
        while (sessions->name_count > WEIR__TLS_SESSIONS_NAMES || sessions->count > WEIR__TLS_SESSIONS_MAX) {
                struct name *oldest = oldest_name(sessions);

                remove_name(sessions, oldest);
                oldest->next = gone;
                gone = oldest;
        }
        return gone;
}

/* -- any thread -- */

static unsigned
line_of(const struct weir__tls_sessions *sessions, const char *key)
{
        return (unsigned)(weir__siphash(sessions->hash_key, key, strlen(key)) >> 32) % LINES;
}

static void
free_all(struct weir__list *list)
{
        for (struct weir__link *link; (link = weir__list_pop(list));) {
                struct kept *kept = weir__container_of(link, struct kept, link);

                SSL_SESSION_free(kept->session.session);
                free(kept);
        }
}

static void
free_name(struct name *name)
{
        if (name)
                free_all(&name->sessions);
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

/* Finds the name, and makes it if need be.  Returns NULL when out of memory.  The lock is held afterwards, if it is not. */
static struct name *
hold_name(struct weir__tls_sessions *sessions, const char *key)
{
        unsigned line = line_of(sessions, key);

        weir__lock(&sessions->lock);
        struct name *name = *find(sessions, key, line);
        if (name) {
                touch(sessions, name);
                return name;
        }
        weir__unlock(&sessions->lock);
        struct name *made = make_name(key, line);
        if (!made)
                return NULL;
        weir__lock(&sessions->lock);
        name = *find(sessions, key, line);
        if (!name) {
                add_name(sessions, made);
                return made;
        }
        weir__unlock(&sessions->lock); /* another thread has made it meanwhile; it may be gone again */
        free(made);
        return hold_name(sessions, key);
}

bool
weir__tls_sessions_keep(struct weir__tls_sessions *sessions, const char *key, const struct weir__tls_session *session)
{
        struct kept *kept = session->until > weir__clock_wall_coarse() ? malloc(sizeof *kept) : NULL;
        struct weir__list dropped = {0};
        struct name *name = kept ? hold_name(sessions, key) : NULL;

        if (!name) {
                free(kept);
                return false;
        }
        kept->session = *session;
        add_session(sessions, name, kept);
        struct name *gone = keep_bounds(sessions, name, &dropped), *next;
        weir__unlock(&sessions->lock);
        for (; gone; gone = next) {
                next = gone->next;
                free_name(gone);
        }
        free_all(&dropped);
        return true;
}

bool
weir__tls_sessions_take(struct weir__tls_sessions *sessions, const char *key, struct weir__tls_session *session)
{
        weir_nsec now = weir__clock_wall_coarse();
        struct weir__list dropped = {0};
        struct weir__link *link;
        bool is_found = false;

        weir__lock(&sessions->lock);
        struct name *name = *find(sessions, key, line_of(sessions, key));
        if (name)
                touch(sessions, name);
        while (name && !is_found && (link = weir__list_first(&name->sessions))) {
                struct weir__tls_session *newest = &weir__container_of(link, struct kept, link)->session;

                is_found = newest->until > now && SSL_SESSION_is_resumable(newest->session);
                if (is_found) {
                        *session = *newest;
                        SSL_SESSION_up_ref(newest->session);
                }
                if (!is_found || SSL_SESSION_get_protocol_version(newest->session) >= TLS1_3_VERSION)
                        move_session(sessions, name, link, &dropped);
        }
        weir__unlock(&sessions->lock);
        free_all(&dropped);
        return is_found;
}

void
weir__tls_sessions_forget(struct weir__tls_sessions *sessions, const char *key)
{
        weir__lock(&sessions->lock);
        struct name *name = *find(sessions, key, line_of(sessions, key));
        if (name)
                remove_name(sessions, name);
        weir__unlock(&sessions->lock);
        free_name(name);
}
