/* kernel/stack/stack.c: a cache of stacks for each thread.
 *
 *      a thread: two chains of its cache  <- chains ->  arenas (arena.c)
 *
 * Threads: a cache belongs to one thread.  It is made when the thread first takes or gives, and emptied when the thread ends.
 *          A chain that is full waits behind the one in use, and goes back when the next one is full.  So a thread takes the
 *          lock of the arenas at most once in STACKS_A_CHAIN stacks, and those stacks go that were used longest ago.
 * Locks:   a leaf for the list of caches, which only counts need.
 *
 * A slot gets its guard when its stack is first handed out.
 *
 * Fork: both locks are held meanwhile.  Stacks in the caches of its parent's other threads, and those of their fibers, are lost
 * to the child. */
#include "kernel/stack/stack.h"

#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "kernel/base/list.h"
#include "kernel/base/lock.h"
#include "kernel/base/phase.h"
#include "kernel/observe/log.h"
#include "kernel/stack/arena.h"
#include "kernel/stack/guard.h"
#include "kernel/stack/overflow.h"
#include "kernel/stack/tools.h"

#define STACKS_A_CHAIN 32

const char *(*weir__stack_describe)(const struct weir__stack *stack);

/* -- caches -- */

struct chain {
        struct weir__stack *first;
        _Atomic unsigned count; /* written by the owner; relaxed */
};

struct cache {
        struct chain used, full; /* `full` has STACKS_A_CHAIN stacks or none */
        _Atomic bool is_stale;   /* its stacks have another size than new ones; relaxed: stacks of any size serve */
        struct weir__link link;  /* among all caches; guarded by caches_lock */
};

static _Thread_local struct cache *own; /* NULL: none yet */
static pthread_key_t own_key;           /* its destructor runs when a thread ends */
static bool has_own_key;

static struct weir__lock caches_lock = WEIR__LOCK_INITIALIZER(WEIR__RANK_LEAF);
static struct weir__list caches; /* guarded by caches_lock */

/* Rare calls are kept out of line, so the others save no registers for them. */
#define RARE __attribute__((noinline)) static

/* Memory that outlives a shutdown goes back to the system as soon as it can. */
static bool
is_worth_keeping(void)
{
        return weir__phase_is_up();
}

static unsigned
count_of(struct chain *chain)
{
        return atomic_load_explicit(&chain->count, memory_order_relaxed);
}

static void
set_chain(struct chain *chain, struct weir__stack *first, unsigned count)
{
        chain->first = first;
        atomic_store_explicit(&chain->count, count, memory_order_relaxed);
}

static void
give_chain(struct chain *chain)
{
        struct weir__stack *first = chain->first;

        set_chain(chain, NULL, 0);
        weir__arenas_give(first, is_worth_keeping());
}

static void
empty(struct cache *cache)
{
        atomic_store_explicit(&cache->is_stale, false, memory_order_relaxed);
        give_chain(&cache->used);
        give_chain(&cache->full);
}

static void
end_own(void *cache)
{
        own = NULL;
        empty(cache);
        weir__lock(&caches_lock);
        weir__link_remove(&((struct cache *)cache)->link);
        weir__unlock(&caches_lock);
        free(cache);
}

static struct cache *
make_own(void)
{
        struct cache *cache = has_own_key ? calloc(1, sizeof *cache) : NULL;

        if (!cache || pthread_setspecific(own_key, cache)) {
                free(cache);
                return NULL;
        }
        weir__lock(&caches_lock);
        weir__list_append(&caches, &cache->link);
        weir__unlock(&caches_lock);
        return own = cache;
}

/* -- shadow stacks -- */

#ifdef __x86_64__
#define ARCH_SHSTK_STATUS 0x5005
#define ARCH_SHSTK_SHSTK  1UL

/* A thread with a shadow stack cannot change its stack: a return to another place than that of the call ends the process. */
static bool
has_shadow_stack(void)
{
        unsigned long features = 0;

        return syscall(SYS_arch_prctl, ARCH_SHSTK_STATUS, &features) == 0 && features & ARCH_SHSTK_SHSTK;
}
#else
static bool
has_shadow_stack(void)
{
        return false;
}
#endif

static int
refuse_shadow_stack(void)
{
        static struct weir__log_limit limit;

        weir__log_limited(
                &limit, WEIR_LOG_ERROR,
                "no stack for a fiber: this thread has a shadow stack, which fibers do not support yet.  Build the program "
                "with -fcf-protection=branch, or start it with GLIBC_TUNABLES=glibc.cpu.hwcaps=-SHSTK");
        return -ENOTSUP;
}

/* -- taking -- */

/* The stack comes from a full chain or from the arenas.  NULL: *failed. */
static struct weir__stack *
refill(struct cache *cache, int *failed)
{
        unsigned count = count_of(&cache->full);
        struct weir__stack *first = cache->full.first;

        if (first) {
                set_chain(&cache->full, NULL, 0);
        } else {
                first = weir__arenas_take(STACKS_A_CHAIN, false, failed);
                for (struct weir__stack *stack = first; stack; stack = stack->next)
                        count++;
        }
        if (!first)
                return NULL;
        set_chain(&cache->used, first->next, count - 1);
        return first;
}

