/* database/mariadb/serve.c: the function on the executor that has a link.
 *
 *     next step --> CONNECT, CLEAN, KILL or RUN --> next step --> ... --> REST: the link waits, or CLOSE: it is freed
 *
 * The function is marked as one that blocks, so another thread runs the other functions of the executor in its place.
 *
 * Threads: the executor's.
 * Locks:   the pool's, between two steps. */
#include "database/mariadb/mariadb.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weir/go.h>
#include <weir/runtime.h>

#define KILL_LIMIT WEIR_SEC(1) /* of an attempt to connect for the sake of kills alone */

#define DEADLOCK     1213
#define LOCK_TIMEOUT 1205

enum step { CONNECT, CLEAN, KILL, RUN, REST, CLOSE };

/* -- choosing; under the pool's lock -- */

static void
set_deadline(struct weir__mariadb_link *link, weir_nsec now, weir_nsec limit)
{
        link->deadline = weir__sql_later(now, limit);
        weir__sql_look_at(&link->pool->base, link->deadline);
}

static enum step
leave(struct weir__mariadb_link *link, struct weir__mariadb_after *after)
{
        bool has_worked = !link->is_connecting;

        weir__mariadb_link_remove(link);
        if (has_worked)
                weir__sql_was_used_up(&link->pool->base);
        weir__mariadb_make_links(link->pool, after);
        return CLOSE;
}

static enum step
begin_attempt(struct weir__mariadb_link *link, weir_nsec now, struct weir__mariadb_after *after)
{
        weir_mariadb *pool = link->pool;
        weir_nsec limit = pool->config.connect_limit;

        if (!pool->base.waiting.first && limit > KILL_LIMIT)
                limit = KILL_LIMIT;
        if ((!pool->base.waiting.first && !pool->kills) || pool->base.not_before > now)
                return leave(link, after);
        link->made = now;
        link->is_cut = false;
        link->is_unclean = false;
        link->idle_since = 0;
        pool->base.connecting += !link->is_connecting; /* else it is new */
        link->is_connecting = true;
        set_deadline(link, now, limit);
        link->until = link->deadline;
        return CONNECT;
}

/* A transaction gets its connection. */
static void
grant(struct weir__mariadb_link *link, struct weir__mariadb_after *after)
{
        struct weir__mariadb_query *lease = link->query;

        link->holder = (weir_mariadb *)lease->base.holder;
        link->holder->leased = link;
        lease->outcome.is_complete = true;
        weir__mariadb_finish(link, after);
}

static bool
is_used_up(const struct weir__mariadb_link *link, weir_nsec now)
{
        const weir_mariadb *pool = link->pool;
        bool is_needless = !pool->base.waiting.first &&
                           (pool->base.is_closed ||
                            (link->idle_since && weir__sql_later(link->idle_since, pool->config.idle_limit) <= now));

        return is_needless || weir__sql_later(link->made, pool->config.age_limit) <= now;
}

static enum step
rest(struct weir__mariadb_link *link, weir_nsec now)
{
        weir_mariadb *pool = link->pool;

        if (link->holder) {
                link->state = WEIR__MARIADB_HELD;
                return REST;
        }
        link->state = WEIR__MARIADB_IDLE;
        link->idle_since = link->idle_since ? link->idle_since : now;
        link->next_idle = pool->idle;
        pool->idle = link;
        pool->base.idle_count++;
        weir__sql_look_at(&pool->base, weir__sql_later(link->idle_since, pool->config.idle_limit));
        return REST;
}

static enum step
next_step(struct weir__mariadb_link *link, struct weir__mariadb_after *after)
{
        weir_mariadb *pool = link->pool;
        weir_nsec now = weir_now();

        pool->starting -= link->is_starting;
        link->is_starting = false;
        link->deadline = WEIR_FOREVER;
        if (link->query)
                return RUN; /* it goes on behind a pause */
        if (!link->connection)
                return begin_attempt(link, now, after);
        if (link->is_unclean || (pool->kills && !link->holder)) {
                set_deadline(link, now, pool->config.clean_limit);
                weir__mariadb_make_links(pool, after); /* a query that has counted on this link waits no longer for it */
                return link->is_unclean ? CLEAN : KILL;
        }
        for (;;) {
                struct weir__sql_pool *where = link->holder ? &link->holder->base : &pool->base;
                struct weir__mariadb_query *query = weir__mariadb_of(where->waiting.first);

                if (!link->holder && is_used_up(link, now))
                        return leave(link, after);
                if (!query)
                        return rest(link, now);
                weir__mariadb_take(link, query, now);
                if (query->kind != WEIR__MARIADB_LEASE)
                        return RUN;
                grant(link, after);
        }
}

/* -- steps -- */

