/* Durable timers in a database of PostgreSQL, on the virtual clock. */
#include <stdatomic.h>

#include <weir/parallel.h>

#include "durable/engine/engine.h"

static bool is_connecting(const struct weir__durable_engine *engine);

#define OUTSIDE_CONNECTS(engine) is_connecting(engine)
#include "test/addon/durable_outside.h"
#include "test/addon/durable_pq.h"

#define listen attend_to /* <sys/socket.h> has another one */

#define ENGINE_URL(number) snprintf(url, sizeof url, "%.*s", (number) < 0 ? 0 : 180, pq_url())
#define NOWHERE_URL        "postgresql://weir@/postgres?host=/nonexistent"
#define MORE_TESTS                                                                                                            \
        WEIR_TEST(a_database_that_is_not_there_fails_the_operation), WEIR_TEST(tables_are_made_by_several_nodes_at_once),     \
                WEIR_TEST(a_foreign_table_is_refused), WEIR_TEST(tables_of_another_version_are_refused),                      \
                WEIR_TEST(a_user_without_the_right_is_told), WEIR_TEST(sets_of_a_name_at_once_have_generations_of_their_own), \
                WEIR_TEST(operations_on_a_name_at_once_all_end), WEIR_TEST(names_and_payloads_may_be_any_bytes),              \
                WEIR_TEST(both_schemes_are_known), WEIR_TEST(operations_that_have_to_wait_keep_their_order),

static void a_database_that_is_not_there_fails_the_operation(void);
static void tables_are_made_by_several_nodes_at_once(void);
static void a_foreign_table_is_refused(void);
static void tables_of_another_version_are_refused(void);
static void a_user_without_the_right_is_told(void);
static void sets_of_a_name_at_once_have_generations_of_their_own(void);
static void operations_on_a_name_at_once_all_end(void);
static void names_and_payloads_may_be_any_bytes(void);
static void both_schemes_are_known(void);
static void operations_that_have_to_wait_keep_their_order(void);

static bool
is_connecting(const struct weir__durable_engine *engine)
{
        const struct {
                struct weir__durable_engine base;
                weir_pq *pool;
        } *own = (const void *)engine; /* how durable/engine/pq.c begins its own */
        struct weir_pq_stats stats = WEIR_PQ_STATS_DEFAULT;

        return weir_pq_stats(own->pool, &stats) == 0 && stats.connecting > 0;
}

#define weir_durable_open(url) outside(weir_durable_open(url))
#include "test/addon/durable_cases.h"
#undef weir_durable_open

/* Before any thread is there. */
__attribute__((constructor)) static void
start_server(void)
{
        if (pq_start())
                return;
        printf("PostgreSQL is not installed: durable timers in it are skipped\n");
        exit(77);
}

static char problem[200];

static void
note_problem(weir_task *task, void *context)
{
        const char *words = weir_durable_problem(task);

        (void)context;
        CU_ASSERT_EQUAL(words == NULL, weir_task_status(task) == 0);
        snprintf(problem, sizeof problem, "%s", words ? words : "");
}

static int
set_one(weir_durable *store)
{
        return weir_task_run(weir_durable_set_after_new(store, "a", 0, "topic", NULL, 0, note_problem, NULL));
}

/* A statement of the test in the schema of the URL. */
static void
change_schema(const char *sql)
{
        char text[300];

        snprintf(text, sizeof text, "SET search_path = %s; %s", strstr(url, "search_path%3D") + strlen("search_path%3D"), sql);
        server_ask(text);
}

static void
a_database_that_is_not_there_fails_the_operation(void)
{
        begin();
        snprintf(url, sizeof url, "postgresql://weir@/nowhere?host=%s&port=%d", server.directory, server.port);
        weir_durable *store = open_store();
        CU_ASSERT(set_one(store) == -ECONNREFUSED && strstr(problem, "nowhere"));
        listen(store);
        server_ask("CREATE DATABASE nowhere");
        weir_clock_advance(WEIR_SEC(10));
        CU_ASSERT(set_one(store) == 0 && strcmp(problem, "") == 0);
        weir_clock_advance(0);
        CU_ASSERT(got.count == 1);
        end(store);
}

