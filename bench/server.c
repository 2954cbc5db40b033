/* bench/server.c: starts and ends the servers under test.
 *
 * Ours and the floor print their port; nginx gets a configuration in a directory of its own, without a master process, so that
 * one process is all there is to end and to account for.
 *
 * Threads: the main thread of bench/http. */
#include "server.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench.h"
#include "secure.h"

#define NGINX       "/usr/sbin/nginx"
#define H2O         "/usr/bin/h2o"
#define GO_PROGRAM  "peer-gohttp"
#define ECHO_MODULE "/usr/lib/nginx/modules/ngx_http_echo_module.so"
#define PATIENCE    (5 * BENCH_NSEC_PER_SEC) /* until it serves, until it ended */

const char *
bench_peer_name(enum bench_peer peer)
{
        static const char *const names[] = {"weir", "nginx", "h2o", "go", "floor"};

        return names[peer];
}

/* The path of a program that lies beside this one. */
static bool
beside(const char *name, char path[512])
{
        ssize_t size = readlink("/proc/self/exe", path, 511 - 32);

        path[size > 0 ? size : 0] = '\0';
        char *slash = strrchr(path, '/');
        if (slash)
                strcpy(slash + 1, name);
        return slash;
}

bool
bench_peer_present(enum bench_peer peer, enum bench_service service)
{
        char path[512];

        switch (peer) {
        case BENCH_NGINX: return access(NGINX, X_OK) == 0 && (service != BENCH_DELAY || access(ECHO_MODULE, R_OK) == 0);
        case BENCH_H2O: return access(H2O, X_OK) == 0 && (service == BENCH_HELLO || service == BENCH_CLOSED);
        case BENCH_GO: return beside(GO_PROGRAM, path) && access(path, X_OK) == 0 && service != BENCH_DELAY;
        case BENCH_FLOOR: return !bench_is_secure(service);
        default: return true;
        }
}

/* -- files -- */

static int
bind_somewhere(int fd)
{
        struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        socklen_t size = sizeof address;

        if (bind(fd, (struct sockaddr *)&address, size) < 0 || getsockname(fd, (struct sockaddr *)&address, &size) < 0)
                return 0;
        return ntohs(address.sin_port);
}

/* A port that was free a moment ago. */
static int
free_port(void)
{
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        int port = bind_somewhere(fd);

        close(fd);
        return port;
}

static FILE *
open_configuration(const struct bench_server *server)
{
        char path[96];

        snprintf(path, sizeof path, "%s/configuration", server->directory);
        return fopen(path, "we");
}

/* Replies with the fields that weir's and the floor's have, too: Server, Date, Content-Type, Content-Length, Connection. */
static bool
configure_nginx(const struct bench_server *server, bool everywhere)
{
        static const char *const temporaries[] = {"client_body", "proxy", "fastcgi", "uwsgi", "scgi"};
        bool is_secure = bench_is_secure(server->service), delayed = server->service == BENCH_DELAY;
        const char *directory = server->directory;
        FILE *file = open_configuration(server);

        if (!file)
                return false;
        if (delayed)
                fprintf(file, "load_module %s;\n", ECHO_MODULE);
        fprintf(file, "daemon off;\nmaster_process %s;\npid %s/pid;\nerror_log %s/error.log error;\n", everywhere ? "on" : "off",
                directory, directory);
        if (everywhere)
                fprintf(file, "worker_processes auto;\n%s", geteuid() == 0 ? "user root;\n" : "");
        /* More than there are: it closes idle connections when less than a sixteenth of these is left. */
        fprintf(file, "events {\n  worker_connections 22000;\n}\n");
        fprintf(file, "http {\n  access_log off;\n  server_tokens off;\n  default_type text/plain;\n  charset utf-8;\n");
        fprintf(file, "  keepalive_requests 1000000000;\n  keepalive_timeout 600s;\n");
        for (size_t i = 0; i < sizeof temporaries / sizeof *temporaries; i++)
                fprintf(file, "  %s_temp_path %s/%s;\n", temporaries[i], directory, temporaries[i]);
        fprintf(file, "  server {\n    listen 127.0.0.1:%d%s backlog=4096;\n", server->port, is_secure ? " ssl" : "");
        if (is_secure)
                fprintf(file, "    ssl_certificate %s/%s;\n    ssl_certificate_key %s/%s;\n    ssl_protocols TLSv1.2 TLSv1.3;\n",
                        directory, BENCH_CERTIFICATE_FILE, directory, BENCH_KEY_FILE);
        fprintf(file, "    location / {\n%s    }\n  }\n}\n",
                delayed ? "      echo_sleep 1;\n      echo hello;\n" : "      return 200 \"hello\\n\";\n");
        return fclose(file) == 0;
}

