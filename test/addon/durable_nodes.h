/* test/addon/durable_nodes.h: the nodes of a test, and what befalls them.
 *
 * A test begins a world: an engine, a directory, a history.  Then it torments it, and judges it. */
#ifndef WEIR_TEST_DURABLE_NODES_H
#define WEIR_TEST_DURABLE_NODES_H

#include <sys/stat.h>

#include "test/addon/durable_checker.h"
#include "test/addon/durable_node.h"
#include "test/addon/durable_proxy.h"

#define NODES         PROXY_PLACES
#define DURABLE_LIMIT "290" /* of a suite, in seconds: just below that of CTest */

/* An engine; SQLite has no server, and the functions of one are NULL. */
struct engine {
        const char *name;
        int (*start)(void); /* with an empty database.  Result: its port */
        void (*kill)(void); /* at once; `again` does not wait until it is there */
        void (*again)(void);
        bool (*is_there)(void);
        void (*stop)(void);
        void (*write_url)(char *url, size_t size, int port);
};

struct child {
        pid_t pid; /* 0: it is not there */
        int place, process;
        int64_t dies, stops, continues, killed;
};

/* Something that is disturbed, and for how long. */
struct trouble {
        int64_t next, since, until; /* until: 0: there is none now */
        bool ends_with_cut;
        bool is_on_its_way; /* an engine that has been started again */
};

static struct {
        const struct engine *engine;
        char directory[64], file[100], path[100]; /* of SQLite, and of the history */
        int port, processes, minutes, fd, log;
        int64_t lease, base, until;
        const char *shim;   /* a library for the nodes, or NULL */
        int64_t clock_most; /* by how much the clocks of nodes change */
        int64_t shift;      /* of the clock of an engine that is in the nodes */
        struct child children[NODES];
        struct trouble connections[NODES], server;
        int64_t next_massacre;
        struct weir_test_random chance;
} world;

static inline int64_t
chance_below(int64_t limit)
{
        return (int64_t)weir_test_random_below(&world.chance, (uint64_t)limit);
}

/* -- nodes -- */

static inline void
write_url(char *url, size_t size, int place)
{
        if (world.engine->start)
                world.engine->write_url(url, size, place < 0 ? world.port : proxy.port[place]);
        else
                snprintf(url, size, "sqlite:%s", world.file);
}

static inline void
start_node(struct child *child, int place, const char *mode)
{
        char url[200], process[20], seed[30], lease[30], base[30], clock[120];
        sigset_t end, before;
        char *const arguments[] = {"node", "node", url, world.path, process, seed, lease, base, (char *)mode, NULL};

        *child = (struct child){
                .place = place, .process = ++world.processes, .dies = INT64_MAX, .stops = INT64_MAX, .continues = INT64_MAX};
        write_url(url, sizeof url, place);
        snprintf(process, sizeof process, "%d", child->process);
        snprintf(seed, sizeof seed, "%llu", (unsigned long long)weir_test_random(&world.chance));
        snprintf(lease, sizeof lease, "%lld", (long long)world.lease);
        snprintf(base, sizeof base, "%lld", (long long)world.base);
        snprintf(clock, sizeof clock, "%s/clock%d", world.directory, place < 0 ? NODES : place);
        history_say(world.fd, (struct event){.what = STARTED,
                                             .name = -1,
                                             .process = child->process,
                                             .status = place,
                                             .attempt = strcmp(mode, "any") == 0 || strcmp(mode, "busy") == 0 ? ATTEMPTS : 0});
        fflush(NULL);
        sigemptyset(&end);
        sigaddset(&end, SIGTERM); /* it waits for that, which may come before it has its first turn */
        sigprocmask(SIG_BLOCK, &end, &before);
        child->pid = fork();
        if (child->pid == 0) {
                prctl(PR_SET_PDEATHSIG, SIGKILL);
                if (world.shim)
                        setenv("LD_PRELOAD", world.shim, 1);
                setenv("WEIR_TEST_CLOCK", clock, 1);
                dup2(world.log, STDERR_FILENO); /* connections break all the time */
                execv("/proc/self/exe", arguments);
                _exit(127);
        }
        if (child->pid < 0)
                abort();
        sigprocmask(SIG_SETMASK, &before, NULL);
}

