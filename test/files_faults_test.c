/* test/files_faults_test.c: file tasks when calls of the system fail, are interrupted or do half of what they are asked, and
 * when each of their allocations is refused, one after another.
 *
 * The linker puts functions of this file in front of those of the C library and of liburing.  The kernel's answers to a ring are
 * changed where the library looks at them. */
#include "test/fixture.h"

#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <sys/stat.h>
#include <sys/uio.h>

#include "io/file/file.h"
#include "test/blocks_fixture.h"

static char path[] = "/tmp/weir-file-faults-XXXXXX";
static char folder[sizeof path + 2]; /* beside it; there while a test needs it */

/* -- faults -- */

enum fault {
        NO_FAULT = 0,
        FAILS,       /* -EIO */
        INTERRUPTED, /* -EINTR */
        GIVEN_UP,    /* -ECANCELED, which nobody has asked for */
        HALF,        /* of the bytes; the other half is still to be done */
        DIRECT_END,  /* HALF at first, and then -EINVAL, as a direct read of a file whose end is in the middle of a block */
        INVALID,     /* -EINVAL */
        AGAIN,       /* -EAGAIN */
};

static _Atomic int fault, faults_left; /* which, and how often from now on */
static _Atomic int calls_before;       /* that go well */
static _Atomic bool is_first;          /* since that was said */

static enum fault
next_fault(void)
{
        int left = atomic_load(&faults_left);

        if (left > 0 && atomic_fetch_sub(&calls_before, 1) > 0)
                return NO_FAULT;
        while (left > 0)
                if (atomic_compare_exchange_weak(&faults_left, &left, left - 1))
                        return fault != DIRECT_END ? (enum fault)fault : atomic_exchange(&is_first, false) ? HALF : INVALID;
        return NO_FAULT;
}

/* AGAIN is said by rings alone. */
static enum fault
fault_of_call(void)
{
        return fault == AGAIN ? NO_FAULT : next_fault();
}

/* Behind so many calls. */
static void
have_behind(int calls, enum fault what, int often)
{
        fault = what;
        is_first = true;
        calls_before = calls;
        faults_left = often;
}

static void
have(enum fault what, int often)
{
        have_behind(0, what, often);
}

static int
error_of(enum fault what)
{
        return what == FAILS ? EIO : what == INVALID ? EINVAL : what == AGAIN ? EAGAIN : EINTR;
}

/* -- in front of the C library -- */

ssize_t __real_preadv2(int fd, const struct iovec *parts, int count, off_t offset, int flags);
ssize_t __wrap_preadv2(int fd, const struct iovec *parts, int count, off_t offset, int flags);
ssize_t __real_pwritev2(int fd, const struct iovec *parts, int count, off_t offset, int flags);
ssize_t __wrap_pwritev2(int fd, const struct iovec *parts, int count, off_t offset, int flags);

/* Of the first part that is not empty. */
static struct iovec
half_of(const struct iovec *parts, int count)
{
        while (count > 1 && parts->iov_len == 0)
                parts++, count--;
        return (struct iovec){parts->iov_base, (parts->iov_len + 1) / 2};
}

ssize_t
__wrap_preadv2(int fd, const struct iovec *parts, int count, off_t offset, int flags)
{
        enum fault what = fault_of_call();
        struct iovec first = half_of(parts, count);

        if (what == HALF)
                return __real_preadv2(fd, &first, 1, offset, flags);
        if (what) {
                errno = error_of(what);
                return -1;
        }
        return __real_preadv2(fd, parts, count, offset, flags);
}

ssize_t
__wrap_pwritev2(int fd, const struct iovec *parts, int count, off_t offset, int flags)
{
        enum fault what = fault_of_call();
        struct iovec first = half_of(parts, count);

        if (what == HALF)
                return __real_pwritev2(fd, &first, 1, offset, flags);
        if (what) {
                errno = error_of(what);
                return -1;
        }
        return __real_pwritev2(fd, parts, count, offset, flags);
}

