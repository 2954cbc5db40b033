/* test/resolve_connect_test.c: connects to names: their addresses side by side, and what they say when none answers. */
#include "test/fixture.h"

#include <errno.h>

#include "kernel/executor/executor.h"
#include "test/dns_server.h"

/* The linker puts these in front of the system's: connects to 192.0.2.1 and to 2001:db8::1 stay under way for ever, as on a
 * network that drops them, on any machine. */
int __real_connect(int fd, const struct sockaddr *to, socklen_t size);
int __wrap_connect(int fd, const struct sockaddr *to, socklen_t size);

static _Atomic unsigned holes;         /* connects that nobody answers */
static _Atomic unsigned refusals_left; /* connects to ::1 that are refused at once */

/* A socket whose listener has a full backlog does not answer either. */
static int hole = -1;
static struct sockaddr_in hole_at;

static void
dig_hole(void)
{
        struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        socklen_t size = sizeof at;

        hole = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        CU_ASSERT_EQUAL_FATAL(bind(hole, (struct sockaddr *)&at, sizeof at), 0);
        CU_ASSERT_EQUAL_FATAL(listen(hole, 0), 0);
        CU_ASSERT_EQUAL_FATAL(getsockname(hole, (struct sockaddr *)&at, &size), 0);
        hole_at = at;
        for (unsigned i = 0; i < 8; i++) { /* they stay open, and are never accepted */
                int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

                (void)__real_connect(fd, (struct sockaddr *)&at, sizeof at);
        }
}

int
__wrap_connect(int fd, const struct sockaddr *to, socklen_t size)
{
        const struct sockaddr_in *four = (const struct sockaddr_in *)to;
        const struct sockaddr_in6 *six = (const struct sockaddr_in6 *)to;

        if (to->sa_family == AF_INET6 && IN6_IS_ADDR_LOOPBACK(&six->sin6_addr) && atomic_load(&refusals_left) > 0) {
                atomic_fetch_sub(&refusals_left, 1);
                errno = ECONNREFUSED;
                return -1;
        }
        if (to->sa_family == AF_INET && four->sin_addr.s_addr == htonl(0xc0000201)) {
                atomic_fetch_add(&holes, 1);
                return __real_connect(fd, (const struct sockaddr *)&hole_at, sizeof hole_at);
        }
        return __real_connect(fd, to, size);
}

static int listener;
static unsigned port;

static void
listen_at(int family)
{
        struct sockaddr_in four = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        struct sockaddr_in6 six = {.sin6_family = AF_INET6, .sin6_addr = in6addr_loopback};
        struct sockaddr *at = family == AF_INET ? (struct sockaddr *)&four : (struct sockaddr *)&six;
        socklen_t size = family == AF_INET ? sizeof four : sizeof six;

        listener = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
        CU_ASSERT_EQUAL_FATAL(bind(listener, at, size), 0);
        CU_ASSERT_EQUAL_FATAL(listen(listener, 64), 0);
        CU_ASSERT_EQUAL_FATAL(getsockname(listener, at, &size), 0);
        port = ntohs(family == AF_INET ? four.sin_port : six.sin6_port);
}

static unsigned descriptors;

static void
begin(int family)
{
        struct weir_resolver_config config = WEIR_RESOLVER_CONFIG_DEFAULT;

        if (hole < 0)
                dig_hole();
        dns_start();
        config.mode = WEIR_RESOLVER_DNS;
        config.servers = dns.servers;
        config.timeout = WEIR_SEC(20);
        CU_ASSERT_EQUAL(weir_resolver_configure(&config), 0);
        weir_test_begin_virtual();
        listen_at(family);
        atomic_store(&holes, 0);
        atomic_store(&refusals_left, 0);
        weir_task_run(weir_resolve_new("v4.test", 0, NULL, NULL)); /* its channel has descriptors from now on */
        WEIR_TEST_EVENTUALLY(!weir__executor_is_busy());
        descriptors = weir_test_entries_of("/proc/self/fd");
}

