/* bench/relay.c: a proxy under test, and the process that it carries to. */
#include "relay.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench.h"

#define PATIENCE (5 * BENCH_NSEC_PER_SEC)

/* -- places -- */

void
relay_cpus(int *first, int *last)
{
        cpu_set_t all;

        *first = -1;
        *last = 0;
        sched_getaffinity(0, sizeof all, &all);
        for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
                if (CPU_ISSET(cpu, &all)) {
                        *first = *first < 0 ? cpu : *first;
                        *last = cpu;
                }
}

void
relay_place(int cpu)
{
        cpu_set_t set;

        CPU_ZERO(&set);
        CPU_SET(cpu, &set);
        sched_setaffinity(0, sizeof set, &set);
}

/* -- sockets -- */

int
relay_listen(int *port, int flags)
{
        struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        socklen_t size = sizeof address;
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | flags, 0);

        if (bind(fd, (struct sockaddr *)&address, size) < 0 || listen(fd, SOMAXCONN) < 0 ||
            getsockname(fd, (struct sockaddr *)&address, &size) < 0)
                _exit(1);
        *port = ntohs(address.sin_port);
        return fd;
}

int
relay_connect(int port)
{
        struct sockaddr_in address = {
                .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = htons((uint16_t)port)};
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;

        if (connect(fd, (struct sockaddr *)&address, sizeof address) < 0) {
                close(fd);
                return -1;
        }
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        return fd;
}

/* -- processes -- */

bool
relay_begin(struct relay *relay)
{
        const char *parent = getenv("TMPDIR");

        *relay = (struct relay){.port = -1};
        snprintf(relay->directory, sizeof relay->directory, "%s/weir-bench-XXXXXX",
                 parent && strlen(parent) < 40 ? parent : "/tmp");
        if (!mkdtemp(relay->directory))
                relay->directory[0] = '\0';
        return relay->directory[0];
}

void
relay_start_backend(struct relay *relay, int cpu, int listener, void (*serve)(int listener, void *context), void *context)
{
        int parent = getpid();

        relay->backend = fork();
        if (relay->backend == 0) {
                bench_follow_parent(parent);
                relay_place(cpu);
                serve(listener, context);
                _exit(1);
        }
        close(listener);
}

bool
relay_start(struct relay *relay, int cpu, void (*serve)(int report, const char *directory, void *context), void *context)
{
        int ends[2], parent = getpid();

        if (relay->backend < 0 || pipe2(ends, O_CLOEXEC))
                return false;
        relay->proxy = fork();
        if (relay->proxy == 0) {
                bench_follow_parent(parent);
                relay_place(cpu);
                setpgid(0, 0); /* Ctrl-C is for the harness, which ends this */
                close(ends[0]);
                serve(ends[1], relay->directory, context);
                _exit(1);
        }
        close(ends[1]);
        bool has_port = read(ends[0], &relay->port, sizeof relay->port) == sizeof relay->port && relay->port > 0;
        close(ends[0]);
        return has_port;
}

bool
relay_connect_all(const struct relay *relay, int *fds, unsigned count)
{
        int64_t until = bench_now() + PATIENCE;

        for (unsigned i = 0; i < count && bench_now() < until && !bench_interrupted();) {
                fds[i] = relay_connect(relay->port);
                if (fds[i] < 0)
                        bench_sleep(2000000);
                else if (++i == count)
                        return true;
        }
        return false;
}

int64_t
relay_cpu_time(const struct relay *relay)
{
        clockid_t clock;

        return clock_getcpuclockid(relay->proxy, &clock) == 0 ? bench_clock(clock) : 0;
}

void
relay_end(struct relay *relay)
{
        static const char *const files[] = {"configuration", "pid", "error.log", ""};
        const pid_t pids[] = {relay->proxy, relay->backend};
        char path[96];

        for (int i = 0; i < 2; i++)
                if (pids[i] > 0) {
                        kill(pids[i], SIGKILL);
                        waitpid(pids[i], NULL, 0);
                }
        for (size_t i = 0; relay->directory[0] && i < sizeof files / sizeof *files; i++) {
                snprintf(path, sizeof path, "%s/%s", relay->directory, files[i]);
                remove(path);
        }
}

/* -- in the proxy -- */

void
relay_tell(int report, int port)
{
        if (write(report, &port, sizeof port) != sizeof port)
                _exit(1);
        close(report);
}

int
relay_choose_port(void)
{
        int port, fd = relay_listen(&port, 0);

        close(fd);
        return port;
}

FILE *
relay_configuration(char path[128], const char *directory)
{
        snprintf(path, 128, "%s/configuration", directory);
        FILE *file = fopen(path, "we");
        if (!file)
                _exit(1);
        return file;
}
