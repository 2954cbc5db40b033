/* test/fuzz/cookie_jar_fuzz.c: jars of cookies; beside a list that is searched from one end to the other.
 *
 * The lines of an input are URLs and values of Set-Cookie, by turns, and a last one is a URL.  If the first byte is a tab, the
 * input is a file of cookies instead.  What must hold:
 *
 * - A cookie is taken or refused as the second reader does.
 * - Each URL gets the cookies that the list has for it, in that order.
 * - What is read from a file is what a server could have set, and none of it is longer than a cookie may be. */
#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#include <weir/cookie_jar.h>

#include "client/cookies/suffix.h"
#include "kernel/base/clock.h"
#include "protocol/text/cookie_date.h"
#include "test/fuzz/fuzz.h"

#define MOST 20 /* cookies, so that none has to go */

struct plain {
        struct fuzz_input name, value, path;
        char *domain;
        int64_t expires;
        bool is_secure, is_below; /* is_below: also for names below the domain */
        int age;
};

static struct plain list[MOST];
static int count, ages;

/* -- the second reader -- */

static bool
has_bytes_below(struct fuzz_input text, unsigned char limit, char but)
{
        for (size_t i = 0; i < text.size; i++) {
                if (((unsigned char)text.at[i] < limit && text.at[i] != but) || text.at[i] == 0x7f) {
                        return true;
                }
        }
        return false;
}

static char *
lower_copy(struct fuzz_input text)
{
        char *copy = malloc(text.size + 1);

        for (size_t i = 0; i < text.size; i++) {
                copy[i] = (char)(text.at[i] >= 'A' && text.at[i] <= 'Z' ? text.at[i] + 'a' - 'A' : text.at[i]);
        }
        copy[text.size] = '\0';
        return copy;
}

static bool
is_below(const char *host, const char *domain)
{
        size_t host_size = strlen(host), size = strlen(domain);
        const char *label = strrchr(host, '.') ? strrchr(host, '.') + 1 : host;
        bool is_address = strchr(host, ':') || (*label && strspn(label, "0123456789") == strlen(label));

        if (strcmp(host, domain) == 0) {
                return true;
        }
        return size > 0 && !is_address && host_size > size && host[host_size - size - 1] == '.' &&
               strcmp(host + host_size - size, domain) == 0;
}

static bool
is_path_below(struct fuzz_input path, struct fuzz_input above)
{
        if (path.size < above.size || memcmp(path.at, above.at, above.size) != 0) {
                return false;
        }
        return path.size == above.size || above.at[above.size - 1] == '/' || path.at[above.size] == '/';
}

static bool
is_same(struct fuzz_input one, struct fuzz_input other)
{
        return one.size == other.size && (one.size == 0 || memcmp(one.at, other.at, one.size) == 0);
}

struct attributes {
        struct fuzz_input domain, path;
        int64_t age, end;
        bool has_age, has_end, is_secure;
};

static void
read_age(struct attributes *attributes, struct fuzz_input value)
{
        bool is_negative = value.size > 0 && *value.at == '-';
        int64_t age = 0;

        value.at += is_negative;
        value.size -= is_negative;
        for (size_t i = 0; i < value.size; i++) {
                if (value.at[i] < '0' || value.at[i] > '9') {
                        return;
                }
                age = age > 1000000000 ? age : age * 10 + value.at[i] - '0';
        }
        if (value.size > 0) {
                attributes->has_age = true;
                attributes->age = is_negative ? 0 : age;
        }
}

static struct attributes
read_attributes(struct fuzz_input rest)
{
        struct attributes attributes = {.has_age = false};

        while (rest.size > 0) {
                struct fuzz_input value = fuzz_take_until(&rest, ';'), name = fuzz_trim(fuzz_take_until(&value, '='));

                value = fuzz_trim(value);
                if (value.size > 1024) {
                        continue;
                }
                if (fuzz_is_in_any_case(name, "domain")) {
                        attributes.domain = value;
                } else if (fuzz_is_in_any_case(name, "path")) {
                        attributes.path = value;
                } else if (fuzz_is_in_any_case(name, "secure")) {
                        attributes.is_secure = true;
                } else if (fuzz_is_in_any_case(name, "max-age")) {
                        read_age(&attributes, value);
                } else if (fuzz_is_in_any_case(name, "expires")) {
                        attributes.has_end |= weir__cookie_date_read(value.at, value.size, &attributes.end);
                }
        }
        if (attributes.path.size > 0 && *attributes.path.at != '/') {
                attributes.path.size = 0;
        }
        if (attributes.domain.size > 0 && *attributes.domain.at == '.') {
                attributes.domain.at++;
                attributes.domain.size--;
        }
        return attributes;
}

static bool
begins(struct fuzz_input text, const char *lower)
{
        size_t size = strlen(lower);

        return text.size >= size && fuzz_is_in_any_case((struct fuzz_input){text.at, size}, lower);
}

