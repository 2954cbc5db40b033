/* test/stack_test.c: the memory of stacks: where it comes from, its guards, and how it goes back.
 *
 * The linker puts the functions below in front of those of the C library: an older kernel, and one that has no memory. */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <weir/log.h>

#include "kernel/base/phase.h"
#include "kernel/stack/arena.h"
#include "kernel/stack/guard.h"
#include "kernel/stack/stack.h"
#include "test/stack_fixture.h"

#define GUARD ((size_t)64 << 10)
#define ARENA ((size_t)64 << 20)

/* -- the kernel -- */

void *__real_mmap(void *address, size_t size, int protection, int flags, int fd, off_t offset);
int __real_madvise(void *address, size_t size, int advice);
int __real_mprotect(void *address, size_t size, int protection);
long __real_syscall(long number, ...);
void *__wrap_mmap(void *address, size_t size, int protection, int flags, int fd, off_t offset);
int __wrap_madvise(void *address, size_t size, int advice);
int __wrap_mprotect(void *address, size_t size, int protection);
long __wrap_syscall(long number, ...);

static _Atomic size_t largest = SIZE_MAX;   /* mapping that can be written to */
static _Atomic bool is_old;                 /* the kernel knows no guards */
static _Atomic bool is_emulated;            /* what it does not know it does not do, and says that it has */
static _Atomic bool refuses_guards;         /* it has no memory for them */
static _Atomic bool shadows;                /* each thread has a shadow stack */
static _Atomic unsigned guards, given_back; /* calls */

void *
__wrap_mmap(void *address, size_t size, int protection, int flags, int fd, off_t offset)
{
        if (protection & PROT_WRITE && size > atomic_load(&largest)) {
                errno = ENOMEM;
                return MAP_FAILED;
        }
        return __real_mmap(address, size, protection, flags, fd, offset);
}

int
__wrap_mprotect(void *address, size_t size, int protection)
{
        if ((protection & PROT_WRITE && size > atomic_load(&largest)) || (!protection && atomic_load(&refuses_guards))) {
                errno = ENOMEM;
                return -1;
        }
        if (!protection)
                atomic_fetch_add(&guards, 1);
        return __real_mprotect(address, size, protection);
}

int
__wrap_madvise(void *address, size_t size, int advice)
{
        if (advice == 102 && atomic_load(&is_old)) {
                errno = EINVAL;
                return -1;
        }
        if (advice == 102 && atomic_load(&is_emulated))
                return 0;
        if (advice == MADV_DONTNEED)
                atomic_fetch_add(&given_back, 1);
        return __real_madvise(address, size, advice);
}

long
__wrap_syscall(long number, ...)
{
        va_list list;
        long arguments[6];

        va_start(list, number);
        for (int i = 0; i < 6; i++)
                arguments[i] = va_arg(list, long);
        va_end(list);
#ifdef SYS_arch_prctl
        if (number == SYS_arch_prctl && arguments[0] == 0x5005 && atomic_load(&shadows)) {
                *(unsigned long *)arguments[1] = 1;
                return 0;
        }
#endif
        return __real_syscall(number, arguments[0], arguments[1], arguments[2], arguments[3], arguments[4], arguments[5]);
}

/* -- the log -- */

static char last_message[1024];
static unsigned messages;

static void
note_log(enum weir_log_level level, const char *message, void *context)
{
        (void)level, (void)context;
        snprintf(last_message, sizeof last_message, "%s", message);
        messages++;
}

/* -- helpers -- */

/* Begins anew: no stack is free, and the kernel is what it is. */
static void
begin(void)
{
        atomic_store(&largest, SIZE_MAX);
        atomic_store(&is_old, false);
        atomic_store(&is_emulated, false);
        atomic_store(&refuses_guards, false);
        weir__stack_configure(0);
        weir__stack_trim();
        weir__guard_pretend(0);
        last_message[0] = 0;
        messages = 0;
        struct weir__stack_stats stats;
        weir__stack_stats(&stats);
        CU_ASSERT_EQUAL(stats.made, 0);
        CU_ASSERT_EQUAL(stats.in_use, 0);
        CU_ASSERT_EQUAL(stats.free, 0);
}

