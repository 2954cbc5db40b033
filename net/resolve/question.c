/* net/resolve/question.c: questions to name servers: search lists, both families, and how long answers hold.
 *
 *     in line --fewer than WEIR__DNS_AT_ONCE run--> a candidate of the search list: one query for each family
 *          the first half has come: IPv4 --50 ms--> `early`
 *          both halves have come: addresses --> `done`;  none --> the next candidate, or `done`
 *
 * Threads: the owner of the poller.
 * Locks:   none. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernel/base/clock.h"
#include "kernel/base/phase.h"
#include "net/resolve/dns.h"

#define TYPE_SOA 6
#define NO_TTL   UINT32_MAX

/* -- how long a reply without addresses holds.  Source: RFC 2308, section 5: the lesser of the TTL of the SOA record in its
 * authority section and of the minimum in that record.  Each read is checked against the end of the reply. -- */

struct reader {
        const unsigned char *data;
        size_t size, at;
        bool is_short; /* it has read behind the end; all that it reads is 0 */
};

static const unsigned char *
take(struct reader *reader, size_t size)
{
        if (reader->is_short || reader->size - reader->at < size) {
                reader->is_short = true;
                return NULL;
        }
        reader->at += size;
        return reader->data + reader->at - size;
}

static uint32_t
take_number(struct reader *reader, size_t size)
{
        const unsigned char *data = take(reader, size);
        uint32_t number = 0;

        for (size_t i = 0; data && i < size; i++)
                number = number << 8 | data[i];
        return number;
}

/* A name ends with an empty label, or with a pointer to the rest. */
static void
skip_name(struct reader *reader)
{
        uint32_t size;

        while ((size = take_number(reader, 1)) != 0) {
                if (size >= 0xc0) {
                        take(reader, 1);
                        return;
                }
                take(reader, size);
        }
}

/* The type, the TTL and the data of a record. */
static struct reader
take_record(struct reader *reader, uint32_t *type, uint32_t *ttl)
{
        skip_name(reader);
        *type = take_number(reader, 2);
        take(reader, 2);
        *ttl = take_number(reader, 4);
        size_t size = take_number(reader, 2), begin = reader->at;
        return take(reader, size) ? (struct reader){reader->data, begin + size, begin, false} : (struct reader){.is_short = true};
}

/* The seconds for which a reply without addresses holds; NO_TTL: it does not say. */
static uint32_t
negative_ttl(const unsigned char *reply, size_t size)
{
        struct reader reader = {.data = reply, .size = size};
        uint32_t type, ttl;

        take(&reader, 4);
        uint32_t questions = take_number(&reader, 2), answers = take_number(&reader, 2), authorities = take_number(&reader, 2);
        take(&reader, 2);
        for (; questions && !reader.is_short; questions--) {
                skip_name(&reader);
                take(&reader, 4);
        }
        for (; answers && !reader.is_short; answers--)
                take_record(&reader, &type, &ttl);
        for (; authorities && !reader.is_short; authorities--) {
                struct reader data = take_record(&reader, &type, &ttl);

                if (type != TYPE_SOA || data.is_short)
                        continue;
                skip_name(&data);
                skip_name(&data);
                take(&data, 16);
                uint32_t least = take_number(&data, 4);
                if (!data.is_short)
                        return ttl < least ? ttl : least;
        }
        return NO_TTL;
}

/* -- the end of a question -- */

static void
forget_parts(struct weir__dns_question *question)
{
        for (unsigned i = 0; i < 2; i++) {
                free(question->parts[i].reply.found);
                question->parts[i].reply.found = NULL;
                question->parts[i].reply.count = 0;
        }
        if (weir__link_is_used(&question->late))
                weir__link_remove(&question->late);
}

/* The question is its asker's again. */
static void
finish(struct weir__dns_question *question, struct weir__answer *answer, weir_nsec ttl)
{
        forget_parts(question);
        question->dns->running--;
        question->done(question, answer, ttl);
}

static struct weir__answer *
ended(void)
{
        return weir__answer_problem(-ESHUTDOWN, "the runtime ends");
}

