/* test/server_faults_test.c: system calls of the server that fail, one after another, each with what its manual names.
 *
 * The linker puts the functions below in front of the system's (test/CMakeLists.txt).  They let a call that a test has
 * chosen fail, where a worker makes it, and count all of them.
 *
 * A scenario is played again and again, each time with the next call of a kind failing, and perhaps many after it, until it needs
 * no more of them.  Each time the client gets the right reply, or, where the error is a real one, another reply or the end of the
 * connection; the next client is served; no descriptor and no connection is left; and there were not many calls.
 *
 * The system reports once that a socket is ready.  So after an invented EAGAIN, or a short result without a reason, the
 * socket is made to report again.  An error that ends the connection really ends it. */
#include <stdarg.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "kernel/worker/worker.h"
#include "test/body_fixture.h"
#include "test/tls_peer.h"

enum call {
        ACCEPT,
        RECV,
        SEND,
        SENDMSG,
        SENDFILE,
        PREAD,
        EPOLL_ADD,
        EPOLL_WAIT,
        OPEN,
        OPENAT2,
        FSTAT,
        IOCTL,
        SHUTDOWN,
        CLOSE,
        CALLS
};

#define BYTE      (-1)   /* no error: one byte is done */
#define HEAD      (-2)   /* no error: the first piece and one byte are done */
#define MANY      40     /* calls that fail in a row */
#define ALL       100000 /* the same without an end */
#define BOUND     4000   /* calls that a scenario may need */
#define FDS       1024
#define FILE_SIZE ((size_t)100 * 1024)

struct kind {
        const char *name;
        bool is_harmless; /* the client does not notice, whatever the error is */
        int lasting[9];   /* errors, after which the client may be without its reply */
        int passing[3];   /* errors that are no reason for that */
};

static const struct kind kinds[CALLS] = {
        [ACCEPT] = {"accept4", false, {ECONNABORTED, EPROTO, ENETDOWN, EHOSTUNREACH, ETIMEDOUT}, {EINTR, EAGAIN}},
        [RECV] = {"recv", false, {ECONNRESET, ENOMEM, ETIMEDOUT, EIO}, {EINTR, EAGAIN, BYTE}},
        [SEND] = {"send", false, {EPIPE, ECONNRESET, ENOBUFS, ENOMEM, ETIMEDOUT}, {EINTR, EAGAIN, BYTE}},
        [SENDMSG] = {"sendmsg", false, {EPIPE, ECONNRESET, ENOBUFS, ENOMEM, ETIMEDOUT}, {EINTR, EAGAIN, BYTE}},
        [SENDFILE] = {"sendfile", false, {EPIPE, ECONNRESET, EIO, ENOMEM}, {EINTR, EAGAIN, BYTE}},
        [PREAD] = {"pread", false, {EIO, ENOMEM}, {EINTR, BYTE}},
        [EPOLL_ADD] = {"epoll_ctl", false, {ENOMEM, ENOSPC, EPERM}, {0}},
        [EPOLL_WAIT] = {"epoll_wait", false, {0}, {EINTR}},
        [OPEN] = {"open", false, {EMFILE, ENFILE, ENOMEM, EACCES, EIO}, {0}},
        [OPENAT2] = {"openat2", false, {EMFILE, ENFILE, ENOMEM, EIO}, {EINTR, EAGAIN, ENOSYS}},
        [FSTAT] = {"fstat", false, {ENOMEM, EIO}, {0}},
        [IOCTL] = {"ioctl", true, {EIO, ENOTCONN}, {EINTR}},
        [SHUTDOWN] = {"shutdown", true, {ENOTCONN, ENOBUFS}, {0}},
        [CLOSE] = {"close", true, {EIO, ENOSPC}, {EINTR}},
};

/* The chosen fault.  Written while `armed` is not set. */
static struct {
        enum call call;
        int error;
        int64_t row; /* so many fail */
} fault;

