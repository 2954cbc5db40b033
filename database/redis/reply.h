/* database/redis/reply.h: the bytes of replies: where one ends, and the tree that it makes.
 *
 * Nothing here has a state or runs code of others.  Any thread. */
#ifndef WEIR_REDIS_REPLY_H
#define WEIR_REDIS_REPLY_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <weir/redis.h>

#define WEIR__REDIS_DEPTH 64 /* of a tree */

/* Finds the end of the first reply, as a frame function does.  `words` are 0 at first, and keep what is known for the next call
 * with more bytes: each byte is looked at once.
 *
 * Result:  its size; more than `size`: it has at least so many bytes; 0: not known yet; -EBADMSG: this is no reply; -EMSGSIZE: it
 *          has more than `most` bytes. */
ssize_t weir__redis_frame(const char *data, size_t size, uint64_t words[4], size_t most);

/* The same for so many replies together. */
ssize_t weir__redis_frames(const char *data, size_t size, uint64_t words[4], size_t most, unsigned replies);

/* A tree with its memory. */
struct weir__redis_tree {
        struct weir_redis_reply *root;
        void *memory; /* to be freed; NULL: it lies in the room of the caller */
};

/* Makes the tree of a whole reply, as weir__redis_frame has found it: in the `room`, if that is enough.
 *
 * Result:  0; -EBADMSG: a number is none; -E2BIG: it is too deep; -ENOMEM. */
int weir__redis_build(const char *data, size_t size, void *room, size_t room_size, struct weir__redis_tree *tree);

#endif
