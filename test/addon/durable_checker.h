/* test/addon/durable_checker.h: whether a history keeps the promises of docs/durable.md.
 *
 *   lost        a generation whose set was told 0 has succeeded, or was cancelled or replaced; the same for what was put back
 *   cancelled   a generation whose cancel was told 1 has no handler, before or afterwards, and no other cancel was told 1
 *   kept        a cancel that says that there was nothing, or a look that finds nothing, is wrong about a timer that nobody could
 *               have taken away
 *   early       no handler begins before the due time of the set and of the moves behind it
 *   moved       no due time moves behind the first claim
 *   replaced    no handler of a generation begins behind the end of a set that has replaced it
 *   order       generations and tokens of a name grow
 *   token       no two deliveries have the same one
 *   attempt     attempts grow with the tokens, up to the limit of the node
 *   dead        no timer is dead before all its attempts were made
 *   overlap     no handler of a generation begins while another one has it
 *   twice       behind a delivery that has succeeded there is no other one
 *   gone        no handler of a generation begins behind a look that has found it gone
 *   fires       each due time of a schedule is one generation, and none is left out, but for those of the policy
 *
 * A process that was killed, cut off or told a failure does not know what has happened: it may have, from the begin of the
 * operation until LATE behind its end or the death of the process.  `overlap`, `twice` and `replaced` hold while processes run:
 * they are not judged where a process stood still, and `twice` not where it did not reach the engine.
 *
 * A process that is killed within a lease of a success may not have told the engine: `twice` says nothing of it.  So processes
 * look behind a success, and what such a look has found gone was acknowledged: `gone` is about that, whatever becomes of the
 * process. */
#ifndef WEIR_TEST_DURABLE_CHECKER_H
#define WEIR_TEST_DURABLE_CHECKER_H

#include "test/addon/durable_checker_schedules.h"

/* -- sets -- */

/* How certain it is that the generation of a set is rightly gone: 0: it is not, 1: perhaps, 2: it is. */
static inline int
is_explained(const struct judge *judge, const struct event *begun, uint64_t generation)
{
        int certainty = 0;

        for (const struct event *event = judge->first; event < judge->end; event++) {
                if (event->generation > generation) /* it was replaced */
                        return 2;
                if (event->generation == generation && event->what == RUN_ENDED && event->status == 0)
                        return 2;
                if (event->generation == generation && event->what == CANCEL_TOLD)
                        return 2;
                if (event->what != CANCEL_BEGUN && event->what != FORGET_BEGUN)
                        continue;
                const struct event *told = answer(judge, event);
                bool is_gone = event->what == FORGET_BEGUN ? !told || told->status != -ENOENT : !is_known(told);
                if (is_gone && effect_end(judge, event, told) >= begun->at)
                        certainty = 1;
        }
        return certainty;
}

static inline void
check_set(struct judge *judge, const struct event *begun)
{
        const struct event *told = answer(judge, begun);

        judge->history->sets++;
        judge->history->unknown += !is_known(told);
        if (!told || told->status)
                return;
        int certainty = is_explained(judge, begun, told->generation);
        if (certainty == 0)
                blame(judge, "lost", begun);
        judge->history->doubtful += certainty == 1;
        for (const struct event *other = judge->first; other < judge->end; other++)
                if (other->what == SET_TOLD && other->status == 0 && other->at < begun->at &&
                    other->generation >= told->generation)
                        blame(judge, "order", told);
}

/* What was put back succeeds, or something else happens to it. */
static inline void
check_back(struct judge *judge, const struct event *begun)
{
        const struct event *told = answer(judge, begun);

        if (!told || told->status)
                return;
        if (told->generation) {
                if (is_explained(judge, begun, told->generation) == 0)
                        blame(judge, "lost", begun);
                return;
        }
        for (const struct event *event = judge->first; event < judge->end; event++) {
                if (event->at >= begun->at &&
                    ((event->what == RUN_ENDED && event->status == 0) || (event->what == CANCEL_TOLD && event->generation)))
                        return;
                bool is_other = event != begun && event->what >= 'a' && event->what != MOVE_BEGUN;
                const struct event *other = is_other ? answer(judge, event) : NULL;
                if (is_other && may_have_changed(event, other) && effect_end(judge, event, other) >= begun->at)
                        return;
        }
        blame(judge, "lost", begun);
}

