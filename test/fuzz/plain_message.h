/* test/fuzz/plain_message.h: a second opinion on requests, by a reader that has the whole message and takes it line by line.
 *
 * It says whether a request is to be served, not with which status it is refused.  What a target and an authority may be it asks
 * the library, for field_fuzz.c asks that question on its own. */
#ifndef WEIR_TEST_FUZZ_PLAIN_MESSAGE_H
#define WEIR_TEST_FUZZ_PLAIN_MESSAGE_H

#include <http_parser.h>

#include "protocol/message/chunked.h"
#include "protocol/message/gate.h"
#include "protocol/route/target.h"
#include "test/fuzz/fuzz.h"

enum plain_verdict {
        PLAIN_MORE,   /* not complete: it may be refused already */
        PLAIN_GOOD,   /* must be served */
        PLAIN_BAD,    /* must be refused */
        PLAIN_EITHER, /* both are right */
};

struct plain_limits {
        struct weir__gate_limits gate;
        struct weir__chunked_limits chunked;
        uint64_t max_body;
};

/* The fields that describe the message itself. */
struct plain_head {
        struct fuzz_input method, target, host, length, coding;
        unsigned fields, hosts, lengths, codings, minor;
        bool expects_other, close, keep_alive, is_chunked;
        uint64_t content_length;
};

static inline struct fuzz_input plain_take_line(struct fuzz_input *rest)
{
        const char *end = memmem(rest->at, rest->size, "\r\n", 2);
        struct fuzz_input line = {.at = rest->at, .size = (size_t)(end - rest->at)};

        FUZZ_CHECK(end);
        rest->at += line.size + 2;
        rest->size -= line.size + 2;
        return line;
}

static inline bool plain_begins_with_empty_line(struct fuzz_input stream)
{
        return stream.size >= 2 && memcmp(stream.at, "\r\n", 2) == 0;
}

/* The size of the head at the beginning of the stream; 0 when its end is not there. */
static inline size_t plain_head_size(struct fuzz_input stream)
{
        size_t begin = plain_begins_with_empty_line(stream) ? 2 : 0;
        const char *end = stream.size > begin ? memmem(stream.at + begin, stream.size - begin, "\r\n\r\n", 4) : NULL;

        return end ? (size_t)(end - stream.at) + 4 : 0;
}

static inline bool plain_method_is_known(struct fuzz_input method)
{
        for (enum http_method known = HTTP_DELETE; known <= HTTP_SOURCE; known++) {
                if (fuzz_is(method, http_method_str(known))) {
                        return true;
                }
        }
        return false;
}

static inline bool plain_is_request_line(struct fuzz_input line, struct plain_head *head)
{
        head->method = fuzz_take_until(&line, ' ');
        head->target = fuzz_take_until(&line, ' ');
        for (size_t i = 0; i < head->target.size; i++) {
                if (head->target.at[i] <= ' ' || head->target.at[i] > '~' || head->target.at[i] == '#') {
                        return false;
                }
        }
        if (line.size != 8 || memcmp(line.at, "HTTP/1.", 7) != 0 || line.at[7] < '0' || line.at[7] > '9') {
                return false;
        }
        head->minor = (unsigned)(line.at[7] - '0');
        return head->target.size > 0 && plain_method_is_known(head->method);
}

/* Divides a line at its colon.  Returns false when it is no field. */
static inline bool plain_is_field(struct fuzz_input line, struct fuzz_input *name, struct fuzz_input *value)
{
        const char *colon = line.size ? memchr(line.at, ':', line.size) : NULL;

        if (!colon) {
                return false;
        }
        *name = (struct fuzz_input){line.at, (size_t)(colon - line.at)};
        *value = (struct fuzz_input){colon + 1, line.size - name->size - 1};
        for (size_t i = 0; i < value->size; i++) {
                unsigned char byte = (unsigned char)value->at[i];

                if ((byte < ' ' && byte != '\t') || byte == 127) {
                        return false;
                }
        }
        *value = fuzz_trim(*value);
        return fuzz_is_token(*name);
}

/* Takes a member that is not empty off a list between commas. */
static inline bool plain_take_member(struct fuzz_input *list, struct fuzz_input *member)
{
        while (list->size > 0) {
                *member = fuzz_trim(fuzz_take_until(list, ','));
                if (member->size > 0) {
                        return true;
                }
        }
        return false;
}

