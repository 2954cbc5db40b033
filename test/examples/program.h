/* test/examples/program.h: a suite includes the source of its example, whose main is renamed, and so sees all of it.  What the
 * program prints is caught in between. */
#ifndef WEIR_TEST_EXAMPLES_PROGRAM_H
#define WEIR_TEST_EXAMPLES_PROGRAM_H

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "test/fixture.h"
#include "test/http_client.h"

#pragma GCC diagnostic ignored "-Wmissing-prototypes" /* of what was main */
#define main program_main

static struct {
        FILE *file;
        int real;        /* the standard output */
        char text[8192]; /* what was printed */
} program_output;

static inline void
program_catch(void)
{
        fflush(stdout);
        program_output.real = dup(STDOUT_FILENO);
        program_output.file = tmpfile();
        dup2(fileno(program_output.file), STDOUT_FILENO);
}

/* What was printed since program_catch.  The program may be printing: both have one position in the file, which stays. */
static inline const char *
program_printed(void)
{
        fflush(stdout);
        ssize_t size = pread(fileno(program_output.file), program_output.text, sizeof program_output.text - 1, 0);
        program_output.text[size > 0 ? size : 0] = '\0';
        return program_output.text;
}

static inline const char *
program_release(void)
{
        program_printed();
        dup2(program_output.real, STDOUT_FILENO);
        close(program_output.real);
        fclose(program_output.file);
        return program_output.text;
}

#endif
