/* test/stream_server_tls_test.c: servers of streams that ask their clients for certificates, and that get new ones by SIGHUP. */
#include "test/stream_server_fixture.h"
#include "test/tls_peer.h"

#include <weir/tls.h>

static char subject[80]; /* which the handler saw */

static void
greet(weir_stream *stream, weir_series *series, void *context)
{
        char narrow[4];

        (void)context;
        CU_ASSERT_EQUAL(weir_stream_peer_certificate(stream, subject, sizeof subject), (int)strlen(subject));
        CU_ASSERT_EQUAL(weir_stream_peer_certificate(stream, narrow, sizeof narrow), (int)strlen(subject));
        CU_ASSERT_EQUAL(strncmp(narrow, subject, sizeof narrow - 1), 0);
        weir_series_push(series, weir_stream_write_new(stream, "hello", 5, NULL, NULL));
        atomic_fetch_add(&at.handled, 1);
}

static void
keep(weir_stream *stream, weir_series *series, void *context)
{
        (void)series, (void)context;
        atomic_store(&at.kept, weir_stream_ref(stream));
        atomic_fetch_add(&at.handled, 1);
}

static void
use_certificates(const char *authority)
{
        at.config.certificate_file = tls_path("server.pem");
        at.config.private_key_file = tls_path("server.key");
        at.config.client_ca_file = authority;
}

/* Whether a client is served that shows this certificate (NULL: none).  In TLS 1.3 its handshake is over before the server has
 * looked at it. */
static bool
is_served(const char *certificate, int version)
{
        char room[8];
        SSL *client = tls_connect(at.port, &(struct tls_client_wish){.certificate = certificate, .version = version});
        bool is = client && SSL_read(client, room, sizeof room) == 5;

        CU_ASSERT(client || version == TLS1_2_VERSION);
        if (client)
                tls_hang_up(client);
        return is;
}

static void
clients_show_a_certificate_of_the_authority(void)
{
        static const int versions[] = {TLS1_2_VERSION, TLS1_3_VERSION};

        for (size_t i = 0; i < 2; i++) {
                prepare();
                use_certificates(tls_path("authority.pem"));
                begin(2, greet);
                CU_ASSERT_FALSE(is_served(NULL, versions[i]));
                CU_ASSERT_FALSE(is_served("mallory", versions[i]));
                CU_ASSERT_FALSE(is_served("expired", versions[i]));
                CU_ASSERT_EQUAL(atomic_load(&at.handled), 0);
                CU_ASSERT_TRUE(is_served("alice", versions[i]));
                CU_ASSERT_STRING_EQUAL(subject, "CN=alice,O=weir");
                CU_ASSERT_FALSE(is_served(NULL, versions[i]));
                CU_ASSERT_TRUE(is_served("alice", versions[i]));
                CU_ASSERT_EQUAL(atomic_load(&at.handled), 2);
                WEIR_TEST_EVENTUALLY(connections() == 0);
                end();
        }
}

static void
another_authority_comes_with_a_reload(void)
{
        static const char *const both[] = {"authority", "other"};

        tls_join("trusted", both, 1);
        prepare();
        use_certificates(tls_path("trusted.pem"));
        begin(1, greet);
        CU_ASSERT_TRUE(is_served("alice", 0));
        CU_ASSERT_FALSE(is_served("mallory", 0));
        tls_join("trusted", both + 1, 1);
        CU_ASSERT_EQUAL(weir_stream_server_reload(at.server), 0);
        CU_ASSERT_FALSE(is_served("alice", 0));
        CU_ASSERT_TRUE(is_served("mallory", 0));
        CU_ASSERT_STRING_EQUAL(subject, "CN=mallory,O=weir");
        tls_write_file("trusted.pem", "nonsense", 8);
        CU_ASSERT_EQUAL(weir_stream_server_reload(at.server), WEIR_ETLS_CERTIFICATE);
        CU_ASSERT_TRUE(is_served("mallory", 0)); /* the former one stays */
        end();
}

