/* test/protocol_faults_test.c: own protocols, client and server in one process, with each of their allocations and each of their
 * reads and writes refused, one after another.
 *
 * What is refused must be told, once, and nothing may be left behind. */
#include "test/protocol_fixture.h"

#include "test/blocks_fixture.h"

#include <malloc.h>

/* -- what the linker puts in front of the library's calls (test/CMakeLists.txt) -- */

static _Atomic bool is_armed;                    /* the C library's memory counts as well */
static _Atomic int transfers_left = -1, refusal; /* reads and writes of sockets until one fails with that errno */
static _Atomic int sockets_left = -1;            /* sockets until there is no descriptor for one */
static _Atomic bool is_without_sockets;          /* or for any */

static bool
is_refused(void)
{
        int before = atomic_load(&allocations_left);

        if (!is_armed || before < 0)
                return false;
        atomic_store(&allocations_left, before - 1);
        return before == 0;
}

static bool
fails(void)
{
        int before = atomic_load(&transfers_left);

        if (!is_armed || before < 0)
                return false;
        atomic_store(&transfers_left, before - 1);
        errno = refusal;
        return before == 0;
}

void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__real_realloc(void *block, size_t size);
void *__wrap_realloc(void *block, size_t size);
char *__real_strdup(const char *text);
char *__wrap_strdup(const char *text);
int __real_socket(int domain, int type, int protocol);
int __wrap_socket(int domain, int type, int protocol);
ssize_t __real_recv(int fd, void *data, size_t size, int flags);
ssize_t __wrap_recv(int fd, void *data, size_t size, int flags);
ssize_t __real_send(int fd, const void *data, size_t size, int flags);
ssize_t __wrap_send(int fd, const void *data, size_t size, int flags);
ssize_t __real_sendmsg(int fd, const struct msghdr *message, int flags);
ssize_t __wrap_sendmsg(int fd, const struct msghdr *message, int flags);

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

int
__wrap_socket(int domain, int type, int its_protocol)
{
        bool is_refused = is_armed && (is_without_sockets || sockets_left == 0);

        if (is_armed && sockets_left >= 0)
                sockets_left--;
        errno = EMFILE;
        return is_refused ? -1 : __real_socket(domain, type, its_protocol);
}

ssize_t
__wrap_recv(int fd, void *data, size_t size, int flags)
{
        return fails() ? -1 : __real_recv(fd, data, size, flags);
}

ssize_t
__wrap_send(int fd, const void *data, size_t size, int flags)
{
        return fails() ? -1 : __real_send(fd, data, size, flags);
}

ssize_t
__wrap_sendmsg(int fd, const struct msghdr *message, int flags)
{
        return fails() ? -1 : __real_sendmsg(fd, message, flags);
}

/* -- a scenario -- */

static const struct weir_protocol *protocol;
static unsigned started, ended, well, without_descriptor, pushes, serving;
static int listener;
static weir_fd *listening;
static char address[64];

static ssize_t
frame_of_two(const void *data, size_t size, void *context)
{
        (void)data;
        (void)context;
        return size < 2 ? 0 : 2;
}

static void
see_push(weir_task *message, void *context)
{
        (void)message;
        (void)context;
        pushes++;
}

static void
answer_push(weir_task *message, void *context)
{
        see_push(message, context);
        weir_message_reply(message, "qq", 2);
}

/* A block for it has a multiple of 8 bytes, so that what is counted at its end is what was counted before. */
static void
say_hello(weir_stream *stream, weir_series *series, void *context)
{
        (void)context;
        weir_series_push(series, weir_stream_write_new(stream, "hihihihi", 8, NULL, NULL));
        weir_series_push(series, weir_stream_read_new(stream, 8, 8, NULL, NULL));
}

static const struct weir_protocol lines = {.size = sizeof lines,
                                           .delimiter = "\n",
                                           .delimiter_size = 1,
                                           .bare = true,
                                           .depth = 2,
                                           .connections = 2,
                                           .is_idempotent = true};
static const struct weir_protocol own = {.size = sizeof own, .frame = frame_of_two, .connections = 1, .hello = say_hello};
static uint64_t
match_push(const void *message, size_t size, void *context)
{
        (void)context;
        return size && *(const char *)message == 'p' ? WEIR_MATCH_NONE : WEIR_MATCH_OLDEST;
}

