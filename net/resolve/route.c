/* net/resolve/route.c: who answers for a name.
 *
 *     the text of an address, or no name: at once
 *     a function of the program --passes--> hosts, servers of names, or the system, as the mode and nsswitch.conf say
 *
 * Threads: any.
 * Locks:   none; no state.
 *
 * The library asks itself where that has the meaning of getaddrinfo(3): `files` and `dns` are all that nsswitch.conf has.  What
 * other modules do, such as those of mDNS and systemd, only the C library knows; and names that end in ".local" are theirs. */
#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "kernel/data/ascii.h"
#include "kernel/runtime/runtime.h"
#include "kernel/worker/user.h"
#include "net/resolve/look_up.h"

#define DNS_NAME_MAX 253 /* bytes of a name without its last dot; RFC 1035, section 2.3.4 */
#define LABEL_MAX    63  /* bytes */
#define SYSTEM_MOST  64  /* addresses */

/* -- names -- */

/* Whether it has labels of printable ASCII.  Underscores and the like are let through: names of hosts have them. */
static bool
is_name(const char *name, size_t size)
{
        size_t label = 0;

        if (size && name[size - 1] == '.')
                size--;
        if (size == 0 || size > DNS_NAME_MAX)
                return false;
        for (size_t i = 0; i < size; i++) {
                unsigned char byte = (unsigned char)name[i];

                if (byte == '.' ? label == 0 : byte <= ' ' || byte >= 0x7f || byte == '\\' || byte == '%')
                        return false;
                label = byte == '.' ? 0 : label + 1;
                if (label > LABEL_MAX)
                        return false;
        }
        return label > 0;
}

static struct weir__answer *
answer_of(const struct weir__socket_address *found, unsigned count)
{
        struct weir__answer *answer = weir__answer_new(count);

        if (!answer)
                return weir__answer_problem(-ENOMEM, "out of memory");
        for (unsigned i = 0; i < count; i++)
                answer->at[i] = found[i];
        return answer;
}

struct weir__answer *
weir__route_read(const char *host, int family, struct weir__host_key *key, char *room)
{
        struct weir__address address;
        const char *reason = NULL;
        size_t size = strlen(host);
        int failed = size ? weir__address_set_host(&address, host, size, 0, &reason) : -EINVAL;

        if (failed && failed != -EINVAL)
                return weir__answer_problem(failed, "\"%.*s\": %s", WEIR__HOST_BYTES, host, weir_strerror(failed));
        if (!failed && address.kind == WEIR__ADDRESS_LITERAL && (!family || address.name.any.sa_family == family))
                return answer_of(&address.name, 1);
        if (!failed && address.kind == WEIR__ADDRESS_LITERAL)
                return weir__answer_problem(-ENOENT, "%s is an address of the other family", host);
        if (failed || !is_name(host, size))
                return weir__answer_problem(-EINVAL, "\"%.*s\" is no name of a host%s%s", WEIR__HOST_BYTES, host,
                                            reason ? ": " : "", reason ? reason : "");
        for (size_t i = 0; i <= size; i++)
                room[i] = weir__to_lower(host[i]);
        *key = (struct weir__host_key){.name = room, .size = (uint8_t)size, .family = (uint8_t)family};
        return NULL;
}

/* Whether the name ends with that label, or is it. */
static bool
is_in(const struct weir__host_key *key, const char *label)
{
        size_t size = key->size, own = strlen(label);

        if (key->name[size - 1] == '.')
                size--;
        return size >= own && memcmp(key->name + size - own, label, own) == 0 &&
               (size == own || key->name[size - own - 1] == '.');
}

/* -- the files -- */

static struct weir__answer *
of_hosts(const struct weir__name_files *files, const struct weir__host_key *key)
{
        struct weir__socket_address found[SYSTEM_MOST];
        size_t size = key->name[key->size - 1] == '.' ? key->size - 1U : key->size;
        unsigned count = weir__hosts_find(&files->hosts, key->name, size, key->family, found, SYSTEM_MOST);

        return count ? answer_of(found, count) : NULL;
}

/* Source: RFC 6761, section 6.3. */
static struct weir__answer *
loopback(const struct weir__host_key *key)
{
        struct weir__socket_address found[2] = {0};
        struct sockaddr_in6 *six = (struct sockaddr_in6 *)&found[0].storage;
        struct sockaddr_in *four = (struct sockaddr_in *)&found[1].storage;

        found[0].size = sizeof *six;
        six->sin6_family = AF_INET6;
        six->sin6_addr = in6addr_loopback;
        found[1].size = sizeof *four;
        four->sin_family = AF_INET;
        four->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        return answer_of(key->family == AF_INET ? &found[1] : found, key->family ? 1 : 2);
}

