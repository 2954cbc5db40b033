/* test/stream_tls_test.c: streams with TLS: connects, and handshakes that begin later. */
#include "test/fixture.h"
#include "test/tls_peer.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "net/stream/stream.h"

static weir_stream *client, *server;

static void
start(weir_task *task)
{
        CU_ASSERT_EQUAL(weir_task_start(task), 0);
}

/* Bytes between the two are no deadline, so the clock is asked again and again. */
#define BECOMES(condition) WEIR_TEST_EVENTUALLY((weir_test_pass(0), (condition)))

static void
begin(void)
{
        int ends[2];

        CU_ASSERT_EQUAL_FATAL(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
        weir_test_begin_virtual();
        client = weir_stream_of(ends[0]);
        server = weir_stream_of(ends[1]);
}

static void
end(void)
{
        weir_stream_unref(client);
        weir_stream_unref(server);
        weir_test_end();
}

static weir_tls *
settings_of_client(void)
{
        struct weir_tls_config config = WEIR_TLS_CONFIG_DEFAULT;

        config.ca_file = tls_path("ca.pem");
        return weir_tls_client_new(&config);
}

static weir_tls *
settings_of_server(void)
{
        struct weir_tls_config config = WEIR_TLS_CONFIG_DEFAULT;

        config.certificate_file = tls_path("server.pem");
        config.private_key_file = tls_path("server.key");
        return weir_tls_server_new(&config);
}

static weir_task *
start_tls(weir_stream *stream, weir_tls *tls, const char *name, struct weir_test_record *record)
{
        return weir_test_recorded(weir_stream_start_tls_new(stream, tls, name, weir_test_done, record));
}

struct seen {
        struct weir_test_record record;
        char text[64];
};

static void
see(weir_task *read, void *context)
{
        struct seen *seen = context;

        snprintf(seen->text, sizeof seen->text, "%s", (const char *)weir_stream_data(read, NULL));
        weir_test_note(&seen->record, weir_task_status(read));
}

static void
tls_begins_behind_plain_bytes(void)
{
        struct weir_test_record hello = {0}, theirs = {0}, ours = {0}, again = {0}, large = {0};
        struct seen plain = {0}, secret = {0}, whole = {0}, last = {0};
        weir_tls *of_client = settings_of_client(), *of_server = settings_of_server();
        size_t size = 1 << 20;
        char *bytes = malloc(size);

        begin();
        start(weir_test_recorded(weir_stream_write_new(server, "220 ready\r\n", 11, weir_test_done, &hello)));
        start(weir_test_recorded(weir_stream_read_until_new(client, "\r\n", 2, 100, see, &plain)));
        BECOMES(plain.record.frees);
        CU_ASSERT_STRING_EQUAL(plain.text, "220 ready\r\n");
        start(start_tls(server, of_server, NULL, &theirs));
        start(start_tls(client, of_client, "server.example", &ours));
        BECOMES(theirs.frees && ours.frees);
        WEIR_TEST_CALLED(&theirs, 0);
        WEIR_TEST_CALLED(&ours, 0);
        start(weir_test_recorded(weir_stream_read_new(client, 6, 6, see, &secret)));
        start(weir_stream_write_new(server, "secret", 6, NULL, NULL));
        BECOMES(secret.record.frees);
        CU_ASSERT_STRING_EQUAL(secret.text, "secret");
        memset(bytes, 'x', size);
        start(weir_test_recorded(weir_stream_write_new(client, bytes, size, weir_test_done, &large)));
        start(weir_test_recorded(weir_stream_read_new(server, size, size, see, &whole)));
        BECOMES(large.frees && whole.record.frees);
        WEIR_TEST_CALLED(&large, 0);
        WEIR_TEST_CALLED(&whole.record, 0);
        start(start_tls(client, of_client, "server.example", &again));
        BECOMES(again.frees);
        WEIR_TEST_CALLED(&again, -EALREADY);
        start(weir_stream_finish_new(client, NULL, NULL));
        start(weir_test_recorded(weir_stream_read_new(server, 1, 1, see, &last)));
        BECOMES(last.record.frees);
        WEIR_TEST_CALLED(&last.record, -EPIPE);
        weir_tls_unref(of_client);
        weir_tls_unref(of_server);
        free(bytes);
        end();
}

/* CVE-2011-0411: what a stranger put behind STARTTLS must not be taken for protected. */
static void
bytes_before_the_handshake_are_refused(void)
{
        struct weir_test_record ours = {0};
        struct seen plain = {0};
        weir_tls *of_server = settings_of_server();

        begin();
        start(weir_stream_write_new(client, "STARTTLS\r\nRCPT TO:<mallory>\r\n", 29, NULL, NULL));
        start(weir_test_recorded(weir_stream_read_until_new(server, "\r\n", 2, 100, see, &plain)));
        BECOMES(plain.record.frees);
        start(start_tls(server, of_server, NULL, &ours));
        BECOMES(ours.frees);
        WEIR_TEST_CALLED(&ours, -EBADMSG);
        weir_tls_unref(of_server);
        end();
}

static void
obstacles_are_named(void)
{
        struct weir_test_record busy = {0}, refused = {0}, pipe_record = {0};
        struct seen waiting = {0};
        weir_tls *of_client = settings_of_client(), *broken = weir_tls_server_new(NULL);
        struct weir_tls_config config = WEIR_TLS_CONFIG_DEFAULT;
        int ends[2];

        begin();
        start(weir_test_recorded(weir_stream_read_new(client, 1, 1, see, &waiting)));
        start(start_tls(client, of_client, "server.example", &busy));
        BECOMES(busy.frees);
        WEIR_TEST_CALLED(&busy, -EBUSY);
        CU_ASSERT_EQUAL(weir_task_start(start_tls(server, of_client, NULL, &refused)), -EINVAL);
        CU_ASSERT_EQUAL(weir_task_start(start_tls(server, NULL, NULL, &refused)), -ENOMEM);
        CU_ASSERT_EQUAL(weir_task_start(start_tls(NULL, of_client, "x", &refused)), -ENOMEM);
        refused = (struct weir_test_record){0};
        start(start_tls(server, broken, NULL, &refused));
        BECOMES(refused.frees);
        WEIR_TEST_CALLED(&refused, -EINVAL);
        config.ca_file = "/nowhere/ca.pem";
        weir_tls *lost = weir_tls_client_new(&config);
        refused = (struct weir_test_record){0};
        start(start_tls(server, lost, "x", &refused));
        BECOMES(refused.frees);
        WEIR_TEST_CALLED(&refused, -ENOENT);
        CU_ASSERT_EQUAL_FATAL(pipe2(ends, O_CLOEXEC), 0);
        weir_stream *odd = weir_stream_of(ends[0]);
        start(start_tls(odd, of_client, "x", &pipe_record));
        BECOMES(pipe_record.frees);
        WEIR_TEST_CALLED(&pipe_record, -ENOTSUP);
        weir_stream_unref(odd);
        close(ends[1]);
        weir_stream_break(client);
        BECOMES(waiting.record.frees);
        weir_tls_unref(of_client);
        weir_tls_unref(broken);
        weir_tls_unref(lost);
        weir_tls_unref(NULL);
        CU_ASSERT_PTR_NULL(weir_tls_ref(NULL));
        end();
}

static void
a_cancelled_handshake_breaks_the_stream(void)
{
        struct weir_test_record ours = {0};
        struct seen seen = {0};
        weir_tls *of_client = settings_of_client();
        weir_series *series = weir_series_ref(weir_series_new(NULL, NULL));

        begin();
        weir_series_push(series, start_tls(client, of_client, "server.example", &ours));
        weir_series_set_deadline(series, WEIR_SEC(2));
        weir_series_start(series);
        weir_test_pass(WEIR_SEC(2)); /* nobody answers */
        WEIR_TEST_CALLED(&ours, -ETIMEDOUT);
        start(weir_test_recorded(weir_stream_read_new(client, 1, 1, see, &seen)));
        weir_test_pass(0);
        WEIR_TEST_CALLED(&seen.record, -ECONNABORTED);
        weir_tls_unref(of_client);
        weir_series_unref(series);
        end();
}

/* -- the end of a side -- */

static bool
is_full(int fd)
{
        int room = 0, size = 0;
        socklen_t length = sizeof room;

        CU_ASSERT_EQUAL(getsockopt(fd, SOL_SOCKET, SO_SNDBUF, &room, &length), 0);
        CU_ASSERT_EQUAL(ioctl(fd, SIOCOUTQ, &size), 0);
        return size >= room;
}

/* Two ends that have shaken hands.  The client's writes are all out, and its socket has no room.  Returns how many bytes they
 * were. */
static unsigned
begin_full(void)
{
        struct weir_test_record ours = {0}, theirs = {0};
        weir_tls *of_client = settings_of_client(), *of_server = settings_of_server();
        int ends[2], room = 4096;
        unsigned count = 0;

        CU_ASSERT_EQUAL_FATAL(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
        CU_ASSERT_EQUAL(setsockopt(ends[0], SOL_SOCKET, SO_SNDBUF, &room, sizeof room), 0);
        weir_test_begin_virtual();
        client = weir_stream_of(ends[0]);
        server = weir_stream_of(ends[1]);
        start(start_tls(server, of_server, NULL, &theirs));
        start(start_tls(client, of_client, "server.example", &ours));
        BECOMES(ours.frees && theirs.frees);
        for (; !is_full(ends[0]); count++) {
                struct weir_test_record written = {0};

                start(weir_test_recorded(weir_stream_write_new(client, "x", 1, weir_test_done, &written)));
                BECOMES(written.frees);
                CU_ASSERT_EQUAL(written.status, 0);
        }
        weir_tls_unref(of_client);
        weir_tls_unref(of_server);
        return count;
}

/* The server reads what there is.  Returns the status of the read behind it. */
static int
read_to_the_end(unsigned count)
{
        struct seen all = {0}, last = {0};

        start(weir_test_recorded(weir_stream_read_new(server, count, count, see, &all)));
        start(weir_test_recorded(weir_stream_read_new(server, 1, 1, see, &last)));
        BECOMES(last.record.frees);
        CU_ASSERT_EQUAL(all.record.status, 0);
        return last.record.status;
}

/* Without the words for it the peer would take the end for one that somebody has cut. */
static void
a_finish_waits_until_the_peer_can_be_told(void)
{
        struct weir_test_record finished = {0}, late = {0};
        unsigned count = begin_full();

        start(weir_test_recorded(weir_stream_finish_new(client, weir_test_done, &finished)));
        start(weir_test_recorded(weir_stream_write_new(client, "y", 1, weir_test_done, &late)));
        BECOMES(late.frees);
        CU_ASSERT_EQUAL(late.status, -EPIPE);
        CU_ASSERT_EQUAL(finished.calls, 0);
        CU_ASSERT_EQUAL(read_to_the_end(count), -EPIPE);
        BECOMES(finished.frees);
        WEIR_TEST_CALLED(&finished, 0);
        end();
}

static void
a_close_waits_until_the_peer_can_be_told(void)
{
        unsigned count = begin_full();

        weir_stream_unref(client);
        client = NULL;
        weir_test_pass(0);
        CU_ASSERT_EQUAL(read_to_the_end(count), -EPIPE);
        end();
}

static void
a_finish_that_is_half_out_breaks_the_stream_when_it_is_cancelled(void)
{
        struct weir_test_record finished = {0};
        struct seen seen = {0};
        weir_series *series = weir_series_ref(weir_series_new(NULL, NULL));

        begin_full();
        weir_series_push(series, weir_test_recorded(weir_stream_finish_new(client, weir_test_done, &finished)));
        weir_series_start(series);
        weir_test_pass(0);
        weir_series_cancel(series);
        weir_test_pass(0);
        WEIR_TEST_CALLED(&finished, -ECANCELED);
        start(weir_test_recorded(weir_stream_read_new(client, 1, 1, see, &seen)));
        weir_test_pass(0);
        WEIR_TEST_CALLED(&seen.record, -ECONNABORTED);
        weir_series_unref(series);
        end();
}

/* -- connect -- */

static int listener;
static char address[64];
static weir_tls *of_server;

struct connected {
        struct weir_test_record record;
        weir_stream *stream;
        char problem[256];
};

static void
take(weir_task *connect, void *context)
{
        struct connected *connected = context;
        const char *problem = weir_connect_problem(connect);

        connected->stream = weir_connect_take_stream(connect);
        snprintf(connected->problem, sizeof connected->problem, "%s", problem ? problem : "");
        weir_test_note(&connected->record, weir_task_status(connect));
}

static void
listen_here(void)
{
        struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        socklen_t size = sizeof in;

        listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        CU_ASSERT_EQUAL_FATAL(bind(listener, (struct sockaddr *)&in, size), 0);
        CU_ASSERT_EQUAL_FATAL(listen(listener, 16), 0);
        CU_ASSERT_EQUAL_FATAL(getsockname(listener, (struct sockaddr *)&in, &size), 0);
        snprintf(address, sizeof address, "127.0.0.1:%u", ntohs(in.sin_port));
}

/* Connects, and has the server's side shake hands, if it is to speak TLS.  Both streams stay. */
static void
meet(weir_task *task, struct connected *connected, bool speaks_tls)
{
        struct weir_test_record theirs = {0};
        int fd = -1;

        start(weir_test_recorded(task));
        BECOMES(fd >= 0 || (fd = accept(listener, NULL, NULL)) >= 0);
        server = weir_stream_of(fd);
        start(speaks_tls ? start_tls(server, of_server, NULL, &theirs)
                         : weir_test_recorded(weir_stream_write_new(server, "220 plain\r\n", 11, weir_test_done, &theirs)));
        BECOMES(connected->record.frees && theirs.frees);
}

static void
part(struct connected *connected)
{
        weir_stream_unref(server);
        weir_stream_unref(connected->stream);
}

static void
connect_as(weir_task *task, struct connected *connected, bool speaks_tls)
{
        meet(task, connected, speaks_tls);
        part(connected);
}

static void
certificates_are_checked(void)
{
        struct weir_tls_config config = WEIR_TLS_CONFIG_DEFAULT;
        weir_tls *of_client = settings_of_client();

        weir_test_begin_virtual();
        listen_here();
        of_server = settings_of_server();
        struct connected good = {0}, wrong = {0}, unknown = {0}, trusting = {0}, plain = {0};
        connect_as(weir_connect_tls_new(address, of_client, "server.example", take, &good), &good, true);
        WEIR_TEST_CALLED(&good.record, 0);
        CU_ASSERT_STRING_EQUAL(good.problem, "");
        connect_as(weir_connect_tls_new(address, of_client, NULL, take, &wrong), &wrong, true);
        WEIR_TEST_CALLED(&wrong.record, WEIR_ETLS_NAME);
        CU_ASSERT_PTR_NOT_NULL(strstr(wrong.problem, "server.example"));
        char text[80];
        snprintf(text, sizeof text, "tls:%s", address);
        connect_as(weir_connect_new(text, take, &unknown), &unknown, true); /* the system does not know our authority */
        CU_ASSERT(unknown.record.calls == 1 && unknown.record.status < -1000);
        config.insecure = true;
        weir_tls *insecure = weir_tls_client_new(&config);
        connect_as(weir_connect_tls_new(address, insecure, "any.example", take, &trusting), &trusting, true);
        WEIR_TEST_CALLED(&trusting.record, 0);
        connect_as(weir_connect_tls_new(address, of_client, "server.example", take, &plain), &plain, false);
        WEIR_TEST_CALLED(&plain.record, WEIR_ETLS_PLAIN);
        struct connected refused = {0};
        CU_ASSERT_EQUAL(weir_task_start(weir_connect_tls_new(address, NULL, NULL, take, &refused)), -ENOMEM);
        CU_ASSERT_EQUAL(weir_task_start(weir_connect_tls_new(address, of_server, NULL, take, &refused)), -EINVAL);
        CU_ASSERT_EQUAL(weir_task_start(weir_connect_tls_new("unix:/x", of_client, NULL, take, &refused)), -EINVAL);
        CU_ASSERT_EQUAL(refused.record.calls, 0);
        weir_tls_unref(of_client);
        weir_tls_unref(of_server);
        weir_tls_unref(insecure);
        close(listener);
        weir_test_end();
}

/* Two ends with these settings shake hands.  Returns the status of the client's. */
static int
shake_with(const struct weir_tls_config *of_ours, const struct weir_tls_config *of_theirs)
{
        struct weir_test_record ours = {0}, theirs = {0};
        weir_tls *mine = weir_tls_client_new(of_ours), *its = weir_tls_server_new(of_theirs);

        begin();
        start(start_tls(client, mine, "server.example", &ours));
        start(start_tls(server, its, NULL, &theirs));
        BECOMES(ours.frees && theirs.frees);
        weir_tls_unref(mine);
        weir_tls_unref(its);
        return ours.status;
}

static struct weir_tls_config
config_of(bool is_client)
{
        struct weir_tls_config config = WEIR_TLS_CONFIG_DEFAULT;

        config.ca_file = is_client ? tls_path("ca.pem") : NULL;
        config.certificate_file = is_client ? NULL : tls_path("server.pem");
        config.private_key_file = is_client ? NULL : tls_path("server.key");
        return config;
}

static void
both_sides_know_the_protocol(void)
{
        struct weir_tls_config ours = config_of(true), theirs = config_of(false);
        char text[16];

        ours.protocols = "chat/2,chat/1";
        theirs.protocols = "chat/1";
        CU_ASSERT_EQUAL(shake_with(&ours, &theirs), 0);
        CU_ASSERT_EQUAL(weir_stream_protocol(client, text, sizeof text), 6);
        CU_ASSERT_STRING_EQUAL(text, "chat/1");
        CU_ASSERT_EQUAL(weir_stream_protocol(server, text, 5), 6);
        CU_ASSERT_STRING_EQUAL(text, "chat");
        CU_ASSERT_EQUAL(weir_stream_protocol(server, NULL, 0), 6);
        weir_stream_break(client);
        weir_test_pass(0);
        CU_ASSERT_EQUAL(weir_stream_protocol(client, text, sizeof text), -ENOTCONN);
        CU_ASSERT_EQUAL(weir_stream_protocol(NULL, text, sizeof text), -ENOMEM);
        end();
        theirs.protocols = NULL;
        CU_ASSERT_EQUAL(shake_with(&ours, &theirs), 0);
        CU_ASSERT_EQUAL(weir_stream_protocol(client, text, sizeof text), -ENODATA);
        end();
}

static void
versions_and_groups_are_those_of_the_settings(void)
{
        static const struct {
                const char *version, *groups, *their_version, *their_groups;
                int status;
        } cases[] = {
                {"1.2", NULL, "1.3", NULL, 0},
                {"1.3", "P-384", NULL, "X25519:P-384", 0},
                {NULL, "X25519", NULL, "P-256", -EPROTO},
                {"1.1", NULL, NULL, NULL, -EINVAL},
                {NULL, "P-1", NULL, NULL, -EINVAL},
        };
        struct weir_tls_config ours = config_of(true), theirs = config_of(false);

        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
                ours.min_version = cases[i].version;
                ours.groups = cases[i].groups;
                theirs.min_version = cases[i].their_version;
                theirs.groups = cases[i].their_groups;
                struct weir_test_record record = {0};
                if (cases[i].status != -EINVAL) {
                        CU_ASSERT_EQUAL(shake_with(&ours, &theirs), cases[i].status);
                        end();
                        continue;
                }
                weir_tls *wrong = weir_tls_client_new(&ours);
                begin();
                start(start_tls(client, wrong, "server.example", &record));
                BECOMES(record.frees);
                WEIR_TEST_CALLED(&record, -EINVAL);
                end();
                weir_tls_unref(wrong);
        }
}

static void
a_refused_certificate_ends_the_first_read(void)
{
        struct weir_tls_config ours = config_of(true), theirs = config_of(false);

        theirs.ca_file = tls_path("ca.pem");
        for (unsigned i = 0; i < 3; i++) { /* none, one of another authority, a good one */
                const int expected = i == 2 ? 0 : WEIR_ETLS_REFUSED;
                struct seen seen = {0};
                char subject[32];

                ours.certificate_file = i ? tls_path(i == 2 ? "alice.pem" : "lonely.pem") : NULL;
                ours.private_key_file = i ? tls_path(i == 2 ? "alice.key" : "lonely.key") : NULL;
                CU_ASSERT_EQUAL(shake_with(&ours, &theirs), 0); /* TLS 1.3 */
                start(weir_test_recorded(weir_stream_read_new(client, 1, 1, see, &seen)));
                start(weir_stream_write_new(server, "x", 1, NULL, NULL));
                BECOMES(seen.record.frees);
                WEIR_TEST_CALLED(&seen.record, expected);
                if (i == 2) {
                        CU_ASSERT(weir_stream_peer_certificate(server, subject, sizeof subject) > 0);
                        CU_ASSERT_STRING_EQUAL(subject, "CN=alice,O=weir");
                }
                end();
        }
}

/* The server is of OpenSSL alone, with one version. */
static int
ask_for_1_3(int version)
{
        struct weir_tls_config ours = config_of(true);
        struct weir_test_record record = {0};
        SSL_CTX *ssl_ctx = SSL_CTX_new(TLS_server_method());
        int ends[2];

        ours.min_version = "1.3";
        weir_tls *mine = weir_tls_client_new(&ours);
        SSL_CTX_set_max_proto_version(ssl_ctx, version);
        CU_ASSERT_EQUAL(SSL_CTX_use_certificate_chain_file(ssl_ctx, tls_path("server.pem")), 1);
        CU_ASSERT_EQUAL(SSL_CTX_use_PrivateKey_file(ssl_ctx, tls_path("server.key"), SSL_FILETYPE_PEM), 1);
        CU_ASSERT_EQUAL_FATAL(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
        SSL *ssl = SSL_new(ssl_ctx);
        SSL_set_fd(ssl, ends[1]);
        fcntl(ends[1], F_SETFL, O_NONBLOCK);
        weir_test_begin_virtual();
        client = weir_stream_of(ends[0]);
        start(start_tls(client, mine, "server.example", &record));
        BECOMES(((void)SSL_accept(ssl), record.frees));
        weir_stream_unref(client);
        weir_test_end();
        SSL_free(ssl);
        close(ends[1]);
        SSL_CTX_free(ssl_ctx);
        weir_tls_unref(mine);
        return record.status;
}

static void
an_older_version_is_refused(void)
{
        CU_ASSERT_EQUAL(ask_for_1_3(TLS1_3_VERSION), 0);
        CU_ASSERT_EQUAL(ask_for_1_3(TLS1_2_VERSION), -EPROTO);
}

static _Atomic unsigned warnings;

static void
count_warnings(enum weir_log_level level, const char *message, void *host)
{
        warnings += level == WEIR_LOG_WARNING && strstr(message, host) && strstr(message, "insecure");
}

static void
what_is_not_checked_is_said_once(void)
{
        static char host[] = "\"first.example\"";
        struct weir_tls_config config = WEIR_TLS_CONFIG_DEFAULT;

        config.insecure = true;
        CU_ASSERT_EQUAL(weir_log_set(count_warnings, host), 0);
        weir_test_begin_virtual();
        listen_here();
        of_server = settings_of_server();
        for (unsigned i = 1; i <= 2; i++) {
                weir_tls *insecure = weir_tls_client_new(&config);
                struct connected first = {0}, second = {0};

                CU_ASSERT_EQUAL(warnings, i - 1); /* not before they are used */
                connect_as(weir_connect_tls_new(address, insecure, "first.example", take, &first), &first, true);
                connect_as(weir_connect_tls_new(address, insecure, "first.example", take, &second), &second, true);
                CU_ASSERT_EQUAL(warnings, i);
                weir_tls_unref(insecure);
        }
        weir_tls_unref(of_server);
        close(listener);
        weir_test_end();
        CU_ASSERT_EQUAL(weir_log_set(NULL, NULL), 0);
}

/* -- sessions -- */

/* Connects, reads a byte, and with it the tickets.  Returns whether a session was resumed, as both sides see it. */
static bool
is_resumed_by(weir_tls *of_client, const char *name)
{
        struct connected connected = {0};
        struct seen seen = {0};

        meet(weir_connect_tls_new(address, of_client, name, take, &connected), &connected, true);
        CU_ASSERT_EQUAL(connected.record.status, 0);
        start(weir_test_recorded(weir_stream_read_new(connected.stream, 1, 1, see, &seen)));
        start(weir_stream_write_new(server, "x", 1, NULL, NULL));
        BECOMES(seen.record.frees);
        bool is_resumed = weir_stream_is_resumed(connected.stream);
        CU_ASSERT_EQUAL(weir_stream_is_resumed(server), is_resumed);
        part(&connected);
        return is_resumed;
}

static void
later_connections_resume_the_session(void)
{
        weir_tls *of_client = settings_of_client(), *others = settings_of_client();
        struct connected plain = {0};

        weir_test_begin_virtual();
        listen_here();
        of_server = settings_of_server();
        CU_ASSERT_FALSE(is_resumed_by(of_client, "server.example"));
        CU_ASSERT_TRUE(is_resumed_by(of_client, "server.example"));
        CU_ASSERT_TRUE(is_resumed_by(of_client, "server.example"));
        CU_ASSERT_FALSE(is_resumed_by(of_client, "other.example"));
        CU_ASSERT_FALSE(is_resumed_by(others, "server.example"));
        CU_ASSERT_EQUAL(weir_clock_set_wall(weir_wall_now() + (weir_nsec)8 * 24 * 3600 * WEIR_SEC(1)), 0);
        CU_ASSERT_FALSE(is_resumed_by(of_client, "server.example")); /* it has expired */
        meet(weir_connect_new(address, take, &plain), &plain, false);
        CU_ASSERT_FALSE(weir_stream_is_resumed(plain.stream));
        CU_ASSERT_FALSE(weir_stream_is_resumed(NULL));
        weir_stream_break(plain.stream);
        weir_test_pass(0);
        CU_ASSERT_FALSE(weir_stream_is_resumed(plain.stream));
        part(&plain);
        weir_tls_unref(of_client);
        weir_tls_unref(others);
        weir_tls_unref(of_server);
        close(listener);
        weir_test_end();
}

static void
a_start_of_tls_resumes_a_session(void)
{
        weir_tls *of_client = settings_of_client();

        weir_test_begin_virtual();
        listen_here();
        of_server = settings_of_server();
        for (int i = 0; i < 2; i++) {
                struct connected connected = {0};
                struct weir_test_record ours = {0}, theirs = {0};
                struct seen seen = {0};

                meet(weir_connect_new(address, take, &connected), &connected, false);
                start(weir_test_recorded(weir_stream_read_until_new(connected.stream, "\r\n", 2, 100, see, &seen)));
                BECOMES(seen.record.frees);
                start(start_tls(server, of_server, NULL, &theirs));
                start(start_tls(connected.stream, of_client, "server.example", &ours));
                BECOMES(ours.frees && theirs.frees);
                CU_ASSERT_EQUAL(weir_stream_is_resumed(connected.stream), i == 1);
                seen = (struct seen){0};
                start(weir_test_recorded(weir_stream_read_new(connected.stream, 1, 1, see, &seen)));
                start(weir_stream_write_new(server, "x", 1, NULL, NULL));
                BECOMES(seen.record.frees);
                part(&connected);
        }
        weir_tls_unref(of_client);
        weir_tls_unref(of_server);
        close(listener);
        weir_test_end();
}

/* -- the end, while the socket of the server's side is full -- */

#define WRITTEN ((size_t)32 * 1024) /* bytes */

static int full_fd; /* of `server` */

/* A Unix socket has no room as soon as it holds more than its limit.  One of TCP may add to a segment. */
static void
begin_with_tls(void)
{
        struct weir_test_record ours = {0}, theirs = {0};
        weir_tls *of_client = settings_of_client(), *its = settings_of_server();

        begin();
        full_fd = server->transport.stream.source.fd;
        start(start_tls(client, of_client, "server.example", &ours));
        start(start_tls(server, its, NULL, &theirs));
        BECOMES(ours.frees && theirs.frees);
        CU_ASSERT(ours.status == 0 && theirs.status == 0);
        weir_tls_unref(of_client);
        weir_tls_unref(its);
}

/* The server writes, and then its socket has no room left, not even for a close_notify. */
static void
fill(void)
{
        static const char bytes[WRITTEN];
        struct weir_test_record written = {0};
        int least = 1;

        start(weir_test_recorded(weir_stream_write_new(server, bytes, sizeof bytes, weir_test_done, &written)));
        BECOMES(written.frees);
        WEIR_TEST_CALLED(&written, 0);
        CU_ASSERT_EQUAL(setsockopt(full_fd, SOL_SOCKET, SO_SNDBUF, &least, sizeof least), 0);
        CU_ASSERT_EQUAL_FATAL(poll(&(struct pollfd){.fd = full_fd, .events = POLLOUT}, 1, 0), 0);
}

/* The client reads all, and then the end.  Returns how that looks. */
static int
end_of_all(void)
{
        struct seen all = {0}, last = {0};

        start(weir_test_recorded(weir_stream_read_new(client, WRITTEN, WRITTEN, see, &all)));
        BECOMES(all.record.frees);
        WEIR_TEST_CALLED(&all.record, 0);
        start(weir_test_recorded(weir_stream_read_new(client, 1, 1, see, &last)));
        BECOMES(last.record.frees);
        return last.record.status;
}

static void
an_end_of_writing_waits_for_room(void)
{
        struct weir_test_record finished = {0}, late = {0};
        struct seen heard = {0};

        begin_with_tls();
        fill();
        start(weir_test_recorded(weir_stream_finish_new(server, weir_test_done, &finished)));
        start(weir_test_recorded(weir_stream_write_new(server, "x", 1, weir_test_done, &late)));
        BECOMES(late.frees);
        WEIR_TEST_CALLED(&late, -EPIPE);
        CU_ASSERT_EQUAL(finished.calls, 0);
        CU_ASSERT_EQUAL(end_of_all(), -EPIPE);
        BECOMES(finished.frees);
        WEIR_TEST_CALLED(&finished, 0);
        start(weir_test_recorded(weir_stream_read_new(server, 4, 4, see, &heard)));
        start(weir_stream_write_new(client, "more", 4, NULL, NULL));
        BECOMES(heard.record.frees);
        CU_ASSERT_STRING_EQUAL(heard.text, "more");
        end();
}

static void
a_cancelled_end_that_waits_for_room_breaks_the_stream(void)
{
        struct weir_test_record finished = {0}, late = {0};
        weir_series *series = weir_series_ref(weir_series_new(NULL, NULL));

        begin_with_tls();
        fill();
        weir_series_push(series, weir_test_recorded(weir_stream_finish_new(server, weir_test_done, &finished)));
        weir_series_set_deadline(series, WEIR_SEC(2));
        weir_series_start(series);
        weir_test_pass(WEIR_SEC(2));
        BECOMES(finished.frees);
        WEIR_TEST_CALLED(&finished, -ETIMEDOUT);
        start(weir_test_recorded(weir_stream_write_new(server, "x", 1, weir_test_done, &late)));
        BECOMES(late.frees);
        WEIR_TEST_CALLED(&late, -ECONNABORTED);
        weir_series_unref(series);
        end();
}

static void
a_closed_stream_sends_its_end_when_there_is_room(void)
{
        for (int has_ended = 0; has_ended < 2; has_ended++) {
                struct weir_test_record finished = {0};
                struct seen seen = {0};

                begin_with_tls();
                fill();
                if (has_ended) {
                        start(weir_test_recorded(weir_stream_finish_new(client, weir_test_done, &finished)));
                        start(weir_test_recorded(weir_stream_read_new(server, 1, 1, see, &seen)));
                        BECOMES(finished.frees && seen.record.frees);
                        WEIR_TEST_CALLED(&seen.record, -EPIPE);
                }
                weir_stream_unref(server);
                server = NULL;
                weir_test_pass(WEIR_SEC(20));
                CU_ASSERT_EQUAL(end_of_all(), -EPIPE);
                end();
        }
}

static void
an_end_that_found_no_room_in_time_is_no_orderly_one(void)
{
        begin_with_tls();
        fill();
        weir_stream_unref(server);
        server = NULL;
        weir_test_pass(WEIR_SEC(30));
        BECOMES(fcntl(full_fd, F_GETFD) < 0);
        CU_ASSERT_EQUAL(end_of_all(), -ECONNABORTED);
        end();
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(tls_begins_behind_plain_bytes),
                WEIR_TEST(bytes_before_the_handshake_are_refused),
                WEIR_TEST(obstacles_are_named),
                WEIR_TEST(a_cancelled_handshake_breaks_the_stream),
                WEIR_TEST(certificates_are_checked),
                WEIR_TEST(both_sides_know_the_protocol),
                WEIR_TEST(versions_and_groups_are_those_of_the_settings),
                WEIR_TEST(a_refused_certificate_ends_the_first_read),
                WEIR_TEST(an_older_version_is_refused),
                WEIR_TEST(what_is_not_checked_is_said_once),
                WEIR_TEST(later_connections_resume_the_session),
                WEIR_TEST(a_start_of_tls_resumes_a_session),
                WEIR_TEST(a_finish_waits_until_the_peer_can_be_told),
                WEIR_TEST(a_close_waits_until_the_peer_can_be_told),
                WEIR_TEST(a_finish_that_is_half_out_breaks_the_stream_when_it_is_cancelled),
                WEIR_TEST(an_end_of_writing_waits_for_room),
                WEIR_TEST(a_cancelled_end_that_waits_for_room_breaks_the_stream),
                WEIR_TEST(a_closed_stream_sends_its_end_when_there_is_room),
                WEIR_TEST(an_end_that_found_no_room_in_time_is_no_orderly_one),
        };

        tls_files_begin();
        tls_make_certificate("ca", &(struct tls_wish){.key = TLS_EC});
        tls_make_certificate(
                "server",
                &(struct tls_wish){.alternative_names = "DNS:server.example,DNS:other.example", .issuer = "ca", .key = TLS_EC});
        tls_make_certificate("alice", &(struct tls_wish){.issuer = "ca", .key = TLS_EC});
        tls_make_certificate("lonely", &(struct tls_wish){.key = TLS_EC});
        int result = weir_test_main("stream_tls", tests, sizeof tests / sizeof *tests);
        tls_files_end();
        return result;
}
