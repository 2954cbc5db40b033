/* test/scheduler_guide_test.c: the examples of docs/scheduler.md, which quotes them word for word.
 *
 * Most run with one poller and without a watchdog.  So what waits for a neighbour would wait for ever, and the suite fail at its
 * time limit, if nobody had taken over. */
#include "test/fixture.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>

/* One poller that only weir_blocking_begin takes away, so many spares, one thread for functions. */
static void
begin(int spares)
{
        struct weir_config config = WEIR_CONFIG_DEFAULT;

        config.pollers = 1;
        config.spare_workers = spares;
        config.compute_threads = 1;
        config.blocking_limit = WEIR_FOREVER;
        CU_ASSERT_FATAL(weir_init(&config) == 0);
}

static void
end(void)
{
        CU_ASSERT_FATAL(weir_shutdown() == 0);
}

/* -- callbacks that block -- */

static struct weir_test_latch begun, neighbour;

static void
count_down(weir_task *task, void *latch)
{
        (void)task;
        weir_test_latch_count_down(latch);
}

struct order {
        int price;
};

/* Waits until another callback of the same poller has run. */
static int
ask_for_price(struct order *order)
{
        (void)order;
        weir_test_latch_wait(&neighbour);
        return 42;
}

static void
look_up(weir_task *task, void *context)
{
        struct order *order = context;

        (void)task;
        weir_blocking_begin();               /* another worker goes on with the other work */
        order->price = ask_for_price(order); /* however long that takes */
        weir_blocking_end();
}

static void
neighbours_of_a_callback_that_says_that_it_blocks_go_on(void)
{
        struct order order = {0};

        begin(0);
        weir_test_latch_init(&neighbour, 1);
        weir_task *both = weir_parallel_new(NULL, NULL);
        weir_parallel_add(both, weir_empty_new(look_up, &order));
        weir_parallel_add(both, weir_empty_new(count_down, &neighbour));
        CU_ASSERT(weir_task_run(both) == 0);
        CU_ASSERT(order.price == 42);
        end();
}

/* The first of two gets a spare, the second gets none. */
struct attempt {
        struct attempt *other;
        int result;
        struct weir_test_latch over;
};

static void
attempt_to_block(weir_task *task, void *context)
{
        struct attempt *attempt = context;

        (void)task;
        attempt->result = weir_blocking_begin();
        if (attempt->result == 0) /* another worker runs what comes behind this one */
                weir_test_latch_wait(&attempt->other->over);
        weir_blocking_end();
        weir_test_latch_count_down(&attempt->over);
}

static void
at_the_bound_a_callback_runs_on_where_it_is(void)
{
        struct attempt first = {.result = 1}, second = {.result = 1, .other = &first};

        begin(1);
        first.other = &second;
        weir_test_latch_init(&first.over, 1);
        weir_test_latch_init(&second.over, 1);
        weir_task *both = weir_parallel_new(NULL, NULL);
        weir_parallel_add(both, weir_empty_new(attempt_to_block, &first));
        weir_parallel_add(both, weir_empty_new(attempt_to_block, &second));
        CU_ASSERT(weir_task_run(both) == 0);
        CU_ASSERT(first.result == 0 && second.result == -EAGAIN); /* one spare: the first's */
        end();
}

/* -- messages -- */

static char said[4096];
static struct weir_test_latch has_said;

static void
on_message(enum weir_log_level level, const char *message, void *context)
{
        static const char *const levels[] = {
                [WEIR_LOG_ERROR] = "error",
                [WEIR_LOG_WARNING] = "warning",
                [WEIR_LOG_INFO] = "info",
        };

        fprintf(context, "weir, %s: %s\n", levels[level], message);
        if (strstr(message, " ran for "))
                weir_test_latch_count_down(&has_said);
}

static void
wait_for_neighbour(weir_task *task, void *context)
{
        (void)task;
        (void)context;
        weir_test_latch_count_down(&begun);
        weir_test_latch_wait(&neighbour);
}

/* The one that has blocked says so when it returns. */
static void
a_callback_that_blocks_unannounced_is_taken_over_and_named(void)
{
        struct weir_config config = WEIR_CONFIG_DEFAULT;
        FILE *file = fmemopen(said, sizeof said, "w");
        struct weir_stats stats = WEIR_STATS_DEFAULT;

        weir_test_latch_init(&begun, 1);
        weir_test_latch_init(&neighbour, 1);
        weir_test_latch_init(&has_said, 1);
        CU_ASSERT(weir_log_set(on_message, file) == 0);
        config.pollers = 1;
        CU_ASSERT_FATAL(weir_init(&config) == 0);
        CU_ASSERT(weir_task_start(weir_timer_new_named("report", 0, wait_for_neighbour, NULL)) == 0);
        weir_test_latch_wait(&begun);
        CU_ASSERT(weir_task_run(weir_empty_new(NULL, NULL)) == 0); /* without a callback, which might be taken over as well */
        weir_test_latch_count_down(&neighbour);
        weir_test_latch_wait(&has_said);
        end(); /* the watchdog has counted what it did */
        CU_ASSERT(weir_stats(&stats) == 0 && stats.taken_over > 0);
        weir_log_set(NULL, NULL);
        fclose(file);
        CU_ASSERT_PTR_NOT_NULL(strstr(said, "weir, warning: the callback of a timer \"report\" (scheduler_guide_test+0x"));
}

