/* kernel/memory/span.c: regions of 2 MiB, cut into spans of 8 KiB, cut into blocks of one size.
 *
 *     a span:    unused --cut--> in use, all blocks out <--> in use, some free --the last one comes back--> unused
 *     its pages: none, until it is cut for the first time; an unused one has them ("spare") or has given them back ("clean")
 *
 * Blocks have no header: masking the address of one leads to its region, whose first two spans are not cut but hold what is to
 * be known of each span.  (Were that kept in the spans, it would lie in the same set of each cache.)
 *
 * Threads: all is guarded by one lock, a leaf.  Under it are neither system calls nor first touches of pages, and no more than
 * some 256 steps.
 *
 * Invariants, all of which weir__spans_check looks at:
 *   - a span in use is in the list of its class if and only if it has free blocks, and never are all of its blocks free;
 *   - a region is in the list if and only if it has unused spans;
 *   - at most one region has no used span: the kept one.
 * A span that is being cut, or whose pages are being given back, counts as used: its region stays.
 *
 * Giving back.  A region goes as a whole when its last span becomes unused; one is kept, against going to and fro.  Until then
 * its unused spans stay spare as long as they are few, see `too_many`; then their pages go, CLEANED spans at a time.  Not at once,
 * but when PATIENCE more spans have become unused, or MANY regions have too many: what is freed in about the order in which it was
 * made would have each region split, and in pieces, just before it goes as a whole.
 *
 * Huge pages.  A small program has few regions, and no page that it does not need.  A process with more than FEW_REGIONS has tens
 * of thousands of blocks, which are touched in random order: there the new regions are huge pages, if the system lets those have
 * them that ask.  To give a part of a huge page back the kernel splits it, so that is done late, when the most part of it is
 * unused; and it is not to be made whole again, with memory for all that was given back, until all of it is used.
 *
 * Fork: kernel/memory/memory.c has the lock held meanwhile, so the child finds all this whole. */
#include "kernel/memory/span.h"

#include <stdatomic.h>
#include <stdint.h>
#include <sys/mman.h>

#include "kernel/base/lock.h"
#include "kernel/base/panic.h"

#define SPAN_SIZE    ((size_t)8192)
#define REGION_SIZE  ((size_t)2 << 20)
#define HEAD_SPANS   2
#define REGION_SPANS (REGION_SIZE / SPAN_SIZE - HEAD_SPANS)
#define FEW_REGIONS  2
#define SPARE_SPANS  32                 /* of all regions, that may be kept in any case */
#define ENOUGH       64                 /* blocks of a chain that is put together */
#define SLICE        64                 /* blocks given back under the lock at a time */
#define PATIENCE     (2 * REGION_SPANS) /* spans that become unused until pages of a region go that has too many */
#define MANY         3 /* regions that have too many: then blocks are freed in no order, and none of these will go as a whole soon */
#define CLEANED      16 /* spans whose pages go at a time: each is a system call, and takes up to 40 us where it splits a huge page */
#define CLEANINGS    (SLICE / CLEANED) /* while a slice is given back: no fewer spans than it may have made unused */

struct span {
        struct span *next, *previous;    /* of the same class, with free blocks; `next` also: unused */
        struct weir__block *free, *last; /* the chain of free blocks, and its end */
        uint16_t free_count;
        uint16_t capacity; /* blocks; constant while the span is in use, as is the class: read without the lock, then */
        uint16_t size_class;
};

struct region {
        struct region *next, *previous; /* with unused spans; `next` also: to be unmapped */
        struct span *spare, *clean;     /* unused: with their pages, and without */
        unsigned used, spare_count;     /* spans */
        bool huge;

        /* On the list of those that have too many spare spans, since that many spans had become unused. */
        bool awaits;
        unsigned awaits_since;
        struct region *next_awaiting, *previous_awaiting;

        _Alignas(64) struct span spans[REGION_SPANS];
};

