/* test/tls_test.c: one connection of TLS: every way that bytes may come, end and break off. */
#include <stdio.h>

#include <openssl/err.h>

#include "test/tls_wire.h"

#define LARGE ((size_t)1000000)

static struct weir__tls_context *context;
static struct tls_wire wire;
static char buffer[65536];

static const int versions[] = {TLS1_2_VERSION, TLS1_3_VERSION};

static void
open_with(int version)
{
        tls_wire_connect(&wire, context, &(struct tls_client_wish){.version = version});
}

static ssize_t
read_some(size_t size)
{
        return weir__stream_read(&wire.stream, buffer, size);
}

static ssize_t
write_text(const char *text)
{
        struct iovec piece = {(char *)text, strlen(text)};

        return weir__stream_write(&wire.stream, &piece, 1);
}

static bool
may_have_more(void)
{
        return weir__stream_may_have_more(&wire.stream, 0, 0);
}

static void
expect_text(const char *expected, ssize_t count)
{
        CU_ASSERT_EQUAL(count, (ssize_t)strlen(expected));
        CU_ASSERT(count >= 0 && memcmp(buffer, expected, strlen(expected)) == 0);
}

/* -- the beginning -- */

static void
both_sides_read_what_the_other_writes(void)
{
        for (size_t i = 0; i < 2; i++) {
                open_with(versions[i]);
                CU_ASSERT_EQUAL(SSL_version(wire.client), versions[i]);
                CU_ASSERT_EQUAL(read_some(100), -EAGAIN);
                tls_wire_say(&wire, "question", 8);
                expect_text("question", read_some(100));
                CU_ASSERT_EQUAL(read_some(100), -EAGAIN);
                CU_ASSERT_EQUAL(write_text("answer"), 6);
                expect_text("answer", (ssize_t)tls_wire_hear(&wire, buffer, sizeof buffer));
                tls_wire_close(&wire);
        }
}

static void
a_handshake_may_come_byte_by_byte(void)
{
        bool client;

        for (size_t i = 0; i < 2; i++) {
                tls_wire_open(&wire, context, &(struct tls_client_wish){.version = versions[i]});
                CU_ASSERT_EQUAL(tls_wire_shake(&wire, 1, &client), 0);
                CU_ASSERT_TRUE(client);
                tls_wire_close(&wire);
        }
}

static void
a_read_has_the_handshake_first(void)
{
        tls_wire_open(&wire, context, &(struct tls_client_wish){0});
        for (unsigned i = 0; i < 4; i++) {
                SSL_do_handshake(wire.client);
                tls_wire_send(&wire, SIZE_MAX);
                CU_ASSERT_EQUAL(read_some(100), -EAGAIN);
                tls_wire_receive(&wire);
        }
        tls_wire_say(&wire, "early", 5);
        expect_text("early", read_some(100));
        tls_wire_close(&wire);
}

static void
bytes_behind_the_end_of_the_handshake_are_not_lost(void)
{
        size_t sent;

        tls_wire_open(&wire, context, &(struct tls_client_wish){.version = TLS1_3_VERSION});
        SSL_do_handshake(wire.client);
        tls_wire_send(&wire, SIZE_MAX);
        CU_ASSERT_EQUAL(weir__stream_handshake(&wire.stream), -EAGAIN);
        tls_wire_receive(&wire);
        CU_ASSERT_EQUAL(SSL_do_handshake(wire.client), 1);
        SSL_write_ex(wire.client, "at once", 7, &sent);
        tls_wire_send(&wire, SIZE_MAX);
        CU_ASSERT_EQUAL(weir__stream_handshake(&wire.stream), 0);
        CU_ASSERT_TRUE(may_have_more());
        expect_text("at once", read_some(100));
        CU_ASSERT_TRUE(may_have_more()); /* nobody has asked the system since */
        CU_ASSERT_EQUAL(read_some(100), -EAGAIN);
        tls_wire_close(&wire);
}

