/* test/tls_session_test.c: sessions that clients of TLS resume: which, how often, for how long, and when memory is refused. */
#include <pthread.h>
#include <stdio.h>

#include <openssl/err.h>

#include <weir/log.h>

#include "kernel/base/clock.h"
#include "kernel/tls/tls_internal.h"
#include "kernel/tls/tls_sessions.h"
#include "test/tls_memory.h"
#include "test/tls_pair.h"

#define HOST "server.example"

static struct weir__tls_context *serving;

static void
ignore_log(enum weir_log_level level, const char *message, void *nothing)
{
        (void)level, (void)message, (void)nothing;
}

static struct weir__tls_context *
serve(const char *name)
{
        struct weir__tls_context *context = NULL;

        CU_ASSERT_EQUAL_FATAL(tls_make_context(&context, &name, 1, NULL, NULL), 0);
        return context;
}

static struct weir__tls_context *
make_trusting(void)
{
        struct weir__tls_context *context = NULL;
        const struct weir__tls_client_config config = {.ca_file = tls_path("authority.pem")};

        CU_ASSERT_EQUAL_FATAL(weir__tls_context_new_client(&context, &config), 0);
        return context;
}

static void
open_resuming(struct weir__tls_context *of_client, struct weir__tls_context *of_server, const char *host, const char *address,
              int version)
{
        CU_ASSERT_EQUAL_FATAL(open_both(of_client, of_server, host), 0);
        SSL_set_max_proto_version(client.tls->ssl, version);
        weir__tls_resume(client.tls, host, address);
}

/* A whole short life, with the read that brings the tickets.  Returns whether it was resumed. */
static bool
visit(struct weir__tls_context *of_client, struct weir__tls_context *of_server, const char *host, const char *address,
      int version)
{
        int theirs;

        open_resuming(of_client, of_server, host, address, version);
        CU_ASSERT_EQUAL_FATAL(shake(&theirs), 0);
        CU_ASSERT_EQUAL(theirs, 0);
        CU_ASSERT_EQUAL(weir__stream_read(&client, buffer, 100), -EAGAIN);
        expect_text(&client, &server, "question");
        expect_text(&server, &client, "answer");
        bool is_resumed = weir__tls_is_resumed(client.tls);
        CU_ASSERT_EQUAL(is_resumed, weir__tls_is_resumed(server.tls));
        close_both();
        return is_resumed;
}

/* -- connections -- */

static void
a_second_connection_resumes_the_first(void)
{
        for (size_t i = 0; i < 2; i++) {
                struct weir__tls_context *context = make_trusting();

                CU_ASSERT_FALSE(visit(context, serving, HOST, "a:443", versions[i]));
                for (unsigned count = 0; count < 5; count++)
                        CU_ASSERT_TRUE(visit(context, serving, HOST, "a:443", versions[i]));
                weir__tls_context_unref(context);
        }
}

static void
a_resumed_connection_knows_the_peer(void)
{
        struct weir__tls_context *context = make_trusting();

        for (unsigned i = 0; i < 4; i++) {
                open_resuming(context, serving, HOST, "a:443", versions[i / 2]);
                CU_ASSERT_EQUAL_FATAL(shake(NULL), 0);
                CU_ASSERT_EQUAL(weir__stream_read(&client, buffer, 100), -EAGAIN);
                char *peer = weir__tls_peer(client.tls);
                CU_ASSERT(peer && strcmp(peer, "CN=server,O=weir") == 0);
                free(peer);
                CU_ASSERT_EQUAL(SSL_get_verify_result(client.tls->ssl), X509_V_OK);
                close_both();
        }
        weir__tls_context_unref(context);
}

