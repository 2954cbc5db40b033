/* test/status_test.c: texts and names of statuses, and what is said of configurations and functions that are wrong. */
#include "test/timer_fixture.h"

#include <ctype.h>
#include <glob.h>
#include <weir/http_server.h>

/* -- texts -- */

/* What the library only passes on: for these the system's text is right. */
static bool
is_of_the_system(int code)
{
        static const int codes[] = {EACCES, EADDRINUSE, EADDRNOTAVAIL, EBADF,  ECONNREFUSED, ECONNRESET,
                                    EIO,    EISDIR,     EMFILE,        ENFILE, ENOSPC,       ENOTSOCK};

        for (size_t i = 0; i < sizeof codes / sizeof *codes; i++)
                if (codes[i] == code)
                        return true;
        return false;
}

/* Result: 0 for what is no name of a code. */
static int
code_of(const char *name)
{
        if (strcmp(name, "EOPNOTSUPP") == 0) /* on Linux the same as ENOTSUP */
                return EOPNOTSUPP;
        for (int code = 1; code < 160; code++)
                if (strerrorname_np(code) && strcmp(strerrorname_np(code), name) == 0)
                        return code;
        return 0;
}

/* A word that begins with E, such as -EINVAL, or EINVAL where errno is meant. */
static unsigned
check_codes_of(const char *path)
{
        FILE *file = fopen(path, "r");
        char word[64];
        unsigned checked = 0;
        size_t length = 0;

        CU_ASSERT_PTR_NOT_NULL_FATAL(file);
        for (int c = ' '; c != EOF;) {
                c = getc(file);
                if (isalnum(c) || c == '_') {
                        if (length < sizeof word - 1)
                                word[length++] = (char)c;
                        continue;
                }
                word[length] = '\0';
                length = 0;
                int code = *word == 'E' ? code_of(word) : 0;
                if (code == 0 || is_of_the_system(code))
                        continue;
                bool is_own = strcmp(weir_strerror(-code), strerrordesc_np(code)) != 0;
                CU_ASSERT(is_own);
                if (!is_own)
                        fprintf(stderr, "%s: -%s has the system's text: give it one in kernel/runtime/status.c\n", path, word);
                checked++;
        }
        fclose(file);
        return checked;
}

static void
a_status_that_the_headers_name_says_what_it_means_here(void)
{
        unsigned checked = 0;
        glob_t headers;

        CU_ASSERT_EQUAL_FATAL(glob(WEIR_HEADERS "/*.h", 0, NULL, &headers), 0);
        for (size_t i = 0; i < headers.gl_pathc; i++)
                checked += check_codes_of(headers.gl_pathv[i]);
        globfree(&headers);
        CU_ASSERT(checked > 400);
        CU_ASSERT_STRING_EQUAL(weir_strerror(-EINPROGRESS), "it goes on: this is a tick, not the end");
        CU_ASSERT_STRING_EQUAL(weir_strerror(-ESHUTDOWN), "the library was shut down");
        CU_ASSERT_STRING_EQUAL(weir_strerror(-ETIMEDOUT), "the time limit is over");
        CU_ASSERT_STRING_EQUAL(weir_strerror(-ECONNREFUSED), "Connection refused");
}

