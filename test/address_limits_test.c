/* test/address_limits_test.c: how many connections one address may have.
 *
 * The linker puts a function that can refuse memory in front of weir__alloc (test/CMakeLists.txt). */
#include <arpa/inet.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <netinet/in.h>
#include <sys/socket.h>

#include "kernel/memory/memory.h"
#include "server/base/server.h"
#include "net/listen/addresses.h"
#include "test/fixture.h"
#include "test/http_client.h"
#include "test/queue_check.h"

#define GET(target) "GET " target " HTTP/1.1\r\nHost: a\r\n\r\n"

static atomic_bool refuses;

void *__real_weir__alloc(size_t size);
void *__wrap_weir__alloc(size_t size);

void *
__wrap_weir__alloc(size_t size)
{
        return atomic_load(&refuses) ? NULL : __real_weir__alloc(size);
}

/* -- the count -- */

/* How many addresses have a connection; also that the tree is as it should be. */
static size_t
count(struct weir__addresses *addresses)
{
        weir__lock(&addresses->lock);
        size_t count = rbtree_check(&addresses->tree);
        weir__unlock(&addresses->lock);
        return count;
}

static struct weir__peer
peer(const char *text)
{
        struct weir__peer peer;

        CU_ASSERT_TRUE(weir__peer_read(&peer, text, strlen(text)));
        return peer;
}

static bool
enter(struct weir__addresses *addresses, const char *text, size_t max)
{
        struct weir__peer who = peer(text);

        return weir__addresses_enter(addresses, &who, max);
}

static void
leave(struct weir__addresses *addresses, const char *text)
{
        struct weir__peer who = peer(text);

        weir__addresses_leave(addresses, &who);
}

static void
an_address_has_as_many_as_it_may(void)
{
        struct weir__addresses addresses = {.lock = WEIR__LOCK_INITIALIZER(WEIR__RANK_LEAF)};

        CU_ASSERT_TRUE(enter(&addresses, "192.0.2.1", 2));
        CU_ASSERT_TRUE(enter(&addresses, "192.0.2.1", 2));
        CU_ASSERT_FALSE(enter(&addresses, "192.0.2.1", 2));
        CU_ASSERT_TRUE(enter(&addresses, "192.0.2.2", 2));
        CU_ASSERT_EQUAL(count(&addresses), 2);
        leave(&addresses, "192.0.2.1");
        CU_ASSERT_TRUE(enter(&addresses, "192.0.2.1", 2));
        CU_ASSERT_FALSE(enter(&addresses, "192.0.2.1", 2));
        leave(&addresses, "192.0.2.1");
        leave(&addresses, "192.0.2.1");
        CU_ASSERT_EQUAL(count(&addresses), 1);
        leave(&addresses, "192.0.2.2");
        CU_ASSERT_EQUAL(count(&addresses), 0);
}

static void
of_ipv6_the_first_64_bits_count(void)
{
        struct weir__addresses addresses = {.lock = WEIR__LOCK_INITIALIZER(WEIR__RANK_LEAF)};

        CU_ASSERT_TRUE(enter(&addresses, "2001:db8:0:1::1", 1));
        CU_ASSERT_FALSE(enter(&addresses, "2001:db8:0:1:ffff:ffff:ffff:ffff", 1));
        CU_ASSERT_TRUE(enter(&addresses, "2001:db8:0:2::1", 1));
        CU_ASSERT_EQUAL(count(&addresses), 2);
        leave(&addresses, "2001:db8:0:1:a::"); /* whichever of them */
        CU_ASSERT_TRUE(enter(&addresses, "2001:db8:0:1::2", 1));
        leave(&addresses, "2001:db8:0:1::2");
        leave(&addresses, "2001:db8:0:2::1");
        CU_ASSERT_EQUAL(count(&addresses), 0);
}

