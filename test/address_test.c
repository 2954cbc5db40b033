/* test/address_test.c: the texts of addresses, what they mean, and names that are resolved or not. */
#include <errno.h>
#include <net/if.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include <arpa/inet.h>

#include "kernel/socket/address.h"
#include "test/support.h"

static struct weir__address address;
static const char *reason;

static int
parse(const char *text)
{
        return weir__address_parse(text, strlen(text), &address, &reason);
}

static int
parse_peer(const char *text)
{
        return weir__address_parse_peer(text, strlen(text), &address, &reason);
}

static const char *
printed(const struct weir__socket_address *name)
{
        static char text[WEIR__ADDRESS_TEXT];

        weir__address_print(name, text, sizeof text);
        return text;
}

/* -- getaddrinfo, which the linker replaces (test/CMakeLists.txt) -- */

static int answer, answer_errno; /* EAI_...; 0: the system's */
static unsigned questions;

int __real_getaddrinfo(const char *host, const char *port, const struct addrinfo *hints, struct addrinfo **found);
int __wrap_getaddrinfo(const char *host, const char *port, const struct addrinfo *hints, struct addrinfo **found);

int
__wrap_getaddrinfo(const char *host, const char *port, const struct addrinfo *hints, struct addrinfo **found)
{
        questions++;
        if (!answer)
                return __real_getaddrinfo(host, port, hints, found);
        errno = answer_errno;
        return answer;
}

/* -- texts -- */

static void
an_address_is_read_and_printed_the_same(void)
{
        static const struct {
                const char *text;
                enum weir__address_kind kind;
                const char *host, *printed; /* NULL: as the text */
                int port;
        } good[] = {
                {"127.0.0.1:80", WEIR__ADDRESS_LITERAL, "127.0.0.1", NULL, 80},
                {"0.0.0.0:0", WEIR__ADDRESS_LITERAL, "0.0.0.0", NULL, 0},
                {":65535", WEIR__ADDRESS_ANY, "", "0.0.0.0:65535", 65535},
                {"[::1]:443", WEIR__ADDRESS_LITERAL, "::1", NULL, 443},
                {"[::]:00080", WEIR__ADDRESS_LITERAL, "::", "[::]:80", 80},
                {"[2001:DB8::7]:1", WEIR__ADDRESS_LITERAL, "2001:DB8::7", "[2001:db8::7]:1", 1},
                {"[::ffff:1.2.3.4]:5", WEIR__ADDRESS_LITERAL, "::ffff:1.2.3.4", NULL, 5},
                {"[fe80::1%lo]:80", WEIR__ADDRESS_LITERAL, "fe80::1%lo", NULL, 80},
                {"[fe80::1%1]:80", WEIR__ADDRESS_LITERAL, "fe80::1%1", "[fe80::1%lo]:80", 80},
                {"[fe80::1%12345678]:80", WEIR__ADDRESS_LITERAL, "fe80::1%12345678", NULL, 80},
                {"unix:/tmp/a b:c", WEIR__ADDRESS_UNIX, "", NULL, 0},
                {"unix:relative", WEIR__ADDRESS_UNIX, "", NULL, 0},
                {"unix:@hidden", WEIR__ADDRESS_UNIX, "", NULL, 0},
        };

        for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
                CU_ASSERT_EQUAL(parse(good[i].text), 0);
                CU_ASSERT_EQUAL(address.kind, good[i].kind);
                CU_ASSERT_EQUAL(address.port, good[i].port);
                CU_ASSERT_STRING_EQUAL(address.host, good[i].host);
                CU_ASSERT_STRING_EQUAL(printed(&address.name), good[i].printed ? good[i].printed : good[i].text);
                CU_ASSERT_EQUAL(weir__socket_port(&address.name) != NULL, address.kind != WEIR__ADDRESS_UNIX);
        }
        CU_ASSERT_EQUAL(questions, 0);
}

