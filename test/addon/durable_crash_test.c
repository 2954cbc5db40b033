/* Nodes of one file of SQLite that are killed and stopped at random instants.
 *
 * The parent starts nodes: this program with "node" as its first argument.  A node sets, cancels, extends and delivers at
 * random, and says what it does, and what it is told, through a pipe.  In the end all are killed, and one last node delivers
 * what is left.  Then the history is judged (durable_history.h).
 *
 *     durable_crash_test        some seconds for each test, as in CI
 *     durable_crash_test 10     each for ten minutes */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <weir/durable.h>
#include <weir/runtime.h>
#include <weir/series.h>
#include <weir/timer.h>
#include <weir/waitgroup.h>

#include "durable/store.h"
#include "test/addon/durable_history.h"
#include "test/support.h"

#define NAMES 40
#define LOOPS 8

/* -- a node -- */

static struct {
        int out;
        weir_durable *store;
        atomic_uint_fast64_t random;
        atomic_int operation;
} node;

static uint64_t
random_below(uint64_t limit)
{
        struct weir_test_random one = {atomic_fetch_add(&node.random, 0x9e3779b97f4a7c15u)};

        return weir_test_random_below(&one, limit);
}

static void
say(enum what what, int name, int operation, int status, uint64_t generation, uint64_t token)
{
        char line[200];
        int size = snprintf(line, sizeof line, "%lld %c %d %d %d %llu %llu\n", (long long)weir_test_now(), (char)what, name,
                            operation, status, (unsigned long long)generation, (unsigned long long)token);

        if (write(node.out, line, (size_t)size) != size)
                _exit(1);
}

struct act {
        int name, operation;
};

static void act(weir_task *timer, void *context);

static void
act_again(void)
{
        weir_task_start(weir_timer_new(WEIR_USEC(random_below(3000)), act, NULL));
}

static void
on_set(weir_task *task, void *context)
{
        struct act *done = context;

        say(SET_TOLD, done->name, done->operation, weir_task_status(task), weir_durable_generation(task), 0);
        act_again();
}

static void
on_cancel(weir_task *task, void *context)
{
        struct act *done = context;

        say(CANCEL_TOLD, done->name, done->operation, weir_task_status(task), weir_durable_generation(task), 0);
        act_again();
}

static void
on_extend(weir_task *task, void *context)
{
        (void)task, (void)context;
        act_again();
}

static void
act(weir_task *timer, void *context)
{
        struct act *next = malloc(sizeof *next);
        uint64_t dice = random_below(100);
        char name[20];

        (void)context;
        if (weir_task_status(timer) || !next) {
                free(next);
                return;
        }
        *next = (struct act){(int)random_below(NAMES), atomic_fetch_add(&node.operation, 1) + 1};
        snprintf(name, sizeof name, "%d", next->name);
        weir_task *task;
        if (dice < 60) {
                weir_nsec after = dice < 20 ? 0 : WEIR_USEC(random_below(100000));

                say(SET_BEGUN, next->name, next->operation, 0, 0, 0);
                task = weir_durable_set_after_new(node.store, name, after, "t", name, strlen(name), on_set, next);
        } else if (dice < 90) {
                say(CANCEL_BEGUN, next->name, next->operation, 0, 0, 0);
                task = weir_durable_cancel_new(node.store, name, on_cancel, next);
        } else {
                task = weir_durable_extend_new(node.store, name, WEIR_MSEC(random_below(40)) - WEIR_MSEC(20), on_extend, next);
        }
        weir_task_set_context(task, next, free);
        weir_task_start(task);
}

struct run {
        int name, operation;
        uint64_t generation, token;
};

static void
say_end(const struct run *run, int status)
{
        say(RUN_ENDED, run->name, run->operation, status, run->generation, run->token);
}

static void
on_pause(weir_task *timer, void *run)
{
        say_end(run, weir_task_status(timer));
}

static void
deliver(weir_task *delivery, void *context)
{
        struct run *run = malloc(sizeof *run);
        uint64_t dice = random_below(100);

        (void)context;
        if (!run)
                abort();
        *run = (struct run){atoi(weir_durable_name(delivery)), -atomic_fetch_add(&node.operation, 1) - 1,
                            weir_durable_generation(delivery), weir_durable_token(delivery)};
        say(RUN_BEGUN, run->name, run->operation, 0, run->generation, run->token);
        if (dice < 10) {
                say_end(run, -EIO);
                weir_series_fail(weir_series_of(delivery), -EIO);
        } else if (dice < 40) {
                weir_task *timer = weir_timer_new(WEIR_MSEC(random_below(20)), on_pause, run);

                weir_task_set_context(timer, run, free);
                weir_series_push(weir_series_of(delivery), timer);
                return;
        } else {
                say_end(run, 0);
        }
        free(run);
}

