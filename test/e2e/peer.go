// test/e2e/peer.go: a server of net/http for client_go_test.sh.  It prints its port; arguments: the time that it keeps an idle
// connection, in milliseconds, and SECRET=name:password.
package main

import (
	"bufio"
	"compress/gzip"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

var connections int64
var release = make(chan bool, 16)

func letters(size int) []byte {
	data := make([]byte, size)
	for i := range data {
		at := uint64(i)
		data[i] = byte('a' + (at*at+at/251)%23)
	}
	return data
}

func number(request *http.Request, name string) int {
	value, _ := strconv.Atoi(request.URL.Query().Get(name))
	return value
}

func echo(reply http.ResponseWriter, request *http.Request) {
	body, err := io.ReadAll(request.Body)
	if err != nil {
		log.Print(err)
		return
	}
	reply.Header().Set("X-Framing", fmt.Sprint(request.ContentLength, request.TransferEncoding))
	reply.Write(body)
}

func count(reply http.ResponseWriter, request *http.Request) {
	size, _ := io.Copy(io.Discard, request.Body)
	fmt.Fprintf(reply, "%s %d %v", request.Method, size, request.TransferEncoding)
}

func body(reply http.ResponseWriter, request *http.Request) {
	data := letters(number(request, "size"))
	if request.URL.Query().Has("length") {
		reply.Header().Set("Content-Length", strconv.Itoa(len(data)))
	}
	for len(data) > 0 {
		size := 50000
		if size > len(data) {
			size = len(data)
		}
		reply.Write(data[:size])
		reply.(http.Flusher).Flush()
		data = data[size:]
	}
}

// Each piece waits until it is asked for.
func slow(reply http.ResponseWriter, request *http.Request) {
	for _, word := range []string{"one", "two", "three"} {
		io.WriteString(reply, word)
		reply.(http.Flusher).Flush()
		<-release
	}
}

func trailers(reply http.ResponseWriter, request *http.Request) {
	reply.Header().Set("Trailer", "X-Sum, X-End")
	io.WriteString(reply, "with trailers")
	reply.Header().Set("X-Sum", "13")
	reply.Header().Set("X-End", "yes")
}

func hints(reply http.ResponseWriter, request *http.Request) {
	for i := 0; i < number(request, "count"); i++ {
		reply.Header().Set("Link", "</style.css>; rel=preload")
		reply.WriteHeader(http.StatusEarlyHints)
	}
	reply.Header().Del("Link")
	reply.WriteHeader(number(request, "code"))
}

func zipped(reply http.ResponseWriter, request *http.Request) {
	if !strings.Contains(request.Header.Get("Accept-Encoding"), "gzip") {
		reply.WriteHeader(http.StatusNotAcceptable)
		return
	}
	reply.Header().Set("Content-Encoding", "gzip")
	out := gzip.NewWriter(reply)
	out.Write(letters(number(request, "size")))
	out.Close()
}

func cookies(reply http.ResponseWriter, request *http.Request) {
	if request.URL.Query().Has("set") {
		http.SetCookie(reply, &http.Cookie{Name: "id", Value: request.URL.Query().Get("set"), Path: "/", HttpOnly: true})
		http.SetCookie(reply, &http.Cookie{Name: "here", Value: "1", Path: "/cookies"})
		http.SetCookie(reply, &http.Cookie{Name: "elsewhere", Value: "1", Path: "/other"})
		http.SetCookie(reply, &http.Cookie{Name: "safe", Value: "1", Path: "/", Secure: true})
	}
	if request.URL.Query().Has("drop") {
		http.SetCookie(reply, &http.Cookie{Name: "id", Path: "/", MaxAge: -1})
	}
	for _, cookie := range request.Cookies() {
		fmt.Fprintf(reply, "%s=%s;", cookie.Name, cookie.Value)
	}
}

func shout(reply http.ResponseWriter, request *http.Request) {
	if request.Header.Get("Upgrade") != "shout" {
		reply.WriteHeader(http.StatusUpgradeRequired)
		return
	}
	plain, buffered, err := reply.(http.Hijacker).Hijack()
	if err != nil {
		log.Fatal(err)
	}
	go func() {
		defer plain.Close()
		io.WriteString(plain, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: shout\r\n\r\n")
		for in := bufio.NewReader(buffered); ; {
			letter, err := in.ReadByte()
			if err != nil {
				return
			}
			plain.Write([]byte(strings.ToUpper(string(letter))))
		}
	}()
}

func small(reply http.ResponseWriter, request *http.Request) {
	request.Body = http.MaxBytesReader(reply, request.Body, 1<<20)
	if _, err := io.Copy(io.Discard, request.Body); err != nil {
		http.Error(reply, "too large", http.StatusRequestEntityTooLarge)
	}
}

func main() {
	idle, _ := strconv.Atoi(os.Args[1])
	name, password, _ := strings.Cut(os.Args[2], ":")
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	pages := map[string]http.HandlerFunc{
		"/echo": echo, "/count": count, "/body": body, "/slow": slow, "/trailers": trailers, "/hints": hints,
		"/zipped": zipped, "/cookies": cookies, "/shout": shout, "/small": small,
		"/release": func(reply http.ResponseWriter, request *http.Request) { release <- true },
		"/code": func(reply http.ResponseWriter, request *http.Request) {
			reply.WriteHeader(number(request, "code"))
		},
		"/connections": func(reply http.ResponseWriter, request *http.Request) {
			fmt.Fprint(reply, atomic.LoadInt64(&connections))
		},
		"/hang": func(reply http.ResponseWriter, request *http.Request) {
			<-request.Context().Done()
		},
		"/close": func(reply http.ResponseWriter, request *http.Request) {
			reply.Header().Set("Connection", "close")
			io.WriteString(reply, "closing")
		},
		"/break": func(reply http.ResponseWriter, request *http.Request) {
			io.WriteString(reply, "the beginning")
			reply.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		},
		"/secret": func(reply http.ResponseWriter, request *http.Request) {
			if user, word, ok := request.BasicAuth(); !ok || user != name || word != password {
				reply.Header().Set("WWW-Authenticate", `Basic realm="Go"`)
				reply.WriteHeader(http.StatusUnauthorized)
				return
			}
			io.WriteString(reply, "open")
		},
		"/moved": func(reply http.ResponseWriter, request *http.Request) {
			http.Redirect(reply, request, "/count", number(request, "code"))
		},
		"/file": func(reply http.ResponseWriter, request *http.Request) {
			http.ServeContent(reply, request, "file.txt", time.Unix(1700000000, 0), strings.NewReader("a small file"))
		},
	}
	for path, page := range pages {
		http.HandleFunc(path, page)
	}
	server := &http.Server{
		IdleTimeout: time.Duration(idle) * time.Millisecond,
		ErrorLog:    log.New(io.Discard, "", 0),
		ConnState: func(plain net.Conn, state http.ConnState) {
			if state == http.StateNew {
				atomic.AddInt64(&connections, 1)
			}
		},
	}
	fmt.Println(listener.Addr().(*net.TCPAddr).Port)
	log.Fatal(server.Serve(listener))
}
