/* The only node of a file of SQLite is killed, at random instants and between the syncs of its files; and one is stopped.
 *
 * The nodes are those of durable_node.h.  In the end a last one delivers what is left, and the history is judged:
 * durable_checker.h.  Of a power cut each file keeps what was synced, and of the rest all, nothing, or some sectors
 * (power_cut.c).
 *
 *     durable_crash_test        1,000 instants in all, as in CI, or fewer on a slow machine
 *     durable_crash_test 10     for ten minutes each */
#include <sys/stat.h>

#include <weir/waitgroup.h>

#include "durable/store.h"
#include "test/addon/durable_nodes.h"

#define INSTANTS (WEIR_TEST_SANITIZED ? 60 : 500)
#define LEAST    50 /* on a machine that is too slow for all of them within ENOUGH, which is a third of DURABLE_LIMIT */
#define ENOUGH   WEIR_SEC(95)
#define SECTOR   512

static const struct engine sqlite_engine = {.name = "sqlite"};
static int minutes;

/* -- a power cut -- */

struct content {
        char *bytes;
        size_t size;
};

static struct content
read_file(const char *path)
{
        struct content content = {NULL, 0};
        struct stat status;
        FILE *file = fopen(path, "rb");

        if (!file)
                return content;
        if (fstat(fileno(file), &status))
                abort();
        content.size = (size_t)status.st_size;
        content.bytes = malloc(content.size + 1);
        if (!content.bytes || fread(content.bytes, 1, content.size, file) != content.size)
                abort();
        fclose(file);
        return content;
}

static void
write_file(const char *path, struct content content)
{
        FILE *file = fopen(path, "wb");

        if (!file || fwrite(content.bytes, 1, content.size, file) != content.size)
                abort();
        fclose(file);
}

/* What is on the disk: the file at its last sync, with some of the sectors that were written behind it. */
static void
lose_sectors(struct content *synced, struct content written)
{
        int64_t longer = written.size > synced->size ? chance_below((int64_t)(written.size - synced->size) + 1) : 0;

        synced->bytes = realloc(synced->bytes, synced->size + (size_t)longer + 1);
        if (!synced->bytes)
                abort();
        memset(synced->bytes + synced->size, 0, (size_t)longer);
        synced->size += (size_t)longer;
        for (size_t at = 0; at < synced->size && at < written.size; at += SECTOR) {
                size_t end = at + SECTOR < synced->size ? at + SECTOR : synced->size;

                end = end < written.size ? end : written.size;
                if (chance_below(2))
                        memcpy(synced->bytes + at, written.bytes + at, end - at);
        }
}

static void
cut_power(void)
{
        static const char *const suffixes[] = {"", "-wal"};
        char path[120], synced[130];
        int64_t dice = chance_below(3);

        for (size_t i = 0; i < sizeof suffixes / sizeof *suffixes; i++) {
                snprintf(path, sizeof path, "%s%s", world.file, suffixes[i]);
                snprintf(synced, sizeof synced, "%s.synced", path);
                struct content old = read_file(synced), new = read_file(path);

                if (dice && old.bytes && new.bytes)
                        lose_sectors(&old, new);
                if (old.bytes) {
                        write_file(path, old);
                        write_file(synced, old);
                } else {
                        unlink(path);
                }
                free(old.bytes);
                free(new.bytes);
        }
        snprintf(path, sizeof path, "%s-shm", world.file);
        unlink(path);
}

/* -- the only node -- */