/* It was told to end, or has ended, and is waited for. */
static inline int
reap_node(struct child *child)
{
        int status;

        waitpid(child->pid, &status, 0);
        history_say(world.fd,
                    (struct event){
                            .at = child->killed, .what = KILLED, .name = -1, .process = child->process, .span = weir_test_now()});
        child->pid = 0;
        return status;
}

static inline void
kill_node(struct child *child)
{
        if (!child->pid)
                return;
        if (!child->killed)
                child->killed = weir_test_now();
        kill(child->pid, SIGKILL);
        if (child->continues != INT64_MAX)
                history_say(world.fd, (struct event){.at = child->stops,
                                                     .what = STOPPED,
                                                     .name = -1,
                                                     .process = child->process,
                                                     .span = weir_test_now()});
        reap_node(child);
}

/* Runs a node to its end.  Result: its status. */
static inline int
run_node(const char *mode)
{
        struct child child;

        start_node(&child, -1, mode);
        return reap_node(&child);
}

/* -- worlds -- */

static inline void
begin_world(const struct engine *engine, int64_t lease)
{
        char log[100];

        memset(&world, 0, sizeof world);
        world.engine = engine;
        world.lease = lease;
        world.chance.state = weir_test_seed();
        strcpy(world.directory, "/tmp/weir-durable-XXXXXX");
        if (!mkdtemp(world.directory))
                abort();
        snprintf(world.file, sizeof world.file, "%s/timers.db", world.directory);
        snprintf(world.path, sizeof world.path, "%s/history", world.directory);
        world.fd = history_open(world.path);
        snprintf(log, sizeof log, "%s/log", world.directory);
        world.log = history_open(log);
        world.base = weir_test_now();
        if (engine->start) {
                world.port = engine->start();
                proxy_start(world.port);
        }
}

static inline void
end_world(void)
{
        char command[100];

        if (world.engine->start) {
                proxy_stop();
                world.engine->stop();
        }
        close(world.fd);
        close(world.log);
        snprintf(command, sizeof command, "rm -rf %s", world.directory);
        if (system(command))
                perror(command);
}

/* The wall clock of a place, or of the last node behind all places. */
static inline void
set_clock(int place, int64_t shift)
{
        char path[120];
        int fd;

        snprintf(path, sizeof path, "%s/clock%d", world.directory, place);
        fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
        if (fd < 0 || pwrite(fd, &shift, sizeof shift, 0) != sizeof shift)
                abort();
        close(fd);
}

/* By a second at least, and world.clock_most at most, back or forth. */
static inline int64_t
some_shift(void)
{
        int64_t shift = WEIR_SEC(1) + chance_below(world.clock_most - WEIR_SEC(1));

        return chance_below(2) ? shift : -shift;
}

/* Makes the clocks wrong, before there are nodes: one that has no file of a clock keeps the real one all its life.  The first and
 * the last node compare due times with their clock, so that is the engine's. */
static inline void
set_clocks(void)
{
        for (int i = 0; i < NODES; i++)
                set_clock(i, world.clock_most ? some_shift() : world.shift);
        set_clock(NODES, world.shift);
}

/* -- what befalls them -- */

