/* test/log_test.c: the function that gets the messages of the library, the end of its calls, and the limit of their rate.
 *
 * No test depends on a clock: tests pass the time to the rate limit, and a call that must not return too early is held until
 * something else is seen. */
#include "test/timer_fixture.h"

#include "kernel/base/clock.h"
#include "kernel/observe/log.h"
#include "kernel/data/visible.h"

/* -- records of messages -- */

struct heard {
        unsigned count;
        enum weir_log_level level;
        char message[600];
};

static void
hear(enum weir_log_level level, const char *message, void *context)
{
        struct heard *heard = context;

        heard->count++;
        errno = EPERM;
        heard->level = level;
        snprintf(heard->message, sizeof heard->message, "%s", message);
}

/* The record of one message. */
static struct heard
said(const char *text)
{
        struct heard heard = {0};

        CU_ASSERT_EQUAL(weir_log_set(hear, &heard), 0);
        weir__log(WEIR_LOG_INFO, "%s", text);
        CU_ASSERT_EQUAL(weir_log_set(NULL, NULL), 0);
        CU_ASSERT_EQUAL(heard.count, 1);
        return heard;
}

static void
function_is_told_level_and_message(void)
{
        struct heard heard = {0};

        CU_ASSERT_EQUAL(weir_log_set(hear, &heard), 0);
        weir__log(WEIR_LOG_ERROR, "no more than %d of %s", 3, "them");
        CU_ASSERT_EQUAL(heard.count, 1);
        CU_ASSERT_EQUAL(heard.level, WEIR_LOG_ERROR);
        CU_ASSERT_STRING_EQUAL(heard.message, "no more than 3 of them");
        weir__log(WEIR_LOG_INFO, "again");
        CU_ASSERT_EQUAL(heard.count, 2);
        CU_ASSERT_EQUAL(heard.level, WEIR_LOG_INFO);
        CU_ASSERT_EQUAL(weir_log_set(NULL, NULL), 0);
        weir__log(WEIR_LOG_ERROR, "to nobody");
        CU_ASSERT_EQUAL(heard.count, 2);
}

static void
programs_write_to_the_log_too(void)
{
        struct heard heard = {0};

        CU_ASSERT_EQUAL(weir_log_set(hear, &heard), 0);
        errno = EXDEV;
        weir_log_write(WEIR_LOG_WARNING, "%s is %d", "it", 5);
        CU_ASSERT_EQUAL(errno, EXDEV);
        CU_ASSERT_EQUAL(heard.count, 1);
        CU_ASSERT_EQUAL(heard.level, WEIR_LOG_WARNING);
        CU_ASSERT_STRING_EQUAL(heard.message, "it is 5");
        CU_ASSERT_EQUAL(weir_log_set(NULL, NULL), 0);
        weir_log_write(WEIR_LOG_ERROR, "to nobody");
        CU_ASSERT_EQUAL(heard.count, 1);
}

static void
errno_stays_as_it_is(void)
{
        struct weir__log_limit limit = {0};

        errno = EXDEV;
        said("x");
        weir__log_limited(&limit, WEIR_LOG_ERROR, "to nobody");
        CU_ASSERT_EQUAL(errno, EXDEV);
}

/* -- standard error -- */

static void
say_all_levels(void)
{
        weir__log(WEIR_LOG_ERROR, "bad");
        weir__log(WEIR_LOG_INFO, "as ever");
        weir__log(WEIR_LOG_WARNING, "two\nlines");
}

static void
say_nothing(void)
{
        weir_log_set(NULL, NULL);
        say_all_levels();
}

/* In children, before any call of weir_log_set: this is the first of the tests. */
static void
until_the_first_call_errors_and_warnings_go_to_standard_error(void)
{
        char text[256];

        CU_ASSERT_EQUAL(weir_test_child(say_all_levels, text, sizeof text), 0);
        CU_ASSERT_STRING_EQUAL(text, "weir: bad\nweir: two\\x0alines\n");
        CU_ASSERT_EQUAL(weir_test_child(say_nothing, text, sizeof text), 0);
        CU_ASSERT_STRING_EQUAL(text, "");
}

/* -- messages -- */

