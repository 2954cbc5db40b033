/* test/tls_server_test.c: the HTTP server over TLS. */
#include <netinet/in.h>
#include <poll.h>
#include <stdatomic.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include "server/connection/connection.h"
#include "test/http_client.h"
#include "test/timer_fixture.h"
#include "test/tls_peer.h"

#define GET(target) "GET " target " HTTP/1.1\r\nHost: a\r\n\r\n"
#define LARGE       ((size_t)3 * 1024 * 1024)
#define MIDDLE      ((size_t)400000)
#define KEPT        ((size_t)1024 * 1024)
#define CROWD       200

static const struct tls_client_wish anybody = {0};

static struct {
        weir_http_server *server;
        int port;
        _Atomic unsigned served;
        _Atomic(weir_task *) exchange; /* of "/keep", with a reference */
} at;

/* "/": whether it was secure, and the client's name.  "/size": of the body.  "/large": much, "/middle": less.  "/later": after a
 * while.  "/keep": the test writes. */
static void
handle(weir_task *exchange, void *context)
{
        const char *path = weir_http_path(exchange), *client = weir_http_client_certificate(exchange);
        static char bytes[LARGE];
        char text[128];
        size_t size;

        (void)context;
        atomic_fetch_add(&at.served, 1);
        if (strcmp(path, "/large") == 0) {
                weir_http_reply_append(exchange, bytes, sizeof bytes);
                return;
        }
        if (strcmp(path, "/keep") == 0) {
                CU_ASSERT_EQUAL(weir_http_reply_length(exchange, KEPT), 0);
                atomic_store(&at.exchange, weir_http_ref(exchange));
                return;
        }
        if (strcmp(path, "/middle") == 0) {
                weir_http_reply_append(exchange, bytes, MIDDLE);
                return;
        }
        weir_http_request_body(exchange, &size);
        if (strcmp(path, "/size") == 0) {
                snprintf(text, sizeof text, "%zu", size);
        } else {
                snprintf(text, sizeof text, "%d %s", weir_http_is_secure(exchange), client ? client : "nobody");
        }
        weir_http_reply_text(exchange, 200, text);
        if (strcmp(path, "/later") == 0) {
                weir_series_push(weir_series_of(exchange), weir_timer_new(WEIR_MSEC(300), NULL, NULL));
        }
}

static struct weir_http_server_config
secure_config(const char *certificate, const char *private_key)
{
        struct weir_http_server_config config = WEIR_HTTP_SERVER_CONFIG_DEFAULT;

        config.certificate_file = tls_path(certificate);
        config.private_key_file = tls_path(private_key);
        return config;
}

static void
begin_as(const struct weir_http_server_config *config)
{
        at.server = http_server(config, handle, NULL);
        at.port = weir_http_server_port(at.server);
        atomic_store(&at.served, 0);
}

static void
begin(void)
{
        struct weir_http_server_config config = secure_config("server.pem", "server.key");

        weir_test_begin_real(2);
        begin_as(&config);
}

static void
end(void)
{
        CU_ASSERT_EQUAL(weir_http_server_stop(at.server, WEIR_SEC(20)), 0);
        weir_http_server_free(at.server);
        weir_test_end();
}

static SSL *
connect_as(const struct tls_client_wish *wish)
{
        SSL *client = tls_connect(at.port, wish);

        CU_ASSERT_PTR_NOT_NULL_FATAL(client);
        return client;
}

/* The body of the next reply is that. */
static void
expect_body(SSL *client, const char *expected)
{
        char *reply;
        bool is_whole = tls_receive(client, &reply, NULL);
        const char *end = strstr(reply, "\r\n\r\n");

        CU_ASSERT_TRUE(is_whole);
        HTTP_ASSERT_TEXT(end ? end + 4 : NULL, expected);
        free(reply);
}

static void
expect_answer(SSL *client, const char *request, const char *expected)
{
        CU_ASSERT_TRUE(tls_send(client, request, strlen(request)));
        expect_body(client, expected);
}

/* -- requests -- */

static void
a_request_is_answered_and_the_connection_kept(void)
{
        begin();
        SSL *client = connect_as(&anybody);
        for (unsigned i = 0; i < 20; i++) {
                expect_answer(client, GET("/"), "1 nobody");
        }
        tls_hang_up(client);
        end();
}

static void
a_plain_server_is_not_secure(void)
{
        struct http_client client;
        struct http_reply reply = {0};

        weir_test_begin_real(1);
        begin_as(NULL);
        http_open(&client, at.port);
        CU_ASSERT_TRUE(http_ask(&client, GET("/"), &reply));
        HTTP_ASSERT_TEXT(reply.body, "0 nobody");
        CU_ASSERT_EQUAL(weir_http_server_reload(at.server), -EDOM);
        http_close(&client);
        http_reply_done(&reply);
        CU_ASSERT_EQUAL(weir_http_is_secure(NULL), -EDOM);
        CU_ASSERT_PTR_NULL(weir_http_client_certificate(NULL));
        end();
}

