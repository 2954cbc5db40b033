/* test/fuzz/address_fuzz.c: names in requests: targets, authorities, and the clients that proxies report.
 *
 * The first byte of an input chooses.  't': a line with a method, and a target.  Else: lines with the proxies that are trusted,
 * the field in which they report clients ("-" for the usual one), and the peer; each further line is a value of the field, or of
 * another one if it begins with a colon.  The rules:
 *
 * - A target is taken apart or refused as by a second reader, which knows the forms of a target.
 * - A second reader goes through all members of all lines from the last one on.  It must agree about the list of proxies and
 *   about the client.  No text makes a client of an address that no trusted proxy has named. */
#include <arpa/inet.h>
#include <errno.h>

#include "protocol/field/forwarded.h"
#include "protocol/route/target.h"
#include "test/fuzz/fuzz.h"

/* -- targets -- */

static bool
are_digits(struct fuzz_input text)
{
        for (size_t i = 0; i < text.size; i++) {
                if (text.at[i] < '0' || text.at[i] > '9') {
                        return false;
                }
        }
        return true;
}

static bool
is_name_byte(char byte)
{
        return byte != '%' && (fuzz_is_token_byte(byte) ? !strchr("#^`|", byte) : byte != '\0' && strchr("(),;=", byte) != NULL);
}

/* Whether it is an authority; *has_port, whether it says a port, which is not empty. */
static bool
is_authority(struct fuzz_input text, bool *has_port)
{
        bool is_literal = text.size > 0 && *text.at == '[';
        struct in6_addr ignored;
        struct fuzz_input host;

        if (is_literal) {
                fuzz_take_byte(&text);
                if (text.size == 0 || !memchr(text.at, ']', text.size)) {
                        return false;
                }
                host = fuzz_take_until(&text, ']');
                char *string = fuzz_string(host);
                bool is_right = strlen(string) == host.size && inet_pton(AF_INET6, string, &ignored) == 1;
                free(string);
                *has_port = text.size > 1;
                return is_right && (text.size == 0 || fuzz_take_byte(&text) == ':') && are_digits(text);
        }
        host = fuzz_take_until(&text, ':');
        *has_port = text.size > 0;
        if (host.size == 0) {
                return false;
        }
        while (host.size > 0) {
                bool is_escape = fuzz_escape(host) >= 0;

                if (!is_escape && !is_name_byte(*host.at)) {
                        return false;
                }
                host.at += is_escape ? 3 : 1;
                host.size -= is_escape ? 3 : 1;
        }
        return are_digits(text);
}

/* Decodes a path into `out`; -1 when it has an escape that is none, or one of NUL. */
static ptrdiff_t
decode(struct fuzz_input path, char *out)
{
        ptrdiff_t size = 0;

        while (path.size > 0) {
                int escape = fuzz_escape(path);

                if (*path.at == '%' && escape <= 0) {
                        return -1;
                }
                out[size++] = (char)(*path.at == '%' ? escape : *path.at);
                path.size -= escape > 0 ? 3 : 1;
                path.at += escape > 0 ? 3 : 1;
        }
        return size;
}

static int
judge_target(bool is_options, bool is_connect, struct fuzz_input text, struct fuzz_input *authority)
{
        size_t scheme;
        bool has_port;

        *authority = (struct fuzz_input){NULL, 0};
        if (is_connect) {
                return is_authority(text, &has_port) && has_port ? 501 : 400;
        }
        if (*text.at == '/' || (is_options && fuzz_is(text, "*"))) {
                return 0;
        }
        scheme = text.size >= 7 && strncasecmp(text.at, "http://", 7) == 0    ? 7
                 : text.size >= 8 && strncasecmp(text.at, "https://", 8) == 0 ? 8
                                                                              : 0;
        *authority = (struct fuzz_input){text.at + scheme, 0};
        while (authority->at + authority->size < text.at + text.size && !strchr("/?", authority->at[authority->size])) {
                authority->size++;
        }
        return scheme > 0 && is_authority(*authority, &has_port) ? 0 : 400;
}

