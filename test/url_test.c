/* test/url_test.c: URLs: what they are made of, what is refused and where, and what they are built from.
 *
 * Each text is parsed from memory that ends right behind it, so that a sanitizer sees a read beyond the end. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weir/url.h>

#include "test/support.h"

/* -- an allocator that fails -- */

void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);

static _Thread_local long mallocs_left = -1; /* negative: no limit */

void *
__wrap_malloc(size_t size)
{
        if (mallocs_left == 0) {
                errno = ENOMEM;
                return NULL;
        }
        mallocs_left -= mallocs_left > 0;
        return __real_malloc(size);
}

/* -- what a URL has -- */

static weir_url *
parse_bytes(const char *text, size_t size, struct weir_url_problem *problem)
{
        char *copy = malloc(size ? size : 1);

        memcpy(copy, text, size);
        weir_url *url = weir_url_parse_bytes(copy, size, problem);
        free(copy);
        return url;
}

static const char *
shown(const char *text)
{
        return text ? text : "-";
}

/* scheme|userinfo|host|port|path|query|fragment, "-" for what is absent. */
#define READS(text, expected) CU_ASSERT_TRUE(reads((text), (expected)))
static bool
reads(const char *text, const char *expected)
{
        struct weir_url_problem problem = {77, NULL};
        weir_url *url = parse_bytes(text, strlen(text), &problem);
        char parts[500] = "";

        if (url)
                snprintf(parts, sizeof parts, "%s|%s|%s|%d|%s|%s|%s", weir_url_scheme(url), shown(weir_url_userinfo(url)),
                         shown(weir_url_host(url)), weir_url_port(url), weir_url_path(url), shown(weir_url_query(url)),
                         shown(weir_url_fragment(url)));
        bool is_right = url && strcmp(parts, expected) == 0 && problem.at == 77;
        if (!is_right)
                fprintf(stderr, "%s: %s, expected %s (%s)\n", text, parts, expected, url ? "" : problem.text);
        weir_url_free(url);
        return is_right;
}

static void
a_url_has_parts(void)
{
        READS("http://example.com", "http|-|example.com|80||-|-");
        READS("https://example.com/", "https|-|example.com|443|/|-|-");
        READS("ws://example.com:81/a?b#c", "ws|-|example.com|81|/a|b|c");
        READS("wss://example.com?#", "wss|-|example.com|443|||");
        READS("http://user:pass@host:8080/p/a/t/h?query=string#hash", "http|user:pass|host|8080|/p/a/t/h|query=string|hash");
        READS("http://h/?a?b/c", "http|-|h|80|/|a?b/c|-");
        READS("http://h#a?b/c", "http|-|h|80||-|a?b/c");
        READS("http://h//double//slash/", "http|-|h|80|//double//slash/|-|-");
        READS("http://h/..;/a;b=c,d:e@f", "http|-|h|80|/..;/a;b=c,d:e@f|-|-");
        READS("http://h/%2e%2E/%00", "http|-|h|80|/%2e%2E/%00|-|-");
        READS("http://h/!$&'()*+,;=-._~:@", "http|-|h|80|/!$&'()*+,;=-._~:@|-|-");
}

/* Source: RFC 3986 section 1.1.2. */
static void
examples_of_the_rfc_are_read(void)
{
        READS("ftp://ftp.is.co.za/rfc/rfc1808.txt", "ftp|-|ftp.is.co.za|-1|/rfc/rfc1808.txt|-|-");
        READS("http://www.ietf.org/rfc/rfc2396.txt", "http|-|www.ietf.org|80|/rfc/rfc2396.txt|-|-");
        READS("ldap://[2001:db8::7]/c=GB?objectClass?one", "ldap|-|2001:db8::7|-1|/c=GB|objectClass?one|-");
        READS("mailto:John.Doe@example.com", "mailto|-|-|-1|John.Doe@example.com|-|-");
        READS("news:comp.infosystems.www.servers.unix", "news|-|-|-1|comp.infosystems.www.servers.unix|-|-");
        READS("tel:+1-816-555-1212", "tel|-|-|-1|+1-816-555-1212|-|-");
        READS("telnet://192.0.2.16:80/", "telnet|-|192.0.2.16|80|/|-|-");
        READS("urn:oasis:names:specification:docbook:dtd:xml:4.1.2",
              "urn|-|-|-1|oasis:names:specification:docbook:dtd:xml:4.1.2|-|-");
        READS("foo://example.com:8042/over/there?name=ferret#nose", "foo|-|example.com|8042|/over/there|name=ferret|nose");
}

