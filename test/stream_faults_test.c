/* test/stream_faults_test.c: a whole exchange over streams, plain and with TLS, client and server in one process, with each of
 * its allocations and each of its calls of the system refused, one after another.
 *
 * What is refused must be told with the error that the headers name, each callback must come once, and nothing may be left. */
#include "test/faults_fixture.h"
#include "test/fixture.h"
#include "test/tls_peer.h"

#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/socket.h>

/* -- what the library calls instead of the system -- */

enum call {
        CALL_SOCKET,
        CALL_CONNECT,
        CALL_ACCEPT,
        CALL_GETSOCKOPT,
        CALL_SETSOCKOPT,
        CALL_GETPEERNAME,
        CALL_GETSOCKNAME,
        CALL_RECV,
        CALL_SEND,
        CALL_SENDMSG,
        CALL_SENDFILE,
        CALL_PREAD,
        CALL_SHUTDOWN,
        CALL_EPOLL_ADD,
        CALL_EPOLL_DELETE,
        CALL_IOCTL,
        CALL_CLOSE,
};

int __real_socket(int family, int type, int protocol);
int __wrap_socket(int family, int type, int protocol);
int __real_connect(int fd, const struct sockaddr *to, socklen_t size);
int __wrap_connect(int fd, const struct sockaddr *to, socklen_t size);
int __real_accept4(int fd, struct sockaddr *from, socklen_t *size, int flags);
int __wrap_accept4(int fd, struct sockaddr *from, socklen_t *size, int flags);
int __real_getsockopt(int fd, int level, int option, void *value, socklen_t *size);
int __wrap_getsockopt(int fd, int level, int option, void *value, socklen_t *size);
int __real_setsockopt(int fd, int level, int option, const void *value, socklen_t size);
int __wrap_setsockopt(int fd, int level, int option, const void *value, socklen_t size);
int __real_getpeername(int fd, struct sockaddr *peer, socklen_t *size);
int __wrap_getpeername(int fd, struct sockaddr *peer, socklen_t *size);
int __real_getsockname(int fd, struct sockaddr *own, socklen_t *size);
int __wrap_getsockname(int fd, struct sockaddr *own, socklen_t *size);
ssize_t __real_recv(int fd, void *data, size_t size, int flags);
ssize_t __wrap_recv(int fd, void *data, size_t size, int flags);
ssize_t __real_send(int fd, const void *data, size_t size, int flags);
ssize_t __wrap_send(int fd, const void *data, size_t size, int flags);
ssize_t __real_sendmsg(int fd, const struct msghdr *message, int flags);
ssize_t __wrap_sendmsg(int fd, const struct msghdr *message, int flags);
ssize_t __real_sendfile(int to, int from, off_t *offset, size_t size);
ssize_t __wrap_sendfile(int to, int from, off_t *offset, size_t size);
ssize_t __real_pread(int fd, void *data, size_t size, off_t at);
ssize_t __wrap_pread(int fd, void *data, size_t size, off_t at);
int __real_shutdown(int fd, int how);
int __wrap_shutdown(int fd, int how);
int __real_epoll_ctl(int epoll, int operation, int fd, struct epoll_event *event);
int __wrap_epoll_ctl(int epoll, int operation, int fd, struct epoll_event *event);
int __real_ioctl(int fd, unsigned long request, void *argument);
int __wrap_ioctl(int fd, unsigned long request, void *argument);
int __real_close(int fd);
int __wrap_close(int fd);

int
__wrap_socket(int family, int type, int protocol)
{
        return fails(CALL_SOCKET) ? -1 : __real_socket(family, type, protocol);
}

int
__wrap_connect(int fd, const struct sockaddr *to, socklen_t size)
{
        return fails(CALL_CONNECT) ? -1 : __real_connect(fd, to, size);
}

int
__wrap_accept4(int fd, struct sockaddr *from, socklen_t *size, int flags)
{
        return fails(CALL_ACCEPT) ? -1 : __real_accept4(fd, from, size, flags);
}

/* What kind of a socket it is cannot fail: the descriptor is open. */
int
__wrap_getsockopt(int fd, int level, int option, void *value, socklen_t *size)
{
        return option == SO_ERROR && fails(CALL_GETSOCKOPT) ? -1 : __real_getsockopt(fd, level, option, value, size);
}