static inline void plain_note_field(struct plain_head *head, struct fuzz_input name, struct fuzz_input value)
{
        bool expects = fuzz_is_in_any_case(name, "expect"), connects = fuzz_is_in_any_case(name, "connection");
        struct fuzz_input member;

        head->fields++;
        if (fuzz_is_in_any_case(name, "host")) {
                head->hosts++;
                head->host = value;
        } else if (fuzz_is_in_any_case(name, "content-length")) {
                head->lengths++;
                head->length = value;
        } else if (fuzz_is_in_any_case(name, "transfer-encoding")) {
                head->codings++;
                head->coding = value;
        }
        while ((expects || connects) && plain_take_member(&value, &member)) {
                head->expects_other |= expects && !fuzz_is_in_any_case(member, "100-continue");
                head->close |= connects && fuzz_is_in_any_case(member, "close");
                head->keep_alive |= connects && fuzz_is_in_any_case(member, "keep-alive");
        }
}

static inline enum plain_verdict plain_judge_length(struct plain_head *head, uint64_t max_body)
{
        struct fuzz_input digits = head->length;

        if (head->lengths == 0) {
                return PLAIN_GOOD;
        }
        for (size_t i = 0; i < digits.size; i++) {
                if (digits.at[i] < '0' || digits.at[i] > '9') {
                        return PLAIN_BAD;
                }
        }
        if (digits.size == 0) {
                return PLAIN_BAD;
        }
        for (; digits.size > 1 && *digits.at == '0'; digits.size--) {
                digits.at++;
        }
        if (digits.size > 20) {
                return PLAIN_BAD;
        }
        for (size_t i = 0; i < digits.size; i++) {
                head->content_length = 10 * head->content_length + (uint64_t)(digits.at[i] - '0');
        }
        /* Near to 2^64 the parser may find it too large: nobody can tell the difference. */
        return digits.size > 18 ? PLAIN_EITHER : head->content_length > max_body ? PLAIN_BAD : PLAIN_GOOD;
}

static inline enum plain_verdict plain_judge_coding(struct plain_head *head)
{
        struct fuzz_input coding = head->coding, list = head->coding, member;
        unsigned members = 0;

        if (head->codings == 0) {
                return PLAIN_GOOD;
        }
        while (plain_take_member(&list, &member)) {
                members++;
                if (!fuzz_is_in_any_case(member, "chunked")) {
                        return PLAIN_BAD;
                }
        }
        if (head->codings > 1 || head->lengths > 0 || head->minor == 0 || members != 1) {
                return PLAIN_BAD;
        }
        head->is_chunked = true;
        return memchr(coding.at, ',', coding.size) ? PLAIN_EITHER : PLAIN_GOOD; /* empty members: let them, or not */
}

static inline bool plain_host_is_good(const struct plain_head *head, const struct weir__target *target)
{
        if (head->hosts != 1) {
                return head->hosts == 0 && head->minor == 0;
        }
        return head->host.size ? weir__authority_is_valid(head->host.at, head->host.size)
                               : target->authority || target->is_asterisk;
}

static inline enum plain_verdict plain_judge_meaning(struct plain_head *head, uint64_t max_body)
{
        enum plain_verdict length = plain_judge_length(head, max_body), coding = plain_judge_coding(head);
        struct weir__target target;

        if (head->lengths > 1 || length == PLAIN_BAD || coding == PLAIN_BAD || (head->expects_other && head->minor > 0) ||
            weir__target_read(&target, head->method.at, head->method.size, head->target.at, head->target.size) != 0 ||
            !plain_host_is_good(head, &target)) {
                return PLAIN_BAD;
        }
        return length == PLAIN_EITHER ? length : coding;
}

/* Judges a whole head. */
static inline enum plain_verdict plain_judge_head(struct fuzz_input text, const struct plain_limits *limits,
                                                  struct plain_head *head)
{
        struct fuzz_input rest = text, line, name, value;

        *head = (struct plain_head){.fields = 0};
        if (plain_begins_with_empty_line(text)) {
                plain_take_line(&rest);
        }
        line = plain_take_line(&rest);
        if (line.size > limits->gate.max_line || text.size > limits->gate.max_head || !plain_is_request_line(line, head)) {
                return PLAIN_BAD;
        }
        while ((line = plain_take_line(&rest)).size > 0) {
                if (!plain_is_field(line, &name, &value)) {
                        return PLAIN_BAD;
                }
                plain_note_field(head, name, value);
        }
        return head->fields > limits->gate.max_fields ? PLAIN_BAD : plain_judge_meaning(head, limits->max_body);
}

/* -- chunked bodies -- */

