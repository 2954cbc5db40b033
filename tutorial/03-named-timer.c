/* 03-named-timer.c: a timer that another thread cancels by its name.
 *
 * The two sides share the name only.  No handle is kept, so none can be stale. */
#include <pthread.h>
#include <stdio.h>

#include <weir/weir.h>

static void expired(weir_task *timer, void *context)
{
        const char *what = context;
        int status = weir_task_status(timer);

        printf("%s: %s\n", what, status == 0 ? "expired" : weir_strerror(status));
}

static char coffee[] = "coffee, in an hour";
static char tea[] = "tea, in 100 ms";

static void *canceller(void *argument)
{
        (void)argument;
        printf("cancelled %zu, the oldest of three\n", weir_timer_cancel("coffee", 1));
        printf("cancelled %zu, the others\n", weir_timer_cancel("coffee", WEIR_ALL));
        printf("cancelled %zu, there is none left\n", weir_timer_cancel("coffee", WEIR_ALL));
        return NULL;
}

int main(void)
{
        pthread_t thread;

        for (int i = 0; i < 3; i++) {
                int failed = weir_task_start(weir_timer_new_named("coffee", WEIR_SEC(3600), expired, coffee));
                if (failed) {
                        fprintf(stderr, "03-named-timer: %s\n", weir_strerror(failed));
                        return 1;
                }
        }
        printf("%zu timers named coffee\n", weir_timer_count("coffee"));
        if (pthread_create(&thread, NULL, canceller, NULL))
                return 1;
        pthread_join(thread, NULL);

        /* This timer is left alone.  weir_task_run waits for it. */
        int status = weir_task_run(weir_timer_new_named("tea", WEIR_MSEC(100), expired, tea));

        /* Shutdown waits for the callbacks; at exit it would come by itself. */
        weir_shutdown();
        return status != 0;
}
