/* test/upstream_follow_test.c: names whose addresses are members; a function of the test answers for them.
 *
 * The linker puts a function that can refuse memory in front of weir__alloc (test/CMakeLists.txt). */
#include "test/upstream_fixture.h"

#include <stdatomic.h>

#define NAME "backend.internal:80"
#define KEPT WEIR_SEC(60)

static atomic_int left = -1; /* allocations until one is refused; below 0: none is */

void *__real_weir__alloc(size_t size);
void *__wrap_weir__alloc(size_t size);

void *
__wrap_weir__alloc(size_t size)
{
        return atomic_load(&left) >= 0 && atomic_fetch_sub(&left, 1) == 0 ? NULL : __real_weir__alloc(size);
}

/* -- the answer, which the executor reads -- */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char answer[200]; /* such as "10.0.0.1 10.0.0.2"; "": there is no such name */
static atomic_uint asked;

static void
set_answer(const char *text)
{
        pthread_mutex_lock(&lock);
        snprintf(answer, sizeof answer, "%s", text);
        pthread_mutex_unlock(&lock);
}

static int
answer_it(const char *host, int family, weir_resolver_reply *reply, void *context)
{
        char text[sizeof answer], *rest = text, *each;

        (void)family;
        (void)context;
        CU_ASSERT_STRING_EQUAL(host, "backend.internal");
        atomic_fetch_add(&asked, 1);
        pthread_mutex_lock(&lock);
        strcpy(text, answer);
        pthread_mutex_unlock(&lock);
        while ((each = strtok_r(rest, " ", &rest))) {
                CU_ASSERT_EQUAL(weir_resolver_reply_add(reply, each), 0);
        }
        weir_resolver_reply_keep(reply, KEPT);
        return *answer ? 0 : -ENOENT;
}

/* -- parts of tests -- */

static weir_upstream *
begin(void)
{
        struct weir_resolver_config config = WEIR_RESOLVER_CONFIG_DEFAULT;

        weir_test_begin_virtual();
        config.answer = answer_it;
        config.max_negative = 1; /* practically none */
        CU_ASSERT_EQUAL(weir_resolver_configure(&config), 0);
        atomic_store(&asked, 0);
        return upstream_of(WEIR_UPSTREAM_TWO_CHOICES, 0);
}

static void
end(weir_upstream *upstream)
{
        weir_upstream_unref(upstream);
        weir_test_end();
        CU_ASSERT_EQUAL(weir_resolver_configure(NULL), 0);
        CU_ASSERT_PTR_NULL(weir_upstream_find("backend")); /* no look-up has kept it */
}

static void
note(weir_task *task, void *context)
{
        *(int *)context = weir_task_status(task);
}

/* Follows the name.  Returns the status of the task. */
static int
follow(weir_upstream *upstream, const char *name)
{
        int status = 1;

        CU_ASSERT_EQUAL(weir_task_start(weir_upstream_follow_new(upstream, name, NULL, note, &status)), 0);
        weir_test_pass(0);
        return status;
}

static bool
has(weir_upstream *upstream, const char *expected)
{
        struct weir_member_info info = {.size = sizeof info};
        char text[1000] = "";

        for (size_t i = 0; weir_upstream_member(upstream, i, &info) == 0; i++) {
                strcat(text, i ? " " : "");
                strcat(text, info.address);
        }
        if (strcmp(text, expected) != 0) {
                fprintf(stderr, "has %s, expected %s\n", text, expected);
        }
        return strcmp(text, expected) == 0;
}

/* A request, and what it starts. */
static void
ask(weir_upstream *upstream)
{
        upstream_ask(upstream, WEIR__OUTCOME_SUCCESS);
        weir_test_pass(0);
}

/* -- tests -- */

static void
the_addresses_of_a_name_become_members(void)
{
        weir_upstream *upstream = begin();

        set_answer("10.0.0.1 10.0.0.2 2001:db8::1");
        CU_ASSERT_EQUAL(follow(upstream, NAME), 0);
        CU_ASSERT_EQUAL(upstream_info(upstream, 0).state, WEIR_MEMBER_CLOSED);
        CU_ASSERT_EQUAL(upstream_info(upstream, 1).state, WEIR_MEMBER_CLOSED);
        CU_ASSERT_EQUAL(weir_upstream_disable(upstream, "[2001:db8::1]:80"), 0);
        CU_ASSERT_EQUAL(follow(upstream, NAME), -EEXIST);
        end(upstream);
}

static void
members_follow_when_the_ttl_is_over(void)
{
        weir_upstream *upstream = begin();

        set_answer("10.0.0.1");
        CU_ASSERT_EQUAL(follow(upstream, NAME), 0);
        set_answer("10.0.0.2");
        weir_test_pass(KEPT - 1);
        ask(upstream);
        CU_ASSERT_TRUE(has(upstream, "10.0.0.1:80"));
        CU_ASSERT_EQUAL(atomic_load(&asked), 1);
        weir_test_pass(WEIR_SEC(5));
        CU_ASSERT_EQUAL(atomic_load(&asked), 1);                           /* nobody asks without a request */
        CU_ASSERT_EQUAL(upstream_ask(upstream, WEIR__OUTCOME_SUCCESS), 0); /* which does not wait */
        weir_test_pass(0);
        CU_ASSERT_TRUE(has(upstream, "10.0.0.2:80"));
        CU_ASSERT_EQUAL(atomic_load(&asked), 2);
        end(upstream);
}

