/* test/tls_context_test.c: the shared part of TLS connections: certificates by name, sessions, checks of clients, files of no
 * use, and memory that is refused. */
#include <stdio.h>

#include <openssl/err.h>
#include <openssl/ocsp.h>
#include <openssl/pem.h>

#include <weir/log.h>

#include "test/tls_memory.h"
#include "test/tls_wire.h"

static struct tls_wire wire;
static char buffer[4096];

/* -- the log -- */

static char said[1024];

static void
listen_to_log(enum weir_log_level level, const char *message, void *ignored)
{
        (void)ignored;
        CU_ASSERT_EQUAL(level, WEIR_LOG_ERROR);
        snprintf(said, sizeof said, "%s", message);
}

static int
versions_of(size_t i)
{
        return i ? TLS1_2_VERSION : TLS1_3_VERSION;
}

/* -- names -- */

static struct weir__tls_context *
make(const char *const *names, size_t count, const struct weir__tls_server_config *more)
{
        struct weir__tls_context *context = NULL;

        CU_ASSERT_EQUAL_FATAL(tls_make_context(&context, names, count, more, NULL), 0);
        return context;
}

static void
the_certificate_is_the_one_for_the_name(void)
{
        static const struct {
                const char *asked, *shown;
        } cases[] = {
                {"one.example", "first"},
                {"www.one.example", "first"},
                {"two.example", "second"},
                {"TWO.Example", "second"},
                {"a.two.example", "second"},
                {"b.two.example", "second"},
                {"special.two.example", "third"},
                {"a.b.two.example", "first"},
                {".two.example", "first"},
                {"three.example", "third"},
                {"unknown.example", "first"},
                {"example", "first"},
                {"named", "fourth"},
                {NULL, "first"},
                {"second", "first"},
        };
        static const char *const names[] = {"first", "second", "third", "fourth"};
        struct weir__tls_context *context;

        tls_make_certificate("first", &(struct tls_wish){.alternative_names = "DNS:one.example,DNS:www.one.example"});
        tls_make_certificate("second", &(struct tls_wish){.alternative_names = "DNS:two.example,DNS:*.two.example"});
        tls_make_certificate(
                "third", &(struct tls_wish){.alternative_names = "DNS:special.two.example,DNS:three.example", .key = TLS_RSA});
        tls_make_certificate("fourth", &(struct tls_wish){.common_name = "named"});
        context = make(names, 4, NULL);
        for (size_t i = 0; i < 2 * sizeof cases / sizeof *cases; i++) {
                const char *shown = cases[i / 2].shown;

                tls_wire_connect(&wire, context,
                                 &(struct tls_client_wish){.server_name = cases[i / 2].asked,
                                                           .version = i % 2 ? TLS1_2_VERSION : TLS1_3_VERSION});
                CU_ASSERT_STRING_EQUAL(tls_server_shown(wire.client), strcmp(shown, "fourth") == 0 ? "named" : shown);
                tls_wire_close(&wire);
        }
        weir__tls_context_unref(context);
}

static void
the_chain_is_sent_along(void)
{
        static const char *const names[] = {"chained"};
        static char chain[16384];
        size_t size = 0;

        tls_make_certificate("root", &(struct tls_wish){0});
        tls_make_certificate("chained", &(struct tls_wish){.issuer = "root"});
        for (size_t i = 0; i < 2; i++) {
                FILE *stream = fopen(tls_path(i ? "root.pem" : "chained.pem"), "rbe");

                size += fread(chain + size, 1, sizeof chain - size, stream);
                fclose(stream);
        }
        tls_write_file("chained.pem", chain, size);
        struct weir__tls_context *context = make(names, 1, NULL);
        tls_wire_connect(&wire, context, &(struct tls_client_wish){0});
        CU_ASSERT_EQUAL(sk_X509_num(SSL_get_peer_cert_chain(wire.client)), 2);
        tls_wire_close(&wire);
        weir__tls_context_unref(context);
}

/* -- sessions -- */

static SSL_SESSION *
session_of(struct weir__tls_context *context, const struct tls_client_wish *wish)
{
        char byte;

        tls_wire_connect(&wire, context, wish);
        tls_wire_hear(&wire, &byte, 1); /* TLS 1.3 sends tickets after the handshake */
        SSL_SESSION *session = SSL_get1_session(wire.client);
        CU_ASSERT_EQUAL(SSL_SESSION_is_resumable(session), 1);
        SSL_set_shutdown(wire.client, SSL_SENT_SHUTDOWN | SSL_RECEIVED_SHUTDOWN);
        tls_wire_close(&wire);
        return session;
}