static void
a_stream_may_have_no_certificate_to_show(void)
{
        char room[16] = "kept";

        prepare();
        begin(1, keep);
        int fd = dial();
        WEIR_TEST_EVENTUALLY(atomic_load(&at.handled) == 1);
        weir_stream *kept = atomic_load(&at.kept);
        CU_ASSERT_EQUAL(weir_stream_peer_certificate(NULL, room, sizeof room), -ENOMEM);
        CU_ASSERT_EQUAL(weir_stream_peer_certificate(kept, room, sizeof room), -ENODATA); /* plain */
        CU_ASSERT_EQUAL(weir_stream_server_stop(at.server, 0), 0);
        CU_ASSERT_EQUAL(weir_stream_peer_certificate(kept, room, sizeof room), -ENOTCONN);
        weir_stream_unref(kept);
        close(fd);
        end();

        prepare();
        use_certificates(NULL);
        begin(1, keep);
        SSL *client = tls_connect(at.port, &(struct tls_client_wish){.certificate = "alice"});
        WEIR_TEST_EVENTUALLY(atomic_load(&at.handled) == 1);
        kept = atomic_load(&at.kept);
        CU_ASSERT_EQUAL(weir_stream_peer_certificate(kept, room, sizeof room), -ENODATA); /* it was not asked for */
        CU_ASSERT_STRING_EQUAL(room, "kept");
        weir_stream_unref(kept);
        tls_hang_up(client);
        end();
}

static void
files_that_cannot_be_used_are_named(void)
{
        const struct {
                const char *path;
                int status;
        } cases[] = {
                {"/nowhere/authority.pem", -ENOENT},
                {tls_path("nonsense.pem"), WEIR_ETLS_CERTIFICATE},
                {tls_path("."), WEIR_ETLS_CERTIFICATE},
        };

        tls_write_file("nonsense.pem", "nonsense", 8);
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
                prepare();
                use_certificates(cases[i].path);
                weir_test_begin_real(1);
                CU_ASSERT_EQUAL(weir_log_set(note_log, NULL), 0);
                at.server = weir_stream_server_new(&at.config, greet, &at);
                CU_ASSERT_EQUAL(weir_stream_server_start(at.server, "127.0.0.1:0"), cases[i].status);
                CU_ASSERT_PTR_NOT_NULL(strstr(at.log, "TLS: client CA file"));
                CU_ASSERT_PTR_NOT_NULL(strstr(at.log, cases[i].path));
                CU_ASSERT_EQUAL(weir_stream_server_port(at.server), -EDOM);
                end();
        }
}

/* -- SIGHUP -- */

static char address[32]; /* a socket that listens */
static pthread_t server;
static atomic_bool is_refused; /* what SIGHUP makes it read */

static void
hear(enum weir_log_level level, const char *message, void *unused)
{
        (void)level, (void)unused;
        if (strstr(message, "SIGHUP: the files of TLS are not used"))
                is_refused = true;
}

static void *
serve_main(void *unused)
{
        (void)unused;
        CU_ASSERT_EQUAL(weir_stream_serve_with(&at.config, address, echo, &at), 0);
        return NULL;
}

static void
begin_to_serve(void)
{
        struct sockaddr_in name = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        socklen_t size = sizeof name;
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

        CU_ASSERT_EQUAL_FATAL(bind(fd, (struct sockaddr *)&name, size), 0);
        CU_ASSERT_EQUAL_FATAL(listen(fd, 16), 0);
        CU_ASSERT_EQUAL_FATAL(getsockname(fd, (struct sockaddr *)&name, &size), 0);
        at.port = ntohs(name.sin_port);
        snprintf(address, sizeof address, "fd:%d", fd);
        weir_test_begin_real(2);
        CU_ASSERT_EQUAL(weir_log_set(hear, NULL), 0);
        CU_ASSERT_EQUAL_FATAL(pthread_create(&server, NULL, serve_main, NULL), 0);
}

