/* test/deadlock_test.c: circles of series that wait for each other's guards are found, and nothing else is. */
#include "test/timer_fixture.h"

#include "factory/sync/guard.h"

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

static unsigned
look(void)
{
        found.count = 0;
        found.sentence[0] = '\0';
        weir__deadlock_find(note, NULL);
        return found.count;
}

static void
begin(void)
{
        const struct weir_config config = {.size = sizeof config, .clock = WEIR_CLOCK_VIRTUAL};

        CU_ASSERT_EQUAL_FATAL(weir_init(&config), 0);
}

/* -- in the log -- */

static struct {
        _Atomic unsigned count;
        char message[600];
} logged;

static void
hear(enum weir_log_level level, const char *message, void *context)
{
        (void)context;
        if (strncmp(message, "deadlock: ", 10) != 0)
                return;
        CU_ASSERT_EQUAL(level, WEIR_LOG_WARNING);
        snprintf(logged.message, sizeof logged.message, "%s", message);
        atomic_fetch_add(&logged.count, 1);
}

/* A series that acquires one guard, waits at a barrier, if there is one, and acquires the other guard. */
static weir_series *
crossing(const char *name, const char *first, weir_barrier *both, const char *second)
{
        weir_series *series = weir_series_new(NULL, NULL);

        weir_series_set_name(series, name);
        weir_series_push(series, weir_guard_acquire_new_named(first, NULL, NULL));
        if (both)
                weir_series_push(series, weir_barrier_arrive_new(both, NULL, NULL));
        weir_series_push(series, weir_guard_acquire_new_named(second, NULL, NULL));
        return series;
}

/* Two series that will wait for each other, named X->Y and Y->X. */
static void
start_deadlock(const char *x, const char *y)
{
        weir_barrier *both = weir_barrier_new(2);
        char name[16];

        snprintf(name, sizeof name, "%s->%s", x, y);
        weir_series_start(crossing(name, x, both, y));
        snprintf(name, sizeof name, "%s->%s", y, x);
        weir_series_start(crossing(name, y, both, x));
        weir_barrier_unref(both);
}

/* A second task that waits at the same circle is no second deadlock.  The circle after it is one: the last message is of that. */
static void
a_deadlock_is_logged_once_by_itself(void)
{
        weir_log_set(hear, NULL);
        CU_ASSERT_EQUAL_FATAL(weir_init(NULL), 0);
        start_deadlock("a", "b");
        WEIR_TEST_EVENTUALLY(atomic_load(&logged.count) == 1);
        CU_ASSERT(strstr(logged.message, "waits for guard \"a\"") && strstr(logged.message, "waits for guard \"b\""));
        weir_series_start(crossing("c->a", "c", NULL, "a"));
        start_deadlock("d", "e");
        WEIR_TEST_EVENTUALLY(atomic_load(&logged.count) == 2);
        CU_ASSERT(strstr(logged.message, "waits for guard \"d\"") && strstr(logged.message, "waits for guard \"e\""));
        CU_ASSERT_EQUAL(weir_shutdown(), 0);
        CU_ASSERT_EQUAL(atomic_load(&logged.count), 2);
        weir_log_set(NULL, NULL);
}

/* The same guards, and another runtime. */
static void
the_same_deadlock_after_its_end_is_logged_again(void)
{
        weir_log_set(hear, NULL);
        for (unsigned i = 1; i <= 2; i++) {
                atomic_store(&logged.count, 0);
                CU_ASSERT_EQUAL_FATAL(weir_init(NULL), 0);
                start_deadlock("a", "b");
                WEIR_TEST_EVENTUALLY(atomic_load(&logged.count) == 1);
                weir_series_cancel_named("a->b", WEIR_ALL);
                CU_ASSERT_EQUAL(weir_shutdown(), 0);
        }
        weir_log_set(NULL, NULL);
}

/* A series that acquires one guard, and a second later the other one, if there is one. */
static weir_series *
transfer(const char *name, const char *first, const char *second)
{
        weir_series *series = weir_series_new(NULL, NULL);

        weir_series_set_name(series, name);
        weir_series_push(series, weir_guard_acquire_new_named(first, NULL, NULL));
        weir_series_push(series, weir_timer_new(WEIR_SEC(1), NULL, NULL));
        if (second)
                weir_series_push(series, weir_guard_acquire_new_named(second, NULL, NULL));
        return series;
}

