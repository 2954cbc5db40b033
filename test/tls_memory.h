/* test/tls_memory.h: memory that is refused, to the library and to OpenSSL.
 *
 * The linker puts the functions below in front of the allocator's (test/CMakeLists.txt). */
#ifndef WEIR_TEST_TLS_MEMORY_H
#define WEIR_TEST_TLS_MEMORY_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/crypto.h>

#include "kernel/memory/memory.h"

void *__real_weir__alloc(size_t size);
void *__wrap_weir__alloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__real_realloc(void *block, size_t size);
void *__wrap_realloc(void *block, size_t size);
void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);
char *__real_strndup(const char *text, size_t size);
char *__wrap_strndup(const char *text, size_t size);
char *__real_strdup(const char *text);
char *__wrap_strdup(const char *text);

static int64_t allocations_left = INT64_MAX; /* until one is refused */
static bool has_refused;

static inline bool is_refused(void)
{
        if (allocations_left == INT64_MAX || allocations_left-- != 0) {
                return false;
        }
        has_refused = true;
        return true;
}

void *__wrap_weir__alloc(size_t size)
{
        return is_refused() ? NULL : __real_weir__alloc(size);
}

void *__wrap_malloc(size_t size)
{
        return is_refused() ? NULL : __real_malloc(size);
}

char *__wrap_strndup(const char *text, size_t size)
{
        return is_refused() ? NULL : __real_strndup(text, size);
}

char *__wrap_strdup(const char *text)
{
        return is_refused() ? NULL : __real_strdup(text);
}

void *__wrap_calloc(size_t count, size_t size)
{
        return is_refused() ? NULL : __real_calloc(count, size);
}

void *__wrap_realloc(void *block, size_t size)
{
        return is_refused() ? NULL : __real_realloc(block, size);
}

/* OpenSSL's, which the linker does not reach. */
static inline void *crypto_malloc(size_t size, const char *file, int line)
{
        (void)file, (void)line;
        return is_refused() ? NULL : __real_malloc(size);
}

static inline void *crypto_realloc(void *block, size_t size, const char *file, int line)
{
        (void)file, (void)line;
        return is_refused() ? NULL : __real_realloc(block, size);
}

static inline void crypto_free(void *block, const char *file, int line)
{
        (void)file, (void)line;
        free(block);
}

static inline void refuse_after(int64_t count)
{
        has_refused = false;
        allocations_left = count;
}

static inline void refuse_none(void)
{
        allocations_left = INT64_MAX;
}

/* Before OpenSSL's first allocation. */
static inline bool can_refuse(void)
{
        return CRYPTO_set_mem_functions(crypto_malloc, crypto_realloc, crypto_free) == 1;
}

#endif
