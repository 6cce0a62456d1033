// SPDX-License-Identifier: Apache-2.0

package device_test

import (
	"encoding/binary"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/softroce/softroce-xdp/internal/testkit"
	"github.com/softroce/softroce-xdp/loader/device"
	"github.com/softroce/softroce-xdp/rocev2/cm"
	"github.com/softroce/softroce-xdp/rocev2/rdma/proto"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// connector is a process that connects at random: it answers most events as they want to be answered,
// and in between it calls anything with any ID that it has seen, and with any number.
type connector struct {
	rng  *rand.Rand
	conn *net.UnixConn
	ok   *[1024]atomic.Int64 // requests that were executed, by type

	mu     sync.Mutex
	events []cm.Event // events without an answer
	ids    []uint32   // latest IDs in events
	qps    []proto.CreateQPReply
}

// attackerQPs is how many queue pairs a connector has. A request of one that is in a connection ends
// this connection.
const attackerQPs = 200

// knownIDs is how many IDs a connector keeps. Those of old connections are among them.
const knownIDs = 64

// connectAtRandom sends messages over a new connection until rng has enough of it.
func connectAtRandom(dir string, rng *rand.Rand, ok *[1024]atomic.Int64) error {
	c, err := net.Dial("unixpacket", proto.SocketPath(dir, "lo"))
	if err != nil {
		return err
	}
	x := &connector{rng: rng, conn: c.(*net.UnixConn), ok: ok}
	_ = x.conn.SetDeadline(time.Now().Add(testkit.Patience))
	var reader sync.WaitGroup
	reader.Go(x.read)
	defer reader.Wait()
	defer x.conn.Close()
	open := x.send(proto.THello, helloBody) && x.send(proto.TAllocPD, nil) &&
		x.send(proto.TCreateCQ, &proto.CreateCQ{Depth: 64}) && x.send(proto.TCMOpen, nil)
	for range attackerQPs {
		open = open && x.createQP()
	}
	for open && rng.IntN(3000) != 0 {
		open = x.act()
	}
	return nil
}

func (x *connector) send(t proto.Type, body any) bool {
	return write(x.conn, t, x.rng.Uint32(), body) == nil
}

func (x *connector) createQP() bool {
	return x.send(proto.TCreateQP, &proto.CreateQP{
		Type: uint8(verbs.RC), PD: 1, SendCQ: 2, RecvCQ: 2, MaxSend: 1, MaxRecv: 1, MaxSendSGE: 1, MaxRecvSGE: 1,
	})
}

// read keeps what the server says. It does not write: while the server waits for it to read, the
// server reads nothing.
func (x *connector) read() {
	b := make([]byte, proto.MaxMessage)
	for {
		n, fds, err := proto.Read(x.conn, b)
		if err != nil {
			return
		}
		proto.CloseFDs(fds)
		h, body, err := proto.Split(b[:n])
		if err != nil {
			continue
		}
		x.mu.Lock()
		switch {
		case h.Type == proto.TCMEvent:
			if e, err := proto.DecodeCMEvent(body); err == nil {
				x.events = append(x.events, e)
				x.know(uint32(e.ID))
			}
		case h.Type&proto.Reply != 0 && h.Status == proto.StatusOK:
			x.ok[(h.Type&^proto.Reply)%1024].Add(1)
			switch h.Type &^ proto.Reply {
			case proto.TCreateQP:
				var r proto.CreateQPReply
				if proto.Decode(body, &r) == nil {
					x.qps = append(x.qps, r)
				}
			case proto.TCMConnect, proto.TCMResolve:
				x.know(binary.LittleEndian.Uint32(body))
			}
		}
		x.mu.Unlock()
	}
}

func (x *connector) know(id uint32) {
	if x.ids = append(x.ids, id); len(x.ids) > knownIDs {
		x.ids = x.ids[1:]
	}
}

// act sends one message.
func (x *connector) act() bool {
	x.mu.Lock()
	var e cm.Event
	answer := len(x.events) > 0 && x.rng.IntN(3) != 0
	if answer {
		i := 0
		if x.rng.IntN(8) == 0 {
			i = x.rng.IntN(len(x.events)) // out of order
		}
		e = x.events[i]
		x.events = append(x.events[:i], x.events[i+1:]...)
	}
	id := x.rng.Uint32()
	if len(x.ids) > 0 && x.rng.IntN(16) != 0 {
		id = x.ids[x.rng.IntN(len(x.ids))]
	}
	var q proto.CreateQPReply
	if len(x.qps) > 0 {
		q = x.qps[x.rng.IntN(len(x.qps))]
	}
	if x.rng.IntN(32) == 0 {
		q.QPN = x.rng.Uint32N(1 << 24) // of another process, or of nobody
	}
	x.mu.Unlock()
	if answer {
		return x.answer(e, q.QPN)
	}
	return x.call(id, q)
}

// answer does what an event asks for.
func (x *connector) answer(e cm.Event, qpn uint32) bool {
	private := x.private(100)
	refuse := x.rng.IntN(6) == 0
	switch {
	case e.Kind == cm.ResolveRequest && !refuse:
		return x.send(proto.TCMAnswer, &proto.CMAnswer{ID: uint32(e.ID), QPN: qpn, QKey: x.rng.Uint32(), Private: private})
	case (e.Kind == cm.Request || e.Kind == cm.Reply || e.Kind == cm.ResolveRequest) && refuse:
		return x.send(proto.TCMReject, &proto.CMCall{ID: uint32(e.ID), Private: private})
	case e.Kind == cm.Request:
		m := &proto.CMAccept{ID: uint32(e.ID), Path: proto.CMPathOf(e.Path), Private: private}
		m.Path.Local.QPN, m.Path.Remote.PSN = qpn, x.rng.Uint32N(1<<24)
		return x.send(proto.TCMAccept, m)
	case e.Kind == cm.Reply:
		return x.send(proto.TCMReady, &proto.CMCall{ID: uint32(e.ID), Private: private})
	case e.Kind == cm.Established:
		return x.send(proto.TCMDisconnect, &proto.CMCall{ID: uint32(e.ID), Private: private})
	}
	return true
}

func (x *connector) private(most int) proto.CMPrivate {
	return proto.CMPrivate{Len: x.rng.Uint32N(uint32(most))}
}

// call calls anything.
func (x *connector) call(id uint32, q proto.CreateQPReply) bool {
	s, at := uint64(service(uint16(x.rng.IntN(4)))), proto.AddrOf(here)
	private := x.private(50)
	if x.rng.IntN(16) == 0 {
		private = x.private(400)
	}
	switch x.rng.IntN(16) {
	case 0:
		return x.send(proto.TCMListen, &proto.CMListen{Service: s, Backlog: int32(x.rng.Uint32()) >> x.rng.IntN(32)})
	case 1:
		return x.rng.IntN(8) != 0 || x.send(proto.TCMUnlisten, &proto.CMUnlisten{Service: s})
	case 2, 3, 4, 5:
		return x.send(proto.TCMConnect, &proto.CMConnect{
			Service: s, Local: at, Peer: at, QPN: q.QPN, PSN: x.rng.Uint32N(1 << 24), Attr: proto.AttrOf(verbs.DefaultAttr()), Private: private,
		})
	case 6, 7:
		return x.send(proto.TCMResolve, &proto.CMResolve{Service: s, Local: at, Peer: at, Private: private})
	case 8:
		return x.send(proto.TCMArrived, &proto.Handle{Handle: id})
	case 9:
		m := &proto.CMAccept{ID: id, Private: private}
		m.Path.Local.QPN = q.QPN
		return x.send(proto.TCMAccept, m)
	case 10:
		return x.send(proto.TCMAnswer, &proto.CMAnswer{ID: id, QPN: q.QPN, Private: private})
	case 11:
		return x.rng.IntN(16) != 0 || x.send(proto.TDestroyQP, &proto.Handle{Handle: q.Handle}) && x.createQP()
	case 12:
		return x.rng.IntN(64) != 0 || x.send(proto.TCMClose, nil) && x.send(proto.TCMOpen, nil)
	case 13:
		b := make([]byte, proto.HeaderBytes+x.rng.IntN(600))
		for i := range b {
			b[i] = byte(x.rng.Uint32())
		}
		binary.LittleEndian.PutUint16(b, uint16(proto.TCM)+uint16(x.rng.IntN(16)))
		return proto.Write(x.conn, b) == nil
	}
	return x.send([]proto.Type{proto.TCMReady, proto.TCMReject, proto.TCMDisconnect}[x.rng.IntN(3)], &proto.CMCall{ID: id, Private: private})
}

// Processes that connect at random, with each other and with themselves, reach every call in the states
// in which it is allowed. They disturb nobody and leave nothing.
func TestRandomConnections(t *testing.T) {
	s, dir := serve(t, device.Config{})
	data, others := newBystander(t, dir), newDialer(t, dir)
	processes, before := len(s.Status().Processes), descriptors(t)
	var ok [1024]atomic.Int64
	all := []proto.Type{
		proto.TCMOpen, proto.TCMClose, proto.TCMListen, proto.TCMUnlisten, proto.TCMConnect, proto.TCMAccept, proto.TCMReady,
		proto.TCMReject, proto.TCMDisconnect, proto.TCMArrived, proto.TCMResolve, proto.TCMAnswer, proto.TDestroyQP,
	}
	least := int64(200) // of each; a slow host gets no further than to some of them
	if testing.Short() {
		least = 5
	}
	missing := func(least int64) (list []proto.Type) {
		for _, k := range all {
			if ok[k].Load() < least && !(ok[k].Load() > 0 && (k == proto.TCMOpen || k == proto.TCMClose)) {
				list = append(list, k)
			}
		}
		return list
	}
	end := time.Now().Add(testkit.Patience)
	var attackers sync.WaitGroup
	for i := range uint64(3) {
		attackers.Go(func() {
			for k := uint64(0); len(missing(least)) > 0 && time.Now().Before(end); k++ {
				if err := connectAtRandom(dir, rand.New(rand.NewPCG(i, k)), &ok); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	done := make(chan struct{})
	go func() { attackers.Wait(); close(done) }()
	for busy := true; busy; {
		data.works(t)
		others.works(t)
		select {
		case <-done:
			busy = false
		case <-time.After(10 * time.Millisecond): // each leaves a queue pair for two seconds
		}
	}
	for _, k := range all {
		t.Logf("type %#x: %d", k, ok[k].Load())
	}
	if list := missing(min(least, 20)); len(list) > 0 {
		t.Errorf("requests of these types were executed too rarely: %#x", list)
	}
	testkit.Eventually(t, "the processes have ended", func() bool { return len(s.Status().Processes) == processes })
	testkit.Eventually(t, "the descriptors are closed", func() bool { return descriptors(t) <= before+20 }) // others have connections in timewait
	next := manage(t, dir)
	for port := range uint16(4) {
		if err := next.Listen(service(port), 0); err != nil {
			t.Error(err)
		}
	}
	data.works(t)
	others.works(t)
}
