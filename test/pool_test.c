/* test/pool_test.c: objects that tasks take turns with. */
#include "factory/sync/waitable.h"
#include "test/fixture.h"

#include <errno.h>
#include <sys/wait.h>

static char seen[1024];
static atomic_int dropped;

static void
begin(void)
{
        seen[0] = '\0';
        dropped = 0;
        weir_test_begin_virtual();
}

static void
note(const char *what, const char *object, int status)
{
        size_t size = strlen(seen);

        snprintf(seen + size, sizeof seen - size, "%s%s %s:%d", size ? " " : "", what, object ? object : "nothing", status);
}

static void
drop(void *object)
{
        (void)object;
        dropped++;
}

static void
borrows(weir_task *task, void *name)
{
        note(name, weir_pool_object(task), weir_task_status(task));
}

static void
takes(weir_task *task, void *name)
{
        note(name, weir_pool_take_object(task), weir_task_status(task));
        CU_ASSERT_PTR_NULL(weir_pool_object(task));
        CU_ASSERT_PTR_NULL(weir_pool_take_object(task));
}

static void
says_what_is_there(weir_task *task, void *pool)
{
        (void)task;
        note("there", weir_pool_available(pool) == 1 ? "one" : "not one", 0);
}

/* -- in order -- */

static void
last_one_put_is_the_first_one_taken(void)
{
        weir_pool *pool = weir_pool_new(drop);

        begin();
        CU_ASSERT_EQUAL(weir_pool_put(pool, "x"), 0);
        CU_ASSERT_EQUAL(weir_pool_put(pool, "y"), 0);
        weir_task_start(weir_pool_take_new(pool, takes, "a"));
        weir_task_start(weir_pool_take_new(pool, takes, "b"));
        weir_task_start(weir_pool_take_new(pool, takes, "c"));
        weir_task_start(weir_pool_take_new(pool, takes, "d"));
        weir_test_pass(WEIR_SEC(1));
        CU_ASSERT_STRING_EQUAL(seen, "a y:0 b x:0");
        CU_ASSERT_EQUAL(weir_pool_put(pool, "y"), 0); /* to the task that has waited longest */
        CU_ASSERT_EQUAL(weir_pool_put(pool, "x"), 0);
        CU_ASSERT_EQUAL(weir_pool_available(pool), 0);
        weir_test_pass(0);
        CU_ASSERT_STRING_EQUAL(seen, "a y:0 b x:0 c y:0 d x:0");
        weir_pool_unref(pool);
        weir_test_end();
        CU_ASSERT_EQUAL(dropped, 0); /* they are the program's */
}

static void
object_that_the_callback_leaves_goes_back_before_the_series_goes_on(void)
{
        weir_pool *pool = weir_pool_new(drop);
        weir_series *series = weir_series_new(NULL, NULL);

        begin();
        weir_pool_put(pool, "x");
        weir_series_push(series, weir_pool_take_new(pool, borrows, "a"));
        weir_series_push(series, weir_empty_new(says_what_is_there, pool));
        weir_series_push(series, weir_pool_take_new(pool, NULL, NULL));
        weir_series_push(series, weir_pool_take_new(pool, takes, "b"));
        weir_series_start(series);
        weir_test_pass(0);
        CU_ASSERT_STRING_EQUAL(seen, "a x:0 there one:0 b x:0");
        CU_ASSERT_EQUAL(weir_pool_available(pool), 0);
        weir_pool_put(pool, "x");
        weir_pool_unref(pool);
        CU_ASSERT_EQUAL(dropped, 1);
        weir_test_end();
}

static void
waiting_task_gets_what_another_callback_leaves(void)
{
        weir_pool *pool = weir_pool_new(drop);

        begin();
        for (unsigned i = 0; i < 100; i++)
                weir_task_start(weir_pool_take_new(pool, i % 10 ? NULL : borrows, "a"));
        weir_test_pass(0);
        CU_ASSERT_EQUAL(weir_pool_put(pool, "x"), 0);
        weir_test_pass(0);
        CU_ASSERT_STRING_EQUAL(seen, "a x:0 a x:0 a x:0 a x:0 a x:0 a x:0 a x:0 a x:0 a x:0 a x:0");
        CU_ASSERT_PTR_NOT_NULL(weir_pool_try_take(pool));
        CU_ASSERT_PTR_NULL(weir_pool_try_take(pool));
        weir_pool_unref(pool);
        weir_test_end();
}

