/* debounce.c: saves a document when it has been quiet for a second, and every five seconds while it is not.
 *
 *     debounce          each line on standard input is the name of a document that has just changed
 *
 * A race of two timers decides when: each change puts off the first, which has the document's name, and none the second.  The
 * race's callback saves, exactly once.
 *
 * Try it:  (for i in 1 2 3 4 5 6 7 8; do echo letter; sleep 0.9; done) | debounce */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weir/weir.h>

#define QUIET WEIR_SEC(1)
#define MOST  WEIR_SEC(5)

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static _Atomic unsigned saves;

static void save(weir_task *race, void *context)
{
        const char *document = context, *when;
        int status = weir_task_status(race);

        if (status == 0)
                when = weir_race_winner(race) == 0 ? "when it was quiet" : "while it changes";
        else if (status == -ESHUTDOWN)
                when = "at the end";
        else
                when = weir_strerror(status); /* early, but better than never */
        saves++;
        printf("saved %s, %s\n", document, when);
}

static int start(const char *document)
{
        char *copy = strdup(document);
        weir_task *race = copy ? weir_race_new(save, NULL) : NULL;

        weir_task_set_context(race, copy, free);
        weir_race_add(race, weir_timer_new_named(document, QUIET, NULL, NULL));
        weir_race_add(race, weir_timer_new(MOST, NULL, NULL));
        return weir_task_start(race);
}

/* From any thread.  A reset that counts the timer was in time: the save comes later and sees this change.  Otherwise the save has
 * begun, or there is none, and this change begins the next one.  The lock keeps two threads from beginning one each. */
static int changed(const char *document)
{
        int result = 0;

        pthread_mutex_lock(&lock);
        if (weir_timer_reset(document, QUIET) == 0)
                result = start(document);
        pthread_mutex_unlock(&lock);
        return result;
}

int main(void)
{
        unsigned changes = 0, failures = 0;
        char *line = NULL;
        size_t size = 0;

        setvbuf(stdout, NULL, _IOLBF, 0);
        while (getline(&line, &size, stdin) >= 0) {
                line[strcspn(line, "\n")] = '\0';
                int failed = changed(line);
                if (failed)
                        fprintf(stderr, "debounce: \"%.60s\": %s\n", line, weir_strerror(failed));
                changes += !failed;
                failures += failed != 0;
        }
        free(line);
        weir_shutdown(); /* what is pending is saved at once */
        printf("%u changes, %u saves\n", changes, saves);
        return failures > 0;
}