_Static_assert(sizeof(struct region) <= HEAD_SPANS * SPAN_SIZE, "the head of a region has its place");
_Static_assert(sizeof(struct weir__block) <= 24, "a free block fits into the smallest class");
_Static_assert(24 + 8 * (WEIR__BLOCK_CLASSES - 1) == WEIR__BLOCK_MOST, "the classes end where they are said to");

static struct {
        struct weir__lock lock;

        /* Guarded by lock. */
        struct region *regions; /* with unused spans */
        struct region *kept;    /* the one of them that has no used span; NULL: none */
        unsigned region_count;  /* all of them */
        unsigned spare_count;   /* spans, of all regions */
        unsigned became_unused; /* spans, ever */
        struct region *first_awaiting, *last_awaiting;
        unsigned awaiting_count;
        struct span *partial[WEIR__BLOCK_CLASSES]; /* in use, with free blocks */

        /* Written under lock; read relaxed without: an estimate. */
        _Atomic size_t out[WEIR__BLOCK_CLASSES]; /* blocks */
} all = {.lock = WEIR__LOCK_INITIALIZER(WEIR__RANK_LEAF)};

/* -- addresses -- */

static struct region *
region_of(const void *inside)
{
        return (struct region *)((uintptr_t)inside & ~(REGION_SIZE - 1));
}

static struct span *
span_of(const void *block)
{
        return &region_of(block)->spans[(uintptr_t)block % REGION_SIZE / SPAN_SIZE - HEAD_SPANS];
}

static char *
memory_of(const struct span *span)
{
        struct region *region = region_of(span);

        return (char *)region + SPAN_SIZE * (size_t)(span - region->spans + HEAD_SPANS);
}

/* -- memory from the kernel, and back: without the lock -- */

static char *
map(size_t size)
{
        void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

        return memory == MAP_FAILED ? NULL : memory;
}

/* Aligned memory.  The kernel puts one mapping below the other, so what comes after an aligned one usually is too. */
static char *
map_region(void)
{
        char *memory = map(REGION_SIZE);

        if (!memory || (uintptr_t)memory % REGION_SIZE == 0)
                return memory;
        munmap(memory, REGION_SIZE);
        memory = map(2 * REGION_SIZE);
        if (!memory)
                return NULL;
        size_t before = REGION_SIZE - (uintptr_t)memory % REGION_SIZE; /* up to a whole region is too much */
        munmap(memory, before);
        if (before < REGION_SIZE)
                munmap(memory + before + REGION_SIZE, REGION_SIZE - before);
        return memory + before;
}

/* The head is written here, so that nobody meets its pages for the first time under the lock. */
static struct region *
region_new(bool huge)
{
        struct region *region = (struct region *)map_region();

        if (!region)
                return NULL;
        madvise(region, REGION_SIZE, huge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE); /* fails where there are none: nothing is lost */
        region->huge = huge;
        for (size_t i = REGION_SPANS; i-- > 0;) {
                region->spans[i].next = region->clean;
                region->clean = &region->spans[i];
        }
        return region;
}

static void
unmap_regions(struct region *region)
{
        while (region) {
                struct region *next = region->next;

                munmap(region, REGION_SIZE);
                region = next;
        }
}

/* -- regions: with the lock held -- */

static void
link_region(struct region *region)
{
        region->previous = NULL;
        region->next = all.regions;
        if (region->next)
                region->next->previous = region;
        all.regions = region;
}

static void
unlink_region(struct region *region)
{
        *(region->previous ? &region->previous->next : &all.regions) = region->next;
        if (region->next)
                region->next->previous = region->previous;
}

static void
count_out(size_t size_class, size_t more)
{
        size_t out = atomic_load_explicit(&all.out[size_class], memory_order_relaxed);

        atomic_store_explicit(&all.out[size_class], out + more, memory_order_relaxed);
}

static bool
has_unused(const struct region *region)
{
        return region->spare || region->clean;
}

