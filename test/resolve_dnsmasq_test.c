/* test/resolve_dnsmasq_test.c: look-ups at dnsmasq, a server of names of Debian, with a zone of the suite.  What is below "up" it
 * asks the suite's own server (test/dns_server.h).  Without dnsmasq the suite says so and passes. */
#include "test/fixture.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <sys/prctl.h>
#include <sys/socket.h>

#include "test/dns_server.h"

static const char *
dnsmasq(void)
{
        static const char *const paths[] = {"/usr/sbin/dnsmasq", "/usr/local/sbin/dnsmasq"};

        for (unsigned i = 0; i < 2; i++)
                if (access(paths[i], X_OK) == 0)
                        return paths[i];
        return NULL;
}

/* A port that is free for UDP and TCP now. */
static unsigned
free_port(void)
{
        struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        socklen_t size = sizeof at;
        int udp = socket(AF_INET, SOCK_DGRAM, 0), tcp = socket(AF_INET, SOCK_STREAM, 0);

        CU_ASSERT_EQUAL_FATAL(bind(udp, (struct sockaddr *)&at, sizeof at), 0);
        CU_ASSERT_EQUAL_FATAL(getsockname(udp, (struct sockaddr *)&at, &size), 0);
        bool is_free = bind(tcp, (struct sockaddr *)&at, sizeof at) == 0;
        close(udp);
        close(tcp);
        return is_free ? ntohs(at.sin_port) : free_port();
}

struct seen {
        int status;
        unsigned count;
        char first[WEIR_RESOLVE_TEXT];
};

static void
see(weir_task *resolve, void *context)
{
        struct seen *seen = context;

        seen->status = weir_task_status(resolve);
        seen->count = weir_resolve_count(resolve);
        weir_resolve_write(resolve, 0, seen->first, sizeof seen->first);
}

static struct seen
look_up(const char *name, int family)
{
        struct seen seen = {0};

        weir_task_run(weir_resolve_new(name, family, see, &seen));
        return seen;
}

static pid_t server;

static void
start(const char *path, unsigned port, int limit)
{
        static char options[40][64];
        char *arguments[48] = {(char *)path};
        unsigned count = 0, used = 1;

#define OPTION(...) (snprintf(options[count], sizeof options[count], __VA_ARGS__), arguments[used++] = options[count++])
        OPTION("--keep-in-foreground");
        OPTION("--conf-file=/dev/null");
        OPTION("--no-resolv");
        OPTION("--no-hosts");
        OPTION("--no-ping");
        OPTION("--bind-interfaces");
        OPTION("--listen-address=127.0.0.1");
        OPTION("--port=%u", port);
        OPTION("--pid-file=");
        OPTION("--user=");
        OPTION("--local=/test/");
        OPTION("--cache-size=0");
        if (*dns.servers)
                OPTION("--server=/up/127.0.0.1#%s", strchr(dns.servers, ':') + 1);
        OPTION("--local-ttl=2");
        OPTION("--edns-packet-max=%d", limit);
        OPTION("--host-record=both.test,192.0.2.1,2001:db8::1");
        OPTION("--cname=alias.test,both.test");
        for (unsigned i = 0; i < 20; i++)
                OPTION("--host-record=many.test,192.0.2.%u", i + 1);
        server = fork();
        if (server == 0) {
                prctl(PR_SET_PDEATHSIG, SIGTERM);
                execv(path, arguments);
                _exit(127);
        }
}

/* The config is for changes.  Returns false without dnsmasq. */
static bool
begin(struct weir_resolver_config *config)
{
        static char servers[64];
        unsigned port = free_port();

        if (!dnsmasq()) {
                printf("dnsmasq is not here ...");
                return false;
        }
        dns_start();
        start(dnsmasq(), port, 4096);
        snprintf(servers, sizeof servers, "127.0.0.1:%u", port);
        *config = (struct weir_resolver_config)WEIR_RESOLVER_CONFIG_DEFAULT;
        config->mode = WEIR_RESOLVER_DNS;
        config->servers = servers;
        config->timeout = WEIR_MSEC(500);
        config->tries = 10;
        CU_ASSERT_EQUAL_FATAL(weir_resolver_configure(config), 0);
        weir_test_begin_virtual();
        WEIR_TEST_EVENTUALLY(look_up("both.test", AF_INET).status == 0); /* it is up */
        return true;
}

static void
stop_server(void)
{
        int status;

        kill(server, SIGTERM);
        CU_ASSERT_EQUAL(waitpid(server, &status, 0), server);
}

