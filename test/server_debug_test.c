/* test/server_debug_test.c: clients that may read /metrics and /debug/flows, and the page for records with any bytes in them.
 *
 * The linker puts the suite's own walk in front of the library's: it shows what a test wants, or calls that. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "factory/inspect/debug.h"
#include "server/exchange/exchange.h"
#include "test/fixture.h"
#include "test/http_client.h"

int __real_weir__debug_walk(weir__debug_record_fn *visit, void *context);
int __wrap_weir__debug_walk(weir__debug_record_fn *visit, void *context);

/* -- records -- */

static struct {
        struct weir__debug_record all[4096];
        char names[4096][32];
        unsigned count;
        bool is_real;
        int fails;
} shown;

int
__wrap_weir__debug_walk(weir__debug_record_fn *visit, void *context)
{
        if (shown.is_real) {
                return __real_weir__debug_walk(visit, context);
        }
        for (unsigned i = 0; i < shown.count; i++) {
                if (visit(&shown.all[i], context)) {
                        break;
                }
        }
        return shown.fails;
}

static struct weir__debug_record *
show(unsigned depth, const char *name, weir_nsec age)
{
        struct weir__debug_record *record = &shown.all[shown.count++];

        *record = (struct weir__debug_record){
                .section = WEIR__DEBUG_SERIES,
                .depth = depth,
                .kind = depth ? "timer" : "series",
                .name = name,
                .name_size = strlen(name),
                .age = age,
                .deadline = WEIR_FOREVER,
                .text = "",
        };
        return record;
}

/* -- a server -- */

static struct {
        weir_http_server *server;
        struct http_client client;
        struct http_reply reply;
        struct weir_http_debug_config config;
        void *context;    /* of the handler under test */
        const char *peer; /* the address that the other end seems to have; NULL: its own */
} at;

static void
handle(weir_task *exchange, void *context)
{
        (void)context;
        struct weir__peer *peer = (struct weir__peer *)&weir__exchange_of(exchange)->client->peer;
        CU_ASSERT(!at.peer || weir__peer_read(peer, at.peer, strlen(at.peer)));
        weir_http_debug(exchange, at.context);
}

static void
begin_at(const struct weir_http_server_config *config, weir_task_fn *handler)
{
        weir_test_begin_real(2);
        memset(&shown, 0, sizeof shown);
        at.peer = NULL;
        at.context = NULL;
        at.config = (struct weir_http_debug_config)WEIR_HTTP_DEBUG_CONFIG_DEFAULT;
        at.server = http_server(config, handler, NULL);
        http_open(&at.client, weir_http_server_port(at.server));
}

static void
begin_with(const struct weir_http_server_config *config)
{
        begin_at(config, handle);
}

static void
begin(void)
{
        begin_with(NULL);
}

static void
end(void)
{
        http_close(&at.client);
        http_reply_done(&at.reply);
        CU_ASSERT_EQUAL(weir_http_server_stop(at.server, WEIR_SEC(30)), 0);
        weir_http_server_free(at.server);
        weir_test_end();
}

/* The status of the reply to a request with these fields. */
static int
ask(const char *target, const char *fields)
{
        char request[1024];

        snprintf(request, sizeof request, "GET %s HTTP/1.1\r\n%s\r\n", target, fields);
        return http_ask(&at.client, request, &at.reply) ? at.reply.status : 0;
}

#define HERE "Host: localhost\r\n"

static const char *
page(const char *target)
{
        CU_ASSERT_EQUAL(ask(target, HERE), 200);
        return at.reply.body;
}

static bool
has(const char *text)
{
        return strstr(at.reply.body, text);
}

static unsigned
times(const char *text)
{
        unsigned count = 0;

        for (const char *found = at.reply.body; (found = strstr(found, text)); found++)
                count++;
        return count;
}

/* -- allowed clients -- */