static void
pool_grows_with_its_objects(void)
{
        enum { OBJECTS = 1000 };
        weir_pool *pool = weir_pool_new(drop);
        static char objects[OBJECTS];

        begin();
        for (unsigned i = 0; i < OBJECTS; i++)
                CU_ASSERT_EQUAL_FATAL(weir_pool_put(pool, &objects[i]), 0);
        CU_ASSERT_EQUAL(weir_pool_available(pool), OBJECTS);
        for (unsigned i = OBJECTS; i > 10; i--)
                CU_ASSERT_PTR_EQUAL_FATAL(weir_pool_try_take(pool), &objects[i - 1]);
        weir_pool_unref(pool);
        CU_ASSERT_EQUAL(dropped, 10);
        weir_test_end();
}

/* -- for longer than a callback -- */

struct connection {
        weir_pool *pool;
        unsigned queries;
};

static void
hang_up(void *connection)
{
        drop(connection);
}

static void
give_back(void *context)
{
        struct connection *connection = context;

        if (weir_pool_put(connection->pool, connection))
                hang_up(connection);
}

static void
use_connection(weir_task *take, void *context)
{
        struct connection *connection = weir_pool_take_object(take);
        weir_series *series = weir_series_of(take);

        (void)context;
        if (!connection)
                return; /* cancelled before it came */
        weir_series_set_context(series, connection, give_back);
        connection->queries++;
        weir_series_push(series, weir_timer_new(WEIR_SEC(1), NULL, NULL));
}

static void
object_of_a_series_goes_back_however_that_ends(void)
{
        weir_pool *pool = weir_pool_new(hang_up);
        struct connection connection = {.pool = pool};
        weir_series *series[4];

        begin();
        weir_pool_put(pool, &connection);
        for (unsigned i = 0; i < 4; i++) {
                series[i] = weir_series_ref(weir_series_new(NULL, NULL));
                weir_series_push(series[i], weir_pool_take_new(pool, use_connection, NULL));
                weir_series_start(series[i]);
        }
        weir_test_pass(WEIR_MSEC(1500));
        CU_ASSERT_EQUAL(connection.queries, 2);
        weir_series_cancel(series[2]); /* which waits */
        weir_series_cancel(series[1]); /* which has it */
        weir_test_pass(WEIR_SEC(5));
        CU_ASSERT_EQUAL(connection.queries, 3);
        CU_ASSERT_EQUAL(weir_pool_available(pool), 1);
        for (unsigned i = 0; i < 4; i++)
                weir_series_unref(series[i]);
        weir_pool_unref(pool);
        CU_ASSERT_EQUAL(dropped, 1);
        weir_test_end();
}

/* -- ends -- */

static void
cancelled_take_takes_nothing_and_granted_stays_granted(void)
{
        weir_pool *pool = weir_pool_new(drop);
        weir_series *series[2];

        begin();
        for (unsigned i = 0; i < 2; i++) {
                series[i] = weir_series_ref(weir_series_new(NULL, NULL));
                weir_series_push(series[i], weir_pool_take_new(pool, borrows, i ? "b" : "a"));
                weir_series_start(series[i]);
        }
        weir_test_pass(0);
        weir_series_cancel(series[0]);
        weir_test_pass(0);
        weir_pool_put(pool, "x");
        weir_series_cancel(series[1]); /* it has it already */
        weir_test_pass(0);
        CU_ASSERT_STRING_EQUAL(seen, "a nothing:-125 b x:0");
        CU_ASSERT_EQUAL(weir_pool_available(pool), 1);
        weir_task_dismiss(weir_pool_take_new(pool, borrows, "dismissed"));
        weir_pool_try_take(pool);
        weir_task_start(weir_timeout_new(weir_pool_take_new(pool, borrows, "late"), WEIR_SEC(1)));
        weir_task_start(weir_pool_take_new(pool, borrows, "never"));
        weir_test_pass(WEIR_SEC(1));
        weir_series_unref(series[0]);
        weir_series_unref(series[1]);
        weir_pool_unref(pool);
        weir_test_end();
        CU_ASSERT_STRING_EQUAL(seen, "a nothing:-125 b x:0 late nothing:-110 never nothing:-108");
        CU_ASSERT_EQUAL(dropped, 0);
}