/* An unused span becomes a used one; NULL: there is none. */
static struct span *
take_unused(size_t size_class)
{
        struct region *region = all.regions;

        if (!region)
                return NULL;
        bool is_spare = region->spare != NULL;
        struct span **from = is_spare ? &region->spare : &region->clean, *span = *from;
        *from = span->next;
        region->spare_count -= is_spare;
        all.spare_count -= is_spare;
        region->used++;
        if (region == all.kept)
                all.kept = NULL;
        if (!has_unused(region))
                unlink_region(region);
        *span = (struct span){.capacity = (uint16_t)(SPAN_SIZE / weir__block_size(size_class)),
                              .size_class = (uint16_t)size_class};
        count_out(size_class, span->capacity);
        return span;
}

/* What is to be given back when the lock has been released. */
struct garbage {
        bool keep;              /* a little */
        unsigned cleanings;     /* that may still be made */
        struct region *regions; /* linked by `next` */
        struct span *spans;     /* unused ones of one region, linked by `next`; they count as used until their pages are gone */
        unsigned span_count;
        bool was_huge; /* that region */
};

static void
stop_awaiting(struct region *region)
{
        if (!region->awaits)
                return;
        region->awaits = false;
        all.awaiting_count--;
        *(region->previous_awaiting ? &region->previous_awaiting->next_awaiting : &all.first_awaiting) = region->next_awaiting;
        *(region->next_awaiting ? &region->next_awaiting->previous_awaiting : &all.last_awaiting) = region->previous_awaiting;
}

static void
start_awaiting(struct region *region)
{
        if (region->awaits)
                return;
        region->awaits = true;
        all.awaiting_count++;
        region->awaits_since = all.became_unused;
        region->next_awaiting = NULL;
        region->previous_awaiting = all.last_awaiting;
        *(all.last_awaiting ? &all.last_awaiting->next_awaiting : &all.first_awaiting) = region;
        all.last_awaiting = region;
}

/* A region whose last used span has become unused. */
static void
drop_region(struct region *region, struct garbage *garbage)
{
        stop_awaiting(region);
        if (garbage->keep && !all.kept) {
                all.kept = region;
                return;
        }
        all.spare_count -= region->spare_count;
        all.region_count--;
        unlink_region(region);
        region->next = garbage->regions;
        garbage->regions = region;
}

/* Whether the spare spans of a region are more than is worth keeping. */
static bool
too_many(const struct region *region, bool keep)
{
        return all.spare_count > (keep ? SPARE_SPANS : 0) &&
               region->spare_count > (region->huge ? region->used : region->used / 8);
}

static void
take_spare(struct region *region, struct garbage *garbage)
{
        struct span **last = &region->spare;

        garbage->spans = region->spare;
        for (; *last && garbage->span_count < CLEANED; last = &(*last)->next)
                garbage->span_count++;
        region->spare = *last;
        *last = NULL;
        garbage->was_huge = region->huge;
        garbage->cleanings--;
        region->used += garbage->span_count;
        region->spare_count -= garbage->span_count;
        all.spare_count -= garbage->span_count;
        region->huge = false;
        if (!has_unused(region))
                unlink_region(region);
}

/* A part of what has waited for long enough. */
static void
take_awaiting(struct garbage *garbage)
{
        struct region *region = all.first_awaiting;

        if (!region || (garbage->keep && all.awaiting_count < MANY && all.became_unused - region->awaits_since < PATIENCE))
                return;
        if (!too_many(region, garbage->keep))
                stop_awaiting(region);
        else if (garbage->cleanings > 0)
                take_spare(region, garbage);
}

static void
put_unused(struct span *span, struct garbage *garbage)
{
        struct region *region = region_of(span);

        if (!has_unused(region))
                link_region(region);
        span->next = region->spare;
        region->spare = span;
        region->spare_count++;
        all.spare_count++;
        all.became_unused++;
        region->used--;
        if (!region->used)
                drop_region(region, garbage);
        else if (too_many(region, garbage->keep))
                start_awaiting(region);
        take_awaiting(garbage);
}