static void
only_local_peers_may_read(void)
{
        static const struct {
                const char *peer;
                int status;
        } cases[] = {
                {"127.0.0.1", 200},
                {"127.255.0.9", 200},
                {"::1", 200},
                {"unix:", 200},
                {"::ffff:127.0.0.1", 200},
                {"128.0.0.1", 403},
                {"10.0.0.1", 403},
                {"192.0.2.1", 403},
                {"::2", 403},
                {"fe80::1", 403},
                {"::", 403},
                {"0.0.0.0", 403},
                {"7f00::1", 403},
                {"::ffff:10.0.0.1", 403},
                {"2001:db8::1", 403},
        };

        begin();
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
                at.peer = cases[i].peer;
                CU_ASSERT_EQUAL(ask("/metrics", HERE), cases[i].status);
                CU_ASSERT_EQUAL(ask("/debug/flows", HERE), cases[i].status);
                CU_ASSERT_EQUAL(ask("/other", HERE), cases[i].status == 200 ? 404 : 403); /* strangers learn nothing */
                if (cases[i].status == 403) {
                        HTTP_ASSERT_TEXT(at.reply.body, "403 Forbidden\n");
                }
        }
        end();
}

static void
a_request_through_a_proxy_is_refused(void)
{
        static const char *const fields[] = {
                "X-Forwarded-For: 127.0.0.1\r\n", "x-forwarded-for: \r\n", "Forwarded: for=127.0.0.1\r\n",
                "X-Real-IP: 127.0.0.1\r\n",       "Via: 1.1 proxy\r\n",
        };
        char all[256];

        begin();
        for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
                snprintf(all, sizeof all, HERE "%s", fields[i]);
                CU_ASSERT_EQUAL(ask("/metrics", all), 403);
        }
        CU_ASSERT_EQUAL(ask("/metrics", HERE), 200);
        end();
}

static void
a_request_through_a_trusted_proxy_is_refused_too(void)
{
        struct weir_http_server_config config = WEIR_HTTP_SERVER_CONFIG_DEFAULT;

        config.trusted_proxies = "127.0.0.1, unix:";
        config.forwarded_field = "X-Who";
        begin_with(&config);
        CU_ASSERT_EQUAL(ask("/metrics", HERE "X-Who: 203.0.113.5\r\n"), 403);
        CU_ASSERT_EQUAL(ask("/metrics", HERE "X-Who: unknown\r\n"), 403);
        CU_ASSERT_EQUAL(ask("/metrics", HERE "X-Who: 127.0.0.1\r\n"), 403);
        CU_ASSERT_EQUAL(ask("/metrics", HERE), 200);
        at.config.allowed = "203.0.113.0/24";
        at.context = &at.config;
        CU_ASSERT_EQUAL(ask("/metrics", HERE "X-Who: 203.0.113.5\r\n"), 200);
        CU_ASSERT_EQUAL(ask("/metrics", HERE "X-Who: 203.0.114.5\r\n"), 403);
        CU_ASSERT_EQUAL(ask("/metrics", "Host: example.org\r\nX-Who: 203.0.113.5\r\nVia: 1.1 proxy\r\n"), 200);
        end();
}

static void
a_host_that_is_not_this_machine_is_refused(void)
{
        static const struct {
                const char *host;
                int status;
        } cases[] = {
                {"localhost", 200},
                {"LocalHost:80", 200},
                {"a.localhost:1", 200},
                {"127.0.0.1:8888", 200},
                {"127.9.9.9", 200},
                {"[::1]:8888", 200},
                {"[::1]", 200},
                {"example.org", 403},
                {"notlocalhost", 403},
                {"localhost.org", 403},
                {"127.0.0.1.example.org", 403},
                {"10.0.0.1", 403},
                {"[::2]:80", 403},
                {"[fe80::1]", 403},
                {"localhos", 403},
                {"1", 403},
        };
        char fields[128];

        begin();
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
                snprintf(fields, sizeof fields, "Host: %s\r\n", cases[i].host);
                CU_ASSERT_EQUAL(ask("/debug/flows", fields), cases[i].status);
        }
        CU_ASSERT(http_ask(&at.client, "GET /metrics HTTP/1.0\r\n\r\n", &at.reply)); /* which need not have one */
        CU_ASSERT_EQUAL(at.reply.status, 200);
        end();
}

