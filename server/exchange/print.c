/* server/exchange/print.c: bodies that are printed, and texts that are escaped for them.
 *
 * An escaped text belongs to its exchange, so that a program may escape within the arguments of a print and frees nothing.
 * Without memory it is "", and the reply becomes a 500: half a page must not go out.
 *
 * Threads: the callbacks of the exchange's series, one at a time.  No locks. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weir/http.h>

#include "kernel/data/visible.h"
#include "server/exchange/exchange.h"

#define FITTING     1024 /* bytes that need no memory */
#define PIECE_BOUND 6    /* bytes that one byte may become, in either notation */

/* -- printing -- */

static int
append(struct weir__exchange *exchange, const char *format, va_list arguments)
{
        char fitting[FITTING], *text = fitting;
        va_list again;

        va_copy(again, arguments);
        int size = vsnprintf(fitting, sizeof fitting, format, arguments);
        if (size >= FITTING) {
                text = malloc((size_t)size + 1);
                if (text)
                        vsnprintf(text, (size_t)size + 1, format, again);
        }
        va_end(again);
        if (size < 0)
                return -EINVAL;
        int failed = text ? weir_http_reply_append(&exchange->task, text, (size_t)size) : weir__exchange_check(exchange, -ENOMEM);
        if (text != fitting)
                free(text);
        return failed;
}

int
weir_http_reply_printf(weir_task *task, const char *format, ...)
{
        struct weir__exchange *exchange = weir__exchange_of(task);
        va_list arguments;

        if (!exchange || !format)
                return exchange ? -EINVAL : -EDOM;
        va_start(arguments, format);
        int failed = append(exchange, format, arguments);
        va_end(arguments);
        return failed;
}

/* -- escaping -- */

/* Writes the first character of `text`, of `size` bytes, to `out`, at most PIECE_BOUND bytes for each byte that it takes.  Sets
 * *taken, and returns the bytes written. */
typedef unsigned escape_fn(const char *text, size_t size, char *out, unsigned *taken);

static unsigned
put(char *out, const char *piece)
{
        size_t size = strlen(piece);

        memcpy(out, piece, size);
        return (unsigned)size;
}

static unsigned
escape_html(const char *text, size_t size, char *out, unsigned *taken)
{
        (void)size;
        *taken = 1;
        switch (*text) {
        case '&': return put(out, "&amp;");
        case '<': return put(out, "&lt;");
        case '>': return put(out, "&gt;");
        case '"': return put(out, "&quot;");
        case '\'': return put(out, "&#39;");
        default: *out = *text; return 1;
        }
}

/* What would end a string or a script, and what is not UTF-8. */
static bool
is_plain_json(const char *text, unsigned length)
{
        if (length == 3)
                return memcmp(text, "\xe2\x80\xa8", 3) != 0 && memcmp(text, "\xe2\x80\xa9", 3) != 0;
        return length != 1 || ((unsigned char)*text >= ' ' && !strchr("\"\\<>&", *text));
}

/* Besides quotes, backslashes and control characters, those that end a script in HTML, or a line of JavaScript. */
static unsigned
escape_json(const char *text, size_t size, char *out, unsigned *taken)
{
        unsigned length = weir__utf8_character(text, size);
        bool is_valid = length && length <= size;

        *taken = is_valid ? length : 1;
        if (is_valid && is_plain_json(text, length)) {
                memcpy(out, text, length);
                return length;
        }
        if (is_valid && (*text == '"' || *text == '\\'))
                return (out[0] = '\\', out[1] = *text, 2);
        if (is_valid && *text == '\n')
                return put(out, "\\n");
        char piece[PIECE_BOUND + 1];
        snprintf(piece, sizeof piece, "\\u%04x",
                 !is_valid     ? 0xfffdu
                 : length == 3 ? 0x2000u + (unsigned char)text[2] - 0x80u
                               : (unsigned char)*text);
        return put(out, piece);
}

/* The escaped text, in memory of the exchange; "" without any. */
static const char *
escape(weir_task *task, const char *text, escape_fn *piece)
{
        struct weir__exchange *exchange = weir__exchange_of(task);
        struct weir__fields *fields = exchange && text && *text ? weir__exchange_fields(exchange) : NULL;
        size_t size = fields ? strlen(text) : 0, at = 0;
        struct weir__escaped *escaped = fields && size <= (SIZE_MAX - sizeof *escaped - 1) / PIECE_BOUND
                                                ? malloc(sizeof *escaped + PIECE_BOUND * size + 1)
                                                : NULL;

        if (!escaped) {
                if (fields)
                        exchange->has_failed = true;
                return "";
        }
        for (unsigned taken; size; text += taken, size -= taken)
                at += piece(text, size, escaped->text + at, &taken);
        escaped->text[at] = '\0';
        struct weir__escaped *small = realloc(escaped, sizeof *escaped + at + 1);
        escaped = small ? small : escaped;
        escaped->next = fields->escaped;
        fields->escaped = escaped;
        return escaped->text;
}

const char *
weir_http_escape_html(weir_task *exchange, const char *text)
{
        return escape(exchange, text, escape_html);
}

const char *
weir_http_escape_json(weir_task *exchange, const char *text)
{
        return escape(exchange, text, escape_json);
}
