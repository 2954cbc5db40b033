/* test/promise_work_test.c: the reference of the work of a promise, the end that gives it up, and dumps meanwhile. */
#include "test/fixture.h"

#include <errno.h>
#include <sys/mman.h>

struct own {
        struct weir_test_record record; /* first: it is the context, too */
        _Atomic int cancels, frees, drops;
        _Atomic(weir_task *) promise; /* with the reference of the work */
        bool finishes;                /* in its begin */
        int answer;
};

static struct own own;

static void
on_drop(void *value)
{
        ++*(_Atomic int *)value;
}

static void
on_begin(weir_task *promise, void *its)
{
        struct own *self = its;

        self->promise = promise;
        if (self->finishes)
                self->answer = weir_promise_finish(promise, -EPROTO, &self->drops, on_drop);
}

static void
on_cancel(weir_task *promise, void *its)
{
        (void)promise;
        ((struct own *)its)->cancels++;
}

static void
on_free(void *its)
{
        ((struct own *)its)->frees++;
}

static const struct weir_promise_kind kind = {.size = sizeof kind, .begin = on_begin, .cancel = on_cancel, .free = on_free};

static void
begin(void)
{
        own = (struct own){0};
        weir_test_begin_virtual();
}

static weir_task *
make(void)
{
        return weir_test_recorded(weir_promise_new_of(&kind, &own, weir_test_done, &own));
}

static void
end(int frees)
{
        CU_ASSERT_EQUAL(own.frees, frees);
        weir_test_end();
        CU_ASSERT_EQUAL(own.frees, frees);
}

/* -- who has which reference -- */

static void
the_begin_gets_a_reference(void)
{
        begin();
        weir_task_start(make());
        CU_ASSERT_EQUAL(weir_promise_end(own.promise, -EIO), 0);
        weir_test_pass(0);
        WEIR_TEST_CALLED(&own.record, -EIO);
        CU_ASSERT_EQUAL(own.frees, 0); /* the task is over, the work is not */
        CU_ASSERT_EQUAL(weir_promise_end(own.promise, 0), -EALREADY);
        weir_promise_unref(own.promise);
        end(1);
}

static void
what_never_begins_has_no_work(void)
{
        begin();
        weir_task_dismiss(make());
        end(1);

        begin();
        CU_ASSERT_EQUAL(weir_series_push(NULL, make()), -ENOMEM);
        end(1);

        begin();
        weir_series *series = weir_series_ref(weir_series_new(NULL, NULL));
        weir_series_push(series, weir_timer_new(WEIR_FOREVER, NULL, NULL));
        weir_series_push(series, make());
        weir_series_start(series);
        weir_series_cancel(series);
        weir_test_pass(0);
        weir_series_unref(series);
        CU_ASSERT_PTR_NULL(own.promise);
        end(1);
}

/* -- the end that gives it up -- */

static void
a_finish_ends_and_gives_the_reference_up(void)
{
        for (int within = 0; within < 2; within++) {
                begin();
                weir_series *series = within ? weir_series_ref(weir_series_new(NULL, NULL)) : NULL;
                if (within) {
                        weir_series_push(series, make());
                        weir_series_start(series);
                } else {
                        weir_task_start(make());
                }
                weir_test_pass(0);
                CU_ASSERT_EQUAL(own.record.calls, 0);
                CU_ASSERT_EQUAL(weir_promise_finish(own.promise, -EIO, &own.drops, on_drop), 0);
                weir_test_pass(0);
                WEIR_TEST_CALLED(&own.record, -EIO);
                CU_ASSERT_EQUAL(own.drops, 1);
                CU_ASSERT_EQUAL(own.cancels, 0);
                weir_series_unref(series);
                end(1);
        }
}

static void
inside_the_begin_it_counts(void)
{
        begin();
        own.finishes = true;
        weir_task_start(make());
        weir_test_pass(0);
        CU_ASSERT_EQUAL(own.answer, 0);
        WEIR_TEST_CALLED(&own.record, -EPROTO);
        CU_ASSERT_EQUAL(own.drops, 1);
        end(1);
}