static void
the_text_need_not_be_terminated(void)
{
        static const char text[] = "10.0.0.1:8012,10.0.0.2:80";

        CU_ASSERT_EQUAL(weir__address_parse(text, 11, &address, &reason), 0);
        CU_ASSERT_STRING_EQUAL(printed(&address.name), "10.0.0.1:80");
        CU_ASSERT_EQUAL(weir__address_parse("unix:/abc", 7, &address, &reason), 0);
        CU_ASSERT_STRING_EQUAL(printed(&address.name), "unix:/a");
        CU_ASSERT_EQUAL(weir__address_parse("", 0, &address, &reason), -EINVAL);
}

static void
a_name_is_not_resolved_while_it_is_read(void)
{
        static const char *const names[] = {"example.org:80", "localhost:1", "127.1:80", "010.0.0.1:80", "_srv.a-b.example:9"};

        for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
                CU_ASSERT_EQUAL(parse(names[i]), 0);
                CU_ASSERT_EQUAL(address.kind, WEIR__ADDRESS_NAME);
                CU_ASSERT(strncmp(address.host, names[i], strlen(address.host)) == 0);
                CU_ASSERT_EQUAL(names[i][strlen(address.host)], ':');
        }
        CU_ASSERT_EQUAL(questions, 0);
}

/* Texts of a few pieces, half of which are addresses. */
static void
an_address_of_ipv4_is_what_the_system_says(void)
{
        static const char *const pieces[] = {"0",  "1",    "9", "10", "25", "255", "256", "00",
                                             "01", "1000", "",  "x",  " ",  "-1",  "1.2"};
        struct weir_test_random random = {weir_test_seed()};
        const struct sockaddr_in *four = (const struct sockaddr_in *)&address.name.storage;
        unsigned good = 0;

        for (unsigned i = 0; i < 20000; i++) {
                char host[64] = "", text[80];
                size_t parts = weir_test_random_below(&random, 4) ? 4 : 1 + weir_test_random_below(&random, 5);
                size_t few = weir_test_random_below(&random, 2) ? 6 : sizeof pieces / sizeof *pieces;
                struct in_addr expected;

                for (size_t part = 0; part < parts; part++)
                        snprintf(host + strlen(host), sizeof host - strlen(host), "%s%s", part ? "." : "",
                                 pieces[weir_test_random_below(&random, few)]);
                snprintf(text, sizeof text, "%s:80", host);
                bool is_address = inet_pton(AF_INET, host, &expected) == 1;
                bool is_read = parse(text) == 0 && address.kind == WEIR__ADDRESS_LITERAL;
                CU_ASSERT_EQUAL(is_read, is_address);
                if (is_address && is_read)
                        CU_ASSERT_EQUAL(four->sin_addr.s_addr, expected.s_addr);
                good += is_address;
        }
        CU_ASSERT(good > 1000);
}

