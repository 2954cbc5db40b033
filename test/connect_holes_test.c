/* test/connect_holes_test.c: connects to addresses that do not answer, in a network of the suite's own, where packets to them
 * vanish, by names of dnsmasq.  Where the system gives no such network, or without dnsmasq, the suite says so and passes.
 *
 *     2001:db8::1, 2001:db8::2, 192.0.2.1   black holes: behind a link whose other end is nobody
 *     2001:db8:1::1, 198.51.100.1           this host
 *
 * The clock is real, as the network is.  resolve_connect_test has the instants of attempts. */
#include <arpa/inet.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include <weir/resolve.h>

#include "test/client_fixture.h"

#define DNSMASQ "/usr/sbin/dnsmasq"

/* The first argument of this program, when it is in its network. */
#define INSIDE "inside"

/* -- the order of attempts -- */

int __real_connect(int fd, const struct sockaddr *to, socklen_t size);
int __wrap_connect(int fd, const struct sockaddr *to, socklen_t size);

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char attempts[256]; /* addresses, with a space behind each; guarded by `lock` */

int
__wrap_connect(int fd, const struct sockaddr *to, socklen_t size)
{
        char text[INET6_ADDRSTRLEN] = "";
        int type;
        socklen_t type_size = sizeof type;

        if (to->sa_family == AF_INET)
                inet_ntop(AF_INET, &((const struct sockaddr_in *)to)->sin_addr, text, sizeof text);
        else if (to->sa_family == AF_INET6)
                inet_ntop(AF_INET6, &((const struct sockaddr_in6 *)to)->sin6_addr, text, sizeof text);
        /* Sorting connects datagrams, too. */
        if (*text && getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &type_size) == 0 && type == SOCK_STREAM) {
                pthread_mutex_lock(&lock);
                strncat(attempts, text, sizeof attempts - strlen(attempts) - 2);
                strcat(attempts, " ");
                pthread_mutex_unlock(&lock);
        }
        return __real_connect(fd, to, size);
}

#define TRIES(expected)                                                              \
        do {                                                                         \
                char tried_[sizeof attempts];                                        \
                pthread_mutex_lock(&lock);                                           \
                memcpy(tried_, attempts, sizeof attempts);                           \
                *attempts = '\0';                                                    \
                pthread_mutex_unlock(&lock);                                         \
                CU_ASSERT_STRING_EQUAL(tried_, expected);                            \
                if (strcmp(tried_, expected) != 0)                                   \
                        fprintf(stderr, "attempts: %s, not %s\n", tried_, expected); \
        } while (0)

/* -- the network -- */

static bool
makes_network(void)
{
        return system("PATH=$PATH:/usr/sbin:/sbin; exec 2>/dev/null;"
                      "ip link set lo up &&"
                      "ip link add hole type veth peer name nobody && ip link set hole up && ip link set nobody up &&"
                      "ip addr add 192.0.2.254/24 dev hole && ip -6 addr add 2001:db8::fe/64 dev hole nodad &&"
                      "ip neigh add 192.0.2.1 lladdr 02:00:00:00:00:01 dev hole nud permanent &&"
                      "ip -6 neigh add 2001:db8::1 lladdr 02:00:00:00:00:01 dev hole nud permanent &&"
                      "ip -6 neigh add 2001:db8::2 lladdr 02:00:00:00:00:01 dev hole nud permanent &&"
                      "ip addr add 198.51.100.1/32 dev lo && ip -6 addr add 2001:db8:1::1/128 dev lo nodad") == 0;
}

static pid_t server;

static void
start_dnsmasq(void)
{
        server = fork();
        if (server != 0)
                return;
        prctl(PR_SET_PDEATHSIG, SIGTERM);
        execl(DNSMASQ, DNSMASQ, "--keep-in-foreground", "--conf-file=/dev/null", "--no-resolv", "--no-hosts", "--no-ping",
              "--bind-interfaces", "--listen-address=127.0.0.1", "--port=53",
              "--pid-file=", "--user=", "--group=", "--local=/test/", "--host-record=hole6.test,2001:db8::1,198.51.100.1",
              "--host-record=holes6.test,2001:db8::1,198.51.100.1", "--host-record=holes6.test,2001:db8::2",
              "--host-record=hole4.test,2001:db8:1::1,192.0.2.1", "--host-record=holes.test,2001:db8::1,192.0.2.1",
              "--host-record=only6.test,2001:db8::1", NULL);
        _exit(127);
}

static bool
knows(const char *name)
{
        return weir_task_run(weir_resolve_new(name, AF_INET6, NULL, NULL)) == 0;
}

/* A server for both families. */
static int
listen_everywhere(void)
{
        struct sockaddr_in6 at = {.sin6_family = AF_INET6};
        socklen_t size = sizeof at;
        int off = 0, fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);

        CU_ASSERT_EQUAL_FATAL(setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off), 0);
        CU_ASSERT_EQUAL_FATAL(bind(fd, (struct sockaddr *)&at, sizeof at), 0);
        CU_ASSERT_EQUAL_FATAL(listen(fd, 64), 0);
        CU_ASSERT_EQUAL_FATAL(getsockname(fd, (struct sockaddr *)&at, &size), 0);
        port = ntohs(at.sin6_port);
        return fd;
}

