/* test/server_faults_test.c: system calls of the server that fail, one after another, each with what its manual names.
 *
 * A scenario is played again and again, each time with the next call of a kind failing, and perhaps many after it, until it needs
 * no more of them.  Each time the client gets the right reply, or, where the error is a real one, another reply or the end of the
 * connection; the next client is served; no descriptor and no connection is left; and there were not many calls. */
#include <sys/stat.h>

#include "test/body_fixture.h"
#include "test/system_faults.h"
#include "test/tls_peer.h"

#define BOUND     4000 /* calls that a scenario may need */
#define FILE_SIZE ((size_t)100 * 1024)

/* -- handlers -- */

#define TEN "0123456789"

static char directory[] = "/tmp/weir-faults-test-XXXXXX";
static char *large; /* what is in the file */

static void
reply_body(weir_task *exchange, void *context)
{
        size_t size;
        const void *body = weir_http_request_body(exchange, &size);

        (void)context;
        weir_http_reply_append(exchange, body, size);
}

static void read_next(weir_task *write, void *context);

static void
write_piece(weir_task *read, void *context)
{
        size_t size = 0;
        const void *data = weir_http_read_data(read, &size);

        if (weir_task_status(read)) {
                weir_series_cancel(weir_series_of(read));
        } else if (size > 0) {
                weir_series_push(weir_series_of(read), weir_http_write_new(context, data, size, read_next, context));
        }
}

static void
read_next(weir_task *write, void *context)
{
        if (weir_task_status(write)) {
                weir_series_cancel(weir_series_of(write));
        } else {
                weir_series_push(weir_series_of(write), weir_http_read_new(context, write_piece, context));
        }
}

static void
echo_pieces(weir_task *exchange, void *context)
{
        (void)context;
        if (!weir_http_request_header(exchange, "Upgrade") || weir_http_reply_upgrade(exchange, "echo")) {
                weir_series_push(weir_series_of(exchange), weir_http_write_new(exchange, NULL, 0, read_next, exchange));
        } else {
                weir_series_push(weir_series_of(exchange), weir_http_read_new(exchange, write_piece, exchange));
        }
}

static void
reply_large(weir_task *exchange, void *context)
{
        (void)context;
        weir_http_reply_append(exchange, large, FILE_SIZE);
}

/* The head does not fit into the scratch buffer, and the body has no memory of its own. */
static void
reply_large_head(weir_task *exchange, void *context)
{
        (void)context;
        CU_ASSERT_EQUAL(weir_http_reply_header(exchange, "X-Large", large), 0);
        CU_ASSERT_EQUAL(weir_http_reply_text(exchange, 200, TEN), 0);
}

static void
reply_file(weir_task *exchange, void *context)
{
        (void)context;
        weir_http_reply_file(exchange, directory, "file");
}

/* -- scenarios -- */

struct scenario {
        const char *name, *request, *rest; /* the rest comes later */
        unsigned replies;
        bool is_large, is_secure, streams;
        weir_task_fn *handler;
        uint32_t calls; /* which it needs */
};

#define LENGTH POST "Content-Length: 10\r\n\r\n"

