// SPDX-License-Identifier: Apache-2.0

package nic_test

import (
	"bytes"
	"testing"
	"time"

	"github.com/softroce/softroce-xdp/internal/testkit"
	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/nic"
	"github.com/softroce/softroce-xdp/rocev2/seal"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
	"github.com/softroce/softroce-xdp/testenv/lab/engines"
	"github.com/softroce/softroce-xdp/testenv/lab/topo"
)

// On a wire between two hosts, encrypted packets have a stamp and a right ICRC as others have: all operations are
// exact, with the largest PMTU that fits, and one that does not fit is refused.
func TestEncryptedOnTheWire(t *testing.T) {
	const mtu = 4096 + rocev2.PMTUOverhead + seal.Overhead + rocev2.StampLen
	hosts := engines.New(t, topo.Spec{Hosts: topo.Hosts(2), MTU: mtu}, "--policy", "mode=fixed")
	for _, h := range hosts {
		h.MustOpen(t, nic.Options{})
	}
	for _, v6 := range []bool{false, true} {
		a, b := newSide(t, hosts[0], verbs.RC, 1<<18), newSide(t, hosts[1], verbs.RC, 1<<18)
		k := seal.Keys{Suite: seal.AES128GCM, Send: seal.Secret{1}, Receive: seal.Secret{2}}
		for _, s := range []*side{a, b} {
			if err := s.qp.(seal.Encrypter).Encrypt(k, seal.Limits{MaxBlocks: 4096}); err != nil {
				t.Fatal(err)
			}
			k.Send, k.Receive = k.Receive, k.Send
		}
		if err := connectPair(a.qp, b.qp, hosts[0].Addr(v6), hosts[1].Addr(v6), rocev2.PMTU4096); err != nil {
			t.Fatal(err)
		}
		ends := [2]*side{a, b}
		before := [2]map[string]uint64{countersOf(a), countersOf(b)}
		moved := func(i int, name string) uint64 { return countersOf(ends[i])[name] - before[i][name] }
		// Peers stamp when they know each other, which takes some packets.
		for end := time.Now().Add(testkit.Patience); moved(0, "tx_stamped") == 0 || moved(1, "tx_stamped") == 0; {
			exchangeAll(t, a, b)
			if time.Now().After(end) {
				t.Fatalf("no stamps\n%s\n%s", dump(a.dev), dump(b.dev))
			}
		}
		exchangeAll(t, a, b)
		for i, s := range ends {
			now := countersOf(s) // of one moment: the ACK of a probe may still arrive
			decrypted, received := now["rx_decrypted"]-before[i]["rx_decrypted"], now["rcvd_pkts"]-before[i]["rcvd_pkts"]
			if decrypted == 0 || decrypted != received || now["rx_icrc_encapsulated"] != before[i]["rx_icrc_encapsulated"] {
				t.Errorf("%s\n%s", s.host.Name(), dump(s.dev))
			}
		}
	}
}

// exchangeAll has a do one operation of each kind with all memory of both, and compares.
func exchangeAll(t *testing.T, a, b *side) {
	t.Helper()
	for i, op := range []verbs.Op{verbs.OpWrite, verbs.OpRead, verbs.OpSend} {
		for j := range a.buf {
			a.buf[j], b.buf[j] = byte(j*7+i), byte(j*13+i)
		}
		if op == verbs.OpSend {
			if err := b.qp.PostRecv(&verbs.RecvWR{SGL: b.sge(0, len(b.buf))}); err != nil {
				t.Fatal(err)
			}
		}
		a.post(t, &verbs.SendWR{Op: op, Flags: verbs.Signaled, SGL: a.sge(0, len(a.buf)), RemoteAddr: b.va, RKey: b.key})
		if c := a.poll(t); c.Status != verbs.StatusSuccess {
			t.Fatalf("%v: %v", op, c.Status)
		}
		if op == verbs.OpSend {
			b.poll(t)
		}
		if !bytes.Equal(a.buf, b.buf) {
			t.Errorf("%v: the data differs", op)
		}
	}
}

func countersOf(s *side) map[string]uint64 {
	m := map[string]uint64{}
	for _, c := range s.dev.Counters() {
		m[c.Name] = c.Value
	}
	return m
}
