/* kernel/memory/watched.c: blocks in a program that runs under a tool which looks at memory.
 *
 *     a block, rounded up to 8 bytes | a tail, which links all blocks
 *
 * The links are inverted.  So a leak detector sees no pointer to a block here, and finds what the program has lost.
 *
 * Threads: any.
 * Locks:   one, a leaf, guards the links.  A walk over all blocks holds it, however many they are: speed is no aim here.
 *
 * A sanitizer finds the callers of malloc and free by the chain of frame pointers, which is quick.  The library has none, because
 * they cost 5 % of its instructions.  So such a call gets a chain that is made from the tables for exceptions.
 *
 * ThreadSanitizer gets blocks from malloc as well, if the library is built with it.  It has no list: its lock would order threads
 * that nothing else orders, and so hide their races. */
#include "kernel/memory/watched.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unwind.h>

#include "kernel/base/lock.h"
#include "kernel/memory/sanitized.h"

#if __has_include(<valgrind/valgrind.h>)
#include <valgrind/valgrind.h>
#else
#define VALGRIND_DISABLE_ERROR_REPORTING ((void)0)
#define VALGRIND_ENABLE_ERROR_REPORTING  ((void)0)
#endif

/* The loader finds these where the program was built with -fsanitize=address or leak, by gcc or by clang; else they are NULL.
 * The types are those of gcc, which knows the first one. */
extern void __asan_loadN(void *address, ptrdiff_t size) __attribute__((weak));
extern void __asan_poison_memory_region(const volatile void *begin, size_t size) __attribute__((weak));
extern void __lsan_do_leak_check(void) __attribute__((weak));

struct tail {
        uintptr_t previous, next; /* the complements of the addresses of the other tails */
        size_t size;              /* of the block before it */
};

static struct weir__lock lock = WEIR__LOCK_INITIALIZER(WEIR__RANK_LEAF);
static struct tail all; /* the ring begins and ends here; zeros: it is empty.  Guarded by lock, as are all links */

bool weir__memory_is_watched;

/* valgrind puts a library of the tool before all others.  callgrind, which counts instructions, has none. */
bool
weir__watched_by_memcheck(void)
{
        const char *preloaded = getenv("LD_PRELOAD");

        return preloaded && strstr(preloaded, "vgpreload_memcheck");
}

bool
weir__watched_find(void)
{
        return WEIR__SANITIZED || __asan_loadN || __lsan_do_leak_check || weir__watched_by_memcheck();
}

/* -- calls that show their callers -- */

#define FRAMES 24

/* As frame pointers lay them out. */
struct frame {
        const struct frame *outer;
        uintptr_t return_address;
};

struct stack {
        struct frame frames[FRAMES + 1]; /* the inner one first: at the lowest address, as on the stack */
        size_t count;
};

/* Calls function(argument) with that frame pointer. */
void *weir__watched_call(const struct frame *frames, void *(*function)(uintptr_t argument), uintptr_t argument);

#if defined(__x86_64__)
__asm__(".pushsection .text\n.globl weir__watched_call\n.hidden weir__watched_call\n.type weir__watched_call, @function\n"
        "weir__watched_call:\n.cfi_startproc\n"
        "push %rbp\n.cfi_def_cfa_offset 16\n.cfi_offset %rbp, -16\n"
        "mov %rdi, %rbp\nmov %rdx, %rdi\ncall *%rsi\n"
        "pop %rbp\n.cfi_def_cfa_offset 8\n.cfi_restore %rbp\nret\n"
        ".cfi_endproc\n.size weir__watched_call, . - weir__watched_call\n.popsection");
#elif defined(__aarch64__)
__asm__(".pushsection .text\n.globl weir__watched_call\n.hidden weir__watched_call\n.type weir__watched_call, @function\n"
        "weir__watched_call:\n.cfi_startproc\n"
        "stp x29, x30, [sp, -16]!\n.cfi_def_cfa_offset 16\n.cfi_offset x29, -16\n.cfi_offset x30, -8\n"
        "mov x29, x0\nmov x0, x2\nblr x1\n"
        "ldp x29, x30, [sp], 16\n.cfi_def_cfa_offset 0\n.cfi_restore x29\n.cfi_restore x30\nret\n"
        ".cfi_endproc\n.size weir__watched_call, . - weir__watched_call\n.popsection");
