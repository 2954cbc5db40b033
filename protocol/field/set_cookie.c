/* protocol/field/set_cookie.c: the value of a Set-Cookie field, as a client reads it.
 *
 * A client must take what servers send, and not what the grammar for servers allows.  So this reads more than cookie.c writes.
 *
 * Threads: any; pure functions.  No locks. */
#include "protocol/field/set_cookie.h"

#include <errno.h>
#include <string.h>

#include "protocol/text/bytes.h"
#include "protocol/text/cookie_date.h"

/* Takes the bytes before the next separator off the text, without white space around them. */
static struct weir__set_cookie_part
take_part(struct weir__set_cookie_part *text, char separator)
{
        const char *end = text->size ? memchr(text->text, separator, text->size) : NULL;
        struct weir__set_cookie_part part = {text->text, end ? (size_t)(end - text->text) : text->size};

        text->text += part.size + (end != NULL);
        text->size -= part.size + (end != NULL);
        weir__bytes_trim(&part.text, &part.size);
        return part;
}

static bool
has_control(struct weir__set_cookie_part part, bool tab_is_one)
{
        for (size_t i = 0; i < part.size; i++) {
                unsigned char byte = (unsigned char)part.text[i];

                if (byte == 0x7f || (byte < ' ' && (byte != '\t' || tab_is_one)))
                        return true;
        }
        return false;
}

int64_t
weir__set_cookie_cap(int64_t expires, int64_t now)
{
        return expires == WEIR__SET_COOKIE_SESSION || expires < now + WEIR__SET_COOKIE_AGE ? expires : now + WEIR__SET_COOKIE_AGE;
}

/* Max-Age in seconds.  Result: whether it is a number. */
static bool
read_age(struct weir__set_cookie_part value, int64_t now, int64_t *ret_expires)
{
        bool is_negative = value.size > 0 && *value.text == '-';
        uint64_t seconds;
        size_t digits = weir__bytes_number(value.text + is_negative, value.size - is_negative, &seconds);

        if (digits == 0 || digits + is_negative != value.size)
                return false;
        if (is_negative || seconds == 0)
                *ret_expires = INT64_MIN;
        else
                *ret_expires = now + (int64_t)(seconds < WEIR__SET_COOKIE_AGE ? seconds : WEIR__SET_COOKIE_AGE);
        return true;
}

static enum weir_http_same_site
read_same_site(struct weir__set_cookie_part value)
{
        if (WEIR__BYTES_ARE(value.text, value.size, "strict"))
                return WEIR_HTTP_SAME_SITE_STRICT;
        if (WEIR__BYTES_ARE(value.text, value.size, "lax"))
                return WEIR_HTTP_SAME_SITE_LAX;
        if (WEIR__BYTES_ARE(value.text, value.size, "none"))
                return WEIR_HTTP_SAME_SITE_NONE;
        return WEIR_HTTP_SAME_SITE_UNSAID;
}

static void
read_domain(struct weir__set_cookie_part value, struct weir__set_cookie *cookie)
{
        bool has_dot = value.size > 0 && *value.text == '.';

        cookie->domain = (struct weir__set_cookie_part){value.text + has_dot, value.size - has_dot};
}

static void
read_path(struct weir__set_cookie_part value, struct weir__set_cookie *cookie)
{
        if (value.size == 0 || *value.text != '/')
                value.size = 0;
        cookie->path = value;
}

/* One attribute.  Max-Age wins over Expires, whatever their order. */
static void
read_attribute(struct weir__set_cookie_part value, int64_t now, struct weir__set_cookie *cookie, bool *has_age)
{
        struct weir__set_cookie_part name = take_part(&value, '=');
        int64_t date;

        weir__bytes_trim(&value.text, &value.size);
        if (value.size > WEIR__SET_COOKIE_ATTRIBUTE)
                return;
        if (WEIR__BYTES_ARE(name.text, name.size, "expires")) {
                if (!*has_age && weir__cookie_date_read(value.text, value.size, &date))
                        cookie->expires = weir__set_cookie_cap(date, now);
        } else if (WEIR__BYTES_ARE(name.text, name.size, "max-age")) {
                *has_age |= read_age(value, now, &cookie->expires);
        } else if (WEIR__BYTES_ARE(name.text, name.size, "domain")) {
                read_domain(value, cookie);
        } else if (WEIR__BYTES_ARE(name.text, name.size, "path")) {
                read_path(value, cookie);
        } else if (WEIR__BYTES_ARE(name.text, name.size, "secure")) {
                cookie->is_secure = true;
        } else if (WEIR__BYTES_ARE(name.text, name.size, "httponly")) {
                cookie->is_http_only = true;
        } else if (WEIR__BYTES_ARE(name.text, name.size, "samesite")) {
                cookie->same_site = read_same_site(value);
        }
}

int
weir__set_cookie_read(const char *text, size_t size, int64_t now, struct weir__set_cookie *ret_cookie)
{
        struct weir__set_cookie_part rest = {text, size}, empty = {"", 0};
        struct weir__set_cookie cookie = {
                .domain = empty, .path = empty, .expires = WEIR__SET_COOKIE_SESSION, .same_site = WEIR_HTTP_SAME_SITE_UNSAID};
        bool has_age = false;

        if (has_control(rest, false))
                return -EINVAL;
        cookie.value = take_part(&rest, ';');
        if (cookie.value.size == 0 || !memchr(cookie.value.text, '=', cookie.value.size))
                return -EINVAL;
        cookie.name = take_part(&cookie.value, '=');
        weir__bytes_trim(&cookie.value.text, &cookie.value.size);
        if (cookie.name.size == 0 || has_control(cookie.name, true) || has_control(cookie.value, true))
                return -EINVAL;
        if (cookie.name.size + cookie.value.size > WEIR__SET_COOKIE_MAX)
                return -EMSGSIZE;
        while (rest.size > 0)
                read_attribute(take_part(&rest, ';'), now, &cookie, &has_age);
        if (has_control(cookie.path, true))
                return -EINVAL;
        *ret_cookie = cookie;
        return 0;
}

static bool
begins(const char *name, size_t size, const char *prefix)
{
        size_t prefix_size = strlen(prefix);

        return size >= prefix_size && weir__bytes_equal(name, prefix, prefix_size);
}

bool
weir__set_cookie_keeps_prefix(const char *name, size_t size, bool is_secure, bool is_host_only, bool is_root)
{
        if (begins(name, size, "__Secure-"))
                return is_secure;
        if (begins(name, size, "__Host-"))
                return is_secure && is_host_only && is_root;
        return true;
}
