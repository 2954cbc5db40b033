/* kernel/memory/piece.c: memory for pieces of bodies.
 *
 * Threads: each keeps large pieces of its own, until it is idle or ends.
 * Locks:   none. */
#include "kernel/memory/piece.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "kernel/memory/watched.h"

#define PIECES_KEPT 16 /* by a thread: a megabyte */

struct block {
        size_t room;
        char front[WEIR__PIECE_FRONT];
        char bytes[];
};

struct kept {
        unsigned count;
        struct block *blocks[PIECES_KEPT];
};

static _Thread_local struct kept own;
static pthread_once_t key_once = PTHREAD_ONCE_INIT;
static pthread_key_t own_key; /* its destructor runs when a thread ends */
static bool has_own_key;      /* constant after key_once */

static struct block *
block_of(char *piece)
{
        return (struct block *)(piece - offsetof(struct block, bytes));
}

void
weir__piece_release(void)
{
        while (own.count)
                free(own.blocks[--own.count]);
}

static void
end_own(void *unused)
{
        (void)unused;
        weir__piece_release();
}

/* More than the half of a large one is a large one, so that it can be kept. */
char *
weir__piece_new(size_t size)
{
        size_t room = size > WEIR__PIECE_LARGE / 2 && size < WEIR__PIECE_LARGE ? WEIR__PIECE_LARGE : size;
        struct block *block;

        if (room > SIZE_MAX - sizeof *block - WEIR__PIECE_BEHIND)
                return NULL;
        if (room == WEIR__PIECE_LARGE && own.count) {
                block = own.blocks[--own.count];
        } else {
                block = malloc(sizeof *block + room + WEIR__PIECE_BEHIND);
                if (!block)
                        return NULL;
                block->room = room;
        }
        return block->bytes;
}

char *
weir__piece_copy(const void *data, size_t size)
{
        char *piece = weir__piece_new(size);

        if (!piece)
                return NULL;
        if (size)
                memcpy(piece, data, size);
        piece[size] = '\0';
        return piece;
}

static void
make_key(void)
{
        has_own_key = pthread_key_create(&own_key, end_own) == 0;
}

/* The end of the thread frees what it keeps. */
static bool
may_keep(void)
{
        if (own.count)
                return own.count < PIECES_KEPT;
        pthread_once(&key_once, make_key);
        return has_own_key && pthread_setspecific(own_key, &own) == 0;
}

/* A tool that watches the program sees each of them come and go. */
void
weir__piece_free(char *piece)
{
        struct block *block = piece ? block_of(piece) : NULL;

        if (block && block->room == WEIR__PIECE_LARGE && !weir__memory_is_watched && may_keep())
                own.blocks[own.count++] = block;
        else
                free(block);
}