static void
end(void)
{
        weir_test_end();
        CU_ASSERT_EQUAL(weir_resolver_configure(NULL), 0);
        dns_stop();
}

static void
a_zone_is_read(void)
{
        struct weir_resolver_config config;

        if (!begin(&config))
                return;
        struct seen seen = look_up("both.test", 0);
        CU_ASSERT_EQUAL(seen.count, 2);
        CU_ASSERT_STRING_EQUAL(seen.first, "2001:db8::1");
        seen = look_up("alias.test", AF_INET);
        CU_ASSERT_EQUAL(seen.count, 1);
        CU_ASSERT_STRING_EQUAL(seen.first, "192.0.2.1");
        CU_ASSERT_EQUAL(look_up("many.test", AF_INET).count, 20);
        CU_ASSERT_EQUAL(look_up("many.test", AF_INET6).status, -ENOENT);
        CU_ASSERT_EQUAL(look_up("nx.test", 0).status, -ENOENT);
        CU_ASSERT_EQUAL(look_up("elsewhere.example", 0).status, -EIO); /* REFUSED: it has nobody to ask */
        stop_server();
        CU_ASSERT_EQUAL(look_up("both.test", 0).status, 0); /* for two seconds */
        weir_test_pass(WEIR_SEC(2));
        CU_ASSERT_EQUAL(look_up("both.test", 0).status, -EAGAIN);
        end();
}

/* How many queries a look-up makes behind dnsmasq. */
static unsigned
cost(const char *name)
{
        unsigned before = atomic_load(&dns.queries);

        look_up(name, AF_INET);
        return atomic_load(&dns.queries) - before;
}

static void
what_dnsmasq_passes_on_is_told_apart(void)
{
        struct weir_resolver_config config;

        if (!begin(&config))
                return;
        CU_ASSERT_EQUAL(look_up("v4.up", 0).count, 1);
        CU_ASSERT_EQUAL(look_up("v6.up", 0).count, 1);
        CU_ASSERT_EQUAL(look_up("v6.up", AF_INET).status, -ENOENT);
        CU_ASSERT_EQUAL(look_up("both.up", 0).count, 2);
        CU_ASSERT_EQUAL(look_up("many.up", 0).count, 20);
        CU_ASSERT_EQUAL(look_up("cname.up", AF_INET).count, 1);
        CU_ASSERT_EQUAL(look_up("big.up", AF_INET).count, 60); /* over TCP */
        CU_ASSERT_TRUE(atomic_load(&dns.over_tcp) > 0);
        CU_ASSERT_EQUAL(look_up("nx.up", 0).status, -ENOENT);
        CU_ASSERT_EQUAL(look_up("fail.up", 0).status, -EIO); /* SERVFAIL */
        CU_ASSERT_EQUAL(look_up("failing6.up", 0).count, 1);
        stop_server();
        end();
}

static void
silence_is_told(void)
{
        struct weir_resolver_config config;

        if (!begin(&config))
                return;
        config.timeout = WEIR_MSEC(50);
        config.tries = 2;
        CU_ASSERT_EQUAL(weir_resolver_configure(&config), 0);
        CU_ASSERT_EQUAL(look_up("silent.up", 0).status, -EAGAIN);
        CU_ASSERT_TRUE(atomic_load(&dns.queries) > 0);
        stop_server();
        end();
}

static void
short_times_to_live_hold(void)
{
        struct weir_resolver_config config;

        if (!begin(&config))
                return;
        CU_ASSERT_TRUE(cost("short.up") > 0);
        CU_ASSERT_EQUAL(cost("short.up"), 0);
        weir_test_pass(WEIR_SEC(2) - 1);
        CU_ASSERT_EQUAL(cost("short.up"), 0);
        weir_test_pass(1);
        CU_ASSERT_TRUE(cost("short.up") > 0);
        CU_ASSERT_TRUE(cost("zero.up") > 0);
        CU_ASSERT_TRUE(cost("zero.up") > 0);
        CU_ASSERT_TRUE(cost("nx.up") > 0); /* 20 s */
        weir_test_pass(WEIR_SEC(19));
        CU_ASSERT_EQUAL(cost("nx.up"), 0);
        weir_test_pass(WEIR_SEC(1));
        CU_ASSERT_TRUE(cost("nx.up") > 0);
        stop_server();
        end();
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(a_zone_is_read),
                WEIR_TEST(what_dnsmasq_passes_on_is_told_apart),
                WEIR_TEST(silence_is_told),
                WEIR_TEST(short_times_to_live_hold),
        };

        return weir_test_main("resolve_dnsmasq", tests, sizeof tests / sizeof *tests);
}
