/* test/stream_server_faults_test.c: system calls of a server of streams that fail, one after another, each with what its manual
 * names.
 *
 * A scenario is played again and again, each time with the next call of a kind failing, and perhaps many after it, until it needs
 * no more of them.  Each time the client gets all, or, where the error is a real one, the end of the connection; the next client
 * is served; no descriptor and no connection is left; and there were not many calls. */
#include "test/system_faults.h"

#include "test/stream_scenarios.h"

#define BOUND 8000 /* calls that a scenario may need */

static const struct scenario scenarios[] = {
        {"echo", echo_all, 0, false, false, ALWAYS | BIT(SEND)},
        {"limited", echo_all, 0, false, true, ALWAYS | BIT(SEND)},
        {"large", reply_large, 2 * LARGE_SIZE, false, true, ALWAYS | BIT(SENDMSG) | BIT(IOCTL)},
        {"file", reply_with_file, FILE_SIZE, false, false, ALWAYS | BIT(SENDFILE) | BIT(FSTAT)},
        {"secure", echo_all, 0, true, true, ALWAYS | BIT(SEND)},
};

static size_t resting; /* what the server has open without a connection */
static unsigned descriptors;

static void
rest(void)
{
        WEIR_TEST_EVENTUALLY(atomic_load(&at.server->base.users.count) == resting);
        CU_ASSERT_EQUAL(weir_test_entries_of("/proc/self/fd"), descriptors);
        WEIR_TEST_EVENTUALLY(connections() == 0);
}

static void
begin_scenario(const struct scenario *scenario)
{
        begin_scenario_at(scenario);
        resting = atomic_load(&at.server->base.users.count);
        CU_ASSERT_TRUE(play(scenario));
        WEIR_TEST_EVENTUALLY(atomic_load(&at.server->base.users.count) == resting);
        descriptors = weir_test_entries_of("/proc/self/fd");
}

static void
end_scenario(void)
{
        CU_ASSERT_EQUAL(weir_stream_server_stop(at.server, WEIR_SEC(10)), 0);
        CU_ASSERT_EQUAL(atomic_load(&at.server->base.users.count), 0);
        end();
}

/* Returns whether a call has failed. */
static bool
play_failing(const struct scenario *scenario, enum call call, int error, int64_t nth, int64_t row, bool must_be_right)
{
        choose(call, error, nth, row);
        bool right = play(scenario);
        if (right)
                rest(); /* also with what comes at the end failing */
        atomic_store(&armed, false);
        bool good = (right || (!must_be_right && atomic_load(&failed) > 0)) && atomic_load(&made) < BOUND;
        CU_ASSERT_TRUE(good);
        if (!good)
                printf("\n  %s: %s, %s, from %d on, %d of them: %s, %d calls", scenario->name, kinds[call].name,
                       error < 0 ? "a part" : strerrorname_np(error), (int)nth, (int)row, right ? "right" : "not right",
                       (int)atomic_load(&made));
        CU_ASSERT_TRUE(play(scenario));
        rest();
        return atomic_load(&failed) > 0;
}

static void
fail_each(const struct scenario *scenario, enum call call, int error, int64_t row, bool must_be_right)
{
        int64_t nth = 0;

        while (nth < 100 && play_failing(scenario, call, error, nth, row, must_be_right))
                nth = nth < (row == 1 && !WEIR_TEST_SANITIZED ? 12 : 3) ? nth + 1 : nth * 2; /* later ones are alike */
}

