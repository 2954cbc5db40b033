/* test/fiber_hop_test.c: hop mode finds programs that keep what belongs to a thread over an await.
 *
 * The process runs itself in hop mode.  Each planted mistake is one that mostly goes well without. */
#include "test/fiber_fixture.h"

#include <fcntl.h>
#include <pthread.h>

static __thread int own;

/* The address on this thread.  A compiler does not see that it is always the same one. */
static __attribute__((noinline)) int *
own_address(void)
{
        int *address = &own;

        __asm__ volatile("" : "+r"(address));
        return address;
}

static weir_channel *channel;

static void
post(weir_task *task, void *context)
{
        (void)task;
        CU_ASSERT_EQUAL(weir_channel_post(channel, context), 0);
}

static void
nothing(void *context)
{
        (void)context;
}

/* -- each await changes the thread -- */

#define HOPS(await)                                                                \
        do {                                                                       \
                pid_t before_ = gettid(); /* a compiler may move pthread_self() */ \
                int *address_ = own_address();                                     \
                CU_ASSERT_EQUAL((await), 0);                                       \
                CU_ASSERT_NOT_EQUAL(before_, gettid());                            \
                CU_ASSERT_PTR_NOT_EQUAL(address_, own_address());                  \
        } while (0)

static int
child(void *context)
{
        (void)context;
        HOPS(weir_fiber_yield());
        return 0;
}

static void
hop(void)
{
        HOPS(weir_fiber_yield());
        HOPS(weir_fiber_sleep(1));
        HOPS(weir_await(weir_timer_new(1, NULL, NULL)));
        HOPS(weir_await(weir_empty_new(NULL, NULL)));
        HOPS(weir_await_within(weir_timer_new(1, NULL, NULL), WEIR_SEC(1)));
        HOPS(weir_await(weir_fiber_new(child, NULL, NULL)));
        HOPS(weir_fiber_go(nothing, NULL));
}

static int
hop_along(void *context)
{
        (void)context;
        for (int i = 0; i < 10; i++)
                hop();
        return 0;
}

/* On the virtual clock: what these wait for is not there before. */
static int
hop_for_others(void *context)
{
        void *message;
        weir_group *group;

        for (int i = 0; i < 10; i++) {
                hop();
                CU_ASSERT_EQUAL(weir_task_start(weir_timer_new(1, post, context)), 0);
                HOPS(weir_fiber_receive(channel, &message));
                group = weir_group_open();
                weir_group_start(group, weir_fiber_new(child, NULL, NULL));
                weir_group_start(group, weir_fiber_new(child, NULL, NULL));
                HOPS(weir_group_close(group));
        }
        return 0;
}

static void
each_await_changes_the_thread(void)
{
        channel = weir_channel_new(1, NULL);
        CU_ASSERT_EQUAL(weir_test_run_fiber(hop_for_others, &channel), 0);
        CU_ASSERT_EQUAL(weir_test_run_fiber_real(3, hop_along, NULL), 0);
        weir_channel_unref(channel);
}

static int
two_of_them(void *context)
{
        weir_group *group = weir_group_open();

        (void)context;
        for (int i = 0; i < 20; i++)
                weir_group_start(group, weir_fiber_new(child, NULL, NULL));
        return weir_group_close(group);
}

static void
fibers_that_take_turns_change_it_too(void)
{
        WEIR_TEST_IN_FIBER(two_of_them);
        CU_ASSERT_EQUAL(weir_test_run_fiber_real(2, two_of_them, NULL), 0);
}

/* -- planted mistakes, and what is right in their place -- */

static int
keep_an_address(void *context)
{
        int *kept = own_address(); /* the mistake */

        (void)context;
        *kept = 7;
        weir_fiber_yield();
        CU_ASSERT_NOT_EQUAL(*own_address(), 7);
        return 0;
}

