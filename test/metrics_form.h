/* test/metrics_form.h: a strict reader of the text format of Prometheus. */
#ifndef WEIR_TEST_METRICS_FORM_H
#define WEIR_TEST_METRICS_FORM_H

#include <math.h>
#include <stdbool.h>

#include "test/metrics_fixture.h"

enum type { NONE, COUNTER, GAUGE, HISTOGRAM };

struct reader {
        const char *at;
        char family[128], help[128];
        enum type type;
        char families[256][128];
        unsigned family_count;
        char samples[1024][256];
        unsigned sample_count;
        double last_bound, last_bucket, infinite, sum, count; /* of a histogram */
        unsigned lines;
};

static inline bool
take(struct reader *reader, const char *word)
{
        size_t length = strlen(word);

        if (strncmp(reader->at, word, length) != 0)
                return false;
        reader->at += length;
        return true;
}

static inline bool
take_name(struct reader *reader, char out[128])
{
        size_t length = strspn(reader->at, "abcdefghijklmnopqrstuvwxyz_0123456789");

        if (length == 0 || length >= 128 || (*reader->at >= '0' && *reader->at <= '9'))
                return false;
        memcpy(out, reader->at, length);
        out[length] = '\0';
        reader->at += length;
        return true;
}

/* In quotation marks. */
static inline bool
take_value(struct reader *reader, char out[128])
{
        size_t size = 0;

        if (!take(reader, "\""))
                return false;
        while (*reader->at != '"') {
                char byte = *reader->at++;

                if (byte == '\\')
                        byte = *reader->at == 'n' ? '\n' : *reader->at == '\\' || *reader->at == '"' ? *reader->at : '\0';
                else if (byte == '\n')
                        return false;
                reader->at += byte && reader->at[-1] == '\\';
                if (!byte || size + 1 >= 128)
                        return false;
                out[size++] = byte;
        }
        out[size] = '\0';
        return take(reader, "\"");
}

static inline bool
take_labels(struct reader *reader, char bound[128])
{
        char name[128], label[128];

        if (!take(reader, "{"))
                return true;
        do {
                if (!take_name(reader, name) || !take(reader, "=") || !take_value(reader, label))
                        return false;
                if (strcmp(name, "le") == 0)
                        strcpy(bound, label);
        } while (take(reader, ","));
        return take(reader, "}");
}

static inline bool
take_help(struct reader *reader)
{
        if (!take_name(reader, reader->help) || !take(reader, " ") || *reader->at == '\n')
                return false;
        for (unsigned i = 0; i < reader->family_count; i++)
                if (strcmp(reader->families[i], reader->help) == 0)
                        return false; /* all of one name stand together */
        if (reader->family_count == sizeof reader->families / sizeof *reader->families)
                return false;
        strcpy(reader->families[reader->family_count++], reader->help);
        reader->at += strcspn(reader->at, "\n");
        return true;
}

static inline bool
ends_in(const char *name, const char *end)
{
        size_t size = strlen(name), length = strlen(end);

        return size > length && strcmp(name + size - length, end) == 0;
}

static inline bool
end_family(struct reader *reader)
{
        return reader->type != HISTOGRAM ||
               (reader->infinite >= 0 && reader->count == reader->infinite && reader->sum >= 0 && reader->last_bound == HUGE_VAL);
}

static inline bool
take_type(struct reader *reader)
{
        if (!end_family(reader) || !take_name(reader, reader->family) || strcmp(reader->family, reader->help) != 0)
                return false;
        reader->type = take(reader, " counter")     ? COUNTER
                       : take(reader, " gauge")     ? GAUGE
                       : take(reader, " histogram") ? HISTOGRAM
                                                    : NONE;
        reader->last_bound = reader->last_bucket = reader->infinite = reader->sum = reader->count = -1;
        return reader->type != NONE && (reader->type == COUNTER) == ends_in(reader->family, "_total");
}

static inline bool
check_histogram(struct reader *reader, const char *name, const char *bound, double number)
{
        const char *part = name + strlen(reader->family);

        if (strcmp(part, "_sum") == 0)
                reader->sum = number;
        else if (strcmp(part, "_count") == 0)
                reader->count = number;
        else {
                double least = strtod(bound, NULL); /* +Inf, too */
                bool grows = least > reader->last_bound && number >= reader->last_bucket;

                reader->last_bound = least;
                reader->last_bucket = number;
                if (strcmp(bound, "+Inf") == 0)
                        reader->infinite = number;
                return strcmp(part, "_bucket") == 0 && *bound && grows;
        }
        return !*bound;
}

static inline bool
take_sample(struct reader *reader)
{
        char name[128], bound[128] = "", *end;
        const char *begin = reader->at;

        if (!take_name(reader, name) || strncmp(name, reader->family, strlen(reader->family)) != 0 || !take_labels(reader, bound))
                return false;
        size_t size = (size_t)(reader->at - begin);
        char *own = reader->samples[reader->sample_count];
        if (size >= sizeof reader->samples[0] || reader->sample_count == sizeof reader->samples / sizeof *reader->samples)
                return false;
        memcpy(own, begin, size);
        own[size] = '\0';
        for (unsigned i = 0; i < reader->sample_count; i++)
                if (strcmp(reader->samples[i], own) == 0)
                        return false; /* none is there twice */
        reader->sample_count++;
        if (!take(reader, " ") || strspn(reader->at, "0123456789.") == 0)
                return false;
        double number = strtod(reader->at, &end);
        reader->at = end;
        return reader->type == HISTOGRAM ? check_histogram(reader, name, bound, number)
                                         : reader->type != NONE && strcmp(name, reader->family) == 0;
}

static inline bool
take_line(struct reader *reader)
{
        bool is_good = take(reader, "# HELP ")   ? take_help(reader)
                       : take(reader, "# TYPE ") ? take_type(reader)
                                                 : take_sample(reader);

        reader->lines++;
        return is_good && take(reader, "\n");
}

/* Of what the last look has seen; it has more than so many lines. */
static inline void
check_form(unsigned lines)
{
        static struct reader reader;

        reader = (struct reader){.at = metrics_text};
        while (*reader.at) {
                const char *line = reader.at;

                if (!take_line(&reader)) {
                        fprintf(stderr, "not in the format: %.*s\n", (int)strcspn(line, "\n"), line);
                        CU_FAIL("not in the format");
                        return;
                }
        }
        CU_ASSERT(end_family(&reader));
        CU_ASSERT(reader.lines > lines);
}

#endif
