/* test/fields_test.c: how a handler reads query, form, cookies and addresses, over real sockets.
 *
 * The linker puts the functions below in front of the allocator (test/CMakeLists.txt), so that a test can refuse the memory that
 * a call of a handler needs. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "test/fixture.h"
#include "test/http_client.h"

#define GET(target, fields) "GET " target " HTTP/1.1\r\nHost: a\r\n" fields "\r\n"

/* -- the allocator -- */

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);

static _Thread_local int refused_after = -1; /* allocations; below 0: none is refused */

static bool
refuse(void)
{
        return refused_after >= 0 && refused_after-- == 0;
}

void *
__wrap_malloc(size_t size)
{
        return refuse() ? NULL : __real_malloc(size);
}

void *
__wrap_calloc(size_t count, size_t size)
{
        return refuse() ? NULL : __real_calloc(count, size);
}

/* -- one server for each test -- */

static struct {
        weir_http_server *server;
        struct http_client client;
        struct http_reply reply;
} at;

static void
begin_with(const struct weir_http_server_config *config, weir_task_fn *handler, void *context)
{
        at.server = http_server(config, handler, context);
        http_open(&at.client, weir_http_server_port(at.server));
}

static void
begin(weir_task_fn *handler, void *context)
{
        begin_with(NULL, handler, context);
}

static void
end(void)
{
        http_close(&at.client);
        http_reply_done(&at.reply);
        weir_http_server_free(at.server);
}

static void
assert_answer(const char *request, const char *body)
{
        CU_ASSERT_TRUE(http_ask(&at.client, request, &at.reply));
        CU_ASSERT_EQUAL(at.reply.status, 200);
        HTTP_ASSERT_TEXT(at.reply.body, body);
}

static void
say(weir_task *exchange, const char *text)
{
        CU_ASSERT_EQUAL(weir_http_reply_append(exchange, text ? text : "(null)", text ? strlen(text) : 6), 0);
}

/* -- lists -- */

typedef int at_fn(const weir_task *exchange, size_t index, const char **name, const char **value);
typedef const char *value_fn(const weir_task *exchange, const char *name);

struct questions {
        at_fn *at;
        value_fn *value;
};

static const struct questions query = {weir_http_query_at, weir_http_query_value};
static const struct questions form = {weir_http_form_at, weir_http_form_value};
static const struct questions cookies = {weir_http_cookie_at, weir_http_cookie};

/* Replies <name|value> for each pair, what came after the last, and the value of "a". */
static void
answer(weir_task *exchange, void *context)
{
        const struct questions *ask = context;
        const char *name, *value;
        size_t i = 0;
        int r;

        while ((r = ask->at(exchange, i, &name, &value)) == 0 && i++ < 4) {
                say(exchange, "<");
                say(exchange, name);
                say(exchange, "|");
                say(exchange, value);
                say(exchange, ">");
        }
        while (r == 0) {
                r = ask->at(exchange, i++, NULL, NULL);
        }
        say(exchange, r == -ENOENT ? " end " : r == -E2BIG ? " more " : " wrong ");
        say(exchange, ask->value(exchange, "a"));
        CU_ASSERT_PTR_NULL(ask->value(exchange, NULL));
        CU_ASSERT_PTR_EQUAL(ask->value(exchange, "a"), ask->value(exchange, "a")); /* read once */
}

static void
a_query_is_told_in_pairs(void)
{
        begin(answer, (void *)&query);
        assert_answer(GET("/?b=%C3%A4+&a=1&a=2", ""), "<b|\xc3\xa4 ><a|1><a|2> end 1");
        assert_answer(GET("/?", ""), " end (null)");
        assert_answer(GET("/", ""), " end (null)");
        assert_answer(GET("http://b?a", ""), "<a|> end ");
        assert_answer(GET("/?a=%00&b=1%00&c", ""), "<c|> end (null)");
        end();
}

#define POST(type, size, body) "POST /?q=1 HTTP/1.1\r\nHost: a\r\n" type "Content-Length: " #size "\r\n\r\n" body
#define FORM                   "content-type: application/x-www-form-urlencoded\r\n"

