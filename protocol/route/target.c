/* protocol/route/target.c: the parts of a request's target.
 *
 * Threads: any; pure functions.  No locks. */
#include <string.h>

#include <arpa/inet.h>

#include "protocol/text/bytes.h"
#include "protocol/route/target.h"

/* "[" IPv6address "]": its size, or 0 when it is invalid.  IPvFuture is refused, because no version of it exists. */
static size_t
literal_size(const char *text, size_t size)
{
        const char *end = memchr(text, ']', size);
        size_t inside = end ? (size_t)(end - text) - 1 : 0;
        char address[INET6_ADDRSTRLEN];
        struct in6_addr ignored;

        if (inside == 0 || inside >= sizeof address)
                return 0;
        memcpy(address, text + 1, inside);
        address[inside] = '\0';
        return inet_pton(AF_INET6, address, &ignored) == 1 ? inside + 2 : 0;
}

/* A reg-name, of which an IPv4address is one: its size. */
static size_t
name_size(const char *text, size_t size)
{
        size_t at = weir__bytes_span(text, size, WEIR__BYTE_NAME);

        while (weir__bytes_are_escape(text + at, size - at)) {
                at += 3;
                at += weir__bytes_span(text + at, size - at, WEIR__BYTE_NAME);
        }
        return at;
}

size_t
weir__host_size(const char *text, size_t size)
{
        return size > 0 && text[0] == '[' ? literal_size(text, size) : name_size(text, size);
}

bool
weir__authority_is_valid(const char *text, size_t size)
{
        size_t host = weir__host_size(text, size);

        if (host == 0 || host == size)
                return host > 0;
        return text[host] == ':' && weir__bytes_span(text + host + 1, size - host - 1, WEIR__BYTE_DIGIT) == size - host - 1;
}

/* Divides the text behind the authority into path and query, and checks the escapes of the path. */
static int
read_path(struct weir__target *target, const char *text, size_t size)
{
        size_t at = 0, escapes = 0;

        for (; at < size && text[at] != '?'; at++) {
                if (text[at] != '%')
                        continue;
                if (!weir__bytes_are_escape(text + at, size - at) || (text[at + 1] == '0' && text[at + 2] == '0'))
                        return 400;
                escapes++;
        }
        target->path = text;
        target->path_size = at;
        target->decoded_size = at - 2 * escapes;
        target->query = at < size ? text + at + 1 : NULL;
        return 0;
}

static size_t
scheme_size(const char *text, size_t size)
{
        static const char http[] = "http://", https[] = "https://";

        if (size >= sizeof http - 1 && weir__bytes_equal(text, http, sizeof http - 1))
                return sizeof http - 1;
        return size >= sizeof https - 1 && weir__bytes_equal(text, https, sizeof https - 1) ? sizeof https - 1 : 0;
}

/* absolute-form, as to a proxy, which every server has to accept.  Source: RFC 9112 section 3.2.2. */
static int
read_absolute(struct weir__target *target, bool is_options, const char *text, size_t size)
{
        size_t scheme = scheme_size(text, size), end = scheme;
        int r;

        while (end < size && text[end] != '/' && text[end] != '?')
                end++;
        if (scheme == 0 || !weir__authority_is_valid(text + scheme, end - scheme))
                return 400;
        target->authority = text + scheme;
        target->authority_size = end - scheme;
        r = read_path(target, text + end, size - end);
        if (r == 0 && target->path_size == 0) {
                target->path = is_options && !target->query ? "*" : "/"; /* source: RFC 9112 section 3.2.4 */
                target->path_size = target->decoded_size = 1;
        }
        return r;
}

/* authority-form, which has to say a port.  Source: RFC 9112 section 3.2.3, RFC 9110 section 9.3.6. */
static int
read_connect(const char *text, size_t size)
{
        return weir__authority_is_valid(text, size) && weir__host_size(text, size) + 1 < size ? 501 : 400;
}

int
weir__target_read(struct weir__target *target, const char *method, size_t method_size, const char *text, size_t size)
{
        bool is_options = method_size == 7 && memcmp(method, "OPTIONS", 7) == 0;

        *target = (struct weir__target){.path = NULL};
        if (method_size == 7 && memcmp(method, "CONNECT", 7) == 0)
                return read_connect(text, size);
        if (text[0] == '/')
                return read_path(target, text, size);
        if (size == 1 && text[0] == '*' && is_options) {
                target->is_asterisk = true;
                return read_path(target, text, size);
        }
        return read_absolute(target, is_options, text, size);
}

char *
weir__path_decode(char *out, const char *path, size_t size)
{
        for (size_t at = 0; at < size; at++) {
                if (path[at] == '%') {
                        *out++ = weir__bytes_unescape(path + at);
                        at += 2;
                } else {
                        *out++ = path[at];
                }
        }
        return out;
}
