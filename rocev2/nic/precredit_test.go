// SPDX-License-Identifier: Apache-2.0

package nic_test

import (
	"bytes"
	"errors"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/softroce/softroce-xdp/bpf"
	"github.com/softroce/softroce-xdp/internal/testkit"
	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/nic"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
	"github.com/softroce/softroce-xdp/testenv/lab/engines"
	"github.com/softroce/softroce-xdp/testenv/lab/require"
	"github.com/softroce/softroce-xdp/testenv/lab/topo"
)

const creditSize = 1 << 20

// creditPair are two hosts of which those that on says use pre-credit.
func creditPair(t *testing.T, v6 bool, on ...bool) (a, b *side) {
	t.Helper()
	hosts := engines.New(t, topo.Spec{Hosts: topo.Hosts(2)}, "--policy", "mode=fixed")
	for i, h := range hosts {
		h.MustOpen(t, nic.Options{PreCredit: on[i]})
	}
	return newSide(t, hosts[0], verbs.RC, creditSize), newSide(t, hosts[1], verbs.RC, creditSize)
}

func creditConnect(t *testing.T, a, b *side, v6 bool) {
	t.Helper()
	if err := connectPair(a.qp, b.qp, a.host.Addr(v6), b.host.Addr(v6), rocev2.PMTU1024); err != nil {
		t.Fatal(err)
	}
}

// until waits for a condition, and says what the engines counted if it does not come.
func until(t *testing.T, what string, a, b *side, f func() bool) {
	t.Helper()
	for end := time.Now().Add(testkit.Patience); !f(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: not within %v\n%s\n%s", what, testkit.Patience, dump(a.dev), dump(b.dev))
		}
	}
}

// granted: both ends have given and both have answered.
func granted(a, b *side) bool {
	for _, s := range []*side{a, b} {
		if counter(s.dev, "precredit_granted") == 0 || counter(s.dev, "precredit_returns_sent") == 0 {
			return false
		}
	}
	return true
}

// write moves n bytes from a to b and compares them.
func (s *side) writeTo(t *testing.T, to *side, n int, fill byte) {
	t.Helper()
	for i := range s.buf[:n] {
		s.buf[i] = byte(i) ^ fill
	}
	s.post(t, &verbs.SendWR{ID: 1, Op: verbs.OpWrite, Flags: verbs.Signaled, SGL: s.sge(0, n), RemoteAddr: to.va, RKey: to.key})
	if c := s.poll(t); c.Status != verbs.StatusSuccess {
		t.Fatalf("%+v", c)
	}
	if !bytes.Equal(s.buf[:n], to.buf[:n]) {
		t.Fatal("the data is not what was sent")
	}
}

// conserved checks what holds of pre-credit that b gave to a, however long anything took
// (the property of package precredit, seen from outside). All that was granted is drained,
// wasted or outstanding. What drained was used. In the end b knows of every byte that a has
// used or given up. The rest of what b counts as wasted need not have been announced to a: b took it back
// by itself, because a was silent for the account's life.
func conserved(t *testing.T, a, b *side) {
	t.Helper()
	until(t, "both ends agree", a, b, func() bool {
		to, from := counters(b.dev), counters(a.dev)
		known := to["precredit_delivered"] + to["precredit_wasted"]
		gone := from["precredit_used"] + from["precredit_returned"]
		return to["precredit_granted"] == known+to["precredit_outstanding"] &&
			to["precredit_delivered"] <= from["precredit_used"] &&
			gone <= known && known <= gone+to["precredit_reclaimed"]
	})
}

// Connecting is enough to be granted; the first message goes on it, and when both have
// gone nothing is outstanding.
func TestPreCredit(t *testing.T) {
	for _, v6 := range []bool{false, true} {
		for end := time.Now().Add(testkit.Patience); !firstMessageOnPreCredit(t, v6); {
			if time.Now().After(end) {
				t.Fatalf("v6=%t: pre-credit has lapsed before or during the messages each time", v6)
			}
		}
	}
}