/* -- spans: with the lock held -- */

static void
link_span(struct span *span)
{
        struct span **first = &all.partial[span->size_class];

        span->previous = NULL;
        span->next = *first;
        if (*first)
                (*first)->previous = span;
        *first = span;
}

static void
unlink_span(struct span *span)
{
        *(span->previous ? &span->previous->next : &all.partial[span->size_class]) = span->next;
        if (span->next)
                span->next->previous = span->previous;
}

static void
put_block(struct weir__block *block, struct garbage *garbage)
{
        struct span *span = span_of(block);

        if (span->free_count >= span->capacity)
                weir__panic("block %p given back twice", (void *)block);
        count_out(span->size_class, (size_t)-1);
        block->next = span->free;
        span->free = block;
        if (span->free_count++ == 0) {
                span->last = block;
                link_span(span);
        }
        if (span->free_count < span->capacity)
                return;
        unlink_span(span);
        put_unused(span, garbage);
}

/* All free blocks of as many spans as it takes, or of all there are.  None is touched but the last of each span. */
static struct weir__block *
take_free(size_t size_class)
{
        struct weir__block *chain = NULL;
        size_t count = 0;

        for (struct span *span; count < ENOUGH && (span = all.partial[size_class]);) {
                unlink_span(span);
                span->last->next = chain;
                chain = span->free;
                count += span->free_count;
                span->free = NULL;
                span->free_count = 0;
        }
        if (chain)
                chain->count = count;
        count_out(size_class, count);
        return chain;
}

/* -- without the lock -- */

/* All blocks of a span that was unused.  This may be the first to touch its pages. */
static struct weir__block *
cut(const struct span *span)
{
        char *memory = memory_of(span);
        size_t size = weir__block_size(span->size_class);
        struct weir__block *chain = (struct weir__block *)memory, *last = chain;

        for (size_t i = 1; i < span->capacity; i++, last = last->next)
                last->next = (struct weir__block *)(memory + i * size);
        last->next = NULL;
        chain->count = span->capacity;
        return chain;
}

/* Two threads may come here at once for want of one span: then there is a region more than it takes. */
static struct span *
span_of_new_region(size_t size_class, bool huge)
{
        struct region *region = region_new(huge);

        if (!region)
                return NULL;
        weir__lock(&all.lock);
        link_region(region);
        all.region_count++;
        struct span *span = take_unused(size_class);
        weir__unlock(&all.lock);
        return span;
}

/* Where all of a region is in use it may become a huge page again, when the kernel gets round to it. */
static void
make_huge(struct region *region)
{
        weir__lock(&all.lock);
        bool changes = !region->huge && !has_unused(region) && all.region_count > FEW_REGIONS;
        region->huge |= changes;
        weir__unlock(&all.lock);
        if (changes)
                madvise(region, REGION_SIZE, MADV_HUGEPAGE);
}

struct weir__block *
weir__spans_take(size_t size_class)
{
        struct span *span = NULL;

        weir__lock(&all.lock);
        struct weir__block *chain = take_free(size_class);
        if (!chain)
                span = take_unused(size_class);
        bool is_last = span && !has_unused(region_of(span)), huge = all.region_count >= FEW_REGIONS;
        weir__unlock(&all.lock);
        if (chain)
                return chain;
        if (is_last)
                make_huge(region_of(span));
        if (!span)
                span = span_of_new_region(size_class, huge);
        return span ? cut(span) : NULL;
}

/* Pages go back; then the spans are unused again. */
static void
clean_spans(struct garbage *garbage)
{
        struct region *region = region_of(garbage->spans);
        struct span *last = NULL;

        if (garbage->was_huge)
                madvise(region, REGION_SIZE, MADV_NOHUGEPAGE);
        for (struct span *span = garbage->spans; span; span = span->next) {
                madvise(memory_of(span), SPAN_SIZE, MADV_DONTNEED);
                last = span;
        }
        weir__lock(&all.lock);
        if (!has_unused(region))
                link_region(region);
        last->next = region->clean;
        region->clean = garbage->spans;
        region->used -= garbage->span_count;
        if (!region->used)
                drop_region(region, garbage);
        weir__unlock(&all.lock);
}

