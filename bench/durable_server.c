/* bench/durable_server.c: a server of PostgreSQL for bench/durable.c. */
#include "durable_server.h"

#ifdef WEIR_HAS_PQ
#include <glob.h>
#include <libpq-fe.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench.h"

static char directory[200], conninfo[300];
static pid_t server;

static bool
find_programs(char programs[512])
{
        glob_t found = {0};
        bool is_there = glob("/usr/lib/postgresql/*/bin/initdb", 0, NULL, &found) == 0;

        if (is_there) {
                snprintf(programs, 512, "%s", found.gl_pathv[found.gl_pathc - 1]);
                *strrchr(programs, '/') = '\0';
        }
        globfree(&found);
        return is_there;
}

/* The server does not run as root. */
static void
become_user(const struct passwd *user)
{
        if (geteuid() == 0 && (!user || setgid(user->pw_gid) != 0 || setuid(user->pw_uid) != 0))
                _exit(127);
}

bool
bench_server_start(void)
{
        const char *parent = getenv("TMPDIR");
        const struct passwd *user = getpwnam("postgres");
        char programs[512], command[2048];
        pid_t self = getpid();

        snprintf(directory, sizeof directory, "%s/weir-bench-durable-XXXXXX", parent ? parent : "/tmp");
        if (!find_programs(programs) || !mkdtemp(directory) ||
            (geteuid() == 0 && user && chown(directory, user->pw_uid, user->pw_gid) != 0))
                return false;
        server = fork();
        if (server == 0) {
                become_user(user);
                bench_follow_parent(self);
                snprintf(command, sizeof command,
                         "cd %s && %s/initdb -D data -A trust -U weir --locale=C >log 2>&1 && exec %s/postgres -D data -k %s "
                         "-c listen_addresses= >>log 2>&1",
                         directory, programs, programs, directory);
                execl("/bin/sh", "sh", "-c", command, (char *)NULL);
                _exit(127);
        }
        snprintf(conninfo, sizeof conninfo, "postgresql://weir@/postgres?host=%s", directory);
        for (unsigned i = 0; i < 600 && PQping(conninfo) != PQPING_OK; i++)
                bench_sleep(BENCH_NSEC_PER_SEC / 10);
        return PQping(conninfo) == PQPING_OK;
}

const char *
bench_server_url(void)
{
        return conninfo;
}

void
bench_server_clear(void)
{
        PGconn *connection = PQconnectdb(conninfo);

        PQclear(PQexec(connection, "SET client_min_messages = error; DROP SCHEMA public CASCADE; CREATE SCHEMA public"));
        PQfinish(connection);
}

void
bench_server_stop(void)
{
        char command[300];

        if (server <= 0)
                return;
        kill(server, SIGINT);
        waitpid(server, NULL, 0);
        snprintf(command, sizeof command, "rm -rf %s", directory);
        if (system(command) != 0)
                perror(directory);
}
#else
bool
bench_server_start(void)
{
        return false;
}

void
bench_server_stop(void)
{
}
#endif
