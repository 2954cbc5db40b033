/* test/change_over/search_with_weir.c: a search in pieces that is given up after a while: docs/coming-from-libuv.md shows it
 * beside search_with_uv.c, which does the same with libuv.
 *
 *     search_with_weir          a timer cancels the search by its name
 *     search_with_weir deadline the search has a deadline */
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>
#include <weir/weir.h>

#define PIECES 16

static atomic_uint found;

/* On a thread of the executor. */
static void
search(void *context)
{
        (void)context;
        for (int step = 0; step < 4 && !weir_go_cancelled(); step++)
                usleep(10000);
}

/* On the same thread, so those of several pieces may run at once. */
static void
searched(weir_task *piece, void *context)
{
        (void)context;
        if (weir_task_status(piece) == 0)
                found++;
}

/* On a worker.  Pieces that are being searched are told, and return early. */
static void
give_up(weir_task *timer, void *context)
{
        (void)context;
        if (weir_task_status(timer) == 0)
                weir_series_cancel_named("search", WEIR_ALL);
}

/* The search is over, one way or the other: nobody has to give it up any more. */
static void
finished(weir_series *series, void *context)
{
        (void)series;
        (void)context;
        weir_timer_cancel("limit", WEIR_ALL);
}

static weir_task *
all_pieces(void)
{
        weir_task *parallel = weir_parallel_new(NULL, NULL);

        for (int i = 0; i < PIECES; i++)
                weir_parallel_add(parallel, weir_go_new(NULL, search, searched, NULL));
        return parallel;
}

/* The same as with libuv. */
static int
search_by_name(void)
{
        weir_series *series = weir_series_new(finished, NULL);

        weir_series_set_name(series, "search");
        weir_series_push(series, all_pieces());
        weir_task_start(weir_timer_new_named("limit", WEIR_MSEC(100), give_up, NULL));
        return weir_series_run(series);
}

/* What one would write. */
static int
search_by_deadline(void)
{
        weir_series *series = weir_series_new(NULL, NULL);

        weir_series_push(series, all_pieces());
        weir_series_set_deadline(series, WEIR_MSEC(100));
        return weir_series_run(series);
}

int
main(int argc, char *argv[])
{
        struct weir_config config = WEIR_CONFIG_DEFAULT;
        int status;

        (void)argv;
        config.compute_threads = 4; /* libuv's default; ours is one for each CPU */
        status = weir_init(&config);
        if (!status)
                status = argc > 1 ? search_by_deadline() : search_by_name();
        printf("searched %u of %d pieces: %s\n", found, PIECES, weir_strerror(status));
        return weir_shutdown() < 0;
}