/* The signal that ends a child which writes there; 0: none. */
static int
fault_at(char *address)
{
        pid_t child = fork();
        int status = -1;

        weir_test_leaks_do_not_count = child == 0;
        if (child == 0) {
                signal(SIGSEGV, SIG_DFL);
                *(volatile char *)address = 1;
                _exit(0);
        }
        CU_ASSERT_EQUAL(waitpid(child, &status, 0), child);
        return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

/* -- stacks -- */

static void
stacks_lie_apart_and_can_be_used_down_to_their_size(void)
{
        struct weir__stack *stacks[100];

        begin();
        for (size_t i = 0; i < 100; i++) {
                stacks[i] = take();
                CU_ASSERT_EQUAL((uintptr_t)stacks[i]->top % 128, 0);
                CU_ASSERT(stacks[i]->size >= 180 * 1024);
                memset(low(stacks[i]), (int)i, stacks[i]->size);
        }
        for (size_t i = 0; i < 100; i++) {
                CU_ASSERT_EQUAL(*low(stacks[i]), (char)i);
                CU_ASSERT_EQUAL(stacks[i]->top[-1], (char)i);
                weir__stack_give(stacks[i]);
        }
}

static void
stack_that_was_given_last_is_taken_first(void)
{
        begin();
        struct weir__stack *a = take(), *b = take();
        weir__stack_give(a);
        weir__stack_give(b);
        CU_ASSERT_PTR_EQUAL(take(), b);
        CU_ASSERT_PTR_EQUAL(take(), a);
        weir__stack_give(a);
        weir__stack_give(b);
}

static void
look_at_guard(void)
{
        struct weir__stack *first = take(), *second = take();

        CU_ASSERT_EQUAL(fault_at(low(second)), 0);
        CU_ASSERT_EQUAL(fault_at(low(second) - 1), SIGSEGV);
        CU_ASSERT_EQUAL(fault_at(low(second) - GUARD), SIGSEGV);
        CU_ASSERT_EQUAL(fault_at(low(second) - GUARD - 1), 0); /* another stack */
        bool is_guard = false;
        CU_ASSERT_PTR_EQUAL(weir__arenas_find(low(second), &is_guard), second);
        CU_ASSERT(!is_guard);
        CU_ASSERT_PTR_EQUAL(weir__arenas_find(low(second) - 1, &is_guard), second);
        CU_ASSERT(is_guard);
        CU_ASSERT_PTR_EQUAL(weir__arenas_find(low(second) - GUARD, &is_guard), second);
        CU_ASSERT(is_guard);
        CU_ASSERT_PTR_NULL(weir__arenas_find(&is_guard, &is_guard));
        CU_ASSERT_PTR_NULL(weir__arenas_find(NULL, &is_guard));
        CU_ASSERT_PTR_NULL(weir__arenas_find((void *)UINTPTR_MAX, &is_guard));
        weir__stack_give(first);
        weir__stack_give(second);
}

static void
below_a_stack_is_a_guard(void)
{
        begin();
        look_at_guard();
        begin();
        atomic_store(&is_old, true);
        atomic_store(&guards, 0);
        look_at_guard();
        CU_ASSERT(atomic_load(&guards) >= 2);
        begin();
}

static void
kernel_that_says_yes_and_does_nothing_is_not_believed(void)
{
        begin();
        atomic_store(&is_emulated, true);
        look_at_guard();
        begin();
}

static void
guard_stays_when_pages_go_back(void)
{
        begin();
        struct weir__stack **stacks = take_many(1024, 8192);
        for (size_t i = 0; i < 1024; i++)
                if (i % 16)
                        weir__stack_give(stacks[i]);
        for (size_t i = 0; i < 1024; i++)
                if (i % 16)
                        stacks[i] = take();
        CU_ASSERT_EQUAL(fault_at(low(stacks[100]) - 1), SIGSEGV);
        CU_ASSERT_EQUAL(fault_at(low(stacks[900]) - 1), SIGSEGV);
        for (size_t i = 0; i < 1024; i++)
                weir__stack_give(stacks[i]);
        free(stacks);
        begin();
}

/* -- limits -- */

static void
without_guards_in_the_kernel_stacks_are_limited_and_the_log_says_so(void)
{
        struct weir__stack *stacks[50], *stack = (struct weir__stack *)1;
        struct weir__stack_stats stats;

        begin();
        weir__guard_pretend(50);
        for (size_t i = 0; i < 50; i++)
                stacks[i] = take();
        CU_ASSERT_EQUAL(weir__stack_take(&stack), -EAGAIN);
        CU_ASSERT_PTR_EQUAL(stack, (struct weir__stack *)1);
        CU_ASSERT_EQUAL(weir__stack_take(&stack), -EAGAIN);
        CU_ASSERT_EQUAL(messages, 1);
        CU_ASSERT_PTR_NOT_NULL(strstr(last_message, "vm.max_map_count"));
        weir__stack_stats(&stats);
        CU_ASSERT_EQUAL(stats.cap, 50);
        CU_ASSERT_EQUAL(stats.in_use, 50);
        weir__stack_give(stacks[7]);
        stack = take();
        CU_ASSERT_PTR_EQUAL(stack, stacks[7]);
        for (size_t i = 0; i < 50; i++)
                weir__stack_give(stacks[i]);
        begin();
}

static void *
give_50(void *stacks)
{
        for (size_t i = 0; i < 50; i++)
                weir__stack_give(((struct weir__stack **)stacks)[i]);
        return NULL;
}

static void
at_the_limit_a_stack_that_another_thread_gave_back_serves(void)
{
        struct weir__stack *stack = NULL, *own[50];
        pthread_t thread;

        begin();
        weir__guard_pretend(50);
        struct weir__stack **stacks = take_many(50, 64);
        CU_ASSERT_EQUAL(weir__stack_take(&stack), -EAGAIN); /* the cache has some, which have no guard */
        pthread_create(&thread, NULL, give_50, stacks);
        pthread_join(thread, NULL);
        for (size_t i = 0; i < 50; i++)
                own[i] = take();
        CU_ASSERT_EQUAL(weir__stack_take(&stack), -EAGAIN);
        for (size_t i = 0; i < 50; i++)
                weir__stack_give(own[i]);
        free(stacks);
        begin();
}

static void
limit_is_45_percent_of_the_mappings(void)
{
        unsigned long maps = 0;
        struct weir__stack_stats stats;
        FILE *file = fopen("/proc/sys/vm/max_map_count", "r");

        CU_ASSERT_PTR_NOT_NULL_FATAL(file);
        CU_ASSERT_EQUAL(fscanf(file, "%lu", &maps), 1);
        fclose(file);
        begin();
        atomic_store(&is_old, true);
        weir__stack_give(take());
        weir__stack_stats(&stats);
        CU_ASSERT(stats.cap >= maps / 100 * 44 && stats.cap <= maps / 100 * 46);
        begin();
        if (WEIR_TEST_SANITIZED)
                return;
        weir__stack_give(take());
        weir__stack_stats(&stats);
        if (stats.cap != SIZE_MAX)
                printf("(this kernel has no guards) ");
        begin();
}

static void
kernel_that_refuses_a_guard_is_eagain(void)
{
        struct weir__stack *stack = NULL;

        begin();
        atomic_store(&is_old, true);
        atomic_store(&refuses_guards, true);
        CU_ASSERT_EQUAL(weir__stack_take(&stack), -EAGAIN);
        atomic_store(&refuses_guards, false);
        weir__stack_give(take());
        begin();
}

static void
without_address_space_there_is_no_stack(void)
{
        struct weir__stack *stack = NULL;

        begin();
        atomic_store(&largest, 65536);
        CU_ASSERT_EQUAL(weir__stack_take(&stack), -ENOMEM);
        CU_ASSERT_PTR_NULL(stack);
        atomic_store(&largest, SIZE_MAX);
        weir__stack_give(take());
        begin();
}

static void
where_the_system_refuses_an_arena_a_smaller_one_serves(void)
{
        struct weir__stack *stacks[100];

        begin();
        atomic_store(&largest, ARENA / 8);
        for (size_t i = 0; i < 100; i++)
                touch(stacks[i] = take(), 4096);
        look_at_guard();
        for (size_t i = 0; i < 100; i++)
                weir__stack_give(stacks[i]);
        begin();
}

static void *
take_with_a_shadow_stack(void *none)
{
        struct weir__stack *stack = NULL;

        atomic_store(&shadows, true);
        CU_ASSERT_EQUAL(weir__stack_take(&stack), -ENOTSUP);
        CU_ASSERT_EQUAL(weir__stack_take(&stack), -ENOTSUP);
        atomic_store(&shadows, false);
        CU_ASSERT_EQUAL(messages, 1);
        CU_ASSERT_PTR_NOT_NULL(strstr(last_message, "shadow stack"));
        weir__stack_give(take());
        return none;
}

static void
thread_with_a_shadow_stack_gets_none(void)
{
#ifdef __x86_64__
        pthread_t thread;

        begin();
        pthread_create(&thread, NULL, take_with_a_shadow_stack, NULL);
        pthread_join(thread, NULL);
        begin();
#endif
}

/* -- sizes -- */

static void
size_is_that_of_the_configuration(void)
{
        static const size_t sizes[] = {WEIR__STACK_SIZE_MIN, 100000, 192 << 10, 500000, WEIR__STACK_SIZE_MAX};
        struct weir__stack_stats stats;

        begin();
        struct weir__stack *old = take();
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
                weir__stack_configure(sizes[i]);
                weir__stack_stats(&stats);
                CU_ASSERT(stats.size >= sizes[i] && stats.size < sizes[i] + 4096);
                struct weir__stack **stacks = take_many(40, 4096);
                for (size_t j = 0; j < 40; j++) {
                        CU_ASSERT(stacks[j]->size <= stats.size && stacks[j]->size + 1024 > stats.size);
                        memset(low(stacks[j]), 1, 4096);
                        weir__stack_give(stacks[j]);
                }
                free(stacks);
        }
        weir__stack_give(old);
        begin();
}