static void
another_name_address_or_settings_begin_anew(void)
{
        for (size_t i = 0; i < 2; i++) {
                struct weir__tls_context *context = make_trusting(), *other = make_trusting();

                CU_ASSERT_FALSE(visit(context, serving, HOST, "a:443", versions[i]));
                CU_ASSERT_FALSE(visit(context, serving, HOST, "a:444", versions[i]));
                CU_ASSERT_FALSE(visit(context, serving, "a.wild.example", "a:443", versions[i]));
                CU_ASSERT_FALSE(visit(other, serving, HOST, "a:443", versions[i]));
                CU_ASSERT_TRUE(visit(context, serving, HOST, "a:443", versions[i]));
                weir__tls_context_unref(context);
                weir__tls_context_unref(other);
        }
}

/* The session says who the peer is, but nobody has looked at its certificate. */
static void
a_session_without_a_check_stays_with_its_settings(void)
{
        struct weir__tls_context *trusting = make_trusting(), *insecure = NULL, *lonely = serve("lonely");

        CU_ASSERT_EQUAL_FATAL(weir__tls_context_new_client(&insecure, &(struct weir__tls_client_config){.is_insecure = true}), 0);
        for (size_t i = 0; i < 2; i++) {
                CU_ASSERT_FALSE(visit(insecure, lonely, HOST, "a:443", versions[i]));
                CU_ASSERT_TRUE(visit(insecure, lonely, HOST, "a:443", versions[i]));
                open_resuming(trusting, lonely, HOST, "a:443", versions[i]);
                CU_ASSERT_EQUAL(shake(NULL), WEIR_ETLS_SELF_SIGNED);
                close_both();
        }
        weir__tls_context_unref(trusting);
        weir__tls_context_unref(insecure);
        weir__tls_context_unref(lonely);
}

/* A server that has started anew has other keys. */
static void
a_refused_session_costs_a_full_handshake(void)
{
        for (size_t i = 0; i < 2; i++) {
                struct weir__tls_context *context = make_trusting(), *anew = serve("server");

                CU_ASSERT_FALSE(visit(context, serving, HOST, "a:443", versions[i]));
                CU_ASSERT_FALSE(visit(context, anew, HOST, "a:443", versions[i]));
                CU_ASSERT_TRUE(visit(context, anew, HOST, "a:443", versions[i]));
                weir__tls_context_unref(context);
                weir__tls_context_unref(anew);
        }
}

static bool
has_session(struct weir__tls_context *context, const char *key)
{
        struct weir__tls_session session;
        bool has = weir__tls_sessions_take(context->sessions, key, &session);

        if (has)
                SSL_SESSION_free(session.session);
        return has;
}

static void
a_session_is_dropped_when_its_handshake_fails(void)
{
        for (size_t i = 0; i < 2; i++) {
                struct weir__tls_context *context = make_trusting();

                CU_ASSERT_FALSE(visit(context, serving, HOST, "a:443", versions[i]));
                open_resuming(context, serving, HOST, "a:443", versions[i]);
                CU_ASSERT_EQUAL(weir__stream_handshake(&client), -EAGAIN);
                weir__stream_close(&server);
                CU_ASSERT(weir__stream_handshake(&client) < 0);
                close_both();
                CU_ASSERT_FALSE(has_session(context, HOST " a:443"));
                CU_ASSERT_FALSE(visit(context, serving, HOST, "a:443", versions[i]));
                weir__tls_context_unref(context);
        }
}

/* Programs break connections that they need no more, and many servers end them without a close_notify. */
static void
a_connection_that_was_cut_can_be_resumed(void)
{
        for (unsigned i = 0; i < 4; i++) {
                struct weir__tls_context *context = make_trusting();

                open_resuming(context, serving, HOST, "a:443", versions[i / 2]);
                CU_ASSERT_EQUAL_FATAL(shake(NULL), 0);
                CU_ASSERT_EQUAL(weir__stream_read(&client, buffer, 100), -EAGAIN);
                if (i % 2)
                        weir__stream_break(&server);
                weir__stream_break(&client);
                close_both();
                CU_ASSERT_TRUE(visit(context, serving, HOST, "a:443", versions[i / 2]));
                weir__tls_context_unref(context);
        }
}

