// bench/peers/goclient/main.go: requests one after another on each of so many connections, by net/http.
//
//	peer-goclient URL CONNECTIONS MILLISECONDS [one]     "one": one thread runs Go code
//
// Prints the requests, the CPU nanoseconds and the wall nanoseconds of the time after the first tenth.
package main

import (
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"os"
	"runtime"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"
)

func cpu() int64 {
	var usage syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &usage)
	return usage.Utime.Nano() + usage.Stime.Nano()
}

func main() {
	count, _ := strconv.Atoi(os.Args[2])
	length, _ := strconv.Atoi(os.Args[3])
	if len(os.Args) > 4 {
		runtime.GOMAXPROCS(1)
	}
	client := &http.Client{Transport: &http.Transport{
		MaxIdleConns: count, MaxIdleConnsPerHost: count, MaxConnsPerHost: count, DisableCompression: true,
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
	}}
	var requests, failed int64
	for i := 0; i < count; i++ {
		go func() {
			for {
				response, err := client.Get(os.Args[1])
				if err != nil {
					atomic.AddInt64(&failed, 1)
					continue
				}
				io.Copy(io.Discard, response.Body)
				response.Body.Close()
				atomic.AddInt64(&requests, 1)
			}
		}()
	}
	whole := time.Duration(length) * time.Millisecond
	time.Sleep(whole / 10)
	before, used, began := atomic.LoadInt64(&requests), cpu(), time.Now()
	time.Sleep(whole)
	fmt.Println(atomic.LoadInt64(&requests)-before, cpu()-used, time.Since(began).Nanoseconds(), atomic.LoadInt64(&failed))
}
