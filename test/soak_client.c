/* test/soak_client.c: the clients of the soak: well-behaved, impatient, slow, broken, and gone.
 *
 * Threads: each client is one, for one round; the watchdog may read its present action.  No locks.
 *
 * Connections that a client leaves standing stay with it for a while; then it resets or closes them, or waits until the server,
 * whose limits they exceed, has. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sys/socket.h>

#include "test/soak.h"
#include "test/tls_peer.h"

#define LEFT_MAX 20

struct left {
        struct soak_peer peer; /* fd -1: none */
        bool endless;          /* the server has no limit for it */
};

struct soak_client {
        pthread_t thread;
        unsigned count; /* of clients, in the first */
        struct weir_test_random random;
        struct soak_peer peer;
        struct left left[LEFT_MAX];
        _Atomic(const char *) doing;
        _Atomic int server;
};

atomic_bool soak_stopping;
atomic_size_t soak_sessions;

static uint64_t
below(struct soak_client *client, uint64_t limit)
{
        return weir_test_random_below(&client->random, limit);
}

/* -- connections left open -- */

static void
end_left(struct soak_client *client, struct left *left)
{
        if (left->peer.fd < 0)
                return;
        if (!left->endless && below(client, 3) == 0)
                soak_peer_drain(&left->peer);
        soak_peer_end(&left->peer, below(client, 4) ? SOAK_RESET : SOAK_CLOSE);
}

static void
leave(struct soak_client *client, bool endless)
{
        struct left *left = &client->left[below(client, LEFT_MAX)];

        end_left(client, left);
        *left = (struct left){.peer = client->peer, .endless = endless};
        client->peer = (struct soak_peer){.fd = -1};
}

/* -- sending -- */

/* At once, in pieces or, when it is short, byte by byte. */
static bool
send_somehow(struct soak_client *client, const char *data, size_t size)
{
        size_t most = below(client, 3) ? size : 1 + below(client, size < 300 ? 3 : 3000);

        for (size_t at = 0, piece; at < size; at += piece) {
                piece = most < size - at ? most : size - at;
                if (!soak_peer_send(&client->peer, data + at, piece))
                        return false;
        }
        return true;
}

static bool
send_text(struct soak_client *client, const char *text)
{
        return soak_peer_send(&client->peer, text, strlen(text));
}

/* Returns false when the reply has come instead, or the connection is lost. */
static bool
await_continue(struct soak_client *client)
{
        int status;
        size_t size = soak_peer_head(&client->peer, &status, true);

        if (!size)
                return soak_peer_lost(&client->peer, "instead of 100");
        if (status != 100)
                return soak_peer_lost(&client->peer, "refused instead of 100");
        soak_peer_take(&client->peer, size);
        return true;
}

static bool
send_request(struct soak_client *client, const struct soak_request *request)
{
        if (request->expects) {
                if (!soak_peer_send(&client->peer, request->bytes, request->head_size))
                        return soak_peer_lost(&client->peer, "while the head was sent");
                if (!await_continue(client))
                        return false;
                /* It may be refused while this goes on. */
                return send_somehow(client, request->bytes + request->head_size, request->size - request->head_size) ||
                       soak_peer_lost(&client->peer, "while the body was sent");
        }
        return send_somehow(client, request->bytes, request->size) || soak_peer_lost(&client->peer, "while it was sent");
}

/* -- sessions: well-behaved -- */

static void
keep(struct soak_client *client)
{
        int64_t before = client->peer.began; /* before the handshake, for which the server has a limit */
        bool goes_on = true;

        for (uint64_t left = 1 + below(client, 20); left > 0 && goes_on; left--) {
                struct soak_request request;

                client->peer.began = before; /* of the one before: the server's time runs since it has sent that reply */
                before = weir_test_now();
                soak_request_make(&request, &client->random, 200000);
                goes_on = send_request(client, &request) && soak_peer_expect(&client->peer, &request);
                soak_request_done(&request);
        }
        if (goes_on && below(client, 8) == 0)
                leave(client, false);
}

