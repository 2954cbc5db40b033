/* protocol/message/response.c: a response: its fields checked, its head written out.
 *
 * Fields are kept as they go out, so that writing the head is a handful of copies.
 *
 * Threads: a response belongs to one thread at a time.  No locks. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "protocol/text/bytes.h"
#include "protocol/text/date.h"
#include "protocol/text/reason.h"
#include "protocol/message/response.h"

#define CONTINUED  "\r\nDate: "
#define LENGTH     "Content-Length: "
#define CLOSE      "Connection: close\r\n"
#define KEEP_ALIVE "Connection: keep-alive\r\n"

/* All but the handler's fields: a status line without a phrase or with the longest, the lines above, a number of 20 digits. */
#define FIXED_BOUND ((size_t)256)

static struct weir__beside
beside_fields(const struct weir__response *response)
{
        return (struct weir__beside){(char *)response->short_fields, sizeof response->short_fields};
}

static void
free_memory(const char *beside, char *memory)
{
        if (memory != beside)
                free(memory);
}

void
weir__response_done(struct weir__response *response)
{
        weir__lines_done(&response->fields, beside_fields(response));
        free_memory(response->short_body, response->body);
        response->body = NULL;
        response->body_size = response->body_room = 0;
        response->status = 0;
}

char **
weir__response_body_to_take(struct weir__response *response)
{
        return response->body && response->body != response->short_body ? &response->body : NULL;
}

void
weir__response_replace_body(struct weir__response *response, char *body, size_t size)
{
        free_memory(response->short_body, response->body);
        response->body = body;
        response->body_size = response->body_room = size;
}

void
weir__response_remove(struct weir__response *response, const char *name)
{
        weir__lines_remove(&response->fields, name);
}

/* The fields that frame the message are the server's. */
static bool
is_reserved(const char *name, size_t size)
{
        return WEIR__BYTES_ARE(name, size, "content-length") || WEIR__BYTES_ARE(name, size, "transfer-encoding") ||
               WEIR__BYTES_ARE(name, size, "connection") || WEIR__BYTES_ARE(name, size, "date");
}

int
weir__response_field(struct weir__response *response, const char *name, const char *value, bool should_replace)
{
        size_t size = name ? strlen(name) : 0;

        if (is_reserved(name, size))
                return -EINVAL;
        return weir__lines_add(&response->fields, name, size, value, should_replace, beside_fields(response));
}

bool
weir__response_has_field(const struct weir__response *response, const char *name)
{
        return weir__lines_have(&response->fields, name);
}

bool
weir__response_next(const struct weir__response *response, const char *name, size_t *at, const char **value, size_t *size)
{
        return weir__lines_next(&response->fields, name, at, value, size);
}

int
weir__response_wrap(struct weir__response *response, const char *name, const char *before, const char *behind)
{
        struct weir__lines *lines = &response->fields;
        size_t before_size = strlen(before), behind_size = strlen(behind), end = 0, size;
        const char *value;
        int r = weir__lines_make_room(&lines->data, lines->size, &lines->room, before_size + behind_size,
                                      beside_fields(response));

        if (r < 0 || !weir__response_next(response, name, &end, &value, &size))
                return r;
        char *at = lines->data + (value - lines->data);
        memmove(at + before_size + size + behind_size, at + size, lines->size - (size_t)(at + size - lines->data));
        memmove(at + before_size, at, size);
        memcpy(at, before, before_size);
        memcpy(at + before_size + size, behind, behind_size);
        lines->size += before_size + behind_size;
        return 0;
}

int
weir__response_append(struct weir__response *response, const void *data, size_t size)
{
        int r;

        if (size == 0)
                return 0;
        if (!data)
                return -EINVAL;
        r = weir__lines_make_room(&response->body, response->body_size, &response->body_room, size,
                                  (struct weir__beside){response->short_body, sizeof response->short_body});
        if (r < 0)
                return r;
        memcpy(response->body + response->body_size, data, size);
        response->body_size += size;
        return 0;
}

/* An invalid status becomes 500, because the server has let it through. */
static int
status_of(const struct weir__response *response)
{
        int status = response->status ? response->status : 200;

        return status >= 100 && status <= 999 ? status : 500;
}

