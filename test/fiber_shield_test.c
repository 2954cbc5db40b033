/* test/fiber_shield_test.c: shields, guards that fibers hold, and deadlocks of fibers. */
#include "factory/sync/guard.h"

#include "test/fiber_points.h"

/* -- shields -- */

static struct weir_test_record record;

static weir_task *
recorded_timer(weir_nsec after)
{
        memset(&record, 0, sizeof record);
        return weir_test_timer(after, &record);
}

static int
put_later(void *channel)
{
        int status = weir_fiber_sleep(WEIR_SEC(1));

        return status ? status : weir_channel_post(channel, &record);
}

/* All awaits work. */
static void
works(void)
{
        weir_nsec began = weir_now();
        void *message = NULL;

        CU_ASSERT_EQUAL(weir_fiber_yield(), 0);
        CU_ASSERT_EQUAL(weir_fiber_sleep(WEIR_SEC(1)), 0);
        CU_ASSERT_EQUAL(weir_now(), began + WEIR_SEC(1));
        CU_ASSERT_EQUAL(weir_await(recorded_timer(WEIR_SEC(1))), 0);
        CU_ASSERT_EQUAL(weir_now(), began + WEIR_SEC(2));
        CU_ASSERT_EQUAL(weir_await_within(recorded_timer(WEIR_SEC(9)), WEIR_SEC(1)), -ETIMEDOUT);
        CU_ASSERT_EQUAL(weir_await_within(recorded_timer(WEIR_SEC(1)), WEIR_SEC(9)), 0);
        CU_ASSERT_EQUAL(record.calls, 1);
        weir_task *parallel = weir_parallel_new(NULL, NULL);
        weir_parallel_add(parallel, weir_timer_new(1, NULL, NULL));
        CU_ASSERT_EQUAL(weir_await(parallel), 0);
        weir_channel *channel = weir_channel_new(0, NULL);
        CU_ASSERT_EQUAL(weir_await_within(weir_channel_receive_new(channel, NULL, NULL), 1), -ETIMEDOUT);
        weir_channel_unref(channel);
        channel = weir_channel_new(1, NULL);
        weir_group *group = weir_group_open();
        CU_ASSERT_EQUAL(weir_group_start(group, weir_fiber_new(put_later, NULL, channel)), 0);
        CU_ASSERT_EQUAL(weir_fiber_receive(channel, &message), 0);
        CU_ASSERT_PTR_EQUAL(message, &record);
        CU_ASSERT_EQUAL(weir_group_close(group), 0);
        weir_channel_unref(channel);
}

static void
fails(int cause)
{
        CU_ASSERT_EQUAL(weir_fiber_yield(), cause);
        CU_ASSERT_EQUAL(weir_fiber_sleep(1), cause);
        CU_ASSERT_EQUAL(weir_await(recorded_timer(1)), cause);
        CU_ASSERT_EQUAL(weir_await_within(recorded_timer(1), WEIR_SEC(1)), cause);
        CU_ASSERT_EQUAL(record.calls, 0);
}

static int
nest_too_deep(void *context)
{
        int begun = 0, failed;

        (void)context;
        while ((failed = weir_fiber_shield(true)) == 0)
                begun++;
        CU_ASSERT_EQUAL(failed, -EOVERFLOW);
        CU_ASSERT_EQUAL(begun, 255);
        weir_series_cancel(weir_fiber_series());
        while (begun-- > 0) {
                CU_ASSERT_EQUAL(weir_fiber_yield(), 0);
                CU_ASSERT_EQUAL(weir_fiber_shield(false), 0);
        }
        CU_ASSERT_EQUAL(weir_fiber_yield(), -ECANCELED);
        return weir_fiber_shield(false);
}

