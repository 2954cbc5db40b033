/* test/file_test.c: the fields and the body of a reply with a file, by a server in this process; other calls of its handler. */
#include "test/file_fixture.h"

/* -- body and fields of the reply -- */

static void
a_file_is_sent_with_what_is_to_be_said_of_it(void)
{
        begin();
        answers("/file.txt", 200, 0);
        reply_is(200, TEXT, NULL);
        field_is("Content-Length", "10");
        field_is("Content-Type", "text/plain; charset=utf-8");
        field_is("Last-Modified", DATE);
        field_is("Accept-Ranges", "bytes");
        field_is("X-Own", "stays");
        const char *tag = http_field(&at.reply, "ETag");
        CU_ASSERT(tag && tag[0] == '"' && tag[strlen(tag) - 1] == '"' && strlen(tag) > 5);
        answers("/sub/file.css", 200, 0);
        reply_is(200, "p {}", NULL);
        field_is("Content-Type", "text/css; charset=utf-8");
        answers("/empty", 200, 0);
        reply_is(200, "", NULL);
        field_is("Content-Length", "0");
        field_is("Content-Type", "application/octet-stream");
        answers("/a%20b?query", 200, 0);
        end();
}

static void
a_large_file_arrives_whole_and_in_parts(void)
{
        char request[160];
        unsigned wrong = 0;

        begin();
        CU_ASSERT_EQUAL(ask(GET("/large.bin")), 200);
        CU_ASSERT_EQUAL_FATAL(at.reply.size, LARGE);
        for (size_t i = 0; i < LARGE; i++) {
                wrong += at.reply.body[i] != byte_at(i);
        }
        snprintf(request, sizeof request, "GET /large.bin HTTP/1.1\r\nHost: a\r\nRange: bytes=%zu-\r\n\r\n", LARGE - 1000001);
        CU_ASSERT_EQUAL(ask(request), 206);
        CU_ASSERT_EQUAL_FATAL(at.reply.size, 1000001);
        for (size_t i = 0; i < at.reply.size; i++) {
                wrong += at.reply.body[i] != byte_at(LARGE - 1000001 + i);
        }
        CU_ASSERT_EQUAL(wrong, 0);
        end();
}

static void
head_has_the_fields_of_get(void)
{
        begin();
        CU_ASSERT_EQUAL(get("/file.txt"), 200);
        char *fields = strdup(strchr(strstr(at.reply.head, "Date:"), '\n')); /* it may be another second */
        CU_ASSERT_EQUAL(ask("HEAD /file.txt HTTP/1.1\r\nHost: a\r\n\r\n"), 200);
        HTTP_ASSERT_TEXT(strchr(strstr(at.reply.head, "Date:"), '\n'), fields);
        field_is("Content-Length", "10");
        CU_ASSERT_EQUAL(ask("HEAD /file.txt HTTP/1.1\r\nHost: a\r\nRange: bytes=0-1\r\n\r\n"), 200); /* ranges are for GET */
        field_is("Content-Length", "10");
        field_is("Content-Range", NULL);
        CU_ASSERT_EQUAL(ask("HEAD /nothing HTTP/1.1\r\nHost: a\r\n\r\n"), 404);
        free(fields);
        answers("/file.txt", 200, 0); /* nothing was left on the way */
        end();
}

static void
one_range_is_heeded(void)
{
        begin();
        ask(WITH("Range: bytes=2-4"));
        reply_is(206, "234", "bytes 2-4/10");
        field_is("Content-Length", "3");
        field_is("Content-Type", "text/plain; charset=utf-8");
        field_is("Last-Modified", DATE);
        CU_ASSERT_PTR_NOT_NULL(http_field(&at.reply, "ETag"));
        ask(WITH("Range: bytes=-3"));
        reply_is(206, "789", "bytes 7-9/10");
        ask(WITH("Range: bytes=0-"));
        reply_is(206, TEXT, "bytes 0-9/10");
        CU_ASSERT_EQUAL(ask(WITH("Range: bytes=10-")), 416);
        CU_ASSERT_EQUAL(at.result, 0);
        reply_is(416, "416 Range Not Satisfiable\n", "bytes */10");
        field_is("Content-Type", "text/plain; charset=utf-8");
        ask(WITH("Range: bytes=0-1,3-4"));
        reply_is(200, TEXT, NULL);
        ask(WITH("Range: lines=0-1"));
        reply_is(200, TEXT, NULL);
        end();
}