static bool
status_has_body(int status)
{
        return status >= 200 && status != 204 && status != 205 && status != 304;
}

bool
weir__response_may_have_body(const struct weir__response *response, const struct weir__framing *framing)
{
        return framing->end == WEIR__END_OF_HTTP || (!framing->is_head && status_has_body(status_of(response)));
}

bool
weir__response_has_body(const struct weir__response *response, const struct weir__framing *framing)
{
        return response->body_size > 0 && weir__response_may_have_body(response, framing);
}

size_t
weir__response_head_bound(const struct weir__response *response)
{
        return FIXED_BOUND + response->fields.size;
}

static inline char *
put(char *out, const char *text, size_t size)
{
        memcpy(out, text, size);
        return out + size;
}

/* A string literal. */
#define PUT(out, text) put((out), (text), sizeof(text) - 1)

static char *
put_number(char *out, uint64_t number)
{
        char digits[20];
        size_t at = sizeof digits;

        do {
                digits[--at] = (char)('0' + number % 10);
                number /= 10;
        } while (number > 0);
        return put(out, digits + at, sizeof digits - at);
}

static inline char *
put_status_line(char *out, int status)
{
        size_t size;
        const char *line = weir__http_status_line(status, &size);

        if (line) {
                /* A copy of constant size is a few moves; any other is a loop in microcode. */
                memcpy(out, line, WEIR__STATUS_LINE_ROOM);
                return out + size;
        }
        out = PUT(out, "HTTP/1.1 ");
        out = put_number(out, (size_t)status);
        return PUT(out, " "); /* stays when there is no phrase.  Source: RFC 9112 section 4 */
}

static inline char *
put_content_length(char *out, const struct weir__response *response, const struct weir__framing *framing, int status)
{
        uint64_t size = framing->end == WEIR__END_AT_LENGTH ? framing->length : response->body_size;

        if (status < 200 || status == 204 || (status == 304 && size == 0))
                return out;
        out = PUT(out, LENGTH);
        out = put_number(out, status == 205 ? 0 : size);
        return PUT(out, "\r\n");
}

static char *
put_upgrade(char *out, const char *protocol)
{
        out = PUT(out, "Connection: Upgrade\r\nUpgrade: ");
        out = put(out, protocol, strlen(protocol));
        return PUT(out, "\r\n");
}

/* Writes the field that frames the body.  A status without a body gets no Transfer-Encoding. */
static inline char *
put_end(char *out, const struct weir__response *response, const struct weir__framing *framing, int status)
{
        switch ((enum weir__body_end)framing->end) {
        case WEIR__END_OF_BODY:
        case WEIR__END_AT_LENGTH: return put_content_length(out, response, framing, status);
        case WEIR__END_BY_CHUNK:
                if (status == 205) /* else its body would last until the connection ends.  Source: RFC 9112 section 6.3 */
                        return put_content_length(out, response, framing, status);
                return status_has_body(status) ? PUT(out, "Transfer-Encoding: chunked\r\n") : out;
        case WEIR__END_OF_HTTP: return put_upgrade(out, framing->upgrade);
        case WEIR__END_OF_CONNECTION: break;
        }
        return out;
}

size_t
weir__response_head(const struct weir__response *response, const struct weir__framing *framing, char *out)
{
        int status = status_of(response);
        char *begin = out;

        out = put_status_line(out, status);
        out = PUT(out, CONTINUED);
        out = put(out, framing->date, WEIR__HTTP_DATE_SIZE);
        out = PUT(out, "\r\n");
        if (response->fields.size > 0)
                out = put(out, response->fields.data, response->fields.size);
        out = put_end(out, response, framing, status);
        if (framing->end == WEIR__END_OF_HTTP) {
                /* `Connection` is said */
        } else if (!framing->is_persistent) {
                out = PUT(out, CLOSE);
        } else if (framing->minor == 0 || framing->should_say_keep_alive) {
                out = PUT(out, KEEP_ALIVE);
        }
        out = PUT(out, "\r\n");
        return (size_t)(out - begin);
}
