/* test/access_test.c: the access log: its lines, and that it delays nobody.
 *
 * The linker puts the functions at the end of "refusing" in front of the allocator and of pthread_create
 * (test/CMakeLists.txt). */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sys/stat.h>

#include "server/base/server.h"
#include "test/fixture.h"
#include "test/http_client.h"

#define GET(target) "GET " target " HTTP/1.1\r\nHost: a\r\n\r\n"
#define LARGE       ((size_t)4 * 1024 * 1024)
#define RECORDS     8

/* The arguments that the function was called with; strings are copied. */
struct seen {
        struct weir_http_access access;
        char client[64], method[32], target[64], host[64], agent[64];
};

static struct fixture {
        weir_http_server *server;
        int port;
        struct http_client client;
        struct http_reply reply;
        char directory[64], path[96], other[96];
        struct seen seen[RECORDS];
        atomic_uint count;    /* of calls of the function */
        atomic_bool hold;     /* the function does not return */
        atomic_int stop_said; /* to the function */
        char said[512];       /* the last message */
        atomic_uint messages;
        atomic_bool handled;
} at;

/* -- refusing -- */

static atomic_int refuse_at; /* counts down to the allocation that is refused; 0: none */
static atomic_bool refuse_threads;

static bool
is_refused(void)
{
        return atomic_load(&refuse_at) > 0 && atomic_fetch_sub(&refuse_at, 1) == 1;
}

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_aligned_alloc(size_t alignment, size_t size);
int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *), void *argument);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_aligned_alloc(size_t alignment, size_t size);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *), void *argument);

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
__wrap_aligned_alloc(size_t alignment, size_t size)
{
        return is_refused() ? NULL : __real_aligned_alloc(alignment, size);
}

int
__wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *), void *argument)
{
        return atomic_load(&refuse_threads) ? EAGAIN : __real_pthread_create(thread, attributes, run, argument);
}

/* -- the server -- */

/* "/later": after 20 s.  "/drop": none.  "/large": more than the sockets hold.  "/stream": in two pieces.  "/short": in one of
 * the two that were announced. */
static void
handle(weir_task *exchange, void *context)
{
        const char *path = weir_http_path(exchange);
        static char bytes[LARGE];

        (void)context;
        if (strcmp(path, "/large") == 0) {
                weir_http_reply_append(exchange, bytes, sizeof bytes);
        } else if (strcmp(path, "/drop") == 0) {
                weir_series_cancel(weir_series_of(exchange));
        } else if (strcmp(path, "/stream") == 0) {
                weir_series_push(weir_series_of(exchange), weir_http_write_new(exchange, "two ", 4, NULL, NULL));
                weir_series_push(weir_series_of(exchange), weir_http_write_new(exchange, "pieces", 6, NULL, NULL));
        } else if (strcmp(path, "/short") == 0) {
                weir_http_reply_length(exchange, 10);
                weir_series_push(weir_series_of(exchange), weir_http_write_new(exchange, "two ", 4, NULL, NULL));
        } else {
                weir_http_reply_text(exchange, 200, "word\n");
        }
        if (strcmp(path, "/later") == 0) {
                weir_series_push(weir_series_of(exchange), weir_timer_new(WEIR_SEC(20), NULL, NULL));
        }
        atomic_store(&at.handled, true);
}

static void
keep(char *to, size_t room, const char *from)
{
        snprintf(to, room, "%s", from ? from : "(none)");
}

static void
note(const struct weir_http_access *access, void *context)
{
        unsigned count = atomic_load(&at.count);
        struct seen *seen = &at.seen[count % RECORDS];

        CU_ASSERT_PTR_EQUAL(context, &at);
        CU_ASSERT_EQUAL(access->size, sizeof *access);
        seen->access = *access;
        keep(seen->client, sizeof seen->client, access->client);
        keep(seen->method, sizeof seen->method, access->method);
        keep(seen->target, sizeof seen->target, access->target);
        keep(seen->host, sizeof seen->host, access->host);
        keep(seen->agent, sizeof seen->agent, access->user_agent);
        atomic_store(&at.count, count + 1);
        WEIR_TEST_EVENTUALLY(!atomic_load(&at.hold));
}

static void
hear(enum weir_log_level level, const char *message, void *context)
{
        (void)level;
        (void)context;
        keep(at.said, sizeof at.said, message);
        atomic_fetch_add(&at.messages, 1);
}

static struct weir_http_server_config
config_with(const char *path, weir_http_access_fn *function)
{
        struct weir_http_server_config config = WEIR_HTTP_SERVER_CONFIG_DEFAULT;

        config.access_log = path;
        config.on_access = function;
        config.access_context = &at;
        return config;
}

static void
prepare(void)
{
        strcpy(at.directory, "/tmp/weir-access-XXXXXX");
        CU_ASSERT_PTR_NOT_NULL_FATAL(mkdtemp(at.directory));
        snprintf(at.path, sizeof at.path, "%s/log", at.directory);
        snprintf(at.other, sizeof at.other, "%s/log.1", at.directory);
        atomic_store(&at.count, 0);
        atomic_store(&at.messages, 0);
        atomic_store(&at.hold, false);
        atomic_store(&at.handled, false);
        strcpy(at.said, "");
        CU_ASSERT_EQUAL(weir_log_set(hear, NULL), 0);
}

static void
serve(const struct weir_http_server_config *config)
{
        at.server = http_server(config, handle, NULL);
        at.port = weir_http_server_port(at.server);
        http_open(&at.client, at.port);
}

