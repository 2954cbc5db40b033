/* 24-first-two.c: asks several servers at once; the first two answers count, and nothing is waited for after a limit.
 *
 *     24-first-two MILLISECONDS URL URL...
 *
 *     series, with a deadline:
 *     race -+- parallel -+- GET --+--> each answer counts one
 *           |            '- GET --'
 *           '- two answers have come -----> ends the other requests
 *
 * A race ends with the first child that succeeds, and cancels the others.  Here the children are all requests together, and a
 * task that waits for a counter.  A server that is slow, or gone, holds up nobody, and no request is left when the race is over.
 *
 * Try it:  17-hedged &
 *          24-first-two 1000 'http://127.0.0.1:8888/?first=20' 'http://127.0.0.1:8888/?first=30' http://127.0.0.1:1/ */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include <weir/weir.h>

#define ENOUGH 2

/* Several of them may run at a time: the counter is one for all. */
static void answered(weir_task *get, void *context)
{
        weir_counter *answers = context;

        if (weir_task_status(get) == -ECANCELED)
                printf("%s: no longer needed\n", weir_http_response_url(get));
        else if (weir_task_status(get))
                printf("%s\n", weir_http_problem(get));
        else if (weir_counter_count(answers, 1))
                printf("%s: %d\n", weir_http_response_url(get), weir_http_response_status(get));
}

int main(int argc, char *argv[])
{
        weir_counter *answers = weir_counter_new(ENOUGH);
        weir_task *requests = weir_parallel_new(NULL, NULL), *race = weir_race_new(NULL, NULL);
        weir_series *series = weir_series_new(NULL, NULL);

        for (int i = 2; i < argc; i++)
                weir_parallel_add(requests, weir_http_get_new(argv[i], answered, answers));
        weir_race_add(race, weir_counter_wait_new(answers, NULL, NULL));
        weir_race_add(race, requests);
        weir_series_push(series, race);
        weir_series_set_deadline(series, WEIR_MSEC(argc > 1 ? strtol(argv[1], NULL, 10) : 1000));
        int failed = weir_series_run(series), missing = (int)weir_counter_left(answers);
        printf("%s\n", missing ? "there are too few answers" : "two answers are there");
        weir_counter_unref(answers);
        weir_shutdown();
        return failed || missing;
}
