/* test/context_test.c: contexts: what a switch keeps, where an unwinder ends, and what is said when a stack is used up.
 *
 * The suite is built a second time with the switch of ucontext.h (test/CMakeLists.txt). */
#include <errno.h>
#include <execinfo.h>
#include <fenv.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include <unwind.h>

#include "kernel/stack/overflow.h"
#include "kernel/stack/stack.h"
#include "kernel/stack/switch.h"
#include "test/support.h"

struct run {
        struct weir__context context;
        struct weir__stack *stack;
        void (*act)(struct run *run);
        int step;
        bool is_over;
        void *value;
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
        CU_ASSERT_EQUAL_FATAL(weir__stack_take(&run->stack), 0);
        weir__context_make(&run->context, run->stack, run_body, run);
}

static void
end(struct run *run)
{
        CU_ASSERT(run->is_over);
        weir__stack_give(run->stack);
}

static void
finish(struct run *run)
{
        while (!run->is_over)
                weir__context_enter(&run->context);
        end(run);
}

/* -- entering and leaving -- */

static void
take_three_steps(struct run *run)
{
        for (run->step = 1; run->step < 3; run->step++)
                weir__context_leave(&run->context);
}

static void
context_goes_on_where_it_left(void)
{
        struct run run;

        begin(&run, take_three_steps);
        CU_ASSERT_EQUAL(run.step, 0);
        weir__context_enter(&run.context);
        CU_ASSERT_EQUAL(run.step, 1);
        weir__context_enter(&run.context);
        CU_ASSERT_EQUAL(run.step, 2);
        CU_ASSERT(!run.is_over);
        weir__context_enter(&run.context);
        CU_ASSERT_EQUAL(run.step, 3);
        end(&run);
}

static void
contexts_run_by_turns(void)
{
        struct run runs[100];

        for (size_t i = 0; i < 100; i++)
                begin(&runs[i], take_three_steps);
        for (int step = 1; step <= 3; step++)
                for (size_t i = 0; i < 100; i++) {
                        weir__context_enter(&runs[i].context);
                        CU_ASSERT_EQUAL(runs[i].step, step);
                }
        for (size_t i = 0; i < 100; i++)
                end(&runs[i]);
}

/* A frame as the ABI wants it: a vector in it is aligned, and a function with many arguments works. */
static void
note_alignment(struct run *run)
{
        _Alignas(16) volatile char vector[16];
        char text[64];

        run->value = (void *)((uintptr_t)vector % 16);
        snprintf(text, sizeof text, "%g %d %Lg", 1.5, 2, 3.5L); /* saves vectors on the stack */
        run->step = strcmp(text, "1.5 2 3.5");
        CU_ASSERT_EQUAL((uintptr_t)__builtin_frame_address(0) % 16, 0);
}

static void
stack_of_a_context_is_aligned(void)
{
        struct run run;

        begin(&run, note_alignment);
        finish(&run);
        CU_ASSERT_PTR_NULL(run.value);
        CU_ASSERT_EQUAL(run.step, 0);
}

static void
spoil_registers(struct run *run)
{
        for (int i = 0; i < 3; i++) {
#if defined(__x86_64__)
                __asm__ volatile(
                        "xor %%ebx, %%ebx\n xor %%r12d, %%r12d\n xor %%r13d, %%r13d\n xor %%r14d, %%r14d\n xor %%r15d, %%r15d" ::
                                : "rbx", "r12", "r13", "r14", "r15");
#elif defined(__aarch64__)
                __asm__ volatile(
                        "mov x19, 0\n mov x20, 0\n mov x21, 0\n mov x22, 0\n mov x23, 0\n mov x24, 0\n mov x25, 0\n mov x26, "
                        "0\n fmov d8, xzr\n fmov d9, xzr\n fmov d15, xzr" ::
                                : "x19", "x20", "x21", "x22", "x23", "x24", "x25", "x26", "d8", "d9", "d15");
#endif
                weir__context_leave(&run->context);
        }
}

static volatile long one = 1;

