/* test/fuzz/url_fuzz.c: URLs, references, percent-coding and forms; beside a reader that takes a URL apart from its end.
 *
 * The lines of an input are a URL, a reference, a segment, a name and a value; the bytes behind them are encoded.  The whole
 * input is taken for a URL, too.  What must hold:
 *
 * - A URL is read if the second reader takes it, and has the parts that it finds; if not, the problem has a place in the text.
 * - The text of a URL, read again, gives the same; so does its normal form, which is equal to it.
 * - What a message shows has no userinfo, and is the same otherwise.
 * - A reference resolves, or is no URL either; what has resolved resolves to itself; dots are removed as a second algorithm does.
 * - What was built has the host of its base; its last segment, name and value, decoded, are those that were given.
 * - Bytes that were encoded and decoded are the same. */
#include <errno.h>

#include <arpa/inet.h>

#include <weir/url.h>

#include "test/fuzz/fuzz.h"

/* -- a second reader -- */

struct plain_url {
        struct fuzz_input scheme, userinfo, host, port, path, query, fragment; /* `at` is NULL for what is absent */
        int number;                                                            /* of the port, if that is not empty */
};

static bool
has_only(struct fuzz_input text, const char *allowed, bool may_escape)
{
        for (size_t i = 0; i < text.size; i++) {
                if (may_escape && fuzz_escape((struct fuzz_input){text.at + i, text.size - i}) >= 0) {
                        i += 2;
                } else if (text.at[i] == '\0' || !strchr(allowed, text.at[i])) {
                        return false;
                }
        }
        return true;
}

#define LETTERS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
#define DIGITS  "0123456789"
#define MARKS   "-._~!$&'()*+,;="

/* Takes what is behind the first or the last such byte off the text; absent when there is none. */
static struct fuzz_input
take_behind(struct fuzz_input *text, char byte, bool is_last)
{
        struct fuzz_input part = {NULL, 0};
        const char *at = text->size == 0 ? NULL
                         : is_last       ? memrchr(text->at, byte, text->size)
                                         : memchr(text->at, byte, text->size);

        if (at) {
                part = (struct fuzz_input){at + 1, text->size - (size_t)(at + 1 - text->at)};
                text->size = (size_t)(at - text->at);
        }
        return part;
}

static int
plain_port(struct fuzz_input scheme)
{
        static const struct {
                const char *scheme;
                int port;
        } ports[] = {{"http", 80}, {"https", 443}, {"ws", 80}, {"wss", 443}};

        for (size_t i = 0; i < sizeof ports / sizeof *ports; i++) {
                if (fuzz_is_in_any_case(scheme, ports[i].scheme)) {
                        return ports[i].port;
                }
        }
        return -1;
}

static bool
is_literal(struct fuzz_input host)
{
        char text[INET6_ADDRSTRLEN];
        struct in6_addr ignored;

        if (host.size < 2 || host.at[0] != '[' || host.at[host.size - 1] != ']' || host.size - 2 >= sizeof text) {
                return false;
        }
        memcpy(text, host.at + 1, host.size - 2);
        text[host.size - 2] = '\0';
        return strlen(text) == host.size - 2 && inet_pton(AF_INET6, text, &ignored) == 1;
}

/* A decimal number up to 255 without a zero before it. */
static bool
is_octet(struct fuzz_input label)
{
        char text[4] = "";

        if (label.size == 0 || label.size > 3 || !has_only(label, DIGITS, false) || (label.size > 1 && label.at[0] == '0')) {
                return false;
        }
        memcpy(text, label.at, label.size);
        return atoi(text) <= 255;
}

static bool
is_web_host(struct fuzz_input host)
{
        struct fuzz_input rest = host, label = {NULL, 0};
        size_t octets = 0, labels = 0;

        if (host.size == 0 || !has_only(host, LETTERS DIGITS "-._", false)) {
                return false;
        }
        while (rest.size > 0) {
                label = fuzz_take_until(&rest, '.');
                octets += is_octet(label);
                labels++;
        }
        bool is_hex = label.size >= 2 && label.at[0] == '0' && (label.at[1] == 'x' || label.at[1] == 'X') &&
                      has_only((struct fuzz_input){label.at + 2, label.size - 2}, "0123456789abcdefABCDEF", false);
        bool is_number = label.size > 0 && has_only(label, DIGITS, false);
        return (!is_hex && !is_number) || (octets == 4 && labels == 4 && host.at[host.size - 1] != '.');
}

