/* test/fiber_fixture.h: fibers that a test runs to their end, and awaits that are looked at from all sides. */
#ifndef WEIR_TEST_FIBER_FIXTURE_H
#define WEIR_TEST_FIBER_FIXTURE_H

#include "test/fixture.h"

/* A function that is called as it is written.  clang makes no copies of functions, and does not know the second attribute. */
#if defined(__clang__)
#define WEIR_TEST_OUTLINE __attribute__((noinline))
#else
#define WEIR_TEST_OUTLINE __attribute__((noinline, noclone))
#endif

/* Runs a function as a fiber on the virtual clock, to its end.  Returns its status. */
static inline int
weir_test_run_fiber(weir_fiber_fn *function, void *context)
{
        weir_test_begin_virtual();
        int status = weir_task_run(weir_fiber_new_as("test", function, NULL, context));
        weir_test_end();
        return status;
}

/* The same with that many pollers and on the real clock. */
static inline int
weir_test_run_fiber_real(int pollers, weir_fiber_fn *function, void *context)
{
        weir_test_begin_real(pollers);
        int status = weir_task_run(weir_fiber_new_as("test", function, NULL, context));
        weir_test_end();
        return status;
}

/* The function returns what the body of the test has to do in a fiber. */
#define WEIR_TEST_IN_FIBER(function) CU_ASSERT_EQUAL(weir_test_run_fiber(function, NULL), 0)

/* In a fiber: awaits a task whose callback is weir_test_done with that record.  Behind the await the callback has run once, and
 * the task is there. */
#define WEIR_TEST_AWAITED(task, record, status_)                               \
        do {                                                                   \
                weir_task *weir_test_task_ = weir_test_recorded(task);         \
                memset((record), 0, sizeof *(record));                         \
                CU_ASSERT_EQUAL(weir_await(weir_test_task_), (status_));       \
                CU_ASSERT_EQUAL((record)->calls, 1);                           \
                CU_ASSERT_EQUAL((record)->status, (status_));                  \
                CU_ASSERT_EQUAL((record)->frees, 0);                           \
                CU_ASSERT_EQUAL(weir_task_status(weir_test_task_), (status_)); \
        } while (0)

/* The next await gives the task of the last one back. */
#define WEIR_TEST_GIVEN_BACK(record)                    \
        do {                                            \
                CU_ASSERT_EQUAL(weir_fiber_yield(), 0); \
                CU_ASSERT_EQUAL((record)->calls, 1);    \
                CU_ASSERT_EQUAL((record)->frees, 1);    \
        } while (0)

#define WEIR_TEST_AWAITED_AND_GIVEN_BACK(task, record, status) \
        do {                                                   \
                WEIR_TEST_AWAITED(task, record, status);       \
                WEIR_TEST_GIVEN_BACK(record);                  \
        } while (0)

#endif