/* The option that makes a close a reset cannot fail either. */
int
__wrap_setsockopt(int fd, int level, int option, const void *value, socklen_t size)
{
        return option != SO_LINGER && fails(CALL_SETSOCKOPT) ? -1 : __real_setsockopt(fd, level, option, value, size);
}

int
__wrap_getpeername(int fd, struct sockaddr *peer, socklen_t *size)
{
        return fails(CALL_GETPEERNAME) ? -1 : __real_getpeername(fd, peer, size);
}

int
__wrap_getsockname(int fd, struct sockaddr *own, socklen_t *size)
{
        return fails(CALL_GETSOCKNAME) ? -1 : __real_getsockname(fd, own, size);
}

ssize_t
__wrap_recv(int fd, void *data, size_t size, int flags)
{
        return fails(CALL_RECV) ? -1 : __real_recv(fd, data, size, flags);
}

ssize_t
__wrap_send(int fd, const void *data, size_t size, int flags)
{
        return fails(CALL_SEND) ? -1 : __real_send(fd, data, size, flags);
}

ssize_t
__wrap_sendmsg(int fd, const struct msghdr *message, int flags)
{
        return fails(CALL_SENDMSG) ? -1 : __real_sendmsg(fd, message, flags);
}

ssize_t
__wrap_sendfile(int to, int from, off_t *offset, size_t size)
{
        return fails(CALL_SENDFILE) ? -1 : __real_sendfile(to, from, offset, size);
}

ssize_t
__wrap_pread(int fd, void *data, size_t size, off_t at)
{
        return fails(CALL_PREAD) ? -1 : __real_pread(fd, data, size, at);
}

int
__wrap_shutdown(int fd, int how)
{
        return fails(CALL_SHUTDOWN) ? -1 : __real_shutdown(fd, how);
}

int
__wrap_epoll_ctl(int epoll, int operation, int fd, struct epoll_event *event)
{
        enum call call = operation == EPOLL_CTL_ADD ? CALL_EPOLL_ADD : CALL_EPOLL_DELETE;

        return operation != EPOLL_CTL_MOD && fails((int)call) ? -1 : __real_epoll_ctl(epoll, operation, fd, event);
}

int
__wrap_ioctl(int fd, unsigned long request, void *argument)
{
        return fails(CALL_IOCTL) ? -1 : __real_ioctl(fd, request, argument);
}

/* On Linux the descriptor is closed all the same. */
int
__wrap_close(int fd)
{
        int result = __real_close(fd);

        return fails(CALL_CLOSE) ? -1 : result;
}

/* -- the exchange -- */

enum over { OVER_UNIX, OVER_TCP, OVER_TLS };

enum task {
        CONNECT,
        WRITE,
        PIECES,
        LINE,
        READ,
        FILES,
        FINISH,
        LAST,
        SERVED_LINE,
        SERVED_BODY,
        SERVED_WRITE,
        SERVED_LENT,
        SERVED_FILE,
        SERVED_LAST,
        SERVED_FINISH,
        TASKS
};

#define BODY      5000
#define FILE_SIZE 20000

static struct {
        _Atomic unsigned started, ended, called, twice, served;
        _Atomic bool is_over;      /* the client's series */
        _Atomic int status[TASKS]; /* 1: no callback */
        bool breaks;               /* in place of the file and the end */
        char address[64];
        weir_stream *stream; /* the client's, in a callback */
} at;

static int file;
static char body[BODY];
static weir_tls *trust; /* of one exchange: it keeps sessions */

static void
note(weir_task *task, enum task which)
{
        if (atomic_exchange(&at.status[which], weir_task_status(task)) != 1)
                at.twice++;
        at.called++;
}

static void
done(weir_task *task, void *which)
{
        note(task, (enum task)(uintptr_t)which);
}

static void
freed(void *context)
{
        (void)context;
        at.ended++;
}

