/* test/fiber_group_test.c: groups of children that a fiber runs beside itself. */
#include "test/fiber_fixture.h"

#include <malloc.h>
#include <sys/mman.h>
#include <unistd.h>

#include "test/blocks_fixture.h"

#define FAR WEIR_SEC(100000)

static struct weir_test_record record, records[100];

static void
forget_records(void)
{
        memset(&record, 0, sizeof record);
        memset(records, 0, sizeof records);
}

static int
give(void *context)
{
        int status = *(int *)context;

        CU_ASSERT_EQUAL(weir_fiber_yield(), 0);
        return status;
}

static int
sleep_far(void *context)
{
        int status = weir_fiber_sleep(FAR);

        if (context)
                *(int *)context = status;
        return status;
}

/* -- joins -- */

static int
join(void *context)
{
        weir_nsec began = weir_now();
        int io = -EIO, noent = -ENOENT, fine = 0;

        (void)context;
        weir_group *group = weir_group_open();
        CU_ASSERT_EQUAL(weir_group_close(group), 0);

        forget_records();
        group = weir_group_open();
        for (unsigned i = 0; i < 100; i++)
                CU_ASSERT_EQUAL(weir_group_start(group, weir_test_timer(i * WEIR_SEC(1), &records[i])), 0);
        CU_ASSERT_EQUAL(records[0].calls, 0); /* the start does not wait */
        CU_ASSERT_EQUAL(weir_fiber_sleep(WEIR_SEC(10)), 0);
        CU_ASSERT_EQUAL(records[9].calls, 1);
        CU_ASSERT_EQUAL(weir_group_close(group), 0);
        CU_ASSERT_EQUAL(weir_now(), began + WEIR_SEC(99));
        for (unsigned i = 0; i < 100; i++)
                WEIR_TEST_CALLED(&records[i], 0);

        /* The first failure is the status, and others go on. */
        group = weir_group_open();
        CU_ASSERT_EQUAL(weir_group_start(group, weir_fiber_new(give, NULL, &fine)), 0);
        CU_ASSERT_EQUAL(weir_group_start(group, weir_fiber_new(give, NULL, &io)), 0);
        CU_ASSERT_EQUAL(weir_group_start(group, weir_fiber_new(give, NULL, &noent)), 0);
        CU_ASSERT_EQUAL(weir_group_start(group, weir_test_timer(WEIR_SEC(1), &record)), 0);
        CU_ASSERT_EQUAL(weir_group_close(group), -EIO);
        WEIR_TEST_CALLED(&record, 0);
        CU_ASSERT_EQUAL(weir_fiber_yield(), 0);
        return 0;
}

static void
a_group_waits_for_its_children(void)
{
        WEIR_TEST_IN_FIBER(join);
}

static int
stop(void *context)
{
        int io = -EIO;

        (void)context;
        forget_records();
        weir_group *group = weir_group_open();
        weir_group_stop_on_failure(group);
        for (unsigned i = 0; i < 100; i++)
                CU_ASSERT_EQUAL(weir_group_start(group, weir_test_timer(FAR, &records[i])), 0);
        CU_ASSERT_EQUAL(weir_group_start(group, weir_fiber_new(give, NULL, &io)), 0);
        CU_ASSERT_EQUAL(weir_fiber_sleep(1), 0);
        CU_ASSERT_EQUAL(weir_group_start(group, weir_test_timer(1, &record)), -ECANCELED);
        WEIR_TEST_NOT_CALLED(&record);
        CU_ASSERT_EQUAL(weir_group_close(group), -EIO);
        for (unsigned i = 0; i < 100; i++)
                WEIR_TEST_CALLED(&records[i], -ECANCELED);

        forget_records();
        group = weir_group_open();
        for (unsigned i = 0; i < 100; i++)
                CU_ASSERT_EQUAL(weir_group_start(group, weir_test_timer(FAR, &records[i])), 0);
        weir_group_cancel(group);
        weir_group_cancel(group);
        CU_ASSERT_EQUAL(weir_group_start(group, weir_test_timer(1, &record)), -ECANCELED);
        WEIR_TEST_NOT_CALLED(&record);
        CU_ASSERT_EQUAL(weir_group_close(group), -ECANCELED);
        for (unsigned i = 0; i < 100; i++)
                WEIR_TEST_CALLED(&records[i], -ECANCELED);

        group = weir_group_open();
        weir_group_cancel(group);
        CU_ASSERT_EQUAL(weir_group_close(group), 0);

        /* A child that fails at its start fails the group. */
        group = weir_group_open();
        weir_group_stop_on_failure(group);
        CU_ASSERT_EQUAL(weir_group_start(group, weir_fiber_new(give, NULL, &io)), 0);
        CU_ASSERT_EQUAL(weir_group_close(group), -EIO);
        CU_ASSERT_EQUAL(weir_fiber_yield(), 0);
        return 0;
}

