/* kernel/memory/watched.h: blocks in a program that runs under a tool which looks at memory.
 *
 * The tools are AddressSanitizer, LeakSanitizer and valgrind's memcheck.  There each block comes from malloc and goes to free, so
 * the tool shows where the program made it and freed it.  docs/decisions/705 has the reasons. */
#ifndef WEIR_KERNEL_WATCHED_H
#define WEIR_KERNEL_WATCHED_H

#include <stdbool.h>
#include <stddef.h>

/* Constant from the load of the library on. */
extern bool weir__memory_is_watched;

/* Whether a tool watches the program.  Each call finds the same.  Any thread. */
bool weir__watched_find(void);

/* Whether that is valgrind's memcheck.  It looks at the environment: not for hot paths.  Any thread. */
bool weir__watched_by_memcheck(void);

/* As weir__alloc and weir__free.  A block that is not NULL is freed with its size. */
void *weir__watched_alloc(size_t size);
void weir__watched_free(void *block, size_t size);

/* Calls `look` for each block, under a lock.  It must not allocate.  Any thread. */
void weir__watched_for_each(void (*look)(const void *block, size_t size, void *context), void *context);

/* For fork: no other thread is in this module between the two calls. */
void weir__watched_hold(void);
void weir__watched_release(void);

/* The program has given an object.  Where that was freed, AddressSanitizer reports it, with the stack of the caller: it sees no
 * load of the library, which was built without it.  memcheck sees all loads. */
void weir__watched_touch(const void *object) __attribute__((cold));

static inline void
weir__memory_expect(const void *object)
{
        if (__builtin_expect(weir__memory_is_watched, 0))
                weir__watched_touch(object);
}

#endif