static void
registers_are_kept(void)
{
        struct run run;
        long a = one, b = 2 * one, c = 3 * one, d = 4 * one, e = 5 * one, f = 6 * one, g = 7 * one, h = 8 * one;
        double x = 1.5 * one, y = 2.5 * one, z = 3.5 * one;

        begin(&run, spoil_registers);
        while (!run.is_over) {
                weir__context_enter(&run.context);
                CU_ASSERT(a == 1 && b == 2 && c == 3 && d == 4 && e == 5 && f == 6 && g == 7 && h == 8);
                CU_ASSERT(x == 1.5 && y == 2.5 && z == 3.5);
        }
        end(&run);
}

static volatile double ten = 10, three = 3;
static volatile long double long_ten = 10, long_three = 3;

/* By both units that x86-64 has. */
static bool
is_rounded_up(void)
{
        return ten / three * 3 > 10 || ten / three > 10 / 3.0;
}

static void
round_up(struct run *run)
{
        long double before = long_ten / long_three;

        CU_ASSERT_EQUAL(fegetround(), FE_TONEAREST);
        fesetround(FE_UPWARD);
        run->step = 1;
        weir__context_leave(&run->context);
        CU_ASSERT_EQUAL(fegetround(), FE_UPWARD);
        CU_ASSERT(is_rounded_up());
        CU_ASSERT(long_ten / long_three >= before);
}

static void
stay_as_it_is(struct run *run)
{
        CU_ASSERT_EQUAL(fegetround(), FE_TONEAREST);
        weir__context_leave(&run->context);
        CU_ASSERT_EQUAL(fegetround(), FE_TONEAREST);
}

static void
rounding_stays_with_its_context(void)
{
        struct run up, other;

        begin(&up, round_up);
        begin(&other, stay_as_it_is);
        weir__context_enter(&up.context);
        CU_ASSERT_EQUAL(fegetround(), FE_TONEAREST);
        CU_ASSERT(!is_rounded_up());
        weir__context_enter(&other.context);
        fesetround(FE_DOWNWARD);
        weir__context_enter(&up.context);
        CU_ASSERT_EQUAL(fegetround(), FE_DOWNWARD);
        weir__context_enter(&other.context);
        CU_ASSERT_EQUAL(fegetround(), FE_DOWNWARD);
        fesetround(FE_TONEAREST);
        end(&up);
        end(&other);
}

/* -- threads -- */

static void *
enter(void *run)
{
        weir__context_enter(&((struct run *)run)->context);
        return NULL;
}

static void
another_thread_may_enter_the_next_time(void)
{
        struct run run;

        begin(&run, take_three_steps);
        while (!run.is_over) {
                pthread_t thread;

                pthread_create(&thread, NULL, enter, &run);
                pthread_join(thread, NULL);
        }
        end(&run);
}

#define SHARED 8

static struct run shared[SHARED];
static pthread_mutex_t locks[SHARED];

static void
count_to_a_thousand(struct run *run)
{
        volatile char frame[512];

        for (run->step = 0; run->step < 1000; run->step++) {
                frame[run->step % 512] = (char)run->step;
                weir__context_leave(&run->context);
                CU_ASSERT_EQUAL(frame[run->step % 512], (char)run->step);
        }
}

static void *
enter_any(void *seed)
{
        struct weir_test_random random = {(uintptr_t)seed};

        for (int over = 0; over < SHARED * 50;) {
                size_t i = weir_test_random_below(&random, SHARED);

                pthread_mutex_lock(&locks[i]);
                if (shared[i].is_over)
                        over++;
                else
                        weir__context_enter(&shared[i].context);
                pthread_mutex_unlock(&locks[i]);
        }
        return NULL;
}

static void
contexts_go_from_thread_to_thread(void)
{
        pthread_t threads[4];

        for (size_t i = 0; i < SHARED; i++) {
                pthread_mutex_init(&locks[i], NULL);
                begin(&shared[i], count_to_a_thousand);
        }
        for (uintptr_t i = 0; i < 4; i++)
                pthread_create(&threads[i], NULL, enter_any, (void *)(i + 1));
        for (size_t i = 0; i < 4; i++)
                pthread_join(threads[i], NULL);
        for (size_t i = 0; i < SHARED; i++)
                finish(&shared[i]);
}