/* Its own lifetime would be hours. */
static void
a_session_ends_with_the_certificate(void)
{
        struct weir__tls_context *brief = serve("brief");

        for (unsigned i = 0; i < 4; i++) {
                struct weir__tls_context *context = make_trusting();
                struct weir__tls_session session;

                for (unsigned visits = 0; visits <= i % 2; visits++) /* the tickets of a resumed connection, too */
                        CU_ASSERT_EQUAL(visit(context, brief, "brief.example", "a:443", versions[i / 2]), visits > 0);
                CU_ASSERT_TRUE_FATAL(weir__tls_sessions_take(context->sessions, "brief.example a:443", &session));
                CU_ASSERT(session.until <= weir_wall_now() + WEIR_SEC(100));
                CU_ASSERT(session.until > weir_wall_now());
                SSL_SESSION_free(session.session);
                weir__tls_context_unref(context);
        }
        weir__tls_context_unref(brief);
}

/* -- the cache -- */

static _Atomic unsigned faults; /* of several threads */

static const struct weir__tls_session *
make_session(int version, unsigned id, weir_nsec left)
{
        static _Thread_local struct weir__tls_session made;

        made = (struct weir__tls_session){SSL_SESSION_new(), weir_wall_now() + left, WEIR_FOREVER};
        faults += SSL_SESSION_set_protocol_version(made.session, version) != 1 ||
                  SSL_SESSION_set1_id(made.session, (const unsigned char *)&id, sizeof id) != 1;
        return &made;
}

/* The number of the session that is taken; -1: none. */
static int
take(struct weir__tls_sessions *sessions, const char *key)
{
        struct weir__tls_session session;
        unsigned size, id;

        if (!weir__tls_sessions_take(sessions, key, &session))
                return -1;
        memcpy(&id, SSL_SESSION_get_id(session.session, &size), sizeof id);
        SSL_SESSION_free(session.session);
        return (int)id;
}

static void
the_newest_few_are_kept(void)
{
        struct weir__tls_sessions *sessions = weir__tls_sessions_new();

        for (unsigned id = 0; id < WEIR__TLS_SESSIONS_FOR_NAME + 2; id++)
                CU_ASSERT_TRUE(weir__tls_sessions_keep(sessions, "a", make_session(TLS1_3_VERSION, id, WEIR_SEC(60))));
        for (int id = WEIR__TLS_SESSIONS_FOR_NAME + 1; id >= 2; id--)
                CU_ASSERT_EQUAL(take(sessions, "a"), id);
        CU_ASSERT_EQUAL(take(sessions, "a"), -1);
        for (unsigned id = 0; id < 6; id++)
                CU_ASSERT_TRUE(weir__tls_sessions_keep(sessions, "a", make_session(TLS1_2_VERSION, id, WEIR_SEC(60))));
        CU_ASSERT_EQUAL(take(sessions, "a"), 5); /* until it expires */
        weir__tls_sessions_forget(sessions, "a");
        weir__tls_sessions_forget(sessions, "b");
        CU_ASSERT_EQUAL(take(sessions, "a"), -1);
        weir__tls_sessions_free(sessions);
        weir__tls_sessions_free(NULL);
}

static void
an_expired_session_is_not_used(void)
{
        struct weir__tls_sessions *sessions = weir__tls_sessions_new();
        const struct weir__tls_session *late = make_session(TLS1_3_VERSION, 7, -WEIR_SEC(1));

        CU_ASSERT_FALSE(weir__tls_sessions_keep(sessions, "a", late));
        SSL_SESSION_free(late->session);
        weir__clock_start(true);
        CU_ASSERT_TRUE(weir__tls_sessions_keep(sessions, "a", make_session(TLS1_3_VERSION, 1, WEIR_SEC(60))));
        CU_ASSERT_TRUE(weir__tls_sessions_keep(sessions, "a", make_session(TLS1_3_VERSION, 2, WEIR_SEC(20))));
        CU_ASSERT_EQUAL(weir__clock_set_wall(weir_wall_now() + WEIR_SEC(20)), 0);
        CU_ASSERT_EQUAL(take(sessions, "a"), 1);
        CU_ASSERT_EQUAL(take(sessions, "a"), -1);
        weir__clock_start(false);
        weir__tls_sessions_free(sessions);
}

