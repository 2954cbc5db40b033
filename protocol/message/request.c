/* protocol/message/request.c: a request's head in one piece of memory, checked as a whole.
 *
 *      one allocation:  struct weir__request | its fields | copy of the head | decoded path | host of an absolute-form target
 *
 * The strings of a request lie in the copied head.  A NUL replaces the byte behind each of them: a SP, a colon, or the white
 * space or CR behind a value.  The path is copied only when it has escapes or is not at the target's end.
 *
 * Threads: a request is written by the thread that makes it and only read after.  No locks. */
#include <stdlib.h>
#include <string.h>

#include "protocol/text/bytes.h"
#include "protocol/message/http_parser_backend.h"
#include "protocol/message/request.h"
#include "protocol/route/target.h"

/* Fields that are parsed without a second allocation: on the stack, 4 KiB of it. */
#define USUAL_FIELDS 256

/* Parsers differ on lengths near the end of the range; http-parser refuses the last six. */
#define LENGTH_MAX (UINT64_MAX - 15)

/* The fields that concern the message itself. */
struct control {
        const struct weir__parsed_field *host;
        uint32_t hosts, lengths, codings; /* lines of Host, of Content-Length and of Transfer-Encoding */
        uint64_t length;                  /* Content-Length; above LENGTH_MAX for an invalid one */
        bool is_chunked;                  /* Transfer-Encoding is chunked, without an empty member beside it */
        bool is_chunked_last;             /* the last member of Transfer-Encoding is chunked, and ... */
        bool is_chunked_before;           /* ... one before it is */
        bool has_other_coding;            /* any member that is not chunked */
        bool has_close, has_keep_alive;   /* options of Connection */
        bool is_continue_expected;        /* in Expect, and ... */
        bool has_other_expectation;       /* ... anything else */
};

/* A request before its memory is allocated. */
struct draft {
        const char *head;
        size_t size;
        struct weir__parsed_head parsed;
        struct weir__target target;
        struct control control;
};

static void
read_length(struct control *control, const char *value, size_t size)
{
        size_t digits = weir__bytes_number(value, size, &control->length);

        control->lengths++;
        if (digits == 0 || digits < size)
                control->length = UINT64_MAX;
}

static void
read_connection(struct control *control, const char *option, size_t size)
{
        control->has_close |= WEIR__BYTES_ARE(option, size, "close");
        control->has_keep_alive |= WEIR__BYTES_ARE(option, size, "keep-alive");
}

static void
read_coding(struct control *control, const char *coding, size_t size)
{
        control->is_chunked_before |= control->is_chunked_last;
        control->is_chunked_last = WEIR__BYTES_ARE(coding, size, "chunked");
        control->has_other_coding |= !control->is_chunked_last;
}

static void
read_expectation(struct control *control, const char *expectation, size_t size)
{
        bool is_continue = WEIR__BYTES_ARE(expectation, size, "100-continue");

        control->is_continue_expected |= is_continue;
        control->has_other_expectation |= !is_continue;
}

static void
read_members(struct control *control, const char *value, size_t size,
             void (*read)(struct control *control, const char *member, size_t member_size))
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
read_field(struct control *control, const char *head, const struct weir__parsed_field *field)
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

/* Source: RFC 9112 section 3.2.  An empty Host means that the target has no authority, which origin-form cannot say. */
static int
check_host(const struct draft *draft)
{
        const struct weir__slice *value;

        if (draft->control.hosts != 1)
                return draft->control.hosts == 0 && draft->parsed.minor == 0 ? 0 : 400;
        value = &draft->control.host->value;
        if (value->size == 0)
                return draft->target.authority || draft->target.is_asterisk ? 0 : 400;
        return weir__authority_is_valid(draft->head + value->at, value->size) ? 0 : 400;
}

/* Parsers differ on empty members of Transfer-Encoding, so these are refused although RFC 9110 section 5.6.1 allows them.
 *
 * Source: RFC 9112 sections 6.1 and 6.3. */
static int
check_framing(const struct draft *draft)
{
        const struct control *control = &draft->control;

        if (control->lengths > 0)
                return control->lengths > 1 || control->length > LENGTH_MAX || control->codings > 0 ? 400 : 0;
        if (control->codings == 0)
                return 0;
        if (control->codings > 1 || draft->parsed.minor == 0 || !control->is_chunked_last || control->is_chunked_before)
                return 400;
        return control->is_chunked ? 0 : control->has_other_coding ? 501 : 400;
}

/* All checks: first for malformed requests, then for requests that are not served. */
static int
check(struct draft *draft, uint64_t max_body)
{
        const struct weir__parsed_head *parsed = &draft->parsed;
        int target, r;

        target = weir__target_read(&draft->target, draft->head + parsed->method.at, parsed->method.size,
                                   draft->head + parsed->target.at, parsed->target.size);
        if (target == 400)
                return 400;
        for (uint32_t i = 0; i < parsed->field_count; i++)
                read_field(&draft->control, draft->head, &parsed->fields[i]);
        if ((r = check_host(draft)) != 0 || (r = check_framing(draft)) != 0)
                return r;
        if (target != 0)
                return target;
        if (draft->control.has_other_expectation && parsed->minor > 0) /* RFC 9110 section 10.1.1; HTTP/1.0 has no expectations */
                return 417;
        return draft->control.length > max_body ? 413 : 0;
}