static void
bytes_that_would_steer_a_terminal_are_made_visible(void)
{
        CU_ASSERT_STRING_EQUAL(said("a\nb\t\x1b[31m\x7f\\").message, "a\\x0ab\\x09\\x1b[31m\\x7f\\\\");
        CU_ASSERT_STRING_EQUAL(said("\xc2\x9b \x9b \xff \xc3").message, "\\xc2\\x9b \\x9b \\xff \\xc3");
        CU_ASSERT_STRING_EQUAL(said("gr\xc3\xbc\xc3\x9f \xe2\x82\xac \xf0\x9f\x98\x80 \xc2\xa0").message,
                               "gr\xc3\xbc\xc3\x9f \xe2\x82\xac \xf0\x9f\x98\x80 \xc2\xa0");
        CU_ASSERT_STRING_EQUAL(said("\xe2\x80\xa8|\xe2\x80\xaa|\xe2\x80\xae|\xe2\x81\xa6|\xe2\x81\xa9").message,
                               "\\xe2\\x80\\xa8|\\xe2\\x80\\xaa|\\xe2\\x80\\xae|\\xe2\\x81\\xa6|\\xe2\\x81\\xa9");
}

/* As RFC 3629 has them: all sequences of two to four bytes that begin and end somewhere near a limit. */
static void
valid_characters_are_shown_and_nothing_else(void)
{
        static const struct {
                const char *text;
                unsigned length;
        } cases[] = {
                {"\x20", 1},
                {"~", 1},
                {"\x1f", 0},
                {"\x7f", 0},
                {"\x80", 0},
                {"\xc0\x80", 0},
                {"\xc1\xbf", 0},
                {"\xc2\x9f", 0},
                {"\xc2\xa0", 2},
                {"\xdf\xbf", 2},
                {"\xdf\xc0", 0},
                {"\xdf", 0},
                {"\xe0\x9f\xbf", 0},
                {"\xe0\xa0\x80", 3},
                {"\xe1\x80\x80", 3},
                {"\xe2\x80\xa7", 3},
                {"\xe2\x80\xa8", 0},
                {"\xe2\x80\xae", 0},
                {"\xe2\x80\xaf", 3},
                {"\xe2\x81\xa5", 3},
                {"\xe2\x81\xa6", 0},
                {"\xe2\x81\xa9", 0},
                {"\xe2\x81\xaa", 3},
                {"\xe2\x82", 0},
                {"\xed\x9f\xbf", 3},
                {"\xed\xa0\x80", 0},
                {"\xed\xbf\xbf", 0},
                {"\xee\x80\x80", 3},
                {"\xef\xbf\xbf", 3},
                {"\xf0\x8f\xbf\xbf", 0},
                {"\xf0\x90\x80\x80", 4},
                {"\xf4\x8f\xbf\xbf", 4},
                {"\xf4\x90\x80\x80", 0},
                {"\xf5\x80\x80\x80", 0},
                {"\xf0\x90\x80", 0},
                {"\xff", 0},
        };

        CU_ASSERT_EQUAL(weir__visible_character("", 0), 0);
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
                size_t size = strlen(cases[i].text);

                CU_ASSERT_EQUAL(weir__visible_character(cases[i].text, size), cases[i].length);
                for (size_t part = 1; part < size; part++)
                        CU_ASSERT_EQUAL(weir__visible_character(cases[i].text, part), 0);
        }
}

static void
a_text_is_cut_in_front_of_a_character(void)
{
        CU_ASSERT_EQUAL(weir__utf8_cut("abc", 3, 3), 3);
        CU_ASSERT_EQUAL(weir__utf8_cut("abcd", 4, 3), 3);
        CU_ASSERT_EQUAL(weir__utf8_cut("a\xc3\xbcx", 4, 3), 3);
        CU_ASSERT_EQUAL(weir__utf8_cut("ab\xc3\xbc", 4, 3), 2);
        for (size_t most = 2; most < 5; most++)
                CU_ASSERT_EQUAL(weir__utf8_cut("a\xf0\x9f\x98\x80z", 6, most), 1);
        CU_ASSERT_EQUAL(weir__utf8_cut("a\xf0\x9f\x98\x80z", 6, 5), 5);
        CU_ASSERT_EQUAL(weir__utf8_cut("\xff\xff\xff\xff", 4, 3), 3);
        CU_ASSERT_EQUAL(weir__utf8_cut("\xe2\x82\xac", 3, 1), 0);
        CU_ASSERT_EQUAL(weir__utf8_cut("\xe2\x82\xac", 3, 0), 0);
}