/* Consumes the session. */
static bool
is_resumed(struct weir__tls_context *context, const struct tls_client_wish *wish, SSL_SESSION *session)
{
        struct tls_client_wish with_session = *wish;

        with_session.session = session;
        tls_wire_connect(&wire, context, &with_session);
        bool is = SSL_session_reused(wire.client);
        SSL_set_shutdown(wire.client, SSL_SENT_SHUTDOWN | SSL_RECEIVED_SHUTDOWN);
        tls_wire_close(&wire);
        SSL_SESSION_free(session);
        return is;
}

static const char *const first_and_second[] = {"first", "second"};

static void
a_session_is_resumed_also_after_a_reload(void)
{
        static const char *const asked[] = {NULL, "one.example", "two.example"};

        for (size_t i = 0; i < 6; i++) {
                struct tls_client_wish wish = {.server_name = asked[i / 2], .version = i % 2 ? TLS1_2_VERSION : TLS1_3_VERSION};
                struct weir__tls_context *before = make(first_and_second, 2, NULL), *after, *other;

                CU_ASSERT_TRUE(is_resumed(before, &wish, session_of(before, &wish)));
                SSL_SESSION *session = session_of(before, &wish), *another = session_of(before, &wish);
                CU_ASSERT_EQUAL_FATAL(tls_make_context(&after, first_and_second, 2, NULL, before), 0);
                weir__tls_context_unref(before);
                CU_ASSERT_TRUE(is_resumed(after, &wish, session));
                other = make(first_and_second, 2, NULL);
                CU_ASSERT_FALSE(is_resumed(other, &wish, another)); /* it has keys of its own */
                weir__tls_context_unref(after);
                weir__tls_context_unref(other);
        }
}

/* -- clients' certificates -- */

static struct weir__tls_context *
make_checking(enum weir__tls_client_check client, const char *authority, const struct weir__tls_context *former)
{
        struct weir__tls_server_config more = {.client_ca_file = tls_path(authority), .check = client};
        struct weir__tls_context *context = NULL;

        CU_ASSERT_EQUAL_FATAL(tls_make_context(&context, first_and_second, 2, &more, former), 0);
        return context;
}

static void
make_clients(void)
{
        tls_make_certificate("authority", &(struct tls_wish){0});
        tls_make_certificate("impostor", &(struct tls_wish){.common_name = "authority"});
        tls_make_certificate("alice", &(struct tls_wish){.issuer = "authority"});
        tls_make_certificate("mallory", &(struct tls_wish){.issuer = "impostor"});
}

static void
a_client_is_admitted_with_the_right_certificate_only(void)
{
        static const struct {
                enum weir__tls_client_check client;
                const char *shown;
                bool is_in;
                const char *known_as;
        } cases[] = {
                {WEIR__TLS_CHECK_NONE, "alice", true, NULL},
                {WEIR__TLS_CHECK_NONE, NULL, true, NULL},
                {WEIR__TLS_CHECK_REQUEST, NULL, true, NULL},
                {WEIR__TLS_CHECK_REQUEST, "alice", true, "CN=alice,O=weir"},
                {WEIR__TLS_CHECK_REQUEST, "mallory", false, NULL},
                {WEIR__TLS_CHECK_REQUIRE, NULL, false, NULL},
                {WEIR__TLS_CHECK_REQUIRE, "alice", true, "CN=alice,O=weir"},
                {WEIR__TLS_CHECK_REQUIRE, "mallory", false, NULL},
        };
        static const char *const asked[] = {NULL, "two.example"};

        make_clients();
        for (size_t i = 0; i < 4 * sizeof cases / sizeof *cases; i++) {
                struct weir__tls_context *context = make_checking(cases[i / 4].client, "authority.pem", NULL);
                struct tls_client_wish wish = {
                        .certificate = cases[i / 4].shown, .server_name = asked[i % 2], .version = versions_of(i / 2 % 2)};

                tls_wire_open(&wire, context, &wish);
                CU_ASSERT_EQUAL(tls_wire_shake(&wire, SIZE_MAX, NULL), cases[i / 4].is_in ? 0 : -EPROTO);
                char *peer = weir__tls_peer(wire.stream.tls);
                CU_ASSERT_EQUAL(peer != NULL, cases[i / 4].known_as != NULL);
                if (peer && cases[i / 4].known_as) {
                        CU_ASSERT_STRING_EQUAL(peer, cases[i / 4].known_as);
                }
                free(peer);
                tls_wire_close(&wire);
                weir__tls_context_unref(context);
        }
}

