/* kernel/stack/slots.c: the memory of arenas, and the index of them by address.
 *
 * Threads: any; an arena belongs to its caller meanwhile.
 * Locks:   none.  The index serves a handler of faults, which takes no lock: its tables stay for ever.  An arena may go while
 *          the handler looks at it only if the fault is in memory that nobody uses.  The process ends then anyway. */
#include "kernel/stack/arena.h"

#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "kernel/memory/sanitized.h"
#include "kernel/stack/guard.h"
#include "kernel/stack/tools.h"

#define USABLE       ((size_t)192 << 10) /* bytes: the default */
#define USABLE_LARGE ((size_t)960 << 10) /* under a sanitizer, whose frames are larger */
#define SHALLOW      ((size_t)32 << 10)  /* bytes: a stack with more of them in memory is deep */

/* Tops of stacks lie at several places of their pages.  Else the first frames of all would share few sets of each CPU cache: a
 * switch to one of 10,000 contexts took 37 ns instead of 27. */
#define TOPS     8
#define TOP_STEP 128 /* bytes */

/* -- sizes -- */

static size_t
page_size(void)
{
        static _Atomic size_t known;
        size_t size = atomic_load_explicit(&known, memory_order_relaxed);

        if (!size)
                atomic_store_explicit(&known, size = (size_t)sysconf(_SC_PAGESIZE), memory_order_relaxed);
        return size;
}

static size_t
round_up(size_t size)
{
        return (size + page_size() - 1) & ~(page_size() - 1);
}

size_t
weir__slots_size(size_t size)
{
        return round_up(size ? size : WEIR__SANITIZED || weir__tools_are_there() ? USABLE_LARGE : USABLE);
}

static size_t
guard_size(void)
{
        return round_up(WEIR__STACK_GUARD);
}

/* Bytes before the slots. */
static size_t
head_size(unsigned count)
{
        return round_up(sizeof(struct weir__arena) + count * sizeof(struct weir__stack));
}

/* How many slots an arena of so many bytes has.  One in 64 is given up where the head is a page smaller then. */
static unsigned
fitting(size_t size, size_t slot)
{
        unsigned count = (unsigned)(size / slot);

        while (count && head_size(count) + count * slot > size)
                count--;
        unsigned fewer = count - count / 64;
        if (head_size(fewer) == head_size(count))
                return count;
        while (head_size(fewer + 1) == head_size(fewer))
                fewer++;
        return fewer;
}

/* -- the index: tables for the upper and the lower half of the bits above those inside an arena -- */

#define INDEX_BITS 11 /* so addresses have up to 48 bits */
#define INDEX_ROOM ((size_t)1 << INDEX_BITS)

typedef _Atomic(struct weir__arena *) entry;

static _Atomic(entry *) arena_tables[INDEX_ROOM];

/* Where the arena at that address is entered; NULL: nowhere. */
static entry *
entry_of(const void *address)
{
        uintptr_t number = (uintptr_t)address / WEIR__ARENA_SIZE;

        if (number / INDEX_ROOM >= INDEX_ROOM)
                return NULL;
        entry *table = atomic_load_explicit(&arena_tables[number / INDEX_ROOM], memory_order_acquire);
        return table ? &table[number % INDEX_ROOM] : NULL;
}

static bool
make_entry(const void *address)
{
        uintptr_t number = (uintptr_t)address / WEIR__ARENA_SIZE;
        entry *table, *expected = NULL;

        if (entry_of(address) || number / INDEX_ROOM >= INDEX_ROOM)
                return entry_of(address);
        table = calloc(INDEX_ROOM, sizeof *table);
        if (table && !atomic_compare_exchange_strong(&arena_tables[number / INDEX_ROOM], &expected, table))
                free(table); /* another thread was faster */
        return entry_of(address);
}

struct weir__stack *
weir__arenas_find(const void *address, bool *is_guard)
{
        entry *its = entry_of(address);
        struct weir__arena *arena = its ? atomic_load_explicit(its, memory_order_acquire) : NULL;

        if (!arena)
                return NULL;
        size_t offset = (size_t)((const char *)address - arena->slots), i = offset / arena->slot;
        if ((const char *)address < arena->slots || i >= arena->count)
                return NULL;
        *is_guard = offset % arena->slot < arena->guard;
        return &arena->stacks[i];
}

/* -- memory of the system -- */