static atomic_bool was_stopped;

/* The handler of a node that stops itself, for longer than its lease. */
static void
stop(weir_task *delivery, void *context)
{
        struct run run = {atoi(weir_durable_name(delivery)), -1, weir_durable_generation(delivery), weir_durable_token(delivery)};

        (void)context;
        say(RUN_BEGUN, run.name, run.operation, 0, run.generation, run.token);
        /* Not in the middle of a look: its transaction would keep the others from the file. */
        pthread_mutex_lock(&node.store->lock);
        while (node.store->is_looking) {
                pthread_mutex_unlock(&node.store->lock);
                weir_test_sleep(WEIR_MSEC(1));
                pthread_mutex_lock(&node.store->lock);
        }
        raise(SIGSTOP);
        atomic_store(&was_stopped, true);
        pthread_mutex_unlock(&node.store->lock);
        say_end(&run, 0);
}

static struct weir__durable_engine_kind engine, without_renewals;

static void
end_badly(weir_task *task, void *op)
{
        (void)task;
        weir__durable_op_end(op, -EIO);
}

static void
submit_others(struct weir__durable_engine *of_store, struct weir__durable_op *op)
{
        if (op->kind == WEIR__DURABLE_RENEW)
                weir_task_start(weir_empty_new(end_badly, op));
        else
                engine.submit(of_store, op);
}

/* A node that says how many of its deliveries were lost, as a status, when its only one is over.  It renews nothing, so that no
 * transaction is under way when it is stopped. */
static int
be_stopped(void)
{
        struct weir_durable_stats stats = WEIR_DURABLE_STATS_DEFAULT;

        engine = without_renewals = *node.store->engine->kind;
        without_renewals.submit = submit_others;
        node.store->engine->kind = &without_renewals;
        weir_durable_on(node.store, "t", stop, NULL);
        do {
                weir_test_sleep(WEIR_MSEC(5));
                weir_durable_stats(node.store, &stats);
        } while (!atomic_load(&was_stopped) || stats.running > 0);
        say(SET_TOLD, 0, 0, (int)stats.lost, stats.acknowledged, 0);
        weir_durable_close(node.store);
        weir_shutdown();
        return 0;
}

static uint64_t left;

static void
on_count(weir_task *task, void *context)
{
        (void)context;
        left = weir_task_status(task)
                       ? UINT64_MAX
                       : weir_durable_counted(task, WEIR_DURABLE_PENDING) + weir_durable_counted(task, WEIR_DURABLE_LEASED);
}

/* node FILE DESCRIPTOR SEED LEASE MODE */
static int
be_a_node(char **arguments)
{
        struct weir_durable_config config = WEIR_DURABLE_CONFIG_DEFAULT;
        bool is_last = strcmp(arguments[6], "last") == 0;
        char url[300];

        snprintf(url, sizeof url, "sqlite:%s", arguments[2]);
        node.out = atoi(arguments[3]);
        node.random = strtoull(arguments[4], NULL, 10);
        config.lease = strtoll(arguments[5], NULL, 10);
        config.retry = WEIR_MSEC(20);
        config.attempts = 1000;
        config.look = WEIR_SEC(1);
        node.store = weir_durable_open_with(&config, url);
        if (node.store && strcmp(arguments[6], "stop") == 0)
                return be_stopped();
        if (!node.store || weir_durable_on(node.store, "t", deliver, NULL))
                return 1;
        if (!is_last) {
                for (int i = 0; i < LOOPS; i++)
                        act_again();
                for (;;)
                        pause();
        }
        do {
                weir_test_sleep(WEIR_MSEC(20));
                weir_task_run(weir_durable_count_new(node.store, "", on_count, NULL));
        } while (left);
        weir_durable_close(node.store);
        weir_shutdown();
        return 0;
}

/* -- the parent -- */

struct child {
        pid_t pid; /* 0: it is not there */
        int in;
        int process;
        int64_t dies, stops, continues;
        char buffer[8192];
        size_t size;
};

