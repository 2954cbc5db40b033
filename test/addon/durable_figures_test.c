/* test/addon/durable_figures_test.c: the figures of stores, and of databases of SQLite, among all others. */
#include <errno.h>
#include <sys/wait.h>

#include <weir/durable.h>
#include <weir/sqlite.h>
#include <weir/weir.h>

#include "test/fixture.h"
#include "test/metrics_form.h"

static double
figure(const char *name, const char *store)
{
        char sample[160];

        snprintf(sample, sizeof sample, "weir_durable_%s{store=\"%s\"}", name, store);
        return seen(sample);
}

static void
fail(weir_task *delivery, void *context)
{
        (void)context;
        weir_series_fail(weir_series_of(delivery), -EIO);
}

static void
stores_count_what_they_do(void)
{
        struct weir_durable_config config = WEIR_DURABLE_CONFIG_DEFAULT;

        weir_test_begin_virtual();
        CU_ASSERT_EQUAL(weir_metrics_add(weir_durable_metrics_write), 0);
        config.attempts = 3;
        weir_durable *store = weir_durable_open_with(&config, "memory:mails"), *same = weir_durable_open("memory:mails");
        look();
        check_form(90);
        CU_ASSERT(figure("operations_total", "memory:mails") == 0);
        weir_task_run(weir_durable_set_after_new(store, "mail/1", 0, "mail", NULL, 0, NULL, NULL));
        weir_task_run(weir_durable_set_after_new(store, "", 0, "mail", NULL, 0, NULL, NULL));
        weir_task_run(weir_durable_get_new(same, "mail/1", NULL, NULL));
        weir_durable_on(store, "mail", fail, NULL);
        weir_clock_advance(WEIR_SEC(60));
        look();
        check_form(90);
        CU_ASSERT(figure("operations_total", "memory:mails") == 1);
        CU_ASSERT(figure("claimed_total", "memory:mails") == 3 && figure("retried_total", "memory:mails") == 2);
        CU_ASSERT(figure("dead_total", "memory:mails") == 1 && figure("running", "memory:mails") == 0);
        CU_ASSERT(figure("looks_total", "memory:mails") > 2);
        CU_ASSERT(figure("operations_total", "memory:mails#2") == 1 && figure("claimed_total", "memory:mails#2") == 0);
        weir_durable_close(same);
        weir_durable_close(store);
        weir_test_end(); /* timers have references to their stores */
        look();
        check_form(60);
        CU_ASSERT(figure("operations_total", "memory:mails") == -1);
}

/* Where an engine is not built there is no such store. */
static void
secrets_of_urls_are_not_written(void)
{
        static const char *const urls[][2] = {
                {"redis://who:secret@127.0.0.1:1/2", "redis://127.0.0.1:1/2"},
                {"redis://:s%40cr@secret@127.0.0.1:1", "redis://127.0.0.1:1"},
                {"unix://who:secret@/tmp/socket?db=secret", "unix:///tmp/socket"},
                {"postgresql://who:secret@127.0.0.1:1/db?password=secret", "postgresql://127.0.0.1:1/db"},
                {"postgres://127.0.0.1:1/db?password=secret@", "postgres://"},
        };

        weir_test_begin_real(1);
        weir_log_set(NULL, NULL);
        for (size_t i = 0; i < sizeof urls / sizeof *urls; i++) {
                weir_durable *store = weir_durable_open(urls[i][0]);

                if (!store)
                        continue;
                look();
                check_form(90);
                CU_ASSERT(figure("operations_total", urls[i][1]) == 0);
                CU_ASSERT_PTR_NULL(strstr(metrics_text, "secret"));
                weir_durable_close(store);
        }
        weir_test_end();
}

static void
databases_count_what_they_do(void)
{
        weir_test_begin_real(1);
        weir_sqlite *db = weir_sqlite_new(":memory:", NULL);
        CU_ASSERT_EQUAL(weir_metrics_add(weir_sqlite_metrics_write), 0);
        look();
        check_form(90);
        CU_ASSERT(seen("weir_sqlite_writes_total{database=\":memory:\"}") == 0);
        CU_ASSERT_EQUAL(weir_task_run(weir_sqlite_exec_new(db, "CREATE TABLE t(a)", NULL, NULL)), 0);
        CU_ASSERT_EQUAL(weir_task_run(weir_sqlite_query_new(db, "SELECT 7 UNION SELECT 8", NULL, NULL)), 0);
        look();
        check_form(90);
        CU_ASSERT(seen("weir_sqlite_writes_total{database=\":memory:\"}") == 1);
        CU_ASSERT(seen("weir_sqlite_rows_total{database=\":memory:\"}") == 2);
        CU_ASSERT(seen("weir_sqlite_connections{database=\":memory:\"}") == 1);
        CU_ASSERT(seen("weir_sqlite_commit_seconds_total{database=\":memory:\"}") > 0);
        weir_sqlite_unref(db);
        weir_test_end();
}

static void
a_child_has_no_stores_of_its_parent(void)
{
        int status = -1;

        weir_test_begin_real(1);
        weir_durable *store = weir_durable_open("memory:parent");
        pid_t child = fork();
        if (child == 0)
                _exit(weir_durable_metrics_write(STDOUT_FILENO) == -ECHILD ? 0 : 1);
        CU_ASSERT(waitpid(child, &status, 0) == child && status == 0);
        CU_ASSERT_EQUAL(weir_durable_metrics_write(-1), -EBADF);
        weir_durable_close(store);
        weir_test_end();
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(stores_count_what_they_do),
                WEIR_TEST(secrets_of_urls_are_not_written),
                WEIR_TEST(databases_count_what_they_do),
                WEIR_TEST(a_child_has_no_stores_of_its_parent),
        };
        int result = weir_test_main("figures of durable timers", tests, sizeof tests / sizeof *tests);

        free(metrics_text);
        return result;
}
