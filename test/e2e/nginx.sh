# test/e2e/nginx.sh: for the scripts beside it: an nginx of our own, with its files in $work, an unprivileged port, no daemon.
#
#   . "$(dirname "$0")/lib.sh"
#   . "$(dirname "$0")/nginx.sh"
#   site() { ... }              prints what its http block has, to listen at the port $1
#   start_nginx                 sets $proxy, its process, and $url
#   is_content                  fails when it has found something wrong with a server
#   stop_nginx

PATH=$PATH:/usr/sbin
need nginx

configure() {
        cat <<CONF
$([ "$(id -u)" -ne 0 ] || echo "user root root;")
daemon off;
worker_processes 1;
pid $work/nginx.pid;
error_log $work/nginx.log warn;
events {
        worker_connections 1024;
}
http {
        access_log off;
        client_body_temp_path $work/nginx-body;
        proxy_temp_path $work/nginx-proxy;
        fastcgi_temp_path $work/nginx-fastcgi;
        uwsgi_temp_path $work/nginx-uwsgi;
        scgi_temp_path $work/nginx-scgi;
$(site "$1")
}
CONF
}

start_nginx() {
        local port try

        for try in 1 2 3 4 5; do
                port=$(free_port)
                configure "$port" >"$work/nginx.conf"
                nginx -p "$work" -c "$work/nginx.conf" -e "$work/nginx.log" 2>>"$log" &
                proxy=$!
                started[$proxy]=nginx
                while is_alive $proxy; do
                        if is_served "$port"; then
                                url=http://127.0.0.1:$port
                                trap leave EXIT
                                return
                        fi
                        sleep 0.02
                done
                unset "started[$proxy]"
                sed "s/^/attempt $try: /" "$work/nginx.log" >&2
        done
        echo "nginx cannot be started" >&2
        exit 1
}

# It says of clients that they went away, which may be; nothing of the servers.
is_content() {
        ! grep -E "upstream (prematurely|sent|timed)|\[(error|crit|alert|emerg)\]" "$work/nginx.log" || fail "nginx is not content"
}

# TERM: its worker, which we must not leave behind, ends with it
stop_nginx() {
        kill -TERM "$proxy"
        wait "$proxy"
        unset "started[$proxy]"
}

leave() {
        local status=$?

        [ -z "${started[$proxy]-}" ] || stop_nginx
        (exit $status)
        finish
}
