/* test/tls_client_test.c: the client's side of TLS, against the server's side of ours: names, roots, refusals with their words,
 * and memory that is refused. */
#include <dirent.h>
#include <poll.h>
#include <stdio.h>
#include <sys/stat.h>

#include <openssl/err.h>

#include <weir/http_server.h>
#include <weir/log.h>

#include "kernel/socket/connect.h"
#include "kernel/socket/listen.h"
#include "test/tls_memory.h"
#include "test/tls_pair.h"

static struct weir__tls_context *serving; /* with the certificate "server": server.example, *.wild.example, 127.0.0.1, ::1 */
static char said[1024];

DIR *__real_opendir(const char *name);
DIR *__wrap_opendir(const char *name);
static int refused_directory; /* errno; 0: none */

DIR *
__wrap_opendir(const char *name)
{
        errno = refused_directory;
        return refused_directory ? NULL : __real_opendir(name);
}

static void
listen_to_log(enum weir_log_level level, const char *message, void *ignored)
{
        (void)level, (void)ignored;
        snprintf(said, sizeof said, "%s", message);
}

/* -- fixture -- */

static struct weir__tls_context *
serve(const char *name, enum weir__tls_client_check check)
{
        const struct weir__tls_server_config more = {.client_ca_file = tls_path("authority.pem"), .check = check};
        struct weir__tls_context *context = NULL;

        CU_ASSERT_EQUAL_FATAL(tls_make_context(&context, &name, 1, &more, NULL), 0);
        return context;
}

static struct weir__tls_context *
make(const struct weir__tls_client_config *config)
{
        struct weir__tls_context *context = NULL;

        CU_ASSERT_EQUAL_FATAL(weir__tls_context_new_client(&context, config), 0);
        return context;
}

/* A client that trusts "authority". */
static struct weir__tls_context *
make_trusting(void)
{
        return make(&(struct weir__tls_client_config){.ca_file = tls_path("authority.pem")});
}

/* -- what goes well -- */

static void
both_sides_read_what_the_other_writes(void)
{
        struct weir__tls_context *context = make_trusting();

        for (size_t i = 0; i < 2; i++) {
                CU_ASSERT_EQUAL_FATAL(open_both(context, serving, "server.example"), 0);
                SSL_set_max_proto_version(client.tls->ssl, versions[i]);
                int theirs, ours = shake(&theirs);
                CU_ASSERT_EQUAL_FATAL(ours, 0);
                CU_ASSERT_EQUAL_FATAL(theirs, 0);
                CU_ASSERT_EQUAL(SSL_version(client.tls->ssl), versions[i]);
                CU_ASSERT_EQUAL(weir__stream_read(&client, buffer, 100), -EAGAIN); /* and takes the tickets */
                expect_text(&client, &server, "question");
                expect_text(&server, &client, "answer");
                CU_ASSERT_PTR_NULL(weir__tls_problem(client.tls));
                weir__stream_finish(&server);
                CU_ASSERT_EQUAL(weir__stream_read(&client, buffer, 100), 0);
                expect_text(&client, &server, "more"); /* half closed */
                weir__stream_close(&client);
                CU_ASSERT_EQUAL(weir__stream_read(&server, buffer, 100), 0);
                close_both();
        }
        weir__tls_context_unref(context);
}

static void
a_megabyte_goes_both_ways(void)
{
        static char data[1000000], back[sizeof data];
        struct weir__tls_context *context = make_trusting();

        for (size_t i = 0; i < sizeof data; i++)
                data[i] = (char)(i * 7 + i / 251);
        CU_ASSERT_EQUAL_FATAL(connect_to(context, serving, "server.example", NULL), 0);
        for (unsigned way = 0; way < 2; way++) {
                struct weir__stream *from = way ? &server : &client, *to = way ? &client : &server;
                size_t sent = 0, have = 0;

                while (have < sizeof data) {
                        struct iovec piece = {data + sent, sizeof data - sent};
                        ssize_t count = piece.iov_len ? weir__stream_write(from, &piece, 1) : 0;

                        CU_ASSERT_FATAL(count >= 0 || count == -EAGAIN);
                        sent += count > 0 ? (size_t)count : 0;
                        count = weir__stream_read(to, back + have, sizeof back - have);
                        CU_ASSERT_FATAL(count > 0 || count == -EAGAIN);
                        have += count > 0 ? (size_t)count : 0;
                }
                CU_ASSERT_EQUAL(memcmp(data, back, sizeof data), 0);
        }
        close_both();
        weir__tls_context_unref(context);
}

