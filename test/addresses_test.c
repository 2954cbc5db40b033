/* test/addresses_test.c: the addresses at which a server listens, and the process that takes them over.
 *
 * Started with arguments this program is the process that takes over: addresses_test child|less POLLERS ADDRESSES. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "server/base/server.h"
#include "net/listen/listener.h"
#include "test/http_client.h"

#define GET "GET / HTTP/1.1\r\nHost: a\r\n\r\n"

static char directory[] = "/tmp/weir-addresses-XXXXXX";
static char path[64];    /* of a Unix socket in it */
static char address[80]; /* the same as an address */

static struct fixture {
        weir_http_server *server;
        int port;
        struct http_client client;
        struct http_reply reply;
} at;

static void
say(weir_task *exchange, void *context)
{
        weir_http_reply_text(exchange, 200, context ? context : "old");
}

/* Starts with that many pollers, or as many as there are CPUs. */
static int
begin(unsigned pollers, const char *addresses)
{
        struct weir_config config = WEIR_CONFIG_DEFAULT;

        config.pollers = pollers;
        weir_shutdown();
        CU_ASSERT_EQUAL_FATAL(weir_init(&config), 0);
        at.server = weir_http_server_new(NULL, say, NULL);
        int failed = weir_http_server_start(at.server, addresses);
        at.port = weir_http_server_port(at.server);
        return failed;
}

static void
end(void)
{
        http_reply_done(&at.reply);
        weir_http_server_free(at.server);
        at.server = NULL;
}

static bool
open_unix(struct http_client *client, const char *name)
{
        struct sockaddr_un its = {.sun_family = AF_UNIX};
        size_t size = strlen(name);

        memcpy(its.sun_path, name, size);
        if (*name == '@') {
                its.sun_path[0] = '\0';
        }
        *client = (struct http_client){.fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)};
        return connect(client->fd, (struct sockaddr *)&its,
                       (socklen_t)(offsetof(struct sockaddr_un, sun_path) + size + (*name != '@'))) == 0;
}

static bool
is_there(void)
{
        struct stat found;

        return lstat(path, &found) == 0;
}

/* Whether a new connection is answered by that text. */
static bool
answers(int port, const char *text)
{
        bool answered;

        if (port) {
                http_open(&at.client, port);
        }
        if (!port && !open_unix(&at.client, path)) {
                http_close(&at.client);
                return false;
        }
        answered = http_ask(&at.client, GET, &at.reply) && strcmp(at.reply.body, text) == 0;
        http_close(&at.client);
        return answered;
}

static bool
is_refused(int port)
{
        struct sockaddr_in its = {
                .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = htons((uint16_t)port)};
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        bool refused = connect(fd, (struct sockaddr *)&its, sizeof its) < 0 && errno == ECONNREFUSED;

        close(fd);
        return refused;
}

/* -- several -- */

static int
port_of(int fd)
{
        struct sockaddr_storage its;
        socklen_t size = sizeof its;

        CU_ASSERT_EQUAL(getsockname(fd, (struct sockaddr *)&its, &size), 0);
        return its.ss_family == AF_INET ? ntohs(((struct sockaddr_in *)&its)->sin_port) : 0;
}

static void
it_serves_at_several_addresses_at_once(void)
{
        char list[256], name[64];
        int fds[16], count, other = 0;

        snprintf(name, sizeof name, "@weir-addresses-%d", (int)getpid());
        snprintf(list, sizeof list, "%s, unix:%s 127.0.0.1:0,127.0.0.1:0", address, name);
        CU_ASSERT_EQUAL(begin(3, list), 0);
        count = weir_http_server_fds(at.server, fds, 16);
        CU_ASSERT_EQUAL(count, 1 + 1 + 3 + 3);
        CU_ASSERT_EQUAL(weir_http_server_fds(at.server, NULL, 0), count);
        CU_ASSERT_EQUAL(port_of(fds[0]) + port_of(fds[1]), 0);
        CU_ASSERT_EQUAL(port_of(fds[2]), at.port); /* the first that has one */
        other = port_of(fds[5]);
        CU_ASSERT_NOT_EQUAL(other, at.port);
        for (int i = 0; i < 20; i++) {
                CU_ASSERT_TRUE(answers(at.port, "old"));
                CU_ASSERT_TRUE(answers(other, "old"));
                CU_ASSERT_TRUE(answers(0, "old"));
                CU_ASSERT_TRUE(open_unix(&at.client, name));
                CU_ASSERT_TRUE(http_ask(&at.client, GET, &at.reply));
                http_close(&at.client);
        }
        CU_ASSERT_EQUAL(weir_http_server_stop(at.server, WEIR_SEC(5)), 0);
        CU_ASSERT_FALSE(is_there());
        CU_ASSERT_TRUE(is_refused(at.port));
        CU_ASSERT_TRUE(is_refused(other));
        end();
}