/* Each of them has a reference: the callback may come between. */
static void
one_that_comes_late_gives_it_up_too(void)
{
        for (int order = 0; order < 3; order++) {
                begin();
                weir_task *promise = weir_promise_ref(make());
                weir_task_start(promise);
                if (order == 0)
                        weir_promise_finish(promise, -EIO, NULL, NULL);
                else
                        weir_promise_end(promise, -EIO);
                if (order == 1)
                        weir_promise_unref(promise);
                CU_ASSERT_EQUAL(weir_promise_finish(own.promise, 0, &own.drops, on_drop), -EALREADY);
                CU_ASSERT_EQUAL(own.drops, 0);
                weir_test_pass(0);
                WEIR_TEST_CALLED(&own.record, -EIO);
                CU_ASSERT_EQUAL(own.frees, order < 2);
                if (order == 2) /* the last reference */
                        CU_ASSERT_EQUAL(weir_promise_finish(promise, 0, NULL, NULL), -EALREADY);
                end(1);
        }
}

static void
behind_a_cancel_it_gives_it_up_too(void)
{
        for (int passes = 0; passes < 2; passes++) {
                begin();
                weir_series *series = weir_series_ref(weir_series_new(NULL, NULL));
                weir_series_push(series, make());
                weir_series_start(series);
                weir_series_cancel(series);
                if (passes)
                        weir_test_pass(0);
                CU_ASSERT_EQUAL(own.frees, 0);
                CU_ASSERT_EQUAL(weir_promise_finish(own.promise, 0, &own.drops, on_drop), -EALREADY);
                weir_test_pass(0);
                WEIR_TEST_CALLED(&own.record, -ECANCELED);
                CU_ASSERT_EQUAL(own.cancels, 1);
                CU_ASSERT_EQUAL(own.drops, 0);
                weir_series_unref(series);
                end(1);
        }
}

static void
of_what_is_held_it_delivers(void)
{
        begin();
        weir_task_start(make());
        CU_ASSERT_EQUAL(weir_promise_hold(own.promise), 0);
        CU_ASSERT_EQUAL(weir_promise_finish(own.promise, -EIO, NULL, NULL), 0);
        weir_test_pass(0);
        WEIR_TEST_CALLED(&own.record, -EIO);
        end(1);
}

/* One reference of the maker goes to the task; that of the work comes later. */
static void
before_the_start_it_counts(void)
{
        for (int starts = 0; starts < 2; starts++) {
                begin();
                weir_task *promise = make();
                CU_ASSERT_EQUAL(weir_promise_finish(weir_promise_ref(promise), -EIO, &own.drops, on_drop), 0);
                CU_ASSERT_EQUAL(own.frees, 0);
                if (!starts) {
                        weir_task_dismiss(promise);
                        WEIR_TEST_NOT_CALLED(&own.record);
                        CU_ASSERT_EQUAL(own.drops, 1);
                        end(1);
                        continue;
                }
                weir_task_start(promise);
                weir_test_pass(0);
                WEIR_TEST_CALLED(&own.record, -EIO);
                CU_ASSERT_EQUAL(own.drops, 1);
                CU_ASSERT_EQUAL(own.frees, 0);
                CU_ASSERT_EQUAL(weir_promise_finish(own.promise, 0, NULL, NULL), -EALREADY);
                end(1);
        }
}

static void
behind_a_dismiss_it_gives_it_up_too(void)
{
        begin();
        weir_task *promise = weir_promise_ref(make());
        weir_task_dismiss(promise);
        CU_ASSERT_EQUAL(own.frees, 0);
        CU_ASSERT_EQUAL(weir_promise_finish(promise, 0, &own.drops, on_drop), -EALREADY);
        CU_ASSERT_EQUAL(own.drops, 0);
        end(1);
}