static void
old_versions_and_old_suites_are_refused(void)
{
        bool client;

        tls_wire_open(&wire, context, &(struct tls_client_wish){.version = TLS1_1_VERSION});
        CU_ASSERT_EQUAL(tls_wire_shake(&wire, SIZE_MAX, &client), -EPROTO);
        CU_ASSERT_FALSE(client);
        tls_wire_close(&wire);
        tls_wire_open(&wire, context, &(struct tls_client_wish){.version = TLS1_2_VERSION});
        SSL_set_cipher_list(wire.client, "AES128-GCM-SHA256:ECDHE-ECDSA-AES128-SHA:ECDHE-RSA-AES128-SHA256");
        CU_ASSERT_EQUAL(tls_wire_shake(&wire, SIZE_MAX, &client), -EPROTO);
        CU_ASSERT_FALSE(client);
        tls_wire_close(&wire);
}

static void
a_client_cannot_begin_anew(void)
{
        open_with(TLS1_2_VERSION);
        SSL_renegotiate(wire.client);
        SSL_do_handshake(wire.client);
        tls_wire_send(&wire, SIZE_MAX);
        ssize_t count = read_some(100);
        CU_ASSERT(count == -EAGAIN || count == -EPROTO);
        tls_wire_receive(&wire);
        CU_ASSERT_NOT_EQUAL(SSL_do_handshake(wire.client), 1);
        CU_ASSERT_EQUAL(ERR_GET_REASON(ERR_peek_error()), SSL_R_NO_RENEGOTIATION);
        ERR_clear_error();
        tls_wire_close(&wire);
}

static void
change_keys(unsigned times)
{
        for (unsigned i = 0; i < times; i++) {
                CU_ASSERT_EQUAL(SSL_key_update(wire.client, SSL_KEY_UPDATE_NOT_REQUESTED), 1);
                CU_ASSERT_EQUAL(SSL_do_handshake(wire.client), 1);
        }
}

static void
keys_may_change_now_and_then(void)
{
        open_with(TLS1_3_VERSION);
        for (unsigned i = 0; i < 2; i++) {
                change_keys(10);
                tls_wire_say(&wire, "new", 3);
                expect_text("new", read_some(100));
                CU_ASSERT_EQUAL(SSL_key_update(wire.client, SSL_KEY_UPDATE_REQUESTED), 1);
                CU_ASSERT_EQUAL(SSL_do_handshake(wire.client), 1);
                tls_wire_send(&wire, SIZE_MAX);
                CU_ASSERT_EQUAL(read_some(100), -EAGAIN);
                CU_ASSERT_EQUAL(write_text("answer"), 6);
                expect_text("answer", (ssize_t)tls_wire_hear(&wire, buffer, sizeof buffer));
        }
        tls_wire_close(&wire);
}

static void
a_client_that_does_nothing_but_change_keys_is_broken_off(void)
{
        open_with(TLS1_3_VERSION);
        change_keys(10000);
        while (tls_wire_send(&wire, SIZE_MAX)) {
        }
        CU_ASSERT_EQUAL(read_some(100), -EPROTO);
        CU_ASSERT_EQUAL(read_some(100), -EPROTO);
        CU_ASSERT(recv(wire.stream.source.fd, buffer, 1, MSG_PEEK) == 1); /* what it has sent was not all read */
        tls_wire_close(&wire);
}

/* A byte between them makes it no better. */
static void
a_little_data_among_them_does_not_help(void)
{
        unsigned rounds = 0;
        ssize_t count;

        open_with(TLS1_3_VERSION);
        do {
                change_keys(30);
                tls_wire_say(&wire, "a", 1);
                while ((count = read_some(100)) > 0) {
                }
        } while (count == -EAGAIN && ++rounds < 1000);
        CU_ASSERT_EQUAL(count, -EPROTO);
        tls_wire_close(&wire);
}

static unsigned called;

static void
count_info(const SSL *ssl, int where, int result)
{
        (void)ssl, (void)where, (void)result;
        called++;
}

/* Whose SSL_CTX it is hears what it would have heard. */
static void
a_callers_info_callback_is_called(void)
{
        struct weir__tls_context *own;
        SSL_CTX *ssl_ctx = SSL_CTX_new(TLS_server_method());

        SSL_CTX_use_certificate_file(ssl_ctx, tls_path("server.pem"), SSL_FILETYPE_PEM);
        SSL_CTX_use_PrivateKey_file(ssl_ctx, tls_path("server.key"), SSL_FILETYPE_PEM);
        SSL_CTX_set_info_callback(ssl_ctx, count_info);
        CU_ASSERT_EQUAL_FATAL(weir__tls_context_new_server(&own, &(struct weir__tls_server_config){.ssl_ctx = ssl_ctx}, NULL), 0);
        called = 0;
        tls_wire_connect(&wire, own, &(struct tls_client_wish){.version = TLS1_3_VERSION});
        CU_ASSERT_NOT_EQUAL(called, 0);
        change_keys(200);
        tls_wire_send(&wire, SIZE_MAX);
        CU_ASSERT_EQUAL(read_some(100), -EPROTO); /* and is no way round */
        tls_wire_close(&wire);
        weir__tls_context_unref(own);
        SSL_CTX_free(ssl_ctx);
}