static void
if_range_protects_from_another_file(void)
{
        char request[256], tag[64], name[96];

        begin();
        get("/file.txt");
        snprintf(tag, sizeof tag, "%s", http_field(&at.reply, "ETag"));
        snprintf(request, sizeof request, WITH("Range: bytes=2-4\r\nIf-Range: %s"), tag);
        ask(request);
        reply_is(206, "234", "bytes 2-4/10");
        ask(WITH("Range: bytes=2-4\r\nIf-Range: " DATE));
        reply_is(206, "234", "bytes 2-4/10");
        put("root/new", "abcdefghij"); /* the same size and time */
        snprintf(name, sizeof name, "%s/new", root);
        CU_ASSERT_EQUAL(rename(name, path_of("root/file.txt")), 0);
        ask(request);
        reply_is(200, "abcdefghij", NULL);
        ask(WITH("Range: bytes=20-\r\nIf-Range: " LATER));
        reply_is(200, "abcdefghij", NULL);
        end();
}

static void
conditions_are_heeded(void)
{
        char request[256], tag[64];

        begin();
        get("/file.txt");
        snprintf(tag, sizeof tag, "%s", http_field(&at.reply, "ETag"));
        snprintf(request, sizeof request, WITH("If-None-Match: \"x\", W/%s\r\nRange: bytes=0-1"), tag);
        CU_ASSERT_TRUE(at.has_file);
        CU_ASSERT_EQUAL(ask(request), 304);
        CU_ASSERT_EQUAL(at.result, 0);
        CU_ASSERT_FALSE(at.has_file);
        reply_is(304, "", NULL);
        field_is("ETag", tag);
        field_is("X-Own", "stays");
        field_is("Content-Type", NULL);
        field_is("Content-Length", NULL);
        field_is("Last-Modified", NULL);
        CU_ASSERT_EQUAL(ask(WITH("If-Modified-Since: " DATE)), 304);
        CU_ASSERT_EQUAL(ask(WITH("If-None-Match: \"x\"\r\nIf-Modified-Since: " DATE)), 200);
        CU_ASSERT_EQUAL(ask(WITH("If-Match: \"x\"\r\nRange: bytes=0-1")), 412);
        CU_ASSERT_EQUAL(at.result, 0);
        CU_ASSERT_FALSE(at.has_file);
        reply_is(412, "412 Precondition Failed\n", NULL);
        CU_ASSERT_EQUAL(ask(WITH("If-Unmodified-Since: Sun, 06 Nov 1994 08:49:36 GMT")), 412);
        CU_ASSERT_EQUAL(ask("HEAD /file.txt HTTP/1.1\r\nHost: a\r\nIf-Modified-Since: " DATE "\r\n\r\n"), 304);
        snprintf(request, sizeof request, WITH("If-Match: %s\r\nRange: bytes=0-1"), tag);
        CU_ASSERT_EQUAL(ask(request), 206);
        reply_is(206, "01", "bytes 0-1/10");
        end();
}

/* On the virtual clock, so that the second of the file is the one that it is. */
static void
a_date_is_said_once_its_second_is_over(void)
{
        weir_test_begin_virtual();
        begin_at(serve_file);
        CU_ASSERT_EQUAL(weir_clock_set_wall(WEIR_SEC(WHEN)), 0);
        get("/file.txt");
        field_is("Last-Modified", NULL);
        CU_ASSERT_EQUAL(ask(WITH("If-Modified-Since: " DATE)), 200);
        CU_ASSERT_EQUAL(weir_clock_set_wall(WEIR_SEC(WHEN) + WEIR_MSEC(999)), 0);
        get("/file.txt");
        field_is("Last-Modified", NULL);
        ask(WITH("Range: bytes=2-4\r\nIf-Range: " DATE));
        reply_is(200, TEXT, NULL);
        CU_ASSERT_EQUAL(weir_clock_set_wall(WEIR_SEC(WHEN + 1)), 0);
        get("/file.txt");
        field_is("Last-Modified", DATE);
        CU_ASSERT_EQUAL(ask(WITH("If-Modified-Since: " DATE)), 304);
        end();
}