static void
a_form_is_told_when_the_type_says_it_is_one(void)
{
        begin(answer, (void *)&form);
        assert_answer(POST(FORM, 7, "a=1+2&b"), "<a|1 2><b|> end 1 2");
        assert_answer(POST("Content-Type: Application/X-www-form-urlencoded ; charset=utf-8\r\n", 3, "a=1"), "<a|1> end 1");
        assert_answer(POST("", 3, "a=1"), " end (null)");
        assert_answer(POST("Content-Type: text/plain\r\n", 3, "a=1"), " end (null)");
        assert_answer(POST("Content-Type: text/plain\r\n" FORM, 3, "a=1"), " end (null)");
        assert_answer(POST(FORM, 0, ""), " end (null)");
        assert_answer(GET("/?a=1", FORM), " end (null)");
        end();
}

static void
cookies_are_told_of_all_lines(void)
{
        begin(answer, (void *)&cookies);
        assert_answer(GET("/", "Cookie: b=1; a=\"2\"\r\nX: y\r\ncookie: c=3;a=4\r\n"), "<b|1><a|2><c|3><a|4> end 2");
        assert_answer(GET("/", "Cookie: a\r\n"), " end (null)");
        assert_answer(GET("/", "Cookies: a=1\r\n"), " end (null)");
        end();
}

/* The target of a request, with that many pairs. */
static const char *
request_with(size_t count)
{
        static char text[8000];

        strcpy(text, "GET /?");
        for (size_t i = 0; i < count; i++) {
                strcat(text, "b&");
        }
        return strcat(text, " HTTP/1.1\r\nHost: a\r\n\r\n");
}

static void
a_thousand_pairs_are_read_unless_the_config_says_else(void)
{
        struct weir_http_server_config config = WEIR_HTTP_SERVER_CONFIG_DEFAULT;

        begin(answer, (void *)&query);
        assert_answer(request_with(1000), "<b|><b|><b|><b|> end (null)");
        assert_answer(request_with(1001), "<b|><b|><b|><b|> more (null)");
        end();
        config.max_pairs = 2;
        begin_with(&config, answer, (void *)&cookies);
        assert_answer(GET("/", "Cookie: a=1; b=2\r\n"), "<a|1><b|2> end 1");
        assert_answer(GET("/", "Cookie: c=1; b=2; a=3\r\n"), "<c|1><b|2> more (null)");
        end();
        config.max_pairs = SIZE_MAX;
        begin_with(&config, answer, (void *)&query);
        assert_answer(request_with(3000), "<b|><b|><b|><b|> end (null)");
        end();
}

/* The answers of a later callback are those of the handler: they are kept. */
static void
tell_again(weir_task *task, void *context)
{
        const char *const *first = context;
        weir_task *exchange = (weir_task *)first[3];

        (void)task;
        CU_ASSERT_PTR_EQUAL(weir_http_query_value(exchange, "a"), first[0]);
        CU_ASSERT_PTR_EQUAL(weir_http_cookie(exchange, "a"), first[1]);
        CU_ASSERT_PTR_EQUAL(weir_http_client_address(exchange), first[2]);
        say(exchange, first[0]);
        say(exchange, first[1]);
        say(exchange, first[2]);
}

static void
tell_later(weir_task *exchange, void *context)
{
        const char **first = context;

        first[0] = weir_http_query_value(exchange, "a");
        first[1] = weir_http_cookie(exchange, "a");
        first[2] = weir_http_client_address(exchange);
        first[3] = (const char *)exchange;
        weir_series_push(weir_series_of(exchange), weir_timer_new(WEIR_MSEC(1), tell_again, context));
}

static void
answers_last_as_long_as_the_exchange(void)
{
        const char *first[4];

        begin(tell_later, first);
        assert_answer(GET("/?a=1", "Cookie: a=2\r\n"), "12127.0.0.1");
        end();
}

/* -- the examples of docs/http-server.md -- */

static void
on_colours(weir_task *exchange, void *context)
{
        const char *name, *value;
        int failed;

        (void)context;
        for (size_t i = 0; !(failed = weir_http_query_at(exchange, i, &name, &value)); i++) {
                if (strcmp(name, "colour") == 0) {
                        weir_http_reply_append(exchange, value, strlen(value));
                        weir_http_reply_append(exchange, "\n", 1);
                }
        }
        if (failed == -E2BIG) {
                weir_http_reply_text(exchange, 400, "too many colours\n");
        }
}

static void
on_login(weir_task *exchange, void *context)
{
        struct weir_http_cookie cookie = WEIR_HTTP_COOKIE_DEFAULT;
        const char *user = weir_http_form_value(exchange, "user");

        (void)context;
        if (!user) {
                weir_http_reply_text(exchange, 400, "who are you?\n");
                return;
        }
        cookie.name = "__Host-session";
        cookie.value = "9f86d081884c7d65";
        cookie.max_age = WEIR_SEC(3600);
        cookie.secure = 1;
        cookie.http_only = 1;
        weir_http_reply_cookie(exchange, &cookie);
        weir_http_reply_text(exchange, 200, "welcome\n");
}

