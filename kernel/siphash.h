/* kernel/siphash.h: a keyed hash of short strings, for maps whose keys may come from strangers. */
#ifndef WEIR_KERNEL_SIPHASH_H
#define WEIR_KERNEL_SIPHASH_H

#include <stddef.h>
#include <stdint.h>

/* SipHash-1-3.  Source: Aumasson and Bernstein, SipHash: a fast short-input PRF, 2012; one compression round and three at the
 * end, as hash tables of Rust, Ruby and Python use it. */
uint64_t weir__siphash(const uint64_t key[2], const void *data, size_t size);

#endif