/* All requests, then all replies: also when it has finished its side in between. */
static void
pipeline(struct soak_client *client)
{
        struct soak_request requests[30];
        size_t count = 2 + below(client, 28), sent = 0, received = 0;
        bool goes_on = true, finishes = below(client, 3) == 0;

        while (sent < count && goes_on) {
                soak_request_make(&requests[sent], &client->random, 1000);
                requests[sent].expects = false;
                goes_on = soak_peer_send(&client->peer, requests[sent].bytes, requests[sent].size);
                sent++;
                if (requests[sent - 1].is_last)
                        break;
        }
        /* A handler that drops an exchange closes the connection at once.  Records of TLS that come then reset it, and the
         * replies before are lost. */
        finishes &= !client->peer.tls || requests[sent - 1].status != 0;
        if (finishes && goes_on)
                soak_peer_finish(&client->peer);
        for (goes_on = true; received < sent && goes_on; received++)
                goes_on = soak_peer_expect(&client->peer, &requests[received]);
        if (goes_on && finishes) {
                soak_peer_drain(&client->peer);
                if (client->peer.size)
                        soak_fail("pipeline: bytes behind the last reply");
        }
        for (size_t i = 0; i < sent; i++)
                soak_request_done(&requests[i]);
}

/* Sends a chunk and has it back before the next. */
static void
converse(struct soak_client *client)
{
        struct soak_request answer = {.status = 200, .bytes = "/pipe"};
        struct soak_peer *peer = &client->peer;
        char data[3000], frame[16];
        size_t said = 0;
        FILE *all = open_memstream(&answer.body, &answer.body_size);
        bool goes_on = send_text(client, "POST /pipe HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");

        for (uint64_t turns = 1 + below(client, 20); turns > 0 && goes_on; turns--) {
                size_t size = 1 + below(client, sizeof data);

                for (size_t i = 0; i < size; i++)
                        data[i] = soak_byte(said + i);
                fwrite(data, 1, size, all);
                said += size;
                int frame_size = snprintf(frame, sizeof frame, "%zx\r\n", size);
                goes_on = soak_peer_send(peer, frame, (size_t)frame_size) && soak_peer_send(peer, data, size) &&
                          soak_peer_send(peer, "\r\n", 2);
                /* The echo is at least as long; the reply as a whole is checked in the end. */
                for (size_t before = peer->size; goes_on && peer->server != &soak_servers[SOAK_COLLECTING] &&
                                                 peer->server != &soak_servers[SOAK_RESTARTED] && !peer->ended &&
                                                 peer->size < before + size;)
                        soak_peer_receive(peer);
        }
        fclose(all);
        if (goes_on && soak_peer_send(peer, "0\r\n\r\n", 5))
                soak_peer_expect(peer, &answer);
        else
                soak_peer_lost(peer, "while it was sent");
        free(answer.body);
}

/* After an upgrade: what goes out comes back. */
static void
upgrade(struct soak_client *client)
{
        static const char head[] = "GET /raw HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: echo\r\n\r\n";
        struct soak_peer *peer = &client->peer;
        char data[4000];
        int status;
        size_t size = send_text(client, head) ? soak_peer_head(peer, &status, false) : 0;

        if (!size || status != 101) {
                soak_peer_lost(peer, "instead of 101");
                return;
        }
        soak_peer_take(peer, size);
        for (uint64_t turns = 1 + below(client, 10); turns > 0; turns--) {
                size = 1 + below(client, sizeof data);
                for (size_t i = 0; i < size; i++)
                        data[i] = (char)below(client, 256);
                peer->began = weir_test_now();
                bool goes_on = soak_peer_send(peer, data, size);
                while (goes_on && peer->size < size && !peer->ended)
                        soak_peer_receive(peer);
                if (peer->size < size) {
                        soak_peer_lost(peer, "after the upgrade");
                        return;
                }
                if (memcmp(peer->input, data, size))
                        soak_fail("wrong bytes after an upgrade");
                soak_peer_take(peer, size);
        }
        if (below(client, 3) == 0) {
                leave(client, true);
        } else if (below(client, 2)) {
                soak_peer_finish(peer);
                soak_peer_drain(peer);
        }
}

/* -- sessions: not so -- */

/* Sends requests up to any byte, and goes, or stays and says no more. */
static void
break_off(struct soak_client *client)
{
        for (uint64_t left = 1 + below(client, 4); left > 0; left--) {
                struct soak_request request;

                soak_request_make(&request, &client->random, 100000);
                (void)soak_peer_send(&client->peer, request.bytes, left > 1 ? request.size : below(client, request.size + 1));
                soak_request_done(&request);
        }
        if (below(client, 4) == 0)
                usleep((useconds_t)below(client, 20000));
        if (below(client, 4) == 0)
                soak_peer_finish(&client->peer);
        if (below(client, 3) == 0)
                leave(client, false);
        else
                soak_peer_end(&client->peer, below(client, 3) ? SOAK_RESET : SOAK_CLOSE);
}