static void
the_protocol_is_http_1_1_or_none_was_offered(void)
{
        static const struct {
                const char *offered, *chosen;
        } cases[] = {{NULL, ""}, {"\x08http/1.1", "http/1.1"}, {"\x02h2\x08http/1.1", "http/1.1"}, {"\x08http/1.0", "http/1.0"}};

        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
                const unsigned char *chosen;
                unsigned size;

                tls_wire_connect(&wire, context, &(struct tls_client_wish){.protocols = cases[i].offered});
                SSL_get0_alpn_selected(wire.client, &chosen, &size);
                CU_ASSERT_EQUAL(size, strlen(cases[i].chosen));
                CU_ASSERT(size == 0 || memcmp(chosen, cases[i].chosen, size) == 0);
                tls_wire_close(&wire);
        }
}

static void
a_client_that_offers_other_protocols_only_gets_an_alert(void)
{
        bool client;

        tls_wire_open(&wire, context, &(struct tls_client_wish){.protocols = "\x02h2\x06spdy/3"});
        CU_ASSERT_EQUAL(tls_wire_shake(&wire, SIZE_MAX, &client), -EPROTO);
        CU_ASSERT_FALSE(client);
        CU_ASSERT_EQUAL(ERR_GET_REASON(ERR_peek_error()), SSL_R_TLSV1_ALERT_NO_APPLICATION_PROTOCOL);
        ERR_clear_error();
        tls_wire_close(&wire);
}

/* -- reading -- */

/* But not all that there may be: others want their turn. */
static void
many_small_records_are_read_at_once(void)
{
        open_with(0);
        for (unsigned i = 0; i < 100; i++) {
                size_t sent;
                SSL_write_ex(wire.client, "abcde", 5, &sent);
        }
        while (tls_wire_send(&wire, SIZE_MAX)) {
        }
        CU_ASSERT_EQUAL(read_some(sizeof buffer), 320); /* of 64 records */
        CU_ASSERT_TRUE(may_have_more());
        CU_ASSERT_EQUAL(read_some(sizeof buffer), 180);
        CU_ASSERT_EQUAL(memcmp(buffer + 175, "abcde", 5), 0);
        CU_ASSERT_EQUAL(read_some(sizeof buffer), -EAGAIN);
        CU_ASSERT_FALSE(may_have_more());
        tls_wire_close(&wire);
}

static void
a_record_may_come_byte_by_byte(void)
{
        size_t sent;

        open_with(0);
        SSL_write_ex(wire.client, "slowly", 6, &sent);
        for (size_t left = (size_t)BIO_ctrl_pending(SSL_get_wbio(wire.client)); left > 1; left--) {
                CU_ASSERT_EQUAL(tls_wire_send(&wire, 1), 1);
                CU_ASSERT_EQUAL(read_some(100), -EAGAIN);
        }
        CU_ASSERT_EQUAL(tls_wire_send(&wire, 1), 1);
        expect_text("slowly", read_some(100));
        tls_wire_close(&wire);
}

static void
bytes_left_inside_are_reported(void)
{
        char all[41] = "";

        open_with(0);
        tls_wire_say(&wire, "0123456789012345678", 19);
        tls_wire_say(&wire, "0123456789012345678", 19);
        for (size_t have = 0; have < 38;) {
                ssize_t count = read_some(3);

                CU_ASSERT_FATAL(count > 0);
                memcpy(all + have, buffer, (size_t)count);
                have += (size_t)count;
                CU_ASSERT_TRUE(may_have_more() || have == 38);
        }
        CU_ASSERT_STRING_EQUAL(all, "01234567890123456780123456789012345678");
        CU_ASSERT_EQUAL(read_some(3), -EAGAIN);
        tls_wire_close(&wire);
}

