// bench/peers/gotimers/main.go: what timers cost in Go: time.AfterFunc, Stop and Reset, by handle or by name.  tasks.go,
// blocking.go, channels.go and fibers.go are the rest of the program.
//
// By name: a map of names to timers under a mutex.  The callback is one function for all, the cheapest that there is: a program
// that also removes the names of timers that expire needs a closure for each.  Stop runs no callback.
//
// The command line and the output are those of peers/peer.c.  CPU time is that of the whole process, the collector's included: what
// leaves garbage is measured from one collection's end to another's, so that a pair pays its share, however rare they are.
package main

import (
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"sort"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"
)

const (
	slice    = 64    // pairs that are told to the other goroutine at once
	checked  = 16384 // pairs after which to look whether there was a collection
	patience = 8     // times the pairs asked for, at most, until there was one
)

type load struct {
	how, mix       string
	named          bool
	pending, count int
	slice          int // pairs that a goroutine makes before it starts the next one; 0: one makes all
	blockers       int
	arming, over   time.Duration
	period, sleep  time.Duration
}

// -- clocks and numbers --

func cpu() int64 {
	const processCPUTime = 2
	var at syscall.Timespec

	syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, processCPUTime, uintptr(unsafe.Pointer(&at)), 0)
	return at.Nano()
}

// Kilobytes of the resident set.
func resident() float64 {
	text, _ := os.ReadFile("/proc/self/status")
	for _, line := range strings.Split(string(text), "\n") {
		if fields := strings.Fields(line); len(fields) > 1 && fields[0] == "VmRSS:" {
			value, _ := strconv.ParseFloat(fields[1], 64)
			return value
		}
	}
	return 0
}

type random uint64

