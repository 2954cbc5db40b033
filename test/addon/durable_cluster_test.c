/* Five nodes of one engine, that are killed and stopped, whose connections are cut and delayed, whose clocks are wrong, and whose
 * engine is killed and started again, all at random: durable_nodes.h.  In the end a last node delivers what is left, and the
 * history is judged: durable_checker.h.
 *
 *     durable_cluster_test        some seconds for each engine, as in CI
 *     durable_cluster_test 10     ten minutes for each; WEIR_TEST_FILTER takes one of them */
#include "test/addon/durable_servers.h"

static int minutes;

static void
torment_nodes(const struct engine *engine)
{
        char first[20];

        begin_world(engine, WEIR_MSEC(800));
        if (engine->start && !world.port) {
                printf("%s is not installed: it is left out\n", engine->name);
                return;
        }
        world.minutes = minutes;
        if (!WEIR_TEST_SANITIZED) { /* whose own library has to come first */
                world.shim = CLOCK_SHIFT;
                world.clock_most = engine->start ? WEIR_SEC(300) : 0;
                world.shift = engine->start ? 0 : WEIR_SEC(300); /* its time is that of the machine */
                set_clocks();
        }
        snprintf(first, sizeof first, "first%d", minutes ? minutes * 400 : 300);
        CU_ASSERT_FATAL(run_node(first) == 0);
        torment(NODES, WEIR_SEC(4), WEIR_MSEC(1000), WEIR_SEC(16));
        judge_world();
        end_world();
}

static void
sqlite_keeps_the_promises(void)
{
        torment_nodes(&sqlite_engine);
}

#ifdef WEIR_HAS_PQ
static void
postgresql_keeps_the_promises(void)
{
        torment_nodes(&postgresql_engine);
}
#endif

#ifdef DURABLE_HAS_REDIS
static void
redis_keeps_the_promises(void)
{
        torment_nodes(&redis_engine);
}
#endif

int
main(int argc, char **argv)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(sqlite_keeps_the_promises),
#ifdef WEIR_HAS_PQ
                WEIR_TEST(postgresql_keeps_the_promises),
#endif
#ifdef DURABLE_HAS_REDIS
                WEIR_TEST(redis_keeps_the_promises),
#endif
        };

        if (argc == NODE_ARGUMENTS && strcmp(argv[1], "node") == 0)
                return be_a_node(argv);
        minutes = argc > 1 ? atoi(argv[1]) : 0;
        setenv("WEIR_TEST_LIMIT", minutes ? "0" : DURABLE_LIMIT, minutes != 0);
        return weir_test_main("durable timers of five nodes", tests, sizeof tests / sizeof *tests);
}