static void
was_refused(struct weir__mariadb_link *link, const struct weir__mariadb_outcome *outcome, struct weir__mariadb_after *after)
{
        weir_mariadb *pool = link->pool;

        weir__sql_was_refused(&pool->base, link->made);
        weir__mariadb_link_remove(link);
        bool is_over = pool->base.link_count == pool->base.connecting;
        for (struct weir__sql_query *query = is_over ? pool->base.waiting.first : NULL; query && query->began <= link->made;
             query = query->next) { /* those that are about to be ended */
                struct weir__mariadb_outcome *its = &weir__mariadb_of(query)->outcome;

                its->code = outcome->code;
                memcpy(its->sqlstate, outcome->sqlstate, sizeof outcome->sqlstate);
        }
        if (is_over)
                weir__mariadb_end_waiting(pool, &pool->base.waiting, link->made, outcome->status, outcome->problem, after);
        weir__mariadb_make_links(pool, after);
}

/* Returns whether there is a connection; else the link has left its pool. */
static bool
connect_link(struct weir__mariadb_link *link)
{
        weir_mariadb *pool = link->pool;
        struct weir__mariadb_outcome outcome = {.status = 0};
        struct weir__mariadb_after after = {0};
        int status = weir__mariadb_connect(link, &outcome);

        pthread_mutex_lock(&pool->base.lock);
        if (status) {
                was_refused(link, &outcome, &after);
        } else {
                pool->base.connecting--;
                link->is_connecting = false;
                weir__sql_was_connected(&pool->base);
        }
        weir__sql_unlock(&pool->base);
        weir__mariadb_after(&after);
        free(outcome.problem);
        return status == 0;
}

/* The connection is of no use any more. */
static void
drop_connection(struct weir__mariadb_link *link, const char *problem)
{
        weir_mariadb *pool = link->pool;
        struct weir__mariadb_after after = {0};

        pthread_mutex_lock(&pool->base.lock);
        weir__mariadb_handle_lost(link, &after);
        link->is_unclean = false;
        link->is_connecting = true;
        pool->base.connecting++;
        pool->base.lost++;
        weir__sql_was_used_up(&pool->base);
        if (problem && !link->is_cut)
                weir__sql_after_say(&after.base, "WARNING: pool %s: a connection broke: %s", pool->base.name, problem);
        weir__sql_unlock(&pool->base);
        weir__mariadb_after(&after);
        link->is_broken = true;
        weir__mariadb_disconnect(link);
}

static void
clean(struct weir__mariadb_link *link)
{
        bool has_failed = (link->connection->server_status & SERVER_STATUS_IN_TRANS) && mysql_rollback(link->connection) != 0;

        pthread_mutex_lock(&link->pool->base.lock);
        link->is_unclean = false;
        has_failed |= link->is_cut;
        pthread_mutex_unlock(&link->pool->base.lock);
        if (has_failed)
                drop_connection(link, mysql_error(link->connection));
}

/* Another server than before may have started, and given the number to somebody else. */
static bool
kill_one(struct weir__mariadb_link *link, const struct weir__mariadb_kill *kill, weir_nsec uptime)
{
        char sql[64];

        if (uptime < weir_now() - kill->since)
                return false;
        snprintf(sql, sizeof sql, "KILL CONNECTION %lu", kill->thread);
        return mysql_query(link->connection, sql) == 0;
}

static void
kill_all(struct weir__mariadb_link *link)
{
        weir_mariadb *pool = link->pool;
        unsigned killed = 0;

        pthread_mutex_lock(&pool->base.lock);
        struct weir__mariadb_kill *kills = pool->kills;
        pool->kills = NULL;
        pthread_mutex_unlock(&pool->base.lock);
        weir_nsec uptime = (weir_nsec)weir__mariadb_ask(link, "SHOW GLOBAL STATUS LIKE 'Uptime'", 1) * WEIR_SEC(1);
        while (kills) {
                struct weir__mariadb_kill *kill = kills;

                kills = kill->next;
                killed += kill_one(link, kill, uptime);
                free(kill);
        }
        pthread_mutex_lock(&pool->base.lock);
        pool->killed += killed;
        bool is_of_no_use = link->is_cut || weir__mariadb_breaks(mysql_errno(link->connection));
        pthread_mutex_unlock(&pool->base.lock);
        if (is_of_no_use)
                drop_connection(link, mysql_error(link->connection));
}

/* Best effort.  Under the pool's lock. */
static void
add_kill(struct weir__mariadb_link *link)
{
        weir_mariadb *pool = link->pool;
        struct weir__mariadb_kill *kill = malloc(sizeof *kill);

        if (!kill)
                return;
        *kill = (struct weir__mariadb_kill){.next = pool->kills, .thread = link->thread, .since = link->since};
        pool->kills = kill;
}

/* Whether the server has rolled back the whole transaction behind the failure of a statement.  The answer to a failure does not
 * say so. */
