// SPDX-License-Identifier: Apache-2.0

package cmhost_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/softroce/softroce-xdp/rocev2/cm"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// rping is one end of the exchange of rping(1) on a queue pair of the engine. The client tells
// where its text is; the server reads it, and writes it back to where the client says next.
// What tells is a SEND of address, key and length, 16 bytes big-endian.
type rping struct {
	ctx  context.Context
	cq   verbs.CQ
	qp   verbs.QP
	mr   verbs.MR
	buf  []byte // 16 bytes to send, 16 to receive, the text
	undo []func() error
}

const (
	infoLen = 16
	textAt  = 2 * infoLen
	textMax = 4096
)

func newRping(ctx context.Context, dev verbs.Device) (r *rping, err error) {
	r = &rping{ctx: ctx, buf: make([]byte, textAt+textMax)}
	defer func() {
		if err != nil {
			err = errors.Join(err, r.close())
		}
	}()
	pd, err := dev.AllocPD()
	if err != nil {
		return r, err
	}
	r.undo = append(r.undo, pd.Free)
	if r.cq, err = dev.CreateCQ(64); err != nil {
		return r, err
	}
	r.undo = append(r.undo, r.cq.Destroy)
	all := verbs.AccessLocalWrite | verbs.AccessRemoteRead | verbs.AccessRemoteWrite
	if r.mr, err = pd.RegMR(r.buf, all); err != nil {
		return r, err
	}
	r.undo = append(r.undo, r.mr.Deregister)
	r.qp, err = pd.CreateQP(verbs.QPInit{Type: verbs.RC, SendCQ: r.cq, RecvCQ: r.cq, MaxSend: 8, MaxRecv: 8})
	if err != nil {
		return r, err
	}
	r.undo = append(r.undo, r.qp.Destroy)
	// The peer may send as soon as it is connected.
	if err = verbs.ToInit(r.qp, verbs.Endpoint{}, verbs.DefaultAttr()); err != nil {
		return r, err
	}
	return r, r.postRecv()
}

func (r *rping) close() error {
	var errs []error
	for i := len(r.undo) - 1; i >= 0; i-- {
		errs = append(errs, r.undo[i]())
	}
	r.undo = nil
	return errors.Join(errs...)
}

func (r *rping) sge(at, n int) []verbs.SGE {
	return []verbs.SGE{{Addr: r.mr.VA() + uint64(at), Len: uint32(n), LKey: r.mr.LKey()}}
}

func (r *rping) postRecv() error { return r.qp.PostRecv(&verbs.RecvWR{SGL: r.sge(infoLen, infoLen)}) }

// next waits for a completion of an operation. Completions come in the order of the exchange.
func (r *rping) next(want verbs.Op) error {
	var c [1]verbs.Completion
	for r.cq.Poll(c[:]) == 0 {
		if err := r.cq.Wait(r.ctx, false); err != nil {
			return err
		}
	}
	if c[0].Status != verbs.StatusSuccess {
		return fmt.Errorf("operation %d: %s, want operation %d", c[0].WRID, c[0].Status, want)
	}
	if c[0].Op != want {
		return fmt.Errorf("operation %d completed, want %d", c[0].Op, want)
	}
	return nil
}

func (r *rping) do(wr verbs.SendWR) error {
	wr.ID, wr.Flags = uint64(wr.Op), verbs.Signaled
	if err := r.qp.PostSend(&wr); err != nil {
		return err
	}
	// The peer may answer before the completion of a SEND is there.
	if wr.Op == verbs.OpSend {
		return nil
	}
	return r.next(wr.Op)
}

// tell sends the place of the text.
func (r *rping) tell(n int) error {
	binary.BigEndian.PutUint64(r.buf, r.mr.VA()+textAt)
	binary.BigEndian.PutUint32(r.buf[8:], r.mr.RKey())
	binary.BigEndian.PutUint32(r.buf[12:], uint32(n))
	return r.do(verbs.SendWR{Op: verbs.OpSend, SGL: r.sge(0, infoLen)})
}

// told takes the peer's SEND and posts the next receive. The completion of the own SEND before it
// may come in between.
func (r *rping) told(sent bool) (va uint64, key uint32, n int, err error) {
	want := map[verbs.Op]bool{verbs.OpRecv: true, verbs.OpSend: sent}
	for want[verbs.OpRecv] || want[verbs.OpSend] {
		var c [1]verbs.Completion
		for r.cq.Poll(c[:]) == 0 {
			if err := r.cq.Wait(r.ctx, false); err != nil {
				return 0, 0, 0, err
			}
		}
		if c[0].Status != verbs.StatusSuccess || !want[c[0].Op] {
			return 0, 0, 0, fmt.Errorf("completion %+v", c[0])
		}
		delete(want, c[0].Op)
	}
	info := r.buf[infoLen:textAt]
	va, key, n = binary.BigEndian.Uint64(info), binary.BigEndian.Uint32(info[8:]), int(binary.BigEndian.Uint32(info[12:]))
	if n > textMax {
		return 0, 0, 0, fmt.Errorf("the peer's text has %d bytes", n)
	}
	return va, key, n, r.postRecv()
}

// serve answers pings and returns the last text.
func (r *rping) serve(count int) (text string, err error) {
	sent := false
	for range count {
		va, key, n, err := r.told(sent)
		if err != nil {
			return text, fmt.Errorf("source: %w", err)
		}
		if err := r.do(verbs.SendWR{Op: verbs.OpRead, SGL: r.sge(textAt, n), RemoteAddr: va, RKey: key}); err != nil {
			return text, fmt.Errorf("read: %w", err)
		}
		text = string(r.buf[textAt : textAt+n])
		if err := r.tell(0); err != nil {
			return text, err
		}
		if va, key, _, err = r.told(true); err != nil {
			return text, fmt.Errorf("sink: %w", err)
		}
		if err := r.do(verbs.SendWR{Op: verbs.OpWrite, SGL: r.sge(textAt, n), RemoteAddr: va, RKey: key}); err != nil {
			return text, fmt.Errorf("write: %w", err)
		}
		if err := r.tell(0); err != nil {
			return text, err
		}
		sent = true
	}
	return text, r.next(verbs.OpSend)
}

// ping sends a text as the client and wants it back.
func (r *rping) ping(text string) error {
	n := len(text)
	copy(r.buf[textAt:], text)
	for step := range 2 { // the source, then the sink
		if err := r.tell(n); err != nil {
			return err
		}
		if _, _, _, err := r.told(true); err != nil {
			return fmt.Errorf("step %d: %w", step, err)
		}
		if step == 0 {
			clear(r.buf[textAt:])
		}
	}
	if got := string(r.buf[textAt : textAt+n]); got != text {
		return fmt.Errorf("%q came back, want %q", got, text)
	}
	return nil
}

// await returns the next event, which must be of a kind.
func await(ctx context.Context, events <-chan cm.Event, want cm.Kind) (cm.Event, error) {
	select {
	case e := <-events:
		if e.Kind != want {
			return e, fmt.Errorf("event %s (%w), want %s", e.Kind, errOrNone(e.Err), want)
		}
		return e, nil
	case <-ctx.Done():
		return cm.Event{}, fmt.Errorf("no event %s: %w", want, ctx.Err())
	}
}

var errNone = errors.New("no error")

func errOrNone(err error) error {
	if err == nil {
		return errNone
	}
	return err
}

// bounded is the context of one exchange. An emulated machine on a busy host may be slow.
func bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, 3*time.Minute)
}

func family(a netip.Addr) string {
	if a.Is4() {
		return "IPv4"
	}
	return "IPv6"
}
