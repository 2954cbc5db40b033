/* test/timers_guide_test.c: the examples of docs/timers.md, which quotes them word for word.
 *
 * They run on the virtual clock, which has one worker and stands still but for `pass`: so each happens in one order, to the
 * nanosecond, and what is due before the end of a `pass` of more than 0 has happened when it returns.  The ways to stop that are
 * quoted run on the real clock as well, with two workers, where they meet the races that they are for. */
#include "test/fixture.h"

#include <errno.h>

/* -- the clock -- */

static void
begin(void)
{
        struct weir_config config = WEIR_CONFIG_DEFAULT;

        config.clock = WEIR_CLOCK_VIRTUAL;
        CU_ASSERT_FATAL(weir_init(&config) == 0);
}

/* Lets that much time pass, with all that happens meanwhile. */
static void
pass(weir_nsec duration)
{
        CU_ASSERT(weir_task_run(weir_timer_new(duration, NULL, NULL)) == 0);
}

static void
end(void)
{
        CU_ASSERT_FATAL(weir_shutdown() == 0);
}

/* The result that a callback has seen. */
struct outcome {
        int calls, status;
        weir_nsec at;
};

static void
note(weir_task *timer, void *context)
{
        struct outcome *outcome = context;

        outcome->calls++;
        outcome->status = weir_task_status(timer);
        outcome->at = weir_now();
}

/* -- making -- */

static void
a_timer_ends_at_its_time_and_never_before(void)
{
        struct outcome outcome = {0};

        begin();
        weir_nsec began = weir_now();
        int failed = weir_task_start(weir_timer_new(WEIR_MSEC(1500), note, &outcome));
        CU_ASSERT(failed == 0);

        pass(WEIR_MSEC(1500) - 1);
        CU_ASSERT(outcome.calls == 0);
        pass(1);
        CU_ASSERT(outcome.calls == 1 && outcome.status == 0);
        CU_ASSERT(outcome.at == began + WEIR_MSEC(1500));
        end();
}

struct metronome {
        weir_nsec next; /* set to the present before the first beat is started */
        int beats;
};

static void
beat(weir_task *timer, void *context)
{
        struct metronome *metronome = context;

        if (weir_task_status(timer) != 0)
                return; /* cancelled, or shut down */
        metronome->beats++;
        metronome->next += WEIR_SEC(1);
        weir_nsec delay = metronome->next - weir_now();
        weir_task_start(weir_timer_new_named("metronome", delay, beat, metronome));
}

static void
metronome_stop(void)
{
        do /* a beat that is running may start one more */
                weir_timer_cancel_wait("metronome", WEIR_ALL);
        while (weir_timer_count("metronome") > 0);
}

static void
a_callback_that_starts_the_next_one_makes_a_period_without_drift(void)
{
        struct metronome metronome = {0};

        begin();
        metronome.next = weir_now();
        CU_ASSERT(weir_task_start(weir_timer_new_named("metronome", 0, beat, &metronome)) == 0);
        pass(WEIR_MSEC(60500));
        CU_ASSERT(metronome.beats == 61);

        metronome_stop();
        pass(WEIR_SEC(60));
        CU_ASSERT(metronome.beats == 61);
        end();
}

/* -- order -- */

struct word {
        char *text;
        const char *letter;
};

static void
append(weir_task *timer, void *context)
{
        const struct word *word = context;

        (void)timer;
        strcat(word->text, word->letter);
}

static void
equal_deadlines_come_in_the_order_of_their_start(void)
{
        char text[8] = "";
        struct word t = {text, "t"}, e = {text, "e"}, a = {text, "a"};

        begin();
        weir_task_start(weir_timer_new(WEIR_SEC(2), append, &e));
        weir_task_start(weir_timer_new(WEIR_SEC(2), append, &a));
        weir_task_start(weir_timer_new(WEIR_SEC(1), append, &t));
        pass(WEIR_SEC(3));
        CU_ASSERT_STRING_EQUAL(text, "tea");
        end();
}