static void
an_ipv4_address_is_the_same_in_ipv6_clothes_and_no_other(void)
{
        struct weir__addresses addresses = {.lock = WEIR__LOCK_INITIALIZER(WEIR__RANK_LEAF)};

        CU_ASSERT_TRUE(enter(&addresses, "192.0.2.1", 1));
        CU_ASSERT_FALSE(enter(&addresses, "::ffff:192.0.2.1", 1));
        CU_ASSERT_TRUE(enter(&addresses, "::ffff:192.0.2.2", 1)); /* whose first 64 bits are the same */
        CU_ASSERT_TRUE(enter(&addresses, "c000:201::", 1));       /* whose first bytes are those of the first */
        leave(&addresses, "::ffff:192.0.2.1");
        leave(&addresses, "192.0.2.2");
        leave(&addresses, "c000:201::");
        CU_ASSERT_EQUAL(count(&addresses), 0);
}

static void
a_client_without_an_address_is_not_counted(void)
{
        struct weir__addresses addresses = {.lock = WEIR__LOCK_INITIALIZER(WEIR__RANK_LEAF)};
        struct weir__peer unknown = {.port = 0};

        for (int i = 0; i < 10; i++) {
                CU_ASSERT_TRUE(enter(&addresses, "unix:", 1));
                CU_ASSERT_TRUE(weir__addresses_enter(&addresses, &unknown, 1));
        }
        CU_ASSERT_EQUAL(count(&addresses), 0);
        leave(&addresses, "unix:");
        weir__addresses_leave(&addresses, &unknown);
}

static void
without_memory_only_a_known_address_is_admitted(void)
{
        struct weir__addresses addresses = {.lock = WEIR__LOCK_INITIALIZER(WEIR__RANK_LEAF)};

        CU_ASSERT_TRUE(enter(&addresses, "192.0.2.1", 3));
        atomic_store(&refuses, true);
        CU_ASSERT_TRUE(enter(&addresses, "192.0.2.1", 3));
        CU_ASSERT_FALSE(enter(&addresses, "192.0.2.2", 3));
        atomic_store(&refuses, false);
        CU_ASSERT_EQUAL(count(&addresses), 1);
        CU_ASSERT_TRUE(enter(&addresses, "192.0.2.2", 3));
        leave(&addresses, "192.0.2.1");
        leave(&addresses, "192.0.2.1");
        leave(&addresses, "192.0.2.2");
        CU_ASSERT_EQUAL(count(&addresses), 0);
}

static struct weir__peer
numbered(uint32_t number)
{
        struct weir__peer who = {.family = number % 2 ? WEIR__PEER_V6 : WEIR__PEER_V4};
        unsigned last = number % 2 ? 7 : 15;

        who.address[last] = (uint8_t)number;
        who.address[last - 1] = (uint8_t)(number >> 8);
        return who;
}

/* Many addresses, against a plain array. */
static void
it_agrees_with_a_plain_count(void)
{
        enum { ADDRESSES = 1000, MAX = 3, STEPS = 200000 };
        struct weir__addresses addresses = {.lock = WEIR__LOCK_INITIALIZER(WEIR__RANK_LEAF)};
        struct weir_test_random random = {weir_test_seed()};
        static unsigned counts[ADDRESSES];
        unsigned wrong = 0, present = 0;

        memset(counts, 0, sizeof counts);
        for (int i = 0; i < STEPS; i++) {
                uint32_t which = (uint32_t)weir_test_random_below(&random, ADDRESSES);
                struct weir__peer who = numbered(which);

                if (weir_test_random_below(&random, 2)) {
                        bool entered = weir__addresses_enter(&addresses, &who, MAX);

                        wrong += entered != (counts[which] < MAX);
                        present += entered && counts[which]++ == 0;
                } else if (counts[which]) {
                        weir__addresses_leave(&addresses, &who);
                        present -= --counts[which] == 0;
                }
                wrong += count(&addresses) != present;
        }
        CU_ASSERT_EQUAL(wrong, 0);
        for (uint32_t which = 0; which < ADDRESSES; which++) {
                struct weir__peer who = numbered(which);

                while (counts[which] && counts[which]--) {
                        weir__addresses_leave(&addresses, &who);
                }
        }
        CU_ASSERT_EQUAL(count(&addresses), 0);
}