static atomic_bool armed;
static _Atomic int64_t left;                /* calls until the first that fails; below 0: it has */
static _Atomic int64_t failed;              /* calls */
static _Atomic int64_t made, needed[CALLS]; /* calls, while armed */
static _Atomic uint64_t watchers[FDS];      /* by descriptor: what watches it, and for which events */
static _Atomic uint64_t keys[FDS];

/* Whether this call is to fail; errno says how, 0 for a single byte. */
static bool
fails(enum call call)
{
        if (!atomic_load(&armed) || !weir__worker_self()) {
                return false;
        }
        atomic_fetch_add(&made, 1);
        atomic_fetch_add(&needed[call], 1);
        if (call != fault.call) {
                return false;
        }
        int64_t before = atomic_fetch_sub(&left, 1);
        if (before > 0 || before <= -fault.row) {
                return false;
        }
        atomic_fetch_add(&failed, 1);
        errno = fault.error < 0 ? 0 : fault.error;
        return true;
}

int __real_accept4(int fd, struct sockaddr *address, socklen_t *size, int flags);
ssize_t __real_recv(int fd, void *data, size_t size, int flags);
ssize_t __real_send(int fd, const void *data, size_t size, int flags);
ssize_t __real_sendmsg(int fd, const struct msghdr *message, int flags);
ssize_t __real_sendfile(int to, int from, off_t *offset, size_t size);
ssize_t __real_pread(int fd, void *data, size_t size, off_t offset);
int __real_epoll_ctl(int epoll_fd, int operation, int fd, struct epoll_event *event);
int __real_epoll_wait(int epoll_fd, struct epoll_event *events, int room, int timeout);
int __real_open(const char *path, int flags, ...);
long __real_syscall(long number, ...);
int __real_fstat(int fd, struct stat *status);
int __real_ioctl(int fd, unsigned long request, ...);
int __real_shutdown(int fd, int how);
int __real_close(int fd);

int __wrap_accept4(int fd, struct sockaddr *address, socklen_t *size, int flags);
ssize_t __wrap_recv(int fd, void *data, size_t size, int flags);
ssize_t __wrap_send(int fd, const void *data, size_t size, int flags);
ssize_t __wrap_sendmsg(int fd, const struct msghdr *message, int flags);
ssize_t __wrap_sendfile(int to, int from, off_t *offset, size_t size);
ssize_t __wrap_pread(int fd, void *data, size_t size, off_t offset);
int __wrap_epoll_ctl(int epoll_fd, int operation, int fd, struct epoll_event *event);
int __wrap_epoll_wait(int epoll_fd, struct epoll_event *events, int room, int timeout);
int __wrap_open(const char *path, int flags, ...);
long __wrap_syscall(long number, ...);
int __wrap_fstat(int fd, struct stat *status);
int __wrap_ioctl(int fd, unsigned long request, ...);
int __wrap_shutdown(int fd, int how);
int __wrap_close(int fd);

/* Makes the meaning of the error true: the connection is no more, or the descriptor reports again what it is ready for. */
static void
make_true(int fd)
{
        int error = errno;

        if (error == EPIPE || error == ECONNRESET || error == ETIMEDOUT) {
                __real_shutdown(fd, SHUT_RDWR);
        }
        uint64_t watcher = atomic_load(&watchers[fd]);
        struct epoll_event event = {.events = (uint32_t)watcher, .data.u64 = atomic_load(&keys[fd])};

        if (watcher && (error == EAGAIN || error == 0) && !(event.events & EPOLLEXCLUSIVE)) {
                CU_ASSERT_EQUAL(__real_epoll_ctl((int)(watcher >> 32), EPOLL_CTL_MOD, fd, &event), 0);
        }
        errno = error;
}

static bool
takes_its_connection(int error)
{
        return error != EINTR && error != EAGAIN && error != EMFILE && error != ENFILE && error != ENOMEM && error != ENOBUFS &&
               error != EPERM;
}