static void
requests_may_come_in_any_pieces(void)
{
        static const char two[] = GET("/") GET("/later") GET("/");

        begin();
        SSL *client = connect_as(&anybody);
        CU_ASSERT_TRUE(tls_send(client, two, sizeof two - 1)); /* in one record */
        for (unsigned i = 0; i < 3; i++) {
                expect_body(client, "1 nobody");
        }
        for (size_t i = 0; i < sizeof two - 1; i++) {
                CU_ASSERT_TRUE(tls_send(client, two + i, 1)); /* in one each */
        }
        for (unsigned i = 0; i < 3; i++) {
                expect_body(client, "1 nobody");
        }
        tls_hang_up(client);
        end();
}

static void
large_bodies_go_both_ways(void)
{
        struct weir_http_server_config config = secure_config("server.pem", "server.key");
        char *data = calloc(1, LARGE), head[128], *reply;
        size_t size;

        config.max_body = LARGE;
        weir_test_begin_real(2);
        begin_as(&config);
        SSL *client = connect_as(&anybody);
        for (unsigned i = 0; i < 3; i++) {
                int count = snprintf(head, sizeof head, "POST /size HTTP/1.1\r\nHost: a\r\nContent-Length: %zu\r\n\r\n", LARGE);
                CU_ASSERT_TRUE(tls_send(client, head, (size_t)count));
                CU_ASSERT_TRUE(tls_send(client, data, LARGE));
                snprintf(head, sizeof head, "%zu", LARGE);
                expect_body(client, head);
                CU_ASSERT_TRUE(tls_send(client, GET("/large"), sizeof GET("/large") - 1));
                weir_test_sleep(50000000); /* meanwhile it cannot write on */
                CU_ASSERT_TRUE(tls_receive(client, &reply, &size));
                CU_ASSERT(size > LARGE);
                free(reply);
        }
        free(data);
        tls_hang_up(client);
        end();
}

static void
the_wait_for_100_continue_ends(void)
{
        static const char head[] = "POST /size HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n";
        char said[26] = "";
        size_t count;

        begin();
        SSL *client = connect_as(&anybody);
        CU_ASSERT_TRUE(tls_send(client, head, sizeof head - 1));
        CU_ASSERT_EQUAL(SSL_read_ex(client, said, sizeof said - 1, &count), 1);
        CU_ASSERT_STRING_EQUAL(said, "HTTP/1.1 100 Continue\r\n\r\n");
        expect_answer(client, "12345", "5");
        tls_hang_up(client);
        end();
}

static void
a_reply_that_closes_says_so_in_tls(void)
{
        begin();
        SSL *client = connect_as(&anybody);
        expect_answer(client, "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", "1 nobody");
        CU_ASSERT_TRUE(tls_is_over(client));
        tls_hang_up(client);
        client = connect_as(&anybody);
        CU_ASSERT_TRUE(tls_send(client, "nonsense\r\n\r\n", 12));
        char *reply;
        CU_ASSERT_TRUE(tls_receive(client, &reply, NULL));
        CU_ASSERT_EQUAL(strncmp(reply, "HTTP/1.1 400 ", 13), 0);
        free(reply);
        CU_ASSERT_TRUE(tls_is_over(client));
        tls_hang_up(client);
        end();
}

static void
a_client_that_says_goodbye_is_let_go(void)
{
        begin();
        SSL *client = connect_as(&anybody);
        expect_answer(client, GET("/"), "1 nobody");
        SSL_shutdown(client); /* and leaves its end of TCP open */
        CU_ASSERT_TRUE(tls_is_over(client));
        tls_hang_up(client);
        end();
}

/* All of the reply lies in the server's socket when the client finishes its side, before it has read it. */
static void
get_the_reply_behind_a_goodbye(bool finishes)
{
        static const char request[] = "GET /middle HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
        SSL *client = connect_as(&(struct tls_client_wish){.window = 4096});
        const int on = 1;
        char *reply;
        size_t size;

        CU_ASSERT_TRUE(tls_send(client, request, sizeof request - 1));
        weir_test_sleep(100000000);                                            /* right either way */
        setsockopt(SSL_get_fd(client), IPPROTO_TCP, TCP_CORK, &on, sizeof on); /* both ends in one packet */
        SSL_shutdown(client);
        if (finishes)
                shutdown(SSL_get_fd(client), SHUT_WR);
        else
                setsockopt(SSL_get_fd(client), IPPROTO_TCP, TCP_CORK, &(const int){0}, sizeof(int));
        weir_test_sleep(100000000);
        CU_ASSERT_TRUE(tls_receive(client, &reply, &size));
        CU_ASSERT(size > MIDDLE);
        free(reply);
        CU_ASSERT_TRUE(tls_is_over(client));
        tls_hang_up(client);
}

static void
a_client_that_says_goodbye_early_gets_the_whole_reply(void)
{
        begin();
        get_the_reply_behind_a_goodbye(false);
        get_the_reply_behind_a_goodbye(true);
        end();
}

/* -- writes that are cancelled -- */