static bool
read_authority(struct plain_url *plain, struct fuzz_input text)
{
        struct fuzz_input host = text, userinfo = text;
        bool is_web = plain_port(plain->scheme) >= 0;

        host = take_behind(&userinfo, '@', true);
        if (host.at) {
                plain->userinfo = userinfo;
        } else {
                host = text;
        }
        if (host.size == 0 || host.at[host.size - 1] != ']') {
                plain->port = take_behind(&host, ':', true);
        }
        plain->host = host;
        char digits[6] = "";
        struct fuzz_input number = plain->port;
        while (number.size > 0 && *number.at == '0') {
                number.at++;
                number.size--;
        }
        if (!has_only(plain->port, DIGITS, false) || number.size > 5) {
                return false;
        }
        if (number.size > 0) {
                memcpy(digits, number.at, number.size);
        }
        plain->number = atoi(digits);
        bool is_name = is_web ? is_web_host(host) : has_only(host, LETTERS DIGITS MARKS, true);
        return plain->number <= 65535 && (is_literal(host) || is_name) &&
               has_only(plain->userinfo, LETTERS DIGITS MARKS ":", true);
}

static bool
read_plain(struct plain_url *plain, struct fuzz_input text)
{
        *plain = (struct plain_url){.path = text};
        plain->fragment = take_behind(&plain->path, '#', false);
        plain->query = take_behind(&plain->path, '?', false);
        struct fuzz_input scheme = plain->path, rest = take_behind(&scheme, ':', false);
        if (!rest.at || scheme.size == 0 || !has_only(scheme, LETTERS DIGITS "+-.", false) || strchr(DIGITS "+-.", *scheme.at)) {
                return false;
        }
        plain->scheme = scheme;
        plain->path = rest;
        if (rest.size >= 2 && rest.at[0] == '/' && rest.at[1] == '/') {
                struct fuzz_input authority = {rest.at + 2, rest.size - 2}, path = take_behind(&authority, '/', false);

                plain->path = path.at ? (struct fuzz_input){path.at - 1, path.size + 1}
                                      : (struct fuzz_input){authority.at + authority.size, 0};
                if (!read_authority(plain, authority)) {
                        return false;
                }
        } else if (plain_port(scheme) >= 0) {
                return false;
        }
        return text.size <= WEIR_URL_MAX && has_only(plain->path, LETTERS DIGITS MARKS ":@/", true) &&
               has_only(plain->query, LETTERS DIGITS MARKS ":@/?", true) &&
               has_only(plain->fragment, LETTERS DIGITS MARKS ":@/?", true);
}

/* -- URLs -- */

static bool
is_part(const char *found, struct fuzz_input expected)
{
        return expected.at ? found && strlen(found) == expected.size && memcmp(found, expected.at, expected.size) == 0 : !found;
}

static bool
is_part_in_lower_case(const char *found, struct fuzz_input expected)
{
        return expected.at ? found && strlen(found) == expected.size && strncasecmp(found, expected.at, expected.size) == 0
                           : !found;
}

static void
check_parts(const weir_url *url, const struct plain_url *plain)
{
        struct fuzz_input host = plain->host;

        if (host.size > 0 && host.at[0] == '[') {
                host = (struct fuzz_input){host.at + 1, host.size - 2};
        }
        FUZZ_CHECK(is_part_in_lower_case(weir_url_scheme(url), plain->scheme));
        FUZZ_CHECK(is_part(weir_url_userinfo(url), plain->userinfo));
        FUZZ_CHECK(is_part_in_lower_case(weir_url_host(url), host));
        FUZZ_CHECK(is_part(weir_url_path(url), plain->path));
        FUZZ_CHECK(is_part(weir_url_query(url), plain->query));
        FUZZ_CHECK(is_part(weir_url_fragment(url), plain->fragment));
        FUZZ_CHECK(weir_url_port(url) == (plain->port.size > 0 ? plain->number : plain_port(plain->scheme)));
        FUZZ_CHECK(!weir_url_target(url) == !plain->host.at && !weir_url_host_field(url) == !plain->host.at);
        FUZZ_CHECK(!plain->host.at || weir_url_target(url)[0] == '/');
}

static weir_url *
parse_again(const char *text)
{
        weir_url *url = weir_url_parse(text, NULL);

        FUZZ_CHECK(url && strcmp(weir_url_text(url), text) == 0);
        return url;
}

static bool
is_same(const char *one, const char *other)
{
        return one && other ? strcmp(one, other) == 0 : one == other;
}

