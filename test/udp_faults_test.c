/* test/udp_faults_test.c: sockets of datagrams when the system refuses memory, descriptors, or a datagram. */
#include "test/udp_fixture.h"
#include "test/blocks_fixture.h"
#include "test/timer_fixture.h"

#include <sys/epoll.h>
#include <sys/mman.h>

/* -- what the library calls instead of the system -- */

enum call {
        CALL_CALLOC,
        CALL_MMAP,
        CALL_SOCKET,
        CALL_BIND,
        CALL_CONNECT,
        CALL_EPOLL_CTL,
        CALL_RECVMMSG,
        CALL_RECVMSG, /* of errors that hosts report */
        CALL_SENDTO,
        CALL_SENDMMSG,
        CALLS,
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* Guarded by lock, while there are workers. */
static struct {
        int skip;  /* so many succeed */
        int count; /* then so many fail */
        int error;
        unsigned failed;
} faults[CALLS];

static void
fail(enum call call, int skip, int count, int error)
{
        pthread_mutex_lock(&lock);
        faults[call].skip = skip;
        faults[call].count = count;
        faults[call].error = error;
        faults[call].failed = 0;
        pthread_mutex_unlock(&lock);
}

/* How many calls have failed; from now on none does. */
static unsigned
stop_failing(enum call call)
{
        pthread_mutex_lock(&lock);
        unsigned failed = faults[call].failed;
        faults[call].count = 0;
        pthread_mutex_unlock(&lock);
        return failed;
}

static bool
fails(enum call call)
{
        pthread_mutex_lock(&lock);
        bool fails = faults[call].count > 0 && faults[call].skip-- <= 0;
        if (fails) {
                faults[call].count--;
                faults[call].failed++;
        }
        int error = faults[call].error;
        pthread_mutex_unlock(&lock);
        if (fails) {
                errno = error;
        }
        return fails;
}

void *__real_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *
__wrap_calloc(size_t count, size_t size)
{
        return fails(CALL_CALLOC) ? NULL : __real_calloc(count, size);
}

void *__real_mmap(void *at, size_t size, int protection, int flags, int fd, off_t offset);
void *__wrap_mmap(void *at, size_t size, int protection, int flags, int fd, off_t offset);
void *
__wrap_mmap(void *at, size_t size, int protection, int flags, int fd, off_t offset)
{
        return fails(CALL_MMAP) ? MAP_FAILED : __real_mmap(at, size, protection, flags, fd, offset);
}

int __real_socket(int family, int type, int protocol);
int __wrap_socket(int family, int type, int protocol);
int
__wrap_socket(int family, int type, int protocol)
{
        return fails(CALL_SOCKET) ? -1 : __real_socket(family, type, protocol);
}

int __real_bind(int fd, const struct sockaddr *name, socklen_t size);
int __wrap_bind(int fd, const struct sockaddr *name, socklen_t size);
int
__wrap_bind(int fd, const struct sockaddr *name, socklen_t size)
{
        return fails(CALL_BIND) ? -1 : __real_bind(fd, name, size);
}

int __real_connect(int fd, const struct sockaddr *name, socklen_t size);
int __wrap_connect(int fd, const struct sockaddr *name, socklen_t size);
int
__wrap_connect(int fd, const struct sockaddr *name, socklen_t size)
{
        return fails(CALL_CONNECT) ? -1 : __real_connect(fd, name, size);
}

int __real_epoll_ctl(int epoll, int operation, int fd, struct epoll_event *event);
int __wrap_epoll_ctl(int epoll, int operation, int fd, struct epoll_event *event);
int
__wrap_epoll_ctl(int epoll, int operation, int fd, struct epoll_event *event)
{
        return fails(CALL_EPOLL_CTL) ? -1 : __real_epoll_ctl(epoll, operation, fd, event);
}

int __real_recvmmsg(int fd, struct mmsghdr *messages, unsigned count, int flags, struct timespec *limit);
int __wrap_recvmmsg(int fd, struct mmsghdr *messages, unsigned count, int flags, struct timespec *limit);
int
__wrap_recvmmsg(int fd, struct mmsghdr *messages, unsigned count, int flags, struct timespec *limit)
{
        return fails(CALL_RECVMMSG) ? -1 : __real_recvmmsg(fd, messages, count, flags, limit);
}

ssize_t __real_recvmsg(int fd, struct msghdr *message, int flags);
ssize_t __wrap_recvmsg(int fd, struct msghdr *message, int flags);
ssize_t
__wrap_recvmsg(int fd, struct msghdr *message, int flags)
{
        return flags & MSG_ERRQUEUE && fails(CALL_RECVMSG) ? -1 : __real_recvmsg(fd, message, flags);
}

ssize_t __real_sendto(int fd, const void *data, size_t size, int flags, const struct sockaddr *to, socklen_t to_size);
ssize_t __wrap_sendto(int fd, const void *data, size_t size, int flags, const struct sockaddr *to, socklen_t to_size);
ssize_t
__wrap_sendto(int fd, const void *data, size_t size, int flags, const struct sockaddr *to, socklen_t to_size)
{
        return flags & MSG_NOSIGNAL && fails(CALL_SENDTO) ? -1 : __real_sendto(fd, data, size, flags, to, to_size);
}

int __real_sendmmsg(int fd, struct mmsghdr *messages, unsigned count, int flags);
int __wrap_sendmmsg(int fd, struct mmsghdr *messages, unsigned count, int flags);
int
__wrap_sendmmsg(int fd, struct mmsghdr *messages, unsigned count, int flags)
{
        return fails(CALL_SENDMMSG) ? -1 : __real_sendmmsg(fd, messages, count, flags);
}

/* -- the tests -- */

static int plain, plain_port;
static weir_udp *udp;

static void
begin(void)
{
        plain = weir_test_plain_socket(&plain_port);
        weir_test_begin_virtual();
        udp = weir_udp_open("127.0.0.1:0");
}

static void
end(void)
{
        for (unsigned i = 0; i < CALLS; i++) {
                stop_failing(i);
        }
        weir_udp_unref(udp);
        weir_test_end();
        close(plain);
}

static weir_task *
send_one(struct weir_test_taken *taken)
{
        return weir_udp_send_new(udp, weir_test_at(plain_port), "x", 1, weir_test_take, taken);
}

static void
no_room_is_waited_for(void)
{
        struct weir_test_taken sent[3] = {{0}};

        begin();
        fail(CALL_SENDTO, 0, 1, EAGAIN); /* the others queue behind it */
        for (unsigned i = 0; i < 3; i++) {
                weir_task_start(send_one(&sent[i]));
        }
        weir_test_pass(0);
        CU_ASSERT_EQUAL(stop_failing(CALL_SENDTO), 1);
        weir_test_pass(0);
        for (unsigned i = 0; i < 3; i++) {
                CU_ASSERT_EQUAL(sent[i].calls, 1);
                CU_ASSERT_EQUAL(sent[i].status, 0);
        }
        CU_ASSERT_EQUAL(weir_test_drain(plain), 3);
        end();
}

static void
a_cancel_ends_the_wait_for_room(void)
{
        struct weir_test_taken sent = {0}, asked = {0};

        begin();
        fail(CALL_SENDTO, 0, 2, EAGAIN);
        fail(CALL_EPOLL_CTL, 1, 1000, ENOMEM); /* nobody will say that there is room */
        weir_series *series = weir_series_ref(weir_series_new(NULL, NULL)), *other = weir_series_ref(weir_series_new(NULL, NULL));
        weir_series_push(series, send_one(&sent));
        weir_series_push(other, weir_udp_ask_new(udp, weir_test_at(plain_port), "x", 1, NULL, weir_test_take, &asked));
        weir_series_start(series);
        weir_series_start(other);
        weir_test_pass(0);
        CU_ASSERT_EQUAL(sent.calls + asked.calls, 0);
        weir_series_cancel(series);
        weir_series_cancel(other);
        weir_test_pass(0);
        CU_ASSERT_EQUAL(sent.status, -ECANCELED);
        CU_ASSERT_EQUAL(asked.status, -ECANCELED);
        CU_ASSERT_EQUAL(weir_test_drain(plain), 0);
        weir_series_unref(series);
        weir_series_unref(other);
        end();
}

static void
an_interrupted_call_is_made_again(void)
{
        struct weir_test_taken taken = {0}, sent = {0}, sent_many = {0};
        struct weir_udp_address to;

        begin();
        weir_udp_address_read(&to, weir_test_at(plain_port));
        weir_task *many = weir_udp_send_many_new(udp, weir_test_take, &sent_many);
        weir_udp_send_add(many, &to, "1", 1);
        weir_udp_send_add(many, &to, "22", 2); /* no segment of one message with the first */
        fail(CALL_RECVMMSG, 0, 2, EINTR);
        fail(CALL_SENDTO, 0, 2, EINTR);
        fail(CALL_SENDMMSG, 0, 2, EINTR);
        weir_task_start(weir_udp_receive_new(udp, weir_test_take, &taken));
        weir_task_start(send_one(&sent));
        weir_task_start(many);
        weir_test_send_to(plain, weir_udp_port(udp), "y", 1);
        weir_test_pass(0);
        WEIR_TEST_TOOK(&taken, "y ");
        CU_ASSERT_EQUAL(sent.status, 0);
        CU_ASSERT_EQUAL(sent_many.status, 0);
        CU_ASSERT_EQUAL(sent_many.count, 2);
        CU_ASSERT_EQUAL(weir_test_drain(plain), 3);
        CU_ASSERT_EQUAL(stop_failing(CALL_RECVMMSG) + stop_failing(CALL_SENDTO) + stop_failing(CALL_SENDMMSG), 6);
        end();
}

/* Nobody is at the port.  What is lost with a report comes with the one about the next attempt. */
static void
a_report_that_cannot_be_read_comes_again(void)
{
        const struct {
                int error, attempts;
        } cases[] = {{EINTR, 1}, {ENOMEM, 2}};

        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
                struct weir_test_taken asked = {0};
                struct weir_udp_ask_config how = WEIR_UDP_ASK_CONFIG_DEFAULT;
                int gone_port;

                begin();
                close(weir_test_plain_socket(&gone_port));
                fail(CALL_RECVMSG, 0, 2, cases[i].error); /* it is asked twice for each report */
                weir_task_start(weir_udp_ask_new(udp, weir_test_at(gone_port), "x", 1, &how, weir_test_take, &asked));
                weir_test_pass(0);
                CU_ASSERT_EQUAL(stop_failing(CALL_RECVMSG), 2);
                CU_ASSERT_EQUAL(asked.calls, cases[i].attempts == 1);
                weir_test_pass(WEIR_SEC(2));
                CU_ASSERT_EQUAL(asked.calls, 1);
                CU_ASSERT_EQUAL(asked.status, -ECONNREFUSED);
                CU_ASSERT_EQUAL(asked.attempts, cases[i].attempts);
                end();
        }
}