static void
an_end_without_a_word_is_not_an_end(void)
{
        struct weir__tls_context *context = make_trusting();

        CU_ASSERT_EQUAL_FATAL(connect_to(context, serving, "server.example", NULL), 0);
        CU_ASSERT_EQUAL(write_text(&server, "half"), 4);
        weir__stream_break(&server);
        CU_ASSERT_EQUAL(weir__stream_read(&client, buffer, 100), 4);
        CU_ASSERT_EQUAL(weir__stream_read(&client, buffer, 100), -ECONNABORTED);
        close_both();
        CU_ASSERT_EQUAL_FATAL(open_both(context, serving, "server.example"), 0);
        CU_ASSERT_EQUAL(weir__stream_handshake(&client), -EAGAIN);
        weir__stream_break(&server);
        CU_ASSERT(weir__stream_handshake(&client) == -ECONNABORTED || client.tls->failure == -ECONNRESET);
        close_both();
        weir__tls_context_unref(context);
}

/* As from a socket: what has come before the write that failed. */
static void
what_came_before_the_peer_went_is_read(void)
{
        struct weir__tls_context *context = make_trusting();

        for (size_t i = 0; i < 2; i++) {
                CU_ASSERT_EQUAL_FATAL(open_both(context, serving, "server.example"), 0);
                SSL_set_max_proto_version(client.tls->ssl, versions[i]);
                CU_ASSERT_EQUAL_FATAL(shake(NULL), 0);
                expect_text(&client, &server, "question");
                CU_ASSERT_EQUAL(write_text(&server, "answer"), 6);
                weir__stream_close(&server);
                ssize_t sent = write_text(&client, "more");
                CU_ASSERT(sent == -EPIPE || sent == -ECONNRESET);
                CU_ASSERT_EQUAL(weir__stream_read(&client, buffer, sizeof buffer), 6);
                CU_ASSERT_NSTRING_EQUAL(buffer, "answer", 6);
                CU_ASSERT(weir__stream_read(&client, buffer, sizeof buffer) <= 0);
                CU_ASSERT_EQUAL(write_text(&client, "more"), -EPIPE);
                close_both();
        }
        weir__tls_context_unref(context);
}

static void
the_name_is_sent_and_an_address_is_not(void)
{
        static const struct {
                const char *host, *sent;
        } hosts[] = {
                {"server.example", "server.example"},
                {"SERVER.example", "SERVER.example"},
                {"server.example.", "server.example"},
                {"a.wild.example", "a.wild.example"},
                {"127.0.0.1", NULL},
                {"::1", NULL},
                {"::1%lo", NULL},
                {"0:0::0:1", NULL},
        };
        struct weir__tls_context *context = make_trusting();

        for (size_t i = 0; i < sizeof hosts / sizeof *hosts; i++) {
                int theirs, ours = connect_to(context, serving, hosts[i].host, &theirs);

                CU_ASSERT_EQUAL(ours, 0);
                CU_ASSERT_EQUAL(theirs, 0);
                const char *sent = SSL_get_servername(server.tls->ssl, TLSEXT_NAMETYPE_host_name);
                CU_ASSERT_EQUAL(sent != NULL, hosts[i].sent != NULL);
                CU_ASSERT(!sent || strcmp(sent, hosts[i].sent) == 0);
                close_both();
        }
        weir__tls_context_unref(context);
}

static void
a_client_shows_its_certificate(void)
{
        struct weir__tls_context *strict = serve("server", WEIR__TLS_CHECK_REQUIRE), *without = make_trusting();
        const struct weir__tls_pair pair = {(char *)tls_path("alice.pem"), (char *)tls_path("alice.key")};
        struct weir__tls_context *with = make(
                &(struct weir__tls_client_config){.ca_file = tls_path("authority.pem"), .pair = &pair});

        const struct weir__tls_pair other = {(char *)tls_path("lonely.pem"), (char *)tls_path("lonely.key")};
        struct weir__tls_context *wrong = make(
                &(struct weir__tls_client_config){.ca_file = tls_path("authority.pem"), .pair = &other});

        for (size_t i = 0; i < 2; i++) {
                int theirs;

                CU_ASSERT_EQUAL_FATAL(open_both(with, strict, "server.example"), 0);
                SSL_set_max_proto_version(client.tls->ssl, versions[i]);
                CU_ASSERT_EQUAL(shake(&theirs), 0);
                CU_ASSERT_EQUAL(theirs, 0);
                char *peer = weir__tls_peer(server.tls);
                CU_ASSERT(peer && strcmp(peer, "CN=alice,O=weir") == 0);
                free(peer);
                peer = weir__tls_peer(client.tls);
                CU_ASSERT(peer && strcmp(peer, "CN=server,O=weir") == 0);
                free(peer);
                close_both();

                CU_ASSERT_EQUAL_FATAL(open_both(without, strict, "server.example"), 0);
                SSL_set_max_proto_version(client.tls->ssl, versions[i]);
                int ours = shake(&theirs);
                CU_ASSERT_EQUAL(ours, i ? 0 : WEIR_ETLS_REFUSED); /* with TLS 1.3 the client learns of it by its first read */
                CU_ASSERT_EQUAL(theirs, -EPROTO);
                if (i) { /* also when the server has gone, and takes no question */
                        weir__stream_close(&server);
                        CU_ASSERT(write_text(&client, "question") < 0);
                }
                CU_ASSERT_EQUAL(weir__stream_read(&client, buffer, 1), WEIR_ETLS_REFUSED);
                CU_ASSERT_STRING_EQUAL(weir__tls_problem(client.tls),
                                       "the server wants a certificate of the client, which has none");
                close_both();

                CU_ASSERT_EQUAL_FATAL(open_both(wrong, strict, "server.example"), 0);
                SSL_set_max_proto_version(client.tls->ssl, versions[i]);
                ours = shake(&theirs);
                CU_ASSERT_EQUAL(ours, i ? 0 : WEIR_ETLS_REFUSED);
                CU_ASSERT_EQUAL(weir__stream_read(&client, buffer, 1), WEIR_ETLS_REFUSED);
                CU_ASSERT_PTR_NOT_NULL(strstr(weir__tls_problem(client.tls), "the server refuses the client's certificate: "));
                close_both();
        }
        weir__tls_context_unref(strict);
        weir__tls_context_unref(wrong);
        weir__tls_context_unref(without);
        weir__tls_context_unref(with);
}

