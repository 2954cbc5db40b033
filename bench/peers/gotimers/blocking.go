// bench/peers/gotimers/blocking.go: how late periodic timers are while callbacks of others block their thread.
package main

import (
	"fmt"
	"sync/atomic"
	"syscall"
	"time"
)

// One timer: due and what is worst are its callback's, which never runs twice at a time; others read them.
type ticker struct {
	timer *time.Timer
	due   int64 // since the origin
	worst [2]int64
}

// Blocks the thread, as a call into C or the kernel does: time.Sleep would only park the goroutine.
func block(length time.Duration) {
	left := syscall.NsecToTimespec(int64(length))
	for syscall.Nanosleep(&left, &left) == syscall.EINTR {
	}
}

func (one *ticker) note(late int64, phase int32) {
	if late > atomic.LoadInt64(&one.worst[phase]) {
		atomic.StoreInt64(&one.worst[phase], late)
	}
}

func measureBlocking(work *load) {
	var phase int32
	origin, period, window := time.Now(), int64(work.period), work.sleep+work.over
	tickers := make([]ticker, work.count)

	tick := func(one *ticker) {
		now := int64(time.Since(origin))
		due := one.due
		one.note(now-due, atomic.LoadInt32(&phase))
		atomic.StoreInt64(&one.due, due+period*(1+(now-due)/period))
		one.timer.Reset(time.Duration(one.due - int64(time.Since(origin))))
	}
	for i := range tickers {
		one := &tickers[i]
		one.due = int64(work.arming) + period*int64(i)/int64(work.count)
		one.timer = time.AfterFunc(time.Hour, func() { tick(one) })
		one.timer.Reset(time.Duration(one.due) - time.Since(origin))
	}
	time.Sleep(work.arming + window - time.Since(origin))
	atomic.StoreInt32(&phase, 1)
	for i := 0; i < work.blockers; i++ {
		time.AfterFunc(time.Millisecond, func() { block(work.sleep) })
	}
	time.Sleep(window)
	var calm, blocked int64
	now := int64(time.Since(origin))
	for i := range tickers {
		tickers[i].note(now-atomic.LoadInt64(&tickers[i].due), 1)
		if worst := atomic.LoadInt64(&tickers[i].worst[0]); worst > calm {
			calm = worst
		}
		if worst := atomic.LoadInt64(&tickers[i].worst[1]); worst > blocked {
			blocked = worst
		}
	}
	fmt.Printf("calm %.6g\nblocked %.6g\n", float64(calm)/1000, float64(blocked)/1000)
}