static int
clean_up(void *context)
{
        (void)context;
        CU_ASSERT_EQUAL(weir_fiber_shield(false), -EDEADLK);
        CU_ASSERT_EQUAL(weir_fiber_shield(true), 0);
        works();
        CU_ASSERT_EQUAL(weir_fiber_shield(false), 0);
        works();
        weir_series_cancel(weir_fiber_series());
        fails(-ECANCELED);
        CU_ASSERT_EQUAL(weir_fiber_shield(true), 0);
        works();
        CU_ASSERT_EQUAL(weir_fiber_shield(true), 0);
        works();
        CU_ASSERT_EQUAL(weir_fiber_shield(false), 0);
        works();
        CU_ASSERT_EQUAL(weir_fiber_shield(false), 0);
        fails(-ECANCELED);
        CU_ASSERT_EQUAL(weir_fiber_shield(false), -EDEADLK);
        CU_ASSERT_EQUAL(weir_fiber_shield(true), 0);
        works();
        return 0; /* shielded still */
}

static int
clean_up_over_the_deadline(void *context)
{
        (void)context;
        CU_ASSERT_EQUAL(weir_fiber_shield(true), 0);
        CU_ASSERT_EQUAL(weir_series_set_deadline(weir_fiber_series(), WEIR_SEC(1)), 0);
        works(); /* the deadline comes meanwhile */
        CU_ASSERT_EQUAL(weir_fiber_shield(false), 0);
        fails(-ETIMEDOUT);
        return 0;
}

static void
behind_a_shield_awaits_work(void)
{
        CU_ASSERT_EQUAL(weir_test_run_fiber(clean_up, NULL), -ECANCELED);
        CU_ASSERT_EQUAL(weir_test_run_fiber(clean_up_over_the_deadline, NULL), -ETIMEDOUT);
        CU_ASSERT_EQUAL(weir_test_run_fiber(nest_too_deep, NULL), -EDEADLK);
}

/* A limit that comes when its await is over may find the fiber in another scope.  ThreadSanitizer looks. */
static int
set_limits_by_turns(void *context)
{
        (void)context;
        for (int i = 0; i < 2000; i++) {
                CU_ASSERT_EQUAL_FATAL(weir_fiber_shield(true), 0);
                int status = weir_await_within(weir_timer_new(WEIR_USEC(20), NULL, NULL), WEIR_USEC(20));
                CU_ASSERT_FATAL(!status || status == -ETIMEDOUT);
                CU_ASSERT_EQUAL_FATAL(weir_fiber_shield(false), 0);
                status = weir_await_within(weir_timer_new(WEIR_USEC(20), NULL, NULL), WEIR_USEC(20));
                CU_ASSERT_FATAL(!status || status == -ETIMEDOUT);
        }
        return 0;
}

static void
late_limits_find_another_scope(void)
{
        CU_ASSERT_EQUAL(weir_test_run_fiber_real(2, set_limits_by_turns, NULL), 0);
}

/* The cancel comes from outside while the fiber waits behind its shield. */
static _Atomic int seen;

static int
wait_shielded(void *context)
{
        (void)context;
        CU_ASSERT_EQUAL(weir_fiber_shield(true), 0);
        seen = weir_fiber_sleep(WEIR_SEC(10));
        CU_ASSERT_EQUAL(weir_fiber_shield(false), 0);
        fails(-ECANCELED);
        return 0;
}

static void
a_cancel_waits_for_the_end_of_the_shield(void)
{
        struct weir_test_record ended = {0};

        weir_test_begin_virtual();
        weir_series *series = weir_series_ref(weir_series_new(NULL, NULL));
        weir_series_push(series, weir_test_recorded(weir_fiber_new(wait_shielded, weir_test_done, &ended)));
        weir_task *race = weir_race_new(NULL, NULL);
        weir_series_start(series);
        weir_race_add(race, weir_timer_new(WEIR_SEC(1), NULL, NULL));
        weir_race_add(race, weir_fiber_new(wait_shielded, NULL, NULL));
        seen = 1;
        weir_test_pass(1);
        weir_series_cancel(series);
        weir_test_pass(WEIR_SEC(9));
        CU_ASSERT_EQUAL(ended.calls, 0);
        weir_test_pass(WEIR_SEC(1));
        WEIR_TEST_CALLED(&ended, -ECANCELED);
        CU_ASSERT_EQUAL(seen, 0);
        CU_ASSERT_EQUAL(weir_series_status(series), -ECANCELED);
        weir_series_unref(series);
        weir_nsec began = weir_now();
        CU_ASSERT_EQUAL(weir_task_run(race), 0);
        CU_ASSERT_EQUAL(weir_now(), began + WEIR_SEC(10)); /* the loser cleans up first */
        weir_test_end();
}