int
__wrap_accept4(int fd, struct sockaddr *address, socklen_t *size, int flags)
{
        if (!fails(ACCEPT)) {
                return __real_accept4(fd, address, size, flags);
        }
        int error = errno;
        if (takes_its_connection(error)) {
                int taken = __real_accept4(fd, address, size, flags);

                if (taken < 0) {
                        return taken;
                }
                __real_close(taken);
        }
        errno = error;
        if (error == EAGAIN) {
                make_true(fd);
        }
        return -1;
}

ssize_t
__wrap_recv(int fd, void *data, size_t size, int flags)
{
        if (!fails(RECV)) {
                return __real_recv(fd, data, size, flags);
        }
        make_true(fd);
        return errno ? -1 : __real_recv(fd, data, size ? 1 : 0, flags);
}

ssize_t
__wrap_send(int fd, const void *data, size_t size, int flags)
{
        if (!fails(SEND)) {
                return __real_send(fd, data, size, flags);
        }
        make_true(fd);
        return errno ? -1 : __real_send(fd, data, size ? 1 : 0, flags);
}

ssize_t
__wrap_sendmsg(int fd, const struct msghdr *message, int flags)
{
        if (!fails(SENDMSG)) {
                return __real_sendmsg(fd, message, flags);
        }
        make_true(fd);
        if (fault.error == HEAD) {
                struct iovec pieces[2] = {message->msg_iov[0], {message->msg_iov[1].iov_base, 1}};
                const struct msghdr start = {.msg_iov = pieces, .msg_iovlen = 2};
                int room = 2 * (int)FILE_SIZE;

                CU_ASSERT_EQUAL(setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &room, sizeof room), 0);
                return __real_sendmsg(fd, &start, flags);
        }
        return errno ? -1 : __real_send(fd, message->msg_iov->iov_base, 1, flags);
}

ssize_t
__wrap_sendfile(int to, int from, off_t *offset, size_t size)
{
        if (!fails(SENDFILE)) {
                return __real_sendfile(to, from, offset, size);
        }
        make_true(to);
        return errno ? -1 : __real_sendfile(to, from, offset, 1);
}

ssize_t
__wrap_pread(int fd, void *data, size_t size, off_t offset)
{
        if (!fails(PREAD)) {
                return __real_pread(fd, data, size, offset);
        }
        return errno ? -1 : __real_pread(fd, data, 1, offset);
}

int
__wrap_epoll_ctl(int epoll_fd, int operation, int fd, struct epoll_event *event)
{
        if (operation == EPOLL_CTL_ADD && fails(EPOLL_ADD)) {
                return -1;
        }
        if (operation == EPOLL_CTL_ADD && fd < FDS) {
                atomic_store(&keys[fd], event->data.u64);
                atomic_store(&watchers[fd], (uint64_t)epoll_fd << 32 | event->events);
        }
        return __real_epoll_ctl(epoll_fd, operation, fd, event);
}

int
__wrap_epoll_wait(int epoll_fd, struct epoll_event *events, int room, int timeout)
{
        return fails(EPOLL_WAIT) ? -1 : __real_epoll_wait(epoll_fd, events, room, timeout);
}

int
__wrap_open(const char *path, int flags, ...)
{
        va_list arguments;

        va_start(arguments, flags);
        int mode = flags & O_CREAT ? va_arg(arguments, int) : 0;
        va_end(arguments);
        return fails(OPEN) ? -1 : __real_open(path, flags, mode);
}

long
__wrap_syscall(long number, ...)
{
        va_list arguments;
        long given[6];

        va_start(arguments, number);
        for (int i = 0; i < 6; i++) {
                given[i] = va_arg(arguments, long);
        }
        va_end(arguments);
        if (number == SYS_openat2 && fails(OPENAT2)) {
                return -1;
        }
        return __real_syscall(number, given[0], given[1], given[2], given[3], given[4], given[5]);
}

int
__wrap_fstat(int fd, struct stat *status)
{
        return fails(FSTAT) ? -1 : __real_fstat(fd, status);
}

int
__wrap_ioctl(int fd, unsigned long request, ...)
{
        va_list arguments;

        va_start(arguments, request);
        void *argument = va_arg(arguments, void *);
        va_end(arguments);
        return fails(IOCTL) ? -1 : __real_ioctl(fd, request, argument);
}

