/* test/stream_server_test.c: servers of streams: handlers, limits, TLS, stops. */
#include "test/blocking_fixture.h"
#include "test/stream_server_fixture.h"
#include "test/tls_peer.h"

#include <sys/mman.h>
#include <sys/resource.h>

/* -- handlers -- */

static void
push_nothing(weir_stream *stream, weir_series *series, void *context)
{
        (void)stream, (void)series, (void)context;
        atomic_fetch_add(&at.handled, 1);
}

static void
push_null(weir_stream *stream, weir_series *series, void *context)
{
        (void)stream, (void)context;
        atomic_fetch_add(&at.handled, 1);
        CU_ASSERT_EQUAL(weir_series_push(series, NULL), -ENOMEM);
}

static void
block(weir_stream *stream, weir_series *series, void *context)
{
        if (atomic_fetch_add(&at.handled, 1) == 0)
                while (!atomic_load(&at.let_go))
                        usleep(1000);
        atomic_fetch_sub(&at.handled, 1);
        echo(stream, series, context);
}

static void
say_hello(weir_stream *stream, weir_series *series, void *context)
{
        (void)context;
        atomic_fetch_add(&at.handled, 1);
        weir_series_push(series, weir_stream_write_new(stream, "hello\n", 6, NULL, NULL));
}

static void
keep(weir_stream *stream, weir_series *series, void *context)
{
        (void)series, (void)context;
        atomic_store(&at.kept, weir_stream_ref(stream));
        atomic_fetch_add(&at.handled, 1);
}

/* -- tests -- */

static void
an_echo(void)
{
        char byte;

        prepare();
        begin(2, echo);
        int one = dial(), two = dial();
        CU_ASSERT(is_echoed(one, "hello") && is_echoed(two, "world") && is_echoed(one, "again"));
        WEIR_TEST_EVENTUALLY(connections() == 2);
        shutdown(one, SHUT_WR);
        CU_ASSERT_EQUAL(receive(one, &byte, 1), 0);
        WEIR_TEST_EVENTUALLY(connections() == 1);
        CU_ASSERT_EQUAL(atomic_load(&at.status), -EPIPE);
        CU_ASSERT(is_echoed(two, "still here"));
        close(one);
        close(two);
        WEIR_TEST_EVENTUALLY(connections() == 0);
        CU_ASSERT_EQUAL(weir_stream_server_stop(at.server, WEIR_SEC(30)), 0);
        CU_ASSERT_EQUAL(weir_stream_server_port(at.server), -EDOM);
        CU_ASSERT_EQUAL(weir_stream_server_start(at.server, "127.0.0.1:0"), -ESTALE);
        end();
}

static void
at_a_unix_socket(void)
{
        prepare();
        weir_test_begin_real(2);
        start_at_unix(echo);
        CU_ASSERT_EQUAL(at.port, -EDOM);
        int fd = dial_unix();
        CU_ASSERT(is_echoed(fd, "by a path"));
        close(fd);
        end();
}

static void
a_handler_may_push_nothing(void)
{
        static weir_stream_fn *const handlers[] = {push_nothing, push_null};

        for (int i = 0; i < 2; i++) {
                char byte;

                prepare();
                begin(1, handlers[i]);
                int fd = dial();
                CU_ASSERT_EQUAL(receive(fd, &byte, 1), 0);
                WEIR_TEST_EVENTUALLY(connections() == 0);
                CU_ASSERT_EQUAL(atomic_load(&at.handled), 1);
                CU_ASSERT_EQUAL(strstr(at.log, "was not started") != NULL, i);
                close(fd);
                end();
        }
}

static void
what_was_written_comes_before_the_end(void)
{
        char room[16] = "";

        prepare();
        begin(1, say_hello);
        int fd = dial();
        CU_ASSERT_EQUAL(send(fd, "unread", 6, MSG_NOSIGNAL), 6); /* a close would be a reset */
        CU_ASSERT_EQUAL(recv(fd, room, 6, MSG_WAITALL), 6);
        CU_ASSERT_STRING_EQUAL(room, "hello\n");
        CU_ASSERT_EQUAL(receive(fd, room, 1), 0);
        close(fd);
        WEIR_TEST_EVENTUALLY(connections() == 0);
        end();
}

