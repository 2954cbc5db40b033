/* test/stream_resets_test.c: peers that go away in each state of a client, that never read, and that send one byte a second. */
#include "test/stream_fixture.h"
#include "test/tls_peer.h"

#define LARGE ((size_t)10 << 20)

static char *large;
static weir_tls *of_client, *of_server;

enum going { RESET, CLOSE, GOINGS };

static const int seen_by_reads[GOINGS] = {-ECONNRESET, -EPIPE};

static void
go_away(enum going going)
{
        if (going == RESET) {
                reset_by_peer();
                return;
        }
        close(peer);
        peer = -1;
}

/* -- tasks -- */

struct seen {
        struct weir_test_record record;
        char text[64];
        size_t size;
};

static void
see(weir_task *read, void *context)
{
        struct seen *seen = context;

        snprintf(seen->text, sizeof seen->text, "%s", (const char *)weir_stream_data(read, &seen->size));
        weir_test_note(&seen->record, weir_task_status(read));
}

static weir_task *
read_into(struct seen *seen, size_t least, size_t most)
{
        return weir_test_recorded(weir_stream_read_new(stream, least, most, see, seen));
}

static weir_task *
write_large(struct weir_test_record *record)
{
        return weir_test_recorded(weir_stream_write_lent_new(stream, large, LARGE, weir_test_done, record));
}

static int
status_of_read(void)
{
        struct seen seen = {0};

        start(read_into(&seen, 1, 1));
        BECOMES(seen.record.frees);
        return seen.record.status;
}

static void
put(const char *text)
{
        CU_ASSERT_EQUAL(write(peer, text, strlen(text)), (ssize_t)strlen(text));
}

/* The peer reads that many bytes. */
static void
take(size_t size)
{
        while (size) {
                ssize_t count = peer_sees();

                CU_ASSERT_FATAL(count > 0);
                size -= (size_t)count < size ? (size_t)count : size;
                weir_test_pass(0);
        }
}

/* -- connects -- */

static int listener;
static char address[64];

static void
begin_listening(void)
{
        weir_test_begin_virtual();
        listener = listen_here(address);
        peer = -1;
        stream = NULL;
}

static void
end_listening(void)
{
        close(listener);
        end();
}

static void
keep(weir_task *connect, void *record)
{
        stream = weir_connect_take_stream(connect);
        weir_test_done(connect, record);
}

static void
start_connect(bool is_secure, struct weir_test_record *record)
{
        start(weir_test_recorded(is_secure ? weir_connect_tls_new(address, of_client, "server.example", keep, record)
                                           : weir_connect_new(address, keep, record)));
}

static void
accept_peer(void)
{
        BECOMES((peer = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK)) >= 0);
}

/* The system has accepted it, and the program that listens dies. */
static void
a_listener_that_dies_resets_what_it_has_not_accepted(void)
{
        struct weir_test_record plain = {0}, secure = {0};

        begin_listening();
        start_connect(false, &plain);
        BECOMES(plain.frees);
        WEIR_TEST_CALLED(&plain, 0);
        weir_stream *connected = stream; /* the next one's callback sets it */
        start_connect(true, &secure);
        weir_test_pass(0);
        CU_ASSERT_EQUAL(secure.calls, 0);
        close(listener);
        BECOMES(secure.frees);
        WEIR_TEST_CALLED(&secure, -ECONNRESET);
        CU_ASSERT_PTR_NULL(stream);
        stream = connected;
        CU_ASSERT_EQUAL(status_of_read(), -ECONNRESET);
        end();
}

/* `words` of the peer before it goes; NULL: none. */
static void
go_away_in_the_handshake(enum going going, const char *words, int status)
{
        struct weir_test_record record = {0};

        begin_listening();
        start_connect(true, &record);
        accept_peer();
        CU_ASSERT(peer_sees() > 0); /* all of the client's first words, so that a close is none of RESET */
        if (words)
                CU_ASSERT_EQUAL(write(peer, words, 8), 8);
        weir_test_pass(0);
        go_away(going);
        BECOMES(record.frees);
        WEIR_TEST_CALLED(&record, status);
        CU_ASSERT_PTR_NULL(stream);
        end_listening();
}

static void
a_peer_that_goes_in_the_handshake_ends_the_connect(void)
{
        static const char half[] = "\x16\x03\x03\x00\x7a\x02\x00\x00"; /* the beginning of the server's first words */

        go_away_in_the_handshake(RESET, NULL, -ECONNRESET);
        go_away_in_the_handshake(RESET, half, -ECONNRESET);
        go_away_in_the_handshake(CLOSE, NULL, -ECONNABORTED);
        go_away_in_the_handshake(CLOSE, half, -ECONNABORTED);
}

