/* test/fiber_pin_test.c: fibers that are pinned to a thread of their own: on which thread they run, what stays there, and what
 * holds for them as for other fibers. */
#include "test/fiber_fixture.h"

#include <pthread.h>

#include "test/blocking_fixture.h"

/* -- memory and threads that are refused -- */

void *__real_weir__alloc(size_t size);
void *__wrap_weir__alloc(size_t size);
int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*function)(void *), void *argument);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*function)(void *), void *argument);

static _Atomic bool no_memory, no_threads;

void *
__wrap_weir__alloc(size_t size)
{
        return no_memory ? NULL : __real_weir__alloc(size);
}

int
__wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*function)(void *), void *argument)
{
        return no_threads ? EAGAIN : __real_pthread_create(thread, attributes, function, argument);
}

/* -- on which thread -- */

static __thread int own;

static WEIR_TEST_OUTLINE int *
own_address(void)
{
        int *address = &own;

        __asm__ volatile("" : "+r"(address));
        return address;
}

static WEIR_TEST_OUTLINE pid_t
thread(void)
{
        return gettid();
}

static WEIR_TEST_OUTLINE void
become_pinned(void)
{
        pid_t before = thread();

        CU_ASSERT_EQUAL(weir_fiber_pin(true), 0);
        CU_ASSERT_NOT_EQUAL(thread(), before);
}

/* A fiber that is not pinned goes on on a worker. */
static WEIR_TEST_OUTLINE void
become_free(void)
{
        pid_t pinned = thread();

        CU_ASSERT_EQUAL(weir_fiber_pin(false), 0);
        CU_ASSERT_NOT_EQUAL(thread(), pinned);
}

static void
compute(void *number)
{
        ++*(int *)number;
}

static int
child(void *elsewhere)
{
        pid_t *parent = elsewhere;

        CU_ASSERT_NOT_EQUAL(thread(), *parent);
        CU_ASSERT_EQUAL(weir_fiber_yield(), 0);
        CU_ASSERT_NOT_EQUAL(thread(), *parent);
        return 0;
}

#define STAYS(await)                                     \
        do {                                             \
                CU_ASSERT_EQUAL((await), 0);             \
                CU_ASSERT_EQUAL(thread(), *here);        \
                CU_ASSERT_EQUAL(*own_address(), number); \
        } while (0)

/* Awaits of all sorts, and a mutex over them. */
static void
stay(pid_t *here, int number)
{
        pthread_mutex_t mutex = PTHREAD_ERRORCHECK_MUTEX_INITIALIZER_NP;
        weir_channel *channel = weir_channel_new(0, NULL);
        int computed = 0;
        void *message;

        CU_ASSERT_EQUAL(pthread_mutex_lock(&mutex), 0);
        STAYS(weir_fiber_yield());
        STAYS(weir_fiber_sleep(1));
        STAYS(weir_await(weir_timer_new(1, NULL, NULL)));
        STAYS(weir_await(weir_empty_new(NULL, NULL)));
        STAYS(weir_await_within(weir_timer_new(1, NULL, NULL), WEIR_SEC(1000)));
        STAYS(weir_fiber_go(compute, &computed));
        STAYS(weir_await(weir_fiber_new(child, NULL, here)));
        weir_group *group = weir_group_open();
        CU_ASSERT_EQUAL(weir_group_start(group, weir_fiber_new(child, NULL, here)), 0);
        CU_ASSERT_EQUAL(weir_group_start(group, weir_channel_send_new(channel, here, NULL, NULL)), 0);
        STAYS(weir_fiber_receive(channel, &message));
        STAYS(weir_group_close(group));
        CU_ASSERT_EQUAL(pthread_mutex_unlock(&mutex), 0);
        CU_ASSERT_EQUAL(computed, 1);
        weir_channel_unref(channel);
}

static int
stay_on_a_thread(void *context)
{
        int number = *(int *)context;

        become_pinned();
        pid_t here = thread();
        CU_ASSERT_EQUAL(*own_address(), 0);
        *own_address() = number;
        stay(&here, number);

        /* Nested. */
        CU_ASSERT_EQUAL(weir_fiber_pin(true), 0);
        CU_ASSERT_EQUAL(thread(), here);
        CU_ASSERT_EQUAL(weir_fiber_pin(false), 0);
        stay(&here, number);

        /* Free for a while, and then the same thread again. */
        become_free();
        CU_ASSERT_EQUAL(weir_fiber_sleep(1), 0);
        CU_ASSERT_NOT_EQUAL(thread(), here);
        CU_ASSERT_EQUAL(weir_fiber_pin(false), -EDEADLK);
        become_pinned();
        CU_ASSERT_EQUAL(thread(), here);
        stay(&here, number);
        return -number;
}

