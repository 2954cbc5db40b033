/* test/waiting_guide_test.c: what docs/waiting.md shows of select, and of a mailbox that another library fills, and of guards;
 * docs/coming-from-workflow.md shows some of it, too. */
#include "test/fixture.h"

#include <errno.h>

/* The results of callbacks: one letter each. */
static char story[32];

static void
begin(void)
{
        weir_test_begin_virtual();
        story[0] = '\0';
}

static void
add_letter(char letter)
{
        size_t length = strlen(story);

        CU_ASSERT(length + 1 < sizeof story);
        story[length] = letter;
        story[length + 1] = '\0';
}

static void
on_end(weir_task *task, void *letter)
{
        add_letter(weir_task_status(task) ? '!' : *(const char *)letter);
}

/* -- mailbox -- */

/* A library with callbacks of its own has found something, on whatever thread. */
static void
on_found(void *found, void *mailbox)
{
        if (weir_mailbox_send(mailbox, found) < 0)
                free(found); /* somebody was faster */
        weir_mailbox_unref(mailbox);
}

static void
use_found(weir_task *task, void *context)
{
        (void)context;
        if (weir_task_status(task) == 0)
                add_letter(*(char *)weir_mailbox_message(task)); /* freed behind the callback */
}

static void
a_mailbox_takes_the_first_answer(void)
{
        begin();
        weir_mailbox *mailbox = weir_mailbox_new(free);
        weir_task_start(weir_mailbox_receive_new(mailbox, use_found, NULL));
        on_found(strdup("a"), weir_mailbox_ref(mailbox));
        on_found(strdup("b"), weir_mailbox_ref(mailbox));
        weir_mailbox_unref(mailbox);
        CU_ASSERT_EQUAL(weir_clock_advance(0), 0);
        CU_ASSERT_STRING_EQUAL(story, "a");
        weir_test_end();
}

/* -- watch -- */

static void
on_config(weir_task *task, void *watch)
{
        if (weir_task_status(task) < 0)
                return; /* closed, or the flow ends early */
        uint64_t seen = weir_watch_seen(task);
        add_letter(*(char *)weir_watch_value(task)); /* borrowed: many look at it */
        weir_series_push(weir_series_of(task), weir_watch_wait_new(watch, seen, on_config, watch));
}

static void
a_watch_shows_the_newest(void)
{
        begin();
        weir_watch *watch = weir_watch_new(free);
        weir_watch_set(watch, strdup("a"));
        weir_watch_set(watch, strdup("b"));
        weir_task_start(weir_watch_wait_new(watch, 0, on_config, watch));
        CU_ASSERT_EQUAL(weir_clock_advance(0), 0);
        weir_watch_set(watch, strdup("c"));
        CU_ASSERT_EQUAL(weir_clock_advance(0), 0);
        CU_ASSERT_STRING_EQUAL(story, "bc");
        weir_watch_close(watch);
        weir_test_end();
        weir_watch_unref(watch);
}

/* -- topic -- */

static void
on_post(weir_task *task, void *subscriber)
{
        if (weir_task_status(task) < 0)
                return; /* the flow ends early */
        if (weir_topic_lost(task) > 0)
                add_letter('?');
        add_letter(*(const char *)weir_topic_message(task, NULL)); /* borrowed: many look at it */
        weir_task *next = weir_topic_receive_new(subscriber, on_post, subscriber);
        weir_series_push(weir_series_of(task), next);
}

static void
a_topic_reaches_all_who_have_subscribed(void)
{
        begin();
        weir_subscriber *anna = weir_topic_subscribe("room 7", 2);
        for (const char *text = "abc"; *text; text++)
                CU_ASSERT_EQUAL(weir_topic_publish("room 7", text, 1), 1);
        weir_task_start(weir_topic_receive_new(anna, on_post, anna));
        CU_ASSERT_EQUAL(weir_clock_advance(0), 0);
        CU_ASSERT_STRING_EQUAL(story, "?bc");
        weir_test_end();
        weir_subscriber_unref(anna);
}

/* -- channels and select -- */

struct shop {
        weir_channel *closing, *orders;
};

