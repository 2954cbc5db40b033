// bench/peers/gotimers/fibers.go: what goroutines cost that are awaited: bench/fibers.c and bench/asleep.c are weir's side.
package main

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"sync"
	"time"
)

const frame = 1024 // bytes of a frame of the recursion, about

// -- create, run, end --

func batches(count, size int, run func()) {
	for done := 0; done < count; done += size {
		group.Add(size)
		for i := 0; i < size; i++ {
			go run()
		}
		group.Wait()
	}
}

func awaited(count int) {
	ended := make(chan int)
	run := func() { ended <- 0 }

	for i := 0; i < count; i++ {
		go run()
		<-ended
	}
}

// -- turns --

func takeTurns(count, size int) {
	group.Add(size)
	for i := 0; i < size; i++ {
		go func() {
			for j := 0; j < count/size; j++ {
				runtime.Gosched()
			}
			group.Done()
		}()
	}
	group.Wait()
}

// -- recursion --

//go:noinline
func recurse(depth int) int {
	var space [frame - 32]byte

	space[depth&255] = byte(depth)
	if depth > 1 {
		return recurse(depth-1) + int(space[depth&127])
	}
	return int(space[0])
}

func measureFibers(work *load) {
	depth := work.pending * 1024 / frame
	run := func() { batches(work.count, work.pending, finish) }

	switch work.how {
	case "awaited":
		run = func() { awaited(work.count) }
	case "yield":
		run = func() { takeTurns(work.count, work.pending) }
	case "recursion":
		run = func() {
			batches(work.count, 100, func() {
				recurse(depth)
				group.Done()
			})
		}
	case "deep":
		run = func() {
			for i := 0; i < work.count; i++ {
				recurse(depth)
			}
		}
	}
	measured(work, run)
}

// -- asleep --

// Start: until each has begun to sleep.  Wake: from then on, until each has ended.
func measureAsleep(work *load) {
	var asleep, awake sync.WaitGroup

	memory, began, before := resident(), time.Now(), cpu()
	until := began.Add(work.sleep)
	sleep := func() {
		asleep.Done()
		time.Sleep(time.Until(until))
		awake.Done()
	}
	asleep.Add(work.count)
	awake.Add(work.count)
	for i := 0; i < work.count; i++ {
		go sleep()
	}
	asleep.Wait()
	time.Sleep(50 * time.Millisecond)
	tell(work.count, before, began)
	if time.Now().After(until) {
		panic("the first one woke before the last one slept")
	}
	fmt.Printf("bytes %.6g\n", (resident()-memory)*1024/float64(work.count))
	before = cpu()
	awake.Wait()
	fmt.Printf("wake %.6g\n", float64(cpu()-before)/float64(work.count))
	debug.FreeOSMemory()
}