static const struct scenario scenarios[] = {
        {"keep-alive", LENGTH "01234", "56789" LENGTH TEN, 2, false, false, false, reply_body, ALWAYS | BIT(SEND)},
        {"pipelined", LENGTH TEN LENGTH TEN LENGTH TEN LENGTH "01234", "56789", 4, false, false, false, reply_body,
         ALWAYS | BIT(SEND)},
        {"closes", POST "Connection: close\r\nContent-Length: 10\r\n\r\n01234", "56789", 1, false, false, false, reply_body,
         ALWAYS | BIT(SEND) | BIT(SHUTDOWN)},
        {"streamed", CHUNKED "5\r\n01234", "\r\n5\r\n56789\r\n" LAST_CHUNK, 1, false, false, true, echo_pieces,
         ALWAYS | BIT(SEND)},
        {"upgrade", "GET / HTTP/1.1\r\n" HOST "Connection: upgrade\r\nUpgrade: echo\r\n\r\n01234", "56789", 1, false, false, true,
         echo_pieces, ALWAYS | BIT(SEND)},
        {"large", GET("/"), "", 1, true, false, false, reply_large, ALWAYS | BIT(SENDMSG)},
        {"file", GET("/"), "", 1, true, false, false, reply_file,
         ALWAYS | BIT(SEND) | BIT(SENDFILE) | BIT(PREAD) | BIT(OPEN) | BIT(OPENAT2) | BIT(FSTAT)},
        {"secure", LENGTH "01234", "56789", 1, false, true, false, reply_body, ALWAYS | BIT(SEND)},
        {"secure file", GET("/"), "", 1, true, true, false, reply_file, ALWAYS | BIT(SEND) | BIT(PREAD)},
};

/* The right one; else it is an error, or none. */
static bool
is_right(const struct scenario *scenario)
{
        const char *expected = scenario->is_large ? large : TEN;

        if (!http_receive(&at.client, &at.reply, false)) {
                return false;
        }
        if (at.reply.status == 101) {
                while (at.client.size < sizeof TEN - 1 && !at.client.ended) {
                        http_read_some(&at.client);
                }
                CU_ASSERT_EQUAL(memcmp(at.client.input, TEN, at.client.size), 0);
                return at.client.size == sizeof TEN - 1;
        }
        if (at.reply.status != 200) {
                CU_ASSERT(at.reply.status == 500 || at.reply.status == 503 || at.reply.status == 403);
                return false;
        }
        CU_ASSERT_EQUAL(at.reply.size, strlen(expected));
        CU_ASSERT_EQUAL(strcmp(at.reply.body, expected), 0);
        return true;
}

static bool
play_plain(const struct scenario *scenario)
{
        unsigned right = 0;

        http_open(&at.client, at.port);
        (void)http_send_text(&at.client, scenario->request);
        if (*scenario->rest) {
                weir_test_sleep(100000); /* it is to come later; right either way */
                (void)http_send_text(&at.client, scenario->rest);
        }
        while (right < scenario->replies && is_right(scenario)) {
                right++;
        }
        http_close(&at.client);
        return right == scenario->replies;
}

static bool
play_secure(const struct scenario *scenario)
{
        static const struct tls_client_wish anybody = {0};
        const char *expected = scenario->is_large ? large : TEN;
        SSL *client = tls_connect(at.port, &anybody);
        char *reply = NULL;

        if (!client) {
                return false;
        }
        bool right = tls_send(client, scenario->request, strlen(scenario->request)) &&
                     tls_send(client, scenario->rest, strlen(scenario->rest)) && tls_receive(client, &reply, NULL);
        const char *end = reply ? strstr(reply, "\r\n\r\n") : NULL;
        if (right && strncmp(reply, "HTTP/1.1 200", 12) != 0) {
                right = false;
        } else if (right) {
                CU_ASSERT_EQUAL(strcmp(end + 4, expected), 0);
        }
        free(reply);
        tls_hang_up(client);
        return right;
}

static bool
play(const struct scenario *scenario)
{
        return scenario->is_secure ? play_secure(scenario) : play_plain(scenario);
}

static size_t resting; /* what the server has open without a connection */
static unsigned descriptors;

static void
rest(void)
{
        WEIR_TEST_EVENTUALLY(atomic_load(&at.server->base.users.count) == resting);
        CU_ASSERT_EQUAL(http_open_descriptors(), descriptors);
}

