/* weir-durable: looks at durable timers, and changes them, from a shell.
 *
 *     weir-durable URL list [PREFIX]        all timers
 *     weir-durable URL dead [PREFIX]        those whose attempts have all failed
 *     weir-durable URL count [PREFIX]
 *     weir-durable URL show NAME...
 *     weir-durable URL cancel NAME...       before their delivery
 *     weir-durable URL put-back NAME...     dead ones: they are delivered anew
 *     weir-durable URL forget NAME...       dead ones: they are removed
 *     weir-durable URL watch [PREFIX]       counts each second, until Ctrl-C
 *
 * The exit code is 1 if something has failed, or if a name was not there, or was not cancelled. */
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <weir/durable.h>
#include <weir/runtime.h>
#include <weir/timer.h>

#include "durable/text.h"

#define PAGE 1000

static weir_durable *store;
static bool has_failed;

/* -- printing: a name may have been chosen by a stranger, and must not steer the terminal -- */

static void
print_text(const char *text, size_t size)
{
        for (size_t i = 0; i < size;) {
                uint32_t code;
                unsigned length = weir__durable_read_character(text + i, &code); /* a NUL follows the text */
                bool is_shown = length && weir__durable_is_visible(code) && code != '\\';

                for (unsigned rest = length ? length : 1; rest; rest--, i++)
                        if (is_shown)
                                putchar(text[i]);
                        else
                                printf("\\x%02x", (unsigned char)text[i]);
        }
}

static void
print_time(weir_nsec wall)
{
        time_t second = (time_t)(wall / WEIR_SEC(1));
        struct tm date;
        char text[40];

        if (wall == WEIR_FOREVER || !gmtime_r(&second, &date) || !strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &date))
                snprintf(text, sizeof text, "never               ");
        fputs(text, stdout);
}

static const char *
state_of(const struct weir_durable_info *timer)
{
        static const char *const words[] = {"pending", "leased", "dead"};

        return timer->state == WEIR_DURABLE_PENDING && timer->attempt ? "failed" : words[timer->state];
}

static void
print_line(const struct weir_durable_info *timer)
{
        print_time(timer->due);
        printf("  %-7s  %2u  ", state_of(timer), timer->attempt);
        print_text(timer->topic, strlen(timer->topic));
        fputs("  ", stdout);
        print_text(timer->name, strlen(timer->name));
        if (*timer->problem) {
                fputs("  (", stdout);
                print_text(timer->problem, strlen(timer->problem));
                putchar(')');
        }
        putchar('\n');
}

static void
print_field(const char *what, const char *text, size_t size)
{
        printf("  %-11s", what);
        print_text(text, size);
        putchar('\n');
}

static void
print_all(const struct weir_durable_info *timer)
{
        print_text(timer->name, strlen(timer->name));
        printf("\n  state      %s, attempt %u\n", state_of(timer), timer->attempt);
        print_field("topic", timer->topic, strlen(timer->topic));
        print_field("payload", timer->payload, timer->payload_size);
        printf("  due        ");
        print_time(timer->due);
        printf(timer->state == WEIR_DURABLE_LEASED ? "\n  leased to  " : "\n  ready      ");
        print_time(timer->ready);
        printf("\n  generation %" PRIu64 "\n  token      %" PRIu64 "\n", timer->generation, timer->token);
        if (*timer->node)
                print_field("node", timer->node, strlen(timer->node));
        if (*timer->problem)
                print_field("problem", timer->problem, strlen(timer->problem));
        if (*timer->cron)
                print_field("schedule", timer->cron, strlen(timer->cron));
}

static void
complain(const weir_task *task, const char *name)
{
        has_failed = true;
        if (name && weir_task_status(task) == -ENOENT)
                fprintf(stderr, "weir-durable: there is no such timer: %s\n", name);
        else
                fprintf(stderr, "weir-durable: %s\n", weir_durable_problem(task));
}

/* -- commands -- */

static void
run(weir_task *task)
{
        int status = weir_task_run(task);

        if (status && !has_failed)
                fprintf(stderr, "weir-durable: %s\n", weir_strerror(status)); /* it could not start */
        has_failed = has_failed || status;
}