/* -- memory that goes back -- */

static void
stacks_that_were_deep_keep_few_pages(void)
{
        begin();
        struct weir__stack *keeps[200];
        size_t start = resident();
        struct weir__stack **stacks = take_many(800, 150 << 10);
        for (size_t i = 0; i < 800; i++)
                if (i % 4)
                        weir__stack_give(stacks[i]);
                else
                        keeps[i / 4] = stacks[i];
        expect_near(start, ((200 + 64 + 64) * 160 + 600 * 36) << 10); /* in use, in the cache, deep, shallow */
        for (size_t i = 0; i < 200; i++)
                weir__stack_give(keeps[i]);
        free(stacks);
        begin();
}

static void
deep_stacks_that_are_used_again_and_again_keep_their_pages(void)
{
        begin();
        struct weir__stack *stacks[90];
        atomic_store(&given_back, 0);
        for (int round = 0; round < 50; round++) { /* more than the cache has, so they go to the arenas */
                for (size_t i = 0; i < 90; i++)
                        touch(stacks[i] = take(), 150 << 10);
                for (size_t i = 0; i < 90; i++)
                        weir__stack_give(stacks[i]);
        }
        CU_ASSERT_EQUAL(atomic_load(&given_back), 0);
        begin();
}

/* -- threads -- */