static void
a_server_without_tcp_has_no_port(void)
{
        CU_ASSERT_EQUAL(begin(0, address), 0);
        CU_ASSERT_EQUAL(at.port, -EDOM);
        CU_ASSERT_TRUE(answers(0, "old"));
        end();
        CU_ASSERT_FALSE(is_there());
}

static struct {
        pthread_mutex_t mutex;
        char text[512];
} heard = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static void
hear(enum weir_log_level level, const char *message, void *context)
{
        (void)context;
        pthread_mutex_lock(&heard.mutex);
        snprintf(heard.text, sizeof heard.text, "%d %s", (int)level, message);
        pthread_mutex_unlock(&heard.mutex);
}

static void
all_or_nothing_and_it_says_which(void)
{
        char list[256], expected[256];
        int port, file = open("/dev/null", O_RDONLY | O_CLOEXEC);
        unsigned before;

        CU_ASSERT_FATAL(file >= 0);
        CU_ASSERT_EQUAL(begin(0, "127.0.0.1:0"), 0);
        port = at.port;
        end();
        CU_ASSERT_EQUAL(weir_log_set(hear, NULL), 0);
        at.server = weir_http_server_new(NULL, say, NULL);
        before = http_open_descriptors();
        snprintf(list, sizeof list, "127.0.0.1:%d,%s,unix:/no/such/directory/socket 127.0.0.1:0", port, address);
        CU_ASSERT_EQUAL(weir_http_server_start(at.server, list), -ENOENT);
        HTTP_ASSERT_TEXT(
                heard.text,
                "0 cannot listen at unix:/no/such/directory/socket: there is no such file, name, entry or inherited socket");
        CU_ASSERT_EQUAL(weir_http_server_start(at.server, "127.0.0.1:0,nonsense"), -EINVAL);
        HTTP_ASSERT_TEXT(heard.text, "0 cannot listen at nonsense: an invalid value, or not allowed here "
                                     "(expected host:port, [v6]:port, unix:path, "
                                     "listen:, or fd:N of a socket that listens)");
        CU_ASSERT_EQUAL(weir_http_server_start(at.server, "127.0.0.1:65536"), -EINVAL);
        HTTP_ASSERT_TEXT(heard.text, "0 cannot listen at 127.0.0.1:65536: a port is a number from 0 to 65535");
        CU_ASSERT_EQUAL(weir_http_server_start(at.server, "a..b:80"), -EINVAL);
        HTTP_ASSERT_TEXT(heard.text, "0 cannot listen at a..b:80: the name of the host is not known");
        CU_ASSERT_EQUAL(weir_http_server_start(at.server, "listen:"), -ENOENT);
        HTTP_ASSERT_TEXT(heard.text, "0 cannot listen at listen:: no socket was inherited (LISTEN_FDS), or all are in use");
        CU_ASSERT_PTR_NOT_NULL(strstr(weir_strerror(-ENOENT), "inherited socket")); /* which programs say of it */
        snprintf(list, sizeof list, "fd:%d", file);
        CU_ASSERT_EQUAL(weir_http_server_start(at.server, list), -ENOTSOCK);
        snprintf(expected, sizeof expected, "0 cannot listen at fd:%d: the descriptor is no socket that listens", file);
        HTTP_ASSERT_TEXT(heard.text, expected);
        CU_ASSERT_EQUAL(weir_http_server_start(at.server, " ,"), -EINVAL);
        HTTP_ASSERT_TEXT(heard.text, "0 no address to listen at (expected host:port, [v6]:port, unix:path, listen:, or fd:N of a "
                                     "socket that listens)");
        heard.text[0] = '\0';
        CU_ASSERT_EQUAL(weir_http_server_start(at.server, NULL), -EINVAL);
        CU_ASSERT(strncmp(heard.text, "0 no address to listen at (", 27) == 0);
        CU_ASSERT_TRUE(is_refused(port));
        CU_ASSERT_FALSE(is_there());
        CU_ASSERT_EQUAL(http_open_descriptors(), before);
        CU_ASSERT_EQUAL(weir_http_server_fds(at.server, NULL, 0), -EDOM);
        CU_ASSERT_EQUAL(weir_http_server_start(at.server, address), 0);
        close(file);
        CU_ASSERT_EQUAL(weir_log_set(NULL, NULL), 0);
        end();
}

