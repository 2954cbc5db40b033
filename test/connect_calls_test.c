/* test/connect_calls_test.c: which calls of the system a connect of a stream makes, and a request on a connection of its own, and
 * what they find when the peer is faster than the event. */
#include <sys/epoll.h>

#include "test/fixture.h"
#include "test/stream_fixture.h"

/* -- system calls, which the linker replaces (test/CMakeLists.txt) -- */

static struct {
        _Atomic unsigned names, peers, errors, reads, registrations, finishes;
} calls;

static enum then { THEN_NOTHING, THEN_SEND, THEN_FINISH, THEN_RESET, THEN_RESPOND } then; /* before connect returns, the peer */
static bool to_itself;   /* connect binds its end to the other one's address */
static bool has_no_name; /* getsockname fails */
static bool is_listening;
static int listener = -1;

int __real_connect(int fd, const struct sockaddr *address, socklen_t size);
int __wrap_connect(int fd, const struct sockaddr *address, socklen_t size);
int __real_getsockopt(int fd, int level, int option, void *value, socklen_t *size);
int __wrap_getsockopt(int fd, int level, int option, void *value, socklen_t *size);
int __real_getpeername(int fd, struct sockaddr *its, socklen_t *size);
int __wrap_getpeername(int fd, struct sockaddr *its, socklen_t *size);
int __real_getsockname(int fd, struct sockaddr *own, socklen_t *size);
int __wrap_getsockname(int fd, struct sockaddr *own, socklen_t *size);
ssize_t __real_recv(int fd, void *data, size_t size, int flags);
ssize_t __wrap_recv(int fd, void *data, size_t size, int flags);
int __real_shutdown(int fd, int how);
int __wrap_shutdown(int fd, int how);
int __real_epoll_ctl(int epoll, int operation, int fd, struct epoll_event *event);
int __wrap_epoll_ctl(int epoll, int operation, int fd, struct epoll_event *event);

#define RESPONSE "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nab"