/* The first SLICE blocks of a chain.  Returns the others. */
static struct weir__block *
give_slice(struct weir__block *chain, bool keep)
{
        struct garbage garbage = {.keep = keep, .cleanings = CLEANINGS};
        unsigned left = 0;

        for (struct weir__block *each = chain; each && left < SLICE; each = each->next, left++)
                __builtin_prefetch(span_of(each), 1);
        while (left > 0) {
                garbage.spans = NULL;
                garbage.span_count = 0;
                weir__lock(&all.lock);
                for (struct weir__block *next; left > 0 && !garbage.spans; left--, chain = next) {
                        next = chain->next;
                        put_block(chain, &garbage);
                }
                weir__unlock(&all.lock);
                if (garbage.spans)
                        clean_spans(&garbage);
        }
        unmap_regions(garbage.regions);
        return chain;
}

void
weir__spans_give(struct weir__block *chain, bool keep)
{
        while (chain)
                chain = give_slice(chain, keep);
}

size_t
weir__spans_out(size_t size_class)
{
        return atomic_load_explicit(&all.out[size_class], memory_order_relaxed);
}

size_t
weir__spans_class(const void *block)
{
        return span_of(block)->size_class;
}

void
weir__spans_trim(void)
{
        struct garbage garbage = {0};

        weir__lock(&all.lock);
        struct region *region = all.kept;
        all.kept = NULL;
        if (region)
                drop_region(region, &garbage);
        weir__unlock(&all.lock);
        unmap_regions(garbage.regions);
}

/* -- for tests -- */

static unsigned
length(const struct span *span)
{
        unsigned count = 0;

        for (; span; span = span->next)
                count++;
        return count;
}

static void
check_region(const struct region *region)
{
        unsigned spare = length(region->spare), clean = length(region->clean);

        if (!has_unused(region) || region->spare_count != spare || region->used + spare + clean != REGION_SPANS)
                weir__panic("region %p: %u used, %u spare (or %u), %u clean", (const void *)region, region->used,
                            region->spare_count, spare, clean);
        if ((region->used == 0) != (region == all.kept))
                weir__panic("region %p: %u used, and %p is kept", (const void *)region, region->used, (void *)all.kept);
}

static void
check_span(const struct span *span, size_t size_class)
{
        const struct weir__block *last = NULL;
        unsigned count = 0;

        for (const struct weir__block *block = span->free; count < span->free_count; block = block->next, count++) {
                if (span_of(block) != span || (uintptr_t)((const char *)block - memory_of(span)) % weir__block_size(size_class))
                        weir__panic("span %p: block %p is not of it", (const void *)span, (const void *)block);
                last = block;
        }
        if (span->size_class != size_class || !count || count >= span->capacity || span->last != last)
                weir__panic("span %p: class %u, %u free of %u", (const void *)span, span->size_class, count, span->capacity);
}

void
weir__spans_check(void)
{
        weir__lock(&all.lock);
        unsigned spare = 0;
        for (const struct region *region = all.regions; region; region = region->next) {
                check_region(region);
                spare += region->spare_count;
        }
        if (spare != all.spare_count)
                weir__panic("%u spare spans, not %u", spare, all.spare_count);
        for (size_t size_class = 0; size_class < WEIR__BLOCK_CLASSES; size_class++)
                for (const struct span *span = all.partial[size_class]; span; span = span->next)
                        check_span(span, size_class);
        weir__unlock(&all.lock);
}

/* -- fork -- */

void
weir__spans_hold(void)
{
        weir__lock(&all.lock);
}

void
weir__spans_release(void)
{
        weir__unlock(&all.lock);
}
