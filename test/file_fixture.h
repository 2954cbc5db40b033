/* test/file_fixture.h: a directory with files of all sorts, and a server that serves it, for the suites of files.
 *
 * The server may serve the files below root/.  The content of the files beside root/ says so, and must be in no reply. */
#ifndef WEIR_TEST_FILE_FIXTURE_H
#define WEIR_TEST_FILE_FIXTURE_H

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "server/exchange/exchange.h"
#include "test/fixture.h"
#include "test/http_client.h"

#define GET(target)  "GET " target " HTTP/1.1\r\nHost: a\r\n\r\n"
#define WITH(fields) "GET /file.txt HTTP/1.1\r\nHost: a\r\n" fields "\r\n\r\n"

#define WHEN  784111777 /* as which the files were modified */
#define DATE  "Sun, 06 Nov 1994 08:49:37 GMT"
#define LATER "Sun, 06 Nov 1994 08:49:38 GMT"

#define TEXT   "0123456789"
#define SECRET "nobody may read this\n"
#define LARGE  ((size_t)5 * 1024 * 1024 + 17)

/* -- files -- */

static char base[64]; /* holds root/, which is served, and what is not */
static char root[80];

static inline const char *path_of(const char *name)
{
        static char path[8192];

        snprintf(path, sizeof path, "%s/%s", base, name);
        return path;
}

