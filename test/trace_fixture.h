/* test/trace_fixture.h: reads a trace strictly by RFC 8259, and finds events in it.
 *
 * An error in a file fails the test that reads it.  The text is read byte by byte, never by strtoll() and the like: under
 * AddressSanitizer with strict_string_checks each call of those goes through all the rest of the text, megabytes of it. */
#ifndef WEIR_TEST_TRACE_FIXTURE_H
#define WEIR_TEST_TRACE_FIXTURE_H

#include "test/fixture.h"

struct weir_test_event {
        char phase;
        char name[512], category[32];
        int64_t track, id, series, status, number; /* number: of whatever the arguments hold besides */
        weir_nsec at, lasts, late;
        bool has_status, has_late, lost_poller;
        char track_name[512]; /* of metadata: the name in its arguments */
        char awaited[64];     /* of a fiber */
};

struct weir_test_trace {
        struct weir_test_event *events;
        size_t count;
        char *text, *at;
        bool is_wrong;
};

/* -- JSON -- */

static inline void weir_test_json_wrong(struct weir_test_trace *trace, const char *what)
{
        if (!trace->is_wrong)
                fprintf(stderr, "    %s at byte %zu: %.60s\n", what, (size_t)(trace->at - trace->text), trace->at);
        trace->is_wrong = true;
}

static inline void weir_test_json_space(struct weir_test_trace *trace)
{
        while (*trace->at && strchr(" \n\r\t", *trace->at))
                trace->at++;
}

static inline bool weir_test_json_take(struct weir_test_trace *trace, char byte)
{
        weir_test_json_space(trace);
        if (*trace->at != byte)
                return false;
        trace->at++;
        return true;
}

static inline void weir_test_json_want(struct weir_test_trace *trace, char byte)
{
        if (!weir_test_json_take(trace, byte))
                weir_test_json_wrong(trace, "something else is wanted");
}

/* The length of a character of UTF-8 as RFC 3629 has them, by decoding it; 0: none. */
static inline size_t weir_test_json_character(const unsigned char *text)
{
        static const uint32_t least[5] = {0, 0, 0x80, 0x800, 0x10000};
        size_t length = text[0] < 0x80 ? 1 : text[0] >> 5 == 6 ? 2 : text[0] >> 4 == 14 ? 3 : text[0] >> 3 == 30 ? 4 : 0;
        uint32_t value = length < 2 ? text[0] : text[0] & (0x7f >> length);

        for (size_t i = 1; i < length; i++) {
                if (text[i] >> 6 != 2)
                        return 0;
                value = value << 6 | (text[i] & 0x3f);
        }
        return length && value >= least[length] && value < 0x110000 && value >> 11 != 0x1b ? length : 0;
}

/* Four hexadecimal digits, small letters, as the traces have them; -1: they are none. */
static inline int weir_test_json_hex(const char *text)
{
        static const char digits[] = "0123456789abcdef";
        int value = 0;

        for (int i = 0; i < 4; i++) {
                const char *digit = text[i] ? strchr(digits, text[i]) : NULL;

                if (!digit)
                        return -1;
                value = value << 4 | (int)(digit - digits);
        }
        return value;
}

/* Decodes an escape to UTF-8.  Our files have none beyond the basic plane. */
static inline size_t weir_test_json_escape(struct weir_test_trace *trace, char *to)
{
        if (*trace->at != 'u') {
                const char *known = strchr("\"\"\\\\//b\bf\fn\nr\rt\t", *trace->at);

                if (!*trace->at || !known)
                        weir_test_json_wrong(trace, "no escape");
                *to = known ? known[1] : '?';
                trace->at++;
                return 1;
        }
        int value = weir_test_json_hex(trace->at + 1);
        if (value < 0) {
                weir_test_json_wrong(trace, "no escape");
                return 0;
        }
        trace->at += 5;
        if (value < 0x80) {
                *to = (char)value;
                return 1;
        }
        if (value != 0xfffd)
                weir_test_json_wrong(trace, "an escape that nobody needs");
        memcpy(to, "\xef\xbf\xbd", 3);
        return 3;
}

