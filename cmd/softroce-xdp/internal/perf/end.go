// SPDX-License-Identifier: Apache-2.0

package perf

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"

	"github.com/softroce/softroce-xdp/cmd/internal/cli"
	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/seal"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// end is one side of a run: its queue pairs and their memory.
type end struct {
	dev    verbs.Device
	plan   *Plan
	pd     verbs.PD
	cq     verbs.CQ
	qps    []verbs.QP
	psns   []rocev2.PSN
	ah     verbs.AH
	buf    []byte // a slice of `stride` bytes for each queue pair
	free   func([]byte) error
	stride uint64
	region verbs.MR
	before map[string]uint64

	handshakes []*seal.Handshake // handshakes of the client, one for each queue pair; nil for a plain run
}

const qkey = 0x11111111

// failure is the error of a work request that failed. The end of the device flushes work requests, and may be
// seen after them: it is the error then.
func (e *end) failure(what string, s verbs.Status) error {
	if s == verbs.StatusWRFlushed {
		if _, err := e.dev.Port(); err != nil {
			return err
		}
	}
	return fmt.Errorf("%s: %s", what, s)
}

// memoryOf returns memory, and what frees it. Some devices have memory of their own, which they access
// faster than private memory of the process. That is mapped, not allocated by Go: it is cleared once only, and
// the garbage collector does not scan it.
func memoryOf(dev verbs.Device, n int, private bool) (b []byte, free func([]byte) error, err error) {
	if a, ok := dev.(interface {
		Alloc(n int) ([]byte, error)
		Free(b []byte) error
	}); ok && !private {
		b, err = a.Alloc(n)
		return b, a.Free, err
	}
	b, err = unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_POPULATE)
	return b, unix.Munmap, err
}

// ooo is RC in out-of-order mode.
var services = map[string]verbs.QPType{"rc": verbs.RC, "uc": verbs.UC, "ud": verbs.UD, "ooo": verbs.RC}

// newEnd makes memory and queue pairs. The server's receive queues are filled by
// connect.
func newEnd(ctx context.Context, dev verbs.Device, p *Plan) (_ *end, err error) {
	e := &end{dev: dev, plan: p, before: counts(dev)}
	defer func() {
		if err != nil {
			_ = e.close()
		}
	}()
	if e.pd, err = dev.AllocPD(); err != nil {
		return nil, err
	}
	e.stride = p.stride()
	if e.buf, e.free, err = memoryOf(dev, int(e.stride)*p.QPs, p.Private); err != nil {
		return nil, fmt.Errorf("%s of memory: %w: lower --size or --qps", cli.Bytes(p.memory()), err)
	}
	if e.region, err = e.pd.RegMR(e.buf, verbs.AccessLocalWrite|verbs.AccessRemoteWrite|verbs.AccessRemoteRead|verbs.AccessRemoteAtomic); err != nil {
		return nil, err
	}
	// Every message may have a completion at both of its ends.
	if e.cq, err = dev.CreateCQ(min(2*p.Depth*p.QPs+16, dev.Limits().CQ)); err != nil {
		return nil, err
	}
	for range p.QPs {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		x, err := e.pd.CreateQP(verbs.QPInit{
			Type: services[p.Service], SendCQ: e.cq, RecvCQ: e.cq,
			MaxSend: p.Depth, MaxRecv: e.recvDepth(), OutOfOrder: p.Service == "ooo", Payload: p.Payload,
		})
		if err != nil {
			return nil, err
		}
		e.qps = append(e.qps, x)
		var r [4]byte
		_, _ = rand.Read(r[:])
		e.psns = append(e.psns, rocev2.PSN(binary.NativeEndian.Uint32(r[:])&rocev2.PSNMask))
	}
	return e, nil
}

// recvDepth returns the number of receives of a queue pair: twice the depth, if the device
// permits it.
func (e *end) recvDepth() int { return min(2*e.plan.Depth, e.dev.Limits().WR) }

// pairs describes the queue pairs to the peer.
func (e *end) pairs() []pair {
	out := make([]pair, len(e.qps))
	for i, x := range e.qps {
		out[i] = pair{QPN: x.QPN(), PSN: uint32(e.psns[i]), QKey: qkey}
	}
	return out
}