static bool
has_ended(const struct child *child)
{
        siginfo_t info = {.si_pid = 0};

        return waitid(P_PID, (id_t)child->pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid;
}

static off_t
size_of_history(void)
{
        struct stat status;

        if (fstat(world.fd, &status))
                abort();
        return status.st_size;
}

/* Waits until the node has said something, on however slow a machine. */
static void
await_a_word(const struct child *child, off_t size)
{
        int64_t began = weir_test_now();

        while (size_of_history() == size && !has_ended(child))
                weir_test_pause(began, "a node says something", __FILE__, __LINE__);
}

static bool
has_run_a_handler(void)
{
        FILE *file = fopen(world.path, "rb");
        struct event event;
        bool has_run = false;

        while (file && !has_run && fread(&event, sizeof event, 1, file) == 1)
                has_run = event.what == RUN_BEGUN;
        if (file)
                fclose(file);
        return has_run;
}

/* A node that lives until it has delivered something: no other one need come as far as that on a slow machine. */
static void
let_one_deliver(void)
{
        struct child *child = &world.children[0];

        setenv("WEIR_TEST_POWER_CUT", "0", 1);
        start_node(child, 0, "busy");
        WEIR_TEST_EVENTUALLY(has_run_a_handler() || has_ended(child));
        child->killed = weir_test_now();
        kill_node(child);
}

/* A node lives for 40 ms at most from its first operation on, or until one of its syncs.  Some do not come as far as that. */
static void
let_one_live(bool has_power_cuts)
{
        struct child *child = &world.children[0];
        int64_t life = chance_below(WEIR_MSEC(40)), began = weir_test_now();
        char sync[20] = "0";

        if (has_power_cuts && chance_below(2)) {
                snprintf(sync, sizeof sync, "%d", 1 + (int)chance_below(30));
                life = WEIR_MSEC(100);
        }
        setenv("WEIR_TEST_POWER_CUT", sync, 1);
        start_node(child, 0, "busy");
        if (chance_below(8))
                await_a_word(child, size_of_history());
        int64_t first = weir_test_now();
        while (weir_test_now() - first < life && !has_ended(child))
                weir_test_sleep(WEIR_MSEC(1));
        child->killed = has_ended(child) ? began : weir_test_now();
        kill_node(child);
}

static void
kill_the_only_node(bool has_power_cuts)
{
        int64_t began = weir_test_now(), now = began, until = began + minutes * WEIR_SEC(60);
        int instants = 0;

        begin_world(&sqlite_engine, WEIR_MSEC(400));
        if (has_power_cuts && !WEIR_TEST_SANITIZED) /* whose own library has to come first */
                world.shim = POWER_CUT;
        let_one_deliver();
        while (instants < LEAST || (instants < INSTANTS && now - began < ENOUGH) || now < until) {
                let_one_live(has_power_cuts);
                if (world.shim)
                        cut_power();
                instants++;
                now = weir_test_now();
        }
        world.shim = NULL;
        printf("\n    %d instants; %d are wanted", instants, INSTANTS);
        judge_world();
        end_world();
}

static void
nothing_is_lost_when_the_only_node_is_killed(void)
{
        kill_the_only_node(false);
}

static void
nothing_is_lost_when_the_power_is_cut(void)
{
        kill_the_only_node(true);
}

/* -- a node that is stopped -- */

static atomic_bool was_stopped;

/* The handler of a node that stops itself, for longer than its lease. */
static void
stop(weir_task *delivery, void *context)
{
        struct event run = {.what = RUN_BEGUN, .name = 7, .token = weir_durable_token(delivery)};

        (void)context;
        say(run);
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

static struct weir__durable_engine_kind of_sqlite, without_renewals;

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
                of_sqlite.submit(of_store, op);
}

/* A node that says how many of its deliveries were lost, as a status, when its only one is over.  It renews nothing, so that no
 * transaction is under way when it is stopped. */
static int
be_stopped(char **arguments)
{
        struct weir_durable_stats stats = WEIR_DURABLE_STATS_DEFAULT;

        become_node(arguments, ATTEMPTS);
        weir_durable_close(node.other);
        of_sqlite = without_renewals = *node.store->engine->kind;
        without_renewals.submit = submit_others;
        node.store->engine->kind = &without_renewals;
        weir_durable_on(node.store, "t", stop, NULL);
        do {
                weir_test_sleep(WEIR_MSEC(5));
                weir_durable_stats(node.store, &stats);
        } while (!atomic_load(&was_stopped) || stats.running > 0);
        say((struct event){.what = SET_TOLD, .status = (int)stats.lost, .generation = stats.acknowledged});
        weir_durable_close(node.store);
        weir_shutdown();
        return 0;
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

static void
judge_stopped(void)
{
        struct history history = {.lease = 0};
        unsigned begun = 0, told = 0;

        CU_ASSERT(history_read(&history, world.path));
        for (size_t i = 0; i < history.count; i++) {
                const struct event *event = &history.events[i];

                if (event->what == RUN_BEGUN) {
                        CU_ASSERT(event->token < atomic_load(&token_taken));
                        begun++;
                } else if (event->what == SET_TOLD) {
                        CU_ASSERT(event->status == 1 && event->generation == 0); /* lost, acknowledged */
                        told++;
                }
        }
        CU_ASSERT(begun == 1 && told == 1);
        history_free(&history);
}

/* The node is stopped in its handler.  This process delivers in its place.  The end of the first handler changes nothing. */
static void
a_node_that_was_stopped_finds_its_token_refused(void)
{
        struct weir_durable_config config = WEIR_DURABLE_CONFIG_DEFAULT;
        struct child child;
        char url[200];
        int status;

        begin_world(&sqlite_engine, WEIR_SEC(2)); /* a machine may be slow between a claim and its handler */
        weir_test_latch_init(&taken, 1);
        start_node(&child, 0, "stop");
        write_url(url, sizeof url, 0);
        config.look = WEIR_MSEC(200);
        weir_durable *store = weir_durable_open_with(&config, url);
        CU_ASSERT_PTR_NOT_NULL_FATAL(store);
        CU_ASSERT(weir_task_run(weir_durable_set_new(store, "7", 0, "t", NULL, 0, NULL, NULL)) == 0);
        CU_ASSERT(waitpid(child.pid, &status, WUNTRACED) == child.pid && WIFSTOPPED(status));
        CU_ASSERT(weir_durable_on(store, "t", take_over, NULL) == 0);
        weir_test_latch_wait(&taken);
        kill(child.pid, SIGCONT);
        CU_ASSERT(reap_node(&child) == 0);
        judge_stopped();
        weir_durable_close(store);
        weir_shutdown();
        end_world();
}

int
main(int argc, char **argv)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(nothing_is_lost_when_the_only_node_is_killed),
                WEIR_TEST(nothing_is_lost_when_the_power_is_cut),
                WEIR_TEST(a_node_that_was_stopped_finds_its_token_refused),
        };

        if (argc == NODE_ARGUMENTS && strcmp(argv[1], "node") == 0)
                return strcmp(argv[8], "stop") == 0 ? be_stopped(argv) : be_a_node(argv);
        minutes = argc > 1 ? atoi(argv[1]) : 0;
        setenv("WEIR_TEST_LIMIT", minutes ? "0" : DURABLE_LIMIT, minutes != 0);
        return weir_test_main("durable timers and crashes", tests, sizeof tests / sizeof *tests);
}
