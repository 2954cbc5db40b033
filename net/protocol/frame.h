/* net/protocol/frame.h: the framing of a protocol as its description has it: where a message ends, and how one is made.
 *
 * No function here runs code of the program.  Any thread. */
#ifndef WEIR_NET_FRAME_H
#define WEIR_NET_FRAME_H

#include <weir/protocol.h>

#define WEIR__MESSAGE_MAX ((size_t)1024 * 1024) /* unless the description says more */

/* A part of a message. */
struct weir__part {
        size_t at, size;
};

/* 0; or -EINVAL, which `call` has logged. */
int weir__protocol_check(const struct weir_protocol *protocol, const char *call);

static inline size_t
weir__protocol_max(const struct weir_protocol *protocol)
{
        return protocol->max_message ? protocol->max_message : WEIR__MESSAGE_MAX;
}

static inline unsigned
weir__protocol_depth(const struct weir_protocol *protocol)
{
        return protocol->depth ? protocol->depth : 1;
}

static inline weir_nsec
weir__protocol_limit(weir_nsec limit, weir_nsec usual)
{
        return limit ? limit : usual;
}

/* Whether replies may come in any order. */
static inline bool
weir__protocol_has_numbers(const struct weir_protocol *protocol)
{
        return protocol->id_width || protocol->match;
}

/* Whether what has come is read by functions of the program. */
static inline bool
weir__protocol_has_functions(const struct weir_protocol *protocol)
{
        return protocol->frame || protocol->match;
}

/* The end of the first message in bytes that have come.  `*scanned` of them are known to have no delimiter, 0 at first.  The
 * description has no frame function.
 *
 * Result:  its size, at most `size`; 0: more must come; -EMSGSIZE: it is larger than it may be; -EBADMSG: its length makes no
 *          sense. */
ssize_t weir__frame_end(const struct weir_protocol *protocol, const char *data, size_t size, size_t *scanned);

/* The same for the size that a frame function has returned. */
ssize_t weir__frame_check(const struct weir_protocol *protocol, ssize_t end, size_t size);

/* What the program sees of a whole message. */
struct weir__part weir__frame_body(const struct weir_protocol *protocol, size_t size);

/* The number in a whole message.  WEIR_MATCH_NONE: it is 0, or the message is too short. */
uint64_t weir__frame_id(const struct weir_protocol *protocol, const char *data, size_t size);

/* The size of the whole message that these bytes of the program make; or -EINVAL, -EMSGSIZE. */
ssize_t weir__frame_whole(const struct weir_protocol *protocol, const char *data, size_t size);

/* Writes that message.  `id` 0: unsolicited; WEIR_MATCH_NONE is the same. */
void weir__frame_write(const struct weir_protocol *protocol, char *out, size_t whole, const char *data, size_t size);
void weir__frame_set_id(const struct weir_protocol *protocol, char *out, size_t whole, uint64_t id);

#endif
