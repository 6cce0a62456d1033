// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/seal"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// secret is a pair of queue pairs with the same keys on a virtual link that records all frames.
type secret struct {
	*loopback
	x, y     *QP // requester and responder
	mem      []byte
	mr       verbs.MR
	captured [][]byte
}

var testKeys = seal.Keys{Suite: seal.AES128GCM, Send: seal.Secret{1}, Receive: seal.Secret{2}}

// secretHalf is the place of the responder's memory in mem; the requester's is before it.
const secretHalf = 1 << 17

func newSecret(t *testing.T, typ verbs.QPType, loss float64, limits seal.Limits) *secret {
	t.Helper()
	s := &secret{loopback: newLoopback(t, 1), mem: make([]byte, 2*secretHalf)}
	s.link.loss = loss
	s.link.tap = func(b []byte) { s.captured = append(s.captured, slices.Clone(b)) }
	s.encrypt = func(x, y *QP) {
		s.x, s.y = x, y
		a := testKeys
		encryptWith(t, x, a, limits)
		a.Send, a.Receive = a.Receive, a.Send
		encryptWith(t, y, a, limits)
	}
	s.connect(typ, rocev2.PMTU1024, 64)
	var err error
	if s.mr, err = s.pd.RegMR(s.mem, verbs.AccessLocalWrite|verbs.AccessRemoteWrite|verbs.AccessRemoteRead); err != nil {
		t.Fatal(err)
	}
	s.fill(0)
	return s
}

func encryptWith(t *testing.T, x *QP, k seal.Keys, l seal.Limits) {
	t.Helper()
	c, err := seal.NewEnd(k, l)
	if err == nil {
		err = x.SetKeys(c, nil)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// fill gives both halves data in which no eight bytes occur twice.
func (s *secret) fill(salt uint64) {
	for i := range len(s.mem) / 8 {
		binary.LittleEndian.PutUint64(s.mem[8*i:], (uint64(i)+salt<<32+1)*0x9E3779B97F4A7C15)
	}
}

func (s *secret) own() []byte   { return s.mem[:secretHalf] }
func (s *secret) peers() []byte { return s.mem[secretHalf:] }

func (s *secret) send(op verbs.Op, n int) {
	s.t.Helper()
	err := s.x.PostSend(&verbs.SendWR{
		Op: op, Flags: verbs.Signaled, RemoteAddr: s.mr.VA() + secretHalf, RKey: s.mr.RKey(),
		SGL: []verbs.SGE{{Addr: s.mr.VA(), Len: uint32(n), LKey: s.mr.LKey()}},
	})
	if err != nil {
		s.t.Fatal(err)
	}
}

func (s *secret) finish(n int) {
	s.t.Helper()
	if err := s.run(n, func() time.Duration { return 20 * time.Microsecond }); err != nil {
		s.t.Fatal(err)
	}
}

// plaintext returns how many runs of eight bytes of the memory are in the captured frames.
func (s *secret) plaintext() (found int) {
	seen := map[uint64]bool{}
	for _, b := range s.captured {
		for ; len(b) >= 8; b = b[1:] {
			seen[binary.LittleEndian.Uint64(b)] = true
		}
	}
	for i := range len(s.mem) / 8 {
		if seen[binary.LittleEndian.Uint64(s.mem[8*i:])] {
			found++
		}
	}
	return found
}

// nonce is what must never be the same in two packets of one direction.
type nonce struct {
	to      uint32
	epoch   uint32
	counter uint64
}

// packets returns the captured packets by nonce, and fails if two have the same.
func (s *secret) packets() map[nonce]rocev2.Packet {
	s.t.Helper()
	m := map[nonce]rocev2.Packet{}
	for _, b := range s.captured {
		p, err := rocev2.ParseFrame(b)
		if err != nil || len(p.Payload()) < seal.Overhead || p.BTH().PKey() != seal.PKey {
			s.t.Fatalf("%v, %v: %d bytes, want a sealed packet", err, p.Opcode(), len(p.Payload()))
		}
		n := nonce{p.BTH().DestQP(), binary.BigEndian.Uint32(p.Payload()), binary.BigEndian.Uint64(p.Payload()[4:])}
		if other, twice := m[n]; twice {
			s.t.Errorf("%v and %v have the nonce %+v", other.Opcode(), p.Opcode(), n)
		}
		m[n] = p
	}
	return m
}

// Encrypted operations are exact without and with loss, over many epochs. Every packet has a
// nonce of its own, retransmissions and executions of a READ included, and none shows the data.
func TestEncryptedOperations(t *testing.T) {
	for _, op := range []verbs.Op{verbs.OpWrite, verbs.OpRead} {
		for _, loss := range []float64{0, 0.05} {
			synctest.Test(t, func(t *testing.T) {
				s := newSecret(t, verbs.RC, loss, seal.Limits{MaxBlocks: 8192})
				const messages = 20
				for range messages {
					s.send(op, 100_001)
				}
				s.finish(messages)
				if !bytes.Equal(s.own()[:100_001], s.peers()[:100_001]) {
					t.Errorf("%v, loss %v: the data differs", op, loss)
				}
				c := s.e.count.crypt
				if n := len(s.packets()); uint64(n) != c.Sealed || loss == 0 && c.Opened != c.Sealed || c.Opened == 0 {
					t.Errorf("%v, loss %v: %d packets on the link, %+v", op, loss, n, c)
				}
				if refused := c.forged + c.replay + c.old + c.epoch + c.malformed + c.Plain + c.sealedRefused; refused != 0 {
					t.Errorf("%v, loss %v: %+v", op, loss, c)
				}
				again, epochs := s.e.qpCount.SentAgain, s.x.crypt.Opener.Epoch()+s.y.crypt.Opener.Epoch()
				if loss > 0 && again == 0 || epochs < 5 {
					t.Errorf("%v, loss %v: %d packets sent again, %d epochs: the test tests nothing", op, loss, again, epochs)
				}
				if n := s.plaintext(); n != 0 {
					t.Errorf("%v, loss %v: %d runs of plaintext", op, loss, n)
				}
			})
		}
	}
}

// The search for plaintext finds that of a plain queue pair.
func TestPlainOperationShowsPlaintext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSecret(t, verbs.RC, 0, seal.Limits{})
		s.encrypt = nil
		s.x = s.connect(verbs.RC, rocev2.PMTU1024, 64)
		s.send(verbs.OpWrite, 100_000)
		s.finish(1)
		if n := s.plaintext(); n < 10_000 {
			t.Errorf("%d runs found", n)
		}
	})
}

