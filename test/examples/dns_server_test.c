/* test/examples/dns_server_test.c: queries made by hand, right and wrong ones. */
#include "test/examples/program.h"

#include "examples/dns-server.c"
#undef main

#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

/* A query for a name that is given by its labels: "\3www\7example". */
static size_t
make_query(unsigned char *out, const char *name, unsigned type)
{
        size_t size = strlen(name) + 1;

        memset(out, 0, HEADER);
        write_16(out, 0xabcd);
        out[2] = 1; /* recursion is desired */
        write_16(out + 4, 1);
        memcpy(out + HEADER, name, size);
        write_16(out + HEADER + size, type);
        write_16(out + HEADER + size + 2, CLASS_IN);
        return HEADER + size + 4;
}

static void
fill_table(void)
{
        host_count = 0;
        CU_ASSERT(add_host("www.example=192.0.2.1"));
        CU_ASSERT(add_host("www.example=2001:db8::1"));
        CU_ASSERT(add_host("www.example=192.0.2.2"));
        CU_ASSERT(add_host("mail.example=192.0.2.3"));
        CU_ASSERT(!add_host("mail.example"));
        CU_ASSERT(!add_host("=192.0.2.3"));
        CU_ASSERT(!add_host("mail.example=192.0.2"));
}

static void
addresses_are_answered(void)
{
        unsigned char query[600], reply[REPLY_MAX];

        fill_table();
        size_t size = make_query(query, "\3wWw\7exAmple", TYPE_A);
        size_t got = answer(query, size, reply);
        CU_ASSERT_EQUAL(got, size + 2 * 16);
        CU_ASSERT_EQUAL(read_16(reply), 0xabcd);
        CU_ASSERT_EQUAL(read_16(reply + 2), 0x8500);
        CU_ASSERT_EQUAL(read_16(reply + 6), 2);
        CU_ASSERT(memcmp(reply + HEADER, query + HEADER, size - HEADER) == 0);
        CU_ASSERT(memcmp(reply + size + 12, "\xc0\x00\x02\x01", 4) == 0);
        CU_ASSERT(memcmp(reply + size + 28, "\xc0\x00\x02\x02", 4) == 0);
        size = make_query(query, "\3www\7example", TYPE_AAAA);
        CU_ASSERT_EQUAL(answer(query, size, reply), size + 28);
        CU_ASSERT(memcmp(reply + size + 12, "\x20\x01\x0d\xb8", 4) == 0);
}

static void
what_is_not_there_is_said(void)
{
        unsigned char query[600], reply[REPLY_MAX];

        fill_table();
        size_t size = make_query(query, "\4mail\7example", TYPE_AAAA); /* the name is there, without such an address */
        CU_ASSERT_EQUAL(answer(query, size, reply), size);
        CU_ASSERT_EQUAL(reply[3], 0);
        CU_ASSERT_EQUAL(read_16(reply + 6), 0);
        size = make_query(query, "\3ftp\7example", TYPE_A);
        CU_ASSERT_EQUAL(answer(query, size, reply), size);
        CU_ASSERT_EQUAL(reply[3], NO_SUCH_NAME);
        size = make_query(query, "", TYPE_A);
        CU_ASSERT_EQUAL(answer(query, size, reply), size);
        CU_ASSERT_EQUAL(reply[3], NO_SUCH_NAME);
        size = make_query(query, "\13www.example", TYPE_A); /* one label with a dot is another name */
        CU_ASSERT_EQUAL(answer(query, size, reply), size);
        CU_ASSERT_EQUAL(reply[3], NO_SUCH_NAME);
}

