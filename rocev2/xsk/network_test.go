// SPDX-License-Identifier: Apache-2.0

package xsk_test

import (
	"bytes"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/softroce/softroce-xdp/internal/testkit"
	"github.com/softroce/softroce-xdp/rocev2/xsk"
	"github.com/softroce/softroce-xdp/testenv/lab/topo"
)

// What is sent on queue i arrives on queue i, and nowhere else.
func TestAllQueues(t *testing.T) {
	const queues = 4
	l := newLab(t, topo.CableSpec{Queues: queues}, xsk.Config{RxFrames: 256, TxFrames: 64})
	if len(l.sets[0]) != queues || len(l.sets[1]) != queues {
		t.Fatalf("%d and %d sockets for %d queues", len(l.sets[0]), len(l.sets[1]), queues)
	}
	for q, s := range l.sets[0] {
		if s.Queue() != q {
			t.Errorf("socket %d is on queue %d", q, s.Queue())
		}
		send(t, s, pattern(100, byte(q)), pattern(200, byte(q)))
	}
	for q, s := range l.sets[1] {
		for i, got := range receive(t, s, 2) {
			if !bytes.Equal(got, pattern(100*(i+1), byte(q))) {
				t.Errorf("queue %d, packet %d: %d bytes of another queue", q, i, len(got))
			}
		}
		if n := s.Receive(s.NewBatch(1)); n != 0 {
			t.Errorf("queue %d: %d packets too many", q, n)
		}
	}
}

// Several thousand packets, built on one thread while another kicks: all arrive, in
// order, each as it was built. Frames are used many times over.
func TestKickOnAnotherThread(t *testing.T) {
	const packets = 5000
	l := newLab(t, topo.CableSpec{MTU: 9000}, xsk.Config{SG: true, TxPacket: 4210, TxFrames: 64, RxFrames: 512})
	a, b := l.sets[0][0], l.sets[1][0]
	var built atomic.Bool
	var received atomic.Int64
	var wg sync.WaitGroup
	for range 2 { // kickers may meet as well
		wg.Go(func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			for !built.Load() || a.Pending() > 0 {
				if err := a.Kick(); err != nil {
					t.Error(err)
					return
				}
				runtime.Gosched()
			}
		})
	}
	size := func(i int) int { return 60 + i*37%4150 }
	wg.Go(func() {
		defer built.Store(true)
		for i := 0; i < packets && !t.Failed(); {
			// 100 packets of two segments never overrun 512 frames.
			if i-int(received.Load()) >= 100 {
				runtime.Gosched()
				continue
			}
			for range a.Reserve(7) {
				a.Push(copy(a.Frame(), pattern(size(i), byte(i))))
				if i++; i == packets {
					break
				}
			}
			a.Submit()
		}
	})
	batch, scratch := b.NewBatch(32), make([]byte, 8192)
	for n, last := 0, time.Now(); n < packets; {
		got := b.Receive(batch)
		for i := range got {
			if p := batch.Packet(i).Linear(scratch); !bytes.Equal(p, pattern(size(n), byte(n))) {
				t.Errorf("packet %d: %d bytes that were not sent, or not now", n, len(p))
				n = packets
				break
			}
			n++
		}
		batch.Release()
		received.Add(int64(got))
		if got > 0 {
			last = time.Now()
		} else if time.Since(last) > testkit.Patience {
			st, _ := b.Stats()
			t.Errorf("%d of %d packets came: %+v", n, packets, st)
			break
		}
	}
	wg.Wait()
	if st, err := a.Stats(); err != nil || st.TxInvalidDescs != 0 || st.BadDescs != 0 {
		t.Errorf("sender: %+v %v", st, err)
	}
}

func TestReopen(t *testing.T) {
	ends := newCable(t, topo.CableSpec{})
	for i := range 20 {
		var set xsk.Set
		err := ends[0].Host.Do(func() (err error) {
			set, err = xsk.OpenAll(xsk.Config{Ifindex: ends[0].Index})
			return err
		})
		if err != nil {
			t.Fatalf("time %d: %v", i, err)
		}
		if err := set.Close(); err != nil {
			t.Fatal(err)
		}
		if err := set.Close(); err != nil {
			t.Errorf("second Close: %v", err)
		}
	}
}