static void
a_handler_that_blocks_delays_no_other_connection(void)
{
        prepare();
        weir_test_begin_blocking(0);
        CU_ASSERT_EQUAL(weir_log_set(note_log, NULL), 0);
        start_at("127.0.0.1:0", block);
        int one = dial();
        WEIR_TEST_EVENTUALLY(atomic_load(&at.handled) == 1);
        int two = dial();
        CU_ASSERT(is_echoed(two, "meanwhile"));
        atomic_store(&at.let_go, true);
        CU_ASSERT(is_echoed(one, "at last"));
        close(one);
        close(two);
        end();
        CU_ASSERT_PTR_NOT_NULL(strstr(at.log, "the handler of a server of streams"));
}

static void
at_the_limit_new_ones_wait(void)
{
        prepare();
        at.config.max_connections = 2;
        begin(2, echo);
        int one = dial(), two = dial();
        CU_ASSERT(is_echoed(one, "1") && is_echoed(two, "2"));
        int three = dial();
        CU_ASSERT_EQUAL(send(three, "3", 1, MSG_NOSIGNAL), 1);
        CU_ASSERT(has_nothing(three));
        WEIR_TEST_EVENTUALLY(connections() == 2);
        close(one);
        char byte = 0;
        CU_ASSERT_EQUAL(receive(three, &byte, 1), 1);
        CU_ASSERT_EQUAL(byte, '3');
        close(two);
        close(three);
        end();
        CU_ASSERT_PTR_NOT_NULL(strstr(at.log, "there are max_connections"));
}

static void
an_address_has_its_own_limit(void)
{
        char byte;

        prepare();
        at.config.max_connections_per_address = 1;
        begin(2, echo);
        int one = dial();
        CU_ASSERT(is_echoed(one, "1"));
        int two = dial();
        ssize_t got = receive(two, &byte, 1);
        CU_ASSERT(got == 0 || got == -ECONNRESET);
        close(one);
        WEIR_TEST_EVENTUALLY(connections() == 0);
        int three = dial();
        CU_ASSERT(is_echoed(three, "3"));
        close(two);
        close(three);
        end();
}

