/* database/pq/listen.c: notifications.
 *
 * The listeners of a pool share a link, which is not one of those for queries.  A handle, the hub, has it as a transaction has
 * its own, and its queries are LISTEN and UNLISTEN.  When the link breaks another one is made, and all listen again.
 *
 *     listener:  NEW --LISTEN is sent--> ASKED --the server has executed it--> ACTIVE
 *                 ^                        |                                     |
 *                 |--the link breaks-------'-------------------------------------'
 *                 '--the link breaks--REFUSED <--the server has not executed it: the log says why
 *
 * A LISTEN has its answer before the listener is asked again: that of a link which is lost would be taken for one of the next.
 *
 * Threads: any.
 * Locks:   the pool's guards the listeners.  Events are sent under it, so none comes after weir_pq_unlisten. */
#include "database/pq/pq.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <weir/log.h>

#define LISTEN_PAUSE_FIRST WEIR_MSEC(20)
#define LISTEN_PAUSE_LAST  WEIR_SEC(5)

#define NAME_MAX_BYTES 63 /* the server cuts longer ones, and notifies the shorter name: NAMEDATALEN */

enum state { STATE_NEW = 0, STATE_ASKED, STATE_ACTIVE, STATE_REFUSED };

struct weir_pq_listener {
        /* Constant. */
        weir_pq *pool; /* a reference of the user sort */
        weir_channel *channel;
        char *name;

        _Atomic unsigned references; /* the program's, and that of a LISTEN on its way */

        /* Guarded by the pool's lock. */
        struct weir_pq_listener *next;
        enum state state;
        bool is_asked;   /* the callback of a LISTEN is to come */
        bool is_over;    /* not in the list any more */
        bool has_missed; /* something may be missing before the next event */
};

struct weir_pq_event {
        char *payload; /* within `texts`; NULL: it is no notification */
        int process;
        bool has_missed;
        char texts[]; /* the name, and behind its NUL the payload */
};

/* -- events -- */

weir_channel *
weir_pq_events_new(size_t capacity)
{
        return weir_channel_new(capacity, weir_pq_event_free);
}

void
weir_pq_event_free(void *event)
{
        free(event);
}

const char *
weir_pq_event_name(const weir_pq_event *event)
{
        return event ? event->texts : NULL;
}

const char *
weir_pq_event_payload(const weir_pq_event *event)
{
        return event ? event->payload : NULL;
}

int
weir_pq_event_process(const weir_pq_event *event)
{
        return event ? event->process : 0;
}

int
weir_pq_event_missed(const weir_pq_event *event)
{
        return event ? event->has_missed : 0;
}

/* Sends an event to a listener.  Under the pool's lock. */
static void
post_event(struct weir_pq_listener *listener, const char *payload, int process)
{
        size_t name_size = strlen(listener->name) + 1, size = payload ? strlen(payload) + 1 : 0;
        weir_pq_event *event = malloc(sizeof *event + name_size + size);

        if (!event) {
                listener->has_missed = true;
                return;
        }
        event->process = process;
        event->has_missed = listener->has_missed;
        event->payload = payload ? event->texts + name_size : NULL;
        memcpy(event->texts, listener->name, name_size);
        if (payload)
                memcpy(event->payload, payload, size);
        listener->has_missed = weir_channel_post(listener->channel, event) != 0;
        if (listener->has_missed)
                free(event);
}

void
weir__pq_hear(struct weir__pq_link *link)
{
        weir_pq *pool = link->pool;
        PGnotify *notify;

        while (link->state == WEIR__PQ_READY && (notify = PQnotifies(link->connection))) {
                pthread_mutex_lock(&pool->base.lock);
                for (struct weir_pq_listener *at = link->is_extra ? pool->listeners : NULL; at; at = at->next)
                        if (at->state == STATE_ACTIVE && strcmp(at->name, notify->relname) == 0)
                                post_event(at, notify->extra, notify->be_pid);
                pthread_mutex_unlock(&pool->base.lock);
                PQfreemem(notify);
        }
}

