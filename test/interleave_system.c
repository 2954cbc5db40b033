/* test/interleave_system.c: the calls of the system that the library uses, for a world in which one thread runs at a time:
 * descriptors, the clock and memory.
 *
 * Threads: as in interleave.c, the one that holds the baton; compiled without ThreadSanitizer for the same reason. */
#define INTERLEAVE_SCHEDULER
#include "test/interleave.h"

#include <string.h>

#include "kernel/memory/memory.h"
#define DESCRIPTORS 64
#define FIRST       1000000 /* number of a descriptor; the system has none as high */
#define NEVER       INT64_MAX
#define READ        64   /* nanoseconds that pass, at most, when somebody reads the clock */
#define FREED       4096 /* blocks that are watched until the end of the run */
#define WATCHED     512  /* bytes of each */
#define FRESH       0xa5 /* each byte of new memory */
#define LARGE       (16 * 1024)

/* -- the clock -- */

struct descriptor {
        bool used, signalled;
        int epoll; /* that watches it, or -1 */
        epoll_data_t data;
        int64_t armed; /* a timerfd's */
};

static struct {
        int64_t now;
        struct descriptor descriptors[DESCRIPTORS];
} outside;

static void
signal_descriptor(struct descriptor *descriptor)
{
        descriptor->signalled = true;
        if (descriptor->epoll >= 0)
                interleave_wake(&outside.descriptors[descriptor->epoll - FIRST], INT32_MAX);
}

static int64_t
next_deadline(void)
{
        int64_t next = NEVER;

        for (unsigned i = 0; i < DESCRIPTORS; i++)
                if (outside.descriptors[i].used && outside.descriptors[i].armed < next)
                        next = outside.descriptors[i].armed;
        return next;
}

static void
become(int64_t now)
{
        outside.now = now;
        for (unsigned i = 0; i < DESCRIPTORS; i++) {
                struct descriptor *descriptor = &outside.descriptors[i];

                if (descriptor->used && descriptor->armed <= now) {
                        descriptor->armed = NEVER;
                        signal_descriptor(descriptor);
                }
        }
}

bool
interleave_time_is_armed(void)
{
        return next_deadline() != NEVER;
}

void
interleave_time_passes(void)
{
        become(next_deadline());
}

int
interleave_clock(clockid_t clock, struct timespec *now)
{
        (void)clock;
        become(outside.now + interleave_random(READ));
        *now = (struct timespec){.tv_sec = outside.now / 1000000000, .tv_nsec = outside.now % 1000000000};
        return 0;
}

/* So that a seed stands for the same order of names every time. */
ssize_t
interleave_getrandom(void *buffer, size_t size, unsigned flags)
{
        (void)flags;
        memset(buffer, 0x5a, size);
        return (ssize_t)size;
}

/* -- descriptors: edge-triggered -- */

static struct descriptor *
descriptor_of(int fd)
{
        if (fd < FIRST || fd >= FIRST + DESCRIPTORS || !outside.descriptors[fd - FIRST].used)
                interleave_fail("descriptor %d is not open", fd);
        return &outside.descriptors[fd - FIRST];
}

static int
open_descriptor(void)
{
        for (int i = 0; i < DESCRIPTORS; i++)
                if (!outside.descriptors[i].used) {
                        outside.descriptors[i] = (struct descriptor){.used = true, .epoll = -1, .armed = NEVER};
                        return FIRST + i;
                }
        interleave_fail("more descriptors than %d", DESCRIPTORS);
}

int
interleave_close(int fd)
{
        descriptor_of(fd)->used = false;
        return 0;
}

int
interleave_epoll_create(int flags)
{
        (void)flags;
        return open_descriptor();
}

int
interleave_eventfd(unsigned value, int flags)
{
        (void)value;
        (void)flags;
        return open_descriptor();
}

int
interleave_timerfd(clockid_t clock, int flags)
{
        (void)clock;
        (void)flags;
        return open_descriptor();
}

int
interleave_epoll_control(int epoll, int operation, int fd, struct epoll_event *event)
{
        if (operation != EPOLL_CTL_ADD || !(event->events & EPOLLET))
                interleave_fail("epoll_ctl with operation %d is not known here", operation);
        descriptor_of(fd)->signalled = false;
        descriptor_of(fd)->epoll = epoll;
        descriptor_of(fd)->data = event->data;
        return 0;
}

static int
take_events(int epoll, struct epoll_event *events, int max)
{
        int count = 0;

        for (unsigned i = 0; i < DESCRIPTORS && count < max; i++) {
                struct descriptor *descriptor = &outside.descriptors[i];

                if (descriptor->used && descriptor->epoll == epoll && descriptor->signalled) {
                        descriptor->signalled = false;
                        events[count++] = (struct epoll_event){.events = EPOLLIN, .data = descriptor->data};
                }
        }
        return count;
}