/* -- cancels and looks -- */

/* The set that was the last one before an operation, that has a due time far away, and beside which nothing has happened. */
static inline const struct event *
set_that_stands(const struct judge *judge, const struct event *begun, const struct event *told)
{
        const struct event *set = NULL, *is_set = NULL;

        for (const struct event *event = judge->first; event < begun; event++) {
                const struct event *of = event->what == SET_BEGUN && event->span >= FAR ? answer(judge, event) : NULL;

                if (of && of->status == 0 && of->at < begun->at && told->at < event->at + event->span) {
                        set = event;
                        is_set = of;
                }
        }
        for (const struct event *event = judge->first; set && event < judge->end && event->at <= told->at; event++) {
                if (event == set || event == begun || event->what < 'a')
                        continue;
                const struct event *of = answer(judge, event);
                if (may_have_changed(event, of) && effect_end(judge, event, of) >= set->at)
                        return NULL;
        }
        return is_set;
}

static inline void
check_cancel(struct judge *judge, const struct event *begun)
{
        const struct event *told = answer(judge, begun);

        judge->history->unknown += !is_known(told);
        if (!told || told->status)
                return;
        if (!told->generation && set_that_stands(judge, begun, told))
                blame(judge, "kept", told);
        if (!told->generation)
                return;
        judge->history->cancels++;
        for (const struct event *event = judge->first; event < judge->end; event++)
                if (event->generation == told->generation && event != told &&
                    (event->what == RUN_BEGUN || event->what == CANCEL_TOLD))
                        blame(judge, "cancelled", event);
}

static inline void
check_look(struct judge *judge, const struct event *begun)
{
        const struct event *told = answer(judge, begun), *set;

        if (!is_known(told) || (set = set_that_stands(judge, begun, told)) == NULL)
                return;
        if (told->status || told->generation != set->generation)
                blame(judge, "kept", told);
}

/* -- handlers -- */

/* Whether the engine may have had the number of a generation, and not its row yet, at that instant. */
static inline bool
may_be_on_its_way(const struct judge *judge, uint64_t generation, int64_t at)
{
        bool may_be_unknown = false;

        for (const struct event *event = judge->first; judge->history->draws_early && event < judge->end; event++) {
                const struct event *told = event->what == SET_BEGUN ? answer(judge, event) : NULL;

                if (event->what != SET_BEGUN || event->at > at)
                        continue;
                if (is_known(told) && told->generation == generation)
                        return told->at >= at;
                may_be_unknown = may_be_unknown || (!is_known(told) && effect_end(judge, event, told) >= at);
        }
        return may_be_unknown;
}

/* The due time of a generation is not before this; INT64_MIN: it is not known. */
static inline int64_t
earliest(const struct judge *judge, const struct event *set, uint64_t generation)
{
        int64_t bound = set->at + set->span, last = answer(judge, set)->at;

        for (const struct event *event = judge->first; event < judge->end; event++) {
                if (event->what != MOVE_BEGUN)
                        continue;
                const struct event *told = answer(judge, event);
                if (is_known(told) && (told->status || told->generation != generation))
                        continue;
                if (!is_known(told) && effect_end(judge, event, told) < set->at)
                        continue;
                if (!is_known(told) || event->at <= last)
                        return INT64_MIN;
                bound = event->attempt ? event->at + event->span : bound + event->span;
                last = told->at;
        }
        return bound;
}

static inline void
check_begin(struct judge *judge, const struct event *run)
{
        const struct event *told;

        judge->history->runs++;
        judge->history->repeats += run->attempt > 1;
        if (run->token <= run->generation)
                blame(judge, "order", run);
        int limit = run->name < SCHEDULES ? life_of(judge, run->process).limit : 0; /* firings are not given up */
        if (run->attempt < 1 || (limit && run->attempt > limit))
                blame(judge, "attempt", run);
        for (const struct event *event = judge->first; run->name < SCHEDULES && event < judge->end; event++) {
                if (event->what != SET_BEGUN && event->what != MOVE_BEGUN)
                        continue;
                if ((told = answer(judge, event)) == NULL || told->status)
                        continue;
                if (event->what == SET_BEGUN && told->generation == run->generation &&
                    run->at + TOLERANCE < earliest(judge, event, run->generation))
                        blame(judge, "early", run);
                if (event->what == SET_BEGUN && told->generation > run->generation && told->at + judge->slack < run->at &&
                    is_connected(judge, run->process, told->at, run->at) &&
                    !may_be_on_its_way(judge, run->generation, told->at))
                        blame(judge, "replaced", run);
                if (event->what == MOVE_BEGUN && told->generation == run->generation && event->at > run->at)
                        blame(judge, "moved", told);
        }
}

