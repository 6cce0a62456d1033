// SPDX-License-Identifier: Apache-2.0

package rates

// The files pacer_*.go measure how well each pacer keeps the rates of the destination
// table: how far from the rate what leaves is, how soon a changed rate is in force, and
// whether packets of one queue pair keep their order meanwhile.
//
// A rate counts L2 frames without FCS and without the stamp option. What leaves is
// counted by the interface, in packets, all of the same length.

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/softroce/softroce-xdp/bpf"
	"github.com/softroce/softroce-xdp/loader"
	"github.com/softroce/softroce-xdp/testenv/lab/topo"
)

// Names of what can be measured: the pacers that need no kernel module which is
// missing on small machines, and the engine's own.
var Names = []string{"htb", "police", "engine"}

// PacerConfig of a run.
type PacerConfig struct {
	Bin     string         // the product
	Rates   []uint64       // bit/s
	Measure time.Duration  // measured time of each rate; at least 300 packets are counted in any case
	Tries   int            // tries of a rate that is missed from below; default 1
	Stalls  bool           // the machine is emulated, its time stands still now and then: too fast is no proof either
	Stamped bool           // the peer understands stamps: they must not count
	Note    func(PacerRow) // called with each row as it is done; may be nil
}

// PacerRow is one pacer at one rate.
type PacerRow struct {
	Pacer    string
	RateBps  uint64
	Frame    int     // bytes of L2, without FCS
	Measured float64 // bit/s

	// Time after this rate was set at a tenth of it, and a tenth after this: from the
	// setting to the table, and from there to the moment at which the packets leave as if
	// the rate had changed at once.
	Up, Down Change

	Tries     int     // number of tries, of which this was the last
	Reordered uint64  // packets that arrived behind a later one of their queue pair
	Unpaced   float64 // bit/s that this source sends at the interface's rate: what the machine can carry
	Limited   bool    // Unpaced is less than the rate, or hardly more
}

// carries notes what the source sends unpaced.
func (r *PacerRow) carries(bps float64) {
	r.Unpaced, r.Limited = bps, float64(r.RateBps) > 0.9*bps
}

// Change is how long a change of the rate took.
type Change struct{ Table, Wire time.Duration }

// Error is how far off the rate is, as a part of it.
func (r *PacerRow) Error() float64 { return r.Measured/float64(r.RateBps) - 1 }

// pacerSource sends packets of one length as fast as it is let.
type pacerSource interface {
	// start sends about offered bit/s, if the pacer does not push back. stop waits.
	start(offered uint64)
	stop() error
}

// bench is one pacer at work.
type bench struct {
	name  string
	cfg   PacerConfig
	top   *topo.Topology
	att   *loader.Attachment
	live  *loader.LiveConfig
	link  int
	frame int
	src   pacerSource
	sink  *pacerSink
	undo  []func() error
}

// RunPacers measures the pacers at all rates, and returns what it has also with an error.
func RunPacers(ctx context.Context, cfg PacerConfig, names ...string) (rows []PacerRow, err error) {
	for _, name := range names {
		for _, part := range bySize(cfg.Rates) {
			got, err := runPacer(ctx, cfg, name, part)
			rows = append(rows, got...)
			if err != nil {
				return rows, fmt.Errorf("pacer %s: %w", name, err)
			}
		}
	}
	return rows, nil
}

// sized are rates that are measured with packets of one size.
type sized struct {
	payload int
	rates   []uint64
}

// bySize takes small packets for low rates, so that there are enough of them, and
// large ones for high rates, so that these can be reached.
func bySize(rates []uint64) (parts []sized) {
	small, large := sized{payload: 1024}, sized{payload: 4096}
	for _, r := range rates {
		if r <= 100e6 {
			small.rates = append(small.rates, r)
		} else {
			large.rates = append(large.rates, r)
		}
	}
	for _, p := range []sized{small, large} {
		if len(p.rates) > 0 {
			parts = append(parts, p)
		}
	}
	return parts
}

func runPacer(ctx context.Context, cfg PacerConfig, name string, part sized) (rows []PacerRow, err error) {
	b := &bench{name: name, cfg: cfg, frame: etherLen + ipLen + udpLen + bthLen + dethLen + part.payload + icrcLen}
	defer func() {
		for i := len(b.undo) - 1; i >= 0; i-- {
			err = errors.Join(err, b.undo[i]())
		}
	}()
	if err := b.build(part.payload); err != nil {
		return nil, err
	}
	capable, err := b.unpaced()
	if err != nil {
		return nil, err
	}
	for _, rate := range part.rates {
		if err := ctx.Err(); err != nil {
			return rows, err
		}
		r := PacerRow{Pacer: name, RateBps: rate, Frame: b.frame}
		if r.carries(capable); r.Limited {
			r.Measured = capable
		} else if err := b.tries(&r); err != nil {
			return rows, fmt.Errorf("at %d bit/s: %w", rate, err)
		}
		rows = append(rows, r)
		if cfg.Note != nil {
			cfg.Note(r)
		}
	}
	return rows, nil
}

