// SPDX-License-Identifier: Apache-2.0

package agents

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/softroce/softroce-xdp/rocev2/rdma"
	"github.com/softroce/softroce-xdp/rocev2/rdma/client"
	"github.com/softroce/softroce-xdp/rocev2/rdma/proto"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
	"github.com/softroce/softroce-xdp/testenv/lab/topo"
)

// soakEnv has the task of a program of a soak as JSON.
const soakEnv = "SOFTROCE_SOAK"

// Kinds of programs of a soak.
const (
	soakServer  = "server"
	soakClient  = "client"
	soakHostile = "hostile"
)

// Ports of the servers, one for each kind of connection.
const (
	plainPort = 7200 + iota
	sealedPort
	datagramPort
	disorderedPort
)

// soakTask is what a program of a soak does.
type soakTask struct {
	Kind   string
	RunDir string
	Seed   uint64
	Peers  []netip.Addr // IPv4 and IPv6 address of each host, to whose servers a client connects
	Spare  []netip.Addr // second address of each host, which exists at times only
}

// SoakProgress is what a program of a soak has done since it started. A program prints it once a second and at its end.
type SoakProgress struct {
	Visits      uint64            // connections and datagram exchanges that ended well, in full
	Connections uint64            // connections that were made or accepted
	Operations  uint64            // WRITEs, READs and messages whose data was compared
	Bytes       uint64            // payload of these
	Datagrams   uint64            // UD messages received and compared
	Failures    uint64            // visits that a fault has ended: lost devices, peers that do not answer
	Causes      map[string]uint64 // failures by their text without numbers
	Opened      uint64            // devices that were opened

	// Visits by kind and host, and UD messages received by the version of IP. For a period without hosts and times.
	Traffic map[string]SoakTraffic

	Wrong string // wrong data, or another error that no fault explains: the soak has failed
	Left  string // descriptors and goroutines that the program still has after the last Close
	Ended bool   // nothing follows
}

// soakProgram is a program of a soak while it runs.
type soakProgram struct {
	soakTask
	mu   sync.Mutex
	done SoakProgress
}

// add changes the progress.
func (p *soakProgram) add(change func(*SoakProgress)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change(&p.done)
}

func (p *soakProgram) print() {
	p.mu.Lock()
	b, _ := json.Marshal(p.done)
	p.mu.Unlock()
	fmt.Println(string(b))
}

// errWrong is the error of wrong data, which no fault of the network explains.
var errWrong = errors.New("wrong data")

// addresses matches what differs between errors of the same kind.
var addresses = regexp.MustCompile(`\[?[0-9a-f]*(:[0-9a-f]*){2,}\]?|[0-9]+(\.[0-9]+){3}|[0-9]+`)

// fail counts the failure of a visit or of a connection. Errors of faults are expected.
func (p *soakProgram) fail(err error) {
	const longest = 150
	cause := addresses.ReplaceAllString(strings.ReplaceAll(err.Error(), "\n", "; "), "N")
	cause = cause[:min(len(cause), longest)]
	p.add(func(d *SoakProgress) {
		if errors.Is(err, errWrong) || errors.Is(err, context.DeadlineExceeded) {
			d.Wrong = err.Error()
		}
		d.Failures++
		if d.Causes == nil {
			d.Causes = map[string]uint64{}
		}
		d.Causes[cause]++
	})
}

// SoakMain runs a program of a soak and ends the process. It returns in processes that have no such task.
func SoakMain() {
	v, ok := os.LookupEnv(soakEnv)
	if !ok {
		return
	}
	p := &soakProgram{}
	if err := json.Unmarshal([]byte(v), &p.soakTask); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		for in := bufio.NewScanner(os.Stdin); in.Scan(); {
			continue // the end of the input ends the program
		}
		cancel()
	}()
	go func() {
		for range time.Tick(time.Second) {
			p.print()
		}
	}()
	p.run(ctx)
	p.add(func(d *SoakProgress) { d.Ended = true })
	p.print()
	os.Exit(0)
}