static void
fail_all(int64_t row)
{
        for (size_t i = 0; i < sizeof scenarios / sizeof *scenarios; i++) {
                begin_scenario(&scenarios[i]);
                for (enum call call = 0; call < CALLS; call++) {
                        const struct kind *kind = &kinds[call];

                        if (call == ACCEPT && row > 1 && i > 0)
                                continue; /* it pauses, and does so for all alike */
                        if (call == SHUTDOWN && scenarios[i].size)
                                continue; /* the client waits for the end then, for as long as the server lingers */
                        atomic_store(&needed[call], 0);
                        for (size_t j = 0; j < sizeof kind->lasting / sizeof *kind->lasting && kind->lasting[j]; j++)
                                fail_each(&scenarios[i], call, kind->lasting[j], row, kind->is_harmless);
                        for (size_t j = 0; j < sizeof kind->passing / sizeof *kind->passing && kind->passing[j]; j++)
                                fail_each(&scenarios[i], call, kind->passing[j], row, true);
                        bool is_needed = atomic_load(&needed[call]) > 0 || !(scenarios[i].calls & BIT(call));
                        CU_ASSERT_TRUE(is_needed);
                        if (!is_needed)
                                printf("\n  %s: no %s", scenarios[i].name, kind->name);
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
        static const enum call calls[] = {RECV, SEND};

        for (size_t i = 0; i < sizeof scenarios / sizeof *scenarios; i++) {
                if (scenarios[i].size)
                        continue;
                begin_scenario(&scenarios[i]);
                for (size_t j = 0; j < sizeof calls / sizeof *calls; j++)
                        (void)play_failing(&scenarios[i], calls[j], BYTE, 0, ALL, true);
                end_scenario();
        }
}

static const int refusals[] = {EMFILE, ENFILE, ENOMEM, ENOBUFS, EPERM};

#define REFUSALS (sizeof refusals / sizeof *refusals)

/* It waits in the meantime, which would be some thousand calls otherwise. */
static void
a_connection_that_cannot_be_accepted_is_served_later(void)
{
        for (size_t i = 0; i < 2 * REFUSALS; i++) {
                begin_scenario(&scenarios[i / REFUSALS]);
                choose(ACCEPT, refusals[i % REFUSALS], 0, ALL);
                int fd = dial();
                CU_ASSERT_EQUAL(send(fd, "served", 6, MSG_NOSIGNAL), 6);
                WEIR_TEST_EVENTUALLY(atomic_load(&failed) > 2);
                CU_ASSERT(atomic_load(&made) < 100);
                WEIR_TEST_EVENTUALLY(connections() == 0);
                atomic_store(&armed, false);
                char room[8] = "";
                CU_ASSERT_EQUAL(recv(fd, room, 6, MSG_WAITALL), 6);
                CU_ASSERT_STRING_EQUAL(room, "served");
                close(fd);
                rest();
                end_scenario();
        }
}

static void
a_stop_returns_although_nobody_can_be_accepted(void)
{
        for (size_t i = 0; i < REFUSALS; i++) {
                begin_scenario(&scenarios[0]);
                choose(ACCEPT, refusals[i], 0, ALL);
                int fd = dial();
                WEIR_TEST_EVENTUALLY(atomic_load(&failed) > 0);
                end_scenario();
                atomic_store(&armed, false);
                CU_ASSERT(atomic_load(&made) < BOUND);
                close(fd);
        }
}

static void
a_stop_returns_although_calls_fail(void)
{
        static const enum call calls[] = {RECV, SEND, IOCTL, SHUTDOWN, CLOSE};

        for (size_t i = 0; i < 2 * sizeof calls / sizeof *calls; i++) {
                begin_scenario(&scenarios[i % 2]);
                int fd = dial();
                CU_ASSERT(is_echoed(fd, TEN));
                choose(calls[i / 2], EIO, 0, ALL);
                CU_ASSERT_EQUAL(weir_stream_server_stop(at.server, 0), 1);
                atomic_store(&armed, false);
                CU_ASSERT_EQUAL(atomic_load(&at.server->base.users.count), 0);
                close(fd);
                end();
                CU_ASSERT(weir_test_entries_of("/proc/self/fd") < descriptors);
        }
}

/* -- the start -- */

enum { SOCKET, BIND, LISTEN };

static _Thread_local int start_call = -1, start_error;

static bool
start_fails(int call)
{
        errno = start_error;
        return call == start_call;
}

int __real_socket(int domain, int type, int protocol);
int __wrap_socket(int domain, int type, int protocol);
int __real_bind(int fd, const struct sockaddr *address, socklen_t size);
int __wrap_bind(int fd, const struct sockaddr *address, socklen_t size);
int __real_listen(int fd, int backlog);
int __wrap_listen(int fd, int backlog);

int
__wrap_socket(int domain, int type, int protocol)
{
        return start_fails(SOCKET) ? -1 : __real_socket(domain, type, protocol);
}

int
__wrap_bind(int fd, const struct sockaddr *address, socklen_t size)
{
        return start_fails(BIND) ? -1 : __real_bind(fd, address, size);
}

int
__wrap_listen(int fd, int backlog)
{
        return start_fails(LISTEN) ? -1 : __real_listen(fd, backlog);
}

static void
a_start_that_fails_leaves_nothing_and_may_be_repeated(void)
{
        static const struct {
                int call, error;
        } cases[] = {
                {SOCKET, ENOBUFS}, {SOCKET, EMFILE}, {SOCKET, ENFILE},     {SOCKET, ENOMEM},     {BIND, EADDRINUSE},
                {BIND, EACCES},    {BIND, ENOMEM},   {LISTEN, EADDRINUSE}, {LISTEN, EOPNOTSUPP},
        };

        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
                prepare();
                weir_test_begin_real(1);
                CU_ASSERT_EQUAL(weir_log_set(ignore_log, NULL), 0);
                at.server = weir_stream_server_new(&at.config, echo, &at);
                unsigned before = weir_test_entries_of("/proc/self/fd");
                start_error = cases[i].error;
                start_call = cases[i].call;
                int result = weir_stream_server_start(at.server, "127.0.0.1:0");
                start_call = -1;
                CU_ASSERT_EQUAL(result, -cases[i].error);
                CU_ASSERT_EQUAL(weir_test_entries_of("/proc/self/fd"), before);
                CU_ASSERT_EQUAL(weir_stream_server_start(at.server, "127.0.0.1:0"), 0);
                at.port = weir_stream_server_port(at.server);
                int fd = dial();
                CU_ASSERT(is_echoed(fd, TEN));
                close(fd);
                end();
        }
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(any_system_call_may_fail),
                WEIR_TEST(system_calls_may_fail_for_a_while),
                WEIR_TEST(input_and_output_may_go_byte_by_byte),
                WEIR_TEST(a_connection_that_cannot_be_accepted_is_served_later),
                WEIR_TEST(a_stop_returns_although_nobody_can_be_accepted),
                WEIR_TEST(a_stop_returns_although_calls_fail),
                WEIR_TEST(a_start_that_fails_leaves_nothing_and_may_be_repeated),
        };

        make_replies();
        int result = weir_test_main("stream_server_faults", tests, sizeof tests / sizeof *tests);
        close(reply_file);
        tls_files_end();
        return result;
}