/* -- listeners -- */

static void
unref_listener(void *context)
{
        struct weir_pq_listener *listener = context;

        if (atomic_fetch_sub_explicit(&listener->references, 1, memory_order_acq_rel) != 1)
                return;
        weir_channel_unref(listener->channel);
        weir__sql_unref_user((struct weir__sql_pool *)listener->pool);
        free(listener->name);
        free(listener);
}

/* As SQL wants a name: in quotes, with those within it doubled.  NULL when out of memory. */
static char *
statement_of(const char *verb, const char *name)
{
        size_t used = strlen(verb);
        char *sql = malloc(used + 2 * strlen(name) + 4);

        if (!sql)
                return NULL;
        memcpy(sql, verb, used);
        sql[used++] = ' ';
        sql[used++] = '"';
        for (; *name; name++) {
                if (*name == '"')
                        sql[used++] = '"';
                sql[used++] = *name;
        }
        sql[used++] = '"';
        sql[used] = '\0';
        return sql;
}

/* The server's answer to LISTEN.  A notification that it sends behind that comes later, under the same locks. */
static void
on_listening(weir_task *query, void *context)
{
        struct weir_pq_listener *listener = context;
        weir_pq *pool = listener->pool;
        bool is_refused = *weir_pq_sqlstate(query) && weir_task_status(query) != -ECONNRESET; /* by a server that goes on */

        pthread_mutex_lock(&pool->base.lock);
        listener->is_asked = false;
        bool is_lost = listener->state == STATE_NEW; /* it was asked for by a link that is not there any more */
        if (!listener->is_over && listener->state == STATE_ASKED) {
                listener->state = weir_task_status(query) == 0 ? STATE_ACTIVE : is_refused ? STATE_REFUSED : STATE_NEW;
                if (listener->state == STATE_ACTIVE)
                        post_event(listener, NULL, 0);
                else if (listener->state == STATE_NEW)
                        weir__sql_look_at(&pool->base, weir_now() + LISTEN_PAUSE_LAST);
        }
        is_refused = listener->state == STATE_REFUSED && !listener->is_over;
        pthread_mutex_unlock(&pool->base.lock);
        if (is_lost)
                weir__pq_hub_step(pool);
        if (is_refused)
                weir_log_write(WEIR_LOG_WARNING, "pool %s: nobody listens to \"%s\" until the connection is made anew: %s",
                               pool->base.name, listener->name, weir_pq_problem(query));
}

/* Another one may have begun to listen to that name while UNLISTEN was on its way: it listens anew. */
static void
on_unlistened(weir_task *query, void *context)
{
        const struct weir_pq_listener *listener = context;
        weir_pq *pool = listener->pool;

        (void)query;
        pthread_mutex_lock(&pool->base.lock);
        for (struct weir_pq_listener *at = pool->listeners; at; at = at->next) {
                if (strcmp(at->name, listener->name) != 0)
                        continue;
                at->has_missed |= at->state == STATE_ACTIVE;
                at->state = STATE_NEW;
        }
        pthread_mutex_unlock(&pool->base.lock);
        weir__pq_hub_step(pool);
}

/* Gives up a reference to the listener.  0, or a negative errno: `done` is not called. */
static int
start_query(weir_pq *hub, const char *verb, weir_task_fn *done, struct weir_pq_listener *listener)
{
        char *sql = statement_of(verb, listener->name);
        weir_task *query = sql ? weir_pq_query_new(hub, sql, done, listener) : NULL;

        free(sql);
        if (query)
                weir_task_on_free(query, unref_listener);
        else
                unref_listener(listener);
        return weir_task_start(query);
}

