/* kernel/stack/switch.c: entering and leaving contexts, and what a switch carries besides registers.
 *
 *      sanitizers   are told before the switch where it goes, and behind it that it has come there
 *      C++          the list of caught exceptions lies in the thread; it is exchanged with that of the context before the switch
 *
 * LeakSanitizer looks for pointers on the stacks of contexts, from when they are made until they are over.  With the option
 * detect_stack_use_after_return AddressSanitizer puts frames elsewhere, where no pointers are found while a context sleeps.
 *
 * A program that has neither pays one comparison.  The functions are found where the program has the sanitizer or C++; else they
 * are NULL.  A C++ library that a program without C++ loads later is not seen.
 *
 * ThreadSanitizer counts calls and returns for each context.  So the calls that tell it of a switch are made by the functions
 * that switch themselves, and their helpers are inlined.
 *
 * Threads: a context is run by one at a time.  No locks. */
#include "kernel/stack/switch.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "kernel/base/panic.h"
#include "kernel/base/phase.h"
#include "kernel/stack/frame.h"
#include "kernel/stack/overflow.h"
#include "kernel/stack/stack.h"

extern void __sanitizer_start_switch_fiber(void **fake, const void *low, size_t size) __attribute__((weak));
extern void __sanitizer_finish_switch_fiber(void *fake, const void **low, size_t *size) __attribute__((weak));
extern void __asan_unpoison_memory_region(const volatile void *begin, size_t size) __attribute__((weak));
extern void __lsan_register_root_region(const void *memory, size_t size) __attribute__((weak));
extern void __lsan_unregister_root_region(const void *memory, size_t size) __attribute__((weak));
extern void *__tsan_get_current_fiber(void) __attribute__((weak));
extern void *__tsan_create_fiber(unsigned flags) __attribute__((weak));
extern void __tsan_destroy_fiber(void *fiber) __attribute__((weak));
extern void __tsan_switch_to_fiber(void *fiber, unsigned flags) __attribute__((weak));

/* Source: Itanium C++ ABI, exception handling, 2.2.2. */
struct exceptions {
        void *caught;
        unsigned uncaught;
};

extern struct exceptions *__cxa_get_globals(void) __attribute__((weak));

/* At the top of the stack of a context. */
struct weir__context_extra {
        void (*body)(void *argument);
        void *argument;
        struct exceptions exceptions; /* of the side that does not run */

        /* AddressSanitizer */
        const void *low, *thread_low; /* of the stack, and of that of the thread that has entered */
        size_t size, thread_size;
        void *fake; /* frames that lie elsewhere, of the context */

        /* ThreadSanitizer */
        void *fiber, *thread_fiber;
        bool is_over;
};

/* No instrumentation: in the midst of a switch a sanitizer does not know which stack this is. */
#if defined(__clang__) && __has_attribute(disable_sanitizer_instrumentation)
#define UNSEEN __attribute__((no_sanitize("address", "thread", "undefined"), disable_sanitizer_instrumentation))
#elif defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define UNSEEN __attribute__((no_sanitize("address", "thread", "undefined")))
#else
#define UNSEEN
#endif
#define PART static inline __attribute__((always_inline)) UNSEEN

/* -- the parts of a switch -- */

static bool is_extra_needed; /* constant once the library is loaded */

static void
find_extra(void)
{
        is_extra_needed = __cxa_get_globals || __sanitizer_start_switch_fiber || __tsan_switch_to_fiber ||
                          __lsan_register_root_region;
}

WEIR__STEPS_OF(WEIR__MODULE_STACKS, [WEIR__STEP_LOAD] = find_extra);

/* The context is over. */
UNSEEN static void
forget(struct weir__context_extra *extra)
{
        if (__tsan_switch_to_fiber)
                __tsan_destroy_fiber(extra->fiber);
        if (__lsan_unregister_root_region)
                __lsan_unregister_root_region(extra->low, extra->size);
}

PART void
exchange_exceptions(struct weir__context_extra *extra)
{
        if (!__cxa_get_globals)
                return;
        struct exceptions *of_thread = __cxa_get_globals(), leaving = *of_thread;
        *of_thread = extra->exceptions;
        extra->exceptions = leaving;
}