static void
a_failure_or_a_cancel_ends_the_children(void)
{
        WEIR_TEST_IN_FIBER(stop);
}

static int
refused(void *context)
{
        weir_group *group = weir_group_open();

        (void)context;
        forget_records();
        CU_ASSERT_EQUAL(weir_group_start(group, NULL), -ENOMEM);
        CU_ASSERT_EQUAL(weir_group_start(NULL, NULL), -ENOMEM);
        CU_ASSERT_EQUAL(weir_group_start(NULL, weir_test_timer(1, &record)), -ENOMEM);
        WEIR_TEST_NOT_CALLED(&record);
        forget_records();
        CU_ASSERT_EQUAL(weir_group_start(group, weir_test_recorded(weir_timer_new_named("", 1, weir_test_done, &record))),
                        -EINVAL);
        WEIR_TEST_NOT_CALLED(&record);
        weir_group_stop_on_failure(NULL);
        weir_group_cancel(NULL);
        CU_ASSERT_EQUAL(weir_group_close(NULL), -ENOMEM);
        return weir_group_close(group);
}

static void
bad_children_are_refused(void)
{
        WEIR_TEST_IN_FIBER(refused);
        CU_ASSERT_EQUAL(weir_group_close(NULL), -ENOMEM);
}

/* -- nested groups, children that act on their group -- */

static int
nest(void *context)
{
        int *left = context, below = *left - 1;
        weir_group *groups[2] = {weir_group_open(), weir_group_open()};

        for (unsigned i = 0; i < 2 && *left > 0; i++) {
                CU_ASSERT_EQUAL(weir_group_start(groups[i], weir_fiber_new(nest, NULL, &below)), 0);
                CU_ASSERT_EQUAL(weir_group_start(groups[i], weir_timer_new(*left * WEIR_SEC(1), NULL, NULL)), 0);
        }
        CU_ASSERT_EQUAL(weir_group_close(groups[0]), 0);
        CU_ASSERT_EQUAL(weir_group_close(groups[1]), 0);
        return 0;
}

struct act {
        weir_group *group;
        int status, left;
};

static int
close_anothers(void *context)
{
        struct act *act = context;

        act->status = weir_group_close(act->group);
        return 0;
}

static void
close_in_a_callback(weir_task *task, void *context)
{
        (void)task;
        close_anothers(context);
}

static int
cancel_own_group(void *context)
{
        struct act *act = context;

        weir_group_cancel(act->group);
        act->status = weir_fiber_yield();
        return 0;
}

static int
start_next(void *context)
{
        struct act *act = context;

        if (act->left-- > 0)
                CU_ASSERT_EQUAL(weir_group_start(act->group, weir_fiber_new(start_next, NULL, act)), 0);
        return 0;
}

static void
start_in_a_callback(weir_task *task, void *context)
{
        (void)task;
        start_next(context);
}

