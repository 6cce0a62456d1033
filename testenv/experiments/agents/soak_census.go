// SPDX-License-Identifier: Apache-2.0

package agents

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/cilium/ebpf"

	"github.com/softroce/softroce-xdp/loader"
	"github.com/softroce/softroce-xdp/testenv/lab/engines"
	"github.com/softroce/softroce-xdp/testenv/lab/topo"
)

// Census is what the agent of a host has: in its process, in the kernel and in files.
type Census struct {
	Held
	PID         int
	Heap        int            // KiB that the latest garbage collection has found in use
	Pinned      int            // KiB, VmPin
	Mappings    int            // mappings of any kind
	Named       map[string]int // mappings of memfds and of BPF maps, by name
	Namespaces  int            // network namespaces of the threads
	Kinds       map[string]int // descriptors by what they are
	Entries     map[string]int // entries of the BPF maps that are hash tables
	Files       []string       // files of the run directory, and pins
	Processes   int            // processes that have the device open
	Connections int            // connections of these processes
}

// entries sums the entries of all maps.
func (c *Census) entries() (n int) {
	for _, v := range c.Entries {
		n += v
	}
	return n
}

// perPeer are the maps that keep entries of other hosts for ten minutes after their last packet. Their number depends on
// which addresses were used lately. The limit is the number of addresses that there are.
var perPeer = []string{"dest_table", "rate_limits", "arrival_limits", "arrival_counts", "tx_tokens", "hello_limit"}

// more returns how a census has more than an earlier one. Memory and the number of all mappings are not compared: they
// change without a leak, and judgeMemory judges them over the periods.
// goroutines is how many of these a process may have more, because the garbage collector starts them with time.
func (c *Census) more(than *Census, goroutines, addresses int) (out []string) {
	note := func(what string, now, before int) {
		if now > before {
			out = append(out, fmt.Sprintf("%s: %d, before %d", what, now, before))
		}
	}
	note("processes at the device", c.Processes, 0)
	note("connections", c.Connections, 0)
	note("descriptors", c.Descriptors, than.Descriptors)
	note("goroutines", c.Goroutines, than.Goroutines+goroutines)
	note("network namespaces of threads", c.Namespaces, 1)
	note("KiB pinned", c.Pinned, than.Pinned)
	for _, kinds := range []struct {
		what         string
		now, earlier map[string]int
	}{{"descriptors of ", c.Kinds, than.Kinds}, {"mappings of ", c.Named, than.Named}} {
		for _, k := range sortedKeys(kinds.now) {
			note(kinds.what+k, kinds.now[k], kinds.earlier[k])
		}
	}
	for _, name := range sortedKeys(c.Entries) {
		limit := than.Entries[name]
		if slices.Contains(perPeer, name) {
			limit = max(limit, addresses)
		}
		note("entries of the map "+name, c.Entries[name], limit)
	}
	for _, f := range c.Files {
		if !slices.Contains(than.Files, f) {
			out = append(out, "the file "+f+" is new")
		}
	}
	for _, f := range than.Files {
		if !slices.Contains(c.Files, f) {
			out = append(out, "the file "+f+" is missing")
		}
	}
	return out
}

func sortedKeys(m map[string]int) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// census reads what the agent of a host has.
func (s *soak) census(h *engines.Host) (c Census, err error) {
	st, err := loader.ReadState(h.LoaderOptions().RunDir, topo.IfName)
	if err != nil {
		return c, err
	}
	if c.Held, err = heldBy(st.AgentPID); err != nil {
		return c, err
	}
	c.PID = st.AgentPID
	if c.Goroutines, err = s.counter.count(c.PID); err != nil {
		return c, err
	}
	if c.Heap, err = s.heap.marked(c.PID); err != nil {
		return c, err
	}
	if err := c.readProcess(); err != nil {
		return c, err
	}
	if err := c.readPins(loader.PinDir(h.LoaderOptions().PinRoot, topo.IfName)); err != nil {
		return c, err
	}
	return c, c.readFiles(h.LoaderOptions().RunDir)
}

// number matches what differs between descriptors and mappings of a kind.
var number = regexp.MustCompile(`[0-9]+`)