/* A file, which it keeps open; its replies have Last-Modified and Accept-Ranges, too. */
static bool
configure_h2o(const struct bench_server *server, bool everywhere)
{
        char path[96];

        snprintf(path, sizeof path, "%s/index.txt", server->directory);
        FILE *hello = fopen(path, "we"), *file = open_configuration(server);
        bool good = hello && file;
        if (good) {
                fprintf(hello, "hello\n");
                fprintf(file, "%snum-threads: %ld\nmax-connections: 22000\nhttp1-request-timeout: 600\nfile.etag: OFF\n",
                        geteuid() == 0 ? "user: root\n" : "", everywhere ? sysconf(_SC_NPROCESSORS_ONLN) : 1L);
                fprintf(file, "file.index: [index.txt]\nlisten:\n  host: 127.0.0.1\n  port: %d\n", server->port);
                fprintf(file, "hosts:\n  default:\n    paths:\n      /:\n        file.dir: %s\n", server->directory);
        }
        if (hello && fclose(hello))
                good = false;
        if (file && fclose(file))
                good = false;
        return good;
}

static bool
make_directory(struct bench_server *server)
{
        const char *parent = getenv("TMPDIR");

        if (!parent || strlen(parent) > 40)
                parent = "/tmp";
        snprintf(server->directory, sizeof server->directory, "%s/weir-bench-XXXXXX", parent);
        if (mkdtemp(server->directory))
                return true;
        server->directory[0] = '\0';
        return false;
}

/* The port of those that do not tell theirs is chosen here. */
static bool
is_configured(enum bench_peer peer)
{
        return peer == BENCH_NGINX || peer == BENCH_H2O;
}

static bool
prepare(struct bench_server *server, bool everywhere)
{
        bool is_secure = bench_is_secure(server->service);

        if (!is_secure && !is_configured(server->peer))
                return true;
        if (!make_directory(server) || (is_secure && !bench_make_certificate(server->directory)))
                return false;
        if (!is_configured(server->peer))
                return true;
        server->port = free_port();
        return server->peer == BENCH_NGINX ? configure_nginx(server, everywhere) : configure_h2o(server, everywhere);
}

static void
remove_files(struct bench_server *server)
{
        static const char *const files[] = {"configuration", "pid",   "error.log", "client_body", "proxy",
                                            "fastcgi",       "uwsgi", "scgi",      "index.txt",   BENCH_CERTIFICATE_FILE,
                                            BENCH_KEY_FILE,  ""};
        char path[96];

        for (size_t i = 0; server->directory[0] && i < sizeof files / sizeof *files; i++) {
                snprintf(path, sizeof path, "%s/%s", server->directory, files[i]);
                remove(path);
        }
        server->directory[0] = '\0';
}

/* -- the process -- */

static void
execute(const struct bench_server *server)
{
        static const char *const services[BENCH_SERVICES] = {"hello", "delay", "close", "hello", "hello"};
        char path[512], configuration[96], errors[96], certificate[96], key[96];
        bool is_secure = bench_is_secure(server->service);

        snprintf(configuration, sizeof configuration, "%s/configuration", server->directory);
        snprintf(errors, sizeof errors, "%s/error.log", server->directory);
        snprintf(certificate, sizeof certificate, "%s/%s", server->directory, BENCH_CERTIFICATE_FILE);
        snprintf(key, sizeof key, "%s/%s", server->directory, BENCH_KEY_FILE);
        if (server->peer == BENCH_NGINX)
                execl(NGINX, "nginx", "-p", server->directory, "-e", errors, "-c", configuration, (char *)NULL);
        else if (server->peer == BENCH_H2O)
                execl(H2O, "h2o", "-c", configuration, (char *)NULL);
        else if (beside(server->peer == BENCH_FLOOR      ? "floor"
                        : server->peer == BENCH_GO       ? GO_PROGRAM
                        : server->service == BENCH_DELAY ? "server_delay"
                                                         : "server_hello",
                        path))
                execl(path, path, services[server->service], is_secure ? certificate : NULL, key, (char *)NULL);
}