static void
a_wrong_text_says_what_was_expected(void)
{
        char host[300], path[300];
        const struct {
                const char *text, *reason; /* NULL: none of the forms */
        } wrong[] = {
                {"", NULL},
                {"nonsense", NULL},
                {"tls", NULL},
                {"host:", "a port is"},
                {":", "a port is"},
                {"host:http", "a port is"},
                {"host:-1", "a port is"},
                {"host:+1", "a port is"},
                {"host:65536", "a port is"},
                {"host:000080", "a port is"},
                {"host:80 ", "a port is"},
                {"::1:80", "in brackets"},
                {"http://host:80", "in brackets"},
                {"[::1:80", "brackets enclose"},
                {"[]:80", "brackets enclose"},
                {"[:80", "brackets enclose"},
                {"[fe80::1%nowhere]:80", "no network interface"},
                {"[fe80::1%]:80", "no network interface"},
                {"[fe80::1%0]:80", "no network interface"},
                {"[fe80::1%1x]:80", "no network interface"},
                {"[fe80::1%4294967296]:80", "no network interface"},
                {"a b:80", "no spaces"},
                {"a\nb:80", "no spaces"},
                {"a\x7f:80", "no spaces"},
                {host, "at most 255"},
                {"unix:", "a path"},
                {"unix:@", "a path"},
        };

        memset(host, 'a', sizeof host);
        strcpy(host + 256, ":80");
        for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
                reason = "";
                CU_ASSERT_EQUAL(parse(wrong[i].text), -EINVAL);
                bool is_said = wrong[i].reason ? reason && strstr(reason, wrong[i].reason) : !reason;
                CU_ASSERT_TRUE(is_said);
                if (!is_said)
                        printf("\n    %s: %s\n", wrong[i].text, reason ? reason : "no reason");
        }
        strcpy(host + 255, ":80");
        CU_ASSERT_EQUAL(parse(host), 0);
        memset(path, 'p', sizeof path);
        memcpy(path, "unix:", 5);
        path[5 + sizeof address.name.un.sun_path] = '\0';
        CU_ASSERT_EQUAL(parse(path), -ENAMETOOLONG);
        path[5 + sizeof address.name.un.sun_path - 1] = '\0';
        CU_ASSERT_EQUAL(parse(path), 0);
        CU_ASSERT_STRING_EQUAL(printed(&address.name), path);
}

static void
a_peer_has_a_host_and_a_port(void)
{
        CU_ASSERT_EQUAL(parse_peer("127.0.0.1:1"), 0);
        CU_ASSERT_EQUAL(parse_peer("example.org:443"), 0);
        CU_ASSERT_EQUAL(parse_peer("unix:/a"), 0);
        CU_ASSERT_EQUAL(parse_peer("127.0.0.1:0"), -EINVAL);
        CU_ASSERT_STRING_EQUAL(reason, "a connection needs a port from 1 to 65535");
        CU_ASSERT_EQUAL(parse_peer(":80"), -EINVAL);
        CU_ASSERT_STRING_EQUAL(reason, "a connection needs a host: host:port");
        CU_ASSERT_EQUAL(parse_peer("[::1]"), -EINVAL);
}

static void
tls_stands_before_an_address(void)
{
        static const struct {
                const char *text, *rest;
                bool has_tls;
        } cases[] = {
                {"tls:host:443", "host:443", true},
                {"tls:[::1]:443", "[::1]:443", true},
                {"tls:unix:/a", "unix:/a", true},
                {"tls:443", "tls:443", false},
                {"host:443", "host:443", false},
                {"TLS:host:443", "TLS:host:443", false},
                {"tls", "tls", false},
                {"tls:", "tls:", false},
                {"tls::", ":", true},
        };

        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
                const char *text = cases[i].text;
                size_t size = strlen(text);

                CU_ASSERT_EQUAL(weir__address_take_tls(&text, &size), cases[i].has_tls);
                CU_ASSERT_STRING_EQUAL(text, cases[i].rest);
                CU_ASSERT_EQUAL(size, strlen(text));
        }
}

static void
what_cannot_be_shown_is_a_question_mark(void)
{
        struct weir__socket_address name = {.un = {.sun_family = AF_UNIX, .sun_path = "\0a\0b\n"},
                                            .size = offsetof(struct sockaddr_un, sun_path) + 5};
        char small[8];

        CU_ASSERT_STRING_EQUAL(printed(&name), "unix:@a?b?");
        name.size = sizeof(sa_family_t);
        CU_ASSERT_STRING_EQUAL(printed(&name), "unix:");
        name.any.sa_family = AF_UNSPEC;
        CU_ASSERT_STRING_EQUAL(printed(&name), "an address of family 0");
        CU_ASSERT_EQUAL(parse("127.0.0.1:80"), 0);
        weir__address_print(&address.name, small, sizeof small);
        CU_ASSERT_STRING_EQUAL(small, "127.0.0");
        /* All bytes of sun_path may be used, without a NUL. */
        memset(&name, 'x', sizeof name);
        name.any.sa_family = AF_UNIX;
        name.size = sizeof name.un;
        CU_ASSERT_EQUAL(strlen(printed(&name)), 5 + sizeof name.un.sun_path);
}