/* Asks for much and takes little of it. */
static void
read_slowly(struct soak_client *client)
{
        static const char *const requests[] = {
                "GET /file HTTP/1.1\r\nHost: a\r\n\r\n",
                "GET /bytes/5000000 HTTP/1.1\r\nHost: a\r\n\r\n",
                "GET /stream/5000000 HTTP/1.1\r\nHost: a\r\n\r\n",
                "GET /bytes/5000000 HTTP/1.1\r\nHost: a\r\n\r\nGET /file HTTP/1.1\r\nHost: a\r\n\r\n",
        };
        const char *request = requests[below(client, sizeof requests / sizeof *requests)];

        (void)send_text(client, request);
        for (uint64_t left = below(client, 3); left > 0 && !client->peer.ended; left--) {
                soak_peer_receive(&client->peer);
                client->peer.size = 0;
                usleep((useconds_t)below(client, 5000));
        }
        if (below(client, 2))
                leave(client, false);
        else
                soak_peer_end(&client->peer, below(client, 2) ? SOAK_RESET : SOAK_CLOSE);
}

static void
wait_for_ever(struct soak_client *client)
{
        (void)send_text(client, below(client, 2) ? "GET /never HTTP/1.1\r\nHost: a\r\n\r\n"
                                                 : "GET /events/4 HTTP/1.1\r\nHost: a\r\n\r\n");
        if (below(client, 2))
                leave(client, true);
        else
                usleep((useconds_t)below(client, 5000));
}

/* A byte now and then, until the server has had enough of it. */
static void
drip(struct soak_client *client)
{
        static const char body[] = "POST /sum HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\n";
        struct soak_peer *peer = &client->peer;
        bool takes = !below(client, 2) || send_text(client, body);
        int64_t began = weir_test_now(), last = began + 3 * SOAK_LIMIT;
        int status;

        peer->began = began - SOAK_LIMIT; /* excused */
        while (takes && weir_test_now() < last && !atomic_load(&soak_stopping)) {
                takes = soak_peer_send(peer, "G", 1);
                usleep(20000);
        }
        if (atomic_load(&soak_stopping))
                return;
        size_t size = soak_peer_head(peer, &status, false); /* or nothing: bytes after the end reset the connection */
        if (size && status != 408 && status != 503)
                soak_fail("%d for a byte now and then", status);
        soak_peer_drain(peer);
}