static void
other_schemes_follow_the_rfc_alone(void)
{
        READS("file:///etc/passwd", "file|-||-1|/etc/passwd|-|-");
        READS("s:", "s|-|-|-1||-|-");
        READS("s:?q#f", "s|-|-|-1||q|f");
        READS("s://", "s|-||-1||-|-");
        READS("s://@:/", "s|||-1|/|-|-");
        READS("a+b-c.1:x:y", "a+b-c.1|-|-|-1|x:y|-|-");
        READS("s://a%2Fb!$&'()*+,;=/", "s|-|a%2Fb!$&'()*+,;=|-1|/|-|-");
        READS("s://A%4A.B/", "s|-|a%4A.b|-1|/|-|-");
        READS("s://127.1/", "s|-|127.1|-1|/|-|-");
        READS("localhost:8080/x", "localhost|-|-|-1|8080/x|-|-");
}

static void
scheme_and_host_become_lower_case(void)
{
        weir_url *url = weir_url_parse("HTTPS://User@EXAMPLE.Com/Path?Query#Fragment", NULL);

        CU_ASSERT_STRING_EQUAL(weir_url_text(url), "https://User@example.com/Path?Query#Fragment");
        weir_url_free(url);
        READS("HTTP://[2001:DB8::A]/", "http|-|2001:db8::a|80|/|-|-");
}

static void
ports_have_their_range(void)
{
        READS("http://h:0/", "http|-|h|0|/|-|-");
        READS("http://h:65535/", "http|-|h|65535|/|-|-");
        READS("http://h:/", "http|-|h|80|/|-|-");
        READS("http://h:000000000000000000000000000443", "http|-|h|443||-|-");
        READS("s://h:/", "s|-|h|-1|/|-|-");
}

static void
addresses_are_hosts(void)
{
        READS("http://127.0.0.1:80/", "http|-|127.0.0.1|80|/|-|-");
        READS("http://255.255.255.255/", "http|-|255.255.255.255|80|/|-|-");
        READS("http://1.2.3.4.example/", "http|-|1.2.3.4.example|80|/|-|-");
        READS("http://[::1]:8080/", "http|-|::1|8080|/|-|-");
        READS("http://u@[::ffff:1.2.3.4]", "http|u|::ffff:1.2.3.4|80||-|-");
        READS("http://under_score-.example./", "http|-|under_score-.example.|80|/|-|-");
        READS("http://0x7f.example/", "http|-|0x7f.example|80|/|-|-");
        READS("http://0xyz/", "http|-|0xyz|80|/|-|-");
}

/* -- what is refused -- */

/* The place is marked in the text by '^', which stands before the byte. */
#define REFUSES(marked, word) CU_ASSERT_TRUE(refuses((marked), sizeof(marked) - 1, (word)))
static bool
refuses(const char *marked, size_t size, const char *word)
{
        const char *mark = memchr(marked, '^', size);
        size_t at = (size_t)(mark - marked);
        struct weir_url_problem problem = {77, NULL};
        char text[500];

        memcpy(text, marked, at);
        memcpy(text + at, mark + 1, size - at - 1);
        errno = 0;
        weir_url *url = parse_bytes(text, size - 1, &problem);
        bool is_right = !url && errno == EINVAL && problem.at == at && strstr(problem.text, word) &&
                        strstr(problem.text, "expected");
        if (!is_right)
                fprintf(stderr, "%s: %s at %zu: %s\n", marked, url ? "read" : "refused", problem.at, problem.text);
        weir_url_free(url);
        return is_right;
}

static void
bytes_that_no_url_has_are_refused(void)
{
        REFUSES("^ http://h/", "a space");
        REFUSES("http://h/^ ", "a space");
        REFUSES("http://h/a^ b", "a space");
        REFUSES("http://a^ b/", "a space");
        REFUSES("ht^\ntp://h/", "a control character");
        REFUSES("http://h/^\t", "a control character");
        REFUSES("http://ho^\rst/", "a control character");
        REFUSES("http://h/\?a^\r\nHost: b", "a control character");
        REFUSES("http://h/#^\x7f", "a control character");
        REFUSES("http://h^\0.example/", "a NUL");
        REFUSES("http://h/^\0", "a NUL");
        REFUSES("http://^\xc3\xa9.example/", "xn--");
        REFUSES("http://h/^\xff", "above 127");
        REFUSES("http:^\\\\h/", "a backslash");
        REFUSES("http://a^\\@b/", "a backslash");
        REFUSES("http://h/^\\..\\", "a backslash");
        REFUSES("http://h/^<script>", "no URL may have");
        REFUSES("http://h/^\"", "no URL may have");
        REFUSES("http://h/?^{", "no URL may have");
        REFUSES("http://h/?^|", "no URL may have");
        REFUSES("http://h/#^`", "no URL may have");
}