static void
on_logout(weir_task *exchange, void *context)
{
        struct weir_http_cookie cookie = WEIR_HTTP_COOKIE_DEFAULT;

        (void)context;
        cookie.name = "__Host-session";
        cookie.max_age = -1;
        cookie.secure = 1; /* which the name promises, also now */
        weir_http_reply_cookie(exchange, &cookie);
        weir_http_reply_text(exchange, 200, "good bye\n");
}

static void
the_guide_s_colours_are_listed(void)
{
        begin(on_colours, NULL);
        assert_answer(GET("/?colour=red&size=9&colour=dark+green", ""), "red\ndark green\n");
        CU_ASSERT_TRUE(http_ask(&at.client, request_with(1001), &at.reply));
        CU_ASSERT_EQUAL(at.reply.status, 400);
        end();
}

static void
the_guide_s_session_comes_and_goes(void)
{
        begin(on_login, NULL);
        assert_answer(POST(FORM, 8, "user=ann"), "welcome\n");
        HTTP_ASSERT_TEXT(http_field(&at.reply, "Set-Cookie"),
                         "__Host-session=9f86d081884c7d65; Path=/; Max-Age=3600; SameSite=Lax; Secure; HttpOnly");
        CU_ASSERT_TRUE(http_ask(&at.client, POST("", 8, "user=ann"), &at.reply));
        CU_ASSERT_EQUAL(at.reply.status, 400);
        end();
        begin(on_logout, NULL);
        assert_answer(GET("/", ""), "good bye\n");
        HTTP_ASSERT_TEXT(http_field(&at.reply, "Set-Cookie"),
                         "__Host-session=; Path=/; Expires=Thu, 01 Jan 1970 00:00:00 GMT; SameSite=Lax; Secure");
        end();
}

/* -- cookies that are set -- */

static void
set_cookies(weir_task *exchange, void *context)
{
        struct weir_http_cookie cookie = WEIR_HTTP_COOKIE_DEFAULT;
        struct {
                struct weir_http_cookie known;
                uint64_t more;
        } newer = {WEIR_HTTP_COOKIE_DEFAULT, 0};

        (void)context;
        CU_ASSERT_EQUAL(weir_http_reply_cookie(exchange, &cookie), -EINVAL);
        cookie.name = "a";
        cookie.value = "1\r\nX: y";
        CU_ASSERT_EQUAL(weir_http_reply_cookie(exchange, &cookie), -EINVAL);
        cookie.value = "1";
        CU_ASSERT_EQUAL(weir_http_reply_cookie(exchange, &cookie), 0);
        cookie.name = "__Host-b";
        CU_ASSERT_EQUAL(weir_http_reply_cookie(exchange, &cookie), -EINVAL);
        cookie.secure = 1;
        CU_ASSERT_EQUAL(weir_http_reply_cookie(exchange, &cookie), 0);
        CU_ASSERT_EQUAL(weir_http_reply_cookie(exchange, NULL), -EINVAL);
        cookie.size = 0;
        CU_ASSERT_EQUAL(weir_http_reply_cookie(exchange, &cookie), -EINVAL);
        cookie.size = offsetof(struct weir_http_cookie, path); /* of a program that knows name and value only */
        cookie.name = "c";
        CU_ASSERT_EQUAL(weir_http_reply_cookie(exchange, &cookie), 0);
        newer.known.size = sizeof newer;
        newer.known.name = "d";
        CU_ASSERT_EQUAL(weir_http_reply_cookie(exchange, &newer.known), 0);
        newer.more = 1;
        CU_ASSERT_EQUAL(weir_http_reply_cookie(exchange, &newer.known), -EINVAL);
}

static void
a_reply_may_set_several_cookies(void)
{
        begin(set_cookies, NULL);
        assert_answer(GET("/", ""), "");
        CU_ASSERT_EQUAL(http_field_count(&at.reply, "Set-Cookie"), 4);
        CU_ASSERT_PTR_NOT_NULL(strstr(at.reply.head, "\r\nSet-Cookie: a=1; Path=/; SameSite=Lax\r\n"));
        CU_ASSERT_PTR_NOT_NULL(strstr(at.reply.head, "\r\nSet-Cookie: __Host-b=1; Path=/; SameSite=Lax; Secure\r\n"));
        CU_ASSERT_PTR_NOT_NULL(strstr(at.reply.head, "\r\nSet-Cookie: c=1; Path=/; SameSite=Lax\r\n"));
        CU_ASSERT_PTR_NOT_NULL(strstr(at.reply.head, "\r\nSet-Cookie: d=; Path=/; SameSite=Lax\r\n"));
        CU_ASSERT_EQUAL(http_field_count(&at.reply, "X"), 0);
        end();
}

