/* test/interleave_flow_test.c: graphs, races, repeaters and timeouts in a series that a cancel by name and a deadline end while
 * they begin, go on and end, in hundreds of orders that seeds make (interleave.h).
 *
 * The waits there have no limit.  So a lost notification is seen: no thread can go on then.  A use of freed memory is seen, too,
 * and so is memory that is not given back. */
#include <errno.h>
#include <string.h>

#include <weir/weir.h>

#include "factory/task/series.h"
#include "test/support.h"

#define SEEDS (WEIR_TEST_SANITIZED ? 300 : 1500) /* of a scenario */

enum { MOST = 64 };

static struct {
        weir_series *series;
        unsigned made; /* tasks with a callback, by main */
        _Atomic unsigned calls, frees, cancelled, rounds;
        _Atomic int statuses[MOST]; /* that callbacks saw */
        _Atomic int status;         /* of the series, in its callback */
        _Atomic bool ended;
} run;

static void
note(weir_task *task, void *context)
{
        (void)context;
        unsigned call = run.calls++;

        INTERLEAVE_EXPECT(call < MOST);
        run.statuses[call] = weir_task_status(task);
}

static void
note_free(void *context)
{
        (void)context;
        run.frees++;
}

/* Where its steps are made is left to chance: so what it does and what ends it meet on two workers. */
static weir_task *
anywhere(weir_task *task)
{
        task->poller = (uint8_t)interleave_random(2);
        return task;
}

static weir_task *
noted(weir_task *task)
{
        run.made++;
        weir_task_on_free(task, note_free);
        return anywhere(task);
}

static weir_task *
endless(void)
{
        return noted(weir_timer_new(WEIR_FOREVER, note, NULL));
}

/* A timer's end is seen by the worker of its poller, and so is what comes after it; an empty task is done where it is started. */
static weir_task *
short_one(void)
{
        return noted(interleave_random(3) ? weir_timer_new(0, note, NULL) : weir_empty_new(note, NULL));
}

static weir_task *
make_round(void *context)
{
        (void)context;
        return run.rounds++ < 3 ? anywhere(weir_empty_new(NULL, NULL)) : anywhere(weir_timer_new(WEIR_FOREVER, NULL, NULL));
}

static weir_task *
race_of_two(void)
{
        weir_task *race = weir_race_new(note, NULL);

        weir_race_add(race, endless());
        weir_race_add(race, endless());
        return noted(race);
}

/* Ends by its limit alone, which is that of the series as well, if at all. */
static weir_task *
timeout_of_one(void)
{
        return anywhere(weir_timeout_new(endless(), WEIR_FOREVER));
}

static weir_task *
any_task(void)
{
        switch (interleave_random(6)) {
        case 0: return race_of_two();
        case 1: return noted(weir_repeater_new(make_round, note, NULL));
        case 2: return timeout_of_one();
        case 3: return endless();
        default: return short_one();
        }
}

/* The first nodes end by themselves, so that others begin while the end of the series comes. */
static weir_task *
any_graph(void)
{
        weir_task *graph = weir_graph_new(note, NULL);
        weir_node *nodes[5];

        if (interleave_random(2))
                weir_graph_stop_on_failure(graph);

        for (unsigned i = 0; i < 5; i++) {
                nodes[i] = weir_graph_add(graph, i < 2 ? short_one() : any_task(), NULL);
                weir_node_set_policy(nodes[i], interleave_random(2) ? WEIR_NODE_CANCEL : WEIR_NODE_GO_ON);
                if (i > 0)
                        weir_graph_precede(nodes[interleave_random(i)], nodes[i]);
        }
        return noted(graph);
}

static void
see_the_end(weir_series *series, void *context)
{
        (void)context;
        run.status = weir_series_status(series);
        run.ended = true;
}

static void
run_the_series(void *unused)
{
        (void)unused;
        INTERLEAVE_EXPECT(weir_series_run(run.series) == run.status);
}

static void
cancel_by_name(void *unused)
{
        (void)unused;
        run.cancelled += (unsigned)weir_series_cancel_named("flow", WEIR_ALL);
}

static void
cancel_for_sure(void *unused)
{
        (void)unused;
        while (!run.ended && weir_series_status(run.series) == 0) {
                cancel_by_name(NULL);
                interleave_step(NULL, 0, "look", __func__, __LINE__);
        }
}

static void
end_in_time(void *unused)
{
        (void)unused;
        weir_nsec left = weir_series_time_left(run.series);

        INTERLEAVE_EXPECT(left >= 0);
        weir_series_set_deadline(run.series, interleave_random(2) ? 0 : 1);
}

static void
set_far_and_near(void *unused)
{
        (void)unused;
        weir_series_set_deadline(run.series, WEIR_SEC(1000));
        weir_series_set_deadline(run.series, 1000);
}

static void
begin(void)
{
        struct weir_config config = WEIR_CONFIG_DEFAULT;

        memset(&run, 0, sizeof run);
        config.pollers = 2;
        config.blocking_limit = WEIR_FOREVER; /* no watchdog */
        INTERLEAVE_EXPECT(weir_init(&config) == 0);
        run.series = weir_series_ref(weir_series_new(see_the_end, NULL));
        INTERLEAVE_EXPECT(weir_series_set_name(run.series, "flow") == 0);
}

