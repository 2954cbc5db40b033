/* database/redis/sha1.c: SHA-1 (RFC 3174), which names scripts.  It protects nothing. */
#include <endian.h>
#include <stdio.h>
#include <string.h>

#include "database/redis/redis.h"

static uint32_t
rotate(uint32_t value, unsigned bits)
{
        return value << bits | value >> (32 - bits);
}

static void
take_block(uint32_t hash[5], const unsigned char block[64])
{
        uint32_t words[80], a = hash[0], b = hash[1], c = hash[2], d = hash[3], e = hash[4];

        memcpy(words, block, 64);
        for (unsigned i = 0; i < 16; i++)
                words[i] = be32toh(words[i]);
        for (unsigned i = 16; i < 80; i++)
                words[i] = rotate(words[i - 3] ^ words[i - 8] ^ words[i - 14] ^ words[i - 16], 1);
        for (unsigned i = 0; i < 80; i++) {
                uint32_t mixed = i < 20   ? ((b & c) | (~b & d)) + 0x5a827999u
                                 : i < 40 ? (b ^ c ^ d) + 0x6ed9eba1u
                                 : i < 60 ? ((b & c) | (b & d) | (c & d)) + 0x8f1bbcdcu
                                          : (b ^ c ^ d) + 0xca62c1d6u;
                uint32_t next = rotate(a, 5) + mixed + e + words[i];

                e = d;
                d = c;
                c = rotate(b, 30);
                b = a;
                a = next;
        }
        hash[0] += a;
        hash[1] += b;
        hash[2] += c;
        hash[3] += d;
        hash[4] += e;
}

void
weir__redis_sha1(const void *data, size_t size, char out[41])
{
        uint32_t hash[5] = {0x67452301u, 0xefcdab89u, 0x98badcfeu, 0x10325476u, 0xc3d2e1f0u};
        unsigned char rest[128] = {0};
        size_t whole = size / 64 * 64, left = size - whole, end = left < 56 ? 64 : 128;
        uint64_t bits = htobe64((uint64_t)size * 8);

        for (size_t at = 0; at < whole; at += 64)
                take_block(hash, (const unsigned char *)data + at);
        if (left)
                memcpy(rest, (const unsigned char *)data + whole, left);
        rest[left] = 0x80;
        memcpy(rest + end - sizeof bits, &bits, sizeof bits);
        for (size_t at = 0; at < end; at += 64)
                take_block(hash, rest + at);
        for (unsigned i = 0; i < 5; i++)
                snprintf(out + 8 * i, 9, "%08x", hash[i]);
}