static void
end(void)
{
        close(listener);
        weir_test_end();
        CU_ASSERT_EQUAL(weir_resolver_configure(NULL), 0);
        dns_stop();
}

struct seen {
        struct weir_test_record record;
        char peer[128], problem[600];
};

static void
see(weir_task *connect, void *context)
{
        struct seen *seen = context;
        weir_stream *stream = weir_connect_take_stream(connect);
        const char *problem = weir_connect_problem(connect);

        seen->peer[0] = '\0';
        if (stream)
                weir_stream_peer(stream, seen->peer, sizeof seen->peer);
        snprintf(seen->problem, sizeof seen->problem, "%s", problem ? problem : "");
        weir_stream_unref(stream);
        weir_test_note(&seen->record, weir_task_status(connect));
}

static weir_task *
connect_to(const char *name, unsigned to, struct seen *seen)
{
        char address[300];

        memset(seen, 0, sizeof *seen);
        snprintf(address, sizeof address, "%s:%u", name, to);
        return weir_test_recorded(weir_connect_new(address, see, seen));
}

#define CONNECTED(seen, host)                                                               \
        do {                                                                                \
                char expected[128];                                                         \
                                                                                            \
                snprintf(expected, sizeof expected, "%s:%u", (host), port);                 \
                CU_ASSERT_EQUAL((seen)->record.status, 0);                                  \
                CU_ASSERT_STRING_EQUAL((seen)->peer, expected);                             \
                CU_ASSERT_STRING_EQUAL((seen)->problem, "");                                \
                WEIR_TEST_EVENTUALLY(weir_test_entries_of("/proc/self/fd") <= descriptors); \
        } while (0)

static void
ipv6_is_tried_first(void)
{
        struct seen seen;

        begin(AF_INET6);
        weir_task_run(connect_to("local.test", port, &seen));
        CONNECTED(&seen, "[::1]");
        end();
}

static void
a_refused_address_makes_way_for_the_next_at_once(void)
{
        struct seen seen;

        begin(AF_INET);
        weir_nsec before = weir_now();
        atomic_store(&refusals_left, 1);
        weir_task_run(connect_to("local.test", port, &seen));
        CONNECTED(&seen, "127.0.0.1");
        weir_task_run(connect_to("local.test", port, &seen)); /* refused by the system */
        CONNECTED(&seen, "127.0.0.1");
        CU_ASSERT_EQUAL(weir_now() - before, 0);
        end();
}

static void
an_address_that_does_not_answer_costs_a_quarter_of_a_second(void)
{
        struct seen seen;

        begin(AF_INET);
        weir_nsec before = weir_now();
        weir_task_run(connect_to("hole.test", port, &seen));
        CU_ASSERT_EQUAL(weir_now() - before, WEIR_MSEC(250));
        CU_ASSERT_EQUAL(atomic_load(&holes), 1);
        CONNECTED(&seen, "127.0.0.1");
        end();
}

static void
an_earlier_attempt_goes_on_beside_the_next(void)
{
        struct seen seen;

        begin(AF_INET);
        CU_ASSERT_EQUAL(weir_task_start(connect_to("many.test", port, &seen)), 0); /* the first one is the hole */
        WEIR_TEST_EVENTUALLY((weir_test_pass(0), atomic_load(&holes) == 1));
        unsigned first = weir_test_entries_of("/proc/self/fd");
        CU_ASSERT_EQUAL(first, descriptors + 1);
        weir_test_end(); /* both end with the runtime, and are closed */
        WEIR_TEST_CALLED(&seen.record, -ESHUTDOWN);
        weir_test_begin_virtual();
        end();
}