/* -- names -- */

static void
any_bytes_are_a_name_and_many_timers_may_share_it(void)
{
        struct outcome outcomes[3] = {0};

        begin();
        const char *name = "Zoë/\x01\xff";
        for (int i = 0; i < 3; i++)
                weir_task_start(weir_timer_new_named(name, WEIR_SEC(60), note, &outcomes[i]));
        CU_ASSERT(weir_timer_count(name) == 3);

        CU_ASSERT(weir_timer_cancel(name, 1) == 1); /* the oldest */
        pass(1);
        CU_ASSERT(outcomes[0].calls == 1 && outcomes[1].calls == 0);
        CU_ASSERT(weir_timer_cancel(name, WEIR_ALL) == 2);
        CU_ASSERT(weir_timer_cancel(name, WEIR_ALL) == 0);
        end();
}

static void
a_name_that_is_none_is_reported_by_the_start(void)
{
        static char long_name[WEIR_NAME_MAX + 2];

        begin();
        memset(long_name, 'x', WEIR_NAME_MAX + 1);
        CU_ASSERT(weir_task_start(weir_timer_new_named("", WEIR_SEC(1), NULL, NULL)) == -EINVAL);
        CU_ASSERT(weir_task_start(weir_timer_new_named(NULL, WEIR_SEC(1), NULL, NULL)) == -EINVAL);
        weir_task *long_named = weir_timer_new_named(long_name, WEIR_SEC(1), NULL, NULL);
        CU_ASSERT(weir_task_start(long_named) == -ENAMETOOLONG);
        end();
}

/* -- cancel -- */

struct order {
        enum { OPEN, PAID, EXPIRED } state;
};

static void
payment_over(weir_task *timer, void *context)
{
        struct order *order = context;

        switch (weir_task_status(timer)) {
        case 0: order->state = EXPIRED; break;
        case -ECANCELED: order->state = PAID; break;
        default: break; /* -ESHUTDOWN: the program ends, the order stays open */
        }
}

static const char *
payment_arrives(const char *order)
{
        return weir_timer_cancel(order, 1) == 1 ? "thank you" : "too late, here is your money back";
}

static void
a_counted_timer_sees_ecanceled_and_any_other_sees_0(void)
{
        struct order early = {OPEN}, late = {OPEN};

        begin();
        weir_task_start(weir_timer_new_named("order 4711", WEIR_SEC(1800), payment_over, &early));
        weir_task_start(weir_timer_new_named("order 4712", WEIR_SEC(1800), payment_over, &late));

        pass(WEIR_SEC(600));
        CU_ASSERT_STRING_EQUAL(payment_arrives("order 4711"), "thank you");
        pass(WEIR_SEC(1200));
        CU_ASSERT_STRING_EQUAL(payment_arrives("order 4712"), "too late, here is your money back");
        CU_ASSERT(early.state == PAID && late.state == EXPIRED);
        end();
}

static void
a_timer_that_was_cancelled_before_its_start_ends_as_soon_as_it_is_started(void)
{
        begin();
        weir_nsec began = weir_now();
        weir_task *timer = weir_timer_new_named("door", WEIR_SEC(3600), NULL, NULL);
        CU_ASSERT(weir_timer_cancel("door", WEIR_ALL) == 1);
        CU_ASSERT(weir_task_run(timer) == -ECANCELED);
        CU_ASSERT(weir_now() == began);
        end();
}

/* The count that a callback gets for its cancel. */
struct rival {
        const char *name;
        size_t cancelled;
};

static void
cancel_rival(weir_task *timer, void *context)
{
        struct rival *rival = context;

        (void)timer;
        rival->cancelled = weir_timer_cancel(rival->name, WEIR_ALL);
}

