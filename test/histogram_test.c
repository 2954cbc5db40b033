/* test/histogram_test.c: buckets, quantiles compared with sorted values, and a collection that clears while others record. */
#include "kernel/data/histogram.h"

#include <stdlib.h>

#include "test/timer_fixture.h"

#define LAST (WEIR__HISTOGRAM_BUCKETS - 1)

static struct weir__histogram_sum
collected(struct weir__histogram *histogram, bool restart)
{
        struct weir__histogram_sum sum = {0};

        weir__histogram_collect(histogram, &sum, restart);
        return sum;
}

static struct weir__histogram *
new_histogram(void)
{
        return calloc(1, sizeof(struct weir__histogram));
}

/* -- buckets -- */

static void
buckets_follow_each_other_without_a_gap(void)
{
        CU_ASSERT_EQUAL(weir__histogram_least(0), 0);
        for (unsigned i = 0; i <= LAST; i++) {
                weir_nsec least = weir__histogram_least(i), greatest = weir__histogram_greatest(i);

                CU_ASSERT(least <= greatest);
                CU_ASSERT_EQUAL(weir__histogram_bucket(least), i);
                CU_ASSERT_EQUAL(weir__histogram_bucket(greatest), i);
                if (i < LAST) {
                        CU_ASSERT_EQUAL(weir__histogram_least(i + 1), greatest + 1);
                }
        }
}

static void
a_bucket_is_at_most_a_sixteenth_of_its_values_wide(void)
{
        for (unsigned i = 0; i < LAST; i++) {
                CU_ASSERT((weir__histogram_greatest(i) - weir__histogram_least(i)) * 16 <= weir__histogram_least(i));
        }
        CU_ASSERT(weir__histogram_least(LAST) > WEIR_SEC(30));
}

static void
values_beyond_all_buckets_fall_into_the_outer_ones(void)
{
        CU_ASSERT_EQUAL(weir__histogram_bucket(INT64_MAX), LAST);
        CU_ASSERT_EQUAL(weir__histogram_bucket(WEIR_SEC(3600)), LAST);
        CU_ASSERT_EQUAL(weir__histogram_bucket(-1), 0);
        CU_ASSERT_EQUAL(weir__histogram_bucket(INT64_MIN), 0);
}

/* -- reading -- */

static void
an_empty_histogram_has_zeros(void)
{
        struct weir__histogram *histogram = new_histogram();
        struct weir__histogram_sum sum = collected(histogram, true);

        CU_ASSERT(sum.count == 0 && sum.max == 0);
        CU_ASSERT_EQUAL(weir__histogram_quantile(&sum, 0), 0);
        CU_ASSERT_EQUAL(weir__histogram_quantile(&sum, 1000), 0);
        free(histogram);
}

static void
small_values_are_told_exactly(void)
{
        struct weir__histogram *histogram = new_histogram();

        for (weir_nsec value = 1; value <= 10; value++) {
                weir__histogram_add(histogram, value);
        }
        struct weir__histogram_sum sum = collected(histogram, false);
        CU_ASSERT_EQUAL(sum.count, 10);
        CU_ASSERT_EQUAL(sum.max, 10);
        CU_ASSERT_EQUAL(weir__histogram_quantile(&sum, 500), 5);
        CU_ASSERT_EQUAL(weir__histogram_quantile(&sum, 501), 6);
        CU_ASSERT_EQUAL(weir__histogram_quantile(&sum, 900), 9);
        CU_ASSERT_EQUAL(weir__histogram_quantile(&sum, 901), 10);
        CU_ASSERT_EQUAL(weir__histogram_quantile(&sum, 0), 1);
        free(histogram);
}

static void
a_value_beyond_the_buckets_is_read_as_the_greatest(void)
{
        struct weir__histogram *histogram = new_histogram();

        weir__histogram_add(histogram, WEIR_SEC(40));
        weir__histogram_add(histogram, WEIR_SEC(7200) + 1);
        struct weir__histogram_sum sum = collected(histogram, false);
        CU_ASSERT_EQUAL(sum.max, WEIR_SEC(7200) + 1);
        CU_ASSERT_EQUAL(weir__histogram_quantile(&sum, 500), sum.max);
        free(histogram);
}

static int
compare(const void *a, const void *b)
{
        weir_nsec first = *(const weir_nsec *)a, second = *(const weir_nsec *)b;

        return first < second ? -1 : first > second;
}

/* Nothing below the true value, and nothing more than a sixteenth above it. */
static void
check_against_sorted(const struct weir__histogram_sum *sum, weir_nsec values[], size_t count)
{
        qsort(values, count, sizeof *values, compare);
        CU_ASSERT_EQUAL(sum->count, count);
        CU_ASSERT_EQUAL(sum->max, values[count - 1]);
        for (unsigned per_mille = 1; per_mille <= 1000; per_mille++) {
                weir_nsec right = values[(count * per_mille + 999) / 1000 - 1], found = weir__histogram_quantile(sum, per_mille);

                CU_ASSERT(found >= right && found <= right + right / 16);
        }
}