int
interleave_epoll_wait(int epoll, struct epoll_event *events, int max, int timeout)
{
        int count;

        interleave_step(NULL, 0, "epoll_wait", __func__, __LINE__);
        while ((count = take_events(epoll, events, max)) == 0 && timeout < 0)
                interleave_sleep(descriptor_of(epoll));
        return count;
}

int
interleave_eventfd_write(int fd, eventfd_t value)
{
        (void)value;
        interleave_step(NULL, 0, "eventfd_write", __func__, __LINE__);
        signal_descriptor(descriptor_of(fd));
        return 0;
}

int
interleave_timerfd_set(int fd, int flags, const struct itimerspec *value, struct itimerspec *before)
{
        int64_t deadline = value->it_value.tv_sec * INT64_C(1000000000) + value->it_value.tv_nsec;
        struct descriptor *descriptor = descriptor_of(fd);

        (void)flags;
        (void)before;
        descriptor->signalled = false;
        descriptor->armed = deadline ? deadline : NEVER;
        become(outside.now);
        return 0;
}

/* -- memory: under a sanitizer, malloc's.  Else what is freed stays, poisoned, until the end of the run, and each access to an
 * atomic or a mutex looks for the poison -- */

struct block {
        _Alignas(64) size_t size;
        uint64_t guard;
        void *start; /* of the memory that it lies at the end of, before what the caller has */
};

static struct {
        size_t held; /* blocks, but for large ones */
        unsigned count;
        struct block *freed[FREED];
} memory;

size_t
interleave_blocks(void)
{
        return memory.held;
}

void *
interleave_aligned_alloc(size_t alignment, size_t size)
{
        size_t before = alignment > sizeof(struct block) ? alignment : sizeof(struct block);
        char *start = aligned_alloc(before, (before + size + before - 1) & ~(before - 1));

        if (!start)
                return NULL;
        struct block *block = (struct block *)(start + before) - 1;
        *block = (struct block){.size = size, .start = start};
        memory.held += size < LARGE;
        if (!INTERLEAVE_SANITIZED)
                memset(block + 1, FRESH, size); /* a run before may have left its poison there */
        return block + 1;
}

void *
interleave_malloc(size_t size)
{
        return interleave_aligned_alloc(_Alignof(struct block), size);
}

void *
interleave_calloc(size_t count, size_t size)
{
        void *block = interleave_malloc(count * size);

        return block ? memset(block, 0, count * size) : NULL;
}

void
interleave_free(void *freed)
{
        if (!freed)
                return;
        struct block *block = (struct block *)freed - 1;
        memory.held -= block->size < LARGE;
        if (INTERLEAVE_SANITIZED || memory.count == FREED || block->size >= LARGE) {
                free(block->start);
                return;
        }
        if (block->guard)
                interleave_fail("freed twice: %p", freed);
        block->guard = 1;
        memset(freed, INTERLEAVE_POISON, block->size);
        memory.freed[memory.count++] = block;
}

void *
interleave_realloc(void *old, size_t size)
{
        void *new = interleave_malloc(size);

        if (new &&old) {
                size_t before = ((struct block *)old - 1)->size;

                memcpy(new, old, before < size ? before : size);
                interleave_free(old);
        }
        return new;
}

/* In the place of kernel/memory/memory.c, whose caches would hide what happens to a freed block. */
void *
weir__alloc(size_t size)
{
        return interleave_malloc(size);
}

void
weir__free(void *block, size_t size)
{
        (void)size;
        interleave_free(block);
}

void
weir__memory_release_cache(void)
{
}

void
weir__memory_trim(void)
{
}

/* Nothing is said of tasks that were never started. */
void
weir__memory_for_each(void (*look)(const void *block, size_t size, void *context), void *context)
{
        (void)look, (void)context;
}

static void
release_freed(void)
{
        while (memory.count > 0) {
                struct block *block = memory.freed[--memory.count];
                const unsigned char *bytes = (const unsigned char *)(block + 1);

                for (size_t i = 0; i < block->size && i < WATCHED; i++)
                        if (bytes[i] != INTERLEAVE_POISON)
                                interleave_fail("written to after it was freed: byte %zu of %zu", i, block->size);
                free(block->start);
        }
}

/* -- a world -- */

/* The descriptors of pollers stay open, as their memory stays. */
void
interleave_system_begin(int64_t now)
{
        outside.now = now;
}

void
interleave_system_end(void)
{
        release_freed();
}