static char directory[] = "/tmp/weir-durable-crash-XXXXXX";
static char file[100];
static int processes, minutes;
static bool has_power_cuts; /* a killed node leaves what was synced, and nothing else: power_cut.c */
static struct history history;
static struct weir_test_random chance;

static void
start(struct child *child, const char *mode)
{
        char out[20], seed[30], lease[30];
        int ends[2];

        if (pipe2(ends, O_CLOEXEC) < 0)
                abort();
        child->process = ++processes;
        child->size = 0;
        child->in = ends[0];
        child->stops = child->continues = child->dies = INT64_MAX;
        snprintf(out, sizeof out, "%d", ends[1]);
        snprintf(seed, sizeof seed, "%llu", (unsigned long long)weir_test_random(&chance));
        snprintf(lease, sizeof lease, "%lld", (long long)history.lease);
        child->pid = fork();
        if (child->pid == 0) {
                prctl(PR_SET_PDEATHSIG, SIGKILL);
                fcntl(ends[1], F_SETFD, 0);
                if (has_power_cuts)
                        setenv("LD_PRELOAD", POWER_CUT, 1);
                execl("/proc/self/exe", "node", "node", file, out, seed, lease, mode, NULL);
                _exit(127);
        }
        close(ends[1]);
        if (child->pid < 0)
                abort();
}

static void
note(const struct child *child, const char *line)
{
        long long at;
        char what;
        int name, operation, status;
        unsigned long long generation, token;

        if (sscanf(line, "%lld %c %d %d %d %llu %llu", &at, &what, &name, &operation, &status, &generation, &token) == 7)
                history_add(&history,
                            (struct event){at, (enum what)what, child->process, name, operation, status, generation, token});
        else
                fprintf(stderr, "a node says: %s\n", line);
}

/* Takes what the node has said.  Result: false at its end. */
static bool
take(struct child *child)
{
        ssize_t size = read(child->in, child->buffer + child->size, sizeof child->buffer - 1 - child->size);

        if (size <= 0)
                return false;
        child->size += (size_t)size;
        child->buffer[child->size] = '\0';
        char *line = child->buffer, *end;
        while ((end = strchr(line, '\n')) != NULL) {
                *end = '\0';
                note(child, line);
                line = end + 1;
        }
        child->size -= (size_t)(line - child->buffer);
        memmove(child->buffer, line, child->size);
        return true;
}

/* Waits for the end of a node, whose last words are taken. */
static int
finish(struct child *child)
{
        int status;

        while (take(child)) {
        }
        close(child->in);
        waitpid(child->pid, &status, 0);
        child->pid = 0;
        return status;
}

/* Writes a copy of a file in its place; without one to copy the file is removed. */
static void
copy_file(const char *from, const char *to)
{
        FILE *in = fopen(from, "rb"), *out;
        char block[65536];
        size_t size;

        unlink(to);
        if (!in)
                return;
        out = fopen(to, "wb");
        if (!out)
                abort();
        while ((size = fread(block, 1, sizeof block, in)) > 0)
                if (fwrite(block, 1, size, out) != size)
                        abort();
        fclose(in);
        fclose(out);
}

/* What a disk has after the power was cut: of each file what it was at its last sync. */
static void
cut_power(void)
{
        static const char *const suffixes[] = {"", "-wal"};
        char path[200], synced[210];

        for (size_t i = 0; i < sizeof suffixes / sizeof *suffixes; i++) {
                snprintf(path, sizeof path, "%s%s", file, suffixes[i]);
                snprintf(synced, sizeof synced, "%s.synced", path);
                copy_file(synced, path);
        }
        snprintf(path, sizeof path, "%s-shm", file);
        unlink(path);
}

static void
end_of(struct child *child)
{
        int64_t now = weir_test_now(); /* an operation may have been carried out until its process is gone */

        kill(child->pid, SIGKILL);
        finish(child);
        if (has_power_cuts)
                cut_power();
        history_add(&history, (struct event){.at = now, .what = KILLED, .process = child->process, .name = -1});
}

static void
begin(int64_t lease)
{
        static int number;

        if (number == 0 && !mkdtemp(directory))
                abort();
        snprintf(file, sizeof file, "%s/%d.db", directory, number++);
        history = (struct history){.lease = lease};
        has_power_cuts = false;
        chance.state = weir_test_seed();
}

