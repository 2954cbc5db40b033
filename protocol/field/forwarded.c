/* protocol/field/forwarded.c: the client of a request that trusted proxies have passed on.
 *
 * Each proxy adds its member at the end of the field, or in a line behind it.  So reading begins at the end, and stops at the
 * first address that is no trusted proxy: that sender may have invented all members before its own.  For the same reason only one
 * field is read.  A proxy that writes X-Forwarded-For passes Forwarded on as the client sent it, and the other way round.  If
 * both were read, a client could name any address in the other one.
 *
 * Commas divide inside a quoted string, too, because an attacker could leave one open on purpose.  A member that is cut out of a
 * quoted string has a quotation mark without its partner, or one behind a backslash.  Such a member has no address.
 *
 * Threads: any; pure functions.  No locks. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "protocol/text/bytes.h"
#include "protocol/field/forwarded.h"

#define V4_BEGINS 96 /* bit of the address */

struct network {
        struct weir__peer address;
        uint8_t bits; /* of the 128 */
};

struct weir__proxies {
        const char *field; /* behind the networks */
        bool is_forwarded;
        size_t count;
        struct network networks[];
};

/* -- trusted proxies -- */

static bool
bits_are_equal(const uint8_t *one, const uint8_t *other, unsigned bits)
{
        unsigned bytes = bits / 8, rest = bits % 8;

        return memcmp(one, other, bytes) == 0 && (rest == 0 || (one[bytes] ^ other[bytes]) >> (8 - rest) == 0);
}

bool
weir__proxies_have(const struct weir__proxies *proxies, const struct weir__peer *peer)
{
        for (size_t i = 0; proxies && i < proxies->count; i++) {
                const struct network *network = &proxies->networks[i];

                if (network->address.family == peer->family &&
                    bits_are_equal(network->address.address, peer->address, network->bits))
                        return true;
        }
        return false;
}

/* A number of one to `digits` digits.  Returns UINT64_MAX when it is invalid. */
static uint64_t
read_number(const char *text, size_t size, size_t digits)
{
        uint64_t number;

        return size > 0 && size <= digits && weir__bytes_number(text, size, &number) == size ? number : UINT64_MAX;
}

static bool
has_bits_behind(const struct network *network)
{
        for (unsigned bit = network->bits; bit < 128; bit++)
                if (network->address.address[bit / 8] >> (7 - bit % 8) & 1)
                        return true;
        return false;
}

static bool
read_network(struct network *network, const char *text, size_t size)
{
        const char *slash = memchr(text, '/', size);
        size_t address_size = slash ? (size_t)(slash - text) : size;
        bool is_short = !memchr(text, ':', address_size); /* an IPv4 prefix counts from the beginning of the IPv4 address */
        uint64_t bits = slash ? read_number(slash + 1, size - address_size - 1, 3) : is_short ? 32 : 128;

        if (!weir__peer_read(&network->address, text, address_size) || bits > (is_short ? 32u : 128u))
                return false;
        network->bits = (uint8_t)(bits + (is_short ? V4_BEGINS : 0));
        return network->address.family == WEIR__PEER_UNIX ? !slash : !has_bits_behind(network);
}

/* There is room for each member. */
static bool
read_list(struct weir__proxies *proxies, const char *list)
{
        size_t size = strlen(list), member_size;
        const char *member;

        while (weir__bytes_next_member(&list, &size, &member, &member_size))
                if (!read_network(&proxies->networks[proxies->count++], member, member_size))
                        return false;
        return true;
}

static bool
is_field(const char *name, size_t size)
{
        return size > 0 && weir__bytes_span(name, size, WEIR__BYTE_TOKEN) == size;
}

const char *
weir__proxies_expected(const char *list, const char *field, const char **text, size_t *size)
{
        size_t left = list ? strlen(list) : 0;
        struct network network;

        *text = field;
        *size = field ? strlen(field) : 0;
        if (field && !is_field(field, *size))
                return "the name of a field, such as X-Forwarded-For";
        while (list && weir__bytes_next_member(&list, &left, text, size)) {
                network.bits = 128;
                if (!read_network(&network, *text, *size))
                        return has_bits_behind(&network)
                                       ? "no bit set behind the prefix of the network, as in 10.0.0.0/8"
                                       : "addresses, networks and \"unix:\", as in \"127.0.0.1, 10.0.0.0/8, ::1\"";
        }
        return NULL;
}

