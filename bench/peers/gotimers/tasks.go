// bench/peers/gotimers/tasks.go: what goroutines cost, and timers that follow each other.
//
// What is started is always a function without arguments, the cheapest there is: arguments would need a closure each.  There is a
// thread for each CPU (GOMAXPROCS is the default).
package main

import (
	"sync"
	"time"
)

var (
	left  int
	group sync.WaitGroup
	over  = make(chan bool)
)

func measured(work *load, run func()) {
	go func() { over <- true }() // the first one makes threads
	<-over
	left = work.count
	began, before := time.Now(), cpu()
	run()
	tell(work.count, before, began)
}

// -- goroutines that know nothing of each other --

func finish() {
	group.Done()
}

func measureFunctions(work *load) {
	measured(work, func() {
		group.Add(work.count)
		for i := 0; i < work.count; i++ {
			go finish()
		}
		group.Wait()
	})
}

// -- each started by the end of the one before --

func link() {
	left--
	if left > 0 {
		go link()
	} else {
		over <- true
	}
}

func measureChain(work *load) {
	measured(work, func() {
		go link()
		<-over
	})
}

// -- timers of 0, each started by the one before --

func hop() {
	left--
	if left > 0 {
		time.AfterFunc(0, hop)
	} else {
		over <- true
	}
}

func measureHops(work *load) {
	measured(work, func() {
		time.AfterFunc(0, hop)
		<-over
	})
}
