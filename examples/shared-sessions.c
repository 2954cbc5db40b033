/* shared-sessions.c: the session store on several processes.  Any of them may be killed.
 *
 *     shared-sessions URL [address] [seconds]      default 127.0.0.1:8888, and fifteen minutes
 *     shared-sessions sqlite:sessions.db 127.0.0.1:8888 &
 *     shared-sessions sqlite:sessions.db 127.0.0.1:8889 &
 *
 *     POST /login   user=anna          begins a session: 201, and a cookie
 *     GET  /me                         whose session it is, or 401
 *     POST /logout                     ends it
 *
 * Each session is a durable timer, and its payload is the user.  Use resets it and reads it in one step, a logout cancels it.  When
 * nobody has used it for the time, one of the processes ends it.  So a session may begin at one process, be used at the next one,
 * and end at a third. */
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include <weir/durable.h>
#include <weir/weir.h>

#define ID_SIZE   33 /* 128 random bits in hex, and a NUL */
#define NAME_SIZE (sizeof "session/" - 1 + 64)
#define USER_SIZE 64

static weir_durable *store;
static weir_nsec lifetime = WEIR_SEC(15 * 60);

/* A session ends: at least once, so an end that writes to a database would write the token, too. */
static void ended(weir_task *delivery, void *context)
{
        (void)context;
        printf("%s of %s has expired\n", weir_durable_name(delivery), (const char *)weir_durable_payload(delivery, NULL));
        fflush(stdout);
}

/* A stranger chooses the id.  The prefix keeps it to timers that are sessions. */
static void session_name(const char *id, char name[NAME_SIZE])
{
        snprintf(name, NAME_SIZE, "session/%s", id);
}

/* A stranger chooses the name, and it is printed.  An end of line in it would forge a line. */
static bool is_user(const char *user)
{
        size_t size = strlen(user);

        for (const char *byte = user; *byte; byte++)
                if ((unsigned char)*byte < ' ' || *byte == 127)
                        return false;
        return size > 0 && size < USER_SIZE;
}

/* The engine does not answer. */
static void reply_failure(weir_task *exchange, const weir_task *task)
{
        fprintf(stderr, "shared-sessions: %s\n", weir_durable_problem(task));
        weir_http_reply_text(exchange, 503, "the sessions cannot be reached now\n");
}

static void on_begun(weir_task *set, void *exchange)
{
        if (weir_task_status(set))
                reply_failure(exchange, set);
        else
                weir_http_reply_text(exchange, 201, "welcome\n");
}

static void on_login(weir_task *exchange, void *context)
{
        const char *user = weir_http_form_value(exchange, "user"); /* to check a password is left to you */
        struct weir_http_cookie cookie = WEIR_HTTP_COOKIE_DEFAULT;
        char id[ID_SIZE], name[NAME_SIZE];
        uint64_t random[2];

        (void)context;
        if (!user || !is_user(user)) {
                weir_http_reply_text(exchange, 400, "wanted: user=NAME\n");
                return;
        }
        if (getrandom(random, sizeof random, 0) != sizeof random) {
                weir_http_reply_text(exchange, 503, "no session can be begun now\n");
                return;
        }
        snprintf(id, sizeof id, "%016" PRIx64 "%016" PRIx64, random[0], random[1]);
        session_name(id, name);
        cookie.name = "session";
        cookie.value = id;
        cookie.http_only = 1;
        weir_http_reply_cookie(exchange, &cookie);
        weir_series_push(weir_series_of(exchange),
                         weir_durable_set_after_new(store, name, lifetime, "session", user, strlen(user), on_begun, exchange));
}

static void on_used(weir_task *reset, void *exchange)
{
        const struct weir_durable_info *session = weir_durable_info(reset, 0);
        char line[USER_SIZE + 1];

        if (weir_task_status(reset) == -ENOENT) {
                weir_http_reply_text(exchange, 401, "please log in\n");
        } else if (!session) {
                reply_failure(exchange, reset);
        } else {
                snprintf(line, sizeof line, "%s\n", (const char *)session->payload);
                weir_http_reply_text(exchange, 200, line);
        }
}

static void on_me(weir_task *exchange, void *context)
{
        const char *id = weir_http_cookie(exchange, "session");
        char name[NAME_SIZE];

        (void)context;
        session_name(id ? id : "", name);
        weir_series_push(weir_series_of(exchange), weir_durable_reset_new(store, name, lifetime, on_used, exchange));
}

static void on_cancelled(weir_task *cancel, void *exchange)
{
        if (weir_task_status(cancel))
                reply_failure(exchange, cancel);
        else
                weir_http_reply_text(exchange, 200, weir_durable_cancelled(cancel) ? "good bye\n" : "there is no session\n");
}

static void on_logout(weir_task *exchange, void *context)
{
        const char *id = weir_http_cookie(exchange, "session");
        char name[NAME_SIZE];

        (void)context;
        session_name(id ? id : "", name);
        weir_series_push(weir_series_of(exchange), weir_durable_cancel_new(store, name, on_cancelled, exchange));
}

int main(int argc, char *argv[])
{
        const char *address = argc > 2 ? argv[2] : "127.0.0.1:8888";
        weir_http_router *router = weir_http_router_new();

        lifetime = argc > 3 ? WEIR_SEC(atof(argv[3])) : lifetime;
        store = argc > 1 ? weir_durable_open(argv[1]) : NULL;
        if (!store) {
                fprintf(stderr, "usage: shared-sessions URL [address] [seconds]\n");
                return 2;
        }
        int result = weir_http_router_add(router, "POST", "/login", on_login, NULL);
        if (!result)
                result = weir_http_router_add(router, "GET", "/me", on_me, NULL);
        if (!result)
                result = weir_http_router_add(router, "POST", "/logout", on_logout, NULL);
        if (!result)
                result = weir_durable_on(store, "session", ended, NULL);
        if (!result)
                result = weir_http_serve(address, weir_http_router_handle, router);
        if (result < 0)
                fprintf(stderr, "shared-sessions: %s\n", weir_strerror(result));
        weir_durable_close(store); /* the sessions stay: another process has them */
        weir_shutdown();
        weir_http_router_free(router);
        return result != 0;
}