/* -- names -- */

static void
a_literal_is_its_own_only_address(void)
{
        struct weir__socket_address names[4];

        CU_ASSERT_EQUAL(parse("[::1]:443"), 0);
        CU_ASSERT_EQUAL(weir__address_resolve(&address, false, names, 4, &reason), 1);
        CU_ASSERT_TRUE(weir__socket_same_name(names, &address.name));
        CU_ASSERT_EQUAL(questions, 0);
}

static void
a_name_has_one_address_or_several(void)
{
        struct weir__socket_address names[8];

        questions = 0;
        CU_ASSERT_EQUAL(parse("localhost:443"), 0);
        int count = weir__address_resolve(&address, false, names, 8, &reason);
        CU_ASSERT(count >= 1 && count <= 8);
        for (int i = 0; i < count; i++) {
                CU_ASSERT_EQUAL(ntohs(*weir__socket_port(&names[i])), 443);
                for (int j = 0; j < i; j++)
                        CU_ASSERT_FALSE(weir__socket_same_name(&names[i], &names[j]));
        }
        CU_ASSERT_EQUAL(weir__address_resolve(&address, true, names, 1, &reason), 1);
        CU_ASSERT_EQUAL(questions, 2);
}

static void
a_name_without_an_address_says_why(void)
{
        static const struct {
                int answer, error, status;
        } cases[] = {
                {EAI_NONAME, 0, -ENOENT}, {EAI_AGAIN, 0, -EAGAIN},       {EAI_FAIL, 0, -EINVAL},   {EAI_MEMORY, 0, -ENOMEM},
                {EAI_FAMILY, 0, -EINVAL}, {EAI_SYSTEM, EMFILE, -EMFILE}, {EAI_SYSTEM, 0, -EINVAL},
#ifdef EAI_NODATA
                {EAI_NODATA, 0, -ENOENT},
#endif
        };
        struct weir__socket_address names[4];
        struct rlimit limit;

        CU_ASSERT_EQUAL(parse("weir.example:443"), 0);
        CU_ASSERT_EQUAL(getrlimit(RLIMIT_NOFILE, &limit), 0);
        answer = EAI_NONAME; /* the C library says so when it could not open a file */
        CU_ASSERT_EQUAL(setrlimit(RLIMIT_NOFILE, &(struct rlimit){.rlim_max = limit.rlim_max}), 0);
        CU_ASSERT_EQUAL(weir__address_resolve(&address, false, names, 4, &reason), -EMFILE);
        CU_ASSERT_EQUAL(setrlimit(RLIMIT_NOFILE, &limit), 0);
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
                answer = cases[i].answer;
                answer_errno = cases[i].error;
                CU_ASSERT_EQUAL(weir__address_resolve(&address, false, names, 4, &reason), cases[i].status);
                CU_ASSERT_EQUAL(reason != NULL, answer != EAI_MEMORY && answer != EAI_SYSTEM);
        }
        answer = 0;
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(an_address_is_read_and_printed_the_same),
                WEIR_TEST(the_text_need_not_be_terminated),
                WEIR_TEST(a_name_is_not_resolved_while_it_is_read),
                WEIR_TEST(an_address_of_ipv4_is_what_the_system_says),
                WEIR_TEST(a_wrong_text_says_what_was_expected),
                WEIR_TEST(a_peer_has_a_host_and_a_port),
                WEIR_TEST(tls_stands_before_an_address),
                WEIR_TEST(what_cannot_be_shown_is_a_question_mark),
                WEIR_TEST(a_literal_is_its_own_only_address),
                WEIR_TEST(a_name_has_one_address_or_several),
                WEIR_TEST(a_name_without_an_address_says_why),
        };

        return weir_test_main("address", tests, sizeof tests / sizeof *tests);
}