#define WRAP(name, parameters, ...)                \
        int __real_##name parameters;              \
        int __wrap_##name parameters;              \
        int __wrap_##name parameters               \
        {                                          \
                enum fault what = fault_of_call(); \
                                                   \
                if (what) {                        \
                        errno = error_of(what);    \
                        return -1;                 \
                }                                  \
                return __real_##name(__VA_ARGS__); \
        }

WRAP(fsync, (int fd), fd)
WRAP(fdatasync, (int fd), fd)
WRAP(ftruncate, (int fd, off_t size), fd, size)
WRAP(rename, (const char *from, const char *to), from, to)
WRAP(unlink, (const char *name), name)
WRAP(mkdir, (const char *name, mode_t mode), name, mode)
WRAP(rmdir, (const char *name), name)
WRAP(stat, (const char *name, struct stat *found), name, found)
WRAP(lstat, (const char *name, struct stat *found), name, found)
WRAP(fstat, (int fd, struct stat *found), fd, found)

int __real_open(const char *name, int flags, ...);
int __wrap_open(const char *name, int flags, ...);

int
__wrap_open(const char *name, int flags, ...)
{
        enum fault what = fault_of_call();
        va_list mode;

        if (what) {
                errno = error_of(what);
                return -1;
        }
        va_start(mode, flags);
        int fd = __real_open(name, flags, flags & O_CREAT ? va_arg(mode, mode_t) : 0);
        va_end(mode);
        return fd;
}

DIR *__real_opendir(const char *name);
DIR *__wrap_opendir(const char *name);
struct dirent *__real_readdir(DIR *directory);
struct dirent *__wrap_readdir(DIR *directory);

DIR *
__wrap_opendir(const char *name)
{
        enum fault what = fault_of_call();

        if (!what)
                return __real_opendir(name);
        errno = error_of(what);
        return NULL;
}

struct dirent *
__wrap_readdir(DIR *directory)
{
        enum fault what = fault_of_call();

        if (!what)
                return __real_readdir(directory);
        errno = error_of(what);
        return NULL;
}

static _Atomic int closes;       /* with a fault */
static _Atomic int watched = -1; /* a descriptor: how often it was closed, and how often by a poller */
static _Atomic int closes_watched, closes_on_poller;

int __real_close(int fd);
int __wrap_close(int fd);

int
__wrap_close(int fd)
{
        enum fault what = fault_of_call();

        if (fd == watched) {
                char name[16] = "";

                pthread_getname_np(pthread_self(), name, sizeof name);
                closes_watched++;
                closes_on_poller += strcmp(name, "weir/0") == 0;
        }
        __real_close(fd);
        if (!what)
                return 0;
        closes++;
        errno = error_of(what);
        return -1;
}

/* -- in front of liburing -- */

#if WEIR_HAS_URING
#include <liburing.h>

static _Atomic int refuses_rings; /* the error */
static _Atomic int submits_left;  /* that fail */
static _Atomic int rings_asked_for;
static _Atomic size_t bytes_inline; /* that the kernel was asked for, but for those that its threads have to read */

int __real_io_uring_queue_init_params(unsigned entries, struct io_uring *ring, struct io_uring_params *params);
int __wrap_io_uring_queue_init_params(unsigned entries, struct io_uring *ring, struct io_uring_params *params);
int __real_io_uring_submit(struct io_uring *ring);
int __wrap_io_uring_submit(struct io_uring *ring);
unsigned __real_io_uring_peek_batch_cqe(struct io_uring *ring, struct io_uring_cqe **answers, unsigned count);
unsigned __wrap_io_uring_peek_batch_cqe(struct io_uring *ring, struct io_uring_cqe **answers, unsigned count);

int
__wrap_io_uring_queue_init_params(unsigned entries, struct io_uring *ring, struct io_uring_params *params)
{
        rings_asked_for++;
        return refuses_rings ? -refuses_rings : __real_io_uring_queue_init_params(entries, ring, params);
}

int
__wrap_io_uring_submit(struct io_uring *ring)
{
        if (submits_left > 0) {
                submits_left--;
                return -EAGAIN;
        }
        for (unsigned at = ring->sq.sqe_head; at != ring->sq.sqe_tail; at++) {
                const struct io_uring_sqe *request = &ring->sq.sqes[at & *ring->sq.kring_mask];

                if (request->opcode == IORING_OP_READ && !(request->flags & IOSQE_ASYNC))
                        bytes_inline += request->len;
        }
        return __real_io_uring_submit(ring);
}

