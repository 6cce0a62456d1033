// SPDX-License-Identifier: Apache-2.0

package cm

import (
	"encoding/binary"
	"slices"
	"testing"
	"time"

	"github.com/softroce/softroce-xdp/rocev2/mad"
	"github.com/softroce/softroce-xdp/testenv/lab/samples"
)

// forged is the message of a host that sees no packets, and knows all but one of the numbers of a row.
type forged struct {
	t     *testing.T
	wrong samples.Secret
}

// number is a number that the forger guesses: another one if its secret is the wrong one.
func (f forged) number(s samples.Secret, right uint32) uint32 {
	if f.wrong == s {
		return right ^ 0x100
	}
	return right
}

// send gives an end the message, and reports whether the application is told of an event of a kind.
func (f forged) send(w *world, h *host, c *conn, m mad.Header, k Kind) bool {
	h.Receive(w.now, c.peer, c.local, m, Plain)
	w.carry()
	return slices.Contains(h.kinds(c.id), k)
}

// asking has a connection whose REQ waits for its answer.
func asking(t *testing.T) (w *world, c *conn) {
	w = newWorld(t, 1, nil)
	c = w.a.conns[w.connect(params())]
	w.a.auto = false
	w.a.Take()
	return w, c
}

// A message of the communication manager in the name of a peer that stamps nothing needs what the table says, and
// has no effect with one number wrong. From a peer that stamps none gets here without the token (TestForgeries of
// rocev2/nic).
func TestForgedMessages(t *testing.T) {
	for kind, send := range map[string]func(f forged) bool{
		"REQ": func(f forged) bool {
			w := newWorld(f.t, 1, nil)
			w.listen(0)
			w.b.Receive(w.now, addrA, addrB, request(f.t).Header, Plain)
			w.carry()
			return slices.Contains(w.b.kinds(0), Request)
		},
		"REP": func(f forged) bool {
			w, c := asking(f.t)
			m := mad.NewREP(9, 7, f.number(samples.CommID, uint32(c.id)))
			m.SetQPN(0x666)
			return f.send(w, w.a, c, m.Header, Reply)
		},
		"RTU": func(f forged) bool {
			w := newWorld(f.t, 1, nil)
			w.listen(0)
			r := request(f.t)
			r.SetLocalCommID(7)
			w.b.Receive(w.now, addrA, addrB, r.Header, Plain)
			w.carry()
			c := w.b.conns[w.b.the(f.t, Request).ID]
			return f.send(w, w.b, c, mad.NewRTU(9, 7, f.number(samples.CommID, uint32(c.id))).Header, Established)
		},
		"REJ of a REQ": func(f forged) bool {
			w, c := asking(f.t)
			m := mad.NewREJ(9, 0, f.number(samples.CommID, uint32(c.id)), mad.KindREQ, mad.ReasonConsumer)
			return f.send(w, w.a, c, m.Header, Failed)
		},
		"REJ of a connection": func(f forged) (took bool) {
			for _, active := range []bool{false, true} {
				w, h, c := connectedWorld(f.t, active)
				ids := []uint32{c.remote}
				if f.wrong == samples.PeerCommID { // 0 is the one of a peer that has none
					ids = []uint32{c.remote ^ 1, 0}
				}
				for _, id := range ids {
					m := mad.NewREJ(9, id, f.number(samples.CommID, uint32(c.id)), mad.KindREP, mad.ReasonConsumer)
					took = f.send(w, h, c, m.Header, Disconnected) || took
				}
				if f.wrong == samples.CommID && !active { // as of a peer that never learned this end's ID
					m := mad.NewREJ(9, c.remote, 0, mad.KindOther, mad.ReasonTimeout)
					if err := m.SetInfo(binary.BigEndian.AppendUint64(nil, c.guid)); err != nil {
						f.t.Fatal(err)
					}
					took = f.send(w, h, c, m.Header, Disconnected) || took
				}
			}
			return took
		},
		"DREQ": func(f forged) bool {
			w, h, c := connectedWorld(f.t, false)
			m := mad.NewDREQ(9, f.number(samples.PeerCommID, c.remote), f.number(samples.CommID, uint32(c.id)),
				f.number(samples.QPN, c.path.Local.QPN))
			return f.send(w, h, c, m.Header, Disconnected)
		},
	} {
		samples.Try(t, kind, samples.Plain, func(t *testing.T, _ samples.Peer, wrong samples.Secret) (bool, []string) {
			return send(forged{t, wrong}), nil
		})
	}
}

// A REJ without the peer's ID still refuses a REQ for which the peer has asked for time.
func TestREJAfterMRA(t *testing.T) {
	w, c := asking(t)
	w.a.Receive(w.now, c.peer, c.local, mad.NewMRA(9, 7, uint32(c.id), mad.KindREQ).Header, Plain)
	if c.remote != 7 {
		t.Fatal("the MRA was not taken")
	}
	w.run(time.Millisecond)
	w.a.Receive(w.now, c.peer, c.local, mad.NewREJ(9, 0, uint32(c.id), mad.KindREQ, mad.ReasonConsumer).Header, Plain)
	w.carry()
	w.want(w.a, c.id, Failed, Gone)
}
