/* test/unref_test.c: a reference that is dropped once too often ends the program with a line that names the call. */
#include "test/fixture.h"

static void
channel(void)
{
        weir_channel *channel = weir_channel_new(1, NULL);

        weir_channel_unref(channel);
        weir_channel_unref(channel);
}

static void
guard(void)
{
        weir_guard *guard = weir_guard_new();

        weir_guard_unref(guard);
        weir_guard_unref(guard);
}

static void
named_rate(void)
{
        weir_rate *rate = weir_rate_open("rate", 1, WEIR_SEC(1), 1);

        weir_rate_unref(rate);
        weir_rate_unref(rate);
}

static void
watch(void)
{
        weir_watch *watch = weir_watch_new(NULL);

        weir_watch_unref(watch);
        weir_watch_unref(watch);
}

static void
subscriber(void)
{
        weir_subscriber *subscriber = weir_topic_subscribe("topic", 1);

        weir_subscriber_unref(subscriber);
        weir_subscriber_unref(subscriber);
}

static void
semaphore(void)
{
        weir_semaphore *semaphore = weir_semaphore_new(1);

        weir_semaphore_unref(semaphore);
        weir_semaphore_unref(semaphore);
}

/* Sanitizers see it as well, and may be first. */
static void
one_unref_too_many_aborts_and_names_the_call(void)
{
        static const struct {
                void (*run)(void);
                const char *message;
        } cases[] = {{channel, "weir_channel_unref: no reference is left"},
                     {guard, "weir_guard_unref: no reference is left"},
                     {named_rate, "weir_rate_unref: no reference is left"},
                     {watch, "weir_watch_unref: no reference is left"},
                     {subscriber, "weir_subscriber_unref: no reference is left"},
                     {semaphore, "weir_semaphore_unref: no reference is left"}};

        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
                char said[4096];

                CU_ASSERT_NOT_EQUAL(weir_test_child(cases[i].run, said, sizeof said), 0);
                CU_ASSERT(strstr(said, cases[i].message) || strstr(said, "use-after-free"));
        }
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(one_unref_too_many_aborts_and_names_the_call),
        };

        return weir_test_main("unref", tests, sizeof tests / sizeof *tests);
}
