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

#include "protocol/message/fields.h"
#include "protocol/message/request.h"
#include "protocol/route/target.h"

/* A request before its memory is allocated. */
struct draft {
        const char *head;
        size_t size;
        struct weir__parsed_head parsed;
        struct weir__target target;
        struct weir__control control;
};

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
        const struct weir__control *control = &draft->control;

        if (control->lengths > 0)
                return control->lengths > 1 || control->length > WEIR__CONTENT_LENGTH_MAX || control->codings > 0 ? 400 : 0;
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
        weir__fields_read_control(&draft->control, draft->head, parsed);
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

/* Path and host, which may need room of their own behind the copy of the head. */
static void
fill_names(struct weir__request *request, char *head, char *extra, const struct draft *draft)
{
        const struct weir__target *target = &draft->target;
        const struct weir__control *control = &draft->control;

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
        const struct weir__control *control = &draft->control;

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
build(const struct draft *draft, weir__message_alloc *alloc)
{
        const struct weir__target *target = &draft->target;
        size_t fields_size = draft->parsed.field_count * sizeof(struct weir__field);
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
        request->method = weir__fields_terminate(head, draft->parsed.method);
        request->target = weir__fields_terminate(head, draft->parsed.target);
        request->fields = (struct weir__field *)(request + 1);
        request->field_count = draft->parsed.field_count;
        weir__fields_fill((struct weir__field *)(request + 1), head, &draft->parsed);
        fill_names(request, head, head + draft->size, draft);
        fill_control(request, draft);
        return request;
}

int
weir__request_new(const char *head, size_t size, uint64_t max_body, weir__message_alloc *alloc,
                  struct weir__request **ret_request)
{
        struct weir__parsed_field usual[WEIR__USUAL_FIELDS], *more;
        struct draft draft = {.head = head, .size = size, .parsed = {.fields = usual, .field_room = WEIR__USUAL_FIELDS}};
        struct weir__request *request = NULL;
        int r = weir__fields_parse(WEIR__MESSAGE_REQUEST, &draft.parsed, head, size, &more);

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
        return weir__fields_next(request->fields, request->field_count, name, at);
}

const char *
weir__request_header(const struct weir__request *request, const char *name)
{
        uint32_t at = 0;

        return weir__request_next(request, name, &at);
}
