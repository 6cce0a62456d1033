// SPDX-License-Identifier: Apache-2.0

package rtl

import (
	"bytes"
	"context"
	"embed"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"

	"github.com/softroce/softroce-xdp/hwoffload"
	"github.com/softroce/softroce-xdp/hwoffload/card"
	"github.com/softroce/softroce-xdp/hwoffload/regs"
)

//go:embed cpp
var cpp embed.FS

// Operations of the protocol that only a simulator has (docs/card/card-rtl.md).
const (
	opClock  = hwoffload.OpSimulator + iota // body: time (64), 1 = it runs, 0 = it stands still (64); no answer
	opStep                                  // body: cycles (64); no answer
	opCycles                                // no body; the answer is the number of cycles since the reset
	opPacket                                // body: below; no answer
	opStall                                 // body: flags below (64); no answer
)

// The numbers of opPacket, 64 bits each: element of the destination table; arrival in ns of
// the card's clock; bytes; flags of the stamp, with bit 8 for feedback, bit 9 for CE, and the AETH syndrome from bit 16
// on; token; T1; echoed T1; echoed T2; credit, with its sequence number from bit 32 on.
const (
	packetFeedback = 1 << 8
	packetCE       = 1 << 9
)

// ClockHz is the frequency of the cycles, by which the clock of the card counts nanoseconds: parameter
// CLK_HZ of softroce_card.
const ClockHz = 322265625

// Flags of opStall.
const (
	coresStall = 1 << iota // the memory takes no reads of the cores
	coresHold              // no cycles but those of messages
)

// Limits of the time that a simulator takes to start, and to answer.
const (
	startLimit  = time.Minute
	answerLimit = time.Minute
	endLimit    = 10 * time.Second
)

// Card is a simulated card. All methods may be called concurrently.
type Card struct {
	*hwoffload.Socket
	program *exec.Cmd
	stdin   io.Closer
	stderr  bytes.Buffer
	dir     string
	ended   chan error
	once    sync.Once // guard of end
}

// Sources returns the sources of the simulator: the modules, and its C++.
func Sources() ([]Source, error) {
	var all []Source
	for _, name := range CardFiles {
		text, err := Files.ReadFile(name)
		if err != nil {
			return nil, err
		}
		all = append(all, Source{Name: name, Text: string(text)})
	}
	for _, name := range []string{"card.h", "main.cpp"} {
		text, err := cpp.ReadFile("cpp/" + name)
		if err != nil {
			return nil, err
		}
		all = append(all, Source{Name: name, Text: string(text)})
	}
	return all, nil
}

// Start simulates the card of this version of the sources. Its clock stands still until
// SetClock. The first Start builds the simulator, which takes some seconds; later ones use
// the same program. ctx limits building, and ends the simulator.
func Start(ctx context.Context) (*Card, error) {
	sources, err := Sources()
	if err != nil {
		return nil, err
	}
	return StartSources(ctx, sources)
}

// Build builds the simulator of the card of some sources, and returns the path of the program.
// Its first argument is the path of the socket that it makes. With the second argument "wall"
// the clock of the card follows CLOCK_MONOTONIC. It ends when its standard input ends.
func Build(ctx context.Context, sources []Source) (program string, err error) {
	for _, name := range Programs {
		if _, err := exec.LookPath(name); err != nil {
			return "", fmt.Errorf("simulator of the card: %s is missing: apt-get install verilator g++ make", name)
		}
	}
	program, err = BuildModule(ctx, "softroce_card", sources...)
	if err != nil {
		return "", fmt.Errorf("simulator of the card: %w", err)
	}
	return program, nil
}

// StartSources simulates the card of other sources.
func StartSources(ctx context.Context, sources []Source) (*Card, error) {
	program, err := Build(ctx, sources)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "card")
	if err != nil {
		return nil, err
	}
	c := &Card{dir: dir, ended: make(chan error, 1)}
	if err := c.start(ctx, program); err != nil {
		os.RemoveAll(dir)
		return nil, fmt.Errorf("simulator of the card: %w", err)
	}
	return c, nil
}

func (c *Card) start(ctx context.Context, program string) error {
	path := filepath.Join(c.dir, "card.sock")
	c.program = exec.CommandContext(ctx, program, path)
	c.program.Stderr = &c.stderr
	c.program.WaitDelay = time.Second
	stdin, err := c.program.StdinPipe()
	if err != nil {
		return err
	}
	c.stdin = stdin
	if err := c.program.Start(); err != nil {
		return err
	}
	go func() { c.ended <- c.program.Wait() }()
	if err := c.connect(ctx, path); err != nil {
		c.program.Process.Kill()
		return err
	}
	return nil
}

// connect waits for the socket.
func (c *Card) connect(ctx context.Context, path string) error {
	for end := time.Now().Add(startLimit); ; {
		s, err := hwoffload.Dial("unix:"+path, answerLimit)
		if err == nil {
			c.Socket = s
			return nil
		}
		select {
		case failed := <-c.ended:
			return fmt.Errorf("ended: %v: %s", failed, c.stderr.String())
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(5 * time.Millisecond):
		}
		if time.Now().After(end) {
			return err
		}
	}
}

// Close ends the simulator.
func (c *Card) Close() error {
	err := c.Socket.Close()
	c.once.Do(c.end)
	return err
}

// end waits for the program, or kills it.
func (c *Card) end() {
	c.stdin.Close()
	select {
	case <-c.ended:
	case <-time.After(endLimit):
		c.program.Process.Kill()
		<-c.ended
	}
	os.RemoveAll(c.dir)
}

// Addr is the address of the simulator for hwoffload.Dial. One client at a time uses it.
func (c *Card) Addr() string { return "unix:" + filepath.Join(c.dir, "card.sock") }

// SetClock sets the clock of the card to a time, from which it counts the nanoseconds of the
// cycles, or stands still. The frequency of the cycles is ClockHz.
func (c *Card) SetClock(now uint64, runs bool) {
	run := uint64(0)
	if runs {
		run = 1
	}
	c.Post(opClock, now, run)
}

// Stall has the memory take no reads of the cores, until Run.
func (c *Card) Stall() { c.Post(opStall, coresStall) }

// Hold has the simulator make no cycles but those of accesses and of Step, until Run.
func (c *Card) Hold() { c.Post(opStall, coresHold) }

// Run ends Stall and Hold: while tasks are executed, there are cycles without an access.
func (c *Card) Run() { c.Post(opStall, 0) }

// Step simulates cycles without an access, at most 10^9.
func (c *Card) Step(cycles uint64) { c.Post(opStep, cycles) }

// Receive lets a packet of a node arrive at now, as Model.Receive of package card does. A packet
// of a node that has no entry changes nothing.
func (c *Card) Receive(node int, p *card.Packet, now uint64) {
	if node < 1 || node > regs.DestCount {
		return
	}
	s, flags := &p.Stamp, uint64(p.Stamp.Flags)
	if p.Feedback {
		flags |= packetFeedback
	}
	if p.CE {
		flags |= packetCE
	}
	flags |= uint64(p.Syndrome) << 16
	c.Post(opPacket, uint64(node-1), now, p.Bytes, flags, s.Token, s.T1, s.EchoT1, s.EchoT2, uint64(s.Credit)|uint64(s.CreditSeq)<<32)
}

// Cycles returns the number of cycles since the reset.
func (c *Card) Cycles() uint64 {
	n, err := c.Call(opCycles)
	if err != nil {
		return 0
	}
	return n
}