static void
two_series_that_wait_for_each_others_guards_are_found(void)
{
        begin();
        weir_series_start(transfer("transfer A->B", "account A", "account B"));
        weir_series_start(transfer("transfer B->A", "account B", "account A"));
        CU_ASSERT_EQUAL(look(), 0);
        weir_clock_advance(WEIR_SEC(2));
        CU_ASSERT_EQUAL(look(), 1);
        bool is_one = strcmp(found.sentence, "deadlock: series \"transfer A->B\" waits for guard \"account B\", held by series "
                                             "\"transfer B->A\", which waits for guard \"account A\"") == 0;
        bool is_other = strcmp(found.sentence, "deadlock: series \"transfer B->A\" waits for guard \"account A\", held by series "
                                               "\"transfer A->B\", which waits for guard \"account B\"") == 0;
        CU_ASSERT(is_one || is_other);
        weir_series_cancel_named("transfer A->B", WEIR_ALL);
        weir_clock_advance(WEIR_SEC(2));
        CU_ASSERT_EQUAL(look(), 0);
        CU_ASSERT_EQUAL(weir_shutdown(), 0);
}

/* -- through tasks that run others -- */

static weir_task *
make_acquire(void *context)
{
        (void)context;
        return weir_guard_acquire_new_named("b", NULL, NULL);
}

static weir_task *
in_parallel(void)
{
        weir_task *parallel = weir_parallel_new(NULL, NULL);

        weir_parallel_add(parallel, make_acquire(NULL));
        return parallel;
}

static weir_task *
in_module(void)
{
        weir_series *series = weir_series_new(NULL, NULL);

        weir_series_push(series, make_acquire(NULL));
        return weir_module_new(series, NULL, NULL);
}

static weir_task *
in_graph(void)
{
        weir_task *graph = weir_graph_new(NULL, NULL);

        weir_graph_precede(weir_graph_add(graph, weir_empty_new(NULL, NULL), "first"),
                           weir_graph_add(graph, make_acquire(NULL), "second"));
        return graph;
}

static weir_task *
in_timeout(void)
{
        return weir_timeout_new(make_acquire(NULL), WEIR_SEC(3600));
}

static weir_task *
in_dynamic(void)
{
        return weir_dynamic_new(make_acquire, NULL, NULL);
}

static weir_task *
in_repeater(void)
{
        return weir_repeater_new(make_acquire, NULL, NULL);
}

static weir_task *
in_retry(void)
{
        return weir_retry_new(NULL, make_acquire, NULL, NULL);
}

static weir_task *
in_limited(void)
{
        weir_semaphore *semaphore = weir_semaphore_new(1);
        weir_task *limited = weir_limited_new(semaphore, 1, make_acquire(NULL), NULL, NULL);

        weir_semaphore_unref(semaphore);
        return limited;
}

static weir_task *
in_conditional(void)
{
        weir_condition *condition = weir_condition_new();
        weir_task *conditional = weir_conditional_new(condition, make_acquire(NULL), NULL, NULL);

        weir_condition_signal(condition);
        weir_condition_unref(condition);
        return conditional;
}

static void
circles_through_tasks_that_run_others_are_found(void)
{
        static weir_task *(*const shapes[])(void) = {in_parallel, in_module, in_graph,   in_timeout,    in_dynamic,
                                                     in_repeater, in_retry,  in_limited, in_conditional};

        for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
                weir_series *outer = transfer("outer", "a", NULL);

                begin();
                weir_series_push(outer, shapes[i]());
                weir_series_start(outer);
                weir_series_start(transfer("other", "b", "a"));
                weir_clock_advance(WEIR_SEC(2));
                CU_ASSERT_EQUAL(look(), 1);
                CU_ASSERT_EQUAL(weir_shutdown(), 0);
        }
}

static weir_task *
in_parallel_that_stops(void)
{
        weir_task *parallel = in_parallel();

        weir_parallel_stop_on_failure(parallel);
        return parallel;
}

