// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/softroce/softroce-xdp/bpf"
	"github.com/softroce/softroce-xdp/cc/fourcase"
	"github.com/softroce/softroce-xdp/internal/testkit"
	"github.com/softroce/softroce-xdp/loader"
	"github.com/softroce/softroce-xdp/testenv/experiments/rates"
	"github.com/softroce/softroce-xdp/testenv/lab/require"
	"github.com/softroce/softroce-xdp/testenv/lab/topo"
)

// attached is the product as the S1.9 experiment drives it.
type attached struct {
	t     *testing.T
	nodes []*node
	table *loader.Attachment
}

// Attach attaches every host with a node file of all (S1.2), so that HELLO has
// measured the idle network before data fills it.
func (p *attached) Attach(hosts []*topo.Host) error {
	p.nodes = nil
	file := filepath.Join(p.t.TempDir(), "nodes.yaml")
	var text strings.Builder
	text.WriteString("nodes:\n")
	for i, h := range hosts {
		fmt.Fprintf(&text, "  - {number: %d, addresses: [%s]}\n", i+1, h.IPv4())
	}
	if err := os.WriteFile(file, []byte(text.String()), 0o644); err != nil {
		return err
	}
	for _, h := range hosts {
		n := newNode(p.t, h)
		if out, err := n.try("attach", topo.IfName, "--rate", "1G", "--nodes", file); err != nil {
			return fmt.Errorf("%s: %w\n%s", h.Name(), err, out)
		}
		// Two cores play four machines here, and run late by as much as the default
		// target of 500 us is at 400 Mbit/s.
		if out, err := n.try("policy", "set", topo.IfName, "--target", "750us"); err != nil {
			return fmt.Errorf("%s: %w\n%s", h.Name(), err, out)
		}
		p.nodes = append(p.nodes, n)
	}
	var err error
	if p.table, err = loader.Open(topo.IfName, p.nodes[0].options()); err != nil {
		return err
	}
	// A host asks again 50 ms after it found a peer not yet attached, and so on.
	for end := time.Now().Add(testkit.Patience); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		rows, err := p.table.Rows()
		if err != nil {
			return err
		}
		measured := 0
		for _, r := range rows {
			if r.Regs.Caps&bpf.CapStamp != 0 && r.Regs.Policy.State&fourcase.StateBase != 0 {
				measured++
			}
		}
		if measured == len(hosts)-1 {
			return nil
		}
	}
	return fmt.Errorf("HELLO did not measure every node within %v", testkit.Patience)
}

func (p *attached) Detach() error {
	p.table.Close()
	for _, n := range p.nodes {
		if p.t.Failed() || testing.Verbose() {
			stats, _ := n.try("stats", topo.IfName)
			p.t.Logf("%s:\n%s", n.host.Name(), stats)
		}
		if out, err := n.try("detach", topo.IfName); err != nil {
			return fmt.Errorf("%s: %w\n%s", n.host.Name(), err, out)
		}
	}
	return nil
}

func (p *attached) Rows() ([]rates.IsolationRow, error) {
	rows, err := p.table.Rows()
	var out []rates.IsolationRow
	for _, r := range rows {
		out = append(out, rates.IsolationRow{
			Dest: r.Addr, TxNS: r.Regs.TxNs, RxNS: r.Regs.RxNs, QueueingTxNS: r.Regs.Policy.QueueingTxNs,
			RateBPS: r.Regs.RateBps, Case: int(r.Regs.Policy.CaseNo), Decreased: rates.Decreased(&r.Regs),
		})
	}
	return out, err
}

// TestPerDestination is S1.9: each bottleneck stays full with a short queue, and
// slowing one receiver leaves the other alone. SOFTROCE_REPORT names a folder for
// the report and the plot.
//
// That is judged where time is (package timing); a run that missed is repeated there:
// three times if the machine was not ours meanwhile, once if it was. Everywhere the
// destinations have registers of their own, are decided on, and all data arrives.
func TestPerDestination(t *testing.T) {
	topo.RequireRoot(t)
	const tolerable = 0.1 // of the CPUs, for others
	runs := require.Tries(4)
	inPeace := 0 // runs that missed although the machine was ours
	for i := 1; i <= runs; i++ {
		ctx, cancel := context.WithTimeout(context.Background(), 2*testkit.Patience)
		watch := watchOthers(t)
		result, err := rates.RunIsolation(ctx, rates.IsolationConfig{}, &attached{t: t})
		cancel()
		if err != nil {
			t.Fatal(err)
		}
		busy := watch.share(t)
		var text strings.Builder
		if err := result.WriteText(&text); err != nil {
			t.Fatal(err)
		}
		t.Logf("run %d, others used %.0f %% of the machine\n%s", i, 100*busy, &text)
		writeReport(t, result, text.String())
		checkApart(t, result)
		missed := result.Failures()
		if len(missed) == 0 {
			return
		}
		if busy <= tolerable && result.Valid() {
			inPeace++
		}
		if i < runs && inPeace < 2 {
			continue
		}
		for _, f := range missed {
			require.Missed(t, "%s", f)
		}
		return
	}
}

// checkApart is what must hold of a run on every machine.
func checkApart(t *testing.T, r *rates.Result) {
	t.Helper()
	if r.Damaged != 0 {
		t.Errorf("%d packets arrived damaged", r.Damaged)
	}
	if r.Decreases[0] == 0 { // every machine fills what is left of A's bottleneck in the last phase
		t.Error("the rate to destination A was never decreased")
	}
	for i, decided := range r.Decided {
		if len(decided) == 0 {
			t.Errorf("nothing was decided on destination %d", i)
		}
		for _, p := range r.Phases {
			if p.Dest[i].PassedBPS == 0 {
				t.Errorf("%s: nothing arrived at destination %d", p.Name, i)
			}
		}
	}
}

func writeReport(t *testing.T, r *rates.Result, text string) {
	dir := os.Getenv("SOFTROCE_REPORT")
	if dir == "" {
		return
	}
	if err := os.WriteFile(filepath.Join(dir, "perdest.txt"), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	f, err := os.Create(filepath.Join(dir, "perdest.svg"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := r.WriteSVG(f); err != nil {
		t.Fatal(err)
	}
}