static inline void put_file(const char *name, const void *data, size_t size)
{
        const struct timespec times[2] = {{.tv_sec = WHEN}, {.tv_sec = WHEN, .tv_nsec = 5}};
        int fd = open(path_of(name), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

        CU_ASSERT_FATAL(fd >= 0);
        CU_ASSERT_EQUAL_FATAL(write(fd, data, size), (ssize_t)size);
        CU_ASSERT_EQUAL_FATAL(futimens(fd, times), 0);
        close(fd);
}

static inline void put(const char *name, const char *text)
{
        put_file(name, text, strlen(text));
}

static inline void put_directory(const char *name)
{
        CU_ASSERT_EQUAL_FATAL(mkdir(path_of(name), 0755), 0);
}

static inline void put_link(const char *name, const char *to)
{
        CU_ASSERT_EQUAL_FATAL(symlink(to, path_of(name)), 0);
}

static inline void put_socket(const char *name)
{
        struct sockaddr_un address = {.sun_family = AF_UNIX};
        int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

        snprintf(address.sun_path, sizeof address.sun_path, "%.100s", path_of(name));
        CU_ASSERT_EQUAL(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
        close(fd);
}

static inline char byte_at(size_t at)
{
        return (char)(at * 31 + (at >> 8) * 7 + (at >> 16));
}

static inline void put_large(void)
{
        char *bytes = malloc(LARGE);

        for (size_t i = 0; i < LARGE; i++) {
                bytes[i] = byte_at(i);
        }
        put_file("root/large.bin", bytes, LARGE);
        free(bytes);
}

static inline void put_files(void)
{
        char absolute[160];

        strcpy(base, "/tmp/weir-file-test-XXXXXX");
        CU_ASSERT_PTR_NOT_NULL_FATAL(mkdtemp(base));
        chmod(base, 0755);
        snprintf(root, sizeof root, "%s/root", base);
        put("secret.txt", SECRET);
        put_directory("root");
        put_directory("root-too");
        put("root-too/secret.txt", SECRET);
        put("root/file.txt", TEXT);
        put("root/empty", "");
        put("root/..dots", TEXT);
        put("root/dots..", TEXT);
        put("root/...", TEXT);
        put("root/a b", TEXT);
        put("root/index.html", "<p>root");
        put_large();
        put_directory("root/sub");
        put("root/sub/index.html", "<p>sub");
        put("root/sub/file.css", "p {}");
        put_directory("root/sub/a b:c");
        put_directory("root/no index");
        put_directory("root/odd");
        put_directory("root/odd/index.html");
        CU_ASSERT_EQUAL(mkfifo(path_of("root/fifo"), 0644), 0);
        put_socket("root/socket");
        put_link("root-link", "root");
        put_link("root/loop", "loop");
        put_link("root/nowhere", "nothing");
        put_link("root/out", "../secret.txt");
        put_link("root/out-directory", "..");
        put_link("root/in", "file.txt");
        put_link("root/in-directory", "sub");
        put_link("root/sub/up", "../file.txt");
        put_link("root/sub/up-and-out", "../../secret.txt");
        snprintf(absolute, sizeof absolute, "%s/secret.txt", base);
        put_link("root/absolute", absolute);
        put_link("root/absolute-directory", base);
        snprintf(absolute, sizeof absolute, "%s/file.txt", root);
        put_link("root/absolute-within", absolute);
        put_link("root/magic", "/proc/self/root");
}

static inline void remove_files(void)
{
        char command[128];

        snprintf(command, sizeof command, "rm -rf -- '%s'", base);
        CU_ASSERT_EQUAL(system(command), 0);
}

/* -- the server -- */

static struct fixture {
        weir_http_server *server;
        struct http_client client;
        struct http_reply reply;
        _Atomic(const char *) root, path, type; /* of the handler; without a path that of the request */
        atomic_int result;                      /* its last result */
        atomic_bool has_file;                   /* then: whether the body is a file */
} at;

static inline void serve_file(weir_task *exchange, void *context)
{
        const char *path = at.path, *type = at.type;

        (void)context;
        weir_http_reply_append(exchange, "before", 6);
        weir_http_reply_set_header(exchange, "X-Own", "stays");
        if (type) {
                weir_http_reply_set_header(exchange, "Content-Type", type);
        }
        at.result = weir_http_reply_file(exchange, at.root, path ? path : weir_http_path(exchange));
        at.has_file = weir__exchange_of(exchange)->file != NULL;
}

static inline void begin_at(weir_task_fn *handler)
{
        put_files();
        at.root = root;
        at.path = at.type = NULL;
        at.server = http_server(NULL, handler, NULL);
        http_open(&at.client, weir_http_server_port(at.server));
}

static inline void begin_with(weir_task_fn *handler)
{
        weir_test_begin_real(2);
        begin_at(handler);
}

static inline void begin(void)
{
        begin_with(serve_file);
}

static inline void end(void)
{
        http_close(&at.client);
        http_reply_done(&at.reply);
        CU_ASSERT_EQUAL(weir_http_server_stop(at.server, WEIR_SEC(10)), 0);
        weir_http_server_free(at.server);
        weir_test_end();
        remove_files();
}

static inline int ask(const char *request)
{
        CU_ASSERT_TRUE_FATAL(http_ask(&at.client, request, &at.reply));
        return at.reply.status;
}

/* The status for a target, and that its reply is nothing that it must not be. */
static inline int get(const char *target)
{
        char request[8192];

        snprintf(request, sizeof request, GET("%s"), target);
        int status = ask(request);
        CU_ASSERT_PTR_NULL(strstr(at.reply.body, "nobody may read"));
        CU_ASSERT_PTR_NULL(strstr(at.reply.body, "before"));
        return status;
}

static inline void answers(const char *target, int status, int result)
{
        at.result = 1;
        int actual = get(target);

        if (actual != status || at.result != result) {
                printf("\n  %s: %d, %s", target, actual, weir_strerror(at.result));
        }
        CU_ASSERT_EQUAL(actual, status);
        CU_ASSERT_EQUAL(at.result, result);
}

static inline void field_is(const char *name, const char *value)
{
        if (value) {
                HTTP_ASSERT_TEXT(http_field(&at.reply, name), value);
                CU_ASSERT_EQUAL(http_field_count(&at.reply, name), 1);
        } else {
                CU_ASSERT_EQUAL(http_field_count(&at.reply, name), 0);
        }
}

static inline void reply_is(int status, const char *body, const char *content_range)
{
        CU_ASSERT_EQUAL(at.reply.status, status);
        HTTP_ASSERT_TEXT(at.reply.body, body);
        field_is("Content-Range", content_range);
}

#endif
