/* net/resolve/look_up.c: the way of a name to its answer.
 *
 *     begin --> route --hosts, a rule------------------------------------------.
 *                  \--servers of names: a question of the poller's channel-----+--> done
 *                   \--the system, or a function of the program: the executor--^
 *                    \--the files are stale, or there is no channel: the executor prepares that --> route, once more
 *
 * Threads: the owner of the poller and a thread of the executor, in turns.
 * Locks:   none. */
#include "net/resolve/look_up.h"

#include <errno.h>
#include <string.h>

#include "kernel/base/phase.h"
#include "kernel/executor/executor.h"
#include "kernel/runtime/runtime.h"
#include "kernel/worker/deliver.h"

/* The files are looked at, and a channel is made, for one look-up of a poller at a time; the others wait for that.  Each its
 * owner's. */
static struct {
        bool is_under_way;
        struct weir__list waiting;
} preparations[WEIR__POLLERS_MAX];

static void
complete_with(struct weir__look_up *look_up, int failed)
{
        look_up->done(look_up, weir__answer_problem(failed, "\"%s\" is not looked up: %s", look_up->name, weir_strerror(failed)),
                      0);
}

/* -- servers of names; owner -- */

static struct weir__look_up *
look_up_of(struct weir__dns_question *question)
{
        return weir__container_of(question, struct weir__look_up, question);
}

static void
dns_done(struct weir__dns_question *question, struct weir__answer *answer, weir_nsec ttl)
{
        struct weir__look_up *look_up = look_up_of(question);
        struct weir__answer *other = answer->status == -ENOENT
                                             ? weir__route_last(look_up->settings, look_up->files, &look_up->key)
                                             : NULL;

        if (other)
                weir__answer_unref(answer);
        look_up->done(look_up, other ? other : answer, other ? 0 : ttl);
}

static void
dns_early(struct weir__dns_question *question, struct weir__answer *answer)
{
        look_up_of(question)->early(look_up_of(question), answer);
}

/* -- the way of a look-up -- */

static uint64_t
generation_of(const struct weir__look_up *look_up)
{
        return look_up->settings->generation << 32 | look_up->files->generation;
}

static void
submit(struct weir__look_up *look_up, enum weir__look_up_part part)
{
        struct weir__poller *poller = weir__poller_at(look_up->poller);

        look_up->part = part;
        if (part == WEIR__LOOK_UP_PREPARE && preparations[poller->index].is_under_way) {
                weir__list_append(&preparations[poller->index].waiting, &look_up->waiting);
                return;
        }
        int failed = weir__executor_use();
        if (failed) {
                complete_with(look_up, failed);
                return;
        }
        if (part == WEIR__LOOK_UP_PREPARE)
                preparations[poller->index].is_under_way = true;
        look_up->channel = weir__dns_generation(poller);
        weir__executor_submit(&look_up->job);
}

/* Owner of its poller. */
static void
go_on(struct weir__look_up *look_up)
{
        struct weir__poller *poller = weir__poller_at(look_up->poller);
        struct weir__answer *answer = NULL;

        if (weir__phase_is_stopping()) {
                complete_with(look_up, -ESHUTDOWN);
                return;
        }
        if (look_up->settings->answer && !look_up->has_passed) {
                submit(look_up, WEIR__LOOK_UP_PROGRAM);
                return;
        }
        if (!look_up->files)
                look_up->files = weir__name_files_now();
        if (!look_up->files) {
                submit(look_up, WEIR__LOOK_UP_PREPARE);
                return;
        }
        enum weir__route route = weir__route_of(look_up->settings, look_up->files, &look_up->key, &answer);
        if (route == WEIR__ROUTE_ANSWERED)
                look_up->done(look_up, answer, 0);
        else if (route == WEIR__ROUTE_SYSTEM)
                submit(look_up, WEIR__LOOK_UP_SYSTEM);
        else if (weir__dns_generation(poller) >= generation_of(look_up))
                weir__dns_ask(poller, &look_up->question);
        else
                submit(look_up, WEIR__LOOK_UP_PREPARE);
}