static void
pool_of_a_name_is_one_as_long_as_somebody_has_it(void)
{
        begin();
        weir_pool *a = weir_pool_open("p", drop), *b = weir_pool_open("p", drop);
        CU_ASSERT_PTR_EQUAL(a, b);
        errno = 0;
        CU_ASSERT_PTR_NULL(weir_pool_open("p", NULL));
        CU_ASSERT_EQUAL(errno, EEXIST);
        weir_pool_put(a, "x");
        weir_pool_unref(a);
        CU_ASSERT_EQUAL(dropped, 0);
        weir_pool_unref(b);
        CU_ASSERT_EQUAL(dropped, 1);
        b = weir_pool_open("p", NULL);
        CU_ASSERT_EQUAL(weir_pool_available(b), 0);
        weir_pool_put(b, "x"); /* nobody drops it */
        weir_pool_unref(b);
        CU_ASSERT_EQUAL(dropped, 1);
        weir_test_end();
}

static void
a_wrong_pool_or_object_is_refused(void)
{
        weir_pool *pool = weir_pool_new(drop);
        weir_task *timer = weir_timer_new(0, NULL, NULL);

        begin();
        CU_ASSERT_EQUAL(weir_pool_put(NULL, "x"), -ENOMEM);
        CU_ASSERT_EQUAL(weir_pool_put(pool, NULL), -EINVAL);
        CU_ASSERT_PTR_NULL(weir_pool_try_take(NULL));
        CU_ASSERT_EQUAL(weir_pool_available(NULL), 0);
        CU_ASSERT_EQUAL(weir_task_start(weir_pool_take_new(NULL, borrows, "x")), -ENOMEM);
        CU_ASSERT_PTR_NULL(weir_pool_object(timer));
        CU_ASSERT_PTR_NULL(weir_pool_take_object(timer));
        CU_ASSERT_PTR_NULL(weir_pool_object(NULL));
        CU_ASSERT_PTR_NULL(weir_pool_open("", drop));
        CU_ASSERT_EQUAL(errno, EINVAL);
        CU_ASSERT_STRING_EQUAL(seen, "");
        weir_pool_unref(NULL);
        weir_pool_unref(pool);
        weir_task_dismiss(timer);
        weir_test_end();
}

/* -- many threads -- */

#define STORM_OBJECTS 4
#define STORM_SERIES  4000

struct object {
        unsigned users; /* not atomic: a race would be seen */
        unsigned uses;
};

static weir_pool *storm_pool;
static atomic_uint storm_over, storm_used, storm_broken;

static void
use(struct object *object)
{
        if (object->users++)
                atomic_fetch_add(&storm_broken, 1);
        object->uses++;
        object->users--;
        atomic_fetch_add(&storm_used, 1);
}

static void
storm_borrows(weir_task *task, void *context)
{
        (void)context;
        if (weir_task_status(task) == 0)
                use(weir_pool_object(task));
        else if (weir_pool_object(task))
                atomic_fetch_add(&storm_broken, 1);
}

static void
storm_takes(weir_task *task, void *context)
{
        struct object *object = weir_pool_take_object(task);

        (void)context;
        if (!object)
                return;
        use(object);
        weir_pool_put(storm_pool, object);
}

static void
storm_ends(weir_series *series, void *context)
{
        (void)series;
        (void)context;
        atomic_fetch_add(&storm_over, 1);
}