static bool
was_rolled_back(struct weir__mariadb_link *link)
{
        unsigned code = link->query->outcome.code;

        return code == DEADLOCK ||
               (code == LOCK_TIMEOUT && weir__mariadb_ask(link, "SELECT @@innodb_rollback_on_timeout", 0) == 1);
}

/* The query of the link is over.  Returns whether the connection can be used further. */
static bool
end_query(struct weir__mariadb_link *link, bool is_rolled_back, struct weir__mariadb_after *after)
{
        weir_mariadb *pool = link->pool, *holder = link->holder;
        const struct weir__mariadb_outcome *outcome = &link->query->outcome;

        link->is_broken |= link->is_cut;
        if (link->is_broken) {
                if (!outcome->is_complete && (link->is_cut || outcome->code == 0))
                        add_kill(link); /* else the server itself has ended it */
                if (!link->is_cut && outcome->code)
                        weir__sql_after_say(&after->base, "WARNING: pool %s: a connection broke: %s", pool->base.name,
                                            outcome->problem ? outcome->problem : "");
                pool->base.lost++;
        }
        if (holder && is_rolled_back)
                holder->was_rolled_back = true;
        if (!holder && !link->is_broken && (link->connection->server_status & SERVER_STATUS_IN_TRANS))
                link->is_unclean = true;
        bool is_good = !link->is_broken;
        if (is_good) { /* it looks for a query soon: one that comes meanwhile needs no other link */
                link->is_starting = !holder;
                pool->starting += !holder;
        } else {
                link->is_connecting = true;
                pool->base.connecting++;
        }
        weir__mariadb_finish(link, after);
        if (!is_good)
                weir__mariadb_handle_lost(link, after);
        return is_good;
}

/* Returns whether the function goes on with the link; else it is not ours any more. */
static bool
run_query(struct weir__mariadb_link *link)
{
        weir_mariadb *pool = link->pool;
        struct weir__mariadb_after after = {0};
        weir_mariadb_row *row = NULL;

        if (!weir__mariadb_execute(link, &row)) {
                weir_channel *rows = weir_channel_ref(link->query->rows);

                pthread_mutex_lock(&pool->base.lock);
                link->state = WEIR__MARIADB_PAUSED;
                weir__sql_unlock(&pool->base);
                weir__mariadb_stream_pause(link, rows, row);
                weir_channel_unref(rows);
                return false;
        }
        bool is_rolled_back = was_rolled_back(link);
        pthread_mutex_lock(&pool->base.lock);
        bool is_good = end_query(link, is_rolled_back, &after);
        weir__sql_unlock(&pool->base);
        weir__mariadb_after(&after);
        if (!is_good)
                weir__mariadb_disconnect(link);
        return true;
}

/* Returns whether there is a further step. */
static bool
take_step(struct weir__mariadb_link *link)
{
        weir_mariadb *pool = link->pool;
        struct weir__mariadb_after after = {0};

        pthread_mutex_lock(&pool->base.lock);
        enum step step = next_step(link, &after);
        weir__sql_unlock(&pool->base);
        weir__mariadb_after(&after);
        switch (step) {
        case CONNECT:
                if (connect_link(link))
                        return true;
                weir__mariadb_link_free(link);
                return false;
        case CLEAN: clean(link); return true;
        case KILL: kill_all(link); return true;
        case RUN: return run_query(link);
        case CLOSE: weir__mariadb_link_free(link); return false;
        default: return false;
        }
}

/* -- the function -- */

static void
run(void *context)
{
        struct weir__mariadb_link *link = context;

        weir_blocking_begin();
        mysql_thread_init();
        if (link->connection && !link->is_begun && weir__mariadb_is_stale(link))
                drop_connection(link, NULL);
        while (take_step(link))
                continue;
        mysql_thread_end();
        weir_blocking_end();
}

/* No function can be had for the link. */
static void
abandon(struct weir__mariadb_link *link, int status)
{
        weir_mariadb *pool = link->pool;
        struct weir__mariadb_after after = {0};

        pthread_mutex_lock(&pool->base.lock);
        pool->starting -= link->is_starting;
        if (link->query) {
                link->query->outcome.status = status;
                weir__mariadb_finish(link, &after);
        }
        weir__mariadb_handle_lost(link, &after);
        weir__mariadb_link_remove(link);
        link->is_broken |= link->is_begun;
        if (pool->base.link_count == 0)
                weir__mariadb_end_waiting(pool, &pool->base.waiting, WEIR_FOREVER, status, NULL, &after);
        weir__sql_unlock(&pool->base);
        weir__mariadb_after(&after);
        weir__mariadb_link_free(link);
}

static void
over(weir_task *task, void *context)
{
        if (weir_task_status(task) != 0) /* else it was called */
                abandon(context, weir_task_status(task));
}

void
weir__mariadb_serve(struct weir__mariadb_link *link)
{
        int failed = weir_task_start(weir_go_new(NULL, run, over, link));

        if (failed)
                abandon(link, failed);
}
