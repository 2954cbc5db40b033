/* client/tunnel/bypass.c: the hosts that are reached without a proxy.
 *
 * Threads: any. */
#include "client/tunnel/bypass.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "protocol/text/bytes.h"

#define DNS_NAME_MAX 253 /* bytes of a name without its last dot */

struct weir__bypass_entry {
        uint8_t family; /* 0: a name */
        uint8_t bits;   /* of the address */
        union {
                unsigned char address[16];
                char name[DNS_NAME_MAX + 1]; /* without a dot at its ends */
        };
};

/* Reads an address.  Returns its family; 0: it is none. */
static int
read_address(const char *text, unsigned char address[16])
{
        return inet_pton(AF_INET, text, address) == 1 ? AF_INET : inet_pton(AF_INET6, text, address) == 1 ? AF_INET6 : 0;
}

/* Reads "address[/bits]"; the address may be in brackets.  Result: 0; -ENOENT: it is no address; -EINVAL: bad bits. */
static int
read_network(struct weir__bypass_entry *entry, const char *text, size_t size)
{
        char copy[INET6_ADDRSTRLEN + 1];
        const char *slash = memchr(text, '/', size), *begin = text;
        size_t length = slash ? (size_t)(slash - text) : size;
        uint64_t bits;

        if (length >= 2 && begin[0] == '[' && begin[length - 1] == ']') {
                begin++;
                length -= 2;
        }
        if (length >= sizeof copy)
                return -ENOENT;
        memcpy(copy, begin, length);
        copy[length] = '\0';
        entry->family = (uint8_t)read_address(copy, entry->address);
        if (!entry->family)
                return -ENOENT;
        entry->bits = entry->family == AF_INET ? 32 : 128;
        if (!slash)
                return 0;
        size_t left = size - (size_t)(slash + 1 - text);
        if (!left || weir__bytes_number(slash + 1, left, &bits) != left || bits > entry->bits)
                return -EINVAL;
        entry->bits = (uint8_t)bits;
        return 0;
}

static int
read_name(struct weir__bypass_entry *entry, const char *text, size_t size)
{
        if (size && text[0] == '.') {
                text++;
                size--;
        }
        size -= size && text[size - 1] == '.';
        if (!size || size > DNS_NAME_MAX)
                return -EINVAL;
        for (size_t i = 0; i < size; i++)
                if (!weir__byte_is(text[i], WEIR__BYTE_NAME) || strchr("!$&'()*+;=~", text[i]))
                        return -EINVAL;
        memcpy(entry->name, text, size);
        entry->name[size] = '\0';
        return 0;
}

static int
add(struct weir__bypass *bypass, const char *text, size_t size)
{
        if (size == 1 && text[0] == '*') {
                bypass->has_all = true;
                return 0;
        }
        struct weir__bypass_entry *more = realloc(bypass->entries, (bypass->count + 1) * sizeof *more);
        if (!more)
                return -ENOMEM;
        bypass->entries = more;
        struct weir__bypass_entry *entry = &more[bypass->count];
        *entry = (struct weir__bypass_entry){.family = 0};
        int failed = read_network(entry, text, size);
        failed = failed == -ENOENT ? read_name(entry, text, size) : failed;
        bypass->count += !failed;
        return failed;
}

int
weir__bypass_parse(struct weir__bypass *bypass, const char *text, size_t *at, const char **expected)
{
        static const char separators[] = ", \t";

        for (const char *part = text + strspn(text, separators); *part;) {
                size_t size = strcspn(part, separators);
                int failed = add(bypass, part, size);

                if (failed) {
                        *at = (size_t)(part - text);
                        *expected = "expected a host, .suffix, an address, address/bits or *";
                        return failed;
                }
                part += size;
                part += strspn(part, separators);
        }
        return 0;
}

void
weir__bypass_done(struct weir__bypass *bypass)
{
        free(bypass->entries);
        *bypass = (struct weir__bypass){.count = 0};
}

static bool
is_in_network(const struct weir__bypass_entry *entry, const unsigned char address[16])
{
        size_t whole = entry->bits / 8, rest = entry->bits % 8;

        if (memcmp(entry->address, address, whole) != 0)
                return false;
        return !rest || (entry->address[whole] ^ address[whole]) >> (8 - rest) == 0;
}

static bool
is_below(const struct weir__bypass_entry *entry, const char *host, size_t size)
{
        size_t length = strlen(entry->name);

        if (size < length || strncasecmp(host + size - length, entry->name, length) != 0)
                return false;
        return size == length || host[size - length - 1] == '.';
}

bool
weir__bypass_has(const struct weir__bypass *bypass, const char *host)
{
        unsigned char address[16];
        int family = read_address(host, address);
        size_t size = strlen(host);

        size -= size && host[size - 1] == '.';
        for (size_t i = 0; i < bypass->count; i++) {
                const struct weir__bypass_entry *entry = &bypass->entries[i];

                if (entry->family == family && (family ? is_in_network(entry, address) : is_below(entry, host, size)))
                        return true;
        }
        return bypass->has_all;
}