static void *
take_and_give(void *stacks)
{
        (void)stacks;
        for (int round = 0; round < 20; round++) {
                struct weir__stack *taken[150];

                for (size_t i = 0; i < 150; i++) {
                        taken[i] = take();
                        *(struct weir__stack **)(taken[i]->top - 64) = taken[i];
                }
                for (size_t i = 0; i < 150; i++) {
                        CU_ASSERT_PTR_EQUAL(*(struct weir__stack **)(taken[i]->top - 64), taken[i]);
                        weir__stack_give(taken[i]);
                }
        }
        return NULL;
}

static void
threads_take_and_give_at_once_and_leave_nothing(void)
{
        pthread_t threads[4];

        begin();
        for (size_t i = 0; i < 4; i++)
                pthread_create(&threads[i], NULL, take_and_give, NULL);
        for (size_t i = 0; i < 4; i++)
                pthread_join(threads[i], NULL);
        begin(); /* the threads' caches were emptied */
}

static void *
give_all(void *stacks)
{
        for (size_t i = 0; i < 1000; i++)
                weir__stack_give(((struct weir__stack **)stacks)[i]);
        return NULL;
}

static void
stacks_may_be_given_by_another_thread(void)
{
        struct weir__stack_stats stats;
        pthread_t thread;

        begin();
        struct weir__stack **stacks = take_many(1000, 64);
        weir__stack_stats(&stats);
        CU_ASSERT_EQUAL(stats.in_use, 1000);
        CU_ASSERT(stats.made >= 1000);
        pthread_create(&thread, NULL, give_all, stacks);
        pthread_join(thread, NULL);
        weir__stack_stats(&stats);
        CU_ASSERT_EQUAL(stats.in_use, 0);
        free(stacks);
        begin();
}

