/* test/change_over/search_with_uv.c: a search in pieces that is given up after a while, with libuv: docs/coming-from-libuv.md
 * shows it. */
#include <stdio.h>
#include <uv.h>

#define PIECES 16

static uv_timer_t limit;
static uv_work_t pieces[PIECES];
static unsigned left = PIECES, found;

/* On a thread of the pool. */
static void
search(uv_work_t *piece)
{
        (void)piece;
        for (int step = 0; step < 4; step++)
                uv_sleep(10);
}

/* On the thread of the loop. */
static void
searched(uv_work_t *piece, int status)
{
        (void)piece;
        if (status == 0)
                found++;
        if (--left == 0)
                uv_close((uv_handle_t *)&limit, NULL);
}

/* Pieces that are being searched cannot be cancelled, and go on to their end. */
static void
give_up(uv_timer_t *timer)
{
        (void)timer;
        for (int i = 0; i < PIECES; i++)
                uv_cancel((uv_req_t *)&pieces[i]);
}

int
main(void)
{
        uv_loop_t *loop = uv_default_loop();

        uv_timer_init(loop, &limit);
        uv_timer_start(&limit, give_up, 100, 0);
        for (int i = 0; i < PIECES; i++)
                uv_queue_work(loop, &pieces[i], search, searched);

        uv_run(loop, UV_RUN_DEFAULT);
        uv_loop_close(loop);
        printf("searched %u of %d pieces\n", found, PIECES);
}