/* A send reports it; an ask tries again. */
static void
a_full_interface_is_reported_or_tried_again(void)
{
        struct weir_test_taken sent = {0}, asked = {0};
        struct weir_udp_ask_config how = WEIR_UDP_ASK_CONFIG_DEFAULT;

        begin();
        how.jitter = -1;
        fail(CALL_SENDTO, 0, 2, ENOBUFS);
        weir_task_start(send_one(&sent));
        weir_task_start(weir_udp_ask_new(udp, weir_test_at(plain_port), "x", 1, &how, weir_test_take, &asked));
        weir_test_pass(0);
        CU_ASSERT_EQUAL(sent.status, -ENOBUFS);
        CU_ASSERT_EQUAL(asked.calls, 0);
        weir_test_pass(WEIR_SEC(1));
        CU_ASSERT_EQUAL(weir_test_drain(plain), 1);
        weir_test_send_to(plain, weir_udp_port(udp), "reply", 5);
        weir_test_pass(0);
        WEIR_TEST_TOOK(&asked, "reply ");
        CU_ASSERT_EQUAL(asked.attempts, 2);
        end();
}

/* An ask that finds no room goes out as soon as there is some, in the same attempt. */
static void
an_ask_waits_for_room(void)
{
        struct weir_test_taken asked = {0};

        begin();
        fail(CALL_SENDTO, 0, 1, EAGAIN);
        weir_task_start(weir_udp_ask_new(udp, weir_test_at(plain_port), "x", 1, NULL, weir_test_take, &asked));
        weir_test_pass(0);
        CU_ASSERT_EQUAL(weir_test_drain(plain), 1);
        weir_test_send_to(plain, weir_udp_port(udp), "reply", 5);
        weir_test_pass(0);
        WEIR_TEST_TOOK(&asked, "reply ");
        CU_ASSERT_EQUAL(asked.attempts, 1);
        end();
}

