/* test/examples/shared_sessions_test.c: two processes with one file of sessions, of which one is killed.
 *
 * The processes are this program with "serve" as its first argument. */
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "test/addon/durable_url.h"
#include "test/examples/program.h"

#include "examples/shared-sessions.c"
#undef main

#define SESSIONS 60

/* -- a process -- */

/* serve URL: prints its port, and then what the program prints. */
static int
serve(const char *url)
{
        weir_http_router *router = weir_http_router_new();

        prctl(PR_SET_PDEATHSIG, SIGKILL);
        lifetime = WEIR_SEC(3600);
        store = weir_durable_open(url);
        if (!store || weir_http_router_add(router, "POST", "/login", on_login, NULL) ||
            weir_http_router_add(router, "GET", "/me", on_me, NULL) ||
            weir_http_router_add(router, "POST", "/logout", on_logout, NULL) || weir_durable_on(store, "session", ended, NULL))
                return 1;
        weir_http_server *server = weir_http_server_new(NULL, weir_http_router_handle, router);
        if (weir_http_server_start(server, "127.0.0.1:0"))
                return 1;
        printf("port %d\n", weir_http_server_port(server));
        fflush(stdout);
        for (;;)
                pause();
}

struct process {
        pid_t pid;
        FILE *output;
        int port;
};

static void
start(struct process *process, const char *url)
{
        int ends[2];

        CU_ASSERT_FATAL(pipe(ends) == 0);
        process->pid = fork();
        CU_ASSERT_FATAL(process->pid >= 0);
        if (process->pid == 0) {
                dup2(ends[1], STDOUT_FILENO);
                close(ends[0]);
                close(ends[1]);
                execl("/proc/self/exe", "shared-sessions", "serve", url, NULL);
                _exit(127);
        }
        close(ends[1]);
        process->output = fdopen(ends[0], "r");
        char line[40];
        CU_ASSERT_FATAL(fgets(line, sizeof line, process->output) && sscanf(line, "port %d", &process->port) == 1);
}

static void
end(struct process *process)
{
        kill(process->pid, SIGKILL);
        waitpid(process->pid, NULL, 0);
}

/* -- a browser -- */

static struct http_reply reply;

static int
ask(const struct process *process, const char *line, const char *cookie, const char *form)
{
        struct http_client client;
        char request[512];

        snprintf(request, sizeof request,
                 "%s HTTP/1.1\r\nHost: a\r\nCookie: session=%s\r\nContent-Length: %zu\r\n"
                 "Content-Type: application/x-www-form-urlencoded\r\n\r\n%s",
                 line, cookie, strlen(form), form);
        http_open(&client, process->port);
        CU_ASSERT(http_ask(&client, request, &reply));
        http_close(&client);
        return reply.status;
}

static void
log_in(const struct process *process, char id[ID_SIZE])
{
        CU_ASSERT_EQUAL(ask(process, "POST /login", "none", "user=anna"), 201);
        const char *cookie = http_field(&reply, "Set-Cookie");
        CU_ASSERT_FATAL(cookie && sscanf(cookie, "session=%32[0-9a-f];", id) == 1);
}

static char ids[SESSIONS][ID_SIZE];
static int ends[SESSIONS];

/* Counts the end of a session that the process has printed. */
static bool
take_end(const struct process *process)
{
        char line[200], id[ID_SIZE];

        if (!fgets(line, sizeof line, process->output) || sscanf(line, "session/%32[0-9a-f] of anna has expired", id) != 1)
                return false;
        for (int i = 0; i < SESSIONS; i++)
                ends[i] += strcmp(ids[i], id) == 0;
        return true;
}

static uint64_t left;

static void
note_left(weir_task *count, void *context)
{
        (void)context;
        left = weir_task_status(count)
                       ? UINT64_MAX
                       : weir_durable_counted(count, WEIR_DURABLE_PENDING) + weir_durable_counted(count, WEIR_DURABLE_LEASED);
}

static void
no_session_ends_twice_or_never_when_a_process_is_killed(void)
{
        char url[200];
        struct process one, other;
        int wrong = 0;

        snprintf(url, sizeof url, "%s", sqlite_url());
        start(&one, url);
        start(&other, url);
        CU_ASSERT_EQUAL(ask(&one, "GET /me", "none", ""), 401);
        CU_ASSERT_EQUAL(ask(&one, "POST /login", "none", "user="), 400);
        for (int i = 0; i < SESSIONS; i++)
                log_in(i % 2 ? &one : &other, ids[i]);
        for (int i = 0; i < SESSIONS; i++) {
                CU_ASSERT_EQUAL(ask(i % 2 ? &other : &one, "GET /me", ids[i], ""), 200); /* where it has not begun */
                HTTP_ASSERT_TEXT(reply.body, "anna\n");
        }
        CU_ASSERT_EQUAL(ask(&other, "POST /logout", ids[0], ""), 200);
        HTTP_ASSERT_TEXT(reply.body, "good bye\n");
        CU_ASSERT_EQUAL(ask(&one, "POST /logout", ids[0], ""), 200);
        HTTP_ASSERT_TEXT(reply.body, "there is no session\n");
        CU_ASSERT_EQUAL(ask(&one, "GET /me", ids[0], ""), 401);

        end(&one);
        CU_ASSERT_EQUAL(ask(&other, "GET /me", ids[1], ""), 200); /* it had begun there */
        store = weir_durable_open(url);
        for (int i = 1; i < SESSIONS; i++) { /* an hour has passed */
                char name[NAME_SIZE];

                session_name(ids[i], name);
                CU_ASSERT(weir_task_run(weir_durable_reset_new(store, name, 0, NULL, NULL)) == 0);
        }
        for (int i = 1; i < SESSIONS; i++)
                CU_ASSERT(take_end(&other));
        WEIR_TEST_EVENTUALLY((weir_task_run(weir_durable_count_new(store, "", note_left, NULL)), left == 0));
        end(&other);
        CU_ASSERT(!take_end(&other) && !take_end(&one));
        for (int i = 0; i < SESSIONS; i++)
                wrong += ends[i] != (i > 0);
        CU_ASSERT(wrong == 0);
        fclose(one.output);
        fclose(other.output);
        weir_durable_close(store);
        weir_shutdown();
}

int
main(int argc, char *argv[])
{
        static const struct weir_test tests[] = {WEIR_TEST(no_session_ends_twice_or_never_when_a_process_is_killed)};

        if (argc == 3 && strcmp(argv[1], "serve") == 0)
                return serve(argv[2]);
        return weir_test_main("example: shared sessions", tests, sizeof tests / sizeof *tests);
}
