/* test/client_faults_test.c: requests and calls of the client, of which each call of the system fails, one after another.
 *
 * Each task ends once, as a success or with an error that the header names; nothing is left behind; the next request has its
 * response. */
#include "test/client_scenarios.h"
#include "test/system_faults.h"

int __real_socket(int domain, int type, int protocol);
int __wrap_socket(int domain, int type, int protocol);
int __real_connect(int fd, const struct sockaddr *to, socklen_t size);
int __wrap_connect(int fd, const struct sockaddr *to, socklen_t size);
int __real_getsockopt(int fd, int level, int option, void *value, socklen_t *size);
int __wrap_getsockopt(int fd, int level, int option, void *value, socklen_t *size);
int __real_setsockopt(int fd, int level, int option, const void *value, socklen_t size);
int __wrap_setsockopt(int fd, int level, int option, const void *value, socklen_t size);

int
__wrap_socket(int domain, int type, int protocol)
{
        return fails(NEW_SOCKET) ? -1 : __real_socket(domain, type, protocol);
}

int
__wrap_connect(int fd, const struct sockaddr *to, socklen_t size)
{
        return fails(CONNECT_TO) ? -1 : __real_connect(fd, to, size);
}

/* What kind of a socket it is cannot fail: the descriptor is open. */
int
__wrap_getsockopt(int fd, int level, int option, void *value, socklen_t *size)
{
        return option == SO_ERROR && fails(GET_OPTION) ? -1 : __real_getsockopt(fd, level, option, value, size);
}

/* The option that makes a close a reset cannot fail either. */
int
__wrap_setsockopt(int fd, int level, int option, const void *value, socklen_t size)
{
        return option != SO_LINGER && fails(SET_OPTION) ? -1 : __real_setsockopt(fd, level, option, value, size);
}

struct way {
        enum call call;
        const char *name;
        bool is_harmless; /* the client does not notice, whatever the error is */
        int lasting[8];   /* errors, after which the client may be without its response */
        int passing[4];   /* errors that are no reason for that */
};

static const struct way ways[] = {
        {NEW_SOCKET, "socket", false, {EMFILE, ENFILE, ENOBUFS, ENOMEM, EACCES}, {0}},
        {CONNECT_TO, "connect", false, {ECONNREFUSED, EHOSTUNREACH, ENETUNREACH, EADDRNOTAVAIL, ETIMEDOUT, EPERM, EACCES}, {0}},
        {GET_OPTION, "getsockopt", false, {ENOBUFS}, {0}},
        {SET_OPTION, "setsockopt", true, {ENOBUFS, ENOMEM}, {0}},
        {RECV, "recv", false, {ECONNRESET, ENOMEM, ETIMEDOUT, EIO}, {EINTR, EAGAIN, BYTE}},
        {SEND, "send", false, {EPIPE, ECONNRESET, ENOBUFS, ENOMEM, ETIMEDOUT}, {EINTR, EAGAIN, BYTE}},
        {SENDMSG, "sendmsg", false, {EPIPE, ECONNRESET, ENOBUFS, ENOMEM, ETIMEDOUT}, {EINTR, EAGAIN, BYTE}},
        {SENDFILE, "sendfile", false, {EPIPE, ECONNRESET, EIO, ENOMEM}, {EINTR, EAGAIN, BYTE}},
        {PREAD, "pread", false, {EIO, ENOMEM}, {EINTR, BYTE}},
        {EPOLL_ADD, "epoll_ctl", false, {ENOMEM, ENOSPC, EPERM}, {0}},
        {EPOLL_WAIT, "epoll_wait", false, {0}, {EINTR}},
        {FSTAT, "fstat", false, {ENOMEM, EIO}, {0}},
        {CLOSE, "close", true, {EIO, ENOSPC}, {EINTR}},
};

#define WAYS (sizeof ways / sizeof *ways)

#define MOST 20 /* points of a kind; waits for events may be any number */

static const struct way *way;
static int error;
static int64_t number, row;

static void
fail_some(void)
{
        choose(way->call, error, number, row);
}

/* Whether the header names it: the error itself, what a server that has gone looks like, or the end of an upload to it. */
static bool
is_named(int status, const struct note *note)
{
        return status == -error || status == -ECONNRESET || status == -ECONNABORTED || (status == -EPIPE && !note->is_response);
}

