/* test/forwarded_test.c: addresses, lists of trusted proxies, and the search for the client of a request. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/un.h>

#include "protocol/field/forwarded.h"
#include "test/support.h"

/* -- addresses -- */

static struct weir__peer
peer_of(const char *text)
{
        struct weir__peer peer;

        CU_ASSERT_TRUE_FATAL(weir__peer_read(&peer, text, strlen(text)));
        return peer;
}

static const char *
shown(const struct weir__peer *peer, bool with_port)
{
        static char text[WEIR__PEER_ROOM];

        weir__peer_write(peer, with_port, text);
        return text;
}

#define ASSERT_SHOWN(text, expected)                                      \
        do {                                                              \
                struct weir__peer peer_ = peer_of(text);                  \
                CU_ASSERT_STRING_EQUAL(shown(&peer_, false), (expected)); \
        } while (0)

static void
an_address_is_shown_in_one_way(void)
{
        ASSERT_SHOWN("192.0.2.1", "192.0.2.1");
        ASSERT_SHOWN("2001:DB8:0:0::1", "2001:db8::1");
        ASSERT_SHOWN("::1", "::1");
        ASSERT_SHOWN("::", "::");
        ASSERT_SHOWN("::ffff:192.0.2.1", "192.0.2.1");
        ASSERT_SHOWN("::ffff:c000:201", "192.0.2.1");
        ASSERT_SHOWN("unix:", "unix:");
        ASSERT_SHOWN("ffff:ffff:ffff:ffff:ffff:ffff:255.255.255.255", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff");
}

static void
an_invalid_address_is_refused(void)
{
        static const char *const bad[] = {
                "",          "a",         "1",         "1.2.3",
                "1.2.3.4.5", "1.2.3.256", "01.2.3.4",  "1.2.3.4 ",
                " 1.2.3.4",  "1.2.3.4/8", "[::1]",     "::1%eth0",
                "1:2:3:4",   ":::",       "::g",       "unix",
                "unix:/a",   "1.2.3.4:5", "0x1.2.3.4", "ffff:ffff:ffff:ffff:ffff:ffff:255.255.255.255.255.255.255.255.255"};
        struct weir__peer peer;

        for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
                CU_ASSERT_FALSE(weir__peer_read(&peer, bad[i], strlen(bad[i])));
        }
        CU_ASSERT_FALSE(weir__peer_read(&peer, "::1\0", 4));
}

static void
a_socket_s_address_becomes_a_peer(void)
{
        struct sockaddr_storage storage = {0};
        struct sockaddr_in *v4 = (struct sockaddr_in *)&storage;
        struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)&storage;
        struct weir__peer peer;

        v4->sin_family = AF_INET;
        v4->sin_port = htons(5678);
        inet_pton(AF_INET, "192.0.2.1", &v4->sin_addr);
        peer = weir__peer_of(&storage, sizeof *v4);
        CU_ASSERT_STRING_EQUAL(shown(&peer, true), "192.0.2.1:5678");
        peer = weir__peer_of(&storage, sizeof *v4 - 1);
        CU_ASSERT_STRING_EQUAL(shown(&peer, true), "unknown");
        v6->sin6_family = AF_INET6;
        v6->sin6_port = htons(4711);
        inet_pton(AF_INET6, "2001:db8::1", &v6->sin6_addr);
        peer = weir__peer_of(&storage, sizeof *v6);
        CU_ASSERT_STRING_EQUAL(shown(&peer, true), "[2001:db8::1]:4711");
        CU_ASSERT_STRING_EQUAL(shown(&peer, false), "2001:db8::1");
        inet_pton(AF_INET6, "::ffff:192.0.2.1", &v6->sin6_addr);
        peer = weir__peer_of(&storage, sizeof *v6);
        CU_ASSERT_STRING_EQUAL(shown(&peer, true), "192.0.2.1:4711");
        storage.ss_family = AF_UNIX;
        peer = weir__peer_of(&storage, sizeof(sa_family_t));
        CU_ASSERT_STRING_EQUAL(shown(&peer, true), "unix:");
        peer = weir__peer_of(&storage, 0);
        CU_ASSERT_STRING_EQUAL(shown(&peer, false), "unknown");
}

static void
the_longest_address_has_room(void)
{
        struct weir__peer peer = {.family = WEIR__PEER_V6, .port = 65535};

        memset(peer.address, 0xab, sizeof peer.address);
        CU_ASSERT_STRING_EQUAL(shown(&peer, true), "[abab:abab:abab:abab:abab:abab:abab:abab]:65535");
        CU_ASSERT_EQUAL(sizeof peer, 20);
}