static void
others_are_allowed_by_name(void)
{
        static struct weir_http_debug_config config = WEIR_HTTP_DEBUG_CONFIG_DEFAULT;

        begin();
        at.context = &config;
        at.peer = "10.1.2.3";
        CU_ASSERT_EQUAL(ask("/metrics", HERE), 403);
        config.allowed = "10.0.0.0/8, 2001:db8::/32";
        CU_ASSERT_EQUAL(ask("/metrics", "Host: example.org\r\n"), 200);
        at.peer = "11.1.2.3";
        CU_ASSERT_EQUAL(ask("/metrics", HERE), 403);
        config.allowed = "0.0.0.0/0, ::/0";
        CU_ASSERT_EQUAL(ask("/metrics", HERE), 200);
        at.peer = "2001:db9::1";
        CU_ASSERT_EQUAL(ask("/metrics", HERE), 200);
        end();
}

static _Atomic unsigned complaints;

static void
count_complaint(enum weir_log_level level, const char *message, void *context)
{
        (void)context;
        atomic_fetch_add(&complaints, level == WEIR_LOG_ERROR && strstr(message, "allowed: \"everybody\": expected addresses"));
}

static void
a_list_that_is_none_lets_nobody_else_in(void)
{
        begin();
        weir_log_set(count_complaint, NULL);
        at.context = &at.config;
        at.config.allowed = "everybody";
        at.peer = "10.1.2.3";
        CU_ASSERT_EQUAL(ask("/metrics", HERE), 403);
        at.config.size = 3;
        at.config.allowed = "10.1.2.3";
        CU_ASSERT_EQUAL(ask("/metrics", HERE), 403);
        at.peer = "127.0.0.1"; /* a local client may read all the same */
        CU_ASSERT_EQUAL(ask("/metrics", HERE), 200);
        CU_ASSERT(complaints > 0);
        weir_log_set(NULL, NULL);
        end();
}

/* -- which page -- */

static void
other_paths_and_methods_are_refused(void)
{
        static const char *const missing[] = {"/",           "/metric",        "/metrics/", "/debug",
                                              "/debug/flow", "/debug/flows/x", "/METRICS",  "/xmetrics"};

        begin();
        for (size_t i = 0; i < sizeof missing / sizeof *missing; i++) {
                CU_ASSERT_EQUAL(ask(missing[i], HERE), 404);
        }
        CU_ASSERT(http_ask(&at.client, "POST /metrics HTTP/1.1\r\n" HERE "Content-Length: 0\r\n\r\n", &at.reply));
        CU_ASSERT_EQUAL(at.reply.status, 405);
        HTTP_ASSERT_TEXT(http_field(&at.reply, "Allow"), "GET, HEAD");
        CU_ASSERT(http_send_text(&at.client, "HEAD /below/debug/flows HTTP/1.1\r\n" HERE "\r\n"));
        CU_ASSERT(http_receive(&at.client, &at.reply, true));
        CU_ASSERT_EQUAL(at.reply.status, 200);
        end();
}

#define ASK "%s %s HTTP/1.1\r\n" HERE "\r\n"

static void
show_behind(weir_task *write, void *exchange)
{
        handle(exchange, NULL);
        (void)write;
}

static void
write_and_show(weir_task *exchange, void *context)
{
        (void)context;
        weir_http_reply_length(exchange, 40);
        weir_series_push(weir_series_of(exchange), weir_http_write_new(exchange, "hello", 5, show_behind, exchange));
}

/* The reply to the next request would be taken for the rest of it. */
static void
half_a_reply_that_it_refuses_or_shows_behind_is_cut(void)
{
        static const char *const targets[] = {"/nothing", "/metrics", "/debug/flows"};

        begin_at(NULL, write_and_show);
        for (size_t i = 0; i < 2 * sizeof targets / sizeof *targets; i++) {
                const char *method = i % 2 ? "POST" : "GET", *target = targets[i / 2];
                char requests[256];

                snprintf(requests, sizeof requests, ASK ASK, method, target, method, target);
                CU_ASSERT_TRUE(http_send_text(&at.client, requests));
                CU_ASSERT_FALSE(http_receive(&at.client, &at.reply, false));
                http_close(&at.client);
                http_open(&at.client, weir_http_server_port(at.server));
        }
        end();
}

static void
replies_say_what_they_are(void)
{
        begin();
        page("/metrics?x");
        HTTP_ASSERT_TEXT(http_field(&at.reply, "Content-Type"), "text/plain; version=0.0.4; charset=utf-8");
        HTTP_ASSERT_TEXT(http_field(&at.reply, "Cache-Control"), "no-store");
        CU_ASSERT(has("\nweir_pollers 2\n"));
        page("/below/debug/flows");
        HTTP_ASSERT_TEXT(http_field(&at.reply, "Content-Type"), "text/html; charset=utf-8");
        HTTP_ASSERT_TEXT(http_field(&at.reply, "Cache-Control"), "no-store");
        HTTP_ASSERT_TEXT(http_field(&at.reply, "X-Content-Type-Options"), "nosniff");
        CU_ASSERT(has("<a href=\"../metrics\">"));
        end();
}