func (state *random) next() uint64 {
	*state += 0x9e3779b97f4a7c15
	z := uint64(*state)
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

func (state *random) below(limit int) int {
	return int(state.next() >> 32 * uint64(limit) >> 32)
}

var mixed = [...]time.Duration{1, 2, 5, 10, 15, 30, 60, 120, 180, 300}

func (state *random) duration(mix string) time.Duration {
	switch mix {
	case "random":
		return time.Second + time.Duration(state.below(59000))*time.Millisecond
	case "mixed":
		return mixed[state.below(len(mixed))] * time.Second
	}
	return 60 * time.Second
}

// -- timers --

// Either field is used.
type table struct {
	handles []*time.Timer
	mutex   sync.Mutex
	names   map[string]*time.Timer
}

type name [12]byte

func (text *name) set(number int) []byte {
	copy(text[:], "user-")
	for i := 11; i >= 5; i-- {
		text[i] = "0123456789abcdef"[number&15]
		number >>= 4
	}
	return text[:]
}

func ended() {
}

func (timers *table) add(index int, after time.Duration) {
	timer := time.AfterFunc(after, ended)

	if timers.names == nil {
		timers.handles[index] = timer
		return
	}
	var text name
	key := text.set(index)
	timers.mutex.Lock()
	timers.names[string(key)] = timer
	timers.mutex.Unlock()
}

func (timers *table) cancel(index int) {
	if timers.names == nil {
		timers.handles[index].Stop()
		return
	}
	var text name
	key := text.set(index)
	timers.mutex.Lock()
	timer := timers.names[string(key)]
	delete(timers.names, string(key))
	timers.mutex.Unlock()
	if timer != nil {
		timer.Stop()
	}
}

func (timers *table) reset(index int, after time.Duration) {
	if timers.names == nil {
		timers.handles[index].Reset(after)
		return
	}
	var text name
	key := text.set(index)
	timers.mutex.Lock()
	timer := timers.names[string(key)]
	timers.mutex.Unlock()
	if timer != nil {
		timer.Reset(after)
	}
}

func populated(work *load, state *random) *table {
	timers := &table{}

	if work.named {
		timers.names = make(map[string]*time.Timer)
	} else {
		timers.handles = make([]*time.Timer, work.pending+1)
	}
	for i := 0; i < work.pending; i++ {
		timers.add(i, state.duration(work.mix))
	}
	return timers
}

// -- add and cancel --

func tell(count int, cpuBefore int64, began time.Time) {
	elapsed := time.Since(began)

	fmt.Printf("cpu %.6g\n", float64(cpu()-cpuBefore)/float64(count))
	fmt.Printf("elapsed %.6g\n", float64(elapsed)/float64(count))
}

func (timers *table) pair(work *load, state *random) {
	switch work.how {
	case "hot":
		timers.add(work.pending, state.duration(work.mix))
		timers.cancel(work.pending)
	case "any":
		index := state.below(work.pending)
		timers.cancel(index)
		timers.add(index, state.duration(work.mix))
	case "reset":
		timers.reset(state.below(work.pending), state.duration(work.mix))
	}
}

// Whether there was a collection since the last call.
func collected(collections *uint32) bool {
	var memory runtime.MemStats

	runtime.ReadMemStats(&memory)
	one := memory.NumGC != *collections
	*collections = memory.NumGC
	return one
}

// As many pairs as are made between two looks at the collections.  What weir does in callbacks, Go does in goroutines.
func (timers *table) pairs(work *load, state *random) {
	if work.slice == 0 {
		for i := 0; i < checked; i++ {
			timers.pair(work, state)
		}
		return
	}
	var slice func(left int)
	finished := make(chan bool)
	slice = func(left int) {
		for i := 0; i < work.slice && left > 0; i++ {
			timers.pair(work, state)
			left--
		}
		if left > 0 {
			go slice(left)
		} else {
			finished <- true
		}
	}
	go slice(checked)
	<-finished
}

func measurePairs(work *load) {
	var collections uint32
	state := random(1)
	timers := populated(work, &state)

	runtime.GC()
	collected(&collections)
	began, before, done := time.Now(), cpu(), 0
	for end := false; !end && done < patience*work.count; {
		timers.pairs(work, &state)
		done += checked
		end = (collected(&collections) || work.how == "reset") && done >= work.count
	}
	tell(done, before, began)
}

// One goroutine adds, another cancels.
func measureApart(work *load) {
	state := random(1)
	timers := populated(work, &state)
	published, finished := make(chan int, work.count/slice+1), make(chan bool)

	go func() {
		next := 0
		for limit := range published {
			for ; next < limit; next++ {
				timers.cancel(next)
			}
		}
		finished <- true
	}()
	began, before := time.Now(), cpu()
	for done := 0; done < work.count; done++ {
		timers.add(done, state.duration(work.mix))
		if done%slice == slice-1 {
			published <- done + 1
		}
	}
	published <- work.count
	close(published)
	<-finished
	tell(work.count, before, began)
}

func measureMemory(work *load) {
	state := random(1)
	before, cpuBefore, began := resident(), cpu(), time.Now()
	timers := populated(work, &state)

	tell(work.pending, cpuBefore, began)
	debug.FreeOSMemory() // what the map outgrew
	fmt.Printf("bytes %.6g\n", (resident()-before)*1024/float64(work.pending))
	timers.cancel(0)
}

// -- timers that expire --

func measureFiring(work *load) {
	due := make([]int64, work.count)
	origin := time.Now()
	var fired int64

	for i := range due {
		at := &due[i]
		*at = int64(work.arming) + int64(float64(work.over)*float64(i)/float64(work.count))
		time.AfterFunc(time.Duration(*at)-time.Since(origin), func() {
			*at = int64(time.Since(origin)) - *at
			atomic.AddInt64(&fired, 1)
		})
	}
	before := cpu()
	time.Sleep(work.arming + work.over - 50*time.Millisecond - time.Since(origin))
	for atomic.LoadInt64(&fired) < int64(work.count) {
		time.Sleep(time.Millisecond)
	}
	fmt.Printf("cpu %.6g\n", float64(cpu()-before)/float64(work.count))
	sort.Slice(due, func(i, j int) bool { return due[i] < due[j] })
	fmt.Printf("p50 %.6g\n", float64(due[work.count/2])/1000)
	fmt.Printf("p99 %.6g\n", float64(due[int(float64(work.count)*0.99)])/1000)
	fmt.Printf("early %d\n", sort.Search(work.count, func(i int) bool { return due[i] >= 0 }))
}

// -- main --

func (work *load) set(option string) {
	key, value, _ := strings.Cut(option, "=")
	number, _ := strconv.Atoi(value)

	switch key {
	case "how":
		work.how = value
	case "mix":
		work.mix = value
	case "by":
		work.named = value == "name"
	case "pending":
		work.pending = number
	case "count":
		work.count = number
	case "slice":
		work.slice = number
	case "blockers":
		work.blockers = number
	case "period":
		work.period = time.Duration(number)
	case "sleep":
		work.sleep = time.Duration(number)
	case "arming":
		work.arming = time.Duration(number)
	case "over":
		work.over = time.Duration(number)
	}
}

func main() {
	measures := map[string]func(*load){
		"pairs": measurePairs, "apart": measureApart, "memory": measureMemory, "firing": measureFiring,
		"functions": measureFunctions, "chain": measureChain, "hops": measureHops, "blocking": measureBlocking,
		"channels": measureChannels, "fibers": measureFibers, "asleep": measureAsleep,
	}
	work := load{how: "hot", mix: "fixed", pending: 1000, count: 100000}

	if len(os.Args) < 2 || measures[os.Args[1]] == nil {
		fmt.Fprintln(os.Stderr, "usage: peer-go pairs|apart|memory|firing|functions|chain|hops|blocking|channels|fibers|asleep KEY=VALUE...")
		os.Exit(2)
	}
	for _, option := range os.Args[2:] {
		work.set(option)
	}
	measures[os.Args[1]](&work)
}