static void
protocols_are_agreed_on(void)
{
        static const struct {
                const char *offered, *chosen; /* NULL: none */
                int ours;
        } cases[] = {
                {"http/1.0,http/1.1", "http/1.1", 0}, /* the server's best */
                {"kv,http/1.0", "http/1.0", 0},
                {NULL, NULL, 0},
                {"kv", NULL, -EPROTO},
        };
        size_t size;

        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
                struct weir__tls_context *context = make(
                        &(struct weir__tls_client_config){.ca_file = tls_path("authority.pem"), .protocols = cases[i].offered});

                CU_ASSERT_EQUAL(connect_to(context, serving, "server.example", NULL), cases[i].ours);
                const char *chosen = weir__tls_protocol(client.tls, &size);
                CU_ASSERT_EQUAL(size, cases[i].chosen ? strlen(cases[i].chosen) : 0);
                CU_ASSERT(!size || memcmp(chosen, cases[i].chosen, size) == 0);
                chosen = cases[i].ours ? NULL : weir__tls_protocol(server.tls, &size);
                CU_ASSERT(!chosen || memcmp(chosen, cases[i].chosen, size) == 0);
                close_both();
                weir__tls_context_unref(context);
        }
}

static void
an_insecure_client_accepts_anybody(void)
{
        static const char *const names[] = {"lonely", "stale", "stranger"};
        struct weir__tls_context *context = make(&(struct weir__tls_client_config){.is_insecure = true});

        for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
                struct weir__tls_context *other = serve(names[i], WEIR__TLS_CHECK_NONE);

                CU_ASSERT_EQUAL(connect_to(context, other, i ? "elsewhere.example" : NULL, NULL), 0);
                CU_ASSERT_EQUAL(weir__stream_read(&client, buffer, 100), -EAGAIN);
                expect_text(&client, &server, "question");
                close_both();
                weir__tls_context_unref(other);
        }
        weir__tls_context_unref(context);
}

static void
a_context_of_the_program_is_used_as_it_is(void)
{
        SSL_CTX *ssl_ctx = SSL_CTX_new(TLS_client_method());
        struct weir__tls_context *context = make(&(struct weir__tls_client_config){.ssl_ctx = ssl_ctx});

        CU_ASSERT_EQUAL(connect_to(context, serving, NULL, NULL), 0);
        close_both();
        SSL_CTX_set_verify(ssl_ctx, SSL_VERIFY_PEER, NULL);
        CU_ASSERT_EQUAL(open_both(context, serving, NULL), -EINVAL);
        close_both();
        CU_ASSERT_EQUAL(connect_to(context, serving, "server.example", NULL), WEIR_ETLS_UNTRUSTED);
        CU_ASSERT_PTR_NOT_NULL(strstr(weir__tls_problem(client.tls), "is signed by CN=authority"));
        close_both();
        CU_ASSERT_EQUAL(SSL_CTX_load_verify_file(ssl_ctx, tls_path("authority.pem")), 1);
        CU_ASSERT_EQUAL(connect_to(context, serving, "server.example", NULL), 0);
        close_both();
        CU_ASSERT_EQUAL(connect_to(context, serving, "elsewhere.example", NULL), WEIR_ETLS_NAME);
        close_both();
        weir__tls_context_unref(context);
        SSL_CTX_free(ssl_ctx);
}

/* -- what does not -- */