unsigned
__wrap_io_uring_peek_batch_cqe(struct io_uring *ring, struct io_uring_cqe **answers, unsigned count)
{
        count = __real_io_uring_peek_batch_cqe(ring, answers, count);
        for (unsigned i = 0; i < count; i++) {
                const struct weir__file_task *task = io_uring_cqe_get_data(answers[i]);
                enum fault what = task && answers[i]->res >= 0 ? next_fault() : NO_FAULT;

                if (what && task->kind == WEIR__FILE_OPEN) /* it is as if it had not been opened */
                        __real_close(answers[i]->res);
                if (what == HALF)
                        answers[i]->res = (answers[i]->res + 1) / 2;
                else if (what)
                        answers[i]->res = what == GIVEN_UP ? -ECANCELED : -error_of(what);
        }
        return count;
}
#endif

/* -- memory -- */

void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__real_realloc(void *block, size_t size);
void *__wrap_realloc(void *block, size_t size);
char *__real_strdup(const char *text);
char *__wrap_strdup(const char *text);

static _Atomic bool armed;

static bool
is_refused(void)
{
        int before = atomic_load(&allocations_left);

        if (!armed || before < 0)
                return false;
        atomic_store(&allocations_left, before - 1);
        return before == 0;
}

void *
__wrap_malloc(size_t size)
{
        return is_refused() ? NULL : __real_malloc(size);
}

void *
__wrap_calloc(size_t count, size_t size)
{
        return is_refused() ? NULL : __real_calloc(count, size);
}

void *
__wrap_realloc(void *block, size_t size)
{
        return is_refused() ? NULL : __real_realloc(block, size);
}

char *
__wrap_strdup(const char *text)
{
        return is_refused() ? NULL : __real_strdup(text);
}

/* -- both backends -- */

static void
begin(enum weir_files files)
{
        struct weir_config config = WEIR_CONFIG_DEFAULT;

        config.pollers = 1;
        config.files = files;
        CU_ASSERT_EQUAL_FATAL(weir_init(&config), 0);
}

struct seen {
        int status;
        size_t count;
        char data[32];
        char names[32]; /* of a list */
        int64_t size;   /* of a stat; -1: there is none */
        weir_file *file;
};

static void
see(weir_task *task, void *context)
{
        struct seen *seen = context;
        size_t size = 0;
        const void *data = weir_file_data(task, &size);

        seen->status = weir_task_status(task);
        seen->size = weir_file_stat(task) ? (int64_t)weir_file_stat(task)->st_size : -1;
        seen->count = weir_file_count(task);
        if (data)
                memcpy(seen->data, data, size < sizeof seen->data ? size : sizeof seen->data);
        for (size_t i = 0; weir_file_entry(task, i, NULL); i++)
                strncat(seen->names, weir_file_entry(task, i, NULL), sizeof seen->names - strlen(seen->names) - 1);
        seen->file = weir_file_open_take(task);
}

static struct seen seen;

static struct seen *
anew(void)
{
        seen = (struct seen){0};
        return &seen;
}

#define RUN(call, ...) weir_task_run(weir_file_##call##_new(__VA_ARGS__, see, anew()))

/* With so many faults, all of which it meets. */
#define RUN_WITH(what, often, call, ...)              \
        ({                                            \
                have((what), (often));                \
                int status_ = RUN(call, __VA_ARGS__); \
                                                      \
                CU_ASSERT_EQUAL(faults_left, 0);      \
                status_;                              \
        })

static weir_file *
open_file(void)
{
        CU_ASSERT_EQUAL(RUN(open, path, O_RDWR | O_CREAT | O_TRUNC, 0600), 0);
        CU_ASSERT_PTR_NOT_NULL_FATAL(seen.file);
        return seen.file;
}

static void
on_both(void (*test)(void))
{
        begin(WEIR_FILES_AUTO);
        test();
        have(NO_FAULT, 0);
        weir_test_end();
        begin(WEIR_FILES_QUEUE);
        test();
        have(NO_FAULT, 0);
        weir_test_end();
}