/* The part of the target behind its authority is path and query, and nothing else. */
static void
check_target(const struct weir__target *target, struct fuzz_input text, struct fuzz_input authority, bool is_options)
{
        struct fuzz_input rest = text, path;
        char *expected = malloc(text.size + 1), *decoded = malloc(target->decoded_size);
        ptrdiff_t size;

        FUZZ_CHECK(target->authority == authority.at && target->authority_size == authority.size);
        if (authority.at) {
                rest.at = authority.at + authority.size;
                rest.size = (size_t)(text.at + text.size - rest.at);
        }
        FUZZ_CHECK(target->query == (memchr(rest.at, '?', rest.size) ? (char *)memchr(rest.at, '?', rest.size) + 1 : NULL));
        path = fuzz_take_until(&rest, '?');
        if (path.size == 0) {
                path = (struct fuzz_input){is_options && !target->query ? "*" : "/", 1};
        }
        size = decode(path, expected);
        FUZZ_CHECK(target->path_size == path.size && memcmp(target->path, path.at, path.size) == 0);
        FUZZ_CHECK(size >= 0 && target->decoded_size == (size_t)size && !memchr(expected, '\0', (size_t)size));
        FUZZ_CHECK(weir__path_decode(decoded, target->path, target->path_size) == decoded + size);
        FUZZ_CHECK(memcmp(decoded, expected, (size_t)size) == 0);
        FUZZ_CHECK(target->is_asterisk == fuzz_is(text, "*"));
        free(expected);
        free(decoded);
}

static void
try_target(struct fuzz_input input)
{
        struct fuzz_input method = fuzz_take_line(&input), text = input, authority, path;
        bool is_options = fuzz_is(method, "OPTIONS"), is_connect = fuzz_is(method, "CONNECT"), has_port;
        struct weir__target target;
        char *copy, *decoded;
        int expected;

        for (size_t i = 0; i < text.size; i++) {
                if (text.at[i] <= ' ' || text.at[i] > '~' || text.at[i] == '#') {
                        return; /* the gate lets none of these through */
                }
        }
        copy = fuzz_copy(text.at, text.size);
        text.at = copy;
        FUZZ_CHECK(weir__authority_is_valid(text.at, text.size) == is_authority(text, &has_port));
        if (text.size > 0) {
                expected = judge_target(is_options, is_connect, text, &authority);
                path = authority.at ? (struct fuzz_input){authority.at + authority.size,
                                                          (size_t)(copy + text.size - authority.at) - authority.size}
                                    : text;
                decoded = malloc(text.size);
                if (expected == 0 && decode(fuzz_take_until(&path, '?'), decoded) < 0) {
                        expected = 400;
                }
                free(decoded);
                FUZZ_CHECK(weir__target_read(&target, method.at, method.size, text.at, text.size) == expected);
                if (expected == 0) {
                        check_target(&target, text, authority, is_options);
                }
        }
        free(copy);
}

/* -- whom proxies speak for -- */

#define NETWORKS 8
#define LINES    8

struct network {
        struct weir__peer peer;
        unsigned bits;
};

static bool
read_address(struct fuzz_input text, struct weir__peer *peer)
{
        struct sockaddr_storage storage = {.ss_family = AF_UNSPEC};
        struct sockaddr_in *v4 = (struct sockaddr_in *)&storage;
        struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)&storage;
        char *string = fuzz_string(text);
        bool is_whole = strlen(string) == text.size;

        if (is_whole && inet_pton(AF_INET, string, &v4->sin_addr) == 1) {
                storage.ss_family = AF_INET;
        } else if (is_whole && inet_pton(AF_INET6, string, &v6->sin6_addr) == 1) {
                storage.ss_family = AF_INET6;
        } else if (is_whole && strcasecmp(string, "unix:") == 0) {
                storage.ss_family = AF_UNIX;
        }
        *peer = weir__peer_of(&storage, sizeof storage);
        free(string);
        return storage.ss_family != AF_UNSPEC;
}

static bool
bit_of(const struct weir__peer *peer, unsigned bit)
{
        return peer->address[bit / 8] >> (7 - bit % 8) & 1;
}