static int
act_inside(void *context)
{
        int depth = 6;
        struct act act = {.group = weir_group_open(), .status = 1};

        (void)context;
        CU_ASSERT_EQUAL(nest(&depth), 0);

        CU_ASSERT_EQUAL(weir_group_start(act.group, weir_fiber_new(close_anothers, NULL, &act)), 0);
        CU_ASSERT_EQUAL(weir_fiber_sleep(1), 0);
        CU_ASSERT_EQUAL(act.status, -EPERM);
        CU_ASSERT_EQUAL(weir_group_start(act.group, weir_timer_new(1, close_in_a_callback, &act)), 0);
        act.status = 1;
        CU_ASSERT_EQUAL(weir_fiber_sleep(2), 0);
        CU_ASSERT_EQUAL(act.status, -EPERM);

        CU_ASSERT_EQUAL(weir_group_start(act.group, weir_fiber_new(sleep_far, NULL, NULL)), 0);
        CU_ASSERT_EQUAL(weir_group_start(act.group, weir_fiber_new(cancel_own_group, NULL, &act)), 0);
        CU_ASSERT_EQUAL(weir_group_close(act.group), -ECANCELED);
        CU_ASSERT_EQUAL(act.status, -ECANCELED);

        act = (struct act){.group = weir_group_open(), .left = 1000};
        CU_ASSERT_EQUAL(weir_group_start(act.group, weir_fiber_new(start_next, NULL, &act)), 0);
        CU_ASSERT_EQUAL(weir_group_close(act.group), 0);
        CU_ASSERT_EQUAL(act.left, -1);
        act = (struct act){.group = weir_group_open(), .left = 1};
        CU_ASSERT_EQUAL(weir_group_start(act.group, weir_timer_new(1, start_in_a_callback, &act)), 0);
        CU_ASSERT_EQUAL(weir_group_close(act.group), 0);
        CU_ASSERT_EQUAL(act.left, -1);
        CU_ASSERT_EQUAL(weir_fiber_yield(), 0);
        return 0;
}

static void
children_act_on_their_group(void)
{
        WEIR_TEST_IN_FIBER(act_inside);
}

/* -- groups that are open at the end -- */

static int left_open[4];

static int
leave_open(void *context)
{
        weir_group *last = NULL;

        for (unsigned i = 0; i < 4; i++) {
                last = weir_group_open();
                left_open[i] = 1;
                CU_ASSERT_EQUAL(weir_group_start(last, weir_fiber_new(sleep_far, NULL, &left_open[i])), 0);
                CU_ASSERT_EQUAL(weir_group_start(last, weir_test_timer(FAR, &records[i])), 0);
        }
        if (context)
                CU_ASSERT_EQUAL(weir_fiber_sleep(1), 0);
        return -ENOENT;
}

static void
what_is_open_at_the_end_is_cancelled_and_joined(void)
{
        for (unsigned waits = 0; waits < 2; waits++) {
                forget_records();
                CU_ASSERT_EQUAL(weir_test_run_fiber(leave_open, waits ? &record : NULL), -ENOENT);
                for (unsigned i = 0; i < 4; i++) {
                        WEIR_TEST_CALLED(&records[i], -ECANCELED);
                        CU_ASSERT_EQUAL(left_open[i], waits ? -ECANCELED : 1); /* it has not begun */
                }
        }
}

/* -- a fiber that ends early -- */

static int joined;

static int
clean_up(void *context)
{
        int *status = context;

        *status = weir_fiber_sleep(FAR);
        CU_ASSERT_EQUAL(weir_fiber_shield(true), 0);
        CU_ASSERT_EQUAL(weir_fiber_sleep(WEIR_SEC(1)), 0); /* its cleanup takes a while */
        CU_ASSERT_EQUAL(weir_fiber_shield(false), 0);
        joined++;
        return *status;
}