/* -- trusted proxies -- */

static struct weir__proxies *
proxies_of(const char *list, const char *field)
{
        struct weir__proxies *proxies = NULL;

        CU_ASSERT_EQUAL_FATAL(weir__proxies_new(list, field, &proxies), 0);
        return proxies;
}

static bool
trusts(const char *list, const char *address)
{
        struct weir__proxies *proxies = proxies_of(list, NULL);
        struct weir__peer peer = peer_of(address);
        bool have = weir__proxies_have(proxies, &peer);

        free(proxies);
        return have;
}

static void
an_address_in_the_list_is_trusted(void)
{
        CU_ASSERT_TRUE(trusts("127.0.0.1", "127.0.0.1"));
        CU_ASSERT_FALSE(trusts("127.0.0.1", "127.0.0.2"));
        CU_ASSERT_TRUE(trusts(" ,192.0.2.1 ,\t::1,, unix: ", "::1"));
        CU_ASSERT_TRUE(trusts("192.0.2.1, ::1, unix:", "unix:"));
        CU_ASSERT_TRUE(trusts("192.0.2.1, ::1, unix:", "192.0.2.1"));
        CU_ASSERT_FALSE(trusts("192.0.2.1, ::1", "unix:"));
        CU_ASSERT_FALSE(trusts("unix:", "::"));
        CU_ASSERT_FALSE(trusts("::", "unix:"));
}

static void
a_network_has_all_that_share_its_prefix(void)
{
        CU_ASSERT_TRUE(trusts("10.0.0.0/8", "10.255.255.255"));
        CU_ASSERT_FALSE(trusts("10.0.0.0/8", "11.0.0.0"));
        CU_ASSERT_TRUE(trusts("192.168.128.0/17", "192.168.255.1"));
        CU_ASSERT_FALSE(trusts("192.168.128.0/17", "192.168.127.255"));
        CU_ASSERT_TRUE(trusts("192.0.2.1/32", "192.0.2.1"));
        CU_ASSERT_TRUE(trusts("192.0.2.0/31", "192.0.2.1"));
        CU_ASSERT_FALSE(trusts("192.0.2.0/31", "192.0.2.2"));
        CU_ASSERT_TRUE(trusts("fd00::/8", "fdff::1"));
        CU_ASSERT_FALSE(trusts("fd00::/8", "fc00::1"));
        CU_ASSERT_TRUE(trusts("2001:db8:8000::/33", "2001:db8:ffff::"));
        CU_ASSERT_FALSE(trusts("2001:db8:8000::/33", "2001:db8:7fff::"));
        CU_ASSERT_TRUE(trusts("::1/128", "::1"));
}

static void
all_of_one_family_is_none_of_the_other(void)
{
        CU_ASSERT_TRUE(trusts("0.0.0.0/0", "255.0.0.1"));
        CU_ASSERT_TRUE(trusts("0.0.0.0/0", "::ffff:255.0.0.1"));
        CU_ASSERT_FALSE(trusts("0.0.0.0/0", "::1"));
        CU_ASSERT_TRUE(trusts("::/0", "ffff::1"));
        CU_ASSERT_FALSE(trusts("::/0", "127.0.0.1"));
        CU_ASSERT_FALSE(trusts("::/0", "unix:"));
        CU_ASSERT_TRUE(trusts("::ffff:10.0.0.0/104", "10.1.2.3"));
        CU_ASSERT_FALSE(trusts("::ffff:10.0.0.0/104", "11.1.2.3"));
        CU_ASSERT_TRUE(trusts("::ffff:10.0.0.1", "10.0.0.1"));
}

static void
nobody_is_trusted_by_an_empty_list(void)
{
        struct weir__peer peer = peer_of("::1");

        CU_ASSERT_FALSE(trusts(NULL, "127.0.0.1"));
        CU_ASSERT_FALSE(trusts("", "127.0.0.1"));
        CU_ASSERT_FALSE(trusts(" , ", "::"));
        CU_ASSERT_FALSE(weir__proxies_have(NULL, &peer));
}

