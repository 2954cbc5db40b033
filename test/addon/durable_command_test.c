/* The command weir-durable. */
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

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

/* -- watch: a process of its own -- */

/* Starts this program as the command. */
static pid_t
start_watch(const char *prefix, FILE *said)
{
        char *words[] = {(char *)"weir-durable", url, (char *)"watch", (char *)prefix, NULL};

        fflush(NULL);
        pid_t pid = fork();
        if (pid == 0) {
                prctl(PR_SET_PDEATHSIG, SIGKILL);
                signal(SIGINT, SIG_DFL); /* a job in the background of a shell ignores it */
                dup2(fileno(said), STDOUT_FILENO);
                execv("/proc/self/exe", words);
                _exit(127);
        }
        CU_ASSERT_FATAL(pid > 0);
        return pid;
}

/* Whether the last line is that one. */
static bool
says(FILE *said, const char *line)
{
        char text[100];
        struct stat status;
        off_t size = (off_t)strlen(line);

        return fstat(fileno(said), &status) == 0 && status.st_size >= size &&
               pread(fileno(said), text, (size_t)size, status.st_size - size) == size && memcmp(text, line, (size_t)size) == 0;
}

/* The handler of a timer that is leased until the test lets it fail. */
static void
hold(weir_task *delivery, void *context)
{
        weir_series_push(weir_series_of(delivery), weir_timer_new_named("held", WEIR_FOREVER, fail, context));
}

static void
a_watch_sees_what_other_processes_do_until_it_is_interrupted(void)
{
        struct weir_durable_config config = WEIR_DURABLE_CONFIG_DEFAULT;
        FILE *said = tmpfile();
        int status;

        config.attempts = 1;
        snprintf(url, sizeof url, "%s", sqlite_url());
        pid_t watch = start_watch("mail/", said);
        CU_ASSERT_FATAL(weir_init(NULL) == 0);
        weir_durable *other = weir_durable_open_with(&config, url);
        CU_ASSERT_PTR_NOT_NULL_FATAL(other);
        WEIR_TEST_EVENTUALLY(says(said, "0 pending, 0 leased, 0 dead\n"));
        CU_ASSERT(weir_task_run(weir_durable_set_new(other, "job", 0, "other", "x", 1, NULL, NULL)) == 0);
        CU_ASSERT(weir_task_run(weir_durable_set_new(other, "mail/1", 0, "mail", "x", 1, NULL, NULL)) == 0);
        WEIR_TEST_EVENTUALLY(says(said, "1 pending, 0 leased, 0 dead\n"));
        CU_ASSERT(weir_durable_on(other, "mail", hold, NULL) == 0);
        WEIR_TEST_EVENTUALLY(says(said, "0 pending, 1 leased, 0 dead\n"));
        CU_ASSERT(weir_timer_cancel("held", WEIR_ALL) == 1);
        WEIR_TEST_EVENTUALLY(says(said, "0 pending, 0 leased, 1 dead\n"));
        CU_ASSERT(weir_task_run(weir_durable_forget_new(other, "mail/1", NULL, NULL)) == 0);
        WEIR_TEST_EVENTUALLY(says(said, "0 pending, 0 leased, 0 dead\n"));
        CU_ASSERT(kill(watch, SIGINT) == 0);
        CU_ASSERT(waitpid(watch, &status, 0) == watch && WIFSIGNALED(status) && WTERMSIG(status) == SIGINT);
        weir_durable_close(other);
        weir_shutdown();
        fclose(said);
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
main(int argc, char **argv)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(timers_are_listed_counted_and_changed),
                WEIR_TEST(so_are_those_in_redis),
                WEIR_TEST(a_watch_sees_what_other_processes_do_until_it_is_interrupted),
                WEIR_TEST(what_is_wrong_is_said),
        };

        if (strcmp(argv[0], "weir-durable") == 0) /* start_watch */
                return program_main(argc, argv);
        return weir_test_main("weir-durable", tests, sizeof tests / sizeof *tests);
}