static weir_task *next_event(struct shop *shop);

static void
on_event(weir_task *select, void *shop)
{
        if (weir_task_status(select) < 0 || weir_select_winner(select) == 0) {
                add_letter('.'); /* closing is closed, or the flow ends early */
                return;
        }
        add_letter(*(char *)weir_channel_message(select)); /* an order: freed behind the callback */
        weir_series_push(weir_series_of(select), next_event(shop));
}

static weir_task *
next_event(struct shop *shop)
{
        weir_task *select = weir_select_new(on_event, shop);

        weir_select_receive(select, shop->closing); /* case 0: what matters most comes first */
        weir_select_receive(select, shop->orders);
        return select;
}

static void
a_select_takes_what_is_there_first(void)
{
        begin();
        struct shop shop = {weir_channel_new(0, NULL), weir_channel_new(8, free)};
        CU_ASSERT_EQUAL(weir_task_start(next_event(&shop)), 0);
        weir_channel_post(shop.orders, strdup("a"));
        weir_channel_post(shop.orders, strdup("b"));
        CU_ASSERT_EQUAL(weir_clock_advance(0), 0);
        CU_ASSERT_STRING_EQUAL(story, "ab");
        weir_channel_close(shop.closing);
        CU_ASSERT_EQUAL(weir_clock_advance(0), 0);
        CU_ASSERT_STRING_EQUAL(story, "ab.");
        weir_channel_unref(shop.closing);
        weir_channel_unref(shop.orders);
        weir_test_end();
}

/* -- guards -- */

static void
write_account(void *account)
{
        add_letter(*(char *)account);
}

static void
use_account(char *account)
{
        weir_series *series = weir_series_new(NULL, NULL);
        weir_series_push(series, weir_guard_acquire_new_named("account 17", NULL, NULL));
        weir_series_push(series, weir_go_new("disk", write_account, NULL, account));
        weir_series_start(series);
}

static void
a_guard_is_held_until_the_end_of_its_series(void)
{
        begin();
        weir_series *first = weir_series_ref(weir_series_new(NULL, NULL));
        weir_series_push(first, weir_guard_acquire_new_named("account 17", on_end, "g"));
        weir_series_push(first, weir_timer_new(WEIR_SEC(10), on_end, "t"));
        CU_ASSERT_EQUAL(weir_series_start(first), 0);
        use_account("w");
        weir_clock_advance(WEIR_SEC(5));
        CU_ASSERT_STRING_EQUAL(story, "g");
        weir_clock_advance(WEIR_SEC(5)); /* its series has ended, and so the guard is free */
        CU_ASSERT_STRING_EQUAL(story, "gtw");
        CU_ASSERT_EQUAL(weir_guard_release_named("account 17", first), -EPERM);
        weir_series_unref(first);
        weir_test_end();
}

static void
a_cancelled_series_gives_its_guard_back(void)
{
        begin();
        weir_series *first = weir_series_ref(weir_series_new(NULL, NULL));
        weir_series_push(first, weir_guard_acquire_new_named("account 17", on_end, "g"));
        weir_series_push(first, weir_timer_new(WEIR_FOREVER, on_end, "t"));
        CU_ASSERT_EQUAL(weir_series_start(first), 0);
        use_account("w");
        weir_clock_advance(0);
        weir_series_cancel(first);
        weir_clock_advance(0);
        CU_ASSERT_STRING_EQUAL(story, "g!w");
        weir_series_unref(first);
        weir_test_end();
}

static const struct weir_test tests[] = {
        WEIR_TEST(a_mailbox_takes_the_first_answer),
        WEIR_TEST(a_watch_shows_the_newest),
        WEIR_TEST(a_topic_reaches_all_who_have_subscribed),
        WEIR_TEST(a_select_takes_what_is_there_first),
        WEIR_TEST(a_guard_is_held_until_the_end_of_its_series),
        WEIR_TEST(a_cancelled_series_gives_its_guard_back),
};

int
main(void)
{
        return weir_test_main("waiting_guide", tests, sizeof tests / sizeof *tests);
}
