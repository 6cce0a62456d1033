// SPDX-License-Identifier: Apache-2.0

package ooo

import (
	"fmt"
	"math/bits"

	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/mem"
	"github.com/softroce/softroce-xdp/rocev2/qp"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// Transport sends and receives for a queue pair in out-of-order mode, as qp.QP does for one of RC. State, attributes
// and receive queue are those of a qp.QP, whose requester and responder stay idle. A QP of this package exists
// from RTR on.
//
// Data waits until the peer is known to understand the mode, for AskTime at most.
type Transport struct {
	base *qp.QP
	conf TransportConfig
	q    *QP // nil in RESET and INIT

	sendQueue

	announced uint32  // a bit for each rail: the peer has announced the mode there, or has sent packets of it
	askAt     qp.Time // time of the next check, 0 = nothing waits for the announcement
	askUntil  qp.Time
}

// TransportConfig is fixed for the life of a Transport.
type TransportConfig struct {
	Payload int // most data of a packet, 0 = that of the PMTU (Config.Payload)
	Peer    Peer
	Count   *Counters
	Packet  *Outbound // buffer for the latest packet, which the queue pairs of an engine share
}

// Peer is what the engine knows of the peer of a queue pair. Rail 0 is its first interface.
type Peer interface {
	// Rails returns how many interfaces the queue pair uses.
	Rails() int
	// Announced reports whether the peer has announced the mode on a rail.
	Announced(rail int) bool
	// Ask has the engine find out soon whether the peer has announced the mode on a rail.
	Ask(rail int)
	// Refuse is called when the queue pair has ended because the peer has not announced the mode in time.
	Refuse()
	// StampOffset returns the clock of the stamps on a rail less the clock of qp.Time.
	StampOffset(rail int) Time
}

// Times of the wait for the announcement. The agent of a host whose engine has just been opened announces it
// within seconds.
const (
	AskPeriod = qp.Time(20e6)
	AskTime   = qp.Time(10e9)
)

// A notification is repeated for half a minute while the target has no receive work request.
const (
	notReadyTries = 1<<16 - 1
	notReadyDelay = 500 * Microsecond
)

// engineDelay is how long an answer may wait for the threads of the two engines, which share processors with
// others and take packets in batches. That is neither loss nor a queue of the network. The rate of the destination
// limits the latter.
const engineDelay = 8 * Millisecond

// railWindow is the window of a queue pair on one interface, in packets.
const railWindow = 256

// NewTransport returns the transport of a queue pair in RESET.
func NewTransport(base *qp.QP, conf TransportConfig) *Transport {
	return &Transport{base: base, conf: conf}
}

// QP returns the state machine of the connection, nil in RESET and INIT.
func (t *Transport) QP() *QP { return t.q }

// Modify is Modify of the queue pair. All changes of state come here, except those that the transport makes.
func (t *Transport) Modify(a verbs.Attr, mask verbs.AttrMask) error {
	from := t.base.State()
	if mask&verbs.MaskState != 0 && a.State == verbs.StateSQD {
		return fmt.Errorf("ooo: a queue pair in out-of-order mode has no state %s: wait for its completions", a.State)
	}
	if err := t.base.Modify(a, mask); err != nil {
		return err
	}
	if t.base.State() == from {
		return nil
	}
	return t.entered(t.base.State())
}

// entered acts on a new state.
func (t *Transport) entered(s verbs.State) (err error) {
	switch s {
	case verbs.StateReset:
		t.q, t.announced, t.askAt = nil, 0, 0
		t.forget()
	case verbs.StateRTR:
		t.q, err = New(t.config())
	case verbs.StateRTS:
		t.q.SetSendPSN(t.base.Attr().SQPSN)
	case verbs.StateErr:
		t.close(verbs.StatusWRFlushed)
	}
	return err
}

func (t *Transport) config() Config {
	c, a := t.base.Config(), t.base.Attr()
	conf := Config{
		QPN: c.QPN, PeerQPN: a.DestQPN, PD: c.PD, RecvPSN: a.RQPSN, PMTU: a.PMTU, Payload: t.conf.Payload, Seed: uint64(c.QPN),
		Messages: outstandingMessages(c.MaxSend), Memory: remoteMemory{c.Memory, t.base}, Deliver: t.notify, Complete: t.complete,
		Count: t.conf.Count, NotReadyTries: notReadyTries, NotReadyDelay: notReadyDelay,
		MinRTO: engineDelay, MinQueueing: engineDelay,
	}
	if n := t.conf.Peer.Rails(); n > 1 {
		conf.Rails, conf.Window = n, railWindow<<bits.Len(uint(n-1))
	}
	return conf
}

// close completes all work requests: the first one of those that were not begun with this status, if none
// was begun, and the others as flushed.
func (t *Transport) close(first verbs.Status) {
	if t.q != nil {
		t.q.Close()
	}
	t.askAt = 0
	t.flushWaiting(first)
}

// fail moves the queue pair to ERR. The first work request that was not begun has this status.
func (t *Transport) fail(first verbs.Status) {
	if t.base.Modify(verbs.Attr{State: verbs.StateErr}, verbs.MaskState) == nil {
		t.close(first)
	}
}

// isAnnounced reports whether data may be sent on a rail: the peer understands it.
func (t *Transport) isAnnounced(rail int) bool {
	if t.announced>>rail&1 == 0 && t.conf.Peer.Announced(rail) {
		t.announced |= 1 << rail
	}
	return t.announced>>rail&1 != 0
}

// unasked reports whether work waits for the announcement, and nothing has asked for it.
func (t *Transport) unasked() bool {
	return t.askAt == 0 && t.announced&1 == 0 && t.waiting.len() > 0
}

// ask begins the wait for the announcement where work waits for it, or ends it.
func (t *Transport) ask(now qp.Time) {
	switch {
	case t.isAnnounced(0) || t.waiting.len() == 0:
		t.askAt = 0
	case t.askAt == 0:
		t.askUntil = now + AskTime
		fallthrough
	default:
		t.askAt = now + AskPeriod
		t.conf.Peer.Ask(0)
	}
}

// refused ends the queue pair if the peer has not announced the mode in time.
func (t *Transport) refused(now qp.Time) bool {
	if t.askAt == 0 || now < t.askUntil || t.isAnnounced(0) {
		return false
	}
	t.fail(verbs.StatusRemoteInvalidRequest)
	t.conf.Peer.Refuse()
	return true
}

// Deadline returns when Expire must be called, or 0. The wait for the announcement begins at once: NextOn may be
// called much later, if there is no room for packets.
func (t *Transport) Deadline() qp.Time {
	if t.unasked() {
		return 1
	}
	at := t.askAt
	if t.q != nil {
		if d := qp.Time(t.q.Deadline()); at == 0 || d != 0 && d < at {
			at = d
		}
	}
	return at
}

// Expire handles the timers that have expired at now; an early call does nothing.
func (t *Transport) Expire(now qp.Time) {
	if t.unasked() || t.askAt != 0 && now >= t.askAt {
		if t.refused(now) {
			return
		}
		t.ask(now)
	}
	if t.q != nil {
		t.q.Expire(Time(now))
		t.flushEnded()
	}
}

// remoteMemory is the memory as the peer may use it: the rights of the queue pair count too (IBTA 9.7.4.1.4).
type remoteMemory struct {
	mem.Memory
	base *qp.QP
}

func (m remoteMemory) WriteRemote(pd, num, rkey uint32, addr uint64, src []byte) mem.Fault {
	if m.base.Access()&verbs.AccessRemoteWrite == 0 && len(src) > 0 {
		return mem.FaultRights
	}
	return m.Memory.WriteRemote(pd, num, rkey, addr, src)
}

func (m remoteMemory) CheckRemote(pd, num, rkey uint32, addr uint64, n uint32, need verbs.Access) mem.Fault {
	if m.base.Access()&need != need && n > 0 {
		return mem.FaultRights
	}
	return m.Memory.CheckRemote(pd, num, rkey, addr, n, need)
}

// notify takes a notification: it completes a receive work request.
func (t *Transport) notify(queue uint32, n Notification) rocev2.ONakCode {
	switch {
	case queue != 0: // the receive queue of the queue pair
		return rocev2.ONakInvalidRequest
	case !t.base.CompleteRecv(verbs.Completion{
		Op: verbs.OpRecvNotify, Bytes: n.Length, Imm: uint32(n.Descriptor), HasImm: true, Solicited: n.Solicited,
	}):
		return rocev2.ONakNotReady
	}
	return 0
}
