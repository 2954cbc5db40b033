/* bench/client.c: what a request costs the client, beside Go's, libcurl's multi interface, wrk and h2load.
 *
 *     client [quick] [beginning of a word of a case's name]
 *
 * All ask nginx, one worker on the last CPU, for a reply of 12 bytes, one request after another on each connection.  A client is
 * a process of its own on the first CPU; "all" has all CPUs.  The clients take turns within each round, in an order that
 * changes.
 *
 * Threads: one here; weir's client has its own. */
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <weir/weir.h>

#include "bench.h"
#include "cases.h"
#include "relay.h"
#include "secure.h"

#define NGINX    "/usr/sbin/nginx"
#define CPU      "client CPU us per request"
#define WALL     "wall us per request"
#define PATIENCE 60 /* seconds for a client */

struct client_case {
        const char *name;
        unsigned connections;
        bool is_secure, has_all; /* CPUs */
};

static const struct client_case cases[] = {
        {"plain c=64", 64, false, false},          {"plain c=512", 512, false, false}, {"tls c=64", 64, true, false},
        {"all CPUs, plain c=64", 64, false, true}, {"fair wait", 100, false, false},
};

static struct bench_size size;
static char directory[] = "/tmp/weir-client-XXXXXX";
static int port, secure_port, load_cpu, client_cpu;
static unsigned milliseconds;

static void
place(int cpu)
{
        cpu_set_t set;

        CPU_ZERO(&set);
        CPU_SET(cpu, &set);
        sched_setaffinity(0, sizeof set, &set);
}

static void
url_of(const struct client_case *what, char out[64])
{
        snprintf(out, 64, "%s://127.0.0.1:%d/", what->is_secure ? "https" : "http", what->is_secure ? secure_port : port);
}

/* -- the server -- */

static bool
configure(void)
{
        char path[64];
        int listener = relay_listen(&port, 0), other = relay_listen(&secure_port, 0);

        close(listener);
        close(other);
        snprintf(path, sizeof path, "%s/configuration", directory);
        FILE *file = fopen(path, "we");
        if (!file)
                return false;
        fprintf(file,
                "worker_processes 1; master_process off; daemon off; pid %s/pid; error_log %s/error.log crit;\n"
                "events { worker_connections 4000; }\n"
                "http { access_log off; keepalive_requests 1000000000; keepalive_timeout 600s;\n"
                "server { listen 127.0.0.1:%d backlog=4096; listen 127.0.0.1:%d ssl backlog=4096;\n"
                "ssl_certificate %s/" BENCH_CERTIFICATE_FILE "; ssl_certificate_key %s/" BENCH_KEY_FILE ";\n"
                "location / { return 200 \"hello world\\n\"; } } }\n",
                directory, directory, port, secure_port, directory, directory);
        return fclose(file) == 0;
}

static pid_t
start_server(void)
{
        char path[64], errors[64];
        int parent = getpid();
        pid_t pid = fork();

        if (pid)
                return pid;
        bench_follow_parent(parent);
        place(load_cpu);
        setpgid(0, 0); /* Ctrl-C is for the harness, which ends this */
        snprintf(path, sizeof path, "%s/configuration", directory);
        snprintf(errors, sizeof errors, "%s/error.log", directory);
        execl(NGINX, "nginx", "-p", directory, "-e", errors, "-c", path, (char *)NULL);
        _exit(127);
}

static bool
serves(void)
{
        for (int i = 0; i < 500; i++) {
                int fd = relay_connect(port);

                if (fd >= 0) {
                        close(fd);
                        return true;
                }
                bench_sleep(10000000);
        }
        return false;
}

/* -- weir -- */

static struct {
        weir_client *client;
        char url[64];
        _Atomic long long requests, failed;
        _Atomic bool is_over;
        _Atomic unsigned running;
} at;

static void
asked(weir_task *get, void *context)
{
        (void)context;
        atomic_fetch_add_explicit(weir_task_status(get) ? &at.failed : &at.requests, 1, memory_order_relaxed);
        if (atomic_load_explicit(&at.is_over, memory_order_relaxed))
                atomic_fetch_sub(&at.running, 1);
        else
                weir_task_start(weir_client_request_new(at.client, "GET", at.url, asked, NULL));
}

static bool
begin_weir(const struct client_case *what, unsigned connections)
{
        struct weir_client_config config = WEIR_CLIENT_CONFIG_DEFAULT;
        struct weir_tls_config tls = WEIR_TLS_CONFIG_DEFAULT;
        struct weir_config runtime = WEIR_CONFIG_DEFAULT;

        if (!what->has_all)
                runtime.pollers = 1;
        if (weir_init(&runtime))
                return false;
        tls.insecure = true;
        config.tls = what->is_secure ? weir_tls_client_new(&tls) : NULL;
        config.connections = connections;
        config.keep_coding = true;
        url_of(what, at.url);
        at.client = weir_client_new(&config);
        return at.client;
}