static inline void weir_test_json_string(struct weir_test_trace *trace, char to[512])
{
        size_t used = 0;

        weir_test_json_want(trace, '"');
        while (!trace->is_wrong && *trace->at != '"') {
                size_t length = weir_test_json_character((const unsigned char *)trace->at);

                if (*trace->at == '\\') {
                        trace->at++;
                        used += weir_test_json_escape(trace, to + used);
                } else if ((unsigned char)*trace->at < ' ' || length == 0) {
                        weir_test_json_wrong(trace, "no character");
                } else {
                        memcpy(to + used, trace->at, length);
                        trace->at += length;
                        used += length;
                }
                if (used > 500)
                        weir_test_json_wrong(trace, "a string that is too long");
        }
        to[trace->is_wrong ? 0 : used] = '\0';
        trace->at += !trace->is_wrong;
}

/* Digits; returns how many. */
static inline int weir_test_json_digits(struct weir_test_trace *trace, int64_t *value)
{
        int count = 0;

        for (*value = 0; *trace->at >= '0' && *trace->at <= '9'; count++)
                if (__builtin_mul_overflow(*value, 10, value) || __builtin_add_overflow(*value, *trace->at++ - '0', value))
                        weir_test_json_wrong(trace, "a number that is too large");
        return count;
}

/* -?digits, and a fraction of three, as the traces have them: in thousandths. */
static inline int64_t weir_test_json_number(struct weir_test_trace *trace)
{
        bool negative = weir_test_json_take(trace, '-'), has_zero = *trace->at == '0';
        int64_t whole, thousandths = 0;
        int digits = weir_test_json_digits(trace, &whole);

        if (digits == 0 || (has_zero && digits > 1))
                weir_test_json_wrong(trace, "no number");
        if (*trace->at == '.') {
                trace->at++;
                if (weir_test_json_digits(trace, &thousandths) != 3)
                        weir_test_json_wrong(trace, "no three digits");
        }
        return (negative ? -1 : 1) * (whole * 1000 + thousandths);
}

static inline void weir_test_json_object(struct weir_test_trace *trace, struct weir_test_event *event, bool inner);

static inline void weir_test_json_member(struct weir_test_trace *trace, struct weir_test_event *event, const char *key,
                                         bool inner)
{
        char text[512] = "";

        weir_test_json_space(trace);
        if (*trace->at == '{') {
                if (inner || strcmp(key, "args") != 0)
                        weir_test_json_wrong(trace, "an object that is not wanted");
                weir_test_json_object(trace, event, true);
        } else if (*trace->at == '"') {
                weir_test_json_string(trace, text);
                if (strcmp(key, "ph") == 0)
                        event->phase = text[0];
                else if (strcmp(key, "name") == 0)
                        strcpy(inner ? event->track_name : event->name, text);
                else if (strcmp(key, "cat") == 0)
                        snprintf(event->category, sizeof event->category, "%.31s", text);
                else if (strcmp(key, "awaited") == 0)
                        snprintf(event->awaited, sizeof event->awaited, "%.63s", text);
        } else if (strncmp(trace->at, "true", 4) == 0) {
                trace->at += 4;
                event->lost_poller |= strcmp(key, "lost_poller") == 0;
        } else {
                int64_t number = weir_test_json_number(trace);

                if (strcmp(key, "tid") == 0)
                        event->track = number / 1000;
                else if (strcmp(key, "id") == 0)
                        event->id = number / 1000;
                else if (strcmp(key, "series") == 0)
                        event->series = number / 1000;
                else if (strcmp(key, "ts") == 0)
                        event->at = number;
                else if (strcmp(key, "dur") == 0)
                        event->lasts = number;
                else if (strcmp(key, "late_us") == 0)
                        event->has_late = true, event->late = number;
                else if (strcmp(key, "status") == 0)
                        event->has_status = true, event->status = number / 1000;
                else if (inner)
                        event->number = number / 1000;
        }
}