static weir_task *
in_graph_that_stops(void)
{
        weir_task *graph = in_graph();

        weir_graph_stop_on_failure(graph);
        return graph;
}

/* Another of their children might fail, and so end the wait. */
static void
what_stops_at_a_failure_closes_no_circle(void)
{
        static weir_task *(*const shapes[])(void) = {in_parallel_that_stops, in_graph_that_stops};

        for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
                weir_series *outer = transfer("outer", "a", NULL);

                begin();
                weir_series_push(outer, shapes[i]());
                weir_series_start(outer);
                weir_series_start(transfer("other", "b", "a"));
                weir_clock_advance(WEIR_SEC(2));
                CU_ASSERT_EQUAL(look(), 0);
                CU_ASSERT_EQUAL(weir_shutdown(), 0);
        }
}

static void
a_circle_of_five_is_one(void)
{
        static const char *const names[] = {"a", "b", "c", "d", "e"};

        begin();
        for (int i = 0; i < 5; i++)
                weir_series_start(transfer(names[i], names[i], names[(i + 1) % 5]));
        weir_series_start(transfer("bystander", "c", NULL));
        weir_clock_advance(WEIR_SEC(2));
        CU_ASSERT_EQUAL(look(), 1);
        for (int i = 0; i < 5; i++)
                CU_ASSERT(strstr(found.sentence, names[i]) != NULL);
        CU_ASSERT_PTR_NULL(strstr(found.sentence, "bystander"));
        CU_ASSERT_EQUAL(weir_shutdown(), 0);
}

static void
a_chain_is_no_circle(void)
{
        begin();
        weir_series_start(transfer("one", "a", NULL));
        weir_series_start(transfer("two", "b", "a"));
        weir_series_start(transfer("three", "c", "b"));
        weir_clock_advance(WEIR_MSEC(500));
        CU_ASSERT_EQUAL(look(), 0);
        CU_ASSERT_EQUAL(weir_shutdown(), 0);
}

/* A holds "a" and runs a task that waits for "b", whose holder waits for "a". */
static weir_series *
with_a_part(weir_task *(*wrap)(weir_series *series))
{
        weir_series *outer = weir_series_new(NULL, NULL), *inner = weir_series_new(NULL, NULL);

        weir_series_set_name(outer, "outer");
        weir_series_push(outer, weir_guard_acquire_new_named("a", NULL, NULL));
        weir_series_push(inner, weir_timer_new(WEIR_SEC(1), NULL, NULL));
        weir_series_push(inner, weir_guard_acquire_new_named("b", NULL, NULL));
        weir_series_push(outer, wrap(inner));
        return outer;
}

static weir_task *
in_a_parallel(weir_series *series)
{
        weir_task *parallel = weir_parallel_new(NULL, NULL);

        weir_parallel_add(parallel, weir_timer_new(WEIR_FOREVER, NULL, NULL));
        weir_parallel_add_series(parallel, series);
        return parallel;
}

static weir_task *
in_a_race(weir_series *series)
{
        weir_task *race = weir_race_new(NULL, NULL);

        weir_race_add(race, weir_timer_new(WEIR_SEC(100), NULL, NULL));
        weir_race_add_series(race, series);
        return race;
}

static void
a_wait_within_a_parallel_closes_a_circle(void)
{
        begin();
        weir_series_start(with_a_part(in_a_parallel));
        weir_series_start(transfer("other", "b", "a"));
        weir_clock_advance(WEIR_SEC(2));
        CU_ASSERT_EQUAL(look(), 1);
        CU_ASSERT_PTR_NOT_NULL(strstr(found.sentence, "\"outer\""));
        CU_ASSERT_PTR_NOT_NULL(strstr(found.sentence, "has a task that waits for guard \"b\""));
        CU_ASSERT_EQUAL(weir_shutdown(), 0);
}

static void
a_wait_within_a_race_may_end_by_another_series_of_it(void)
{
        begin();
        weir_series_start(with_a_part(in_a_race));
        weir_series_start(transfer("other", "b", "a"));
        weir_clock_advance(WEIR_SEC(2));
        CU_ASSERT_EQUAL(look(), 0);
        CU_ASSERT_EQUAL(weir_shutdown(), 0);
}

