/* kernel/memory/sanitized.h: whether a sanitizer watches this build, which must see each allocation and each byte that comes by a
 * descriptor. */
#ifndef WEIR_KERNEL_SANITIZED_H
#define WEIR_KERNEL_SANITIZED_H

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define WEIR__SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
#define WEIR__SANITIZED 1
#endif
#endif
#ifndef WEIR__SANITIZED
#define WEIR__SANITIZED 0
#endif

/* Whether that is ThreadSanitizer. */
#if defined(__SANITIZE_THREAD__)
#define WEIR__SANITIZED_THREAD 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define WEIR__SANITIZED_THREAD 1
#endif
#endif
#ifndef WEIR__SANITIZED_THREAD
#define WEIR__SANITIZED_THREAD 0
#endif

#endif