/* A shutdown does not wait for what a shield hides. */
static int
wait_there_shielded(void *context)
{
        const struct point *point = context;

        CU_ASSERT_EQUAL(weir_fiber_shield(true), 0);
        seen = point->wait();
        fails(-ESHUTDOWN);
        CU_ASSERT_EQUAL(weir_fiber_shield(false), 0);
        fails(-ESHUTDOWN);
        return 0;
}

static void
a_shutdown_ends_what_waits_behind_a_shield(void)
{
        for (size_t i = 0; i < POINTS; i++) {
                unsigned failed = CU_get_number_of_failures();

                begin_points();
                seen = 1;
                CU_ASSERT_EQUAL(weir_task_start(weir_fiber_new(wait_there_shielded, NULL, (void *)&points[i])), 0);
                weir_test_pass(WEIR_MSEC(1));
                CU_ASSERT_EQUAL(seen, 1);
                weir_test_end();
                CU_ASSERT_EQUAL(seen, -ESHUTDOWN);
                weir_test_begin_virtual();
                end_points();
                if (CU_get_number_of_failures() > failed)
                        fprintf(stderr, "at %s\n", points[i].name);
        }
}

/* -- guards -- */

static int
hold(void *context)
{
        weir_guard *guard = context;

        CU_ASSERT_EQUAL(weir_fiber_release(guard), -EPERM);
        CU_ASSERT_EQUAL(weir_fiber_acquire(guard), 0);
        CU_ASSERT(weir_guard_is_held(guard, weir_fiber_series()));
        CU_ASSERT_EQUAL(weir_fiber_acquire(guard), -EDEADLK);
        CU_ASSERT_EQUAL(weir_await(weir_guard_acquire_new(guard, NULL, NULL)), -EDEADLK);
        CU_ASSERT_EQUAL(weir_fiber_yield(), 0);
        CU_ASSERT_EQUAL(weir_fiber_release(guard), 0);
        CU_ASSERT(!weir_guard_is_held(guard, NULL));
        CU_ASSERT_EQUAL(weir_fiber_release(guard), -EPERM);
        CU_ASSERT_EQUAL(weir_fiber_acquire(NULL), -ENOMEM);
        CU_ASSERT_EQUAL(weir_fiber_acquire(guard), 0);
        return weir_fiber_sleep(WEIR_SEC(1));
}

static int
hold_shielded(void *context)
{
        weir_guard *guard = context;

        CU_ASSERT_EQUAL(weir_fiber_acquire(guard), 0);
        CU_ASSERT_EQUAL(weir_fiber_shield(true), 0);
        CU_ASSERT(weir_guard_is_held(guard, weir_fiber_series()));
        CU_ASSERT_EQUAL(weir_fiber_acquire(guard), -EDEADLK); /* the fiber has it */
        CU_ASSERT_EQUAL(weir_fiber_release(guard), 0);
        CU_ASSERT_EQUAL(weir_fiber_acquire(guard), 0);
        CU_ASSERT(weir_guard_is_held(guard, weir_fiber_series()));
        CU_ASSERT_EQUAL(weir_fiber_release(guard), 0);
        CU_ASSERT_EQUAL(weir_fiber_acquire(guard), 0);
        CU_ASSERT_EQUAL(weir_fiber_shield(false), 0);
        CU_ASSERT_EQUAL(weir_fiber_release(guard), 0);
        CU_ASSERT_EQUAL(weir_fiber_shield(true), 0);
        CU_ASSERT_EQUAL(weir_fiber_acquire(guard), 0);
        return 0;
}