static void
cancel_is_decisive_until_the_callback_begins(void)
{
        struct rival first = {.name = "second"};
        struct outcome second = {0};

        begin();
        weir_task_start(weir_timer_new(WEIR_SEC(1), cancel_rival, &first));
        weir_task_start(weir_timer_new_named("second", WEIR_SEC(1), note, &second));
        pass(WEIR_SEC(1)); /* both have expired when the first one's callback runs */
        CU_ASSERT(first.cancelled == 1);
        CU_ASSERT(second.calls == 1 && second.status == -ECANCELED);
        end();
}

static void
a_callback_that_has_begun_is_too_late_to_cancel(void)
{
        struct rival itself = {.name = "itself", .cancelled = 7};

        begin();
        CU_ASSERT(weir_task_run(weir_timer_new_named("itself", WEIR_SEC(1), cancel_rival, &itself)) == 0);
        CU_ASSERT(itself.cancelled == 0);
        end();
}

/* -- reset and extend -- */

static void
file_changed(const char *file, struct outcome *outcome)
{
        if (weir_timer_reset(file, WEIR_MSEC(300)) == 0)
                weir_task_start(weir_timer_new_named(file, WEIR_MSEC(300), note, outcome));
}

static void
debounce_says_once_that_a_burst_is_over(void)
{
        struct outcome said = {0};

        begin();
        weir_nsec began = weir_now();
        for (int i = 0; i < 3; i++) {
                file_changed("notes.txt", &said);
                pass(WEIR_MSEC(100));
        }
        pass(WEIR_SEC(1));
        /* 300 ms after the last change, which was at 200. */
        CU_ASSERT(said.calls == 1 && said.at == began + WEIR_MSEC(500));

        file_changed("notes.txt", &said);
        pass(WEIR_SEC(1));
        CU_ASSERT(said.calls == 2);
        end();
}

/* Returns false when the device was given up before. */
static bool
heard_from(const char *device)
{
        return weir_timer_reset(device, WEIR_SEC(10)) > 0;
}

static void
a_watchdog_ends_when_nothing_was_heard_for_its_time(void)
{
        struct outcome given_up = {0};

        begin();
        weir_nsec began = weir_now();
        weir_task_start(weir_timer_new_named("device 7", WEIR_SEC(10), note, &given_up));
        for (int i = 0; i < 5; i++) {
                pass(WEIR_SEC(9));
                CU_ASSERT(heard_from("device 7"));
        }
        pass(WEIR_SEC(3600));
        CU_ASSERT(given_up.calls == 1 && given_up.at == began + WEIR_SEC(55));
        CU_ASSERT(!heard_from("device 7"));
        end();
}

static void
message_arrives(weir_task *timer, void *context)
{
        bool *in_time = context;

        (void)timer;
        *in_time = heard_from("device 7");
}

static void
a_watchdog_that_has_expired_is_held_back_until_its_callback_begins(void)
{
        struct outcome given_up = {0};
        bool in_time = false;

        begin();
        weir_task_start(weir_timer_new(WEIR_SEC(10), message_arrives, &in_time));
        weir_task_start(weir_timer_new_named("device 7", WEIR_SEC(10), note, &given_up));
        pass(WEIR_SEC(10)); /* both have expired when the message arrives */
        CU_ASSERT(in_time && given_up.calls == 0);
        pass(WEIR_SEC(10));
        CU_ASSERT(given_up.calls == 1 && given_up.status == 0);
        end();
}

static void
extend_moves_the_deadline_that_there_is(void)
{
        struct outcome over = {0};

        begin();
        weir_nsec began = weir_now();
        weir_task_start(weir_timer_new_named("lease", WEIR_SEC(30), note, &over));
        pass(WEIR_SEC(10));
        CU_ASSERT(weir_timer_extend("lease", WEIR_SEC(60)) == 1);  /* ends at 90 */
        CU_ASSERT(weir_timer_extend("lease", -WEIR_SEC(20)) == 1); /* ends at 70 */
        pass(WEIR_SEC(100));
        CU_ASSERT(over.calls == 1 && over.at == began + WEIR_SEC(70));
        end();
}