/* From when on the generation was surely there. */
static inline int64_t
first_seen(const struct judge *judge, uint64_t generation)
{
        for (const struct event *event = judge->first; event < judge->end; event++)
                if (event->generation == generation)
                        return event->at;
        return NEVER;
}

/* The answer of a look that has found the generation gone; NULL: it has not. */
static inline const struct event *
found_gone(const struct judge *judge, const struct event *look, uint64_t generation)
{
        const struct event *told = look->what == GET_BEGUN ? answer(judge, look) : NULL;

        return is_known(told) && (told->status || told->generation > generation) ? told : NULL;
}

/* The node of that handler ran and reached the engine since the look, so it has claimed the generation behind it. */
static inline void
check_gone(struct judge *judge, const struct event *run)
{
        int64_t there = first_seen(judge, run->generation);

        for (const struct event *look = judge->first; look < run; look++) {
                const struct event *told = look->at >= there ? found_gone(judge, look, run->generation) : NULL;

                if (told && told->at + judge->slack < run->at && is_connected(judge, run->process, told->at, run->at)) {
                        blame(judge, "gone", run);
                        return;
                }
        }
}

/* Successes that `twice` does not judge, and those of them that `gone` does. */
static inline void
count_short_lived(struct judge *judge, const struct handler *handler)
{
        const struct event *run = handler->begun, *end = handler->ended;
        int64_t lease = judge->history->lease;

        if (!end || end->status || is_connected(judge, run->process, run->at - lease, end->at + lease))
                return;
        judge->history->short_lived++;
        for (const struct event *look = end + 1; look < judge->end; look++)
                if (found_gone(judge, look, run->generation)) {
                        judge->history->seen_gone++;
                        return;
                }
}

/* Two handlers of one generation; `before` has the smaller token. */
static inline void
check_pair(struct judge *judge, const struct handler *before, const struct handler *behind)
{
        const struct event *run = before->begun, *next = behind->begun;
        int64_t slack = judge->slack;

        if (run->token == next->token)
                blame(judge, "token", next);
        if (run->attempt >= next->attempt)
                blame(judge, "attempt", next);
        if (next->at < run->at && is_calm(judge, run->process, next->at - slack, run->at))
                blame(judge, "overlap", run); /* its claim is older */
        int64_t end = before->ended ? before->ended->at : NEVER;
        if (run->at <= next->at && end > next->at + slack &&
            is_calm(judge, run->process, run->at - judge->history->lease, next->at + slack))
                blame(judge, "overlap", next);
        if (!before->ended || before->ended->status || next->at <= end)
                return;
        /* Its end reaches the engine behind what it has asked for before, and at the latest before its lease is over. */
        int64_t until = next->at < end + judge->history->lease ? next->at : end + judge->history->lease;
        if (is_connected(judge, run->process, run->at - judge->history->lease, until))
                blame(judge, "twice", next);
}

/* The handlers of a name, in the order of their generations and tokens.  Result: how many. */
static inline size_t
find_handlers(const struct judge *judge, struct handler **handlers)
{
        size_t count = 0;

        *handlers = malloc((size_t)(judge->end - judge->first) * sizeof **handlers);
        if (!*handlers)
                abort();
        for (const struct event *event = judge->first; event < judge->end; event++)
                if (event->what == RUN_BEGUN)
                        (*handlers)[count++] = (struct handler){event, answer(judge, event)};
        qsort(*handlers, count, sizeof **handlers, order_by_token);
        return count;
}

static inline void
check_handlers(struct judge *judge, const struct handler *handlers, size_t count)
{
        for (size_t i = 0; i < count; i++) {
                const struct event *run = handlers[i].begun;

                check_begin(judge, run);
                if (run->name < SCHEDULES) {
                        check_gone(judge, run);
                        count_short_lived(judge, &handlers[i]);
                }
                for (size_t j = i + 1; j < count && handlers[j].begun->generation == run->generation; j++)
                        check_pair(judge, &handlers[i], &handlers[j]);
                const struct event *next = i + 1 < count ? handlers[i + 1].begun : NULL;
                if (next && next->token < run->token &&
                    (next->generation == run->generation || !may_be_on_its_way(judge, run->generation, next->at)))
                        blame(judge, "order", next);
        }
}

