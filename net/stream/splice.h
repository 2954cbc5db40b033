/* net/stream/splice.h: bytes that go from one stream to another through a pipe, without a copy into the program.
 *
 *     the input of one stream --a read--> the pipe --a write--> the output of another
 *
 * The pump has a struct weir__splice, which one step at a time uses.  The struct has a pipe only while that holds bytes. */
#ifndef WEIR_NET_SPLICE_H
#define WEIR_NET_SPLICE_H

#include "net/stream/stream.h"

enum weir__splice_may { WEIR__SPLICE_UNKNOWN = 0, WEIR__SPLICE_MAY, WEIR__SPLICE_MAY_NOT };

struct weir__splice {
        int in, out;        /* the ends of the pipe, while `size` is not 0 */
        uint32_t size;      /* bytes in the pipe */
        bool is_small;      /* it has not the size that was asked for */
        uint8_t from, to;   /* enum weir__splice_may: what the system does with the two streams */
        uint64_t unwritten; /* of what was read last: bytes that no write has given to the system */
};

/* Moves input into a pipe, from the stream that is read.  Nothing may be kept of its input, and the pipe is empty.  Owner.
 *
 * Result:  the bytes; 0: the end, which a read tells too; -EAGAIN: none that can be moved now, but perhaps some to be read;
 *          -EINVAL: there is no pipe, or the stream cannot do that; another negative errno: the stream is broken. */
ssize_t weir__splice_fill(struct weir__splice *splice, struct weir__transport *from);

/* The owner of the stream that is written: notes whether it can take bytes out of a pipe. */
void weir__splice_learn(struct weir__splice *splice, const struct weir__transport *to);

/* Takes the bytes out of the pipe, into memory that the caller frees.  Returns NULL when out of memory: they are lost.  Neither
 * this nor the following leaves a pipe. */
char *weir__splice_take_out(struct weir__splice *splice, uint32_t *size);

/* The step is over: gives up the pipe, if there is one, with what is left in it.  Any thread. */
void weir__splice_done(struct weir__splice *splice);

/* A read for a splice, of bytes that are in its pipe, or in memory: weir__stream_take_data.  read.c */
struct weir_task *weir__stream_read_for_splice_new(struct weir_stream *stream, struct weir__splice *splice, weir_task_fn *done,
                                                   void *context);

/* A write of the bytes in the pipe or, without a pipe, of those bytes, which are lent.  It sets `unwritten`.  write.c */
struct weir_task *weir__stream_write_of_splice_new(struct weir_stream *stream, struct weir__splice *splice, const char *data,
                                                   size_t size);

#endif