static void
invalid_escapes_are_refused(void)
{
        REFUSES("http://h/^%", "percent");
        REFUSES("http://h/^%2", "percent");
        REFUSES("http://h/^%2g", "percent");
        REFUSES("http://h/^%%20", "percent");
        REFUSES("http://h/%20^%zz", "percent");
        REFUSES("http://h/?^%u0041", "percent");
        REFUSES("http://u^%@h/", "percent");
        REFUSES("http://h/#^%-1", "percent");
}

static void
a_scheme_is_needed(void)
{
        REFUSES("^", "no scheme");
        REFUSES("^/a/b", "no scheme");
        REFUSES("^//host/", "no scheme");
        REFUSES("^example.com", "no scheme");
        REFUSES("^://h/", "no scheme");
        REFUSES("^1http://h/", "no scheme");
        REFUSES("^ht_tp://h/", "no scheme");
        REFUSES("^-h://h/", "no scheme");
        REFUSES("^a/b:c", "no scheme");
        REFUSES("^?a:b", "no scheme");
}

static void
the_schemes_of_http_need_a_host(void)
{
        REFUSES("http:^", "needs a host");
        REFUSES("http:^h", "needs a host");
        REFUSES("http:^/h", "needs a host");
        REFUSES("HTTPS:^?q", "needs a host");
        REFUSES("http://^", "an empty host");
        REFUSES("http://^/", "an empty host");
        REFUSES("http://^/h/", "an empty host");
        REFUSES("ws://^:80/", "an empty host");
        REFUSES("wss://u:p@^/", "an empty host");
        REFUSES("https://^?q", "an empty host");
        REFUSES("https://^#f", "an empty host");
}

static void
a_host_is_a_name_or_an_address(void)
{
        REFUSES("http://a^%41/", "in a host");
        REFUSES("http://a^%2fb/", "in a host");
        REFUSES("http://a^;b/", "in a host");
        REFUSES("http://a^!b/", "in a host");
        REFUSES("http://a^~/", "in a host");
        REFUSES("http://^127.1/", "four decimal numbers");
        REFUSES("http://^127.0.0.1./", "four decimal numbers");
        REFUSES("http://^2130706433/", "four decimal numbers");
        REFUSES("http://^0x7f.0.0.1/", "four decimal numbers");
        REFUSES("http://^127.0.0.0x1/", "four decimal numbers");
        REFUSES("http://^a.0X/", "four decimal numbers");
        REFUSES("http://^0x7f000001/", "four decimal numbers");
        REFUSES("http://^127.0.0.01/", "four decimal numbers");
        REFUSES("http://^127.0.0.256/", "four decimal numbers");
        REFUSES("http://^1.2.3.4.5/", "four decimal numbers");
        REFUSES("http://^a.1/", "four decimal numbers");
}

static void
an_address_in_brackets_is_ipv6(void)
{
        REFUSES("http://^[]/", "IPv6 address between brackets");
        REFUSES("http://^[::1/", "IPv6 address between brackets");
        REFUSES("http://^[1.2.3.4]/", "IPv6 address between brackets");
        REFUSES("http://^[::g]/", "IPv6 address between brackets");
        REFUSES("http://^[v1.a]/", "IPv6 address between brackets");
        REFUSES("http://^[:::1]/", "IPv6 address between brackets");
        REFUSES("http://^[[::1]]/", "IPv6 address between brackets");
        REFUSES("http://[fe80::1^%25eth0]/", "a zone");
        REFUSES("http://[::1]^x/", "behind an IPv6 address");
        REFUSES("http://[::1]^]/", "behind an IPv6 address");
        REFUSES("http://[::1]^[::2]/", "behind an IPv6 address");
        REFUSES("http://[::1]^.example/", "behind an IPv6 address");
        REFUSES("http://a^[::1]/", "in a host");
        REFUSES("s://a^[::1]/", "in a host");
        REFUSES("s://^[a]/", "IPv6 address between brackets");
}

static void
a_port_is_a_number(void)
{
        REFUSES("http://a:80^:80/", "in a port");
        REFUSES("http://a:^a/", "in a port");
        REFUSES("http://a:8^x/", "in a port");
        REFUSES("http://a:^-1/", "in a port");
        REFUSES("http://a:^+80/", "in a port");
        REFUSES("http://^::1/", "an empty host");
        REFUSES("http://a:^65536/", "0 to 65535");
        REFUSES("http://a:^18446744073709551696/", "0 to 65535");
        REFUSES("http://a:0^x50/", "in a port");
        REFUSES("http://[::1]:8^]/", "in a port");
        REFUSES("http://a:80^;b/", "in a port");
}