static int
join_after_the_end(void *context)
{
        int statuses[8];
        weir_group *group = weir_group_open(), *other = weir_group_open();

        joined = 0;
        for (unsigned i = 0; i < 8; i++)
                CU_ASSERT_EQUAL(weir_group_start(i < 4 ? group : other, weir_fiber_new(clean_up, NULL, &statuses[i])), 0);
        CU_ASSERT_EQUAL(weir_fiber_sleep(1), 0);
        weir_series_set_deadline(weir_fiber_series(), WEIR_SEC(1));
        int expected = -ETIMEDOUT;
        if (context) {
                weir_series_cancel(weir_fiber_series());
                expected = -ECANCELED;
        }
        CU_ASSERT_EQUAL(weir_fiber_sleep(FAR), expected);
        CU_ASSERT_EQUAL(weir_group_start(group, weir_timer_new(1, NULL, NULL)), expected);
        CU_ASSERT_EQUAL(weir_group_close(group), expected);
        CU_ASSERT(joined >= 4);
        CU_ASSERT_EQUAL(weir_group_close(other), expected);
        CU_ASSERT_EQUAL(joined, 8);
        for (unsigned i = 0; i < 8; i++)
                CU_ASSERT_EQUAL(statuses[i], expected);
        group = weir_group_open();
        CU_ASSERT_PTR_NOT_NULL(group);
        CU_ASSERT_EQUAL(weir_group_start(group, weir_timer_new(1, NULL, NULL)), expected);
        CU_ASSERT_EQUAL(weir_group_close(group), 0);
        return 0;
}

static void
a_fiber_that_ends_early_joins_its_children(void)
{
        CU_ASSERT_EQUAL(weir_test_run_fiber(join_after_the_end, NULL), -ETIMEDOUT);
        CU_ASSERT_EQUAL(weir_test_run_fiber(join_after_the_end, &record), -ECANCELED);
}

/* -- within a shield -- */

static int
shielded_group(void *context)
{
        int inside = 1;

        (void)context;
        weir_group *outer = weir_group_open();
        CU_ASSERT_EQUAL(weir_group_start(outer, weir_fiber_new(sleep_far, NULL, &inside)), 0);
        CU_ASSERT_EQUAL(weir_fiber_shield(true), 0);
        weir_group *group = weir_group_open();
        forget_records();
        CU_ASSERT_EQUAL(weir_fiber_sleep(1), 0);
        weir_series_cancel(weir_fiber_series());
        CU_ASSERT_EQUAL(weir_group_start(group, weir_test_timer(WEIR_SEC(1), &records[0])), 0);
        CU_ASSERT_EQUAL(weir_group_start(outer, weir_test_timer(WEIR_SEC(1), &records[1])), -ECANCELED);
        WEIR_TEST_NOT_CALLED(&records[1]);
        CU_ASSERT_EQUAL(weir_group_close(outer), -ECANCELED); /* a join within a shield */
        CU_ASSERT_EQUAL(inside, -ECANCELED);
        CU_ASSERT_EQUAL(records[0].calls, 0);
        CU_ASSERT_EQUAL(weir_fiber_shield(false), 0);
        CU_ASSERT_EQUAL(weir_group_start(group, weir_test_timer(WEIR_SEC(2), &records[2])), 0);
        CU_ASSERT_EQUAL(weir_group_close(group), 0); /* it was opened within the shield */
        WEIR_TEST_CALLED(&records[0], 0);
        WEIR_TEST_CALLED(&records[2], 0);

        CU_ASSERT_EQUAL(weir_fiber_shield(true), 0);
        group = weir_group_open();
        forget_records();
        CU_ASSERT_EQUAL(weir_group_start(group, weir_test_timer(FAR, &records[0])), 0);
        return 0; /* open, and shielded */
}

static void
a_group_within_a_shield_is_shielded(void)
{
        CU_ASSERT_EQUAL(weir_test_run_fiber(shielded_group, NULL), -ECANCELED);
        WEIR_TEST_CALLED(&records[0], -ECANCELED);
}

/* -- many, and no memory -- */

static _Atomic unsigned ended;

static int
child(void *context)
{
        unsigned number = (unsigned)(uintptr_t)context;
        int status = number % 3 ? weir_fiber_sleep(number % 7) : 0;

        ended++;
        return status;
}

