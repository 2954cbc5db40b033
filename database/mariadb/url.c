/* database/mariadb/url.c: where a pool leads: its URL, and its config for what the URL does not say.
 *
 * Threads: any. */
#include "database/mariadb/mariadb.h"

#include <stdlib.h>
#include <string.h>

#include <weir/url.h>

#define MAX_OPTIONS 16 /* in the query of a URL */

void
weir__mariadb_target_free(struct weir__mariadb_target *target)
{
        char *texts[] = {target->host, target->socket,      target->user, target->password, target->database,
                         target->ca,   target->certificate, target->key,  target->session};

        if (target->password)
                explicit_bzero(target->password, strlen(target->password));
        for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
                free(texts[i]);
        *target = (struct weir__mariadb_target){.port = 0};
}

/* Takes the text, if there is none yet, and it is not empty.  0 or -ENOMEM. */
static int
set(char **field, const char *text)
{
        if (*field || !text || !*text)
                return 0;
        *field = strdup(text);
        return *field ? 0 : -ENOMEM;
}

/* The same for a part of a URL. */
static int
set_decoded(char **field, const char *text, size_t size, const char **ret_problem)
{
        if (size == 0)
                return 0;
        *field = weir_percent_decode(text, size, NULL);
        if (!*field && errno == EINVAL)
                *ret_problem = "a part of the URL has a percent sign without two hexadecimal digits, or a NUL";
        return *field ? 0 : -errno;
}

static int
read_userinfo(struct weir__mariadb_target *target, const char *userinfo, const char **ret_problem)
{
        size_t size = strcspn(userinfo, ":");
        int failed = set_decoded(&target->user, userinfo, size, ret_problem);

        if (failed || !userinfo[size])
                return failed;
        return set_decoded(&target->password, userinfo + size + 1, strlen(userinfo + size + 1), ret_problem);
}

static int
read_tls(struct weir__mariadb_target *target, const char *value, const char **ret_problem)
{
        static const char *const names[] = {
                [WEIR_MARIADB_TLS_NONE] = "no", [WEIR_MARIADB_TLS_REQUIRED] = "yes", [WEIR_MARIADB_TLS_VERIFIED] = "verify"};

        for (unsigned i = 0; value && i < sizeof names / sizeof *names; i++) {
                if (strcmp(names[i], value) == 0) {
                        target->tls = (enum weir_mariadb_tls)i;
                        return 0;
                }
        }
        *ret_problem = "the URL has another value of tls than no, yes and verify";
        return -EINVAL;
}

static int
read_pair(struct weir__mariadb_target *target, const char *name, const char *value, const char **ret_problem)
{
        if (strcmp(name, "tls") == 0)
                return read_tls(target, value, ret_problem);
        if (strcmp(name, "socket") == 0)
                return set(&target->socket, value);
        if (strcmp(name, "ca") == 0)
                return set(&target->ca, value);
        if (strcmp(name, "certificate") == 0)
                return set(&target->certificate, value);
        if (strcmp(name, "key") == 0)
                return set(&target->key, value);
        *ret_problem = "the query of the URL has a name besides socket, tls, ca, certificate and key";
        return -EINVAL;
}

static int
read_query(struct weir__mariadb_target *target, const char *query, const char **ret_problem)
{
        const char *name, *value;
        int failed = 0;

        if (!query)
                return 0;
        weir_form *form = weir_form_parse(query, strlen(query), MAX_OPTIONS);
        if (!form) {
                *ret_problem = "the query of the URL cannot be read";
                return errno == ENOMEM ? -ENOMEM : -EINVAL;
        }
        for (size_t i = 0; !failed && weir_form_at(form, i, &name, &value) == 0; i++)
                failed = read_pair(target, name, value, ret_problem);
        weir_form_free(form);
        return failed;
}

static int
read_url(struct weir__mariadb_target *target, const weir_url *url, const char **ret_problem)
{
        const char *userinfo = weir_url_userinfo(url), *path = weir_url_path(url);
        int failed = 0;

        if (strcmp(weir_url_scheme(url), "mariadb") != 0 && strcmp(weir_url_scheme(url), "mysql") != 0) {
                *ret_problem = "the scheme of the URL is neither mariadb nor mysql";
                return -EINVAL;
        }
        target->port = weir_url_port(url) > 0 ? (unsigned)weir_url_port(url) : 0;
        if (userinfo)
                failed = read_userinfo(target, userinfo, ret_problem);
        if (!failed && weir_url_host(url))
                failed = set_decoded(&target->host, weir_url_host(url), strlen(weir_url_host(url)), ret_problem);
        if (!failed && *path == '/')
                failed = set_decoded(&target->database, path + 1, strlen(path + 1), ret_problem);
        return failed ? failed : read_query(target, weir_url_query(url), ret_problem);
}

static int
add_config(struct weir__mariadb_target *target, const struct weir_mariadb_config *config)
{
        bool is_somewhere = target->host || target->socket;

        if ((!is_somewhere && (set(&target->host, config->host) || set(&target->socket, config->socket))) ||
            set(&target->user, config->user) || set(&target->password, config->password) ||
            set(&target->database, config->database) || set(&target->ca, config->ca) ||
            set(&target->certificate, config->certificate) || set(&target->key, config->key) ||
            set(&target->session, config->session))
                return -ENOMEM;
        target->port = target->port ? target->port : config->port;
        target->tls = target->tls ? target->tls : config->tls;
        return 0;
}

int
weir__mariadb_target_read(struct weir__mariadb_target *target, const char *text, const struct weir_mariadb_config *config,
                          const char **ret_problem)
{
        struct weir_url_problem problem = {.text = "it is too long"};
        weir_url *url = text ? weir_url_parse(text, &problem) : NULL;
        int failed = 0;

        *target = (struct weir__mariadb_target){.port = 0};
        *ret_problem = problem.text;
        if (text && !url)
                return errno == ENOMEM ? -ENOMEM : -EINVAL;
        if (url)
                failed = read_url(target, url, ret_problem);
        weir_url_free(url);
        if (!failed && config)
                failed = add_config(target, config);
        if (failed || target->tls || (!target->ca && !target->certificate && !target->key))
                return failed;
        *ret_problem = "ca, certificate and key need tls: without it nothing is encrypted";
        return -EINVAL;
}
