// SPDX-License-Identifier: Apache-2.0

package rtl

import (
	"bufio"
	"bytes"
	"context"
	_ "embed"
	"fmt"
	"io"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

//go:embed bench.cpp.tmpl
var benchMain string

// batch is how many lines are written before their answers are read. Their answers fit a
// pipe, so neither side blocks the other.
const batch = 128

// maxRun ends a simulation that does not end.
const maxRun = 10 * time.Minute

// Ports are names of ports of a module, each of at most 64 bits. Clock may be empty: then the
// module has none. With a clock, the module has an input rst too, which StartBench sets for two
// clocks.
type Ports struct {
	Clock   string
	Inputs  []string
	Outputs []string
}

// Result is what a module answered: the values of its outputs, and after how many clocks.
type Result struct {
	Clocks  int
	Outputs []uint64
}

// Bench is a running simulation of a module. Inputs are in the order of the ports, and must
// not have more bits than theirs.
type Bench struct {
	ports  Ports
	cmd    *exec.Cmd
	cancel context.CancelFunc
	in     io.WriteCloser
	out    *bufio.Scanner
	stderr bytes.Buffer
}

// StartBench builds and starts a simulation. Close ends it, and so does the end of ctx.
func StartBench(ctx context.Context, top string, ports Ports, sources ...Source) (*Bench, error) {
	if ports.Clock != "" {
		ports.Inputs = append(append([]string{}, ports.Inputs...), "rst")
	}
	program, err := BuildModule(ctx, top, append(append([]Source{}, sources...), Source{"bench.cpp", ports.main(top)})...)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, maxRun)
	b := &Bench{ports: ports, cancel: cancel, cmd: exec.CommandContext(ctx, program)}
	b.cmd.Stderr = &b.stderr
	b.cmd.WaitDelay = time.Second
	if b.in, err = b.cmd.StdinPipe(); err != nil {
		cancel()
		return nil, err
	}
	out, err := b.cmd.StdoutPipe()
	if err != nil {
		cancel()
		return nil, err
	}
	b.out = bufio.NewScanner(out)
	if err := b.cmd.Start(); err != nil {
		cancel()
		return nil, err
	}
	return b, b.reset()
}

// reset sets rst for two clocks, with all other inputs 0.
func (b *Bench) reset() error {
	if b.ports.Clock == "" {
		return nil
	}
	in := make([]uint64, len(b.ports.Inputs))
	in[len(in)-1] = 1
	_, err := b.each('c', [][]uint64{in, in})
	return err
}

// Close ends the simulation.
func (b *Bench) Close() {
	b.cancel()
	b.in.Close()
	b.cmd.Wait()
}

// Cycle sets the inputs, and returns the outputs of the same clock, before its rising edge.
func (b *Bench) Cycle(in ...uint64) ([]uint64, error) {
	r, err := b.Cycles([][]uint64{in})
	if err != nil {
		return nil, err
	}
	return r[0].Outputs, nil
}

// Cycles is Cycle for many clocks.
func (b *Bench) Cycles(in [][]uint64) ([]Result, error) { return b.each('c', b.withReset(in)) }

// Run sets the inputs for one clock, then clears the first, and clocks until the first output
// is not 0. It does so for each element of in.
func (b *Bench) Run(in [][]uint64) ([]Result, error) { return b.each('r', b.withReset(in)) }

// withReset appends rst = 0.
func (b *Bench) withReset(in [][]uint64) [][]uint64 {
	if b.ports.Clock == "" {
		return in
	}
	all := make([][]uint64, len(in))
	for i := range in {
		all[i] = append(append([]uint64{}, in[i]...), 0)
	}
	return all
}

func (b *Bench) each(command byte, in [][]uint64) (results []Result, err error) {
	for len(in) > 0 {
		n := min(len(in), batch)
		if results, err = b.some(command, in[:n], results); err != nil {
			return nil, fmt.Errorf("simulation: %w", err)
		}
		in = in[n:]
	}
	return results, nil
}

// some executes up to batch commands.
func (b *Bench) some(command byte, in [][]uint64, results []Result) ([]Result, error) {
	var text []byte
	for _, values := range in {
		if len(values) != len(b.ports.Inputs) {
			return nil, fmt.Errorf("%d values for inputs %v", len(values), b.ports.Inputs)
		}
		text = append(text, command)
		for _, v := range values {
			text = strconv.AppendUint(append(text, ' '), v, 16)
		}
		text = append(text, '\n')
	}
	if _, err := b.in.Write(text); err != nil {
		return nil, b.ended(err)
	}
	for range in {
		if !b.out.Scan() {
			return nil, b.ended(io.ErrUnexpectedEOF)
		}
		r, err := b.parse(b.out.Text())
		if err != nil {
			return nil, err
		}
		results = append(results, r)
	}
	return results, nil
}

// ended ends the program, and adds what it wrote to stderr.
func (b *Bench) ended(err error) error {
	b.in.Close()
	b.cmd.Wait() // only then is stderr complete
	return fmt.Errorf("%w: %s", err, b.stderr.String())
}

func (b *Bench) parse(line string) (r Result, err error) {
	fields := strings.Fields(line)
	if len(fields) != 1+len(b.ports.Outputs) {
		return r, fmt.Errorf("answer %q for outputs %v", line, b.ports.Outputs)
	}
	for i, f := range fields {
		v, err := strconv.ParseUint(f, 16, 64)
		if err != nil {
			return r, fmt.Errorf("answer %q: %w", line, err)
		}
		if i == 0 {
			r.Clocks = int(v)
		} else {
			r.Outputs = append(r.Outputs, v)
		}
	}
	return r, nil
}

// main is the C++ of the bench for a module.
func (p *Ports) main(top string) string {
	var set, print strings.Builder
	for i, name := range p.Inputs {
		fmt.Fprintf(&set, "top.%s = in[%d];\n", name, i)
	}
	for _, name := range p.Outputs {
		fmt.Fprintf(&print, "std::printf(\" %%\" PRIx64, (uint64_t)top.%s);\n", name)
	}
	clock := "top.eval();"
	if p.Clock != "" {
		clock = fmt.Sprintf("top.%[1]s = 1; top.eval(); top.%[1]s = 0; top.eval();", p.Clock)
	}
	clear, done := "", "true"
	if len(p.Inputs) > 0 {
		clear = fmt.Sprintf("top.%s = 0;", p.Inputs[0])
	}
	if len(p.Outputs) > 0 {
		done = "top." + p.Outputs[0]
	}
	return strings.NewReplacer("@TOP@", top, "@INPUTS@", strconv.Itoa(len(p.Inputs)), "@CLOCK@", clock,
		"@PRINT@", print.String(), "@SET@", set.String(), "@CLEAR@", clear, "@DONE@", done).Replace(benchMain)
}
