/* test/reference_io_guide_test.c: the examples of the reference for headers of tasks that wait for the system.
 *
 * They run on the virtual clock. */
#include "test/fixture.h"
#include "test/tls_peer.h"

#include <errno.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/uio.h>

/* -- weir/fd.h -- */

static void
note_status(weir_task *task, void *status)
{
        *(_Atomic int *)status = weir_task_status(task);
}

static void
a_socket_is_waited_for(void)
{
        _Atomic int seen = 1, room = 1, urgent = 1, late = 1;
        int ends[2];

        CU_ASSERT_FATAL(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) == 0);
        weir_fd *fd = weir_fd_new(ends[0]);
        weir_fd_keep(fd); /* it will be forgotten before it is closed */
        weir_task_start(weir_fd_readable_new(fd, note_status, &seen));
        weir_task_start(weir_fd_writable_new(fd, note_status, &room));
        weir_task_start(weir_fd_urgent_new(fd, note_status, &urgent));
        weir_clock_advance(0);
        CU_ASSERT(room == 0 && seen == 1); /* it has room, and nothing has come */
        CU_ASSERT(write(ends[1], "x", 1) == 1);
        weir_clock_advance(0);
        CU_ASSERT(seen == 0);
        weir_fd_wake(fd);
        weir_clock_advance(0);
        CU_ASSERT(urgent == -EINTR);
        weir_task_start(weir_fd_urgent_new(fd, note_status, &late));
        weir_fd_forget(fd); /* before close */
        close(ends[0]);
        weir_clock_advance(0);
        CU_ASSERT(late == -EBADF);
        close(ends[1]);
}

/* -- weir/loop.h -- */

static void
count(void *calls)
{
        ++*(int *)calls;
}

static void
a_loop_runs_what_flows_ask_for(void)
{
        int calls = 0;
        weir_loop *loop = weir_loop_new();
        struct pollfd watched = {.fd = weir_loop_fd(loop), .events = POLLIN};

        weir_task_start(weir_loop_call_new(loop, count, NULL, &calls));
        while (poll(&watched, 1, 0) == 1) { /* stands for the loop of the program */
                weir_loop_run(loop, WEIR_ALL);
        }
        CU_ASSERT(calls == 1);
        weir_loop *same = weir_loop_ref(loop);
        weir_loop_unref(same);
        weir_loop_unref(loop); /* behind the last poll: it closes the descriptor */
}

/* -- weir/process.h -- */

static char *
words_of(const weir_task *process)
{
        size_t size;
        const char *output = weir_process_output(process, &size);

        return strndup(output, size);
}

static void
note_words(weir_task *process, void *words)
{
        if (weir_task_status(process) == 0)
                *(char **)words = words_of(process);
}

static void
a_program_sorts_words(void)
{
        char *words = NULL;

        weir_task *sort = weir_command_new(note_words, &words, "sort", "-u", NULL);
        weir_process_set_environment(sort, "LC_ALL", "C");
        weir_process_set_input(sort, "pear\napple\npear\n", 16);
        weir_task_run(sort);
        CU_ASSERT(words && strcmp(words, "apple\npear\n") == 0);
        free(words);
}

/* -- weir/stream.h -- */

static void
note_line(weir_task *read, void *line)
{
        size_t size;
        const char *data = weir_stream_data(read, &size);

        if (weir_task_status(read) == 0)
                snprintf(line, 32, "%.*s", (int)size, data);
}