static void
without_descriptors_new_ones_wait(void)
{
        struct rlimit limit, few;

        prepare();
        begin(1, echo);
        int one = dial(), two = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        struct sockaddr_in to = {
                .sin_family = AF_INET, .sin_port = htons((uint16_t)at.port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        CU_ASSERT(is_echoed(one, "1"));
        getrlimit(RLIMIT_NOFILE, &limit);
        few = limit;
        int free_one = dup(0);
        few.rlim_cur = (rlim_t)free_one;
        close(free_one);
        setrlimit(RLIMIT_NOFILE, &few);
        CU_ASSERT_EQUAL(connect(two, (struct sockaddr *)&to, sizeof to), 0);
        CU_ASSERT_EQUAL(send(two, "2", 1, MSG_NOSIGNAL), 1);
        CU_ASSERT(has_nothing(two));
        setrlimit(RLIMIT_NOFILE, &limit);
        char byte = 0;
        CU_ASSERT_EQUAL(receive(two, &byte, 1), 1);
        close(one);
        close(two);
        end();
}

static void
a_stop_waits_for_series(void)
{
        prepare();
        begin(2, echo);
        int fd = dial();
        CU_ASSERT(is_echoed(fd, "1"));
        CU_ASSERT_EQUAL(weir_stream_server_stop(at.server, WEIR_SEC(1)), 1); /* the next read has started by then */
        CU_ASSERT_EQUAL(atomic_load(&at.status), -ECANCELED);
        CU_ASSERT_EQUAL(atomic_load(&at.ended), 1);
        CU_ASSERT_PTR_NOT_NULL(strstr(at.log, "stop has cut the series of a connection from 127.0.0.1:"));
        CU_ASSERT_PTR_NOT_NULL(strstr(at.log, "waiting for a read of a stream (1 byte from 127.0.0.1:"));
        char byte;
        ssize_t got = receive(fd, &byte, 1);
        CU_ASSERT(got == 0 || got == -ECONNRESET);
        close(fd);
        end();
}

static void
note_status(weir_task *task, void *unused)
{
        (void)unused;
        atomic_store(&at.status, weir_task_status(task));
}

/* The series lasts longer than the stream, and perhaps the handler as well. */
static void
wait_without_stream(weir_stream *stream, weir_series *series, void *context)
{
        (void)context;
        weir_series_push(series, weir_timer_new(WEIR_SEC(3600), note_status, NULL));
        atomic_store(&at.kept, weir_stream_ref(stream));
        atomic_fetch_add(&at.handled, 1);
        weir_blocking_begin();
        while (!atomic_load(&at.let_go))
                usleep(100);
        weir_blocking_end();
}

/* Breaks the stream, and waits until its descriptor is closed. */
static void
break_kept(int fd)
{
        char byte, room[64];
        weir_stream *kept = atomic_load(&at.kept);

        weir_stream_break(kept);
        CU_ASSERT(receive(fd, &byte, 1) <= 0);
        WEIR_TEST_EVENTUALLY(weir_stream_peer(kept, room, sizeof room) == -ENOTCONN);
        weir_stream_unref(kept);
        close(fd);
}

static void
a_stop_cuts_a_series_that_has_outlived_its_stream(void)
{
        prepare();
        begin(2, wait_without_stream);
        atomic_store(&at.let_go, true);
        int fd = dial();
        WEIR_TEST_EVENTUALLY(atomic_load(&at.handled) == 1);
        break_kept(fd);
        CU_ASSERT_EQUAL(weir_stream_server_stop(at.server, 0), 1);
        CU_ASSERT_EQUAL(atomic_load(&at.status), -ECANCELED);
        CU_ASSERT_PTR_NOT_NULL(strstr(at.log, "stop has cut the series of a connection from "));
        end();
}

static void *
stop_now(void *unused)
{
        (void)unused;
        CU_ASSERT(weir_stream_server_stop(at.server, 0) >= 0);
        return NULL;
}

static bool
is_cut(void)
{
        bool is = true;

        for (unsigned i = 0; i < at.server->base.branch_count; i++)
                is &= atomic_load(&((struct weir__stream_branch *)weir__server_branch(&at.server->base, i))->is_cut);
        return is;
}

static void
a_stop_cuts_a_series_whose_handler_has_outlived_the_stream(void)
{
        pthread_t thread;

        prepare();
        begin(2, wait_without_stream);
        int fd = dial();
        WEIR_TEST_EVENTUALLY(atomic_load(&at.handled) == 1);
        break_kept(fd);
        CU_ASSERT_EQUAL_FATAL(pthread_create(&thread, NULL, stop_now, NULL), 0);
        WEIR_TEST_EVENTUALLY(is_cut());
        atomic_store(&at.let_go, true);
        pthread_join(thread, NULL);
        CU_ASSERT_EQUAL(atomic_load(&at.status), -ECANCELED);
        end();
}

static void *
hang_up_later(void *fd)
{
        usleep(30000);
        close(*(int *)fd);
        return NULL;
}

static void
a_stop_cuts_nothing_that_ends_by_itself(void)
{
        pthread_t thread;

        prepare();
        begin(2, echo);
        int fd = dial();
        CU_ASSERT(is_echoed(fd, "1"));
        CU_ASSERT_EQUAL_FATAL(pthread_create(&thread, NULL, hang_up_later, &fd), 0);
        CU_ASSERT_EQUAL(weir_stream_server_stop(at.server, WEIR_FOREVER), 0);
        pthread_join(thread, NULL);
        CU_ASSERT_EQUAL(atomic_load(&at.status), -EPIPE);
        end();
}

static void
a_kept_stream_is_broken_by_a_stop(void)
{
        char room[64];

        prepare();
        begin(2, keep);
        int fd = dial();
        WEIR_TEST_EVENTUALLY(atomic_load(&at.handled) == 1);
        weir_stream *kept = atomic_load(&at.kept);
        CU_ASSERT(weir_stream_peer(kept, room, sizeof room) > 0);
        CU_ASSERT(has_nothing(fd));
        CU_ASSERT_EQUAL(weir_stream_server_stop(at.server, 0), 0);
        CU_ASSERT_EQUAL(weir_stream_peer(kept, room, sizeof room), -ENOTCONN);
        weir_stream_server_free(at.server);
        at.server = NULL;
        struct weir_test_record record = {0};
        CU_ASSERT_EQUAL(weir_task_start(weir_test_recorded(weir_stream_read_new(kept, 1, 1, weir_test_done, &record))), 0);
        weir_test_wait_freed(&record);
        WEIR_TEST_CALLED(&record, -ECONNABORTED);
        weir_stream_unref(kept);
        close(fd);
        end();
}

static void
the_end_of_the_runtime_ends_all(void)
{
        prepare();
        begin(2, echo);
        int fd = dial();
        CU_ASSERT(is_echoed(fd, "1"));
        CU_ASSERT_EQUAL(weir_log_set(NULL, NULL), 0);
        weir_test_end();
        CU_ASSERT(atomic_load(&at.status) == -ESHUTDOWN || !atomic_load(&at.ended)); /* the read may not have started */
        weir_stream_server_free(at.server);
        close(fd);
}

static void
silence_has_a_limit(void)
{
        prepare();
        at.config.idle_timeout = WEIR_SEC(10);
        weir_test_begin_virtual();
        start_at("127.0.0.1:0", echo);
        int fd = dial();
        WEIR_TEST_EVENTUALLY((weir_test_pass(0), atomic_load(&at.handled) == 1));
        weir_test_pass(WEIR_SEC(7));
        CU_ASSERT_EQUAL(send(fd, "1", 1, MSG_NOSIGNAL), 1);
        char byte;
        WEIR_TEST_EVENTUALLY((weir_test_pass(0), recv(fd, &byte, 1, MSG_DONTWAIT) == 1));
        weir_test_pass(WEIR_SEC(9));
        CU_ASSERT_EQUAL(atomic_load(&at.ended), 0);
        weir_test_pass(WEIR_SEC(1));
        WEIR_TEST_EVENTUALLY((weir_test_pass(0), atomic_load(&at.ended) == 1));
        CU_ASSERT_EQUAL(atomic_load(&at.status), -ETIMEDOUT);
        close(fd);
        end();
}

/* Returns how many bytes were there. */
static size_t
take(int fd)
{
        static char room[1 << 20];
        ssize_t got = recv(fd, room, sizeof room, MSG_DONTWAIT);

        return got > 0 ? (size_t)got : 0;
}

static void
a_peer_that_takes_nothing_has_a_limit(void)
{
        prepare();
        at.config.write_timeout = WEIR_SEC(10);
        weir_test_begin_virtual();
        start_at("127.0.0.1:0", write_large);
        int fd = dial();
        WEIR_TEST_EVENTUALLY((weir_test_pass(0), atomic_load(&at.handled) == 1));
        weir_test_pass(WEIR_SEC(9));
        WEIR_TEST_EVENTUALLY(connections() == 1);
        size_t taken = 0;
        WEIR_TEST_EVENTUALLY((weir_test_pass(0), (taken += take(fd)) > sizeof large / 4));
        weir_test_pass(WEIR_SEC(9)); /* it has taken something */
        WEIR_TEST_EVENTUALLY(connections() == 1);
        weir_test_pass(WEIR_SEC(20));
        WEIR_TEST_EVENTUALLY((weir_test_pass(0), connections() == 0));
        close(fd);
        end();
}

static void
begin_with_tls(weir_nsec handshake_timeout)
{
        prepare();
        at.config.certificate_file = tls_path("server.pem");
        at.config.private_key_file = tls_path("server.key");
        at.config.handshake_timeout = handshake_timeout;
        begin(2, say_hello);
}

static void
over_tls(void)
{
        struct weir_tls_config config = WEIR_TLS_CONFIG_DEFAULT;
        char address[64], byte;

        begin_with_tls(WEIR_FOREVER);
        config.ca_file = tls_path("ca.pem");
        weir_tls *tls = weir_tls_client_new(&config);
        snprintf(address, sizeof address, "127.0.0.1:%d", at.port);
        for (int i = 0; i < 20; i++)
                CU_ASSERT_EQUAL(weir_task_run(weir_connect_tls_new(address, tls, "server.example", NULL, NULL)), 0);
        WEIR_TEST_EVENTUALLY(atomic_load(&at.handled) == 20 && connections() == 0);
        int plain = dial();
        CU_ASSERT_EQUAL(send(plain, "GET / HTTP/1.1\r\n\r\n", 18, MSG_NOSIGNAL), 18);
        while (receive(plain, &byte, 1) > 0)
                ;
        CU_ASSERT_EQUAL(atomic_load(&at.handled), 20);
        CU_ASSERT_EQUAL(weir_stream_server_reload(at.server), 0);
        close(plain);
        weir_tls_unref(tls);
        end();
}

static void
a_handshake_has_a_limit(void)
{
        char byte;

        begin_with_tls(WEIR_MSEC(50));
        int silent = dial(); /* no handshake begins */
        ssize_t got = receive(silent, &byte, 1);
        CU_ASSERT(got == 0 || got == -ECONNRESET);
        int shaking = dial();
        CU_ASSERT_EQUAL(weir_stream_server_stop(at.server, WEIR_FOREVER), 0); /* it waits for the limit, not for ever */
        close(silent);
        close(shaking);
        end();
        CU_ASSERT_EQUAL(atomic_load(&at.handled), 0);
}

static void
wrong_values_are_refused(void)
{
        static const struct {
                struct weir_stream_server_config config;
                const char *reason;
        } cases[] = {
                {{.size = 3}, "the size of the config is wrong"},
                {{.size = sizeof at.config, .idle_timeout = -1}, "idle_timeout: expected 0 or more"},
                {{.size = sizeof at.config, .certificate_file = "a"}, "expected certificate_file and private_key_file together"},
                {{.size = sizeof at.config, .client_ca_file = "a"}, "expected a certificate_file beside client_ca_file"},
        };

        prepare();
        weir_test_begin_real(1);
        CU_ASSERT_EQUAL(weir_log_set(note_log, NULL), 0);
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
                at.log[0] = '\0';
                weir_stream_server *server = weir_stream_server_new(&cases[i].config, echo, NULL);
                CU_ASSERT_EQUAL(weir_stream_server_start(server, "127.0.0.1:0"), -EINVAL);
                CU_ASSERT_PTR_NOT_NULL(strstr(at.log, cases[i].reason));
                weir_stream_server_free(server);
        }
        at.server = weir_stream_server_new(NULL, NULL, NULL);
        CU_ASSERT_EQUAL(weir_stream_server_start(at.server, "127.0.0.1:0"), -EINVAL);
        weir_stream_server_free(at.server);
        at.server = weir_stream_server_new(NULL, echo, NULL);
        CU_ASSERT_EQUAL(weir_stream_server_start(at.server, "nowhere"), -EINVAL);
        CU_ASSERT_EQUAL(weir_stream_server_start(NULL, "127.0.0.1:0"), -ENOMEM);
        CU_ASSERT_EQUAL(weir_stream_server_port(NULL), -EINVAL);
        CU_ASSERT_EQUAL(weir_stream_server_stop(NULL, 0), -EINVAL);
        CU_ASSERT_EQUAL(weir_stream_server_reload(NULL), -EINVAL);
        CU_ASSERT_EQUAL(weir_stream_server_reload(at.server), -EDOM);
        weir_stream_server_free(NULL);
        end();
}

static void
a_dump_says_whose_connection_it_is(void)
{
        static char text[65536];

        prepare();
        begin(1, echo);
        int fd = dial(), file = memfd_create("dump", MFD_CLOEXEC);
        CU_ASSERT(is_echoed(fd, "1"));
        WEIR_TEST_EVENTUALLY((memset(text, 0, sizeof text),
                              ftruncate(file, 0) == 0 && lseek(file, 0, SEEK_SET) == 0 && weir_debug_dump(file) == 0 &&
                                      pread(file, text, sizeof text - 1, 0) > 0 && strstr(text, "1 byte from 127.0.0.1:")));
        CU_ASSERT_PTR_NOT_NULL(strstr(text, ": of a connection from 127.0.0.1:"));
        close(file);
        close(fd);
        end();
}

/* Connections come and go while the server stops. */
static void *
storm(void *unused)
{
        (void)unused;
        for (int i = 0; i < 300; i++) {
                struct sockaddr_in to = {
                        .sin_family = AF_INET, .sin_port = htons((uint16_t)at.port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
                struct linger reset = {i % 3 == 0, 0};
                int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

                if (connect(fd, (struct sockaddr *)&to, sizeof to) == 0 && i % 2)
                        (void)!send(fd, "storm", 5, MSG_NOSIGNAL);
                setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
                close(fd);
        }
        return NULL;
}

static void
a_storm_leaves_nothing_behind(void)
{
        static weir_stream_fn *const handlers[] = {echo, say_hello, push_nothing};

        for (int i = 0; i < 6; i++) {
                pthread_t threads[3];

                prepare();
                at.config.max_connections = i < 3 ? 0 : 4;
                at.config.max_connections_per_address = i % 2 ? 10 : 0;
                at.config.idle_timeout = i % 2 ? WEIR_SEC(1) : 0;
                weir_test_begin_real(2);
                start_at("127.0.0.1:0", handlers[i % 3]);
                for (int j = 0; j < 3; j++)
                        CU_ASSERT_EQUAL_FATAL(pthread_create(&threads[j], NULL, storm, NULL), 0);
                usleep(20000);
                CU_ASSERT(weir_stream_server_stop(at.server, i < 3 ? WEIR_SEC(5) : 0) >= 0);
                CU_ASSERT_EQUAL(atomic_load(&at.server->base.users.count), 0);
                WEIR_TEST_EVENTUALLY(connections() == 0);
                CU_ASSERT_PTR_NULL(at.server->base.addresses.tree.root);
                for (int j = 0; j < 3; j++)
                        pthread_join(threads[j], NULL);
                weir_stream_server_free(at.server);
                weir_test_end();
        }
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(an_echo),
                WEIR_TEST(at_a_unix_socket),
                WEIR_TEST(a_handler_may_push_nothing),
                WEIR_TEST(what_was_written_comes_before_the_end),
                WEIR_TEST(a_handler_that_blocks_delays_no_other_connection),
                WEIR_TEST(at_the_limit_new_ones_wait),
                WEIR_TEST(an_address_has_its_own_limit),
                WEIR_TEST(without_descriptors_new_ones_wait),
                WEIR_TEST(a_stop_waits_for_series),
                WEIR_TEST(a_stop_cuts_a_series_that_has_outlived_its_stream),
                WEIR_TEST(a_stop_cuts_a_series_whose_handler_has_outlived_the_stream),
                WEIR_TEST(a_stop_cuts_nothing_that_ends_by_itself),
                WEIR_TEST(a_kept_stream_is_broken_by_a_stop),
                WEIR_TEST(the_end_of_the_runtime_ends_all),
                WEIR_TEST(silence_has_a_limit),
                WEIR_TEST(a_peer_that_takes_nothing_has_a_limit),
                WEIR_TEST(over_tls),
                WEIR_TEST(a_handshake_has_a_limit),
                WEIR_TEST(wrong_values_are_refused),
                WEIR_TEST(a_dump_says_whose_connection_it_is),
                WEIR_TEST(a_storm_leaves_nothing_behind),
        };

        tls_files_begin();
        tls_make_certificate("ca", &(struct tls_wish){.key = TLS_EC});
        tls_make_certificate("server",
                             &(struct tls_wish){.alternative_names = "DNS:server.example", .issuer = "ca", .key = TLS_EC});
        int result = weir_test_main("stream_server", tests, sizeof tests / sizeof *tests);
        tls_files_end();
        return result;
}
