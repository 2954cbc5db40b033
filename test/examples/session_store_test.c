/* test/examples/session_store_test.c: the store by itself, and over HTTP, on the virtual clock. */
#include "test/examples/program.h"

#include "examples/session-store.c"
#undef main

/* -- the store -- */

static void
a_session_ends_after_fifteen_minutes_without_use(void)
{
        struct weir_config config = WEIR_CONFIG_DEFAULT;
        char id[ID_SIZE], user[USER_SIZE];

        config.clock = WEIR_CLOCK_VIRTUAL;
        CU_ASSERT(weir_init(&config) == 0);
        CU_ASSERT(session_open("anna", id) == 0);

        weir_clock_advance(WEIR_SEC(14 * 60));
        CU_ASSERT(session_use(id, user)); /* the fifteen minutes begin anew */
        CU_ASSERT_STRING_EQUAL(user, "anna");
        weir_clock_advance(WEIR_SEC(14 * 60));
        CU_ASSERT(session_use(id, user));

        weir_clock_advance(WEIR_SEC(15 * 60));
        CU_ASSERT(!session_use(id, user));
        weir_shutdown();
}

static void
a_logout_ends_one_session_at_once_and_no_other(void)
{
        char first[ID_SIZE], second[ID_SIZE], user[USER_SIZE];

        weir_test_begin_virtual();
        CU_ASSERT(session_open("anna", first) == 0);
        CU_ASSERT(session_open("anna", second) == 0);
        CU_ASSERT(session_close(first));
        CU_ASSERT(!session_use(first, user));
        CU_ASSERT(!session_close(first));
        CU_ASSERT(session_use(second, user));
        weir_test_end();
}

static void
a_session_that_is_used_at_the_last_moment_lives_on(void)
{
        char id[ID_SIZE], user[USER_SIZE];

        weir_test_begin_virtual();
        CU_ASSERT(session_open("anna", id) == 0);
        weir_test_pass(LIFETIME - 1);
        CU_ASSERT(session_use(id, user));
        weir_test_pass(LIFETIME - 1);
        CU_ASSERT(session_use(id, user));
        weir_test_pass(LIFETIME);
        CU_ASSERT(!session_use(id, user));
        weir_test_end();
}

static void
a_stranger_reaches_no_timer_but_sessions(void)
{
        char user[USER_SIZE];

        weir_test_begin_virtual();
        CU_ASSERT(weir_task_start(weir_timer_new_named("report", WEIR_SEC(3600), NULL, NULL)) == 0);
        CU_ASSERT(!session_use("report", user));
        CU_ASSERT(!session_close("report"));
        CU_ASSERT(!session_close("../report"));
        CU_ASSERT_EQUAL(weir_timer_count("report"), 1);
        weir_test_end();
}

static void
a_session_is_not_begun_during_a_shutdown(void)
{
        char id[ID_SIZE];

        weir_test_begin_virtual();
        weir_test_end();
        CU_ASSERT(session_open("anna", id) == -ESHUTDOWN);
}

/* -- over HTTP -- */

static struct http_reply reply;

/* Each on a connection of its own, as a kept one is closed after a minute. */
static int
ask(weir_http_server *server, const char *line, const char *cookie, const char *form)
{
        struct http_client client;
        char request[512];

        snprintf(request, sizeof request,
                 "%s HTTP/1.1\r\nHost: a\r\nCookie: session=%s\r\nContent-Length: %zu\r\n"
                 "Content-Type: application/x-www-form-urlencoded\r\n\r\n%s",
                 line, cookie, strlen(form), form);
        http_open(&client, weir_http_server_port(server));
        CU_ASSERT(http_ask(&client, request, &reply));
        http_close(&client);
        return reply.status;
}

static void
a_browser_logs_in_and_out(void)
{
        weir_http_router *router = weir_http_router_new();
        char id[ID_SIZE] = "", longest[5 + USER_SIZE + 1];

        snprintf(longest, sizeof longest, "user=%0*d", USER_SIZE, 0);
        weir_test_begin_virtual();
        CU_ASSERT(weir_http_router_add(router, "POST", "/login", on_login, NULL) == 0);
        CU_ASSERT(weir_http_router_add(router, "GET", "/me", on_me, NULL) == 0);
        CU_ASSERT(weir_http_router_add(router, "POST", "/logout", on_logout, NULL) == 0);
        weir_http_server *server = http_server(NULL, weir_http_router_handle, router);

        CU_ASSERT_EQUAL(ask(server, "GET /me", "none", ""), 401);
        CU_ASSERT_EQUAL(ask(server, "POST /login", "none", "name=anna"), 400);
        CU_ASSERT_EQUAL(ask(server, "POST /login", "none", "user="), 400);
        CU_ASSERT_EQUAL(ask(server, "POST /login", "none", "user=eve%0Aanna: session expired"), 400);
        CU_ASSERT_EQUAL(ask(server, "POST /login", "none", "user=eve%1B[2J"), 400);
        CU_ASSERT_EQUAL(ask(server, "POST /login", "none", "user=%7F"), 400);
        CU_ASSERT_EQUAL(ask(server, "POST /login", "none", longest), 400);
        longest[5 + USER_SIZE - 1] = '\0';
        CU_ASSERT_EQUAL(ask(server, "POST /login", "none", longest), 201);
        CU_ASSERT_EQUAL(ask(server, "POST /login", "none", "user=anna"), 201);
        const char *cookie = http_field(&reply, "Set-Cookie");
        CU_ASSERT_FATAL(cookie && sscanf(cookie, "session=%32[0-9a-f];", id) == 1);
        CU_ASSERT_PTR_NOT_NULL(strstr(cookie, "HttpOnly"));

        weir_test_pass(LIFETIME - 1);
        CU_ASSERT_EQUAL(ask(server, "GET /me", id, ""), 200);
        HTTP_ASSERT_TEXT(reply.body, "anna\n");
        program_catch();
        CU_ASSERT_EQUAL(ask(server, "POST /logout", id, ""), 200);
        weir_test_pass(0);
        CU_ASSERT_STRING_EQUAL(program_release(), "anna: cancelled\n");
        CU_ASSERT_EQUAL(ask(server, "GET /me", id, ""), 401);

        CU_ASSERT_EQUAL(weir_http_server_stop(server, WEIR_SEC(10)), 0);
        weir_http_server_free(server);
        weir_test_end();
        weir_http_router_free(router);
        http_reply_done(&reply);
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(a_session_ends_after_fifteen_minutes_without_use),
                WEIR_TEST(a_logout_ends_one_session_at_once_and_no_other),
                WEIR_TEST(a_session_that_is_used_at_the_last_moment_lives_on),
                WEIR_TEST(a_stranger_reaches_no_timer_but_sessions),
                WEIR_TEST(a_session_is_not_begun_during_a_shutdown),
                WEIR_TEST(a_browser_logs_in_and_out),
        };

        return weir_test_main("example_session_store", tests, sizeof tests / sizeof *tests);
}
