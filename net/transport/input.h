/* net/transport/input.h: the input of a transport: reads, and bytes that were read and not used.
 *
 * A transport reads into its poller's scratch buffer, or where its owner wants the bytes.  It owns no buffer in the steady state.
 * Only bytes that nobody can use yet are kept: a part of a message, or the messages behind it.
 *
 * Owner of the poller only. */
#ifndef WEIR_NET_INPUT_H
#define WEIR_NET_INPUT_H

#include "net/transport/transport.h"

/* Reads once, without regard to what is kept, and counts the read.  Returns as weir__stream_read: 0 at the end of the stream;
 * -EAGAIN when there is nothing for now. */
ssize_t weir__input_read(struct weir__transport *transport, void *buffer, size_t room);

/* Whether there is something to read, which is not taken.  Returns as weir__stream_peek. */
ssize_t weir__input_peek(struct weir__transport *transport);

/* -- bytes that are kept -- */

/* Makes `size` bytes at `data` (perhaps within them) all that is kept.  Returns false when out of memory. */
bool weir__input_keep(struct weir__transport *transport, const char *data, size_t size);
/* Puts the bytes behind them.  Returns false when out of memory. */
bool weir__input_append(struct weir__transport *transport, const char *data, size_t size);
/* Puts the bytes before them.  Returns false when out of memory. */
bool weir__input_prepend(struct weir__transport *transport, const char *data, size_t size);
void weir__input_drop(struct weir__transport *transport); /* keeps none, and frees their memory */

#endif
