// SPDX-License-Identifier: Apache-2.0

package device_test

import (
	"context"
	"encoding/binary"
	"math/rand/v2"
	"os"
	"reflect"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/softroce/softroce-xdp/internal/testkit"
	"github.com/softroce/softroce-xdp/loader/device"
	"github.com/softroce/softroce-xdp/loader/device/limits"
	"github.com/softroce/softroce-xdp/rocev2/cm"
	"github.com/softroce/softroce-xdp/rocev2/mad"
	"github.com/softroce/softroce-xdp/rocev2/rdma/proto"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// randomBody returns a body of a request: with small numbers in its fields, which are often handles
// and sizes, or with random bytes of a random length.
// The first objects of an attacker are a domain, a completion queue and an arena; qp is its latest
// queue pair.
func randomBody(rng *rand.Rand, t proto.Type, own *owned) []byte {
	qp := own.qp.Load()
	req, _, ok := proto.Bodies(t)
	if !ok || rng.IntN(8) == 0 {
		b := make([]byte, rng.IntN(300))
		for i := range b {
			b[i] = byte(rng.Uint32())
		}
		return b
	}
	if req == nil {
		return nil
	}
	v := reflect.ValueOf(req).Elem()
	for i := range v.NumField() {
		f := v.Field(i)
		if !f.CanSet() {
			continue
		}
		n := rng.Uint64() >> rng.IntN(64)
		if rng.IntN(2) == 0 {
			n = uint64(rng.IntN(24))
		}
		switch {
		case f.CanUint():
			f.SetUint(n & (1<<f.Type().Bits() - 1))
		case f.CanInt():
			f.SetInt(int64(int32(n)))
		}
	}
	switch m := req.(type) {
	case *proto.CreateQP:
		m.Type = uint8(rng.IntN(5))
		if rng.IntN(2) == 0 {
			m.PD, m.SendCQ, m.RecvCQ, m.SRQ = 1, 2, 2, 0
			m.MaxSend, m.MaxRecv, m.MaxSendSGE, m.MaxRecvSGE, m.MaxInline = 1+uint32(rng.IntN(9)), 4, 1, 1, uint32(rng.IntN(99))
			m.Payload = 0
			if m.OutOfOrder = uint8(rng.IntN(8) / 7); m.OutOfOrder != 0 {
				m.MaxInline, m.Payload = 0, uint16(rng.IntN(2)*(1020+rng.IntN(8)))
			}
		}
	case *proto.ModifyQP:
		m.Handle = qp
		m.Attr = proto.AttrOf(verbs.DefaultAttr())
		m.Attr.State, m.Attr.AV.Dst = uint8(rng.IntN(8)), proto.AddrOf(here)
		if rng.IntN(4) != 0 {
			m.Mask = uint32(verbs.RequiredMask(verbs.QPType(1+rng.IntN(3)), verbs.State(m.Attr.State)))
		}
	case *proto.EncryptQP:
		m.Handle = qp
		if rng.IntN(2) == 0 {
			m.Suite, m.MaxBlocks, m.Overlap = 1, 0, 0
		}
	case *proto.AddArena:
		m.Bytes = 1 << 20
	case *proto.RegArena:
		m.PD, m.Arena = 1, 3
		m.Offset, m.Length, m.Access = uint64(rng.IntN(1<<20)), uint64(rng.IntN(1<<12)), uint32(allRights)
	case *proto.Handle:
		if t == proto.TDestroyQP || t == proto.TQueryQP {
			m.Handle = qp
		}
	case *proto.CreateAH:
		m.PD = uint32(rng.IntN(3))
		m.AV.Dst = proto.AddrOf(here)
	}
	if t >= proto.TCM {
		randomCM(rng, req, own)
	}
	b, _ := binary.Append(nil, binary.LittleEndian, req)
	return b
}

// randomBatch returns a batch of requests that batches have, mostly.
func randomBatch(rng *rand.Rand, own *owned) []byte {
	types := [...]proto.Type{
		proto.TCreateCQ, proto.TRegArena, proto.TCreateQP, proto.TModifyQP, proto.TModifyQP, proto.TDeregMR, proto.TDestroyQP, proto.TDestroyCQ,
		proto.TCMConnect, proto.TCMAccept, proto.TCMReady, proto.TCMDisconnect, proto.TPort,
	}
	b := proto.Append(nil, proto.Header{Type: proto.TBatch, Seq: rng.Uint32()}, nil)
	from := rng.IntN(len(types))
	for i := range 1 + rng.IntN(proto.MaxBatch+1) {
		t := types[(from+i)%len(types)]
		if rng.IntN(8) == 0 {
			t = types[rng.IntN(len(types))]
		}
		if more := randomBody(rng, t, own); len(b)+proto.HeaderBytes+len(more) <= proto.MaxMessage {
			b = append(proto.Append(b, proto.Header{Type: t}, nil), more...)
		}
	}
	return b
}

// owned has what an attacker made last.
type owned struct{ qp, qpn, id, request, reply atomic.Uint32 }

// randomCM has calls of the communication manager get further than to the first check: attackers
// connect to each other.
func randomCM(rng *rand.Rand, req any, own *owned) {
	if rng.IntN(8) == 0 {
		return
	}
	service := uint64(mad.IPServiceID(mad.PortTCP, uint16(rng.IntN(4))))
	qpn, id, at := own.qpn.Load(), own.id.Load(), proto.AddrOf(here)
	private := proto.CMPrivate{Len: uint32(rng.IntN(60))}
	switch m := req.(type) {
	case *proto.CMListen:
		m.Service = service
	case *proto.CMUnlisten:
		m.Service = service
	case *proto.CMConnect:
		m.Service, m.Local, m.Peer, m.QPN, m.Type, m.PSN = service, at, at, qpn, 0, m.PSN&0xffffff
		m.Attr, m.Private = proto.AttrOf(verbs.DefaultAttr()), private
	case *proto.CMResolve:
		m.Service, m.Local, m.Peer, m.Private = service, at, at, private
	case *proto.CMAccept:
		m.ID, m.Private = own.request.Load(), private
		m.Path.Local.QPN, m.Path.Remote.PSN = qpn, rng.Uint32N(1<<24)
	case *proto.CMAnswer:
		m.ID, m.QPN, m.Private = id, qpn, private
	case *proto.CMCall:
		m.ID, m.Private = id, private
		if rng.IntN(2) == 0 {
			m.ID = own.reply.Load()
		}
	case *proto.Handle:
		m.Handle = id
	}
}

// attack sends n random messages, on new connections when the server has ended one. ok counts the
// requests that were executed, by type.
func attack(dir string, seed uint64, n int, ok *[1024]atomic.Int64) error {
	rng := rand.New(rand.NewPCG(seed, 0))
	null, err := os.Open(os.DevNull)
	if err != nil {
		return err
	}
	defer null.Close()
	memfd, err := unix.MemfdCreate("attack", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return err
	}
	defer unix.Close(memfd)
	_ = unix.Ftruncate(memfd, 1<<20)
	_, _ = unix.FcntlInt(uintptr(memfd), unix.F_ADD_SEALS, unix.F_SEAL_SHRINK|unix.F_SEAL_GROW|unix.F_SEAL_SEAL)
	for n > 0 {
		sent, err := attackOnce(dir, rng, n, memfd, int(null.Fd()), ok)
		if err != nil {
			return err
		}
		n -= sent
	}
	return nil
}

func attackOnce(dir string, rng *rand.Rand, n, memfd, null int, ok *[1024]atomic.Int64) (sent int, err error) {
	conn, err := proto.Dial(context.Background(), proto.SocketPath(dir, "lo"))
	if err != nil {
		return 0, err
	}
	var reader sync.WaitGroup
	answered := make(chan struct{}) // before, messages cannot have descriptors
	answer := sync.OnceFunc(func() { close(answered) })
	var own owned
	reader.Go(func() { // replies are read, or the server would end the connection
		defer answer()
		b := make([]byte, proto.MaxMessage)
		for {
			n, fds, err := proto.Read(conn, b)
			if err != nil {
				return
			}
			answer()
			proto.CloseFDs(fds)
			if e, err := proto.DecodeCMEvent(b[min(n, proto.HeaderBytes):n]); err == nil && e.Kind != cm.Gone {
				own.id.Store(uint32(e.ID))
				switch e.Kind {
				case cm.Request:
					own.request.Store(uint32(e.ID))
				case cm.Reply:
					own.reply.Store(uint32(e.ID))
				}
			}
			if h, _, err := proto.Split(b[:n]); err == nil && h.Type&proto.Reply != 0 && h.Status == proto.StatusOK {
				ok[(h.Type&^proto.Reply)%1024].Add(1)
				if h.Type == proto.TCreateQP|proto.Reply {
					own.qp.Store(binary.LittleEndian.Uint32(b[proto.HeaderBytes:]))
					own.qpn.Store(binary.LittleEndian.Uint32(b[proto.HeaderBytes+4:]))
				}
			}
		}
	})
	defer reader.Wait()
	defer conn.Close()
	if rng.IntN(10) != 0 {
		if write(conn, proto.THello, 1, helloBody) != nil {
			return 1, nil
		}
		<-answered
		for _, m := range []struct {
			t    proto.Type
			body any
			fds  []int
		}{{proto.TAllocPD, nil, nil}, {proto.TCreateCQ, &proto.CreateCQ{Depth: 64}, nil}, {proto.TAddArena, &proto.AddArena{Bytes: 1 << 20}, []int{memfd}}, {proto.TCMOpen, nil, nil}} {
			if write(conn, m.t, 1, m.body, m.fds...) != nil {
				return 1, nil
			}
		}
	}
	for sent = 1; sent < n && rng.IntN(2000) != 0; sent++ {
		t := proto.Type(1 + rng.IntN(int(proto.TDestroyQP)))
		if rng.IntN(20) == 0 {
			t = proto.TEncryptQP
		}
		if rng.IntN(3) == 0 {
			t = proto.TCM + proto.Type(rng.IntN(int(proto.TCMAnswer-proto.TCM)+1))
		}
		if (t == proto.TCMClose || t == proto.TCMUnlisten || t == proto.TCMReject || t == proto.TCMDisconnect) && rng.IntN(20) != 0 {
			t = []proto.Type{proto.TCMConnect, proto.TCMAccept, proto.TCMReady}[rng.IntN(3)] // or no connection would live for long
		}
		if rng.IntN(50) == 0 {
			t = proto.Type(rng.Uint32())
		}
		b := append(proto.Append(nil, proto.Header{Type: t, Seq: rng.Uint32()}, nil), randomBody(rng, t, &own)...)
		if rng.IntN(10) == 0 {
			b = randomBatch(rng, &own)
		}
		if rng.IntN(100) == 0 {
			b = b[:1+rng.IntN(len(b))]
		}
		var fds []int
		switch {
		case t == proto.TAddArena && rng.IntN(4) != 0:
			fds = []int{memfd}
		case rng.IntN(50) == 0:
			fds = []int{null, null, memfd}[:1+rng.IntN(3)]
		}
		if proto.Write(conn, b, fds...) != nil {
			break
		}
	}
	return sent, nil
}

func descriptors(t *testing.T) int {
	names, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(names)
}

// Random messages hurt nobody, and leave nothing.
func TestRandomMessages(t *testing.T) {
	most := limits.Defaults()
	most.Process[limits.Arenas], most.Process[limits.QPs] = 64<<20, 64
	most.Process[limits.Calls], most.User[limits.Calls] = 1<<32, 1<<32
	s, dir := serve(t, device.Config{Limits: &most, Accepts: 1 << 32})
	other := newBystander(t, dir)
	n := *allMessages
	if testing.Short() {
		n = 10_000
	}
	before := descriptors(t)
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		t.Fatal(err)
	}
	mapped := countMemfds(string(maps))
	var ok [1024]atomic.Int64
	// An attack that only meets the first checks shows nothing.
	missing := func() (list []proto.Type) {
		for _, want := range []proto.Type{proto.TAddArena, proto.TRegArena, proto.TCreateQP, proto.TModifyQP, proto.TEncryptQP, proto.TDestroyQP,
			proto.TCreateAH, proto.TDeregMR, proto.TCMOpen, proto.TCMListen, proto.TCMConnect, proto.TCMResolve, proto.TBatch} {
			if ok[want].Load() == 0 {
				list = append(list, want)
			}
		}
		return list
	}
	var attackers sync.WaitGroup
	end := time.Now().Add(testkit.Patience)
	for i := range uint64(2) {
		attackers.Go(func() {
			err := attack(dir, i+1, n/2, &ok)
			// What a message meets depends on how soon others are executed.
			for k := uint64(1); err == nil && len(missing()) > 0 && time.Now().Before(end); k++ {
				err = attack(dir, 2*k+i+1, 1000, &ok)
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	done := make(chan struct{})
	go func() { attackers.Wait(); close(done) }()
	for busy := true; busy; {
		other.works(t)
		select {
		case <-done:
			busy = false
		default:
		}
	}
	testkit.Eventually(t, "two processes are left", func() bool { return len(s.Status().Processes) == 2 })
	testkit.Eventually(t, "the descriptors are closed", func() bool { return descriptors(t) <= before })
	if maps, err = os.ReadFile("/proc/self/maps"); err != nil {
		t.Fatal(err)
	}
	if k := countMemfds(string(maps)); k > mapped {
		t.Errorf("%d mappings of memfds, %d before", k, mapped)
	}
	other.works(t)
	if list := missing(); len(list) > 0 {
		t.Errorf("no requests of the types %d were executed", list)
	}
}
