/* bench/connect.c: what a new connection costs a client, plain and with a resumed session of TLS, beside a loop of epoll and
 * `openssl s_time -reuse`.
 *
 *     connect [quick|full] [beginning of a word of a case's name]
 *
 * Threads: each case runs in a process of its own, with the runtime as it is by default.  The server is another process, which is
 *          the same for all. */
#include "connect.h"

#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <weir/weir.h>

#include "bench.h"
#include "cases.h"
#include "secure.h"

#define ROUNDS   11
#define PATIENCE 120 /* seconds for a case */
#define CPU_TIME "CPU us per connection"
#define TIME     "us per connection"
#define RATE     "connections per CPU second"
#define S_TIME   "s_time"

static char directory[] = "/tmp/weir-connect-XXXXXX";
static char certificate_file[128], key_file[128];

/* -- weir -- */

static struct {
        weir_tls *tls; /* NULL: plain */
        char address[32];
        _Atomic size_t left, resumed; /* connections */
        _Atomic unsigned running;     /* chains */
        _Atomic bool has_failed;
        sem_t over;
} at;

static void connect_once(void);

static void
end_chain(void)
{
        if (atomic_fetch_sub(&at.running, 1) == 1)
                sem_post(&at.over);
}

static void
next_one(void)
{
        size_t left = atomic_load(&at.left);

        while (left > 0 && !atomic_compare_exchange_weak(&at.left, &left, left - 1))
                continue;
        if (left > 0 && !atomic_load(&at.has_failed))
                connect_once();
        else
                end_chain();
}

static void
served(weir_task *read, void *context)
{
        weir_stream *stream = context;

        if (weir_task_status(read))
                atomic_store(&at.has_failed, true);
        if (at.tls && weir_stream_is_resumed(stream))
                atomic_fetch_add(&at.resumed, 1);
        weir_stream_break(stream);
        weir_stream_unref(stream);
        next_one();
}

static void
connected(weir_task *connect, void *nothing)
{
        weir_stream *stream = weir_connect_take_stream(connect);

        (void)nothing;
        if (stream && weir_task_start(weir_stream_read_new(stream, 1, 1, served, stream)) == 0)
                return;
        weir_stream_unref(stream);
        atomic_store(&at.has_failed, true);
        end_chain();
}

static void
connect_once(void)
{
        weir_task *task = at.tls ? weir_connect_tls_new(at.address, at.tls, CONNECT_NAME, connected, NULL)
                                 : weir_connect_new(at.address, connected, NULL);

        if (weir_task_start(task) == 0)
                return;
        atomic_store(&at.has_failed, true);
        end_chain();
}

static bool
connect_by_weir(const struct connect_job *job, size_t *resumed)
{
        if (!*at.address) {
                struct weir_tls_config config = WEIR_TLS_CONFIG_DEFAULT;

                if (weir_init(NULL) || sem_init(&at.over, 0, 0))
                        return false;
                config.ca_file = job->ca_file;
                at.tls = job->ca_file ? weir_tls_client_new(&config) : NULL;
                snprintf(at.address, sizeof at.address, "127.0.0.1:%d", job->port);
        }
        at.left = job->count - job->chains;
        at.running = job->chains;
        at.resumed = 0;
        for (unsigned i = 0; i < job->chains; i++)
                connect_once();
        while (sem_wait(&at.over))
                continue;
        *resumed = at.resumed;
        return !at.has_failed;
}

/* -- the server -- */

static void
answer(weir_stream *stream, weir_series *series, void *nothing)
{
        (void)nothing;
        weir_series_push(series, weir_stream_write_lent_new(stream, "x", 1, NULL, NULL));
        weir_series_push(series, weir_stream_read_new(stream, 1, 1, NULL, NULL));
}

static void
serve(bool is_secure, int report)
{
        struct weir_stream_server_config config = WEIR_STREAM_SERVER_CONFIG_DEFAULT;

        config.certificate_file = is_secure ? certificate_file : NULL;
        config.private_key_file = is_secure ? key_file : NULL;
        weir_stream_server *server = weir_stream_server_new(&config, answer, NULL);
        if (weir_stream_server_start(server, "127.0.0.1:0"))
                _exit(1);
        int port = weir_stream_server_port(server);
        if (write(report, &port, sizeof port) != sizeof port)
                _exit(1);
        for (;;)
                pause();
}

/* Returns its port; 0: it could not be started. */
static int
start_server(bool is_secure, pid_t *child)
{
        int ends[2], port = 0, parent = getpid();

        if (pipe(ends))
                return 0;
        *child = fork();
        if (*child == 0) {
                bench_follow_parent(parent);
                close(ends[0]);
                serve(is_secure, ends[1]);
        }
        close(ends[1]);
        if (*child < 0 || read(ends[0], &port, sizeof port) != sizeof port)
                port = 0;
        close(ends[0]);
        return port;
}

/* -- the cases -- */