static void
begin(int pollers, const char *path, weir_http_access_fn *function)
{
        struct weir_http_server_config config = config_with(path, function);

        weir_test_begin_real(pollers);
        serve(&config);
}

static void
begin_virtual(const char *path, weir_http_access_fn *function)
{
        struct weir_http_server_config config = config_with(path, function);

        weir_test_begin_virtual();
        CU_ASSERT_EQUAL(weir_clock_set_wall(WEIR_SEC(1000000000)), 0);
        serve(&config);
}

/* Everything is written when this returns. */
static void
stop(void)
{
        http_close(&at.client);
        CU_ASSERT_EQUAL(weir_http_server_stop(at.server, WEIR_SEC(10)), 0);
}

static void
end(void)
{
        weir_http_server_free(at.server);
        http_reply_done(&at.reply);
        weir_test_end();
        unlink(at.path);
        unlink(at.other);
        CU_ASSERT_EQUAL(rmdir(at.directory), 0);
        CU_ASSERT_EQUAL(weir_log_set(NULL, NULL), 0);
}

/* Returns the content of the file, in static memory. */
static const char *
content(const char *path)
{
        static char text[1 << 20];
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        size_t size = 0;

        for (ssize_t got; fd >= 0 && (got = read(fd, text + size, sizeof text - 1 - size)) > 0;) {
                size += (size_t)got;
        }
        if (fd >= 0) {
                close(fd);
        }
        text[size] = '\0';
        return text;
}

static unsigned
lines_in(const char *text)
{
        unsigned count = 0;

        for (; (text = strchr(text, '\n')); text++) {
                count++;
        }
        return count;
}

static void
ask(const char *request, int status)
{
        CU_ASSERT_TRUE(http_ask(&at.client, request, &at.reply));
        CU_ASSERT_EQUAL(at.reply.status, status);
}

/* -- lines -- */

#define BEGIN "127.0.0.1 - - [09/Sep/2001:01:46:40 +0000] "

static void
a_reply_is_a_line_in_the_combined_format(void)
{
        prepare();
        begin_virtual(at.path, NULL);
        ask("GET /a?b=c HTTP/1.1\r\nHost: h\r\nReferer: http://r/\r\nuser-agent: agent/1 (x)\r\n\r\n", 200);
        ask("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", 200);
        CU_ASSERT_TRUE(http_send_text(&at.client, "HEAD / HTTP/1.1\r\nHost: h\r\n\r\n"));
        CU_ASSERT_TRUE(http_receive(&at.client, &at.reply, true));
        stop();
        CU_ASSERT_STRING_EQUAL(content(at.path),
                               BEGIN "\"GET /a?b=c HTTP/1.1\" 200 5 \"http://r/\" \"agent/1 (x)\"\n" BEGIN
                                     "\"GET / HTTP/1.0\" 200 5 \"-\" \"-\"\n" BEGIN "\"HEAD / HTTP/1.1\" 200 0 \"-\" \"-\"\n");
        end();
}

static void
nobody_can_forge_a_line(void)
{
        prepare();
        begin_virtual(at.path, NULL);
        ask("GET /%0a%22?\\x HTTP/1.1\r\nHost: h\r\nReferer: r\" 200 5 \"x\\\r\nUser-Agent: a\t\xff\xc2\x9b\r\n\r\n", 200);
        stop();
        CU_ASSERT_STRING_EQUAL(content(at.path), BEGIN "\"GET /%0a%22?\\x5cx HTTP/1.1\" 200 5 \"r\\x22 200 5 \\x22x\\x5c\" "
                                                       "\"a\\x09\\xff\\xc2\\x9b\"\n");
        end();
}

static void
long_values_are_cut(void)
{
        static char request[12000];
        size_t size;

        prepare();
        begin_virtual(at.path, NULL);
        memset(request, '\0', sizeof request);
        strcpy(request, "GET /");
        memset(request + 5, 't', 5000);
        strcat(request, " HTTP/1.1\r\nHost: h\r\nUser-Agent: ");
        size = strlen(request);
        memset(request + size, '\xff', 5000);
        strcat(request, "\r\n\r\n");
        ask(request, 200);
        stop();
        const char *text = content(at.path), *target = strstr(text, "GET /"), *last = strstr(text, "... HTTP/1.1\"");
        CU_ASSERT_EQUAL(lines_in(text), 1);
        CU_ASSERT_EQUAL(last + 3 - (target + 4), 4095);
        CU_ASSERT_PTR_NOT_NULL(strstr(text, "\\xff...\"\n"));
        CU_ASSERT_EQUAL(strlen(strstr(text, "\"-\" \"")), strlen("\"-\" \"") + 4 * 1020 + strlen("...\"\n"));
        end();
}

static void
bytes_that_are_no_request_are_logged_without_one(void)
{
        prepare();
        begin_virtual(at.path, note);
        ask("nonsense\r\n\r\n", 400);
        stop();
        CU_ASSERT_STRING_EQUAL(content(at.path), BEGIN "\"-\" 400 16 \"-\" \"-\"\n");
        CU_ASSERT_EQUAL(atomic_load(&at.count), 1);
        CU_ASSERT_PTR_NULL(at.seen[0].access.method);
        CU_ASSERT_PTR_NULL(at.seen[0].access.target);
        CU_ASSERT_PTR_NULL(at.seen[0].access.host);
        CU_ASSERT_EQUAL(at.seen[0].access.duration, 0);
        CU_ASSERT_TRUE(at.seen[0].access.is_complete);
        end();
}