static void
long_message_ends_in_dots_and_never_within_a_character(void)
{
        char text[800], expected[600];

        memset(text, 'a', sizeof text);
        for (size_t size = 505; size < 515; size++) {
                text[size] = '\0';
                struct heard heard = said(text);
                CU_ASSERT_EQUAL(strlen(heard.message), size <= 508 ? size : 511);
                CU_ASSERT_EQUAL(strcmp(heard.message + strlen(heard.message) - 3, "...") == 0, size > 508);
                text[size] = 'a';
        }
        memset(expected, 'a', sizeof expected);
        for (size_t size = 500; size < 508; size++) {
                snprintf(text + size, sizeof text - size, "\n\xf0\x9f\x98\x80 and so on, and so on, and so on");
                snprintf(expected + size, sizeof expected - size, "%s...",
                         size > 504   ? ""
                         : size > 500 ? "\\x0a"
                                      : "\\x0a\xf0\x9f\x98\x80");
                CU_ASSERT_STRING_EQUAL(said(text).message, expected);
                memset(text, 'a', sizeof text);
                memset(expected, 'a', sizeof expected);
        }
}

static void
message_of_all_kinds_of_bytes_keeps_within_its_size(void)
{
        struct weir_test_random random = {weir_test_seed()};
        char text[700];

        for (unsigned i = 0; i < 2000; i++) {
                size_t size = weir_test_random_below(&random, sizeof text);

                for (size_t j = 0; j < size; j++)
                        text[j] = (char)(1 + weir_test_random_below(&random, 255));
                text[size] = '\0';
                struct heard heard = said(text);
                CU_ASSERT(strlen(heard.message) < WEIR__LOG_SIZE);
                for (const char *byte = heard.message; *byte; byte++)
                        CU_ASSERT((unsigned char)*byte >= ' ' && *byte != 0x7f);
        }
}

/* -- the end of a function -- */

struct holder {
        struct weir_test_latch begun, opened;
        _Atomic bool left, seen;
};

/* Holds errors only: the messages that find out which function is set pass. */
static void
hold(enum weir_log_level level, const char *message, void *context)
{
        struct holder *holder = context;

        (void)message;
        holder->seen = true;
        if (level != WEIR_LOG_ERROR)
                return;
        weir_test_latch_count_down(&holder->begun);
        weir_test_latch_wait(&holder->opened);
        holder->left = true;
}

static void
say_something(void *unused)
{
        (void)unused;
        weir__log(WEIR_LOG_ERROR, "something");
}

static bool
is_set(const struct heard *heard)
{
        weir__log(WEIR_LOG_INFO, "is it?");
        return heard->count > 0;
}

/* A thread that is in the function until the latch is opened. */
static void
holder_begin(struct holder *holder, struct weir_test_thread *thread)
{
        holder->left = false;
        weir_test_latch_init(&holder->begun, 1);
        weir_test_latch_init(&holder->opened, 1);
        CU_ASSERT_EQUAL(weir_log_set(hold, holder), 0);
        weir_test_thread_start(thread, say_something, NULL);
        weir_test_latch_wait(&holder->begun);
}

struct setter {
        struct weir_test_thread thread; /* first */
        struct holder *holder;
        struct heard heard;
        bool early;
};

static void
set_and_look(void *argument)
{
        struct setter *setter = argument;

        CU_ASSERT_EQUAL(weir_log_set(hear, &setter->heard), 0);
        setter->early = !setter->holder->left;
}

