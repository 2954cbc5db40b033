/* test/pump_test.c: pumps between connections: all bytes, both ends, many at once, slow and broken peers. */
#include "test/fixture.h"
#include "test/tls_peer.h"

#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>

#define MANY (WEIR_TEST_SANITIZED ? UINT64_C(32) << 20 : UINT64_C(1) << 30) /* bytes in each direction */

/* -- what the tests share -- */

/* A connection of TCP: `inner` becomes a stream, `outer` is the peer's. */
struct line {
        int inner, outer;
        weir_stream *stream;
};

static void
open_line(struct line *line)
{
        struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        socklen_t size = sizeof address;
        int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

        line->outer = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        CU_ASSERT_EQUAL_FATAL(bind(listener, (struct sockaddr *)&address, size), 0);
        CU_ASSERT_EQUAL_FATAL(listen(listener, 1), 0);
        CU_ASSERT_EQUAL_FATAL(getsockname(listener, (struct sockaddr *)&address, &size), 0);
        CU_ASSERT_EQUAL_FATAL(connect(line->outer, (struct sockaddr *)&address, size), 0);
        line->inner = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
        close(listener);
        line->stream = weir_stream_of(line->inner);
        CU_ASSERT_PTR_NOT_NULL_FATAL(line->stream);
}