// connect brings the queue pairs to RTS, on so many further interfaces.
func (e *end) connect(ctx context.Context, peer *message, rails int, pmtu rocev2.PMTU, receiving bool) error {
	if len(peer.Pairs) != len(e.qps) {
		return fmt.Errorf("the peer made %d queue pairs for our %d", len(peer.Pairs), len(e.qps))
	}
	for i, x := range e.qps {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err := e.useRails(x, rails, peer.Rails); err != nil {
			return err
		}
		if err := e.raise(x, i, peer.Addr, peer.Pairs[i], pmtu, receiving); err != nil {
			return fmt.Errorf("queue pair %d: %w", i, err)
		}
	}
	return nil
}

func (e *end) raise(x verbs.QP, i int, addr netip.Addr, peer pair, pmtu rocev2.PMTU, receiving bool) (err error) {
	local := verbs.Endpoint{PSN: e.psns[i], QKey: qkey}
	remote := verbs.Endpoint{Addr: addr, QPN: peer.QPN, PSN: rocev2.PSN(peer.PSN) & rocev2.PSNMask}
	a := verbs.DefaultAttr()
	a.PMTU, a.MaxRdAtomic, a.MaxDestRdAtomic = pmtu, maxReads, maxReads
	a.Timeout, a.RetryCnt = e.plan.Timeout, e.plan.Retries
	if err := verbs.ToInit(x, local, a); err != nil {
		return err
	}
	if receiving && e.plan.Op == "send" {
		for range e.recvDepth() {
			if err := e.postRecv(i); err != nil {
				return err
			}
		}
	}
	if err := verbs.Connect(x, local, remote, a); err != nil {
		return err
	}
	if x.Type() == verbs.UD && e.ah == nil {
		e.ah, err = e.pd.CreateAH(verbs.AddressVector{Dst: addr})
	}
	return err
}

// maxReads is how many READs or ATOMICs are outstanding on a queue pair: as many as
// the device takes, as perftest does (128 on rxe).
const maxReads = 128

// sge is the memory of queue pair i.
func (e *end) sge(i int) verbs.SGE {
	n := e.plan.Size
	if e.plan.Service == "ud" {
		n += verbs.GRHLen
	}
	return verbs.SGE{Addr: e.region.VA() + uint64(i)*e.stride, Len: n, LKey: e.region.LKey()}
}

func (e *end) postRecv(i int) error {
	return e.qps[i].PostRecv(&verbs.RecvWR{ID: uint64(i), SGL: []verbs.SGE{e.sge(i)}})
}

// close destroys queue pairs, memory and the other resources.
func (e *end) close() error {
	var errs []error
	for _, x := range e.qps {
		errs = append(errs, x.Destroy())
	}
	if e.ah != nil {
		errs = append(errs, e.ah.Destroy())
	}
	if e.cq != nil {
		errs = append(errs, e.cq.Destroy())
	}
	if e.region != nil {
		errs = append(errs, e.region.Deregister())
	}
	if e.pd != nil {
		errs = append(errs, e.pd.Free())
	}
	if e.buf != nil {
		errs = append(errs, e.free(e.buf))
	}
	return errors.Join(errs...)
}

// counters returns the counters that changed during the run, as differences.
func (e *end) counters() map[string]uint64 {
	now := counts(e.dev)
	for name, n := range e.before {
		if now[name] == n {
			delete(now, name)
		} else {
			now[name] -= n
		}
	}
	return now
}

func counts(d verbs.Device) map[string]uint64 {
	m := map[string]uint64{}
	if s, ok := d.(verbs.Statistics); ok {
		for _, c := range s.Counters() {
			m[c.Name] = c.Value
		}
	}
	delete(m, "queue_pairs")
	return m
}

// troubles are the counters that are printed if they have changed.
var troubles = []string{
	"tx_retransmits", "local_ack_timeout_err", "rcvd_seq_err", "rcvd_rnr_err", "sack_rcvd",
	"out_of_seq_request", "rx_icrc_encapsulated", "rx_no_buffer", "rx_xsk_dropped",
	"rx_xsk_ring_full", "rx_xsk_fill_empty", "tx_no_path",
}
