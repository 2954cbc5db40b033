/* 05-debounce.c: reports a change once it has been quiet for a while, however many changes came before.
 *
 *     05-debounce [milliseconds]       default 300
 *
 * Each line on standard input is the name of something that has just changed: a file, a sensor, a typing user.  A name is
 * reported when no line has had it for that long, once for each burst of lines.
 *
 * Try it:  inotifywait -q -m -e modify --format %f . | 05-debounce
 *          (echo a; echo b; echo a; sleep 1; echo a) | 05-debounce */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weir/weir.h>

/* Ends with 0 when the time is over; with -ESHUTDOWN when main ends the library before. */
static void quiet(weir_task *timer, void *context)
{
        const char *name = context;

        printf("%s: %s\n", name, weir_task_status(timer) == 0 ? "quiet" : "quiet at the end of input");
}

/* The first line of a burst makes a timer, the others postpone it.  When reset counts the timer, it will end at the new time and
 * not before, even if it had just expired.  When reset returns 0, its callback has begun, and the line begins a new burst.
 *
 * Only main makes timers here, so nobody can make one between the reset and the start below.  If several threads read events,
 * two of them could find no timer and make one each, and the name would be reported twice.  They would hold a mutex over this
 * function: nothing in it waits, and no callback takes the mutex. */
static int changed(const char *name, weir_nsec after)
{
        if (weir_timer_reset(name, after) > 0)
                return 0;

        char *copy = strdup(name);
        weir_task *timer = copy ? weir_timer_new_named(name, after, quiet, NULL) : NULL;
        weir_task_set_context(timer, copy, free); /* the copy goes with the timer, also if there is none */
        return weir_task_start(timer);
}

int main(int argc, char *argv[])
{
        char *end = NULL;
        long milliseconds = argc > 1 ? strtol(argv[1], &end, 10) : 300;
        char *line = NULL;
        size_t size = 0;

        if (argc > 1 && (end == argv[1] || *end || milliseconds < 0)) {
                fprintf(stderr, "wanted: 05-debounce [milliseconds]\n");
                return 1;
        }
        setvbuf(stdout, NULL, _IOLBF, 0); /* a reader of a pipe gets each line at once */

        while (getline(&line, &size, stdin) >= 0) {
                line[strcspn(line, "\n")] = '\0';
                int failed = changed(line, WEIR_MSEC(milliseconds));
                if (failed)
                        fprintf(stderr, "05-debounce: \"%.60s\": %s\n", line, weir_strerror(failed));
        }
        free(line);

        /* Nothing will change any more, so there is nothing to wait for: shutdown ends what is pending at once, with -ESHUTDOWN,
         * and returns when all callbacks have. */
        return weir_shutdown() != 0;
}