/* -- all -- */

static inline void
check_name(struct judge *judge)
{
        struct handler *handlers;
        size_t count = find_handlers(judge, &handlers);

        for (const struct event *event = judge->first; event < judge->end; event++) {
                switch (event->what) {
                case SET_BEGUN: check_set(judge, event); break;
                case BACK_BEGUN: check_back(judge, event); break;
                case CANCEL_BEGUN: check_cancel(judge, event); break;
                case GET_BEGUN: check_look(judge, event); break;
                case DEAD_SEEN:
                        if (event->attempt < life_of(judge, event->process).limit)
                                blame(judge, "dead", event);
                        break;
                default: break;
                }
        }
        check_handlers(judge, handlers, count);
        if (judge->first->name >= SCHEDULES)
                check_schedule(judge, handlers, count);
        free(handlers);
}

static inline void
check_tokens(struct judge *judge)
{
        const struct history *history = judge->history;
        uint64_t *tokens = malloc((history->count + 1) * sizeof *tokens);
        size_t count = 0;

        if (!tokens)
                abort();
        for (size_t i = 0; i < history->count; i++)
                if (history->events[i].what == RUN_BEGUN)
                        tokens[count++] = history->events[i].token;
        qsort(tokens, count, sizeof *tokens, order_numbers);
        for (size_t i = 1; i < count; i++)
                if (tokens[i] == tokens[i - 1])
                        for (size_t j = 0; j < history->count; j++)
                                if (history->events[j].what == RUN_BEGUN && history->events[j].token == tokens[i]) {
                                        judge->first = judge->end = NULL;
                                        blame(judge, "token", &history->events[j]);
                                        break;
                                }
        free(tokens);
}

/* What a process wanted from the engine took long, and it did not live to say so. */
static inline void
note_unanswered(struct judge *judge)
{
        for (const struct event *event = judge->first; event < judge->end; event++) {
                int64_t killed = life_of(judge, event->process).killed;
                bool is_begun = event->what >= 'a' && event->what != RUN_BEGUN && event->what != SCHEDULED && event->process > 0;

                if (is_begun && killed != NEVER && killed - event->at > judge->slack && !answer(judge, event))
                        add_span(&judge->stops, event->process, event->at, killed);
        }
}

static inline void
note_processes(struct judge *judge)
{
        struct history *history = judge->history;

        for (size_t i = 0; i < history->count; i++) {
                const struct event *event = &history->events[i];

                if (event->what == STARTED || event->what == KILLED)
                        note_life(judge, event);
                if (event->what == STOPPED)
                        add_span(&judge->stops, event->process, event->at, event->span);
                if (event->what == DISTURBED)
                        add_span(&judge->disturbances, event->status, event->at, event->span);
                history->kills += event->what == KILLED;
                history->stops += event->what == STOPPED && event->operation == 0;
                history->disturbances += event->what == DISTURBED;
                history->clocks += event->what == CLOCK_SEEN;
                history->wrong_clocks += event->what == CLOCK_SEEN && event->span != 0;
        }
}

static inline void
for_each_name(struct judge *judge, void look_at(struct judge *judge))
{
        const struct event *events = judge->history->events, *end = events + judge->history->count;

        for (judge->first = events; judge->first < end; judge->first = judge->end) {
                for (judge->end = judge->first; judge->end < end && judge->end->name == judge->first->name; judge->end++) {
                }
                if (judge->first->name >= 0)
                        look_at(judge);
        }
}

/* Judges a history behind which all timers were delivered.  Result: how often a promise was broken. */
static inline unsigned
history_check(struct history *history)
{
        struct judge judge = {.history = history, .slack = history->lease / 4};

        if (history->count)
                qsort(history->events, history->count, sizeof *history->events, order_by_name);
        note_processes(&judge);
        for_each_name(&judge, note_unanswered);
        for_each_name(&judge, check_name);
        check_tokens(&judge);
        free(judge.lives);
        free(judge.stops.list);
        free(judge.disturbances.list);
        return history->violations;
}

#endif