static void
other_methods_are_405(void)
{
        begin();
        CU_ASSERT_EQUAL(ask("POST /file.txt HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\nx"), 405);
        CU_ASSERT_EQUAL(at.result, -EOPNOTSUPP);
        field_is("Allow", "GET, HEAD");
        reply_is(405, "405 Method Not Allowed\n", NULL);
        CU_ASSERT_EQUAL(ask("DELETE /nothing HTTP/1.1\r\nHost: a\r\n\r\n"), 405);
        CU_ASSERT_EQUAL(ask("OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n"), 405);
        answers("/file.txt", 200, 0);
        end();
}

/* -- handlers -- */

/* Each that may be said of a file. */
static void
set_all_fields(weir_task *exchange)
{
        static const char *const names[] = {"Content-Type", "ETag", "Last-Modified", "Accept-Ranges", "Content-Range"};

        for (unsigned i = 0; i < sizeof names / sizeof *names; i++) {
                weir_http_reply_set_header(exchange, names[i], "own");
        }
}

/* One function for each way that a query can name.  The result is that of the last weir_http_reply_file, unless a comment says
 * something else. */

static void
reply_file(weir_task *exchange, const char *path)
{
        at.result = weir_http_reply_file(exchange, root, path);
}

static void
push_write(weir_task *exchange)
{
        weir_series_push(weir_series_of(exchange), weir_http_write_new(exchange, "written", 7, NULL, NULL));
}

static void
fall_back(weir_task *exchange, const char *path)
{
        reply_file(exchange, path);
        if (at.result == -ENOENT) {
                reply_file(exchange, "index.html");
        }
}

static void
fall_back_typed(weir_task *exchange, const char *path)
{
        reply_file(exchange, path);
        weir_http_reply_set_header(exchange, "Content-Type", "a/b");
        reply_file(exchange, "index.html");
}

static void
reply_text(weir_task *exchange, const char *path)
{
        reply_file(exchange, path);
        weir_http_reply_text(exchange, 201, "instead");
        CU_ASSERT_FALSE(weir__exchange_of(exchange)->file);
}

static void
reply_twice(weir_task *exchange, const char *path)
{
        reply_file(exchange, "large.bin");
        reply_file(exchange, path);
}

static void
set_status(weir_task *exchange, const char *path)
{
        reply_file(exchange, path);
        weir_http_reply_status(exchange, 404);
}

static void
set_same_status(weir_task *exchange, const char *path)
{
        reply_file(exchange, path);
        weir_http_reply_status(exchange, 200);
}

static void
set_field_and_status(weir_task *exchange, const char *path)
{
        weir_http_reply_set_header(exchange, "X-Own", "stays");
        reply_file(exchange, path);
        weir_http_reply_status(exchange, 410);
}

static void
set_type_and_status(weir_task *exchange, const char *path)
{
        weir_http_reply_set_header(exchange, "Content-Type", "a/b");
        set_status(exchange, path);
}

static void
set_fields_and_status(weir_task *exchange, const char *path)
{
        reply_file(exchange, path);
        set_all_fields(exchange);
        weir_http_reply_status(exchange, 500);
}

static void
write_body(weir_task *exchange, const char *path)
{
        reply_file(exchange, path);
        push_write(exchange);
}

static void
set_status_and_write(weir_task *exchange, const char *path)
{
        set_status(exchange, path);
        push_write(exchange);
}

static void
append_and_write(weir_task *exchange, const char *path)
{
        reply_file(exchange, path);
        at.result = weir_http_reply_append(exchange, "more ", 5);
        push_write(exchange);
}

static void
send_events(weir_task *exchange, const char *path)
{
        reply_file(exchange, path);
        at.result = weir_series_push(weir_series_of(exchange), weir_http_sse_new(exchange, 0, NULL, NULL));
}

static void
upgrade(weir_task *exchange, const char *path)
{
        reply_file(exchange, path);
        at.result = weir_http_reply_upgrade(exchange, "echo");
}