static void
every_client_of_a_shared_socket_is_served(void)
{
        enum { CLIENTS = 200 };
        struct http_client clients[CLIENTS];

        CU_ASSERT_EQUAL(begin(4, address), 0);
        for (int i = 0; i < 4; i++) {
                CU_ASSERT_EQUAL(weir__http_branch_at(at.server, i)->base.listener_count, 1);
                CU_ASSERT_TRUE(weir__http_branch_at(at.server, i)->base.listeners[0].is_shared);
        }
        for (int round = 0; round < 5; round++) {
                for (int i = 0; i < CLIENTS; i++) {
                        CU_ASSERT_TRUE(open_unix(&clients[i], path));
                        CU_ASSERT_TRUE(http_send_text(&clients[i], GET));
                }
                for (int i = 0; i < CLIENTS; i++) {
                        CU_ASSERT_TRUE(http_receive(&clients[i], &at.reply, false));
                        http_close(&clients[i]);
                }
        }
        end();
}

static void
a_socket_that_is_given_is_served_and_closed(void)
{
        struct sockaddr_in its = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        int fd = socket(AF_INET, SOCK_STREAM, 0);
        char number[32];

        snprintf(number, sizeof number, "fd:%d", fd);
        CU_ASSERT_EQUAL(begin(3, number), -EINVAL); /* it does not listen yet */
        CU_ASSERT_EQUAL(bind(fd, (struct sockaddr *)&its, sizeof its) | listen(fd, 16), 0);
        CU_ASSERT_EQUAL(weir_http_server_start(at.server, number), 0);
        at.port = weir_http_server_port(at.server);
        CU_ASSERT_EQUAL(at.port, port_of(fd));
        for (int i = 0; i < 20; i++) {
                CU_ASSERT_TRUE(answers(at.port, "old"));
        }
        CU_ASSERT_EQUAL(weir_http_server_stop(at.server, WEIR_SEC(5)), 0);
        CU_ASSERT(fcntl(fd, F_GETFD) < 0);
        CU_ASSERT_TRUE(is_refused(at.port));
        end();
}

static void
the_end_of_the_runtime_closes_shared_sockets_too(void)
{
        CU_ASSERT_EQUAL(begin(3, address), 0);
        weir_shutdown();
        CU_ASSERT_FALSE(answers(0, "old"));
        CU_ASSERT_EQUAL(weir_http_server_fds(at.server, NULL, 0), -EDOM);
        end();
        CU_ASSERT_FALSE(is_there());
        CU_ASSERT_EQUAL_FATAL(weir_init(NULL), 0);
}

/* -- successors -- */

static int
start_successor(const char *mode, const char *pollers, const char *list)
{
        char *arguments[] = {"addresses_test", (char *)mode, (char *)pollers, (char *)list, NULL};

        return weir_http_server_inherit(at.server, "/proc/self/exe", arguments, WEIR_TEST_PATIENCE);
}

static void
end_child(int pid)
{
        int status = 0;

        CU_ASSERT_FATAL(pid > 0);
        CU_ASSERT_EQUAL(kill(pid, SIGTERM), 0);
        CU_ASSERT_EQUAL(waitpid(pid, &status, 0), pid);
        CU_ASSERT_EQUAL(status, 0);
}

static void
another_process_takes_over(void)
{
        char list[160];

        snprintf(list, sizeof list, "127.0.0.1:0,%s", address);
        CU_ASSERT_EQUAL(begin(2, list), 0);
        int pid = start_successor("child", "2", list);
        CU_ASSERT(pid > 0);
        CU_ASSERT_EQUAL(weir_http_server_stop(at.server, WEIR_TEST_PATIENCE), 0);
        for (int i = 0; i < 20; i++) {
                CU_ASSERT_TRUE(answers(at.port, "child")); /* the same port, which it finds by itself */
                CU_ASSERT_TRUE(answers(0, "child"));
        }
        CU_ASSERT_TRUE(is_there());
        end_child(pid);
        CU_ASSERT_FALSE(is_there()); /* it is its own now */
        CU_ASSERT_TRUE(is_refused(at.port));
        end();
}

