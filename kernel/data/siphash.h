/* kernel/data/siphash.h: SipHash-1-3, a keyed hash of short strings, for maps whose keys may come from strangers.
 *
 * Pure, and inline, since each call by name hashes a name.  libcrypto has SipHash as a MAC.  Its set-up for each call costs
 * some hundred times the five nanoseconds of this on a short name.
 *
 * Source: Aumasson and Bernstein, SipHash: a fast short-input PRF, 2012.  It has one compression round and three at the end, as
 * in the hash tables of Rust, Ruby and Python. */
#ifndef WEIR_KERNEL_SIPHASH_H
#define WEIR_KERNEL_SIPHASH_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct weir__siphash {
        uint64_t a, b, c, d;
};

static inline uint64_t weir__siphash_rotate(uint64_t word, int bits)
{
        return word << bits | word >> (64 - bits);
}

static inline void weir__siphash_mix(struct weir__siphash *state)
{
        state->a += state->b;
        state->c += state->d;
        state->b = weir__siphash_rotate(state->b, 13) ^ state->a;
        state->d = weir__siphash_rotate(state->d, 16) ^ state->c;
        state->a = weir__siphash_rotate(state->a, 32);
        state->c += state->b;
        state->a += state->d;
        state->b = weir__siphash_rotate(state->b, 17) ^ state->c;
        state->d = weir__siphash_rotate(state->d, 21) ^ state->a;
        state->c = weir__siphash_rotate(state->c, 32);
}

static inline void weir__siphash_absorb(struct weir__siphash *state, uint64_t word)
{
        state->d ^= word;
        weir__siphash_mix(state);
        state->a ^= word;
}

/* The eight bytes at `data`, the first one lowest, on any machine. */
static inline uint64_t weir__siphash_word(const unsigned char *data)
{
        uint64_t word;

        memcpy(&word, data, sizeof word);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
        word = __builtin_bswap64(word);
#endif
        return word;
}

/* The same for four bytes. */
static inline uint64_t weir__siphash_half(const unsigned char *data)
{
        uint32_t word;

        memcpy(&word, data, sizeof word);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
        word = __builtin_bswap32(word);
#endif
        return word;
}

/* The size % 8 bytes that are left at `data`, the first one lowest.  A loop would cost a branch that is hard to predict. */
static inline uint64_t weir__siphash_rest(const unsigned char *data, size_t size)
{
        size_t left = size % 8;

        if (left == 0)
                return 0;
        if (size >= 8)
                return weir__siphash_word(data + left - 8) >> (64 - 8 * left);
        if (left >= 4)
                return weir__siphash_half(data) | weir__siphash_half(data + left - 4) << (8 * left - 32);
        return data[0] | (uint64_t)data[left / 2] << (left / 2 * 8) | (uint64_t)data[left - 1] << (8 * left - 8);
}

static inline uint64_t weir__siphash(const uint64_t key[2], const void *data, size_t size)
{
        struct weir__siphash state = {
                key[0] ^ 0x736f6d6570736575,
                key[1] ^ 0x646f72616e646f6d,
                key[0] ^ 0x6c7967656e657261,
                key[1] ^ 0x7465646279746573,
        };
        const unsigned char *at = data;

        for (size_t words = size / 8; words > 0; words--, at += 8)
                weir__siphash_absorb(&state, weir__siphash_word(at));
        weir__siphash_absorb(&state, (uint64_t)size << 56 | weir__siphash_rest(at, size));
        state.c ^= 0xff;
        for (int i = 0; i < 3; i++)
                weir__siphash_mix(&state);
        return state.a ^ state.b ^ state.c ^ state.d;
}

#endif
