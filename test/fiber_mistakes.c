/* test/fiber_mistakes.c: mistakes inside fibers, which sanitizers and valgrind must find (test/fiber_tools_test.sh).
 *
 *     fiber_mistakes [freed|unset|overflow|return|leak|race|pinned]
 *
 * Each mistake is made behind an await, so on a stack that has slept.  Without an argument there is none. */
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weir/weir.h>

static volatile int at = 10;

/* -- right -- */

static int
use_stack(int depth)
{
        volatile char frame[200];

        memset((char *)frame, depth, sizeof frame);
        weir_fiber_yield();
        return depth ? use_stack(depth - 1) + frame[depth] : frame[0];
}

static void
note_sum(void *sum)
{
        *(int *)sum += 1;
}

static int
be_child(void *context)
{
        char *block = malloc(10);

        memset(block, 1, 10);
        weir_fiber_sleep(WEIR_USEC(10));
        use_stack(20);
        *(int *)context = block[9];
        free(block);
        return 0;
}

/* What the kernel has read is looked at, by threads and by io_uring. */
static int
read_itself(void)
{
        weir_file *file = NULL;
        char data[64];
        int err = weir_fiber_open("/proc/self/exe", O_RDONLY, 0, &file);

        if (!err && (weir_fiber_pread(file, 0, data, sizeof data) != sizeof data || memcmp(data, "\177ELF", 4)))
                err = -EIO;
        weir_file_unref(file);
        return err;
}

static int
do_right(void *context)
{
        int results[4] = {0}, sum = 0;
        weir_group *group = weir_group_open();

        (void)context;
        for (unsigned i = 0; i < 4; i++)
                weir_group_start(group, weir_fiber_new(be_child, NULL, &results[i]));
        int err = read_itself();
        if (!err)
                err = weir_fiber_go(note_sum, &sum);
        if (!err)
                err = weir_fiber_pin(true);
        use_stack(5);
        weir_fiber_pin(false);
        for (int i = 0; i < 2000 && !err; i++)
                err = weir_await(weir_fiber_new(be_child, NULL, &results[0]));
        int closed = weir_group_close(group);
        return err ? err : closed ? closed : results[0] + results[3] + sum == 3 ? 0 : -EIO;
}

/* -- wrong -- */

static int
use_a_freed_block(void *context)
{
        char *block = malloc(10);
        volatile char *volatile kept = block;

        (void)context;
        free(block);
        weir_fiber_yield();
        at = kept[1]; /* freed.  It is stored: valgrind leaves out a load that nobody needs */
        return 0;
}

static int
look_at_what_is_not_set(void *context)
{
        volatile int unset[4];

        (void)context;
        weir_fiber_sleep(1);
        if (unset[at & 3] == 7) /* never written */
                puts("seven");
        return 0;
}

static int
write_behind_a_block(void *context)
{
        volatile char *volatile block = malloc(10);

        (void)context;
        weir_fiber_sleep(1);
        block[at] = 1; /* behind it */
        free((void *)block);
        return 0;
}

static __attribute__((noinline)) volatile int *
make_local(void)
{
        volatile int local = at;
        volatile int *volatile address = &local;

        return address;
}

static int
read_a_frame_that_is_gone(void *context)
{
        volatile int *local = make_local();

        (void)context;
        weir_fiber_yield();
        at = *local; /* gone */
        return 0;
}

static int
lose_a_block(void *context)
{
        void *volatile block = malloc(100); /* lost */

        (void)context;
        memset(block, 0, 100);
        block = NULL;
        return weir_fiber_yield();
}

static int
pin_and_use_a_freed_block(void *context)
{
        int err = weir_fiber_pin(true);

        return err ? err : use_a_freed_block(context);
}

/* -- a race: both have begun, each on a thread, before one of them counts -- */

static pthread_barrier_t both;
static int shared;

static int
count_without_a_lock(void *context)
{
        (void)context;
        weir_fiber_yield();
        weir_blocking_begin();
        pthread_barrier_wait(&both);
        for (int i = 0; i < 1000; i++)
                shared++; /* races */
        weir_blocking_end();
        return 0;
}

static int
race(void)
{
        weir_task *parallel = weir_parallel_new(NULL, NULL);

        pthread_barrier_init(&both, NULL, 2);
        for (int i = 0; i < 2; i++)
                weir_parallel_add(parallel, weir_fiber_new(count_without_a_lock, NULL, NULL));
        return weir_task_run(parallel);
}

int
main(int count, char **arguments)
{
        static const struct {
                const char *name;
                weir_fiber_fn *function;
        } mistakes[] = {{"", do_right},
                        {"freed", use_a_freed_block},
                        {"unset", look_at_what_is_not_set},
                        {"overflow", write_behind_a_block},
                        {"return", read_a_frame_that_is_gone},
                        {"leak", lose_a_block},
                        {"pinned", pin_and_use_a_freed_block}};
        const char *what = count > 1 ? arguments[1] : "";
        int err = -EINVAL;

        if (!strcmp(what, "race"))
                err = race();
        for (size_t i = 0; i < sizeof mistakes / sizeof *mistakes; i++)
                if (!strcmp(what, mistakes[i].name))
                        err = weir_task_run(weir_fiber_new_as(what, mistakes[i].function, NULL, NULL));
        if (err)
                fprintf(stderr, "%s\n", weir_strerror(err));
        return err != 0;
}
