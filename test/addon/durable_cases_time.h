/* test/addon/durable_cases_time.h: durable timers: clocks that are set, looks, and schedules. */
#ifndef WEIR_TEST_DURABLE_CASES_TIME_H
#define WEIR_TEST_DURABLE_CASES_TIME_H

#include "test/addon/durable_case.h"

/* -- clocks -- */

/* The clock of the engine: here it is the wall clock.  A node looks at it each ten seconds at least. */
static void
a_clock_that_is_set_forward_makes_timers_due(void)
{
        begin();
        weir_durable *store = open_store();

        listen(store);
        CU_ASSERT(set(store, "a", HOUR, "x") == 0);
        CU_ASSERT(weir_clock_set_wall(weir_wall_now() + 2 * HOUR) == 0);
        weir_clock_advance(WEIR_SEC(10));
        CU_ASSERT(got.count == 1);
        end(store);
}

static void
a_clock_that_is_set_back_makes_timers_late(void)
{
        begin();
        weir_durable *store = open_store();

        listen(store);
        weir_clock_advance(2 * HOUR);
        CU_ASSERT(set(store, "a", HOUR, "x") == 0);
        CU_ASSERT(weir_clock_set_wall(weir_wall_now() - HOUR) == 0);
        weir_clock_advance(2 * HOUR - 1);
        CU_ASSERT(got.count == 0);
        weir_clock_advance(1);
        CU_ASSERT(got.count == 1);
        end(store);
}

/* -- looks -- */

static struct weir_durable_stats
stats_of(weir_durable *store)
{
        struct weir_durable_stats stats = WEIR_DURABLE_STATS_DEFAULT;

        CU_ASSERT(weir_durable_stats(store, &stats) == 0);
        return stats;
}

static uint64_t
looks_of(weir_durable *store)
{
        return stats_of(store).looks;
}

/* A store may hear its own rings, as with SQLite, and each brings one look at most.  Nothing else may. */
static uint64_t
rings_of(weir_durable *store)
{
        return stats_of(store).rings;
}

/* There is no polling but the look that config.look says, ten seconds behind the one before. */
static void
an_hour_without_due_times_has_a_look_in_ten_seconds(void)
{
        begin();
        weir_durable *store = open_store();
        for (int i = 0; i < 100; i++) {
                char name[20];

                snprintf(name, sizeof name, "far/%d", i);
                CU_ASSERT(set(store, name, 2 * HOUR + i, "x") == 0);
        }
        listen(store);
        CU_ASSERT(get(store, "a") == -ENOENT); /* the first look is over */
        uint64_t looks = looks_of(store);
        weir_clock_advance(HOUR);
        CU_ASSERT(looks_of(store) >= looks + 359 && looks_of(store) <= looks + 360);
        CU_ASSERT(got.count == 0 && rings_of(store) == 0);
        end(store);
}

/* Each look that a due time has brought is one, and the next regular one comes config.look later, not behind as many periods. */
static void
looks_go_on_behind_many_that_were_moved(void)
{
        begin();
        weir_durable *store = open_store();
        listen(store);
        for (int i = 0; i < 30; i++) {
                CU_ASSERT(set(store, "a", WEIR_MSEC(100), "x") == 0);
                weir_clock_advance(WEIR_MSEC(200));
        }
        CU_ASSERT(got.count == 30);
        uint64_t looks = looks_of(store);
        CU_ASSERT(looks <= 1 + 30 + rings_of(store));
        weir_clock_advance(WEIR_SEC(21));
        CU_ASSERT(looks_of(store) >= looks + 2);
        CU_ASSERT(looks_of(store) <= looks + 2 + rings_of(store));
        end(store);
}

/* A set moves the next look, but never to later than it would have been. */
static void
a_set_does_not_put_off_the_next_look(void)
{
        begin();
        weir_durable *store = open_store();
        listen(store);
        CU_ASSERT(get(store, "a") == -ENOENT); /* the first look is over */
        weir_clock_advance(WEIR_SEC(9));
        uint64_t looks = looks_of(store);
        CU_ASSERT(set(store, "a", WEIR_SEC(9), "x") == 0);
        weir_clock_advance(WEIR_SEC(1));
        CU_ASSERT(looks_of(store) > looks && looks_of(store) <= looks + 1 + rings_of(store));
        weir_clock_advance(WEIR_SEC(8));
        CU_ASSERT(got.count == 1);
        CU_ASSERT(looks_of(store) <= looks + 2 + rings_of(store));
        end(store);
}

/* -- schedules -- */

static int
schedule(weir_durable *store, const char *cron, enum weir_durable_missed_policy policy)
{
        return weir_task_run(weir_durable_schedule_new(store, "job", cron, "UTC", policy, "topic", NULL, 0, look, NULL));
}

