/* test/metrics_fixture.h: looks at what weir_metrics_write has written. */
#ifndef WEIR_TEST_METRICS_FIXTURE_H
#define WEIR_TEST_METRICS_FIXTURE_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <weir/metrics.h>

#include "test/support.h"

static char *metrics_text; /* of the last look */

/* Has it written anew. */
static inline const char *look(void)
{
        int fd = memfd_create("metrics", MFD_CLOEXEC);

        CU_ASSERT_FATAL(fd >= 0);
        CU_ASSERT_EQUAL(weir_metrics_write(fd), 0);
        off_t size = lseek(fd, 0, SEEK_END);
        free(metrics_text);
        metrics_text = calloc(1, (size_t)size + 1);
        CU_ASSERT_EQUAL(pread(fd, metrics_text, (size_t)size, 0), size);
        close(fd);
        return metrics_text;
}

/* The value of a sample, named as it is written with its labels; -1: there is none. */
static inline double seen(const char *sample)
{
        size_t length = strlen(sample);

        for (const char *line = metrics_text; line && *line; line = strchr(line, '\n'), line += line != NULL)
                if (strncmp(line, sample, length) == 0 && line[length] == ' ')
                        return strtod(line + length, NULL);
        return -1;
}

static inline double value(const char *sample)
{
        look();
        return seen(sample);
}

#endif