// SENDs and messages without data work, and UC.
func TestEncryptedSendAndUC(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSecret(t, verbs.RC, 0, seal.Limits{})
		s.send(verbs.OpSend, 3001)
		s.send(verbs.OpWrite, 0)
		s.finish(3) // with the receive
		if n := s.plaintext(); n > 0 {
			t.Errorf("%d runs of plaintext", n)
		}
		s = newSecret(t, verbs.UC, 0, seal.Limits{})
		s.send(verbs.OpWrite, 50_000)
		s.finish(1)
		s.iterate(time.Millisecond)
		if !bytes.Equal(s.own()[:50_000], s.peers()[:50_000]) || s.plaintext() > 0 {
			t.Error("UC: the data differs, or is on the link")
		}
	})
}

// Memory that is gone when the packet is encrypted fails the work request, as without encryption.
func TestEncryptedMemoryIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSecret(t, verbs.RC, 0, seal.Limits{})
		page := os.Getpagesize()
		f, err := os.Create(filepath.Join(t.TempDir(), "memory"))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if err := f.Truncate(int64(page)); err != nil {
			t.Fatal(err)
		}
		b, err := unix.Mmap(int(f.Fd()), 0, page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
		if err != nil {
			t.Fatal(err)
		}
		defer unix.Munmap(b)
		r, err := s.pd.RegMR(b, verbs.AccessLocalWrite)
		if err != nil {
			t.Fatal(err)
		}
		if err := f.Truncate(0); err != nil {
			t.Fatal(err)
		}
		err = s.x.PostSend(&verbs.SendWR{
			Op: verbs.OpWrite, Flags: verbs.Signaled, RemoteAddr: s.mr.VA() + secretHalf, RKey: s.mr.RKey(),
			SGL: []verbs.SGE{{Addr: r.VA(), Len: 1000, LKey: r.LKey()}},
		})
		if err != nil {
			t.Fatal(err)
		}
		err = s.run(1, func() time.Duration { return time.Millisecond })
		if err == nil || !strings.Contains(err.Error(), "Status:"+verbs.StatusLocalQPOperation.String()) {
			t.Errorf("the WRITE: %v", err)
		}
		if len(s.captured) != 0 || s.e.count.crypt.Sealed != 0 {
			t.Errorf("%d packets have left, %d are counted", len(s.captured), s.e.count.crypt.Sealed)
		}
		if err := r.Deregister(); err != nil {
			t.Error(err)
		}
	})
}