int
__wrap_shutdown(int fd, int how)
{
        return fails(SHUTDOWN) ? -1 : __real_shutdown(fd, how);
}

/* The descriptor is gone, whatever Linux says. */
int
__wrap_close(int fd)
{
        if (!fails(CLOSE)) {
                return __real_close(fd);
        }
        int error = errno;
        __real_close(fd);
        errno = error;
        return -1;
}

/* -- handlers -- */

#define TEN "0123456789"

static char directory[] = "/tmp/weir-faults-test-XXXXXX";
static char *large; /* what is in the file */

static void
reply_body(weir_task *exchange, void *context)
{
        size_t size;
        const void *body = weir_http_request_body(exchange, &size);

        (void)context;
        weir_http_reply_append(exchange, body, size);
}

static void read_next(weir_task *write, void *context);

static void
write_piece(weir_task *read, void *context)
{
        size_t size = 0;
        const void *data = weir_http_read_data(read, &size);

        if (weir_task_status(read)) {
                weir_series_cancel(weir_series_of(read));
        } else if (size > 0) {
                weir_series_push(weir_series_of(read), weir_http_write_new(context, data, size, read_next, context));
        }
}

static void
read_next(weir_task *write, void *context)
{
        if (weir_task_status(write)) {
                weir_series_cancel(weir_series_of(write));
        } else {
                weir_series_push(weir_series_of(write), weir_http_read_new(context, write_piece, context));
        }
}

static void
echo_pieces(weir_task *exchange, void *context)
{
        (void)context;
        if (!weir_http_request_header(exchange, "Upgrade") || weir_http_reply_upgrade(exchange, "echo")) {
                weir_series_push(weir_series_of(exchange), weir_http_write_new(exchange, NULL, 0, read_next, exchange));
        } else {
                weir_series_push(weir_series_of(exchange), weir_http_read_new(exchange, write_piece, exchange));
        }
}

static void
reply_large(weir_task *exchange, void *context)
{
        (void)context;
        weir_http_reply_append(exchange, large, FILE_SIZE);
}

/* The head does not fit into the scratch buffer, and the body has no memory of its own. */
static void
reply_large_head(weir_task *exchange, void *context)
{
        (void)context;
        CU_ASSERT_EQUAL(weir_http_reply_header(exchange, "X-Large", large), 0);
        CU_ASSERT_EQUAL(weir_http_reply_text(exchange, 200, TEN), 0);
}

static void
reply_file(weir_task *exchange, void *context)
{
        (void)context;
        weir_http_reply_file(exchange, directory, "file");
}

/* -- scenarios -- */

struct scenario {
        const char *name, *request, *rest; /* the rest comes later */
        unsigned replies;
        bool is_large, is_secure, streams;
        weir_task_fn *handler;
        uint32_t calls; /* which it needs */
};

#define BIT(call) (UINT32_C(1) << (call))
#define ALWAYS    (BIT(ACCEPT) | BIT(RECV) | BIT(EPOLL_ADD) | BIT(EPOLL_WAIT) | BIT(CLOSE))
#define LENGTH    POST "Content-Length: 10\r\n\r\n"

static const struct scenario scenarios[] = {
        {"keep-alive", LENGTH "01234", "56789" LENGTH TEN, 2, false, false, false, reply_body, ALWAYS | BIT(SEND)},
        {"pipelined", LENGTH TEN LENGTH TEN LENGTH TEN LENGTH "01234", "56789", 4, false, false, false, reply_body,
         ALWAYS | BIT(SEND)},
        {"closes", POST "Connection: close\r\nContent-Length: 10\r\n\r\n01234", "56789", 1, false, false, false, reply_body,
         ALWAYS | BIT(SEND) | BIT(SHUTDOWN)},
        {"streamed", CHUNKED "5\r\n01234", "\r\n5\r\n56789\r\n" LAST_CHUNK, 1, false, false, true, echo_pieces,
         ALWAYS | BIT(SEND)},
        {"upgrade", "GET / HTTP/1.1\r\n" HOST "Connection: upgrade\r\nUpgrade: echo\r\n\r\n01234", "56789", 1, false, false, true,
         echo_pieces, ALWAYS | BIT(SEND)},
        {"large", GET("/"), "", 1, true, false, false, reply_large, ALWAYS | BIT(SENDMSG)},
        {"file", GET("/"), "", 1, true, false, false, reply_file,
         ALWAYS | BIT(SEND) | BIT(SENDFILE) | BIT(PREAD) | BIT(OPEN) | BIT(OPENAT2) | BIT(FSTAT)},
        {"secure", LENGTH "01234", "56789", 1, false, true, false, reply_body, ALWAYS | BIT(SEND)},
        {"secure file", GET("/"), "", 1, true, true, false, reply_file, ALWAYS | BIT(SEND) | BIT(PREAD)},
};

