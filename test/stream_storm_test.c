/* test/stream_storm_test.c: threads that connect, read, write, finish, break, close and cancel at random, against a server in the
 * same process, over TCP, Unix sockets and TLS.
 *
 * Each callback comes once, with a status that the header names, and in the end descriptors and memory are as before. */
#include "test/faults_fixture.h"
#include "test/fixture.h"
#include "test/tls_peer.h"

#include <sys/mman.h>

#define THREADS    4
#define OPERATIONS 100000 /* of all threads */
#define OVER_TLS   (WEIR_TEST_SANITIZED ? 1000 : 4000)
#define SLOTS      24
#define ENOUGH     (storm.trust ? 60 : 300) /* tasks under way */
#define FILE_SIZE  30000

static struct {
        weir_stream_server *server;
        char addresses[2][64];
        bool is_secure;
        weir_tls *trust; /* of one storm, because it keeps sessions; NULL: plain */
        unsigned operations;
        _Atomic bool is_shut_down; /* in the middle */
        _Atomic unsigned made;     /* operations */

        _Atomic unsigned under_way, connected, moved, ended[2]; /* tasks, by whether their status is 0 */

        /* Guarded by lock. */
        pthread_mutex_t lock;
        weir_stream *slots[SLOTS];
        weir_series *series[SLOTS];
} storm = {.lock = PTHREAD_MUTEX_INITIALIZER};

static int file;
static const char text[5000] = "0123456789\n";

/* -- the server -- */

static void answer(weir_task *read, void *stream);

static weir_task *
next_read(weir_stream *stream, unsigned what)
{
        return what % 3 ? weir_stream_read_new(stream, 1, 4096, answer, stream)
                        : weir_stream_read_until_new(stream, "\n", 1, 4096, answer, stream);
}

/* What it does depends on how many bytes have come. */
static void
answer(weir_task *read, void *context)
{
        weir_stream *stream = context;
        weir_series *series = weir_series_of(read);
        size_t size;
        const void *data = weir_stream_data(read, &size);

        if (weir_task_status(read) != 0 || size % 31 == 30)
                return;
        if (size % 37 == 36)
                weir_stream_break(stream);
        if (size % 17 == 16)
                weir_series_push(series, weir_stream_write_file_new(stream, file, size, UINT64_MAX, NULL, NULL));
        else
                weir_series_push(series, weir_stream_write_new(stream, data, size, NULL, NULL));
        if (size % 23 == 22)
                weir_series_push(series, weir_stream_finish_new(stream, NULL, NULL));
        weir_series_push(series, next_read(stream, (unsigned)size));
}

static void
serve(weir_stream *stream, weir_series *series, void *context)
{
        (void)context;
        weir_series_push(series, next_read(stream, 1));
}

/* -- operations -- */

struct operation {
        int calls;
        bool is_first; /* of a series that has started; those behind are left out when it ends early */
};

static bool
is_named(int status)
{
        static const int named[] = {0,        EPIPE,        ECONNRESET,    ECONNABORTED, ECANCELED, ETIMEDOUT,
                                    EMSGSIZE, ECONNREFUSED, EADDRNOTAVAIL, EMFILE,       ESHUTDOWN, EPROTO};
        bool is_one = false;

        for (size_t i = 0; i < sizeof named / sizeof *named; i++)
                is_one = is_one || status == -named[i];
        return is_one;
}

static void
ended(weir_task *task, void *context)
{
        struct operation *operation = context;
        int status = weir_task_status(task);
        size_t size;

        operation->calls++;
        if (!is_named(status))
                fprintf(stderr, "status %d\n", status);
        CU_ASSERT(is_named(status));
        if (weir_stream_data(task, &size))
                storm.moved += (unsigned)size;
        storm.ended[status == 0]++;
}

/* The stream goes into a slot, and the one that was there is closed. */
static void
keep_stream(weir_task *connect, void *context)
{
        weir_stream *stream = weir_connect_take_stream(connect), *former;
        unsigned slot = storm.connected % SLOTS;

        ended(connect, context);
        if (!stream)
                return;
        storm.connected++;
        pthread_mutex_lock(&storm.lock);
        former = storm.slots[slot];
        storm.slots[slot] = stream;
        pthread_mutex_unlock(&storm.lock);
        weir_stream_unref(former);
}

static void
freed(void *context)
{
        struct operation *operation = context;

        CU_ASSERT(operation->calls == 1 || (operation->calls == 0 && (!operation->is_first || storm.is_shut_down)));
        free(operation);
        storm.under_way--;
}

