/* 10-promise.c: a library that calls back becomes a task.
 *
 *     10-promise
 *
 * The library is at the top: an oracle with a thread of its own.  It answers by a callback, and can be told to forget a question.
 * Below it, a few lines make a task of that: ask_new.  Two flows ask.  The first one gets its answer.  The second one has a
 * deadline, which comes before the answer. */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <weir/weir.h>

/* -- somebody else's library -- */

/* Is called once for each question, on the thread of the oracle.  The answer is the callee's; NULL: the question was
 * forgotten. */
typedef void oracle_answered(char *answer, void *argument);

#define QUESTIONS 4

static struct {
        pthread_mutex_t lock;
        pthread_cond_t change;
        pthread_t thread;
        int last;
        int stops;
        struct question {
                int id; /* 0: the slot is free */
                struct timespec due;
                oracle_answered *answered;
                void *argument;
        } questions[QUESTIONS];
} oracle = {.lock = PTHREAD_MUTEX_INITIALIZER, .change = PTHREAD_COND_INITIALIZER};

static int is_before(struct timespec one, struct timespec other)
{
        return one.tv_sec < other.tv_sec || (one.tv_sec == other.tv_sec && one.tv_nsec < other.tv_nsec);
}

/* The question to be answered next, or a free slot.  With the lock held. */
static struct question *find_question(int is_free)
{
        struct question *found = NULL;

        for (int i = 0; i < QUESTIONS; i++) {
                struct question *one = &oracle.questions[i];

                if (is_free ? one->id == 0 : one->id && (!found || is_before(one->due, found->due)))
                        found = one;
        }
        return found;
}

/* Lets the lock go for the callback. */
static void answer(struct question *question)
{
        struct question copy = *question;

        question->id = 0;
        pthread_mutex_unlock(&oracle.lock);
        copy.answered(copy.due.tv_sec ? strdup("42") : NULL, copy.argument);
        pthread_mutex_lock(&oracle.lock);
}

static void *think(void *unused)
{
        (void)unused;
        pthread_mutex_lock(&oracle.lock);
        for (;;) {
                struct question *next = find_question(0);
                struct timespec now;

                clock_gettime(CLOCK_REALTIME, &now);
                if (next && !is_before(now, next->due))
                        answer(next);
                else if (next)
                        pthread_cond_timedwait(&oracle.change, &oracle.lock, &next->due);
                else if (oracle.stops)
                        break;
                else
                        pthread_cond_wait(&oracle.change, &oracle.lock);
        }
        pthread_mutex_unlock(&oracle.lock);
        return NULL;
}

/* Returns the number of the question, or a negative errno; then there is no callback. */
static int oracle_ask(long milliseconds, oracle_answered *answered, void *argument)
{
        struct timespec due;
        int id = -EAGAIN;

        clock_gettime(CLOCK_REALTIME, &due);
        due.tv_sec += milliseconds / 1000;
        due.tv_nsec += milliseconds % 1000 * 1000000;
        due.tv_sec += due.tv_nsec / 1000000000;
        due.tv_nsec %= 1000000000;
        pthread_mutex_lock(&oracle.lock);
        struct question *slot = find_question(1);
        if (slot) {
                id = ++oracle.last;
                *slot = (struct question){id, due, answered, argument};
                pthread_cond_signal(&oracle.change);
        }
        pthread_mutex_unlock(&oracle.lock);
        return id;
}

/* Its callback comes at once, if it has not come yet. */
static void oracle_forget(int id)
{
        pthread_mutex_lock(&oracle.lock);
        for (int i = 0; i < QUESTIONS; i++)
                if (oracle.questions[i].id == id)
                        oracle.questions[i].due = (struct timespec){0};
        pthread_cond_signal(&oracle.change);
        pthread_mutex_unlock(&oracle.lock);
}

/* -- the task -- */

struct wish {
        const char *name;
        long milliseconds; /* until the oracle answers */
        int id;
};

/* On the thread of the oracle.  The reference keeps the promise, also when the flow is over. */
static void on_answer(char *answer, void *promise)
{
        if (weir_promise_end_with(promise, answer ? 0 : -EIO, answer, free) < 0)
                free(answer); /* nobody waits for it any more */
        weir_promise_unref(promise);
}

/* On a worker, before the callback: a cancel, a deadline or a shutdown was faster. */
static void forget(weir_task *promise, void *context)
{
        struct wish *wish = context;

        (void)promise;
        printf("%s: the oracle is told to forget\n", wish->name);
        oracle_forget(wish->id);
}

static weir_task *ask_new(struct wish *wish, weir_task_fn *done)
{
        weir_task *promise = weir_promise_new(forget, done, wish);

        if (!promise)
                return NULL;
        weir_promise_set_label(promise, "the oracle");
        wish->id = oracle_ask(wish->milliseconds, on_answer, weir_promise_ref(promise));
        if (wish->id < 0) { /* there will be no answer: an end before the start counts */
                weir_promise_end(promise, wish->id);
                weir_promise_unref(promise);
        }
        return promise;
}

/* -- the flows -- */

static void on_asked(weir_task *promise, void *context)
{
        struct wish *wish = context;
        int status = weir_task_status(promise);

        printf("%s: %s\n", wish->name, status ? weir_strerror(status) : (const char *)weir_promise_value(promise));
}

static int ask_within(struct wish *wish, weir_nsec limit)
{
        weir_series *series = weir_series_new(NULL, NULL);

        weir_series_push(series, ask_new(wish, on_asked));
        weir_series_set_deadline(series, limit);
        return weir_series_run(series);
}

int main(void)
{
        struct wish quick = {.name = "quick", .milliseconds = 50}, slow = {.name = "slow", .milliseconds = 3600000};
        int failed = pthread_create(&oracle.thread, NULL, think, NULL);

        if (failed) {
                fprintf(stderr, "no thread: %s\n", strerror(failed));
                return 1;
        }
        failed = ask_within(&quick, WEIR_SEC(3600)) != 0 || ask_within(&slow, WEIR_MSEC(50)) != -ETIMEDOUT;
        pthread_mutex_lock(&oracle.lock);
        oracle.stops = 1;
        pthread_cond_signal(&oracle.change);
        pthread_mutex_unlock(&oracle.lock);
        pthread_join(oracle.thread, NULL); /* it has called back for every question */
        return failed;
}
