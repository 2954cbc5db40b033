/* The command weir-durable. */
#include <sys/stat.h>

#include "test/addon/durable_outside.h"
#include "test/addon/durable_url.h"
#include "test/addon/redis_server.h"
#include "test/examples/program.h"

#include "durable/command/weir-durable.c"
#undef main

static char url[200];

/* Runs the command with up to three words.  What it prints is in `printed`. */
static const char *printed;

static int
command(const char *one, const char *two, const char *three)
{
        char *words[] = {(char *)"weir-durable", url, (char *)one, (char *)two, (char *)three, NULL};
        int count = three ? 5 : two ? 4 : one ? 3 : 2;

        weir_init(NULL); /* the program ends it */
        program_catch();
        int result = program_main(count, words);
        printed = program_release();
        return result;
}

static void
fail(weir_task *delivery, void *context)
{
        (void)context;
        weir_series_fail(weir_series_of(delivery), -EIO);
}

/* A timer that is dead, one that waits, and a schedule. */
static void
fill(const char *where)
{
        struct weir_durable_config config = WEIR_DURABLE_CONFIG_DEFAULT;
        struct weir_durable_stats stats = WEIR_DURABLE_STATS_DEFAULT;

        snprintf(url, sizeof url, "%s", where);
        config.attempts = 1;
        CU_ASSERT_FATAL(weir_init(NULL) == 0);
        weir_durable *filled = weir_durable_open_with(&config, url);
        CU_ASSERT_FATAL(weir_durable_on(filled, "mail", fail, NULL) == 0);
        CU_ASSERT(weir_task_run(weir_durable_set_new(filled, "mail/1", 0, "mail", "to anna", 7, NULL, NULL)) == 0);
        CU_ASSERT(weir_task_run(weir_durable_set_new(filled, "mail/\033[2J\xc2\x9b\x31m\xc3\xbc\xff", WEIR_SEC(3786912000),
                                                     "other", "x", 1, NULL, NULL)) == 0);
        CU_ASSERT(weir_task_run(weir_durable_schedule_new(filled, "job", "@daily", "UTC", WEIR_DURABLE_SKIP, "jobs", NULL, 0,
                                                          NULL, NULL)) == 0);
        WEIR_TEST_EVENTUALLY(weir_durable_stats(filled, &stats) == 0 && stats.dead == 1);
        weir_durable_close(filled);
        weir_shutdown();
}

static void
list_count_and_change(const char *where)
{
        fill(where);
        CU_ASSERT(command("list", NULL, NULL) == 0);
        CU_ASSERT_PTR_NOT_NULL(strstr(printed, "1970-01-01T00:00:00Z  dead      1  mail  mail/1  (Input/output error)\n"));
        CU_ASSERT_PTR_NOT_NULL(
                strstr(printed, "2090-01-01T00:00:00Z  pending   0  other  mail/\\x1b[2J\\xc2\\x9b1m\xc3\xbc\\xff\n"));
        CU_ASSERT_PTR_NOT_NULL(strstr(printed, "pending   0  jobs  job\n"));
        CU_ASSERT(command("list", "mail/", NULL) == 0 && !strstr(printed, "job"));
        CU_ASSERT(command("dead", NULL, NULL) == 0);
        CU_ASSERT(strstr(printed, "mail/1") && !strstr(printed, "other"));
        CU_ASSERT(command("count", "mail/", NULL) == 0);
        CU_ASSERT_STRING_EQUAL(printed, "1 pending, 0 leased, 1 dead\n");

        CU_ASSERT(command("show", "mail/1", "job") == 0);
        CU_ASSERT(strstr(printed, "state      dead, attempt 1") && strstr(printed, "payload    to anna\n"));
        CU_ASSERT(strstr(printed, "schedule   @daily\n") != NULL);
        CU_ASSERT(command("cancel", "job", NULL) == 0 && command("cancel", "job", "mail/1") == 1);
        CU_ASSERT(command("put-back", "mail/1", NULL) == 0 && command("put-back", "mail/1", NULL) == 1);
        CU_ASSERT(command("count", NULL, NULL) == 0);
        CU_ASSERT_STRING_EQUAL(printed, "2 pending, 0 leased, 0 dead\n");
        CU_ASSERT(command("forget", "mail/1", NULL) == 1 && command("cancel", "mail/1", NULL) == 0);
        CU_ASSERT(command("show", "mail/1", NULL) == 1);
}

static void
timers_are_listed_counted_and_changed(void)
{
        list_count_and_change(sqlite_url());
}

static void
so_are_those_in_redis(void)
{
        char where[60];

        if (!redis_is_installed() || !outside_is_built("redis://127.0.0.1"))
                return;
        struct redis_server server = {0};
        redis_start(&server, "");
        snprintf(where, sizeof where, "redis://127.0.0.1:%d/3", server.port);
        list_count_and_change(where);
        redis_stop(&server);
        CU_ASSERT(command("list", NULL, NULL) == 1);
}

static void
what_is_wrong_is_said(void)
{
        snprintf(url, sizeof url, "%s", sqlite_url());
        CU_ASSERT(command(NULL, NULL, NULL) == 2 && command("dance", NULL, NULL) == 2 && command("show", NULL, NULL) == 2);
        CU_ASSERT(command("list", "a", "b") == 2);
        snprintf(url, sizeof url, "oracle:x");
        CU_ASSERT(command("list", NULL, NULL) == 1);
        snprintf(url, sizeof url, "sqlite:/nowhere/timers.db");
        CU_ASSERT(command("list", NULL, NULL) == 1);
        CU_ASSERT(command("watch", NULL, NULL) == 1);
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(timers_are_listed_counted_and_changed),
                WEIR_TEST(so_are_those_in_redis),
                WEIR_TEST(what_is_wrong_is_said),
        };

        return weir_test_main("weir-durable", tests, sizeof tests / sizeof *tests);
}