static void
bad_input_keeps_the_reference(void)
{
        begin();
        weir_task *timer = weir_timer_new(1, NULL, NULL);
        weir_task_start(make());
        CU_ASSERT_EQUAL(weir_promise_finish(NULL, 0, NULL, NULL), -EINVAL);
        CU_ASSERT_EQUAL(weir_promise_finish(timer, 0, NULL, NULL), -EDOM);
        CU_ASSERT_EQUAL(weir_promise_finish(own.promise, 1, NULL, NULL), -EINVAL);
        CU_ASSERT_EQUAL(weir_promise_finish(own.promise, 0, NULL, NULL), 0);
        weir_task_dismiss(timer);
        weir_test_pass(0);
        end(1);
}

static void
finish_in_child(void)
{
        weir_test_leaks_do_not_count = 1;
        if (weir_promise_finish(own.promise, 0, NULL, NULL) != -ECHILD)
                abort();
}

static void
a_forked_child_only_gives_it_up(void)
{
        char said[256];

        begin();
        weir_task_start(make());
        CU_ASSERT_EQUAL(weir_test_child(finish_in_child, said, sizeof said), 0);
        CU_ASSERT_EQUAL(weir_promise_finish(own.promise, 0, NULL, NULL), 0);
        weir_test_pass(0);
        WEIR_TEST_CALLED(&own.record, 0);
        end(1);
}

/* -- many threads, on the real clock -- */

#define STORM (WEIR_TEST_SANITIZED ? 1000 : 5000)

static struct {
        struct own own;
        weir_series *series;
        _Atomic unsigned decided;
        pthread_barrier_t barrier;
} storm;

static void *
finish_in_storm(void *unused)
{
        (void)unused;
        for (unsigned i = 0; i < STORM; i++) {
                pthread_barrier_wait(&storm.barrier);
                storm.decided += weir_promise_finish(storm.own.promise, -EIO, &storm.own.drops, on_drop) == 0;
                pthread_barrier_wait(&storm.barrier);
        }
        return NULL;
}

static void *
cancel_in_storm(void *unused)
{
        (void)unused;
        for (unsigned i = 0; i < STORM; i++) {
                pthread_barrier_wait(&storm.barrier);
                weir_series_cancel(storm.series);
                pthread_barrier_wait(&storm.barrier);
        }
        return NULL;
}

static void
a_finish_or_a_cancel_decides(void)
{
        pthread_t threads[2];
        struct own *one = &storm.own;

        weir_test_begin_real(2);
        pthread_barrier_init(&storm.barrier, NULL, 3);
        pthread_create(&threads[0], NULL, finish_in_storm, NULL);
        pthread_create(&threads[1], NULL, cancel_in_storm, NULL);
        for (unsigned i = 0; i < STORM; i++) {
                storm.decided = 0;
                *one = (struct own){0};
                weir_task *promise = weir_test_recorded(weir_promise_new_of(&kind, one, weir_test_done, one));
                storm.series = weir_series_ref(weir_series_new(NULL, NULL));
                weir_series_push(storm.series, promise);
                weir_series_start(storm.series);
                WEIR_TEST_EVENTUALLY(one->promise);
                pthread_barrier_wait(&storm.barrier);
                weir_test_wait_freed(&one->record);
                pthread_barrier_wait(&storm.barrier);
                weir_series_unref(storm.series);
                WEIR_TEST_EVENTUALLY(one->frees == 1);
                CU_ASSERT_EQUAL(one->record.calls, 1);
                CU_ASSERT_EQUAL(one->record.status, storm.decided ? -EIO : -ECANCELED);
                CU_ASSERT_EQUAL(one->cancels, !storm.decided);
                CU_ASSERT_EQUAL(one->drops, (int)storm.decided);
        }
        for (unsigned i = 0; i < 2; i++)
                pthread_join(threads[i], NULL);
        pthread_barrier_destroy(&storm.barrier);
        weir_test_end();
}

/* -- thousands that come and go -- */