/* Asks the server to listen.  If there is no memory for that, later.  Gives up a reference to the listener.  No lock is held. */
static int
ask(weir_pq *hub, struct weir_pq_listener *listener)
{
        weir_pq *pool = listener->pool;

        atomic_fetch_add_explicit(&listener->references, 1, memory_order_relaxed);
        int failed = start_query(hub, "LISTEN", on_listening, listener);
        if (failed) {
                pthread_mutex_lock(&pool->base.lock);
                listener->is_asked = false;
                listener->state = STATE_NEW;
                weir__sql_look_at(&pool->base, weir_now() + LISTEN_PAUSE_LAST);
                pthread_mutex_unlock(&pool->base.lock);
        }
        unref_listener(listener);
        return failed;
}

/* The next one that has to listen, ASKED from now on and with a reference; NULL: there is none.  Under the pool's lock. */
static struct weir_pq_listener *
ask_next(weir_pq *pool)
{
        struct weir_pq_listener *at = pool->hub && pool->hub->leased ? pool->listeners : NULL;

        while (at && (at->state != STATE_NEW || at->is_asked))
                at = at->next;
        if (!at)
                return NULL;
        at->state = STATE_ASKED;
        at->is_asked = true;
        atomic_fetch_add_explicit(&at->references, 1, memory_order_relaxed);
        return at;
}

/* A link for them, if one is to be made now.  With a reference.  Under the pool's lock. */
static struct weir__pq_link *
make_link(weir_pq *pool, weir_nsec now)
{
        if (!pool->hub || pool->hub_link || pool->base.is_closed)
                return NULL;
        if (pool->hub_not_before > now) {
                weir__sql_look_at(&pool->base, pool->hub_not_before);
                return NULL;
        }
        struct weir__pq_link *link = weir__pq_link_new(pool);
        if (!link) {
                pool->hub_not_before = now + LISTEN_PAUSE_LAST;
                weir__sql_look_at(&pool->base, pool->hub_not_before);
                return NULL;
        }
        link->is_extra = true;
        link->holder = pool->hub;
        pool->hub_link = weir__pq_link_ref(link);
        weir__pq_add_link(pool, link, now);
        return weir__pq_link_ref(link);
}

void
weir__pq_hub_step(weir_pq *pool)
{
        struct weir_pq_listener *listener;

        do {
                pthread_mutex_lock(&pool->base.lock);
                struct weir__pq_link *link = make_link(pool, weir_now());
                listener = link ? NULL : ask_next(pool);
                weir_pq *hub = listener ? (weir_pq *)weir__sql_ref_user((struct weir__sql_pool *)pool->hub) : NULL;
                pthread_mutex_unlock(&pool->base.lock);
                if (link) {
                        weir__pq_connect(link);
                        weir__pq_link_unref(link);
                }
                if (listener && ask(hub, listener) != 0)
                        listener = NULL;
                weir__sql_unref_user((struct weir__sql_pool *)hub);
        } while (listener);
}

void
weir__pq_hub_is_ready(weir_pq *pool, struct weir__pq_link *link)
{
        pool->hub_pause = 0;
        if (!link->holder)
                return;
        link->holder->leased = weir__pq_link_ref(link);
        link->holder->base.is_lost = false;
        link->holder->is_free = true;
}

void
weir__pq_hub_is_lost(weir_pq *pool)
{
        struct weir__pq_link *link = pool->hub_link;

        for (struct weir_pq_listener *at = pool->listeners; at; at = at->next) {
                at->has_missed |= at->state == STATE_ACTIVE;
                at->state = STATE_NEW;
        }
        pool->hub_not_before = weir_now() + pool->hub_pause;
        pool->hub_pause = pool->hub_pause == 0                      ? LISTEN_PAUSE_FIRST
                          : pool->hub_pause < LISTEN_PAUSE_LAST / 2 ? 2 * pool->hub_pause
                                                                    : LISTEN_PAUSE_LAST;
        pool->hub_link = NULL;
        if (link)
                weir__pq_link_unref(link); /* never the last: its caller has one */
}

/* The hub has nobody any more.  Returns its link, which is to be closed, with a reference; NULL: it has none.  Under the pool's
 * lock. */
static struct weir__pq_link *
take_link(weir_pq *pool)
{
        struct weir__pq_link *link = pool->hub_link;

        pool->hub_link = NULL;
        return link;
}

