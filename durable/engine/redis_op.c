/* durable/engine/redis_op.c: operations as arguments of the script, and its replies as their results.
 *
 * A list is sent page by page, and the renewal of many claims in parts, so that other clients of the server do not wait for long.
 * A list goes on behind its last row. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "durable/engine/redis_op.h"

#define PAGE_MOST  500
#define RENEW_MOST 256

/* -- instants: 11 digits of seconds since the earliest one, and 9 of nanoseconds -- */

#define BIAS           9223372037
#define INSTANT_DIGITS 20
#define TOKEN_DIGITS   16
#define NSEC_A_SECOND  1000000000

static void
write_digits(char *out, uint64_t value, size_t count)
{
        while (count--) {
                out[count] = (char)('0' + value % 10);
                value /= 10;
        }
}

static void
write_instant(char *out, weir_nsec at)
{
        int64_t seconds = at / NSEC_A_SECOND, rest = at % NSEC_A_SECOND;

        if (rest < 0) {
                rest += NSEC_A_SECOND;
                seconds--;
        }
        write_digits(out, (uint64_t)(seconds + BIAS), 11);
        write_digits(out + 11, (uint64_t)rest, 9);
}

static uint64_t
read_digits(const char *text, size_t count)
{
        uint64_t value = 0;

        for (size_t i = 0; i < count; i++)
                value = 10 * value + (uint64_t)(text[i] - '0');
        return value;
}

static bool
are_digits(const char *text, size_t count)
{
        for (size_t i = 0; i < count; i++)
                if (text[i] < '0' || text[i] > '9')
                        return false;
        return true;
}

static bool
is_instant_at(const char *text)
{
        return are_digits(text, INSTANT_DIGITS) && memcmp(text, "18446744073854775807", INSTANT_DIGITS) <= 0;
}

static bool
is_instant(const struct weir_redis_reply *reply)
{
        return reply && reply->type == WEIR_REDIS_STRING && reply->size == INSTANT_DIGITS && is_instant_at(reply->text);
}

/* Reads an instant whose form is_instant_at has checked. */
static weir_nsec
read_instant_at(const char *text)
{
        int64_t seconds = (int64_t)read_digits(text, 11) - BIAS, rest = (int64_t)read_digits(text + 11, 9);

        return seconds < 0 ? (seconds + 1) * NSEC_A_SECOND + (rest - NSEC_A_SECOND) : seconds * NSEC_A_SECOND + rest;
}

static weir_nsec
read_instant(const struct weir_redis_reply *reply)
{
        return read_instant_at(reply->text);
}

/* -- arguments -- */

static size_t
page_of(const struct weir__durable_op *op)
{
        size_t rest = op->most - op->row_count;

        return rest < PAGE_MOST ? rest : PAGE_MOST;
}

/* How many claims the next part of a renewal has. */
static size_t
part_of(const struct weir__durable_op *op)
{
        size_t rest = op->claim_count - op->claims_done;

        return rest < RENEW_MOST ? rest : RENEW_MOST;
}

size_t
weir__durable_redis_room(const struct weir__durable_op *op)
{
        return 16 + op->topic_count + (op->kind == WEIR__DURABLE_RENEW ? 2 * part_of(op) : 0);
}

size_t
weir__durable_redis_weight(const struct weir__durable_op *op)
{
        switch (op->kind) {
        case WEIR__DURABLE_LIST: return page_of(op);
        case WEIR__DURABLE_CLAIM: return op->most;
        case WEIR__DURABLE_RENEW: return part_of(op);
        case WEIR__DURABLE_SET: return 1 + op->payload_size / 4096;
        default: return 1;
        }
}

void
weir__durable_redis_add(struct weir__durable_redis_words *words, const void *text, size_t size)
{
        words->texts[words->count] = text;
        words->sizes[words->count++] = size;
}

static void
add(struct weir__durable_redis_words *words, const char *text)
{
        weir__durable_redis_add(words, text, strlen(text));
}