static void
a_session_does_not_stand_for_a_certificate_that_would_not_be_good_now(void)
{
        for (size_t i = 0; i < 2; i++) {
                struct tls_client_wish wish = {.certificate = "alice", .version = versions_of(i)};
                struct weir__tls_context *before = make_checking(WEIR__TLS_CHECK_REQUIRE, "authority.pem", NULL);
                struct weir__tls_context *same = make_checking(WEIR__TLS_CHECK_REQUIRE, "authority.pem", before);
                struct weir__tls_context *other = make_checking(WEIR__TLS_CHECK_REQUIRE, "impostor.pem", before);
                SSL_SESSION *session = session_of(before, &wish);

                wish.session = session;
                tls_wire_open(&wire, other, &wish);
                CU_ASSERT_EQUAL(tls_wire_shake(&wire, SIZE_MAX, NULL), -EPROTO);
                SSL_set_shutdown(wire.client, SSL_SENT_SHUTDOWN | SSL_RECEIVED_SHUTDOWN);
                tls_wire_close(&wire);
                wish.session = NULL;
                SSL_SESSION_free(session);
                tls_wire_connect(&wire, same, &wish);
                char *peer = weir__tls_peer(wire.stream.tls);
                CU_ASSERT_PTR_NOT_NULL(peer);
                free(peer);
                tls_wire_close(&wire);
                CU_ASSERT_TRUE(is_resumed(same, &wish, session_of(same, &wish)));
                weir__tls_context_unref(before);
                weir__tls_context_unref(same);
                weir__tls_context_unref(other);
        }
}

/* -- files -- */

static void
a_staple_is_sent_to_who_asks(void)
{
        OCSP_RESPONSE *response = OCSP_response_create(OCSP_RESPONSE_STATUS_SUCCESSFUL, NULL);
        unsigned char *der = NULL;
        int size = i2d_OCSP_RESPONSE(response, &der);

        OCSP_RESPONSE_free(response);
        CU_ASSERT_FATAL(size > 0);
        tls_write_file("staple.der", der, (size_t)size);
        struct weir__tls_context *context = make(first_and_second, 2,
                                                 &(struct weir__tls_server_config){.ocsp_file = tls_path("staple.der")});
        for (size_t i = 0; i < 4; i++) {
                const unsigned char *sent;

                tls_wire_connect(&wire, context,
                                 &(struct tls_client_wish){.wants_staple = true,
                                                           .server_name = i / 2 ? "two.example" : NULL,
                                                           .version = versions_of(i % 2)});
                long length = SSL_get_tlsext_status_ocsp_resp(wire.client, &sent);
                CU_ASSERT_EQUAL(length, i / 2 ? -1 : size); /* it is about the first certificate */
                CU_ASSERT(length <= 0 || memcmp(sent, der, (size_t)length) == 0);
                tls_wire_close(&wire);
        }
        weir__tls_context_unref(context);
        OPENSSL_free(der);
}

static int
try(const char *certificate, const char *private_key, const char *ocsp, const char *authority)
{
        char *files[2] = {strdup(tls_path(certificate)), strdup(tls_path(private_key))};
        struct weir__tls_pair pair = {files[0], files[1]};
        struct weir__tls_server_config config = {.pairs = &pair,
                                                 .pair_count = 1,
                                                 .ocsp_file = ocsp ? tls_path(ocsp) : NULL,
                                                 .client_ca_file = authority ? tls_path(authority) : NULL,
                                                 .check = authority ? WEIR__TLS_CHECK_REQUEST : WEIR__TLS_CHECK_NONE};
        struct weir__tls_context *context = NULL;
        int failed = weir__tls_context_new_server(&context, &config, NULL);

        CU_ASSERT_EQUAL(context != NULL, failed == 0);
        CU_ASSERT_EQUAL(ERR_peek_error(), 0);
        weir__tls_context_unref(context);
        free(files[0]);
        free(files[1]);
        return failed;
}

static void
lock_key(const char *from, const char *to)
{
        FILE *stream = fopen(tls_path(from), "rbe");
        EVP_PKEY *key = PEM_read_PrivateKey(stream, NULL, NULL, NULL);

        fclose(stream);
        stream = fopen(tls_path(to), "wbe");
        CU_ASSERT_EQUAL(PEM_write_PrivateKey(stream, key, EVP_aes_128_cbc(), (const unsigned char *)"secret", 6, NULL, NULL), 1);
        fclose(stream);
        EVP_PKEY_free(key);
}