/* -- behind the handshake -- */

static weir_stream *secure_peer;
static int number; /* of its descriptor, once more */

static void
begin_secure(void)
{
        struct weir_test_record ours = {0}, theirs = {0};

        begin_listening();
        start_connect(true, &ours);
        accept_peer();
        number = dup(peer);
        secure_peer = weir_stream_of(peer);
        peer = -1;
        start(weir_test_recorded(weir_stream_start_tls_new(secure_peer, of_server, NULL, weir_test_done, &theirs)));
        BECOMES(ours.frees && theirs.frees);
        CU_ASSERT_EQUAL(ours.status, 0);
        CU_ASSERT_PTR_NOT_NULL_FATAL(stream);
}

static void
end_secure(void)
{
        weir_stream_unref(secure_peer);
        end_listening();
}

static void
reset_by_secure_peer(void)
{
        close(number);
        weir_stream_break(secure_peer);
}

static void
a_secure_peer_that_goes_before_the_first_read_is_told(void)
{
        struct weir_test_record written = {0};

        begin_secure();
        reset_by_secure_peer();
        weir_test_pass(0);
        CU_ASSERT_EQUAL(status_of_read(), -ECONNRESET);
        start(weir_test_recorded(weir_stream_write_new(stream, "x", 1, weir_test_done, &written)));
        BECOMES(written.frees);
        WEIR_TEST_CALLED(&written, -ECONNRESET);
        end_secure();
        begin_secure();
        CU_ASSERT_EQUAL(shutdown(number, SHUT_WR), 0); /* without the words for it: somebody may have cut it */
        close(number);
        CU_ASSERT_EQUAL(status_of_read(), -ECONNABORTED);
        end_secure();
        begin_secure();
        close(number);
        weir_stream_unref(secure_peer);
        secure_peer = NULL;
        CU_ASSERT_EQUAL(status_of_read(), -EPIPE);
        end_secure();
}

static void
a_secure_peer_that_goes_within_a_large_write_is_told(void)
{
        struct weir_test_record record = {0};
        struct seen part = {0};

        begin_secure();
        start(write_large(&record));
        start(weir_test_recorded(weir_stream_read_new(secure_peer, LARGE / 10, LARGE, see, &part)));
        BECOMES(part.record.frees);
        CU_ASSERT_EQUAL(part.record.status, 0);
        reset_by_secure_peer();
        BECOMES(record.frees);
        CU_ASSERT(record.calls == 1 && (record.status == -ECONNRESET || record.status == -EPIPE));
        CU_ASSERT_EQUAL(weir_stream_unsent(stream), 0);
        CU_ASSERT_EQUAL(status_of_read(), -ECONNRESET);
        end_secure();
}

/* -- plain -- */

static void
a_peer_that_goes_before_the_first_read_is_told(void)
{
        for (enum going going = 0; going < GOINGS; going++) {
                begin();
                go_away(going);
                CU_ASSERT_EQUAL(status_of_read(), seen_by_reads[going]);
                end();
                begin();
                put("ab");
                go_away(going);
                CU_ASSERT_EQUAL(status_of_read(), 0); /* the bytes before it come first */
                CU_ASSERT_EQUAL(status_of_read(), 0);
                CU_ASSERT_EQUAL(status_of_read(), seen_by_reads[going]);
                end();
        }
}

static void
a_peer_that_goes_under_a_read_ends_it(void)
{
        for (enum going going = 0; going < GOINGS; going++) {
                struct seen seen = {0}, next = {0};

                begin();
                start(read_into(&seen, 5, 5));
                start(read_into(&next, 1, 1));
                put("abc");
                weir_test_pass(0);
                go_away(going);
                BECOMES(next.record.frees);
                WEIR_TEST_CALLED(&seen.record, seen_by_reads[going]);
                CU_ASSERT_STRING_EQUAL(seen.text, "abc");
                WEIR_TEST_CALLED(&next.record, seen_by_reads[going]);
                end();
        }
}

