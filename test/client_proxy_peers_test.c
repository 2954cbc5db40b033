/* test/client_proxy_peers_test.c: the client of HTTP through proxies of Debian: tinyproxy, squid, microsocks and dante.  Without
 * one of them the suite says so and passes.  The server behind them is the test. */
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "test/client_fixture.h"

static pid_t running = -1;
static int proxy_port;
static SSL_CTX *server_tls;

/* A port that is free now.  Another program may take it, and then the proxy ends at once: the caller tries again. */
static int
free_port(void)
{
        int port_now, fd = http_peer_listen(&port_now);

        close(fd);
        return port_now;
}

static bool
answers(void)
{
        struct sockaddr_in at = {
                .sin_family = AF_INET, .sin_port = htons((in_port_t)proxy_port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        bool is_there = connect(fd, (struct sockaddr *)&at, sizeof at) == 0;

        close(fd);
        return is_there;
}

static bool
has_ended(void)
{
        int status;

        if (running > 0 && waitpid(running, &status, WNOHANG) == running)
                running = -1;
        return running < 0;
}

static void
run(char *const arguments[])
{
        running = fork();
        if (running == 0) {
                int nowhere = open("/dev/null", O_WRONLY);

                prctl(PR_SET_PDEATHSIG, SIGTERM);
                dup2(nowhere, STDOUT_FILENO);
                dup2(nowhere, STDERR_FILENO);
                execv(arguments[0], arguments);
                _exit(127);
        }
        WEIR_TEST_EVENTUALLY(has_ended() || answers());
}

static void
stop(void)
{
        int status;

        if (running > 0) {
                kill(running, SIGTERM);
                (void)waitpid(running, &status, 0);
        }
        running = -1;
}

static void
run_tinyproxy(void)
{
        char text[512];

        for (int tries = 0; tries < 10 && running < 0; tries++) {
                proxy_port = free_port();
                snprintf(text, sizeof text,
                         "Port %d\nListen 127.0.0.1\nTimeout 600\nMaxClients 20\nAllow 127.0.0.1\nBasicAuth u sesame\n"
                         "LogLevel Critical\nLogFile \"%s\"\nConnectPort %d\nDisableViaHeader Yes\n",
                         proxy_port, tls_path("tinyproxy.log"), port);
                tls_write_file("tinyproxy.conf", text, strlen(text));
                run((char *[]){"/usr/bin/tinyproxy", "-d", "-c", (char *)tls_path("tinyproxy.conf"), NULL});
        }
        CU_ASSERT_TRUE_FATAL(running > 0);
}

static void
run_microsocks(void)
{
        char number[16];

        for (int tries = 0; tries < 10 && running < 0; tries++) {
                proxy_port = free_port();
                snprintf(number, sizeof number, "%d", proxy_port);
                run((char *[]){"/usr/bin/microsocks", "-i", "127.0.0.1", "-p", number, "-u", "u", "-P", "sesame", NULL});
        }
        CU_ASSERT_TRUE_FATAL(running > 0);
}

/* As root it becomes another user, who may read nothing here: so sed checks the password. */
static void
run_squid(void)
{
        static const char settings[] =
                "http_port 127.0.0.1:%d\nvisible_hostname squid.test\ncache deny all\ncache_mem 1 MB\npinger_enable off\n"
                "access_log none\ncache_store_log none\ncache_log /dev/null\npid_filename none\nnetdb_filename none\n"
                "coredump_dir none\nshutdown_lifetime 0 seconds\nmax_filedescriptors 256\n"
                "auth_param basic program /bin/sed -u s/^u.sesame$/OK/;t;s/.*/ERR/\n"
                "auth_param basic children 1 startup=1\nacl known proxy_auth REQUIRED\nacl here port %d\n"
                "http_access deny !known\nhttp_access deny !here\nhttp_access allow all\n";
        char text[2048], name[32];

        snprintf(name, sizeof name, "weirtest%d", getpid()); /* of its shared memory */
        for (int tries = 0; tries < 10 && running < 0; tries++) {
                proxy_port = free_port();
                snprintf(text, sizeof text, settings, proxy_port, port);
                tls_write_file("squid.conf", text, strlen(text));
                run((char *[]){"/usr/sbin/squid", "-N", "-n", name, "-f", (char *)tls_path("squid.conf"), NULL});
        }
        CU_ASSERT_TRUE_FATAL(running > 0);
}

static void
run_dante(void)
{
        static const char settings[] = "logoutput: %s\ninternal: 127.0.0.1 port = %d\nexternal: 127.0.0.1\n"
                                       "socksmethod: none\nclientmethod: none\n"
                                       "client pass { from: 127.0.0.0/8 to: 0.0.0.0/0 }\n"
                                       "socks block { from: 0.0.0.0/0 to: 127.0.0.2/32 }\n"
                                       "socks pass { from: 127.0.0.0/8 to: 0.0.0.0/0 protocol: tcp }\n";
        char text[1024];

        for (int tries = 0; tries < 10 && running < 0; tries++) {
                proxy_port = free_port();
                snprintf(text, sizeof text, settings, tls_path("dante.log"), proxy_port);
                tls_write_file("dante.conf", text, strlen(text));
                run((char *[]){"/usr/sbin/danted", "-N", "1", "-f", (char *)tls_path("dante.conf"), "-p",
                               (char *)tls_path("dante.pid"), NULL});
        }
        CU_ASSERT_TRUE_FATAL(running > 0);
}

static void
use_proxy(const char *scheme, const char *password)
{
        struct weir_client_config config = WEIR_CLIENT_CONFIG_DEFAULT;
        struct weir_tls_config trusting = WEIR_TLS_CONFIG_DEFAULT;
        char proxy[128];

        weir_client_unref(client);
        trusting.ca_file = tls_path("server.pem");
        config.tls = weir_tls_client_new(&trusting);
        snprintf(proxy, sizeof proxy, "%s://u:%s@127.0.0.1:%d", scheme, password, proxy_port);
        config.proxy = proxy;
        client = weir_client_new(&config);
        CU_ASSERT_PTR_NOT_NULL_FATAL(client);
        weir_tls_unref(config.tls);
}

static void
ask(const char *scheme, struct seen *seen)
{
        char url[64];

        snprintf(url, sizeof url, "%s://localhost:%d/path", scheme, port);
        start(weir_client_request_new(client, "GET", url, see, seen));
}

/* Both schemes, twice each. */
static void
fetch_all(void)
{
        for (int is_secure = 0; is_secure < 2; is_secure++)
                for (int i = 0; i < 2; i++) {
                        struct seen seen = {0};

                        ask(is_secure ? "https" : "http", &seen);
                        if (i == 0 || !is_secure)
                                CU_ASSERT_TRUE_FATAL(http_peer_accept(&peer, listener, is_secure ? server_tls : NULL));
                        const char *sent = http_peer_request(&peer);
                        HAS(sent, "GET /path HTTP/1.");
                        HAS_NOT(sent, "Proxy-Authorization");
                        http_peer_send(&peer, is_secure ? OK_WORD : OK_CLOSES);
                        if (!is_secure)
                                http_peer_close(&peer);
                        wait_for(&seen);
                        SEES(seen, 0, 200, "word");
                }
        CU_ASSERT_TRUE(stats().reused >= 1);
        http_peer_close(&peer);
}

static void
begin_peers(void)
{
        tls_files_begin();
        tls_make_certificate("server", &(struct tls_wish){.alternative_names = "DNS:localhost"});
        server_tls = http_peer_tls("server");
        weir_test_begin_real(2);
        begin_with(NULL);
}

static void
end_peers(void)
{
        end();
        stop();
        SSL_CTX_free(server_tls);
        tls_files_end();
}

static void
through_tinyproxy(void)
{
        struct seen wrong = {0}, plain = {0}, forbidden = {0};

        if (access("/usr/bin/tinyproxy", X_OK) != 0) {
                printf("tinyproxy is not here ...");
                return;
        }
        begin_peers();
        run_tinyproxy();
        use_proxy("http", "sesame");
        fetch_all();
        start(weir_client_request_new(client, "GET", "https://localhost:1/", see, &forbidden));
        wait_for(&forbidden);
        CU_ASSERT_EQUAL(forbidden.status, -EACCES);
        HAS(forbidden.problem, "refused CONNECT localhost:1: 403");
        use_proxy("http", "wrong");
        ask("https", &wrong);
        wait_for(&wrong);
        CU_ASSERT(wrong.status == -EACCES);
        HAS(wrong.problem, "refused CONNECT localhost:");
        ask("http", &plain);
        wait_for(&plain);
        CU_ASSERT_EQUAL(plain.status, 0);
        CU_ASSERT(plain.code == 401 || plain.code == 407);
        end_peers();
}

static void
through_squid(void)
{
        struct seen wrong = {0}, plain = {0}, forbidden = {0};

        if (access("/usr/sbin/squid", X_OK) != 0) {
                printf("squid is not here ...");
                return;
        }
        begin_peers();
        run_squid();
        use_proxy("http", "sesame");
        fetch_all();
        start(weir_client_request_new(client, "GET", "https://localhost:1/", see, &forbidden));
        wait_for(&forbidden);
        CU_ASSERT_EQUAL(forbidden.status, -EACCES);
        CU_ASSERT_EQUAL(forbidden.stage, WEIR_HTTP_PROXY);
        HAS(forbidden.problem, "refused CONNECT localhost:1: 403 Forbidden");
        use_proxy("http", "wrong");
        ask("https", &wrong);
        wait_for(&wrong);
        CU_ASSERT_EQUAL(wrong.status, -EACCES);
        HAS(wrong.problem, "refused CONNECT localhost:");
        HAS(wrong.problem, "407 Proxy Authentication Required");
        HAS_NOT(wrong.problem, "wrong");
        plain.wants = "Proxy-Authenticate";
        ask("http", &plain);
        wait_for(&plain);
        CU_ASSERT_EQUAL(plain.status, 0);
        CU_ASSERT_EQUAL(plain.code, 407);
        HAS(plain.field, "Basic realm=");
        end_peers();
}

/* Users of dante are those of the system: it has none here. */
static void
through_dante(void)
{
        struct seen refused = {0}, forbidden = {0};

        if (access("/usr/sbin/danted", X_OK) != 0) {
                printf("dante is not here ...");
                return;
        }
        begin_peers();
        run_dante();
        use_proxy("socks5", "sesame");
        fetch_all();
        start(weir_client_request_new(client, "GET", "http://127.0.0.1:1/", see, &refused));
        wait_for(&refused);
        CU_ASSERT_EQUAL(refused.status, -ECONNREFUSED);
        HAS(refused.problem, "refused 127.0.0.1:1: the server has refused");
        start(weir_client_request_new(client, "GET", "http://127.0.0.2:1/", see, &forbidden));
        wait_for(&forbidden);
        CU_ASSERT_EQUAL(forbidden.status, -EACCES);
        HAS(forbidden.problem, "refused 127.0.0.2:1:");
        end_peers();
}

static void
through_microsocks(void)
{
        struct seen wrong = {0}, refused = {0};

        if (access("/usr/bin/microsocks", X_OK) != 0) {
                printf("microsocks is not here ...");
                return;
        }
        begin_peers();
        run_microsocks();
        use_proxy("socks5", "sesame");
        fetch_all();
        start(weir_client_request_new(client, "GET", "http://127.0.0.1:1/", see, &refused));
        wait_for(&refused);
        CU_ASSERT_EQUAL(refused.status, -ECONNREFUSED);
        HAS(refused.problem, "refused 127.0.0.1:1: the server has refused");
        use_proxy("socks5", "wrong");
        ask("http", &wrong);
        wait_for(&wrong);
        CU_ASSERT_EQUAL(wrong.status, -EACCES);
        HAS(wrong.problem, "refused the user");
        end_peers();
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(through_tinyproxy),
                WEIR_TEST(through_squid),
                WEIR_TEST(through_microsocks),
                WEIR_TEST(through_dante),
        };

        signal(SIGPIPE, SIG_IGN); /* OpenSSL's writes of the test */
        return weir_test_main("client_proxy_peers", tests, sizeof tests / sizeof *tests);
}