static inline void
disturb(int place, struct trouble *trouble, int64_t now)
{
        static const enum proxy_order orders[] = {PROXY_DELAY,   PROXY_STALL,  PROXY_SWALLOW,
                                                  PROXY_SWALLOW, PROXY_REFUSE, PROXY_PASS};
        enum proxy_order order = orders[chance_below(6)];

        proxy_order(place, order);
        if (order == PROXY_PASS || order == PROXY_REFUSE)
                proxy_cut(place);
        trouble->since = now;
        trouble->until = now + WEIR_MSEC(5) + chance_below(WEIR_MSEC(1200));
        trouble->ends_with_cut = order == PROXY_SWALLOW || (order == PROXY_STALL && chance_below(2));
}

static inline void
undisturb(int place, struct trouble *trouble)
{
        proxy_order(place, PROXY_PASS);
        if (trouble->ends_with_cut)
                proxy_cut(place);
        history_say(
                world.fd,
                (struct event){.at = trouble->since, .what = DISTURBED, .name = -1, .status = place, .span = weir_test_now()});
        trouble->until = 0;
}

static inline void
trouble_connections(int count, int64_t now)
{
        for (int i = 0; i < count; i++) {
                struct trouble *trouble = &world.connections[i];

                if (trouble->until && now >= trouble->until)
                        undisturb(i, trouble);
                else if (!trouble->until && now >= trouble->next) {
                        if (trouble->next)
                                disturb(i, trouble, now);
                        trouble->next = now + WEIR_SEC(1) + chance_below(WEIR_SEC(6));
                }
                if (world.clock_most && chance_below(400) == 0)
                        set_clock(i, some_shift());
        }
}

static inline void
start_server_again(void)
{
        if (!world.server.is_on_its_way)
                world.engine->again();
        world.server.is_on_its_way = true;
}

/* On a slow machine an engine takes seconds to recover. */
static inline void
server_is_there(void)
{
        history_say(world.fd, (struct event){.at = world.server.since,
                                             .what = DISTURBED,
                                             .name = -1,
                                             .status = -1,
                                             .span = weir_test_now() + RECOVERY});
        world.server.until = 0;
        world.server.is_on_its_way = false;
}

static inline void
trouble_server(int64_t now)
{
        struct trouble *server = &world.server;

        if (server->until && now >= server->until) {
                start_server_again();
                server->until = now + WEIR_MSEC(20); /* the next look */
                if (world.engine->is_there())
                        server_is_there();
        }
        if (server->until || now < server->next)
                return;
        if (server->next) {
                world.engine->kill();
                server->since = now;
                server->until = now + 1 + chance_below(WEIR_MSEC(800));
        }
        server->next = now + WEIR_SEC(3) + chance_below(WEIR_SEC(5));
}

/* A node has ended by itself. */
static inline void
fail_node(const siginfo_t *info)
{
        char command[120];

        CU_FAIL("a node has ended by itself");
        fprintf(stderr, "a node has ended with %d, %d; the last words of all:\n", info->si_code, info->si_status);
        snprintf(command, sizeof command, "tail -20 %s/log >&2", world.directory);
        if (system(command))
                perror(command);
}

