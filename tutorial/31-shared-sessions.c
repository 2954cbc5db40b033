/* 31-shared-sessions.c: one store of sessions for several processes.  Any of them may be killed.
 *
 *     31-shared-sessions [address] [seconds]      default 127.0.0.1:8888, and fifteen minutes
 *
 *     POST /login   user=anna          begins a session: 201, and a cookie
 *     GET  /me                         whose session it is, or 401
 *     POST /logout                     ends it
 *
 * All run in the same directory.  The sessions are durable timers in timers.db there, and ended.db has those that have ended.
 *
 * Try it:  docs/shared-sessions.md, which builds it step by step. */
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include <weir/durable.h>
#include <weir/sqlite.h>
#include <weir/weir.h>

#define NAME_SIZE 80

static weir_durable *store;
static weir_sqlite *ends;
static weir_nsec lifetime = WEIR_SEC(15 * 60);

/* A stranger chooses the id.  The prefix keeps it to timers that are sessions. */
static const char *name_of(const char *id, char name[NAME_SIZE])
{
        snprintf(name, NAME_SIZE, "session/%s", id ? id : "none");
        return name;
}

/* A session ends.  If a process is killed here, this comes again, and the row is there once. */
static void on_end(weir_task *delivery, void *context)
{
        static const char sql[] = "INSERT INTO ended VALUES (?, ?) ON CONFLICT DO NOTHING";
        weir_task *insert = weir_sqlite_exec_new(ends, sql, NULL, context);
        size_t size;
        const char *user = weir_durable_payload(delivery, &size);

        weir_sqlite_bind_text(insert, 1, weir_durable_name(delivery), SIZE_MAX);
        weir_sqlite_bind_text(insert, 2, user, size);
        weir_series_stop_on_failure(weir_series_of(delivery)); /* then it is delivered again */
        weir_series_push(weir_series_of(delivery), insert);
}

static void on_begun(weir_task *set, void *exchange)
{
        int failed = weir_task_status(set);

        weir_http_reply_text(exchange, failed ? 503 : 201, failed ? "try later\n" : "welcome\n");
}

static void on_login(weir_task *exchange, void *context)
{
        const char *user = weir_http_form_value(exchange, "user"); /* to check a password is left to you */
        struct weir_http_cookie cookie = WEIR_HTTP_COOKIE_DEFAULT;
        char id[33], name[NAME_SIZE];
        uint64_t random[2];

        (void)context;
        if (!user || !*user || getrandom(random, sizeof random, 0) != sizeof random) {
                weir_http_reply_text(exchange, 400, "wanted: user=NAME\n");
                return;
        }
        snprintf(id, sizeof id, "%016" PRIx64 "%016" PRIx64, random[0], random[1]);
        cookie.name = "session";
        cookie.value = id;
        weir_http_reply_cookie(exchange, &cookie);
        weir_series_push(weir_series_of(exchange), weir_durable_set_after_new(store, name_of(id, name), lifetime, "session", user,
                                                                              strlen(user), on_begun, exchange));
}

static void on_used(weir_task *reset, void *exchange)
{
        const struct weir_durable_info *session = weir_durable_info(reset, 0);
        int failed = weir_task_status(reset);

        if (session)
                weir_http_reply_printf(exchange, "%s\n", (const char *)session->payload);
        else
                weir_http_reply_text(exchange, failed == -ENOENT ? 401 : 503, "please log in\n");
}

static void on_me(weir_task *exchange, void *context)
{
        const char *id = weir_http_cookie(exchange, "session");
        char name[NAME_SIZE];

        (void)context;
        weir_series_push(weir_series_of(exchange), weir_durable_reset_new(store, name_of(id, name), lifetime, on_used, exchange));
}

static void on_cancelled(weir_task *cancel, void *exchange)
{
        const char *text = weir_durable_cancelled(cancel) ? "good bye\n" : "there is no session\n";

        weir_http_reply_text(exchange, weir_task_status(cancel) ? 503 : 200, text);
}

static void on_logout(weir_task *exchange, void *context)
{
        const char *id = weir_http_cookie(exchange, "session");
        char name[NAME_SIZE];

        (void)context;
        weir_series_push(weir_series_of(exchange), weir_durable_cancel_new(store, name_of(id, name), on_cancelled, exchange));
}

static int make_table(weir_sqlite_connection *connection, void *context)
{
        (void)context;
        return weir_sqlite_run(connection, "CREATE TABLE IF NOT EXISTS ended(session TEXT PRIMARY KEY, user TEXT)");
}

int main(int argc, char *argv[])
{
        struct weir_durable_config config = WEIR_DURABLE_CONFIG_DEFAULT;
        struct weir_sqlite_config of_ends = WEIR_SQLITE_CONFIG_DEFAULT;
        weir_http_router *router = weir_http_router_new();

        lifetime = argc > 2 ? WEIR_SEC(atof(argv[2])) : lifetime;
        of_ends.on_writer = make_table;
        ends = weir_sqlite_new("ended.db", &of_ends);
        config.lease = WEIR_SEC(5); /* behind it, another process takes over */
        store = weir_durable_open_with(&config, "sqlite:timers.db");
        weir_http_router_add(router, "POST", "/login", on_login, NULL);
        weir_http_router_add(router, "GET", "/me", on_me, NULL);
        weir_http_router_add(router, "POST", "/logout", on_logout, NULL);
        int failed = weir_durable_on(store, "session", on_end, NULL);
        if (!failed)
                failed = weir_http_serve(argc > 1 ? argv[1] : "127.0.0.1:8888", weir_http_router_handle, router);
        if (failed < 0)
                fprintf(stderr, "31-shared-sessions: %s\n", weir_strerror(failed));
        weir_durable_close(store); /* the sessions stay: another process has them */
        weir_shutdown();
        weir_sqlite_unref(ends);
        weir_http_router_free(router);
        return failed != 0;
}
