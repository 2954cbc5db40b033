/* protocol/message/fields.c: the fields of a head that was received: their strings, and what they say about the message.
 *
 * Threads: any; nothing is kept from one call to the next. */
#include <stdlib.h>
#include <string.h>

#include "protocol/text/bytes.h"
#include "protocol/message/fields.h"

static void
read_length(struct weir__control *control, const char *value, size_t size)
{
        size_t digits = weir__bytes_number(value, size, &control->length);

        control->lengths++;
        if (digits == 0 || digits < size)
                control->length = UINT64_MAX;
}

static void
read_connection(struct weir__control *control, const char *option, size_t size)
{
        control->has_close |= WEIR__BYTES_ARE(option, size, "close");
        control->has_keep_alive |= WEIR__BYTES_ARE(option, size, "keep-alive");
}

static void
read_coding(struct weir__control *control, const char *coding, size_t size)
{
        control->is_chunked_before |= control->is_chunked_last;
        control->is_chunked_last = WEIR__BYTES_ARE(coding, size, "chunked");
        control->has_other_coding |= !control->is_chunked_last;
}

static void
read_expectation(struct weir__control *control, const char *expectation, size_t size)
{
        bool is_continue = WEIR__BYTES_ARE(expectation, size, "100-continue");

        control->is_continue_expected |= is_continue;
        control->has_other_expectation |= !is_continue;
}

static void
read_members(struct weir__control *control, const char *value, size_t size,
             void (*read)(struct weir__control *control, const char *member, size_t member_size))
{
        const char *member;
        size_t member_size;

        while (weir__bytes_next_member(&value, &size, &member, &member_size))
                read(control, member, member_size);
}

/* Names usually come in this case: then one comparison of constant size is enough. */
static inline bool
is_name(const char *name, const char *usual, size_t size)
{
        return memcmp(name, usual, size) == 0 || weir__bytes_equal(name, usual, size);
}

static inline void
read_field(struct weir__control *control, const char *head, const struct weir__parsed_field *field)
{
        const char *name = head + field->name.at, *value = head + field->value.at;
        size_t size = field->value.size;

        switch (field->name.size) {
        case 4:
                if (is_name(name, "Host", 4)) {
                        control->host = field;
                        control->hosts++;
                }
                break;
        case 6:
                if (is_name(name, "Expect", 6))
                        read_members(control, value, size, read_expectation);
                break;
        case 10:
                if (is_name(name, "Connection", 10))
                        read_members(control, value, size, read_connection);
                break;
        case 14:
                if (is_name(name, "Content-Length", 14))
                        read_length(control, value, size);
                break;
        case 17:
                if (is_name(name, "Transfer-Encoding", 17)) {
                        control->codings++;
                        control->is_chunked = WEIR__BYTES_ARE(value, size, "chunked");
                        read_members(control, value, size, read_coding);
                }
                break;
        default: break;
        }
}

void
weir__fields_read_control(struct weir__control *control, const char *head, const struct weir__parsed_head *parsed)
{
        for (uint32_t i = 0; i < parsed->field_count; i++)
                read_field(control, head, &parsed->fields[i]);
}

int
weir__fields_parse(enum weir__message_kind kind, struct weir__parsed_head *parsed, const char *head, size_t size,
                   struct weir__parsed_field **ret_more)
{
        int r = weir__http_parse_head(kind, parsed, head, size);

        *ret_more = NULL;
        if (r != 431 || parsed->field_count <= parsed->field_room)
                return r;
        *ret_more = calloc(parsed->field_count, sizeof **ret_more);
        if (!*ret_more)
                return 500;
        parsed->fields = *ret_more;
        parsed->field_room = parsed->field_count;
        return weir__http_parse_head(kind, parsed, head, size);
}

void
weir__fields_fill(struct weir__field *fields, char *head, const struct weir__parsed_head *parsed)
{
        for (uint32_t i = 0; i < parsed->field_count; i++) {
                fields[i].name = weir__fields_terminate(head, parsed->fields[i].name);
                fields[i].value = weir__fields_terminate(head, parsed->fields[i].value);
        }
}

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