static void
more_than_openssl_takes_at_once_is_not_forgotten(void)
{
        static char data[60000];
        size_t have = 0;

        open_with(0);
        tls_wire_say(&wire, data, sizeof data);
        do { /* what follows the last event: as long as it says so */
                ssize_t count = read_some(sizeof buffer);
                CU_ASSERT(count > 0 || count == -EAGAIN);
                if (count <= 0) {
                        break;
                }
                have += (size_t)count;
        } while (may_have_more());
        CU_ASSERT_EQUAL(have, sizeof data);
        tls_wire_close(&wire);
}

static void
a_peek_takes_nothing(void)
{
        open_with(0);
        CU_ASSERT_EQUAL(weir__stream_peek(&wire.stream), -EAGAIN);
        tls_wire_say(&wire, "there", 5);
        CU_ASSERT(weir__stream_peek(&wire.stream) > 0);
        CU_ASSERT(weir__stream_peek(&wire.stream) > 0);
        CU_ASSERT_TRUE(may_have_more());
        expect_text("there", read_some(100));
        CU_ASSERT_EQUAL(weir__stream_peek(&wire.stream), -EAGAIN);
        tls_wire_close(&wire);
}

/* -- writing -- */

static void
several_pieces_make_one_record(void)
{
        struct iovec pieces[3] = {{(char *)"one, ", 5}, {(char *)"", 0}, {(char *)"two", 3}};
        size_t count;

        open_with(0);
        tls_wire_hear(&wire, buffer, sizeof buffer);
        CU_ASSERT_EQUAL(weir__stream_write(&wire.stream, pieces, 3), 8);
        tls_wire_receive(&wire);
        CU_ASSERT_EQUAL(SSL_read_ex(wire.client, buffer, sizeof buffer, &count), 1);
        expect_text("one, two", (ssize_t)count);
        tls_wire_close(&wire);
}

static void
fill(char *data, size_t size)
{
        for (size_t i = 0; i < size; i++) {
                data[i] = (char)(i * 31 + i / 251);
        }
}

/* Writes as a server does: what did not go out is kept, at another place, and goes first the next time. */
static void
write_all(const char *data, size_t size, size_t head, char *got)
{
        size_t sent = 0, have = 0;
        unsigned full = 0;

        while (have < size) {
                size_t left = size - sent;
                char *copy = left ? malloc(left) : NULL;
                struct iovec pieces[2] = {{copy, left < head ? left : head}, {copy, 0}};

                if (left) {
                        memcpy(copy, data + sent, left);
                        pieces[1].iov_base = copy + pieces[0].iov_len;
                        pieces[1].iov_len = left - pieces[0].iov_len;
                        ssize_t count = weir__stream_write(&wire.stream, pieces, pieces[1].iov_len ? 2 : 1);
                        CU_ASSERT_FATAL(count > 0 || count == -EAGAIN);
                        full += count == -EAGAIN;
                        sent += count > 0 ? (size_t)count : 0;
                }
                free(copy);
                have += tls_wire_hear(&wire, got + have, 7001 < size - have ? 7001 : size - have);
        }
        CU_ASSERT(full > 0 || size < LARGE);
        CU_ASSERT_EQUAL(sent, size);
}

static void
a_slow_reader_gets_every_byte_once(void)
{
        static const size_t heads[] = {1, 200, 16383, 16384, 16385, 70000, LARGE};
        char *data = malloc(LARGE), *got = malloc(LARGE);

        fill(data, LARGE);
        for (size_t i = 0; i < sizeof heads / sizeof *heads; i++) {
                open_with(0);
                memset(got, 0, LARGE);
                write_all(data, LARGE, heads[i], got);
                CU_ASSERT_EQUAL(memcmp(data, got, LARGE), 0);
                tls_wire_close(&wire);
        }
        free(data);
        free(got);
}

