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
	"github.com/softroce/softroce-xdp/testenv/bench/internal/compare"
)

// goodputTarget is the share of the bytes a second that must be left of raw AF_XDP with a copy of the
// data and an ICRC at both ends.
var goodputTarget = compare.AtLeast(0.90, "%.2f")

var operations = []struct {
	name string
	op   verbs.Op
}{{"WRITE", verbs.OpWrite}, {"READ", verbs.OpRead}, {"SEND", verbs.OpSend}}

// overhead is what a middle packet of a message has around its payload: Ethernet,
// IPv4, UDP, BTH, ICRC, and the stamp, which peers of ours get.
const overhead = 14 + 20 + rocev2.MinUDPLen + rocev2.StampLen

// bytesInFlight is how many bytes are in flight at once, in messages of at least two.
const bytesInFlight = 1 << 20

// passed is what got through in one measurement.
type passed struct {
	frames, data float64 // Gbit/s of Ethernet frames, and of messages
	cpu          float64 // ns a KB of data
	again        uint64  // packets sent again
}

// goodput compares what gets through: the engine's operations, and raw AF_XDP with
// frames as long as theirs. What this machine can do changes from second to second:
// the limit, raw AF_XDP with a copy of the data and an ICRC at both ends, is measured before
// and after each operation, on the same interfaces without the product.
func goodput(ctx context.Context, w *world, c config, r *compare.Report) error {
	for _, pmtu := range []rocev2.PMTU{rocev2.PMTU2048, rocev2.PMTU4096} {
		frame := overhead + pmtu.Bytes()
		limit := compare.Candidate[passed]{Name: "  and copy and ICRC at both ends", Measure: func(ctx context.Context) (passed, error) {
			return rawLoop(ctx, w, pmtu, frame, c.each, true)
		}}
		all := []compare.Candidate[passed]{{Name: fmt.Sprintf("raw AF_XDP, frames of %d", frame), Measure: func(ctx context.Context) (passed, error) {
			return rawLoop(ctx, w, pmtu, frame, c.each, false)
		}}}
		for _, o := range operations {
			for _, size := range []int{4 << 10, 64 << 10, 1 << 20} {
				name := fmt.Sprintf("%s of %s", o.name, bytes(size))
				if !strings.Contains(name, c.match) {
					continue
				}
				all = append(all, compare.Candidate[passed]{Name: name, Measure: func(context.Context) (p passed, err error) {
					err = w.withEngines(nic.Options{}, func(devs [2]*nic.Device) (err error) {
						p, err = measureGoodput(devs, w, pmtu, o.op, size, c.each)
						return err
					})
					return p, err
				}})
			}
		}
		got, err := compare.Refer(ctx, c.rounds, limit, all...)
		if err != nil {
			return err
		}
		frames := func(p passed) float64 { return p.frames }
		t := r.Titled(fmt.Sprintf("Goodput, PMTU %d", pmtu.Bytes()),
			"ON THE VETH PAIR\tGOODPUT GBIT/S\tFRAMES GBIT/S\tMIN TO MAX\tCPU NS/KB\tSENT AGAIN\tOF THE LIMIT\tTARGET\t\t")
		t.Reference(got.Reference.Series(frames))
		row := func(name string, runs compare.Runs[passed], share float64, verdict string) {
			again := uint64(0)
			for _, p := range runs {
				again += p.again
			}
			f := runs.Series(frames)
			t.Row("%s\t%.2f\t%.2f\t%s\t%.0f\t%d\t%.3f\t%s", name, runs.Series(func(p passed) float64 { return p.data }).Median(), f.Median(), f.Span("%.2f"),
				runs.Series(func(p passed) float64 { return p.cpu }).Median(), again, share, verdict)
		}
		for i, x := range all {
			shares, verdict := got.Shares(i, frames), compare.None
			if i > 0 {
				verdict = t.Median(goodputTarget, shares)
			}
			row(x.Name, got.Runs[i], shares.Median(), verdict)
			if i == 0 {
				row(limit.Name, got.Reference, 1, compare.None)
			}
		}
		t.End("Shares compare bytes of Ethernet frames that arrived (ACKs do not count) with the mean of the limit, " +
			"raw AF_XDP with copy and ICRC, right before and right after; the median of the rounds'.")
	}
	return nil
}

const gbit = 1e9 / 8 // bytes a second

// rawLoop measures raw AF_XDP.
func rawLoop(ctx context.Context, w *world, pmtu rocev2.PMTU, frame int, length time.Duration, data bool) (p passed, err error) {
	cpu := compare.CPU()
	l, err := Loop(ctx, w.ends, LoopSpec{Size: frame, Duration: length, Data: data})
	if err != nil {
		return p, err
	}
	if l.Sent != l.Received {
		return p, fmt.Errorf("the raw loop lost %d of %d", l.Sent-l.Received, l.Sent)
	}
	kilobytes := float64(l.Received) * float64(pmtu.Bytes()) / 1e3
	return passed{frames: l.Bytes / gbit, data: l.PPS * float64(pmtu.Bytes()) / gbit, cpu: float64(compare.CPU()-cpu) / kilobytes}, nil
}

// measureGoodput measures an operation on a fresh queue pair.
func measureGoodput(devs [2]*nic.Device, w *world, pmtu rocev2.PMTU, op verbs.Op, size int, length time.Duration) (x passed, err error) {
	under := max(2, bytesInFlight/size)
	p, err := newPair(devs, w.addrs, pairSpec{qps: 1, depth: under, memory: bytesInFlight, pmtu: pmtu})
	if err != nil {
		return x, err
	}
	before := [2]map[string]uint64{counters(devs[0]), counters(devs[1])}
	f, err := p.run(stream{op: op, size: size, under: under}, length/4, length, nil, nil)
	if err != nil {
		return x, fmt.Errorf("%w\n%s", err, moved(devs, before))
	}
	var packets, stamped uint64
	for i, d := range devs {
		now := counters(d)
		x.again += now["tx_retransmits"] - before[i]["tx_retransmits"]
		packets += now["sent_pkts"] - before[i]["sent_pkts"]
		stamped += now["tx_stamped"] - before[i]["tx_stamped"]
	}
	data := f.perSecond() * float64(size)
	around := overhead - rocev2.StampLen
	if stamped > packets/2 {
		around = overhead
	}
	messagePackets := (size + pmtu.Bytes() - 1) / pmtu.Bytes()
	x.data = data / gbit
	x.frames = (data + f.perSecond()*float64(messagePackets*around)) / gbit
	x.cpu = float64(f.cpu) / (float64(f.messages) * float64(size) / 1e3)
	return x, p.close()
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