/* Where the list goes on; it is empty when there is no more. */
static char behind[WEIR_DURABLE_NAME_MAX + 1];

static void
on_list(weir_task *list, void *context)
{
        const struct weir_durable_info *timer;
        size_t count = 0;

        (void)context;
        if (weir_task_status(list))
                complain(list, NULL);
        for (; (timer = weir_durable_info(list, count)) != NULL; count++) {
                print_line(timer);
                snprintf(behind, sizeof behind, "%s", timer->name);
        }
        if (count < PAGE)
                behind[0] = '\0';
}

static void
list(const char *prefix)
{
        do
                run(weir_durable_list_new(store, prefix, *behind ? behind : NULL, PAGE, on_list, NULL));
        while (*behind);
}

static void
list_dead(const char *prefix)
{
        do
                run(weir_durable_dead_new(store, prefix, *behind ? behind : NULL, PAGE, on_list, NULL));
        while (*behind);
}

static void
on_count(weir_task *count, void *context)
{
        (void)context;
        if (weir_task_status(count))
                complain(count, NULL);
        else
                printf("%" PRIu64 " pending, %" PRIu64 " leased, %" PRIu64 " dead\n",
                       weir_durable_counted(count, WEIR_DURABLE_PENDING), weir_durable_counted(count, WEIR_DURABLE_LEASED),
                       weir_durable_counted(count, WEIR_DURABLE_DEAD));
        fflush(stdout);
}

static void
count(const char *prefix)
{
        run(weir_durable_count_new(store, prefix, on_count, NULL));
}

static void
watch(const char *prefix)
{
        while (!has_failed) {
                count(prefix);
                run(weir_timer_new(WEIR_SEC(1), NULL, NULL));
        }
}

static void
on_show(weir_task *get, void *name)
{
        if (weir_task_status(get))
                complain(get, name);
        else
                print_all(weir_durable_info(get, 0));
}

static void
show(char *name)
{
        run(weir_durable_get_new(store, name, on_show, name));
}

static void
on_cancel(weir_task *cancel, void *name)
{
        if (weir_task_status(cancel)) {
                complain(cancel, name);
        } else if (!weir_durable_cancelled(cancel)) {
                fprintf(stderr, "weir-durable: not cancelled, for it is not there, or its delivery has begun: %s\n",
                        (char *)name);
                has_failed = true;
        }
}

static void
cancel(char *name)
{
        run(weir_durable_cancel_new(store, name, on_cancel, name));
}

static void
on_dead(weir_task *task, void *name)
{
        if (weir_task_status(task))
                complain(task, name);
}

static void
put_back(char *name)
{
        run(weir_durable_put_back_new(store, name, on_dead, name));
}

static void
forget(char *name)
{
        run(weir_durable_forget_new(store, name, on_dead, name));
}

static const struct {
        const char *word;
        void (*of_prefix)(const char *prefix);
        void (*of_name)(char *name);
} commands[] = {
        {"list", list, NULL}, {"dead", list_dead, NULL}, {"count", count, NULL},       {"watch", watch, NULL},
        {"show", NULL, show}, {"cancel", NULL, cancel},  {"put-back", NULL, put_back}, {"forget", NULL, forget},
};

int
main(int argc, char *argv[])
{
        size_t command = 0, count_of = sizeof commands / sizeof *commands;

        while (argc > 2 && command < count_of && strcmp(commands[command].word, argv[2]) != 0)
                command++;
        if (argc < 3 || command == count_of || (commands[command].of_name ? argc < 4 : argc > 4)) {
                fprintf(stderr, "usage: weir-durable URL list|dead|count|watch [PREFIX]\n"
                                "       weir-durable URL show|cancel|put-back|forget NAME...\n");
                return 2;
        }
        store = weir_durable_open(argv[1]);
        if (!store) {
                fprintf(stderr, "weir-durable: %s: %s\n", argv[1], weir_strerror(-errno));
                return 1;
        }
        has_failed = false;
        if (commands[command].of_prefix)
                commands[command].of_prefix(argc > 3 ? argv[3] : "");
        for (int i = 3; i < argc && commands[command].of_name; i++)
                commands[command].of_name(argv[i]);
        weir_durable_close(store);
        weir_shutdown();
        return has_failed;
}