static weir_task *
make(struct weir_test_random *random, unsigned what, weir_stream *stream, struct operation *operation)
{
        size_t size = 1 + weir_test_random_below(random, weir_test_random_below(random, 4) ? 100 : sizeof text - 1);
        struct iovec pieces[] = {{(void *)text, size}, {(void *)text, size}, {NULL, 0}};
        const char *address = storm.addresses[weir_test_random_below(random, 4) == 0];

        switch (what) {
        case 0: return weir_stream_write_new(stream, text, size, ended, operation);
        case 1: return weir_stream_write_pieces_new(stream, pieces, 3, ended, operation);
        case 2: return weir_stream_write_lent_new(stream, text, size, ended, operation);
        case 3: return weir_stream_write_file_new(stream, file, size, UINT64_MAX, ended, operation);
        case 4:
        case 5: return weir_stream_read_new(stream, 1, size, ended, operation);
        case 6: return weir_stream_read_new(stream, size, size, ended, operation);
        case 7: return weir_stream_read_until_new(stream, "\n", 1, size, ended, operation);
        case 8: return weir_stream_finish_new(stream, ended, operation);
        default:
                return storm.trust
                               ? weir_connect_tls_new(storm.addresses[1], storm.trust, "server.example", keep_stream, operation)
                               : weir_connect_new(address, keep_stream, operation);
        }
}

static void
push(struct weir_test_random *random, weir_series *series, unsigned what, weir_stream *stream, bool is_first)
{
        struct operation *operation = malloc(sizeof *operation);
        weir_task *task = make(random, what, stream, operation);

        *operation = (struct operation){.is_first = is_first};
        storm.under_way++;
        weir_task_on_free(task, freed);
        CU_ASSERT_EQUAL(weir_series_push(series, task), 0);
}

/* A stream of another time, with a reference; or NULL.  It may be taken out. */
static weir_stream *
any_stream(struct weir_test_random *random, bool should_take)
{
        unsigned slot = (unsigned)weir_test_random_below(random, SLOTS);

        pthread_mutex_lock(&storm.lock);
        weir_stream *stream = should_take ? storm.slots[slot] : weir_stream_ref(storm.slots[slot]);
        if (should_take)
                storm.slots[slot] = NULL;
        pthread_mutex_unlock(&storm.lock);
        return stream;
}

static void
cancel_any(struct weir_test_random *random)
{
        unsigned slot = (unsigned)weir_test_random_below(random, SLOTS);

        pthread_mutex_lock(&storm.lock);
        weir_series *series = storm.series[slot];
        storm.series[slot] = NULL;
        pthread_mutex_unlock(&storm.lock);
        if (series)
                weir_series_cancel(series);
        weir_series_unref(series);
}

static void
keep_series(struct weir_test_random *random, weir_series *series)
{
        unsigned slot = (unsigned)weir_test_random_below(random, SLOTS);

        pthread_mutex_lock(&storm.lock);
        weir_series *former = storm.series[slot];
        storm.series[slot] = series;
        pthread_mutex_unlock(&storm.lock);
        weir_series_unref(former);
}

/* One to three tasks of one stream, one after another, within some milliseconds; a handshake takes longer. */
static void
start_some(struct weir_test_random *random)
{
        weir_series *series = weir_series_ref(weir_series_new(NULL, NULL));
        weir_stream *stream = any_stream(random, false);
        unsigned count = stream ? 1 + (unsigned)weir_test_random_below(random, 3) : 1;

        for (unsigned i = 0; i < count; i++)
                push(random, series, stream ? (unsigned)weir_test_random_below(random, 10) : 9, stream, i == 0);
        int failed = weir_series_start(series);
        CU_ASSERT(failed == 0 || (failed == -ESHUTDOWN && storm.is_shut_down));
        weir_series_set_deadline(series, (storm.trust ? WEIR_MSEC(5) : WEIR_USEC(100)) *
                                                 (1 + (weir_nsec)weir_test_random_below(random, 200)));
        weir_stream_unref(stream);
        keep_series(random, series);
}

static void
act(struct weir_test_random *random)
{
        char name[100];
        weir_stream *stream;

        switch (weir_test_random_below(random, 16)) {
        case 0:
                stream = any_stream(random, weir_test_random_below(random, 2));
                weir_stream_break(stream);
                weir_stream_unref(stream);
                break;
        case 1: weir_stream_unref(any_stream(random, true)); break;
        case 2:
                stream = any_stream(random, false);
                (void)weir_stream_peer(stream, name, sizeof name);
                (void)weir_stream_unsent(stream);
                weir_stream_unref(stream);
                break;
        case 3:
        case 4: cancel_any(random); break;
        default: start_some(random);
        }
}

static void *
rage(void *number)
{
        struct weir_test_random random = {.state = weir_test_seed() + (uintptr_t)number};

        for (unsigned i = 0; i < storm.operations / THREADS && !storm.is_shut_down; i++) {
                while (storm.under_way > ENOUGH)
                        weir_test_sleep(10000);
                act(&random);
                storm.made++;
        }
        return NULL;
}

/* -- the storm -- */