void
weir__pq_hub_close(weir_pq *pool)
{
        pthread_mutex_lock(&pool->base.lock);
        struct weir__pq_link *link = take_link(pool);
        pthread_mutex_unlock(&pool->base.lock);
        if (link) {
                weir__pq_link_kill(link, -EPIPE, "the pool is closed");
                weir__pq_link_unref(link);
        }
}

/* -- the public face -- */

static weir_pq_listener *
make(weir_pq *pool, const char *name, weir_channel *channel)
{
        weir_pq_listener *listener = calloc(1, sizeof *listener);

        if (!listener)
                return NULL;
        atomic_init(&listener->references, 1);
        listener->name = strdup(name);
        listener->pool = (weir_pq *)weir__sql_ref_user((struct weir__sql_pool *)pool);
        listener->channel = weir_channel_ref(channel);
        if (listener->name)
                return listener;
        unref_listener(listener);
        return NULL;
}

/* 0, or an errno. */
static int
add(weir_pq *pool, weir_pq_listener *listener)
{
        weir_pq *hub = (weir_pq *)weir__sql_handle_new(&pool->base), *needless = hub;
        int fault = !hub ? ENOMEM : 0;

        pthread_mutex_lock(&pool->base.lock);
        if (pool->base.is_closed)
                fault = EPIPE;
        if (!fault && !pool->hub) {
                pool->hub = hub;
                needless = NULL;
        }
        if (!fault) {
                listener->next = pool->listeners;
                pool->listeners = listener;
        }
        pthread_mutex_unlock(&pool->base.lock);
        weir__sql_unref_user((struct weir__sql_pool *)needless);
        return fault;
}

weir_pq_listener *
weir_pq_listen(weir_pq *pool, const char *name, weir_channel *channel)
{
        int fault = !pool                                                           ? ENOMEM
                    : !name || !*name || !channel || pool->base.pool != &pool->base ? EINVAL
                    : pool->base.pid != getpid()                                    ? ECHILD
                    : strlen(name) > NAME_MAX_BYTES                                 ? ENAMETOOLONG
                                                                                    : 0;
        weir_pq_listener *listener = fault ? NULL : make(pool, name, channel);

        if (!fault)
                fault = listener ? add(pool, listener) : ENOMEM;
        if (!fault) {
                weir__pq_hub_step(pool);
                return listener;
        }
        if (listener)
                unref_listener(listener);
        errno = fault;
        return NULL;
}

/* Under the pool's lock.  Returns whether others listen to the same name. */
static bool
take_out(weir_pq_listener *listener)
{
        bool is_shared = false;

        for (struct weir_pq_listener **at = &listener->pool->listeners; *at;) {
                if (*at == listener) {
                        *at = listener->next;
                        continue;
                }
                is_shared |= strcmp((*at)->name, listener->name) == 0;
                at = &(*at)->next;
        }
        listener->is_over = true;
        return is_shared;
}

void
weir_pq_unlisten(weir_pq_listener *listener)
{
        if (!listener || listener->pool->base.pid != getpid())
                return;
        weir_pq *pool = listener->pool;
        struct weir__pq_link *link = NULL;
        pthread_mutex_lock(&pool->base.lock);
        bool is_shared = take_out(listener);
        bool is_last = !pool->listeners;
        weir_pq *hub = is_last ? pool->hub : (weir_pq *)weir__sql_ref_user((struct weir__sql_pool *)pool->hub);
        if (is_last) {
                pool->hub = NULL;
                link = take_link(pool);
        }
        pthread_mutex_unlock(&pool->base.lock);
        if (link) {
                weir__pq_link_kill(link, 0, NULL);
                weir__pq_link_unref(link);
        } else if (!is_last && !is_shared) {
                start_query(hub, "UNLISTEN", on_unlistened, listener);
                listener = NULL;
        }
        weir__sql_unref_user((struct weir__sql_pool *)hub);
        if (listener)
                unref_listener(listener);
}