static void
speak_nonsense(struct soak_client *client)
{
        static const char *const heads[] = {
                "GET / HTTP/1.1\r\n\r\n",
                "GET  / HTTP/1.1\r\nHost: a\r\n\r\n",
                "GET / HTTP/9.9\r\nHost: a\r\n\r\n",
                "PLEASE / HTTP/1.1\r\nHost: a\r\n\r\n",
                "GET / HTTP/1.1\r\nHost: a\r\nX : y\r\n\r\n",
                "POST /sum HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n",
                "POST /sum HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n",
                "POST /sum HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabcd\r\n",
                "POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n",
                "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999\r\n\r\nabc",
                "POST /sum HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
                "\r\n\r\n\r\n\r\n",
                "GET /raw HTTP/1.1\nHost: a\n\n",
                "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        };
        const char *head = heads[below(client, sizeof heads / sizeof *heads)];
        struct soak_peer *peer = &client->peer;
        int status;
        bool taken = send_text(client, head);

        size_t size = taken ? soak_peer_head(peer, &status, false) : 0;
        if (size && (status < 400 || status > 505))
                soak_fail("%s, server \"%s\": %d for %.60s", peer->doing, peer->server->name, status, head);
        soak_peer_drain(peer);
}

static void
only_connect(struct soak_client *client)
{
        if (below(client, 2))
                leave(client, false);
        else
                soak_peer_end(&client->peer, below(client, 2) ? SOAK_RESET : SOAK_CLOSE);
}

/* To a server with TLS: the beginning of a handshake, or what is none. */
static void
shake_badly(struct soak_client *client)
{
        SSL *tls = tls_client(-1, &(struct tls_client_wish){.server_name = "soak"});
        char *data, other[64];
        size_t size;

        SSL_do_handshake(tls);
        size = (size_t)BIO_get_mem_data(SSL_get_wbio(tls), &data);
        if (below(client, 3) == 0)
                data[below(client, size)] ^= (char)(1 << below(client, 8));
        (void)soak_peer_send(&client->peer, data, below(client, size + 1));
        if (below(client, 3) == 0) {
                for (size_t i = 0; i < sizeof other; i++)
                        other[i] = (char)below(client, 256);
                (void)soak_peer_send(&client->peer, other, sizeof other);
        }
        SSL_free(tls);
        if (below(client, 4) == 0)
                soak_peer_finish(&client->peer);
        if (below(client, 4) == 0)
                usleep((useconds_t)below(client, 5000));
        only_connect(client);
}

/* -- clients -- */

static const struct session {
        const char *name;
        void (*run)(struct soak_client *client);
        unsigned weight;
} sessions[] = {
        {"keep", keep, 25},
        {"pipeline", pipeline, 15},
        {"converse", converse, 6},
        {"upgrade", upgrade, 6},
        {"break off", break_off, 25},
        {"read slowly", read_slowly, 8},
        {"wait for ever", wait_for_ever, 6},
        {"drip", drip, 1},
        {"nonsense", speak_nonsense, 8},
        {"connect", only_connect, 5},
        {"bad handshake", shake_badly, 8},
};

#define SESSIONS (sizeof sessions / sizeof *sessions)

static const struct session *
choose(struct soak_client *client)
{
        unsigned sum = 0;

        for (size_t i = 0; i < SESSIONS; i++)
                sum += sessions[i].weight;
        uint64_t chosen = below(client, sum);
        const struct session *session = sessions;
        for (; chosen >= session->weight; session++)
                chosen -= session->weight;
        return session;
}

static void
step(struct soak_client *client)
{
        const struct session *session = choose(client);
        bool bare = session->run == shake_badly;
        const struct soak_server *server = &soak_servers[bare ? (uint64_t)SOAK_SECURE : below(client, SOAK_SERVERS)];
        int window = session->run == read_slowly ? 4096 : below(client, 3) ? 0 : 32768; /* then nothing is taken at once */

        atomic_store(&client->doing, session->name);
        atomic_store(&client->server, (int)(server - soak_servers));
        client->peer = (struct soak_peer){.doing = session->name};
        if (bare ? soak_peer_connect(&client->peer, server, &client->random, window)
                 : soak_peer_open(&client->peer, server, &client->random, window)) {
                session->run(client);
                soak_peer_end(&client->peer, below(client, 2) ? SOAK_RESET : SOAK_CLOSE);
        } else {
                usleep(1000); /* its server is just being started */
        }
        atomic_fetch_add(&soak_sessions, 1);
}

static void *
client_main(void *argument)
{
        struct soak_client *client = argument;

        while (!atomic_load(&soak_stopping))
                step(client);
        atomic_store(&client->doing, "leaving");
        for (size_t i = 0; i < LEFT_MAX; i++)
                end_left(client, &client->left[i]);
        atomic_store(&client->doing, "gone");
        return NULL;
}

struct soak_client *
soak_clients_new(unsigned count, uint64_t seed)
{
        struct soak_client *clients = calloc(count, sizeof *clients);

        for (unsigned i = 0; i < count; i++) {
                clients[i].count = count;
                clients[i].random.state = seed * 1000 + i;
                for (size_t j = 0; j < LEFT_MAX; j++)
                        clients[i].left[j].peer.fd = -1;
        }
        return clients;
}

void
soak_clients_begin(struct soak_client *clients)
{
        atomic_store(&soak_stopping, false);
        for (unsigned i = 0; i < clients->count; i++)
                if (pthread_create(&clients[i].thread, NULL, client_main, &clients[i]))
                        soak_fail("no thread for a client");
}

void
soak_clients_end(struct soak_client *clients)
{
        atomic_store(&soak_stopping, true);
        for (unsigned i = 0; i < clients->count; i++)
                pthread_join(clients[i].thread, NULL);
}

void
soak_clients_free(struct soak_client *clients)
{
        free(clients);
}

void
soak_clients_print(const struct soak_client *clients)
{
        for (unsigned i = 0; i < clients->count; i++) {
                const char *doing = atomic_load(&clients[i].doing);

                fprintf(stderr, "soak: client %u: %s, server \"%s\"\n", i, doing ? doing : "nothing yet",
                        soak_servers[atomic_load(&clients[i].server)].name);
        }
}
