// SPDX-License-Identifier: Apache-2.0

package nicbench

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/nic"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
	"github.com/softroce/softroce-xdp/testenv/bench/internal/status"
)

// goodputTarget is the share of the bytes a second that must be left of raw AF_XDP with a copy of the
// data and an ICRC at both ends.
const goodputTarget = 0.90

var operations = []struct {
	name string
	op   verbs.Op
}{{"WRITE", verbs.OpWrite}, {"READ", verbs.OpRead}, {"SEND", verbs.OpSend}}

// overhead is what a middle packet of a message has around its payload: Ethernet,
// IPv4, UDP, BTH, ICRC, and the stamp, which peers of ours get.
const overhead = 14 + 20 + rocev2.MinUDPLen + rocev2.StampLen

// bytesInFlight is how many bytes are in flight at once, in messages of at least two.
const bytesInFlight = 1 << 20

// stage is one row of the goodput table.
type stage struct {
	name         string
	op           verbs.Op
	size         int
	frames, data []float64 // bytes a second, round by round
	shares       []float64 // shares of the limit right before and after
	cpu          []float64 // ns a KB of data
	again        uint64
}

// goodput compares what gets through: the engine's operations, and raw AF_XDP with
// frames as long as theirs. What this machine can do changes from second to second:
// the limit, raw AF_XDP with a copy of the data and an ICRC at both ends, is measured before
// and after each operation, on the same interfaces without the product.
func goodput(ctx context.Context, w *world, c config, r *report) error {
	for _, pmtu := range []rocev2.PMTU{rocev2.PMTU2048, rocev2.PMTU4096} {
		frame := overhead + pmtu.Bytes()
		raw := &stage{name: fmt.Sprintf("raw AF_XDP, frames of %d", frame)}
		var all []*stage
		for _, o := range operations {
			for _, size := range []int{4 << 10, 64 << 10, 1 << 20} {
				s := &stage{name: fmt.Sprintf("%s of %s", o.name, bytes(size)), op: o.op, size: size}
				if strings.Contains(s.name, c.match) {
					all = append(all, s)
				}
			}
		}
		base := &stage{name: "  and copy and ICRC at both ends"}
		limit := func() (bytes float64, err error) { return base.limit(ctx, w, pmtu, frame, c.each, true) }
		for range c.rounds {
			if _, err := raw.limit(ctx, w, pmtu, frame, c.each, false); err != nil {
				return err
			}
			before, err := limit()
			if err != nil {
				return err
			}
			for _, s := range all {
				err := w.withEngines(nic.Options{}, func(devs [2]*nic.Device) error { return s.measure(devs, w, pmtu, c.each) })
				if err != nil {
					return fmt.Errorf("%s: %w", s.name, err)
				}
				after, err := limit()
				if err != nil {
					return err
				}
				s.shares = append(s.shares, s.frames[len(s.frames)-1]/((before+after)/2))
				before = after
			}
		}
		r.table(fmt.Sprintf("Goodput, PMTU %d", pmtu.Bytes()), "ON THE VETH PAIR\tGOODPUT GBIT/S\tFRAMES GBIT/S\tMIN TO MAX\tCPU NS/KB\tSENT AGAIN\tOF THE LIMIT\tTARGET\t\t")
		r.limit(base.frames)
		for _, s := range append([]*stage{raw, base}, all...) {
			share, verdict := status.Median(s.frames)/status.Median(base.frames), none
			if len(s.shares) > 0 {
				share = status.Median(s.shares)
				verdict = r.atLeast(share, goodputTarget, "%.2f")
			}
			r.row("%s\t%.2f\t%.2f\t%s\t%.0f\t%d\t%.3f\t%s", s.name, status.Median(s.data)*8/1e9, status.Median(s.frames)*8/1e9,
				span(s.frames8(), "%.2f"), status.Median(s.cpu), s.again, share, verdict)
		}
		r.end("Shares compare bytes of Ethernet frames that arrived (ACKs do not count) with the mean of the limit, raw AF_XDP with copy and ICRC, right before and right after; the median of the rounds'.")
	}
	return nil
}

// limit is raw AF_XDP for one more time.
func (s *stage) limit(ctx context.Context, w *world, pmtu rocev2.PMTU, frame int, length time.Duration, data bool) (bytes float64, err error) {
	cpu := processCPU()
	l, err := Loop(ctx, w.ends, LoopSpec{Size: frame, Duration: length, Data: data})
	if err != nil {
		return 0, err
	}
	if l.Sent != l.Received {
		return 0, fmt.Errorf("the raw loop lost %d of %d", l.Sent-l.Received, l.Sent)
	}
	s.frames, s.data = append(s.frames, l.Bytes), append(s.data, l.PPS*float64(pmtu.Bytes()))
	s.cpu = append(s.cpu, float64(processCPU()-cpu)/(float64(l.Received)*float64(pmtu.Bytes())/1e3))
	return l.Bytes, nil
}

func (s *stage) frames8() []float64 {
	out := make([]float64, len(s.frames))
	for i, v := range s.frames {
		out[i] = v * 8 / 1e9
	}
	return out
}

// measure runs the stage once on a fresh queue pair.
func (s *stage) measure(devs [2]*nic.Device, w *world, pmtu rocev2.PMTU, length time.Duration) error {
	under := max(2, bytesInFlight/s.size)
	p, err := newPair(devs, w.addrs, pairSpec{qps: 1, depth: under, memory: bytesInFlight, pmtu: pmtu})
	if err != nil {
		return err
	}
	before := [2]map[string]uint64{counters(devs[0]), counters(devs[1])}
	f, err := p.run(stream{op: s.op, size: s.size, under: under}, length/4, length, nil, nil)
	if err != nil {
		return fmt.Errorf("%w\n%s", err, moved(devs, before))
	}
	var again, packets, stamped uint64
	for i, d := range devs {
		now := counters(d)
		again += now["tx_retransmits"] - before[i]["tx_retransmits"]
		packets += now["sent_pkts"] - before[i]["sent_pkts"]
		stamped += now["tx_stamped"] - before[i]["tx_stamped"]
	}
	data := f.perSecond() * float64(s.size)
	around := overhead - rocev2.StampLen
	if stamped > packets/2 {
		around = overhead
	}
	messagePackets := (s.size + pmtu.Bytes() - 1) / pmtu.Bytes()
	s.data = append(s.data, data)
	s.frames = append(s.frames, data+f.perSecond()*float64(messagePackets*around))
	s.cpu = append(s.cpu, float64(f.cpu)/(float64(f.messages)*float64(s.size)/1e3))
	s.again += again
	return p.close()
}

// moved lists the counters that differ.
func moved(devs [2]*nic.Device, before [2]map[string]uint64) (out string) {
	for i, d := range devs {
		for name, v := range counters(d) {
			if v != before[i][name] {
				out += fmt.Sprintf("  host %d: %s %d\n", i+1, name, v-before[i][name])
			}
		}
	}
	return out
}

// bytes is a size as people say it.
func bytes(n int) string {
	switch {
	case n >= 1<<20 && n%(1<<20) == 0:
		return fmt.Sprintf("%d MB", n>>20)
	case n >= 1<<10 && n%(1<<10) == 0:
		return fmt.Sprintf("%d KB", n>>10)
	}
	return fmt.Sprintf("%d B", n)
}