#else
void *
weir__watched_call(const struct frame *frames, void *(*function)(uintptr_t argument), uintptr_t argument)
{
        (void)frames;
        return function(argument);
}
#endif

static _Unwind_Reason_Code
note_frame(struct _Unwind_Context *context, void *into)
{
        struct stack *stack = into;
        struct frame *frame = &stack->frames[stack->count];

        if (stack->count == FRAMES)
                return _URC_END_OF_STACK;
        *frame = (struct frame){frame + 1, _Unwind_GetIP(context)};
        stack->count++;
        return _URC_NO_REASON;
}

static void *
call_seen(void *(*function)(uintptr_t argument), uintptr_t argument)
{
        struct stack stack = {.count = 0};

        if (WEIR__SANITIZED || !__lsan_do_leak_check)
                return function(argument);
        _Unwind_Backtrace(note_frame, &stack);
        stack.frames[stack.count] = (struct frame){NULL, 0};
        return weir__watched_call(stack.frames, function, argument);
}

static void *
allocate(uintptr_t size)
{
        return malloc(size);
}

static void *
release(uintptr_t block)
{
        free((void *)block);
        return NULL;
}

/* -- the list; a tail is poisoned, so that nothing else touches it -- */

#define UNCHECKED __attribute__((no_sanitize_address)) static

UNCHECKED struct tail *
tail_at(uintptr_t complement)
{
        return (struct tail *)~complement;
}

UNCHECKED size_t
size_before_tail(size_t size)
{
        return (size + 7) & ~(size_t)7;
}

UNCHECKED void
link_tail(struct tail *tail, size_t size)
{
        tail->size = size;
        weir__lock(&lock);
        if (!all.next)
                all.previous = all.next = ~(uintptr_t)&all;
        tail->previous = all.previous;
        tail->next = ~(uintptr_t)&all;
        tail_at(all.previous)->next = ~(uintptr_t)tail;
        all.previous = ~(uintptr_t)tail;
        weir__unlock(&lock);
}

UNCHECKED void
unlink_tail(struct tail *tail)
{
        weir__lock(&lock);
        tail_at(tail->previous)->next = tail->next;
        tail_at(tail->next)->previous = tail->previous;
        weir__unlock(&lock);
}

void *
weir__watched_alloc(size_t size)
{
        if (WEIR__SANITIZED_THREAD)
                return malloc(size);
        char *block = call_seen(allocate, size_before_tail(size) + sizeof(struct tail));
        if (!block)
                return NULL;
        struct tail *tail = (struct tail *)(block + size_before_tail(size));
        link_tail(tail, size);
        if (__asan_poison_memory_region)
                __asan_poison_memory_region(block + size, (size_t)((char *)(tail + 1) - (block + size)));
        return block;
}

void
weir__watched_free(void *block, size_t size)
{
        if (WEIR__SANITIZED_THREAD) {
                free(block);
                return;
        }
        unlink_tail((struct tail *)((char *)block + size_before_tail(size)));
        call_seen(release, (uintptr_t)block);
}

/* `look` tells by the content what a block is, so it reads what the program may not have written. */
__attribute__((no_sanitize_address)) void
weir__watched_for_each(void (*look)(const void *block, size_t size, void *context), void *context)
{
        weir__lock(&lock);
        VALGRIND_DISABLE_ERROR_REPORTING;
        for (const struct tail *tail = all.next ? tail_at(all.next) : &all; tail != &all; tail = tail_at(tail->next))
                look((const char *)tail - size_before_tail(tail->size), tail->size, context);
        VALGRIND_ENABLE_ERROR_REPORTING;
        weir__unlock(&lock);
}

void
weir__watched_hold(void)
{
        weir__lock(&lock);
}

void
weir__watched_release(void)
{
        weir__unlock(&lock);
}

void
weir__watched_touch(const void *object)
{
        if (object && __asan_loadN)
                __asan_loadN((void *)object, sizeof(void *));
}