/* What is written is read as it was meant. */
static void
check_texts(const weir_url *url)
{
        weir_url *again = parse_again(weir_url_text(url)), *shown = parse_again(weir_url_redacted(url));

        FUZZ_CHECK(weir_url_equal(url, again) && is_same(weir_url_path(url), weir_url_path(again)));
        FUZZ_CHECK(!weir_url_userinfo(shown) && is_same(weir_url_host(shown), weir_url_host(url)));
        FUZZ_CHECK(is_same(weir_url_path(shown), weir_url_path(url)) && is_same(weir_url_target(shown), weir_url_target(url)));
        weir_url_free(again);
        weir_url_free(shown);
        if (strlen(weir_url_normal(url)) > WEIR_URL_MAX) {
                return;
        }
        again = parse_again(weir_url_normal(url));
        FUZZ_CHECK(is_same(weir_url_normal(again), weir_url_normal(url)) && weir_url_equal(again, url));
        FUZZ_CHECK(is_same(weir_url_scheme(again), weir_url_scheme(url)) && weir_url_port(again) == weir_url_port(url));
        FUZZ_CHECK(!weir_url_host(again) == !weir_url_host(url));
        weir_url_free(again);
}

/* Owner: the caller; NULL for no URL. */
static weir_url *
check_url(struct fuzz_input text)
{
        struct weir_url_problem problem = {SIZE_MAX, NULL};
        char *copy = fuzz_copy(text.at, text.size);
        struct plain_url plain;

        errno = 0;
        weir_url *url = weir_url_parse_bytes(copy ? copy : "", text.size, &problem);
        FUZZ_CHECK(!url == !read_plain(&plain, text));
        if (url) {
                FUZZ_CHECK(problem.at == SIZE_MAX && !problem.text);
                check_parts(url, &plain);
                check_texts(url);
        } else {
                FUZZ_CHECK((errno == EINVAL && problem.at <= text.size) || (errno == EMSGSIZE && problem.at == WEIR_URL_MAX));
                FUZZ_CHECK(strstr(problem.text, "expected"));
        }
        free(copy);
        return url;
}

/* -- references -- */

/* Whether a path is that one without dots, segment by segment. */
static bool
is_without_dots(const char *path, struct fuzz_input dotted)
{
        char *copy = fuzz_copy(dotted.at, dotted.size), *expected = malloc(dotted.size + 2), *end = expected;
        struct fuzz_input rest = {copy + 1, dotted.size - 1};
        bool is_last;

        do {
                is_last = rest.size == 0 || !memchr(rest.at, '/', rest.size);
                struct fuzz_input segment = fuzz_take_until(&rest, '/');
                bool is_up = fuzz_is(segment, "..");

                if (is_up) {
                        *end = '\0';
                        char *slash = strrchr(expected, '/');
                        end = slash ? slash : expected;
                }
                if (is_up || fuzz_is(segment, ".")) {
                        if (is_last) {
                                *end++ = '/';
                        }
                } else {
                        *end++ = '/';
                        end = mempcpy(end, segment.at, segment.size);
                }
        } while (!is_last);
        *end = '\0';
        bool is_right = strcmp(path, expected) == 0;
        free(copy);
        free(expected);
        return is_right;
}

static void
check_resolved(const weir_url *base, const weir_url *url, const char *reference)
{
        size_t path = strcspn(reference, "?#");
        weir_url *again = weir_url_resolve(base, weir_url_text(url), NULL);

        /* A reference without a path keeps that of the base, with its dots. */
        FUZZ_CHECK(again && (path == 0 || is_same(weir_url_text(again), weir_url_text(url))));
        weir_url_free(again);
        check_texts(url);
        if (reference[0] == '/' && reference[1] != '/' && weir_url_host(base)) {
                FUZZ_CHECK(is_without_dots(weir_url_path(url), (struct fuzz_input){reference, path}));
                FUZZ_CHECK(is_same(weir_url_host(url), weir_url_host(base)) && weir_url_port(url) == weir_url_port(base));
                FUZZ_CHECK(is_same(weir_url_userinfo(url), weir_url_userinfo(base)));
        }
        if (reference[0] == '\0') {
                FUZZ_CHECK(is_same(weir_url_path(url), weir_url_path(base)) &&
                           is_same(weir_url_query(url), weir_url_query(base)));
                FUZZ_CHECK(!weir_url_fragment(url));
        }
}

static void
check_reference(const weir_url *base, struct fuzz_input text)
{
        struct weir_url_problem problem = {SIZE_MAX, NULL};
        char *reference = fuzz_string(text);

        errno = 0;
        weir_url *url = weir_url_resolve(base, reference, &problem), *whole = weir_url_parse(reference, NULL);
        if (url) {
                check_resolved(base, url, reference);
        } else {
                FUZZ_CHECK(!whole && problem.text);
                FUZZ_CHECK(problem.at <= strlen(reference) || problem.at == WEIR_URL_MAX);
        }
        weir_url_free(whole);
        weir_url_free(url);
        free(reference);
}

/* -- building -- */

static void
check_last_segment(const weir_url *url, const char *segment)
{
        const char *last = strrchr(weir_url_path(url), '/') + 1;
        char *decoded = weir_percent_decode(last, strlen(last), NULL);

        FUZZ_CHECK(is_same(decoded, segment));
        free(decoded);
}