/* -- a server -- */

static struct fixture {
        weir_http_server *server;
        int port;
        struct http_reply reply;
} at;

static void
handle(weir_task *exchange, void *context)
{
        (void)context;
        weir_http_reply_text(exchange, 200, "word\n");
}

static void
begin_with(int pollers, const char *address, const struct weir_http_server_config *config)
{
        weir_test_begin_real(pollers);
        at.server = weir_http_server_new(config, handle, NULL);
        CU_ASSERT_EQUAL_FATAL(weir_http_server_start(at.server, address), 0);
        at.port = weir_http_server_port(at.server);
}

static void
begin(int pollers, const char *address, size_t most, size_t per_address)
{
        struct weir_http_server_config config = WEIR_HTTP_SERVER_CONFIG_DEFAULT;

        config.max_connections = most;
        config.max_connections_per_address = per_address;
        begin_with(pollers, address, &config);
}

static void
end(void)
{
        CU_ASSERT_EQUAL(weir_http_server_stop(at.server, WEIR_SEC(10)), 0);
        weir_http_server_free(at.server);
        http_reply_done(&at.reply);
        weir_test_end();
}

/* From another address of the loopback. */
static void
open_from(struct http_client *client, const char *source)
{
        struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)at.port)}, from = {.sin_family = AF_INET};

        to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        inet_pton(AF_INET, source, &from.sin_addr);
        *client = (struct http_client){.fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
        CU_ASSERT_EQUAL(bind(client->fd, (struct sockaddr *)&from, sizeof from), 0);
        CU_ASSERT_EQUAL_FATAL(connect(client->fd, (struct sockaddr *)&to, sizeof to), 0);
}

static int
ask(struct http_client *client)
{
        return http_ask(client, GET("/"), &at.reply) ? at.reply.status : 0;
}

static void
assert_turned_away(struct http_client *client)
{
        CU_ASSERT_TRUE(http_receive(client, &at.reply, false));
        CU_ASSERT_EQUAL(at.reply.status, 503);
        HTTP_ASSERT_TEXT(http_field(&at.reply, "Retry-After"), "1");
        HTTP_ASSERT_TEXT(http_field(&at.reply, "Connection"), "close");
        CU_ASSERT_TRUE(http_is_over(client));
        http_close(client);
}

static bool
all_have_left(void)
{
        return atomic_load(&at.server->base.connections) == 0 && count(&at.server->base.addresses) == 0;
}

static void
one_too_many_of_an_address_is_turned_away(void)
{
        struct http_client first, second, third;

        begin(1, "127.0.0.1:0", 0, 2);
        open_from(&first, "127.0.0.1");
        CU_ASSERT_EQUAL(ask(&first), 200);
        open_from(&second, "127.0.0.1");
        CU_ASSERT_EQUAL(ask(&second), 200);
        for (int i = 0; i < 10; i++) {
                open_from(&third, "127.0.0.1");
                assert_turned_away(&third);
        }
        open_from(&third, "127.0.0.2");
        CU_ASSERT_EQUAL(ask(&third), 200);
        http_close(&third);
        CU_ASSERT_EQUAL(ask(&first), 200); /* those that are in stay, also idle ones */
        CU_ASSERT_EQUAL(ask(&second), 200);
        http_close(&first);
        WEIR_TEST_EVENTUALLY(atomic_load(&at.server->base.connections) == 1);
        open_from(&first, "127.0.0.1");
        CU_ASSERT_EQUAL(ask(&first), 200);
        http_abandon(&first);
        http_close(&second);
        WEIR_TEST_EVENTUALLY(all_have_left());
        end();
}