static void
a_userinfo_is_before_one_at(void)
{
        REFUSES("http://a@b^@c/", "a second @");
        REFUSES("http://a@b^@c:80/", "a second @");
        REFUSES("http://user^[@h/", "a bracket");
        REFUSES("s://a@b^@c/", "a second @");
        READS("http://h/a@b", "http|-|h|80|/a@b|-|-");
        READS("http://a.example:80@b.example/", "http|a.example:80|b.example|80|/|-|-");
        READS("http://a.example%2f@b.example/", "http|a.example%2f|b.example|80|/|-|-");
        READS("http://h#@evil.example/", "http|-|h|80||-|@evil.example/");
        READS("http://h?@evil.example/", "http|-|h|80||@evil.example/|-");
}

static void
delimiters_are_where_they_belong(void)
{
        REFUSES("http://h/^[a]", "a bracket");
        REFUSES("http://h/?a^[]=b", "a bracket");
        REFUSES("http://h/#^]", "a bracket");
        REFUSES("http://h/#a^#b", "a second number sign");
}

static void
a_url_has_a_bound(void)
{
        char *text = malloc(WEIR_URL_MAX + 2);
        struct weir_url_problem problem = {0, NULL};

        memset(text, 'a', WEIR_URL_MAX + 1);
        memcpy(text, "http://h/", 9);
        text[WEIR_URL_MAX + 1] = '\0';
        CU_ASSERT_PTR_NULL(weir_url_parse(text, &problem));
        CU_ASSERT(errno == EMSGSIZE && problem.at == WEIR_URL_MAX && strstr(problem.text, "expected at most 65535 bytes"));
        CU_ASSERT_PTR_NULL(weir_url_parse(text, NULL));
        text[WEIR_URL_MAX] = '\0';
        weir_url *url = weir_url_parse(text, NULL);
        CU_ASSERT_STRING_EQUAL(weir_url_text(url), text);
        problem.at = 0;
        CU_ASSERT_PTR_NULL(weir_url_extend(url, (const char *[]){"b", NULL}, NULL, &problem));
        CU_ASSERT(errno == EMSGSIZE && problem.at == WEIR_URL_MAX);
        weir_url *base = weir_url_parse("http://host.example", NULL);
        problem.at = 0;
        CU_ASSERT_PTR_NULL(weir_url_resolve(base, text + strlen("http://h"), &problem));
        CU_ASSERT(errno == EMSGSIZE && problem.at == WEIR_URL_MAX);
        CU_ASSERT_PTR_NULL(weir_url_extend(base, (const char *[]){text, NULL}, NULL, &problem));
        CU_ASSERT_PTR_NULL(weir_url_extend(base, NULL, (struct weir_form_pair[]){{"a", text}, {NULL, NULL}}, &problem));
        memset(text, 'a', strlen("http://h/"));
        CU_ASSERT(!weir_url_new("http", text + strlen("http://"), 0, &problem) && errno == EMSGSIZE);
        CU_ASSERT(!weir_url_new("http", text, 0, &problem) && errno == EMSGSIZE);
        CU_ASSERT(!weir_url_new(text, "h", 0, &problem) && errno == EMSGSIZE);
        weir_url_free(base);
        weir_url_free(url);
        free(text);
}

static void
null_is_no_url(void)
{
        struct weir_url_problem problem = {7, NULL};
        weir_url *base = weir_url_parse("http://h/", NULL);

        CU_ASSERT(!weir_url_parse(NULL, &problem) && errno == EINVAL && problem.at == 0 && problem.text);
        CU_ASSERT(!weir_url_parse(NULL, NULL));
        CU_ASSERT(!weir_url_parse("http:", NULL) && errno == EINVAL);
        CU_ASSERT(!weir_url_resolve(NULL, "a", &problem) && errno == EINVAL && strstr(problem.text, "no base"));
        CU_ASSERT(!weir_url_resolve(base, NULL, &problem) && errno == EINVAL && strstr(problem.text, "reference"));
        CU_ASSERT(!weir_url_extend(NULL, NULL, NULL, &problem) && errno == EINVAL && strstr(problem.text, "no base"));
        CU_ASSERT(!weir_url_new(NULL, "h", 0, &problem) && strstr(problem.text, "no scheme"));
        CU_ASSERT(!weir_url_new("s", NULL, 0, &problem) && strstr(problem.text, "no host"));
        CU_ASSERT(!weir_url_text(NULL) && !weir_url_host(NULL) && !weir_url_address(NULL) && weir_url_port(NULL) == -1);
        CU_ASSERT(!weir_url_equal(NULL, NULL) && !weir_url_equal(base, NULL));
        weir_url_free(NULL);
        weir_url_free(base);
}

