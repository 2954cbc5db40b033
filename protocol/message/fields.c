/* protocol/message/fields.c: the fields of a head that was received: their strings, and what they say about the message.
 *
 * Threads: any; nothing is kept from one call to the next. */
#include "protocol/message/fields.h"

const char *
weir__fields_next(const struct weir__field *fields, uint32_t count, const char *name, uint32_t *at)
{
        size_t size = strlen(name) + 1; /* with the NUL: a name of another length differs there at the latest */

        while (*at < count) {
                const struct weir__field *field = &fields[(*at)++];

                if (weir__bytes_equal(field->name, name, size))
                        return field->value;
        }
        return NULL;
}