/* Where the reading stands in a body. */
struct plain_body {
        struct fuzz_input rest;
        size_t extensions, trailers, fields;
        char *payload; /* with room enough */
        size_t payload_size;
};

static inline const char *plain_skip_space(const char *at, const char *end)
{
        while (at < end && (*at == ' ' || *at == '\t')) {
                at++;
        }
        return at;
}

static inline const char *plain_skip_token(const char *at, const char *end)
{
        while (at < end && fuzz_is_token_byte(*at)) {
                at++;
        }
        return at;
}

/* Behind the quotation mark that ends the string which begins at `at`; NULL when it is none. */
static inline const char *plain_skip_quoted(const char *at, const char *end)
{
        for (at++; at < end; at++) {
                if (*at == '"') {
                        return at + 1;
                }
                at += *at == '\\' && at + 1 < end;
                if (((unsigned char)*at < ' ' && *at != '\t') || *at == 127) {
                        return NULL;
                }
        }
        return NULL;
}

/* Behind the extension that begins at `at`; NULL when it is none. */
static inline const char *plain_skip_extension(const char *at, const char *end)
{
        const char *name = plain_skip_space(at + 1, end), *behind = plain_skip_token(name, end);
        const char *equals = plain_skip_space(behind, end), *value;

        if (*at != ';' || behind == name) {
                return NULL;
        }
        if (equals == end || *equals != '=') {
                return behind;
        }
        value = plain_skip_space(equals + 1, end);
        if (value < end && *value == '"') {
                return plain_skip_quoted(value, end);
        }
        behind = plain_skip_token(value, end);
        return behind > value ? behind : NULL;
}

static inline bool plain_are_extensions(const char *at, const char *end)
{
        while (at && at < end) {
                const char *behind = plain_skip_extension(at, end);

                at = behind ? plain_skip_space(behind, end) : NULL;
                if (at == end && behind < end) {
                        return false; /* white space before the end of the line */
                }
        }
        return at != NULL;
}

/* Reads the line of a chunk's size.  Returns false when it is none. */
static inline bool plain_read_size(struct plain_body *body, struct fuzz_input line, const struct plain_limits *limits,
                                   uint64_t *size)
{
        size_t digits = 0;

        for (*size = 0; digits < line.size && fuzz_hex(line.at[digits]) >= 0; digits++) {
                if (*size > INT64_MAX / 16) {
                        return false;
                }
                *size = 16 * *size + (uint64_t)fuzz_hex(line.at[digits]);
        }
        body->extensions += line.size - (digits < 16 ? digits : 16);
        return digits > 0 && body->extensions <= limits->chunked.max_extensions &&
               plain_are_extensions(line.at + digits, line.at + line.size);
}

static inline bool plain_has_line(struct fuzz_input rest)
{
        return rest.size > 0 && memmem(rest.at, rest.size, "\r\n", 2);
}

static inline enum plain_verdict plain_read_trailers(struct plain_body *body, const struct plain_limits *limits)
{
        while (plain_has_line(body->rest)) {
                struct fuzz_input line = plain_take_line(&body->rest), name, value;

                if (line.size == 0) {
                        return PLAIN_GOOD;
                }
                body->trailers += line.size + 2;
                body->fields++;
                if (body->trailers > limits->chunked.max_trailers || body->fields > limits->chunked.max_trailer_fields ||
                    !plain_is_field(line, &name, &value) || fuzz_is_in_any_case(name, "content-length") ||
                    fuzz_is_in_any_case(name, "transfer-encoding")) {
                        return PLAIN_BAD;
                }
        }
        return PLAIN_MORE;
}

/* Decodes a chunked body, which begins at body->rest. */
static inline enum plain_verdict plain_read_chunked(struct plain_body *body, const struct plain_limits *limits)
{
        while (plain_has_line(body->rest)) {
                uint64_t size;

                if (!plain_read_size(body, plain_take_line(&body->rest), limits, &size)) {
                        return PLAIN_BAD;
                }
                if (size == 0) {
                        return plain_read_trailers(body, limits);
                }
                if (body->rest.size < size || body->rest.size - size < 2) {
                        return PLAIN_MORE;
                }
                memcpy(body->payload + body->payload_size, body->rest.at, size);
                body->payload_size += size;
                if (memcmp(body->rest.at + size, "\r\n", 2) != 0) {
                        return PLAIN_BAD;
                }
                body->rest.at += size + 2;
                body->rest.size -= size + 2;
        }
        return PLAIN_MORE;
}

#endif