static void
a_file_of_no_use_is_named_with_the_reason(void)
{
        static const struct {
                const char *certificate, *private_key, *ocsp, *authority;
                int code;
                const char *said;
        } cases[] = {
                {"absent", "first.key", NULL, NULL, -ENOENT, "absent\": there is no such file"},
                {"first.pem", "absent", NULL, NULL, -ENOENT, "absent\": there is no such file"},
                {"garbage", "first.key", NULL, NULL, WEIR_ETLS_CERTIFICATE, "certificate file \""},
                {"first.key", "first.key", NULL, NULL, WEIR_ETLS_CERTIFICATE, "no start line"},
                {"first.pem", "first.pem", NULL, NULL, WEIR_ETLS_KEY, "first.pem\": "},
                {"first.pem", "garbage", NULL, NULL, WEIR_ETLS_KEY, "private key file \""},
                {"first.pem", "locked.key", NULL, NULL, WEIR_ETLS_KEY, "locked.key\": "},
                {"first.pem", "second.key", NULL, NULL, WEIR_ETLS_MISMATCH, "key values mismatch"},
                {"first.pem", "third.key", NULL, NULL, WEIR_ETLS_MISMATCH, "third.key\": "},
                {"first.pem", "first.key", "absent", NULL, -ENOENT, "absent\": there is no such file"},
                {"first.pem", "first.key", "garbage", NULL, WEIR_ETLS_OCSP, "OCSP file \""},
                {"first.pem", "first.key", "empty", NULL, WEIR_ETLS_OCSP, "OCSP file \""},
                {"first.pem", "first.key", "refusal", NULL, WEIR_ETLS_OCSP, "OCSP file \""},
                {"first.pem", "first.key", NULL, "absent", -ENOENT, "absent\": there is no such file"},
                {"first.pem", "first.key", NULL, "garbage", WEIR_ETLS_CERTIFICATE, "client CA file \""},
                {"first.pem", "first.key", NULL, "empty", WEIR_ETLS_CERTIFICATE, "client CA file \""},
        };

        tls_write_file("garbage", "-----BEGIN GARBAGE-----\n", 24);
        tls_write_file("empty", "", 0);
        tls_write_file("refusal", "\x30\x03\x0a\x01\x03", 5);
        lock_key("first.key", "locked.key");
        CU_ASSERT_EQUAL(try("first.pem", "first.key", NULL, NULL), 0);
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
                said[0] = '\0';
                int code = try(cases[i].certificate, cases[i].private_key, cases[i].ocsp, cases[i].authority);
                if (code != cases[i].code || !strstr(said, cases[i].said)) {
                        printf("\n    case %zu: %d: %s", i, code, said);
                }
                CU_ASSERT_EQUAL(code, cases[i].code);
                CU_ASSERT_PTR_NOT_NULL(strstr(said, cases[i].said));
                CU_ASSERT_STRING_NOT_EQUAL(weir_strerror(code), "unknown status");
        }
}

static void
a_name_with_a_nul_in_it_is_not_taken_for_its_beginning(void)
{
        static const char *const names[] = {"first", "torn"};
        X509 *x509;
        EVP_PKEY *key;

        tls_make_certificate("torn", &(struct tls_wish){.common_name = "bank.example"});
        FILE *stream = fopen(tls_path("torn.key"), "rbe");
        key = PEM_read_PrivateKey(stream, NULL, NULL, NULL);
        fclose(stream);
        stream = fopen(tls_path("torn.pem"), "rbe");
        x509 = PEM_read_X509(stream, NULL, NULL, NULL);
        fclose(stream);
        X509_NAME *subject = X509_NAME_new();
        X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC, (const unsigned char *)"bank.example\0.evil", 18, -1, 0);
        X509_set_subject_name(x509, subject);
        CU_ASSERT(X509_sign(x509, key, EVP_sha256()) > 0);
        stream = fopen(tls_path("torn.pem"), "wbe");
        PEM_write_X509(stream, x509);
        fclose(stream);
        X509_NAME_free(subject);
        X509_free(x509);
        EVP_PKEY_free(key);
        struct weir__tls_context *context = make(names, 2, NULL);
        tls_wire_connect(&wire, context, &(struct tls_client_wish){.server_name = "bank.example"});
        CU_ASSERT_STRING_EQUAL(tls_server_shown(wire.client), "first");
        tls_wire_close(&wire);
        weir__tls_context_unref(context);
}

/* -- memory that is refused -- */

