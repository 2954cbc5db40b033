/* test/resolve_faults_test.c: look-ups while memory is short, or calls of the system fail: each ends once, with a fitting status,
 * and nothing is left. */
#include "test/fixture.h"

#include <errno.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>

#include "kernel/worker/worker.h"
#include "test/dns_server.h"

/* -- what fails: on the threads of the library -- */

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *block, size_t size);
void *__real_aligned_alloc(size_t alignment, size_t size);
char *__real_strdup(const char *text);
void __real_free(void *block);
int __real_socket(int family, int type, int protocol);
int __real_connect(int fd, const struct sockaddr *to, socklen_t size);
ssize_t __real_sendmsg(int fd, const struct msghdr *message, int flags);
ssize_t __real_recvfrom(int fd, void *data, size_t size, int flags, struct sockaddr *from, socklen_t *from_size);
int __real_epoll_ctl(int epoll_fd, int operation, int fd, struct epoll_event *event);
int __real_timerfd_create(int clock, int flags);

void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *block, size_t size);
void *__wrap_aligned_alloc(size_t alignment, size_t size);
char *__wrap_strdup(const char *text);
void __wrap_free(void *block);
int __wrap_socket(int family, int type, int protocol);
int __wrap_connect(int fd, const struct sockaddr *to, socklen_t size);
ssize_t __wrap_sendmsg(int fd, const struct msghdr *message, int flags);
ssize_t __wrap_recvfrom(int fd, void *data, size_t size, int flags, struct sockaddr *from, socklen_t *from_size);
int __wrap_epoll_ctl(int epoll_fd, int operation, int fd, struct epoll_event *event);
int __wrap_timerfd_create(int clock, int flags);

enum { MEMORY, SOCKET, CONNECT, SEND, RECEIVE, EPOLL, EPOLL_CHANGE, EPOLL_FORGET, TIMER, KINDS };

static _Atomic int kind = -1, error;
static _Atomic int64_t left = -1, blocks;

static bool
fails(int what)
{
        if (atomic_load(&kind) != what || !weir__worker_self())
                return false;
        if (atomic_fetch_sub(&left, 1) != 0)
                return false;
        errno = atomic_load(&error);
        return true;
}

static void *
counted(void *block)
{
        atomic_fetch_add(&blocks, block != NULL);
        return block;
}

void *
__wrap_malloc(size_t size)
{
        return fails(MEMORY) ? NULL : counted(__real_malloc(size));
}

void *
__wrap_calloc(size_t count, size_t size)
{
        return fails(MEMORY) ? NULL : counted(__real_calloc(count, size));
}

void *
__wrap_realloc(void *block, size_t size)
{
        void *moved = fails(MEMORY) ? NULL : __real_realloc(block, size);

        return block ? moved : counted(moved);
}

void *
__wrap_aligned_alloc(size_t alignment, size_t size)
{
        return fails(MEMORY) ? NULL : counted(__real_aligned_alloc(alignment, size));
}

char *
__wrap_strdup(const char *text)
{
        return fails(MEMORY) ? NULL : counted(__real_strdup(text));
}

void
__wrap_free(void *block)
{
        atomic_fetch_sub(&blocks, block != NULL);
        __real_free(block);
}

int
__wrap_socket(int family, int type, int protocol)
{
        return fails(SOCKET) ? -1 : __real_socket(family, type, protocol);
}

int
__wrap_connect(int fd, const struct sockaddr *to, socklen_t size)
{
        return fails(CONNECT) ? -1 : __real_connect(fd, to, size);
}

ssize_t
__wrap_sendmsg(int fd, const struct msghdr *message, int flags)
{
        return fails(SEND) ? -1 : __real_sendmsg(fd, message, flags);
}

ssize_t
__wrap_recvfrom(int fd, void *data, size_t size, int flags, struct sockaddr *from, socklen_t *from_size)
{
        return fails(RECEIVE) ? -1 : __real_recvfrom(fd, data, size, flags, from, from_size);
}

int
__wrap_epoll_ctl(int epoll_fd, int operation, int fd, struct epoll_event *event)
{
        int what = operation == EPOLL_CTL_ADD ? EPOLL : operation == EPOLL_CTL_MOD ? EPOLL_CHANGE : EPOLL_FORGET;

        return fails(what) ? -1 : __real_epoll_ctl(epoll_fd, operation, fd, event);
}

int
__wrap_timerfd_create(int clock, int flags)
{
        return fails(TIMER) ? -1 : __real_timerfd_create(clock, flags);
}