/* Bytes that TLS holds go out as they were.  Bytes that it never took may be replaced, even if both were offered in one call. */
static void
replace_behind_what_is_held(size_t piece, int count)
{
        char *data = malloc(LARGE), *got = malloc(LARGE);
        struct iovec pieces[16];
        ssize_t written;
        size_t sent = 0, have = 0;

        fill(data, LARGE);
        open_with(0);
        do {
                for (int i = 0; i < count; i++) {
                        pieces[i] = (struct iovec){data + sent + (size_t)i * piece, piece};
                }
                written = weir__stream_write(&wire.stream, pieces, count);
                sent += written > 0 ? (size_t)written : 0;
        } while (written > 0 && sent + (size_t)count * piece <= LARGE);
        CU_ASSERT_EQUAL(written, -EAGAIN);
        size_t held = weir__stream_held(&wire.stream), end = sent + 3 * 16384;
        CU_ASSERT(held > 0 && held <= 16384 && held <= (size_t)count * piece);
        CU_ASSERT_FATAL(end <= LARGE);
        memset(data + sent + held, 'x', end - sent - held);
        while (have < end) {
                if (sent < end) {
                        written = weir__stream_write(&wire.stream, &(struct iovec){data + sent, end - sent}, 1);
                        CU_ASSERT_FATAL(written > 0 || written == -EAGAIN);
                        sent += written > 0 ? (size_t)written : 0;
                }
                have += tls_wire_hear(&wire, got + have, end - have);
        }
        CU_ASSERT_EQUAL(weir__stream_held(&wire.stream), 0);
        CU_ASSERT_EQUAL(memcmp(data, got, end), 0);
        tls_wire_close(&wire);
        free(data);
        free(got);
}

static void
bytes_behind_the_held_record_may_be_replaced(void)
{
        replace_behind_what_is_held(16384, 1);
        replace_behind_what_is_held(40000, 1);
        replace_behind_what_is_held(1000, 2);
        replace_behind_what_is_held(1000, 16);
        replace_behind_what_is_held(5000, 16);
}

static void
a_write_to_who_has_gone_is_an_error_and_no_signal(void)
{
        open_with(0);
        shutdown(wire.fd, SHUT_RD);
        CU_ASSERT_EQUAL(write_text("nobody"), -EPIPE);
        CU_ASSERT_EQUAL(write_text("nobody"), -EPIPE);
        CU_ASSERT_EQUAL(read_some(100), -EAGAIN); /* what the other side said before it went may still come */
        CU_ASSERT_FALSE(may_have_more());
        tls_wire_close(&wire);
}

/* -- the end -- */

static void
the_peers_close_notify_is_the_end(void)
{
        for (size_t i = 0; i < 2; i++) {
                open_with(versions[i]);
                tls_wire_say(&wire, "last", 4);
                SSL_shutdown(wire.client);
                tls_wire_send(&wire, SIZE_MAX);
                expect_text("last", read_some(100));
                CU_ASSERT_TRUE(may_have_more());
                CU_ASSERT_EQUAL(weir__stream_peek(&wire.stream), 0);
                CU_ASSERT_EQUAL(read_some(100), 0);
                CU_ASSERT_EQUAL(read_some(100), 0);
                CU_ASSERT_EQUAL(write_text("answer"), 6); /* the other direction is open still */
                expect_text("answer", (ssize_t)tls_wire_hear(&wire, buffer, sizeof buffer));
                tls_wire_close(&wire);
        }
}

static void
an_end_without_it_is_an_error(void)
{
        open_with(0);
        tls_wire_say(&wire, "last", 4);
        shutdown(wire.fd, SHUT_WR);
        expect_text("last", read_some(100));
        CU_ASSERT_EQUAL(read_some(100), -ECONNABORTED);
        CU_ASSERT_EQUAL(read_some(100), -ECONNABORTED);
        tls_wire_close(&wire);
}

static void
an_end_within_a_record_is_an_error(void)
{
        size_t sent;

        open_with(0);
        SSL_write_ex(wire.client, "torn", 4, &sent);
        tls_wire_send(&wire, 10);
        CU_ASSERT_EQUAL(read_some(100), -EAGAIN);
        shutdown(wire.fd, SHUT_WR);
        CU_ASSERT_EQUAL(read_some(100), -ECONNABORTED);
        tls_wire_close(&wire);
}

static void
a_handshake_may_break_off_anywhere(void)
{
        for (size_t cut = 0; cut < 600; cut += 7) {
                tls_wire_open(&wire, context, &(struct tls_client_wish){0});
                SSL_do_handshake(wire.client);
                size_t sent = cut ? tls_wire_send(&wire, cut) : 0;
                CU_ASSERT_EQUAL(weir__stream_handshake(&wire.stream), -EAGAIN);
                shutdown(wire.fd, SHUT_WR);
                CU_ASSERT_EQUAL(weir__stream_handshake(&wire.stream), -ECONNABORTED);
                CU_ASSERT_EQUAL(weir__stream_handshake(&wire.stream), -ECONNABORTED);
                tls_wire_close(&wire);
                if (sent < cut) {
                        break;
                }
        }
}