/* Each has 12 bytes, and the code. */
static void
malformed_queries_are_refused(void)
{
        unsigned char query[600], reply[REPLY_MAX];

        fill_table();
        size_t size = make_query(query, "\3www\7example", TYPE_A);
        for (size_t cut = HEADER; cut < size; cut++) {
                CU_ASSERT_EQUAL(answer(query, cut, reply), HEADER);
                CU_ASSERT_EQUAL(reply[3], FORMAT_ERROR);
        }
        CU_ASSERT_EQUAL(answer(query, size + 1, reply), HEADER); /* more than one question */
        query[HEADER] = 0xc0;                                    /* a pointer to itself */
        query[HEADER + 1] = HEADER;
        CU_ASSERT_EQUAL(answer(query, size, reply), HEADER);
        CU_ASSERT_EQUAL(reply[3], FORMAT_ERROR);
        size = make_query(query, "\3www\7example", TYPE_A);
        query[5] = 2;
        CU_ASSERT_EQUAL(answer(query, size, reply), HEADER);
        query[5] = 1;
        query[2] |= 0x10; /* another opcode */
        CU_ASSERT_EQUAL(answer(query, size, reply), HEADER);
        CU_ASSERT_EQUAL(reply[3], NOT_IMPLEMENTED);
        query[2] = 0;
        query[size - 1] = 3; /* another class */
        CU_ASSERT_EQUAL(answer(query, size, reply), HEADER);
        CU_ASSERT_EQUAL(reply[3], REFUSED);
        memset(query + HEADER, 1, sizeof query - HEADER); /* a name without an end */
        CU_ASSERT_EQUAL(answer(query, sizeof query, reply), HEADER);
        CU_ASSERT_EQUAL(reply[3], FORMAT_ERROR);
}

static void
what_is_no_query_gets_no_reply(void)
{
        unsigned char query[600], reply[REPLY_MAX];

        fill_table();
        size_t size = make_query(query, "\3www\7example", TYPE_A);
        for (size_t cut = 0; cut < HEADER; cut++) {
                CU_ASSERT_EQUAL(answer(query, cut, reply), 0);
        }
        CU_ASSERT_EQUAL(answer(reply, answer(query, size, reply), reply), 0); /* its own reply */
}

static void
no_reply_is_longer_than_512_bytes(void)
{
        unsigned char query[600], reply[REPLY_MAX];

        host_count = 0;
        for (unsigned i = 0; i < HOSTS; i++) {
                CU_ASSERT(add_host("www.example=2001:db8::1"));
        }
        CU_ASSERT(!add_host("www.example=2001:db8::1"));
        size_t size = make_query(query, "\3www\7example", TYPE_AAAA);
        size_t got = answer(query, size, reply);
        CU_ASSERT(got <= REPLY_MAX && got > REPLY_MAX - 28);
        CU_ASSERT_EQUAL(reply[2] & 2, 2); /* cut */
        CU_ASSERT_EQUAL(read_16(reply + 6), (got - size) / 28);
}

static void
it_serves(void)
{
        unsigned char query[600], reply[REPLY_MAX];
        struct sockaddr_in name = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

        fill_table();
        weir_test_begin_real(2);
        weir_udp_server *server = serve("127.0.0.1:0");
        CU_ASSERT_PTR_NOT_NULL_FATAL(server);
        name.sin_port = htons((in_port_t)weir_udp_server_port(server));
        CU_ASSERT_EQUAL_FATAL(connect(fd, (struct sockaddr *)&name, sizeof name), 0);
        size_t size = make_query(query, "\4mail\7example", TYPE_A);
        CU_ASSERT_EQUAL(send(fd, "short", 5, 0), 5);
        CU_ASSERT_EQUAL(send(fd, query, sizeof query, 0), sizeof query); /* longer than any query */
        CU_ASSERT_EQUAL(send(fd, query, size, 0), (ssize_t)size);
        struct pollfd wait = {.fd = fd, .events = POLLIN};
        CU_ASSERT_EQUAL(poll(&wait, 1, (int)(WEIR_TEST_PATIENCE / 1000000)), 1);
        CU_ASSERT_EQUAL(recv(fd, reply, sizeof reply, 0), (ssize_t)size + 16);
        CU_ASSERT(memcmp(reply + size + 12, "\xc0\x00\x02\x03", 4) == 0);
        CU_ASSERT_EQUAL(weir_udp_server_stop(server, WEIR_FOREVER), 0);
        weir_test_end();
        close(fd);
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(addresses_are_answered),
                WEIR_TEST(what_is_not_there_is_said),
                WEIR_TEST(malformed_queries_are_refused),
                WEIR_TEST(what_is_no_query_gets_no_reply),
                WEIR_TEST(no_reply_is_longer_than_512_bytes),
                WEIR_TEST(it_serves),
        };

        return weir_test_main("example_dns_server", tests, sizeof tests / sizeof *tests);
}