static bool
by_ring(void)
{
        return strcmp(weir_file_backend(), "io_uring") == 0;
}

/* -- answers of the system -- */

static void
interrupt(void)
{
        const struct iovec parts[] = {{"abc", 3}, {"defg", 4}};

        CU_ASSERT_EQUAL(RUN_WITH(INTERRUPTED, 2, open, path, O_RDWR | O_CREAT | O_TRUNC, 0600), 0);
        weir_file *file = seen.file;
        CU_ASSERT_PTR_NOT_NULL_FATAL(file);
        CU_ASSERT_EQUAL(RUN_WITH(INTERRUPTED, 3, writev, file, 0, parts, 2), 0);
        CU_ASSERT_EQUAL(seen.count, 7);
        CU_ASSERT_EQUAL(RUN_WITH(INTERRUPTED, 3, sync, file), 0);
        CU_ASSERT_EQUAL(RUN_WITH(INTERRUPTED, 3, sync_data, file), 0);
        CU_ASSERT_EQUAL(RUN_WITH(INTERRUPTED, 3, truncate, file, 6), 0);
        CU_ASSERT_EQUAL(RUN_WITH(INTERRUPTED, 3, read, file, 0, 6), 0);
        CU_ASSERT(seen.count == 6 && memcmp(seen.data, "abcdef", 6) == 0);
        CU_ASSERT_EQUAL(RUN_WITH(INTERRUPTED, 3, stat, path, true), 0);
        CU_ASSERT_EQUAL(seen.size, 6);
        CU_ASSERT_EQUAL(RUN_WITH(INTERRUPTED, 3, stat, path, false), 0);
        CU_ASSERT_EQUAL(seen.size, 6);
        CU_ASSERT_EQUAL(RUN_WITH(INTERRUPTED, 3, stat_open, file), 0);
        CU_ASSERT_EQUAL(seen.size, 6);
        CU_ASSERT_EQUAL(RUN_WITH(INTERRUPTED, 3, rename, path, path), 0);
        CU_ASSERT_EQUAL(RUN_WITH(INTERRUPTED, 3, mkdir, folder, 0700), 0);
        CU_ASSERT_EQUAL(RUN_WITH(INTERRUPTED, 3, rmdir, folder), 0);
        CU_ASSERT_EQUAL(RUN_WITH(INTERRUPTED, 3, unlink, path), 0);
        CU_ASSERT_EQUAL(RUN(stat, path, true), -ENOENT);
        closes = 0;
        CU_ASSERT_EQUAL(RUN_WITH(INTERRUPTED, 1, close, file), 0); /* it is closed, and must not be closed again */
        CU_ASSERT_EQUAL(closes, 1);
        weir_file_unref(file);
}

static void
an_interrupted_call_is_made_again_but_for_close(void)
{
        on_both(interrupt);
}

static void
fail(void)
{
        weir_file *file = open_file();

        CU_ASSERT_EQUAL(RUN(write, file, 0, "abcd", 4), 0);
        CU_ASSERT_EQUAL(RUN_WITH(FAILS, 1, open, path, O_RDONLY, 0), -EIO);
        CU_ASSERT_PTR_NULL(seen.file);
        CU_ASSERT_EQUAL(RUN_WITH(FAILS, 1, read, file, 0, 3), -EIO);
        CU_ASSERT_EQUAL(seen.count, 0);
        CU_ASSERT_EQUAL(RUN_WITH(FAILS, 1, write, file, 0, "abc", 3), -EIO);
        CU_ASSERT_EQUAL(RUN_WITH(FAILS, 1, append, file, "abc", 3), -EIO);
        CU_ASSERT_EQUAL(RUN_WITH(FAILS, 1, sync, file), -EIO);
        CU_ASSERT_EQUAL(RUN_WITH(FAILS, 1, sync_data, file), -EIO);
        CU_ASSERT_EQUAL(RUN_WITH(FAILS, 1, truncate, file, 3), -EIO);
        CU_ASSERT_EQUAL(RUN_WITH(FAILS, 1, stat, path, true), -EIO);
        CU_ASSERT_EQUAL(RUN_WITH(FAILS, 1, stat, path, false), -EIO);
        CU_ASSERT_EQUAL(RUN_WITH(FAILS, 1, stat_open, file), -EIO);
        CU_ASSERT_EQUAL(seen.size, -1); /* there is no stat to be seen */
        CU_ASSERT_EQUAL(RUN_WITH(FAILS, 1, rename, path, path), -EIO);
        CU_ASSERT_EQUAL(RUN_WITH(FAILS, 1, unlink, path), -EIO);
        CU_ASSERT_EQUAL(RUN_WITH(FAILS, 1, mkdir, folder, 0700), -EIO);
        CU_ASSERT_EQUAL(RUN_WITH(FAILS, 1, rmdir, folder), -EIO);
        CU_ASSERT_EQUAL(RUN_WITH(FAILS, 1, close, file), -EIO);
        CU_ASSERT_EQUAL(RUN(close, file), -EBADF);
        weir_file_unref(file);
}

