/* test/timer_races_test.c: reset, extend and cancel, by name and by id, against expiry and against each other, on the real clock.
 *
 * In each order of the operations, the counts that they return must agree with what happened. */
#include "test/timer_fixture.h"

#define FAR WEIR_TEST_FAR

/* -- by name: many timers at once, that expire meanwhile -- */

#define AT_ONCE 32 /* timers in a round */
#define ROUNDS  (WEIR_TEST_SANITIZED ? 600 : 1000)

static struct weir_test_record racing[AT_ONCE];

/* They end within the next 50 us. */
static void
start_racing(struct weir_test_random *random)
{
        memset(racing, 0, sizeof racing);
        for (unsigned i = 0; i < AT_ONCE; i++) {
                weir_nsec after = (weir_nsec)weir_test_random_below(random, 50000);

                CU_ASSERT_EQUAL(weir_task_start(weir_test_named("race", after, &racing[i])), 0);
        }
        weir_test_spin((int64_t)weir_test_random_below(random, 60000));
}

static void
wait_for_racing(void)
{
        for (unsigned i = 0; i < AT_ONCE; i++) {
                weir_test_wait_freed(&racing[i]);
                CU_ASSERT_EQUAL(racing[i].calls, 1);
        }
}

static unsigned
racing_with(int status)
{
        unsigned count = 0;

        for (unsigned i = 0; i < AT_ONCE; i++) {
                count += racing[i].status == status;
        }
        return count;
}

/* A timer that was reset never ends by itself, so the cancel finds all that were counted.  The callbacks of the others have
 * begun, so it finds none of those. */
static void
reset_while_they_expire_counts_just_those_that_do_not_end_any_more(void)
{
        struct weir_test_random random = {weir_test_seed()};

        weir_test_begin_real(2);
        for (unsigned round = 0; round < ROUNDS; round++) {
                start_racing(&random);
                size_t counted = weir_timer_reset("race", WEIR_FOREVER);
                CU_ASSERT_EQUAL(weir_timer_cancel("race", WEIR_ALL), counted);
                wait_for_racing();
                CU_ASSERT_EQUAL(racing_with(-ECANCELED), counted);
                CU_ASSERT_EQUAL(racing_with(0), AT_ONCE - counted);
        }
        weir_test_end();
}

static void
reset_while_they_expire_none_of_those_counted_is_early(void)
{
        struct weir_test_random random = {weir_test_seed()};

        weir_test_begin_real(2);
        for (unsigned round = 0; round < ROUNDS / 3; round++) {
                start_racing(&random);
                weir_nsec earliest = weir_now() + WEIR_USEC(300);
                size_t counted = weir_timer_reset("race", WEIR_USEC(300)), ended = 0;
                wait_for_racing();
                for (unsigned i = 0; i < AT_ONCE; i++) {
                        ended += racing[i].at >= earliest;
                }
                CU_ASSERT(ended >= counted); /* one that was not counted may have been late all the same */
                CU_ASSERT_EQUAL(racing_with(0), AT_ONCE);
        }
        weir_test_end();
}

static struct {
        _Atomic bool over;
        _Atomic size_t counted; /* by cancels */
} meddling;

static void
meddle(void *argument)
{
        struct weir_test_random random = {weir_test_seed() + (uintptr_t)argument};

        while (!meddling.over) {
                weir_nsec by = (weir_nsec)weir_test_random_below(&random, 40000);

                switch (weir_test_random_below(&random, 8)) {
                case 0: meddling.counted += weir_timer_cancel("race", weir_test_random_below(&random, 3)); break;
                case 1: weir_timer_extend("race", -by); break;
                case 2: weir_timer_extend("race", by); break;
                case 3: weir_timer_reset("race", 0); break;
                default: weir_timer_reset("race", by); break;
                }
                weir_test_spin((int64_t)weir_test_random_below(&random, 10000));
        }
}

static void
threads_that_reset_extend_and_cancel_at_once_leave_one_callback_each(void)
{
        struct weir_test_random random = {weir_test_seed()};

        weir_test_begin_real(2);
        for (unsigned round = 0; round < ROUNDS / 15; round++) {
                struct weir_test_thread threads[2];

                meddling.over = false;
                meddling.counted = 0;
                for (uintptr_t i = 0; i < 2; i++) {
                        weir_test_thread_start(&threads[i], meddle, (void *)(i + 10 * round));
                }
                start_racing(&random);
                weir_test_spin(200000);
                meddling.over = true;
                for (unsigned i = 0; i < 2; i++) {
                        weir_test_thread_join(&threads[i]);
                }
                wait_for_racing();
                CU_ASSERT_EQUAL(racing_with(-ECANCELED), meddling.counted);
                CU_ASSERT_EQUAL(racing_with(0), AT_ONCE - meddling.counted);
        }
        weir_test_end();
}

/* -- by id: two threads at one timer -- */

#define PAIRS (WEIR_TEST_SANITIZED ? 1000 : 1500)

/* Two operations on the same timer at once, by two threads; each returns whether it found the timer. */
struct race {
        pthread_barrier_t barrier;
        size_t (*act[2])(weir_timer_id id);
        weir_timer_id id;
        size_t found[2];
};

static struct race race;

static void *
race_main(void *number)
{
        uintptr_t which = (uintptr_t)number;

        for (unsigned i = 0; i < PAIRS; i++) {
                pthread_barrier_wait(&race.barrier);
                race.found[which] = race.act[which](race.id);
                pthread_barrier_wait(&race.barrier);
        }
        return NULL;
}

