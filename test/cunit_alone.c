/* test/cunit_alone.c: the part of CUnit that suites use, for a processor for which the machine has no CUnit
 * (test/aarch64_test.sh).  The tests whose names are in CUNIT_WITHOUT are left out.
 *
 * Threads: the main thread; assertions as test/support.c says. */
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <CUnit/Basic.h>

#define TESTS_MOST 100

static struct {
        const char *name;
        CU_TestFunc run;
} tests[TESTS_MOST];

static unsigned count, tests_failed, failures;
static jmp_buf *out;

CU_ErrorCode
CU_initialize_registry(void)
{
        return CUE_SUCCESS;
}

void
CU_cleanup_registry(void)
{
}

const char *
CU_get_error_msg(void)
{
        return "too many tests";
}

CU_pSuite
CU_add_suite(const char *name, CU_InitializeFunc begin, CU_CleanupFunc end)
{
        static CU_Suite suite;

        (void)begin;
        (void)end;
        printf("Suite: %s\n", name);
        return &suite;
}

CU_pTest
CU_add_test(CU_pSuite suite, const char *name, CU_TestFunc run)
{
        static CU_Test test;
        const char *without = getenv("CUNIT_WITHOUT");

        (void)suite;
        if (without && strstr(without, name))
                return &test;
        if (count == TESTS_MOST)
                return NULL;
        tests[count].name = name;
        tests[count++].run = run;
        return &test;
}

void
CU_basic_set_mode(CU_BasicRunMode mode)
{
        (void)mode;
}

CU_ErrorCode
CU_basic_run_tests(void)
{
        for (unsigned i = 0; i < count; i++) {
                unsigned before = failures;
                jmp_buf end;

                printf("  Test: %s ...", tests[i].name);
                out = &end;
                if (!setjmp(end))
                        tests[i].run();
                printf("%s\n", failures == before ? "passed" : "FAILED");
                tests_failed += failures > before;
        }
        return CUE_SUCCESS;
}

CU_BOOL
CU_assertImplementation(CU_BOOL value, unsigned line, const char *condition, const char *file, const char *function,
                        CU_BOOL fatal)
{
        (void)function;
        if (value)
                return value;
        failures++;
        printf("\n    %s:%u: %s\n", file, line, condition);
        if (fatal)
                longjmp(*out, 1);
        return value;
}

unsigned
CU_get_number_of_tests_run(void)
{
        return count;
}

unsigned
CU_get_number_of_tests_failed(void)
{
        return tests_failed;
}

unsigned
CU_get_number_of_failures(void)
{
        return failures;
}