static void
begin_scenario(const struct scenario *scenario)
{
        struct weir_http_server_config config = WEIR_HTTP_SERVER_CONFIG_DEFAULT;

        config.stream_bodies = scenario->streams;
        config.write_timeout = config.body_timeout = WEIR_FOREVER; /* what hangs is found */
        config.certificate_file = scenario->is_secure ? tls_path("server.pem") : NULL;
        config.private_key_file = scenario->is_secure ? tls_path("server.key") : NULL;
        weir_test_begin_real(1);
        at.server = http_server(&config, scenario->handler, NULL);
        at.port = weir_http_server_port(at.server);
        resting = atomic_load(&at.server->base.users.count);
        CU_ASSERT_TRUE(play(scenario));
        WEIR_TEST_EVENTUALLY(atomic_load(&at.server->base.users.count) == resting);
        descriptors = http_open_descriptors();
}

static void
end_scenario(void)
{
        http_reply_done(&at.reply);
        CU_ASSERT_EQUAL(weir_http_server_stop(at.server, WEIR_SEC(10)), 0);
        CU_ASSERT_EQUAL(atomic_load(&at.server->base.users.count), 0);
        weir_http_server_free(at.server);
        weir_test_end();
}

/* Returns whether a call has failed. */
static bool
play_failing(const struct scenario *scenario, enum call call, int error, int64_t nth, int64_t row, bool must_be_right)
{
        int64_t began = weir_now();

        choose(call, error, nth, row);
        bool right = play(scenario);
        bool soon = weir_now() - began < WEIR_TEST_PATIENCE / 2;
        if (right) {
                rest(); /* also with what comes at the end failing */
        }
        atomic_store(&armed, false);
        bool good = (right || (!must_be_right && atomic_load(&failed) > 0)) && soon && atomic_load(&made) < BOUND;
        CU_ASSERT_TRUE(good);
        if (!good) {
                printf("\n  %s: %s, %s, from %d on, %d of them: %s, %d calls", scenario->name, kinds[call].name,
                       error < 0 ? "a part" : strerrorname_np(error), (int)nth, (int)row,
                       !soon   ? "late"
                       : right ? "right"
                               : "not right",
                       (int)atomic_load(&made));
        }
        CU_ASSERT_TRUE(play(scenario));
        rest();
        return atomic_load(&failed) > 0;
}

static void
fail_each(const struct scenario *scenario, enum call call, int error, int64_t row, bool must_be_right)
{
        int64_t nth = 0;

        while (nth < 100 && play_failing(scenario, call, error, nth, row, must_be_right)) {
                nth = nth < (row == 1 && !WEIR_TEST_SANITIZED ? 12 : 3) ? nth + 1
                                                                        : nth * 2; /* later ones, and long rows, are alike */
        }
}

static void
fail_all(int64_t row)
{
        for (size_t i = 0; i < sizeof scenarios / sizeof *scenarios; i++) {
                begin_scenario(&scenarios[i]);
                for (enum call call = 0; call < CALLS; call++) {
                        const struct kind *kind = &kinds[call];

                        atomic_store(&needed[call], 0);
                        for (size_t j = 0; j < sizeof kind->lasting / sizeof *kind->lasting && kind->lasting[j]; j++) {
                                fail_each(&scenarios[i], call, kind->lasting[j], row, kind->is_harmless);
                        }
                        for (size_t j = 0; j < sizeof kind->passing / sizeof *kind->passing && kind->passing[j]; j++) {
                                fail_each(&scenarios[i], call, kind->passing[j], row, row == 1 || call != OPENAT2);
                        }
                        bool is_needed = atomic_load(&needed[call]) > 0 || !(scenarios[i].calls & BIT(call));
                        CU_ASSERT_TRUE(is_needed);
                        if (!is_needed) {
                                printf("\n  %s: no %s", scenarios[i].name, kind->name);
                        }
                }
                end_scenario();
        }
}

/* -- tests -- */

static void
any_system_call_may_fail(void)
{
        fail_all(1);
}

static void
system_calls_may_fail_for_a_while(void)
{
        fail_all(MANY);
}

