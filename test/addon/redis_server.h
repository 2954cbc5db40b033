/* test/addon/redis_server.h: a redis-server of the test, on a free port, with its data in a directory of its own.  It ends with
 * the test, also when that is killed. */
#ifndef WEIR_TEST_REDIS_SERVER_H
#define WEIR_TEST_REDIS_SERVER_H

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "test/support.h"

struct redis_server {
        pid_t pid;
        int port, tls_port;           /* 0: none */
        char directory[64], path[96]; /* of a Unix socket */
        char more[512];               /* lines of its configuration */
};

static inline bool
redis_is_installed(void)
{
        return access("/usr/bin/redis-server", X_OK) == 0;
}

/* A port that nobody has now.  The system gives none below 32768 to others that ask for any.  Another test may choose the same:
 * redis_start tries again then.  The bus of a cluster has the port and 10000. */
static inline int
redis_free_port(void)
{
        static unsigned next;

        for (next = next ? next : (unsigned)getpid() * 7919;; next++) {
                struct sockaddr_in name = {.sin_family = AF_INET,
                                           .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                                           .sin_port = htons((uint16_t)(12000 + next % 20000))};
                int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
                bool is_free = bind(fd, (struct sockaddr *)&name, sizeof name) == 0;

                close(fd);
                if (is_free)
                        return 12000 + (int)(next++ % 20000);
        }
}

static inline int
redis_dial(int port)
{
        struct sockaddr_in name = {
                .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = htons((uint16_t)port)};
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

        if (connect(fd, (struct sockaddr *)&name, sizeof name) == 0)
                return fd;
        close(fd);
        return -1;
}

/* Sends a command of words and reads a reply of one line, or of one text.  "" : there is none. */
static inline const char *
redis_say(int port, const char *line)
{
        static char reply[65536];
        int fd = redis_dial(port);
        size_t used = 0;

        reply[0] = '\0';
        if (fd < 0)
                return reply;
        dprintf(fd, "%s\r\n", line);
        for (ssize_t got; used < sizeof reply - 1 && (got = read(fd, reply + used, sizeof reply - 1 - used)) > 0;) {
                used += (size_t)got;
                reply[used] = '\0';
                const char *end = strstr(reply, "\r\n");
                if (end && (*reply != '$' || (size_t)(end + 2 - reply) + (size_t)atoi(reply + 1) + 2 <= used))
                        break;
        }
        close(fd);
        return reply;
}

static inline void
redis_begin(struct redis_server *redis, const char *option)
{
        char config[128];

        snprintf(config, sizeof config, "%s/redis.conf", redis->directory);
        fflush(NULL);
        redis->pid = fork();
        if (redis->pid == 0) {
                prctl(PR_SET_PDEATHSIG, SIGKILL);
                int null = open("/dev/null", O_RDWR);
                dup2(null, 0);
                dup2(null, 1);
                dup2(null, 2);
                execlp("redis-server", "redis-server", config, option, (char *)NULL);
                _exit(127);
        }
}

/* Waits until it serves.  Returns false if it has ended: the port is somebody else's.  It makes its Unix socket when it has the
 * port, so what answers is not another server. */
static inline bool
redis_has_begun(struct redis_server *redis)
{
        for (int64_t began = weir_test_now(); access(redis->path, R_OK) != 0 || !*redis_say(redis->port, "PING");) {
                if (waitpid(redis->pid, NULL, WNOHANG) == redis->pid) {
                        redis->pid = 0;
                        return false;
                }
                weir_test_pause(began, "redis-server listens", __FILE__, __LINE__);
        }
        return true;
}

/* Starts it again on its port, with its directory. */
static inline void
redis_restart(struct redis_server *redis)
{
        unlink(redis->path);
        do
                redis_begin(redis, NULL);
        while (!redis_has_begun(redis));
}

/* `more`: lines of its configuration. */
static inline void
redis_configure(struct redis_server *redis, const char *more, ...)
{
        char config[128];
        va_list arguments;

        strcpy(redis->directory, "/tmp/weir-redis-XXXXXX");
        if (!mkdtemp(redis->directory))
                abort();
        if (!redis->port)
                redis->port = redis_free_port();
        snprintf(redis->path, sizeof redis->path, "%s/socket", redis->directory);
        snprintf(config, sizeof config, "%s/redis.conf", redis->directory);
        FILE *file = fopen(config, "w");
        fprintf(file, "port %d\nbind 127.0.0.1\nunixsocket %s\ndir %s\nsave \"\"\n", redis->port, redis->path,
                redis->directory);
        va_start(arguments, more);
        vfprintf(file, more, arguments);
        va_end(arguments);
        fclose(file);
}

static inline void
redis_kill(struct redis_server *redis, int signal_number)
{
        if (redis->pid <= 0)
                return;
        kill(redis->pid, signal_number);
        kill(redis->pid, SIGCONT);
        waitpid(redis->pid, NULL, 0);
        redis->pid = 0;
}

static inline void
redis_stop(struct redis_server *redis)
{
        char command[128];

        redis_kill(redis, SIGKILL);
        snprintf(command, sizeof command, "rm -rf '%s'", redis->directory);
        if (strncmp(redis->directory, "/tmp/weir-redis-", 16) == 0 && system(command) != 0)
                CU_FAIL("the directory is not removed");
}

static inline void
redis_start(struct redis_server *redis, const char *more)
{
        for (redis_configure(redis, "%s", more);; redis_configure(redis, "%s", more)) {
                redis_begin(redis, NULL);
                if (redis_has_begun(redis))
                        return;
                redis_stop(redis);
                redis->port = 0; /* another one */
        }
}

#endif
