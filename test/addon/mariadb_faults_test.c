/* test/addon/mariadb_faults_test.c: servers that end, that do not answer, that answer nonsense, and that cannot be reached. */
#include "test/addon/mariadb_server.h"

/* -- a peer that behaves as a test wants, on a thread of its own -- */

struct fake {
        int listener, port;
        pthread_t thread;
        void (*serve)(int fd); /* one connection at a time; NULL: none is accepted */
        char url[160];
};

static void
fake_send(int fd, const void *data, size_t size)
{
        while (size > 0) {
                ssize_t sent = send(fd, data, size, MSG_NOSIGNAL);

                if (sent <= 0)
                        return;
                data = (const char *)data + sent;
                size -= (size_t)sent;
        }
}

/* Reads a packet.  Returns whether one has come. */
static bool
fake_read(int fd)
{
        unsigned char head[4], rest[4096];

        if (recv(fd, head, 4, MSG_WAITALL) != 4)
                return false;
        size_t size = head[0] | (size_t)head[1] << 8 | (size_t)head[2] << 16;
        return size <= sizeof rest && (size == 0 || recv(fd, rest, size, MSG_WAITALL) == (ssize_t)size);
}

/* The start of a session: a server that believes its clients. */
static bool
fake_greet(int fd)
{
        static const unsigned char hello[] = "\x4a\0\0\0\x0a"
                                             "5.5.5\0"
                                             "\x01\0\0\0"
                                             "12345678\0"
                                             "\xff\xf7\x2d\x02\0\x0f\x80\x15"
                                             "\0\0\0\0\0\0\0\0\0\0"
                                             "123456789012\0"
                                             "mysql_native_password";
        static const unsigned char ok[] = "\x07\0\0\x02\0\0\0\x02\0\0";

        unsigned char greeting[sizeof hello];
        memcpy(greeting, hello, sizeof hello);
        greeting[0] = sizeof hello - 4;
        fake_send(fd, greeting, sizeof hello);
        if (!fake_read(fd))
                return false;
        fake_send(fd, ok, sizeof ok);
        return true;
}

static void *
fake_run(void *context)
{
        struct fake *fake = context;

        for (int fd; (fd = accept4(fake->listener, NULL, NULL, SOCK_CLOEXEC)) >= 0;) {
                fake->serve(fd);
                close(fd);
        }
        return NULL;
}

static void
fake_begin(struct fake *fake, void (*serve)(int fd))
{
        struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
        socklen_t size = sizeof address;

        fake->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (bind(fake->listener, (struct sockaddr *)&address, size) != 0 || listen(fake->listener, 16) != 0 ||
            getsockname(fake->listener, (struct sockaddr *)&address, &size) != 0) {
                abort();
        }
        fake->port = ntohs(address.sin_port);
        fake->serve = serve;
        snprintf(fake->url, sizeof fake->url, "mariadb://weir:secret@127.0.0.1:%d/test", fake->port);
        if (serve && pthread_create(&fake->thread, NULL, fake_run, fake) != 0) {
                abort();
        }
}

static void
fake_end(struct fake *fake)
{
        shutdown(fake->listener, SHUT_RDWR);
        if (fake->serve) {
                pthread_join(fake->thread, NULL);
        }
        close(fake->listener);
}

struct end {
        struct weir_test_latch latch;
        int status;
        char problem[512], sqlstate[8], value[64];
};

static void
note_end(weir_task *query, void *context)
{
        struct end *end = context;
        const char *problem = weir_mariadb_problem(query), *value = weir_mariadb_value(query, 0, 0, NULL);

        end->status = weir_task_status(query);
        snprintf(end->problem, sizeof end->problem, "%s", problem ? problem : "");
        snprintf(end->sqlstate, sizeof end->sqlstate, "%s", weir_mariadb_sqlstate(query));
        snprintf(end->value, sizeof end->value, "%s", value ? value : "");
        weir_test_latch_count_down(&end->latch);
}

static struct end
fresh(void)
{
        struct end end = {.status = 1};

        weir_test_latch_init(&end.latch, 1);
        return end;
}

static struct end
ask(weir_mariadb *pool, const char *sql)
{
        struct end end = fresh();

        weir_task_run(weir_mariadb_query_new(pool, sql, note_end, &end));
        return end;
}