static void
set_fields_and_text(weir_task *exchange, const char *path)
{
        weir_http_reply_set_header(exchange, "Cache-Control", "no-store");
        reply_file(exchange, path);
        weir_http_reply_header(exchange, "etag", "\"own\"");
        weir_http_reply_set_header(exchange, "Content-Type", "text/html");
        weir_http_reply_text(exchange, 200, "<p>own");
}

static void
reply_then_nothing(weir_task *exchange, const char *path)
{
        reply_file(exchange, path);
        reply_file(exchange, "nothing");
}

static void
reply_without_root(weir_task *exchange, const char *path)
{
        at.result = weir_http_reply_file(exchange, NULL, path);
}

static void
reply_without_path(weir_task *exchange, const char *path)
{
        (void)path;
        reply_file(exchange, NULL);
}

static const struct way {
        const char *query;
        void (*reply)(weir_task *exchange, const char *path);
} ways[] = {
        {"fallback", fall_back},
        {"typed-fallback", fall_back_typed},
        {"text", reply_text},
        {"twice", reply_twice},
        {"status", set_status},
        {"same-status", set_same_status},
        {"own-field", set_field_and_status},
        {"typed-status", set_type_and_status},
        {"own-fields", set_fields_and_status},
        {"write", write_body},
        {"status-write", set_status_and_write},
        {"append-write", append_and_write},
        {"events", send_events},
        {"upgrade", upgrade},
        {"own-text", set_fields_and_text},
        {"then-nothing", reply_then_nothing},
        {"no-root", reply_without_root},
        {"no-path", reply_without_path},
};

/* The query says what; a number: that is said as the length of the reply, which is the file. */
static void
handle_in_its_own_way(weir_task *exchange, void *context)
{
        const char *query = weir_http_query(exchange), *path = weir_http_path(exchange);

        (void)context;
        for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
                if (strcmp(query, ways[i].query) == 0) {
                        ways[i].reply(exchange, path);
                        return;
                }
        }
        if (atoi(query) > 0) {
                weir_http_reply_length(exchange, (uint64_t)atoi(query));
                reply_file(exchange, path);
        }
}

static void
a_handler_may_set_the_type(void)
{
        begin();
        at.type = "text/x-own";
        answers("/file.txt", 200, 0);
        field_is("Content-Type", "text/x-own");
        answers("/nothing", 404, -ENOENT); /* which is not of that type */
        field_is("Content-Type", "text/plain; charset=utf-8");
        CU_ASSERT_EQUAL(ask(WITH("Range: bytes=1-1")), 206);
        field_is("Content-Type", "text/x-own");
        end();
}

static void
a_handler_may_reply_with_another_file_or_text_after_all(void)
{
        begin_with(handle_in_its_own_way);
        get("/?"); /* the connection is accepted */
        unsigned before = http_open_descriptors();
        answers("/nothing?fallback", 200, 0);
        reply_is(200, "<p>root", NULL);
        field_is("Content-Type", "text/html; charset=utf-8");
        answers("/sub/file.css?fallback", 200, 0);
        field_is("Content-Type", "text/css; charset=utf-8");
        answers("/nothing?typed-fallback", 200, 0);
        field_is("Content-Type", "a/b");
        answers("/file.txt?text", 201, 0);
        reply_is(201, "instead", NULL);
        answers("/sub/file.css?twice", 200, 0);
        reply_is(200, "p {}", NULL);
        field_is("Content-Type", "text/css; charset=utf-8");
        CU_ASSERT_EQUAL(http_field_count(&at.reply, "ETag"), 1);
        answers("/file.txt?status", 404, 0);
        reply_is(404, TEXT, NULL);
        get("/?");
        CU_ASSERT_EQUAL(http_open_descriptors(), before);
        end();
}

#define ASKING(target) "GET " target " HTTP/1.1\r\nHost: a\r\nRange: bytes=2-4\r\n\r\n"

/* Nothing of what is said of files, and of those that cannot be had. */
static void
no_field_is_of_a_file(void)
{
        static const char *const names[] = {"ETag", "Last-Modified", "Accept-Ranges", "Content-Range", "Location", "Allow"};

        for (unsigned i = 0; i < sizeof names / sizeof *names; i++) {
                field_is(names[i], NULL);
        }
}