// readProcess reads mappings, kinds of descriptors, namespaces, and pinned memory.
func (c *Census) readProcess() error {
	proc := fmt.Sprintf("/proc/%d/", c.PID)
	status, err := os.ReadFile(proc + "status")
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(status)) {
		for name, to := range map[string]*int{"VmPin:": &c.Pinned} {
			if rest, ok := strings.CutPrefix(line, name); ok {
				_, _ = fmt.Sscan(rest, to)
			}
		}
	}
	maps, err := os.ReadFile(proc + "maps")
	if err != nil {
		return err
	}
	c.Named = map[string]int{}
	for line := range strings.Lines(string(maps)) {
		c.Mappings++
		if _, name, ok := strings.Cut(line, "/memfd:"); ok {
			c.Named["memfd "+strings.TrimSpace(name)]++
		} else if i := strings.Index(line, "anon_inode:"); i >= 0 {
			c.Named[strings.TrimSpace(line[i:])]++
		}
	}
	fds, err := os.ReadDir(proc + "fd")
	if err != nil {
		return err
	}
	c.Kinds = map[string]int{}
	for _, e := range fds {
		name, err := os.Readlink(proc + "fd/" + e.Name())
		if err == nil { // else it was closed meanwhile
			c.Kinds[number.ReplaceAllString(name, "N")]++
		}
	}
	tasks, err := filepath.Glob(proc + "task/*/ns/net")
	if err != nil {
		return err
	}
	spaces := map[string]bool{}
	for _, path := range tasks {
		if ns, err := os.Readlink(path); err == nil {
			spaces[ns] = true
		}
	}
	c.Namespaces = len(spaces)
	return nil
}

// readPins lists the pins and counts the entries of the maps that are hash tables.
func (c *Census) readPins(dir string) error {
	c.Entries = map[string]int{}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		c.Files = append(c.Files, "pin "+e.Name())
		m, err := ebpf.LoadPinnedMap(filepath.Join(dir, e.Name()), &ebpf.LoadPinOptions{ReadOnly: true})
		if err != nil {
			continue // a program or a link
		}
		switch m.Type() {
		case ebpf.Hash, ebpf.LRUHash:
			c.Entries[e.Name()] = countEntries(m)
		}
		_ = m.Close()
	}
	return nil
}

// countEntries counts the entries of a hash table. A table that changes meanwhile may start again.
func countEntries(m *ebpf.Map) (n int) {
	var key any
	for {
		next, err := m.NextKeyBytes(key)
		if err != nil || next == nil || n > int(m.MaxEntries()) {
			return n
		}
		key = next
		n++
	}
}

// readFiles lists the run directory.
func (c *Census) readFiles(dir string) error {
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist): // a temporary file
			return nil
		case err != nil:
			return err
		case strings.HasSuffix(path, ".log.1"): // the log after a mebibyte
			return nil
		}
		c.Files = append(c.Files, strings.TrimPrefix(path, dir))
		return nil
	})
	slices.Sort(c.Files)
	return err
}

// leftOfTopology returns what is left of the hosts after their end.
func (s *soak) leftOfTopology() (left []string) {
	if s.top == nil {
		return nil
	}
	for _, h := range append(slices.Clone(s.top.Hosts()), s.top.Switch()) {
		if _, err := os.Stat(h.NamespacePath()); err == nil {
			left = append(left, "the network namespace "+h.NamespacePath()+" is left")
		}
	}
	for _, h := range s.hosts {
		if _, err := os.Stat(h.LoaderOptions().PinRoot); err == nil {
			left = append(left, "the pins "+h.LoaderOptions().PinRoot+" are left")
		}
		if sockets, _ := filepath.Glob(h.LoaderOptions().RunDir + "/*.sock"); len(sockets) > 0 {
			left = append(left, fmt.Sprintf("sockets are left: %v", sockets))
		}
	}
	for i := range s.result.Periods {
		for _, c := range s.result.Periods[i].Agents {
			if s.ownAgent(c.PID) {
				left = append(left, fmt.Sprintf("agent %d lives after detach", c.PID))
			}
		}
	}
	return left
}