static void
run_child(const struct bench_server *server, int cpu, int parent, int out)
{
        cpu_set_t set;

        bench_follow_parent(parent);
        CPU_ZERO(&set);
        if (cpu != BENCH_ALL_CPUS) { /* else it has those of this process */
                CPU_SET(cpu, &set);
                sched_setaffinity(0, sizeof set, &set);
        }
        setpgid(0, 0); /* Ctrl-C is for the harness, which ends this */
        dup2(out, STDOUT_FILENO);
        if (server->peer == BENCH_H2O)
                dup2(open("/dev/null", O_WRONLY | O_CLOEXEC), STDERR_FILENO); /* says how it does */
        signal(SIGPIPE, SIG_DFL);
        execute(server);
        fprintf(stderr, "bench: %s cannot be executed: %s\n", bench_peer_name(server->peer), strerror(errno));
        _exit(127);
}

static bool
accepts(int port)
{
        struct sockaddr_in address = {
                .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = htons((uint16_t)port)};
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        bool connected = connect(fd, (struct sockaddr *)&address, sizeof address) == 0;

        close(fd);
        return connected;
}

static bool
wait_until_it_serves(struct bench_server *server, int in)
{
        int64_t until = bench_now() + PATIENCE;
        char text[16] = {0};

        if (!is_configured(server->peer) && read(in, text, sizeof text - 1) > 0)
                server->port = atoi(text);
        while (server->port > 0 && bench_now() < until && !bench_interrupted()) {
                if (accepts(server->port))
                        return true;
                bench_sleep(2000000);
        }
        return false;
}

bool
bench_server_start(struct bench_server *server, enum bench_peer peer, enum bench_service service, int cpu)
{
        int ends[2], parent = getpid();

        *server = (struct bench_server){.peer = peer, .service = service};
        if (!prepare(server, cpu == BENCH_ALL_CPUS) || pipe2(ends, O_CLOEXEC) < 0) {
                remove_files(server);
                return false;
        }
        fflush(NULL);
        server->pid = fork();
        if (server->pid == 0)
                run_child(server, cpu, parent, ends[1]);
        close(ends[1]);
        bool good = server->pid > 0 && wait_until_it_serves(server, ends[0]);
        close(ends[0]);
        if (!good) {
                if (!bench_interrupted())
                        fprintf(stderr, "bench: %s did not start to serve\n", bench_peer_name(peer));
                bench_server_stop(server);
        }
        return good;
}

static int64_t
cpu_of(pid_t pid)
{
        clockid_t clock;

        return clock_getcpuclockid(pid, &clock) ? 0 : bench_clock(clock);
}

int64_t
bench_server_cpu(const struct bench_server *server)
{
        int64_t cpu = cpu_of(server->pid);
        char path[64];
        int child;

        snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)server->pid, (int)server->pid);
        FILE *children = fopen(path, "re"); /* nginx's workers */
        while (children && fscanf(children, "%d", &child) == 1)
                cpu += cpu_of(child);
        if (children)
                fclose(children);
        return cpu;
}

/* Whether it ended before the time was over; *status is how. */
static bool
wait_for(pid_t pid, int *status)
{
        int64_t until = bench_now() + PATIENCE;

        while (waitpid(pid, status, WNOHANG) == 0) {
                if (bench_now() > until)
                        return false;
                bench_sleep(5000000);
        }
        return true;
}

void
bench_server_stop(struct bench_server *server)
{
        int status = 0;

        if (server->pid > 0) {
                kill(server->pid, SIGTERM);
                bool ended = wait_for(server->pid, &status);
                if (!ended) {
                        kill(server->pid, SIGKILL);
                        waitpid(server->pid, &status, 0);
                }
                if (server->peer == BENCH_WEIR && (!WIFEXITED(status) || WEXITSTATUS(status) != 0))
                        fprintf(stderr, "bench: weir %s\n", ended ? "ended with a failure" : "did not end when it was told to");
        }
        server->pid = 0;
        remove_files(server);
}