static void
the_fields_of_a_file_go_when_the_reply_becomes_another_one(void)
{
        begin_with(handle_in_its_own_way);
        ask(ASKING("/sub/file.css?text"));
        reply_is(201, "instead", NULL);
        no_field_is_of_a_file();
        field_is("Content-Type", "text/plain; charset=utf-8");
        ask("GET /sub/file.css?text HTTP/1.1\r\nHost: a\r\nRange: bytes=9-\r\n\r\n"); /* 416 */
        no_field_is_of_a_file();
        answers("/sub?text", 201, -EISDIR); /* 301 */
        no_field_is_of_a_file();
        ask("POST /file.txt?text HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n"); /* 405 */
        reply_is(201, "instead", NULL);
        no_field_is_of_a_file();
        ask(ASKING("/file.txt?then-nothing"));
        reply_is(404, "404 Not Found\n", NULL);
        no_field_is_of_a_file();
        ask(ASKING("/sub/file.css?write"));
        reply_is(200, "written", NULL);
        no_field_is_of_a_file();
        field_is("Content-Type", NULL);
        end();
}

/* With that page for 404, which is HTML. */
static void
begin_with_page(weir_task_fn *handler, const char *page)
{
        weir_test_begin_real(1);
        put_files();
        at.root = root;
        at.path = at.type = NULL;
        at.server = weir_http_server_new(NULL, handler, NULL);
        CU_ASSERT_EQUAL(weir_http_server_set_error(at.server, 404, "text/html", page, strlen(page)), 0);
        CU_ASSERT_EQUAL_FATAL(weir_http_server_start(at.server, "127.0.0.1:0"), 0);
        http_open(&at.client, weir_http_server_port(at.server));
}

static void
a_file_that_cannot_be_sent_has_the_page_that_was_set(void)
{
        begin_with_page(serve_file, "<p>not here");
        answers("/nothing", 404, -ENOENT);
        reply_is(404, "<p>not here", NULL);
        field_is("Content-Type", "text/html");
        field_is("X-Own", "stays");
        answers("/fifo", 403, -EINVAL);
        reply_is(403, "403 Forbidden\n", NULL);
        end();
}

static void
the_page_is_empty(void)
{
        reply_is(404, "", NULL);
        field_is("Content-Type", "text/html");
        field_is("Content-Length", "0");
}

static void
a_page_of_no_bytes_is_sent_as_it_was_set(void)
{
        begin_with_page(serve_file, "");
        answers("/nothing", 404, -ENOENT);
        the_page_is_empty();
        field_is("X-Own", "stays");
        CU_ASSERT_EQUAL(ask("HEAD /nothing HTTP/1.1\r\nHost: a\r\n\r\n"), 404);
        the_page_is_empty();
        answers("/file.txt", 200, 0);
        reply_is(200, TEXT, NULL);
        end();
}

/* Nothing in the body does not mean that there is no page. */
static void
a_page_of_no_bytes_goes_and_comes_with_another_status(void)
{
        begin_with_page(handle_in_its_own_way, "");
        answers("/nothing?own-field", 410, -ENOENT);
        reply_is(410, "410 Gone\n", NULL);
        field_is("Content-Type", "text/plain; charset=utf-8");
        field_is("Content-Length", "9");
        field_is("X-Own", "stays");
        answers("/nothing?status", 404, -ENOENT);
        the_page_is_empty();
        answers("/fifo?status", 404, -EINVAL); /* it was 403 */
        the_page_is_empty();
        answers("/nothing?write", 200, -ENOENT);
        reply_is(200, "written", NULL);
        field_is("Content-Type", NULL);
        end();
}

static void
the_handlers_own_fields_stay_whatever_the_reply_becomes(void)
{
        begin_with(handle_in_its_own_way);
        ask(ASKING("/index.html?own-text"));
        reply_is(200, "<p>own", NULL);
        field_is("ETag", "\"own\""); /* and not the file's beside it */
        field_is("Content-Type", "text/html");
        field_is("Cache-Control", "no-store");
        field_is("Last-Modified", NULL);
        end();
}

