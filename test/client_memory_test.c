/* test/client_memory_test.c: requests and calls of the client, of which each allocation is refused, one after another.
 *
 * Each task ends once, as a success or with -ENOMEM; nothing is left behind; the next request has its response. */
#include <weir/log.h>

#include "test/client_scenarios.h"
#include "test/memory_faults.h"

static int64_t number;

static void
refuse_one(void)
{
        refuse_from(number, false);
}

static void
refuse_all(void)
{
        refuse_from(number, true);
}

/* Whether it is as the header says.  `late`: the second request is, unless it got the connection. */
static bool
is_told(const struct note *note, bool was_refused, bool is_late, int also)
{
        if (note->begun)
                return was_refused && note->begun == -ENOMEM && note->calls == 0;
        if (note->calls != 1)
                return false;
        if (is_late && !was_refused)
                return note->status == -ETIMEDOUT;
        return (note->status == 0 && (note->is_right || !note->is_response)) ||
               (was_refused && (note->status == -ENOMEM || note->status == also)) || (is_late && note->status == -ETIMEDOUT);
}

/* Returns whether an allocation was refused. */
static bool
run(const struct scenario *scenario, void (*refusal)(void))
{
        weir_cookie_jar *jar = client_begin(scenario);

        arm = refusal;
        refused = false;
        play(scenario);
        armed = false;
        arm = NULL;
        for (unsigned i = 0; i < note_count; i++) {
                bool is_well = is_told(&notes[i], refused, scenario->is_late && i, scenario->also);

                CU_ASSERT_TRUE(is_well);
                if (!is_well)
                        printf("\n  %s, %d: %s: begun %d, calls %d, status %d, code %d", scenario->name, (int)number,
                               notes[i].what, notes[i].begun, notes[i].calls, notes[i].status, notes[i].code);
        }
        bool was_refused = refused;
        bool goes_on = works();
        CU_ASSERT_TRUE(goes_on);
        client_end(jar);
        return was_refused;
}

static void
refuse_each(const struct scenario *scenario, void (*refusal)(void))
{
        bool was_refused = true;

        for (int i = 0; i < 3; i++) /* what is made once */
                (void)run(scenario, NULL);
        int64_t blocks = live, first = live;
        unsigned descriptors = http_open_descriptors();
        for (number = 0; was_refused; number++) {
                was_refused = run(scenario, refusal);
                bool is_clean = (live <= blocks || ((scenario->is_secure || scenario->proxy) && live <= first + 2)) &&
                                http_open_descriptors() == descriptors;
                CU_ASSERT_TRUE(is_clean);
                if (!is_clean)
                        printf("\n  %s, %d: %d blocks, %d descriptors", scenario->name, (int)number, (int)(live - blocks),
                               (int)(http_open_descriptors() - descriptors));
                blocks = live;
        }
        CU_ASSERT(number > 5);
}

static void
refuse_in_all(void (*refusal)(void))
{
        CU_ASSERT_EQUAL(weir_log_set(NULL, NULL), 0);
        scenarios_begin();
        for (size_t i = 0; i < SCENARIOS; i++)
                refuse_each(&scenarios[i], refusal);
        scenarios_end();
}

static void
each_allocation_may_be_refused(void)
{
        refuse_in_all(refuse_one);
}

static void
no_memory_may_be_left(void)
{
        refuse_in_all(refuse_all);
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(each_allocation_may_be_refused),
                WEIR_TEST(no_memory_may_be_left),
        };

        signal(SIGPIPE, SIG_IGN); /* OpenSSL's writes of the test to a client that has left */
        return weir_test_main("client_memory", tests, sizeof tests / sizeof *tests);
}