/* -- unwinding -- */

static _Unwind_Reason_Code
count_frame(struct _Unwind_Context *context, void *count)
{
        (void)context;
        return ++*(int *)count > 50 ? _URC_NORMAL_STOP : _URC_NO_REASON;
}

static void
unwind(struct run *run)
{
        void *frames[50];
        int count = 0;

        run->step = backtrace(frames, 50);
        run->value = (void *)(uintptr_t)_Unwind_Backtrace(count_frame, &count);
        CU_ASSERT(count >= 2 && count < 10);
}

static void
unwinding_ends_where_the_context_began(void)
{
        struct run run;

        begin(&run, unwind);
        finish(&run);
        CU_ASSERT(run.step >= 2 && run.step < 10);
        CU_ASSERT_EQUAL((uintptr_t)run.value, _URC_END_OF_STACK);
}

/* -- stacks that are used up: in children -- */

static const char *
describe(const struct weir__stack *stack)
{
        return stack->owner;
}

static __attribute__((noinline)) int
recurse(volatile int *depth)
{
        volatile char frame[256];

        frame[0] = (char)++*depth;
        return *depth ? recurse(depth) + frame[0] : 0;
}

static void
overflow_by_recursion(struct run *run)
{
        volatile int depth = 0;

        run->stack->owner = "crawl";
        recurse(&depth);
}

/* The frame before is looked at, so that no compiler makes a loop of it. */
static __attribute__((noinline)) int
use_50_kb(int depth, volatile char *before)
{
        volatile char frame[50000];

        frame[0] = (char)(depth + before[0]);
        int sum = depth < 1000 ? use_50_kb(depth + 1, frame) : 0;
        return sum + frame[0];
}

static void
overflow_by_a_large_frame(struct run *run)
{
        volatile char none[1] = {0};

        run->stack->owner = "parse";
        use_50_kb(0, none);
}

static volatile int *volatile nowhere = (volatile int *)8;

static void
write_to_nowhere(struct run *run)
{
        (void)run;
        *nowhere = 1;
}

static void
send_to_itself(struct run *run)
{
        (void)run;
        raise(SIGSEGV);
}

static void *
run_on_thread(void *act)
{
        struct run run;

        begin(&run, *(void (**)(struct run *))act);
        finish(&run);
        return NULL;
}

/* qemu says how the child has ended. */
static void
forget_emulator(char *said)
{
        char *its_line = strstr(said, "qemu: uncaught target signal");

        if (its_line)
                *its_line = 0;
}

/* Runs in a child, after `prepare`.  What it writes to stderr comes into `said`.  Returns its status. */
static int
run_in_child(void (*prepare)(void), void (*act)(struct run *run), bool is_on_thread, char *said, size_t size)
{
        int ends[2], status = -1;
        char *began = said;
        ssize_t count;

        CU_ASSERT_EQUAL_FATAL(pipe(ends), 0);
        fflush(stdout);
        pid_t child = fork();
        if (child == 0) {
                struct rlimit no_core = {0, 0};
                pthread_t thread;

                weir_test_leaks_do_not_count = 1;
                setrlimit(RLIMIT_CORE, &no_core);
                dup2(ends[1], STDERR_FILENO);
                weir__stack_describe = describe;
                if (prepare)
                        prepare();
                if (!is_on_thread)
                        run_on_thread(&act);
                else if (pthread_create(&thread, NULL, run_on_thread, &act) == 0)
                        pthread_join(thread, NULL);
                _exit(99);
        }
        close(ends[1]);
        for (*said = 0; size > 1 && (count = read(ends[0], said, size - 1)) > 0; said += count, size -= (size_t)count)
                said[count] = 0;
        close(ends[0]);
        CU_ASSERT_EQUAL(waitpid(child, &status, 0), child);
        forget_emulator(began);
        return status;
}