/* The new function is called while the old one still runs: that is how one sees that the setter waits. */
static void
set_returns_when_the_former_function_runs_no_more(void)
{
        struct weir_test_thread thread;
        struct holder holder;
        struct setter setters[2] = {{.holder = &holder}, {.holder = &holder}};

        holder_begin(&holder, &thread);
        for (unsigned i = 0; i < 2; i++) {
                weir_test_thread_start(&setters[i].thread, set_and_look, &setters[i]);
                WEIR_TEST_EVENTUALLY(is_set(&setters[i].heard));
        }
        for (unsigned i = 0; i < 1000; i++)
                sched_yield();
        weir_test_latch_count_down(&holder.opened);
        for (unsigned i = 0; i < 2; i++) {
                weir_test_thread_join(&setters[i].thread);
                CU_ASSERT(!setters[i].early);
        }
        weir_test_thread_join(&thread);
        CU_ASSERT_EQUAL(weir_log_set(NULL, NULL), 0);
}

static void
set_to_hold(void *holder)
{
        CU_ASSERT_EQUAL(weir_log_set(hold, holder), 0);
}

/* The new function runs already when the old one ends, and runs on. */
static void
set_does_not_wait_for_the_function_that_it_sets(void)
{
        struct weir_test_thread threads[2], setter;
        struct holder old, new = {.begun = WEIR_TEST_LATCH(1), .opened = WEIR_TEST_LATCH(1)};

        holder_begin(&old, &threads[0]);
        weir_test_thread_start(&setter, set_to_hold, &new);
        WEIR_TEST_EVENTUALLY((weir__log(WEIR_LOG_INFO, "is it?"), new.seen));
        weir_test_thread_start(&threads[1], say_something, NULL);
        weir_test_latch_wait(&new.begun);
        weir_test_latch_count_down(&old.opened);
        weir_test_thread_join(&setter);
        CU_ASSERT(!new.left);
        weir_test_latch_count_down(&new.opened);
        for (unsigned i = 0; i < 2; i++)
                weir_test_thread_join(&threads[i]);
        CU_ASSERT_EQUAL(weir_log_set(NULL, NULL), 0);
}

/* -- inside the function -- */

static void
replace(enum weir_log_level level, const char *message, void *context)
{
        (void)level;
        (void)message;
        CU_ASSERT_EQUAL(weir_log_set(hear, context), 0);
}

static void
function_may_set_another_one_for_the_next_message(void)
{
        struct heard heard = {0};

        CU_ASSERT_EQUAL(weir_log_set(replace, &heard), 0);
        say_something(NULL);
        CU_ASSERT_EQUAL(heard.count, 0);
        say_something(NULL);
        CU_ASSERT_EQUAL(heard.count, 1);
        CU_ASSERT_EQUAL(weir_log_set(NULL, NULL), 0);
}

static struct weir_test_latch both_are_in;

static void
meet_and_replace(enum weir_log_level level, const char *message, void *context)
{
        weir_test_latch_count_down(&both_are_in);
        weir_test_latch_wait(&both_are_in);
        replace(level, message, context);
}

/* Each runs while the other one wants it to have ended. */
static void
functions_that_set_on_two_threads_do_not_wait_for_each_other(void)
{
        struct weir_test_thread threads[2];
        struct heard heard = {0};

        weir_test_latch_init(&both_are_in, 2);
        CU_ASSERT_EQUAL(weir_log_set(meet_and_replace, &heard), 0);
        for (unsigned i = 0; i < 2; i++)
                weir_test_thread_start(&threads[i], say_something, NULL);
        for (unsigned i = 0; i < 2; i++)
                weir_test_thread_join(&threads[i]);
        CU_ASSERT_EQUAL(weir_log_set(NULL, NULL), 0);
}

static struct weir_test_latch is_replaced;

static void
replace_and_hold(enum weir_log_level level, const char *message, void *context)
{
        CU_ASSERT_EQUAL(weir_log_set(NULL, NULL), 0);
        weir_test_latch_count_down(&is_replaced);
        hold(level, message, context);
}