#define THREADS 3
#define AT_ONCE 64 /* of each thread */
#define ROUNDS  (WEIR_TEST_SANITIZED ? 60 : 300)

struct many {
        struct own own[AT_ONCE];
        _Atomic unsigned finished;
};

static _Atomic unsigned busy;

static void
describe_many(const void *its, char *text, size_t room)
{
        snprintf(text, room, "%d freed", ((const struct own *)its)->frees);
}

static const struct weir_promise_kind many_kind = {
        .size = sizeof many_kind, .begin = on_begin, .cancel = on_cancel, .free = on_free, .describe = describe_many};

static void
play_round(struct many *many, unsigned round)
{
        memset(many->own, 0, sizeof many->own);
        for (unsigned i = 0; i < AT_ONCE; i++) {
                struct own *one = &many->own[i];
                weir_task *promise = weir_test_recorded(weir_promise_new_of(&many_kind, one, weir_test_done, one));

                weir_promise_set_label(promise, "one of many");
                if (i % 4) {
                        weir_task_start(promise);
                        continue;
                }
                weir_series *series = weir_series_ref(weir_series_new(NULL, NULL));
                weir_series_push(series, promise);
                weir_series_start(series);
                if (i % 8)
                        weir_series_cancel(series);
                weir_series_unref(series);
        }
        for (unsigned i = 0; i < AT_ONCE; i++) {
                struct own *one = &many->own[(i * 29 + round) % AT_ONCE];

                WEIR_TEST_EVENTUALLY(one->promise || one->record.frees);
                if (one->promise)
                        many->finished += weir_promise_finish(one->promise, 0, NULL, NULL) == 0;
        }
        for (unsigned i = 0; i < AT_ONCE; i++)
                WEIR_TEST_EVENTUALLY(many->own[i].frees == 1);
}

static void *
come_and_go(void *context)
{
        for (unsigned round = 0; round < ROUNDS; round++)
                play_round(context, round);
        busy--;
        return NULL;
}

static void
dump_to_nowhere(void)
{
        int nowhere = memfd_create("dump", MFD_CLOEXEC);

        CU_ASSERT_EQUAL(weir_debug_dump(nowhere), 0);
        close(nowhere);
}

static void *
dump_meanwhile(void *unused)
{
        (void)unused;
        while (busy)
                dump_to_nowhere();
        return NULL;
}

static void
dumps_go_on_while_thousands_come_and_go(void)
{
        static struct many many[THREADS];
        pthread_t threads[THREADS], dumps[2];

        weir_test_begin_real(2);
        busy = THREADS;
        for (unsigned i = 0; i < THREADS; i++)
                pthread_create(&threads[i], NULL, come_and_go, &many[i]);
        for (unsigned i = 0; i < 2; i++)
                pthread_create(&dumps[i], NULL, dump_meanwhile, NULL);
        for (unsigned i = 0; i < THREADS; i++) {
                pthread_join(threads[i], NULL);
                CU_ASSERT(many[i].finished >= ROUNDS * AT_ONCE * 3 / 4);
        }
        for (unsigned i = 0; i < 2; i++)
                pthread_join(dumps[i], NULL);
        weir_test_end();
}

static void *
finish_all(void *context)
{
        struct many *many = context;

        for (unsigned i = 0; i < AT_ONCE; i++)
                many->finished += weir_promise_finish(many->own[i].promise, 0, NULL, NULL) == 0;
        return NULL;
}