static void
our_end_is_told_to_the_peer(void)
{
        size_t count;

        for (size_t i = 0; i < 2; i++) {
                open_with(versions[i]);
                CU_ASSERT_EQUAL(write_text("last"), 4);
                weir__stream_finish(&wire.stream);
                CU_ASSERT_EQUAL(write_text("too late"), -EPIPE);
                tls_wire_say(&wire, "not heard", 9); /* what comes in can be read still */
                expect_text("not heard", read_some(100));
                weir__stream_close(&wire.stream);
                CU_ASSERT_EQUAL(tls_wire_hear(&wire, buffer, sizeof buffer), 4);
                int result = SSL_read_ex(wire.client, buffer, 1, &count);
                CU_ASSERT_EQUAL(SSL_get_error(wire.client, result), SSL_ERROR_ZERO_RETURN);
                tls_wire_close(&wire);
        }
}

static void
a_close_alone_tells_it_too(void)
{
        size_t count;

        open_with(0);
        weir__stream_close(&wire.stream);
        CU_ASSERT_EQUAL(tls_wire_hear(&wire, buffer, sizeof buffer), 0);
        int result = SSL_read_ex(wire.client, buffer, 1, &count);
        CU_ASSERT_EQUAL(SSL_get_error(wire.client, result), SSL_ERROR_ZERO_RETURN);
        tls_wire_close(&wire);
}

/* -- nonsense -- */

static void
garbage_instead_of_a_handshake_is_refused(void)
{
        struct weir_test_random random = {weir_test_seed()};

        for (unsigned i = 0; i < 200; i++) {
                char garbage[300];

                for (size_t j = 0; j < sizeof garbage; j++) {
                        garbage[j] = (char)weir_test_random(&random);
                }
                if (i % 2) {
                        memcpy(garbage, "\x16\x03\x01\x00\xf0\x01", 6); /* looks like a ClientHello */
                }
                tls_wire_open(&wire, context, &(struct tls_client_wish){0});
                CU_ASSERT_EQUAL(send(wire.fd, garbage, sizeof garbage, 0), (ssize_t)sizeof garbage);
                int failed = weir__stream_handshake(&wire.stream);
                CU_ASSERT(failed == -EPROTO || failed == -EAGAIN);
                tls_wire_close(&wire);
        }
}

static void
garbage_between_records_is_refused(void)
{
        open_with(0);
        tls_wire_say(&wire, "fine", 4);
        CU_ASSERT_EQUAL(send(wire.fd, "\x17\x03\x03\x00\x20 this was encrypted by nobody...", 37, 0), 37);
        ssize_t count = read_some(100);
        if (count > 0) {
                expect_text("fine", count);
                CU_ASSERT_TRUE(may_have_more());
                count = read_some(100);
        }
        CU_ASSERT_EQUAL(count, -EPROTO);
        CU_ASSERT_EQUAL(read_some(100), -EPROTO);
        CU_ASSERT_EQUAL(write_text("no"), -EPROTO);
        tls_wire_close(&wire);
}

static void
a_changed_bit_is_found(void)
{
        char *data;
        size_t sent;

        open_with(0);
        SSL_write_ex(wire.client, "untouched", 9, &sent);
        long size = BIO_get_mem_data(SSL_get_wbio(wire.client), &data);
        data[size - 3] ^= 1;
        tls_wire_send(&wire, SIZE_MAX);
        CU_ASSERT_EQUAL(read_some(100), -EPROTO);
        tls_wire_close(&wire);
}

static void
plain_http_is_recognised(void)
{
        static const char *const requests[] = {"GET / HTTP/1.1\r\nHost: a\r\n\r\n", "POST / HTTP/1.1\r\n\r\n",
                                               "HEAD / HTTP/1.0\r\n\r\n"};

        for (size_t i = 0; i < 3; i++) {
                tls_wire_open(&wire, context, &(struct tls_client_wish){0});
                send(wire.fd, requests[i], strlen(requests[i]), 0);
                CU_ASSERT_EQUAL(weir__stream_handshake(&wire.stream), -EPROTOTYPE);
                CU_ASSERT_EQUAL(recv(wire.fd, buffer, sizeof buffer, 0), -1); /* no alert */
                weir__stream_become_plain(&wire.stream);
                CU_ASSERT_EQUAL(write_text("plainly"), 7);
                expect_text("plainly", recv(wire.fd, buffer, sizeof buffer, 0));
                tls_wire_close(&wire);
        }
}