/* Each socket has its share of the connections: one that nobody watched would keep them for ever. */
static void
more_or_fewer_pollers_watch_all_sockets(void)
{
        static const char *const pollers[] = {"1", "2", "5"};
        enum { CLIENTS = 60 };

        for (size_t i = 0; i < sizeof pollers / sizeof *pollers; i++) {
                CU_ASSERT_EQUAL(begin(3, "127.0.0.1:0"), 0);
                int pid = start_successor("child", pollers[i], "127.0.0.1:0");
                CU_ASSERT_EQUAL(weir_http_server_stop(at.server, WEIR_TEST_PATIENCE), 0);
                for (int j = 0; j < CLIENTS; j++) {
                        CU_ASSERT_TRUE(answers(at.port, "child"));
                }
                end_child(pid);
                end();
        }
}

static void
an_address_that_was_given_up_is_closed(void)
{
        char list[160];

        snprintf(list, sizeof list, "127.0.0.1:0,%s", address);
        CU_ASSERT_EQUAL(begin(2, list), 0);
        int pid = start_successor("less", "2", "127.0.0.1:0");
        CU_ASSERT_EQUAL(weir_http_server_stop(at.server, WEIR_TEST_PATIENCE), 0);
        CU_ASSERT_TRUE(answers(at.port, "child"));
        CU_ASSERT_FALSE(answers(0, "child"));
        end_child(pid);
        end();
        unlink(path);
}

static void
a_process_that_does_not_serve_changes_nothing(void)
{
        char *at_once[] = {"false", NULL}, *never[] = {"sleep", "100", NULL};

        CU_ASSERT_EQUAL(begin(2, address), 0);
        CU_ASSERT_EQUAL(weir_http_server_inherit(at.server, "/no/such/program", at_once, WEIR_FOREVER), -ENOENT);
        CU_ASSERT_EQUAL(weir_http_server_inherit(at.server, directory, at_once, WEIR_FOREVER), -EACCES);
        CU_ASSERT_EQUAL(weir_http_server_inherit(at.server, "/bin/false", at_once, WEIR_FOREVER), -EPIPE);
        CU_ASSERT_EQUAL(weir_http_server_inherit(at.server, "/bin/sleep", never, WEIR_MSEC(50)), -ETIMEDOUT);
        CU_ASSERT_EQUAL(weir_http_server_inherit(at.server, "/bin/sleep", never, 0), -ETIMEDOUT);
        CU_ASSERT_EQUAL(start_successor("child", "2", "127.0.0.1:99999"), -EPIPE);
        CU_ASSERT_EQUAL(waitpid(-1, NULL, WNOHANG), -1); /* none is left, dead or alive */
        CU_ASSERT_EQUAL(errno, ECHILD);
        CU_ASSERT_TRUE(answers(0, "old"));
        CU_ASSERT_EQUAL(weir_http_server_stop(at.server, WEIR_SEC(5)), 0);
        CU_ASSERT_FALSE(is_there());
        end();
}

static void
misuse_is_refused(void)
{
        char *arguments[] = {"false", NULL}, *none[] = {NULL};

        CU_ASSERT_EQUAL(begin(2, "127.0.0.1:0"), 0);
        CU_ASSERT_EQUAL(weir_http_server_inherit(NULL, "/bin/false", arguments, 0), -EINVAL);
        CU_ASSERT_EQUAL(weir_http_server_inherit(at.server, NULL, arguments, 0), -EINVAL);
        CU_ASSERT_EQUAL(weir_http_server_inherit(at.server, "/bin/false", NULL, 0), -EINVAL);
        CU_ASSERT_EQUAL(weir_http_server_inherit(at.server, "/bin/false", none, 0), -EINVAL);
        CU_ASSERT_EQUAL(weir_http_server_fds(NULL, NULL, 0), -EINVAL);
        CU_ASSERT_EQUAL(weir_http_server_fds(at.server, NULL, 1), -EINVAL);
        CU_ASSERT_EQUAL(weir_http_server_ready(), 0); /* nobody waits */
        CU_ASSERT_EQUAL(weir_http_server_stop(at.server, 0), 0);
        CU_ASSERT_EQUAL(weir_http_server_fds(at.server, NULL, 0), -EDOM);
        CU_ASSERT_EQUAL(weir_http_server_inherit(at.server, "/bin/false", arguments, 0), -EDOM);
        end();
}

