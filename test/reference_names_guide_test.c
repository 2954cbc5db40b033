/* test/reference_names_guide_test.c: the examples of the reference for weir/resolve.h, and of docs/names.md. */
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include <weir/weir.h>

#include "test/support.h"

/* -- weir/resolve.h -- */

static char seen[500];
static _Atomic bool is_freed;

static void
note_freed(void *context)
{
        (void)context;
        atomic_store(&is_freed, true);
}

/* The addresses of a host, one in a line. */
static void
show(weir_task *resolve, void *context)
{
        char *out = context, text[WEIR_RESOLVE_TEXT];

        if (weir_task_status(resolve) != 0)
                strcpy(out, weir_resolve_problem(resolve));
        for (unsigned i = 0; i < weir_resolve_count(resolve); i++) {
                weir_resolve_write(resolve, i, text, sizeof text);
                strcat(out, text);
                strcat(out, "\n");
        }
}

/* The family of the first address. */
static void
take_first(weir_task *resolve, void *context)
{
        socklen_t size;
        const struct sockaddr *first = weir_resolve_address(resolve, 0, &size);

        *(int *)context = first ? first->sa_family : AF_UNSPEC;
}

/* A program that knows some names itself. */
static int
know(const char *host, int family, weir_resolver_reply *reply, void *context)
{
        (void)family;
        if (strcmp(host, "backend.internal") != 0)
                return WEIR_RESOLVER_PASS;
        weir_resolver_reply_add(reply, context);
        weir_resolver_reply_keep(reply, WEIR_SEC(10));
        return 0;
}

static void
the_program_answers(void)
{
        struct weir_resolver_config config = WEIR_RESOLVER_CONFIG_DEFAULT;

        config.answer = know;
        config.context = "192.0.2.10";
        config.on_free = note_freed;
        CU_ASSERT_EQUAL(weir_resolver_configure(&config), 0);
        weir_task_run(weir_resolve_new("backend.internal", 0, show, seen));
        CU_ASSERT_STRING_EQUAL(seen, "192.0.2.10\n");

        int family = 0;
        weir_task_run(weir_resolve_new("backend.internal", AF_INET, take_first, &family));
        CU_ASSERT_EQUAL(family, AF_INET);

        struct weir_resolver_stats stats;
        weir_resolver_stats(&stats);
        CU_ASSERT_EQUAL(stats.entries, 2); /* one for each question */
        weir_resolver_flush();
        CU_ASSERT_EQUAL(weir_resolver_configure(NULL), 0);
        WEIR_TEST_EVENTUALLY(atomic_load(&is_freed));
}

static void
servers_are_set(void)
{
        struct weir_resolver_config config = WEIR_RESOLVER_CONFIG_DEFAULT;

        config.mode = WEIR_RESOLVER_DNS;
        config.servers = "127.0.0.1:1";
        config.timeout = WEIR_MSEC(200);
        config.tries = 2;
        config.names = 10000;
        config.max_keep = WEIR_SEC(600);
        CU_ASSERT_EQUAL(weir_resolver_configure(&config), 0);

        char problem[500] = "";
        weir_task_run(weir_resolve_new("x.test", 0, show, problem));
        CU_ASSERT_STRING_EQUAL(problem, "no answer for \"x.test\" from 127.0.0.1:1");
        CU_ASSERT_EQUAL(weir_resolver_configure(NULL), 0);
        weir_shutdown();
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(the_program_answers),
                WEIR_TEST(servers_are_set),
        };

        return weir_test_main("reference_names_guide", tests, sizeof tests / sizeof *tests);
}