// firstMessageOnPreCredit returns false if pre-credit lapses before the end of the messages, as it does where the
// machine stands still for its life. Then they need not go on it.
func firstMessageOnPreCredit(t *testing.T, v6 bool) bool {
	t.Helper()
	a, b := creditPair(t, v6, true, true)
	lapsed := func() uint64 { return counter(a.dev, "precredit_returned") + counter(b.dev, "precredit_reclaimed") }
	if granted(a, b) {
		t.Fatal("granted before connecting")
	}
	creditConnect(t, a, b, v6)
	until(t, "grants before any data", a, b, func() bool { return granted(a, b) })
	if n := counter(a.dev, "tx_data_pkts") + counter(b.dev, "tx_data_pkts"); n != 0 {
		t.Errorf("%d packets of data already", n)
	}
	given := counter(b.dev, "precredit_granted")
	a.writeTo(t, b, creditSize, 0)
	from, to := counters(a.dev), counters(b.dev)
	if n := lapsed(); n > 0 {
		t.Logf("v6=%t: %d bytes have lapsed", v6, n)
		return false
	}
	if used := from["precredit_used"]; used == 0 || used > to["precredit_granted"] || used > creditSize {
		t.Fatalf("of %d bytes granted first, %d in all and %d sent %d were sent on pre-credit", given, to["precredit_granted"], creditSize, used)
	}
	conserved(t, a, b)
	// What was used came back: the next flow finds as much.
	for i := range 20 {
		a.writeTo(t, b, 1+i*5003, byte(i))
	}
	used := counter(a.dev, "precredit_used")
	if n := lapsed(); n > 0 { // what came back may have lapsed before the next write
		t.Logf("v6=%t: %d bytes have lapsed", v6, n)
		return false
	}
	if used <= given {
		t.Errorf("%d bytes on pre-credit in all, no more than was granted first: ACKs gave nothing back", used)
	}
	conserved(t, a, b)
	// On a busy machine an answer may be late enough for a probe, which sends one packet again, or for a timeout, which
	// may send all again that has no answer. The veth pair loses packets if the receiver's softirq waits for a processor:
	// the receiver tells of them.
	from = counters(a.dev) // counters of one moment: another probe may follow
	if n, late := from["tx_retransmits"], from["tail_probes"]; n > late && from["local_ack_timeout_err"]+from["sack_rcvd"]+from["rcvd_seq_err"] == 0 {
		t.Errorf("%d packets sent again, %d of them because answers were late", n, late)
	}
	testkit.Must(t, a.qp.Destroy())
	until(t, "the sender's last return", a, b, func() bool { return counter(b.dev, "precredit_outstanding") == 0 })
	t.Logf("v6=%v\n%s\n%s", v6, dump(a.dev), dump(b.dev))
	return true
}

// Unused pre-credit is void after its life, and the next flow is granted anew.
func TestPreCreditExpires(t *testing.T) {
	a, b := creditPair(t, false, true, true)
	creditConnect(t, a, b, false)
	until(t, "grants", a, b, func() bool { return granted(a, b) })
	until(t, "void after a second", a, b, func() bool { return counter(b.dev, "precredit_outstanding") == 0 })
	conserved(t, a, b)
	a.pays(t, b)
	conserved(t, a, b)
}

// A peer whose engine has no pre-credit gets plain RoCEv2, and is sent no message that
// it would not know.
func TestPreCreditFallback(t *testing.T) {
	for _, on := range [][]bool{{true, false}, {false, true}} {
		a, b := creditPair(t, false, on...)
		creditConnect(t, a, b, false)
		a.writeTo(t, b, creditSize, 0)
		until(t, "HELLO has told what the peer understands", a, b, func() bool {
			a.writeTo(t, b, 1000, 4)
			return counter(a.dev, "tx_stamped") > 0
		})
		a.writeTo(t, b, creditSize, 1)
		b.writeTo(t, a, creditSize, 2)
		for _, s := range []*side{a, b} {
			for _, name := range []string{"precredit_granted", "precredit_used", "precredit_grants_sent", "precredit_returns_sent", "precredit_ignored"} {
				if n := counter(s.dev, name); n != 0 {
					t.Errorf("%v: %s: %s is %d", on, s.host.Name(), name, n)
				}
			}
		}
		for i, s := range []*side{a, b} {
			cfg, err := s.host.Attachment(t).Config()
			if err != nil || (cfg.Caps&uint32(bpf.CapCredit) != 0) != on[i] {
				t.Errorf("%v: %s says %#x, %v", on, s.host.Name(), cfg.Caps, err)
			}
		}
	}
}

// An engine that is closed says so: nobody announces pre-credit in its place.
func TestPreCreditClosed(t *testing.T) {
	a, _ := creditPair(t, false, true, true)
	att := a.host.Attachment(t)
	if cfg, err := att.Config(); err != nil || cfg.Caps&uint32(bpf.CapCredit) == 0 {
		t.Fatalf("%+v, %v", cfg, err)
	}
	if err := a.dev.Close(); err != nil {
		t.Fatal(err)
	}
	if cfg, err := att.Config(); err != nil || cfg.Caps&uint32(bpf.CapCredit|bpf.CapSACK) != 0 {
		t.Errorf("caps %#x, %v", cfg.Caps, err)
	}
	var s bpf.Steer
	if err := att.Maps.SteerTable.Lookup(uint32(rocev2.ControlQPN), &s); err == nil {
		t.Error("the control number is still steered")
	}
}

