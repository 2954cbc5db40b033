/* test/faults_fixture.h: memory that is refused to the library, the C library's strings and OpenSSL; blocks that are counted; and
 * calls of the system that fail.
 *
 * The linker puts these functions in front of the library's calls (test/CMakeLists.txt).  One file of a program includes this. */
#ifndef WEIR_TEST_FAULTS_FIXTURE_H
#define WEIR_TEST_FAULTS_FIXTURE_H

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/crypto.h>

#include "test/blocks_fixture.h"

static _Atomic bool is_armed;      /* the C library's and OpenSSL's memory is refused as well, and calls fail */
static _Atomic int64_t blocks_out; /* of the C library */

/* -- memory -- */

static bool
is_refused(void)
{
        int before = atomic_load(&allocations_left);

        if (!is_armed)
                return false;
        while (before >= 0 && !atomic_compare_exchange_weak(&allocations_left, &before, before - 1))
                ;
        return before == 0;
}

static void *
counted(void *block)
{
        if (block)
                atomic_fetch_add(&blocks_out, 1);
        return block;
}

void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__real_realloc(void *block, size_t size);
void *__wrap_realloc(void *block, size_t size);
char *__real_strdup(const char *text);
char *__wrap_strdup(const char *text);
char *__real_strndup(const char *text, size_t size);
char *__wrap_strndup(const char *text, size_t size);
void *__real_aligned_alloc(size_t alignment, size_t size);
void *__wrap_aligned_alloc(size_t alignment, size_t size);
void __real_free(void *block);
void __wrap_free(void *block);

void *
__wrap_malloc(size_t size)
{
        return is_refused() ? NULL : counted(__real_malloc(size));
}

void *
__wrap_calloc(size_t count, size_t size)
{
        return is_refused() ? NULL : counted(__real_calloc(count, size));
}

void *
__wrap_realloc(void *block, size_t size)
{
        void *moved = is_refused() ? NULL : __real_realloc(block, size);

        return block ? moved : counted(moved);
}

char *
__wrap_strdup(const char *text)
{
        return is_refused() ? NULL : counted(__real_strdup(text));
}

char *
__wrap_strndup(const char *text, size_t size)
{
        return is_refused() ? NULL : counted(__real_strndup(text, size));
}

void *
__wrap_aligned_alloc(size_t alignment, size_t size)
{
        return is_refused() ? NULL : counted(__real_aligned_alloc(alignment, size));
}

void
__wrap_free(void *block)
{
        if (block)
                atomic_fetch_sub(&blocks_out, 1);
        __real_free(block);
}

/* OpenSSL's, which the linker does not reach.  They are not counted: it keeps some for ever. */
static void *
crypto_malloc(size_t size, const char *file, int line)
{
        (void)file, (void)line;
        return is_refused() ? NULL : __real_malloc(size);
}

static void *
crypto_realloc(void *block, size_t size, const char *file, int line)
{
        (void)file, (void)line;
        return is_refused() ? NULL : __real_realloc(block, size);
}

static void
crypto_free(void *block, const char *file, int line)
{
        (void)file, (void)line;
        __real_free(block);
}

/* Before OpenSSL's first allocation. */
static inline bool
can_refuse_openssl(void)
{
        return CRYPTO_set_mem_functions(crypto_malloc, crypto_realloc, crypto_free) == 1;
}

/* -- calls -- */

static _Atomic int faulty_call, fault_error; /* which of the program's enum fails, and how */
static _Atomic int calls_left = -1;          /* that work before; below 0: none fails */

/* Whether this call fails; errno is set then.  It fails once. */
static inline bool
fails(int call)
{
        int before = atomic_load(&calls_left);

        if (!is_armed || call != faulty_call)
                return false;
        while (before >= 0 && !atomic_compare_exchange_weak(&calls_left, &before, before - 1))
                ;
        if (before == 0)
                errno = fault_error;
        return before == 0;
}

#endif
