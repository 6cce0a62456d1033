// SPDX-License-Identifier: Apache-2.0

package cmservice_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/softroce/softroce-xdp/internal/testkit"
	"github.com/softroce/softroce-xdp/rocev2/cm"
	"github.com/softroce/softroce-xdp/rocev2/mad"
	"github.com/softroce/softroce-xdp/rocev2/nic/internal/cmservice"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// Two sessions connect and disconnect, whatever is lost, and nothing stays steered. Where much is lost, three REPs are
// too few (docs/program/connections.md): the peer has proved its address.
func TestConnect(t *testing.T) {
	for _, loss := range []int{0, 10, 30} {
		for seed := range uint64(20) {
			synctest.Test(t, func(t *testing.T) {
				a, b := newNetwork(t, seed)
				a.net.loss = loss
				if loss > 10 {
					a.net.proof = cm.Proven
				}
				x, y := a.open(t), b.open(t)
				testkit.Must(t, y.Listen(port, 0))
				id, _ := connected(t, x, y)
				testkit.Must(t, x.Disconnect(id, nil))
				await(t, x, cm.Disconnected)
				await(t, x, cm.Gone)
				wantErr(t, x.Disconnect(id, nil), cm.ErrID)
				if a.keysOn() != 0 {
					t.Errorf("%d keys are still on at the active end", a.keysOn())
				}
				testkit.Must(t, y.Unlisten(port))
			})
		}
	}
}

// What belongs to one session is not there for others.
func TestOwnership(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := newNetwork(t, 1)
		x, y, other := a.open(t), b.open(t), b.open(t)
		testkit.Must(t, y.Listen(port, 0))
		wantErr(t, other.Listen(port, 0), cm.ErrInUse)
		if other.Unlisten(port) == nil {
			t.Error("another session has ended the listener")
		}
		testkit.Must(t, other.Listen(port+1, 0))
		_, id := connected(t, x, y)
		for name, err := range map[string]error{
			"Accept": other.Accept(id, cm.Path{}, nil), "Ready": other.Ready(id, nil), "Reject": other.Reject(id, nil),
			"Disconnect": other.Disconnect(id, nil), "Arrived": other.Arrived(id), "Answer": other.Answer(id, 2, 3, nil),
		} {
			if !errors.Is(err, cm.ErrID) {
				t.Errorf("%s of another session's connection: %v", name, err)
			}
		}
		nothing(t, other)
		p := params()
		p.Service, p.QPN = port+1, 0x56
		_, err := x.Connect(p)
		testkit.Must(t, err)
		testkit.Must(t, other.Reject(await(t, other, cm.Request).ID, nil))
		await(t, other, cm.Gone)
		await(t, x, cm.Failed)
		await(t, x, cm.Gone)
		nothing(t, y)
	})
}

// A closed session leaves nothing: its listeners are free, its connections and attempts end at
// the peers, and the keys are off when all is over.
func TestCloseSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := newNetwork(t, 2)
		x, y := a.open(t), b.open(t)
		testkit.Must(t, y.Listen(port, 0))
		connected(t, x, y)
		p := params()
		p.QPN = 0x56
		_, err := x.Connect(p) // which stays unanswered
		testkit.Must(t, err)
		await(t, y, cm.Request)
		testkit.Must(t, y.Close())
		if _, ok := <-y.Events(); ok {
			t.Error("an event after Close")
		}
		wantErr(t, y.Listen(port, 0), verbs.ErrClosed)
		testkit.Must(t, y.Close())
		got := map[cm.Kind]int{}
		for range 4 {
			got[(<-x.Events()).Kind]++
		}
		if got[cm.Disconnected] != 1 || got[cm.Failed] != 1 || got[cm.Gone] != 2 {
			t.Errorf("the peer got %v", got)
		}
		z := b.open(t)
		testkit.Must(t, z.Listen(port, 0))
		testkit.Must(t, z.Unlisten(port))
		time.Sleep(time.Hour)
		if n := a.keysOn() + b.keysOn(); n != 0 {
			t.Errorf("%d keys are still on", n)
		}
	})
}