static void *
storm_starts(void *argument)
{
        (void)argument;
        for (unsigned i = 0; i < STORM_SERIES; i++) {
                weir_series *series = weir_series_ref(weir_series_new(storm_ends, NULL));

                for (unsigned k = 0; k < 3; k++)
                        weir_series_push(series, weir_pool_take_new(storm_pool, (i + k) % 2 ? storm_takes : storm_borrows, NULL));
                if (i % 7 == 0)
                        weir_series_set_deadline(series, WEIR_USEC(100 + i % 1000));
                if (i % 13 == 0)
                        weir_task_dismiss(weir_pool_take_new(storm_pool, NULL, NULL));
                weir_series_start(series);
                if (i % 3 == 0)
                        weir_series_cancel(series);
                struct object *object = weir_pool_try_take(storm_pool);
                if (object) {
                        use(object);
                        weir_pool_put(storm_pool, object);
                }
                weir_series_unref(series);
        }
        return NULL;
}

static void
storm(bool waits)
{
        struct object objects[STORM_OBJECTS] = {0};
        pthread_t threads[2];
        unsigned uses = 0;

        storm_over = storm_used = storm_broken = 0;
        dropped = 0;
        storm_pool = weir_pool_new(drop);
        for (unsigned i = 0; i < STORM_OBJECTS; i++)
                weir_pool_put(storm_pool, &objects[i]);
        weir_test_begin_real(3);
        for (unsigned i = 0; i < 2; i++)
                CU_ASSERT_EQUAL_FATAL(pthread_create(&threads[i], NULL, storm_starts, NULL), 0);
        for (unsigned i = 0; i < 2; i++)
                pthread_join(threads[i], NULL);
        if (waits)
                WEIR_TEST_EVENTUALLY(storm_over == 2 * STORM_SERIES);
        weir_test_end(); /* which otherwise ends all that is left */
        CU_ASSERT_EQUAL(storm_over, 2 * STORM_SERIES);
        CU_ASSERT_EQUAL(storm_broken, 0);
        CU_ASSERT_EQUAL(weir_pool_available(storm_pool), STORM_OBJECTS);
        for (unsigned i = 0; i < STORM_OBJECTS; i++)
                uses += objects[i].uses;
        CU_ASSERT_EQUAL(uses, storm_used);
        weir_pool_unref(storm_pool);
        CU_ASSERT_EQUAL(dropped, STORM_OBJECTS);
}

static void
no_object_is_lost_or_used_twice_at_once(void)
{
        storm(true);
}

static void
shutdown_amid_that_brings_them_back(void)
{
        storm(false);
}

/* A thread that puts an object has the lock just then; it is this one itself. */
static void
forks(weir_task *task, void *pool)
{
        struct weir__lock *lock = &((struct weir__waitable *)pool)->lock;
        int status = -1;

        weir__lock(lock);
        pid_t child = fork();
        if (child == 0) {
                alarm(10);
                _exit(weir_pool_take_object(task) == seen ? 0 : 1);
        }
        weir__unlock(lock);
        waitpid(child, &status, 0);
        CU_ASSERT_EQUAL(status, 0);
}

static void
child_of_a_fork_takes_the_object_of_its_callback_whoever_had_the_lock(void)
{
        begin();
        weir_pool *pool = weir_pool_new(drop);
        weir_pool_put(pool, seen);
        CU_ASSERT_EQUAL(weir_task_run(weir_pool_take_new(pool, forks, pool)), 0);
        CU_ASSERT_EQUAL(weir_pool_available(pool), 1);
        weir_pool_unref(pool);
        CU_ASSERT_EQUAL(dropped, 1);
        weir_test_end();
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(last_one_put_is_the_first_one_taken),
                WEIR_TEST(object_that_the_callback_leaves_goes_back_before_the_series_goes_on),
                WEIR_TEST(waiting_task_gets_what_another_callback_leaves),
                WEIR_TEST(pool_grows_with_its_objects),
                WEIR_TEST(object_of_a_series_goes_back_however_that_ends),
                WEIR_TEST(cancelled_take_takes_nothing_and_granted_stays_granted),
                WEIR_TEST(pool_of_a_name_is_one_as_long_as_somebody_has_it),
                WEIR_TEST(a_wrong_pool_or_object_is_refused),
                WEIR_TEST(child_of_a_fork_takes_the_object_of_its_callback_whoever_had_the_lock),
                WEIR_TEST(no_object_is_lost_or_used_twice_at_once),
                WEIR_TEST(shutdown_amid_that_brings_them_back),
        };

        return weir_test_main("pool", tests, sizeof tests / sizeof *tests);
}