static int
run_three(void *context)
{
        static int numbers[] = {1, 2, 3};
        weir_group *group = weir_group_open();

        (void)context;
        for (int i = 0; i < 3; i++)
                CU_ASSERT_EQUAL(weir_group_start(group, weir_fiber_new(stay_on_a_thread, NULL, &numbers[i])), 0);
        int status = weir_group_close(group);
        CU_ASSERT(status <= -1 && status >= -3);
        return 0;
}

static void
a_pinned_fiber_stays_on_its_thread(void)
{
        WEIR_TEST_IN_FIBER(run_three);
        for (unsigned i = 0; i < 20; i++)
                CU_ASSERT_EQUAL(weir_test_run_fiber_real(3, run_three, NULL), 0);
}

/* -- the thread ends with the fiber -- */

static pthread_key_t key;
static _Atomic unsigned dropped;

static void
drop(void *value)
{
        (void)value;
        dropped++;
}

static int
leave_something(void *context)
{
        CU_ASSERT_EQUAL(weir_test_threads_named("weir/fiber", NULL), 0);
        become_pinned();
        CU_ASSERT_EQUAL(weir_test_threads_named("weir/fiber", NULL), 1);
        CU_ASSERT_EQUAL(pthread_setspecific(key, &key), 0);
        CU_ASSERT_EQUAL(weir_fiber_yield(), 0);
        CU_ASSERT_PTR_EQUAL(pthread_getspecific(key), &key);
        if (context)
                become_free();
        CU_ASSERT_EQUAL(dropped, 0);
        return 0;
}

static void
its_thread_ends_with_it(void)
{
        CU_ASSERT_EQUAL(pthread_key_create(&key, drop), 0);
        for (int frees = 0; frees < 2; frees++) {
                dropped = 0;
                weir_test_begin_virtual();
                CU_ASSERT_EQUAL(weir_task_run(weir_fiber_new(leave_something, NULL, frees ? &key : NULL)), 0);
                CU_ASSERT_EQUAL(dropped, 1);
                WEIR_TEST_EVENTUALLY(weir_test_threads_named("weir/fiber", NULL) == 0);
                weir_test_end();
        }
        pthread_key_delete(key);
}

/* -- without memory, without threads, and elsewhere -- */

static int
be_refused(void *context)
{
        (void)context;
        CU_ASSERT_EQUAL(weir_fiber_pin(false), -EDEADLK);
        no_memory = true;
        CU_ASSERT_EQUAL(weir_fiber_pin(true), -ENOMEM);
        no_memory = false;
        no_threads = true;
        CU_ASSERT_EQUAL(weir_fiber_pin(true), -EAGAIN);
        no_threads = false;
        CU_ASSERT_EQUAL(weir_fiber_pin(false), -EDEADLK);
        CU_ASSERT_EQUAL(weir_fiber_yield(), 0);
        become_pinned();
        return weir_fiber_yield();
}

static void
pin_in_a_callback(weir_task *task, void *context)
{
        (void)task;
        (void)context;
        CU_ASSERT_EQUAL(weir_fiber_pin(true), -EDEADLK);
}

static void
pins_are_refused_with_an_error(void)
{
        weir_test_begin_virtual();
        CU_ASSERT_EQUAL(weir_task_run(weir_fiber_new(be_refused, NULL, NULL)), 0);
        CU_ASSERT_EQUAL(weir_task_run(weir_empty_new(pin_in_a_callback, NULL)), 0);
        CU_ASSERT_EQUAL(weir_fiber_pin(true), -EDEADLK);
        CU_ASSERT_EQUAL(weir_fiber_pin(false), -EDEADLK);
        weir_test_end();
}

static int
pin_while_it_blocks(void *context)
{
        (void)context;
        weir_blocking_begin();
        weir_fiber_pin(true);
        return 0;
}

static void
pin_wrongly(void)
{
        weir_test_begin_real(1);
        weir_task_run(weir_fiber_new(pin_while_it_blocks, NULL, NULL));
}

static void
no_pin_while_it_blocks(void)
{
        weir_test_aborts(pin_wrongly, "fiber pin_while_it_blocks");
}

/* -- what was awaited is there behind a pin, which is no await -- */

static int
read_behind_a_pin(void *context)
{
        struct weir_test_record *record = context;
        weir_task *timer = weir_test_recorded(weir_timer_new(1, weir_test_done, record));

        CU_ASSERT_EQUAL(weir_await(timer), 0);
        become_pinned();
        CU_ASSERT_EQUAL(record->frees, 0);
        CU_ASSERT_EQUAL(weir_task_status(timer), 0);
        become_free();
        CU_ASSERT_EQUAL(record->frees, 0);
        CU_ASSERT_EQUAL(weir_task_status(timer), 0);
        WEIR_TEST_GIVEN_BACK(record);
        return 0;
}

