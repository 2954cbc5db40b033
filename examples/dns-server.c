/* dns-server.c: answers queries for the addresses of some hosts, over UDP.
 *
 *     dns-server 127.0.0.1:5353 www.example=192.0.2.1 www.example=2001:db8::1 mail.example=192.0.2.2
 *
 *     dig @127.0.0.1 -p 5353 www.example AAAA
 *
 * A server of datagrams gets its data from anybody, with any sender written on it.  So `answer` believes nothing: it reads no
 * byte behind the end, a query that makes no sense gets 12 bytes or nothing, and no reply has more than 512 bytes.  What is no
 * query gets no reply at all, so two servers cannot be made to talk to each other for ever.
 *
 * Source: RFC 1035, RFC 3596. */
#include <arpa/inet.h>
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include <weir/weir.h>

#define HEADER     12
#define REPLY_MAX  512 /* bytes, as each client takes */
#define NAME_BYTES 255 /* bytes of a name in a query, with the length of each label */
#define HOSTS      64
#define TTL        60 /* seconds */

enum { TYPE_A = 1, TYPE_AAAA = 28, CLASS_IN = 1 };
enum { FORMAT_ERROR = 1, NO_SUCH_NAME = 3, NOT_IMPLEMENTED = 4, REFUSED = 5 };

/* The table: an address of a host.  A host with two addresses has two. */
static struct host {
        char name[NAME_BYTES + 1]; /* "www.example" */
        unsigned type;             /* TYPE_A or TYPE_AAAA */
        unsigned char address[16];
} hosts[HOSTS];
static unsigned host_count;

struct question {
        char name[NAME_BYTES + 1];
        unsigned type, class;
        size_t end; /* behind it, in the query */
};

static unsigned read_16(const unsigned char *at)
{
        return (unsigned)at[0] << 8 | at[1];
}

static void write_16(unsigned char *at, unsigned value)
{
        at[0] = (unsigned char)(value >> 8);
        at[1] = (unsigned char)value;
}

/* Reads the name, type and class behind the header.  Returns false when that is malformed.  A name in a question is not
 * compressed: a length above 63 would be a pointer. */
static bool read_question(const unsigned char *query, size_t size, struct question *question)
{
        size_t at = HEADER, used = 0;

        while (at < size && query[at]) {
                size_t length = query[at++];

                if (length > 63 || length > size - at || used + length + 1 > NAME_BYTES - 1)
                        return false;
                if (used)
                        question->name[used++] = '.';
                for (size_t i = 0; i < length; i++, used++) {
                        question->name[used] = (char)query[at++];
                        if (question->name[used] == '.' || question->name[used] == '\0')
                                question->name[used] = '?'; /* a byte of a label, which no name of the table has */
                }
        }
        question->name[used] = '\0';
        if (at >= size || size - at < 5)
                return false;
        question->type = read_16(query + at + 1);
        question->class = read_16(query + at + 3);
        question->end = at + 5;
        return true;
}

/* Adds one answer, whose name is a pointer to the question's.  Returns false when there is no room. */
static bool add_answer(unsigned char *reply, size_t *size, const struct host *host)
{
        unsigned length = host->type == TYPE_A ? 4 : 16;
        unsigned char *at = reply + *size;

        if (*size + 12 + length > REPLY_MAX)
                return false;
        write_16(at, 0xc000 | HEADER);
        write_16(at + 2, host->type);
        write_16(at + 4, CLASS_IN);
        write_16(at + 6, 0);
        write_16(at + 8, TTL);
        write_16(at + 10, length);
        memcpy(at + 12, host->address, length);
        *size += 12 + length;
        return true;
}

/* Only the header, with what went wrong. */
static size_t refuse(unsigned char *reply, unsigned code)
{
        reply[3] = (unsigned char)code;
        memset(reply + 4, 0, 8);
        return HEADER;
}