static void
a_cancel_closes_all_attempts(void)
{
        struct seen seen;

        begin(AF_INET);
        weir_series *series = weir_series_new(NULL, NULL);
        weir_series_ref(series);
        weir_series_push(series, connect_to("v4.test", port, &seen)); /* the hole alone */
        CU_ASSERT_EQUAL(weir_series_start(series), 0);
        WEIR_TEST_EVENTUALLY((weir_test_pass(0), atomic_load(&holes) == 1));
        weir_test_pass(WEIR_SEC(1));
        CU_ASSERT_EQUAL(seen.record.calls, 0);
        weir_series_cancel(series);
        WEIR_TEST_EVENTUALLY((weir_test_pass(0), seen.record.frees == 1));
        WEIR_TEST_CALLED(&seen.record, -ECANCELED);
        CU_ASSERT_EQUAL(weir_test_entries_of("/proc/self/fd"), descriptors);
        weir_series_unref(series);
        series = weir_series_new(NULL, NULL);
        weir_series_ref(series);
        weir_series_push(series, connect_to("held.test", port, &seen)); /* while its name is looked up */
        CU_ASSERT_EQUAL(weir_series_start(series), 0);
        WEIR_TEST_EVENTUALLY(atomic_load(&dns.holds) == 2);
        weir_series_cancel(series);
        weir_test_wait_freed(&seen.record);
        WEIR_TEST_CALLED(&seen.record, -ECANCELED);
        dns_release();
        weir_series_unref(series);
        end();
}

static void
ipv6_addresses_that_are_late_are_not_waited_for(void)
{
        struct seen seen, other;
        struct weir_resolver_stats stats;

        begin(AF_INET);
        weir_task_run(connect_to("late6local.test", port, &seen)); /* the server has not answered for IPv6 */
        CU_ASSERT_EQUAL(seen.record.status, 0);
        CU_ASSERT_EQUAL(atomic_load(&dns.holds), 1);
        weir_resolver_stats(&stats);
        CU_ASSERT_EQUAL(stats.running, 1);
        weir_task_run(connect_to("late6local.test", port, &other)); /* the same look-up */
        CU_ASSERT_EQUAL(other.record.status, 0);
        dns_release();
        WEIR_TEST_EVENTUALLY((weir_resolver_stats(&stats), stats.running == 0));
        atomic_store(&refusals_left, 1);
        weir_task_run(connect_to("late6local.test", port, &seen));
        CU_ASSERT_EQUAL(atomic_load(&refusals_left), 0); /* by now the IPv6 address is known */
        CONNECTED(&seen, "127.0.0.1");
        end();
}

static void
a_problem_names_the_address_and_the_reason(void)
{
        struct seen seen;
        char expected[300];

        begin(AF_INET);
        close(listener);
        weir_task_run(connect_to("local.test", port, &seen));
        CU_ASSERT_EQUAL(seen.record.status, -ECONNREFUSED);
        snprintf(expected, sizeof expected, "connect to local.test:%u (127.0.0.1): Connection refused", port);
        CU_ASSERT_STRING_EQUAL(seen.problem, expected);
        weir_task_run(connect_to("127.0.0.1", port, &seen));
        snprintf(expected, sizeof expected, "connect to 127.0.0.1:%u: Connection refused", port);
        CU_ASSERT_STRING_EQUAL(seen.problem, expected);
        weir_task_run(connect_to("nx.test", port, &seen));
        CU_ASSERT_EQUAL(seen.record.status, -ENOENT);
        snprintf(expected, sizeof expected, "no such name \"nx.test\": NXDOMAIN from %s", dns.servers);
        CU_ASSERT_STRING_EQUAL(seen.problem, expected);
        weir_task_run(connect_to("fail.test", port, &seen));
        CU_ASSERT_EQUAL(seen.record.status, -EIO);
        listen_at(AF_INET);
        end();
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(ipv6_is_tried_first),
                WEIR_TEST(a_refused_address_makes_way_for_the_next_at_once),
                WEIR_TEST(an_address_that_does_not_answer_costs_a_quarter_of_a_second),
                WEIR_TEST(an_earlier_attempt_goes_on_beside_the_next),
                WEIR_TEST(a_cancel_closes_all_attempts),
                WEIR_TEST(ipv6_addresses_that_are_late_are_not_waited_for),
                WEIR_TEST(a_problem_names_the_address_and_the_reason),
        };

        return weir_test_main("resolve_connect", tests, sizeof tests / sizeof *tests);
}