// linkRate is what the interface is said to have.
const linkRate = 20e9

func (b *bench) build(payload int) (err error) {
	dir, err := os.MkdirTemp("", "pacers-")
	if err != nil {
		return err
	}
	b.undo = append(b.undo, func() error { return os.RemoveAll(dir) })
	if b.top, err = topo.New(topo.Spec{Hosts: topo.Hosts(2), MTU: 4300, StaticNeighbours: true}); err != nil {
		return err
	}
	b.undo = append(b.undo, b.top.Close)
	if b.sink, err = newSink(b.top.Host(2)); err != nil {
		return err
	}
	b.undo = append(b.undo, b.sink.close)

	from, to := b.top.Host(1), b.top.Host(2)
	nodes := filepath.Join(dir, "nodes.yaml")
	text := fmt.Sprintf("nodes:\n  - {number: 1, addresses: [%s]}\n  - {number: 2, addresses: [%s]}\n", from.IPv4(), to.IPv4())
	if err := os.WriteFile(nodes, []byte(text), 0o644); err != nil {
		return err
	}
	pacer := b.name
	if pacer == "engine" {
		pacer = "police" // for the host's packets, of which there are none
	}
	hosts := []*topo.Host{from}
	if b.cfg.Stamped {
		hosts = append(hosts, to)
	}
	for i, h := range hosts {
		o := loader.Options{PinRoot: "/sys/fs/bpf/" + h.Namespace(), RunDir: filepath.Join(dir, h.Name())}
		common := []string{topo.IfName, "--pin-root", o.PinRoot, "--run-dir", o.RunDir}
		// The heartbeat of an agent that stands still must not end the pacing.
		args := append([]string{"attach", "--pacer", pacer, "--rate", fmt.Sprint(int(linkRate)), "--nodes", nodes, "--node", fmt.Sprint(i + 1),
			"--policy", "mode=fixed", "--heartbeat-timeout", "1h"}, common...)
		if out, err := h.Command(b.cfg.Bin, args...).CombinedOutput(); err != nil {
			return fmt.Errorf("attach: %w\n%s", err, out)
		}
		b.undo = append(b.undo, func() error {
			if out, err := h.Command(b.cfg.Bin, append([]string{"detach"}, common...)...).CombinedOutput(); err != nil {
				return fmt.Errorf("detach: %w\n%s", err, out)
			}
			os.Remove(o.PinRoot)
			return nil
		})
		if i > 0 {
			continue
		}
		if b.att, err = loader.Open(topo.IfName, o); err != nil {
			return err
		}
		if b.live, err = b.att.LiveConfig(); err != nil {
			return err
		}
		b.undo = append(b.undo, func() error { b.att.Close(); return b.live.Close() })
		l, err := h.Netlink().LinkByName(topo.IfName)
		if err != nil {
			return err
		}
		b.link = l.Attrs().Index
		if b.src, err = b.newSource(o, payload); err != nil {
			return err
		}
	}
	if b.cfg.Stamped {
		return b.await("stamps", func(d *bpf.DestRegs) bool { return d.Caps&bpf.CapStamp != 0 })
	}
	return nil
}

func (b *bench) newSource(o loader.Options, payload int) (pacerSource, error) {
	from, to := b.top.Host(1), b.top.Host(2)
	if b.name == "engine" {
		s, err := newEngineSource(o, from, to, payload)
		if err == nil {
			b.undo = append(b.undo, s.close)
		}
		return s, err
	}
	s, err := newSocketSource(from, to, payload, b.name == "police")
	if err == nil {
		b.undo = append(b.undo, s.close)
	}
	return s, err
}

// patience ends what has failed: a wait for a decision of the agent, a message, a flow without an answer.
const patience = 5 * time.Minute

// await waits until the peer's entry is so.
func (b *bench) await(what string, so func(*bpf.DestRegs) bool) error {
	for deadline := time.Now().Add(patience); ; time.Sleep(200 * time.Microsecond) {
		r, found, err := b.att.Lookup(b.top.Host(2).IPv4())
		if err != nil {
			return err
		}
		if found && so(&r.Regs) {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("waited %v in vain for %s (the table says %d bit/s, %d packets sent)", patience, what, r.Regs.RateBps, r.Regs.TxPackets)
		}
	}
}

// sent is how many packets the interface has sent.
func (b *bench) sent() (uint64, time.Time, error) {
	l, err := b.top.Host(1).Netlink().LinkByIndex(b.link)
	if err != nil {
		return 0, time.Time{}, err
	}
	return l.Attrs().Statistics.TxPackets, time.Now(), nil
}
