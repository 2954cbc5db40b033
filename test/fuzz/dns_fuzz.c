/* test/fuzz/dns_fuzz.c: queries for examples/dns-server.c.
 *
 * No query makes it read behind the end.  A reply has the id of the query, is marked as one, and has 12 to 512 bytes.  What is no
 * query gets none, and so does its own reply. */
#pragma GCC diagnostic ignored "-Wmissing-prototypes" /* of what was main */
#define main program_main
#include "examples/dns-server.c"
#undef main

#include "test/fuzz/fuzz.h"

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        unsigned char reply[REPLY_MAX], again[REPLY_MAX];

        if (!host_count) {
                FUZZ_CHECK(add_host("a=192.0.2.1") && add_host("www.example=192.0.2.1") && add_host("www.example=2001:db8::1"));
        }
        size_t got = answer(data, size, reply);
        FUZZ_CHECK(got == 0 || (got >= HEADER && got <= REPLY_MAX));
        FUZZ_CHECK((got == 0) == (size < HEADER || (data[2] & 0x80)));
        if (got) {
                FUZZ_CHECK(memcmp(reply, data, 2) == 0 && (reply[2] & 0x80));
                FUZZ_CHECK(got <= size + 28);
                FUZZ_CHECK(answer(reply, got, again) == 0);
        }
        return 0;
}