static inline void weir_test_json_object(struct weir_test_trace *trace, struct weir_test_event *event, bool inner)
{
        weir_test_json_want(trace, '{');
        if (weir_test_json_take(trace, '}'))
                return;
        do {
                char key[512];

                weir_test_json_string(trace, key);
                weir_test_json_want(trace, ':');
                weir_test_json_member(trace, event, key, inner);
        } while (!trace->is_wrong && weir_test_json_take(trace, ','));
        weir_test_json_want(trace, '}');
}

/* -- the file -- */

static inline char *weir_test_read_file(const char *path)
{
        FILE *file = fopen(path, "re");
        char *text = NULL;
        size_t room = 0;

        CU_ASSERT_PTR_NOT_NULL_FATAL(file);
        ssize_t size = getdelim(&text, &room, '\0', file); /* a NUL in it is an error: it is found as the end of the text */
        fclose(file);
        CU_ASSERT_FATAL(size > 0);
        return text;
}

static inline struct weir_test_trace weir_test_trace_read(const char *path)
{
        struct weir_test_trace trace = {.text = weir_test_read_file(path)};
        size_t room = 0;

        trace.at = trace.text;
        weir_test_json_want(&trace, '[');
        do {
                if (trace.count == room) {
                        room = 2 * room + 256;
                        trace.events = realloc(trace.events, room * sizeof *trace.events);
                        CU_ASSERT_PTR_NOT_NULL_FATAL(trace.events);
                }
                memset(&trace.events[trace.count], 0, sizeof *trace.events);
                weir_test_json_object(&trace, &trace.events[trace.count++], false);
        } while (!trace.is_wrong && weir_test_json_take(&trace, ','));
        weir_test_json_want(&trace, ']');
        weir_test_json_space(&trace);
        CU_ASSERT(!trace.is_wrong && *trace.at == '\0');
        return trace;
}

static inline void weir_test_trace_free(struct weir_test_trace *trace)
{
        free(trace->events);
        free(trace->text);
}

/* The nth event of that phase whose name is that, or, for NULL, whatever; NULL: there is none. */
static inline struct weir_test_event *
weir_test_trace_find(const struct weir_test_trace *trace, char phase, const char *name, size_t nth)
{
        for (size_t i = 0; i < trace->count; i++)
                if (trace->events[i].phase == phase && (!name || strcmp(trace->events[i].name, name) == 0) && nth-- == 0)
                        return &trace->events[i];
        return NULL;
}

static inline size_t weir_test_trace_count(const struct weir_test_trace *trace, char phase, const char *name)
{
        size_t count = 0;

        for (size_t i = 0; i < trace->count; i++)
                count += trace->events[i].phase == phase && (!name || strcmp(trace->events[i].name, name) == 0);
        return count;
}

/* How long the nth stage of that name took; -1: it is not there. */
static inline weir_nsec weir_test_stage_lasts(const struct weir_test_trace *trace, const char *name, size_t nth)
{
        const struct weir_test_event *from = weir_test_trace_find(trace, 'b', name, nth),
                                     *until = weir_test_trace_find(trace, 'e', name, nth);

        if (!from || !until)
                return -1;
        CU_ASSERT_STRING_EQUAL(from->category, "stage");
        CU_ASSERT(from->id > 0 && from->id == until->id);
        CU_ASSERT_EQUAL(from->series, until->series);
        return until->at - from->at;
}

/* Whether a trace of that work has a stage in which something waits, named with both texts. */
static inline bool weir_test_waits_in_trace(void work(void *), void *context, const char *first, const char *second)
{
        char path[64];
        bool is_there = false;

        snprintf(path, sizeof path, "/tmp/weir-trace-%d.json", (int)getpid());
        CU_ASSERT_EQUAL(weir_trace_start(path), 0);
        work(context);
        CU_ASSERT_EQUAL(weir_trace_stop(), 0);
        struct weir_test_trace trace = weir_test_trace_read(path);
        for (size_t i = 0; i < trace.count; i++) {
                const struct weir_test_event *event = &trace.events[i];

                is_there |= event->phase == 'b' && strncmp(event->name, "waiting ", 8) == 0 && strstr(event->name, first) &&
                            strstr(event->name, second);
        }
        weir_test_trace_free(&trace);
        unlink(path);
        return is_there;
}