static void
begin_to_keep(void)
{
        struct weir_http_server_config config = secure_config("server.pem", "server.key");

        weir_test_begin_virtual();
        begin_as(&config);
}

/* A write task in a series of its own. */
static weir_series *
write_kept(struct weir_test_record *record, const void *data, size_t size)
{
        weir_series *series = weir_series_ref(weir_series_new(NULL, NULL));

        *record = (struct weir_test_record){0};
        weir_series_push(series, weir_test_recorded(weir_http_write_new(at.exchange, data, size, weir_test_done, record)));
        CU_ASSERT_EQUAL(weir_series_start(series), 0);
        return series;
}

static void
cancel_series(weir_task *task, void *series)
{
        (void)task;
        weir_series_cancel(series);
        weir_series_unref(series);
}

/* A write behind one that waits, and the cancel of one of the two. */
struct kept {
        struct weir_test_record first, second;
        weir_series *series; /* of the first */
        bool should_cancel_first;
        bool is_cancelled; /* or else the first one did not wait any more */
};

/* On the only worker, which does not look at the socket before the cancel: the system may make room in it at any time. */
static void
write_second_and_cancel(weir_task *task, void *context)
{
        struct kept *kept = context;

        (void)task;
        kept->is_cancelled = kept->first.frees == 0;
        if (!kept->is_cancelled)
                return;
        weir_series *second = write_kept(&kept->second, "this is not to be seen", 22);
        weir_series *cancelled = weir_series_ref(kept->should_cancel_first ? kept->series : second);
        weir_series_unref(second);
        weir_task_start(weir_empty_new(cancel_series, cancelled)); /* when the second one was tried */
}

/* A client that reads nothing yet, of an exchange that the test has, with little room between the two. */
static SSL *
connect_to_keep(void)
{
        SSL *client = connect_as(&(struct tls_client_wish){.window = 16384});
        const int room = 16384;

        atomic_store(&at.exchange, NULL);
        CU_ASSERT_TRUE(tls_send(client, GET("/keep"), sizeof GET("/keep") - 1));
        WEIR_TEST_EVENTUALLY(atomic_load(&at.exchange));
        int servers_fd = weir__exchange_of(at.exchange)->fd;
        CU_ASSERT_EQUAL(setsockopt(servers_fd, SOL_SOCKET, SO_SNDBUF, &room, sizeof room), 0);
        return client;
}

static void
widen(SSL *client)
{
        const int window = 1 << 20;

        CU_ASSERT_EQUAL(setsockopt(SSL_get_fd(client), SOL_SOCKET, SO_RCVBUF, &window, sizeof window), 0);
}

/* Writes pieces of `size` bytes until one has to wait, and has a second one written behind it and one of them cancelled.  Returns
 * how many bytes went out before. */
static size_t
write_until_full(struct kept *kept, const char *bytes, size_t size)
{
        for (size_t sent = 0;; sent += size) {
                kept->series = write_kept(&kept->first, bytes + sent, size);
                weir_test_pass(0);
                weir_task_start(weir_empty_new(write_second_and_cancel, kept));
                weir_test_pass(0);
                weir_series_unref(kept->series);
                if (kept->is_cancelled)
                        return sent;
                CU_ASSERT_EQUAL(kept->first.status, 0);
                CU_ASSERT_FATAL(sent + 2 * size < KEPT);
        }
}

/* The first that waits is encrypted, those behind it are not, whatever their size: these can go, and the reply is whole. */
static void
a_write_that_was_never_encrypted_is_cancelled_alone(void)
{
        static const size_t sizes[] = {1000, 15000, 100000};
        char *bytes = malloc(KEPT), *reply;

        for (size_t i = 0; i < KEPT; i++)
                bytes[i] = (char)(i * 31 + i / 251);
        begin_to_keep();
        for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; i++) {
                struct kept kept = {.should_cancel_first = false};
                struct weir_test_record third;
                SSL *client = connect_to_keep();
                size_t size;

                size_t sent = write_until_full(&kept, bytes, sizes[i]) + sizes[i];
                weir_test_wait_freed(&kept.second);
                CU_ASSERT_EQUAL(kept.second.status, -ECANCELED);
                weir_series *rest = write_kept(&third, bytes + sent, KEPT - sent);
                weir_test_pass(0);
                weir_http_unref(atomic_exchange(&at.exchange, NULL));
                widen(client);
                CU_ASSERT_TRUE(tls_receive(client, &reply, &size));
                CU_ASSERT_FATAL(size > KEPT);
                CU_ASSERT_EQUAL(memcmp(reply + size - KEPT, bytes, KEPT), 0);
                weir_test_wait_freed(&kept.first);
                weir_test_wait_freed(&third);
                CU_ASSERT(kept.first.status == 0 && third.status == 0);
                weir_series_unref(rest);
                free(reply);
                expect_answer(client, GET("/"), "1 nobody"); /* and the connection goes on */
                tls_hang_up(client);
        }
        end();
        free(bytes);
}

