/* kernel/siphash.c: SipHash-1-3.
 *
 * Pure.  libcrypto has SipHash as a MAC, whose set-up per call costs some hundred times the ten nanoseconds of this on a short
 * name. */
#include "kernel/siphash.h"

#include <string.h>

struct state {
        uint64_t a, b, c, d;
};

static inline uint64_t
rotate(uint64_t word, int bits)
{
        return word << bits | word >> (64 - bits);
}

static inline void
mix(struct state *state)
{
        state->a += state->b;
        state->c += state->d;
        state->b = rotate(state->b, 13) ^ state->a;
        state->d = rotate(state->d, 16) ^ state->c;
        state->a = rotate(state->a, 32);
        state->c += state->b;
        state->a += state->d;
        state->b = rotate(state->b, 17) ^ state->c;
        state->d = rotate(state->d, 21) ^ state->a;
        state->c = rotate(state->c, 32);
}

static inline void
absorb(struct state *state, uint64_t word)
{
        state->d ^= word;
        mix(state);
        state->a ^= word;
}

/* The eight bytes at `data`, the first one lowest, on any machine. */
static inline uint64_t
little_endian(const unsigned char *data)
{
        uint64_t word;

        memcpy(&word, data, sizeof word);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
        word = __builtin_bswap64(word);
#endif
        return word;
}

uint64_t
weir__siphash(const uint64_t key[2], const void *data, size_t size)
{
        struct state state = {
                key[0] ^ 0x736f6d6570736575,
                key[1] ^ 0x646f72616e646f6d,
                key[0] ^ 0x6c7967656e657261,
                key[1] ^ 0x7465646279746573,
        };
        const unsigned char *at = data;
        uint64_t last = (uint64_t)size << 56;

        for (size_t words = size / 8; words > 0; words--, at += 8)
                absorb(&state, little_endian(at));
        for (size_t i = 0; i < size % 8; i++)
                last |= (uint64_t)at[i] << (8 * i);
        absorb(&state, last);
        state.c ^= 0xff;
        for (int i = 0; i < 3; i++)
                mix(&state);
        return state.a ^ state.b ^ state.c ^ state.d;
}