int
weir__proxies_new(const char *list, const char *field, struct weir__proxies **ret_proxies)
{
        const char *name = field ? field : "X-Forwarded-For";
        size_t name_size = strlen(name), room = 0;
        struct weir__proxies *proxies;

        if (!is_field(name, name_size))
                return -EINVAL;
        for (const char *comma = list; comma; room++)
                comma = strchr(comma + (room > 0), ',');
        proxies = malloc(sizeof *proxies + room * sizeof *proxies->networks + name_size + 1);
        if (!proxies)
                return -ENOMEM;
        *proxies = (struct weir__proxies){
                .field = memcpy((char *)&proxies->networks[room], name, name_size + 1),
                .is_forwarded = WEIR__BYTES_ARE(name, name_size, "Forwarded"),
        };
        bool is_valid = !list || read_list(proxies, list);
        if (!is_valid || proxies->count == 0) {
                free(proxies);
                proxies = NULL;
        }
        if (is_valid)
                *ret_proxies = proxies;
        return is_valid ? 0 : -EINVAL;
}

/* -- the clients that they name -- */

/* Whether the text is ":" and a port, or empty. */
static bool
is_port_or_nothing(const char *text, size_t size)
{
        return size == 0 || (text[0] == ':' && read_number(text + 1, size - 1, 5) <= UINT16_MAX);
}

/* "192.0.2.1", "192.0.2.1:80", "[2001:db8::1]", "[2001:db8::1]:80". */
static bool
read_node(struct weir__peer *peer, const char *text, size_t size)
{
        bool is_v6 = size > 0 && text[0] == '[';
        const char *end = memchr(text, is_v6 ? ']' : ':', size);
        size_t address_size = end ? (size_t)(end - text) : size, behind = address_size + is_v6;

        if ((is_v6 && !end) || !is_port_or_nothing(text + behind, size - behind))
                return false;
        return weir__peer_read(peer, text + is_v6, address_size - is_v6) && peer->family != WEIR__PEER_UNIX &&
               is_v6 == (memchr(text, ':', address_size) != NULL);
}

/* A member of X-Forwarded-For, for which there is no grammar: also an IPv6 address without brackets. */
static bool
read_plain(struct weir__peer *peer, const char *text, size_t size)
{
        return weir__peer_read(peer, text, size) || read_node(peer, text, size);
}

/* The size of a token or quoted string at the beginning of the text; 0 when there is none. */
static size_t
value_size(const char *text, size_t size)
{
        size_t at = 1;

        if (size == 0 || text[0] != '"')
                return weir__bytes_span(text, size, WEIR__BYTE_TOKEN);
        while (at < size && text[at] != '"')
                at += text[at] == '\\' ? 2 : 1;
        return at < size ? at + 1 : 0;
}

/* A valid node never needs a backslash, so a node with one is refused. */
static bool
read_for(struct weir__peer *peer, const char *text, size_t size)
{
        bool is_quoted = text[0] == '"';

        return read_node(peer, text + is_quoted, size - 2 * is_quoted);
}

/* A member of Forwarded: pairs between semicolons.  All must be valid, and one of them is `for`.
 *
 * Source: RFC 7239 section 4. */
static bool
read_element(struct weir__peer *peer, const char *text, size_t size)
{
        unsigned found = 0;

        for (;;) {
                size_t name = weir__bytes_span(text, size, WEIR__BYTE_TOKEN), value;

                if (name == 0 || name == size || text[name] != '=')
                        return false;
                value = value_size(text + name + 1, size - name - 1);
                if (value == 0)
                        return false;
                if (WEIR__BYTES_ARE(text, name, "for")) {
                        found++;
                        if (!read_for(peer, text + name + 1, value))
                                return false;
                }
                text += name + 1 + value;
                size -= name + 1 + value;
                if (size == 0 || *text != ';')
                        return size == 0 && found == 1;
                text++;
                size--;
        }
}

/* Takes the last member off a list between commas. */
static bool
take_last_member(const char *list, size_t *list_size, const char **member, size_t *size)
{
        while (*list_size > 0) {
                const char *comma = memrchr(list, ',', *list_size);

                *member = comma ? comma + 1 : list;
                *size = *list_size - (size_t)(*member - list);
                *list_size = comma ? (size_t)(comma - list) : 0;
                weir__bytes_trim(member, size);
                if (*size > 0)
                        return true;
        }
        return false;
}

const char *
weir__proxies_field(const struct weir__proxies *proxies)
{
        return proxies ? proxies->field : NULL;
}

struct weir__peer
weir__forwarded_client(const struct weir__proxies *proxies, const struct weir__request *request, const struct weir__peer *peer)
{
        struct weir__peer client = *peer, named;
        const char *member;
        size_t size;

        for (uint32_t i = proxies ? request->field_count : 0; i-- > 0;) {
                const struct weir__field *field = &request->fields[i];
                size_t left = strlen(field->value);

                if (!weir__bytes_equal(field->name, proxies->field, strlen(proxies->field) + 1))
                        continue;
                while (take_last_member(field->value, &left, &member, &size)) {
                        if (!weir__proxies_have(proxies, &client) ||
                            !(proxies->is_forwarded ? read_element : read_plain)(&named, member, size))
                                return client;
                        client = named;
                }
        }
        return client;
}