static void
a_stream_is_read_and_written(void)
{
        char line[32] = "", rest[32] = "", address[128];
        int ends[2], is_broken = 1;

        CU_ASSERT_FATAL(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
        weir_stream *one = weir_stream_of(ends[0]), *other = weir_stream_of(ends[1]);
        weir_task_start(weir_stream_read_until_new(other, "\n", 1, 1024, note_line, line));
        weir_task_start(weir_stream_write_new(one, "hello\n", 6, NULL, NULL));
        weir_clock_advance(0);
        CU_ASSERT_STRING_EQUAL(line, "hello\n");
        struct iovec pieces[] = {{"two ", 4}, {"pieces", 6}};
        weir_task_start(weir_stream_write_pieces_new(one, pieces, 2, NULL, NULL));
        weir_task_start(weir_stream_write_lent_new(one, ", lent", 6, NULL, NULL));
        weir_task_start(weir_stream_finish_new(one, NULL, NULL));
        CU_ASSERT(weir_stream_unsent(one) <= 16); /* some may be out already */
        weir_task_start(weir_stream_read_new(other, 16, 16, note_line, rest));
        weir_clock_advance(0);
        CU_ASSERT_STRING_EQUAL(rest, "two pieces, lent");
        CU_ASSERT(weir_stream_peer(one, address, sizeof address) > 0 && weir_stream_local(one, address, sizeof address) > 0);
        CU_ASSERT_EQUAL(weir_stream_peer_certificate(one, address, sizeof address), -ENODATA); /* it has no TLS */
        weir_stream *same = weir_stream_ref(other);
        weir_task_start(weir_stream_read_new(same, 1, 1, note_status, &is_broken));
        weir_stream_break(same);
        weir_clock_advance(0);
        CU_ASSERT(is_broken == -ECONNABORTED || is_broken == -EPIPE);
        weir_stream_unref(same);
        weir_stream_unref(other);
        weir_stream_unref(one);
}

static void
a_file_is_sent(void)
{
        char text[32] = "";
        int ends[2], file = memfd_create("text", MFD_CLOEXEC);

        CU_ASSERT_FATAL(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
        CU_ASSERT(write(file, "from a file", 11) == 11);
        weir_stream *stream = weir_stream_of(ends[0]);
        weir_task_start(weir_stream_write_file_new(stream, file, 5, UINT64_MAX, NULL, NULL));
        weir_clock_advance(0);
        CU_ASSERT(read(ends[1], text, sizeof text - 1) == 6);
        CU_ASSERT_STRING_EQUAL(text, "a file");
        weir_stream_unref(stream);
        close(ends[1]);
        close(file);
}

/* -- weir/stream_server.h, and connects -- */

/* One question, one answer. */
static void
answer(weir_task *read, void *stream)
{
        size_t size;
        const void *question = weir_stream_data(read, &size);

        if (weir_task_status(read) == 0)
                weir_series_push(weir_series_of(read), weir_stream_write_new(stream, question, size, NULL, NULL));
}

static void
take_question(weir_stream *stream, weir_series *series, void *context)
{
        (void)context;
        weir_series_push(series, weir_stream_read_until_new(stream, "\n", 1, 1024, answer, stream));
}

struct asked {
        char answer[32], problem[128];
        atomic_bool is_over;
};

static void
note(weir_task *read, void *context)
{
        struct asked *asked = context;

        note_line(read, asked->answer);
        atomic_store(&asked->is_over, true);
}

static void
give_up(struct asked *asked, const char *problem)
{
        snprintf(asked->problem, sizeof asked->problem, "%s", problem);
        atomic_store(&asked->is_over, true);
}

/* The tasks of the question have the stream. */
static void
ask(weir_task *connect, void *context)
{
        struct asked *asked = context;
        weir_stream *stream = weir_connect_take_stream(connect);

        if (!stream) {
                give_up(asked, weir_connect_problem(connect));
                return;
        }
        weir_series *series = weir_series_of(connect);
        weir_series_push(series, weir_stream_write_new(stream, "ping\n", 5, NULL, NULL));
        weir_series_push(series, weir_stream_read_until_new(stream, "\n", 1, 99, note, asked));
        weir_stream_unref(stream);
}

#define BECOMES(condition) WEIR_TEST_EVENTUALLY((weir_clock_advance(0), (condition)))

static void
a_server_answers(void)
{
        struct weir_stream_server_config config = WEIR_STREAM_SERVER_CONFIG_DEFAULT;
        struct asked asked = {.is_over = false};
        char address[64];

        config.max_connections = 1000;
        config.idle_timeout = WEIR_SEC(60);
        weir_stream_server *server = weir_stream_server_new(&config, take_question, NULL);
        CU_ASSERT_FATAL(weir_stream_server_start(server, "127.0.0.1:0") == 0);
        snprintf(address, sizeof address, "127.0.0.1:%d", weir_stream_server_port(server));
        weir_task_start(weir_connect_new(address, ask, &asked));
        BECOMES(asked.is_over);
        CU_ASSERT_STRING_EQUAL(asked.answer, "ping\n");
        CU_ASSERT(weir_stream_server_reload(server) == -EDOM); /* it has no certificate */
        CU_ASSERT(weir_stream_server_stop(server, WEIR_SEC(5)) == 0);
        asked.is_over = false;
        weir_task_start(weir_connect_new(address, ask, &asked));
        BECOMES(asked.is_over);
        CU_ASSERT(strstr(asked.problem, "refused") != NULL);
        weir_stream_server_free(server);
}

/* A new version of the program takes the sockets over; here it does not exist. */
static void
a_server_is_replaced(void)
{
        weir_stream_server *server = weir_stream_server_new(NULL, take_question, NULL);
        char *arguments[] = {"no-such-program", NULL};

        CU_ASSERT_FATAL(weir_stream_server_start(server, "127.0.0.1:0") == 0);
        CU_ASSERT(weir_stream_server_inherit(server, "/no/such/program", arguments, WEIR_SEC(5)) < 0);
        weir_stream_server_free(server);
}

/* A program that does nothing else. */
static void
serving_until_a_signal(void)
{
        struct weir_stream_server_config config = WEIR_STREAM_SERVER_CONFIG_DEFAULT;

        config.stop_within = WEIR_SEC(10);
        CU_ASSERT(weir_stream_serve_with(&config, "nowhere", take_question, NULL) == -EINVAL);
}

/* -- weir/tls.h -- */

static void
tls_begins_on_a_stream(void)
{
        struct weir_tls_config trust = WEIR_TLS_CONFIG_DEFAULT, identity = WEIR_TLS_CONFIG_DEFAULT;
        _Atomic int ours = 1, theirs = 1;
        char protocol[16];
        int ends[2];

        trust.protocols = identity.protocols = "mine";
        trust.ca_file = tls_path("ca.pem");
        identity.certificate_file = tls_path("server.pem");
        identity.private_key_file = tls_path("server.key");
        weir_tls *of_client = weir_tls_client_new(&trust);
        weir_tls *of_server = weir_tls_server_new(&identity);
        CU_ASSERT_FATAL(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
        weir_stream *client = weir_stream_of(ends[0]), *server = weir_stream_of(ends[1]);
        weir_task_start(weir_stream_start_tls_new(server, of_server, NULL, note_status, &theirs));
        weir_task_start(weir_stream_start_tls_new(client, of_client, "server.example", note_status, &ours));
        BECOMES(ours != 1 && theirs != 1);
        CU_ASSERT(ours == 0 && theirs == 0);
        CU_ASSERT(!weir_stream_is_resumed(client)); /* it was the first */
        CU_ASSERT(weir_stream_protocol(client, protocol, sizeof protocol) == 4 && strcmp(protocol, "mine") == 0);
        weir_stream_unref(client);
        weir_stream_unref(server);
        weir_tls_unref(of_server);
        weir_tls_unref(of_client);
}

static void
a_connect_checks_the_certificate(void)
{
        struct weir_stream_server_config config = WEIR_STREAM_SERVER_CONFIG_DEFAULT;
        struct weir_tls_config trust = WEIR_TLS_CONFIG_DEFAULT;
        struct asked asked = {.is_over = false};
        char address[64];

        config.certificate_file = tls_path("server.pem");
        config.private_key_file = tls_path("server.key");
        trust.ca_file = tls_path("ca.pem");
        weir_tls *tls = weir_tls_client_new(&trust);
        weir_stream_server *server = weir_stream_server_new(&config, take_question, NULL);
        CU_ASSERT_FATAL(weir_stream_server_start(server, "127.0.0.1:0") == 0);
        snprintf(address, sizeof address, "127.0.0.1:%d", weir_stream_server_port(server));
        weir_task_start(weir_connect_tls_new(address, weir_tls_ref(tls), "other.example", ask, &asked));
        BECOMES(asked.is_over);
        CU_ASSERT(strstr(asked.problem, "server.example") != NULL);
        weir_tls_unref(tls);
        weir_stream_server_free(server);
        weir_tls_unref(tls);
}

static void
a_connect_expects_a_key(void)
{
        static const char *const pins = "sha256/AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=";
        struct weir_stream_server_config config = WEIR_STREAM_SERVER_CONFIG_DEFAULT;
        struct weir_tls_config trust = WEIR_TLS_CONFIG_DEFAULT;
        struct asked asked = {.is_over = false};
        char address[64];

        config.certificate_file = tls_path("server.pem");
        config.private_key_file = tls_path("server.key");
        trust.ca_file = tls_path("ca.pem");
        trust.pins = pins; /* "sha256/" and 44 digits of BASE64; several with commas */
        weir_tls *tls = weir_tls_client_new(&trust);
        weir_stream_server *server = weir_stream_server_new(&config, take_question, NULL);
        CU_ASSERT_FATAL(weir_stream_server_start(server, "127.0.0.1:0") == 0);
        snprintf(address, sizeof address, "127.0.0.1:%d", weir_stream_server_port(server));
        weir_task_start(weir_connect_tls_new(address, tls, "server.example", ask, &asked));
        BECOMES(asked.is_over);
        CU_ASSERT(strstr(asked.problem, "has the key sha256/") != NULL);
        weir_stream_server_free(server);
        weir_tls_unref(tls);
}

/* -- weir/pump.h -- */

static void
note_moved(weir_task *pump, void *moved)
{
        *(uint64_t *)moved = weir_pump_failed(pump) ? 0 : weir_pump_moved(pump);
}

static void
a_pump_carries_all(void)
{
        int in[2], out[2];
        uint64_t moved = 0;
        char text[16] = "";

        CU_ASSERT_FATAL(pipe2(in, O_CLOEXEC) == 0 && pipe2(out, O_CLOEXEC) == 0);
        weir_stream *from = weir_stream_of(in[0]), *to = weir_stream_of(out[1]);
        CU_ASSERT(write(in[1], "all of it", 9) == 9);
        close(in[1]);
        weir_task_start(weir_pump_new(from, to, note_moved, &moved));
        weir_clock_advance(0);
        CU_ASSERT(moved == 9);
        CU_ASSERT(read(out[0], text, sizeof text) == 9 && strcmp(text, "all of it") == 0);
        weir_stream_unref(from);
        weir_stream_unref(to);
        close(out[0]);
}

#define EXAMPLE(name)                      \
        static void run_##name(void)       \
        {                                  \
                weir_test_begin_virtual(); \
                name();                    \
                weir_test_end();           \
        }

EXAMPLE(a_socket_is_waited_for)
EXAMPLE(a_loop_runs_what_flows_ask_for)
EXAMPLE(a_program_sorts_words)
EXAMPLE(a_stream_is_read_and_written)
EXAMPLE(a_file_is_sent)
EXAMPLE(a_server_answers)
EXAMPLE(a_server_is_replaced)
EXAMPLE(serving_until_a_signal)
EXAMPLE(tls_begins_on_a_stream)
EXAMPLE(a_connect_checks_the_certificate)
EXAMPLE(a_connect_expects_a_key)
EXAMPLE(a_pump_carries_all)

static const struct weir_test tests[] = {
        WEIR_TEST(run_a_socket_is_waited_for),  WEIR_TEST(run_a_loop_runs_what_flows_ask_for),
        WEIR_TEST(run_a_program_sorts_words),   WEIR_TEST(run_a_stream_is_read_and_written),
        WEIR_TEST(run_a_file_is_sent),          WEIR_TEST(run_a_server_answers),
        WEIR_TEST(run_a_server_is_replaced),    WEIR_TEST(run_serving_until_a_signal),
        WEIR_TEST(run_tls_begins_on_a_stream),  WEIR_TEST(run_a_connect_checks_the_certificate),
        WEIR_TEST(run_a_connect_expects_a_key), WEIR_TEST(run_a_pump_carries_all),
};

int
main(void)
{
        tls_files_begin();
        tls_make_certificate("ca", &(struct tls_wish){.key = TLS_EC});
        tls_make_certificate("server",
                             &(struct tls_wish){.alternative_names = "DNS:server.example", .issuer = "ca", .key = TLS_EC});
        int result = weir_test_main("reference_io_guide", tests, sizeof tests / sizeof *tests);
        tls_files_end();
        return result;
}