static void
only_the_pages_own_script_may_run(void)
{
        char first[64], tag[96];

        begin();
        page("/debug/flows");
        const char *policy = http_field(&at.reply, "Content-Security-Policy");
        CU_ASSERT_PTR_NOT_NULL_FATAL(policy);
        CU_ASSERT_EQUAL(strncmp(policy, "default-src 'none'; ", 20), 0);
        const char *nonce = strstr(policy, "script-src 'nonce-");
        CU_ASSERT_PTR_NOT_NULL_FATAL(nonce);
        snprintf(first, sizeof first, "%.16s", nonce + strlen("script-src 'nonce-"));
        snprintf(tag, sizeof tag, "<script nonce=\"%s\">", first);
        CU_ASSERT(has(tag));
        snprintf(tag, sizeof tag, "<style nonce=\"%s\">", first);
        CU_ASSERT(has(tag));
        CU_ASSERT_EQUAL(times("<script"), 1);
        CU_ASSERT_EQUAL(times(" src="), 0);
        CU_ASSERT_EQUAL(times("http:") + times("https:") + times("url("), 0); /* nothing from elsewhere */
        page("/debug/flows");
        CU_ASSERT_FALSE(has(first)); /* another one each time */
        end();
}

static void
mounted_in_a_router_it_answers_there(void)
{
        weir_http_router *router = weir_http_router_new();

        weir_test_begin_real(1);
        memset(&shown, 0, sizeof shown);
        weir_http_router_add(router, "GET", "/metrics", weir_http_debug, NULL);
        weir_http_router_add(router, "GET", "/debug/flows", weir_http_debug, NULL);
        weir_http_router_add(router, "GET", "/admin/{path...}", weir_http_debug, NULL);
        at.server = http_server(NULL, weir_http_router_handle, router);
        http_open(&at.client, weir_http_server_port(at.server));
        CU_ASSERT_EQUAL(ask("/metrics", HERE), 200);
        CU_ASSERT_EQUAL(ask("/admin/debug/flows", HERE), 200);
        CU_ASSERT_EQUAL(ask("/debug/flows", HERE), 200);
        CU_ASSERT_EQUAL(ask("/debug/flow", HERE), 404);
        end();
        weir_http_router_free(router);
}

static void
over_a_unix_socket_it_answers(void)
{
        struct sockaddr_un name = {.sun_family = AF_UNIX};
        char address[64];

        weir_test_begin_real(1);
        snprintf(address, sizeof address, "unix:@weir-debug-%d", (int)getpid());
        snprintf(name.sun_path + 1, sizeof name.sun_path - 1, "%s", address + strlen("unix:@"));
        weir_http_server *server = weir_http_server_new(NULL, weir_http_debug, NULL);
        CU_ASSERT_EQUAL_FATAL(weir_http_server_start(server, address), 0);
        struct http_client client = {.fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)};
        CU_ASSERT_EQUAL_FATAL(connect(client.fd, (struct sockaddr *)&name,
                                      (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(name.sun_path + 1))),
                              0);
        CU_ASSERT(http_ask(&client, "GET /metrics HTTP/1.1\r\n" HERE "\r\n", &at.reply));
        CU_ASSERT_EQUAL(at.reply.status, 200);
        http_close(&client);
        http_reply_done(&at.reply);
        weir_http_server_free(server);
        weir_test_end();
}

static void
another_task_is_left_alone(weir_task *task, void *context)
{
        weir_http_debug(task, context);
}

static void
a_task_that_is_no_exchange_is_left_alone(void)
{
        weir_test_begin_real(1);
        weir_http_debug(NULL, NULL);
        CU_ASSERT_EQUAL(weir_task_run(weir_empty_new(another_task_is_left_alone, NULL)), 0);
        weir_test_end();
}

/* -- the content of the page -- */