static void
a_list_with_a_mistake_is_refused(void)
{
        static const char *const bad[] = {"a",
                                          "127.0.0.1 ::1",
                                          "10.0.0.0/33",
                                          "10.0.0.0/",
                                          "10.0.0.0/-1",
                                          "10.0.0.0/+8",
                                          "10.0.0.0/08x",
                                          "10.0.0.0/0008",
                                          "10.0.0.1/8",
                                          "::1/127",
                                          "::/129",
                                          "unix:/0",
                                          "unix:/run/a",
                                          "[::1]",
                                          "127.0.0.1, b",
                                          "::ffff:0.0.0.0/95",
                                          "10/8",
                                          "10.0.0.0/8/8",
                                          "127.0.0.1:80",
                                          "localhost",
                                          "/",
                                          "/8",
                                          "*",
                                          "10.0.0.0 /8",
                                          "10.0.0.0/ 8"};
        struct weir__proxies *untouched = (struct weir__proxies *)&untouched, *proxies = untouched;

        for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
                CU_ASSERT_EQUAL(weir__proxies_new(bad[i], NULL, &proxies), -EINVAL);
        }
        CU_ASSERT_EQUAL(weir__proxies_new("::1", "", &proxies), -EINVAL);
        CU_ASSERT_EQUAL(weir__proxies_new("::1", "X Y", &proxies), -EINVAL);
        CU_ASSERT_EQUAL(weir__proxies_new(NULL, "X:", &proxies), -EINVAL);
        CU_ASSERT_PTR_EQUAL(proxies, untouched);
}

/* Bit by bit, in another way than the library. */
static bool
is_within(const uint8_t *address, const uint8_t *network, unsigned bits)
{
        for (unsigned bit = 0; bit < bits; bit++) {
                if ((address[bit / 8] ^ network[bit / 8]) & (0x80 >> bit % 8)) {
                        return false;
                }
        }
        return true;
}

static void
random_networks_have_what_a_model_says(void)
{
        struct weir_test_random random = {weir_test_seed()};
        unsigned within = 0;

        for (unsigned turn = 0; turn < 20000; turn++) {
                bool is_v4 = weir_test_random_below(&random, 2);
                unsigned size = is_v4 ? 4 : 16, bits = (unsigned)weir_test_random_below(&random, 8 * size + 1);
                uint8_t network[16], address[16];
                char text[64], list[100];

                for (unsigned i = 0; i < size; i++) {
                        network[i] = (uint8_t)weir_test_random(&random);
                }
                for (unsigned bit = bits; bit < 8 * size; bit++) {
                        network[bit / 8] &= (uint8_t) ~(0x80 >> bit % 8);
                }
                memcpy(address, network, size);
                for (unsigned i = 0; i < 3; i++) {
                        unsigned bit = (unsigned)weir_test_random_below(&random, 8 * size);

                        address[bit / 8] ^= (uint8_t)(0x80 >> bit % 8);
                }
                inet_ntop(is_v4 ? AF_INET : AF_INET6, network, text, sizeof text);
                snprintf(list, sizeof list, "%s/%u", text, bits);
                inet_ntop(is_v4 ? AF_INET : AF_INET6, address, text, sizeof text);
                bool is = is_within(address, network, bits);
                within += is;
                CU_ASSERT_EQUAL_FATAL(trusts(list, text), is);
        }
        CU_ASSERT_TRUE(within > 1000);
}

/* -- whom they name -- */

#define NEAR "10.0.0.1"

/* The client of a request from NEAR with those lines of the field. */
static const char *
client_of(const char *field, const char *const lines[3])
{
        struct weir__field fields[7] = {{"X-Forwarded", "6.6.6.6"}};
        struct weir__request request = {.fields = fields, .field_count = 1};
        struct weir__proxies *proxies = proxies_of("10.0.0.0/8, ::1, unix:", field);
        struct weir__peer peer = peer_of(NEAR);

        for (unsigned i = 0; i < 3 && lines[i]; i++) {
                fields[request.field_count++] = (struct weir__field){field, lines[i]};
                fields[request.field_count++] = (struct weir__field){"X-Forwarded-Forr", "6.6.6.6"};
        }
        peer = weir__forwarded_client(proxies, &request, &peer);
        free(proxies);
        return shown(&peer, false);
}

#define LINES(...)               ((const char *const[3]){__VA_ARGS__})
#define XFF(expected, ...)       CU_ASSERT_STRING_EQUAL(client_of("x-forwarded-for", LINES(__VA_ARGS__)), (expected))
#define FORWARDED(expected, ...) CU_ASSERT_STRING_EQUAL(client_of("FORWARDED", LINES(__VA_ARGS__)), (expected))

static void
the_last_stranger_is_the_client(void)
{
        XFF(NEAR, NULL);
        XFF("192.0.2.1", "192.0.2.1");
        XFF("192.0.2.1", "6.6.6.6, 192.0.2.1");
        XFF("192.0.2.1", "6.6.6.6, 192.0.2.1, 10.0.0.2,10.1.2.3 , ::1");
        XFF("2001:db8::1", "6.6.6.6, 2001:DB8::1, unix:");
        XFF("192.0.2.1", "10.0.0.3, 192.0.2.1, 10.0.0.2"); /* he says that he is another proxy of ours */
}

