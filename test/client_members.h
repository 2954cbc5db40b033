/* test/client_members.h: an upstream named "backend" whose members are servers that the test plays. */
#ifndef WEIR_TEST_CLIENT_MEMBERS_H
#define WEIR_TEST_CLIENT_MEMBERS_H

#include "net/upstream/upstream.h"
#include "test/client_fixture.h"

#define MEMBERS     4
#define CLOSES      "Content-Length: 4\r\nConnection: close\r\n\r\nword"
#define UNAVAILABLE "HTTP/1.1 503 Service Unavailable\r\n" CLOSES

static weir_upstream *backend;
static int doors[MEMBERS], ports[MEMBERS];
static struct http_peer peers[MEMBERS];

/* Valid for the next seven calls. */
static inline const char *
address_of(unsigned member)
{
        static char texts[8][32];
        static unsigned next;
        char *text = texts[next++ % 8];

        snprintf(text, sizeof texts[0], "127.0.0.1:%d", ports[member]);
        return text;
}

static inline void
open_members(const struct weir_upstream_config *settings, unsigned count)
{
        backend = weir_upstream_new("backend", settings);
        CU_ASSERT_PTR_NOT_NULL_FATAL(backend);
        for (unsigned i = 0; i < MEMBERS; i++) {
                doors[i] = -1;
                peers[i] = (struct http_peer){.fd = -1};
        }
        for (unsigned i = 0; i < count; i++) {
                doors[i] = http_peer_listen(&ports[i]);
                CU_ASSERT_EQUAL(weir_upstream_add(backend, address_of(i), NULL), 0);
        }
}

/* On the virtual clock.  Both configs may be NULL. */
static inline void
begin_members(const struct weir_client_config *config, const struct weir_upstream_config *settings, unsigned count)
{
        begin(config);
        open_members(settings, count);
}

/* Connects to it are refused from now on. */
static inline void
shut_door(unsigned member)
{
        close(doors[member]);
        doors[member] = -1;
}

static inline void
end_members(void)
{
        weir_upstream_unref(backend);
        end();
        for (unsigned i = 0; i < MEMBERS; i++) {
                if (peers[i].fd >= 0)
                        http_peer_close(&peers[i]);
                if (doors[i] >= 0)
                        shut_door(i);
        }
        CU_ASSERT_PTR_NULL(weir_upstream_find("backend")); /* no request has kept it */
}

static inline struct weir_member_info
info_of(unsigned member)
{
        struct weir_member_info info = {.size = sizeof info};

        for (size_t i = 0; weir_upstream_member(backend, i, &info) == 0; i++)
                if (strcmp(info.address, address_of(member)) == 0)
                        return info;
        memset(&info, 0, sizeof info);
        return info;
}

static inline weir_task *
ask_new(const char *method, struct seen *seen)
{
        return weir_client_request_new(client, method, "http://backend/", see, seen);
}

static inline void
ask(struct seen *seen)
{
        start(ask_new("GET", seen));
        settle();
}

/* Takes in the request that has come to a new connection of a member.  Returns which member; -1: none has one. */
static inline int
take_request(void)
{
        for (int i = 0; i < MEMBERS; i++)
                if (doors[i] >= 0 && http_peer_has_caller(doors[i])) {
                        if (peers[i].fd >= 0)
                                http_peer_close(&peers[i]);
                        (void)http_peer_accept(&peers[i], doors[i], NULL);
                        (void)http_peer_request(&peers[i]);
                        return i;
                }
        return -1;
}

static inline void
reply(int member, const char *text)
{
        CU_ASSERT_TRUE_FATAL(member >= 0);
        CU_ASSERT_TRUE(http_peer_send(&peers[member], text));
        settle();
}

/* A request from its start to its end, on a connection of its own.  Returns the member. */
static inline int
ask_and_reply(const char *text, struct seen *seen)
{
        ask(seen);
        int member = take_request();

        reply(member, text);
        http_peer_close(&peers[member]);
        settle();
        return member;
}

#endif