static weir_mariadb *
pool_of(const char *url, weir_nsec connect_limit)
{
        struct weir_mariadb_config config = WEIR_MARIADB_CONFIG_DEFAULT;

        config.connect_limit = connect_limit;
        config.clean_limit = WEIR_MSEC(200);
        config.name = "test";
        weir_mariadb *pool = weir_mariadb_new(url, &config);
        CU_ASSERT_PTR_NOT_NULL_FATAL(pool);
        return pool;
}

static void
begin(unsigned pollers)
{
        weir_test_begin_real((int)pollers);
        weir_log_set(NULL, NULL);
}

/* -- connections that cannot be made -- */

static void
refusals_have_a_status(void)
{
        char url[256];

        begin(1);
        int nobody = free_port();
        snprintf(url, sizeof url, "mariadb://weir:secret@127.0.0.1:%d/test", nobody);
        weir_mariadb *pool = pool_of(url, WEIR_SEC(10));
        struct end end = ask(pool, "SELECT 1");
        CU_ASSERT_EQUAL(end.status, -ECONNREFUSED);
        CU_ASSERT_PTR_NOT_NULL(strstr(end.problem, "127.0.0.1"));
        CU_ASSERT_EQUAL(server_stats(pool).refused, 1);
        weir_mariadb_unref(pool);
        pool = pool_of("mariadb:///?socket=/nowhere/socket", WEIR_SEC(10));
        CU_ASSERT_EQUAL(ask(pool, "SELECT 1").status, -ENOENT);
        weir_mariadb_unref(pool);
        pool = pool_of("mariadb://no-such-host.invalid/", WEIR_SEC(1));
        end = ask(pool, "SELECT 1");
        CU_ASSERT(end.status == -ENOENT || end.status == -ETIMEDOUT);
        weir_mariadb_unref(pool);
        snprintf(url, sizeof url, "mariadb://weir:secret@127.0.0.1:%d/missing", server.port);
        pool = pool_of(url, WEIR_SEC(10));
        end = ask(pool, "SELECT 1");
        CU_ASSERT_EQUAL(end.status, -ENOENT);
        CU_ASSERT_STRING_EQUAL(end.problem, "Unknown database 'missing'");
        CU_ASSERT_STRING_EQUAL(end.sqlstate, "42000");
        weir_mariadb_unref(pool);
        snprintf(url, sizeof url, "mariadb://weir:wrong@127.0.0.1:%d/test", server.port);
        pool = pool_of(url, WEIR_SEC(10));
        end = ask(pool, "SELECT 1");
        CU_ASSERT_EQUAL(end.status, -EACCES);
        CU_ASSERT_PTR_NOT_NULL(strstr(end.problem, "Access denied"));
        weir_mariadb_unref(pool);
        weir_test_end();
}

static void
a_config_says_what_the_url_does_not(void)
{
        struct weir_mariadb_config config = WEIR_MARIADB_CONFIG_DEFAULT;
        char path[96];

        begin(1);
        snprintf(path, sizeof path, "%s/socket", server.directory);
        config.socket = path;
        config.user = "weir";
        config.password = "secret";
        config.database = "test";
        config.session = "SET @greeting = 'hello'";
        weir_mariadb *pool = weir_mariadb_new(NULL, &config);
        CU_ASSERT_STRING_EQUAL(ask(pool, "SELECT @greeting").value, "hello");
        weir_mariadb_unref(pool);
        weir_test_end();
}

static void
one_that_does_not_answer_is_too_late(void)
{
        struct fake fake;

        begin(2);
        fake_begin(&fake, NULL);
        weir_mariadb *pool = pool_of(fake.url, WEIR_MSEC(50));
        struct end end = ask(pool, "SELECT 1");
        CU_ASSERT_EQUAL(end.status, -ETIMEDOUT);
        WEIR_TEST_EVENTUALLY(server_stats(pool).connections == 0);
        weir_mariadb_unref(pool);
        pool = pool_of(fake.url, WEIR_FOREVER);
        struct end late = fresh();
        weir_task *query = weir_mariadb_query_new(pool, "SELECT 1", note_end, &late);
        weir_mariadb_set_limit(query, WEIR_MSEC(30));
        CU_ASSERT_EQUAL(weir_task_run(query), -ETIMEDOUT);
        CU_ASSERT_STRING_EQUAL(late.problem,
                               "too late while it waited for a connection (pool test, 0 busy, 1 being made, 1 wait)");
        struct end closed = fresh();
        weir_task_start(weir_mariadb_query_new(pool, "SELECT 1", note_end, &closed));
        weir_mariadb_close(pool);
        weir_test_latch_wait(&closed.latch);
        CU_ASSERT_EQUAL(closed.status, -EPIPE);
        WEIR_TEST_EVENTUALLY(server_stats(pool).connections == 0);
        weir_mariadb_unref(pool);
        fake_end(&fake);
        weir_test_end();
}