static void
print_stats(FILE *file)
{
        struct weir_stats stats = WEIR_STATS_DEFAULT;

        if (weir_stats(&stats))
                return;
        fprintf(file, "%u pollers, %" PRIu64 " callbacks ready\n", stats.pollers, stats.ready);
        fprintf(file, "%u workers, of which %u are spare, and %u threads for functions\n", stats.workers, stats.spares,
                stats.functions);
        fprintf(file, "%" PRIu64 " pollers taken over, %" PRIu64 " given away, %" PRIu64 " callbacks run elsewhere\n",
                stats.taken_over, stats.given_away, stats.stolen);
}

static void
stats_are_printed(void)
{
        char text[512] = "";

        begin(0);
        weir_task_run(weir_timer_new(0, NULL, NULL));
        FILE *file = fmemopen(text, sizeof text, "w");
        print_stats(file);
        fclose(file);
        CU_ASSERT(strncmp(text, "1 pollers, ", 11) == 0);
        CU_ASSERT_PTR_NOT_NULL(strstr(text, "\n1 workers, of which 0 are spare, and 0 threads for functions\n"));
        end();
}

/* -- functions -- */

struct search {
        unsigned below, primes;
};

static bool
is_prime(unsigned n)
{
        for (unsigned divisor = 2; divisor <= n / divisor; divisor++)
                if (n % divisor == 0)
                        return false;
        return n > 1;
}

static void
count_primes(void *context)
{
        struct search *search = context;

        for (unsigned n = 0; n < search->below; n++) {
                if (n % 1024 == 0 && weir_go_cancelled())
                        return; /* nobody waits for it any more */
                search->primes += is_prime(n);
        }
        if (search->primes == 0)
                weir_go_fail(-ENOENT); /* the status that the callback sees */
}

struct house {
        unsigned rooms, area;
};

static void
measure_rooms(void *unused)
{
        struct house *house = weir_series_context(weir_series_of(weir_go_task()));

        (void)unused;
        for (unsigned i = 0; i < house->rooms; i++)
                house->area += 12 + i;
}

static void
say_area(weir_task *task, void *area)
{
        const struct house *house = weir_series_context(weir_series_of(task));

        *(unsigned *)area = house->area;
}

static void
function_and_callback_share_the_context_of_their_series(void)
{
        struct house *house = malloc(sizeof *house);
        unsigned area = 0;

        begin(0);
        *house = (struct house){.rooms = 4};
        weir_series *series = weir_series_new(NULL, NULL);
        weir_series_set_context(series, house, free);
        weir_series_push(series, weir_go_new(NULL, measure_rooms, say_area, &area));
        weir_waitgroup *group = weir_waitgroup_new();
        CU_ASSERT(weir_series_start_waited(series, group) == 0);
        CU_ASSERT(weir_waitgroup_wait(group, WEIR_FOREVER) == 0);
        CU_ASSERT(area == 54);
        weir_waitgroup_free(group);
        end();
}

static struct {
        int status;
        unsigned primes;
} reported;

static void
report(weir_task *task, void *context)
{
        const struct search *search = context;

        reported.status = weir_task_status(task);
        if (reported.status != -ETIMEDOUT) /* then the function may be at it still */
                reported.primes = search->primes;
}

static void
a_function_computes_and_its_series_goes_on(void)
{
        struct search search = {.below = 1000}, none = {.below = 2};

        begin(0);
        weir_series *series = weir_series_new(NULL, NULL);
        weir_series_push(series, weir_timer_new(WEIR_MSEC(1), NULL, NULL));
        weir_series_push(series, weir_go_new(NULL, count_primes, report, &search));
        CU_ASSERT(weir_series_run(series) == 0);
        CU_ASSERT(reported.status == 0 && reported.primes == 168);

        CU_ASSERT(weir_task_run(weir_go_new(NULL, count_primes, report, &none)) == -ENOENT);
        CU_ASSERT(reported.status == -ENOENT);
        end();
}

static void
a_limit_ends_the_task_and_the_function_ends_itself(void)
{
        begin(0);
        struct search *search = calloc(1, sizeof *search);
        search->below = UINT_MAX;
        weir_task *task = weir_go_new_timed(NULL, WEIR_MSEC(5), count_primes, report, search);
        weir_task_on_free(task, free); /* when the function has returned as well */
        CU_ASSERT(weir_task_run(task) == -ETIMEDOUT);
        CU_ASSERT(reported.status == -ETIMEDOUT);
        end();
}