static void
take_peer(void)
{
        const struct linger at_once = {.l_onoff = 1};

        peer = accept(listener, NULL, NULL);
        if (then == THEN_SEND && write(peer, "x", 1) != 1)
                peer = -1;
        if (then == THEN_RESPOND && write(peer, RESPONSE, sizeof RESPONSE - 1) != sizeof RESPONSE - 1)
                peer = -1;
        if (then == THEN_FINISH || then == THEN_RESPOND)
                __real_shutdown(peer, SHUT_WR);
        if (then == THEN_RESET) {
                setsockopt(peer, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
                close(peer);
                peer = -1;
        }
}

int
__wrap_connect(int fd, const struct sockaddr *address, socklen_t size)
{
        if (to_itself && bind(fd, address, size) < 0)
                return -1;
        int result = __real_connect(fd, address, size), error = errno;
        if (then)
                take_peer();
        errno = error;
        return result;
}

int
__wrap_getsockopt(int fd, int level, int option, void *value, socklen_t *size)
{
        calls.errors += option == SO_ERROR;
        return __real_getsockopt(fd, level, option, value, size);
}

int
__wrap_getpeername(int fd, struct sockaddr *its, socklen_t *size)
{
        calls.peers++;
        return __real_getpeername(fd, its, size);
}

int
__wrap_getsockname(int fd, struct sockaddr *own, socklen_t *size)
{
        calls.names++;
        if (!has_no_name || !is_listening)
                return __real_getsockname(fd, own, size);
        errno = ENOBUFS;
        return -1;
}

ssize_t
__wrap_recv(int fd, void *data, size_t size, int flags)
{
        calls.reads++;
        return __real_recv(fd, data, size, flags);
}

int
__wrap_shutdown(int fd, int how)
{
        calls.finishes++;
        return __real_shutdown(fd, how);
}

int
__wrap_epoll_ctl(int epoll, int operation, int fd, struct epoll_event *event)
{
        calls.registrations++;
        return __real_epoll_ctl(epoll, operation, fd, event);
}

/* -- the tests -- */

static _Atomic int connect_status, read_status, write_status; /* 1: not over */
static char got;

static void
connected(weir_task *task, void *nothing)
{
        (void)nothing;
        stream = weir_connect_take_stream(task);
        connect_status = weir_task_status(task);
}

static void
was_read(weir_task *task, void *nothing)
{
        size_t size;
        const char *data = weir_stream_data(task, &size);

        (void)nothing;
        got = size ? *data : '\0';
        read_status = weir_task_status(task);
}

static void
was_written(weir_task *task, void *nothing)
{
        (void)nothing;
        write_status = weir_task_status(task);
}

/* Returns the status. */
static int
connect_to_listener(void)
{
        char address[64];

        weir_test_begin_real(1);
        listener = listen_here(address);
        if (to_itself)
                close(listener);
        is_listening = true;
        memset(&calls, 0, sizeof calls);
        connect_status = read_status = write_status = 1;
        CU_ASSERT_EQUAL(weir_task_start(weir_connect_new(address, connected, NULL)), 0);
        WEIR_TEST_EVENTUALLY(connect_status != 1);
        return connect_status;
}

static void
finish(void)
{
        weir_stream_unref(stream);
        stream = NULL;
        weir_test_end();
        if (peer >= 0)
                close(peer);
        if (!to_itself)
                close(listener);
        peer = -1;
        then = THEN_NOTHING;
        is_listening = to_itself = has_no_name = false;
}

static void
start_read(void)
{
        CU_ASSERT_EQUAL(weir_task_start(weir_stream_read_new(stream, 1, 1, was_read, NULL)), 0);
}

/* The ports have to be compared, and nothing is read before something has come. */
static void
a_connect_asks_the_system_once(void)
{
        CU_ASSERT_EQUAL(connect_to_listener(), 0);
        CU_ASSERT_EQUAL(calls.names, 1);
        CU_ASSERT_EQUAL(calls.peers + calls.errors, 0);
        CU_ASSERT_EQUAL(calls.registrations, 1);
        start_read();
        CU_ASSERT_EQUAL(weir_task_start(weir_stream_write_lent_new(stream, "z", 1, was_written, NULL)), 0);
        WEIR_TEST_EVENTUALLY(write_status != 1); /* so the read, which was started first, waits */
        CU_ASSERT_EQUAL(calls.reads, 0);
        take_peer();
        CU_ASSERT_EQUAL(write(peer, "y", 1), 1);
        WEIR_TEST_EVENTUALLY(read_status != 1);
        CU_ASSERT_EQUAL(read_status, 0);
        CU_ASSERT_EQUAL(got, 'y');
        CU_ASSERT_EQUAL(calls.reads, 1);
        finish();
}

static void
what_comes_with_the_event_is_read(void)
{
        then = THEN_SEND;
        CU_ASSERT_EQUAL(connect_to_listener(), 0);
        start_read();
        WEIR_TEST_EVENTUALLY(read_status != 1);
        CU_ASSERT_EQUAL(read_status, 0);
        CU_ASSERT_EQUAL(got, 'x');
        CU_ASSERT_EQUAL(calls.reads, 1);
        finish();
}

static void
a_peer_that_has_finished_already_is_connected(void)
{
        then = THEN_FINISH;
        CU_ASSERT_EQUAL(connect_to_listener(), 0);
        start_read();
        WEIR_TEST_EVENTUALLY(read_status != 1);
        CU_ASSERT_EQUAL(read_status, -EPIPE);
        finish();
}

static void
a_reset_before_the_event_is_told(void)
{
        then = THEN_RESET;
        CU_ASSERT_EQUAL(connect_to_listener(), -ECONNRESET);
        finish();
}

static void
a_connection_to_itself_is_refused(void)
{
        to_itself = true;
        CU_ASSERT_EQUAL(connect_to_listener(), -ECONNREFUSED);
        finish();
}

static void
a_socket_that_cannot_be_asked_for_its_name_is_connected(void)
{
        has_no_name = true;
        CU_ASSERT_EQUAL(connect_to_listener(), 0);
        finish();
}

/* -- requests -- */

static _Atomic int request_status; /* 1: not over */

static void
was_asked(weir_task *task, void *nothing)
{
        (void)nothing;
        request_status = weir_task_status(task) ? weir_task_status(task) : weir_http_response_status(task) == 200 ? 0 : -EPROTO;
}

static void
begin_request(weir_client **client)
{
        struct weir_client_config config = WEIR_CLIENT_CONFIG_DEFAULT;
        char address[64], url[80];

        weir_test_begin_real(1);
        listener = listen_here(address);
        snprintf(url, sizeof url, "http://%s/", address);
        memset(&calls, 0, sizeof calls);
        request_status = 1;
        *client = weir_client_new(&config);
        CU_ASSERT_EQUAL(weir_task_start(weir_client_request_new(*client, "GET", url, was_asked, NULL)), 0);
}

/* Reads until the client has closed its end. */
static void
end_request(weir_client *client)
{
        char byte;

        WEIR_TEST_EVENTUALLY(request_status != 1);
        CU_ASSERT_EQUAL(request_status, 0);
        while (read(peer, &byte, 1) > 0)
                continue;
        weir_client_unref(client);
        finish();
}

/* The server closes behind its response, and is not waited for. */
static void
a_last_response_is_read_once(void)
{
        weir_client *client;
        char request[512];

        begin_request(&client);
        take_peer();
        CU_ASSERT(read(peer, request, sizeof request) > 0);
        CU_ASSERT_EQUAL(write(peer, RESPONSE, sizeof RESPONSE - 1), sizeof RESPONSE - 1);
        end_request(client);
        CU_ASSERT_EQUAL(calls.reads, 1);
        CU_ASSERT_EQUAL(calls.finishes, 0);
}

static void
a_server_that_has_finished_is_left_at_once(void)
{
        weir_client *client;

        then = THEN_RESPOND;
        begin_request(&client);
        end_request(client);
        CU_ASSERT_EQUAL(calls.reads, 2);
        CU_ASSERT_EQUAL(calls.finishes, 0);
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(a_connect_asks_the_system_once),
                WEIR_TEST(what_comes_with_the_event_is_read),
                WEIR_TEST(a_peer_that_has_finished_already_is_connected),
                WEIR_TEST(a_reset_before_the_event_is_told),
                WEIR_TEST(a_connection_to_itself_is_refused),
                WEIR_TEST(a_socket_that_cannot_be_asked_for_its_name_is_connected),
                WEIR_TEST(a_last_response_is_read_once),
                WEIR_TEST(a_server_that_has_finished_is_left_at_once),
        };

        return weir_test_main("connect_calls", tests, sizeof tests / sizeof *tests);
}