/* At the limit of all connections, an address that has too many must not have those of others closed. */
static void
an_address_with_too_many_takes_nobodys_room(void)
{
        struct http_client first, other, more;

        begin(1, "127.0.0.1:0", 2, 1);
        open_from(&other, "127.0.0.2");
        CU_ASSERT_EQUAL(ask(&other), 200);
        open_from(&first, "127.0.0.1");
        CU_ASSERT_EQUAL(ask(&first), 200);
        open_from(&more, "127.0.0.1");
        assert_turned_away(&more);
        CU_ASSERT_EQUAL(ask(&other), 200);
        CU_ASSERT_EQUAL(ask(&first), 200);
        open_from(&more, "127.0.0.3"); /* which may: the one that is idle longest goes, and with it its count */
        CU_ASSERT_EQUAL(ask(&more), 200);
        CU_ASSERT_TRUE(http_is_over(&other));
        http_close(&other);
        open_from(&other, "127.0.0.2");
        CU_ASSERT_EQUAL(ask(&other), 200);
        http_close(&first);
        http_close(&other);
        http_close(&more);
        WEIR_TEST_EVENTUALLY(all_have_left());
        end();
}

/* Admitted by its address and refused for all are busy: it is not counted. */
static void
a_client_refused_at_the_limit_of_all_is_not_counted(void)
{
        struct http_client busy, other;

        begin(1, "127.0.0.1:0", 1, 1);
        open_from(&busy, "127.0.0.1");
        CU_ASSERT_TRUE(http_send_text(&busy, "GET / HTTP/1.1\r\n"));
        WEIR_TEST_EVENTUALLY(atomic_load(&weir__http_branch_at(at.server, 0)->base.idle_since) == WEIR_FOREVER &&
                             count(&at.server->base.addresses) == 1);
        for (int i = 0; i < 3; i++) {
                open_from(&other, "127.0.0.2");
                assert_turned_away(&other);
        }
        WEIR_TEST_EVENTUALLY(count(&at.server->base.addresses) == 1);
        http_close(&busy);
        WEIR_TEST_EVENTUALLY(all_have_left());
        open_from(&other, "127.0.0.2");
        CU_ASSERT_EQUAL(ask(&other), 200);
        http_close(&other);
        end();
}

static void
an_ipv6_client_is_counted(void)
{
        struct sockaddr_in6 to = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
        struct http_client clients[2];
        int probe = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
        bool has_v6 = probe >= 0 && bind(probe, (struct sockaddr *)&to, sizeof to) == 0;

        if (probe >= 0) {
                close(probe);
        }
        if (!has_v6) {
                return; /* a machine without */
        }
        begin(1, "[::1]:0", 0, 1);
        to.sin6_port = htons((uint16_t)at.port);
        for (int i = 0; i < 2; i++) {
                clients[i] = (struct http_client){.fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0)};
                CU_ASSERT_EQUAL(connect(clients[i].fd, (struct sockaddr *)&to, sizeof to), 0);
                if (i == 0) {
                        CU_ASSERT_EQUAL(ask(&clients[0]), 200);
                }
        }
        assert_turned_away(&clients[1]);
        http_close(&clients[0]);
        WEIR_TEST_EVENTUALLY(all_have_left());
        end();
}

static void
a_trusted_proxy_may_have_any_number(void)
{
        struct weir_http_server_config config = WEIR_HTTP_SERVER_CONFIG_DEFAULT;
        struct http_client clients[3], stranger;

        config.max_connections_per_address = 1;
        config.trusted_proxies = "127.0.0.2";
        begin_with(1, "127.0.0.1:0", &config);
        for (int i = 0; i < 3; i++) {
                open_from(&clients[i], "127.0.0.2");
                CU_ASSERT_EQUAL(ask(&clients[i]), 200);
        }
        open_from(&stranger, "127.0.0.1");
        CU_ASSERT_EQUAL(ask(&stranger), 200);
        CU_ASSERT_EQUAL(count(&at.server->base.addresses), 1);
        for (int i = 0; i < 3; i++) {
                http_close(&clients[i]);
        }
        http_close(&stranger);
        WEIR_TEST_EVENTUALLY(all_have_left());
        end();
}