/* -- addresses -- */

static void
tell_addresses(weir_task *exchange, void *context)
{
        (void)context;
        say(exchange, weir_http_client_address(exchange));
        say(exchange, " ");
        say(exchange, weir_http_peer_address(exchange));
        CU_ASSERT_PTR_EQUAL(weir_http_peer_address(exchange), weir_http_peer_address(exchange));
}

/* Returns the text with which the server must describe this client. */
static const char *
expected(const char *client, int fd)
{
        static char text[100];
        struct sockaddr_in6 own;
        socklen_t size = sizeof own;

        CU_ASSERT_EQUAL_FATAL(getsockname(fd, (struct sockaddr *)&own, &size), 0);
        snprintf(text, sizeof text, own.sin6_family == AF_INET6 ? "%s [::1]:%u" : "%s 127.0.0.1:%u", client,
                 ntohs(own.sin6_port));
        return text;
}

#define XFF "X-Forwarded-For: 6.6.6.6, 192.0.2.1, 10.0.0.1\r\nForwarded: for=203.0.113.9\r\n"

static void
the_peer_is_the_client_unless_it_is_trusted(void)
{
        struct weir_http_server_config config = WEIR_HTTP_SERVER_CONFIG_DEFAULT;
        char list[] = "10.0.0.0/8, 127.0.0.0/8", field[] = "forwarded";

        begin(tell_addresses, NULL);
        assert_answer(GET("/", XFF), expected("127.0.0.1", at.client.fd));
        assert_answer(GET("/", ""), expected("127.0.0.1", at.client.fd));
        end();
        config.trusted_proxies = list;
        begin_with(&config, tell_addresses, NULL);
        memset(list, 'x', sizeof list - 1); /* the server has its own copy */
        assert_answer(GET("/", XFF), expected("192.0.2.1", at.client.fd));
        assert_answer(GET("/", ""), expected("127.0.0.1", at.client.fd));
        end();
        config.trusted_proxies = "127.0.0.1, ::1, 10.0.0.0/8, unix:";
        begin_with(&config, tell_addresses, NULL);
        assert_answer(GET("/", XFF), expected("192.0.2.1", at.client.fd));
        end();
        config.forwarded_field = field;
        begin_with(&config, tell_addresses, NULL);
        memset(field, 'x', sizeof field - 1);
        assert_answer(GET("/", XFF), expected("203.0.113.9", at.client.fd));
        end();
        config.forwarded_field = "X-Real-IP";
        begin_with(&config, tell_addresses, NULL);
        assert_answer(GET("/", XFF "X-Real-IP: 2001:db8::1\r\n"), expected("2001:db8::1", at.client.fd));
        end();
}

static void
an_ipv6_peer_is_shown_in_brackets(void)
{
        struct sockaddr_in6 address = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};

        at.server = weir_http_server_new(NULL, tell_addresses, NULL);
        if (weir_http_server_start(at.server, "[::1]:0") == 0) { /* else this machine has no IPv6 */
                at.client = (struct http_client){.fd = socket(AF_INET6, SOCK_STREAM, 0)};
                address.sin6_port = htons((uint16_t)weir_http_server_port(at.server));
                CU_ASSERT_EQUAL_FATAL(connect(at.client.fd, (struct sockaddr *)&address, sizeof address), 0);
                assert_answer(GET("/", ""), expected("::1", at.client.fd));
                http_close(&at.client);
        }
        http_reply_done(&at.reply);
        weir_http_server_free(at.server);
}

static char heard[600];

static void
hear(enum weir_log_level level, const char *message, void *context)
{
        (void)context;
        snprintf(heard, sizeof heard, "%d %s", (int)level, message);
}

static void
assert_refused(const char *list, const char *field, const char *message)
{
        struct weir_http_server_config config = WEIR_HTTP_SERVER_CONFIG_DEFAULT;

        heard[0] = '\0';
        config.trusted_proxies = list;
        config.forwarded_field = field;
        weir_log_set(hear, NULL);
        weir_http_server_free(weir_http_server_new(&config, tell_addresses, NULL));
        weir_log_set(NULL, NULL);
        HTTP_ASSERT_TEXT(heard, message);
}

