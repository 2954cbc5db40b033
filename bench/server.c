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

#define NGINX       "/usr/sbin/nginx"
#define ECHO_MODULE "/usr/lib/nginx/modules/ngx_http_echo_module.so"
#define PATIENCE    (5 * BENCH_NSEC_PER_SEC) /* until it serves, until it ended */

const char *
bench_peer_name(enum bench_peer peer)
{
        static const char *const names[] = {"weir", "nginx", "floor"};

        return names[peer];
}

bool
bench_peer_present(enum bench_peer peer, bool delayed)
{
        if (peer != BENCH_NGINX)
                return true;
        return access(NGINX, X_OK) == 0 && (!delayed || access(ECHO_MODULE, R_OK) == 0);
}

/* -- nginx's files -- */

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

static bool
write_configuration(const struct bench_server *server, bool delayed, bool everywhere)
{
        static const char *const temporaries[] = {"client_body", "proxy", "fastcgi", "uwsgi", "scgi"};
        char path[96];

        snprintf(path, sizeof path, "%s/nginx.conf", server->directory);
        FILE *file = fopen(path, "we");
        if (!file)
                return false;
        if (delayed)
                fprintf(file, "load_module %s;\n", ECHO_MODULE);
        fprintf(file, "daemon off;\nmaster_process %s;\npid %s/pid;\nerror_log %s/error.log error;\n", everywhere ? "on" : "off",
                server->directory, server->directory);
        if (everywhere)
                fprintf(file, "worker_processes auto;\n%s", geteuid() == 0 ? "user root;\n" : "");
        /* More than there are: it closes idle connections when less than a sixteenth of these is left. */
        fprintf(file, "events {\n  worker_connections 22000;\n}\n");
        fprintf(file, "http {\n  access_log off;\n  default_type text/plain;\n  keepalive_requests 1000000000;\n");
        fprintf(file, "  keepalive_timeout 600s;\n");
        for (size_t i = 0; i < sizeof temporaries / sizeof *temporaries; i++)
                fprintf(file, "  %s_temp_path %s/%s;\n", temporaries[i], server->directory, temporaries[i]);
        fprintf(file, "  server {\n    listen 127.0.0.1:%d backlog=4096;\n    location / {\n", server->port);
        fprintf(file, delayed ? "      echo_sleep 1;\n      echo hello;\n" : "      return 200 \"hello\\n\";\n");
        fprintf(file, "    }\n  }\n}\n");
        return fclose(file) == 0;
}

static void
remove_files(struct bench_server *server)
{
        static const char *const files[] = {"nginx.conf", "pid",  "error.log", "client_body", "proxy", "fastcgi",
                                            "uwsgi",      "scgi", ""};
        char path[96];

        for (size_t i = 0; server->directory[0] && i < sizeof files / sizeof *files; i++) {
                snprintf(path, sizeof path, "%s/%s", server->directory, files[i]);
                remove(path);
        }
        server->directory[0] = '\0';
}

static bool
prepare_nginx(struct bench_server *server, bool delayed, bool everywhere)
{
        const char *parent = getenv("TMPDIR");

        if (!parent || strlen(parent) > 40)
                parent = "/tmp";
        snprintf(server->directory, sizeof server->directory, "%s/weir-bench-XXXXXX", parent);
        if (!mkdtemp(server->directory)) {
                server->directory[0] = '\0';
                return false;
        }
        server->port = free_port();
        return write_configuration(server, delayed, everywhere);
}

/* -- the process -- */

static void
execute(const struct bench_server *server, bool delayed)
{
        char path[512] = {0}, configuration[96], errors[96];

        if (server->peer == BENCH_NGINX) {
                snprintf(configuration, sizeof configuration, "%s/nginx.conf", server->directory);
                snprintf(errors, sizeof errors, "%s/error.log", server->directory);
                execl(NGINX, "nginx", "-p", server->directory, "-e", errors, "-c", configuration, (char *)NULL);
                return;
        }
        ssize_t size = readlink("/proc/self/exe", path, sizeof path - 32); /* the others lie beside this program */
        char *slash = size > 0 ? strrchr(path, '/') : NULL;
        if (!slash)
                return;
        strcpy(slash + 1, server->peer == BENCH_FLOOR ? "floor" : delayed ? "server_delay" : "server_hello");
        execl(path, path, delayed ? "delay" : "hello", (char *)NULL);
}

static void
run_child(const struct bench_server *server, bool delayed, int cpu, int parent, int out)
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
        signal(SIGPIPE, SIG_DFL);
        execute(server, delayed);
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

        if (server->peer != BENCH_NGINX && read(in, text, sizeof text - 1) > 0)
                server->port = atoi(text);
        while (server->port > 0 && bench_now() < until && !bench_interrupted()) {
                if (accepts(server->port))
                        return true;
                bench_sleep(2000000);
        }
        return false;
}

bool
bench_server_start(struct bench_server *server, enum bench_peer peer, bool delayed, int cpu)
{
        int ends[2], parent = getpid();

        *server = (struct bench_server){.peer = peer};
        if ((peer == BENCH_NGINX && !prepare_nginx(server, delayed, cpu == BENCH_ALL_CPUS)) || pipe2(ends, O_CLOEXEC) < 0) {
                remove_files(server);
                return false;
        }
        fflush(NULL);
        server->pid = fork();
        if (server->pid == 0)
                run_child(server, delayed, cpu, parent, ends[1]);
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
