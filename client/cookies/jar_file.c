/* client/cookies/jar_file.c: jars as files in Netscape's format.
 *
 *      domain TAB TRUE (also below it) or FALSE TAB path TAB TRUE (secure) or FALSE TAB end TAB name TAB value
 *
 * The end is in Unix seconds, 0 for a cookie of the session.  "#HttpOnly_" may stand before the domain; any other '#' begins a
 * comment.  curl writes the domain with a dot before it if names below it are meant.
 *
 * Threads: any; it waits for the disk.
 * Locks:   none are held meanwhile. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/cookies/jar.h"
#include "client/cookies/suffix.h"
#include "kernel/data/ascii.h"
#include "protocol/route/url_parts.h"
#include "protocol/text/bytes.h"

#define HTTP_ONLY   "#HttpOnly_"
#define FILE_HEAD   "# Netscape HTTP Cookie File\n# Written by weir.\n\n"
#define LINE_ROOM   8192 /* bytes of a cookie with the largest parts */
#define LINE_FIELDS 7

/* -- reading -- */

/* Divides a line at its tabs.  A value that is empty may be missing, with its tab. */
static bool
divide(char *line, struct weir__set_cookie_part fields[LINE_FIELDS])
{
        size_t count = 0;

        while (line && count < LINE_FIELDS) {
                char *tab = strchr(line, '\t');

                fields[count++] = (struct weir__set_cookie_part){line, tab ? (size_t)(tab - line) : strlen(line)};
                line = tab ? tab + 1 : NULL;
        }
        if (count == LINE_FIELDS - 1)
                fields[count++] = (struct weir__set_cookie_part){"", 0};
        return count == LINE_FIELDS && !line;
}

/* As weir/url.h has hosts of http: names and addresses. */
static bool
is_host(struct weir__set_cookie_part host)
{
        for (size_t i = 0; i < host.size; i++)
                if (!weir__is_letter(host.text[i]) && !weir__is_digit(host.text[i]) &&
                    (host.text[i] == '\0' || !strchr("-._:", host.text[i])))
                        return false;
        return host.size > 0 && host.size <= WEIR__SET_COOKIE_ATTRIBUTE;
}

static bool
read_end(struct weir__set_cookie_part field, int64_t now, int64_t *ret_end)
{
        uint64_t end;

        if (field.size == 0 || weir__bytes_number(field.text, field.size, &end) != field.size)
                return false;
        if (end == 0)
                *ret_end = WEIR__SET_COOKIE_SESSION;
        else
                *ret_end = weir__set_cookie_cap(end < INT64_MAX ? (int64_t)end : INT64_MAX - 1, now);
        return true;
}

static bool
has_control(const char *text)
{
        for (; *text; text++)
                if ((unsigned char)*text == 0x7f || ((unsigned char)*text < ' ' && *text != '\t'))
                        return true;
        return false;
}

/* Whether a server could have set it. */
static bool
is_sound(const struct weir__cookie_parts *parts)
{
        char lower[WEIR__SET_COOKIE_ATTRIBUTE + 1];
        bool is_root = parts->path.size == 1;

        if (!is_host(parts->domain) || parts->path.size == 0 || *parts->path.text != '/' ||
            parts->path.size > WEIR__SET_COOKIE_ATTRIBUTE || parts->name.size == 0 ||
            parts->name.size + parts->value.size > WEIR__SET_COOKIE_MAX || memchr(parts->name.text, '=', parts->name.size) ||
            memchr(parts->name.text, ';', parts->name.size) || memchr(parts->value.text, ';', parts->value.size))
                return false;
        *(char *)mempcpy(lower, parts->domain.text, parts->domain.size) = '\0';
        weir__url_lower(lower, parts->domain.size);
        return (parts->is_host_only || !weir__suffix_is_public(lower)) &&
               weir__set_cookie_keeps_prefix(parts->name.text, parts->name.size, parts->is_secure, parts->is_host_only, is_root);
}

/* Reads a line, without its end. */
static bool
read_line(char *line, int64_t now, struct weir__cookie_parts *parts)
{
        struct weir__set_cookie_part fields[LINE_FIELDS];
        bool is_http_only = strncmp(line, HTTP_ONLY, strlen(HTTP_ONLY)) == 0;

        line += is_http_only ? strlen(HTTP_ONLY) : 0;
        if (*line == '#' || has_control(line) || !divide(line, fields))
                return false;
        bool has_dot = fields[0].size > 0 && *fields[0].text == '.';
        *parts = (struct weir__cookie_parts){
                .domain = {fields[0].text + has_dot, fields[0].size - has_dot},
                .is_host_only = !WEIR__BYTES_ARE(fields[1].text, fields[1].size, "true"),
                .path = fields[2],
                .is_secure = WEIR__BYTES_ARE(fields[3].text, fields[3].size, "true"),
                .name = fields[5],
                .value = fields[6],
                .same_site = WEIR_HTTP_SAME_SITE_UNSAID,
                .is_http_only = is_http_only,
        };
        return read_end(fields[4], now, &parts->expires) && parts->expires > now && is_sound(parts);
}