/* A task that could not be made, or pushed, has no callback.  The other side would wait for it, so the stream is broken. */
static void
push(weir_series *series, weir_stream *stream, enum task which, weir_task *task)
{
        at.started += task != NULL;
        weir_task_on_free(task, freed);
        int failed = weir_series_push(series, task);
        if (!failed)
                return;
        CU_ASSERT_EQUAL(failed, -ENOMEM);
        at.status[which] = failed;
        weir_stream_break(stream);
}

#define DONE(which) done, (void *)(uintptr_t)(which)

static void
serve(weir_stream *stream, weir_series *series, void *context)
{
        (void)context;
        at.served++;
        push(series, stream, SERVED_LINE, weir_stream_read_until_new(stream, "\r\n", 2, 1000, DONE(SERVED_LINE)));
        push(series, stream, SERVED_BODY, weir_stream_read_new(stream, BODY, BODY, DONE(SERVED_BODY)));
        push(series, stream, SERVED_WRITE, weir_stream_write_new(stream, "welcome\r\n", 9, DONE(SERVED_WRITE)));
        push(series, stream, SERVED_LENT, weir_stream_write_lent_new(stream, body, BODY, DONE(SERVED_LENT)));
        push(series, stream, SERVED_FILE, weir_stream_read_new(stream, FILE_SIZE, FILE_SIZE, DONE(SERVED_FILE)));
        push(series, stream, SERVED_LAST, weir_stream_read_new(stream, 1, 1, DONE(SERVED_LAST)));
        push(series, stream, SERVED_FINISH, weir_stream_finish_new(stream, DONE(SERVED_FINISH)));
}

static void
break_it(weir_task *read, void *context)
{
        weir_stream_break(at.stream);
        weir_stream_unref(at.stream);
        done(read, context);
}

static void
connected(weir_task *connect, void *context)
{
        weir_series *series = weir_series_of(connect);
        weir_stream *stream = weir_connect_take_stream(connect);
        struct iovec pieces[] = {{body, 1000}, {body + 1000, 1500}, {body + 2500, BODY - 2500}};

        CU_ASSERT_EQUAL(weir_task_status(connect) == 0, stream != NULL);
        if (stream) {
                push(series, stream, WRITE, weir_stream_write_new(stream, "hello\r\n", 7, DONE(WRITE)));
                push(series, stream, PIECES, weir_stream_write_pieces_new(stream, pieces, 3, DONE(PIECES)));
                push(series, stream, LINE, weir_stream_read_until_new(stream, "\r\n", 2, 100, DONE(LINE)));
                at.stream = stream;
                weir_task *read = weir_stream_read_new(stream, 2000, BODY, at.breaks ? break_it : done, (void *)READ);
                if (at.breaks && read)
                        weir_stream_ref(stream);
                push(series, stream, READ, read);
                push(series, stream, FILES, weir_stream_write_file_new(stream, file, 0, UINT64_MAX, DONE(FILES)));
                push(series, stream, FINISH, weir_stream_finish_new(stream, DONE(FINISH)));
                push(series, stream, LAST, weir_stream_read_new(stream, 2 * BODY, 2 * BODY, DONE(LAST)));
                weir_stream_unref(stream);
        }
        done(connect, context);
}

static void
client_over(weir_series *series, void *context)
{
        (void)series;
        (void)context;
        at.is_over = true;
}

static void
ask(enum over over)
{
        weir_series *series = weir_series_new(client_over, NULL);

        if (!series) {
                at.is_over = true;
                return;
        }
        push(series, NULL, CONNECT,
             over == OVER_TLS ? weir_connect_tls_new(at.address, trust, "server.example", connected, (void *)CONNECT)
                              : weir_connect_new(at.address, connected, (void *)CONNECT));
        int failed = weir_series_start(series);
        CU_ASSERT(failed == 0 || failed == at.status[CONNECT]);
        if (failed)
                at.is_over = true;
}