// deliverAgain gives a frame to the engine and returns what it counts, and whether memory has changed.
func (s *secret) deliverAgain(frame []byte) (CryptCounters, bool) {
	before := slices.Clone(s.mem)
	was := s.e.count.crypt
	s.e.count.crypt = CryptCounters{}
	s.e.rx.frame(slices.Clone(frame), Meta{}, true)
	c := s.e.count.crypt
	s.e.count.crypt = was
	return c, !bytes.Equal(before, s.mem)
}

// lostWrite returns the frame of a WRITE that has not arrived.
func (s *secret) lostWrite(n int) []byte {
	s.t.Helper()
	s.link.loss = 1
	s.send(verbs.OpWrite, n)
	if err := s.iterate(0); err != nil {
		s.t.Fatal(err)
	}
	s.transfer()
	return s.captured[0]
}

// A packet of which any bit from the BTH to the tag was changed is refused, counted, and leaves
// memory alone. FECN and BECN are the exception: switches may set them.
func TestEveryFlippedBitIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSecret(t, verbs.RC, 0, seal.Limits{})
		frame := s.lostWrite(61)
		p, _ := rocev2.ParseFrame(frame)
		begin := bytes.Index(frame, p.Body())
		end := begin + len(p.Body()) + len(p.Pad())
		const masked = 4
		for i := begin; i < end; i++ {
			for bit := range 8 {
				if i == begin+masked {
					continue
				}
				b := slices.Clone(frame)
				b[i] ^= 1 << bit
				unknown, malformed := s.e.count.rxUnknownQPN, s.e.count.rxMalformed
				c, changed := s.deliverAgain(b)
				refused := c.forged + c.replay + c.old + c.epoch + c.malformed + c.Plain +
					s.e.count.rxUnknownQPN - unknown + s.e.count.rxMalformed - malformed
				if changed || c.Opened != 0 || refused != 1 {
					t.Errorf("byte %d of the BTH or behind, bit %d: memory changed %v, %+v", i-begin, bit, changed, c)
				}
			}
		}
		frame[begin+masked] ^= 0xFF // FECN, BECN and the reserved bits that the ICRC masks too
		if c, changed := s.deliverAgain(frame); !changed || c.Opened != 1 {
			t.Errorf("with FECN and BECN set by a switch: memory changed %v, %+v", changed, c)
		}
	})
}

// A captured packet is refused when it comes again, at once and when it is behind the window.
func TestReplayIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSecret(t, verbs.RC, 0, seal.Limits{})
		frame := s.lostWrite(500)
		if c, changed := s.deliverAgain(frame); c.Opened != 1 || !changed {
			t.Fatalf("the first time: %+v", c)
		}
		s.fill(1)
		if c, changed := s.deliverAgain(frame); c.replay != 1 || changed {
			t.Errorf("the second time: memory changed %v, %+v", changed, c)
		}
		s.link.loss = 0
		s.finish(1)
		for range 10 * 100 { // more packets than the window has
			s.send(verbs.OpWrite, 10*1024)
			s.finish(1)
		}
		if c, changed := s.deliverAgain(frame); c.old != 1 || changed {
			t.Errorf("behind the window: memory changed %v, %+v", changed, c)
		}
	})
}

// A READ that is executed again carries other data under the same PSN, and another nonce.
func TestReadAgainHasAnotherNonce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSecret(t, verbs.RC, 0, seal.Limits{})
		s.send(verbs.OpRead, 200)
		for range 2 { // the request leaves; it arrives, and the response leaves
			if err := s.iterate(0); err != nil {
				t.Fatal(err)
			}
		}
		s.link.loss = 1 // the response is lost
		s.transfer()
		s.fill(7)
		s.link.loss = 0
		s.finish(1)
		if !bytes.Equal(s.own()[:200], s.peers()[:200]) {
			t.Error("the READ has not returned the present data")
		}
		byPSN := map[rocev2.PSN][][]byte{}
		for n, p := range s.packets() {
			if n.to == s.x.num && p.Opcode() == rocev2.RCReadResponseOnly {
				byPSN[p.BTH().PSN()] = append(byPSN[p.BTH().PSN()], p.Payload())
			}
		}
		for psn, list := range byPSN {
			if len(list) < 2 || bytes.Equal(list[0][seal.HeadLen:], list[1][seal.HeadLen:]) {
				t.Errorf("PSN %d: %d responses, want two that differ", psn, len(list))
			}
		}
		if len(byPSN) != 1 {
			t.Errorf("%d PSNs of responses", len(byPSN))
		}
	})
}