static void
an_error_of_the_disk_is_the_status(void)
{
        on_both(fail);
}

/* -- a directory that cannot be read to its end -- */

#define LIST_CALLS 7 /* opendir; readdir of ".", "..", three files and the end */

static bool
has_all_names(void)
{
        return seen.count == 3 && strlen(seen.names) == 3 && strchr(seen.names, 'a') && strchr(seen.names, 'b') &&
               strchr(seen.names, 'c');
}

static void
list(void)
{
        for (int at = 0; at <= LIST_CALLS; at++) {
                have_behind(at, FAILS, 1);
                CU_ASSERT_EQUAL(RUN(list, folder), at < LIST_CALLS ? -EIO : 0);
                CU_ASSERT_EQUAL(faults_left, at < LIST_CALLS ? 0 : 1);
                CU_ASSERT(at < LIST_CALLS ? seen.count == 0 && !*seen.names : has_all_names());
                have_behind(at, INTERRUPTED, 2);
                CU_ASSERT_EQUAL(RUN(list, folder), 0);
                CU_ASSERT_EQUAL(faults_left, at < LIST_CALLS ? 0 : 2);
                CU_ASSERT(has_all_names());
        }
        have(NO_FAULT, 0);
}

static void
a_list_is_whole_or_an_error(void)
{
        char name[sizeof folder + 2];

        CU_ASSERT_EQUAL_FATAL(mkdir(folder, 0700), 0);
        for (char letter = 'a'; letter <= 'c'; letter++) {
                snprintf(name, sizeof name, "%s/%c", folder, letter);
                CU_ASSERT_EQUAL(mkdir(name, 0700), 0);
        }
        on_both(list);
        for (char letter = 'a'; letter <= 'c'; letter++) {
                snprintf(name, sizeof name, "%s/%c", folder, letter);
                CU_ASSERT_EQUAL(rmdir(name), 0);
        }
        CU_ASSERT_EQUAL(rmdir(folder), 0);
}

static void
do_half(void)
{
        struct iovec parts[] = {{(char[]){"ab"}, 2}, {(char[]){"cdefgh"}, 6}};
        char one[3], two[5];
        struct iovec into[] = {{one, 3}, {two, 5}};
        weir_file *file = open_file();

        have(HALF, 3);
        CU_ASSERT_EQUAL(RUN(writev, file, 0, parts, 2), 0);
        CU_ASSERT_EQUAL(seen.count, 8);
        have(HALF, 2);
        CU_ASSERT_EQUAL(RUN(readv, file, 0, into, 2), 0);
        CU_ASSERT(seen.count == 8 && memcmp(one, "abc", 3) == 0 && memcmp(two, "defgh", 5) == 0);
        have(HALF, 3);
        CU_ASSERT_EQUAL(RUN(write, file, 8, "ijklmnop", 8), 0);
        have(HALF, 3);
        CU_ASSERT_EQUAL(RUN(read, file, 0, 16), 0);
        CU_ASSERT(seen.count == 16 && memcmp(seen.data, "abcdefghijklmnop", 16) == 0);
        CU_ASSERT_EQUAL(faults_left, 0);
        weir_file_unref(file);
}