/* The handler of before is that of nobody: a sanitizer has one. */
static void
take_default(void)
{
        signal(SIGSEGV, SIG_DFL);
}

static void
expect_signal(int status, int signo)
{
        CU_ASSERT(WIFSIGNALED(status) && WTERMSIG(status) == signo);
}

static void
overflow_is_named(void)
{
        char said[4096];

        for (int is_on_thread = 0; is_on_thread < 2; is_on_thread++) {
                expect_signal(run_in_child(take_default, overflow_by_recursion, is_on_thread, said, sizeof said), SIGSEGV);
                CU_ASSERT_PTR_NOT_NULL(strstr(said, "weir: stack overflow in fiber \"crawl\" at 0x"));
                CU_ASSERT_PTR_NOT_NULL(strstr(said, WEIR_TEST_SANITIZED ? "all 960 KiB" : "all 192 KiB"));
                CU_ASSERT_PTR_NOT_NULL(strstr(said, "fiber_stack_size"));
                CU_ASSERT_PTR_EQUAL(strchr(said, '\n'), said + strlen(said) - 1);
        }
}

static void
overflow_by_a_large_frame_is_named(void)
{
        char said[4096];

        expect_signal(run_in_child(take_default, overflow_by_a_large_frame, true, said, sizeof said), SIGSEGV);
        CU_ASSERT_PTR_NOT_NULL(strstr(said, "weir: stack overflow in fiber \"parse\" at 0x"));
}

static void
other_faults_end_the_process_as_before(void)
{
        char said[4096];

        expect_signal(run_in_child(take_default, write_to_nowhere, false, said, sizeof said), SIGSEGV);
        CU_ASSERT_STRING_EQUAL(said, "");
        expect_signal(run_in_child(take_default, write_to_nowhere, true, said, sizeof said), SIGSEGV);
        CU_ASSERT_STRING_EQUAL(said, "");
        expect_signal(run_in_child(take_default, send_to_itself, false, said, sizeof said), SIGSEGV);
        CU_ASSERT_STRING_EQUAL(said, "");
}

static void *expected_address;

static void
exit_with_information(int signo, siginfo_t *info, void *context)
{
        sigset_t blocked;
        bool is_right = signo == SIGSEGV && context && (!expected_address || info->si_addr == expected_address);

        sigprocmask(SIG_BLOCK, NULL, &blocked);
        _exit(is_right && sigismember(&blocked, SIGUSR1) && sigismember(&blocked, SIGSEGV) ? 7 : 8);
}

static void
take_handler_with_information(void)
{
        struct sigaction action = {.sa_sigaction = exit_with_information, .sa_flags = SA_SIGINFO};

        sigaddset(&action.sa_mask, SIGUSR1);
        sigaction(SIGSEGV, &action, NULL);
}

static void
take_handler_for_8(void)
{
        expected_address = (void *)8;
        take_handler_with_information();
}

static void
exit_with_9(int signo)
{
        _exit(signo == SIGSEGV ? 9 : 10);
}

static void
take_plain_handler(void)
{
        signal(SIGSEGV, exit_with_9);
}

static void
fault_again(int signo)
{
        (void)signo;
        *nowhere = 1;
}

/* The second fault finds the default action. */
static void
take_handler_for_once(void)
{
        struct sigaction action = {.sa_handler = fault_again, .sa_flags = (int)(SA_RESETHAND | SA_NODEFER)};

        sigaction(SIGSEGV, &action, NULL);
}

static void
ignore(void)
{
        signal(SIGSEGV, SIG_IGN);
}