static bool
run_weir(const void *argument, double values[BENCH_VALUES])
{
        const struct client_case *what = argument;

        if (!what->has_all)
                place(client_cpu);
        if (!begin_weir(what, what->connections))
                return false;
        at.running = what->connections;
        for (unsigned i = 0; i < what->connections; i++)
                weir_task_start(weir_client_request_new(at.client, "GET", at.url, asked, NULL));
        bench_sleep(milliseconds * INT64_C(100000));
        long long before = at.requests;
        int64_t cpu = bench_cpu(), began = bench_now();
        bench_sleep(milliseconds * INT64_C(1000000));
        values[0] = (double)(at.requests - before);
        values[1] = (double)(bench_cpu() - cpu);
        values[2] = (double)(bench_now() - began);
        values[3] = (double)at.failed;
        at.is_over = true;
        while (at.running)
                bench_sleep(1000000);
        return true;
}

/* -- 10,000 requests that wait for 100 connections -- */

#define WAITING 10000

static int64_t began_at, ended_at[WAITING];
static _Atomic size_t ended_count;
static size_t order[WAITING];

static void
served(weir_task *get, void *context)
{
        size_t index = (size_t)(uintptr_t)context, place_in_row = ended_count++;

        ended_at[index] = weir_task_status(get) ? INT64_MAX : bench_now();
        order[place_in_row] = index;
}

/* The request of index i should end after (i + 1) / WAITING of the whole time. */
static bool
run_wait(const void *argument, double values[BENCH_VALUES])
{
        static int64_t waits[WAITING];
        const struct client_case *what = argument;
        long inverted = 0;

        place(client_cpu);
        if (!begin_weir(what, what->connections))
                return false;
        began_at = bench_now();
        for (size_t i = 0; i < WAITING; i++)
                weir_task_start(weir_client_request_new(at.client, "GET", at.url, served, (void *)(uintptr_t)i));
        while (ended_count < WAITING)
                bench_sleep(1000000);
        int64_t last = 0;
        for (size_t i = 0; i < WAITING; i++) {
                waits[i] = ended_at[i] - began_at;
                last = ended_at[i] > last ? ended_at[i] : last;
                inverted += order[i] + 2 * what->connections < i || order[i] > i + 2 * what->connections;
        }
        values[0] = (double)bench_quantile(waits, WAITING, 0.99) / ((double)(last - began_at) * 0.99);
        values[1] = (double)inverted;
        return true;
}

/* -- the peers -- */

struct peer {
        const char *name, *program;
        bool is_secure_too, is_only_secure;
        unsigned form; /* 0: prints the four numbers; 1: wrk; 2: h2load; 3: examples/weir-bench.c */
};

static const struct peer peers[] = {
#ifdef WITH_GO
        {"go", WITH_GO, true, false, 0},
#endif
#ifdef WITH_CURL
        {"libcurl", WITH_CURL, true, false, 0},
#endif
        {"wrk", "/usr/bin/wrk", false, false, 1},
        {"h2load", "/usr/bin/h2load", true, true, 2},
#ifdef WITH_WEIR_BENCH
        {"weir-bench", WITH_WEIR_BENCH, true, false, 3},
#endif
};

static void
exec_peer(const struct peer *peer, const struct client_case *what)
{
        char url[64], connections[16], length[16];

        url_of(what, url);
        snprintf(connections, sizeof connections, "%u", what->connections);
        snprintf(length, sizeof length, "%u", milliseconds);
        if (peer->form == 0) {
                execl(peer->program, peer->name, url, connections, length, what->has_all ? NULL : "one", (char *)NULL);
        } else if (peer->form == 1) {
                snprintf(length, sizeof length, "%us", milliseconds / 1000 ? milliseconds / 1000 : 1);
                execl(peer->program, "wrk", "-t", what->has_all ? "2" : "1", "-c", connections, "-d", length, url, (char *)NULL);
        } else if (peer->form == 3) {
                snprintf(length, sizeof length, "%.1f", milliseconds / 1000.0);
                execl(peer->program, "weir-bench", "-c", connections, "-d", length, what->is_secure ? "-k" : "-mGET", url,
                      (char *)NULL);
        } else {
                snprintf(length, sizeof length, "%u", milliseconds / 1000 ? milliseconds / 1000 : 1);
                execl(peer->program, "h2load", "--h1", "-t", "1", "-c", connections, "-D", length, url, (char *)NULL);
        }
        _exit(127);
}

/* The number before that text. */
static double
number_before(const char *text, const char *word)
{
        const char *at_word = strstr(text, word), *from = at_word;

        while (from && from > text && (from[-1] == ' ' || (from[-1] >= '0' && from[-1] <= '9')))
                from--;
        return from ? atof(from) : 0;
}

static double
number_behind(const char *text, const char *word)
{
        const char *at_word = strstr(text, word);

        return at_word ? atof(at_word + strlen(word)) : 0;
}

