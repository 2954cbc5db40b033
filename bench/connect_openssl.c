/* bench/connect_openssl.c: `openssl s_time -reuse`, one connection after the other.
 *
 * It runs for two seconds.  It also sends a request and reads the answer (-www): with TLS 1.3 the session comes behind the
 * handshake.  The CPU time is that of the whole process, and little of it is the start. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench.h"
#include "connect.h"

static pid_t
start(const struct connect_job *job, int *output)
{
        int ends[2], parent = getpid();
        char target[32];

        if (pipe2(ends, O_CLOEXEC))
                return -1;
        snprintf(target, sizeof target, "127.0.0.1:%d", job->port);
        pid_t child = fork();
        if (child == 0) {
                bench_follow_parent(parent);
                dup2(ends[1], STDOUT_FILENO);
                execl(CONNECT_OPENSSL, "openssl", "s_time", "-connect", target, "-reuse", "-time", "2", "-www", "/", "-CAfile",
                      job->ca_file, (char *)NULL);
                _exit(1);
        }
        close(ends[1]);
        *output = ends[0];
        return child;
}

/* It prints an 'r' for each connection that has resumed, a star for others, and behind them how many there were. */
static size_t
read_counts(int output, size_t *resumed)
{
        static char text[1 << 20];
        size_t size = 0;
        ssize_t got;

        while (size < sizeof text - 1 && (got = read(output, text + size, sizeof text - 1 - size)) > 0)
                size += (size_t)got;
        text[size] = '\0';
        close(output);
        const char *begin = strstr(text, "starting"), *line = begin ? strchr(begin, '\n') : NULL;
        *resumed = line ? strspn(line + 1, "r") : 0;
        const char *end = strstr(text, " connections in ");
        while (end && end > text && end[-1] >= '0' && end[-1] <= '9')
                end--;
        return end ? strtoull(end, NULL, 10) : 0;
}

bool
connect_by_openssl(const struct connect_job *job, struct connect_counts *counts)
{
        struct rusage usage;
        int output, status;
        int64_t began = bench_now();
        pid_t child = start(job, &output);

        if (child < 0)
                return false;
        counts->connections = read_counts(output, &counts->resumed);
        if (wait4(child, &status, 0, &usage) != child || !counts->connections)
                return false;
        counts->wall = bench_now() - began;
        counts->cpu = (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * BENCH_NSEC_PER_SEC +
                      (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * INT64_C(1000);
        return true;
}