static void
reset_leaves_alone_what_was_cancelled_or_has_begun(void)
{
        struct outcome outcome = {0};

        begin();
        weir_task *timer = weir_timer_new_named("once", WEIR_SEC(10), note, &outcome);
        /* Before its start: another duration. */
        CU_ASSERT(weir_timer_reset("once", WEIR_SEC(20)) == 1);
        CU_ASSERT(weir_timer_cancel("once", WEIR_ALL) == 1);
        CU_ASSERT(weir_timer_reset("once", WEIR_SEC(30)) == 0);
        CU_ASSERT(weir_task_run(timer) == -ECANCELED);
        CU_ASSERT(outcome.calls == 1);
        end();
}

/* -- waiting -- */

struct session {
        const char *name;
        struct weir_test_latch saving;
        bool *saved;
};

static void
session_save(weir_task *timer, void *context)
{
        struct session *session = context;

        if (weir_task_status(timer) != 0)
                return;
        weir_test_latch_count_down(&session->saving);
        weir_test_sleep(WEIR_MSEC(20)); /* on a slow disk */
        *session->saved = true;
}

static void
session_close(struct session *session)
{
        weir_timer_cancel_wait(session->name, WEIR_ALL);
        free(session); /* no callback has it any more, nor will one */
}

static void
after_cancel_wait_the_context_can_be_freed(void)
{
        struct session *session = calloc(1, sizeof *session);
        bool saved = false;

        begin();
        session->name = "session 4711";
        session->saved = &saved;
        weir_test_latch_init(&session->saving, 1);
        weir_task_start(weir_timer_new_named("session 4711", 0, session_save, session));
        weir_task_start(weir_timer_new_named("session 4711", WEIR_SEC(60), session_save, session));
        weir_test_latch_wait(&session->saving);

        session_close(session); /* one callback runs, one timer is pending */
        CU_ASSERT(saved);
        CU_ASSERT(weir_timer_count("session 4711") == 0);
        end();
}

struct feed {
        pthread_mutex_t lock;
        bool stopped; /* guarded by lock */
        weir_nsec every;
        int reads;
};

static void
feed_read(weir_task *timer, void *context)
{
        struct feed *feed = context;

        pthread_mutex_lock(&feed->lock);
        if (weir_task_status(timer) == 0 && !feed->stopped) {
                feed->reads++;
                weir_task_start(weir_timer_new_named("feed", feed->every, feed_read, feed));
        }
        pthread_mutex_unlock(&feed->lock);
}

static void
feed_stop(struct feed *feed)
{
        pthread_mutex_lock(&feed->lock);
        feed->stopped = true;                /* no callback starts another one */
        weir_timer_cancel("feed", WEIR_ALL); /* never blocks, so the lock may be held */
        pthread_mutex_unlock(&feed->lock);
        /* Only waits, without the lock, which the callbacks take. */
        weir_timer_cancel_wait("feed", 0);
}

static void
a_callback_that_takes_a_lock_is_cancelled_under_it_and_waited_for_without_it(void)
{
        struct feed feed = {.lock = PTHREAD_MUTEX_INITIALIZER, .every = WEIR_SEC(1)};

        begin();
        weir_task_start(weir_timer_new_named("feed", 0, feed_read, &feed));
        pass(WEIR_MSEC(60500));
        feed_stop(&feed);
        CU_ASSERT(feed.reads == 61);
        CU_ASSERT(weir_timer_count("feed") == 0);
        end();
}

static void
cancel_wait_of_none_only_waits(void)
{
        struct outcome first = {0}, second = {0};

        begin();
        weir_task_start(weir_timer_new_named("job", WEIR_SEC(60), note, &first));
        weir_task_start(weir_timer_new_named("job", WEIR_SEC(60), note, &second));
        CU_ASSERT(weir_timer_cancel("job", 1) == 1);
        CU_ASSERT(weir_timer_cancel_wait("job", 0) == 0);
        CU_ASSERT(first.calls == 1 && first.status == -ECANCELED);
        CU_ASSERT(weir_timer_count("job") == 1); /* it is pending, and nobody waits for its end */
        end();
}