static char *
map(size_t size, int protection)
{
        void *memory = mmap(NULL, size, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

        return memory == MAP_FAILED ? NULL : memory;
}

static void
unmap(char *memory, size_t size)
{
        if (memory && size)
                munmap(memory, size);
}

/* Memory that begins where an arena may.  The system puts one mapping below the other, so the one after an aligned one usually is
 * aligned.  What cannot be accessed counts nowhere as used memory. */
static char *
map_aligned(size_t size)
{
        char *memory = size == WEIR__ARENA_SIZE ? map(size, PROT_READ | PROT_WRITE) : NULL;

        if (memory && (uintptr_t)memory % WEIR__ARENA_SIZE == 0)
                return memory;
        unmap(memory, size);
        memory = map(WEIR__ARENA_SIZE + size, PROT_NONE);
        if (!memory)
                return NULL;
        size_t before = WEIR__ARENA_SIZE - (uintptr_t)memory % WEIR__ARENA_SIZE;
        unmap(memory, before);
        unmap(memory + before + size, WEIR__ARENA_SIZE - before);
        if (mprotect(memory + before, size, PROT_READ | PROT_WRITE) == 0)
                return memory + before;
        unmap(memory + before, size);
        return NULL;
}

static void
fill(struct weir__arena *arena, size_t size, size_t slot, unsigned count)
{
        arena->slots = (char *)arena + head_size(count);
        arena->guard = guard_size();
        arena->slot = slot;
        arena->size = size;
        arena->count = count;
        for (unsigned i = 0; i < count; i++) {
                size_t shift = i % TOPS * TOP_STEP;

                arena->stacks[i] = (struct weir__stack){.top = arena->slots + (i + 1) * slot - shift,
                                                        .size = (uint32_t)(slot - arena->guard - shift)};
        }
}

/* The system may count all memory that can be written as used (vm.overcommit_memory is 2).  Where it refuses an arena, a smaller
 * one may be possible. */
struct weir__arena *
weir__slots_map(size_t size)
{
        size_t slot = guard_size() + size, mapped = WEIR__ARENA_SIZE;
        char *memory = NULL;

        for (; fitting(mapped, slot) && !memory; mapped /= 4)
                memory = map_aligned(mapped);
        if (!memory)
                return NULL;
        mapped *= 4;
        madvise(memory, mapped, MADV_NOHUGEPAGE); /* without huge pages it fails: nothing is lost */
        if (!make_entry(memory)) {
                unmap(memory, mapped);
                return NULL;
        }
        struct weir__arena *arena = (struct weir__arena *)memory;
        fill(arena, mapped, slot, fitting(mapped, slot));
        atomic_store_explicit(entry_of(memory), arena, memory_order_release);
        return arena;
}

void
weir__slots_unmap(struct weir__arena *arena)
{
        size_t guarded = 0;

        for (unsigned i = 0; i < arena->fresh; i++) {
                guarded += arena->stacks[i].is_guarded;
                weir__tools_forget_stack(&arena->stacks[i]);
        }
        atomic_store_explicit(entry_of(arena), NULL, memory_order_release);
        munmap(arena, arena->size);
        weir__guard_forget(guarded);
}

/* -- pages -- */

/* Gives the pages from `from` up to `to` back to the system. */
static void
drop_pages(char *from, const char *to)
{
        if (from < to)
                madvise(from, (size_t)(to - from), MADV_DONTNEED);
}

/* The lowest address of the pages that a stack keeps. */
static char *
shallow_end(const struct weir__stack *stack)
{
        size_t kept = round_up(SHALLOW);

        return (char *)((uintptr_t)(stack->top + page_size() - 1) & ~(page_size() - 1)) -
               (kept < stack->size ? kept : stack->size);
}

static char *
lowest(const struct weir__stack *stack)
{
        const struct weir__arena *arena = weir__arena_of(stack);

        return arena->slots + (size_t)(stack - arena->stacks) * arena->slot + arena->guard;
}

/* Looks at a few pages below the first ones: frames are seldom larger. */
bool
weir__slots_is_deep(const struct weir__stack *stack)
{
        unsigned char is_there[8] = {0};
        char *end = shallow_end(stack);
        size_t pages = (size_t)(end - lowest(stack)) / page_size();

        if (pages > sizeof is_there)
                pages = sizeof is_there;
        if (!pages || mincore(end - pages * page_size(), pages * page_size(), is_there))
                return false;
        for (size_t i = 0; i < pages; i++)
                if (is_there[i] & 1)
                        return true;
        return false;
}

void
weir__slots_make_shallow(struct weir__stack *stack)
{
        drop_pages(lowest(stack), shallow_end(stack));
}

/* Neighbours go in one call. */
void
weir__slots_drop(struct weir__arena *arena, const struct weir__stack *stacks)
{
        bool is_given[WEIR__SLOTS_MOST + 1] = {false};

        for (; stacks; stacks = stacks->next)
                is_given[stacks - arena->stacks] = true;
        for (size_t from = 0, to; from < arena->count; from = to + 1) {
                for (to = from; is_given[to]; to++)
                        continue;
                drop_pages(arena->slots + from * arena->slot, arena->slots + to * arena->slot);
        }
}