static void
names_cannot_become_markup(void)
{
        static const char hostile[] = "<script>alert(1)</script>&\"'\n\x1b[31m\xff\xc0\x80\\ü";

        begin();
        show(0, hostile, 1);
        struct weir__debug_record *record = show(1, "", 1);
        record->name = NULL;
        record->text = "</td><img src=x onerror=alert(1)>";
        record = show(0, "with a NUL", 1);
        record->name = "a\0b";
        record->name_size = 3;
        page("/debug/flows");
        CU_ASSERT(has("&lt;script&gt;alert(1)&lt;/script&gt;&amp;&quot;&#39;\\x0a\\x1b[31m\\xff\\xc0\\x80\\ü</bdi>"));
        CU_ASSERT(has("&lt;/td&gt;&lt;img src=x onerror=alert(1)&gt;"));
        CU_ASSERT(has("a\\x00b</bdi>"));
        CU_ASSERT_EQUAL(times("<script"), 1);
        CU_ASSERT_EQUAL(times("<img"), 0);
        end();
}

static void
a_search_text_cannot_become_markup(void)
{
        begin();
        page("/debug/flows?find=%22%3E%3Cscript%3Ealert(1)%3C/script%3E%FF&limit=%22%3E%3Cb%3E");
        CU_ASSERT(has("value=\"&quot;&gt;&lt;script&gt;alert(1)&lt;/script&gt;\\xff\""));
        CU_ASSERT(has("value=500>"));
        CU_ASSERT_EQUAL(times("<script"), 1);
        CU_ASSERT_EQUAL(times("<b>"), 0);
        end();
}

static void
the_task_that_has_waited_longest_comes_first(void)
{
        begin();
        show(0, "old-but-busy", WEIR_SEC(3600));
        show(1, "t", WEIR_MSEC(5));
        show(0, "hung", WEIR_SEC(600));
        show(1, "branch", WEIR_SEC(400));
        show(2, "t", WEIR_SEC(300));
        show(2, "t", WEIR_SEC(1));
        show(0, "middle", WEIR_SEC(20));
        show(0, "unknown", -1);
        show(0, "leaf-then-more", WEIR_SEC(700));
        show(1, "t", WEIR_SEC(500)); /* nothing deeper follows */
        show(1, "t", WEIR_SEC(1));
        page("/debug/flows");
        const char *order[] = {"leaf-then-more", "hung", "middle", "old-but-busy", "unknown"};
        for (int i = 0; i + 1 < 5; i++) {
                CU_ASSERT_PTR_NOT_NULL_FATAL(strstr(at.reply.body, order[i]));
                CU_ASSERT_PTR_NOT_NULL_FATAL(strstr(at.reply.body, order[i + 1]));
                CU_ASSERT(strstr(at.reply.body, order[i]) < strstr(at.reply.body, order[i + 1]));
        }
        CU_ASSERT(has("10 min<"));
        CU_ASSERT(has("1 h<"));
        CU_ASSERT(has(": 5 with 6 tasks"));
        end();
}

static void
deadlines_and_states_are_told(void)
{
        begin();
        struct weir__debug_record *record = show(0, "a", WEIR_USEC(15));
        record->deadline = -WEIR_MSEC(1500);
        record->state = "running";
        record = show(0, "b", 0);
        record->deadline = WEIR_SEC(90);
        record = show(0, "q", 0);
        record->section = WEIR__DEBUG_FUNCTIONS;
        record->kind = "queue";
        record->text = "3 functions";
        record->also = "1 running";
        page("/debug/flows");
        CU_ASSERT(has("over for 1.5 s"));
        CU_ASSERT(has("in 1 min 30 s"));
        CU_ASSERT(has(">running</bdi><td"));
        CU_ASSERT(has("15 us"));
        CU_ASSERT(has("<bdi>3 functions</bdi>"));
        CU_ASSERT_EQUAL(times("<h2"), 2);
        end();
}

/* So many flows of three records each, of which the one in the middle of the walk has waited longest. */
static void
show_many(unsigned count)
{
        for (unsigned i = 0; i < count; i++) {
                unsigned turn = (i + count / 2) % count;

                snprintf(shown.names[i], sizeof shown.names[i], "flow-%u.", turn);
                show(0, shown.names[i], WEIR_SEC(10000));
                show(1, "first", WEIR_SEC(1));
                show(1, "second", WEIR_SEC(9000 - (int)turn));
        }
}