static struct weir__stack *
pop(struct cache *cache)
{
        struct weir__stack *stack = cache->used.first;

        if (stack)
                set_chain(&cache->used, stack->next, count_of(&cache->used) - 1);
        return stack;
}

/* Installs the guard of a stack that is handed out for the first time.  Where the kernel refuses, one that has its guard may be
 * free: the stack is exchanged for it. */
static int
guard(struct weir__stack **stack)
{
        size_t size = WEIR__STACK_GUARD;
        int failed = 0;

        if ((*stack)->is_guarded)
                return 0;
        if (size < (size_t)sysconf(_SC_PAGESIZE))
                size = (size_t)sysconf(_SC_PAGESIZE);
        int refused = weir__guard_install((*stack)->top - (*stack)->size - size, size);
        if (!refused) {
                (*stack)->is_guarded = true;
                weir__tools_note_stack(*stack);
                return 0;
        }
        (*stack)->next = NULL;
        weir__arenas_give(*stack, true);
        *stack = weir__arenas_take(1, true, &failed);
        return *stack ? 0 : refused;
}

RARE int
take_first(struct weir__stack **taken)
{
        struct weir__stack *stack;
        int failed = 0;

        if (!own && has_shadow_stack())
                return refuse_shadow_stack();
        struct cache *cache = own ? own : make_own();
        weir__overflow_watch();
        if (cache && atomic_load_explicit(&cache->is_stale, memory_order_relaxed))
                empty(cache);
        stack = cache ? pop(cache) : weir__arenas_take(1, false, &failed);
        if (!stack && cache)
                stack = refill(cache, &failed);
        if (stack)
                failed = guard(&stack);
        if (!failed)
                *taken = stack;
        return failed;
}

/* Not inlined: a fiber may go on on another thread, and would have the address of the first one's cache then. */
__attribute__((noinline)) int
weir__stack_take(struct weir__stack **stack)
{
        struct cache *cache = own;
        struct weir__stack *first = cache ? cache->used.first : NULL;

        if (__builtin_expect(!first || !first->is_guarded || atomic_load_explicit(&cache->is_stale, memory_order_relaxed), 0))
                return take_first(stack);
        set_chain(&cache->used, first->next, count_of(&cache->used) - 1);
        *stack = first;
        return 0;
}

/* -- giving -- */

RARE void
give_uncached(struct weir__stack *stack)
{
        struct cache *cache = is_worth_keeping() ? make_own() : NULL;

        stack->next = NULL;
        if (cache)
                set_chain(&cache->used, stack, 1);
        else
                weir__arenas_give(stack, is_worth_keeping());
}

RARE void
give_full(struct cache *cache, struct weir__stack *stack)
{
        struct weir__stack *first = cache->full.first;

        set_chain(&cache->full, cache->used.first, STACKS_A_CHAIN);
        stack->next = NULL;
        set_chain(&cache->used, stack, 1);
        weir__arenas_give(first, is_worth_keeping());
}

__attribute__((noinline)) void
weir__stack_give(struct weir__stack *stack)
{
        struct cache *cache = own;

        if (__builtin_expect(!cache, 0)) {
                give_uncached(stack);
        } else if (__builtin_expect(count_of(&cache->used) == STACKS_A_CHAIN, 0)) {
                give_full(cache, stack);
        } else {
                stack->next = cache->used.first;
                set_chain(&cache->used, stack, count_of(&cache->used) + 1);
        }
}

/* -- all -- */

void
weir__stack_configure(size_t size)
{
        weir__arenas_configure(size);
        weir__lock(&caches_lock);
        for (struct weir__link *link = weir__list_first(&caches); link; link = weir__list_next(&caches, link))
                atomic_store_explicit(&weir__container_of(link, struct cache, link)->is_stale, true, memory_order_relaxed);
        weir__unlock(&caches_lock);
}

void
weir__stack_stats(struct weir__stack_stats *stats)
{
        size_t out, cached = 0;

        weir__lock(&caches_lock);
        for (struct weir__link *link = weir__list_first(&caches); link; link = weir__list_next(&caches, link)) {
                struct cache *cache = weir__container_of(link, struct cache, link);

                cached += count_of(&cache->used) + count_of(&cache->full);
        }
        weir__unlock(&caches_lock);
        weir__arenas_count(&stats->made, &out);
        stats->in_use = out > cached ? out - cached : 0;
        stats->free = stats->made - stats->in_use;
        stats->size = weir__arenas_stack_size();
        stats->cap = weir__guard_most();
}

void
weir__stack_trim(void)
{
        if (own)
                empty(own);
        weir__arenas_trim();
}

/* -- steps of the process -- */

static void
prepare(void)
{
        has_own_key = pthread_key_create(&own_key, end_own) == 0;
}

static void
hold(void)
{
        weir__lock_hold(&caches_lock);
        weir__arenas_hold();
}

static void
release(void)
{
        weir__arenas_release();
        weir__unlock(&caches_lock);
}

WEIR__STEPS_OF(WEIR__MODULE_STACKS, [WEIR__STEP_LOAD] = prepare, [WEIR__STEP_ENDED] = weir__stack_trim,
               [WEIR__STEP_BEFORE_FORK] = hold, [WEIR__STEP_AFTER_FORK] = release, [WEIR__STEP_IN_CHILD] = release);