static void
a_write_that_was_encrypted_is_cancelled_with_its_connection(void)
{
        static const char bytes[KEPT];
        struct kept kept = {.should_cancel_first = true};
        char *reply;

        begin_to_keep();
        SSL *client = connect_to_keep();
        write_until_full(&kept, bytes, 1000);
        weir_test_wait_freed(&kept.first);
        weir_test_wait_freed(&kept.second);
        CU_ASSERT(kept.first.status == -ECANCELED && kept.second.status == -EPIPE);
        weir_http_unref(atomic_exchange(&at.exchange, NULL));
        CU_ASSERT_FALSE(tls_receive(client, &reply, NULL));
        free(reply);
        tls_hang_up(client);
        end();
}

/* -- bytes that are not TLS -- */

static void
plain_http_is_told_where_it_is(void)
{
        struct http_client client;
        struct http_reply reply = {0};

        begin();
        http_open(&client, at.port);
        CU_ASSERT_TRUE(http_ask(&client, GET("/"), &reply));
        CU_ASSERT_EQUAL(reply.status, 400);
        CU_ASSERT_PTR_NOT_NULL(strstr(reply.body, "HTTPS"));
        CU_ASSERT_TRUE(http_is_over(&client));
        http_close(&client);
        http_open(&client, at.port);
        http_send_text(&client, "something else altogether");
        while (!client.ended) {
                http_read_some(&client);
        }
        http_close(&client);
        http_reply_done(&reply);
        CU_ASSERT_EQUAL(atomic_load(&at.served), 0);
        end();
}

/* -- many -- */

static void
many_are_served_at_once(void)
{
        SSL *clients[CROWD];

        begin();
        for (unsigned i = 0; i < CROWD; i++) {
                clients[i] = connect_as(&anybody);
        }
        for (unsigned round = 0; round < 2; round++) {
                for (unsigned i = 0; i < CROWD; i++) {
                        CU_ASSERT_TRUE(tls_send(clients[i], GET("/later"), sizeof GET("/later") - 1));
                }
                for (unsigned i = 0; i < CROWD; i++) {
                        expect_body(clients[i], "1 nobody");
                }
        }
        for (unsigned i = 0; i < CROWD; i++) {
                tls_hang_up(clients[i]);
        }
        end();
}

static struct {
        _Atomic bool over;
        _Atomic unsigned answered, failed, first, second;
} load;

static void *
ask_again_and_again(void *unused)
{
        char *reply;

        while (!atomic_load(&load.over)) {
                SSL *client = tls_connect(at.port, &anybody);
                bool is_good = client && tls_send(client, GET("/"), sizeof GET("/") - 1) && tls_receive(client, &reply, NULL);

                atomic_fetch_add(is_good ? &load.answered : &load.failed, 1);
                if (is_good) {
                        free(reply);
                        atomic_fetch_add(strcmp(tls_server_shown(client), "server") == 0 ? &load.first : &load.second, 1);
                }
                if (client) {
                        tls_hang_up(client);
                }
        }
        return unused;
}

static void
copy_file(const char *from, const char *to)
{
        static char data[16384];
        FILE *stream = fopen(tls_path(from), "rbe");
        size_t size = fread(data, 1, sizeof data, stream);

        fclose(stream);
        tls_write_file(to, data, size);
}

static void
use_pair(const char *name)
{
        char file[64];

        snprintf(file, sizeof file, "%s.pem", name);
        copy_file(file, "current.pem");
        snprintf(file, sizeof file, "%s.key", name);
        copy_file(file, "current.key");
}

static void
certificates_change_under_load(void)
{
        struct weir_http_server_config config = secure_config("current.pem", "current.key");
        pthread_t threads[3];

        use_pair("server");
        weir_test_begin_real(2);
        begin_as(&config);
        memset(&load, 0, sizeof load);
        SSL *old = connect_as(&anybody);
        for (unsigned i = 0; i < 3; i++) {
                pthread_create(&threads[i], NULL, ask_again_and_again, NULL);
        }
        for (unsigned i = 1; i <= 20; i++) {
                use_pair(i % 2 ? "another" : "server");
                CU_ASSERT_EQUAL(weir_http_server_reload(at.server), 0);
                unsigned before = atomic_load(&load.answered);
                WEIR_TEST_EVENTUALLY(atomic_load(&load.answered) > before + 6);
                expect_answer(old, GET("/"), "1 nobody"); /* it notices nothing */
        }
        atomic_store(&load.over, true);
        for (unsigned i = 0; i < 3; i++) {
                pthread_join(threads[i], NULL);
        }
        CU_ASSERT_EQUAL(atomic_load(&load.failed), 0);
        CU_ASSERT(atomic_load(&load.first) > 0);
        CU_ASSERT(atomic_load(&load.second) > 0);
        CU_ASSERT_STRING_EQUAL(tls_server_shown(old), "server");
        tls_hang_up(old);
        end();
}

static void
keep_silent(enum weir_log_level level, const char *message, void *count)
{
        (void)level, (void)message;
        atomic_fetch_add((_Atomic unsigned *)count, 1);
}