static void
a_short_read_or_write_goes_on_by_itself(void)
{
        on_both(do_half);
}

static void
end_directly(void)
{
        weir_file *file = open_file();

        CU_ASSERT_EQUAL(RUN(write, file, 0, "abcdefgh", 8), 0);
        have(DIRECT_END, by_ring() ? 2 : 3); /* the queue asks the page cache first */
        CU_ASSERT_EQUAL(RUN(read, file, 0, 8), 0);
        CU_ASSERT_EQUAL(seen.count, 4);
        CU_ASSERT_EQUAL(faults_left, 0);
        have(INVALID, by_ring() ? 1 : 2);
        CU_ASSERT_EQUAL(RUN(read, file, 0, 8), -EINVAL);
        weir_file_unref(file);
}

static void
a_direct_read_that_was_short_is_at_the_end(void)
{
        on_both(end_directly);
}

static void
requests_that_the_kernel_gives_up_are_made_again(void)
{
        begin(WEIR_FILES_AUTO);
        if (by_ring()) {
                weir_file *file = open_file();

                have(GIVEN_UP, 2);
                CU_ASSERT_EQUAL(RUN(write, file, 0, "abc", 3), 0);
                have(GIVEN_UP, 2);
                CU_ASSERT_EQUAL(RUN(sync, file), 0);
                CU_ASSERT_EQUAL(faults_left, 0);
                weir_file_unref(file);
        }
        weir_test_end();
}

/* An old kernel says that of a regular file with O_NONBLOCK.  A thread of the executor reads it then. */
static void
what_a_ring_cannot_wait_for_goes_to_the_queue(void)
{
        const struct iovec parts[] = {{"ef", 2}, {"g", 1}};

        begin(WEIR_FILES_AUTO);
        if (by_ring()) {
                weir_file *file = open_file();

                have(AGAIN, 1);
                CU_ASSERT_EQUAL(RUN(write, file, 0, "abcd", 4), 0);
                CU_ASSERT_EQUAL(seen.count, 4);
                CU_ASSERT_EQUAL(faults_left, 0);
                have(AGAIN, 1);
                CU_ASSERT_EQUAL(RUN(appendv, file, parts, 2), 0);
                CU_ASSERT_EQUAL(faults_left, 0);
                have(AGAIN, 1);
                CU_ASSERT_EQUAL(RUN(read, file, 0, 7), 0);
                CU_ASSERT(seen.count == 7 && memcmp(seen.data, "abcdefg", 7) == 0);
                CU_ASSERT_EQUAL(faults_left, 0);
                weir_file_unref(file);
        }
        weir_test_end();
}

#define STORM 2000

static _Atomic unsigned ended;

static void
count_end(weir_task *task, void *unused)
{
        int status = weir_task_status(task);

        (void)unused;
        CU_ASSERT(status == 0 || status == -ECANCELED);
        ended++;
}

/* The cancel finds them in the ring, on their way, or in the queue. */
static void
a_cancel_meets_those_that_go_to_the_queue(void)
{
        begin(WEIR_FILES_AUTO);
        weir_file *file = open_file();
        CU_ASSERT_EQUAL(RUN(write, file, 0, "abcd", 4), 0);
        have(AGAIN, by_ring() ? INT_MAX : 0);
        ended = 0;
        for (unsigned i = 0; i < STORM; i++) {
                weir_series *series = weir_series_ref(weir_series_new(NULL, NULL));

                weir_series_push(series, weir_file_read_new(file, 0, 4, count_end, NULL));
                CU_ASSERT_EQUAL(weir_series_start(series), 0);
                for (unsigned spins = i * 7 % 40; spins > 0; spins--)
                        sched_yield();
                weir_series_cancel(series);
                weir_series_unref(series);
        }
        weir_file_unref(file);
        weir_test_end();
        CU_ASSERT(ended <= STORM);
        have(NO_FAULT, 0);
}

/* -- no rings, no threads -- */