static void
a_context_gets_by_without_any_one_allocation(void)
{
        struct weir__tls_server_config more = {.ocsp_file = tls_path("staple.der"),
                                               .client_ca_file = tls_path("authority.pem"),
                                               .check = WEIR__TLS_CHECK_REQUEST};
        unsigned failures = 0;
        int64_t count = 0;

        do {
                struct weir__tls_context *context = NULL;

                refuse_after(count);
                int failed = tls_make_context(&context, first_and_second, 2, &more, NULL);
                refuse_none();
                failures += failed != 0;
                CU_ASSERT_EQUAL(failed == 0, context != NULL);
                weir__tls_context_unref(context);
                count += 1 + count / 40; /* all of the first, fewer later */
        } while (has_refused);
        CU_ASSERT(failures > 50);
        ERR_clear_error();
}

/* The server's calls of a short life.  Returns whether it came to its end. */
static bool
live(struct weir__tls_context *context, int version, int64_t refused_one)
{
        int fds[2], server = -EAGAIN;
        bool is_good = false;

        CU_ASSERT_EQUAL_FATAL(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds), 0);
        wire = (struct tls_wire){
                .stream.source.fd = fds[0],
                .fd = fds[1],
                .client = tls_client(
                        -1, &(struct tls_client_wish){.version = version, .server_name = "two.example", .certificate = "alice"})};
        refuse_after(refused_one);
        wire.stream.tls = weir__tls_new(context, fds[0]);
        for (unsigned i = 0; i < 4 && wire.stream.tls && server == -EAGAIN; i++) {
                int64_t left = allocations_left;

                refuse_none();
                SSL_do_handshake(wire.client);
                tls_wire_send(&wire, SIZE_MAX);
                allocations_left = left;
                server = weir__stream_handshake(&wire.stream);
                left = allocations_left;
                refuse_none();
                tls_wire_receive(&wire);
                allocations_left = left;
        }
        if (wire.stream.tls && server == 0) {
                struct iovec pieces[2] = {{(char *)"an", 2}, {(char *)"swer", 4}};
                int64_t left = allocations_left;

                refuse_none();
                SSL_do_handshake(wire.client);
                tls_wire_say(&wire, "question", 8);
                allocations_left = left;
                ssize_t count = weir__stream_read(&wire.stream, buffer, sizeof buffer);
                ssize_t sent = weir__stream_write(&wire.stream, pieces, 2);
                free(weir__tls_peer(wire.stream.tls));
                weir__stream_finish(&wire.stream);
                is_good = count == 8 && sent == 6;
                CU_ASSERT(count == 8 || count < 0);
                CU_ASSERT(sent == 6 || sent < 0);
        }
        refuse_none();
        if (wire.stream.tls) {
                weir__stream_close(&wire.stream);
        } else {
                close(fds[0]);
                wire.stream.source.fd = -1;
        }
        tls_wire_close(&wire);
        return is_good;
}

static void
a_connection_gets_by_without_any_one_allocation(void)
{
        struct weir__tls_context *context = make_checking(WEIR__TLS_CHECK_REQUEST, "authority.pem", NULL);

        for (size_t i = 0; i < 2; i++) {
                unsigned failures = 0;
                int64_t count = 0;

                do {
                        failures += !live(context, versions_of(i), count);
                        ERR_clear_error();
                        count += 1 + count / 100; /* all of the first hundred, fewer later */
                } while (has_refused);
                CU_ASSERT(failures > 50);
                CU_ASSERT_TRUE(live(context, versions_of(i), INT64_MAX)); /* and the next one is served */
        }
        weir__tls_context_unref(context);
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(the_certificate_is_the_one_for_the_name),
                WEIR_TEST(the_chain_is_sent_along),
                WEIR_TEST(a_session_is_resumed_also_after_a_reload),
                WEIR_TEST(a_client_is_admitted_with_the_right_certificate_only),
                WEIR_TEST(a_session_does_not_stand_for_a_certificate_that_would_not_be_good_now),
                WEIR_TEST(a_staple_is_sent_to_who_asks),
                WEIR_TEST(a_file_of_no_use_is_named_with_the_reason),
                WEIR_TEST(a_name_with_a_nul_in_it_is_not_taken_for_its_beginning),
                WEIR_TEST(a_context_gets_by_without_any_one_allocation),
                WEIR_TEST(a_connection_gets_by_without_any_one_allocation),
        };

        if (!can_refuse()) {
                return 1;
        }
        tls_files_begin();
        weir_log_set(listen_to_log, NULL);
        int failed = weir_test_main("tls context", tests, sizeof tests / sizeof *tests);
        weir_log_set(NULL, NULL);
        tls_files_end();
        return failed;
}