/* The right one; else it is an error, or none. */
static bool
is_right(const struct scenario *scenario)
{
        const char *expected = scenario->is_large ? large : TEN;

        if (!http_receive(&at.client, &at.reply, false)) {
                return false;
        }
        if (at.reply.status == 101) {
                while (at.client.size < sizeof TEN - 1 && !at.client.ended) {
                        http_read_some(&at.client);
                }
                CU_ASSERT_EQUAL(memcmp(at.client.input, TEN, at.client.size), 0);
                return at.client.size == sizeof TEN - 1;
        }
        if (at.reply.status != 200) {
                CU_ASSERT(at.reply.status == 500 || at.reply.status == 503 || at.reply.status == 403);
                return false;
        }
        CU_ASSERT_EQUAL(at.reply.size, strlen(expected));
        CU_ASSERT_EQUAL(strcmp(at.reply.body, expected), 0);
        return true;
}

static bool
play_plain(const struct scenario *scenario)
{
        unsigned right = 0;

        http_open(&at.client, at.port);
        (void)http_send_text(&at.client, scenario->request);
        if (*scenario->rest) {
                weir_test_sleep(100000); /* it is to come later; right either way */
                (void)http_send_text(&at.client, scenario->rest);
        }
        while (right < scenario->replies && is_right(scenario)) {
                right++;
        }
        http_close(&at.client);
        return right == scenario->replies;
}

static bool
play_secure(const struct scenario *scenario)
{
        static const struct tls_client_wish anybody = {0};
        const char *expected = scenario->is_large ? large : TEN;
        SSL *client = tls_connect(at.port, &anybody);
        char *reply = NULL;

        if (!client) {
                return false;
        }
        bool right = tls_send(client, scenario->request, strlen(scenario->request)) &&
                     tls_send(client, scenario->rest, strlen(scenario->rest)) && tls_receive(client, &reply, NULL);
        const char *end = reply ? strstr(reply, "\r\n\r\n") : NULL;
        if (right && strncmp(reply, "HTTP/1.1 200", 12) != 0) {
                right = false;
        } else if (right) {
                CU_ASSERT_EQUAL(strcmp(end + 4, expected), 0);
        }
        free(reply);
        tls_hang_up(client);
        return right;
}

static bool
play(const struct scenario *scenario)
{
        return scenario->is_secure ? play_secure(scenario) : play_plain(scenario);
}

static size_t resting; /* what the server has open without a connection */
static unsigned descriptors;

static void
rest(void)
{
        WEIR_TEST_EVENTUALLY(atomic_load(&at.server->base.users.count) == resting);
        CU_ASSERT_EQUAL(http_open_descriptors(), descriptors);
}

static void
begin_scenario(const struct scenario *scenario)
{
        struct weir_http_server_config config = WEIR_HTTP_SERVER_CONFIG_DEFAULT;

        config.stream_bodies = scenario->streams;
        config.write_timeout = config.body_timeout = WEIR_FOREVER; /* what hangs is found */
        config.certificate_file = scenario->is_secure ? tls_path("server.pem") : NULL;
        config.private_key_file = scenario->is_secure ? tls_path("server.key") : NULL;
        weir_test_begin_real(1);
        at.server = http_server(&config, scenario->handler, NULL);
        at.port = weir_http_server_port(at.server);
        resting = atomic_load(&at.server->base.users.count);
        CU_ASSERT_TRUE(play(scenario));
        WEIR_TEST_EVENTUALLY(atomic_load(&at.server->base.users.count) == resting);
        descriptors = http_open_descriptors();
}

