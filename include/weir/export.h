/* weir/export.h: what every public header needs. */
#ifndef WEIR_EXPORT_H
#define WEIR_EXPORT_H

#include <stddef.h>
#include <stdint.h>

/* In C++ a function may have the name of a struct, as weir_stats has, but -Wshadow warns of it. */
#ifdef __cplusplus
#define WEIR_BEGIN extern "C" { _Pragma("GCC diagnostic push") _Pragma("GCC diagnostic ignored \"-Wshadow\"")
#define WEIR_END   _Pragma("GCC diagnostic pop") }
#else
#define WEIR_BEGIN
#define WEIR_END
#endif

/* The library is built with hidden visibility.  Only functions with this mark are visible from
 * outside. */
#define WEIR_API __attribute__((visibility("default")))

#endif