static void
input_and_output_may_go_byte_by_byte(void)
{
        static const enum call calls[] = {RECV, SEND, SENDMSG};

        for (size_t i = 0; i < sizeof scenarios / sizeof *scenarios; i++) {
                if (scenarios[i].is_large) {
                        continue;
                }
                begin_scenario(&scenarios[i]);
                for (size_t j = 0; j < sizeof calls / sizeof *calls; j++) {
                        (void)play_failing(&scenarios[i], calls[j], BYTE, 0, ALL, true);
                }
                end_scenario();
        }
}

static void
a_short_body_may_go_in_part_behind_a_large_head(void)
{
        static const struct scenario scenario = {"large head", GET("/"), "", 1, .handler = reply_large_head};

        begin_scenario(&scenario);
        CU_ASSERT_TRUE(play_failing(&scenario, SENDMSG, HEAD, 0, 1, true));
        end_scenario();
}

static const int refusals[] = {EMFILE, ENFILE, ENOMEM, ENOBUFS, EPERM};

#define REFUSALS (sizeof refusals / sizeof *refusals)

/* It waits in the meantime, which would be some thousand calls otherwise. */
static void
a_connection_that_cannot_be_accepted_is_served_later(void)
{
        const struct scenario *scenario = &scenarios[0];

        begin_scenario(scenario);
        for (size_t i = 0; i < REFUSALS; i++) {
                choose(ACCEPT, refusals[i], 0, ALL);
                http_open(&at.client, at.port);
                WEIR_TEST_EVENTUALLY(atomic_load(&failed) > 0);
                weir_test_sleep(200000000);
                atomic_store(&armed, false);
                CU_ASSERT(atomic_load(&made) < 100);
                CU_ASSERT_TRUE(http_ask(&at.client, LENGTH TEN, &at.reply));
                CU_ASSERT_EQUAL(at.reply.status, 200);
                http_close(&at.client);
                rest();
        }
        end_scenario();
}

static void
stop_returns_although_nobody_can_be_accepted(void)
{
        for (size_t i = 0; i < REFUSALS; i++) {
                begin_scenario(&scenarios[0]);
                choose(ACCEPT, refusals[i], 0, ALL);
                http_open(&at.client, at.port);
                WEIR_TEST_EVENTUALLY(atomic_load(&failed) > 0);
                end_scenario();
                atomic_store(&armed, false);
                CU_ASSERT(atomic_load(&made) < BOUND);
                http_close(&at.client);
        }
}

static void
stop_returns_although_calls_fail(void)
{
        static const enum call calls[] = {RECV, SEND, IOCTL, SHUTDOWN, CLOSE};

        for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
                begin_scenario(&scenarios[0]);
                unsigned before = http_open_descriptors();
                http_open(&at.client, at.port);
                CU_ASSERT_TRUE(http_ask(&at.client, LENGTH TEN, &at.reply));
                choose(calls[i], EIO, 0, ALL);
                end_scenario();
                atomic_store(&armed, false);
                http_close(&at.client);
                CU_ASSERT(http_open_descriptors() < before);
        }
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(any_system_call_may_fail),
                WEIR_TEST(system_calls_may_fail_for_a_while),
                WEIR_TEST(input_and_output_may_go_byte_by_byte),
                WEIR_TEST(a_short_body_may_go_in_part_behind_a_large_head),
                WEIR_TEST(a_connection_that_cannot_be_accepted_is_served_later),
                WEIR_TEST(stop_returns_although_nobody_can_be_accepted),
                WEIR_TEST(stop_returns_although_calls_fail),
        };
        char path[64];
        large = pattern(FILE_SIZE);
        if (!mkdtemp(directory)) {
                perror(directory);
                return 1;
        }
        snprintf(path, sizeof path, "%s/file", directory);
        int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
        if (fd < 0 || write(fd, large, FILE_SIZE) != (ssize_t)FILE_SIZE || close(fd)) {
                perror(path);
                return 1;
        }
        tls_files_begin();
        tls_make_certificate("server", &(struct tls_wish){0});
        int failures = weir_test_main("server_faults", tests, sizeof tests / sizeof *tests);
        tls_files_end();
        unlink(path);
        rmdir(directory);
        free(large);
        return failures;
}