static void
a_certificate_is_refused_with_the_reason(void)
{
        static const struct {
                const char *server, *host;
                int status, error;
                const char *problem; /* a part of it */
        } cases[] = {
                {"server", "elsewhere.example", WEIR_ETLS_NAME, X509_V_ERR_HOSTNAME_MISMATCH,
                 "the certificate is for \"server.example\", \"*.wild.example\", \"127.0.0.1\", \"::1\""},
                {"server", "wild.example", WEIR_ETLS_NAME, X509_V_ERR_HOSTNAME_MISMATCH, "is for"},
                {"server", "a.b.wild.example", WEIR_ETLS_NAME, X509_V_ERR_HOSTNAME_MISMATCH, "is for"},
                {"server", "server.example.evil", WEIR_ETLS_NAME, X509_V_ERR_HOSTNAME_MISMATCH, "is for"},
                {"server", "127.0.0.2", WEIR_ETLS_NAME, X509_V_ERR_IP_ADDRESS_MISMATCH, "is for"},
                {"server", "::2", WEIR_ETLS_NAME, X509_V_ERR_IP_ADDRESS_MISMATCH, "is for"},
                {"nameless", "elsewhere.example", WEIR_ETLS_NAME, X509_V_ERR_HOSTNAME_MISMATCH, "is for CN=nameless,O=weir"},
                {"crowd", "elsewhere.example", WEIR_ETLS_NAME, X509_V_ERR_HOSTNAME_MISMATCH, "\"h.example\" and others"},
                {"odd", "elsewhere.example", WEIR_ETLS_NAME, X509_V_ERR_HOSTNAME_MISMATCH, "\"a?b?[31m.example\""},
                {"stale", "stale.example", WEIR_ETLS_EXPIRED, X509_V_ERR_CERT_HAS_EXPIRED,
                 "the certificate of CN=stale,O=weir expired at 20"},
                {"early", "early.example", WEIR_ETLS_EXPIRED, X509_V_ERR_CERT_NOT_YET_VALID, "is not valid before 20"},
                {"lonely", "lonely.example", WEIR_ETLS_SELF_SIGNED, X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT,
                 "CN=lonely,O=weir is signed by itself and not trusted"},
                {"stranger", "stranger.example", WEIR_ETLS_UNTRUSTED, X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY,
                 "CN=stranger,O=weir is signed by CN=impostor,O=weir, which is not trusted"},
                {"chained", "stranger.example", WEIR_ETLS_UNTRUSTED, X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN,
                 "CN=impostor,O=weir is signed by itself"},
                {"user", "user.example", WEIR_ETLS_UNTRUSTED, X509_V_ERR_INVALID_PURPOSE, "unsuitable certificate purpose"},
        };
        struct weir__tls_context *context = make_trusting();

        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
                struct weir__tls_context *other = serve(cases[i].server, WEIR__TLS_CHECK_NONE);

                for (size_t j = 0; j < 2; j++) {
                        int theirs;

                        CU_ASSERT_EQUAL_FATAL(open_both(context, other, cases[i].host), 0);
                        SSL_set_max_proto_version(client.tls->ssl, versions[j]);
                        int ours = shake(&theirs);
                        const char *problem = weir__tls_problem(client.tls);
                        CU_ASSERT_EQUAL(ours, cases[i].status);
                        CU_ASSERT_EQUAL(client.tls->verify_error, cases[i].error);
                        CU_ASSERT_EQUAL(theirs, -EPROTO);
                        bool is_said = problem && strstr(problem, cases[i].problem);
                        CU_ASSERT_TRUE(is_said);
                        if (!is_said)
                                printf("\n    %s for %s: %s\n", cases[i].server, cases[i].host, problem ? problem : "no words");
                        /* It stays so, whatever is called. */
                        CU_ASSERT_EQUAL(weir__stream_read(&client, buffer, 1), cases[i].status);
                        CU_ASSERT_EQUAL(write_text(&client, "secret"), cases[i].status);
                        CU_ASSERT_EQUAL(ERR_peek_error(), 0);
                        close_both();
                }
                weir__tls_context_unref(other);
        }
        weir__tls_context_unref(context);
}

static void
a_refusal_does_not_depend_on_the_peer_being_there(void)
{
        struct weir__tls_context *context = make_trusting(), *other = serve("lonely", WEIR__TLS_CHECK_NONE);

        CU_ASSERT_EQUAL_FATAL(open_both(context, other, "lonely.example"), 0);
        CU_ASSERT_EQUAL(weir__stream_handshake(&client), -EAGAIN);
        CU_ASSERT_EQUAL(weir__stream_handshake(&server), -EAGAIN);
        weir__stream_break(&server);
        CU_ASSERT_EQUAL(weir__stream_handshake(&client), WEIR_ETLS_SELF_SIGNED); /* although its alert cannot be sent */
        close_both();
        weir__tls_context_unref(context);
        weir__tls_context_unref(other);
}

static void
a_host_is_not_forgotten_and_not_invalid(void)
{
        static const char *const wrong[] = {NULL, "", ".", ".example", ".server.example"};
        struct weir__tls_context *context = make_trusting();
        char longest[258];

        for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
                CU_ASSERT_EQUAL(open_both(context, serving, wrong[i]), -EINVAL);
                CU_ASSERT_PTR_NULL(client.tls);
                close_both();
        }
        memset(longest, 'a', sizeof longest);
        longest[256] = '\0';
        CU_ASSERT_EQUAL(open_both(context, serving, longest), -EINVAL);
        close_both();
        longest[255] = '\0';
        CU_ASSERT_EQUAL(connect_to(context, serving, longest, NULL), WEIR_ETLS_NAME);
        close_both();
        weir__tls_context_unref(context);
}