static void
a_peer_that_goes_within_a_large_write_is_told(void)
{
        for (enum going going = 0; going < GOINGS; going++) {
                struct weir_test_record record = {0}, behind = {0};
                struct seen waiting = {0};

                begin();
                start(read_into(&waiting, 1, 1));
                start(write_large(&record));
                start(weir_test_recorded(weir_stream_finish_new(stream, weir_test_done, &behind)));
                take(LARGE / 10);
                CU_ASSERT_EQUAL(record.calls, 0);
                go_away(going); /* a reset, for it has not read all */
                BECOMES(record.frees && behind.frees && waiting.record.frees);
                CU_ASSERT(record.calls == 1 && (record.status == -ECONNRESET || record.status == -EPIPE));
                CU_ASSERT_EQUAL(behind.status, record.status);
                WEIR_TEST_CALLED(&waiting.record, -ECONNRESET);
                CU_ASSERT_EQUAL(weir_stream_unsent(stream), 0);
                end();
        }
}

static weir_series *to_cancel;

static void
cancel_it(weir_task *task, void *unused)
{
        (void)unused;
        CU_ASSERT_EQUAL(weir_task_status(task), 0);
        weir_series_cancel(to_cancel);
}

static void
start_both(void *unused)
{
        (void)unused;
        start(weir_stream_read_new(stream, 1, 1, cancel_it, NULL));
        weir_series_start(to_cancel);
}

/* Both reads have their bytes when the first one calls back. */
static void
last_words_that_a_cancelled_read_has_been_given_are_there_for_the_next(void)
{
        struct weir_test_record record = {0};
        struct seen cancelled = {0}, next = {0};

        begin();
        start(write_large(&record));
        weir_test_pass(0);
        put("413 no");
        go_away(CLOSE);
        BECOMES(record.frees);
        to_cancel = weir_series_ref(weir_series_new(NULL, NULL));
        weir_series_push(to_cancel, read_into(&cancelled, 3, 3));
        weir_test_act(0, start_both, NULL);
        BECOMES(cancelled.record.frees);
        WEIR_TEST_CALLED(&cancelled.record, -ECANCELED);
        start(read_into(&next, 5, 5));
        BECOMES(next.record.frees);
        WEIR_TEST_CALLED(&next.record, 0);
        CU_ASSERT_STRING_EQUAL(next.text, "13 no");
        weir_series_unref(to_cancel);
        end();
}

/* It refuses what we send, says why, and goes.  Nobody reads while the write waits. */
static void
the_last_words_of_a_peer_are_there_behind_the_write_that_failed(void)
{
        struct weir_test_record record = {0};
        struct seen line = {0}, rest = {0};

        begin();
        start(write_large(&record));
        weir_test_pass(0);
        put("413 too large\nbye");
        go_away(CLOSE); /* a reset */
        BECOMES(record.frees);
        CU_ASSERT(record.status == -ECONNRESET || record.status == -EPIPE);
        start(weir_test_recorded(weir_stream_read_until_new(stream, "\n", 1, 100, see, &line)));
        start(read_into(&rest, 10, 10));
        BECOMES(rest.record.frees);
        WEIR_TEST_CALLED(&line.record, 0);
        CU_ASSERT_STRING_EQUAL(line.text, "413 too large\n");
        WEIR_TEST_CALLED(&rest.record, -ECONNRESET);
        CU_ASSERT_STRING_EQUAL(rest.text, "bye");
        CU_ASSERT_EQUAL(status_of_read(), -ECONNRESET);
        end();
}

static void
a_peer_that_goes_behind_our_end_ends_the_read(void)
{
        for (enum going going = 0; going < GOINGS; going++) {
                struct weir_test_record finished = {0};
                struct seen seen = {0};

                begin();
                start(weir_test_recorded(weir_stream_finish_new(stream, weir_test_done, &finished)));
                start(read_into(&seen, 5, 5));
                BECOMES(finished.frees);
                WEIR_TEST_CALLED(&finished, 0);
                CU_ASSERT_EQUAL(peer_sees(), 0);
                put("abc");
                go_away(going);
                BECOMES(seen.record.frees);
                WEIR_TEST_CALLED(&seen.record, seen_by_reads[going]);
                CU_ASSERT_STRING_EQUAL(seen.text, "abc");
                end();
        }
}

/* -- slow peers -- */