static bool
run_peer(const struct peer *peer, const struct client_case *what, double values[4])
{
        char said[8192];
        size_t used = 0;
        ssize_t count;
        int ends[2], status, parent = getpid();
        struct rusage usage;

        if (pipe(ends))
                return false;
        int64_t began = bench_now();
        pid_t pid = fork();
        if (pid == 0) {
                bench_follow_parent(parent);
                if (!what->has_all)
                        place(client_cpu);
                dup2(ends[1], STDOUT_FILENO);
                close(ends[0]);
                exec_peer(peer, what);
        }
        close(ends[1]);
        while (used < sizeof said - 1 && (count = read(ends[0], said + used, sizeof said - 1 - used)) > 0)
                used += (size_t)count;
        said[used] = '\0';
        close(ends[0]);
        if (wait4(pid, &status, 0, &usage) != pid || !WIFEXITED(status) || WEXITSTATUS(status))
                return false;
        if (peer->form == 0)
                return sscanf(said, "%lf %lf %lf %lf", &values[0], &values[1], &values[2], &values[3]) == 4;
        values[0] = peer->form == 3 ? number_behind(said, "responses ")
                                    : number_before(said, peer->form == 1 ? " requests in" : " done");
        values[1] = (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1e9 +
                    (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1e3;
        values[2] = (double)(bench_now() - began);
        values[3] = 0;
        return values[0] > 0;
}

/* -- turns -- */

static void
note(const char *peer, const struct client_case *what, const double values[4])
{
        if (values[3] > 0)
                fprintf(stderr, "client: %s, %s: %.0f requests failed\n", peer, what->name, values[3]);
        if (values[0] <= 0)
                return;
        bench_sample(peer, what->name, CPU, values[1] / values[0] / 1000);
        bench_sample(peer, what->name, WALL, values[2] / values[0] / 1000);
}

static bool
takes_part(const struct peer *peer, const struct client_case *what)
{
        return access(peer->program, X_OK) == 0 && (what->is_secure ? peer->is_secure_too : !peer->is_only_secure);
}

static void
compare(const struct client_case *what)
{
        char ratio[96];
        static const struct {
                const char *peer;
                double most;
        } goals[] = {{"go", 1 / 1.5}, {"libcurl", 1 / 1.2}, {"wrk", 1.5}, {"h2load", 1.5}};

        for (size_t i = 0; i < sizeof goals / sizeof *goals; i++) {
                bench_ratio("weir", goals[i].peer, what->name, CPU);
                snprintf(ratio, sizeof ratio, "ratio to %s, " CPU, goals[i].peer);
                bench_goal("weir", what->name, ratio, goals[i].most);
        }
        bench_ratio("weir-bench", what->is_secure ? "h2load" : "wrk", what->name, CPU);
}

static void
run_rounds(const struct client_case *what)
{
        size_t count = sizeof peers / sizeof *peers;
        double values[BENCH_VALUES];

        for (unsigned round = 0; round < (size.quick ? 3 : 7); round++)
                for (size_t i = 0; i <= count && !bench_interrupted(); i++) {
                        size_t turn = (round + i) % (count + 1);

                        if (turn == count) {
                                if (bench_isolated("weir", run_weir, what, values, PATIENCE))
                                        note("weir", what, values);
                        } else if (takes_part(&peers[turn], what) && run_peer(&peers[turn], what, values)) {
                                note(peers[turn].name, what, values);
                        }
                }
        compare(what);
}

static void
run_waits(const struct client_case *what)
{
        double values[BENCH_VALUES];

        for (unsigned round = 0; round < (size.quick ? 3 : 7) && !bench_interrupted(); round++)
                if (bench_isolated("weir", run_wait, what, values, PATIENCE)) {
                        bench_sample("weir", what->name, "p99 of the wait to the ideal", values[0]);
                        bench_sample("weir", what->name, "requests out of order", values[1]);
                }
        bench_goal("weir", what->name, "p99 of the wait to the ideal", 1.2);
}

int
main(int argc, char *argv[])
{
        static const char *const files[] = {"configuration", "pid", "error.log", BENCH_CERTIFICATE_FILE, BENCH_KEY_FILE};
        char path[96];

        size = bench_size_of(argc, argv);
        milliseconds = size.quick ? 1000 : 3000;
        load_cpu = (int)sysconf(_SC_NPROCESSORS_ONLN) - 1;
        bench_begin();
        if (access(NGINX, X_OK) || !mkdtemp(directory) || !bench_make_certificate(directory) || !configure()) {
                fprintf(stderr, "client: no nginx, or no directory for its files\n");
                return 1;
        }
        pid_t server = start_server();
        bool is_up = serves();
        for (size_t i = 0; is_up && i < sizeof cases / sizeof *cases; i++) {
                if (!bench_wanted(&size, cases[i].name))
                        continue;
                if (strcmp(cases[i].name, "fair wait") == 0)
                        run_waits(&cases[i]);
                else
                        run_rounds(&cases[i]);
                bench_print("client");
        }
        kill(server, SIGKILL);
        waitpid(server, NULL, 0);
        for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
                snprintf(path, sizeof path, "%s/%s", directory, files[i]);
                remove(path);
        }
        rmdir(directory);
        return is_up ? 0 : 1;
}