static void
a_page_that_was_cut_says_so_and_has_the_oldest(void)
{
        begin();
        show_many(1000);
        page("/debug/flows?limit=30");
        CU_ASSERT_EQUAL(times("<tbody"), 10);
        CU_ASSERT(has("Shown: the 10 that have waited longest, of 1,000."));
        CU_ASSERT(has("<a href=\"?limit=300\">"));
        CU_ASSERT(has("flow-0.") && has("flow-9.") && !has("flow-10."));
        page("/debug/flows?limit=1");
        CU_ASSERT_EQUAL(times("<tbody"), 1);
        CU_ASSERT(has("flow-0.") && has("and 2 more tasks in it"));
        page("/debug/flows");
        CU_ASSERT_EQUAL(times("<tbody"), 167); /* 500 rows, and the flow that they end in */
        page("/debug/flows?limit=999999");
        CU_ASSERT_EQUAL(times("<tbody"), 1000);
        CU_ASSERT_FALSE(has("Shown:"));
        CU_ASSERT(has("value=10000>"));
        end();
}

static void
only_what_is_looked_for_is_shown(void)
{
        begin();
        show_many(1000);
        show(1, "odd", 1)->text = "guard \"stock\", held by <nobody>";
        page("/debug/flows?find=flow-77");
        CU_ASSERT_EQUAL(times("<tbody"), 11);
        CU_ASSERT(has("flow-77.") && has("flow-779."));
        CU_ASSERT(has("found: 11"));
        CU_ASSERT(has("1,000"));
        page("/debug/flows?find=stock");
        CU_ASSERT_EQUAL(times("<tbody"), 1);
        CU_ASSERT(has("held by &lt;nobody&gt;"));
        page("/debug/flows?find=second&limit=3");
        CU_ASSERT_EQUAL(times("<tbody"), 1);
        CU_ASSERT(has("Shown: the 1 that have waited longest, of 1,000."));
        page("/debug/flows?find=nowhere");
        CU_ASSERT_EQUAL(times("<tbody"), 0);
        end();
}

static void
a_walk_that_left_something_out_is_said_to(void)
{
        begin();
        page("/debug/flows");
        CU_ASSERT_FALSE(has("left out"));
        show_many(10);
        shown.fails = -ENOMEM;
        page("/debug/flows");
        CU_ASSERT(has("Out of memory: something is left out.") && has("flow-3."));
        shown.fails = -ECHILD;
        CU_ASSERT_EQUAL(ask("/debug/flows", HERE), 500);
        end();
}

static void
only_what_is_overdue_is_marked(void)
{
        begin();
        show(0, "idle for a day", WEIR_SEC(86400))->deadline = WEIR_SEC(1);
        show(1, "t", WEIR_SEC(3600));
        show(0, "due now", 1)->deadline = 0;
        show(0, "over", 1)->deadline = -1;
        show(0, "a part is over", WEIR_SEC(1));
        show(1, "t", 1)->deadline = -WEIR_SEC(1);
        page("/debug/flows");
        CU_ASSERT_EQUAL(times("<tbody class=late>"), 2);
        CU_ASSERT_EQUAL(times("<tbody>"), 2);
        CU_ASSERT_EQUAL(times("\"short over\""), 2);
        end();
}

static void
a_column_holds_one_kind_of_thing(void)
{
        begin();
        struct weir__debug_record *record = show(0, "a", 1);
        record->text = "guard \"a\"";
        record->also = "holds guard \"<b>\"";
        record->behind = "2 tasks";
        record = show(0, "q", -1);
        record->section = WEIR__DEBUG_FUNCTIONS;
        record->text = "3 queued";
        record->also = "1 running";
        page("/debug/flows");
        CU_ASSERT(has("<th>Waits for<th>Holds<th class=short>Behind</thead>"));
        CU_ASSERT(has("data-is=\"Waits for\"><bdi>guard &quot;a&quot;</bdi><td"));
        CU_ASSERT(has("data-is=\"Holds\"><bdi>holds guard &quot;&lt;b&gt;&quot;</bdi><td"));
        CU_ASSERT(has("data-is=\"Behind\"><bdi>2 tasks</bdi></tr>"));
        CU_ASSERT(has("<th>What<th>Queued<th>Running</thead>"));
        CU_ASSERT(has("data-is=\"Running\"><bdi>1 running</bdi></tr>"));
        page("/debug/flows?find=%3Cb%3E");
        CU_ASSERT_EQUAL(times("<tbody"), 1);
        end();
}

