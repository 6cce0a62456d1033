// SPDX-License-Identifier: Apache-2.0

package nicbench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/softroce/softroce-xdp/testenv/bench/internal/stats"
)

// hostile is a kind of process that costs others as much as it can. Its loop runs until the process is
// killed.
type hostile struct {
	name, does string
	loop       func(dir string) error
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
	time.AfterFunc(warmUp, func() { fmt.Println("ready") })
	return all[i].loop(dir)
}

func spin(string) error {
	for i := uint64(0); ; i++ {
		spinSink = i
	}
}

var spinSink uint64

// nextToHostile compares a process next to each kind of hostile process with the same next to one that
// uses a core and not the device.
func nextToHostile(ctx context.Context, w *world, c config, r *report) error {
	all := hostiles()
	alone, next := make([][]float64, len(all)), make([][]float64, len(all))
	err := w.children(ctx, 1, 64<<10, 16, c.each, func(victim []*child) error {
		for range c.rounds {
			for i, h := range all {
				before, err := together(victim)
				if err != nil {
					return err
				}
				with, err := w.besides(ctx, h.name, victim)
				if err != nil {
					return fmt.Errorf("a process that %s: %w", h.does, err)
				}
				after, err := together(victim)
				if err != nil {
					return err
				}
				alone[i] = append(alone[i], (before[0]+after[0])/2)
				next[i] = append(next[i], with)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	usual := ratios(next[0], alone[0])
	r.row("throughput next to a process that %s, of that alone\t%.2f\t%s", all[0].does, stats.Median(usual), none)
	for i, h := range all[1:] {
		of := ratios(next[i+1], alone[i+1])
		share := stats.Median(of) / stats.Median(usual)
		r.row("next to a process that %s, of that next to one that %s (of that alone: %.2f)\t%.2f\t%s",
			h.does, all[0].does, stats.Median(of), share, r.atLeast(share, victimTarget, "%.2f"))
	}
	return nil
}

// besides returns the rate of the victim next to a hostile process.
func (w *world) besides(ctx context.Context, kind string, victim []*child) (rate float64, err error) {
	h, err := w.hostile(ctx, kind)
	if err != nil {
		return 0, err
	}
	defer h.kill()
	v, err := together(victim)
	if err != nil {
		return 0, err
	}
	if !h.runs() {
		return 0, errors.New("it has ended")
	}
	return v[0], nil
}
