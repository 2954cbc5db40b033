/* protocol/route/url_parts.c: the parts of a URL: text taken apart, checked, and put together again.
 *
 * A text is checked twice: first that each byte may be in a URL at all, then that each part has only what belongs there.  So only
 * delimiters are left to be checked in most parts.
 *
 * Threads: any; pure functions.  No locks. */
#include <errno.h>
#include <string.h>

#include <arpa/inet.h>

#include "protocol/route/target.h"
#include "protocol/route/url_parts.h"
#include "protocol/text/bytes.h"

bool
weir__url_refuse(struct weir_url_problem *problem, size_t at, const char *text, int error)
{
        if (problem)
                *problem = (struct weir_url_problem){at, text};
        errno = error;
        return false;
}

/* -- parts -- */

static inline bool
is_letter(char byte)
{
        return (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z');
}

static inline bool
is_letter_or_digit(char byte)
{
        return is_letter(byte) || weir__byte_is(byte, WEIR__BYTE_DIGIT);
}

/* The bytes of a scheme at the beginning; 0 when there is none. */
static size_t
scheme_size(const char *text, size_t size)
{
        size_t at = 0;

        if (size == 0 || !is_letter(text[0]))
                return 0;
        while (at < size && (is_letter_or_digit(text[at]) || text[at] == '+' || text[at] == '-' || text[at] == '.'))
                at++;
        return at;
}

/* Takes what is behind the first delimiter, and that, off the text. */
static struct weir__url_part
cut(const char *text, const char **end, char delimiter)
{
        const char *at = memchr(text, delimiter, (size_t)(*end - text));
        struct weir__url_part part = {NULL, 0};

        if (at) {
                part = (struct weir__url_part){at + 1, (size_t)(*end - at - 1)};
                *end = at;
        }
        return part;
}

/* [userinfo "@"] host [":" port].  An invalid rest becomes a part of the host or of the port. */
static void
split_authority(struct weir__url_parts *parts, const char *text, const char *end)
{
        const char *at = memchr(text, '@', (size_t)(end - text)), *host_end = end;

        if (at) {
                parts->userinfo = (struct weir__url_part){text, (size_t)(at - text)};
                text = at + 1;
        }
        const char *bracket = text < end && *text == '[' ? memchr(text, ']', (size_t)(end - text)) : NULL;
        if (!bracket)
                parts->port = cut(text, &host_end, ':');
        else if (bracket + 1 < end && bracket[1] == ':')
                parts->port = cut(bracket, &host_end, ':');
        parts->host = (struct weir__url_part){text, (size_t)(host_end - text)};
}

/* Source: RFC 3986 appendix B. */
void
weir__url_split(struct weir__url_parts *parts, const char *text, size_t size)
{
        const char *end = text + size;

        *parts = (struct weir__url_parts){.scheme = {NULL, 0}};
        parts->fragment = cut(text, &end, '#');
        parts->query = cut(text, &end, '?');
        size_t scheme = scheme_size(text, (size_t)(end - text));
        if (scheme > 0 && text + scheme < end && text[scheme] == ':') {
                parts->scheme = (struct weir__url_part){text, scheme};
                text += scheme + 1;
        }
        if (end - text >= 2 && text[0] == '/' && text[1] == '/') {
                const char *slash = memchr(text + 2, '/', (size_t)(end - text - 2)), *authority = text + 2;

                text = slash ? slash : end;
                split_authority(parts, authority, text);
        }
        parts->path = (struct weir__url_part){text, (size_t)(end - text)};
}

void
weir__url_move(struct weir__url_parts *parts, const char *text, const char *copy)
{
        struct weir__url_part *const all[] = {&parts->scheme, &parts->userinfo, &parts->host,    &parts->port,
                                              &parts->path,   &parts->query,    &parts->fragment};

        for (size_t i = 0; i < sizeof all / sizeof *all; i++)
                if (all[i]->text)
                        all[i]->text = copy + (all[i]->text - text);
}

int
weir__url_default_port(const struct weir__url_part *scheme)
{
        if (WEIR__BYTES_ARE(scheme->text, scheme->size, "http") || WEIR__BYTES_ARE(scheme->text, scheme->size, "ws"))
                return 80;
        if (WEIR__BYTES_ARE(scheme->text, scheme->size, "https") || WEIR__BYTES_ARE(scheme->text, scheme->size, "wss"))
                return 443;
        return -1;
}

/* -- checks -- */

/* What is wrong with the first byte in every part of a URL; NULL if it may be there. */
static const char *
fault_of(const char *text, size_t size)
{
        unsigned char byte = (unsigned char)*text;

        if (weir__byte_is(*text, WEIR__BYTE_NAME | WEIR__BYTE_DELIMITER) || weir__bytes_are_escape(text, size))
                return NULL;
        switch (byte) {
        case '%': return "a percent sign: expected two hexadecimal digits behind it, or %25";
        case '\0': return "a NUL: expected none";
        case ' ': return "a space: expected %20";
        case '\\': return "a backslash: expected a slash, or %5C";
        }
        if (byte < ' ' || byte == 0x7f)
                return "a control character: expected none";
        return byte > 0x7f ? "a byte above 127: expected its escapes, or in a host the form that begins with xn--"
                           : "a character that no URL may have: expected its escape";
}

struct reading {
        const char *text; /* places are counted from here */
        struct weir_url_problem *problem;
};

static bool
refuse(const struct reading *reading, const char *at, const char *text)
{
        return weir__url_refuse(reading->problem, (size_t)(at - reading->text), text, EINVAL);
}

/* The place, from `at` on, of the next byte that is more than a part of a name. */
static size_t
next_mark(const char *text, size_t size, size_t at)
{
        return at + weir__bytes_span(text + at, size - at, WEIR__BYTE_NAME);
}

static bool
check_bytes(const struct reading *reading, size_t size)
{
        for (size_t i = 0; i < size; i++) {
                i += weir__bytes_span(reading->text + i, size - i, WEIR__BYTE_NAME | WEIR__BYTE_DELIMITER);
                const char *fault = i < size ? fault_of(reading->text + i, size - i) : NULL;

                if (fault)
                        return refuse(reading, reading->text + i, fault);
        }
        return true;
}

/* Whether none of the delimiters is in the part. */
static bool
check_part(const struct reading *reading, const struct weir__url_part *part, const char *delimiters)
{
        if (!part->text)
                return true;
        for (size_t i = next_mark(part->text, part->size, 0); i < part->size; i = next_mark(part->text, part->size, i + 1))
                if (strchr(delimiters, part->text[i]))
                        return refuse(reading, part->text + i,
                                      part->text[i] == '#' ? "a second number sign: expected %23"
                                                           : "a bracket: expected %5B or %5D, but around an IPv6 address");
        return true;
}

static bool
check_literal(const struct reading *reading, const struct weir__url_part *host)
{
        size_t size = weir__host_size(host->text, host->size);
        const char *zone = memchr(host->text, '%', host->size);

        if (size == host->size)
                return true;
        if (size > 0)
                return refuse(reading, host->text + size, "behind an IPv6 address: expected a colon with a port, or a slash");
        return zone ? refuse(reading, zone, "a zone of an IPv6 address: expected an address without one")
                    : refuse(reading, host->text, "a bracket in a host: expected an IPv6 address between brackets");
}

static bool
is_name_byte(char byte)
{
        return is_letter_or_digit(byte) || byte == '-' || byte == '.' || byte == '_';
}

/* Whether the last label of a name is what some resolvers take for a part of an IPv4 address: "127.1", "0x7f.1", "2130706433". */
static bool
ends_in_number(const char *text, size_t size)
{
        size -= size > 0 && text[size - 1] == '.';
        size_t start = size;
        while (start > 0 && text[start - 1] != '.')
                start--;
        const char *label = text + start;
        size_t length = size - start;
        if (length >= 2 && label[0] == '0' && (label[1] | 0x20) == 'x')
                return weir__bytes_span(label + 2, length - 2, WEIR__BYTE_HEX) == length - 2;
        return length > 0 && weir__bytes_span(label, length, WEIR__BYTE_DIGIT) == length;
}

static bool
is_ipv4(const char *text, size_t size)
{
        char address[INET_ADDRSTRLEN];
        struct in_addr ignored;

        if (size >= sizeof address)
                return false;
        memcpy(address, text, size);
        address[size] = '\0';
        return inet_pton(AF_INET, address, &ignored) == 1;
}

static bool
refuse_host_byte(const struct reading *reading, const char *at, size_t size)
{
        const char *fault = fault_of(at, size);

        if (*at == '@')
                fault = "a second @: expected %40 in a userinfo, and none in a host";
        return refuse(reading, at,
                      fault ? fault
                            : "in a host: expected letters, digits, '-', '.' and '_', or an IPv6 address between brackets");
}

/* A host that can be looked up.  The rules of RFC 3986 alone would allow escapes and marks. */
static bool
check_web_host(const struct reading *reading, const struct weir__url_part *host)
{
        if (host->size == 0)
                return refuse(reading, host->text, "an empty host: expected a name or an address");
        for (size_t i = 0; i < host->size; i++)
                if (!is_name_byte(host->text[i]))
                        return refuse_host_byte(reading, host->text + i, host->size - i);
        if (ends_in_number(host->text, host->size) && !is_ipv4(host->text, host->size))
                return refuse(reading, host->text,
                              "a host that ends in a number: expected an IPv4 address of four decimal numbers");
        return true;
}

static bool
check_host(const struct reading *reading, const struct weir__url_part *host, bool is_web)
{
        if (host->size > 0 && host->text[0] == '[')
                return check_literal(reading, host);
        if (is_web)
                return check_web_host(reading, host);
        size_t size = weir__host_size(host->text, host->size);
        return size == host->size || refuse_host_byte(reading, host->text + size, host->size - size);
}

static bool
check_port(const struct reading *reading, const struct weir__url_part *port)
{
        uint64_t number;
        size_t digits = weir__bytes_number(port->text, port->size, &number);

        if (digits < port->size)
                return refuse(reading, port->text + digits, "in a port: expected digits, and a slash behind them");
        return number <= UINT16_MAX || refuse(reading, port->text, "a port: expected 0 to 65535");
}

/* The first segment of a reference without a scheme must not look as if it had one. */
static bool
check_reference(const struct reading *reading, const struct weir__url_parts *parts)
{
        const struct weir__url_part *path = &parts->path;
        const char *slash = memchr(path->text, '/', path->size);
        const char *colon = memchr(path->text, ':', slash ? (size_t)(slash - path->text) : path->size);

        return !colon ||
               refuse(reading, colon, "a colon in the first segment, which is no scheme: expected ./ before the segment");
}

static bool
check_authority(const struct reading *reading, const struct weir__url_parts *parts, bool is_web)
{
        if (!parts->host.text)
                return !is_web || !parts->scheme.text ||
                       refuse(reading, parts->path.text, "a scheme that needs a host: expected two slashes and a host");
        return check_part(reading, &parts->userinfo, "[]") && check_host(reading, &parts->host, is_web) &&
               check_port(reading, &parts->port);
}

bool
weir__url_read(struct weir__url_parts *parts, const char *text, size_t size, const struct weir__url_part *base,
               struct weir_url_problem *problem)
{
        struct reading reading = {text, problem};

        if (size > WEIR_URL_MAX)
                return weir__url_refuse(problem, WEIR_URL_MAX, "too long: expected at most 65535 bytes", EMSGSIZE);
        if (!check_bytes(&reading, size))
                return false;
        weir__url_split(parts, text, size);
        if (!parts->scheme.text && !base)
                return refuse(&reading, text, "no scheme: expected one, such as https://");
        const struct weir__url_part *scheme = parts->scheme.text ? &parts->scheme : base;
        return (parts->scheme.text || check_reference(&reading, parts)) &&
               check_authority(&reading, parts, weir__url_default_port(scheme) >= 0) &&
               check_part(&reading, &parts->path, "[]") && check_part(&reading, &parts->query, "[]") &&
               check_part(&reading, &parts->fragment, "[]#");
}

bool
weir__url_check_scheme(const struct weir__url_part *scheme, struct weir_url_problem *problem)
{
        size_t size = scheme_size(scheme->text, scheme->size);

        return (size > 0 && size == scheme->size) ||
               weir__url_refuse(problem, size, "in a scheme: expected a letter, then letters, digits, '+', '-' and '.'", EINVAL);
}

bool
weir__url_check_host(const struct weir__url_part *host, const struct weir__url_part *scheme, struct weir_url_problem *problem)
{
        return check_host(&(struct reading){host->text, problem}, host, weir__url_default_port(scheme) >= 0);
}

/* -- putting together -- */

static char *
put(char *out, const char *before, struct weir__url_part part, const char *behind)
{
        if (!part.text)
                return out;
        out = mempcpy(out, before, strlen(before));
        out = mempcpy(out, part.text, part.size);
        return mempcpy(out, behind, strlen(behind));
}

size_t
weir__url_room(const struct weir__url_parts *parts)
{
        return parts->scheme.size + parts->userinfo.size + parts->host.size + parts->port.size + parts->path.size +
               parts->query.size + parts->fragment.size + sizeof "://@:/.?#";
}

char *
weir__url_compose(char *out, const struct weir__url_parts *parts)
{
        /* Two slashes would make a host out of the first segment.  Source: RFC 3986 section 3.3. */
        bool looks_like_host = !parts->host.text && parts->path.size >= 2 && parts->path.text[0] == '/' &&
                               parts->path.text[1] == '/';

        out = put(out, "", parts->scheme, ":");
        out = put(out, "", parts->host.text ? (struct weir__url_part){"//", 2} : parts->host, "");
        out = put(out, "", parts->userinfo, "@");
        out = put(out, "", parts->host, "");
        out = put(out, ":", parts->port, "");
        out = put(out, looks_like_host ? "/." : "", parts->path, "");
        out = put(out, "?", parts->query, "");
        return put(out, "#", parts->fragment, "");
}

void
weir__url_lower(char *text, size_t size)
{
        for (size_t i = 0; i < size; i++) {
                if (text[i] == '%')
                        i += 2;
                else if (text[i] >= 'A' && text[i] <= 'Z')
                        text[i] |= 0x20;
        }
}

static bool
begins(const char *text, const char *end, const char *prefix)
{
        size_t size = strlen(prefix);

        return (size_t)(end - text) >= size && memcmp(text, prefix, size) == 0;
}

static bool
is_all(const char *text, const char *end, const char *word)
{
        return begins(text, end, word) && (size_t)(end - text) == strlen(word);
}

size_t
weir__url_remove_dots(char *path, size_t size)
{
        char *in = path, *out = path, *end = path + size;

        while (in < end) {
                bool is_up = begins(in, end, "/../") || is_all(in, end, "/..");

                if (is_up || begins(in, end, "/./") || is_all(in, end, "/.")) {
                        while (is_up && out > path && *--out != '/')
                                ;
                        in += is_up ? 3 : 2;
                        if (in == end)
                                *--in = '/';
                } else if (begins(in, end, "../") || begins(in, end, "./")) {
                        in += in[1] == '.' ? 3 : 2;
                } else if (is_all(in, end, "..") || is_all(in, end, ".")) {
                        in = end;
                } else {
                        do
                                *out++ = *in++;
                        while (in < end && *in != '/');
                }
        }
        return (size_t)(out - path);
}

/* -- normal form -- */

/* Copies the text; unreserved bytes are decoded, other escapes upper case.  Returns the end. */
static char *
normalize_escapes(char *out, const char *text, size_t size)
{
        for (size_t i = 0; i < size; i++) {
                if (text[i] != '%') {
                        *out++ = text[i];
                        continue;
                }
                char byte = weir__bytes_unescape(text + i);
                if (is_name_byte(byte) || byte == '~') {
                        *out++ = byte;
                } else {
                        for (size_t digit = 0; digit < 3; digit++)
                                *out++ = is_letter(text[i + digit]) ? (char)(text[i + digit] & ~0x20) : text[i + digit];
                }
                i += 2;
        }
        return out;
}

/* The shortest form of an IPv6 address between brackets.  Source: RFC 5952. */
static struct weir__url_part
normal_host(char shortest[INET6_ADDRSTRLEN + 2], struct weir__url_part host)
{
        struct in6_addr address;

        if (host.size < 2 || host.text[0] != '[')
                return host;
        memcpy(shortest, host.text + 1, host.size - 2);
        shortest[host.size - 2] = '\0';
        inet_pton(AF_INET6, shortest, &address);
        shortest[0] = '[';
        inet_ntop(AF_INET6, &address, shortest + 1, INET6_ADDRSTRLEN);
        return (struct weir__url_part){shortest, strlen(strcat(shortest, "]"))};
}

/* Without leading zeros; absent, if it is empty or the scheme's own. */
static struct weir__url_part
normal_port(const struct weir__url_parts *parts)
{
        struct weir__url_part port = parts->port;
        uint64_t number;

        for (; port.size > 1 && *port.text == '0'; port.size--)
                port.text++;
        weir__bytes_number(port.text, port.size, &number);
        bool is_kept = port.size > 0 && (int)number != weir__url_default_port(&parts->scheme);
        return is_kept ? port : (struct weir__url_part){NULL, 0};
}

bool
weir__url_is_normal(const struct weir__url_parts *parts, const char *text, size_t size)
{
        struct weir__url_part path = parts->path;

        if (memchr(text, '%', size) || (parts->host.size > 0 && parts->host.text[0] == '['))
                return false;
        if (path.size > 0 && (path.text[0] == '.' || memmem(path.text, path.size, "/.", 2)))
                return false;
        return normal_port(parts).text == parts->port.text && (path.size > 0 || weir__url_default_port(&parts->scheme) < 0);
}

char *
weir__url_normalize(char *out, char *scratch, const char *text, size_t size)
{
        char *end = normalize_escapes(scratch, text, size), shortest[INET6_ADDRSTRLEN + 2];
        struct weir__url_parts parts;

        weir__url_split(&parts, scratch, (size_t)(end - scratch));
        weir__url_lower(scratch, parts.scheme.size);
        if (parts.host.text)
                weir__url_lower(scratch + (parts.host.text - scratch), parts.host.size);
        parts.host = normal_host(shortest, parts.host);
        parts.port = normal_port(&parts);
        parts.path.size = weir__url_remove_dots(scratch + (parts.path.text - scratch), parts.path.size);
        if (parts.path.size == 0 && weir__url_default_port(&parts.scheme) >= 0)
                parts.path = (struct weir__url_part){"/", 1};
        return weir__url_compose(out, &parts);
}