static void
end_to_serve(void)
{
        CU_ASSERT_EQUAL(kill(getpid(), SIGTERM), 0);
        CU_ASSERT_EQUAL(pthread_join(server, NULL), 0);
        end();
}

static SSL *
connect_to_it(void)
{
        SSL *client = tls_connect(at.port, &(struct tls_client_wish){0});

        CU_ASSERT_PTR_NOT_NULL_FATAL(client);
        return client;
}

static bool
echoes(SSL *client)
{
        char room[8] = "";

        return tls_send(client, "hello", 5) && SSL_read(client, room, sizeof room) == 5 && strcmp(room, "hello") == 0;
}

/* Whether a new client is served with the certificate of that name. */
static bool
shows(const char *name)
{
        SSL *client = connect_to_it();
        bool is = strcmp(tls_server_shown(client), name) == 0;

        CU_ASSERT_TRUE(echoes(client));
        tls_hang_up(client);
        return is;
}

static void
sighup_brings_a_new_certificate_to_new_connections(void)
{
        tls_make_certificate("renewed", &(struct tls_wish){.common_name = "first", .key = TLS_EC});
        prepare();
        at.config.certificate_file = tls_path("renewed.pem");
        at.config.private_key_file = tls_path("renewed.key");
        begin_to_serve();
        SSL *old = connect_to_it();
        CU_ASSERT_STRING_EQUAL(tls_server_shown(old), "first");
        CU_ASSERT_TRUE(echoes(old));
        tls_make_certificate("renewed", &(struct tls_wish){.common_name = "second", .key = TLS_EC});
        CU_ASSERT_TRUE(shows("first")); /* until the signal */
        CU_ASSERT_EQUAL(kill(getpid(), SIGHUP), 0);
        WEIR_TEST_EVENTUALLY(shows("second"));
        CU_ASSERT_TRUE(echoes(old));
        tls_write_file("renewed.pem", "nonsense", 8);
        CU_ASSERT_EQUAL(kill(getpid(), SIGHUP), 0);
        WEIR_TEST_EVENTUALLY(is_refused);
        CU_ASSERT_TRUE(shows("second")); /* the former one stays */
        CU_ASSERT_TRUE(echoes(old));
        tls_hang_up(old);
        end_to_serve();
}

/* It ends the program, unless that uses it. */
static void
sighup_is_left_alone_where_there_are_no_files(void)
{
        struct sigaction before, during;

        sigaction(SIGHUP, NULL, &before);
        prepare();
        begin_to_serve();
        int fd = dial();
        CU_ASSERT_TRUE(is_echoed(fd, "hello"));
        sigaction(SIGHUP, NULL, &during);
        CU_ASSERT(during.sa_handler == before.sa_handler);
        close(fd);
        end_to_serve();
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(clients_show_a_certificate_of_the_authority),
                WEIR_TEST(another_authority_comes_with_a_reload),
                WEIR_TEST(a_stream_may_have_no_certificate_to_show),
                WEIR_TEST(files_that_cannot_be_used_are_named),
                WEIR_TEST(sighup_brings_a_new_certificate_to_new_connections),
                WEIR_TEST(sighup_is_left_alone_where_there_are_no_files),
        };

        tls_files_begin();
        tls_make_certificate("server", &(struct tls_wish){.key = TLS_EC});
        tls_make_certificate("authority", &(struct tls_wish){.key = TLS_EC});
        tls_make_certificate("other", &(struct tls_wish){.key = TLS_EC});
        tls_make_certificate("alice", &(struct tls_wish){.issuer = "authority", .key = TLS_EC});
        tls_make_certificate("expired",
                             &(struct tls_wish){.issuer = "authority", .key = TLS_EC, .begins_in = -7200, .ends_in = -60});
        tls_make_certificate("mallory", &(struct tls_wish){.issuer = "other", .key = TLS_EC});
        int result = weir_test_main("stream_server_tls", tests, sizeof tests / sizeof *tests);
        tls_files_end();
        return result;
}
