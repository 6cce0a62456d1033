// SPDX-License-Identifier: Apache-2.0

package netbench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/softroce/softroce-xdp/bpf"
	"github.com/softroce/softroce-xdp/cc/fourcase"
	"github.com/softroce/softroce-xdp/loader"
	"github.com/softroce/softroce-xdp/testenv/lab/topo"
)

// demoProduct is the binary, as a user runs it on the two hosts.
type demoProduct struct {
	bin   string
	dir   string // folder of state files
	hosts []*topo.Host
}

func (p *demoProduct) options(h *topo.Host) loader.Options {
	return loader.Options{
		PinRoot: filepath.Join("/sys/fs/bpf", filepath.Base(p.dir)+"-"+h.Name()),
		RunDir:  filepath.Join(p.dir, h.Name()),
	}
}

func (p *demoProduct) run(h *topo.Host, args ...string) ([]byte, error) {
	o := p.options(h)
	c := h.Command(p.bin, append([]string{"--pin-root", o.PinRoot, "--run-dir", o.RunDir}, args...)...)
	return c.CombinedOutput()
}

func (p *demoProduct) attach() error {
	for _, h := range p.hosts {
		fmt.Printf("%s# softroce-xdp attach --rate 1G eth0\n", h.Name())
		out, err := p.run(h, "attach", "--rate", fmt.Sprint(linkRate), "eth0")
		fmt.Println(indent(out))
		if err != nil {
			return fmt.Errorf("attach on %s: %w", h.Name(), err)
		}
	}
	return nil
}

// close detaches and removes what was written.
func (p *demoProduct) close() error {
	var errs []error
	for _, h := range p.hosts {
		o := p.options(h)
		if names, _ := loader.Pinned(o.PinRoot); len(names) > 0 {
			if out, err := p.run(h, "detach", "--all"); err != nil {
				errs = append(errs, fmt.Errorf("detach on %s: %w: %s", h.Name(), err, out))
			}
		}
		if err := os.Remove(o.PinRoot); err != nil && !errors.Is(err, os.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(append(errs, os.RemoveAll(p.dir))...)
}

// watch prints h1's table every two seconds, and under it the decisions since.
func (p *demoProduct) watch(ctx context.Context) error {
	h := p.hosts[0]
	att, err := loader.Open("eth0", p.options(h))
	if err != nil {
		return err
	}
	defer att.Close()
	start := time.Now()
	d := decisions{seen: map[string]int{}}
	fast, slow := time.NewTicker(2*time.Millisecond), time.NewTicker(2*time.Second)
	defer fast.Stop()
	defer slow.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-fast.C:
			row, ok, err := att.Lookup(p.hosts[1].IPv4())
			if err != nil {
				return err
			}
			if ok {
				d.note(bpf.PolicyAs[fourcase.Regs](&row.Regs.Policy))
			}
		case <-slow.C:
			fmt.Printf("\nafter %.0f s: h1# softroce-xdp table\n", time.Since(start).Seconds())
			out, err := p.run(h, "table")
			fmt.Println(indent(out))
			if err != nil {
				return err
			}
			fmt.Println("  decisions since: " + d.take())
		}
	}
}

// decisions counts what the policy decided. It looks often, but may miss some.
type decisions struct {
	last  uint32
	order []string
	seen  map[string]int
}

func (d *decisions) note(r *fourcase.Regs) {
	if r.Decisions == d.last {
		return
	}
	d.last = r.Decisions
	what := r.Action.String()
	if r.CaseNo != 0 {
		what = fmt.Sprintf("case %d: %s", r.CaseNo, what)
	}
	if d.seen[what] == 0 {
		d.order = append(d.order, what)
	}
	d.seen[what]++
}

func (d *decisions) take() string {
	var parts []string
	for _, what := range d.order {
		parts = append(parts, fmt.Sprintf("%s x%d", what, d.seen[what]))
	}
	d.order, d.seen = nil, map[string]int{}
	if len(parts) == 0 {
		return "none"
	}
	return strings.Join(parts, ", ")
}

// dump shows the beginning of the table as bpftool prints it.
func (p *demoProduct) dump() error {
	path := filepath.Join(p.options(p.hosts[0]).PinRoot, "eth0", "dest_table")
	fmt.Println("h1# bpftool map dump pinned " + path)
	out, err := exec.Command("bpftool", "map", "dump", "pinned", path).Output()
	if err != nil {
		return fmt.Errorf("bpftool: %w", err)
	}
	lines := strings.SplitAfter(string(out), "\n")
	fmt.Println(indent([]byte(strings.Join(lines[:min(len(lines), 28)], ""))))
	fmt.Println("  ...")
	return nil
}
