// bench/peers/goprotocol/main.go: a server of messages with a length before them, a goroutine a connection.  Replies are flushed
// when no whole request is left in the buffer.  Writes its port, a 32-bit number, to descriptor 3.
package main

import (
	"bufio"
	"encoding/binary"
	"io"
	"net"
	"os"
)

func serve(connection net.Conn) {
	defer connection.Close()
	reader := bufio.NewReader(connection)
	writer := bufio.NewWriter(connection)
	var head [4]byte
	room := make([]byte, 4096)
	for {
		if _, err := io.ReadFull(reader, head[:]); err != nil {
			return
		}
		size := binary.BigEndian.Uint32(head[:])
		if int(size) > len(room) {
			return
		}
		if _, err := io.ReadFull(reader, room[:size]); err != nil {
			return
		}
		writer.Write(head[:])
		writer.Write(room[:size])
		if reader.Buffered() == 0 {
			if writer.Flush() != nil {
				return
			}
		}
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
		go serve(connection)
	}
}
