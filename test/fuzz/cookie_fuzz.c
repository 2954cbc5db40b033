/* test/fuzz/cookie_fuzz.c: cookies, as they come and as they are set.
 *
 * The first byte of an input chooses.  An even one: how many cookies are wanted; each further line is the value of a field, and
 * what is read from them is what a second reader finds.  An odd one: flags of a cookie, then lines with its name, value, path,
 * domain and age.  What must hold then:
 *
 * - It is written or refused as the grammar says.
 * - What is written is read by a strict reader, and says exactly what was asked for: each attribute once, and not one more.
 * - It comes back in a Cookie field as itself. */
#include <errno.h>

#include "protocol/field/cookie.h"
#include "test/fuzz/fuzz.h"

#define FIELDS 8

/* -- as they come -- */

/* The cookie that a part is.  Returns false when it is none. */
static bool
read_part(struct fuzz_input part, struct fuzz_input *name, struct fuzz_input *value)
{
        if (part.size == 0 || !memchr(part.at, '=', part.size)) {
                return false;
        }
        *name = fuzz_trim(fuzz_take_until(&part, '='));
        *value = fuzz_trim(part);
        if (value->size >= 2 && value->at[0] == '"' && value->at[value->size - 1] == '"') {
                value->at++;
                value->size -= 2;
        }
        return name->size > 0;
}

static void
check_cookies(const struct weir__pairs *pairs, const struct weir__request *request, size_t max)
{
        struct fuzz_input name, value;
        size_t count = 0;

        for (uint32_t i = 0; i < request->field_count; i++) {
                struct fuzz_input line = {request->fields[i].value, strlen(request->fields[i].value)};

                while (strcasecmp(request->fields[i].name, "cookie") == 0 && line.size > 0) {
                        if (read_part(fuzz_take_until(&line, ';'), &name, &value) && count++ < max) {
                                FUZZ_CHECK(count <= pairs->count && fuzz_is(name, pairs->pairs[count - 1].name));
                                FUZZ_CHECK(fuzz_is(value, pairs->pairs[count - 1].value));
                        }
                }
        }
        FUZZ_CHECK(pairs->count == (count < max ? count : max) && pairs->has_more == (count > max));
}

/* Lines that begin with a colon are fields of another name. */
static void
come(struct fuzz_input input, size_t max)
{
        struct weir__field fields[FIELDS];
        struct weir__request request = {.fields = fields};
        struct weir__pairs *pairs;

        while (input.size > 0 && request.field_count < FIELDS) {
                struct fuzz_input line = fuzz_take_line(&input);
                bool other = line.size > 0 && *line.at == ':';

                fields[request.field_count++] = (struct weir__field){.name = other           ? "Cookies"
                                                                                     : line.size % 2 ? "Cookie"
                                                                                                     : "cookie",
                                                                             .value = fuzz_string(line)};
        }
        FUZZ_CHECK(weir__cookies_parse(&request, max, &pairs) == 0);
        check_cookies(pairs, &request, max);
        free(pairs);
        while (request.field_count > 0) {
                free((char *)fields[--request.field_count].value);
        }
}

/* -- as they are set -- */

static bool
is_visible_but(const char *text, const char *but)
{
        for (; *text; text++) {
                if (*text < '!' || *text > '~' || strchr(but, *text)) {
                        return false;
                }
        }
        return true;
}

static bool
is_domain(const char *domain)
{
        struct fuzz_input rest = {domain, strlen(domain)};
        bool more = true;

        if (rest.size > 253) {
                return false;
        }
        while (more) {
                more = memchr(rest.at, '.', rest.size) != NULL;
                struct fuzz_input label = fuzz_take_until(&rest, '.');

                if (label.size == 0 || label.size > 63 || label.at[0] == '-' || label.at[label.size - 1] == '-') {
                        return false;
                }
                for (size_t i = 0; i < label.size; i++) {
                        if (label.at[i] != '-' && (!fuzz_is_token_byte(label.at[i]) || strchr("!#$%&'*+.^_`|~", label.at[i]))) {
                                return false;
                        }
                }
        }
        return true;
}

/* The expected result of the library. */
static int
judge(const struct weir_http_cookie *cookie)
{
        const char *value = cookie->value ? cookie->value : "", *path = cookie->path ? cookie->path : "/";
        const char *domain = cookie->domain ? cookie->domain : "", *name = cookie->name ? cookie->name : "";
        bool is_host = strncasecmp(name, "__Host-", 7) == 0, is_secure = is_host || strncasecmp(name, "__Secure-", 9) == 0;

        if (!fuzz_is_token((struct fuzz_input){name, strlen(name)}) || !is_visible_but(value, "\",;\\") ||
            !is_visible_but(path, ";") || (*path && *path != '/') || (*domain && !is_domain(domain)) ||
            (unsigned)cookie->same_site > 3) {
                return -EINVAL;
        }
        if (((is_secure || cookie->same_site == WEIR_HTTP_SAME_SITE_NONE) && !cookie->secure) ||
            (is_host && (*domain || strcmp(path, "/") != 0))) {
                return -EINVAL;
        }
        return strlen(name) + strlen(value) > 4096 || strlen(path) > 1024 ? -E2BIG : 0;
}