static void
forget(int at)
{
        free(list[at].domain);
        memmove(&list[at], &list[at + 1], (size_t)(--count - at) * sizeof *list);
}

/* Puts it in the list, in the place of another one.  Result: 0; -EPERM: a secure one is there. */
static int
put(struct plain cookie, bool is_tls, int64_t now)
{
        for (int i = 0; !is_tls && i < count; i++) {
                struct plain *other = &list[i];

                if (other->is_secure && is_same(other->name, cookie.name) && is_path_below(cookie.path, other->path) &&
                    (strcmp(cookie.domain, other->domain) == 0 || (other->is_below && is_below(cookie.domain, other->domain)) ||
                     (cookie.is_below && is_below(other->domain, cookie.domain)))) {
                        return -EPERM;
                }
        }
        for (int i = 0; i < count; i++) {
                if (is_same(list[i].name, cookie.name) && is_same(list[i].path, cookie.path) &&
                    strcmp(list[i].domain, cookie.domain) == 0 && list[i].is_below == cookie.is_below) {
                        cookie.age = list[i].age;
                        forget(i--);
                }
        }
        if (cookie.expires > now) {
                cookie.domain = strdup(cookie.domain);
                list[count++] = cookie;
        }
        return 0;
}

static int
set_plainly(const weir_url *url, struct fuzz_input text, int64_t now)
{
        struct fuzz_input whole = text, pair = fuzz_take_until(&text, ';');
        struct plain cookie = {.age = ++ages, .expires = INT64_MAX};
        const char *host = weir_url_host(url), *slash = strrchr(weir_url_path(url), '/');
        bool is_tls = strcmp(weir_url_scheme(url), "https") == 0 || strcmp(weir_url_scheme(url), "wss") == 0, has_equals;

        pair = fuzz_trim(pair);
        has_equals = pair.size > 0 && memchr(pair.at, '=', pair.size);
        cookie.name = fuzz_trim(fuzz_take_until(&pair, '='));
        cookie.value = fuzz_trim(pair);
        struct attributes attributes = read_attributes(text);
        if (has_bytes_below(whole, ' ', '\t') || !has_equals || cookie.name.size == 0 || has_bytes_below(cookie.name, ' ', 'x') ||
            has_bytes_below(cookie.value, ' ', 'x')) {
                return -EINVAL;
        }
        if (cookie.name.size + cookie.value.size > 4096) {
                return -EMSGSIZE;
        }
        if (has_bytes_below(attributes.path, ' ', 'x')) {
                return -EINVAL;
        }
        const int64_t longest = (int64_t)400 * 24 * 3600;
        if (attributes.has_age) {
                cookie.expires = attributes.age <= 0 ? 0 : now + (attributes.age < longest ? attributes.age : longest);
        } else if (attributes.has_end) {
                cookie.expires = attributes.end < now + longest ? attributes.end : now + longest;
        }
        cookie.is_secure = attributes.is_secure;
        cookie.path = attributes.path.size > 0 ? attributes.path : (struct fuzz_input){weir_url_path(url), 0};
        if (attributes.path.size == 0) {
                cookie.path.size = slash ? (size_t)(slash - cookie.path.at) : 0;
        }
        if (cookie.path.size == 0) {
                cookie.path = (struct fuzz_input){"/", 1};
        }
        if (cookie.is_secure && !is_tls) {
                return -EPERM;
        }
        char *domain = lower_copy(attributes.domain);
        int result = 0;
        cookie.domain = (char *)host;
        if (*domain && (!is_below(host, domain) || (weir__suffix_is_public(domain) && strcmp(host, domain) != 0))) {
                result = -EPERM;
        } else if (*domain && !weir__suffix_is_public(domain)) {
                cookie.domain = domain;
                cookie.is_below = true;
        }
        if (!result && attributes.path.size == 0 && cookie.path.size > 1024) {
                result = -EMSGSIZE;
        }
        if (!result && begins(cookie.name, "__secure-") && !cookie.is_secure) {
                result = -EPERM;
        }
        if (!result && begins(cookie.name, "__host-") && (!cookie.is_secure || *domain || attributes.path.size != 1)) {
                result = -EPERM;
        }
        result = result ? result : put(cookie, is_tls, now);
        free(domain);
        return result;
}

/* Which one is sent before: the longest path, and then the oldest. */
static int
best_before(const struct plain *last, const weir_url *url, bool is_tls)
{
        struct fuzz_input path = {weir_url_path(url), strlen(weir_url_path(url))};
        int best = -1;

        if (path.size == 0) {
                path = (struct fuzz_input){"/", 1};
        }
        for (int i = 0; i < count; i++) {
                const struct plain *cookie = &list[i];
                bool matches = cookie->is_below ? is_below(weir_url_host(url), cookie->domain)
                                                : strcmp(weir_url_host(url), cookie->domain) == 0;

                if (!matches || (cookie->is_secure && !is_tls) || !is_path_below(path, cookie->path)) {
                        continue;
                }
                if (last &&
                    (cookie->path.size > last->path.size || (cookie->path.size == last->path.size && cookie->age <= last->age))) {
                        continue;
                }
                if (best < 0 || cookie->path.size > list[best].path.size ||
                    (cookie->path.size == list[best].path.size && cookie->age < list[best].age)) {
                        best = i;
                }
        }
        return best;
}