static void
a_schedule_comes_at_its_times_once_in_all_nodes(void)
{
        begin();
        weir_durable *store = open_store();
        weir_durable *other = weir_durable_open(url);

        listen(store);
        CU_ASSERT(weir_durable_on(other, "topic", take, &got) == 0);
        CU_ASSERT(schedule(store, "0 * * * *", WEIR_DURABLE_ALL) == 0);
        uint64_t generation = seen.generation;
        CU_ASSERT(schedule(other, "0 * * * *", WEIR_DURABLE_ALL) == 0 && seen.generation == generation);
        weir_clock_advance(10 * HOUR + 1);
        CU_ASSERT(got.count == 10);
        for (int i = 0; i < 10; i++)
                CU_ASSERT(got.due[i] == WEIR_WALL_EPOCH + (i + 1) * HOUR && got.at[i] == got.due[i] && got.missed[i] == 0);
        CU_ASSERT(got.generation[1] > got.generation[0] && got.attempt[9] == 1);
        CU_ASSERT(schedule(other, "30 * * * *", WEIR_DURABLE_ALL) == 0 && seen.generation > got.generation[9]);
        weir_clock_advance(HOUR / 2);
        CU_ASSERT(got.count == 11);
        CU_ASSERT(cancel(store, "job") == 1);
        weir_clock_advance(2 * HOUR);
        CU_ASSERT(got.count == 11);
        CU_ASSERT(schedule(store, "0 0 30 feb *", WEIR_DURABLE_ALL) == 0);
        CU_ASSERT(schedule(store, "0 0 nonsense", WEIR_DURABLE_ALL) == -EINVAL);
        CU_ASSERT(schedule(store, "0 * * * *", (enum weir_durable_missed_policy)7) == -EINVAL);
        weir_durable_close(other);
        end(store);
}

/* Sets a schedule of every ten minutes, lets an hour pass without handlers, and then listens for 25 minutes. */
static weir_durable *
miss_an_hour(enum weir_durable_missed_policy policy)
{
        begin();
        weir_durable *store = open_store();

        CU_ASSERT(schedule(store, "*/10 * * * *", policy) == 0);
        weir_clock_advance(HOUR + WEIR_SEC(120));
        listen(store);
        weir_clock_advance(WEIR_SEC(1500));
        return store;
}

static void
missed_times_are_all_made_up_for(void)
{
        weir_durable *store = miss_an_hour(WEIR_DURABLE_ALL);

        CU_ASSERT(got.count == 8 && got.due[0] == WEIR_WALL_EPOCH + HOUR / 6 && got.due[7] == WEIR_WALL_EPOCH + 8 * HOUR / 6);
        CU_ASSERT(got.at[5] == WEIR_WALL_EPOCH + HOUR + WEIR_SEC(120) && got.at[6] == got.due[6]);
        end(store);
}

static void
missed_times_are_merged_into_one(void)
{
        weir_durable *store = miss_an_hour(WEIR_DURABLE_ONCE);

        CU_ASSERT(got.count == 3 && got.due[0] == WEIR_WALL_EPOCH + HOUR && got.missed[0] == 5 && got.missed[1] == 0);
        CU_ASSERT(got.due[1] == WEIR_WALL_EPOCH + 7 * HOUR / 6 && got.at[2] == got.due[2]);
        end(store);
}

static void
missed_times_are_skipped(void)
{
        struct weir_durable_stats stats = WEIR_DURABLE_STATS_DEFAULT;
        weir_durable *store = miss_an_hour(WEIR_DURABLE_SKIP);

        CU_ASSERT(got.count == 2 && got.due[0] == WEIR_WALL_EPOCH + 7 * HOUR / 6 && got.at[0] == got.due[0]);
        CU_ASSERT(weir_durable_stats(store, &stats) == 0 && stats.skipped == 6);
        end(store);
}

static void
a_firing_that_always_fails_is_given_up(void)
{
        begin();
        weir_durable *store = open_store();

        listen(store);
        got.failures = 10;
        CU_ASSERT(schedule(store, "0 0 * * *", WEIR_DURABLE_SKIP) == 0);
        weir_clock_advance(47 * HOUR);
        CU_ASSERT(got.count == 10 && got.attempt[9] == 10);
        CU_ASSERT(get(store, "job") == 0 && seen.info.state == WEIR_DURABLE_PENDING && seen.info.attempt == 0);
        CU_ASSERT_STRING_EQUAL(seen.problem, weir_strerror(-EIO));
        weir_clock_advance(2 * HOUR);
        CU_ASSERT(got.count == 11 && got.attempt[10] == 1);
        end(store);
}

#endif