static enum weir__name_order
order_of(const struct weir__resolver_settings *settings, const struct weir__name_files *files, const struct weir__host_key *key)
{
        if (settings->mode == WEIR_RESOLVER_DNS)
                return WEIR__ORDER_FILES_DNS;
        return settings->mode == WEIR_RESOLVER_SYSTEM || is_in(key, "local") ? WEIR__ORDER_SYSTEM : files->order;
}

enum weir__route
weir__route_of(const struct weir__resolver_settings *settings, const struct weir__name_files *files,
               const struct weir__host_key *key, struct weir__answer **answer)
{
        enum weir__name_order order = order_of(settings, files, key);

        if (order == WEIR__ORDER_SYSTEM)
                return WEIR__ROUTE_SYSTEM;
        if (order == WEIR__ORDER_FILES_DNS || order == WEIR__ORDER_FILES)
                *answer = of_hosts(files, key);
        if (!*answer && is_in(key, "localhost"))
                *answer = loopback(key);
        if (!*answer && order == WEIR__ORDER_FILES)
                *answer = weir__answer_problem(-ENOENT, "no such name \"%s\": it is not in %s", key->name,
                                               weir__name_paths.hosts);
        return *answer ? WEIR__ROUTE_ANSWERED : WEIR__ROUTE_DNS;
}

struct weir__answer *
weir__route_last(const struct weir__resolver_settings *settings, const struct weir__name_files *files,
                 const struct weir__host_key *key)
{
        return order_of(settings, files, key) == WEIR__ORDER_DNS_FILES ? of_hosts(files, key) : NULL;
}

/* -- the system -- */

struct weir__answer *
weir__route_system(const struct weir__host_key *key)
{
        struct weir__socket_address found[SYSTEM_MOST];
        const char *reason;
        int count = weir__address_look_up(key->name, key->family, found, SYSTEM_MOST, &reason);

        if (count > 0)
                return answer_of(found, (unsigned)count);
        if (count == -ENOENT)
                return weir__answer_problem(-ENOENT, "no such name \"%s\", as the system says", key->name);
        return weir__answer_problem(count ? count : -ENOENT, "no addresses of \"%s\": %s", key->name,
                                    reason ? reason : weir_strerror(count));
}

/* -- the program -- */

struct weir_resolver_reply {
        int family;
        unsigned count;
        bool is_short;                      /* an address was lost for want of memory */
        struct weir__socket_address *found; /* malloc */
        weir_nsec ttl;
};

int
weir_resolver_reply_add(weir_resolver_reply *reply, const char *text)
{
        struct weir__address address;
        const char *reason;
        int failed = text && *text ? weir__address_set_host(&address, text, strlen(text), 0, &reason) : -EINVAL;

        if (failed || address.kind != WEIR__ADDRESS_LITERAL)
                return failed ? failed : -EINVAL;
        if (reply->family && reply->family != address.name.any.sa_family)
                return 0;
        struct weir__socket_address *more = realloc(reply->found, (reply->count + 1) * sizeof *more);
        if (!more) {
                reply->is_short = true;
                return -ENOMEM;
        }
        more[reply->count++] = address.name;
        reply->found = more;
        return 0;
}

void
weir_resolver_reply_keep(weir_resolver_reply *reply, weir_nsec duration)
{
        reply->ttl = duration > 0 ? duration : 0;
}

static struct weir__answer *
read_reply(const weir_resolver_reply *reply, int result, const struct weir__host_key *key)
{
        if (reply->is_short)
                return weir__answer_problem(-ENOMEM, "out of memory");
        if (result == 0 && reply->count)
                return answer_of(reply->found, reply->count);
        if (result == WEIR_RESOLVER_PASS)
                return NULL;
        result = result < 0 ? result : -ENOENT;
        return weir__answer_problem(result, "no addresses of \"%s\": the program's function says %s", key->name,
                                    weir_strerror(result));
}

struct weir__answer *
weir__route_program(const struct weir__resolver_settings *settings, const struct weir__host_key *key, weir_nsec *ttl)
{
        static const struct weir__callee callee = {"the function of weir_resolver_configure", NULL, "resolver"};
        weir_resolver_reply reply = {.family = key->family};

        if (!settings->answer)
                return NULL;
        struct weir__user_call call = weir__user_begin_as(&callee, NULL, (weir__function *)settings->answer);
        void *fiber = weir__user_hide_fiber();
        int result = settings->answer(key->name, key->family, &reply, settings->context);
        weir__user_show_fiber(fiber);
        weir__user_end_as(call);
        struct weir__answer *answer = read_reply(&reply, result, key);
        free(reply.found);
        *ttl = reply.ttl;
        return answer;
}
