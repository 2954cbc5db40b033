/* test/e2e/restart_load.c: clients that notice when a server, started anew under them, loses anything.
 *
 *     restart_load PORT PATH          until its standard input ends; the Unix socket is at PATH
 *
 * Half of the threads open a connection for each request: it must not be refused, nor end before its reply is complete.  The
 * other half keep their connections: the server may end one between two requests, but not the first one, and not in the middle
 * of a reply. Prints what was done; exits with 1 when something was lost. */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>

#define THREADS 8
#define REQUEST "GET /wait?name=a&ms=0 HTTP/1.1\r\nHost: a\r\n\r\n"
#define REPLY   "waited\n"

static struct sockaddr_in tcp = {.sin_family = AF_INET};
static struct sockaddr_un local = {.sun_family = AF_UNIX};
static atomic_bool over;
static atomic_ulong opened, answered, ended, lost;

static void
lose(const char *what, int error)
{
        if (atomic_fetch_add(&lost, 1) < 20)
                fprintf(stderr, "restart_load: %s: %s\n", what, error ? strerror(error) : "ended");
}

static int
connect_to(bool is_local)
{
        int fd = socket(is_local ? AF_UNIX : AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        const void *address = is_local ? (const void *)&local : &tcp;
        int failed = connect(fd, address, is_local ? sizeof local : sizeof tcp);

        if (fd >= 0 && failed == 0) {
                atomic_fetch_add(&opened, 1);
                return fd;
        }
        lose(is_local ? "connect to the Unix socket" : "connect", errno);
        if (fd >= 0)
                close(fd);
        return -1;
}

/* No TIME_WAIT: the ports would be used up. */
static void
drop(int fd)
{
        const struct linger at_once = {.l_onoff = 1};

        setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
        close(fd);
}

/* Returns whether the connection goes on.  `fresh`: it has not carried a request yet. */
static bool
ask(int fd, bool fresh)
{
        char reply[1024];
        size_t size = 0;

        if (send(fd, REQUEST, sizeof REQUEST - 1, MSG_NOSIGNAL) < 0) {
                if (fresh)
                        lose("send on a new connection", errno);
                atomic_fetch_add(&ended, 1);
                return false;
        }
        for (;;) {
                ssize_t count = recv(fd, reply + size, sizeof reply - 1 - size, 0);

                if (count <= 0) {
                        if (fresh || size > 0)
                                lose(size > 0 ? "half a reply" : "reply on a new connection", count < 0 ? errno : 0);
                        atomic_fetch_add(&ended, 1);
                        return false;
                }
                size += (size_t)count;
                reply[size] = '\0';
                if (strstr(reply, "\r\n\r\n" REPLY)) {
                        atomic_fetch_add(&answered, 1);
                        return !strstr(reply, "Connection: close\r\n");
                }
        }
}

static void *
run(void *argument)
{
        int index = *(int *)argument;
        bool is_local = index & 1, keeps = index & 2;

        while (!atomic_load(&over)) {
                int fd = connect_to(is_local);
                bool fresh = true;

                if (fd < 0)
                        break;
                while (ask(fd, fresh) && keeps && !atomic_load(&over))
                        fresh = false;
                drop(fd);
                usleep(index & 4 ? 300 : 0);
        }
        return NULL;
}

int
main(int argc, char *argv[])
{
        pthread_t threads[THREADS];
        int indices[THREADS];
        char byte;

        if (argc != 3 || strlen(argv[2]) >= sizeof local.sun_path)
                return 2;
        tcp.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        tcp.sin_port = htons((uint16_t)atoi(argv[1]));
        strcpy(local.sun_path, argv[2]);
        for (int i = 0; i < THREADS; i++) {
                indices[i] = i;
                if (pthread_create(&threads[i], NULL, run, &indices[i]) != 0)
                        return 2;
        }
        while (read(0, &byte, 1) > 0 || errno == EINTR)
                errno = 0;
        atomic_store(&over, true);
        for (int i = 0; i < THREADS; i++)
                pthread_join(threads[i], NULL);
        printf("%lu connections, %lu replies, %lu ended between requests, %lu lost\n", opened, answered, ended, lost);
        return lost > 0;
}
