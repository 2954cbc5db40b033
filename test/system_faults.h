/* test/system_faults.h: system calls of the library that fail, as a test has chosen.
 *
 * The linker puts the functions below in front of the system's (test/CMakeLists.txt).  They let the calls that a test has chosen
 * fail, where a worker makes them, and count all of them.
 *
 * The system reports once that a socket is ready.  So after an invented EAGAIN, or a short result without a reason, the
 * socket is made to report again.  An error that ends the connection really ends it. */
#ifndef WEIR_TEST_SYSTEM_FAULTS_H
#define WEIR_TEST_SYSTEM_FAULTS_H

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "kernel/worker/worker.h"
#include "test/support.h"

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
        CALLS, /* of a server */
        NEW_SOCKET = CALLS,
        CONNECT_TO,
        GET_OPTION,
        SET_OPTION,
        ALL_CALLS
};

#define BYTE (-1)   /* no error: one byte is done */
#define HEAD      (-2)   /* no error: the first piece and one byte are done */
#define MANY      40     /* calls that fail in a row */
#define ALL       100000 /* the same without an end */
#define FDS       1024

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
static _Atomic int64_t made, needed[ALL_CALLS]; /* calls, while armed */
static _Atomic uint64_t watchers[FDS];      /* by descriptor: what watches it, and for which events */
static _Atomic uint64_t keys[FDS];

/* Whether this call is to fail; errno says how, 0 for a single byte. */
static inline bool fails(enum call call)
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

/* The virtual clock asks the system through a socket of its own. */
static inline bool is_of_clock(int fd)
{
        int domain = 0;
        socklen_t size = sizeof domain;

        return atomic_load(&armed) && getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &size) == 0 && domain == AF_NETLINK;
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
static inline void make_true(int fd)
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

static inline bool takes_its_connection(int error)
{
        return error != EINTR && error != EAGAIN && error != EMFILE && error != ENFILE && error != ENOMEM && error != ENOBUFS &&
               error != EPERM;
}

int __wrap_accept4(int fd, struct sockaddr *address, socklen_t *size, int flags)
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

ssize_t __wrap_recv(int fd, void *data, size_t size, int flags)
{
        if (is_of_clock(fd) || !fails(RECV)) {
                return __real_recv(fd, data, size, flags);
        }
        make_true(fd);
        return errno ? -1 : __real_recv(fd, data, size ? 1 : 0, flags);
}

ssize_t __wrap_send(int fd, const void *data, size_t size, int flags)
{
        if (is_of_clock(fd) || !fails(SEND)) {
                return __real_send(fd, data, size, flags);
        }
        make_true(fd);
        return errno ? -1 : __real_send(fd, data, size ? 1 : 0, flags);
}

ssize_t __wrap_sendmsg(int fd, const struct msghdr *message, int flags)
{
        if (is_of_clock(fd) || !fails(SENDMSG)) {
                return __real_sendmsg(fd, message, flags);
        }
        make_true(fd);
        if (fault.error == HEAD) {
                struct iovec pieces[2] = {message->msg_iov[0], {message->msg_iov[1].iov_base, 1}};
                const struct msghdr start = {.msg_iov = pieces, .msg_iovlen = 2};
                int room = 200 * 1024;

                CU_ASSERT_EQUAL(setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &room, sizeof room), 0);
                return __real_sendmsg(fd, &start, flags);
        }
        return errno ? -1 : __real_send(fd, message->msg_iov->iov_base, 1, flags);
}

ssize_t __wrap_sendfile(int to, int from, off_t *offset, size_t size)
{
        if (!fails(SENDFILE)) {
                return __real_sendfile(to, from, offset, size);
        }
        make_true(to);
        return errno ? -1 : __real_sendfile(to, from, offset, 1);
}

ssize_t __wrap_pread(int fd, void *data, size_t size, off_t offset)
{
        if (!fails(PREAD)) {
                return __real_pread(fd, data, size, offset);
        }
        return errno ? -1 : __real_pread(fd, data, 1, offset);
}

int __wrap_epoll_ctl(int epoll_fd, int operation, int fd, struct epoll_event *event)
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

int __wrap_epoll_wait(int epoll_fd, struct epoll_event *events, int room, int timeout)
{
        return fails(EPOLL_WAIT) ? -1 : __real_epoll_wait(epoll_fd, events, room, timeout);
}

int __wrap_open(const char *path, int flags, ...)
{
        va_list arguments;

        va_start(arguments, flags);
        int mode = flags & O_CREAT ? va_arg(arguments, int) : 0;
        va_end(arguments);
        return fails(OPEN) ? -1 : __real_open(path, flags, mode);
}

long __wrap_syscall(long number, ...)
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

int __wrap_fstat(int fd, struct stat *status)
{
        return fails(FSTAT) ? -1 : __real_fstat(fd, status);
}

int __wrap_ioctl(int fd, unsigned long request, ...)
{
        va_list arguments;

        va_start(arguments, request);
        void *argument = va_arg(arguments, void *);
        va_end(arguments);
        return fails(IOCTL) ? -1 : __real_ioctl(fd, request, argument);
}

int __wrap_shutdown(int fd, int how)
{
        return fails(SHUTDOWN) ? -1 : __real_shutdown(fd, how);
}

/* The descriptor is gone, whatever Linux says. */
int __wrap_close(int fd)
{
        if (!fails(CLOSE)) {
                return __real_close(fd);
        }
        int error = errno;
        __real_close(fd);
        errno = error;
        return -1;
}

#define BIT(call) (UINT32_C(1) << (call))
#define ALWAYS    (BIT(ACCEPT) | BIT(RECV) | BIT(EPOLL_ADD) | BIT(EPOLL_WAIT) | BIT(CLOSE))

/* From the nth call of that kind on so many in a row fail. */
static inline void choose(enum call call, int error, int64_t nth, int64_t row)
{
        fault.call = call;
        fault.error = error;
        fault.row = row;
        atomic_store(&left, nth);
        atomic_store(&failed, 0);
        atomic_store(&made, 0);
        atomic_store(&armed, true);
}

#endif