static weir_stream_server *
serve_at(enum over over)
{
        struct weir_stream_server_config config = WEIR_STREAM_SERVER_CONFIG_DEFAULT;
        char name[64] = "127.0.0.1:0";

        if (over == OVER_TLS) {
                config.certificate_file = tls_path("server.pem");
                config.private_key_file = tls_path("server.key");
        }
        config.handshake_timeout = config.write_timeout = WEIR_FOREVER / 4; /* time may pass quickly here */
        if (over == OVER_UNIX)
                snprintf(name, sizeof name, "unix:@weir-stream-faults-%d", getpid());
        weir_stream_server *server = weir_stream_server_new(&config, serve, NULL);
        CU_ASSERT_EQUAL_FATAL(weir_stream_server_start(server, name), 0);
        snprintf(at.address, sizeof at.address, "127.0.0.1:%d", weir_stream_server_port(server));
        if (over == OVER_UNIX)
                snprintf(at.address, sizeof at.address, "%s", name);
        return server;
}

static void
print(const char *what)
{
        fprintf(stderr, "%s (call %d, error %d):", what, (int)faulty_call, (int)fault_error);
        for (unsigned i = 0; i < TASKS; i++)
                fprintf(stderr, " %d", at.status[i]);
        fprintf(stderr, "; served %u\n", at.served);
}