static void
a_reload_that_fails_changes_nothing(void)
{
        struct weir_http_server_config config = secure_config("current.pem", "current.key");
        _Atomic unsigned said = 0;

        use_pair("server");
        weir_test_begin_real(1);
        begin_as(&config);
        weir_log_set(keep_silent, (void *)&said);
        copy_file("another.key", "current.key");
        CU_ASSERT_EQUAL(weir_http_server_reload(at.server), WEIR_ETLS_MISMATCH);
        unlink(tls_path("current.key"));
        CU_ASSERT_EQUAL(weir_http_server_reload(at.server), -ENOENT);
        CU_ASSERT_EQUAL(atomic_load(&said), 2);
        weir_log_set(NULL, NULL);
        SSL *client = connect_as(&anybody);
        CU_ASSERT_STRING_EQUAL(tls_server_shown(client), "server");
        expect_answer(client, GET("/"), "1 nobody");
        tls_hang_up(client);
        use_pair("another");
        CU_ASSERT_EQUAL(weir_http_server_reload(at.server), 0);
        client = connect_as(&anybody);
        CU_ASSERT_STRING_EQUAL(tls_server_shown(client), "another");
        tls_hang_up(client);
        end();
}

/* -- configurations -- */

static atomic_bool have_been_added;

static void *
reload_until_all_are_added(void *context)
{
        (void)context;
        while (!atomic_load(&have_been_added)) {
                CU_ASSERT_EQUAL(weir_http_server_reload(at.server), -EDOM);
        }
        return NULL;
}

/* The start will read them, and until then there may be more. */
static void
a_reload_before_the_start_leaves_the_files_to_it(void)
{
        struct weir_http_server_config config = secure_config("server.pem", "server.key");
        pthread_t thread;

        weir_test_begin_real(2);
        at.server = weir_http_server_new(&config, handle, NULL);
        atomic_store(&have_been_added, false);
        CU_ASSERT_EQUAL(weir_http_server_reload(at.server), -EDOM);
        CU_ASSERT_EQUAL_FATAL(pthread_create(&thread, NULL, reload_until_all_are_added, NULL), 0);
        for (unsigned i = 0; i < 100; i++) {
                CU_ASSERT_EQUAL(weir_http_server_add_certificate(at.server, config.certificate_file, config.private_key_file), 0);
        }
        atomic_store(&have_been_added, true);
        pthread_join(thread, NULL);
        CU_ASSERT_EQUAL(weir_http_server_start(at.server, "127.0.0.1:0"), 0);
        CU_ASSERT_EQUAL(weir_http_server_reload(at.server), 0);
        end();
}

static void
further_certificates_are_for_their_names(void)
{
        struct weir_http_server_config config = secure_config("server.pem", "server.key");
        char certificate[128], private_key[128];

        snprintf(certificate, sizeof certificate, "%s", tls_path("another.pem"));
        snprintf(private_key, sizeof private_key, "%s", tls_path("another.key"));
        weir_test_begin_real(1);
        at.server = weir_http_server_new(&config, handle, NULL);
        CU_ASSERT_EQUAL(weir_http_server_add_certificate(at.server, certificate, private_key), 0);
        memset(certificate, 'x', sizeof certificate - 1); /* they were copied */
        memset(private_key, 'x', sizeof private_key - 1);
        CU_ASSERT_EQUAL(weir_http_server_add_certificate(NULL, certificate, private_key), -EINVAL);
        CU_ASSERT_EQUAL(weir_http_server_add_certificate(at.server, NULL, private_key), -EINVAL);
        CU_ASSERT_EQUAL(weir_http_server_add_certificate(at.server, certificate, NULL), -EINVAL);
        CU_ASSERT_EQUAL(weir_http_server_reload(NULL), -EINVAL);
        CU_ASSERT_EQUAL(weir_http_server_start(at.server, "127.0.0.1:0"), 0);
        CU_ASSERT_EQUAL(weir_http_server_add_certificate(at.server, certificate, private_key), -EALREADY);
        at.port = weir_http_server_port(at.server);
        for (unsigned i = 0; i < 2; i++) {
                SSL *client = connect_as(&(struct tls_client_wish){.server_name = "a.another.example"});
                CU_ASSERT_STRING_EQUAL(tls_server_shown(client), "another");
                expect_answer(client, GET("/"), "1 nobody");
                tls_hang_up(client);
                client = connect_as(&(struct tls_client_wish){.server_name = "elsewhere.example"});
                CU_ASSERT_STRING_EQUAL(tls_server_shown(client), "server");
                tls_hang_up(client);
                CU_ASSERT_EQUAL(weir_http_server_reload(at.server), 0);
        }
        end();
}

