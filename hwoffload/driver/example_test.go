// SPDX-License-Identifier: Apache-2.0

package driver_test

import (
	"errors"
	"fmt"
	"log"
	"net/netip"

	"github.com/softroce/softroce-xdp/hwoffload"
	"github.com/softroce/softroce-xdp/hwoffload/card"
	"github.com/softroce/softroce-xdp/hwoffload/driver"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// Two cards are joined by a network in memory. One writes to the memory of the other.
func Example() {
	net := card.NewVirtual(1)
	a, b := card.New(), card.New()
	net.Connect(a, 0, b, 0)

	// open makes regions and a queue pair on one card.
	open := func(m *card.Model, mac, peer byte) (*driver.Device, *driver.MR, verbs.CQ, verbs.QP) {
		c, err := hwoffload.Open(m)
		if err != nil {
			log.Fatal(err)
		}
		hop := func(netip.Addr) (driver.Hop, error) { return driver.Hop{MAC: [6]byte{2, 5: peer}}, nil }
		d, err := driver.New(c, driver.Config{RingBytes: 1 << 20, Resolve: hop})
		if err != nil {
			log.Fatal(err)
		}
		pd, err := d.AllocPD()
		if err != nil {
			log.Fatal(err)
		}
		mr, err1 := d.RegMR(driver.Spec{PD: pd.(*driver.PD).Number(), Addr: 1 << 33, Len: 4096, Access: verbs.AccessLocalWrite | verbs.AccessRemoteWrite})
		cq, err2 := d.CreateCQ(16)
		q, err3 := pd.CreateQP(verbs.QPInit{Type: verbs.RC, SendCQ: cq, RecvCQ: cq})
		if err := errors.Join(err1, err2, err3, d.SetPort(0, [6]byte{2, 5: mac})); err != nil {
			log.Fatal(err)
		}
		return d, mr, cq, q
	}
	da, mra, cq, qa := open(a, 1, 2)
	db, mrb, _, qb := open(b, 2, 1)
	end := func(q verbs.QP, addr string) verbs.Endpoint {
		return verbs.Endpoint{Addr: netip.MustParseAddr(addr), QPN: q.QPN(), PSN: 1}
	}
	ends := [2]verbs.Endpoint{end(qa, "10.0.0.1"), end(qb, "10.0.0.2")}
	if err := errors.Join(verbs.Connect(qa, ends[0], ends[1], verbs.DefaultAttr()), verbs.Connect(qb, ends[1], ends[0], verbs.DefaultAttr())); err != nil {
		log.Fatal(err)
	}

	if _, err := da.Card().DDR().WriteAt([]byte("hello"), 1<<33); err != nil {
		log.Fatal(err)
	}
	if err := qa.PostSend(&verbs.SendWR{ID: 7, Op: verbs.OpWrite, Flags: verbs.Signaled, SGL: []verbs.SGE{{Len: 5, LKey: mra.LKey()}}, RemoteAddr: 100, RKey: mrb.RKey()}); err != nil {
		log.Fatal(err)
	}
	var done [1]verbs.Completion
	if err := net.Run(1e9, func() bool { return cq.Poll(done[:]) == 1 }); err != nil {
		log.Fatal(err)
	}
	got := make([]byte, 5)
	if _, err := db.Card().DDR().ReadAt(got, 1<<33+100); err != nil {
		log.Fatal(err)
	}
	fmt.Printf("work request %d: %v, %s\n", done[0].WRID, done[0].Status, got)
	// Output: work request 7: success, hello
}
