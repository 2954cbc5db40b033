// bench/peers/goecho/main.go: a TCP echo server, a goroutine a connection.  Writes its port, a 32-bit number, to descriptor 3.
package main

import (
	"encoding/binary"
	"net"
	"os"
)

func echo(connection net.Conn) {
	room := make([]byte, 4096)
	for {
		size, err := connection.Read(room)
		if err != nil {
			connection.Close()
			return
		}
		connection.Write(room[:size])
	}
}

func main() {
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		os.Exit(1)
	}
	report := os.NewFile(3, "report")
	binary.Write(report, binary.LittleEndian, int32(listener.Addr().(*net.TCPAddr).Port))
	report.Close()
	for {
		connection, err := listener.Accept()
		if err != nil {
			continue
		}
		go echo(connection)
	}
}