static void
without_a_limit_nothing_is_counted(void)
{
        struct http_client clients[20];

        begin(1, "127.0.0.1:0", 0, 0);
        CU_ASSERT_EQUAL(count(&at.server->base.addresses), 0);
        for (int i = 0; i < 20; i++) {
                open_from(&clients[i], "127.0.0.1");
        }
        for (int i = 0; i < 20; i++) {
                CU_ASSERT_EQUAL(ask(&clients[i]), 200);
                http_close(&clients[i]);
        }
        end();
}

/* -- several at once -- */

enum { THREADS = 3, STEPS = WEIR_TEST_SANITIZED ? 1000 : 4000, MAX = 4 };

static atomic_int served, refused;

static void
leave_somehow(struct http_client *client, struct weir_test_random *random)
{
        switch (weir_test_random_below(random, 4)) {
        case 0: http_abandon(client); break;
        case 1:
                http_send_text(client, "nonsense\r\n\r\n");
                http_close(client);
                break;
        case 2:
                http_send_text(client, "PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n");
                http_close(client);
                break;
        default: http_close(client);
        }
}

static void *
come_and_go(void *argument)
{
        struct weir_test_random random = {weir_test_seed() + (uintptr_t)argument};
        struct http_client clients[4];
        struct http_reply reply = {0};
        char source[32];

        for (int i = 0; i < 4; i++) {
                clients[i].fd = -1;
        }
        for (int step = 0; step < STEPS; step++) {
                struct http_client *client = &clients[weir_test_random_below(&random, 4)];

                if (client->fd >= 0) {
                        leave_somehow(client, &random);
                        continue;
                }
                snprintf(source, sizeof source, "127.0.0.%d", 1 + (int)weir_test_random_below(&random, 2));
                open_from(client, source);
                if (http_ask(client, GET("/"), &reply)) {
                        CU_ASSERT(reply.status == 200 || reply.status == 503);
                        atomic_fetch_add(reply.status == 200 ? &served : &refused, 1);
                }
        }
        for (int i = 0; i < 4; i++) {
                if (clients[i].fd >= 0) {
                        http_close(&clients[i]);
                }
        }
        http_reply_done(&reply);
        return NULL;
}

static void
each_count_is_given_back_once(void)
{
        pthread_t threads[THREADS];

        atomic_store(&served, 0);
        atomic_store(&refused, 0);
        begin(2, "127.0.0.1:0", 0, MAX);
        for (uintptr_t i = 0; i < THREADS; i++) {
                pthread_create(&threads[i], NULL, come_and_go, (void *)i);
        }
        for (int i = 0; i < THREADS; i++) {
                pthread_join(threads[i], NULL);
        }
        CU_ASSERT(atomic_load(&served) > 0);
        CU_ASSERT(atomic_load(&refused) > 0);
        WEIR_TEST_EVENTUALLY(all_have_left());
        end();
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(an_address_has_as_many_as_it_may),
                WEIR_TEST(of_ipv6_the_first_64_bits_count),
                WEIR_TEST(an_ipv4_address_is_the_same_in_ipv6_clothes_and_no_other),
                WEIR_TEST(a_client_without_an_address_is_not_counted),
                WEIR_TEST(without_memory_only_a_known_address_is_admitted),
                WEIR_TEST(it_agrees_with_a_plain_count),
                WEIR_TEST(one_too_many_of_an_address_is_turned_away),
                WEIR_TEST(an_address_with_too_many_takes_nobodys_room),
                WEIR_TEST(a_client_refused_at_the_limit_of_all_is_not_counted),
                WEIR_TEST(an_ipv6_client_is_counted),
                WEIR_TEST(a_trusted_proxy_may_have_any_number),
                WEIR_TEST(without_a_limit_nothing_is_counted),
                WEIR_TEST(each_count_is_given_back_once),
        };

        return weir_test_main("address_limits", tests, sizeof tests / sizeof *tests);
}
