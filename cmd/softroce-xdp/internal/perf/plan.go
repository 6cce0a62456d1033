// SPDX-License-Identifier: Apache-2.0

// Package perf measures the transport: a client and a server on two hosts, like
// perftest. They agree over TCP on what is measured (proto.go) and make their queue pairs (end.go).
// The client (client.go) posts (drive.go), takes the figures (measure.go) and reports (report.go); the
// server (serve.go) receives (receive.go).
package perf

import (
	"errors"
	"fmt"
	"time"

	"github.com/softroce/softroce-xdp/cmd/internal/cli"
	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/ooo"
	"github.com/softroce/softroce-xdp/rocev2/seal"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// Operations that can be measured, by the names the user gives them.
var Operations = map[string]verbs.Op{
	"write": verbs.OpWrite, "read": verbs.OpRead, "send": verbs.OpSend,
	"fetch-add": verbs.OpFetchAdd, "compare-swap": verbs.OpCompareSwap,
}

// Plan is what a run does. The client makes it and sends it to the server.
type Plan struct {
	Op       string        `json:"operation"`
	Service  string        `json:"service"`               // rc, uc, ud or ooo
	Size     uint32        `json:"size"`                  // bytes a message
	QPs      int           `json:"qps"`                   // queue pairs, each with its own message stream
	Depth    int           `json:"depth"`                 // messages outstanding on each
	Latency  bool          `json:"latency"`               // one message at a time, each timed
	Duration time.Duration `json:"duration_ns,omitempty"` // duration of the measurement; or
	Count    uint64        `json:"count,omitempty"`       // messages on each queue pair
	Warmup   time.Duration `json:"warmup_ns"`             // time before the measurement
	MTU      int           `json:"mtu"`                   // path MTU in bytes, 0 = the largest that fits
	Payload  int           `json:"payload,omitempty"`     // most data of a packet of ooo, 0 = path MTU
	Check    bool          `json:"check"`                 // the receiver compares all data at the end
	Private  bool          `json:"private_memory"`        // memory of the process, not shared with an agent
	Timeout  uint8         `json:"timeout"`               // code of the ACK timeout
	Retries  uint8         `json:"retries"`
	// Encrypted runs have a handshake for each queue pair.
	Encrypted bool `json:"encrypted,omitempty"`
	Fit       bool `json:"-"` // datagrams shrink to the path MTU
}

// Limits of a plan.
const (
	MaxSize  = 1 << 30
	MaxQPs   = 16384
	MaxDepth = 8192
	// MaxMemory is what a run may register: one message for each queue pair.
	MaxMemory = 4 << 30
	// MaxOutstanding is how many messages of a run may be outstanding: each may have a
	// completion, and a receive in reserve, in the same completion queue, of which the
	// engine has at most 1<<22.
	MaxOutstanding = (1<<22 - 16) / 2
	maxDuration    = 24 * time.Hour
)

// memory is what a run registers at each end, in bytes.
func (p *Plan) memory() uint64 { return p.stride() * uint64(p.QPs) }

// reliable reports whether every message arrives.
func (p *Plan) reliable() bool { return p.Service == "rc" || p.Service == "ooo" }

// operation is what is posted: in out-of-order mode the message primitive is WRITE with a notification.
func (p *Plan) operation() verbs.Op {
	if p.Service == "ooo" && p.Op == "send" {
		return verbs.OpWriteNotify
	}
	return Operations[p.Op]
}

func (p *Plan) atomic() bool {
	op := Operations[p.Op]
	return op == verbs.OpFetchAdd || op == verbs.OpCompareSwap
}

// stride is from the memory of one queue pair to that of the next.
func (p *Plan) stride() uint64 {
	n := uint64(p.Size)
	if p.Service == "ud" {
		n += verbs.GRHLen
	}
	return (n + 63) &^ 63
}

// checkService returns why the service does not have what the plan wants.
func (p *Plan) checkService() error {
	op, ok := Operations[p.Op]
	atomic := p.atomic()
	switch {
	case !ok:
		return fmt.Errorf("no operation %q: choose write, read, send, fetch-add or compare-swap", p.Op)
	case services[p.Service] == 0:
		return fmt.Errorf("no service %q: choose rc, uc, ud or ooo", p.Service)
	case p.Service == "uc" && (op == verbs.OpRead || atomic):
		return fmt.Errorf("%s needs --service rc: an unreliable connection has no answers", p.Op)
	case p.Service == "ooo" && atomic:
		return fmt.Errorf("%s needs --service rc: out-of-order mode has no atomics", p.Op)
	case p.Service == "ud" && op != verbs.OpSend:
		return fmt.Errorf("%s needs --service rc or uc: datagrams can only be sent", p.Op)
	case p.Payload != 0 && p.Service != "ooo":
		return errors.New("--payload needs --service ooo: packets of the others have the path MTU")
	case p.Payload != 0 && ooo.CheckPayload(p.Payload) != nil:
		return fmt.Errorf("--payload %d: choose a multiple of 4 in %d to %d", p.Payload, ooo.MinPayload, ooo.MaxPayload)
	case p.Encrypted && p.Service == "ud":
		return errors.New("--encrypt needs --service rc or uc: a queue pair for datagrams has many peers")
	case atomic && p.Size != 8:
		return fmt.Errorf("%s acts on 8 bytes: leave --size out", p.Op)
	}
	return nil
}

// Validate returns an error that says what does not fit together.
func (p *Plan) Validate() error {
	if err := p.checkService(); err != nil {
		return err
	}
	switch {
	case p.Size == 0 || p.Size > MaxSize:
		return fmt.Errorf("--size %d: choose 1B to %s", p.Size, cli.Bytes(MaxSize))
	case p.QPs < 1 || p.QPs > MaxQPs:
		return fmt.Errorf("--qps %d: choose 1 to %d", p.QPs, MaxQPs)
	case p.Depth < 1 || p.Depth > MaxDepth:
		return fmt.Errorf("--depth %d: choose 1 to %d", p.Depth, MaxDepth)
	case p.Latency && (p.QPs != 1 || p.Depth != 1):
		return errors.New("--latency sends one message at a time: leave --qps and --depth out")
	case p.Latency && !p.reliable():
		return errors.New("--latency needs --service rc or ooo: only these have acknowledgements to wait for")
	case (p.Duration == 0) == (p.Count == 0):
		return errors.New("choose --duration or --messages")
	case p.Duration < 0 || p.Duration > maxDuration || p.Warmup < 0 || p.Warmup > maxDuration:
		return fmt.Errorf("--duration %v after --warmup %v: choose up to %v", p.Duration, p.Warmup, maxDuration)
	case p.Timeout > 31 || p.Retries > 7:
		return fmt.Errorf("--timeout %d, --retries %d: choose up to 31 and 7", p.Timeout, p.Retries)
	case p.Check && !p.reliable():
		return errors.New("--check needs --service rc or ooo: the others may lose messages")
	case p.Check && p.atomic():
		return fmt.Errorf("--check compares data that was written, read or sent: %s has none", p.Op)
	case p.Depth*p.QPs > MaxOutstanding:
		return fmt.Errorf("--depth times --qps is %d messages outstanding: at most %d", p.Depth*p.QPs, MaxOutstanding)
	case p.memory() > MaxMemory:
		return fmt.Errorf("--size times --qps is %s of memory: at most %s", cli.Bytes(p.memory()), cli.Bytes(MaxMemory))
	}
	if p.MTU != 0 {
		if _, err := p.pmtu(0); err != nil {
			return err
		}
	}
	return nil
}

// fit returns the path MTU of the run, and lowers the size of datagrams to it if the plan permits that.
func (p *Plan) fit(ifMTU int) (rocev2.PMTU, error) {
	pmtu, err := p.pmtu(ifMTU)
	if err != nil || p.Service != "ud" || int(p.Size) <= pmtu.Bytes() {
		return pmtu, err
	}
	if !p.Fit {
		return 0, fmt.Errorf("a datagram holds at most the path MTU of %d bytes, not %d: leave --size out, or lower it", pmtu.Bytes(), p.Size)
	}
	p.Size = uint32(pmtu.Bytes())
	return pmtu, nil
}

// pmtu is the path MTU of the run on an interface of that MTU.
func (p *Plan) pmtu(ifMTU int) (rocev2.PMTU, error) {
	overhead := rocev2.PMTUOverhead
	switch {
	case p.Encrypted:
		overhead += seal.Overhead
	case p.Service == "ooo":
		overhead = max(overhead, ooo.Overhead(true))
	}
	if p.MTU == 0 {
		m, ok := rocev2.PMTUForMTU(ifMTU + rocev2.PMTUOverhead - overhead)
		if !ok {
			return 0, fmt.Errorf("the interface's MTU of %d is too small for RoCE: set at least %d", ifMTU, 256+overhead)
		}
		return m, nil
	}
	for m := rocev2.PMTU256; m.Valid(); m++ {
		if m.Bytes() == p.MTU {
			if ifMTU != 0 && p.MTU > ifMTU-overhead {
				return 0, fmt.Errorf("--mtu %d does not fit the interface's MTU of %d: that needs %d", p.MTU, ifMTU, p.MTU+overhead)
			}
			return m, nil
		}
	}
	return 0, fmt.Errorf("--mtu %d: choose 256, 512, 1024, 2048 or 4096", p.MTU)
}