static void
check_last_pair(const weir_url *url, const struct weir_form_pair *pair)
{
        const char *query = weir_url_query(url), *name = NULL, *value = NULL;
        weir_form *form = weir_form_parse(query, strlen(query), SIZE_MAX);

        for (size_t i = 0; weir_form_at(form, i, &name, &value) == 0; i++) {
                ;
        }
        FUZZ_CHECK(is_same(name, pair->name) && is_same(value, pair->value));
        weir_form_free(form);
}

static void
check_extended(const weir_url *base, const char *segment, const char *name, const char *value)
{
        const char *segments[] = {"", segment, NULL};
        struct weir_form_pair pairs[] = {{name, NULL}, {name, value}, {NULL, NULL}};
        weir_url *url = weir_url_extend(base, segments, pairs, NULL);

        if (!url) {
                FUZZ_CHECK(errno == EMSGSIZE || strcmp(segment, ".") == 0 || strcmp(segment, "..") == 0);
                return;
        }
        FUZZ_CHECK(is_same(weir_url_host_field(url), weir_url_host_field(base)) && !weir_url_fragment(url));
        FUZZ_CHECK(is_same(weir_url_scheme(url), weir_url_scheme(base)));
        check_last_segment(url, segment);
        check_last_pair(url, &pairs[1]);
        check_texts(url);
        weir_url_free(url);
}

/* A host breaks out of nothing. */
static void
check_new(const char *scheme, const char *host)
{
        weir_url *url = weir_url_new(scheme, host, 8080, NULL);

        if (!url) {
                return;
        }
        bool is_bracketed = host[0] == '[';
        size_t size = strlen(host) - 2 * is_bracketed;
        FUZZ_CHECK(strcasecmp(weir_url_scheme(url), scheme) == 0 && weir_url_port(url) == 8080 &&
                   is_same(weir_url_path(url), "/"));
        FUZZ_CHECK(strlen(weir_url_host(url)) == size && strncasecmp(weir_url_host(url), host + is_bracketed, size) == 0);
        FUZZ_CHECK(!weir_url_userinfo(url) && !weir_url_query(url) && !weir_url_fragment(url));
        check_texts(url);
        weir_url_free(url);
}

/* -- percent-coding -- */

static void
check_coding(struct fuzz_input data)
{
        char *copy = fuzz_copy(data.at, data.size), *encoded = weir_percent_encode(copy, data.size), small[5];
        size_t size = SIZE_MAX, length = strlen(encoded);
        char *decoded = weir_percent_decode(encoded, length, &size);

        FUZZ_CHECK(has_only((struct fuzz_input){encoded, length}, LETTERS DIGITS "-._~", true));
        FUZZ_CHECK(size == data.size && (size == 0 || memcmp(decoded, copy, size) == 0) && decoded[size] == '\0');
        FUZZ_CHECK(weir_percent_encode_to(small, sizeof small, copy, data.size) == length);
        FUZZ_CHECK(strncmp(small, encoded, strlen(small)) == 0 && strlen(small) + 2 >= (length < 4 ? length : 4));
        FUZZ_CHECK(weir_percent_decode_to(encoded, length + 1, encoded, length) == (ssize_t)data.size);
        FUZZ_CHECK(data.size == 0 || memcmp(encoded, copy, data.size) == 0);
        free(decoded);
        free(encoded);

        decoded = weir_percent_decode(copy ? copy : "", data.size, &size);
        FUZZ_CHECK(!decoded == (weir_percent_decode_to(small, sizeof small, copy ? copy : "", data.size) < 0));
        for (size_t i = 0, at = 0; decoded && i < data.size; i++, at++) {
                int escape = fuzz_escape((struct fuzz_input){copy + i, data.size - i});

                FUZZ_CHECK(decoded[at] == (copy[i] == '%' ? (char)escape : copy[i]) && (copy[i] != '%' || escape >= 0));
                i += copy[i] == '%' ? 2 : 0;
        }
        free(decoded);
        free(copy);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        struct fuzz_input input = fuzz_input(data, size), text, reference;
        char *parts[3];

        weir_url_free(check_url(input));
        text = fuzz_take_line(&input);
        reference = fuzz_take_line(&input);
        for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
                parts[i] = fuzz_string(fuzz_take_line(&input));
        }
        weir_url *url = check_url(text);
        if (url) {
                check_reference(url, reference);
                check_reference(url, (struct fuzz_input){"", 0});
                check_extended(url, parts[0], parts[1], parts[2]);
        }
        check_new(parts[1], parts[0]);
        check_new("http", parts[0]);
        check_coding(input);
        weir_url_free(url);
        for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
                free(parts[i]);
        }
        return 0;
}
