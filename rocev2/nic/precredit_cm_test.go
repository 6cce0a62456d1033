// SPDX-License-Identifier: Apache-2.0

package nic_test

import (
	"bytes"
	"testing"
	"time"

	"github.com/softroce/softroce-xdp/internal/testkit"
	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/cm"
	"github.com/softroce/softroce-xdp/rocev2/nic"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
	"github.com/softroce/softroce-xdp/testenv/lab/engines"
	"github.com/softroce/softroce-xdp/testenv/lab/faults"
	"github.com/softroce/softroce-xdp/testenv/lab/topo"
)

// creditPrograms are two programs that connect by the communication manager, on hosts with pre-credit
// that know each other, and the switch between them.
func creditPrograms(t *testing.T) (a, b *program, sw *faults.Switch) {
	t.Helper()
	top := topo.ForTest(t, topo.Spec{Hosts: topo.Hosts(2)})
	hosts := engines.On(t, top, "--policy", "mode=fixed")
	sw = testkit.Must1(faults.NewLoss(top))(t)
	t.Cleanup(func() {
		if err := sw.Close(); err != nil {
			t.Error(err)
		}
	})
	for _, h := range hosts {
		h.MustOpen(t, nic.Options{PreCredit: true})
	}
	a, b = newProgram(t, hosts[0].Dev, hosts[0].IPv4()), newProgram(t, hosts[1].Dev, hosts[1].IPv4())
	testkit.Must(t, b.s.Listen(cmPort, 0))
	// A grant alone shows that the peer understands, but is forgotten with the last connection. HELLO,
	// which announces it for good, may take seconds.
	for end := time.Now().Add(testkit.Patience); !knownToEachOther(t, a, b); {
		if time.Now().After(end) {
			t.Fatalf("the hosts do not get to know each other\n%s\n%s", dump(a.dev), dump(b.dev))
		}
	}
	return a, b, sw
}

// knownToEachOther reports whether the first data of two new connections left on pre-credit, one in each direction.
func knownToEachOther(t *testing.T, a, b *program) bool {
	t.Helper()
	known := true
	for _, from := range []*program{a, b} {
		used := counter(from.dev, "precredit_used")
		qa, qb, id, _ := a.dial(t, b)
		if from == a {
			firstData(t, a, b, qa, 1000)
		} else {
			firstData(t, b, a, qb, 1000)
		}
		known = known && counter(from.dev, "precredit_used") > used
		hangUp(t, a, b, id, qa, qb)
	}
	return known
}

// firstData posts a SEND right when p is established, and returns when it has arrived.
func firstData(t *testing.T, p, to *program, q verbs.QP, n int) {
	t.Helper()
	half := len(p.buf) / 2
	for i := range n {
		p.buf[half+i] = byte(i * 5)
	}
	testkit.Must(t, q.PostSend(&verbs.SendWR{Op: verbs.OpSend, Flags: verbs.Signaled, SGL: p.sge(half, n)}))
	p.poll(t, verbs.OpSend)
	if c := to.poll(t, verbs.OpRecv); int(c.Bytes) != n || !bytes.Equal(to.buf[:n], p.buf[half:half+n]) {
		t.Errorf("%+v, or other bytes", c)
	}
}

// patientHold has first data wait longer for its grant than a machine stands still. Data that has waited for so long
// leaves without pre-credit.
func patientHold(t *testing.T) { t.Cleanup(nic.SetCreditHold(20 * time.Second)) }

// lapsed is how much pre-credit for data of from has ended unused, in bytes: its life ends where a machine stands still
// between a grant and the first data. Then the data need not leave on it.
func lapsed(from, to *program) uint64 {
	return counter(from.dev, "precredit_returned") + counter(to.dev, "precredit_reclaimed")
}

// left reports whether all of the first data has left on pre-credit. If not, pre-credit must have lapsed since an earlier
// value of lapsed: the test begins again.
func left(t *testing.T, from, to *program, bytes, want, before uint64) bool {
	t.Helper()
	if bytes != want && lapsed(from, to) == before {
		t.Fatalf("%d of the first %d bytes left on pre-credit\n%s\n%s", bytes, want, dump(from.dev), dump(to.dev))
	}
	return bytes == want
}

// lasts runs a test until pre-credit lasts until the first data. It lapses as well where a sender ignores its grant:
// hence the few runs.
func lasts(t *testing.T, test func() bool) {
	t.Helper()
	const runs = 4
	for range runs {
		if test() {
			return
		}
	}
	t.Fatalf("pre-credit lapsed before the first data in each of %d runs", runs)
}