static void
lines_follow_one_another(void)
{
        XFF("192.0.2.1", "6.6.6.6", "192.0.2.1", "10.0.0.2");
        XFF("192.0.2.1", "6.6.6.6, 192.0.2.1", "", "10.0.0.2");
        XFF("192.0.2.1", "192.0.2.1,", " , ,", ",10.0.0.2");
}

static void
where_all_are_proxies_the_farthest_is_the_client(void)
{
        XFF("10.0.0.3", "10.0.0.3, 10.0.0.2");
        XFF("unix:", "unix:, 10.0.0.2");
        XFF(NEAR, "", ",");
}

static void
an_invalid_address_ends_the_search_at_the_proxy_that_sent_it(void)
{
        XFF(NEAR, "192.0.2.1, unknown");
        XFF("10.0.0.2", "192.0.2.1, 300.1.1.1, 10.0.0.2");
        XFF("10.0.0.2", "192.0.2.1 10.0.0.3, 10.0.0.2");
        XFF(NEAR, "192.0.2.1:99999");
        XFF(NEAR, "192.0.2.1:");
        XFF(NEAR, "192.0.2.1:1x");
        XFF(NEAR, "[192.0.2.1]");
        XFF(NEAR, "[unix:]");
        XFF(NEAR, "[::2");
        XFF(NEAR, "::2]");
        XFF(NEAR, "[]");
        XFF(NEAR, "[");
        XFF(NEAR, ":80");
        XFF(NEAR, "[::2]x");
        XFF(NEAR, "fe80::1%eth0");
        XFF(NEAR, "\"192.0.2.1\"");
}

static void
a_port_is_not_part_of_the_client(void)
{
        XFF("192.0.2.1", "192.0.2.1:80");
        XFF("192.0.2.1", "192.0.2.1:80, 10.0.0.2:65535");
        XFF("2001:db8::1", "[2001:db8::1]:443, [::1]:1");
        XFF("2001:db8::1", "[2001:db8::1]");
        XFF("192.0.2.1", "[::ffff:192.0.2.1]:80");
}

static void
a_stranger_is_not_believed(void)
{
        struct weir__field field = {"X-Forwarded-For", "6.6.6.6"};
        struct weir__request request = {.fields = &field, .field_count = 1};
        struct weir__proxies *proxies = proxies_of("10.0.0.0/8", NULL);
        struct weir__peer near = peer_of(NEAR), far = peer_of("192.0.2.1"), client;

        client = weir__forwarded_client(proxies, &request, &far);
        CU_ASSERT_STRING_EQUAL(shown(&client, false), "192.0.2.1");
        client = weir__forwarded_client(NULL, &request, &near);
        CU_ASSERT_STRING_EQUAL(shown(&client, false), NEAR);
        client = weir__forwarded_client(proxies, &request, &near);
        CU_ASSERT_STRING_EQUAL(shown(&client, false), "6.6.6.6");
        field.name = "Forwarded"; /* not the one they write */
        field.value = "for=6.6.6.6";
        client = weir__forwarded_client(proxies, &request, &near);
        CU_ASSERT_STRING_EQUAL(shown(&client, false), NEAR);
        free(proxies);
}

static void
forwarded_has_a_grammar_of_its_own(void)
{
        FORWARDED("192.0.2.1", "for=192.0.2.1");
        FORWARDED("192.0.2.1", "For=6.6.6.6, for=192.0.2.1;proto=http;by=203.0.113.43, FOR=10.0.0.2");
        FORWARDED("192.0.2.1", "proto=https;host=\"a;b\\\"c\";for=\"192.0.2.1:80\"");
        FORWARDED("2001:db8::1", "for=\"[2001:DB8::1]:4711\"", "for=\"[::1]\";by=_hidden");
        FORWARDED("192.0.2.1", "for=\"192.0.2.1\"");
        FORWARDED("10.0.0.2", "for=192.0.2.1, for=unknown, for=10.0.0.2");
        FORWARDED(NEAR, "for=_hidden");
}