/* -- nonsense -- */

static _Atomic unsigned seed;

static void
serve_garbage(int fd)
{
        struct weir_test_random random = {seed++};
        unsigned char bytes[300];
        size_t size = 1 + weir_test_random_below(&random, sizeof bytes);

        for (size_t i = 0; i < size; i++)
                bytes[i] = (unsigned char)weir_test_random(&random);
        if (weir_test_random_below(&random, 4) == 0)
                bytes[0] = "\x0a\xff\xfe\x00\xfb\x01\x05\x4a"[weir_test_random_below(&random, 8)];
        if (weir_test_random_below(&random, 3) > 0 && !fake_greet(fd))
                return;
        fake_send(fd, bytes, size);
        shutdown(fd, SHUT_WR);
        while (recv(fd, bytes, sizeof bytes, 0) > 0)
                continue;
}

static void
nonsense_ends_the_connection(void)
{
        struct fake fake;
        unsigned successes = 0;

        begin(2);
        seed = (unsigned)weir_test_seed();
        fake_begin(&fake, serve_garbage);
        weir_mariadb *pool = pool_of(fake.url, WEIR_MSEC(100));
        for (int i = 0; i < 100; i++) {
                struct end end = fresh();
                weir_task *query = weir_mariadb_query_new(pool, "SELECT 1", note_end, &end);

                weir_mariadb_set_limit(query, WEIR_MSEC(50));
                weir_task_run(query);
                successes += end.status == 0;
                CU_ASSERT_NOT_EQUAL(end.problem[0], '\0');
        }
        CU_ASSERT_EQUAL(successes, 0);
        weir_mariadb_unref(pool);
        fake_end(&fake);
        weir_test_end();
}

static void
serve_silence(int fd)
{
        char byte;

        if (fake_greet(fd))
                while (recv(fd, &byte, 1, 0) > 0)
                        continue;
}

static void
a_server_that_falls_silent_loses_its_connection(void)
{
        struct fake fake;

        begin(2);
        fake_begin(&fake, serve_silence);
        weir_mariadb *pool = pool_of(fake.url, WEIR_SEC(10));
        struct end end = fresh();
        weir_series *series = weir_series_ref(weir_series_new(NULL, NULL));
        weir_series_push(series, weir_mariadb_query_new(pool, "SELECT 1", note_end, &end));
        weir_series_start(series);
        WEIR_TEST_EVENTUALLY(server_stats(pool).queries == 1);
        weir_series_cancel(series);
        weir_series_unref(series);
        weir_test_latch_wait(&end.latch);
        CU_ASSERT_EQUAL(end.status, -ECANCELED);
        WEIR_TEST_EVENTUALLY(server_stats(pool).lost > 0);
        weir_mariadb_unref(pool);
        fake_end(&fake);
        weir_test_end();
}

/* -- servers that end -- */

enum { FLOWS = 16 };

static struct {
        weir_mariadb *pool;
        _Atomic bool should_stop;
        _Atomic unsigned right, lost, other, running;
        _Atomic int other_status;
} load;

static weir_task *next_query(void *context);

static void
note_load(weir_task *query, void *context)
{
        int status = weir_task_status(query);

        (void)context;
        if (status == 0)
                load.right++;
        else if (status == -ECONNRESET || status == -ECONNREFUSED || status == -ENOENT)
                load.lost++;
        else {
                load.other++;
                load.other_status = status;
        }
}

static weir_task *
next_query(void *context)
{
        if (load.should_stop)
                return NULL;
        weir_task *query = weir_mariadb_query_new(load.pool, "SELECT ?", note_load, context);
        weir_mariadb_add_int(query, 5);
        weir_mariadb_set_prepared(query);
        return query;
}

static void
note_flow(weir_task *task, void *context)
{
        (void)task, (void)context;
        load.running--;
}

static void
load_passes(unsigned count)
{
        unsigned before = load.right;

        WEIR_TEST_EVENTUALLY(load.right >= before + count);
}