static void
a_wrong_list_of_proxies_is_in_the_log_with_what_was_expected(void)
{
        static const char wrong[] = "expected addresses, networks and \"unix:\", as in \"127.0.0.1, 10.0.0.0/8, ::1\"";
        static const char behind[] = "expected no bit set behind the prefix of the network, as in 10.0.0.0/8";
        char message[300];

        snprintf(message, sizeof message, "0 weir_http_server_new: trusted_proxies: \"10.0.0.1/8\": %s", behind);
        assert_refused("10.0.0.1/8", NULL, message);
        snprintf(message, sizeof message, "0 weir_http_server_new: trusted_proxies: \"fd00::1/64\": %s", behind);
        assert_refused("10.0.0.0/8, fd00::1/64, b", NULL, message);
        snprintf(message, sizeof message, "0 weir_http_server_new: trusted_proxies: \"localhost\": %s", wrong);
        assert_refused("0.0.0.0/0, localhost", "Forwarded", message);
        snprintf(message, sizeof message, "0 weir_http_server_new: trusted_proxies: \"10.0.0.1/33\": %s", wrong);
        assert_refused("10.0.0.0/8, 10.0.0.1/33", NULL, message);
        snprintf(message, sizeof message, "0 weir_http_server_new: trusted_proxies: \"unix:/0\": %s", wrong);
        assert_refused("unix:/0", NULL, message);
        assert_refused(
                NULL, "no token",
                "0 weir_http_server_new: forwarded_field: \"no token\": expected the name of a field, such as X-Forwarded-For");
        assert_refused("10.0.0.0/8,, unix:,", "X-Real-IP", "");
}

static void
a_wrong_list_of_proxies_is_reported_by_the_start(void)
{
        struct weir_http_server_config config = WEIR_HTTP_SERVER_CONFIG_DEFAULT;

        config.trusted_proxies = "10.0.0.1/8";
        at.server = weir_http_server_new(&config, tell_addresses, NULL);
        CU_ASSERT_EQUAL(weir_http_server_start(at.server, "127.0.0.1:0"), -EINVAL);
        weir_http_server_free(at.server);
        config.trusted_proxies = "10.0.0.0/8";
        config.forwarded_field = "no token";
        at.server = weir_http_server_new(&config, tell_addresses, NULL);
        CU_ASSERT_EQUAL(weir_http_server_start(at.server, "127.0.0.1:0"), -EINVAL);
        weir_http_server_free(at.server);
        config.forwarded_field = NULL;
        refused_after = 1; /* behind the server's own memory */
        at.server = weir_http_server_new(&config, tell_addresses, NULL);
        CU_ASSERT_EQUAL(refused_after, -1);
        CU_ASSERT_EQUAL(weir_http_server_start(at.server, "127.0.0.1:0"), -ENOMEM);
        weir_http_server_free(at.server);
}

/* -- without memory -- */

/* The path says which allocation of the question is refused. */
static void
ask_without_memory(weir_task *exchange, void *context)
{
        const struct questions *ask = context;
        const char *name = "untouched";
        bool spent;

        refused_after = atoi(weir_http_path(exchange) + 1);
        int r = ask->at(exchange, 0, &name, NULL);
        spent = refused_after < 0;
        refused_after = -1;
        CU_ASSERT_EQUAL(r, spent ? -ENOMEM : 0);
        CU_ASSERT_STRING_EQUAL(name, spent ? "untouched" : "a");
        HTTP_ASSERT_TEXT(ask->value(exchange, "a"), "1"); /* the next question may have more luck */
        CU_ASSERT_EQUAL(weir_http_reply_text(exchange, 200, "told"), 0);
}

static void
value_without_memory(weir_task *exchange, void *context)
{
        const struct questions *ask = context;

        refused_after = atoi(weir_http_path(exchange) + 1);
        CU_ASSERT_PTR_NULL(ask->value(exchange, "a"));
        refused_after = -1;
}

static int
status_of(const char *request)
{
        CU_ASSERT_TRUE(http_ask(&at.client, request, &at.reply));
        return at.reply.status;
}