static void
a_context_is_for_one_side_only(void)
{
        struct weir__tls_context *context = make_trusting();

        CU_ASSERT_EQUAL(open_both(serving, serving, "server.example"), -EINVAL); /* which trusts anybody */
        close_both();
        CU_ASSERT_EQUAL_FATAL(open_both(context, context, "server.example"), 0);
        int theirs, ours = shake(&theirs);
        CU_ASSERT_EQUAL(theirs, -EPROTO);
        CU_ASSERT_NOT_EQUAL(ours, 0);
        close_both();
        weir__tls_context_unref(context);
}

static void
a_server_without_tls_is_told_apart(void)
{
        static const struct {
                const char *said;
                int status;
        } cases[] = {
                {"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n", WEIR_ETLS_PLAIN},
                {"220 mail.example ESMTP\r\n", WEIR_ETLS_PLAIN},
                {"SSH-2.0-OpenSSH_9.2\r\n", WEIR_ETLS_PLAIN},
                {"\x16\x03\x03\x00\x05hello", -EPROTO},
                {"\x15\x03\x03\x00\x02\x02\x28", -EPROTO}, /* an alert: no settings in common */
        };
        static const size_t sizes[] = {0, 0, 0, 10, 7};
        struct weir__tls_context *context = make_trusting();

        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
                size_t size = sizes[i] ? sizes[i] : strlen(cases[i].said);

                CU_ASSERT_EQUAL_FATAL(open_both(context, serving, "server.example"), 0);
                weir__stream_become_plain(&server);
                CU_ASSERT_EQUAL(weir__stream_handshake(&client), -EAGAIN);
                CU_ASSERT_EQUAL(weir__stream_write(&server, &(struct iovec){(char *)cases[i].said, size}, 1), (ssize_t)size);
                CU_ASSERT_EQUAL(weir__stream_handshake(&client), cases[i].status);
                CU_ASSERT_PTR_NOT_NULL_FATAL(weir__tls_problem(client.tls));
                CU_ASSERT_EQUAL(strcmp(weir__tls_problem(client.tls), "the server does not speak TLS") == 0,
                                cases[i].status == WEIR_ETLS_PLAIN);
                close_both();
        }
        weir__tls_context_unref(context);
}

static void
an_old_server_is_refused(void)
{
        struct weir__tls_context *context = make_trusting();

        CU_ASSERT_EQUAL_FATAL(open_both(context, serving, "server.example"), 0);
        SSL_set_security_level(server.tls->ssl, 0);
        SSL_set_min_proto_version(server.tls->ssl, TLS1_1_VERSION);
        SSL_set_max_proto_version(server.tls->ssl, TLS1_1_VERSION);
        CU_ASSERT_EQUAL(shake(NULL), -EPROTO);
        close_both();
        weir__tls_context_unref(context);
}

static void
a_server_that_changes_keys_without_end_is_broken_off(void)
{
        struct weir__tls_context *context = make_trusting();
        ssize_t count = -EAGAIN;

        CU_ASSERT_EQUAL_FATAL(connect_to(context, serving, "server.example", NULL), 0);
        for (unsigned i = 0; i < 200 && count == -EAGAIN; i++) {
                CU_ASSERT_EQUAL(SSL_key_update(server.tls->ssl, SSL_KEY_UPDATE_NOT_REQUESTED), 1);
                CU_ASSERT_EQUAL(SSL_do_handshake(server.tls->ssl), 1);
                count = weir__stream_read(&client, buffer, 1);
        }
        CU_ASSERT_EQUAL(count, -EPROTO);
        close_both();
        weir__tls_context_unref(context);
}

/* -- roots -- */

static void
set_roots(const char *file, const char *directory)
{
        setenv("SSL_CERT_FILE", file, 1);
        setenv("SSL_CERT_DIR", directory, 1);
}

static void
the_roots_of_the_system_are_read_once(void)
{
        char hash[300], directories[600];

        snprintf(hash, sizeof hash, "%s", tls_path(""));
        CU_ASSERT_EQUAL(mkdir(tls_path("roots"), 0700), 0);
        snprintf(directories, sizeof directories, "/no/such/directory::%sroots", hash);
        snprintf(hash, sizeof hash, "%s/%s", tls_path("roots"), tls_hash_of("authority"));
        for (unsigned i = 0; i < 2; i++) {
                if (i == 0) {
                        set_roots(tls_path("authority.pem"), "/no/such/directory");
                } else {
                        CU_ASSERT_EQUAL(rename(tls_path("authority.pem"), hash), 0);
                        CU_ASSERT_EQUAL(symlink("nowhere", tls_path("roots/00000000.0")), 0);
                        FILE *stream = fopen(tls_path("roots/11111111.0"), "w");
                        fputs("garbage", stream);
                        fclose(stream);
                        set_roots("/no/such/file", directories);
                }
                struct weir__tls_context *context = make(&(struct weir__tls_client_config){0});
                if (i == 1) {
                        CU_ASSERT_EQUAL(rename(hash, tls_path("authority.pem")), 0); /* nothing is read from now on */
                }
                CU_ASSERT_EQUAL(connect_to(context, serving, "server.example", NULL), 0);
                close_both();
                weir__tls_context_unref(context);
        }
        unlink(tls_path("roots/00000000.0"));
        unlink(tls_path("roots/11111111.0"));
        rmdir(tls_path("roots"));
}

