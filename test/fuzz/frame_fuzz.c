/* test/fuzz/frame_fuzz.c: the framing of own protocols, beside a second reader.
 *
 * The first bytes of an input make the description; the rest is a stream.  It is fed whole and byte by byte.  What must hold:
 *
 * - Both ways find the same messages, and the same fault behind them, as a reader that looks at one byte after another.
 * - A message lies within what has come, and is at most as large as it may be.
 * - What a message shows to the program, made into a message again, is the same bytes. */
#include <errno.h>

#include "net/protocol/frame.h"
#include "test/fuzz/fuzz.h"

#define MESSAGES 4096

struct found {
        size_t ends[MESSAGES];
        size_t count;
        ssize_t fault;
};

/* -- the second reader -- */

/* The size of the first message, from its bytes alone; 0: it is not whole; negative: a fault. */
static ssize_t
plain_end(const struct weir_protocol *protocol, const char *data, size_t size)
{
        size_t most = weir__protocol_max(protocol);

        if (protocol->fixed_size)
                return size < protocol->fixed_size ? 0 : (ssize_t)protocol->fixed_size;
        if (protocol->delimiter_size) {
                for (size_t end = protocol->delimiter_size; end <= size && end <= most; end++)
                        if (memcmp(data + end - protocol->delimiter_size, protocol->delimiter, protocol->delimiter_size) == 0)
                                return (ssize_t)end;
                return size >= most ? -EMSGSIZE : 0;
        }
        size_t head = protocol->length_at + (size_t)protocol->length_width;
        if (size < head)
                return 0;
        __int128 whole = 0;
        for (size_t i = 0; i < protocol->length_width; i++) {
                size_t at = protocol->length_is_little ? protocol->length_width - 1 - i : i;

                whole = whole * 256 + (unsigned char)data[protocol->length_at + at];
        }
        whole += protocol->length_adjust;
        if (whole > (__int128)most)
                return -EMSGSIZE;
        if (whole < (__int128)head)
                return -EBADMSG;
        return (__int128)size < whole ? 0 : (ssize_t)whole;
}

static void
read_plainly(const struct weir_protocol *protocol, struct fuzz_input stream, struct found *found)
{
        size_t at = 0;

        found->count = 0;
        while (at < stream.size && found->count < MESSAGES) {
                ssize_t end = plain_end(protocol, stream.at + at, stream.size - at);

                if (end > 0 && protocol->id_width && (size_t)end < (size_t)protocol->id_at + protocol->id_width)
                        end = -EBADMSG; /* it ends before its number */
                found->fault = end < 0 ? end : 0;
                if (end <= 0)
                        return;
                at += (size_t)end;
                found->ends[found->count++] = at;
        }
}

/* -- the library -- */

/* `piece` bytes come at a time. */
static void
compare(const struct weir_protocol *protocol, struct fuzz_input stream, size_t piece, const struct found *found)
{
        size_t at = 0, scanned = 0, count = 0;

        for (size_t come = 0; come < stream.size;) {
                come = stream.size - come < piece ? stream.size : come + piece;
                while (at < come && count < MESSAGES) {
                        char *copy = fuzz_copy(stream.at + at, come - at);
                        ssize_t end = weir__frame_end(protocol, copy, come - at, &scanned);

                        free(copy);
                        FUZZ_CHECK(end <= (ssize_t)(come - at) && end <= (ssize_t)weir__protocol_max(protocol));
                        if (end < 0) {
                                FUZZ_CHECK(count == found->count && end == found->fault);
                                return;
                        }
                        if (end == 0)
                                break;
                        at += (size_t)end;
                        scanned = 0;
                        FUZZ_CHECK(count < found->count && found->ends[count] == at);
                        count++;
                }
        }
        FUZZ_CHECK(count == found->count && found->fault == 0);
}

static void
write_again(const struct weir_protocol *protocol, const char *data, size_t size)
{
        struct weir__part body = weir__frame_body(protocol, size);

        FUZZ_CHECK(body.at <= size && body.size <= size - body.at);
        ssize_t whole = weir__frame_whole(protocol, data + body.at, body.size);
        FUZZ_CHECK(whole == (ssize_t)size);
        char *copy = fuzz_copy(NULL, 0), *out = realloc(copy, size);
        weir__frame_write(protocol, out, size, data + body.at, body.size);
        FUZZ_CHECK(memcmp(out, data, size) == 0);
        if (protocol->id_width) {
                uint64_t id = weir__frame_id(protocol, data, size);

                weir__frame_set_id(protocol, out, size, id);
                FUZZ_CHECK(memcmp(out, data, size) == 0 || id == WEIR_MATCH_NONE);
                FUZZ_CHECK(weir__frame_id(protocol, out, size) == id);
        }
        free(out);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        static struct found found;
        struct fuzz_input input = fuzz_input(data, size);
        struct weir_protocol protocol = WEIR_PROTOCOL_DEFAULT;
        char delimiter[3];
        unsigned kind = fuzz_take_byte(&input), first = fuzz_take_byte(&input), second = fuzz_take_byte(&input);

        protocol.bare = kind & 4;
        protocol.length_is_little = kind & 8;
        protocol.max_message = kind & 16 ? 64 : 1000;
        protocol.id_width = kind & 32 ? kind >> 6 : 0;
        protocol.id_at = kind >> 6;
        if (kind % 4 == 0) {
                protocol.length_width = (uint8_t)(first % 9);
                protocol.length_at = first / 9;
                protocol.length_adjust = (int8_t)second;
        } else if (kind % 4 == 1) {
                protocol.fixed_size = first;
        } else {
                delimiter[0] = (char)first;
                delimiter[1] = (char)second;
                delimiter[2] = (char)first;
                protocol.delimiter = delimiter;
                protocol.delimiter_size = kind % 4 == 2 ? 1 + second % 2 : 3;
        }
        if (weir__protocol_check(&protocol, "frame_fuzz") != 0)
                return 0;
        found = (struct found){.count = 0};
        read_plainly(&protocol, input, &found);
        compare(&protocol, input, input.size ? input.size : 1, &found);
        if (input.size < 2000)
                compare(&protocol, input, 1, &found);
        for (size_t i = 0, at = 0; i < found.count; at = found.ends[i++])
                write_again(&protocol, input.at + at, found.ends[i] - at);
        return 0;
}