/* -- a life of the library: some look-ups -- */

enum { LOOK_UPS = 4 };

static struct weir_test_record records[LOOK_UPS];

static void
see(weir_task *resolve, void *context)
{
        int status = weir_task_status(resolve);

        CU_ASSERT((status == 0) == (weir_resolve_count(resolve) > 0));
        CU_ASSERT((status == 0) == (weir_resolve_problem(resolve) == NULL));
        weir_test_note(context, status);
}

static void
live(void)
{
        static const char *const names[LOOK_UPS] = {"both.test", "big.test", "nx.test", "cname.test"};
        struct weir_resolver_config config = WEIR_RESOLVER_CONFIG_DEFAULT;

        config.mode = WEIR_RESOLVER_DNS;
        config.servers = dns.servers;
        config.timeout = WEIR_MSEC(30); /* what is lost is asked for again */
        config.tries = 4;
        CU_ASSERT_EQUAL(weir_resolver_configure(&config), 0);
        weir_test_begin_virtual();
        memset(records, 0, sizeof records);
        for (unsigned i = 0; i < LOOK_UPS; i++) {
                weir_task *resolve = weir_resolve_new(names[i], 0, see, &records[i]);

                if (resolve)
                        weir_task_run(weir_test_recorded(resolve));
        }
        weir_test_end();
        CU_ASSERT_EQUAL(weir_resolver_configure(NULL), 0);
}

/* Whether each has ended once, as it should or with one of these. */
static bool
is_well(int one, int other, int third)
{
        static const int usual[LOOK_UPS] = {0, 0, -ENOENT, 0};
        bool is_fine = true;

        for (unsigned i = 0; i < LOOK_UPS; i++) {
                int status = records[i].status;

                is_fine = is_fine && records[i].calls == 1 && records[i].frees == 1 &&
                          (status == usual[i] || status == one || status == other || status == third);
        }
        return is_fine;
}

static void
try_each(int what, int its_error, int64_t most, int one, int other)
{
        live();
        live(); /* what is kept for ever is there now */
        int64_t before = atomic_load(&blocks);
        unsigned descriptors = weir_test_entries_of("/proc/self/fd");
        int64_t nth = 0;

        for (; nth < most; nth++) {
                atomic_store(&error, its_error);
                atomic_store(&left, nth);
                atomic_store(&kind, what);
                live();
                atomic_store(&kind, -1);
                if (!is_well(one, other, -EAGAIN)) {
                        for (unsigned i = 0; i < LOOK_UPS; i++)
                                fprintf(stderr, "call %d, the %dth: %d calls, status %d\n", what, (int)nth, records[i].calls,
                                        records[i].status);
                        CU_FAIL("a look-up has not ended well");
                }
                CU_ASSERT_EQUAL(atomic_load(&blocks), before);
                CU_ASSERT_EQUAL(weir_test_entries_of("/proc/self/fd"), descriptors);
                if (atomic_load(&left) >= 0)
                        break;
        }
        CU_ASSERT(nth > 0);
        CU_ASSERT(nth < most);
}

static void
each_allocation_may_fail(void)
{
        dns_start();
        try_each(MEMORY, ENOMEM, 1000, -ENOMEM, -ENOMEM);
        dns_stop();
}

static void
each_call_may_fail(void)
{
        dns_start();
        try_each(SOCKET, EMFILE, 100, -EMFILE, -EMFILE);
        try_each(CONNECT, ENETUNREACH, 100, -EAGAIN, -EAGAIN);
        try_each(SEND, ENOBUFS, 100, -EAGAIN, -EAGAIN);
        try_each(SEND, EAGAIN, 100, -EAGAIN, -EAGAIN);
        try_each(RECEIVE, ECONNREFUSED, 100, -EAGAIN, -EIO);
        try_each(RECEIVE, ENOMEM, 100, -EAGAIN, -EIO);
        try_each(EPOLL, ENOSPC, 100, -ENOSPC, -EAGAIN);
        try_each(EPOLL_CHANGE, ENOMEM, 100, -EAGAIN, -EAGAIN); /* what it would have told is asked for again */
        try_each(EPOLL_FORGET, ENOENT, 100, 0, 0);             /* the close takes it away */
        try_each(TIMER, EMFILE, 100, -EMFILE, -EMFILE);
        dns_stop();
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(each_allocation_may_fail),
                WEIR_TEST(each_call_may_fail),
        };

        return weir_test_main("resolve_faults", tests, sizeof tests / sizeof *tests);
}