static bool
is_told(const struct note *note, bool must_be_right, bool is_late, int also)
{
        if (note->begun)
                return !must_be_right && note->begun == -error && note->calls == 0;
        if (note->calls != 1)
                return false;
        if (is_late && note->status == -ETIMEDOUT)
                return true;
        if (note->status == 0)
                return note->is_right || !note->is_response;
        return !must_be_right && (is_named(note->status, note) || note->status == also);
}

static bool
run(const struct scenario *scenario, void (*fault_of)(void), bool must_be_right)
{
        weir_cookie_jar *jar = client_begin(scenario);

        arm = fault_of;
        failed = 0;
        play(scenario);
        armed = false;
        arm = NULL;
        for (unsigned i = 0; i < note_count; i++) {
                bool is_well = is_told(&notes[i], must_be_right, scenario->is_late && i, scenario->also);

                CU_ASSERT_TRUE(is_well);
                if (!is_well)
                        printf("\n  %s, %s %s at %d: %s: begun %d, calls %d, status %d, code %d, right %d", scenario->name,
                               way ? way->name : "", strerror(error), (int)number, notes[i].what, notes[i].begun, notes[i].calls,
                               notes[i].status, notes[i].code, notes[i].is_right);
        }
        bool has_failed = failed > 0;
        bool goes_on = works();
        CU_ASSERT_TRUE(goes_on);
        client_end(jar);
        return has_failed;
}

static unsigned points; /* at which a call has failed */

static void
fail_each(const struct scenario *scenario, int with, bool must_be_right)
{
        unsigned descriptors = http_open_descriptors();
        bool has_failed = true;

        error = with;
        for (number = 0; has_failed && number < MOST; number++) {
                has_failed = run(scenario, fail_some, must_be_right);
                points += has_failed;
                bool is_clean = http_open_descriptors() == descriptors;
                CU_ASSERT_TRUE(is_clean);
                if (!is_clean)
                        printf("\n  %s, %s %s at %d: %d descriptors", scenario->name, way->name, strerror(error), (int)number,
                               (int)(http_open_descriptors() - descriptors));
        }
}

/* Each needs some of the calls. */
static void
fail_all(const struct scenario *scenario)
{
        CU_ASSERT_EQUAL(weir_log_set(NULL, NULL), 0);
        points = 0;
        number = 0;
        for (int i = 0; i < 3; i++) /* what is made once */
                (void)run(scenario, NULL, true);
        for (way = ways; way < ways + WAYS; way++) {
                for (size_t i = 0; i < sizeof way->lasting / sizeof *way->lasting && way->lasting[i]; i++)
                        fail_each(scenario, way->lasting[i], way->is_harmless);
                for (size_t i = 0; i < sizeof way->passing / sizeof *way->passing && way->passing[i]; i++)
                        fail_each(scenario, way->passing[i], true);
        }
        way = NULL;
        CU_ASSERT(points > 20);
}

static void
each_call_may_fail(void)
{
        row = 1;
        scenarios_begin();
        for (size_t i = 0; i < SCENARIOS; i++)
                fail_all(&scenarios[i]);
        for (size_t i = 0; i < WAYS; i++)
                CU_ASSERT(needed[ways[i].call] > 0);
        scenarios_end();
}

static void
calls_may_fail_for_a_while(void)
{
        row = 3;
        scenarios_begin();
        for (size_t i = 0; i < SCENARIOS; i++)
                fail_all(&scenarios[i]);
        scenarios_end();
}

static void
input_and_output_may_go_byte_by_byte(void)
{
        static const struct way bytes[] = {{.call = RECV, .name = "recv"},
                                           {.call = SEND, .name = "send"},
                                           {.call = SENDMSG, .name = "sendmsg"},
                                           {.call = SENDFILE, .name = "sendfile"}};

        row = ALL;
        number = 0;
        error = BYTE;
        scenarios_begin();
        for (size_t i = 0; i < SCENARIOS; i++)
                for (way = bytes; way < bytes + sizeof bytes / sizeof *bytes; way++)
                        (void)run(&scenarios[i], fail_some, true);
        scenarios_end();
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(each_call_may_fail),
                WEIR_TEST(calls_may_fail_for_a_while),
                WEIR_TEST(input_and_output_may_go_byte_by_byte),
        };

        signal(SIGPIPE, SIG_IGN); /* OpenSSL's writes of the test to a client that has left */
        return weir_test_main("client_faults", tests, sizeof tests / sizeof *tests);
}
