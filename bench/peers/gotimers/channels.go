// bench/peers/gotimers/channels.go: what a message through a channel costs: sent and received.
package main

import "runtime"

// What is sent: a pointer.
type message struct {
	number int
}

// Two goroutines, a channel each way without a buffer: the number of messages is that of both ways together.
func pingPong(count int) {
	there, back, one := make(chan *message), make(chan *message), &message{}

	go func() {
		for i := 0; i < count/2; i++ {
			back <- <-there
		}
	}()
	for i := 0; i < count/2; i++ {
		there <- one
		<-back
	}
}

// One sends, one receives.
func pipe(count, capacity int) {
	channel, one, received := make(chan *message, capacity), &message{}, make(chan int)

	go func() {
		number := 0
		for range channel {
			number++
		}
		received <- number
	}()
	for i := 0; i < count; i++ {
		channel <- one
	}
	close(channel)
	<-received
}

// The same from a goroutine that keeps a thread to itself, as a thread of the program's is.
func foreign(count, capacity int) {
	runtime.LockOSThread()
	pipe(count, capacity)
	runtime.UnlockOSThread()
}

// Two goroutines, each with a select of two channels at every turn, of which one is never ready.
func selects(count int) {
	there, back, never, one := make(chan *message), make(chan *message), make(chan *message), &message{}

	go func() {
		for i := 0; i < count/2; i++ {
			select {
			case <-never:
			case <-there:
			}
			back <- one
		}
	}()
	for i := 0; i < count/2; i++ {
		there <- one
		select {
		case <-never:
		case <-back:
		}
	}
}

func measureChannels(work *load) {
	run := func() { pingPong(work.count) }

	switch work.how {
	case "pipe":
		run = func() { pipe(work.count, work.pending) }
	case "foreign":
		run = func() { foreign(work.count, work.pending) }
	case "selects":
		run = func() { selects(work.count) }
	}
	measured(work, run)
}