static void
out_of_memory_is_told_and_the_reply_a_500(void)
{
        static const struct {
                const struct questions *ask;
                const char *requests[3];
        } rows[] = {
                {&query, {GET("/0?a=1", ""), GET("/1?a=1", ""), GET("/2?a=1", "")}},
                {&cookies, {GET("/0", "Cookie: a=1\r\n"), GET("/1", "Cookie: a=1\r\n"), GET("/2", "Cookie: a=1\r\n")}},
                {&form,
                 {"POST /0 HTTP/1.1\r\nHost: a\r\n" FORM "Content-Length: 3\r\n\r\na=1",
                  "POST /1 HTTP/1.1\r\nHost: a\r\n" FORM "Content-Length: 3\r\n\r\na=1",
                  "POST /2 HTTP/1.1\r\nHost: a\r\n" FORM "Content-Length: 3\r\n\r\na=1"}},
        };

        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
                begin(ask_without_memory, (void *)rows[i].ask);
                CU_ASSERT_EQUAL(status_of(rows[i].requests[0]), 500);
                CU_ASSERT_EQUAL(status_of(rows[i].requests[1]), 500);
                CU_ASSERT_EQUAL(status_of(rows[i].requests[2]), 200);
                end();
                begin(value_without_memory, (void *)rows[i].ask);
                CU_ASSERT_EQUAL(status_of(rows[i].requests[0]), 500);
                CU_ASSERT_EQUAL(status_of(rows[i].requests[1]), 500);
                end();
        }
}

static void
addresses_without_memory(weir_task *exchange, void *context)
{
        (void)context;
        refused_after = 0;
        if (weir_http_path(exchange)[1] == 'c') {
                CU_ASSERT_PTR_NULL(weir_http_client_address(exchange));
        } else {
                CU_ASSERT_PTR_NULL(weir_http_peer_address(exchange));
        }
        refused_after = -1;
}

static void
an_address_without_memory_is_a_500_too(void)
{
        begin(addresses_without_memory, NULL);
        CU_ASSERT_EQUAL(status_of(GET("/client", "")), 500);
        CU_ASSERT_EQUAL(status_of(GET("/peer", "")), 500);
        end();
}

static void
ask_all(weir_task *task, void *context)
{
        struct weir_http_cookie cookie = WEIR_HTTP_COOKIE_DEFAULT;
        const struct questions *const all[] = {&query, &form, &cookies};
        const char *name = "untouched", *value = name;

        (void)context;
        for (unsigned i = 0; i < 3; i++) {
                CU_ASSERT_PTR_NULL(all[i]->value(task, "a"));
                CU_ASSERT_EQUAL(all[i]->at(task, 0, &name, &value), -EDOM);
        }
        CU_ASSERT_STRING_EQUAL(name, "untouched");
        CU_ASSERT_STRING_EQUAL(value, "untouched");
        cookie.name = "a";
        CU_ASSERT_EQUAL(weir_http_reply_cookie(task, &cookie), -EDOM);
        CU_ASSERT_EQUAL(weir_http_reply_cookie(task, NULL), -EDOM);
        CU_ASSERT_PTR_NULL(weir_http_client_address(task));
        CU_ASSERT_PTR_NULL(weir_http_peer_address(task));
}

static void
another_kind_of_task_has_no_fields(void)
{
        CU_ASSERT_EQUAL(weir_task_run(weir_empty_new(ask_all, NULL)), 0);
        CU_ASSERT_EQUAL(weir_task_run(weir_timer_new(0, ask_all, NULL)), 0);
        ask_all(NULL, NULL);
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(a_query_is_told_in_pairs),
                WEIR_TEST(a_form_is_told_when_the_type_says_it_is_one),
                WEIR_TEST(cookies_are_told_of_all_lines),
                WEIR_TEST(a_thousand_pairs_are_read_unless_the_config_says_else),
                WEIR_TEST(answers_last_as_long_as_the_exchange),
                WEIR_TEST(the_guide_s_colours_are_listed),
                WEIR_TEST(the_guide_s_session_comes_and_goes),
                WEIR_TEST(a_reply_may_set_several_cookies),
                WEIR_TEST(the_peer_is_the_client_unless_it_is_trusted),
                WEIR_TEST(an_ipv6_peer_is_shown_in_brackets),
                WEIR_TEST(a_wrong_list_of_proxies_is_in_the_log_with_what_was_expected),
                WEIR_TEST(a_wrong_list_of_proxies_is_reported_by_the_start),
                WEIR_TEST(out_of_memory_is_told_and_the_reply_a_500),
                WEIR_TEST(an_address_without_memory_is_a_500_too),
                WEIR_TEST(another_kind_of_task_has_no_fields),
        };

        return weir_test_main("fields", tests, sizeof tests / sizeof *tests);
}