static bool
read_network(struct fuzz_input text, struct network *network)
{
        bool has_slash = memchr(text.at, '/', text.size) != NULL;
        struct fuzz_input address = fuzz_take_until(&text, '/');
        bool is_short = address.size == 0 || !memchr(address.at, ':', address.size);
        unsigned most = is_short ? 32 : 128;

        network->bits = most;
        if (!read_address(address, &network->peer)) {
                return false;
        }
        if (has_slash) {
                if (text.size < 1 || text.size > 3 || !are_digits(text) || network->peer.family == WEIR__PEER_UNIX) {
                        return false;
                }
                for (network->bits = 0; text.size > 0;) {
                        network->bits = 10 * network->bits + fuzz_take_byte(&text) - '0';
                }
        }
        if (network->bits > most) {
                return false;
        }
        network->bits += is_short ? 96 : 0;
        for (unsigned bit = network->bits; network->peer.family != WEIR__PEER_UNIX && bit < 128; bit++) {
                if (bit_of(&network->peer, bit)) {
                        return false;
                }
        }
        return true;
}

/* The member that is not empty and last before `end`; false when there is none. */
static bool
previous_member(struct fuzz_input *list, struct fuzz_input *member)
{
        while (list->size > 0) {
                size_t begin = list->size;

                while (begin > 0 && list->at[begin - 1] != ',') {
                        begin--;
                }
                *member = fuzz_trim((struct fuzz_input){list->at + begin, list->size - begin});
                list->size = begin > 0 ? begin - 1 : 0;
                if (member->size > 0) {
                        return true;
                }
        }
        return false;
}

static bool
is_trusted(const struct network *networks, size_t count, const struct weir__peer *peer)
{
        for (size_t i = 0; i < count; i++) {
                unsigned bit = 0;

                while (bit < networks[i].bits && bit_of(&networks[i].peer, bit) == bit_of(peer, bit)) {
                        bit++;
                }
                if (bit == networks[i].bits && networks[i].peer.family == peer->family) {
                        return true;
                }
        }
        return false;
}

static bool
is_port_or_nothing(struct fuzz_input text)
{
        unsigned port = 0;

        if (text.size == 0) {
                return true;
        }
        if (fuzz_take_byte(&text) != ':' || text.size < 1 || text.size > 5 || !are_digits(text)) {
                return false;
        }
        while (text.size > 0) {
                port = 10 * port + fuzz_take_byte(&text) - '0';
        }
        return port <= 65535;
}

/* An address with a port, or none; one of IPv6 in brackets. */
static bool
read_node(struct fuzz_input text, struct weir__peer *peer)
{
        bool is_literal = text.size > 0 && *text.at == '[';
        const char *end = text.size ? memchr(text.at, is_literal ? ']' : ':', text.size) : NULL;
        struct fuzz_input address = {text.at + is_literal, (end ? (size_t)(end - text.at) : text.size) - is_literal};
        struct fuzz_input port = {address.at + address.size + is_literal, 0};

        if (is_literal && !end) {
                return false;
        }
        port.size = (size_t)(text.at + text.size - port.at);
        return is_port_or_nothing(port) && is_literal == (address.size && memchr(address.at, ':', address.size)) &&
               read_address(address, peer) && peer->family != WEIR__PEER_UNIX;
}

/* Takes a token or a quoted string, without its quotes; false when there is none. */
static bool
take_value(struct fuzz_input *text, struct fuzz_input *value)
{
        bool is_quoted = text->size > 0 && *text->at == '"';
        size_t size = is_quoted;

        while (size < text->size && (is_quoted ? text->at[size] != '"' : fuzz_is_token_byte(text->at[size]))) {
                size += is_quoted && text->at[size] == '\\' ? 2 : 1;
        }
        if (size == 0 || (is_quoted && size >= text->size)) {
                return false;
        }
        *value = (struct fuzz_input){text->at + is_quoted, size - is_quoted};
        text->at += size + is_quoted;
        text->size -= size + is_quoted;
        return true;
}

static bool
read_element(struct fuzz_input text, struct weir__peer *peer)
{
        bool found = false, more = true;

        while (more) {
                struct fuzz_input name, value;
                bool has_value = text.size > 0 && memchr(text.at, '=', text.size);

                name = fuzz_take_until(&text, '=');
                if (!has_value || !fuzz_is_token(name) || !take_value(&text, &value)) {
                        return false;
                }
                if (fuzz_is_in_any_case(name, "for")) {
                        if (found || !read_node(value, peer)) {
                                return false;
                        }
                        found = true;
                }
                more = text.size > 0;
                if (more && fuzz_take_byte(&text) != ';') {
                        return false;
                }
        }
        return found;
}