/* Writes the reply to a query of `size` bytes, and returns its size; 0: there is none. */
static size_t answer(const unsigned char *query, size_t size, unsigned char reply[REPLY_MAX])
{
        struct question question;
        unsigned answers = 0;
        bool is_known = false, is_cut = false;

        if (size < HEADER || query[2] & 0x80) /* a reply */
                return 0;
        memcpy(reply, query, 2);
        reply[2] = (unsigned char)(0x84 |
                                   (query[2] & 0x79)); /* a reply, with authority; opcode and the wish for recursion stay */
        if (query[2] & 0x78)
                return refuse(reply, NOT_IMPLEMENTED);
        unsigned more = read_16(query + 10); /* EDNS; it is not looked at */
        if (read_16(query + 4) != 1 || read_16(query + 6) || read_16(query + 8) || more > 1 ||
            !read_question(query, size, &question) || (!more && question.end != size))
                return refuse(reply, FORMAT_ERROR);
        if (question.class != CLASS_IN)
                return refuse(reply, REFUSED);
        memcpy(reply + HEADER, query + HEADER, question.end - HEADER);
        size_t reply_size = question.end;
        for (unsigned i = 0; i < host_count; i++) {
                if (strcasecmp(hosts[i].name, question.name) != 0)
                        continue;
                is_known = true;
                if (hosts[i].type == question.type && add_answer(reply, &reply_size, &hosts[i]))
                        answers++;
                else
                        is_cut |= hosts[i].type == question.type;
        }
        reply[2] |= is_cut ? 2 : 0;
        reply[3] = is_known ? 0 : NO_SUCH_NAME;
        write_16(reply + 4, 1);
        write_16(reply + 6, answers);
        memset(reply + 8, 0, 4);
        return reply_size;
}

static void handle(weir_task *request, void *unused)
{
        unsigned char reply[REPLY_MAX];
        size_t size;
        const void *query = weir_udp_data(request, &size);

        (void)unused;
        if (weir_udp_is_truncated(request))
                return; /* it is longer than any query */
        size = answer(query, size, reply);
        if (size)
                weir_udp_reply(request, reply, size);
}

/* Takes "www.example=192.0.2.1".  Returns false when it is wrong, or one too many. */
static bool add_host(const char *text)
{
        const char *equals = strchr(text, '=');
        struct host *host = &hosts[host_count];

        if (host_count == HOSTS || !equals || equals == text || equals - text > NAME_BYTES - 2)
                return false;
        memset(host, 0, sizeof *host);
        memcpy(host->name, text, (size_t)(equals - text));
        host->type = strchr(equals, ':') ? TYPE_AAAA : TYPE_A;
        if (inet_pton(host->type == TYPE_A ? AF_INET : AF_INET6, equals + 1, host->address) != 1)
                return false;
        host_count++;
        return true;
}

static weir_udp_server *serve(const char *address)
{
        struct weir_udp_server_config config = WEIR_UDP_SERVER_CONFIG_DEFAULT;

        config.max_size = REPLY_MAX;
        return weir_udp_serve_with(&config, address, handle, NULL);
}

int main(int argc, char *argv[])
{
        sigset_t signals;
        int signal;

        for (int i = 2; i < argc; i++)
                if (!add_host(argv[i])) {
                        fprintf(stderr, "dns-server: %s: expected name=address\n", argv[i]);
                        return 1;
                }
        sigemptyset(&signals);
        sigaddset(&signals, SIGINT);
        sigaddset(&signals, SIGTERM);
        pthread_sigmask(SIG_BLOCK, &signals, NULL); /* in all threads: they wait for sigwait */
        weir_udp_server *server = serve(argc > 1 ? argv[1] : "127.0.0.1:5353");
        if (!server) {
                fprintf(stderr, "dns-server: %s\n", weir_strerror(-errno));
                return 1;
        }
        printf("answers at port %d\n", weir_udp_server_port(server));
        sigwait(&signals, &signal);
        weir_udp_server_stop(server, WEIR_SEC(1));
        return weir_shutdown() != 0;
}