static inline const char *weir_test_track_name(const struct weir_test_trace *trace, int64_t track)
{
        for (size_t i = 0; i < trace->count; i++)
                if (trace->events[i].phase == 'M' && strcmp(trace->events[i].name, "thread_name") == 0 &&
                    trace->events[i].track == track)
                        return trace->events[i].track_name;
        return NULL;
}

/* -- rules for each trace -- */

static inline int weir_test_slice_order(const void *left, const void *right)
{
        const struct weir_test_event *one = left, *other = right;

        if (one->track != other->track)
                return one->track < other->track ? -1 : 1;
        if (one->at != other->at)
                return one->at < other->at ? -1 : 1;
        return one->lasts > other->lasts ? -1 : one->lasts < other->lasts;
}

/* Slices of one track lie inside each other or behind each other, and each track has a name. */
static inline void weir_test_trace_nests(const struct weir_test_trace *trace)
{
        struct weir_test_event *slices = malloc((trace->count + 1) * sizeof *slices);
        weir_nsec ends[64];
        size_t count = 0, depth = 0, wrong = 0;

        for (size_t i = 0; i < trace->count; i++)
                if (trace->events[i].phase == 'X')
                        slices[count++] = trace->events[i];
        qsort(slices, count, sizeof *slices, weir_test_slice_order);
        for (size_t i = 0; i < count; i++) {
                weir_nsec end = slices[i].at + slices[i].lasts;

                /* Not for each slice: the name may stand behind very many events. */
                if (i == 0 || slices[i].track != slices[i - 1].track) {
                        depth = 0;
                        wrong += !weir_test_track_name(trace, slices[i].track);
                }
                while (depth > 0 && ends[depth - 1] <= slices[i].at)
                        depth--;
                wrong += slices[i].lasts < 0 || depth == 64 || (depth > 0 && end > ends[depth - 1]);
                if (depth < 64)
                        ends[depth++] = end;
        }
        free(slices);
        CU_ASSERT_EQUAL(wrong, 0);
}

static inline const struct weir_test_event *
weir_test_slice_at(const struct weir_test_trace *trace, const struct weir_test_event *point)
{
        const struct weir_test_event *found = NULL;

        for (size_t i = 0; i < trace->count; i++) {
                const struct weir_test_event *slice = &trace->events[i];

                if (slice->phase == 'X' && slice->track == point->track && slice->at <= point->at &&
                    point->at <= slice->at + slice->lasts && (!found || slice->lasts <= found->lasts))
                        found = slice;
        }
        return found;
}

/* Each arrow has two ends, no earlier one than its beginning; so its number is there twice. */
static inline size_t weir_test_trace_arrows(const struct weir_test_trace *trace)
{
        size_t arrows = weir_test_trace_count(trace, 's', NULL), wrong = 0;
        const struct weir_test_event **starts = calloc(arrows + 2, sizeof *starts);

        CU_ASSERT_EQUAL(weir_test_trace_count(trace, 'f', NULL), arrows);
        for (size_t i = 0; i < trace->count; i++) {
                const struct weir_test_event *event = &trace->events[i];
                bool is_number = event->id > 0 && (size_t)event->id <= arrows;

                if (event->phase == 's') {
                        wrong += !is_number || starts[event->id];
                        if (is_number)
                                starts[event->id] = event;
                } else if (event->phase == 'f') {
                        wrong += !is_number || !starts[event->id] || starts[event->id]->at > event->at;
                }
        }
        free(starts);
        CU_ASSERT_EQUAL(wrong, 0);
        return arrows;
}

#endif