static void
the_former_content_of_the_file_stays(void)
{
        int fd;

        prepare();
        fd = open(at.path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
        CU_ASSERT_EQUAL(write(fd, "before\n", 7), 7);
        close(fd);
        begin_virtual(at.path, NULL);
        ask(GET("/"), 200);
        stop();
        CU_ASSERT_EQUAL(memcmp(content(at.path), "before\n127.0.0.1 ", 17), 0);
        end();
}

/* -- records -- */

static void
the_function_is_told_all(void)
{
        const struct seen *seen = at.seen;

        prepare();
        begin_virtual(NULL, note);
        CU_ASSERT_TRUE(http_send_text(&at.client, "GET /later HTTP/1.1\r\nHost: h:80\r\nUser-Agent: \"\r\n\r\n"));
        weir_test_pass(0);
        weir_test_pass(WEIR_SEC(20));
        CU_ASSERT_TRUE(http_receive(&at.client, &at.reply, false));
        stop();
        CU_ASSERT_EQUAL(atomic_load(&at.count), 1);
        CU_ASSERT_STRING_EQUAL(seen->client, "127.0.0.1");
        CU_ASSERT_STRING_EQUAL(seen->method, "GET");
        CU_ASSERT_STRING_EQUAL(seen->target, "/later");
        CU_ASSERT_STRING_EQUAL(seen->host, "h:80");
        CU_ASSERT_STRING_EQUAL(seen->agent, "\""); /* as it was sent */
        CU_ASSERT_PTR_NULL(seen->access.referer);
        CU_ASSERT_EQUAL(seen->access.minor, 1);
        CU_ASSERT_EQUAL(seen->access.status, 200);
        CU_ASSERT_EQUAL(seen->access.body_sent, 5);
        CU_ASSERT_TRUE(seen->access.is_complete);
        CU_ASSERT_EQUAL(seen->access.duration, WEIR_SEC(20));
        CU_ASSERT_EQUAL(seen->access.ended, WEIR_SEC(1000000020));
        end();
}

static void
assert_told(unsigned index, const char *target, int status, bool is_complete)
{
        CU_ASSERT(index < atomic_load(&at.count));
        CU_ASSERT_STRING_EQUAL(at.seen[index].target, target);
        CU_ASSERT_EQUAL(at.seen[index].access.status, status);
        CU_ASSERT_EQUAL(at.seen[index].access.is_complete != 0, is_complete);
}

static void
a_client_that_leaves_before_the_reply_is_499(void)
{
        prepare();
        begin_virtual(NULL, note);
        CU_ASSERT_TRUE(http_send_text(&at.client, GET("/later")));
        weir_test_pass(WEIR_SEC(1));
        http_abandon(&at.client);
        weir_test_pass(0);
        http_open(&at.client, at.port);
        CU_ASSERT_TRUE(http_send_text(&at.client, "PUT /body HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nhalf"));
        weir_test_pass(0);
        http_close(&at.client);
        weir_test_pass(0);
        http_open(&at.client, at.port);
        CU_ASSERT_TRUE(http_send_text(&at.client, GET("/drop")));
        CU_ASSERT_TRUE(http_is_over(&at.client));
        http_close(&at.client);
        http_open(&at.client, at.port);
        CU_ASSERT_TRUE(http_send_text(&at.client, "GET /no-more-than-half-a-head"));
        weir_test_pass(0);
        stop();
        CU_ASSERT_EQUAL(atomic_load(&at.count), 3);
        assert_told(0, "/later", WEIR_HTTP_NO_REPLY, false);
        CU_ASSERT_EQUAL(at.seen[0].access.duration, WEIR_SEC(1));
        CU_ASSERT_EQUAL(at.seen[0].access.body_sent, 0);
        assert_told(1, "/body", WEIR_HTTP_NO_REPLY, false);
        assert_told(2, "/drop", WEIR_HTTP_NO_REPLY, false);
        end();
}

static void
a_request_that_a_stop_cuts_is_499(void)
{
        prepare();
        begin(1, NULL, note); /* on the real clock: the virtual one goes on while a stop waits */
        CU_ASSERT_TRUE(http_send_text(&at.client, GET("/later")));
        WEIR_TEST_EVENTUALLY(atomic_load(&at.handled));
        CU_ASSERT_EQUAL(weir_http_server_stop(at.server, 0), 1);
        CU_ASSERT_EQUAL(atomic_load(&at.count), 1);
        assert_told(0, "/later", WEIR_HTTP_NO_REPLY, false);
        http_close(&at.client);
        end();
}

static void
a_stream_is_told_with_its_bytes(void)
{
        prepare();
        begin_virtual(NULL, note);
        CU_ASSERT_TRUE(http_send_text(&at.client, GET("/stream")));
        do {
                http_read_some(&at.client);
        } while (at.client.size < 5 || memcmp(at.client.input + at.client.size - 5, "0\r\n\r\n", 5) != 0);
        http_close(&at.client);
        http_open(&at.client, at.port);
        CU_ASSERT_TRUE(http_send_text(&at.client, "GET /stream HTTP/1.0\r\n\r\n"));
        do {
                http_read_some(&at.client);
        } while (!at.client.ended);
        http_close(&at.client);
        http_open(&at.client, at.port);
        CU_ASSERT_TRUE(http_send_text(&at.client, GET("/short")));
        CU_ASSERT_FALSE(http_receive(&at.client, &at.reply, false));
        stop();
        CU_ASSERT_EQUAL(atomic_load(&at.count), 3);
        assert_told(0, "/stream", 200, true);
        CU_ASSERT_EQUAL(at.seen[0].access.body_sent, strlen("4\r\ntwo \r\n6\r\npieces\r\n0\r\n\r\n"));
        assert_told(1, "/stream", 200, true);
        CU_ASSERT_EQUAL(at.seen[1].access.body_sent, 10);
        assert_told(2, "/short", 200, false);
        CU_ASSERT_EQUAL(at.seen[2].access.body_sent, 4);
        end();
}

static void
a_slow_reader_is_told_of_when_it_has_all(void)
{
        prepare();
        begin(1, NULL, note);
        http_close(&at.client);
        http_open_window(&at.client, at.port, 16384);
        CU_ASSERT_TRUE(http_send_text(&at.client, GET("/large") GET("/")));
        http_read_some(&at.client);
        weir_test_sleep(WEIR_MSEC(250)); /* really: nothing may come */
        CU_ASSERT_EQUAL(atomic_load(&at.count), 0);
        CU_ASSERT_TRUE(http_receive(&at.client, &at.reply, false));
        CU_ASSERT_TRUE(http_receive(&at.client, &at.reply, false));
        http_close(&at.client);
        http_open_window(&at.client, at.port, 16384);
        CU_ASSERT_TRUE(http_send_text(&at.client, GET("/large")));
        http_read_some(&at.client);
        http_abandon(&at.client);
        WEIR_TEST_EVENTUALLY(atomic_load(&at.server->base.connections) == 0);
        http_open(&at.client, at.port);
        stop();
        CU_ASSERT_EQUAL(atomic_load(&at.count), 3);
        assert_told(0, "/large", 200, true);
        CU_ASSERT_EQUAL(at.seen[0].access.body_sent, LARGE);
        assert_told(1, "/", 200, true);
        assert_told(2, "/large", 200, false);
        CU_ASSERT(at.seen[2].access.body_sent < LARGE);
        end();
}

static void
requests_in_one_packet_are_logged_in_order(void)
{
        prepare();
        begin_virtual(NULL, note);
        CU_ASSERT_TRUE(http_send_text(&at.client, GET("/1") GET("/2") "nonsense\r\n\r\n"));
        for (int i = 0; i < 3; i++) {
                CU_ASSERT_TRUE(http_receive(&at.client, &at.reply, false));
        }
        stop();
        CU_ASSERT_EQUAL(atomic_load(&at.count), 3);
        assert_told(0, "/1", 200, true);
        assert_told(1, "/2", 200, true);
        assert_told(2, "(none)", 400, true);
        end();
}

static void
a_body_that_is_refused_has_its_request(void)
{
        struct weir_http_server_config config = config_with(NULL, note);

        prepare();
        config.max_body = 4;
        weir_test_begin_virtual();
        serve(&config);
        ask("PUT /large-body HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n12345\r\n0\r\n\r\n", 413);
        stop();
        assert_told(0, "/large-body", 413, true);
        CU_ASSERT_EQUAL(at.seen[0].access.body_sent, at.reply.size);
        end();
}

static void
the_client_is_whom_a_trusted_proxy_names(void)
{
        struct weir_http_server_config config = config_with(at.path, note);

        prepare();
        config.trusted_proxies = "127.0.0.1";
        weir_test_begin_virtual();
        serve(&config);
        ask("GET / HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 198.51.100.7, 192.0.2.1\r\n\r\n", 200);
        ask("GET / HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: no address\r\n\r\n", 200);
        stop();
        CU_ASSERT_STRING_EQUAL(at.seen[0].client, "192.0.2.1");
        CU_ASSERT_STRING_EQUAL(at.seen[1].client, "127.0.0.1");
        CU_ASSERT_EQUAL(memcmp(content(at.path), "192.0.2.1 - - [", 15), 0);
        end();
}

/* -- trouble with the file -- */

static int
start_with(const char *path)
{
        struct weir_http_server_config config = config_with(path, NULL);
        weir_http_server *server = weir_http_server_new(&config, handle, NULL);
        int failed = weir_http_server_start(server, "127.0.0.1:0");

        weir_http_server_free(server);
        return failed;
}

static void
a_file_that_cannot_be_opened_is_the_result_of_the_start(void)
{
        unsigned descriptors, threads;

        prepare();
        weir_test_begin_real(1);
        CU_ASSERT_EQUAL(start_with(at.path), 0);
        descriptors = http_open_descriptors();
        threads = weir_test_threads();
        CU_ASSERT_EQUAL(start_with("/nowhere/at/all"), -ENOENT);
        CU_ASSERT_PTR_NOT_NULL(strstr(at.said, "/nowhere/at/all"));
        CU_ASSERT_EQUAL(start_with(at.directory), -EISDIR);
        CU_ASSERT_EQUAL(mkfifo(at.other, 0600), 0);
        CU_ASSERT_EQUAL(start_with(at.other), -ENXIO); /* nobody reads */
        CU_ASSERT_EQUAL(http_open_descriptors(), descriptors);
        CU_ASSERT_TRUE(weir_test_threads_become(threads));
        at.server = NULL;
        end();
}

static void
a_start_that_failed_can_be_repeated(void)
{
        struct weir_http_server_config config = config_with(at.path, NULL);
        char taken[32];

        prepare();
        begin(1, NULL, NULL);
        snprintf(taken, sizeof taken, "127.0.0.1:%d", at.port);
        weir_http_server *other = weir_http_server_new(&config, handle, NULL);
        CU_ASSERT_EQUAL(weir_http_server_start(other, taken), -EADDRINUSE);
        CU_ASSERT_EQUAL(weir_http_server_start(other, "127.0.0.1:0"), 0);
        http_close(&at.client);
        http_open(&at.client, weir_http_server_port(other));
        ask(GET("/"), 200);
        CU_ASSERT_EQUAL(weir_http_server_stop(other, WEIR_SEC(10)), 0);
        CU_ASSERT_EQUAL(lines_in(content(at.path)), 1);
        weir_http_server_free(other);
        stop();
        end();
}

/* Many at once: the replies are read behind each batch. */
static void
ask_often(unsigned count)
{
        enum { BATCH = 50 };

        for (unsigned i = 0; i < count / BATCH; i++) {
                for (unsigned k = 0; k < BATCH; k++) {
                        CU_ASSERT_TRUE(http_send_text(&at.client, GET("/often")));
                }
                for (unsigned k = 0; k < BATCH; k++) {
                        CU_ASSERT_TRUE(http_receive(&at.client, &at.reply, false));
                }
        }
}

static void
a_full_disk_neither_spins_nor_holds_anybody_up(void)
{
        int64_t cpu;

        prepare();
        begin(1, "/dev/full", NULL);
        ask_often(100);
        WEIR_TEST_EVENTUALLY(atomic_load(&at.messages) > 0);
        CU_ASSERT_PTR_NOT_NULL(strstr(at.said, strerror(ENOSPC)));
        cpu = weir_test_cpu_time();
        weir_test_sleep(WEIR_MSEC(300)); /* really: it is about CPU time */
        CU_ASSERT(weir_test_cpu_time() - cpu < WEIR_MSEC(100));
        CU_ASSERT_EQUAL(weir_http_server_access_lost(at.server), 0); /* it may become better */
        ask_often(10000);
        CU_ASSERT(weir_http_server_access_lost(at.server) > 0);
        stop();
        CU_ASSERT_EQUAL(weir_http_server_access_lost(at.server), 10100);
        end();
}

static void
a_pipe_that_nobody_reads_holds_nobody_up(void)
{
        size_t size = 0;
        static char text[1 << 17];
        int64_t began;
        int reader;

        prepare();
        CU_ASSERT_EQUAL(mkfifo(at.path, 0600), 0);
        reader = open(at.path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
        begin(1, at.path, NULL);
        ask_often(10000);
        CU_ASSERT(weir_http_server_access_lost(at.server) > 0);
        began = weir_test_now();
        stop();
        CU_ASSERT(weir_test_now() - began < WEIR_TEST_TOLERANCE);
        for (ssize_t got; (got = read(reader, text + size, sizeof text - 1 - size)) > 0;) {
                size += (size_t)got;
        }
        text[size] = '\0';
        CU_ASSERT_EQUAL(lines_in(text) + weir_http_server_access_lost(at.server), 10000);
        CU_ASSERT(lines_in(text) > 100);
        close(reader);
        end();
}

static void
a_pipe_that_is_read_slowly_gets_all(void)
{
        static char text[1 << 20];
        size_t size = 0;
        int reader;

        prepare();
        CU_ASSERT_EQUAL(mkfifo(at.path, 0600), 0);
        reader = open(at.path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
        begin(1, at.path, NULL);
        ask_often(2000); /* twice what the pipe holds, less than pipe and buffers do */
        for (int64_t until = weir_test_now() + WEIR_TEST_PATIENCE; lines_in(text) < 2000 && weir_test_now() < until;) {
                ssize_t got = read(reader, text + size, 3000);

                size += got > 0 ? (size_t)got : 0;
                text[size] = '\0';
        }
        CU_ASSERT_EQUAL(lines_in(text), 2000);
        CU_ASSERT_EQUAL(weir_http_server_access_lost(at.server), 0);
        stop();
        close(reader);
        end();
}

/* Its reader goes away, and another file is opened in its place. */
static void
a_pipe_whose_reader_has_gone_can_be_left(void)
{
        int reader;

        prepare();
        CU_ASSERT_EQUAL(mkfifo(at.path, 0600), 0);
        reader = open(at.path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
        begin(1, at.path, NULL);
        close(reader);
        ask_often(100);
        WEIR_TEST_EVENTUALLY(atomic_load(&at.messages) > 0);
        CU_ASSERT_EQUAL(unlink(at.path), 0);
        CU_ASSERT_EQUAL(weir_http_server_reopen_log(at.server), 0);
        WEIR_TEST_EVENTUALLY(lines_in(content(at.path)) == 100);
        stop();
        end();
}

/* -- reopening -- */

static void
the_path_of_a_renamed_file_is_opened_again(void)
{
        prepare();
        begin(1, at.path, NULL);
        ask(GET("/1"), 200);
        WEIR_TEST_EVENTUALLY(lines_in(content(at.path)) == 1);
        CU_ASSERT_EQUAL(rename(at.path, at.other), 0);
        ask(GET("/2"), 200);
        WEIR_TEST_EVENTUALLY(lines_in(content(at.other)) == 2);
        CU_ASSERT_EQUAL(weir_http_server_reopen_log(at.server), 0);
        ask(GET("/3"), 200);
        stop();
        CU_ASSERT_EQUAL(lines_in(content(at.other)), 2);
        CU_ASSERT_PTR_NOT_NULL(strstr(content(at.path), "GET /3 "));
        CU_ASSERT_EQUAL(lines_in(content(at.path)), 1);
        CU_ASSERT_EQUAL(weir_http_server_reopen_log(at.server), -EDOM);
        end();
}

static void
a_file_that_cannot_be_reopened_stays_in_use(void)
{
        unsigned descriptors;

        prepare();
        begin(1, at.path, NULL);
        ask(GET("/"), 200); /* so that the server has its end of the connection */
        WEIR_TEST_EVENTUALLY(lines_in(content(at.path)) == 1);
        descriptors = http_open_descriptors();
        CU_ASSERT_EQUAL(rename(at.path, at.other), 0);
        CU_ASSERT_EQUAL(mkdir(at.path, 0700), 0);
        CU_ASSERT_EQUAL(weir_http_server_reopen_log(at.server), -EISDIR);
        CU_ASSERT_EQUAL(rmdir(at.path), 0);
        ask(GET("/"), 200);
        WEIR_TEST_EVENTUALLY(lines_in(content(at.other)) == 2);
        for (int i = 0; i < 100; i++) {
                CU_ASSERT_EQUAL(weir_http_server_reopen_log(at.server), 0);
        }
        WEIR_TEST_EVENTUALLY(http_open_descriptors() == descriptors);
        stop();
        end();
}

static void
without_a_file_there_is_nothing_to_reopen(void)
{
        prepare();
        begin(1, NULL, note);
        CU_ASSERT_EQUAL(weir_http_server_reopen_log(at.server), -EDOM);
        CU_ASSERT_EQUAL(weir_http_server_reopen_log(NULL), -EINVAL);
        stop();
        end();
        prepare();
        begin(1, NULL, NULL);
        CU_ASSERT_EQUAL(weir_http_server_reopen_log(at.server), -EDOM);
        CU_ASSERT_EQUAL(weir_http_server_access_lost(at.server), 0);
        stop();
        end();
}

/* -- time -- */

static void
a_line_comes_soon_without_a_stop(void)
{
        int64_t began;

        prepare();
        begin(1, at.path, NULL);
        for (unsigned i = 1; i < 4; i++) {
                ask(GET("/"), 200);
                began = weir_test_now();
                WEIR_TEST_EVENTUALLY(lines_in(content(at.path)) == i);
                CU_ASSERT(weir_test_now() - began < WEIR_TEST_TOLERANCE);
        }
        stop();
        end();
}

static bool
has_log_thread(void)
{
        unsigned threads;

        weir_test_sleeps("weir/access", &threads);
        return threads > 0;
}

static void
an_idle_server_has_no_wake_ups(void)
{
        unsigned long before = 0, after = 1;
        unsigned threads;

        prepare();
        begin(1, at.path, NULL);
        ask(GET("/"), 200);
        WEIR_TEST_EVENTUALLY(lines_in(content(at.path)) == 1);
        for (int i = 0; i < 20 && after != before; i++) { /* a busy machine may let it come to rest late */
                before = weir_test_sleeps("weir/access", &threads);
                weir_test_sleep(WEIR_MSEC(500)); /* really: nothing may happen */
                after = weir_test_sleeps("weir/access", &threads);
        }
        CU_ASSERT(before > 0);
        CU_ASSERT_EQUAL(after, before);
        stop();
        WEIR_TEST_EVENTUALLY(!has_log_thread()); /* one that was joined is listed for a moment longer */
        end();
}

static void
a_stop_has_all_written(void)
{
        prepare();
        begin(2, at.path, note);
        ask_often(1500);
        stop();
        CU_ASSERT_EQUAL(weir_http_server_access_lost(at.server), 0);
        CU_ASSERT_EQUAL(lines_in(content(at.path)), 1500);
        CU_ASSERT_EQUAL(atomic_load(&at.count), 1500);
        end();
}

static void
a_function_that_blocks_holds_nobody_up(void)
{
        prepare();
        begin(1, NULL, note);
        atomic_store(&at.hold, true);
        ask_often(10000);
        CU_ASSERT(weir_http_server_access_lost(at.server) > 0);
        CU_ASSERT_EQUAL(atomic_load(&at.count), 1);
        atomic_store(&at.hold, false);
        stop();
        CU_ASSERT_EQUAL(atomic_load(&at.count) + weir_http_server_access_lost(at.server), 10000);
        CU_ASSERT_PTR_NOT_NULL(strstr(at.said, "left out"));
        end();
}

/* More lines than the file's buffers hold, which lose the rest.  The function gets all of them soon, and not only when the file
 * works again. */
static void
note_all_beside(const char *path)
{
        enum { TURNS = 20, EACH = 500 };

        begin(1, path, note);
        for (unsigned turn = 1; turn <= TURNS; turn++) {
                ask_often(EACH);
                WEIR_TEST_EVENTUALLY(atomic_load(&at.count) == turn * EACH);
        }
        CU_ASSERT(weir_http_server_access_lost(at.server) > 0);
        stop();
        CU_ASSERT_EQUAL(atomic_load(&at.count), TURNS * EACH);
}

static void
a_full_disk_does_not_hold_the_function_up(void)
{
        prepare();
        note_all_beside("/dev/full");
        CU_ASSERT_EQUAL(weir_http_server_access_lost(at.server), 10000); /* by the file */
        end();
}

static void
a_pipe_that_nobody_reads_does_not_hold_the_function_up(void)
{
        int reader;

        prepare();
        CU_ASSERT_EQUAL(mkfifo(at.path, 0600), 0);
        reader = open(at.path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
        note_all_beside(at.path);
        close(reader);
        end();
}

static void
a_function_that_blocks_does_not_hold_the_file_up(void)
{
        prepare();
        begin(1, at.path, note);
        atomic_store(&at.hold, true);
        ask_often(8000);
        WEIR_TEST_EVENTUALLY(lines_in(content(at.path)) == 8000);
        CU_ASSERT_EQUAL(atomic_load(&at.count), 1);
        size_t lost = weir_http_server_access_lost(at.server); /* by the function */
        CU_ASSERT(lost > 0);
        atomic_store(&at.hold, false);
        stop();
        CU_ASSERT_EQUAL(atomic_load(&at.count) + weir_http_server_access_lost(at.server), 8000);
        end();
}

static atomic_uint last_number, wrong;

/* The number in the target says how long that is. */
static void
check_number(const struct weir_http_access *access, void *context)
{
        unsigned number = (unsigned)strtoul(access->target + 1, NULL, 10);

        (void)context;
        WEIR_TEST_EVENTUALLY(!atomic_load(&at.hold));
        atomic_fetch_add(&wrong, number <= atomic_load(&last_number) || strlen(access->target) != 10 + number * 37 % 900);
        atomic_store(&last_number, number);
        atomic_fetch_add(&at.count, 1);
}

static void
ask_number(unsigned number)
{
        char request[1200], padding[901];

        memset(padding, 'x', sizeof padding - 1);
        padding[sizeof padding - 1] = '\0';
        snprintf(request, sizeof request, "GET /%09u%.*s HTTP/1.1\r\nHost: a\r\n\r\n", number, (int)(number * 37 % 900), padding);
        CU_ASSERT_TRUE(http_ask(&at.client, request, &at.reply));
}

/* Buffers that were full again and again, wherever in them that was. */
static void
lines_that_were_not_lost_are_whole_and_in_order(void)
{
        enum { TURNS = 10, EACH = 1500 };
        unsigned number = 0;

        prepare();
        atomic_store(&last_number, 0);
        atomic_store(&wrong, 0);
        begin(1, NULL, check_number);
        ask_number(++number); /* so that the first of those that wait is just behind the beginning */
        WEIR_TEST_EVENTUALLY(atomic_load(&at.count) == 1);
        for (unsigned turn = 0; turn < TURNS; turn++) {
                atomic_store(&at.hold, true);
                for (unsigned i = 0; i < EACH; i++) {
                        ask_number(++number);
                }
                CU_ASSERT(weir_http_server_access_lost(at.server) > turn);
                atomic_store(&at.hold, false);
                WEIR_TEST_EVENTUALLY(atomic_load(&at.count) + weir_http_server_access_lost(at.server) >= number);
        }
        stop();
        CU_ASSERT_EQUAL(atomic_load(&wrong), 0);
        CU_ASSERT_EQUAL(atomic_load(&at.count) + weir_http_server_access_lost(at.server), 1 + TURNS * EACH);
        end();
}

static void
stop_there(const struct weir_http_access *access, void *context)
{
        (void)access;
        (void)context;
        atomic_store(&at.stop_said, weir_http_server_stop(at.server, 0));
}

static void
it_cannot_be_stopped_by_the_function(void)
{
        prepare();
        atomic_store(&at.stop_said, 0);
        begin(1, NULL, stop_there);
        ask(GET("/"), 200);
        WEIR_TEST_EVENTUALLY(atomic_load(&at.stop_said) != 0);
        CU_ASSERT_EQUAL(atomic_load(&at.stop_said), -EDEADLK);
        stop();
        end();
}

/* -- several at once -- */

enum { CLIENTS = 4, ASKS = WEIR_TEST_SANITIZED ? 300 : 1000 };

static void *
ask_and_leave(void *argument)
{
        struct weir_test_random random = {weir_test_seed() + (uintptr_t)argument};
        struct http_reply reply = {0};
        struct http_client client;

        http_open(&client, at.port);
        for (int i = 0; i < ASKS; i++) {
                if (weir_test_random_below(&random, 10) == 0) {
                        http_close(&client);
                        http_open(&client, at.port);
                }
                CU_ASSERT_TRUE(http_ask(&client, i % 2 ? GET("/odd") : GET("/even/and/longer"), &reply));
        }
        http_close(&client);
        http_reply_done(&reply);
        return NULL;
}

static void
lines_of_several_pollers_do_not_mix(void)
{
        static const char odd[] = "] \"GET /odd HTTP/1.1\" 200 5 \"-\" \"-\"\n";
        static const char even[] = "] \"GET /even/and/longer HTTP/1.1\" 200 5 \"-\" \"-\"\n";
        pthread_t threads[CLIENTS];
        unsigned right = 0;

        prepare();
        begin(2, at.path, note);
        for (uintptr_t i = 0; i < CLIENTS; i++) {
                pthread_create(&threads[i], NULL, ask_and_leave, (void *)i);
        }
        for (int i = 0; i < 20; i++) {
                CU_ASSERT_EQUAL(weir_http_server_reopen_log(at.server), 0); /* the same file */
                weir_test_sleep(WEIR_MSEC(2));
        }
        for (unsigned i = 0; i < CLIENTS; i++) {
                pthread_join(threads[i], NULL);
        }
        stop();
        CU_ASSERT_EQUAL(weir_http_server_access_lost(at.server), 0);
        CU_ASSERT_EQUAL(atomic_load(&at.count), CLIENTS * ASKS);
        const char *text = content(at.path);
        CU_ASSERT_EQUAL(lines_in(text), CLIENTS * ASKS);
        for (; *text; text = strchr(text, '\n') + 1) {
                const char *request = strstr(text, "] ");

                right += memcmp(text, "127.0.0.1 - - [", 15) == 0 && request &&
                         (strncmp(request, odd, sizeof odd - 1) == 0 || strncmp(request, even, sizeof even - 1) == 0);
        }
        CU_ASSERT_EQUAL(right, CLIENTS * ASKS);
        end();
}

/* -- the process -- */

static void
log_to_standard_output(void)
{
        dup2(STDERR_FILENO, STDOUT_FILENO);
        begin_virtual("-", NULL);
        http_ask(&at.client, GET("/to-stdout"), &at.reply);
        if (weir_http_server_reopen_log(at.server) != -EDOM) {
                _exit(1);
        }
        http_close(&at.client);
        weir_http_server_stop(at.server, WEIR_SEC(10));
        weir_http_server_free(at.server);
        weir_shutdown();
}

static void
a_dash_is_the_standard_output(void)
{
        char said[1024];

        CU_ASSERT_EQUAL(weir_test_child(log_to_standard_output, said, sizeof said), 0);
        CU_ASSERT_STRING_EQUAL(said, BEGIN "\"GET /to-stdout HTTP/1.1\" 200 5 \"-\" \"-\"\n");
}

static void
refused_memory_is_the_result_of_the_start(void)
{
        unsigned descriptors, refused = 0;
        int failed = -ENOMEM;

        prepare();
        weir_test_begin_real(2);
        CU_ASSERT_EQUAL(start_with(at.path), 0);
        descriptors = http_open_descriptors();
        for (int i = 1; failed; i++) {
                atomic_store(&refuse_at, i);
                failed = start_with(at.path);
                CU_ASSERT(failed == 0 || failed == -ENOMEM);
                CU_ASSERT_EQUAL(http_open_descriptors(), descriptors);
                refused += failed != 0;
        }
        atomic_store(&refuse_at, 0);
        CU_ASSERT(refused >= 6); /* server, log, rings, two of these, lines; what libc copies and allocates is not seen */
        atomic_store(&refuse_threads, true);
        CU_ASSERT_EQUAL(start_with(at.path), -EAGAIN);
        atomic_store(&refuse_threads, false);
        CU_ASSERT_EQUAL(http_open_descriptors(), descriptors);
        at.server = NULL;
        end();
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(a_dash_is_the_standard_output),
                WEIR_TEST(a_reply_is_a_line_in_the_combined_format),
                WEIR_TEST(nobody_can_forge_a_line),
                WEIR_TEST(long_values_are_cut),
                WEIR_TEST(bytes_that_are_no_request_are_logged_without_one),
                WEIR_TEST(the_former_content_of_the_file_stays),
                WEIR_TEST(the_function_is_told_all),
                WEIR_TEST(a_client_that_leaves_before_the_reply_is_499),
                WEIR_TEST(a_request_that_a_stop_cuts_is_499),
                WEIR_TEST(a_stream_is_told_with_its_bytes),
                WEIR_TEST(a_slow_reader_is_told_of_when_it_has_all),
                WEIR_TEST(requests_in_one_packet_are_logged_in_order),
                WEIR_TEST(a_body_that_is_refused_has_its_request),
                WEIR_TEST(the_client_is_whom_a_trusted_proxy_names),
                WEIR_TEST(a_file_that_cannot_be_opened_is_the_result_of_the_start),
                WEIR_TEST(a_start_that_failed_can_be_repeated),
                WEIR_TEST(a_full_disk_neither_spins_nor_holds_anybody_up),
                WEIR_TEST(a_pipe_that_nobody_reads_holds_nobody_up),
                WEIR_TEST(a_pipe_that_is_read_slowly_gets_all),
                WEIR_TEST(a_pipe_whose_reader_has_gone_can_be_left),
                WEIR_TEST(the_path_of_a_renamed_file_is_opened_again),
                WEIR_TEST(a_file_that_cannot_be_reopened_stays_in_use),
                WEIR_TEST(without_a_file_there_is_nothing_to_reopen),
                WEIR_TEST(a_line_comes_soon_without_a_stop),
                WEIR_TEST(an_idle_server_has_no_wake_ups),
                WEIR_TEST(a_stop_has_all_written),
                WEIR_TEST(a_function_that_blocks_holds_nobody_up),
                WEIR_TEST(a_full_disk_does_not_hold_the_function_up),
                WEIR_TEST(a_pipe_that_nobody_reads_does_not_hold_the_function_up),
                WEIR_TEST(a_function_that_blocks_does_not_hold_the_file_up),
                WEIR_TEST(lines_that_were_not_lost_are_whole_and_in_order),
                WEIR_TEST(it_cannot_be_stopped_by_the_function),
                WEIR_TEST(lines_of_several_pollers_do_not_mix),
                WEIR_TEST(refused_memory_is_the_result_of_the_start),
        };

        return weir_test_main("access", tests, sizeof tests / sizeof *tests);
}
