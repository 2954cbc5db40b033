/* test/soak.c: servers and clients of all sorts, for a time of choice: replies are right, and all counts return to their start.
 *
 *     soak [seconds]           default: 20
 *
 * The environment: WEIR_TEST_SEED, another seed; WEIR_SOAK_CLIENTS, the number of clients at once, each with up to 20 further
 * connections that it has left open.  docs/http-server.md describes the checks.
 *
 *     era:    the library begins, servers start -> rounds -> servers stop, the library ends: then nothing of it is left
 *     round:  clients come, and one server is stopped and started -> clients leave: then no connection and no exchange is left
 *
 * Threads: the rounds run on the main one, each client on its own, and a watchdog. */
#include <dirent.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "kernel/memory/slab.h"
#include "server/base/server.h"
#include "net/listen/addresses.h"
#include "test/fixture.h"
#include "test/soak.h"

#define MEMORY_BOUND ((size_t)1 << 20) /* bytes that caches of malloc's may hold more, however long it lasts */
#define ROUNDS       2                 /* of an era */

static struct soak_client *clients;
static struct weir_test_random chance;
static int64_t began;
static _Atomic(const char *) phase = "beginning";
static atomic_size_t turns; /* of anything that counts as progress */
static atomic_size_t cut;   /* messages of stops */

static size_t
number_from(const char *text, size_t otherwise)
{
        return text && *text ? strtoul(text, NULL, 10) : otherwise;
}

/* -- counts -- */

static struct usage {
        unsigned descriptors, threads;
        size_t memory;
} at_first;

static unsigned
entries_of(const char *path)
{
        DIR *directory = opendir(path);
        unsigned count = 0;

        if (!directory)
                soak_fail("%s cannot be read", path);
        while (readdir(directory))
                count++;
        closedir(directory);
        return count;
}

static unsigned
descriptors_now(void)
{
        return entries_of("/proc/self/fd") - 3; /* ".", ".." and its own */
}

/* Without those that were joined and are listed for a moment longer. */
static unsigned
threads_now(void)
{
        DIR *directory = opendir("/proc/self/task");
        unsigned count = 0;

        if (!directory)
                soak_fail("/proc/self/task cannot be read");
        for (struct dirent *entry; (entry = readdir(directory));)
                count += entry->d_name[0] != '.' && weir_test_thread_lives(entry->d_name);
        closedir(directory);
        return count;
}

static struct usage
usage_now(void)
{
        struct mallinfo2 info = mallinfo2();

        return (struct usage){descriptors_now(), threads_now(), info.uordblks + info.hblkhd};
}

/* -- failures -- */

static void
print_state(void)
{
        fprintf(stderr, "soak: after %lld s, seed %llu, %s; %zu of %zu exchanges were freed\n",
                (long long)((weir_test_now() - began) / 1000000000), (unsigned long long)weir_test_seed(), atomic_load(&phase),
                atomic_load(&soak_freed), atomic_load(&soak_handled));
        struct usage now = usage_now();
        fprintf(stderr, "soak: %u descriptors and %u threads, after the first era %u and %u\n", now.descriptors, now.threads,
                at_first.descriptors, at_first.threads);
        if (clients)
                soak_clients_print(clients);
}

void
soak_fail(const char *what, ...)
{
        static atomic_flag failed = ATOMIC_FLAG_INIT;
        va_list arguments;

        if (atomic_flag_test_and_set(&failed))
                for (;;)
                        pause();
        fputs("\nsoak: ", stderr);
        va_start(arguments, what);
        vfprintf(stderr, what, arguments);
        va_end(arguments);
        fputc('\n', stderr);
        print_state();
        abort();
}

static void *
watch(void *unused)
{
        size_t before = 0;
        int64_t moved = weir_test_now();

        (void)unused;
        for (;;) {
                size_t now = atomic_load(&soak_sessions) + atomic_load(&turns);

                if (now != before)
                        moved = weir_test_now();
                before = now;
                if (weir_test_now() - moved > WEIR_SEC(SOAK_PATIENT + 15))
                        soak_fail("nothing has moved for %d s", SOAK_PATIENT + 15);
                sleep(1);
        }
        return NULL;
}

/* Waits for what has to come true. */
static void
wait_until(bool (*holds)(void), const char *what)
{
        int64_t since = weir_test_now();

        while (!holds()) {
                if (weir_test_now() - since > WEIR_SEC(SOAK_PATIENT))
                        soak_fail("not within %d s: %s", SOAK_PATIENT, what);
                usleep(2000);
        }
        atomic_fetch_add(&turns, 1);
}

/* -- rounds -- */

static bool
is_quiet(void)
{
        for (int i = 0; i < SOAK_SERVERS; i++)
                if (atomic_load(&soak_servers[i].server->base.connections) || soak_servers[i].server->base.addresses.tree.root)
                        return false;
        return atomic_load(&soak_freed) == atomic_load(&soak_handled);
}