/* Each node lives for `most` at most, and then another one takes its place.  Each third one is stopped for two leases or so. */
static inline void
trouble_node(int place, int64_t most, int64_t stop, int64_t now)
{
        struct child *child = &world.children[place];

        if (child->pid && now >= child->dies) {
                if (child->killed || !stop || chance_below(4)) {
                        kill_node(child);
                } else { /* it may close its stores */
                        child->killed = now;
                        child->dies = now + WEIR_SEC(2);
                        kill(child->pid, SIGTERM);
                }
        }
        siginfo_t info = {.si_pid = 0};
        if (child->pid && waitid(P_PID, (id_t)child->pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid) {
                if (!child->killed || info.si_code != CLD_EXITED || info.si_status)
                        fail_node(&info);
                child->killed = child->killed ? child->killed : now;
                reap_node(child);
        }
        if (!child->pid) {
                start_node(child, place, "any");
                child->dies = now + 1 + chance_below(most);
                if (stop && chance_below(3) == 0)
                        child->stops = now + chance_below(child->dies - now);
                return;
        }
        if (child->continues == INT64_MAX && now >= child->stops && !child->killed) {
                kill(child->pid, SIGSTOP);
                child->stops = now;
                child->continues = now + stop + chance_below(stop);
                child->dies += 2 * stop;
        } else if (now >= child->continues) {
                kill(child->pid, SIGCONT);
                history_say(world.fd, (struct event){.at = child->stops,
                                                     .what = STOPPED,
                                                     .name = -1,
                                                     .process = child->process,
                                                     .span = weir_test_now()});
                child->stops = child->continues = INT64_MAX;
        }
}

/* All nodes at once: for an engine that is the machine. */
static inline void
massacre(int count, int64_t now)
{
        if (now < world.next_massacre)
                return;
        if (world.next_massacre)
                for (int i = 0; i < count; i++)
                        kill_node(&world.children[i]);
        world.next_massacre = now + WEIR_SEC(2) + chance_below(WEIR_SEC(5));
}

static inline void
torment(int count, int64_t most, int64_t stop, int64_t duration)
{
        int64_t now = weir_test_now(), until = now + (world.minutes ? world.minutes * WEIR_SEC(60) : duration);

        for (; now < until; now = weir_test_now()) {
                for (int i = 0; i < count; i++)
                        trouble_node(i, most, stop, now);
                if (world.engine->start) {
                        trouble_connections(count, now);
                        trouble_server(now);
                } else if (stop) {
                        massacre(count, now);
                }
                weir_test_sleep(WEIR_MSEC(2));
        }
        for (int i = 0; i < count; i++) {
                if (world.connections[i].until)
                        undisturb(i, &world.connections[i]);
                kill_node(&world.children[i]);
        }
        if (!world.server.until)
                return;
        start_server_again();
        WEIR_TEST_EVENTUALLY(world.engine->is_there());
        server_is_there();
}

/* -- the verdict -- */

static inline void
judge_world(void)
{
        struct history history = {.lease = world.lease,
                                  .stops_disturb = !world.engine->start,
                                  .draws_early = strcmp(world.engine->name, "postgresql") == 0};
        struct timespec wall;
        int64_t now = weir_test_now();

        clock_gettime(CLOCK_REALTIME, &wall);
        history.wall = WEIR_SEC(wall.tv_sec) + wall.tv_nsec - now + world.shift;

        CU_ASSERT(run_node("last") == 0);
        printf("\n    all timers have ended after %.1f s\n    ", (double)(weir_test_now() - now) / 1e9);
        CU_ASSERT(history_read(&history, world.path));
        CU_ASSERT(history_check(&history) == 0);
        printf("%u sets, %u timers cancelled, %u deliveries, %u of them not the first, %u firings of schedules;\n"
               "    %u nodes ended, %u stops, %u disturbances of connections or the engine;\n"
               "    %u operations without an answer, %u sets for which that may be the reason that they have gone;\n"
               "    %u successes of nodes that were killed or cut off within a lease, and %u of them were seen to be kept\n    ",
               history.sets, history.cancels, history.runs, history.repeats, history.firings, history.kills, history.stops,
               history.disturbances, history.unknown, history.doubtful, history.short_lived, history.seen_gone);
        CU_ASSERT(history.sets > 0 && history.runs > 0 && history.kills > 0);
        if (world.clock_most || world.shift) { /* a library that cannot be preloaded is ignored without a word */
                unsigned right = world.shift ? 0 : 2; /* the first and the last node */

                printf("the clocks of %u nodes were wrong, of %u\n    ", history.wrong_clocks, history.clocks);
                CU_ASSERT(history.wrong_clocks > 0 && history.wrong_clocks + right == history.clocks);
        }
        if (world.minutes) /* in a short run it depends on the load of the machine */
                CU_ASSERT(history.doubtful <= history.sets / 5);
        history_free(&history);
}

#endif