// deafen has ingress drop what peers tell a host of pre-credit, until hear is called.
func deafen(t *testing.T, s *side) (hear func()) {
	t.Helper()
	table := s.host.Attachment(t).Maps.SteerTable
	const control = uint32(rocev2.ControlQPN)
	var steer bpf.Steer
	if err := errors.Join(table.Lookup(control, &steer), table.Delete(control)); err != nil {
		t.Fatal(err)
	}
	return func() {
		t.Helper()
		if err := table.Put(control, steer); err != nil {
			t.Fatal(err)
		}
	}
}

// Grants that are lost are sent again, and a first message that comes before one is
// there goes on without. The receiver takes back what nobody answered for, and a flow
// that comes when its peer receives grants again is granted anew.
func TestPreCreditGrantLost(t *testing.T) {
	a, b := creditPair(t, false, true, true)
	hear := deafen(t, a)
	creditConnect(t, a, b, false)
	until(t, "grants to nobody", a, b, func() bool {
		return counter(b.dev, "precredit_grants_sent") > 2 && counter(a.dev, "precredit_grants_sent") > 0
	})
	a.writeTo(t, b, creditSize, 0)
	if n := counter(a.dev, "precredit_used") + counter(a.dev, "precredit_returns_sent"); n != 0 {
		t.Errorf("%d bytes and answers, without a grant", n)
	}
	if n := counter(a.dev, "precredit_blocked"); n == 0 {
		t.Errorf("a large message did not wait for its first ACK\n%s", dump(a.dev))
	}
	if n := counter(a.dev, "precredit_ramps"); n == 0 {
		t.Errorf("and went on at once with all that its rate allows\n%s", dump(a.dev))
	}
	small := counter(a.dev, "precredit_blocked")
	a.writeTo(t, b, 4000, 3)
	if n := counter(a.dev, "precredit_blocked"); n != small {
		t.Error("a small one did")
	}
	until(t, "what nobody answered for is back", a, b, func() bool { return counter(b.dev, "precredit_outstanding") == 0 })
	back := counters(b.dev)
	if n := back["precredit_reclaimed"]; n == 0 || n != back["precredit_granted"] {
		t.Errorf("%d bytes taken back, %d granted to nobody", n, back["precredit_granted"])
	}
	conserved(t, a, b)
	hear()
	a.pays(t, b)
	conserved(t, a, b)
}

// A grant that was lost is received when it is sent again, be it the same one or, where the
// machine took longer than the account lived, that of the next flow.
func TestPreCreditGrantRepeated(t *testing.T) {
	a, b := creditPair(t, false, true, true)
	hear := deafen(t, a)
	creditConnect(t, a, b, false)
	until(t, "a grant to nobody", a, b, func() bool { return counter(b.dev, "precredit_granted") > 0 })
	hear()
	until(t, "a grant that is received", a, b, func() bool {
		return counter(a.dev, "precredit_returns_sent") > 0 || counter(b.dev, "precredit_outstanding") == 0
	})
	a.pays(t, b)
	conserved(t, a, b)
}

// pays has a send messages until one goes on pre-credit: by the first packet b learns of the
// flow, and its grant is good for a while only.
func (s *side) pays(t *testing.T, to *side) {
	t.Helper()
	until(t, "a message on pre-credit", s, to, func() bool {
		s.writeTo(t, to, 100_000, 1)
		return counter(s.dev, "precredit_used") > 0
	})
}

// Many queue pairs to one peer take turns with its pre-credit, and all end: who waits
// for it is not forgotten.
func TestPreCreditMany(t *testing.T) {
	a, b := creditPair(t, false, true, true)
	const n = 16
	var as, bs []*side
	for range n {
		x, y := newSide(t, a.host, verbs.RC, creditSize), newSide(t, b.host, verbs.RC, creditSize)
		creditConnect(t, x, y, false)
		as, bs = append(as, x), append(bs, y)
	}
	until(t, "grants", a, b, func() bool { return granted(a, b) })
	for range 5 {
		for i, x := range as {
			size := 1 << 19
			if i%3 == 0 {
				size = 2000
			}
			x.post(t, &verbs.SendWR{ID: 1, Op: verbs.OpWrite, Flags: verbs.Signaled, SGL: x.sge(0, size), RemoteAddr: bs[i].va, RKey: bs[i].key})
		}
		for _, x := range as {
			if c := x.poll(t); c.Status != verbs.StatusSuccess {
				t.Fatalf("%+v\n%s\n%s", c, dump(x.dev), dump(b.dev))
			}
		}
	}
	if counter(a.dev, "precredit_used") == 0 {
		t.Error("nothing sent on pre-credit")
	}
	conserved(t, a, b)
	t.Logf("%s\n%s", dump(a.dev), dump(b.dev))
}