static void
two_that_share_and_want_the_other_guard_alone_are_found(void)
{
        begin();
        weir_series *one = weir_series_new(NULL, NULL), *two = transfer("two", "b", "a");

        weir_series_push(one, weir_guard_acquire_shared_new_named("a", NULL, NULL));
        weir_series_push(one, weir_timer_new(WEIR_SEC(1), NULL, NULL));
        weir_series_push(one, weir_guard_acquire_new_named("b", NULL, NULL));
        weir_series_start(one);
        weir_series_start(two);
        weir_clock_advance(WEIR_SEC(2));
        CU_ASSERT_EQUAL(look(), 1);
        CU_ASSERT_EQUAL(weir_shutdown(), 0);
}

static char sentences[16][1024];
static unsigned sentence_count;

static void
keep(const char *sentence, void *context)
{
        (void)context;
        if (sentence_count < 16)
                snprintf(sentences[sentence_count++], sizeof *sentences, "%s", sentence);
}

static int
by_address(const void *a, const void *b)
{
        const weir_series *const *one = a, *const *other = b;

        return *one < *other ? -1 : *one > *other;
}

/* One series has two children that wait for different guards, whose holders wait for its own.  Each circle has its place among
 * the addresses once. */
static void
two_circles_through_one_holder_are_both_found(void)
{
        for (unsigned place = 0; place < 3; place++) {
                weir_series *series[3];

                begin();
                for (unsigned i = 0; i < 3; i++)
                        series[i] = weir_series_new(NULL, NULL);
                qsort(series, 3, sizeof *series, by_address);
                weir_series *shared = series[place], *one = series[(place + 1) % 3], *other = series[(place + 2) % 3];
                weir_task *both = weir_parallel_new(NULL, NULL);

                weir_parallel_add(both, weir_guard_acquire_new_named("one", NULL, NULL));
                weir_parallel_add(both, weir_guard_acquire_new_named("other", NULL, NULL));
                weir_series_push(shared, weir_guard_acquire_new_named("shared", NULL, NULL));
                weir_series_push(shared, weir_timer_new(WEIR_SEC(1), NULL, NULL));
                weir_series_push(shared, both);
                weir_series_push(one, weir_guard_acquire_new_named("one", NULL, NULL));
                weir_series_push(one, weir_timer_new(WEIR_SEC(1), NULL, NULL));
                weir_series_push(one, weir_guard_acquire_new_named("shared", NULL, NULL));
                weir_series_push(other, weir_guard_acquire_new_named("other", NULL, NULL));
                weir_series_push(other, weir_timer_new(WEIR_SEC(1), NULL, NULL));
                weir_series_push(other, weir_guard_acquire_new_named("shared", NULL, NULL));
                for (unsigned i = 0; i < 3; i++)
                        weir_series_start(series[i]);
                weir_clock_advance(WEIR_SEC(2));
                sentence_count = 0;
                weir__deadlock_find(keep, NULL);
                CU_ASSERT_EQUAL(sentence_count, 2);
                bool has_one = strstr(sentences[0], "guard \"one\"") || strstr(sentences[1], "guard \"one\"");
                bool has_other = strstr(sentences[0], "guard \"other\"") || strstr(sentences[1], "guard \"other\"");
                CU_ASSERT(has_one && has_other);
                CU_ASSERT_EQUAL(weir_shutdown(), 0);
        }
}

/* Eight series share a guard, and each has so many children that a search for each holder would be long. */
static void
a_search_from_one_guard_looks_at_no_more_series_than_it_says(void)
{
        weir_guard *guard = weir_guard_new();

        begin();
        for (unsigned i = 0; i < 8; i++) {
                weir_series *series = weir_series_new(NULL, NULL);

                weir_series_push(series, weir_guard_acquire_shared_new(guard, NULL, NULL));
                weir_task *all = weir_parallel_new(NULL, NULL);
                for (unsigned child = 0; child < 1000; child++)
                        weir_parallel_add(all, weir_timer_new(WEIR_SEC(10), NULL, NULL));
                weir_series_push(series, all);
                weir_series_start(series);
        }
        weir_clock_advance(WEIR_SEC(1));
        weir_task_start(weir_guard_acquire_new(guard, NULL, NULL));
        weir_clock_advance(WEIR_SEC(1));
        found.count = 0;
        unsigned looks = weir__deadlock_find_new(guard, note, NULL);
        CU_ASSERT(looks > 100 && looks <= 2000);
        CU_ASSERT_EQUAL(found.count, 0);
        CU_ASSERT_EQUAL(weir_shutdown(), 0);
        weir_guard_unref(guard);
}

