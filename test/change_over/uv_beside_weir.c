/* test/change_over/uv_beside_weir.c: a loop of libuv and the workers of weir in one process: docs/coming-from-libuv.md shows it.
 *
 * Into weir: any function, as it is called from any thread.  Back: through a channel, and uv_async_send, which is what other
 * threads may do to a loop. */
#include <stdint.h>
#include <stdio.h>
#include <uv.h>
#include <weir/weir.h>

#define NUMBERS 100

static weir_channel *results;
static uv_async_t arrived;
static uint64_t numbers[NUMBERS], sum;
static unsigned left = NUMBERS;

/* On a thread of the executor. */
static void
square(void *context)
{
        uint64_t *number = context;

        *number *= *number;
}

/* On the same thread: of the loop it touches nothing else. */
static void
squared(weir_task *task, void *number)
{
        (void)task;
        weir_channel_post(results, number);
        uv_async_send(&arrived);
}

/* On the thread of the loop.  One call may stand for several sends, so it takes all there is. */
static void
on_arrival(uv_async_t *async)
{
        void *number;

        while (weir_channel_poll(results, &number) == 0) {
                sum += *(uint64_t *)number;
                left--;
        }
        if (left == 0)
                uv_stop(async->loop);
}

/* On the thread of the loop. */
static void
on_timer(uv_timer_t *timer)
{
        for (unsigned i = 0; i < NUMBERS; i++) {
                numbers[i] = i + 1;
                weir_task_start(weir_go_new(NULL, square, squared, &numbers[i]));
        }
        uv_close((uv_handle_t *)timer, NULL);
}

int
main(void)
{
        uv_loop_t *loop = uv_default_loop();
        uv_timer_t timer;

        results = weir_channel_new(WEIR_UNBOUNDED, NULL);
        uv_async_init(loop, &arrived, on_arrival);
        uv_timer_init(loop, &timer);
        uv_timer_start(&timer, on_timer, 10, 0);
        uv_run(loop, UV_RUN_DEFAULT);

        weir_shutdown(); /* first: until it returns a callback may be inside uv_async_send */
        uv_close((uv_handle_t *)&arrived, NULL);
        uv_run(loop, UV_RUN_DEFAULT);
        uv_loop_close(loop);
        weir_channel_unref(results);
        printf("the sum of %d squares is %ju\n", NUMBERS, (uintmax_t)sum);
}