#define EXPECT(condition)                         \
        do {                                      \
                bool expect_holds_ = (condition); \
                CU_ASSERT(expect_holds_);         \
                if (!expect_holds_)               \
                        print(#condition);        \
        } while (0)

/* Bytes between the two are no deadline, so the clock is asked again and again.  Time passes for a server that waits until it can
 * accept. */
static void
let_them_talk(void)
{
        int64_t began = weir_test_now();

        for (unsigned i = 1; !at.is_over || at.ended != at.started; i++) {
                CU_ASSERT_EQUAL(weir_clock_advance(i % 100 ? 0 : WEIR_MSEC(100)), 0);
                if (i % 100 == 0)
                        weir_test_pause(began, "the exchange is over", __FILE__, __LINE__);
        }
}

static void
trust_authority(void)
{
        struct weir_tls_config config = WEIR_TLS_CONFIG_DEFAULT;

        config.ca_file = tls_path("ca.pem");
        trust = weir_tls_client_new(&config);
}

/* Returns whether anything was refused. */
static bool
exchange(enum over over)
{
        at.started = at.ended = at.called = at.twice = at.served = 0;
        at.is_over = false;
        for (unsigned i = 0; i < TASKS; i++)
                at.status[i] = 1;
        unsigned fds = weir_test_entries_of("/proc/self/fd");
        weir_test_begin_virtual();
        weir_stream_server *server = serve_at(over);
        trust_authority();
        is_armed = true;
        ask(over);
        let_them_talk();
        is_armed = false;
        bool was_refused = allocations_left < 0 && calls_left < 0;
        CU_ASSERT_EQUAL(weir_stream_server_stop(server, WEIR_TEST_TOLERANCE), 0);
        weir_stream_server_free(server);
        weir_test_pass(WEIR_SEC(60)); /* for those that linger */
        weir_test_end();
        weir_tls_unref(trust);
        EXPECT(weir_test_entries_of("/proc/self/fd") == fds);
        weir_test_free_kept();
        CU_ASSERT_EQUAL(at.started, at.ended);
        CU_ASSERT_EQUAL(at.twice, 0);
        return was_refused;
}

/* -- what a fault may end tasks with -- */

static bool
all_is_well(enum over over)
{
        static const int whole[TASKS] = {[LAST] = -EPIPE, [SERVED_LAST] = -EPIPE};
        static const int broken[TASKS] = {
                [FILES] = -ECONNABORTED,     [FINISH] = -ECONNABORTED,    [LAST] = -ECONNABORTED,
                [SERVED_FILE] = -ECONNRESET, [SERVED_LAST] = -ECONNRESET, [SERVED_FINISH] = -ECONNRESET};
        static const int closed[TASKS] = {[FILES] = -ECONNABORTED,
                                          [FINISH] = -ECONNABORTED,
                                          [LAST] = -ECONNABORTED,
                                          [SERVED_FILE] = -EPIPE,
                                          [SERVED_LAST] = -EPIPE};
        bool is_well = true;

        for (unsigned i = 0; i < TASKS; i++)
                is_well = is_well && at.status[i] == (!at.breaks ? whole : over == OVER_UNIX ? closed : broken)[i];
        return is_well;
}

static bool
somebody_saw(int status)
{
        bool saw = false;

        for (unsigned i = 0; i < TASKS; i++)
                saw = saw || at.status[i] == status;
        return saw;
}

/* OpenSSL does not always say that memory was short when it checks a certificate, and tells the peer that something is wrong. */
static bool
is_of_tls(int status)
{
        return status == -EPROTO || status == WEIR_ETLS_UNTRUSTED || status == WEIR_ETLS_NAME;
}

/* Nobody sees anything but the fault, and what a connection ends with whose other side has had one. */
static bool
is_expected(int fault, bool is_tls)
{
        bool is_fine = true;

        for (unsigned i = 0; i < TASKS; i++) {
                int status = at.status[i];

                is_fine = is_fine && (status == 0 || status == 1 || status == fault || status == -EPIPE ||
                                      status == -ECONNRESET || status == -ECONNABORTED || (is_tls && is_of_tls(status)));
        }
        return is_fine;
}

/* -- the tests -- */

static void
nothing_is_refused(enum over over)
{
        allocations_left = calls_left = -1;
        weir_test_begin_virtual();
        weir_test_end(); /* each poller keeps a descriptor for the next runtime */
        exchange(over);
        EXPECT(all_is_well(over));
}

static void
refuse_each_allocation(enum over over)
{
        int step = over != OVER_TLS ? 1 : WEIR_TEST_SANITIZED ? 97 : 13, count = (int)(weir_test_seed() % (unsigned)step);

        nothing_is_refused(over);
        nothing_is_refused(over); /* what is kept for ever is there now */
        int64_t bytes = bytes_out, blocks = blocks_out;
        for (;; count += step) {
                allocations_left = count;
                if (!exchange(over) || count > 20000)
                        break;
                EXPECT(is_expected(-ENOMEM, over == OVER_TLS));
                CU_ASSERT_EQUAL(bytes_out, bytes);
                CU_ASSERT_EQUAL(blocks_out, blocks);
        }
        EXPECT(all_is_well(over));
        nothing_is_refused(over);
        CU_ASSERT_EQUAL(bytes_out, bytes);
        CU_ASSERT_EQUAL(blocks_out, blocks);
        CU_ASSERT(count > 20 && count < 20000);
}

static void
each_allocation_may_fail(void)
{
        at.breaks = false;
        refuse_each_allocation(OVER_UNIX);
        refuse_each_allocation(OVER_TCP);
        at.breaks = true;
        refuse_each_allocation(OVER_UNIX);
}

static void
each_allocation_of_tls_may_fail(void)
{
        at.breaks = false;
        refuse_each_allocation(OVER_TLS);
}

enum effect {
        NO_EFFECT, /* nobody notices */
        TOLD,      /* a task ends with it; or the server had it before there were tasks */
        PERHAPS,   /* the same, or nobody notices */
        OF_CONNECT /* the connect ends with it */
};

static const struct {
        enum call call;
        enum effect effect;
        int errors[8];
} faults[] = {
        {CALL_SOCKET, OF_CONNECT, {EMFILE, ENFILE, ENOMEM, ENOBUFS, EACCES}},
        {CALL_CONNECT, OF_CONNECT, {EADDRNOTAVAIL, ENOBUFS, ENOMEM, ECONNRESET, EIO, ENETUNREACH}},
        {CALL_CONNECT, NO_EFFECT, {EINTR}},
        {CALL_ACCEPT, NO_EFFECT, {EMFILE, ENFILE, ENOMEM, EINTR, ECONNABORTED}},
        {CALL_GETSOCKOPT, OF_CONNECT, {ENOBUFS, ENOMEM}},
        {CALL_SETSOCKOPT, NO_EFFECT, {ENOMEM, ENOBUFS}},
        {CALL_GETPEERNAME, PERHAPS, {ENOBUFS}}, /* of a connect that had no event, or a bad one */
        {CALL_GETSOCKNAME, NO_EFFECT, {ENOBUFS}},
        {CALL_RECV, TOLD, {EIO, ENOMEM, ECONNRESET}},
        {CALL_RECV, NO_EFFECT, {EINTR}},
        {CALL_SEND, TOLD, {EIO, ENOBUFS, ECONNRESET}},
        {CALL_SEND, NO_EFFECT, {EINTR}},
        {CALL_SENDMSG, TOLD, {EIO, ENOBUFS, ECONNRESET}},
        {CALL_SENDMSG, NO_EFFECT, {EINTR}},
        {CALL_SENDFILE, TOLD, {EIO, ENOMEM, ECONNRESET}},
        {CALL_SENDFILE, NO_EFFECT, {EINTR}},
        {CALL_PREAD, TOLD, {EIO, ENOMEM}},
        {CALL_PREAD, NO_EFFECT, {EINTR}},
        {CALL_SHUTDOWN, TOLD, {EIO}},
        {CALL_EPOLL_ADD, TOLD, {ENOMEM, ENOSPC}},
        {CALL_EPOLL_DELETE, NO_EFFECT, {ENOMEM}},
        {CALL_IOCTL, NO_EFFECT, {EIO}},
        {CALL_CLOSE, NO_EFFECT, {EINTR, EIO}},
};

/* OpenSSL goes on when a session ticket cannot be sent because the peer has gone; here it has not, and gets what follows. */
static bool
is_forgiven(enum over over)
{
        return over == OVER_TLS && fault_error == ECONNRESET && somebody_saw(-EPROTO);
}

/* Returns how often a call has failed. */
static unsigned
fail_each_call(enum over over, enum call call, enum effect effect, int error)
{
        unsigned count = 0, told = 0;

        faulty_call = (int)call;
        fault_error = error;
        for (;; count++) {
                calls_left = (int)count;
                if (!exchange(over) || count > 1000)
                        break;
                EXPECT(effect != NO_EFFECT || all_is_well(over));
                EXPECT(effect != OF_CONNECT || at.status[CONNECT] == -error);
                EXPECT((effect != TOLD && effect != PERHAPS) || all_is_well(over) || somebody_saw(-error) || !at.served ||
                       is_forgiven(over));
                EXPECT(is_expected(-error, over == OVER_TLS));
                told += somebody_saw(-error);
        }
        calls_left = -1;
        EXPECT(all_is_well(over));
        CU_ASSERT(effect == NO_EFFECT || effect == PERHAPS || !count || told);
        CU_ASSERT(count <= 1000);
        return count;
}

static void
fail_each(enum over over, unsigned at_least)
{
        unsigned count = 0;

        allocations_left = -1;
        nothing_is_refused(over);
        for (unsigned i = 0; i < sizeof faults / sizeof *faults; i++)
                for (unsigned j = 0; faults[i].errors[j] && (j == 0 || !WEIR_TEST_SANITIZED); j++)
                        count += fail_each_call(over, faults[i].call, faults[i].effect, faults[i].errors[j]);
        CU_ASSERT(count >= (WEIR_TEST_SANITIZED ? at_least / 2 : at_least));
}

static void
each_call_may_fail(void)
{
        at.breaks = false;
        fail_each(OVER_UNIX, 50);
        fail_each(OVER_TCP, 50);
}

static void
each_call_of_a_stream_that_is_broken_may_fail(void)
{
        at.breaks = true;
        fail_each(OVER_TCP, 50);
}

static void
each_call_of_tls_may_fail(void)
{
        at.breaks = false;
        fail_each(OVER_TLS, 50);
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(each_allocation_may_fail),  WEIR_TEST(each_allocation_of_tls_may_fail),
                WEIR_TEST(each_call_may_fail),        WEIR_TEST(each_call_of_a_stream_that_is_broken_may_fail),
                WEIR_TEST(each_call_of_tls_may_fail),
        };

        if (!can_refuse_openssl())
                return 1;
        weir_log_set(NULL, NULL);
        memset(body, 'b', sizeof body);
        file = memfd_create("file", MFD_CLOEXEC);
        if (ftruncate(file, FILE_SIZE) < 0)
                return 1;
        tls_files_begin();
        tls_make_certificate("ca", &(struct tls_wish){.key = TLS_EC});
        tls_make_certificate("server",
                             &(struct tls_wish){.alternative_names = "DNS:server.example", .issuer = "ca", .key = TLS_EC});
        int result = weir_test_main("stream_faults", tests, sizeof tests / sizeof *tests);
        tls_files_end();
        close(file);
        return result;
}
