/* net/transport/input.c: the input of a transport.
 *
 * Threads: the owner of the poller only. */
#include "net/transport/input.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define ROOM_MULTIPLE 512 /* bytes: the room is a multiple of them when it grows */

/* -- reading -- */

/* After a short read the socket is empty, unless the end of the stream or an error follows. */
ssize_t
weir__input_read(struct weir__transport *transport, void *buffer, size_t room)
{
        ssize_t count = weir__stream_read(&transport->stream, buffer, room);

        if (count <= 0) {
                transport->is_ready = false;
                return count;
        }
        weir__transport_count_read(transport, (size_t)count);
        if (!weir__stream_may_have_more(&transport->stream, (size_t)count, room) && !transport->has_ended)
                transport->is_ready = false;
        return count;
}

/* TLS takes the bytes that it looks at out of the socket.  The event that is on its way may not report input then, so `is_ready`
 * is set here. */
ssize_t
weir__input_peek(struct weir__transport *transport)
{
        ssize_t count = weir__stream_peek(&transport->stream);

        transport->is_ready |= count > 0;
        return count;
}

/* -- bytes that are kept -- */

/* Makes room for `size` bytes: at first just as many, for a peer that sends half a message and no more, then a quarter more than
 * needed.  Returns false when out of memory. */
static bool
make_room(struct weir__input *input, size_t size)
{
        size_t room = input->room ? (size + size / 4 + ROOM_MULTIPLE - 1) / ROOM_MULTIPLE * ROOM_MULTIPLE : size;

        if (size <= input->room)
                return true;
        char *data = room <= UINT32_MAX ? realloc(input->data, room) : NULL;
        if (data) {
                input->data = data;
                input->room = (uint32_t)room;
        }
        return data;
}

bool
weir__input_keep(struct weir__transport *transport, const char *data, size_t size)
{
        struct weir__input *input = &transport->input;

        if (!size) {
                weir__input_drop(transport);
                return true;
        }
        if (!make_room(input, size))
                return false;
        memmove(input->data, data, size);
        input->size = (uint32_t)size;
        return true;
}

bool
weir__input_append(struct weir__transport *transport, const char *data, size_t size)
{
        struct weir__input *input = &transport->input;

        if (!make_room(input, input->size + size))
                return false;
        memcpy(input->data + input->size, data, size);
        input->size += (uint32_t)size;
        return true;
}

bool
weir__input_prepend(struct weir__transport *transport, const char *data, size_t size)
{
        struct weir__input *input = &transport->input;

        if (!make_room(input, input->size + size))
                return false;
        memmove(input->data + size, input->data, input->size);
        memcpy(input->data, data, size);
        input->size += (uint32_t)size;
        return true;
}

void
weir__input_drop(struct weir__transport *transport)
{
        free(transport->input.data);
        transport->input = (struct weir__input){.data = NULL};
}