/* It did not wait itself, so the next one does. */
static void
set_from_elsewhere_waits_for_a_function_that_has_replaced_itself(void)
{
        struct weir_test_thread thread;
        struct holder holder = {.begun = WEIR_TEST_LATCH(1), .opened = WEIR_TEST_LATCH(1)};
        struct setter setter = {.holder = &holder};

        weir_test_latch_init(&is_replaced, 1);
        CU_ASSERT_EQUAL(weir_log_set(replace_and_hold, &holder), 0);
        weir_test_thread_start(&thread, say_something, NULL);
        weir_test_latch_wait(&is_replaced);
        weir_test_thread_start(&setter.thread, set_and_look, &setter);
        WEIR_TEST_EVENTUALLY(is_set(&setter.heard));
        weir_test_latch_count_down(&holder.opened);
        weir_test_thread_join(&setter.thread);
        CU_ASSERT(!setter.early);
        weir_test_thread_join(&thread);
        CU_ASSERT_EQUAL(weir_log_set(NULL, NULL), 0);
}

static void
use_the_library(enum weir_log_level level, const char *message, void *context)
{
        struct weir_test_record *records = context;

        (void)level;
        (void)message;
        weir__log(WEIR_LOG_ERROR, "what is said meanwhile is not said");
        CU_ASSERT_EQUAL(weir_task_start(weir_test_named("pending", WEIR_TEST_FAR, &records[0])), 0);
        CU_ASSERT_EQUAL(weir_timer_cancel("pending", WEIR_ALL), 1);
        CU_ASSERT_EQUAL(weir_task_run(weir_test_empty(&records[1])), 0);
        CU_ASSERT_EQUAL(weir_shutdown(), 0);
}

static void
function_may_use_the_library(void)
{
        struct weir_test_record records[2] = {0};

        weir_test_begin_real(2);
        CU_ASSERT_EQUAL(weir_log_set(use_the_library, records), 0);
        say_something(NULL);
        WEIR_TEST_CALLED(&records[0], -ECANCELED);
        WEIR_TEST_CALLED(&records[1], 0);
        CU_ASSERT_EQUAL(weir_log_set(NULL, NULL), 0);
}

static void
set_and_say(void *context)
{
        CU_ASSERT_EQUAL(weir_log_set(hear, context), 0);
        say_something(NULL);
        CU_ASSERT_EQUAL(weir_log_set(NULL, NULL), 0);
}

static void
callbacks_may_set_and_say(void)
{
        struct heard heard = {0};

        weir_test_begin_virtual();
        weir_test_act(0, set_and_say, &heard);
        weir_test_end();
        CU_ASSERT_EQUAL(heard.count, 1);
}

#ifdef WEIR_DEBUG
static void
say_with_a_lock_held(void)
{
        struct weir__lock lock = WEIR__LOCK_INITIALIZER(WEIR__RANK_NAMES);

        weir__lock(&lock);
        say_something(NULL);
}

static void
log_with_a_lock_held_aborts(void)
{
        weir_test_aborts(say_with_a_lock_held, "weir__log while locks of the ranks");
}
#endif

/* -- forks -- */

static void
check_in_child(void)
{
        struct heard heard = {0};

        _exit(weir_log_set(hear, &heard) == 0 && (say_something(NULL), heard.count == 1) && weir_log_set(NULL, NULL) == 0 ? 0
                                                                                                                          : 1);
}

/* The thread that is in the function is not in the child. */
static void
child_does_not_wait_for_threads_that_it_has_not(void)
{
        struct weir_test_thread thread;
        struct holder holder;
        char text[256];

        holder_begin(&holder, &thread);
        CU_ASSERT_EQUAL(weir_test_child(check_in_child, text, sizeof text), 0);
        weir_test_latch_count_down(&holder.opened);
        weir_test_thread_join(&thread);
        CU_ASSERT_EQUAL(weir_log_set(NULL, NULL), 0);
}

static void
fork_inside(enum weir_log_level level, const char *message, void *context)
{
        int status = -1;
        pid_t child = fork();

        (void)level;
        (void)message;
        if (child == 0)
                return;
        CU_ASSERT_EQUAL(waitpid(child, &status, 0), child);
        *(int *)context = status;
}

static void
child_that_was_made_inside_the_function_returns_from_it(void)
{
        pid_t parent = getpid();
        int status = -1;

        CU_ASSERT_EQUAL(weir_log_set(fork_inside, &status), 0);
        say_something(NULL);
        if (getpid() != parent)
                check_in_child();
        CU_ASSERT_EQUAL(status, 0);
        CU_ASSERT_EQUAL(weir_log_set(NULL, NULL), 0);
}