// run does the task until the context ends, and looks at what is left then.
func (p *soakProgram) run(ctx context.Context) {
	if p.Kind == soakHostile {
		p.attack(ctx)
		return
	}
	// What the first device takes for good is not left over: descriptors of the runtime's poller, for example.
	if dev := p.open(ctx); dev != nil {
		_ = dev.Close()
	}
	descriptors, goroutines := ownDescriptors(), runtime.NumGoroutine()
	for ctx.Err() == nil {
		dev := p.open(ctx)
		if dev == nil {
			break
		}
		switch p.Kind {
		case soakServer:
			p.serve(ctx, dev)
		case soakClient:
			p.visit(ctx, dev)
		}
		_ = dev.Close() // an error says that the device had ended before
	}
	p.left(descriptors, goroutines)
}

// open opens the device. It waits while no agent serves it, and returns nil at the end of the context.
func (p *soakProgram) open(ctx context.Context) verbs.Device {
	for ctx.Err() == nil {
		dev, err := rdma.Open(ctx, topo.IfName, rdma.WithConfig(client.Config{RunDir: p.RunDir}))
		if err == nil {
			p.add(func(d *SoakProgress) { d.Opened++ })
			return dev
		}
		// A device that ends during the handshake is one that is not served.
		gone := errors.Is(err, rdma.ErrNotServing) || errors.Is(err, rdma.ErrNotAttached) || errors.Is(err, rdma.ErrNoNIC) || errors.Is(err, verbs.ErrGone)
		if ctx.Err() == nil && !gone {
			p.fail(fmt.Errorf("open: %w", err))
		}
		pause(ctx, 100*time.Millisecond)
	}
	return nil
}

// pause waits for a time or for the end of the context.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

func ownDescriptors() int {
	entries, _ := os.ReadDir("/proc/self/fd")
	return len(entries)
}

// left waits until the program has no more descriptors and goroutines than before, and notes what stays.
func (p *soakProgram) left(descriptors, goroutines int) {
	const limit = 20 * time.Second // Close of a connection and its keep-alive end within it
	for end := time.Now().Add(limit); ; time.Sleep(50 * time.Millisecond) {
		d, g := ownDescriptors(), runtime.NumGoroutine()
		if d <= descriptors && g <= goroutines {
			return
		}
		if time.Now().After(end) {
			p.add(func(done *SoakProgress) { done.Left = leftText(d-descriptors, g-goroutines) })
			return
		}
	}
}

// leftText describes descriptors and goroutines that are left, with the stacks of the goroutines and the names of the
// descriptors.
func leftText(descriptors, goroutines int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d descriptors and %d goroutines more than before the first connection\n", descriptors, goroutines)
	entries, _ := os.ReadDir("/proc/self/fd")
	for _, e := range entries {
		name, _ := os.Readlink("/proc/self/fd/" + e.Name())
		fmt.Fprintf(&b, "descriptor %s: %s\n", e.Name(), name)
	}
	stacks := make([]byte, 1<<16)
	b.Write(stacks[:runtime.Stack(stacks, true)])
	return b.String()
}

// attack opens sockets of the device server and sends random messages, until the context ends. The server refuses
// them or ends the connection.
func (p *soakProgram) attack(ctx context.Context) {
	r := soakRand(p.Seed)
	for ctx.Err() == nil {
		c, err := proto.Dial(ctx, proto.SocketPath(p.RunDir, topo.IfName))
		if err != nil {
			pause(ctx, 100*time.Millisecond) // no agent serves now
			continue
		}
		_ = c.SetDeadline(time.Now().Add(time.Second)) // the server may read no more of its messages for a while
		if r.IntN(4) != 0 {                            // most connections begin as the protocol wants it
			_ = proto.Write(c, proto.Append(nil, proto.Header{Type: proto.THello, Seq: 1}, &proto.Hello{Magic: proto.Magic, Version: proto.Version}))
		}
		for range r.IntN(200) {
			m := make([]byte, proto.HeaderBytes+r.IntN(300))
			for i := range m {
				m[i] = byte(r.Uint32() >> (r.IntN(4) * 8))
			}
			if r.IntN(3) != 0 { // a type that exists
				m[0], m[1], m[2], m[3] = byte(1+r.IntN(int(proto.TEncryptQP))), byte(r.IntN(4)), 0, 0
			}
			if proto.Write(c, m) != nil {
				break
			}
			p.add(func(d *SoakProgress) { d.Operations++ })
		}
		answer := make([]byte, proto.MaxMessage)
		if _, fds, err := proto.Read(c, answer); err == nil {
			proto.CloseFDs(fds)
		}
		_ = c.Close()
		p.add(func(d *SoakProgress) { d.Visits++ })
		pause(ctx, 20*time.Millisecond)
	}
}