/* -- for requests and messages -- */

#define HAS(text, getter, expected) CU_ASSERT_TRUE(has((text), weir_url_##getter, (expected)))
static bool
has(const char *text, const char *(*getter)(const weir_url *url), const char *expected)
{
        weir_url *url = parse_bytes(text, strlen(text), NULL);
        bool is_right = url && strcmp(shown(getter(url)), expected) == 0;

        if (!is_right)
                fprintf(stderr, "%s: %s, expected %s\n", text, shown(getter(url)), expected);
        weir_url_free(url);
        return is_right;
}

static void
a_message_never_shows_the_userinfo(void)
{
        HAS("http://user:secret@h:80/p?q#f", redacted, "http://h:80/p?q#f");
        HAS("http://@h", redacted, "http://h");
        HAS("http://h/a@b", redacted, "http://h/a@b");
        HAS("s://u@", redacted, "s://");
}

static void
a_request_has_target_and_host(void)
{
        HAS("http://h", target, "/");
        HAS("http://h?", target, "/?");
        HAS("http://h?a=b#c", target, "/?a=b");
        HAS("http://u:p@h/a/b?c/d#e", target, "/a/b?c/d");
        HAS("http://h//a", target, "//a");
        HAS("mailto:a@b", target, "-");
        HAS("http://u:p@Host/", host_field, "host");
        HAS("http://h:80/", host_field, "h");
        HAS("http://h:0080/", host_field, "h");
        HAS("http://h:/", host_field, "h");
        HAS("http://h:443/", host_field, "h:443");
        HAS("https://h:443/", host_field, "h");
        HAS("http://[::1]:8080/", host_field, "[::1]:8080");
        HAS("http://[::1]/", host_field, "[::1]");
        HAS("s://h:0/", host_field, "h:0");
        HAS("s://h/", host_field, "h");
        HAS("s:h", host_field, "-");
        HAS("http://u@h/", address, "h:80");
        HAS("wss://[::1]/", address, "[::1]:443");
        HAS("s://h:7/", address, "h:7");
        HAS("s://h/", address, "-");
        HAS("file:///a", address, "-");
        HAS("s://:7/", address, "-");
}

/* -- building -- */

static bool
makes(weir_url *url, const char *expected)
{
        bool is_right = url && strcmp(weir_url_text(url), expected) == 0;

        if (!is_right)
                fprintf(stderr, "%s, expected %s\n", shown(weir_url_text(url)), expected);
        weir_url_free(url);
        return is_right;
}

static void
a_url_is_made_of_scheme_host_and_port(void)
{
        CU_ASSERT(makes(weir_url_new("https", "Example.com", 0, NULL), "https://example.com/"));
        CU_ASSERT(makes(weir_url_new("HTTP", "127.0.0.1", 65535, NULL), "http://127.0.0.1:65535/"));
        CU_ASSERT(makes(weir_url_new("http", "::1", 80, NULL), "http://[::1]:80/"));
        CU_ASSERT(makes(weir_url_new("http", "[::1]", 0, NULL), "http://[::1]/"));
        CU_ASSERT(makes(weir_url_new("s", "", 0, NULL), "s:///"));
}

#define NEW_REFUSES(scheme, host, port, place, word) CU_ASSERT_TRUE(new_refuses((scheme), (host), (port), (place), (word)))
static bool
new_refuses(const char *scheme, const char *host, int port, size_t place, const char *word)
{
        struct weir_url_problem problem = {77, NULL};
        weir_url *url = weir_url_new(scheme, host, port, &problem);
        bool is_right = !url && errno == EINVAL && problem.at == place && strstr(problem.text, word);

        if (!is_right)
                fprintf(stderr, "%s %s: %s at %zu\n", scheme, host, problem.text, problem.at);
        weir_url_free(url);
        return is_right;
}