static void
check_in_forked_child(void)
{
        say_something(NULL);
        _exit(weir_log_set(NULL, NULL) == -ECHILD ? 0 : 1);
}

static void
forked_child_of_a_runtime_that_was_up_says_nothing(void)
{
        struct heard heard = {0};
        char text[256];

        weir_test_begin_virtual();
        CU_ASSERT_EQUAL(weir_log_set(hear, &heard), 0);
        CU_ASSERT_EQUAL(weir_test_child(check_in_forked_child, text, sizeof text), 0);
        CU_ASSERT_STRING_EQUAL(text, "");
        CU_ASSERT_EQUAL(heard.count, 0);
        CU_ASSERT_EQUAL(weir_log_set(NULL, NULL), 0);
        weir_test_end();
}

/* -- the limit -- */

static void
limit_lets_one_pass_in_each_interval_and_counts_the_others(void)
{
        struct weir__log_limit limit = {0};
        unsigned left_out = 99;

        CU_ASSERT(weir__log_may(&limit, 5, &left_out));
        CU_ASSERT_EQUAL(left_out, 0);
        left_out = 99;
        for (unsigned i = 0; i < 7; i++)
                CU_ASSERT(!weir__log_may(&limit, 5 + (weir_nsec)i * (WEIR__LOG_INTERVAL - 1) / 6, &left_out));
        CU_ASSERT_EQUAL(left_out, 99);
        CU_ASSERT(weir__log_may(&limit, 5 + WEIR__LOG_INTERVAL, &left_out));
        CU_ASSERT_EQUAL(left_out, 7);
        CU_ASSERT(!weir__log_may(&limit, 5 + 2 * WEIR__LOG_INTERVAL - 1, &left_out));
        CU_ASSERT(weir__log_may(&limit, WEIR_SEC(1000), &left_out));
        CU_ASSERT_EQUAL(left_out, 1);
        CU_ASSERT(weir__log_may(&limit, WEIR_SEC(2000), &left_out));
        CU_ASSERT_EQUAL(left_out, 0);
}

static void
limited_message_tells_how_many_were_left_out(void)
{
        struct weir__log_limit limit = {0};
        struct heard heard = {0};
        char many[600];

        CU_ASSERT_EQUAL(weir_log_set(hear, &heard), 0);
        weir__log_limited(&limit, WEIR_LOG_WARNING, "slow: %s", "a");
        CU_ASSERT_STRING_EQUAL(heard.message, "slow: a");
        limit.next = WEIR_FOREVER; /* the second is not over */
        weir__log_limited(&limit, WEIR_LOG_WARNING, "slow: %s", "b");
        weir__log_limited(&limit, WEIR_LOG_WARNING, "slow: %s", "c");
        CU_ASSERT_EQUAL(heard.count, 1);
        limit.next = 0; /* it is */
        weir__log_limited(&limit, WEIR_LOG_WARNING, "slow: %s", "d");
        CU_ASSERT_EQUAL(heard.count, 2);
        CU_ASSERT_STRING_EQUAL(heard.message, "slow: d (2 like this were left out)");
        CU_ASSERT(limit.next > weir__clock_monotonic());
        memset(many, 'x', sizeof many);
        many[sizeof many - 1] = '\0';
        limit.next = 0;
        limit.left_out = UINT32_MAX;
        weir__log_limited(&limit, WEIR_LOG_WARNING, "%s", many);
        CU_ASSERT_EQUAL(strlen(heard.message), WEIR__LOG_SIZE - 1);
        const char *end = "x... (4294967295 like this were left out)";
        CU_ASSERT_STRING_EQUAL(heard.message + WEIR__LOG_SIZE - 1 - strlen(end), end);
        CU_ASSERT_EQUAL(weir_log_set(NULL, NULL), 0);
}

static struct weir__log_limit shared;
static _Atomic unsigned passed, counted;

static void
try_often(void *unused)
{
        unsigned left_out;

        (void)unused;
        for (weir_nsec now = 1; now <= 10000; now++)
                if (weir__log_may(&shared, now * (WEIR__LOG_INTERVAL / 100), &left_out)) {
                        passed++;
                        counted += left_out;
                }
}