static void
the_handler_learns_who_has_shown_a_certificate(void)
{
        struct weir_http_server_config config = secure_config("server.pem", "server.key");

        config.client_ca_file = tls_path("authority.pem");
        config.client_check = WEIR_HTTP_CLIENT_REQUESTED;
        weir_test_begin_real(2);
        begin_as(&config);
        SSL *client = connect_as(&(struct tls_client_wish){.certificate = "alice"});
        expect_answer(client, GET("/"), "1 CN=alice,O=weir");
        expect_answer(client, GET("/later"), "1 CN=alice,O=weir");
        tls_hang_up(client);
        client = connect_as(&anybody);
        expect_answer(client, GET("/"), "1 nobody");
        tls_hang_up(client);
        CU_ASSERT_PTR_NULL(tls_connect(at.port, &(struct tls_client_wish){.certificate = "mallory", .version = TLS1_2_VERSION}));
        end();
}

static void
a_callers_ssl_ctx_is_used_as_it_is(void)
{
        struct weir_http_server_config config = WEIR_HTTP_SERVER_CONFIG_DEFAULT;
        SSL_CTX *context = SSL_CTX_new(TLS_server_method());

        CU_ASSERT_EQUAL(SSL_CTX_use_certificate_chain_file(context, tls_path("another.pem")), 1);
        CU_ASSERT_EQUAL(SSL_CTX_use_PrivateKey_file(context, tls_path("another.key"), SSL_FILETYPE_PEM), 1);
        config.ssl_ctx = context;
        weir_test_begin_real(1);
        at.server = weir_http_server_new(&config, handle, NULL);
        SSL_CTX_free(context); /* the server keeps it */
        CU_ASSERT_EQUAL(weir_http_server_start(at.server, "127.0.0.1:0"), 0);
        at.port = weir_http_server_port(at.server);
        CU_ASSERT_EQUAL(weir_http_server_reload(at.server), -EDOM);
        CU_ASSERT_EQUAL(weir_http_server_add_certificate(at.server, "a", "b"), -EINVAL);
        SSL *client = connect_as(&anybody);
        CU_ASSERT_STRING_EQUAL(tls_server_shown(client), "another");
        expect_answer(client, GET("/"), "1 nobody");
        tls_hang_up(client);
        end();
}

static int
start_with(struct weir_http_server_config config)
{
        weir_http_server *server = weir_http_server_new(&config, handle, NULL);
        int failed = weir_http_server_start(server, "127.0.0.1:0");

        weir_http_server_free(server);
        return failed;
}

static void
hear(enum weir_log_level level, const char *message, void *context)
{
        snprintf(context, 512, "%s%s", level == WEIR_LOG_ERROR ? "" : "(no error) ", message);
}

/* And the log says what was expected. */
static void
expect_refused(struct weir_http_server_config config, const char *expected)
{
        char said[512] = "nothing";

        CU_ASSERT_EQUAL(weir_log_set(hear, said), 0);
        CU_ASSERT_EQUAL(start_with(config), -EINVAL);
        CU_ASSERT_EQUAL(weir_log_set(NULL, NULL), 0);
        if (strncmp(said, "TLS: expected", 13) != 0 || !strstr(said, expected)) {
                printf("\n  %s: %s", expected, said);
                CU_FAIL("what was expected was not said");
        }
}

static void
options_that_need_a_certificate_are_refused_without_one(void)
{
        const struct weir_http_server_config plain = WEIR_HTTP_SERVER_CONFIG_DEFAULT;
        struct weir_http_server_config config;

        weir_test_begin_real(1);
        config = plain, config.ocsp_file = tls_path("staple.der");
        expect_refused(config, "a certificate beside ocsp_file");
        config = plain, config.client_ca_file = tls_path("authority.pem"), config.client_check = WEIR_HTTP_CLIENT_REQUIRED;
        expect_refused(config, "a certificate beside client_ca_file");
        weir_http_server *server = weir_http_server_new(&config, handle, NULL);
        CU_ASSERT_EQUAL(weir_http_server_add_certificate(server, tls_path("server.pem"), tls_path("server.key")), 0);
        CU_ASSERT_EQUAL(weir_http_server_start(server, "127.0.0.1:0"), 0); /* it has one now */
        weir_http_server_free(server);
        config = plain, config.client_check = WEIR_HTTP_CLIENT_REQUESTED;
        expect_refused(config, "client_ca_file");
        config = plain, config.private_key_file = tls_path("server.key");
        expect_refused(config, "together");
        weir_test_end();
}

static void
contradictory_options_are_logged(void)
{
        const struct weir_http_server_config good = secure_config("server.pem", "server.key");
        struct weir_http_server_config config;
        SSL_CTX *context = SSL_CTX_new(TLS_server_method());

        weir_test_begin_real(1);
        config = good, config.client_ca_file = tls_path("authority.pem");
        expect_refused(config, "client_check beside client_ca_file"); /* nobody would be checked */
        config.client_check = (enum weir_http_client_check)3;
        expect_refused(config, "enum weir_http_client_check");
        config = good, config.ssl_ctx = context;
        expect_refused(config, "not both");
        config.certificate_file = config.private_key_file = NULL, config.ocsp_file = tls_path("staple.der");
        expect_refused(config, "beside ssl_ctx");
        config = good, config.reserved = 1;
        expect_refused(config, "reserved");
        SSL_CTX_free(context);
        weir_test_end();
}