static void
the_guards_of_a_fiber_are_released_at_its_end(void)
{
        weir_fiber_fn *const functions[] = {hold, hold_shielded};

        for (unsigned i = 0; i < 2; i++) {
                weir_test_begin_virtual();
                weir_guard *guard = weir_guard_new();
                CU_ASSERT_EQUAL(weir_task_run(weir_fiber_new_as("hold", functions[i], NULL, guard)), 0);
                CU_ASSERT(!weir_guard_is_held(guard, NULL));
                weir_guard_unref(guard);
                weir_test_end();
        }
}

static int
take_and_sleep(void *guard)
{
        CU_ASSERT_EQUAL(weir_fiber_acquire(guard), 0);
        return weir_fiber_sleep(WEIR_SEC(1));
}

static void
fibers_have_a_guard_one_after_the_other(void)
{
        weir_test_begin_virtual();
        weir_nsec began = weir_now();
        weir_guard *guard = weir_guard_new();
        weir_task *all = weir_parallel_new(NULL, NULL);
        for (unsigned i = 0; i < 5; i++)
                weir_parallel_add(all, weir_fiber_new(take_and_sleep, NULL, guard));
        CU_ASSERT_EQUAL(weir_task_run(all), 0);
        CU_ASSERT_EQUAL(weir_now(), began + WEIR_SEC(5));
        weir_guard_unref(guard);
        weir_test_end();
}

/* -- deadlocks -- */

static struct {
        unsigned count;
        char sentence[1024];
} found;

static void
note(const char *sentence, void *context)
{
        (void)context;
        found.count++;
        snprintf(found.sentence, sizeof found.sentence, "%s", sentence);
}

static int
cross(void *context)
{
        const char *const *names = context;

        weir_series_set_name(weir_fiber_series(), names[0]);
        CU_ASSERT_EQUAL(weir_await(weir_guard_acquire_new_named(names[0], NULL, NULL)), 0);
        CU_ASSERT_EQUAL(weir_fiber_sleep(WEIR_SEC(1)), 0);
        return weir_await(weir_guard_acquire_new_named(names[1], NULL, NULL));
}

static void
fibers_that_wait_for_each_others_guards_are_found(void)
{
        const char *one[] = {"a", "b"}, *other[] = {"b", "a"};

        weir_test_begin_virtual();
        memset(&found, 0, sizeof found);
        CU_ASSERT_EQUAL(weir_task_start(weir_fiber_new(cross, NULL, one)), 0);
        CU_ASSERT_EQUAL(weir_task_start(weir_fiber_new(cross, NULL, other)), 0);
        weir_test_pass(WEIR_SEC(1));
        weir__deadlock_find(note, NULL);
        CU_ASSERT_EQUAL(found.count, 1);
        CU_ASSERT_PTR_NOT_NULL(strstr(found.sentence, "waits for guard \"a\""));
        CU_ASSERT_PTR_NOT_NULL(strstr(found.sentence, "waits for guard \"b\""));
        CU_ASSERT_PTR_NOT_NULL(strstr(found.sentence, "series \"a\""));
        CU_ASSERT_EQUAL(weir_series_cancel_named("a", 1), 1);
        weir_test_pass(0);
        memset(&found, 0, sizeof found);
        weir__deadlock_find(note, NULL);
        CU_ASSERT_EQUAL(found.count, 0);
        weir_test_end();
}

