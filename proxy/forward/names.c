/* proxy/forward/names.c: which fields a proxy passes on.
 *
 * Source:  RFC 9110 section 7.6.1.
 * Threads: any. */
#include "proxy/forward/names.h"

#include <string.h>
#include <strings.h>

/* A letter in lower case; '-' for an underscore. */
static char
plain(char c)
{
        return c >= 'A' && c <= 'Z' ? (char)(c | 0x20) : c == '_' ? '-' : c;
}

static bool
is(const char *name, size_t size, const char *known)
{
        for (size_t i = 0; i < size; i++)
                if (plain(name[i]) != known[i])
                        return false;
        return true;
}

#define ARE(known, kind)                       \
        {                                      \
                sizeof(known) - 1, kind, known \
        }

static const struct {
        size_t size;
        enum weir__field_kind kind;
        const char *name;
} known_fields[] = {
        ARE("te", WEIR__FIELD_DROPPED),
        ARE("date", WEIR__FIELD_DATE),
        ARE("host", WEIR__FIELD_HOST),
        ARE("proxy", WEIR__FIELD_DROPPED), /* it would be HTTP_PROXY in the environment of a CGI program */
        ARE("expect", WEIR__FIELD_DROPPED),
        ARE("trailer", WEIR__FIELD_DROPPED),
        ARE("upgrade", WEIR__FIELD_DROPPED),
        ARE("forwarded", WEIR__FIELD_FORWARDED),
        ARE("connection", WEIR__FIELD_CONNECTION),
        ARE("keep-alive", WEIR__FIELD_DROPPED),
        ARE("content-length", WEIR__FIELD_DROPPED),
        ARE("x-forwarded-for", WEIR__FIELD_X_FORWARDED_FOR),
        ARE("x-forwarded-host", WEIR__FIELD_X_FORWARDED_HOST),
        ARE("x-forwarded-proto", WEIR__FIELD_X_FORWARDED_PROTO),
        ARE("transfer-encoding", WEIR__FIELD_DROPPED),
};

/* The first letters of those above. */
static bool
may_be_known(char first)
{
        static const char letters[] = "tdhpeufckx";

        return memchr(letters, plain(first), sizeof letters - 1);
}

enum weir__field_kind
weir__field_kind(const char *name)
{
        if (!may_be_known(name[0]))
                return WEIR__FIELD_PASSED;
        size_t size = strlen(name);
        if (size > 6 && is(name, 6, "proxy-"))
                return WEIR__FIELD_DROPPED;
        for (size_t i = 0; i < sizeof known_fields / sizeof *known_fields; i++)
                if (known_fields[i].size == size && is(name, size, known_fields[i].name))
                        return known_fields[i].kind;
        return WEIR__FIELD_PASSED;
}

size_t
weir__names_next(const char **list, const char **token)
{
        *token = *list + strspn(*list, ", \t");
        size_t size = strcspn(*token, ", \t");
        *list = *token + size;
        return size;
}

bool
weir__names_has(const char *list, const char *wanted)
{
        const char *token;
        size_t size, wanted_size = strlen(wanted);

        while ((size = weir__names_next(&list, &token)))
                if (size == wanted_size && strncasecmp(token, wanted, size) == 0)
                        return true;
        return false;
}

bool
weir__connection_names(const char *value)
{
        static const char *const usual[] = {"keep-alive", "close", "upgrade", "te"};
        const char *token;
        size_t size;

        while ((size = weir__names_next(&value, &token))) {
                bool is_usual = false;

                for (size_t i = 0; i < sizeof usual / sizeof *usual; i++)
                        is_usual |= strlen(usual[i]) == size && strncasecmp(token, usual[i], size) == 0;
                if (!is_usual)
                        return true;
        }
        return false;
}