/* Why a question has no addresses, as that reply tells it. */
static struct weir__answer *
problem_of(const struct weir__dns_question *question, const struct weir__dns_reply *reply)
{
        static const char *const kinds[] = {"IPv6 ", "IPv4 ", ""};
        const char *name = question->name, *all = question->dns->servers, *server = reply->server[0] ? reply->server : all;
        const char *kind = kinds[question->family == AF_INET6 ? 0 : question->family == AF_INET ? 1 : 2];

        switch (reply->status) {
        case -ENOENT:
                if (reply->is_nxdomain)
                        return weir__answer_problem(-ENOENT, "no such name \"%s\": NXDOMAIN from %s", name, server);
                return weir__answer_problem(-ENOENT, "\"%s\" has no %saddresses: an empty answer from %s", name, kind, server);
        case -EAGAIN: return weir__answer_problem(-EAGAIN, "no answer for \"%s\" from %s", name, all);
        case -ESHUTDOWN: return ended();
        case -EINVAL: return weir__answer_problem(-EINVAL, "\"%s\" is no name of a host", name);
        default: return weir__answer_problem(reply->status, "no addresses of \"%s\": %s from %s", name, reply->words, server);
        }
}

/* The addresses of both parts, IPv6 first.  NULL when out of memory. */
static struct weir__answer *
addresses_of(const struct weir__dns_question *question)
{
        const struct weir__dns_reply *six = &question->parts[0].reply, *four = &question->parts[1].reply;
        struct weir__answer *answer = weir__answer_new(six->count + four->count);

        if (!answer)
                return NULL;
        if (six->count)
                memcpy(answer->at, six->found, six->count * sizeof *answer->at);
        if (four->count)
                memcpy(answer->at + six->count, four->found, four->count * sizeof *answer->at);
        return answer;
}

static weir_nsec
lesser(weir_nsec one, weir_nsec other)
{
        return one < other ? one : other;
}

/* How long both halves hold.  A server that has failed for one of them may have recovered soon. */
static weir_nsec
ttl_of(const struct weir__dns_question *question)
{
        weir_nsec ttl = WEIR_FOREVER;

        for (unsigned i = 0; i < 2; i++) {
                const struct weir__dns_part *part = &question->parts[i];

                if (question->family && question->family != part->query.family)
                        continue;
                bool is_failure = part->reply.status && part->reply.status != -ENOENT;
                ttl = lesser(ttl, is_failure ? WEIR__DNS_UNKNOWN : part->ttl);
        }
        return ttl;
}

/* The half that says most of why there is nothing: a failure; else a name that is not there. */
static struct weir__dns_reply *
deciding_reply(struct weir__dns_question *question)
{
        struct weir__dns_reply *six = &question->parts[0].reply, *four = &question->parts[1].reply;

        if (question->family)
                return question->family == AF_INET6 ? six : four;
        if (four->status != -ENOENT)
                return four;
        return six->status != -ENOENT || six->is_nxdomain ? six : four;
}

static bool ask_candidate(struct weir__dns_question *question);

/* Both halves have come. */
static void
conclude(struct weir__dns_question *question)
{
        struct weir__dns_reply *reply = deciding_reply(question);

        if (question->parts[0].reply.count + question->parts[1].reply.count) {
                struct weir__answer *answer = addresses_of(question);

                finish(question, answer ? answer : weir__answer_problem(-ENOMEM, "out of memory"), answer ? ttl_of(question) : 0);
                return;
        }
        if (reply->status == -EIO && !question->worst)
                question->worst = reply->words;
        forget_parts(question);
        if ((reply->status == -ENOENT || reply->status == -EIO) && !question->dns->is_ending) {
                question->candidate++;
                if (ask_candidate(question))
                        return;
        }
        weir_nsec ttl = reply->status == -ENOENT ? ttl_of(question) : 0;
        if (reply->status == -ENOENT && question->worst) { /* perhaps it is there, where the server has failed */
                reply->status = -EIO;
                reply->words = question->worst;
                ttl = 0;
        }
        finish(question, problem_of(question, reply), ttl);
}

/* -- queries -- */

/* The IPv4 addresses are there, and the IPv6 addresses are not. */
static void
start_resolution_delay(struct weir__dns_question *question)
{
        if (!question->parts[0].is_open || !question->parts[1].reply.count)
                return;
        question->early_at = weir__clock_monotonic() + WEIR__DNS_RESOLUTION_DELAY;
        weir__list_append(&question->dns->late, &question->late);
        weir__dns_set_timer(question->dns, question->early_at);
}