static void
a_senseless_configuration_is_refused_by_the_start(void)
{
        const struct weir_http_server_config good = secure_config("server.pem", "server.key");
        struct weir_http_server_config config;
        _Atomic unsigned said = 0;
        SSL_CTX *context = SSL_CTX_new(TLS_server_method());

        weir_test_begin_real(1);
        CU_ASSERT_EQUAL(start_with(good), 0);
        weir_log_set(keep_silent, (void *)&said);
        config = good, config.certificate_file = NULL;
        CU_ASSERT_EQUAL(start_with(config), -EINVAL);
        config = good, config.private_key_file = NULL;
        CU_ASSERT_EQUAL(start_with(config), -EINVAL);
        config = good, config.private_key_file = tls_path("another.key");
        CU_ASSERT_EQUAL(start_with(config), WEIR_ETLS_MISMATCH);
        config = good, config.certificate_file = tls_path("absent");
        CU_ASSERT_EQUAL(start_with(config), -ENOENT);
        config = good, config.ssl_ctx = context;
        CU_ASSERT_EQUAL(start_with(config), -EINVAL);
        config = good, config.client_check = WEIR_HTTP_CLIENT_REQUIRED;
        CU_ASSERT_EQUAL(start_with(config), -EINVAL);
        config = good, config.client_check = (enum weir_http_client_check)3, config.client_ca_file = tls_path("authority.pem");
        CU_ASSERT_EQUAL(start_with(config), -EINVAL);
        config = good, config.handshake_timeout = -1;
        CU_ASSERT_EQUAL(start_with(config), -EINVAL);
        config = good, config.ocsp_file = tls_path("server.pem");
        CU_ASSERT_EQUAL(start_with(config), WEIR_ETLS_OCSP);
        weir_log_set(NULL, NULL);
        SSL_CTX_free(context);
        weir_test_end();
}

/* -- time, and the end -- */

static void
a_handshake_must_end_within_its_time(void)
{
        struct weir_http_server_config config = secure_config("server.pem", "server.key");
        struct http_client silent, slow;
        char hello[1024];

        weir_test_begin_virtual();
        begin_as(&config);
        http_open(&silent, at.port);
        http_open(&slow, at.port);
        SSL *client = tls_client(-1, &anybody);
        SSL_do_handshake(client);
        int size = BIO_read(SSL_get_wbio(client), hello, sizeof hello);
        CU_ASSERT_EQUAL(weir_clock_advance(0), 0);
        for (int i = 0; i < 9; i++) { /* what comes meanwhile does not prolong it */
                CU_ASSERT_EQUAL(weir_clock_advance(WEIR_SEC(1)), 0);
                CU_ASSERT_TRUE(http_send(&slow, hello + i, 1));
        }
        CU_ASSERT_EQUAL(weir_clock_advance(WEIR_SEC(1) - 1), 0);
        CU_ASSERT_FALSE(http_has_news(&silent, 0));
        CU_ASSERT_FALSE(http_has_news(&slow, 0));
        CU_ASSERT_EQUAL(weir_clock_advance(1), 0);
        CU_ASSERT_TRUE(http_is_over(&silent));
        CU_ASSERT_TRUE(http_is_over(&slow));
        CU_ASSERT(size > 9);
        SSL_free(client);
        http_close(&silent);
        http_close(&slow);
        end();
}

static void
whoever_has_shaken_hands_has_the_time_of_the_idle(void)
{
        struct weir_http_server_config config = secure_config("server.pem", "server.key");

        weir_test_begin_virtual();
        config.handshake_timeout = WEIR_SEC(5);
        begin_as(&config);
        SSL *client = connect_as(&anybody);
        CU_ASSERT_EQUAL(weir_clock_advance(0), 0);
        CU_ASSERT_EQUAL(weir_clock_advance(WEIR_SEC(59)), 0);
        struct pollfd news = {.fd = SSL_get_fd(client), .events = POLLRDHUP};
        CU_ASSERT_EQUAL(poll(&news, 1, 0), 0);
        CU_ASSERT_EQUAL(weir_clock_advance(WEIR_SEC(2)), 0);
        CU_ASSERT_TRUE(tls_is_over(client)); /* and it is said */
        tls_hang_up(client);
        end();
}

static void
a_stop_tells_the_idle_and_finishes_the_others(void)
{
        begin();
        SSL *idle = connect_as(&anybody), *fresh = connect_as(&anybody), *busy = connect_as(&anybody);
        expect_answer(idle, GET("/"), "1 nobody");
        expect_answer(fresh, GET("/"), "1 nobody");
        CU_ASSERT_TRUE(tls_send(busy, GET("/later"), sizeof GET("/later") - 1));
        WEIR_TEST_EVENTUALLY(atomic_load(&at.served) == 3);
        CU_ASSERT_EQUAL(weir_http_server_stop(at.server, WEIR_SEC(20)), 0);
        expect_body(busy, "1 nobody");
        CU_ASSERT_TRUE(tls_is_over(busy));
        CU_ASSERT_TRUE(tls_is_over(idle));
        CU_ASSERT_TRUE(tls_is_over(fresh));
        tls_hang_up(idle);
        tls_hang_up(fresh);
        tls_hang_up(busy);
        end();
}