static void
judge(const char *what)
{
        struct child last = {0};

        start(&last, "last");
        CU_ASSERT(finish(&last) == 0);
        CU_ASSERT(history_check(&history, true) == 0);
        printf("%s: %u sets, %u cancels, %u deliveries, %u kills, %u stops, %u operations without an answer\n", what,
               history.sets, history.cancels, history.runs, history.kills, history.stops, history.unknown);
        CU_ASSERT(history.sets > 0 && history.runs > 0 && history.kills > 0);
        free(history.events);
}

/* Each node lives for `most` at most, and then another one takes its place.  A node may be stopped for `stop`. */
static void
torment(int count, int64_t most, int64_t stop, int64_t duration)
{
        int64_t until = weir_test_now() + (minutes ? minutes * INT64_C(60000000000) : duration);
        struct child children[5] = {0};
        struct pollfd polls[5];

        while (weir_test_now() < until) {
                int64_t now = weir_test_now();

                for (int i = 0; i < count; i++) {
                        struct child *child = &children[i];

                        if (child->pid && now >= child->dies)
                                end_of(child);
                        if (!child->pid) {
                                start(child, "any");
                                child->dies = now + 1 + (int64_t)weir_test_random_below(&chance, (uint64_t)most);
                                if (stop && weir_test_random_below(&chance, 3) == 0)
                                        child->stops = now +
                                                       (int64_t)weir_test_random_below(&chance, (uint64_t)(child->dies - now));
                        }
                        if (now >= child->stops) {
                                kill(child->pid, SIGSTOP);
                                history_add(&history,
                                            (struct event){.at = now, .what = STOPPED, .process = child->process, .name = -1});
                                child->stops = INT64_MAX;
                                child->continues = now + stop;
                                child->dies = child->dies + stop;
                        }
                        if (now >= child->continues) {
                                kill(child->pid, SIGCONT);
                                child->continues = INT64_MAX;
                        }
                        polls[i] = (struct pollfd){.fd = child->in, .events = POLLIN};
                }
                poll(polls, (nfds_t)count, 1);
                for (int i = 0; i < count; i++)
                        if (polls[i].revents && !take(&children[i]))
                                children[i].dies = 0; /* it has ended by itself, which the judge will not like */
        }
        for (int i = 0; i < count; i++)
                if (children[i].pid)
                        end_of(&children[i]);
}

static void
nothing_is_lost_when_the_only_node_is_killed(void)
{
        begin(WEIR_MSEC(500));
        torment(1, WEIR_MSEC(150), 0, WEIR_SEC(5));
        judge("one node");
}

static void
nothing_is_lost_when_the_power_is_cut(void)
{
        begin(WEIR_MSEC(500));
        has_power_cuts = !WEIR_TEST_SANITIZED; /* whose own library has to come first */
        torment(1, WEIR_MSEC(150), 0, WEIR_SEC(3));
        judge("power cuts");
}

static void
several_nodes_keep_the_promises_when_they_are_killed(void)
{
        begin(WEIR_SEC(1));
        torment(3, WEIR_SEC(1), 0, WEIR_SEC(4));
        judge("three nodes");
}

static void
nodes_that_are_stopped_for_longer_than_a_lease_keep_the_promises(void)
{
        begin(WEIR_MSEC(500));
        torment(3, WEIR_SEC(2), WEIR_MSEC(800), WEIR_SEC(4));
        judge("stopped nodes");
}

static struct weir_test_latch taken;
static _Atomic uint64_t token_taken;

static void
take_over(weir_task *delivery, void *context)
{
        (void)context;
        atomic_store(&token_taken, weir_durable_token(delivery));
        weir_test_latch_count_down(&taken);
}

/* The node is stopped in its handler.  This process delivers in its place.  The end of the first handler changes nothing. */
static void
a_node_that_was_stopped_finds_its_token_refused(void)
{
        struct weir_durable_config config = WEIR_DURABLE_CONFIG_DEFAULT;
        struct child child = {0};
        char url[200];
        int status;

        begin(WEIR_MSEC(300));
        weir_test_latch_init(&taken, 1);
        start(&child, "stop");
        snprintf(url, sizeof url, "sqlite:%s", file);
        config.look = WEIR_MSEC(200);
        weir_durable *store = weir_durable_open_with(&config, url);
        CU_ASSERT_PTR_NOT_NULL_FATAL(store);
        CU_ASSERT(weir_task_run(weir_durable_set_new(store, "7", 0, "t", NULL, 0, NULL, NULL)) == 0);
        CU_ASSERT(waitpid(child.pid, &status, WUNTRACED) == child.pid && WIFSTOPPED(status));
        CU_ASSERT(weir_durable_on(store, "t", take_over, NULL) == 0);
        weir_test_latch_wait(&taken);
        kill(child.pid, SIGCONT);
        CU_ASSERT(finish(&child) == 0);
        CU_ASSERT_FATAL(history.count == 3);
        CU_ASSERT(history.events[0].what == RUN_BEGUN && history.events[0].name == 7);
        CU_ASSERT(history.events[0].token < atomic_load(&token_taken));
        const struct event *figures = &history.events[2];
        CU_ASSERT(figures->status == 1 && figures->generation == 0); /* lost, acknowledged */
        weir_durable_close(store);
        weir_shutdown();
        free(history.events);
}

