/* kernel/stack/overflow.c: the handler of faults.
 *
 * Only SIGSEGV is handled: no guard of Linux raises SIGBUS.  The handler of before gets every fault, ours after the message, with
 * its own mask and flags.  But it runs on the alternate stack, whether it asked for that or not: the thread's own may be used up.
 * Where there is none, the fault is repeated with the default action, so that the core shows the place.
 *
 * A handler that the program installs later replaces this one.
 *
 * Threads: any.  Each thread has an alternate stack, its own if it had one, from its first stack or context to its end.
 * Locks:   none. */
#include "kernel/stack/overflow.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include "kernel/stack/arena.h"

#define ALTERNATE ((size_t)64 << 10) /* bytes for handlers, beside the registers that the kernel saves */

#ifndef AT_MINSIGSTKSZ
#define AT_MINSIGSTKSZ 51
#endif

_Thread_local bool weir__overflow_is_watched;

static struct sigaction before; /* constant once installed, but for SA_RESETHAND */

/* -- the message: in a signal handler there is no printf -- */

struct text {
        char bytes[512];
        size_t size;
};

static void
add(struct text *text, const char *what)
{
        for (; *what && text->size < sizeof text->bytes - 1; what++)
                text->bytes[text->size++] = (unsigned char)*what < ' ' || *what == 127 ? '?' : *what;
}

static void
add_number(struct text *text, uintptr_t number, unsigned base)
{
        char digits[24], *at = digits + sizeof digits;

        *--at = 0;
        do
                *--at = "0123456789abcdef"[number % base];
        while (number /= base);
        add(text, at);
}

/* "weir: stack overflow in fiber "crawl" at 0x7f12: all 192 KiB ..." */
static void
say_overflow(const struct weir__stack *stack, const void *address)
{
        struct text text = {.size = 0};
        const char *name = weir__stack_describe ? weir__stack_describe(stack) : NULL;

        add(&text, "weir: stack overflow in ");
        add(&text, name ? "fiber \"" : "a fiber");
        add(&text, name ? name : "");
        add(&text, name ? "\" at 0x" : " at 0x");
        add_number(&text, (uintptr_t)address, 16);
        add(&text, ": all ");
        add_number(&text, (stack->size + 1023) >> 10, 10);
        add(&text, " KiB of its stack are used; raise fiber_stack_size of struct weir_config, or use less stack");
        text.bytes[text.size++] = '\n';
        if (write(STDERR_FILENO, text.bytes, text.size) < 0)
                return; /* nobody is there to be told */
}

/* -- the handler -- */

static const void *
stack_pointer_of(const ucontext_t *context)
{
#if defined(__x86_64__) && defined(REG_RSP)
        return (const void *)context->uc_mcontext.gregs[REG_RSP];
#elif defined(__aarch64__)
        return (const void *)context->uc_mcontext.sp;
#else
        (void)context;
        return NULL;
#endif
}

/* The stack whose guard was touched, and where; NULL: none.  The kernel itself may have found the stack used up, for the frame of
 * another signal.  Then the fault has no address, and the stack pointer tells. */
static const struct weir__stack *
overflowed(const siginfo_t *info, const ucontext_t *context, const void **address)
{
        bool is_guard = false;
        const struct weir__stack *stack = info->si_code > 0 ? weir__arenas_find(*address = info->si_addr, &is_guard) : NULL;

        if (stack && is_guard)
                return stack;
        stack = info->si_code > 0 ? weir__arenas_find(*address = stack_pointer_of(context), &is_guard) : NULL;
        return stack && is_guard ? stack : NULL;
}

/* The fault comes again when the handler returns; a signal that was sent does not, so it is sent again. */
static void
act_by_default(int signo, const siginfo_t *info)
{
        struct sigaction none = {.sa_handler = SIG_DFL};

        if (before.sa_handler == SIG_IGN && info->si_code <= 0)
                return;
        sigaction(signo, &none, NULL);
        if (info->si_code <= 0)
                raise(signo);
}

static void
handle(int signo, siginfo_t *info, void *context)
{
        int saved = errno;
        const void *address;
        const struct weir__stack *stack = overflowed(info, context, &address);
        struct sigaction next = before;

        if (stack)
                say_overflow(stack, address);
        errno = saved;
        if (next.sa_handler == SIG_DFL || next.sa_handler == SIG_IGN) {
                act_by_default(signo, info);
                return;
        }
        if (next.sa_flags & SA_RESETHAND)
                before.sa_handler = SIG_DFL;
        if (next.sa_flags & SA_SIGINFO)
                next.sa_sigaction(signo, info, context);
        else
                next.sa_handler(signo);
}

/* -- preparations -- */

static pthread_key_t key; /* of the alternate stack of a thread, if it is ours */
static bool has_key;

static size_t
alternate_size(void)
{
        return ALTERNATE + ((getauxval(AT_MINSIGSTKSZ) + 4095) & ~4095UL);
}

static void
drop_alternate(void *memory)
{
        stack_t now;

        if (sigaltstack(NULL, &now) == 0 && now.ss_sp == memory)
                sigaltstack(&(stack_t){.ss_flags = SS_DISABLE}, NULL);
        munmap(memory, alternate_size());
}

static void
prepare_process(void)
{
        struct sigaction own = {.sa_sigaction = handle};

        has_key = pthread_key_create(&key, drop_alternate) == 0;
        if (sigaction(SIGSEGV, NULL, &before))
                return;
        own.sa_mask = before.sa_mask;
        own.sa_flags = SA_SIGINFO | SA_ONSTACK | (before.sa_flags & (SA_NODEFER | SA_RESTART));
        sigaction(SIGSEGV, &own, NULL);
}

/* Without memory for it an overflow ends the process without a message. */
static void
prepare_thread(void)
{
        stack_t now;

        if (!has_key || sigaltstack(NULL, &now) || !(now.ss_flags & SS_DISABLE))
                return;
        void *memory = mmap(NULL, alternate_size(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (memory == MAP_FAILED)
                return;
        if (pthread_setspecific(key, memory) || sigaltstack(&(stack_t){.ss_sp = memory, .ss_size = alternate_size()}, NULL))
                drop_alternate(memory);
}

__attribute__((noinline)) void
weir__overflow_watch(void)
{
        static pthread_once_t once = PTHREAD_ONCE_INIT;

        if (weir__overflow_is_watched)
                return;
        weir__overflow_is_watched = true;
        pthread_once(&once, prepare_process);
        prepare_thread();
}