static void
add_number(struct weir__durable_redis_words *words, uint64_t number)
{
        char *text = words->numbers[words->count];

        weir__durable_redis_add(words, text, (size_t)snprintf(text, 24, "%llu", (unsigned long long)number));
}

static void
add_instant(struct weir__durable_redis_words *words, weir_nsec at)
{
        char *text = words->numbers[words->count];

        write_instant(text, at);
        weir__durable_redis_add(words, text, INSTANT_DIGITS);
}

static void
add_token(struct weir__durable_redis_words *words, uint64_t token)
{
        char *text = words->numbers[words->count];

        write_digits(text, token, TOKEN_DIGITS);
        weir__durable_redis_add(words, text, TOKEN_DIGITS);
}

/* The name of an operation, and how many arguments follow. */
static void
begin(struct weir__durable_redis_words *words, const char *name, size_t count)
{
        add(words, name);
        add_number(words, count);
}

static void
write_named(struct weir__durable_redis_words *words, const char *verb, const struct weir__durable_op *op)
{
        begin(words, verb, 1);
        add(words, op->name);
}

static void
write_set(struct weir__durable_redis_words *words, const struct weir__durable_op *op)
{
        begin(words, "set", 8);
        add(words, op->name);
        add(words, op->topic);
        weir__durable_redis_add(words, op->payload, op->payload_size);
        add_instant(words, op->at);
        add(words, op->is_relative ? op->keeps_same ? "rk" : "r" : op->keeps_same ? "k" : "");
        add(words, op->cron);
        add(words, op->zone);
        add_number(words, (uint64_t)op->policy);
}

static void
write_extend(struct weir__durable_redis_words *words, const struct weir__durable_op *op)
{
        begin(words, "extend", 3);
        add(words, op->name);
        add_instant(words, op->at);
        add(words, op->is_relative ? "r" : "");
}

static void
write_list(struct weir__durable_redis_words *words, const struct weir__durable_op *op)
{
        const char *behind = op->row_count ? op->rows[op->row_count - 1]->info.name : op->behind;

        begin(words, "list", 4);
        add(words, op->prefix);
        add(words, strcmp(behind, op->prefix) >= 0 ? behind : "");
        add_number(words, page_of(op));
        add(words, op->only_dead ? "d" : "");
}

static void
write_claim(struct weir__durable_redis_words *words, const struct weir__durable_op *op)
{
        begin(words, "claim", 2 + op->topic_count);
        add_number(words, op->most);
        add_instant(words, op->lease);
        for (size_t i = 0; i < op->topic_count; i++)
                add(words, op->topics[i]);
}

static void
write_end(struct weir__durable_redis_words *words, const struct weir__durable_op *op)
{
        static const char *const outcomes[] = {
                [WEIR__DURABLE_ACKNOWLEDGE] = "a", [WEIR__DURABLE_MOVE_ON] = "m",   [WEIR__DURABLE_RETRY] = "r",
                [WEIR__DURABLE_MARK_DEAD] = "d",   [WEIR__DURABLE_GIVE_BACK] = "g",
        };

        begin(words, "end", 5);
        add(words, op->name);
        add_token(words, op->token);
        add(words, outcomes[op->outcome]);
        add_instant(words, op->at);
        add(words, op->problem);
}

static void
write_renew(struct weir__durable_redis_words *words, const struct weir__durable_op *op)
{
        size_t count = part_of(op);

        begin(words, "renew", 1 + 2 * count);
        add_instant(words, op->lease);
        for (size_t i = op->claims_done; i < op->claims_done + count; i++) {
                add(words, op->claims[i].name);
                add_token(words, op->claims[i].token);
        }
}