static void
expect_no_waiting(void)
{
        char *arguments[] = {"false", NULL};

        CU_ASSERT_EQUAL(weir_http_server_fds(at.server, NULL, 0), -EDEADLK);
        CU_ASSERT_EQUAL(weir_http_server_inherit(at.server, "/bin/false", arguments, 0), -EDEADLK);
        CU_ASSERT_EQUAL(weir_http_server_ready(), -EDEADLK);
        CU_ASSERT_EQUAL(weir_http_server_start(at.server, "127.0.0.1:0"), -EDEADLK);
        CU_ASSERT_EQUAL(weir_http_server_stop(at.server, 0), -EDEADLK);
        weir_http_server_free(NULL);
}

static void
call_what_waits(weir_task *exchange, void *context)
{
        (void)context;
        expect_no_waiting();
        CU_ASSERT_EQUAL(weir_blocking_begin(), 0);
        expect_no_waiting();
        weir_blocking_end();
        weir_http_reply_text(exchange, 200, "refused");
}

static void
a_worker_is_refused_what_would_wait(void)
{
        at.server = http_server(NULL, call_what_waits, NULL);
        CU_ASSERT_TRUE(answers(weir_http_server_port(at.server), "refused"));
        end();
}

/* -- connections that have not brought their first request -- */

static void *
stop_main(void *argument)
{
        (void)argument;
        CU_ASSERT_EQUAL(weir_http_server_stop(at.server, WEIR_TEST_PATIENCE), 0);
        return NULL;
}

/* Connects, and sends the request only when the server stops. */
static bool
ask_late(bool has_successor, bool used)
{
        pthread_t thread;
        bool answered;

        CU_ASSERT_EQUAL_FATAL(begin(1, "127.0.0.1:0"), 0);
        http_open(&at.client, at.port);
        WEIR_TEST_EVENTUALLY(atomic_load(&at.server->base.connections) == 1);
        CU_ASSERT(!used || http_ask(&at.client, GET, &at.reply));
        at.server->base.has_successor = has_successor;
        CU_ASSERT_EQUAL_FATAL(pthread_create(&thread, NULL, stop_main, NULL), 0);
        WEIR_TEST_EVENTUALLY(is_refused(at.port) && atomic_load(&at.server->base.orders_left) == 0); /* it has looked at it */
        answered = http_ask(&at.client, GET, &at.reply);
        CU_ASSERT_EQUAL(pthread_join(thread, NULL), 0);
        http_close(&at.client);
        end();
        return answered;
}

static void
with_a_successor_a_new_connection_has_time_for_its_request(void)
{
        bool answered = false;

        for (int i = 0; i < 10 && !answered; i++) { /* a machine that stands still may take the second */
                answered = ask_late(true, false);
        }
        CU_ASSERT_TRUE(answered);
        CU_ASSERT_FALSE(ask_late(true, true)); /* its client knows that it may end between requests */
        CU_ASSERT_FALSE(ask_late(false, false));
}

static struct weir_test_latch entered, released;

static void
hold_the_worker(weir_task *exchange, void *context)
{
        say(exchange, context);
        weir_test_latch_count_down(&entered);
        weir_test_latch_wait(&released);
}

/* The only worker is busy, and nobody takes its place, while a client comes and the stop is ordered. */
static void
requests_in_the_socket_at_a_stop_are_answered(void)
{
        struct weir_config config = WEIR_CONFIG_DEFAULT;
        struct http_client late;
        pthread_t thread;

        weir_test_latch_init(&entered, 2);
        weir_test_latch_init(&released, 1);
        config.pollers = 1;
        config.blocking_limit = WEIR_FOREVER;
        weir_shutdown();
        CU_ASSERT_EQUAL_FATAL(weir_init(&config), 0);
        at.server = http_server(NULL, hold_the_worker, NULL);
        http_open(&at.client, weir_http_server_port(at.server));
        CU_ASSERT_TRUE(http_send_text(&at.client, GET));
        WEIR_TEST_EVENTUALLY(weir_test_latch_count(&entered) == 1);
        http_open(&late, weir_http_server_port(at.server)); /* not accepted yet */
        CU_ASSERT_TRUE(http_send_text(&late, GET));
        CU_ASSERT_EQUAL_FATAL(pthread_create(&thread, NULL, stop_main, NULL), 0);
        WEIR_TEST_EVENTUALLY(atomic_load(&at.server->base.orders_left) == 1);
        weir_test_latch_count_down(&released);
        CU_ASSERT_TRUE(http_receive(&at.client, &at.reply, false));
        CU_ASSERT_TRUE(http_receive(&late, &at.reply, false));
        CU_ASSERT_EQUAL(pthread_join(thread, NULL), 0);
        http_close(&at.client);
        http_close(&late);
        end();
}