static size_t
cancel_named_racing(weir_timer_id id)
{
        (void)id;
        return weir_timer_cancel("racing", WEIR_ALL);
}

static size_t
reset_to_forever(weir_timer_id id)
{
        return weir_timer_reset_id(id, WEIR_FOREVER);
}

static size_t
look_on(weir_timer_id id)
{
        (void)id;
        return 0;
}

/* Every second timer is started before, the others when both have acted. */
static void
race_rounds(size_t (*one)(weir_timer_id id), size_t (*other)(weir_timer_id id), weir_nsec after,
            void (*check)(struct weir_test_record *record, weir_timer_id id))
{
        pthread_t threads[2];

        weir_test_begin_real(2);
        race.act[0] = one;
        race.act[1] = other;
        pthread_barrier_init(&race.barrier, NULL, 3);
        for (uintptr_t i = 0; i < 2; i++) {
                pthread_create(&threads[i], NULL, race_main, (void *)i);
        }
        for (unsigned i = 0; i < PAIRS; i++) {
                struct weir_test_record record = {0};
                bool named = one == cancel_named_racing || i / 2 % 2;
                weir_task *timer = named ? weir_test_named("racing", after, &record) : weir_test_timer(after, &record);

                race.id = weir_timer_id_of(timer);
                if (i % 2) {
                        weir_task_start(timer);
                }
                pthread_barrier_wait(&race.barrier);
                pthread_barrier_wait(&race.barrier);
                if (i % 2 == 0) {
                        weir_task_start(timer);
                }
                check(&record, race.id);
                CU_ASSERT_EQUAL(record.calls, 1);
                CU_ASSERT(weir_test_finds_nothing(race.id));
        }
        for (unsigned i = 0; i < 2; i++) {
                pthread_join(threads[i], NULL);
        }
        pthread_barrier_destroy(&race.barrier);
        weir_test_end();
}

static void
check_one_found(struct weir_test_record *record, weir_timer_id id)
{
        (void)id;
        weir_test_wait_freed(record);
        CU_ASSERT_EQUAL(record->status, -ECANCELED);
        CU_ASSERT_EQUAL(race.found[0] + race.found[1], 1);
}

static void
two_cancels_by_id_at_once_count_once_in_total(void)
{
        race_rounds(weir_timer_cancel_id, weir_timer_cancel_id, FAR, check_one_found);
}

static void
cancels_by_name_and_by_id_at_once_count_once_in_total(void)
{
        race_rounds(cancel_named_racing, weir_timer_cancel_id, FAR, check_one_found);
}

/* It was cancelled whatever the reset found. */
static void
check_first_found(struct weir_test_record *record, weir_timer_id id)
{
        (void)id;
        weir_test_wait_freed(record);
        CU_ASSERT_EQUAL(record->status, -ECANCELED);
        CU_ASSERT_EQUAL(race.found[0], 1);
}

static void
cancel_and_reset_by_id_at_once_end_with_ecanceled(void)
{
        race_rounds(weir_timer_cancel_id, reset_to_forever, FAR, check_first_found);
}

static void
check_found_is_cancelled(struct weir_test_record *record, weir_timer_id id)
{
        (void)id;
        weir_test_wait_freed(record);
        CU_ASSERT_EQUAL(record->status, (race.found[0] ? -ECANCELED : 0));
}

/* Another while for each id. */
static void
spin_a_little(weir_timer_id id)
{
        weir_test_spin((int64_t)(id * UINT64_C(0x9e3779b97f4a7c15) >> 60) * 500);
}

static size_t
cancel_a_little_later(weir_timer_id id)
{
        spin_a_little(id);
        return weir_timer_cancel_id(id);
}

static void
cancel_by_id_at_expiry_counts_just_when_the_callback_sees_ecanceled(void)
{
        race_rounds(cancel_a_little_later, look_on, WEIR_USEC(2), check_found_is_cancelled);
}

/* A timer that was reset never ends by itself. */
static void
check_found_is_pending(struct weir_test_record *record, weir_timer_id id)
{
        size_t cancelled = race.found[0] ? weir_timer_cancel_id(id) : 0;

        CU_ASSERT_EQUAL(cancelled, race.found[0]);
        weir_test_wait_freed(record);
        CU_ASSERT_EQUAL(record->status, (cancelled ? -ECANCELED : 0));
}

static size_t
reset_a_little_later(weir_timer_id id)
{
        spin_a_little(id);
        return weir_timer_reset_id(id, WEIR_FOREVER);
}

static void
reset_by_id_at_expiry_counts_just_when_it_does_not_end_any_more(void)
{
        race_rounds(reset_a_little_later, look_on, WEIR_USEC(2), check_found_is_pending);
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(reset_while_they_expire_counts_just_those_that_do_not_end_any_more),
                WEIR_TEST(reset_while_they_expire_none_of_those_counted_is_early),
                WEIR_TEST(threads_that_reset_extend_and_cancel_at_once_leave_one_callback_each),
                WEIR_TEST(two_cancels_by_id_at_once_count_once_in_total),
                WEIR_TEST(cancels_by_name_and_by_id_at_once_count_once_in_total),
                WEIR_TEST(cancel_and_reset_by_id_at_once_end_with_ecanceled),
                WEIR_TEST(cancel_by_id_at_expiry_counts_just_when_the_callback_sees_ecanceled),
                WEIR_TEST(reset_by_id_at_expiry_counts_just_when_it_does_not_end_any_more),
        };

        return weir_test_main("timer races", tests, sizeof tests / sizeof *tests);
}