static void
files_of_no_use_are_named(void)
{
        const struct weir__tls_pair mismatch = {(char *)tls_path("alice.pem"), (char *)tls_path("server.key")};
        const struct {
                struct weir__tls_client_config config;
                const char *file, *directory; /* of the system */
                int status, refused;
                const char *said;
        } cases[] = {
                {{.ca_file = tls_path("absent")}, "", "", -ENOENT, 0, "CA file \""},
                {{.ca_file = tls_path("garbage")}, "", "", WEIR_ETLS_CERTIFICATE, 0, "CA file \""},
                {{.ca_file = tls_path("alice.key")}, "", "", WEIR_ETLS_CERTIFICATE, 0, "alice.key"},
                {{.pair = &mismatch}, "", "", WEIR_ETLS_MISMATCH, 0, "server.key"},
                {{.groups = "nonsense", .is_insecure = true}, "", "", -EINVAL, 0, "groups \"nonsense\""},
                {{.protocols = "", .is_insecure = true}, "", "", -EINVAL, 0, "protocols \"\""},
                {{.protocols = "a,,b", .is_insecure = true}, "", "", -EINVAL, 0, "protocols \"a,,b\""},
                {{.protocols = "a,", .is_insecure = true}, "", "", -EINVAL, 0, "protocols \"a,\""},
                {{0},
                 "/no/such/file",
                 "/no/such/directory",
                 WEIR_ETLS_CERTIFICATE,
                 0,
                 "SSL_CERT_DIR) \"/no/such/directory\": no usable"},
                {{0}, tls_path("garbage"), "/no/such/directory", WEIR_ETLS_CERTIFICATE, 0, "garbage"},
                {{0}, "/no/such/file", tls_path(""), WEIR_ETLS_CERTIFICATE, 0, "no usable certificate"}, /* no names of hashes */
                {{0}, "/no/such/file", "/full", -EMFILE, EMFILE, "\"/full\": "},
                {{0}, "/no/such/file", "/full", -ENFILE, ENFILE, "\"/full\": "},
        };

        tls_write_file("garbage", "-----BEGIN GARBAGE-----\n", 24);
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
                struct weir__tls_context *context = NULL;

                set_roots(cases[i].file, cases[i].directory);
                said[0] = '\0';
                refused_directory = cases[i].refused;
                int failed = weir__tls_context_new_client(&context, &cases[i].config);
                refused_directory = 0;
                CU_ASSERT_EQUAL(failed, cases[i].status);
                CU_ASSERT_PTR_NULL(context);
                CU_ASSERT_EQUAL(ERR_peek_error(), 0);
                bool is_said = strstr(said, cases[i].said);
                CU_ASSERT_TRUE(is_said);
                if (!is_said || failed != cases[i].status)
                        printf("\n    case %zu: %d: %s\n", i, failed, said);
        }
}

static void
any_certificate_of_a_file_is_trusted(void)
{
        struct weir__tls_context *context = make(&(struct weir__tls_client_config){.ca_file = tls_path("server.pem")});

        CU_ASSERT_EQUAL(connect_to(context, serving, "server.example", NULL), 0);
        close_both();
        weir__tls_context_unref(context);
        context = make(&(struct weir__tls_client_config){.ca_file = tls_path("lonely.pem")});
        struct weir__tls_context *other = serve("lonely", WEIR__TLS_CHECK_NONE);
        CU_ASSERT_EQUAL(connect_to(context, other, "lonely.example", NULL), 0);
        close_both();
        CU_ASSERT_EQUAL(connect_to(context, serving, "server.example", NULL), WEIR_ETLS_UNTRUSTED);
        close_both();
        weir__tls_context_unref(other);
        weir__tls_context_unref(context);
}

/* -- over TCP, against the HTTP server -- */

static void
answer(weir_task *exchange, void *ignored)
{
        (void)ignored;
        weir_http_reply_text(exchange, 200, "it is well");
}

static void
wait_for(short events)
{
        struct pollfd event = {.fd = client.source.fd, .events = events};

        CU_ASSERT_EQUAL_FATAL(poll(&event, 1, 30000), 1);
}