// A service that ends tells the peers, and closes all sessions.
func TestCloseService(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := newNetwork(t, 3)
		x, y := a.open(t), b.open(t)
		testkit.Must(t, y.Listen(port, 0))
		connected(t, x, y)
		b.svc.Close()
		if _, ok := <-y.Events(); ok {
			t.Error("an event after Close")
		}
		wantErr(t, y.Listen(port+1, 0), verbs.ErrClosed)
		testkit.Must(t, y.Close())
		if _, err := b.svc.Open(); !errors.Is(err, verbs.ErrClosed) {
			t.Errorf("opened: %v", err)
		}
		await(t, x, cm.Disconnected)
		b.svc.Receive(addrA, addrB, make([]byte, mad.Len), cm.Plain) // as if nobody were there
		b.svc.Arrived(0x66)
		_ = b.svc.Counters()
	})
}

// Data that arrives stands for a lost RTU.
func TestArrived(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := newNetwork(t, 4)
		a.lose = func(h mad.Header) bool { return h.Attr() == mad.AttrRTU }
		x, y := a.open(t), b.open(t)
		testkit.Must(t, y.Listen(port, 0))
		_, err := x.Connect(params())
		testkit.Must(t, err)
		accept(t, y, await(t, y, cm.Request), 0x66)
		testkit.Must(t, x.Ready(await(t, x, cm.Reply).ID, nil))
		await(t, x, cm.Established)
		b.svc.Arrived(0x77) // of another queue pair
		synctest.Wait()
		select {
		case e := <-y.Events():
			t.Fatalf("event %s, but nothing arrived", e.Kind)
		default:
		}
		b.svc.Arrived(0x66)
		await(t, y, cm.Established)
	})
}

// A session that takes no events costs bounded memory, others nothing, and it goes on when it
// takes them.
func TestSlowSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := newNetwork(t, 5)
		x, slow, y := a.open(t), b.open(t), b.open(t)
		testkit.Must(t, slow.Listen(port, 1<<20))
		testkit.Must(t, y.Listen(port+1, 0))
		go func() {
			for range x.Events() {
			}
		}()
		p := params()
		const requests = 3 * cmservice.MaxEvents
		for i := range requests {
			p.QPN = uint32(1000 + i)
			_, err := x.Connect(p)
			testkit.Must(t, err)
		}
		time.Sleep(100 * time.Millisecond) // all have arrived, none was repeated
		c := b.svc.Counters()
		if c.NotTaken < requests-cmservice.MaxEvents-2 || c.Overflow != 0 || c.Dropped != 0 {
			t.Errorf("%+v", c)
		}
		p.Service, p.QPN = port+1, 0x99
		_, err := x.Connect(p)
		testkit.Must(t, err)
		await(t, y, cm.Request)
		// What was reported before is there, in order; then the repetitions of the rest come.
		for range 2 * cmservice.MaxEvents {
			await(t, slow, cm.Request)
		}
	})
}

// Where messages cannot be steered to this end, nothing begins.
func TestSteerRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, _ := newNetwork(t, 6)
		x := a.open(t)
		full := errors.New("the map is full")
		a.refuses(full)
		wantErr(t, x.Listen(port, 0), full)
		_, err := x.Connect(params())
		wantErr(t, err, full)
		_, err = x.Resolve(cm.ResolveParams{Local: addrA, Peer: addrB, Service: port})
		wantErr(t, err, full)
		a.refuses(nil)
		testkit.Must(t, x.Listen(port, 0))
		nothing(t, x)
	})
}

// Calls that come while the service ends return: here one that comes in the turn in which Close runs.
func TestCallsWhileClosing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, _ := newNetwork(t, 7)
		x := a.open(t)
		a.gate = make(chan struct{})
		listen := func(id mad.ServiceID) (done chan error) {
			done = make(chan error, 1)
			go func() { done <- x.Listen(id, 0) }()
			synctest.Wait()
			return done
		}
		first := listen(1) // its turn stands at the gate
		second := listen(2)
		go a.svc.Close()
		synctest.Wait()
		a.gate <- struct{}{}
		synctest.Wait() // the next turn has the second call and Close, and stands at the gate
		third := listen(3)
		close(a.gate)
		testkit.Must(t, <-first)
		testkit.Must(t, <-second)
		wantErr(t, <-third, verbs.ErrClosed)
	})
}