static void
a_server_is_killed_and_started_under_load(bool is_tcp)
{
        struct weir_mariadb_config config = WEIR_MARIADB_CONFIG_DEFAULT;

        begin(2);
        config.connections = 5;
        memset(&load, 0, sizeof load);
        load.pool = weir_mariadb_new(server_url(is_tcp), &config);
        load.running = FLOWS;
        for (unsigned i = 0; i < FLOWS; i++)
                weir_task_start(weir_repeater_new(next_query, note_flow, NULL));
        for (unsigned round = 0; round < 2; round++) {
                load_passes(500);
                unsigned lost = load.lost;
                if (round == 0)
                        server_kill();
                else
                        server_stop();
                WEIR_TEST_EVENTUALLY(load.lost >= lost + 2 * FLOWS);
                server_start();
        }
        load_passes(500);
        load.should_stop = true;
        WEIR_TEST_EVENTUALLY(load.running == 0);
        CU_ASSERT_EQUAL(load.other, 0);
        if (load.other)
                printf("status %d\n", load.other_status);
        struct weir_mariadb_stats stats = server_stats(load.pool); /* how long the server is away depends on the machine */
        CU_ASSERT(load.lost <= FLOWS * (stats.refused + stats.lost + 2));
        printf("%u queries, and %u when the server was not there\n", load.right, load.lost);
        weir_mariadb_unref(load.pool);
        weir_test_end();
}

static void
a_server_may_be_killed_under_load(void)
{
        a_server_is_killed_and_started_under_load(false);
        a_server_is_killed_and_started_under_load(true);
}

/* -- deadlines and shutdowns -- */

static void
a_deadline_of_the_flow_holds(void)
{
        struct end end = fresh();

        begin(2);
        weir_mariadb *pool = pool_of(server_url(true), WEIR_SEC(10));
        weir_series *series = weir_series_ref(weir_series_new(NULL, NULL));
        weir_series_set_deadline(series, WEIR_MSEC(50));
        weir_series_push(series, weir_mariadb_query_new(pool, "SELECT sleep(610)", note_end, &end));
        weir_series_start(series);
        weir_test_latch_wait(&end.latch);
        CU_ASSERT_EQUAL(end.status, -ETIMEDOUT);
        weir_series_unref(series);
        WEIR_TEST_EVENTUALLY(server_runs("sleep(610)") == 0);
        weir_mariadb_unref(pool);
        weir_test_end();
}

static void
a_shutdown_ends_what_is_under_way(void)
{
        struct fake fake;
        struct end running = fresh(), waiting = fresh(), connecting = fresh();

        begin(2);
        weir_mariadb *pool = server_pool(1, true);
        weir_task_start(weir_mariadb_query_new(pool, "SELECT sleep(611)", note_end, &running));
        weir_task_start(weir_mariadb_query_new(pool, "SELECT 1", note_end, &waiting));
        fake_begin(&fake, NULL);
        weir_mariadb *silent = pool_of(fake.url, WEIR_FOREVER);
        weir_task_start(weir_mariadb_query_new(silent, "SELECT 1", note_end, &connecting));
        WEIR_TEST_EVENTUALLY(server_runs("sleep(611)") == 1 && server_stats(silent).connecting == 1);
        weir_test_sleep(10000000); /* so that it is most likely in the client library */
        weir_test_end();
        CU_ASSERT(running.status == -ESHUTDOWN && waiting.status == -ESHUTDOWN && connecting.status == -ESHUTDOWN);
        weir_test_begin_real(1);
        CU_ASSERT_EQUAL(ask(pool, "SELECT 1").status, 0);
        weir_mariadb_unref(pool);
        weir_mariadb_unref(silent);
        fake_end(&fake);
        weir_test_end();
}

/* A server that is stopped answers nothing, also no KILL. */
static void
a_server_that_stands_still_holds_nobody_up(void)
{
        struct end end = fresh();

        begin(2);
        weir_mariadb *pool = pool_of(server_url(true), WEIR_SEC(10));
        CU_ASSERT_EQUAL(ask(pool, "SELECT 1").status, 0);
        server_pause();
        weir_task *query = weir_mariadb_query_new(pool, "SELECT 1", note_end, &end);
        weir_mariadb_set_limit(query, WEIR_MSEC(50));
        CU_ASSERT_EQUAL(weir_task_run(query), -ETIMEDOUT);
        WEIR_TEST_EVENTUALLY(server_stats(pool).connections == 0); /* the attempt to kill it was given up */
        server_go_on();
        CU_ASSERT_EQUAL(ask(pool, "SELECT 1").status, 0);
        weir_mariadb_unref(pool);
        weir_test_end();
}

