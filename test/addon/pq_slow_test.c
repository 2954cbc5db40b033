/* test/addon/pq_slow_test.c: servers that send a byte at a time, and servers that speak TLS. */
#include "test/addon/pq_fake.h"

#include <netinet/tcp.h>

/* -- a byte at a time -- */

static struct sockaddr_in target;

/* Carries bytes both ways, those of the server one by one. */
static void
carry(int client)
{
        int upstream = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;
        char bytes[4096];

        setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        if (connect(upstream, (struct sockaddr *)&target, sizeof target) != 0)
                abort();
        for (;;) {
                struct pollfd ends[] = {{.fd = client, .events = POLLIN}, {.fd = upstream, .events = POLLIN}};

                poll(ends, 2, -1);
                if (ends[0].revents) {
                        ssize_t size = recv(client, bytes, sizeof bytes, 0);

                        if (size <= 0)
                                break;
                        fake_send(upstream, bytes, (size_t)size);
                }
                if (ends[1].revents) {
                        ssize_t size = recv(upstream, bytes, 1, 0);

                        if (size <= 0)
                                break;
                        fake_send(client, bytes, 1);
                        sched_yield();
                }
        }
        close(upstream);
}

static void
note_sum(weir_task *query, void *context)
{
        weir_pq_int(query, 0, 0, context);
}

static void
results_come_a_byte_at_a_time(void)
{
        struct fake proxy;
        int64_t sum = 0;

        weir_test_begin_real(2);
        target = (struct sockaddr_in){
                .sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}, .sin_port = htons((uint16_t)server.port)};
        fake_begin(&proxy, carry);
        struct weir_pq_config config = WEIR_PQ_CONFIG_DEFAULT;
        config.connections = 1; /* the proxy has one at a time */
        weir_pq *pool = weir_pq_new(proxy.url, &config);
        for (int i = 0; i < 3; i++) {
                weir_task *query = weir_pq_query_new(pool, "SELECT $1::bigint * 2, repeat('x', 500)", note_sum, &sum);

                weir_pq_add_int(query, 1000 + i);
                weir_pq_set_prepared(query);
                CU_ASSERT_EQUAL(weir_task_run(query), 0);
                CU_ASSERT_EQUAL(sum, 2000 + 2 * i);
        }
        weir_pq_unref(pool);
        fake_end(&proxy);
        weir_test_end();
}

/* -- TLS -- */

static bool
make_certificate(void)
{
        char command[512];

        snprintf(command, sizeof command,
                 "cd %s && openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=localhost "
                 "-keyout tls.key -out tls.crt >/dev/null 2>&1 && chmod 600 tls.key && chown --reference=. tls.key tls.crt",
                 server.directory);
        return system(command) == 0;
}

static bool
has_tls(const char *conninfo)
{
        PGconn *connection = PQconnectdb(conninfo);
        bool is_there = PQstatus(connection) == CONNECTION_OK;

        PQfinish(connection);
        return is_there;
}

static void
note_status(weir_task *query, void *context)
{
        atomic_store((_Atomic int *)context, weir_task_status(query));
}

/* A row is larger than the room that libpq has in its buffer, and a record of TLS larger than what it reads at once. */
static void
rows_come_through_tls(void)
{
        char conninfo[256];
        int64_t value = 0;
        _Atomic int status = 1;
        unsigned count = 0;
        void *row;
        int polled;

        CU_ASSERT_FATAL(make_certificate());
        server_ask("ALTER SYSTEM SET ssl_cert_file = '../tls.crt'");
        server_ask("ALTER SYSTEM SET ssl_key_file = '../tls.key'");
        server_ask("ALTER SYSTEM SET ssl = on");
        server_ask("SELECT pg_reload_conf()");
        snprintf(conninfo, sizeof conninfo, "%s sslmode=require", server_conninfo(true));
        WEIR_TEST_EVENTUALLY(has_tls(conninfo));
        weir_test_begin_real(2);
        weir_pq *pool = weir_pq_new(conninfo, NULL);
        const char *sql = "SELECT ssl::int FROM pg_stat_ssl WHERE pid = pg_backend_pid()";
        CU_ASSERT_EQUAL(weir_task_run(weir_pq_query_new(pool, sql, note_sum, &value)), 0);
        CU_ASSERT_EQUAL(value, 1);
        weir_channel *rows = weir_pq_rows_new(3);
        sql = "SELECT n, repeat('x', 7000) FROM generate_series(1, 3000) AS n";
        weir_task *query = weir_pq_query_new(pool, sql, note_status, (void *)&status);
        weir_pq_set_rows(query, rows);
        weir_task_start(query);
        while (polled = weir_channel_poll(rows, &row), polled != -EPIPE) {
                if (polled == 0)
                        weir_pq_row_free(row);
                else
                        sched_yield();
                count += polled == 0;
        }
        CU_ASSERT_EQUAL(count, 3000);
        WEIR_TEST_EVENTUALLY(status == 0);
        weir_channel_unref(rows);
        weir_pq_unref(pool);
        weir_test_end();
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(results_come_a_byte_at_a_time),
                WEIR_TEST(rows_come_through_tls),
        };

        return server_main("pq_slow", tests, sizeof tests / sizeof *tests);
}