static void
handler_of_the_program_gets_its_faults(void)
{
        char said[4096];

        CU_ASSERT_EQUAL(WEXITSTATUS(run_in_child(take_handler_for_8, write_to_nowhere, false, said, sizeof said)), 7);
        CU_ASSERT_STRING_EQUAL(said, "");
        CU_ASSERT_EQUAL(WEXITSTATUS(run_in_child(take_handler_for_8, write_to_nowhere, true, said, sizeof said)), 7);
        CU_ASSERT_EQUAL(WEXITSTATUS(run_in_child(take_plain_handler, write_to_nowhere, true, said, sizeof said)), 9);
        CU_ASSERT_EQUAL(WEXITSTATUS(run_in_child(take_plain_handler, send_to_itself, true, said, sizeof said)), 9);
        CU_ASSERT_STRING_EQUAL(said, "");
        expect_signal(run_in_child(take_handler_for_once, write_to_nowhere, false, said, sizeof said), SIGSEGV);
        CU_ASSERT_EQUAL(WEXITSTATUS(run_in_child(ignore, send_to_itself, false, said, sizeof said)), 99);
        expect_signal(run_in_child(ignore, write_to_nowhere, false, said, sizeof said), SIGSEGV);
}

static void
handler_of_the_program_runs_after_the_message(void)
{
        char said[4096];

        CU_ASSERT_EQUAL(WEXITSTATUS(run_in_child(take_handler_with_information, overflow_by_recursion, true, said, sizeof said)),
                        7);
        CU_ASSERT_PTR_NOT_NULL(strstr(said, "weir: stack overflow in fiber \"crawl\" at 0x"));
}

/* -- alternate stacks -- */

static void *
look_at_alternate(void *own)
{
        stack_t now, after;
        struct run run;

        if (own)
                sigaltstack(&(stack_t){.ss_sp = own, .ss_size = 65536}, NULL);
        CU_ASSERT_EQUAL(sigaltstack(NULL, &now), 0);
        begin(&run, take_three_steps);
        finish(&run);
        CU_ASSERT_EQUAL(sigaltstack(NULL, &after), 0);
        CU_ASSERT(!(after.ss_flags & SS_DISABLE));
        if (own)
                CU_ASSERT_PTR_EQUAL(after.ss_sp, own);
        return NULL;
}

static void
alternate_stack_of_the_program_stays(void)
{
        void *own = malloc(65536);
        pthread_t thread;

        pthread_create(&thread, NULL, look_at_alternate, WEIR_TEST_SANITIZED ? NULL : own);
        pthread_join(thread, NULL);
        pthread_create(&thread, NULL, look_at_alternate, NULL);
        pthread_join(thread, NULL);
        free(own);
}

static size_t
mappings(void)
{
        size_t count = 0;
        FILE *file = fopen("/proc/self/maps", "r");

        for (int c; (c = getc(file)) != EOF;)
                count += c == '\n';
        fclose(file);
        return count;
}

static void
alternate_stack_goes_with_its_thread(void)
{
        pthread_t thread;
        size_t before = 0;

        for (int i = 0; i < 200; i++) {
                pthread_create(&thread, NULL, look_at_alternate, NULL);
                pthread_join(thread, NULL);
                if (i == 50)
                        before = mappings();
        }
        CU_ASSERT(mappings() < before + 50);
}

int
main(void)
{
        static const struct weir_test tests[] = {
                /* First: no stack was taken yet, so children choose which handler was there before. */
                WEIR_TEST(overflow_is_named),
                WEIR_TEST(overflow_by_a_large_frame_is_named),
                WEIR_TEST(other_faults_end_the_process_as_before),
                WEIR_TEST(handler_of_the_program_gets_its_faults),
                WEIR_TEST(handler_of_the_program_runs_after_the_message),
                WEIR_TEST(context_goes_on_where_it_left),
                WEIR_TEST(contexts_run_by_turns),
                WEIR_TEST(stack_of_a_context_is_aligned),
                WEIR_TEST(registers_are_kept),
                WEIR_TEST(rounding_stays_with_its_context),
                WEIR_TEST(another_thread_may_enter_the_next_time),
                WEIR_TEST(contexts_go_from_thread_to_thread),
                WEIR_TEST(unwinding_ends_where_the_context_began),
                WEIR_TEST(alternate_stack_of_the_program_stays),
                WEIR_TEST(alternate_stack_goes_with_its_thread),
        };

        return weir_test_main("context", tests, sizeof tests / sizeof *tests);
}