/* The peer does not read: a deadline or a cancel of the series ends the write, and the connection with it. */
static void
end_a_write_that_nobody_reads(bool by_deadline)
{
        struct weir_test_record record = {0}, behind = {0};
        weir_series *series = weir_series_ref(weir_series_new(NULL, NULL));
        ssize_t count;
        size_t whole = 0;

        begin();
        weir_series_push(series, write_large(&record));
        if (by_deadline)
                weir_series_set_deadline(series, WEIR_SEC(5));
        weir_series_start(series);
        start(weir_test_recorded(weir_stream_write_new(stream, "x", 1, weir_test_done, &behind)));
        weir_test_pass(WEIR_SEC(4));
        CU_ASSERT_EQUAL(record.calls + behind.calls, 0);
        CU_ASSERT_EQUAL(weir_stream_unsent(stream), LARGE + 1);
        if (by_deadline)
                weir_test_pass(WEIR_SEC(2));
        else
                weir_series_cancel(series);
        BECOMES(record.frees && behind.frees);
        WEIR_TEST_CALLED(&record, by_deadline ? -ETIMEDOUT : -ECANCELED);
        WEIR_TEST_CALLED(&behind, -ECONNABORTED);
        CU_ASSERT_EQUAL(weir_stream_unsent(stream), 0);
        CU_ASSERT_EQUAL(status_of_read(), -ECONNABORTED);
        while ((count = peer_sees()) > 0)
                whole += (size_t)count;
        CU_ASSERT(count == -ECONNRESET && whole < LARGE); /* it does not take that for the whole */
        weir_series_unref(series);
        end();
}

static void
a_peer_that_never_reads_is_given_up(void)
{
        end_a_write_that_nobody_reads(true);
        end_a_write_that_nobody_reads(false);
}

static void
one_byte_a_second_is_read(void)
{
        struct seen seen = {0}, late = {0}, rest = {0};
        weir_series *series = weir_series_ref(weir_series_new(NULL, NULL));
        weir_nsec began;

        begin();
        began = weir_now();
        start(read_into(&seen, 10, 10));
        for (unsigned i = 0; i < 10; i++) {
                CU_ASSERT_EQUAL(seen.record.calls, 0);
                put("a");
                weir_test_pass(WEIR_SEC(1));
        }
        BECOMES(seen.record.frees);
        WEIR_TEST_CALLED(&seen.record, 0);
        CU_ASSERT_STRING_EQUAL(seen.text, "aaaaaaaaaa");
        CU_ASSERT(seen.record.at - began >= WEIR_SEC(9));
        /* A delimiter that does not come within the time: what has come is there for the next read. */
        weir_series_push(series, weir_test_recorded(weir_stream_read_until_new(stream, "\n", 1, 100, see, &late)));
        weir_series_set_deadline(series, WEIR_SEC(10));
        weir_series_start(series);
        for (unsigned i = 0; i < 10; i++) {
                put("b");
                weir_test_pass(WEIR_SEC(1));
        }
        BECOMES(late.record.frees);
        WEIR_TEST_CALLED(&late.record, -ETIMEDOUT);
        start(read_into(&rest, 10, 100));
        BECOMES(rest.record.frees);
        CU_ASSERT_STRING_EQUAL(rest.text, "bbbbbbbbbb");
        weir_series_unref(series);
        end();
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(a_listener_that_dies_resets_what_it_has_not_accepted),
                WEIR_TEST(a_peer_that_goes_in_the_handshake_ends_the_connect),
                WEIR_TEST(a_secure_peer_that_goes_before_the_first_read_is_told),
                WEIR_TEST(a_secure_peer_that_goes_within_a_large_write_is_told),
                WEIR_TEST(a_peer_that_goes_before_the_first_read_is_told),
                WEIR_TEST(a_peer_that_goes_under_a_read_ends_it),
                WEIR_TEST(a_peer_that_goes_within_a_large_write_is_told),
                WEIR_TEST(the_last_words_of_a_peer_are_there_behind_the_write_that_failed),
                WEIR_TEST(last_words_that_a_cancelled_read_has_been_given_are_there_for_the_next),
                WEIR_TEST(a_peer_that_goes_behind_our_end_ends_the_read),
                WEIR_TEST(a_peer_that_never_reads_is_given_up),
                WEIR_TEST(one_byte_a_second_is_read),
        };
        struct weir_tls_config config = WEIR_TLS_CONFIG_DEFAULT, identity = WEIR_TLS_CONFIG_DEFAULT;

        tls_files_begin();
        tls_make_certificate("ca", &(struct tls_wish){.key = TLS_EC});
        tls_make_certificate("server",
                             &(struct tls_wish){.alternative_names = "DNS:server.example", .issuer = "ca", .key = TLS_EC});
        config.ca_file = tls_path("ca.pem");
        identity.certificate_file = tls_path("server.pem");
        identity.private_key_file = tls_path("server.key");
        of_client = weir_tls_client_new(&config);
        of_server = weir_tls_server_new(&identity);
        large = calloc(1, LARGE);
        int result = weir_test_main("stream_resets", tests, sizeof tests / sizeof *tests);
        free(large);
        weir_tls_unref(of_client);
        weir_tls_unref(of_server);
        tls_files_end();
        return result;
}