static int
cross_shielded(void *context)
{
        const char *const *names = context;

        weir_series_set_name(weir_fiber_series(), names[0]);
        CU_ASSERT_EQUAL(weir_await(weir_guard_acquire_new_named(names[0], NULL, NULL)), 0);
        CU_ASSERT_EQUAL(weir_fiber_sleep(WEIR_SEC(1)), 0);
        CU_ASSERT_EQUAL(weir_fiber_shield(true), 0);
        int status = weir_await(weir_guard_acquire_new_named(names[1], NULL, NULL));
        CU_ASSERT_EQUAL(weir_fiber_shield(false), 0);
        return status;
}

static void
find_deadlocks(void)
{
        memset(&found, 0, sizeof found);
        weir__deadlock_find(note, NULL);
}

static void
fibers_that_wait_behind_shields_are_found(void)
{
        const char *one[] = {"a", "b"}, *other[] = {"b", "a"};

        weir_test_begin_virtual();
        CU_ASSERT_EQUAL(weir_task_start(weir_fiber_new(cross_shielded, NULL, one)), 0);
        CU_ASSERT_EQUAL(weir_task_start(weir_fiber_new(cross, NULL, other)), 0);
        weir_test_pass(WEIR_SEC(1));
        find_deadlocks();
        CU_ASSERT_EQUAL(found.count, 1);
        CU_ASSERT_PTR_NOT_NULL(strstr(found.sentence, " waits for guard \"a\""));
        CU_ASSERT_PTR_NOT_NULL(strstr(found.sentence, " waits for guard \"b\""));
        CU_ASSERT_PTR_NULL(strstr(found.sentence, "has a task"));
        CU_ASSERT_EQUAL(weir_series_cancel_named("b", 1), 1);
        weir_test_pass(0);
        find_deadlocks();
        CU_ASSERT_EQUAL(found.count, 0);
        weir_test_end();
}

/* A fiber that waits for a child, which waits for a guard. */
static bool stops, is_shielded;

static int
wait_for_a_child(void *context)
{
        const char *const *names = context;

        weir_series_set_name(weir_fiber_series(), names[0]);
        CU_ASSERT_EQUAL(weir_await(weir_guard_acquire_new_named(names[0], NULL, NULL)), 0);
        CU_ASSERT_EQUAL(weir_fiber_shield(is_shielded), is_shielded ? 0 : -EDEADLK);
        weir_group *beside = weir_group_open(), *group = weir_group_open();
        if (stops)
                weir_group_stop_on_failure(group);
        CU_ASSERT_EQUAL(weir_fiber_sleep(WEIR_SEC(1)), 0);
        CU_ASSERT_EQUAL(weir_group_start(beside, weir_timer_new(FAR, NULL, NULL)), 0);
        CU_ASSERT_EQUAL(weir_group_start(group, weir_timer_new(WEIR_SEC(1), NULL, NULL)), 0);
        CU_ASSERT_EQUAL(weir_group_start(group, weir_guard_acquire_new_named(names[1], NULL, NULL)), 0);
        CU_ASSERT_EQUAL(weir_fiber_sleep(WEIR_SEC(1)), 0);
        return weir_group_close(group);
}

static void
a_fiber_that_waits_for_a_child_is_found(void)
{
        const char *one[] = {"a", "b"}, *other[] = {"b", "a"};

        for (unsigned i = 0; i < 4; i++) {
                stops = i & 1;
                is_shielded = i & 2;
                weir_test_begin_virtual();
                CU_ASSERT_EQUAL(weir_task_start(weir_fiber_new(wait_for_a_child, NULL, one)), 0);
                CU_ASSERT_EQUAL(weir_task_start(weir_fiber_new(cross, NULL, other)), 0);
                weir_test_pass(WEIR_MSEC(1500));
                find_deadlocks();
                CU_ASSERT_EQUAL(found.count, 0); /* it does not wait for the child yet */
                weir_test_pass(WEIR_SEC(1));
                find_deadlocks();
                CU_ASSERT_EQUAL(found.count, !stops); /* another child may fail, and so end the wait */
                CU_ASSERT(stops || strstr(found.sentence, "series \"a\" has a task that waits for guard \"b\""));
                CU_ASSERT(stops || strstr(found.sentence, "series \"b\" waits for guard \"a\"") ||
                          strstr(found.sentence, "series \"b\", which waits for guard \"a\""));
                weir_test_end();
        }
}

