/* bench/peers.c: runs the peers' programs, each case in a process of its own, as weir's.
 *
 * Threads: the main thread, which has no other. */
#include "peers.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench.h"

#define WORDS_MAX 12

static char missing[256]; /* names of programs, each between a space and a comma */

/* The path of a program that lies beside this one. */
static bool
find_program(const char *name, char path[4096])
{
        ssize_t size = readlink("/proc/self/exe", path, 3072);

        if (size <= 0)
                return false;
        path[size] = '\0';
        snprintf(strrchr(path, '/'), 1024, "/peer-%s", name);
        return access(path, X_OK) == 0;
}

static void
remember_missing(const char *name)
{
        char word[32];
        size_t length = strlen(missing);

        snprintf(word, sizeof word, " %s,", name);
        if (!strstr(missing, word))
                snprintf(missing + length, sizeof missing - length, "%s", word);
}

void
bench_peers_missing(void)
{
        if (missing[0])
                fprintf(stderr, "bench: left out, for they are not built (make bench-peers):%.*s\n", (int)strlen(missing) - 1,
                        missing);
}

static void
run_program(int parent, const char *path, char *line, int out)
{
        char *words[WORDS_MAX + 2] = {(char *)path};
        size_t count = 1;

        for (char *word = strtok(line, " "); word && count <= WORDS_MAX; word = strtok(NULL, " "))
                words[count++] = word;
        bench_follow_parent(parent);
        signal(SIGPIPE, SIG_DFL);
        signal(SIGINT, SIG_DFL);
        signal(SIGTERM, SIG_DFL);
        if (dup2(out, STDOUT_FILENO) == STDOUT_FILENO)
                execv(path, words);
        _exit(127);
}

/* Reads what the program prints until it ends; kills it when its time is up, or ours. */
static void
read_output(pid_t pid, int in, char *text, size_t size, unsigned seconds)
{
        int64_t until = bench_now() + seconds * BENCH_NSEC_PER_SEC;
        struct pollfd wait = {.fd = in, .events = POLLIN};
        size_t length = 0;

        for (;;) {
                int64_t left = until - bench_now();
                int ready = left > 0 ? poll(&wait, 1, (int)(left / 1000000) + 1) : 0;

                if (ready < 0 && errno == EINTR && !bench_interrupted())
                        continue;
                ssize_t got = ready > 0 ? read(in, text + length, size - 1 - length) : 0;
                if (ready <= 0)
                        kill(pid, SIGKILL);
                if (got <= 0)
                        break;
                length += (size_t)got;
        }
        text[length] = '\0';
}

static void
parse(const char *text, struct bench_reading *reading)
{
        const struct {
                const char *name;
                double *value;
        } fields[] = {{"cpu", &reading->cpu},   {"elapsed", &reading->elapsed}, {"bytes", &reading->bytes},
                      {"p50", &reading->p50},   {"p99", &reading->p99},         {"early", &reading->early},
                      {"calm", &reading->calm}, {"blocked", &reading->blocked}, {"wake", &reading->wake}};
        char name[16];
        double value;
        int size;

        for (; sscanf(text, "%15s %lf\n%n", name, &value, &size) == 2; text += size)
                for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
                        if (strcmp(name, fields[i].name) == 0)
                                *fields[i].value = value;
}

static bool
run(const char *path, char *line, struct bench_reading *reading, unsigned seconds)
{
        char text[1024];
        int ends[2], status = 0, parent = getpid();

        if (pipe2(ends, O_CLOEXEC) < 0)
                return false;
        fflush(NULL);
        pid_t pid = fork();
        if (pid == 0)
                run_program(parent, path, line, ends[1]);
        close(ends[1]);
        if (pid > 0) {
                read_output(pid, ends[0], text, sizeof text, seconds);
                while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
                        ;
        }
        close(ends[0]);
        if (pid < 0 || !WIFEXITED(status) || WEXITSTATUS(status) != 0)
                return false;
        parse(text, reading);
        return true;
}

bool
bench_peer(const char *name, struct bench_reading *reading, unsigned seconds, const char *format, ...)
{
        char path[4096], line[256], copy[256];
        va_list arguments;

        *reading = (struct bench_reading){0};
        if (bench_interrupted() || bench_is_alone())
                return false;
        if (!find_program(name, path)) {
                remember_missing(name);
                return false;
        }
        va_start(arguments, format);
        vsnprintf(line, sizeof line, format, arguments);
        va_end(arguments);
        memcpy(copy, line, sizeof copy); /* the words are cut apart in it */
        bool good = run(path, copy, reading, seconds);
        if (!good && !bench_interrupted())
                fprintf(stderr, "bench: \"peer-%s %s\" failed\n", name, line);
        return good;
}