/* -- SIGUSR2 -- */

static void *
serve_main(void *argument)
{
        CU_ASSERT_EQUAL(weir_http_serve(address, say, argument), 0);
        return NULL;
}

static void
sigusr2_is_taken_only_when_it_is_free(void)
{
        const struct sigaction uses[] = {{.sa_handler = SIG_IGN}, {.sa_handler = SIG_DFL}};
        struct sigaction during, after;
        pthread_t thread;

        for (int i = 0; i < 2; i++) {
                sigaction(SIGUSR2, &uses[i], NULL);
                CU_ASSERT_EQUAL_FATAL(pthread_create(&thread, NULL, serve_main, NULL), 0);
                WEIR_TEST_EVENTUALLY(answers(0, "old"));
                sigaction(SIGUSR2, NULL, &during);
                CU_ASSERT_EQUAL(during.sa_handler == uses[i].sa_handler, i == 0);
                CU_ASSERT_EQUAL(kill(getpid(), SIGTERM), 0);
                CU_ASSERT_EQUAL(pthread_join(thread, NULL), 0);
                sigaction(SIGUSR2, NULL, &after);
                CU_ASSERT(after.sa_handler == uses[i].sa_handler);
        }
        http_reply_done(&at.reply);
}

/* -- the other process -- */

static int
be_child(char *arguments[])
{
        static char text[] = "child";
        struct weir_config config = WEIR_CONFIG_DEFAULT;
        int passed = atoi(getenv("LISTEN_FDS")), number;
        sigset_t end_signal;

        sigemptyset(&end_signal);
        sigaddset(&end_signal, SIGTERM);
        sigprocmask(SIG_BLOCK, &end_signal, NULL);
        config.pollers = (unsigned)atoi(arguments[2]);
        weir_log_set(NULL, NULL);
        if (weir_init(&config) != 0) {
                return 2;
        }
        weir_http_server *server = weir_http_server_new(NULL, say, text);
        if (weir_http_server_start(server, arguments[3]) != 0) {
                weir_http_server_free(server);
                return 3;
        }
        if (strcmp(arguments[1], "less") == 0 && weir_http_server_ready() != 1) {
                return 4;
        }
        if (strcmp(arguments[1], "child") == 0 && weir_http_server_fds(server, NULL, 0) != passed) {
                return 6; /* one that nobody watches is closed */
        }
        sigwait(&end_signal, &number);
        weir_http_server_free(server);
        return getenv("LISTEN_FDS") ? 5 : 0;
}

int
main(int argc, char *argv[])
{
        static const struct weir_test tests[] = {
                WEIR_TEST(it_serves_at_several_addresses_at_once),
                WEIR_TEST(a_server_without_tcp_has_no_port),
                WEIR_TEST(all_or_nothing_and_it_says_which),
                WEIR_TEST(every_client_of_a_shared_socket_is_served),
                WEIR_TEST(a_socket_that_is_given_is_served_and_closed),
                WEIR_TEST(the_end_of_the_runtime_closes_shared_sockets_too),
                WEIR_TEST(another_process_takes_over),
                WEIR_TEST(more_or_fewer_pollers_watch_all_sockets),
                WEIR_TEST(an_address_that_was_given_up_is_closed),
                WEIR_TEST(a_process_that_does_not_serve_changes_nothing),
                WEIR_TEST(misuse_is_refused),
                WEIR_TEST(a_worker_is_refused_what_would_wait),
                WEIR_TEST(with_a_successor_a_new_connection_has_time_for_its_request),
                WEIR_TEST(requests_in_the_socket_at_a_stop_are_answered),
                WEIR_TEST(sigusr2_is_taken_only_when_it_is_free),
        };

        if (argc == 4) {
                return be_child(argv);
        }
        if (!mkdtemp(directory)) {
                perror(directory);
                return 1;
        }
        snprintf(path, sizeof path, "%s/socket", directory);
        snprintf(address, sizeof address, "unix:%s", path);
        int failed = weir_test_main("addresses", tests, sizeof tests / sizeof *tests);
        rmdir(directory);
        return failed;
}
