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
	"github.com/softroce/softroce-xdp/testenv/bench/internal/compare"
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

// nextTo is a measurement of the victim next to a hostile process, or alone.
type nextTo struct {
	rate  float64 // messages a second of the victim
	agent float64 // percent of a core of the agent while the victim does nothing
}

// nextToHostile compares a process next to each kind of hostile process with the same next to one that
// uses a core and not the device.
func nextToHostile(ctx context.Context, w *world, c config, r *compare.Report) error {
	kinds := slices.DeleteFunc(hostiles()[1:], func(h hostile) bool { return !strings.Contains(h.does, c.match) })
	var got compare.Referred[nextTo]
	err := w.children(ctx, 1, 64<<10, 16, c.each, func(victim []*child) (err error) {
		candidate := func(h hostile) compare.Candidate[nextTo] {
			return compare.Candidate[nextTo]{Name: "next to a process that " + h.does, Measure: func(ctx context.Context) (nextTo, error) {
				return withHostile(ctx, w, h.name, victim)
			}}
		}
		all := []compare.Candidate[nextTo]{{Name: "alone", Measure: func(context.Context) (nextTo, error) {
			v, err := together(victim)
			if err != nil {
				return nextTo{}, err
			}
			return nextTo{rate: v[0]}, nil
		}}}
		for _, h := range kinds {
			all = append(all, candidate(h))
		}
		got, err = compare.Refer(ctx, c.rounds, candidate(hostiles()[0]), all...)
		return err
	})
	if err != nil {
		return err
	}
	rate := func(x nextTo) float64 { return x.rate }
	alone := got.Runs[0].Series(rate)
	t := r.Titled("Throughput of a client process next to a hostile one, WRITE of 64 KB",
		"NEXT TO A PROCESS THAT\tNEXT TO SPIN\tTARGET\t\tALONE\tSPIN OF ALONE\tAGENT\t")
	for i, h := range kinds {
		share := got.Shares(i+1, rate)
		t.Row("%s\t%.2f\t%s\t%.2f\t%.2f\t%.1f %%", h.does, share.Median(), t.Median(victimTarget, share),
			got.Runs[i+1].Series(rate).Over(alone).Median(), got.Around(i+1, rate).Over(alone).Median(),
			got.Runs[i+1].Series(func(x nextTo) float64 { return x.agent }).Median())
	}
	t.End(
		"NEXT TO SPIN: of the throughput next to a process that uses a core and not the device. ALONE: of the throughput alone.",
		"SPIN OF ALONE: throughput next to that process, of the throughput alone. AGENT: of a core, with the hostile process alone.",
	)
	return nil
}

// withHostile measures the victim next to a process of a kind.
func withHostile(ctx context.Context, w *world, kind string, victim []*child) (x nextTo, err error) {
	st, err := loader.ReadState(w.options(w.top.Host(1)).RunDir, cableName)
	if err != nil {
		return x, err
	}
	h, err := w.hostile(ctx, kind)
	if err != nil {
		return x, err
	}
	defer h.kill()
	if kind != baseline {
		begin, start := cpuOf(st.AgentPID), time.Now()
		select {
		case <-time.After(agentTime):
		case <-ctx.Done():
			return x, ctx.Err()
		}
		x.agent = 100 * float64(cpuOf(st.AgentPID)-begin) / float64(time.Since(start))
	}
	v, err := together(victim)
	if err != nil {
		return x, err
	}
	if !h.runs() {
		return x, errors.New("it has ended")
	}
	x.rate = v[0]
	return x, nil
}

// agentTime is how long the CPU time of the agent is measured.
const agentTime = 500 * time.Millisecond