static void
a_request_is_answered(void)
{
        static const char request[] = "GET / HTTP/1.1\r\nHost: server.example\r\nConnection: close\r\n\r\n";
        struct weir_http_server_config config = WEIR_HTTP_SERVER_CONFIG_DEFAULT;
        weir_http_server *at;
        struct weir__tls_context *context = make_trusting();
        struct weir__address address;
        bool is_under_way;
        const char *reason;
        char text[64];
        size_t have = 0;
        ssize_t count;
        int failed;

        config.certificate_file = tls_path("server.pem");
        config.private_key_file = tls_path("server.key");
        at = weir_http_server_new(&config, answer, NULL);
        CU_ASSERT_EQUAL_FATAL(weir_http_server_start(at, "127.0.0.1:0"), 0);
        snprintf(text, sizeof text, "127.0.0.1:%d", weir_http_server_port(at));
        CU_ASSERT_EQUAL_FATAL(weir__address_parse_peer(text, strlen(text), &address, &reason), 0);
        client = (struct weir__stream){.source.fd = weir__connect(&address.name, &is_under_way)};
        CU_ASSERT_FATAL(client.source.fd >= 0);
        while (is_under_way && (failed = weir__connect_result(client.source.fd)) != 0) {
                CU_ASSERT_EQUAL_FATAL(failed, -EINPROGRESS);
                wait_for(POLLOUT);
        }
        CU_ASSERT_EQUAL_FATAL(weir__tls_new_client(&client.tls, context, client.source.fd, address.host), 0);
        while ((failed = weir__stream_handshake(&client)) != 0) {
                CU_ASSERT_EQUAL_FATAL(failed, -EAGAIN);
                wait_for(weir__tls_wants_write(client.tls) ? POLLOUT : POLLIN);
        }
        CU_ASSERT_EQUAL(write_text(&client, request), (ssize_t)strlen(request));
        while ((count = weir__stream_read(&client, buffer + have, sizeof buffer - have)) != 0) {
                CU_ASSERT_FATAL(count > 0 || count == -EAGAIN);
                have += count > 0 ? (size_t)count : 0;
                if (count < 0)
                        wait_for(POLLIN);
        }
        buffer[have] = '\0';
        CU_ASSERT(strncmp(buffer, "HTTP/1.1 200 OK\r\n", 17) == 0);
        CU_ASSERT_PTR_NOT_NULL(strstr(buffer, "it is well"));
        weir__stream_close(&client);
        weir__tls_context_unref(context);
        weir_http_server_stop(at, 0);
        weir_http_server_free(at);
        weir_shutdown();
}

/* -- memory that is refused -- */

static void
a_context_gets_by_without_any_one_allocation(void)
{
        const struct weir__tls_pair pair = {(char *)tls_path("alice.pem"), (char *)tls_path("alice.key")};
        const struct weir__tls_client_config config = {
                .pair = &pair, .ca_file = tls_path("authority.pem"), .protocols = "kv,http/1.1"};
        unsigned failures = 0;
        int64_t count = 0;

        do {
                struct weir__tls_context *context = NULL;

                refuse_after(count);
                int failed = weir__tls_context_new_client(&context, &config);
                refuse_none();
                failures += failed != 0;
                CU_ASSERT_EQUAL(failed == 0, context != NULL);
                CU_ASSERT_EQUAL(ERR_peek_error(), 0);
                weir__tls_context_unref(context);
                count += 1 + count / 40; /* all of the first, fewer later */
        } while (has_refused);
        CU_ASSERT(failures > 30);
}

/* The client's calls of a short life, one allocation of which is refused.  Returns whether it came to its end. */
static bool
live(struct weir__tls_context *context, struct weir__tls_context *other, const char *host, int version, int64_t refused_one)
{
        int64_t left = refused_one;
        int ours = -EAGAIN, theirs = -EAGAIN, fds[2];
        bool is_good = false;

        CU_ASSERT_EQUAL_FATAL(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds), 0);
        client = (struct weir__stream){.source.fd = fds[0]};
        server = (struct weir__stream){.source.fd = fds[1], .tls = weir__tls_new(other, fds[1])};
        SSL_set_max_proto_version(server.tls->ssl, version);
        refuse_after(left);
        if (weir__tls_new_client(&client.tls, context, fds[0], host))
                ours = -ENOMEM;
        for (unsigned i = 0; i < 4 && ours == -EAGAIN; i++) {
                ours = weir__stream_handshake(&client);
                left = allocations_left;
                refuse_none();
                theirs = theirs == -EAGAIN ? weir__stream_handshake(&server) : theirs;
                allocations_left = left;
        }
        if (ours == 0 && theirs == 0) {
                ssize_t sent = write_text(&client, "question");
                ssize_t count = weir__stream_read(&client, buffer, sizeof buffer);

                free(weir__tls_peer(client.tls));
                weir__stream_finish(&client);
                CU_ASSERT(sent == 8 || sent < 0);
                is_good = sent == 8 && count == -EAGAIN;
        }
        refuse_none();
        CU_ASSERT(ours <= 0);
        close_both();
        return is_good;
}