static void
the_least_recently_used_name_goes(void)
{
        struct weir__tls_sessions *sessions = weir__tls_sessions_new();
        char key[32];

        for (unsigned id = 0; id < WEIR__TLS_SESSIONS_NAMES; id++) {
                snprintf(key, sizeof key, "%u", id);
                CU_ASSERT_TRUE(weir__tls_sessions_keep(sessions, key, make_session(TLS1_2_VERSION, id, WEIR_SEC(60))));
        }
        CU_ASSERT_EQUAL(take(sessions, "0"), 0);
        for (unsigned id = 0; id < 2; id++) {
                snprintf(key, sizeof key, "more %u", id);
                CU_ASSERT_TRUE(weir__tls_sessions_keep(sessions, key, make_session(TLS1_2_VERSION, id, WEIR_SEC(60))));
        }
        CU_ASSERT_EQUAL(take(sessions, "0"), 0);
        CU_ASSERT_EQUAL(take(sessions, "1"), -1);
        CU_ASSERT_EQUAL(take(sessions, "2"), -1);
        CU_ASSERT_EQUAL(take(sessions, "3"), 3);
        weir__tls_sessions_free(sessions);
}

/* Few names with many sessions each. */
static void
all_sessions_together_have_a_bound(void)
{
        struct weir__tls_sessions *sessions = weir__tls_sessions_new();
        unsigned count = 0;
        char key[32];

        for (unsigned id = 0; id < 2 * WEIR__TLS_SESSIONS_MAX; id++) {
                snprintf(key, sizeof key, "%u", id / WEIR__TLS_SESSIONS_FOR_NAME);
                CU_ASSERT_TRUE(weir__tls_sessions_keep(sessions, key, make_session(TLS1_3_VERSION, id, WEIR_SEC(60))));
        }
        for (unsigned id = 0; id < 2 * WEIR__TLS_SESSIONS_MAX; id++) {
                snprintf(key, sizeof key, "%u", id / WEIR__TLS_SESSIONS_FOR_NAME);
                count += take(sessions, key) >= 0;
        }
        CU_ASSERT(count <= WEIR__TLS_SESSIONS_MAX && count > WEIR__TLS_SESSIONS_MAX - WEIR__TLS_SESSIONS_FOR_NAME);
        weir__tls_sessions_free(sessions);
}

static struct weir__tls_sessions *shared;

static void *
use_shared(void *argument)
{
        unsigned seed = (unsigned)(uintptr_t)argument;
        char key[32];

        for (unsigned i = 0; i < 3000; i++) {
                unsigned number = (unsigned)rand_r(&seed);
                const struct weir__tls_session *session;

                snprintf(key, sizeof key, "%u", number / 8 % 1500);
                switch (number % 8) {
                case 0: weir__tls_sessions_forget(shared, key); break;
                case 1:
                case 2:
                case 3: (void)take(shared, key); break;
                default:
                        session = make_session(number & 64 ? TLS1_2_VERSION : TLS1_3_VERSION, number, WEIR_SEC(60));
                        faults += !weir__tls_sessions_keep(shared, key, session);
                }
        }
        return NULL;
}

static void
threads_share_a_cache(void)
{
        pthread_t threads[4];

        shared = weir__tls_sessions_new();
        for (uintptr_t i = 0; i < 4; i++)
                CU_ASSERT_EQUAL_FATAL(pthread_create(&threads[i], NULL, use_shared, (void *)(i + 1)), 0);
        for (unsigned i = 0; i < 4; i++)
                CU_ASSERT_EQUAL(pthread_join(threads[i], NULL), 0);
        CU_ASSERT_EQUAL(faults, 0);
        weir__tls_sessions_free(shared);
}

/* -- memory that is refused -- */