/* The order of the events between the start and the stop is left to chance. */
static void
both_ways_to_stop_a_period_hold_on_two_workers(void)
{
        struct weir_test_random random = {weir_test_seed()};

        weir_test_begin_real(2);
        for (int i = 0; i < 300; i++) {
                struct feed *feed = calloc(1, sizeof *feed);
                struct metronome *metronome = calloc(1, sizeof *metronome);

                pthread_mutex_init(&feed->lock, NULL);
                feed->every = WEIR_USEC(10);
                metronome->next = weir_now() - WEIR_SEC(1000); /* it is late, and beats without a pause */
                weir_task_start(weir_timer_new_named("feed", 0, feed_read, feed));
                weir_task_start(weir_timer_new_named("metronome", 0, beat, metronome));
                weir_test_sleep((int64_t)weir_test_random_below(&random, 200000));
                feed_stop(feed);
                metronome_stop();
                CU_ASSERT(weir_timer_count("feed") == 0 && weir_timer_count("metronome") == 0);
                pthread_mutex_destroy(&feed->lock);
                free(feed);
                free(metronome);
        }
        weir_test_end();
}

static void
wait_in_callback(weir_task *timer, void *context)
{
        int64_t *result = context;

        (void)timer;
        *result = weir_timer_cancel_wait("job", WEIR_ALL);
}

static void
on_a_worker_cancel_wait_refuses_and_cancels_nothing(void)
{
        int64_t result = 0;

        begin();
        weir_task_start(weir_timer_new_named("job", WEIR_SEC(60), NULL, NULL));
        weir_task_run(weir_timer_new(0, wait_in_callback, &result));
        CU_ASSERT(result == -EDEADLK);
        CU_ASSERT(weir_timer_count("job") == 1);
        end();
}

/* -- many at once -- */

static void
a_prefix_makes_a_group_of_names(void)
{
        begin();
        weir_task_start(weir_timer_new_named("acme/invoice", WEIR_SEC(60), NULL, NULL));
        weir_task_start(weir_timer_new_named("acme/reminder", WEIR_SEC(60), NULL, NULL));
        weir_task_start(weir_timer_new_named("acme-east/invoice", WEIR_SEC(60), NULL, NULL));
        CU_ASSERT(weir_timer_cancel_prefix("acme/", WEIR_ALL) == 2);
        CU_ASSERT(weir_timer_count("acme-east/invoice") == 1);
        end();
}

static int
print_timer(const struct weir_timer_info *timer, void *context)
{
        static const char *const states[] = {
                [WEIR_TIMER_NEW] = "not started",
                [WEIR_TIMER_PENDING] = "pending",
                [WEIR_TIMER_READY] = "ready",
                [WEIR_TIMER_RUNNING] = "running",
        };
        double since = (double)(weir_now() - timer->since) / 1e9;
        double due_in = (double)timer->due_in / 1e9;

        fprintf(context, "%s: %s", timer->name, states[timer->state]);
        if (timer->state != WEIR_TIMER_NEW)
                fprintf(context, " for %.1f s", since);
        if (timer->state != WEIR_TIMER_NEW && timer->due_in == WEIR_FOREVER)
                fprintf(context, ", for ever");
        else if (timer->state != WEIR_TIMER_NEW)
                fprintf(context, ", due in %.1f s", due_in);
        fprintf(context, "\n");
        return 0; /* go on */
}

static FILE *report;

/* SIGUSR1 prints what there is.  All threads of the program block both signals, and this one waits
 * for them. */
static void *
wait_for_signals(void *signals)
{
        for (int number; sigwait(signals, &number) == 0 && number == SIGUSR1;) {
                int64_t shown = weir_timer_list("", print_timer, report);
                fprintf(report, "%lld timers\n", (long long)shown);
        }
        return NULL;
}

