/* test/addon/durable_history.h: what the nodes of a test have done and were told: a file to which all of them append.
 *
 * Each event is one write of a whole record at the end of the file, so a process that is killed leaves all that it has said.  An
 * operation has an event before it is started, and another one when it has answered.  Without the latter, or with a failure, it
 * is unknown whether the operation has happened.
 *
 * Threads: history_say any; all else is for the process that judges. */
#ifndef WEIR_TEST_DURABLE_HISTORY_H
#define WEIR_TEST_DURABLE_HISTORY_H

#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "test/support.h"

/* An operation is a letter, and its answer the capital. */
enum what {
        SET_BEGUN = 's',    /* span: after */
        SET_TOLD = 'S',     /* generation */
        CANCEL_BEGUN = 'c', /* */
        CANCEL_TOLD = 'C',  /* generation that was cancelled; 0: none */
        MOVE_BEGUN = 'm',   /* span: by, or after if attempt is 1 */
        MOVE_TOLD = 'M',    /* generation, span: the due time now, of the engine */
        BACK_BEGUN = 'b',   /* of a dead timer */
        BACK_TOLD = 'B',    /* generation */
        FORGET_BEGUN = 'f', /* */
        FORGET_TOLD = 'F',  /* */
        GET_BEGUN = 'g',    /* */
        GET_TOLD = 'G',     /* generation */
        RUN_BEGUN = 'r',    /* a handler: generation, token, attempt, span: due, status: missed */
        RUN_ENDED = 'R',    /* the same, and how it has ended */
        DEAD_SEEN = 'D',    /* in a list: generation, attempt */
        SCHEDULED = 'p',    /* span: the first due time, attempt: the policy */
        NEXT_DUE = 'P',     /* generation, span: the due time that comes next in the end */
        STARTED = 'n',      /* a process; status: its place, attempt: its limit of attempts */
        CLOCK_SEEN = 'W',   /* span: how far the wall clock of a process is from the real one */
        KILLED = 'K',       /* span: when it was gone */
        STOPPED = 'T',      /* span: until when the process stood still */
        DISTURBED = 'X',    /* status: the place whose connection was, or -1 for the engine; span: until when */
};

/* Names from here on are schedules. */
#define SCHEDULES 1000000000

/* A due time of a schedule that is late by more was missed. */
#define MISSED INT64_C(1500000000)

struct event {
        int64_t at; /* CLOCK_MONOTONIC, which all processes of the machine share */
        int64_t span;
        uint64_t generation; /* 0: it is not known */
        uint64_t token;
        int process;   /* each life has its own number, from 1 on; 0: the parent */
        int name;      /* -1: none */
        int operation; /* of its process */
        int status;
        int attempt;
        enum what what;
        uint64_t seal; /* that it is a record */
};

#define HISTORY_SEAL UINT64_C(0x7765697264757261)

struct history {
        struct event *events;
        size_t count, room;
        int64_t lease;
        int64_t wall; /* the time of the engine when CLOCK_MONOTONIC is 0 */
        bool stops_disturb; /* a process that is stopped may keep all others from the engine */
        bool draws_early;   /* the engine draws the generation of a set before it has the row: those of sets beside each other may
                               be delivered in another order (decision 902) */
        bool is_silent;
        unsigned violations;
        /* Figures. */
        unsigned sets, cancels, runs, repeats, firings, kills, stops, disturbances, unknown, doubtful;
        unsigned short_lived; /* successes of processes that were killed or cut off within a lease */
        unsigned seen_gone;   /* those of them that were seen to be acknowledged */
        unsigned clocks, wrong_clocks; /* of processes */
};

/* Result: a descriptor for history_say. */
static inline int
history_open(const char *path)
{
        int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);

        if (fd < 0)
                abort();
        return fd;
}

static inline void
history_say(int fd, struct event event)
{
        if (!event.at)
                event.at = weir_test_now();
        event.seal = HISTORY_SEAL;
        if (write(fd, &event, sizeof event) != sizeof event)
                _exit(1);
}

static inline void
history_add(struct history *history, struct event event)
{
        if (history->count == history->room) {
                history->room = history->room ? 2 * history->room : 1024;
                history->events = realloc(history->events, history->room * sizeof *history->events);
                if (!history->events)
                        abort();
        }
        history->events[history->count++] = event;
}

/* Adds all that was said.  Result: false: the file is not what history_say has written. */
static inline bool
history_read(struct history *history, const char *path)
{
        FILE *file = fopen(path, "rb");
        struct event event;
        bool is_whole = file != NULL;
        size_t size = 0;

        while (is_whole && (size = fread(&event, 1, sizeof event, file)) == sizeof event) {
                is_whole = event.seal == HISTORY_SEAL;
                history_add(history, event);
        }
        if (file)
                fclose(file);
        return is_whole && size == 0;
}

static inline void
history_print(const struct event *event)
{
        fprintf(stderr,
                "  %lld.%06lld %c process %d name %d operation %d status %d generation %llu token %llu attempt %d span %lld\n",
                (long long)(event->at / 1000000000), (long long)(event->at % 1000000000 / 1000), (char)event->what,
                event->process, event->name, event->operation, event->status, (unsigned long long)event->generation,
                (unsigned long long)event->token, event->attempt, (long long)event->span);
}

static inline void
history_free(struct history *history)
{
        free(history->events);
        *history = (struct history){0};
}

#endif