static void
segments_that_the_system_refuses_go_one_by_one(void)
{
        struct weir_test_taken sent = {0};
        struct weir_udp_address to;

        begin();
        weir_udp_address_read(&to, weir_test_at(plain_port));
        weir_task *send = weir_udp_send_many_new(udp, weir_test_take, &sent);
        for (unsigned i = 0; i < 10; i++) {
                weir_udp_send_add(send, &to, "x", 1);
        }
        fail(CALL_SENDMMSG, 0, 1, EIO);
        weir_task_start(send);
        weir_test_pass(0);
        CU_ASSERT_EQUAL(sent.status, 0);
        CU_ASSERT_EQUAL(sent.count, 10);
        CU_ASSERT_EQUAL(stop_failing(CALL_SENDMMSG), 1);
        CU_ASSERT_EQUAL(weir_test_drain(plain), 10);
        end();
}

static void
a_lost_datagram_and_a_socket_that_cannot_be_watched_are_errors(void)
{
        struct weir_test_taken lost = {0}, unwatched = {0}, without_room = {0}, broken = {0};

        begin();
        fail(CALL_EPOLL_CTL, 0, 1, ENOSPC);
        weir_task_start(weir_udp_receive_new(udp, weir_test_take, &unwatched));
        weir_test_pass(0);
        CU_ASSERT_EQUAL(unwatched.status, -ENOSPC);
        fail(CALL_MMAP, 0, 1, ENOMEM);
        weir_task_start(weir_udp_receive_new(udp, weir_test_take, &without_room));
        weir_test_pass(0);
        CU_ASSERT_EQUAL(without_room.status, -ENOMEM);
        weir_task_start(weir_udp_receive_new(udp, weir_test_take, &lost));
        weir_test_pass(0);
        allocations_left = 0;
        weir_test_send_to(plain, weir_udp_port(udp), "y", 1);
        weir_test_pass(0);
        CU_ASSERT_EQUAL(lost.status, -ENOMEM);
        weir_udp *own = weir_udp_connect(weir_test_at(plain_port));
        weir_task_start(weir_udp_receive_new(own, weir_test_take, &broken));
        weir_test_pass(0);
        fail(CALL_RECVMMSG, 0, 1, ENOMEM);
        weir_test_send_to(plain, weir_udp_port(own), "y", 1);
        weir_test_pass(0);
        CU_ASSERT_EQUAL(broken.status, -ENOMEM);
        weir_udp_unref(own);
        fail(CALL_SOCKET, 0, 1, EMFILE);
        CU_ASSERT(!weir_udp_open("127.0.0.1:0") && errno == EMFILE);
        fail(CALL_SOCKET, 0, 1, EMFILE);
        CU_ASSERT(!weir_udp_serve("127.0.0.1:0", weir_test_take, &lost) && errno == EMFILE);
        end();
}