/* The second of two connections, one allocation of which is refused.  Returns whether it came to its end. */
static bool
live(struct weir__tls_context *context, int version, int64_t refused_one)
{
        int64_t left = refused_one;
        int ours = -EAGAIN, theirs = -EAGAIN, fds[2];
        bool is_good = false;

        CU_ASSERT_EQUAL_FATAL(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds), 0);
        client = (struct weir__stream){.source.fd = fds[0]};
        server = (struct weir__stream){.source.fd = fds[1], .tls = weir__tls_new(serving, fds[1])};
        SSL_set_max_proto_version(server.tls->ssl, version);
        refuse_after(left);
        if (weir__tls_new_client(&client.tls, context, fds[0], HOST))
                ours = -ENOMEM;
        else
                weir__tls_resume(client.tls, HOST, "a:443");
        for (unsigned i = 0; i < 4 && ours == -EAGAIN; i++) {
                ours = weir__stream_handshake(&client);
                left = allocations_left;
                refuse_none();
                theirs = theirs == -EAGAIN ? weir__stream_handshake(&server) : theirs;
                allocations_left = left;
        }
        if (ours == 0)
                is_good = weir__stream_read(&client, buffer, sizeof buffer) == -EAGAIN;
        refuse_none();
        CU_ASSERT(ours <= 0);
        close_both();
        return is_good;
}

static void
sessions_get_by_without_any_one_allocation(void)
{
        for (size_t i = 0; i < 2; i++) {
                unsigned failures = 0;
                int64_t count = 0;

                do {
                        struct weir__tls_context *context = make_trusting();

                        CU_ASSERT_FALSE(visit(context, serving, HOST, "a:443", versions[i]));
                        failures += !live(context, versions[i], count);
                        bool was_refused = has_refused;
                        ERR_clear_error();
                        (void)visit(context, serving, HOST, "a:443", versions[i]);
                        CU_ASSERT_TRUE(visit(context, serving, HOST, "a:443", versions[i]));
                        weir__tls_context_unref(context);
                        has_refused = was_refused;
                        count += 1 + count / 100; /* all of the first hundred, fewer later */
                } while (has_refused);
                CU_ASSERT(failures > 30);
        }
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(a_second_connection_resumes_the_first),
                WEIR_TEST(a_resumed_connection_knows_the_peer),
                WEIR_TEST(another_name_address_or_settings_begin_anew),
                WEIR_TEST(a_session_without_a_check_stays_with_its_settings),
                WEIR_TEST(a_refused_session_costs_a_full_handshake),
                WEIR_TEST(a_session_is_dropped_when_its_handshake_fails),
                WEIR_TEST(a_connection_that_was_cut_can_be_resumed),
                WEIR_TEST(a_session_ends_with_the_certificate),
                WEIR_TEST(the_newest_few_are_kept),
                WEIR_TEST(an_expired_session_is_not_used),
                WEIR_TEST(the_least_recently_used_name_goes),
                WEIR_TEST(all_sessions_together_have_a_bound),
                WEIR_TEST(threads_share_a_cache),
                WEIR_TEST(sessions_get_by_without_any_one_allocation),
        };

        if (!can_refuse())
                return 1;
        tls_files_begin();
        weir_log_set(ignore_log, NULL);
        tls_make_certificate("authority", &(struct tls_wish){0});
        tls_make_certificate("server", &(struct tls_wish){.issuer = "authority",
                                                          .alternative_names = "DNS:server.example,DNS:*.wild.example"});
        tls_make_certificate("brief",
                             &(struct tls_wish){.issuer = "authority", .alternative_names = "DNS:brief.example", .ends_in = 100});
        tls_make_certificate("lonely", &(struct tls_wish){.alternative_names = "DNS:lonely.example"});
        const char *name = "server";
        if (tls_make_context(&serving, &name, 1, NULL, NULL))
                return 1;
        int failed = weir_test_main("tls session", tests, sizeof tests / sizeof *tests);
        weir__tls_context_unref(serving);
        weir_log_set(NULL, NULL);
        tls_files_end();
        return failed;
}