static void
at_three_in_the_morning_a_signal_prints_what_is_pending(void)
{
        char *text = NULL;
        size_t size = 0;
        sigset_t signals, before;
        pthread_t thread;

        sigemptyset(&signals);
        sigaddset(&signals, SIGUSR1);
        sigaddset(&signals, SIGTERM);
        pthread_sigmask(SIG_BLOCK, &signals, &before);
        begin();
        report = open_memstream(&text, &size);
        weir_task *idle = weir_timer_new_named("idle", WEIR_SEC(1), NULL, NULL);
        weir_task_start(weir_timer_new_named("backup", WEIR_SEC(3600), NULL, NULL));
        weir_task_start(weir_timer_new_named("reload", WEIR_FOREVER, NULL, NULL));
        pass(WEIR_SEC(600));

        CU_ASSERT_FATAL(pthread_create(&thread, NULL, wait_for_signals, &signals) == 0);
        pthread_kill(thread, SIGUSR1);
        pthread_kill(thread, SIGTERM); /* sigwait takes the lower number first */
        pthread_join(thread, NULL);
        fclose(report);
        CU_ASSERT_PTR_NOT_NULL(strstr(text, "idle: not started\n"));
        CU_ASSERT_PTR_NOT_NULL(strstr(text, "backup: pending for 600.0 s, due in 3000.0 s\n"));
        CU_ASSERT_PTR_NOT_NULL(strstr(text, "reload: pending for 600.0 s, for ever\n"));
        CU_ASSERT_PTR_NOT_NULL(strstr(text, "3 timers\n"));
        free(text);
        weir_task_dismiss(idle);
        end();
        pthread_sigmask(SIG_SETMASK, &before, NULL);
}

/* -- ids -- */

static void
an_id_means_one_timer_for_ever(void)
{
        struct outcome outcome = {0};

        begin();
        weir_nsec began = weir_now();
        weir_task *timer = weir_timer_new(WEIR_SEC(30), note, &outcome);
        /* Before the start: afterwards the timer is not ours any more. */
        weir_timer_id id = weir_timer_id_of(timer);
        weir_task_start(timer);

        CU_ASSERT(weir_timer_reset_id(id, WEIR_SEC(60)) == 1);
        pass(WEIR_SEC(60));
        CU_ASSERT(outcome.calls == 1 && outcome.status == 0 && outcome.at == began + WEIR_SEC(60));
        CU_ASSERT(weir_timer_cancel_id(id) == 0); /* gone */

        /* Another timer may lie where it lay.  It has another id. */
        timer = weir_timer_new(WEIR_SEC(30), note, &outcome);
        CU_ASSERT(weir_timer_id_of(timer) != id);
        weir_task_start(timer);
        CU_ASSERT(weir_timer_cancel_id(id) == 0);
        pass(WEIR_SEC(30));
        CU_ASSERT(outcome.calls == 2 && outcome.status == 0);
        end();
}

static void
none_is_an_id_that_every_call_accepts(void)
{
        CU_ASSERT(weir_timer_id_of(NULL) == 0);
        CU_ASSERT(weir_timer_cancel_id(0) == 0);
        CU_ASSERT(weir_timer_reset_id(0, WEIR_SEC(1)) == 0);
}

/* -- the end -- */

static void
shutdown_ends_what_is_pending(void)
{
        struct outcome outcome = {0};

        begin();
        weir_nsec began = weir_now();
        weir_task_start(weir_timer_new(WEIR_FOREVER, note, &outcome));
        CU_ASSERT(weir_shutdown() == 0);
        CU_ASSERT(outcome.calls == 1 && outcome.status == -ESHUTDOWN && outcome.at == began);
        CU_ASSERT(weir_task_start(weir_timer_new(0, note, &outcome)) == -ESHUTDOWN);
        CU_ASSERT(outcome.calls == 1);
}

/* -- the context of a named timer -- */

struct basket {
        int items;
};

static void
add_item(void *context, void *count)
{
        struct basket *basket = context;

        basket->items += *(int *)count;
}