// The first data of a connection leaves on pre-credit, whichever end sends it: the grant has come
// before.
func TestCMPreCredit(t *testing.T) {
	patientHold(t)
	a, b, _ := creditPrograms(t)
	const n = 4000 // few packets: those after the first ACK leave without pre-credit
	for i := range 10 {
		lasts(t, func() bool {
			from, to := a, b
			if i%2 == 1 {
				from, to = b, a
			}
			before, used := lapsed(from, to), counter(from.dev, "precredit_used")
			qa, qb, id, _ := a.dial(t, b)
			q := qa
			if from == b {
				q = qb
			}
			firstData(t, from, to, q, n)
			all := left(t, from, to, counter(from.dev, "precredit_used")-used, n, before)
			hangUp(t, a, b, id, qa, qb)
			return all
		})
	}
}

// A lost grant comes again, and the first data waits for it.
func TestCMPreCreditLost(t *testing.T) {
	patientHold(t)
	lasts(t, func() bool { return lostGrant(t) })
}

// lostGrant returns false if pre-credit has lapsed.
func lostGrant(t *testing.T) bool {
	t.Helper()
	a, b, sw := creditPrograms(t)
	testkit.Must(t, sw.Lose(1, rocev2.OpCreditGrant))
	before, already, ended := counter(a.dev, "precredit_used"), counter(a.dev, "tx_data_pkts"), lapsed(a, b)
	lost := testkit.Must1(sw.Lost(rocev2.OpCreditGrant))(t)
	qa, qb, id, _ := a.dial(t, b)
	const n = 20000
	done := make(chan struct{})
	go func() {
		defer close(done)
		for end := time.Now().Add(testkit.Patience); time.Now().Before(end); time.Sleep(time.Millisecond) {
			if now, err := sw.Lost(rocev2.OpCreditGrant); err != nil || now >= lost+6 {
				break
			}
		}
		if sent := counter(a.dev, "tx_data_pkts") - already; sent != 0 && lapsed(a, b) == ended {
			t.Errorf("%d packets of data left before the grant", sent)
		}
		if err := sw.Lose(0, rocev2.OpCreditGrant); err != nil {
			t.Error(err)
		}
	}()
	firstData(t, a, b, qa, n)
	<-done
	all := left(t, a, b, counter(a.dev, "precredit_used")-before, n, ended)
	hangUp(t, a, b, id, qa, qb)
	return all
}

// Where no grant comes at all, the first data leaves without.
func TestCMPreCreditNeverGranted(t *testing.T) {
	a, b, sw := creditPrograms(t)
	testkit.Must(t, sw.Lose(1, rocev2.OpCreditGrant))
	qa, qb, id, _ := a.dial(t, b)
	used := counter(a.dev, "precredit_used")
	firstData(t, a, b, qa, 20000)
	firstData(t, b, a, qb, 20000)
	if n := counter(a.dev, "precredit_used"); n != used {
		t.Errorf("%d bytes left on pre-credit that never came", n-used)
	}
	hangUp(t, a, b, id, qa, qb)
}

// The grant of the passive end, which is connected first, is kept until the active end is connected:
// here no other arrives.
func TestCMPreCreditEarly(t *testing.T) {
	patientHold(t)
	lasts(t, func() bool { return earlyGrant(t) })
}

// earlyGrant returns false if pre-credit has lapsed.
func earlyGrant(t *testing.T) bool {
	t.Helper()
	a, b, sw := creditPrograms(t)
	ended, ignored := lapsed(a, b), counter(a.dev, "precredit_ignored")
	qa := a.newQP(t)
	id := testkit.Must1(a.s.Connect(a.params(b, qa)))(t)
	req := b.await(t, cm.Request)
	qb := b.newQP(t)
	path := req.Path
	path.Local.QPN, path.Remote.PSN = qb.QPN(), 0x222
	testkit.Must(t, path.Connect(qb))
	for end := time.Now().Add(testkit.Patience); counter(a.dev, "precredit_ignored") == ignored; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("no grant comes\n%s\n%s", dump(a.dev), dump(b.dev))
		}
	}
	testkit.Must(t, sw.Lose(1, rocev2.OpCreditGrant))
	testkit.Must(t, b.s.Accept(req.ID, path, nil))
	used := counter(a.dev, "precredit_used")
	rep := a.await(t, cm.Reply)
	testkit.Must(t, rep.Path.Connect(qa))
	testkit.Must(t, a.s.Ready(id, nil))
	firstData(t, a, b, qa, 20000)
	return left(t, a, b, counter(a.dev, "precredit_used")-used, 20000, ended)
}