void
weir__durable_redis_write(struct weir__durable_redis_words *words, const struct weir__durable_op *op)
{
        if (op->as_if_now) {
                begin(words, "now", 1);
                add_instant(words, op->as_if_now);
        }
        switch (op->kind) {
        case WEIR__DURABLE_SET: write_set(words, op); return;
        case WEIR__DURABLE_CANCEL: write_named(words, "cancel", op); return;
        case WEIR__DURABLE_EXTEND: write_extend(words, op); return;
        case WEIR__DURABLE_PUT_BACK: write_named(words, "back", op); return;
        case WEIR__DURABLE_FORGET: write_named(words, "forget", op); return;
        case WEIR__DURABLE_GET: write_named(words, "get", op); return;
        case WEIR__DURABLE_LIST: write_list(words, op); return;
        case WEIR__DURABLE_COUNT:
                begin(words, "count", 1);
                add(words, op->prefix);
                return;
        case WEIR__DURABLE_CLAIM: write_claim(words, op); return;
        case WEIR__DURABLE_END: write_end(words, op); return;
        case WEIR__DURABLE_RENEW: write_renew(words, op); return;
        }
}

/* -- results -- */

static int
fail(struct weir__durable_op *op, int status, const char *text)
{
        snprintf(op->reason, sizeof op->reason, "%s", text);
        return status;
}

static int
fail_by_reply(struct weir__durable_op *op)
{
        return fail(op, -EBADMSG, "what Redis has is no timer of weir, or of another version");
}

static uint64_t
number_of(const struct weir_redis_reply *reply)
{
        return strtoull(weir_redis_text(reply), NULL, 10);
}

/* Where the parts of the state are. */
enum {
        AT_READY = 1,
        AT_DUE = AT_READY + INSTANT_DIGITS,
        AT_GENERATION = AT_DUE + INSTANT_DIGITS,
        AT_TOKEN = AT_GENERATION + TOKEN_DIGITS,
        AT_ATTEMPT = AT_TOKEN + TOKEN_DIGITS
};

static bool
is_state(const struct weir_redis_reply *reply)
{
        return reply->size > AT_ATTEMPT && reply->size <= AT_ATTEMPT + 10 && are_digits(reply->text, reply->size) &&
               reply->text[0] <= '0' + WEIR_DURABLE_DEAD && is_instant_at(reply->text + AT_READY) &&
               is_instant_at(reply->text + AT_DUE);
}

/* Adds a row, as the script's function row has it. */
static int
add_row(struct weir__durable_op *op, const struct weir_redis_reply *reply)
{
        const struct weir_redis_reply *of[9];

        for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
                of[i] = weir_redis_item(reply, i);
                if (!of[i] || ((i < 3 || i == 8) && of[i]->type != WEIR_REDIS_STRING))
                        return fail_by_reply(op);
        }
        if (!is_state(of[0]))
                return fail_by_reply(op);
        const char *state = of[0]->text;
        const struct weir_durable_info info = {
                .name = weir_redis_text(of[8]),
                .topic = weir_redis_text(of[1]),
                .payload = of[2]->text,
                .payload_size = of[2]->size,
                .generation = read_digits(state + AT_GENERATION, TOKEN_DIGITS),
                .state = (enum weir_durable_state)(state[0] - '0'),
                .attempt = (unsigned)read_digits(state + AT_ATTEMPT, of[0]->size - AT_ATTEMPT),
                .token = read_digits(state + AT_TOKEN, TOKEN_DIGITS),
                .due = read_instant_at(state + AT_DUE),
                .ready = read_instant_at(state + AT_READY),
                .node = weir_redis_text(of[3]),
                .problem = weir_redis_text(of[4]),
                .cron = weir_redis_text(of[5]),
                .zone = weir_redis_text(of[6]),
                .policy = (enum weir_durable_missed_policy)number_of(of[7]),
        };
        return weir__durable_op_add(op, &info);
}

static int
add_rows(struct weir__durable_op *op, const struct weir_redis_reply *rows)
{
        int failed = rows ? 0 : fail_by_reply(op);

        for (size_t i = 0; !failed && i < rows->size; i++)
                failed = add_row(op, &rows->items[i]);
        return failed;
}

