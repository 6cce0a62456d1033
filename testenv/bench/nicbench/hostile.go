// SPDX-License-Identifier: Apache-2.0

package nicbench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/softroce/softroce-xdp/loader"
	"github.com/softroce/softroce-xdp/testenv/bench/internal/status"
)

// hostile is a kind of process that costs others as much as it can. Its loop calls ready when it begins,
// and runs until the process is killed.
type hostile struct {
	name, does string
	loop       func(dir string, ready func()) error
}

// baseline uses one core without the device, which every process may. The others are compared with it.
const baseline = "spin"

func hostiles() []hostile {
	return []hostile{
		{baseline, "uses one core", spin},
		{"random", "sends random control messages", randomMessages},
		{"connect", "connects to the socket and closes it", connectOnly},
		{"open", "opens the device and closes it", openClose},
		{"status", "asks for the status", askStatus},
		{"register", "registers and deregisters 64 MB of its memory", registerMemory},
		{"qps", "creates and destroys queue pairs", createQPs},
		{"modify", "moves a queue pair between RESET and INIT", modifyQP},
		{"cm", "listens, connects and resolves", manyConnections},
		{"doorbell", "rings the doorbell for 2048 empty rings", ringDoorbell},
		{"arm", "arms 64 empty completion queues and signals the engine", armQueues},
	}
}

// warmUp is how long a hostile process runs before the measurement: a process may use at once what it
// has not used before, which is not what is measured.
const warmUp = 1500 * time.Millisecond

// attack runs a hostile process until it is killed.
func attack(dir, kind string) error {
	all := hostiles()
	i := slices.IndexFunc(all, func(h hostile) bool { return h.name == kind })
	if i < 0 {
		return fmt.Errorf("no kind of hostile process is %q", kind)
	}
	return all[i].loop(dir, func() {
		if kind == baseline {
			fmt.Println("ready")
			return
		}
		time.AfterFunc(warmUp, func() { fmt.Println("ready") })
	})
}

func spin(_ string, ready func()) error {
	ready()
	var n atomic.Uint64
	for {
		n.Add(1)
	}
}

// nextToHostile compares a process next to each kind of hostile process with the same next to one that
// uses a core and not the device.
func nextToHostile(ctx context.Context, w *world, c config, r *report) error {
	kinds := slices.DeleteFunc(hostiles()[1:], func(h hostile) bool { return !strings.Contains(h.does, c.match) })
	got := make([]besides, len(kinds))
	err := w.children(ctx, 1, 64<<10, 16, c.each, func(victim []*child) error {
		for range c.rounds {
			for i, h := range kinds {
				if err := got[i].round(ctx, w, h.name, victim); err != nil {
					return fmt.Errorf("next to a process that %s: %w", h.does, err)
				}
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	r.table("Throughput of a client process next to a hostile one, WRITE of 64 KB", "NEXT TO A PROCESS THAT\tNEXT TO SPIN\tTARGET\t\tALONE\tSPIN OF ALONE\tAGENT")
	for i, h := range kinds {
		g := got[i]
		share := status.Median(ratios(g.next, g.spinning))
		r.row("%s\t%.2f\t%s\t%.2f\t%.2f\t%.1f %%", h.does, share, r.atLeast(share, victimTarget, "%.2f"),
			status.Median(ratios(g.next, g.alone)), status.Median(ratios(g.spinning, g.alone)), status.Median(g.agent))
	}
	r.end(
		"NEXT TO SPIN: of the throughput next to a process that uses a core and not the device. ALONE: of the throughput alone.",
		"SPIN OF ALONE: throughput next to that process, of the throughput alone. AGENT: of a core, with the hostile process alone.",
	)
	return nil
}

// besides is what was measured with a kind of hostile process.
type besides struct {
	alone, spinning, next []float64 // messages a second of the victim: alone, next to the baseline, next to it
	agent                 []float64 // percent of a core of the agent while the victim does nothing
}

// round measures the baseline right before and right after, as the speed of the machine changes.
func (b *besides) round(ctx context.Context, w *world, kind string, victim []*child) error {
	alone, err := together(victim)
	if err != nil {
		return err
	}
	var rates [3]float64
	for i, k := range []string{baseline, kind, baseline} {
		if rates[i], err = b.with(ctx, w, k, victim); err != nil {
			return err
		}
	}
	b.alone, b.spinning, b.next = append(b.alone, alone[0]), append(b.spinning, (rates[0]+rates[2])/2), append(b.next, rates[1])
	return nil
}

// with returns the rate of the victim next to a process of a kind.
func (b *besides) with(ctx context.Context, w *world, kind string, victim []*child) (float64, error) {
	st, err := loader.ReadState(w.options(w.top.Host(1)).RunDir, cableName)
	if err != nil {
		return 0, err
	}
	h, err := w.hostile(ctx, kind)
	if err != nil {
		return 0, err
	}
	defer h.kill()
	if kind != baseline {
		begin, start := cpuOf(st.AgentPID), time.Now()
		select {
		case <-time.After(agentTime):
		case <-ctx.Done():
			return 0, ctx.Err()
		}
		b.agent = append(b.agent, 100*float64(cpuOf(st.AgentPID)-begin)/float64(time.Since(start)))
	}
	v, err := together(victim)
	if err != nil {
		return 0, err
	}
	if !h.runs() {
		return 0, errors.New("it has ended")
	}
	return v[0], nil
}

// agentTime is how long the CPU time of the agent is measured.
const agentTime = 500 * time.Millisecond
