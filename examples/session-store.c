/* session-store.c: sessions that end after fifteen minutes without use, or at a logout.
 *
 *     session-store [address]          default 127.0.0.1:8888
 *
 *     POST /login   user=anna          begins a session: 201, and a cookie
 *     GET  /me                         whose session it is, or 401
 *     POST /logout                     ends it
 *
 * Each session is a timer with a name.  Use resets it, a logout cancels it, and what it knows is freed with it.
 * docs/quick-start.md builds this program step by step. */
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include <weir/weir.h>

#define LIFETIME  WEIR_SEC(15 * 60)
#define ID_SIZE   33 /* 128 random bits in hex, and a NUL */
#define NAME_SIZE (sizeof "session/" - 1 + ID_SIZE)
#define USER_SIZE 64

/* -- the store -- */

struct session {
        char user[USER_SIZE];
};

static void ended(weir_task *timer, void *context)
{
        const struct session *session = context;
        int status = weir_task_status(timer);

        printf("%s: %s\n", session->user, status == 0 ? "session expired" : weir_strerror(status));
}

/* A stranger chooses the id.  The prefix keeps it to timers that are sessions. */
static void session_name(const char *id, char name[NAME_SIZE])
{
        snprintf(name, NAME_SIZE, "session/%s", id);
}

static int session_open(const char *user, char id[ID_SIZE])
{
        struct session *session = malloc(sizeof *session);
        char name[NAME_SIZE];
        uint64_t random[2];

        if (!session || getrandom(random, sizeof random, 0) != sizeof random) {
                free(session);
                return -ENOMEM;
        }
        snprintf(session->user, sizeof session->user, "%s", user);
        snprintf(id, ID_SIZE, "%016" PRIx64 "%016" PRIx64, random[0], random[1]);

        session_name(id, name);
        weir_task *timer = weir_timer_new_named(name, LIFETIME, ended, NULL);
        weir_task_set_context(timer, session, free);
        return weir_task_start(timer); /* with NULL: -ENOMEM */
}

static void copy_user(void *context, void *user)
{
        const struct session *session = context;

        snprintf(user, USER_SIZE, "%s", session->user);
}

/* Whose session it is.  Its fifteen minutes begin anew. */
static bool session_use(const char *id, char user[USER_SIZE])
{
        char name[NAME_SIZE];

        session_name(id, name);
        return weir_timer_with(name, copy_user, user) == 1 && weir_timer_reset(name, LIFETIME) == 1;
}

static bool session_close(const char *id)
{
        char name[NAME_SIZE];

        session_name(id, name);
        return weir_timer_cancel(name, 1) == 1;
}

/* -- over HTTP -- */

/* A stranger chooses the name, and it is printed.  An end of line in it would forge a line. */
static bool is_user(const char *user)
{
        size_t size = strlen(user);

        for (const char *byte = user; *byte; byte++)
                if ((unsigned char)*byte < ' ' || *byte == 127)
                        return false;
        return size > 0 && size < USER_SIZE;
}

static void on_login(weir_task *exchange, void *context)
{
        const char *user = weir_http_form_value(exchange, "user"); /* to check a password is left to you */
        struct weir_http_cookie cookie = WEIR_HTTP_COOKIE_DEFAULT;
        char id[ID_SIZE];

        (void)context;
        if (!user || !is_user(user)) {
                weir_http_reply_text(exchange, 400, "wanted: user=NAME\n");
                return;
        }
        if (session_open(user, id) != 0) {
                weir_http_reply_text(exchange, 503, "no session can be begun now\n");
                return;
        }
        cookie.name = "session";
        cookie.value = id;
        cookie.http_only = 1;
        weir_http_reply_cookie(exchange, &cookie);
        weir_http_reply_text(exchange, 201, "welcome\n");
}

static void on_me(weir_task *exchange, void *context)
{
        const char *id = weir_http_cookie(exchange, "session");
        char user[USER_SIZE], line[USER_SIZE + 1];

        (void)context;
        if (id && session_use(id, user)) {
                snprintf(line, sizeof line, "%s\n", user);
                weir_http_reply_text(exchange, 200, line);
        } else {
                weir_http_reply_text(exchange, 401, "please log in\n");
        }
}

static void on_logout(weir_task *exchange, void *context)
{
        const char *id = weir_http_cookie(exchange, "session");

        (void)context;
        weir_http_reply_text(exchange, 200, id && session_close(id) ? "good bye\n" : "there is no session\n");
}

int main(int argc, char *argv[])
{
        const char *address = argc > 1 ? argv[1] : "127.0.0.1:8888";
        weir_http_router *router = weir_http_router_new();
        int result = weir_http_router_add(router, "POST", "/login", on_login, NULL);

        if (!result)
                result = weir_http_router_add(router, "GET", "/me", on_me, NULL);
        if (!result)
                result = weir_http_router_add(router, "POST", "/logout", on_logout, NULL);
        if (!result)
                result = weir_http_serve(address, weir_http_router_handle, router);
        if (result < 0)
                fprintf(stderr, "session-store: %s\n", weir_strerror(result));
        weir_shutdown(); /* ends the sessions that are left */
        weir_http_router_free(router);
        return result != 0;
}