static const struct shape {
        const char *name;
        bool is_secure;
        unsigned chains;
        size_t count;
} shapes[] = {
        {"connect, 1 at once", false, 1, 8000},
        {"connect, 64 at once", false, 64, 16000},
        {"connect by TLS, resumed, 1 at once", true, 1, 2000},
        {"connect by TLS, resumed, 64 at once", true, 64, 4000},
};

#define SHAPES (sizeof shapes / sizeof *shapes)

static const struct way {
        const char *peer;
        bool (*run)(const struct connect_job *job, size_t *resumed);
} ways[] = {{"weir", connect_by_weir}, {"epoll loop", connect_by_loop}};

#define WAYS (sizeof ways / sizeof *ways)

struct run {
        const struct shape *shape;
        const struct way *way;
        size_t count;
};

static bool
measure_way(const void *argument, double values[BENCH_VALUES])
{
        const struct run *run = argument;
        const struct shape *shape = run->shape;
        struct connect_job job = {.ca_file = shape->is_secure ? certificate_file : NULL, .chains = shape->chains};
        size_t resumed;
        pid_t child;

        job.port = start_server(shape->is_secure, &child);
        job.count = run->count / 10;
        if (!job.port || !run->way->run(&job, &resumed)) /* its threads have begun, and it has sessions */
                return false;
        job.count = run->count;
        int64_t began = bench_now(), cpu = bench_cpu();
        bool is_good = run->way->run(&job, &resumed);
        double count = (double)run->count, cpu_us = (double)(bench_cpu() - cpu) / 1000 / count;
        values[0] = cpu_us;
        values[1] = (double)(bench_now() - began) / 1000 / count;
        values[2] = 1e6 / cpu_us;
        values[3] = 100 * (double)resumed / count;
        kill(child, SIGKILL);
        waitpid(child, NULL, 0);
        return is_good;
}

static bool
measure_openssl(const void *argument, double values[BENCH_VALUES])
{
        struct connect_job job = {.ca_file = certificate_file, .chains = 1};
        struct connect_counts counts = {.connections = 0};
        pid_t child;

        (void)argument;
        job.port = start_server(true, &child);
        if (!job.port || !connect_by_openssl(&job, &counts))
                return false;
        values[0] = (double)counts.cpu / 1000 / (double)counts.connections;
        values[1] = (double)counts.wall / 1000 / (double)counts.connections;
        values[2] = 1e6 / values[0];
        values[3] = 100 * (double)counts.resumed / (double)counts.connections;
        kill(child, SIGKILL);
        waitpid(child, NULL, 0);
        return true;
}

static void
note(const struct shape *shape, const char *peer, const double values[BENCH_VALUES])
{
        bench_sample(peer, shape->name, CPU_TIME, values[0]);
        bench_sample(peer, shape->name, TIME, values[1]);
        bench_sample(peer, shape->name, RATE, values[2]);
        if (shape->is_secure)
                bench_sample(peer, shape->name, "resumed, percent", values[3]);
}

static void
measure(const struct bench_size *size, const struct shape *shape)
{
        double values[BENCH_VALUES];

        if (!bench_wanted(size, shape->name))
                return;
        for (size_t i = 0; i < WAYS; i++) {
                struct run run = {shape, &ways[i], size->quick ? shape->count / 2 : shape->count};

                if (bench_isolated(shape->name, measure_way, &run, values, PATIENCE))
                        note(shape, run.way->peer, values);
        }
        if (shape->is_secure && shape->chains == 1 && access(CONNECT_OPENSSL, X_OK) == 0 &&
            bench_isolated(shape->name, measure_openssl, NULL, values, PATIENCE))
                note(shape, S_TIME, values);
}

static void
tell_ratios(const struct shape *shape)
{
        bench_ratio("weir", "epoll loop", shape->name, CPU_TIME);
        bench_ratio("weir", "epoll loop", shape->name, TIME);
        bench_goal("weir", shape->name, "ratio to epoll loop, " CPU_TIME, 1 / 0.9);
        if (!shape->is_secure || shape->chains > 1)
                return;
        bench_ratio("weir", S_TIME, shape->name, CPU_TIME);
        bench_goal("weir", shape->name, "ratio to " S_TIME ", " CPU_TIME, 1 / 0.9);
}

int
main(int argc, char *argv[])
{
        struct bench_size size = bench_size_of(argc, argv);

        bench_begin();
        if (!mkdtemp(directory) || !bench_make_certificate(directory))
                return 1;
        snprintf(certificate_file, sizeof certificate_file, "%s/%s", directory, BENCH_CERTIFICATE_FILE);
        snprintf(key_file, sizeof key_file, "%s/%s", directory, BENCH_KEY_FILE);
        for (int round = size.quick ? ROUNDS - 1 : 0; round < ROUNDS; round++)
                for (size_t i = 0; i < SHAPES; i++)
                        measure(&size, &shapes[i]);
        for (size_t i = 0; i < SHAPES; i++)
                tell_ratios(&shapes[i]);
        unlink(certificate_file);
        unlink(key_file);
        rmdir(directory);
        bench_sample("machine", "connect", "CPU used by others, percent of one", bench_others());
        bench_print("connect");
        return bench_interrupted();
}