static int
start_many(void *context)
{
        const unsigned count = WEIR_TEST_SANITIZED ? 1000 : 10000; /* TSan takes a fiber for a thread: 8128 at most */
        weir_group *group = weir_group_open();

        ended = 0;
        for (unsigned i = 0; i < count; i++)
                CU_ASSERT_EQUAL(weir_group_start(group, weir_fiber_new(child, NULL, (void *)(uintptr_t)i)), 0);
        CU_ASSERT_EQUAL(weir_group_close(group), 0);
        CU_ASSERT_EQUAL(ended, count);

        group = weir_group_open();
        for (unsigned i = 0; i < count; i++)
                CU_ASSERT_EQUAL(weir_group_start(group, weir_fiber_new(sleep_far, NULL, NULL)), 0);
        if (context)
                CU_ASSERT_EQUAL(weir_fiber_sleep(1), 0);
        weir_group_cancel(group);
        CU_ASSERT_EQUAL(weir_group_close(group), -ECANCELED);
        return 0;
}

static void
ten_thousand_children_are_joined(void)
{
        CU_ASSERT_EQUAL(weir_test_run_fiber(start_many, NULL), 0);
        CU_ASSERT_EQUAL(weir_test_run_fiber(start_many, &record), 0);
        CU_ASSERT_EQUAL(weir_test_run_fiber_real(2, start_many, NULL), 0);
}

static int
start_without_memory(void *context)
{
        const int *left = context;
        weir_group *group = weir_group_open();

        forget_records();
        weir_task *timer = weir_test_timer(1, &record);
        atomic_store(&allocations_left, *left);
        int status = weir_group_start(group, timer);
        atomic_store(&allocations_left, -1);
        CU_ASSERT(status == 0 || status == -ENOMEM);
        CU_ASSERT_EQUAL(weir_group_close(group), 0);
        CU_ASSERT(record.calls == (status == 0) && record.frees == 1);
        return status;
}

static void
without_memory_a_child_is_refused(void)
{
        int left = 0;
        int64_t before = bytes_out;

        CU_ASSERT_EQUAL(weir_test_run_fiber(start_without_memory, &left), -ENOMEM);
        left = 10;
        CU_ASSERT_EQUAL(weir_test_run_fiber(start_without_memory, &left), 0);
        weir_test_free_kept();
        CU_ASSERT_EQUAL(bytes_out, before);
}

/* -- places -- */

static int
do_nothing(void *context)
{
        (void)context;
        return 0;
}

static size_t
bytes_in_use(void)
{
        struct mallinfo2 info = mallinfo2();

        return info.uordblks + info.hblkhd;
}

static int
start_pairs(void *context)
{
        weir_group *group = weir_group_open();
        size_t first = 0;

        (void)context;
        CU_ASSERT_EQUAL(weir_group_start(group, weir_fiber_new(sleep_far, NULL, NULL)), 0);
        for (unsigned round = 0; round < (WEIR_TEST_SANITIZED ? 100 : 50000); round++) {
                weir_group_start(group, weir_fiber_new(do_nothing, NULL, NULL));
                weir_group_start(group, weir_fiber_new(do_nothing, NULL, NULL));
                if (weir_fiber_yield())
                        CU_FAIL("a yield fails");
                if (round == (WEIR_TEST_SANITIZED ? 10 : 1000))
                        first = bytes_in_use();
        }
        CU_ASSERT(WEIR_TEST_SANITIZED || bytes_in_use() < first + 65536);
        weir_group_cancel(group);
        return weir_group_close(group) == -ECANCELED ? 0 : -EBADMSG;
}

static void
a_group_keeps_no_memory_of_children_that_have_ended(void)
{
        WEIR_TEST_IN_FIBER(start_pairs);
}

#define DEPTH (WEIR_TEST_SANITIZED ? 5 : 11)

static struct {
        weir_group *group;
        _Atomic unsigned begun, refused, failed;
        int fd; /* for dumps */
} tree;