/* Takes the end off a line.  Result: false when the end is not there, unless the file ends. */
static bool
end_line(FILE *file, char *line)
{
        size_t size = strcspn(line, "\n");
        bool is_whole = line[size] == '\n' || feof(file);

        line[size] = '\0';
        if (size > 0 && line[size - 1] == '\r')
                line[size - 1] = '\0';
        return is_whole;
}

static ssize_t
read_file(weir_cookie_jar *jar, FILE *file)
{
        int64_t now = weir__cookie_jar_now();
        char line[LINE_ROOM];
        bool is_rest = false; /* of a line that is too long */
        ssize_t count = 0;

        while (fgets(line, sizeof line, file)) {
                struct weir__cookie_parts parts;
                bool is_whole = end_line(file, line), is_skipped = is_rest || !is_whole;

                is_rest = !is_whole;
                if (is_skipped || !read_line(line, now, &parts))
                        continue;
                struct weir__cookie *cookie = weir__cookie_new(&parts);
                if (!cookie)
                        return -ENOMEM;
                weir__cookie_jar_add(jar, cookie, now);
                count++;
        }
        return ferror(file) ? -errno : count;
}

static FILE *
open_file(const char *path)
{
        int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
        struct stat status;
        int failed = fd < 0 || fstat(fd, &status) < 0 ? errno : !S_ISREG(status.st_mode) ? EINVAL : 0;
        FILE *file = failed ? NULL : fdopen(fd, "re");

        if (file)
                return file;
        failed = failed ? failed : errno;
        if (fd >= 0)
                close(fd);
        errno = failed;
        return NULL;
}

ssize_t
weir_cookie_jar_load(weir_cookie_jar *jar, const char *path)
{
        if (!jar || !path)
                return -EINVAL;
        FILE *file = open_file(path);
        if (!file)
                return -errno;
        ssize_t count = read_file(jar, file);
        fclose(file);
        return count;
}

/* -- writing -- */

static int
write_cookie(char *out, size_t room, const struct weir__cookie *cookie)
{
        int64_t end = cookie->expires == WEIR__SET_COOKIE_SESSION ? 0 : cookie->expires;

        return snprintf(out, room, "%s%s%s\t%s\t%s\t%s\t%" PRId64 "\t%s\t%s\n", cookie->is_http_only ? HTTP_ONLY : "",
                        cookie->is_host_only ? "" : ".", cookie->domain, cookie->is_host_only ? "FALSE" : "TRUE", cookie->path,
                        cookie->is_secure ? "TRUE" : "FALSE", end, cookie->name, cookie->value);
}

/* The whole text.  Result: NULL when out of memory. */
static char *
make_text(struct weir__cookie **all, size_t *ret_size)
{
        size_t size = strlen(FILE_HEAD), at;

        for (size_t i = 0; all[i]; i++)
                size += (size_t)write_cookie(NULL, 0, all[i]);
        char *text = malloc(size + 1);
        if (!text)
                return NULL;
        at = strlen(FILE_HEAD);
        memcpy(text, FILE_HEAD, at);
        for (size_t i = 0; all[i]; i++)
                at += (size_t)write_cookie(text + at, size + 1 - at, all[i]);
        *ret_size = size;
        return text;
}

static int
write_all(int fd, const char *text, size_t size)
{
        while (size > 0) {
                ssize_t written = write(fd, text, size);

                if (written < 0 && errno == EINTR)
                        continue;
                if (written <= 0)
                        return written < 0 ? -errno : -EIO;
                text += written;
                size -= (size_t)written;
        }
        return fsync(fd) < 0 ? -errno : 0;
}

/* Writes another file, and puts it in the place of the first one.  `other` has the name of a file that is to be made. */
static int
replace_file(const char *path, char *other, const char *text, size_t size)
{
        int fd = mkostemp(other, O_CLOEXEC);

        if (fd < 0)
                return -errno;
        int failed = write_all(fd, text, size);
        if (close(fd) < 0 && !failed)
                failed = -errno;
        if (!failed && rename(other, path) < 0)
                failed = -errno;
        if (failed)
                unlink(other);
        return failed;
}

static int
save(struct weir__cookie **all, const char *path)
{
        size_t size, path_size = strlen(path);
        char *text = make_text(all, &size), *other = malloc(path_size + sizeof ".XXXXXX");
        int failed = -ENOMEM;

        if (text && other) {
                memcpy(mempcpy(other, path, path_size), ".XXXXXX", sizeof ".XXXXXX");
                failed = replace_file(path, other, text, size);
        }
        free(text);
        free(other);
        return failed;
}

ssize_t
weir_cookie_jar_save(weir_cookie_jar *jar, const char *path)
{
        size_t count;

        if (!jar || !path)
                return -EINVAL;
        struct weir__cookie **all = weir__cookie_jar_all(jar, &count);
        if (!all)
                return -ENOMEM;
        int failed = save(all, path);
        weir__cookie_jar_release(all);
        return failed ? failed : (ssize_t)count;
}
