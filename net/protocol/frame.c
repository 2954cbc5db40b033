/* net/protocol/frame.c: where a message ends, and how one is made.
 *
 * Threads: any; nothing here has a state. */
#include "net/protocol/frame.h"

#include <endian.h>
#include <errno.h>
#include <string.h>

#include "kernel/observe/log.h"

#define WIDTH_MAX     8
#define DELIMITER_MAX 255 /* bytes */
#define DEPTH_MAX     65535
#define MESSAGE_MOST  ((size_t)1 << 30) /* bytes, whatever the description says */

/* -- the description -- */

/* Returns what contradicts itself; or NULL. */
static const char *
fault_of_framing(const struct weir_protocol *protocol)
{
        size_t most = weir__protocol_max(protocol);
        unsigned ways = (protocol->length_width > 0) + (protocol->delimiter != NULL) + (protocol->fixed_size > 0) +
                        (protocol->frame != NULL);

        if (ways != 1)
                return "expected one of length_width, delimiter, fixed_size and frame";
        if (protocol->length_width > WIDTH_MAX || protocol->id_width > WIDTH_MAX)
                return "expected a width of 8 bytes at most";
        if (!protocol->delimiter != !protocol->delimiter_size || protocol->delimiter_size > DELIMITER_MAX)
                return "expected a delimiter_size of 1 to 255";
        if (most > MESSAGE_MOST || protocol->fixed_size > most || protocol->delimiter_size > most ||
            (protocol->length_width && (protocol->length_width > most || protocol->length_at > most - protocol->length_width)))
                return "expected a max_message that has room for a message";
        if (protocol->bare && (protocol->fixed_size || protocol->frame))
                return "expected `bare` with a length field or a delimiter only";
        return protocol->bare && protocol->length_width && protocol->length_at ? "expected a bare length field at 0" : NULL;
}

static const char *
fault_of_rest(const struct weir_protocol *protocol)
{
        if (protocol->id_width && protocol->match)
                return "expected id_width or match, not both";
        if (protocol->id_width == 1 && protocol->depth > UINT8_MAX)
                return "expected a depth of at most 255 with an id_width of 1";
        if (protocol->depth > DEPTH_MAX || protocol->connections > DEPTH_MAX)
                return "expected a depth and connections of at most 65535";
        if (protocol->connect_limit < 0 || protocol->hello_limit < 0 || protocol->send_limit < 0 || protocol->reply_limit < 0 ||
            protocol->message_limit < 0 || protocol->idle_limit < 0)
                return "expected limits of at least 0";
        return NULL;
}

int
weir__protocol_check(const struct weir_protocol *protocol, const char *call)
{
        const char *fault = NULL;

        if (!protocol || protocol->size != sizeof *protocol)
                fault = "expected WEIR_PROTOCOL_DEFAULT as the initializer";
        fault = fault ? fault : fault_of_framing(protocol);
        fault = fault ? fault : fault_of_rest(protocol);
        return fault ? weir__log_refusal("%s: %s", call, fault) : 0;
}

/* -- numbers in messages -- */

/* The most common fields are read and written at once. */
static uint64_t
get(const char *data, unsigned width, bool is_little)
{
        uint64_t value = 0;
        uint32_t word;

        if (width == sizeof word) {
                memcpy(&word, data, sizeof word);
                return is_little ? le32toh(word) : be32toh(word);
        }

        for (unsigned i = 0; i < width; i++)
                value = value << 8 | (unsigned char)data[is_little ? width - 1 - i : i];
        return value;
}

static void
put(char *data, unsigned width, bool is_little, uint64_t value)
{
        uint32_t word = is_little ? htole32((uint32_t)value) : htobe32((uint32_t)value);

        if (width == sizeof word) {
                memcpy(data, &word, sizeof word);
                return;
        }
        for (unsigned i = 0; i < width; i++, value >>= 8)
                data[is_little ? i : width - 1 - i] = (char)(value & 0xff);
}

/* The largest value of so many bytes. */
static uint64_t
largest(unsigned width)
{
        return UINT64_MAX >> (64 - 8 * width);
}

/* -- the end of a message -- */

static ssize_t
end_by_length(const struct weir_protocol *protocol, const char *data, size_t size)
{
        size_t head = (size_t)protocol->length_at + protocol->length_width, most = weir__protocol_max(protocol);

        if (size < head)
                return 0;
        uint64_t value = get(data + protocol->length_at, protocol->length_width, protocol->length_is_little);
        if (value > (uint64_t)MESSAGE_MOST + INT32_MAX + 1u) /* too much, with any addition */
                return -EMSGSIZE;
        int64_t whole = (int64_t)value + protocol->length_adjust;
        if (whole < (int64_t)head)
                return -EBADMSG;
        if (whole > (int64_t)most)
                return -EMSGSIZE;
        return (size_t)whole <= size ? (ssize_t)whole : 0;
}

/* Apart from the others, which are a few instructions: they would save registers for its calls. */
__attribute__((noinline)) static ssize_t
end_by_delimiter(const struct weir_protocol *protocol, const char *data, size_t size, size_t *scanned)
{
        size_t most = weir__protocol_max(protocol), last = protocol->delimiter_size - 1,
               from = *scanned > last ? *scanned - last : 0, seen = size < most ? size : most;
        const char *found = seen <= from ? NULL
                            : last       ? memmem(data + from, seen - from, protocol->delimiter, protocol->delimiter_size)
                                         : memchr(data + from, *(const unsigned char *)protocol->delimiter, seen - from);

        if (found)
                return found - data + (ssize_t)protocol->delimiter_size;
        *scanned = seen;
        return size >= most ? -EMSGSIZE : 0;
}