static void
parts_cannot_break_out(void)
{
        NEW_REFUSES("http://a?", "h", 0, 4, "in a scheme");
        NEW_REFUSES("", "h", 0, 0, "in a scheme");
        NEW_REFUSES("1a", "h", 0, 0, "in a scheme");
        NEW_REFUSES("http", "", 0, 0, "an empty host");
        NEW_REFUSES("http", "a/b", 0, 1, "in a host");
        NEW_REFUSES("http", "a@b", 0, 1, "@");
        NEW_REFUSES("http", "a?b", 0, 1, "in a host");
        NEW_REFUSES("http", "a#b", 0, 1, "in a host");
        NEW_REFUSES("http", "a b", 0, 1, "a space");
        NEW_REFUSES("http", "a:80", 0, 0, "IPv6");
        NEW_REFUSES("http", "::1%eth0", 0, 3, "a zone");
        NEW_REFUSES("http", "::1]:80", 0, 4, "behind an IPv6 address");
        NEW_REFUSES("s", "a/b", 0, 1, "in a host");
        NEW_REFUSES("s", "a%b", 0, 1, "percent");
        NEW_REFUSES("s", "a\r\n", 0, 1, "a control character");
        NEW_REFUSES("http", "h", 65536, 0, "a port");
        NEW_REFUSES("http", "h", -1, 0, "a port");
        CU_ASSERT_PTR_NULL(weir_url_new("http", "a b", 0, NULL));
}

static const struct weir_form_pair no_pairs[] = {{NULL, NULL}};

#define EXTENDS(base, expected, pairs, ...) CU_ASSERT_TRUE(extends((base), (expected), (pairs), (const char *[]){__VA_ARGS__}))
static bool
extends(const char *base, const char *expected, const struct weir_form_pair *pairs, const char *const *segments)
{
        weir_url *url = weir_url_parse(base, NULL);
        weir_url *longer = weir_url_extend(url, segments, pairs, NULL);

        weir_url_free(url);
        return makes(longer, expected);
}

static void
segments_and_pairs_are_encoded(void)
{
        static const struct weir_form_pair pairs[] = {{"q", "1 + 1"}, {"a&b", "c=d#"}, {"flag", NULL}, {"", ""}, {NULL, NULL}};
        static const struct weir_form_pair nasty[] = {{"a", "\r\nHost: b"}, {NULL, NULL}};

        EXTENDS("http://h", "http://h/a", NULL, "a", NULL);
        EXTENDS("http://h/", "http://h/a", NULL, "a", NULL);
        EXTENDS("http://h/v1", "http://h/v1/a/b", NULL, "a", "b", NULL);
        EXTENDS("http://h/v1/", "http://h/v1/a/b", NULL, "a", "b", NULL);
        EXTENDS("http://h/v1", "http://h/v1/a/", NULL, "a", "", NULL);
        EXTENDS("http://h/v1/", "http://h/v1/", NULL, "", NULL);
        EXTENDS("http://h/v1", "http://h/v1//a", NULL, "", "a", NULL);
        EXTENDS("http://h/v1/#f", "http://h/v1/", NULL, NULL);
        EXTENDS("http://h/v1", "http://h/v1/a%2Fb%3Fc%23d%25%20%3B%3D%2B%C3%A9-._~", NULL, "a/b?c#d% ;=+\xc3\xa9-._~", NULL);
        EXTENDS("http://h/v1", "http://h/v1/%252e", NULL, "%2e", NULL);
        EXTENDS("http://h/v1", "http://h/v1/...", NULL, "...", NULL);
        EXTENDS("http://h", "http://h?q=1+%2B+1&a%26b=c%3Dd%23&flag&=", pairs, NULL);
        EXTENDS("http://h/?", "http://h/?q=1+%2B+1&a%26b=c%3Dd%23&flag&=", pairs, NULL);
        EXTENDS("http://h/?k=v", "http://h/?k=v&q=1+%2B+1&a%26b=c%3Dd%23&flag&=", pairs, NULL);
        EXTENDS("http://h/?k=v", "http://h/a?k=v", no_pairs, "a", NULL);
        EXTENDS("http://u:p@h:81/", "http://u:p@h:81/?a=%0D%0AHost%3A+b", nasty, NULL);
        EXTENDS("urn:a", "urn:a/b", NULL, "b", NULL);
        EXTENDS("s:", "s:/.//b", NULL, "", "b", NULL);
}

static void
a_segment_of_dots_is_refused(void)
{
        weir_url *base = weir_url_parse("http://h/private", NULL);
        struct weir_url_problem problem = {77, NULL};

        CU_ASSERT_PTR_NULL(weir_url_extend(base, (const char *[]){"a", "..", NULL}, NULL, &problem));
        CU_ASSERT(errno == EINVAL && problem.at == 1 && strstr(problem.text, "a segment of dots"));
        CU_ASSERT_PTR_NULL(weir_url_extend(base, (const char *[]){".", NULL}, NULL, &problem));
        CU_ASSERT(problem.at == 0);
        weir_url_free(base);
}