/* Takes the text off the beginning when it is there. */
static bool
take(const char **rest, const char *text)
{
        size_t size = strlen(text);

        if (strncmp(*rest, text, size) != 0) {
                return false;
        }
        *rest += size;
        return true;
}

/* Takes an attribute with its value, up to the next one. */
static void
take_value(const char **rest, const char *name, const char *value)
{
        if (value && *value) {
                FUZZ_CHECK(take(rest, name) && take(rest, value));
        }
        FUZZ_CHECK(!**rest || strncmp(*rest, "; ", 2) == 0);
        FUZZ_CHECK(strncmp(*rest, name, strlen(name)) != 0);
}

static void
take_age(const char **rest, weir_nsec age)
{
        char text[64];
        /* Never less than was asked for, and less than a second more. */
        int64_t seconds = age / 1000000000 + (age % 1000000000 > 0);

        snprintf(text, sizeof text, "%lld", (long long)seconds);
        take_value(rest, "; Max-Age=", age > 0 ? text : NULL);
        take_value(rest, "; Expires=", age < 0 ? "Thu, 01 Jan 1970 00:00:00 GMT" : NULL);
}

/* No byte may end the field, and no part may be there that nobody asked for: these are all parts, in this order. */
static void
check_text(const struct weir_http_cookie *cookie, const char *text)
{
        static const char *const same_site[] = {"Lax", "Strict", "None", NULL};
        const char *rest = text;

        for (const char *at = text; *at; at++) {
                FUZZ_CHECK(*at >= ' ' && *at <= '~');
        }
        FUZZ_CHECK(take(&rest, cookie->name) && take(&rest, "=") && take(&rest, cookie->value ? cookie->value : ""));
        take_value(&rest, "; Path=", cookie->path ? cookie->path : "/");
        take_value(&rest, "; Domain=", cookie->domain);
        take_age(&rest, cookie->max_age);
        take_value(&rest, "; SameSite=", same_site[cookie->same_site]);
        FUZZ_CHECK(take(&rest, "; Secure") == (cookie->secure != 0));
        FUZZ_CHECK(take(&rest, "; HttpOnly") == (cookie->http_only != 0));
        FUZZ_CHECK(*rest == '\0');
        /* A reader that divides at semicolons sees the same parts. */
        size_t parts = 0, expected = (!cookie->path || *cookie->path) + (cookie->domain && *cookie->domain) +
                                     (cookie->max_age != 0) + (same_site[cookie->same_site] != NULL) + !!cookie->secure +
                                     !!cookie->http_only;
        for (const char *at = text; (at = strchr(at, ';')); at++) {
                parts++;
        }
        FUZZ_CHECK(parts == expected);
}

static void
check_return(const struct weir_http_cookie *cookie, const char *text)
{
        char *value = fuzz_string((struct fuzz_input){text, strcspn(text, ";")});
        struct weir__field field = {.name = "Cookie", .value = value};
        struct weir__request request = {.fields = &field, .field_count = 1};
        struct weir__pairs *pairs;

        FUZZ_CHECK(weir__cookies_parse(&request, 2, &pairs) == 0);
        FUZZ_CHECK(pairs->count == 1 && !pairs->has_more && strcmp(pairs->pairs[0].name, cookie->name) == 0);
        FUZZ_CHECK(strcmp(pairs->pairs[0].value, cookie->value ? cookie->value : "") == 0);
        free(pairs);
        free(value);
}

/* A line; NULL for one that is "-". */
static char *
take_string(struct fuzz_input *input)
{
        struct fuzz_input line = fuzz_take_line(input);

        return fuzz_is(line, "-") ? NULL : fuzz_string(line);
}

static void
set(struct fuzz_input input, unsigned flags)
{
        struct weir_http_cookie cookie = WEIR_HTTP_COOKIE_DEFAULT;
        char *out = malloc(WEIR__COOKIE_ROOM), *age;
        int r;

        cookie.secure = flags & 2;
        cookie.http_only = flags & 4;
        cookie.same_site = (enum weir_http_same_site)((flags >> 3) % 8 > 4 ? 0 : (flags >> 3) % 8);
        fuzz_take_line(&input);
        cookie.name = take_string(&input);
        cookie.value = take_string(&input);
        cookie.path = take_string(&input);
        cookie.domain = take_string(&input);
        age = fuzz_string(fuzz_take_line(&input));
        cookie.max_age = strtoll(age, NULL, 10);
        r = weir__cookie_write(&cookie, out);
        FUZZ_CHECK(r == judge(&cookie));
        if (r == 0) {
                check_text(&cookie, out);
                check_return(&cookie, out);
        }
        free((char *)cookie.name);
        free((char *)cookie.value);
        free((char *)cookie.path);
        free((char *)cookie.domain);
        free(age);
        free(out);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        struct fuzz_input input = fuzz_input(data, size);
        unsigned char first = fuzz_take_byte(&input);

        if (first % 2 == 0) {
                come(input, first / 2 % 8 == 7 ? SIZE_MAX : first / 2 % 8);
        } else {
                set(input, first);
        }
        return 0;
}