static void
play(void)
{
        interleave_join_actors();
        interleave_explore(false);
        INTERLEAVE_EXPECT(run.ended && run.frees == run.made);
        INTERLEAVE_EXPECT(run.status == -ECANCELED || run.status == -ETIMEDOUT);
        INTERLEAVE_EXPECT(run.cancelled == (run.status == -ECANCELED));
        for (unsigned i = 0; i < run.calls; i++)
                INTERLEAVE_EXPECT(run.statuses[i] == 0 || run.statuses[i] == run.status);
        INTERLEAVE_EXPECT(weir_series_count("flow") == 0);
        weir_series_unref(run.series);
        INTERLEAVE_EXPECT(weir_shutdown() == 0);
}

static void
run_cancel_and_deadline_of(weir_task *task)
{
        weir_series_push(run.series, task);
        weir_series_push(run.series, endless());
        interleave_act(run_the_series, NULL);
        switch (interleave_random(4)) {
        case 0: interleave_act(cancel_for_sure, NULL); break;
        case 1: interleave_act(end_in_time, NULL); break;
        case 2: interleave_act(set_far_and_near, NULL); break;
        default: interleave_act(cancel_for_sure, NULL); interleave_act(end_in_time, NULL);
        }
        play();
}

static void
run_graph(void)
{
        begin();
        run_cancel_and_deadline_of(any_graph());
}

static void
run_family(void)
{
        begin();
        run_cancel_and_deadline_of(any_task());
}

static void
run_parallel_of_graphs(void)
{
        begin();
        weir_task *parallel = weir_parallel_new(note, NULL);
        weir_parallel_add(parallel, any_graph());
        weir_parallel_add(parallel, any_task());
        run_cancel_and_deadline_of(noted(parallel));
}

/* -- failures -- */

static void
fail_own_series(weir_task *task, void *context)
{
        note(task, context);
        weir_series_fail(weir_series_of(task), -EIO); /* unless something else came first */
}

static weir_task *
one_that_fails(void)
{
        return noted(interleave_random(2) ? weir_timer_new(0, fail_own_series, NULL) : weir_empty_new(fail_own_series, NULL));
}

static weir_task *
parallel_that_stops(unsigned depth)
{
        weir_task *parallel = weir_parallel_new(note, NULL);

        weir_parallel_stop_on_failure(parallel);
        weir_parallel_add(parallel, depth > 0 ? parallel_that_stops(depth - 1) : endless());
        weir_parallel_add(parallel, any_task());
        weir_parallel_add(parallel, interleave_random(2) ? one_that_fails() : short_one());
        return noted(parallel);
}

static void
fail_or_cancel(void *unused)
{
        (void)unused;
        switch (interleave_random(3)) {
        case 0: weir_series_cancel(run.series); break;
        case 1: weir_series_set_deadline(run.series, 0); break;
        default: weir_series_fail(run.series, -EBUSY);
        }
}

/* Something ends the series for sure: what it runs, or one of two others. */
static void
run_failures(void)
{
        begin();
        weir_series_stop_on_failure(run.series);
        weir_series_push(run.series, parallel_that_stops(1));
        weir_series_push(run.series, endless());
        interleave_act(run_the_series, NULL);
        interleave_act(fail_or_cancel, NULL);
        interleave_act(fail_or_cancel, NULL);
        interleave_join_actors();
        interleave_explore(false);
        INTERLEAVE_EXPECT(run.ended && run.frees == run.made && weir__series_descents == 0);
        INTERLEAVE_EXPECT(run.status == -EIO || run.status == -EBUSY || run.status == -ECANCELED || run.status == -ETIMEDOUT);
        for (unsigned i = 0; i < run.calls; i++)
                INTERLEAVE_EXPECT(run.statuses[i] == 0 || run.statuses[i] == -ECANCELED || run.statuses[i] == -EIO ||
                                  run.statuses[i] == run.status);
        weir_series_unref(run.series);
        INTERLEAVE_EXPECT(weir_shutdown() == 0);
}

/* -- the suite -- */

static void
the_end_of_a_series_meets_a_graph(void)
{
        interleave_try(__func__, run_graph, SEEDS);
}

static void
the_end_of_a_series_meets_tasks_that_run_others(void)
{
        interleave_try(__func__, run_family, SEEDS);
}

static void
the_end_of_a_series_meets_a_parallel_with_a_graph(void)
{
        interleave_try(__func__, run_parallel_of_graphs, SEEDS);
}

static void
failures_at_every_level_meet_cancels_deadlines_and_each_other(void)
{
        interleave_try(__func__, run_failures, SEEDS);
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(the_end_of_a_series_meets_a_graph),
                WEIR_TEST(the_end_of_a_series_meets_tasks_that_run_others),
                WEIR_TEST(the_end_of_a_series_meets_a_parallel_with_a_graph),
                WEIR_TEST(failures_at_every_level_meet_cancels_deadlines_and_each_other),
        };

        return weir_test_main("interleave flows", tests, sizeof tests / sizeof *tests);
}