/* -- opening -- */

static void
a_socket_that_cannot_be_bound_or_connected_is_none(void)
{
        static const struct {
                enum call call;
                const char *peer; /* NULL: it is bound */
                int error;
        } cases[] = {
                {CALL_BIND, NULL, EADDRINUSE},
                {CALL_BIND, NULL, EACCES},
                {CALL_CONNECT, "127.0.0.1:9", ENETUNREACH},
                {CALL_CONNECT, "127.0.0.1:9", EAGAIN},
                {CALL_CONNECT, "unix:@weir-udp-faults", ECONNREFUSED},
                {CALL_BIND, "unix:@weir-udp-faults", ENOMEM}, /* to a name of its own */
        };
        unsigned before = weir_test_entries_of("/proc/self/fd");
        int64_t bytes_before = bytes_out;

        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
                fail(cases[i].call, 0, 1, cases[i].error);
                errno = 0;
                CU_ASSERT_PTR_NULL(cases[i].peer ? weir_udp_connect(cases[i].peer) : weir_udp_open("127.0.0.1:0"));
                CU_ASSERT_EQUAL(errno, cases[i].error);
                CU_ASSERT_EQUAL(stop_failing(cases[i].call), 1);
        }
        CU_ASSERT_EQUAL(weir_test_entries_of("/proc/self/fd"), before);
        CU_ASSERT_EQUAL(bytes_out, bytes_before);
}

/* It has a socket for each poller. */
static void
a_server_that_cannot_bind_all_its_sockets_is_none(void)
{
        struct weir_test_taken taken = {0};

        weir_test_begin_real(2);
        unsigned before = weir_test_entries_of("/proc/self/fd");
        int64_t bytes_before = bytes_out;
        for (int at = 0; at < 2; at++) {
                fail(CALL_BIND, at, 1, EADDRINUSE);
                errno = 0;
                CU_ASSERT_PTR_NULL(weir_udp_serve("127.0.0.1:0", weir_test_take, &taken));
                CU_ASSERT_EQUAL(errno, EADDRINUSE);
                CU_ASSERT_EQUAL(stop_failing(CALL_BIND), 1);
        }
        CU_ASSERT_EQUAL(weir_test_entries_of("/proc/self/fd"), before);
        CU_ASSERT_EQUAL(bytes_out, bytes_before);
        weir_test_end();
}