/* -- the judge itself -- */

static unsigned
verdict(const struct event *events, size_t count)
{
        struct history one = {.lease = 1000, .is_silent = true};

        for (size_t i = 0; i < count; i++)
                history_add(&one, events[i]);
        unsigned violations = history_check(&one, true);
        free(one.events);
        return violations;
}

#define VERDICT(...) \
        verdict((const struct event[]){__VA_ARGS__}, sizeof((const struct event[]){__VA_ARGS__}) / sizeof(struct event))
#define EVENT(at_, what_, process_, ...)                                         \
        {                                                                        \
                .at = (at_), .what = (what_), .process = (process_), __VA_ARGS__ \
        }

static void
the_judge_finds_broken_promises(void)
{
        const struct event set = EVENT(1, SET_BEGUN, 1, .operation = 1);
        const struct event is_set = EVENT(2, SET_TOLD, 1, .operation = 1, .generation = 5);
        const struct event run = EVENT(3, RUN_BEGUN, 1, .operation = -2, .generation = 5, .token = 6);
        const struct event over = EVENT(4, RUN_ENDED, 1, .operation = -2, .generation = 5, .token = 6);
        const struct event cancel = EVENT(5, CANCEL_BEGUN, 2, .operation = 1);
        const struct event cancelled = EVENT(6, CANCEL_TOLD, 2, .operation = 1, .generation = 5);
        const struct event again = EVENT(7, RUN_BEGUN, 2, .operation = -2, .generation = 5, .token = 7);
        const struct event same = EVENT(2000, RUN_BEGUN, 2, .operation = -2, .generation = 5, .token = 6);
        const struct event killed = EVENT(5, KILLED, 1, .name = -1);

        CU_ASSERT(VERDICT(set, is_set, run, over) == 0);
        CU_ASSERT(VERDICT(set, is_set) == 1);         /* lost */
        CU_ASSERT(VERDICT(set, is_set, run) == 1);    /* lost: nobody has succeeded */
        CU_ASSERT(VERDICT(set, is_set, cancel) == 0); /* perhaps cancelled */
        CU_ASSERT(VERDICT(set, is_set, cancel, cancelled) == 0);
        CU_ASSERT(VERDICT(set, is_set, run, over, cancel, cancelled) == 1); /* cancelled, and delivered */
        CU_ASSERT(VERDICT(set, is_set, run, over, again) == 1);             /* twice */
        CU_ASSERT(VERDICT(set, is_set, run, over, killed, again) == 0);
        CU_ASSERT(VERDICT(set, is_set, run, again) == 2);              /* lost, and an overlap */
        CU_ASSERT(VERDICT(set, is_set, run, over, killed, same) == 1); /* a token twice */
}

int
main(int argc, char **argv)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(the_judge_finds_broken_promises),
                WEIR_TEST(a_node_that_was_stopped_finds_its_token_refused),
                WEIR_TEST(nothing_is_lost_when_the_only_node_is_killed),
                WEIR_TEST(nothing_is_lost_when_the_power_is_cut),
                WEIR_TEST(several_nodes_keep_the_promises_when_they_are_killed),
                WEIR_TEST(nodes_that_are_stopped_for_longer_than_a_lease_keep_the_promises),
        };

        if (argc == 7 && strcmp(argv[1], "node") == 0)
                return be_a_node(argv);
        minutes = argc > 1 ? atoi(argv[1]) : 0;
        if (minutes)
                setenv("WEIR_TEST_LIMIT", "0", 1);
        int status = weir_test_main("durable timers and crashes", tests, sizeof tests / sizeof *tests);
        char command[100];
        snprintf(command, sizeof command, "rm -rf %s", directory);
        return system(command) == 0 ? status : 1;
}