static void
tables_are_made_by_several_nodes_at_once(void)
{
        weir_durable *stores[6];
        weir_task *all;

        begin();
        all = weir_parallel_new(NULL, NULL);
        for (int i = 0; i < 6; i++) {
                char name[20];

                snprintf(name, sizeof name, "%d", i);
                stores[i] = open_store();
                weir_parallel_add(all, weir_durable_set_after_new(stores[i], name, HOUR, "topic", NULL, 0, NULL, NULL));
        }
        CU_ASSERT(weir_task_run(all) == 0);
        CU_ASSERT(weir_task_run(weir_durable_count_new(stores[0], "", look, NULL)) == 0 && seen.counted[0] == 6);
        for (int i = 0; i < 5; i++)
                weir_durable_close(stores[i]);
        end(stores[5]);
}

static void
a_foreign_table_is_refused(void)
{
        begin();
        change_schema("CREATE TABLE weir_durable(x integer)");
        weir_durable *store = open_store();
        CU_ASSERT(set_one(store) == -EEXIST && strstr(problem, "not one of libweir-durable"));
        change_schema("DROP TABLE weir_durable");
        CU_ASSERT(set_one(store) == 0);
        end(store);
}

static void
tables_of_another_version_are_refused(void)
{
        begin();
        change_schema("CREATE TABLE weir_durable_version(version integer); INSERT INTO weir_durable_version VALUES (2)");
        weir_durable *store = open_store();
        CU_ASSERT(set_one(store) == -ENOTSUP && strstr(problem, "another version"));
        end(store);
}

static void
a_user_without_the_right_is_told(void)
{
        begin();
        server_ask("CREATE ROLE nobody LOGIN");
        char other[240];
        char sql[100];
        snprintf(sql, sizeof sql, "GRANT USAGE ON SCHEMA %s TO nobody", strstr(url, "search_path%3D") + strlen("search_path%3D"));
        server_ask(sql);
        snprintf(other, sizeof other, "postgresql://nobody%s", strstr(url, "@"));
        weir_durable *store = outside(weir_durable_open(other));
        CU_ASSERT(set_one(store) == -EACCES && strstr(problem, "permission denied"));
        end(store);
}

static uint64_t generations[100];

static void
note_generation(weir_task *task, void *generation)
{
        *(uint64_t *)generation = weir_durable_generation(task);
}

static int
compare_generations(const void *a, const void *b)
{
        return *(const uint64_t *)a < *(const uint64_t *)b ? -1 : *(const uint64_t *)a > *(const uint64_t *)b;
}

static void
sets_of_a_name_at_once_have_generations_of_their_own(void)
{
        begin();
        weir_durable *store = open_store();
        weir_task *all = weir_parallel_new(NULL, NULL);

        for (int i = 0; i < 100; i++)
                weir_parallel_add(
                        all, weir_durable_set_after_new(store, "a", HOUR + i, "topic", "x", 1, note_generation, &generations[i]));
        CU_ASSERT(weir_task_run(all) == 0);
        qsort(generations, 100, sizeof *generations, compare_generations);
        for (int i = 0; i < 100; i++)
                CU_ASSERT(generations[i] > (i ? generations[i - 1] : 0));
        CU_ASSERT(get(store, "a") == 0 && seen.info.generation == generations[99]);
        end(store);
}

static atomic_int ended, cancelled;

static void
note_end(weir_task *task, void *context)
{
        (void)context;
        CU_ASSERT(weir_task_status(task) == 0 || weir_task_status(task) == -ENOENT);
        atomic_fetch_add(&ended, 1);
        atomic_fetch_add(&cancelled, weir_durable_cancelled(task));
}