/* -- out of memory, at each place -- */

static void
handle(weir_task *request, void *unused)
{
        (void)unused;
        weir_udp_reply(request, "reply", 5);
        weir_series_push(weir_series_of(request), weir_timer_new(1, NULL, NULL));
}

static void
count_call(weir_task *task, void *count)
{
        (void)task;
        ++*(int *)count;
}

static void
start(weir_task *task, int *started)
{
        *started += weir_task_start(task) == 0;
}

/* All that this room does, once.  Each task that was started calls back. */
static void
do_all(void)
{
        int started = 0, ended = 0;
        weir_udp *own = weir_udp_open("127.0.0.1:0");
        weir_udp_server *server = weir_udp_serve("127.0.0.1:0", handle, NULL);
        const char *at_server = server ? weir_test_at(weir_udp_server_port(server)) : "127.0.0.1:9";
        weir_task *many = weir_udp_send_many_new(own, count_call, &ended);
        struct weir_udp_address to;

        weir_udp_address_read(&to, weir_test_at(plain_port));
        weir_udp_send_add(many, &to, "1", 1);
        weir_udp_send_add(many, &to, "2", 1);
        start(many, &started);
        start(weir_udp_send_new(own, weir_test_at(plain_port), "x", 1, count_call, &ended), &started);
        start(weir_udp_ask_new(own, at_server, "x", 1, NULL, count_call, &ended), &started);
        start(weir_udp_receive_new(own, count_call, &ended), &started);
        weir_test_pass(WEIR_SEC(1));
        weir_test_pass(WEIR_SEC(60));
        weir_udp_close(own);
        weir_udp_unref(own);
        weir_test_pass(0);
        if (server) {
                weir_udp_server_stop(server, WEIR_FOREVER);
        }
        CU_ASSERT_EQUAL(ended, started);
}

/* Does all, and refuses once, behind so many that succeed; CALLS: a small block.  Returns whether it came to that. */
static bool
is_refused_once(enum call call, int behind)
{
        if (call != CALLS) {
                fail(call, behind, 1, ENOMEM);
                do_all();
                return stop_failing(call);
        }
        allocations_left = behind;
        do_all();
        return atomic_exchange(&allocations_left, -1) < 0;
}

static void
out_of_memory_at_each_place_leaves_nothing_behind(void)
{
        static const enum call calls[] = {CALLS, CALL_CALLOC, CALL_MMAP};

        for (unsigned kind = 0; kind < sizeof calls / sizeof *calls; kind++) {
                int64_t bytes_before = (weir_test_free_kept(), bytes_out);
                int at = 0;

                begin();
                do_all(); /* once undisturbed */
                unsigned before = weir_test_entries_of("/proc/self/fd");
                while (at < 300 && is_refused_once(calls[kind], at))
                        at++;
                CU_ASSERT(at > 0 && at < 300); /* it has come to the end */
                CU_ASSERT_EQUAL(weir_test_entries_of("/proc/self/fd"), before);
                weir_test_drain(plain);
                end();
                weir_test_free_kept();
                CU_ASSERT_EQUAL(bytes_out, bytes_before);
        }
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(no_room_is_waited_for),
                WEIR_TEST(a_cancel_ends_the_wait_for_room),
                WEIR_TEST(an_interrupted_call_is_made_again),
                WEIR_TEST(a_report_that_cannot_be_read_comes_again),
                WEIR_TEST(a_full_interface_is_reported_or_tried_again),
                WEIR_TEST(an_ask_waits_for_room),
                WEIR_TEST(segments_that_the_system_refuses_go_one_by_one),
                WEIR_TEST(a_lost_datagram_and_a_socket_that_cannot_be_watched_are_errors),
                WEIR_TEST(a_socket_that_cannot_be_bound_or_connected_is_none),
                WEIR_TEST(a_server_that_cannot_bind_all_its_sockets_is_none),
                WEIR_TEST(out_of_memory_at_each_place_leaves_nothing_behind),
        };

        return weir_test_main("udp_faults", tests, sizeof tests / sizeof *tests);
}
