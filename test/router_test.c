/* test/router_test.c: a server whose handler is a router: the handler that gets a request, and the replies without a handler. */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test/http_client.h"

#define ASK(method, target)   method " " target " HTTP/1.1\r\nHost: a\r\n\r\n"
#define TWICE(method, target) ASK(method, target) ASK(method, target)
#define NO_LIMIT              (-1)

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *block, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *block, size_t size);

static _Thread_local long allowed = NO_LIMIT; /* allocations of this thread until one is refused */

static bool
refuse(void)
{
        return allowed != NO_LIMIT && allowed-- == 0;
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

void *
__wrap_realloc(void *block, size_t size)
{
        return refuse() ? NULL : __real_realloc(block, size);
}

/* -- fixture -- */

static struct fixture {
        weir_http_router *router;
        weir_http_server *server;
        struct http_client client;
        struct http_reply reply;
        atomic_int freed;
        _Atomic long refuse_nth;
} at;

/* Replies "context id rest": those of the parameters that there are, "-" else. */
static void
say(weir_task *exchange, void *context)
{
        const char *id = weir_http_router_parameter(exchange, "id"), *rest = weir_http_router_parameter(exchange, "rest");
        char text[256];

        snprintf(text, sizeof text, "%s %s %s", (const char *)context, id ? id : "-", rest ? rest : "-");
        weir_http_reply_text(exchange, 200, text);
}

static void
add(const char *methods, const char *pattern, char *context)
{
        CU_ASSERT_EQUAL(weir_http_router_add(at.router, methods, pattern, say, context), 0);
}

static void
serve(weir_task_fn *handler, void *context)
{
        at.server = http_server(NULL, handler, context);
        http_open(&at.client, weir_http_server_port(at.server));
}

static void
begin(void)
{
        at.router = weir_http_router_new();
        add("GET", "/users/{id}", "user");
        add("PUT,DELETE", "/users/{id}", "change");
        add("GET", "/users/me", "me");
        add("*", "/any/{rest...}", "any");
        add("POST", "/form", "form");
        serve(weir_http_router_handle, at.router);
}

static void
end(void)
{
        http_close(&at.client);
        http_reply_done(&at.reply);
        CU_ASSERT_EQUAL(weir_http_server_stop(at.server, WEIR_SEC(20)), 0);
        weir_http_server_free(at.server);
        weir_http_router_free(at.router);
}

static void
assert_reply(const char *request, int status, const char *body)
{
        CU_ASSERT_TRUE(http_ask(&at.client, request, &at.reply));
        CU_ASSERT_EQUAL(at.reply.status, status);
        HTTP_ASSERT_TEXT(at.reply.body, body);
}

/* -- requests -- */

static void
a_request_goes_to_the_handler_of_its_method_and_path(void)
{
        begin();
        assert_reply(ASK("GET", "/users/7"), 200, "user 7 -");
        assert_reply(ASK("PUT", "/users/7"), 200, "change 7 -");
        assert_reply(ASK("DELETE", "/users/me"), 200, "change me -");
        assert_reply(ASK("GET", "/users/me"), 200, "me - -");
        assert_reply(ASK("PATCH", "/any/a/b?c=d/e"), 200, "any - a/b");
        assert_reply(ASK("GET", "http://other/users/8?x"), 200, "user 8 -");
        end();
}

static void
parameters_are_decoded_after_the_path_was_divided(void)
{
        begin();
        assert_reply(ASK("GET", "/users/a%2Fb%20c"), 200, "user a/b c -");
        assert_reply(ASK("GET", "/%75sers/%6De"), 200, "me - -");
        assert_reply(ASK("GET", "/any/%2e%2e%2f/x"), 200, "any - ..//x");
        assert_reply(ASK("GET", "/users%2F7"), 404, "404 Not Found\n");
        end();
}

static void
an_unknown_path_is_404(void)
{
        begin();
        assert_reply(ASK("GET", "/"), 404, "404 Not Found\n");
        assert_reply(ASK("GET", "/users/"), 404, "404 Not Found\n");
        assert_reply(ASK("OPTIONS", "/nothing"), 404, "404 Not Found\n");
        CU_ASSERT_EQUAL(http_field_count(&at.reply, "Allow"), 0);
        end();
}

static void
a_known_path_with_another_method_is_405_with_allow(void)
{
        begin();
        assert_reply(ASK("POST", "/users/7"), 405, "405 Method Not Allowed\n");
        HTTP_ASSERT_TEXT(http_field(&at.reply, "Allow"), "GET, HEAD, OPTIONS, PUT, DELETE");
        CU_ASSERT_EQUAL(http_field_count(&at.reply, "Allow"), 1);
        assert_reply(ASK("GET", "/form"), 405, "405 Method Not Allowed\n");
        HTTP_ASSERT_TEXT(http_field(&at.reply, "Allow"), "OPTIONS, POST");
        end();
}

static void
options_are_told_without_a_handler(void)
{
        begin();
        assert_reply(ASK("OPTIONS", "/users/me"), 204, "");
        HTTP_ASSERT_TEXT(http_field(&at.reply, "Allow"), "GET, HEAD, OPTIONS, PUT, DELETE");
        assert_reply(ASK("OPTIONS", "*"), 204, "");
        HTTP_ASSERT_TEXT(http_field(&at.reply, "Allow"), "GET, HEAD, OPTIONS, PUT, DELETE, POST");
        assert_reply(ASK("OPTIONS", "/any/x"), 200, "any - x");
        end();
}

static void
options_may_have_a_handler(void)
{
        at.router = weir_http_router_new();
        add("OPTIONS", "*", "all");
        add("OPTIONS,GET", "/a", "a");
        serve(weir_http_router_handle, at.router);
        assert_reply(ASK("OPTIONS", "*"), 200, "all - -");
        assert_reply(ASK("OPTIONS", "http://a"), 200, "all - -");
        assert_reply(ASK("OPTIONS", "/a"), 200, "a - -");
        end();
}

static void
head_is_answered_by_the_handler_of_get(void)
{
        begin();
        CU_ASSERT_TRUE(http_send_text(&at.client, ASK("HEAD", "/users/7")));
        CU_ASSERT_TRUE(http_receive(&at.client, &at.reply, true));
        CU_ASSERT_EQUAL(at.reply.status, 200);
        HTTP_ASSERT_TEXT(http_field(&at.reply, "Content-Length"), "8");
        CU_ASSERT_TRUE(http_send_text(&at.client, ASK("HEAD", "/form")));
        CU_ASSERT_TRUE(http_receive(&at.client, &at.reply, true));
        CU_ASSERT_EQUAL(at.reply.status, 405);
        end();
}

static void
an_empty_router_answers_too(void)
{
        at.router = weir_http_router_new();
        serve(weir_http_router_handle, at.router);
        assert_reply(ASK("GET", "/"), 404, "404 Not Found\n");
        assert_reply(ASK("OPTIONS", "*"), 204, "");
        HTTP_ASSERT_TEXT(http_field(&at.reply, "Allow"), "OPTIONS");
        end();
}

static void
route(weir_task *write, void *exchange)
{
        (void)write;
        weir_http_router_handle(exchange, at.router);
}

/* Without a query the length is said. */
static void
write_and_route(weir_task *exchange, void *context)
{
        (void)context;
        if (!weir_http_query(exchange)) {
                weir_http_reply_length(exchange, 40);
        }
        weir_series_push(weir_series_of(exchange), weir_http_write_new(exchange, "hello", 5, route, exchange));
}

/* The reply to the next request would be taken for the rest of it, or five bytes for all. */
static void
a_handler_that_routes_to_nowhere_behind_half_a_reply_has_it_cut(void)
{
        static const char *const requests[] = {
                TWICE("GET", "/nothing"),   TWICE("POST", "/users/7"),   TWICE("OPTIONS", "/users/7"),
                TWICE("GET", "/nothing?c"), TWICE("POST", "/users/7?c"), TWICE("OPTIONS", "/users/7?c"),
        };

        begin();
        weir_http_server *plain = at.server;
        http_close(&at.client);
        serve(write_and_route, NULL);
        for (size_t i = 0; i < sizeof requests / sizeof *requests; i++) {
                CU_ASSERT_TRUE(http_send_text(&at.client, requests[i]));
                CU_ASSERT_FALSE(http_receive(&at.client, &at.reply, false));
                http_close(&at.client);
                http_open(&at.client, weir_http_server_port(at.server));
        }
        weir_http_server_free(plain);
        end();
}

static void
a_router_that_could_not_be_made_answers_500(void)
{
        at.router = NULL;
        CU_ASSERT_EQUAL(weir_http_router_add(at.router, "GET", "/", say, ""), -ENOMEM);
        serve(weir_http_router_handle, at.router);
        assert_reply(ASK("GET", "/"), 500, "500 Internal Server Error\n");
        end();
}

/* -- parameters and contexts -- */

static void
say_later(weir_task *timer, void *context)
{
        (void)timer;
        say(context, "later");
}

static void
count_free(void *context)
{
        CU_ASSERT_STRING_EQUAL(context, "delay"); /* the handler's, not the router */
        atomic_fetch_add(&at.freed, 1);
}

static void
delay(weir_task *exchange, void *context)
{
        CU_ASSERT_PTR_EQUAL(weir_task_context(exchange), context);
        CU_ASSERT_PTR_NULL(weir_http_router_parameter(exchange, "nobody"));
        CU_ASSERT_PTR_NULL(weir_http_router_parameter(exchange, NULL));
        weir_task_on_free(exchange, count_free);
        weir_series_push(weir_series_of(exchange), weir_timer_new(WEIR_MSEC(5), say_later, exchange));
}

static void
parameters_live_as_long_as_the_exchange(void)
{
        atomic_store(&at.freed, 0);
        at.router = weir_http_router_new();
        CU_ASSERT_EQUAL(weir_http_router_add(at.router, "GET", "/{id}/{rest...}", delay, "delay"), 0);
        serve(weir_http_router_handle, at.router);
        for (int i = 0; i < 3; i++) {
                assert_reply(ASK("GET", "/seven/of/nine"), 200, "later seven of/nine");
        }
        WEIR_TEST_EVENTUALLY(atomic_load(&at.freed) == 3);
        end();
}

static void
free_and_count(void *mine)
{
        CU_ASSERT_STRING_EQUAL(mine, "mine");
        free(mine);
        atomic_fetch_add(&at.freed, 1);
}

static void
set_context_and_route(weir_task *exchange, void *router)
{
        weir_task_set_context(exchange, strdup("mine"), free_and_count);
        weir_http_router_handle(exchange, router);
}

static void
a_context_that_was_set_before_is_freed_when_the_router_sets_its_own(void)
{
        atomic_store(&at.freed, 0);
        at.router = weir_http_router_new();
        CU_ASSERT_EQUAL(weir_http_router_add(at.router, "GET", "/in/{id}", say, "route"), 0);
        serve(set_context_and_route, at.router);
        for (int i = 0; i < 3; i++)
                assert_reply(ASK("GET", "/in/7"), 200, "route 7 -");
        end();
        CU_ASSERT_EQUAL(atomic_load(&at.freed), 3);
}

static void
a_router_may_be_another_ones_handler(void)
{
        weir_http_router *inner = weir_http_router_new();

        at.router = weir_http_router_new();
        CU_ASSERT_EQUAL(weir_http_router_add(inner, "GET", "/in/{id}", say, "inner"), 0);
        CU_ASSERT_EQUAL(weir_http_router_add(at.router, "*", "/in/{rest...}", weir_http_router_handle, inner), 0);
        serve(weir_http_router_handle, at.router);
        assert_reply(ASK("GET", "/in/7"), 200, "inner 7 -");
        assert_reply(ASK("GET", "/in/7/8"), 404, "404 Not Found\n");
        end();
        weir_http_router_free(inner);
}

static void
say_nothing(weir_task *exchange, void *context)
{
        *(const char **)context = weir_http_router_parameter(exchange, "id") ? "something" : "nothing";
        weir_http_router_handle(exchange, NULL);
}

static void
a_task_that_is_not_an_exchange_has_no_parameters(void)
{
        weir_task *task = weir_empty_new(NULL, NULL);
        const char *said = NULL;

        CU_ASSERT_PTR_NULL(weir_http_router_parameter(task, "id"));
        CU_ASSERT_PTR_NULL(weir_http_router_parameter(NULL, "id"));
        weir_http_router_handle(task, NULL);
        weir_http_router_handle(NULL, NULL);
        weir_task_dismiss(task);
        at.router = NULL;
        serve(say_nothing, &said); /* an exchange that no router was given */
        assert_reply(ASK("GET", "/"), 500, "500 Internal Server Error\n");
        HTTP_ASSERT_TEXT(said, "nothing");
        end();
}

/* -- adding -- */

static struct {
        unsigned count;
        enum weir_log_level level;
        char message[600];
} heard; /* by the thread that adds */

static void
hear(enum weir_log_level level, const char *message, void *context)
{
        (void)context;
        heard.count++;
        heard.level = level;
        snprintf(heard.message, sizeof heard.message, "%s", message);
}

static void
assert_add(int result, const char *methods, const char *pattern, weir_task_fn *handler, const char *message)
{
        heard.count = 0;
        heard.message[0] = '\0';
        CU_ASSERT_EQUAL(weir_http_router_add(at.router, methods, pattern, handler, ""), result);
        CU_ASSERT_EQUAL(heard.count, *message != 0);
        HTTP_ASSERT_TEXT(heard.message, message);
        CU_ASSERT(!*message || heard.level == (result ? WEIR_LOG_ERROR : WEIR_LOG_WARNING));
}

static void
assert_pattern(const char *pattern, const char *expected)
{
        char message[600];

        snprintf(message, sizeof message, "weir_http_router_add: the pattern \"%s\": expected %s", pattern, expected);
        assert_add(-EINVAL, "GET", pattern, say, message);
}

static void
what_is_refused_is_in_the_log_with_what_was_expected(void)
{
        char many[3 * 65 + 1] = "";

        for (int i = 0; i < 65; i++) {
                strcat(many, "/ab");
        }
        begin();
        weir_log_set(hear, NULL);
        assert_add(-EINVAL, NULL, "/", say,
                   "weir_http_router_add: the methods are NULL: expected some such as \"GET,POST\", or \"*\"");
        assert_add(-EINVAL, "GET", NULL, say, "weir_http_router_add: the pattern is NULL: expected one such as \"/users/{id}\"");
        assert_add(-EINVAL, "GET", "/a", NULL,
                   "weir_http_router_add: the handler of GET \"/a\" is NULL: expected what answers requests");
        assert_add(
                -EINVAL, "get", "/a", say,
                "weir_http_router_add: the methods \"get\": expected some in capitals, such as \"GET,POST\", or \"*\", and 64 at "
                "most in a router");
        assert_pattern("a", "a slash at the beginning");
        assert_pattern("", "a slash at the beginning");
        assert_pattern("/a?b", "no '?', no '#', no control byte, and only valid escapes other than %00");
        assert_pattern("/%0", "no '?', no '#', no control byte, and only valid escapes other than %00");
        assert_pattern("/a//b", "no empty segment before the last one");
        assert_pattern("/a{b}", "braces only around a whole segment, as {name} or {name...}");
        assert_pattern("/{a", "braces only around a whole segment, as {name} or {name...}");
        assert_pattern("/{}", "a name of letters, digits and underscores within {}, which does not begin with a digit");
        assert_pattern("/{1}", "a name of letters, digits and underscores within {}, which does not begin with a digit");
        assert_pattern("/{a}/{a}", "each name once");
        assert_pattern("/{a...}/b", "{name...} only at the end");
        assert_pattern(many, "64 segments at most");
        assert_add(0, "GET", "/expected", say, "");
        assert_add(-EEXIST, "GET", "/expected", say, "");
        weir_log_set(NULL, NULL);
        end();
}

static void
a_segment_that_begins_with_a_colon_is_a_literal_and_a_warning(void)
{
        begin();
        weir_log_set(hear, NULL);
        assert_add(0, "GET", "/u/:id/x", say, "weir_http_router_add: \"/u/:id/x\": \":id\" is a literal; {id} is a parameter");
        assert_add(0, "GET", "/u/%3Aid", say, "");
        assert_add(0, "GET", "/u/a:b", say, "");
        assert_add(0, "GET", "/u/:", say, "");
        assert_reply(ASK("GET", "/u/:id/x"), 200, " - -");
        assert_reply(ASK("GET", "/u/7/x"), 404, "404 Not Found\n");
        assert_reply(ASK("GET", "/u/:id"), 200, " - -");
        weir_log_set(NULL, NULL);
        end();
}

static void
wrong_patterns_are_refused(void)
{
        begin();
        CU_ASSERT_EQUAL(weir_http_router_add(at.router, "GET", "nothing", say, ""), -EINVAL);
        CU_ASSERT_EQUAL(weir_http_router_add(at.router, "GET", "/users/{name}", say, ""), -EEXIST);
        add("GET", "/", "root"); /* it serves, but was not asked yet */
        assert_reply(ASK("GET", "/"), 200, "root - -");
        assert_reply(ASK("POST", "/form"), 200, "form - -");
        end();
}

static void
nothing_is_added_after_the_first_request(void)
{
        begin();
        assert_reply(ASK("GET", "/"), 404, "404 Not Found\n");
        CU_ASSERT_EQUAL(weir_http_router_add(at.router, "GET", "/", say, ""), -EBUSY);
        assert_reply(ASK("GET", "/"), 404, "404 Not Found\n");
        end();
}

static void *
add_until_busy(void *context)
{
        char text[32];
        int r = 0;

        for (int i = 0; r == 0; i++) {
                snprintf(text, sizeof text, "/new/%d/{id}", i);
                r = weir_http_router_add(at.router, "GET", text, say, "new");
        }
        *(int *)context = r;
        return NULL;
}

/* ThreadSanitizer judges the result. */
static void
adding_may_meet_the_first_request(void)
{
        for (int i = 0; i < 20; i++) {
                pthread_t thread;
                int last = 0;

                begin();
                pthread_create(&thread, NULL, add_until_busy, &last);
                assert_reply(ASK("GET", "/users/7"), 200, "user 7 -");
                pthread_join(thread, NULL);
                CU_ASSERT_EQUAL(last, -EBUSY);
                end();
        }
}

/* -- refused memory -- */

static void
routers_are_made_and_filled_or_not(void)
{
        long nth = 0;
        int r = -ENOMEM;

        for (at.router = NULL; !at.router; nth++) {
                allowed = nth;
                at.router = weir_http_router_new();
        }
        CU_ASSERT(nth > 2);
        for (nth = 0; r == -ENOMEM; nth++) {
                allowed = nth;
                r = weir_http_router_add(at.router, "GET,PUT", "/a/{id}", say, "a");
                allowed = NO_LIMIT;
        }
        CU_ASSERT_EQUAL(r, 0);
        CU_ASSERT(nth > 3);
        serve(weir_http_router_handle, at.router);
        assert_reply(ASK("GET", "/a/1"), 200, "a 1 -");
        end();
        weir_http_router_free(NULL);
}

/* Routes with the allocation refused that the test has chosen; it leaves how many were not reached. */
static void
route_in_need(weir_task *exchange, void *context)
{
        allowed = atomic_load(&at.refuse_nth);
        weir_http_router_handle(exchange, context);
        atomic_store(&at.refuse_nth, allowed);
        allowed = NO_LIMIT;
}

/* As long as it lacks memory it is answered 500; never in another way than that or the right one.  Returns how often. */
static int
ask_in_need(const char *request, int status)
{
        for (int nth = 0; nth < 100; nth++) {
                atomic_store(&at.refuse_nth, nth);
                CU_ASSERT_TRUE(http_ask(&at.client, request, &at.reply));
                if (at.reply.status == status && atomic_load(&at.refuse_nth) != NO_LIMIT) {
                        return nth;
                }
                CU_ASSERT_EQUAL(at.reply.status, 500);
                CU_ASSERT_EQUAL(http_field_count(&at.reply, "Allow"), 0);
        }
        CU_FAIL("it needs more and more");
        return 0;
}

static void
a_request_that_lacks_memory_is_500(void)
{
        at.router = weir_http_router_new();
        add("GET", "/{id}", "a");
        serve(route_in_need, at.router);
        CU_ASSERT(ask_in_need(ASK("GET", "/7"), 200) > 0); /* what is short needs nothing but the match */
        CU_ASSERT(ask_in_need(ASK("PUT", "/7"), 405) > 1);
        CU_ASSERT(ask_in_need(ASK("OPTIONS", "*"), 204) > 0);
        (void)ask_in_need(ASK("GET", "/"), 404);
        atomic_store(&at.refuse_nth, NO_LIMIT);
        assert_reply(ASK("GET", "/7"), 200, "a 7 -");
        end();
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(a_request_goes_to_the_handler_of_its_method_and_path),
                WEIR_TEST(parameters_are_decoded_after_the_path_was_divided),
                WEIR_TEST(an_unknown_path_is_404),
                WEIR_TEST(a_known_path_with_another_method_is_405_with_allow),
                WEIR_TEST(options_are_told_without_a_handler),
                WEIR_TEST(options_may_have_a_handler),
                WEIR_TEST(head_is_answered_by_the_handler_of_get),
                WEIR_TEST(an_empty_router_answers_too),
                WEIR_TEST(a_handler_that_routes_to_nowhere_behind_half_a_reply_has_it_cut),
                WEIR_TEST(a_router_that_could_not_be_made_answers_500),
                WEIR_TEST(parameters_live_as_long_as_the_exchange),
                WEIR_TEST(a_context_that_was_set_before_is_freed_when_the_router_sets_its_own),
                WEIR_TEST(a_router_may_be_another_ones_handler),
                WEIR_TEST(a_task_that_is_not_an_exchange_has_no_parameters),
                WEIR_TEST(what_is_refused_is_in_the_log_with_what_was_expected),
                WEIR_TEST(a_segment_that_begins_with_a_colon_is_a_literal_and_a_warning),
                WEIR_TEST(wrong_patterns_are_refused),
                WEIR_TEST(nothing_is_added_after_the_first_request),
                WEIR_TEST(adding_may_meet_the_first_request),
                WEIR_TEST(routers_are_made_and_filled_or_not),
                WEIR_TEST(a_request_that_lacks_memory_is_500),
        };

        struct weir_config config = WEIR_CONFIG_DEFAULT;

        config.pollers = 4; /* so that handlers run on several workers on the smallest machine, too */
        if (weir_init(&config)) {
                return EXIT_FAILURE;
        }
        return weir_test_main("router", tests, sizeof tests / sizeof *tests);
}