static void
begin(void)
{
        struct weir_stream_server_config config = WEIR_STREAM_SERVER_CONFIG_DEFAULT;
        struct weir_tls_config of_client = WEIR_TLS_CONFIG_DEFAULT;
        char both[100];

        if (storm.is_secure) {
                of_client.ca_file = tls_path("ca.pem");
                storm.trust = weir_tls_client_new(&of_client);
                config.certificate_file = tls_path("server.pem");
                config.private_key_file = tls_path("server.key");
        }
        storm.under_way = storm.connected = storm.moved = storm.ended[0] = storm.ended[1] = 0;
        weir_test_begin_real(2);
        storm.server = weir_stream_server_new(&config, serve, NULL);
        snprintf(storm.addresses[0], sizeof storm.addresses[0], "unix:@weir-stream-storm-%d", getpid());
        snprintf(both, sizeof both, "127.0.0.1:0,%s", storm.addresses[0]);
        CU_ASSERT_EQUAL_FATAL(weir_stream_server_start(storm.server, both), 0);
        snprintf(storm.addresses[1], sizeof storm.addresses[1], "127.0.0.1:%d", weir_stream_server_port(storm.server));
}

static void
close_all(void)
{
        for (unsigned i = 0; i < SLOTS; i++) {
                weir_stream_unref(storm.slots[i]);
                weir_series_unref(storm.series[i]);
                storm.slots[i] = NULL;
                storm.series[i] = NULL;
        }
}

static void
end(void)
{
        WEIR_TEST_EVENTUALLY(storm.under_way == 0);
        close_all();
        weir_tls_unref(storm.trust);
        storm.trust = NULL;
        if (storm.is_shut_down) {
                weir_stream_server_free(storm.server);
                (void)weir_shutdown(); /* of a runtime that a late start has made */
                weir_test_free_kept();
                storm.is_shut_down = false;
                return;
        }
        CU_ASSERT_EQUAL(weir_stream_server_stop(storm.server, WEIR_TEST_TOLERANCE), 0);
        weir_stream_server_free(storm.server);
        weir_test_end();
        weir_test_free_kept();
}

/* `until` so many are made the runtime is up; 0: to the end. */
static void
run(unsigned operations, unsigned until)
{
        pthread_t threads[THREADS];

        storm.operations = operations;
        storm.made = 0;
        for (uintptr_t i = 0; i < THREADS; i++)
                CU_ASSERT_EQUAL_FATAL(pthread_create(&threads[i], NULL, rage, (void *)(i + 1)), 0);
        if (until) {
                WEIR_TEST_EVENTUALLY(storm.made >= until);
                storm.is_shut_down = true;
                CU_ASSERT_EQUAL(weir_shutdown(), 0);
        }
        for (unsigned i = 0; i < THREADS; i++)
                pthread_join(threads[i], NULL);
}

static void
run_storm(unsigned operations)
{
        begin(); /* what the library keeps for ever is there from here on */
        run(500, 0);
        end();
        unsigned fds = weir_test_entries_of("/proc/self/fd");
        int64_t bytes = bytes_out, blocks = blocks_out;
        begin();
        run(operations, 0);
        end();
        fprintf(stderr, "seed %llu: %u connected, %u tasks well, %u not, %u bytes ", (unsigned long long)weir_test_seed(),
                storm.connected, storm.ended[1], storm.ended[0], storm.moved);
        CU_ASSERT(storm.connected && storm.ended[1]);
        CU_ASSERT_EQUAL(weir_test_entries_of("/proc/self/fd"), fds);
        CU_ASSERT_EQUAL(bytes_out, bytes);
        CU_ASSERT_EQUAL(blocks_out, blocks);
}

static void
a_storm_of_plain_streams_leaves_nothing_behind(void)
{
        run_storm(OPERATIONS);
}

static void
a_storm_over_tls_leaves_nothing_behind(void)
{
        storm.is_secure = true;
        run_storm(OVER_TLS);
        storm.is_secure = false;
}

static void
a_shutdown_in_a_storm_leaves_nothing_behind(void)
{
        begin();
        run(500, 0);
        end();
        unsigned fds = weir_test_entries_of("/proc/self/fd");
        int64_t bytes = bytes_out, blocks = blocks_out;
        for (unsigned i = 1; i <= (WEIR_TEST_SANITIZED ? 8 : 25); i++) {
                begin();
                run(OPERATIONS, 20 * i);
                end();
                CU_ASSERT_EQUAL(weir_test_entries_of("/proc/self/fd"), fds);
                CU_ASSERT_EQUAL(bytes_out, bytes);
                CU_ASSERT_EQUAL(blocks_out, blocks);
        }
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(a_storm_of_plain_streams_leaves_nothing_behind),
                WEIR_TEST(a_storm_over_tls_leaves_nothing_behind),
                WEIR_TEST(a_shutdown_in_a_storm_leaves_nothing_behind),
        };

        if (!can_refuse_openssl())
                return 1;
        weir_log_set(NULL, NULL);
        file = memfd_create("file", MFD_CLOEXEC);
        if (ftruncate(file, FILE_SIZE) < 0)
                return 1;
        tls_files_begin();
        tls_make_certificate("ca", &(struct tls_wish){.key = TLS_EC});
        tls_make_certificate("server",
                             &(struct tls_wish){.alternative_names = "DNS:server.example", .issuer = "ca", .key = TLS_EC});
        int result = weir_test_main("stream_storm", tests, sizeof tests / sizeof *tests);
        tls_files_end();
        close(file);
        return result;
}