static void
end_scenario(void)
{
        http_reply_done(&at.reply);
        CU_ASSERT_EQUAL(weir_http_server_stop(at.server, WEIR_SEC(10)), 0);
        CU_ASSERT_EQUAL(atomic_load(&at.server->base.users.count), 0);
        weir_http_server_free(at.server);
        weir_test_end();
}

static void
choose(enum call call, int error, int64_t nth, int64_t row)
{
        fault.call = call;
        fault.error = error;
        fault.row = row;
        atomic_store(&left, nth);
        atomic_store(&failed, 0);
        atomic_store(&made, 0);
        atomic_store(&armed, true);
}

/* Returns whether a call has failed. */
static bool
play_failing(const struct scenario *scenario, enum call call, int error, int64_t nth, int64_t row, bool must_be_right)
{
        int64_t began = weir_now();

        choose(call, error, nth, row);
        bool right = play(scenario);
        bool soon = weir_now() - began < WEIR_TEST_PATIENCE / 2;
        if (right) {
                rest(); /* also with what comes at the end failing */
        }
        atomic_store(&armed, false);
        bool good = (right || (!must_be_right && atomic_load(&failed) > 0)) && soon && atomic_load(&made) < BOUND;
        CU_ASSERT_TRUE(good);
        if (!good) {
                printf("\n  %s: %s, %s, from %d on, %d of them: %s, %d calls", scenario->name, kinds[call].name,
                       error < 0 ? "a part" : strerrorname_np(error), (int)nth, (int)row,
                       !soon   ? "late"
                       : right ? "right"
                               : "not right",
                       (int)atomic_load(&made));
        }
        CU_ASSERT_TRUE(play(scenario));
        rest();
        return atomic_load(&failed) > 0;
}

static void
fail_each(const struct scenario *scenario, enum call call, int error, int64_t row, bool must_be_right)
{
        int64_t nth = 0;

        while (nth < 100 && play_failing(scenario, call, error, nth, row, must_be_right)) {
                nth = nth < (row == 1 && !WEIR_TEST_SANITIZED ? 12 : 3) ? nth + 1
                                                                        : nth * 2; /* later ones, and long rows, are alike */
        }
}

static void
fail_all(int64_t row)
{
        for (size_t i = 0; i < sizeof scenarios / sizeof *scenarios; i++) {
                begin_scenario(&scenarios[i]);
                for (enum call call = 0; call < CALLS; call++) {
                        const struct kind *kind = &kinds[call];

                        atomic_store(&needed[call], 0);
                        for (size_t j = 0; j < sizeof kind->lasting / sizeof *kind->lasting && kind->lasting[j]; j++) {
                                fail_each(&scenarios[i], call, kind->lasting[j], row, kind->is_harmless);
                        }
                        for (size_t j = 0; j < sizeof kind->passing / sizeof *kind->passing && kind->passing[j]; j++) {
                                fail_each(&scenarios[i], call, kind->passing[j], row, row == 1 || call != OPENAT2);
                        }
                        bool is_needed = atomic_load(&needed[call]) > 0 || !(scenarios[i].calls & BIT(call));
                        CU_ASSERT_TRUE(is_needed);
                        if (!is_needed) {
                                printf("\n  %s: no %s", scenarios[i].name, kind->name);
                        }
                }
                end_scenario();
        }
}

/* -- tests -- */

static void
any_system_call_may_fail(void)
{
        fail_all(1);
}

static void
system_calls_may_fail_for_a_while(void)
{
        fail_all(MANY);
}

