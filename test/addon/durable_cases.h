/* test/addon/durable_cases.h: durable timers on the virtual clock, for each engine: the states of a timer, leases, retries, dead
 * timers and schedules.  A suite defines ENGINE_URL(number), which writes the URL of a fresh database to `url`, and
 * includes this.  It may have tests of its own: MORE_TESTS; and NOWHERE_URL is that of an engine which is not there.
 *
 *   durable_case.h              what they share
 *   durable_cases_names.h       names, and the operations on them
 *   durable_cases_delivery.h    leases, failures, closing, several nodes
 *   durable_cases_time.h        clocks, looks, schedules */
#include "test/addon/durable_cases_delivery.h"
#include "test/addon/durable_cases_names.h"
#include "test/addon/durable_cases_time.h"

#ifndef MORE_TESTS
#define MORE_TESTS
#endif

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(a_timer_is_delivered_when_it_is_due),
                WEIR_TEST(a_timer_of_the_past_is_due_at_once),
                WEIR_TEST(a_trace_names_the_operation),
                WEIR_TEST(a_cancel_before_the_claim_decides),
                WEIR_TEST(a_cancel_behind_the_claim_changes_nothing),
                WEIR_TEST(a_set_makes_a_new_generation),
                WEIR_TEST(a_handler_of_a_former_generation_ends_nothing),
                WEIR_TEST(a_renewal_that_is_refused_ends_the_flow),
                WEIR_TEST(a_lease_is_renewed_while_the_handler_runs),
                WEIR_TEST(a_failure_is_retried_later_each_time),
                WEIR_TEST(a_timer_is_dead_after_its_attempts),
                WEIR_TEST(an_extension_moves_the_due_time),
                WEIR_TEST(a_reset_begins_the_time_anew),
                WEIR_TEST(a_list_has_the_order_of_the_names_and_goes_on_behind_one),
                WEIR_TEST(what_is_wrong_is_told),
#ifdef NOWHERE_URL
                WEIR_TEST(no_engine_is_not_no_timer),
#endif
                WEIR_TEST(a_cancel_of_the_task_ends_it_at_once),
                WEIR_TEST(a_clock_that_is_set_forward_makes_timers_due),
                WEIR_TEST(a_clock_that_is_set_back_makes_timers_late),
                WEIR_TEST(a_close_waits_for_handlers),
                WEIR_TEST(a_close_puts_back_what_takes_too_long),
                WEIR_TEST(a_shutdown_leaves_the_timers_of_its_handlers),
                WEIR_TEST(a_forked_child_is_told),
                WEIR_TEST(another_node_is_woken_by_an_earlier_timer),
                WEIR_TEST(an_hour_without_due_times_has_a_look_in_ten_seconds),
                WEIR_TEST(a_set_does_not_put_off_the_next_look),
                WEIR_TEST(looks_go_on_behind_many_that_were_moved),
                WEIR_TEST(many_timers_are_shared_and_each_comes_once),
                WEIR_TEST(a_schedule_comes_at_its_times_once_in_all_nodes),
                WEIR_TEST(missed_times_are_all_made_up_for),
                WEIR_TEST(missed_times_are_merged_into_one),
                WEIR_TEST(missed_times_are_skipped),
                WEIR_TEST(a_firing_that_always_fails_is_given_up),
                MORE_TESTS
        };

        return weir_test_main("durable timers", tests, sizeof tests / sizeof *tests);
}
