/* test/change_over/uv_beside_weir.c: a loop of libuv and the workers of weir in one process: docs/coming-from-libuv.md shows it.
 *
 * Into weir: any function, as it is called from any thread.  Back: through a weir_loop, whose descriptor the loop watches. */
#include <stdint.h>
#include <stdio.h>
#include <uv.h>
#include <weir/weir.h>

#define NUMBERS 100

static weir_loop *calls;
static uint64_t numbers[NUMBERS], sum; /* `sum` is the loop's alone */
static unsigned left = NUMBERS;

/* On a thread of the executor. */
static void
square(void *context)
{
        uint64_t *number = context;

        *number *= *number;
}

/* On the thread of the loop. */
static void
add(void *number)
{
        sum += *(uint64_t *)number;
        if (--left == 0)
                uv_stop(uv_default_loop());
}

/* The same: calls wait. */
static void
on_calls(uv_poll_t *poll, int status, int events)
{
        (void)poll;
        (void)events;
        if (status == 0)
                weir_loop_run(calls, WEIR_ALL);
}

/* The same. */
static void
on_timer(uv_timer_t *timer)
{
        for (unsigned i = 0; i < NUMBERS; i++) {
                weir_series *series = weir_series_new(NULL, NULL);

                numbers[i] = i + 1;
                weir_series_push(series, weir_go_new(NULL, square, NULL, &numbers[i]));
                weir_series_push(series, weir_loop_call_new(calls, add, NULL, &numbers[i]));
                weir_series_start(series);
        }
        uv_close((uv_handle_t *)timer, NULL);
}

int
main(void)
{
        uv_loop_t *loop = uv_default_loop();
        uv_timer_t timer;
        uv_poll_t poll;

        calls = weir_loop_new();
        uv_poll_init(loop, &poll, weir_loop_fd(calls));
        uv_poll_start(&poll, UV_READABLE, on_calls);
        uv_timer_init(loop, &timer);
        uv_timer_start(&timer, on_timer, 10, 0);
        uv_run(loop, UV_RUN_DEFAULT);

        weir_shutdown(); /* first: no call comes any more */
        uv_close((uv_handle_t *)&poll, NULL);
        uv_run(loop, UV_RUN_DEFAULT);
        uv_loop_close(loop);
        weir_loop_unref(calls);
        printf("the sum of %d squares is %ju\n", NUMBERS, (uintmax_t)sum);
}