static void
a_shutdown_meets_their_ends(void)
{
        static struct many many[THREADS];
        pthread_t threads[THREADS];

        for (unsigned round = 0; round < ROUNDS / 3; round++) {
                weir_test_begin_real(2);
                memset(many, 0, sizeof many);
                for (unsigned i = 0; i < THREADS * AT_ONCE; i++) {
                        struct own *one = &many[i / AT_ONCE].own[i % AT_ONCE];

                        weir_task_start(weir_test_recorded(weir_promise_new_of(&many_kind, one, weir_test_done, one)));
                }
                for (unsigned i = 0; i < THREADS; i++)
                        pthread_create(&threads[i], NULL, finish_all, &many[i]);
                weir_test_end();
                for (unsigned i = 0; i < THREADS; i++) {
                        unsigned cancels = 0;

                        pthread_join(threads[i], NULL);
                        for (unsigned j = 0; j < AT_ONCE; j++) {
                                struct own *one = &many[i].own[j];

                                WEIR_TEST_CALLED(&one->record, one->cancels ? -ESHUTDOWN : 0);
                                CU_ASSERT_EQUAL(one->frees, 1);
                                cancels += (unsigned)one->cancels;
                        }
                        CU_ASSERT_EQUAL(many[i].finished + cancels, AT_ONCE);
                }
        }
}

/* -- what a dump says -- */

static void
a_dump_shows_those_that_wait_alone(void)
{
        char dump[8192];
        FILE *file = tmpfile();
        struct own others[3] = {0};
        weir_task *promise[3];

        begin();
        for (unsigned i = 0; i < 3; i++) {
                promise[i] = weir_promise_new_of(&many_kind, &others[i], NULL, NULL);
                weir_promise_set_label(promise[i], i == 1 ? "the second" : "");
        }
        weir_series *series = weir_series_ref(weir_series_new(NULL, NULL));
        weir_series_push(series, promise[2]);
        weir_task_start(promise[0]);
        weir_task_start(promise[1]);
        weir_series_start(series);
        weir_test_pass(0);
        CU_ASSERT_EQUAL(weir_debug_dump(fileno(file)), 0);
        rewind(file);
        dump[fread(dump, 1, sizeof dump - 1, file)] = '\0';
        fclose(file);
        char lines[3][200];
        snprintf(lines[0], sizeof lines[0], "promise: %p, 1 waits; 0 freed\n", (void *)promise[0]);
        snprintf(lines[1], sizeof lines[1], "promise: %p, 1 waits; \"the second\" 0 freed\n", (void *)promise[1]);
        snprintf(lines[2], sizeof lines[2], "promise: %p, 1 waits; 0 freed\n", (void *)promise[2]);
        for (unsigned i = 0; i < 3; i++) {
                const char *line = strstr(dump, lines[i]);

                CU_ASSERT_PTR_NOT_NULL_FATAL(line);
                line += strlen(lines[i]);
                CU_ASSERT_EQUAL(strncmp(line + strspn(line, " "), "promise pending\n", 16) == 0, i < 2);
        }
        for (unsigned i = 0; i < 3; i++)
                weir_promise_finish(others[i].promise, 0, NULL, NULL);
        weir_test_pass(0);
        weir_series_unref(series);
        CU_ASSERT_EQUAL(others[0].frees + others[1].frees + others[2].frees, 3);
        end(0);
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(the_begin_gets_a_reference),
                WEIR_TEST(what_never_begins_has_no_work),
                WEIR_TEST(a_finish_ends_and_gives_the_reference_up),
                WEIR_TEST(inside_the_begin_it_counts),
                WEIR_TEST(one_that_comes_late_gives_it_up_too),
                WEIR_TEST(behind_a_cancel_it_gives_it_up_too),
                WEIR_TEST(of_what_is_held_it_delivers),
                WEIR_TEST(before_the_start_it_counts),
                WEIR_TEST(behind_a_dismiss_it_gives_it_up_too),
                WEIR_TEST(bad_input_keeps_the_reference),
                WEIR_TEST(a_forked_child_only_gives_it_up),
                WEIR_TEST(a_finish_or_a_cancel_decides),
                WEIR_TEST(dumps_go_on_while_thousands_come_and_go),
                WEIR_TEST(a_shutdown_meets_their_ends),
                WEIR_TEST(a_dump_shows_those_that_wait_alone),
        };

        return weir_test_main("promise work", tests, sizeof tests / sizeof *tests);
}