static void
check_header(weir_cookie_jar *jar, const weir_url *url)
{
        static char text[MOST * 4100], expected[MOST * 4100];
        bool is_tls = strcmp(weir_url_scheme(url), "https") == 0 || strcmp(weir_url_scheme(url), "wss") == 0;
        const struct plain *last = NULL;
        size_t size = 0;

        for (int at; (at = best_before(last, url, is_tls)) >= 0; last = &list[at]) {
                size += (size_t)sprintf(expected + size, "%s%.*s=%.*s", last ? "; " : "", (int)list[at].name.size,
                                        list[at].name.at, (int)list[at].value.size, list[at].value.at);
        }
        FUZZ_CHECK(weir_cookie_jar_header(jar, url, text, sizeof text) == size);
        FUZZ_CHECK(memcmp(text, expected, size) == 0 && text[size] == '\0');
}

/* -- an input -- */

static bool
is_ours(const weir_url *url)
{
        static const char *const schemes[] = {"http", "https", "ws", "wss"};

        for (size_t i = 0; i < sizeof schemes / sizeof *schemes; i++) {
                if (strcmp(weir_url_scheme(url), schemes[i]) == 0) {
                        return true;
                }
        }
        return false;
}

static void
use_jar(weir_cookie_jar *jar, struct fuzz_input input)
{
        weir_url *urls[MOST + 1];
        char *texts[MOST + 1];
        int used = 0;

        count = ages = 0;
        while (input.size > 0 && used < MOST) {
                struct fuzz_input line = fuzz_take_line(&input);
                weir_url *url = weir_url_parse_bytes(line.at, line.size, NULL);

                line = fuzz_take_line(&input);
                char *text = fuzz_string(line);
                int result = weir_cookie_jar_set(jar, url, text);
                if (url && is_ours(url)) {
                        FUZZ_CHECK(result ==
                                   set_plainly(url, (struct fuzz_input){text, strlen(text)}, weir_wall_now() / WEIR_SEC(1)));
                        check_header(jar, url);
                } else {
                        FUZZ_CHECK(result == -EINVAL && weir_cookie_jar_header(jar, url, NULL, 0) == 0);
                }
                urls[used] = url;
                texts[used++] = text;
        }
        FUZZ_CHECK(weir_cookie_jar_count(jar) == (size_t)count);
        while (count > 0) {
                forget(count - 1);
        }
        while (used-- > 0) {
                weir_url_free(urls[used]);
                free(texts[used]);
        }
}

static void
check_cookie(const struct weir_cookie *cookie, void *context)
{
        (*(size_t *)context)++;
        FUZZ_CHECK(*cookie->name && strlen(cookie->name) + strlen(cookie->value) <= 4096);
        FUZZ_CHECK(*cookie->path == '/' && strlen(cookie->path) <= 1024 && *cookie->domain);
        FUZZ_CHECK(!strpbrk(cookie->name, "=;\t\r\n") && !strpbrk(cookie->value, ";\t\r\n"));
        FUZZ_CHECK(!strpbrk(cookie->domain, " \t/ABCDEFGHIJKLMNOPQRSTUVWXYZ") && !strpbrk(cookie->path, "\t\r\n"));
        FUZZ_CHECK(cookie->is_host_only || !weir__suffix_is_public(cookie->domain));
        FUZZ_CHECK(cookie->expires > weir_wall_now());
}

static void
use_file(weir_cookie_jar *jar, struct fuzz_input input)
{
        static int fd = -1;
        char path[40];
        size_t seen = 0;

        if (fd < 0) {
                fd = memfd_create("cookies", 0);
        }
        FUZZ_CHECK(ftruncate(fd, 0) == 0 && pwrite(fd, input.at, input.size, 0) == (ssize_t)input.size);
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
        FUZZ_CHECK(weir_cookie_jar_load(jar, path) >= (ssize_t)weir_cookie_jar_count(jar));
        FUZZ_CHECK(weir_cookie_jar_each(jar, check_cookie, &seen) == (ssize_t)seen);
        FUZZ_CHECK(seen == weir_cookie_jar_count(jar));
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        struct fuzz_input input = fuzz_input(data, size);

        weir__clock_start(true); /* stands still */
        weir_cookie_jar *jar = weir_cookie_jar_new();
        if (size > 0 && *data == '\t') {
                fuzz_take_byte(&input);
                use_file(jar, input);
        } else {
                use_jar(jar, input);
        }
        weir_cookie_jar_unref(jar);
        return 0;
}