/* -- percent-coding and forms -- */

static void
any_bytes_are_encoded_and_decoded(void)
{
        char all[256], text[4];
        size_t size = 0;

        for (int i = 0; i < 256; i++)
                all[i] = (char)i;
        char *encoded = weir_percent_encode(all, sizeof all);
        CU_ASSERT(strlen(encoded) == 66 + 3 * 190 && strstr(encoded, "%00%01%02") && strstr(encoded, "%2C-.%2F0123456789%3A"));
        CU_ASSERT(strstr(encoded, "XYZ%5B%5C%5D%5E_%60abc") && strstr(encoded, "z%7B%7C%7D~%7F%80") && strstr(encoded, "%FE%FF"));
        char *decoded = weir_percent_decode(encoded, strlen(encoded), &size);
        CU_ASSERT(size == sizeof all && memcmp(decoded, all, sizeof all) == 0 && decoded[size] == '\0');
        free(decoded);
        CU_ASSERT(weir_percent_decode_to(encoded, strlen(encoded) + 1, encoded, strlen(encoded)) == 256);
        CU_ASSERT(memcmp(encoded, all, sizeof all) == 0);
        free(encoded);
        CU_ASSERT(weir_percent_encode_to(text, sizeof text, "a b", 3) == 5 && strcmp(text, "a") == 0);
        CU_ASSERT(weir_percent_encode_to(text, sizeof text, " a", 2) == 4 && strcmp(text, "%20") == 0);
        CU_ASSERT(weir_percent_encode_to(text, sizeof text, "abc", 3) == 3 && strcmp(text, "abc") == 0);
        CU_ASSERT(weir_percent_encode_to(text, 1, "abc", 3) == 3 && text[0] == '\0');
        CU_ASSERT(weir_percent_encode_to(NULL, 0, "a b", 3) == 5);
        CU_ASSERT(weir_percent_encode_to(text, sizeof text, NULL, 0) == 0 && text[0] == '\0');
}

static void
an_invalid_escape_is_not_decoded(void)
{
        char text[4] = "xyz";
        size_t size = 77;

        errno = 0;
        CU_ASSERT(!weir_percent_decode("a%2", 3, &size) && errno == EINVAL && size == 77);
        CU_ASSERT(!weir_percent_decode("%gg", 3, &size) && !weir_percent_decode("%", 1, NULL));
        CU_ASSERT(weir_percent_decode_to(text, sizeof text, "a%", 2) == -EINVAL && strcmp(text, "xyz") == 0);
        CU_ASSERT(weir_percent_decode_to(text, sizeof text, "a+%2bcde", 8) == 6 && strcmp(text, "a++") == 0);
        CU_ASSERT(weir_percent_decode_to(NULL, 0, "a%20", 4) == 2);
        errno = 0;
        CU_ASSERT(!weir_percent_decode("a%00", 4, NULL) && errno == EINVAL);
        char *decoded = weir_percent_decode("a%20b", 5, NULL);
        CU_ASSERT_STRING_EQUAL(decoded, "a b");
        free(decoded);
}

static void
a_form_is_written_and_read(void)
{
        static const struct weir_form_pair pairs[] = {
                {"a b", "c+d&e=f%"}, {"*-._~", "\xc3\xa9"}, {"x", NULL}, {"x", "2"}, {NULL, NULL}};
        const char *name = NULL, *value = NULL;
        char *text = weir_form_encode(pairs);

        CU_ASSERT_STRING_EQUAL(text, "a+b=c%2Bd%26e%3Df%25&*-._%7E=%C3%A9&x&x=2");
        weir_form *form = weir_form_parse(text, strlen(text), SIZE_MAX);
        free(text);
        CU_ASSERT_STRING_EQUAL(weir_form_value(form, "a b"), "c+d&e=f%");
        CU_ASSERT_STRING_EQUAL(weir_form_value(form, "x"), "");
        CU_ASSERT(!weir_form_value(form, "y") && !weir_form_value(form, NULL) && !weir_form_value(NULL, "x"));
        CU_ASSERT(weir_form_at(form, 3, &name, &value) == 0 && strcmp(name, "x") == 0 && strcmp(value, "2") == 0);
        CU_ASSERT(weir_form_at(form, 4, &name, &value) == -ENOENT && weir_form_at(NULL, 0, NULL, NULL) == -ENOENT);
        weir_form_free(form);
        form = weir_form_parse("a=1&b=2", 7, 1);
        CU_ASSERT(weir_form_at(form, 0, NULL, NULL) == 0 && weir_form_at(form, 1, NULL, NULL) == -E2BIG);
        weir_form_free(form);
        form = weir_form_parse(NULL, 0, 10);
        CU_ASSERT(weir_form_at(form, 0, NULL, NULL) == -ENOENT);
        weir_form_free(form);
        weir_form_free(NULL);
        text = weir_form_encode(no_pairs);
        CU_ASSERT_STRING_EQUAL(text, "");
        free(text);
}