static ssize_t
find_end(const struct weir_protocol *protocol, const char *data, size_t size, size_t *scanned)
{
        if (protocol->length_width)
                return end_by_length(protocol, data, size);
        if (protocol->delimiter)
                return end_by_delimiter(protocol, data, size, scanned);
        return protocol->fixed_size <= size ? (ssize_t)protocol->fixed_size : 0;
}

/* A message that ends before its number is invalid. */
static bool
has_room_for_id(const struct weir_protocol *protocol, size_t size)
{
        return size >= (size_t)protocol->id_at + protocol->id_width;
}

ssize_t
weir__frame_end(const struct weir_protocol *protocol, const char *data, size_t size, size_t *scanned)
{
        ssize_t end = find_end(protocol, data, size, scanned);

        return end > 0 && protocol->id_width && !has_room_for_id(protocol, (size_t)end) ? -EBADMSG : end;
}

ssize_t
weir__frame_check(const struct weir_protocol *protocol, ssize_t end, size_t size)
{
        size_t most = weir__protocol_max(protocol);

        if (end < 0)
                return end;
        if ((size_t)end > most || (!end && size >= most))
                return -EMSGSIZE;
        if (end && protocol->id_width && !has_room_for_id(protocol, (size_t)end))
                return -EBADMSG;
        return (size_t)end <= size ? end : 0;
}

struct weir__part
weir__frame_body(const struct weir_protocol *protocol, size_t size)
{
        size_t before = protocol->bare ? protocol->length_width : 0, behind = protocol->bare ? protocol->delimiter_size : 0;

        return (struct weir__part){before, size - before - behind};
}

/* -- the number of a message -- */

uint64_t
weir__frame_id(const struct weir_protocol *protocol, const char *data, size_t size)
{
        uint64_t id = has_room_for_id(protocol, size)
                              ? get(data + protocol->id_at, protocol->id_width, protocol->length_is_little)
                              : 0;

        return id ? id : WEIR_MATCH_NONE;
}

void
weir__frame_set_id(const struct weir_protocol *protocol, char *out, size_t whole, uint64_t id)
{
        if (has_room_for_id(protocol, whole))
                put(out + protocol->id_at, protocol->id_width, protocol->length_is_little, id == WEIR_MATCH_NONE ? 0 : id);
}

/* -- making one -- */

/* A text with a delimiter inside would be two messages to the peer. */
static bool
has_delimiter(const struct weir_protocol *protocol, const char *data, size_t size)
{
        const char *found = size ? memmem(data, size, protocol->delimiter, protocol->delimiter_size) : NULL;

        return found && (protocol->bare || found + protocol->delimiter_size < data + size);
}

/* The delimiter may also begin in the bytes and end in the one that is added: "\r" before "\r\n" is none, "a" before "aa" is. */
static bool
has_early_delimiter(const struct weir_protocol *protocol, const char *data, size_t size)
{
        const char *delimiter = protocol->delimiter;
        size_t width = protocol->delimiter_size;

        for (size_t own = 1; own < width && own <= size; own++) /* that many of its bytes are the program's */
                if (memcmp(data + size - own, delimiter, own) == 0 && memcmp(delimiter, delimiter + own, width - own) == 0)
                        return true;
        return false;
}

static bool
ends_in_delimiter(const struct weir_protocol *protocol, const char *data, size_t size)
{
        return size >= protocol->delimiter_size &&
               memcmp(data + size - protocol->delimiter_size, protocol->delimiter, protocol->delimiter_size) == 0;
}

static bool
is_delimited(const struct weir_protocol *protocol, const char *data, size_t size)
{
        if (has_delimiter(protocol, data, size))
                return false;
        return protocol->bare ? !has_early_delimiter(protocol, data, size) : ends_in_delimiter(protocol, data, size);
}

static int
check_length(const struct weir_protocol *protocol, size_t whole)
{
        int64_t value = (int64_t)whole - protocol->length_adjust;

        if (whole < (size_t)protocol->length_at + protocol->length_width || value < 0)
                return -EINVAL;
        return (uint64_t)value <= largest(protocol->length_width) ? 0 : -EMSGSIZE;
}

/* Apart, as end_by_delimiter is. */
__attribute__((noinline)) static int
check_bytes(const struct weir_protocol *protocol, const char *data, size_t size, size_t whole)
{
        if (protocol->fixed_size && size != protocol->fixed_size)
                return -EINVAL;
        if (protocol->delimiter && !is_delimited(protocol, data, size))
                return -EINVAL;
        return whole ? 0 : -EINVAL;
}

ssize_t
weir__frame_whole(const struct weir_protocol *protocol, const char *data, size_t size)
{
        size_t extra = protocol->bare ? protocol->length_width + protocol->delimiter_size : 0,
               most = weir__protocol_max(protocol);

        if (!data && size)
                return -EINVAL;
        if (size > most || extra > most - size)
                return -EMSGSIZE;
        size_t whole = size + extra;
        if (protocol->id_width && !has_room_for_id(protocol, whole))
                return -EINVAL;
        int fault = protocol->length_width ? check_length(protocol, whole) : check_bytes(protocol, data, size, whole);
        return fault ? fault : (ssize_t)whole;
}

void
weir__frame_write(const struct weir_protocol *protocol, char *out, size_t whole, const char *data, size_t size)
{
        struct weir__part body = weir__frame_body(protocol, whole);

        if (size)
                memcpy(out + body.at, data, size);
        if (protocol->bare && protocol->delimiter)
                memcpy(out + size, protocol->delimiter, protocol->delimiter_size);
        if (protocol->length_width)
                put(out + protocol->length_at, protocol->length_width, protocol->length_is_little,
                    (uint64_t)((int64_t)whole - protocol->length_adjust));
}