static bool
path_is_at_end(const struct draft *draft)
{
        const struct weir__target *target = &draft->target;

        return target->decoded_size == target->path_size &&
               target->path + target->path_size == draft->head + draft->parsed.target.at + draft->parsed.target.size;
}

/* `head` is the copy.  Returns the string that the slice becomes in it. */
static inline const char *
terminate(char *head, struct weir__slice slice)
{
        head[slice.at + slice.size] = '\0';
        return head + slice.at;
}

static void
fill_fields(struct weir__request *request, struct weir__request_field *fields, char *head, const struct weir__parsed_head *parsed)
{
        for (uint32_t i = 0; i < parsed->field_count; i++) {
                fields[i].name = terminate(head, parsed->fields[i].name);
                fields[i].value = terminate(head, parsed->fields[i].value);
        }
        request->fields = fields;
        request->field_count = parsed->field_count;
}

/* Path and host, which may need room of their own behind the copy of the head. */
static void
fill_names(struct weir__request *request, char *head, char *extra, const struct draft *draft)
{
        const struct weir__target *target = &draft->target;
        const struct control *control = &draft->control;

        request->query = target->query ? head + (target->query - draft->head) : NULL;
        if (path_is_at_end(draft)) {
                request->path = head + (target->path - draft->head);
        } else {
                request->path = extra;
                extra = weir__path_decode(extra, target->path, target->path_size);
                *extra++ = '\0';
        }
        if (target->authority) {
                request->host = extra;
                memcpy(extra, target->authority, target->authority_size);
                extra[target->authority_size] = '\0';
        } else {
                request->host = control->host ? head + control->host->value.at : "";
        }
}

static void
fill_control(struct weir__request *request, const struct draft *draft)
{
        const struct control *control = &draft->control;

        request->minor = (uint8_t)draft->parsed.minor;
        request->content_length = control->length;
        request->has_keep_alive = control->has_keep_alive;
        request->is_persistent = !control->has_close && (request->minor > 0 || control->has_keep_alive);
        request->is_head = draft->parsed.method.size == 4 && memcmp(draft->head + draft->parsed.method.at, "HEAD", 4) == 0;
        request->is_chunked = control->codings > 0;
        request->is_continue_expected = control->is_continue_expected && request->minor > 0 &&
                                        (request->is_chunked || request->content_length > 0);
}

static struct weir__request *
build(const struct draft *draft, weir__request_alloc *alloc)
{
        const struct weir__target *target = &draft->target;
        size_t fields_size = draft->parsed.field_count * sizeof(struct weir__request_field);
        size_t path_size = path_is_at_end(draft) ? 0 : target->decoded_size + 1;
        size_t host_size = target->authority ? target->authority_size + 1 : 0;
        size_t size = sizeof(struct weir__request) + fields_size + draft->size + path_size + host_size;
        struct weir__request *request = alloc(size);
        char *head;

        if (!request)
                return NULL;
        request->size = (uint32_t)size;
        head = (char *)(request + 1) + fields_size;
        memcpy(head, draft->head, draft->size);
        request->method = terminate(head, draft->parsed.method);
        request->target = terminate(head, draft->parsed.target);
        fill_fields(request, (struct weir__request_field *)(request + 1), head, &draft->parsed);
        fill_names(request, head, head + draft->size, draft);
        fill_control(request, draft);
        return request;
}

int
weir__request_new(const char *head, size_t size, uint64_t max_body, weir__request_alloc *alloc,
                  struct weir__request **ret_request)
{
        struct weir__parsed_field usual[USUAL_FIELDS], *more = NULL;
        struct draft draft = {.head = head, .size = size, .parsed = {.fields = usual, .field_room = USUAL_FIELDS}};
        struct weir__request *request = NULL;
        int r = weir__http_parse_head(&draft.parsed, head, size);

        if (r == 431 && draft.parsed.field_count > USUAL_FIELDS) {
                more = calloc(draft.parsed.field_count, sizeof *more);
                if (!more)
                        return 500;
                draft.parsed.fields = more;
                draft.parsed.field_room = draft.parsed.field_count;
                r = weir__http_parse_head(&draft.parsed, head, size);
        }
        if (r == 0)
                r = check(&draft, max_body);
        if (r == 0)
                request = build(&draft, alloc);
        free(more);
        if (request)
                *ret_request = request;
        return r != 0 || request ? r : 500;
}

const char *
weir__request_next(const struct weir__request *request, const char *name, uint32_t *at)
{
        size_t size = strlen(name) + 1; /* with the NUL: a name of another length differs there at the latest */

        while (*at < request->field_count) {
                const struct weir__request_field *field = &request->fields[(*at)++];

                if (weir__bytes_equal(field->name, name, size))
                        return field->value;
        }
        return NULL;
}

const char *
weir__request_header(const struct weir__request *request, const char *name)
{
        uint32_t at = 0;

        return weir__request_next(request, name, &at);
}