/* -- TLS -- */

static void
connections_may_be_encrypted(void)
{
        char command[512], url[512];
        static char file[96];

        snprintf(file, sizeof file, "%s/tls.pem", server.directory);
        snprintf(command, sizeof command,
                 "cd %s && openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=127.0.0.1 -addext "
                 "subjectAltName=IP:127.0.0.1 -keyout tls.key -out tls.crt >/dev/null 2>&1 && cat tls.crt tls.key >tls.pem && "
                 "chmod 644 tls.pem && chown --reference=. tls.pem",
                 server.directory);
        CU_ASSERT_EQUAL_FATAL(system(command), 0);
        server_stop();
        snprintf(command, sizeof command,
                 "printf '[mysqld]\\nssl-cert=%s/tls.pem\\nssl-key=%s/tls.pem\\n' >%s/tls.cnf && chmod 644 %s/tls.cnf",
                 server.directory, server.directory, server.directory, server.directory);
        CU_ASSERT_EQUAL_FATAL(system(command), 0);
        server_start();
        begin(2);
        snprintf(url, sizeof url, "%s?tls=yes", server_url(true));
        weir_mariadb *pool = pool_of(url, WEIR_SEC(10));
        const char *sql = "SELECT variable_value FROM information_schema.session_status WHERE variable_name = 'Ssl_version'";
        CU_ASSERT_EQUAL(strncmp(ask(pool, sql).value, "TLS", 3), 0);
        CU_ASSERT_EQUAL(ask(pool, "SELECT 1").status, 0);
        CU_ASSERT_EQUAL(server_stats(pool).connects, 1);
        struct end end = fresh();
        weir_task *query = weir_mariadb_query_new(pool, "SELECT sleep(612)", note_end, &end);
        weir_mariadb_set_limit(query, WEIR_MSEC(100));
        CU_ASSERT_EQUAL(weir_task_run(query), -ETIMEDOUT);
        WEIR_TEST_EVENTUALLY(server_runs("sleep(612)") == 0);
        weir_mariadb_unref(pool);
        snprintf(url, sizeof url, "%s?tls=verify&ca=%s/tls.crt", server_url(true), server.directory);
        pool = pool_of(url, WEIR_SEC(10));
        CU_ASSERT_EQUAL(ask(pool, "SELECT 1").status, 0);
        weir_mariadb_unref(pool);
        snprintf(url, sizeof url, "%s?tls=verify", server_url(true)); /* nobody has signed for it */
        pool = pool_of(url, WEIR_SEC(10));
        CU_ASSERT_EQUAL(ask(pool, "SELECT 1").status, -EPROTO);
        weir_mariadb_unref(pool);
        weir_test_end();
}

/* -- forks -- */

static void
a_child_leaves_the_connections_alone(void)
{
        begin(1);
        weir_mariadb *pool = pool_of(server_url(true), WEIR_SEC(10));
        char pid[64];
        snprintf(pid, sizeof pid, "%s", ask(pool, "SELECT connection_id()").value);
        pid_t child = fork();
        if (child == 0) {
                weir_test_leaks_do_not_count = 1;
                int refused = weir_task_start(weir_mariadb_query_new(pool, "SELECT 1", NULL, NULL));
                weir_mariadb_close(pool);
                weir_mariadb_unref(pool);
                _exit(refused == -ECHILD || refused == -ENOMEM ? 0 : 1);
        }
        int status;
        CU_ASSERT(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
        CU_ASSERT_STRING_EQUAL(ask(pool, "SELECT connection_id()").value, pid);
        weir_mariadb_unref(pool);
        weir_test_end();
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(refusals_have_a_status),
                WEIR_TEST(a_config_says_what_the_url_does_not),
                WEIR_TEST(one_that_does_not_answer_is_too_late),
                WEIR_TEST(nonsense_ends_the_connection),
                WEIR_TEST(a_server_that_falls_silent_loses_its_connection),
                WEIR_TEST(a_server_may_be_killed_under_load),
                WEIR_TEST(a_deadline_of_the_flow_holds),
                WEIR_TEST(a_shutdown_ends_what_is_under_way),
                WEIR_TEST(a_server_that_stands_still_holds_nobody_up),
                WEIR_TEST(connections_may_be_encrypted),
                WEIR_TEST(a_child_leaves_the_connections_alone),
        };

        return server_main("mariadb_faults", tests, sizeof tests / sizeof *tests);
}