static void
a_pin_is_no_await(void)
{
        struct weir_test_record record = {0};

        CU_ASSERT_EQUAL(weir_test_run_fiber(read_behind_a_pin, &record), 0);
}

/* -- early ends -- */

static int
wait_pinned(void *context)
{
        int *status = context;

        become_pinned();
        pid_t here = thread();
        *status = weir_fiber_sleep(WEIR_SEC(1000));
        CU_ASSERT_EQUAL(thread(), here);
        CU_ASSERT_EQUAL(weir_fiber_yield(), *status);
        become_free(); /* also behind a cancel */
        become_pinned();
        CU_ASSERT_EQUAL(thread(), here);
        return 0;
}

static void
early_ends_reach_it(void)
{
        int statuses[3] = {0};

        weir_test_begin_virtual();
        weir_series *cancelled = weir_series_ref(weir_series_new(NULL, NULL)), *timed = weir_series_new(NULL, NULL);
        weir_series_push(cancelled, weir_fiber_new(wait_pinned, NULL, &statuses[0]));
        weir_series_push(timed, weir_fiber_new(wait_pinned, NULL, &statuses[1]));
        CU_ASSERT_EQUAL(weir_series_set_deadline(timed, WEIR_SEC(1)), 0);
        weir_series_start(cancelled);
        weir_series_start(timed);
        weir_task_start(weir_fiber_new(wait_pinned, NULL, &statuses[2]));
        weir_test_pass(1);
        weir_series_cancel(cancelled);
        weir_test_pass(WEIR_SEC(1));
        CU_ASSERT_EQUAL(statuses[0], -ECANCELED);
        CU_ASSERT_EQUAL(statuses[1], -ETIMEDOUT);
        weir_test_end();
        CU_ASSERT_EQUAL(statuses[2], -ESHUTDOWN);
        weir_series_unref(cancelled);
}

/* -- in a callback -- */

static int
go_on_pinned(void *context)
{
        become_pinned();
        pid_t here = thread();
        CU_ASSERT_EQUAL(weir_fiber_sleep(1), 0);
        CU_ASSERT_EQUAL(thread(), here);
        *(bool *)context = true;
        return 0;
}

static void
begin_fiber(weir_task *task, void *context)
{
        CU_ASSERT_EQUAL(weir_fiber_begin(task, go_on_pinned, context), 0);
}

static void
the_rest_of_a_callback_may_be_pinned(void)
{
        bool is_over = false;

        weir_test_begin_virtual();
        CU_ASSERT_EQUAL(weir_task_start(weir_empty_new(begin_fiber, &is_over)), 0);
        weir_test_pass(1);
        CU_ASSERT(is_over);
        weir_test_end();
}

/* -- a pinned fiber that blocks stalls nobody -- */

static _Atomic bool others_ran;

static int
let_go(void *context)
{
        (void)context;
        others_ran = true;
        return 0;
}

static int
block_pinned(void *announces)
{
        become_pinned();
        pid_t here = thread();
        for (unsigned i = 0; i < 3; i++) {
                others_ran = false;
                CU_ASSERT_EQUAL(weir_task_start(weir_fiber_new(let_go, NULL, NULL)), 0);
                if (announces)
                        CU_ASSERT_EQUAL(weir_blocking_begin(), 0);
                WEIR_TEST_EVENTUALLY(others_ran); /* one poller: another worker has it */
                if (announces)
                        weir_blocking_end();
                CU_ASSERT_EQUAL(weir_fiber_yield(), 0);
                CU_ASSERT_EQUAL(thread(), here);
        }
        return 0;
}

static void
one_that_blocks_stalls_nobody(void)
{
        weir_test_begin_blocking(4);
        CU_ASSERT_EQUAL(weir_task_run(weir_fiber_new(block_pinned, NULL, NULL)), 0);
        weir_test_end();
        weir_test_begin_unwatched(4);
        CU_ASSERT_EQUAL(weir_task_run(weir_fiber_new(block_pinned, NULL, &others_ran)), 0);
        weir_test_end();
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(a_pinned_fiber_stays_on_its_thread),
                WEIR_TEST(its_thread_ends_with_it),
                WEIR_TEST(pins_are_refused_with_an_error),
                WEIR_TEST(no_pin_while_it_blocks),
                WEIR_TEST(a_pin_is_no_await),
                WEIR_TEST(early_ends_reach_it),
                WEIR_TEST(the_rest_of_a_callback_may_be_pinned),
                WEIR_TEST(one_that_blocks_stalls_nobody),
        };

        return weir_test_main("pinned fibers", tests, sizeof tests / sizeof *tests);
}