// A packet on pre-credit costs no memory.
func TestPreCreditAllocates(t *testing.T) {
	a, b := creditPair(t, false, true, true)
	creditConnect(t, a, b, false)
	until(t, "grants", a, b, func() bool { return granted(a, b) })
	write := func() {
		const size = 32 << 10
		a.post(t, &verbs.SendWR{ID: 1, Op: verbs.OpWrite, Flags: verbs.Signaled, SGL: a.sge(0, size), RemoteAddr: b.va, RKey: b.key})
		a.poll(t)
	}
	for range 50 {
		write()
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	used, sent := counter(a.dev, "precredit_used"), counter(a.dev, "tx_data_pkts")
	for range 300 {
		write()
	}
	runtime.ReadMemStats(&after)
	used, sent = counter(a.dev, "precredit_used")-used, counter(a.dev, "tx_data_pkts")-sent
	per := float64(after.Mallocs-before.Mallocs) / float64(sent)
	t.Logf("%d packets, %d bytes on pre-credit, %.3f allocations a packet", sent, used, per)
	if used == 0 || per > 0.2 { // the test itself makes a few for each message of 32
		t.Errorf("%.2f allocations a packet, %d bytes on pre-credit", per, used)
	}
}

// Engines that come and go faster than HELLO tells of them find each other all the same: a
// grant of one that knows us says that it understands.
func TestPreCreditReopened(t *testing.T) {
	a, b := creditPair(t, false, true, true)
	for i := range 4 {
		if i > 0 {
			for _, s := range []*side{a, b} {
				if err := s.dev.Close(); err != nil {
					t.Fatal(err)
				}
				s.host.MustOpen(t, nic.Options{PreCredit: true})
			}
			a, b = newSide(t, a.host, verbs.RC, creditSize), newSide(t, b.host, verbs.RC, creditSize)
		}
		creditConnect(t, a, b, false)
		start := time.Now()
		until(t, "both ends use it", a, b, func() bool {
			a.writeTo(t, b, 1000, byte(i))
			b.writeTo(t, a, 1000, byte(i))
			return counter(a.dev, "precredit_used") > 0 && counter(b.dev, "precredit_used") > 0
		})
		t.Logf("opened for the %d. time: after %v", i+1, time.Since(start))
		conserved(t, a, b)
	}
}

// Hosts that send nothing but small messages, all of them on pre-credit, keep to their
// rate.
func TestPreCreditKeepsTheRate(t *testing.T) {
	const rate = 20e6
	hosts := engines.New(t, topo.Spec{Hosts: topo.Hosts(2)}, "--policy", "mode=fixed", "--rate", fmt.Sprint(int(rate)))
	for _, h := range hosts {
		h.MustOpen(t, nic.Options{PreCredit: true})
	}
	const n, size = 16, 1000
	var as []*side
	far := map[*side]*side{}
	var b *side
	for range n {
		x := newSide(t, hosts[0], verbs.RC, 4096)
		b = newSide(t, hosts[1], verbs.RC, 4096)
		creditConnect(t, x, b, false)
		as = append(as, x)
		far[x] = b
	}
	until(t, "grants", as[0], b, func() bool { return granted(as[0], b) })
	post := func(x *side) {
		x.post(t, &verbs.SendWR{Op: verbs.OpWrite, Flags: verbs.Signaled, SGL: x.sge(0, size), RemoteAddr: far[x].va, RKey: far[x].key})
	}
	var out [4]verbs.Completion
	run := func(d time.Duration) (bytes uint64) {
		for start := time.Now(); time.Since(start) < d; {
			for _, x := range as {
				for _, c := range out[:x.cq.Poll(out[:])] {
					if c.Status != verbs.StatusSuccess {
						t.Fatal(c.Status)
					}
					bytes += size
					post(x)
				}
			}
		}
		return bytes
	}
	for _, x := range as {
		post(x)
	}
	run(500 * time.Millisecond)
	used := func() uint64 { return counter(as[0].dev, "precredit_used") }
	// Pre-credit lapses where the machine stands still. The rate is one with pre-credit if some was used meanwhile.
	const windows = 8
	for range windows {
		before, start := used(), time.Now()
		got := run(time.Second)
		bps := float64(got) * 8 / time.Since(start).Seconds() * (size + 72) / size // of frames
		credited := used() - before
		t.Logf("%.1f Mbit/s, %d of %d bytes on pre-credit", bps/1e6, credited, got)
		if bps > 1.05*rate {
			t.Errorf("%.1f Mbit/s at a rate of %.1f", bps/1e6, rate/1e6)
		}
		if credited == 0 {
			continue
		}
		if bps < 0.5*rate {
			require.Missed(t, "only %.1f Mbit/s at a rate of %.1f", bps/1e6, rate/1e6)
		}
		return
	}
	t.Errorf("nothing was sent on pre-credit in %d windows\n%s\n%s", windows, dump(as[0].dev), dump(b.dev))
}
