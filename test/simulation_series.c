/* test/simulation_series.c: operations on series, by name and with deadlines, each beside the same on the model.
 *
 * Threads: the one that has the turn (simulation.c). */
#include "test/simulation_driver.h"

#include <errno.h>
#include <inttypes.h>

static bool
is_clear(const struct flow *flow)
{
        return !model_is_vague(flow) && !flow->stepping;
}

static bool
is_over(const struct flow *flow)
{
        return flow->place == FLOW_ENDING || flow->place == FLOW_ENDED;
}

/* -- names -- */

void
simulation_act_name_series(const struct actor *actor)
{
        struct flow *flow = simulation_draw_flow(is_clear);
        int name = one_in(5) ? -1 : (int)below(MODEL_NAMES);

        if (!flow)
                return;
        int is = weir_series_set_name(flow->handle, name < 0 ? NULL : simulation_names[name]);
        int should = is_over(flow) ? -ESTALE : 0;
        simulation_note(actor->where, "names series", (int64_t)flow->serial, name, is);
        simulation_expect("set_name", is, should, should);
        if (!is)
                model_set_name(flow, name);
}

static bool
bears(const struct flow *flow, int name)
{
        return flow->name == name && !is_over(flow);
}

/* The bearer that got the name first after those; NULL: there is none. */
static struct flow *
next_bearer(int name, uint64_t after)
{
        struct flow *next = NULL;

        for (unsigned i = 0; i < model.flow_count; i++) {
                struct flow *flow = model.kept[i];

                if (bears(flow, name) && flow->name_order > after && (!next || flow->name_order < next->name_order))
                        next = flow;
        }
        return next;
}

static bool
any_is_vague(int name)
{
        for (unsigned i = 0; i < model.flow_count; i++)
                if (model.kept[i]->name == name && model_is_vague(model.kept[i]))
                        return true;
        return false;
}

void
simulation_act_cancel_named(const struct actor *actor)
{
        int name = (int)below(MODEL_NAMES);
        size_t max = simulation_draw_max(), should = 0;

        if (model.starting || any_is_vague(name))
                return;
        for (struct flow *flow = next_bearer(name, 0); flow && should < max; flow = next_bearer(name, flow->name_order))
                should += model_stop_flow(flow, -ECANCELED);
        size_t is = weir_series_cancel_named(simulation_names[name], max);
        simulation_note(actor->where, "cancels named", name, (int64_t)max, (int64_t)is);
        simulation_expect("cancel_named", (int64_t)is, (int64_t)should, (int64_t)should);
}

void
simulation_act_count_series(const struct actor *actor)
{
        int name = (int)below(MODEL_NAMES);
        int64_t is = (int64_t)weir_series_count(simulation_names[name]), least = 0, most = 0;

        for (unsigned i = 0; i < model.flow_count; i++) {
                const struct flow *flow = model.kept[i];
                bool vague = flow->name == name && model_is_vague(flow);

                least += bears(flow, name) && !vague;
                most += bears(flow, name) || vague;
        }
        simulation_note(actor->where, "counts series", name, is, 0);
        simulation_expect("count of series", is, least, most);
}

/* -- deadlines -- */

static weir_nsec
draw_limit(void)
{
        if (one_in(8))
                return WEIR_FOREVER;
        return one_in(8) && model.starting == 0 ? -(weir_nsec)below(2) : simulation_draw_duration();
}

/* A series that ends just when its deadline comes ends a little later; when it has no callback it is not known when a race that
 * it has won is over for the others. */
static bool
can_be_limited(const struct flow *flow)
{
        return is_clear(flow) && !(flow->wraps && flow->parallel && flow->parallel->kind == RACE);
}

void
simulation_act_limit_series(const struct actor *actor)
{
        struct flow *flow = simulation.up ? simulation_draw_flow(can_be_limited) : NULL;
        weir_nsec limit = draw_limit();

        if (!flow || (model.starting && limit <= 0))
                return;
        int is = weir_series_set_deadline(flow->handle, limit), should = is_over(flow) ? -ESTALE : 0;
        simulation_note(actor->where, "limits series", (int64_t)flow->serial, limit, is);
        simulation_expect("set_deadline", is, should, should);
        if (!is)
                model_set_deadline(flow, limit);
}

/* -- looking -- */

static enum weir_series_cause
cause_of(int status, int poison)
{
        switch (status) {
        case -ECANCELED: return WEIR_CAUSE_CANCELLED;
        case -ETIMEDOUT: return WEIR_CAUSE_TIMED_OUT;
        case -ESHUTDOWN: return WEIR_CAUSE_SHUT_DOWN;
        default: return poison ? WEIR_CAUSE_POISONED : WEIR_CAUSE_NONE;
        }
}

void
simulation_act_ask_series(const struct actor *actor)
{
        struct flow *flow = simulation_draw_flow(is_clear);

        if (!flow)
                return;
        int cause = model_known_cause(flow), status = cause ? cause : flow->poison;
        simulation_note(actor->where, "asks series", (int64_t)flow->serial, cause, 0);
        simulation_expect("status", weir_series_status(flow->handle), status, status);
        int number = (int)cause_of(cause, flow->poison);
        simulation_expect("cause", weir_series_cause(flow->handle), number, number);
        if (is_over(flow) || !simulation.up || model.starting) /* what is not started is not within anything yet */
                return;
        weir_nsec left = model_time_left(flow);

        simulation_expect("time_left", weir_series_time_left(flow->handle), left, left);
}