struct proxies {
        struct network networks[NETWORKS];
        size_t count;
        const char *field;
        bool is_forwarded;
};

static struct weir__peer
find_client(const struct proxies *proxies, const struct weir__request *request, struct weir__peer client)
{
        for (uint32_t i = request->field_count; i > 0; i--) {
                struct fuzz_input list = {request->fields[i - 1].value, strlen(request->fields[i - 1].value)}, member;
                struct weir__peer named;

                if (strcasecmp(request->fields[i - 1].name, proxies->field) != 0) {
                        continue;
                }
                while (is_trusted(proxies->networks, proxies->count, &client) && previous_member(&list, &member)) {
                        if (proxies->is_forwarded ? !read_element(member, &named)
                                                  : !read_address(member, &named) && !read_node(member, &named)) {
                                return client;
                        }
                        client = named;
                }
        }
        return client;
}

static void
check_peer(const struct weir__peer *peer, const struct weir__peer *expected)
{
        char text[WEIR__PEER_ROOM];
        struct weir__peer again;

        FUZZ_CHECK(peer->family == expected->family && memcmp(peer->address, expected->address, sizeof peer->address) == 0);
        weir__peer_write(peer, false, text);
        FUZZ_CHECK(weir__peer_read(&again, text, strlen(text)) == (peer->family != WEIR__PEER_UNKNOWN));
        FUZZ_CHECK(again.family == peer->family && memcmp(again.address, peer->address, sizeof again.address) == 0);
}

/* Reads the list as the library should.  Returns what it should say; 1 when it is too long for here. */
static int
read_proxies(struct proxies *proxies, const char *list)
{
        struct fuzz_input rest = {list, strlen(list)}, member;
        bool is_wrong = !fuzz_is_token((struct fuzz_input){proxies->field, strlen(proxies->field)});

        proxies->is_forwarded = strcasecmp(proxies->field, "Forwarded") == 0;
        while (previous_member(&rest, &member)) {
                if (proxies->count == NETWORKS) {
                        return 1;
                }
                is_wrong |= !read_network(member, &proxies->networks[proxies->count++]);
        }
        return is_wrong ? -EINVAL : 0;
}

static void
try_client(const struct proxies *known, const struct weir__proxies *proxies, struct fuzz_input input)
{
        struct weir__field fields[LINES];
        struct weir__request request = {.fields = fields};
        struct weir__peer peer, client, expected;

        read_address(fuzz_take_line(&input), &peer);
        while (input.size > 0 && request.field_count < LINES) {
                struct fuzz_input line = fuzz_take_line(&input);
                bool is_other = line.size > 0 && *line.at == ':';

                fields[request.field_count++] = (struct weir__field){.name = is_other ? "Via" : known->field,
                                                                             .value = fuzz_string(line)};
        }
        expected = find_client(known, &request, peer);
        client = weir__forwarded_client(proxies, &request, &peer);
        check_peer(&client, &expected);
        FUZZ_CHECK(weir__proxies_have(proxies, &peer) == is_trusted(known->networks, known->count, &peer));
        while (request.field_count > 0) {
                free((char *)fields[--request.field_count].value);
        }
}

static void
try_forwarded(struct fuzz_input input)
{
        char *list = fuzz_string(fuzz_take_line(&input)), *field = fuzz_string(fuzz_take_line(&input));
        bool is_usual = strcmp(field, "-") == 0;
        struct proxies known = {.field = is_usual ? "X-Forwarded-For" : field};
        struct weir__proxies *proxies = NULL;
        int expected = read_proxies(&known, list);

        if (expected <= 0) {
                FUZZ_CHECK(weir__proxies_new(list, is_usual ? NULL : field, &proxies) == expected);
        }
        if (expected == 0) {
                FUZZ_CHECK(!proxies == (known.count == 0));
                try_client(&known, proxies, input);
        }
        free(proxies);
        free(list);
        free(field);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        struct fuzz_input input = fuzz_input(data, size);

        if (fuzz_take_byte(&input) == 't') {
                try_target(input);
        } else {
                try_forwarded(input);
        }
        return 0;
}