static void
guards_without_a_name_are_told_by_their_addresses(void)
{
        weir_guard *a = weir_guard_new(), *b = weir_guard_new();
        char expected[64];

        begin();
        for (unsigned i = 0; i < 2; i++) {
                weir_series *series = weir_series_new(NULL, NULL);

                weir_series_push(series, weir_guard_acquire_new(i ? b : a, NULL, NULL));
                weir_series_push(series, weir_timer_new(WEIR_SEC(1), NULL, NULL));
                weir_series_push(series, weir_guard_acquire_new(i ? a : b, NULL, NULL));
                weir_series_start(series);
        }
        weir_clock_advance(WEIR_SEC(2));
        CU_ASSERT_EQUAL(look(), 1);
        snprintf(expected, sizeof expected, "waits for guard %p", (void *)a);
        CU_ASSERT_PTR_NOT_NULL(strstr(found.sentence, expected));
        snprintf(expected, sizeof expected, "waits for guard %p", (void *)b);
        CU_ASSERT_PTR_NOT_NULL(strstr(found.sentence, expected));
        CU_ASSERT_EQUAL(weir_shutdown(), 0);
        weir_guard_unref(a);
        weir_guard_unref(b);
}

static bool
is_noted(weir_guard *guard)
{
        weir__lock(&guard->object.lock);
        bool noted = guard->is_noted;
        weir__unlock(&guard->object.lock);
        return noted;
}

/* The last step of a shutdown comes late, when another thread has started the runtime again. */
static void
a_late_end_of_a_shutdown_forgets_no_guard_of_the_next_runtime(void)
{
        weir_log_set(hear, NULL);
        atomic_store(&logged.count, 0);
        CU_ASSERT_EQUAL_FATAL(weir_init(NULL), 0);
        start_deadlock("a", "b");
        weir_guard *a = weir_guard_open("a"), *b = weir_guard_open("b");
        WEIR_TEST_EVENTUALLY(is_noted(a) && is_noted(b));
        weir__steps_run(WEIR__STEP_ENDED);
        WEIR_TEST_EVENTUALLY(atomic_load(&logged.count) == 1);
        weir_guard_unref(a);
        weir_guard_unref(b);
        CU_ASSERT_EQUAL(weir_shutdown(), 0);
        weir_log_set(NULL, NULL);
}

static void
a_dump_says_it_first(void)
{
        char dump[8192];
        int ends[2];

        begin();
        weir_series_start(transfer("transfer A->B", "account A", "account B"));
        weir_series_start(transfer("transfer B->A", "account B", "account A"));
        weir_clock_advance(WEIR_SEC(2));
        CU_ASSERT_EQUAL_FATAL(pipe(ends), 0);
        CU_ASSERT_EQUAL(weir_debug_dump(ends[1]), 0);
        ssize_t size = read(ends[0], dump, sizeof dump - 1);
        dump[size > 0 ? size : 0] = '\0';
        const char *line = strchr(dump, '\n');
        CU_ASSERT(line && strncmp(line, "\ndeadlock: series \"transfer ", 28) == 0);
        close(ends[0]);
        close(ends[1]);
        CU_ASSERT_EQUAL(weir_shutdown(), 0);
}

/* -- no circle is reported where all take the guards in one order -- */

#define FLOWS (WEIR_TEST_SANITIZED ? 2000 : 20000)

static atomic_uint ended;

static void
count_end(weir_series *series, void *context)
{
        (void)series, (void)context;
        ended++;
}