/* -- memory -- */

/* Frees what is not NULL, and says whether it is there; each attempt has memory for one block more. */
#define FAILS_WITHOUT_MEMORY(type, call, drop, blocks)            \
        do {                                                      \
                for (long count = 0; count < (blocks); count++) { \
                        mallocs_left = count;                     \
                        errno = 0;                                \
                        type *made = (call);                      \
                        mallocs_left = -1;                        \
                        CU_ASSERT(!made && errno == ENOMEM);      \
                        drop(made);                               \
                }                                                 \
                mallocs_left = (blocks);                          \
                type *made = (call);                              \
                mallocs_left = -1;                                \
                CU_ASSERT_PTR_NOT_NULL(made);                     \
                drop(made);                                       \
        } while (0)

static void
each_allocation_may_fail(void)
{
        struct weir_url_problem problem = {77, NULL};
        weir_url *base = weir_url_parse("http://h/a", NULL);
        const char *segments[] = {"a", NULL};
        size_t size;

        FAILS_WITHOUT_MEMORY(weir_url, weir_url_parse("http://u@h/", &problem), weir_url_free, 1);
        CU_ASSERT(problem.at == 0 && strcmp(problem.text, "out of memory") == 0);
        FAILS_WITHOUT_MEMORY(weir_url, weir_url_parse("http://u@h/", NULL), weir_url_free, 1);
        FAILS_WITHOUT_MEMORY(weir_url, weir_url_resolve(base, "../b", &problem), weir_url_free, 2);
        FAILS_WITHOUT_MEMORY(weir_url, weir_url_new("http", "::1", 80, &problem), weir_url_free, 2);
        FAILS_WITHOUT_MEMORY(weir_url, weir_url_extend(base, segments, no_pairs, &problem), weir_url_free, 2);
        FAILS_WITHOUT_MEMORY(char, weir_percent_encode("a b", 3), free, 1);
        FAILS_WITHOUT_MEMORY(char, weir_percent_decode("a%20b", 5, &size), free, 1);
        FAILS_WITHOUT_MEMORY(char, weir_form_encode(no_pairs), free, 1);
        FAILS_WITHOUT_MEMORY(weir_form, weir_form_parse("a=b", 3, 10), weir_form_free, 1);
        weir_url_free(base);
}

static const struct weir_test tests[] = {
        WEIR_TEST(a_url_has_parts),
        WEIR_TEST(examples_of_the_rfc_are_read),
        WEIR_TEST(other_schemes_follow_the_rfc_alone),
        WEIR_TEST(scheme_and_host_become_lower_case),
        WEIR_TEST(ports_have_their_range),
        WEIR_TEST(addresses_are_hosts),
        WEIR_TEST(bytes_that_no_url_has_are_refused),
        WEIR_TEST(invalid_escapes_are_refused),
        WEIR_TEST(a_scheme_is_needed),
        WEIR_TEST(the_schemes_of_http_need_a_host),
        WEIR_TEST(a_host_is_a_name_or_an_address),
        WEIR_TEST(an_address_in_brackets_is_ipv6),
        WEIR_TEST(a_port_is_a_number),
        WEIR_TEST(a_userinfo_is_before_one_at),
        WEIR_TEST(delimiters_are_where_they_belong),
        WEIR_TEST(a_url_has_a_bound),
        WEIR_TEST(null_is_no_url),
        WEIR_TEST(a_message_never_shows_the_userinfo),
        WEIR_TEST(a_request_has_target_and_host),
        WEIR_TEST(a_url_is_made_of_scheme_host_and_port),
        WEIR_TEST(parts_cannot_break_out),
        WEIR_TEST(segments_and_pairs_are_encoded),
        WEIR_TEST(a_segment_of_dots_is_refused),
        WEIR_TEST(any_bytes_are_encoded_and_decoded),
        WEIR_TEST(an_invalid_escape_is_not_decoded),
        WEIR_TEST(a_form_is_written_and_read),
        WEIR_TEST(each_allocation_may_fail),
};

int
main(void)
{
        return weir_test_main("url", tests, sizeof tests / sizeof *tests);
}