static void
a_file_with_another_status_is_whole(void)
{
        begin_with(handle_in_its_own_way);
        ask(ASKING("/sub/file.css?status"));
        reply_is(404, "p {}", NULL);
        no_field_is_of_a_file();
        field_is("Content-Type", "text/css; charset=utf-8");
        ask(ASKING("/file.txt?same-status")); /* it would be 206 */
        reply_is(200, TEXT, NULL);
        get("/file.txt?same-status");
        reply_is(200, TEXT, NULL);
        CU_ASSERT_EQUAL(http_field_count(&at.reply, "ETag"), 1); /* nothing has changed */
        field_is("Last-Modified", DATE);
        end();
}

#define CONDITIONS 4

/* Asks for it in a way that makes another reply of the file than a 200. */
static int
ask_conditionally(const char *target, unsigned condition, const char *more)
{
        static const char *const fields[CONDITIONS] = {"If-None-Match: *", ("If-Modified-Since: " LATER), "Range: bytes=50-",
                                                       "If-Match: \"x\""};
        char request[256];

        snprintf(request, sizeof request, "GET %s HTTP/1.1\r\nHost: a\r\n%s\r\n%s\r\n", target, fields[condition], more);
        return ask(request);
}

static void
a_file_with_another_status_is_sent_whatever_was_asked_for(void)
{
        begin_with(handle_in_its_own_way);
        for (unsigned i = 0; i < CONDITIONS; i++) {
                ask_conditionally("/sub/file.css?status", i, "");
                reply_is(404, "p {}", NULL);
                no_field_is_of_a_file();
                field_is("Content-Type", "text/css; charset=utf-8");
                field_is("Content-Length", "4");
                ask_conditionally("/file.txt?typed-status", i, "");
                reply_is(404, TEXT, NULL);
                field_is("Content-Type", "a/b");
                ask_conditionally("/file.txt?same-status", i, "");
                reply_is(200, TEXT, NULL);
                ask_conditionally("/file.txt?own-fields", i, "");
                reply_is(500, TEXT, "own");
                ask_conditionally("/file.txt?10", i, ""); /* nothing else has changed */
                CU_ASSERT_EQUAL(at.reply.status, i < 2 ? 304 : i == 2 ? 416 : 412);
                field_is("Content-Length", i < 2 ? NULL : i == 2 ? "26" : "24");
        }
        ask(ASKING("/file.txt?own-fields"));
        reply_is(500, TEXT, "own");
        end();
}

static void
written_bytes_replace_a_file_whatever_was_asked_for(void)
{
        begin_with(handle_in_its_own_way);
        for (unsigned i = 0; i < CONDITIONS; i++) {
                ask_conditionally("/file.txt?write", i, "");
                reply_is(200, "written", NULL);
                no_field_is_of_a_file();
                field_is("Content-Type", NULL);
                ask_conditionally("/file.txt?status-write", i, "");
                reply_is(404, "written", NULL);
                no_field_is_of_a_file();
                CU_ASSERT_EQUAL(ask_conditionally("/file.txt?append-write", i, ""), 200);
                CU_ASSERT_EQUAL(at.result, -EALREADY);
                HTTP_ASSERT_TEXT(at.reply.body, "written");
                ask_conditionally("/file.txt?text", i, "");
                reply_is(201, "instead", NULL);
                no_field_is_of_a_file();
                ask_conditionally("/file.txt?events", i, "");
                CU_ASSERT_EQUAL(at.result, -EINVAL);
                CU_ASSERT_EQUAL(ask_conditionally("/file.txt?upgrade", i, "Connection: upgrade\r\nUpgrade: echo\r\n"), 101);
                no_field_is_of_a_file();
                http_close(&at.client);
                http_open(&at.client, weir_http_server_port(at.server));
        }
        end();
}

static void
written_bytes_replace_an_error_too(void)
{
        begin_with(handle_in_its_own_way);
        answers("/nothing?write", 200, -ENOENT);
        reply_is(200, "written", NULL);
        field_is("Content-Type", NULL);
        answers("/sub?write", 200, -EISDIR);
        reply_is(200, "written", NULL);
        no_field_is_of_a_file();
        answers("/nothing?append-write", 200, 0);
        reply_is(200, "more written", NULL);
        answers("/nothing?status-write", 404, -ENOENT); /* which the handler has said, too */
        reply_is(404, "written", NULL);
        end();
}