static void
a_connection_gets_by_without_any_one_allocation(void)
{
        struct weir__tls_context *context = make_trusting(), *lonely = serve("lonely", WEIR__TLS_CHECK_NONE);
        const struct {
                struct weir__tls_context *other;
                const char *host;
        } cases[] = {{serving, "server.example"}, {serving, "elsewhere.example"}, {lonely, "lonely.example"}};

        for (size_t i = 0; i < 6; i++) {
                unsigned failures = 0;
                int64_t count = 0;

                do {
                        bool is_good = live(context, cases[i / 2].other, cases[i / 2].host, versions[i % 2], count);

                        CU_ASSERT(i < 2 || !is_good); /* a check is never passed over */
                        failures += !is_good;
                        ERR_clear_error();
                        count += 1 + count / 100; /* all of the first hundred, fewer later */
                } while (has_refused);
                CU_ASSERT(failures > 50);
                CU_ASSERT_TRUE(live(context, serving, "server.example", versions[i % 2], INT64_MAX)); /* and the next is served */
        }
        weir__tls_context_unref(lonely);
        weir__tls_context_unref(context);
}

static bool
make_files(void)
{
        static const char *const chain[] = {"stranger", "impostor"};

        tls_make_certificate("authority", &(struct tls_wish){0});
        tls_make_certificate("impostor", &(struct tls_wish){0});
        tls_make_certificate(
                "server", &(struct tls_wish){.issuer = "authority",
                                             .alternative_names = "DNS:server.example,DNS:*.wild.example,IP:127.0.0.1,IP:::1"});
        tls_make_certificate("alice", &(struct tls_wish){.issuer = "authority"});
        tls_make_certificate("nameless", &(struct tls_wish){.issuer = "authority"});
        tls_make_certificate("crowd", &(struct tls_wish){.issuer = "authority",
                                                         .alternative_names = "DNS:a.example,DNS:b.example,DNS:c.example,"
                                                                              "DNS:d.example,DNS:e.example,DNS:f.example,"
                                                                              "DNS:g.example,DNS:h.example,DNS:i.example"});
        tls_make_certificate("odd", &(struct tls_wish){.issuer = "authority", .alternative_names = "DNS:a\nb\x1b[31m.example"});
        tls_make_certificate("stale", &(struct tls_wish){.issuer = "authority",
                                                         .alternative_names = "DNS:stale.example",
                                                         .begins_in = -7200,
                                                         .ends_in = -3600});
        tls_make_certificate(
                "early", &(struct tls_wish){.issuer = "authority", .alternative_names = "DNS:early.example", .begins_in = 3600});
        tls_make_certificate("lonely", &(struct tls_wish){.alternative_names = "DNS:lonely.example"});
        tls_make_certificate("stranger", &(struct tls_wish){.issuer = "impostor", .alternative_names = "DNS:stranger.example"});
        tls_make_certificate(
                "user",
                &(struct tls_wish){.issuer = "authority", .alternative_names = "DNS:user.example", .usage = "clientAuth"});
        tls_join("chained", chain, 2);
        return link(tls_path("stranger.key"), tls_path("chained.key")) == 0;
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(both_sides_read_what_the_other_writes),
                WEIR_TEST(a_megabyte_goes_both_ways),
                WEIR_TEST(an_end_without_a_word_is_not_an_end),
                WEIR_TEST(what_came_before_the_peer_went_is_read),
                WEIR_TEST(the_name_is_sent_and_an_address_is_not),
                WEIR_TEST(a_client_shows_its_certificate),
                WEIR_TEST(protocols_are_agreed_on),
                WEIR_TEST(an_insecure_client_accepts_anybody),
                WEIR_TEST(a_context_of_the_program_is_used_as_it_is),
                WEIR_TEST(a_certificate_is_refused_with_the_reason),
                WEIR_TEST(a_refusal_does_not_depend_on_the_peer_being_there),
                WEIR_TEST(a_host_is_not_forgotten_and_not_invalid),
                WEIR_TEST(a_context_is_for_one_side_only),
                WEIR_TEST(a_server_without_tls_is_told_apart),
                WEIR_TEST(an_old_server_is_refused),
                WEIR_TEST(a_server_that_changes_keys_without_end_is_broken_off),
                WEIR_TEST(the_roots_of_the_system_are_read_once),
                WEIR_TEST(files_of_no_use_are_named),
                WEIR_TEST(any_certificate_of_a_file_is_trusted),
                WEIR_TEST(a_request_is_answered),
                WEIR_TEST(a_context_gets_by_without_any_one_allocation),
                WEIR_TEST(a_connection_gets_by_without_any_one_allocation),
        };

        if (!can_refuse())
                return 1;
        tls_files_begin();
        weir_log_set(listen_to_log, NULL);
        const char *name = "server";
        if (!make_files() || tls_make_context(&serving, &name, 1, NULL, NULL))
                return 1;
        int failed = weir_test_main("tls client", tests, sizeof tests / sizeof *tests);
        weir__tls_context_unref(serving);
        weir_log_set(NULL, NULL);
        tls_files_end();
        return failed;
}