/* -- what is shown -- */

static int
clean_up_slowly(void *context)
{
        (void)context;
        CU_ASSERT_EQUAL(weir_fiber_shield(true), 0);
        return weir_await(weir_timer_new_named("cleanup", WEIR_SEC(1), NULL, NULL));
}

static void
a_dump_shows_what_is_awaited_behind_a_shield(void)
{
        char text[4096], described[256];
        int ends[2];

        weir_test_begin_virtual();
        weir_series *series = weir_series_ref(weir_series_new(NULL, NULL));
        weir_series_push(series, weir_fiber_new(clean_up_slowly, NULL, NULL));
        CU_ASSERT_EQUAL(weir_series_start(series), 0);
        weir_test_pass(0);
        CU_ASSERT_EQUAL(pipe(ends), 0);
        CU_ASSERT_EQUAL(weir_debug_dump(ends[1]), 0);
        ssize_t size = read(ends[0], text, sizeof text - 1);
        text[size > 0 ? size : 0] = '\0';
        close(ends[0]);
        close(ends[1]);
        CU_ASSERT_PTR_NOT_NULL(strstr(text, "fiber \"clean_up_slowly\""));
        CU_ASSERT_PTR_NOT_NULL(strstr(text, "timer \"cleanup\""));
        weir__series_describe(series, described, sizeof described);
        CU_ASSERT_PTR_NOT_NULL(strstr(described, "a fiber \"clean_up_slowly\", in it a timer \"cleanup\""));
        weir_series_unref(series);
        weir_test_end();
}

/* -- what is pushed -- */

static unsigned turn, pushed_at, dropped;

static void
take_turn(weir_task *task, void *context)
{
        (void)task;
        *(unsigned *)context = ++turn;
}

static void
note_drop(void *context)
{
        (void)context;
        dropped++;
}

static weir_task *
pushed(void)
{
        weir_task *task = weir_empty_new(take_turn, &pushed_at);

        weir_task_on_free(task, note_drop);
        return task;
}

/* It is there when the fiber waits behind the end of its shield, whatever it waited for before. */
static int
push_behind_a_shield(void *context)
{
        bool sleeps = *(bool *)context;
        unsigned awaited_at = 0;

        CU_ASSERT_EQUAL(weir_fiber_shield(true), 0);
        CU_ASSERT_EQUAL(weir_fiber_yield(), 0);
        CU_ASSERT_EQUAL(weir_series_push(weir_fiber_series(), pushed()), 0);
        CU_ASSERT_EQUAL(sleeps ? weir_fiber_sleep(WEIR_MSEC(1)) : weir_fiber_yield(), 0);
        CU_ASSERT_EQUAL(pushed_at, 0); /* the series of the fiber waits for the end of the shield */
        CU_ASSERT_EQUAL(weir_fiber_shield(false), 0);
        CU_ASSERT_EQUAL(weir_await(weir_empty_new(take_turn, &awaited_at)), 0);
        CU_ASSERT(pushed_at == 1 && awaited_at == 2);
        return 0;
}

static weir_series *shield;

static void
keep_series(weir_task *task, void *context)
{
        (void)context;
        shield = weir_series_ref(weir_series_of(task));
}

/* By a reference to what it awaits in there. */
static int
push_into_a_shield_that_is_over(void *context)
{
        (void)context;
        CU_ASSERT_EQUAL(weir_fiber_shield(true), 0);
        CU_ASSERT_EQUAL(weir_await(weir_empty_new(keep_series, NULL)), 0);
        CU_ASSERT_EQUAL(weir_fiber_shield(false), 0);
        CU_ASSERT_EQUAL(weir_series_push(shield, pushed()), 0);
        return 0;
}