// The same, with packets on all rings and the XSKMAP still there.
func TestReopenWhileInUse(t *testing.T) {
	l := newLab(t, topo.CableSpec{}, xsk.Config{})
	for i := range 5 {
		a, b := l.sets[0][0], l.sets[1][0]
		send(t, a, pattern(100, 1), pattern(100, 2))
		a.Push(copy(a.Frame(), pattern(100, 3))) // neither submitted nor kicked
		if i%2 == 0 {
			b.Receive(b.NewBatch(1)) // and held
		}
		for j, end := range l.ends {
			if err := l.sets[j].Close(); err != nil {
				t.Fatal(err)
			}
			err := end.Host.Do(func() (err error) {
				l.sets[j], err = xsk.OpenAll(xsk.Config{Ifindex: end.Index})
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
			defer l.sets[j].Close()
			if err := l.sets[j].Register(l.redi[j].Xsks, 0); err != nil {
				t.Fatal(err)
			}
		}
		send(t, l.sets[0][0], pattern(300, byte(i)))
		for {
			got := receive(t, l.sets[1][0], 1)[0]
			if bytes.Equal(got, pattern(100, 1)) || bytes.Equal(got, pattern(100, 2)) { // those of before, which the kernel had not delivered yet
				continue
			}
			if !bytes.Equal(got, pattern(300, byte(i))) {
				t.Errorf("time %d: %d bytes", i, len(got))
			}
			break
		}
	}
}

func TestInterfaceDown(t *testing.T) {
	l := newLab(t, topo.CableSpec{}, xsk.Config{})
	a, b := l.sets[0][0], l.sets[1][0]
	nl := l.ends[0].Host.Netlink()
	link, err := nl.LinkByName(l.ends[0].Name)
	if err != nil {
		t.Fatal(err)
	}
	if err := nl.LinkSetDown(link); err != nil {
		t.Fatal(err)
	}
	want := pattern(100, 1)
	a.Push(copy(a.Frame(), want))
	a.Submit()
	if err := a.Kick(); !errors.Is(err, xsk.ErrDown) {
		t.Errorf("Kick: %v", err)
	}
	if _, err := a.Wait(0); !errors.Is(err, xsk.ErrDown) {
		t.Errorf("Wait: %v", err)
	}
	if err := nl.LinkSetUp(link); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "nothing is pending", func() bool {
		if err := a.Kick(); err != nil && !errors.Is(err, xsk.ErrDown) {
			t.Fatal(err)
		}
		return a.Pending() == 0
	})
	if got := receive(t, b, 1); !bytes.Equal(got[0], want) {
		t.Errorf("%d bytes after the link came back", len(got[0]))
	}
}

// Deleting the interface ends a Wait and every other use, and Close still works.
func TestInterfaceDeleted(t *testing.T) {
	l := newLab(t, topo.CableSpec{}, xsk.Config{})
	a, b := l.sets[0][0], l.sets[1][0]
	send(t, a, pattern(100, 1))
	batch := b.NewBatch(8)
	if ok, err := b.Wait(testkit.Patience); !ok || err != nil {
		t.Fatal(ok, err)
	}
	if n := b.Receive(batch); n != 1 {
		t.Fatalf("%d packets", n)
	}
	waited := make(chan error)
	go func() { _, err := a.Wait(-1); waited <- err }()
	nl := l.ends[0].Host.Netlink()
	link, err := nl.LinkByName(l.ends[0].Name)
	if err != nil {
		t.Fatal(err)
	}
	if err := nl.LinkDel(link); err != nil {
		t.Fatal(err)
	}
	if err := testkit.Receive(t, "Wait returns", waited); !errors.Is(err, xsk.ErrGone) && !errors.Is(err, xsk.ErrDown) {
		t.Errorf("Wait: %v", err)
	}
	a.Push(copy(a.Frame(), pattern(100, 1)))
	a.Submit()
	if err := a.Kick(); !errors.Is(err, xsk.ErrGone) {
		t.Errorf("Kick: %v", err)
	}
	if got := batch.Packet(0).Data(); !bytes.Equal(got, pattern(100, 1)) {
		t.Error("a packet changed while it was lent")
	}
	batch.Release()
	if n := b.Receive(batch); n != 0 {
		t.Errorf("%d packets from nowhere", n)
	}
	if _, err := b.Wait(0); !errors.Is(err, xsk.ErrGone) {
		t.Errorf("Wait: %v", err)
	}
}

func TestWait(t *testing.T) {
	l := newLab(t, topo.CableSpec{}, xsk.Config{})
	a, b := l.sets[0][0], l.sets[1][0]
	const long = 10 * time.Minute
	wait := func(what string, timeout, from, to time.Duration, want bool) {
		t.Helper()
		start := time.Now()
		got, err := b.Wait(timeout)
		if took := time.Since(start); err != nil || got != want || took < from || took > to {
			t.Errorf("%s: %v, %v after %v", what, got, err, took)
		}
	}
	wait("nothing, no time", 0, 0, long/2, false)
	wait("nothing", 50*time.Millisecond, 50*time.Millisecond, long/2, false)
	b.Wake()
	b.Wake()
	wait("woken before", long, 0, long/2, false)
	wait("woken twice is woken once", 50*time.Millisecond, 50*time.Millisecond, long/2, false)
	time.AfterFunc(20*time.Millisecond, b.Wake)
	wait("woken", -1, 0, long/2, false)
	time.AfterFunc(20*time.Millisecond, func() {
		a.Push(copy(a.Frame(), pattern(100, 1)))
		a.Submit()
		if err := a.Kick(); err != nil {
			t.Error(err)
		}
	})
	wait("packet", long, 0, long/2, true)
	wait("packet that is there", long, 0, long/2, true)
}

// Busy polling is in force where it was asked for, and packets come without the
// softirq's help.
func TestBusyPoll(t *testing.T) {
	l := newLab(t, topo.CableSpec{}, xsk.Config{BusyPoll: 20 * time.Microsecond})
	if got := l.sets[1][0].BusyPoll(); got != 20*time.Microsecond {
		t.Errorf("busy poll for %v", got)
	}
	for i := range 100 {
		send(t, l.sets[0][0], pattern(100, byte(i)))
		if got := receive(t, l.sets[1][0], 1); !bytes.Equal(got[0], pattern(100, byte(i))) {
			t.Fatalf("packet %d", i)
		}
	}
}

func TestStats(t *testing.T) {
	l := newLab(t, topo.CableSpec{}, xsk.Config{RxFrames: 128})
	a, b := l.sets[0][0], l.sets[1][0]
	for range 200 {
		send(t, a, pattern(100, 1))
	}
	st, err := b.Stats()
	for end := time.Now().Add(testkit.Patience); err == nil && st.RxDropped < 72 && time.Now().Before(end); st, err = b.Stats() {
		time.Sleep(time.Millisecond) // the kernel moves the packets to the receiver at a time of its own
	}
	if err != nil {
		t.Fatal(err)
	}
	if st.RxDropped != 72 || st.RxFillEmpty == 0 {
		t.Errorf("200 packets into 128 frames: %+v", st)
	}
	if got := receive(t, b, 128); len(got) != 128 {
		t.Errorf("%d packets", len(got))
	}
	// Where to look: the frames work again.
	send(t, a, pattern(100, 2))
	receive(t, b, 1)
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Stats(); !errors.Is(err, xsk.ErrClosed) {
		t.Errorf("closed: %v", err)
	}
	if err := b.Kick(); !errors.Is(err, xsk.ErrClosed) {
		t.Errorf("closed: %v", err)
	}
	if _, err := b.Wait(0); !errors.Is(err, xsk.ErrClosed) {
		t.Errorf("closed: %v", err)
	}
	b.Wake()
	if b.Frame() != nil || b.Reserve(1) != 0 || b.FD() != -1 || b.Pending() != 0 || b.InFlight() != 0 || b.Receive(b.NewBatch(1)) != 0 {
		t.Error("a closed socket has something to give")
	}
}

// Where one call of the kernel moves 32 descriptors (Linux before 6.17, and any that
// is told so), one Kick still sends all.
func TestKickBeyondTheKernelsBudget(t *testing.T) {
	l := newLab(t, topo.CableSpec{}, xsk.Config{})
	a, b := l.sets[0][0], l.sets[1][0]
	err := unix.SetsockoptInt(a.FD(), unix.SOL_XDP, unix.XDP_MAX_TX_SKB_BUDGET, 32)
	if err != nil && !errors.Is(err, unix.ENOPROTOOPT) {
		t.Fatal(err)
	}
	for i := range 100 {
		a.Push(copy(a.Frame(), pattern(100, byte(i))))
	}
	a.Submit()
	if err := a.Kick(); err != nil {
		t.Fatal(err)
	}
	if n := a.Pending(); n != 0 {
		t.Errorf("%d packets are left", n)
	}
	for i, got := range receive(t, b, 100) {
		if !bytes.Equal(got, pattern(100, byte(i))) {
			t.Errorf("packet %d", i)
		}
	}
}