static void *
stop_server(void *unused)
{
        CU_ASSERT_EQUAL(weir_http_server_stop(at.server, WEIR_SEC(20)), 0);
        return unused;
}

static bool
is_listening(void)
{
        struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)at.port)};
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        bool is = connect(fd, (struct sockaddr *)&address, sizeof address) == 0;
        close(fd);
        return is;
}

static void
a_handshake_that_a_stop_meets_ends_with_an_answer(void)
{
        struct http_client raw;
        pthread_t thread;

        begin();
        http_open(&raw, at.port);
        WEIR_TEST_EVENTUALLY(atomic_load(&at.server->base.connections) == 1);
        pthread_create(&thread, NULL, stop_server, NULL);
        WEIR_TEST_EVENTUALLY(!is_listening());
        SSL *client = tls_client(raw.fd, &anybody);
        CU_ASSERT_EQUAL(SSL_connect(client), 1);
        expect_answer(client, GET("/"), "1 nobody");
        CU_ASSERT_TRUE(tls_is_over(client));
        pthread_join(thread, NULL);
        SSL_free(client);
        http_close(&raw);
        end();
}

static void
a_client_that_leaves_in_the_middle_leaves_nothing_behind(void)
{
        struct weir_test_random random = {weir_test_seed()};
        char hello[1024];

        begin();
        SSL *stays = connect_as(&anybody);
        unsigned before = http_open_descriptors();
        for (unsigned i = 0; i < 100; i++) {
                struct http_client leaver;
                SSL *client = tls_client(-1, &anybody);

                SSL_do_handshake(client);
                int size = BIO_read(SSL_get_wbio(client), hello, sizeof hello);
                http_open(&leaver, at.port);
                http_send(&leaver, hello, weir_test_random_below(&random, (uint64_t)size + 1));
                if (i % 2) {
                        http_abandon(&leaver);
                } else {
                        http_close(&leaver);
                }
                SSL_free(client);
        }
        expect_answer(stays, GET("/"), "1 nobody");
        WEIR_TEST_EVENTUALLY(http_open_descriptors() == before);
        tls_hang_up(stays);
        end();
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(a_request_is_answered_and_the_connection_kept),
                WEIR_TEST(a_plain_server_is_not_secure),
                WEIR_TEST(requests_may_come_in_any_pieces),
                WEIR_TEST(large_bodies_go_both_ways),
                WEIR_TEST(the_wait_for_100_continue_ends),
                WEIR_TEST(a_reply_that_closes_says_so_in_tls),
                WEIR_TEST(a_client_that_says_goodbye_is_let_go),
                WEIR_TEST(a_client_that_says_goodbye_early_gets_the_whole_reply),
                WEIR_TEST(a_write_that_was_never_encrypted_is_cancelled_alone),
                WEIR_TEST(a_write_that_was_encrypted_is_cancelled_with_its_connection),
                WEIR_TEST(plain_http_is_told_where_it_is),
                WEIR_TEST(many_are_served_at_once),
                WEIR_TEST(certificates_change_under_load),
                WEIR_TEST(a_reload_that_fails_changes_nothing),
                WEIR_TEST(a_reload_before_the_start_leaves_the_files_to_it),
                WEIR_TEST(further_certificates_are_for_their_names),
                WEIR_TEST(the_handler_learns_who_has_shown_a_certificate),
                WEIR_TEST(a_callers_ssl_ctx_is_used_as_it_is),
                WEIR_TEST(options_that_need_a_certificate_are_refused_without_one),
                WEIR_TEST(contradictory_options_are_logged),
                WEIR_TEST(a_senseless_configuration_is_refused_by_the_start),
                WEIR_TEST(a_handshake_must_end_within_its_time),
                WEIR_TEST(whoever_has_shaken_hands_has_the_time_of_the_idle),
                WEIR_TEST(a_stop_tells_the_idle_and_finishes_the_others),
                WEIR_TEST(a_handshake_that_a_stop_meets_ends_with_an_answer),
                WEIR_TEST(a_client_that_leaves_in_the_middle_leaves_nothing_behind),
        };
        tls_files_begin();
        tls_make_certificate("server", &(struct tls_wish){0});
        tls_make_certificate("another", &(struct tls_wish){.alternative_names = "DNS:*.another.example"});
        tls_make_certificate("authority", &(struct tls_wish){0});
        tls_make_certificate("alice", &(struct tls_wish){.issuer = "authority"});
        tls_make_certificate("mallory", &(struct tls_wish){.issuer = "another"});
        int failed = weir_test_main("tls server", tests, sizeof tests / sizeof *tests);
        tls_files_end();
        return failed;
}