static void
where_the_kernel_refuses_rings_the_queue_does_it(void)
{
#if WEIR_HAS_URING
        static const int reasons[] = {ENOSYS, EPERM, ENOMEM};

        for (unsigned i = 0; i < sizeof reasons / sizeof *reasons; i++) {
                refuses_rings = reasons[i];
                begin(WEIR_FILES_AUTO);
                CU_ASSERT_STRING_EQUAL(weir_file_backend(), "queue");
                do_half();
                have(NO_FAULT, 0);
                refuses_rings = 0;
                CU_ASSERT_STRING_EQUAL(weir_file_backend(), "queue"); /* the answer is kept */
                weir_test_end();
        }
#endif
}

static void
a_poller_that_gets_no_ring_uses_the_queue(void)
{
#if WEIR_HAS_URING
        begin(WEIR_FILES_AUTO);
        if (by_ring()) {
                refuses_rings = EMFILE;
                rings_asked_for = 0;
                weir_file *file = open_file();
                do_half();
                have(NO_FAULT, 0);
                refuses_rings = 0;
                do_half();
                have(NO_FAULT, 0);
                CU_ASSERT_EQUAL(rings_asked_for, 1); /* not for each task */
                for (unsigned i = 0; i < 1000; i++)
                        CU_ASSERT_EQUAL(RUN(sync, file), 0);
                CU_ASSERT_EQUAL(rings_asked_for, 2); /* and then it has one */
                weir_file_unref(file);
                have(NO_FAULT, 0);
        }
        weir_test_end();
#endif
}

static void
what_the_kernel_does_not_take_is_tried_again(void)
{
#if WEIR_HAS_URING
        begin(WEIR_FILES_AUTO);
        if (by_ring()) {
                weir_file *file = open_file();

                submits_left = 10;
                CU_ASSERT_EQUAL(RUN(write, file, 0, "abc", 3), 0);
                CU_ASSERT_EQUAL(submits_left, 0);
                weir_file_unref(file);
        }
        weir_test_end();
#endif
}

/* -- close -- */

static void
unref_it(weir_task *timer, void *file)
{
        (void)timer;
        weir_file_unref(file);
}

/* close(2) may wait for a server of files. */
static void
no_poller_closes_a_file_not_even_in_a_shutdown(void)
{
        for (unsigned i = 0; i < 2; i++) {
                begin(WEIR_FILES_AUTO);
                weir_file *file = open_file();
                closes_watched = closes_on_poller = 0;
                watched = weir_file_descriptor(file);
                CU_ASSERT_EQUAL(weir_task_start(weir_timer_new(i ? WEIR_SEC(1000) : 0, unref_it, file)), 0);
                if (!i)
                        WEIR_TEST_EVENTUALLY(closes_watched == 1);
                weir_test_end(); /* ends the timer, if it has not expired */
                CU_ASSERT_EQUAL(closes_watched, 1);
                CU_ASSERT_EQUAL(closes_on_poller, 0);
                watched = -1;
        }
}

#if WEIR_HAS_URING
#define LARGE 64

static char large[256 * 1024];
static _Atomic size_t most_inline;
static _Atomic unsigned reads_left;

static void
count_read(weir_task *read, void *unused)
{
        (void)unused;
        CU_ASSERT_EQUAL(weir_task_status(read), 0);
        reads_left--;
}

/* Comes in each round. */
static void
look_at_the_round(weir_task *empty, void *unused)
{
        size_t bytes = atomic_exchange(&bytes_inline, 0);

        if (bytes > most_inline)
                most_inline = bytes;
        if (reads_left > 0)
                weir_series_push(weir_series_of(empty), weir_empty_new(look_at_the_round, unused));
}

static void
read_all_at_once(weir_task *empty, void *file)
{
        (void)empty;
        bytes_inline = 0;
        for (unsigned i = 0; i < LARGE; i++)
                CU_ASSERT_EQUAL(weir_task_start(weir_file_read_into_new(file, 0, large, sizeof large, count_read, NULL)), 0);
        CU_ASSERT_EQUAL(weir_task_start(weir_empty_new(look_at_the_round, NULL)), 0);
}
#endif