static void
replied(struct weir__dns_query *query, const struct weir__dns_reply *reply)
{
        struct weir__dns_part *part = (struct weir__dns_part *)query;
        struct weir__dns_question *question = part->question;

        part->is_open = false;
        part->reply = *reply;
        part->ttl = reply->ttl;
        snprintf(part->server, sizeof part->server, "%s", reply->server);
        part->reply.server = part->server;
        part->reply.data = NULL;
        if (reply->status == -ENOENT) {
                uint32_t ttl = reply->data ? negative_ttl(reply->data, reply->size) : NO_TTL;

                part->ttl = ttl == NO_TTL ? WEIR__DNS_UNKNOWN : ttl * WEIR_SEC(1);
        }
        question->open--;
        if (question->open == 0)
                conclude(question);
        else
                start_resolution_delay(question);
}

/* Writes the candidate of the question's number, or of the next one that is not too long.  Result: false: there is none. */
static bool
write_candidate(struct weir__dns_question *question)
{
        const struct weir__dns *dns = question->dns;
        size_t size = strlen(question->name);
        unsigned dots = 0, domains = (unsigned)dns->domain_count;

        for (size_t i = 0; i < size; i++)
                dots += question->name[i] == '.';
        if (question->name[size - 1] == '.')
                domains = 0;                                          /* it is absolute */
        unsigned itself = dots >= (unsigned)dns->ndots ? 0 : domains; /* when it is tried as it is */
        for (; question->candidate <= domains; question->candidate++) {
                unsigned number = question->candidate;
                const char *domain = number == itself ? "" : dns->domains[number > itself ? number - 1 : number];

                if (size + 1 + strlen(domain) >= sizeof question->tried)
                        continue;
                snprintf(question->tried, sizeof question->tried, "%s%s%s", question->name, *domain ? "." : "", domain);
                return true;
        }
        return false;
}

static void
prepare_part(struct weir__dns_question *question, unsigned index, int family)
{
        struct weir__dns_part *part = &question->parts[index];

        *part = (struct weir__dns_part){.query = {question->dns, family, replied}, .question = question, .ttl = WEIR_FOREVER};
        part->reply.status = -ENOENT;
        part->is_open = !question->family || question->family == family;
        question->open += part->is_open;
}

/* Asks for a candidate.  Result: false: there is none.  The question may be over when this returns. */
static bool
ask_candidate(struct weir__dns_question *question)
{
        if (!write_candidate(question))
                return false;
        question->open = 1; /* for this function: a query may fail at once */
        prepare_part(question, 0, AF_INET6);
        prepare_part(question, 1, AF_INET);
        for (unsigned i = 0; i < 2; i++)
                if (question->parts[i].is_open)
                        weir__dns_begin(&question->parts[i].query, question->tried);
        if (--question->open == 0)
                conclude(question);
        return true;
}

/* -- the channel -- */

static bool
settle(struct weir__dns *dns)
{
        struct weir__link *link;

        while (dns->running < WEIR__DNS_AT_ONCE && (link = weir__list_pop(&dns->line))) {
                dns->running++;
                ask_candidate(weir__container_of(link, struct weir__dns_question, link));
        }
        return dns->running == 0;
}

static void
look(struct weir__dns *dns, weir_nsec now)
{
        struct weir__link *link;

        while ((link = weir__list_first(&dns->late))) {
                struct weir__dns_question *question = weir__container_of(link, struct weir__dns_question, late);

                if (question->early_at > now) {
                        weir__dns_set_timer(dns, question->early_at);
                        return;
                }
                weir__link_remove(link);
                struct weir__answer *answer = addresses_of(question);
                if (answer)
                        question->early(question, answer);
        }
}

static void
end(struct weir__dns *dns)
{
        struct weir__link *link;

        while ((link = weir__list_pop(&dns->line))) {
                struct weir__dns_question *question = weir__container_of(link, struct weir__dns_question, link);

                question->done(question, ended(), 0);
        }
}

static const struct weir__dns_ops ops = {settle, look, end};

int
weir__dns_use(struct weir__poller *poller, struct weir__dns *dns)
{
        return weir__dns_adopt(poller, dns, &ops);
}

void
weir__dns_ask(struct weir__poller *poller, struct weir__dns_question *question)
{
        struct weir__dns *dns = weir__dns_current(poller);

        if (!dns || weir__phase_is_stopping()) {
                question->done(question, ended(), 0);
                return;
        }
        question->dns = dns;
        weir__list_append(&dns->line, &question->link);
        weir__dns_settle(dns);
}