static void
quantiles_of_random_values_are_those_of_the_sorted_ones_to_a_sixteenth(void)
{
        struct weir_test_random random = {weir_test_seed()};

        for (unsigned round = 0; round < 30; round++) {
                struct weir__histogram *histograms[3] = {new_histogram(), new_histogram(), new_histogram()};
                struct weir__histogram_sum sum = {0};
                size_t count = 1 + weir_test_random_below(&random, 5000);
                weir_nsec *values = malloc(count * sizeof *values);

                for (size_t i = 0; i < count; i++) {
                        values[i] = (weir_nsec)(weir_test_random(&random) >> (30 + weir_test_random_below(&random, 34)));
                        weir__histogram_add(histograms[weir_test_random_below(&random, 3)], values[i]);
                }
                for (unsigned i = 0; i < 3; i++) {
                        weir__histogram_collect(histograms[i], &sum, false); /* merged */
                        free(histograms[i]);
                }
                check_against_sorted(&sum, values, count);
                free(values);
        }
}

/* -- collecting and clearing -- */

static void
a_clearing_collection_reads_all_and_leaves_nothing(void)
{
        struct weir__histogram *histogram = new_histogram();

        weir__histogram_add(histogram, 1000000);
        weir__histogram_add(histogram, 3);
        struct weir__histogram_sum first = collected(histogram, true), none = collected(histogram, false);
        CU_ASSERT(first.count == 2 && first.max == 1000000);
        CU_ASSERT(none.count == 0 && none.max == 0);

        weir__histogram_add(histogram, 998); /* not the end of its bucket, at which a greatest value is cut off */
        struct weir__histogram_sum second = collected(histogram, false), again = collected(histogram, true);
        CU_ASSERT(second.count == 1 && second.max == 998);
        CU_ASSERT(again.count == 1 && weir__histogram_quantile(&again, 1000) == 998);
        free(histogram);
}

/* The three ways in which a maximum may be wrong, made by hand. */
static void
a_greatest_value_that_was_lost_or_came_early_is_read_to_within_its_bucket(void)
{
        struct weir__histogram *histogram = new_histogram();
        weir_nsec end = weir__histogram_greatest(weir__histogram_bucket(1000));

        weir__histogram_add(histogram, 1000);
        atomic_store(&histogram->max, 0); /* lost to the collection that cleared it */
        CU_ASSERT_EQUAL(collected(histogram, false).max, end);
        atomic_store(&histogram->max, 500000); /* of a value that is not counted yet */
        CU_ASSERT_EQUAL(collected(histogram, true).max, end);
        weir__histogram_add(histogram, WEIR_SEC(100));
        atomic_store(&histogram->max, 5);
        CU_ASSERT_EQUAL(collected(histogram, true).max, weir__histogram_least(LAST));
        free(histogram);
}

struct shared {
        struct weir__histogram histogram;
        uint64_t added;
        _Atomic bool over;
};

static weir_nsec
value_of(uint64_t i)
{
        return (weir_nsec)(i * 2654435761U % 1000003);
}

static void
add_many(void *argument)
{
        struct shared *shared = argument;

        for (uint64_t i = 0; i < shared->added; i++) {
                weir__histogram_add(&shared->histogram, value_of(i));
        }
        atomic_store(&shared->over, true);
}

static void
each_value_is_counted_in_one_of_the_times_into_which_others_cut(void)
{
        struct shared *shared = calloc(1, sizeof *shared);
        struct weir__histogram_sum all = {0}, last;
        struct weir_test_thread adder;

        shared->added = WEIR_TEST_SANITIZED ? 200000 : 5000000;
        weir_test_thread_start(&adder, add_many, shared);
        for (bool over = false; !over;) {
                over = atomic_load(&shared->over);
                last = collected(&shared->histogram, false);
                struct weir__histogram_sum now = collected(&shared->histogram, true);
                CU_ASSERT(now.count >= last.count);
                CU_ASSERT(now.max < 1000003 + 1000003 / 16);
                CU_ASSERT(now.count == 0 || now.max >= weir__histogram_quantile(&now, 1000));
                for (unsigned i = 0; i <= LAST; i++) {
                        all.counts[i] += now.counts[i];
                }
                all.count += now.count;
        }
        weir_test_thread_join(&adder);
        CU_ASSERT_EQUAL(all.count, shared->added);
        for (uint64_t i = 0; i < shared->added; i++) {
                all.counts[weir__histogram_bucket(value_of(i))]--;
        }
        for (unsigned i = 0; i <= LAST; i++) {
                CU_ASSERT_EQUAL(all.counts[i], 0);
        }
        free(shared);
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(buckets_follow_each_other_without_a_gap),
                WEIR_TEST(a_bucket_is_at_most_a_sixteenth_of_its_values_wide),
                WEIR_TEST(values_beyond_all_buckets_fall_into_the_outer_ones),
                WEIR_TEST(an_empty_histogram_has_zeros),
                WEIR_TEST(small_values_are_told_exactly),
                WEIR_TEST(a_value_beyond_the_buckets_is_read_as_the_greatest),
                WEIR_TEST(quantiles_of_random_values_are_those_of_the_sorted_ones_to_a_sixteenth),
                WEIR_TEST(a_clearing_collection_reads_all_and_leaves_nothing),
                WEIR_TEST(a_greatest_value_that_was_lost_or_came_early_is_read_to_within_its_bucket),
                WEIR_TEST(each_value_is_counted_in_one_of_the_times_into_which_others_cut),
        };

        return weir_test_main("histogram", tests, sizeof tests / sizeof *tests);
}