/* The kernel copies them while it takes the requests. */
static void
large_reads_are_spread_over_rounds(void)
{
#if WEIR_HAS_URING
        begin(WEIR_FILES_AUTO);
        if (by_ring()) {
                weir_file *file = open_file();

                CU_ASSERT_EQUAL(RUN(write, file, 0, large, sizeof large), 0);
                most_inline = 0;
                reads_left = LARGE;
                CU_ASSERT_EQUAL(weir_task_start(weir_empty_new(read_all_at_once, file)), 0);
                WEIR_TEST_EVENTUALLY(reads_left == 0);
                weir_file_unref(file);
        }
        weir_test_end();
        CU_ASSERT(most_inline > 0 && most_inline <= 5 * sizeof large);
#endif
}

/* -- memory -- */

static bool
is_well(int status)
{
        CU_ASSERT(status == 0 || status == -ENOMEM);
        return status == 0;
}

/* Returns how many tasks went well of those that there are if nothing is refused. */
static unsigned
all_kinds(void)
{
        char into[4];
        const struct iovec parts[] = {{"de", 2}};
        unsigned well = is_well(RUN(open, path, O_RDWR | O_CREAT | O_TRUNC, 0600));
        weir_file *file = seen.file;

        if (!file)
                return well;
        well += is_well(RUN(write, file, 0, "abc", 3));
        well += is_well(RUN(appendv, file, parts, 1));
        well += is_well(RUN(read, file, 0, 3));
        well += is_well(RUN(read_into, file, 0, into, 3));
        well += is_well(RUN(sync, file));
        well += is_well(RUN(stat_open, file));
        well += is_well(RUN(stat, path, true));
        well += is_well(RUN(list, "/proc/self/task"));
        well += is_well(RUN(rename, path, path));
        well += is_well(RUN(close, file));
        weir_file_unref(file);
        return well;
}

#define KINDS 11

static bool
came_to(enum weir_files files, int nth)
{
        begin(files);
        int64_t before = bytes_out;
        allocations_left = nth;
        armed = true;
        unsigned well = all_kinds();
        armed = false;
        bool refused = allocations_left < 0;
        allocations_left = -1;
        weir_test_end();
        CU_ASSERT(refused ? well <= KINDS : well == KINDS);
        CU_ASSERT_EQUAL(bytes_out, before);
        return refused;
}

static void
without_memory_tasks_report_it_and_leave_nothing(void)
{
        unsigned before = weir_test_entries_of("/proc/self/fd");

        for (int files = WEIR_FILES_AUTO; files <= WEIR_FILES_QUEUE; files++) {
                int nth = 0;

                while (came_to((enum weir_files)files, nth))
                        nth++;
                CU_ASSERT(nth >= 3 * KINDS);
        }
        CU_ASSERT_EQUAL(weir_test_entries_of("/proc/self/fd"), before);
}

static const struct weir_test tests[] = {
        WEIR_TEST(an_interrupted_call_is_made_again_but_for_close),
        WEIR_TEST(an_error_of_the_disk_is_the_status),
        WEIR_TEST(a_list_is_whole_or_an_error),
        WEIR_TEST(a_short_read_or_write_goes_on_by_itself),
        WEIR_TEST(a_direct_read_that_was_short_is_at_the_end),
        WEIR_TEST(requests_that_the_kernel_gives_up_are_made_again),
        WEIR_TEST(where_the_kernel_refuses_rings_the_queue_does_it),
        WEIR_TEST(a_poller_that_gets_no_ring_uses_the_queue),
        WEIR_TEST(what_the_kernel_does_not_take_is_tried_again),
        WEIR_TEST(what_a_ring_cannot_wait_for_goes_to_the_queue),
        WEIR_TEST(a_cancel_meets_those_that_go_to_the_queue),
        WEIR_TEST(no_poller_closes_a_file_not_even_in_a_shutdown),
        WEIR_TEST(large_reads_are_spread_over_rounds),
        WEIR_TEST(without_memory_tasks_report_it_and_leave_nothing),
};

int
main(void)
{
        int fd = mkstemp(path);

        if (fd < 0)
                return 1;
        __real_close(fd);
        snprintf(folder, sizeof folder, "%s.d", path);
        int failed = weir_test_main("files, faults", tests, sizeof tests / sizeof *tests);
        faults_left = 0;
        unlink(path);
        return failed;
}