static void
an_error_in_place_of_a_file_is_that_of_another_status(void)
{
        begin_with(handle_in_its_own_way);
        answers("/sub?status", 404, -EISDIR);
        reply_is(404, "404 Not Found\n", NULL);
        no_field_is_of_a_file();
        ask("POST /file.txt?status HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n");
        reply_is(404, "404 Not Found\n", NULL);
        no_field_is_of_a_file();
        field_is("Content-Type", "text/plain; charset=utf-8");
        end();
}

static void
a_length_that_was_said_must_be_that_of_the_file(void)
{
        begin_with(handle_in_its_own_way);
        answers("/file.txt?10", 200, 0);
        reply_is(200, TEXT, NULL);
        ask(ASKING("/file.txt?10"));
        reply_is(206, "234", "bytes 2-4/10");
        field_is("Content-Length", "3");
        CU_ASSERT_EQUAL(ask("HEAD /file.txt?10 HTTP/1.1\r\nHost: a\r\n\r\n"), 200);
        field_is("Content-Length", "10");
        answers("/file.txt?3", 500, 0);
        CU_ASSERT_EQUAL(ask(ASKING("/file.txt?3")), 500);
        CU_ASSERT_EQUAL(ask("HEAD /file.txt?3 HTTP/1.1\r\nHost: a\r\n\r\n"), 500);
        CU_ASSERT_EQUAL(ask("HEAD /empty?3 HTTP/1.1\r\nHost: a\r\n\r\n"), 500);
        answers("/nothing?10", 404, -ENOENT);
        end();
}

static void
a_null_argument_is_a_500(void)
{
        begin_with(handle_in_its_own_way);
        answers("/file.txt?no-root", 500, -EINVAL);
        answers("/file.txt?no-path", 500, -EINVAL);
        weir_task *timer = weir_timer_new(0, NULL, NULL);
        CU_ASSERT_EQUAL(weir_http_reply_file(timer, root, "file.txt"), -EDOM);
        CU_ASSERT_EQUAL(weir_http_reply_file(NULL, root, "file.txt"), -EDOM);
        weir_task_dismiss(timer);
        end();
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(a_file_is_sent_with_what_is_to_be_said_of_it),
                WEIR_TEST(a_large_file_arrives_whole_and_in_parts),
                WEIR_TEST(head_has_the_fields_of_get),
                WEIR_TEST(one_range_is_heeded),
                WEIR_TEST(if_range_protects_from_another_file),
                WEIR_TEST(conditions_are_heeded),
                WEIR_TEST(a_date_is_said_once_its_second_is_over),
                WEIR_TEST(other_methods_are_405),
                WEIR_TEST(a_handler_may_set_the_type),
                WEIR_TEST(a_handler_may_reply_with_another_file_or_text_after_all),
                WEIR_TEST(the_fields_of_a_file_go_when_the_reply_becomes_another_one),
                WEIR_TEST(a_file_that_cannot_be_sent_has_the_page_that_was_set),
                WEIR_TEST(a_page_of_no_bytes_is_sent_as_it_was_set),
                WEIR_TEST(a_page_of_no_bytes_goes_and_comes_with_another_status),
                WEIR_TEST(the_handlers_own_fields_stay_whatever_the_reply_becomes),
                WEIR_TEST(a_file_with_another_status_is_whole),
                WEIR_TEST(a_file_with_another_status_is_sent_whatever_was_asked_for),
                WEIR_TEST(written_bytes_replace_a_file_whatever_was_asked_for),
                WEIR_TEST(written_bytes_replace_an_error_too),
                WEIR_TEST(an_error_in_place_of_a_file_is_that_of_another_status),
                WEIR_TEST(a_length_that_was_said_must_be_that_of_the_file),
                WEIR_TEST(a_null_argument_is_a_500),
        };

        return weir_test_main("file", tests, sizeof tests / sizeof *tests);
}