static void
restart(void)
{
        usleep((useconds_t)(50000 + weir_test_random_below(&chance, 600000)));
        soak_server_stop(SOAK_RESTARTED, WEIR_MSEC((weir_nsec)weir_test_random_below(&chance, 300)));
        soak_server_start(SOAK_RESTARTED);
        soak_logs_rotate(&chance);
        atomic_fetch_add(&turns, 1);
}

static void
run_round(int64_t until)
{
        atomic_store(&phase, "clients come");
        soak_clients_begin(clients);
        while (weir_test_now() < until)
                restart();
        atomic_store(&phase, "clients leave");
        soak_clients_end(clients);
        atomic_store(&phase, "after a round");
        wait_until(is_quiet, "no connection, and no exchange, is left");
}

/* -- eras -- */

static bool
is_as_at_first(void)
{
        struct usage now = usage_now();

        return now.descriptors == at_first.descriptors && now.threads == at_first.threads;
}

static void
check_nothing_is_left(bool is_first)
{
        struct usage now;

        atomic_store(&phase, "the library has ended");
        if (!is_first)
                wait_until(is_as_at_first, "as many descriptors and threads as after the first era");
        if (weir__slabs_out())
                soak_fail("%zu small blocks are left", weir__slabs_out());
        now = usage_now();
        if (is_first)
                at_first = now;
        else if (!WEIR_TEST_SANITIZED && now.memory > at_first.memory + MEMORY_BOUND)
                soak_fail("%zu bytes of malloc's are in use, after the first era it was %zu", now.memory, at_first.memory);
        printf("soak: %lld s: %zu sessions, %zu exchanges, %zu compressed, %zu cut by stops, %zu clients too slow; "
               "%zu KiB of malloc's in use\n",
               (long long)((weir_test_now() - began) / 1000000000), atomic_load(&soak_sessions), atomic_load(&soak_handled),
               atomic_load(&soak_packed), atomic_load(&cut), atomic_load(&soak_excused), now.memory >> 10);
        fflush(stdout);
}

static unsigned descriptors_before;

/* A log that was opened anew is closed a moment later. */
static bool
has_descriptors_as_before(void)
{
        return descriptors_now() == descriptors_before;
}

static void
check_all_was_logged(void)
{
        if (atomic_load(&soak_logged) < atomic_load(&soak_handled))
                soak_fail("of %zu exchanges and refusals, the logs have %zu", atomic_load(&soak_handled),
                          atomic_load(&soak_logged));
        if (!atomic_load(&soak_packed))
                soak_fail("no reply was compressed");
}

static void
run_era(bool is_first, int64_t round, int64_t until)
{
        atomic_store(&phase, "servers start");
        int failed = weir_init(NULL);
        if (failed)
                soak_fail("the library does not begin: %s", weir_strerror(failed));
        for (int i = 0; i < SOAK_SERVERS; i++)
                soak_server_start((enum soak_server_kind)i);
        descriptors_before = descriptors_now();
        for (int i = 0; i < ROUNDS && (is_first || weir_test_now() < until); i++) {
                run_round(weir_test_now() + round);
                wait_until(has_descriptors_as_before, "as many descriptors as before the clients came");
        }
        atomic_store(&phase, "servers stop");
        for (int i = 0; i < SOAK_SERVERS; i++)
                soak_server_stop((enum soak_server_kind)i, WEIR_SEC(SOAK_PATIENT));
        atomic_store(&phase, "the library ends");
        weir_shutdown();
        atomic_fetch_add(&turns, 1);
        check_all_was_logged();
        check_nothing_is_left(is_first);
}

static void
count_message(enum weir_log_level level, const char *message, void *context)
{
        (void)context;
        if (strstr(message, "stop has cut"))
                atomic_fetch_add(&cut, 1);
        else if (level == WEIR_LOG_ERROR)
                fprintf(stderr, "%s\n", message);
}

int
main(int argc, char *argv[])
{
        int64_t seconds = (int64_t)number_from(argc > 1 ? argv[1] : NULL, 20), round = seconds / 8;
        struct rlimit files;
        pthread_t watchdog;

        began = weir_test_now();
        round = WEIR_SEC(round < 1 ? 1 : round > 10 ? 10 : round);
        signal(SIGPIPE, SIG_IGN); /* of OpenSSL's clients */
        if (getrlimit(RLIMIT_NOFILE, &files) == 0 && (files.rlim_cur = files.rlim_max))
                setrlimit(RLIMIT_NOFILE, &files);
        chance.state = weir_test_seed();
        weir_log_set(count_message, NULL);
        soak_files_begin();
        clients = soak_clients_new((unsigned)number_from(getenv("WEIR_SOAK_CLIENTS"), 16), weir_test_seed());
        if (pthread_create(&watchdog, NULL, watch, NULL))
                soak_fail("no thread for the watchdog");
        for (bool is_first = true; is_first || weir_test_now() < began + WEIR_SEC(seconds); is_first = false)
                run_era(is_first, round, began + WEIR_SEC(seconds));
        pthread_cancel(watchdog);
        pthread_join(watchdog, NULL);
        soak_clients_free(clients);
        clients = NULL;
        soak_files_end();
        printf("soak: all is as it was\n");
        return 0;
}