/* What the preparation of a look-up has made is the poller's. */
static void
end_preparation(struct weir__look_up *look_up)
{
        struct weir__poller *poller = weir__poller_at(look_up->poller);

        preparations[poller->index].is_under_way = false;
        if (!look_up->dns || look_up->failed || weir__phase_is_stopping())
                return;
        struct weir__dns *dns = look_up->dns;
        look_up->dns = NULL;
        if (weir__dns_generation(poller) < generation_of(look_up))
                look_up->failed = weir__dns_use(poller, dns);
        else
                weir__dns_free_unused(dns);
}

/* The executor has given it back. */
static void
come_back(struct weir__work *work)
{
        struct weir__look_up *look_up = weir__container_of(work, struct weir__look_up, work);
        struct weir__list *waiting = &preparations[look_up->poller].waiting, others = {0};
        struct weir__link *link;

        if (look_up->part == WEIR__LOOK_UP_PREPARE) {
                end_preparation(look_up);
                weir__list_concat(&others, waiting);
        }
        if (look_up->failed)
                complete_with(look_up, look_up->failed);
        else
                go_on(look_up);
        while ((link = weir__list_pop(&others)))
                go_on(weir__container_of(link, struct weir__look_up, waiting));
}

static const struct weir__work_ops come_back_ops = {.run = come_back};

/* -- on the executor -- */

static void
prepare(struct weir__look_up *look_up)
{
        struct weir__answer *answer = NULL;

        if (!look_up->files)
                look_up->files = weir__name_files_look();
        look_up->failed = look_up->files ? 0 : -ENOMEM;
        if (look_up->failed)
                return;
        enum weir__route route = weir__route_of(look_up->settings, look_up->files, &look_up->key, &answer);
        weir__answer_unref(answer);
        if (route != WEIR__ROUTE_DNS || look_up->channel >= generation_of(look_up))
                return;
        const struct weir__resolver_settings *settings = look_up->settings;
        look_up->dns = weir__dns_new(&(struct weir__dns_settings){.servers = settings->servers,
                                                                  .resolv = weir__name_paths.resolv,
                                                                  .timeout = settings->timeout,
                                                                  .tries = settings->tries,
                                                                  .generation = generation_of(look_up)},
                                     &look_up->failed);
        look_up->failed = look_up->dns ? 0 : look_up->failed;
}

static void
run(struct weir__job *job)
{
        struct weir__look_up *look_up = weir__container_of(job, struct weir__look_up, job);
        struct weir__answer *answer = NULL;
        weir_nsec ttl = 0;

        weir__executor_begin(job->queue);
        bool has_other = weir__executor_blocking_begin() == 0;
        if (look_up->part == WEIR__LOOK_UP_PREPARE)
                prepare(look_up);
        else if (look_up->part == WEIR__LOOK_UP_SYSTEM)
                answer = weir__route_system(&look_up->key);
        else
                answer = weir__route_program(look_up->settings, &look_up->key, &ttl);
        if (has_other)
                weir__executor_blocking_end();
        weir__executor_end();
        look_up->has_passed = true;
        if (answer)
                look_up->done(look_up, answer, ttl);
        else
                weir__deliver(weir__poller_at(look_up->poller), &look_up->work);
}

static void
refuse(struct weir__job *job)
{
        struct weir__look_up *look_up = weir__container_of(job, struct weir__look_up, job);

        look_up->failed = -ESHUTDOWN;
        weir__deliver(weir__poller_at(look_up->poller), &look_up->work);
}

static const struct weir__job_ops job_ops = {run, refuse};

void
weir__look_up_prepare(struct weir__look_up *look_up, const struct weir__host_key *key, const struct weir__poller *poller)
{
        look_up->job.ops = &job_ops;
        look_up->work.ops = &come_back_ops;
        look_up->poller = (uint8_t)poller->index;
        memcpy(look_up->name, key->name, key->size);
        look_up->key = *key;
        look_up->key.name = look_up->name;
        look_up->question.name = look_up->name;
        look_up->question.family = key->family;
        look_up->question.done = dns_done;
        look_up->question.early = dns_early;
}

void
weir__look_up_begin(struct weir__look_up *look_up)
{
        go_on(look_up);
}

void
weir__look_up_finish(struct weir__look_up *look_up)
{
        weir__name_files_unref(look_up->files);
        weir__dns_free_unused(look_up->dns);
}