static void
a_look_comes_five_seconds_after_the_last(void)
{
        weir_upstream *upstream = begin();

        set_answer("10.0.0.1");
        CU_ASSERT_EQUAL(follow(upstream, NAME), 0);
        set_answer("10.0.0.2");
        weir_resolver_flush();
        weir_test_pass(WEIR_SEC(5) - 1);
        ask(upstream);
        CU_ASSERT_EQUAL(atomic_load(&asked), 1);
        weir_test_pass(1);
        ask(upstream);
        ask(upstream);
        CU_ASSERT_EQUAL(atomic_load(&asked), 2);
        CU_ASSERT_TRUE(has(upstream, "10.0.0.2:80"));
        end(upstream);
}

static void
a_look_that_fails_leaves_the_members(void)
{
        weir_upstream *upstream = begin();

        set_answer("");
        CU_ASSERT_EQUAL(follow(upstream, NAME), -ENOENT);
        CU_ASSERT_TRUE(has(upstream, ""));
        set_answer("10.0.0.1");
        weir_test_pass(WEIR_SEC(5));
        struct weir__picked picked;
        CU_ASSERT_EQUAL(weir__upstream_pick(upstream, NULL, &picked, NULL), -ENETUNREACH); /* it is followed all the same */
        weir_test_pass(0);
        CU_ASSERT_TRUE(has(upstream, "10.0.0.1:80"));
        set_answer("");
        weir_resolver_flush();
        weir_test_pass(WEIR_SEC(5));
        ask(upstream);
        CU_ASSERT_TRUE(has(upstream, "10.0.0.1:80"));
        end(upstream);
}

static void
a_name_is_followed_no_more(void)
{
        weir_upstream *upstream = begin();
        int status = 1;

        set_answer("10.0.0.1");
        CU_ASSERT_EQUAL(weir_upstream_add(upstream, "10.0.0.9:80", NULL), 0);
        CU_ASSERT_EQUAL(follow(upstream, NAME), 0);
        CU_ASSERT_EQUAL(weir_upstream_unfollow(upstream, NAME), 0);
        CU_ASSERT_TRUE(has(upstream, "10.0.0.9:80"));
        CU_ASSERT_EQUAL(weir_upstream_unfollow(upstream, NAME), -ENOENT);
        CU_ASSERT_EQUAL(weir_upstream_unfollow(upstream, NULL), -ENOENT);
        CU_ASSERT_EQUAL(weir_upstream_unfollow(NULL, NAME), -ENOMEM);
        weir_task *task = weir_upstream_follow_new(upstream, NAME, NULL, note, &status); /* while it is looked up, too */
        CU_ASSERT_EQUAL(weir_upstream_unfollow(upstream, NAME), 0);
        CU_ASSERT_EQUAL(weir_task_start(task), 0);
        weir_test_pass(0);
        CU_ASSERT_TRUE(has(upstream, "10.0.0.9:80"));
        weir_test_pass(KEPT * 2);
        ask(upstream);
        CU_ASSERT_TRUE(has(upstream, "10.0.0.9:80"));
        end(upstream);
}

static void
wrong_names_are_refused(void)
{
        weir_upstream *upstream = begin();

        CU_ASSERT_EQUAL(follow(upstream, "unix:/run/a"), -EINVAL);
        CU_ASSERT_EQUAL(follow(upstream, "backend.internal"), -EINVAL);
        CU_ASSERT_EQUAL(follow(upstream, NULL), -EINVAL);
        CU_ASSERT_EQUAL(follow(NULL, NAME), -ENOMEM);
        end(upstream);
}

static void
memory_may_run_out_at_each_point(void)
{
        weir_upstream *upstream = begin();
        bool was_refused = true;

        set_answer("10.0.0.1");
        for (int at = 0; was_refused; at++) {
                int status = 1;

                weir_resolver_flush();
                atomic_store(&left, at);
                int failed = weir_task_start(weir_upstream_follow_new(upstream, NAME, NULL, note, &status));
                weir_test_pass(0);
                was_refused = atomic_exchange(&left, -1) < 0;
                CU_ASSERT(failed == 0 || failed == -ENOMEM);
                CU_ASSERT(was_refused ? failed || status == -ENOMEM || status == 0 : status == 0);
                CU_ASSERT_TRUE(has(upstream, !failed && status == 0 ? "10.0.0.1:80" : ""));
                failed = weir_upstream_unfollow(upstream, NAME);
                CU_ASSERT(failed == 0 || failed == -ENOENT);
                CU_ASSERT_TRUE(has(upstream, ""));
        }
        end(upstream);
}

static void
a_shutdown_ends_a_look(void)
{
        weir_upstream *upstream = begin();
        int status = 1;

        set_answer("10.0.0.1");
        CU_ASSERT_EQUAL(weir_task_start(weir_upstream_follow_new(upstream, NAME, NULL, note, &status)), 0);
        weir_upstream_unref(upstream); /* the look-up has the last reference */
        weir_test_end();
        CU_ASSERT(status == 0 || status == -ESHUTDOWN);
        CU_ASSERT_PTR_NULL(weir_upstream_find("backend"));
        CU_ASSERT_EQUAL(weir_resolver_configure(NULL), 0);
}

static const struct weir_test tests[] = {
        WEIR_TEST(the_addresses_of_a_name_become_members),
        WEIR_TEST(members_follow_when_the_ttl_is_over),
        WEIR_TEST(a_look_comes_five_seconds_after_the_last),
        WEIR_TEST(a_look_that_fails_leaves_the_members),
        WEIR_TEST(a_name_is_followed_no_more),
        WEIR_TEST(wrong_names_are_refused),
        WEIR_TEST(memory_may_run_out_at_each_point),
        WEIR_TEST(a_shutdown_ends_a_look),
};

int
main(void)
{
        return weir_test_main("upstream_follow", tests, sizeof tests / sizeof *tests);
}