/* ThreadSanitizer finds this by itself in hop mode, and would report it. */
#if defined(__SANITIZE_THREAD__)
#define FINDS_MUTEXES 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define FINDS_MUTEXES 1
#endif
#endif

#ifndef FINDS_MUTEXES
static int
keep_a_mutex(void *context)
{
        pthread_mutexattr_t attributes;
        pthread_mutex_t mutex;

        (void)context;
        pthread_mutexattr_init(&attributes);
        pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_ERRORCHECK);
        pthread_mutex_init(&mutex, &attributes);
        CU_ASSERT_EQUAL(pthread_mutex_lock(&mutex), 0); /* the mistake: it is held over the await */
        weir_fiber_yield();
        CU_ASSERT_EQUAL(pthread_mutex_unlock(&mutex), EPERM);
        weir_fiber_yield(); /* back on the thread that has it */
        CU_ASSERT_EQUAL(pthread_mutex_unlock(&mutex), 0);
        pthread_mutex_destroy(&mutex);
        pthread_mutexattr_destroy(&attributes);
        return 0;
}
#endif

static int
keep_the_place_of_errno(void *context)
{
        int *kept = __errno_location(); /* the mistake: compilers do this with the errno of the C library */

        (void)context;
        weir_fiber_yield();
        CU_ASSERT_PTR_NOT_EQUAL(kept, &errno);
        return 0;
}

static int
use_errno_of_the_header(void *context)
{
        (void)context;
        for (int i = 0; i < 4; i++) {
                errno = 0;
                CU_ASSERT_EQUAL(close(-1), -1);
                CU_ASSERT_EQUAL(errno, EBADF);
                weir_fiber_yield();
                errno = 0;
                CU_ASSERT_EQUAL(open("/", O_WRONLY | O_CLOEXEC), -1);
                CU_ASSERT_EQUAL(errno, EISDIR);
        }
        return 0;
}

static void
a_kept_address_is_found(void)
{
        WEIR_TEST_IN_FIBER(keep_an_address);
}

static void
a_kept_mutex_is_found(void)
{
#ifndef FINDS_MUTEXES
        WEIR_TEST_IN_FIBER(keep_a_mutex);
#endif
}

static void
a_kept_place_of_errno_is_found(void)
{
        WEIR_TEST_IN_FIBER(keep_the_place_of_errno);
}

static void
the_errno_of_the_header_is_that_of_the_thread(void)
{
        WEIR_TEST_IN_FIBER(use_errno_of_the_header);
}

/* -- what stays the worker's -- */

static int
look_at_the_library(void *context)
{
        (void)context;
        CU_ASSERT(weir_fiber_is_running());
        CU_ASSERT_EQUAL(weir_shutdown(), -EDEADLK);
        for (int i = 0; i < 3; i++) {
                CU_ASSERT_EQUAL(weir_blocking_begin(), 0);
                weir_blocking_end();
                weir_fiber_yield();
        }
        return 0;
}

static void
for_the_library_it_is_the_worker(void)
{
        CU_ASSERT_EQUAL(weir_test_run_fiber_real(1, look_at_the_library, NULL), 0);
}

int
main(int argc, char *argv[])
{
        static const struct weir_test tests[] = {
                WEIR_TEST(each_await_changes_the_thread),    WEIR_TEST(fibers_that_take_turns_change_it_too),
                WEIR_TEST(a_kept_address_is_found),          WEIR_TEST(a_kept_mutex_is_found),
                WEIR_TEST(a_kept_place_of_errno_is_found),   WEIR_TEST(the_errno_of_the_header_is_that_of_the_thread),
                WEIR_TEST(for_the_library_it_is_the_worker),
        };

        (void)argc;
        if (!getenv("WEIR_FIBER_HOP")) {
                setenv("WEIR_FIBER_HOP", "1", 1);
                execv("/proc/self/exe", argv);
        }
        return weir_test_main("hops of fibers", tests, sizeof tests / sizeof *tests);
}