static void *
start_flows(void *unused)
{
        static const char *const names[] = {"a", "b", "c", "d"};

        (void)unused;
        for (unsigned i = 0; i < FLOWS; i++) {
                weir_series *series = weir_series_new(count_end, NULL);
                unsigned first = i % 3;

                weir_series_push(series, weir_guard_acquire_new_named(names[first], NULL, NULL));
                weir_series_push(series, weir_guard_acquire_new_named(names[first + 1 + i % (3 - first)], NULL, NULL));
                weir_series_start(series);
        }
        return NULL;
}

static void
flows_that_take_guards_in_one_order_are_never_reported(void)
{
        pthread_t threads[2];
        unsigned looks = 0, circles = 0;

        ended = 0;
        weir_init(NULL);
        for (int i = 0; i < 2; i++)
                pthread_create(&threads[i], NULL, start_flows, NULL);
        while (ended < 2 * FLOWS || looks < 10) {
                circles += look();
                looks++;
        }
        CU_ASSERT_EQUAL(circles, 0);
        for (int i = 0; i < 2; i++)
                pthread_join(threads[i], NULL);
        CU_ASSERT_EQUAL(weir_shutdown(), 0);
}

/* -- nor where the edges of a circle are there at different times: one series holds two guards, the other one at a time -- */

#define ROUNDS (WEIR_TEST_SANITIZED ? 5000 : 100000)

struct walker {
        const char *plan; /* pairs: '+' acquires, '-' releases, the name of the guard */
        unsigned at, rounds;
};

static void
walk(weir_task *task, void *context)
{
        struct walker *walker = context;
        weir_series *series = weir_series_of(task);

        for (;;) {
                const char *step = &walker->plan[walker->at];
                char name[2] = {step[0] ? step[1] : '\0'};

                if (!*step && ++walker->rounds == ROUNDS)
                        return;
                walker->at = *step ? walker->at + 2 : 0;
                if (*step == '-')
                        weir_guard_release_named(name, series);
                if (*step != '+')
                        continue;
                weir_series_push(series, weir_guard_acquire_new_named(name, walk, walker));
                return;
        }
}

static void
edges_that_are_there_at_different_times_are_no_circle(void)
{
        struct walker walkers[2] = {{.plan = "+a+b-a-b"}, {.plan = "+b-b+a-a"}};
        unsigned circles = 0;

        ended = 0;
        weir_init(NULL);
        for (int i = 0; i < 2; i++) {
                weir_series *series = weir_series_new(count_end, NULL);

                weir_series_push(series, weir_empty_new(walk, &walkers[i]));
                weir_series_start(series);
        }
        while (ended < 2)
                circles += look();
        CU_ASSERT_EQUAL(circles, 0);
        CU_ASSERT_EQUAL(weir_shutdown(), 0);
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(a_deadlock_is_logged_once_by_itself),
                WEIR_TEST(the_same_deadlock_after_its_end_is_logged_again),
                WEIR_TEST(two_series_that_wait_for_each_others_guards_are_found),
                WEIR_TEST(circles_through_tasks_that_run_others_are_found),
                WEIR_TEST(what_stops_at_a_failure_closes_no_circle),
                WEIR_TEST(a_circle_of_five_is_one),
                WEIR_TEST(a_chain_is_no_circle),
                WEIR_TEST(a_wait_within_a_parallel_closes_a_circle),
                WEIR_TEST(a_wait_within_a_race_may_end_by_another_series_of_it),
                WEIR_TEST(two_that_share_and_want_the_other_guard_alone_are_found),
                WEIR_TEST(two_circles_through_one_holder_are_both_found),
                WEIR_TEST(a_search_from_one_guard_looks_at_no_more_series_than_it_says),
                WEIR_TEST(guards_without_a_name_are_told_by_their_addresses),
                WEIR_TEST(a_late_end_of_a_shutdown_forgets_no_guard_of_the_next_runtime),
                WEIR_TEST(a_dump_says_it_first),
                WEIR_TEST(flows_that_take_guards_in_one_order_are_never_reported),
                WEIR_TEST(edges_that_are_there_at_different_times_are_no_circle),
        };

        return weir_test_main("deadlocks", tests, sizeof tests / sizeof *tests);
}