static void
begin_holes(weir_nsec connect_limit)
{
        struct weir_resolver_config names = WEIR_RESOLVER_CONFIG_DEFAULT;
        struct weir_client_config config = WEIR_CLIENT_CONFIG_DEFAULT;

        start_dnsmasq();
        names.mode = WEIR_RESOLVER_DNS;
        names.servers = "127.0.0.1:53";
        names.timeout = WEIR_MSEC(500);
        names.tries = 10;
        CU_ASSERT_EQUAL_FATAL(weir_resolver_configure(&names), 0);
        weir_test_begin_real(2);
        WEIR_TEST_EVENTUALLY(knows("hole6.test"));
        listener = listen_everywhere();
        peer = (struct http_peer){.fd = -1};
        config.connect_limit = connect_limit;
        client = weir_client_new(&config);
        CU_ASSERT_PTR_NOT_NULL_FATAL(client);
        TRIES("");
}

static void
end_holes(void)
{
        int status;

        end();
        CU_ASSERT_EQUAL(weir_resolver_configure(NULL), 0);
        kill(server, SIGTERM);
        CU_ASSERT_EQUAL(waitpid(server, &status, 0), server);
}

/* Result: nanoseconds until the request has come. */
static int64_t
get_from(const char *name, struct seen *seen)
{
        int64_t began = weir_test_now();
        char url[64];

        snprintf(url, sizeof url, "http://%s:%d/path", name, port);
        start(weir_client_request_new(client, "GET", url, see, seen));
        CU_ASSERT_TRUE_FATAL(http_peer_accept(&peer, listener, NULL));
        int64_t took = weir_test_now() - began;
        HAS(http_peer_request(&peer), "GET /path ");
        http_peer_send(&peer, OK_CLOSES);
        wait_for(seen);
        http_peer_close(&peer);
        return took;
}

/* -- the tests -- */

#define STAGGER INT64_C(250000000) /* RFC 8305 section 5 */

static void
a_black_hole_of_ipv6_costs_a_quarter_of_a_second(void)
{
        struct seen seen = {0};

        begin_holes(0);
        int64_t took = get_from("hole6.test", &seen);
        SEES(seen, 0, 200, "word");
        TRIES("2001:db8::1 198.51.100.1 ");
        CU_ASSERT_TRUE(took >= STAGGER && took < WEIR_TEST_TOLERANCE);
        end_holes();
}

/* The families take turns: a second address of IPv6 does not come before the first of IPv4. */
static void
two_black_holes_cost_no_more(void)
{
        struct seen seen = {0};

        begin_holes(0);
        get_from("holes6.test", &seen);
        SEES(seen, 0, 200, "word");
        pthread_mutex_lock(&lock);
        HAS(attempts, "2001:db8::");
        HAS(attempts, " 198.51.100.1 ");
        CU_ASSERT_EQUAL(strchr(strchr(attempts, ' ') + 1, ' '), attempts + strlen(attempts) - 1); /* two */
        *attempts = '\0';
        pthread_mutex_unlock(&lock);
        end_holes();
}

static void
a_black_hole_of_ipv4_costs_nothing(void)
{
        struct seen seen = {0};

        begin_holes(0);
        get_from("hole4.test", &seen);
        SEES(seen, 0, 200, "word");
        TRIES("2001:db8:1::1 ");
        end_holes();
}

static void
black_holes_alone_end_at_the_limit_of_connects(void)
{
        struct seen seen = {0}, only = {0};
        char url[64];

        begin_holes(WEIR_SEC(1));
        snprintf(url, sizeof url, "http://holes.test:%d/path", port);
        int64_t began = weir_test_now();
        start(weir_client_request_new(client, "GET", url, see, &seen));
        wait_for(&seen);
        CU_ASSERT_TRUE(weir_test_now() - began >= WEIR_SEC(1));
        SEES(seen, -ETIMEDOUT, 0, "");
        CU_ASSERT_EQUAL(seen.stage, WEIR_HTTP_CONNECTING);
        HAS(seen.problem, "GET http://holes.test:");
        HAS(seen.problem, "(2001:db8::1): the time limit is over");
        TRIES("2001:db8::1 192.0.2.1 ");
        snprintf(url, sizeof url, "http://only6.test:%d/path", port);
        start(weir_client_request_new(client, "GET", url, see, &only));
        wait_for(&only);
        SEES(only, -ETIMEDOUT, 0, "");
        CU_ASSERT_EQUAL(only.stage, WEIR_HTTP_CONNECTING);
        TRIES("2001:db8::1 ");
        HAS(only.problem, "(2001:db8::1): the time limit is over");
        end_holes();
}

/* A program with threads gets no namespace of its own, and under a sanitizer it has some: so it starts itself anew. */
static int
go_inside(char *self)
{
        fflush(stdout);
        if (access(DNSMASQ, X_OK) != 0 || system("unshare -Urn true 2>/dev/null") != 0) {
                printf("connect_holes: dnsmasq is not here, or a network of one's own is not to be had\n");
                return 0;
        }
        execlp("unshare", "unshare", "-Urn", self, INSIDE, NULL);
        return 1;
}

int
main(int argc, char *argv[])
{
        static const struct weir_test tests[] = {
                WEIR_TEST(a_black_hole_of_ipv6_costs_a_quarter_of_a_second),
                WEIR_TEST(two_black_holes_cost_no_more),
                WEIR_TEST(a_black_hole_of_ipv4_costs_nothing),
                WEIR_TEST(black_holes_alone_end_at_the_limit_of_connects),
        };

        if (argc < 2 || strcmp(argv[1], INSIDE) != 0)
                return go_inside(argv[0]);
        if (!makes_network()) {
                printf("connect_holes: its network cannot be made (iproute2, veth, IPv6)\n");
                return 0;
        }
        return weir_test_main("connect_holes", tests, sizeof tests / sizeof *tests);
}
