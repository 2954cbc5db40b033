/* test/context_mistakes.c: mistakes inside contexts, which sanitizers and valgrind must find (test/context_tools_test.sh).
 *
 *     context_mistakes [overflow|return|race|leak|parked] */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernel/stack/stack.h"
#include "kernel/stack/switch.h"

struct run {
        struct weir__context context;
        struct weir__stack *stack;
        void (*act)(struct run *run);
        bool is_over;
};

static void
run_body(void *argument)
{
        struct run *run = argument;

        run->act(run);
        run->is_over = true;
        weir__context_end(&run->context);
}

static void
begin(struct run *run, void (*act)(struct run *run))
{
        *run = (struct run){.act = act};
        if (weir__stack_take(&run->stack))
                abort();
        weir__context_make(&run->context, run->stack, run_body, run);
        weir__context_enter(&run->context);
}

static void
finish(struct run *run)
{
        while (!run->is_over)
                weir__context_enter(&run->context);
        weir__stack_give(run->stack);
}

/* -- right -- */

static __attribute__((noinline)) int
use_stack(struct run *run, int depth)
{
        volatile char frame[200];

        memset((char *)frame, depth, sizeof frame);
        weir__context_leave(&run->context);
        return depth ? use_stack(run, depth - 1) + frame[depth] : frame[0];
}

static void
do_right(struct run *run)
{
        char *block = malloc(10);

        use_stack(run, 20);
        free(block);
}

/* -- wrong -- */

static volatile int at = 10;

static void
write_behind_a_block(struct run *run)
{
        volatile char *block = malloc(10);

        weir__context_leave(&run->context);
        block[at] = 1; /* behind it */
        free((void *)block);
}

static __attribute__((noinline)) volatile int *
make_local(void)
{
        volatile int local = at;
        volatile int *volatile address = &local;

        return address;
}

static void
read_a_frame_that_is_gone(struct run *run)
{
        volatile int *local = make_local();

        weir__context_leave(&run->context);
        printf("%d\n", *local); /* gone */
}

static int shared;
static pthread_barrier_t both; /* taking a stack may order the threads */

static void
count_without_a_lock(struct run *run)
{
        pthread_barrier_wait(&both);
        for (int i = 0; i < 1000; i++) {
                shared++; /* races */
                weir__context_leave(&run->context);
        }
}

static void *
run_on_thread(void *act)
{
        struct run run;

        begin(&run, *(void (**)(struct run *))act);
        finish(&run);
        return NULL;
}

static void
run_on_two_threads(void (*act)(struct run *run))
{
        pthread_t threads[2];

        for (int i = 0; i < 2; i++)
                pthread_create(&threads[i], NULL, run_on_thread, &act);
        for (int i = 0; i < 2; i++)
                pthread_join(threads[i], NULL);
}

static void
lose_a_block(struct run *run)
{
        void *volatile block = malloc(100); /* lost */

        memset(block, 0, 100);
        block = NULL;
        weir__context_leave(&run->context);
}

/* The block is referred to by a stack alone. */
static void
keep_a_block(struct run *run)
{
        void *volatile block = malloc(1000);

        weir__context_leave(&run->context);
        free(block);
}

static __attribute__((noinline)) void
park(void)
{
        struct run *run = malloc(sizeof *run);

        begin(run, keep_a_block);
        for (int i = 0; i < 10; i++) {
                struct run right;

                begin(&right, do_right);
                finish(&right);
        }
}

int
main(int count, char **arguments)
{
        const char *what = count > 1 ? arguments[1] : "";
        struct run run;

        if (!strcmp(what, "parked")) {
                park();
                return 0;
        }
        if (!strcmp(what, "race")) {
                pthread_barrier_init(&both, NULL, 2);
                run_on_two_threads(count_without_a_lock);
                return 0;
        }
        run_on_two_threads(do_right);
        begin(&run, !strcmp(what, "overflow") ? write_behind_a_block
                    : !strcmp(what, "return") ? read_a_frame_that_is_gone
                    : !strcmp(what, "leak")   ? lose_a_block
                                              : do_right);
        finish(&run);
        return 0;
}
