/* kernel/memory/piece.h: memory for a piece of a body: its bytes, with room around them for the frame of a chunk.
 *
 * So a piece goes from the task that reads it to the task that writes it, without a copy.  A thread keeps some of the large ones
 * that it frees: the system would have to fill each new one with zeros. */
#ifndef WEIR_KERNEL_PIECE_H
#define WEIR_KERNEL_PIECE_H

#include <stddef.h>

#define WEIR__PIECE_FRONT  24 /* bytes before it that its owner may use */
#define WEIR__PIECE_BEHIND 8
#define WEIR__PIECE_LARGE  ((size_t)64 * 1024)

/* Room for `size` bytes, not zeroed.  NULL when out of memory.  Any thread, as the others. */
char *weir__piece_new(size_t size);

/* The same with a copy of these bytes, and a NUL behind them. */
char *weir__piece_copy(const void *data, size_t size);

void weir__piece_free(char *piece); /* accepts NULL */

/* Frees what this thread keeps. */
void weir__piece_release(void);

#endif