static int
read_set(struct weir__durable_op *op, const struct weir_redis_reply *reply)
{
        if (!is_instant(weir_redis_item(reply, 1)))
                return fail_by_reply(op);
        op->generation = number_of(weir_redis_item(reply, 0));
        op->ready = read_instant(weir_redis_item(reply, 1));
        op->is_earliest = weir_redis_integer(weir_redis_item(reply, 2), 0);
        return 0;
}

/* The generation of what was deleted, or 0. */
static int
read_deleted(struct weir__durable_op *op, const struct weir_redis_reply *reply)
{
        op->is_done = reply->type == WEIR_REDIS_STRING;
        op->generation = op->is_done ? number_of(reply) : 0;
        return 0;
}

/* When it is ready, whether it is the earliest one, and a row, if there is one; or 0. */
static int
read_moved(struct weir__durable_op *op, const struct weir_redis_reply *reply)
{
        const struct weir_redis_reply *at = weir_redis_item(reply, 0), *row = weir_redis_item(reply, 2);

        op->is_done = reply->type == WEIR_REDIS_ARRAY;
        op->is_earliest = weir_redis_integer(weir_redis_item(reply, 1), 0);
        if (is_instant(at))
                op->ready = read_instant(at);
        return row ? add_row(op, row) : 0;
}

static int
read_list(struct weir__durable_op *op, const struct weir_redis_reply *reply)
{
        bool has_more = weir_redis_integer(weir_redis_item(reply, 0), 0);
        int failed = add_rows(op, weir_redis_item(reply, 1));

        return failed ? failed : has_more && op->row_count < op->most ? WEIR__DURABLE_REDIS_AGAIN : 0;
}

static int
read_counts(struct weir__durable_op *op, const struct weir_redis_reply *reply)
{
        for (size_t state = 0; state < 3; state++)
                op->counts[state] = (uint64_t)weir_redis_integer(weir_redis_item(reply, state), 0);
        return 0;
}

static int
read_claim(struct weir__durable_op *op, const struct weir_redis_reply *reply)
{
        if (!is_instant(weir_redis_item(reply, 0)))
                return fail_by_reply(op);
        op->next_ready = read_instant(weir_redis_item(reply, 0));
        return add_rows(op, weir_redis_item(reply, 1));
}

static int
read_held(struct weir__durable_op *op, const struct weir_redis_reply *reply)
{
        size_t count = part_of(op);

        for (size_t i = 0; i < count; i++)
                op->claims[op->claims_done + i].is_held = weir_redis_integer(weir_redis_item(reply, i), 0);
        op->claims_done += count;
        return op->claims_done < op->claim_count ? WEIR__DURABLE_REDIS_AGAIN : 0;
}

static int
read_error(struct weir__durable_op *op, const char *text)
{
        return fail(op, strncmp(text, "NOPERM", 6) == 0 ? -EACCES : -EREMOTEIO, text);
}

int
weir__durable_redis_read(struct weir__durable_op *op, const struct weir_redis_reply *time, const struct weir_redis_reply *reply)
{
        if (!reply || !is_instant(time))
                return fail(op, -EBADMSG, "the reply of Redis is not that of the script");
        if (reply->type == WEIR_REDIS_ERROR)
                return read_error(op, weir_redis_text(reply));
        op->now = op->as_if_now ? op->as_if_now : read_instant(time);
        switch (op->kind) {
        case WEIR__DURABLE_SET: return read_set(op, reply);
        case WEIR__DURABLE_CANCEL:
        case WEIR__DURABLE_FORGET: return read_deleted(op, reply);
        case WEIR__DURABLE_EXTEND:
        case WEIR__DURABLE_PUT_BACK:
        case WEIR__DURABLE_END: return read_moved(op, reply);
        case WEIR__DURABLE_GET: return reply->type == WEIR_REDIS_ARRAY ? add_row(op, reply) : 0;
        case WEIR__DURABLE_LIST: return read_list(op, reply);
        case WEIR__DURABLE_COUNT: return read_counts(op, reply);
        case WEIR__DURABLE_CLAIM: return read_claim(op, reply);
        case WEIR__DURABLE_RENEW: return read_held(op, reply);
        }
        return -EINVAL;
}
