// Command peer-gohttp answers each request with "hello", by net/http.  It prints its port.
//
//	peer-gohttp hello|close [CERTIFICATE KEY]
package main

import (
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
)

func main() {
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	http.HandleFunc("/", func(reply http.ResponseWriter, request *http.Request) {
		reply.Header().Set("Server", "bench")
		reply.Header().Set("Content-Type", "text/plain; charset=utf-8")
		io.WriteString(reply, "hello\n")
	})
	server := &http.Server{ErrorLog: log.New(io.Discard, "", 0)}
	fmt.Println(listener.Addr().(*net.TCPAddr).Port)
	if len(os.Args) > 3 {
		err = server.ServeTLS(listener, os.Args[2], os.Args[3])
	} else {
		err = server.Serve(listener)
	}
	log.Fatal(err)
}