/* Whatever the order, no two pass in one interval, and each is counted once. */
static void
limit_holds_for_many_threads(void)
{
        struct weir_test_thread threads[4];

        for (unsigned i = 0; i < 4; i++)
                weir_test_thread_start(&threads[i], try_often, NULL);
        for (unsigned i = 0; i < 4; i++)
                weir_test_thread_join(&threads[i]);
        CU_ASSERT(passed > 0 && passed <= 100);
        CU_ASSERT_EQUAL(passed + counted + shared.left_out, 40000);
}

/* -- a storm -- */

#define ROUNDS (WEIR_TEST_SANITIZED ? 1000 : 4000)

static _Atomic bool storm_is_over;
static _Atomic unsigned heard_in_storm;

static void
say_until_the_end(void *unused)
{
        while (!storm_is_over)
                say_something(unused);
}

static void
read_context(enum weir_log_level level, const char *message, void *context)
{
        (void)level;
        (void)message;
        heard_in_storm += *(unsigned *)context == 1;
}

static void
set_again_and_again(void *unused)
{
        (void)unused;
        for (unsigned i = 0; i < ROUNDS || heard_in_storm < ROUNDS / 10; i++) {
                unsigned *context = malloc(sizeof *context);

                *context = 1;
                CU_ASSERT_EQUAL(weir_log_set(read_context, context), 0);
                if (i % 16 == 0)
                        sched_yield();
                CU_ASSERT_EQUAL(weir_log_set(NULL, NULL), 0);
                *context = 0;
                free(context);
        }
}

static void
storm_in_which_contexts_are_freed_as_soon_as_they_may_be(void)
{
        struct weir_test_thread sayers[3], setter;

        for (unsigned i = 0; i < 3; i++)
                weir_test_thread_start(&sayers[i], say_until_the_end, NULL);
        weir_test_thread_start(&setter, set_again_and_again, NULL);
        weir_test_thread_join(&setter);
        storm_is_over = true;
        for (unsigned i = 0; i < 3; i++)
                weir_test_thread_join(&sayers[i]);
        CU_ASSERT(heard_in_storm > 0);
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(until_the_first_call_errors_and_warnings_go_to_standard_error),
                WEIR_TEST(function_is_told_level_and_message),
                WEIR_TEST(programs_write_to_the_log_too),
                WEIR_TEST(errno_stays_as_it_is),
                WEIR_TEST(bytes_that_would_steer_a_terminal_are_made_visible),
                WEIR_TEST(valid_characters_are_shown_and_nothing_else),
                WEIR_TEST(a_text_is_cut_in_front_of_a_character),
                WEIR_TEST(long_message_ends_in_dots_and_never_within_a_character),
                WEIR_TEST(message_of_all_kinds_of_bytes_keeps_within_its_size),
                WEIR_TEST(child_does_not_wait_for_threads_that_it_has_not),
                WEIR_TEST(child_that_was_made_inside_the_function_returns_from_it),
                WEIR_TEST(set_returns_when_the_former_function_runs_no_more),
                WEIR_TEST(set_does_not_wait_for_the_function_that_it_sets),
                WEIR_TEST(function_may_set_another_one_for_the_next_message),
                WEIR_TEST(functions_that_set_on_two_threads_do_not_wait_for_each_other),
                WEIR_TEST(set_from_elsewhere_waits_for_a_function_that_has_replaced_itself),
                WEIR_TEST(function_may_use_the_library),
                WEIR_TEST(callbacks_may_set_and_say),
#ifdef WEIR_DEBUG
                WEIR_TEST(log_with_a_lock_held_aborts),
#endif
                WEIR_TEST(forked_child_of_a_runtime_that_was_up_says_nothing),
                WEIR_TEST(limit_lets_one_pass_in_each_interval_and_counts_the_others),
                WEIR_TEST(limited_message_tells_how_many_were_left_out),
                WEIR_TEST(limit_holds_for_many_threads),
                WEIR_TEST(storm_in_which_contexts_are_freed_as_soon_as_they_may_be),
        };

        return weir_test_main("log", tests, sizeof tests / sizeof *tests);
}
