// SPDX-License-Identifier: Apache-2.0

package agents

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/softroce/softroce-xdp/loader"
)

// Force is what is in force on the interface, as the kernel and the file system describe it.
// It does not use the product's own code for that.
type Force struct {
	XDP, Egress string // names of the programs, in their order
	Root        string // kind and handle of the root qdisc
	Classes     int
	Pins        int
	State       bool // the state file is there, and names the interface
	Agent       bool // the process of the state file is alive
}

func (f Force) String() string {
	return fmt.Sprintf("XDP %s, egress %s, root qdisc %s with %d classes, %d pins, state file %t, agent %t", f.XDP, f.Egress, f.Root, f.Classes, f.Pins, f.State, f.Agent)
}

// covers reports whether all of want is in force. There may be more classes: destinations come.
func (f Force) covers(want Force) bool {
	if f.Classes < want.Classes {
		return false
	}
	f.Classes = want.Classes
	return f == want
}

// Force reads what is in force.
func (l *Lab) Force() (f Force, err error) {
	nl, err := l.A.Netlink().LinkByName(ifName)
	if err != nil {
		return f, err
	}
	if x := nl.Attrs().Xdp; x != nil && x.Attached {
		f.XDP = programName(x.ProgId)
	}
	if f.Egress, err = l.egress(nl); err != nil {
		return f, err
	}
	qdiscs, err := l.A.Netlink().QdiscList(nl)
	if err != nil {
		return f, err
	}
	for _, q := range qdiscs {
		if q.Attrs().Parent == netlink.HANDLE_ROOT {
			f.Root = q.Type() + " " + netlink.HandleStr(q.Attrs().Handle)
		}
	}
	classes, err := l.A.Netlink().ClassList(nl, 0)
	if err != nil {
		return f, err
	}
	f.Classes = len(classes)
	pins, err := os.ReadDir(loader.PinDir(l.pins, ifName))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return f, err
	}
	f.Pins = len(pins)
	state := l.state()
	f.State = state.Interface == ifName
	f.Agent = state.AgentPID != 0 && unix.Kill(state.AgentPID, 0) == nil
	return f, nil
}

// egress returns the programs that see a packet that leaves: those of TCX, then those of clsact.
func (l *Lab) egress(dev netlink.Link) (string, error) {
	var names []string
	err := l.A.Do(func() error {
		r, err := link.QueryPrograms(link.QueryOptions{Target: dev.Attrs().Index, Attach: ebpf.AttachTCXEgress})
		if err != nil {
			return err
		}
		for _, p := range r.Programs {
			names = append(names, programName(uint32(p.ID)))
		}
		return nil
	})
	if err != nil {
		return "", err
	}
	filters, err := l.A.Netlink().FilterList(dev, netlink.HANDLE_MIN_EGRESS)
	if err != nil {
		filters = nil // no clsact
	}
	for _, f := range filters {
		if b, ok := f.(*netlink.BpfFilter); ok {
			names = append(names, "clsact "+programName(uint32(b.Id)))
		}
	}
	return strings.Join(names, ", "), nil
}

func programName(id uint32) string {
	p, err := ebpf.NewProgramFromID(ebpf.ProgramID(id))
	if err != nil {
		return fmt.Sprint(id)
	}
	defer p.Close()
	info, err := p.Info()
	if err != nil {
		return fmt.Sprint(id)
	}
	return info.Name
}

// state is the product's state file; empty if there is none.
func (l *Lab) state() (s loader.State) {
	if b, err := os.ReadFile(l.run + "/" + ifName + ".json"); err == nil {
		_ = json.Unmarshal(b, &s) // a damaged file is an empty one here
	}
	return s
}