static void
open_pair(struct line *line)
{
        int ends[2];

        CU_ASSERT_EQUAL_FATAL(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
        CU_ASSERT_EQUAL(fcntl(ends[1], F_SETFL, O_NONBLOCK), 0);
        *line = (struct line){ends[0], ends[1], weir_stream_of(ends[0])};
}

static void
close_line(struct line *line)
{
        weir_stream_unref(line->stream);
        close(line->outer);
}

struct pumped {
        struct weir_test_record record;
        uint64_t moved;
        weir_stream *failed;
};

static void
note(weir_task *pump, void *context)
{
        struct pumped *pumped = context;

        pumped->moved = weir_pump_moved(pump);
        pumped->failed = weir_pump_failed(pump);
        weir_test_note(&pumped->record, weir_task_status(pump));
}

static weir_task *
pump(struct line *from, struct line *to, struct pumped *pumped)
{
        return weir_test_recorded(weir_pump_new(from->stream, to->stream, note, pumped));
}

/* A series of it and of the end of the writing behind it. */
static weir_series *
pump_whole(struct line *from, struct line *to, struct pumped *pumped)
{
        weir_series *series = weir_series_new(NULL, NULL);

        weir_series_push(series, pump(from, to, pumped));
        weir_series_push(series, weir_stream_finish_new(to->stream, NULL, NULL));
        return series;
}

/* Bytes that follow from their place.  A period of the pattern is no multiple of any buffer. */
#define PERIOD ((size_t)1000003)

static char *
make_pattern(unsigned seed)
{
        char *pattern = malloc(2 * PERIOD);
        uint64_t state = seed;

        for (size_t i = 0; i < PERIOD; i++) {
                state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
                pattern[i] = pattern[i + PERIOD] = (char)(state >> 56);
        }
        return pattern;
}

/* -- all bytes -- */

struct half {
        int fd;
        const char *pattern;
        uint64_t size, seen;
        bool is_right;
};

static void *
feed(void *context)
{
        struct half *half = context;

        for (uint64_t sent = 0; sent < half->size;) {
                uint64_t left = half->size - sent;
                ssize_t count = send(half->fd, half->pattern + sent % PERIOD, left < PERIOD ? (size_t)left : PERIOD,
                                     MSG_NOSIGNAL);

                if (count <= 0)
                        break;
                sent += (uint64_t)count;
        }
        shutdown(half->fd, SHUT_WR);
        return NULL;
}

static void *
compare(void *context)
{
        static const size_t room = (size_t)1 << 18;
        struct half *half = context;
        char *bytes = malloc(room);
        ssize_t count;

        half->is_right = true;
        while ((count = recv(half->fd, bytes, room, 0)) > 0) {
                half->is_right &= memcmp(bytes, half->pattern + half->seen % PERIOD, (size_t)count) == 0;
                half->seen += (uint64_t)count;
        }
        free(bytes);
        return NULL;
}

static void
all_bytes_come_in_both_directions(void)
{
        struct line left = {0}, right = {0};
        struct pumped out = {0}, back = {0};
        char *patterns[2] = {make_pattern(1), make_pattern(2)};
        pthread_t threads[4];

        weir_test_begin_real(2);
        open_line(&left);
        open_line(&right);
        struct half halves[4] = {{left.outer, patterns[0], MANY, 0, true},
                                 {right.outer, patterns[0], MANY, 0, true},
                                 {right.outer, patterns[1], MANY, 0, true},
                                 {left.outer, patterns[1], MANY, 0, true}};
        weir_series_start(pump_whole(&left, &right, &out));
        weir_series_start(pump_whole(&right, &left, &back));
        for (int i = 0; i < 4; i++)
                CU_ASSERT_EQUAL_FATAL(pthread_create(&threads[i], NULL, i % 2 ? compare : feed, &halves[i]), 0);
        for (int i = 0; i < 4; i++)
                pthread_join(threads[i], NULL);
        CU_ASSERT(halves[1].is_right && halves[3].is_right);
        CU_ASSERT_EQUAL(halves[1].seen, MANY);
        CU_ASSERT_EQUAL(halves[3].seen, MANY);
        weir_test_wait_freed(&out.record);
        weir_test_wait_freed(&back.record);
        WEIR_TEST_CALLED(&out.record, 0);
        WEIR_TEST_CALLED(&back.record, 0);
        CU_ASSERT_EQUAL(out.moved, MANY);
        CU_ASSERT_EQUAL(back.moved, MANY);
        CU_ASSERT_PTR_NULL(out.failed);
        close_line(&left);
        close_line(&right);
        weir_test_end();
        free(patterns[0]);
        free(patterns[1]);
}

/* Writes what goes behind what is sent, and takes what comes, until `size` bytes have come and were right, or nothing moves. */
static size_t
carry(int in, int out, const char *pattern, size_t sent, size_t size)
{
        static char room[1 << 16];
        size_t seen = 0;

        for (int idle = 0; seen < size && idle < 3000; idle++) {
                ssize_t count = sent < size ? send(in, pattern + sent, size - sent, MSG_NOSIGNAL | MSG_DONTWAIT) : 0;

                if (count > 0)
                        sent += (size_t)count;
                weir_test_pass(0);
                if (idle)
                        (void)poll(&(struct pollfd){.fd = out, .events = POLLIN}, 1, 10); /* TCP takes its time */
                while ((count = recv(out, room, sizeof room, MSG_DONTWAIT)) > 0 &&
                       memcmp(room, pattern + seen, (size_t)count) == 0) {
                        seen += (size_t)count;
                        idle = 0;
                }
        }
        return seen;
}

static weir_tls *
settings(bool is_client)
{
        struct weir_tls_config config = WEIR_TLS_CONFIG_DEFAULT;

        if (is_client) {
                config.ca_file = tls_path("ca.pem");
                return weir_tls_client_new(&config);
        }
        config.certificate_file = tls_path("server.pem");
        config.private_key_file = tls_path("server.key");
        return weir_tls_server_new(&config);
}

/* plain --pump--> secret ==TLS==> its peer --pump--> plain: one side of each pump has TLS. */
static void
one_side_may_have_tls(void)
{
        struct line in, out;
        struct pumped first = {0}, second = {0};
        weir_tls *of_client = settings(true), *of_server = settings(false);
        char *pattern = make_pattern(3);
        int ends[2];

        weir_test_begin_virtual();
        open_pair(&in);
        open_pair(&out);
        CU_ASSERT_EQUAL_FATAL(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
        struct line client = {ends[0], -1, weir_stream_of(ends[0])}, server = {ends[1], -1, weir_stream_of(ends[1])};
        struct weir_test_record shaken[2] = {0};
        weir_task_start(weir_test_recorded(
                weir_stream_start_tls_new(client.stream, of_client, "server.example", weir_test_done, &shaken[0])));
        weir_task_start(
                weir_test_recorded(weir_stream_start_tls_new(server.stream, of_server, NULL, weir_test_done, &shaken[1])));
        WEIR_TEST_EVENTUALLY((weir_test_pass(0), shaken[0].frees && shaken[1].frees));
        WEIR_TEST_CALLED(&shaken[0], 0);
        weir_task_start(pump(&in, &client, &first));
        weir_task_start(pump(&server, &out, &second));
        CU_ASSERT_EQUAL(carry(in.outer, out.outer, pattern, 0, PERIOD), PERIOD);
        weir_stream_unref(client.stream);
        weir_stream_unref(server.stream);
        close_line(&in);
        close_line(&out);
        weir_test_end();
        CU_ASSERT_EQUAL(first.record.frees + second.record.frees, 2);
        weir_tls_unref(of_client);
        weir_tls_unref(of_server);
        free(pattern);
}

/* The system does not move them through a pipe. */
static void
bytes_behind_urgent_data_come_too(void)
{
        struct line from, to;
        struct pumped pumped = {0};
        char *pattern = make_pattern(6);
        size_t half = PERIOD / 2;

        weir_test_begin_virtual();
        open_line(&from);
        open_line(&to);
        weir_task_start(pump(&from, &to, &pumped));
        CU_ASSERT_EQUAL(carry(from.outer, to.outer, pattern, 0, half), half);
        CU_ASSERT_EQUAL(send(from.outer, "!", 1, MSG_OOB), 1);
        CU_ASSERT_EQUAL(carry(from.outer, to.outer, pattern + half, 0, PERIOD - half), PERIOD - half);
        close_line(&from);
        close_line(&to);
        weir_test_end();
        free(pattern);
}

static void
pipes_are_pumped_too(void)
{
        static char room[1 << 16];
        struct pumped pumped = {0};
        char *pattern = make_pattern(4);
        int in[2], out[2];
        size_t sent = 0, seen = 0;

        CU_ASSERT_FATAL(pipe2(in, O_CLOEXEC | O_NONBLOCK) == 0 && pipe2(out, O_CLOEXEC | O_NONBLOCK) == 0);
        weir_test_begin_virtual();
        struct line from = {in[0], in[1], weir_stream_of(in[0])}, to = {out[1], out[0], weir_stream_of(out[1])};
        weir_task_start(pump(&from, &to, &pumped));
        for (int idle = 0; seen < PERIOD && idle < 100; idle++) {
                ssize_t count = sent < PERIOD ? write(in[1], pattern + sent, PERIOD - sent) : 0;

                sent += count > 0 ? (size_t)count : 0;
                weir_test_pass(0);
                while ((count = read(out[0], room, sizeof room)) > 0 && memcmp(room, pattern + seen, (size_t)count) == 0) {
                        seen += (size_t)count;
                        idle = 0;
                }
        }
        CU_ASSERT_EQUAL(seen, PERIOD);
        close(in[1]);
        WEIR_TEST_EVENTUALLY((weir_test_pass(0), pumped.record.frees));
        WEIR_TEST_CALLED(&pumped.record, 0);
        CU_ASSERT_EQUAL(pumped.moved, PERIOD);
        weir_stream_unref(from.stream);
        weir_stream_unref(to.stream);
        weir_test_end();
        close(out[0]);
        free(pattern);
}

/* -- many -- */

static unsigned
descriptors(void)
{
        return weir_test_entries_of("/proc/self/fd");
}

static unsigned
room_for_pumps(void)
{
        struct rlimit limit;

        getrlimit(RLIMIT_NOFILE, &limit);
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
        return limit.rlim_max > 4500 && !WEIR_TEST_SANITIZED ? 1000 : 100;
}

/* Each has bytes in hand that its reader does not take. */
static void
a_thousand_pumps_take_few_descriptors(void)
{
        static struct line from[1000], to[1000];
        static struct pumped pumped[1000];
        unsigned count = room_for_pumps(), right = 0;
        char *pattern = make_pattern(5);
        size_t sent[1000] = {0};

        memset(pumped, 0, sizeof pumped);
        weir_test_begin_virtual();
        weir_test_end(); /* the library keeps a descriptor from its first start on */
        unsigned outside = descriptors();
        weir_test_begin_virtual();
        unsigned before = descriptors();
        for (unsigned i = 0; i < count; i++) {
                open_pair(&from[i]);
                open_pair(&to[i]);
                weir_task_start(pump(&from[i], &to[i], &pumped[i]));
        }
        for (int turn = 0; turn < 20; turn++) {
                for (unsigned i = 0; i < count; i++) {
                        ssize_t sent_now = send(from[i].outer, pattern + sent[i], 500000 - sent[i], MSG_DONTWAIT | MSG_NOSIGNAL);

                        sent[i] += sent_now > 0 ? (size_t)sent_now : 0;
                }
                weir_test_pass(0);
        }
        unsigned used = descriptors() - before - 4 * count;
        CU_ASSERT(used >= 2 && used <= 2 * (64 + 8)); /* the pipes */
        for (unsigned i = 0; i < count; i++)
                right += carry(from[i].outer, to[i].outer, pattern, sent[i], sent[i]) == sent[i];
        CU_ASSERT_EQUAL(right, count);
        used = descriptors() - before - 4 * count;
        CU_ASSERT(used <= 2 * 8); /* nobody has a pipe while it waits */
        for (unsigned i = 0; i < count; i++) {
                shutdown(from[i].outer, SHUT_WR);
                close_line(&from[i]);
                close_line(&to[i]);
        }
        weir_test_end();
        CU_ASSERT_EQUAL(descriptors(), outside);
        for (unsigned i = 0; i < count; i++)
                CU_ASSERT_EQUAL(pumped[i].record.frees, 1);
        free(pattern);
}

/* -- slow and broken peers -- */

/* Fills a pump until nothing goes any more.  Returns how many bytes that took. */
static size_t
fill(struct line *from)
{
        static const char zeros[1 << 16];
        size_t size = 0;

        for (int idle = 0; idle < 3; weir_test_pass(0)) {
                ssize_t count = send(from->outer, zeros, sizeof zeros, MSG_NOSIGNAL | MSG_DONTWAIT);

                size += count > 0 ? (size_t)count : 0;
                idle = count > 0 ? 0 : idle + 1;
        }
        return size;
}

static size_t
drain(int fd)
{
        static char room[1 << 16];
        ssize_t count;
        size_t size = 0;

        while ((count = recv(fd, room, sizeof room, MSG_DONTWAIT)) > 0)
                size += (size_t)count;
        return size;
}

static void
a_slow_reader_slows_the_writer(void)
{
        struct line from, to;
        struct pumped pumped = {0};

        weir_test_begin_virtual();
        open_pair(&from);
        open_pair(&to);
        weir_task_start(pump(&from, &to, &pumped));
        size_t sent = fill(&from), seen = 0;
        CU_ASSERT(sent < (size_t)4 << 20); /* of sockets and one step */
        for (int turn = 0; turn < 1000 && seen < sent; turn++) {
                char room[1000];
                ssize_t count = recv(to.outer, room, sizeof room, MSG_DONTWAIT);

                seen += count > 0 ? (size_t)count : 0;
                weir_test_pass(WEIR_SEC(1));
                if (turn == 500)
                        seen += drain(to.outer);
        }
        WEIR_TEST_EVENTUALLY((weir_test_pass(0), (seen += drain(to.outer)) >= sent));
        CU_ASSERT_EQUAL(seen, sent);
        CU_ASSERT_EQUAL(pumped.record.calls, 0);
        shutdown(from.outer, SHUT_WR);
        WEIR_TEST_EVENTUALLY((weir_test_pass(0), pumped.record.frees));
        CU_ASSERT_EQUAL(pumped.moved, sent);
        close_line(&from);
        close_line(&to);
        weir_test_end();
}

static void
a_dump_says_what_a_pump_waits_for(void)
{
        struct line from, to;
        struct pumped pumped = {0};

        weir_test_begin_virtual();
        open_pair(&from);
        open_pair(&to);
        weir_series_start(pump_whole(&from, &to, &pumped));
        weir_test_pass(0);
        WEIR_TEST_DUMPS("pump pending: runs number 1\n");
        WEIR_TEST_DUMPS("read of a stream pending, ");
        WEIR_TEST_DUMPS(" old: 1 byte from unix:");
        fill(&from);
        WEIR_TEST_DUMPS("write of a stream pending, ");
        close_line(&from);
        close_line(&to);
        weir_test_end();
}

static void
reset(struct line *line)
{
        static const struct linger at_once = {.l_onoff = 1};

        CU_ASSERT_EQUAL(setsockopt(line->outer, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once), 0);
        close(line->outer);
        line->outer = open("/dev/null", O_RDONLY | O_CLOEXEC);
}

/* `is_full`: bytes that are in hand wait for the reader. */
static void
check_reset(bool of_reader, bool is_full)
{
        struct line from, to;
        struct pumped pumped = {0};

        weir_test_begin_virtual();
        open_line(&from);
        open_line(&to);
        weir_task_start(pump(&from, &to, &pumped));
        weir_test_pass(0);
        if (is_full)
                fill(&from);
        reset(of_reader ? &to : &from);
        if (!is_full)
                (void)!send(from.outer, "x", 1, MSG_NOSIGNAL);
        if (!of_reader)
                drain(to.outer); /* else it learns of it when all else has gone out */
        WEIR_TEST_EVENTUALLY((weir_test_pass(0), (void)(of_reader || drain(to.outer)), pumped.record.frees));
        CU_ASSERT(pumped.record.status == -ECONNRESET || (of_reader && pumped.record.status == -EPIPE));
        CU_ASSERT_PTR_EQUAL(pumped.failed, of_reader ? to.stream : from.stream);
        close_line(&from);
        close_line(&to);
        weir_test_end();
}

static void
a_reset_tells_its_side(void)
{
        check_reset(false, false);
        check_reset(false, true);
        check_reset(true, false);
        check_reset(true, true);
}

static void
a_cancel_in_the_middle_tells_what_has_gone(void)
{
        char *pattern = make_pattern(7);
        struct line from, to;
        struct pumped pumped = {0};

        weir_test_begin_virtual();
        open_pair(&from);
        open_pair(&to);
        weir_series *series = weir_series_ref(weir_series_new(NULL, NULL));
        weir_series_push(series, pump(&from, &to, &pumped));
        weir_series_start(series);
        size_t sent = fill(&from), seen = drain(to.outer);
        sent += fill(&from);
        weir_series_cancel(series);
        weir_test_pass(0);
        WEIR_TEST_CALLED(&pumped.record, -ECANCELED);
        CU_ASSERT_PTR_NULL(pumped.failed);
        seen += drain(to.outer);
        CU_ASSERT_EQUAL(pumped.moved, seen);
        CU_ASSERT(seen < sent); /* the rest is lost, so both are broken */
        struct weir_test_record read = {0}, write = {0};
        weir_task_start(weir_test_recorded(weir_stream_read_new(from.stream, 1, 1, weir_test_done, &read)));
        weir_task_start(weir_test_recorded(weir_stream_write_new(to.stream, "x", 1, weir_test_done, &write)));
        weir_test_pass(0);
        WEIR_TEST_CALLED(&read, -ECONNABORTED);
        WEIR_TEST_CALLED(&write, -ECONNABORTED);
        weir_series_unref(series);
        close_line(&from);
        close_line(&to);
        open_pair(&from);
        open_pair(&to);
        struct pumped next = {0};
        weir_task_start(pump(&from, &to, &next));
        CU_ASSERT_EQUAL(carry(from.outer, to.outer, pattern, 0, PERIOD), PERIOD); /* nothing of the lost bytes comes */
        close_line(&from);
        close_line(&to);
        weir_test_end();
        free(pattern);
}

static void
a_deadline_ends_an_idle_pump_and_leaves_the_streams(void)
{
        struct line from, to;
        struct pumped pumped = {0};

        weir_test_begin_virtual();
        open_pair(&from);
        open_pair(&to);
        weir_series *series = weir_series_new(NULL, NULL);
        weir_series_push(series, pump(&from, &to, &pumped));
        weir_series_set_deadline(series, WEIR_SEC(5));
        weir_series_start(series);
        size_t sent = fill(&from), seen = drain(to.outer);
        WEIR_TEST_EVENTUALLY((weir_test_pass(0), (seen += drain(to.outer)) >= sent));
        weir_test_pass(WEIR_SEC(4));
        CU_ASSERT_EQUAL(pumped.record.calls, 0);
        weir_test_pass(WEIR_SEC(2));
        WEIR_TEST_CALLED(&pumped.record, -ETIMEDOUT);
        CU_ASSERT_EQUAL(pumped.moved, sent);
        CU_ASSERT_PTR_NULL(pumped.failed);
        struct weir_test_record read = {0}, write = {0};
        weir_task_start(weir_test_recorded(weir_stream_write_new(to.stream, "x", 1, weir_test_done, &write)));
        CU_ASSERT_EQUAL(send(from.outer, "y", 1, MSG_NOSIGNAL), 1);
        weir_task_start(weir_test_recorded(weir_stream_read_new(from.stream, 1, 1, weir_test_done, &read)));
        weir_test_pass(0);
        WEIR_TEST_CALLED(&read, 0);
        WEIR_TEST_CALLED(&write, 0);
        close_line(&from);
        close_line(&to);
        weir_test_end();
}

static const struct weir_test tests[] = {
        WEIR_TEST(all_bytes_come_in_both_directions),          WEIR_TEST(one_side_may_have_tls),
        WEIR_TEST(bytes_behind_urgent_data_come_too),          WEIR_TEST(pipes_are_pumped_too),
        WEIR_TEST(a_thousand_pumps_take_few_descriptors),      WEIR_TEST(a_slow_reader_slows_the_writer),
        WEIR_TEST(a_dump_says_what_a_pump_waits_for),          WEIR_TEST(a_reset_tells_its_side),
        WEIR_TEST(a_cancel_in_the_middle_tells_what_has_gone), WEIR_TEST(a_deadline_ends_an_idle_pump_and_leaves_the_streams),
};

int
main(void)
{
        tls_files_begin();
        tls_make_certificate("ca", &(struct tls_wish){.key = TLS_EC});
        tls_make_certificate("server",
                             &(struct tls_wish){.alternative_names = "DNS:server.example", .issuer = "ca", .key = TLS_EC});
        int result = weir_test_main("pump", tests, sizeof tests / sizeof *tests);
        tls_files_end();
        return result;
}