/* -- the real flows -- */

static struct weir_test_latch may_end;

static void
wait_for_latch(void *context)
{
        (void)context;
        weir_test_latch_wait(&may_end);
}

static void
it_comes_although_all_threads_of_the_executor_hang(void)
{
        begin();
        shown.is_real = true;
        weir_test_latch_init(&may_end, 1);
        for (int i = 0; i < 300; i++) {
                weir_task_start(weir_go_new("hang", wait_for_latch, NULL, NULL));
        }
        weir_task_start(weir_timer_new_named("order <7>", WEIR_FOREVER, NULL, NULL));
        page("/debug/flows");
        CU_ASSERT(has("order &lt;7&gt;"));
        weir_test_latch_count_down(&may_end);
        end();
}

static weir_series *
crossing(const char *name, const char *first, const char *second)
{
        weir_series *series = weir_series_new(NULL, NULL);

        weir_series_set_name(series, name);
        weir_series_push(series, weir_guard_acquire_new_named(first, NULL, NULL));
        weir_series_push(series, weir_timer_new(WEIR_MSEC(20), NULL, NULL));
        weir_series_push(series, weir_guard_acquire_new_named(second, NULL, NULL));
        return series;
}

static bool
shows(const char *text)
{
        page("/debug/flows");
        return has(text);
}

static void
a_deadlock_is_told_above_the_tables(void)
{
        begin();
        shown.is_real = true;
        CU_ASSERT_FALSE(shows("deadlock:"));
        weir_series_start(crossing("<A>", "a", "b"));
        weir_series_start(crossing("B", "b", "a"));
        WEIR_TEST_EVENTUALLY(shows("<p class=\"cut deadlock\"><bdi>deadlock: series &quot;"));
        CU_ASSERT_EQUAL(times("deadlock: "), 1);
        CU_ASSERT(has("&lt;A&gt;") && !has("<A>"));
        CU_ASSERT(strstr(at.reply.body, "deadlock: ") < strstr(at.reply.body, "<h2"));
        CU_ASSERT(weir_series_cancel_named("<A>", WEIR_ALL));
        WEIR_TEST_EVENTUALLY(!shows("deadlock: "));
        end();
}

static const struct weir_test tests[] = {
        WEIR_TEST(only_local_peers_may_read),
        WEIR_TEST(a_request_through_a_proxy_is_refused),
        WEIR_TEST(a_request_through_a_trusted_proxy_is_refused_too),
        WEIR_TEST(a_host_that_is_not_this_machine_is_refused),
        WEIR_TEST(others_are_allowed_by_name),
        WEIR_TEST(a_list_that_is_none_lets_nobody_else_in),
        WEIR_TEST(other_paths_and_methods_are_refused),
        WEIR_TEST(half_a_reply_that_it_refuses_or_shows_behind_is_cut),
        WEIR_TEST(replies_say_what_they_are),
        WEIR_TEST(only_the_pages_own_script_may_run),
        WEIR_TEST(mounted_in_a_router_it_answers_there),
        WEIR_TEST(over_a_unix_socket_it_answers),
        WEIR_TEST(a_task_that_is_no_exchange_is_left_alone),
        WEIR_TEST(names_cannot_become_markup),
        WEIR_TEST(a_search_text_cannot_become_markup),
        WEIR_TEST(the_task_that_has_waited_longest_comes_first),
        WEIR_TEST(deadlines_and_states_are_told),
        WEIR_TEST(a_page_that_was_cut_says_so_and_has_the_oldest),
        WEIR_TEST(only_what_is_looked_for_is_shown),
        WEIR_TEST(a_walk_that_left_something_out_is_said_to),
        WEIR_TEST(only_what_is_overdue_is_marked),
        WEIR_TEST(a_column_holds_one_kind_of_thing),
        WEIR_TEST(a_deadlock_is_told_above_the_tables),
        WEIR_TEST(it_comes_although_all_threads_of_the_executor_hang),
};

int
main(void)
{
        return weir_test_main("server_debug", tests, sizeof tests / sizeof *tests);
}
