/* test/interleave_walk_test.c: walks over many names, and over many timers of one name, while some come and go, in hundreds of
 * orders that seeds make (interleave.h).
 *
 * "Many" is more than a walk looks at under one hold of the locks, so that it pauses.  A walk must meet each timer that is there
 * all the time once, even if others come and go meanwhile, and the tables grow or shrink. */
#include <stdio.h>
#include <string.h>

#include <weir/weir.h>

#include "factory/timer/timer.h"
#include "test/support.h"

#define SEEDS (WEIR_TEST_SANITIZED ? 200 : 1000) /* of a scenario */

enum { STAYING = 230, LEAVING = 60, COMING = 60, MANY = STAYING + LEAVING + COMING };

static struct {
        char names[MANY][16]; /* of one shard: "s0.17", "l0.3", "c0.9" */
        bool found;
} texts;

static struct {
        weir_task *timers[MANY];
        _Atomic unsigned char shown[MANY], lists;
        _Atomic size_t counted;
} many;

static unsigned
index_of(const char *name)
{
        unsigned number = (unsigned)strtoul(name + 1, NULL, 10);

        return name[0] == 's' ? number : name[0] == 'l' ? STAYING + number : STAYING + LEAVING + number;
}

/* Names that lie in one shard, so that its table grows and shrinks. */
static void
find_names(void)
{
        uint32_t hash = weir__name_key("s", 1).hash;

        for (unsigned i = 0; i < MANY && !texts.found; i++) {
                char kind = i < STAYING ? 's' : i < STAYING + LEAVING ? 'l' : 'c';
                unsigned number = i < STAYING ? i : i < STAYING + LEAVING ? i - STAYING : i - STAYING - LEAVING;

                for (unsigned salt = 0;; salt++) {
                        int size = snprintf(texts.names[i], sizeof texts.names[i], "%c%u.%u", kind, number, salt);

                        if (weir__names_same_shard(weir__name_key(texts.names[i], (size_t)size).hash, hash))
                                break;
                }
        }
        texts.found = true;
}

/* The name, or each its own. */
static void
begin_many(const char *name)
{
        struct weir_config config = WEIR_CONFIG_DEFAULT;

        find_names();
        config.pollers = 1;
        config.blocking_limit = WEIR_FOREVER; /* no watchdog */
        INTERLEAVE_EXPECT(weir_init(&config) == 0);
        memset(&many, 0, sizeof many);
        for (unsigned i = 0; i < STAYING + LEAVING; i++) {
                unsigned place = i * 77 % (STAYING + LEAVING); /* those that leave lie among the others */

                many.timers[place] = weir_timer_new_named(name ? name : texts.names[place], 1000, NULL, NULL);
        }
}

static void
leave(void *argument)
{
        (void)argument;
        for (unsigned i = STAYING; i < STAYING + LEAVING; i++) {
                weir_task_dismiss(many.timers[i]);
                many.timers[i] = NULL;
        }
}

static void
come(void *argument)
{
        for (unsigned i = STAYING + LEAVING; i < MANY; i++)
                many.timers[i] = weir_timer_new_named(argument ? "many" : texts.names[i], 1000, NULL, NULL);
}

static void
play_many(void)
{
        interleave_join_actors();
        interleave_explore(false);
}

static int
see(const struct weir_timer_info *timer, void *context)
{
        (void)context;
        many.shown[index_of(timer->name)]++;
        return 0;
}

static void
end_many(void)
{
        for (unsigned i = 0; i < MANY; i++)
                weir_task_dismiss(many.timers[i]);
        INTERLEAVE_EXPECT(weir_shutdown() == 0);
        INTERLEAVE_EXPECT(weir_timer_list("", see, NULL) == 0);
}

static void
list_many(void *argument)
{
        (void)argument;
        INTERLEAVE_EXPECT(weir_timer_list("", see, NULL) >= STAYING);
        many.lists++;
}

static void
list_staying(void *argument)
{
        (void)argument;
        INTERLEAVE_EXPECT(weir_timer_list("s", see, NULL) == STAYING);
        many.lists++;
}

static void
run_list_while_names_come_and_go(void)
{
        begin_many(NULL);
        interleave_act(list_many, NULL);
        interleave_act(leave, NULL);
        interleave_act(come, NULL);
        if (interleave_random(2))
                interleave_act(list_staying, NULL);
        play_many();
        for (unsigned i = 0; i < MANY; i++)
                INTERLEAVE_EXPECT(many.shown[i] <= many.lists && (i >= STAYING || many.shown[i] == many.lists));
        end_many();
}

static void
cancel_staying(void *argument)
{
        (void)argument;
        many.counted += weir_timer_cancel_prefix("s", WEIR_ALL);
}

static void
run_cancel_by_prefix_while_names_come_and_go(void)
{
        begin_many(NULL);
        interleave_act(cancel_staying, NULL);
        interleave_act(leave, NULL);
        interleave_act(come, NULL);
        if (interleave_random(2))
                interleave_act(cancel_staying, NULL);
        play_many();
        INTERLEAVE_EXPECT(many.counted == STAYING);
        end_many();
}

static void
extend_many(void *argument)
{
        (void)argument;
        many.counted += weir_timer_extend("many", 10);
}

static void
cancel_few(void *argument)
{
        (void)argument;
        weir_timer_cancel("many", 20);
}

/* Each is extended once: those that were there all the time, and were not cancelled. */
static void
run_extend_while_timers_of_the_name_come_and_go(void)
{
        begin_many("many");
        interleave_act(extend_many, NULL);
        interleave_act(leave, NULL);
        interleave_act(come, &many);
        if (interleave_random(2))
                interleave_act(cancel_few, NULL);
        play_many();
        for (unsigned i = 0; i < MANY; i++) {
                const struct weir__timer *timer = (struct weir__timer *)many.timers[i];
                bool cancelled = timer && timer->task.word & WEIR__CANCELLED;

                many.counted -= timer && timer->node.deadline == 1010;
                INTERLEAVE_EXPECT(!timer || timer->node.deadline == 1010 ||
                                  (timer->node.deadline == 1000 && (cancelled || i >= STAYING)));
        }
        INTERLEAVE_EXPECT(many.counted <= LEAVING);
        end_many();
}

/* -- the suite -- */

static void
a_list_shows_once_what_stays(void)
{
        interleave_try(__func__, run_list_while_names_come_and_go, SEEDS);
}

static void
a_cancel_by_prefix_cancels_what_stays(void)
{
        interleave_try(__func__, run_cancel_by_prefix_while_names_come_and_go, SEEDS);
}

static void
an_extension_reaches_once_what_stays(void)
{
        interleave_try(__func__, run_extend_while_timers_of_the_name_come_and_go, SEEDS);
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(a_list_shows_once_what_stays),
                WEIR_TEST(a_cancel_by_prefix_cancels_what_stays),
                WEIR_TEST(an_extension_reaches_once_what_stays),
        };

        return weir_test_main("interleave walks", tests, sizeof tests / sizeof *tests);
}