static void
errors_that_others_left_behind_do_not_matter(void)
{
        open_with(0);
        ERR_raise(ERR_LIB_SSL, SSL_R_BAD_LENGTH);
        CU_ASSERT_EQUAL(read_some(100), -EAGAIN);
        ERR_raise(ERR_LIB_SSL, SSL_R_BAD_LENGTH);
        CU_ASSERT_EQUAL(weir__stream_peek(&wire.stream), -EAGAIN);
        tls_wire_close(&wire);
        tls_wire_open(&wire, context, &(struct tls_client_wish){0});
        ERR_raise(ERR_LIB_SSL, SSL_R_BAD_LENGTH);
        CU_ASSERT_EQUAL(weir__stream_handshake(&wire.stream), -EAGAIN);
        tls_wire_close(&wire);
        ERR_clear_error();
}

static void
the_context_lives_as_long_as_its_connections(void)
{
        struct weir__tls_context *own;
        const char *name = "server";

        CU_ASSERT_EQUAL_FATAL(tls_make_context(&own, &name, 1, NULL, NULL), 0);
        tls_wire_open(&wire, own, &(struct tls_client_wish){0});
        weir__tls_context_unref(own);
        CU_ASSERT_EQUAL(tls_wire_shake(&wire, SIZE_MAX, NULL), 0);
        tls_wire_close(&wire);
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(both_sides_read_what_the_other_writes),
                WEIR_TEST(a_handshake_may_come_byte_by_byte),
                WEIR_TEST(a_read_has_the_handshake_first),
                WEIR_TEST(bytes_behind_the_end_of_the_handshake_are_not_lost),
                WEIR_TEST(old_versions_and_old_suites_are_refused),
                WEIR_TEST(a_client_cannot_begin_anew),
                WEIR_TEST(keys_may_change_now_and_then),
                WEIR_TEST(a_client_that_does_nothing_but_change_keys_is_broken_off),
                WEIR_TEST(a_little_data_among_them_does_not_help),
                WEIR_TEST(a_callers_info_callback_is_called),
                WEIR_TEST(the_protocol_is_http_1_1_or_none_was_offered),
                WEIR_TEST(a_client_that_offers_other_protocols_only_gets_an_alert),
                WEIR_TEST(many_small_records_are_read_at_once),
                WEIR_TEST(a_record_may_come_byte_by_byte),
                WEIR_TEST(bytes_left_inside_are_reported),
                WEIR_TEST(more_than_openssl_takes_at_once_is_not_forgotten),
                WEIR_TEST(a_peek_takes_nothing),
                WEIR_TEST(several_pieces_make_one_record),
                WEIR_TEST(a_slow_reader_gets_every_byte_once),
                WEIR_TEST(bytes_behind_the_held_record_may_be_replaced),
                WEIR_TEST(a_write_to_who_has_gone_is_an_error_and_no_signal),
                WEIR_TEST(the_peers_close_notify_is_the_end),
                WEIR_TEST(an_end_without_it_is_an_error),
                WEIR_TEST(an_end_within_a_record_is_an_error),
                WEIR_TEST(a_handshake_may_break_off_anywhere),
                WEIR_TEST(our_end_is_told_to_the_peer),
                WEIR_TEST(a_close_alone_tells_it_too),
                WEIR_TEST(garbage_instead_of_a_handshake_is_refused),
                WEIR_TEST(garbage_between_records_is_refused),
                WEIR_TEST(a_changed_bit_is_found),
                WEIR_TEST(plain_http_is_recognised),
                WEIR_TEST(errors_that_others_left_behind_do_not_matter),
                WEIR_TEST(the_context_lives_as_long_as_its_connections),
        };
        const char *name = "server";

        tls_files_begin();
        tls_make_certificate("server", &(struct tls_wish){0});
        if (tls_make_context(&context, &name, 1, NULL, NULL)) {
                return 1;
        }
        int failed = weir_test_main("tls", tests, sizeof tests / sizeof *tests);
        weir__tls_context_unref(context);
        tls_files_end();
        return failed;
}