static void
input_and_output_may_go_byte_by_byte(void)
{
        static const enum call calls[] = {RECV, SEND, SENDMSG};

        for (size_t i = 0; i < sizeof scenarios / sizeof *scenarios; i++) {
                if (scenarios[i].is_large) {
                        continue;
                }
                begin_scenario(&scenarios[i]);
                for (size_t j = 0; j < sizeof calls / sizeof *calls; j++) {
                        (void)play_failing(&scenarios[i], calls[j], BYTE, 0, ALL, true);
                }
                end_scenario();
        }
}

static void
a_short_body_may_go_in_part_behind_a_large_head(void)
{
        static const struct scenario scenario = {"large head", GET("/"), "", 1, .handler = reply_large_head};

        begin_scenario(&scenario);
        CU_ASSERT_TRUE(play_failing(&scenario, SENDMSG, HEAD, 0, 1, true));
        end_scenario();
}

static const int refusals[] = {EMFILE, ENFILE, ENOMEM, ENOBUFS, EPERM};

#define REFUSALS (sizeof refusals / sizeof *refusals)

/* It waits in the meantime, which would be some thousand calls otherwise. */
static void
a_connection_that_cannot_be_accepted_is_served_later(void)
{
        const struct scenario *scenario = &scenarios[0];

        begin_scenario(scenario);
        for (size_t i = 0; i < REFUSALS; i++) {
                choose(ACCEPT, refusals[i], 0, ALL);
                http_open(&at.client, at.port);
                weir_test_sleep(200000000);
                atomic_store(&armed, false);
                CU_ASSERT(atomic_load(&failed) > 0);
                CU_ASSERT(atomic_load(&made) < 100);
                CU_ASSERT_TRUE(http_ask(&at.client, LENGTH TEN, &at.reply));
                CU_ASSERT_EQUAL(at.reply.status, 200);
                http_close(&at.client);
                rest();
        }
        end_scenario();
}

static void
stop_returns_although_nobody_can_be_accepted(void)
{
        for (size_t i = 0; i < REFUSALS; i++) {
                begin_scenario(&scenarios[0]);
                choose(ACCEPT, refusals[i], 0, ALL);
                http_open(&at.client, at.port);
                WEIR_TEST_EVENTUALLY(atomic_load(&failed) > 0);
                end_scenario();
                atomic_store(&armed, false);
                CU_ASSERT(atomic_load(&made) < BOUND);
                http_close(&at.client);
        }
}

static void
stop_returns_although_calls_fail(void)
{
        static const enum call calls[] = {RECV, SEND, IOCTL, SHUTDOWN, CLOSE};

        for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
                begin_scenario(&scenarios[0]);
                unsigned before = http_open_descriptors();
                http_open(&at.client, at.port);
                CU_ASSERT_TRUE(http_ask(&at.client, LENGTH TEN, &at.reply));
                choose(calls[i], EIO, 0, ALL);
                end_scenario();
                atomic_store(&armed, false);
                http_close(&at.client);
                CU_ASSERT(http_open_descriptors() < before);
        }
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(any_system_call_may_fail),
                WEIR_TEST(system_calls_may_fail_for_a_while),
                WEIR_TEST(input_and_output_may_go_byte_by_byte),
                WEIR_TEST(a_short_body_may_go_in_part_behind_a_large_head),
                WEIR_TEST(a_connection_that_cannot_be_accepted_is_served_later),
                WEIR_TEST(stop_returns_although_nobody_can_be_accepted),
                WEIR_TEST(stop_returns_although_calls_fail),
        };
        char path[64];
        large = pattern(FILE_SIZE);
        if (!mkdtemp(directory)) {
                perror(directory);
                return 1;
        }
        snprintf(path, sizeof path, "%s/file", directory);
        int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
        if (fd < 0 || write(fd, large, FILE_SIZE) != (ssize_t)FILE_SIZE || close(fd)) {
                perror(path);
                return 1;
        }
        tls_files_begin();
        tls_make_certificate("server", &(struct tls_wish){0});
        int failures = weir_test_main("server_faults", tests, sizeof tests / sizeof *tests);
        tls_files_end();
        unlink(path);
        rmdir(directory);
        free(large);
        return failures;
}