static void
operations_on_a_name_at_once_all_end(void)
{
        begin();
        weir_durable *store = open_store();
        weir_task *all = weir_parallel_new(NULL, NULL);

        CU_ASSERT(set(store, "a", HOUR, "x") == 0);
        for (int i = 0; i < 20; i++) {
                weir_parallel_add(all, weir_durable_schedule_new(store, "job", i % 2 ? "@daily" : "@hourly", "UTC",
                                                                 WEIR_DURABLE_ALL, "t", NULL, 0, note_end, NULL));
                weir_parallel_add(all, weir_durable_get_new(store, "a", note_end, NULL));
                weir_parallel_add(all, weir_durable_extend_new(store, "a", 1, note_end, NULL));
                weir_parallel_add(all, weir_durable_cancel_new(store, "a", note_end, NULL));
        }
        weir_task_run(all);
        CU_ASSERT(atomic_load(&ended) == 80 && atomic_load(&cancelled) == 1);
        CU_ASSERT(get(store, "job") == 0 && get(store, "a") == -ENOENT);
        end(store);
}

static void
names_and_payloads_may_be_any_bytes(void)
{
        static char payload[WEIR_DURABLE_PAYLOAD_MAX];
        char name[256];

        begin();
        weir_durable *store = open_store();
        for (int i = 0; i < 255; i++)
                name[i] = (char)(i + 1);
        name[255] = '\0';
        for (size_t i = 0; i < sizeof payload; i++)
                payload[i] = (char)i;
        CU_ASSERT(weir_task_run(weir_durable_set_after_new(store, name, HOUR, name, payload, sizeof payload, look, NULL)) == 0);
        CU_ASSERT(weir_task_run(weir_durable_get_new(store, name, look, NULL)) == 0 && seen.info.payload_size == sizeof payload);
        CU_ASSERT(weir_task_run(weir_durable_list_new(store, "\x01\x02", NULL, 10, look, NULL)) == 0);
        CU_ASSERT_STRING_EQUAL(seen.names, name);
        CU_ASSERT(cancel(store, name) == 1);
        end(store);
}

static void
both_schemes_are_known(void)
{
        char other[240];

        begin();
        weir_durable *store = open_store();
        snprintf(other, sizeof other, "postgres:%s", url + strlen("postgresql:"));
        weir_durable *same = outside(weir_durable_open(other));
        CU_ASSERT(set(store, "a", HOUR, "x") == 0 && get(same, "a") == 0);
        weir_durable_close(same);
        CU_ASSERT(weir_durable_open("postgresql://host/?nonsense=1") == NULL && errno == EINVAL);
        CU_ASSERT(weir_durable_open("postgresql:") == NULL && errno == EINVAL);
        end(store);
}

static void
on_reset(struct weir__durable_op *op)
{
        weir_waitgroup_done(op->owner);
}

/* Of each name a call has one operation, and the others wait. */
static void
operations_that_have_to_wait_keep_their_order(void)
{
        struct weir__durable_op *ops[5];

        begin();
        CU_ASSERT(weir_shutdown() == 0 && weir_init(NULL) == 0);
        weir_durable *store = weir_durable_open_with(NULL, url);
        weir_waitgroup *group = weir_waitgroup_new();
        CU_ASSERT(set(store, "a", HOUR, "x") == 0);
        weir_waitgroup_add(group, 5);
        for (int i = 0; i < 5; i++) {
                ops[i] = weir__durable_op_new(WEIR__DURABLE_EXTEND, &(struct weir__durable_texts){.name = "a"});
                CU_ASSERT_PTR_NOT_NULL_FATAL(ops[i]);
                ops[i]->is_relative = true;
                ops[i]->at = (i + 1) * HOUR;
                ops[i]->as_if_now = 1;
                ops[i]->ended = on_reset;
                ops[i]->owner = group;
                weir__durable_submit(store, ops[i]);
        }
        CU_ASSERT(weir_waitgroup_wait(group, WEIR_FOREVER) == 0);
        CU_ASSERT(get(store, "a") == 0 && seen.info.due == 5 * HOUR + 1);
        for (int i = 0; i < 5; i++)
                weir__durable_op_free(ops[i]);
        weir_waitgroup_free(group);
        end(store);
}