static const struct weir_protocol matched = {.size = sizeof matched,
                                             .frame = frame_of_two,
                                             .depth = 4,
                                             .connections = 1,
                                             .match = match_push,
                                             .unsolicited = answer_push};
static const struct weir_protocol numbered = {
        .size = sizeof numbered, .fixed_size = 2, .id_width = 1, .depth = 4, .connections = 1, .unsolicited = see_push};

static void
answer(weir_task *message, void *context)
{
        size_t size;
        const char *data = weir_message_data(message, &size);

        (void)context;
        if (data[0] == 'q') /* the reply to a push */
                return;
        weir_message_reply(message, data, size);
        if (data[size - 1] == 'l')
                weir_series_push(weir_series_of(message), weir_timer_new(WEIR_SEC(1), NULL, NULL));
        if (protocol->unsolicited && data[0] == '?')
                weir_task_start(weir_session_send_new(weir_message_session(message), "pp", 2, NULL, NULL));
}

static void
served(weir_task *task, void *context)
{
        (void)task;
        (void)context;
        serving--;
}

static void
accept_all(weir_task *readable, void *context)
{
        int fd;

        if (weir_task_status(readable) == -EBADF)
                return;
        while ((fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0) {
                weir_stream *stream = weir_stream_of(fd);

                if (!stream)
                        close(fd);
                serving += weir_task_start(weir_protocol_serve_new(stream, protocol, answer, served, context)) == 0;
                weir_stream_unref(stream);
        }
        if (weir_task_start(weir_fd_readable_new(listening, accept_all, context)) == -ENOMEM)
                weir_task_start(weir_fd_readable_new(listening, accept_all, context)); /* one is refused at a time */
}

static void
note(weir_task *ask, void *context)
{
        (void)context;
        ended++;
        well += weir_task_status(ask) == 0;
        without_descriptor += weir_task_status(ask) == -EMFILE;
}

static void
ask(weir_endpoint *endpoint, const char *text)
{
        started += weir_task_start(weir_ask_new(endpoint, text, 2, note, NULL)) == 0;
}

static void
listen_somewhere(void)
{
        struct sockaddr_un name = {.sun_family = AF_UNIX};
        socklen_t size = sizeof name;

        listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        CU_ASSERT_EQUAL_FATAL(bind(listener, (struct sockaddr *)&name, sizeof(sa_family_t)), 0);
        CU_ASSERT_EQUAL_FATAL(listen(listener, 100), 0);
        CU_ASSERT_EQUAL_FATAL(getsockname(listener, (struct sockaddr *)&name, &size), 0);
        snprintf(address, sizeof address, "unix:@%.*s", (int)(size - offsetof(struct sockaddr_un, sun_path) - 1),
                 name.sun_path + 1);
}

/* Returns whether anything was refused. */
static bool
scenario(const struct weir_protocol *with, int allocations, int transfers)
{
        protocol = with;
        started = ended = well = without_descriptor = pushes = serving = 0;
        weir_test_begin_virtual();
        unsigned fds = weir_test_entries_of("/proc/self/fd");
        listen_somewhere();
        listening = weir_fd_new(listener);
        weir_task_start(weir_fd_readable_new(listening, accept_all, NULL));
        weir_test_pass(0);
        atomic_store(&allocations_left, allocations);
        atomic_store(&transfers_left, transfers);
        is_armed = true;
        weir_endpoint *endpoint = weir_endpoint_new(address, protocol);
        for (unsigned i = 0; i < 5; i++)
                ask(endpoint, i % 2 ? "?l" : "?x");
        weir_clock_advance(WEIR_SEC(3));
        is_without_sockets = false;
        ask(endpoint, "?y");
        weir_clock_advance(WEIR_SEC(200)); /* all limits pass */
        bool was_refused = allocations_left < 0 && transfers_left < 0 && sockets_left < 0;
        is_armed = false;
        atomic_store(&allocations_left, -1);
        weir_endpoint_unref(endpoint);
        weir_test_pass(WEIR_SEC(60));
        CU_ASSERT_EQUAL(started, ended);
        CU_ASSERT_EQUAL(serving, 0);
        weir_fd_forget(listening);
        weir_test_pass(0);
        close(listener);
        CU_ASSERT_EQUAL(weir_test_entries_of("/proc/self/fd"), fds);
        weir_test_end();
        return was_refused;
}

static void
each_allocation(const struct weir_protocol *with)
{
        unsigned count = 0;

        scenario(with, -1, -1);
        CU_ASSERT_EQUAL(well, 6);
        weir_test_free_kept();
        int64_t before = bytes_out;
        while (count < 2000 && scenario(with, (int)count, -1)) {
                count++;
                weir_test_free_kept();
                CU_ASSERT_EQUAL(bytes_out, before);
                CU_ASSERT(well >= 1 || started < 6);
        }
        CU_ASSERT_EQUAL(well, 6);
        CU_ASSERT(count > 30 && count < 2000);
}

static void
without_memory_it_is_told_and_nothing_is_left(void)
{
        each_allocation(&lines);
        each_allocation(&own);
        each_allocation(&matched);
        each_allocation(&numbered);
}

static void
each_transfer(const struct weir_protocol *with, int error)
{
        unsigned count = 0;

        refusal = error;
        while (count < 1000 && scenario(with, -1, (int)count)) {
                count++;
                CU_ASSERT_EQUAL(started, 6);
        }
        CU_ASSERT_EQUAL(well, 6);
        CU_ASSERT(count > 5 && count < 1000);
}

static void
a_read_or_write_that_fails_is_told_and_nothing_is_left(void)
{
        each_transfer(&lines, EIO);
        each_transfer(&own, ECONNRESET);
        each_transfer(&numbered, EIO);
        each_transfer(&numbered, ENOBUFS);
}

static void
without_a_descriptor_one_request_fails(void)
{
        unsigned count = 0;

        for (bool was_refused = true; was_refused && count < 10; count += was_refused) {
                sockets_left = (int)count;
                was_refused = scenario(&lines, -1, -1);
                sockets_left = -1;
                CU_ASSERT(without_descriptor <= was_refused); /* another connection may have been ready before */
                CU_ASSERT_EQUAL(well + without_descriptor, 6);
        }
        CU_ASSERT(count >= 2 && count < 10);
        is_without_sockets = true; /* until the last request */
        scenario(&lines, -1, -1);
        CU_ASSERT_EQUAL(without_descriptor, 5);
        CU_ASSERT_EQUAL(well, 1);
}

/* The peer answers when it has read nothing of a request that is still on its way.  Returns whether anything was refused. */
static bool
early_reply(int allocations)
{
        static char text[1 << 19];

        started = ended = well = 0;
        weir_test_begin_virtual();
        unsigned fds = weir_test_entries_of("/proc/self/fd");
        memset(text, 'x', sizeof text);
        listen_somewhere();
        weir_endpoint *endpoint = weir_endpoint_new(address, &lines);
        atomic_store(&allocations_left, allocations);
        is_armed = true;
        started = weir_task_start(weir_ask_new(endpoint, text, sizeof text, note, NULL)) == 0;
        weir_test_pass(0);
        int peer = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
        if (peer >= 0)
                CU_ASSERT(send(peer, "no\n", 3, MSG_NOSIGNAL) == 3 || ended);
        weir_test_pass(0);
        bool was_refused = allocations_left < 0;
        is_armed = false;
        atomic_store(&allocations_left, -1);
        CU_ASSERT_EQUAL(started, ended);
        weir_endpoint_unref(endpoint);
        weir_test_pass(WEIR_SEC(60)); /* the rest is never taken */
        CU_ASSERT_EQUAL(weir_test_entries_of("/proc/self/fd"), fds + 1 + (peer >= 0));
        if (peer >= 0)
                close(peer);
        close(listener);
        weir_test_end();
        weir_test_free_kept();
        return was_refused;
}

static void
an_early_reply_without_memory_is_told(void)
{
        int count = 0;

        early_reply(-1);
        CU_ASSERT_EQUAL(well, 1);
        int64_t before = bytes_out;
        while (count < 200 && early_reply(count)) {
                count++;
                CU_ASSERT_EQUAL(bytes_out, before);
        }
        CU_ASSERT(count > 10 && count < 200);
        CU_ASSERT_EQUAL(well, 1);
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(without_memory_it_is_told_and_nothing_is_left),
                WEIR_TEST(a_read_or_write_that_fails_is_told_and_nothing_is_left),
                WEIR_TEST(without_a_descriptor_one_request_fails),
                WEIR_TEST(an_early_reply_without_memory_is_told),
        };

        return weir_test_main("protocol_faults", tests, sizeof tests / sizeof *tests);
}
