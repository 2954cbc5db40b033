/* test/memory_faults.h: memory that is refused to the workers, as a test has chosen.
 *
 * The linker puts the functions below in front of the allocator (test/CMakeLists.txt): they count the live blocks, and refuse the
 * allocation that a test has chosen, where a worker asks for it.  What OpenSSL, zlib and the C library allocate for themselves is
 * neither counted nor refused. */
#ifndef WEIR_TEST_MEMORY_FAULTS_H
#define WEIR_TEST_MEMORY_FAULTS_H

#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernel/memory/memory.h"
#include "kernel/worker/worker.h"

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *block, size_t size);
void *__real_aligned_alloc(size_t alignment, size_t size);
char *__real_strdup(const char *text);
char *__real_strndup(const char *text, size_t size);
void __real_free(void *block);

void *__wrap_weir__alloc(size_t size);
void __wrap_weir__free(void *block, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *block, size_t size);
void *__wrap_aligned_alloc(size_t alignment, size_t size);
char *__wrap_strdup(const char *text);
char *__wrap_strndup(const char *text, size_t size);
int __wrap_asprintf(char **ret_text, const char *format, ...) __attribute__((format(printf, 2, 3)));
int __wrap___asprintf_chk(char **ret_text, int flag, const char *format, ...) __attribute__((format(printf, 3, 4)));
void __wrap_free(void *block);

static _Atomic int64_t live;         /* blocks */
static _Atomic int64_t left;         /* allocations until the refused one; below 0: it has been, or none is */
static _Atomic bool armed, for_good; /* for_good: all that come after it are refused too */
static _Atomic bool refused;         /* one was */

static inline bool refuse(void)
{
        if (!atomic_load(&armed) || !weir__worker_self()) {
                return false;
        }
        int64_t before = atomic_fetch_sub(&left, 1);
        if (before > 0 || (before < 0 && !atomic_load(&for_good))) {
                return false;
        }
        atomic_store(&refused, true);
        errno = ENOMEM;
        return true;
}

static inline void *counted(void *block)
{
        atomic_fetch_add(&live, block ? 1 : 0);
        return block;
}

void *__wrap_malloc(size_t size)
{
        return refuse() ? NULL : counted(__real_malloc(size));
}

void *__wrap_calloc(size_t count, size_t size)
{
        return refuse() ? NULL : counted(__real_calloc(count, size));
}

void *__wrap_realloc(void *block, size_t size)
{
        void *moved = refuse() ? NULL : __real_realloc(block, size);

        return block ? moved : counted(moved);
}

void *__wrap_aligned_alloc(size_t alignment, size_t size)
{
        return refuse() ? NULL : counted(__real_aligned_alloc(alignment, size));
}

char *__wrap_strdup(const char *text)
{
        return refuse() ? NULL : counted(__real_strdup(text));
}

char *__wrap_strndup(const char *text, size_t size)
{
        return refuse() ? NULL : counted(__real_strndup(text, size));
}

static inline int print(char **ret_text, const char *format, va_list arguments)
{
        if (refuse()) {
                return -1;
        }
        int size = vasprintf(ret_text, format, arguments);
        atomic_fetch_add(&live, size >= 0);
        return size;
}

int __wrap_asprintf(char **ret_text, const char *format, ...)
{
        va_list arguments;

        va_start(arguments, format);
        int size = print(ret_text, format, arguments);
        va_end(arguments);
        return size;
}

/* What asprintf is with _FORTIFY_SOURCE, as in a Debian package. */
int __wrap___asprintf_chk(char **ret_text, int flag, const char *format, ...)
{
        va_list arguments;

        (void)flag;
        va_start(arguments, format);
        int size = print(ret_text, format, arguments);
        va_end(arguments);
        return size;
}

void __wrap_free(void *block)
{
        atomic_fetch_sub(&live, block ? 1 : 0);
        __real_free(block);
}

/* Blocks come from malloc one by one, so that each of them can be refused, and is counted. */
void *__wrap_weir__alloc(size_t size)
{
        return __wrap_malloc(size);
}

void __wrap_weir__free(void *block, size_t size)
{
        (void)size;
        __wrap_free(block);
}

/* From now on the nth allocation is refused, and perhaps all after it. */
static inline void refuse_from(int64_t nth, bool all_after_it)
{
        atomic_store(&left, nth);
        atomic_store(&for_good, all_after_it);
        atomic_store(&refused, false);
        atomic_store(&armed, true);
}

#endif