static _Atomic bool stop;

static void *
take_until_stopped(void *none)
{
        while (!atomic_load(&stop))
                take_and_give(NULL);
        return none;
}

static void
child_of_fork_takes_and_gives(void)
{
        pthread_t thread;

        begin();
        atomic_store(&stop, false);
        pthread_create(&thread, NULL, take_until_stopped, NULL);
        for (int i = 0; i < (WEIR_TEST_SANITIZED ? 5 : 50); i++) {
                pid_t child = fork();
                int status = -1;

                if (child == 0) {
                        weir_test_leaks_do_not_count = 1;
                        alarm(20); /* for a lock that nobody releases */
                        take_and_give(NULL);
                        _exit(0);
                }
                CU_ASSERT_EQUAL(waitpid(child, &status, 0), child);
                CU_ASSERT_EQUAL(status, 0);
        }
        atomic_store(&stop, true);
        pthread_join(thread, NULL);
        begin();
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(stacks_lie_apart_and_can_be_used_down_to_their_size),
                WEIR_TEST(stack_that_was_given_last_is_taken_first),
                WEIR_TEST(below_a_stack_is_a_guard),
                WEIR_TEST(kernel_that_says_yes_and_does_nothing_is_not_believed),
                WEIR_TEST(guard_stays_when_pages_go_back),
                WEIR_TEST(without_guards_in_the_kernel_stacks_are_limited_and_the_log_says_so),
                WEIR_TEST(at_the_limit_a_stack_that_another_thread_gave_back_serves),
                WEIR_TEST(limit_is_45_percent_of_the_mappings),
                WEIR_TEST(kernel_that_refuses_a_guard_is_eagain),
                WEIR_TEST(without_address_space_there_is_no_stack),
                WEIR_TEST(where_the_system_refuses_an_arena_a_smaller_one_serves),
                WEIR_TEST(thread_with_a_shadow_stack_gets_none),
                WEIR_TEST(size_is_that_of_the_configuration),
                WEIR_TEST(stacks_that_were_deep_keep_few_pages),
                WEIR_TEST(deep_stacks_that_are_used_again_and_again_keep_their_pages),
                WEIR_TEST(threads_take_and_give_at_once_and_leave_nothing),
                WEIR_TEST(stacks_may_be_given_by_another_thread),
                WEIR_TEST(child_of_fork_takes_and_gives),
        };

        weir_log_set(note_log, NULL);
        atomic_store(&weir__phase, WEIR__PHASE_UP); /* memory is worth keeping, as in a program that runs */
        int failed = weir_test_main("stack", tests, sizeof tests / sizeof *tests);
        atomic_store(&weir__phase, WEIR__PHASE_DOWN);
        return failed;
}