/* Returns false when the basket has expired. */
static bool
basket_add(const char *customer, int count)
{
        return weir_timer_with(customer, add_item, &count) == 1;
}

static void
basket_expired(weir_task *timer, void *context)
{
        (void)timer;
        free(context);
}

static void
the_context_of_a_timer_is_there_while_a_function_uses_it(void)
{
        begin();
        struct basket *basket = calloc(1, sizeof *basket);
        weir_task_start(weir_timer_new_named("customer 7", WEIR_SEC(60), basket_expired, basket));
        CU_ASSERT(basket_add("customer 7", 2));
        CU_ASSERT(basket_add("customer 7", 3));
        CU_ASSERT(basket->items == 5);
        pass(WEIR_SEC(60));
        CU_ASSERT(!basket_add("customer 7", 1)); /* its memory has gone */
        end();
}

static void
timers_until_instants_have_exact_distances(void)
{
        struct outcome outcomes[3] = {0};

        begin();
        weir_nsec began = weir_now();
        for (int i = 0; i < 3; i++) {
                weir_nsec instant = began + WEIR_MSEC(100) * (i + 1);
                weir_task_start(weir_timer_new_until(instant, note, &outcomes[i]));
                pass(WEIR_MSEC(30)); /* whatever the program does in between */
        }
        pass(WEIR_SEC(1));
        CU_ASSERT(outcomes[2].at - outcomes[1].at == WEIR_MSEC(100));
        CU_ASSERT(outcomes[1].at - outcomes[0].at == WEIR_MSEC(100));
        end();
}

static const struct weir_test tests[] = {
        WEIR_TEST(a_timer_ends_at_its_time_and_never_before),
        WEIR_TEST(a_callback_that_starts_the_next_one_makes_a_period_without_drift),
        WEIR_TEST(equal_deadlines_come_in_the_order_of_their_start),
        WEIR_TEST(any_bytes_are_a_name_and_many_timers_may_share_it),
        WEIR_TEST(a_name_that_is_none_is_reported_by_the_start),
        WEIR_TEST(a_counted_timer_sees_ecanceled_and_any_other_sees_0),
        WEIR_TEST(a_timer_that_was_cancelled_before_its_start_ends_as_soon_as_it_is_started),
        WEIR_TEST(cancel_is_decisive_until_the_callback_begins),
        WEIR_TEST(a_callback_that_has_begun_is_too_late_to_cancel),
        WEIR_TEST(debounce_says_once_that_a_burst_is_over),
        WEIR_TEST(a_watchdog_ends_when_nothing_was_heard_for_its_time),
        WEIR_TEST(a_watchdog_that_has_expired_is_held_back_until_its_callback_begins),
        WEIR_TEST(extend_moves_the_deadline_that_there_is),
        WEIR_TEST(reset_leaves_alone_what_was_cancelled_or_has_begun),
        WEIR_TEST(after_cancel_wait_the_context_can_be_freed),
        WEIR_TEST(a_callback_that_takes_a_lock_is_cancelled_under_it_and_waited_for_without_it),
        WEIR_TEST(cancel_wait_of_none_only_waits),
        WEIR_TEST(both_ways_to_stop_a_period_hold_on_two_workers),
        WEIR_TEST(on_a_worker_cancel_wait_refuses_and_cancels_nothing),
        WEIR_TEST(a_prefix_makes_a_group_of_names),
        WEIR_TEST(at_three_in_the_morning_a_signal_prints_what_is_pending),
        WEIR_TEST(an_id_means_one_timer_for_ever),
        WEIR_TEST(none_is_an_id_that_every_call_accepts),
        WEIR_TEST(shutdown_ends_what_is_pending),
        WEIR_TEST(the_context_of_a_timer_is_there_while_a_function_uses_it),
        WEIR_TEST(timers_until_instants_have_exact_distances),
};

int
main(void)
{
        return weir_test_main("the guide to timers", tests, sizeof tests / sizeof *tests);
}