/* Those with which tasks end; the others are refusals of wrong calls. */
static void
the_page_on_the_client_has_its_statuses(void)
{
        static const char *const headers[] = {WEIR_HEADERS "/http_client.h", WEIR_HEADERS "/http_call.h"};
        static const char *const others[] = {"-EINVAL", "-ENOMEM", "-EALREADY", "-ENOBUFS"};
        static char page[65536], header[65536];
        FILE *file = fopen(WEIR_HEADERS "/../../docs/client.md", "r");
        unsigned checked = 0;

        CU_ASSERT_PTR_NOT_NULL_FATAL(file);
        page[fread(page, 1, sizeof page - 1, file)] = '\0';
        fclose(file);
        for (size_t i = 0; i < sizeof headers / sizeof *headers; i++) {
                file = fopen(headers[i], "r");
                CU_ASSERT_PTR_NOT_NULL_FATAL(file);
                header[fread(header, 1, sizeof header - 1, file)] = '\0';
                fclose(file);
                for (const char *at = header; (at = strstr(at, "-E")); at++) {
                        char code[32];
                        bool is_other = false;

                        snprintf(code, sizeof code, "%.*s", (int)(1 + strspn(at + 1, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789")),
                                 at);
                        for (size_t j = 0; j < sizeof others / sizeof *others; j++)
                                is_other |= strcmp(code, others[j]) == 0;
                        if (is_other || code_of(code + 1) == 0)
                                continue;
                        CU_ASSERT_PTR_NOT_NULL(strstr(page, code));
                        if (!strstr(page, code))
                                fprintf(stderr, "docs/client.md does not say what %s means\n", code);
                        checked++;
                }
        }
        CU_ASSERT(checked > 20);
}

static void
texts_and_names_of_all_numbers_can_be_shown(void)
{
        for (int status = -20000; status < 5000; status++) {
                const char *text = weir_strerror(status), *name = weir_strstatus(status);

                CU_ASSERT(text && *text && name && *name && strlen(name) < 24);
        }
        CU_ASSERT_STRING_EQUAL(weir_strerror(-19999), "unknown status");
        CU_ASSERT_STRING_EQUAL(weir_strstatus(-19999), "-19999");
        CU_ASSERT_STRING_EQUAL(weir_strstatus(INT32_MIN), "-2147483648");
        CU_ASSERT_STRING_EQUAL(weir_strstatus(INT32_MAX), "2147483647");
}

static void
short_names_are_those_of_the_headers(void)
{
        CU_ASSERT_STRING_EQUAL(weir_strstatus(0), "0");
        CU_ASSERT_STRING_EQUAL(weir_strstatus(-ETIMEDOUT), "-ETIMEDOUT");
        CU_ASSERT_STRING_EQUAL(weir_strstatus(-EPERM), "-EPERM");
        CU_ASSERT_STRING_EQUAL(weir_strstatus(WEIR_ETLS_KEY), "WEIR_ETLS_KEY");
        CU_ASSERT_STRING_EQUAL(weir_strstatus(WEIR_ETLS), "WEIR_ETLS");
        CU_ASSERT_STRING_EQUAL(weir_strstatus(WEIR_ETLS_SELF_SIGNED), "WEIR_ETLS_SELF_SIGNED");
        CU_ASSERT_STRING_EQUAL(weir_strstatus(WEIR_ETLS_PLAIN), "WEIR_ETLS_PLAIN");
        CU_ASSERT_STRING_EQUAL(weir_strstatus(12), "12");
}

static void
names_of_unknown_numbers_last_for_four_calls_and_on_their_thread(void)
{
        const char *names[4];
        char expected[16];

        for (int i = 0; i < 4; i++)
                names[i] = weir_strstatus(7000 + i);
        for (int i = 0; i < 4; i++) {
                snprintf(expected, sizeof expected, "%d", 7000 + i);
                CU_ASSERT_STRING_EQUAL(names[i], expected);
        }
}

static void *
ask_for_names(void *number)
{
        char expected[16];

        for (int i = 0; i < 10000; i++) {
                int status = *(int *)number + i % 7;

                snprintf(expected, sizeof expected, "%d", status);
                CU_ASSERT(strcmp(weir_strstatus(status), expected) == 0 && strcmp(weir_strstatus(-EIO), "-EIO") == 0);
        }
        return NULL;
}

static void
names_are_right_while_many_threads_ask(void)
{
        pthread_t threads[4];
        int numbers[4] = {6000, 7000, 8000, 9000};

        for (int i = 0; i < 4; i++)
                pthread_create(&threads[i], NULL, ask_for_names, &numbers[i]);
        for (int i = 0; i < 4; i++)
                pthread_join(threads[i], NULL);
}

/* -- what was expected -- */

static char heard[600];
static unsigned count;

static void
hear(enum weir_log_level level, const char *message, void *context)
{
        (void)context;
        CU_ASSERT_EQUAL(level, WEIR_LOG_ERROR);
        snprintf(heard, sizeof heard, "%s", message);
        count++;
}

static void
listen_to_the_log(void)
{
        heard[0] = '\0';
        count = 0;
        weir_log_set(hear, NULL);
}

/* One message was logged, which has that text. */
static void
said(const char *text)
{
        weir_log_set(NULL, NULL);
        CU_ASSERT_EQUAL(count, 1);
        CU_ASSERT_PTR_NOT_NULL(strstr(heard, text));
        if (!strstr(heard, text))
                fprintf(stderr, "expected \"%s\", got \"%s\"\n", text, heard);
}

static void
config_without_a_size_says_how_to_begin(void)
{
        struct weir_config config = {.pollers = 1};

        listen_to_the_log();
        CU_ASSERT_EQUAL(weir_init(&config), -EINVAL);
        said("weir_init: the size of the config is wrong, or it has unknown fields: expected struct weir_config config = "
             "WEIR_CONFIG_DEFAULT");
}

static void
server_config_of_zeros_says_how_to_begin(void)
{
        struct weir_http_server_config config = {0};

        listen_to_the_log();
        weir_http_server *server = weir_http_server_new(&config, weir_test_done, NULL);
        said("expected struct weir_http_server_config config = WEIR_HTTP_SERVER_CONFIG_DEFAULT");
        CU_ASSERT_EQUAL(weir_http_server_start(server, "127.0.0.1:0"), -EINVAL);
        weir_http_server_free(server);
}

static void
null_handler_is_named(void)
{
        listen_to_the_log();
        weir_http_server *server = weir_http_server_new(NULL, NULL, NULL);
        said("weir_http_server_new: the handler is NULL");
        CU_ASSERT_EQUAL(weir_http_server_start(server, "127.0.0.1:0"), -EINVAL);
        weir_http_server_free(server);
}

static void
null_function_of_the_executor_is_named(void)
{
        listen_to_the_log();
        weir_task *task = weir_go_new(NULL, NULL, NULL, NULL);
        said("weir_go_new: the function is NULL");
        CU_ASSERT_EQUAL(weir_task_start(task), -EINVAL);
}

static void
null_function_that_makes_tasks_is_named(void)
{
        listen_to_the_log();
        weir_task *task = weir_repeater_new(NULL, NULL, NULL);
        said("a repeater without a function: expected one that makes tasks");
        CU_ASSERT_EQUAL(weir_task_start(task), -EINVAL);
        listen_to_the_log();
        task = weir_retry_new(NULL, NULL, NULL, NULL);
        said("weir_retry_new: the function is NULL");
        CU_ASSERT_EQUAL(weir_task_start(task), -EINVAL);
}

/* Once in a second for each place. */
static void
a_flood_of_mistakes_is_one_line(void)
{
        listen_to_the_log();
        for (int i = 0; i < 1000; i++)
                weir_task_dismiss(weir_dynamic_new(NULL, NULL, NULL));
        weir_log_set(NULL, NULL);
        CU_ASSERT(count <= 1 + WEIR_TEST_TOLERANCE / WEIR_SEC(1));
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(a_status_that_the_headers_name_says_what_it_means_here),
                WEIR_TEST(the_page_on_the_client_has_its_statuses),
                WEIR_TEST(texts_and_names_of_all_numbers_can_be_shown),
                WEIR_TEST(short_names_are_those_of_the_headers),
                WEIR_TEST(names_of_unknown_numbers_last_for_four_calls_and_on_their_thread),
                WEIR_TEST(names_are_right_while_many_threads_ask),
                WEIR_TEST(config_without_a_size_says_how_to_begin),
                WEIR_TEST(server_config_of_zeros_says_how_to_begin),
                WEIR_TEST(null_handler_is_named),
                WEIR_TEST(null_function_of_the_executor_is_named),
                WEIR_TEST(null_function_that_makes_tasks_is_named),
                WEIR_TEST(a_flood_of_mistakes_is_one_line),
        };

        return weir_test_main("statuses", tests, sizeof tests / sizeof *tests);
}