static void
an_invalid_field_names_no_client(void)
{
        static const char *const bad[] = {
                "192.0.2.1",
                "for",
                "for=",
                "=192.0.2.1",
                "for =192.0.2.1",
                "for= 192.0.2.1",
                "for=192.0.2.1;",
                ";for=192.0.2.1",
                "for=192.0.2.1;proto",
                "for=192.0.2.1;proto=",
                "for=192.0.2.1 ;proto=http",
                "for=192.0.2.1; proto=http",
                "by=192.0.2.1",
                "for=192.0.2.1;for=192.0.2.1",
                "for=\"192.0.2.1",
                "for=192.0.2.1\"",
                "for=\"",
                "for=\"\"",
                "for=\"\\",
                "for=\"1\\92.0.2.1\"",
                "for=\"2001:db8::1\"",
                "for=[::2]",
                "for=192.0.2.1:80",
                "for=\"192.0.2.1\"x",
                "for=\"[192.0.2.1]\"",
                "fort=192.0.2.1",
                "fo=192.0.2.1",
                "for=\"192.0.2.1:_port\"",
                "for=\"unix:\"",
                "=x;for=192.0.2.1",
                "for:192.0.2.1",
                "for/192.0.2.1",
        };

        for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
                FORWARDED(NEAR, bad[i]);
        }
}

static void
an_open_quote_hides_nothing(void)
{
        FORWARDED("192.0.2.1", "for=\"6.6.6.6, for=192.0.2.1");
        FORWARDED("192.0.2.1", "for=6.6.6.6;by=\"", "for=192.0.2.1");
        FORWARDED("192.0.2.1", "for=6.6.6.6;by=\"\\, for=192.0.2.1, for=10.0.0.2");
        FORWARDED(NEAR, "for=192.0.2.1;host=\"a,for=6.6.6.6\"");
        FORWARDED(NEAR, "for=192.0.2.1;host=\"a,for=6.6.6.6;x=\"");
        FORWARDED(NEAR, "for=192.0.2.1;host=\"a,for=6.6.6.6;x=\\\"\"");
        FORWARDED(NEAR, "for=192.0.2.1;host=\"a,for=6.6.6.6;x=\\\"y\\\"\";proto=http");
}

/* Any bytes: an answer, which is an address, and never one from before the last stranger. */
static void
any_line_is_read_without_harm(void)
{
        static const char *const pieces[] = {"for=",  ",",   ",", ";",   "\"",        "\\",    "10.0.0.2",
                                             "[::1]", ":80", " ", "by=", "192.0.2.1", "unix:", "_x"};
        struct weir_test_random random = {weir_test_seed()};

        for (unsigned turn = 0; turn < 20000; turn++) {
                char *line = calloc(1, 1);
                struct weir__peer peer;

                for (size_t i = weir_test_random_below(&random, 12); i > 0; i--) {
                        const char *piece = pieces[weir_test_random_below(&random, sizeof pieces / sizeof *pieces)];

                        line = realloc(line, strlen(line) + strlen(piece) + 1);
                        strcat(line, piece);
                }
                const char *client = client_of(turn % 2 ? "Forwarded" : "X-Forwarded-For", (const char *const[3]){line, line});
                CU_ASSERT_TRUE(weir__peer_read(&peer, client, strlen(client)));
                char behind[300];
                snprintf(behind, sizeof behind, turn % 2 ? "%s, for=203.0.113.9, for=10.9.9.9" : "%s, 203.0.113.9, 10.9.9.9",
                         line);
                client = client_of(turn % 2 ? "Forwarded" : "X-Forwarded-For", (const char *const[3]){line, behind});
                CU_ASSERT_STRING_EQUAL(client, "203.0.113.9");
                free(line);
        }
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(an_address_is_shown_in_one_way),
                WEIR_TEST(an_invalid_address_is_refused),
                WEIR_TEST(a_socket_s_address_becomes_a_peer),
                WEIR_TEST(the_longest_address_has_room),
                WEIR_TEST(an_address_in_the_list_is_trusted),
                WEIR_TEST(a_network_has_all_that_share_its_prefix),
                WEIR_TEST(all_of_one_family_is_none_of_the_other),
                WEIR_TEST(nobody_is_trusted_by_an_empty_list),
                WEIR_TEST(a_list_with_a_mistake_is_refused),
                WEIR_TEST(random_networks_have_what_a_model_says),
                WEIR_TEST(the_last_stranger_is_the_client),
                WEIR_TEST(lines_follow_one_another),
                WEIR_TEST(where_all_are_proxies_the_farthest_is_the_client),
                WEIR_TEST(an_invalid_address_ends_the_search_at_the_proxy_that_sent_it),
                WEIR_TEST(a_port_is_not_part_of_the_client),
                WEIR_TEST(a_stranger_is_not_believed),
                WEIR_TEST(forwarded_has_a_grammar_of_its_own),
                WEIR_TEST(an_invalid_field_names_no_client),
                WEIR_TEST(an_open_quote_hides_nothing),
                WEIR_TEST(any_line_is_read_without_harm),
        };

        return weir_test_main("forwarded", tests, sizeof tests / sizeof *tests);
}