PART void
start_enter(struct weir__context_extra *extra, void **fake)
{
        exchange_exceptions(extra);
        if (__tsan_switch_to_fiber) {
                extra->thread_fiber = __tsan_get_current_fiber();
                __tsan_switch_to_fiber(extra->fiber, 0);
        }
        if (__sanitizer_start_switch_fiber)
                __sanitizer_start_switch_fiber(fake, extra->low, extra->size);
}

PART void
finish_enter(struct weir__context_extra *extra, void *fake)
{
        if (__sanitizer_start_switch_fiber)
                __sanitizer_finish_switch_fiber(fake, &extra->thread_low, &extra->thread_size);
}

/* `fake` is NULL where the context ends. */
PART void
start_leave(struct weir__context_extra *extra, void **fake)
{
        exchange_exceptions(extra);
        if (__tsan_switch_to_fiber)
                __tsan_switch_to_fiber(extra->thread_fiber, 0);
        if (__sanitizer_start_switch_fiber)
                __sanitizer_start_switch_fiber(fake, extra->thread_low, extra->thread_size);
}

PART void
finish_leave(struct weir__context_extra *extra, void *fake)
{
        if (__sanitizer_start_switch_fiber)
                __sanitizer_finish_switch_fiber(fake, NULL, NULL);
        if (extra->is_over)
                forget(extra);
}

/* -- contexts with extra -- */

/* The first function of a context. */
UNSEEN static void
begin(void *context_extra)
{
        struct weir__context_extra *extra = context_extra;

        finish_enter(extra, NULL);
        extra->body(extra->argument);
        weir__panic("the body of a context returned");
}

/* Makes room at the top of the stack.  What frames of before have poisoned may be used again. */
static __attribute__((cold, noinline)) struct weir__context_extra *
make_extra(struct weir__stack *stack, void (*body)(void *argument), void *argument)
{
        char *low = stack->top - stack->size;

        if (__asan_unpoison_memory_region)
                __asan_unpoison_memory_region(low, stack->size);
        struct weir__context_extra *extra = (struct weir__context_extra *)((uintptr_t)(stack->top - sizeof *extra) &
                                                                           ~(uintptr_t)15);
        *extra = (struct weir__context_extra){.body = body, .argument = argument, .low = low, .size = stack->size};
        if (__tsan_switch_to_fiber)
                extra->fiber = __tsan_create_fiber(0);
        if (__lsan_register_root_region)
                __lsan_register_root_region(low, stack->size);
        return extra;
}

UNSEEN __attribute__((noinline)) static void
enter_with_extra(struct weir__context *context)
{
        struct weir__context_extra *extra = context->extra;
        void *fake = NULL;

        start_enter(extra, &fake);
        weir__context_swap(&context->sp);
        finish_leave(extra, fake);
}

UNSEEN __attribute__((noinline)) static void
leave_with_extra(struct weir__context *context)
{
        struct weir__context_extra *extra = context->extra;

        start_leave(extra, &extra->fake);
        weir__context_swap(&context->sp);
        finish_enter(extra, extra->fake);
}

/* -- the interface -- */

void
weir__context_make(struct weir__context *context, struct weir__stack *stack, void (*body)(void *argument), void *argument)
{
        char *low = stack->top - stack->size, *top = stack->top;

        context->extra = NULL;
        if (__builtin_expect(is_extra_needed, 0)) {
                context->extra = make_extra(stack, body, argument);
                top = (char *)context->extra;
                body = begin;
                argument = context->extra;
        }
        context->sp = weir__frame_make(low, top, body, argument);
}

UNSEEN void
weir__context_enter(struct weir__context *context)
{
        if (__builtin_expect(!weir__overflow_is_watched, 0))
                weir__overflow_watch();
        if (__builtin_expect(context->extra != NULL, 0))
                enter_with_extra(context);
        else
                weir__context_swap(&context->sp);
}

UNSEEN void
weir__context_leave(struct weir__context *context)
{
        if (__builtin_expect(context->extra != NULL, 0))
                leave_with_extra(context);
        else
                weir__context_swap(&context->sp);
}

UNSEEN static __attribute__((cold, noinline)) void
end_with_extra(struct weir__context *context)
{
        context->extra->is_over = true;
        start_leave(context->extra, NULL);
        weir__context_swap(&context->sp);
        weir__panic("a context was entered after its end");
}

UNSEEN void
weir__context_end(struct weir__context *context)
{
        if (__builtin_expect(context->extra != NULL, 0))
                end_with_extra(context);
        else
                weir__context_go(&context->sp);
}
