// SPDX-License-Identifier: Apache-2.0

package device_test

import (
	"encoding/binary"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/softroce/softroce-xdp/loader/device"
	"github.com/softroce/softroce-xdp/rocev2/rdma/proto"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// randomBody returns a body of a request: with small numbers in its fields, which are often handles
// and sizes, or with random bytes of a random length.
func randomBody(rng *rand.Rand, t proto.Type) []byte {
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
	case *proto.ModifyQP:
		m.Attr = proto.AttrOf(verbs.DefaultAttr())
		m.Attr.State, m.Attr.AV.Dst = uint8(rng.IntN(8)), proto.AddrOf(here)
		if rng.IntN(4) != 0 {
			m.Mask = uint32(verbs.RequiredMask(verbs.QPType(1+rng.IntN(3)), verbs.State(m.Attr.State)))
		}
	case *proto.CreateAH:
		m.AV.Dst = proto.AddrOf(here)
	}
	b, _ := binary.Append(nil, binary.LittleEndian, req)
	return b
}

// attack sends n random messages, on new connections when the server has ended one.
func attack(dir string, seed uint64, n int) error {
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
	_, _ = unix.FcntlInt(uintptr(memfd), unix.F_ADD_SEALS, unix.F_SEAL_SHRINK)
	for n > 0 {
		sent, err := attackOnce(dir, rng, n, memfd, int(null.Fd()))
		if err != nil {
			return err
		}
		n -= sent
	}
	return nil
}

func attackOnce(dir string, rng *rand.Rand, n, memfd, null int) (sent int, err error) {
	c, err := net.Dial("unixpacket", proto.SocketPath(dir, "lo"))
	if err != nil {
		return 0, err
	}
	conn := c.(*net.UnixConn)
	var reader sync.WaitGroup
	reader.Go(func() { // replies are read, or the server would end the connection
		b := make([]byte, proto.MaxMessage)
		for {
			_, fds, err := proto.Read(conn, b)
			if err != nil {
				return
			}
			proto.CloseFDs(fds)
		}
	})
	defer reader.Wait()
	defer conn.Close()
	if rng.IntN(10) != 0 {
		hello := proto.Append(nil, proto.Header{Type: proto.THello, Seq: 1}, &proto.Hello{Magic: proto.Magic, Version: proto.Version})
		if proto.Write(conn, hello) != nil {
			return 1, nil
		}
	}
	for sent = 1; sent < n && rng.IntN(2000) != 0; sent++ {
		t := proto.Type(1 + rng.IntN(int(proto.TDestroyQP)))
		if rng.IntN(50) == 0 {
			t = proto.Type(rng.Uint32())
		}
		b := append(proto.Append(nil, proto.Header{Type: t, Seq: rng.Uint32()}, nil), randomBody(rng, t)...)
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

// 10^5 random messages hurt nobody, and leave nothing.
func TestRandomMessages(t *testing.T) {
	s, dir := serve(t, device.Config{Process: device.Limits{Bytes: 64 << 20, QPs: 64}})
	other := newBystander(t, dir)
	n := 100_000
	if testing.Short() {
		n = 10_000
	}
	before := descriptors(t)
	var attackers sync.WaitGroup
	for i := range 2 {
		attackers.Go(func() {
			if err := attack(dir, uint64(i+1), n/2); err != nil {
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
	wait(t, func() bool { return len(s.Status().Processes) == 2 })
	wait(t, func() bool { return descriptors(t) <= before })
	if names, _ := filepath.Glob("/proc/self/map_files/*"); len(names) > 0 {
		maps, _ := os.ReadFile("/proc/self/maps")
		if k := countMemfds(string(maps)); k > 40 {
			t.Errorf("%d mappings of memfds are left", k)
		}
	}
	other.works(t)
}