// A plain queue pair refuses encrypted packets, an encrypted one plain packets: both count them, and
// the sender's retries end.
func TestOneEndPlain(t *testing.T) {
	for _, c := range []struct {
		name         string
		encryptX     bool
		refused      func(c *CryptCounters) uint64
		alsoReceived int
	}{
		{"to a plain queue pair", true, func(c *CryptCounters) uint64 { return c.sealedRefused }, 0},
		{"to an encrypted queue pair", false, func(c *CryptCounters) uint64 { return c.Plain }, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := &secret{loopback: newLoopback(t, 1)}
			s.encrypt = func(x, y *QP) {
				if !c.encryptX {
					x = y
				}
				encryptWith(t, x, testKeys, seal.Limits{})
			}
			x := s.connect(verbs.RC, rocev2.PMTU1024, 4)
			s.post(x, verbs.OpWrite, 100)
			err := s.run(1, func() time.Duration { return time.Millisecond })
			if err == nil || !strings.Contains(err.Error(), "Status:"+verbs.StatusRetryExceeded.String()) {
				t.Errorf("%s: %v", c.name, err)
			}
			if n := c.refused(&s.e.count.crypt); n < 2 || s.e.count.crypt.Opened != 0 {
				t.Errorf("%s: %+v", c.name, s.e.count.crypt)
			}
		})
	}
}

// A CNP is never encrypted: it is ignored, as by a plain queue pair, and not counted as a plain packet. Others are.
func TestCNPToEncryptedQueuePair(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSecret(t, verbs.RC, 0, seal.Limits{})
		cnp := rocev2.Datagram{Src: us, Dst: us, Opcode: rocev2.CNP, DestQP: s.x.num}
		frame, err := cnp.AppendTo(make([]byte, etherLen))
		if err != nil {
			t.Fatal(err)
		}
		frame[12] = 8 // IPv4
		ignored := s.e.qpCount.Ignored
		if c, changed := s.deliverAgain(frame); changed || c != (CryptCounters{}) || s.e.qpCount.Ignored != ignored+1 {
			t.Errorf("memory changed %v, %+v, %d ignored", changed, c, s.e.qpCount.Ignored-ignored)
		}
		other := rocev2.Datagram{Src: us, Dst: us, Opcode: rocev2.UDSendOnly, DestQP: s.x.num}
		if frame, err = other.AppendTo(make([]byte, etherLen)); err != nil {
			t.Fatal(err)
		}
		frame[12] = 8
		if c, _ := s.deliverAgain(frame); c != (CryptCounters{Plain: 1}) {
			t.Errorf("a plain packet of UD: %+v", c)
		}
	})
}

// Another key is refused as a forged packet.
func TestOtherKeyIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &secret{loopback: newLoopback(t, 1)}
		s.encrypt = func(x, y *QP) {
			encryptWith(t, x, testKeys, seal.Limits{})
			encryptWith(t, y, testKeys, seal.Limits{}) // Send and Receive are not exchanged
		}
		x := s.connect(verbs.RC, rocev2.PMTU1024, 4)
		s.post(x, verbs.OpWrite, 100)
		if err := s.run(1, func() time.Duration { return time.Millisecond }); err == nil {
			t.Error("the WRITE was acknowledged")
		}
		if c := s.e.count.crypt; c.forged < 2 || c.Opened != 0 {
			t.Errorf("%+v", c)
		}
	})
}

// Encryption needs room in the MTU of the path and of the interface.
func TestEncryptedPMTU(t *testing.T) {
	l := newLoopback(t, 1)
	y := &QP{}
	if err := l.e.AddQP(y, l.config(verbs.RC, 1)); err != nil {
		t.Fatal(err)
	}
	encryptWith(t, y, testKeys, seal.Limits{})
	path := fixed(PathState{Src: us, Dst: us, MTU: 1024 + rocev2.PMTUOverhead, PMTU: rocev2.PMTU1024, Loopback: true})
	if err := y.checkCrypt(&verbs.Attr{PMTU: rocev2.PMTU1024}, verbs.MaskPMTU, path); err == nil || !strings.Contains(err.Error(), "raise it to 1132") {
		t.Errorf("%v", err)
	}
	if err := y.checkCrypt(&verbs.Attr{PMTU: rocev2.PMTU512}, verbs.MaskPMTU, path); err != nil {
		t.Error(err)
	}
}