/* The depth is in the pointer. */
static int
branch(void *context)
{
        uintptr_t depth = (uintptr_t)context;

        atomic_fetch_add(&tree.begun, 1);
        for (unsigned i = 0; depth && i < 2; i++)
                if (weir_group_start(tree.group, weir_fiber_new(branch, NULL, (void *)(depth - 1))))
                        atomic_fetch_add(&tree.refused, 1);
        if (depth % 3 == 1 && weir_fiber_yield())
                atomic_fetch_add(&tree.failed, 1);
        return 0;
}

static int
grow(void *context)
{
        bool is_cancelled = context != NULL;

        tree.begun = tree.refused = tree.failed = 0;
        tree.group = weir_group_open();
        CU_ASSERT_EQUAL(weir_group_start(tree.group, weir_fiber_new(branch, NULL, (void *)DEPTH)), 0);
        for (unsigned i = 0; i < 5; i++) /* a child that was looked at leaves in another way */
                CU_ASSERT_EQUAL(weir_debug_dump(tree.fd), 0);
        if (is_cancelled)
                weir_group_cancel(tree.group);
        weir_group_close(tree.group);
        CU_ASSERT(is_cancelled || (tree.begun == (2U << DEPTH) - 1 && tree.refused == 0 && tree.failed == 0));
        return 0;
}

static void
children_start_more_on_all_pollers(void)
{
        tree.fd = memfd_create("dumps", MFD_CLOEXEC);
        for (unsigned i = 0; i < 10; i++) {
                CU_ASSERT_EQUAL(weir_test_run_fiber_real(4, grow, NULL), 0);
                CU_ASSERT_EQUAL(weir_test_run_fiber_real(4, grow, &tree), 0);
        }
        close(tree.fd);
}

/* -- what was pushed is dropped while the cause is on its way down -- */

static int
push_and_be_cancelled(void *context)
{
        weir_group *group = weir_group_open();
        weir_nsec began = weir_now();
        int slept = 1;

        CU_ASSERT_EQUAL(weir_group_start(group, weir_fiber_new(sleep_far, NULL, &slept)), 0);
        CU_ASSERT_EQUAL(weir_fiber_sleep(1), 0);
        CU_ASSERT_EQUAL(weir_series_push(weir_fiber_series(), weir_test_timer(1, &record)), 0);
        weir_series_cancel(context);
        CU_ASSERT_EQUAL(weir_fiber_yield(), -ECANCELED);
        WEIR_TEST_NOT_CALLED(&record);
        CU_ASSERT_EQUAL(weir_group_close(group), -ECANCELED);
        CU_ASSERT_EQUAL(slept, -ECANCELED);
        CU_ASSERT_EQUAL(weir_now(), began + 1);
        return 0;
}

static void
a_cancel_reaches_the_children_of_a_fiber_with_pushed_tasks(void)
{
        forget_records();
        weir_test_begin_virtual();
        weir_series *series = weir_series_ref(weir_series_new(NULL, NULL));
        weir_series_push(series, weir_fiber_new(push_and_be_cancelled, NULL, series));
        CU_ASSERT_EQUAL(weir_series_start(series), 0);
        weir_test_pass(1);
        CU_ASSERT_EQUAL(weir_series_status(series), -ECANCELED);
        weir_series_unref(series);
        weir_test_end();
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(a_group_waits_for_its_children),
                WEIR_TEST(a_failure_or_a_cancel_ends_the_children),
                WEIR_TEST(bad_children_are_refused),
                WEIR_TEST(children_act_on_their_group),
                WEIR_TEST(what_is_open_at_the_end_is_cancelled_and_joined),
                WEIR_TEST(a_fiber_that_ends_early_joins_its_children),
                WEIR_TEST(a_group_within_a_shield_is_shielded),
                WEIR_TEST(a_cancel_reaches_the_children_of_a_fiber_with_pushed_tasks),
                WEIR_TEST(ten_thousand_children_are_joined),
                WEIR_TEST(without_memory_a_child_is_refused),
                WEIR_TEST(a_group_keeps_no_memory_of_children_that_have_ended),
                WEIR_TEST(children_start_more_on_all_pollers),
        };

        return weir_test_main("fiber_group", tests, sizeof tests / sizeof *tests);
}
