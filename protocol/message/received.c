/* protocol/message/received.c: a response that was received: its head in one piece of memory, checked as a whole.
 *
 *      one allocation:  struct weir__received | its fields | copy of the head
 *
 * Threads: it is written by the thread that makes it and only read after.  No locks. */
#include <stdlib.h>
#include <string.h>

#include "protocol/message/received.h"

/* A response before its memory is allocated. */
struct draft {
        const char *head;
        size_t size;
        enum weir__received_for what;
        struct weir__parsed_head parsed;
        struct weir__control control;
};

static int
check_framing(const struct draft *draft)
{
        const struct weir__control *control = &draft->control;

        if (control->lengths > 0)
                return control->lengths > 1 || control->length > WEIR__CONTENT_LENGTH_MAX || control->codings > 0 ? -EBADMSG : 0;
        if (control->codings == 0)
                return 0;
        return control->codings > 1 || draft->parsed.minor == 0 || !control->is_chunked ? -EBADMSG : 0;
}

/* Source: RFC 9112 section 6.3, in its order. */
static enum weir__received_end
end_of(const struct draft *draft)
{
        const struct weir__control *control = &draft->control;
        unsigned status = draft->parsed.status;

        if (status == 101 || (draft->what == WEIR__RECEIVED_FOR_CONNECT && status / 100 == 2))
                return WEIR__RECEIVED_TUNNEL;
        if (draft->what == WEIR__RECEIVED_FOR_HEAD || status / 100 == 1 || status == 204 || status == 304)
                return WEIR__RECEIVED_NOTHING;
        if (control->codings > 0)
                return WEIR__RECEIVED_CHUNKED;
        if (control->lengths > 0)
                return control->length > 0 ? WEIR__RECEIVED_LENGTH : WEIR__RECEIVED_NOTHING;
        return WEIR__RECEIVED_CLOSE;
}

/* A server that announces a body where none may be could send one: the bytes that follow are not trusted. */
static bool
announces_too_much(const struct draft *draft)
{
        unsigned status = draft->parsed.status;

        return (status / 100 == 1 || status == 204) && (draft->control.length > 0 || draft->control.codings > 0);
}

/* The seconds of "timeout=5, max=100"; 0 is taken for 1, too little as well.  What is no number is ignored.  `max` is not read:
 * the last response of a server that counts says close.  Source: RFC 2068 section 19.7.1.1. */
static uint16_t
keep_seconds_of(const struct draft *draft)
{
        static const char name[] = "timeout=";
        const size_t skip = sizeof name - 1;
        const struct weir__parsed_field *field = draft->control.keep_alive;
        const char *value = draft->head + field->value.at, *member;
        size_t left = field->value.size, size;
        uint64_t seconds;

        while (weir__bytes_next_member(&value, &left, &member, &size)) {
                if (size <= skip || !weir__bytes_equal(member, name, skip))
                        continue;
                if (weir__bytes_number(member + skip, size - skip, &seconds) == size - skip)
                        return seconds == 0 ? 1 : seconds < UINT16_MAX ? (uint16_t)seconds : UINT16_MAX;
        }
        return 0;
}

static void
fill(struct weir__received *received, const struct draft *draft)
{
        const struct weir__control *control = &draft->control;

        received->content_length = control->length;
        received->has_length = control->lengths > 0;
        received->status = (uint16_t)draft->parsed.status;
        received->minor = (uint8_t)draft->parsed.minor;
        received->end = (uint8_t)end_of(draft);
        received->is_persistent = !control->has_close && (received->minor > 0 || control->has_keep_alive) &&
                                  received->end != WEIR__RECEIVED_CLOSE && received->end != WEIR__RECEIVED_TUNNEL &&
                                  !announces_too_much(draft);
        if (__builtin_expect(control->keep_alive != NULL, 0))
                received->keep_seconds = keep_seconds_of(draft);
}

static struct weir__received *
build(const struct draft *draft, weir__message_alloc *alloc)
{
        size_t fields_size = draft->parsed.field_count * sizeof(struct weir__field);
        size_t size = sizeof(struct weir__received) + fields_size + draft->size;
        struct weir__received *received = alloc(size);

        if (!received)
                return NULL;
        struct weir__field *fields = (struct weir__field *)(received + 1);
        char *head = (char *)(received + 1) + fields_size;
        memcpy(head, draft->head, draft->size);
        *received = (struct weir__received){
                .size = (uint32_t)size, .fields = fields, .field_count = draft->parsed.field_count, .reason = ""};
        if (draft->parsed.reason.size > 0)
                received->reason = weir__fields_terminate(head, draft->parsed.reason);
        weir__fields_fill(fields, head, &draft->parsed);
        fill(received, draft);
        return received;
}

int
weir__received_new(const char *head, size_t size, enum weir__received_for what, weir__message_alloc *alloc,
                   struct weir__received **ret_received)
{
        struct weir__parsed_field usual[WEIR__USUAL_FIELDS], *more;
        struct draft draft = {
                .head = head, .size = size, .what = what, .parsed = {.fields = usual, .field_room = WEIR__USUAL_FIELDS}};
        struct weir__received *received = NULL;
        int r = weir__fields_parse(WEIR__MESSAGE_RESPONSE, &draft.parsed, head, size, &more);

        r = r ? weir__received_error(r) : 0;
        if (!r) {
                weir__fields_read_control(&draft.control, head, &draft.parsed);
                r = check_framing(&draft);
        }
        if (!r) {
                received = build(&draft, alloc);
                r = received ? 0 : -ENOMEM;
        }
        free(more);
        if (received)
                *ret_received = received;
        return r;
}

const char *
weir__received_field(const struct weir__received *received, const char *name)
{
        uint32_t at = 0;

        return weir__fields_next(received->fields, received->field_count, name, &at);
}
