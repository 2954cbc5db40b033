/* weir/export.h: what every public header needs. */
#ifndef WEIR_EXPORT_H
#define WEIR_EXPORT_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
#define WEIR_BEGIN extern "C" {
#define WEIR_END   }
#else
#define WEIR_BEGIN
#define WEIR_END
#endif

/* The library is built with hidden visibility.  Only functions with this mark are visible from
 * outside. */
#define WEIR_API __attribute__((visibility("default")))

#endif