static void
what_is_pushed_around_a_shield_runs(void)
{
        for (int sleeps = 0; sleeps < 2; sleeps++) {
                bool does = sleeps;

                turn = pushed_at = dropped = 0;
                weir_test_begin_virtual();
                CU_ASSERT_EQUAL(weir_task_run(weir_fiber_new(push_behind_a_shield, NULL, &does)), 0);
                CU_ASSERT_EQUAL(dropped, 1);
                weir_test_end();
        }
        turn = pushed_at = dropped = 0;
        weir_test_begin_virtual();
        CU_ASSERT_EQUAL(weir_task_run(weir_fiber_new(push_into_a_shield_that_is_over, NULL, NULL)), 0);
        CU_ASSERT_EQUAL(pushed_at, 1);
        CU_ASSERT_EQUAL(dropped, 1);
        CU_ASSERT_EQUAL(weir_series_push(shield, pushed()), -ESTALE);
        weir_series_unref(shield);
        weir_test_end();
}

/* -- what the series of a shield has -- */

static int contexts_freed;

static void
free_shield_context(void *context)
{
        contexts_freed += context == &contexts_freed;
}

/* A callback finds the series of the shield by its task, as any series. */
static void
give_all(weir_task *task, void *context)
{
        weir_series *series = weir_series_of(task);

        (void)context;
        CU_ASSERT_EQUAL(weir_series_set_name(series, "shielded"), 0);
        CU_ASSERT_EQUAL(weir_series_set_deadline(series, WEIR_SEC(60)), 0);
        weir_series_set_context(series, &contexts_freed, free_shield_context);
        CU_ASSERT_EQUAL(weir_series_count("shielded"), 1);
}

static int
end_a_shield_that_has_all(void *stays)
{
        CU_ASSERT_EQUAL(weir_fiber_shield(true), 0);
        CU_ASSERT_EQUAL(weir_await(weir_timer_new(1, give_all, NULL)), 0);
        if (!stays)
                CU_ASSERT_EQUAL(weir_fiber_shield(false), 0);
        return 0;
}

static void
a_shield_gives_up_what_its_series_has(void)
{
        for (int stays = 0; stays < 2; stays++) {
                contexts_freed = 0;
                weir_test_begin_virtual();
                CU_ASSERT_EQUAL(weir_task_run(weir_fiber_new(end_a_shield_that_has_all, NULL, stays ? &record : NULL)), 0);
                CU_ASSERT_EQUAL(contexts_freed, 1);
                CU_ASSERT_EQUAL(weir_series_count("shielded"), 0);
                CU_ASSERT_EQUAL(weir_series_cancel_named("shielded", WEIR_ALL), 0);
                weir_test_pass(WEIR_SEC(100)); /* the deadline does not come */
                weir_test_end();
        }
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(behind_a_shield_awaits_work),
                WEIR_TEST(what_is_pushed_around_a_shield_runs),
                WEIR_TEST(a_shield_gives_up_what_its_series_has),
                WEIR_TEST(late_limits_find_another_scope),
                WEIR_TEST(a_cancel_waits_for_the_end_of_the_shield),
                WEIR_TEST(a_shutdown_ends_what_waits_behind_a_shield),
                WEIR_TEST(the_guards_of_a_fiber_are_released_at_its_end),
                WEIR_TEST(fibers_have_a_guard_one_after_the_other),
                WEIR_TEST(fibers_that_wait_for_each_others_guards_are_found),
                WEIR_TEST(fibers_that_wait_behind_shields_are_found),
                WEIR_TEST(a_fiber_that_waits_for_a_child_is_found),
                WEIR_TEST(a_dump_shows_what_is_awaited_behind_a_shield),
        };

        return weir_test_main("fiber_shield", tests, sizeof tests / sizeof *tests);
}
