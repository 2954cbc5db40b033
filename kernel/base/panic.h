/* kernel/base/panic.h: the loud end, for misuse that would otherwise corrupt memory and for broken invariants. */
#ifndef WEIR_KERNEL_PANIC_H
#define WEIR_KERNEL_PANIC_H

/* Writes "weir: " and the reason as one line to standard error and aborts. */
__attribute__((noreturn, cold, format(printf, 1, 2))) void weir__panic(const char *format, ...);

#endif
