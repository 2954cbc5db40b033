/* weir/export.h: what every public header needs, and nothing else. */
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

/* The library is built with hidden visibility: what bears this mark, and it alone, is seen from outside. */
#define WEIR_API __attribute__((visibility("default")))

#endif