static _Atomic unsigned resized;
static unsigned resized_before_letter;

static void
hold_thread(void *context)
{
        (void)context;
        weir_test_latch_count_down(&begun);
        weir_test_latch_wait(&neighbour);
}

static void
resize(void *context)
{
        (void)context;
        resized++;
}

static void
write_letter(void *context)
{
        (void)context;
        resized_before_letter = resized;
}

/* Nothing of it has begun, as the one thread is held. */
static void
start_many(void)
{
        begin(0);
        weir_test_latch_init(&begun, 1);
        weir_test_latch_init(&neighbour, 1);
        CU_ASSERT(weir_task_start(weir_go_new(NULL, hold_thread, NULL, NULL)) == 0);
        weir_test_latch_wait(&begun);
        resized = 0;
        for (unsigned i = 0; i < 1000; i++)
                weir_task_start(weir_go_new("pictures", resize, NULL, NULL));
        weir_task_start(weir_go_new("letters", write_letter, NULL, NULL));
}

static void
queues_take_turns(void)
{
        start_many();
        struct weir_go_stats stats = WEIR_GO_STATS_DEFAULT;
        CU_ASSERT(weir_go_queue_stats("pictures", &stats) == 0);
        CU_ASSERT(stats.queued == 1000 && stats.running == 0);
        weir_test_latch_count_down(&neighbour);
        WEIR_TEST_EVENTUALLY(resized == 1000);
        CU_ASSERT(resized_before_letter <= 2); /* though a thousand were there before */
        end();
}

/* -- waiting -- */

static int refused;

static void
refresh(weir_task *task, void *context)
{
        int *status = context;

        (void)task;
        /* It would wait for itself: -EDEADLK. */
        refused = weir_task_run(weir_timer_new(WEIR_SEC(1), NULL, NULL));

        weir_blocking_begin();
        *status = weir_task_run(weir_timer_new(WEIR_SEC(1), NULL, NULL)); /* a second later: 0 */
        weir_blocking_end();
}

static void
a_callback_waits_for_a_flow(void)
{
        int status = 1;

        weir_test_begin_virtual();
        weir_nsec began = weir_now();
        CU_ASSERT(weir_task_run(weir_empty_new(refresh, &status)) == 0);
        CU_ASSERT(refused == -EDEADLK && status == 0);
        CU_ASSERT(weir_now() - began == WEIR_SEC(1));
        end();
}

static void
fetched(weir_task *timer, void *unused)
{
        (void)timer;
        (void)unused;
}

static void
a_thread_waits_until_all_are_done(void)
{
        begin(0);
        weir_waitgroup *group = weir_waitgroup_new();
        for (int i = 0; i < 3; i++)
                weir_task_start_waited(weir_timer_new(WEIR_MSEC(i), fetched, NULL), group);
        CU_ASSERT(weir_waitgroup_wait(group, WEIR_SEC(30)) == 0);
        weir_waitgroup_free(group);
        end();
}

/* -- setting it up -- */

static void
a_small_program_is_set_up(void)
{
        struct weir_config config = WEIR_CONFIG_DEFAULT;

        config.pollers = 1;                    /* one thread for timers and connections */
        config.compute_threads = 1;            /* one for functions, at the first of them */
        config.spare_workers = 8;              /* eight may block, beside the callback that runs */
        config.blocking_limit = WEIR_MSEC(50); /* longer callbacks are meant so */
        config.stack_size = 256 * 1024;        /* the program knows how deep its callbacks go */
        CU_ASSERT(weir_init(&config) == 0);

        CU_ASSERT(weir_task_run(weir_timer_new(0, NULL, NULL)) == 0);
        end();
}

static const struct weir_test tests[] = {
        WEIR_TEST(neighbours_of_a_callback_that_says_that_it_blocks_go_on),
        WEIR_TEST(at_the_bound_a_callback_runs_on_where_it_is),
        WEIR_TEST(a_callback_that_blocks_unannounced_is_taken_over_and_named),
        WEIR_TEST(stats_are_printed),
        WEIR_TEST(a_function_computes_and_its_series_goes_on),
        WEIR_TEST(a_limit_ends_the_task_and_the_function_ends_itself),
        WEIR_TEST(queues_take_turns),
        WEIR_TEST(a_callback_waits_for_a_flow),
        WEIR_TEST(function_and_callback_share_the_context_of_their_series),
        WEIR_TEST(a_thread_waits_until_all_are_done),
        WEIR_TEST(a_small_program_is_set_up),
};

int
main(void)
{
        return weir_test_main("the guide to the scheduler", tests, sizeof tests / sizeof *tests);
}
